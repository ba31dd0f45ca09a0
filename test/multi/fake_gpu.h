/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU without a GPU: the CPU device with memory of its own for regions, which other processes can
 * map by descriptors only, as they can a GPU's.
 *
 * Each allocation is a memfd. Advantage: descriptors, serials, doors and what can go wrong with
 * them run anywhere, and the CPU's kernels store to what was mapped. Disadvantage: a kernel here
 * sees by itself that a peer has died.
 */
#ifndef LEAT_TEST_MULTI_FAKE_GPU_H
#define LEAT_TEST_MULTI_FAKE_GPU_H

#include "core/job.h"
#include "core/region.h"
#include "device/copies.h"
#include "device/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAKE_BLOCKS 256

struct fake_block {
    void *address;
    uint64_t bytes;
    int fd;
    uint32_t serial;
};

struct fake_gpu {
    struct device_ops ops;
    struct copies_ops copies;
    struct fake_block block[FAKE_BLOCKS];
    uint32_t serials;
    int given, taken, dropped, failed; /* how often */
    const char *callers;               /* memory that passes for the caller's own on this GPU */
    uint64_t callers_bytes;
    pthread_mutex_t lock; /* of the blocks, which the thread at the door asks for too */
};

static struct fake_gpu fake_gpu = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* one a process */

static struct fake_block *fake_find(const void *address)
{
    for (int i = 0; i < FAKE_BLOCKS; i++)
        if (fake_gpu.block[i].address == address)
            return &fake_gpu.block[i];
    return NULL;
}

static int fake_make(uint64_t bytes, void **address)
{
    struct fake_block *block = fake_find(NULL);
    if (!block)
        return leat_fail(-ENOMEM, "the fake GPU is full");
    *block = (struct fake_block){.bytes = bytes ? (bytes + 4095) / 4096 * 4096 : 4096,
                                 .fd = memfd_create("fake", MFD_CLOEXEC)};
    if (block->fd < 0 || ftruncate(block->fd, (off_t)block->bytes))
        return leat_fail(-errno, "memfd_create");
    block->address = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    block->serial = ++fake_gpu.serials;
    *address = block->address;
    return block->address == MAP_FAILED ? leat_fail(-ENOMEM, "mmap") : 0;
}

static int fake_alloc(struct device *device, uint64_t bytes, void **address)
{
    pthread_mutex_lock(&fake_gpu.lock);
    int error = fake_make(bytes, address);
    pthread_mutex_unlock(&fake_gpu.lock);
    (void)device;
    return error;
}
static void fake_free(struct device *device, void *address)
{
    pthread_mutex_lock(&fake_gpu.lock);
    struct fake_block *block = fake_find(address);
    munmap(block->address, block->bytes);
    close(block->fd);
    *block = (struct fake_block){0};
    pthread_mutex_unlock(&fake_gpu.lock);
    leat_count(&device->job->arena.head->gpu.given_back, 1);
}

static uint32_t fake_serial(struct device *device, const void *address)
{
    (void)device;
    pthread_mutex_lock(&fake_gpu.lock);
    const struct fake_block *block = fake_find(address);
    uint32_t serial = block ? block->serial : 0;
    pthread_mutex_unlock(&fake_gpu.lock);
    return serial;
}

static int fake_give(struct device *device, const void *address, int *fd, uint64_t *bytes)
{
    (void)device;
    pthread_mutex_lock(&fake_gpu.lock);
    const struct fake_block *block = fake_find(address);
    if (block) {
        *fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 3);
        *bytes = block->bytes;
        fake_gpu.given++;
    }
    pthread_mutex_unlock(&fake_gpu.lock);
    if (!block)
        return leat_fail(-EINVAL, "the fake GPU has nothing there");
    return *fd < 0 ? leat_fail(-errno, "F_DUPFD") : 0;
}

static int fake_take(struct device *device, int fd, uint64_t bytes, void **address)
{
    (void)device;
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made == MAP_FAILED)
        return leat_fail(-errno, "mmap");
    *address = made;
    fake_gpu.taken++;
    return 0;
}

static void fake_drop(struct device *device, void *address, uint64_t bytes)
{
    (void)device;
    munmap(address, bytes);
    fake_gpu.dropped++;
}

static int fake_store(const struct device *device, int rank, char reason[LEAT_REASON])
{
    (void)device;
    snprintf(reason, LEAT_REASON, "a fake GPU's memory, of rank %d", rank);
    return 0;
}

static int fake_what(struct device *device, const void *address, uint64_t bytes,
                     struct copies_found *found)
{
    (void)device;
    (void)bytes;
    const char *at = address;
    bool callers = at >= fake_gpu.callers && at < fake_gpu.callers + fake_gpu.callers_bytes;
    *found = callers ? (struct copies_found){COPIES_DEVICE, 0, "the caller"}
                     : (struct copies_found){COPIES_HOST, -1, "the host"};
    return 0;
}

static int fake_fail(struct device *device, struct k_error *error)
{
    (void)device;
    __atomic_store_n((uint32_t *)(void *)error, 1, __ATOMIC_RELEASE); // `failed`
    fake_gpu.failed++;
    return 0;
}

/* In place of the job's CPU device. GPUs of one number are the same. */
static void fake_open(leat_job *job, int number, bool exports)
{
    static const struct share_ops share = {
        .serial = fake_serial, .give = fake_give, .take = fake_take, .drop = fake_drop};
    struct gpu_card *card = &job->arena.head->gpu;
    fake_gpu.ops = *job->device->ops;
    fake_gpu.copies = *job->device->ops->copies;
    fake_gpu.copies.find = fake_what;
    fake_gpu.ops.copies = &fake_gpu.copies;
    fake_gpu.ops.region_alloc = fake_alloc;
    fake_gpu.ops.region_free = fake_free;
    fake_gpu.ops.can_store = fake_store;
    fake_gpu.ops.share = &share;
    fake_gpu.ops.fail = fake_fail;
    job->device->ops = &fake_gpu.ops;
    card->id[0] = (uint8_t)(number + 1);
    card->exports = exports;
    snprintf(card->why, sizeof card->why, "the fake GPU gives nothing away");
    __atomic_store_n(&card->there, 1, __ATOMIC_RELEASE);
}

#endif
