/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run settings: what a GROMACS .mdp file says, as far as this driver does it.
 */
#ifndef MD_SETTINGS_H
#define MD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Coulomb's constant, kJ mol^-1 nm e^-2, and Boltzmann's, kJ mol^-1 K^-1 (as GROMACS has them). */
#define MD_COULOMB   138.935457644
#define MD_BOLTZMANN 0.0083144626181532395

enum md_thermostat { MD_TCOUPL_NO, MD_TCOUPL_V_RESCALE };
enum md_modifier { MD_VDW_NONE, MD_VDW_POTENTIAL_SHIFT };

struct md_settings {
    char file[256];               /* the .mdp, for messages */
    char define[512];             /* preprocessor definitions, "-DA -DB=1" */
    double dt_ps;                 /* dt, default 0.001 */
    int64_t steps;                /* nsteps, default 0 */
    int nstlist;                  /* default 10; 0 becomes "never rebuild" only for --steps 0 */
    int nstcalcenergy, nstenergy; /* defaults 100, 1000 */
    int nstcomm;                  /* default 100; 0 with comm-mode = none */
    int nsttcouple;               /* -1: derived as GROMACS does (10, at least) */
    double rcoulomb_nm, rvdw_nm;  /* defaults 1.0; the two have to be equal */
    double rlist_nm;              /* used only when the tolerance is negative */
    double epsilon_r, epsilon_rf; /* defaults 1, 0 (0 means infinite for epsilon-rf) */
    enum md_modifier vdw_modifier;
    double verlet_buffer_tolerance; /* kJ/mol/ps/atom a pair, default 0.005 */
    enum md_thermostat tcoupl;
    double tau_t_ps, ref_t_k;
    int64_t ld_seed; /* v-rescale's noise; -1 is taken as 1 and said so */
    bool gen_vel;
    double gen_temp_k; /* default 300 */
    int64_t gen_seed;  /* -1 likewise */
    bool remove_com;   /* comm-mode linear (default) or none */
};

/*
 * Reads an .mdp file. Keys are case-blind, '-' and '_' the same, ';' begins a comment. A key or a
 * value that this driver does not do is -ENOTSUP, a malformed one -EINVAL, a missing file its
 * errno; each names file, line and keyword in the error detail. Output and bookkeeping keys with no
 * effect here (nstlog, nstxout, nstvout, nstfout, nstxout-compressed, title, ...) are accepted.
 */
int md_settings_read(const char *path, struct md_settings *settings);

#endif
