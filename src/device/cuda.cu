// SPDX-License-Identifier: Apache-2.0
// The CUDA device's kernels: the sources of the CPU device, compiled unchanged, and how a launch
// finds them.
//
// Algorithm: one grid covers all domains that share the GPU, each with its own run of blocks. A
// kernel comes twice: with its arguments carried along by the launch, where there is one domain and
// they are small enough (they are in the constant bank then, and no load of them is waited for), or
// with their addresses. Advantage: one kernel source, one protocol. Disadvantage: what the CPU
// device cannot express (shared memory, bulk copies) needs words in kernel.h first.

#include "device/cuda.h"

#include "device/kernel.h"
#include "halo/halo_kernels.h"

#define K_KERNEL(name)                                                                             \
    static __device__ __forceinline__ void name(const struct k_grid *grid, const void *arguments,  \
                                                uint32_t choice, uint64_t turn)

#include "halo/kernels.inc"

#define GLOBAL(id, name)                                                                           \
    static __global__ void __launch_bounds__(CUDA_THREADS)                                         \
        name##_near(const __grid_constant__ struct cuda_near near)                                 \
    {                                                                                              \
        struct k_grid grid = {blockIdx.x, gridDim.x};                                              \
        name(&grid, near.arguments, near.choice, near.turn);                                       \
    }                                                                                              \
    static __global__ void __launch_bounds__(CUDA_THREADS)                                         \
        name##_far(const __grid_constant__ struct cuda_far far)                                    \
    {                                                                                              \
        uint32_t domain = 0;                                                                       \
        while (blockIdx.x >= far.end[domain])                                                      \
            domain++;                                                                              \
        const uint32_t begin = domain ? far.end[domain - 1] : 0;                                   \
        struct k_grid grid = {blockIdx.x - begin, far.end[domain] - begin};                        \
        name(&grid, far.arguments[domain], far.choice[domain], far.turn[domain]);                  \
    }
LEAT_KERNELS(GLOBAL)

extern "C" const void *leat_cuda_kernel(enum kernel_id kernel, int near)
{
#define ENTRY(id, name) {(const void *)name##_far, (const void *)name##_near},
    static const void *const entry[KERNEL_COUNT][2] = {LEAT_KERNELS(ENTRY)};
#undef ENTRY
    return (unsigned)kernel < KERNEL_COUNT ? entry[kernel][near != 0] : NULL;
}
