/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of the network in memory and what they change: see memory_net.h.
 *
 * With a clock the events lie in a heap by time and number; without one in a list by number.
 * Advantage: both are one array. Disadvantage: without a clock taking one out moves the rest.
 */
#ifndef LEAT_TEST_SUPPORT_MEMORY_EVENTS_H
#define LEAT_TEST_SUPPORT_MEMORY_EVENTS_H

#include "support/memory_net.h"

enum event_kind { EVENT_PACKET, EVENT_PUT, EVENT_GET, EVENT_BULK_PUT };

struct event {
    struct event *next;                /* among the packets that have arrived */
    uint64_t time, number, own_number; /* of all; of its sender */
    enum event_kind kind;
    int from, to;
    bool loose;                    /* may be overtaken: a fault */
    uint32_t bytes;                /* of data */
    uint32_t memory, generation;   /* of `to`, to be changed or read */
    uint64_t offset[2], extent[2]; /* of the pieces */
    char *local;                   /* bulk: at the sender */
    struct msg_transfer *transfer;
    char data[]; /* of exactly that size, so that a sanitizer sees a byte read beyond it */
};

/* Memory of alloc or expose. */
struct memory {
    char *address;
    uint64_t bytes;
    int owner, peer; /* peer -1: for all */
    uint32_t generation, under_way;
    uint64_t born;              /* the owner's changes then */
    bool live, exposed, parked; /* parked: freed, and kept to see who stores to it */
};

struct endpoint {
    struct msg_net net; /* first: what the engine holds */
    struct memory_fabric *fabric;
    struct event *arrived, *arrived_tail;
    struct memory *memory; /* [memory_count]: a token depends on its owner's history alone */
    uint32_t memory_count, memory_capacity;
    uint32_t queue_used, puts_under_way;
    uint64_t events_begun, changes; /* exposing and hiding in vain is no change */
    uint64_t learnt;                /* hash of what calls have answered */
    bool open, dead, peeked;
};

struct pair_time {
    uint64_t pair, time; /* pair 0: free */
};

struct memory_fabric {
    struct memory_options options;
    struct endpoint **endpoint; /* [rank_count], made when first spoken to */
    struct event **event;
    size_t event_count, event_capacity;
    size_t parked_bytes;
    struct pair_time *pair; /* when the last packet of a pair arrives */
    size_t pair_count, pair_capacity;
    uint64_t now_ns, event_number, random, packets, puts, refused;
    void (*sleeps)(void *user, int rank);
    void *sleeps_user;
    char misuse[512];
};

uint64_t memory_hash(uint64_t hash, const void *bytes, size_t count);
uint64_t memory_random(struct memory_fabric *fabric);
bool memory_chance(struct memory_fabric *fabric, uint32_t permille);
void memory_misuse(struct memory_fabric *fabric, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct endpoint *memory_endpoint(struct memory_fabric *fabric, int rank);

/* Sets time and number and puts it under way; the fabric owns it from then on. */
void memory_event_begin(struct memory_fabric *fabric, struct event *event);
/* Everything that is due by now. */
void memory_events_run(struct memory_fabric *fabric);
/* Drops what a rank has begun; what others have under way to it fails. */
void memory_events_cut(struct memory_fabric *fabric, int rank);

/* ---- memory_tokens.c ---- */

struct memory *memory_register(struct endpoint *endpoint, int peer, void *address, uint64_t bytes,
                               struct msg_token *token);
/* The memory that a token names, for that peer and range; NULL (and recorded, unless `what` is
 * NULL) where it is none. */
struct memory *memory_named(struct memory_fabric *fabric, int from, int owner,
                            const struct msg_token *token, uint64_t offset, uint64_t bytes,
                            const char *what);
void memory_release(struct memory_fabric *fabric, struct memory *memory);
/* Whether freed memory is as it was left; frees it. */
void memory_unpark_all(struct memory_fabric *fabric);

static inline uint64_t memory_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

#endif
