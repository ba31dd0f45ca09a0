// SPDX-License-Identifier: Apache-2.0
// A job's message layer: opened by its first use, closed with the job.
//
// Advantage: a job that sends no message pays nothing. Disadvantage: the first message pays for the
// opening, a few microseconds.

#define _GNU_SOURCE
#include "core/error.h"
#include "core/job.h"
#include "msg/internal.h"
#include "transport/shm_msg.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>

#define QUEUE_LEAST (64u << 10)
#define QUEUE_MOST  (1u << 20)

static size_t counts_bytes(const struct leat_job *job)
{
    return (size_t)job->rank_count * sizeof(struct message_counts);
}

// Called by leat_close. Communicators are the engine's, and go with it.
static void orphan(struct job_child *child)
{
    struct leat_job *job =
        (struct leat_job *)(void *)((char *)child - offsetof(struct leat_job, msg_child));
    *child->link = child->next;
    if (child->next)
        child->next->link = child->link;
    msg_engine_close(job->msg);
    job->progress = NULL;
    munmap(job->message, counts_bytes(job));
    job->msg = NULL;
    job->message = NULL;
}

static void progress(struct leat_job *job)
{
    msg_progress(job->msg, job->msg->now_ns);
}

static uint32_t clamp(uint64_t bytes)
{
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static void tuning_of(const struct config *config, struct msg_tuning *tuning)
{
    *tuning = (struct msg_tuning){.budget_bytes = config->msg_budget_bytes,
                                  .ring_slots = 256,
                                  .ring_bulk_bytes = 64 << 10,
                                  .fragment_bytes = 4 << 10,
                                  .eager_bytes = (uint32_t)config->msg_eager_bytes,
                                  .direct_bytes = 4096,
                                  .share_bytes = clamp(config->msg_share_bytes),
                                  .chunk_bytes = 256 << 10,
                                  .pipe_bytes = 128 << 10,
                                  .tree_bytes = 16 << 10,
                                  .queue_window = 8,
                                  .promote_after = 2,
                                  .ring_limit = (uint32_t)config->msg_peers,
                                  .handle_limit = 4096};
}

int msg_engine_of(struct leat_job *job, struct msg_engine **engine)
{
    if (job->msg) {
        *engine = job->msg;
        return 0;
    }
    struct msg_tuning tuning;
    struct msg_net *net;
    tuning_of(&job->config, &tuning);
    uint64_t queue = tuning.budget_bytes / 16;
    queue = queue < QUEUE_LEAST ? QUEUE_LEAST : queue > QUEUE_MOST ? QUEUE_MOST : queue;
    // A mapping, since calloc would touch all of it.
    void *counts = mmap(NULL, counts_bytes(job), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (counts == MAP_FAILED)
        return leat_fail(-ENOMEM, "no address space for the message counts of %d ranks",
                         job->rank_count);
    int error = leat_shm_msg_open(job, queue, &net);
    if (!error)
        error = msg_engine_open(net, &tuning, &job->msg);
    if (error) {
        munmap(counts, counts_bytes(job));
        job->msg = NULL;
        return error;
    }
    job->message = counts;
    job->msg->job = job;
    job->progress = progress;
    job->msg->spin_ns = job->config.spin_ns;
    cpu_set_t cores;
    job->msg->crowded =
        sched_getaffinity(0, sizeof cores, &cores) == 0 && job->rank_count > CPU_COUNT(&cores);
    struct job_child *child = &job->msg_child;
    *child = (struct job_child){.orphan = orphan, .next = job->children, .link = &job->children};
    if (child->next)
        child->next->link = &child->next;
    job->children = child;
    *engine = job->msg;
    return 0;
}
