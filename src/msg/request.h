/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as the engine sees it: the caller's leat_request, laid out.
 *
 * Requests are never copied or allocated by the engine; they hang in its lists by their own links.
 * Advantage: a million unfinished sends cost the engine nothing. Disadvantage: a caller who moves
 * or reuses one too early breaks a list, as in MPI.
 */
#ifndef LEAT_MSG_REQUEST_H
#define LEAT_MSG_REQUEST_H

#include "leat/msg.h"
#include "msg/net.h"

enum msg_request_kind {
    REQUEST_NONE, /* "no request", and what a finished one that was waited for turns into */
    REQUEST_SEND,
    REQUEST_RECEIVE,
    REQUEST_MATCHED, /* a message that leat_probe took out */
    REQUEST_COLLECTIVE
};

enum msg_request_state {
    STATE_FINISHED,
    STATE_PENDING,    /* send: in its peer's list; receive: posted */
    STATE_FLIGHT,     /* send: given to the queue, not acknowledged */
    STATE_RENDEZVOUS, /* send: announced by handle; receive: bytes are coming */
    STATE_PARTIAL,    /* receive: fragments are coming */
    STATE_ANNOUNCED,  /* matched by a probe: its bytes are with the sender */
    STATE_TAKING      /* receive: asked for at the sender that holds the message back */
};

struct msg_engine;
struct msg_unexpected;
struct msg_schedule;

struct msg_request {
    leat_status status;
    struct msg_engine *engine;
    struct msg_request *next, *previous; /* the list of its state */
    union {
        struct {
            struct msg_request *bin_next, *bin_previous; /* while posted: the matcher's */
        };
        struct {
            void *far;  /* rendezvous: the peer's memory or pipe, where it is mapped */
            void *near; /* the own share line or pipe */
        };
    };
    leat_data data;
    leat_comm *comm;
    leat_status *status_to; /* the caller's, or NULL */
    uint64_t stamp;         /* order of posting */
    uint64_t total;         /* bytes of the message */
    uint64_t done;          /* bytes moved so far */
    union {
        struct msg_unexpected *message_taken; /* matched by a probe, or NULL */
        struct msg_schedule *schedule;        /* collective */
        uint64_t produced;                    /* rendezvous by pipe or share: see rendezvous.c */
    };
    struct msg_token token; /* rendezvous: the peer's memory; own memory while announced */
    union {
        struct msg_token helped; /* send: the receiver's memory or pipe */
        uint16_t ticket[8];      /* staged through a GPU's pipe: the copies under way */
    };
    uint32_t context;
    int32_t peer; /* rank in the job, or -1 */
    int32_t tag;
    uint32_t handle; /* own, while others refer to it; 0: none */
    uint32_t remote; /* the peer's */
    struct msg_transfer transfer;
    uint8_t kind, state; /* enum msg_request_kind, msg_request_state */
    uint8_t mode;        /* rendezvous.c's */
    uint8_t synchronous;
    uint8_t found;   /* send: a peer was told of it and will ask for it, or not */
    uint8_t exposed; /* token has to be hidden again */
    uint8_t gpu;     /* the data lies in memory of a GPU: no load or store reaches it */
    uint8_t unused;
};

/* The bytes are where loads and stores find them, one after the other. */
static inline bool msg_is_plain(const struct msg_request *request)
{
    return !request->data.layout && !request->gpu;
}

_Static_assert(sizeof(struct msg_request) <= sizeof(leat_request), "leat_request is too small");

static inline struct msg_request *msg_request_of(leat_request *request)
{
    return (struct msg_request *)(void *)request;
}

#endif
