// SPDX-License-Identifier: Apache-2.0
// Transport fabric: ranks of other hosts, by libfabric. Its row of the table: regions are reached
// through their owner's service (far.h), messages go by fabric_msg.c.
//
// Advantage: a copy needs nothing of the owner's program. Disadvantage: a round trip a copy, and
// its bytes pass through messages on both sides.

#include "transport/fabric.h"
#include "transport/far.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>

static int can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON])
{
    const char *no = NULL;
    if (!far_reaches(job, peer))
        no = "the rank is on this host";
    else if (leat_on_device(kind))
        no = "a GPU's memory: from host memory only";
    else if (leat_rank_away(job, peer) && !job->tie)
        no = "nobody can tell where the rank is";
    snprintf(reason, LEAT_REASON, "%s",
             no                          ? no
             : leat_rank_away(job, peer) ? "a rank of another host, by libfabric"
                                         : "as LEAT_PATHS requires, by libfabric");
    return no ? -EHOSTUNREACH : 0;
}

static int transfer(const struct leat_region *region, enum far_verb verb, uint64_t offset,
                    void *local, uint64_t bytes)
{
    struct far_operation operation = {.verb = verb,
                                      .rank = region->owner,
                                      .key = leat_region_key(region),
                                      .offset = offset,
                                      .bytes = bytes,
                                      .local = local,
                                      .acknowledged = true};
    return far_do(region->job, &operation, verb == FAR_DO_PUT ? "copy to" : "copy from");
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    return transfer(to, FAR_DO_PUT, offset, (void *)(uintptr_t)from, bytes);
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    return transfer(from, FAR_DO_GET, offset, to, bytes);
}

// Done there in the order begun here, and begun as soon as the one before needs its bytes no more.
static int put_signal(struct leat_job *job, const struct put_signal *order)
{
    const struct leat_region *to = order->to ? order->to : order->signals;
    struct far_operation operation = {.verb = FAR_DO_PUT,
                                      .rank = to->owner,
                                      .key = leat_region_key(to),
                                      .offset = order->offset,
                                      .bytes = order->to ? order->bytes : 0,
                                      .local = (void *)(uintptr_t)order->from,
                                      .signal = leat_region_key(order->signals),
                                      .signal_offset = order->signal_offset,
                                      .value = order->value};
    int error = far_begin(job, &operation);
    return error ? error
                 : far_wait(job, &operation, "a halo's values", leat_now_ns() + job->timeout_ns);
}

const struct transport leat_transport_fabric = {.name = "fabric",
                                                .missing = fabric_absent,
                                                .can_reach = can_reach,
                                                .put = put,
                                                .get = get,
                                                .put_signal = put_signal};
