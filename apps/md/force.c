// SPDX-License-Identifier: Apache-2.0
// One evaluation of the forces on this rank's atoms, before and after ghosts' shares come home.
//
// Order of sums, fixed: pairs with a ghost, pairs of home atoms, ghosts' shares from their other
// ranks in the plan's order, excluded pairs and self terms, terms within molecules. Pairs of home
// atoms are worked on in two pieces, while coordinates travel and while forces do, so that a rank
// may be late by as much before another waits for it. Advantage: the same input on the same ranks
// and threads gives the same bits. Disadvantage: what is copied between images and state is copied
// by itself.

#include "md/md.h"

#include <math.h>
#include <string.h>

static void add_tensor(double sum[9], const double tensor[9])
{
    for (int i = 0; i < 9; i++)
        sum[i] += tensor[i];
}

// Of the pairs of home atoms, what is done while coordinates travel; the rest follows while forces
// do.
#define SHARE_FORWARD 0.5

static void add_output(struct md_terms *terms, const struct md_pair_output *output)
{
    terms->lj += output->energy.lj;
    terms->coulomb += output->energy.coulomb;
    add_tensor(terms->virial, output->virial);
}

// The part of the forces' image that begins at an element.
static void clear_image(struct md_domain *domain, size_t begin, size_t end)
{
    const struct md_image *image = &domain->image[FIELD_F];
    memset((char *)image->data + begin * image->element_bytes, 0,
           (end - begin) * image->element_bytes);
}

static void sum_forces(const struct md_atoms *atoms, double sum[3], double *length)
{
    for (int64_t i = 0; i < atoms->count; i++) {
        const double *f = atoms->f + 3 * i;
        for (int d = 0; d < 3; d++)
            sum[d] += f[d];
        *length += sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    }
}

void md_home_pairs_begin(struct md_rank *rank, bool want)
{
    struct md_domain *domain = &rank->domain;
    clear_image(domain, 0, (size_t)domain->atoms.count);
    md_list_home_begin(domain->list, domain->image[FIELD_X].data, SHARE_FORWARD, want, want);
    md_clock_lap(&rank->clock, PHASE_LOCAL);
}

void md_ghost_pairs(struct md_rank *rank, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    struct md_pair_output output = {0};
    *terms = (struct md_terms){0};
    clear_image(domain, (size_t)domain->atoms.count, domain->element_count);
    md_list_ghosts(domain->list, domain->image[FIELD_X].data, domain->image[FIELD_F].data, &output);
    add_output(terms, &output);
    md_clock_lap(&rank->clock, PHASE_NONLOCAL);
}

void md_home_pairs_end(struct md_rank *rank, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    struct md_pair_output output = {0};
    md_list_home_end(domain->list, domain->image[FIELD_F].data, &output);
    add_output(terms, &output);
    md_clock_lap(&rank->clock, PHASE_LOCAL);
}

void md_pair_forces(struct md_rank *rank, bool want, struct md_terms *terms)
{
    md_home_pairs_begin(rank, want);
    md_ghost_pairs(rank, terms);
    md_home_pairs_end(rank, terms);
}

// Work on the home atoms by molecules, some for each thread.
struct home_work {
    struct md_rank *rank;
    bool want;
    struct md_terms *terms; // [threads]
};

// The atoms of a thread's molecules.
static void share_of(const struct md_domain *domain, int thread, int count, int atoms[2])
{
    for (int side = 0; side < 2; side++)
        atoms[side] =
            (int)domain->group_start[md_team_share(domain->group_count, thread + side, count)];
}

// Pairs' forces from their image.
static void take_image(struct md_rank *rank, const int atoms[2])
{
    struct md_domain *domain = &rank->domain;
    const size_t begin = 3 * (size_t)atoms[0], end = 3 * (size_t)atoms[1];
    double *f = domain->atoms.f;
    if (rank->options->precision == MD_DOUBLE) {
        const double *image = domain->image[FIELD_F].data;
        if (end > begin)
            memcpy(f + begin, image + begin, (end - begin) * sizeof *f);
        return;
    }
    const float *image = domain->image[FIELD_F].data;
    for (size_t i = begin; i < end; i++)
        f[i] = image[i];
}

static void exclusions_of_some(void *user, int thread, int count)
{
    const struct home_work *work = user;
    struct md_domain *domain = &work->rank->domain;
    const struct md_system *system = &work->rank->system;
    struct md_terms *terms = &work->terms[thread];
    const double edges[3] = {system->box_nm[0][0], system->box_nm[1][1], system->box_nm[2][2]};
    int atoms[2];
    share_of(domain, thread, count, atoms);
    take_image(work->rank, atoms);
    terms->coulomb += md_exclusion_share(
        &system->interaction, atoms[0], atoms[1], domain->atoms.x_nm, domain->charge,
        domain->exclusion_start, domain->exclusion, system->images ? NULL : edges, domain->atoms.f,
        work->want ? terms->virial : NULL, &terms->corrections);
}

// The molecules of a stretch among the atoms.
static void bonded_forces(const struct home_work *work, const struct md_stretch *stretch,
                          const int atoms[2], struct md_terms *terms)
{
    const struct md_domain *domain = &work->rank->domain;
    const struct md_system *system = &work->rank->system;
    const struct md_molecule_type *type = &system->topology->molecule_types[stretch->molecule_type];
    const int end = stretch->first_atom + stretch->count * type->atom_count;
    const int first = stretch->first_atom > atoms[0] ? stretch->first_atom : atoms[0];
    const int behind = end < atoms[1] ? end : atoms[1];
    const int64_t at = 3 * (int64_t)first;
    if (type->term_start[MD_TERM_KINDS] > 0 && behind > first)
        md_bonded_forces(type, (behind - first) / type->atom_count, system->interaction.coulomb,
                         domain->atoms.x_nm + at, domain->atoms.f + at,
                         work->want ? &terms->bonded : NULL, work->want ? terms->virial : NULL);
}

static void bonded_of_some(void *user, int thread, int count)
{
    const struct home_work *work = user;
    const struct md_domain *domain = &work->rank->domain;
    int atoms[2];
    share_of(domain, thread, count, atoms);
    for (uint32_t s = 0; s < domain->stretch_count; s++)
        bonded_forces(work, &domain->stretch[s], atoms, &work->terms[thread]);
}

// Threads' terms, in their order.
static void add_terms(struct md_terms *terms, const struct md_terms *more)
{
    terms->coulomb += more->coulomb;
    terms->corrections += more->corrections;
    add_tensor(terms->virial, more->virial);
    for (int k = 0; k < MD_TERM_KINDS; k++)
        terms->bonded.term[k] += more->bonded.term[k];
    terms->bonded.coulomb14 += more->bonded.coulomb14;
}

void md_home_forces(struct md_rank *rank, bool want, struct md_terms *terms)
{
    const int threads = md_team_size(rank->team);
    struct home_work work = {.rank = rank, .want = want, .terms = terms};
    if (threads > 1) {
        work.terms = rank->thread_terms;
        memset(work.terms, 0, (size_t)threads * sizeof *work.terms);
    }
    terms->pairs = terms->coulomb;
    md_clock_lap(&rank->clock, PHASE_OTHER);
    md_team_run(rank->team, exclusions_of_some, &work);
    md_clock_lap(&rank->clock, PHASE_LOCAL);
    md_team_run(rank->team, bonded_of_some, &work);
    for (int t = 0; threads > 1 && t < threads; t++)
        add_terms(terms, &work.terms[t]);
    md_clock_lap(&rank->clock, PHASE_BONDED);
    if (want)
        sum_forces(&rank->domain.atoms, terms->force, &terms->force_length);
    md_clock_lap(&rank->clock, PHASE_OTHER);
}
