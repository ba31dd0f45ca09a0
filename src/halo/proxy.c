// SPDX-License-Identifier: Apache-2.0
// The proxy's thread: takes orders from the rings of a rank's halos and has them carried.
//
// Algorithm: look into the next slot of each ring; carry what is there, raise how far it has come;
// where there is nothing, wait for the bell that kernels ring with each order, which spins, yields
// and sleeps as every wait does. A GPU rings nothing, so there the thread looks again after a
// while that grows. An order that fails fails its halo: the record that kernels look at in every
// wait is filled, and its later orders are dropped. Advantage: one thread a rank, made when a halo
// first needs it. Disadvantage: a large copy of one halo delays the small ones of another.

#define _GNU_SOURCE
#include "halo/proxy.h"

#include "core/thread.h"
#include "device/copies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef RING_ORDER_TAKE
#define RING_ORDER_TAKE __ATOMIC_ACQUIRE
#endif
#ifdef RING_ORDER_CARRIED // a test's, to see a weaker one missed
#define leat_carried_raise(signal, to) __atomic_store_n(&(signal)->value, to, RING_ORDER_CARRIED)
#else
#define leat_carried_raise leat_signal_raise
#endif
#ifndef PROXY_LOOKS /* 1: never wait for the bell */
#define PROXY_LOOKS 0
#endif
#define REST_FIRST_NS UINT64_C(1000)
#define REST_MOST_NS  UINT64_C(50000)

struct proxy {
    struct leat_signal bell; /* first: a line of its own */
    struct leat_job *job;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next three */
    struct halo_proxy *halos;
    bool stop;
    bool looks;               /* rather than waits for the bell */
    struct copies_lane *lane; /* the thread's; NULL on the CPU device */
};

// ---- one order ----

// Nothing runs after it, and all who wait learn of it.
static void fail(struct halo_proxy *link, const struct k_order *order, int code)
{
    const struct halo_post *post = &link->posts[order->post];
    struct k_error *report = link->halo->report;
    const int number = (int)order->post / BOARD_SIGNALS;
    const int fields = link->halo->field_count;
    char cause[LEAT_DETAIL_BYTES];
    snprintf(cause, sizeof cause, "%s", leat_error_detail());
    link->failed_pulse = number / fields;
    snprintf(link->detail, sizeof link->detail, "to rank %d by %s: %s", post->peer,
             (post->to ? post->to : post->signals)->transport->name, cause);
    __atomic_store_n(&link->failed, code, __ATOMIC_RELEASE);
    uint32_t free = 0;
    if (!__atomic_compare_exchange_n(&report->failed, &free, 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    report->code = code;
    report->pulse = number / fields;
    report->peer = post->peer;
    report->wanted = order->value;
    report->seen = 0;
    report->signal = link->carried;
    __atomic_store_n(&report->ready, 1, __ATOMIC_RELEASE);
    struct device *device = link->halo->job->device;
    if (device->ops->fail)
        device->ops->fail(device, link->halo->error.address);
}

static int carry(struct leat_job *job, const struct halo_post *post, const void *from,
                 uint64_t value, struct copies_lane *lane, const uint64_t *pinned)
{
    const uint64_t zone = post->stride ? value & 1 : 0;
    const struct put_signal put = {.to = post->bytes ? post->to : NULL,
                                   .offset = post->offset + zone * post->stride,
                                   .bytes = post->bytes,
                                   .from = from ? from : post->from + zone * post->from_stride,
                                   .signals = post->signals,
                                   .signal_offset = post->signal_offset,
                                   .value = value,
                                   .lane = lane,
                                   .value_pinned = pinned};
    const struct transport *by = (put.to ? put.to : put.signals)->transport;
    int error = by->put_signal(job, &put);
    const int lost = error ? leat_rank_lost(job, post->peer) : 0;
    if (lost)
        return leat_peer_fail(job, lost, "a copy by the proxy", post->peer, "");
    leat_count(&job->counts.proxy_orders, 1);
    leat_count(&job->counts.proxy_bytes, error ? 0 : post->bytes);
    return error;
}

int halo_carry(struct leat_halo *halo, int f, int p, enum board_signal word, const void *from,
               uint64_t value)
{
    int error = carry(halo->job, &halo->proxy->posts[halo_post_number(halo, p, f, word)], from,
                      value, NULL, NULL);
    return error ? halo_carry_failed(halo, f, p, word, error) : 0;
}

static bool take(struct proxy *proxy, struct halo_proxy *link)
{
    const struct k_order *order = &link->order[link->taken % K_RING_ORDERS];
    if (__atomic_load_n(&order->turn, RING_ORDER_TAKE) != link->taken + 1)
        return false;
    int error = link->failed ? 0
                             : carry(proxy->job, &link->posts[order->post], NULL, order->value,
                                     proxy->lane, &order->value);
    if (error)
        fail(link, order, error);
    leat_carried_raise(link->carried, ++link->taken);
    return true;
}

// ---- the thread ----

// 1: something was carried; 0: nothing; -1: the end.
static int go_round(struct proxy *proxy)
{
    int found = 0;
    pthread_mutex_lock(&proxy->lock);
    for (struct halo_proxy *link = proxy->halos; link; link = link->next)
        for (int i = 0; i < K_RING_ORDERS && take(proxy, link); i++)
            found = 1;
    if (proxy->stop)
        found = -1;
    pthread_mutex_unlock(&proxy->lock);
    return found;
}

static void rest(uint64_t *rest_ns)
{
    const struct timespec time = {.tv_nsec = (long)*rest_ns};
    nanosleep(&time, NULL);
    *rest_ns = *rest_ns < REST_MOST_NS ? 2 * *rest_ns : REST_MOST_NS;
}

static void *run(void *user)
{
    struct proxy *proxy = user;
    uint64_t until_ns = 0, rest_ns = REST_FIRST_NS;
    for (;;) {
        const uint64_t rung = proxy->looks ? 0 : leat_signal_read(&proxy->bell);
        const int found = go_round(proxy);
        if (found < 0)
            return NULL;
        if (!proxy->looks) {
            if (!found)
                leat_signal_watch(proxy->job, &proxy->bell, rung + 1, UINT64_MAX);
            continue;
        }
        if (found) {
            until_ns = leat_now_ns() + proxy->job->config.spin_ns;
            rest_ns = REST_FIRST_NS;
        } else if (leat_now_ns() > until_ns) {
            rest(&rest_ns);
        }
    }
}

static int open_lane(struct proxy *proxy, const void *memory)
{
    struct device *device = proxy->job->device;
    struct copies_found found;
    if (!device->ops->asynchronous)
        return 0;
    int error = device->ops->copies->find(device, memory, 1, &found);
    return error ? error : device->ops->copies->open(device, found.gpu, 1, 0, &proxy->lane);
}

static void close_lane(struct proxy *proxy)
{
    if (proxy->lane)
        proxy->job->device->ops->copies->close(proxy->lane);
}

static int start(struct leat_job *job, const void *memory)
{
    struct proxy *proxy = NULL;
    if (posix_memalign((void **)&proxy, LEAT_SIGNAL_BYTES, sizeof *proxy))
        return leat_fail(-ENOMEM, "no memory for the halo's proxy");
    *proxy = (struct proxy){.job = job, .looks = PROXY_LOOKS || job->device->ops->asynchronous};
    int error = open_lane(proxy, memory);
    if (error) {
        free(proxy);
        return error;
    }
    pthread_mutex_init(&proxy->lock, NULL);
    int code = leat_thread_start(&proxy->thread, run, proxy);
    if (code) {
        pthread_mutex_destroy(&proxy->lock);
        close_lane(proxy);
        free(proxy);
        return leat_fail(-code, "cannot start the halo's proxy thread: %s", strerror(code));
    }
    job->proxy = proxy;
    return 0;
}

void leat_proxy_close(struct leat_job *job)
{
    struct proxy *proxy = job->proxy;
    if (!proxy)
        return;
    pthread_mutex_lock(&proxy->lock);
    proxy->stop = true;
    pthread_mutex_unlock(&proxy->lock);
    leat_signal_count(&proxy->bell);
    pthread_join(proxy->thread, NULL);
    pthread_mutex_destroy(&proxy->lock);
    close_lane(proxy);
    free(proxy);
    job->proxy = NULL;
}

// ---- a halo's ring ----

static int make_ring(struct leat_halo *halo, struct halo_proxy *link, uint64_t first_ticket)
{
    struct device *device = halo->job->device;
    int error = device->ops->alloc(device, sizeof(struct k_ring), &link->ring);
    if (error)
        return error;
    for (uint64_t i = 0; i < K_RING_ORDERS; i++)
        link->order[i].turn = first_ticket; // no order's number plus one, of the first round
    link->carried->value = link->taken = first_ticket;
    *(struct k_ring *)link->ring.host = (struct k_ring){.tickets = first_ticket,
                                                        .order = link->order,
                                                        .carried = link->carried,
                                                        .bell = &halo->job->proxy->bell};
    return device->ops->publish(device, &link->ring);
}

int halo_proxy_attach(struct leat_halo *halo, uint64_t first_ticket)
{
    struct halo_proxy *link = halo->proxy;
    int error = halo->job->proxy ? 0 : start(halo->job, halo->error.address);
    if (!error)
        error = make_ring(halo, link, first_ticket);
    if (error)
        return error;
    struct proxy *proxy = halo->job->proxy;
    pthread_mutex_lock(&proxy->lock);
    link->next = proxy->halos;
    link->link = &proxy->halos;
    if (link->next)
        link->next->link = &link->next;
    proxy->halos = link;
    pthread_mutex_unlock(&proxy->lock);
    return 0;
}

void halo_proxy_detach(struct leat_halo *halo)
{
    struct halo_proxy *link = halo->proxy;
    struct proxy *proxy = halo->job->proxy;
    if (!link->link)
        return;
    pthread_mutex_lock(&proxy->lock);
    *link->link = link->next;
    if (link->next)
        link->next->link = link->link;
    link->link = NULL;
    pthread_mutex_unlock(&proxy->lock);
}

void halo_proxy_drain(const struct leat_halo *halo)
{
    struct halo_proxy *link = halo->proxy;
    struct device *device = halo->job->device;
    // Who failed may have left a slot empty.
    if (!link->link || halo->failed || __atomic_load_n(&halo->report->ready, __ATOMIC_ACQUIRE) ||
        device->ops->fetch(device, &link->ring))
        return;
    const uint64_t begun = ((const struct k_ring *)link->ring.host)->tickets;
    leat_signal_watch(halo->job, link->carried, begun, leat_now_ns() + halo->job->timeout_ns);
}

void leat_proxy_drain(struct leat_job *job)
{
    // Only this thread changes the list.
    for (struct halo_proxy *link = job->proxy ? job->proxy->halos : NULL; link; link = link->next)
        halo_proxy_drain(link->halo);
}
