/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays the plans of a job and reports what is wrong with them: what the two sides of a pulse
 * disagree about, and every ghost that is missing, double or stale.
 *
 * Advantage: runs the library's own exchange, in any mode, so that a finding is what a program
 * would see. Disadvantage: all ranks are threads here; what only processes or GPUs do wrong is not
 * found.
 */
#ifndef LEAT_HALO_CHECK_H
#define LEAT_HALO_CHECK_H

#include "halo/plan_file.h"

enum finding_kind {
    FINDING_DISAGREES, /* the two sides of a pulse expect different things */
    FINDING_MISSING,   /* a ghost that should be there is not */
    FINDING_DOUBLE,    /* an element came more often than it should */
    FINDING_MISPLACED, /* it came, but to another ghost's place */
    FINDING_STALE,     /* the value is of another step */
    FINDING_SUM,       /* the way back did not bring every ghost's value once */
    FINDING_FAILED,    /* the exchange itself failed */
    FINDING_KINDS
};

#define FINDINGS_KEPT 1000

struct finding {
    enum finding_kind kind;
    int rank, pulse; /* pulse -1: none in particular */
    uint32_t slot;   /* entry of the pulse */
    char text[300];
};

struct check_report {
    uint64_t count[FINDING_KINDS], ghosts,
        exchanges; /* ghosts looked at, over all steps and ranks */
    size_t kept;
    struct finding finding[FINDINGS_KEPT]; /* the first ones */
};

extern const char *const leat_finding_names[FINDING_KINDS];

/* Compares both sides of every pulse. Takes no job; a plan with findings here cannot be opened. */
void leat_check_pairs(const struct plan_set *set, struct check_report *report);

/*
 * Runs `steps` steps, forward and back, in one mode. Findings are no errors; the result is one only
 * when the replay could not be made at all.
 */
int leat_check_replay(const struct plan_set *set, enum leat_mode mode, int steps,
                      struct check_report *report);

/* The findings of all kinds. */
uint64_t leat_check_total(const struct check_report *report);

#endif
