/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run settings: what a GROMACS .mdp file says, as far as this driver does it.
 */
#ifndef MD_SETTINGS_H
#define MD_SETTINGS_H

#include "md/topology.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Coulomb's constant, kJ mol^-1 nm e^-2, and Boltzmann's, kJ mol^-1 K^-1 (as GROMACS has them). */
#define MD_COULOMB   138.935457644
#define MD_BOLTZMANN 0.0083144626181532395

enum md_integrator { MD_LEAP_FROG, MD_VELOCITY_VERLET, MD_STEEPEST_DESCENT };
enum md_thermostat { MD_TCOUPL_NO, MD_TCOUPL_V_RESCALE };
enum md_modifier { MD_VDW_NONE, MD_VDW_POTENTIAL_SHIFT };

enum { MD_GROUPS_MAX = 16, MD_GROUP_NAME = 64 };

struct md_settings {
    char file[256];                /* the .mdp, for messages */
    char define[512];              /* preprocessor definitions, "-DA -DB=1" */
    char include_dirs[512];        /* of 'include = -Ia -Ib', colon-separated: "a:b" */
    enum md_integrator integrator; /* md (the default), md-vv or steep */
    double dt_ps;                  /* dt, default 0.001 */
    int64_t steps;                 /* nsteps, default 0 */
    int nstlist;                   /* default 10; 0 becomes "never rebuild" only for --steps 0 */
    int64_t nstxout, nstvout, nstfout; /* steps from frame to frame; 0, the default: none */
    int nstcalcenergy, nstenergy;      /* defaults 100, 1000; at most nstenergy, a multiple of it */
    int nstcomm;                       /* default 100; 0 with comm-mode = none */
    int nsttcouple;                    /* -1 (the default) becomes 10, as in GROMACS */
    double rcoulomb_nm, rvdw_nm;       /* defaults 1.0; the two have to be equal */
    double rlist_nm;                   /* used only when the tolerance is negative */
    double epsilon_r, epsilon_rf;      /* defaults 1, 0 (0 means infinite for epsilon-rf) */
    enum md_modifier vdw_modifier;
    double verlet_buffer_tolerance; /* kJ/mol/ps/atom a pair, default 0.005 */
    enum md_thermostat tcoupl;
    int group_count; /* with a thermostat of their own each; 0 without one */
    char group_name[MD_GROUPS_MAX][MD_GROUP_NAME];
    double tau_t_ps[MD_GROUPS_MAX], ref_t_k[MD_GROUPS_MAX];
    int64_t ld_seed; /* v-rescale's noise; -1 is taken as 1 and said so */
    bool gen_vel;
    double gen_temp_k; /* default 300 */
    int64_t gen_seed;  /* -1 likewise */
    enum md_bonds_rigid constraints;
    double emtol_kj_mol_nm, emstep_nm; /* defaults 10, 0.01 */
    bool continuation;                 /* default false; true: the start is not to be constrained */
    bool remove_com;                   /* comm-mode linear (default) or none */
    char notes[1024]; /* what the user should be told, one note a line, often empty */
};

/*
 * Reads an .mdp file. Keys are case-blind, '-' and '_' count for nothing in them (and in their
 * values), ';' begins a comment, a key without a value keeps its default. Options absent take
 * GROMACS' defaults. A plain cut-off for Coulomb becomes what it is under the Verlet scheme, a
 * reaction field with epsilon-rf = epsilon-r.
 *
 * A key or a value that GROMACS has and this driver does not do is -ENOTSUP; a malformed, unknown,
 * contradictory or repeated one -EINVAL (also where GROMACS would only warn); a missing file its
 * errno. Each names file, line and keyword in the error detail. What belongs to an option that is
 * off (tau-p, pme-order, pull-..., ...) and output and bookkeeping keys with no effect here
 * (nstlog, nstcheckpoint, title, ...) are accepted. constraint-algorithm, shake-tol and lincs-order
 * ask for no more than MD_RIGID_TOLERANCE gives. A minimisation has neither thermostat nor
 * velocities.
 */
int md_settings_read(const char *path, struct md_settings *settings);

/* The same from an open stream, which stays open; `name` is what messages call it. */
int md_settings_read_stream(FILE *stream, const char *name, struct md_settings *settings);

#endif
