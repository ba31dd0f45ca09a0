/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the message engine asks of a network: one endpoint, a dozen operations.
 *
 * Two ways lead to a peer. Its shared receive queue takes packets from everybody, in the order in
 * which each sender sent them, and refuses (-EAGAIN) when it is full: nothing is lost. Its exposed
 * memory takes puts and gives gets; those may overtake one another and the queue's packets. A put
 * becomes visible as a whole: its flag, the first eight bytes of the last piece, comes last.
 *
 * Nothing here blocks, and no operation is called by two threads at once for one endpoint.
 * Advantage: shared memory, a fabric, a simulated torus and a test's memory are the same to the
 * engine. Disadvantage: where memory is mapped the engine goes around put, for speed.
 */
#ifndef LEAT_MSG_NET_H
#define LEAT_MSG_NET_H

#include "leat/msg.h"

#include <stdbool.h>
#include <stdint.h>

#define MSG_WORDS_BYTES 65536

/* A packet of the shared receive queue, header included. */
#define MSG_PACKET_BYTES 512

/* Names memory to a peer: made by expose or alloc, carried in packets, opaque to the engine. */
struct msg_token {
    uint64_t word[3];
};

/* No memory: what is meant cannot be reached. */
#define msg_token_none ((struct msg_token){{UINT64_MAX, 0, 0}})
static inline bool msg_token_is_none(const struct msg_token *token)
{
    return token->word[0] == UINT64_MAX;
}

/* A get or put that is under way; the network sets `finished` when it is over. */
struct msg_transfer {
    int16_t finished; /* 0 under way, 1 done, negative errno */
    uint8_t pieces;   /* of put_large, of which there may be several: those under way */
    bool failed;      /* one of them has */
};

struct msg_piece {
    const void *from;
    uint64_t offset; /* in the memory of the token */
    uint64_t bytes;
};

struct msg_net;
struct msg_memory;

struct msg_net_ops {
    const char *name;
    /* Moves the network forward; now_ns is the caller's clock. */
    void (*progress)(struct msg_net *net, uint64_t now_ns);

    /* Sends a packet (copied) to the peer's queue. 0, -EAGAIN: full now; -ECONNRESET: peer gone. */
    int (*queue_send)(struct msg_net *net, int peer, const void *packet, uint32_t bytes);
    /* The oldest packet of the own queue, or NULL; stays until queue_release. */
    const void *(*queue_peek)(struct msg_net *net, uint32_t *bytes);
    void (*queue_release)(struct msg_net *net);

    /* Own zeroed memory that peers can put to; `address` is where this rank sees it. The engine
     * counts it. -ENOMEM. */
    int (*alloc)(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token);
    void (*free)(struct msg_net *net, void *address, uint64_t bytes);
    /* Makes the caller's memory readable and writable to `peer` until hide; -errno: cannot be. */
    int (*expose)(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                  struct msg_token *token);
    void (*hide)(struct msg_net *net, const struct msg_token *token);
    /* Where this rank can load and store the peer's memory, or NULL. For memory of alloc it is all
     * or nothing: a network maps all ranks' or none's (but see `beside`). */
    void *(*map)(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes);

    /* MSG_WORDS_BYTES of the peer's memory, zeroed when it opened, that all ranks (beside it) have
     * mapped and find without asking: for what the fixed-function path writes (coll_words.c). NULL
     * result: the peer is not open yet. NULL operation: this network has none, at any rank. */
    void *(*words)(struct msg_net *net, int peer);

    /* Begins this rank's part of a barrier (count 0) or reduction of at most 64 bytes among all
     * ranks by the network itself: a rank's calls in order are the parts of one operation each.
     * `to` is written before finished->finished is set. 0 or -errno. NULL: there is no such thing.
     */
    int (*reduce)(struct msg_net *net, enum leat_operation operation, enum leat_type type,
                  const void *from, void *to, uint64_t count, struct msg_transfer *finished);

    /* Small ordered-by-flag put (see above), copied before it returns; 1 or 2 pieces. 0 or
     * -EAGAIN: no room now. Not used where map gives an address. */
    int (*put)(struct msg_net *net, int peer, const struct msg_token *token,
               const struct msg_piece *pieces, int count);
    /* Like put, of two pieces, without its copies; a third one for other memory (`third`, or NULL)
     * is stored with them. The first may be read after it returns (1: under
     * way, until transfer->finished, for all that were put with it), and lies at the peer where
     * `large_find` says (`at`: where it was put) until the peer's next progress, or until
     * `large_take` says that it is not needed any more. `large_most`: bytes of the first piece, at
     * most; 0: none. NULL: there is only put. */
    int (*put_large)(struct msg_net *net, int peer, const struct msg_token *token,
                     const struct msg_piece pieces[3], const struct msg_token *third,
                     struct msg_transfer *transfer);
    uint32_t (*large_most)(struct msg_net *net, const struct msg_token *token);
    const void *(*large_find)(struct msg_net *net, const void *at, uint64_t bytes);
    void (*large_take)(struct msg_net *net, const void *at);
    /* Bulk copies, one piece. 0: done on return, 1: under way (transfer->finished tells, also where
     * the peer is lost meanwhile; not in a network that maps memory), or -errno (-EPERM: this way
     * is closed, another may do; -EAGAIN: no room now, not in a network that maps memory). */
    int (*bulk_get)(struct msg_net *net, int peer, const struct msg_token *token, uint64_t offset,
                    void *to, uint64_t bytes, struct msg_transfer *transfer);
    int (*bulk_put)(struct msg_net *net, int peer, const struct msg_token *token, uint64_t offset,
                    const void *from, uint64_t bytes, struct msg_transfer *transfer);

    /* After stores to mapped memory of the peer: wakes it if it sleeps. NULL: nobody sleeps. */
    void (*wake)(struct msg_net *net, int peer);
    /* Sleeps until something may have arrived or `ns` have passed. Only between two calls of
     * progress that found nothing, and after `prepare` was called and another progress found
     * nothing too. NULL: cannot. */
    void (*sleep_prepare)(struct msg_net *net);
    void (*sleep)(struct msg_net *net, uint64_t ns);
    void (*sleep_cancel)(struct msg_net *net);

    /* The peer is waited for: `alive` tells, after a while, once the network does not reach it any
     * more. NULL: it always does. */
    void (*watch)(struct msg_net *net, int peer);
    /* 0 while the peer may answer, -ECONNRESET once it is gone (detail set). */
    int (*alive)(struct msg_net *net, int peer);
    /* Hops to the peer, for thresholds; NULL: all alike. */
    int (*distance)(struct msg_net *net, int peer);
    /* Whether the job's ranks, the last side running fastest, are a torus whose neighbours have
     * links of their own: its sides, and which sides of 2 are joined by two links. NULL: none. */
    bool (*torus)(const struct msg_net *net, int side[3], bool doubled[3]);
    void (*close)(struct msg_net *net);
};

struct msg_net {
    const struct msg_net_ops *ops;
    int rank, rank_count;
    uint64_t queue_bytes; /* of the own shared receive queue, for the budget */
    uint64_t puts;        /* that have come, where they travel */
    /* What a library underneath has taken for itself, as far as it was measured; no part of it. */
    uint64_t provider_bytes;
    /* For a network that runs its ranks when something has come, and so knows what: rings need no
     * look, and bulk_gets that have not finished; 0: it does not count them. */
    bool quiet;
    uint32_t gets;
    uint32_t large; /* large puts that large_find finds elsewhere */
    /* What moves the bytes of messages (msg/memory.h); NULL: they are in memory. */
    struct msg_memory *memory;
    /* Points to a word that is not 0 while `peer` sleeps, or NULL: lets the engine skip `wake`.
     * May be called once a ring is opened. */
    const uint32_t *(*asleep)(struct msg_net *net, int peer);
    /* Of a network that maps some ranks' memory only: whether it does the peer's. Where it does
     * not, copies may be under way after bulk_get. NULL: all ranks', or none's. */
    bool (*beside)(const struct msg_net *net, int peer);
};

#endif
