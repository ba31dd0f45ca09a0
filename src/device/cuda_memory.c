// SPDX-License-Identifier: Apache-2.0
// Memory of the CUDA device, and what of it is held back.
//
// Algorithm: giving memory back makes CUDA wait for the GPU with locks held that every other call
// of the process needs. Ranks of one process wait for one another, on the GPU too, so that one that
// frees would keep the others from what it waits for, and for ever. So with several ranks in a
// process nothing is given back before the last of them closes; what they free is taken again
// (held.h) once every rank's stream has been seen empty after it. Advantage: freeing waits for
// nobody. Disadvantage: what leat does not need at the moment others cannot have.

#include "device/cuda.h"

#include "core/job.h"
#include "device/kernel.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_shared(const struct cuda_device *device)
{
    const struct leat_job *job = device->base.job;
    return job->segment->head->threads && job->rank_count > 1;
}

void leat_cuda_await(const struct cuda_device *device)
{
    const uint64_t until_ns = leat_now_ns() + device->base.job->timeout_ns + 1000000000;
    while (cudaStreamQuery(device->stream) == cudaErrorNotReady && leat_now_ns() < until_ns)
        sched_yield();
}

// ---- Who has seen what ----

uint64_t leat_cuda_frees(const struct cuda_device *device)
{
    return __atomic_load_n(&device->base.job->segment->gpu_memory.frees, __ATOMIC_ACQUIRE);
}

void leat_cuda_saw_idle(struct cuda_device *device, uint64_t frees)
{
    __atomic_store_n(&device->seen_idle, frees, __ATOMIC_RELEASE);
}

static uint64_t all_have_seen(const struct segment *segment)
{
    uint64_t least = UINT64_MAX - 1;
    for (const struct cuda_device *device = segment->gpus_open; device; device = device->next) {
        uint64_t seen = __atomic_load_n(&device->seen_idle, __ATOMIC_ACQUIRE);
        least = seen < least ? seen : least;
    }
    return least;
}

// ---- Taking ----

static void give_back(struct held_block *block)
{
    for (struct held_block *next; block; block = next) {
        next = block->next;
        if (block->place == HELD_PINNED)
            cudaFreeHost(block->address);
        else if (cudaSetDevice(block->place) == cudaSuccess)
            cudaFree(block->address);
        free(block);
    }
}

static cudaError_t ask_cuda(int place, uint64_t bytes, void **address)
{
    cudaError_t failed =
        place == HELD_PINNED
            ? cudaHostAlloc(address, bytes, cudaHostAllocPortable | cudaHostAllocMapped)
            : cudaMalloc(address, bytes);
    if (failed != cudaSuccess)
        cudaGetLastError();
    return failed;
}

// There is none left: what is held goes back first, which may take until other ranks' kernels end.
static cudaError_t ask_again(struct cuda_device *device, int place, uint64_t bytes, void **address)
{
    struct segment *segment = device->base.job->segment;
    leat_cuda_drain(&device->base, device->base.job->config.timeout_s);
    pthread_mutex_lock(&segment->lock);
    struct held_block *held = held_cut(&segment->gpu_memory, all_have_seen(segment), false);
    pthread_mutex_unlock(&segment->lock);
    give_back(held);
    cudaSetDevice(device->number);
    return ask_cuda(place, bytes, address);
}

static int take_new(struct cuda_device *device, int place, uint64_t bytes, const char *what,
                    void **address)
{
    struct segment *segment = device->base.job->segment;
    struct held_block *block = malloc(sizeof *block);
    if (!block)
        return leat_fail(-ENOMEM, "no memory to note %s", what);
    *block = (struct held_block){.place = place, .bytes = bytes};
    cudaError_t failed = ask_cuda(place, bytes, &block->address);
    if (failed == cudaErrorMemoryAllocation)
        failed = ask_again(device, place, bytes, &block->address);
    if (failed != cudaSuccess) {
        free(block);
        return leat_cuda_fail(failed, what);
    }
    *address = block->address;
    pthread_mutex_lock(&segment->lock);
    held_add(&segment->gpu_memory, block);
    pthread_mutex_unlock(&segment->lock);
    return 0;
}

static int take(struct cuda_device *device, int place, uint64_t bytes, const char *what,
                void **address)
{
    struct segment *segment = device->base.job->segment;
    const uint64_t rounded = held_round(bytes);
    int error = leat_cuda_use(device);
    if (error)
        return error;
    pthread_mutex_lock(&segment->lock);
    *address = held_take(&segment->gpu_memory, place, rounded, all_have_seen(segment));
    pthread_mutex_unlock(&segment->lock);
    return *address ? 0 : take_new(device, place, rounded, what, address);
}

// A kernel of a peer that does not know yet that this rank has closed may store to what it frees
// now, however often its stream is seen empty.
static void let_go(struct cuda_device *device, void *address)
{
    struct segment *segment = device->base.job->segment;
    const struct rank_record *record = leat_rank_record(device->base.job, device->base.job->rank);
    struct held_block *block = NULL;
    if (!address || leat_cuda_use(device))
        return;
    if (!is_shared(device))
        leat_cuda_await(device);
    pthread_mutex_lock(&segment->lock);
    if (is_shared(device))
        held_free(&segment->gpu_memory, address,
                  __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == RANK_CLOSED);
    else
        block = held_remove(&segment->gpu_memory, address);
    pthread_mutex_unlock(&segment->lock);
    if (block)
        block->next = NULL;
    give_back(block);
}

// ---- The device's operations ----

int leat_cuda_region_alloc(struct device *base, uint64_t bytes, void **address)
{
    struct cuda_device *device = (struct cuda_device *)base;
    char what[96];
    void *made = NULL;
    snprintf(what, sizeof what, "%llu bytes of GPU %d's memory", (unsigned long long)bytes,
             device->number);
    int error = device->shared ? leat_cuda_share_alloc(device, bytes, what, &made)
                               : take(device, device->number, bytes, what, &made);
    if (error)
        return error;
    cudaError_t failed = cudaMemsetAsync(made, 0, bytes ? bytes : 1, device->stream);
    error = failed == cudaSuccess ? leat_cuda_sync(base) : leat_cuda_fail(failed, what);
    if (error) {
        leat_cuda_region_free(base, made);
        return error;
    }
    *address = made;
    return 0;
}

void leat_cuda_region_free(struct device *base, void *address)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (device->shared)
        leat_cuda_share_free(device, address);
    else
        let_go(device, address);
}

int leat_cuda_alloc(struct device *base, size_t bytes, struct device_memory *memory)
{
    struct device_memory made = {.bytes = bytes, .host = calloc(1, bytes ? bytes : 1)};
    if (!made.host)
        return leat_fail(-ENOMEM, "no memory for %zu bytes of a GPU's arguments", bytes);
    int error = leat_cuda_region_alloc(base, bytes, &made.address);
    if (error) {
        free(made.host);
        return error;
    }
    *memory = made;
    return 0;
}

void leat_cuda_free(struct device *base, struct device_memory *memory)
{
    let_go((struct cuda_device *)base, memory->address);
    free(memory->host);
    *memory = (struct device_memory){0};
}

int leat_cuda_report_alloc(struct device *base, size_t bytes, void **address)
{
    void *made = NULL;
    int error = take((struct cuda_device *)base, HELD_PINNED, bytes,
                     "pinned memory for what a GPU reports", &made);
    if (error || !made)
        return error;
    memset(made, 0, bytes);
    *address = made;
    return 0;
}

void leat_cuda_report_free(struct device *base, void *address)
{
    let_go((struct cuda_device *)base, address);
}

// ---- The ranks of a process ----

void leat_cuda_enter(struct cuda_device *device)
{
    struct segment *segment = device->base.job->segment;
    pthread_mutex_lock(&segment->lock);
    device->next = segment->gpus_open;
    segment->gpus_open = device;
    device->counted = true;
    pthread_mutex_unlock(&segment->lock);
}

static void destroy(struct cuda_device *device)
{
    if (cudaSetDevice(device->number) == cudaSuccess) {
        if (device->event)
            cudaEventDestroy(device->event);
        if (device->stream)
            cudaStreamDestroy(device->stream);
        if (device->release_stream)
            cudaStreamDestroy(device->release_stream);
    }
    free(device);
}

void leat_cuda_leave(struct cuda_device *device)
{
    struct segment *segment = device->base.job->segment;
    struct cuda_device *closed = NULL;
    struct held_block *held = NULL;
    if (!device->counted) {
        destroy(device);
        return;
    }
    pthread_mutex_lock(&segment->lock);
    struct cuda_device **link = &segment->gpus_open;
    while (*link != device)
        link = &(*link)->next;
    *link = device->next;
    device->next = segment->gpus_closed;
    segment->gpus_closed = device;
    if (!segment->gpus_open) {
        closed = segment->gpus_closed;
        segment->gpus_closed = NULL;
        held = held_cut(&segment->gpu_memory, 0, true);
    }
    pthread_mutex_unlock(&segment->lock);
    give_back(held);
    for (struct cuda_device *next; closed; closed = next) {
        next = closed->next;
        destroy(closed);
    }
}
