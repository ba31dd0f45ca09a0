// SPDX-License-Identifier: Apache-2.0
// Phantom data: see phantom.h.
//
// Algorithm: sorted ranges in a gap buffer; one function replaces a stretch by a list of ranges and
// joins what fits at its ends. Advantage: a stream that arrives in order extends one range in
// place. Disadvantage: changes in random places of many ranges move memory.

#include "sim/phantom.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_RANGES 16

uint64_t sim_phantom_hash(uint64_t rank)
{
    uint64_t z = (rank + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint64_t sim_phantom_all(uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t rank = 0; rank < count; rank++)
        sum += sim_phantom_hash(rank);
    return sum;
}

void sim_store_close(struct sim_store *store)
{
    free(store->range);
    *store = (struct sim_store){.range = NULL};
}

// ---- The array ----

static struct sim_range *at(const struct sim_store *store, uint32_t index)
{
    return &store->range[index < store->gap ? index : index + (store->capacity - store->count)];
}

// The first range that ends after `place`.
static uint32_t find(const struct sim_store *store, uint64_t place)
{
    uint32_t low = 0, high = store->count;
    // Most changes are next to the last one.
    uint32_t near = store->gap ? store->gap - 1 : 0;
    if (near < high && at(store, near)->to > place) {
        high = near;
        if (near && at(store, near - 1)->to <= place)
            return near;
    } else if (near < high) {
        low = near + 1;
        if (low < high && at(store, low)->to > place)
            return low;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (at(store, middle)->to > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void move_gap(struct sim_store *store, uint32_t to)
{
    uint32_t gap = store->gap, free_count = store->capacity - store->count;
    struct sim_range *range = store->range;
    if (to < gap)
        memmove(range + to + free_count, range + to, (gap - to) * sizeof *range);
    else if (to > gap)
        memmove(range + gap, range + gap + free_count, (to - gap) * sizeof *range);
    store->gap = to;
}

static int make_room(struct sim_store *store, uint32_t more)
{
    if (store->count + more <= store->capacity)
        return 0;
    uint32_t capacity = store->capacity + store->capacity / 2 + more + 4;
    struct sim_range *grown = realloc(store->range, capacity * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    store->range = grown;
    uint32_t behind = store->count - store->gap;
    memmove(grown + capacity - behind, grown + store->capacity - behind, behind * sizeof *grown);
    store->capacity = capacity;
    return 0;
}

// Puts `count` ranges in the place of [first, end).
static int replace(struct sim_store *store, uint32_t first, uint32_t end,
                   const struct sim_range *ranges, uint32_t count)
{
    uint32_t old = end - first;
    if (count > old && make_room(store, count - old))
        return -ENOMEM;
    move_gap(store, end);
    store->gap = first;
    store->count -= old;
    if (count)
        memcpy(store->range + first, ranges, count * sizeof *ranges);
    store->gap += count;
    store->count += count;
    return 0;
}

// ---- Ranges ----

static bool joins(const struct sim_range *a, const struct sim_range *b)
{
    return a->to == b->from && a->sum == b->sum && a->shift == b->shift;
}

struct list {
    struct sim_range *range;
    uint32_t count;
};

static void append(struct list *list, const struct sim_range *range)
{
    if (range->from >= range->to)
        return;
    if (list->count && joins(&list->range[list->count - 1], range))
        list->range[list->count - 1].to = range->to;
    else
        list->range[list->count++] = *range;
}

// The most frequent change: what comes next in a stream. False: it is none.
static bool extend(struct sim_store *store, uint32_t first, const struct sim_range *one)
{
    if (!first)
        return false;
    struct sim_range *before = at(store, first - 1);
    if (!joins(before, one))
        return false;
    if (first < store->count) {
        struct sim_range *after = at(store, first);
        bool overlap = after->from < one->to;
        bool same = after->sum == one->sum && after->shift == one->shift;
        if ((overlap && after->to <= one->to) || (same && after->from <= one->to))
            return false;
        if (overlap)
            after->from = one->to;
    }
    before->to = one->to;
    return true;
}

int sim_store_write(struct sim_store *store, uint64_t from, uint64_t to,
                    const struct sim_range *ranges, uint32_t count, uint64_t move)
{
    struct sim_range local[LOCAL_RANGES], *made = local;
    if (from >= to)
        return 0;
    uint32_t first = find(store, from);
    if (count == 1) {
        struct sim_range one = {ranges->from + move, ranges->to + move, ranges->sum,
                                ranges->shift - move};
        if (one.from == from && one.to == to && extend(store, first, &one))
            return 0;
    }
    if (count + 4 > LOCAL_RANGES && !(made = malloc((count + 4) * sizeof *made)))
        return -ENOMEM;
    struct list list = {made, 0};
    uint32_t end = first;
    while (end < store->count && at(store, end)->from < to)
        end++;
    // What is left of the ranges at both ends, and their neighbours, which may join.
    struct sim_range left = {0}, right = {0};
    if (end > first) {
        left = *at(store, first);
        left.to = left.to < from ? left.to : from;
        right = *at(store, end - 1);
        right.from = right.from > to ? right.from : to;
    }
    if (left.from >= left.to && first && at(store, first - 1)->to == from)
        left = *at(store, --first);
    if (right.from >= right.to && end < store->count && at(store, end)->from == to)
        right = *at(store, end++);
    append(&list, &left);
    for (uint32_t i = 0; i < count; i++) {
        struct sim_range one = {ranges[i].from + move, ranges[i].to + move, ranges[i].sum,
                                ranges[i].shift - move};
        append(&list, &one);
    }
    append(&list, &right);
    int error = replace(store, first, end, list.range, list.count);
    if (made != local)
        free(made);
    return error;
}

uint32_t sim_store_read(const struct sim_store *store, uint64_t from, uint64_t to,
                        struct sim_range *ranges, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = find(store, from); i < store->count && at(store, i)->from < to; i++) {
        if (count < most) {
            ranges[count] = *at(store, i);
            if (ranges[count].from < from)
                ranges[count].from = from;
            if (ranges[count].to > to)
                ranges[count].to = to;
        }
        count++;
    }
    return count;
}

// Reads all of them; *ranges is `local` or has to be freed.
static int read_all(const struct sim_store *store, uint64_t from, uint64_t to,
                    struct sim_range local[LOCAL_RANGES], struct sim_range **ranges,
                    uint32_t *count)
{
    *ranges = local;
    *count = sim_store_read(store, from, to, local, LOCAL_RANGES);
    if (*count <= LOCAL_RANGES)
        return 0;
    *ranges = malloc(*count * sizeof **ranges);
    if (!*ranges)
        return -ENOMEM;
    sim_store_read(store, from, to, *ranges, *count);
    return 0;
}

int sim_store_copy(struct sim_store *to_store, uint64_t to, const struct sim_store *from_store,
                   uint64_t from, uint64_t bytes)
{
    struct sim_range local[LOCAL_RANGES], *ranges;
    uint32_t count;
    int error = read_all(from_store, from, from + bytes, local, &ranges, &count);
    if (!error)
        error = sim_store_write(to_store, to, to + bytes, ranges, count, to - from);
    if (!error && ranges != local)
        free(ranges);
    return error;
}

int sim_store_combine(const struct sim_store *in_store, uint64_t in, struct sim_store *inout_store,
                      uint64_t inout, uint64_t bytes)
{
    struct sim_range local_in[LOCAL_RANGES], local_out[LOCAL_RANGES], *a, *b, *sums;
    uint32_t a_count, b_count;
    uint64_t move = inout - in;
    int error = read_all(in_store, in, in + bytes, local_in, &a, &a_count);
    if (error)
        return error;
    error = read_all(inout_store, inout, inout + bytes, local_out, &b, &b_count);
    sums = error ? NULL : malloc((a_count + b_count) * sizeof *sums + 1);
    if (!sums)
        error = -ENOMEM;
    struct list list = {sums, 0};
    for (uint32_t i = 0, j = 0; !error && i < a_count && j < b_count;) {
        uint64_t from = a[i].from + move > b[j].from ? a[i].from + move : b[j].from;
        uint64_t to = a[i].to + move < b[j].to ? a[i].to + move : b[j].to;
        // Bytes of different places do not add up to anything.
        if (from < to && a[i].shift - move == b[j].shift)
            append(&list, &(struct sim_range){from, to, a[i].sum + b[j].sum, b[j].shift});
        if (a[i].to + move <= to)
            i++;
        if (b[j].to <= to)
            j++;
    }
    if (!error)
        error = sim_store_write(inout_store, inout, inout + bytes, sums, list.count, 0);
    free(sums);
    if (a != local_in)
        free(a);
    if (b != local_out)
        free(b);
    return error;
}

bool sim_store_is(const struct sim_store *store, uint64_t bytes, uint64_t sum)
{
    struct sim_range range;
    return !bytes || (sim_store_read(store, 0, bytes, &range, 1) == 1 && range.from == 0 &&
                      range.to == bytes && range.sum == sum && range.shift == 0);
}
