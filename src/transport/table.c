// SPDX-License-Identifier: Apache-2.0
// The table of transports, best first. A constant table and no registration at start-up:
// constructors vanish in static links.

#include "transport/transport.h"

const struct transport *const leat_transports[ROW_COUNT] = {
    [ROW_SELF] = &leat_transport_self,     [ROW_PEER] = &leat_transport_peer,
    [ROW_SHM] = &leat_transport_shm,       [ROW_NVSHMEM] = &leat_transport_nvshmem,
    [ROW_FABRIC] = &leat_transport_fabric, [ROW_HOSTCOPY] = &leat_transport_hostcopy,
};
