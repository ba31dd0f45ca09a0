/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of many ranks in one thread: real engines over a network in memory, or, under
 * LEAT_PATHS=require:fabric, over libfabric.
 *
 * Ranks are run in random order over a network with random delays, so each seed is another order of
 * arrival, and repeats exactly. Each case makes stamped values, poisons what is received into,
 * bytes around it included, and compares every byte with what a plain loop over the ranks expects.
 * Advantage: any number of ranks, any order, no threads. Disadvantage: calls that block cannot be
 * tested so.
 */
#ifndef LEAT_TEST_MULTI_COLL_JOB_H
#define LEAT_TEST_MULTI_COLL_JOB_H

#include "core/job.h"
#include "msg/coll.h"
#include "support/memory_net.h"

#include "core/signal.h"

#include <leat/msg.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef COLL_JOB_RANKS
#define COLL_JOB_RANKS 40
#endif

struct coll_job {
    struct memory_fabric *fabric;
    int rank_count;
    uint64_t random, now_ns;
    uint64_t moved_ns;                    /* over libfabric: when something happened last */
    struct leat_job *job[COLL_JOB_RANKS]; /* as much of a job as communicators need */
    leat_comm *comm[COLL_JOB_RANKS];
};

/* What differs between networks. */
struct coll_network {
    bool map;
    enum memory_some no_get, no_expose, finish_later;
    uint64_t delay_ns;
    uint32_t refuse_permille;
    uint32_t ring_limit;
    uint64_t budget_bytes; /* 0: ample */
};

__attribute__((unused)) static uint64_t coll_job_random(struct coll_job *job, uint64_t bound)
{
    uint64_t z = job->random += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31)) % bound;
}

/* ---- Over libfabric ---- */

#define COLL_JOB_STUCK_NS UINT64_C(20000000000)

static bool coll_over_fabric(void)
{
    const char *paths = getenv("LEAT_PATHS");
    return paths && !strcmp(paths, "require:fabric");
}

static void coll_fabric_open(struct coll_job *job)
{
    const leat_options options = {.size = sizeof options,
                                  .thread_ranks = job->rank_count,
                                  .arena_bytes = 64 << 20,
                                  .timeout_s = 20};
    if (leat_open(&options, job->job))
        fail_msg("leat_open of %d ranks: %s", job->rank_count, leat_error_detail());
    for (int rank = 0; rank < job->rank_count; rank++)
        if (leat_comm_split(job->job[rank], NULL, &job->comm[rank]))
            fail_msg("rank %d: %s", rank, leat_error_detail());
    job->moved_ns = leat_now_ns();
}

static void *coll_fabric_leave(void *job)
{
    leat_close(job, NULL);
    return NULL;
}

/* All at once: a rank that leaves waits until the others have heard it. */
static void coll_fabric_close(struct coll_job *job)
{
    pthread_t thread[COLL_JOB_RANKS];
    for (int rank = 0; rank < job->rank_count; rank++)
        assert_int_equal(pthread_create(&thread[rank], NULL, coll_fabric_leave, job->job[rank]), 0);
    for (int rank = 0; rank < job->rank_count; rank++)
        pthread_join(thread[rank], NULL);
}

/* ---- Either ---- */

__attribute__((unused)) static void coll_job_open(struct coll_job *job, int rank_count,
                                                  uint64_t seed, const struct coll_network *network)
{
    const struct memory_options options = {.rank_count = rank_count,
                                           .seed = seed,
                                           .queue_packets = 64,
                                           .put_limit = 0,
                                           .refuse_permille = network->refuse_permille,
                                           .delay_ns = network->delay_ns,
                                           .late_permille = network->delay_ns ? 20 : 0,
                                           .map = network->map,
                                           .no_expose = network->no_expose,
                                           .no_get = network->no_get,
                                           .finish_later = network->finish_later};
    const struct msg_tuning tuning = {.budget_bytes =
                                          network->budget_bytes ? network->budget_bytes : 16 << 20,
                                      .ring_slots = 32,
                                      .ring_bulk_bytes = 16 << 10,
                                      .fragment_bytes = 1 << 10,
                                      .eager_bytes = 4 << 10,
                                      .direct_bytes = 2 << 10,
                                      .share_bytes = 64 << 10,
                                      .chunk_bytes = 32 << 10,
                                      .pipe_bytes = 16 << 10,
                                      .queue_window = 8,
                                      .promote_after = 2,
                                      .ring_limit = network->ring_limit,
                                      .handle_limit = 256};
    *job = (struct coll_job){.rank_count = rank_count, .random = seed};
    if (coll_over_fabric()) {
        coll_fabric_open(job);
        return;
    }
    job->fabric = memory_fabric_new(&options);
    assert_non_null(job->fabric);
    for (int rank = 0; rank < rank_count; rank++) {
        job->job[rank] = calloc(1, sizeof **job->job);
        assert_non_null(job->job[rank]);
        struct msg_net *net = memory_fabric_open(job->fabric, rank);
        assert_non_null(net);
        if (msg_engine_open(net, &tuning, &job->job[rank]->msg) ||
            leat_comm_split(job->job[rank], NULL, &job->comm[rank]))
            fail_msg("rank %d: %s", rank, leat_error_detail());
    }
}

__attribute__((unused)) static void coll_job_close(struct coll_job *job)
{
    if (!job->fabric) {
        coll_fabric_close(job);
        return;
    }
    const char *misuse = memory_fabric_misuse(job->fabric);
    if (misuse)
        fail_msg("the network was misused: %s", misuse);
    for (int rank = 0; rank < job->rank_count; rank++) {
        msg_engine_close(job->job[rank]->msg);
        free(job->job[rank]);
    }
    memory_fabric_free(job->fabric);
}

static void coll_job_stuck(struct coll_job *job, leat_request *request, int count)
{
    char text[200];
    for (int i = 0; i < count; i++) {
        const struct msg_request *one = msg_request_of(&request[i]);
        if (one->kind == REQUEST_NONE || msg_finished(one))
            continue;
        msg_collective_describe(one, text, sizeof text);
        print_error("request %d: %s\n", i, text);
    }
    fail_msg("%d ranks stand still", job->rank_count);
}

/* Runs one rank, chosen at random; whether anything happened. */
static bool coll_job_step(struct coll_job *job)
{
    int rank = (int)coll_job_random(job, (uint64_t)job->rank_count);
    if (!job->fabric)
        job->now_ns = leat_now_ns();
    return msg_progress(job->job[rank]->msg, job->now_ns);
}

/* Nothing happens any more before the next arrival, which a real network brings by itself. */
static bool coll_job_waits(struct coll_job *job, int idle)
{
    if (!job->fabric)
        return leat_now_ns() - job->moved_ns < COLL_JOB_STUCK_NS;
    uint64_t next = memory_fabric_next(job->fabric);
    if (next != UINT64_MAX && next > job->now_ns)
        job->now_ns = next;
    return idle <= 10000 * job->rank_count;
}

/* Runs the ranks in random order until all requests are finished. */
__attribute__((unused)) static void coll_job_run(struct coll_job *job, leat_request *request,
                                                 int count)
{
    int open = 0, idle = 0;
    while (open < count) {
        const struct msg_request *first = msg_request_of(&request[open]);
        if (first->kind == REQUEST_NONE || msg_finished(first)) {
            open++;
            continue;
        }
        job->now_ns += coll_job_random(job, 50);
        idle = coll_job_step(job) ? 0 : idle + 1;
        if (!idle)
            job->moved_ns = job->now_ns;
        if (idle % (8 * job->rank_count) == 8 * job->rank_count - 1 && !coll_job_waits(job, idle))
            coll_job_stuck(job, request, count);
    }
}

#endif
