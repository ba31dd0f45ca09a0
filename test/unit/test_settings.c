// SPDX-License-Identifier: Apache-2.0
// Reader of .mdp files: one behaviour a test, on texts made here.
//
// Advantage: the text and what becomes of it stand side by side. Disadvantage: GROMACS' defaults
// are repeated here as numbers.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"
#include "md/settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0x5a };

static int read_text(const char *text, struct md_settings *settings)
{
    memset(settings, POISON, sizeof *settings);
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    int error = md_settings_read_stream(stream, "test.mdp", settings);
    fclose(stream);
    return error;
}

static struct md_settings must_read(const char *text)
{
    struct md_settings settings;
    if (read_text(text, &settings))
        fail_msg("%s", leat_error_detail());
    return settings;
}

// Refused with `error` and a detail that holds `word`, the output untouched.
static void refuse(int error, const char *text, const char *word)
{
    struct md_settings settings, poison;
    memset(&poison, POISON, sizeof poison);
    int got = read_text(text, &settings);
    if (got != error)
        fail_msg("%d instead of %d for: %s", got, error, text);
    assert_memory_equal(&settings, &poison, sizeof poison);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
}

static void same(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-15 * fabs(expected));
}

static void test_absent_options_take_the_defaults_of_gromacs(void **state)
{
    (void)state;
    struct md_settings settings = must_read("");
    assert_string_equal(settings.file, "test.mdp");
    assert_string_equal(settings.define, "");
    assert_string_equal(settings.include_dirs, "");
    same(settings.dt_ps, 0.001);
    assert_int_equal(settings.steps, 0);
    assert_int_equal(settings.nstlist, 10);
    assert_int_equal(settings.nstcalcenergy, 100);
    assert_int_equal(settings.nstenergy, 1000);
    assert_int_equal(settings.nstcomm, 100);
    assert_int_equal(settings.nsttcouple, 10);
    same(settings.rcoulomb_nm, 1);
    same(settings.rvdw_nm, 1);
    same(settings.rlist_nm, 1);
    same(settings.epsilon_r, 1);
    same(settings.verlet_buffer_tolerance, 0.005);
    assert_int_equal(settings.vdw_modifier, MD_VDW_POTENTIAL_SHIFT);
    assert_int_equal(settings.tcoupl, MD_TCOUPL_NO);
    assert_int_equal(settings.group_count, 0);
    assert_int_equal(settings.integrator, MD_LEAP_FROG);
    assert_int_equal(settings.constraints, MD_RIGID_NONE);
    same(settings.emtol_kj_mol_nm, 10);
    same(settings.emstep_nm, 0.01);
    assert_false(settings.gen_vel);
    same(settings.gen_temp_k, 300);
    assert_false(settings.continuation);
    assert_true(settings.remove_com);
}

static void test_every_supported_option_is_taken(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("include = -Iffs -I /opt/top\n define = -DA -DB=1.5\n integrator = md\n"
                  "dt = 2e-3\n nsteps = 5000000000\n nstlist = 25\n nstcalcenergy = 20\n"
                  "nstenergy = 40\n nstcomm = 7\n cutoff-scheme = Verlet\n pbc = xyz\n"
                  "verlet-buffer-tolerance = 1e-4\n rlist = 1.3\n coulombtype = Reaction-Field\n"
                  "rcoulomb = 0.9\n rvdw = 0.9\n epsilon-r = 2\n epsilon-rf = 78.5\n"
                  "vdw-type = Cut-off\n vdw-modifier = None\n tcoupl = V-rescale\n"
                  "nsttcouple = 5\n tc-grps = System\n tau-t = 0.25\n ref-t = 310\n"
                  "ld-seed = 11\n gen-vel = yes\n gen-temp = 290.5\n gen-seed = 12\n"
                  "comm-mode = Linear\n constraints = h-bonds\n continuation = no\n");
    assert_string_equal(settings.include_dirs, "ffs:/opt/top");
    assert_string_equal(settings.define, "-DA -DB=1.5");
    same(settings.dt_ps, 0.002);
    assert_int_equal(settings.steps, 5000000000);
    assert_int_equal(settings.nstlist, 25);
    assert_int_equal(settings.nstcalcenergy, 20);
    assert_int_equal(settings.nstenergy, 40);
    assert_int_equal(settings.nstcomm, 7);
    assert_int_equal(settings.nsttcouple, 5);
    same(settings.verlet_buffer_tolerance, 1e-4);
    same(settings.rlist_nm, 1.3);
    same(settings.rcoulomb_nm, 0.9);
    same(settings.epsilon_r, 2);
    same(settings.epsilon_rf, 78.5);
    assert_int_equal(settings.vdw_modifier, MD_VDW_NONE);
    assert_int_equal(settings.tcoupl, MD_TCOUPL_V_RESCALE);
    assert_int_equal(settings.group_count, 1);
    assert_string_equal(settings.group_name[0], "System");
    same(settings.tau_t_ps[0], 0.25);
    same(settings.ref_t_k[0], 310);
    assert_int_equal(settings.integrator, MD_LEAP_FROG);
    assert_int_equal(settings.constraints, MD_RIGID_H_BONDS);
    assert_int_equal(settings.ld_seed, 11);
    assert_true(settings.gen_vel);
    same(settings.gen_temp_k, 290.5);
    assert_int_equal(settings.gen_seed, 12);
    assert_string_equal(settings.notes, "");
}

static void test_keys_ignore_case_dashes_and_underscores(void **state)
{
    (void)state;
    struct md_settings settings = must_read("NstList=5\nvdw_TYPE = cut_off\r\n"
                                            "  VDW_modifier = PotentialShift ; comment = here\n"
                                            "; nstcomm = 3\n\nverlet_buffer_drift = 0.01\n"
                                            "unconstrained-start = yes\n");
    assert_int_equal(settings.nstlist, 5);
    assert_int_equal(settings.nstcomm, 100);
    same(settings.verlet_buffer_tolerance, 0.01);
    assert_true(settings.continuation);
}

static void test_an_empty_value_keeps_the_default(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("nstlist =\nfreezegrps = ; none\ntcoupl = \nnstlist = 15\n");
    assert_int_equal(settings.nstlist, 15);
}

static void test_what_belongs_to_options_that_are_off_is_accepted(void **state)
{
    (void)state;
    (void)must_read("tau-p = 2\nref_p = 1\ncompressibility = 4.5e-5\npcoupl = no\n"
                    "pme-order = 4\nfourierspacing = 0.12\nlincs-order = 4\nnstlog = 50\n"
                    "nstxout-compressed = 10\ntitle = a = b\nDispCorr = No\nannealing = no no\n"
                    "pull = no\npull-ngroups = 2\nelectric-field-x = 0 0 0 0\nnwall = 0\n"
                    "tc-grps = Protein SOL\ntau-t = 0.1 0.1\nfree-energy = no\nsc-alpha = 0.5\n"
                    "comm-grps = System\ntinit = 0.0\nenergygrps = SOL\nuserint1 = 3\n");
}

static void test_what_gromacs_has_and_this_lacks_is_not_supported(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "integrator = sd",
        "coulombtype = PME",
        "cutoff-scheme = group",
        "tcoupl = berendsen",
        "pcoupl = C-rescale",
        "freezegrps = SOL",
        "free-energy = yes",
        "annealing = single",
        "pbc = xy",
        "vdw-type = switch",
        "vdw-modifier = force-switch",
        "comm-mode = angular",
        "DispCorr = EnerPres",
        "nwall = 2",
        "pull = yes",
        "electric-field-z = 1 0 0 0",
        "periodic-molecules = yes",
        "tinit = 5",
        "nsteps = -1",
        "deform = 0 0 0.1 0 0 0",
        "comm-grps = Protein",
        "coulomb-modifier = force-switch",
        "mts = yes",
        "cos-acceleration = 0.1",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[100], key[40];
        snprintf(text, sizeof text, "dt = 0.001\n%s\n", lines[i]);
        snprintf(key, sizeof key, "test.mdp:2: keyword '%.*s'", (int)strcspn(lines[i], " "),
                 lines[i]);
        refuse(-ENOTSUP, text, key);
    }
}

static void test_unknown_keywords_and_values_are_named(void **state)
{
    (void)state;
    refuse(-EINVAL, "\nnstlsit = 3\n",
           "test.mdp:2: unknown keyword 'nstlsit'; the nearest known "
           "one is 'nstlist'");
    refuse(-EINVAL, "rcolomb = 3\n", "'rcoulomb'");
    refuse(-EINVAL, "rotaton = yes\n", "'rotation'");
    refuse(-EINVAL, "tcoupl = v-resacle\n", "'v-resacle' is unknown");
    refuse(-EINVAL, "gen-vel = maybe\n", "no yes");
    refuse(-EINVAL, "nstlist 3\n", "test.mdp:1: expected 'keyword = value'");
    refuse(-EINVAL, "= 3\n", "test.mdp:1");
}

static void test_a_repeated_keyword_names_both_lines(void **state)
{
    (void)state;
    refuse(-EINVAL, "nstlist = 3\n\nnst-list = 3\n",
           "test.mdp:3: keyword 'nst-list' is set a second time; the first is on line 1");
    refuse(-EINVAL, "continuation = no\nunconstrained-start = no\n", "line 1");
    refuse(-EINVAL, "nstlog = 1\nNSTLOG = 1\n", "line 1");
}

static void test_numbers_are_taken_strictly(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "dt = 0.002x",     "dt = nan",      "dt = inf",
        "dt = 1e999",      "dt = -0.001",   "dt = 0",
        "dt = 0x1p-9",     "nstlist = 1.5", "nstlist = -1",
        "nsteps = 1e6",    "nsteps = -2",   "nstlist = 9999999999",
        "rvdw = -1",       "gen-temp = -5", "nsteps = 99999999999999999999",
        "epsilon-rf = -1", "nstcomm = -10",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        refuse(-EINVAL, lines[i], "test.mdp:1");
}

static void test_cut_offs_have_to_be_equal_and_positive(void **state)
{
    (void)state;
    refuse(-ENOTSUP, "rcoulomb = 0.9\nrvdw = 1.0\n", "test.mdp:2");
    refuse(-ENOTSUP, "rcoulomb = 0.9\n", "test.mdp:1");
    refuse(-EINVAL, "rcoulomb = 0\nrvdw = 0\n", "rcoulomb");
}

static void test_the_list_length_counts_when_the_tolerance_is_negative(void **state)
{
    (void)state;
    refuse(-EINVAL, "verlet-buffer-tolerance = 0\n", "verlet-buffer-tolerance");
    refuse(-EINVAL, "verlet-buffer-tolerance = -1\nrlist = 0.9\n", "test.mdp:2");
    struct md_settings settings = must_read("verlet-buffer-tolerance = -1\nrlist = 1.2\n");
    same(settings.rlist_nm, 1.2);
    (void)must_read("rlist = 0.5\n");
}

static void test_a_plain_cut_off_is_a_reaction_field_of_the_medium(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("coulombtype = Cut-off\nepsilon-r = 2\nepsilon-rf = 0\n");
    same(settings.epsilon_rf, 2);
    assert_non_null(strstr(settings.notes, "epsilon-rf = 2"));
    refuse(-ENOTSUP, "coulombtype = cut-off\ncoulomb-modifier = none\n", "test.mdp:2");
    settings = must_read("coulombtype = reaction-field\ncoulomb-modifier = none\n");
    same(settings.epsilon_rf, 0);
}

static void test_dielectric_constants_have_to_make_sense(void **state)
{
    (void)state;
    refuse(-EINVAL, "coulombtype = reaction-field\nepsilon-r = 4\nepsilon-rf = 1\n", "exchanges");
    refuse(-EINVAL, "coulombtype = reaction-field\nepsilon-r = 4\nepsilon-rf = 3\n", "test.mdp:3");
    refuse(-EINVAL, "coulombtype = reaction-field\nepsilon-r = 0\n", "test.mdp:2");
}

static void test_integrators_and_constraints_are_chosen(void **state)
{
    (void)state;
    struct md_settings settings = must_read("integrator = md-vv\nconstraints = all-bonds\n"
                                            "constraint-algorithm = SHAKE\nshake-tol = 1e-6\n");
    assert_int_equal(settings.integrator, MD_VELOCITY_VERLET);
    assert_int_equal(settings.constraints, MD_RIGID_ALL_BONDS);
    refuse(-ENOTSUP, "\nconstraints = h-angles\n", "test.mdp:2: keyword 'constraints'");
    refuse(-ENOTSUP, "constraint-algorithm = none\n", "test.mdp:1: keyword 'constraint-algorithm'");
}

static void test_a_minimisation_has_neither_thermostat_nor_velocities(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("integrator = steep\nemtol = 250\nemstep = 0.005\ngen-vel = yes\n"
                  "tcoupl = v-rescale\ntc-grps = System\ntau-t = 1\nref-t = 300\n");
    assert_int_equal(settings.integrator, MD_STEEPEST_DESCENT);
    same(settings.emtol_kj_mol_nm, 250);
    same(settings.emstep_nm, 0.005);
    assert_int_equal(settings.tcoupl, MD_TCOUPL_NO);
    assert_int_equal(settings.group_count, 0);
    assert_false(settings.gen_vel);
    assert_false(settings.remove_com);
    refuse(-EINVAL, "integrator = steep\nemtol = 0\n", "test.mdp:2: 'emtol'");
    refuse(-EINVAL, "integrator = steep\nemstep = 0\n", "test.mdp:2: 'emstep'");
}

static void test_each_temperature_group_has_its_numbers(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("tcoupl = v-rescale\ntc-grps = EOH non-Water  SOL\ntau-t = 0.1 0.2 0.5\n"
                  "ref-t = 300 310 320\n");
    assert_int_equal(settings.group_count, 3);
    assert_string_equal(settings.group_name[1], "non-Water");
    assert_string_equal(settings.group_name[2], "SOL");
    same(settings.tau_t_ps[0], 0.1);
    same(settings.tau_t_ps[2], 0.5);
    same(settings.ref_t_k[1], 310);
    const char *head = "tcoupl = v-rescale\n";
    char text[400];
    snprintf(text, sizeof text, "%stau-t = 1\nref-t = 300\n", head);
    refuse(-EINVAL, text, "tc-grps");
    snprintf(text, sizeof text, "%stc-grps = System\ntau-t = 1 1\nref-t = 300\n", head);
    refuse(-EINVAL, text, "test.mdp:3: 'tau-t'");
    snprintf(text, sizeof text, "%stc-grps = A B\ntau-t = 1 1\nref-t = 300\n", head);
    refuse(-EINVAL, text, "test.mdp:4: 'ref-t' has to be 2 numbers");
    snprintf(text, sizeof text, "%stc-grps = System\ntau-t = 1\nref-t = warm\n", head);
    refuse(-EINVAL, text, "test.mdp:4: 'ref-t'");
    snprintf(text, sizeof text, "%stc-grps = A B\ntau-t = 1 -1\nref-t = 300 300\n", head);
    refuse(-EINVAL, text, "tcoupl = no");
    snprintf(text, sizeof text, "%stc-grps = System\ntau-t = 1\nref-t = 300\nnsttcouple = 0\n",
             head);
    refuse(-EINVAL, text, "nsttcouple");
    snprintf(text, sizeof text, "%stc-grps = a b c d e f g h i j k l m n o p q\n", head);
    refuse(-ENOTSUP, text, "more than 16");
    snprintf(text, sizeof text, "%stc-grps = %064d\n", head, 1);
    refuse(-EINVAL, text, "longer than 63");
}

static void test_random_seeds_are_taken_as_one_and_said_so(void **state)
{
    (void)state;
    struct md_settings settings =
        must_read("gen-vel = yes\ngen-seed = -1\ntcoupl = v-rescale\ntc-grps = system\n"
                  "tau-t = 1\nref-t = 300\n");
    assert_int_equal(settings.gen_seed, 1);
    assert_int_equal(settings.ld_seed, 1);
    assert_non_null(strstr(settings.notes, "gen-seed"));
    assert_non_null(strstr(settings.notes, "\n"));
    settings = must_read("coulombtype = reaction-field\ngen-vel = yes\ngen-seed = -35652260\n");
    assert_int_equal(settings.gen_seed, -35652260);
    assert_string_equal(settings.notes, "");
}

static void test_energy_steps_follow_gromacs(void **state)
{
    (void)state;
    struct md_settings settings = must_read("coulombtype = reaction-field\nnstenergy = 35\n");
    assert_int_equal(settings.nstcalcenergy, 35);
    assert_string_equal(settings.notes, "");
    settings = must_read("nstenergy = 35\nnstcalcenergy = 10\n");
    assert_int_equal(settings.nstenergy, 40);
    assert_non_null(strstr(settings.notes, "nstenergy = 35 is set to 40"));
    settings = must_read("nstenergy = 0\nnstcalcenergy = -1\n");
    assert_int_equal(settings.nstcalcenergy, 100);
    refuse(-EINVAL, "nstenergy = 2147483647\nnstcalcenergy = 2\n", "nstenergy");
}

static void test_frames_have_periods_and_compressed_ones_are_noted(void **state)
{
    (void)state;
    struct md_settings settings = must_read("coulombtype = reaction-field\nnstxout = 10\n"
                                            "nstvout = 20\nnst-f-out = 5000000000\n");
    assert_int_equal(settings.nstxout, 10);
    assert_int_equal(settings.nstvout, 20);
    assert_int_equal(settings.nstfout, 5000000000);
    assert_string_equal(settings.notes, "");
    static const char *const asked[] = {"nstxtcout = 5\n", "nstxout-compressed = 5\n"};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "coulombtype = reaction-field\n%s", asked[i]);
        settings = must_read(text);
        assert_non_null(strstr(settings.notes, "no compressed trajectory is written"));
        assert_null(strchr(settings.notes, '\n'));
    }
    settings = must_read("coulombtype = reaction-field\nnstxout-compressed = 0\n");
    assert_string_equal(settings.notes, "");
    assert_int_equal(settings.nstxout, 0);
}

static void test_no_removal_of_motion_has_no_period(void **state)
{
    (void)state;
    struct md_settings settings = must_read("comm-mode = none\nnstcomm = 50\n");
    assert_false(settings.remove_com);
    assert_int_equal(settings.nstcomm, 0);
    settings = must_read("nstcomm = 0\n");
    assert_false(settings.remove_com);
}

static void test_generated_velocities_contradict_a_continuation(void **state)
{
    (void)state;
    refuse(-EINVAL, "continuation = yes\ngen-vel = yes\n", "test.mdp:2");
}

static void test_texts_too_long_are_refused(void **state)
{
    (void)state;
    char text[1200];
    memset(text, 'x', sizeof text);
    memcpy(text, "define = -D", 11);
    text[sizeof text - 1] = 0;
    refuse(-EINVAL, text, "'define' is longer than 511");
    memcpy(text, "include = -", 11);
    refuse(-EINVAL, text, "'include' is longer than 511");
    refuse(-EINVAL, "include = ../top\n", "-Idirectory");
}

static void test_files_are_named_as_they_were_given(void **state)
{
    (void)state;
    struct md_settings settings;
    assert_int_equal(md_settings_read("/nowhere/x.mdp", &settings), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "/nowhere/x.mdp"));
    assert_int_equal(md_settings_read("/", &settings), -EISDIR);
}

static void test_the_shipped_settings_are_read(void **state)
{
    (void)state;
    const char *source = getenv("LEAT_SOURCE_DIR");
    if (!source) {
        printf("skipped: LEAT_SOURCE_DIR is not set\n");
        skip();
    }
    char path[1000];
    snprintf(path, sizeof path, "%s/test/data/water.mdp", source);
    struct md_settings settings;
    if (md_settings_read(path, &settings))
        fail_msg("%s", leat_error_detail());
    same(settings.rcoulomb_nm, 0.9);
    same(settings.dt_ps, 0.002);
    same(settings.epsilon_rf, 0);
    assert_int_equal(settings.steps, 1000);
    assert_int_equal(settings.nstlist, 20);
    assert_int_equal(settings.vdw_modifier, MD_VDW_POTENTIAL_SHIFT);
}

static void test_faults_found_at_the_end_name_a_line(void **state)
{
    (void)state;
    refuse(-EINVAL, "nsteps = 1\ndefine = FOO\n", "test.mdp:2: define: expected -DNAME");
    refuse(-EINVAL, "nsteps = 1\ntcoupl = v-rescale\n", "test.mdp:2: ");
    refuse(-EINVAL, "tcoupl = v-rescale\ntc-grps = System\n", "test.mdp:1: 'tau-t'");
    refuse(-EINVAL, "tcoupl = v-rescale\ntc-grps = System\ntau-t = 0.1\n", "test.mdp:1: 'ref-t'");
}

static void test_time_steps_are_of_a_size_that_moves_atoms(void **state)
{
    (void)state;
    refuse(-EINVAL, "\ndt = 0.9e-9\n", "test.mdp:2: 'dt'");
    refuse(-EINVAL, "\ndt = 1.1\n", "test.mdp:2: 'dt'");
    same(must_read("dt = 1e-9").dt_ps, 1e-9);
    same(must_read("dt = 1").dt_ps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_options_take_the_defaults_of_gromacs),
        cmocka_unit_test(test_every_supported_option_is_taken),
        cmocka_unit_test(test_keys_ignore_case_dashes_and_underscores),
        cmocka_unit_test(test_an_empty_value_keeps_the_default),
        cmocka_unit_test(test_what_belongs_to_options_that_are_off_is_accepted),
        cmocka_unit_test(test_what_gromacs_has_and_this_lacks_is_not_supported),
        cmocka_unit_test(test_unknown_keywords_and_values_are_named),
        cmocka_unit_test(test_a_repeated_keyword_names_both_lines),
        cmocka_unit_test(test_numbers_are_taken_strictly),
        cmocka_unit_test(test_cut_offs_have_to_be_equal_and_positive),
        cmocka_unit_test(test_the_list_length_counts_when_the_tolerance_is_negative),
        cmocka_unit_test(test_a_plain_cut_off_is_a_reaction_field_of_the_medium),
        cmocka_unit_test(test_dielectric_constants_have_to_make_sense),
        cmocka_unit_test(test_integrators_and_constraints_are_chosen),
        cmocka_unit_test(test_a_minimisation_has_neither_thermostat_nor_velocities),
        cmocka_unit_test(test_each_temperature_group_has_its_numbers),
        cmocka_unit_test(test_random_seeds_are_taken_as_one_and_said_so),
        cmocka_unit_test(test_energy_steps_follow_gromacs),
        cmocka_unit_test(test_frames_have_periods_and_compressed_ones_are_noted),
        cmocka_unit_test(test_no_removal_of_motion_has_no_period),
        cmocka_unit_test(test_generated_velocities_contradict_a_continuation),
        cmocka_unit_test(test_faults_found_at_the_end_name_a_line),
        cmocka_unit_test(test_time_steps_are_of_a_size_that_moves_atoms),
        cmocka_unit_test(test_texts_too_long_are_refused),
        cmocka_unit_test(test_files_are_named_as_they_were_given),
        cmocka_unit_test(test_the_shipped_settings_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
