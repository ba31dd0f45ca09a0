/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan files from the inside: one file for all ranks of a job.
 *
 * All numbers are little-endian. A head of 32 bytes (the characters "leatplan", u32 version 1, u32
 * ranks, u64 bytes of the file, u32 zero, u32 CRC-32 of the head so far and the table), a table
 * with 24 bytes a rank (u64 offset, u64 bytes, u32 CRC-32, u32 zero), then the ranks' sections one
 * after the other, each padded to 8 bytes:
 *
 *   u32 rank, pulses, home elements, elements; u64 sent entries of all pulses; f64 ghost margin
 * (nm) a pulse: i32 dimension, direction, send rank, receive rank (-1: nobody); u32 send count,
 * receive count, dependent start, receive offset; f64 shift[3] (nm) an entry: u32 element a ghost:
 * i32 owner (-1: unknown), u32 element there: where it is to come from an element: u8 zone
 *
 * The ghosts' origins say the same as the pulses in another way, so that a replay can tell what is
 * missing from what came twice. Advantage: a rank reads its own section and no other; every size in
 * the file is bounded by the file's own. Disadvantage: not for editing by hand.
 */
#ifndef LEAT_HALO_PLAN_FILE_H
#define LEAT_HALO_PLAN_FILE_H

#include "halo/plan.h"

#include <stddef.h>

struct origin {
    int32_t owner; /* -1: unknown */
    uint32_t element;
};

/* All plans of a job, and where their ghosts are to come from. */
struct plan_set {
    int rank_count;
    leat_plan **plan;       /* [rank_count] */
    struct origin **origin; /* [rank_count][ghosts], in the order of the ghosts */
};

/* Reads every rank's plan. `name` is for messages; nothing is left to free after an error. */
int leat_plan_set_parse(const void *data, size_t bytes, const char *name, struct plan_set *set);
int leat_plan_set_read(const char *path, struct plan_set *set);
/* Replaces the file at `path` in one step. */
int leat_plan_set_write(const struct plan_set *set, const char *path);
void leat_plan_set_free(struct plan_set *set);

/* Follows every element through the pulses, without running anything; what does not arrive is left
 * unknown. */
void leat_plan_set_trace(struct plan_set *set);

/* The number of the peer's pulse that goes with pulse `p` of `rank`: of those between the two, as
 * many come before it there as here; -1 when there is none. */
int leat_plan_set_match(const struct plan_set *set, int rank, int p, int sends);

#endif
