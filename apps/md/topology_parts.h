/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the topology reader share: the state of a topology while it is read.
 *
 * topology_read.c knows the directives and their order, topology_types.c atom types and pair
 * parameters, topology_molecule.c the entries of a molecule, topology_exclusions.c its exclusions,
 * and topology.c the finished topology.
 */
#ifndef MD_TOPOLOGY_PARTS_H
#define MD_TOPOLOGY_PARTS_H

#include "md/text.h"
#include "md/topology.h"

/* First and second parameter mean c6 and c12 under rule 1, sigma and epsilon under 2 and 3. */
enum md_rule_of_mixing { MD_MIX_C6_C12 = 1, MD_MIX_LORENTZ_BERTHELOT, MD_MIX_GEOMETRIC };

struct md_type_entry {
    double mass_u, charge_e, first, second;
    char particle; /* A, N, S, B or V */
    struct md_place place;
    struct md_place changed; /* a later entry that says something else; file NULL if none */
    int used;                /* index among the types in use, -1 */
};

struct md_pair_entry {
    int a, b; /* atom types */
    double first, second;
    struct md_place place;
};

struct md_types {
    enum md_rule_of_mixing rule; /* 0 before [ defaults ] */
    struct md_names names;       /* of atom types, with */
    struct md_type_entry *entries;
    int entry_capacity;
    struct md_pair_entry *pairs;
    int pair_count, pair_capacity;
    int *used; /* the types in use */
    int used_count, used_capacity;
};

/* Two atoms of a molecule, from 0; checked when the molecule is used, since they may come later. */
struct md_link {
    int a, b;
    struct md_place place;
};

struct md_links {
    struct md_link *links;
    int count, capacity;
};

/* A molecule kind as it is read; atoms' types are still indices into md_types. */
struct md_molecule_entry {
    struct md_molecule_type out;
    int atom_capacity, settle_capacity;
    int nrexcl;
    struct md_links bonds, exclusions;
    struct md_place place;
    struct md_place *settle_places; /* [settle_capacity] */
    /* The first thing in it that this driver lacks; file NULL if none. */
    struct md_place lacking;
    char lacking_what[96];
    int used; /* index among the molecule kinds in use, -1 */
};

/* topology_types.c */
int md_types_defaults(struct md_types *types, struct md_place place, char *text);
int md_types_atom_type(struct md_types *types, struct md_place place, char *text);
int md_types_pair(struct md_types *types, struct md_place place, char *text);
/* The index in use of a type, numbered at its first use. */
int md_types_use(struct md_types *types, int type, struct md_place place, int *index);
/* Fills type_count, type_name, c6 and c12 from the types in use. */
int md_types_tables(const struct md_types *types, struct md_topology *topology);
void md_types_free(struct md_types *types);

/* topology_molecule.c */
int md_molecule_begin(struct md_molecule_entry *molecule, struct md_place place, char *text);
int md_molecule_atom(struct md_molecule_entry *molecule, const struct md_types *types,
                     struct md_place place, char *text);
int md_molecule_settle(struct md_molecule_entry *molecule, struct md_place place, char *text);
int md_molecule_bond(struct md_molecule_entry *molecule, struct md_place place, char *text);
int md_molecule_exclusion(struct md_molecule_entry *molecule, struct md_place place, char *text);
/* Remembers what a present molecule will be refused for. */
void md_molecule_lacks(struct md_molecule_entry *molecule, struct md_place place, const char *what);
/* Called when [ molecules ] first names the kind: checks, exclusions, types in use. */
int md_molecule_use(struct md_molecule_entry *molecule, struct md_types *types,
                    struct md_place place);
void md_molecule_free(struct md_molecule_entry *molecule);

/* topology_exclusions.c: fills exclusion_start and exclusion from bonds, settles and the explicit
 * ones. Every atom of every link has been checked. */
int md_molecule_exclude(struct md_molecule_entry *molecule);

/* topology.c: releases what a molecule type holds. */
void md_molecule_type_free(struct md_molecule_type *type);

#endif
