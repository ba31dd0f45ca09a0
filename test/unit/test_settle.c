// SPDX-License-Identifier: Apache-2.0
// SETTLE against SHAKE iterated in long double, its conservation laws, and what it refuses.

#include "md/dynamics.h"
#include <leat/leat.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WATERS = 203, ATOMS = 3 * WATERS, VALUES = 3 * ATOMS };

static const double dt_ps = 0.002;
static const double tip3p_oh = 0.09572, tip3p_hh = 0.15139;

struct sample {
    int oxygen[WATERS];
    int64_t id[ATOMS];
    struct md_waters waters;
    double old[VALUES], new[VALUES], v[VALUES];
};

// ---- Samples ----

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

// Between -1 and 1.
static double even(uint64_t *state)
{
    return (double)(int64_t)next(state) * 0x1p-63;
}

static void normalise(double a[3])
{
    double norm = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    for (int k = 0; k < 3; k++)
        a[k] /= norm;
}

// A triangle of any orientation in a box of 5 nm.
static void place(const struct md_waters *waters, uint64_t *state, double *x)
{
    double up[3], other[3], side[3], hh = waters->d_hh_nm;
    double height = sqrt(waters->d_oh_nm * waters->d_oh_nm - 0.25 * hh * hh);
    for (int k = 0; k < 3; k++) {
        up[k] = even(state);
        other[k] = even(state);
    }
    for (int k = 0; k < 3; k++)
        side[k] = up[(k + 1) % 3] * other[(k + 2) % 3] - up[(k + 2) % 3] * other[(k + 1) % 3];
    normalise(up);
    normalise(side);
    for (int k = 0; k < 3; k++) {
        x[k] = 2.5 + 2.5 * even(state);
        x[3 + k] = x[k] + height * up[k] - 0.5 * hh * side[k];
        x[6 + k] = x[k] + height * up[k] + 0.5 * hh * side[k];
    }
}

// `move_nm` is how far the unconstrained atoms go.
static struct sample *sample_new(double oh, double hh, double move_nm, uint64_t seed)
{
    struct sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    sample->waters = (struct md_waters){WATERS, sample->oxygen, 15.9994, 1.008, oh, hh};
    for (int w = 0; w < WATERS; w++) {
        sample->oxygen[w] = 3 * w;
        for (int i = 0; i < 3; i++)
            sample->id[3 * w + i] = 700000 + 3 * w + i;
        place(&sample->waters, &seed, sample->old + 9 * w);
    }
    for (int k = 0; k < VALUES; k++) {
        sample->new[k] = sample->old[k] + move_nm *even(&seed);
        sample->v[k] = even(&seed);
    }
    return sample;
}

static double mass_of(const struct sample *sample, int atom)
{
    return atom % 3 == 0 ? sample->waters.mass_o_u : sample->waters.mass_h_u;
}

// ---- The reference ----

// SHAKE in long double until bond lengths are right to a few units of that type. Adds
// -1/2 sum x_old (x) f to the virial.
static void shake(const struct sample *sample, int water, long double x[9], long double virial[9])
{
    static const int from[3] = {0, 0, 1}, to[3] = {1, 2, 2};
    const double *old = sample->old + 9 * water;
    long double length[3] = {sample->waters.d_oh_nm, sample->waters.d_oh_nm,
                             sample->waters.d_hh_nm};
    long double total[3] = {0.0L};
    for (int k = 0; k < 9; k++)
        x[k] = sample->new[9 * water + k];
    bool done = false;
    for (int sweep = 0; !done && sweep < 5000; sweep++) {
        done = true;
        for (int bond = 0; bond < 3; bond++) {
            int i = from[bond], j = to[bond];
            long double wi = 1.0L / mass_of(sample, i), wj = 1.0L / mass_of(sample, j);
            long double now2 = 0.0L, across = 0.0L;
            for (int k = 0; k < 3; k++) {
                long double now = x[3 * j + k] - x[3 * i + k];
                now2 += now * now;
                across += now * (old[3 * j + k] - (long double)old[3 * i + k]);
            }
            long double off = length[bond] * length[bond] - now2;
            if (fabsl(off) <= 1e-17L * length[bond] * length[bond])
                continue;
            done = false;
            long double g = off / (2.0L * across * (wi + wj));
            total[bond] += g;
            for (int k = 0; k < 3; k++) {
                long double direction = old[3 * j + k] - (long double)old[3 * i + k];
                x[3 * i + k] -= g * wi * direction;
                x[3 * j + k] += g * wj * direction;
            }
        }
    }
    assert_true(done);
    for (int bond = 0; bond < 3; bond++)
        for (int k = 0; k < 9; k++) {
            long double a = old[3 * to[bond] + k / 3] - (long double)old[3 * from[bond] + k / 3];
            long double b = old[3 * to[bond] + k % 3] - (long double)old[3 * from[bond] + k % 3];
            virial[k] -= 0.5L * total[bond] * a * b / ((long double)dt_ps * dt_ps);
        }
}

static double distance(const double *a, const double *b)
{
    return sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                (a[2] - b[2]) * (a[2] - b[2]));
}

// Largest relative error of a bond.
static double bond_error(const struct sample *sample, const double *x)
{
    double worst = 0.0, oh = sample->waters.d_oh_nm, hh = sample->waters.d_hh_nm;
    for (int w = 0; w < WATERS; w++) {
        const double *o = x + 9 * w;
        worst = fmax(worst, fabs(distance(o, o + 3) / oh - 1.0));
        worst = fmax(worst, fabs(distance(o, o + 6) / oh - 1.0));
        worst = fmax(worst, fabs(distance(o + 3, o + 6) / hh - 1.0));
    }
    return worst;
}

// ---- Positions, velocities, virial ----

static void settles_as_shake(double oh, double hh, double move_nm)
{
    struct sample *sample = sample_new(oh, hh, move_nm, 1);
    double x[VALUES];
    memcpy(x, sample->new, sizeof x);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, NULL, 0.0, NULL), 0);
    double worst = 0.0;
    for (int w = 0; w < WATERS; w++) {
        long double expected[9], virial[9] = {0.0L};
        shake(sample, w, expected, virial);
        for (int k = 0; k < 9; k++)
            worst = fmax(worst, (double)fabsl(x[9 * w + k] - expected[k]));
    }
    assert_true(worst < 5e-15);
    assert_true(bond_error(sample, x) < 5e-14);
    free(sample);
}

static void test_agrees_with_shake_for_spce(void **state)
{
    (void)state;
    settles_as_shake(0.1, 0.1633, 0.005);
}

static void test_agrees_with_shake_for_tip3p(void **state)
{
    (void)state;
    settles_as_shake(tip3p_oh, tip3p_hh, 0.005);
}

static void test_agrees_with_shake_for_tiny_and_large_moves(void **state)
{
    (void)state;
    settles_as_shake(0.1, 0.1633, 1e-9);
    settles_as_shake(0.1, 0.1633, 0.015);
}

static void test_what_satisfies_the_constraints_stays(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 2);
    double x[VALUES];
    memcpy(x, sample->old, sizeof x);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, NULL, 0.0, NULL), 0);
    for (int k = 0; k < VALUES; k++)
        assert_true(fabs(x[k] - sample->old[k]) < 2e-15);
    free(sample);
}

static void test_velocity_gets_displacement_over_dt(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.003, 3);
    double x[VALUES], v[VALUES];
    memcpy(x, sample->new, sizeof x);
    memcpy(v, sample->v, sizeof v);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, v, dt_ps, NULL), 0);
    for (int k = 0; k < VALUES; k++)
        assert_true(fabs(v[k] - sample->v[k] - (x[k] - sample->new[k]) / dt_ps) < 2e-12);
    free(sample);
}

static void test_virial_is_that_of_shake_and_is_added(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.003, 4);
    double x[VALUES], virial[9], scale = 0.0;
    long double expected[9];
    for (int k = 0; k < 9; k++)
        expected[k] = virial[k] = 1000.0 * (k + 1);
    memcpy(x, sample->new, sizeof x);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, NULL, dt_ps, virial),
                     0);
    for (int w = 0; w < WATERS; w++) {
        long double position[9];
        shake(sample, w, position, expected);
    }
    for (int k = 0; k < 9; k++)
        scale = fmax(scale, fabs((double)expected[k]));
    for (int k = 0; k < 9; k++)
        assert_true(fabsl(virial[k] - expected[k]) < 1e-12L * scale);
    free(sample);
}

static void test_step_form_agrees_with_position_form(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 5);
    double x[VALUES], v[VALUES], by_step[VALUES], virial[9] = {0.0}, step_virial[9] = {0.0};
    memcpy(v, sample->v, sizeof v);
    memcpy(by_step, sample->v, sizeof v);
    for (int k = 0; k < VALUES; k++)
        x[k] = sample->old[k] + v[k] * dt_ps;
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, v, dt_ps, virial), 0);
    assert_int_equal(
        md_settle_step(&sample->waters, sample->id, sample->old, by_step, dt_ps, step_virial), 0);
    for (int k = 0; k < VALUES; k++) {
        assert_true(fabs(by_step[k] - v[k]) < 2e-12);
        assert_true(fabs(sample->old[k] + by_step[k] * dt_ps - x[k]) < 3e-15);
    }
    for (int k = 0; k < 9; k++)
        assert_true(fabs(virial[k] - step_virial[k]) < 1e-7);
    free(sample);
}

static void test_keeps_momentum_and_angular_momentum(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.005, 6);
    double v[VALUES] = {0.0}, x[VALUES];
    memcpy(x, sample->new, sizeof x);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, v, dt_ps, NULL), 0);
    for (int w = 0; w < WATERS; w++) {
        double momentum[3] = {0.0}, angular[3] = {0.0}, gross = 0.0;
        for (int i = 0; i < 3; i++) {
            const double *r = sample->old + 9 * w + 3 * i, *o = sample->old + 9 * w;
            const double *u = v + 9 * w + 3 * i;
            double m = mass_of(sample, i);
            for (int k = 0; k < 3; k++) {
                int l = (k + 1) % 3, n = (k + 2) % 3;
                momentum[k] += m * u[k];
                angular[k] += m * ((r[l] - o[l]) * u[n] - (r[n] - o[n]) * u[l]);
                gross += m * fabs(u[k]);
            }
        }
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(momentum[k]) < 1e-14 * gross);
            assert_true(fabs(angular[k]) < 1e-14 * gross);
        }
    }
    free(sample);
}

// ---- Rounded input ----

static void test_rounded_coordinates_settle_in_place_in_one_call(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 7);
    for (int k = 0; k < VALUES; k++)
        sample->old[k] = round(1000.0 * sample->old[k]) / 1000.0;
    memcpy(sample->new, sample->old, sizeof sample->new);
    assert_true(bond_error(sample, sample->old) > 1e-3);
    double x[VALUES];
    memcpy(x, sample->old, sizeof x);
    assert_int_equal(md_settle(&sample->waters, sample->id, x, x, NULL, 0.0, NULL), 0);
    assert_true(bond_error(sample, x) < 5e-14);
    for (int w = 0; w < WATERS; w++) {
        long double expected[9], virial[9] = {0.0L};
        shake(sample, w, expected, virial);
        for (int k = 0; k < 9; k++)
            assert_true(fabsl(x[9 * w + k] - expected[k]) < 5e-15L);
    }
    free(sample);
}

// ---- Independence ----

static void test_a_water_does_not_depend_on_its_neighbours(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.005, 8);
    double all[VALUES];
    memcpy(all, sample->new, sizeof all);
    assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, all, NULL, 0.0, NULL), 0);
    for (int count = 1; count <= 17; count++) {
        int reversed[17];
        struct md_waters few = sample->waters;
        for (int w = 0; w < count; w++)
            reversed[w] = sample->oxygen[100 - w];
        few.count = count;
        few.oxygen = reversed;
        double x[VALUES];
        memcpy(x, sample->new, sizeof x);
        assert_int_equal(md_settle(&few, sample->id, sample->old, x, NULL, 0.0, NULL), 0);
        for (int k = 0; k < VALUES; k++) {
            bool moved = k / 9 <= 100 && k / 9 > 100 - count;
            assert_true(x[k] == (moved ? all[k] : sample->new[k]));
        }
    }
    free(sample);
}

static void test_no_waters_is_nothing_to_do(void **state)
{
    (void)state;
    struct md_waters none = {.count = 0};
    double virial[9];
    memset(virial, 0x7f, sizeof virial);
    double before = virial[0];
    assert_int_equal(md_settle(&none, NULL, NULL, NULL, NULL, 0.0, virial), 0);
    assert_int_equal(md_settle_step(&none, NULL, NULL, NULL, 0.0, virial), 0);
    md_settle_velocities(&none, NULL, NULL);
    assert_true(virial[0] == before && virial[8] == before);
}

// ---- Refusals ----

// Water 150 is spoilt: the error has to name its oxygen as files count, and nothing may have
// changed.
static void refuses(struct sample *sample, const double *old, const double *new)
{
    double x[VALUES], v[VALUES], virial[9];
    memcpy(x, new, sizeof x);
    memcpy(v, sample->v, sizeof v);
    memset(virial, 0x5a, sizeof virial);
    double poison = virial[0];
    assert_int_equal(md_settle(&sample->waters, sample->id, old, x, v, dt_ps, virial), -EDOM);
    assert_non_null(strstr(leat_error_detail(), " 700451 "));
    assert_memory_equal(x, new, sizeof x);
    assert_memory_equal(v, sample->v, sizeof v);
    for (int k = 0; k < 9; k++)
        assert_true(virial[k] == poison);
}

static void test_huge_displacement_names_the_atom(void **state)
{
    (void)state;
    static const double far[4] = {0.4, 50.0, 1e160, -1e308};
    for (int k = 0; k < 9; k++)
        for (int n = 0; n < 4; n++) {
            struct sample *sample = sample_new(0.1, 0.1633, 0.002, 9);
            sample->new[9 * 150 + k] += far[n];
            refuses(sample, sample->old, sample->new);
            free(sample);
        }
}

static void test_not_finite_names_the_atom(void **state)
{
    (void)state;
    static const double bad[3] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 9; k++)
        for (int n = 0; n < 3; n++) {
            struct sample *sample = sample_new(0.1, 0.1633, 0.002, 10);
            sample->new[9 * 150 + k] = bad[n];
            refuses(sample, sample->old, sample->new);
            sample->new[9 * 150 + k] = 0.0;
            sample->old[9 * 150 + k] = bad[n];
            refuses(sample, sample->old, sample->new);
            free(sample);
        }
}

static void test_half_a_turn_names_the_atom(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.002, 11);
    double *water = sample->new + 9 * 150;
    for (int k = 0; k < 3; k++) {
        double b = water[3 + k];
        water[3 + k] = water[6 + k];
        water[6 + k] = b;
    }
    refuses(sample, sample->old, sample->new);
    free(sample);
}

static void test_sites_in_a_line_name_the_atom(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 12);
    double *water = sample->old + 9 * 150;
    for (int n = 0; n < 2; n++) { // exactly, and up to rounding
        double factor = n == 0 ? 1.0 : 1.1;
        for (int k = 0; k < 3; k++)
            water[6 + k] = water[k] + factor * (water[k] - water[3 + k]);
        refuses(sample, sample->old, sample->old);
    }
    for (int k = 0; k < 9; k++)
        water[k] = 1.0;
    refuses(sample, sample->old, sample->old);
    free(sample);
}

static void test_a_molecule_broken_by_the_box_names_the_atom(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 13);
    sample->old[9 * 150 + 6] += 5.0;
    refuses(sample, sample->old, sample->old);
    free(sample);
}

static void test_an_impossible_triangle_is_refused(void **state)
{
    (void)state;
    static const double bad[][4] = {{0.1, 0.2, 16.0, 1.0},  {0.1, 0.3, 16.0, 1.0},
                                    {0.1, 0.0, 16.0, 1.0},  {-0.1, 0.16, 16.0, 1.0},
                                    {0.1, 0.16, 0.0, 1.0},  {0.1, 0.16, 16.0, 0.0},
                                    {NAN, 0.16, 16.0, 1.0}, {0.1, 0.16, INFINITY, 1.0}};
    struct sample *sample = sample_new(0.1, 0.1633, 0.002, 14);
    double x[VALUES];
    memcpy(x, sample->new, sizeof x);
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        struct md_waters waters = sample->waters;
        waters.d_oh_nm = bad[n][0];
        waters.d_hh_nm = bad[n][1];
        waters.mass_o_u = bad[n][2];
        waters.mass_h_u = bad[n][3];
        assert_int_equal(md_settle(&waters, sample->id, sample->old, x, NULL, 0.0, NULL), -EINVAL);
        assert_non_null(strstr(leat_error_detail(), "O-H"));
    }
    assert_memory_equal(x, sample->new, sizeof x);
    free(sample);
}

static void test_a_time_step_that_is_not_positive_is_refused(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.002, 15);
    static const double bad[4] = {0.0, -0.002, NAN, INFINITY};
    for (int n = 0; n < 4; n++) {
        double x[VALUES], v[VALUES], virial[9] = {0.0};
        memcpy(x, sample->new, sizeof x);
        memcpy(v, sample->v, sizeof v);
        assert_int_equal(md_settle(&sample->waters, sample->id, sample->old, x, v, bad[n], NULL),
                         -EINVAL);
        assert_int_equal(
            md_settle(&sample->waters, sample->id, sample->old, x, NULL, bad[n], virial), -EINVAL);
        assert_int_equal(md_settle_step(&sample->waters, sample->id, sample->old, v, bad[n], NULL),
                         -EINVAL);
        assert_memory_equal(x, sample->new, sizeof x);
        assert_memory_equal(v, sample->v, sizeof v);
    }
    free(sample);
}

// ---- Velocities ----

// Sum of |relative velocity along a bond|.
static double along_bonds(const double *x, const double *v)
{
    static const int from[3] = {0, 0, 1}, to[3] = {1, 2, 2};
    double sum = 0.0;
    for (int bond = 0; bond < 3; bond++) {
        double dot = 0.0;
        for (int k = 0; k < 3; k++)
            dot += (x[3 * to[bond] + k] - x[3 * from[bond] + k]) *
                   (v[3 * to[bond] + k] - v[3 * from[bond] + k]);
        sum += fabs(dot);
    }
    return sum;
}

static void test_velocities_lose_their_parts_along_bonds(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 16);
    double v[VALUES];
    memcpy(v, sample->v, sizeof v);
    md_settle_velocities(&sample->waters, sample->old, v);
    for (int w = 0; w < WATERS; w++)
        assert_true(along_bonds(sample->old + 9 * w, v + 9 * w) < 1e-15);
    double again[VALUES];
    memcpy(again, v, sizeof v);
    md_settle_velocities(&sample->waters, sample->old, again);
    for (int k = 0; k < VALUES; k++)
        assert_true(fabs(again[k] - v[k]) < 1e-14);
    free(sample);
}

// What is taken out is a sum of impulses along bonds: no momentum, no angular momentum, and it is
// orthogonal (weighted by mass) to what is left.
static void test_projection_of_velocities_is_orthogonal(void **state)
{
    (void)state;
    struct sample *sample = sample_new(tip3p_oh, tip3p_hh, 0.0, 17);
    double v[VALUES];
    memcpy(v, sample->v, sizeof v);
    md_settle_velocities(&sample->waters, sample->old, v);
    for (int w = 0; w < WATERS; w++) {
        double momentum[3] = {0.0}, angular[3] = {0.0}, work = 0.0, taken = 0.0;
        for (int i = 0; i < 3; i++) {
            const double *r = sample->old + 9 * w + 3 * i, *o = sample->old + 9 * w;
            const double *left = v + 9 * w + 3 * i, *was = sample->v + 9 * w + 3 * i;
            double m = mass_of(sample, i);
            for (int k = 0; k < 3; k++) {
                int l = (k + 1) % 3, n = (k + 2) % 3;
                momentum[k] += m * (was[k] - left[k]);
                angular[k] +=
                    m * ((r[l] - o[l]) * (was[n] - left[n]) - (r[n] - o[n]) * (was[l] - left[l]));
                work += m * (was[k] - left[k]) * left[k];
                taken += m * fabs(was[k] - left[k]);
            }
        }
        assert_true(taken > 0.01);
        assert_true(fabs(work) < 1e-13);
        for (int k = 0; k < 3; k++)
            assert_true(fabs(momentum[k]) < 1e-13 && fabs(angular[k]) < 1e-14);
    }
    free(sample);
}

static void test_velocities_of_a_collapsed_water_stay(void **state)
{
    (void)state;
    struct sample *sample = sample_new(0.1, 0.1633, 0.0, 18);
    for (int k = 0; k < 9; k++)
        sample->old[9 * 7 + k] = 1.0;
    double v[VALUES];
    memcpy(v, sample->v, sizeof v);
    md_settle_velocities(&sample->waters, sample->old, v);
    assert_memory_equal(v + 9 * 7, sample->v + 9 * 7, 9 * sizeof *v);
    assert_true(along_bonds(sample->old + 9 * 8, v + 9 * 8) < 1e-15);
    free(sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_shake_for_spce),
        cmocka_unit_test(test_agrees_with_shake_for_tip3p),
        cmocka_unit_test(test_agrees_with_shake_for_tiny_and_large_moves),
        cmocka_unit_test(test_what_satisfies_the_constraints_stays),
        cmocka_unit_test(test_velocity_gets_displacement_over_dt),
        cmocka_unit_test(test_virial_is_that_of_shake_and_is_added),
        cmocka_unit_test(test_step_form_agrees_with_position_form),
        cmocka_unit_test(test_keeps_momentum_and_angular_momentum),
        cmocka_unit_test(test_rounded_coordinates_settle_in_place_in_one_call),
        cmocka_unit_test(test_a_water_does_not_depend_on_its_neighbours),
        cmocka_unit_test(test_no_waters_is_nothing_to_do),
        cmocka_unit_test(test_huge_displacement_names_the_atom),
        cmocka_unit_test(test_not_finite_names_the_atom),
        cmocka_unit_test(test_half_a_turn_names_the_atom),
        cmocka_unit_test(test_sites_in_a_line_name_the_atom),
        cmocka_unit_test(test_a_molecule_broken_by_the_box_names_the_atom),
        cmocka_unit_test(test_an_impossible_triangle_is_refused),
        cmocka_unit_test(test_a_time_step_that_is_not_positive_is_refused),
        cmocka_unit_test(test_velocities_lose_their_parts_along_bonds),
        cmocka_unit_test(test_projection_of_velocities_is_orthogonal),
        cmocka_unit_test(test_velocities_of_a_collapsed_water_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
