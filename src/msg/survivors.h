/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the living ranks of a communicator agree on.
 *
 * Advantage: it fits into one packet. Disadvantage: so the number of ranks has a bound.
 */
#ifndef LEAT_MSG_SURVIVORS_H
#define LEAT_MSG_SURVIVORS_H

#include "msg/engine.h"

#define MSG_SURVIVORS_BYTES 448
#define MSG_SURVIVORS_MOST  (8 * MSG_SURVIVORS_BYTES)

struct msg_proposal {
    uint32_t leader, version; /* the ballot; version 0: no proposal */
    uint32_t context, unused;
    uint64_t temp_bytes;                 /* 0: a member has no room */
    uint8_t member[MSG_SURVIVORS_BYTES]; /* a bit a rank of the parent */
};

_Static_assert(sizeof(struct msg_proposal) <= MSG_PACKET_PAYLOAD, "a proposal is a packet");

static inline bool msg_proposal_has(const struct msg_proposal *proposal, int rank)
{
    return proposal->member[rank / 8] >> rank % 8 & 1;
}

/* Collective over the ranks that live. 0, -ENOBUFS, -E2BIG; -ECONNRESET: the others go on without
 * this rank. */
int msg_survivors_agree(leat_comm *parent, uint64_t temp_bytes, struct msg_proposal *decided);

/* Says on stderr whom the agreement waits for, and since when. */
void msg_agreement_report(const struct msg_engine *engine, double seconds);

#endif
