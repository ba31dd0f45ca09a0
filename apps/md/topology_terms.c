// SPDX-License-Identifier: Apache-2.0
// Bonds, angles, dihedrals, 1-4 pairs and constraints of a molecule.
//
// Algorithm: lines are kept as they come; when the molecule is first used, parameters that a line
// leaves out are looked up by the types of its atoms, all are brought to the units of topology.h,
// and terms are sorted by kind. Advantage: molecules that nobody uses cost no look-up and may lack
// parameters. Disadvantage: a present molecule is for a moment in memory twice.

#include "md/topology_parts.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32 };

// While terms are collected.
struct kind_term {
    int kind;
    struct md_term term;
};

struct collection {
    struct kind_term *terms;
    int term_count, term_capacity, constraint_capacity;
};

static int lack_function(struct md_molecule_entry *molecule, enum md_section section,
                         struct md_place place, int number)
{
    char what[80];
    snprintf(what, sizeof what, "[ %s ] function type %d", md_section_name(section), number);
    md_molecule_lacks(molecule, place, what);
    return 0;
}

int md_molecule_entry_add(struct md_molecule_entry *molecule, enum md_section section,
                          struct md_place place, char *text)
{
    static const int atom_counts[] = {2, 3, 4, 2, 2};
    char *words[COLUMNS_MAX];
    int count = md_split(text, words, COLUMNS_MAX), atoms = atom_counts[section], number = 1;
    struct md_term_entry entry = {.place = place};
    bool sound = count >= atoms && count <= COLUMNS_MAX;
    for (int i = 0; i < atoms && sound; i++) {
        sound = md_parse_int(words[i], &entry.atom[i]) && entry.atom[i] >= 1;
        entry.atom[i]--;
    }
    if (!sound || (count > atoms && !md_parse_int(words[atoms], &number)))
        return md_fail_at(place, -EINVAL,
                          "[ %s ] wants %d atom numbers from 1 and the function type",
                          md_section_name(section), atoms);
    entry.function = md_function_find(section, number);
    if (!entry.function)
        return lack_function(molecule, section, place, number);
    int after = count > atoms ? count - atoms - 1 : 0;
    entry.given =
        md_parse_parameters(entry.function, place, words + atoms + 1, after, entry.parameter);
    if (entry.given < 0)
        return entry.given;
    struct md_term_entry *grown = md_reserve(molecule->entries, molecule->entry_count,
                                             &molecule->entry_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    molecule->entries = grown;
    molecule->entries[molecule->entry_count++] = entry;
    return 0;
}

// ---- from lines to terms

static int check_atoms(const struct md_molecule_entry *molecule, const struct md_term_entry *entry)
{
    const char *section = md_section_name(entry->function->section);
    for (int i = 0; i < entry->function->atom_count; i++) {
        if (entry->atom[i] >= molecule->out.atom_count)
            return md_fail_at(entry->place, -EINVAL, "[ %s ] names atom %d, but '%s' has %d atoms",
                              section, entry->atom[i] + 1, molecule->out.name,
                              molecule->out.atom_count);
        for (int j = 0; j < i; j++) {
            if (entry->atom[i] == entry->atom[j])
                return md_fail_at(entry->place, -EINVAL, "[ %s ] names atom %d twice", section,
                                  entry->atom[i] + 1);
        }
    }
    return 0;
}

// "CT-HC (atoms 1-2)", cut to what fits.
static void describe(const struct md_molecule_entry *molecule, const struct md_types *types,
                     const struct md_term_entry *entry, char *text, size_t bytes)
{
    bool pairs = entry->function->section == MD_SECTION_PAIRS;
    size_t used = 0;
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < entry->function->atom_count && used < bytes; i++) {
            int type = molecule->out.atoms[entry->atom[i]].type;
            const char *separator = i ? "-" : part ? " (atoms " : "";
            const char *name = pairs ? types->names.name[type]
                                     : types->bonded_names.name[types->entries[type].bonded];
            used +=
                (size_t)(part ? snprintf(text + used, bytes - used, "%s%d", separator,
                                         entry->atom[i] + 1)
                              : snprintf(text + used, bytes - used, "%s%.20s", separator, name));
        }
    }
    if (used + 1 < bytes)
        snprintf(text + used, bytes - used, ")");
}

static int fail_missing(const struct md_molecule_entry *molecule, const struct md_types *types,
                        const struct md_term_entry *entry)
{
    char atoms[160];
    describe(molecule, types, entry, atoms, sizeof atoms);
    return md_fail_at(entry->place, -EINVAL,
                      "No default %s types for %s of '%s': neither this line nor the force field "
                      "gives its parameters",
                      entry->function->name, atoms, molecule->out.name);
}

static int fail_changed(const struct md_molecule_entry *molecule, const struct md_types *types,
                        const struct md_term_entry *entry, const struct md_table_entry *found)
{
    char atoms[160];
    describe(molecule, types, entry, atoms, sizeof atoms);
    return md_fail_at(found->changed, -EINVAL,
                      "%s parameters are defined again with other values; the first definition is "
                      "at %s:%d, and %s:%d uses it for %s of '%s'",
                      entry->function->name, found->place.file, found->place.line,
                      entry->place.file, entry->place.line, atoms, molecule->out.name);
}

// The entry of the force field that an entry without parameters means.
static int look_up(const struct md_molecule_entry *molecule, const struct md_types *types,
                   const struct md_term_entry *entry, const struct md_table_entry **found)
{
    const struct md_table *table = &types->tables[entry->function->table];
    int type[MD_TERM_ATOMS] = {0};
    for (int i = 0; i < entry->function->atom_count; i++)
        type[i] = types->entries[molecule->out.atoms[entry->atom[i]].type].bonded;
    // As in GROMACS, no wildcards in those.
    bool exact = entry->function->table == MD_TABLE_FOURIER;
    int number = exact ? md_table_find(table, type) : md_table_match(table, type);
    if (number < 0)
        return fail_missing(molecule, types, entry);
    *found = &table->entries[number];
    return (*found)->changed.file ? fail_changed(molecule, types, entry, *found) : 0;
}

static double radians(double degrees)
{
    return degrees * (acos(-1.0) / 180.0);
}

// The multiplicity in a file may be written as 2.00.
static int parse_multiplicity(const struct md_term_entry *entry, double value, double *multiplicity)
{
    *multiplicity = nearbyint(value);
    if (fabs(value - *multiplicity) > 0.01 || fabs(value) > 99.0)
        return md_fail_at(entry->place, -EINVAL,
                          "%s: a multiplicity of %g; it has to be an integer from -99 to 99",
                          entry->function->name, value);
    return 0;
}

// Jorgensen's cosines: J. Am. Chem. Soc. 118 (1996) 11225, equation 4, by powers of the cosine.
static void fourier_to_powers(const double *f, double *c)
{
    c[0] = f[1] + 0.5 * (f[0] + f[2]);
    c[1] = 0.5 * (3.0 * f[2] - f[0]);
    c[2] = 4.0 * f[3] - f[1];
    c[3] = -2.0 * f[2];
    c[4] = -4.0 * f[3];
    c[5] = 0.0;
}

static int pair_term(const struct md_molecule_entry *molecule, const struct md_types *types,
                     const struct md_term_entry *entry, const double *given, struct md_term *term)
{
    const struct md_atom *a = &molecule->out.atoms[entry->atom[0]];
    const struct md_atom *b = &molecule->out.atoms[entry->atom[1]];
    double *c6 = &term->parameter[0], *c12 = &term->parameter[1];
    bool own_charges = entry->given == 5;
    term->parameter[2] =
        own_charges ? given[0] * given[1] * given[2] : types->fudge_qq * a->charge_e * b->charge_e;
    if (entry->given) {
        const double *two = given + (own_charges ? 3 : 0);
        md_types_convert(types, two[0], two[1], c6, c12);
        return 0;
    }
    int found = md_types_pair14(types, entry->place, a->type, b->type, c6, c12);
    return found < 0 ? found : found ? 0 : fail_missing(molecule, types, entry);
}

// Parameters as in a file to those of topology.h.
static int convert(const struct md_molecule_entry *molecule, const struct md_types *types,
                   const struct md_term_entry *entry, const double *given, struct md_term *term)
{
    double *out = term->parameter;
    switch (entry->function->term) {
    case MD_TERM_PAIR:
        return pair_term(molecule, types, entry, given, term);
    case MD_TERM_RYCKAERT_BELLEMANS:
        if (entry->function->table == MD_TABLE_FOURIER)
            fourier_to_powers(given, out);
        else
            memcpy(out, given, MD_TERM_PARAMETERS * sizeof *out);
        return 0;
    case MD_TERM_DIHEDRAL:
    case MD_TERM_PERIODIC_IMPROPER:
        out[0] = radians(given[0]);
        out[1] = given[1];
        return parse_multiplicity(entry, given[2], &out[2]);
    default:
        out[0] = entry->function->term == MD_TERM_BOND ? given[0] : radians(given[0]);
        out[1] = given[1];
        return 0;
    }
}

static int add_constraint(struct md_molecule_entry *molecule, struct collection *all,
                          const struct md_term_entry *entry, double length_nm)
{
    struct md_molecule_type *out = &molecule->out;
    struct md_constraint *grown = md_reserve(out->constraints, out->constraint_count,
                                             &all->constraint_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    out->constraints = grown;
    if (!(length_nm > 0.0))
        return md_fail_at(entry->place, -EINVAL,
                          "[ constraints ] a distance of %g nm; it has to be above 0", length_nm);
    out->constraints[out->constraint_count++] =
        (struct md_constraint){entry->atom[0], entry->atom[1], length_nm};
    return 0;
}

static int add_term(struct collection *all, int kind, const struct md_term *term)
{
    struct kind_term *grown =
        md_reserve(all->terms, all->term_count, &all->term_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    all->terms = grown;
    all->terms[all->term_count++] = (struct kind_term){kind, *term};
    return 0;
}

static int check_finite(const struct md_term_entry *entry, const struct md_term *term)
{
    for (int i = 0; i < MD_TERM_PARAMETERS; i++) {
        if (!isfinite(term->parameter[i]))
            return md_fail_at(entry->place, -EINVAL,
                              "%s: the parameters are too large to be computed with",
                              entry->function->name);
    }
    return 0;
}

// Force fields name such terms to say that there are none.
static bool exerts_no_force(int kind, const struct md_term *term)
{
    const double *p = term->parameter;
    switch (kind) {
    case MD_TERM_ANGLE:
    case MD_TERM_DIHEDRAL:
    case MD_TERM_IMPROPER:
    case MD_TERM_PERIODIC_IMPROPER:
        return p[1] == 0.0;
    case MD_TERM_RYCKAERT_BELLEMANS:
        for (int i = 0; i < MD_TERM_PARAMETERS; i++)
            if (p[i] != 0.0)
                return false;
        return true;
    default: // a bond may become a constraint
        return false;
    }
}

// One term with the parameters `given`, of the line or of the force field.
static int add(struct md_molecule_entry *molecule, const struct md_types *types,
               struct collection *all, const struct md_term_entry *entry, const double *given)
{
    const struct md_function *function = entry->function;
    if (function->term == MD_CONSTRAINT_NOT_TERM)
        return add_constraint(molecule, all, entry, given[0]);
    if (function->table == MD_TABLE_UREY_BRADLEY && (given[3] < 0.0 || given[3] > 0.0))
        return md_fail_at(entry->place, -ENOTSUP,
                          "[ angles ] function type 5 of '%s' has a Urey-Bradley constant of %g; "
                          "only 0 is supported",
                          molecule->out.name, given[3]);
    struct md_term term = {0};
    memcpy(term.atom, entry->atom, sizeof term.atom);
    int error = convert(molecule, types, entry, given, &term);
    if (!error)
        error = check_finite(entry, &term);
    if (error || exerts_no_force(function->term, &term))
        return error;
    return add_term(all, function->term, &term);
}

static int resolve(struct md_molecule_entry *molecule, const struct md_types *types,
                   struct collection *all, const struct md_term_entry *entry)
{
    const struct md_function *function = entry->function;
    int error = check_atoms(molecule, entry);
    if (!error && function->bond)
        error = md_molecule_link(&molecule->bonds, entry->atom[0], entry->atom[1], entry->place);
    if (error || function->term == MD_NO_TERM)
        return error;
    if (entry->given || function->term == MD_TERM_PAIR)
        return add(molecule, types, all, entry, entry->parameter);
    const struct md_table_entry *found = NULL;
    error = look_up(molecule, types, entry, &found);
    while (!error && found) {
        error = add(molecule, types, all, entry, found->parameter);
        found = found->next < 0 ? NULL : &types->tables[function->table].entries[found->next];
    }
    return error;
}

// By kind, those of one kind in order of the file.
static int sort(struct md_molecule_type *out, const struct collection *all)
{
    out->terms = calloc((size_t)all->term_count + 1, sizeof *out->terms);
    if (!out->terms)
        return leat_fail(-ENOMEM, "no memory for %d terms", all->term_count);
    for (int i = 0; i < all->term_count; i++)
        out->term_start[all->terms[i].kind + 1]++;
    int next[MD_TERM_KINDS];
    for (int k = 0; k < MD_TERM_KINDS; k++) {
        out->term_start[k + 1] += out->term_start[k];
        next[k] = out->term_start[k];
    }
    for (int i = 0; i < all->term_count; i++)
        out->terms[next[all->terms[i].kind]++] = all->terms[i].term;
    return 0;
}

int md_molecule_resolve(struct md_molecule_entry *molecule, const struct md_types *types)
{
    struct collection all = {0};
    int error = 0;
    for (int i = 0; i < molecule->entry_count && !error; i++)
        error = resolve(molecule, types, &all, &molecule->entries[i]);
    if (!error)
        error = sort(&molecule->out, &all);
    free(all.terms);
    free(molecule->entries);
    molecule->entries = NULL;
    molecule->entry_count = molecule->entry_capacity = 0;
    return error;
}
