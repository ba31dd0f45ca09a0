// SPDX-License-Identifier: Apache-2.0
// Building halo plans: what is refused, with which words, and the same verdict on all ranks; what
// is left of an old plan; reading one. The ranks are threads (leat_options.thread_ranks).

#include "multi/ranks.h"

#include <leat/halo.h>

#include <errno.h>
#include <math.h>

// ---- Refusals ----

#define WORDS_MAX 6

struct refusal {
    leat_decomposition decomposition;
    double x_nm[2][6]; // of each rank, two elements
    uint32_t start[2][3];
    uint32_t group_count[2];
    int expected[2];
    const char *words[2][WORDS_MAX];
};

// A good one, of two ranks along z.
static struct refusal two_ranks(void)
{
    struct refusal refusal = {
        .decomposition = {.size = sizeof refusal.decomposition,
                          .grid = {1, 1, 2},
                          .box_nm = {{2, 0, 0}, {0, 2.5, 0}, {0, 0, 3}},
                          .cutoff_nm = 1},
        .x_nm = {{0.1, 0.1, 0.1, 1.1, 1.1, 1.1}, {0.2, 0.2, 1.6, 1.2, 1.2, 2.2}},
        .start = {{0, 1, 2}, {0, 1, 2}},
        .group_count = {2, 2},
    };
    return refusal;
}

static void rank_refused(struct rank_thread *self)
{
    const struct refusal *refusal = self->user;
    int r = self->rank;
    leat_decomposition decomposition = refusal->decomposition;
    leat_groups groups = {.group_count = refusal->group_count[r], .start = refusal->start[r]};
    leat_plan *untouched = (leat_plan *)(void *)&groups, *plan = untouched;
    int error = leat_plan_build(self->job, &decomposition, &groups, refusal->x_nm[r], &plan);
    if (!rank_check(self, error == refusal->expected[r], "%d, expected %d: %s", error,
                    refusal->expected[r], leat_error_detail()))
        return;
    for (int w = 0; w < WORDS_MAX && refusal->words[r][w]; w++)
        rank_check(self, strstr(leat_error_detail(), refusal->words[r][w]) != NULL,
                   "\"%s\" not in \"%s\"", refusal->words[r][w], leat_error_detail());
    if (error)
        rank_check(self, plan == untouched, "the plan was set");
    else
        leat_plan_free(plan);
    // The job goes on: the next build is as good as the first.
    struct refusal fine = two_ranks();
    groups = (leat_groups){.group_count = 2, .start = fine.start[r]};
    plan = NULL;
    error = leat_plan_build(self->job, &fine.decomposition, &groups, fine.x_nm[r], &plan);
    rank_check(self, error == 0, "afterwards: %s", leat_error_detail());
    leat_plan_free(plan);
}

static void expect_refusal(struct refusal *refusal, int first, int second,
                           const char *const words[WORDS_MAX])
{
    refusal->expected[0] = first;
    refusal->expected[1] = second;
    for (int r = 0; r < 2; r++)
        memcpy(refusal->words[r], words, sizeof refusal->words[r]);
    ranks_run(2, rank_refused, refusal);
}

#define WORDS(...)                                                                                 \
    (const char *const[WORDS_MAX])                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_a_good_input_is_not_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    expect_refusal(&refusal, 0, 0, WORDS(NULL));
}

static void test_a_cutoff_beyond_half_of_a_cut_edge_is_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.cutoff_nm = 1.6;
    expect_refusal(&refusal, -EDOM, -EDOM,
                   WORDS("dimension z", "2 domains of 1.5 nm", "cut-off of 1.6 nm",
                         "box edge of 3 nm", "use 1 domain in z", "at most 1.5 nm"));
}

static void test_a_whole_dimension_does_not_limit_the_cutoff(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.cutoff_nm = 1.4; // more than half of x and of y
    expect_refusal(&refusal, 0, 0, WORDS(NULL));
}

static void test_groups_too_wide_for_two_domains_are_refused_everywhere(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    // Only rank 1 has a wide group, its elements 0.35 nm from their centre.
    refusal.start[1][1] = 2;
    refusal.group_count[1] = 1;
    memcpy(refusal.x_nm[1], (const double[6]){1, 1, 1.7, 1, 1, 2.4}, sizeof refusal.x_nm[1]);
    expect_refusal(&refusal, -EDOM, -EDOM,
                   WORDS("dimension z", "2 domains of 1.5 nm need 2 pulses", "cut-off of 1 nm",
                         "0.35 nm", "use 1 domain in z or at least 3", "receive its own elements"));
}

static void test_a_box_whose_vectors_point_elsewhere_is_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.box_nm[1][2] = -0.5;
    expect_refusal(&refusal, -ENOTSUP, -ENOTSUP,
                   WORDS("box_nm[1][2] is -0.5 nm", "b has a part along z"));
}

static void test_a_box_beyond_any_length_is_refused(void **state)
{
    (void)state;
    static const double lengths[] = {1.1e9, 1e100, 1e300, INFINITY, NAN, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct refusal refusal = two_ranks();
        refusal.decomposition.box_nm[2][2] = lengths[i];
        expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("box_nm[2][2] is", "up to 1e+09 nm"));
    }
    struct refusal refusal = two_ranks();
    refusal.decomposition.box_nm[2][0] = -1e100;
    expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("box_nm[2][0] is -1e+100", "1e+09 nm"));
}

static void test_a_tilted_box_is_not_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.box_nm[2][1] = -0.5;
    expect_refusal(&refusal, 0, 0, WORDS(NULL));
}

static void test_a_kind_and_images_out_of_range_are_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.kind = (enum leat_plan_kind)7;
    expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("kind 7", "LEAT_PLAN_ONEHOP (1)"));
    refusal = two_ranks();
    refusal.decomposition.images = 2;
    expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("images is 2"));
}

// Three pulses in x and y, four in z: 4 x 4 x 5 - 1.
static void test_more_pulses_than_a_plan_holds_are_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.images = 1;
    refusal.decomposition.cutoff_nm = 5.5;
    refusal.decomposition.kind = LEAT_PLAN_ONEHOP;
    expect_refusal(&refusal, -E2BIG, -E2BIG,
                   WORDS("over 3 x 3 x 4 domains of 1 x 1 x 2", "more than 64 onehop pulses",
                         "use a forwarded plan, fewer domains"));
    refusal.decomposition.kind = LEAT_PLAN_FORWARDED;
    expect_refusal(&refusal, 0, 0, WORDS(NULL));
    refusal.decomposition.cutoff_nm = 1e9;
    expect_refusal(&refusal, -E2BIG, -E2BIG, WORDS("more than 64 forwarded pulses", "a smaller"));
}

static void test_a_grid_that_is_not_one_domain_a_rank_is_refused(void **state)
{
    (void)state;
    static const int wrong[][3] = {{1, 1, 1}, {2, 2, 1}, {1, 1, 3}, {0, 1, 2}, {-1, -2, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct refusal refusal = two_ranks();
        memcpy(refusal.decomposition.grid, wrong[i], sizeof wrong[i]);
        char grid[48];
        snprintf(grid, sizeof grid, "grid %d x %d x %d", wrong[i][0], wrong[i][1], wrong[i][2]);
        expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS(grid));
    }
}

static void test_a_coordinate_that_is_not_finite_names_rank_and_element(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct refusal refusal = two_ranks();
        refusal.x_nm[1][4] = bad[i];
        expect_refusal(&refusal, -EREMOTEIO, -ERANGE,
                       WORDS("rank 1: home element 1 has y =", "blown up"));
    }
}

static void test_a_group_outside_the_domain_is_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.x_nm[0][5] = 1.75;
    expect_refusal(
        &refusal, -EINVAL, -EREMOTEIO,
        WORDS("rank 0: group 1", "z = 1.75 nm", "from 0 to 1.5 nm", "leat_halo_migrate"));
}

static void test_a_centre_off_by_single_precision_is_accepted(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.x_nm[0][5] = 1.5 + 1e-7;
    refusal.x_nm[1][2] = 1.5 - 1e-7;
    expect_refusal(&refusal, 0, 0, WORDS(NULL));
}

static void test_an_empty_group_is_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.start[1][1] = 2;
    expect_refusal(&refusal, -EREMOTEIO, -EINVAL, WORDS("group 1 of 2", "elements 2 to 2"));
}

static void test_a_decomposition_without_its_size_is_refused(void **state)
{
    (void)state;
    struct refusal refusal = two_ranks();
    refusal.decomposition.size = 0;
    expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("size is 0", "sizeof(leat_decomposition)"));
}

static void test_a_cutoff_that_is_no_length_is_refused(void **state)
{
    (void)state;
    static const double bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        struct refusal refusal = two_ranks();
        refusal.decomposition.cutoff_nm = bad[i];
        expect_refusal(&refusal, -EINVAL, -EINVAL, WORDS("cutoff_nm"));
    }
}

static void rank_disagreeing(struct rank_thread *self)
{
    static const char *const words[] = {"cutoff_nm is", "box_nm[2][0] is", "kind is", "images is"};
    const int *what = self->user;
    struct refusal input = two_ranks();
    leat_decomposition *theirs = &input.decomposition;
    if (self->rank == 1) {
        theirs->cutoff_nm = *what == 0 ? 1.25 : 1;
        theirs->box_nm[2][0] = *what == 1 ? 0.25 : 0;
        theirs->kind = *what == 2 ? LEAT_PLAN_ONEHOP : LEAT_PLAN_FORWARDED;
        theirs->images = *what == 3;
    }
    leat_groups groups = {.group_count = 2, .start = input.start[self->rank]};
    leat_plan *plan = NULL;
    int error =
        leat_plan_build(self->job, &input.decomposition, &groups, input.x_nm[self->rank], &plan);
    rank_check(self, error == -EINVAL && !plan, "%d", error);
    rank_check(self, strstr(leat_error_detail(), words[*what]) != NULL, "%s", leat_error_detail());
    if (*what == 0)
        rank_check(self, strstr(leat_error_detail(), "from 1 to 1.25") != NULL, "%s",
                   leat_error_detail());
}

static void test_ranks_that_pass_different_decompositions_are_told(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++)
        ranks_run(2, rank_disagreeing, &what);
}

// ---- Rebuilding ----

static void rank_rebuilding(struct rank_thread *self)
{
    // Two pulses, one, two again, as the box grows and shrinks.
    static const struct {
        double edge_nm;
        int pulses;
    } sizes[] = {{2.4, 2}, {4.0, 1}, {2.4, 2}};
    uint32_t counts[3] = {0, 0, 0};
    for (int s = 0; s < 3; s++) {
        // One element in the middle of each domain.
        const double x_nm[3] = {1, 1, sizes[s].edge_nm / 4 * (self->rank + 0.5)};
        const uint32_t start[] = {0, 1};
        leat_groups groups = {.group_count = 1, .start = start};
        leat_decomposition decomposition = {
            .size = sizeof decomposition,
            .grid = {1, 1, 4},
            .box_nm = {{2, 0, 0}, {0, 2, 0}, {0, 0, sizes[s].edge_nm}},
            .cutoff_nm = 0.9};
        leat_plan *plan = NULL;
        leat_plan_info info = {.size = sizeof info};
        if (!rank_check(self, leat_plan_build(self->job, &decomposition, &groups, x_nm, &plan) == 0,
                        "%s", leat_error_detail()))
            return;
        leat_plan_info_get(plan, &info);
        rank_check(self, info.pulse_count == sizes[s].pulses, "size %d: %d pulses", s,
                   info.pulse_count);
        counts[s] = info.element_count;
        leat_plan_free(plan);
    }
    rank_check(self, counts[0] == counts[2] && counts[1] == 2 && counts[0] == 3,
               "%u, %u, %u elements", counts[0], counts[1], counts[2]);
}

static void test_a_rebuilt_plan_keeps_nothing_of_the_old(void **state)
{
    (void)state;
    ranks_run(4, rank_rebuilding, NULL);
}

// ---- Reading a plan ----

static void rank_reading(struct rank_thread *self)
{
    struct refusal input = two_ranks();
    leat_groups groups = {.group_count = 2, .start = input.start[self->rank]};
    leat_plan *plan = NULL;
    if (!rank_check(self,
                    leat_plan_build(self->job, &input.decomposition, &groups,
                                    input.x_nm[self->rank], &plan) == 0,
                    "%s", leat_error_detail()))
        return;
    leat_plan_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = 0;
    rank_check(self, leat_plan_info_get(plan, &info) == -EINVAL, "size 0 was taken");
    rank_check(self, strstr(leat_error_detail(), "sizeof(leat_plan_info)") != NULL, "%s",
               leat_error_detail());
    info.size = offsetof(leat_plan_info, home_count);
    rank_check(self, leat_plan_info_get(plan, &info) == 0, "%s", leat_error_detail());
    rank_check(self, info.pulse_count == 1 && info.home_count == 0x5a5a5a5au,
               "%d pulses, %x home elements", info.pulse_count, info.home_count);
    leat_plan_free(plan);
    leat_plan_free(NULL);
}

static void test_plan_info_fills_what_the_caller_knows(void **state)
{
    (void)state;
    ranks_run(2, rank_reading, NULL);
}

static void rank_taking_the_choice(struct rank_thread *self)
{
    leat_decomposition decomposition = {.size = sizeof decomposition,
                                        .box_nm = {{2.9, 0, 0}, {0, 1.7, 0}, {0, 0, 2.1}},
                                        .cutoff_nm = 1};
    int error = leat_grid_choose(self->rank_count, (const double(*)[3])decomposition.box_nm, 1,
                                 decomposition.grid);
    rank_check(self, !error, "%s", leat_error_detail());
    leat_groups groups = {.group_count = 0};
    leat_plan *plan = NULL;
    error = leat_plan_build(self->job, &decomposition, &groups, NULL, &plan);
    rank_check(self, !error, "%d x %d x %d: %s", decomposition.grid[0], decomposition.grid[1],
               decomposition.grid[2], leat_error_detail());
    leat_plan_free(plan);
}

static void test_a_chosen_grid_can_be_built(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 12; ranks++)
        ranks_run(ranks, rank_taking_the_choice, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rebuilt_plan_keeps_nothing_of_the_old),
        cmocka_unit_test(test_a_good_input_is_not_refused),
        cmocka_unit_test(test_a_cutoff_beyond_half_of_a_cut_edge_is_refused),
        cmocka_unit_test(test_a_whole_dimension_does_not_limit_the_cutoff),
        cmocka_unit_test(test_groups_too_wide_for_two_domains_are_refused_everywhere),
        cmocka_unit_test(test_a_box_whose_vectors_point_elsewhere_is_refused),
        cmocka_unit_test(test_a_box_beyond_any_length_is_refused),
        cmocka_unit_test(test_a_tilted_box_is_not_refused),
        cmocka_unit_test(test_a_kind_and_images_out_of_range_are_refused),
        cmocka_unit_test(test_more_pulses_than_a_plan_holds_are_refused),
        cmocka_unit_test(test_a_grid_that_is_not_one_domain_a_rank_is_refused),
        cmocka_unit_test(test_a_coordinate_that_is_not_finite_names_rank_and_element),
        cmocka_unit_test(test_a_group_outside_the_domain_is_refused),
        cmocka_unit_test(test_a_centre_off_by_single_precision_is_accepted),
        cmocka_unit_test(test_an_empty_group_is_refused),
        cmocka_unit_test(test_a_decomposition_without_its_size_is_refused),
        cmocka_unit_test(test_a_cutoff_that_is_no_length_is_refused),
        cmocka_unit_test(test_ranks_that_pass_different_decompositions_are_told),
        cmocka_unit_test(test_plan_info_fills_what_the_caller_knows),
        cmocka_unit_test(test_a_chosen_grid_can_be_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
