/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of kernel.h on the CPU device: a block is a thread with one lane.
 *
 * Included by kernel.h only. Advantage: plain C that ThreadSanitizer follows. Disadvantage: one
 * lane, so what lanes of a block do to each other shows on a GPU only.
 */
#ifndef LEAT_DEVICE_KERNEL_CPU_H
#define LEAT_DEVICE_KERNEL_CPU_H

#include "core/trace.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define K_FN static inline
#define K_UNROLL
#define K_COALESCES 0
#define K_SLICE_NS  UINT64_C(20000000)
struct k_grid {
    uint32_t block, block_count;
};
K_FN uint32_t k_block(const struct k_grid *grid)
{
    return grid->block;
}
K_FN uint32_t k_lane(const struct k_grid *grid)
{
    (void)grid;
    return 0;
}
K_FN uint32_t k_block_count(const struct k_grid *grid)
{
    return grid->block_count;
}
/* A block takes one run of elements: blocks do not share lines but at their ends. */
#define K_FOR_EACH(i, begin, end, grid)                                                            \
    for (uint32_t i = k_part((begin), (end), (grid)->block, (grid)->block_count),                  \
                  i##_end = k_part((begin), (end), (grid)->block + 1, (grid)->block_count);        \
         i < i##_end; i++)
K_FN uint32_t k_part(uint32_t begin, uint32_t end, uint32_t block, uint32_t block_count)
{
    return begin + (uint32_t)((uint64_t)(end - begin) * block / block_count);
}
K_FN void k_sync_block(const struct k_grid *grid)
{
    (void)grid;
}
/* Bulk copies (kernel_cuda.h): over when they are handed over. */
#define K_BLOCK_LANES(grid)             1u
#define K_TILE(grid, type, name, count) type name[2][count]
K_FN void k_tile_take(const struct k_grid *grid, uint32_t number)
{
    (void)grid;
    (void)number;
}
K_FN void k_tile_send(const struct k_grid *grid, void *to, const void *half, uint32_t bytes)
{
    (void)grid;
    memcpy(to, half, bytes);
}
K_FN void k_tile_done(const struct k_grid *grid, uint32_t count)
{
    (void)grid;
    (void)count;
}
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    leat_signal_raise(signal, value);
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    return __atomic_fetch_add(word, by, K_ORDER_COUNT);
}
K_FN uint32_t k_any(const struct k_grid *grid, uint32_t value)
{
    (void)grid;
    return value;
}
K_FN void k_store_release(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
/* For the ring to the proxy (halo/proxy.h): the next number, how far the proxy has come, an order
 * released, and the proxy woken. */
#ifndef RING_ORDER_PUT
#define RING_ORDER_PUT __ATOMIC_RELEASE
#endif
#ifndef RING_ORDER_ROOM
#define RING_ORDER_ROOM __ATOMIC_ACQUIRE
#endif
#define K_COLD static __attribute__((noinline, cold)) /* a way seldom taken */
K_FN uint64_t k_ticket(uint64_t *next)
{
    return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
}
K_FN uint64_t k_room(const struct leat_signal *carried)
{
    return __atomic_load_n(&carried->value, RING_ORDER_ROOM);
}
K_FN void k_order_put(uint64_t *turn, uint64_t value)
{
    __atomic_store_n(turn, value, RING_ORDER_PUT);
}
K_FN void k_bell(struct leat_signal *bell)
{
    leat_signal_count(bell);
}
/* Which exchange this is, from 1: exchanges in the upper 48 bits, blocks that have come for the
 * next one below; one addition answers both, and the last to come moves the number on. */
K_FN uint64_t k_turn(const struct k_grid *grid, uint64_t *word, uint64_t given)
{
    (void)given;
    uint64_t old = __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
    if ((old & 0xffff) + 1 == grid->block_count)
        __atomic_fetch_add(word, 0x10000 - grid->block_count, __ATOMIC_RELAXED);
    return (old >> 16) + 1;
}
K_FN void k_store_relaxed(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
#define K_CALL(function, user, grid, step)                                                         \
    ((function) ? (function)((user), (grid)->block, (grid)->block_count, (step)) : 0)
/* No order on the error record: only the host reads the rest of it, once all blocks have ended. */
K_FN uint32_t k_claim(uint32_t *word)
{
    uint32_t free = 0;
    return __atomic_compare_exchange_n(word, &free, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
K_FN uint32_t k_failed(const struct k_error *error)
{
    return __atomic_load_n(&error->failed, __ATOMIC_RELAXED);
}
K_FN void k_pause(uint32_t ns)
{
    uint64_t until = leat_now_ns() + ns;
    while (leat_now_ns() < until)
        continue;
}
K_FN int k_wait_word(const struct k_wait *wait, struct leat_signal *signal, uint64_t wanted,
                     int peer, uint64_t *seen)
{
    leat_job *job = (leat_job *)wait->job;
    uint64_t now = leat_now_ns(), deadline = now + wait->timeout_ns;
    for (;;) {
        /* In slices, to see another block's failure: that block will raise nothing any more. */
        uint64_t slice = deadline - now < K_SLICE_NS ? deadline : now + K_SLICE_NS;
        int code = leat_signal_wait(job, signal, wanted, peer, slice, seen);
        if (code != -ETIMEDOUT)
            return code;
        leat_count(&job->counts.signal_waits, UINT64_MAX); /* the next slice is the same wait */
        if (k_failed(wait->error))
            return -ECANCELED;
        now = leat_now_ns();
        if (now >= deadline)
            return code;
    }
}

/* Packets: the tag is released after the words. Only for pulses that ask for them, which on this
 * device is for tests: a wait spins and gives way, and nothing wakes a sleeper. */
#ifndef K_ORDER_TAG_PUT
#define K_ORDER_TAG_PUT __ATOMIC_RELEASE
#endif
#ifndef K_ORDER_TAG_TAKE
#define K_ORDER_TAG_TAKE __ATOMIC_ACQUIRE
#endif
#define K_PACKET_SPINS 64
K_FN void k_fail(const struct k_wait *wait, int code, int peer, int pulse, const void *signal,
                 uint64_t wanted, uint64_t seen);
K_FN void k_packet_put(struct k_packet *packet, const uint32_t word[3], uint32_t tag)
{
    for (int k = 0; k < 3; k++)
        packet->word[k] = word[k];
    __atomic_store_n(&packet->tag, tag, K_ORDER_TAG_PUT);
}
K_FN uint32_t k_packet_wait(const struct k_wait *wait, const struct k_packet *packet, uint32_t tag,
                            uint32_t word[3])
{
    uint64_t deadline = 0;
    uint32_t seen;
    for (uint32_t spin = 1; (seen = __atomic_load_n(&packet->tag, K_ORDER_TAG_TAKE)) != tag;
         spin++) {
        if (spin % K_PACKET_SPINS)
            continue;
        uint64_t now = leat_now_ns();
        if (!deadline)
            deadline = now + wait->timeout_ns;
        if (k_failed(wait->error))
            return 1;
        if (now > deadline) {
            k_fail(wait, -ETIMEDOUT, -1, -1, packet, tag, seen);
            return 1;
        }
        sched_yield();
    }
    for (int k = 0; k < 3; k++)
        word[k] = packet->word[k];
    return 0;
}

#define K_TRACE_BEGIN(wait) leat_trace_begin((const leat_job *)(wait)->job)
#define K_TRACE_WAIT(wait, grid, begin, peer, pulse)                                               \
    leat_trace_end((leat_job *)(wait)->job, TRACE_WAIT, (grid)->block, (begin), (peer), (pulse))

#endif