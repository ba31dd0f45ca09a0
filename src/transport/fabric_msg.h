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

/* For a sleep elsewhere, right after a progress that found nothing: 0 and the descriptor, always
 * the same, that can be read once something may have come; -EAGAIN: something has; -ENOTSUP: the
 * provider has none. */
int leat_fabric_msg_watch(struct msg_net *net, int *fd);

/* A token of this network for memory from alloc, as the segment's network has it; others stay. */
struct msg_token leat_fabric_msg_plain(const struct msg_token *token);

#endif
