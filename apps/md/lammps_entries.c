// SPDX-License-Identifier: Apache-2.0
// The lines of a LAMMPS data file's sections, and atoms in order of their ids.
//
// Entries are kept as they come and checked against each other when all are read. Advantage: memory
// grows with the lines of the file, whatever its header promises, and sections may come in any
// order. Disadvantage: atoms are copied once more when they are sorted.

#include "md/lammps_parts.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Columns of a line of Atoms, the id in column 0; -1 for what a style lacks.
struct columns {
    const char *name;
    int molecule, type, charge, x, count;
};

static const struct columns styles[] = {
    {"atomic", -1, 1, -1, 2, 5}, {"charge", -1, 1, 2, 3, 6},    {"bond", 1, 2, -1, 3, 6},
    {"angle", 1, 2, -1, 3, 6},   {"molecular", 1, 2, -1, 3, 6}, {"full", 1, 2, 3, 4, 7},
};

int lammps_style(const char *name)
{
    for (int i = 0; i < (int)(sizeof styles / sizeof *styles); i++)
        if (strcmp(name, styles[i].name) == 0)
            return i;
    return -1;
}

// Room for one more entry, which is counted; NULL without memory.
static void *append(struct lammps_list *list, size_t bytes)
{
    void *grown = md_reserve(list->entries, list->count, &list->capacity, bytes);
    if (!grown)
        return NULL;
    list->entries = grown;
    return (char *)grown + (size_t)list->count++ * bytes;
}

static int check_columns(const struct lammps_words *words, int least, int most)
{
    if (words->count >= least && words->count <= most)
        return 0;
    if (least == most)
        return md_fail_at(words->place, -EINVAL, "%s%d columns; expected %d",
                          words->count > LAMMPS_WORDS ? "more than " : "",
                          words->count > LAMMPS_WORDS ? LAMMPS_WORDS : words->count, least);
    return md_fail_at(words->place, -EINVAL, "%s%d columns; expected %d to %d",
                      words->count > LAMMPS_WORDS ? "more than " : "",
                      words->count > LAMMPS_WORDS ? LAMMPS_WORDS : words->count, least, most);
}

static int read_real(const struct lammps_words *words, int column, const char *what, double *value)
{
    if (md_parse_real(words->word[column], value))
        return 0;
    return md_fail_at(words->place, -EINVAL, "%s is '%.40s', which is no number", what,
                      words->word[column]);
}

// A number from 1 to `most`.
static int read_number(const struct lammps_words *words, int column, const char *what, int64_t most,
                       int *value)
{
    int64_t number;
    if (!md_parse_integer(words->word[column], &number) || number < 1 || number > most)
        return md_fail_at(words->place, -EINVAL, "%s is '%.40s'; expected a number from 1 to %lld",
                          what, words->word[column], (long long)most);
    *value = (int)number;
    return 0;
}

static int read_id(const struct lammps_file *file, const struct lammps_words *words, int column,
                   int *id)
{
    int64_t number;
    if (!md_parse_integer(words->word[column], &number) || number < 1)
        return md_fail_at(words->place, -EINVAL, "atom id '%.40s' is no number from 1",
                          words->word[column]);
    if (number > file->count[LAMMPS_ATOMS])
        return md_fail_at(words->place, -ENOTSUP,
                          "atom id %lld, but there are %lld atoms; ids without gaps are supported, "
                          "as `reset_atom_ids` of LAMMPS makes them",
                          (long long)number, (long long)file->count[LAMMPS_ATOMS]);
    *id = (int)number;
    return 0;
}

static int check_image(const struct lammps_words *words, int column)
{
    int64_t image;
    for (int i = column; i < column + 3; i++)
        if (!md_parse_integer(words->word[i], &image))
            return md_fail_at(words->place, -EINVAL, "image flag '%.40s' is no whole number",
                              words->word[i]);
    return 0;
}

int lammps_atom_entry(struct lammps_file *file, int style, const struct lammps_words *words)
{
    const struct columns *columns = &styles[style];
    struct lammps_atom atom = {.line = words->place.line};
    int64_t molecule = 0;
    if (words->count != columns->count && words->count != columns->count + 3)
        return md_fail_at(words->place, -EINVAL,
                          "%d columns; atom style %s has %d, or %d with image flags", words->count,
                          columns->name, columns->count, columns->count + 3);
    int error = read_id(file, words, 0, &atom.id);
    if (!error)
        error = read_number(words, columns->type, "the atom type", file->type_count[LAMMPS_ATOMS],
                            &atom.type);
    if (!error && columns->molecule > 0 &&
        !md_parse_integer(words->word[columns->molecule], &molecule))
        error = md_fail_at(words->place, -EINVAL, "molecule id '%.40s' is no whole number",
                           words->word[columns->molecule]);
    if (!error && columns->charge > 0)
        error = read_real(words, columns->charge, "the charge", &atom.charge);
    for (int d = 0; d < 3 && !error; d++)
        error = read_real(words, columns->x + d, "a coordinate", &atom.x[d]);
    if (!error && words->count > columns->count)
        error = check_image(words, columns->count);
    if (error)
        return error;
    atom.molecule = (int)(molecule % 100000);
    struct lammps_atom *entry = append(&file->atoms, sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = atom;
    return 0;
}

int lammps_velocity_entry(struct lammps_file *file, const struct lammps_words *words)
{
    struct lammps_velocity velocity = {.line = words->place.line};
    int error = check_columns(words, 4, 4);
    if (!error)
        error = read_id(file, words, 0, &velocity.id);
    for (int d = 0; d < 3 && !error; d++)
        error = read_real(words, 1 + d, "a velocity", &velocity.v[d]);
    if (error)
        return error;
    struct lammps_velocity *entry = append(&file->velocities, sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = velocity;
    return 0;
}

int lammps_mass_entry(struct lammps_file *file, const struct lammps_words *words)
{
    struct lammps_mass mass = {.line = words->place.line};
    int error = check_columns(words, 2, 2);
    if (!error)
        error = read_number(words, 0, "the atom type", file->type_count[LAMMPS_ATOMS], &mass.type);
    if (!error)
        error = read_real(words, 1, "the mass", &mass.mass);
    if (!error && !(mass.mass > 0.0))
        error = md_fail_at(words->place, -EINVAL, "a mass of %g; it has to be positive", mass.mass);
    if (error)
        return error;
    struct lammps_mass *entry = append(&file->masses, sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = mass;
    return 0;
}

int lammps_link_entry(struct lammps_file *file, int kind, const struct lammps_words *words)
{
    int arity = lammps_arity[kind];
    struct lammps_link link = {.atom = {-1, -1, -1, -1}, .line = words->place.line, .kind = kind};
    int error = check_columns(words, 2 + arity, 2 + arity);
    if (!error)
        error = read_number(words, 1, "its type", file->type_count[kind], &link.type);
    for (int i = 0; i < arity && !error; i++) {
        error = read_id(file, words, 2 + i, &link.atom[i]);
        link.atom[i]--;
        for (int j = 0; j < i && !error; j++)
            if (link.atom[i] == link.atom[j])
                error = md_fail_at(words->place, -EINVAL, "a %s has atom %d twice",
                                   lammps_names[kind], link.atom[i] + 1);
    }
    if (error)
        return error;
    struct lammps_link *entry = append(&file->links[kind], sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = link;
    return 0;
}

// One cut-off for all pairs: columns with another would change what others feel.
static int check_cutoffs(const struct lammps_file *file, const struct lammps_words *words,
                         int column)
{
    int error = check_columns(words, column, column + (file->lammps->coulomb ? 2 : 1));
    for (int i = column; i < words->count && !error; i++) {
        double cutoff;
        error = read_real(words, i, "a cut-off", &cutoff);
        if (!error && (cutoff < file->lammps->cutoff || cutoff > file->lammps->cutoff))
            error = md_fail_at(words->place, -ENOTSUP,
                               "a cut-off of %g beside that of --pair, %g; one for all pairs is "
                               "supported",
                               cutoff, file->lammps->cutoff);
    }
    return error;
}

int lammps_pair_entry(struct lammps_file *file, bool unlike, const struct lammps_words *words)
{
    struct lammps_pair pair = {.line = words->place.line};
    int types = file->type_count[LAMMPS_ATOMS], column = unlike ? 4 : 3;
    int error = check_cutoffs(file, words, column);
    if (!error)
        error = read_number(words, 0, "the atom type", types, &pair.i);
    pair.j = pair.i;
    if (!error && unlike)
        error = read_number(words, 1, "the second atom type", types, &pair.j);
    if (!error)
        error = read_real(words, column - 2, "epsilon", &pair.epsilon);
    if (!error)
        error = read_real(words, column - 1, "sigma", &pair.sigma);
    if (!error && !(pair.epsilon >= 0.0 && pair.sigma >= 0.0))
        error =
            md_fail_at(words->place, -EINVAL, "epsilon is %g and sigma %g; neither may be negative",
                       pair.epsilon, pair.sigma);
    if (error)
        return error;
    struct lammps_pair *entry = append(&file->pairs, sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = pair;
    return 0;
}

static int check_bonded(const struct lammps_words *words, int kind, const double value[3])
{
    if (kind == LAMMPS_DIHEDRALS && value[1] != 1.0 && value[1] != -1.0)
        return md_fail_at(words->place, -EINVAL, "d is '%.40s'; expected 1 or -1", words->word[2]);
    if (kind == LAMMPS_DIHEDRALS &&
        !(value[2] >= 0.0 && value[2] <= 100.0 && value[2] == floor(value[2])))
        return md_fail_at(words->place, -EINVAL, "n is '%.40s'; expected a whole number from 0",
                          words->word[3]);
    if (kind == LAMMPS_BONDS && value[1] < 0.0)
        return md_fail_at(words->place, -EINVAL, "a bond of length %g", value[1]);
    if (kind == LAMMPS_IMPROPERS && !(value[1] >= 0.0 && value[1] <= 180.0))
        return md_fail_at(words->place, -EINVAL,
                          "an improper at rest at %g degrees; expected 0 to 180", value[1]);
    return 0;
}

int lammps_bonded_entry(struct lammps_file *file, int kind, const struct lammps_words *words)
{
    static const char *const first[] = {NULL, "K", "K", "K", "K"};
    static const char *const second[] = {NULL, "r0", "theta0", "d", "chi0"};
    struct lammps_bonded bonded = {.line = words->place.line};
    int columns = kind == LAMMPS_DIHEDRALS ? 4 : 3;
    int error = check_columns(words, columns, columns);
    if (!error)
        error = read_number(words, 0, "the type", file->type_count[kind], &bonded.type);
    if (!error)
        error = read_real(words, 1, first[kind], &bonded.value[0]);
    if (!error)
        error = read_real(words, 2, second[kind], &bonded.value[1]);
    if (!error && columns == 4)
        error = read_real(words, 3, "n", &bonded.value[2]);
    if (!error)
        error = check_bonded(words, kind, bonded.value);
    if (error)
        return error;
    struct lammps_bonded *entry = append(&file->bonded[kind], sizeof *entry);
    if (!entry)
        return -ENOMEM;
    *entry = bonded;
    return 0;
}

static int fail_twice(const struct lammps_file *file, int line, int id, int other)
{
    return md_fail_at((struct md_place){file->name, line}, -EINVAL,
                      "atom %d stands already in line %d", id, other);
}

static int sort_velocities(const struct lammps_file *file, double *v)
{
    const struct lammps_velocity *velocity = file->velocities.entries;
    int *seen = calloc((size_t)file->atoms.count, sizeof *seen), error = 0;
    if (!seen)
        return leat_fail(-ENOMEM, "no memory for %d velocities", file->velocities.count);
    for (int i = 0; i < file->velocities.count && !error; i++, velocity++) {
        int at = velocity->id - 1;
        if (seen[at])
            error = fail_twice(file, velocity->line, velocity->id, seen[at]);
        seen[at] = velocity->line;
        memcpy(v + 3 * (int64_t)at, velocity->v, sizeof velocity->v);
    }
    free(seen);
    return error;
}

int lammps_sort_atoms(struct lammps_file *file, double *v)
{
    const struct lammps_atom *atom = file->atoms.entries;
    file->by_id = calloc((size_t)file->atoms.count, sizeof *file->by_id);
    if (!file->by_id)
        return leat_fail(-ENOMEM, "no memory for %d atoms", file->atoms.count);
    // As many lines as atoms and no id twice: all are there.
    for (int i = 0; i < file->atoms.count; i++, atom++) {
        struct lammps_atom *to = &file->by_id[atom->id - 1];
        if (to->id)
            return fail_twice(file, atom->line, atom->id, to->line);
        *to = *atom;
    }
    return file->velocities.count ? sort_velocities(file, v) : 0;
}
