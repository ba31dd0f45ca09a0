// SPDX-License-Identifier: Apache-2.0
// The CUDA device's kernels: the sources of the CPU device, compiled unchanged, and how a launch
// finds them.
//
// Algorithm: one grid covers all domains that share the GPU, each with its own run of blocks. Short
// kernels come twice: with its arguments carried along by the launch, where there is one domain and
// they are small enough (they are in the constant bank then, and no load of them is waited for), or
// with their addresses. Advantage: one kernel source, one protocol. Disadvantage: what the CPU
// device cannot express (shared memory, bulk copies) needs words in kernel.h first.
//
// Two blocks a multiprocessor are asked for: with three the short kernels keep values in memory;
// with one the resident loop keeps none there, and is slower by a tenth at 256,000 elements all the
// same.

#include "device/cuda.h"

#include "device/kernel.h"
#include "halo/halo_kernels.h"

#define K_KERNEL(name)                                                                             \
    static __device__ __forceinline__ void name(const struct k_grid *grid, const void *arguments,  \
                                                uint32_t choice, uint64_t turn)

#include "halo/kernels.inc"

#define DOMAINS(name, kind, orders, bulk)                                                          \
    static __global__ void __launch_bounds__(CUDA_THREADS, 2)                                      \
        name##_##kind(const __grid_constant__ struct cuda_far far)                                 \
    {                                                                                              \
        uint32_t domain = 0;                                                                       \
        while (blockIdx.x >= far.end[domain])                                                      \
            domain++;                                                                              \
        const uint32_t begin = domain ? far.end[domain - 1] : 0;                                   \
        const struct k_grid grid = {blockIdx.x - begin, far.end[domain] - begin, orders, bulk};    \
        name(&grid, far.arguments[domain], far.choice[domain], far.turn[domain]);                  \
    }
#define FAR(id, name) DOMAINS(name, far, 0, 0)
LEAT_KERNELS(FAR)

/* Those that announce to peers, once more with orders to the proxy: that it could call costs a
 * kernel registers and a tenth of its speed. */
#define ORDERING_KERNELS(X)                                                                        \
    X(FUSED_FORWARD_F32, fused_forward_f32)                                                        \
    X(FUSED_FORWARD_F64, fused_forward_f64)                                                        \
    X(FUSED_FORWARD_WORDS, fused_forward_words)                                                    \
    X(FUSED_REVERSE_F32, fused_reverse_f32)                                                        \
    X(FUSED_REVERSE_F64, fused_reverse_f64)                                                        \
    X(PULSE_FORWARD_F32, pulse_forward_f32)                                                        \
    X(PULSE_FORWARD_F64, pulse_forward_f64)                                                        \
    X(PULSE_FORWARD_WORDS, pulse_forward_words)                                                    \
    X(PULSE_REVERSE_F32, pulse_reverse_f32)                                                        \
    X(PULSE_REVERSE_F64, pulse_reverse_f64)                                                        \
    X(RESIDENT, resident)
#define ORDERS(id, name) DOMAINS(name, orders, 1, 0)
ORDERING_KERNELS(ORDERS)

#define CARRIED(name, kind, size, bulk)                                                            \
    static __global__ void __launch_bounds__(CUDA_THREADS, 2)                                      \
        name##_##kind(const __grid_constant__ struct cuda_##size carried)                          \
    {                                                                                              \
        const struct k_grid grid = {blockIdx.x, gridDim.x, 0, bulk};                               \
        name(&grid, carried.arguments, carried.choice, carried.turn);                              \
    }

/* Those whose time is not much more than a launch's. */
#define NEAR_KERNELS(X)                                                                            \
    X(FUSED_FORWARD_F32, fused_forward_f32)                                                        \
    X(FUSED_FORWARD_F64, fused_forward_f64)                                                        \
    X(FUSED_REVERSE_F32, fused_reverse_f32)                                                        \
    X(FUSED_REVERSE_F64, fused_reverse_f64)                                                        \
    X(RESIDENT, resident)
#define NEAR(id, name) CARRIED(name, near, near, 0)
NEAR_KERNELS(NEAR)

#define SMALL_KERNELS(X)                                                                           \
    X(FUSED_FORWARD_F32, fused_forward_f32)                                                        \
    X(FUSED_REVERSE_F32, fused_reverse_f32)
#define SMALL(id, name) CARRIED(name, small, small, 0)
SMALL_KERNELS(SMALL)

/* Those that send large pulses, once more with bulk copies: their tiles take shared memory. */
#define BULK_KERNELS(X)                                                                            \
    X(FUSED_FORWARD_F32, fused_forward_f32)                                                        \
    X(RESIDENT, resident)
#define BULK(id, name) DOMAINS(name, bulk_far, 0, 1) CARRIED(name, bulk_near, near, 1)
BULK_KERNELS(BULK)

extern "C" void leat_cuda_kernels(const void *entry[KERNEL_COUNT][CUDA_ENTRIES])
{
#define FAR_ENTRY(id, name)    entry[KERNEL_##id][CUDA_FAR] = (const void *)name##_far;
#define ORDERS_ENTRY(id, name) entry[KERNEL_##id][CUDA_ORDERS] = (const void *)name##_orders;
#define NEAR_ENTRY(id, name)   entry[KERNEL_##id][CUDA_NEAR] = (const void *)name##_near;
#define SMALL_ENTRY(id, name)  entry[KERNEL_##id][CUDA_SMALL] = (const void *)name##_small;
#define BULK_ENTRY(id, name)                                                                       \
    entry[KERNEL_##id][CUDA_BULK_FAR] = (const void *)name##_bulk_far;                             \
    entry[KERNEL_##id][CUDA_BULK_NEAR] = (const void *)name##_bulk_near;
    LEAT_KERNELS(FAR_ENTRY)
    BULK_KERNELS(BULK_ENTRY)
    ORDERING_KERNELS(ORDERS_ENTRY)
    NEAR_KERNELS(NEAR_ENTRY)
    SMALL_KERNELS(SMALL_ENTRY)
}
