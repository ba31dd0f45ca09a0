// SPDX-License-Identifier: Apache-2.0
// The table of transports, best first. A constant table and no registration at start-up:
// constructors vanish in static links.

#include "transport/transport.h"

static const struct transport peer = {.name = "peer", .absent = "this build has no CUDA device"};
static const struct transport nvshmem = {.name = "nvshmem", .absent = "this build has no NVSHMEM"};
static const struct transport fabric = {.name = "fabric", .absent = "this build has no libfabric"};
static const struct transport hostcopy = {
    .name = "hostcopy", .absent = "only for device memory, and this build has no CUDA device"};

const struct transport *const leat_transports[ROW_COUNT] = {
    [ROW_SELF] = &leat_transport_self, [ROW_PEER] = &peer,     [ROW_SHM] = &leat_transport_shm,
    [ROW_NVSHMEM] = &nvshmem,          [ROW_FABRIC] = &fabric, [ROW_HOSTCOPY] = &hostcopy,
};
