/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message network between hosts: libfabric under the message engine.
 */
#ifndef LEAT_TRANSPORT_FABRIC_MSG_H
#define LEAT_TRANSPORT_FABRIC_MSG_H

#include "core/job.h"
#include "msg/net.h"

/*
 * Opens this rank's end and publishes where it is; no other rank takes part, and nobody is
 * connected. Buffers for what arrives and for what is sent take `bytes` at most, and
 * net->queue_bytes says what they do take. -ENOTSUP no libfabric, no provider, or a start that has
 * no way to tell others where the end is; -ENOMEM.
 */
int leat_fabric_msg_open(struct leat_job *job, uint64_t bytes, struct msg_net **net);

#endif
