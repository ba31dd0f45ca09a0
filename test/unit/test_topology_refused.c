// SPDX-License-Identifier: Apache-2.0
// What the topology reader refuses, where it says the fault lies, and what it lets pass because no
// present molecule needs it.
//
// Advantage: each fault is one line in an otherwise sound text. Disadvantage: line numbers are
// counted by hand.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology_texts.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void test_what_is_lacking_counts_only_when_present(void **state)
{
    (void)state;
    static const char *const sections[] = {
        "[ bonds ]\n1 2 2 0.1 1000",
        "[ pairs ]\n1 2 3",
        "[ pairs_nb ]\n1 2 1 1 1 1 1",
        "[ angles ]\n1 2 3 2 109 300",
        "[ dihedrals ]\n1 2 3 4 8 0 1",
        "[ constraints ]\n1 2 3 0.1",
        "[ polarization ]\n1 2 1 0.1",
        "[ virtual_sites3 ]\n3 1 2 1 1 0.1 0.1",
        "[ position_restraints ]\n1 1 1000 1000 1000",
        "[ cmap ]\n1 2 3 4 5 1",
    };
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        char text[2000], word[80];
        snprintf(text, sizeof text, HEAD WATER "%s\n" ARGON TAIL "Ar 1\nSOL 0\n", sections[i]);
        struct md_topology *topology = must_read(text);
        md_topology_free(topology);
        snprintf(text, sizeof text, HEAD WATER "%s\n" ARGON TAIL "Ar 1\nSOL 2\n", sections[i]);
        snprintf(word, sizeof word, "test.top:17: %.*s", (int)strcspn(sections[i], "\n"),
                 sections[i]);
        refuse(-ENOTSUP, text, word);
        assert_non_null(strstr(leat_error_detail(), "[ molecules ] at test.top:26"));
    }
}

static void test_an_empty_section_lacks_nothing(void **state)
{
    (void)state;
    struct md_topology *topology =
        must_read(HEAD WATER "[ bonds ]\n; none\n[ pairs ]\n" TAIL "SOL 1\n");
    md_topology_free(topology);
}

static void test_particles_without_a_place_of_their_own_are_lacking(void **state)
{
    (void)state;
    refuse(-ENOTSUP, HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 VS 1 M V 1\n" TAIL "M 1\n",
           "test.top:11: particle type V");
}

static void test_force_fields_of_other_forms_are_refused(void **state)
{
    (void)state;
    refuse(-ENOTSUP, "[ defaults ]\n2 1\n", "nbfunc = 2");
    refuse(-EINVAL, "[ defaults ]\n1 4\n", "comb-rule = 4");
    refuse(-EINVAL, "[ defaults ]\n1\n", "test.top:2");
    refuse(-ENOTSUP, "[ defaults ]\n1 1 no 1 1 9\n", "n = 9");
    refuse(-EINVAL, "[ defaults ]\n1 1\n1 1\n", "test.top:3");
    refuse(-ENOTSUP, HEAD WATER TAIL "SOL 1\n[ intermolecular_interactions ]\nx\n",
           "test.top:21: [ intermolecular_interactions ]");
}

static void test_tables_that_nobody_uses_are_skipped(void **state)
{
    (void)state;
    struct md_topology *topology = must_read(
        HEAD "[ bondtypes ]\nany thing 3 here\n[ cmaptypes ]\nnor here\n" WATER TAIL "SOL 1\n");
    md_topology_free(topology);
}

static void test_directives_have_an_order(void **state)
{
    (void)state;
    refuse(-EINVAL, "[ atomtypes ]\n", "test.top:1: [ atomtypes ] comes before any [ defaults ]");
    refuse(-EINVAL, HEAD WATER "[ atomtypes ]\n", "comes after a [ moleculetype ]");
    refuse(-EINVAL, HEAD "[ atoms ]\n", "before any [ moleculetype ]");
    refuse(-EINVAL, HEAD "[ moleculetype ]\n[ atoms ]\n", "without name");
    refuse(-EINVAL, HEAD WATER "[ molecules ]\n", "before any [ system ]");
    refuse(-EINVAL, HEAD WATER TAIL "SOL 1\n[ moleculetype ]\n", "has to be last");
    refuse(-EINVAL, HEAD "[ atom_type ]\n", "nearest known one is [ atomtypes ]");
    refuse(-EINVAL, HEAD "[ moleculetype\n", "expected '[ directive ]'");
    refuse(-EINVAL, HEAD "[ moleculetype ] SOL 2\n", "text after ']'");
}

static void test_malformed_entries_name_their_line(void **state)
{
    (void)state;
    static const char *const entries[][2] = {
        {HEAD "X 1 0 A 1\n", "too few columns"},
        {HEAD "X 1 zero A 1 1\n", "finite numbers"},
        {HEAD "X 1 0 A 1 nan\n", "finite numbers"},
        {HEAD "X 1 0 Q 1 1\n", "particle type 'Q'"},
        {HEAD "1 1 0 A 1 1\n", "no single digit"},
        {HEAD "[ nonbond_params ]\nOW HW 1 1\n", "two finite numbers"},
        {HEAD "[ nonbond_params ]\nOW HW 2 1 1\n", "function type 2"},
        {HEAD "[ nonbond_params ]\nOW XX 1 1 1\n", "'XX' is not defined"},
        {HEAD "[ moleculetype ]\nM\n", "nrexcl"},
        {HEAD "[ moleculetype ]\nM -1\n", "nrexcl"},
        {HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 OW 1 M O\n", "[ atoms ] wants"},
        {HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n2 OW 1 M O 1\n", "expected 1, found 2"},
        {HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 XX 1 M O 1\n", "'XX' is not in"},
        {HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 OW 1 M O 1 q\n", "'q'"},
        {HEAD WATER "[ settles ]\n1 2 0.1 0.1\n", "function type 2"},
        {HEAD WATER "[ settles ]\n1 1 0.1\n", "[ settles ] wants"},
        {HEAD WATER "[ settles ]\n1 1 0.1 0.2\n", "no triangle"},
        {HEAD WATER "[ exclusions ]\n1 0\n", "atom numbers"},
        {HEAD WATER "[ bonds ]\n1 x\n", "2 atom numbers"},
        {HEAD WATER "[ angles ]\n1 2 0\n", "3 atom numbers"},
        {HEAD WATER "[ dihedrals ]\n1 2 3\n", "4 atom numbers"},
        {HEAD WATER "[ pairs ]\n1 2 x\n", "function type"},
        {HEAD WATER "[ bonds ]\n1 2 1 0.1\n", "1 parameters after the function type"},
        {HEAD WATER "[ bonds ]\n1 2 1 0.1 1 0.1\n", "expected 2 or 4"},
        {HEAD WATER "[ bonds ]\n1 2 5 1\n", "expected 0"},
        {HEAD WATER "[ pairs ]\n1 2 2 1\n", "1 parameters"},
        {HEAD WATER "[ bonds ]\n1 2 1 bond_OH\n", "1 parameters"},
        {HEAD WATER "[ constraints ]\n1 2 1 bond_OH\n", "'bond_OH', which no #define names"},
        {HEAD WATER "[ bonds ]\n1 2 1 0.1 1 0.1 x\n", "found 'x'"},
        {HEAD "[ bondtypes ]\nOW HW\n", "2 types"},
        {HEAD "[ bondtypes ]\nOW HW x 1 1\n", "function type"},
        {HEAD "[ bondtypes ]\nOW HW 1\n", "no parameters"},
        {HEAD "[ bondtypes ]\nOW HW 1 1\n", "1 parameters"},
        {HEAD "[ bondtypes ]\nOW XX 1 1 1\n", "bonded type 'XX'"},
        {HEAD "[ bondtypes ]\nOW X 1 1 1\n", "bonded type 'X'"},
        {HEAD "[ pairtypes ]\nOW XX 1 1 1\n", "atom type 'XX'"},
        {HEAD "[ dihedraltypes ]\nOW HW X\n", "4 types"},
        {HEAD WATER "[ moleculetype ]\nSOL 1\n", "defined already at test.top:9"},
    };
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const char *text = entries[i][0];
        int lines = 0;
        for (const char *at = text; *at; at++)
            lines += *at == '\n';
        char word[40];
        snprintf(word, sizeof word, "test.top:%d:", lines);
        refuse(-EINVAL, text, word);
        assert_non_null(strstr(leat_error_detail(), entries[i][1]));
    }
}

static void test_present_molecules_have_to_be_sound(void **state)
{
    (void)state;
    refuse(-EINVAL, HEAD "[ moleculetype ]\nM 1\n" TAIL "M 1\n", "has no atoms");
    refuse(-EINVAL, HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 AR 1 M A 1 0 0\n" TAIL "M 1\n",
           "mass of 0");
    refuse(-EINVAL, HEAD WATER "[ exclusions ]\n1 4\n" TAIL "SOL 1\n",
           "test.top:17: [ exclusions ]");
    refuse(-EINVAL, HEAD WATER "[ bonds ]\n1 4 5\n" TAIL "SOL 1\n",
           "test.top:17: [ bonds ] names atom 4");
    refuse(-EINVAL, HEAD WATER "[ angles ]\n1 2 1\n" TAIL "SOL 1\n",
           "test.top:17: [ angles ] names atom 1 twice");
    refuse(-EINVAL, HEAD WATER "[ settles ]\n2 1 0.1 0.16\n" TAIL "SOL 1\n", "two hydrogens");
    refuse(-EINVAL, HEAD WATER "[ settles ]\n1 1 0.1 0.16\n" TAIL "SOL 1\n", "in two waters");
    refuse(-EINVAL,
           HEAD "[ moleculetype ]\nM 1\n[ atoms ]\n1 OW 1 M O 1\n2 HW 1 M H 1\n3 HW 1 M H 1 0 2\n"
                "[ settles ]\n1 1 0.1 0.16\n" TAIL "M 1\n",
           "equal masses");
}

static void test_rigid_waters_are_of_one_kind(void **state)
{
    (void)state;
    static const char other[] = "[ moleculetype ]\nW 2\n[ atoms ]\n1 OW 1 W O 1\n2 HW 1 W H 1\n"
                                "3 HW 1 W H 1\n[ settles ]\n";
    char text[2000];
    snprintf(text, sizeof text, HEAD WATER "%s1 1 0.1 0.1633\n" TAIL "SOL 1\nW 1\n", other);
    struct md_topology *topology = must_read(text);
    md_topology_free(topology);
    snprintf(text, sizeof text, HEAD WATER "%s1 1 0.1 0.16\n" TAIL "SOL 1\nW 1\n", other);
    refuse(-ENOTSUP, text, "one kind of rigid water");
    snprintf(text, sizeof text, HEAD WATER "%s1 1 0.1 0.16\n" TAIL "SOL 1\nW 0\n", other);
    topology = must_read(text);
    md_topology_free(topology);
}

static void test_text_before_the_first_directive_is_refused(void **state)
{
    (void)state;
    refuse(-EINVAL, "; fine\nstray\n" HEAD ARGON TAIL "Ar 1\n",
           "test.top:2: expected '[ directive ]', found 'stray'");
    refuse(-EINVAL, "defaults ]\n1 2\n", "test.top:1: expected '[ directive ]'");
}

static void test_headings_of_included_force_fields_are_skipped(void **state)
{
    (void)state;
    char name[] = "topology-XXXXXX", text[2000];
    int descriptor = mkstemp(name);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    fputs("heading without a semicolon\n" HEAD, file);
    assert_int_equal(fclose(file), 0);
    snprintf(text, sizeof text, "#include \"%s\"\n" ARGON TAIL "Ar 1\n", name);
    struct md_topology *topology = must_read(text);
    md_topology_free(topology);
    unlink(name);
}

static void test_a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    struct md_topology *topology = must_read("\xef\xbb\xbf" HEAD ARGON TAIL "Ar 3\n");
    assert_int_equal(topology->atom_count, 3);
    md_topology_free(topology);
    refuse(-EINVAL, HEAD "\xef\xbb\xbf" ARGON TAIL "Ar 1\n", "test.top:8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_lacking_counts_only_when_present),
        cmocka_unit_test(test_an_empty_section_lacks_nothing),
        cmocka_unit_test(test_particles_without_a_place_of_their_own_are_lacking),
        cmocka_unit_test(test_force_fields_of_other_forms_are_refused),
        cmocka_unit_test(test_tables_that_nobody_uses_are_skipped),
        cmocka_unit_test(test_text_before_the_first_directive_is_refused),
        cmocka_unit_test(test_headings_of_included_force_fields_are_skipped),
        cmocka_unit_test(test_a_byte_order_mark_is_skipped),
        cmocka_unit_test(test_directives_have_an_order),
        cmocka_unit_test(test_malformed_entries_name_their_line),
        cmocka_unit_test(test_present_molecules_have_to_be_sound),
        cmocka_unit_test(test_rigid_waters_are_of_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
