// SPDX-License-Identifier: Apache-2.0
// Which grid of domains is chosen, and when none is.

#include <leat/halo.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define POISON (-7)

static int choose(int ranks, double x, double y, double z, double cutoff_nm, int grid[3])
{
    const double box_nm[3][3] = {{x, 0, 0}, {0, y, 0}, {0, 0, z}};
    grid[0] = grid[1] = grid[2] = POISON;
    return leat_grid_choose(ranks, box_nm, cutoff_nm, grid);
}

static void expect(int ranks, double x, double y, double z, double cutoff_nm, int nx, int ny,
                   int nz)
{
    int grid[3];
    if (choose(ranks, x, y, z, cutoff_nm, grid) != 0)
        fail_msg("%s", leat_error_detail());
    if (grid[0] != nx || grid[1] != ny || grid[2] != nz)
        fail_msg("%d ranks in %g x %g x %g nm: got %d x %d x %d, expected %d x %d x %d", ranks, x,
                 y, z, grid[0], grid[1], grid[2], nx, ny, nz);
}

static void expect_refusal(int ranks, double x, double y, double z, double cutoff_nm, int error,
                           const char *words)
{
    int grid[3];
    assert_int_equal(choose(ranks, x, y, z, cutoff_nm, grid), error);
    if (!strstr(leat_error_detail(), words))
        fail_msg("\"%s\" not in \"%s\"", words, leat_error_detail());
    for (int d = 0; d < 3; d++)
        assert_int_equal(grid[d], POISON);
}

static void test_cubes_are_cut_along_z_first(void **state)
{
    (void)state;
    expect(1, 4, 4, 4, 1, 1, 1, 1);
    expect(2, 4, 4, 4, 1, 1, 1, 2);
    // One face of 16 nm^2 is less than two of 8 with the edge between them.
    expect(4, 4, 4, 4, 1, 1, 1, 4);
    expect(8, 4, 4, 4, 1, 1, 2, 4);
    expect(6, 9, 9, 9, 1, 1, 2, 3);
    expect(27, 6, 6, 6, 0.3, 3, 3, 3);
    // Edges whose products round differently in different orders.
    expect(12, 3.7, 3.7, 3.7, 0.3, 1, 3, 4);
}

static void test_long_boxes_are_cut_along_the_long_edge(void **state)
{
    (void)state;
    expect(4, 16, 3, 3, 1, 4, 1, 1);
    expect(4, 3, 16, 3, 1, 1, 4, 1);
    expect(4, 3, 3, 16, 1, 1, 1, 4);
    expect(8, 16, 16, 3, 1, 2, 4, 1);
}

static void test_dimensions_shorter_than_two_cutoffs_stay_whole(void **state)
{
    (void)state;
    expect(27, 2.1, 2.1, 2.1, 1, 1, 3, 9);
    expect(27, 2.1, 2.1, 1.9, 1, 3, 9, 1);
    expect(4, 1.9, 3.9, 1.9, 1, 1, 4, 1);
    // Exactly two cut-offs are enough.
    expect(2, 1.9, 1.9, 2, 1, 1, 1, 2);
}

static void test_a_prime_count_takes_several_pulses(void **state)
{
    (void)state;
    // Domains of 0.46 nm: three pulses for a cut-off of 1 nm.
    expect(7, 3.2, 3, 3, 1, 7, 1, 1);
}

// Explicitly, slab by slab, what the choice is to minimise.
static double halo_volume(const int grid[3], const double edge[3], double r)
{
    double w[3], cut[3];
    for (int d = 0; d < 3; d++) {
        w[d] = edge[d] / grid[d];
        cut[d] = grid[d] > 1;
    }
    const double pi = acos(-1);
    return r * (cut[0] * w[1] * w[2] + cut[1] * w[0] * w[2] + cut[2] * w[0] * w[1]) +
           pi / 4 * r * r *
               (cut[0] * cut[1] * w[2] + cut[0] * cut[2] * w[1] + cut[1] * cut[2] * w[0]) +
           pi / 6 * r * r * r * cut[0] * cut[1] * cut[2];
}

static int allowed(const int grid[3], const double edge[3], double r)
{
    for (int d = 0; d < 3; d++)
        if (grid[d] > 1 && (2 * r > edge[d] || ceil(r / (edge[d] / grid[d])) >= grid[d]))
            return 0;
    return 1;
}

static void check_least(int ranks, const double edge[3], double r)
{
    int got[3];
    int error = choose(ranks, edge[0], edge[1], edge[2], r, got);
    int any = 0;
    for (int x = 1; x <= ranks; x++)
        for (int y = 1; y <= ranks; y++)
            for (int z = 1; z <= ranks; z++) {
                const int grid[3] = {x, y, z};
                if (x * y * z != ranks || !allowed(grid, edge, r))
                    continue;
                any = 1;
                if (!error && halo_volume(got, edge, r) > halo_volume(grid, edge, r) * (1 + 1e-6))
                    fail_msg("%d ranks in %g x %g x %g nm, cut-off %g nm: %d x %d x %d has less "
                             "halo than %d x %d x %d",
                             ranks, edge[0], edge[1], edge[2], r, x, y, z, got[0], got[1], got[2]);
            }
    assert_int_equal(error, any ? 0 : -EDOM);
    if (!error) {
        assert_int_equal(got[0] * got[1] * got[2], ranks);
        assert_true(allowed(got, edge, r));
    }
}

static void test_no_allowed_grid_has_less_halo(void **state)
{
    (void)state;
    uint64_t random = 12345;
    for (int i = 0; i < 400; i++) {
        double edge[3];
        for (int d = 0; d < 3; d++) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            edge[d] = 1.5 + (double)(random >> 40) * 0x1p-24 * 6;
        }
        check_least(1 + i % 24, edge, 0.9);
    }
}

static void test_the_choice_is_the_same_each_time(void **state)
{
    (void)state;
    for (int ranks = 1; ranks < 40; ranks++) {
        int first[3], second[3];
        assert_int_equal(choose(ranks, 5, 5, 5, 0.9, first), 0);
        assert_int_equal(choose(ranks, 5, 5, 5, 0.9, second), 0);
        assert_memory_equal(first, second, sizeof first);
        // Of grids that are equal but for the axes' names, the last axis has most domains.
        assert_true(first[0] <= first[1] && first[1] <= first[2]);
    }
}

static void test_one_domain_needs_no_room(void **state)
{
    (void)state;
    expect(1, 1, 1, 1, 5, 1, 1, 1);
}

static void test_a_cutoff_beyond_half_of_every_edge_is_refused(void **state)
{
    (void)state;
    expect_refusal(2, 1.9, 1.8, 1.7, 1, -EDOM, "no grid of 2 domains");
    expect_refusal(2, 1.9, 1.8, 1.7, 1, -EDOM, "cut-off of 1 nm");
    expect_refusal(2, 1.9, 1.8, 1.7, 1, -EDOM, "1.9 x 1.8 x 1.7 nm");
    expect_refusal(2, 1.9, 1.8, 1.7, 1, -EDOM, "use 1 domain");
}

static void test_values_out_of_range_are_refused(void **state)
{
    (void)state;
    expect_refusal(0, 4, 4, 4, 1, -EINVAL, "0 domains");
    expect_refusal(-3, 4, 4, 4, 1, -EINVAL, "-3 domains");
    expect_refusal(2, 4, 0, 4, 1, -EINVAL, "box_nm[1][1]");
    expect_refusal(2, NAN, 4, 4, 1, -EINVAL, "box_nm[0][0]");
    expect_refusal(2, 4, 4, INFINITY, 1, -EINVAL, "box_nm[2][2]");
    expect_refusal(2, 4, 4, 4, 0, -EINVAL, "cutoff_nm");
    expect_refusal(2, 4, 4, 4, -1, -EINVAL, "cutoff_nm");
    expect_refusal(2, 4, 4, 4, NAN, -EINVAL, "cutoff_nm");
}

static void test_a_box_whose_vectors_point_elsewhere_is_refused(void **state)
{
    (void)state;
    const double box_nm[3][3] = {{4, 0, 0}, {0, 4, 1.25}, {0, 0, 4}};
    int grid[3] = {POISON, POISON, POISON};
    assert_int_equal(leat_grid_choose(2, box_nm, 1, grid), -ENOTSUP);
    assert_non_null(strstr(leat_error_detail(), "box_nm[1][2] is 1.25 nm"));
    assert_non_null(strstr(leat_error_detail(), "box vector b has a part along z"));
    assert_int_equal(grid[0], POISON);
    const double endless_nm[3][3] = {{4, 0, 0}, {INFINITY, 4, 0}, {0, 0, 4}};
    assert_int_equal(leat_grid_choose(2, endless_nm, 1, grid), -EINVAL);
    const double flat_nm[3][3] = {{4, 0, 0}, {4e8, 4, 0}, {0, 0, 4}};
    assert_int_equal(leat_grid_choose(2, flat_nm, 1, grid), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "flat"));
    assert_int_equal(grid[0], POISON);
}

// A rhombic dodecahedron of diameter 4 nm: its faces x and y are 3.27 nm apart, its faces z 2.83.
static void test_a_tilted_box_is_cut_by_its_widths(void **state)
{
    (void)state;
    const double box_nm[3][3] = {{4, 0, 0}, {0, 4, 0}, {2, 2, 2 * sqrt(2)}};
    int grid[3] = {POISON, POISON, POISON};
    // Widths, not vectors, have to hold two cut-offs; no vector is shorter than 4 nm.
    assert_int_equal(leat_grid_choose(2, box_nm, 1.5, grid), 0);
    assert_true(grid[0] == 1 && grid[1] == 2 && grid[2] == 1);
    assert_int_equal(leat_grid_choose(2, box_nm, 1.7, grid), -EDOM);
    assert_non_null(strstr(leat_error_detail(), "3.26599 x 3.26599 x 2.82843 nm"));
    // Faces are smallest where the width is largest.
    assert_int_equal(leat_grid_choose(2, box_nm, 1, grid), 0);
    assert_true(grid[0] == 1 && grid[1] == 2 && grid[2] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cubes_are_cut_along_z_first),
        cmocka_unit_test(test_long_boxes_are_cut_along_the_long_edge),
        cmocka_unit_test(test_dimensions_shorter_than_two_cutoffs_stay_whole),
        cmocka_unit_test(test_a_prime_count_takes_several_pulses),
        cmocka_unit_test(test_no_allowed_grid_has_less_halo),
        cmocka_unit_test(test_the_choice_is_the_same_each_time),
        cmocka_unit_test(test_one_domain_needs_no_room),
        cmocka_unit_test(test_a_cutoff_beyond_half_of_every_edge_is_refused),
        cmocka_unit_test(test_values_out_of_range_are_refused),
        cmocka_unit_test(test_a_box_whose_vectors_point_elsewhere_is_refused),
        cmocka_unit_test(test_a_tilted_box_is_cut_by_its_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
