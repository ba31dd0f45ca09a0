// SPDX-License-Identifier: Apache-2.0
// A job's message layer: opened by its first use, closed with the job.
//
// Advantage: a job that sends no message pays nothing. Disadvantage: the first message pays for the
// opening, a few microseconds.

#define _GNU_SOURCE
#include "core/error.h"
#include "core/job.h"
#include "device/ops.h"
#include "msg/gpu.h"
#include "transport/fabric_msg.h"
#include "transport/mixed_msg.h"
#include "transport/shm_msg.h"
#include "transport/transport.h"

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

static bool by_fabric(const struct leat_job *job)
{
    const char *rule = job->config.paths;
    bool wanted = job->first_away >= 0 && !leat_path_rule(rule, "forbid:", "fabric");
    return wanted || leat_path_rule(rule, "require:", "fabric");
}

// Other ranks than this one that are on this host.
static int count_near(const struct leat_job *job)
{
    int count = 0;
    for (int rank = 0; rank < job->rank_count; rank++)
        count += rank != job->rank && leat_mixed_near(job, rank);
    return count;
}

// Where messages go by libfabric, but to ranks of this host by the segment.
static bool is_mixed(const struct leat_job *job)
{
    const char *rule = job->config.paths;
    return by_fabric(job) && job->first_away >= 0 && count_near(job) > 0 &&
           !leat_path_rule(rule, "require:", "fabric") && !leat_path_rule(rule, "forbid:", "shm");
}

static void tuning_of(const struct leat_job *job, struct msg_tuning *tuning)
{
    const struct config *config = &job->config;
    *tuning = msg_tuning_usual();
    if (by_fabric(job)) {
        // Credit takes longer to come back, messages go in one piece, and each get costs a round
        // trip.
        tuning->ring_bulk_bytes *= 2;
        tuning->get_bytes = 4 << 20;
    }
    tuning->budget_bytes = config->msg_budget_bytes;
    tuning->eager_bytes = (uint32_t)config->msg_eager_bytes;
    tuning->share_bytes = clamp(config->msg_share_bytes);
    tuning->ring_limit = (uint32_t)config->msg_peers;
    const struct copies_ops *copies = job->device->ops->copies;
    tuning->staging_bytes = copies && copies->on_gpu ? MSG_GPU_LEAST : 0;
}

static uint64_t queue_of(uint64_t budget_bytes)
{
    uint64_t queue = budget_bytes / 16;
    return queue < QUEUE_LEAST ? QUEUE_LEAST : queue > QUEUE_MOST ? QUEUE_MOST : queue;
}

// Of two networks' queues the segment's is the smaller one: it holds only what has no ring yet.
static uint64_t near_queue_of(uint64_t budget_bytes)
{
    return queue_of(budget_bytes) / 4;
}

static bool fits(const struct leat_job *job, struct msg_tuning tuning, uint64_t budget_bytes)
{
    uint64_t queues = leat_shm_msg_queue_bytes(queue_of(budget_bytes));
    if (is_mixed(job))
        queues += leat_shm_msg_queue_bytes(near_queue_of(budget_bytes));
    tuning.budget_bytes = budget_bytes;
    return msg_budget_fits(&tuning, job->rank_count, queues);
}

// Names the smallest budget that works; the queue's size depends on it too.
static int check_budget(const struct leat_job *job, const struct msg_tuning *tuning)
{
    if (fits(job, *tuning, tuning->budget_bytes))
        return 0;
    uint64_t low = tuning->budget_bytes, high = UINT64_C(1) << 48;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        if (fits(job, *tuning, middle))
            high = middle;
        else
            low = middle;
    }
    return leat_fail(
        -ENOBUFS, "LEAT_MSG_BUDGET of %llu bytes is too small for %d ranks: at least %llu",
        (unsigned long long)tuning->budget_bytes, job->rank_count, (unsigned long long)high);
}

static int open_net(struct leat_job *job, uint64_t budget_bytes, struct msg_net **net)
{
    const uint64_t queue_bytes = queue_of(budget_bytes);
    job->message_row = job->message_row_near = ROW_SHM;
    if (by_fabric(job)) {
        job->message_row = ROW_FABRIC;
        if (is_mixed(job))
            return leat_mixed_msg_open(job, near_queue_of(budget_bytes), queue_bytes, net);
        job->message_row_near = ROW_FABRIC;
        return leat_fabric_msg_open(job, queue_bytes, net);
    }
    int error = leat_all_here(job, "messages");
    return error ? error : leat_shm_msg_open(job, queue_bytes, net);
}

int msg_engine_of(struct leat_job *job, struct msg_engine **engine)
{
    if (job->msg) {
        *engine = job->msg;
        return 0;
    }
    struct msg_tuning tuning;
    struct msg_net *net;
    tuning_of(job, &tuning);
    int error = check_budget(job, &tuning);
    if (error)
        return error;
    // A mapping, since calloc would touch all of it.
    void *counts = mmap(NULL, counts_bytes(job), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (counts == MAP_FAILED)
        return leat_fail(-ENOMEM, "no address space for the message counts of %d ranks",
                         job->rank_count);
    error = open_net(job, tuning.budget_bytes, &net);
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
    error = msg_gpu_open(job->msg);
    cpu_set_t cores;
    job->msg->crowded =
        sched_getaffinity(0, sizeof cores, &cores) == 0 && count_near(job) >= CPU_COUNT(&cores);
    struct job_child *child = &job->msg_child;
    *child = (struct job_child){.orphan = orphan, .next = job->children, .link = &job->children};
    if (child->next)
        child->next->link = &child->next;
    job->children = child;
    *engine = job->msg;
    return error;
}
