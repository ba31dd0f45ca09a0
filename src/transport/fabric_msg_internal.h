/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the message network over libfabric.
 *
 *     fabric_msg.c    operations: queue, puts, one-sided copies, sleep
 *     fabric_peer.c   peers in use: addresses, cookies, who is lost
 *     fabric_slot.c   buffers: what arrives, what is being sent
 */
#ifndef LEAT_TRANSPORT_FABRIC_MSG_INTERNAL_H
#define LEAT_TRANSPORT_FABRIC_MSG_INTERNAL_H

#ifdef LEAT_HAVE_FABRIC

#include "core/card.h"
#include "msg/net.h"
#include "transport/fabric.h"
#include "transport/fabric_msg.h"
#include "transport/fabric_wire.h"

/* For a close to be heard, and for what was sent before one to arrive. */
#define FABRIC_FAREWELL_NS UINT64_C(1000000000)

enum { FABRIC_TRANSFERS = 64, FABRIC_SENDS_A_PEER = 32 };

enum operation_kind { OPERATION_RECEIVE, OPERATION_SEND, OPERATION_TRANSFER };

/* What a completion points to. */
struct operation {
    struct fi_context2 context; /* first */
    enum operation_kind kind;
    int peer; /* rank */
};

struct slot {
    struct operation operation; /* first */
    struct slot *next;
    uint32_t bytes;
    bool own; /* a packet of this rank to itself, in a slot for sending */
    uint8_t message[FABRIC_MESSAGE_BYTES] __attribute__((aligned(16)));
};

struct transfer {
    struct operation operation; /* first */
    struct transfer *next;
    struct msg_transfer *waiter; /* NULL: it is not waited for any more */
    struct fid_mr *local;        /* or NULL */
};

struct slot_list {
    struct slot *first, **end;
};

enum peer_state { FABRIC_PEER_NEW, FABRIC_PEER_MET, FABRIC_PEER_LOST };

/* A peer in use; open addressing by rank. */
struct fabric_peer {
    int32_t rank; /* -1: an empty place */
    uint32_t sending;
    enum peer_state state;
    bool bye;         /* it has said that nothing more comes */
    uint64_t gone_ns; /* when it was first seen to have left */
    fi_addr_t address;
    uint8_t to[FABRIC_COOKIE_BYTES], from[FABRIC_COOKIE_BYTES];
};

/* Memory shown to others, until it is hidden. */
struct exposure {
    uint64_t key;
    struct fid_mr *memory; /* NULL: an empty place */
};

struct fabric_net {
    struct msg_net net; /* first */
    struct leat_job *job;
    struct fabric fabric;
    char *arena;
    uint64_t arena_bytes, arena_first;
    uint8_t secret[LEAT_SECRET_BYTES];
    struct slot *slots;
    uint32_t slot_count;
    struct slot *free_slots;  /* for sending */
    struct slot *idle_slots;  /* for receiving, to be posted again */
    struct slot_list arrived; /* packets for the engine */
    struct fid_mr *slots_memory;
    struct transfer transfers[FABRIC_TRANSFERS];
    struct transfer *free_transfers;
    struct fabric_peer *peers; /* [peer_places], a power of two */
    uint32_t peer_places, peer_count;
    struct exposure *exposures; /* [exposure_places], likewise */
    uint32_t exposure_places, exposure_count;
    uint64_t strangers; /* messages that proved nobody */
    uint64_t now_ns;    /* of the last progress */
    char lost[240];     /* why the network lost a peer, the last one */
};

static inline struct fabric_net *fabric_of(struct msg_net *net)
{
    return (struct fabric_net *)(void *)net;
}

/* ---- fabric_peer.c ---- */
int fabric_peers_open(struct fabric_net *net);
void fabric_peers_close(struct fabric_net *net);
/* The record of a rank whose message has this cookie; NULL: it proves nothing. */
struct fabric_peer *fabric_peer_proven(struct fabric_net *net, int rank,
                                       const uint8_t cookie[FABRIC_COOKIE_BYTES]);
/* -ENOMEM */
int fabric_peer_find(struct fabric_net *net, int rank, struct fabric_peer **peer);
/* Once its address is known: 0; -EAGAIN: asked for; -ECONNRESET, -EPROTO, ... with detail. */
int fabric_peer_meet(struct fabric_net *net, int rank, struct fabric_peer **peer);
/* The network cannot reach it any more; `why` goes into the job's record of the rank. */
void fabric_peer_lose(struct fabric_net *net, int rank, const char *why);
int fabric_peer_alive(struct fabric_net *net, int rank);

/* ---- fabric_slot.c ---- */
int fabric_slots_open(struct fabric_net *net, uint64_t bytes);
void fabric_slots_close(struct fabric_net *net);
/* A free slot with its header filled in but for kind, pieces and sizes; NULL: none now. */
struct slot *fabric_slot_take(struct fabric_net *net, struct fabric_peer *peer);
void fabric_slot_give(struct fabric_net *net, struct slot *slot);
/* 0, -EAGAIN (the slot is free again), or the peer is lost. `last`: it is finished only when the
 * other end has it. */
int fabric_slot_send(struct fabric_net *net, struct fabric_peer *peer, struct slot *slot,
                     bool last);
/* A packet of this rank to itself. */
void fabric_slot_arrive(struct fabric_net *net, struct slot *slot);
/* Takes completions and posts buffers again. */
void fabric_slots_progress(struct fabric_net *net);
/* The pieces of a put to their places, the flag last. */
void fabric_store(char *arena, const struct fabric_header *header, const uint8_t *data);

/* ---- fabric_msg.c ---- */
void fabric_transfer_done(struct fabric_net *net, struct transfer *transfer, int error);

#endif
#endif
