// SPDX-License-Identifier: Apache-2.0
// Sums, verdicts and rank 0's data, by the collectives of msg.h.
//
// Algorithm: a collective is started and waited for with the job's time-out; sums are copied to
// memory that stays, since a wait that has ended does not end the collective. A verdict is the
// minimum of the numbers of ranks that failed, and only where there is one its words are broadcast.
// Advantage: one small reduction where all is well, and the order of every sum is the collectives'.
// Disadvantage: who waits for a rank that waits for another may name the wrong one; where a process
// of the job is stopped that one is named as well.

#include "md/together.h"

#include "core/log.h"
#include "core/signal.h"
#include "md/md.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// What waited in vain says what it waited for; a process that is stopped is the likely reason.
static int fail_stopped(const leat_job *job, int stopped)
{
    char detail[LEAT_DETAIL_BYTES];
    memcpy(detail, leat_error_detail(), sizeof detail - 1);
    detail[sizeof detail - 1] = 0;
    return leat_fail(-ETIMEDOUT,
                     "rank %d (process %d) is stopped; continue it, or raise LEAT_TIMEOUT: %s",
                     stopped, leat_rank_record(job, stopped)->pid, detail);
}

static int await(struct md_rank *rank, bool patient)
{
    leat_request *const requests[] = {&rank->together.request};
    double timeout_s = rank->job->config.timeout_s;
    for (;;) {
        int error = leat_request_wait(requests, 1, LEAT_WAIT_ALL, timeout_s, NULL);
        int stopped = error == -ETIMEDOUT ? leat_rank_stopped(rank->job) : -1;
        if (stopped >= 0)
            return fail_stopped(rank->job, stopped);
        if (error != -ETIMEDOUT || !patient)
            return error;
        leat_log(rank->job->config.log_level, LOG_WARN, rank->rank,
                 "rank 0 still reads or writes files: %s", leat_error_detail());
    }
}

static int perform(struct md_rank *rank, leat_collective_options *options, bool patient)
{
    struct md_together *together = &rank->together;
    if (together->error)
        return together->error;
    options->size = sizeof *options;
    int error = together->comm ? 0 : leat_comm_split(rank->job, NULL, &together->comm);
    if (!error)
        error = leat_collective(together->comm, options, &together->request);
    if (!error)
        error = await(rank, patient);
    together->error = error;
    return error;
}

void md_together_end(struct md_together *together)
{
    free(together->parcel);
    free(together->told);
    together->parcel = NULL;
    together->told = NULL;
}

static int reduce(struct md_rank *rank, double *values, int count, enum leat_operation operation)
{
    double *word = rank->together.word;
    leat_collective_options reduction = {.kind = LEAT_ALLREDUCE,
                                         .send = LEAT_IN_PLACE,
                                         .receive = word,
                                         .count = (uint64_t)count,
                                         .type = LEAT_DOUBLE,
                                         .operation = operation};
    if (count < 0 || count > MD_SUM_WORDS)
        return leat_fail(-EINVAL, "a sum of %d values over ranks; at most %d", count, MD_SUM_WORDS);
    memcpy(word, values, (size_t)count * sizeof *values);
    int error = perform(rank, &reduction, false);
    if (!error)
        memcpy(values, word, (size_t)count * sizeof *values);
    return error;
}

int md_sum(struct md_rank *rank, double *values, int count)
{
    return reduce(rank, values, count, LEAT_SUM);
}

int md_most(struct md_rank *rank, double *values, int count)
{
    return reduce(rank, values, count, LEAT_MAXIMUM);
}

int md_sum_array(struct md_rank *rank, double *values, uint64_t count)
{
    leat_collective_options sum = {.kind = LEAT_ALLREDUCE,
                                   .send = LEAT_IN_PLACE,
                                   .receive = values,
                                   .count = count,
                                   .type = LEAT_DOUBLE,
                                   .operation = LEAT_SUM};
    return perform(rank, &sum, false);
}

static int tell_from(struct md_rank *rank, int root, void *data, uint64_t bytes, bool patient)
{
    leat_collective_options tell = {
        .kind = LEAT_BROADCAST, .receive = data, .count = bytes, .type = LEAT_BYTE, .root = root};
    return perform(rank, &tell, patient);
}

static int find_failed(struct md_rank *rank, int error, bool patient)
{
    struct md_together *together = &rank->together;
    leat_collective_options first = {.kind = LEAT_ALLREDUCE,
                                     .send = LEAT_IN_PLACE,
                                     .receive = &together->failed_rank,
                                     .count = 1,
                                     .type = LEAT_INT32,
                                     .operation = LEAT_MINIMUM};
    together->failed_rank = error ? rank->rank : rank->rank_count;
    return perform(rank, &first, patient);
}

static int agree(struct md_rank *rank, int error, bool patient)
{
    char *notice = rank->together.notice, own[LEAT_DETAIL_BYTES] = "";
    if (error)
        strncpy(own, leat_error_detail(), sizeof own - 1);
    int lost = find_failed(rank, error, patient), from = rank->together.failed_rank;
    if (!lost && from == rank->rank_count)
        return 0;
    memcpy(notice, own, sizeof own);
    if (!lost)
        lost = tell_from(rank, from, notice, sizeof own, false);
    if (error)
        return leat_fail(error, "%s", own);
    return lost ? lost : leat_fail(-EREMOTEIO, "rank %d: %s", from, notice);
}

int md_agree(struct md_rank *rank, int error)
{
    return agree(rank, error, false);
}

int md_agree_on_files(struct md_rank *rank, int error)
{
    return agree(rank, error, true);
}

int md_tell(struct md_rank *rank, void *data, uint64_t bytes)
{
    return tell_from(rank, 0, data, bytes, true);
}

int md_deal(struct md_rank *rank, const double *all, const uint64_t *counts, double *own,
            uint64_t own_count)
{
    leat_collective_options deal = {.kind = LEAT_SCATTER,
                                    .send = all,
                                    .send_counts = counts,
                                    .receive = own,
                                    .count = own_count,
                                    .type = LEAT_DOUBLE};
    return perform(rank, &deal, true);
}

int md_tell_each_other(struct md_rank *rank, const void *own, uint64_t bytes, const void **all)
{
    struct md_together *together = &rank->together;
    uint64_t needed = bytes * ((uint64_t)rank->rank_count + 1);
    int error = 0;
    if (needed > together->told_bytes) {
        free(together->told);
        together->told = malloc(needed);
        together->told_bytes = together->told ? needed : 0;
        if (!together->told)
            error = leat_fail(-ENOMEM, "no memory for %llu bytes from %d ranks",
                              (unsigned long long)bytes, rank->rank_count);
    }
    error = agree(rank, error, false);
    if (error)
        return error;
    memcpy(together->told, own, bytes);
    leat_collective_options tell = {.kind = LEAT_ALLGATHER,
                                    .send = together->told,
                                    .receive = together->told + bytes,
                                    .count = bytes,
                                    .type = LEAT_BYTE};
    error = perform(rank, &tell, false);
    if (!error)
        *all = together->told + bytes;
    return error;
}
