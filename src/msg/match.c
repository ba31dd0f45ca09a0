// SPDX-License-Identifier: Apache-2.0
// The matcher's stores: bins, lists, envelopes and cells.
//
// Algorithm: a bin is found by multiplying the key with a constant and keeping the highest bits.
// Bins hold what hashes to them in order of stamps, so the first that fits is the right one. When
// there are more entries than bins, the bins are doubled and filled anew from the list of all,
// which keeps that order. A message's cells are chained through their first word, as the slab
// chains what is free, so they are taken and given back as a chain. Advantage: no step depends on
// what waits under other keys. Disadvantage: the doubling makes one call in many a long one.

#include "msg/match.h"

#include <errno.h>
#include <string.h>

#define CELL_BYTES 124
#define PAGE_SPARE 8192 // no less than a slab's page of envelopes

struct cell {
    uint32_t next;
    uint8_t bytes[CELL_BYTES];
};

static uint32_t bin_of(uint32_t bits, uint32_t context, int32_t source, int32_t tag)
{
    uint64_t key = (uint64_t)(uint32_t)source << 32 | (uint32_t)tag;
    key ^= context * 0xc2b2ae3d27d4eb4full; // odd constants whose bits look random
    key ^= key >> 29;
    return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> (64 - bits));
}

static bool is_wild(const struct msg_request *request)
{
    return request->peer < 0 || request->tag < 0;
}

static struct msg_unexpected *unexpected_at(const struct msg_matcher *matcher, uint32_t index)
{
    return msg_slab_at(&matcher->headers, index);
}

static struct cell *cell_at(const struct msg_matcher *matcher, uint32_t index)
{
    return msg_slab_at(&matcher->cells, index);
}

static uint64_t cells_for(uint64_t bytes)
{
    return bytes / CELL_BYTES + (bytes % CELL_BYTES != 0);
}

// ---- Bins -----------------------------------------------------------------------------------

static void append(struct msg_request **head, struct msg_request **tail,
                   struct msg_request *request)
{
    request->bin_next = NULL;
    request->bin_previous = *tail;
    if (*tail)
        (*tail)->bin_next = request;
    else
        *head = request;
    *tail = request;
}

static void unlink_from(struct msg_request **head, struct msg_request **tail,
                        struct msg_request *request)
{
    if (request->bin_previous)
        request->bin_previous->bin_next = request->bin_next;
    else
        *head = request->bin_next;
    if (request->bin_next)
        request->bin_next->bin_previous = request->bin_previous;
    else
        *tail = request->bin_previous;
    request->bin_next = request->bin_previous = NULL;
}

static struct msg_posted_bin *bin_of_posted(const struct msg_matcher *matcher,
                                            const struct msg_request *request)
{
    return &matcher->posted_bin[bin_of(matcher->posted_bits, request->context, request->peer,
                                       request->tag)];
}

static struct msg_unexpected_bin *bin_of_envelope(const struct msg_matcher *matcher,
                                                  const struct msg_envelope *envelope)
{
    return &matcher->unexpected_bin[bin_of(matcher->unexpected_bits, envelope->context,
                                           envelope->source, envelope->tag)];
}

static void append_unexpected(struct msg_matcher *matcher, struct msg_unexpected *message)
{
    struct msg_unexpected_bin *bin = bin_of_envelope(matcher, &message->envelope);
    message->bin_next = 0;
    message->bin_previous = bin->tail;
    if (bin->tail)
        unexpected_at(matcher, bin->tail)->bin_next = message->self;
    else
        bin->head = message->self;
    bin->tail = message->self;
}

// Memory for twice as many bins, or NULL: longer bins are slower and nothing else, so they neither
// take what envelopes may need nor, where the budget is less than the limits together, what cells
// may: has_room has foretold it.
static void *more_bins(struct msg_matcher *matcher, uint64_t bytes)
{
    const struct msg_pools *pools = matcher->pools;
    const struct msg_pool *headers = &pools->pool[POOL_HEADERS];
    const struct msg_pool *cells = &pools->pool[POOL_BYTES];
    uint64_t charged = msg_heap_bytes(bytes), left = headers->limit - headers->used;
    uint64_t needed = left;
    if (charged > headers->limit / 8 || left < charged + headers->limit / 4 + PAGE_SPARE ||
        __builtin_add_overflow(needed, cells->limit - cells->used, &needed) ||
        needed > pools->budget - pools->used)
        return NULL;
    return msg_alloc(matcher->pools, POOL_HEADERS, bytes);
}

static void free_posted_bins(struct msg_matcher *matcher)
{
    if (matcher->posted_bin != matcher->posted_first)
        msg_free(matcher->pools, POOL_HEADERS, matcher->posted_bin,
                 sizeof *matcher->posted_bin << matcher->posted_bits);
}

static void free_unexpected_bins(struct msg_matcher *matcher)
{
    if (matcher->unexpected_bin != matcher->unexpected_first)
        msg_free(matcher->pools, POOL_HEADERS, matcher->unexpected_bin,
                 sizeof *matcher->unexpected_bin << matcher->unexpected_bits);
}

static void grow_posted_bins(struct msg_matcher *matcher)
{
    struct msg_posted_bin *bins =
        more_bins(matcher, (uint64_t)sizeof *bins << (matcher->posted_bits + 1));
    if (!bins)
        return;
    free_posted_bins(matcher);
    matcher->posted_bin = bins;
    matcher->posted_bits++;
    for (struct msg_request *request = matcher->posted_head; request; request = request->next) {
        if (is_wild(request))
            continue;
        struct msg_posted_bin *bin = bin_of_posted(matcher, request);
        append(&bin->head, &bin->tail, request);
    }
}

static void grow_unexpected_bins(struct msg_matcher *matcher)
{
    struct msg_unexpected_bin *bins =
        more_bins(matcher, (uint64_t)sizeof *bins << (matcher->unexpected_bits + 1));
    if (!bins)
        return;
    free_unexpected_bins(matcher);
    matcher->unexpected_bin = bins;
    matcher->unexpected_bits++;
    for (uint32_t index = matcher->head; index;) {
        struct msg_unexpected *message = unexpected_at(matcher, index);
        append_unexpected(matcher, message);
        index = message->next;
    }
}

void msg_match_open(struct msg_matcher *matcher, struct msg_pools *pools)
{
    *matcher = (struct msg_matcher){.pools = pools, .next_stamp = 1};
    uint32_t bits = (uint32_t)__builtin_ctz(MATCH_BINS);
    matcher->posted_bits = matcher->unexpected_bits = bits;
    matcher->posted_bin = matcher->posted_first;
    matcher->unexpected_bin = matcher->unexpected_first;
    msg_slab_open(&matcher->headers, pools, POOL_HEADERS, sizeof(struct msg_unexpected));
    msg_slab_open(&matcher->cells, pools, POOL_BYTES, sizeof(struct cell));
}

void msg_match_close(struct msg_matcher *matcher)
{
    if (!matcher->pools)
        return; // was never opened
    free_posted_bins(matcher);
    free_unexpected_bins(matcher);
    msg_slab_close(&matcher->headers);
    msg_slab_close(&matcher->cells);
    *matcher = (struct msg_matcher){0};
}

// ---- Posted receives ------------------------------------------------------------------------

void msg_match_post(struct msg_matcher *matcher, struct msg_request *request)
{
    if (matcher->posted_count >> matcher->posted_bits)
        grow_posted_bins(matcher);
    request->stamp = matcher->next_stamp++;
    request->next = NULL;
    request->previous = matcher->posted_tail;
    if (matcher->posted_tail)
        matcher->posted_tail->next = request;
    else
        matcher->posted_head = request;
    matcher->posted_tail = request;
    matcher->posted_count++;
    if (is_wild(request)) {
        append(&matcher->wild_head, &matcher->wild_tail, request);
    } else {
        struct msg_posted_bin *bin = bin_of_posted(matcher, request);
        append(&bin->head, &bin->tail, request);
    }
}

void msg_match_withdraw(struct msg_matcher *matcher, struct msg_request *request)
{
    if (matcher->cursor == request)
        matcher->cursor = request->previous;
    if (request->previous)
        request->previous->next = request->next;
    else
        matcher->posted_head = request->next;
    if (request->next)
        request->next->previous = request->previous;
    else
        matcher->posted_tail = request->previous;
    request->next = request->previous = NULL;
    matcher->posted_count--;
    if (is_wild(request)) {
        unlink_from(&matcher->wild_head, &matcher->wild_tail, request);
    } else {
        struct msg_posted_bin *bin = bin_of_posted(matcher, request);
        unlink_from(&bin->head, &bin->tail, request);
    }
}

static struct msg_request *first_fitting(struct msg_request *request,
                                         const struct msg_envelope *envelope, uint64_t before)
{
    while (request && request->stamp < before) {
        if (msg_fits(request->context, request->peer, request->tag, envelope))
            return request;
        request = request->bin_next;
    }
    return NULL;
}

struct msg_request *msg_match_arrival(struct msg_matcher *matcher,
                                      const struct msg_envelope *envelope)
{
    if (!matcher->posted_count)
        return NULL;
    uint32_t bin = bin_of(matcher->posted_bits, envelope->context, envelope->source, envelope->tag);
    struct msg_request *found = first_fitting(matcher->posted_bin[bin].head, envelope, UINT64_MAX);
    struct msg_request *wild =
        first_fitting(matcher->wild_head, envelope, found ? found->stamp : UINT64_MAX);
    if (wild)
        found = wild;
    if (found)
        msg_match_withdraw(matcher, found);
    return found;
}

struct msg_request *msg_match_next_posted(const struct msg_matcher *matcher, uint64_t stamp)
{
    // From where the last answer was, since the next question is mostly about its neighbour.
    struct msg_request *before = matcher->cursor;
    while (before && before->stamp > stamp)
        before = before->previous;
    struct msg_request *request = before ? before->next : matcher->posted_head;
    while (request && request->stamp <= stamp)
        request = request->next;
    if (request) // a place remembered changes nothing that callers can see
        ((struct msg_matcher *)(uintptr_t)matcher)->cursor = request;
    return request;
}

// ---- Unexpected messages --------------------------------------------------------------------

struct msg_unexpected *msg_match_find(const struct msg_matcher *matcher, uint32_t context,
                                      int32_t from, int32_t tag)
{
    if (!matcher->unexpected_count)
        return NULL;
    bool wild = from < 0 || tag < 0;
    uint32_t index =
        wild ? matcher->head
             : matcher->unexpected_bin[bin_of(matcher->unexpected_bits, context, from, tag)].head;
    while (index) {
        struct msg_unexpected *message = unexpected_at(matcher, index);
        if (msg_fits(context, from, tag, &message->envelope))
            return message;
        index = wild ? message->next : message->bin_next;
    }
    return NULL;
}

struct msg_unexpected *msg_match_add(struct msg_matcher *matcher,
                                     const struct msg_envelope *envelope)
{
    uint32_t index = msg_slab_take(&matcher->headers);
    if (!index)
        return NULL;
    if (matcher->unexpected_count >> matcher->unexpected_bits)
        grow_unexpected_bins(matcher);
    struct msg_unexpected *message = unexpected_at(matcher, index);
    message->envelope = *envelope;
    message->stamp = matcher->next_stamp++;
    message->self = index;
    message->state = UNEXPECTED_WHOLE;
    message->previous = matcher->tail;
    if (matcher->tail)
        unexpected_at(matcher, matcher->tail)->next = index;
    else
        matcher->head = index;
    matcher->tail = index;
    matcher->unexpected_count++;
    append_unexpected(matcher, message);
    return message;
}

void msg_match_take(struct msg_matcher *matcher, struct msg_unexpected *message)
{
    struct msg_unexpected_bin *bin = bin_of_envelope(matcher, &message->envelope);
    if (message->previous)
        unexpected_at(matcher, message->previous)->next = message->next;
    else
        matcher->head = message->next;
    if (message->next)
        unexpected_at(matcher, message->next)->previous = message->previous;
    else
        matcher->tail = message->previous;
    if (message->bin_previous)
        unexpected_at(matcher, message->bin_previous)->bin_next = message->bin_next;
    else
        bin->head = message->bin_next;
    if (message->bin_next)
        unexpected_at(matcher, message->bin_next)->bin_previous = message->bin_previous;
    else
        bin->tail = message->bin_previous;
    message->next = message->previous = message->bin_next = message->bin_previous = 0;
    matcher->unexpected_count--;
}

// ---- Their bytes ----------------------------------------------------------------------------

bool msg_match_has_room_for(const struct msg_matcher *matcher, uint64_t messages, uint64_t bytes)
{
    uint64_t cells;
    if (__builtin_mul_overflow(messages, cells_for(bytes), &cells))
        return false;
    if (messages <= msg_slab_free_count(&matcher->headers) &&
        cells <= msg_slab_free_count(&matcher->cells))
        return true;
    struct msg_pools trial = *matcher->pools;
    return msg_slab_fits(&matcher->headers, messages, &trial) &&
           msg_slab_fits(&matcher->cells, cells, &trial);
}

bool msg_match_has_room(const struct msg_matcher *matcher, uint64_t bytes)
{
    return msg_match_has_room_for(matcher, 1, bytes);
}

int msg_match_store(struct msg_matcher *matcher, struct msg_unexpected *message, const void *from,
                    uint64_t bytes)
{
    const uint8_t *source = from;
    uint64_t used = message->stored % CELL_BYTES;
    uint64_t tail = used ? CELL_BYTES - used : 0; // left in the last cell
    if (tail > bytes)
        tail = bytes;
    uint64_t cells = cells_for(bytes - tail);
    uint32_t first = 0, last = 0;
    if (cells) {
        first =
            cells > UINT32_MAX ? 0 : msg_slab_take_chain(&matcher->cells, (uint32_t)cells, &last);
        if (!first)
            return -ENOBUFS;
    }
    if (tail)
        memcpy(cell_at(matcher, message->last_cell)->bytes + used, source, (size_t)tail);
    message->stored += bytes;
    if (!first)
        return 0;
    source += tail;
    bytes -= tail;
    uint32_t at = first;
    for (; bytes > CELL_BYTES; bytes -= CELL_BYTES, source += CELL_BYTES) {
        struct cell *cell = cell_at(matcher, at);
        memcpy(cell->bytes, source, CELL_BYTES);
        at = cell->next;
    }
    memcpy(cell_at(matcher, at)->bytes, source, (size_t)bytes);
    if (message->last_cell)
        cell_at(matcher, message->last_cell)->next = first;
    else
        message->first_cell = first;
    message->last_cell = last;
    return 0;
}

uint64_t msg_match_piece(const struct msg_matcher *matcher, const struct msg_unexpected *message,
                         uint32_t *cell, const void **piece)
{
    uint32_t index = *cell ? *cell : message->first_cell;
    *cell = 0;
    *piece = NULL;
    if (!index)
        return 0;
    const struct cell *at = cell_at(matcher, index);
    *piece = at->bytes;
    *cell = at->next;
    return at->next ? CELL_BYTES : (message->stored - 1) % CELL_BYTES + 1;
}

void msg_match_drop_bytes(struct msg_matcher *matcher, struct msg_unexpected *message)
{
    if (message->first_cell)
        msg_slab_give_chain(&matcher->cells, message->first_cell, message->last_cell,
                            (uint32_t)cells_for(message->stored));
    message->first_cell = message->last_cell = 0;
    message->stored = 0;
}

void msg_match_drop(struct msg_matcher *matcher, struct msg_unexpected *message)
{
    msg_match_drop_bytes(matcher, message);
    msg_slab_give(&matcher->headers, message->self);
}
