/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the message network over libfabric.
 *
 *     fabric_msg.c    operations: queue, one-sided copies, sleep
 *     fabric_put.c    puts
 *     fabric_peer.c   peers in use: addresses, cookies, who is lost
 *     fabric_line.c   whether the network still reaches a silent peer
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

/* For a good-bye to be heard, and for what was sent before one to arrive. */
#define FABRIC_FAREWELL_NS UINT64_C(1000000000)

enum { FABRIC_TRANSFERS = 64, FABRIC_SENDS_A_PEER = 32, FABRIC_LOOSE = 16, FABRIC_LINES = 64 };

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
    uint32_t bytes; /* of the message here */
    bool own;       /* a packet of this rank to itself, in a slot for sending */
    bool last;      /* finished only when the other end has it */
    /* Of a large put: the first piece, which goes behind the header, and who waits for it. */
    uint32_t header_bytes;
    const void *lent;
    uint32_t lent_bytes;
    struct msg_transfer *waiter;
    uint8_t message[] __attribute__((aligned(16)));
};

/* The first piece of a large put, where it has arrived. */
struct loose {
    char *at; /* where it is to be stored */
    const uint8_t *data;
    uint32_t bytes;
    struct slot *slot;
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
    bool said_bye;    /* to it */
    bool settled;     /* something sent to it has gone, so it is connected */
    uint8_t attempts; /* to send the first message to it, that failed */
    uint64_t gone_ns; /* when it was first seen to have left */
    /* When something last came from it, or it was first waited for; when fabric_line.c last saw
     * that the network reaches it. */
    uint64_t heard_ns, proved_ns;
    fi_addr_t address;
    uint8_t to[FABRIC_COOKIE_BYTES], from[FABRIC_COOKIE_BYTES];
};

/* A connection to a silent peer's host. */
struct fabric_line {
    int rank, fd;
    bool up;
    uint32_t attempts;
    uint64_t first_ns, begun_ns, answered_ns; /* of the line, of the last attempt */
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
    char *slots; /* those for receiving, then those for sending */
    uint32_t receive_count, send_count;
    uint32_t receive_bytes;   /* of a message */
    uint32_t posted, posting; /* buffers for receiving: now, and wanted */
    struct slot *free_slots;  /* for sending */
    struct slot *again;       /* the first ones to their peers, to be sent again */
    struct slot *idle_slots;  /* for receiving, to be posted again */
    struct slot_list arrived; /* packets for the engine */
    struct loose loose[FABRIC_LOOSE];
    struct fid_mr *slots_memory;
    struct transfer transfers[FABRIC_TRANSFERS];
    struct transfer *free_transfers;
    struct fabric_peer *peers; /* [peer_places], a power of two */
    uint32_t peer_places, peer_count;
    struct exposure *exposures; /* [exposure_places], likewise */
    uint32_t exposure_places, exposure_count;
    struct fabric_line lines[FABRIC_LINES];
    uint32_t line_count;
    uint32_t settling;  /* peers being connected, and the first message */
    bool visited;       /* that has come */
    uint64_t strangers; /* messages that proved nobody */
    uint64_t now_ns;    /* of the last progress */
    uint64_t heard;     /* completions */
    uint64_t nap_ns, nap_heard, heard_ns;
    char lost[240]; /* why the network lost a peer, the last one */
};

static inline struct fabric_net *fabric_of(struct msg_net *net)
{
    return (struct fabric_net *)(void *)net;
}

/* ---- Tokens ---- */

/* The first is shm_msg.c's, too, the others are not among its kinds: mixed_msg.c has both. */
enum fabric_token_kind {
    TOKEN_ARENA = 1, /* offset in the rank's arena */
    TOKEN_OWN = 4,   /* address, of this rank's own memory */
    TOKEN_KEY        /* key and address of registered memory */
};

static inline struct msg_token fabric_make_token(enum fabric_token_kind kind, int rank,
                                                 uint64_t first, uint64_t second)
{
    return (struct msg_token){{(uint64_t)kind << 32 | (uint32_t)rank, first, second}};
}

static inline bool fabric_is_token(const struct msg_token *token, enum fabric_token_kind kind,
                                   int rank)
{
    return token->word[0] == ((uint64_t)kind << 32 | (uint32_t)rank);
}

/* Of memory in the arena: how large a put into it may be goes with its size. */
#define FABRIC_LARGE_SHIFT 48
#define FABRIC_LARGE_UNIT  1024

static inline uint64_t fabric_token_bytes(const struct msg_token *token)
{
    return token->word[2] & ((UINT64_C(1) << FABRIC_LARGE_SHIFT) - 1);
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

/* ---- fabric_line.c ---- */
/* Somebody waits for the peer: it is lost once the network does not reach its host any more. */
void fabric_line_watch(struct fabric_net *net, int rank);
void fabric_lines_close(struct fabric_net *net);

/* ---- fabric_slot.c ---- */
int fabric_slots_open(struct fabric_net *net, uint64_t bytes);
void fabric_slots_close(struct fabric_net *net);
/* A free slot; NULL: none now. */
struct slot *fabric_slot_take(struct fabric_net *net, struct fabric_peer *peer);
/* Writes the header, `kind`, `pieces`, `bytes` and `offset` of which are the caller's; where the
 * bytes of the pieces go. */
uint8_t *fabric_slot_head(struct fabric_net *net, const struct fabric_peer *peer, struct slot *slot,
                          struct fabric_header *header);
void fabric_slot_give(struct fabric_net *net, struct slot *slot);
/* 0, -EAGAIN (the slot is free again), or the peer is lost. `last`: it is finished only when the
 * other end has it. */
int fabric_slot_send(struct fabric_net *net, struct fabric_peer *peer, struct slot *slot,
                     bool last);
/* A packet of this rank to itself. */
void fabric_slot_arrive(struct fabric_net *net, struct slot *slot);
/* Takes completions and posts buffers again. */
void fabric_slots_progress(struct fabric_net *net);
/* Largest first piece that others may put by large puts; 0: they may not. */
uint32_t fabric_slots_large(const struct fabric_net *net);
/* What net.h says of large puts that have arrived. */
const void *fabric_large_find(struct msg_net *net, const void *at, uint64_t bytes);
void fabric_large_take(struct msg_net *net, const void *at);
/* Nobody waits for what is still being sent. */
void fabric_slots_forget(struct fabric_net *net);
/* The pieces of a put to their places, the flag last. */
void fabric_store(char *arena, const struct fabric_header *header, const uint8_t *data);

/* ---- fabric_put.c ---- */
/* A slot for a message to the rank, which may be this one. */
int fabric_take_slot(struct fabric_net *net, int rank, struct fabric_peer **peer,
                     struct slot **slot);
/* As net.h says. */
int fabric_put(struct msg_net *net, int rank, const struct msg_token *token,
               const struct msg_piece *pieces, int count);
int fabric_put_large(struct msg_net *net, int rank, const struct msg_token *token,
                     const struct msg_piece pieces[3], const struct msg_token *third,
                     struct msg_transfer *transfer);
uint32_t fabric_large_most(struct msg_net *net, const struct msg_token *token);

/* ---- fabric_msg.c ---- */
void fabric_transfer_done(struct fabric_net *net, struct transfer *transfer, int error);

#endif
#endif
