// SPDX-License-Identifier: Apache-2.0
// The pair list with several threads, and evaluations in pieces: the list does not depend on the
// number of threads, the same number gives the same bits, any number the oracle's forces.

#include "md/team.h"
#include "unit/pair_systems.h"

#include "leat/leat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TEAMS = 4 };

static const int team_sizes[TEAMS] = {1, 2, 3, 8};

// The lower half of a system in z is home, the other came with the halo.
struct half {
    struct pair_system system;
    struct md_list_input input;
    uint8_t *zone;
    size_t values;
};

static void half_make(struct half *half, const int lattice[3])
{
    system_make(&half->system, 71, lattice, 3, 0.9);
    half->input = system_input(&half->system, 1.05);
    half->input.home_count = half->system.count / 2;
    half->input.periodic[2] = false;
    half->input.inner_nm = 0.95;
    half->input.inner_calls = 2;
    half->zone = calloc((size_t)half->system.count, sizeof *half->zone);
    for (int i = half->input.home_count; i < half->system.count; i++)
        half->zone[i] = 4;
    half->input.zone = half->zone;
    half->values = 3 * (size_t)half->system.count;
}

static void half_free(struct half *half)
{
    free(half->zone);
    system_free(&half->system);
}

static struct md_list *list_of(const struct half *half, struct md_team *team)
{
    struct md_list *list = NULL;
    assert_int_equal(md_list_create(&half->system.interaction, MD_DOUBLE, &list), 0);
    assert_int_equal(md_list_use_team(list, team), 0);
    if (md_list_build(list, &half->input))
        fail_msg("%s", leat_error_detail());
    return list;
}

// Forces of both parts after as many evaluations as make two inner lists; energies of the last.
static void evaluate(const struct half *half, struct md_list *list, double *f,
                     struct md_pair_output output[2])
{
    for (int call = 0; call < 3; call++) {
        memset(f, 0, half->values * sizeof *f);
        for (int part = 0; part < 2; part++) {
            memset(&output[part], 0x7f, sizeof output[part]);
            md_list_forces(list, (enum md_part)part, half->system.x, f, true, true, &output[part]);
        }
    }
}

static void expect_same_rows(const struct md_list *one, const struct md_list *other, int part)
{
    const struct md_rows_made *a = &one->parts[part].made, *b = &other->parts[part].made;
    assert_int_equal(a->row_count, b->row_count);
    assert_int_equal(a->j_count, b->j_count);
    assert_int_equal(a->mask_count, b->mask_count);
    assert_true(a->row_count > 100);
    assert_memory_equal(a->rows.data, b->rows.data, a->row_count * sizeof(struct md_row));
    assert_memory_equal(a->j.data, b->j.data, a->j_count * sizeof(int));
    assert_memory_equal(a->mask.data, b->mask.data, a->mask_count * sizeof(uint32_t));
}

static void test_the_list_does_not_depend_on_the_threads(void **state)
{
    (void)state;
    struct half half;
    half_make(&half, (const int[]){9, 9, 8});
    struct md_list *one = list_of(&half, NULL);
    for (int k = 1; k < TEAMS; k++) {
        struct md_team *team = NULL;
        assert_int_equal(md_team_create(team_sizes[k], 1, &team), 0);
        struct md_list *list = list_of(&half, team);
        for (int part = 0; part < 2; part++) {
            int64_t counts[2][2];
            expect_same_rows(one, list, part);
            md_list_size(one, (enum md_part)part, counts[0]);
            md_list_size(list, (enum md_part)part, counts[1]);
            assert_memory_equal(counts[0], counts[1], sizeof counts[0]);
        }
        md_list_free(list);
        md_team_free(team);
    }
    md_list_free(one);
    half_free(&half);
}

static void expect_close(double value, double wanted)
{
    assert_true(fabs(value - wanted) <= 1e-11 * fabs(wanted));
}

static void test_threads_give_the_same_forces_and_their_own_bits_again(void **state)
{
    (void)state;
    struct half half;
    half_make(&half, (const int[]){9, 9, 8});
    double *f[3];
    for (int k = 0; k < 3; k++)
        f[k] = calloc(half.values, sizeof(double));
    struct md_pair_output output[3][2];
    for (int k = 0; k < TEAMS; k++) {
        struct md_team *team = NULL;
        assert_int_equal(md_team_create(team_sizes[k], 1, &team), 0);
        for (int again = 0; again < 2; again++) {
            struct md_list *list = list_of(&half, team);
            evaluate(&half, list, f[1 + again], output[1 + again]);
            md_list_free(list);
        }
        md_team_free(team);
        assert_memory_equal(f[1], f[2], half.values * sizeof(double));
        assert_memory_equal(output[1], output[2], sizeof output[1]);
        if (k == 0) {
            memcpy(f[0], f[1], half.values * sizeof(double));
            memcpy(output[0], output[1], sizeof output[0]);
        }
        assert_true(relative_rms(f[1], f[0], half.system.count) < 1e-13);
        for (int part = 0; part < 2; part++) {
            expect_close(output[1][part].energy.lj, output[0][part].energy.lj);
            expect_close(output[1][part].energy.coulomb, output[0][part].energy.coulomb);
            expect_close(output[1][part].virial[0], output[0][part].virial[0]);
        }
    }
    for (int k = 0; k < 3; k++)
        free(f[k]);
    half_free(&half);
}

static void test_more_threads_than_rows(void **state)
{
    (void)state;
    struct half half;
    half_make(&half, (const int[]){8, 8, 8});
    struct md_team *team = NULL;
    assert_int_equal(md_team_create(8, 1, &team), 0);
    half.input.home_count = half.input.atom_count =
        3; // one molecule, all of it excluded but shifted
    half.input.zone = NULL;
    struct md_list *list = list_of(&half, team);
    double f[9] = {0};
    struct md_pair_output output;
    for (int part = 0; part < 2; part++) {
        md_list_forces(list, (enum md_part)part, half.system.x, f, true, true, &output);
        assert_true(output.energy.lj == 0 && output.energy.coulomb == 0);
    }
    md_list_free(list);
    md_team_free(team);
    half_free(&half);
}

static void evaluate_pieces(const struct half *half, struct md_list *list, double share, double *f,
                            struct md_pair_output output[2])
{
    for (int call = 0; call < 3; call++) {
        memset(f, 0, half->values * sizeof *f);
        memset(output, 0x7f, 2 * sizeof *output);
        md_list_home_begin(list, half->system.x, share, true, true);
        md_list_ghosts(list, half->system.x, f, &output[1]);
        md_list_home_end(list, f, &output[0]);
    }
}

static void expect_parts(const struct md_pair_output *output, const struct md_pair_output *wanted)
{
    for (int part = 0; part < 2; part++) {
        assert_true(output[part].energy.lj == wanted[part].energy.lj);
        assert_true(output[part].energy.coulomb == wanted[part].energy.coulomb);
    }
    for (int d = 0; d < 9; d++)
        assert_true(fabs(output[0].virial[d] + output[1].virial[d] - wanted[0].virial[d] -
                         wanted[1].virial[d]) < 1e-9 * fabs(wanted[0].virial[0]));
}

// The same cut gives the same bits; another one, and two parts by themselves, differ by rounding.
static void test_evaluations_in_pieces(void **state)
{
    (void)state;
    struct half half;
    half_make(&half, (const int[]){9, 9, 8});
    double *f[3];
    for (int k = 0; k < 3; k++)
        f[k] = calloc(half.values, sizeof(double));
    for (int k = 0; k < 3; k += 2) {
        struct md_team *team = NULL;
        struct md_pair_output parts[2], output[2][2];
        assert_int_equal(md_team_create(team_sizes[k], 1, &team), 0);
        struct md_list *whole = list_of(&half, team);
        evaluate(&half, whole, f[2], parts);
        md_list_free(whole);
        for (double share = 0; share <= 1; share += 0.25) {
            for (int again = 0; again < 2; again++) {
                struct md_list *list = list_of(&half, team);
                evaluate_pieces(&half, list, share, f[again], output[again]);
                md_list_free(list);
            }
            assert_memory_equal(output[1], output[0], sizeof output[0]);
            assert_memory_equal(f[1], f[0], half.values * sizeof(double));
            assert_true(relative_rms(f[0], f[2], half.system.count) < 1e-14);
            expect_parts(output[0], parts);
        }
        md_team_free(team);
    }
    for (int k = 0; k < 3; k++)
        free(f[k]);
    half_free(&half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_does_not_depend_on_the_threads),
        cmocka_unit_test(test_threads_give_the_same_forces_and_their_own_bits_again),
        cmocka_unit_test(test_more_threads_than_rows),
        cmocka_unit_test(test_evaluations_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
