// SPDX-License-Identifier: Apache-2.0
// Bonded terms: forces against differences of energies, values known by hand, sums and limits.

#include "md/bonded.h"
#include "md/bonded_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PI 3.14159265358979323846

enum { ATOMS = 4, MOLECULES = 5, TRIALS = 40 };

static const double coulomb = 138.935457644;

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

// One term of atoms 0, 1, ... in a molecule of four.
struct sample {
    struct md_term term;
    struct md_molecule_type type;
};

static void sample_set(struct sample *sample, int kind, const double *parameter)
{
    memset(sample, 0, sizeof *sample);
    for (int k = 0; k < MD_TERM_PARAMETERS; k++)
        sample->term.parameter[k] = parameter[k];
    for (int k = 0; k < ATOMS; k++)
        sample->term.atom[k] = k;
    sample->type.atom_count = ATOMS;
    sample->type.terms = &sample->term;
    for (int k = kind + 1; k <= MD_TERM_KINDS; k++)
        sample->type.term_start[k] = 1;
}

struct result {
    double energy, f[3 * ATOMS], virial[9];
};

static double total(const struct md_bonded_energy *energy)
{
    double sum = energy->coulomb14;
    for (int kind = 0; kind < MD_TERM_KINDS; kind++)
        sum += energy->term[kind];
    return sum;
}

static void compute(const struct sample *sample, const double *x, struct result *result)
{
    struct md_bonded_energy energy = {0};
    memset(result, 0, sizeof *result);
    md_bonded_forces(&sample->type, 1, coulomb, x, result->f, &energy, result->virial);
    result->energy = total(&energy);
}

static double energy_at(const struct sample *sample, const double *x)
{
    struct result result;
    compute(sample, x, &result);
    return result.energy;
}

// Four atoms in a chain of any shape, somewhere in a box.
static void place(uint64_t *state, double *x)
{
    for (int k = 0; k < 3; k++)
        x[k] = 3.0 + 3.0 * even(state);
    for (int k = 3; k < 3 * ATOMS; k++)
        x[k] = x[k - 3] + 0.15 * even(state);
}

static const struct {
    const char *name;
    int kind;
    double parameter[MD_TERM_PARAMETERS];
} kinds[] = {
    {"bond", MD_TERM_BOND, {0.11, 3e5}},
    {"angle", MD_TERM_ANGLE, {1.9, 400.0}},
    {"straight angle", MD_TERM_ANGLE, {PI, 400.0}},
    {"dihedral of one period", MD_TERM_DIHEDRAL, {0.0, 5.0, 1.0}},
    {"dihedral of three periods", MD_TERM_DIHEDRAL, {PI, 5.0, 3.0}},
    {"dihedral of any phase", MD_TERM_DIHEDRAL, {-0.7, 5.0, 2.0}},
    {"dihedral of eight periods", MD_TERM_DIHEDRAL, {0.3, 5.0, 8.0}},
    {"dihedral of no period", MD_TERM_DIHEDRAL, {0.3, 5.0, 0.0}},
    {"dihedral of a negative period", MD_TERM_DIHEDRAL, {0.3, 5.0, -2.0}},
    {"Ryckaert-Bellemans", MD_TERM_RYCKAERT_BELLEMANS, {9.28, 12.16, -13.12, -3.06, 26.24, -31.5}},
    {"improper", MD_TERM_IMPROPER, {0.6, 160.0}},
    {"improper across the cut", MD_TERM_IMPROPER, {3.0, 160.0}},
    {"improper of both sides", MD_TERM_IMPROPER, {0.6, 160.0, 1.0}},
    {"periodic improper", MD_TERM_PERIODIC_IMPROPER, {PI, 4.6, 2.0}},
    {"1-4 pair", MD_TERM_PAIR, {2e-3, 2e-6, 0.2}},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static double largest(const double *a, int count)
{
    double most = 0.0;
    for (int k = 0; k < count; k++)
        most = fmax(most, fabs(a[k]));
    return most;
}

static double least_sine(const double *x)
{
    double least = 1.0;
    for (int i = 1; i < 3; i++) {
        double a2 = 0.0, b2 = 0.0, ab = 0.0;
        for (int d = 0; d < 3; d++) {
            double a = x[3 * i - 3 + d] - x[3 * i + d], b = x[3 * i + 3 + d] - x[3 * i + d];
            a2 += a * a;
            b2 += b * b;
            ab += a * b;
        }
        least = fmin(least, fmin(sqrt(1.0 - ab * ab / (a2 * b2)), sqrt(fmin(a2, b2)) / 0.1));
    }
    return least;
}

// Calls `each` at random geometries, not too near those where forces have no bound.
static void for_geometries(void (*each)(const char *name, const struct sample *sample,
                                        const double *x))
{
    uint64_t state = 7;
    for (int k = 0; k < KINDS; k++)
        for (int trial = 0; trial < TRIALS;) {
            double x[3 * ATOMS];
            struct sample sample;
            place(&state, x);
            if (least_sine(x) < 0.3)
                continue;
            sample_set(&sample, kinds[k].kind, kinds[k].parameter);
            each(kinds[k].name, &sample, x);
            trial++;
        }
}

// ---- Derivatives ----

static void check_gradient(const char *name, const struct sample *sample, const double *x)
{
    struct result result;
    compute(sample, x, &result);
    double scale = largest(result.f, 3 * ATOMS) + 1.0;
    for (int k = 0; k < 3 * ATOMS; k++) {
        // Of the fourth order, so that a step can be long enough not to drown in rounding.
        static const double at[4] = {-2.0, -1.0, 1.0, 2.0}, weight[4] = {1.0, -8.0, 8.0, -1.0};
        double moved[3 * ATOMS], step = 2e-5, slope = 0.0;
        memcpy(moved, x, sizeof moved);
        for (int p = 0; p < 4; p++) {
            moved[k] = x[k] + at[p] * step;
            slope += weight[p] * energy_at(sample, moved) / (12.0 * step);
        }
        if (!(fabs(result.f[k] + slope) <= 1e-7 * scale))
            fail_msg("%s: force %d is %.12g, the energy's slope %.12g (scale %g)", name, k,
                     result.f[k], slope, scale);
    }
}

static void test_forces_are_the_energys_gradient(void **context)
{
    (void)context;
    for_geometries(check_gradient);
}

static void check_sums(const char *name, const struct sample *sample, const double *x)
{
    struct result result;
    compute(sample, x, &result);
    double scale = largest(result.f, 3 * ATOMS) + 1.0;
    for (int d = 0; d < 3; d++) {
        double force = 0.0, torque = 0.0;
        int e = (d + 1) % 3, g = (d + 2) % 3;
        for (int i = 0; i < ATOMS; i++) {
            force += result.f[3 * i + d];
            torque += (x[3 * i + e] - x[e]) * result.f[3 * i + g] -
                      (x[3 * i + g] - x[g]) * result.f[3 * i + e];
        }
        if (!(fabs(force) <= 1e-14 * scale && fabs(torque) <= 1e-14 * scale))
            fail_msg("%s: net force %g, torque %g (scale %g)", name, force, torque, scale);
    }
}

static void test_no_net_force_and_no_torque(void **context)
{
    (void)context;
    for_geometries(check_sums);
}

// dV / d strain is -sum x (x) f, twice the virial.
static void check_virial(const char *name, const struct sample *sample, const double *x)
{
    struct result result;
    compute(sample, x, &result);
    double scale = 0.1 * largest(result.f, 3 * ATOMS) + 1.0;
    for (int k = 0; k < 9; k++) {
        double value[2], step = 1e-5;
        for (int side = 0; side < 2; side++) {
            double strained[3 * ATOMS];
            memcpy(strained, x, sizeof strained);
            for (int i = 0; i < ATOMS; i++)
                strained[3 * i + k % 3] += (side ? step : -step) * (x[3 * i + k / 3] - x[k / 3]);
            value[side] = energy_at(sample, strained);
        }
        double slope = (value[1] - value[0]) / (2.0 * step);
        if (!(fabs(2.0 * result.virial[k] - slope) <= 1e-6 * scale))
            fail_msg("%s: virial %d is %.12g, half the slope in strain %.12g (scale %g)", name, k,
                     result.virial[k], 0.5 * slope, scale);
    }
}

static void test_virial_is_the_slope_in_strain(void **context)
{
    (void)context;
    for_geometries(check_virial);
}

// ---- Values ----

static void set_angle(double *x, double degrees)
{
    memset(x, 0, 3 * ATOMS * sizeof *x);
    x[0] = 0.1;
    x[6] = 0.15 * cos(degrees * PI / 180.0);
    x[7] = 0.15 * sin(degrees * PI / 180.0);
    x[9] = x[6] + 0.1; // not in a line with the others
    x[10] = x[7] + 0.1;
    x[11] = 0.1;
}

// Looking from atom 1 to 2, atom 3 is turned clockwise by that much from atom 0.
static void set_dihedral(double *x, double degrees)
{
    static const double middle[12] = {0.0, 0.1, -0.03, 0.0, 0.0, 0.0, 0.0, 0.0, 0.15};
    memcpy(x, middle, sizeof middle);
    x[9] = -0.1 * sin(degrees * PI / 180.0);
    x[10] = 0.1 * cos(degrees * PI / 180.0);
    x[11] = 0.2;
}

static void test_known_energies(void **context)
{
    (void)context;
    struct sample sample;
    double x[3 * ATOMS];
    set_angle(x, 112.0);
    sample_set(&sample, MD_TERM_BOND, (double[6]){0.0945, 462750.4}); // O-H of OPLS' methanol
    assert_true(fabs(energy_at(&sample, x) - 0.5 * 462750.4 * 0.0055 * 0.0055) < 1e-10);
    sample_set(&sample, MD_TERM_ANGLE, (double[6]){108.5 * PI / 180.0, 460.24}); // its C-O-H
    double bend = 3.5 * PI / 180.0;
    assert_true(fabs(energy_at(&sample, x) - 0.5 * 460.24 * bend * bend) < 1e-12);
    sample_set(&sample, MD_TERM_PAIR, (double[6]){1e-3, 1e-6, -0.25});
    double by_hand = 1e-6 / 1e-12 - 1e-3 / 1e-6 - 0.25 * coulomb / 0.1;
    assert_true(fabs(energy_at(&sample, x) / by_hand - 1.0) < 1e-13);
    // H-C-O-H of methanol, trans, 60 and 180 degrees from it.
    static const double rb[6] = {0.94140, 2.82420, 0.0, -3.76560};
    static const double psi[3] = {0.0, 60.0, 180.0};
    sample_set(&sample, MD_TERM_RYCKAERT_BELLEMANS, rb);
    for (int k = 0; k < 3; k++) {
        double c = cos(psi[k] * PI / 180.0);
        set_dihedral(x, psi[k] - 180.0);
        double expected = rb[0] + rb[1] * c + rb[3] * c * c * c;
        assert_true(fabs(energy_at(&sample, x) - expected) < 1e-13);
    }
}

static void test_pair_energies_are_apart(void **context)
{
    (void)context;
    struct sample sample;
    struct md_bonded_energy energy = {0};
    double x[3 * ATOMS], f[3 * ATOMS] = {0.0};
    set_angle(x, 90.0);
    sample_set(&sample, MD_TERM_PAIR, (double[6]){1e-3, 1e-6, -0.25});
    md_bonded_forces(&sample.type, 1, coulomb, x, f, &energy, NULL);
    double lj = 1e-6 / 1e-12 - 1e-3 / 1e-6;
    assert_true(fabs(energy.term[MD_TERM_PAIR] - lj) < 1e-9 * fabs(lj));
    assert_true(fabs(energy.coulomb14 + 0.25 * coulomb / 0.1) < 1e-9);
}

// Also the sign: an angle of n phi - phi0, not + phi0.
static void test_dihedral_has_sign_and_period(void **context)
{
    (void)context;
    struct sample sample;
    double x[3 * ATOMS];
    for (int n = 0; n <= 9; n++)
        for (int degrees = -180; degrees <= 180; degrees += 15) {
            sample_set(&sample, MD_TERM_DIHEDRAL, (double[6]){0.5, 3.0, n});
            set_dihedral(x, degrees);
            double expected = 3.0 * (1.0 + cos(n * degrees * PI / 180.0 - 0.5));
            assert_true(fabs(energy_at(&sample, x) - expected) < 2e-14 * (10.0 + n));
        }
}

static void test_improper_of_both_sides_is_the_same_in_a_mirror(void **context)
{
    (void)context;
    struct sample sample;
    struct result result, mirrored;
    uint64_t state = 5;
    for (int trial = 0; trial < TRIALS; trial++) {
        double x[3 * ATOMS];
        place(&state, x);
        sample_set(&sample, MD_TERM_IMPROPER, (double[6]){0.6, 100.0, 1.0});
        compute(&sample, x, &result);
        for (int i = 0; i < ATOMS; i++)
            x[3 * i] = -x[3 * i];
        compute(&sample, x, &mirrored);
        assert_true(fabs(mirrored.energy - result.energy) <= 1e-12 * result.energy);
        assert_true(fabs(mirrored.f[0] + result.f[0]) <= 1e-9 * fabs(result.f[0]));
    }
}

static void test_improper_is_taken_into_half_a_turn(void **context)
{
    (void)context;
    struct sample sample;
    double x[3 * ATOMS];
    sample_set(&sample, MD_TERM_IMPROPER, (double[6]){170.0 * PI / 180.0, 100.0});
    for (int degrees = -170; degrees <= 170; degrees += 20) {
        double off = (degrees - 170.0) * PI / 180.0;
        off += off < -PI ? 2.0 * PI : 0.0;
        set_dihedral(x, degrees);
        assert_true(fabs(energy_at(&sample, x) - 50.0 * off * off) < 1e-11);
    }
}

// ---- Limits ----

static bool all_finite(const struct result *result)
{
    double sum = result->energy;
    for (int k = 0; k < 3 * ATOMS; k++)
        sum += fabs(result->f[k]);
    for (int k = 0; k < 9; k++)
        sum += fabs(result->virial[k]);
    return isfinite(sum);
}

// Next to 0 and 180 degrees an angle's forces are those of the formula, not of rounding.
static void test_angles_near_a_line(void **context)
{
    (void)context;
    struct sample sample;
    struct result result;
    double x[3 * ATOMS];
    sample_set(&sample, MD_TERM_ANGLE, (double[6]){2.0, 400.0});
    for (int k = 1; k <= 12; k++) {
        double small = pow(10.0, -k);
        for (int side = 0; side < 2; side++) {
            set_angle(x, 0.0);
            x[6] = side ? -0.15 : 0.15;
            x[7] = small * 0.15;
            double theta = atan2(x[7], x[6]);
            compute(&sample, x, &result);
            assert_true(all_finite(&result));
            double slope = 400.0 * (theta - 2.0);
            double expected = -slope * cos(theta) / hypot(x[6], x[7]);
            if (!(fabs(result.f[7] - expected) <= 1e-9 * fabs(expected)))
                fail_msg("%g rad from %d: force %.12g, expected %.12g", small, side * 180,
                         result.f[7], expected);
        }
    }
}

static void test_a_line_or_a_point_exerts_no_force(void **context)
{
    (void)context;
    static const double degenerate[][3 * ATOMS] = {
        {0.0},                                                           // a point
        {0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.4, 0.4, 0.4},    // a line
        {0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.4, 0.4, 0.4},    // no middle bond
        {0.1, 0.7, 0.13, 0.2, 1.4, 0.26, 0.3, 2.1, 0.39, 0.4, 2.8, 0.5}, // three in a line
    };
    for (int k = 0; k < KINDS; k++) {
        bool twisted = kinds[k].kind != MD_TERM_BOND && kinds[k].kind != MD_TERM_PAIR &&
                       kinds[k].kind != MD_TERM_ANGLE;
        for (size_t g = 0; g < sizeof degenerate / sizeof *degenerate; g++) {
            struct sample sample;
            struct result result;
            sample_set(&sample, kinds[k].kind, kinds[k].parameter);
            compute(&sample, degenerate[g], &result);
            if (kinds[k].kind != MD_TERM_PAIR && !all_finite(&result))
                fail_msg("%s at geometry %zu: not finite", kinds[k].name, g);
            if (twisted && largest(result.f, 3 * ATOMS) > 0.0)
                fail_msg("%s at geometry %zu: a force", kinds[k].name, g);
        }
    }
}

static void test_what_is_not_a_number_is_seen(void **context)
{
    (void)context;
    uint64_t state = 3;
    double x[3 * ATOMS];
    place(&state, x);
    x[0] = (double)NAN;
    for (int k = 0; k < KINDS; k++) {
        struct sample sample;
        sample_set(&sample, kinds[k].kind, kinds[k].parameter);
        bool constant = kinds[k].kind == MD_TERM_DIHEDRAL && kinds[k].parameter[2] == 0.0;
        if (!constant && isfinite(energy_at(&sample, x)))
            fail_msg("%s: a finite energy", kinds[k].name);
    }
}

// ---- Sums ----

// A molecule with two terms of every kind.
static void mixture_set(struct md_molecule_type *type, struct md_term *terms)
{
    memset(type, 0, sizeof *type);
    int count = 0;
    for (int kind = 0; kind < MD_TERM_KINDS; kind++) {
        type->term_start[kind] = count;
        for (int k = 0; k < KINDS; k++)
            for (int turn = 0; kinds[k].kind == kind && turn < 2; turn++, count++) {
                memcpy(terms[count].parameter, kinds[k].parameter, sizeof terms->parameter);
                for (int i = 0; i < ATOMS; i++)
                    terms[count].atom[i] = turn ? ATOMS - 1 - i : i;
            }
    }
    type->term_start[MD_TERM_KINDS] = count;
    type->terms = terms;
    type->atom_count = ATOMS;
}

static void test_splitting_molecules_changes_no_bit(void **context)
{
    (void)context;
    struct md_molecule_type type;
    struct md_term terms[2 * KINDS];
    mixture_set(&type, terms);
    uint64_t state = 11;
    double x[3 * ATOMS * MOLECULES], f[2][3 * ATOMS * MOLECULES], virial[2][9];
    struct md_bonded_energy energy[2];
    for (int m = 0; m < MOLECULES; m++)
        place(&state, x + 3 * ATOMS * m);
    for (int k = 0; k < 3 * ATOMS * MOLECULES; k++)
        f[0][k] = f[1][k] = even(&state); // added to, not set
    for (int k = 0; k < 9; k++)
        virial[0][k] = virial[1][k] = even(&state);
    memset(energy, 0, sizeof energy);
    energy[0].coulomb14 = energy[1].coulomb14 = 0.3;
    md_bonded_forces(&type, MOLECULES, coulomb, x, f[0], &energy[0], virial[0]);
    for (int m = 0; m < MOLECULES; m++)
        md_bonded_forces(&type, 1, coulomb, x + 3 * ATOMS * m, f[1] + 3 * ATOMS * m, &energy[1],
                         virial[1]);
    assert_memory_equal(f[0], f[1], sizeof f[0]);
    assert_memory_equal(&energy[0], &energy[1], sizeof energy[0]);
    assert_memory_equal(virial[0], virial[1], sizeof virial[0]);
}

static void test_forces_alone_are_the_same(void **context)
{
    (void)context;
    struct md_molecule_type type;
    struct md_term terms[2 * KINDS];
    mixture_set(&type, terms);
    uint64_t state = 12;
    double x[3 * ATOMS], with[3 * ATOMS] = {0.0}, without[3 * ATOMS] = {0.0};
    struct md_bonded_energy energy = {0};
    double virial[9] = {0.0};
    place(&state, x);
    md_bonded_forces(&type, 1, coulomb, x, with, &energy, virial);
    md_bonded_forces(&type, 1, coulomb, x, without, NULL, NULL);
    assert_true(largest(with, 3 * ATOMS) > 0.0);
    assert_memory_equal(with, without, sizeof with);
}

// Which of them a processor runs must not show.
static void test_instruction_sets_agree(void **context)
{
    (void)context;
    struct md_molecule_type type;
    struct md_term terms[2 * KINDS];
    mixture_set(&type, terms);
    uint64_t state = 13;
    for (int trial = 0; trial < TRIALS;) {
        double x[3 * ATOMS], f[2][3 * ATOMS] = {{0.0}}, virial[2][9] = {{0.0}};
        struct md_bonded_energy energy[2] = {{{0.0}, 0.0}};
        place(&state, x);
        if (least_sine(x) < 0.3)
            continue;
        md_bonded_plain(&type, coulomb, x, f[0], &energy[0], virial[0]);
        md_bonded_forces(&type, 1, coulomb, x, f[1], &energy[1], virial[1]);
        double scale = largest(f[0], 3 * ATOMS);
        for (int k = 0; k < 3 * ATOMS; k++)
            assert_true(fabs(f[0][k] - f[1][k]) <= 1e-13 * scale);
        for (int k = 0; k < 9; k++)
            assert_true(fabs(virial[0][k] - virial[1][k]) <= 1e-13 * scale);
        for (int kind = 0; kind < MD_TERM_KINDS; kind++)
            assert_true(fabs(energy[0].term[kind] - energy[1].term[kind]) <=
                        1e-13 * (100.0 + fabs(energy[0].term[kind])));
        trial++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forces_are_the_energys_gradient),
        cmocka_unit_test(test_no_net_force_and_no_torque),
        cmocka_unit_test(test_virial_is_the_slope_in_strain),
        cmocka_unit_test(test_known_energies),
        cmocka_unit_test(test_pair_energies_are_apart),
        cmocka_unit_test(test_dihedral_has_sign_and_period),
        cmocka_unit_test(test_improper_of_both_sides_is_the_same_in_a_mirror),
        cmocka_unit_test(test_improper_is_taken_into_half_a_turn),
        cmocka_unit_test(test_angles_near_a_line),
        cmocka_unit_test(test_a_line_or_a_point_exerts_no_force),
        cmocka_unit_test(test_what_is_not_a_number_is_seen),
        cmocka_unit_test(test_splitting_molecules_changes_no_bit),
        cmocka_unit_test(test_forces_alone_are_the_same),
        cmocka_unit_test(test_instruction_sets_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
