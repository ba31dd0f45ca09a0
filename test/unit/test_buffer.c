// SPDX-License-Identifier: Apache-2.0
// The list cut-off from the drift tolerance.

#include "md/nonbonded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PI 3.14159265358979323846

// SPC/E water at 300 K, 1728 molecules in 51.65 nm^3, reaction field and shifted LJ at 0.9 nm.
static const double water_c6[4] = {4 * 0.650194 * 0.00100629, 0, 0, 0};
static const double water_c12[4] = {4 * 0.650194 * 1.01262e-6, 0, 0, 0};
static const struct md_interaction water = {
    .cutoff_nm = 0.9,
    .coulomb = 138.935457644,
    .krf = 0.5 / (0.9 * 0.9 * 0.9),
    .crf = 1.5 / 0.9,
    .type_count = 2,
    .c6 = water_c6,
    .c12 = water_c12,
    .shift = true,
};

static const struct md_kind water_kinds[2] = {
    {.type = 0, .charge_e = -0.8476, .mass_u = 15.9994, .number = 1728},
    {.type = 1,
     .charge_e = 0.4238,
     .mass_u = 1.008,
     .number = 3456,
     .bond_nm = 0.1,
     .partner_mass_u = 15.9994},
};

static double water_cutoff(double tolerance, int nstlist, double dt_ps, double temperature_k)
{
    return md_list_cutoff(&water, tolerance, nstlist, dt_ps, temperature_k, 2, water_kinds, 51.65);
}

static void test_no_motion_needs_no_buffer(void **state)
{
    (void)state;
    assert_true(water_cutoff(0.005, 1, 0.002, 300) == 0.9);
    assert_true(water_cutoff(0.005, 20, 0.002, 0) == 0.9);
    assert_true(water_cutoff(0.005, 20, 0, 300) == 0.9);
    assert_true(water_cutoff(1e9, 20, 0.002, 300) == 0.9);
    assert_true(md_list_cutoff(&water, 0.005, 20, 0.002, 300, 0, NULL, 1) == 0.9);
}

static void test_buffer_grows_with_life_temperature_and_rigour(void **state)
{
    (void)state;
    const int lives[] = {2, 5, 10, 20, 50, 100};
    double before = 0.9;
    for (size_t k = 0; k < sizeof lives / sizeof lives[0]; k++) {
        const double here = water_cutoff(0.005, lives[k], 0.002, 300);
        assert_true(here > before);
        assert_true(water_cutoff(0.001, lives[k], 0.002, 300) > here);
        assert_true(water_cutoff(0.005, lives[k], 0.002, 400) > here);
        before = here;
    }
}

// What GROMACS 2022.5 sets for this water and 4x4 clusters. Beyond about 20 steps its bound on the
// rotation of hydrogens is wider than the rotation.
static void test_water_gets_the_buffer_of_gromacs(void **state)
{
    (void)state;
    const struct {
        int nstlist;
        double list_nm, below, above;
    } known[] = {{10, 0.969, 0.01, 0.01}, {20, 1.076, 0.02, 0.01}, {40, 1.250, 0.06, 0.01}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        const double here = water_cutoff(0.005, known[k].nstlist, 0.002, 300);
        if (here < (1 - known[k].below) * known[k].list_nm ||
            here > (1 + known[k].above) * known[k].list_nm)
            fail_msg("nstlist %d: %.4f nm, GROMACS has %.3f nm", known[k].nstlist, here,
                     known[k].list_nm);
    }
}

// Free atoms far apart, where clusters do not help: the error at the cut-off that was found, by
// integrating over both distances with the potential itself, is the tolerance.
static void test_error_of_a_gas_is_the_tolerance(void **state)
{
    (void)state;
    const double c6 = 6.2e-3, c12 = 9.7e-6, cutoff = 0.8;
    const struct md_interaction gas = {
        .cutoff_nm = cutoff, .type_count = 1, .c6 = &c6, .c12 = &c12, .shift = true};
    const struct md_kind kind = {.mass_u = 39.948, .number = 1000};
    const double volume = 5e4, tolerance = 1e-7, dt = 0.004, temperature = 300;
    const int nstlist = 50;
    const double list = md_list_cutoff(&gas, tolerance, nstlist, dt, temperature, 1, &kind, volume);
    assert_true(list > cutoff);
    const double time = (nstlist - 1) * dt;
    const double sigma = sqrt(2 * 0.0083144626 * temperature / kind.mass_u) * time;
    const double end = c12 * pow(cutoff, -12) - c6 * pow(cutoff, -6), step = 0.002;
    double sum = 0;
    for (double r0 = list + 0.5 * step; r0 < cutoff + 8 * sigma; r0 += step)
        for (double r = cutoff - 0.5 * step; r > 0.3 && r0 - r < 8 * sigma; r -= step) {
            const double v = c12 * pow(r, -12) - c6 * pow(r, -6) - end;
            const double u = (r0 - r) / sigma;
            sum += v * 4 * PI * r0 * r0 * exp(-0.5 * u * u) / (sqrt(2 * PI) * sigma);
        }
    const double pairs = 0.5 * kind.number * (kind.number - 1);
    const double rate = fabs(sum) * step * step * pairs / volume / (kind.number * nstlist * dt);
    // The expansion ends at the third power, and r0 is taken as list + sigma.
    if (rate > 1.1 * tolerance || rate < 0.7 * tolerance)
        fail_msg("error %g at %g nm, tolerance %g", rate, list, tolerance);
}

static void test_rigid_bond_bounds_the_displacement(void **state)
{
    (void)state;
    struct md_kind kinds[2] = {water_kinds[0], water_kinds[1]};
    kinds[0].mass_u = 1e12; // only hydrogens move, and those around their oxygens
    kinds[1].partner_mass_u = 1e12;
    const double bound = 0.9 + 2 * 2 * 0.1;
    double before = 0;
    for (int nstlist = 100; nstlist <= 100000; nstlist *= 10) {
        const double here = md_list_cutoff(&water, 1e-9, nstlist, 0.002, 300, 2, kinds, 51.65);
        assert_true(here < bound + 1e-3);
        assert_true(here > 0.9 + 0.5 * (bound - 0.9));
        assert_true(before == 0 || fabs(here - before) < 0.02);
        before = here;
    }
    kinds[1].bond_nm = 0;
    assert_true(md_list_cutoff(&water, 1e-9, 1000, 0.002, 300, 2, kinds, 51.65) > bound);
}

static void test_jump_at_the_cut_off_needs_a_longer_list(void **state)
{
    (void)state;
    const double c6 = 6.2e-3, c12 = 9.7e-6;
    struct md_interaction argon = {
        .cutoff_nm = 0.8, .type_count = 1, .c6 = &c6, .c12 = &c12, .shift = true};
    const struct md_kind kind = {.mass_u = 39.948, .number = 1000};
    const double with = md_list_cutoff(&argon, 0.001, 20, 0.004, 100, 1, &kind, 50);
    argon.shift = false;
    assert_true(md_list_cutoff(&argon, 0.001, 20, 0.004, 100, 1, &kind, 50) > with);
}

static void test_no_cut_off_is_found_for_atoms_without_bounds(void **state)
{
    (void)state;
    const double absurd[] = {1e20, 1e30, 1e300, INFINITY};
    for (size_t k = 0; k < sizeof absurd / sizeof absurd[0]; k++)
        assert_true(water_cutoff(0.005, 20, 0.002, absurd[k]) == HUGE_VAL);
    assert_true(water_cutoff(0.005, 20, 1e30, 300) == HUGE_VAL);
    assert_true(isfinite(water_cutoff(0.005, 20, 0.002, 1e12)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_motion_needs_no_buffer),
        cmocka_unit_test(test_buffer_grows_with_life_temperature_and_rigour),
        cmocka_unit_test(test_water_gets_the_buffer_of_gromacs),
        cmocka_unit_test(test_error_of_a_gas_is_the_tolerance),
        cmocka_unit_test(test_rigid_bond_bounds_the_displacement),
        cmocka_unit_test(test_no_cut_off_is_found_for_atoms_without_bounds),
        cmocka_unit_test(test_jump_at_the_cut_off_needs_a_longer_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
