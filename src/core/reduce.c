// SPDX-License-Identifier: Apache-2.0
// Sums, minima, maxima and verdicts over all ranks.
//
// Algorithm: each rank writes its contribution into a slot of its own arena, raises the slot's
// signal to the epoch, and then reads everybody's slot in rank order. Slots come in two by the
// epoch's parity: whoever writes epoch e + 2 has seen all signals of e + 1, and each of those was
// raised after that rank had read epoch e, so nothing is overwritten while read and no
// acknowledgement is needed. Advantage: one hop, and the same bits on every rank. Disadvantage:
// every rank reads every slot, n^2 cache lines in all, so it is for setting up. It stays beside the
// message layer: a verdict may be about opening that layer, and each rank looks at each other's
// slot itself, so the one that is late or dead is named, not the one that waits for it.
//
// Whoever waits here moves its messages on meanwhile: the rank that is missing may have to be rid
// of one before it can come.

#include "core/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PROGRESS_NS 5000000 /* between two looks at messages */

static int await(struct leat_job *job, int rank, uint64_t epoch, uint64_t deadline_ns)
{
    struct leat_signal *ready = &leat_arena_head(job, rank)->reduce.ready;
    uint64_t seen, until_ns;
    int error;
    do {
        until_ns = job->progress ? leat_now_ns() + PROGRESS_NS : deadline_ns;
        until_ns = until_ns < deadline_ns ? until_ns : deadline_ns;
        error = leat_signal_wait(job, ready, epoch, rank, until_ns, &seen);
        if (error == -ETIMEDOUT && job->progress)
            job->progress(job);
    } while (error == -ETIMEDOUT && until_ns < deadline_ns);
    return error ? leat_wait_fail(job, error, "reduction", rank, epoch, seen) : 0;
}

static double combine(enum reduce_operation operation, double a, double b)
{
    switch (operation) {
    case REDUCE_MIN:
        return b < a ? b : a;
    case REDUCE_MAX:
        return b > a ? b : a;
    default:
        return a + b;
    }
}

int leat_reduce(struct leat_job *job, enum reduce_operation operation, double *values, int count)
{
    if (count < 0 || count > LEAT_REDUCE_WORDS)
        return leat_fail(-EINVAL, "a reduction of %d values; at most %d", count, LEAT_REDUCE_WORDS);
    int away = leat_all_here(job, "a reduction over all ranks");
    if (away)
        return away;
    uint64_t epoch = ++job->reduce_epoch;
    struct reduce_slot *own = &job->arena.head->reduce;
    memcpy(own->side[epoch & 1].value, values, (size_t)count * sizeof *values);
    leat_signal_raise(&own->ready, epoch);
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int error = await(job, rank, epoch, deadline_ns);
        if (error)
            return error;
        const double *theirs = leat_arena_head(job, rank)->reduce.side[epoch & 1].value;
        for (int i = 0; i < count; i++)
            values[i] = rank ? combine(operation, values[i], theirs[i]) : theirs[i];
    }
    return 0;
}

int leat_barrier(struct leat_job *job)
{
    double nothing = 0;
    return leat_reduce(job, REDUCE_SUM, &nothing, 0);
}

int leat_agree(struct leat_job *job, int error)
{
    int away = error ? error : leat_all_here(job, "an agreement of all ranks");
    if (job->first_away >= 0)
        return away;
    uint64_t epoch = ++job->reduce_epoch;
    struct reduce_slot *own = &job->arena.head->reduce;
    own->side[epoch & 1].error = error;
    snprintf(own->side[epoch & 1].detail, LEAT_DETAIL_BYTES, "%s",
             error ? leat_error_detail() : "");
    leat_signal_raise(&own->ready, epoch);
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    int verdict = error;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int lost = await(job, rank, epoch, deadline_ns);
        if (lost)
            return error ? error : lost;
        const struct reduce_slot *theirs = &leat_arena_head(job, rank)->reduce;
        if (!verdict && theirs->side[epoch & 1].error)
            verdict = leat_fail(-EREMOTEIO, "rank %d: %s", rank, theirs->side[epoch & 1].detail);
    }
    return verdict;
}
