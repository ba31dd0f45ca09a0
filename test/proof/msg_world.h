/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of a script in one state, and what can happen to them next: see msg_states.h.
 *
 * Advantage: the search knows nothing of messages. Disadvantage: a state can be made only by going
 * there from the start.
 */
#ifndef LEAT_TEST_PROOF_MSG_WORLD_H
#define LEAT_TEST_PROOF_MSG_WORLD_H

#include "proof/msg_states.h"

#define WORLD_BYTES 2048 /* the largest message */

struct call {
    leat_request request; /* first */
    leat_status probed;
    bool begun, receiving;
    uint32_t order;    /* of the calls of its rank */
    uint32_t sequence; /* send: among those to that peer */
    char memory[WORLD_BYTES + 16];
};

struct world {
    const struct script *script;
    struct memory_fabric *fabric;
    struct msg_engine *engine[SCRIPT_RANKS];
    leat_comm comm[SCRIPT_RANKS];
    struct call *call; /* [SCRIPT_RANKS * SCRIPT_OPS] */
    int next_op[SCRIPT_RANKS];
    uint64_t seen[SCRIPT_RANKS]; /* hash of what the rank has seen */
    int batch;                   /* the rank that deliveries are made to; -1: none */
    bool batch_packets;
    uint64_t batch_last;
    char violation[1024];
};

struct world *world_new(const struct script *script);
void world_free(struct world *world);

/* How many things could happen next; some of them change nothing. */
size_t world_choices(const struct world *world);
/* Does one; false: nothing has changed. */
bool world_do(struct world *world, size_t choice);
void world_describe(const struct world *world, size_t choice, char *text, size_t room);
uint64_t world_hash(const struct world *world);
/* Nothing can happen any more: everything has to be finished and right. */
void world_end(struct world *world);

#endif
