// SPDX-License-Identifier: Apache-2.0
// Reader of GROMACS topologies: the directives and their order.
//
// Algorithm: one pass over the preprocessed lines; a table says what each directive is, what has to
// come before it and who takes its entries. [ molecules ] settles what is used, and only that is
// carried into the topology. Advantage: reads whole force fields as they are. Disadvantage: like
// GROMACS it knows a molecule only after its definition, so the order of the file matters.

#include "md/topology_parts.h"

#include "core/error.h"
#include "md/preprocess.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum directive_kind {
    DEFAULTS,
    ATOM_TYPES,
    PAIR_PARAMETERS,
    PARAMETERS,
    SKIPPED,
    MOLECULE_TYPE,
    ATOMS,
    SETTLES,
    TERMS,
    EXCLUSIONS,
    LACKING, // fine in a molecule that is not used
    SYSTEM,
    MOLECULES,
    REFUSED, // acts on the whole system
    KIND_COUNT
};

struct directive {
    const char *name;
    enum directive_kind kind;
    enum directive_kind after; // has to have come before; KIND_COUNT: nothing
    enum md_section section;   // of TERMS and PARAMETERS
};

static const struct directive directives[] = {
    {"defaults", DEFAULTS, KIND_COUNT, 0},
    {"atomtypes", ATOM_TYPES, DEFAULTS, 0},
    {"nonbond_params", PAIR_PARAMETERS, ATOM_TYPES, 0},
    {"bondtypes", PARAMETERS, ATOM_TYPES, MD_SECTION_BONDS},
    {"constrainttypes", PARAMETERS, ATOM_TYPES, MD_SECTION_CONSTRAINTS},
    {"pairtypes", PARAMETERS, ATOM_TYPES, MD_SECTION_PAIRS},
    {"angletypes", PARAMETERS, ATOM_TYPES, MD_SECTION_ANGLES},
    {"dihedraltypes", PARAMETERS, ATOM_TYPES, MD_SECTION_DIHEDRALS},
    {"cmaptypes", SKIPPED, ATOM_TYPES, 0},
    {"implicit_genborn_params", SKIPPED, ATOM_TYPES, 0},
    {"implicit_surface_params", SKIPPED, ATOM_TYPES, 0},
    {"moleculetype", MOLECULE_TYPE, ATOM_TYPES, 0},
    {"atoms", ATOMS, MOLECULE_TYPE, 0},
    {"settles", SETTLES, ATOMS, 0},
    {"bonds", TERMS, ATOMS, MD_SECTION_BONDS},
    {"exclusions", EXCLUSIONS, ATOMS, 0},
    {"pairs", TERMS, ATOMS, MD_SECTION_PAIRS},
    {"pairs_nb", LACKING, ATOMS, 0},
    {"angles", TERMS, ATOMS, MD_SECTION_ANGLES},
    {"dihedrals", TERMS, ATOMS, MD_SECTION_DIHEDRALS},
    {"constraints", TERMS, ATOMS, MD_SECTION_CONSTRAINTS},
    {"cmap", LACKING, ATOMS, 0},
    {"virtual_sites1", LACKING, ATOMS, 0},
    {"virtual_sites2", LACKING, ATOMS, 0},
    {"virtual_sites3", LACKING, ATOMS, 0},
    {"virtual_sites4", LACKING, ATOMS, 0},
    {"virtual_sitesn", LACKING, ATOMS, 0},
    {"dummies1", LACKING, ATOMS, 0}, // the older names
    {"dummies2", LACKING, ATOMS, 0},
    {"dummies3", LACKING, ATOMS, 0},
    {"dummies4", LACKING, ATOMS, 0},
    {"dummiesn", LACKING, ATOMS, 0},
    {"polarization", LACKING, ATOMS, 0},
    {"water_polarization", LACKING, ATOMS, 0},
    {"thole_polarization", LACKING, ATOMS, 0},
    {"position_restraints", LACKING, ATOMS, 0},
    {"angle_restraints", LACKING, ATOMS, 0},
    {"angle_restraints_z", LACKING, ATOMS, 0},
    {"distance_restraints", LACKING, ATOMS, 0},
    {"orientation_restraints", LACKING, ATOMS, 0},
    {"dihedral_restraints", LACKING, ATOMS, 0},
    {"system", SYSTEM, MOLECULE_TYPE, 0},
    {"molecules", MOLECULES, SYSTEM, 0},
    {"intermolecular_interactions", REFUSED, MOLECULES, 0},
};

enum { DIRECTIVE_COUNT = sizeof directives / sizeof directives[0] };

struct reader {
    struct md_source *source;
    struct md_types types;
    struct md_molecule_entry *molecules;
    int molecule_count, molecule_capacity;
    struct md_names molecule_names; // numbered as `molecules`
    int *used;                      // molecules in use, in order
    int used_count, used_capacity;
    const struct directive *current; // NULL before the first
    bool molecule_open;              // [ moleculetype ] has had its entry
    bool seen[KIND_COUNT];
    struct md_topology *topology;
    int block_capacity;
    // The first rigid water, which all others have to equal.
    struct md_settle water;
    double water_mass_u[2];
    struct md_place water_place;
};

static struct md_place here(const struct reader *reader)
{
    return md_source_place(reader->source);
}

// ---- directives

static int fail_unknown(struct reader *reader, const char *name)
{
    int nearest = 0;
    for (int i = 1; i < DIRECTIVE_COUNT; i++) {
        if (md_word_distance(name, directives[i].name) <
            md_word_distance(name, directives[nearest].name))
            nearest = i;
    }
    return md_fail_at(here(reader), -EINVAL,
                      "unknown directive [ %.60s ]; the nearest known one is [ %s ]", name,
                      directives[nearest].name);
}

static int check_order(struct reader *reader, const struct directive *directive)
{
    if (directive->after != KIND_COUNT && !reader->seen[directive->after]) {
        int i = 0;
        while (directives[i].kind != directive->after)
            i++;
        return md_fail_at(here(reader), -EINVAL, "[ %s ] comes before any [ %s ]", directive->name,
                          directives[i].name);
    }
    if (directive->kind < MOLECULE_TYPE && reader->seen[MOLECULE_TYPE])
        return md_fail_at(here(reader), -EINVAL,
                          "[ %s ] comes after a [ moleculetype ]; parameters have to come first",
                          directive->name);
    if (directive->kind < SYSTEM && reader->seen[MOLECULES])
        return md_fail_at(here(reader), -EINVAL,
                          "[ %s ] comes after [ molecules ], which has to be last",
                          directive->name);
    if (directive->kind > MOLECULE_TYPE && directive->kind <= LACKING && !reader->molecule_open)
        return md_fail_at(here(reader), -EINVAL,
                          "[ %s ] follows a [ moleculetype ] without name and nrexcl",
                          directive->name);
    return 0;
}

static int begin_directive(struct reader *reader, char *text)
{
    char *end = strchr(text, ']');
    if (!end)
        return md_fail_at(here(reader), -EINVAL, "expected '[ directive ]', found '%.80s'", text);
    if (*md_trim(end + 1))
        return md_fail_at(here(reader), -EINVAL, "text after ']': '%.80s'", md_trim(end + 1));
    *end = 0;
    char *name = md_trim(text + 1);
    const struct directive *directive = NULL;
    for (int i = 0; i < DIRECTIVE_COUNT && !directive; i++) {
        if (md_same_word(name, directives[i].name))
            directive = &directives[i];
    }
    if (!directive)
        return fail_unknown(reader, name);
    int error = check_order(reader, directive);
    if (error)
        return error;
    if (directive->kind == MOLECULE_TYPE)
        reader->molecule_open = false;
    reader->seen[directive->kind] = true;
    reader->current = directive;
    return 0;
}

// ---- molecules

static int add_molecule(struct reader *reader, char *text)
{
    struct md_molecule_entry *grown = md_reserve(reader->molecules, reader->molecule_count,
                                                 &reader->molecule_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    reader->molecules = grown;
    struct md_molecule_entry *molecule = &reader->molecules[reader->molecule_count];
    int error = md_molecule_begin(molecule, here(reader), text);
    if (error)
        return error;
    const char *name = molecule->out.name;
    int old = md_names_find(&reader->molecule_names, name, strlen(name));
    if (old >= 0)
        return md_fail_at(here(reader), -EINVAL, "moleculetype '%s' is defined already at %s:%d",
                          name, reader->molecules[old].place.file,
                          reader->molecules[old].place.line);
    int number = md_names_add(&reader->molecule_names, name, strlen(name));
    if (number < 0)
        return number;
    reader->molecule_count++;
    reader->molecule_open = true;
    return 0;
}

// The names that have room, the latest first: force fields come before a user's own molecules.
static void list_molecules(const struct reader *reader, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = reader->molecule_count - 1; i >= 0; i--) {
        const char *name = reader->molecules[i].out.name;
        if (used + strlen(name) + sizeof ", ..." >= bytes) {
            snprintf(text + used, bytes - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
    }
}

// The exact name, or else the only one that differs in case.
static int find_molecule(struct reader *reader, const char *name)
{
    int number = md_names_find(&reader->molecule_names, name, strlen(name)), found = 0;
    if (number >= 0)
        return number;
    for (int i = 0; i < reader->molecule_count; i++) {
        if (strcasecmp(reader->molecules[i].out.name, name) == 0) {
            number = i;
            found++;
        }
    }
    if (found == 1)
        return number;
    if (found)
        return md_fail_at(here(reader), -EINVAL,
                          "moleculetype '%.80s' is defined in several spellings of case; write one "
                          "of them",
                          name);
    char known[160];
    list_molecules(reader, known, sizeof known);
    return md_fail_at(here(reader), -EINVAL, "moleculetype '%.80s' is not defined; known are: %s",
                      name, known);
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

static int check_water(struct reader *reader, const struct md_molecule_entry *molecule)
{
    for (int i = 0; i < molecule->out.settle_count; i++) {
        const struct md_settle *settle = &molecule->out.settles[i];
        double oxygen_u = molecule->out.atoms[settle->oxygen].mass_u;
        double hydrogen_u = molecule->out.atoms[settle->oxygen + 1].mass_u;
        if (!reader->water_place.file) {
            reader->water = *settle;
            reader->water_mass_u[0] = oxygen_u;
            reader->water_mass_u[1] = hydrogen_u;
            reader->water_place = molecule->settle_places[i];
        }
        if (differ(settle->d_oh_nm, reader->water.d_oh_nm) ||
            differ(settle->d_hh_nm, reader->water.d_hh_nm) ||
            differ(oxygen_u, reader->water_mass_u[0]) ||
            differ(hydrogen_u, reader->water_mass_u[1]))
            return md_fail_at(molecule->settle_places[i], -ENOTSUP,
                              "[ settles ] of '%s' differs in distances or masses from that of "
                              "%s:%d; one kind of rigid water is supported",
                              molecule->out.name, reader->water_place.file,
                              reader->water_place.line);
    }
    return 0;
}

static int use_molecule(struct reader *reader, struct md_molecule_entry *molecule)
{
    if (molecule->used >= 0)
        return 0;
    int error = md_molecule_use(molecule, &reader->types, here(reader));
    if (!error)
        error = check_water(reader, molecule);
    if (error)
        return error;
    int *grown =
        md_reserve(reader->used, reader->used_count, &reader->used_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    reader->used = grown;
    reader->used[reader->used_count] = (int)(molecule - reader->molecules);
    molecule->used = reader->used_count++;
    return 0;
}

static int add_block(struct reader *reader, const struct md_molecule_entry *molecule, int64_t count)
{
    struct md_topology *topology = reader->topology;
    int64_t atoms, atom_count, molecule_count;
    if (__builtin_mul_overflow(count, (int64_t)molecule->out.atom_count, &atoms) ||
        __builtin_add_overflow(topology->atom_count, atoms, &atom_count) ||
        __builtin_add_overflow(topology->molecule_count, count, &molecule_count))
        return md_fail_at(here(reader), -EINVAL, "%lld molecules of '%s' are more atoms than 2^63",
                          (long long)count, molecule->out.name);
    int last = topology->block_count - 1;
    if (last >= 0 && topology->blocks[last].type == molecule->used) {
        topology->blocks[last].count += count;
    } else {
        struct md_molecule_block *grown = md_reserve(topology->blocks, topology->block_count,
                                                     &reader->block_capacity, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        topology->blocks = grown;
        topology->blocks[topology->block_count++] = (struct md_molecule_block){
            molecule->used, count, topology->atom_count, topology->molecule_count};
    }
    topology->atom_count = atom_count;
    topology->molecule_count = molecule_count;
    return 0;
}

static int add_molecules(struct reader *reader, char *text)
{
    char *words[2];
    int64_t count;
    if (md_split(text, words, 2) != 2 || !md_parse_integer(words[1], &count) || count < 0)
        return md_fail_at(here(reader), -EINVAL,
                          "[ molecules ] wants a moleculetype and a count, 0 or more");
    int number = find_molecule(reader, words[0]);
    if (number < 0)
        return number;
    if (count == 0)
        return 0;
    int error = use_molecule(reader, &reader->molecules[number]);
    return error ? error : add_block(reader, &reader->molecules[number], count);
}

// ---- entries

static int lack(struct reader *reader, struct md_molecule_entry *molecule)
{
    char what[64];
    snprintf(what, sizeof what, "[ %s ]", reader->current->name);
    md_molecule_lacks(molecule, here(reader), what);
    return 0;
}

static int molecule_entry(struct reader *reader, char *text)
{
    struct md_molecule_entry *molecule = &reader->molecules[reader->molecule_count - 1];
    switch (reader->current->kind) {
    case ATOMS:
        return md_molecule_atom(molecule, &reader->types, here(reader), text);
    case SETTLES:
        return md_molecule_settle(molecule, here(reader), text);
    case TERMS:
        return md_molecule_entry_add(molecule, reader->current->section, here(reader), text);
    case EXCLUSIONS:
        return md_molecule_exclusion(molecule, here(reader), text);
    default:
        return lack(reader, molecule);
    }
}

static int entry(struct reader *reader, char *text)
{
    // The headings of the AMBER and CHARMM force-field files stand there, without a ';'.
    if (!reader->current && !md_source_in_first_file(reader->source))
        return 0;
    if (!reader->current)
        return md_fail_at(here(reader), -EINVAL,
                          "expected '[ directive ]', found '%.80s'; comments begin with ';'", text);
    switch (reader->current->kind) {
    case DEFAULTS:
        return md_types_defaults(&reader->types, here(reader), text);
    case ATOM_TYPES:
        return md_types_atom_type(&reader->types, here(reader), text);
    case PAIR_PARAMETERS:
        return md_types_pair(&reader->types, here(reader), text);
    case PARAMETERS:
        return md_types_parameters(&reader->types, reader->current->section, here(reader), text);
    case SKIPPED:
        return 0;
    case MOLECULE_TYPE:
        return add_molecule(reader, text);
    case SYSTEM:
        snprintf(reader->topology->title, sizeof reader->topology->title, "%.127s", text);
        return 0;
    case MOLECULES:
        return add_molecules(reader, text);
    case REFUSED:
        return md_fail_at(here(reader), -ENOTSUP, "[ %s ] is not supported", reader->current->name);
    default:
        return molecule_entry(reader, text);
    }
}

static int read_all(struct reader *reader)
{
    char *text;
    int result;
    while ((result = md_source_next(reader->source, &text)) > 0) {
        int error = *text == '[' ? begin_directive(reader, text) : entry(reader, text);
        if (error)
            return error;
    }
    return result;
}

// Moves what is in use into the topology.
static int finish(struct reader *reader, const char *name)
{
    struct md_topology *topology = reader->topology;
    if (reader->used_count == 0)
        return leat_fail(-EINVAL, "%s: no [ molecules ] with a count above 0", name);
    if (!reader->types.rule)
        return leat_fail(-EINVAL, "%s: no entry in [ defaults ]", name);
    topology->molecule_types = calloc((size_t)reader->used_count, sizeof *topology->molecule_types);
    if (!topology->molecule_types)
        return leat_fail(-ENOMEM, "%s: no memory for the molecules", name);
    for (int i = 0; i < reader->used_count; i++) {
        struct md_molecule_type *type = &reader->molecules[reader->used[i]].out;
        topology->molecule_types[topology->molecule_type_count++] = *type;
        *type = (struct md_molecule_type){0};
    }
    return md_types_tables(&reader->types, topology);
}

static void end(struct reader *reader)
{
    md_source_close(reader->source);
    md_types_free(&reader->types);
    md_names_free(&reader->molecule_names);
    for (int i = 0; i < reader->molecule_count; i++)
        md_molecule_free(&reader->molecules[i]);
    free(reader->molecules);
    free(reader->used);
    md_topology_free(reader->topology);
}

int md_topology_read_stream(FILE *stream, const char *name, const char *define,
                            const char *include_dirs, struct md_topology **topology)
{
    struct reader reader = {.topology = calloc(1, sizeof *reader.topology)};
    if (!reader.topology)
        return leat_fail(-ENOMEM, "%s: out of memory", name);
    int error = md_source_open(name, stream, define, include_dirs, &reader.source);
    if (!error)
        error = read_all(&reader);
    if (!error)
        error = finish(&reader, name);
    if (!error) {
        *topology = reader.topology;
        reader.topology = NULL;
    }
    end(&reader);
    return error;
}

int md_topology_read(const char *path, const char *define, const char *include_dirs,
                     struct md_topology **topology)
{
    return md_topology_read_stream(NULL, path, define, include_dirs, topology);
}
