/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the topology reader share: the state of a topology while it is read.
 *
 * topology_read.c knows the directives and their order, topology_types.c atom types and pair
 * parameters, topology_table.c tables by types, topology_functions.c the function types of bonded
 * terms and their parameter directives, topology_molecule.c the atoms of a molecule,
 * topology_terms.c its terms and constraints, topology_exclusions.c its exclusions, and topology.c
 * the finished topology.
 */
#ifndef MD_TOPOLOGY_PARTS_H
#define MD_TOPOLOGY_PARTS_H

#include "md/text.h"
#include "md/topology.h"

/* First and second parameter mean c6 and c12 under rule 1, sigma and epsilon under 2 and 3. */
enum md_rule_of_mixing { MD_MIX_C6_C12 = 1, MD_MIX_LORENTZ_BERTHELOT, MD_MIX_GEOMETRIC };

struct md_type_entry {
    double mass_u, charge_e, first, second;
    int bonded;    /* number of the name that bonded parameters know it by */
    char particle; /* A, N, S, B or V */
    struct md_place place;
    struct md_place changed; /* a later entry that says something else; file NULL if none */
    int used;                /* index among the types in use, -1 */
};

enum { MD_WILDCARD = -1 }; /* the type X of dihedrals */

/* Parameters of atoms of these types, in this order or the reverse. */
struct md_table_entry {
    int type[MD_TERM_ATOMS]; /* as written; those beyond the table's atoms are 0 */
    double parameter[MD_TERM_PARAMETERS];
    int next; /* another term for the same atoms, -1 */
    struct md_place place;
    struct md_place changed; /* a later line that says something else; file NULL if none */
};

/* Starts as {0}. */
struct md_table {
    int atom_count;                 /* of every entry */
    struct md_table_entry *entries; /* in order of the file */
    int count, capacity;
    unsigned wildcards; /* bit m: there is an entry with wildcards where m has bits */
    int *slot;          /* open addressing: the first entry of its types + 1, or 0 */
    int slot_count;
};

/* Sections of a molecule that hold terms, and the directives of their parameters. */
enum md_section {
    MD_SECTION_BONDS,
    MD_SECTION_ANGLES,
    MD_SECTION_DIHEDRALS,
    MD_SECTION_PAIRS,
    MD_SECTION_CONSTRAINTS
};

enum md_table_number {
    MD_TABLE_BONDS,
    MD_TABLE_ANGLES,
    MD_TABLE_UREY_BRADLEY,
    MD_TABLE_DIHEDRALS, /* of function types 1 and 9 */
    MD_TABLE_IMPROPERS,
    MD_TABLE_RYCKAERT_BELLEMANS,
    MD_TABLE_PERIODIC_IMPROPERS,
    MD_TABLE_FOURIER,
    MD_TABLE_PAIRS, /* by atom types, as the next one; the others by bonded types */
    MD_TABLE_NONBONDED,
    MD_TABLE_CONSTRAINTS,
    MD_TABLE_CONSTRAINTS_UNBONDED,
    MD_TABLE_COUNT
};

struct md_types {
    enum md_rule_of_mixing rule; /* 0 before [ defaults ] */
    bool generate_pairs;         /* 1-4 parameters that no [ pairtypes ] gives */
    double fudge_lj, fudge_qq;
    struct md_names names; /* of atom types, with */
    struct md_type_entry *entries;
    int entry_capacity;
    struct md_names bonded_names;
    struct md_table tables[MD_TABLE_COUNT];
    int *used; /* the types in use */
    int used_count, used_capacity;
};

/* A function type that is read. */
struct md_function {
    enum md_section section;
    int number; /* in the file */
    const char *name;
    enum md_table_number table; /* of parameters that a line leaves out; MD_TABLE_COUNT: none */
    int term;                   /* enum md_term_kind, or one of the next two */
    int atom_count, parameter_count;
    bool state_b; /* a line may hold the parameters once more, for state B */
    bool bond;    /* counts for nrexcl */
};

enum { MD_CONSTRAINT_NOT_TERM = MD_TERM_KINDS, MD_NO_TERM };

/* A line of a section, parsed. */
struct md_term_entry {
    const struct md_function *function;
    int atom[MD_TERM_ATOMS]; /* from 0; checked when the molecule is used */
    int given;               /* parameters in the line, those of state B left out */
    double parameter[MD_TERM_PARAMETERS];
    struct md_place place;
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
    struct md_links bonds, exclusions; /* bonds once the terms are resolved */
    struct md_term_entry *entries;
    int entry_count, entry_capacity;
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
/* c6 and c12 of a 1-4 pair whose line gives none: those of [ pairtypes ], or else generated. 1 with
 * *c6 and *c12 set, 0 if there are none, or an error. */
int md_types_pair14(const struct md_types *types, struct md_place place, int a, int b, double *c6,
                    double *c12);
/* c6 and c12 of two parameters in the sense of the combination rule. */
void md_types_convert(const struct md_types *types, double first, double second, double *c6,
                      double *c12);
/* The index in use of a type, numbered at its first use. */
int md_types_use(struct md_types *types, int type, struct md_place place, int *index);
/* Fills type_count, type_name, c6 and c12 from the types in use. */
int md_types_tables(const struct md_types *types, struct md_topology *topology);
void md_types_free(struct md_types *types);

/* topology_table.c */
/* Adds parameters. The same again are dropped; others for the same types are either one more term
 * (`several`, directly after the last) or remembered as a contradiction. -ENOMEM. */
int md_table_add(struct md_table *table, int atom_count, const struct md_table_entry *entry,
                 bool several);
/* The first entry for exactly these types in either order, MD_WILDCARD being a type; -1. */
int md_table_find(const struct md_table *table, const int *type);
/* The same with wildcards standing for any type: the entry with the fewest of them, and of those
 * the first. */
int md_table_match(const struct md_table *table, const int *type);
void md_table_free(struct md_table *table);

/* topology_functions.c */
const char *md_section_name(enum md_section section);
/* NULL if it is not read. */
const struct md_function *md_function_find(enum md_section section, int number);
/* A line of [ bondtypes ] and the like. */
int md_types_parameters(struct md_types *types, enum md_section section, struct md_place place,
                        char *text);
/* Parameters after the function type: 0, all of the function, or those of state B too (checked and
 * left out). Returns how many there are, or an error. */
int md_parse_parameters(const struct md_function *function, struct md_place place,
                        char *const *words, int count, double *parameter);

/* topology_terms.c */
int md_molecule_entry_add(struct md_molecule_entry *molecule, enum md_section section,
                          struct md_place place, char *text);
/* Fills terms and constraints of the molecule, and its bonds; its atoms' types are still indices
 * into md_types. */
int md_molecule_resolve(struct md_molecule_entry *molecule, const struct md_types *types);

/* topology_molecule.c */
int md_molecule_begin(struct md_molecule_entry *molecule, struct md_place place, char *text);
int md_molecule_atom(struct md_molecule_entry *molecule, const struct md_types *types,
                     struct md_place place, char *text);
int md_molecule_settle(struct md_molecule_entry *molecule, struct md_place place, char *text);
int md_molecule_link(struct md_links *links, int a, int b, struct md_place place);
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
