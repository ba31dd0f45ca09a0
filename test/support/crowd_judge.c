// SPDX-License-Identifier: Apache-2.0
// What a receive should have got, and whether it did: see crowd.h.

#include "support/crowd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 32
#define GUARD       0xa7
#define POISON      0x77

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

void crowd_fail(struct crowd *crowd, const char *format, ...)
{
    if (crowd->failure[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(crowd->failure, sizeof crowd->failure, format, arguments);
    va_end(arguments);
}

// ---- who sent what ----

static size_t log_place(const struct crowd *crowd, int source, int destination, int context)
{
    uint64_t key = mix(mix(mix(1, (uint64_t)source), (uint64_t)destination), (uint64_t)context);
    size_t at = key & (crowd->log_capacity - 1);
    for (;; at = (at + 1) & (crowd->log_capacity - 1)) {
        const struct crowd_log *log = crowd->log[at];
        if (!log ||
            (log->source == source && log->destination == destination && log->context == context))
            return at;
    }
}

static void grow_logs(struct crowd *crowd)
{
    struct crowd_log **old = crowd->log;
    size_t old_capacity = crowd->log_capacity;
    crowd->log_capacity = old_capacity ? 2 * old_capacity : 64;
    crowd->log = calloc(crowd->log_capacity, sizeof *crowd->log);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i])
            crowd->log[log_place(crowd, old[i]->source, old[i]->destination, old[i]->context)] =
                old[i];
    free(old);
}

struct crowd_log *crowd_log(struct crowd *crowd, int source, int destination, int context)
{
    if (2 * crowd->log_count >= crowd->log_capacity)
        grow_logs(crowd);
    size_t at = log_place(crowd, source, destination, context);
    if (!crowd->log[at]) {
        struct crowd_log *log = calloc(1, sizeof *log);
        log->source = source;
        log->destination = destination;
        log->context = context;
        crowd->log[at] = log;
        crowd->log_count++;
    }
    return crowd->log[at];
}

// ---- bytes ----

// Strided: rows of 24 bytes, 40 apart, two rows a block, blocks 112 apart. Where `bytes` is no
// multiple of 48, blocks are found by function instead.
#define ROW_BYTES    24
#define ROW_STRIDE   40
#define BLOCK_BYTES  (2 * ROW_BYTES)
#define BLOCK_STRIDE 112

static uint64_t find_piece(void *user, void *address, uint64_t offset, void **at)
{
    uint64_t total = (uint64_t)(uintptr_t)user, row = offset / ROW_BYTES;
    uint64_t in_row = offset % ROW_BYTES, run = ROW_BYTES - in_row;
    *at = (char *)address + row / 2 * BLOCK_STRIDE + row % 2 * ROW_STRIDE + in_row;
    return run < total - offset ? run : total - offset;
}

leat_data crowd_data(uint64_t bytes, bool strided, char **memory, leat_layout *layout)
{
    strided = strided && bytes;
    uint64_t blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint64_t span = strided ? blocks * BLOCK_STRIDE : bytes;
    *memory = malloc(span + 2 * GUARD_BYTES);
    memset(*memory, GUARD, span + 2 * GUARD_BYTES);
    leat_data data = {.address = *memory + GUARD_BYTES, .bytes = bytes};
    if (strided) {
        *layout = (leat_layout){.size = sizeof *layout};
        data.layout = layout;
        if (bytes % BLOCK_BYTES) {
            layout->piece = find_piece;
            layout->user = (void *)(uintptr_t)bytes;
        } else {
            layout->block_bytes = ROW_BYTES;
            layout->dim_count = 2;
            layout->dim[0].count = blocks;
            layout->dim[0].stride_bytes = BLOCK_STRIDE;
            layout->dim[1].count = 2;
            layout->dim[1].stride_bytes = ROW_STRIDE;
        }
    }
    void *at;
    for (uint64_t offset = 0, run; offset < bytes; offset += run) {
        run = data.layout ? find_piece((void *)(uintptr_t)bytes, data.address, offset, &at) : bytes;
        memset(data.layout ? at : data.address, POISON, run);
    }
    return data;
}

struct pattern {
    uint64_t key, bytes;
};

static struct pattern pattern_of(const struct crowd_log *log, uint32_t sequence)
{
    uint64_t bytes = log->sent[sequence].bytes;
    uint64_t key = mix(mix(1, (uint64_t)log->source), (uint64_t)log->destination);
    return (struct pattern){mix(mix(mix(key, (uint64_t)log->context), sequence), bytes), bytes};
}

static void pattern_bytes(struct pattern pattern, uint64_t offset, char *to, uint64_t count)
{
    uint64_t i = 0;
    for (; i < count && (offset + i) % 8; i++)
        to[i] = (char)(mix(pattern.key, (offset + i) / 8) >> (offset + i) % 8 * 8);
    for (; i + 8 <= count; i += 8) {
        uint64_t word = mix(pattern.key, (offset + i) / 8);
        memcpy(to + i, &word, 8); // little end first, as the shifts say
    }
    for (; i < count; i++)
        to[i] = (char)(mix(pattern.key, (offset + i) / 8) >> (offset + i) % 8 * 8);
}

static uint64_t piece_at(leat_data data, uint64_t offset, char **at)
{
    if (!data.layout) {
        *at = (char *)data.address + offset;
        return data.bytes - offset;
    }
    void *where;
    uint64_t run = find_piece((void *)(uintptr_t)data.bytes, data.address, offset, &where);
    *at = where;
    return run;
}

void crowd_fill(const struct crowd_log *log, uint32_t sequence, leat_data data)
{
    struct pattern pattern = pattern_of(log, sequence);
    char *at;
    for (uint64_t offset = 0, run; offset < data.bytes; offset += run) {
        run = piece_at(data, offset, &at);
        pattern_bytes(pattern, offset, at, run);
    }
}

// The place of the first byte that is not as it should be; UINT64_MAX: none.
static uint64_t compare(struct pattern pattern, leat_data data)
{
    char wanted[4096], *at;
    uint64_t got = pattern.bytes < data.bytes ? pattern.bytes : data.bytes;
    for (uint64_t offset = 0, run; offset < data.bytes; offset += run) {
        run = piece_at(data, offset, &at);
        if (run > sizeof wanted)
            run = sizeof wanted;
        memset(wanted, POISON, run);
        if (offset < got)
            pattern_bytes(pattern, offset, wanted, run < got - offset ? run : got - offset);
        for (uint64_t i = 0; memcmp(at, wanted, run) && i < run; i++)
            if (at[i] != wanted[i])
                return offset + i;
    }
    return UINT64_MAX;
}

static bool is_guard(const char *byte, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if ((unsigned char)byte[i] != GUARD)
            return false;
    return true;
}

static bool guards_stand(const struct crowd_receive *receive)
{
    const leat_data data = receive->data;
    const char *first = receive->memory + GUARD_BYTES;
    uint64_t blocks = (data.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint64_t span = data.layout ? blocks * BLOCK_STRIDE : data.bytes;
    if (!is_guard(receive->memory, GUARD_BYTES) || !is_guard(first + span, GUARD_BYTES))
        return false;
    // Behind each row up to the next one.
    for (uint64_t row = 0; data.layout && row < 2 * blocks; row++) {
        uint64_t before = row * ROW_BYTES < data.bytes ? row * ROW_BYTES : data.bytes;
        uint64_t bytes = data.bytes - before < ROW_BYTES ? data.bytes - before : ROW_BYTES;
        uint64_t start = row / 2 * BLOCK_STRIDE + row % 2 * ROW_STRIDE;
        uint64_t next = (row + 1) / 2 * BLOCK_STRIDE + (row + 1) % 2 * ROW_STRIDE;
        if (!is_guard(first + start + bytes, next - start - bytes))
            return false;
    }
    return true;
}

// ---- judging ----

static bool fits(const struct crowd_receive *receive, const struct crowd_sent *sent)
{
    return !sent->taken && (receive->tag < 0 || receive->tag == sent->tag);
}

static void judge_bytes(struct crowd *crowd, const struct crowd_receive *receive,
                        const struct crowd_log *log, uint32_t sequence)
{
    const struct crowd_sent *sent = &log->sent[sequence];
    const leat_status *status = &receive->request.status;
    bool small = sent->bytes > receive->data.bytes;
    uint64_t wanted = small ? receive->data.bytes : sent->bytes;
    if (status->error != (small ? -EMSGSIZE : 0) || status->tag != sent->tag ||
        status->bytes != wanted)
        crowd_fail(crowd,
                   "message %u of %d to %d, context %d, tag %d, %llu bytes, room %llu: status has "
                   "error %d, tag %d, %llu bytes",
                   sequence, log->source, log->destination, log->context, sent->tag,
                   (unsigned long long)sent->bytes, (unsigned long long)receive->data.bytes,
                   status->error, status->tag, (unsigned long long)status->bytes);
    uint64_t wrong = compare(pattern_of(log, sequence), receive->data);
    if (wrong != UINT64_MAX)
        crowd_fail(crowd,
                   "message %u of %d to %d, context %d, tag %d, %llu bytes, room %llu: byte "
                   "%llu is wrong",
                   sequence, log->source, log->destination, log->context, sent->tag,
                   (unsigned long long)sent->bytes, (unsigned long long)receive->data.bytes,
                   (unsigned long long)wrong);
    if (!guards_stand(receive))
        crowd_fail(crowd,
                   "message %u of %d to %d, %llu bytes, room %llu: bytes outside the "
                   "receive's memory were changed",
                   sequence, log->source, log->destination, (unsigned long long)sent->bytes,
                   (unsigned long long)receive->data.bytes);
    crowd->judged++;
    crowd->too_small += small;
}

void crowd_judge(struct crowd *crowd, int rank, struct crowd_receive *receive)
{
    const leat_status *status =
        receive->kind == CROWD_PROBE ? &receive->probed : &receive->request.status;
    if (status->source < 0 || status->source >= crowd->rank_count ||
        (receive->from >= 0 && receive->from != status->source)) {
        crowd_fail(crowd, "rank %d received from %d what it wanted from %d (error %d)", rank,
                   status->source, receive->from, status->error);
        return;
    }
    struct crowd_log *log = crowd_log(crowd, status->source, rank, receive->context);
    uint32_t at = log->first_left;
    while (at < log->count && !fits(receive, &log->sent[at]))
        at++;
    if (at == log->count) {
        crowd_fail(crowd, "rank %d got something from %d, context %d, tag %d that nobody sent",
                   rank, status->source, receive->context, status->tag);
        return;
    }
    struct crowd_sent *sent = &log->sent[at];
    if (receive->kind != CROWD_RECEIVE &&
        (receive->probed.tag != sent->tag || receive->probed.bytes != sent->bytes ||
         receive->probed.source != status->source))
        crowd_fail(crowd,
                   "rank %d, message %u of %d, tag %d, %llu bytes: a probe said tag %d, "
                   "%llu bytes",
                   rank, at, log->source, sent->tag, (unsigned long long)sent->bytes,
                   receive->probed.tag, (unsigned long long)receive->probed.bytes);
    if (receive->kind == CROWD_PROBE)
        return;
    judge_bytes(crowd, receive, log, at);
    sent->taken = true;
    while (log->first_left < log->count && log->sent[log->first_left].taken)
        log->first_left++;
    crowd->rank[rank].left -= !crowd->rank[log->source].dead;
}
