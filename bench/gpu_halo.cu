// SPDX-License-Identifier: Apache-2.0
// Arrays and kernels that the sides of the GPU halo benchmark share; told in the header.
//
// Stamps are small whole numbers, so sums of them are exact in floats and in any order.

#include "gpu_gather.cuh"
#include "gpu_halo.h"

#include "halo_slice.h"

#include <stdlib.h>

static const uint32_t THREADS = 256, BLOCKS_MAX = 132 * 8;

static uint32_t blocks_for(uint32_t items)
{
    const uint32_t blocks = (items + THREADS - 1) / THREADS;
    return blocks < 1 ? 1 : blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks;
}

int gpu_ok(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return 0;
    fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorString(error), cudaGetErrorName(error));
    return -1;
}

// ---- kernels ----

__device__ static float home_stamp(int rank, uint32_t atom, uint32_t c, uint32_t stamp)
{
    if (c == 0)
        return (float)(atom + 1);
    if (c == 1)
        return (float)(16 * stamp + (uint32_t)rank);
    return (float)((7 * atom + stamp + c) & 1023);
}

__device__ static float force_stamp(int rank, uint32_t atom, uint32_t c, uint32_t stamp)
{
    return (float)((atom + 3 * c + 5 * (uint32_t)rank + stamp) & 255);
}

__device__ static uint32_t thread_number(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static uint32_t thread_count(void)
{
    return gridDim.x * blockDim.x;
}

__global__ static void fill_kernel(float *home, float *out, uint32_t atoms, uint32_t components,
                                   int rank, uint32_t stamp)
{
    for (uint32_t at = thread_number(); at < 2 * atoms * components; at += thread_count()) {
        const uint32_t atom = at / components, c = at - atom * components;
        home[at] = home_stamp(rank, atom, c, stamp);
        if (atom < atoms)
            out[at] = force_stamp(rank, atom, c, stamp);
    }
}

__global__ static void check_forward_kernel(const float *ghosts, const uint32_t *index,
                                            uint32_t atoms, uint32_t components, int peer,
                                            uint32_t stamp, uint32_t *wrong)
{
    for (uint32_t at = thread_number(); at < atoms * components; at += thread_count()) {
        const uint32_t atom = at / components, c = at - atom * components;
        const float shift = c < 3 ? (float)(c + 1) : 0.0f;
        if (ghosts[at] != home_stamp(peer, index[atom], c, stamp) + shift) {
            atomicAdd(wrong, 1);
            atomicMin(wrong + 1, atom);
        }
    }
}

__global__ static void check_reverse_kernel(const float *home, const uint32_t *index,
                                            uint32_t atoms, uint32_t components, int rank,
                                            uint32_t stamp, uint32_t times, uint32_t *wrong)
{
    for (uint32_t at = thread_number(); at < 2 * atoms * components; at += thread_count()) {
        const uint32_t atom = at / components, c = at - atom * components, ghost = atom / 2;
        float expected = home_stamp(rank, atom, c, stamp);
        if (index[ghost] == atom)
            expected += (float)times * force_stamp(1 - rank, ghost, c, stamp);
        if (home[at] != expected) {
            atomicAdd(wrong, 1);
            atomicMin(wrong + 1, atom);
        }
    }
}

template <uint32_t components>
__global__ static void pack_kernel(float *to, const float *home, const uint32_t *index,
                                   uint32_t count)
{
    gpu_gather<components>(to, home, index, count, 0, (count + 3) / 4, thread_number(),
                           thread_count());
}

__global__ static void accumulate_kernel(float *home, const uint32_t *index, const float *from,
                                         uint32_t components, uint32_t count)
{
    gpu_scatter_add(home, index, from, components, count, thread_number(), thread_count());
}

// No compiler can tell that the sum is never this number, so nothing of the reading is left out.
__global__ static void consume_kernel(const float *from, uint32_t count, float *sink)
{
    const float sum = gpu_read(from, count, thread_number(), thread_count());
    if (sum == -0.123456f)
        *sink = sum;
}

// ---- arrays ----

static int allocate(void **address, size_t bytes)
{
    if (*address)
        return 0;
    if (gpu_ok(cudaMalloc(address, bytes), "cannot allocate on the GPU"))
        return -1;
    return gpu_ok(cudaMemset(*address, 0, bytes), "cannot clear memory of the GPU");
}

int gpu_load(void)
{
    const void *kernels[] = {(const void *)fill_kernel,          (const void *)pack_kernel<3>,
                             (const void *)pack_kernel<4>,       (const void *)accumulate_kernel,
                             (const void *)check_forward_kernel, (const void *)consume_kernel,
                             (const void *)check_reverse_kernel};
    struct cudaFuncAttributes attributes;
    for (const void *kernel : kernels)
        if (gpu_ok(cudaFuncGetAttributes(&attributes, kernel), "cannot load a kernel"))
            return -1;
    return 0;
}

int gpu_halo_open(struct gpu_halo *halo, int device)
{
    if (gpu_ok(cudaSetDevice(device), "cannot choose the GPU") ||
        gpu_ok(cudaStreamCreateWithFlags(&halo->stream, cudaStreamNonBlocking),
               "cannot make a stream"))
        return -1;
    return allocate((void **)&halo->home, 2 * GPU_LAND_BYTES) ||
                   allocate((void **)&halo->out, GPU_LAND_BYTES) ||
                   allocate((void **)&halo->land[0], GPU_LAND_BYTES) ||
                   allocate((void **)&halo->land[1], GPU_LAND_BYTES) ||
                   allocate((void **)&halo->index, sizeof(uint32_t) * GPU_ATOMS_MAX) ||
                   allocate((void **)&halo->wrong, 2 * sizeof(uint32_t)) ||
                   allocate((void **)&halo->sink, sizeof(float)) || gpu_load() ||
                   gpu_ok(cudaDeviceSynchronize(), "cannot wait for the GPU")
               ? -1
               : 0;
}

int gpu_halo_fill(struct gpu_halo *halo, uint32_t stamp)
{
    const struct gpu_slice *slice = &halo->slice;
    const size_t index_bytes = sizeof(uint32_t) * slice->atoms;
    uint32_t *index = (uint32_t *)malloc(index_bytes);
    if (!index)
        return gpu_ok(cudaErrorMemoryAllocation, "no memory for an index map");
    slice_index(slice->atoms, index);
    // In the stream: a plain copy may return before its data have arrived.
    int error = gpu_ok(
        cudaMemcpyAsync(halo->index, index, index_bytes, cudaMemcpyHostToDevice, halo->stream),
        "cannot copy the index map");
    if (!error)
        error = gpu_ok(cudaStreamSynchronize(halo->stream), "copying the index map failed");
    free(index);
    for (int zone = 0; !error && zone < 2; zone++)
        error =
            gpu_ok(cudaMemsetAsync(halo->land[zone], 0xff, gpu_slice_bytes(slice), halo->stream),
                   "cannot poison a landing zone");
    if (error)
        return error;
    const uint32_t components = (uint32_t)slice->components;
    fill_kernel<<<blocks_for(2 * slice->atoms * components), THREADS, 0, halo->stream>>>(
        halo->home, halo->out, slice->atoms, components, halo->rank, stamp);
    error = gpu_ok(cudaGetLastError(), "cannot start the kernel that fills");
    return error ? error : gpu_ok(cudaStreamSynchronize(halo->stream), "filling failed");
}

int gpu_halo_check(struct gpu_halo *halo, int zone, uint32_t stamp, uint32_t times)
{
    const struct gpu_slice *slice = &halo->slice;
    const uint32_t components = (uint32_t)slice->components;
    uint32_t wrong[2] = {0, UINT32_MAX};
    if (gpu_ok(
            cudaMemcpyAsync(halo->wrong, wrong, sizeof wrong, cudaMemcpyHostToDevice, halo->stream),
            "cannot prepare the check"))
        return -1;
    if (slice->reverse)
        check_reverse_kernel<<<blocks_for(2 * slice->atoms * components), THREADS, 0,
                               halo->stream>>>(halo->home, halo->index, slice->atoms, components,
                                               halo->rank, stamp, times, halo->wrong);
    else
        check_forward_kernel<<<blocks_for(slice->atoms * components), THREADS, 0, halo->stream>>>(
            halo->land[zone], halo->index, slice->atoms, components, 1 - halo->rank, stamp,
            halo->wrong);
    if (gpu_ok(cudaGetLastError(), "cannot start the check") ||
        gpu_ok(cudaStreamSynchronize(halo->stream), "the check failed") ||
        gpu_ok(cudaMemcpy(wrong, halo->wrong, sizeof wrong, cudaMemcpyDeviceToHost),
               "cannot read the check's result"))
        return -1;
    if (!wrong[0])
        return 0;
    fprintf(stderr, "rank %d, %s, %u atoms: %u values are wrong, the first of element %u\n",
            halo->rank, slice->way, slice->atoms, wrong[0], wrong[1]);
    return -1;
}

// ---- operations of the stream ----

int gpu_halo_pack(struct gpu_halo *halo)
{
    const uint32_t count = halo->slice.atoms * (uint32_t)halo->slice.components;
    const uint32_t blocks = blocks_for((count + 3) / 4);
    if (halo->slice.components == 4)
        pack_kernel<4>
            <<<blocks, THREADS, 0, halo->stream>>>(halo->out, halo->home, halo->index, count);
    else
        pack_kernel<3>
            <<<blocks, THREADS, 0, halo->stream>>>(halo->out, halo->home, halo->index, count);
    return gpu_ok(cudaGetLastError(), "cannot start the pack kernel");
}

int gpu_halo_accumulate(struct gpu_halo *halo, int zone)
{
    const uint32_t components = (uint32_t)halo->slice.components;
    const uint32_t count = halo->slice.atoms * components;
    accumulate_kernel<<<blocks_for(count), THREADS, 0, halo->stream>>>(
        halo->home, halo->index, halo->land[zone], components, count);
    return gpu_ok(cudaGetLastError(), "cannot start the kernel that accumulates");
}

int gpu_consume(cudaStream_t stream, const float *ghosts, uint32_t float_count, float *sink)
{
    consume_kernel<<<blocks_for((float_count + 3) / 4), THREADS, 0, stream>>>(ghosts, float_count,
                                                                              sink);
    return gpu_ok(cudaGetLastError(), "cannot start the consumer");
}

int gpu_halo_consume(struct gpu_halo *halo, int zone)
{
    const uint32_t count = halo->slice.atoms * (uint32_t)halo->slice.components;
    return gpu_consume(halo->stream, halo->land[zone], count, halo->sink);
}
