// SPDX-License-Identifier: Apache-2.0
// The cluster pair list against all pairs: which pairs it holds, and the forces of every loop.

#include "core/error.h"
#include "leat/leat.h"
#include "pair_systems.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *const loops[] = {"plain", "sse2", "avx2", "avx512"};
enum { LOOPS = 4 };

static const double allowed[] = {1e-5, 1e-12}; // [enum md_precision], of the forces' RMS

// NULL where this processor lacks the loop.
static struct md_list *list_with(const struct pair_system *system, int precision, const char *loop)
{
    struct md_list *list = NULL;
    int error =
        md_list_create_with(&system->interaction, (enum md_precision)precision, loop, &list);
    if (error == -ENOTSUP)
        return NULL;
    if (error)
        fail_msg("%s", leat_error_detail());
    assert_string_equal(md_list_kernel(list), loop);
    return list;
}

static void build(struct md_list *list, const struct md_list_input *input)
{
    if (md_list_build(list, input))
        fail_msg("%s", leat_error_detail());
}

static void expect_output(const struct md_pair_output *got, const struct md_pair_output *wanted,
                          double tolerance)
{
    double largest = 0;
    for (int d = 0; d < 9; d++)
        largest = fmax(largest, fabs(wanted->virial[d]));
    for (int d = 0; d < 9; d++)
        if (!(fabs(got->virial[d] - wanted->virial[d]) <= tolerance * largest))
            fail_msg("virial[%d] %.15g, expected %.15g", d, got->virial[d], wanted->virial[d]);
    const double size = fabs(wanted->energy.coulomb) + fabs(wanted->energy.lj);
    if (!(fabs(got->energy.lj - wanted->energy.lj) <= tolerance * size) ||
        !(fabs(got->energy.coulomb - wanted->energy.coulomb) <= tolerance * size))
        fail_msg("energies %.15g %.15g, expected %.15g %.15g", got->energy.lj, got->energy.coulomb,
                 wanted->energy.lj, wanted->energy.coulomb);
}

// Every loop and precision on one system, with coordinates x for the forces.
static void expect_forces(struct pair_system *system, const struct md_list_input *input)
{
    const size_t values = 3 * (size_t)system->count;
    double *wanted = malloc(values * sizeof *wanted), *f = malloc(values * sizeof *f);
    struct md_pair_output expected, output;
    int run = 0;
    system_oracle(system, wanted, &expected);
    for (int loop = 0; loop < LOOPS; loop++)
        for (int precision = 0; precision < 2; precision++) {
            struct md_list *list = list_with(system, precision, loops[loop]);
            if (!list)
                continue;
            build(list, input);
            memset(f, 0, values * sizeof *f);
            memset(&output, 0x7f, sizeof output);
            part_forces(list, MD_LOCAL, system->count, system->x, f, &output);
            const double error = relative_rms(f, wanted, system->count);
            if (!(error <= allowed[precision]))
                fail_msg("%s, precision %d: RMS error %g", loops[loop], precision, error);
            expect_output(&output, &expected, allowed[precision]);
            memset(f, 0, values * sizeof *f);
            part_forces(list, MD_NONLOCAL, system->count, system->x, f, &output);
            for (size_t k = 0; k < values; k++)
                assert_true(f[k] == 0);
            md_list_free(list);
            run++;
        }
    assert_true(run >= 2);
    free(wanted);
    free(f);
}

static void test_every_loop_gives_the_oracles_forces(void **state)
{
    (void)state;
    const int type_counts[] = {1, 3, 8, 12};
    for (size_t k = 0; k < sizeof type_counts / sizeof type_counts[0]; k++) {
        struct pair_system system;
        system_make(&system, 11 + k, (const int[]){9, 10, 8}, type_counts[k], 0.9);
        const struct md_list_input input = system_input(&system, 1.0);
        expect_forces(&system, &input);
        system_free(&system);
    }
}

static void test_unshifted_lj_and_plain_coulomb(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 3, (const int[]){8, 8, 8}, 3, 0.8);
    system.interaction.shift = false;
    system.interaction.krf = system.interaction.crf = 0;
    const struct md_list_input input = system_input(&system, 0.85);
    expect_forces(&system, &input);
    system_free(&system);
}

static void test_molecules_far_outside_the_box(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 5, (const int[]){8, 8, 9}, 3, 0.9);
    for (int i = 0; i < system.count; i++) // whole boxes, so that the oracle sees the same pairs
        for (int d = 0; d < 3; d++)
            system.x[3 * i + d] =
                (float)(system.x[3 * i + d] + (i / 3 % 5 - 2 + (i % 7 == d)) * system.box[d]);
    const struct md_list_input input = system_input(&system, 0.98);
    expect_forces(&system, &input);
    system_free(&system);
}

static void test_systems_of_few_atoms(void **state)
{
    (void)state;
    const int lattices[][3] = {{1, 1, 2}, {5, 1, 1}, {1, 9, 1}, {3, 1, 7}, {4, 4, 1}};
    for (size_t k = 0; k < sizeof lattices / sizeof lattices[0]; k++) {
        struct pair_system system;
        system_make(&system, 7 + k, lattices[k], 3, 0.9);
        for (int d = 0; d < 3; d++)
            system.box[d] = 3;
        system.exclusion_start[system.count] = 0;
        memset(system.exclusion_start, 0, (size_t)(system.count + 1) * sizeof(int));
        const struct md_list_input input = system_input(&system, 1.2);
        expect_forces(&system, &input);
        system_free(&system);
    }
}

static void test_slab_under_vacuum(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 17, (const int[]){8, 9, 8}, 3, 0.9);
    system.box[2] = 12;
    const struct md_list_input input = system_input(&system, 1.0);
    expect_forces(&system, &input);
    system_free(&system);
}

static void test_atoms_that_moved_less_than_the_buffer(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 23, (const int[]){9, 9, 9}, 3, 0.8);
    double *built = malloc(3 * (size_t)system.count * sizeof *built);
    memcpy(built, system.x, 3 * (size_t)system.count * sizeof *built);
    uint64_t seed = 99;
    for (int k = 0; k < 3 * system.count; k++) // up to 0.05 nm each, the buffer is twice that
        system.x[k] = (float)(system.x[k] + 0.1 / sqrt(3) * (random_unit(&seed) - 0.5));
    struct md_list_input input = system_input(&system, 0.9);
    input.x_nm = built;
    expect_forces(&system, &input);
    system_free(&system);
    free(built);
}

static void test_inner_list_follows_the_atoms(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 29, (const int[]){9, 9, 9}, 3, 0.8);
    struct md_list_input input = system_input(&system, 1.1);
    const size_t values = 3 * (size_t)system.count;
    double *x = malloc(values * sizeof *x);
    double *wanted = malloc(values * sizeof *wanted), *f = malloc(values * sizeof *f);
    memcpy(x, system.x, values * sizeof *x);
    input.x_nm = x; // the atoms move on in system.x
    input.inner_nm = 0.86;
    input.inner_calls = 2;
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&system.interaction, MD_DOUBLE, &list), 0);
    build(list, &input);
    int64_t outer[2], inner[2];
    md_list_size(list, MD_LOCAL, outer);
    uint64_t seed = 4;
    for (int call = 0; call < 6; call++) {
        struct md_pair_output expected, output;
        system_oracle(&system, wanted, &expected);
        memset(f, 0, values * sizeof *f);
        md_list_forces(list, MD_LOCAL, system.x, f, true, true, &output);
        if (!(relative_rms(f, wanted, system.count) <= 1e-12))
            fail_msg("call %d: RMS error %g", call, relative_rms(f, wanted, system.count));
        md_list_size(list, MD_LOCAL, inner);
        assert_true(inner[0] < outer[0] && inner[0] > outer[0] / 4);
        for (size_t k = 0; k < values; k++) // 0.03 nm a call: right for two calls, not for three
            system.x[k] += 0.06 / sqrt(3) * (random_unit(&seed) - 0.5);
    }
    md_list_free(list);
    system_free(&system);
    free(x);
    free(wanted);
    free(f);
}

struct pair_count {
    const struct pair_system *system;
    const struct md_list *list;
    unsigned char *listed; // [count * count]
    int repeated, excluded;
};

static double listed_distance(const struct pair_count *c, int i, int j, const double shift[3])
{
    const float *x = c->list->wrapped.data;
    double r2 = 0;
    for (int d = 0; d < 3; d++) {
        const double gap = (double)x[3 * i + d] + shift[d] - (double)x[3 * j + d];
        r2 += gap * gap;
    }
    return sqrt(r2);
}

static void count_pair(void *context, int i, int j, const double shift[3])
{
    struct pair_count *c = context;
    const struct pair_system *s = c->system;
    for (int k = s->exclusion_start[i]; k < s->exclusion_start[i + 1]; k++)
        c->excluded += s->exclusion[k] == j;
    if (listed_distance(c, i, j, shift) > c->list->radius_nm)
        return; // beyond the list cut-off a pair may be there, in any image
    const int a = i < j ? i : j, b = i < j ? j : i;
    c->repeated += c->listed[a * s->count + b]++ != 0;
}

static void expect_pairs(const struct pair_system *system, const struct md_list_input *input,
                         int precision)
{
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&system->interaction, (enum md_precision)precision, &list), 0);
    build(list, input);
    const size_t size = (size_t)system->count * (size_t)system->count;
    struct pair_count c = {system, list, calloc(size, 1), 0, 0};
    visit_pairs(list, MD_LOCAL, count_pair, &c);
    assert_int_equal(c.repeated, 0);
    assert_int_equal(c.excluded, 0);
    for (int i = 0; i < system->count; i++)
        for (int j = i + 1; j < system->count; j++) {
            double r2 = 0;
            for (int d = 0; d < 3; d++) {
                double gap = system->x[3 * i + d] - system->x[3 * j + d];
                if (input->periodic[d])
                    gap -= system->box[d] * rint(gap / system->box[d]);
                r2 += gap * gap;
            }
            bool excluded = false;
            for (int k = system->exclusion_start[i]; k < system->exclusion_start[i + 1]; k++)
                excluded |= system->exclusion[k] == j;
            if (sqrt(r2) <= input->list_nm && !excluded && !c.listed[i * system->count + j])
                fail_msg("pair %d %d at %g nm is missing", i, j, sqrt(r2));
        }
    free(c.listed);
    md_list_free(list);
}

static void test_list_holds_each_pair_once(void **state)
{
    (void)state;
    const int lattices[][3] = {{8, 8, 8}, {9, 17, 8}, {8, 9, 23}};
    for (int k = 0; k < 3; k++)
        for (int dimensions = 0; dimensions < 8; dimensions++) {
            struct pair_system system;
            system_make(&system, 31 + (uint64_t)k, lattices[k], 2, 0.6);
            struct md_list_input input = system_input(&system, 0.95);
            for (int d = 0; d < 3; d++)
                input.periodic[d] = (dimensions >> d & 1) != 0;
            expect_pairs(&system, &input, dimensions % 2);
            system_free(&system);
        }
}

static void test_pairs_at_half_the_box(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 37, (const int[]){8, 8, 8}, 2, 0.9);
    const struct md_list_input input = system_input(&system, 0.5 * system.box[0]);
    expect_pairs(&system, &input, MD_DOUBLE);
    expect_forces(&system, &input);
    system_free(&system);
}

static void test_two_runs_agree_to_the_bit(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 41, (const int[]){9, 9, 9}, 3, 0.9);
    const struct md_list_input input = system_input(&system, 1.0);
    const size_t values = 3 * (size_t)system.count;
    double *f[2];
    struct md_pair_output output[2];
    memset(output, 0, sizeof output);
    for (int run = 0; run < 2; run++) {
        struct md_list *list = NULL;
        f[run] = calloc(values, sizeof(double));
        assert_int_equal(md_list_create(&system.interaction, MD_MIXED, &list), 0);
        if (run == 1) { // whatever was in the memory before does not matter
            struct md_list_input other = input;
            other.list_nm = 1.1;
            other.home_count = other.atom_count = system.count / 2;
            other.exclusion_start = NULL;
            build(list, &other);
        }
        build(list, &input);
        part_forces(list, MD_LOCAL, system.count, system.x, f[run], &output[run]);
        md_list_free(list);
    }
    assert_memory_equal(f[0], f[1], values * sizeof(double));
    assert_memory_equal(&output[0], &output[1], sizeof output[0]);
    free(f[0]);
    free(f[1]);
    system_free(&system);
}

static void test_energy_does_not_change_forces(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 43, (const int[]){8, 8, 8}, 3, 0.9);
    const struct md_list_input input = system_input(&system, 1.0);
    const size_t values = 3 * (size_t)system.count;
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&system.interaction, MD_DOUBLE, &list), 0);
    build(list, &input);
    double *with = calloc(values, sizeof(double)), *without = calloc(values, sizeof(double));
    struct md_pair_output output, untouched;
    memset(&untouched, 0x55, sizeof untouched);
    output = untouched;
    md_list_forces(list, MD_LOCAL, system.x, without, false, false, &output);
    assert_memory_equal(&output, &untouched, sizeof output);
    md_list_forces(list, MD_LOCAL, system.x, with, true, true, &output);
    assert_memory_equal(with, without, values * sizeof(double));
    md_list_forces(list, MD_LOCAL, system.x, with, false, false, &output); // adds
    for (size_t k = 0; k < values; k++)
        assert_true(with[k] == 2 * without[k]);
    md_list_free(list);
    free(with);
    free(without);
    system_free(&system);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_loop_gives_the_oracles_forces),
        cmocka_unit_test(test_unshifted_lj_and_plain_coulomb),
        cmocka_unit_test(test_molecules_far_outside_the_box),
        cmocka_unit_test(test_systems_of_few_atoms),
        cmocka_unit_test(test_slab_under_vacuum),
        cmocka_unit_test(test_atoms_that_moved_less_than_the_buffer),
        cmocka_unit_test(test_inner_list_follows_the_atoms),
        cmocka_unit_test(test_list_holds_each_pair_once),
        cmocka_unit_test(test_pairs_at_half_the_box),
        cmocka_unit_test(test_two_runs_agree_to_the_bit),
        cmocka_unit_test(test_energy_does_not_change_forces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
