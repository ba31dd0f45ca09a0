// SPDX-License-Identifier: Apache-2.0
// Allreduce around a ring.
//
// Algorithm: the data is cut into a part a rank. In step s of 2(n - 1) rank r sends part r - s to
// the rank above and receives part r - s - 1 from the rank below: in the first half it combines
// that with its own values, in the second it has the result. Parts are cut into pieces, and a piece
// goes on as soon as it is combined, whatever step the others are in; receives are posted some
// pieces ahead, so that what comes early needs no copy. Advantage: neighbours only, each byte is
// combined where it is, and no rank waits for more than a piece. Disadvantage: 2(n - 1) steps, and
// each part begins with another rank, so only for operations that commute.

#include "msg/coll.h"

#define SENDS COLL_SLOTS // first request of sends; receives are before it

struct piece {
    uint64_t step;
    uint64_t from, bytes; // in the call's data
};

static uint64_t ranks_of(const struct msg_schedule *schedule)
{
    return (uint64_t)schedule->rank_count;
}

static uint64_t steps_of(const struct msg_schedule *schedule)
{
    return 2 * (ranks_of(schedule) - 1);
}

// Where a piece begins: parts differ by an element at most, and so do pieces of a part.
static struct piece piece_of(const struct msg_schedule *schedule, uint64_t index, bool sent)
{
    uint64_t ranks = ranks_of(schedule), pieces = schedule->other, element = schedule->call.element;
    struct piece piece = {.step = index / pieces};
    uint64_t behind = piece.step + (sent ? 0 : 1);
    int part = (int)(((uint64_t)schedule->rank + 2 * ranks - behind) % ranks);
    uint64_t from = coll_part(schedule, part, schedule->rank_count);
    uint64_t count = (coll_part(schedule, part + 1, schedule->rank_count) - from) / element;
    uint64_t place = index % pieces;
    piece.from = from + count * place / pieces * element;
    piece.bytes = from + count * (place + 1) / pieces * element - piece.from;
    return piece;
}

// In the second half what comes is the result, and goes straight into place, as values to be
// combined do where that can be.
static uint8_t *landing_of(const struct msg_schedule *schedule, const struct piece *piece,
                           uint64_t index)
{
    uint8_t *target = schedule->call.receive + piece->from;
    if (piece->step >= steps_of(schedule) / 2 ||
        coll_fold_direct(schedule, target, schedule->call.send + piece->from, true))
        return target;
    return schedule->temp + index % schedule->slots * schedule->chunk;
}

static void post(struct msg_schedule *schedule)
{
    uint64_t total = steps_of(schedule) * schedule->other;
    uint64_t round = (ranks_of(schedule) - 1) * schedule->other;
    while (schedule->tree.posted < total &&
           schedule->tree.posted - schedule->tree.taken < schedule->slots) {
        uint64_t index = schedule->tree.posted;
        struct piece piece = piece_of(schedule, index, false);
        // What was combined there before has to be gone.
        if (index >= round && schedule->tree.finished <= index - round)
            break;
        coll_receive(schedule, (int)(index % schedule->slots),
                     coll_rank(schedule, schedule->rank - 1), 0,
                     landing_of(schedule, &piece, index), piece.bytes);
        schedule->tree.posted++;
    }
}

static void take(struct msg_schedule *schedule)
{
    while (schedule->tree.taken < schedule->tree.posted &&
           coll_finished(schedule, COLL_BIT(schedule->tree.taken % schedule->slots))) {
        uint64_t index = schedule->tree.taken++;
        struct piece piece = piece_of(schedule, index, false);
        if (piece.step < steps_of(schedule) / 2)
            coll_fold(schedule, schedule->call.receive + piece.from,
                      schedule->call.send + piece.from, landing_of(schedule, &piece, index),
                      piece.bytes, true);
        post(schedule);
    }
}

// A piece of the first step is there from the beginning, any other once it was taken a step before.
static bool send(struct msg_schedule *schedule)
{
    uint64_t total = steps_of(schedule) * schedule->other, sent;
    while (schedule->tree.finished < schedule->tree.sent &&
           coll_finished(schedule, COLL_BIT(SENDS + schedule->tree.finished % COLL_SLOTS)))
        schedule->tree.finished++;
    while ((sent = schedule->tree.sent) < total && sent - schedule->tree.finished < COLL_SLOTS &&
           sent < schedule->tree.taken + schedule->other) {
        struct piece piece = piece_of(schedule, sent, true);
        const uint8_t *values = piece.step ? schedule->call.receive : schedule->call.send;
        coll_send(schedule, SENDS + (int)(sent % COLL_SLOTS),
                  coll_rank(schedule, schedule->rank + 1), 0, values + piece.from, piece.bytes);
        schedule->tree.sent++;
    }
    return schedule->tree.finished == total;
}

static bool ring_move(struct msg_schedule *schedule)
{
    bool sent;
    uint64_t taken;
    do {
        taken = schedule->tree.taken;
        sent = send(schedule);
        post(schedule);
        take(schedule);
    } while (schedule->tree.taken != taken && !schedule->error);
    return sent && schedule->tree.taken == steps_of(schedule) * schedule->other && !schedule->error;
}

enum coll_step_result coll_allreduce_ring(struct msg_schedule *schedule)
{
    uint64_t element = schedule->call.element;
    COLL_BEGIN(schedule);
    uint64_t largest = coll_part(schedule, 1, schedule->rank_count);
    uint64_t piece = schedule->engine->tuning.part_bytes;
    if (!piece || piece > schedule->chunk)
        piece = schedule->chunk;
    // Whole elements.
    piece = piece > element ? piece - piece % element : element;
    schedule->other = largest > piece ? (largest + piece - 1) / piece : 1;
    schedule->tree.posted = schedule->tree.taken = schedule->tree.sent = 0;
    schedule->tree.finished = 0;
    COLL_AWAIT(schedule, ring_move(schedule));
    COLL_END(schedule);
}
