// SPDX-License-Identifier: Apache-2.0
// v-rescale: the moments of one step and of a long chain of steps against the canonical ensemble's,
// what it returns where there is nothing to do, and the sign of the heat.

#include "md/dynamics.h"
#include "md/settings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const double temperature_k = 300.0, tau_ps = 0.1;

static double mean_energy(double degrees)
{
    return 0.5 * degrees * MD_BOLTZMANN * temperature_k;
}

static double factor(double ekin, double degrees, double dt_ps, int64_t seed, int64_t step)
{
    double heat = NAN;
    return md_v_rescale(ekin, degrees, temperature_k, tau_ps, dt_ps, seed, step, 0, &heat);
}

// ---- Ensemble ----

// A chain of kinetic energies: mean, variance and skewness have to be those of the gamma
// distribution, and the correlation from step to step exp(-dt / tau). `sigmas` of the mean's own
// error are allowed; seeds are fixed, so this is no game of chance.
static void chain_is_canonical(double degrees, double dt_ps)
{
    enum { STEPS = 300000 };
    double expected = mean_energy(degrees), keep = exp(-dt_ps / tau_ps);
    double ekin = expected, sum = 0.0, sum2 = 0.0, sum3 = 0.0, lagged = 0.0;
    for (int64_t n = 0; n < STEPS; n++) {
        double before = ekin / expected - 1.0, scale = factor(ekin, degrees, dt_ps, 11, n);
        ekin *= scale * scale;
        double off = ekin / expected - 1.0;
        sum += off;
        sum2 += off * off;
        sum3 += off * off * off;
        lagged += off * before;
    }
    double variance = 2.0 / degrees, independent = STEPS * (1.0 - keep) / (1.0 + keep);
    double mean_error = sqrt(variance / independent);
    // Of squares: the excess kurtosis of a gamma distribution is 12 / degrees.
    double square_error = variance * sqrt((2.0 + 12.0 / degrees) / independent);
    assert_true(fabs(sum / STEPS) < 4.0 * mean_error);
    assert_true(fabs(sum2 / STEPS - variance) < 4.0 * square_error);
    assert_true(fabs(lagged / STEPS - keep * variance) < 4.0 * square_error);
    double skew = sum3 / STEPS / pow(variance, 1.5), expected_skew = sqrt(8.0 / degrees);
    assert_true(fabs(skew - expected_skew) < 0.05 * (1.0 + expected_skew));
}

static void test_chain_is_canonical_for_few_degrees(void **state)
{
    (void)state;
    chain_is_canonical(1.0, 0.05);
    chain_is_canonical(2.0, 0.05);
    chain_is_canonical(3.0, 0.05);
}

static void test_chain_is_canonical_for_many_degrees(void **state)
{
    (void)state;
    chain_is_canonical(100.0, 0.05);
    chain_is_canonical(1e6, 0.05);
}

static void test_chain_is_canonical_for_a_broken_number_of_degrees(void **state)
{
    (void)state;
    chain_is_canonical(7.5, 0.05);
}

static void test_chain_is_canonical_whatever_the_interval(void **state)
{
    (void)state;
    chain_is_canonical(9.0, 0.01);
    chain_is_canonical(9.0, 0.3);
    chain_is_canonical(9.0, 100.0);
}

// Conditional on the energy before: mean c K + (1 - c) Kbar and the paper's variance.
static void test_one_step_has_the_known_mean_and_variance(void **state)
{
    (void)state;
    enum { DRAWS = 200000 };
    double degrees = 12.0, target = mean_energy(degrees), keep = exp(-0.03 / tau_ps);
    for (int n = 0; n < 3; n++) {
        double ekin = target * (n == 0 ? 0.1 : n == 1 ? 1.0 : 5.0), sum = 0.0, sum2 = 0.0;
        double mean = keep * ekin + (1.0 - keep) * target;
        double variance = 2.0 / degrees * pow((1.0 - keep) * target, 2) +
                          4.0 / degrees * keep * (1.0 - keep) * ekin * target;
        for (int64_t step = 0; step < DRAWS; step++) {
            double scale = factor(ekin, degrees, 0.03, 5, step), off = scale * scale * ekin - mean;
            sum += off;
            sum2 += off * off;
        }
        assert_true(fabs(sum / DRAWS) < 4.0 * sqrt(variance / DRAWS));
        assert_true(fabs(sum2 / DRAWS / variance - 1.0) < 0.02);
    }
}

static void test_slow_coupling_hardly_scales(void **state)
{
    (void)state;
    double heat, ekin = 3.0 * mean_energy(3000.0);
    for (int64_t step = 0; step < 100; step++) {
        double scale = md_v_rescale(ekin, 3000.0, temperature_k, 1e12, 0.002, 1, step, 0, &heat);
        assert_true(fabs(scale - 1.0) < 1e-8 && scale != 1.0);
    }
}

static void test_tau_of_zero_forgets_the_energy(void **state)
{
    (void)state;
    double heat, degrees = 500.0, cold = 1.0, hot = 1e6;
    double a = md_v_rescale(cold, degrees, temperature_k, 0.0, 0.002, 1, 3, 0, &heat);
    double b = md_v_rescale(hot, degrees, temperature_k, 0.0, 0.002, 1, 3, 0, &heat);
    assert_true(fabs(a * a * cold / (b * b * hot) - 1.0) < 1e-12);
    assert_true(fabs(a * a * cold / mean_energy(degrees) - 1.0) < 0.3);
}

// ---- Heat ----

static void test_heat_is_what_leaves_the_system(void **state)
{
    (void)state;
    double degrees = 3000.0, hot = 2.0 * mean_energy(degrees), cold = 0.5 * mean_energy(degrees);
    double heat = NAN;
    double scale = md_v_rescale(hot, degrees, temperature_k, tau_ps, 0.05, 1, 0, 0, &heat);
    assert_true(scale < 1.0 && heat > 0.0);
    assert_true(fabs(scale * scale * hot + heat - hot) < 1e-11 * hot);
    scale = md_v_rescale(cold, degrees, temperature_k, tau_ps, 0.05, 1, 0, 0, &heat);
    assert_true(scale > 1.0 && heat < 0.0);
    assert_true(fabs(scale * scale * cold + heat - cold) < 1e-11 * cold);
}

static void test_heat_summed_over_a_run_conserves_energy(void **state)
{
    (void)state;
    double degrees = 60.0, start = 3.0 * mean_energy(degrees), ekin = start, taken = 0.0;
    for (int64_t step = 0; step < 10000; step++) {
        double heat = NAN;
        double scale = md_v_rescale(ekin, degrees, temperature_k, tau_ps, 0.02, 8, step, 0, &heat);
        ekin *= scale * scale;
        taken += heat;
        assert_true(fabs(ekin + taken - start) < 1e-9 * start);
    }
}

// ---- Numbers ----

static void test_same_arguments_give_the_same_bits(void **state)
{
    (void)state;
    double first = factor(100.0, 90.0, 0.02, -17, INT64_C(1) << 40), other;
    other = factor(100.0, 90.0, 0.02, -17, INT64_C(1) << 40);
    assert_memory_equal(&first, &other, sizeof first);
}

static void test_every_step_and_seed_has_its_own_number(void **state)
{
    (void)state;
    static const int64_t seeds[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 32};
    static const int64_t steps[] = {0, 1, 2, INT64_C(1) << 32, (INT64_C(1) << 32) + 1};
    double seen[30];
    int count = 0;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            seen[count] = factor(100.0, 90.0, 0.02, seeds[i], steps[j]);
            for (int n = 0; n < count; n++)
                assert_true(seen[n] != seen[count]);
            count++;
        }
    assert_int_equal(count, 30);
}

static void test_nothing_to_scale_gives_one_and_no_heat(void **state)
{
    (void)state;
    static const double bad[][3] = {
        // ekin, degrees, tau
        {0.0, 30.0, 0.1},   {-1.0, 30.0, 0.1}, {NAN, 30.0, 0.1}, {INFINITY, 30.0, 0.1},
        {10.0, 0.0, 0.1},   {10.0, -3.0, 0.1}, {10.0, NAN, 0.1}, {10.0, INFINITY, 0.1},
        {10.0, 30.0, -1.0}, {10.0, 30.0, NAN}};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        double heat = NAN;
        assert_true(md_v_rescale(bad[n][0], bad[n][1], temperature_k, bad[n][2], 0.02, 1, 1, 0,
                                 &heat) == 1.0);
        assert_true(heat == 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_is_canonical_for_few_degrees),
        cmocka_unit_test(test_chain_is_canonical_for_many_degrees),
        cmocka_unit_test(test_chain_is_canonical_for_a_broken_number_of_degrees),
        cmocka_unit_test(test_chain_is_canonical_whatever_the_interval),
        cmocka_unit_test(test_one_step_has_the_known_mean_and_variance),
        cmocka_unit_test(test_slow_coupling_hardly_scales),
        cmocka_unit_test(test_tau_of_zero_forgets_the_energy),
        cmocka_unit_test(test_heat_is_what_leaves_the_system),
        cmocka_unit_test(test_heat_summed_over_a_run_conserves_energy),
        cmocka_unit_test(test_same_arguments_give_the_same_bits),
        cmocka_unit_test(test_every_step_and_seed_has_its_own_number),
        cmocka_unit_test(test_nothing_to_scale_gives_one_and_no_heat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
