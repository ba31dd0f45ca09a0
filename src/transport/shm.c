// SPDX-License-Identifier: Apache-2.0
// Transport shm: ranks of one host.
//
// Algorithm: allocated regions lie in the job's segment, which every rank has mapped, so a peer's
// region is an address and a copy is a memcpy. Registered memory is not in the segment: between
// threads it is an address too; between processes the kernel copies it (cross-memory attach), where
// it lets us. Advantage: no copy in between, no system call for allocated regions. Disadvantage:
// cross-memory attach cannot raise signals or take stores from kernels, so registered memory serves
// leat_copy only.

#define _GNU_SOURCE
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

// The kernel asks for the right only when there are bytes to move, so one byte is read.
static int attach_permitted(const struct leat_job *job, int peer)
{
    const struct rank_record *record = leat_rank_record(job, peer);
    int pid = __atomic_load_n(&record->pid, __ATOMIC_RELAXED);
    char byte;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)(uintptr_t)__atomic_load_n(&record->probe, __ATOMIC_ACQUIRE), 1};
    if (pid <= 0 || !there.iov_base)
        return -ENOTCONN;
    return process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 ? -errno : 0;
}

static int can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON])
{
    bool threads = job->segment->head->threads;
    if (leat_on_device(kind)) {
        snprintf(reason, LEAT_REASON, "a GPU's memory, which is in no segment");
        return -EHOSTUNREACH;
    }
    if (leat_rank_away(job, peer)) {
        snprintf(reason, LEAT_REASON, "the rank is on another host, or in other namespaces");
        return -EHOSTUNREACH;
    }
    if (kind == REGION_ARENA || threads) {
        snprintf(reason, LEAT_REASON,
                 threads ? "a thread of this process, one mapping"
                         : "a process of this host, mapped segment");
        return 0;
    }
    int error = attach_permitted(job, peer);
    if (error)
        snprintf(reason, LEAT_REASON,
                 "registered memory of another process, and cross-memory attach says: %s",
                 strerror(-error));
    else
        snprintf(reason, LEAT_REASON,
                 "registered memory, by cross-memory attach; kernels by the proxy thread");
    return error;
}

static void *map(const struct leat_region *region)
{
    if (region->kind == REGION_ARENA)
        return (char *)leat_arena_head(region->job, region->owner) + region->remote;
    return region->job->segment->head->threads ? (void *)(uintptr_t)region->remote : NULL;
}

typedef ssize_t (*attach_call)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                               unsigned long, unsigned long);

static int attach(attach_call call, const struct leat_region *region, uint64_t offset, void *here,
                  uint64_t bytes)
{
    int pid = leat_rank_record(region->job, region->owner)->pid;
    uint64_t done = 0;
    while (done < bytes) {
        // The kernel moves at most about 2 GiB a call and may stop short.
        struct iovec local = {(char *)here + done, bytes - done};
        struct iovec remote = {(void *)(uintptr_t)(region->remote + offset + done), bytes - done};
        ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return leat_fail(moved < 0 ? (errno == ESRCH ? -ECONNRESET : -errno) : -EFAULT,
                             "cross-memory attach to rank %d (process %d) stopped after %llu of "
                             "%llu bytes: %s",
                             region->owner, pid, (unsigned long long)done,
                             (unsigned long long)bytes,
                             moved < 0 ? strerror(errno) : "the memory is not mapped there");
        done += (uint64_t)moved;
    }
    return 0;
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    if (!to->address)
        return attach(process_vm_writev, to, offset, (void *)(uintptr_t)from, bytes);
    memcpy((char *)to->address + offset, from, bytes);
    return 0;
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    if (!from->address)
        return attach(process_vm_readv, from, offset, to, bytes);
    memcpy(to, (const char *)from->address + offset, bytes);
    return 0;
}

static int put_signal(struct leat_job *job, const struct put_signal *order)
{
    (void)job;
    int error = order->to ? put(order->to, order->offset, order->from, order->bytes) : 0;
    if (!error)
        leat_signal_raise(
            (struct leat_signal *)(void *)((char *)order->signals->address + order->signal_offset),
            order->value);
    return error;
}

const struct transport leat_transport_shm = {.name = "shm",
                                             .can_reach = can_reach,
                                             .map = map,
                                             .put = put,
                                             .get = get,
                                             .put_signal = put_signal};
