// SPDX-License-Identifier: Apache-2.0
// What kind of memory an address is, by CUDA's own word, and how far it goes.
//
// Algorithm: the driver is asked for all attributes of an address in one call: whose it is, who
// made it, where it ends. Neighbouring pieces that were mapped one by one are followed to the
// buffer's end. Advantage: nothing is remembered, so memory freed and made again at the same
// address is seen for what it is; and one call takes 0.15 us, or 0.3 where the memory is no GPU's,
// while one for a single attribute takes 0.1, and 0.9 to say that there is none. Disadvantage: that
// is asked for every buffer of every call.

#include "device/cuda_copy.h"

#include "core/error.h"
#include "core/signal.h"
#include "device/cuda.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define SHARED_BLOCK (UINT64_C(2) << 20)

#define SETTLE_NS UINT64_C(1000000000)

// What the driver says of an address; zeros of what it does not know.
struct memory_at {
    uint32_t type, managed; /* CUmemorytype; 0: none of CUDA's */
    int gpu;
    uint32_t shareable, settled; /* IS_LEGACY_CUDA_IPC_CAPABLE, SYNC_MEMOPS */
    uint64_t pool;
    uint64_t mapped, mapped_bytes, ranged, ranged_bytes;
};

static int look_at(const struct cuda_copies *copies, uint64_t at, struct memory_at *memory)
{
    static const CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,       CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,       CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,  CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUpointer_attribute attributes[sizeof asked / sizeof asked[0]];
    *memory = (struct memory_at){0};
    void *values[] = {&memory->type,        &memory->managed,      &memory->gpu,
                      &memory->shareable,   &memory->settled,      &memory->pool,
                      &memory->mapped,      &memory->mapped_bytes, &memory->ranged,
                      &memory->ranged_bytes};
    _Static_assert(sizeof values / sizeof values[0] == sizeof asked / sizeof asked[0],
                   "a place for each");
    memcpy(attributes, asked, sizeof asked);
    if (!copies->attributes)
        return leat_fail(-ENOTSUP, "this driver does not tell what a buffer is");
    CUresult failed =
        copies->attributes(sizeof asked / sizeof asked[0], attributes, values, (CUdeviceptr)at);
    return failed == CUDA_SUCCESS ? 0
                                  : leat_fail(-EIO, "what the buffer at %p is: CUDA says error %d",
                                              (void *)(uintptr_t)at, (int)failed);
}

static enum copies_memory kind_of(const struct memory_at *memory)
{
    if (memory->managed)
        return COPIES_MANAGED;
    return memory->type == CU_MEMORYTYPE_DEVICE ? COPIES_DEVICE
           : memory->type == CU_MEMORYTYPE_HOST ? COPIES_PINNED
                                                : COPIES_HOST;
}

static const char *who_made(const struct memory_at *memory)
{
    if (memory->pool)
        return "cudaMallocAsync";
    return memory->shareable & 1 ? "cudaMalloc" : "cuMemMap";
}

// Where what lies at `at` ends; 0: the driver does not tell.
static uint64_t end_of(const struct memory_at *memory, uint64_t at)
{
    uint64_t mapped = memory->mapped + memory->mapped_bytes;
    uint64_t ranged = memory->ranged + memory->ranged_bytes;
    mapped = memory->mapped && mapped > at ? mapped : 0;
    ranged = memory->ranged && ranged > at ? ranged : 0;
    // A mapping may be a pool's, with other allocations behind this one; a range may be reserved
    // only.
    return !mapped || (ranged && ranged < mapped) ? ranged : mapped;
}

// What cudaMalloc makes its GPU can use.
static int check_access(const struct cuda_copies *copies, uint64_t at,
                        const struct copies_found *found)
{
    uint32_t flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    cudaSetDevice(found->gpu); // access is told for the current GPU
    if (!copies->attribute || copies->attribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                                                (CUdeviceptr)at) != CUDA_SUCCESS)
        return 0;
    if ((flags & 3u) == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE)
        return 0;
    return leat_fail(-ENOTSUP,
                     "memory made by %s at %p: GPU %d, on which it lies, %s; give it access by "
                     "cuMemSetAccess or cudaMemPoolSetAccess",
                     found->made_by, (void *)(uintptr_t)at, found->gpu,
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
static int check_extent(const struct cuda_copies *copies, const struct memory_at *first,
                        uint64_t at, uint64_t bytes, const struct copies_found *found)
{
    const uint64_t begin = at, end = at + bytes;
    struct memory_at there = *first;
    for (;;) {
        uint64_t next = end_of(&there, at);
        if (!next || next >= end)
            return 0;
        at = next;
        int error = look_at(copies, at, &there);
        if (!error && in_pieces(found) && kind_of(&there) == found->kind &&
            there.gpu == found->gpu && end_of(&there, at) > at)
            continue;
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
static void settle(const struct cuda_copies *copies, const struct memory_at *memory, uint64_t at)
{
    const unsigned on = 1;
    if (!copies->set_attribute || memory->settled & 1)
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
    static const char *const makers[] = {[COPIES_HOST] = "the host",
                                         [COPIES_PINNED] = "cudaHostAlloc or cudaHostRegister",
                                         [COPIES_MANAGED] = "cudaMallocManaged"};
    const uint64_t at = (uint64_t)(uintptr_t)address;
    const struct cuda_device *device = (const struct cuda_device *)base;
    struct memory_at memory;
    int error = leat_cuda_use(device);
    if (!error)
        error = look_at(device->copies, at, &memory);
    if (error)
        return error;
    const enum copies_memory kind = kind_of(&memory);
    const bool on_host = kind == COPIES_HOST || kind == COPIES_PINNED;
    struct copies_found made = {kind, on_host ? -1 : memory.gpu,
                                kind == COPIES_DEVICE ? who_made(&memory) : makers[kind]};
    if (kind == COPIES_DEVICE) {
        error = in_pieces(&made) ? check_access(device->copies, at, &made) : 0;
        settle(device->copies, &memory, at);
    }
    if (!error && !on_host)
        error = check_extent(device->copies, &memory, at, bytes, &made);
    if (!error)
        *found = made;
    return error;
}

bool leat_cuda_on_gpu(struct device *base, const void *address)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    uint32_t type = 0, managed = 0;
    void *values[] = {&type, &managed};
    // Managed memory is of a device, too, and loads and stores of the host find it.
    return device->copies->attributes && !leat_cuda_use(device) &&
           device->copies->attributes(2, asked, values, (CUdeviceptr)(uintptr_t)address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE && !(managed & 1);
}

uint64_t leat_cuda_number(struct device *base, const void *address)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    uint64_t number = 0;
    if (leat_cuda_use(device) || !device->copies->attribute ||
        device->copies->attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                  (CUdeviceptr)(uintptr_t)address) != CUDA_SUCCESS)
        return 0;
    return number;
}

int leat_cuda_range(struct device *base, const void *address, uint64_t *start, uint64_t *bytes)
{
    const struct cuda_device *device = (const struct cuda_device *)base;
    struct memory_at memory;
    int error = leat_cuda_use(device);
    if (!error)
        error = look_at(device->copies, (uint64_t)(uintptr_t)address, &memory);
    if (error)
        return error;
    *start = memory.ranged;
    *bytes = memory.ranged_bytes;
    // Smaller allocations are cut out of blocks of this size, and others would map all of the
    // block, whatever else lies in it.
    bool whole = *start && *start % SHARED_BLOCK == 0 && *bytes >= SHARED_BLOCK;
    if (whole && memory.shareable & 1 && !memory.pool)
        return 0;
    return leat_fail(-ENOTSUP,
                     "%llu bytes made by %s at %p: other processes can map cudaMalloc's from 2 MiB "
                     "on",
                     (unsigned long long)*bytes, who_made(&memory), address);
}
