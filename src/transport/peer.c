// SPDX-License-Identifier: Apache-2.0
// Transports peer and hostcopy: memory of GPUs, between ranks that are threads of one process.
//
// Algorithm: a GPU's memory has one address in the whole process. Where the two GPUs have access to
// each other (NVLink, or PCIe), kernels and copy engines use it as it stands; where they have not,
// copies still find their way through the host, and stores from kernels do not. Advantage: no
// handles, no mapping. Disadvantage: one process, until memory is exported to others.

#include "device/ops.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>

static int of_threads(const struct leat_job *job, enum region_kind kind, char reason[LEAT_REASON])
{
    if (kind != REGION_DEVICE) {
        snprintf(reason, LEAT_REASON, "the host's memory, not a GPU's");
        return -EHOSTUNREACH;
    }
    if (!job->segment->head->threads) {
        snprintf(reason, LEAT_REASON, "memory of another process's GPU cannot be mapped yet");
        return -EHOSTUNREACH;
    }
    return 0;
}

static int peer_can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                          char reason[LEAT_REASON])
{
    int error = of_threads(job, kind, reason);
    return error ? error : job->device->ops->can_store(job->device, peer, reason);
}

static int host_can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                          char reason[LEAT_REASON])
{
    (void)peer;
    int error = of_threads(job, kind, reason);
    if (!error)
        snprintf(reason, LEAT_REASON, "copies between GPUs without access to each other");
    return error;
}

static void *peer_map(const struct leat_region *region)
{
    return (void *)(uintptr_t)region->remote;
}

static void *host_map(const struct leat_region *region)
{
    (void)region;
    return NULL;
}

static int put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    return leat_device_copy(to->job, (char *)(uintptr_t)to->remote + offset, from, bytes);
}

static int get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    return leat_device_copy(from->job, to, (const char *)(uintptr_t)from->remote + offset, bytes);
}

#ifdef LEAT_HAVE_CUDA
#define ABSENT NULL
#else
#define ABSENT "this build has no CUDA device"
#endif

const struct transport leat_transport_peer = {.name = "peer",
                                              .absent = ABSENT,
                                              .can_reach = peer_can_reach,
                                              .map = peer_map,
                                              .put = put,
                                              .get = get};
const struct transport leat_transport_hostcopy = {.name = "hostcopy",
                                                  .absent = ABSENT,
                                                  .can_reach = host_can_reach,
                                                  .map = host_map,
                                                  .put = put,
                                                  .get = get};
