/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the reader of LAMMPS data files share: a file as it stands, in its own units.
 *
 * lammps_read.c knows lines, header and sections, lammps_entries.c the lines of a section,
 * lammps_molecules.c finds the molecules and their kinds, lammps_topology.c makes the topology of
 * them, lammps_coeffs.c its parameters, and lammps_options.c reads what the command line adds.
 */
#ifndef MD_LAMMPS_PARTS_H
#define MD_LAMMPS_PARTS_H

#include "md/lammps.h"
#include "md/text.h"

/* What the header counts. Of each there are types, too. */
enum lammps_count {
    LAMMPS_ATOMS,
    LAMMPS_BONDS,
    LAMMPS_ANGLES,
    LAMMPS_DIHEDRALS,
    LAMMPS_IMPROPERS,
    LAMMPS_COUNTS
};

/* Words for messages: "atom", and atoms of a bond, of an angle ... */
extern const char *const lammps_names[LAMMPS_COUNTS];
extern const int lammps_arity[LAMMPS_COUNTS];

/* Pair tables are square in them. */
enum { LAMMPS_ATOM_TYPES_MOST = 1000, LAMMPS_TYPES_MOST = 1000000 };

struct lammps_atom {
    int id, type; /* from 1 */
    int molecule;
    int line;
    double charge, x[3];
};

struct lammps_velocity {
    int id, line;
    double v[3];
};

/* A bond, angle, dihedral or improper. */
struct lammps_link {
    int type;
    int atom[4]; /* ids - 1, then places in the molecule; those that it does not have are -1 */
    int line;
    int molecule, kind;
};

struct lammps_mass {
    int type, line;
    double mass;
};

struct lammps_pair {
    int i, j, line;
    double epsilon, sigma;
};

/* Bond: K, r0. Angle: K, theta0. Dihedral: K, d, n. Improper: K, chi0. */
struct lammps_bonded {
    int type, line;
    double value[3];
};

/* Of entries of one kind, as they came. */
struct lammps_list {
    void *entries;
    int count, capacity;
};

struct lammps_file {
    const char *name;
    const struct md_lammps *lammps;
    int64_t count[LAMMPS_COUNTS];
    int type_count[LAMMPS_COUNTS];
    int count_line[LAMMPS_COUNTS], type_line[LAMMPS_COUNTS];
    double lo[3], hi[3], tilt[3];
    int box_line[3], tilt_line;
    int atoms_line; /* where the section begins */
    struct lammps_list atoms, velocities, masses, pairs;
    struct lammps_list links[LAMMPS_COUNTS];  /* those of atoms are none */
    struct lammps_list bonded[LAMMPS_COUNTS]; /* likewise */
    /* Made when all is read. */
    struct lammps_atom *by_id; /* [count[ATOMS]] */
};

/* Molecules, once they are found, in order of their least ids. An atom's place is where it stands
 * molecule by molecule, and by id in each. */
struct lammps_molecules {
    int count, kind_count;
    int *first;               /* [count + 1] place of the first atom */
    int *kind;                /* [count] numbered in order of first use */
    int *atom;                /* [atoms] id - 1 by place */
    int *first_link;          /* [count + 1] */
    struct lammps_link *link; /* of all kinds, by molecule, then kind, then atoms */
    int link_count;
};

/* Coefficients by type, in the driver's units. Begun by {0}. */
struct lammps_coeffs {
    double *mass_u;                        /* [atom types + 1], 0: none */
    double *epsilon, *sigma;               /* [(types + 1)^2], below 0: none */
    bool reduced;                          /* those of the only type are 1, unsaid */
    double (*parameter[LAMMPS_COUNTS])[3]; /* [types + 1] */
    int *line[LAMMPS_COUNTS];              /* where they stand; 0: none */
};

/* A line without its comment, split into words. */
enum { LAMMPS_WORDS = 16 };

struct lammps_words {
    struct md_place place;
    char *word[LAMMPS_WORDS];
    int count; /* LAMMPS_WORDS + 1 when there are more */
};

/* ---- lammps_entries.c ---- */
/* The atom style that a name says; -1. */
int lammps_style(const char *name);
int lammps_atom_entry(struct lammps_file *file, int style, const struct lammps_words *words);
int lammps_velocity_entry(struct lammps_file *file, const struct lammps_words *words);
int lammps_mass_entry(struct lammps_file *file, const struct lammps_words *words);
int lammps_link_entry(struct lammps_file *file, int kind, const struct lammps_words *words);
int lammps_pair_entry(struct lammps_file *file, bool unlike, const struct lammps_words *words);
int lammps_bonded_entry(struct lammps_file *file, int kind, const struct lammps_words *words);
/* Sorts atoms by id and gives them their velocities. `v` is [3 * atoms] by id. */
int lammps_sort_atoms(struct lammps_file *file, double *v);

/* ---- lammps_molecules.c ---- */
int lammps_find_molecules(const struct lammps_file *file, struct lammps_molecules *molecules);
void lammps_free_molecules(struct lammps_molecules *molecules);

/* ---- lammps_input.c ---- */
/* From a file that is read to what the driver takes. */
int lammps_make_input(struct lammps_file *file, struct md_lammps_input *input);

/* ---- lammps_topology.c ---- */
int lammps_make_topology(const struct lammps_file *file, const struct lammps_molecules *molecules,
                         const struct lammps_coeffs *coeffs, struct md_topology **topology);

/* ---- lammps_whole.c ---- */
/* Puts molecules together along their links. x by place, in nm. */
int lammps_make_whole(const struct lammps_file *file, const struct lammps_molecules *molecules,
                      const double box_nm[3][3], double *x);

/* ---- lammps_coeffs.c ---- */
int lammps_read_coeffs(const struct lammps_file *file, struct lammps_coeffs *coeffs);
void lammps_free_coeffs(struct lammps_coeffs *coeffs);
/* V = c12/r^12 - c6/r^6 between two types. -EINVAL where coefficients are missing. */
int lammps_pair_parameters(const struct lammps_file *file, const struct lammps_coeffs *coeffs,
                           int i, int j, double *c6, double *c12);
/* The term that a link is. */
int lammps_term(const struct lammps_file *file, const struct lammps_coeffs *coeffs,
                const struct lammps_link *link, enum md_term_kind *kind, struct md_term *term);

#endif
