/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user asked `leat md` for: plain values, filled by the command, the same on every rank.
 *
 * Advantage: the driver knows nothing of a command line, so tests and other programs fill this by
 * hand. Disadvantage: an option is named here and in the command's table.
 */
#ifndef MD_OPTIONS_H
#define MD_OPTIONS_H

#include "leat/halo.h"
#include "md/nonbonded.h"

#include <stdbool.h>
#include <stdint.h>

/* EMULATED: the GPU's kernels on the CPU, for tests. */
struct md_lammps; /* lammps.h */

enum md_device { MD_DEVICE_CPU, MD_DEVICE_CUDA, MD_DEVICE_EMULATED };

struct md_options {
    const char *gro, *top, *mdp; /* input files */
    const char *data;            /* or a LAMMPS data file, with */
    const struct md_lammps *lammps;
    const char *define;       /* "-DA -DB=1", added to the .mdp's, or NULL */
    const char *include_dirs; /* colon-separated, or NULL */
    int rank_count;           /* of the job; the command has checked that it is */
    int threads; /* of each rank; 0 is 1, below 0: the processors there are, shared by ranks */
    int grid[3]; /* zeros: the grid with the least halo */
    enum leat_order order;
    enum leat_mode mode;
    enum leat_plan_kind plan;
    bool images; /* ghosts across all boundaries even where the box does not need them */
    enum md_precision precision;
    enum md_device device;
    int64_t steps; /* below 0: the .mdp's */
    int tile[3];   /* times the input is repeated along x, y, z */
    double drift_after_ps;
    const char *out;                  /* .gro of the last step, or NULL */
    const char *forces;               /* text of the last step's forces, or NULL */
    const char *energies;             /* table of energies, or NULL */
    const char *trajectory;           /* .gro or else .trr, or NULL */
    const char *checkpoint, *restart; /* NULL: none is written, or the run begins anew */
    int64_t checkpoint_every;         /* steps; 0: at the end only */
    int64_t check_every;              /* steps from one check of the halos to the next; 0: none */
    const char *check_steps;          /* or a list of them, "0,10,25"; NULL: none */
    bool oracle, stats, json;
};

enum { MD_MODES = LEAT_MODE_RESIDENT + 1, MD_PLANS = LEAT_PLAN_ONEHOP + 1 };

/* By number, as users write them. */
extern const char *const md_mode_names[MD_MODES], *const md_plan_names[MD_PLANS];

/*
 * Runs one rank: the whole of `leat md` once the job is open. Closes the job. The result is the
 * exit status: 0, 1 (the cause has been printed, by one rank), 77 or 124.
 */
int md_run_rank(leat_job *job, const struct md_options *options);

/* All pairs in double in this process, for --oracle. Same result. */
int md_run_oracle(const struct md_options *options);

#endif
