// SPDX-License-Identifier: Apache-2.0
// The topology that the molecules of a LAMMPS data file make.
//
// Each kind is built from its first molecule. Pairs up to three bonds apart are excluded as
// special_bonds says; where 1-4 pairs keep a part of their interaction, they become terms, as they
// are in GROMACS. Advantage: nothing in the rest of the driver knows whence a topology is.
// Disadvantage: such a term has no cut-off, where LAMMPS leaves a 1-4 pair out beyond it.

#include "md/lammps_parts.h"
#include "md/topology_parts.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    const struct lammps_file *file;
    const struct lammps_molecules *molecules;
    const struct lammps_coeffs *coeffs;
    struct md_topology *topology;
    int *used; // by atom type: its number among the types in use + 1
    int *type; // by that number
};

static int use_type(struct maker *maker, int type)
{
    if (!maker->used[type]) {
        maker->type[maker->topology->type_count] = type;
        maker->used[type] = ++maker->topology->type_count;
    }
    return maker->used[type] - 1;
}

static int make_atoms(struct maker *maker, int m, struct md_molecule_type *out)
{
    const struct lammps_molecules *molecules = maker->molecules;
    int first = molecules->first[m];
    out->atom_count = molecules->first[m + 1] - first;
    out->atoms = calloc((size_t)out->atom_count, sizeof *out->atoms);
    if (!out->atoms)
        return leat_fail(-ENOMEM, "no memory for a molecule of %d atoms", out->atom_count);
    for (int i = 0; i < out->atom_count; i++) {
        const struct lammps_atom *from = &maker->file->by_id[molecules->atom[first + i]];
        struct md_atom *atom = &out->atoms[i];
        atom->mass_u = maker->coeffs->mass_u[from->type];
        if (!(atom->mass_u > 0.0))
            return md_fail_at((struct md_place){maker->file->name, from->line}, -EINVAL,
                              "atom type %d has no mass: no line for it in a section Masses",
                              from->type);
        atom->charge_e = maker->file->lammps->coulomb ? from->charge : 0.0;
        atom->type = use_type(maker, from->type);
        atom->residue = 1;
        snprintf(atom->name, sizeof atom->name, "%d", from->type);
        snprintf(atom->residue_name, sizeof atom->residue_name, "MOL");
    }
    return 0;
}

// How many bonds apart pairs are excluded, those that come back as terms included.
static int exclusion_depth(const struct md_lammps *lammps)
{
    const double *weight = lammps->special_lj;
    if (weight[2] < 1.0 || (lammps->coulomb && lammps->special_coulomb[2] < 1.0))
        return 3;
    return weight[1] < 1.0 ? 2 : weight[0] < 1.0 ? 1 : 0;
}

static bool has_pair_terms(const struct md_lammps *lammps)
{
    return exclusion_depth(lammps) == 3 &&
           (lammps->special_lj[2] > 0.0 || (lammps->coulomb && lammps->special_coulomb[2] > 0.0));
}

static int exclude(const struct maker *maker, int m, int depth, struct md_molecule_type *out)
{
    const struct lammps_molecules *molecules = maker->molecules;
    struct md_molecule_entry entry = {.out = *out, .nrexcl = depth};
    int count = molecules->first_link[m + 1] - molecules->first_link[m];
    entry.bonds.links = calloc((size_t)count + 1, sizeof *entry.bonds.links);
    entry.bonds.capacity = count + 1;
    int error = entry.bonds.links ? 0 : leat_fail(-ENOMEM, "no memory for %d bonds", count);
    for (int i = molecules->first_link[m]; i < molecules->first_link[m + 1] && !error; i++) {
        const struct lammps_link *link = &molecules->link[i];
        if (link->kind == LAMMPS_BONDS)
            entry.bonds.links[entry.bonds.count++] =
                (struct md_link){.a = link->atom[0], .b = link->atom[1]};
    }
    if (!error)
        error = md_molecule_exclude(&entry);
    free(entry.bonds.links);
    out->exclusion_start = entry.out.exclusion_start;
    out->exclusion = entry.out.exclusion;
    return error;
}

static bool holds(const struct md_molecule_type *type, int i, int j)
{
    for (int e = type->exclusion_start[i]; e < type->exclusion_start[i + 1]; e++)
        if (type->exclusion[e] == j)
            return true;
    return false;
}

static int add_pair(const struct maker *maker, struct md_molecule_type *out, int i, int j)
{
    const struct md_lammps *lammps = maker->file->lammps;
    const struct md_atom *a = &out->atoms[i], *b = &out->atoms[j];
    struct md_term *term = &out->terms[out->term_start[MD_TERM_PAIR + 1]++];
    *term = (struct md_term){.atom = {i, j}};
    int error =
        lammps_pair_parameters(maker->file, maker->coeffs, maker->type[a->type],
                               maker->type[b->type], &term->parameter[0], &term->parameter[1]);
    term->parameter[0] *= lammps->special_lj[2];
    term->parameter[1] *= lammps->special_lj[2];
    term->parameter[2] = a->charge_e * b->charge_e * lammps->special_coulomb[2];
    return error;
}

// Pairs that are excluded three bonds deep and not two: those that a 1-4 weight is for.
static int add_pairs(const struct maker *maker, int m, struct md_molecule_type *out)
{
    struct md_molecule_type nearer = {.atom_count = out->atom_count};
    int error = exclude(maker, m, 2, &nearer);
    int64_t room =
        (int64_t)out->term_start[MD_TERM_PAIR] + out->exclusion_start[out->atom_count] / 2;
    if (!error && room > INT_MAX)
        error = leat_fail(-ENOTSUP, "a molecule of %s has more than 2^31 terms", maker->file->name);
    struct md_term *grown = error ? NULL : realloc(out->terms, ((size_t)room + 1) * sizeof *grown);
    if (!error && !grown)
        error = leat_fail(-ENOMEM, "no memory for %lld terms", (long long)room);
    if (grown)
        out->terms = grown;
    for (int i = 0; i < out->atom_count && !error; i++)
        for (int e = out->exclusion_start[i]; e < out->exclusion_start[i + 1] && !error; e++)
            if (out->exclusion[e] > i && !holds(&nearer, i, out->exclusion[e]))
                error = add_pair(maker, out, i, out->exclusion[e]);
    free(nearer.exclusion_start);
    free(nearer.exclusion);
    return error;
}

static int make_terms(const struct maker *maker, int m, struct md_molecule_type *out)
{
    const struct lammps_molecules *molecules = maker->molecules;
    int first = molecules->first_link[m], count = molecules->first_link[m + 1] - first;
    out->terms = calloc((size_t)count + 1, sizeof *out->terms);
    if (!out->terms)
        return leat_fail(-ENOMEM, "no memory for %d terms", count);
    enum md_term_kind last = 0;
    for (int i = 0; i < count; i++) {
        // Links are sorted by kinds, whose order is that of the terms.
        enum md_term_kind kind;
        int error = lammps_term(maker->file, maker->coeffs, &molecules->link[first + i], &kind,
                                &out->terms[i]);
        if (error)
            return error;
        while (last < kind)
            out->term_start[++last] = i;
    }
    while (last < MD_TERM_KINDS)
        out->term_start[++last] = count;
    return 0;
}

static int make_kind(struct maker *maker, int m, struct md_molecule_type *out)
{
    const struct md_lammps *lammps = maker->file->lammps;
    snprintf(out->name, sizeof out->name, "molecule of atom %d",
             maker->molecules->atom[maker->molecules->first[m]] + 1);
    int error = make_atoms(maker, m, out);
    if (!error)
        error = make_terms(maker, m, out);
    if (!error)
        error = exclude(maker, m, exclusion_depth(lammps), out);
    if (!error && has_pair_terms(lammps))
        error = add_pairs(maker, m, out);
    return error;
}

static int make_kinds(struct maker *maker)
{
    struct md_topology *topology = maker->topology;
    const struct lammps_molecules *molecules = maker->molecules;
    for (int m = 0; m < molecules->count; m++) {
        int t = molecules->kind[m];
        // Kinds are numbered in order of first use.
        if (t == topology->molecule_type_count) {
            topology->molecule_type_count++;
            int error = make_kind(maker, m, &topology->molecule_types[t]);
            if (error)
                return error;
        }
        if (m == 0 || t != molecules->kind[m - 1])
            topology->blocks[topology->block_count++] =
                (struct md_molecule_block){t, 0, molecules->first[m], m};
        topology->blocks[topology->block_count - 1].count++;
    }
    topology->molecule_count = molecules->count;
    topology->atom_count = molecules->first[molecules->count];
    return 0;
}

static int make_tables(const struct maker *maker)
{
    struct md_topology *topology = maker->topology;
    size_t count = (size_t)topology->type_count;
    topology->c6 = calloc(count * count, sizeof *topology->c6);
    topology->c12 = calloc(count * count, sizeof *topology->c12);
    topology->type_name = calloc(count, sizeof *topology->type_name);
    if (!topology->c6 || !topology->c12 || !topology->type_name)
        return leat_fail(-ENOMEM, "no memory for the pairs of %zu atom types", count);
    for (size_t i = 0; i < count; i++) {
        snprintf(topology->type_name[i], sizeof topology->type_name[i], "%d", maker->type[i]);
        for (size_t j = 0; j < count; j++) {
            int error =
                lammps_pair_parameters(maker->file, maker->coeffs, maker->type[i], maker->type[j],
                                       &topology->c6[i * count + j], &topology->c12[i * count + j]);
            if (error)
                return error;
        }
    }
    return 0;
}

static size_t count_blocks(const struct lammps_molecules *molecules)
{
    size_t blocks = 1;
    for (int m = 1; m < molecules->count; m++)
        blocks += molecules->kind[m] != molecules->kind[m - 1];
    return blocks;
}

static int make(struct maker *maker)
{
    size_t types = (size_t)maker->file->type_count[LAMMPS_ATOMS] + 1;
    size_t kinds = (size_t)maker->molecules->kind_count;
    struct md_topology *topology = maker->topology;
    maker->used = calloc(types, sizeof *maker->used);
    maker->type = calloc(types, sizeof *maker->type);
    topology->molecule_types = calloc(kinds, sizeof *topology->molecule_types);
    topology->blocks = calloc(count_blocks(maker->molecules), sizeof *topology->blocks);
    if (!maker->used || !maker->type || !topology->molecule_types || !topology->blocks)
        return leat_fail(-ENOMEM, "no memory for %zu kinds of molecules", kinds);
    int error = make_kinds(maker);
    return error ? error : make_tables(maker);
}

int lammps_make_topology(const struct lammps_file *file, const struct lammps_molecules *molecules,
                         const struct lammps_coeffs *coeffs, struct md_topology **topology)
{
    struct maker maker = {.file = file, .molecules = molecules, .coeffs = coeffs};
    maker.topology = calloc(1, sizeof *maker.topology);
    if (!maker.topology)
        return leat_fail(-ENOMEM, "no memory for a topology");
    snprintf(maker.topology->title, sizeof maker.topology->title, "LAMMPS data file");
    int error = make(&maker);
    free(maker.used);
    free(maker.type);
    if (error)
        md_topology_free(maker.topology);
    else
        *topology = maker.topology;
    return error;
}
