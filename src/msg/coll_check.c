// SPDX-License-Identifier: Apache-2.0
// Arguments of collectives: what cannot be is named before anything is sent.
//
// Algorithm: a table says, for each kind, what it takes; buffers are asked for where this rank uses
// them. Sizes a rank are added up with care for overflow. Advantage: algorithms may trust what they
// get. Disadvantage: calls with a size a rank pay one pass over the sizes.

#include "msg/coll.h"

#include "core/error.h"
#include "msg/op.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MOST_BYTES (UINT64_MAX / 4) // sums of a few such sizes still fit

enum {
    HAS_ROOT = 1,
    HAS_DATA = 2,
    SENDS_BLOCKS = 4,    /* `send` holds a block a rank, at ranks that send */
    RECEIVES_BLOCKS = 8, /* so `receive` */
    SENDS_AT_ROOT = 16,  /* only there */
    RECEIVES_AT_ROOT = 32,
    TAKES_SEND_COUNTS = 64,
    TAKES_RECEIVE_COUNTS = 128
};

static const struct {
    const char *name;
    unsigned has;
} kinds[LEAT_COLLECTIVE_COUNT] = {
    [LEAT_BARRIER] = {"barrier", 0},
    [LEAT_BROADCAST] = {"broadcast", HAS_ROOT | HAS_DATA},
    [LEAT_REDUCE] = {"reduce", HAS_ROOT | HAS_DATA | RECEIVES_AT_ROOT},
    [LEAT_ALLREDUCE] = {"allreduce", HAS_DATA},
    [LEAT_GATHER] = {"gather", HAS_ROOT | HAS_DATA | RECEIVES_BLOCKS | RECEIVES_AT_ROOT |
                                   TAKES_RECEIVE_COUNTS},
    [LEAT_SCATTER] = {"scatter",
                      HAS_ROOT | HAS_DATA | SENDS_BLOCKS | SENDS_AT_ROOT | TAKES_SEND_COUNTS},
    [LEAT_ALLGATHER] = {"allgather", HAS_DATA | RECEIVES_BLOCKS | TAKES_RECEIVE_COUNTS},
    [LEAT_ALLTOALL] = {"all-to-all", HAS_DATA | SENDS_BLOCKS | RECEIVES_BLOCKS | TAKES_SEND_COUNTS |
                                         TAKES_RECEIVE_COUNTS},
    [LEAT_SCAN] = {"scan", HAS_DATA},
    [LEAT_EXCLUSIVE_SCAN] = {"exclusive scan", HAS_DATA},
    [LEAT_REDUCE_SCATTER] = {"reduce-scatter", HAS_DATA | SENDS_BLOCKS | TAKES_RECEIVE_COUNTS},
};

const char *coll_kind_name(enum leat_collective_kind kind)
{
    return (unsigned)kind < LEAT_COLLECTIVE_COUNT ? kinds[kind].name : "unknown collective";
}

uint64_t coll_element_bytes(const struct coll_call *call)
{
    if (coll_reduces(call->kind) && call->operation == LEAT_OPERATION_USER &&
        call->user->element_bytes)
        return call->user->element_bytes;
    return msg_type_bytes((enum leat_type)call->type);
}

static const char *name_of(const struct coll_call *call)
{
    return kinds[call->kind].name;
}

static int too_large(const struct coll_call *call, uint64_t count)
{
    return leat_fail(-EOVERFLOW,
                     "%s: %" PRIu64 " elements of %" PRIu64 " bytes are more than %" PRIu64
                     " bytes, all ranks' together",
                     name_of(call), count, call->element, MOST_BYTES);
}

// Elements of all blocks, up to the end of the last one where they have offsets.
static int add_blocks(const struct coll_call *call, int rank_count, const uint64_t *counts,
                      const uint64_t *offsets, uint64_t *elements)
{
    uint64_t most = MOST_BYTES / call->element, sum = 0;
    if (!counts) {
        if (call->count > most / (uint64_t)rank_count)
            return too_large(call, call->count);
        *elements = call->count * (uint64_t)rank_count;
        return 0;
    }
    for (int rank = 0; rank < rank_count; rank++) {
        if (counts[rank] > most - sum || (offsets && offsets[rank] > most - counts[rank]))
            return too_large(call, counts[rank]);
        sum += counts[rank];
    }
    *elements = sum;
    return 0;
}

static int no_buffer(const struct coll_call *call, const char *which, uint64_t elements, int rank)
{
    return leat_fail(-EINVAL, "%s: `%s` is NULL at rank %d, with %" PRIu64 " elements",
                     name_of(call), which, rank, elements);
}

// Elements of `send` and `receive` that this rank uses, and NULLs among them.
static int check_buffers(const leat_comm *comm, struct coll_call *call,
                         const leat_collective_options *options)
{
    unsigned has = kinds[call->kind].has;
    bool at_root = comm->rank == call->root;
    uint64_t send = call->count, receive = send;
    bool sends = !(has & SENDS_AT_ROOT) || at_root;
    bool receives = !(has & RECEIVES_AT_ROOT) || at_root;
    bool in_place = options->send == LEAT_IN_PLACE;
    // A reduce-scatter sends blocks of the sizes in which they are received.
    const uint64_t *send_counts =
        call->kind == LEAT_REDUCE_SCATTER ? call->receive_counts : call->send_counts;
    int error = 0;
    if (has & SENDS_BLOCKS && sends)
        error = add_blocks(call, comm->rank_count, send_counts, call->send_offsets, &send);
    if (!error && has & RECEIVES_BLOCKS && receives)
        error = add_blocks(call, comm->rank_count, call->receive_counts, call->receive_offsets,
                           &receive);
    if (error)
        return error;
    if (call->kind == LEAT_REDUCE_SCATTER && call->receive_counts)
        receive = call->receive_counts[comm->rank];
    if (sends && send && !in_place && !options->send)
        return no_buffer(call, "send", send, comm->rank);
    if (receives && (receive || (in_place && send)) && !options->receive)
        return no_buffer(call, "receive", receive, comm->rank);
    if (sends && receives && send && receive && options->send == options->receive)
        return leat_fail(-EINVAL,
                         "%s: `send` and `receive` are the same memory at rank %d; give "
                         "LEAT_IN_PLACE as `send`",
                         name_of(call), comm->rank);
    return 0;
}

static int check_place(const leat_comm *comm, struct coll_call *call,
                       const leat_collective_options *options)
{
    unsigned has = kinds[call->kind].has;
    if (call->kind == LEAT_BROADCAST) {
        if (options->send && options->send != LEAT_IN_PLACE && options->send != options->receive)
            return leat_fail(-EINVAL, "broadcast: the data of all ranks lies in `receive`; leave "
                                      "`send` NULL");
        if (call->count && !options->receive)
            return no_buffer(call, "receive", call->count, comm->rank);
        call->in_place = 1;
        call->send = call->receive;
        return call->count > MOST_BYTES / call->element ? too_large(call, call->count) : 0;
    }
    bool only_root = (has & (SENDS_AT_ROOT | RECEIVES_AT_ROOT)) != 0;
    if (options->send == LEAT_IN_PLACE && only_root && comm->rank != call->root)
        return leat_fail(-EINVAL, "%s: LEAT_IN_PLACE is for the root, %d, not for rank %d",
                         name_of(call), call->root, comm->rank);
    if (call->count > MOST_BYTES / call->element)
        return too_large(call, call->count);
    call->in_place = options->send == LEAT_IN_PLACE;
    call->send = call->in_place ? call->receive : options->send;
    return check_buffers(comm, call, options);
}

// The own block has one size, told twice.
static int check_own_block(const leat_comm *comm, const struct coll_call *call)
{
    uint64_t sent = call->send_counts ? call->send_counts[comm->rank] : call->count;
    uint64_t received = call->receive_counts ? call->receive_counts[comm->rank] : call->count;
    bool both =
        call->kind == LEAT_ALLTOALL || call->kind == LEAT_ALLGATHER || comm->rank == call->root;
    if (sent == received || call->in_place || !both || call->kind == LEAT_REDUCE_SCATTER)
        return 0;
    return leat_fail(-EINVAL,
                     "%s: rank %d sends itself %" PRIu64 " elements and receives %" PRIu64
                     " from itself",
                     name_of(call), comm->rank, sent, received);
}

static int check_counts(const leat_comm *comm, struct coll_call *call,
                        const leat_collective_options *options)
{
    unsigned has = kinds[call->kind].has;
    if (has & TAKES_SEND_COUNTS) {
        call->send_counts = options->send_counts;
        call->send_offsets = options->send_counts ? options->send_offsets : NULL;
    }
    if (has & TAKES_RECEIVE_COUNTS) {
        call->receive_counts = options->receive_counts;
        call->receive_offsets = options->receive_counts ? options->receive_offsets : NULL;
    }
    // In place there is one layout: of the memory in which the data lies.
    if (options->send == LEAT_IN_PLACE && call->kind == LEAT_ALLTOALL) {
        call->send_counts = call->receive_counts;
        call->send_offsets = call->receive_offsets;
    }
    // Arrays that only the root reads may be anything elsewhere.
    if (has & HAS_ROOT && comm->rank != call->root)
        call->send_counts = call->send_offsets = call->receive_counts = call->receive_offsets =
            NULL;
    if ((call->kind == LEAT_GATHER || call->kind == LEAT_SCATTER) && call->algorithm > 1 &&
        (call->send_counts || call->receive_counts))
        return leat_fail(-EINVAL, "%s: \"%s\" takes blocks of one size only; name \"linear\"",
                         name_of(call), options->algorithm);
    if (call->kind == LEAT_REDUCE_SCATTER && call->receive_offsets)
        return leat_fail(-EINVAL, "reduce-scatter: the blocks lie one after the other; leave "
                                  "receive_offsets NULL");
    return 0;
}

static int check_kind(const leat_collective_options *options, struct coll_call *call)
{
    if ((unsigned)options->kind >= LEAT_COLLECTIVE_COUNT)
        return leat_fail(-EINVAL, "leat_collective: kind %d is none of leat_collective_kind",
                         (int)options->kind);
    *call = (struct coll_call){.kind = (uint8_t)options->kind, .element = 1};
    if (options->algorithm) {
        int place = coll_algorithm_find(options->kind, options->algorithm);
        if (!place)
            return -EINVAL;
        call->algorithm = (uint8_t)place;
    }
    return 0;
}

static int check_operation(const leat_collective_options *options, struct coll_call *call)
{
    call->type = (uint8_t)options->type;
    if (!coll_reduces(call->kind)) {
        if (!msg_type_bytes(options->type))
            return leat_fail(-EINVAL, "%s: type %d is none of leat_type", name_of(call),
                             (int)options->type);
    } else {
        int error = msg_operation_check(options->operation, options->type, options->user);
        if (error)
            return leat_fail_in(error, "%s", name_of(call));
        call->operation = (uint8_t)options->operation;
        if (options->operation == LEAT_OPERATION_USER) {
            call->user = options->user;
            call->ordered = !options->user->commutative;
        }
    }
    call->element = coll_element_bytes(call);
    return call->element > MOST_BYTES ? too_large(call, 1) : 0;
}

int coll_check(const leat_comm *comm, const leat_collective_options *options,
               struct coll_call *call)
{
    int error = leat_need(comm, "leat_collective", "comm");
    if (!error)
        error = leat_need(options, "leat_collective", "options");
    if (error)
        return error;
    if (options->size < sizeof options->size)
        return leat_fail(-EINVAL, "leat_collective_options.size is %zu; set it to sizeof",
                         options->size);
    leat_collective_options full;
    if (options->size < sizeof full) {
        memset(&full, 0, sizeof full);
        memcpy(&full, options, options->size);
        options = &full;
    }
    error = check_kind(options, call);
    if (error || call->kind == LEAT_BARRIER)
        return error;
    if (kinds[call->kind].has & HAS_ROOT && (unsigned)options->root >= (unsigned)comm->rank_count)
        return leat_fail(-EINVAL, "%s: root %d is not in the communicator, which has ranks 0 to %d",
                         name_of(call), options->root, comm->rank_count - 1);
    call->root = options->root;
    call->count = options->count;
    call->receive = options->receive;
    error = check_operation(options, call);
    if (!error)
        error = check_counts(comm, call, options);
    if (!error)
        error = check_place(comm, call, options);
    if (!error && (call->send_counts || call->receive_counts))
        error = check_own_block(comm, call);
    return error;
}
