/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many ranks in one thread: message engines over a network in memory, and what must become of each
 * message.
 *
 * Every payload is a pattern made from its source, destination, context, place in their order, and
 * size. A receive's buffer is poisoned and has guard bytes before, behind and, where it is strided,
 * between. What a receive ought to have matched is found afterwards by going through a rank's
 * receives and probes in the order of their posting: each must have got the oldest message of its
 * source that fits it and that nothing posted earlier took. Advantage: needs no model of timing,
 * so that any interleaving may be judged. Disadvantage: says nothing about order between sources.
 */
#ifndef LEAT_TEST_SUPPORT_CROWD_H
#define LEAT_TEST_SUPPORT_CROWD_H

#include "msg/engine.h"
#include "support/memory_net.h"

#define CROWD_CONTEXTS 2

struct crowd_sent {
    int tag;
    bool synchronous, taken;
    uint64_t bytes;
};

/* What went from one rank to another in one context, in order. */
struct crowd_log {
    int source, destination, context;
    struct crowd_sent *sent;
    uint32_t count, capacity, first_left; /* all before first_left are taken */
};

struct crowd_send {
    leat_request request; /* first */
    struct crowd_send *next;
    const struct crowd_log *log;
    uint32_t sequence;
    char *memory;
    leat_layout layout;
};

enum crowd_kind { CROWD_RECEIVE, CROWD_PROBE, CROWD_MATCHED };

struct crowd_receive {
    leat_request request; /* first */
    struct crowd_receive *next;
    enum crowd_kind kind;
    int from, tag, context;
    leat_data data;
    char *memory;
    leat_layout layout;
    leat_status probed; /* what a probe said */
};

struct crowd_rank {
    struct msg_engine *engine; /* opened at first use */
    uint64_t staging_bytes;    /* that it takes for good */
    leat_comm comm[CROWD_CONTEXTS];
    struct crowd_send *sends;                /* unfinished */
    struct crowd_receive *receive, **behind; /* in the order of posting, unjudged */
    uint64_t left; /* messages sent to it that no judged receive has taken */
    bool dead;
};

struct crowd {
    struct memory_fabric *fabric;
    struct msg_tuning tuning;
    uint64_t unexpected_bytes; /* not 0: bound of envelopes, and of bytes, at ranks opened later */
    struct crowd_rank *rank;
    int rank_count;
    int *open; /* [open_count], ranks with engines */
    int open_count;
    struct crowd_log **log; /* hash by source, destination, context */
    size_t log_count, log_capacity;
    uint64_t now_ns, random;
    int idle_sweeps; /* after which nothing will happen on its own */
    uint64_t judged, sent, too_small, probed, canceled; /* so far */
    char failure[512];                                  /* the first one */
};

/* The smallest budget that an engine of that network and tuning can be opened with. */
uint64_t crowd_smallest_budget(const struct memory_options *net, const struct msg_tuning *tuning);

/* tuning->budget_bytes 0: the smallest. An engine that blocks lets the others run meanwhile. */
struct crowd *crowd_new(const struct memory_options *net, const struct msg_tuning *tuning);
/* Closes the engines, too. Misuse of the network that this brings to light, or NULL; the text is
 * the caller's to free. */
char *crowd_free(struct crowd *crowd);

/* The first thing that went wrong, the network's misuse included, or NULL. */
const char *crowd_failure(struct crowd *crowd);
void crowd_fail(struct crowd *crowd, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct crowd_rank *crowd_rank(struct crowd *crowd, int rank);
uint64_t crowd_random(struct crowd *crowd);

struct crowd_message {
    int context, tag;
    uint64_t bytes; /* receive: room */
    bool synchronous, strided;
};

void crowd_send(struct crowd *crowd, int from, int to, struct crowd_message message);
struct crowd_receive *crowd_receive(struct crowd *crowd, int at, int from,
                                    struct crowd_message wanted);
/* Whether a message is there; with `take` its receiving is begun. */
bool crowd_probe(struct crowd *crowd, int at, int from, struct crowd_message wanted, bool take);
/* Whether it was in time. */
bool crowd_cancel(struct crowd *crowd, struct crowd_receive *receive);

/* The rank dies. Waits for what others have under way with it, which must end. */
void crowd_kill(struct crowd *crowd, int rank);

/* Progress of one rank, and of all that are open; false: nothing happened. */
bool crowd_progress(struct crowd *crowd, int rank);
bool crowd_sweep(struct crowd *crowd);
/* A sweep, and, where it changed nothing, on to the next event. False: nothing is under way. */
bool crowd_step(struct crowd *crowd);
/* Until nothing happens any more. */
void crowd_settle(struct crowd *crowd);
/* Settles, cancels what has not matched, receives all that is left, and wants everything finished,
 * right and given back. */
void crowd_drain(struct crowd *crowd);

/* Lets go of finished sends, and judges receives whose turn it is. */
void crowd_collect(struct crowd *crowd, int rank);

/* Adds the counts of all engines. */
void crowd_add_counts(const struct crowd *crowd, struct msg_counts *counts);

/* ---- crowd_judge.c ---- */

struct crowd_log *crowd_log(struct crowd *crowd, int source, int destination, int context);
void crowd_fill(const struct crowd_log *log, uint32_t sequence, leat_data data);
/* Memory with guards for a message of `bytes`, poisoned, and how to find the bytes in it. */
leat_data crowd_data(uint64_t bytes, bool strided, char **memory, leat_layout *layout);
void crowd_judge(struct crowd *crowd, int rank, struct crowd_receive *receive);

#endif
