// SPDX-License-Identifier: Apache-2.0
// The lookout's thread; see lookout.h.

#include "device/lookout.h"

#include "core/job.h"
#include "core/thread.h"
#include "device/ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 20000000

struct lookout {
    struct leat_job *job;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t change;
    struct lookout_item *items;
    bool stop;
};

// Whether it will raise nothing more, and not for having done all it had to.
static bool is_gone(const struct leat_job *job, int rank)
{
    if (rank == job->rank || !leat_rank_lost(job, rank))
        return false;
    const struct rank_record *record = leat_rank_record(job, rank);
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    return state != RANK_CLOSED || record->failed != RANK_UNHARMED;
}

static int find_gone(const struct leat_job *job, const struct lookout_item *item)
{
    const int count = item->peer_count < 0 ? job->rank_count : item->peer_count;
    for (int i = 0; i < count; i++) {
        int rank = item->peer_count < 0 ? i : item->peers[i];
        if (is_gone(job, rank))
            return rank;
    }
    return -1;
}

static void look(struct lookout *lookout)
{
    struct device *device = lookout->job->device;
    for (struct lookout_item *item = lookout->items; item; item = item->next) {
        int gone = item->lost ? -1 : find_gone(lookout->job, item);
        if (gone < 0)
            continue;
        // Whoever sees a wait ended finds out why.
        __atomic_store_n(&item->lost, gone + 1, __ATOMIC_RELEASE);
        device->ops->fail(device, item->error);
    }
}

static void *run(void *user)
{
    struct lookout *lookout = user;
    pthread_mutex_lock(&lookout->lock);
    while (!lookout->stop) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&lookout->change, &lookout->lock, &until);
        if (!lookout->stop)
            look(lookout);
    }
    pthread_mutex_unlock(&lookout->lock);
    return NULL;
}

static int start(struct leat_job *job)
{
    struct lookout *lookout = calloc(1, sizeof *lookout);
    pthread_condattr_t monotonic;
    if (!lookout)
        return leat_fail(-ENOMEM, "no memory for the lookout");
    lookout->job = job;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&lookout->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&lookout->lock, NULL);
    int code = leat_thread_start(&lookout->thread, run, lookout);
    if (code) {
        pthread_cond_destroy(&lookout->change);
        pthread_mutex_destroy(&lookout->lock);
        free(lookout);
        return leat_fail(-code, "cannot start the thread that watches peers for kernels: %s",
                         strerror(code));
    }
    job->lookout = lookout;
    return 0;
}

int leat_lookout_add(struct leat_job *job, struct lookout_item *item)
{
    if (!job->device->ops->fail || job->segment->head->threads || job->rank_count == 1)
        return 0;
    int error = job->lookout ? 0 : start(job);
    if (error)
        return error;
    struct lookout *lookout = job->lookout;
    pthread_mutex_lock(&lookout->lock);
    item->next = lookout->items;
    item->link = &lookout->items;
    if (item->next)
        item->next->link = &item->next;
    lookout->items = item;
    pthread_mutex_unlock(&lookout->lock);
    return 0;
}

void leat_lookout_remove(struct leat_job *job, struct lookout_item *item)
{
    if (!item->link)
        return;
    pthread_mutex_lock(&job->lookout->lock);
    *item->link = item->next;
    if (item->next)
        item->next->link = item->link;
    item->link = NULL;
    pthread_mutex_unlock(&job->lookout->lock);
}

void leat_lookout_close(struct leat_job *job)
{
    struct lookout *lookout = job->lookout;
    if (!lookout)
        return;
    pthread_mutex_lock(&lookout->lock);
    lookout->stop = true;
    pthread_cond_broadcast(&lookout->change);
    pthread_mutex_unlock(&lookout->lock);
    pthread_join(lookout->thread, NULL);
    pthread_cond_destroy(&lookout->change);
    pthread_mutex_destroy(&lookout->lock);
    free(lookout);
    job->lookout = NULL;
}
