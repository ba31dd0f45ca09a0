// SPDX-License-Identifier: Apache-2.0
// A rank's service: its thread, and the operations that this rank begins.
//
// Algorithm: one lock over the endpoint and all records. Whoever begins an operation or waits for
// one moves everything on itself, and polls for a while; the thread sleeps on the endpoint's
// descriptor and does the same whenever something comes. Advantage: a rank that is in leat waits
// for no thread, and one that is not answers all the same. Disadvantage: two threads wake for one
// message where both wait.

#define _GNU_SOURCE
#include "transport/far.h"

#include "transport/transport.h"

#include <errno.h>

bool far_required(const struct leat_job *job)
{
    const char *rule = job->config.paths;
    return job->rank_count > 1 && leat_path_rule(rule, "require:", "fabric") &&
           !leat_path_rule(rule, "require:", "shm");
}

bool far_reaches(const struct leat_job *job, int rank)
{
    return job->networked && rank != job->rank && (leat_rank_away(job, rank) || far_required(job));
}

#ifndef LEAT_HAVE_FABRIC

#include "transport/fabric.h"

int far_open(struct leat_job *job)
{
    (void)job;
    return leat_fail(-ENOTSUP, "%s; build leat with libfabric-dev", fabric_absent());
}

void far_farewell(struct leat_job *job)
{
    (void)job;
}

void far_close(struct leat_job *job)
{
    (void)job;
}

int far_begin(struct leat_job *job, struct far_operation *operation)
{
    (void)operation;
    return far_open(job);
}

int far_wait(struct leat_job *job, struct far_operation *operation, const char *what,
             uint64_t deadline_ns)
{
    (void)operation, (void)what, (void)deadline_ns;
    return far_open(job);
}

void far_settle(struct leat_job *job)
{
    (void)job;
}

void far_published(struct leat_job *job)
{
    (void)job;
}

#else

#include "core/descriptor.h"
#include "core/signal.h"
#include "core/thread.h"
#include "transport/far_internal.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { COMPLETIONS_A_LOOK = 16, LOOKS_IN_VAIN = 1000 };

// How long the thread sleeps at most. Of what is being sent, no provider's descriptor tells when it
// can go on.
enum { SENDING_US = 50, PENDING_US = 1000, AWAITING_US = 20000, IDLE_US = 500000 };

#define FAREWELL_NS UINT64_C(1000000000)
#define SLICE_NS    UINT64_C(20000000)

// ---- Progress ----

static void complete(struct far *far, struct far_slot *slot, size_t bytes, bool good)
{
    if (!slot->sends) {
        if (good)
            far_take(far, slot->message, bytes);
        slot->next = far->idle_slots;
        far->idle_slots = slot;
        return;
    }
    far->peer[slot->peer]->sending--;
    far->peer[slot->peer]->settled |= good;
    far_slot_give(far, slot);
}

static void complete_badly(struct far *far)
{
    struct fi_cq_err_entry entry = {0};
    char why[200];
    if (fi_cq_readerr(far->fabric.completions, &entry, 0) != 1 || !entry.op_context)
        return;
    struct far_slot *slot = entry.op_context;
    if (slot->sends && far_slot_again(far, slot, entry.err))
        return;
    snprintf(why, sizeof why, "was lost: libfabric says: %s", fabric_error(entry.err));
    if (slot->sends)
        far_peer_lose(far, far->peer[slot->peer], why);
    complete(far, slot, 0, false);
}

static void post_all(struct far *far)
{
    void *desc = far->slots_memory ? fi_mr_desc(far->slots_memory) : NULL;
    while (far->idle_slots) {
        struct far_slot *slot = far->idle_slots;
        if (fi_recv(far->fabric.endpoint, slot->message, sizeof slot->message, desc, FI_ADDR_UNSPEC,
                    &slot->context))
            return; // no room now: at the next progress
        far->idle_slots = slot->next;
    }
}

bool far_progress(struct far *far)
{
    struct fi_cq_msg_entry entries[COMPLETIONS_A_LOOK];
    ssize_t count = fi_cq_read(far->fabric.completions, entries, COMPLETIONS_A_LOOK);
    for (ssize_t i = 0; i < count; i++)
        complete(far, entries[i].op_context, entries[i].len, true);
    if (count == -FI_EAVAIL)
        complete_badly(far);
    if (far->again)
        far_slots_again(far);
    post_all(far);
    bool moved = far_peers_progress(far);
    return moved || count > 0 || count == -FI_EAVAIL;
}

void far_finish(struct far *far, struct far_operation *operation, int error)
{
    operation->error = error;
    operation->next = NULL;
    __atomic_store_n(&operation->finished, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&far->changed);
}

// ---- The thread ----

static void sleep_until_something(struct far *far, int limit_us, bool may_sleep)
{
    struct pollfd pollers[2] = {{.fd = far->wake_fd, .events = POLLIN},
                                {.fd = far->fabric.wait_fd, .events = POLLIN}};
    uint64_t count;
    if (!may_sleep)
        return;
    // Where the provider has no descriptor, a look every so often has to do.
    bool blind = far->fabric.wait_fd < 0;
    if (blind && limit_us > PENDING_US)
        limit_us = PENDING_US;
    const struct timespec limit = {.tv_nsec = 1000L * limit_us};
    if (ppoll(pollers, blind ? 1 : 2, &limit, NULL) > 0 && pollers[0].revents &&
        read(far->wake_fd, &count, sizeof count) < 0)
        return;
}

static void *serve(void *argument)
{
    struct far *far = argument;
    for (;;) {
        struct fid *fid = &far->fabric.completions->fid;
        pthread_mutex_lock(&far->lock);
        bool moved = far_progress(far);
        far_peers_look(far);
        bool over = far->closing;
        int limit_us = far_peers_sending(far)   ? SENDING_US
                       : far_peers_pending(far) ? PENDING_US
                       : far_peers_await(far)   ? AWAITING_US
                                                : IDLE_US;
        bool quiet = !moved && (far->fabric.wait_fd < 0 ||
                                fi_trywait(far->fabric.fabric, &fid, 1) == FI_SUCCESS);
        pthread_mutex_unlock(&far->lock);
        if (over)
            return NULL;
        sleep_until_something(far, limit_us, quiet);
        if (!quiet)
            sched_yield(); // whoever wants the lock
    }
}

static void wake(struct far *far)
{
    uint64_t one = 1;
    if (write(far->wake_fd, &one, sizeof one) < 0)
        return; // it is awake then
}

static int start_thread(struct far *far)
{
    int code = leat_thread_start(&far->thread, serve, far);
    far->started = code == 0;
    return code ? leat_fail(-code, "cannot start the thread of the network's service: %s",
                            strerror(code))
                : 0;
}

// ---- Opening and closing ----

static int open_slots(struct far *far)
{
    const size_t count = FAR_RECEIVING + FAR_SENDING, bytes = count * sizeof(struct far_slot);
    // A mapping: of most slots only the first pages are ever touched.
    far->slots = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!far->slots)
        return leat_fail(-ENOMEM, "no memory for %zu buffers for libfabric", count);
    if (fabric_registers_local(&far->fabric)) {
        int error = fabric_register(&far->fabric, far->slots, bytes, false, &far->slots_memory);
        if (error)
            return error;
    }
    for (size_t i = 0; i < count; i++) {
        struct far_slot *slot = &far->slots[i];
        slot->sends = i >= FAR_RECEIVING;
        slot->next = slot->sends ? far->free_slots : far->idle_slots;
        *(slot->sends ? &far->free_slots : &far->idle_slots) = slot;
    }
    return 0;
}

static int open_parts(struct far *far)
{
    struct leat_job *job = far->job;
    char address[64];
    leat_card_address(job, address);
    // On one host nobody else need be able to come.
    if (job->first_away < 0)
        memcpy(address, "127.0.0.1", sizeof "127.0.0.1");
    int error = leat_card_secret(job, far->secret);
    if (!error)
        error = fabric_open(job->config.fabric, *address ? address : NULL,
                            FAR_RECEIVING + FAR_SENDING, FABRIC_SLEEPS, &far->fabric);
    if (!error)
        error = open_slots(far);
    if (!error)
        error = fabric_card(&far->fabric, far->card, sizeof far->card);
    if (error)
        return error;
    post_all(far);
    error = start_thread(far);
    return error ? error : leat_card_publish(job, CARD_FAR, far->card);
}

static void let_go(struct far *far)
{
    // The endpoint before the buffers that it may write to.
    if (far->fabric.endpoint) {
        fi_close(&far->fabric.endpoint->fid);
        far->fabric.endpoint = NULL;
    }
    if (far->slots_memory)
        fi_close(&far->slots_memory->fid);
    fabric_close(&far->fabric);
    free(far->slots);
    far_peers_free(far);
    if (far->wake_fd >= 0)
        close(far->wake_fd);
    pthread_cond_destroy(&far->changed);
    pthread_mutex_destroy(&far->lock);
    free(far);
}

static struct far *make(struct leat_job *job)
{
    struct far *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&made->lock, NULL);
    made->job = job;
    made->fabric.wait_fd = -1;
    made->peer = calloc((size_t)job->rank_count, sizeof(struct far_peer *));
    made->wake_fd = leat_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return made;
}

int far_open(struct leat_job *job)
{
    if (job->far)
        return 0;
    if (leat_path_rule(job->config.paths, "forbid:", "fabric"))
        return leat_all_here(job, "the network is forbidden by LEAT_PATHS");
    struct far *far = make(job);
    int error = !far                             ? -ENOMEM
                : !far->peer || far->wake_fd < 0 ? leat_fail(-ENOMEM, "no memory for the service")
                                                 : open_parts(far);
    if (!error) {
        job->far = far;
        return 0;
    }
    if (!far)
        return leat_fail(error, "no memory for the service of rank %d", job->rank);
    if (far->started) {
        pthread_mutex_lock(&far->lock);
        far->closing = true;
        pthread_mutex_unlock(&far->lock);
        wake(far);
        pthread_join(far->thread, NULL);
    }
    let_go(far);
    return error;
}

static struct far_peer *next_met(struct far *far, struct far_peer *after)
{
    struct far_peer *peer = after ? after->next : far->peers;
    while (peer && (peer->state != FAR_MET || !peer->greeted || peer->bye))
        peer = peer->next;
    return peer;
}

void far_farewell(struct leat_job *job)
{
    struct far *far = job->far;
    if (!far)
        return;
    uint64_t deadline_ns = leat_now_ns() + FAREWELL_NS;
    pthread_mutex_lock(&far->lock);
    struct far_peer *peer = next_met(far, NULL);
    pthread_mutex_unlock(&far->lock);
    while (peer) {
        struct far_operation bye = {.verb = FAR_DO_BYE, .rank = peer->rank};
        // Who has gone need not hear it.
        if (!far_begin(job, &bye))
            (void)far_wait(job, &bye, "good-bye", deadline_ns);
        pthread_mutex_lock(&far->lock);
        peer = next_met(far, peer);
        pthread_mutex_unlock(&far->lock);
    }
}

void far_close(struct leat_job *job)
{
    struct far *far = job->far;
    if (!far)
        return;
    pthread_mutex_lock(&far->lock);
    far->closing = true;
    pthread_mutex_unlock(&far->lock);
    wake(far);
    pthread_join(far->thread, NULL);
    job->far = NULL;
    let_go(far);
}

// ---- Operations ----

static int refuse(const struct far_peer *peer)
{
    if (peer->state == FAR_LOST)
        return leat_fail(peer->error, "%s", peer->why);
    if (peer->refused)
        return leat_fail(peer->refused,
                         "rank %d could not do an earlier put: %s; was a region freed too early?",
                         peer->rank, strerror(-peer->refused));
    return 0;
}

int far_begin(struct leat_job *job, struct far_operation *operation)
{
    struct far *far = job->far;
    struct far_peer *peer;
    operation->finished = 0;
    operation->error = 0;
    operation->next = NULL;
    operation->posted = operation->arrived = 0;
    pthread_mutex_lock(&far->lock);
    int error = far_peer_find(far, operation->rank, &peer);
    if (!error && operation->verb != FAR_DO_BYE)
        error = refuse(peer);
    if (!error && peer->state == FAR_LOST)
        error = peer->error;
    if (!error) {
        operation->id = ++far->ids;
        if (!peer->first)
            peer->end = &peer->first;
        *peer->end = operation;
        peer->end = &operation->next;
        far_progress(far);
    }
    // What could not go at once, and what comes back, is the thread's.
    bool left = !error && (peer->first || peer->sending);
    pthread_mutex_unlock(&far->lock);
    if (left)
        wake(far);
    return error;
}

static bool remove_from(struct far_operation **at, const struct far_operation *operation)
{
    while (*at && *at != operation)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = operation->next;
    return true;
}

static void take_back(struct far *far, struct far_operation *operation)
{
    struct far_peer *peer = far->peer[operation->rank];
    if (remove_from(&peer->first, operation)) {
        peer->end = &peer->first;
        while (*peer->end)
            peer->end = &(*peer->end)->next;
    } else {
        remove_from(&peer->awaiting, operation);
    }
}

static void doze(struct far *far, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000ULL),
                                   .tv_nsec = (long)(until_ns % 1000000000ULL)};
    pthread_cond_timedwait(&far->changed, &far->lock, &until);
}

// Below the lock. Whether it has finished in time.
static bool await(struct far *far, struct far_operation *operation, uint64_t deadline_ns)
{
    uint64_t now_ns = leat_now_ns(), spin_ns = now_ns + far->job->config.spin_ns;
    int in_vain = 0;
    while (!operation->finished) {
        in_vain = far_progress(far) ? 0 : in_vain + 1;
        now_ns = leat_now_ns();
        if (operation->finished)
            break;
        if (now_ns >= deadline_ns)
            return false;
        // While much is to be sent, sleeping would only leave it to the thread; but a peer that was
        // stopped takes nothing.
        bool bulk = in_vain < LOOKS_IN_VAIN && operation->bytes > FAR_PAYLOAD_BYTES &&
                    far->peer[operation->rank]->sending;
        if (now_ns < spin_ns || bulk) {
            pthread_mutex_unlock(&far->lock);
            sched_yield();
            pthread_mutex_lock(&far->lock);
            continue;
        }
        far_peers_look(far);
        if (!operation->finished)
            doze(far, now_ns + SLICE_NS < deadline_ns ? now_ns + SLICE_NS : deadline_ns);
    }
    return true;
}

static int explain(const struct leat_job *job, const struct far_operation *operation,
                   const char *what, const char *why)
{
    int error = operation->error, rank = operation->rank;
    switch (error) {
    case 0:
        return 0;
    case -ESTALE:
        return leat_fail(error, "%s: rank %d has freed the region", what, rank);
    case -ERANGE:
        return leat_fail(error, "%s: %llu bytes at offset %llu do not fit the region of rank %d",
                         what, (unsigned long long)operation->bytes,
                         (unsigned long long)operation->offset, rank);
    case -ECONNRESET:
        return leat_fail(error, "%s: waited for rank %d: %s", what, rank, why);
    case -ETIMEDOUT:
        return leat_peer_fail(job, error, what, rank, "");
    default:
        return leat_fail(error, "%s: rank %d says: %s", what, rank, strerror(-error));
    }
}

int far_wait(struct leat_job *job, struct far_operation *operation, const char *what,
             uint64_t deadline_ns)
{
    struct far *far = job->far;
    char why[400];
    pthread_mutex_lock(&far->lock);
    if (!await(far, operation, deadline_ns)) {
        take_back(far, operation);
        operation->error = -ETIMEDOUT;
    }
    snprintf(why, sizeof why, "%s", far->peer[operation->rank]->why);
    pthread_mutex_unlock(&far->lock);
    return explain(job, operation, what, why);
}

void far_settle(struct leat_job *job)
{
    if (!job->far)
        return;
    pthread_mutex_lock(&job->far->lock);
    pthread_mutex_unlock(&job->far->lock);
}

void far_published(struct leat_job *job)
{
    if (!job->far)
        return;
    far_settle(job);
    wake(job->far);
}

#endif

int far_do(struct leat_job *job, struct far_operation *operation, const char *what)
{
    int error = far_open(job);
    if (!error)
        error = far_begin(job, operation);
    return error ? error : far_wait(job, operation, what, leat_now_ns() + job->timeout_ns);
}
