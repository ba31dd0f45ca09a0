/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated endpoints: a struct msg_net for every rank of a job on a modelled machine.
 *
 * What a rank's engine sends becomes a transfer of the network (network.h) and is there when that
 * says so; what its processor has to do (software, commands, copies, reductions) moves the rank's
 * own clock on, and what it starts later starts at that later time. A rank is run only when
 * something has come for it, at the time at which it came or at which its processor has done with
 * what was before.
 *
 * Large buffers are hollow (msg/memory.h): addresses of a reserved range that nothing touches, with
 * a store (phantom.h) that says what they hold. Rings are memory whose bulk area is touched only by
 * real data; hollow data in it is noted in a store of its own.
 *
 * Advantage: the message engine is the real one, to the last branch. Disadvantage: virtual time
 * goes on only where a cost is modelled; what a processor does between two calls is free.
 */
#ifndef LEAT_SIM_SIM_NET_H
#define LEAT_SIM_SIM_NET_H

#include "msg/memory.h"
#include "msg/net.h"
#include "sim/network.h"
#include "sim/phantom.h"
#include "sim/torus.h"

#define SIM_WORDS       8
#define SIM_NEWS        6
#define SIM_DATA_BYTES  88 /* of a message, in its own record */
#define SIM_QUEUE_LIMIT 2048

enum sim_message_kind {
    SIM_PUT,
    SIM_PACKET,
    SIM_GET,       /* on its way to whoever has the data */
    SIM_GET_DATA,  /* and back with it */
    SIM_WORDS_END, /* an operation of the barrier interface is over */
    SIM_TIMER      /* of the rank itself */
};

/* In the order in which it is read: most messages touch the first three lines. */
struct sim_message {
    struct sim_transfer transfer;
    uint32_t bytes; /* of data */
    uint32_t range_count;
    bool leaves; /* is bulk that has not left its source */
    union {
        struct {
            uint32_t block, generation;
            uint64_t offset[2];
            uint32_t extent[2];
        } put;
        struct {
            const char *remote;
            char *local;
            uint64_t bytes;
            struct msg_transfer *finished;
        } get;
    };
    uint8_t data[SIM_DATA_BYTES];
    uint8_t *more; /* data that does not fit there, or NULL */
    struct sim_range
        *ranges; /* put: what its first piece stands for; NULL: its bytes are in data */
    struct sim_range range;
};

/* Memory of alloc, and what of it is hollow. A ring's bulk area lies apart, so that the slots of
 * many rings share pages. */
struct sim_block {
    char *memory, *far;
    uint64_t bytes, far_from; /* from that byte on it lies at `far` */
    uint32_t generation;
    bool live, news;
    struct sim_store store;
};

struct sim_rank {
    struct msg_net net; /* first: what the engine holds */
    struct msg_memory memory;
    struct sim_fabric *fabric;
    uint64_t cpu_ps;                      /* busy until then; now, while it is run */
    uint64_t wake_ps;                     /* when it is run; SIM_NEVER */
    uint64_t busy_ps;                     /* the processor's time so far */
    uint64_t owed_ps;                     /* the processor's time for what has come since */
    struct sim_message *arrived, *latest; /* packets */
    uint32_t queued;                      /* packets to it, also those on their way */
    uint32_t words_number;                /* operations of the barrier interface so far */
    uint32_t block_count, block_capacity;
    struct sim_block *block;
    uint32_t news_count, news[SIM_NEWS];  /* blocks that were put to; more than SIM_NEWS: any */
    struct sim_store send, receive, kept; /* hollow buffers */
    uint64_t kept_next;
    char *temp; /* the buffer of collectives: hollow or not, as what lies in it */
    uint64_t temp_bytes;
    struct sim_store temp_store;
};

/* Memory that is given out piece by piece, and back at the end only. */
struct sim_arena {
    char *memory;
    uint64_t bytes, used;
    bool dense; /* all of it is touched, so large pages are right */
    struct sim_arena_piece *pieces;
};

/* An operation of the barrier interface. */
struct sim_words {
    uint32_t number, entered;
    uint64_t latest_ps; /* entry */
    enum leat_operation operation;
    enum leat_type type;
    uint64_t bytes;
    uint64_t *value; /* [rank_count][SIM_WORDS] */
    struct sim_words_part {
        void *to;
        struct msg_transfer *finished;
    } * part; /* [rank_count] */
};

struct sim_costs {
    uint64_t send_ps, receive_ps, command_ps, fetch_ps, words_ps;
    double copy_ps, combine_ps; /* a byte */
    uint32_t piggyback_bytes;
    bool push;
};

struct sim_fabric {
    const struct sim_topology *topology;
    const int32_t *node; /* of a rank */
    int rank_count;
    const struct sim_fold *fold; /* the ranks' torus, or NULL */
    struct sim_agenda agenda;
    struct sim_network network;
    struct sim_costs costs;
    struct sim_rank *rank;
    char *hollow; /* the reserved range: 4 parts of hollow_bytes a rank */
    uint64_t hollow_bytes;
    struct sim_arena slots, wide;     /* dense memory, and such that is touched on use, if at all */
    uint64_t ring_bytes, slots_bytes; /* of a ring, and of its slots */
    uint64_t temp_bytes;              /* at least, of the buffer of collectives */
    struct sim_message *free_messages;
    struct sim_message_page *pages;
    struct sim_words words[2];
    void (*run)(void *user, int rank);
    /* Asks for the memory of a rank that will be run soon; NULL: nobody does. */
    void (*fetch)(void *user, int rank);
    void *user;
    uint64_t wakes;
    int error;        /* the first one, with its detail */
    char misuse[256]; /* the first thing that no engine may do */
};

/* Topology and places are the caller's. `hollow_bytes`: the largest hollow buffer; ring_bytes and
 * slots_bytes: what the engines will ask for as a ring, and its beginning that holds the slots.
 * -EINVAL, -ENOMEM. */
int sim_fabric_open(struct sim_fabric *fabric, const struct sim_topology *topology,
                    const int32_t *node, int rank_count, uint64_t hollow_bytes, uint64_t ring_bytes,
                    uint64_t slots_bytes);
/* After all its endpoints were closed. */
void sim_fabric_close(struct sim_fabric *fabric);

/* The endpoint of a rank; ends by its own close. */
static inline struct msg_net *sim_fabric_net(struct sim_fabric *fabric, int rank)
{
    return &fabric->rank[rank].net;
}

/* Has the rank run at that time or as soon as its processor is free. The message that will do it,
 * a SIM_TIMER, or NULL: no memory. */
struct sim_message *sim_fabric_wake(struct sim_fabric *fabric, int rank, uint64_t at_ps);
/* Goes on by one window; ranks are run by fabric->run, with fabric->rank[].cpu_ps as the time,
 * which their calls move on. False: nothing is under way any more, or fabric->error is set. */
bool sim_fabric_step(struct sim_fabric *fabric);

/* Hollow buffers of a rank, of hollow_bytes each. */
static inline void *sim_hollow_send(const struct sim_fabric *fabric, int rank)
{
    return fabric->hollow + (uint64_t)rank * 4 * fabric->hollow_bytes;
}
static inline void *sim_hollow_receive(const struct sim_fabric *fabric, int rank)
{
    return fabric->hollow + ((uint64_t)rank * 4 + 1) * fabric->hollow_bytes;
}

static inline void sim_spend(struct sim_rank *rank, uint64_t ps)
{
    rank->cpu_ps += ps;
    rank->busy_ps += ps;
}

/* ---- sim_message.c ---- */
struct sim_message *sim_message_take(struct sim_fabric *fabric);
void sim_message_give(struct sim_fabric *fabric, struct sim_message *message);
/* Room for its data; NULL: no memory. */
uint8_t *sim_message_data(struct sim_message *message, uint32_t bytes);
void sim_messages_free(struct sim_fabric *fabric);
/* What a message does where and when it arrives. */
void sim_message_arrive(struct sim_fabric *fabric, struct sim_message *message);

/* ---- sim_memory.c ---- */
int sim_memory_open(struct sim_fabric *fabric);
void sim_memory_close(struct sim_fabric *fabric);
void sim_memory_hook(struct sim_rank *rank);
int sim_memory_alloc(struct sim_rank *rank, uint64_t bytes, void **address, uint32_t *block);
static inline char *sim_block_at(const struct sim_block *block, uint64_t offset)
{
    return offset < block->far_from ? block->memory + offset
                                    : block->far + (offset - block->far_from);
}
void sim_memory_free(struct sim_rank *rank, void *address);
void sim_memory_release(struct sim_rank *rank);
/* Where the address is known to be hollow, at least for now: its store and place there; NULL: no.
 */
struct sim_store *sim_memory_hollow(const struct sim_rank *rank, const void *address,
                                    uint64_t bytes, uint64_t *place);
/* Moves bytes, hollow or not. */
void sim_memory_move(struct sim_rank *to_rank, void *to, const struct sim_rank *from_rank,
                     const void *from, uint64_t bytes);
void sim_misuse(struct sim_fabric *fabric, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- sim_words.c ---- */
int sim_words_open(struct sim_fabric *fabric);
void sim_words_close(struct sim_fabric *fabric);
int sim_words_reduce(struct msg_net *net, enum leat_operation operation, enum leat_type type,
                     const void *in, void *out, uint64_t count, struct msg_transfer *finished);

#endif
