/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and collectives within a memory budget.
 *
 * A message goes from a rank to a rank of a communicator under a tag and is matched by MPI's rules:
 * messages of one sender in one communicator are matched in the order in which they were sent.
 * Everything the layer holds for a rank stays within LEAT_MSG_BUDGET bytes, whatever the number of
 * ranks, of messages in flight or of messages nobody has asked for yet: at the bound senders wait.
 * The requests of unfinished calls and users' buffers are the caller's and do not count.
 *
 * Progress is made inside these functions only. A rank that never calls them may make others wait,
 * and nothing else.
 *
 * Deadlines: a message may be long in coming by right, so there is no time-out unless the caller
 * gives one; a wait that lasts longer than the job's time-out reports whom it waits for, again and
 * again, and fails only when that peer has died (-ECONNRESET), or when all ranks of the job are
 * proven to wait, without a deadline, for what none of them will send. Then all these waits end
 * with -EDEADLK, and the detail says who waits for whom; what was waited for is taken back, and
 * collectives of a communicator in which one ended so fail from then on.
 *
 * Threads: as leat.h says: all calls for a job, its communicators and requests come from one thread
 * at a time.
 *
 * Buffers may lie in memory of a GPU wherever the job's device is one (LEAT_DEVICE=cuda): leat
 * finds that out by the address, for each side and rank by itself. What the caller's streams do
 * with a buffer has to be over before the call, and the data is there when the request has
 * finished. The calling thread's current GPU may be another afterwards.
 *
 * The algorithms follow Sumimoto et al., "The design of the MPI library of the K computer" (SACSIS
 * 2012): rings written by the sender and polled in memory for the peers in use, one shared receive
 * queue for all others, rendezvous without copies.
 */
#ifndef LEAT_MSG_H
#define LEAT_MSG_H

#include <leat/leat.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_ANY_RANK (-1)
#define LEAT_ANY_TAG  (-1)

/* ---- Data --------------------------------------------------------------------------------- */

#define LEAT_LAYOUT_DIMS 4

/*
 * Where the bytes of a message lie that are not contiguous: blocks of `block_bytes` at strides, up
 * to LEAT_LAYOUT_DIMS dimensions, the first one varying slowest. Strides are in bytes, may be
 * negative and may overlap on the sending side only. Where that cannot describe it, `piece` finds
 * the bytes instead. Owned by the caller, who keeps it unchanged until the request has finished.
 */
typedef struct leat_layout {
    size_t size; /* sizeof(leat_layout) */
    uint64_t block_bytes;
    int dim_count;
    struct {
        uint64_t count;
        int64_t stride_bytes;
    } dim[LEAT_LAYOUT_DIMS];
    /* Sets *address to byte `offset` of the message and returns how many bytes from there on lie
     * together, at least 1. Called in any order; must not call leat. NULL: the blocks above. */
    uint64_t (*piece)(void *user, void *address, uint64_t offset, void **at);
    void *user;
} leat_layout;

/* The bytes of a message. A sender's are not changed. */
typedef struct leat_data {
    void *address;             /* any memory of the host or, on LEAT_DEVICE=cuda, of a GPU */
    uint64_t bytes;            /* of the message, without gaps */
    const leat_layout *layout; /* NULL: contiguous */
} leat_data;

/* ---- Requests ----------------------------------------------------------------------------- */

typedef struct leat_status {
    int source;     /* in the communicator's ranks */
    int tag;        /* of the message */
    int error;      /* 0 or what the call would have returned */
    uint64_t bytes; /* received (or, from a probe, of the message) */
} leat_status;

/*
 * An unfinished call: the caller's memory, which has to stay where it is until a wait or test has
 * said that it is finished. `status` is valid from then on. Need not be initialised: all zero is
 * "no request", which counts as finished. leat_close drops what is unfinished: it must not be
 * waited for afterwards.
 */
typedef struct leat_request {
    leat_status status;
    uint64_t opaque[24];
} leat_request;

/*
 * Waits for requests. LEAT_WAIT_ALL: all of them; LEAT_WAIT_ANY: the first one found finished, its
 * place in *index (may be NULL), and that request becomes "no request", so that the next wait finds
 * another. NULL pointers among `requests` and no-requests are passed over; with none left both
 * modes return 0 (any: *index = count). `timeout_s` < 0: no deadline; 0: only looks and makes
 * progress.
 *
 * The error of a finished request comes back, of the first in order for LEAT_WAIT_ALL, which waits
 * for the others all the same. Each request's own is in its status.
 * -ETIMEDOUT the deadline passed; the requests are still under way (the detail says for whom)
 * -ECONNRESET the peer of a request died or left; -EPROTO it said what cannot be (both named);
 * -EMSGSIZE a receive was too small; -EDEADLK as above, for all requests that were waited for
 */
LEAT_API int leat_request_wait(leat_request *const *requests, size_t count,
                               enum leat_wait_mode mode, double timeout_s, size_t *index);

/*
 * Takes back a receive that has not been matched. 0: it is finished with -ECANCELED, nothing was
 * received. -EALREADY: it is matched or finished and has to be waited for. -EINVAL: not a receive.
 */
LEAT_API int leat_cancel(leat_request *request);

/* ---- Communicators ------------------------------------------------------------------------ */

typedef struct leat_comm leat_comm;

enum leat_comm_kind {
    LEAT_COMM_DUPLICATE, /* the same ranks, messages apart */
    LEAT_COMM_COLOR,     /* those with the same color, ordered by key, then by the parent's rank */
    LEAT_COMM_HOST,      /* those that share memory, ordered by key, then by the parent's rank */
    LEAT_COMM_SURVIVORS  /* those that live, in the parent's order; see below */
};

typedef struct leat_comm_options {
    size_t size;
    leat_comm *parent; /* NULL: all ranks of the job */
    enum leat_comm_kind kind;
    int color; /* < 0: takes part, and gets no communicator (NULL) */
    int key;
} leat_comm_options;

/*
 * Makes a communicator. `options` NULL: the job's own, of all ranks, made without communication;
 * every such call returns the same one. Otherwise collective over the parent, and blocks.
 * Owned by the caller until leat_comm_free, or until leat_close.
 *
 * LEAT_COMM_SURVIVORS goes past dead ranks: collective over the parent's ranks that live, whatever
 * has become of its collectives; ranks may die meanwhile. All that return 0 have the same members.
 * One of them may have died since: then a collective fails, and the next such call leaves it out.
 * -ENOBUFS LEAT_MSG_BUDGET is too small (the smallest that works is named); -E2BIG survivors of
 * more than 3,584 ranks; -ECONNRESET survivors: the others have lost this rank
 */
LEAT_API int leat_comm_split(leat_job *job, const leat_comm_options *options, leat_comm **comm);

typedef struct leat_comm_info {
    size_t size;
    int rank, rank_count;
    leat_job *job;
} leat_comm_info;

LEAT_API int leat_comm_info_get(const leat_comm *comm, leat_comm_info *info);

/* The job's rank of a communicator's rank, or -EINVAL. */
LEAT_API int leat_comm_job_rank(const leat_comm *comm, int rank);

/* Local. Unfinished requests on it must have been waited for. Safe on NULL and on the job's own,
 * which stays. */
LEAT_API void leat_comm_free(leat_comm *comm);

/* ---- Messages ----------------------------------------------------------------------------- */

enum leat_send_flags {
    LEAT_SEND_SYNCHRONOUS = 1 /* finishes only once a receive has matched it */
};

/*
 * Sends `data` to rank `to` (also to oneself) under `tag` >= 0. `request` NULL: returns once the
 * data may be changed; otherwise at once, and the data belongs to leat until the request finishes.
 * -EINVAL a rank, tag or layout that cannot be (named); -ECONNRESET the peer has died or left
 */
LEAT_API int leat_send(leat_comm *comm, leat_data data, int to, int tag, int flags,
                       leat_request *request);

/*
 * Receives a message from rank `from` (or LEAT_ANY_RANK) under `tag` (or LEAT_ANY_TAG). `status`
 * (may be NULL) is filled when it finishes; with a request that is later, so it has to stay.
 * -EMSGSIZE the message has more bytes than `data`, which holds its beginning; nothing beyond it
 * was touched, and the message is gone
 */
LEAT_API int leat_recv(leat_comm *comm, leat_data data, int from, int tag, leat_status *status,
                       leat_request *request);

/*
 * Looks for a message that a receive with the same arguments would match, and leaves it there.
 * `timeout_s` as in leat_request_wait; -ETIMEDOUT none is there (with 0: none now).
 * `matched` (may be NULL) takes the message out: nobody else will get it, and leat_recv_matched
 * must be called on it.
 */
LEAT_API int leat_probe(leat_comm *comm, int from, int tag, double timeout_s, leat_status *status,
                        leat_request *matched);

/* Receives the message that leat_probe took out. `wait` not 0: returns once it is finished;
 * otherwise at once, and `matched` is then the request to wait for. Errors as leat_recv. */
LEAT_API int leat_recv_matched(leat_data data, leat_status *status, leat_request *matched,
                               int wait);

/* ---- Collectives -------------------------------------------------------------------------- */

enum leat_type {
    LEAT_BYTE, /* moved, and reduced by the bitwise operations only */
    LEAT_INT8,
    LEAT_INT16,
    LEAT_INT32,
    LEAT_INT64,
    LEAT_UINT8,
    LEAT_UINT16,
    LEAT_UINT32,
    LEAT_UINT64,
    LEAT_FLOAT,
    LEAT_DOUBLE,
    LEAT_TYPE_COUNT
};

/*
 * Sums and products of integers wrap. Minimum and maximum: where any rank's value is a NaN, the
 * result is the quiet NaN 0x7fc00000 (0x7ff8000000000000), at whatever place it stood; -0.0 is less
 * than 0.0. A sum or product that is a NaN is that one too. Logical operations take any value but 0
 * for true and give 0 or 1. Floats take no bitwise operation.
 */
enum leat_operation {
    LEAT_SUM,
    LEAT_PRODUCT,
    LEAT_MINIMUM,
    LEAT_MAXIMUM,
    LEAT_LOGICAL_AND,
    LEAT_LOGICAL_OR,
    LEAT_LOGICAL_XOR,
    LEAT_BITWISE_AND,
    LEAT_BITWISE_OR,
    LEAT_BITWISE_XOR,
    LEAT_OPERATION_USER,
    LEAT_OPERATION_COUNT
};

/* The caller's own operation, associative: inout[i] = in[i] OP inout[i], where `in` is of lower
 * ranks. May be called on parts of the data, always of whole elements. */
typedef struct leat_user_operation {
    void (*combine)(void *user, const void *in, void *inout, uint64_t count);
    void *user;
    uint64_t element_bytes; /* 0: of the type */
    int commutative;        /* not 0: `in` may be of higher ranks too */
} leat_user_operation;

enum leat_collective_kind {
    LEAT_BARRIER,
    LEAT_BROADCAST,      /* receive[count], from root */
    LEAT_REDUCE,         /* send[count] of all into receive[count] at root */
    LEAT_ALLREDUCE,      /* send[count] of all into receive[count] at all */
    LEAT_GATHER,         /* send[count] of rank r to receive[r * count] at root */
    LEAT_SCATTER,        /* send[r * count] of root to receive[count] at rank r */
    LEAT_ALLGATHER,      /* send[count] of rank r to receive[r * count] at all */
    LEAT_ALLTOALL,       /* send[q * count] of rank r to receive[r * count] at rank q */
    LEAT_SCAN,           /* send[count] of ranks 0..r into receive[count] at rank r */
    LEAT_EXCLUSIVE_SCAN, /* of ranks 0..r-1; receive is left alone at rank 0 */
    LEAT_REDUCE_SCATTER, /* block r (count each) of the sum of send[] to receive[count] at r */
    LEAT_COLLECTIVE_COUNT
};

/* As `send`: the data lies in `receive` already, in the place that MPI prescribes for it (for a
 * scatter's root: all blocks). All ranks of an allreduce or all-to-all say it, or none. */
#define LEAT_IN_PLACE ((const void *)(uintptr_t)1)

typedef struct leat_collective_options {
    size_t size;
    enum leat_collective_kind kind;
    const void *send; /* or LEAT_IN_PLACE */
    void *receive;
    uint64_t count; /* elements, as in the list above; the same at all ranks */
    enum leat_type type;
    enum leat_operation operation;
    const leat_user_operation *user; /* LEAT_OPERATION_USER only; kept until the request finishes */
    int root;
    /* Gather, scatter, allgather, all-to-all and reduce-scatter with a size a rank, where these are
     * given: elements and offsets in elements, arrays of one a rank (of sends for all-to-all and
     * scatter). Read until the request finishes. Offsets NULL: one after the other. */
    const uint64_t *send_counts, *send_offsets, *receive_counts, *receive_offsets;
    const char *algorithm; /* NULL: chosen; otherwise a name that leat bench coll --help lists */
} leat_collective_options;

/*
 * Starts a collective: all ranks of the communicator call it, in the same order of collectives,
 * with the same kind, count, type, operation and root. `request` NULL: returns once this rank's
 * part is done. The order in which values are combined depends on the number of ranks, count, type
 * and operation only: repeated, the result is the same to the bit, and the same at all ranks.
 * -EINVAL an argument that cannot be (named); -EPROTO another rank's call does not fit this one
 * (both are named, where the data shows it)
 * -ECONNRESET a rank of the communicator has died or left before its part was done (named). Then
 * all ranks get that error, whether they wait for the dead one or for one that waits for it, from
 * the same or an earlier collective on; from then on all of the communicator's collectives fail
 * with it at once. Its messages between ranks that live go on.
 */
LEAT_API int leat_collective(leat_comm *comm, const leat_collective_options *options,
                             leat_request *request);

#ifdef __cplusplus
}
#endif

#endif
