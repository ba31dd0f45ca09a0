// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that other processes can map.
//
// Algorithm: an allocation is made by the driver's virtual memory calls, for which it makes a
// descriptor on demand; whoever gets that maps the same memory, with access for its own GPU.
// Allocations that are freed are kept up to a limit and taken again, as kernels of others may have
// them mapped, and making one takes long. Advantage: neither side needs the other's address space
// or its rights, and the memory lives until the last has let go of it. Disadvantage: it comes in
// pieces of 2 MiB.
//
// Where the driver does not do this, all its memory is cudaMalloc's and `why` tells.

#include "device/cuda.h"

#include "core/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP_EACH_BYTES (UINT64_C(64) << 20) /* of those freed */
#define KEEP_ALL_BYTES  (UINT64_C(256) << 20)

#define POSIX_DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/* The driver's, which is not linked. */
struct driver {
    CUresult (*get_error)(CUresult error, const char **text);
    CUresult (*get_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
    CUresult (*granularity)(size_t *bytes, const CUmemAllocationProp *properties,
                            CUmemAllocationGranularity_flags option);
    CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags);
    CUresult (*release)(CUmemGenericAllocationHandle handle);
    CUresult (*reserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                        unsigned long long flags);
    CUresult (*unreserve)(CUdeviceptr address, size_t bytes);
    CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags);
    CUresult (*unmap)(CUdeviceptr address, size_t bytes);
    CUresult (*set_access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count);
    CUresult (*give)(void *descriptor, CUmemGenericAllocationHandle handle,
                     CUmemAllocationHandleType type, unsigned long long flags);
    CUresult (*take)(CUmemGenericAllocationHandle *handle, void *descriptor,
                     CUmemAllocationHandleType type);
};

struct block {
    struct block *next;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    uint64_t bytes;
    uint32_t serial;
    bool used;
};

struct cuda_shared {
    struct driver driver;
    CUmemAllocationProp properties;
    size_t granularity;
    pthread_mutex_t lock; /* of the rest */
    struct block *blocks;
    uint32_t serials;
};

// ---- The driver ----

static bool find_driver(struct driver *driver)
{
    return leat_cuda_driver("cuGetErrorName", 12000, &driver->get_error) &&
           leat_cuda_driver("cuDeviceGetAttribute", 12000, &driver->get_attribute) &&
           leat_cuda_driver("cuMemGetAllocationGranularity", 12000, &driver->granularity) &&
           leat_cuda_driver("cuMemCreate", 12000, &driver->create) &&
           leat_cuda_driver("cuMemRelease", 12000, &driver->release) &&
           leat_cuda_driver("cuMemAddressReserve", 12000, &driver->reserve) &&
           leat_cuda_driver("cuMemAddressFree", 12000, &driver->unreserve) &&
           leat_cuda_driver("cuMemMap", 12000, &driver->map) &&
           leat_cuda_driver("cuMemUnmap", 12000, &driver->unmap) &&
           leat_cuda_driver("cuMemSetAccess", 12000, &driver->set_access) &&
           leat_cuda_driver("cuMemExportToShareableHandle", 12000, &driver->give) &&
           leat_cuda_driver("cuMemImportFromShareableHandle", 12000, &driver->take);
}

static const char *name_of(const struct driver *driver, CUresult failed)
{
    const char *name = NULL;
    return driver->get_error(failed, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

static int fail(const struct cuda_shared *shared, CUresult failed, const char *what)
{
    return leat_fail(failed == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s: CUDA says: %s", what,
                     name_of(&shared->driver, failed));
}

static bool has(const struct driver *driver, CUdevice_attribute attribute, int number)
{
    int value = 0;
    return driver->get_attribute(&value, attribute, number) == CUDA_SUCCESS && value;
}

// ---- Mapping ----

static CUresult map_at(const struct cuda_shared *shared, CUmemGenericAllocationHandle handle,
                       uint64_t bytes, CUdeviceptr *address)
{
    const struct driver *driver = &shared->driver;
    const CUmemAccessDesc access = {.location = shared->properties.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult failed = driver->reserve(address, bytes, 0, 0, 0);
    if (failed != CUDA_SUCCESS)
        return failed;
    failed = driver->map(*address, bytes, 0, handle, 0);
    if (failed == CUDA_SUCCESS) {
        failed = driver->set_access(*address, bytes, &access, 1);
        if (failed != CUDA_SUCCESS)
            driver->unmap(*address, bytes);
    }
    if (failed != CUDA_SUCCESS)
        driver->unreserve(*address, bytes);
    return failed;
}

static void unmap(const struct cuda_shared *shared, CUdeviceptr address, uint64_t bytes)
{
    shared->driver.unmap(address, bytes);
    shared->driver.unreserve(address, bytes);
}

// ---- Own memory ----

static void give_back(struct cuda_device *device, struct block *block)
{
    struct cuda_shared *shared = device->shared;
    unmap(shared, block->address, block->bytes);
    shared->driver.release(block->handle);
    free(block);
    leat_count(&device->base.job->arena.head->gpu.given_back, 1);
}

// Of those that nobody uses: all, or what is above the limits.
static void trim(struct cuda_device *device, bool all)
{
    struct cuda_shared *shared = device->shared;
    struct block *over = NULL;
    uint64_t kept = 0;
    pthread_mutex_lock(&shared->lock);
    for (struct block **link = &shared->blocks; *link;) {
        struct block *block = *link;
        if (!block->used)
            kept += block->bytes;
        if (block->used || (!all && block->bytes <= KEEP_EACH_BYTES && kept <= KEEP_ALL_BYTES)) {
            link = &block->next;
            continue;
        }
        kept -= block->bytes;
        *link = block->next;
        block->next = over;
        over = block;
    }
    pthread_mutex_unlock(&shared->lock);
    for (struct block *next; over; over = next) {
        next = over->next;
        give_back(device, over);
    }
}

static struct block *take_kept(struct cuda_shared *shared, uint64_t bytes)
{
    struct block *best = NULL;
    pthread_mutex_lock(&shared->lock);
    for (struct block *block = shared->blocks; block; block = block->next)
        if (!block->used && block->bytes >= bytes && block->bytes <= 2 * bytes &&
            (!best || block->bytes < best->bytes))
            best = block;
    if (best)
        best->used = true;
    pthread_mutex_unlock(&shared->lock);
    return best;
}

static int make(struct cuda_device *device, uint64_t bytes, const char *what, struct block **made)
{
    struct cuda_shared *shared = device->shared;
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return leat_fail(-ENOMEM, "no memory to note %s", what);
    CUresult failed = shared->driver.create(&block->handle, bytes, &shared->properties, 0);
    if (failed == CUDA_ERROR_OUT_OF_MEMORY) {
        trim(device, true);
        failed = shared->driver.create(&block->handle, bytes, &shared->properties, 0);
    }
    if (failed == CUDA_SUCCESS) {
        failed = map_at(shared, block->handle, bytes, &block->address);
        if (failed != CUDA_SUCCESS)
            shared->driver.release(block->handle);
    }
    if (failed != CUDA_SUCCESS) {
        free(block);
        return fail(shared, failed, what);
    }
    block->bytes = bytes;
    block->used = true;
    pthread_mutex_lock(&shared->lock);
    block->serial = ++shared->serials;
    block->next = shared->blocks;
    shared->blocks = block;
    pthread_mutex_unlock(&shared->lock);
    *made = block;
    return 0;
}

int leat_cuda_share_alloc(struct cuda_device *device, uint64_t bytes, const char *what,
                          void **address)
{
    struct cuda_shared *shared = device->shared;
    const uint64_t grain = shared->granularity;
    if (bytes > UINT64_MAX - grain)
        return leat_fail(-ENOMEM, "%s: more than there is", what);
    const uint64_t rounded = bytes ? (bytes + grain - 1) / grain * grain : grain;
    int error = leat_cuda_use(device);
    struct block *block = error ? NULL : take_kept(shared, rounded);
    if (!error && !block)
        error = make(device, rounded, what, &block);
    if (error)
        return error;
    *address = (void *)(uintptr_t)block->address;
    return 0;
}

// With the lock held.
static struct block *find_block(const struct cuda_shared *shared, const void *address)
{
    struct block *block = shared->blocks;
    while (block && (!block->used || block->address != (CUdeviceptr)(uintptr_t)address))
        block = block->next;
    return block;
}

void leat_cuda_share_free(struct cuda_device *device, void *address)
{
    struct cuda_shared *shared = device->shared;
    if (!address || leat_cuda_use(device))
        return;
    leat_cuda_await(device);
    pthread_mutex_lock(&shared->lock);
    struct block *block = find_block(shared, address);
    if (block)
        block->used = false;
    pthread_mutex_unlock(&shared->lock);
    trim(device, false);
}

// ---- The device's operations ----

static uint32_t serial(struct device *base, const void *address)
{
    struct cuda_shared *shared = ((struct cuda_device *)base)->shared;
    if (!shared)
        return 0;
    pthread_mutex_lock(&shared->lock);
    const struct block *block = find_block(shared, address);
    uint32_t found = block ? block->serial : 0;
    pthread_mutex_unlock(&shared->lock);
    return found;
}

static int give(struct device *base, const void *address, int *fd, uint64_t *bytes)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct cuda_shared *shared = device->shared;
    int error = leat_cuda_use(device);
    if (!error && !shared)
        error = leat_fail(-ENOTSUP, "%s", base->job->arena.head->gpu.why);
    if (error)
        return error;
    pthread_mutex_lock(&shared->lock);
    const struct block *block = find_block(shared, address);
    if (!block) {
        error = leat_fail(-EINVAL, "no allocation of leat's begins there");
    } else {
        int made = -1;
        CUresult failed = shared->driver.give(&made, block->handle, POSIX_DESCRIPTOR, 0);
        if (failed == CUDA_SUCCESS) {
            *fd = made;
            *bytes = block->bytes;
        } else {
            error = fail(shared, failed, "a descriptor of a GPU's memory");
        }
    }
    pthread_mutex_unlock(&shared->lock);
    return error;
}

static int take(struct device *base, int fd, uint64_t bytes, void **address)
{
    struct cuda_device *device = (struct cuda_device *)base;
    const struct cuda_shared *shared = device->shared;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr made = 0;
    int error = leat_cuda_use(device);
    if (!error && !shared)
        error = leat_fail(-ENOTSUP, "%s", base->job->arena.head->gpu.why);
    if (error)
        return error;
    CUresult failed = shared->driver.take(&handle, (void *)(intptr_t)fd, POSIX_DESCRIPTOR);
    if (failed != CUDA_SUCCESS)
        return fail(shared, failed, "the descriptor of another process's GPU memory");
    failed = map_at(shared, handle, bytes, &made);
    shared->driver.release(handle); // the mapping holds it
    if (failed != CUDA_SUCCESS)
        return fail(shared, failed, "another process's GPU memory");
    *address = (void *)(uintptr_t)made;
    return 0;
}

static void drop(struct device *base, void *address, uint64_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (leat_cuda_use(device))
        return;
    leat_cuda_await(device);
    unmap(device->shared, (CUdeviceptr)(uintptr_t)address, bytes);
}

const struct share_ops leat_cuda_share = {
    .serial = serial, .give = give, .take = take, .drop = drop};

// ---- Opening and closing ----

// Some drivers and sandboxes have the calls and refuse to make a descriptor.
static CUresult try_out(const struct cuda_shared *shared)
{
    const struct driver *driver = &shared->driver;
    CUmemGenericAllocationHandle handle, again;
    int fd = -1;
    CUresult failed = driver->create(&handle, shared->granularity, &shared->properties, 0);
    if (failed != CUDA_SUCCESS)
        return failed;
    failed = driver->give(&fd, handle, POSIX_DESCRIPTOR, 0);
    if (failed == CUDA_SUCCESS) {
        failed = driver->take(&again, (void *)(intptr_t)fd, POSIX_DESCRIPTOR);
        if (failed == CUDA_SUCCESS)
            driver->release(again);
        close(fd);
    }
    driver->release(handle);
    return failed;
}

static int refuse(struct gpu_card *card, struct cuda_shared *shared, const char *why,
                  const char *detail)
{
    snprintf(card->why, sizeof card->why, "%s%s", why, detail);
    free(shared);
    return 0;
}

int leat_cuda_share_open(struct cuda_device *device, struct gpu_card *card)
{
    struct cuda_shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return leat_fail(-ENOMEM, "no memory to note memory of GPUs");
    const int number = device->number;
    if (!find_driver(&shared->driver))
        return refuse(card, shared, "the driver has no virtual memory calls", "");
    if (!has(&shared->driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, number) ||
        !has(&shared->driver, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
             number))
        return refuse(card, shared, "the GPU's memory cannot be given away by descriptors", "");
    shared->properties =
        (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .requestedHandleTypes = POSIX_DESCRIPTOR,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = number}};
    CUresult failed = shared->driver.granularity(&shared->granularity, &shared->properties,
                                                 CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (failed == CUDA_SUCCESS)
        failed = shared->granularity ? try_out(shared) : CUDA_ERROR_NOT_SUPPORTED;
    if (failed != CUDA_SUCCESS)
        return refuse(card, shared, "no descriptors of the GPU's memory: CUDA says: ",
                      name_of(&shared->driver, failed));
    pthread_mutex_init(&shared->lock, NULL);
    card->exports = 1;
    device->shared = shared;
    return 0;
}

void leat_cuda_share_close(struct cuda_device *device)
{
    struct cuda_shared *shared = device->shared;
    if (!shared)
        return;
    if (!leat_cuda_use(device))
        trim(device, true);
    for (struct block *block = shared->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    pthread_mutex_destroy(&shared->lock);
    free(shared);
    device->shared = NULL;
}
