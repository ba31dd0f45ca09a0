// SPDX-License-Identifier: Apache-2.0
// The running least-squares slope against closed answers, and where there is none.

#include "md/dynamics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// A total energy of some -1e5 that drifts in its tenth digit, and times far from zero.
static void test_a_million_points_of_a_line_with_large_offsets(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    double known = 0.25;
    for (int i = 0; i < 1000000; i++) {
        double t = 1048576.0 + i * 0.0078125; // both exact, so the line is one
        md_slope_add(&slope, t, -98304.0 + known * (i * 0.0078125));
    }
    assert_int_equal(slope.count, 1000000);
    assert_true(fabs(md_slope_value(&slope) / known - 1.0) < 1e-10);
}

static void test_a_shallow_line_under_a_large_offset(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    double known = 1.0 / 1024.0;
    for (int i = 0; i < 1000000; i++)
        md_slope_add(&slope, i / 64.0, -1e5 + known * (i / 64.0));
    assert_true(fabs(md_slope_value(&slope) / known - 1.0) < 1e-10);
}

// Over t = 0 .. n - 1 the slope of t^2 is n - 1.
static void test_a_parabola_has_the_known_slope(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    for (int i = 0; i < 1001; i++)
        md_slope_add(&slope, i, (double)i * i);
    assert_true(fabs(md_slope_value(&slope) - 1000.0) < 1e-9);
}

// The zig-zag is orthogonal to the line about the middle of an odd number of points.
static void test_noise_without_a_slope_adds_none(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    for (int i = 0; i < 100001; i++)
        md_slope_add(&slope, 0.1 * i, 7.0 - 0.5 * (0.1 * i) + (i % 2 ? 3.0 : -3.0));
    assert_true(fabs(md_slope_value(&slope) + 0.5) < 1e-11);
}

static void test_two_points_are_enough(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    md_slope_add(&slope, 2.0, 10.0);
    md_slope_add(&slope, 4.0, 7.0);
    assert_true(md_slope_value(&slope) == -1.5);
}

static void test_fewer_than_two_points_have_no_slope(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    assert_true(isnan(md_slope_value(&slope)));
    md_slope_add(&slope, 1.0, 1.0);
    assert_true(isnan(md_slope_value(&slope)));
}

static void test_points_at_one_time_have_no_slope(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    for (int i = 0; i < 100; i++)
        md_slope_add(&slope, 0.1, i);
    assert_true(isnan(md_slope_value(&slope)));
}

static void test_a_value_that_is_no_number_shows(void **state)
{
    (void)state;
    struct md_slope slope = {0};
    for (int i = 0; i < 10; i++)
        md_slope_add(&slope, i, i == 5 ? (double)NAN : i);
    assert_true(isnan(md_slope_value(&slope)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_points_of_a_line_with_large_offsets),
        cmocka_unit_test(test_a_shallow_line_under_a_large_offset),
        cmocka_unit_test(test_a_parabola_has_the_known_slope),
        cmocka_unit_test(test_noise_without_a_slope_adds_none),
        cmocka_unit_test(test_two_points_are_enough),
        cmocka_unit_test(test_fewer_than_two_points_have_no_slope),
        cmocka_unit_test(test_points_at_one_time_have_no_slope),
        cmocka_unit_test(test_a_value_that_is_no_number_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
