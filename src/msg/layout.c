// SPDX-License-Identifier: Apache-2.0
// Layouts: checks, and copies between a contiguous buffer and bytes that lie apart.
//
// Algorithm: an offset is divided into block and place in the block, the block's number into one
// index a dimension, once a call; from there an odometer steps from block to block by additions.
// Innermost dimensions whose stride closes up are one block. Advantage: any part of a message can
// be moved, at the cost of its own bytes. Disadvantage: blocks of a few bytes are copied one by
// one.

#include "msg/layout.h"

#include "core/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

// ---- Checks ---------------------------------------------------------------------------------

static int check_form(const leat_data *data, const char *what)
{
    const leat_layout *layout = data->layout;
    if (layout->size < sizeof *layout)
        return leat_fail(-EINVAL,
                         "%s: layout->size is %zu, expected sizeof(leat_layout), which is %zu; set "
                         "it before the call",
                         what, layout->size, sizeof *layout);
    if (layout->dim_count < 0 || layout->dim_count > LEAT_LAYOUT_DIMS)
        return leat_fail(
            -EINVAL,
            "%s: the layout has %d dimensions, expected 0 to %d; give a piece function "
            "for more",
            what, layout->dim_count, LEAT_LAYOUT_DIMS);
    if (layout->piece && (layout->dim_count || layout->block_bytes))
        return leat_fail(-EINVAL,
                         "%s: the layout has a piece function and blocks too (%" PRIu64
                         " bytes, %d dimensions); set one of them to 0",
                         what, layout->block_bytes, layout->dim_count);
    return 0;
}

// The bytes that the blocks describe; false: more than 64 bits can say.
static bool described_bytes(const leat_layout *layout, uint64_t *bytes)
{
    *bytes = 0;
    for (int d = 0; d < layout->dim_count; d++)
        if (layout->dim[d].count == 0)
            return true; // however many there are of the others
    *bytes = layout->block_bytes;
    for (int d = 0; d < layout->dim_count; d++)
        if (__builtin_mul_overflow(*bytes, layout->dim[d].count, bytes))
            return false;
    return true;
}

// How far the blocks reach below and above the address; false: farther than memory does.
static bool reach(const leat_layout *layout, uint64_t *below, uint64_t *above)
{
    *below = 0;
    *above = layout->block_bytes;
    for (int d = 0; d < layout->dim_count; d++) {
        int64_t stride = layout->dim[d].stride_bytes;
        uint64_t step = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
        uint64_t *end = stride < 0 ? below : above;
        uint64_t length;
        if (__builtin_mul_overflow(step, layout->dim[d].count - 1, &length) ||
            __builtin_add_overflow(*end, length, end))
            return false;
    }
    return true;
}

static int check_span(const leat_data *data, uint64_t below, uint64_t above, bool known,
                      const char *what)
{
    uintptr_t address = (uintptr_t)data->address;
    if (known && below <= address && above <= UINTPTR_MAX - address)
        return 0;
    return leat_fail(-EINVAL,
                     "%s: the %" PRIu64
                     " bytes of data at %p reach beyond the address space; check "
                     "bytes, counts and strides",
                     what, data->bytes, data->address);
}

static int check_blocks(const leat_data *data, const char *what, bool receive)
{
    const leat_layout *layout = data->layout;
    uint64_t bytes = 0, below = 0, above = 0;
    if (!described_bytes(layout, &bytes))
        return leat_fail(
            -EINVAL, "%s: the layout's counts times block_bytes %" PRIu64 " do not fit in 64 bits",
            what, layout->block_bytes);
    if (bytes < data->bytes || (bytes > data->bytes && !receive))
        return leat_fail(-EINVAL,
                         "%s: the layout describes %" PRIu64 " bytes, expected %s%" PRIu64
                         " as data.bytes says",
                         what, bytes, receive ? "at least " : "", data->bytes);
    if (bytes == 0)
        return 0;
    bool known = reach(layout, &below, &above);
    return check_span(data, below, above, known, what);
}

static int check(const leat_data *data, const char *what, bool receive)
{
    const leat_layout *layout = data->layout;
    int error = layout ? check_form(data, what) : 0;
    if (error)
        return error;
    if (layout && layout->piece)
        return 0; // the address is its own affair
    if (data->bytes && !data->address)
        return leat_fail(-EINVAL, "%s: data.address is NULL, and data.bytes %" PRIu64, what,
                         data->bytes);
    if (layout)
        return check_blocks(data, what, receive);
    return check_span(data, 0, data->bytes, true, what);
}

int msg_layout_check(const leat_data *data, const char *what)
{
    return check(data, what, false);
}

int msg_layout_check_receive(const leat_data *data, const char *what)
{
    return check(data, what, true);
}

// ---- Blocks ---------------------------------------------------------------------------------

struct walk {
    const leat_layout *layout;
    uint64_t block_bytes; /* with the dimensions that close up */
    int dim_count;        /* without them */
    uint64_t index[LEAT_LAYOUT_DIMS];
    char *block; /* the current one */
};

static char *moved(char *at, uint64_t count, int64_t stride)
{
    return at + (int64_t)(count * (uint64_t)stride);
}

// Starts at the block of byte `offset`; returns the byte's place in it.
static uint64_t walk_start(struct walk *walk, const leat_data *data, uint64_t offset)
{
    const leat_layout *layout = data->layout;
    walk->layout = layout;
    walk->block_bytes = layout->block_bytes;
    walk->dim_count = layout->dim_count;
    walk->block = data->address;
    for (int d = layout->dim_count - 1; d >= 0; d--) {
        uint64_t count = layout->dim[d].count;
        if (count != 1 && layout->dim[d].stride_bytes != (int64_t)walk->block_bytes)
            break;
        walk->block_bytes *= count;
        walk->dim_count = d;
    }
    uint64_t number = offset / walk->block_bytes;
    for (int d = walk->dim_count - 1; d >= 0; d--) {
        walk->index[d] = number % layout->dim[d].count;
        number /= layout->dim[d].count;
        walk->block = moved(walk->block, walk->index[d], layout->dim[d].stride_bytes);
    }
    return offset % walk->block_bytes;
}

static void walk_on(struct walk *walk)
{
    for (int d = walk->dim_count - 1; d >= 0; d--) {
        int64_t stride = walk->layout->dim[d].stride_bytes;
        if (++walk->index[d] < walk->layout->dim[d].count) {
            walk->block += stride;
            return;
        }
        walk->block = moved(walk->block, 1 - walk->index[d], stride);
        walk->index[d] = 0;
    }
}

uint64_t msg_layout_piece(const leat_data *data, uint64_t offset, void **at)
{
    const leat_layout *layout = data->layout;
    *at = NULL;
    if (offset >= data->bytes)
        return 0;
    uint64_t left = data->bytes - offset, bytes = left;
    if (!layout) {
        *at = (char *)data->address + offset;
    } else if (layout->piece) {
        bytes = layout->piece(layout->user, data->address, offset, at);
    } else {
        struct walk walk;
        uint64_t place = walk_start(&walk, data, offset);
        *at = walk.block + place;
        bytes = walk.block_bytes - place;
    }
    return bytes < left ? bytes : left;
}

// ---- Copies ---------------------------------------------------------------------------------

// Numbers are the common blocks, and a copy of known size is an instruction or two.
static inline void copy(void *to, const void *from, uint64_t bytes)
{
    switch (bytes) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, (size_t)bytes);
    }
}

// One loop for both directions: `store` is known where it is called.
static inline void copy_blocks(const leat_data *data, uint64_t offset, char *buffer, uint64_t bytes,
                               bool store)
{
    struct walk walk;
    uint64_t place = walk_start(&walk, data, offset);
    while (bytes) {
        uint64_t part = walk.block_bytes - place;
        if (part > bytes)
            part = bytes;
        if (store)
            copy(walk.block + place, buffer, part);
        else
            copy(buffer, walk.block + place, part);
        buffer += part;
        bytes -= part;
        place = 0;
        if (bytes)
            walk_on(&walk);
    }
}

static inline void copy_pieces(const leat_data *data, uint64_t offset, char *buffer, uint64_t bytes,
                               bool store)
{
    while (bytes) {
        void *at;
        uint64_t part = msg_layout_piece(data, offset, &at);
        if (part == 0)
            return; // a piece function that breaks its promise must not keep us for ever
        if (part > bytes)
            part = bytes;
        if (store)
            copy(at, buffer, part);
        else
            copy(buffer, at, part);
        buffer += part;
        offset += part;
        bytes -= part;
    }
}

void msg_layout_read_slow(const leat_data *data, uint64_t offset, void *to, uint64_t bytes)
{
    if (!bytes)
        return;
    if (data->layout && !data->layout->piece)
        copy_blocks(data, offset, to, bytes, false);
    else
        copy_pieces(data, offset, to, bytes, false);
}

void msg_layout_write_slow(const leat_data *data, uint64_t offset, const void *from, uint64_t bytes)
{
    if (!bytes)
        return;
    // Only read from, as `store` says.
    char *buffer = (char *)(uintptr_t)from;
    if (data->layout && !data->layout->piece)
        copy_blocks(data, offset, buffer, bytes, true);
    else
        copy_pieces(data, offset, buffer, bytes, true);
}
