// SPDX-License-Identifier: Apache-2.0
// Random numbers and generated velocities: known answers, moments, and independence of order.

#include "md/dynamics.h"
#include "md/random.h"
#include "md/settings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- Philox ----

// From the authors' table of known answers.
static void test_philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const uint32_t counter[3][4] = {{0, 0, 0, 0},
                                           {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
                                           {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}};
    static const uint32_t key[3][2] = {
        {0, 0}, {0xffffffffu, 0xffffffffu}, {0xa4093822u, 0x299f31d0u}};
    static const uint32_t expected[3][4] = {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
                                            {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu},
                                            {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}};
    for (int n = 0; n < 3; n++) {
        uint32_t output[4] = {1, 2, 3, 4};
        md_philox(counter[n], key[n], output);
        assert_memory_equal(output, expected[n], sizeof output);
    }
}

// The numbers are part of what a seed means, so they may not change from version to version.
static void test_sequence_is_made_of_whole_blocks_in_order(void **state)
{
    (void)state;
    struct md_random random;
    md_random_start(&random, INT64_C(0x0123456789abcdef), MD_RANDOM_V_RESCALE,
                    INT64_C(0x1122334455667788), 5);
    static const uint32_t key[2] = {0x89abcdefu, 0x01234567u};
    for (uint32_t block = 0; block < 3; block++) {
        const uint32_t counter[4] = {block, 2u << 16 | 5u, 0x55667788u, 0x11223344u};
        uint32_t words[4];
        md_philox(counter, key, words);
        for (int half = 0; half < 2; half++) {
            uint64_t bits = (uint64_t)words[2 * half + 1] << 32 | words[2 * half];
            double expected = ((double)(bits >> 12) + 0.5) / 4503599627370496.0;
            assert_true(md_random_uniform(&random) == expected);
        }
    }
}

static void test_sequences_of_other_arguments_differ(void **state)
{
    (void)state;
    static const struct {
        int64_t seed, index;
        enum md_random_use use;
        uint32_t part;
    } cases[] = {{1, 7, MD_RANDOM_VELOCITY, 0},
                 {2, 7, MD_RANDOM_VELOCITY, 0},
                 {1, 7, MD_RANDOM_V_RESCALE, 0},
                 {1, 8, MD_RANDOM_VELOCITY, 0},
                 {1, 7, MD_RANDOM_VELOCITY, 1},
                 {-1, 7, MD_RANDOM_VELOCITY, 0},
                 {1 + (INT64_C(1) << 32), 7, MD_RANDOM_VELOCITY, 0},
                 {1, 7 + (INT64_C(1) << 32), MD_RANDOM_VELOCITY, 0}};
    enum { CASES = sizeof cases / sizeof *cases };
    double first[CASES];
    for (int n = 0; n < CASES; n++) {
        struct md_random random;
        md_random_start(&random, cases[n].seed, cases[n].use, cases[n].index, cases[n].part);
        first[n] = md_random_uniform(&random);
        for (int m = 0; m < n; m++)
            assert_true(first[m] != first[n]);
    }
}

// ---- Distributions ----

enum { DRAWS = 400000 };

// Mean, variance, skewness and excess kurtosis.
static void moments(const double *x, int count, double m[4])
{
    double mean = 0.0, power[3] = {0.0};
    for (int i = 0; i < count; i++)
        mean += x[i] / count;
    for (int i = 0; i < count; i++) {
        double off = x[i] - mean;
        power[0] += off * off / count;
        power[1] += off * off * off / count;
        power[2] += off * off * off * off / count;
    }
    m[0] = mean;
    m[1] = power[0];
    m[2] = power[1] / pow(power[0], 1.5);
    m[3] = power[2] / (power[0] * power[0]) - 3.0;
}

static double *draws(void)
{
    double *x = malloc(DRAWS * sizeof *x);
    assert_non_null(x);
    return x;
}

static void test_uniform_numbers_are_even_and_inside(void **state)
{
    (void)state;
    struct md_random random;
    double *x = draws(), m[4];
    md_random_start(&random, 1, MD_RANDOM_VELOCITY, 0, 0);
    int tenth[10] = {0};
    for (int i = 0; i < DRAWS; i++) {
        x[i] = md_random_uniform(&random);
        assert_true(x[i] > 0.0 && x[i] < 1.0);
        tenth[(int)(10.0 * x[i])]++;
    }
    moments(x, DRAWS, m);
    assert_true(fabs(m[0] - 0.5) < 4.0 * sqrt(1.0 / 12.0 / DRAWS));
    assert_true(fabs(m[1] - 1.0 / 12.0) < 4.0 * sqrt(1.0 / 180.0 / DRAWS));
    double chi2 = 0.0;
    for (int n = 0; n < 10; n++)
        chi2 += pow(tenth[n] - DRAWS / 10.0, 2) / (DRAWS / 10.0);
    assert_true(chi2 > 0.5 && chi2 < 27.9); // 0.999 of the distribution with 9 degrees
    free(x);
}

static void test_gaussian_numbers_have_the_moments(void **state)
{
    (void)state;
    struct md_random random;
    double *x = draws(), m[4], pairs = 0.0;
    md_random_start(&random, 2, MD_RANDOM_VELOCITY, 0, 0);
    for (int i = 0; i < DRAWS; i++)
        x[i] = md_random_gaussian(&random);
    moments(x, DRAWS, m);
    assert_true(fabs(m[0]) < 4.0 / sqrt(DRAWS));
    assert_true(fabs(m[1] - 1.0) < 4.0 * sqrt(2.0 / DRAWS));
    assert_true(fabs(m[2]) < 4.0 * sqrt(6.0 / DRAWS));
    assert_true(fabs(m[3]) < 4.0 * sqrt(24.0 / DRAWS));
    for (int i = 0; i + 1 < DRAWS; i++)
        pairs += x[i] * x[i + 1] / DRAWS;
    assert_true(fabs(pairs) < 4.0 / sqrt(DRAWS));
    free(x);
}

static void test_gamma_numbers_have_the_moments(void **state)
{
    (void)state;
    static const double shapes[] = {0.3, 0.5, 1.0, 2.5, 40.0, 1e4};
    double *x = draws();
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        double shape = shapes[n], m[4];
        struct md_random random;
        md_random_start(&random, 3, MD_RANDOM_VELOCITY, (int64_t)n, 0);
        for (int i = 0; i < DRAWS; i++) {
            x[i] = md_random_gamma(&random, shape);
            assert_true(x[i] >= 0.0);
        }
        moments(x, DRAWS, m);
        assert_true(fabs(m[0] - shape) < 4.0 * sqrt(shape / DRAWS));
        assert_true(fabs(m[1] / shape - 1.0) < 4.0 * sqrt((2.0 + 6.0 / shape) / DRAWS));
        assert_true(fabs(m[2] - 2.0 / sqrt(shape)) < 0.1);
    }
    free(x);
}

static void test_gamma_of_no_shape_is_zero(void **state)
{
    (void)state;
    static const double bad[] = {0.0, -1.0, NAN, INFINITY, -INFINITY};
    struct md_random random;
    md_random_start(&random, 4, MD_RANDOM_VELOCITY, 0, 0);
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
        assert_true(md_random_gamma(&random, bad[n]) == 0.0);
}

// ---- Velocities ----

enum { ATOMS = 60000 };

struct gas {
    struct md_atoms atoms;
    int64_t id[ATOMS];
    double v[3 * ATOMS], mass[ATOMS];
};

static struct gas *gas_new(void)
{
    struct gas *gas = malloc(sizeof *gas);
    assert_non_null(gas);
    gas->atoms = (struct md_atoms){.count = ATOMS, .id = gas->id, .v_nm_ps = gas->v};
    gas->atoms.mass_u = gas->mass;
    for (int i = 0; i < ATOMS; i++) {
        gas->id[i] = i;
        gas->mass[i] = i % 3 == 0 ? 15.9994 : 1.008;
        for (int k = 0; k < 3; k++)
            gas->v[3 * i + k] = NAN;
    }
    return gas;
}

static void test_components_are_normal_with_variance_kt_over_m(void **state)
{
    (void)state;
    struct gas *gas = gas_new();
    double *x = draws();
    md_generate_velocities(&gas->atoms, 300.0, 173529);
    for (int kind = 0; kind < 2; kind++)
        for (int axis = 0; axis < 3; axis++) {
            int count = 0;
            for (int i = 0; i < ATOMS; i++)
                if ((i % 3 == 0) == (kind == 0))
                    x[count++] = gas->v[3 * i + axis];
            double m[4], variance = MD_BOLTZMANN * 300.0 / gas->mass[kind];
            moments(x, count, m);
            assert_true(fabs(m[0]) < 4.0 * sqrt(variance / count));
            assert_true(fabs(m[1] / variance - 1.0) < 4.0 * sqrt(2.0 / count));
            assert_true(fabs(m[2]) < 4.0 * sqrt(6.0 / count));
            assert_true(fabs(m[3]) < 4.0 * sqrt(24.0 / count));
        }
    free(x);
    free(gas);
}

static void test_axes_and_neighbours_are_uncorrelated(void **state)
{
    (void)state;
    struct gas *gas = gas_new();
    for (int i = 0; i < ATOMS; i++)
        gas->mass[i] = MD_BOLTZMANN; // variance 1 at 1 K
    md_generate_velocities(&gas->atoms, 1.0, 3);
    for (int apart = 1; apart <= 6; apart++) {
        double sum = 0.0;
        for (int k = 0; k + apart < 3 * ATOMS; k++)
            sum += gas->v[k] * gas->v[k + apart];
        assert_true(fabs(sum) < 4.0 * sqrt(3.0 * ATOMS));
    }
    free(gas);
}

static void test_velocities_follow_the_atom_not_its_place(void **state)
{
    (void)state;
    struct gas *all = gas_new(), *some = gas_new();
    md_generate_velocities(&all->atoms, 300.0, 9);
    some->atoms.count = 1000;
    for (int i = 0; i < 1000; i++) {
        int atom = (i * 7919 + 13) % ATOMS;
        some->id[i] = atom;
        some->mass[i] = all->mass[atom];
    }
    md_generate_velocities(&some->atoms, 300.0, 9);
    for (int i = 0; i < 1000; i++)
        assert_memory_equal(some->v + 3 * i, all->v + 3 * some->id[i], 3 * sizeof(double));
    for (int k = 3000; k < 3 * ATOMS; k++)
        assert_true(isnan(some->v[k]));
    free(some);
    free(all);
}

static void test_another_seed_gives_other_velocities(void **state)
{
    (void)state;
    struct gas *a = gas_new(), *b = gas_new();
    md_generate_velocities(&a->atoms, 300.0, 1);
    md_generate_velocities(&b->atoms, 300.0, 2);
    double sum = 0.0;
    for (int k = 0; k < 3 * ATOMS; k++) {
        assert_true(a->v[k] != b->v[k]);
        sum += a->v[k] * b->v[k] * a->mass[k / 3] / (MD_BOLTZMANN * 300.0);
    }
    assert_true(fabs(sum) < 4.0 * sqrt(3.0 * ATOMS));
    free(b);
    free(a);
}

static void test_zero_kelvin_or_no_mass_is_rest(void **state)
{
    (void)state;
    struct gas *gas = gas_new();
    gas->mass[5] = 0.0;
    md_generate_velocities(&gas->atoms, 300.0, 1);
    for (int axis = 0; axis < 3; axis++) {
        assert_true(gas->v[15 + axis] == 0.0);
        assert_true(gas->v[18 + axis] != 0.0);
    }
    md_generate_velocities(&gas->atoms, 0.0, 1);
    for (int k = 0; k < 3 * ATOMS; k++)
        assert_true(gas->v[k] == 0.0);
    free(gas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_known_answers),
        cmocka_unit_test(test_sequence_is_made_of_whole_blocks_in_order),
        cmocka_unit_test(test_sequences_of_other_arguments_differ),
        cmocka_unit_test(test_uniform_numbers_are_even_and_inside),
        cmocka_unit_test(test_gaussian_numbers_have_the_moments),
        cmocka_unit_test(test_gamma_numbers_have_the_moments),
        cmocka_unit_test(test_gamma_of_no_shape_is_zero),
        cmocka_unit_test(test_components_are_normal_with_variance_kt_over_m),
        cmocka_unit_test(test_axes_and_neighbours_are_uncorrelated),
        cmocka_unit_test(test_velocities_follow_the_atom_not_its_place),
        cmocka_unit_test(test_another_seed_gives_other_velocities),
        cmocka_unit_test(test_zero_kelvin_or_no_mass_is_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
