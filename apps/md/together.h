/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run do together besides halos: sums, verdicts, and what rank 0 has read.
 *
 * Each call is made by all ranks, in the same order. Waits end after LEAT_TIMEOUT with -ETIMEDOUT,
 * where a rank has died with -ECONNRESET. After the first of these nothing more is sent: a rank
 * that misses another has nobody left to add up with, and each call returns that error.
 */
#ifndef MD_TOGETHER_H
#define MD_TOGETHER_H

#include "core/error.h"
#include "leat/msg.h"

#include <stdbool.h>
#include <stdint.h>

#define MD_SUM_WORDS 64

struct md_rank;

/* Begun by {0}. Outlives the job, which may still look at what a wait has given up. */
struct md_together {
    leat_comm *comm;
    leat_request request;
    int error; /* the first */
    double word[MD_SUM_WORDS];
    int32_t failed_rank;
    char notice[LEAT_DETAIL_BYTES];
    void *parcel; /* memory of md_system_share, which it frees where all goes well */
    uint64_t parcel_bytes;
    unsigned char *told; /* of md_tell_each_other: the own bytes, then those of all */
    uint64_t told_bytes;
};

/* Once the job is closed. */
void md_together_end(struct md_together *together);

/* Replaces `count` values, at most MD_SUM_WORDS, by their sums over ranks: the same bits on each of
 * them, and in each run with as many ranks. */
int md_sum(struct md_rank *rank, double *values, int count);

/* Likewise by the largest over ranks, of values that are numbers or infinite. */
int md_most(struct md_rank *rank, double *values, int count);

/* The same in place, of any number of values, which belong to the job for the rest of the run when
 * this fails. */
int md_sum_array(struct md_rank *rank, double *values, uint64_t count);

/* Everybody's verdict: the own error comes back as it is; where there is none, that of the lowest
 * rank that has one as -EREMOTEIO, with that rank's detail. Also a barrier. */
int md_agree(struct md_rank *rank, int error);

/* The same where rank 0 comes from reading or writing files, which may take as long as it does: no
 * time-out as long as no rank is stopped. */
int md_agree_on_files(struct md_rank *rank, int error);

/* Rank 0's bytes to all. `data` belongs to the job for the rest of the run when this fails. No
 * time-out likewise. */
int md_tell(struct md_rank *rank, void *data, uint64_t bytes);

/* Each rank's `bytes` to all: *all has them one after the other, until the next call. */
int md_tell_each_other(struct md_rank *rank, const void *own, uint64_t bytes, const void **all);

/* Rank 0's `all`, counts[r] values for rank r one after the other, to each its own. `all` and
 * `counts` are looked at on rank 0 only. No time-out likewise. */
int md_deal(struct md_rank *rank, const double *all, const uint64_t *counts, double *own,
            uint64_t own_count);

#endif
