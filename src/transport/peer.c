// SPDX-License-Identifier: Apache-2.0
// Transports peer and hostcopy: memory of GPUs, between the ranks of one host.
//
// Algorithm: a GPU's memory has one address in a whole process; another process maps what its owner
// gives (import.c). Where the two GPUs have access to each other (NVLink, or PCIe), kernels and
// copy engines use it as it stands. Elsewhere copies go through the host: in a process CUDA does
// that by itself, between processes the owner's process has a part in it (door.h). Advantage: one
// address is all that kernels need. Disadvantage: what its owner has registered can only be copied.

#include "transport/door.h"

#include "device/copies.h"
#include "device/ops.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_process(const struct leat_job *job)
{
    return !job->segment->head->threads;
}

static int of_host(const struct leat_job *job, int peer, enum region_kind kind,
                   char reason[LEAT_REASON])
{
    if (!leat_on_device(kind)) {
        snprintf(reason, LEAT_REASON, "the host's memory, not a GPU's");
        return -EHOSTUNREACH;
    }
    if (is_process(job) && leat_rank_away(job, peer)) {
        snprintf(reason, LEAT_REASON, "the rank is on another host, or in other namespaces");
        return -EHOSTUNREACH;
    }
    return 0;
}

// Whether the peer's process can give it and this one take it.
static int can_map(const struct leat_job *job, int peer, enum region_kind kind,
                   char reason[LEAT_REASON])
{
    const struct gpu_card *card = &leat_arena_head(job, peer)->gpu;
    if (kind == REGION_DEVICE_REGISTERED)
        snprintf(reason, LEAT_REASON,
                 "another process's, registered: CUDA gives away only what is allocated for it; "
                 "use leat_region_alloc");
    else if (!__atomic_load_n(&card->there, __ATOMIC_ACQUIRE))
        snprintf(reason, LEAT_REASON, "the rank has no GPU, or has not opened the job yet");
    else if (!card->exports)
        snprintf(reason, LEAT_REASON, "%.*s", LEAT_REASON - 1, card->why);
    else if (!job->device->ops->share)
        snprintf(reason, LEAT_REASON, "this rank has no GPU to map it for");
    else
        return 0;
    return -EHOSTUNREACH;
}

static int peer_can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                          char reason[LEAT_REASON])
{
    int error = of_host(job, peer, kind, reason);
    if (!error && is_process(job))
        error = can_map(job, peer, kind, reason);
    return error ? error : job->device->ops->can_store(job->device, peer, reason);
}

static int host_can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                          char reason[LEAT_REASON])
{
    int error = of_host(job, peer, kind, reason);
    if (!error)
        snprintf(reason, LEAT_REASON,
                 is_process(job) ? "through the host's memory, the owner's process copies its part"
                                 : "copies between GPUs without access to each other");
    return error;
}

static int peer_attach(struct leat_region *view)
{
    return is_process(view->job) ? leat_import(view) : 0;
}

static void peer_detach(struct leat_region *view)
{
    leat_import_drop(view);
}

static void *peer_map(const struct leat_region *region)
{
    return is_process(region->job) ? leat_import_address(region)
                                   : (void *)(uintptr_t)region->remote;
}

static int host_attach(struct leat_region *view)
{
    return is_process(view->job) ? leat_door_stage(view->job) : 0;
}

static void *host_map(const struct leat_region *region)
{
    (void)region;
    return NULL;
}

// Where copies reach it.
static char *place(const struct leat_region *region)
{
    return region->address ? (char *)region->address : (char *)(uintptr_t)region->remote;
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    return leat_device_copy(to->job, place(to) + offset, from, bytes);
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    return leat_device_copy(from->job, to, place(from) + offset, bytes);
}

static int host_put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    return is_process(to->job) ? leat_door_put(to, offset, from, bytes)
                               : put(to, offset, from, bytes);
}

static int host_get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    return is_process(from->job) ? leat_door_get(to, from, offset, bytes)
                                 : get(to, from, offset, bytes);
}

// ---- Bytes and then a signal ----

static int bring(struct leat_job *job, struct copies_lane *lane, void *to, const void *from,
                 uint64_t bytes)
{
    const struct copies_ops *copies = job->device->ops->copies;
    if (!lane)
        return leat_device_copy(job, to, from, bytes);
    return bytes ? copies->copy(lane, to, from, bytes) : 0;
}

// The order's memory is used again as soon as this returns.
static int settle(struct leat_job *job, struct copies_lane *lane)
{
    const struct copies_ops *copies = job->device->ops->copies;
    int error = lane ? copies->mark(lane, 0) : 0;
    int passed = lane && !error ? copies->passed(lane, 0, true) : 0;
    return error ? error : passed < 0 ? passed : 0;
}

static int put_signal(struct leat_job *job, const struct put_signal *order)
{
    char *word = place(order->signals) + order->signal_offset;
    const bool by_copy = leat_on_device(order->signals->kind) && job->device->ops->asynchronous;
    int error = 0;
    if (order->to && order->bytes)
        error =
            bring(job, order->lane, place(order->to) + order->offset, order->from, order->bytes);
    if (!error && by_copy)
        error =
            bring(job, order->lane, word, order->value_pinned ? order->value_pinned : &order->value,
                  sizeof order->value);
    if (!error)
        error = settle(job, order->lane);
    if (!error && !by_copy)
        leat_signal_raise((struct leat_signal *)(void *)word, order->value);
    return error;
}

static int host_put_signal(struct leat_job *job, const struct put_signal *order)
{
    return is_process(job) ? leat_door_put_signal(job, order) : put_signal(job, order);
}

#ifdef LEAT_HAVE_CUDA
#define ABSENT NULL
#else
#define ABSENT "this build has no CUDA device"
#endif

const struct transport leat_transport_peer = {.name = "peer",
                                              .absent = ABSENT,
                                              .can_reach = peer_can_reach,
                                              .attach = peer_attach,
                                              .detach = peer_detach,
                                              .map = peer_map,
                                              .put = put,
                                              .get = get,
                                              .put_signal = put_signal};
const struct transport leat_transport_hostcopy = {.name = "hostcopy",
                                                  .absent = ABSENT,
                                                  .can_reach = host_can_reach,
                                                  .attach = host_attach,
                                                  .map = host_map,
                                                  .put = host_put,
                                                  .get = host_get,
                                                  .put_signal = host_put_signal};
