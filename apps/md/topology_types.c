// SPDX-License-Identifier: Apache-2.0
// Atom types and Lennard-Jones parameters of a topology.
//
// Algorithm: every [ atomtypes ] and [ nonbond_params ] entry is kept by name; types are numbered
// when a present molecule first uses them, and only those get rows in the pair tables, by explicit
// pairs or else by the combination rule. Advantage: the tables of a run are as small as
// its molecules are few, however large the force field. Disadvantage: a faulty entry that nobody
// uses is only found if it cannot be parsed.

#include "md/topology_parts.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 16, TYPES_MAX = 32767 };

int md_types_defaults(struct md_types *types, struct md_place place, char *text)
{
    char *words[6];
    int count = md_split(text, words, 6);
    if (types->rule)
        return md_fail_at(place, -EINVAL, "a second entry in [ defaults ]");
    int function, rule;
    if (count < 2 || count > 6 || !md_parse_int(words[0], &function) ||
        !md_parse_int(words[1], &rule))
        return md_fail_at(place, -EINVAL,
                          "[ defaults ] wants nbfunc, comb-rule and at most gen-pairs, fudgeLJ, "
                          "fudgeQQ and n");
    if (function != 1)
        return md_fail_at(place, function == 2 ? -ENOTSUP : -EINVAL,
                          "[ defaults ] nbfunc = %d is not supported; 1 (Lennard-Jones) is",
                          function);
    if (rule < MD_MIX_C6_C12 || rule > MD_MIX_GEOMETRIC)
        return md_fail_at(place, -EINVAL, "[ defaults ] comb-rule = %d is unknown; 1, 2 and 3 are",
                          rule);
    double power = 12;
    if (count == 6 && !md_parse_real(words[5], &power))
        return md_fail_at(place, -EINVAL, "[ defaults ] n = '%.40s' is no number", words[5]);
    if (power < 12 || power > 12)
        return md_fail_at(place, -ENOTSUP,
                          "[ defaults ] n = %g (power of the repulsion) is not supported; 12 is",
                          power);
    types->fudge_lj = types->fudge_qq = 1;
    if ((count > 3 && !md_parse_real(words[3], &types->fudge_lj)) ||
        (count > 4 && !md_parse_real(words[4], &types->fudge_qq)))
        return md_fail_at(place, -EINVAL, "[ defaults ] fudgeLJ and fudgeQQ have to be numbers");
    types->generate_pairs = count > 2 && tolower((unsigned char)words[2][0]) == 'y';
    types->rule = (enum md_rule_of_mixing)rule;
    return 0;
}

// Bonded type and atomic number may be left out. The particle type, a single letter, tells how many
// of the two are there; if one is, whether it is a number tells which.
static int optional_columns(char *const *words, int count)
{
    if (strlen(words[5]) == 1 && isalpha((unsigned char)words[5][0]))
        return 2;
    if (strlen(words[3]) == 1 && isalpha((unsigned char)words[3][0]))
        return 0;
    return count > 6 ? 1 : -1;
}

static int parse_atom_type(struct md_place place, char *const *words, int count,
                           struct md_type_entry *entry, const char **bonded)
{
    int optional = count < 6 ? -1 : optional_columns(words, count);
    if (optional < 0 || count < 6 + optional)
        return md_fail_at(
            place, -EINVAL,
            "[ atomtypes ] wants name, bonded type and atomic number (both optional), "
            "mass, charge, particle type and two parameters; too few columns here");
    char *const *column = words + 1 + optional;
    int number;
    if (optional == 2 && !md_parse_int(words[2], &number))
        return md_fail_at(place, -EINVAL, "atom type %.31s: '%.40s' is no atomic number", words[0],
                          words[2]);
    if (!md_parse_real(column[0], &entry->mass_u) || !md_parse_real(column[1], &entry->charge_e) ||
        !md_parse_real(column[3], &entry->first) || !md_parse_real(column[4], &entry->second))
        return md_fail_at(place, -EINVAL,
                          "atom type %.31s: mass, charge and both parameters have to be finite "
                          "numbers, found '%.40s', '%.40s', '%.40s', '%.40s'",
                          words[0], column[0], column[1], column[3], column[4]);
    int particle = toupper((unsigned char)column[2][0]);
    if (particle == 'D')
        particle = 'V'; // old files
    if (strlen(column[2]) != 1 || !strchr("ANSBV", particle))
        return md_fail_at(place, -EINVAL,
                          "atom type %.31s: unknown particle type '%.40s'; A, S, V and D are known",
                          words[0], column[2]);
    entry->particle = (char)particle;
    // A single one that is a number is the atomic number.
    bool named = optional == 2 || (optional == 1 && !md_parse_int(words[1], &number));
    *bonded = named ? words[1] : words[0];
    return 0;
}

static bool equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

static bool same_type(const struct md_type_entry *a, const struct md_type_entry *b)
{
    return a->particle == b->particle && a->bonded == b->bonded && equal(a->mass_u, b->mass_u) &&
           equal(a->charge_e, b->charge_e) && equal(a->first, b->first) &&
           equal(a->second, b->second);
}

int md_types_atom_type(struct md_types *types, struct md_place place, char *text)
{
    char *words[COLUMNS_MAX];
    int count = md_split(text, words, COLUMNS_MAX);
    struct md_type_entry entry = {.place = place, .used = -1};
    const char *bonded = words[0];
    int error = parse_atom_type(place, words, count, &entry, &bonded);
    if (error)
        return error;
    size_t length = strlen(words[0]);
    if (length > 31 || (length == 1 && isdigit((unsigned char)words[0][0])))
        return md_fail_at(place, -EINVAL,
                          "atom type '%.80s': the name has to be below 32 characters and no single "
                          "digit",
                          words[0]);
    entry.bonded = md_names_find(&types->bonded_names, bonded, strlen(bonded));
    if (entry.bonded < 0)
        entry.bonded = md_names_add(&types->bonded_names, bonded, strlen(bonded));
    if (entry.bonded < 0)
        return entry.bonded;
    int number = md_names_find(&types->names, words[0], length);
    if (number >= 0) {
        struct md_type_entry *old = &types->entries[number];
        if (!same_type(old, &entry) && !old->changed.file)
            old->changed = place;
        return 0;
    }
    struct md_type_entry *grown =
        md_reserve(types->entries, types->names.count, &types->entry_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    types->entries = grown;
    number = md_names_add(&types->names, words[0], length);
    if (number < 0)
        return number;
    types->entries[number] = entry;
    return 0;
}

int md_types_pair(struct md_types *types, struct md_place place, char *text)
{
    char *words[5];
    struct md_table_entry pair = {.place = place};
    int function;
    if (md_split(text, words, 5) != 5 || !md_parse_int(words[2], &function) ||
        !md_parse_real(words[3], &pair.parameter[0]) ||
        !md_parse_real(words[4], &pair.parameter[1]))
        return md_fail_at(place, -EINVAL,
                          "[ nonbond_params ] wants two atom types, the function type and two "
                          "finite numbers");
    if (function != 1)
        return md_fail_at(place, -EINVAL,
                          "[ nonbond_params ] function type %d contradicts nbfunc = 1 of "
                          "[ defaults ]",
                          function);
    for (int i = 0; i < 2; i++) {
        pair.type[i] = md_names_find(&types->names, words[i], strlen(words[i]));
        if (pair.type[i] < 0)
            return md_fail_at(place, -EINVAL, "[ nonbond_params ] atom type '%.80s' is not defined",
                              words[i]);
    }
    return md_table_add(&types->tables[MD_TABLE_NONBONDED], 2, &pair, false);
}

int md_types_use(struct md_types *types, int type, struct md_place place, int *index)
{
    struct md_type_entry *entry = &types->entries[type];
    if (entry->changed.file)
        return md_fail_at(entry->changed, -EINVAL,
                          "atom type '%s' is defined again with other values; the first definition "
                          "is at %s:%d, and the molecule of %s:%d uses it",
                          types->names.name[type], entry->place.file, entry->place.line, place.file,
                          place.line);
    if (entry->used < 0) {
        if (types->used_count == TYPES_MAX)
            return md_fail_at(place, -ENOTSUP, "more than %d atom types are in use", TYPES_MAX);
        int *grown =
            md_reserve(types->used, types->used_count, &types->used_capacity, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        types->used = grown;
        types->used[types->used_count] = type;
        entry->used = types->used_count++;
    }
    *index = entry->used;
    return 0;
}

// ---- tables

// A negative sigma says that c6 is zero.
void md_types_convert(const struct md_types *types, double first, double second, double *c6,
                      double *c12)
{
    if (types->rule == MD_MIX_C6_C12) {
        *c6 = first;
        *c12 = second;
        return;
    }
    double sigma3 = first * first * first;
    double sigma6 = sigma3 * sigma3;
    *c6 = first < 0 ? 0 : 4 * second * sigma6;
    *c12 = 4 * second * sigma6 * sigma6;
}

static void mix(const struct md_types *types, const struct md_type_entry *a,
                const struct md_type_entry *b, double *c6, double *c12)
{
    enum md_rule_of_mixing rule = types->rule;
    double first, second = sqrt(a->second * b->second);
    if (rule == MD_MIX_C6_C12)
        first = sqrt(a->first * b->first);
    else if (rule == MD_MIX_LORENTZ_BERTHELOT)
        first = 0.5 * (fabs(a->first) + fabs(b->first));
    else
        first = sqrt(fabs(a->first * b->first));
    if (rule != MD_MIX_C6_C12 && (a->first < 0 || b->first < 0))
        first = -first;
    md_types_convert(types, first, second, c6, c12);
}

static int fail_changed_pair(const struct md_types *types, const struct md_table_entry *pair,
                             const char *directive)
{
    return md_fail_at(pair->changed, -EINVAL, "[ %s ] changes the pair %s and %s of %s:%d",
                      directive, types->names.name[pair->type[0]], types->names.name[pair->type[1]],
                      pair->place.file, pair->place.line);
}

// Explicit parameters of two atom types, or mixed ones.
static int pair_parameters(const struct md_types *types, int a, int b, double *c6, double *c12)
{
    const struct md_table *table = &types->tables[MD_TABLE_NONBONDED];
    int found = md_table_find(table, (const int[MD_TERM_ATOMS]){a, b});
    if (found < 0) {
        mix(types, &types->entries[a], &types->entries[b], c6, c12);
        return 0;
    }
    const struct md_table_entry *pair = &table->entries[found];
    if (pair->changed.file)
        return fail_changed_pair(types, pair, "nonbond_params");
    md_types_convert(types, pair->parameter[0], pair->parameter[1], c6, c12);
    return 0;
}

int md_types_pair14(const struct md_types *types, struct md_place place, int a, int b, double *c6,
                    double *c12)
{
    const struct md_table *table = &types->tables[MD_TABLE_PAIRS];
    int found = md_table_find(table, (const int[MD_TERM_ATOMS]){a, b});
    if (found >= 0) {
        const struct md_table_entry *pair = &table->entries[found];
        if (pair->changed.file)
            return fail_changed_pair(types, pair, "pairtypes");
        md_types_convert(types, pair->parameter[0], pair->parameter[1], c6, c12);
    } else {
        if (!types->generate_pairs)
            return 0;
        int error = pair_parameters(types, a, b, c6, c12);
        if (error)
            return error;
        *c6 *= types->fudge_lj;
        *c12 *= types->fudge_lj;
    }
    return isfinite(*c6) && isfinite(*c12)
               ? 1
               : md_fail_at(place, -EINVAL,
                            "the 1-4 parameters of atom types %s and %s are no finite c6 and c12",
                            types->names.name[a], types->names.name[b]);
}

static int check_tables(const struct md_types *types, const struct md_topology *topology)
{
    for (int a = 0; a < topology->type_count; a++) {
        for (int b = a; b < topology->type_count; b++) {
            size_t ab = (size_t)a * (size_t)topology->type_count + (size_t)b;
            if (!isfinite(topology->c6[ab]) || !isfinite(topology->c12[ab]))
                return md_fail_at(types->entries[types->used[b]].place, -EINVAL,
                                  "the parameters of atom types %s and %s do not combine to finite "
                                  "c6 and c12",
                                  topology->type_name[a], topology->type_name[b]);
        }
    }
    return 0;
}

int md_types_tables(const struct md_types *types, struct md_topology *topology)
{
    size_t n = (size_t)types->used_count;
    topology->type_count = types->used_count;
    topology->type_name = calloc(n, sizeof *topology->type_name);
    topology->c6 = calloc(n * n, sizeof *topology->c6);
    topology->c12 = calloc(n * n, sizeof *topology->c12);
    if (!topology->type_name || !topology->c6 || !topology->c12)
        return leat_fail(-ENOMEM, "no memory for the pairs of %zu atom types", n);
    for (size_t a = 0; a < n; a++) {
        snprintf(topology->type_name[a], sizeof topology->type_name[a], "%s",
                 types->names.name[types->used[a]]);
    }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            int error = pair_parameters(types, types->used[a], types->used[b],
                                        &topology->c6[a * n + b], &topology->c12[a * n + b]);
            if (error)
                return error;
        }
    }
    return check_tables(types, topology);
}

void md_types_free(struct md_types *types)
{
    md_names_free(&types->names);
    free(types->entries);
    md_names_free(&types->bonded_names);
    for (int i = 0; i < MD_TABLE_COUNT; i++)
        md_table_free(&types->tables[i]);
    free(types->used);
}
