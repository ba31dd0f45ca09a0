// SPDX-License-Identifier: Apache-2.0
// The watch over the sum of all forces: an exchange of ghosts' forces that is lost, made twice or
// spoilt is seen by every rank in the next energy.
//
// The driver's own evaluation on two ranks, with its halves called by hand and something wrong
// between them. Advantage: no hook for faults in the program. Disadvantage: the order of the calls
// is this test's, so a driver that forgot an exchange would be noticed only by the tests that run
// it whole.

#include "multi/ranks.h"

#include "md/md.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>

enum fault { FAULT_NONE, FAULT_LOST, FAULT_TWICE, FAULT_ONE_RANK, FAULT_NAN };

struct trial {
    enum fault fault;
    enum md_precision precision;
};

// Between the two halves: ghosts' forces come home, or not quite.
static int bring_forces(struct md_rank *rank, enum fault fault)
{
    struct md_domain *domain = &rank->domain;
    size_t bytes = domain->image[FIELD_F].element_bytes;
    char *ghosts = (char *)domain->image[FIELD_F].data + (size_t)domain->atoms.count * bytes;
    size_t ghost_bytes = (domain->element_count - (uint32_t)domain->atoms.count) * bytes;
    if (fault == FAULT_ONE_RANK && rank->rank == 1)
        memset(ghosts, 0, ghost_bytes);
    if (fault == FAULT_NAN && rank->rank == 1)
        memset(ghosts, 0xff, bytes);
    int error = 0;
    if (fault != FAULT_LOST)
        error = leat_halo_exchange(domain->halo, FIELD_F, LEAT_REVERSE);
    if (!error && fault == FAULT_TWICE)
        error = leat_halo_exchange(domain->halo, FIELD_X, LEAT_FORWARD);
    if (!error && fault == FAULT_TWICE)
        error = leat_halo_exchange(domain->halo, FIELD_F, LEAT_REVERSE);
    return error;
}

static int prepare(struct rank_thread *self, const struct md_options *options, struct md_rank *rank)
{
    *rank = (struct md_rank){
        .job = self->job, .rank = self->rank, .rank_count = self->rank_count, .options = options};
    int error = md_system_share(rank);
    if (!error)
        error = md_agree(rank, md_domain_open(rank));
    return error ? error : md_domain_partition(rank);
}

static void look_at_forces(struct rank_thread *self)
{
    const struct trial *trial = self->user;
    const char *source = getenv("LEAT_SOURCE_DIR");
    char path[3][PATH_MAX];
    const char *suffix[3] = {"gro", "top", "mdp"};
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/test/data/water.%s", source, suffix[i]);
    struct md_options options = {.gro = path[0],
                                 .top = path[1],
                                 .mdp = path[2],
                                 .rank_count = self->rank_count,
                                 .precision = trial->precision,
                                 .tile = {1, 1, 1}};
    struct md_rank rank;
    struct md_terms terms;
    int error = prepare(self, &options, &rank);
    if (rank_check(self, error == 0, "set-up: %s", leat_error_detail())) {
        md_pair_forces(&rank, true, &terms);
        error = bring_forces(&rank, trial->fault);
        rank_check(self, error == 0, "exchange: %s", leat_error_detail());
        md_home_forces(&rank, true, &terms);
        error = md_energy_sum(&rank, &terms, 0.0);
        int expected = trial->fault == FAULT_NONE ? 0 : -EBADMSG;
        rank_check(self, error == expected, "%d, expected %d: %s", error, expected,
                   error ? leat_error_detail() : "no error");
        if (expected)
            rank_check(self, strstr(leat_error_detail(), "forces of ghosts"), "%s",
                       leat_error_detail());
    }
    md_domain_close(&rank.domain);
    md_system_free(&rank.system);
}

static void try_both(enum fault fault)
{
    if (!getenv("LEAT_SOURCE_DIR")) {
        print_message("LEAT_SOURCE_DIR is not set: the input lies there\n");
        skip();
    }
    struct trial mixed = {fault, MD_MIXED}, in_double = {fault, MD_DOUBLE};
    ranks_run(2, look_at_forces, &mixed);
    ranks_run(2, look_at_forces, &in_double);
}

static void test_forces_of_a_whole_step_pass(void **state)
{
    (void)state;
    try_both(FAULT_NONE);
}

static void test_a_lost_exchange_is_seen(void **state)
{
    (void)state;
    try_both(FAULT_LOST);
}

static void test_an_exchange_made_twice_is_seen(void **state)
{
    (void)state;
    try_both(FAULT_TWICE);
}

static void test_forces_lost_on_one_rank_are_seen_by_all(void **state)
{
    (void)state;
    try_both(FAULT_ONE_RANK);
}

static void test_a_force_that_is_no_number_is_seen(void **state)
{
    (void)state;
    try_both(FAULT_NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forces_of_a_whole_step_pass),
        cmocka_unit_test(test_a_lost_exchange_is_seen),
        cmocka_unit_test(test_an_exchange_made_twice_is_seen),
        cmocka_unit_test(test_forces_lost_on_one_rank_are_seen_by_all),
        cmocka_unit_test(test_a_force_that_is_no_number_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
