// SPDX-License-Identifier: Apache-2.0
// Reader of topologies: types, molecules, exclusions, blocks.
//
// Advantage: topologies of a few lines, made here, each with one trait. Disadvantage: whole force
// fields are only read where they are installed or lie beside the source tree.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology_texts.h"

#include <errno.h>
#include <stdlib.h>

// ---- what is read

static void test_reads_atoms_with_the_charges_and_masses_of_their_types(void **state)
{
    (void)state;
    struct md_topology *topology =
        must_read(HEAD "[ moleculetype ]\nMIX 0\n[ atoms ]\n"
                       "1 OW 7A RESNAMELONG OXYGENLONG 1\n"
                       "2 HW 8 RES H 1 0.25\n"
                       "3 AR 9 RES A 1 -0.5 40.5\n"
                       "4 AR 9 RES B 1 -0.5 40.5 OW 1 1\n" TAIL "MIX 1\n");
    const struct md_atom *atoms = topology->molecule_types[0].atoms;
    assert_string_equal(topology->title, "stamped system");
    assert_string_equal(topology->molecule_types[0].name, "MIX");
    assert_int_equal(topology->molecule_types[0].atom_count, 4);
    near(atoms[0].charge_e, -0.8476);
    near(atoms[0].mass_u, 15.9994);
    near(atoms[1].charge_e, 0.25);
    near(atoms[1].mass_u, 1.008);
    near(atoms[2].charge_e, -0.5);
    near(atoms[3].mass_u, 40.5);
    assert_int_equal(atoms[0].residue, 7);
    assert_int_equal(atoms[2].residue, 9);
    assert_string_equal(atoms[0].name, "OXYGENL");
    assert_string_equal(atoms[0].residue_name, "RESNAME");
    assert_string_equal(topology->type_name[atoms[3].type], "AR");
    excluded(&topology->molecule_types[0], 0, 0, NULL);
    md_topology_free(topology);
}

static void test_all_layouts_of_atom_types_are_told_apart(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(
        "[ defaults ]\n1 1\n[ atomtypes ]\n"
        "plain 1.5 0.1 A 1e-3 1e-6\n"
        "number 6 2.5 0.2 A 2e-3 2e-6\n"
        "bonded CT 3.5 0.3 a 3e-3 3e-6\n"
        "both CT 6 4.5 0.4 A 4e-3 4e-6\n"
        "[ moleculetype ]\nM 0\n[ atoms ]\n"
        "1 plain 1 M A 1\n2 number 1 M B 1\n3 bonded 1 M C 1\n4 both 1 M D 1\n" TAIL "M 1\n");
    for (int i = 0; i < 4; i++) {
        const struct md_atom *atom = &topology->molecule_types[0].atoms[i];
        near(atom->mass_u, 1.5 + i);
        near(atom->charge_e, 0.1 * (i + 1));
        near(topology->c6[i * 4 + i], 1e-3 * (i + 1));
        near(topology->c12[i * 4 + i], 1e-6 * (i + 1));
    }
    md_topology_free(topology);
}

static void test_water_excludes_all_of_itself(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER TAIL "SOL 5\n");
    const struct md_molecule_type *water = &topology->molecule_types[0];
    assert_int_equal(water->settle_count, 1);
    assert_int_equal(water->settles[0].oxygen, 0);
    near(water->settles[0].d_oh_nm, 0.1);
    near(water->settles[0].d_hh_nm, 0.1633);
    excluded(water, 0, 2, (const int[]){1, 2});
    excluded(water, 1, 2, (const int[]){0, 2});
    excluded(water, 2, 2, (const int[]){0, 1});
    md_topology_free(topology);
}

static void test_nrexcl_counts_bonds_and_settles(void **state)
{
    (void)state;
    static const char *const text = "[ atoms ]\n1 OW 1 M A 1\n2 HW 1 M B 1\n3 HW 1 M C 1\n"
                                    "4 AR 1 M D 1\n5 AR 1 M E 1\n"
                                    "[ settles ]\n1 1 0.1 0.1633\n"
                                    "[ bonds ]\n3 4 5\n4 5 5\n" TAIL "M 1\n";
    char all[2000];
    snprintf(all, sizeof all, HEAD "[ moleculetype ]\nM 1\n%s", text);
    struct md_topology *topology = must_read(all);
    excluded(&topology->molecule_types[0], 0, 2, (const int[]){1, 2});
    excluded(&topology->molecule_types[0], 1, 1, (const int[]){0});
    excluded(&topology->molecule_types[0], 3, 2, (const int[]){2, 4});
    md_topology_free(topology);
    snprintf(all, sizeof all, HEAD "[ moleculetype ]\nM 3\n%s", text);
    topology = must_read(all);
    excluded(&topology->molecule_types[0], 0, 4, (const int[]){1, 2, 3, 4});
    excluded(&topology->molecule_types[0], 1, 3, (const int[]){0, 2, 3});
    excluded(&topology->molecule_types[0], 4, 3, (const int[]){0, 2, 3});
    md_topology_free(topology);
}

static void test_explicit_exclusions_are_merged_and_symmetric(void **state)
{
    (void)state;
    struct md_topology *topology =
        must_read(HEAD "[ moleculetype ]\nM 0\n[ atoms ]\n1 AR 1 M A 1\n2 AR 1 M B 1\n"
                       "3 AR 1 M C 1\n4 AR 1 M D 1\n"
                       "[ exclusions ]\n4 1 4\n1 2\n2 1\n1 4\n" TAIL "M 1\n");
    excluded(&topology->molecule_types[0], 0, 2, (const int[]){1, 3});
    excluded(&topology->molecule_types[0], 1, 1, (const int[]){0});
    excluded(&topology->molecule_types[0], 2, 0, NULL);
    excluded(&topology->molecule_types[0], 3, 1, (const int[]){0});
    md_topology_free(topology);
}

static void test_only_types_in_use_get_numbers(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER ARGON TAIL "Ar 2\nSOL 0\n");
    assert_int_equal(topology->type_count, 1);
    assert_string_equal(topology->type_name[0], "AR");
    assert_int_equal(topology->molecule_type_count, 1);
    assert_string_equal(topology->molecule_types[0].name, "Ar");
    assert_int_equal(topology->block_count, 1);
    md_topology_free(topology);
}

// ---- pair parameters

#define PAIR_TAIL        "[ moleculetype ]\nM 0\n[ atoms ]\n1 A 1 M A 1\n2 B 1 M B 1\n" TAIL "M 1\n"
#define PAIR_TYPES(a, b) "[ atomtypes ]\nA 10 0 A " a "\nB 20 0 A " b "\nC 30 0 A 1 1\n"

static void pair(const char *text, double c6, double c12)
{
    struct md_topology *topology = must_read(text);
    assert_int_equal(topology->type_count, 2);
    near(topology->c6[1], c6);
    near(topology->c12[1], c12);
    near(topology->c6[2], c6);
    near(topology->c12[2], c12);
    md_topology_free(topology);
}

static void test_combination_rules(void **state)
{
    (void)state;
    pair("[ defaults ]\n1 1\n" PAIR_TYPES("1e-3 1e-6", "4e-3 9e-6") PAIR_TAIL, 2e-3, 3e-6);
    pair("[ defaults ]\n1 2\n" PAIR_TYPES("0.3 0.4", "0.5 0.9") PAIR_TAIL, 4 * 0.6 * pow(0.4, 6),
         4 * 0.6 * pow(0.4, 12));
    pair("[ defaults ]\n1 3\n" PAIR_TYPES("0.2 0.4", "0.8 0.9") PAIR_TAIL, 4 * 0.6 * pow(0.4, 6),
         4 * 0.6 * pow(0.4, 12));
}

static void test_a_negative_sigma_leaves_out_the_attraction(void **state)
{
    (void)state;
    pair("[ defaults ]\n1 2\n" PAIR_TYPES("-0.3 0.4", "0.5 0.9") PAIR_TAIL, 0,
         4 * 0.6 * pow(0.4, 12));
    pair("[ defaults ]\n1 3\n" PAIR_TYPES("0.2 0.4", "-0.8 0.9") PAIR_TAIL, 0,
         4 * 0.6 * pow(0.4, 12));
}

static void test_explicit_pairs_come_before_the_rule(void **state)
{
    (void)state;
    pair("[ defaults ]\n1 1\n" PAIR_TYPES(
             "1e-3 1e-6", "4e-3 9e-6") "[ nonbond_params ]\nB A 1 7e-3 8e-6\nA C 1 0 0\n" PAIR_TAIL,
         7e-3, 8e-6);
    pair("[ defaults ]\n1 2\n" PAIR_TYPES(
             "0.3 0.4", "0.5 0.9") "[ nonbond_params ]\nA B 1 0.5 2\nA B 1 0.5 2\n" PAIR_TAIL,
         8 * pow(0.5, 6), 8 * pow(0.5, 12));
}

static void test_parameters_have_to_combine_to_finite_numbers(void **state)
{
    (void)state;
    refuse(-EINVAL, "[ defaults ]\n1 1\n" PAIR_TYPES("-1e-3 1e-6", "4e-3 9e-6") PAIR_TAIL,
           "test.top:5: the parameters of atom types A and B");
    refuse(-EINVAL, "[ defaults ]\n1 2\n" PAIR_TYPES("1e80 1e-6", "4e-3 9e-6") PAIR_TAIL,
           "A and A");
}

static void test_contradicting_definitions_count_only_when_used(void **state)
{
    (void)state;
    struct md_topology *topology =
        must_read(HEAD "AR 39.948 0 A 0.3405 0.99774\nVS 1 1 A 1 1\n"
                       "[ nonbond_params ]\nOW HW 1 1 1\nOW HW 1 2 2\n" ARGON TAIL "Ar 1\n");
    md_topology_free(topology);
    refuse(-EINVAL, HEAD "AR 39.948 0 A 0.34 0.99774\n" ARGON TAIL "Ar 1\n",
           "test.top:8: atom type 'AR' is defined again");
    refuse(-EINVAL, HEAD "[ nonbond_params ]\nOW HW 1 1 1\nHW OW 1 2 2\n" WATER TAIL "SOL 1\n",
           "test.top:10: [ nonbond_params ] changes the pair");
}

// ---- molecules and blocks

static void test_names_of_molecules_are_case_blind_unless_they_differ(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER ARGON TAIL "sol 1\nAR 2\n");
    assert_string_equal(topology->molecule_types[0].name, "SOL");
    assert_string_equal(topology->molecule_types[1].name, "Ar");
    md_topology_free(topology);
    topology =
        must_read(HEAD WATER "[ moleculetype ]\nsol 1\n[ atoms ]\n1 AR 1 A A 1\n" TAIL "sol 3\n");
    assert_int_equal(topology->atom_count, 3);
    md_topology_free(topology);
    refuse(-EINVAL, HEAD WATER "[ moleculetype ]\nsol 1\n[ atoms ]\n1 AR 1 A A 1\n" TAIL "Sol 3\n",
           "several spellings");
    refuse(-EINVAL, HEAD WATER ARGON TAIL "XYZ 3\n", "'XYZ' is not defined; known are: Ar, SOL");
}

static void test_blocks_hold_running_sums(void **state)
{
    (void)state;
    struct md_topology *topology =
        must_read(HEAD WATER ARGON TAIL "SOL 2\nSOL 3\nAr 0\nAr 4\nSOL 1\n");
    const struct md_molecule_block expected[] = {{0, 5, 0, 0}, {1, 4, 15, 5}, {0, 1, 19, 9}};
    assert_int_equal(topology->block_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(topology->blocks[i].type, expected[i].type);
        assert_int_equal(topology->blocks[i].count, expected[i].count);
        assert_int_equal(topology->blocks[i].first_atom, expected[i].first_atom);
        assert_int_equal(topology->blocks[i].first_molecule, expected[i].first_molecule);
    }
    assert_int_equal(topology->atom_count, 22);
    assert_int_equal(topology->molecule_count, 10);
    md_topology_free(topology);
}

// Every atom against a walk over the blocks.
static void check_every_atom(const struct md_topology *topology)
{
    int64_t atom = 0, number = 0;
    for (int i = 0; i < topology->block_count; i++) {
        const struct md_molecule_type *type = &topology->molecule_types[topology->blocks[i].type];
        for (int64_t j = 0; j < topology->blocks[i].count; j++, number++) {
            int64_t start = atom;
            for (int k = 0; k < type->atom_count; k++, atom++) {
                const struct md_molecule_type *found = NULL;
                int index = -1;
                int64_t molecule = -1, first = -1;
                md_topology_locate(topology, atom, &found, &index, &molecule, &first);
                assert_ptr_equal(found, type);
                assert_int_equal(index, k);
                assert_int_equal(molecule, number);
                assert_int_equal(first, start);
            }
        }
    }
    assert_int_equal(atom, topology->atom_count);
    assert_int_equal(number, topology->molecule_count);
}

static void test_atoms_are_found_in_their_molecules(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER ARGON TAIL "SOL 2\nAr 4\nSOL 1\nAr 1\n");
    check_every_atom(topology);
    md_topology_free(topology);
}

static void test_tiling_repeats_the_list_of_molecules(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER ARGON TAIL "SOL 2\nAr 4\n");
    assert_int_equal(md_topology_tile(topology, 3), 0);
    assert_int_equal(topology->block_count, 6);
    assert_int_equal(topology->atom_count, 30);
    assert_int_equal(topology->blocks[4].count, 2);
    check_every_atom(topology);
    md_topology_free(topology);

    topology = must_read(HEAD WATER ARGON TAIL "SOL 2\nAr 4\nSOL 3\n");
    assert_int_equal(md_topology_tile(topology, 2), 0);
    assert_int_equal(topology->block_count, 5);
    assert_int_equal(topology->blocks[2].count, 5);
    check_every_atom(topology);
    md_topology_free(topology);
}

static void test_tiling_one_kind_stays_one_block(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER TAIL "SOL 1000000000\n");
    assert_int_equal(topology->atom_count, 3000000000);
    assert_int_equal(md_topology_tile(topology, 1000), 0);
    assert_int_equal(topology->block_count, 1);
    assert_int_equal(topology->atom_count, 3000000000000);
    const struct md_molecule_type *type = NULL;
    int index = -1;
    int64_t molecule = -1, first = -1;
    md_topology_locate(topology, 2999999999999, &type, &index, &molecule, &first);
    assert_int_equal(index, 2);
    assert_int_equal(molecule, 999999999999);
    assert_int_equal(first, 2999999999997);
    md_topology_free(topology);
}

static void test_tiling_beyond_numbering_changes_nothing(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(HEAD WATER ARGON TAIL "SOL 1\nAr 1\n");
    assert_int_equal(md_topology_tile(topology, 0), -EINVAL);
    assert_int_equal(md_topology_tile(topology, -1), -EINVAL);
    assert_int_equal(md_topology_tile(topology, INT64_MAX), -EINVAL);
    assert_int_equal(md_topology_tile(topology, 1LL << 40), -EINVAL);
    assert_int_equal(topology->atom_count, 4);
    check_every_atom(topology);
    md_topology_free(topology);
}

static void test_counts_have_to_fit(void **state)
{
    (void)state;
    refuse(-EINVAL, HEAD WATER TAIL "SOL -1\n", "count, 0 or more");
    refuse(-EINVAL, HEAD WATER TAIL "SOL 4000000000000000000\n", "2^63");
    refuse(-EINVAL, HEAD WATER TAIL "SOL 99999999999999999999\n", "count");
    refuse(-EINVAL, HEAD WATER TAIL "SOL 1 000\n", "count");
    refuse(-EINVAL, HEAD WATER TAIL "SOL 0\n", "count above 0");
    refuse(-EINVAL, HEAD WATER TAIL, "count above 0");
}

// ---- files

static void test_the_shipped_water_is_spce(void **state)
{
    (void)state;
    const char *source = getenv("LEAT_SOURCE_DIR");
    if (!source) {
        printf("skipped: LEAT_SOURCE_DIR is not set\n");
        skip();
    }
    char path[1000];
    snprintf(path, sizeof path, "%s/test/data/water.top", source);
    struct md_topology *topology = poison;
    if (md_topology_read(path, NULL, NULL, &topology))
        fail_msg("%s", leat_error_detail());
    const struct md_molecule_type *water = &topology->molecule_types[0];
    assert_int_equal(topology->molecule_type_count, 1);
    assert_int_equal(water->atom_count, 3);
    near(water->atoms[0].charge_e + 2 * water->atoms[1].charge_e, 0);
    // The published A and B: A = 0.37122, B = 0.3428 nm with c6 = A^6, c12 = B^12.
    assert_true(fabs(topology->c6[0] / pow(0.37122, 6) - 1) < 1e-3);
    assert_true(fabs(topology->c12[0] / pow(0.3428, 12) - 1) < 1e-3);
    near(topology->c6[1], 0);
    double angle = 2 * asin(0.5 * water->settles[0].d_hh_nm / water->settles[0].d_oh_nm);
    assert_true(fabs(angle * 180 / acos(-1) - 109.47) < 0.01);
    md_topology_free(topology);
}

static void test_a_whole_force_field_leaves_what_is_used(void **state)
{
    (void)state;
    const char *shared = getenv("LEAT_SHARED");
    char path[1000];
    snprintf(path, sizeof path, "%s/cases/md/water5k.top", shared ? shared : "");
    FILE *file = shared ? fopen(path, "r") : NULL;
    if (!file) {
        printf("skipped: LEAT_SHARED does not name the directory of the cases\n");
        skip();
        return;
    }
    fclose(file);
    struct md_topology *topology = poison;
    if (md_topology_read(path, NULL, NULL, &topology))
        fail_msg("%s", leat_error_detail());
    assert_int_equal(topology->atom_count, 5184);
    assert_int_equal(topology->type_count, 2);
    assert_string_equal(topology->type_name[0], "opls_116");
    // As `gmx dump` prints them.
    assert_true(fabs(topology->c6[0] - 2.61706481e-03) < 1e-11);
    assert_true(fabs(topology->c12[0] - 2.63345564e-06) < 1e-14);
    md_topology_free(topology);
}

static void test_a_missing_file_gives_its_errno(void **state)
{
    (void)state;
    struct md_topology *topology = poison;
    assert_int_equal(md_topology_read("/nowhere/x.top", NULL, NULL, &topology), -ENOENT);
    assert_ptr_equal(topology, poison);
    assert_non_null(strstr(leat_error_detail(), "/nowhere/x.top"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_atoms_with_the_charges_and_masses_of_their_types),
        cmocka_unit_test(test_all_layouts_of_atom_types_are_told_apart),
        cmocka_unit_test(test_water_excludes_all_of_itself),
        cmocka_unit_test(test_nrexcl_counts_bonds_and_settles),
        cmocka_unit_test(test_explicit_exclusions_are_merged_and_symmetric),
        cmocka_unit_test(test_only_types_in_use_get_numbers),
        cmocka_unit_test(test_combination_rules),
        cmocka_unit_test(test_a_negative_sigma_leaves_out_the_attraction),
        cmocka_unit_test(test_explicit_pairs_come_before_the_rule),
        cmocka_unit_test(test_parameters_have_to_combine_to_finite_numbers),
        cmocka_unit_test(test_contradicting_definitions_count_only_when_used),
        cmocka_unit_test(test_names_of_molecules_are_case_blind_unless_they_differ),
        cmocka_unit_test(test_blocks_hold_running_sums),
        cmocka_unit_test(test_atoms_are_found_in_their_molecules),
        cmocka_unit_test(test_tiling_repeats_the_list_of_molecules),
        cmocka_unit_test(test_tiling_one_kind_stays_one_block),
        cmocka_unit_test(test_tiling_beyond_numbering_changes_nothing),
        cmocka_unit_test(test_counts_have_to_fit),
        cmocka_unit_test(test_the_shipped_water_is_spce),
        cmocka_unit_test(test_a_whole_force_field_leaves_what_is_used),
        cmocka_unit_test(test_a_missing_file_gives_its_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
