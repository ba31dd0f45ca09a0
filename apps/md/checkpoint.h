/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: everything that a run is going on from, at the beginning of a partition step.
 *
 *     checkpoint_state.c  what belongs to it: named numbers, and those that tell whose it is
 *     checkpoint_write.c  to a file beside the one before
 *     checkpoint_read.c   the run from it, or from the one before where it is damaged
 *
 * On as many ranks the run goes on to the bit as if it had not been interrupted; on another number
 * within rounding. The state is that before the partition, in each rank's order of molecules, so
 * the partition that follows is the same in both.
 */
#ifndef MD_CHECKPOINT_H
#define MD_CHECKPOINT_H

#include "md/checkpoint_format.h"

#include <stdbool.h>

struct md_rank;

/* ---- checkpoint_state.c ---- */
/* What the input has to be, and numbers that all ranks share. */
int md_state_of_job(const struct md_rank *rank, struct md_records *records);
int md_state_of_rank(const struct md_rank *rank, struct md_records *records);
/* -EINVAL the checkpoint is another input's, by the name of what differs; -ENOTSUP it says what
 * this program does not know. */
int md_state_check(const struct md_rank *rank, const char *name, const struct md_records *records);
int md_state_set_job(struct md_rank *rank, const char *name, const struct md_records *records);
int md_state_set_rank(struct md_rank *rank, const char *name, const struct md_records *records);

/* ---- checkpoint_write.c ---- */
/* Whether one is due before the step that comes next, which begins with a partition. */
bool md_checkpoint_due(const struct md_rank *rank);
/*
 * Writes --checkpoint: under a temporary name, to the device, the one before to FILE.prev, the new
 * one in its place. Collective. What the system says, naming the file; the one before is in place
 * then, or FILE.prev.
 */
int md_checkpoint_write(struct md_rank *rank);

/* ---- checkpoint_read.c ---- */
/*
 * This rank's molecules, with positions and velocities, and the state, from --restart, or from
 * FILE.prev, with a warning, where that is not there or damaged. Collective. -EBADMSG both are;
 * errors of md_state_check.
 */
int md_checkpoint_read(struct md_rank *rank);
/* On one rank: 0 where the file is a checkpoint and whole. */
int md_checkpoint_verify(struct md_rank *rank, const char *path);

#endif
