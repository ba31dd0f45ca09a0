// SPDX-License-Identifier: Apache-2.0
// libleat_nvshmem.so: NVSHMEM behind the functions of nvshmem.h, and the halo's kernels with puts.
//
// Algorithm: the kernels are those of device/cuda.cu; where a peer cannot be stored to they have
// packed into memory of their own rank, and a put takes that to the peer and raises its word. A
// small pulse is put whole by the block that comes last: one message. Of a large one every warp
// puts its share once all blocks have packed, and the last of them raises the word. Words are
// waited for as ever, by polling with a deadline: NVSHMEM's own waits have none. Advantage: any
// path of NVSHMEM's, without a thread of the host. Disadvantage: what was packed is read once more.
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

// From so many bytes on every warp puts.
#define PUT_SPREAD_BYTES 192000
#define PUT_PIECE_BYTES  1024
#define WARP             32

// ---- Puts by kernels ----

K_FN const struct k_put *put_of(const struct k_field *field, int p, enum board_signal word)
{
    const uint32_t posts = k_pulse_at(field, p)->posts;
    return field->puts && posts >> word & 1 ? field->puts + (posts >> K_POST_BIT) + (uint32_t)word
                                            : (const struct k_put *)0;
}

K_FN uint64_t put_zone(const struct k_put *put, uint64_t value)
{
    return put->to_stride ? value & 1 : 0;
}

K_FN void put_signal_alone(const struct k_put *put, uint64_t value)
{
    __threadfence_system(); // all that this lane has seen comes before the word
    nvshmemx_signal_op(put->signal, value, NVSHMEM_SIGNAL_SET, put->peer);
}

static __device__ __noinline__ void put_word(const struct k_field *field, int p,
                                             enum board_signal word, uint64_t value)
{
    const struct k_put *put = put_of(field, p, word);
    if (put)
        put_signal_alone(put, value);
}

// The block that comes last, with all its lanes.
K_FN void put_by_last_block(const struct k_grid *grid, const struct k_put *put, uint32_t *blocks,
                            uint64_t value)
{
    const uint64_t zone = put_zone(put, value);
    uint32_t last = 0;
    if (k_lane(grid) == 0) {
        last = k_last_block(grid, blocks);
        __threadfence_system(); // a network card reads what was packed
    }
    if (!k_any(grid, last))
        return;
    if (put->bytes)
        nvshmemx_putmem_signal_nbi_block(put->to + zone * put->to_stride,
                                         put->from + zone * put->from_stride, put->bytes,
                                         put->signal, value, NVSHMEM_SIGNAL_SET, put->peer);
    else if (k_lane(grid) == 0)
        put_signal_alone(put, value);
}

// Until all blocks have packed; 1 when the wait failed. The counter goes on to twice their number.
K_FN uint32_t await_packed(const struct k_grid *grid, const struct k_wait *wait, uint32_t *blocks,
                           int peer, int p)
{
    uint64_t deadline = 0;
    uint32_t seen = k_add_acq_rel(blocks, 1) + 1;
    while (seen < k_block_count(grid)) {
        const int code = k_overdue(wait, &deadline);
        if (code) {
            k_fail(wait, code, peer, p, (const void *)0, k_block_count(grid), seen);
            return 1;
        }
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(blocks) : "memory");
    }
    __threadfence_system();
    return 0;
}

// Every warp its share.
K_FN void put_by_warps(const struct k_grid *grid, const struct k_wait *wait,
                       const struct k_put *put, uint32_t *blocks, uint64_t value, int p)
{
    const uint64_t zone = put_zone(put, value);
    const uint32_t warps = k_block_count(grid) * (blockDim.x / WARP);
    const uint32_t warp = k_block(grid) * (blockDim.x / WARP) + threadIdx.x / WARP;
    uint64_t piece = (put->bytes / warps / 16 + 1) * 16;
    uint32_t failed = 0;
    if (k_lane(grid) == 0)
        failed = await_packed(grid, wait, blocks, put->peer, p);
    if (k_any(grid, failed))
        return;
    if (piece < PUT_PIECE_BYTES)
        piece = PUT_PIECE_BYTES;
    const uint64_t begin = warp * piece;
    if (begin < put->bytes) {
        const uint64_t left = put->bytes - begin;
        nvshmemx_putmem_nbi_warp(put->to + zone * put->to_stride + begin,
                                 put->from + zone * put->from_stride + begin,
                                 left < piece ? left : piece, put->peer);
        if (threadIdx.x % WARP == 0)
            nvshmem_quiet();
    }
    k_sync_block(grid);
    if (k_lane(grid) == 0 && k_add_acq_rel(blocks, 1) + 1 == 2 * k_block_count(grid)) {
        k_store_relaxed(blocks, 0);
        put_signal_alone(put, value);
    }
}

// The whole block comes, each of its lanes having packed its part. 0: no put goes with the word.
static __device__ __noinline__ uint32_t put_pulse(const struct k_grid *grid,
                                                  const struct k_field *field, int p,
                                                  enum board_signal word, uint32_t *blocks,
                                                  uint64_t value)
{
    const struct k_put *put = put_of(field, p, word);
    if (!put)
        return 0;
    if (put->bytes < PUT_SPREAD_BYTES)
        put_by_last_block(grid, put, blocks, value);
    else
        put_by_warps(grid, &field->wait, put, blocks, value, p);
    return 1;
}

#define K_PUT_WORD(field, p, word, value) put_word(field, p, word, value)
#define K_PUT_PULSE(grid, field, p, word, blocks, epoch)                                           \
    put_pulse(grid, field, p, word, blocks, epoch)

// ---- The halo's kernels ----

#define K_KERNEL(name)                                                                             \
    static __device__ __forceinline__ void name(const struct k_grid *grid, const void *arguments,  \
                                                uint32_t choice, uint64_t turn)

#include "halo/kernels.inc"

#define FAR(id, name)                                                                              \
    static __global__ void __launch_bounds__(CUDA_THREADS, 2)                                      \
        name##_put(const __grid_constant__ struct cuda_far far)                                    \
    {                                                                                              \
        struct k_grid grid = {blockIdx.x, gridDim.x};                                              \
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
