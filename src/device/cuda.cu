// SPDX-License-Identifier: Apache-2.0
// The CUDA device's kernels: the sources of the CPU device, compiled unchanged, and the table by
// which a launch finds them.
//
// Advantage: one kernel source, one protocol. Disadvantage: what the CPU device cannot express
// (shared memory, bulk copies) needs words in kernel.h first.

#include "device/kernel.h"
#include "device/ops.h"
#include "halo/halo_kernels.h"

#define K_KERNEL(name)                                                                             \
    static __device__ void name(const struct k_grid *grid, void *arguments, uint32_t choice)

#include "halo/kernels.inc"

#define GLOBAL(id, name)                                                                           \
    static __global__ void __launch_bounds__(512) name##_global(void *arguments, uint32_t choice)  \
    {                                                                                              \
        struct k_grid grid = {0};                                                                  \
        name(&grid, arguments, choice);                                                            \
    }
LEAT_KERNELS(GLOBAL)

// The kernel's entry point for cudaLaunchCooperativeKernel, or NULL for a number that has none.
extern "C" const void *leat_cuda_kernel(enum kernel_id kernel)
{
#define ENTRY(id, name) (const void *)name##_global,
    static const void *const entry[KERNEL_COUNT] = {LEAT_KERNELS(ENTRY)};
#undef ENTRY
    return (unsigned)kernel < KERNEL_COUNT ? entry[kernel] : NULL;
}
