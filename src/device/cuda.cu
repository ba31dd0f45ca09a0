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

#define K_SUMS
#define K_TYPE       float
#define K_NAME(name) name##_f32
#include "halo/halo_kernels.inc"
#undef K_TYPE
#undef K_NAME
#define K_TYPE       double
#define K_NAME(name) name##_f64
#include "halo/halo_kernels.inc"
#undef K_TYPE
#undef K_NAME
#undef K_SUMS
#define K_TYPE       uint32_t
#define K_NAME(name) name##_words
#include "halo/halo_kernels.inc"
#include "halo/resident_kernels.inc"

#define GLOBAL(name)                                                                               \
    static __global__ void __launch_bounds__(512) name##_global(void *arguments, uint32_t choice)  \
    {                                                                                              \
        struct k_grid grid = {0};                                                                  \
        name(&grid, arguments, choice);                                                            \
    }

GLOBAL(fused_forward_f32)
GLOBAL(fused_forward_f64)
GLOBAL(fused_forward_words)
GLOBAL(fused_reverse_f32)
GLOBAL(fused_reverse_f64)
GLOBAL(pack_f32)
GLOBAL(pack_f64)
GLOBAL(pack_words)
GLOBAL(accumulate_f32)
GLOBAL(accumulate_f64)
GLOBAL(pulse_forward_f32)
GLOBAL(pulse_forward_f64)
GLOBAL(pulse_forward_words)
GLOBAL(pulse_reverse_f32)
GLOBAL(pulse_reverse_f64)
GLOBAL(resident)

// The kernel's entry point for cudaLaunchCooperativeKernel, or NULL for a number that has none.
extern "C" const void *leat_cuda_kernel(enum kernel_id kernel)
{
    switch (kernel) {
    case KERNEL_FUSED_FORWARD_F32:
        return (const void *)fused_forward_f32_global;
    case KERNEL_FUSED_FORWARD_F64:
        return (const void *)fused_forward_f64_global;
    case KERNEL_FUSED_FORWARD_WORDS:
        return (const void *)fused_forward_words_global;
    case KERNEL_FUSED_REVERSE_F32:
        return (const void *)fused_reverse_f32_global;
    case KERNEL_FUSED_REVERSE_F64:
        return (const void *)fused_reverse_f64_global;
    case KERNEL_PACK_F32:
        return (const void *)pack_f32_global;
    case KERNEL_PACK_F64:
        return (const void *)pack_f64_global;
    case KERNEL_PACK_WORDS:
        return (const void *)pack_words_global;
    case KERNEL_ACCUMULATE_F32:
        return (const void *)accumulate_f32_global;
    case KERNEL_ACCUMULATE_F64:
        return (const void *)accumulate_f64_global;
    case KERNEL_PULSE_FORWARD_F32:
        return (const void *)pulse_forward_f32_global;
    case KERNEL_PULSE_FORWARD_F64:
        return (const void *)pulse_forward_f64_global;
    case KERNEL_PULSE_FORWARD_WORDS:
        return (const void *)pulse_forward_words_global;
    case KERNEL_PULSE_REVERSE_F32:
        return (const void *)pulse_reverse_f32_global;
    case KERNEL_PULSE_REVERSE_F64:
        return (const void *)pulse_reverse_f64_global;
    case KERNEL_RESIDENT:
        return (const void *)resident_global;
    default:
        return NULL;
    }
}
