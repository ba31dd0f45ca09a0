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
// Where some ranks are reached by the network, rank 0 alone reads the slots: its service puts what
// comes from elsewhere into the slots that those ranks have in its own segment, and it tells
// everybody the result, or who is late or dead. Advantage: 2 messages a rank. Disadvantage: a
// second hop.
//
// Whoever waits here moves its messages on meanwhile: the rank that is missing may have to be rid
// of one before it can come.

#include "core/job.h"
#include "transport/far.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_NS 5000000 /* between two looks at messages */

static int await(struct leat_job *job, struct leat_signal *ready, int rank, uint64_t epoch,
                 uint64_t deadline_ns)
{
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

static int await_slot(struct leat_job *job, int rank, uint64_t epoch, uint64_t deadline_ns)
{
    return await(job, &leat_arena_head(job, rank)->reduce.ready, rank, epoch, deadline_ns);
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

// ---- Where everybody sees everybody's slot ----

static int reduce_here(struct leat_job *job, enum reduce_operation operation, double *values,
                       int count, uint64_t epoch)
{
    struct reduce_slot *own = &job->arena.head->reduce;
    memcpy(own->side[epoch & 1].value, values, (size_t)count * sizeof *values);
    leat_signal_raise(&own->ready, epoch);
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int error = await_slot(job, rank, epoch, deadline_ns);
        if (error)
            return error;
        const double *theirs = leat_arena_head(job, rank)->reduce.side[epoch & 1].value;
        for (int i = 0; i < count; i++)
            values[i] = rank ? combine(operation, values[i], theirs[i]) : theirs[i];
    }
    return 0;
}

static int agree_here(struct leat_job *job, int error, uint64_t epoch)
{
    struct reduce_slot *own = &job->arena.head->reduce;
    own->side[epoch & 1].error = error;
    snprintf(own->side[epoch & 1].detail, LEAT_DETAIL_BYTES, "%s",
             error ? leat_error_detail() : "");
    leat_signal_raise(&own->ready, epoch);
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    int verdict = error;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int lost = await_slot(job, rank, epoch, deadline_ns);
        if (lost)
            return error ? error : lost;
        const struct reduce_side *theirs = &leat_arena_head(job, rank)->reduce.side[epoch & 1];
        if (!verdict && theirs->error)
            verdict = leat_fail(-EREMOTEIO, "rank %d: %s", rank, theirs->detail);
    }
    return verdict;
}

// ---- Where some are reached by the network ----

// Adds up, and finds the first error, in rank order. What is wrong goes into the sum.
static void gather(struct leat_job *job, enum reduce_operation operation, int count,
                   uint64_t deadline_ns, struct reduce_side *sum)
{
    for (int rank = 0; rank < job->rank_count; rank++) {
        int lost = rank ? await_slot(job, rank, sum->epoch, deadline_ns) : 0;
        const struct reduce_slot *slot = &leat_arena_head(job, rank)->reduce;
        const struct reduce_side *theirs = &slot->side[sum->epoch & 1];
        if (lost) {
            sum->error = lost;
            snprintf(sum->detail, sizeof sum->detail, "%s", leat_error_detail());
            return;
        }
        for (int i = 0; i < count; i++)
            sum->value[i] =
                rank ? combine(operation, sum->value[i], theirs->value[i]) : theirs->value[i];
        if (theirs->error && !sum->error) {
            sum->error = -EREMOTEIO;
            snprintf(sum->detail, sizeof sum->detail, "rank %d: %.980s", rank, theirs->detail);
        }
    }
}

static void answer_here(struct leat_job *job, int rank, const struct reduce_side *sum)
{
    struct reduce_slot *slot = &leat_arena_head(job, rank)->reduce;
    slot->answer = *sum;
    leat_signal_raise(&slot->answered, sum->epoch);
}

// Whom the answer does not reach, the next call finds.
static int answer_all(struct leat_job *job, struct reduce_side *sum, uint64_t deadline_ns)
{
    struct far_operation *tell = calloc((size_t)job->rank_count, sizeof *tell);
    if (!tell)
        return leat_fail(-ENOMEM, "no memory to answer %d ranks", job->rank_count);
    for (int rank = 1; rank < job->rank_count; rank++) {
        tell[rank] = (struct far_operation){.verb = FAR_DO_ANSWER, .rank = rank, .local = sum};
        if (!far_reaches(job, rank))
            answer_here(job, rank, sum);
        if (!far_reaches(job, rank) || far_begin(job, &tell[rank]))
            tell[rank].rank = 0;
    }
    for (int rank = 1; rank < job->rank_count; rank++)
        if (tell[rank].rank)
            (void)far_wait(job, &tell[rank], "reduction", deadline_ns);
    free(tell);
    return 0;
}

static int contribute(struct leat_job *job, struct reduce_side *side)
{
    struct reduce_slot *own = &job->arena.head->reduce;
    // What this rank has written by now, others may read once they have the answer.
    far_settle(job);
    if (job->rank == 0 || !far_reaches(job, 0)) {
        own->side[side->epoch & 1] = *side;
        leat_signal_raise(&own->ready, side->epoch);
        return 0;
    }
    struct far_operation tell = {.verb = FAR_DO_SUM, .local = side};
    return far_do(job, &tell, "reduction");
}

// Rank 0 may have waited all the time for somebody else, whom its answer names.
static int await_answer(struct leat_job *job, struct reduce_side *side)
{
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns + job->timeout_ns / 2;
    struct reduce_slot *own = &job->arena.head->reduce;
    int error = await(job, &own->answered, 0, side->epoch, deadline_ns);
    if (!error)
        *side = own->answer;
    return error;
}

// `side` is this rank's, and then everybody's.
static int reduce_far(struct leat_job *job, enum reduce_operation operation, int count,
                      struct reduce_side *side)
{
    int error = far_open(job);
    if (!error)
        error = contribute(job, side);
    if (error || job->rank)
        return error ? error : await_answer(job, side);
    uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    struct reduce_side sum = {.epoch = side->epoch};
    gather(job, operation, count, deadline_ns, &sum);
    *side = sum;
    return answer_all(job, &sum, deadline_ns + job->timeout_ns / 2);
}

int leat_reduce(struct leat_job *job, enum reduce_operation operation, double *values, int count)
{
    if (count < 0 || count > LEAT_REDUCE_WORDS)
        return leat_fail(-EINVAL, "a reduction of %d values; at most %d", count, LEAT_REDUCE_WORDS);
    uint64_t epoch = ++job->reduce_epoch;
    if (!job->networked)
        return reduce_here(job, operation, values, count, epoch);
    struct reduce_side side = {.epoch = epoch};
    memcpy(side.value, values, (size_t)count * sizeof *values);
    int error = reduce_far(job, operation, count, &side);
    if (!error && side.error)
        error = leat_fail((int)side.error, "%s", side.detail);
    if (!error)
        memcpy(values, side.value, (size_t)count * sizeof *values);
    return error;
}

int leat_barrier(struct leat_job *job)
{
    double nothing = 0;
    return leat_reduce(job, REDUCE_SUM, &nothing, 0);
}

int leat_agree(struct leat_job *job, int error)
{
    uint64_t epoch = ++job->reduce_epoch;
    if (!job->networked)
        return agree_here(job, error, epoch);
    struct reduce_side side = {.epoch = epoch, .error = error};
    snprintf(side.detail, sizeof side.detail, "%s", error ? leat_error_detail() : "");
    char own[LEAT_DETAIL_BYTES];
    memcpy(own, side.detail, sizeof own);
    int lost = reduce_far(job, REDUCE_SUM, 0, &side);
    if (error)
        return leat_fail(error, "%s", own);
    if (lost || !side.error)
        return lost;
    return leat_fail((int)side.error, "%s", side.detail);
}
