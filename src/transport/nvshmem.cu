// SPDX-License-Identifier: Apache-2.0
// libleat_nvshmem.so: NVSHMEM behind the functions of nvshmem.h, and the halo's kernels with puts.
//
// Algorithm: the kernels are those of device/cuda.cu; where a peer cannot be stored to they pack
// into memory of their own rank, and puts take that to the peer (put_kernels.inc). Words are waited
// for as ever, by polling with a deadline: NVSHMEM's own waits have none. Advantage: any path of
// NVSHMEM's, without a thread of the host. Disadvantage: what was packed is read once more.
//
// Acquiring the word suffices where kernels' stores carry the bytes, which is so on one host. From
// a network card NVSHMEM's own waits do more on some machines; can_reach knows no other host.

#include "transport/nvshmem.h"

#include "device/cuda.h"

#include "device/kernel.h"
#include "halo/halo_kernels.h"

#include <nvshmem.h>
#include <nvshmemx.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ---- Puts by kernels: the words of put_kernels.inc ----

#define K_LANES                 CUDA_THREADS
#define K_PUT_LANES             32
#define K_PUT_OVERDUE(wait, at) k_overdue(wait, at)
/* A network card reads what other blocks have packed. */
#define K_PUT_VISIBLE() __threadfence_system()
#define K_PUT_ALL(to, from, bytes, signal, value, peer)                                            \
    nvshmemx_putmem_signal_nbi_block(to, from, bytes, signal, value, NVSHMEM_SIGNAL_SET, peer)
#define K_PUT_RAISE(signal, value, peer) nvshmemx_signal_op(signal, value, NVSHMEM_SIGNAL_SET, peer)

K_FN uint32_t put_count(const uint32_t *blocks)
{
    uint32_t seen;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(blocks) : "memory");
    return seen;
}
#define K_PUT_COUNT(blocks) put_count(blocks)

K_FN void put_share(char *to, const char *from, uint64_t bytes, int peer)
{
    nvshmemx_putmem_nbi_warp(to, from, bytes, peer);
    if (threadIdx.x % K_PUT_LANES == 0)
        nvshmem_quiet();
}
#define K_PUT_SHARE(to, from, bytes, peer) put_share(to, from, bytes, peer)

#include "halo/put_kernels.inc"

// ---- The halo's kernels ----

#define K_KERNEL(name)                                                                             \
    static __device__ __forceinline__ void name(const struct k_grid *grid, const void *arguments,  \
                                                uint32_t choice, uint64_t turn)

#include "halo/kernels.inc"

#define FAR(id, name)                                                                              \
    static __global__ void __launch_bounds__(CUDA_THREADS, 2)                                      \
        name##_put(const __grid_constant__ struct cuda_far far)                                    \
    {                                                                                              \
        struct k_grid grid = {blockIdx.x, gridDim.x, 0};                                           \
        name(&grid, far.arguments[0], far.choice[0], far.turn[0]);                                 \
    }
LEAT_KERNELS(FAR)

static const void *entry_of(int kernel)
{
    switch (kernel) {
#define ENTRY(id, name)                                                                            \
    case KERNEL_##id:                                                                              \
        return (const void *)name##_put;
        LEAT_KERNELS(ENTRY)
    default:
        return NULL;
    }
}

// ---- The library's functions ----

static int cuda_failed(cudaError_t failed, const char *what, char *why, size_t bytes)
{
    if (failed == cudaSuccess)
        return 0;
    cudaGetLastError(); // one that sticks would be taken for the next call's
    snprintf(why, bytes, "%s: CUDA says: %s (%s)", what, cudaGetErrorString(failed),
             cudaGetErrorName(failed));
    return failed == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

static int draw(unsigned char id[NVSHMEM_ID_BYTES], char *why, size_t bytes)
{
    nvshmemx_uniqueid_t drawn = NVSHMEMX_UNIQUEID_INITIALIZER;
    static_assert(sizeof drawn == NVSHMEM_ID_BYTES, "NVSHMEM's identity has another size");
    const int failed = nvshmemx_get_uniqueid(&drawn);
    if (failed) {
        snprintf(why, bytes, "nvshmemx_get_uniqueid says %d", failed);
        return -EIO;
    }
    memcpy(id, &drawn, sizeof drawn);
    return 0;
}

// nvshmemx_init_attr ends the process where this says why not.
static int initialise(nvshmemx_init_attr_t *attributes)
{
    const nvshmemi_version_t version = {NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION,
                                        NVSHMEM_VENDOR_PATCH_VERSION};
    int provided = 0;
    nvshmemx_init_init_attr_ver_only((*attributes));
    return nvshmemi_init_thread(NVSHMEM_THREAD_SERIALIZED, &provided, NVSHMEMX_INIT_WITH_UNIQUEID,
                                attributes, version);
}

static int join(const unsigned char id[NVSHMEM_ID_BYTES], int gpu, int rank, int rank_count,
                char *why, size_t bytes)
{
    nvshmemx_uniqueid_t drawn;
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    memcpy(&drawn, id, sizeof drawn);
    int error = cuda_failed(cudaSetDevice(gpu), "choosing the GPU", why, bytes);
    if (error)
        return error;
    int failed = nvshmemx_set_attr_uniqueid_args(rank, rank_count, &drawn, &attributes);
    if (!failed)
        failed = initialise(&attributes);
    if (failed || nvshmem_my_pe() != rank || nvshmem_n_pes() != rank_count) {
        snprintf(why, bytes, "its initialisation says %d; NVSHMEM_DEBUG=WARN says more", failed);
        return -EIO;
    }
    return 0;
}

static int clear(int gpu, void *address, uint64_t bytes, char *why, size_t size)
{
    cudaError_t failed = cudaSetDevice(gpu);
    if (failed == cudaSuccess)
        failed = cudaMemsetAsync(address, 0, bytes, cudaStreamPerThread);
    if (failed == cudaSuccess)
        failed = cudaStreamSynchronize(cudaStreamPerThread);
    return cuda_failed(failed, "clearing memory of the symmetric heap", why, size);
}

static void *heap(int gpu, uint64_t bytes)
{
    return cudaSetDevice(gpu) == cudaSuccess ? nvshmem_malloc(bytes) : NULL;
}

static void *address(const void *here, int rank)
{
    return nvshmem_ptr(here, rank);
}

static int fit(int gpu, int kernel, int *blocks, char *why, size_t bytes)
{
    const void *entry = entry_of(kernel);
    int each = 0, multiprocessors = 0;
    struct cudaFuncAttributes attributes;
    cudaError_t failed = cudaSetDevice(gpu);
    if (failed == cudaSuccess)
        failed = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu);
    if (failed == cudaSuccess)
        failed = cudaFuncGetAttributes(&attributes, entry);
    if (failed == cudaSuccess)
        failed = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, entry, CUDA_THREADS, 0);
    *blocks = each * multiprocessors;
    return cuda_failed(failed, "loading a kernel", why, bytes);
}

static int launch(int gpu, int kernel, uint32_t blocks, bool together, void *stream,
                  const struct cuda_far *far, char *why, size_t bytes)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks, 1, 1);
    config.blockDim = dim3(CUDA_THREADS, 1, 1);
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = together ? 1 : 0;
    void *arguments[] = {const_cast<struct cuda_far *>(far)};
    cudaError_t failed = cudaSetDevice(gpu);
    if (failed == cudaSuccess)
        failed = cudaLaunchKernelExC(&config, entry_of(kernel), arguments);
    return cuda_failed(failed, "launching a kernel with puts", why, bytes);
}

static int put(int gpu, const struct k_put *order, uint64_t value, void *stream, char *why,
               size_t bytes)
{
    cudaStream_t in = (cudaStream_t)stream;
    const uint64_t zone = order->to_stride ? value & 1 : 0;
    void *to = order->to + zone * order->to_stride;
    int error = cuda_failed(cudaSetDevice(gpu), "choosing the GPU", why, bytes);
    if (error)
        return error;
    if (order->signal && order->bytes)
        nvshmemx_putmem_signal_on_stream(to, order->from, order->bytes, order->signal, value,
                                         NVSHMEM_SIGNAL_SET, order->peer, in);
    else if (order->signal)
        nvshmemx_signal_op_on_stream(order->signal, value, NVSHMEM_SIGNAL_SET, order->peer, in);
    else if (order->bytes)
        nvshmemx_putmem_on_stream(to, order->from, order->bytes, order->peer, in);
    if (!order->signal)
        nvshmemx_quiet_on_stream(in);
    return cuda_failed(cudaPeekAtLastError(), "a put in a stream", why, bytes);
}

extern "C" __attribute__((visibility("default")))
const struct nvshmem_library leat_nvshmem_library = {
    NVSHMEM_LIBRARY_LAYOUT, draw, join, heap, address, clear, fit, launch, put};
