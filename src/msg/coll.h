/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives as schedules: resumable functions over a few requests and a bounded buffer.
 *
 * A schedule is one running collective of one rank. Its algorithm is a list of step functions that
 * go on where they last had to wait (COLL_AWAIT); what they remember lies in the schedule, so its
 * size depends neither on ranks nor on counts, and any number of ranks can be run by one thread.
 * Data too large for the buffer passes through it in chunks, whose size all ranks of a communicator
 * agreed on when it was made; the order in which values are combined never depends on it.
 * Advantage: memory is known beforehand. Disadvantage: steps are read less easily than threads.
 *
 * Every communicator owns one schedule and its buffer, so its oldest collective always runs; later
 * ones take memory from the pool of work, or stay in their callers' requests until there is some.
 */
#ifndef LEAT_MSG_COLL_H
#define LEAT_MSG_COLL_H

#include "msg/engine.h"

#define COLL_REQUESTS   16
#define COLL_SLOTS      4 /* chunks of the buffer, and of a stream's messages under way */
#define COLL_WORLD_TEMP (512 * 1024)
#define COLL_LEAST_TEMP 1024

/* What coll_trinary.c takes beyond every schedule's own. */
#define COLL_TREE_REQUESTS 56
#define COLL_TREE_STATE    512

/* A call, checked. */
struct coll_call {
    uint8_t kind, type, operation, in_place; /* in place: send is receive */
    uint8_t algorithm;                       /* place in its kind's table + 1; 0: to be chosen */
    uint8_t ordered;                         /* a user operation that must see lower ranks first */
    int root;
    uint64_t count, element; /* bytes of one */
    const uint8_t *send;
    uint8_t *receive;
    const leat_user_operation *user;
    const uint64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
};

struct msg_schedule;

enum coll_step_result { COLL_WAITING, COLL_DONE };
typedef enum coll_step_result coll_step(struct msg_schedule *schedule);

enum coll_buffer {
    BUFFER_NONE,
    BUFFER_CHUNKS, /* slots of a chunk each */
    BUFFER_BLOCKS, /* the blocks of all ranks at once: for what is small */
    BUFFER_TREES   /* chunks, and the requests and state of coll_trinary.c */
};

struct coll_algorithm {
    const char *name;
    coll_step *phase[3]; /* NULL after the last one */
    uint8_t buffer;      /* enum coll_buffer */
    bool unordered;      /* not for operations that need the order of ranks */
};

/* Bytes to a peer, in messages of `chunk` bytes (the last one may be shorter). */
struct coll_out {
    const uint8_t *next;
    uint64_t left, chunk;       /* bytes not started */
    uint64_t started, finished; /* messages */
    int peer;
    uint8_t first, lane; /* request */
};

/* Bytes from a peer. */
struct coll_in {
    uint8_t *next; /* NULL: into the buffer's slots, in turn */
    uint64_t left, chunk;
    uint64_t posted, taken;
    int peer;
    uint8_t first, lane;
};

enum coll_exchange_mode {
    EXCHANGE_PLAIN,  /* target = received */
    EXCHANGE_FOLD,   /* target = own OP received, in the order of `lower` */
    EXCHANGE_REPLACE /* as plain, where target is what is being sent */
};

/* One to a peer and one from a peer, at the same time. */
struct coll_exchange {
    struct coll_out out;
    struct coll_in in;
    uint8_t *target;
    const uint8_t *own;
    uint8_t mode;
    bool lower; /* the received values are of lower ranks */
};

/* Walks the blocks of a call that has a size a rank without adding all up each time. */
struct coll_cursor {
    const uint64_t *counts, *offsets;
    uint64_t count, element;
    uint64_t at, total; /* elements before `rank`; of all ranks, once known */
    int rank, rank_count;
};

struct msg_schedule {
    struct msg_schedule *next;
    leat_comm *comm;
    struct msg_engine *engine;
    struct msg_request *request; /* the caller's */
    const struct coll_algorithm *algorithm;
    struct coll_call call;
    int rank, rank_count;
    uint32_t number; /* of the collective in its communicator */
    uint32_t phase;
    int point;            /* where the step function goes on */
    int error;            /* of the first request that failed */
    int failed_peer;      /* its peer, a rank of the job; or -1 */
    uint64_t active;      /* requests under way, a bit each */
    uint8_t *temp;        /* NULL: algorithm does without */
    uint64_t chunk;       /* bytes, whole elements; the same at all ranks */
    uint32_t slots;       /* of `chunk` bytes in temp */
    void *lent;           /* temp is a GPU's memory, lent by gpu.c; or NULL */
    uint64_t extra_bytes; /* taken from the pool for this schedule; 0: the communicator's own */

    /* What step functions remember. */
    int i, j, mask, peer;
    uint64_t from, bytes, other, other_bytes;
    uint8_t *at;
    const uint8_t *current;
    struct coll_exchange exchange;
    struct coll_out out;
    struct coll_in in;
    struct coll_cursor sends, receives;
    struct {
        uint32_t children, lower; /* levels at which this rank receives; so, from lower ranks */
        int child_count, parent;  /* -1: none */
        uint64_t posted, taken, sent, finished, chunks;
    } tree;
    void *state;   /* COLL_TREE_STATE bytes, zeroed; NULL: the algorithm needs no more than this */
    uint64_t seen; /* engine->finished when it was run last */
    int slot_count;
    struct msg_request *slot; /* own_slot, or [COLL_TREE_REQUESTS] */
    struct msg_request own_slot[COLL_REQUESTS];
};

/* A communicator with what its collectives need. */
struct coll_comm {
    leat_comm comm;
    int32_t *sorted;     /* positions in group by rising job rank; NULL: the group rises itself */
    uint64_t own_bytes;  /* of this allocation */
    uint64_t temp_bytes; /* the same at all ranks */
    uint8_t *temp;
    struct msg_request *parked, *parked_last; /* not begun, in order, by `next` */
    uint64_t words_started, words_ended;      /* collectives by the fixed-function path */
    struct coll_comm *next_teller;
    /* broken.c, a bit a rank: who has to be told that it is broken; and that this rank reads
     * nothing of its collectives any more; who has said that. */
    uint64_t to_tell, to_leave, left;
    uint32_t running;
    uint32_t broken_from; /* the first collective that fails */
    int32_t broken_rank, broken_error;
    uint32_t agreements; /* of survivors, so far */
    int watched;         /* the rank whose life is looked after next */
    bool broken, telling;
    bool placed, beside; /* coll_words.c: whether all ranks have each other's memory mapped, once
                            that was looked for */
    bool reserve_taken;
    bool freed; /* by its owner, while a collective that failed was still being withdrawn */
    struct msg_schedule reserve;
};

static inline struct coll_comm *coll_of(const leat_comm *comm)
{
    return (struct coll_comm *)(uintptr_t)comm;
}

/* A step function is COLL_BEGIN ... COLL_END; at COLL_AWAIT it returns until the condition holds,
 * so whatever is needed afterwards has to be in the schedule. */
#define COLL_BEGIN(schedule)                                                                       \
    switch ((schedule)->point) {                                                                   \
    case 0:
#define COLL_AWAIT(schedule, condition)                                                            \
    do {                                                                                           \
        (schedule)->point = __LINE__;                                                              \
        __attribute__((fallthrough));                                                              \
    case __LINE__:                                                                                 \
        if (!(condition))                                                                          \
            return COLL_WAITING;                                                                   \
    } while (0)
#define COLL_END(schedule)                                                                         \
    }                                                                                              \
    return COLL_DONE

#define COLL_BIT(slot) (UINT64_C(1) << (slot))
#define COLL_ALL       UINT64_MAX

/* ---- coll.c ---- */
/* What the job's own communicator takes from POOL_WORK, for the engine to reckon with. */
uint64_t msg_collective_reserve_bytes(void);
/* "allreduce (ring) waits for rank 3 to send", for a wait that lasts; or, of a finished one, which
 * it was. */
void msg_collective_describe(const struct msg_request *request, char *text, size_t bytes);

/* For whom an unfinished one waits, a rank of the job, or -2: for more than one, or for itself; its
 * kind in *kind. Its number in its communicator. */
int msg_collective_awaits(const struct msg_request *request, int32_t *kind);
uint32_t msg_collective_number(const struct msg_request *request);

/* ---- coll_words.c: what a few words of shared memory can do ---- */
/* Whether a call goes that way; all ranks find the same. */
bool coll_words_fit(const leat_comm *comm, const struct coll_call *call);
enum coll_step_result coll_words(struct msg_schedule *schedule);
/* Looks for a short while, and for nothing else; whether it can go on. False for other
 * algorithms. */
bool coll_words_spin(struct msg_schedule *schedule);
/* It is over: the next one may go on, also after a failure. */
void coll_words_end(struct msg_schedule *schedule);
/* " rank 1, 3 to call for it": whom one that goes this way waits for. */
void coll_words_describe(const struct msg_schedule *schedule, char *text, size_t bytes);
/* The first of those, or -2. */
int coll_words_awaits(const struct msg_schedule *schedule);

/* ---- coll_trinary.c ---- */
/* Whether the communicator's ranks are a torus with trees. */
bool coll_trees_fit(const leat_comm *comm);

/* ---- broken.c ---- */
/* From this number on the communicator's collectives fail, here and at all ranks, because of that
 * rank of the job. */
void coll_break(leat_comm *comm, uint32_t number, int rank, int error);
bool coll_is_broken(const leat_comm *comm, uint32_t number);
/* The same, where that is why a schedule has failed. */
void coll_failed(struct msg_schedule *schedule);
/* The communicator with that number for messages, or NULL. */
leat_comm *coll_comm_find(const struct msg_engine *engine, uint32_t context);
/* Whether what this failed collective sends to a rank of the job may be taken back: nobody reads it
 * any more. */
bool coll_may_take_back(const struct msg_schedule *schedule, int job_rank);
/* A new communicator: what was said of it before it was made. */
void coll_break_early(leat_comm *comm);

/* ---- comm.c ---- */
/* Frees every communicator and schedule; instead of msg_collective_abandon when an engine ends. */
void msg_comms_close(struct msg_engine *engine);
/* Gives its memory back if its owner has freed it and nothing of it runs any more. */
void coll_comm_release(leat_comm *comm);

/* ---- coll_check.c ---- */
/* Checks the arguments and fills *call. 0, -EINVAL or -EOVERFLOW. */
int coll_check(const leat_comm *comm, const leat_collective_options *options,
               struct coll_call *call);
uint64_t coll_element_bytes(const struct coll_call *call);
const char *coll_kind_name(enum leat_collective_kind kind);
static inline bool coll_reduces(unsigned kind)
{
    return kind == LEAT_REDUCE || kind == LEAT_ALLREDUCE || kind == LEAT_SCAN ||
           kind == LEAT_EXCLUSIVE_SCAN || kind == LEAT_REDUCE_SCATTER;
}

/* ---- coll_choose.c ---- */
/* The one place where an algorithm is chosen. */
const struct coll_algorithm *coll_choose(const leat_comm *comm, const struct coll_call *call);
/* Place + 1 of a name in its kind's table; 0 and detail: no such name. */
int coll_algorithm_find(enum leat_collective_kind kind, const char *name);
/* The names of a kind's algorithms. */
const char *const *msg_algorithms(enum leat_collective_kind kind, int *count);

/* ---- coll_stream.c ---- */
/* Starts a message; its request must not be under way. `peer` is a rank of the communicator; lanes
 * 0 to 7 are matched apart. */
void coll_send(struct msg_schedule *schedule, int slot, int peer, int lane, const void *from,
               uint64_t bytes);
/* The same, announced and read by the receiver whatever its size: for streams, where latency does
 * not matter and a copy does. */
void coll_send_direct(struct msg_schedule *schedule, int slot, int peer, int lane, const void *from,
                      uint64_t bytes);
void coll_receive(struct msg_schedule *schedule, int slot, int peer, int lane, void *to,
                  uint64_t bytes);
/* Whether all requests of the mask are finished (notes errors; never true once there is one). */
bool coll_finished_slow(struct msg_schedule *schedule, uint64_t mask);
static inline bool coll_finished(struct msg_schedule *schedule, uint64_t mask)
{
    return !(schedule->active & mask) || coll_finished_slow(schedule, mask);
}
/* Streams use COLL_SLOTS requests from `first` on. */
void coll_out_open(struct coll_out *out, int first, int lane, int peer, const void *from,
                   uint64_t bytes, uint64_t chunk);
/* Starts messages that end within the first `ready` bytes of what is left, sees to those under
 * way; true: all of the stream is sent. */
bool coll_out_move(struct msg_schedule *schedule, struct coll_out *out, uint64_t ready);
void coll_in_open(struct coll_in *in, int first, int lane, int peer, void *to, uint64_t bytes,
                  uint64_t chunk);
/* Posts receives. Returns where the next message that has come lies, its size in *bytes; NULL: not
 * yet, or no more (coll_in_ended). coll_in_take lets its slot be used again. */
uint8_t *coll_in_next(struct msg_schedule *schedule, struct coll_in *in, uint64_t *bytes);
void coll_in_take(struct coll_in *in);
static inline bool coll_in_ended(const struct coll_in *in)
{
    return !in->left && in->taken == in->posted;
}
static inline bool coll_out_ended(const struct coll_out *out)
{
    return !out->left && out->finished == out->started;
}

/* target = own OP received, where `received` may be target itself and own may be target. */
void coll_fold(struct msg_schedule *schedule, uint8_t *target, const uint8_t *own,
               uint8_t *received, uint64_t bytes, bool lower);
/* Whether a fold may receive straight into target. */
static inline bool coll_fold_direct(const struct msg_schedule *schedule, const uint8_t *target,
                                    const uint8_t *own, bool lower)
{
    return own != target && (schedule->call.operation != LEAT_OPERATION_USER || !lower);
}
/* Sets up schedule->exchange; chunk 0: one message each way. Zero bytes: nothing that way. */
void coll_exchange_open(struct msg_schedule *schedule, int to, const void *from, uint64_t bytes,
                        int source, void *target, uint64_t target_bytes, uint64_t chunk);
void coll_exchange_fold(struct msg_schedule *schedule, const void *own, bool lower);
void coll_exchange_replace(struct msg_schedule *schedule);
/* Moves it on; true: over. */
bool coll_exchange(struct msg_schedule *schedule);

/* Blocks: bytes and offset in bytes of a rank's. */
void coll_cursor_open(struct coll_cursor *cursor, const struct msg_schedule *schedule,
                      const uint64_t *counts, const uint64_t *offsets);
uint64_t coll_block_offset(struct coll_cursor *cursor, int rank);
uint64_t coll_block_bytes(const struct coll_cursor *cursor, int rank);
/* Copies unless that is the same place, or nothing. */
void coll_copy(const struct msg_schedule *schedule, void *to, const void *from, uint64_t bytes);
/* The same within one buffer, towards its beginning: the places may overlap. */
void coll_move(const struct msg_schedule *schedule, void *to, const void *from, uint64_t bytes);
/* inout = in OP inout, of the call's operation. */
void coll_combine(const struct msg_schedule *schedule, const void *in, void *inout, uint64_t bytes);
/* What one rank's values are where there is nothing to combine them with. */
void coll_combine_alone(const struct msg_schedule *schedule, void *values, uint64_t bytes);
/* The call's bytes cut for `parts` ranks: where part `index` starts. */
uint64_t coll_part(const struct msg_schedule *schedule, int index, int parts);
static inline int coll_rank(const struct msg_schedule *schedule, int rank)
{
    return rank < 0                       ? rank + schedule->rank_count
           : rank >= schedule->rank_count ? rank - schedule->rank_count
                                          : rank;
}

/* This rank counted from the root, and back. */
static inline int coll_from_root(const struct msg_schedule *schedule)
{
    return coll_rank(schedule, schedule->rank - schedule->call.root);
}
static inline int coll_to_rank(const struct msg_schedule *schedule, int from_root)
{
    int rank = from_root - schedule->rank_count + schedule->call.root;
    return rank < 0 ? rank + schedule->rank_count : rank;
}
/* In a binomial tree: how far below it a rank's parent is, and the size of its subtree, where that
 * does not end earlier. For the root a power of two that is not below the ranks. */
static inline int coll_low_bit(const struct msg_schedule *schedule, int from_root)
{
    int bit = 1;
    while (bit < schedule->rank_count && !(from_root & bit))
        bit <<= 1;
    return bit;
}

/* ---- step functions ---- */
coll_step coll_alone;
coll_step coll_barrier_dissemination;
coll_step coll_broadcast_binomial, coll_broadcast_chain, coll_broadcast_scatter;
coll_step coll_broadcast_trinary, coll_allreduce_trinary;
coll_step coll_reduce_binomial;
coll_step coll_allreduce_doubling, coll_allreduce_halving;
coll_step coll_allreduce_ring, coll_parts_ring;
coll_step coll_allgather_ring, coll_allgather_bruck;
coll_step coll_gather_linear, coll_gather_binomial, coll_scatter_linear, coll_scatter_binomial;
coll_step coll_alltoall_spread, coll_alltoall_exchange;
coll_step coll_scan_chain, coll_scan_doubling;
coll_step coll_reduce_scatter_pairwise;

#endif
