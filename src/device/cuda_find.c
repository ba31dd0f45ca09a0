// SPDX-License-Identifier: Apache-2.0
// What kind of memory an address is, by CUDA's own word, and how far it goes.
//
// Algorithm: the runtime tells whose it is; the driver's attributes tell who made it and where it
// ends. Neighbouring pieces that were mapped one by one are followed to the buffer's end.
// Advantage: nothing is remembered, so memory freed and made again at the same address is seen for
// what it is. Disadvantage: a few driver calls for each buffer of a GPU, some tenths of a
// microsecond.

#include "device/cuda_copy.h"

#include "core/error.h"
#include "core/signal.h"
#include "device/cuda.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define SHARED_BLOCK (UINT64_C(2) << 20)

#define SETTLE_NS UINT64_C(1000000000)

static uint64_t ask(cuda_pointer_attribute *operation, CUpointer_attribute attribute, uint64_t at)
{
    // Attributes have 4 or 8 bytes.
    uint64_t value = 0;
    return operation && operation(&value, attribute, (CUdeviceptr)at) == CUDA_SUCCESS ? value : 0;
}

static const char *who_made(cuda_pointer_attribute *operation, uint64_t at)
{
    if (ask(operation, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at))
        return "cudaMallocAsync";
    if (ask(operation, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) & 1)
        return "cudaMalloc";
    return operation ? "cuMemMap" : "CUDA";
}

// Where what lies at `at` ends; 0: the driver does not tell.
static uint64_t end_of(cuda_pointer_attribute *operation, uint64_t at)
{
    uint64_t start = ask(operation, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
    uint64_t bytes = ask(operation, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at);
    uint64_t first = ask(operation, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    uint64_t size = ask(operation, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    uint64_t mapped = start && start + bytes > at ? start + bytes : 0;
    uint64_t ranged = first && first + size > at ? first + size : 0;
    // A mapping may be a pool's, with other allocations behind this one; a range may be reserved
    // only.
    return !mapped || (ranged && ranged < mapped) ? ranged : mapped;
}

static int check_access(cuda_pointer_attribute *operation, uint64_t at, int gpu,
                        const char *made_by)
{
    uint32_t flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (!operation ||
        operation(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, (CUdeviceptr)at) != CUDA_SUCCESS)
        return 0;
    if ((flags & 3u) == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE)
        return 0;
    return leat_fail(-ENOTSUP,
                     "memory made by %s at %p: GPU %d, on which it lies, %s; give it access by "
                     "cuMemSetAccess or cudaMemPoolSetAccess",
                     made_by, (void *)(uintptr_t)at, gpu,
                     flags & 1u ? "may only read it" : "has no access to it");
}

// A buffer may consist of pieces: what is mapped one by one, and a pool's, which maps its memory
// so.
static bool in_pieces(const struct copies_found *found)
{
    return !strcmp(found->made_by, "cuMemMap") || !strcmp(found->made_by, "cudaMallocAsync");
}

// All of the buffer is of one kind and on one GPU. Allocations of cudaMalloc that happen to lie
// side by side are not one; those of a pool cannot be told apart.
static int check_extent(cuda_pointer_attribute *operation, uint64_t at, uint64_t bytes,
                        const struct copies_found *found, enum cudaMemoryType type)
{
    const uint64_t begin = at, end = at + bytes;
    for (;;) {
        uint64_t next = end_of(operation, at);
        if (!next || next >= end)
            return 0;
        at = next;
        struct cudaPointerAttributes there;
        cudaError_t failed = cudaPointerGetAttributes(&there, (void *)(uintptr_t)at);
        if (in_pieces(found) && failed == cudaSuccess && there.type == type &&
            there.device == found->gpu && end_of(operation, at) > at)
            continue;
        cudaGetLastError();
        return leat_fail(
            -ERANGE,
            "a buffer of %llu bytes at %p: memory made by %s on GPU %d ends %llu bytes "
            "after that",
            (unsigned long long)bytes, (void *)(uintptr_t)begin, found->made_by, found->gpu,
            (unsigned long long)(at - begin));
    }
}

// cudaMemcpy from pageable memory may come back before its last bytes have come to the GPU, and a
// copy by another stream would overtake them. From now on it does not for this allocation (what
// SYNC_MEMOPS is for); what is under way is waited for, once, but not for ever: a kernel of the
// caller's may be waiting for us.
static void settle(const struct cuda_copies *copies, uint64_t at)
{
    const unsigned on = 1;
    if (!copies->set_attribute || ask(copies->attribute, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) & 1)
        return;
    if (copies->set_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)at))
        return;
    const uint64_t until_ns = leat_now_ns() + SETTLE_NS;
    while (cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady && leat_now_ns() < until_ns)
        sched_yield();
    cudaGetLastError();
}

int leat_cuda_find(struct device *base, const void *address, uint64_t bytes,
                   struct copies_found *found)
{
    const uint64_t at = (uint64_t)(uintptr_t)address;
    const struct cuda_device *device = (const struct cuda_device *)base;
    cuda_pointer_attribute *operation = device->copies->attribute;
    struct cudaPointerAttributes what;
    struct copies_found made = {COPIES_HOST, -1, "the host"};
    int error = leat_cuda_use(device);
    if (error)
        return error;
    cudaError_t failed = cudaPointerGetAttributes(&what, address);
    if (failed == cudaErrorInvalidValue) {
        cudaGetLastError();
        what.type = cudaMemoryTypeUnregistered;
    } else if (failed != cudaSuccess) {
        return leat_cuda_fail(failed, "what a buffer is");
    }
    if (what.type == cudaMemoryTypeUnregistered) {
        *found = made;
        return 0;
    }
    if (what.type == cudaMemoryTypeHost) {
        made = (struct copies_found){COPIES_PINNED, -1, "cudaHostAlloc or cudaHostRegister"};
    } else if (what.type == cudaMemoryTypeManaged) {
        made = (struct copies_found){COPIES_MANAGED, what.device, "cudaMallocManaged"};
    } else {
        made = (struct copies_found){COPIES_DEVICE, what.device, who_made(operation, at)};
        cudaSetDevice(what.device); // access is told for the current GPU
        error = check_access(operation, at, what.device, made.made_by);
        settle(device->copies, at);
    }
    if (!error && what.type != cudaMemoryTypeHost)
        error = check_extent(operation, at, bytes, &made, what.type);
    if (!error)
        *found = made;
    return error;
}

bool leat_cuda_on_gpu(struct device *base, const void *address)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    const uint64_t at = (uint64_t)(uintptr_t)address;
    // Managed memory is of a device, too, and loads and stores of the host find it.
    return !leat_cuda_use(device) &&
           ask(device->copies->attribute, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ==
               CU_MEMORYTYPE_DEVICE &&
           !(ask(device->copies->attribute, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) & 1);
}

uint64_t leat_cuda_number(struct device *base, const void *address)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    const uint64_t at = (uint64_t)(uintptr_t)address;
    return leat_cuda_use(device)
               ? 0
               : ask(device->copies->attribute, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
}

int leat_cuda_range(struct device *base, const void *address, uint64_t *start, uint64_t *bytes)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    cuda_pointer_attribute *operation = device->copies->attribute;
    const uint64_t at = (uint64_t)(uintptr_t)address;
    int error = leat_cuda_use(device);
    if (error)
        return error;
    *start = ask(operation, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    *bytes = ask(operation, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    // Smaller allocations are cut out of blocks of this size, and others would map all of the
    // block, whatever else lies in it.
    bool whole = *start && *start % SHARED_BLOCK == 0 && *bytes >= SHARED_BLOCK;
    if (whole && ask(operation, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) & 1 &&
        !ask(operation, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at))
        return 0;
    return leat_fail(-ENOTSUP,
                     "%llu bytes made by %s at %p: other processes can map cudaMalloc's from 2 MiB "
                     "on",
                     (unsigned long long)*bytes, who_made(operation, at), address);
}
