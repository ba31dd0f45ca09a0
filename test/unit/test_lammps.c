// SPDX-License-Identifier: Apache-2.0
// Reader of LAMMPS data files: sections, units, molecules, exclusions, and what it refuses.
//
// Advantage: files of a few lines, made here, each with one trait. Disadvantage: whether a term is
// what LAMMPS means by it, only LAMMPS can say (peer tests).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"
#include "md/lammps.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BOX    "0 20 xlo xhi\n0 20 ylo yhi\n0 20 zlo zhi\n"
#define MASSES "Masses\n\n1 12\n2 1.5\n\n"
#define PAIRS  "Pair Coeffs\n\n1 0.25 3\n2 0.04 1.92\n\n"
#define ATOMS2 "title\n2 atoms\n2 atom types\n" BOX
// A chain of four with one of everything.
#define CHAIN                                                                                      \
    "title\n4 atoms\n3 bonds\n2 angles\n1 dihedrals\n1 impropers\n2 atom types\n1 bond types\n"    \
    "1 angle types\n1 dihedral types\n1 improper types\n" BOX MASSES PAIRS                         \
    "Bond Coeffs\n\n1 100 1.5\n\nAngle Coeffs # harmonic\n\n1 50 90\n\n"                           \
    "Dihedral Coeffs\n\n1 2 -1 3\n\nImproper Coeffs\n\n1 7 180\n\n"                                \
    "Atoms # full\n\n1 1 1 0.5 1 1 1\n2 1 1 0 2.5 1 1\n3 1 1 0 2.5 2.5 1\n4 1 2 -0.5 4 2.5 1\n\n"  \
    "Bonds\n\n1 1 1 2\n2 1 3 2\n3 1 3 4\n\nAngles\n\n1 1 3 2 1\n2 1 2 3 4\n\n"                     \
    "Dihedrals\n\n1 1 4 3 2 1\n\nImpropers\n\n1 1 1 2 3 4\n"

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-12 * fmax(1.0, fabs(wanted))))
        fail_msg("%.17g, expected %.17g", value, wanted);
}

static struct md_lammps settings(enum md_unit_style units)
{
    struct md_lammps lammps;
    md_lammps_begin(&lammps);
    lammps.units = units;
    lammps.coulomb = true;
    lammps.cutoff = 9.0;
    return lammps;
}

static int read_with(const struct md_lammps *lammps, const char *text,
                     struct md_lammps_input *input)
{
    memset(input, 0x5a, sizeof *input);
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    int error = md_lammps_read_stream(stream, "test.data", lammps, input);
    fclose(stream);
    return error;
}

static struct md_lammps_input must_read(const struct md_lammps *lammps, const char *text)
{
    struct md_lammps_input input;
    int error = read_with(lammps, text, &input);
    if (error)
        fail_msg("%d: %s", error, leat_error_detail());
    return input;
}

static void must_refuse(const struct md_lammps *lammps, const char *text, int wanted,
                        const char *words)
{
    struct md_lammps_input input;
    int error = read_with(lammps, text, &input);
    if (error != wanted || !strstr(leat_error_detail(), words))
        fail_msg("%d '%s', expected %d '%s'", error, error ? leat_error_detail() : "", wanted,
                 words);
    assert_null(input.topology);
    assert_null(input.gro);
    assert_null(input.number);
}

// ---- what is read

static void test_atoms_are_put_in_order_and_the_origin_is_the_box_corner(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    struct md_lammps_input input = must_read(
        &lammps, "\n# a comment\n2 atoms\n2 atom types\n-1 4 xlo xhi\n2 8 ylo yhi # here\n"
                 "0 7 zlo zhi\n\n" MASSES PAIRS "Atoms # atomic\n\n2 2 0 3 1\n\n1 1 1 4 2\n"
                 "Velocities\n\n2 1 2 3\n1 4 5 6\n");
    const double x[] = {2, 2, 2, 1, 1, 1}, v[] = {4, 5, 6, 1, 2, 3}, edge[] = {5, 6, 7};
    for (int i = 0; i < 6; i++) {
        near(input.gro->x_nm[i], x[i]);
        near(input.gro->v_nm_ps[i], v[i]);
    }
    for (int d = 0; d < 3; d++)
        near(input.gro->box_nm[d][d], edge[d]);
    assert_true(input.gro->has_velocities);
    assert_null(input.number);
    assert_int_equal(input.topology->molecule_count, 2);
    assert_int_equal(input.topology->molecule_type_count, 2);
    near(input.topology->molecule_types[1].atoms[0].mass_u, 1.5);
    assert_string_equal(input.gro->labels[1].atom_name, "2");
    md_lammps_input_free(&input);
}

static void test_real_units_become_nanometres_and_kilojoules(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_REAL);
    struct md_lammps_input input = must_read(
        &lammps, ATOMS2 MASSES PAIRS "Atoms # charge\n\n1 1 0.5 1 2 3\n2 1 -0.5 5 6 7 0 0 -1\n"
                                     "Velocities\n\n1 0.01 0 0\n2 0 0 0\n");
    near(input.gro->x_nm[2], 0.3);
    near(input.gro->v_nm_ps[0], 1.0);
    near(input.gro->box_nm[1][1], 2.0);
    near(input.topology->c6[0], 4 * 0.25 * 4.184 * pow(0.3, 6));
    near(input.topology->c12[0], 4 * 0.25 * 4.184 * pow(0.3, 12));
    near(input.topology->molecule_types[0].atoms[0].charge_e, 0.5);
    md_lammps_input_free(&input);
}

static void test_charges_count_only_where_the_pair_style_has_them(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_REAL);
    lammps.coulomb = false;
    struct md_lammps_input input =
        must_read(&lammps, ATOMS2 MASSES PAIRS "Atoms # charge\n\n1 1 0.5 1 2 3\n2 1 -0.5 5 6 7\n");
    near(input.topology->molecule_types[0].atoms[0].charge_e, 0.0);
    md_lammps_input_free(&input);
}

static void test_tilts_are_rows_of_the_box_and_reduced(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    struct md_lammps_input input =
        must_read(&lammps, ATOMS2 "3 -12 4 xy xz yz\n" MASSES PAIRS
                                  "Atoms # atomic\n\n1 1 1 2 3\n2 1 5 6 7\n");
    near(input.gro->box_nm[1][0], 3);
    near(input.gro->box_nm[2][0], 8);
    near(input.gro->box_nm[2][1], 4);
    md_lammps_input_free(&input);
}

static void test_the_atom_style_is_the_comments_or_the_options(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    const char *bare = ATOMS2 MASSES PAIRS "Atoms\n\n1 7 1 1 2 3\n2 7 1 4 5 6\n";
    must_refuse(&lammps, bare, -EINVAL, "test.data:17: no comment");
    lammps.atom_style = "molecular";
    struct md_lammps_input input = must_read(&lammps, bare);
    near(input.gro->x_nm[3], 4);
    assert_int_equal(input.gro->labels[0].residue, 7);
    md_lammps_input_free(&input);
    must_refuse(&lammps, ATOMS2 MASSES "Atoms # full\n\n", -EINVAL, "test.data:12: the comment");
    lammps.atom_style = NULL;
    must_refuse(&lammps, ATOMS2 MASSES "Atoms # dipole\n\n", -ENOTSUP, "style 'dipole'");
}

static void test_pairs_are_mixed_given_or_asked_for(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    const char *text = ATOMS2 MASSES PAIRS "Atoms # atomic\n\n1 1 1 2 3\n2 2 4 5 6\n";
    struct md_lammps_input input = must_read(&lammps, text);
    near(input.topology->c6[1], 4 * 0.1 * pow(2.4, 6));
    md_lammps_input_free(&input);
    lammps.arithmetic = true;
    input = must_read(&lammps, text);
    near(input.topology->c6[2], 4 * 0.1 * pow(2.46, 6));
    md_lammps_input_free(&input);
    assert_int_equal(md_lammps_pair_coeff(&lammps, "2,1,3,2"), 0);
    input = must_read(&lammps, text);
    near(input.topology->c6[1], 4 * 3 * pow(2, 6));
    md_lammps_input_free(&input);
    md_lammps_end(&lammps);
    lammps = settings(MD_UNITS_LJ);
    input =
        must_read(&lammps, ATOMS2 MASSES "PairIJ Coeffs # lj/cut\n\n1 1 1 1\n1 2 2 1 9\n2 2 3 1\n"
                                         "Atoms # atomic\n\n1 1 1 2 3\n2 2 4 5 6\n");
    near(input.topology->c12[1], 8);
    near(input.topology->c12[3], 12);
    md_lammps_input_free(&input);
}

static void test_the_only_type_of_reduced_units_is_their_unit(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    const char *text = "title\n1 atoms\n1 atom types\n" BOX "Masses\n\n1 1\n\n"
                       "Atoms # atomic\n\n1 1 1 2 3\n";
    struct md_lammps_input input = must_read(&lammps, text);
    assert_true(input.reduced);
    near(input.topology->c6[0], 4);
    near(input.topology->c12[0], 4);
    md_lammps_input_free(&input);
    lammps = settings(MD_UNITS_REAL);
    must_refuse(&lammps, text, -EINVAL, "atom type 1 has no epsilon");
}

// ---- molecules

static void test_terms_have_the_drivers_parameters(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_REAL);
    struct md_lammps_input input = must_read(&lammps, CHAIN);
    assert_int_equal(input.topology->molecule_count, 1);
    const struct md_molecule_type *type = &input.topology->molecule_types[0];
    const int start[] = {0, 3, 5, 6, 6, 7, 7, 7};
    const double kcal = 4.184, radians = 3.14159265358979323846 / 180;
    assert_memory_equal(type->term_start, start, sizeof start);
    near(type->terms[0].parameter[0], 0.15);
    near(type->terms[0].parameter[1], 2 * 100 * kcal * 100);
    near(type->terms[3].parameter[0], 90 * radians);
    near(type->terms[3].parameter[1], 2 * 50 * kcal);
    near(type->terms[5].parameter[0], 180 * radians);
    near(type->terms[5].parameter[1], 2 * kcal);
    near(type->terms[5].parameter[2], 3);
    near(type->terms[6].parameter[0], 180 * radians);
    near(type->terms[6].parameter[1], 2 * 7 * kcal);
    near(type->terms[6].parameter[2], 1);
    const int angle[] = {0, 1, 2, 0}, dihedral[] = {0, 1, 2, 3};
    assert_memory_equal(type->terms[3].atom, angle, sizeof angle);
    assert_memory_equal(type->terms[5].atom, dihedral, sizeof dihedral);
    md_lammps_input_free(&input);
}

static int excluded_pairs(const struct md_lammps *lammps, double pair[3], int *terms)
{
    struct md_lammps_input input = must_read(lammps, CHAIN);
    const struct md_molecule_type *type = &input.topology->molecule_types[0];
    int count = type->exclusion_start[4] / 2;
    *terms = type->term_start[MD_TERM_PAIR + 1] - type->term_start[MD_TERM_PAIR];
    if (*terms)
        memcpy(pair, type->terms[type->term_start[MD_TERM_PAIR]].parameter, 3 * sizeof *pair);
    md_lammps_input_free(&input);
    return count;
}

static void test_special_bonds_exclude_and_scale(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    double pair[3];
    int terms;
    assert_int_equal(excluded_pairs(&lammps, pair, &terms), 6);
    assert_int_equal(terms, 0);
    assert_int_equal(md_lammps_special(&lammps, "lj/coul:0,1,1"), 0);
    assert_int_equal(excluded_pairs(&lammps, pair, &terms), 3);
    assert_int_equal(md_lammps_special(&lammps, "lj/coul:0,0,1"), 0);
    assert_int_equal(excluded_pairs(&lammps, pair, &terms), 5);
    assert_int_equal(terms, 0);
    assert_int_equal(md_lammps_special(&lammps, "coul:0,0,0.8"), 0);
    assert_int_equal(md_lammps_special(&lammps, "lj:0,0,0.5"), 0);
    assert_int_equal(excluded_pairs(&lammps, pair, &terms), 6);
    assert_int_equal(terms, 1);
    near(pair[0], 0.5 * 4 * 0.1 * pow(2.4, 6));
    near(pair[1], 0.5 * 4 * 0.1 * pow(2.4, 12));
    near(pair[2], 0.8 * 0.5 * -0.5);
}

#define DIMERS                                                                                     \
    "title\n4 atoms\n2 bonds\n2 atom types\n1 bond types\n" BOX MASSES PAIRS                       \
    "Bond Coeffs\n\n1 1 1\n\nAtoms # bond\n\n"
#define BONDS "Bonds\n\n1 1 3 1\n2 1 2 4\n"

static void test_interleaved_molecules_are_one_kind_with_a_table_of_ids(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    struct md_lammps_input input =
        must_read(&lammps, DIMERS "4 2 2 4 0 0\n3 1 2 3 0 0\n2 2 1 2 0 0\n1 1 1 1 0 0\n" BONDS);
    const int64_t number[] = {0, 2, 1, 3};
    const double x[] = {1, 3, 2, 4};
    assert_int_equal(input.topology->molecule_type_count, 1);
    assert_int_equal(input.topology->block_count, 1);
    assert_int_equal(input.topology->blocks[0].count, 2);
    assert_non_null(input.number);
    assert_memory_equal(input.number, number, sizeof number);
    for (int i = 0; i < 4; i++)
        near(input.gro->x_nm[3 * i], x[i]);
    // Labels stay in the order of the ids.
    assert_int_equal(input.gro->labels[1].residue, 2);
    md_lammps_input_free(&input);
}

static void test_molecules_that_differ_are_different_kinds(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    struct md_lammps_input input =
        must_read(&lammps, DIMERS "1 1 1 1 0 0\n2 2 1 2 0 0\n3 1 2 3 0 0\n4 2 1 4 0 0\n" BONDS);
    assert_int_equal(input.topology->molecule_type_count, 2);
    assert_int_equal(input.topology->block_count, 2);
    md_lammps_input_free(&input);
}

static void test_molecules_are_put_together_along_their_bonds(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    // Image flags that say nothing of it, as after a file was edited.
    struct md_lammps_input input =
        must_read(&lammps, DIMERS "1 1 1 19.5 1 1 0 0 0\n3 1 2 0.5 19 1 0 0 0\n"
                                  "2 2 1 1 1 0.5 7 0 0\n4 2 2 1 1 19.5 0 0 0\n" BONDS);
    near(input.gro->x_nm[3], 20.5);
    near(input.gro->x_nm[4], -1);
    near(input.gro->x_nm[11], -0.5);
    md_lammps_input_free(&input);
}

static void test_a_molecule_bonded_to_its_image_is_refused(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    must_refuse(&lammps,
                "title\n3 atoms\n3 bonds\n2 atom types\n1 bond types\n" BOX MASSES PAIRS
                "Bond Coeffs\n\n1 1 1\n\nAtoms # bond\n\n1 1 1 3 0 0\n2 1 1 10 0 0\n3 1 1 16 0 0\n"
                "Bonds\n\n1 1 1 2\n2 1 2 3\n3 1 3 1\n",
                -ENOTSUP, "test.data:31: atoms 2 and 3 of a bond are half a box apart");
}

// ---- what is refused

static void test_counts_that_do_not_fit_are_told(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    const char *atoms = "Atoms # atomic\n\n1 1 1 2 3\n";
    char text[1024];
    snprintf(text, sizeof text, "%s%s", ATOMS2 MASSES PAIRS, atoms);
    must_refuse(&lammps, text, -EINVAL, "section Atoms ends after 1 of the 2 lines that line 2");
    snprintf(text, sizeof text, "%s%s2 1 4 5 6\n3 1 1 1 1\n", ATOMS2 MASSES PAIRS, atoms);
    must_refuse(&lammps, text, -EINVAL, "section Atoms goes on after the 2 lines");
}

static void test_texts_that_are_wrong_are_refused_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int error;
        const char *words;
    } rows[] = {
        {"", -EINVAL, "has no atoms"},
        {"title\n2 atom types\n" BOX MASSES, -EINVAL, "has no atoms"},
        {"title\n2 atoms\n2 atoms\n", -EINVAL, "test.data:3: the number of atoms"},
        {"title\n-2 atoms\n", -EINVAL, "test.data:2: '-2' atoms"},
        {"title\n2 atoms\n7 dwarfs\n", -EINVAL, "test.data:3: no line of a header"},
        {"title\n2 atoms\n1 bodies\n", -ENOTSUP, "test.data:3: bodies"},
        {"title\n2 atoms\n5 5 xlo xhi\n", -EINVAL, "test.data:3: xlo"},
        {"title\n2 atoms\n0 1 xlo xhi\n0 1 ylo yhi\n", -EINVAL, "'LO HI zlo zhi'"},
        {ATOMS2 "Atom\n", -EINVAL, "test.data:7: no section is called 'Atom'"},
        {ATOMS2 "Bodies\n", -ENOTSUP, "test.data:7: section Bodies"},
        {ATOMS2 MASSES MASSES, -EINVAL, "test.data:12: section Masses stands already in line 7"},
        {ATOMS2 MASSES "3 4\n", -EINVAL, "test.data:12: section Masses goes on after the 2"},
        {ATOMS2 "Masses\n\n1 0\n", -EINVAL, "test.data:9: a mass of 0"},
        {ATOMS2 "Masses\n\n3 1\n", -EINVAL, "test.data:9: the atom type is '3'"},
        {ATOMS2 MASSES PAIRS, -EINVAL, "has no section Atoms"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 0\n", -EINVAL, "test.data:9: 4 columns"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 0 0 1\n", -EINVAL, "test.data:9: 6 columns"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 0 0 1 1 x\n", -EINVAL, "test.data:9: image flag 'x'"},
        {ATOMS2 "Atoms # atomic\n\n1 C 0 0 0\n", -EINVAL, "test.data:9: the atom type is 'C'"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 nan 0\n", -EINVAL, "test.data:9: a coordinate is 'nan'"},
        {ATOMS2 "Atoms # atomic\n\n3 1 0 0 0\n", -ENOTSUP, "test.data:9: atom id 3"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 0 0\n1 1 1 1 1\n", -EINVAL,
         "test.data:10: atom 1 stands already in line 9"},
        {ATOMS2 "Atoms # atomic\n\n1 1 0 0 0\n2 1 1 1 1\n", -EINVAL,
         "test.data:9: atom type 1 has no mass"},
        {ATOMS2 MASSES "Atoms # atomic\n\n1 1 0 0 0\n2 1 1 1 1\n", -EINVAL,
         "atom type 1 has no epsilon"},
        {ATOMS2 "Pair Coeffs # buck\n", -ENOTSUP, "test.data:7: Pair Coeffs of style 'buck'"},
        {ATOMS2 "Pair Coeffs\n\n1 1 1 8\n", -ENOTSUP, "test.data:9: a cut-off of 8"},
        {ATOMS2 "Pair Coeffs\n\n1 -1 1\n", -EINVAL, "test.data:9: epsilon is -1"},
    };
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        must_refuse(&lammps, rows[i].text, rows[i].error, rows[i].words);
}

// CHAIN with one line replaced.
static void must_refuse_chain(const char *line, const char *other, int error, const char *words)
{
    struct md_lammps lammps = settings(MD_UNITS_REAL);
    char text[2048];
    const char *at = strstr(CHAIN, line);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - CHAIN), CHAIN, other, at + strlen(line));
    must_refuse(&lammps, text, error, words);
}

static void test_terms_that_are_wrong_are_refused_with_their_line(void **state)
{
    (void)state;
    must_refuse_chain("1 1 1 2\n", "1 1 1 1\n", -EINVAL, "test.data:50: a bond has atom 1 twice");
    must_refuse_chain("1 1 1 2\n", "1 2 1 2\n", -EINVAL, "test.data:50: its type is '2'");
    must_refuse_chain("1 1 1 2\n", "1 1 1 9\n", -ENOTSUP, "test.data:50: atom id 9");
    must_refuse_chain("1 2 -1 3\n", "1 2 0.5 3\n", -EINVAL, "test.data:35: d is '0.5'");
    must_refuse_chain("1 2 -1 3\n", "1 2 -1 3.5\n", -EINVAL, "test.data:35: n is '3.5'");
    must_refuse_chain("1 7 180\n", "1 7 -35\n", -EINVAL,
                      "test.data:39: an improper at rest at -35");
    must_refuse_chain("1 50 90\n", "1 50\n", -EINVAL, "test.data:31: 2 columns; expected 3");
    must_refuse_chain("# harmonic", "# charmm", -ENOTSUP, "test.data:29: Angle Coeffs of style");
    must_refuse_chain("Bond Coeffs\n\n1 100 1.5\n", "", -EINVAL,
                      "test.data:47: bond type 1 has no coefficients");
    must_refuse_chain("Impropers\n\n1 1 1 2 3 4\n", "", -EINVAL, "has no section Impropers");
}

static void test_a_zero_byte_is_no_text(void **state)
{
    (void)state;
    struct md_lammps lammps = settings(MD_UNITS_LJ);
    struct md_lammps_input input;
    static const char text[] = "title\n2 at\0oms\n";
    FILE *stream = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
    assert_non_null(stream);
    assert_int_equal(md_lammps_read_stream(stream, "test.data", &lammps, &input), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "test.data:2: a zero byte"));
    fclose(stream);
}

// ---- the command line

static void test_options_are_read_or_refused(void **state)
{
    (void)state;
    struct md_lammps lammps;
    md_lammps_begin(&lammps);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut/coul/cut:8.5,8.5"), 0);
    assert_true(lammps.coulomb);
    near(lammps.cutoff, 8.5);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut:2.5"), 0);
    assert_false(lammps.coulomb);
    near(lammps.cutoff, 2.5);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut/coul/cut:8,9"), -ENOTSUP);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut/coul/long:8"), -ENOTSUP);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut:"), -EINVAL);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut:0"), -EINVAL);
    assert_int_equal(md_lammps_pair(&lammps, "lj/cut:1,2"), -EINVAL);
    assert_int_equal(md_lammps_pair_coeff(&lammps, "1,2,0.5,3"), 0);
    assert_int_equal(lammps.coeff_count, 1);
    assert_int_equal(md_lammps_pair_coeff(&lammps, "1,2,0.5"), -EINVAL);
    assert_int_equal(md_lammps_pair_coeff(&lammps, "1.5,2,0.5,3"), -EINVAL);
    assert_int_equal(md_lammps_pair_coeff(&lammps, "0,2,0.5,3"), -EINVAL);
    assert_int_equal(md_lammps_special(&lammps, "lj:0,0"), -EINVAL);
    assert_int_equal(md_lammps_special(&lammps, "amber"), -EINVAL);
    assert_int_equal(md_lammps_special(&lammps, "lj:0,0,2"), -EINVAL);
    assert_int_equal(md_lammps_special(&lammps, "lj:0,0,0.5"), 0);
    assert_int_equal(md_lammps_check_special(&lammps), 0);
    assert_int_equal(md_lammps_special(&lammps, "lj:0,0.5,1"), 0);
    assert_int_equal(md_lammps_check_special(&lammps), -ENOTSUP);
    assert_int_equal(md_lammps_special(&lammps, "lj:1,0,1"), 0);
    assert_int_equal(md_lammps_check_special(&lammps), -ENOTSUP);
    md_lammps_end(&lammps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_atoms_are_put_in_order_and_the_origin_is_the_box_corner),
        cmocka_unit_test(test_real_units_become_nanometres_and_kilojoules),
        cmocka_unit_test(test_charges_count_only_where_the_pair_style_has_them),
        cmocka_unit_test(test_tilts_are_rows_of_the_box_and_reduced),
        cmocka_unit_test(test_the_atom_style_is_the_comments_or_the_options),
        cmocka_unit_test(test_pairs_are_mixed_given_or_asked_for),
        cmocka_unit_test(test_the_only_type_of_reduced_units_is_their_unit),
        cmocka_unit_test(test_terms_have_the_drivers_parameters),
        cmocka_unit_test(test_special_bonds_exclude_and_scale),
        cmocka_unit_test(test_interleaved_molecules_are_one_kind_with_a_table_of_ids),
        cmocka_unit_test(test_molecules_that_differ_are_different_kinds),
        cmocka_unit_test(test_molecules_are_put_together_along_their_bonds),
        cmocka_unit_test(test_a_molecule_bonded_to_its_image_is_refused),
        cmocka_unit_test(test_counts_that_do_not_fit_are_told),
        cmocka_unit_test(test_texts_that_are_wrong_are_refused_with_their_line),
        cmocka_unit_test(test_terms_that_are_wrong_are_refused_with_their_line),
        cmocka_unit_test(test_a_zero_byte_is_no_text),
        cmocka_unit_test(test_options_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
