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

/* What went wrong in a kernel; the first block to fail fills it. Read by the host after the end. */
struct k_error {
    uint32_t failed; /* claimed by compare-and-swap */
    int32_t code;    /* negative errno */
    int32_t pulse, peer;
    uint64_t wanted, seen;
};

/* What a wait needs besides its signal. */
struct k_wait {
    void *job; /* CPU device: whose peers are watched */
    uint64_t timeout_ns;
    struct k_error *error;
};

/* The block counter, by name for the same reason as in core/signal.h: each block releases its
 * stores, the last one acquires them. */
#ifndef K_ORDER_COUNT
#define K_ORDER_COUNT __ATOMIC_ACQ_REL
#endif

#if defined(LEAT_KERNEL_WORDS)

#include LEAT_KERNEL_WORDS /* a test's own, to explore every interleaving of the kernels below */

#elif defined(__CUDACC__)

#define K_FN static __device__ inline
struct k_grid {
    int unused;
};
K_FN uint32_t k_block(const struct k_grid *grid)
{
    (void)grid;
    return blockIdx.x;
}
K_FN uint32_t k_block_count(const struct k_grid *grid)
{
    (void)grid;
    return gridDim.x;
}
K_FN uint32_t k_lane(const struct k_grid *grid)
{
    (void)grid;
    return threadIdx.x;
}
/* Neighbouring lanes take neighbouring elements: loads and stores coalesce. */
#define K_FOR_EACH(i, begin, end, grid)                                                            \
    for (uint32_t i = (begin) + blockIdx.x * blockDim.x + threadIdx.x; i < (end);                  \
         i += gridDim.x * blockDim.x)

K_FN void k_sync_block(const struct k_grid *grid)
{
    (void)grid;
    __syncthreads();
}
K_FN uint64_t k_load_acquire(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&signal->value), "l"(value)
                 : "memory");
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    uint32_t old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(word), "r"(by)
                 : "memory");
    return old;
}
K_FN void k_store_relaxed(uint32_t *word, uint32_t value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
K_FN uint32_t k_claim(uint32_t *word)
{
    return atomicCAS(word, 0u, 1u) == 0u;
}
/* The caller's functions are the CPU device's; a GPU's consumer is compiled into its kernel. */
#define K_CALL(function, user, grid, step) ((void)(function), 0)

K_FN uint32_t k_failed(const struct k_error *error)
{
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(&error->failed)
                 : "memory");
    return value;
}
K_FN uint64_t k_now_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
K_FN int k_wait_word(const struct k_wait *wait, struct leat_signal *signal, uint64_t wanted,
                     int peer, uint64_t *seen)
{
    (void)peer;
    uint64_t deadline = k_now_ns() + wait->timeout_ns;
    for (;;) {
        *seen = k_load_acquire(&signal->value);
        if (leat_signal_reached(*seen, wanted))
            return 0;
        if (k_failed(wait->error))
            return -125; /* ECANCELED: another block has said why */
        if (k_now_ns() > deadline)
            return -110; /* ETIMEDOUT */
        __nanosleep(20);
    }
}

#else

#include "core/trace.h"

#include <errno.h>

#define K_FN       static inline
#define K_SLICE_NS UINT64_C(20000000)
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
K_FN void k_signal_raise(struct leat_signal *signal, uint64_t value)
{
    leat_signal_raise(signal, value);
}
K_FN uint32_t k_add_acq_rel(uint32_t *word, uint32_t by)
{
    return __atomic_fetch_add(word, by, K_ORDER_COUNT);
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

#define K_TRACE_BEGIN(wait) leat_trace_begin((const leat_job *)(wait)->job)
#define K_TRACE_WAIT(wait, grid, begin, peer, pulse)                                               \
    leat_trace_end((leat_job *)(wait)->job, TRACE_WAIT, (grid)->block, (begin), (peer), (pulse))

#endif

#ifndef K_TRACE_BEGIN
#define K_TRACE_BEGIN(wait)                          0
#define K_TRACE_WAIT(wait, grid, begin, peer, pulse) (void)(begin)
#endif

/*
 * Waits for a signal with the whole block. 0, or 1 when the wait failed here or in another block,
 * in which case the kernel has to return at once.
 */
K_FN uint32_t k_signal_wait(const struct k_grid *grid, const struct k_wait *wait,
                            struct leat_signal *signal, uint64_t wanted, int peer, int pulse)
{
    if (k_lane(grid) == 0) {
        uint64_t seen = 0;
        const uint64_t begin = K_TRACE_BEGIN(wait);
        int code = k_wait_word(wait, signal, wanted, peer, &seen);
        K_TRACE_WAIT(wait, grid, begin, peer, pulse);
        if (code && k_claim(&wait->error->failed)) {
            wait->error->code = code;
            wait->error->pulse = pulse;
            wait->error->peer = peer;
            wait->error->wanted = wanted;
            wait->error->seen = seen;
        }
    }
    k_sync_block(grid);
    return k_failed(wait->error);
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

/* Barrier of all blocks of a grid; `round` counts the caller's barriers from 1. As k_signal_wait.
 */
K_FN uint32_t k_sync_grid(const struct k_grid *grid, const struct k_wait *wait, uint32_t *arrived,
                          struct leat_signal *gate, uint64_t round)
{
    k_sync_block(grid);
    if (k_lane(grid) == 0 && k_last_block(grid, arrived))
        k_signal_raise(gate, round);
    return k_signal_wait(grid, wait, gate, round, -1, -1);
}

#endif
