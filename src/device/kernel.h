/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that kernels are written in: C17 and CUDA from one source.
 *
 * A kernel is a function of a grid and one argument structure. On a GPU a block has many lanes; on
 * the CPU device a block is a thread with one lane. Memory order is by acquire and release on
 * words, never by fences, since ThreadSanitizer sees the one and not the other. Every wait can end:
 * by its signal, by its deadline, or because another block has failed.
 *
 * Advantage: the protocol that runs on a GPU runs under ThreadSanitizer on two cores.
 * Disadvantage: the subset has no _Atomic, no compound literals and no variable-length arrays.
 */
#ifndef LEAT_DEVICE_KERNEL_H
#define LEAT_DEVICE_KERNEL_H

#include "core/signal.h"

#include <stdint.h>

/* What went wrong in a kernel; the first block to fail fills it. */
struct k_error {
    uint32_t failed; /* claimed by compare-and-swap */
    uint32_t ready;  /* released after the rest: the host may look while kernels run */
    int32_t code;    /* negative errno */
    int32_t pulse, peer;
    uint32_t unused;
    uint64_t wanted, seen;
    const void *signal; /* NULL: a barrier of the kernel's own blocks */
};

/* What a wait needs besides its signal. */
struct k_wait {
    void *job; /* CPU device: whose peers are watched */
    uint64_t timeout_ns;
    struct k_error *error;  /* in the device's memory: `failed` is looked at in every wait */
    struct k_error *report; /* where the host reads it; the same on the CPU device */
};

/* Of small pulses: three words of an element and the exchange's number, stored as one. */
struct k_packet {
    uint32_t word[3], tag;
} __attribute__((aligned(16)));

/* The block counter, by name for the same reason as in core/signal.h: each block releases its
 * stores, the last one acquires them. */
#ifndef K_ORDER_COUNT
#define K_ORDER_COUNT __ATOMIC_ACQ_REL
#endif

#if defined(LEAT_KERNEL_WORDS)
#include LEAT_KERNEL_WORDS /* a test's own, to explore every interleaving of the kernels below */
#elif defined(__CUDACC__)
#include "device/kernel_cuda.h"
#else
#include "device/kernel_cpu.h"
#endif

#ifndef K_TRACE_BEGIN
#define K_TRACE_BEGIN(wait)                          0
#define K_TRACE_WAIT(wait, grid, begin, peer, pulse) (void)(begin)
#endif

/* One lane's failure; the first of all blocks is the one that is reported. */
K_FN void k_fail(const struct k_wait *wait, int code, int peer, int pulse, const void *signal,
                 uint64_t wanted, uint64_t seen)
{
    if (!k_claim(&wait->error->failed))
        return;
    struct k_error *report = wait->report;
    report->code = code;
    report->pulse = pulse;
    report->peer = peer;
    report->wanted = wanted;
    report->seen = seen;
    report->signal = signal;
    k_store_release(&report->ready, 1);
}

/*
 * Waits for a signal with the whole block. 0, or 1 when the wait failed here or in another block,
 * in which case the kernel has to return at once.
 */
K_FN uint32_t k_signal_wait(const struct k_grid *grid, const struct k_wait *wait,
                            struct leat_signal *signal, uint64_t wanted, int peer, int pulse)
{
    uint32_t failed = 0;
    if (k_lane(grid) == 0) {
        uint64_t seen = 0;
        const uint64_t begin = K_TRACE_BEGIN(wait);
        int code = k_wait_word(wait, signal, wanted, peer, &seen);
        K_TRACE_WAIT(wait, grid, begin, peer, pulse);
        if (code)
            k_fail(wait, code, peer, pulse, signal, wanted, seen);
        failed = code != 0;
    }
    return k_any(grid, failed);
}

/* Lane 0 of each block calls it; true in the block that comes last, which sees what the others did.
 * The counter is then zero again, so that no number of launches wraps it. */
K_FN uint32_t k_last_block(const struct k_grid *grid, uint32_t *arrived)
{
    if (k_add_acq_rel(arrived, 1) + 1 != k_block_count(grid))
        return 0;
    k_store_relaxed(arrived, 0);
    return 1;
}

#ifndef K_MEET
/* Blocks that meet: the last to come opens the gate. */
K_FN int k_meet(const struct k_grid *grid, const struct k_wait *wait, uint32_t *arrived,
                struct leat_signal *gate, uint64_t round, uint64_t *seen)
{
    if (k_last_block(grid, arrived))
        k_signal_raise(gate, round);
    return k_wait_word(wait, gate, round, -1, seen);
}
#endif

/* Barrier of all blocks of a grid; `round` counts the caller's barriers from 1. Every lane comes,
 * also one whose wait has just failed: it alone knows, and without it, lane 0 above all, the others
 * would never hear of it. As k_signal_wait. */
K_FN uint32_t k_sync_grid(const struct k_grid *grid, const struct k_wait *wait, uint32_t *arrived,
                          struct leat_signal *gate, uint64_t round, uint32_t failed_here)
{
    uint32_t failed = 0;
    if (k_any(grid, failed_here))
        return 1;
    if (k_lane(grid) == 0) {
        uint64_t seen = 0;
        const uint64_t begin = K_TRACE_BEGIN(wait);
        int code = k_meet(grid, wait, arrived, gate, round, &seen);
        K_TRACE_WAIT(wait, grid, begin, -1, -1);
        if (code)
            k_fail(wait, code, -1, -1, (const void *)0, round, seen);
        /* Before the barrier another block may have failed for good, without a wait. */
        failed = code != 0 || k_failed(wait->error);
    }
    return k_any(grid, failed);
}

#endif
