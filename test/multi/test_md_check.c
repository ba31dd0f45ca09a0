// SPDX-License-Identifier: Apache-2.0
// --check fails where a halo is wrong: the driver's own partition and evaluation, something spoilt,
// and the check's two halves called by hand.
//
// Advantage: no hook for faults in the program. Disadvantage: the order of the calls is this
// test's; test_md_checked.py has whole runs.

#include "multi/ranks.h"

#include "md/halo_check.h"
#include "md/list_internal.h"
#include "md/md.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>

enum fault {
    FAULT_NONE,
    FAULT_MISSING,   // a ghost became another atom far away
    FAULT_DOUBLE,    // a ghost took the place and number of another
    FAULT_MISPLACED, // a ghost is off by little
    FAULT_IMAGE,     // a box away in a dimension that is not divided
    FAULT_NAN,
    FAULT_NUMBER, // of no atom
    FAULT_ZONE,
    FAULT_FORCE,  // lost on the way home
    FAULT_PAIRS,  // a row of the list is gone
    FAULT_TWICE,  // a row of the list is there twice
    FAULT_STRAYED // an atom is at home twice, another nowhere
};

enum { EDGE = 8 };
#define SPACING_NM 0.36

// Argon on a lattice that is a little out of order: few atoms, so that all pairs take no time.
static int write_input(void **state)
{
    (void)state;
    FILE *gro = fopen("check.gro", "w"), *top = fopen("check.top", "w");
    FILE *mdp = fopen("check.mdp", "w");
    uint64_t random = 11;
    assert_true(gro && top && mdp);
    fprintf(gro, "argon\n%d\n", EDGE * EDGE * EDGE);
    for (int i = 0; i < EDGE * EDGE * EDGE; i++) {
        const int cell[3] = {i / EDGE / EDGE, i / EDGE % EDGE, i % EDGE};
        fprintf(gro, "%5d%-5s%5s%5d", i + 1, "AR", "AR", i + 1);
        for (int d = 0; d < 3; d++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            double off = (double)(random >> 11) * 0x1p-53 - 0.5;
            fprintf(gro, "%8.3f", (cell[d] + 0.5 + 0.2 * off) * SPACING_NM);
        }
        fputc('\n', gro);
    }
    fprintf(gro, "%10.5f%10.5f%10.5f\n", EDGE * SPACING_NM, EDGE * SPACING_NM, EDGE * SPACING_NM);
    fprintf(top, "[ defaults ]\n1 1\n[ atomtypes ]\nAR 18 39.948 0 A 6.2213e-3 9.6956e-6\n"
                 "[ moleculetype ]\nArgon 1\n[ atoms ]\n1 AR 1 AR AR 1 0\n"
                 "[ system ]\nargon\n[ molecules ]\nArgon 512\n");
    fprintf(mdp, "integrator = md\ncutoff-scheme = Verlet\ncoulombtype = reaction-field\n"
                 "rcoulomb = 0.9\nrvdw = 0.9\nverlet-buffer-tolerance = -1\nrlist = 1.0\n");
    return fclose(gro) | fclose(top) | fclose(mdp);
}

struct trial {
    enum fault fault;
    const char *words;
};

// One set-up serves several faults.
struct trials {
    enum md_precision precision;
    int count;
    const struct trial *trial;
};

static int set_up(struct rank_thread *self, const struct md_options *options, struct md_rank *rank)
{
    *rank = (struct md_rank){
        .job = self->job, .rank = self->rank, .rank_count = self->rank_count, .options = options};
    int error = md_system_share(rank);
    if (!error)
        error = md_agree(rank, md_domain_open(rank));
    if (!error)
        error = md_agree(rank, md_halo_check_open(rank));
    return error ? error : md_domain_partition(rank);
}

static int evaluate(struct md_rank *rank)
{
    struct md_terms terms;
    md_pair_forces(rank, false, &terms);
    return leat_halo_exchange(rank->domain.halo, FIELD_F, LEAT_REVERSE);
}

// Before the evaluation.
static void spoil_list(struct md_rank *rank, enum fault fault)
{
    struct md_part_list *part = &rank->domain.list->parts[MD_LOCAL];
    struct md_row *row = part->made.rows.data;
    if (fault == FAULT_PAIRS)
        row[5].count = row[5].masked_count = 0;
    if (fault == FAULT_TWICE)
        row[5] = row[6];
    part->inner_age = -1; // what is pruned from it is made anew
}

static void spoil_view(struct md_halo_view *view, enum fault fault)
{
    int one = view->home_count + 3, other = view->element_count - 5;
    double *x = view->x_nm + 3 * one, *y = view->x_nm + 3 * other;
    switch (fault) {
    case FAULT_MISSING:
    case FAULT_DOUBLE:
        view->id[one] = view->id[other];
        view->zone[one] = view->zone[other];
        memcpy(x, y, 3 * sizeof *x);
        break;
    case FAULT_MISPLACED:
        x[1] += 1e-4;
        break;
    case FAULT_IMAGE:
        x[0] += EDGE * SPACING_NM;
        break;
    case FAULT_NAN:
        x[2] = (double)NAN;
        break;
    case FAULT_NUMBER:
        view->id[one] = -1;
        break;
    case FAULT_ZONE:
        view->zone[one] ^= 1;
        break;
    case FAULT_FORCE:
        view->f[7] += 30.0;
        break;
    default:
        break;
    }
}

static int evaluate_and_collect(struct md_rank *rank, enum fault fault, struct md_halo_view *view)
{
    int64_t id = rank->domain.id[0];
    if (rank->rank == 1)
        spoil_list(rank, fault);
    if (rank->rank == 1 && fault == FAULT_STRAYED)
        rank->domain.id[0] = rank->domain.id[9];
    int error = evaluate(rank);
    if (!error)
        error = md_halo_check_collect(rank, view);
    rank->domain.id[0] = id;
    return error;
}

static void put_back(struct md_rank *rank, const struct md_row *kept)
{
    struct md_part_list *part = &rank->domain.list->parts[MD_LOCAL];
    ((struct md_row *)part->made.rows.data)[5] = *kept;
    part->inner_age = -1;
}

static void check_rank(struct rank_thread *self, struct md_rank *rank, const struct trial *trial)
{
    struct md_halo_view view;
    struct md_row kept = ((struct md_row *)rank->domain.list->parts[MD_LOCAL].made.rows.data)[5];
    bool spoilt = self->rank == 1;
    int error = evaluate_and_collect(rank, trial->fault, &view);
    if (!rank_check(self, !error, "evaluation: %s", leat_error_detail()))
        return;
    if (spoilt)
        spoil_view(&view, trial->fault);
    error = md_halo_check_judge(rank, &view);
    put_back(rank, &kept);
    // An atom that is lost is seen by all, and rank 0 says it.
    bool says = trial->fault == FAULT_STRAYED ? !spoilt : spoilt;
    int wanted = trial->fault == FAULT_NONE ? 0 : says ? -EBADMSG : -EREMOTEIO;
    rank_check(self, error == wanted, "%d, expected %d: %s", error, wanted,
               error ? leat_error_detail() : "no error");
    if (error)
        rank_check(self, strstr(leat_error_detail(), trial->words), "\"%s\" is not in: %s",
                   trial->words, leat_error_detail());
}

static void judge(struct rank_thread *self)
{
    const struct trials *trials = self->user;
    struct md_options options = {.gro = "check.gro",
                                 .top = "check.top",
                                 .mdp = "check.mdp",
                                 .rank_count = self->rank_count,
                                 .grid = {1, 1, 2},
                                 .precision = trials->precision,
                                 .check_every = 1,
                                 .steps = 0,
                                 .tile = {1, 1, 1}};
    struct md_rank rank;
    int error = set_up(self, &options, &rank);
    if (rank_check(self, error == 0, "set-up: %s", leat_error_detail()))
        for (int i = 0; i < trials->count; i++)
            check_rank(self, &rank, &trials->trial[i]);
    md_domain_close(&rank.domain);
    md_system_free(&rank.system);
    md_halo_check_close(&rank);
}

static void look(enum md_precision precision, int count, const struct trial *trial)
{
    struct trials trials = {precision, count, trial};
    ranks_run(2, judge, &trials);
}

static void test_a_whole_halo_passes(void **state)
{
    (void)state;
    const struct trial none[] = {{FAULT_NONE, ""}};
    look(MD_MIXED, 1, none);
    look(MD_DOUBLE, 1, none);
}

static void test_ghosts_that_are_wrong_are_named(void **state)
{
    (void)state;
    const struct trial trials[] = {
        {FAULT_MISSING, "check of rank 1: atom "},
        {FAULT_DOUBLE, "is there twice, as elements"},
        {FAULT_MISPLACED, "its owner has it at"},
        {FAULT_IMAGE, "its owner has it at"},
        {FAULT_NAN, "its owner has it at"},
        {FAULT_NUMBER, "which no atom has"},
        {FAULT_ZONE, "has crossed dimensions"},
        {FAULT_STRAYED, "is at home on "},
        {FAULT_NONE, ""},
    };
    look(MD_DOUBLE, sizeof trials / sizeof *trials, trials);
}

static void test_pairs_and_forces_that_are_wrong_are_named(void **state)
{
    (void)state;
    const struct trial trials[] = {
        {FAULT_FORCE, "the pairs' force on atom "},
        {FAULT_PAIRS, "a pair of this rank's is not computed: atoms "},
        {FAULT_TWICE, "check of rank 1: a pair"},
        {FAULT_NONE, ""},
    };
    look(MD_MIXED, sizeof trials / sizeof *trials, trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_halo_passes),
        cmocka_unit_test(test_ghosts_that_are_wrong_are_named),
        cmocka_unit_test(test_pairs_and_forces_that_are_wrong_are_named),
    };
    return cmocka_run_group_tests(tests, write_input, NULL);
}
