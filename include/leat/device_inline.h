/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that kernels of the caller's own are written in; device.h includes this.
 *
 * Order: what a block has put before a signal is seen by whoever has seen the signal's value; what
 * one lane has seen after a wait or a grid's meeting, the whole block sees. Every wait ends: by its
 * signal, by the deadline, or because another block has failed; it then returns not 0 in all lanes,
 * and the kernel has to return at once.
 *
 * Advantage: compiled into the caller's kernel, so that nothing is linked on the device's side.
 * Disadvantage: only memory that can be stored to directly (leat_region_info.address) is reached.
 */
#ifndef LEAT_DEVICE_INLINE_H
#define LEAT_DEVICE_INLINE_H

#include <leat/device.h>

#include <string.h>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define LEAT_DEVICE static __host__ __device__ __forceinline__
#else
#define LEAT_DEVICE static inline
#endif

/* ---- Blocks and lanes --------------------------------------------------------------------- */

/* Barrier of a block's lanes. */
LEAT_DEVICE void leat_block_sync(const leat_grid *grid)
{
    (void)grid;
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
}

/* Whether any lane of the block says so; a barrier of the block, too. */
LEAT_DEVICE int leat_block_any(const leat_grid *grid, int value)
{
    (void)grid;
#ifdef __CUDA_ARCH__
    return __syncthreads_or(value);
#else
    return value;
#endif
}

/* Elements [begin, end) dealt out to all lanes of all blocks: neighbouring lanes take neighbouring
 * elements on a GPU, a block takes one run of them on the CPU device. */
#ifdef __CUDA_ARCH__
#define LEAT_FOR_EACH(i, begin, end, grid)                                                         \
    for (uint64_t i = (begin) + (uint64_t)(grid)->block * (grid)->lane_count + (grid)->lane,       \
                  i##_step = (uint64_t)(grid)->block_count * (grid)->lane_count;                   \
         i < (end); i += i##_step)
#else
#define LEAT_FOR_EACH(i, begin, end, grid)                                                         \
    for (uint64_t i = leat_part((begin), (end), (grid)->block, (grid)->block_count),               \
                  i##_end = leat_part((begin), (end), (grid)->block + 1, (grid)->block_count);     \
         i < i##_end; i++)
#endif

LEAT_DEVICE uint64_t leat_part(uint64_t begin, uint64_t end, uint32_t block, uint32_t block_count)
{
    const uint64_t count = end > begin ? end - begin : 0;
    return begin + count / block_count * block + count % block_count * block / block_count;
}

/* ---- Puts and signals --------------------------------------------------------------------- */

/* Copies with the lanes of this block; complete for others only with a signal or leat_quiet. */
LEAT_DEVICE void leat_put(const leat_grid *grid, void *to, const void *from, uint64_t bytes)
{
#ifdef __CUDA_ARCH__
    const uint64_t apart = (uint64_t)to | (uint64_t)from | bytes;
    if (apart % 16 == 0)
        for (uint64_t i = grid->lane; i < bytes / 16; i += grid->lane_count)
            ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    else if (apart % 4 == 0)
        for (uint64_t i = grid->lane; i < bytes / 4; i += grid->lane_count)
            ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
    else
        for (uint64_t i = grid->lane; i < bytes; i += grid->lane_count)
            ((char *)to)[i] = ((const char *)from)[i];
#else
    (void)grid;
    if (bytes)
        memcpy(to, from, bytes);
#endif
}

/* Raises a signal, here or at a peer, once this block's earlier puts and stores are visible. */
LEAT_DEVICE void leat_signal_set(const leat_grid *grid, leat_signal *signal, uint64_t value)
{
    leat_block_sync(grid);
#ifdef __CUDA_ARCH__
    if (grid->lane == 0)
        asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(signal), "l"(value) : "memory");
#else
    leat_kernel_raise(signal, value);
#endif
}

/* A put of this block, then the signal. */
LEAT_DEVICE void leat_put_signal(const leat_grid *grid, void *to, const void *from, uint64_t bytes,
                                 leat_signal *signal, uint64_t value)
{
    leat_put(grid, to, from, bytes);
    leat_signal_set(grid, signal, value);
}

/* Orders this block's earlier puts before what it stores afterwards by other means than a signal
 * (an atomic of the caller's own). */
LEAT_DEVICE void leat_quiet(const leat_grid *grid)
{
#ifdef __CUDA_ARCH__
    __threadfence_system();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    leat_block_sync(grid);
}

/* ---- What the rest stands on; not for the caller ------------------------------------------- */

#ifdef __CUDA_ARCH__
static __device__ __forceinline__ void leat_device_fail(const leat_kernel_call *launch, int code,
                                                        int peer, const void *signal,
                                                        uint64_t wanted, uint64_t seen)
{
    struct leat_device_failure *report = launch->report;
    if (atomicCAS(&launch->error->failed, 0u, 1u) != 0u)
        return;
    report->code = code;
    report->pulse = -1;
    report->peer = peer;
    report->wanted = wanted;
    report->seen = seen;
    report->signal = signal;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&report->ready), "r"(1) : "memory");
}

static __device__ __forceinline__ uint64_t leat_device_now_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* By one lane: -110 (ETIMEDOUT), -125 (ECANCELED: another block has said why). */
static __device__ __forceinline__ int leat_device_await(const leat_kernel_call *launch,
                                                        const leat_signal *signal,
                                                        uint64_t at_least, int peer)
{
    uint64_t deadline = 0, seen;
    for (;;) {
        for (int poll = 0; poll < 64; poll++) {
            asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                         : "=l"(seen)
                         : "l"(signal)
                         : "memory");
            if ((int64_t)(seen - at_least) >= 0)
                return 0;
        }
        const uint64_t now = leat_device_now_ns();
        /* Blocks that wait for one that waits for a peer must not be the first to give up. */
        if (!deadline)
            deadline = now + launch->timeout_ns * (signal == launch->gate ? 2 : 1);
        uint32_t failed;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                     : "=r"(failed)
                     : "l"(&launch->error->failed)
                     : "memory");
        if (failed)
            return -125;
        if (now > deadline) {
            leat_device_fail(launch, -110, peer, signal, at_least, seen);
            return -110;
        }
    }
}
#endif

LEAT_DEVICE int leat_device_wait_word(const leat_kernel_call *launch, leat_signal *signal,
                                      uint64_t at_least, int peer)
{
#ifdef __CUDA_ARCH__
    return leat_device_await(launch, signal, at_least, peer);
#else
    return leat_kernel_wait(launch, signal, at_least, peer);
#endif
}

/* True in the block that comes last, which sees what the others did; the counter is 0 again. */
LEAT_DEVICE int leat_device_is_last(uint32_t *counter, uint32_t block_count)
{
#ifdef __CUDA_ARCH__
    uint32_t old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(old)
                 : "l"(counter)
                 : "memory");
    if (old + 1 != block_count)
        return 0;
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(0) : "memory");
#else
    if (__atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL) + 1 != block_count)
        return 0;
    __atomic_store_n(counter, 0, __ATOMIC_RELAXED);
#endif
    return 1;
}

LEAT_DEVICE uint64_t leat_device_round(const leat_signal *gate)
{
#ifdef __CUDA_ARCH__
    uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(gate) : "memory");
    return value;
#else
    return __atomic_load_n((const uint64_t *)(const void *)gate, __ATOMIC_RELAXED);
#endif
}

LEAT_DEVICE void leat_device_open_gate(leat_signal *gate, uint64_t round)
{
#ifdef __CUDA_ARCH__
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(gate), "l"(round) : "memory");
#else
    leat_kernel_raise(gate, round);
#endif
}

/* ---- Waits -------------------------------------------------------------------------------- */

/*
 * Waits until the signal, one of this rank's, has reached `at_least`. `peer`: the rank expected to
 * raise it, for the error; -1: nobody in particular. 0, or not 0 when the wait has failed.
 */
LEAT_DEVICE int leat_signal_wait(const leat_grid *grid, leat_signal *signal, uint64_t at_least,
                                 int peer)
{
    int failed = 0;
    if (grid->lane == 0)
        failed = leat_device_wait_word(grid->launch, signal, at_least, peer);
    return leat_block_any(grid, failed != 0);
}

/* Barrier of all blocks of the launch: what each has stored, all see. Every block calls it as often
 * as every other. As leat_signal_wait. */
LEAT_DEVICE int leat_grid_sync(const leat_grid *grid)
{
    int failed = 0;
    leat_block_sync(grid);
    if (grid->lane == 0) {
        leat_signal *gate = grid->launch->gate;
        /* It cannot move before this block has come. */
        const uint64_t round = leat_device_round(gate) + 1;
        if (leat_device_is_last(grid->launch->counters, grid->block_count))
            leat_device_open_gate(gate, round);
        failed = leat_device_wait_word(grid->launch, gate, round, -1);
    }
    return leat_block_any(grid, failed != 0);
}

/* Raises a signal once all blocks have called it with the same `counter` (0 to LEAT_GRID_COUNTERS -
 * 1): the last one does, and whoever sees it sees the earlier puts and stores of all blocks. No
 * block waits. A counter serves again once the signal is known to be raised. */
LEAT_DEVICE void leat_grid_signal(const leat_grid *grid, uint32_t counter, leat_signal *signal,
                                  uint64_t value)
{
    leat_block_sync(grid);
    if (grid->lane != 0 ||
        !leat_device_is_last(grid->launch->counters + 1 + counter, grid->block_count))
        return;
#ifdef __CUDA_ARCH__
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(signal), "l"(value) : "memory");
#else
    leat_kernel_raise(signal, value);
#endif
}

/* ---- Writing a kernel --------------------------------------------------------------------- */

/* LEAT_KERNEL(name, type) { body }: defines `const leat_kernel name`, whose body sees `grid` and
 * `work`, a pointer to the `type` that leat_device_run was given. */
#ifdef __CUDACC__
#define LEAT_KERNEL(name, type)                                                                    \
    static __host__ __device__ void name##_body(const leat_grid *grid, const type *work);          \
    static __global__ void name##_entry(const __grid_constant__ leat_kernel_call launch,           \
                                        const __grid_constant__ type work)                         \
    {                                                                                              \
        const leat_grid grid = {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, &launch};          \
        name##_body(&grid, &work);                                                                 \
    }                                                                                              \
    static void name##_host(leat_grid *grid, const void *work)                                     \
    {                                                                                              \
        name##_body(grid, (const type *)work);                                                     \
    }                                                                                              \
    static int name##_start(const leat_kernel_call *launch, const void *work, uint32_t blocks,     \
                            uint32_t lanes, void *stream, const char **words)                      \
    {                                                                                              \
        void *arguments[] = {(void *)launch, (void *)work};                                        \
        cudaError_t failed =                                                                       \
            cudaLaunchCooperativeKernel((const void *)name##_entry, dim3(blocks), dim3(lanes),     \
                                        arguments, 0, (cudaStream_t)stream);                       \
        *words = cudaGetErrorString(failed);                                                       \
        return (int)failed;                                                                        \
    }                                                                                              \
    static const leat_kernel name = {#name, name##_host, name##_start, sizeof(type)};              \
    static __host__ __device__ void name##_body(const leat_grid *grid, const type *work)
#else
#define LEAT_KERNEL(name, type)                                                                    \
    static void name##_body(const leat_grid *grid, const type *work);                              \
    static void name##_host(leat_grid *grid, const void *work)                                     \
    {                                                                                              \
        name##_body(grid, (const type *)work);                                                     \
    }                                                                                              \
    static const leat_kernel name = {#name, name##_host, NULL, sizeof(type)};                      \
    static void name##_body(const leat_grid *grid, const type *work)
#endif

#endif
