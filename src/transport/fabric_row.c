// SPDX-License-Identifier: Apache-2.0
// Transport fabric: ranks of other hosts, by libfabric. Its row of the table; messages go by
// fabric_msg.c.
//
// Advantage: `leat path` can say why a rank elsewhere is reached or not. Disadvantage: regions of
// other hosts have no path yet.

#include "transport/fabric.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>

static int can_reach(const struct leat_job *job, int peer, enum region_kind kind,
                     char reason[LEAT_REASON])
{
    (void)job, (void)peer, (void)kind;
    snprintf(reason, LEAT_REASON, "messages only, no regions");
    return -EHOSTUNREACH;
}

const struct transport leat_transport_fabric = {
    .name = "fabric", .missing = fabric_absent, .can_reach = can_reach};
