/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topology: what is in the box and how it interacts, from a GROMACS .top.
 *
 * Molecules are kept once a kind with a count, as in the file; the memory for the topology does not
 * grow with the number of molecules.
 */
#ifndef MD_TOPOLOGY_H
#define MD_TOPOLOGY_H

#include <stdint.h>
#include <stdio.h>

struct md_atom {
    int type; /* index into the table of types that are in use */
    double charge_e, mass_u;
    char name[8], residue_name[8]; /* longer ones are cut, as a .gro cuts them */
    int residue;                   /* number in the molecule, as written */
};

/* A rigid three-site water: atoms oxygen, oxygen + 1, oxygen + 2. */
struct md_settle {
    int oxygen;
    double d_oh_nm, d_hh_nm;
};

/*
 * Interactions between atoms of one molecule, by what is computed. V in kJ/mol; r in nm, angles and
 * phases in radians; phi is the IUPAC dihedral angle (trans is pi) of atoms 0-1-2-3.
 */
enum md_term_kind {
    MD_TERM_BOND,               /* k/2 (r - r0)^2:           r0, k */
    MD_TERM_ANGLE,              /* k/2 (theta - theta0)^2:   theta0, k; atom 1 is the vertex */
    MD_TERM_DIHEDRAL,           /* k (1 + cos(n phi - phi0)): phi0, k, n */
    MD_TERM_RYCKAERT_BELLEMANS, /* sum of c[i] cos(phi - pi)^i, i = 0 ... 5 */
    MD_TERM_IMPROPER, /* k/2 (xi - xi0)^2, xi - xi0 taken into [-pi, pi]: xi0, k, 1 for |xi| */
    MD_TERM_PERIODIC_IMPROPER, /* as MD_TERM_DIHEDRAL; reported with the impropers */
    MD_TERM_PAIR, /* 1-4: c12/r^12 - c6/r^6 + qq/(epsilon_r r): c6, c12, qq (scaled, e^2) */
    MD_TERM_KINDS
};

enum { MD_TERM_ATOMS = 4, MD_TERM_PARAMETERS = 6 };

struct md_term {
    int atom[MD_TERM_ATOMS]; /* indices in the molecule; those that a kind does not have are 0 */
    double parameter[MD_TERM_PARAMETERS];
};

/* A distance that is kept. */
struct md_constraint {
    int a, b; /* indices in the molecule */
    double length_nm;
};

/* Which bonds become constraints. Hydrogen is what is named with an H, as for GROMACS. */
enum md_bonds_rigid { MD_RIGID_NONE, MD_RIGID_H_BONDS, MD_RIGID_ALL_BONDS };

struct md_molecule_type {
    char name[64];
    int atom_count;
    struct md_atom *atoms;
    /* Terms of kind k: terms[term_start[k] .. term_start[k + 1]). */
    int term_start[MD_TERM_KINDS + 1];
    struct md_term *terms;
    int constraint_count;
    struct md_constraint *constraints;
    /* Excluded partners of atom i: exclusion[exclusion_start[i] .. exclusion_start[i + 1]), indices
     * in the molecule, ascending, symmetric, without i itself. */
    int *exclusion_start, *exclusion;
    int settle_count;
    struct md_settle *settles;
};

struct md_molecule_block {
    int type;
    int64_t count;                      /* at least 1 */
    int64_t first_atom, first_molecule; /* running sums, filled by the reader */
};

struct md_topology {
    char title[128]; /* of [ system ], cut to what fits */
    int type_count;  /* types that present molecules use, in order of first use */
    /* Pair parameters, [i * type_count + j], V = c12/r^12 - c6/r^6, kJ/mol nm^6 and nm^12, after
     * the combination rule and [ nonbond_params ]. */
    double *c6, *c12;
    char (*type_name)[32];
    int molecule_type_count; /* those with a count above zero, in order of first use */
    struct md_molecule_type *molecule_types;
    int block_count; /* neighbouring entries of one kind are one block */
    struct md_molecule_block *blocks;
    int64_t atom_count, molecule_count;
};

/*
 * Reads a .top with #include (relative to the including file, then `include_dirs` (colon-separated,
 * may be NULL), then GMXLIB, then /usr/share/gromacs/top), #define with text replacement, #undef,
 * #ifdef, #ifndef, #else, #endif and #error; `define` holds "-DA -DB=1" from the .mdp. What the
 * preprocessor does in detail says preprocess.h.
 *
 * Directives used: defaults (Lennard-Jones, combination rules 1 to 3), atomtypes, nonbond_params,
 * bondtypes, angletypes, dihedraltypes, pairtypes, constrainttypes, moleculetype, atoms, settles,
 * exclusions, system, molecules, and by function type bonds (1, and 5, a connection without a
 * force), angles (1, and 5 without a Urey-Bradley constant), dihedrals (1 to 5, 9), pairs (1, 2)
 * and constraints (1, 2). Exclusions are those of nrexcl, counted along settles, bonds and
 * constraints of type 1, and the explicit ones. Parameters that lines leave out are looked up as
 * GROMACS does; those of other function types are skipped unread. B states are ignored, since no
 * option that uses them is accepted.
 *
 * Whatever a present molecule needs and the driver lacks is -ENOTSUP, naming file, line and
 * keyword; malformed or contradictory text is -EINVAL likewise (where GROMACS would only warn too);
 * an include that is not found -ENOENT. All rigid waters have to be of one geometry and mass.
 */
int md_topology_read(const char *path, const char *define, const char *include_dirs,
                     struct md_topology **topology);

/* The same from an open stream, which stays open; `name` is what messages call it and what includes
 * are relative to. */
int md_topology_read_stream(FILE *stream, const char *name, const char *define,
                            const char *include_dirs, struct md_topology **topology);

/*
 * Makes rigid what `rigid` says: those bonds leave the terms and become constraints of their length
 * at rest, behind those of [ constraints ]. Called once, before anything is derived, also for
 * MD_RIGID_NONE. -EINVAL a bond without a length, -ENOTSUP a constraint on an atom of a rigid water
 * of [ settles ], -ENOMEM.
 */
int md_topology_constrain(struct md_topology *topology, enum md_bonds_rigid rigid);

/* Takes NULL. */
void md_topology_free(struct md_topology *topology);

/*
 * Repeats the box `times` times: every block counts `times` as often, in the order of the file
 * repeated (A B A B ...), as `gmx genconf` leaves atoms. -EINVAL if `times` is below 1 or the atoms
 * could not be numbered any more, -ENOMEM; the topology then stays as it was.
 */
int md_topology_tile(struct md_topology *topology, int64_t times);

/*
 * Which molecule kind and which atom in it the global atom `atom` is, 0 <= atom < atom_count;
 * `molecule` is its global molecule number and `first` the global number of that molecule's first
 * atom. A binary search over the blocks.
 */
void md_topology_locate(const struct md_topology *topology, int64_t atom,
                        const struct md_molecule_type **type, int *index, int64_t *molecule,
                        int64_t *first);

#endif
