/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root's own state, shared by root.c (what a peer may do) and root_serve.c (thread, sockets).
 *
 * Advantage: what happens to a frame can be read without sockets. Disadvantage: one more header.
 */
#ifndef LEAT_CORE_ROOT_INTERNAL_H
#define LEAT_CORE_ROOT_INTERNAL_H

#include "core/root.h"

#include <pthread.h>

#define ROOT_STRANGERS 256 /* connections that have not proven the key, at once */
#define ROOT_TOLD      64  /* misdeeds of strangers that are named */

struct root_peer {
    struct root_peer *next, **link;
    int fd;   /* -1: dropped, freed after this round of events */
    int rank; /* -1: a stranger */
    bool seated;
    uint64_t deadline_ns; /* a stranger's */
    struct hello_channel channel;
    char address[ROOT_ADDRESS_BYTES];
};

struct root_host {
    uint8_t id[HELLO_HOST_BYTES];
    char seat[HELLO_SEAT_BYTES + 1];
    int leader;
    bool seated; /* `seat` is known */
};

/* Who has asked for a card that is not there yet. */
struct root_ask {
    struct root_ask *next;
    int asker;
};

struct root_card {
    char *text;            /* or NULL */
    struct root_ask *asks; /* the thread's */
};

struct root_rank {
    struct root_peer *peer;
    bool ended;
    bool ready; /* under the root's lock, as are the texts of cards */
    struct root_card card[LEAT_CARDS];
};

struct root {
    struct root_options options;
    struct segment_head *head; /* of rank 0's host */
    int listener;              /* -1 once the job has begun */
    int epoll, wake_fd, told_fd;
    char local[ROOT_ADDRESS_BYTES]; /* where it listens, if no other host reaches that; or "" */
    pthread_t thread;
    pthread_mutex_t lock; /* of what rank 0 and the thread both look at: the next seven, and `ready`
                             and `card` of ranks */
    char reached[64];     /* where a rank of another host has reached it, or "" */
    bool own_ready, closing;
    char reason[HELLO_TEXT_BYTES + 1]; /* why rank 0 leaves, or "" */
    bool started, broken;
    char why[400]; /* broken before the start */
    struct root_peer *peers, *dropped;
    int stranger_count, ready_count;
    bool deaf; /* descriptors have run out: nobody is accepted until one is free */
    struct root_rank *rank;
    struct root_host *host;
    size_t host_count;
    char told[ROOT_TOLD][ROOT_ADDRESS_BYTES + 64];
    size_t told_count;
};

/* ---- root_cards.c: the thread's ---- */
void root_take_card(struct root *root, int rank, uint32_t number, const char *card);
void root_answer(struct root *root, struct root_peer *peer, uint32_t number);
void root_answer_all(struct root *root, int number);
void root_cards_free(struct root *root);

/* ---- root.c ---- */
void root_say(struct root_peer *peer, const struct hello_event *event);
void root_hear(struct root *root, struct root_peer *peer);
void root_turn_away(struct root *root, const struct root_peer *peer, const char *why);
void root_drop(struct root *root, struct root_peer *peer);
void root_count_ready(struct root *root);
/* To every rank that is in. */
void root_tell_all(struct root *root, const struct hello_event *event);

#endif
