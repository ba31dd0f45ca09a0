// SPDX-License-Identifier: Apache-2.0
// --check: when, and what all ranks have, on every rank.
//
// Algorithm: every rank fills its atoms' positions into an array of all and the arrays are added
// up; atoms' numbers go through the halo as sites do at a partition. Each rank then judges by
// itself, and all get one verdict. Advantage: the plan is not asked what it should have brought.
// Disadvantage: all pairs on every rank, so it is for systems of up to some 10^5 atoms.

#include "core/error.h"
#include "md/halo_check_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void md_halo_fault(struct md_halo_check *check, const char *format, ...)
{
    if (check->faults++)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->fault, sizeof check->fault, format, arguments);
    va_end(arguments);
}

// ---- When ----

static int read_steps(struct md_halo_check *check, const char *text)
{
    size_t count = 1;
    for (const char *at = text; *at; at++)
        count += *at == ',';
    check->steps = calloc(count, sizeof *check->steps);
    if (!check->steps)
        return leat_fail(-ENOMEM, "no memory for the steps of --check");
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long long step = strtoll(at, &end, 10);
        if (end == at || errno || step < 0 || (*end && *end != ','))
            return leat_fail(-EINVAL, "--check \"%s\": expected steps, as in 0,10,25", text);
        check->steps[check->step_count++] = step;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

bool md_halo_check_due(const struct md_rank *rank, int64_t step)
{
    const struct md_halo_check *check = rank->check;
    if (!check)
        return false;
    for (int i = 0; i < check->step_count; i++)
        if (check->steps[i] == step)
            return true;
    return !check->steps && step % rank->options->check_every == 0;
}

// ---- Set-up ----

static void find_molecules(const struct md_system *system, struct md_halo_check *check)
{
    const struct md_topology *topology = system->topology;
    int64_t atom = 0;
    for (int b = 0; b < topology->block_count; b++) {
        const struct md_molecule_block *block = &topology->blocks[b];
        int atoms = topology->molecule_types[block->type].atom_count;
        for (int64_t i = 0; i < block->count * atoms; i++, atom++) {
            check->first[atom] = atom - i % atoms;
            check->molecule[atom] = block->type;
        }
    }
}

int md_halo_check_open(struct md_rank *rank)
{
    const struct md_options *options = rank->options;
    int64_t atoms = rank->system.atom_count;
    if (!options->check_every && !options->check_steps)
        return 0;
    if (options->device != MD_DEVICE_CPU)
        return leat_fail(-ENOTSUP, "--check looks at what the CPU computes; leave --device out");
    if (atoms > MD_HALO_CHECK_ATOMS)
        return leat_fail(-E2BIG,
                         "--check compares all pairs of %lld atoms; at most %d can be done in "
                         "reasonable time, so repeat the input less often",
                         (long long)atoms, MD_HALO_CHECK_ATOMS);
    struct md_halo_check *check = calloc(1, sizeof *check);
    rank->check = check;
    if (check) {
        check->all = malloc((size_t)atoms * ALL_WORDS * sizeof *check->all);
        check->first = malloc((size_t)atoms * sizeof *check->first);
        check->molecule = malloc((size_t)atoms * sizeof *check->molecule);
    }
    if (!check || !check->all || !check->first || !check->molecule)
        return leat_fail(-ENOMEM, "no memory to check %lld atoms", (long long)atoms);
    find_molecules(&rank->system, check);
    int error = options->check_steps ? read_steps(check, options->check_steps) : 0;
    // A check that is never made must not pass for one.
    for (int64_t i = 0; !error && i < (int64_t)check->step_count; i++)
        if (check->steps[i] > rank->system.settings.steps)
            error = leat_fail(-EINVAL, "--check names step %lld, but the run ends at step %lld",
                              (long long)check->steps[i], (long long)rank->system.settings.steps);
    return error;
}

void md_halo_check_close(struct md_rank *rank)
{
    struct md_halo_check *check = rank->check;
    if (!check)
        return;
    void *arrays[] = {check->steps,      check->all,          check->listed,    check->first,
                      check->molecule,   check->view.id,      check->view.x_nm, check->view.zone,
                      check->view.f,     check->place,        check->f_wanted,  check->f_gross,
                      check->wanted.key, check->computed.key, check->built.key, check};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    rank->check = NULL;
}

const struct md_halo_checked *md_halo_check_sum(const struct md_rank *rank)
{
    return rank->check ? &rank->check->sum : NULL;
}

// ---- What there is ----

static double image_value(const struct md_rank *rank, enum md_field field, size_t i)
{
    const void *data = rank->domain.image[field].data;
    return rank->options->precision == MD_DOUBLE ? ((const double *)data)[i]
                                                 : (double)((const float *)data)[i];
}

void md_halo_check_begin(struct md_rank *rank)
{
    struct md_halo_check *check = rank->check;
    if (!check)
        return;
    uint32_t count = (uint32_t)rank->domain.atoms.count;
    if (count > check->at_home || !check->listed) {
        free(check->listed);
        check->listed = malloc(3 * ((size_t)count + 1) * sizeof *check->listed);
        check->at_home = count;
    }
    // What is missing for want of memory is told by the next check.
    for (size_t i = 0; check->listed && i < 3 * (size_t)count; i++)
        check->listed[i] = image_value(rank, FIELD_X, i);
}

static int make_room(struct md_halo_check *check, uint32_t elements)
{
    struct md_halo_view *view = &check->view;
    if (elements <= check->room && view->id)
        return check->listed ? 0 : leat_fail(-ENOMEM, "no memory to check a partition");
    size_t count = (size_t)elements + elements / 8 + 1;
    void *old[] = {view->id,     view->x_nm,      view->zone,    view->f,
                   check->place, check->f_wanted, check->f_gross};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        free(old[i]);
    view->id = malloc(count * sizeof *view->id);
    view->x_nm = malloc(3 * count * sizeof *view->x_nm);
    view->zone = malloc(count);
    view->f = malloc(3 * count * sizeof *view->f);
    check->place = malloc(count * sizeof *check->place);
    check->f_wanted = malloc(3 * count * sizeof *check->f_wanted);
    check->f_gross = malloc(count * sizeof *check->f_gross);
    check->room = (uint32_t)(count - 1);
    if (!view->id || !view->x_nm || !view->zone || !view->f || !check->place || !check->f_wanted ||
        !check->f_gross || !check->listed)
        return leat_fail(-ENOMEM, "no memory to check %u atoms and ghosts", elements);
    return 0;
}

static void fill_own(struct md_rank *rank)
{
    struct md_halo_check *check = rank->check;
    const struct md_halo_view *view = &check->view;
    memset(check->all, 0, (size_t)rank->system.atom_count * ALL_WORDS * sizeof *check->all);
    for (int i = 0; i < view->home_count; i++) {
        double *word = check->all + ALL_WORDS * rank->domain.id[i];
        memcpy(word + ALL_X, view->x_nm + 3 * (size_t)i, 3 * sizeof *word);
        memcpy(word + ALL_LISTED, check->listed + 3 * (size_t)i, 3 * sizeof *word);
        word[ALL_OWNER] = rank->rank;
        word[ALL_COUNT] += 1.0;
    }
}

// Numbers of atoms by the way of sites, which nobody looks at before the next partition.
static int bring_ids(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    struct md_halo_view *view = &rank->check->view;
    int32_t *number = domain->image[FIELD_SITE].data;
    for (int i = 0; i < view->home_count; i++)
        number[i] = (int32_t)domain->id[i];
    for (int i = view->home_count; i < view->element_count; i++)
        number[i] = -1;
    int error = leat_halo_exchange(domain->halo, FIELD_SITE, LEAT_FORWARD);
    for (int i = 0; i < view->element_count; i++)
        view->id[i] = number[i];
    return error;
}

int md_halo_check_collect(struct md_rank *rank, struct md_halo_view *view)
{
    struct md_halo_check *check = rank->check;
    struct md_domain *domain = &rank->domain;
    leat_plan_info info = {.size = sizeof info};
    int error = leat_plan_info_get(domain->plan, &info);
    if (!error)
        error = make_room(check, domain->element_count);
    error = md_agree(rank, error);
    if (error)
        return error;
    check->view.home_count = domain->atoms.count;
    check->view.element_count = (int)domain->element_count;
    memcpy(check->view.zone, info.zone, domain->element_count);
    for (size_t i = 0; i < 3 * (size_t)domain->element_count; i++)
        check->view.x_nm[i] = image_value(rank, FIELD_X, i);
    for (size_t i = 0; i < 3 * (size_t)domain->atoms.count; i++)
        check->view.f[i] = image_value(rank, FIELD_F, i);
    fill_own(rank);
    error = bring_ids(rank);
    if (!error)
        error = md_sum_array(rank, check->all, (uint64_t)rank->system.atom_count * ALL_WORDS);
    *view = check->view;
    return error;
}

// ---- Verdict ----

// All ranks see the same here, so one says it. False where what follows would make no sense.
static bool check_owners(struct md_rank *rank)
{
    struct md_halo_check *check = rank->check;
    int64_t wrong = 0, first = 0;
    check->fresh = true;
    for (int64_t atom = 0; atom < rank->system.atom_count; atom++) {
        const double *x = md_all(check, atom, ALL_X), *listed = md_all(check, atom, ALL_LISTED);
        bool right = *md_all(check, atom, ALL_COUNT) == 1.0;
        // Within the box at a partition, and not far from it since.
        for (int d = 0; d < 3; d++) {
            right = right && fabs(x[d]) < 1e3 * rank->system.box_nm[d][d];
            check->fresh &= x[d] == listed[d];
        }
        if (!right && wrong++ == 0)
            first = atom;
    }
    const double *x = md_all(check, first, ALL_X);
    if (wrong && rank->rank == 0)
        md_halo_fault(
            check, "atom %lld is at home on %g ranks, at (%g %g %g) nm; so it is with %lld atoms",
            (long long)first + 1, *md_all(check, first, ALL_COUNT), x[0], x[1], x[2],
            (long long)wrong);
    return wrong == 0;
}

static int add_up(struct md_rank *rank)
{
    struct md_halo_check *check = rank->check;
    double sum[] = {(double)check->ghosts, (double)check->pairs, (double)check->unseen};
    int error = md_sum(rank, sum, 3);
    if (error)
        return error;
    check->sum.steps++;
    check->sum.ghosts += (int64_t)sum[0];
    check->sum.pairs += (int64_t)sum[1];
    check->sum.unseen += (int64_t)sum[2];
    return 0;
}

static int verdict(const struct md_rank *rank, int error)
{
    const struct md_halo_check *check = rank->check;
    char more[64] = "";
    if (!check->faults)
        return error;
    if (check->faults > 1)
        snprintf(more, sizeof more, "; and %lld more", (long long)check->faults - 1);
    return leat_fail(-EBADMSG, "check of rank %d: %s%s", rank->rank, check->fault, more);
}

int md_halo_check_judge(struct md_rank *rank, const struct md_halo_view *view)
{
    struct md_halo_check *check = rank->check;
    int error = 0;
    int64_t unseen = check->sum.unseen;
    check->faults = check->ghosts = check->pairs = check->unseen = 0;
    if (check_owners(rank)) {
        md_halo_check_atoms(rank, view);
        // Pairs with a wrong ghost are wrong too, and say less.
        error = check->faults ? 0 : md_halo_check_pairs(rank, view);
    }
    error = md_agree(rank, verdict(rank, error));
    if (!error)
        error = add_up(rank);
    if (error || check->sum.unseen > unseen)
        return error;
    md_halo_check_forces(rank, view);
    return md_agree(rank, verdict(rank, 0));
}

int md_halo_check(struct md_rank *rank)
{
    struct md_halo_view view;
    if (!md_halo_check_due(rank, rank->step))
        return 0;
    int error = md_halo_check_collect(rank, &view);
    if (!error)
        error = md_halo_check_judge(rank, &view);
    md_clock_lap(&rank->clock, PHASE_OTHER);
    return error;
}
