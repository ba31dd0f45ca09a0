// SPDX-License-Identifier: Apache-2.0
// Molecules of a LAMMPS data file: what its bonds and other terms hold together.
//
// Algorithm: union and find over all links, the atom of the least id standing for a molecule; links
// sorted within each; molecules that are equal in types, charges and links are one kind, found by a
// hash and proved by comparison. Advantage: works for ids in any order and needs no molecule ids.
// Disadvantage: two molecules whose atoms are numbered in different orders are two kinds.

#include "md/lammps_parts.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct finder {
    const struct lammps_file *file;
    struct lammps_molecules *found; // in order of their least ids
    int *molecule;                  // by id - 1; before that the way to the root
    int *slot, slot_count;          // open addressing: a molecule + 1 of each kind, or 0
};

static int root_of(int *parent, int atom)
{
    while (parent[atom] != atom) {
        parent[atom] = parent[parent[atom]];
        atom = parent[atom];
    }
    return atom;
}

static void unite(int *parent, int a, int b)
{
    int one = root_of(parent, a), other = root_of(parent, b);
    if (one < other)
        parent[other] = one;
    else
        parent[one] = other;
}

static void unite_all(struct finder *finder)
{
    const struct lammps_file *file = finder->file;
    for (int i = 0; i < file->atoms.count; i++)
        finder->molecule[i] = i;
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS; k++) {
        const struct lammps_link *link = file->links[k].entries;
        for (int i = 0; i < file->links[k].count; i++)
            for (int a = 1; a < lammps_arity[k]; a++)
                unite(finder->molecule, link[i].atom[0], link[i].atom[a]);
    }
}

// Numbers the molecules by their least ids and lists the atoms of each, ascending.
static void list_atoms(struct finder *finder)
{
    struct lammps_molecules *found = finder->found;
    int atoms = finder->file->atoms.count, *molecule = finder->molecule;
    for (int i = 0; i < atoms; i++)
        molecule[i] = root_of(molecule, i);
    // A root is the least of its atoms, and so has its number before the others ask for it.
    for (int i = 0; i < atoms; i++)
        molecule[i] = molecule[i] == i ? found->count++ : molecule[molecule[i]];
    for (int i = 0; i < atoms; i++)
        found->first[molecule[i] + 1]++;
    for (int m = 0; m < found->count; m++)
        found->first[m + 1] += found->first[m];
    for (int i = 0; i < atoms; i++)
        found->atom[found->first[molecule[i]]++] = i;
    for (int m = found->count; m > 0; m--)
        found->first[m] = found->first[m - 1];
    found->first[0] = 0;
}

static void swap(int *a, int *b)
{
    int old = *a;
    *a = *b;
    *b = old;
}

// The same link, however it is written.
static void turn(struct lammps_link *link)
{
    int *atom = link->atom;
    if (link->kind == LAMMPS_BONDS && atom[0] > atom[1])
        swap(&atom[0], &atom[1]);
    if (link->kind == LAMMPS_ANGLES && atom[0] > atom[2])
        swap(&atom[0], &atom[2]);
    if (link->kind == LAMMPS_DIHEDRALS && atom[0] > atom[3]) {
        swap(&atom[0], &atom[3]);
        swap(&atom[1], &atom[2]);
    }
}

static int compare_words(const struct lammps_link *a, const struct lammps_link *b)
{
    const int left[] = {a->kind, a->atom[0], a->atom[1], a->atom[2], a->atom[3], a->type};
    const int right[] = {b->kind, b->atom[0], b->atom[1], b->atom[2], b->atom[3], b->type};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static int compare_links(const void *left, const void *right)
{
    const struct lammps_link *a = left, *b = right;
    if (a->molecule != b->molecule)
        return a->molecule < b->molecule ? -1 : 1;
    int order = compare_words(a, b);
    // Equal ones in the file's order, so that messages are the same each time.
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

// Links with places in their molecules instead of ids, sorted.
static void list_links(struct finder *finder, int *place)
{
    struct lammps_molecules *found = finder->found;
    for (int i = 0; i < finder->file->atoms.count; i++)
        place[found->atom[i]] = i;
    int count = 0;
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS; k++) {
        const struct lammps_link *link = finder->file->links[k].entries;
        for (int i = 0; i < finder->file->links[k].count; i++) {
            struct lammps_link *to = &found->link[count++];
            *to = link[i];
            to->molecule = finder->molecule[link[i].atom[0]];
            for (int a = 0; a < lammps_arity[k]; a++)
                to->atom[a] = place[link[i].atom[a]] - found->first[to->molecule];
            turn(to);
        }
    }
    found->link_count = count;
    qsort(found->link, (size_t)count, sizeof *found->link, compare_links);
    for (int i = 0; i < count; i++)
        found->first_link[found->link[i].molecule + 1]++;
    for (int m = 0; m < found->count; m++)
        found->first_link[m + 1] += found->first_link[m];
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_molecule(const struct finder *finder, int m)
{
    const struct lammps_molecules *found = finder->found;
    uint64_t hash = (uint64_t)(found->first[m + 1] - found->first[m]);
    for (int i = found->first[m]; i < found->first[m + 1]; i++) {
        const struct lammps_atom *atom = &finder->file->by_id[found->atom[i]];
        double charge = atom->charge + 0.0; // one zero
        uint64_t bits;
        memcpy(&bits, &charge, sizeof bits);
        hash = mix(mix(hash, (uint64_t)atom->type), bits);
    }
    for (int i = found->first_link[m]; i < found->first_link[m + 1]; i++) {
        const struct lammps_link *link = &found->link[i];
        hash = mix(hash, (uint64_t)link->kind << 32 | (uint64_t)link->type);
        for (int a = 0; a < lammps_arity[link->kind]; a++)
            hash = mix(hash, (uint64_t)link->atom[a]);
    }
    return hash ^ (hash >> 32);
}

static bool are_equal(const struct finder *finder, int m, int other)
{
    const struct lammps_molecules *found = finder->found;
    int atoms = found->first[m + 1] - found->first[m];
    int links = found->first_link[m + 1] - found->first_link[m];
    if (atoms != found->first[other + 1] - found->first[other] ||
        links != found->first_link[other + 1] - found->first_link[other])
        return false;
    for (int i = 0; i < atoms; i++) {
        const struct lammps_atom *a = &finder->file->by_id[found->atom[found->first[m] + i]];
        const struct lammps_atom *b = &finder->file->by_id[found->atom[found->first[other] + i]];
        if (a->type != b->type || a->charge < b->charge || a->charge > b->charge)
            return false;
    }
    for (int i = 0; i < links; i++)
        if (compare_words(&found->link[found->first_link[m] + i],
                          &found->link[found->first_link[other] + i]))
            return false;
    return true;
}

static void find_kinds(struct finder *finder)
{
    struct lammps_molecules *found = finder->found;
    size_t mask = (size_t)finder->slot_count - 1;
    for (int m = 0; m < found->count; m++) {
        size_t slot = (size_t)hash_molecule(finder, m) & mask;
        while (finder->slot[slot] && !are_equal(finder, m, finder->slot[slot] - 1))
            slot = (slot + 1) & mask;
        if (!finder->slot[slot]) {
            finder->slot[slot] = m + 1;
            finder->found->kind[m] = found->kind_count++;
        }
        finder->found->kind[m] = finder->found->kind[finder->slot[slot] - 1];
    }
}

static int allocate(struct lammps_molecules *molecules, size_t atoms, size_t links)
{
    molecules->first = calloc(atoms + 2, sizeof *molecules->first);
    molecules->kind = calloc(atoms + 1, sizeof *molecules->kind);
    molecules->atom = calloc(atoms + 1, sizeof *molecules->atom);
    molecules->first_link = calloc(atoms + 2, sizeof *molecules->first_link);
    molecules->link = calloc(links + 1, sizeof *molecules->link);
    if (!molecules->first || !molecules->kind || !molecules->atom || !molecules->first_link ||
        !molecules->link)
        return leat_fail(-ENOMEM, "no memory for the molecules of %zu atoms", atoms);
    return 0;
}

static int prepare(struct finder *finder)
{
    size_t atoms = (size_t)finder->file->atoms.count;
    int64_t links = 0;
    for (int k = LAMMPS_BONDS; k < LAMMPS_COUNTS; k++)
        links += finder->file->links[k].count;
    if (links > INT_MAX)
        return leat_fail(-ENOTSUP, "%s has more than %d bonds, angles, dihedrals and impropers",
                         finder->file->name, INT_MAX);
    finder->slot_count = 16;
    while ((size_t)finder->slot_count < 2 * atoms && finder->slot_count <= INT_MAX / 2)
        finder->slot_count *= 2;
    finder->molecule = calloc(atoms, sizeof *finder->molecule);
    finder->slot = calloc((size_t)finder->slot_count, sizeof *finder->slot);
    if (!finder->molecule || !finder->slot)
        return leat_fail(-ENOMEM, "no memory for the molecules of %zu atoms", atoms);
    return allocate(finder->found, atoms, (size_t)links);
}

int lammps_find_molecules(const struct lammps_file *file, struct lammps_molecules *molecules)
{
    struct finder finder = {.file = file, .found = molecules};
    int error = prepare(&finder);
    if (!error) {
        unite_all(&finder);
        list_atoms(&finder);
        list_links(&finder, molecules->kind); // not in use yet
        find_kinds(&finder);
    }
    free(finder.molecule);
    free(finder.slot);
    return error;
}

void lammps_free_molecules(struct lammps_molecules *molecules)
{
    free(molecules->first);
    free(molecules->kind);
    free(molecules->atom);
    free(molecules->first_link);
    free(molecules->link);
}
