/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for messages: stamped bytes in any layout, with poison in its gaps and around it.
 *
 * Every byte follows from a seed and its place in the message, and the place of each byte in memory
 * is computed by a plain formula of the test's own. A check compares the bytes that were received,
 * poisons them, and then wants nothing but poison in the whole block. Advantage: a byte that is
 * lost, doubled, misplaced or written beyond the end shows, and the memory is as new afterwards.
 * Disadvantage: byte by byte, so megabytes take milliseconds.
 */
#ifndef LEAT_TEST_MULTI_MSG_DATA_H
#define LEAT_TEST_MULTI_MSG_DATA_H

#include "multi/ranks.h"
#include "multi/msg_gpu.h"

#include <leat/msg.h>

#define MSG_GUARD  64
#define MSG_POISON 0xa5

enum msg_shape {
    MSG_PLAIN,
    MSG_ROWS,      /* two dimensions, gaps between blocks */
    MSG_BACKWARDS, /* the same from the far end, negative strides */
    MSG_DEEP,      /* four dimensions, one of them backwards */
    MSG_PIECES,    /* of uneven lengths, by a function */
    MSG_SHAPES
};

struct msg_memory {
    enum msg_shape shape;
    uint8_t *gpu;   /* the address of all of it in memory of an emulated GPU, or NULL */
    uint8_t *whole; /* where this program finds it */
    uint64_t whole_bytes, bytes;
    leat_layout layout;
    leat_data data;
};

#define MSG_STAMPED 512 /* bytes that are made at a time */

/* Bytes [place, place + bytes) of a message. */
static void msg_stamps(uint64_t seed, uint64_t place, uint8_t *to, uint64_t bytes)
{
    uint64_t words[MSG_STAMPED / 8 + 1], skip = place % 8, count = (skip + bytes + 7) / 8;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = seed * 0x9e3779b97f4a7c15ULL + (place / 8 + i + 1) * 0xbf58476d1ce4e5b9ULL;
        words[i] = (word ^ (word >> 31)) * 0x94d049bb133111ebULL;
    }
    memcpy(to, (const uint8_t *)words + skip, bytes);
}

/* ---- Layouts ---- */

/* Pieces of these lengths follow one another, each after a gap of 3 bytes. */
static const uint64_t msg_piece_bytes[] = {1, 7, 64, 300, 5, 4096};

static uint8_t *msg_find_piece(uint8_t *base, uint64_t place, uint64_t *left)
{
    uint64_t period = 0, count = sizeof msg_piece_bytes / sizeof *msg_piece_bytes;
    for (uint64_t i = 0; i < count; i++)
        period += msg_piece_bytes[i];
    uint64_t rest = place % period, i = 0, at = place / period * (period + 3 * count) + 3;
    for (; rest >= msg_piece_bytes[i]; i++) {
        rest -= msg_piece_bytes[i];
        at += msg_piece_bytes[i] + 3;
    }
    *left = msg_piece_bytes[i] - rest;
    return base + at + rest;
}

static uint64_t msg_piece_of(void *user, void *address, uint64_t place, void **at)
{
    uint64_t left;
    (void)address;
    *at = msg_find_piece((uint8_t *)user + MSG_GUARD, place, &left);
    return left;
}

/* The largest divisor up to a bound. */
static uint64_t msg_divisor(uint64_t number, uint64_t bound)
{
    uint64_t divisor = bound;
    while (divisor > 1 && number % divisor)
        divisor--;
    return divisor;
}

static void msg_set_dim(struct msg_memory *memory, int d, uint64_t count, int64_t stride)
{
    memory->layout.dim[d].count = count;
    memory->layout.dim[d].stride_bytes = stride;
}

/* Blocks in one, two or four dimensions; what they span is left in whole_bytes. */
static void msg_make_blocks(struct msg_memory *memory)
{
    uint64_t block = msg_divisor(memory->bytes, 48), count = memory->bytes / block;
    uint64_t inner = msg_divisor(count, 64);
    int64_t sign = memory->shape == MSG_BACKWARDS ? -1 : 1;
    int64_t near_stride = (int64_t)block + 5, far_stride = near_stride * (int64_t)inner + 9;
    memory->layout = (leat_layout){.size = sizeof memory->layout, .block_bytes = block};
    memory->whole_bytes = (uint64_t)far_stride * (count / inner);
    if (memory->shape == MSG_DEEP) {
        uint64_t third = msg_divisor(inner, 4), second = msg_divisor(count / inner, 8);
        memory->layout.dim_count = 4;
        msg_set_dim(memory, 0, count / inner / second, far_stride * (int64_t)second);
        msg_set_dim(memory, 1, second, far_stride);
        msg_set_dim(memory, 2, inner / third, -near_stride * (int64_t)third);
        msg_set_dim(memory, 3, third, near_stride);
        return;
    }
    memory->layout.dim_count = 2;
    msg_set_dim(memory, 0, count / inner, sign * far_stride);
    msg_set_dim(memory, 1, inner, sign * near_stride);
}

/* Where the first block begins so that none lies before the memory. */
static uint8_t *msg_first_block(const struct msg_memory *memory)
{
    uint8_t *first = memory->whole + MSG_GUARD;
    for (int d = 0; d < memory->layout.dim_count; d++)
        if (memory->layout.dim[d].stride_bytes < 0)
            first -=
                memory->layout.dim[d].stride_bytes * ((int64_t)memory->layout.dim[d].count - 1);
    return first;
}

/* The memory of a byte of the message, and how many from there on lie together. */
static uint8_t *msg_byte(const struct msg_memory *memory, uint64_t place, uint64_t *left)
{
    *left = memory->bytes - place;
    if (memory->shape == MSG_PLAIN)
        return memory->whole + MSG_GUARD + place;
    uint64_t block = memory->layout.block_bytes, together;
    uint8_t *at, *first = memory->data.address;
    if (memory->gpu)
        first = memory->whole + (first - memory->gpu);
    if (memory->shape == MSG_PIECES) {
        at = msg_find_piece(memory->whole + MSG_GUARD, place, &together);
    } else {
        at = first + place % block;
        together = block - place % block;
        uint64_t number = place / block;
        for (int d = memory->layout.dim_count - 1; d >= 0; d--) {
            uint64_t count = memory->layout.dim[d].count;
            at += (int64_t)(number % count) * memory->layout.dim[d].stride_bytes;
            number /= count;
        }
    }
    if (together < *left)
        *left = together;
    return at;
}

/* ---- Memory ---- */

/* Poisoned memory for so many bytes, of the host or of an emulated GPU. Must not be moved, for the
 * layout is in it. */
static bool msg_memory_make_in(struct rank_thread *self, struct msg_memory *memory,
                               enum msg_shape shape, uint64_t bytes, bool gpu)
{
    *memory = (struct msg_memory){.shape = shape, .bytes = bytes, .whole_bytes = bytes};
    if (!bytes && shape != MSG_PIECES)
        memory->shape = MSG_PLAIN;
    if (memory->shape == MSG_PIECES)
        memory->whole_bytes = bytes + bytes / 100 + 64;
    else if (memory->shape != MSG_PLAIN)
        msg_make_blocks(memory);
    memory->whole_bytes += 2 * MSG_GUARD;
    if (gpu)
        memory->gpu = gpu_alloc(memory->whole_bytes, &memory->whole);
    else
        memory->whole = malloc(memory->whole_bytes);
    if (!rank_check(self, memory->whole && (!gpu || memory->gpu), "no memory for %llu bytes",
                    (unsigned long long)memory->whole_bytes))
        return false;
    memset(memory->whole, MSG_POISON, memory->whole_bytes);
    memory->data = (leat_data){.address = memory->whole + MSG_GUARD, .bytes = bytes};
    if (memory->shape == MSG_PIECES)
        memory->layout = (leat_layout){
            .size = sizeof memory->layout, .piece = msg_piece_of, .user = memory->whole};
    else if (memory->shape != MSG_PLAIN)
        memory->data.address = msg_first_block(memory);
    if (memory->shape != MSG_PLAIN)
        memory->data.layout = &memory->layout;
    if (memory->gpu)
        gpu_push(memory->gpu, memory->whole, memory->whole_bytes);
    if (memory->gpu)
        memory->data.address = memory->gpu + ((uint8_t *)memory->data.address - memory->whole);
    if (memory->gpu && memory->shape == MSG_PIECES)
        memory->layout.user = memory->gpu;
    return true;
}

__attribute__((unused)) static bool msg_memory_make(struct rank_thread *self,
                                                    struct msg_memory *memory, enum msg_shape shape,
                                                    uint64_t bytes)
{
    return msg_memory_make_in(self, memory, shape, bytes, false);
}

__attribute__((unused)) static void msg_memory_free(struct msg_memory *memory)
{
    if (memory->gpu)
        gpu_free(memory->gpu, memory->whole);
    else
        free(memory->whole);
    *memory = (struct msg_memory){0};
}

/* Bytes from `place` on that lie together, no more than are made at a time. */
static uint8_t *msg_stretch(const struct msg_memory *memory, uint64_t place, uint64_t end,
                            uint64_t *bytes)
{
    uint8_t *at = msg_byte(memory, place, bytes);
    if (*bytes > MSG_STAMPED)
        *bytes = MSG_STAMPED;
    if (*bytes > end - place)
        *bytes = end - place;
    return at;
}

__attribute__((unused)) static void msg_memory_stamp(struct msg_memory *memory, uint64_t seed)
{
    uint64_t bytes;
    for (uint64_t place = 0; place < memory->bytes; place += bytes) {
        uint8_t *at = msg_stretch(memory, place, memory->bytes, &bytes);
        msg_stamps(seed, place, at, bytes);
    }
    if (memory->gpu)
        gpu_push(memory->gpu, memory->whole, memory->whole_bytes);
}

/* `received` bytes are of the message with that seed, everything else is poison; so it is all then.
 */
__attribute__((unused)) static bool msg_memory_check(struct rank_thread *self,
                                                     struct msg_memory *memory, uint64_t seed,
                                                     uint64_t received)
{
    uint64_t wrong = 0, first = 0, bytes;
    uint8_t expected[MSG_STAMPED];
    if (memory->gpu)
        gpu_pull(memory->gpu, memory->whole, memory->whole_bytes);
    for (uint64_t place = 0; place < received; place += bytes) {
        uint8_t *at = msg_stretch(memory, place, received, &bytes);
        msg_stamps(seed, place, expected, bytes);
        for (uint64_t i = 0; memcmp(at, expected, bytes) && i < bytes; i++)
            if (at[i] != expected[i] && !wrong++)
                first = place + i;
        memset(at, MSG_POISON, bytes);
    }
    bool right =
        rank_check(self, !wrong, "%llu of %llu bytes are wrong, the first at %llu (shape %d)",
                   (unsigned long long)wrong, (unsigned long long)received,
                   (unsigned long long)first, (int)memory->shape);
    // All bytes are poison if the first one is and each one is as the one before it.
    bool clean = memory->whole[0] == MSG_POISON &&
                 !memcmp(memory->whole, memory->whole + 1, memory->whole_bytes - 1);
    if (!rank_check(self, clean, "bytes beyond the %llu received were written (shape %d)",
                    (unsigned long long)received, (int)memory->shape))
        memset(memory->whole, MSG_POISON, memory->whole_bytes);
    if (memory->gpu)
        gpu_push(memory->gpu, memory->whole, memory->whole_bytes);
    return right && clean;
}

#endif
