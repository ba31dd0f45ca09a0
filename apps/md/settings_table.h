/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of .mdp options behind settings.c.
 */
#ifndef MD_SETTINGS_TABLE_H
#define MD_SETTINGS_TABLE_H

#include "md/settings.h"

#include <stddef.h>

enum md_rule {
    MD_IGNORED, /* no effect here, or belongs to an option that is refused when on */
    MD_NEUTRAL, /* each word of the value has to be one of `values`, which change nothing */
    MD_EMPTY,   /* has to be left empty */
    MD_REAL,    /* a number of at least `least` */
    MD_INT,     /* likewise */
    MD_INT64,
    MD_CHOICE, /* the index of the value in `values`; those in `lacking` are GROMACS' alone */
    MD_TEXT,   /* kept as written */
};

/* What is read before it is made into settings. */
struct md_raw_settings {
    struct md_settings out;
    int integrator, cutoff_scheme, pbc, comm_mode, coulombtype, coulomb_modifier, vdwtype;
    int vdw_modifier, tcoupl, constraints, gen_vel, continuation;
    int64_t nstxout_compressed; /* for a note only */
    char include[512];
    char tc_groups[1024], tau_t[512], ref_t[512];
};

struct md_option {
    const char *names; /* alternatives, separated by blanks; one may end in '*' */
    enum md_rule rule;
    size_t offset; /* into struct md_raw_settings */
    const char *values, *lacking;
    double least;
    size_t bytes; /* of the text */
};

enum md_coulombtype { MD_COULOMB_CUT_OFF, MD_COULOMB_REACTION_FIELD };
enum md_coulomb_modifier { MD_COULOMB_SHIFT, MD_COULOMB_SHIFT_VERLET, MD_COULOMB_UNSHIFTED };
enum md_vdw_modifier_value { MD_VDW_SHIFT, MD_VDW_SHIFT_VERLET, MD_VDW_UNSHIFTED };
enum md_comm_mode { MD_COMM_LINEAR, MD_COMM_NONE };

enum { MD_OPTIONS_MAX = 256 }; /* rows in the table */

extern const struct md_option md_options[];
extern const int md_option_count;

/* Checks what several options say together and derives the rest of raw->out; line_of[i] is the line
 * that set row i of the table, 0 for none. */
int md_settings_settle(struct md_raw_settings *raw, const char *name, const int *line_of);

#endif
