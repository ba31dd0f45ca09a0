/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message engine of one rank: peers in use, rings, what is unexpected, what is under way.
 *
 * The path of a byte. A send joins its peer's list (pending). progress moves the list's head to the
 * peer: into the peer's ring, if it has given one, else as a packet of its shared receive queue,
 * else (too large) as an announcement by either. The receiver's progress reads rings and queue,
 * asks the matcher, and copies into the receive or into the pool of unexpected messages; announced
 * bytes are fetched once matched (rendezvous.c). Where a pool is full, messages are held back at
 * the sender and found there (hold.c).
 *
 * Nothing here blocks, reads a clock, or allocates outside the pools. Control packets are never
 * queued: what is owed to a peer is a bit in its record (todo), sent when the network has room.
 * Advantage: memory is bounded by construction. Disadvantage: every kind of control packet has to
 * be derivable from state.
 */
#ifndef LEAT_MSG_ENGINE_H
#define LEAT_MSG_ENGINE_H

#include "msg/layout.h"
#include "msg/match.h"
#include "msg/memory.h"
#include "msg/pool.h"
#include "msg/request.h"
#include "msg/wire.h"

struct coll_comm;
struct leat_job;
struct msg_agreement;
struct msg_gpu;
struct msg_quest;

/* Sizes and thresholds; from the settings, or a test's. */
struct msg_tuning {
    uint64_t budget_bytes;
    uint32_t ring_slots;      /* a power of two */
    uint32_t ring_bulk_bytes; /* a power of two */
    uint32_t fragment_bytes;
    uint32_t eager_bytes;     /* largest message sent without announcing, by ring, to a neighbour */
    uint32_t eager_hop_bytes; /* so much more for each further hop (net->ops->distance) */
    uint32_t eager_most;      /* to anybody; set by msg_engine_open */
    uint32_t direct_bytes;    /* smallest announced message copied directly rather than by pipe */
    uint32_t share_bytes;     /* smallest one that both sides copy at once */
    uint32_t chunk_bytes;     /* of direct copies */
    uint32_t get_bytes;       /* likewise, where they take time; 0: the same */
    uint32_t pipe_bytes;      /* a power of two */
    uint32_t tree_bytes;      /* chunks of streams along trees of a torus */
    uint32_t chain_bytes;     /* and along the chain of a broadcast; 0: the algorithm's own */
    uint32_t part_bytes;    /* messages that a part in a ring is cut into; 0: the buffer's chunks */
    uint32_t queue_window;  /* packets to a peer that may be unacknowledged */
    uint32_t promote_after; /* messages by queue before a peer is given a ring */
    uint32_t ring_limit;    /* peers with rings, at most */
    uint32_t handle_limit;  /* announced sends and matched receives at a time */
    uint32_t staging_bytes; /* that the pool of staging needs beside a pipe */
};

/* What a job has before its settings: budget and ring limit are to be filled in, and thresholds of
 * eager and shared messages. */
static inline struct msg_tuning msg_tuning_usual(void)
{
    return (struct msg_tuning){.ring_slots = 256,
                               .ring_bulk_bytes = 64 << 10,
                               .fragment_bytes = 4 << 10,
                               .direct_bytes = 4096,
                               .chunk_bytes = 256 << 10,
                               .pipe_bytes = 128 << 10,
                               .tree_bytes = 16 << 10,
                               .queue_window = 8,
                               .promote_after = 2,
                               .handle_limit = 4096};
}

enum ring_out_state {
    OUT_NONE,
    OUT_GRANTED, /* a ring was offered; what is in flight by queue comes first */
    OUT_OPEN,
    OUT_CLOSING, /* END has to be written */
    OUT_ENDING   /* END is written, ENDED has not come */
};

enum ring_in_state {
    IN_NONE,
    IN_GRANTED, /* offered, SWITCH has not come */
    IN_OPEN,
    IN_REVOKED /* asked back, END has not come */
};

/* What is owed to a peer. */
enum peer_todo {
    TODO_SEND = 1 << 0,   /* its list has messages that could go */
    TODO_ANSWER = 1 << 1, /* ACCEPT, or REJECT where `rejecting` */
    TODO_RESUME = 1 << 2,
    TODO_GRANT = 1 << 3,
    TODO_SWITCH = 1 << 4,
    TODO_REVOKE = 1 << 5,
    TODO_ENDED = 1 << 6,
    TODO_CREDIT = 1 << 7,
    TODO_HOLDING = 1 << 8,
    TODO_FIND = 1 << 9,
    TODO_FOUND = 1 << 10, /* FOUND, ABSENT or BEHIND, as a new look tells */
    TODO_TAKE = 1 << 11,  /* TAKE, or LEAVE */
    TODO_LOOK = 1 << 12,
    TODO_GIVE = 1 << 13,
    TODO_END = 1 << 14,
    TODO_LOST = 1 << 15 /* it is gone, and what waits for it has to end */
};

enum peer_flags {
    PEER_HOLDS = 1 << 0,  /* receiving: messages of this peer are held back (there, or in its
                             ring) */
    PEER_HELD = 1 << 1,   /* sending: it asked us to hold back what goes by queue */
    PEER_FROZEN = 1 << 2, /* sending: a message was found; none may go until TAKE or LEAVE */
    PEER_ABSENT = 1 << 3, /* sending: it was told that we have none; LOOK is due for new ones */
    PEER_LOST = 1 << 4,
    PEER_REJECTING = 1 << 5, /* receiving: the next messages by queue are dropped */
    PEER_TOLD = 1 << 6,      /* sending: it knows that we hold back, for want of handles */
    PEER_SHORT = 1 << 7,     /* receiving: it said so */
    PEER_GETS = 1 << 10,     /* receiving: its memory can be read by bulk_get */
    PEER_ASKED = 1 << 11,    /* sending: a question came while it was frozen */
    PEER_NONSENSE = 1 << 12, /* it has sent what cannot be: nothing of it is read any more */
    PEER_USED = 1 << 8,      /* the record is in use */
    PEER_TODO = 1 << 9       /* is in the list of peers with something to do */
};

/* A peer in use. Everything that is larger or rarer lies elsewhere: this is what a peer costs. */
struct msg_peer {
    uint32_t chain; /* slab: next free, or next in the index's chain */
    int32_t rank;
    struct msg_request *pending_tail; /* circular list of sends, the head is tail->next */
    uint32_t todo_next;
    uint16_t todo;              /* enum peer_todo */
    uint16_t flags;             /* enum peer_flags */
    uint16_t ring_out, ring_in; /* index in the engine's tables; 0: none */
    uint8_t out_state, in_state;
    uint8_t in_flight;         /* packets that are not acknowledged: the list's first ones */
    uint8_t arrivals;          /* messages by queue, up to promote_after */
    uint32_t send_sequence;    /* of the next new packet */
    uint32_t receive_sequence; /* of the next packet to accept */
};

_Static_assert(sizeof(struct msg_peer) <= 48, "a peer in use costs 48 bytes and its index");

/* The credits of a ring, in its sender's memory: the receiver writes them, never less than before.
 */
struct msg_credit {
    uint64_t slots, bulk_bytes; /* read so far */
    uint64_t unused[6];
};

struct msg_ring_out {
    struct msg_slot *slots; /* mapped, or NULL: by put */
    uint8_t *bulk;
    const uint32_t *asleep; /* the receiver's, or NULL */
    uint32_t eager_bytes;   /* to this peer */
    uint32_t large_most;    /* of a put_large to it; 0: by put */
    uint32_t large_total;   /* of a message that goes so, in one piece or several */
    uint32_t peer;          /* slab index */
    struct msg_credit *credit;
    struct msg_token credit_token, token;
    uint64_t head, bulk_head;       /* written so far */
    uint64_t slots_read, bulk_read; /* last looked at in credit */
};

struct msg_ring_in {
    struct msg_slot *slots;
    uint8_t *bulk;
    struct msg_credit *credit; /* the sender's, mapped, or NULL: by put */
    struct msg_token credit_token, token;
    uint64_t tail, bulk_tail; /* read so far */
    uint64_t slots_told, bulk_told;
    struct msg_request *partial;            /* fragments go on here, */
    struct msg_unexpected *partial_message; /* or here */
    uint64_t last_used;                     /* engine->ticks */
    uint32_t peer;                          /* slab index */
    uint32_t held;                          /* the slot at tail found no room */
    uint32_t due; /* unmapped: 1 credit is owed, and a large put may take it along; 2 no longer */
};

struct msg_handle {
    struct msg_request *request;
    uint32_t generation, next_free;
};

/* Counts for leat_stats_read, by protocol. */
struct msg_counts {
    uint64_t inlined, bulk, queued, announced, direct, shared, piped; /* messages sent or fetched */
    uint64_t held, found, promoted, given_back;
    uint64_t gpu_small, gpu_direct, gpu_staged; /* with memory of a GPU, by way */
    uint64_t bytes_sent, bytes_received;
};

/* What was said of a communicator that this rank has not made yet (broken.c). */
struct msg_broken {
    uint32_t context, number;
    int32_t rank, error;
};

#define MSG_NONSENSE_BYTES 200
#define MSG_BROKEN_EARLY   8

struct msg_engine {
    struct leat_job *job; /* NULL in tests without one */
    struct msg_net *net;
    struct msg_memory *memory; /* the network's, or NULL */
    struct msg_gpu *gpu;       /* NULL: the job's device is none */
    struct msg_tuning tuning;
    struct msg_pools pools;
    struct msg_matcher matcher;
    struct msg_slab peers; /* struct msg_peer */
    uint32_t *index;       /* hash of ranks to slab indices */
    uint32_t index_count;
    uint32_t todo_head, todo_tail;
    struct msg_ring_out **ring_out; /* [ring_capacity + 1] */
    struct msg_ring_in **ring_in;
    uint32_t ring_out_count, ring_in_count; /* highest index in use */
    uint32_t rings_live;
    struct msg_handle *handle;
    uint32_t handle_count, handle_free, handles_live;
    struct msg_request *rendezvous; /* whose bytes this rank moves; circular, by next, previous */
    struct msg_schedule *schedules;
    leat_comm *world, *comms;
    struct coll_comm *tellers; /* communicators that others have to be told something of */
    uint64_t rendezvous_count;
    struct msg_shares *shares;
    uint64_t spin_ns; /* how long a wait spins now */
    bool crowded;     /* more ranks than cores: waiting gives the core away at once */
    bool mapped;      /* the network gives addresses of peers' memory: see msg_maps */
    struct msg_hold *hold;
    uint32_t lost_count; /* peers that are gone */
    uint32_t polls;      /* looks without a deadline, for a look at the clock now and then */
    uint64_t alive_ns;   /* when peers are asked after again */
    uint32_t holding;    /* peers whose messages are held back */
    uint32_t next_context;
    uint64_t now_ns, ticks;
    uint64_t events;   /* things that happened: tells a waiter whether progress made any */
    uint64_t finished; /* requests so far: without a new one most schedules stand still */
    struct msg_counts counts;
    uint32_t last_peer;              /* of the last lookup */
    int last_waited;                 /* rank of the last receive that named one */
    int nonsense_rank;               /* who first sent what cannot be, */
    char *nonsense;                  /* [MSG_NONSENSE_BYTES], and what that was; NULL: nobody has */
    struct msg_broken *broken_early; /* [MSG_BROKEN_EARLY], or NULL */
    uint32_t broken_count;           /* so far, those that were overwritten included */
    uint32_t refused;                /* sends and puts that the network had no room for */
    uint64_t sent, received;         /* packets, and puts that were sent; not the search's own */
    uint64_t wait_serial;            /* waits that took long enough for a look at the clock */
    struct msg_quest *quest;         /* deadlock.c's, or NULL */
    struct msg_agreement *agreement; /* survivors.c's, while it runs */
};

struct leat_comm {
    struct msg_engine *engine;
    leat_comm *next;
    uint32_t context; /* even: messages; odd: collectives */
    int rank, rank_count;
    int32_t *group;       /* job ranks, or NULL: the same numbers */
    uint32_t collectives; /* so far: their tags */
};

static inline int msg_comm_job_rank(const leat_comm *comm, int rank)
{
    return comm->group ? comm->group[rank] : rank;
}
/* The communicator's rank of a job rank; -1: not in it. */
int msg_comm_rank_of(const leat_comm *comm, int job_rank);

/* Whether the network gives addresses of that rank's memory. */
static inline bool msg_maps(const struct msg_engine *engine, int rank)
{
    return engine->mapped && (!engine->net->beside || engine->net->beside(engine->net, rank));
}

/* ---- engine.c ---- */
/* Whether the tuning's budget suffices for a job of that size and such a receive queue. */
bool msg_budget_fits(const struct msg_tuning *tuning, int rank_count, uint64_t queue_bytes);
/* The engine owns net from then on, also on failure. -ENOBUFS the budget is too small (the smallest
 * is named); -ENOMEM. */
int msg_engine_open(struct msg_net *net, const struct msg_tuning *tuning,
                    struct msg_engine **engine);
void msg_engine_close(struct msg_engine *engine);
/* The only engine: moves everything that can move, blocks nowhere. Returns whether anything did. */
bool msg_progress(struct msg_engine *engine, uint64_t now_ns);

/* ---- p2p.c: the calls below the public ones, for collectives too; ranks are the job's ---- */
void msg_start_send(struct msg_engine *engine, struct msg_request *request, leat_comm *comm,
                    uint32_t context, leat_data data, int peer, int tag, bool synchronous);
void msg_start_receive(struct msg_engine *engine, struct msg_request *request, leat_comm *comm,
                       uint32_t context, leat_data data, int peer, int tag);

/* Takes a send or receive back as far as can be. 0: it is finished with -ECANCELED, and the engine
 * will not touch it or its data again; -EALREADY: its bytes are being moved, it ends by itself. */
int msg_drop(struct msg_request *request);

/* Sets the status and makes the request finished. */
void msg_finish(struct msg_request *request, int error);
static inline bool msg_finished(const struct msg_request *request)
{
    return request->state == STATE_FINISHED;
}

/* ---- coll.c ---- */
/* Moves every schedule on; called by msg_progress while there are any. */
void msg_collective_progress(struct msg_engine *engine);
/* Drops the schedules of a communicator, or of all (NULL). */
void msg_collective_abandon(struct msg_engine *engine, const leat_comm *comm);

/* ---- wait.c ---- */
/* Progress and waiting until the request has finished; its error. */
int msg_wait(struct msg_request *request);

/* ---- stats.c ---- */
/* Fills the message layer's members. Another thread may read while the engine runs: whole words,
 * perhaps of different moments. */
void msg_stats_fill(const struct msg_engine *engine, leat_stats *stats);
/* Counts bytes that this rank moved to or from a peer, by path. */
void msg_count(struct msg_engine *engine, int peer, uint64_t bytes);

/* Opens the job's engine at first use. */
int msg_engine_of(struct leat_job *job, struct msg_engine **engine);

#endif
