/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message network of a job on several hosts: the segment to ranks of this host, libfabric to
 * the others.
 */
#ifndef LEAT_TRANSPORT_MIXED_MSG_H
#define LEAT_TRANSPORT_MIXED_MSG_H

#include "core/job.h"
#include "msg/net.h"

/* Whether messages to the rank, another one, go by the segment in such a network. */
static inline bool leat_mixed_near(const struct leat_job *job, int rank)
{
    return !leat_rank_away(job, rank);
}

/* Opens both ends; `near_bytes` and `far_bytes` are what their queues may take. As
 * leat_shm_msg_open and leat_fabric_msg_open. */
int leat_mixed_msg_open(struct leat_job *job, uint64_t near_bytes, uint64_t far_bytes,
                        struct msg_net **net);

#endif
