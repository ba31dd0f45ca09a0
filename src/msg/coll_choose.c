// SPDX-License-Identifier: Apache-2.0
// Which algorithm a collective uses.
//
// Algorithm: a table of algorithms a kind, and a function that picks from it by what all ranks know
// alike: ranks, bytes, operation. Advantage: all ranks pick the same without talking. Disadvantage:
// the figures are of one machine; a caller that knows better names an algorithm.
//
// Where values are combined the choice must not depend on the communicator's buffer, since the
// order of combining depends on the algorithm.

#include "msg/coll.h"

#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_ALGORITHMS 6

#define BROADCAST_BINOMIAL_BELOW 65536
#define BROADCAST_CHAIN_RANKS    8
#define BROADCAST_TRINARY_FROM   (1 << 20)
#define ALLREDUCE_DOUBLING_UP_TO 16384
#define ALLREDUCE_HALVING_FROM   (4 << 20) /* two ranks: combining half is worth a step */
#define ALLREDUCE_PART_LEAST     8192      /* of each rank, for the ring */
#define ALLGATHER_BRUCK_UP_TO    16384
#define SCAN_DOUBLING_UP_TO      16384

enum { BARRIER_DISSEMINATION, BARRIER_WORDS };
enum { BROADCAST_BINOMIAL, BROADCAST_CHAIN, BROADCAST_SCATTER, BROADCAST_TRINARY, BROADCAST_WORDS };
enum { REDUCE_BINOMIAL };
enum { ALLREDUCE_DOUBLING, ALLREDUCE_HALVING, ALLREDUCE_RING, ALLREDUCE_WORDS, ALLREDUCE_TRINARY };
enum { GATHER_LINEAR, GATHER_BINOMIAL };
enum { SCATTER_LINEAR, SCATTER_BINOMIAL };
enum { ALLGATHER_RING, ALLGATHER_BRUCK };
enum { ALLTOALL_SPREAD, ALLTOALL_EXCHANGE };
enum { SCAN_CHAIN, SCAN_DOUBLING };
enum { REDUCE_SCATTER_PAIRWISE };

// kind, place, name, buffer, unordered, phases
#define ALGORITHMS(X)                                                                              \
    X(LEAT_BARRIER, BARRIER_DISSEMINATION, "dissemination", BUFFER_NONE, false,                    \
      coll_barrier_dissemination)                                                                  \
    X(LEAT_BARRIER, BARRIER_WORDS, "words", BUFFER_NONE, false, coll_words)                        \
    X(LEAT_BROADCAST, BROADCAST_BINOMIAL, "binomial", BUFFER_NONE, false, coll_broadcast_binomial) \
    X(LEAT_BROADCAST, BROADCAST_CHAIN, "chain", BUFFER_NONE, false, coll_broadcast_chain)          \
    X(LEAT_BROADCAST, BROADCAST_SCATTER, "scatter-allgather", BUFFER_NONE, false,                  \
      coll_broadcast_scatter, coll_parts_ring)                                                     \
    X(LEAT_BROADCAST, BROADCAST_TRINARY, "trinary", BUFFER_TREES, false, coll_broadcast_trinary)   \
    X(LEAT_BROADCAST, BROADCAST_WORDS, "words", BUFFER_NONE, false, coll_words)                    \
    X(LEAT_REDUCE, REDUCE_BINOMIAL, "binomial", BUFFER_CHUNKS, false, coll_reduce_binomial)        \
    X(LEAT_ALLREDUCE, ALLREDUCE_DOUBLING, "recursive-doubling", BUFFER_CHUNKS, false,              \
      coll_allreduce_doubling)                                                                     \
    X(LEAT_ALLREDUCE, ALLREDUCE_HALVING, "recursive-halving", BUFFER_CHUNKS, false,                \
      coll_allreduce_halving)                                                                      \
    X(LEAT_ALLREDUCE, ALLREDUCE_RING, "ring", BUFFER_CHUNKS, true, coll_allreduce_ring)            \
    X(LEAT_ALLREDUCE, ALLREDUCE_WORDS, "words", BUFFER_NONE, false, coll_words)                    \
    X(LEAT_ALLREDUCE, ALLREDUCE_TRINARY, "trinary", BUFFER_TREES, true, coll_allreduce_trinary)    \
    X(LEAT_GATHER, GATHER_LINEAR, "linear", BUFFER_NONE, false, coll_gather_linear)                \
    X(LEAT_GATHER, GATHER_BINOMIAL, "binomial", BUFFER_BLOCKS, false, coll_gather_binomial)        \
    X(LEAT_SCATTER, SCATTER_LINEAR, "linear", BUFFER_NONE, false, coll_scatter_linear)             \
    X(LEAT_SCATTER, SCATTER_BINOMIAL, "binomial", BUFFER_BLOCKS, false, coll_scatter_binomial)     \
    X(LEAT_ALLGATHER, ALLGATHER_RING, "ring", BUFFER_NONE, false, coll_allgather_ring)             \
    X(LEAT_ALLGATHER, ALLGATHER_BRUCK, "bruck", BUFFER_BLOCKS, false, coll_allgather_bruck)        \
    X(LEAT_ALLTOALL, ALLTOALL_SPREAD, "spread", BUFFER_NONE, false, coll_alltoall_spread)          \
    X(LEAT_ALLTOALL, ALLTOALL_EXCHANGE, "exchange", BUFFER_CHUNKS, false, coll_alltoall_exchange)  \
    X(LEAT_SCAN, SCAN_CHAIN, "chain", BUFFER_CHUNKS, false, coll_scan_chain)                       \
    X(LEAT_SCAN, SCAN_DOUBLING, "doubling", BUFFER_CHUNKS, false, coll_scan_doubling)              \
    X(LEAT_EXCLUSIVE_SCAN, SCAN_CHAIN, "chain", BUFFER_CHUNKS, false, coll_scan_chain)             \
    X(LEAT_EXCLUSIVE_SCAN, SCAN_DOUBLING, "doubling", BUFFER_CHUNKS, false, coll_scan_doubling)    \
    X(LEAT_REDUCE_SCATTER, REDUCE_SCATTER_PAIRWISE, "pairwise", BUFFER_CHUNKS, false,              \
      coll_reduce_scatter_pairwise)

#define ROW(kind, place, called, how, without_order, ...)                                          \
    [kind][place] = {called, {__VA_ARGS__}, how, without_order},
static const struct coll_algorithm algorithms[LEAT_COLLECTIVE_COUNT][MOST_ALGORITHMS] = {
    ALGORITHMS(ROW)};

#define NAME(kind, place, called, ...) [kind][place] = called,
static const char *const names[LEAT_COLLECTIVE_COUNT][MOST_ALGORITHMS] = {ALGORITHMS(NAME)};

static const struct coll_algorithm alone = {.name = "alone", .phase = {coll_alone}};

const char *const *msg_algorithms(enum leat_collective_kind kind, int *count)
{
    *count = 0;
    if ((unsigned)kind >= LEAT_COLLECTIVE_COUNT)
        return NULL;
    while (*count < MOST_ALGORITHMS && names[kind][*count])
        ++*count;
    return names[kind];
}

int coll_algorithm_find(enum leat_collective_kind kind, const char *name)
{
    int count;
    const char *const *of = msg_algorithms(kind, &count);
    char known[200] = "";
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(of[i], name) == 0)
            return i + 1;
        if (length < sizeof known)
            length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                       of[i]);
    }
    leat_fail(-EINVAL, "%s has no algorithm \"%s\"; there are: %s", coll_kind_name(kind), name,
              known);
    return 0;
}

// ---- Choosing ----

static int broadcast_of(int ranks, uint64_t bytes)
{
    if (ranks == 2 || bytes < BROADCAST_BINOMIAL_BELOW)
        return BROADCAST_BINOMIAL;
    // A chain moves every byte once a rank, but each rank adds to the time of the first chunk.
    return ranks <= BROADCAST_CHAIN_RANKS ? BROADCAST_CHAIN : BROADCAST_SCATTER;
}

static int allreduce_of(int ranks, uint64_t bytes, bool ordered)
{
    if (ranks == 2)
        return bytes < ALLREDUCE_HALVING_FROM ? ALLREDUCE_DOUBLING : ALLREDUCE_HALVING;
    if (bytes <= ALLREDUCE_DOUBLING_UP_TO)
        return ALLREDUCE_DOUBLING;
    if (!ordered && bytes / (uint64_t)ranks >= ALLREDUCE_PART_LEAST)
        return ALLREDUCE_RING;
    return ALLREDUCE_HALVING;
}

static uint64_t all_blocks(const struct coll_call *call, const uint64_t *counts, int ranks)
{
    if (!counts)
        return call->count * (uint64_t)ranks * call->element;
    uint64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += counts[rank];
    return sum * call->element;
}

// What is chosen for those that name none.
static int chosen(const leat_comm *comm, const struct coll_call *call)
{
    int ranks = comm->rank_count;
    uint64_t bytes = call->count * call->element;
    switch (call->kind) {
    case LEAT_BARRIER:
        return coll_words_fit(comm, call) ? BARRIER_WORDS : BARRIER_DISSEMINATION;
    case LEAT_BROADCAST:
        if (coll_words_fit(comm, call))
            return BROADCAST_WORDS;
        return bytes >= BROADCAST_TRINARY_FROM && coll_trees_fit(comm) ? BROADCAST_TRINARY
                                                                       : broadcast_of(ranks, bytes);
    case LEAT_ALLREDUCE:
        if (coll_words_fit(comm, call))
            return ALLREDUCE_WORDS;
        return allreduce_of(ranks, bytes, call->ordered);
    case LEAT_ALLGATHER:
        return all_blocks(call, call->receive_counts, ranks) <= ALLGATHER_BRUCK_UP_TO
                   ? ALLGATHER_BRUCK
                   : ALLGATHER_RING;
    case LEAT_SCAN:
    case LEAT_EXCLUSIVE_SCAN:
        return ranks > 2 && bytes <= SCAN_DOUBLING_UP_TO ? SCAN_DOUBLING : SCAN_CHAIN;
    default:
        // Gather and scatter: who is not the root does not know whether the root has a size a rank.
        return 0;
    }
}

// What cannot be done as wished is done another way, which all ranks find alike.
static int possible(const leat_comm *comm, const struct coll_call *call, int place)
{
    switch (call->kind) {
    case LEAT_BARRIER:
        return place == BARRIER_WORDS && !coll_words_fit(comm, call) ? BARRIER_DISSEMINATION
                                                                     : place;
    case LEAT_ALLREDUCE:
        if (place == ALLREDUCE_WORDS && !coll_words_fit(comm, call))
            return ALLREDUCE_DOUBLING;
        if (place == ALLREDUCE_TRINARY && (call->ordered || !coll_trees_fit(comm)))
            return ALLREDUCE_HALVING;
        return place == ALLREDUCE_RING && call->ordered ? ALLREDUCE_HALVING : place;
    case LEAT_BROADCAST:
        return (place == BROADCAST_TRINARY && !coll_trees_fit(comm)) ||
                       (place == BROADCAST_WORDS && !coll_words_fit(comm, call))
                   ? broadcast_of(comm->rank_count, call->count * call->element)
                   : place;
    case LEAT_GATHER:
    case LEAT_SCATTER:
        return all_blocks(call, NULL, comm->rank_count) <= coll_of(comm)->temp_bytes
                   ? place
                   : GATHER_LINEAR;
    case LEAT_ALLGATHER:
        return all_blocks(call, call->receive_counts, comm->rank_count) <= coll_of(comm)->temp_bytes
                   ? place
                   : ALLGATHER_RING;
    case LEAT_ALLTOALL:
        return call->in_place ? ALLTOALL_EXCHANGE : place;
    default:
        return place;
    }
}

static bool empty(const struct coll_call *call)
{
    return call->kind != LEAT_BARRIER && !call->count && !call->send_counts &&
           !call->receive_counts;
}

const struct coll_algorithm *coll_choose(const leat_comm *comm, const struct coll_call *call)
{
    if (comm->rank_count == 1 || empty(call))
        return &alone;
    int place = call->algorithm ? call->algorithm - 1 : chosen(comm, call);
    return &algorithms[call->kind][possible(comm, call, place)];
}
