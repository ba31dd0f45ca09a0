// SPDX-License-Identifier: Apache-2.0
// Opening and leaving a job.
//
// Algorithm: a rank gets its host's segment (bootstrap.h), claims its record and lays out its
// arena; where ranks had to find one another, all of them wait for the last. Advantage: a constant
// number of small messages a rank, and under `leat run` none, so opening costs the same for two
// ranks and for two thousand. Disadvantage: under `leat run` whether a peer is there shows only
// when it is used.

#define _GNU_SOURCE
#include "core/bootstrap.h"
#include "core/launch.h"
#include "core/trace.h"
#include "device/lookout.h"
#include "device/ops.h"
#include "file/internal.h"
#include "halo/proxy.h"
#include "transport/door.h"
#include "transport/far.h"
#include "transport/nvshmem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int claim_record(struct leat_job *job)
{
    struct rank_record *record = leat_rank_record(job, job->rank);
    uint32_t state = RANK_ABSENT;
    if (!__atomic_compare_exchange_n(&record->state, &state, RANK_OPEN, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return leat_fail(-EALREADY, "rank %d of this job %s; a rank opens its job once", job->rank,
                         state == RANK_OPEN ? "is open already" : "has left it already");
    __atomic_store_n(&record->pid, getpid(), __ATOMIC_RELAXED);
    record->here = 1;
    // Where Yama restricts cross-memory attach, it is opened to the launcher and what descends from
    // it. Children of the launcher have that from birth; this rank may be a child of one of them.
    const struct segment_head *head = job->segment->head;
    if (!head->threads && getppid() != head->creator_pid)
        prctl(PR_SET_PTRACER, (unsigned long)head->creator_pid, 0, 0, 0);
    __atomic_store_n(&record->probe, (uint64_t)(uintptr_t)record, __ATOMIC_RELEASE);
    return 0;
}

static int open_rank(struct segment *segment, int rank, const struct config *config,
                     leat_job **opened)
{
    struct leat_job *job = calloc(1, sizeof *job);
    if (!job)
        return leat_fail(-ENOMEM, "no memory for a job handle");
    job->segment = segment;
    job->rank = rank;
    job->first_away = -1;
    job->rank_count = (int)segment->head->rank_count;
    job->config = *config;
    job->timeout_ns = (uint64_t)(config->timeout_s * 1e9);
    job->networked = far_required(job);
    pthread_mutex_init(&job->file_lock, NULL);
    job->peer = calloc((size_t)job->rank_count, sizeof *job->peer);
    int error = job->peer ? leat_arena_open(job) : leat_fail(-ENOMEM, "no memory for a job handle");
    if (!error)
        error = leat_trace_open(job);
    if (!error)
        error = leat_device_open(job, &job->device);
    if (!error)
        error = claim_record(job);
    if (error) {
        if (job->device)
            job->device->ops->close(job->device);
        leat_arena_close(job);
        pthread_mutex_destroy(&job->file_lock);
        free(job->trace);
        free(job->peer);
        free(job);
        return error;
    }
    *opened = job;
    return 0;
}

static int read_options(const leat_options *options, leat_options *full)
{
    *full = (leat_options){.size = sizeof *full};
    if (!options)
        return 0;
    if (!options->size)
        return leat_fail(-EINVAL, "leat_options.size is 0; set it to sizeof(leat_options)");
    memcpy(full, options, options->size < sizeof *full ? options->size : sizeof *full);
    if (full->thread_ranks < 0)
        return leat_fail(-EINVAL, "leat_options.thread_ranks is %d", full->thread_ranks);
    if (full->thread_ranks && leat_launched())
        return leat_fail(-EINVAL,
                         "thread_ranks is %d, but this process is a rank of a launched job",
                         full->thread_ranks);
    return 0;
}

// For an error that the detail has, which is kept.
static void leave_at_once(struct tie *tie)
{
    char reason[LEAT_DETAIL_BYTES];
    snprintf(reason, sizeof reason, "%s", leat_error_detail());
    const struct tie_ops *ops = tie->ops; // leave may free the tie
    ops->leave(tie, reason);
    if (ops->end)
        ops->end(tie);
    leat_fail(0, "%s", reason);
}

static int open_all(struct segment *segment, int first, int count, const struct config *config,
                    struct tie *tie, leat_job **jobs)
{
    segment->references = count;
    for (int i = 0; i < count; i++) {
        int error = open_rank(segment, first + i, config, &jobs[i]);
        if (!error)
            continue;
        if (tie) // it may still write to the segment
            leave_at_once(tie);
        // The references of the ranks that did not come to be, then those that did.
        for (int rest = i; rest < count; rest++)
            leat_segment_release(segment);
        while (i-- > 0)
            leat_close(jobs[i], "another thread rank could not be opened");
        return error;
    }
    return 0;
}

// All ranks of this host have claimed their records: who has none here is elsewhere.
static int await_all(leat_job *job, struct tie *tie)
{
    job->tie = tie;
    int error = tie->ops->arrive(tie, job, leat_now_ns() + job->timeout_ns);
    for (int rank = 0; !error && job->first_away < 0 && rank < job->rank_count; rank++)
        if (!leat_rank_record(job, rank)->here) {
            job->first_away = rank;
            job->networked = true;
        }
    if (error) {
        char reason[LEAT_DETAIL_BYTES];
        snprintf(reason, sizeof reason, "%s", leat_error_detail());
        leat_close(job, reason);
        leat_fail(error, "%s", reason);
    }
    return error;
}

// Of the process's one rank; not for thread ranks, as `count` of them could not be collective here.
static int start_nvshmem(leat_job *job)
{
    int error = leat_nvshmem_open(job);
    if (error) {
        char reason[LEAT_DETAIL_BYTES];
        snprintf(reason, sizeof reason, "%s", leat_error_detail());
        leat_close(job, reason);
        leat_fail(error, "%s", reason);
    }
    return error;
}

int leat_open(const leat_options *options, leat_job **jobs)
{
    leat_options full = {0};
    struct config config;
    struct bootstrap found;
    int error = leat_need(jobs, "leat_open", "jobs");
    if (!error)
        error = read_options(options, &full);
    if (error)
        return error;
    error = leat_config_load(&full, leat_bootstrap_rank(), &config);
    if (!error)
        error = leat_bootstrap(&config, full.thread_ranks, &found);
    if (error)
        return error;
    int count = full.thread_ranks ? full.thread_ranks : 1;
    leat_job *first[1] = {NULL};
    leat_job **opened = count == 1 ? first : jobs; // outputs are set only on success
    error = open_all(found.segment, found.rank, count, &config, found.tie, opened);
    if (!error && found.tie)
        error = await_all(opened[0], found.tie);
    if (!error)
        error = start_nvshmem(opened[0]);
    if (!error && count == 1)
        jobs[0] = first[0];
    return error;
}

void leat_close(leat_job *job, const char *reason)
{
    if (!job)
        return;
    // What was sent arrives before anybody hears that this rank has left.
    leat_proxy_drain(job);
    far_farewell(job);
    struct rank_record *record = leat_rank_record(job, job->rank);
    if (reason) {
        snprintf(record->reason, sizeof record->reason, "%s", reason);
        record->failed = 1;
    }
    __atomic_store_n(&record->state, RANK_CLOSED, __ATOMIC_RELEASE);
    if (reason)
        leat_rank_failed(job->segment->head, job->rank);
    file_pool_close(job); // calls end before the memory and the device that they use go
    struct tie *tie = job->tie;
    const struct tie_ops *ties = tie ? tie->ops : NULL; // leave may free the tie
    if (tie)
        ties->leave(tie, reason);
    job->tie = NULL;
    leat_trace_close(job);
    while (job->children)
        job->children->orphan(job->children);
    leat_proxy_close(job);
    leat_lookout_close(job);
    while (job->regions)
        leat_region_free(job->regions);
    leat_door_close(job);
    far_close(job);
    leat_nvshmem_close(job);
    job->device->ops->close(job->device);
    leat_arena_close(job);
    for (int rank = 0; rank < job->rank_count; rank++)
        free(job->peer[rank]);
    free(job->peer);
    if (tie && ties->end)
        ties->end(tie);
    leat_segment_release(job->segment);
    pthread_mutex_destroy(&job->file_lock);
    free(job);
}

int leat_job_info_get(const leat_job *job, leat_job_info *info)
{
    int error = leat_need(job, "leat_job_info_get", "job");
    if (!error)
        error = leat_need(info, "leat_job_info_get", "info");
    if (error)
        return error;
    if (!info->size)
        return leat_fail(-EINVAL, "leat_job_info.size is 0; set it to sizeof(leat_job_info)");
    const struct segment_head *head = job->segment->head;
    leat_job_info full = {.size = info->size,
                          .rank = job->rank,
                          .rank_count = job->rank_count,
                          .grid = {head->grid[0], head->grid[1], head->grid[2]},
                          .thread_ranks = head->threads ? job->rank_count : 1,
                          .timeout_s = job->config.timeout_s};
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}
