// SPDX-License-Identifier: Apache-2.0
// The message network of a job on several hosts: two networks that look like one.
//
// Algorithm: what names a peer goes to the segment (shm_msg.c) where that is on this host, and to
// libfabric (fabric_msg.c) elsewhere; progress and the queue ask both in turn. Memory from alloc
// lies in the arena either way, so its token is libfabric's and is read by both. Sleep is the
// segment's; a thread sleeps on libfabric's descriptor meanwhile and wakes the rank. A look at
// libfabric takes microseconds with some providers: after a while without anything to or from
// there, most rounds leave it out. Advantage: the ways are those of one network each, and neither
// knows of the other. Disadvantage: a neighbour's message may come during a look at libfabric, and
// the first one from elsewhere between two.

#define _GNU_SOURCE
#include "transport/mixed_msg.h"

#include "core/descriptor.h"
#include "transport/fabric_msg.h"
#include "transport/shm_msg.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLIND_NS  UINT64_C(20000) // of a sleep that libfabric cannot end
#define ATTENTIVE 64 // looks at libfabric in a row that find nothing, after something was there
#define REST      4  // times as long as such a look took, before the next one

enum watch_state { WATCH_RESTS, WATCH_ARMED, WATCH_ENDS };

// A thread that looks at libfabric's descriptor once it is armed, until something can be read
// there; then it is disarmed, and wakes the rank.
struct watch {
    struct msg_net *near;
    pthread_t thread;
    bool started;
    int fd, stop_fd;
    uint32_t state; // enum watch_state; the futex
};

struct mixed_net {
    struct msg_net net; // first
    struct leat_job *job;
    struct msg_net *near, *far;
    struct msg_net *looked_at; // whose packet was given out last
    uint32_t attentive;        // looks at libfabric to come that follow each other at once
    uint64_t next_look_ns;
    struct watch watch;
};

static struct mixed_net *mixed(const struct msg_net *net)
{
    return (struct mixed_net *)(uintptr_t)net;
}

static struct msg_net *way_to(const struct msg_net *net, int peer)
{
    const struct mixed_net *own = mixed(net);
    return leat_mixed_near(own->job, peer) ? own->near : own->far;
}

static void reflect(struct mixed_net *net)
{
    net->net.puts = net->far->puts;
    net->net.large = net->far->large;
    uint64_t bytes = __atomic_load_n(&net->far->provider_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&net->net.provider_bytes, bytes, __ATOMIC_RELAXED);
}

// The way to a peer that something is about to go to.
static struct msg_net *take_way_to(struct msg_net *net, int peer)
{
    struct msg_net *way = way_to(net, peer);
    if (way == mixed(net)->far)
        mixed(net)->attentive = ATTENTIVE;
    return way;
}

// ---- Queue ----

static void look_far(struct mixed_net *net, uint64_t now_ns)
{
    uint32_t bytes;
    uint64_t puts = net->far->puts, begin_ns = 0;
    if (!net->attentive) {
        begin_ns = leat_now_ns();
        if (begin_ns < net->next_look_ns)
            return;
    }
    net->far->ops->progress(net->far, now_ns);
    reflect(net);
    if (net->far->puts != puts || net->far->ops->queue_peek(net->far, &bytes))
        net->attentive = ATTENTIVE;
    else if (net->attentive)
        net->attentive--;
    else
        net->next_look_ns = begin_ns + (1 + REST) * (leat_now_ns() - begin_ns);
}

static void net_progress(struct msg_net *net, uint64_t now_ns)
{
    struct mixed_net *own = mixed(net);
    own->near->ops->progress(own->near, now_ns);
    look_far(own, now_ns);
}

static int net_queue_send(struct msg_net *net, int peer, const void *packet, uint32_t bytes)
{
    struct msg_net *way = take_way_to(net, peer);
    return way->ops->queue_send(way, peer, packet, bytes);
}

// The other one first, so that neither is kept waiting by a stream of the other's.
static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    struct mixed_net *own = mixed(net);
    struct msg_net *first = own->looked_at == own->near ? own->far : own->near;
    const void *packet = first->ops->queue_peek(first, bytes);
    struct msg_net *second = first == own->near ? own->far : own->near;
    own->looked_at = packet ? first : second;
    return packet ? packet : second->ops->queue_peek(second, bytes);
}

static void net_queue_release(struct msg_net *net)
{
    struct msg_net *way = mixed(net)->looked_at;
    way->ops->queue_release(way);
}

// ---- Memory ----

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    struct msg_net *far = mixed(net)->far;
    return far->ops->alloc(far, bytes, address, token);
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    struct msg_net *far = mixed(net)->far;
    far->ops->free(far, address, bytes);
}

static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    struct msg_net *way = way_to(net, peer);
    return way->ops->expose(way, peer, address, bytes, token);
}

// The segment hides nothing.
static void net_hide(struct msg_net *net, const struct msg_token *token)
{
    struct msg_net *far = mixed(net)->far;
    far->ops->hide(far, token);
}

static bool is_beside(const struct msg_net *net, int peer)
{
    return leat_mixed_near(mixed(net)->job, peer);
}

static void *net_map(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes)
{
    struct mixed_net *own = mixed(net);
    if (!is_beside(net, peer))
        return NULL;
    const struct msg_token plain = leat_fabric_msg_plain(token);
    // cppcheck-suppress returnDanglingLifetime ; what comes back is where the token says, not in it
    return own->near->ops->map(own->near, peer, &plain, bytes);
}

static void *net_words(struct msg_net *net, int peer)
{
    struct msg_net *near = mixed(net)->near;
    return is_beside(net, peer) ? near->ops->words(near, peer) : NULL;
}

// ---- Copies ----

static int net_put(struct msg_net *net, int peer, const struct msg_token *token,
                   const struct msg_piece *pieces, int count)
{
    struct msg_net *way = take_way_to(net, peer);
    const struct msg_token plain = way == mixed(net)->near ? leat_fabric_msg_plain(token) : *token;
    return way->ops->put(way, peer, &plain, pieces, count);
}

static int net_put_large(struct msg_net *net, int peer, const struct msg_token *token,
                         const struct msg_piece pieces[3], const struct msg_token *third,
                         struct msg_transfer *transfer)
{
    struct msg_net *far = take_way_to(net, peer);
    return far->ops->put_large(far, peer, token, pieces, third, transfer);
}

static uint32_t net_large_most(struct msg_net *net, const struct msg_token *token)
{
    struct msg_net *far = mixed(net)->far;
    const uint64_t rank = token->word[0] & UINT32_MAX;
    return rank < (uint64_t)net->rank_count && !is_beside(net, (int)rank)
               ? far->ops->large_most(far, token)
               : 0;
}

static const void *net_large_find(struct msg_net *net, const void *at, uint64_t bytes)
{
    struct msg_net *far = mixed(net)->far;
    return far->ops->large_find(far, at, bytes);
}

static void net_large_take(struct msg_net *net, const void *at)
{
    struct msg_net *far = mixed(net)->far;
    far->ops->large_take(far, at);
    net->large = far->large;
}

static int net_bulk_get(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, void *to, uint64_t bytes, struct msg_transfer *transfer)
{
    struct msg_net *way = take_way_to(net, peer);
    return way->ops->bulk_get(way, peer, token, offset, to, bytes, transfer);
}

static int net_bulk_put(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, const void *from, uint64_t bytes,
                        struct msg_transfer *transfer)
{
    struct msg_net *way = take_way_to(net, peer);
    return way->ops->bulk_put(way, peer, token, offset, from, bytes, transfer);
}

// ---- Sleep ----

static void *watch_descriptor(void *argument)
{
    struct watch *watch = argument;
    struct pollfd pollers[2] = {{.fd = watch->fd, .events = POLLIN},
                                {.fd = watch->stop_fd, .events = POLLIN}};
    for (;;) {
        uint32_t state;
        while ((state = __atomic_load_n(&watch->state, __ATOMIC_ACQUIRE)) == WATCH_RESTS)
            syscall(SYS_futex, &watch->state, FUTEX_WAIT_PRIVATE, WATCH_RESTS, NULL, NULL, 0);
        if (state == WATCH_ENDS || (poll(pollers, 2, -1) < 0 && errno != EINTR))
            return NULL;
        // A rank that falls asleep and finds it armed has announced that before: it is woken. That
        // the thread is to end stays said.
        state = WATCH_ARMED;
        if (!__atomic_compare_exchange_n(&watch->state, &state, WATCH_RESTS, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return NULL;
        watch->near->ops->wake(watch->near, watch->near->rank);
    }
}

static void arm(struct watch *watch)
{
    if (__atomic_exchange_n(&watch->state, WATCH_ARMED, __ATOMIC_ACQ_REL) == WATCH_RESTS)
        syscall(SYS_futex, &watch->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int watch_start(struct watch *watch, struct msg_net *near, int fd)
{
    sigset_t all, old;
    watch->near = near;
    watch->fd = fd;
    watch->stop_fd = leat_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (watch->stop_fd < 0)
        return leat_fail(-errno, "eventfd for the message layer: %s", strerror(errno));
    sigfillset(&all);
    // Signals are for the program's threads.
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&watch->thread, NULL, watch_descriptor, watch);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    watch->started = code == 0;
    return code ? leat_fail(-code, "cannot start the message layer's thread: %s", strerror(code))
                : 0;
}

static void watch_stop(struct watch *watch)
{
    uint64_t one = 1;
    if (watch->started && write(watch->stop_fd, &one, sizeof one) == sizeof one) {
        __atomic_store_n(&watch->state, WATCH_ENDS, __ATOMIC_RELEASE);
        syscall(SYS_futex, &watch->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        pthread_join(watch->thread, NULL);
    }
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
}

static void net_sleep_prepare(struct msg_net *net)
{
    struct msg_net *near = mixed(net)->near;
    mixed(net)->next_look_ns = 0; // the look before the sleep is a real one
    near->ops->sleep_prepare(near);
}

static void net_sleep_cancel(struct msg_net *net)
{
    struct msg_net *near = mixed(net)->near;
    near->ops->sleep_cancel(near);
}

static void net_sleep(struct msg_net *net, uint64_t ns)
{
    struct mixed_net *own = mixed(net);
    int fd = -1, error = leat_fabric_msg_watch(own->far, &fd);
    if (error == -EAGAIN) {
        net_sleep_cancel(net);
        return;
    }
    if (!error)
        arm(&own->watch);
    else if (ns > BLIND_NS)
        ns = BLIND_NS;
    own->near->ops->sleep(own->near, ns);
}

static void net_wake(struct msg_net *net, int peer)
{
    struct msg_net *near = mixed(net)->near;
    if (is_beside(net, peer))
        near->ops->wake(near, peer);
}

static const uint32_t *net_asleep(struct msg_net *net, int peer)
{
    struct msg_net *near = mixed(net)->near;
    return is_beside(net, peer) ? near->asleep(near, peer) : NULL;
}

// ---- Opening and closing ----

static void net_watch(struct msg_net *net, int peer)
{
    struct msg_net *way = way_to(net, peer);
    if (way->ops->watch)
        way->ops->watch(way, peer);
}

static int net_alive(struct msg_net *net, int peer)
{
    struct msg_net *way = way_to(net, peer);
    return way->ops->alive(way, peer);
}

static void let_go(struct mixed_net *net)
{
    watch_stop(&net->watch);
    // Neighbours learn at once what others are told in a farewell.
    if (net->near)
        net->near->ops->close(net->near);
    if (net->far)
        net->far->ops->close(net->far);
    free(net);
}

static void net_close(struct msg_net *net)
{
    let_go(mixed(net));
}

static const struct msg_net_ops mixed_ops = {.name = "shm and fabric",
                                             .progress = net_progress,
                                             .queue_send = net_queue_send,
                                             .queue_peek = net_queue_peek,
                                             .queue_release = net_queue_release,
                                             .alloc = net_alloc,
                                             .free = net_free,
                                             .expose = net_expose,
                                             .hide = net_hide,
                                             .map = net_map,
                                             .words = net_words,
                                             .put = net_put,
                                             .put_large = net_put_large,
                                             .large_most = net_large_most,
                                             .large_find = net_large_find,
                                             .large_take = net_large_take,
                                             .bulk_get = net_bulk_get,
                                             .bulk_put = net_bulk_put,
                                             .wake = net_wake,
                                             .sleep_prepare = net_sleep_prepare,
                                             .sleep = net_sleep,
                                             .sleep_cancel = net_sleep_cancel,
                                             .watch = net_watch,
                                             .alive = net_alive,
                                             .close = net_close};

static int open_parts(struct mixed_net *net, uint64_t near_bytes, uint64_t far_bytes)
{
    int fd;
    int error = leat_fabric_msg_open(net->job, far_bytes, &net->far);
    if (!error)
        error = leat_shm_msg_open(net->job, near_bytes, &net->near);
    if (error)
        return error;
    net->net.queue_bytes = net->near->queue_bytes + net->far->queue_bytes;
    net->looked_at = net->far;
    reflect(net);
    return leat_fabric_msg_watch(net->far, &fd) == -ENOTSUP
               ? 0
               : watch_start(&net->watch, net->near, fd);
}

int leat_mixed_msg_open(struct leat_job *job, uint64_t near_bytes, uint64_t far_bytes,
                        struct msg_net **net)
{
    struct mixed_net *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for the message layer of rank %d", job->rank);
    made->net = (struct msg_net){.ops = &mixed_ops,
                                 .rank = job->rank,
                                 .rank_count = job->rank_count,
                                 .beside = is_beside,
                                 .asleep = net_asleep};
    made->job = job;
    made->watch.stop_fd = -1;
    int error = open_parts(made, near_bytes, far_bytes);
    if (error) {
        let_go(made);
        return error;
    }
    *net = &made->net;
    return 0;
}
