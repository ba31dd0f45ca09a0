// SPDX-License-Identifier: Apache-2.0
// Bonded terms of topologies: what each function type becomes, where parameters come from that a
// line leaves out, exclusions along bonds, rigid bonds.
//
// Advantage: one trait a text, with numbers that say where they come from. Disadvantage: agreement
// with GROMACS on whole force fields is for test/peer/test_md_topology.py.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology_texts.h"

#include <errno.h>
#include <stdlib.h>

#define DEGREE (3.14159265358979323846 / 180)

// Four bonded types, two of them of type A; nonbonded parameters by rule 1.
#define FIELD(generate)                                                                            \
    "[ defaults ]\n1 1 " generate " 0.5 0.25\n"                                                    \
    "[ atomtypes ]\n"                                                                              \
    "a1 A 6 12 0.5 A 1e-3 1e-6\n"                                                                  \
    "a2 A 6 12 -0.25 A 4e-3 4e-6\n"                                                                \
    "b  B 6 12 0 A 9e-3 9e-6\n"                                                                    \
    "c  C 6 12 0 A 1e-3 1e-6\n"                                                                    \
    "d  D 6 12 0 A 1e-3 1e-6\n"
// a1 b c d a2
#define CHAIN                                                                                      \
    "[ moleculetype ]\nM 0\n[ atoms ]\n1 a1 1 M X 1\n2 b 1 M hy 2\n3 c 1 M C 3\n4 d 1 M H4 4\n"    \
    "5 a2 1 M 5H 5\n"
#define END TAIL "M 1\n"

// All terms of one kind and nothing else, each as atoms (counted from 0) and parameters.
struct expected {
    int atom[4];
    double parameter[6];
};

static void check_terms(const char *text, enum md_term_kind kind, int count,
                        const struct expected *expected)
{
    struct md_topology *topology = must_read(text);
    const struct md_molecule_type *type = &topology->molecule_types[0];
    assert_int_equal(type->term_start[0], 0);
    for (int k = 0; k < MD_TERM_KINDS; k++)
        assert_int_equal(type->term_start[k + 1] - type->term_start[k], k == (int)kind ? count : 0);
    for (int i = 0; i < count; i++) {
        const struct md_term *term = &type->terms[i];
        for (int a = 0; a < 4; a++)
            assert_int_equal(term->atom[a], expected[i].atom[a]);
        for (int p = 0; p < 6; p++)
            near(term->parameter[p], expected[i].parameter[p]);
    }
    md_topology_free(topology);
}

// ---- what function types become

static void test_bonds_angles_and_impropers_are_harmonic(void **state)
{
    (void)state;
    check_terms(FIELD("no") CHAIN "[ bonds ]\n1 2 1 0.1 1000\n3 2 1 0.2 2000 0.3 9\n1 5 5\n" END,
                MD_TERM_BOND, 2, (struct expected[]){{{0, 1}, {0.1, 1000}}, {{2, 1}, {0.2, 2000}}});
    check_terms(
        FIELD("no") CHAIN "[ angles ]\n3 2 1 1 109.5 300\n1 2 3 5 90 4 0.2 0\n" END, MD_TERM_ANGLE,
        2, (struct expected[]){{{2, 1, 0}, {109.5 * DEGREE, 300}}, {{0, 1, 2}, {90 * DEGREE, 4}}});
    check_terms(FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 4 2 -35 40 1 1\n" END, MD_TERM_IMPROPER, 1,
                (struct expected[]){{{0, 1, 2, 3}, {-35 * DEGREE, 40}}});
}

static void test_periodic_dihedrals_keep_their_multiplicity(void **state)
{
    (void)state;
    check_terms(FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 4 1 180 4 2\n1 2 3 4 9 90 5 -3.000\n" END,
                MD_TERM_DIHEDRAL, 2,
                (struct expected[]){{{0, 1, 2, 3}, {180 * DEGREE, 4, 2}},
                                    {{0, 1, 2, 3}, {90 * DEGREE, 5, -3}}});
    check_terms(FIELD("no") CHAIN "[ dihedrals ]\n4 3 2 1 4 180 4 2 180 4 2\n" END,
                MD_TERM_PERIODIC_IMPROPER, 1,
                (struct expected[]){{{3, 2, 1, 0}, {180 * DEGREE, 4, 2}}});
    refuse(-EINVAL, FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 4 1 180 4 2.5\n" END,
           "test.top:18: Proper Dih.: a multiplicity of 2.5");
}

static void test_fourier_dihedrals_become_powers_of_the_cosine(void **state)
{
    (void)state;
    check_terms(FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 4 3 1 2 3 4 5 6\n" END,
                MD_TERM_RYCKAERT_BELLEMANS, 1,
                (struct expected[]){{{0, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}});
    // Compared as functions: both sums at several angles.
    struct md_topology *topology =
        must_read(FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 4 5 1.5 -2.5 3.5 4.5\n" END);
    const double *c = topology->molecule_types[0].terms[0].parameter;
    for (int i = 0; i < 12; i++) {
        double phi = 0.5 * i, sum = 0;
        for (int n = 5; n >= 0; n--)
            sum = sum * -cos(phi) + c[n];
        double fourier = 0.5 * (1.5 * (1 + cos(phi)) - 2.5 * (1 - cos(2 * phi)) +
                                3.5 * (1 + cos(3 * phi)) + 4.5 * (1 - cos(4 * phi)));
        assert_true(fabs(sum - fourier) < 1e-12);
    }
    md_topology_free(topology);
}

static void test_terms_without_a_force_are_left_out(void **state)
{
    (void)state;
    check_terms(FIELD("no") "[ dihedraltypes ]\nA B C D 9 0 0 1\nA B C D 9 0 2 2\n" CHAIN
                            "[ angles ]\n1 2 3 1 109 0\n"
                            "[ dihedrals ]\n1 2 3 4 9\n1 2 3 4 3 0 0 0 0 0 0\n1 2 3 4 2 5 0\n"
                            "1 2 3 4 4 180 0 2\n1 2 3 4 5 0 0 0 0\n" END,
                MD_TERM_DIHEDRAL, 1, (struct expected[]){{{0, 1, 2, 3}, {0, 2, 2}}});
}

static void test_constraints_count_for_exclusions_unless_of_type_2(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(
        FIELD("no") "[ moleculetype ]\nM 1\n[ atoms ]\n1 a1 1 M X 1\n2 b 1 M Y 2\n3 c 1 M Z 3\n"
                    "[ constraints ]\n1 2 1 0.1\n2 3 2 0.2 0.3\n" END);
    const struct md_molecule_type *type = &topology->molecule_types[0];
    assert_int_equal(type->constraint_count, 2);
    assert_int_equal(type->constraints[1].a, 1);
    assert_int_equal(type->constraints[1].b, 2);
    near(type->constraints[0].length_nm, 0.1);
    near(type->constraints[1].length_nm, 0.2);
    excluded(type, 1, 1, (const int[]){0});
    excluded(type, 2, 0, NULL);
    md_topology_free(topology);
    refuse(-EINVAL, FIELD("no") CHAIN "[ constraints ]\n1 2 1 0\n" END, "a distance of 0 nm");
}

static void test_exclusions_go_nrexcl_bonds_far(void **state)
{
    (void)state;
    static const int others[] = {1, 2, 3};
    for (int nrexcl = 1; nrexcl <= 3; nrexcl++) {
        char text[1000];
        snprintf(text, sizeof text,
                 FIELD("no") "[ moleculetype ]\nM %d\n[ atoms ]\n1 b 1 M A 1\n2 b 1 M B 1\n"
                             "3 b 1 M C 1\n4 b 1 M D 1\n5 b 1 M E 1\n"
                             "[ bonds ]\n1 2 1 1 1\n2 3 5\n3 4 1 1 1\n4 5 1 1 1\n"
                             "[ constraints ]\n1 5 2 0.1\n" END,
                 nrexcl);
        struct md_topology *topology = must_read(text);
        excluded(&topology->molecule_types[0], 0, nrexcl, others);
        md_topology_free(topology);
    }
}

// ---- parameters of the force field

static void test_parameters_are_found_in_either_order_of_types(void **state)
{
    (void)state;
    check_terms(
        FIELD("no") "[ bondtypes ]\nB A 1 0.1 1\nB C 1 0.2 2 7 7\n" CHAIN
                    "[ bonds ]\n1 2 1\n2 1\n3 2\n5 2\n" END,
        MD_TERM_BOND, 4,
        (struct expected[]){
            {{0, 1}, {0.1, 1}}, {{1, 0}, {0.1, 1}}, {{2, 1}, {0.2, 2}}, {{4, 1}, {0.1, 1}}});
    check_terms(FIELD("no") "[ angletypes ]\nA B C 1 90 1\nC A B 1 80 2\n" CHAIN
                            "[ angles ]\n3 2 1\n" END,
                MD_TERM_ANGLE, 1, (struct expected[]){{{2, 1, 0}, {90 * DEGREE, 1}}});
    struct md_topology *topology =
        must_read(FIELD("no") "[ constrainttypes ]\nA B 1 0.1\nB A 2 0.2\n" CHAIN
                              "[ constraints ]\n1 2 1\n1 2 2\n" END);
    near(topology->molecule_types[0].constraints[0].length_nm, 0.1);
    near(topology->molecule_types[0].constraints[1].length_nm, 0.2);
    md_topology_free(topology);
}

static void test_the_fewest_wildcards_win_and_then_the_first_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"X X X X", "D X X A", "X C B X", "X B C X",
                                        "X B C D", "A B C X", "A B C D"};
    // What the first so many of them give to the atoms 1 to 4: the number of a line.
    static const int wins[] = {0, 1, 1, 1, 4, 4, 6};
    for (int count = 1; count <= 7; count++) {
        char text[2000] = FIELD("no") "[ dihedraltypes ]\n";
        for (int i = 0; i < count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s 2 0 %d\n", lines[i],
                     i + 1);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s",
                 CHAIN "[ dihedrals ]\n1 2 3 4 2\n4 3 2 1 2\n" END);
        double k = wins[count - 1] + 1;
        check_terms(text, MD_TERM_IMPROPER, 2,
                    (struct expected[]){{{0, 1, 2, 3}, {0, k}}, {{3, 2, 1, 0}, {0, k}}});
    }
}

static void test_two_types_stand_for_the_inner_or_outer_ones(void **state)
{
    (void)state;
    check_terms(FIELD("no") "[ dihedraltypes ]\nA C 1 0 7 3\nC B 1 0 5 3\n" CHAIN
                            "[ dihedrals ]\n1 2 3 4 1\n" END,
                MD_TERM_DIHEDRAL, 1, (struct expected[]){{{0, 1, 2, 3}, {0, 5, 3}}});
    check_terms(FIELD("no") "[ dihedraltypes ]\nB C 2 0 7\nD A 2 0 5\n" CHAIN
                            "[ dihedrals ]\n1 2 3 4 2\n" END,
                MD_TERM_IMPROPER, 1, (struct expected[]){{{0, 1, 2, 3}, {0, 5}}});
}

static void test_lines_of_type_9_for_the_same_types_are_all_used(void **state)
{
    (void)state;
#define NINE "[ dihedraltypes ]\nA B C D 9 0 1 1\nA B C D 9 0 2 2\nA B C D 9 0 1 1\n"
    check_terms(FIELD("no") NINE "X B C X 9 0 9 9\n" CHAIN "[ dihedrals ]\n4 3 2 1 9\n1 2 3 4 1\n"
                                 "1 2 3 4 9 90 4 4\n" END,
                MD_TERM_DIHEDRAL, 5,
                (struct expected[]){{{3, 2, 1, 0}, {0, 1, 1}},
                                    {{3, 2, 1, 0}, {0, 2, 2}},
                                    {{0, 1, 2, 3}, {0, 1, 1}},
                                    {{0, 1, 2, 3}, {0, 2, 2}},
                                    {{0, 1, 2, 3}, {90 * DEGREE, 4, 4}}});
    // Apart, or the other way round, they are a second definition.
    refuse(-EINVAL,
           FIELD("no") NINE "X B C X 9 0 9 9\nA B C D 9 0 3 3\n" CHAIN
                            "[ dihedrals ]\n1 2 3 4 9\n" END,
           "test.top:14: Proper Dih. parameters are defined again");
    refuse(-EINVAL, FIELD("no") NINE "D C B A 9 0 3 3\n" CHAIN "[ dihedrals ]\n1 2 3 4 9\n" END,
           "the first definition is at test.top:10, and test.top:23 uses it for A-B-C-D (atoms "
           "1-2-3-4) of 'M'");
}

static void test_contradicting_parameters_count_only_when_used(void **state)
{
    (void)state;
#define TWICE "[ bondtypes ]\nA B 1 0.1 1\nB C 1 0.1 1\nB C 1 0.1 1\nB A 1 0.1 2\n"
    check_terms(FIELD("no") TWICE CHAIN "[ bonds ]\n2 3\n" END, MD_TERM_BOND, 1,
                (struct expected[]){{{1, 2}, {0.1, 1}}});
    refuse(-EINVAL, FIELD("no") TWICE CHAIN "[ bonds ]\n1 2\n" END,
           "test.top:13: Bond parameters are defined again");
}

static void test_macros_give_parameters(void **state)
{
    (void)state;
    check_terms(FIELD("no") "#define ring 180 4.5 2\n#define RB 1 2 3 4 5 6\n" CHAIN
                            "[ dihedrals ]\n1 2 3 4 4 ring\n" END,
                MD_TERM_PERIODIC_IMPROPER, 1,
                (struct expected[]){{{0, 1, 2, 3}, {180 * DEGREE, 4.5, 2}}});
    refuse(-EINVAL, FIELD("no") CHAIN "[ constraints ]\n1 2 1 length\n" END,
           "found 'length', which no #define names");
}

static void test_missing_parameters_name_types_and_atoms(void **state)
{
    (void)state;
    refuse(-EINVAL, FIELD("no") "[ bondtypes ]\nA B 1 0.1 1\n" CHAIN "[ bonds ]\n1 2\n2 3\n" END,
           "test.top:21: No default Bond types for B-C (atoms 2-3) of 'M'");
    refuse(-EINVAL, FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 5 3\n" END,
           "test.top:18: No default Ryckaert-Bell. types for A-B-C-A (atoms 1-2-3-5)");
    // Without wildcards for Fourier dihedrals, and none for angles.
    refuse(-EINVAL,
           FIELD("no") "[ dihedraltypes ]\nX B C X 5 1 2 3 4\n" CHAIN
                       "[ dihedrals ]\n1 2 3 4 5\n" END,
           "No default Fourier Dih. types");
    // A molecule that is not there may lack what it likes.
    struct md_topology *topology =
        must_read(FIELD("no") CHAIN "[ bonds ]\n1 2\n[ moleculetype ]\nN 0\n[ atoms ]\n"
                                    "1 b 1 N N 1\n" TAIL "N 1\n");
    md_topology_free(topology);
}

static void test_terms_name_atoms_of_their_molecule_once(void **state)
{
    (void)state;
    refuse(-EINVAL, FIELD("no") CHAIN "[ bonds ]\n1 6 1 1 1\n" END,
           "test.top:18: [ bonds ] names atom 6, but 'M' has 5 atoms");
    refuse(-EINVAL, FIELD("no") CHAIN "[ dihedrals ]\n1 2 3 1 1 1 1 1\n" END,
           "test.top:18: [ dihedrals ] names atom 1 twice");
}

static void test_a_urey_bradley_constant_is_refused(void **state)
{
    (void)state;
    refuse(-ENOTSUP, FIELD("no") CHAIN "[ angles ]\n1 2 3 5 109 300 0.2 5\n" END,
           "test.top:18: [ angles ] function type 5 of 'M' has a Urey-Bradley constant of 5");
}

// ---- 1-4 pairs

static void test_pairs_are_generated_where_no_pairtypes_give_them(void **state)
{
    (void)state;
    // Of a1 and a2: c6 = 2e-3, c12 = 2e-6 by the rule, 0.5 of it for pairs; charges 0.5, -0.25.
    check_terms(FIELD("yes") "[ pairtypes ]\nb a1 1 5e-3 6e-6\n" CHAIN
                             "[ pairs ]\n1 5 1\n1 2\n1 5 1 7e-3 8e-6 1 1\n" END,
                MD_TERM_PAIR, 3,
                (struct expected[]){{{0, 4}, {1e-3, 1e-6, -0.03125}},
                                    {{0, 1}, {5e-3, 6e-6, 0}},
                                    {{0, 4}, {7e-3, 8e-6, -0.03125}}});
    refuse(-EINVAL, FIELD("no") "[ pairtypes ]\nb a1 1 5e-3 6e-6\n" CHAIN "[ pairs ]\n1 5\n" END,
           "test.top:20: No default LJ-14 types for a1-a2 (atoms 1-5)");
}

static void test_pairs_are_generated_from_explicit_parameters(void **state)
{
    (void)state;
    check_terms(FIELD("y") "[ nonbond_params ]\na2 a1 1 8e-3 6e-6\n" CHAIN "[ pairs ]\n1 5\n" END,
                MD_TERM_PAIR, 1, (struct expected[]){{{0, 4}, {4e-3, 3e-6, -0.03125}}});
}

static void test_pairs_follow_the_combination_rule(void **state)
{
    (void)state;
#define SIGMA(rule)                                                                                \
    "[ defaults ]\n1 " rule " yes 0.5 1\n[ atomtypes ]\nP 1 0 A 0.2 0.4\nQ 1 0 A 0.8 0.9\n"        \
    "[ moleculetype ]\nM 0\n[ atoms ]\n1 P 1 M P 1\n2 Q 1 M Q 1\n"
    check_terms(SIGMA("2") "[ pairs ]\n1 2\n1 2 1 0.5 2\n" END, MD_TERM_PAIR, 2,
                (struct expected[]){{{0, 1}, {1.2 * pow(0.5, 6), 1.2 * pow(0.5, 12)}},
                                    {{0, 1}, {8 * pow(0.5, 6), 8 * pow(0.5, 12)}}});
    check_terms(SIGMA("3") "[ pairs ]\n2 1\n" END, MD_TERM_PAIR, 1,
                (struct expected[]){{{1, 0}, {1.2 * pow(0.4, 6), 1.2 * pow(0.4, 12)}}});
}

static void test_pairs_of_type_2_bring_their_charges(void **state)
{
    (void)state;
    check_terms(FIELD("yes") CHAIN "[ pairs ]\n1 5 2 0.5 0.25 -8 1e-3 2e-6\n" END, MD_TERM_PAIR, 1,
                (struct expected[]){{{0, 4}, {1e-3, 2e-6, -1}}});
    refuse(-EINVAL, FIELD("yes") CHAIN "[ pairs ]\n1 5 2\n" END,
           "test.top:18: LJC-14 q: 0 parameters after the function type; expected 5");
}

static void test_contradicting_pairtypes_count_only_when_used(void **state)
{
    (void)state;
#define PAIRS "[ pairtypes ]\na1 b 1 1 1\nb a1 1 1 2\n"
    check_terms(FIELD("yes") PAIRS CHAIN "[ pairs ]\n1 5\n" END, MD_TERM_PAIR, 1,
                (struct expected[]){{{0, 4}, {1e-3, 1e-6, -0.03125}}});
    refuse(-EINVAL, FIELD("yes") PAIRS CHAIN "[ pairs ]\n1 2\n" END,
           "test.top:11: [ pairtypes ] changes the pair a1 and b of test.top:10");
}

// ---- rigid bonds

#define BONDS "[ bonds ]\n1 2 1 0.1 1\n1 3 1 0.2 1\n3 4 1 0.3 1\n3 5 1 0.4 1\n"

static void check_rigid(const char *text, enum md_bonds_rigid rigid, int bonds, int constraints,
                        const double *lengths_nm)
{
    struct md_topology *topology = must_read(text);
    assert_int_equal(md_topology_constrain(topology, rigid), 0);
    const struct md_molecule_type *type = &topology->molecule_types[0];
    assert_int_equal(type->term_start[MD_TERM_BOND + 1], bonds);
    assert_int_equal(type->constraint_count, constraints);
    for (int i = 0; i < constraints; i++)
        near(type->constraints[i].length_nm, lengths_nm[i]);
    // The angle has moved up, and its exclusions stay.
    assert_int_equal(type->term_start[MD_TERM_KINDS], bonds + 1);
    near(type->terms[type->term_start[MD_TERM_ANGLE]].parameter[1], 77);
    md_topology_free(topology);
}

static void test_bonds_become_constraints(void **state)
{
    (void)state;
    // Atoms named hy and H4 are hydrogens, 5H is none.
    static const char text[] =
        FIELD("no") CHAIN BONDS "[ constraints ]\n4 5 2 0.9\n[ angles ]\n1 2 3 1 90 77\n" END;
    check_rigid(text, MD_RIGID_NONE, 4, 1, (const double[]){0.9});
    check_rigid(text, MD_RIGID_H_BONDS, 2, 3, (const double[]){0.9, 0.1, 0.3});
    check_rigid(text, MD_RIGID_ALL_BONDS, 0, 5, (const double[]){0.9, 0.1, 0.2, 0.3, 0.4});
}

static void test_rigid_bonds_need_a_length(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(FIELD("no") CHAIN "[ bonds ]\n1 2 1 0 1\n" END);
    assert_int_equal(md_topology_constrain(topology, MD_RIGID_H_BONDS), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "'M': the bond of atoms 1 and 2"));
    md_topology_free(topology);
}

static void test_constraints_keep_off_rigid_waters(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(
        HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 AR 1 M A 1\n2 OW 1 M O 1\n3 HW 1 M H 1\n"
             "4 HW 1 M H 1\n[ settles ]\n2 1 0.1 0.16\n[ bonds ]\n1 3 1 0.1 1\n" END);
    assert_int_equal(md_topology_constrain(topology, MD_RIGID_H_BONDS), -ENOTSUP);
    assert_non_null(strstr(leat_error_detail(), "atoms 1 and 3"));
    md_topology_free(topology);
    topology = must_read(HEAD WATER TAIL "SOL 1\n");
    assert_int_equal(md_topology_constrain(topology, MD_RIGID_ALL_BONDS), 0);
    assert_int_equal(topology->molecule_types[0].settle_count, 1);
    assert_int_equal(topology->molecule_types[0].constraint_count, 0);
    md_topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bonds_angles_and_impropers_are_harmonic),
        cmocka_unit_test(test_periodic_dihedrals_keep_their_multiplicity),
        cmocka_unit_test(test_fourier_dihedrals_become_powers_of_the_cosine),
        cmocka_unit_test(test_terms_without_a_force_are_left_out),
        cmocka_unit_test(test_constraints_count_for_exclusions_unless_of_type_2),
        cmocka_unit_test(test_exclusions_go_nrexcl_bonds_far),
        cmocka_unit_test(test_parameters_are_found_in_either_order_of_types),
        cmocka_unit_test(test_the_fewest_wildcards_win_and_then_the_first_line),
        cmocka_unit_test(test_two_types_stand_for_the_inner_or_outer_ones),
        cmocka_unit_test(test_lines_of_type_9_for_the_same_types_are_all_used),
        cmocka_unit_test(test_contradicting_parameters_count_only_when_used),
        cmocka_unit_test(test_macros_give_parameters),
        cmocka_unit_test(test_missing_parameters_name_types_and_atoms),
        cmocka_unit_test(test_terms_name_atoms_of_their_molecule_once),
        cmocka_unit_test(test_a_urey_bradley_constant_is_refused),
        cmocka_unit_test(test_pairs_are_generated_where_no_pairtypes_give_them),
        cmocka_unit_test(test_pairs_are_generated_from_explicit_parameters),
        cmocka_unit_test(test_pairs_follow_the_combination_rule),
        cmocka_unit_test(test_pairs_of_type_2_bring_their_charges),
        cmocka_unit_test(test_contradicting_pairtypes_count_only_when_used),
        cmocka_unit_test(test_bonds_become_constraints),
        cmocka_unit_test(test_rigid_bonds_need_a_length),
        cmocka_unit_test(test_constraints_keep_off_rigid_waters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
