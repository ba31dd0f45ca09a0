// SPDX-License-Identifier: Apache-2.0
// Boxes of any shape: tilts reduced, points put inside, nearest images against brute force.
//
// Random boxes and points. Advantage: shapes nobody would think of. Disadvantage: a fault in one
// shape of measure zero, such as tilts of exactly half, is only met where a test names it.

#include "md/box.h"
#include "support/splitmix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static double random_unit(uint64_t *state)
{
    return (double)(splitmix_next(state) >> 11) * 0x1p-53;
}

static void make_box(uint64_t *state, double tilt, double box[3][3])
{
    memset(box, 0, 9 * sizeof(double));
    for (int d = 0; d < 3; d++) {
        box[d][d] = 1.0 + 2.0 * random_unit(state);
        for (int k = 0; k < d; k++)
            box[d][k] = tilt * (2.0 * random_unit(state) - 1.0) * box[k][k];
    }
}

// Length of d plus the sums of vectors that are at most `reach` times each; `zero` counts d itself.
static double shortest_of(const double box[3][3], const double d[3], int reach, int zero)
{
    double shortest = HUGE_VAL;
    for (int a = -reach; a <= reach; a++)
        for (int b = -reach; b <= reach; b++)
            for (int c = -reach; c <= reach; c++) {
                double square = 0.0;
                for (int k = 0; k < 3; k++) {
                    double x = d[k] + a * box[0][k] + b * box[1][k] + c * box[2][k];
                    square += x * x;
                }
                if (zero || a || b || c)
                    shortest = fmin(shortest, sqrt(square));
            }
    return shortest;
}

// How far d is from being a sum of whole vectors.
static double off_lattice(const double box[3][3], const double d[3])
{
    double left[3] = {d[0], d[1], d[2]}, worst = 0.0;
    for (int k = 2; k >= 0; k--) {
        double times = rint(left[k] / box[k][k]);
        for (int j = 0; j < 3; j++)
            left[j] -= times * box[k][j];
    }
    for (int k = 0; k < 3; k++)
        worst = fmax(worst, fabs(left[k]));
    return worst;
}

static void test_reduced_tilts_are_of_the_same_lattice(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int trial = 0; trial < 300; trial++) {
        double box[3][3], reduced[3][3];
        make_box(&random, 3.0, box);
        memcpy(reduced, box, sizeof box);
        md_box_reduce(reduced);
        for (int row = 0; row < 3; row++) {
            assert_true(off_lattice(box, reduced[row]) < 1e-12);
            assert_true(reduced[row][row] == box[row][row]);
            for (int d = 0; d < row; d++)
                assert_true(fabs(reduced[row][d]) <= 0.501 * reduced[d][d]);
        }
    }
}

static void test_tilts_of_half_a_vector_stay(void **state)
{
    (void)state;
    double box[3][3] = {{2.0, 0.0, 0.0}, {0.0, 2.0, 0.0}, {1.00001, 1.0, 1.41421}}, before[3][3];
    memcpy(before, box, sizeof box);
    md_box_reduce(box);
    assert_memory_equal(box, before, sizeof box);
}

static void test_distance_between_images_is_the_shortest(void **state)
{
    (void)state;
    const double origin[3] = {0.0, 0.0, 0.0};
    const double dodecahedron[3][3] = {{2, 0, 0}, {0, 2, 0}, {1, 1, 1.4142135623730951}};
    assert_true(fabs(md_box_image_nm(dodecahedron) - 2.0) < 1e-12);
    uint64_t random = 2;
    for (int trial = 0; trial < 300; trial++) {
        double box[3][3];
        make_box(&random, 0.5, box);
        assert_true(fabs(md_box_image_nm(box) - shortest_of(box, origin, 3, 0)) < 1e-12);
    }
}

static void test_points_are_put_into_the_box(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int trial = 0; trial < 300; trial++) {
        double box[3][3], x[3], shift[3] = {NAN, NAN, NAN}, again[3];
        make_box(&random, 0.5, box);
        for (int d = 0; d < 3; d++)
            x[d] = 20.0 * random_unit(&random) - 10.0;
        md_box_outside(box, x, shift);
        assert_true(off_lattice(box, shift) < 1e-12);
        for (int d = 0; d < 3; d++)
            x[d] -= shift[d];
        assert_true(x[2] > -1e-12 && x[2] < box[2][2] + 1e-12);
        md_box_outside(box, x, again);
        for (int d = 0; d < 3; d++)
            assert_true(fabs(again[d]) < 1e-12);
    }
}

static void test_nearest_images_are_those_of_brute_force(void **state)
{
    (void)state;
    uint64_t random = 4;
    for (int trial = 0; trial < 2000; trial++) {
        double box[3][3], x[2][3], d[3] = {NAN, NAN, NAN}, difference[3];
        make_box(&random, trial % 4 ? 0.5 : 0.0, box);
        for (int k = 0; k < 3; k++) {
            x[0][k] = 3.0 * random_unit(&random);
            x[1][k] = 3.0 * random_unit(&random);
            difference[k] = x[0][k] - x[1][k];
        }
        double square = md_box_nearest(box, x[0], x[1], d);
        assert_true(fabs(sqrt(square) - shortest_of(box, difference, 6, 1)) < 1e-12);
        assert_true(fabs(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] - square) < 1e-12);
        for (int k = 0; k < 3; k++)
            difference[k] -= d[k];
        assert_true(off_lattice(box, difference) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduced_tilts_are_of_the_same_lattice),
        cmocka_unit_test(test_tilts_of_half_a_vector_stay),
        cmocka_unit_test(test_distance_between_images_is_the_shortest),
        cmocka_unit_test(test_points_are_put_into_the_box),
        cmocka_unit_test(test_nearest_images_are_those_of_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
