// SPDX-License-Identifier: Apache-2.0
// The kernel that scatters a slab's pieces: the source of the CPU device, with the pieces in the
// launch's own constant memory. A block a piece.

#include "device/cuda_copy.h"

#include "device/kernel.h"

#include "file/file_kernels.inc"

template <class carried_pieces>
static __device__ __forceinline__ void scatter(const carried_pieces &carried)
{
    const struct k_grid grid = {blockIdx.x, gridDim.x, 0};
    file_scatter(&grid, carried.slab, carried.piece, carried.count);
}

static __global__ void __launch_bounds__(CUDA_COPY_THREADS)
    scatter_few(const __grid_constant__ struct cuda_scatter_few carried)
{
    scatter(carried);
}

static __global__ void __launch_bounds__(CUDA_COPY_THREADS)
    scatter_many(const __grid_constant__ struct cuda_scatter_many carried)
{
    scatter(carried);
}

extern "C" void leat_cuda_scatter_entries(const void **few, const void **many)
{
    *few = (const void *)scatter_few;
    *many = (const void *)scatter_many;
}
