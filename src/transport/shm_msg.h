/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message network of one host: a queue a rank in its arena, memory that peers have mapped, and
 * cross-memory attach for what they have not.
 */
#ifndef LEAT_TRANSPORT_SHM_MSG_H
#define LEAT_TRANSPORT_SHM_MSG_H

#include "core/job.h"
#include "msg/net.h"

/* What a receive queue takes at least. */
uint64_t leat_shm_msg_least_bytes(void);
/* What a queue of that size takes in all, as net->queue_bytes says once it is open. */
uint64_t leat_shm_msg_queue_bytes(uint64_t queue_bytes);

/*
 * Opens this rank's end; no other rank takes part. `queue_bytes` is the most that the receive queue
 * may take; net->queue_bytes says what it takes. A rank that opens again after a close goes on with
 * the same queue, whatever its size; what it had not taken out before is dropped.
 * -EINVAL queue_bytes is less than the least; -EALREADY open already; -ENOMEM
 */
int leat_shm_msg_open(struct leat_job *job, uint64_t queue_bytes, struct msg_net **net);

#endif
