/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run writes while it goes: energies row by row, frames of a trajectory, checkpoints.
 *
 * Rank 0 has the files open. An error of one of them names the file and the byte, and ends the run.
 */
#ifndef MD_FILES_H
#define MD_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct md_rank;
struct md_options;
struct md_trajectory;

/* Begun by {0}. */
struct md_files {
    FILE *energies;                   /* rank 0, with --energies */
    uint64_t energies_bytes;          /* written so far */
    struct md_trajectory *trajectory; /* rank 0, with --trajectory */
    uint64_t trajectory_bytes;        /* written, or on their way */
    char *checkpoint;                 /* --checkpoint, behind symbolic links; NULL: none */
    int64_t checkpoint_step;          /* of the last that is in place; -1: none */
    bool checkpoint_good;             /* what is there under its name is known to be whole */
    int grid[3];                      /* that the run had on as many ranks; zeros: none */
    bool other_ranks;                 /* the run goes on on another number of them than it had */
    int signals;                      /* where INT and TERM can be read; 0: nowhere */
    bool stopping;                    /* one of them has come */
    unsigned char *section;           /* of a checkpoint */
    uint64_t section_capacity;
};

/* ---- files.c ---- */
/* Before anything is read: finds where a checkpoint goes. */
int md_files_begin(struct md_rank *rank);
/* Opens what rank 0 writes while steps are made, where rank->step is the first of them. */
int md_files_open(struct md_rank *rank);
/* Until all of it is on its way to the device. */
int md_files_close(struct md_rank *rank);
void md_files_end(struct md_rank *rank);

/* ---- stop.c ---- */
/* Before the job is opened: keeps INT and TERM from ending this process, if it writes checkpoints.
 */
void md_stop_hold(const struct md_options *options);
int md_stop_begin(struct md_rank *rank);
void md_stop_end(struct md_rank *rank);
/* Sets files.stopping once one has come to a rank. Collective with --checkpoint, else nothing. */
int md_stop_watch(struct md_rank *rank);
/* The error to end with, the same on all ranks. */
int md_stop(struct md_rank *rank);

/* ---- trajectory.c ---- */
/* What the frame of that step holds (enum md_wanted), the same on all ranks; 0: there is none. */
int md_trajectory_wants(const struct md_rank *rank, int64_t step);
/* Whether names of atoms are written, which rank 0 has to keep then. */
bool md_trajectory_needs_labels(const struct md_options *options);
/* A new file, or with --restart the one that is there, if one is, cut where the checkpoint says. */
int md_trajectory_open(struct md_rank *rank);
/* The step at hand, where it wants one; on a GPU after md_gpu_home_forces. Rank 0 returns before
 * it is written: an error of that is told by the next call that waits, naming file and offset.
 * Collective. */
int md_trajectory_add(struct md_rank *rank);
/* What has been added is on the device when it returns. */
int md_trajectory_sync(struct md_rank *rank);
int md_trajectory_close(struct md_rank *rank);

/* ---- energies.c ---- */
/* Begins the file with the names of its columns, or goes on at byte `from` of the one that is
 * there, if one is, of which the rest is cut off. -EINVAL it is shorter. */
int md_energies_open(struct md_rank *rank, uint64_t from);
/* A row of rank->energy, at the steps that have one. */
int md_energies_add(struct md_rank *rank);
/* What has been written is on the device when it returns. */
int md_energies_sync(struct md_rank *rank);
int md_energies_close(struct md_rank *rank);

#endif
