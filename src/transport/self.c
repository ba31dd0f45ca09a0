// SPDX-License-Identifier: Apache-2.0
// Transport self: this rank's own memory. A copy is a memcpy.

#include "device/ops.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON])
{
    (void)kind;
    bool own = peer == job->rank;
    snprintf(reason, LEAT_REASON, own ? "the rank's own memory" : "another rank's memory");
    return own ? 0 : -EHOSTUNREACH;
}

static void *map(const struct leat_region *region)
{
    if (region->kind != REGION_ARENA)
        return (void *)(uintptr_t)region->remote;
    return (char *)region->job->arena.head + region->remote;
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    if (leat_on_device(to->kind))
        return leat_device_copy(to->job, (char *)to->address + offset, from, bytes);
    memmove((char *)to->address + offset, from, bytes);
    return 0;
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    if (leat_on_device(from->kind))
        return leat_device_copy(from->job, to, (const char *)from->address + offset, bytes);
    memmove(to, (const char *)from->address + offset, bytes);
    return 0;
}

const struct transport leat_transport_self = {
    .name = "self", .can_reach = can_reach, .map = map, .put = put, .get = get};
