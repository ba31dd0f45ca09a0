// SPDX-License-Identifier: Apache-2.0
// Leap-frog: against closed solutions, and what free rigid waters have to keep.

#include "md/dynamics.h"

#include <leat/leat.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WATERS = 45, ATOMS = 3 * WATERS, VALUES = 3 * ATOMS };

static const double dt_ps = 0.002, oh = 0.1, hh = 0.1633, unscaled = 1.0, half = 0.5;

// Waters on a lattice, turned by quarters and thirds, at velocities of some 300 K.
struct system {
    int oxygen[WATERS];
    int64_t id[ATOMS];
    double x[VALUES], v[VALUES], f[VALUES], mass[ATOMS], scratch[VALUES];
    struct md_rigid rigid;
    struct md_atoms atoms;
};

static int enter(void **state)
{
    struct system *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->rigid.waters = (struct md_waters){WATERS, s->oxygen, 15.9994, 1.008, oh, hh};
    s->atoms = (struct md_atoms){ATOMS, s->id, NULL, s->x, s->v, s->f, s->mass, NULL};
    double height = sqrt(oh * oh - 0.25 * hh * hh);
    for (int w = 0; w < WATERS; w++) {
        s->oxygen[w] = 3 * w;
        for (int i = 0; i < 3; i++) {
            double *site = s->x + 9 * w + 3 * i;
            s->id[3 * w + i] = 5000 + 3 * w + i;
            s->mass[3 * w + i] = i == 0 ? 15.9994 : 1.008;
            site[w % 3] = 0.31 * w + (i == 0 ? 0.0 : (i - 1.5) * hh);
            site[(w + 1) % 3] = 1.0 + (i == 0 ? 0.0 : (w & 1 ? height : -height));
            site[(w + 2) % 3] = 2.0;
        }
    }
    md_generate_velocities(&s->atoms, 300.0, 77);
    *state = s;
    return 0;
}

static int leave(void **state)
{
    free(*state);
    return 0;
}

static void step(struct system *s, double *virial, double ekin[9])
{
    assert_int_equal(
        md_leapfrog(&s->atoms, &s->rigid, dt_ps, dt_ps, &unscaled, 1.0, s->scratch, virial, ekin),
        0);
}

static double trace(const double a[9])
{
    return a[0] + a[4] + a[8];
}

// ---- Without constraints ----

static void test_velocity_is_scaled_and_kicked_then_position_moves(void **state)
{
    (void)state;
    int64_t id[2] = {4, 9};
    double x[6] = {1, 2, 3, 4, 5, 6}, v[6] = {0.5, -0.25, 2, 1, 0, -1}, f[6] = {8, 0, -4, 2, 6, 1};
    double mass[2] = {4.0, 2.0}, scratch[6], ekin[9];
    static const double v_new[6] = {1.25, -0.125, 0.5, 1.0, 1.5, -0.25};
    static const double x_new[6] = {1.625, 1.9375, 3.25, 4.5, 5.75, 5.875};
    struct md_atoms atoms = {2, id, NULL, x, v, f, mass, NULL};
    memset(ekin, 0x5a, sizeof ekin);
    assert_int_equal(md_leapfrog(&atoms, NULL, 0.5, 0.5, &half, 10.0, scratch, NULL, ekin), 0);
    for (int k = 0; k < 6; k++) {
        assert_true(v[k] == v_new[k]);
        assert_true(x[k] == x_new[k]);
    }
    for (int k = 0; k < 9; k++)
        assert_true(ekin[k] ==
                    2.0 * v_new[k / 3] * v_new[k % 3] + v_new[3 + k / 3] * v_new[3 + k % 3]);
}

// Leap-frog turns a harmonic oscillator into one with sin(w' dt / 2) = w dt / 2.
static void test_harmonic_oscillator_has_the_known_frequency(void **state)
{
    (void)state;
    int64_t id = 0;
    double omega = 0.4, dt = 0.5, shifted = 2.0 / dt * asin(0.5 * omega * dt), mass = 3.0;
    double x[3] = {1.0, 0.0, 0.0}, v[3] = {(1.0 - cos(shifted * dt)) / dt, 0.0, 0.0}, f[3] = {0.0};
    double scratch[3], ekin[9];
    struct md_atoms atoms = {1, &id, NULL, x, v, f, &mass, NULL};
    for (int n = 1; n <= 2000; n++) {
        f[0] = -mass * omega * omega * x[0];
        assert_int_equal(md_leapfrog(&atoms, NULL, dt, dt, &unscaled, 10.0, scratch, NULL, ekin),
                         0);
        assert_true(fabs(x[0] - cos(shifted * dt * n)) < 1e-11);
    }
}

static void test_no_atoms_is_nothing_to_do(void **state)
{
    (void)state;
    struct md_atoms none = {.count = 0};
    struct md_rigid dry = {.waters = {.count = 0}};
    double ekin[9], virial[9] = {7.0};
    memset(ekin, 0x5a, sizeof ekin);
    assert_int_equal(md_leapfrog(&none, &dry, dt_ps, dt_ps, &unscaled, 1.0, NULL, virial, ekin), 0);
    for (int k = 0; k < 9; k++)
        assert_true(ekin[k] == 0.0);
    assert_true(virial[0] == 7.0);
}

static void test_kinetic_energy_is_that_of_the_new_velocities(void **state)
{
    struct system *s = *state;
    double virial[9] = {0.0}, ekin[9], again[9];
    step(s, virial, ekin);
    md_kinetic(&s->atoms, again);
    assert_memory_equal(ekin, again, sizeof ekin);
    for (int k = 0; k < 9; k++) {
        double expected = 0.0;
        for (int i = 0; i < ATOMS; i++)
            expected += 0.5 * s->mass[i] * s->v[3 * i + k / 3] * s->v[3 * i + k % 3];
        assert_true(fabs(ekin[k] - expected) < 1e-11);
    }
}

// ---- Free rigid waters ----

// Of momentum, and of angular momentum about the origin with the half-step velocities.
static void momenta(const struct system *s, double momentum[3], double angular[3])
{
    for (int k = 0; k < 3; k++) {
        int l = (k + 1) % 3, n = (k + 2) % 3;
        momentum[k] = angular[k] = 0.0;
        for (int i = 0; i < ATOMS; i++) {
            const double *x = s->x + 3 * i, *v = s->v + 3 * i;
            momentum[k] += s->mass[i] * v[k];
            angular[k] += s->mass[i] * (x[l] * v[n] - x[n] * v[l]);
        }
    }
}

static double distance(const double *a, const double *b)
{
    return sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                (a[2] - b[2]) * (a[2] - b[2]));
}

static void test_free_rotors_keep_energy_momenta_and_bonds(void **state)
{
    struct system *s = *state;
    double virial[9] = {0.0}, ekin[9], momentum[3], angular[3], now[3], turning[3];
    step(s, virial, ekin);
    momenta(s, momentum, angular);
    double energy = trace(ekin);
    assert_true(energy > 100.0);
    for (int n = 0; n < 10000; n++) {
        step(s, virial, ekin);
        assert_true(fabs(trace(ekin) / energy - 1.0) < 1e-11);
    }
    momenta(s, now, turning);
    for (int k = 0; k < 3; k++) {
        assert_true(fabs(now[k] - momentum[k]) < 1e-11);
        assert_true(fabs(turning[k] - angular[k]) < 1e-10);
    }
    for (int w = 0; w < WATERS; w++) {
        const double *o = s->x + 9 * w;
        assert_true(fabs(distance(o, o + 3) / oh - 1.0) < 1e-12);
        assert_true(fabs(distance(o, o + 6) / oh - 1.0) < 1e-12);
        assert_true(fabs(distance(o + 3, o + 6) / hh - 1.0) < 1e-12);
    }
}

// Kinetic energy of the motion relative to the molecules' centres of mass.
static double turning_energy(const struct system *s)
{
    double sum = 0.0;
    for (int w = 0; w < WATERS; w++)
        for (int k = 0; k < 3; k++) {
            double centre = 0.0, total = 0.0;
            for (int i = 3 * w; i < 3 * w + 3; i++) {
                centre += s->mass[i] * s->v[3 * i + k];
                total += s->mass[i];
            }
            for (int i = 3 * w; i < 3 * w + 3; i++)
                sum += 0.5 * s->mass[i] * pow(s->v[3 * i + k] - centre / total, 2);
        }
    return sum;
}

// With |r| of all sites about the centre constant, sum m r (r+ - 2 r + r-) / dt^2 is minus the sum
// of the two half steps' kinetic energies, and -1/2 of it the constraints' virial: exact at any dt.
static void test_virial_of_free_rotors_is_their_kinetic_energy(void **state)
{
    struct system *s = *state;
    double ignored[9] = {0.0}, ekin[9];
    step(s, ignored, ekin);
    for (int n = 0; n < 500; n++) {
        double virial[9] = {0.0}, before = turning_energy(s);
        step(s, virial, ekin);
        double both = 0.5 * (before + turning_energy(s));
        assert_true(fabs(trace(virial) / both - 1.0) < 1e-11);
        assert_true(fabs(virial[1] - virial[3]) < 1e-10 * both);
        assert_true(fabs(virial[2] - virial[6]) < 1e-10 * both);
        assert_true(fabs(virial[5] - virial[7]) < 1e-10 * both);
    }
}

// Springs from each atom to a point of its own: forces that depend on positions only.
static void pull(struct system *s)
{
    for (int k = 0; k < VALUES; k++)
        s->f[k] = -200.0 * (s->x[k] - 0.01 * (k % 97));
}

static void test_a_run_backwards_retraces_its_steps(void **state)
{
    struct system *s = *state;
    static double path[202][VALUES];
    double virial[9] = {0.0}, ekin[9];
    for (int n = 0; n < 202; n++) {
        memcpy(path[n], s->x, sizeof s->x);
        pull(s);
        step(s, virial, ekin);
    }
    memcpy(s->x, path[201], sizeof s->x);
    for (int k = 0; k < VALUES; k++)
        s->v[k] = -s->v[k];
    // v is now that from 202 back to 201, half a step behind 201.
    for (int n = 200; n >= 0; n--) {
        pull(s);
        step(s, virial, ekin);
        for (int k = 0; k < VALUES; k++)
            assert_true(fabs(s->x[k] - path[n][k]) < 1e-10);
    }
}

// Positions after 0.064 ps, from a start whose half step behind belongs to dt.
static void run_at(struct system *s, int substeps, double x[VALUES])
{
    struct system *copy = malloc(sizeof *copy);
    assert_non_null(copy);
    *copy = *s;
    copy->rigid.waters.oxygen = copy->oxygen;
    copy->atoms =
        (struct md_atoms){ATOMS, copy->id, NULL, copy->x, copy->v, copy->f, copy->mass, NULL};
    double dt = dt_ps / substeps, virial[9] = {0.0}, ekin[9];
    memset(copy->v, 0, sizeof copy->v);
    for (int n = 0; n < 32 * substeps; n++) {
        pull(copy);
        // At rest at the start: half a kick makes the half step that leap-frog wants.
        for (int k = 0; n == 0 && k < VALUES; k++)
            copy->f[k] *= 0.5;
        assert_int_equal(md_leapfrog(&copy->atoms, &copy->rigid, dt, dt, &unscaled, 1.0,
                                     copy->scratch, virial, ekin),
                         0);
    }
    memcpy(x, copy->x, sizeof copy->x);
    free(copy);
}

static void test_error_falls_with_the_square_of_dt(void **state)
{
    struct system *s = *state;
    double exact[VALUES], coarse[VALUES], fine[VALUES], coarse2 = 0.0, fine2 = 0.0;
    run_at(s, 64, exact);
    run_at(s, 1, coarse);
    run_at(s, 2, fine);
    for (int k = 0; k < VALUES; k++) {
        coarse2 += (coarse[k] - exact[k]) * (coarse[k] - exact[k]);
        fine2 += (fine[k] - exact[k]) * (fine[k] - exact[k]);
    }
    double ratio = sqrt(coarse2 / fine2);
    assert_true(ratio > 3.8 && ratio < 4.2);
}

// ---- Independence of the split over ranks ----

static void test_atoms_move_the_same_on_any_rank(void **state)
{
    struct system *s = *state, *part = calloc(1, sizeof *part);
    assert_non_null(part);
    enum { FIRST = 13, COUNT = 11 }; // waters of the part
    for (int w = 0; w < COUNT; w++)
        part->oxygen[w] = 3 * w;
    memcpy(part->id, s->id + 3 * FIRST, 3 * COUNT * sizeof *s->id);
    memcpy(part->mass, s->mass + 3 * FIRST, 3 * COUNT * sizeof *s->mass);
    memcpy(part->x, s->x + 9 * FIRST, 9 * COUNT * sizeof *s->x);
    memcpy(part->v, s->v + 9 * FIRST, 9 * COUNT * sizeof *s->v);
    part->rigid.waters = (struct md_waters){COUNT, part->oxygen, 15.9994, 1.008, oh, hh};
    part->atoms =
        (struct md_atoms){3 * COUNT, part->id, NULL, part->x, part->v, part->f, part->mass, NULL};
    double virial[9] = {0.0}, ekin[9];
    for (int n = 0; n < 50; n++) {
        step(s, virial, ekin);
        step(part, virial, ekin);
    }
    assert_memory_equal(part->x, s->x + 9 * FIRST, 9 * COUNT * sizeof *s->x);
    assert_memory_equal(part->v, s->v + 9 * FIRST, 9 * COUNT * sizeof *s->v);
    free(part);
}

// ---- Refusals ----

// The error and the atom it has to name; nothing but the scratch may have changed.
static void refuses(struct system *s, double limit_nm, int error, const char *atom)
{
    static struct system before;
    double virial[9], ekin[9], poison;
    memset(virial, 0x5a, sizeof virial);
    memset(ekin, 0x5a, sizeof ekin);
    poison = ekin[0];
    before = *s;
    assert_int_equal(md_leapfrog(&s->atoms, &s->rigid, dt_ps, dt_ps, &unscaled, limit_nm,
                                 s->scratch, virial, ekin),
                     error);
    assert_non_null(strstr(leat_error_detail(), atom));
    assert_memory_equal(s->x, before.x, sizeof s->x);
    assert_memory_equal(s->v, before.v, sizeof s->v);
    assert_memory_equal(s->f, before.f, sizeof s->f);
    for (int k = 0; k < 9; k++)
        assert_true(virial[k] == poison && ekin[k] == poison);
}

static void test_a_jump_names_the_first_atom_that_jumps(void **state)
{
    struct system *s = *state;
    s->v[3 * 40 + 1] = 200.0;
    s->v[3 * 41 + 2] = 9e9;
    refuses(s, 0.3, -ERANGE, "atom 5041 ");
    s->v[3 * 40 + 1] = 100.0; // 0.2 nm: allowed, and the next one is found
    refuses(s, 0.3, -ERANGE, "atom 5042 ");
}

static void test_not_finite_names_the_atom(void **state)
{
    struct system *s = *state;
    static const double bad[3] = {NAN, INFINITY, -INFINITY};
    double *array[3] = {s->x, s->v, s->f};
    for (int which = 0; which < 3; which++)
        for (int axis = 0; axis < 3; axis++)
            for (int n = 0; n < 3; n++) {
                double *value = &array[which][3 * 77 + axis], good = *value;
                *value = bad[n];
                refuses(s, INFINITY, -ERANGE, "atom 5078 ");
                *value = good;
            }
}

static void test_an_atom_of_no_mass_is_named(void **state)
{
    struct system *s = *state;
    s->mass[12] = 0.0;
    refuses(s, 1.0, -ERANGE, "atom 5013 (mass 0 u)");
}

static void test_a_limit_that_is_no_number_lets_nothing_pass(void **state)
{
    refuses(*state, NAN, -ERANGE, "atom 5001 ");
}

static void test_a_water_that_cannot_be_constrained_is_named(void **state)
{
    struct system *s = *state;
    s->v[3 * 61] = 100.0; // 0.2 nm within the limit, but no water can follow
    refuses(s, 0.5, -EDOM, "atom 5061 ");
}

// ---- Sums ----

static void test_momentum_and_mass_and_their_removal(void **state)
{
    struct system *s = *state;
    double momentum[3], mass = NAN, total = 0.0;
    md_momentum(&s->atoms, momentum, &mass);
    for (int i = 0; i < ATOMS; i++)
        total += s->mass[i];
    assert_true(fabs(mass - total) < 1e-10);
    double velocity[3];
    for (int k = 0; k < 3; k++) {
        double expected = 0.0;
        for (int i = 0; i < ATOMS; i++)
            expected += s->mass[i] * s->v[3 * i + k];
        assert_true(fabs(momentum[k] - expected) < 1e-10);
        assert_true(fabs(momentum[k]) > 1.0);
        velocity[k] = momentum[k] / mass;
    }
    double first = s->v[1];
    md_remove_velocity(&s->atoms, velocity);
    assert_true(s->v[1] == first - velocity[1]);
    md_momentum(&s->atoms, momentum, &mass);
    for (int k = 0; k < 3; k++)
        assert_true(fabs(momentum[k]) < 1e-11);
}

#define WITH_SYSTEM(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_velocity_is_scaled_and_kicked_then_position_moves),
        cmocka_unit_test(test_harmonic_oscillator_has_the_known_frequency),
        cmocka_unit_test(test_no_atoms_is_nothing_to_do),
        WITH_SYSTEM(test_kinetic_energy_is_that_of_the_new_velocities),
        WITH_SYSTEM(test_free_rotors_keep_energy_momenta_and_bonds),
        WITH_SYSTEM(test_virial_of_free_rotors_is_their_kinetic_energy),
        WITH_SYSTEM(test_a_run_backwards_retraces_its_steps),
        WITH_SYSTEM(test_error_falls_with_the_square_of_dt),
        WITH_SYSTEM(test_atoms_move_the_same_on_any_rank),
        WITH_SYSTEM(test_a_jump_names_the_first_atom_that_jumps),
        WITH_SYSTEM(test_not_finite_names_the_atom),
        WITH_SYSTEM(test_an_atom_of_no_mass_is_named),
        WITH_SYSTEM(test_a_limit_that_is_no_number_lets_nothing_pass),
        WITH_SYSTEM(test_a_water_that_cannot_be_constrained_is_named),
        WITH_SYSTEM(test_momentum_and_mass_and_their_removal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
