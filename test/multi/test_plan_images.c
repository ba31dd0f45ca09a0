// SPDX-License-Identifier: Apache-2.0
// Plans with images: cut-offs beyond half and all of the box, cut or not, against brute force over
// all images; and both kinds of plan with and without images, exchanged in every mode, where ranks
// send to themselves and both neighbours may be one. The ranks are threads
// (leat_options.thread_ranks).

#include "multi/lattice.h"

static const double upright[3][3] = {{1.3, 0, 0}, {0, 1.5, 0}, {0, 0, 1.7}};
static const double dodecahedron[3][3] = {{1.8, 0, 0}, {0, 1.8, 0}, {0.9, 0.9, 1.2727922061357855}};

// ---- Long cut-offs ----

static void rank_finding(struct rank_thread *self)
{
    struct lattice *lattice = self->user;
    struct lattice_view view;
    if (lattice_build(self, lattice, lattice->decomposition.kind, &view)) {
        lattice_list_pairs(lattice, &view, &lattice->share[self->rank]);
        lattice_check_need(self, lattice, &view);
    }
    lattice_drop(&view);
}

static void find_pairs(const int grid[3], const double box_nm[3][3], double cutoff_nm,
                       enum leat_plan_kind kind, int expected)
{
    struct lattice lattice;
    lattice_open(&lattice, grid, box_nm, 7, 0.05, (uint64_t)(cutoff_nm * 100));
    lattice.decomposition.images = 1;
    lattice.decomposition.cutoff_nm = cutoff_nm;
    lattice.decomposition.kind = kind;
    lattice.expected[kind] = expected;
    lattice_brute_force(&lattice);
    ranks_run(grid[0] * grid[1] * grid[2], rank_finding, &lattice);
    if (!expected)
        lattice_check_pairs(&lattice, grid[0] * grid[1] * grid[2]);
    lattice_close(&lattice);
}

static const int grids[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {1, 1, 3}, {2, 2, 2}, {1, 5, 1}};

#define GRIDS (sizeof grids / sizeof grids[0])

static void test_a_cutoff_beyond_half_of_the_box_finds_each_image_pair(void **state)
{
    (void)state;
    for (size_t g = 0; g < GRIDS; g++) {
        find_pairs(grids[g], upright, 0.8, LEAT_PLAN_FORWARDED, 0);
        find_pairs(grids[g], dodecahedron, 0.8, LEAT_PLAN_FORWARDED, 0);
        find_pairs(grids[g], upright, 0.8, LEAT_PLAN_ONEHOP, 0);
        find_pairs(grids[g], dodecahedron, 0.8, LEAT_PLAN_ONEHOP, 0);
    }
}

static void test_a_cutoff_beyond_the_whole_box_finds_each_image_pair(void **state)
{
    (void)state;
    for (size_t g = 0; g < GRIDS; g++) {
        find_pairs(grids[g], upright, 1.9, LEAT_PLAN_FORWARDED, 0);
        find_pairs(grids[g], dodecahedron, 1.6, LEAT_PLAN_FORWARDED, 0);
        find_pairs(grids[g], upright, 3.2, LEAT_PLAN_FORWARDED, 0);
    }
    find_pairs(grids[0], upright, 1.9, LEAT_PLAN_ONEHOP, 0);
    find_pairs(grids[1], upright, 1.9, LEAT_PLAN_ONEHOP, 0);
    // 5 x 4 x 4 and more displacements.
    find_pairs(grids[4], upright, 1.9, LEAT_PLAN_ONEHOP, -E2BIG);
}

static void test_one_lone_element_pairs_with_each_image_once(void **state)
{
    (void)state;
    // Six images at the distance of the edge, one for either sign; twelve more at its diagonal.
    static const double cube[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    static const struct {
        double cutoff_nm;
        size_t pairs;
    } shells[] = {{0.9, 0}, {1.1, 3}, {1.45, 9}, {1.75, 13}, {2.05, 16}};
    for (size_t s = 0; s < sizeof shells / sizeof shells[0]; s++)
        for (size_t g = 0; g < 3; g++) {
            struct lattice lattice;
            int ranks = grids[g][0] * grids[g][1] * grids[g][2];
            lattice_open(&lattice, grids[g], cube, 1, 0, 5);
            lattice.start[1] = lattice.element_count = 1;
            lattice.decomposition.images = 1;
            lattice.decomposition.cutoff_nm = shells[s].cutoff_nm;
            lattice.margin_nm = 0;
            ranks_run(ranks, rank_finding, &lattice);
            size_t found = 0;
            for (int r = 0; r < ranks; r++)
                found += lattice.share[r].count;
            assert_int_equal(found, shells[s].pairs);
            lattice_close(&lattice);
        }
}

// ---- Exchanged ----

enum { FIELD_X, FIELD_SUM, FIELD_ID, FIELD_COUNT };

#define ROUNDS 3

struct exchanged {
    struct lattice lattice;
    enum leat_mode mode;
    double sum[LATTICE_RANKS][200];      // of home elements, by their number
    uint32_t copies[LATTICE_RANKS][200]; // that a rank has of every element
};

static void *field_of(struct rank_thread *self, uint64_t bytes, leat_region **region)
{
    leat_region_options options = {.size = sizeof options, .bytes = bytes};
    leat_region_info info = {.size = sizeof info};
    if (!rank_check(self, !leat_region_alloc(self->job, &options, region), "%s",
                    leat_error_detail()))
        return NULL;
    leat_region_info_get(*region, &info);
    return info.address;
}

// Before the halo is open: afterwards a peer may store ghosts at any time.
static void poison(const struct lattice_view *view, double *x_nm, double *sum, uint32_t *id)
{
    for (uint32_t i = 0; i < view->info.element_count; i++) {
        for (uint32_t d = 0; d < 3; d++)
            x_nm[3 * i + d] = NAN;
        sum[i] = NAN;
        id[i] = UINT32_MAX;
    }
}

// Positions are stamped with the round.
static void set_home(const struct lattice_view *view, int round, double *x_nm, double *sum,
                     uint32_t *id)
{
    for (uint32_t i = 0; i < view->info.home_count; i++) {
        for (uint32_t d = 0; d < 3; d++)
            x_nm[3 * i + d] = view->element[i].x_nm[d] + round;
        id[i] = view->element[i].id;
    }
    for (uint32_t i = 0; i < view->info.element_count; i++)
        sum[i] = round + 1;
}

static void check_arrivals(struct rank_thread *self, const struct lattice_view *view, int round,
                           const double *x_nm, const uint32_t *id)
{
    for (uint32_t i = 0; i < view->info.element_count; i++) {
        rank_check(self, id[i] == view->element[i].id, "round %d: element %u is %u, expected %u",
                   round, i, id[i], view->element[i].id);
        for (uint32_t d = 0; d < 3; d++)
            rank_check(self, fabs(x_nm[3 * i + d] - view->element[i].x_nm[d] - round) < 1e-12,
                       "round %d: element %u is at %.17g, expected %.17g", round, i,
                       x_nm[3 * i + d], view->element[i].x_nm[d] + round);
    }
}

static void exchange_rounds(struct rank_thread *self, const struct lattice_view *view,
                            leat_halo *halo, double *x_nm, double *sum, uint32_t *id)
{
    struct exchanged *exchanged = self->user;
    for (int round = 0; round < ROUNDS; round++) {
        set_home(view, round, x_nm, sum, id);
        int error = leat_halo_exchange(halo, FIELD_X, LEAT_FORWARD);
        if (!error)
            error = leat_halo_exchange(halo, FIELD_ID, LEAT_FORWARD);
        if (!rank_check(self, !error, "round %d: %s", round, leat_error_detail()))
            return;
        check_arrivals(self, view, round, x_nm, id);
        error = leat_halo_exchange(halo, FIELD_SUM, LEAT_REVERSE);
        if (!rank_check(self, !error, "round %d: %s", round, leat_error_detail()))
            return;
        for (uint32_t i = 0; i < view->info.home_count; i++)
            exchanged->sum[self->rank][view->element[i].id] = sum[i];
    }
    for (uint32_t i = 0; i < view->info.element_count; i++)
        exchanged->copies[self->rank][view->element[i].id]++;
}

static void rank_exchanging(struct rank_thread *self)
{
    struct exchanged *exchanged = self->user;
    struct lattice_view view;
    leat_region *region[FIELD_COUNT] = {NULL};
    leat_halo *halo = NULL;
    if (lattice_build(self, &exchanged->lattice, exchanged->lattice.decomposition.kind, &view)) {
        uint64_t count = view.info.element_count;
        double *x_nm = field_of(self, count * 3 * sizeof *x_nm + 8, &region[FIELD_X]);
        double *sum = field_of(self, count * sizeof *sum + 8, &region[FIELD_SUM]);
        uint32_t *id = field_of(self, count * sizeof *id + 8, &region[FIELD_ID]);
        if (x_nm && sum && id)
            poison(&view, x_nm, sum, id);
        const leat_field fields[FIELD_COUNT] = {
            {.place = {.region = region[FIELD_X]},
             .element = LEAT_F64,
             .components = 3,
             .shifted = 1,
             .acknowledged_by = FIELD_SUM + 1},
            {.place = {.region = region[FIELD_SUM]},
             .element = LEAT_F64,
             .components = 1,
             .acknowledged_by = FIELD_X + 1},
            {.place = {.region = region[FIELD_ID]}, .element = LEAT_WORDS, .components = 1}};
        leat_halo_options options = {.size = sizeof options,
                                     .mode = exchanged->mode,
                                     .field_count = FIELD_COUNT,
                                     .fields = fields};
        if (x_nm && sum && id &&
            rank_check(self, !leat_halo_open(self->job, view.plan, &options, &halo), "%s",
                       leat_error_detail()))
            exchange_rounds(self, &view, halo, x_nm, sum, id);
    }
    leat_halo_free(halo);
    for (int f = 0; f < FIELD_COUNT; f++)
        leat_region_free(region[f]);
    lattice_drop(&view);
}

static void exchange(struct exchanged *exchanged, int ranks)
{
    memset(exchanged->sum, 0, sizeof exchanged->sum);
    memset(exchanged->copies, 0, sizeof exchanged->copies);
    ranks_run(ranks, rank_exchanging, exchanged);
    // Each copy sent back as much as the home element had.
    for (uint32_t i = 0; i < exchanged->lattice.element_count; i++) {
        double sum = 0;
        uint32_t copies = 0;
        for (int r = 0; r < ranks; r++) {
            sum += exchanged->sum[r][i];
            copies += exchanged->copies[r][i];
        }
        assert_true(copies > 0);
        if (sum != ROUNDS * (double)copies)
            fail_msg("element %u: %g came together, expected %u copies of %d", i, sum, copies,
                     ROUNDS);
    }
}

static void exchange_all(enum leat_mode mode)
{
    static struct exchanged exchanged;
    for (int what = 0; what < 8; what++)
        for (size_t g = 0; g < GRIDS; g++) {
            double box_nm[3][3];
            int images = what & 1, tilted = what >> 1 & 1;
            for (int d = 0; d < 3; d++)
                for (int e = 0; e < 3; e++)
                    box_nm[d][e] = 1.5 * (tilted ? dodecahedron : upright)[d][e];
            lattice_open(&exchanged.lattice, grids[g], (const double(*)[3])box_nm, 40, 0.01,
                         (uint64_t)what);
            exchanged.mode = mode;
            exchanged.lattice.decomposition.images = images;
            exchanged.lattice.decomposition.kind = (enum leat_plan_kind)(what >> 2);
            exchanged.lattice.decomposition.cutoff_nm = images ? 1.2 : 0.8;
            exchange(&exchanged, grids[g][0] * grids[g][1] * grids[g][2]);
            lattice_close(&exchanged.lattice);
        }
}

static void test_every_copy_is_served_in_mode_fused(void **state)
{
    (void)state;
    exchange_all(LEAT_MODE_FUSED);
}

static void test_every_copy_is_served_in_mode_host(void **state)
{
    (void)state;
    exchange_all(LEAT_MODE_HOST);
}

static void test_every_copy_is_served_in_mode_stream(void **state)
{
    (void)state;
    exchange_all(LEAT_MODE_STREAM);
}

static void test_every_copy_is_served_in_mode_pulse(void **state)
{
    (void)state;
    exchange_all(LEAT_MODE_PULSE);
}

static void test_every_copy_is_served_in_mode_resident(void **state)
{
    (void)state;
    exchange_all(LEAT_MODE_RESIDENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cutoff_beyond_half_of_the_box_finds_each_image_pair),
        cmocka_unit_test(test_a_cutoff_beyond_the_whole_box_finds_each_image_pair),
        cmocka_unit_test(test_one_lone_element_pairs_with_each_image_once),
        cmocka_unit_test(test_every_copy_is_served_in_mode_fused),
        cmocka_unit_test(test_every_copy_is_served_in_mode_host),
        cmocka_unit_test(test_every_copy_is_served_in_mode_stream),
        cmocka_unit_test(test_every_copy_is_served_in_mode_pulse),
        cmocka_unit_test(test_every_copy_is_served_in_mode_resident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
