/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a rank's service (far.h); everything below its lock.
 *
 *     far.c        opening, the thread, operations: begun, awaited, taken back
 *     far_peer.c   peers in use: addresses, cookies, what is sent to them, who is lost
 *     far_take.c   what arrives, and what is answered
 *
 * Advantage: one lock, so an endpoint is used by one thread at a time. Disadvantage: who copies a
 * payload keeps others from beginning.
 */
#ifndef LEAT_TRANSPORT_FAR_INTERNAL_H
#define LEAT_TRANSPORT_FAR_INTERNAL_H

#ifdef LEAT_HAVE_FABRIC

#include "core/card.h"
#include "transport/fabric.h"
#include "transport/far.h"
#include "transport/far_wire.h"

#include <pthread.h>

/* Bounds on what is posted: buffers of a rank, and what is under way to one peer. */
enum { FAR_RECEIVING = 32, FAR_SENDING = 32, FAR_SENDS_A_PEER = 8, FAR_ASKED_A_PEER = 16 };

struct far_slot {
    struct fi_context2 context; /* first */
    struct far_slot *next;
    bool sends;
    int peer; /* rank, of one that sends */
    uint8_t message[FAR_MESSAGE_BYTES] __attribute__((aligned(16)));
};

/* An answer that a peer is waiting for. */
struct far_owed {
    enum far_kind kind; /* DONE, DATA or FOUND */
    int error;
    uint64_t id, offset, bytes, at; /* `at`: DATA's place in the operation */
    struct region_key key;
};

enum far_state { FAR_NEW, FAR_MET, FAR_LOST };

struct far_peer {
    struct far_peer *next;
    int rank;
    enum far_state state;
    bool greeted; /* it has been told who this is */
    bool bye;     /* it has said that it only answers, and needs nothing that is on its way */
    fi_addr_t address;
    uint8_t to[FAR_COOKIE_BYTES], from[FAR_COOKIE_BYTES];
    uint32_t sending;                   /* slots under way */
    uint32_t attempts;                  /* to send it the first message, that failed */
    bool settled;                       /* it has got something, so it is connected */
    uint32_t asked;                     /* messages that it has not answered yet */
    struct far_operation *first, **end; /* not posted, or in part */
    struct far_operation *awaiting;     /* posted, and to be answered */
    struct far_owed owed[FAR_ASKED_A_PEER];
    uint32_t owed_first, owed_count;
    bool asks; /* for the region called: */
    uint64_t asks_id;
    char asks_name[LEAT_REGION_NAME];
    int failed; /* a part of the put of its that is under way, called failed_id; or 0 */
    uint64_t failed_id;
    int refuses; /* a put of its that nobody waits for has failed: to be told; or 0 */
    int refused; /* it has told so; or 0 */
    int error;   /* once lost */
    char why[400];
};

struct far {
    struct leat_job *job;
    struct fabric fabric;
    uint8_t secret[LEAT_SECRET_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an operation has finished */
    pthread_t thread;
    int wake_fd;
    bool started, closing;
    char card[LEAT_CARD_BYTES];
    struct far_slot *slots, *free_slots, *idle_slots; /* for sending; to be posted again */
    struct far_slot *again; /* the first ones to their peers, to be sent again */
    struct fid_mr *slots_memory;
    struct far_peer **peer; /* [rank_count], made when first spoken to */
    struct far_peer *peers;
    uint64_t ids, looked_ns, strangers;
};

/* ---- far.c ---- */
void far_finish(struct far *far, struct far_operation *operation, int error);
/* Moves on everything that can move; whether anything did. */
bool far_progress(struct far *far);

/* ---- far_peer.c ---- */
/* -ENOMEM */
int far_peer_find(struct far *far, int rank, struct far_peer **peer);
/* The peer that a message says it is from; NULL: it proves nothing. */
struct far_peer *far_peer_proven(struct far *far, int rank, const uint8_t cookie[FAR_COOKIE_BYTES]);
/* Takes its card. */
void far_peer_meet(struct far *far, struct far_peer *peer, const char *card);
/* Ends what waits for it; `why` as of leat_rank_gone. */
void far_peer_lose(struct far *far, struct far_peer *peer, const char *why);
/* Those that the job has lost; every so often. */
void far_peers_look(struct far *far);
/* Sends what can be sent; whether anything was. */
bool far_peers_progress(struct far *far);
/* Whether something is to be sent that cannot go yet, and whether answers are awaited. */
bool far_peers_pending(const struct far *far);
bool far_peers_await(const struct far *far);
/* Whether a message is under way. */
bool far_peers_sending(const struct far *far);
/* A slot for a message with its cookie, or NULL; 0 or -EAGAIN: the slot is free again. */
struct far_slot *far_slot_take(struct far *far, struct far_peer *peer, enum far_kind kind);
int far_slot_send(struct far *far, struct far_peer *peer, struct far_slot *slot);
/* One that could not be sent: true, it goes again (fabric_crossed). */
bool far_slot_again(struct far *far, struct far_slot *slot, int error);
void far_slots_again(struct far *far);
void far_slot_give(struct far *far, struct far_slot *slot);
void far_peers_free(struct far *far);

static inline struct far_header *far_head(struct far_slot *slot)
{
    return (struct far_header *)(void *)slot->message;
}
static inline uint8_t *far_payload(struct far_slot *slot)
{
    return slot->message + sizeof(struct far_header);
}

/* ---- far_take.c ---- */
void far_take(struct far *far, const uint8_t *message, size_t bytes);
/* Sends what is owed to the peer; false: no room now. */
bool far_answer(struct far *far, struct far_peer *peer, bool *moved);

#endif
#endif
