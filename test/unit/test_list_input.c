// SPDX-License-Identifier: Apache-2.0
// The cluster pair list at the edges of its contract: nothing to do, atoms on top of each other,
// the cut-off itself, memory, and what it refuses.

#include "core/error.h"
#include "leat/leat.h"
#include "pair_systems.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct md_list *list_of(const struct pair_system *system, enum md_precision precision)
{
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&system->interaction, precision, &list), 0);
    return list;
}

static void expect_refusal(struct md_list *list, const struct md_list_input *input, int error,
                           const char *words)
{
    int64_t counts[2] = {-1, -1};
    assert_int_equal(md_list_build(list, input), error);
    if (!strstr(leat_error_detail(), words))
        fail_msg("\"%s\" not in \"%s\"", words, leat_error_detail());
    for (int part = 0; part < 2; part++) {
        md_list_size(list, (enum md_part)part, counts);
        assert_int_equal(counts[0], 0);
        assert_int_equal(counts[1], 0);
    }
}

static void test_no_atoms(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 1, (const int[]){0, 0, 0}, 1, 0.9);
    for (int precision = 0; precision < 2; precision++) {
        struct md_list *list = list_of(&system, (enum md_precision)precision);
        struct md_list_input input = {.box_nm = {3, 3, 3}, .list_nm = 1};
        for (int round = 0; round < 2; round++) {
            assert_int_equal(md_list_build(list, &input), 0);
            for (int part = 0; part < 2; part++) {
                struct md_pair_output output;
                memset(&output, 0x7f, sizeof output);
                md_list_forces(list, (enum md_part)part, NULL, NULL, true, true, &output);
                assert_true(output.energy.lj == 0 && output.energy.coulomb == 0);
                for (int d = 0; d < 9; d++)
                    assert_true(output.virial[d] == 0);
            }
            input.periodic[0] = input.periodic[1] = input.periodic[2] = true;
            input.inner_nm = 0.95;
            input.inner_calls = 3;
        }
        md_list_free(list);
    }
    system_free(&system);
}

static void test_single_atom_feels_nothing(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 2, (const int[]){1, 1, 1}, 1, 0.9);
    system.box[0] = system.box[1] = system.box[2] = 2;
    struct md_list *list = list_of(&system, MD_DOUBLE);
    const struct md_list_input input = system_input(&system, 1);
    assert_int_equal(md_list_build(list, &input), 0);
    struct md_pair_output output;
    double f[3] = {1, 2, 3};
    md_list_forces(list, MD_LOCAL, system.x, f, true, true, &output);
    assert_true(f[0] == 1 && f[1] == 2 && f[2] == 3);
    assert_true(output.energy.lj == 0 && output.energy.coulomb == 0);
    md_list_free(list);
    system_free(&system);
}

static void expect_pair(double distance, enum md_precision precision, bool nothing)
{
    struct pair_system system;
    system_make(&system, 3, (const int[]){2, 1, 1}, 1, 0.75);
    memset(system.exclusion_start, 0, 3 * sizeof(int));
    system.box[0] = system.box[1] = system.box[2] = 4;
    system.interaction.shift = false;
    system.interaction.krf = system.interaction.crf = 0; // so that the force does not end smoothly
    for (int d = 0; d < 3; d++)
        system.x[d] = system.x[3 + d] = 0.25;
    system.x[5] += distance;
    struct md_list *list = list_of(&system, precision);
    const struct md_list_input input = system_input(&system, 0.75);
    assert_int_equal(md_list_build(list, &input), 0);
    struct md_pair_output output;
    double f[6] = {0};
    part_forces(list, MD_LOCAL, 2, system.x, f, &output);
    if (nothing) {
        assert_true(f[2] == 0 && f[5] == 0);
        assert_true(output.energy.lj == 0 && output.energy.coulomb == 0);
    } else {
        assert_true(fabs(f[2]) > 1 && f[2] == -f[5]);
        assert_true(output.energy.coulomb != 0);
    }
    assert_true(f[0] == 0 && f[1] == 0 && f[3] == 0 && f[4] == 0);
    md_list_free(list);
    system_free(&system);
}

static void test_nothing_at_the_cut_off(void **state)
{
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        expect_pair(0.75, (enum md_precision)precision, true);
        expect_pair(0.75 + 0x1p-20, (enum md_precision)precision, true);
        expect_pair(0.75 - 0x1p-20, (enum md_precision)precision, false);
    }
}

struct tally {
    int pairs;
};

static void tally_pair(void *context, int i, int j, const double shift[3])
{
    (void)shift;
    assert_int_not_equal(i, j);
    ((struct tally *)context)->pairs++;
}

static void test_all_atoms_in_one_place(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 5, (const int[]){10, 7, 3}, 3, 0.9);
    memset(system.exclusion_start, 0, (size_t)(system.count + 1) * sizeof(int));
    for (int i = 0; i < 3 * system.count; i++)
        system.x[i] = 1.5;
    system.box[0] = system.box[1] = system.box[2] = 3;
    for (int precision = 0; precision < 2; precision++) {
        struct md_list *list = list_of(&system, (enum md_precision)precision);
        const struct md_list_input input = system_input(&system, 1);
        assert_int_equal(md_list_build(list, &input), 0);
        struct tally tally = {0};
        visit_pairs(list, MD_LOCAL, tally_pair, &tally);
        assert_int_equal(tally.pairs, system.count * (system.count - 1) / 2);
        struct md_pair_output output;
        double *f = calloc(3 * (size_t)system.count, sizeof *f);
        part_forces(list, MD_LOCAL, system.count, system.x, f, &output); // infinite, but no crash
        free(f);
        md_list_free(list);
    }
    system_free(&system);
}

static void test_one_atom_very_far_away(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 6, (const int[]){6, 6, 6}, 3, 0.9);
    system.x[0] = system.x[1] = system.x[2] = -1e7;
    struct md_list *list = list_of(&system, MD_DOUBLE);
    struct md_list_input input = system_input(&system, 1);
    input.periodic[0] = input.periodic[1] = input.periodic[2] = false;
    assert_int_equal(md_list_build(list, &input), 0);
    double *f = calloc(3 * (size_t)system.count, sizeof *f);
    double *wanted = calloc(3 * (size_t)system.count, sizeof *wanted);
    struct md_pair_output output, expected;
    md_list_forces(list, MD_LOCAL, system.x, f, true, true, &output);
    for (int d = 0; d < 3; d++)
        system.box[d] = 4e7; // nearest images are the atoms themselves
    system_oracle(&system, wanted, &expected);
    assert_true(relative_rms(f, wanted, system.count) <= 1e-12);
    free(f);
    free(wanted);
    md_list_free(list);
    system_free(&system);
}

// Everything the list holds memory for.
static uint64_t memory_of(const struct md_list *list)
{
    uint64_t sum = list->xq.bytes + list->atom.bytes + list->wrap.bytes +
                   list->builders[0].candidate.bytes + list->builders[0].f.bytes +
                   list->home_used.bytes + list->i_box.bytes + list->bin.bytes + list->order.bytes;
    for (int part = 0; part < 2; part++)
        sum += list->parts[part].made.rows.bytes + list->parts[part].made.j.bytes +
               list->parts[part].made.mask.bytes + list->parts[part].inner_j.bytes +
               list->parts[part].inner_rows.bytes + list->parts[part].used.bytes;
    return sum;
}

static void test_steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 7, (const int[]){9, 9, 9}, 3, 0.9);
    struct md_list *list = list_of(&system, MD_MIXED);
    struct md_list_input input = system_input(&system, 1.1);
    input.inner_nm = 0.95;
    input.inner_calls = 5;
    uint64_t seed = 8, before = 0;
    double *x = malloc(3 * (size_t)system.count * sizeof *x);
    input.x_nm = x;
    for (int round = 0; round < 12; round++) {
        for (int k = 0; k < 3 * system.count; k++)
            x[k] = system.x[k] + 0.1 * (random_unit(&seed) - 0.5);
        assert_int_equal(md_list_build(list, &input), 0);
        if (round == 1)
            before = memory_of(list);
    }
    free(x);
    assert_true(before > 0);
    assert_int_equal(memory_of(list), before);
    md_list_free(list);
    system_free(&system);
}

static void test_list_longer_than_half_the_box_is_refused(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 9, (const int[]){8, 8, 8}, 3, 0.9);
    system.box[1] = 2.05;
    struct md_list *list = list_of(&system, MD_MIXED);
    struct md_list_input input = system_input(&system, 1.0);
    assert_int_equal(md_list_build(list, &input), 0); // so that there is a list to lose
    input.list_nm = 1.03;
    expect_refusal(list, &input, -EINVAL, "list cut-off 1.03 nm exceeds half of box edge y, 2.05");
    input.periodic[1] = false; // along y, neighbours come with the halo
    assert_int_equal(md_list_build(list, &input), 0);
    md_list_free(list);
    system_free(&system);
}

static void test_coordinates_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY, 2e7};
    struct pair_system system;
    system_make(&system, 10, (const int[]){8, 8, 8}, 3, 0.9);
    struct md_list *list = list_of(&system, MD_MIXED);
    const struct md_list_input input = system_input(&system, 1.0);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        const double good = system.x[3 * 123 + 1];
        system.x[3 * 123 + 1] = bad[k];
        expect_refusal(list, &input, -ERANGE, "coordinate y of local atom 123 ");
        system.x[3 * 123 + 1] = good;
        assert_int_equal(md_list_build(list, &input), 0);
    }
    md_list_free(list);
    system_free(&system);
}

static void test_inputs_out_of_range_are_refused(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 11, (const int[]){8, 8, 8}, 3, 0.9);
    struct md_list *list = list_of(&system, MD_DOUBLE);
    const struct md_list_input good = system_input(&system, 1.0);
    uint8_t *zone = calloc((size_t)system.count, 1);
    struct md_list_input input = good;
    input.list_nm = 0.89;
    expect_refusal(list, &input, -EINVAL, "list cut-off 0.89 nm");
    input = good;
    input.inner_nm = 0.5;
    input.inner_calls = 1;
    expect_refusal(list, &input, -EINVAL, "inner cut-off 0.5 nm");
    input = good;
    input.box_nm[2] = 0;
    expect_refusal(list, &input, -EINVAL, "box edge z is 0 nm");
    input.box_nm[2] = 1e100;
    expect_refusal(list, &input, -EINVAL, "box edge z is 1e+100 nm");
    input = good;
    input.home_count = system.count + 1;
    expect_refusal(list, &input, -EINVAL, "513 home atoms of 512");
    input = good;
    system.type[77] = 3;
    expect_refusal(list, &input, -EINVAL, "local atom 77 has type 3 of 3");
    system.type[77] = 0;
    input.home_count = 500;
    input.exclusion_start = NULL;
    input.zone = zone; // atoms of the halo with zone 0
    expect_refusal(list, &input, -EINVAL, "local atom 500 (500 are home) has zone 0");
    input.zone = NULL;
    expect_refusal(list, &input, -EINVAL, "12 halo atoms without zones");
    input = good;
    system.exclusion[system.exclusion_start[40]] = system.count;
    expect_refusal(list, &input, -EINVAL, "local atom 40 excludes 512");
    free(zone);
    md_list_free(list);
    system_free(&system);
}

static void test_interactions_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 12, (const int[]){1, 1, 1}, 1, 0.9);
    struct md_list *list = (struct md_list *)(void *)&system; // poison
    struct md_interaction interaction = system.interaction;
    interaction.type_count = 0;
    assert_int_equal(md_list_create(&interaction, MD_MIXED, &list), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "0 atom types"));
    interaction = system.interaction;
    interaction.cutoff_nm = NAN;
    assert_int_equal(md_list_create(&interaction, MD_MIXED, &list), -EINVAL);
    assert_int_equal(md_list_create_with(&system.interaction, MD_MIXED, "abacus", &list), -ENOTSUP);
    assert_non_null(strstr(leat_error_detail(), "abacus"));
    assert_ptr_equal(list, &system);
    system_free(&system);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_atoms),
        cmocka_unit_test(test_single_atom_feels_nothing),
        cmocka_unit_test(test_nothing_at_the_cut_off),
        cmocka_unit_test(test_all_atoms_in_one_place),
        cmocka_unit_test(test_one_atom_very_far_away),
        cmocka_unit_test(test_steady_state_allocates_nothing),
        cmocka_unit_test(test_list_longer_than_half_the_box_is_refused),
        cmocka_unit_test(test_coordinates_that_are_no_numbers_are_refused),
        cmocka_unit_test(test_inputs_out_of_range_are_refused),
        cmocka_unit_test(test_interactions_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
