/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run tells: plain values, printed for people or as one JSON object (schema leat.md/1).
 */
#ifndef MD_REPORT_H
#define MD_REPORT_H

#include "md/halo_check.h"
#include "md/md.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A row of the path table, with what all ranks sent over it. */
struct md_path {
    char name[16], reason[LEAT_REASON];
    bool chosen;
    double bytes, operations;
};

/* Sums over ranks. */
struct md_counts {
    double launches, blocking_waits, signal_waits, wait_s, arena_peak_bytes;
    double proxy_orders, proxy_bytes, provider_bytes;
};

struct md_report {
    int64_t atoms, steps;
    int rank_count, grid[3];
    const char *mode, *order, *plan, *device, *precision, *kernel;
    double dt_ps, cutoff_nm, list_nm;
    const struct md_units *units; /* of the energies and what goes with them */
    bool per_atom;                /* energies are told an atom, too */
    struct md_energy energy;
    bool has_term[MD_TERM_KINDS]; /* of them the system has some */
    bool has_minimum;             /* of a minimisation, which made `steps` */
    struct md_minimum minimum;
    bool has_drift, has_time;
    double drift; /* of energy in time, an atom */
    double median_us, phase_us[PHASE_COUNT], ns_per_day;
    int path_count;
    struct md_path path[LEAT_PATH_ROWS];
    struct md_halo_checked checked; /* of no steps: nothing has been checked */
    bool has_counts;
    struct md_counts counts;
};

/* Fills the report, the same on every rank. Collective. Times are means over ranks, so that phases
 * add up to the mean step; the median is rank 0's. */
int md_report_make(struct md_rank *rank, struct md_report *report);

/* Names of system and options that do not need ranks. */
void md_report_begin(const struct md_system *system, const struct md_options *options,
                     struct md_report *report);

void md_report_text(const struct md_report *report, FILE *stream);
/* -ENOMEM, or -EIO when it could not be written. */
int md_report_json(const struct md_report *report, FILE *stream);

extern const char *const md_phase_names[PHASE_COUNT];

#endif
