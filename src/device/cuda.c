// SPDX-License-Identifier: Apache-2.0
// The CUDA device: opening, memory, and who reaches whom.
//
// Algorithm: a rank has a stream of its own on its GPU. What kernels read (arguments, index maps)
// has a copy on the host, which is published; reports of failures lie in pinned memory of the host,
// which kernels write only when they fail. Access between all GPUs of the job is switched on when a
// rank opens, before any kernel spins. Advantage: the runtime library only, plain allocations, so
// every other library's memory and streams go with it. Disadvantage: one process.

#include "device/cuda.h"

#include "core/job.h"
#include "device/cuda_copy.h"
#include "device/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int leat_cuda_fail(cudaError_t error, const char *what)
{
    int code = error == cudaErrorMemoryAllocation                                   ? -ENOMEM
               : error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? -ENOTSUP
                                                                                    : -EIO;
    cudaGetLastError(); // one that sticks would be taken for the next call's
    return leat_fail(code, "%s: CUDA says: %s (%s)", what, cudaGetErrorString(error),
                     cudaGetErrorName(error));
}

int leat_cuda_use(const struct cuda_device *device)
{
    cudaError_t error = cudaSetDevice(device->number);
    return error == cudaSuccess ? 0 : leat_cuda_fail(error, "choosing the GPU");
}

bool leat_cuda_captures(const struct cuda_device *device)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(device->stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

static int device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int leat_cuda_number_of(const struct leat_job *job, int rank)
{
    return leat_device_number(job->config.device, device_count(), rank, job->rank_count);
}

static void cuda_info(const struct device *base, leat_device_info *info)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    snprintf(info->name, sizeof info->name, "cuda:%d", device->number);
    snprintf(info->model, sizeof info->model, "%s", device->model);
    info->number = device->number;
    info->rank_count = device->rank_count;
    info->block_count = device->resident_blocks[KERNEL_FUSED_FORWARD_F32] / device->rank_count;
    info->stream = device->stream;
}

static const char *link_to(int here, int there)
{
    int access = 0, atomics = 0;
    cudaDeviceCanAccessPeer(&access, here, there);
    cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, here, there);
    return !access ? "no access" : atomics ? "NVLink" : "PCIe";
}

int leat_device_describe(int number, char *text, size_t bytes)
{
    struct cudaDeviceProp properties;
    int count = 0;
    cudaError_t failed = cudaGetDeviceCount(&count);
    if (failed != cudaSuccess)
        return leat_fail(-ENODEV, "no GPU: CUDA says: %s", cudaGetErrorString(failed));
    if (number >= count)
        return leat_fail(-ENODEV, "this process sees %d GPUs", count);
    failed = cudaGetDeviceProperties(&properties, number);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "a GPU's properties");
    size_t used = (size_t)snprintf(text, bytes, "%s, %d multiprocessors, %.0f GiB, sm_%d%d",
                                   properties.name, properties.multiProcessorCount,
                                   (double)properties.totalGlobalMem * 0x1p-30, properties.major,
                                   properties.minor);
    for (int there = 0; there < count && used < bytes; there++)
        if (there != number)
            used += (size_t)snprintf(text + used, bytes - used, ", %s to cuda:%d",
                                     link_to(number, there), there);
    return 0;
}

// Another process may see other GPUs, and number them otherwise. -1: this one does not see it.
static int gpu_of(const struct cuda_device *device, int rank)
{
    const struct leat_job *job = device->base.job;
    if (job->segment->head->threads)
        return leat_cuda_number_of(job, rank);
    const struct gpu_card *card = &leat_arena_head(job, rank)->gpu;
    for (int number = 0; number < device->id_count; number++)
        if (__atomic_load_n(&card->there, __ATOMIC_ACQUIRE) &&
            !memcmp(device->ids[number], card->id, LEAT_GPU_BYTES))
            return number;
    return -1;
}

// NVLink or PCIe is told apart by whether atomics work from GPU to GPU: over NVLink they do.
static int can_store(const struct device *base, int rank, char reason[LEAT_REASON])
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    const char *whose = base->job->segment->head->threads ? "" : ", another process's";
    int there = gpu_of(device, rank), access = 0, rating = 0;
    if (there == device->number) {
        snprintf(reason, LEAT_REASON, "memory of the same GPU%s", whose);
        return 0;
    }
    if (there < 0) {
        snprintf(
            reason, LEAT_REASON,
            "this process does not see rank %d's GPU; make CUDA_VISIBLE_DEVICES show both, and "
            "choose by LEAT_DEVICE",
            rank);
        return -EHOSTUNREACH;
    }
    cudaDeviceCanAccessPeer(&access, device->number, there);
    if (!access) {
        snprintf(reason, LEAT_REASON,
                 "GPU %d has no access to GPU %d: no NVLink, and PCIe between them is off",
                 device->number, there);
        return -EHOSTUNREACH;
    }
    cudaDeviceGetP2PAttribute(&rating, cudaDevP2PAttrPerformanceRank, device->number, there);
    snprintf(reason, LEAT_REASON, "GPU %d to GPU %d by %s (performance rank %d)%s", device->number,
             there, link_to(device->number, there), rating, whose);
    return 0;
}

// ---- Copies between a memory's two sides ----

// The host's side is pageable, and a copy of that keeps CUDA busy until its turn has come: the
// stream is empty when it is enqueued.
static int copy_now(struct device *base, void *to, const void *from, size_t bytes)
{
    int error = leat_cuda_sync(base);
    if (!error && bytes)
        error = leat_cuda_put(base, to, from, bytes);
    return error || !bytes ? error : leat_cuda_sync(base);
}

static int cuda_publish(struct device *base, const struct device_memory *memory)
{
    return copy_now(base, memory->address, memory->host, memory->bytes);
}

static int cuda_fetch(struct device *base, const struct device_memory *memory)
{
    return copy_now(base, memory->host, memory->address, memory->bytes);
}

// ---- Opening ----

static void cuda_close(struct device *base)
{
    struct cuda_device *device = (struct cuda_device *)base;
    leat_cuda_watch_end(device);
    if (device->stream)
        leat_cuda_await(device);
    leat_cuda_copies_close(base, device->copies);
    leat_cuda_share_close(device);
    free(device->ids);
    device->ids = NULL;
    leat_cuda_leave(device);
}

static const struct device_ops cuda_ops = {.name = "cuda",
                                           .asynchronous = true,
                                           .packets = 65536,
                                           .resident_packets = 400000,
                                           .close = cuda_close,
                                           .info = cuda_info,
                                           .can_store = can_store,
                                           .alloc = leat_cuda_alloc,
                                           .free = leat_cuda_free,
                                           .publish = cuda_publish,
                                           .fetch = cuda_fetch,
                                           .region_alloc = leat_cuda_region_alloc,
                                           .region_free = leat_cuda_region_free,
                                           .share = &leat_cuda_share,
                                           .fail = leat_cuda_end_waits,
                                           .report_alloc = leat_cuda_report_alloc,
                                           .report_free = leat_cuda_report_free,
                                           .gang_join = leat_cuda_gang_join,
                                           .gang_leave = leat_cuda_gang_leave,
                                           .launch = leat_cuda_launch,
                                           .run = leat_cuda_run,
                                           .waits_open = leat_cuda_waits_open,
                                           .put = leat_cuda_put,
                                           .raise = leat_cuda_raise,
                                           .wait = leat_cuda_wait,
                                           .sync = leat_cuda_sync,
                                           .drain = leat_cuda_drain,
                                           .copies = &leat_copies_cuda};

static int check_number(const struct leat_job *job, int number)
{
    int count = 0;
    cudaError_t failed = cudaGetDeviceCount(&count);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "LEAT_DEVICE is cuda, but there is no GPU to use");
    if (number < 0 || number >= count)
        return leat_fail(-ENODEV, "LEAT_DEVICE is \"%s\": there is no GPU %d; this process sees %d",
                         job->config.device, number, count);
    return 0;
}

// Both ways, for all GPUs of the job: the first rank of a GPU does it, later ones find it done.
static int enable_access(const struct leat_job *job, const struct cuda_device *device)
{
    for (int rank = 0; rank < job->rank_count; rank++) {
        int there = leat_cuda_number_of(job, rank), access = 0;
        if (there == device->number)
            continue;
        cudaDeviceCanAccessPeer(&access, device->number, there);
        cudaError_t failed = access ? cudaDeviceEnablePeerAccess(there, 0) : cudaSuccess;
        if (failed == cudaErrorPeerAccessAlreadyEnabled)
            cudaGetLastError();
        else if (failed != cudaSuccess)
            return leat_cuda_fail(failed, "access from GPU to GPU");
    }
    return 0;
}

static int find_ids(struct cuda_device *device)
{
    const int count = device_count();
    device->ids = calloc((size_t)(count > 0 ? count : 1), sizeof *device->ids);
    if (!device->ids)
        return leat_fail(-ENOMEM, "no memory for the names of %d GPUs", count);
    for (int number = 0; number < count; number++) {
        struct cudaDeviceProp properties;
        cudaError_t failed = cudaGetDeviceProperties(&properties, number);
        if (failed != cudaSuccess)
            return leat_cuda_fail(failed, "a GPU's name");
        memcpy(device->ids[number], &properties.uuid, LEAT_GPU_BYTES);
    }
    device->id_count = count;
    return 0;
}

// What the job's other processes need to know of it.
static int show(struct cuda_device *device)
{
    struct gpu_card *card = &device->base.job->arena.head->gpu;
    int error = find_ids(device);
    if (!error)
        error = leat_cuda_make_release_stream(device);
    if (!error)
        error = leat_cuda_share_open(device, card);
    if (error)
        return error;
    memcpy(card->id, device->ids[device->number], LEAT_GPU_BYTES);
    __atomic_store_n(&card->there, 1, __ATOMIC_RELEASE);
    return 0;
}

static int start(struct cuda_device *device)
{
    const struct leat_job *job = device->base.job;
    struct cudaDeviceProp properties;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    cudaError_t failed = cudaGetDeviceProperties(&properties, device->number);
    if (failed == cudaSuccess)
        failed = cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
    if (failed == cudaSuccess)
        failed = cudaEventCreateWithFlags(&device->event, cudaEventDisableTiming);
    if (failed != cudaSuccess)
        return leat_cuda_fail(failed, "opening the GPU");
    if (properties.major < 9)
        return leat_fail(
            -ENOTSUP, "GPU %d (%s) has compute capability %d.%d; this build is for 9.0 and later",
            device->number, properties.name, properties.major, properties.minor);
    snprintf(device->model, sizeof device->model, "%s", properties.name);
    device->multiprocessors = properties.multiProcessorCount;
    const bool threads = job->segment->head->threads;
    for (int rank = 0; threads && rank < job->rank_count; rank++)
        device->rank_count += leat_cuda_number_of(job, rank) == device->number;
    if (!threads)
        device->rank_count = 1;
    if (device->rank_count > CUDA_DOMAINS_MAX)
        return leat_fail(-E2BIG, "%d ranks share GPU %d; at most %d can run at once",
                         device->rank_count, device->number, CUDA_DOMAINS_MAX);
    leat_cuda_find_operations(device);
    if (threads)
        error = enable_access(job, device);
    else if (job->rank_count > 1)
        error = show(device);
    if (!error)
        error = leat_cuda_load_kernels(device);
    return error ? error : leat_cuda_copies_open(&device->base, &device->copies);
}

int leat_device_cuda_open(struct leat_job *job, struct device **opened)
{
    // As many queues on a GPU as ranks may share it: in one queue a stream's wait holds up what
    // another stream would raise. CUDA reads it when it first looks for GPUs.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    int number = leat_cuda_number_of(job, job->rank);
    int error = check_number(job, number);
    if (error)
        return error;
    struct cuda_device *device = calloc(1, sizeof *device);
    if (!device)
        return leat_fail(-ENOMEM, "no memory for a CUDA device");
    device->base = (struct device){.ops = &cuda_ops, .job = job};
    device->number = number;
    error = start(device);
    if (error) {
        cuda_close(&device->base);
        return error;
    }
    leat_cuda_enter(device);
    *opened = &device->base;
    return 0;
}
