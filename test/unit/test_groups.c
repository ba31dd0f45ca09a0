// SPDX-License-Identifier: Apache-2.0
// Temperature groups: who belongs to which, and degrees of freedom.

#include "md/system.h"

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

enum { CHAINS = 5, WATERS = 7, IONS = 2, SITES = 8 };

// A chain of four atoms in two residues, a rigid water, an ion.
struct box {
    struct md_system system;
    struct md_topology topology;
    struct md_molecule_type types[3];
    struct md_molecule_block blocks[3];
    struct md_atom atoms[SITES];
    struct md_site sites[SITES];
    struct md_constraint constraints[2];
    struct md_settle settle;
    int first_site[3];
};

static void name_atoms(struct box *box)
{
    static const char *const residues[SITES] = {"HED", "HED", "TAI", "TAI",
                                                "SOL", "SOL", "SOL", "NA"};
    for (int i = 0; i < SITES; i++) {
        snprintf(box->atoms[i].residue_name, sizeof box->atoms[i].residue_name, "%s", residues[i]);
        snprintf(box->atoms[i].name, sizeof box->atoms[i].name, "%s", "X");
        int type = i < 4 ? 0 : i < 7 ? 1 : 2;
        box->sites[i] = (struct md_site){.molecule_type = type, .index = i - box->first_site[type]};
    }
}

static int enter(void **state)
{
    struct box *box = calloc(1, sizeof *box);
    if (!box)
        return -1;
    box->constraints[0] = (struct md_constraint){1, 2, 0.1};
    box->constraints[1] = (struct md_constraint){2, 3, 0.1};
    memcpy(box->first_site, (int[]){0, 4, 7}, sizeof box->first_site);
    box->types[0] = (struct md_molecule_type){.name = "Chain",
                                              .atom_count = 4,
                                              .atoms = box->atoms,
                                              .constraint_count = 2,
                                              .constraints = box->constraints};
    box->types[1] = (struct md_molecule_type){.name = "W",
                                              .atom_count = 3,
                                              .atoms = box->atoms + 4,
                                              .settle_count = 1,
                                              .settles = &box->settle};
    box->types[2] =
        (struct md_molecule_type){.name = "Sodium", .atom_count = 1, .atoms = box->atoms + 7};
    box->blocks[0] = (struct md_molecule_block){.type = 0, .count = CHAINS};
    box->blocks[1] = (struct md_molecule_block){.type = 1, .count = WATERS};
    box->blocks[2] = (struct md_molecule_block){.type = 2, .count = IONS};
    box->topology = (struct md_topology){.molecule_type_count = 3,
                                         .molecule_types = box->types,
                                         .block_count = 3,
                                         .blocks = box->blocks};
    box->system.topology = &box->topology;
    box->system.sites = box->sites;
    box->system.site_count = SITES;
    box->system.first_site = box->first_site;
    box->system.settings.remove_com = true;
    snprintf(box->system.settings.file, sizeof box->system.settings.file, "%s", "test.mdp");
    name_atoms(box);
    *state = box;
    return 0;
}

static int leave(void **state)
{
    free(*state);
    return 0;
}

static int group(struct box *box, int count, const char *const *names)
{
    box->system.settings.group_count = count;
    for (int g = 0; g < count; g++)
        snprintf(box->system.settings.group_name[g], sizeof box->system.settings.group_name[g],
                 "%s", names[g]);
    memset(box->system.group_degrees, 0x5a, sizeof box->system.group_degrees);
    return md_system_group(&box->system);
}

static void assert_groups(const struct box *box, const int wanted[SITES])
{
    for (int i = 0; i < SITES; i++)
        assert_int_equal(box->sites[i].group, wanted[i]);
}

static void test_without_groups_all_atoms_are_in_one(void **state)
{
    struct box *box = *state;
    assert_int_equal(group(box, 0, NULL), 0);
    assert_groups(box, (const int[SITES]){0});
    double all = 3.0 * (4 * CHAINS + 3 * WATERS + IONS) - 2.0 * CHAINS - 3.0 * WATERS - 3.0;
    assert_true(box->system.degrees == all);
    box->system.settings.remove_com = false;
    assert_int_equal(group(box, 0, NULL), 0);
    assert_true(box->system.degrees == all + 3.0);
}

static void test_groups_by_kind_residue_and_default_name(void **state)
{
    struct box *box = *state;
    assert_int_equal(group(box, 3, (const char *const[]){"chain", "Water", "Ion"}), 0);
    assert_groups(box, (const int[SITES]){0, 0, 0, 0, 1, 1, 1, 2});
    assert_int_equal(group(box, 3, (const char *const[]){"TAI", "Water_and_ions", "HED"}), 0);
    assert_groups(box, (const int[SITES]){2, 2, 0, 0, 1, 1, 1, 1});
    assert_int_equal(group(box, 2, (const char *const[]){"SOL", "non-Water"}), 0);
    assert_groups(box, (const int[SITES]){1, 1, 1, 1, 0, 0, 0, 1});
    assert_int_equal(group(box, 3, (const char *const[]){"Sodium", "SOL", "Other"}), 0);
    assert_groups(box, (const int[SITES]){2, 2, 2, 2, 1, 1, 1, 0});
}

// A constraint between two groups takes half a degree of each.
static void test_degrees_are_shared_as_gromacs_does(void **state)
{
    struct box *box = *state;
    assert_int_equal(group(box, 3, (const char *const[]){"HED", "TAI", "Water_and_ions"}), 0);
    double free[3] = {5.5 * CHAINS, 4.5 * CHAINS, 6.0 * WATERS + 3.0 * IONS};
    double total = free[0] + free[1] + free[2];
    for (int g = 0; g < 3; g++)
        assert_true(fabs(box->system.group_degrees[g] - free[g] * (total - 3.0) / total) < 1e-12);
    assert_true(box->system.degrees == total - 3.0);
    assert_true(box->system.group_degrees[3] == 0.0);
}

static void refuse(struct box *box, int count, const char *const *names, const char *word)
{
    assert_int_equal(group(box, count, names), -EINVAL);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
}

static void test_each_atom_has_to_be_in_one_group(void **state)
{
    struct box *box = *state;
    refuse(box, 1, (const char *const[]){"Chain"}, "atom 1 (X) of molecule W");
    refuse(box, 2, (const char *const[]){"System", "TAI"}, "atom 3 (X) of molecule Chain in both");
    refuse(box, 2, (const char *const[]){"System", "Protein"}, "Protein");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_groups_all_atoms_are_in_one, enter, leave),
        cmocka_unit_test_setup_teardown(test_groups_by_kind_residue_and_default_name, enter, leave),
        cmocka_unit_test_setup_teardown(test_degrees_are_shared_as_gromacs_does, enter, leave),
        cmocka_unit_test_setup_teardown(test_each_atom_has_to_be_in_one_group, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
