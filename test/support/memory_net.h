/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network in memory: any number of endpoints in one thread, with delays and what a network may
 * do.
 *
 * Packets, puts and bulk copies are events. With a clock each event draws its delay, and only the
 * packets of one sender to one receiver keep their order; without a clock (manual) the caller
 * delivers events in any order that the contract of msg/net.h allows. Bulk copies read and write
 * when they finish and not before, so who lets go of memory too early is seen. Advantage: one seed
 * or one list of choices repeats a run exactly, and a rank costs a pointer until it is spoken to.
 * Disadvantage: one thread, so nothing is learnt about memory orders.
 *
 * What no engine may do to a network is recorded (memory_fabric_misuse): puts beyond memory,
 * made-up tokens, memory freed or hidden while something is under way to it, packets that are too
 * large.
 */
#ifndef LEAT_TEST_SUPPORT_MEMORY_NET_H
#define LEAT_TEST_SUPPORT_MEMORY_NET_H

#include "msg/net.h"

#include <stddef.h>

/* For which pairs of ranks, or (bulk copies finishing later) which operations. */
enum memory_some { MEMORY_NONE, MEMORY_ALL, MEMORY_SOME };

/* What a network must not do; tests of the tests. */
enum memory_fault {
    MEMORY_FAULT_NONE,
    MEMORY_FAULT_DROP_PACKET,
    MEMORY_FAULT_DROP_PUT,
    MEMORY_FAULT_REORDER, /* the packet is overtaken by the next one of its sender */
    MEMORY_FAULT_TEAR     /* a put's flag is seen before the rest of it */
};

struct memory_options {
    int rank_count;
    uint64_t seed;
    uint32_t queue_packets;   /* that a shared receive queue holds, those on their way included */
    uint32_t put_limit;       /* puts of one rank under way; 0: no bound */
    uint32_t refuse_permille; /* sends and puts that are told -EAGAIN for no reason */
    uint64_t delay_ns;        /* the longest; with 0 everything arrives at the next progress */
    uint32_t late_permille;   /* events that take up to 50 times as long */
    bool map;                 /* memory of alloc can be mapped */
    enum memory_some map_exposed, no_expose, no_get, no_put, finish_later;
    bool manual;   /* no clock: memory_fabric_deliver */
    bool hostile;  /* made-up tokens and offsets are refused, and are no misuse */
    bool distance; /* ranks lie on a line */
    enum memory_fault fault;
    uint64_t fault_at; /* the packet or put that suffers it, counted from 0 */
};

struct memory_fabric;

struct memory_fabric *memory_fabric_new(const struct memory_options *options);
void memory_fabric_free(struct memory_fabric *fabric);

/* The endpoint of a rank; ends by its own close. NULL: out of memory. */
struct msg_net *memory_fabric_open(struct memory_fabric *fabric, int rank);

/* The rank dies: what it has under way is lost, what others have under way to it fails. Its own
 * endpoint takes no more calls but those that give memory back, and close. */
void memory_fabric_kill(struct memory_fabric *fabric, int rank);

/* Called when an engine would sleep until something arrives, so that others can be run. */
void memory_fabric_on_sleep(struct memory_fabric *fabric, void (*sleeps)(void *user, int rank),
                            void *user);

/* The first thing that no engine may do, or NULL. */
const char *memory_fabric_misuse(const struct memory_fabric *fabric);
/* The same, stores to freed memory included: looks at all of that. */
const char *memory_fabric_check(struct memory_fabric *fabric);

/* Made-up tokens and offsets seen so far (hostile). */
uint64_t memory_fabric_refused(const struct memory_fabric *fabric);

/* Memory that `rank` has from alloc or has exposed, now. */
size_t memory_fabric_held(const struct memory_fabric *fabric, int rank);

/* The memory that is number `number` of those; NULL: there are fewer. */
void *memory_fabric_memory(const struct memory_fabric *fabric, int rank, size_t number,
                           uint64_t *bytes);

/* ---- With a clock ---- */

uint64_t memory_fabric_now(const struct memory_fabric *fabric);
/* When the next event is due; UINT64_MAX: none is under way. */
uint64_t memory_fabric_next(const struct memory_fabric *fabric);

/* ---- Without ---- */

/* Events that may happen next, in the order in which they were begun. */
size_t memory_fabric_choices(const struct memory_fabric *fabric);
void memory_fabric_deliver(struct memory_fabric *fabric, size_t choice);
struct memory_choice {
    int rank; /* whose next progress sees the difference; -1: two ranks' */
    bool packet;
    uint64_t number; /* in the order in which they were begun */
};
struct memory_choice memory_fabric_choice(const struct memory_fabric *fabric, size_t choice);
/* "packet 0>1 #5", for reports. */
void memory_fabric_describe(const struct memory_fabric *fabric, size_t choice, char *text,
                            size_t room);
/* Of all that is under way, whatever the order in which it was begun by different ranks. */
uint64_t memory_fabric_hash(const struct memory_fabric *fabric);
/* Of all that `rank` could see at its next progress: queue, own memory, finished transfers. */
uint64_t memory_fabric_visible(const struct memory_fabric *fabric, int rank);
/* What calls of `rank` were answered so far; and back to that, where they changed nothing. */
uint64_t memory_fabric_learnt(const struct memory_fabric *fabric, int rank);
void memory_fabric_unlearn(struct memory_fabric *fabric, int rank, uint64_t learnt);
/* Calls of `rank` so far that changed something. */
uint64_t memory_fabric_changes(const struct memory_fabric *fabric, int rank);

#endif
