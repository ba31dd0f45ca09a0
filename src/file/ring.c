// SPDX-License-Identifier: Apache-2.0
// io_uring by its system calls.
//
// Algorithm: the kernel and the thread share two rings, of requests and of results, each with a
// head and a tail that one side moves and the other reads. Advantage: no library to be found at
// build or run time. Disadvantage: every feature beyond reads and writes would have to be written
// here.

#define _GNU_SOURCE
#include "file/ring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

struct uring {
    int fd;
    char *requests, *results; /* the two rings; one mapping where the kernel does it so */
    size_t requests_bytes, results_bytes, entries_bytes;
    struct io_uring_sqe *entry;
    uint32_t *request_tail, *request_index, request_mask;
    uint32_t *result_head, *result_tail, result_mask;
    struct io_uring_cqe *result;
    unsigned queued; /* not yet handed over */
};

static void *map(int fd, size_t bytes, uint64_t what)
{
    void *address =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)what);
    return address == MAP_FAILED ? NULL : address;
}

static int map_rings(struct uring *ring, const struct io_uring_params *given)
{
    ring->requests_bytes = given->sq_off.array + given->sq_entries * sizeof(uint32_t);
    ring->results_bytes = given->cq_off.cqes + given->cq_entries * sizeof(struct io_uring_cqe);
    bool single = given->features & IORING_FEAT_SINGLE_MMAP;
    if (single && ring->results_bytes > ring->requests_bytes)
        ring->requests_bytes = ring->results_bytes;
    ring->requests = map(ring->fd, ring->requests_bytes, IORING_OFF_SQ_RING);
    ring->results =
        single ? ring->requests : map(ring->fd, ring->results_bytes, IORING_OFF_CQ_RING);
    ring->entries_bytes = given->sq_entries * sizeof *ring->entry;
    ring->entry = map(ring->fd, ring->entries_bytes, IORING_OFF_SQES);
    if (!ring->requests || !ring->results || !ring->entry)
        return -ENOMEM;
    ring->request_tail = (void *)(ring->requests + given->sq_off.tail);
    ring->request_index = (void *)(ring->requests + given->sq_off.array);
    memcpy(&ring->request_mask, ring->requests + given->sq_off.ring_mask, sizeof(uint32_t));
    ring->result_head = (void *)(ring->results + given->cq_off.head);
    ring->result_tail = (void *)(ring->results + given->cq_off.tail);
    memcpy(&ring->result_mask, ring->results + given->cq_off.ring_mask, sizeof(uint32_t));
    ring->result = (void *)(ring->results + given->cq_off.cqes);
    return 0;
}

int uring_open(unsigned depth, struct uring **opened)
{
    struct uring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    // Results are looked for by one thread, when it wants them: no interrupts of it in between.
    struct io_uring_params given = {.flags =
                                        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    long fd = syscall(SYS_io_uring_setup, depth, &given);
    if (fd < 0 && errno == EINVAL) {
        given = (struct io_uring_params){0};
        fd = syscall(SYS_io_uring_setup, depth, &given);
    }
    int error = fd < 0 ? -errno : 0;
    ring->fd = (int)fd;
    if (!error)
        error = map_rings(ring, &given);
    if (error)
        uring_close(ring);
    else
        *opened = ring;
    return error;
}

void uring_close(struct uring *ring)
{
    if (!ring)
        return;
    if (ring->entry)
        munmap(ring->entry, ring->entries_bytes);
    if (ring->results && ring->results != ring->requests)
        munmap(ring->results, ring->results_bytes);
    if (ring->requests)
        munmap(ring->requests, ring->requests_bytes);
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring);
}

void uring_push(struct uring *ring, bool write, int fd, void *address, uint32_t bytes,
                uint64_t offset, uint64_t user)
{
    uint32_t tail = *ring->request_tail, index = tail & ring->request_mask;
    struct io_uring_sqe *entry = &ring->entry[index];
    memset(entry, 0, sizeof *entry);
    entry->opcode = write ? IORING_OP_WRITE : IORING_OP_READ;
    entry->fd = fd;
    entry->addr = (uint64_t)(uintptr_t)address;
    entry->len = bytes;
    entry->off = offset;
    entry->user_data = user;
    ring->request_index[index] = index;
    __atomic_store_n(ring->request_tail, tail + 1, __ATOMIC_RELEASE);
    ring->queued++;
}

int uring_enter(struct uring *ring, unsigned wanted)
{
    for (;;) {
        long taken = syscall(SYS_io_uring_enter, ring->fd, ring->queued, wanted,
                             IORING_ENTER_GETEVENTS, NULL, 0);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0)
            return -errno;
        ring->queued -= (unsigned)taken;
        if (!ring->queued)
            return 0;
    }
}

bool uring_pop(struct uring *ring, uint64_t *user, int *result)
{
    uint32_t head = *ring->result_head;
    if (head == __atomic_load_n(ring->result_tail, __ATOMIC_ACQUIRE))
        return false;
    const struct io_uring_cqe *found = &ring->result[head & ring->result_mask];
    *user = found->user_data;
    *result = found->res;
    __atomic_store_n(ring->result_head, head + 1, __ATOMIC_RELEASE);
    return true;
}
