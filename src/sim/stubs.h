/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One real endpoint, rank 0, among stubs: what its engine holds in a job of any size.
 *
 * A stub is a peer of a few bytes that speaks the wire protocol (msg/wire.h) as a peer in an
 * all-to-all does: it takes messages by queue and by ring and accepts them, answers each, offers a
 * ring after promote_after messages, uses the ring that it is offered, and gives it back when
 * asked. Every message is checked: its place in the order, its size, and that its bytes say where
 * it comes from and goes to.
 *
 * Advantage: the memory of an endpoint among a hundred thousand peers is measured on the real
 * engine in a second. Disadvantage: stubs send small messages only, never hold anything back, and
 * have no time.
 */
#ifndef LEAT_SIM_STUBS_H
#define LEAT_SIM_STUBS_H

#include "leat/msg.h"
#include "msg/engine.h"

struct sim_stubs_result {
    uint64_t start_bytes;            /* held once the engine and its communicator are there */
    uint64_t used_bytes, peak_bytes; /* after the last all-to-all, and at most */
    uint64_t ring_bytes, peer_bytes; /* of used: rings, and records of peers */
    uint64_t resident_bytes;         /* by which the process grew, stubs and data left out */
    uint64_t budget_bytes;
    uint64_t messages;            /* that stubs have checked */
    uint32_t rings_in, rings_out; /* offered by rank 0, and to it, at the end */
    uint32_t ring_each_bytes;
};

/* `rounds` all-to-alls of `bytes` (at most MSG_SLOT_PAYLOAD) for each pair. -EINVAL, -ENOMEM,
 * -ENOBUFS (the budget), -EPROTO: something came that may not come, or wrong bytes. */
int sim_stubs_run(const struct msg_tuning *tuning, int rank_count, uint64_t bytes, int rounds,
                  struct sim_stubs_result *result);

#endif
