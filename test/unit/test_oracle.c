// SPDX-License-Identifier: Apache-2.0
// The all-pairs oracle and the terms of excluded pairs: against GROMACS, and against themselves by
// differences of energies.

#include "core/error.h"
#include "format/gro.h"
#include "leat/leat.h"
#include "pair_systems.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

// Energy of pairs and exclusions; f (may be NULL) and the virial likewise.
static double energy_of(const struct pair_system *system, double *f, double virial[9])
{
    const size_t values = 3 * (size_t)system->count;
    double *scratch = calloc(values, sizeof *scratch);
    struct md_pair_output output;
    system_oracle(system, scratch, &output);
    double sum = output.energy.lj + output.energy.coulomb;
    sum += md_exclusion_forces(&system->interaction, system->count, system->x, system->charge,
                               system->exclusion_start, system->exclusion, system->box, scratch,
                               output.virial, NULL);
    if (f)
        memcpy(f, scratch, values * sizeof *f);
    if (virial)
        memcpy(virial, output.virial, sizeof output.virial);
    free(scratch);
    return sum;
}

static void test_forces_are_the_energys_slope(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 61, (const int[]){8, 8, 8}, 3, 0.9);
    double *f = malloc(3 * (size_t)system.count * sizeof *f);
    energy_of(&system, f, NULL);
    const double step = 1e-5;
    for (int k = 0; k < 3 * system.count; k += 97) {
        const double x = system.x[k];
        system.x[k] = x + step;
        const double above = energy_of(&system, NULL, NULL);
        system.x[k] = x - step;
        const double below = energy_of(&system, NULL, NULL);
        system.x[k] = x;
        const double slope = (above - below) / (2 * step);
        if (!(fabs(f[k] + slope) <= 1e-5 * fabs(f[k]) + 2e-3))
            fail_msg("force %d is %.9g, the slope %.9g", k, f[k], slope);
    }
    free(f);
    system_free(&system);
}

static void test_virial_is_the_energys_slope_with_the_box(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 62, (const int[]){8, 9, 8}, 3, 0.9);
    double virial[9];
    energy_of(&system, NULL, virial);
    double *x = malloc(3 * (size_t)system.count * sizeof *x);
    memcpy(x, system.x, 3 * (size_t)system.count * sizeof *x);
    for (int d = 0; d < 3; d++) {
        const double step = 1e-6, edge = system.box[d];
        double energy[2];
        for (int side = 0; side < 2; side++) {
            const double scale = 1 + (side ? step : -step);
            for (int i = 0; i < system.count; i++)
                system.x[3 * i + d] = x[3 * i + d] * scale;
            system.box[d] = edge * scale;
            energy[side] = energy_of(&system, NULL, NULL);
        }
        memcpy(system.x, x, 3 * (size_t)system.count * sizeof *x);
        system.box[d] = edge;
        // dU/d(scale) = -sum x f = 2 virial
        const double slope = (energy[1] - energy[0]) / (2 * step);
        if (!(fabs(slope - 2 * virial[4 * d]) <= 1e-5 * fabs(slope)))
            fail_msg("virial %d is %.9g, half the slope %.9g", d, virial[4 * d], 0.5 * slope);
    }
    free(x);
    system_free(&system);
}

static void expect_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted))))
        fail_msg("%.15g, expected %.15g", got, wanted);
}

static void test_terms_of_one_excluded_pair(void **state)
{
    (void)state;
    const double q[] = {0.5, -0.3}, box[] = {3, 3, 3};
    const int start[] = {0, 1, 2}, excluded[] = {1, 0};
    const struct md_interaction interaction = {
        .cutoff_nm = 0.9, .coulomb = 100, .krf = 0.7, .crf = 1.6, .type_count = 1};
    double x[] = {0.1, 0.2, 0.3, 0.1, 3.1, 0.3}; // 0.1 nm apart, through the boundary
    double f[6] = {0}, virial[9] = {0}, gross = -1;
    const double qq = 100 * 0.5 * -0.3, self = -0.5 * 100 * 1.6 * (0.25 + 0.09);
    const double pair = qq * (0.7 * 0.01 - 1.6);
    double energy =
        md_exclusion_forces(&interaction, 2, x, q, start, excluded, box, f, virial, &gross);
    expect_near(energy, pair + self);
    expect_near(gross, fabs(pair) + fabs(self));
    expect_near(f[1], -2 * 0.7 * qq * 0.1);
    expect_near(f[4], 2 * 0.7 * qq * 0.1);
    expect_near(virial[4], -0.5 * 0.1 * f[1]);
    assert_true(f[0] == 0 && f[2] == 0 && virial[0] == 0 && virial[8] == 0);
    x[4] = 1.15; // 0.95 nm: excluded, but beyond the field's cut-off
    memset(f, 0, sizeof f);
    energy = md_exclusion_forces(&interaction, 2, x, q, start, excluded, box, f, NULL, NULL);
    expect_near(energy, self);
    assert_true(f[1] == 0 && f[4] == 0);
}

static void test_excluded_pairs_do_not_act(void **state)
{
    (void)state;
    struct pair_system system;
    system_make(&system, 63, (const int[]){3, 1, 1}, 1, 0.9);
    system.box[0] = system.box[1] = system.box[2] = 3;
    double f[9];
    struct md_pair_output output;
    memset(&output, 0x7f, sizeof output);
    system_oracle(&system, f, &output);
    assert_true(output.energy.coulomb == 0 && output.energy.lj == 0 && output.virial[0] == 0);
    for (int k = 0; k < 9; k++)
        assert_true(f[k] == 0);
    memset(system.exclusion_start, 0, 4 * sizeof(int));
    system_oracle(&system, f, &output);
    assert_true(output.energy.coulomb != 0 && output.energy.lj != 0 && f[0] != 0);
    system_free(&system);
}

// SPC/E water from a .gro of the shared cases; false, with the reason printed, where there is none.
static bool water_read(struct pair_system *water, const char *name)
{
    const char *shared = getenv("LEAT_SHARED");
    char path[1024];
    struct gro *gro = NULL;
    if (!shared) {
        printf("LEAT_SHARED is not set\n");
        return false;
    }
    snprintf(path, sizeof path, "%s/cases/md/%s.gro", shared, name);
    if (gro_read(path, &gro)) {
        printf("%s\n", leat_error_detail());
        return false;
    }
    system_make(water, 1, (const int[]){(int)gro->atom_count, 1, 1}, 2, 0.9);
    memcpy(water->x, gro->x_nm, 3 * (size_t)water->count * sizeof *water->x);
    for (int i = 0; i < water->count; i++) {
        water->charge[i] = i % 3 == 0 ? -0.8476 : 0.4238;
        water->type[i] = i % 3 == 0 ? 0 : 1;
    }
    for (int d = 0; d < 3; d++)
        water->box[d] = gro->box_nm[d][d];
    memset(water->c6, 0, sizeof water->c6);
    memset(water->c12, 0, sizeof water->c12);
    water->c6[0] = 4 * 0.650194 * pow(0.316557, 6);
    water->c12[0] = 4 * 0.650194 * pow(0.316557, 12);
    gro_free(gro);
    return true;
}

// Forces of the reference, one atom a line.
static double *forces_read(const char *name, int count)
{
    char command[1200];
    snprintf(command, sizeof command, "gzip -dc '%s/cases/md/%s.forces.txt.gz'",
             getenv("LEAT_SHARED"), name);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): to spare tests a library for gzip
    assert_non_null(pipe);
    double *f = malloc(3 * (size_t)count * sizeof *f);
    for (int k = 0; k < 3 * count; k++)
        assert_int_equal(fscanf(pipe, "%lf", &f[k]), 1);
    assert_int_equal(pclose(pipe), 0);
    return f;
}

struct reference {
    double lj, coulomb;
};

static void expect_reference(const char *name, struct reference reference)
{
    struct pair_system water;
    if (!water_read(&water, name))
        skip();
    const size_t values = 3 * (size_t)water.count;
    double *wanted = forces_read(name, water.count);
    double *excluded = calloc(values, sizeof(double)), *f = calloc(values, sizeof(double));
    double gross;
    const double exclusions = md_exclusion_forces(
        &water.interaction, water.count, water.x, water.charge, water.exclusion_start,
        water.exclusion, water.box, excluded, NULL, &gross);
    for (int way = 0; way < 3; way++) { // the list in mixed and double, the oracle
        struct md_pair_output output;
        const double tolerance = way == MD_MIXED ? 1e-5 : 1e-8;
        if (way == 2) {
            system_oracle(&water, f, &output);
        } else {
            struct md_list *list = NULL;
            const struct md_list_input input = system_input(&water, 1.05);
            assert_int_equal(md_list_create(&water.interaction, (enum md_precision)way, &list), 0);
            assert_int_equal(md_list_build(list, &input), 0);
            memset(f, 0, values * sizeof *f);
            part_forces(list, MD_LOCAL, water.count, water.x, f, &output);
            md_list_free(list);
        }
        for (size_t k = 0; k < values; k++)
            f[k] += excluded[k];
        const double error = relative_rms(f, wanted, water.count);
        if (!(error <= tolerance))
            fail_msg("way %d: RMS error of forces %g", way, error);
        const double off = output.energy.coulomb + exclusions - reference.coulomb;
        if (!(fabs(off) <= tolerance * (fabs(output.energy.coulomb) + gross)))
            fail_msg("way %d: Coulomb energy is off by %g", way, off);
        if (!(fabs(output.energy.lj - reference.lj) <= fmax(tolerance * fabs(reference.lj), 1e-9)))
            fail_msg("way %d: LJ energy is %.12g", way, output.energy.lj);
    }
    free(wanted);
    free(excluded);
    free(f);
    system_free(&water);
}

static void test_two_waters_of_gromacs(void **state)
{
    (void)state;
    expect_reference("two", (struct reference){0, -0.371019468412});
}

static void test_water_box_of_gromacs(void **state)
{
    (void)state;
    expect_reference("water5k", (struct reference){16375.880338673724, -96066.23902194748});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forces_are_the_energys_slope),
        cmocka_unit_test(test_virial_is_the_energys_slope_with_the_box),
        cmocka_unit_test(test_terms_of_one_excluded_pair),
        cmocka_unit_test(test_excluded_pairs_do_not_act),
        cmocka_unit_test(test_two_waters_of_gromacs),
        cmocka_unit_test(test_water_box_of_gromacs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
