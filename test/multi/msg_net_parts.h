/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that ranks play to try the message network of one host, as threads and as processes.
 *
 * Every packet and every byte says who made it and where it belongs, so that a receiver knows each
 * one beforehand. Advantage: loss, doubling, mixing and tearing all show as a wrong value.
 * Disadvantage: making values costs more time than moving them.
 */
#ifndef LEAT_TEST_MULTI_MSG_NET_PARTS_H
#define LEAT_TEST_MULTI_MSG_NET_PARTS_H

#include "multi/ranks.h"

#include "core/job.h"
#include "transport/shm_msg.h"
#include "transport/shm_queue.h"

#include <errno.h>
#include <sched.h>

#define LONG_SLEEP_NS UINT64_C(10000000000) /* nobody may ever sleep this long */
#define GIVE_UP_NS    UINT64_C(60000000000)

struct packet {
    uint32_t from, to;
    uint64_t number;
    uint8_t body[MSG_PACKET_BYTES - 16];
};

static uint8_t stamp(uint64_t who, uint64_t number, uint64_t place)
{
    return (uint8_t)((who * 0x9e3779b97f4a7c15ULL + number * 0xbf58476d1ce4e5b9ULL +
                      place * 0x94d049bb133111ebULL) >>
                     56);
}

static uint32_t packet_bytes(uint32_t from, uint64_t number)
{
    return 16 + (uint32_t)((number * 37 + from * 11) % (MSG_PACKET_BYTES - 15));
}

static int send_packet(struct msg_net *net, int to, uint64_t number)
{
    struct packet packet = {.from = (uint32_t)net->rank, .to = (uint32_t)to, .number = number};
    uint32_t bytes = packet_bytes(packet.from, number);
    for (uint32_t i = 0; i + 16 < bytes; i++)
        packet.body[i] = stamp(packet.from, number, i);
    return net->ops->queue_send(net, to, &packet, bytes);
}

/* Takes one packet if there is one; it has to be its sender's next. */
static bool take_packet(struct rank_thread *self, struct msg_net *net, uint64_t *next)
{
    uint32_t bytes = 0;
    const struct packet *packet = net->ops->queue_peek(net, &bytes);
    if (!packet)
        return false;
    if (rank_check(self, bytes >= 16 && packet->from < (uint32_t)net->rank_count,
                   "%u bytes from rank %u", bytes, packet->from)) {
        uint64_t number = packet->number;
        rank_check(self, packet->to == (uint32_t)net->rank && number == next[packet->from],
                   "rank %u's packet %llu for rank %u came, its packet %llu was due", packet->from,
                   (unsigned long long)number, packet->to, (unsigned long long)next[packet->from]);
        rank_check(self, bytes == packet_bytes(packet->from, number), "%u bytes", bytes);
        for (uint32_t i = 0; i + 16 < bytes; i++)
            if (!rank_check(self, packet->body[i] == stamp(packet->from, number, i),
                            "byte %u of packet %llu of rank %u", i, (unsigned long long)number,
                            packet->from))
                break;
        next[packet->from]++;
    }
    net->ops->queue_release(net);
    return true;
}

static struct msg_net *open_net(struct rank_thread *self, uint64_t queue_bytes)
{
    struct msg_net *net = NULL;
    int error = leat_shm_msg_open(self->job, queue_bytes, &net);
    rank_check(self, error == 0, "open: %d %s", error, leat_error_detail());
    return error ? NULL : net;
}

/* Sends, giving way while the peer has no room or has not opened. */
static bool send_patiently(struct rank_thread *self, struct msg_net *net, int to,
                           const void *packet, uint32_t bytes)
{
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    int error;
    while ((error = net->ops->queue_send(net, to, packet, bytes)) == -EAGAIN &&
           leat_now_ns() < limit)
        sched_yield();
    return rank_check(self, error == 0, "send to rank %d: %d", to, error);
}

static const void *peek_patiently(struct rank_thread *self, struct msg_net *net, uint32_t *bytes)
{
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    const void *packet;
    while (!(packet = net->ops->queue_peek(net, bytes)) && leat_now_ns() < limit) {
        net->ops->progress(net, leat_now_ns());
        sched_yield();
    }
    rank_check(self, packet != NULL, "no packet came");
    return packet;
}

/* ---- Everybody sends to everybody, in an order of chance, through queues of eight cells. ---- */

static void part_storm(struct rank_thread *self)
{
    enum { EACH = 1000 };
    struct msg_net *net = open_net(self, 8 * sizeof(struct shm_cell));
    uint64_t sent[64] = {0}, next[64] = {0};
    uint64_t left = EACH * (uint64_t)(self->rank_count - 1), due = left;
    struct ranks_random random = {(uint64_t)self->rank + 1};
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    while (net && (left || due) && !self->failure_count && leat_now_ns() < limit) {
        int to = (int)(ranks_random_word(&random) % (uint64_t)self->rank_count);
        bool moved = false;
        if (to != self->rank && sent[to] < EACH) {
            int error = send_packet(net, to, sent[to]);
            rank_check(self, error == 0 || error == -EAGAIN, "send: %d", error);
            moved = error == 0;
            sent[to] += moved;
            left -= moved;
        }
        while (take_packet(self, net, next)) {
            moved = true;
            due--;
        }
        if (!moved)
            sched_yield();
    }
    rank_check(self, left == 0 && due == 0, "%llu to send and %llu to come",
               (unsigned long long)left, (unsigned long long)due);
    leat_barrier(self->job); // a closed queue refuses
    if (net)
        net->ops->close(net);
}

/* ---- Two ranks wake one another, by packets and by stores to mapped memory. ---- */

struct wake_line {
    uint64_t value;
    uint8_t line[56];
    uint64_t start;
    uint8_t start_line[56];
};

struct waker {
    struct msg_net *net;
    struct wake_line *own, *theirs;
    int peer;
    uint64_t sleeps, met, longest_ns, wrong;
    struct ranks_random random;
};

static void dawdle(struct waker *waker, uint64_t most)
{
    for (uint64_t n = ranks_random_word(&waker->random) % most; n > 0; n--)
        __asm__ volatile("" ::: "memory");
}

/* What is waited for has come: a packet, or the number in our line. */
static bool arrived(struct waker *waker, uint64_t number)
{
    uint32_t bytes;
    const uint64_t *packet = waker->net->ops->queue_peek(waker->net, &bytes);
    if (packet) {
        waker->wrong += *packet != number;
        waker->net->ops->queue_release(waker->net);
        return true;
    }
    return __atomic_load_n(&waker->own->value, __ATOMIC_ACQUIRE) == number;
}

/* One wait as the engine waits, without its patience: look, prepare, look, sleep. */
static void await(struct waker *waker, uint64_t number)
{
    const struct msg_net_ops *ops = waker->net->ops;
    dawdle(waker, 600);
    while (!arrived(waker, number)) {
        ops->sleep_prepare(waker->net);
        if (arrived(waker, number)) {
            ops->sleep_cancel(waker->net);
            waker->met++;
            return;
        }
        uint64_t begin = leat_now_ns();
        ops->sleep(waker->net, LONG_SLEEP_NS);
        uint64_t slept_ns = leat_now_ns() - begin;
        waker->sleeps++;
        if (slept_ns > waker->longest_ns)
            waker->longest_ns = slept_ns;
    }
}

/* Both leave at the same time, give or take a cache miss: wake-ups are lost where one rank's store
 * meets the other one on its way to sleep, and ranks that wake one another by turns never do. */
static bool start_together(struct rank_thread *self, struct waker *waker, uint64_t number,
                           bool last)
{
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    __atomic_store_n(&waker->theirs->start, last ? UINT64_MAX : number, __ATOMIC_RELEASE);
    for (uint32_t n = 1; __atomic_load_n(&waker->own->start, __ATOMIC_ACQUIRE) < number; n++)
        if (n % 1024 == 0) {
            if (!rank_check(self, leat_now_ns() < limit, "the other rank hangs"))
                return false;
            sched_yield();
        }
    return true;
}

static void tell(struct rank_thread *self, struct waker *waker, uint64_t number)
{
    const struct msg_net_ops *ops = waker->net->ops;
    dawdle(waker, 600);
    if (number % 3 == 0) {
        int error = ops->queue_send(waker->net, waker->peer, &number, sizeof number);
        rank_check(self, error == 0, "send: %d", error);
        return;
    }
    __atomic_store_n(&waker->theirs->value, number, __ATOMIC_RELEASE);
    __asm__ volatile("" ::: "memory");
    const uint32_t *asleep = waker->net->asleep(waker->net, waker->peer);
    if (!asleep || __atomic_load_n(asleep, __ATOMIC_RELAXED))
        ops->wake(waker->net, waker->peer);
}

/* Each gets a line that the other one stores to. */
static bool trade_lines(struct rank_thread *self, struct waker *waker)
{
    struct msg_token token, theirs;
    uint32_t bytes;
    void *address;
    int error = waker->net->ops->alloc(waker->net, sizeof(struct wake_line), &address, &token);
    if (!rank_check(self, error == 0, "alloc: %d", error) ||
        !send_patiently(self, waker->net, waker->peer, &token, sizeof token))
        return false;
    const void *packet = peek_patiently(self, waker->net, &bytes);
    if (!packet)
        return false;
    memcpy(&theirs, packet, sizeof theirs);
    waker->net->ops->queue_release(waker->net);
    waker->own = address;
    waker->theirs =
        waker->net->ops->map(waker->net, waker->peer, &theirs, sizeof(struct wake_line));
    return rank_check(self, waker->theirs != NULL, "not mapped");
}

/* A processor of its own, where there are enough: two that take turns on one never meet. */
static bool pin(int rank)
{
    cpu_set_t all, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof all, &all))
        return false;
    for (size_t cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == (size_t)rank)
            CPU_SET(cpu, &own);
    return CPU_COUNT(&all) > 1 && !sched_setaffinity(0, sizeof own, &own);
}

/* *user (uint64_t) rounds, where given; else as many as go into a few seconds, up to a limit. */
static void part_wake(struct rank_thread *self)
{
    uint64_t rounds = self->user ? *(const uint64_t *)self->user : 50000;
    struct waker waker = {.net = open_net(self, 16 * sizeof(struct shm_cell)),
                          .peer = 1 - self->rank,
                          .random = {77 + (uint64_t)self->rank}};
    if (!waker.net || !trade_lines(self, &waker))
        return;
    bool apart = pin(self->rank);
    leat_barrier(self->job);
    uint64_t begin = leat_now_ns(), i = 1;
    for (; i <= rounds && !self->failure_count; i++) {
        bool stop = !self->user && self->rank == 0 && leat_now_ns() - begin > 3000000000;
        if (!start_together(self, &waker, i, stop) || stop ||
            __atomic_load_n(&waker.own->start, __ATOMIC_RELAXED) == UINT64_MAX)
            break;
        if ((uint64_t)self->rank == i % 2)
            tell(self, &waker, i);
        else
            await(&waker, i);
        rank_check(self, waker.longest_ns < LONG_SLEEP_NS / 2,
                   "wake-up %llu was lost: slept %.1f s", (unsigned long long)i,
                   (double)waker.longest_ns * 1e-9);
    }
    rank_check(self, waker.wrong == 0, "%llu packets came out of turn",
               (unsigned long long)waker.wrong);
    rank_check(self, !apart || waker.sleeps + waker.met > 0, "nobody slept in %llu rounds",
               (unsigned long long)i);
    leat_barrier(self->job);
    waker.net->ops->close(waker.net);
}

#endif
