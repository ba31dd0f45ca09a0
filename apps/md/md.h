/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of `leat md`: the atoms it owns, the halo around them, and the files that work on them.
 *
 *     run.c      set-up, loop, end                 step.c     steps between two partitions
 *     domain.c   partition: who has, who sees what local.c    topology of the atoms at hand
 *     start.c    coordinates and velocities at 0   force.c    one evaluation of the forces
 *     energy.c   sums over ranks, watches          output.c   files
 *     files.h    what is written on the way    checkpoint.h to go on from
 *     minimise.c steepest descent              halo_check.h halos against brute force
 *     together.c collectives                       report.c   what people and programs read
 *     system_share.c what rank 0 has read, to all  gpu.h      the same on a GPU
 *
 * State (x, v, f of home atoms) is in double. What travels, and what the pair loop reads, are
 * images of it in regions: float in mixed precision, double in double. On a GPU the state is in its
 * memory between two partitions, and what is here is that of the last one.
 */
#ifndef MD_MD_H
#define MD_MD_H

#include "core/job.h"
#include "leat/halo.h"
#include "md/bonded.h"
#include "md/clock.h"
#include "md/dynamics.h"
#include "md/files.h"
#include "md/gpu.h"
#include "md/nonbonded.h"
#include "md/options.h"
#include "md/progress.h"
#include "md/system.h"
#include "md/team.h"
#include "md/together.h"

#include <stdbool.h>
#include <stdint.h>

/* An array in a region, where peers of the halo can reach it. Grows only. */
struct md_image {
    leat_region *region;
    void *data;
    uint32_t element_bytes, capacity;
};

/* Fields of the halo, in the order they are given to leat_halo_open. */
enum md_field { FIELD_X, FIELD_F, FIELD_SITE, FIELD_COUNT };

/* A rank's part of the system, made anew at each partition. Home atoms come first, then ghosts. */
struct md_domain {
    leat_decomposition decomposition;
    uint32_t group_count, group_capacity;
    uint32_t *group_start; /* molecules */
    uint32_t home_capacity;
    struct md_atoms atoms; /* home atoms; id, mass_u and the rest are the arrays below */
    int64_t *id, *number;  /* the latter from 1, as in files, for messages */
    double *mass_u, *scratch;
    int32_t *site; /* of home atoms: number in md_system.sites */
    uint8_t *group;
    uint32_t element_count, element_capacity;
    double *x_all;    /* [3 * element_count], for the list; ghosts included */
    double *x_listed; /* of home atoms when the list was made; see skin.c */
    int *type;
    double *charge;
    int *exclusion_start, *exclusion;
    size_t exclusion_capacity;
    int *oxygen;
    struct md_stretch *stretch; /* all home molecules, in order */
    uint32_t stretch_count, stretch_capacity;
    struct md_rigid rigid; /* of the two above */
    leat_plan *plan;
    leat_halo *halo;
    struct md_image image[FIELD_COUNT];
    struct md_list *list;
};

/* This rank's terms of one evaluation; sums over ranks come from energy.c. */
struct md_terms {
    double lj, coulomb;
    struct md_bonded_energy bonded;
    double pairs;       /* of coulomb, those within the cut-off */
    double corrections; /* |excluded pairs| + |self terms|, which nearly cancel in coulomb */
    double virial[9];   /* -1/2 sum x (x) f */
    double force[3], force_length; /* sums over home atoms */
};

/* One evaluation's results for the whole system, kJ/mol. */
struct md_energy {
    double lj, coulomb, bond, angle, dihedral, ryckaert_bellemans, improper, lj14, coulomb14;
    double potential, kinetic, total, conserved;
    double temperature_k, pressure_bar, virial[9];
    double net_force[3], force_sum; /* kJ/mol/nm: vector sum, and sum of lengths */
    double coulomb_gross; /* |pairs| + |excluded pairs| + |self|: what rounding is relative to */
    bool has_pressure;
};

/* Where a minimisation has ended; its steps are rank->step. */
struct md_minimum {
    double most_force; /* kJ/mol/nm, without what constraints take */
    int64_t atom;
    bool reached; /* emtol */
};

struct md_rank {
    leat_job *job;
    int rank, rank_count;
    const struct md_options *options;
    struct md_system system;
    struct md_domain domain;
    struct md_gpu *gpu;            /* NULL: the rank computes on the CPU */
    struct md_team *team;          /* the rank's threads; NULL: one */
    struct md_terms *thread_terms; /* [threads], for sums over them; NULL: one */
    struct md_together together;
    struct md_clock clock;
    struct md_files files;
    struct md_halo_check *check;          /* --check; NULL: none */
    int64_t step;                         /* that is being made */
    double ekin_before[9], ekin_after[9]; /* this rank's, half a step before and after; of
                                           * velocity Verlet both are the full step's */
    double ekin_half;                     /* of all ranks, half a step before */
    double ekin_group[MD_GROUPS_MAX];     /* likewise, where there are several groups */
    double heat;                          /* taken out by the thermostat so far */
    struct md_energy energy;              /* of the last evaluation that had one */
    struct md_slope slope;
    struct md_minimum minimum;
    double *forces;   /* rank 0, with --forces: [3 * atom_count] of the last step */
    double loop_s;    /* wall time of the step loop */
    bool list_spent;  /* atoms have moved too far for the list */
    bool looping;     /* errors from here on are printed by the rank that met them */
    bool alike;       /* but this one, which every rank has met */
    bool unsupported; /* it is something that the device does not do */
};

/* ---- system_share.c ---- */
/* Rank 0 reads the input; all get the same system and the same verdict. Coordinates stay with rank
 * 0 until md_domain_open deals them out. Errors of md_system_load. Collective. */
int md_system_share(struct md_rank *rank);

/* ---- domain.c ---- */
/* Takes this rank's share of the input's molecules, in file order, or with --restart what
 * md_checkpoint_read gives it. Collective. */
int md_domain_open(struct md_rank *rank);
void md_domain_close(struct md_domain *domain);
/* Sends molecules home, makes plan, halo, local topology and list; ghosts are in place after it. */
int md_domain_partition(struct md_rank *rank);
/* Puts the home atoms' positions where an exchange of FIELD_X takes them from. */
void md_domain_image(struct md_rank *rank);
/* One more molecule, whose positions and velocities are still to be set. */
int md_domain_add(struct md_rank *rank, int64_t molecule);
/* Makes room for that many home atoms and groups, keeping what is there. */
int md_domain_reserve(struct md_domain *domain, uint32_t groups, uint32_t atoms);

/* ---- skin.c ---- */
/* Notes where atoms are that a list was made for. */
void md_skin_begin(struct md_rank *rank);
/* Sets rank->list_spent, the same on all ranks. Collective where the system has a skin. */
int md_skin_watch(struct md_rank *rank);

/* ---- local.c ---- */
/* Masses, exclusions, waters and stretches of the home atoms; types and charges of ghosts too. */
int md_local_home(struct md_rank *rank);
int md_local_ghosts(struct md_rank *rank);

/* ---- force.c ---- */
/*
 * An evaluation is two halves around the reverse exchange of FIELD_F: forces of pairs, with ghosts'
 * shares, into the image; then forces on home atoms from it, with what a rank knows by itself. The
 * first clears the terms; they are set when `want`. Neither calls leat.
 */
void md_pair_forces(struct md_rank *rank, bool want, struct md_terms *terms);
/* The first half in three, of which only the second looks at ghosts: it clears the terms, the third
 * adds what the first two have found. */
void md_home_pairs_begin(struct md_rank *rank, bool want);
void md_ghost_pairs(struct md_rank *rank, struct md_terms *terms);
void md_home_pairs_end(struct md_rank *rank, struct md_terms *terms);
void md_home_forces(struct md_rank *rank, bool want, struct md_terms *terms);

/* ---- step.c ---- */
/* A step, or as many as need no other communication than halos; rank->step goes on by as many. */
int md_steps(struct md_rank *rank);
/* Forces and terms of the positions that are in the image; with `refresh` the ghosts are brought to
 * theirs before. */
int md_evaluate(struct md_rank *rank, bool refresh, struct md_terms *terms);

/* ---- minimise.c ---- */
/* Steepest descent instead of steps; sets rank->minimum. */
int md_minimise(struct md_rank *rank, struct md_progress *progress);

/* ---- start.c ---- */
/* Velocities by gen-vel; constrained coordinates and velocities, unless this is --steps 0. */
int md_start(struct md_rank *rank);
/* What a checkpoint has not said. */
int md_go_on(struct md_rank *rank);
/* Takes the motion of the centre of mass out. Collective. */
int md_stop_centre(struct md_rank *rank);

/* ---- energy.c ---- */
/*
 * Adds up the ranks' terms into rank->energy, with the heat that the thermostat had taken out by
 * then, and rank->ekin_half. -EBADMSG when the forces do not add up to zero or an energy is not
 * finite.
 */
int md_energy_sum(struct md_rank *rank, const struct md_terms *terms, double heat);
/* Its two halves. */
int md_energy_add(struct md_rank *rank, const struct md_terms *terms, double heat);
int md_energy_watch(struct md_rank *rank);
/* Sets what is within molecules, and adds it to the potential. */
void md_energy_add_bonded(struct md_energy *energy, const struct md_bonded_energy *bonded);
/* -EBADMSG when an energy is not finite. */
int md_energy_check(const struct md_energy *energy);
/* Adds up rank->ekin_half, or rank->ekin_group, only. */
int md_kinetic_sum(struct md_rank *rank);
int md_kinetic_group_sum(struct md_rank *rank);
/* -EBADMSG unless the ranks have all atoms between them. */
int md_check_count(struct md_rank *rank);
double md_trace(const double tensor[9]);
double md_pressure_bar(double kinetic, const double virial[9], double volume_nm3);

/* Energies, virial, pressure and forces as a file or a report in these units has them. */
void md_energy_in_units(const struct md_units *units, struct md_energy *energy);

/* ---- output.c ---- */
/* output_check.c: whether --out and --forces can be written, asked before a long run. */
int md_check_outputs(const struct md_options *options);
/* Brings positions, velocities and forces of all atoms to rank 0, in file order. Collective. */
int md_collect(struct md_rank *rank);
/* Writes --out and --forces, on rank 0. */
int md_write_files(struct md_rank *rank);
/* Forces by the input's numbers, written in its units. */
int md_write_forces(const char *path, const struct md_system *system, const double *forces);

#endif
