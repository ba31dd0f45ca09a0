// SPDX-License-Identifier: Apache-2.0
// One kind of molecule of a topology, from its entries to what a run uses.
//
// Algorithm: entries are kept as they come; what this driver lacks is only remembered, and refused
// when [ molecules ] asks for the kind. Advantage: force-field files may carry any molecules that
// nobody uses. Disadvantage: faults of such molecules stay unnoticed.

#include "md/topology_parts.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 16 };

int md_molecule_begin(struct md_molecule_entry *molecule, struct md_place place, char *text)
{
    char *words[2];
    *molecule = (struct md_molecule_entry){.place = place, .used = -1};
    if (md_split(text, words, 2) != 2 || !md_parse_int(words[1], &molecule->nrexcl) ||
        molecule->nrexcl < 0)
        return md_fail_at(place, -EINVAL, "[ moleculetype ] wants a name and nrexcl, 0 or more");
    if (strlen(words[0]) >= sizeof molecule->out.name)
        return md_fail_at(place, -EINVAL,
                          "the name of moleculetype '%.80s' is longer than %zu characters",
                          words[0], sizeof molecule->out.name - 1);
    memcpy(molecule->out.name, words[0], strlen(words[0]) + 1);
    return 0;
}

void md_molecule_lacks(struct md_molecule_entry *molecule, struct md_place place, const char *what)
{
    if (molecule->lacking.file)
        return;
    molecule->lacking = place;
    snprintf(molecule->lacking_what, sizeof molecule->lacking_what, "%s", what);
}

// A number, after which GROMACS allows an insertion code of one character.
static bool parse_residue(char *text, int *residue)
{
    size_t length = strlen(text);
    if (length > 1 && !isdigit((unsigned char)text[length - 1]))
        text[length - 1] = 0;
    return md_parse_int(text, residue);
}

static int parse_atom(struct md_molecule_entry *molecule, const struct md_types *types,
                      struct md_place place, char **words, int count, struct md_atom *atom)
{
    int number, group;
    if (count < 6 || count > 11 || !md_parse_int(words[0], &number) ||
        !parse_residue(words[2], &atom->residue) || !md_parse_int(words[5], &group))
        return md_fail_at(place, -EINVAL,
                          "[ atoms ] wants number, type, residue number, residue, atom, charge "
                          "group, and at most charge, mass and type, charge, mass of state B");
    if (number != molecule->out.atom_count + 1)
        return md_fail_at(place, -EINVAL,
                          "[ atoms ] of '%s': atoms are numbered from 1 without gaps; expected %d, "
                          "found %d",
                          molecule->out.name, molecule->out.atom_count + 1, number);
    atom->type = md_names_find(&types->names, words[1], strlen(words[1]));
    if (atom->type < 0)
        return md_fail_at(place, -EINVAL, "atom type '%.80s' is not in [ atomtypes ]", words[1]);
    const struct md_type_entry *type = &types->entries[atom->type];
    atom->charge_e = type->charge_e;
    atom->mass_u = type->mass_u;
    if ((count > 6 && !md_parse_real(words[6], &atom->charge_e)) ||
        (count > 7 && !md_parse_real(words[7], &atom->mass_u)))
        return md_fail_at(place, -EINVAL,
                          "charge and mass of atom %d have to be finite numbers, found '%.40s'%s"
                          "%.40s%s",
                          number, words[6], count > 7 ? " and '" : "", count > 7 ? words[7] : "",
                          count > 7 ? "'" : "");
    snprintf(atom->residue_name, sizeof atom->residue_name, "%.7s", words[3]);
    snprintf(atom->name, sizeof atom->name, "%.7s", words[4]);
    if (type->particle != 'A') {
        char what[80];
        snprintf(what, sizeof what, "particle type %c of atom type %.31s", type->particle,
                 words[1]);
        md_molecule_lacks(molecule, place, what);
    }
    return 0;
}

int md_molecule_atom(struct md_molecule_entry *molecule, const struct md_types *types,
                     struct md_place place, char *text)
{
    char *words[COLUMNS_MAX];
    int count = md_split(text, words, COLUMNS_MAX);
    struct md_atom atom = {0};
    int error = parse_atom(molecule, types, place, words, count, &atom);
    if (error)
        return error;
    struct md_atom *grown = md_reserve(molecule->out.atoms, molecule->out.atom_count,
                                       &molecule->atom_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    molecule->out.atoms = grown;
    molecule->out.atoms[molecule->out.atom_count++] = atom;
    return 0;
}

int md_molecule_settle(struct md_molecule_entry *molecule, struct md_place place, char *text)
{
    char *words[4];
    int oxygen, function;
    struct md_settle settle;
    if (md_split(text, words, 4) != 4 || !md_parse_int(words[0], &oxygen) || oxygen < 1 ||
        !md_parse_int(words[1], &function) || !md_parse_real(words[2], &settle.d_oh_nm) ||
        !md_parse_real(words[3], &settle.d_hh_nm))
        return md_fail_at(place, -EINVAL,
                          "[ settles ] wants the oxygen's number, function type 1 and the two "
                          "distances O-H and H-H in nm");
    if (function != 1)
        return md_fail_at(place, -EINVAL, "[ settles ] function type %d is unknown; 1 is",
                          function);
    if (!(settle.d_oh_nm > 0 && settle.d_hh_nm > 0 && settle.d_hh_nm < 2 * settle.d_oh_nm))
        return md_fail_at(place, -EINVAL,
                          "[ settles ] distances of %g (O-H) and %g (H-H) nm make no triangle",
                          settle.d_oh_nm, settle.d_hh_nm);
    settle.oxygen = oxygen - 1;
    int capacity = molecule->settle_capacity; // two arrays grow in step
    struct md_place *places =
        md_reserve(molecule->settle_places, molecule->out.settle_count, &capacity, sizeof *places);
    if (!places)
        return -ENOMEM;
    molecule->settle_places = places;
    struct md_settle *grown = md_reserve(molecule->out.settles, molecule->out.settle_count,
                                         &molecule->settle_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    molecule->out.settles = grown;
    molecule->settle_places[molecule->out.settle_count] = place;
    molecule->out.settles[molecule->out.settle_count++] = settle;
    return 0;
}

int md_molecule_link(struct md_links *links, int a, int b, struct md_place place)
{
    struct md_link *grown = md_reserve(links->links, links->count, &links->capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    links->links = grown;
    links->links[links->count++] = (struct md_link){a, b, place};
    return 0;
}

int md_molecule_exclusion(struct md_molecule_entry *molecule, struct md_place place, char *text)
{
    char *rest = text, *word;
    int atom = 0, partner;
    while ((word = md_next_word(&rest)) != NULL) {
        if (!md_parse_int(word, &partner) || partner < 1)
            return md_fail_at(place, -EINVAL, "[ exclusions ] wants atom numbers, found '%.40s'",
                              word);
        if (atom == 0) {
            atom = partner;
            continue;
        }
        int error = md_molecule_link(&molecule->exclusions, atom - 1, partner - 1, place);
        if (error)
            return error;
    }
    return 0;
}

// ---- use

static int check_exclusions(const struct md_molecule_entry *molecule)
{
    for (int i = 0; i < molecule->exclusions.count; i++) {
        const struct md_link *link = &molecule->exclusions.links[i];
        int larger = link->a > link->b ? link->a : link->b;
        if (larger >= molecule->out.atom_count)
            return md_fail_at(link->place, -EINVAL,
                              "[ exclusions ] names atom %d, but '%s' has %d atoms", larger + 1,
                              molecule->out.name, molecule->out.atom_count);
    }
    return 0;
}

static int check_atoms(const struct md_molecule_entry *molecule, struct md_place place)
{
    const struct md_molecule_type *out = &molecule->out;
    if (out->atom_count == 0)
        return md_fail_at(place, -EINVAL, "moleculetype '%s' of %s:%d has no atoms", out->name,
                          molecule->place.file, molecule->place.line);
    for (int i = 0; i < out->atom_count; i++) {
        if (!(out->atoms[i].mass_u > 0))
            return md_fail_at(molecule->place, -EINVAL,
                              "atom %d (%s) of moleculetype '%s' has a mass of %g; it has to be "
                              "above 0 to move",
                              i + 1, out->atoms[i].name, out->name, out->atoms[i].mass_u);
    }
    return 0;
}

static int check_settles(const struct md_molecule_entry *molecule)
{
    const struct md_molecule_type *out = &molecule->out;
    char *taken = calloc((size_t)out->atom_count, 1);
    if (!taken)
        return leat_fail(-ENOMEM, "no memory to check %d atoms", out->atom_count);
    int error = 0;
    for (int i = 0; i < out->settle_count && !error; i++) {
        int oxygen = out->settles[i].oxygen;
        struct md_place place = molecule->settle_places[i];
        if (oxygen > out->atom_count - 3) {
            error = md_fail_at(place, -EINVAL,
                               "[ settles ] needs two hydrogens after atom %d, but '%s' has %d "
                               "atoms",
                               oxygen + 1, out->name, out->atom_count);
            break;
        }
        double difference = out->atoms[oxygen + 1].mass_u - out->atoms[oxygen + 2].mass_u;
        if (difference < 0 || difference > 0)
            error = md_fail_at(place, -EINVAL,
                               "[ settles ] wants equal masses of atoms %d and %d, found %g and %g",
                               oxygen + 2, oxygen + 3, out->atoms[oxygen + 1].mass_u,
                               out->atoms[oxygen + 2].mass_u);
        for (int j = oxygen; j < oxygen + 3 && !error; j++) {
            if (taken[j]++)
                error = md_fail_at(place, -EINVAL, "[ settles ] has atom %d in two waters", j + 1);
        }
    }
    free(taken);
    return error;
}

int md_molecule_use(struct md_molecule_entry *molecule, struct md_types *types,
                    struct md_place place)
{
    if (molecule->lacking.file)
        return md_fail_at(molecule->lacking, -ENOTSUP,
                          "%s is not supported; moleculetype '%s' has it, and [ molecules ] at "
                          "%s:%d uses that",
                          molecule->lacking_what, molecule->out.name, place.file, place.line);
    int error = check_atoms(molecule, place);
    if (!error)
        error = check_settles(molecule);
    if (!error)
        error = check_exclusions(molecule);
    if (!error)
        error = md_molecule_resolve(molecule, types);
    if (!error)
        error = md_molecule_exclude(molecule);
    for (int i = 0; i < molecule->out.atom_count && !error; i++) {
        struct md_atom *atom = &molecule->out.atoms[i];
        error = md_types_use(types, atom->type, molecule->place, &atom->type);
    }
    return error;
}

void md_molecule_free(struct md_molecule_entry *molecule)
{
    md_molecule_type_free(&molecule->out);
    free(molecule->bonds.links);
    free(molecule->exclusions.links);
    free(molecule->entries);
    free(molecule->settle_places);
}
