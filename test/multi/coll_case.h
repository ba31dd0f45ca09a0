/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective call of all ranks: values, expectation, comparison.
 *
 * What each rank's memory should hold afterwards is computed by loops over ranks and elements that
 * share nothing with the library. Advantage: one check for every kind, in place or not, with sizes
 * a rank or without. Disadvantage: only operations that are exact in any order are expected this
 * way.
 */
#ifndef LEAT_TEST_MULTI_COLL_CASE_H
#define LEAT_TEST_MULTI_COLL_CASE_H

#include "coll_job.h"

enum case_values {
    VALUES_UINT16_SUM,
    VALUES_INT64_MAXIMUM,
    VALUES_ORDERED, /* of the user, 8 bytes, does not commute */
    VALUES_WIDE,    /* of the user, 24 bytes, commutes */
    VALUES_COUNT
};

struct coll_case {
    enum leat_collective_kind kind;
    enum case_values values;
    int root;
    uint64_t count;
    bool in_place;
    bool uneven;  /* a size a rank, zeros among them */
    bool offsets; /* so, with gaps between blocks, in another order */
    const char *algorithm;
};

#define CASE_GUARD  64
#define CASE_POISON 0xa5

struct case_memory {
    uint8_t *send, *receive, *expected; /* with guards on both sides */
    uint64_t send_bytes, receive_bytes;
    uint64_t *counts[2], *offsets[2]; /* of sends, of receives */
    bool receives;
};

static const uint64_t case_element[VALUES_COUNT] = {2, 8, 8, 24};
static const enum leat_type case_type[VALUES_COUNT] = {LEAT_UINT16, LEAT_INT64, LEAT_UINT64,
                                                       LEAT_BYTE};

/* ---- Values ---- */

static uint64_t case_hash(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15ULL + b * 0xd1342543de82ef95ULL + 0x632be59bd9b4e019ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    return z ^ (z >> 27);
}

/* Element `index` of what rank `from` gives, for block `block`. */
static void case_value(enum case_values values, int from, int block, uint64_t index, uint8_t *to)
{
    for (uint64_t at = 0; at < case_element[values]; at += 2) {
        uint16_t word =
            (uint16_t)case_hash((uint64_t)from << 32 | (uint64_t)block, index * 16 + at);
        memcpy(to + at, &word, 2);
    }
}

/* lower = lower OP upper */
static void case_combine(enum case_values values, uint8_t *lower, const uint8_t *upper)
{
    if (values == VALUES_UINT16_SUM) {
        uint16_t a, b;
        memcpy(&a, lower, 2);
        memcpy(&b, upper, 2);
        a = (uint16_t)(a + b);
        memcpy(lower, &a, 2);
    } else if (values == VALUES_INT64_MAXIMUM) {
        int64_t a, b;
        memcpy(&a, lower, 8);
        memcpy(&b, upper, 8);
        memcpy(lower, a > b ? &a : &b, 8);
    } else if (values == VALUES_ORDERED) {
        /* x -> x a0 + a1, then x -> x b0 + b1 */
        uint32_t a[2], b[2];
        memcpy(a, lower, 8);
        memcpy(b, upper, 8);
        uint32_t both[2] = {a[0] * b[0], a[1] * b[0] + b[1]};
        memcpy(lower, both, 8);
    } else {
        for (int i = 0; i < 3; i++) {
            uint64_t a, b;
            memcpy(&a, lower + 8 * i, 8);
            memcpy(&b, upper + 8 * i, 8);
            a += b;
            memcpy(lower + 8 * i, &a, 8);
        }
    }
}

static void case_user(void *user, const void *in, void *inout, uint64_t count)
{
    enum case_values values = *(const enum case_values *)user;
    uint64_t element = case_element[values];
    for (uint64_t i = 0; i < count; i++) {
        uint8_t both[24];
        memcpy(both, (const uint8_t *)in + i * element, element);
        case_combine(values, both, (uint8_t *)inout + i * element);
        memcpy((uint8_t *)inout + i * element, both, element);
    }
}

static enum case_values case_kinds_of_values[VALUES_COUNT] = {
    VALUES_UINT16_SUM, VALUES_INT64_MAXIMUM, VALUES_ORDERED, VALUES_WIDE};

static const leat_user_operation case_users[VALUES_COUNT] = {
    [VALUES_ORDERED] = {case_user, &case_kinds_of_values[VALUES_ORDERED], 8, 0},
    [VALUES_WIDE] = {case_user, &case_kinds_of_values[VALUES_WIDE], 24, 1}};

static bool case_reduces(enum leat_collective_kind kind)
{
    return coll_reduces((unsigned)kind);
}

/* ---- Sizes: elements that `from` gives for `to`, the same wherever it is asked ---- */

static uint64_t case_size(const struct coll_case *test, int from, int to)
{
    if (!test->uneven)
        return test->count;
    /* In place what two ranks swap has one size; the others have one a block. */
    uint64_t key =
        test->kind == LEAT_ALLTOALL
            ? (test->in_place ? (uint64_t)(from * to + from + to) : (uint64_t)(from * 64 + to))
        : test->kind == LEAT_SCATTER || test->kind == LEAT_REDUCE_SCATTER ? (uint64_t)to
                                                                          : (uint64_t)from;
    uint64_t draw = case_hash(key, 77);
    return draw % 3 == 0 ? 0 : (draw >> 8) % (2 * test->count + 1);
}

/* Blocks of `send` (side 0) or `receive` (side 1) of a rank; 0: it has no such. */
static int case_blocks(const struct coll_case *test, int ranks, int rank, int side)
{
    bool at_root = rank == test->root;
    switch (test->kind) {
    case LEAT_BARRIER:
        return 0;
    case LEAT_BROADCAST:
        return side;
    case LEAT_REDUCE:
        return side && !at_root ? 0 : 1;
    case LEAT_GATHER:
        return side ? (at_root ? ranks : 0) : 1;
    case LEAT_SCATTER:
        return side ? 1 : at_root ? ranks : 0;
    case LEAT_ALLGATHER:
        return side ? ranks : 1;
    case LEAT_ALLTOALL:
        return ranks;
    case LEAT_REDUCE_SCATTER:
        return side ? 1 : ranks;
    default:
        return 1;
    }
}

/* Elements of block `block` of a side. */
static uint64_t case_block_size(const struct coll_case *test, int rank, int side, int block,
                                int blocks)
{
    if (test->kind == LEAT_GATHER || test->kind == LEAT_ALLGATHER)
        return case_size(test, blocks > 1 || side ? block : rank, 0);
    if (test->kind == LEAT_SCATTER || test->kind == LEAT_REDUCE_SCATTER)
        return case_size(test, 0, side ? rank : block);
    return side ? case_size(test, block, rank) : case_size(test, rank, block);
}

static bool case_takes_counts(const struct coll_case *test, int side)
{
    if (!test->uneven)
        return false;
    if (test->kind == LEAT_SCATTER)
        return side == 0;
    return test->kind == LEAT_ALLTOALL || side == 1;
}

static uint64_t case_layout(const struct coll_case *test, struct case_memory *memory, int ranks,
                            int rank, int side)
{
    int blocks = case_blocks(test, ranks, rank, side);
    uint64_t at = 0;
    memory->counts[side] = calloc((size_t)ranks, 8);
    memory->offsets[side] = calloc((size_t)ranks, 8);
    assert_true(memory->counts[side] && memory->offsets[side]);
    bool gaps = test->offsets && case_takes_counts(test, side) &&
                test->kind != LEAT_REDUCE_SCATTER && blocks == ranks;
    for (int i = 0; i < blocks; i++) {
        int block = gaps ? blocks - 1 - i : i;
        memory->counts[side][block] = case_block_size(test, rank, side, block, blocks);
        memory->offsets[side][block] = at;
        at += memory->counts[side][block] + (gaps ? 3 : 0);
    }
    return at;
}

/* ---- Memory ---- */

static uint8_t *case_buffer(uint64_t bytes)
{
    uint8_t *memory = malloc(bytes + 2 * CASE_GUARD);
    assert_non_null(memory);
    memset(memory, CASE_POISON, bytes + 2 * CASE_GUARD);
    return memory;
}

static void case_fill(const struct coll_case *test, const struct case_memory *memory, int ranks,
                      int rank, uint8_t *at, int side)
{
    int blocks = case_blocks(test, ranks, rank, side);
    uint64_t element = case_element[test->values];
    for (int block = 0; block < blocks; block++)
        for (uint64_t i = 0; i < memory->counts[side][block]; i++)
            case_value(test->values, rank, block, i,
                       at + (memory->offsets[side][block] + i) * element);
}

/* Puts this rank's input where LEAT_IN_PLACE expects it. */
static void case_fill_in_place(const struct coll_case *test, const struct case_memory *memory,
                               int ranks, int rank, uint8_t *at)
{
    uint64_t element = case_element[test->values];
    if (test->kind == LEAT_GATHER || test->kind == LEAT_ALLGATHER) {
        for (uint64_t i = 0; i < memory->counts[1][rank]; i++)
            case_value(test->values, rank, 0, i, at + (memory->offsets[1][rank] + i) * element);
    } else {
        case_fill(test, memory, ranks, rank, at,
                  test->kind == LEAT_REDUCE_SCATTER || test->kind == LEAT_SCATTER ? 0 : 1);
    }
}

static bool case_in_place(const struct coll_case *test, int rank)
{
    bool only_root =
        test->kind == LEAT_REDUCE || test->kind == LEAT_GATHER || test->kind == LEAT_SCATTER;
    return test->in_place && test->kind != LEAT_BROADCAST && (!only_root || rank == test->root);
}

/* What ranks first to last together have in element `index` of block `block`. */
static void case_fold(const struct coll_case *test, int first, int last, int block, uint64_t index,
                      uint8_t *to)
{
    uint8_t next[24];
    case_value(test->values, first, block, index, to);
    for (int rank = first + 1; rank <= last; rank++) {
        case_value(test->values, rank, block, index, next);
        case_combine(test->values, to, next);
    }
}

/* Element `index` of block `block` of what `rank` receives. */
static void case_expect(const struct coll_case *test, int ranks, int rank, int block,
                        uint64_t index, uint8_t *to)
{
    switch (test->kind) {
    case LEAT_BROADCAST:
        case_value(test->values, test->root, 0, index, to);
        break;
    case LEAT_SCATTER:
        case_value(test->values, test->root, rank, index, to);
        break;
    case LEAT_GATHER:
    case LEAT_ALLGATHER:
        case_value(test->values, block, 0, index, to);
        break;
    case LEAT_ALLTOALL:
        case_value(test->values, block, rank, index, to);
        break;
    case LEAT_SCAN:
        case_fold(test, 0, rank, 0, index, to);
        break;
    case LEAT_EXCLUSIVE_SCAN:
        case_fold(test, 0, rank - 1, 0, index, to);
        break;
    default:
        case_fold(test, 0, ranks - 1, test->kind == LEAT_REDUCE_SCATTER ? rank : 0, index, to);
        break;
    }
}

static void case_fill_expected(const struct coll_case *test, struct case_memory *memory, int ranks,
                               int rank)
{
    uint8_t *at = memory->expected + CASE_GUARD;
    int blocks = case_blocks(test, ranks, rank, 1);
    uint64_t element = case_element[test->values];
    memcpy(memory->expected, memory->receive, memory->receive_bytes + 2 * CASE_GUARD);
    if ((test->kind == LEAT_EXCLUSIVE_SCAN && rank == 0) ||
        (test->kind == LEAT_SCATTER && case_in_place(test, rank)))
        return;
    for (int block = 0; block < blocks; block++)
        for (uint64_t i = 0; i < memory->counts[1][block]; i++)
            case_expect(test, ranks, rank, block, i,
                        at + (memory->offsets[1][block] + i) * element);
}

static void case_make(const struct coll_case *test, struct case_memory *memory, int ranks, int rank)
{
    uint64_t element = case_element[test->values];
    memory->send_bytes = case_layout(test, memory, ranks, rank, 0) * element;
    memory->receive_bytes = case_layout(test, memory, ranks, rank, 1) * element;
    if (case_in_place(test, rank) && memory->receive_bytes < memory->send_bytes)
        memory->receive_bytes = memory->send_bytes; // reduce-scatter, scatter
    memory->send = case_buffer(memory->send_bytes);
    memory->receive = case_buffer(memory->receive_bytes);
    memory->expected = case_buffer(memory->receive_bytes);
    case_fill(test, memory, ranks, rank, memory->send + CASE_GUARD, 0);
    if (case_in_place(test, rank))
        case_fill_in_place(test, memory, ranks, rank, memory->receive + CASE_GUARD);
    if (test->kind == LEAT_BROADCAST && rank == test->root)
        case_fill(test, memory, ranks, rank, memory->receive + CASE_GUARD, 1);
    case_fill_expected(test, memory, ranks, rank);
    if (!case_reduces(test->kind) && case_type[test->values] == LEAT_BYTE)
        for (int i = 0; i < 2 * ranks; i++) {
            // 24 bytes are no type: twelve times as many of two.
            memory->counts[i & 1][i / 2] *= 12;
            memory->offsets[i & 1][i / 2] *= 12;
        }
}

static void case_options(const struct coll_case *test, const struct case_memory *memory, int ranks,
                         int rank, leat_collective_options *options)
{
    uint64_t scale = 1;
    *options = (leat_collective_options){.size = sizeof *options,
                                         .kind = test->kind,
                                         .send = case_in_place(test, rank) ? LEAT_IN_PLACE
                                                 : test->kind == LEAT_BROADCAST
                                                     ? NULL
                                                     : memory->send + CASE_GUARD,
                                         .receive = memory->receive + CASE_GUARD,
                                         .type = case_type[test->values],
                                         .root = test->root,
                                         .algorithm = test->algorithm};
    if (case_reduces(test->kind)) {
        options->operation = test->values == VALUES_UINT16_SUM      ? LEAT_SUM
                             : test->values == VALUES_INT64_MAXIMUM ? LEAT_MAXIMUM
                                                                    : LEAT_OPERATION_USER;
        options->user = &case_users[test->values];
    } else if (case_type[test->values] == LEAT_BYTE) {
        options->type = LEAT_UINT16;
        scale = 12;
    }
    options->count = test->count * scale;
    if (!test->uneven)
        return;
    bool ordered = test->offsets && test->kind != LEAT_REDUCE_SCATTER;
    if (case_takes_counts(test, 0) && case_blocks(test, ranks, rank, 0) == ranks) {
        options->send_counts = memory->counts[0];
        options->send_offsets = ordered ? memory->offsets[0] : NULL;
    }
    if (case_takes_counts(test, 1) &&
        (case_blocks(test, ranks, rank, 1) == ranks || test->kind == LEAT_REDUCE_SCATTER)) {
        options->receive_counts = memory->counts[1];
        options->receive_offsets = ordered ? memory->offsets[1] : NULL;
    }
    if (test->kind == LEAT_GATHER || test->kind == LEAT_ALLGATHER)
        options->count = case_size(test, rank, 0) * scale;
    if (test->kind == LEAT_SCATTER)
        options->count = case_size(test, 0, rank) * scale;
    if (test->kind == LEAT_REDUCE_SCATTER)
        options->receive_counts = memory->counts[0];
}

/* ---- Running ---- */

__attribute__((unused)) static const char *case_text(const struct coll_case *test, int ranks,
                                                     char *text, size_t bytes)
{
    snprintf(text, bytes, "%s, %d ranks, root %d, count %llu, values %d%s%s%s, algorithm %s",
             coll_kind_name(test->kind), ranks, test->root, (unsigned long long)test->count,
             (int)test->values, test->in_place ? ", in place" : "", test->uneven ? ", uneven" : "",
             test->offsets ? ", offsets" : "", test->algorithm ? test->algorithm : "chosen");
    return text;
}

static void case_compare(const struct coll_case *test, const struct case_memory *memory, int ranks,
                         int rank)
{
    char text[200];
    // In place the rest of a reduce-scatter's blocks is nobody's.
    uint64_t from = memory->receive_bytes;
    if (test->kind == LEAT_REDUCE_SCATTER && case_in_place(test, rank))
        from = memory->counts[1][0] * case_element[test->values];
    for (uint64_t i = 0; i < memory->receive_bytes + 2 * CASE_GUARD; i++)
        if (memory->receive[i] != memory->expected[i] &&
            (i < CASE_GUARD + from || i >= CASE_GUARD + memory->receive_bytes))
            fail_msg("%s: rank %d, byte %lld of %llu: got 0x%02x, expected 0x%02x",
                     case_text(test, ranks, text, sizeof text), rank, (long long)i - CASE_GUARD,
                     (unsigned long long)memory->receive_bytes, memory->receive[i],
                     memory->expected[i]);
}

static void case_drop(struct case_memory *memory)
{
    free(memory->send);
    free(memory->receive);
    free(memory->expected);
    for (int side = 0; side < 2; side++) {
        free(memory->counts[side]);
        free(memory->offsets[side]);
    }
}

/* Starts the case at all ranks, in random order; memory and requests are one a rank. */
static void case_start(struct coll_job *job, const struct coll_case *test,
                       struct case_memory *memory, leat_request *request)
{
    int ranks = job->rank_count, order[COLL_JOB_RANKS];
    char text[200];
    for (int rank = 0; rank < ranks; rank++) {
        order[rank] = rank;
        case_make(test, &memory[rank], ranks, rank);
    }
    for (int left = ranks; left > 0; left--) {
        int pick = (int)coll_job_random(job, (uint64_t)left), rank = order[pick];
        order[pick] = order[left - 1];
        leat_collective_options options;
        case_options(test, &memory[rank], ranks, rank, &options);
        if (leat_collective(job->comm[rank], &options, &request[rank]))
            fail_msg("%s: rank %d: %s", case_text(test, ranks, text, sizeof text), rank,
                     leat_error_detail());
        for (uint64_t steps = coll_job_random(job, 4); steps; steps--)
            coll_job_step(job);
    }
}

static void case_finish(struct coll_job *job, const struct coll_case *test,
                        struct case_memory *memory, const leat_request *request)
{
    char text[200];
    for (int rank = 0; rank < job->rank_count; rank++) {
        if (request[rank].status.error)
            fail_msg("%s: rank %d: error %d: %s",
                     case_text(test, job->rank_count, text, sizeof text), rank,
                     request[rank].status.error, leat_error_detail());
        case_compare(test, &memory[rank], job->rank_count, rank);
        case_drop(&memory[rank]);
    }
}

__attribute__((unused)) static void case_run(struct coll_job *job, const struct coll_case *test)
{
    struct case_memory memory[COLL_JOB_RANKS];
    leat_request request[COLL_JOB_RANKS];
    case_start(job, test, memory, request);
    coll_job_run(job, request, job->rank_count);
    case_finish(job, test, memory, request);
}

#endif
