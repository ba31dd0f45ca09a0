/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slices of `leat bench p2p`, `coll`, `memory` and `flood`, as every side runs them.
 *
 * Algorithm: the includer gives the ways from rank to rank (way_*, below); loops, buffers, stamps,
 * checks and clock are the same for all. Messages lie in ordinary page-aligned memory and carry a
 * stamp that is checked within the timed part; all their other bytes are checked after it.
 * Advantage: only the library in between differs, and it is compiled into the loop without an
 * indirect call. Disadvantage: each side needs its own compilation.
 *
 * Commands (WHAT AMOUNT COUNT) and the answer's values:
 *     p2p BYTES ITERATIONS        half a round trip between ranks 0 and 1, ns
 *     rate BYTES ITERATIONS       a message in windows of 64 from rank 0 to 1, ns
 *     barrier|broadcast|allreduce BYTES ITERATIONS    an operation, ns; doubles are summed
 *     flood|memory                see msg_flood.h
 */
#ifndef LEAT_BENCH_MSG_SLICE_H
#define LEAT_BENCH_MSG_SLICE_H

#include "slice.h"

#include <stdlib.h>

enum { SLICE_WINDOW = 64, SLICE_PAGE = 4096, SLICE_ANY = -1 };
enum { SLICE_TAG_DATA = 1, SLICE_TAG_ACK = 2 };

#define SLICE_BUFFER_MAX (UINT64_C(1) << 30)

/*
 * What the includer defines. All but way_wrong return 0, or negative once way_wrong has a text.
 * Requests are numbered from 0 to 2 * SLICE_WINDOW - 1; way_finish waits for the first `count`.
 * way_poll keeps the library going and receives nothing. way_other runs slices of one side alone.
 */
struct way;
static int way_send(struct way *way, const void *data, size_t bytes, int peer, int tag);
static int way_receive(struct way *way, void *data, size_t bytes, int peer, int tag, int *source);
static int way_start_send(struct way *way, int request, const void *data, size_t bytes, int peer);
static int way_start_receive(struct way *way, int request, void *data, size_t bytes, int peer);
static int way_finish(struct way *way, int count);
static int way_poll(struct way *way);
static int way_barrier(struct way *way);
static int way_broadcast(struct way *way, void *data, size_t bytes, int root);
static int way_sum(struct way *way, const double *from, double *to, size_t count);
static int way_other(struct way *way, const char *what, double *values, int *value_count);
static const char *way_wrong(struct way *way);

struct slice {
    struct way *way;
    const char *directory, *side;
    int rank, rank_count;
    unsigned char *out, *in; /* of `capacity` bytes each */
    size_t capacity;
    uint64_t serial; /* of the slice: no two slices carry the same bytes */
    char wrong[256];
};

static inline int slice_fail(struct slice *slice, const char *what, uint64_t amount)
{
    if (!slice->wrong[0])
        snprintf(slice->wrong, sizeof slice->wrong, "%s (%" PRIu64 ")", what, amount);
    return -1;
}

static inline int slice_reserve(struct slice *slice, size_t bytes)
{
    if (bytes > SLICE_BUFFER_MAX)
        return slice_fail(slice, "messages this large are not measured", bytes);
    bytes = (bytes + SLICE_PAGE) / SLICE_PAGE * SLICE_PAGE;
    if (bytes <= slice->capacity)
        return 0;
    free(slice->out);
    free(slice->in);
    slice->out = aligned_alloc(SLICE_PAGE, bytes);
    slice->in = aligned_alloc(SLICE_PAGE, bytes);
    slice->capacity = slice->out && slice->in ? bytes : 0;
    return slice->capacity ? 0 : slice_fail(slice, "no memory for the buffers", bytes);
}

static inline void slice_release(struct slice *slice)
{
    free(slice->out);
    free(slice->in);
    slice->out = slice->in = NULL;
    slice->capacity = 0;
}

/* ---- stamps ---- */

static inline void slice_stamp(unsigned char *data, size_t bytes, uint64_t stamp)
{
    memcpy(data, &stamp, bytes < sizeof stamp ? bytes : sizeof stamp);
}

/* Nonzero when the first word, as far as there is one, differs. */
static inline uint64_t slice_differs(const unsigned char *data, size_t bytes, uint64_t stamp)
{
    uint64_t seen = stamp;
    memcpy(&seen, data, bytes < sizeof seen ? bytes : sizeof seen);
    return seen ^ stamp;
}

static inline uint64_t slice_word(uint64_t seed, size_t i)
{
    return (seed << 32 ^ (i + 1)) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline void slice_fill(unsigned char *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i += 8)
        slice_stamp(data + i, bytes - i, slice_word(seed, i));
}

/* All but the first word, which carries the stamps. */
static inline int slice_check(struct slice *slice, const unsigned char *data, size_t bytes,
                              uint64_t seed)
{
    for (size_t i = 8; i < bytes; i += 8)
        if (slice_differs(data + i, bytes - i, slice_word(seed, i)))
            return slice_fail(slice, "wrong bytes arrived, first at offset", i);
    return 0;
}

static inline int slice_judge(struct slice *slice, uint64_t differing, size_t bytes)
{
    return differing ? slice_fail(slice, "a stamp is wrong in messages of this many bytes", bytes)
                     : 0;
}

/* ---- timed slices ---- */

/* Rank 1 returns the very buffer that it received, with one word touched, as rank 0 does again. */
static inline int slice_p2p(struct slice *slice, size_t bytes, uint64_t iterations, double *ns)
{
    struct way *way = slice->way;
    unsigned char *data = slice->out;
    uint64_t differing = 0;
    slice_fill(data, bytes, slice->rank == 0 ? slice->serial : ~slice->serial);
    int error = way_barrier(way);
    uint64_t begin = slice_now_ns();
    for (uint64_t i = 0; slice->rank == 0 && !error && i < iterations; i++) {
        slice_stamp(data, bytes, 2 * i);
        error = way_send(way, data, bytes, 1, SLICE_TAG_DATA);
        if (!error)
            error = way_receive(way, data, bytes, 1, SLICE_TAG_DATA, NULL);
        differing |= slice_differs(data, bytes, 2 * i + 1);
    }
    for (uint64_t i = 0; slice->rank == 1 && !error && i < iterations; i++) {
        error = way_receive(way, data, bytes, 0, SLICE_TAG_DATA, NULL);
        differing |= slice_differs(data, bytes, 2 * i);
        slice_stamp(data, bytes, 2 * i + 1);
        if (!error)
            error = way_send(way, data, bytes, 0, SLICE_TAG_DATA);
    }
    if (slice->rank > 1 || error)
        return error;
    *ns = (double)(slice_now_ns() - begin) / (2.0 * (double)iterations);
    error = slice_judge(slice, differing, bytes);
    return error ? error : slice_check(slice, data, bytes, slice->serial);
}

static inline int slice_window_send(struct slice *slice, size_t bytes, size_t stride, uint64_t base)
{
    int error = 0;
    for (int k = 0; !error && k < SLICE_WINDOW; k++) {
        unsigned char *data = slice->out + (size_t)k * stride;
        slice_stamp(data, bytes, base + (uint64_t)k);
        error = way_start_send(slice->way, k, data, bytes, 1);
    }
    if (!error)
        error = way_finish(slice->way, SLICE_WINDOW);
    return error ? error : way_receive(slice->way, slice->in, 8, 1, SLICE_TAG_ACK, NULL);
}

static inline int slice_window_receive(struct slice *slice, size_t bytes, size_t stride,
                                       uint64_t base, uint64_t *differing)
{
    int error = 0;
    for (int k = 0; !error && k < SLICE_WINDOW; k++)
        error = way_start_receive(slice->way, k, slice->out + (size_t)k * stride, bytes, 0);
    if (!error)
        error = way_finish(slice->way, SLICE_WINDOW);
    for (int k = 0; !error && k < SLICE_WINDOW; k++)
        *differing |= slice_differs(slice->out + (size_t)k * stride, bytes, base + (uint64_t)k);
    return error ? error : way_send(slice->way, slice->in, 8, 0, SLICE_TAG_ACK);
}

/* As many messages outstanding as a window holds, each in its own place, then one back. */
static inline int slice_rate(struct slice *slice, size_t bytes, uint64_t iterations, double *ns)
{
    size_t stride = (bytes + 63) / 64 * 64;
    uint64_t windows = (iterations + SLICE_WINDOW - 1) / SLICE_WINDOW, differing = 0;
    for (size_t k = 0; k < SLICE_WINDOW; k++)
        slice_fill(slice->out + k * stride, bytes,
                   slice->rank == 0 ? slice->serial + k : ~slice->serial);
    memset(slice->in, 0, 8);
    int error = way_barrier(slice->way);
    uint64_t begin = slice_now_ns();
    for (uint64_t i = 0; slice->rank < 2 && !error && i < windows; i++)
        error = slice->rank == 0
                    ? slice_window_send(slice, bytes, stride, i * SLICE_WINDOW)
                    : slice_window_receive(slice, bytes, stride, i * SLICE_WINDOW, &differing);
    if (slice->rank > 1 || error)
        return error;
    *ns = (double)(slice_now_ns() - begin) / (double)(windows * SLICE_WINDOW);
    error = slice_judge(slice, differing, bytes);
    for (size_t k = 0; !error && k < SLICE_WINDOW; k++)
        error = slice_check(slice, slice->out + k * stride, bytes, slice->serial + k);
    return error;
}

static inline int slice_barrier(struct slice *slice, uint64_t iterations, double *ns)
{
    int error = way_barrier(slice->way);
    uint64_t begin = slice_now_ns();
    for (uint64_t i = 0; !error && i < iterations; i++)
        error = way_barrier(slice->way);
    *ns = (double)(slice_now_ns() - begin) / (double)iterations;
    return error;
}

/* The root goes round and touches what it got last: none begins before it has the data. */
static inline int slice_broadcast(struct slice *slice, size_t bytes, uint64_t iterations,
                                  double *ns)
{
    unsigned char *data = slice->out;
    uint64_t differing = 0;
    slice_fill(data, bytes, slice->rank == 0 ? slice->serial : ~slice->serial);
    int error = way_barrier(slice->way), root = 0;
    uint64_t begin = slice_now_ns();
    for (uint64_t i = 0; !error && i < iterations; i++) {
        if (slice->rank == root)
            slice_stamp(data, bytes, i);
        error = way_broadcast(slice->way, data, bytes, root);
        differing |= slice_differs(data, bytes, i);
        root = root + 1 == slice->rank_count ? 0 : root + 1;
    }
    *ns = (double)(slice_now_ns() - begin) / (double)iterations;
    if (!error)
        error = slice_judge(slice, differing, bytes);
    return error ? error : slice_check(slice, data, bytes, slice->serial);
}

/* Whole numbers, so that the sum is exact in any order. */
static inline int slice_allreduce(struct slice *slice, size_t bytes, uint64_t iterations,
                                  double *ns)
{
    double *from = (double *)(void *)slice->out, *to = (double *)(void *)slice->in;
    size_t count = bytes / sizeof(double);
    double ranks = slice->rank_count, sum_of_ranks = ranks * (ranks - 1) / 2;
    int differing = 0;
    for (size_t k = 0; k < count; k++) {
        from[k] = (double)(slice->serial + k % 1021) + slice->rank;
        to[k] = -1;
    }
    int error = way_barrier(slice->way);
    uint64_t begin = slice_now_ns();
    for (uint64_t i = 0; !error && i < iterations; i++) {
        if (count)
            from[0] = (double)i + slice->rank;
        error = way_sum(slice->way, from, to, count);
        differing |= count && to[0] != ranks * (double)i + sum_of_ranks;
    }
    *ns = (double)(slice_now_ns() - begin) / (double)iterations;
    if (!error && differing)
        error = slice_fail(slice, "a sum is wrong in vectors of this many bytes", bytes);
    for (size_t k = 1; !error && k < count; k++)
        if (to[k] != ranks * (double)(slice->serial + k % 1021) + sum_of_ranks)
            error = slice_fail(slice, "a sum is wrong, first in element", k);
    return error;
}

#endif
