/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the box and how it interacts, put together from the three input files: the same on
 * every rank, and not touched once the run has begun. Arrays that are added here have to be added
 * to system_share.c.
 */
#ifndef MD_SYSTEM_H
#define MD_SYSTEM_H

#include "format/gro.h"
#include "md/dynamics.h"
#include "md/nonbonded.h"
#include "md/options.h"
#include "md/settings.h"
#include "md/topology.h"
#include "md/units.h"

#include <stdbool.h>
#include <stdint.h>

/* An atom's place in its molecule: all that a rank has to know of an atom but where it is. */
struct md_site {
    int molecule_type;
    int index; /* in the molecule */
    int type;
    double charge_e, mass_u;
    int group; /* of temperature; 0 without a thermostat */
};

struct md_system {
    struct md_settings settings;
    struct md_topology *topology;
    struct gro *input; /* rank 0: molecules whole and in the box, until all have theirs */
    /* The file's numbers, from 0, of the atoms of an input that is not in the topology's order,
     * for md_system_number. */
    int64_t *number;
    int64_t number_count;     /* 0: all are in their places */
    enum md_unit_style units; /* of the input, and of what is reported */
    struct md_site *sites;    /* of all molecule types, one after the other */
    int site_count;
    int *first_site;                                   /* [molecule_type_count] */
    int64_t atom_count, water_count, constraint_count; /* the latter beside those of waters */
    struct md_waters water; /* the one kind of rigid water: masses and distances, count is 0 */
    /* [molecule_type_count], made on each rank; NULL where no molecule has any. */
    struct md_constrainer **constrainers;
    double box_nm[3][3], volume_nm3; /* row vectors, tilts reduced */
    bool images;      /* ghosts come across all boundaries, as they have to in a tilted box */
    double radius_nm; /* furthest that an atom is from the centre of its molecule */
    double degrees;   /* of freedom, and those of each temperature group */
    double group_degrees[MD_GROUPS_MAX];
    int couple_steps;                  /* steps from one action of the thermostat to the next */
    struct md_interaction interaction; /* its tables belong to the topology */
    double list_nm;
    double skin_nm;  /* above 0: lists live until an atom has moved half of this */
    double inner_nm; /* see md_list_input */
    int inner_calls;
};

/*
 * Reads settings, topology and coordinates (through the files of `job`; NULL: as a stream), repeats
 * them, and derives the rest. `notes` says what the user should know (on one rank). Frees nothing
 * on failure: md_system_free takes what there is.
 *
 * -EINVAL the files do not fit together, or a text is malformed; -ENOTSUP something the driver does
 * not do; -EDOM the cut-off is over half the distance between nearest images of an atom, or without
 * images the list cut-off over half the shortest box edge.
 */
int md_system_load(leat_job *job, const struct md_options *options, bool notes,
                   struct md_system *system);
void md_system_free(struct md_system *system);
/* Prepares the constraints; on each rank, once the system is shared. Errors of md_rigid_make. */
int md_system_prepare(struct md_system *system);
/* Some distances are kept, so without a step not all forces are known. */
bool md_system_is_rigid(const struct md_system *system);
/* Groups that differ for the thermostat, at least 1. */
int md_system_groups(const struct md_system *system);
/* A minimum is looked for, not a trajectory. */
bool md_system_minimises(const struct md_system *system);

/* ---- groups.c ---- */
/* Sets the sites' groups from settings and topology, and counts degrees of freedom. -EINVAL names
 * a group that is not there, or an atom that is in none or in two. */
int md_system_group(struct md_system *system);

/* The file's number of the atom at a place of the topology, from 0; copies of --tile go on where
 * the input ends. */
int64_t md_system_number(const struct md_system *system, int64_t place);

/* ---- lammps_load.c ---- */
/* Settings, topology and coordinates from a LAMMPS data file. Errors as of md_lammps_read. */
struct md_lammps;
int md_lammps_load(const char *path, const struct md_lammps *lammps, struct md_system *system);

/* ---- coordinates.c ---- */
/* Errors as of leat_file_read and gro_read. */
int md_coordinates_read(leat_job *job, const char *path, struct gro **gro);

/* ---- list_radius.c ---- */
/* Sets list_nm, inner_nm and inner_calls. Needs everything else in place. */
int md_system_list_radius(struct md_system *system, bool notes);

/* ---- tile.c ---- */
/* Repeats coordinates, velocities and labels as `gmx genconf -nbox` does: copies of the whole, x
 * outermost. -EOVERFLOW or -ENOMEM. */
int md_tile(struct gro *gro, const int tile[3]);
/* Number of the molecule block that holds molecule `molecule`. */
int md_find_block(const struct md_topology *topology, int64_t molecule);

/* ---- whole.c ---- */
/* -EINVAL, naming the first, when the box cuts a molecule: repeated, its parts would be apart.
 * -ENOMEM. */
int md_check_whole(const char *name, const struct gro *gro, const struct md_topology *topology);

/* Puts the atoms of each molecule beside those they are bonded to (and those that no bond connects
 * beside their predecessors), unless molecules are whole already, and its centre into the box.
 * *radius_nm is how far an atom is from its molecule's centre at most. -EINVAL when a molecule is
 * bonded to its own image; -ENOMEM. */
int md_make_whole(const char *name, struct gro *gro, const struct md_topology *topology,
                  const double box_nm[3][3], bool whole, double *radius_nm);

#endif
