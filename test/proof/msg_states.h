/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a few message engines through every order of events that makes a difference.
 *
 * Algorithm: depth-first search over which call, progress or delivery comes next, the engines being
 * the code that ships, over the network in memory without a clock. A way is repeated from the start
 * to come back to a branch. Since an engine is a function of what it has seen, a state is told by
 * what each rank has seen so far, what it would see next, and what is under way. What is delivered
 * to a rank matters only at its next progress, so deliveries to a rank come together, just before
 * it. Advantage: no model that could differ from the code. Disadvantage: engines that came by
 * different histories into the same state are told apart, so few messages make many states.
 */
#ifndef LEAT_TEST_PROOF_MSG_STATES_H
#define LEAT_TEST_PROOF_MSG_STATES_H

#include "msg/engine.h"
#include "support/memory_net.h"

#define SCRIPT_OPS   8
#define SCRIPT_RANKS 3

enum script_kind {
    OP_NONE,
    OP_SEND,
    OP_SEND_SYNCHRONOUS,
    OP_RECEIVE,
    OP_CANCEL, /* the op number `tag` of the same rank, if it is not matched yet */
    OP_REVOKE, /* asks `peer` for its ring back, if it has one */
    OP_PROBE   /* looks once; what is found is taken out and received */
};

struct script_op {
    enum script_kind kind;
    int peer, tag;
    uint64_t bytes;
    bool first; /* done before the search begins */
};

struct script {
    const char *name;
    int rank_count;
    struct memory_options net;
    struct msg_tuning tuning;
    bool no_room;  /* nothing that is unexpected can be kept */
    bool may_stay; /* receives may find no message */
    struct script_op op[SCRIPT_RANKS][SCRIPT_OPS];
};

struct search_result {
    uint64_t states, steps, runs, ends;
    size_t longest;
    bool whole;           /* every order was tried */
    char violation[2048]; /* empty: none */
};

/* All orders, up to `state_limit` states. */
void search_script(const struct script *script, uint64_t state_limit, struct search_result *result);
/* `walks` ways at random, each to its end. */
void walk_script(const struct script *script, uint64_t seed, uint64_t walks,
                 struct search_result *result);

#endif
