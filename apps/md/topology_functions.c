// SPDX-License-Identifier: Apache-2.0
// The function types of bonded terms that are read, and the directives of their parameters.
//
// Algorithm: one table says of every function type how many atoms and parameters it has and where
// parameters are looked up that a line leaves out. Advantage: one parser for all sections.
// Disadvantage: parameters of other function types are skipped unread, so faults in them stay
// unnoticed.

#include "md/topology_parts.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { COLUMNS_MAX = 32 };

// Names as in GROMACS' messages.
static const struct md_function functions[] = {
    {MD_SECTION_BONDS, 1, "Bond", MD_TABLE_BONDS, MD_TERM_BOND, 2, 2, true, true},
    {MD_SECTION_BONDS, 5, "Connect Bonds", MD_TABLE_COUNT, MD_NO_TERM, 2, 0, false, true},
    {MD_SECTION_ANGLES, 1, "Angle", MD_TABLE_ANGLES, MD_TERM_ANGLE, 3, 2, true, false},
    {MD_SECTION_ANGLES, 5, "U-B", MD_TABLE_UREY_BRADLEY, MD_TERM_ANGLE, 3, 4, true, false},
    {MD_SECTION_DIHEDRALS, 1, "Proper Dih.", MD_TABLE_DIHEDRALS, MD_TERM_DIHEDRAL, 4, 3, true,
     false},
    {MD_SECTION_DIHEDRALS, 2, "Improper Dih.", MD_TABLE_IMPROPERS, MD_TERM_IMPROPER, 4, 2, true,
     false},
    {MD_SECTION_DIHEDRALS, 3, "Ryckaert-Bell.", MD_TABLE_RYCKAERT_BELLEMANS,
     MD_TERM_RYCKAERT_BELLEMANS, 4, 6, true, false},
    {MD_SECTION_DIHEDRALS, 4, "Per. Imp. Dih.", MD_TABLE_PERIODIC_IMPROPERS,
     MD_TERM_PERIODIC_IMPROPER, 4, 3, true, false},
    {MD_SECTION_DIHEDRALS, 5, "Fourier Dih.", MD_TABLE_FOURIER, MD_TERM_RYCKAERT_BELLEMANS, 4, 4,
     true, false},
    {MD_SECTION_DIHEDRALS, 9, "Proper Dih.", MD_TABLE_DIHEDRALS, MD_TERM_DIHEDRAL, 4, 3, true,
     false},
    {MD_SECTION_PAIRS, 1, "LJ-14", MD_TABLE_PAIRS, MD_TERM_PAIR, 2, 2, true, false},
    {MD_SECTION_PAIRS, 2, "LJC-14 q", MD_TABLE_COUNT, MD_TERM_PAIR, 2, 5, false, false},
    {MD_SECTION_CONSTRAINTS, 1, "Constraint", MD_TABLE_CONSTRAINTS, MD_CONSTRAINT_NOT_TERM, 2, 1,
     true, true},
    {MD_SECTION_CONSTRAINTS, 2, "Constr. No Conn.", MD_TABLE_CONSTRAINTS_UNBONDED,
     MD_CONSTRAINT_NOT_TERM, 2, 1, true, false},
};

enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

const char *md_section_name(enum md_section section)
{
    static const char *const names[] = {"bonds", "angles", "dihedrals", "pairs", "constraints"};
    return names[section];
}

// Of the directive that gives its parameters.
static const char *directive_name(enum md_section section)
{
    static const char *const names[] = {"bondtypes", "angletypes", "dihedraltypes", "pairtypes",
                                        "constrainttypes"};
    return names[section];
}

const struct md_function *md_function_find(enum md_section section, int number)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (functions[i].section == section && functions[i].number == number)
            return &functions[i];
    }
    return NULL;
}

int md_parse_parameters(const struct md_function *function, struct md_place place,
                        char *const *words, int count, double *parameter)
{
    int wanted = function->parameter_count;
    bool may_lack = function->table != MD_TABLE_COUNT;
    if (!(count == 0 && may_lack) && count != wanted &&
        !(function->state_b && count == 2 * wanted)) {
        char both[24] = "";
        if (function->state_b)
            snprintf(both, sizeof both, " or %d", 2 * wanted);
        return md_fail_at(place, -EINVAL,
                          "%s: %d parameters after the function type; expected %d%s",
                          function->name, count, wanted, both);
    }
    for (int i = 0; i < count; i++) {
        double value;
        if (!md_parse_real(words[i], &value))
            return md_fail_at(
                place, -EINVAL, "%s: parameters have to be finite numbers, found '%.40s'%s",
                function->name, words[i],
                isalpha((unsigned char)words[i][0]) ? ", which no #define names" : "");
        if (i < wanted)
            parameter[i] = value;
    }
    return count ? wanted : 0;
}

static int find_type(const struct md_types *types, enum md_section section, struct md_place place,
                     const char *name, int *type)
{
    if (section == MD_SECTION_DIHEDRALS && strcmp(name, "X") == 0) {
        *type = MD_WILDCARD;
        return 0;
    }
    bool pairs = section == MD_SECTION_PAIRS;
    const struct md_names *names = pairs ? &types->names : &types->bonded_names;
    *type = md_names_find(names, name, strlen(name));
    return *type >= 0 ? 0
                      : md_fail_at(place, -EINVAL, "[ %s ] %s type '%.80s' is not in [ atomtypes ]",
                                   directive_name(section), pairs ? "atom" : "bonded", name);
}

static bool is_digit(const char *word)
{
    return isdigit((unsigned char)word[0]) && word[1] == 0;
}

static int atoms_of(enum md_section section)
{
    static const int counts[] = {2, 3, 4, 2, 2};
    return counts[section];
}

// Two types stand for the inner ones of a dihedral, or for the outer ones of an improper.
static bool of_two_types(enum md_section section, char *const *words, int count)
{
    return section == MD_SECTION_DIHEDRALS && count > 2 && is_digit(words[2]);
}

static void spread(char **words, char **names)
{
    static char any[] = "X"; // only read
    bool outer = words[2][0] == '2';
    names[0] = outer ? words[0] : any;
    names[1] = outer ? any : words[0];
    names[2] = outer ? any : words[1];
    names[3] = outer ? words[1] : any;
}

int md_types_parameters(struct md_types *types, enum md_section section, struct md_place place,
                        char *text)
{
    char *words[COLUMNS_MAX], *names[MD_TERM_ATOMS];
    int count = md_split(text, words, COLUMNS_MAX), atoms = atoms_of(section), number;
    int columns = of_two_types(section, words, count) ? 2 : atoms;
    if (count <= columns || count > COLUMNS_MAX || !md_parse_int(words[columns], &number))
        return md_fail_at(place, -EINVAL,
                          "[ %s ] wants %d types, the function type and its parameters",
                          directive_name(section), atoms);
    // Parameters of pairs are the same for both function types.
    const struct md_function *function =
        md_function_find(section, section == MD_SECTION_PAIRS && number == 2 ? 1 : number);
    if (!function)
        return 0;
    memcpy(names, words, (size_t)atoms * sizeof *names);
    if (columns < atoms)
        spread(words, names);
    struct md_table_entry entry = {.place = place};
    int given = md_parse_parameters(function, place, words + columns + 1, count - columns - 1,
                                    entry.parameter);
    if (given < 0)
        return given;
    if (given < function->parameter_count)
        return md_fail_at(place, -EINVAL, "[ %s ] has no parameters after the function type",
                          directive_name(section));
    for (int i = 0; i < atoms; i++) {
        int error = find_type(types, section, place, names[i], &entry.type[i]);
        if (error)
            return error;
    }
    return md_table_add(&types->tables[function->table], atoms, &entry,
                        section == MD_SECTION_DIHEDRALS && number == 9);
}
