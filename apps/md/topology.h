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

struct md_atom {
    int type; /* index into the table of types that are in use */
    double charge_e, mass_u;
    char name[8], residue_name[8];
    int residue; /* number in the molecule, as written */
};

/* A rigid three-site water: atoms oxygen, oxygen + 1, oxygen + 2. */
struct md_settle {
    int oxygen;
    double d_oh_nm, d_hh_nm;
};

struct md_molecule_type {
    char name[64];
    int atom_count;
    struct md_atom *atoms;
    /* Excluded partners of atom i: exclusion[exclusion_start[i] .. exclusion_start[i + 1]), indices
     * in the molecule, ascending, symmetric, without i itself. */
    int *exclusion_start, *exclusion;
    int settle_count;
    struct md_settle *settles;
};

struct md_molecule_block {
    int type;
    int64_t count;
    int64_t first_atom, first_molecule; /* running sums, filled by the reader */
};

struct md_topology {
    char title[128];
    int type_count; /* types that present molecules use */
    /* Pair parameters, [i * type_count + j], V = c12/r^12 - c6/r^6, kJ/mol nm^6 and nm^12, after
     * the combination rule and [ nonbond_params ]. */
    double *c6, *c12;
    char (*type_name)[32];
    int molecule_type_count;
    struct md_molecule_type *molecule_types;
    int block_count;
    struct md_molecule_block *blocks;
    int64_t atom_count, molecule_count;
};

/*
 * Reads a .top with #include (relative to the including file, then `include_dirs` (colon-separated,
 * may be NULL), then GMXLIB, then /usr/share/gromacs/top), #define with text replacement, #undef,
 * #ifdef, #ifndef, #else, #endif and #error; `define` holds "-DA -DB=1" from the .mdp.
 *
 * Directives used: defaults, atomtypes, nonbond_params, moleculetype, atoms, settles, exclusions,
 * bonds (for nrexcl only where settles or nothing else needs them), system, molecules. Force-field
 * tables that no present molecule needs are skipped. Whatever a present molecule needs and the
 * driver lacks is -ENOTSUP, naming file, line and keyword; malformed text is -EINVAL likewise.
 */
int md_topology_read(const char *path, const char *define, const char *include_dirs,
                     struct md_topology **topology);
void md_topology_free(struct md_topology *topology);

/* Repeats the box `times` times: every block counts `times` as often, in the order of the file
 * repeated (A B A B ...), as `gmx genconf` leaves atoms. */
int md_topology_tile(struct md_topology *topology, int64_t times);

/* Which molecule kind and which atom in it the global atom `atom` is; `molecule` is its global
 * molecule number and `first` the global number of that molecule's first atom. */
void md_topology_locate(const struct md_topology *topology, int64_t atom,
                        const struct md_molecule_type **type, int *index, int64_t *molecule,
                        int64_t *first);

#endif
