// SPDX-License-Identifier: Apache-2.0
// Reader of LAMMPS data files: lines, header, sections.
//
// Algorithm: one pass over the lines. The header says how many lines each section has; tables say
// what a section is called, which count is its own and who takes its lines. Advantage: a count that
// does not fit is found where it happens. Disadvantage: like LAMMPS, a section with a line too few
// is noticed only at the next one.

#include "md/lammps_parts.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const lammps_names[LAMMPS_COUNTS] = {"atom", "bond", "angle", "dihedral", "improper"};
const int lammps_arity[LAMMPS_COUNTS] = {1, 2, 3, 4, 4};

enum section_kind { MASSES, ATOMS, VELOCITIES, LINKS, PAIRS, UNLIKE_PAIRS, BONDED, REFUSED };

struct section {
    const char *name;
    enum section_kind kind;
    enum lammps_count count; // whose lines, or types, it has
};

static const struct section sections[] = {
    {"Masses", MASSES, LAMMPS_ATOMS},
    {"Atoms", ATOMS, LAMMPS_ATOMS},
    {"Velocities", VELOCITIES, LAMMPS_ATOMS},
    {"Bonds", LINKS, LAMMPS_BONDS},
    {"Angles", LINKS, LAMMPS_ANGLES},
    {"Dihedrals", LINKS, LAMMPS_DIHEDRALS},
    {"Impropers", LINKS, LAMMPS_IMPROPERS},
    {"Pair Coeffs", PAIRS, LAMMPS_ATOMS},
    {"PairIJ Coeffs", UNLIKE_PAIRS, LAMMPS_ATOMS},
    {"Bond Coeffs", BONDED, LAMMPS_BONDS},
    {"Angle Coeffs", BONDED, LAMMPS_ANGLES},
    {"Dihedral Coeffs", BONDED, LAMMPS_DIHEDRALS},
    {"Improper Coeffs", BONDED, LAMMPS_IMPROPERS},
    {"Ellipsoids", REFUSED, LAMMPS_ATOMS},
    {"Lines", REFUSED, LAMMPS_ATOMS},
    {"Triangles", REFUSED, LAMMPS_ATOMS},
    {"Bodies", REFUSED, LAMMPS_ATOMS},
    {"BondBond Coeffs", REFUSED, LAMMPS_ATOMS},
    {"BondAngle Coeffs", REFUSED, LAMMPS_ATOMS},
    {"MiddleBondTorsion Coeffs", REFUSED, LAMMPS_ATOMS},
    {"EndBondTorsion Coeffs", REFUSED, LAMMPS_ATOMS},
    {"AngleTorsion Coeffs", REFUSED, LAMMPS_ATOMS},
    {"AngleAngleTorsion Coeffs", REFUSED, LAMMPS_ATOMS},
    {"BondBond13 Coeffs", REFUSED, LAMMPS_ATOMS},
    {"AngleAngle Coeffs", REFUSED, LAMMPS_ATOMS},
    {"Atom Type Labels", REFUSED, LAMMPS_ATOMS},
    {"Bond Type Labels", REFUSED, LAMMPS_ATOMS},
    {"Angle Type Labels", REFUSED, LAMMPS_ATOMS},
    {"Dihedral Type Labels", REFUSED, LAMMPS_ATOMS},
    {"Improper Type Labels", REFUSED, LAMMPS_ATOMS},
};

enum { SECTIONS = sizeof sections / sizeof *sections };

struct reader {
    FILE *stream;
    struct lammps_file *file;
    char *line, *comment; // the latter NULL where there is none
    size_t capacity;
    bool held; // the line is to be read once more
    struct lammps_words words;
    int seen[SECTIONS]; // line
};

// ---- lines

static int fetch(struct reader *reader)
{
    struct md_place *place = &reader->words.place;
    errno = 0;
    ssize_t length = getline(&reader->line, &reader->capacity, reader->stream);
    // What stands before an error is part of a line.
    bool broken = ferror(reader->stream) != 0;
    if (length < 0 || broken)
        return broken || errno == ENOMEM
                   ? leat_fail(errno ? -errno : -EIO, "%s: %s after line %d", place->file,
                               strerror(errno ? errno : EIO), place->line)
                   : 0;
    if (place->line == INT_MAX)
        return leat_fail(-EINVAL, "%s has more than %d lines", place->file, INT_MAX);
    place->line++;
    if (strlen(reader->line) != (size_t)length)
        return md_fail_at(*place, -EINVAL, "a zero byte; this is no text");
    return 1;
}

// The next line that says something: 1, 0 at the end of the file, or an error.
static int next_line(struct reader *reader)
{
    struct lammps_words *words = &reader->words;
    if (reader->held) {
        reader->held = false;
        return 1;
    }
    do {
        int got = fetch(reader);
        if (got <= 0)
            return got;
        reader->comment = strchr(reader->line, '#');
        if (reader->comment) {
            *reader->comment++ = 0;
            reader->comment = md_trim(reader->comment);
        }
        words->count = md_split(reader->line, words->word, LAMMPS_WORDS);
    } while (words->count == 0);
    return 1;
}

// Words from `begin` on with one space between them, cut to what fits.
static void join(const struct lammps_words *words, int begin, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = begin; i < words->count && i < LAMMPS_WORDS && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i > begin ? " " : "",
                                 words->word[i]);
}

// ---- header

static int read_count(struct reader *reader, const char *noun)
{
    static const char *const nouns[] = {"atoms", "bonds", "angles", "dihedrals", "impropers"};
    static const char *const types[] = {"atom types", "bond types", "angle types", "dihedral types",
                                        "improper types"};
    struct lammps_file *file = reader->file;
    const struct md_place place = reader->words.place;
    for (int k = 0; k < LAMMPS_COUNTS; k++) {
        bool is_type = strcmp(noun, types[k]) == 0;
        if (!is_type && strcmp(noun, nouns[k]) != 0)
            continue;
        int64_t most = is_type ? (k == LAMMPS_ATOMS ? LAMMPS_ATOM_TYPES_MOST : LAMMPS_TYPES_MOST)
                               : INT_MAX / 3;
        int *line = is_type ? &file->type_line[k] : &file->count_line[k];
        int64_t count;
        if (!md_parse_integer(reader->words.word[0], &count) || count < 0 || count > most)
            return md_fail_at(place, -EINVAL, "'%.40s' %s; expected a number from 0 to %lld",
                              reader->words.word[0], noun, (long long)most);
        if (*line)
            return md_fail_at(place, -EINVAL, "the number of %s stands already in line %d", noun,
                              *line);
        *line = place.line;
        if (is_type)
            file->type_count[k] = (int)count;
        else
            file->count[k] = count;
        return 1;
    }
    return 0;
}

static int read_edge(struct reader *reader, int d)
{
    struct lammps_file *file = reader->file;
    const struct lammps_words *words = &reader->words;
    if (file->box_line[d])
        return md_fail_at(words->place, -EINVAL, "%clo %chi stand already in line %d", "xyz"[d],
                          "xyz"[d], file -> box_line[d]);
    file->box_line[d] = words->place.line;
    if (!md_parse_real(words->word[0], &file->lo[d]) ||
        !md_parse_real(words->word[1], &file->hi[d]) || !(file->hi[d] > file->lo[d]))
        return md_fail_at(words->place, -EINVAL,
                          "%clo is '%.40s' and %chi '%.40s'; expected two numbers, the second the "
                          "larger",
                          "xyz"[d], words -> word[0], "xyz"[d], words -> word[1]);
    return 1;
}

static int read_tilt(struct reader *reader)
{
    const struct lammps_words *words = &reader->words;
    for (int i = 0; i < 3; i++)
        if (!md_parse_real(words->word[i], &reader->file->tilt[i]))
            return md_fail_at(words->place, -EINVAL, "'%.40s' is no number; expected xy xz yz",
                              words->word[i]);
    reader->file->tilt_line = words->place.line;
    return 1;
}

// 1 for a header line that is known, 0 for one that is not.
static int read_header_line(struct reader *reader)
{
    static const char *const edges[] = {"xlo xhi", "ylo yhi", "zlo zhi"};
    static const char *const extra[] = {"extra bond per atom", "extra angle per atom",
                                        "extra dihedral per atom", "extra improper per atom",
                                        "extra special per atom"};
    static const char *const shapes[] = {"ellipsoids", "lines", "triangles", "bodies"};
    const struct lammps_words *words = &reader->words;
    char noun[80];
    join(words, words->count >= 6 ? 3 : words->count == 4 ? 2 : 1, noun, sizeof noun);
    for (int d = 0; d < 3; d++)
        if (words->count == 4 && strcmp(noun, edges[d]) == 0)
            return read_edge(reader, d);
    if (words->count == 6 && strcmp(noun, "xy xz yz") == 0)
        return read_tilt(reader);
    join(words, 1, noun, sizeof noun);
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        if (strcmp(noun, extra[i]) == 0)
            return 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(noun, shapes[i]) == 0 && strcmp(words->word[0], "0") != 0)
            return md_fail_at(words->place, -ENOTSUP, "%s are not supported", noun);
        else if (strcmp(noun, shapes[i]) == 0)
            return 1;
    return read_count(reader, noun);
}

static bool is_section(const struct reader *reader)
{
    return isalpha((unsigned char)reader->words.word[0][0]) != 0;
}

static int read_header(struct reader *reader)
{
    struct lammps_file *file = reader->file;
    // The first line is a title, whatever it says.
    int got = fetch(reader);
    while (got > 0 && (got = next_line(reader)) > 0 && !is_section(reader)) {
        got = read_header_line(reader);
        if (got == 0)
            return md_fail_at(
                reader->words.place, -EINVAL,
                "no line of a header that is known; expected counts ('N atoms', 'N "
                "atom types' ...), 'LO HI xlo xhi', 'XY XZ YZ xy xz yz' or a section");
    }
    reader->held = got > 0;
    if (got < 0)
        return got;
    if (!file->count_line[LAMMPS_ATOMS] || file->count[LAMMPS_ATOMS] == 0)
        return leat_fail(-EINVAL, "%s has no atoms: no line 'N atoms' in its header", file->name);
    for (int d = 0; d < 3; d++)
        if (!file->box_line[d])
            return leat_fail(-EINVAL, "%s has no line 'LO HI %clo %chi' in its header", file->name,
                             "xyz"[d], "xyz"[d]);
    return 0;
}

// ---- sections

static const struct section *find_section(const char *name)
{
    for (int i = 0; i < SECTIONS; i++)
        if (strcmp(name, sections[i].name) == 0)
            return &sections[i];
    return NULL;
}

static int64_t line_count(const struct lammps_file *file, const struct section *section)
{
    int64_t types = file->type_count[section->count];
    switch (section->kind) {
    case MASSES:
    case PAIRS:
    case BONDED:
        return types;
    case UNLIKE_PAIRS:
        return types * (types + 1) / 2;
    default:
        return file->count[section->count];
    }
}

static int choose_style(struct reader *reader)
{
    const char *said = reader->comment && *reader->comment ? reader->comment : NULL;
    const char *asked = reader->file->lammps->atom_style;
    const struct md_place place = reader->words.place;
    if (!said && !asked)
        return md_fail_at(place, -EINVAL,
                          "no comment after Atoms says the atom style; give it by --atom-style");
    if (said && asked && strcmp(said, asked) != 0)
        return md_fail_at(place, -EINVAL, "the comment says atom style '%.40s', --atom-style '%s'",
                          said, asked);
    int style = lammps_style(said ? said : asked);
    return style >= 0 ? style
                      : md_fail_at(place, -ENOTSUP,
                                   "atom style '%.40s'; there are atomic, charge, bond, angle, "
                                   "molecular and full",
                                   said ? said : asked);
}

// Coefficients of another style would be read as those of ours.
static int check_hint(const struct reader *reader, const struct section *section)
{
    const char *hint = reader->comment;
    if (!hint || !*hint || section->kind < PAIRS)
        return 0;
    if (section->kind == BONDED ? strcmp(hint, "harmonic") == 0
                                : strncmp(hint, "lj/cut", strlen("lj/cut")) == 0)
        return 0;
    return md_fail_at(reader->words.place, -ENOTSUP, "%s of style '%.60s'; there is %s",
                      section->name, hint,
                      section->kind == BONDED ? "harmonic" : "lj/cut and lj/cut/coul/cut");
}

static int read_entry(struct reader *reader, const struct section *section, int style)
{
    struct lammps_file *file = reader->file;
    const struct lammps_words *words = &reader->words;
    switch (section->kind) {
    case MASSES:
        return lammps_mass_entry(file, words);
    case ATOMS:
        return lammps_atom_entry(file, style, words);
    case VELOCITIES:
        return lammps_velocity_entry(file, words);
    case LINKS:
        return lammps_link_entry(file, (int)section->count, words);
    case PAIRS:
    case UNLIKE_PAIRS:
        return lammps_pair_entry(file, section->kind == UNLIKE_PAIRS, words);
    default:
        return lammps_bonded_entry(file, (int)section->count, words);
    }
}

static int fail_short(const struct reader *reader, const struct section *section, int64_t lines,
                      int64_t wanted)
{
    const struct lammps_file *file = reader->file;
    const int *line =
        section->kind == ATOMS || section->kind == VELOCITIES || section->kind == LINKS
            ? file->count_line
            : file->type_line;
    return md_fail_at(reader->words.place, -EINVAL,
                      "section %s ends after %lld of the %lld lines that line %d of the header "
                      "makes it",
                      section->name, (long long)lines, (long long)wanted, line[section->count]);
}

static int read_section(struct reader *reader, const struct section *section)
{
    const struct md_place place = reader->words.place;
    int *seen = &reader->seen[section - sections];
    if (section->kind == REFUSED)
        return md_fail_at(place, -ENOTSUP, "section %s is not supported", section->name);
    if (*seen)
        return md_fail_at(place, -EINVAL, "section %s stands already in line %d", section->name,
                          *seen);
    *seen = place.line;
    int style = section->kind == ATOMS ? choose_style(reader) : 0;
    int error = style < 0 ? style : check_hint(reader, section);
    if (error)
        return error;
    int64_t wanted = line_count(reader->file, section);
    for (int64_t i = 0; i < wanted; i++) {
        int got = next_line(reader);
        if (got < 0)
            return got;
        if (got == 0 || is_section(reader))
            return fail_short(reader, section, i, wanted);
        error = read_entry(reader, section, style);
        if (error)
            return error;
    }
    return 0;
}

static int read_sections(struct reader *reader)
{
    int got;
    const struct section *before = NULL;
    while ((got = next_line(reader)) > 0) {
        char name[80];
        join(&reader->words, 0, name, sizeof name);
        if (!is_section(reader))
            return md_fail_at(reader->words.place, -EINVAL,
                              "section %s goes on after the %lld lines that the header makes it",
                              before->name, (long long)line_count(reader->file, before));
        const struct section *section = find_section(name);
        if (!section)
            return md_fail_at(reader->words.place, -EINVAL, "no section is called '%.60s'", name);
        before = section;
        int error = read_section(reader, section);
        if (error)
            return error;
    }
    if (got < 0)
        return got;
    for (int i = 0; i < SECTIONS; i++) {
        bool needed = sections[i].kind == ATOMS || sections[i].kind == LINKS;
        if (needed && !reader->seen[i] && reader->file->count[sections[i].count] > 0)
            return leat_fail(-EINVAL, "%s has no section %s, although line %d counts its lines",
                             reader->file->name, sections[i].name,
                             reader->file->count_line[sections[i].count]);
    }
    return 0;
}

// ---- the file

static void free_file(struct lammps_file *file)
{
    free(file->atoms.entries);
    free(file->velocities.entries);
    free(file->masses.entries);
    free(file->pairs.entries);
    free(file->by_id);
    for (int k = 0; k < LAMMPS_COUNTS; k++) {
        free(file->links[k].entries);
        free(file->bonded[k].entries);
    }
}

int md_lammps_read_stream(FILE *stream, const char *name, const struct md_lammps *lammps,
                          struct md_lammps_input *input)
{
    struct lammps_file file = {.name = name, .lammps = lammps};
    struct reader reader = {.stream = stream, .file = &file, .words.place.file = name};
    *input = (struct md_lammps_input){0};
    int error = read_header(&reader);
    if (!error)
        error = read_sections(&reader);
    free(reader.line);
    if (!error)
        error = lammps_make_input(&file, input);
    free_file(&file);
    return error;
}
