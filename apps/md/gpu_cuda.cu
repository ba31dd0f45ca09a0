// SPDX-License-Identifier: Apache-2.0
// The kernels of gpu_*.inc on a GPU, in the stream of the rank's halo.
//
// Algorithm: a lane an element, or a warp where a kernel wants a team; all work of a rank goes to
// the one stream in which its exchanges are, so nothing else has to order it. Advantage: no events,
// no second stream, no wait of the host in a plain step. Disadvantage: nothing overlaps within a
// rank; ranks that share a GPU overlap each other.

extern "C" {
#include "core/error.h"
}
#include "leat/device.h"
#include "md/gpu.h"

#include <cuda_runtime.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#include "md/gpu_words.h"
#include "md/gpu_list_kernels.inc"
#include "md/gpu_force_kernels.inc"
#include "md/gpu_move_kernels.inc"
#include "md/gpu_molecule_kernels.inc"
// clang-format on

#define THREADS 128u

#define GLOBAL(id, name, team)                                                                     \
    static __global__ void __launch_bounds__(THREADS) name##_global(                               \
        const __grid_constant__ struct md_gpu_args args, uint32_t choice, uint32_t count)          \
    {                                                                                              \
        const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;                   \
        const uint64_t i = (team) ? thread / G_LANES : thread;                                     \
        if (i < count)                                                                             \
            name(&args, (uint32_t)i, choice);                                                      \
    }
MD_GPU_KERNELS(GLOBAL)
#undef GLOBAL

typedef void global_function(struct md_gpu_args args, uint32_t choice, uint32_t count);

static const struct {
    global_function *function;
    bool team;
    const char *name;
} kernels[MD_GPU_KERNEL_COUNT] = {
#define ENTRY(id, name, team) {name##_global, team, #name},
    MD_GPU_KERNELS(ENTRY)
#undef ENTRY
};

namespace
{
/* Memory is the library's, which knows when it may be given back: peers may be waiting on the GPU
 * for what this very process has to launch. */
struct piece {
    struct piece *next;
    leat_region *region;
    void *address;
};

struct state {
    leat_job *job;
    int device;
    cudaStream_t stream;
    /* One more than marks: where the first begins. */
    cudaEvent_t event[MD_GPU_MARKS + 1];
    int phase[MD_GPU_MARKS + 1], marks;
    struct piece *pieces;
};
} // namespace

static int fail(cudaError_t code, const char *what)
{
    return leat_fail(code == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "CUDA: %s: %s", what,
                     cudaGetErrorString(code));
}

// Loading a kernel may wait for the device, so all are loaded before the first exchange.
static int load_kernels(void)
{
    for (int k = 0; k < MD_GPU_KERNEL_COUNT; k++) {
        cudaFuncAttributes attributes;
        cudaError_t code = cudaFuncGetAttributes(&attributes, (const void *)kernels[k].function);
        if (code != cudaSuccess)
            return fail(code, kernels[k].name);
    }
    return 0;
}

static void cuda_close(void *opaque)
{
    struct state *state = static_cast<struct state *>(opaque);
    for (int k = 0; k <= MD_GPU_MARKS; k++)
        if (state->event[k])
            cudaEventDestroy(state->event[k]);
    free(state);
}

static int cuda_open(leat_job *job, char *model, void **state)
{
    leat_device_info info = {};
    info.size = sizeof info;
    int error = leat_device_info_get(job, &info);
    if (error)
        return error;
    if (info.number < 0 || !info.stream)
        return leat_fail(-ENOTSUP, "the job's device is %s, which is no CUDA device", info.name);
    cudaError_t code = cudaSetDevice(info.number);
    if (code != cudaSuccess)
        return fail(code, "cudaSetDevice");
    error = load_kernels();
    if (error)
        return error;
    struct state *made = static_cast<struct state *>(calloc(1, sizeof *made));
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a rank on a device");
    made->job = job;
    made->device = info.number;
    made->stream = static_cast<cudaStream_t>(info.stream);
    for (int k = 0; k <= MD_GPU_MARKS; k++) {
        code = cudaEventCreate(&made->event[k]);
        if (code != cudaSuccess) {
            cuda_close(made);
            return fail(code, "cudaEventCreate");
        }
    }
    snprintf(model, 64, "%s", info.model);
    *state = made;
    return 0;
}

static int cuda_alloc(void *opaque, size_t bytes, void **memory)
{
    struct state *state = static_cast<struct state *>(opaque);
    struct piece *piece = static_cast<struct piece *>(calloc(1, sizeof *piece));
    if (!piece)
        return leat_fail(-ENOMEM, "no memory to note %zu bytes of a GPU", bytes);
    leat_region_options options = {};
    options.size = sizeof options;
    options.bytes = bytes;
    options.memory = LEAT_MEMORY_DEVICE;
    leat_region_info info = {};
    info.size = sizeof info;
    int error = leat_region_alloc(state->job, &options, &piece->region);
    if (!error)
        error = leat_region_info_get(piece->region, &info);
    if (error) {
        leat_region_free(piece->region);
        free(piece);
        return error;
    }
    piece->address = info.address;
    piece->next = state->pieces;
    state->pieces = piece;
    *memory = info.address;
    return 0;
}

static void cuda_free(void *opaque, void *memory)
{
    struct state *state = static_cast<struct state *>(opaque);
    struct piece **link = &state->pieces;
    while (*link && (*link)->address != memory)
        link = &(*link)->next;
    struct piece *piece = *link;
    if (!memory || !piece)
        return;
    *link = piece->next;
    leat_region_free(piece->region);
    free(piece);
}

static int cuda_upload(void *opaque, void *to, const void *from, size_t bytes)
{
    struct state *state = static_cast<struct state *>(opaque);
    // From pageable memory, which has been read when the call returns.
    cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, state->stream);
    return code == cudaSuccess ? 0 : fail(code, "copy to the device");
}

static int cuda_launch(void *opaque, enum md_gpu_kernel kernel, uint32_t choice, uint32_t count,
                       const struct md_gpu_args *args)
{
    struct state *state = static_cast<struct state *>(opaque);
    uint64_t threads = (uint64_t)count * (kernels[kernel].team ? G_LANES : 1u);
    uint64_t blocks = (threads + THREADS - 1) / THREADS;
    if (blocks > 0x7fffffffu)
        return leat_fail(-EOVERFLOW, "%u elements are more than a grid of kernel %s holds", count,
                         kernels[kernel].name);
    kernels[kernel].function<<<(uint32_t)blocks, THREADS, 0, state->stream>>>(*args, choice, count);
    cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? 0 : fail(code, kernels[kernel].name);
}

static int cuda_wait(void *opaque)
{
    struct state *state = static_cast<struct state *>(opaque);
    return leat_device_wait(state->job, -1.0);
}

static int cuda_download(void *opaque, void *to, const void *from, size_t bytes)
{
    struct state *state = static_cast<struct state *>(opaque);
    // To pageable memory, for which CUDA would wait itself, until the stream has come so far.
    cudaError_t code = cudaStreamSynchronize(state->stream);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, state->stream);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(state->stream);
    return code == cudaSuccess ? 0 : fail(code, "copy from the device");
}

static int cuda_mark(void *opaque, int phase)
{
    struct state *state = static_cast<struct state *>(opaque);
    if (phase < 0)
        state->marks = 0;
    if (state->marks > MD_GPU_MARKS)
        return 0;
    state->phase[state->marks] = phase;
    cudaError_t code = cudaEventRecord(state->event[state->marks++], state->stream);
    return code == cudaSuccess ? 0 : fail(code, "cudaEventRecord");
}

static int cuda_spent(void *opaque, double *phase_ns)
{
    struct state *state = static_cast<struct state *>(opaque);
    for (int k = 1; k < state->marks; k++) {
        float spent_ms = 0;
        cudaError_t code = cudaEventElapsedTime(&spent_ms, state->event[k - 1], state->event[k]);
        if (code != cudaSuccess)
            return fail(code, "cudaEventElapsedTime");
        phase_ns[state->phase[k]] += (double)spent_ms * 1e6;
    }
    state->marks = 0;
    return 0;
}

static const struct md_gpu_backend backend = {
    LEAT_MEMORY_DEVICE, "cuda",      cuda_open, cuda_close,    cuda_alloc, cuda_free,
    cuda_upload,        cuda_launch, cuda_wait, cuda_download, cuda_mark,  cuda_spent};

extern "C" const struct md_gpu_backend *const md_gpu_cuda = &backend;
