/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run writes while it goes: energies, row by row.
 *
 * Rank 0 has the files open. An error of one of them names the file and the byte, and ends the run.
 */
#ifndef MD_FILES_H
#define MD_FILES_H

#include <stdint.h>
#include <stdio.h>

struct md_rank;

/* Begun by {0}. */
struct md_files {
    FILE *energies;          /* rank 0, with --energies */
    uint64_t energies_bytes; /* written so far */
};

/* ---- energies.c ---- */
/* Begins the file with the names of its columns, or goes on at byte `from` of the one that is
 * there, of which the rest is cut off. -EINVAL it is shorter. */
int md_energies_open(struct md_rank *rank, uint64_t from);
/* A row of rank->energy, at the steps that have one. */
int md_energies_add(struct md_rank *rank);
/* What has been written is on the device when it returns. */
int md_energies_sync(struct md_rank *rank);
int md_energies_close(struct md_rank *rank);

#endif
