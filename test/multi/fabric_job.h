/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of a root whose ranks reach each other by libfabric: in two networks, or on this host.
 *
 * Advantage: each test says only what is its own. Disadvantage: needs networks.h and root_job.h
 * before it.
 */
#ifndef LEAT_TEST_MULTI_FABRIC_JOB_H
#define LEAT_TEST_MULTI_FABRIC_JOB_H

#include "multi/networks.h"
#include "multi/root_job.h"
#include "transport/fabric.h"

static void need_fabric(void)
{
    if (!fabric_absent())
        return;
    print_message("%s\n", fabric_absent());
    skip();
}

// Starts ranks 0 to count - 1 in the networks `where` says (the root listens on `port`), or, where
// it is NULL, all on this host; `paths` NULL: LEAT_PATHS is not set.
static void fabric_start(struct started *ranks, const int *where, int count, int port,
                         const char *paths, const char *timeout_s, const char *role)
{
    if (!where)
        port = root_free_port();
    for (int rank = 0; rank < count; rank++)
        root_start(&ranks[rank],
                   &(struct root_rank_options){.port = port,
                                               .address = where ? "10.77.0.1" : NULL,
                                               .network = where ? network[where[rank]] : 0,
                                               .paths = paths,
                                               .rank = rank,
                                               .size = count,
                                               .timeout_s = timeout_s,
                                               .role = role});
}

#endif
