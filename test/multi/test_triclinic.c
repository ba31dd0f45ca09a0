// SPDX-License-Identifier: Apache-2.0
// Halo plans in tilted boxes against brute force over all images: every shape, grid, order, with
// and without images, forwarded and direct. The ranks are threads (leat_options.thread_ranks).

#include "multi/lattice.h"

// ---- Both kinds of plan hold the same ----

static void compare_kinds(struct rank_thread *self, struct lattice_view *a, struct lattice_view *b)
{
    if (!rank_check(self, a->info.element_count == b->info.element_count,
                    "%u elements forwarded, %u directly", a->info.element_count,
                    b->info.element_count))
        return;
    size_t count = a->info.element_count;
    qsort(a->element, count, sizeof *a->element, lattice_compare_stamps);
    qsort(b->element, count, sizeof *b->element, lattice_compare_stamps);
    // Zones follow from boxes and cells, which was checked.
    for (size_t i = 0; i < count; i++)
        rank_check(self, lattice_compare_stamps(&a->element[i], &b->element[i]) == 0,
                   "elements %u and %u differ", a->element[i].id, b->element[i].id);
}

static void check_direct(struct rank_thread *self, const leat_plan_info *info)
{
    for (int p = 0; p < info->pulse_count; p++)
        rank_check(self,
                   info->pulses[p].dependent_start == info->pulses[p].send_count &&
                       info->pulses[p].direction == -1,
                   "pulse %d forwards", p);
}

static void rank_of_lattice(struct rank_thread *self)
{
    struct lattice *lattice = self->user;
    struct lattice_view forwarded, direct;
    bool both = lattice_build(self, lattice, LEAT_PLAN_FORWARDED, &forwarded);
    if (both) {
        lattice_list_pairs(lattice, &forwarded, &lattice->share[self->rank]);
        lattice_check_need(self, lattice, &forwarded);
        rank_check(self, fabs(forwarded.info.ghost_margin_nm - lattice->margin_nm) < 1e-12,
                   "margin %g nm, expected %g nm", forwarded.info.ghost_margin_nm,
                   lattice->margin_nm);
    }
    both = lattice_build(self, lattice, LEAT_PLAN_ONEHOP, &direct) && both;
    if (both) {
        check_direct(self, &direct.info);
        compare_kinds(self, &forwarded, &direct);
    }
    lattice_drop(&forwarded);
    lattice_drop(&direct);
}

// ---- Shapes ----

#define SHAPES 6

// The first two as GROMACS' editconf makes them, of diameter 1.
static const double shapes[SHAPES][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0.5, 0.5, 0.70710678118654752}},
    {{1, 0, 0},
     {0.33333333333333333, 0.94280904158206337, 0},
     {-0.33333333333333333, 0.47140452079103168, 0.81649658092772603}},
    // As far tilted as GROMACS allows, b and c alike and against one another; a longer box.
    {{1, 0, 0}, {0.5, 0.9, 0}, {-0.5, 0.45, 1.1}},
    {{1, 0, 0}, {-0.5, 1.2, 0}, {0.5, 0.6, 0.8}},
    {{0.8, 0, 0}, {0.4, 1.3, 0}, {0.4, -0.65, 1}},
    // Farther than that.
    {{1, 0, 0}, {0.9, 1.1, 0}, {-1.3, 0.8, 1.2}},
};

// The largest cut-off that plans without images allow, a little less.
static double largest_cutoff(const struct lattice *lattice)
{
    double cutoff = 1e9;
    for (int d = 0; d < 3; d++) {
        int count = lattice->decomposition.grid[d];
        double width = lattice->width_nm[d];
        cutoff = fmin(cutoff, 0.8 * width);
        if (count > 1) {
            cutoff = fmin(cutoff, width / 2);
            cutoff = fmin(cutoff, width * (count - 1) / count - 2 * lattice->margin_nm);
        }
    }
    return 0.99 * cutoff;
}

static void expect_kinds(struct lattice *lattice)
{
    int directly = 1;
    for (int d = 0; d < 3; d++) {
        double reach = lattice->decomposition.cutoff_nm + 2 * lattice->margin_nm;
        int count = lattice->decomposition.grid[d];
        if (count > 1 || lattice->decomposition.images)
            directly *= 1 + (int)ceil(reach / lattice->width_nm[d] * count - 1e-9);
    }
    lattice->expected[LEAT_PLAN_FORWARDED] = 0;
    lattice->expected[LEAT_PLAN_ONEHOP] = directly - 1 > 64 ? -E2BIG : 0;
}

static void run_lattice(struct lattice *lattice)
{
    const int *grid = lattice->decomposition.grid;
    int ranks = grid[0] * grid[1] * grid[2];
    expect_kinds(lattice);
    lattice_brute_force(lattice);
    for (int order = LEAT_ORDER_ZYX; order <= LEAT_ORDER_XYZ; order++) {
        lattice->decomposition.order = (enum leat_order)order;
        for (int r = 0; r < ranks; r++)
            lattice->share[r].count = 0;
        ranks_run(ranks, rank_of_lattice, lattice);
        lattice_check_pairs(lattice, ranks);
    }
    assert_true(lattice->sure.count > lattice->group_count);
    lattice_forget(lattice);
}

// Grids of all numbers of ranks up to 8.
static void run_grids(const double shape[3][3], double size_nm, int images, double part,
                      uint32_t groups)
{
    double box_nm[3][3];
    for (int d = 0; d < 3; d++)
        for (int e = 0; e < 3; e++)
            box_nm[d][e] = size_nm * shape[d][e];
    for (int x = 1; x <= 8; x++)
        for (int y = 1; y <= 8 / x; y++)
            for (int z = 1; z <= 8 / x / y; z++) {
                const int grid[3] = {x, y, z};
                struct lattice lattice;
                lattice_open(&lattice, grid, (const double(*)[3])box_nm, groups,
                             (x + y + z) % 2 ? 0.09 : 0.03, (uint64_t)(100 * x + 10 * y + z));
                lattice.decomposition.images = images;
                lattice.decomposition.cutoff_nm = part * largest_cutoff(&lattice);
                run_lattice(&lattice);
                lattice_close(&lattice);
            }
}

static void test_each_pair_is_found_once_in_tilted_boxes(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        run_grids(shapes[s], 2.6, 0, 1, 28);
}

static void test_each_image_pair_is_found_once_in_tilted_boxes(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        run_grids(shapes[s], 2.6, 1, 1, 28);
}

static void test_random_tilts_up_to_half_a_vector_are_as_good(void **state)
{
    (void)state;
    struct ranks_random random = {.state = 42};
    static const int grids[][3] = {{1, 1, 2}, {2, 2, 2}, {1, 4, 2}, {3, 1, 2}, {1, 1, 1}};
    for (int i = 0; i < 60; i++) {
        double box_nm[3][3] = {{0}};
        for (int d = 0; d < 3; d++) {
            box_nm[d][d] = 1.6 + 1.6 * ranks_random_real(&random);
            for (int e = 0; e < d; e++)
                box_nm[d][e] = box_nm[e][e] * (ranks_random_real(&random) - 0.5);
        }
        struct lattice lattice;
        lattice_open(&lattice, grids[i % 5], (const double(*)[3])box_nm, 28, 0.04,
                     (uint64_t)i + 1000);
        lattice.decomposition.images = i % 2;
        lattice.decomposition.cutoff_nm = largest_cutoff(&lattice);
        run_lattice(&lattice);
        lattice_close(&lattice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_is_found_once_in_tilted_boxes),
        cmocka_unit_test(test_each_image_pair_is_found_once_in_tilted_boxes),
        cmocka_unit_test(test_random_tilts_up_to_half_a_vector_are_as_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
