/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the NVSHMEM side of the GPU halo benchmark: what its user would write for speed.
 *
 * put       each block packs its part and puts it with a signal that adds one; the last block waits
 * store     blocks store straight into the peer's memory; the last one signals and waits
 * resident  the step loop on the device: the same stores, a consumer, acknowledgements one exchange
 *           late, and a barrier of all blocks before the next pack
 *
 * Words are waited for by polling with a deadline, since NVSHMEM's own waits have none. Release at
 * system scope by the last block covers the others' stores, which it has acquired through the
 * counter.
 */
#ifndef LEAT_BENCH_NVSHMEM_KERNELS_CUH
#define LEAT_BENCH_NVSHMEM_KERNELS_CUH

#include "gpu_gather.cuh"

#include <nvshmem.h>
#include <nvshmemx.h>

#define DEADLINE_NS UINT64_C(5000000000)

/* Lives in device memory, so that graphs replay. */
struct nvshmem_state {
    uint64_t epoch;                       /* exchanges so far */
    uint64_t gate;                        /* barriers so far */
    uint32_t arrived, at_barrier, failed; /* blocks that come before or after the wait */
    uint64_t wanted, seen;
};

struct exchange {
    float *home, *out, *land[2], *peer_land[2], *sink;
    const uint32_t *index;
    uint64_t *signal, *ack, *peer_signal, *peer_ack;
    struct nvshmem_state *state;
    uint32_t count, components; /* floats; floats an element */
    int peer;
    bool reverse, consume;
};

// ---- words ----

__device__ __forceinline__ uint64_t load_acquire_sys(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ uint64_t load_acquire_gpu(const uint64_t *word)
{
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ void store_release_sys(uint64_t *word, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ void store_release_gpu(uint64_t *word, uint64_t value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ uint32_t add_acq_rel_gpu(uint32_t *word)
{
    uint32_t value;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(value)
                 : "l"(word)
                 : "memory");
    return value;
}

__device__ __forceinline__ uint64_t timer_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

// One thread waits. False: past the deadline, or another wait has failed.
template <bool of_peer>
__device__ bool wait_word(struct nvshmem_state *state, const uint64_t *word, uint64_t wanted)
{
    uint64_t begin_ns = 0;
    for (uint32_t spin = 0;; spin++) {
        const uint64_t seen = of_peer ? load_acquire_sys(word) : load_acquire_gpu(word);
        if ((int64_t)(seen - wanted) >= 0)
            return true;
        if ((spin & 255) != 255)
            continue;
        if (!begin_ns)
            begin_ns = timer_ns();
        if (timer_ns() - begin_ns > DEADLINE_NS && atomicExch(&state->failed, 1) == 0) {
            state->wanted = wanted;
            state->seen = seen;
        }
        if (*(volatile uint32_t *)&state->failed)
            return false;
    }
}

// In the block that comes last; the counter is zero again then.
__device__ __forceinline__ bool last_block(uint32_t *arrived)
{
    if (add_acq_rel_gpu(arrived) + 1 != gridDim.x)
        return false;
    *(volatile uint32_t *)arrived = 0;
    return true;
}

// ---- parts of an exchange ----

template <uint32_t components>
__device__ __forceinline__ void send_part(const struct exchange *x, float *to, uint32_t begin,
                                          uint32_t end, uint32_t thread, uint32_t threads)
{
    if (!x->reverse) {
        gpu_gather<components>(to, x->home, x->index, x->count, begin, end, thread, threads);
        return;
    }
    const uint32_t whole = x->count / 4;
    for (uint32_t at = begin + thread; at < end; at += threads) {
        if (at < whole)
            reinterpret_cast<float4 *>(to)[at] = reinterpret_cast<const float4 *>(x->out)[at];
        else
            for (uint32_t one = 4 * at; one < x->count; one++)
                to[one] = x->out[one];
    }
}

// The whole block waits, then adds its share.
__device__ __forceinline__ void wait_and_add(const struct exchange *x, uint64_t wanted,
                                             uint32_t zone)
{
    __shared__ bool there;
    if (threadIdx.x == 0)
        there = wait_word<true>(x->state, x->signal, wanted);
    __syncthreads();
    if (there)
        gpu_scatter_add(x->home, x->index, x->land[zone], x->components, x->count,
                        blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

// ---- kernels ----

template <uint32_t components>
__global__ void __launch_bounds__(512, 2) store_kernel(const __grid_constant__ struct exchange x)
{
    struct nvshmem_state *state = x.state;
    const uint64_t number = *(volatile uint64_t *)&state->epoch + 1;
    const uint32_t zone = (uint32_t)(number - 1) & 1;
    send_part<components>(&x, x.peer_land[zone], 0, (x.count + 3) / 4,
                          blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0 && last_block(&state->arrived)) {
        store_release_sys(x.peer_signal, number);
        *(volatile uint64_t *)&state->epoch = number;
        if (!x.reverse)
            wait_word<true>(state, x.signal, number);
    }
    if (x.reverse)
        wait_and_add(&x, number, zone);
}

template <uint32_t components>
__global__ void __launch_bounds__(512, 2) put_kernel(const __grid_constant__ struct exchange x)
{
    struct nvshmem_state *state = x.state;
    const uint64_t number = *(volatile uint64_t *)&state->epoch + 1;
    const uint32_t zone = (uint32_t)(number - 1) & 1;
    const uint32_t fours = (x.count + 3) / 4, part = (fours + gridDim.x - 1) / gridDim.x;
    const uint32_t begin = min(blockIdx.x * part, fours), end = min(begin + part, fours);
    const uint32_t last = min(4 * end, x.count);
    if (!x.reverse)
        send_part<components>(&x, x.out, begin, end, threadIdx.x, blockDim.x);
    __syncthreads();
    nvshmemx_float_put_signal_block(x.land[zone] + 4 * begin, x.out + 4 * begin,
                                    last - min(4 * begin, last), x.signal, 1, NVSHMEM_SIGNAL_ADD,
                                    x.peer);
    if (threadIdx.x == 0 && last_block(&state->arrived)) {
        *(volatile uint64_t *)&state->epoch = number;
        if (!x.reverse)
            wait_word<true>(state, x.signal, number * gridDim.x);
    }
    if (x.reverse)
        wait_and_add(&x, number * gridDim.x, zone);
}

// Barrier of all blocks; who comes last acknowledges exchange `number` before it opens the gate.
__device__ __forceinline__ bool barrier_and_acknowledge(const struct exchange *x, uint64_t round,
                                                        uint64_t number)
{
    __shared__ bool open;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (last_block(&x->state->at_barrier)) {
            store_release_sys(x->peer_ack, number);
            store_release_gpu(&x->state->gate, round);
            open = true;
        } else {
            open = wait_word<false>(x->state, &x->state->gate, round);
        }
    }
    __syncthreads();
    return open;
}

// Stores its share of exchange `number`, and waits for the peer's.
template <uint32_t components>
__device__ __forceinline__ bool resident_exchange(const struct exchange *x, uint64_t number,
                                                  uint32_t thread, uint32_t threads)
{
    __shared__ bool there;
    struct nvshmem_state *state = x->state;
    const uint32_t zone = (uint32_t)(number - 1) & 1;
    if (threadIdx.x == 0)
        there = wait_word<true>(state, x->ack, number - 2);
    __syncthreads();
    if (!there)
        return false;
    send_part<components>(x, x->peer_land[zone], 0, (x->count + 3) / 4, thread, threads);
    __syncthreads();
    if (threadIdx.x == 0) {
        if (last_block(&state->arrived))
            store_release_sys(x->peer_signal, number);
        there = wait_word<true>(state, x->signal, number);
    }
    __syncthreads();
    return there;
}

// Each block reads what its right neighbour's share is, so none reads only what it stored or
// waited for by itself.
template <uint32_t components>
__global__ void __launch_bounds__(512, 2)
    resident_kernel(const __grid_constant__ struct exchange x, uint32_t steps)
{
    const uint32_t threads = gridDim.x * blockDim.x;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t reader = ((blockIdx.x + 1) % gridDim.x) * blockDim.x + threadIdx.x;
    const uint64_t epoch = *(volatile uint64_t *)&x.state->epoch;
    uint64_t round = *(volatile uint64_t *)&x.state->gate;
    float sum = 0.0f;
    for (uint64_t number = epoch + 1; number <= epoch + steps; number++) {
        const uint32_t zone = (uint32_t)(number - 1) & 1;
        if (!resident_exchange<components>(&x, number, thread, threads))
            return;
        if (x.reverse)
            gpu_scatter_add(x.home, x.index, x.land[zone], components, x.count, reader, threads);
        else if (x.consume)
            sum += gpu_read(x.land[zone], x.count, reader, threads);
        if (!barrier_and_acknowledge(&x, ++round, number))
            return;
    }
    if (sum == -0.123456f)
        *x.sink = sum;
    if (thread == 0)
        x.state->epoch = epoch + steps;
}

#endif
