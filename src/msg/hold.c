// SPDX-License-Identifier: Apache-2.0
// Messages that are held back, and how a receive that wants one finds it.
//
// A message that finds the pools full stays where it is: in the receiver's own ring, behind which
// the sender's list waits, or, by queue, with the sender altogether. Both end by themselves once
// receives have made room. But a program may first want a later message of the same sender. So as
// long as a peer holds back, every posted receive that fits is looked for: in the ring's slots,
// which the receiver can read out of turn, and then at the sender, one question at a time.
//
// Algorithm (at most one search an engine): FIND names what is wanted and how far the sender's
// messages have been read. The sender answers BEHIND if it has sent more than that, ABSENT if its
// list has nothing that fits, or else FOUND, and from then on sends no message until it is told
// TAKE or LEAVE; so nothing can change in between. GIVEN brings the message, or announces it.
// After ABSENT the sender says LOOK once if a new message joins its list. Advantage: a search costs
// no memory at either side, and order is kept by not moving. Disadvantage: a round trip and a walk
// over the sender's list for each receive and peer, so it is for programs that would otherwise
// wait for ever.

#include "msg/internal.h"

#include <errno.h>
#include <string.h>

enum search_state {
    SEARCH_IDLE,
    SEARCH_NEXT,    // the next peer, or the next receive
    SEARCH_ASKING,  // FIND has to be sent
    SEARCH_ASKED,   // its answer has not come
    SEARCH_BEHIND,  // messages up to `behind` have to be read first
    SEARCH_DECIDING // TAKE or LEAVE has to be sent
};

struct msg_hold {
    uint8_t state;
    bool again;      // something has changed since the search began: start over
    bool take;       // SEARCH_DECIDING
    uint64_t stamp;  // of the receive that is looked for; UINT64_MAX: the probe
    uint32_t peer;   // slab index
    uint64_t behind; // slots of the peer's ring
    uint32_t handle; // of the receive, for TAKE
    struct {
        bool wanted;
        int8_t result; // 1 found, 0 not there, -1 not known
        struct msg_envelope what, found;
    } probe;
};

int msg_hold_open(struct msg_engine *engine)
{
    engine->hold = msg_alloc(&engine->pools, POOL_WORK, sizeof *engine->hold);
    return engine->hold ? 0 : -ENOMEM;
}

void msg_hold_close(struct msg_engine *engine)
{
    if (engine->hold)
        msg_free(&engine->pools, POOL_WORK, engine->hold, sizeof *engine->hold);
    engine->hold = NULL;
}

void msg_hold_update(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    bool holds = peer->flags & (PEER_REJECTING | PEER_SHORT) ||
                 (peer->ring_in && engine->ring_in[peer->ring_in]->held);
    if (holds && !(peer->flags & PEER_HOLDS)) {
        peer->flags |= PEER_HOLDS;
        engine->holding++;
    } else if (!holds && peer->flags & PEER_HOLDS) {
        peer->flags &= (uint16_t)~PEER_HOLDS;
        engine->holding--;
    }
    engine->hold->again |= holds;
}

void msg_hold_wanted(struct msg_engine *engine)
{
    engine->hold->again = true;
}

// ---- The ring's own slots ----

// The first message from the tail on that fits and is whole: its slot number, or UINT64_MAX; *end
// is the first slot that has not come yet.
static uint64_t scan(struct msg_engine *engine, const struct msg_ring_in *ring,
                     const struct msg_envelope *wanted, uint64_t *end)
{
    uint64_t mask = engine->tuning.ring_slots - 1, found = UINT64_MAX, left = 0;
    int32_t source = msg_peer_at(engine, ring->peer)->rank;
    uint64_t at = ring->tail;
    for (; at < ring->tail + engine->tuning.ring_slots; at++) {
        const struct msg_slot *slot = &ring->slots[at & mask];
        const struct msg_header *header = &slot->header;
        if (__atomic_load_n(&header->flag, __ATOMIC_ACQUIRE) != (uint32_t)(at + 1))
            break;
        const char *fault = msg_ring_fault(engine, slot);
        if (!fault && left && header->kind != WIRE_MORE)
            fault = "a message is not finished";
        if (fault) {
            msg_peer_nonsense(engine, ring->peer, header, fault);
            break;
        }
        if (header->kind == WIRE_MORE) {
            left -= header->payload < left ? header->payload : left;
            continue;
        }
        if (header->kind != WIRE_EAGER && header->kind != WIRE_ANNOUNCE)
            continue;
        if (found != UINT64_MAX && !left)
            continue; // only the end is wanted now
        struct msg_envelope envelope = {
            .context = header->context, .source = source, .tag = header->tag};
        if (found != UINT64_MAX ||
            !msg_fits(wanted->context, wanted->source, wanted->tag, &envelope))
            continue;
        found = at;
        left = header->kind == WIRE_EAGER ? header->bytes - header->payload : 0;
    }
    *end = at;
    return left ? UINT64_MAX - 1 : found; // - 1: it is there, but not as a whole
}

// Delivers the message that begins at a slot, and marks its slots as read: scan has seen that it is
// whole.
static void extract(struct msg_engine *engine, struct msg_ring_in *ring, uint64_t at,
                    struct msg_request *request)
{
    uint64_t mask = engine->tuning.ring_slots - 1;
    struct msg_request *partial_before = ring->partial;
    struct msg_unexpected *message_before = ring->partial_message;
    ring->partial = NULL;
    ring->partial_message = NULL;
    uint64_t total = ring->slots[at & mask].header.bytes, moved = 0;
    do {
        struct msg_slot *slot = &ring->slots[at++ & mask];
        uint64_t bulk_end;
        const void *payload = msg_ring_payload(engine, ring, slot, &bulk_end);
        if (moved)
            msg_arrive_more(engine, ring, &slot->header, payload);
        else
            msg_arrive_at(engine, ring->peer, ring, request, &slot->header, payload);
        msg_ring_taken(engine, ring, slot);
        moved += slot->header.payload;
        bool announced = slot->header.kind == WIRE_ANNOUNCE;
        slot->header.kind = WIRE_TAKEN;
        if (announced)
            break;
    } while (moved < total);
    ring->partial = partial_before;
    ring->partial_message = message_before;
}

// ---- Searching ----

static const struct msg_envelope *wanted_of(const struct msg_engine *engine,
                                            struct msg_envelope *buffer)
{
    const struct msg_hold *hold = engine->hold;
    if (hold->stamp == UINT64_MAX)
        return hold->probe.wanted ? &hold->probe.what : NULL;
    const struct msg_request *request = msg_match_next_posted(&engine->matcher, hold->stamp - 1);
    if (!request || request->stamp != hold->stamp)
        return NULL; // matched or cancelled meanwhile
    *buffer = (struct msg_envelope){
        .context = request->context, .source = request->peer, .tag = request->tag};
    return buffer;
}

// Goes on to the next receive (after the last one the probe); false: there is none.
static bool next_receive(struct msg_engine *engine)
{
    struct msg_hold *hold = engine->hold;
    hold->peer = 0;
    if (hold->stamp == UINT64_MAX) {
        if (hold->probe.wanted && hold->probe.result < 0)
            hold->probe.result = 0;
        return false;
    }
    struct msg_request *request = msg_match_next_posted(&engine->matcher, hold->stamp);
    hold->stamp = request ? request->stamp : UINT64_MAX;
    return request || hold->probe.wanted;
}

// The next peer that holds back and may have it; false: there is none.
static bool next_peer(struct msg_engine *engine, const struct msg_envelope *wanted)
{
    struct msg_hold *hold = engine->hold;
    uint32_t end = engine->peers.page_count << engine->peers.page_shift;
    while (++hold->peer < end) {
        const struct msg_peer *peer = msg_peer_at(engine, hold->peer);
        // A record that is free has no flags.
        if (peer->flags & PEER_HOLDS && (wanted->source < 0 || wanted->source == peer->rank))
            return true;
    }
    return false;
}

// Whether a receive that was posted before the one looked for fits what was found: it came to the
// sender's list, or to the ring, only after that receive had been looked for.
static bool is_for_earlier(struct msg_engine *engine, const struct msg_envelope *found)
{
    uint64_t stamp = 0;
    struct msg_request *request;
    while ((request = msg_match_next_posted(&engine->matcher, stamp)) != NULL &&
           request->stamp < engine->hold->stamp) {
        if (msg_fits(request->context, request->peer, request->tag, found))
            return true;
        stamp = request->stamp;
    }
    return false;
}

static void found_here(struct msg_engine *engine, struct msg_ring_in *ring, uint64_t at)
{
    struct msg_hold *hold = engine->hold;
    const struct msg_header *header = &ring->slots[at & (engine->tuning.ring_slots - 1)].header;
    const struct msg_envelope found = {.context = header->context,
                                       .source = msg_peer_at(engine, ring->peer)->rank,
                                       .tag = header->tag,
                                       .bytes = header->bytes};
    hold->again |= hold->stamp != UINT64_MAX;
    if (is_for_earlier(engine, &found)) {
        hold->again = true;
        return;
    }
    if (hold->stamp == UINT64_MAX) {
        hold->probe.found = found;
        hold->probe.result = 1;
        return;
    }
    struct msg_request *request = msg_match_next_posted(&engine->matcher, hold->stamp - 1);
    msg_match_withdraw(&engine->matcher, request);
    extract(engine, ring, at, request);
    msg_add(&engine->counts.found, 1);
    engine->events++;
}

// The receive looked for wants what a lost peer never sent.
static void lost_for(struct msg_engine *engine)
{
    struct msg_request *request = msg_match_next_posted(&engine->matcher, engine->hold->stamp - 1);
    msg_match_withdraw(&engine->matcher, request);
    msg_finish(request, msg_lost_error(engine, request->peer));
}

// Looks into the ring, then asks.
static void look(struct msg_engine *engine)
{
    struct msg_hold *hold = engine->hold;
    struct msg_envelope buffer;
    const struct msg_envelope *wanted = wanted_of(engine, &buffer);
    if (!wanted || (hold->stamp == UINT64_MAX && hold->probe.result > 0)) {
        hold->state = next_receive(engine) ? SEARCH_NEXT : SEARCH_IDLE;
        return;
    }
    if (!next_peer(engine, wanted)) {
        hold->state = next_receive(engine) ? SEARCH_NEXT : SEARCH_IDLE;
        return;
    }
    struct msg_peer *peer = msg_peer_at(engine, hold->peer);
    if (peer->in_state >= IN_OPEN) {
        struct msg_ring_in *ring = engine->ring_in[peer->ring_in];
        uint64_t end, at = scan(engine, ring, wanted, &end);
        if (at < UINT64_MAX - 1) {
            found_here(engine, ring, at);
            return;
        }
        hold->behind = at == UINT64_MAX - 1 ? end + 1 : end;
        if (at == UINT64_MAX - 1 && !(peer->flags & (PEER_LOST | PEER_NONSENSE))) {
            hold->state = SEARCH_BEHIND; // its last fragments are on their way
            return;
        }
    }
    if (peer->flags & PEER_LOST) {
        if (wanted->source == peer->rank && hold->stamp != UINT64_MAX)
            lost_for(engine);
        return;
    }
    hold->state = SEARCH_ASKING;
    msg_peer_owe(engine, hold->peer, TODO_FIND);
}

static bool caught_up(struct msg_engine *engine)
{
    const struct msg_hold *hold = engine->hold;
    const struct msg_peer *peer = msg_peer_at(engine, hold->peer);
    if (peer->in_state < IN_OPEN)
        return true;
    const struct msg_ring_in *ring = engine->ring_in[peer->ring_in];
    struct msg_envelope nothing = {.context = UINT32_MAX, .source = -1, .tag = -1};
    uint64_t end;
    scan(engine, ring, &nothing, &end);
    return (int64_t)(end - hold->behind) >= 0;
}

static void search(struct msg_engine *engine)
{
    struct msg_hold *hold = engine->hold;
    if (hold->state == SEARCH_BEHIND && caught_up(engine)) {
        hold->peer--; // the same one again
        hold->state = SEARCH_NEXT;
    }
    if (hold->again && (hold->state == SEARCH_IDLE || hold->state == SEARCH_NEXT)) {
        hold->again = false;
        hold->stamp = 0;
        hold->state = next_receive(engine) ? SEARCH_NEXT : SEARCH_IDLE;
    } else if (hold->state == SEARCH_NEXT) {
        look(engine);
    }
}

void msg_hold_progress(struct msg_engine *engine)
{
    struct msg_hold *hold = engine->hold;
    uint8_t state = hold->state;
    uint32_t peer = hold->peer;
    uint64_t stamp = hold->stamp;
    search(engine);
    engine->events += state != hold->state || peer != hold->peer || stamp != hold->stamp;
}

void msg_hold_lost(struct msg_engine *engine, uint32_t index)
{
    struct msg_hold *hold = engine->hold;
    msg_peer_at(engine, index)->flags &= (uint16_t) ~(PEER_REJECTING | PEER_SHORT);
    msg_hold_update(engine, index);
    if (hold->state > SEARCH_NEXT && hold->peer == index)
        hold->state = SEARCH_NEXT;
    hold->again = true;
}

int msg_hold_probe(struct msg_engine *engine, uint32_t context, int from, int tag,
                   struct msg_envelope *found)
{
    struct msg_hold *hold = engine->hold;
    struct msg_envelope what = {.context = context, .source = from, .tag = tag};
    bool same = hold->probe.wanted && hold->probe.what.context == context &&
                hold->probe.what.source == from && hold->probe.what.tag == tag;
    if (same && hold->probe.result >= 0) {
        hold->probe.wanted = false;
        *found = hold->probe.found;
        return hold->probe.result;
    }
    if (!same) {
        hold->probe.wanted = true;
        hold->probe.what = what;
        hold->probe.result = -1;
        hold->again = true;
    }
    return -EAGAIN;
}

// ---- The receiving side's packets ----

static bool pay_find(struct msg_engine *engine, uint32_t index)
{
    struct msg_hold *hold = engine->hold;
    struct msg_envelope buffer;
    const struct msg_envelope *wanted = wanted_of(engine, &buffer);
    if (hold->state != SEARCH_ASKING || hold->peer != index)
        return true;
    if (!wanted || !(msg_peer_at(engine, index)->flags & PEER_HOLDS)) {
        hold->state = SEARCH_NEXT;
        return true;
    }
    struct msg_packet packet;
    packet.header = (struct msg_header){
        .kind = WIRE_FIND, .context = wanted->context, .tag = wanted->tag, .bytes = hold->behind};
    if (!msg_control(engine, index, &packet, 0))
        return false;
    hold->state = SEARCH_ASKED;
    return true;
}

static void answered(struct msg_engine *engine, uint32_t index, const struct msg_header *header)
{
    struct msg_hold *hold = engine->hold;
    if (hold->state != SEARCH_ASKED || hold->peer != index)
        return;
    struct msg_envelope buffer;
    const struct msg_envelope *wanted = wanted_of(engine, &buffer);
    if (header->kind == WIRE_BEHIND) {
        const struct msg_peer *peer = msg_peer_at(engine, index);
        uint64_t most = peer->in_state >= IN_OPEN
                            ? engine->ring_in[peer->ring_in]->tail + engine->tuning.ring_slots
                            : UINT64_MAX;
        if (header->bytes > most) {
            msg_peer_nonsense(engine, index, header, "it has written more than the ring holds");
            return;
        }
        hold->behind = header->bytes;
        hold->state = SEARCH_BEHIND;
    } else if (header->kind == WIRE_ABSENT) {
        hold->state = SEARCH_NEXT;
    } else {
        const struct msg_envelope found = {.context = header->context,
                                           .source = msg_peer_at(engine, index)->rank,
                                           .tag = header->tag,
                                           .bytes = header->bytes};
        bool earlier = is_for_earlier(engine, &found);
        hold->state = SEARCH_DECIDING;
        hold->take = wanted && hold->stamp != UINT64_MAX && !earlier;
        hold->handle = 0;
        hold->again |= earlier;
        if (wanted && hold->stamp == UINT64_MAX && !earlier) {
            hold->probe.found = found;
            hold->probe.result = 1;
        }
        msg_peer_owe(engine, index, TODO_TAKE);
    }
    engine->events++;
}

static bool pay_take(struct msg_engine *engine, uint32_t index)
{
    struct msg_hold *hold = engine->hold;
    if (hold->state != SEARCH_DECIDING || hold->peer != index)
        return true;
    struct msg_request *request = msg_match_next_posted(&engine->matcher, hold->stamp - 1);
    if (hold->take && !hold->handle) {
        // It may have been matched or cancelled while the packet found no room.
        if (!request || request->stamp != hold->stamp)
            hold->take = false;
        else
            hold->handle = msg_handle_take(engine, request, 1);
        if (hold->take && !hold->handle)
            return false;
    }
    struct msg_packet packet;
    packet.header =
        (struct msg_header){.kind = hold->take ? WIRE_TAKE : WIRE_LEAVE, .handle = hold->handle};
    if (!msg_control(engine, index, &packet, 0)) {
        if (hold->handle)
            msg_handle_give(engine, request);
        hold->handle = 0;
        return false;
    }
    if (hold->take) {
        msg_match_withdraw(&engine->matcher, request);
        request->state = STATE_TAKING;
        request->peer = msg_peer_at(engine, index)->rank;
        msg_add(&engine->counts.found, 1);
    }
    hold->state = SEARCH_NEXT;
    hold->again = true;
    return true;
}

static void given(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_header header = packet->header;
    int rank = msg_peer_at(engine, index)->rank;
    struct msg_request *request =
        msg_handle_request(engine, header.sequence, rank, REQUEST_RECEIVE);
    if (!request)
        request = msg_handle_request(engine, header.sequence, rank, REQUEST_MATCHED);
    bool announced = header.handle != 0;
    if (!request || request->state != STATE_TAKING)
        return;
    msg_handle_give(engine, request);
    header.kind = announced ? WIRE_ANNOUNCE : WIRE_EAGER;
    msg_arrive_at(engine, index, NULL, request, &header, packet->payload);
}

// ---- Both sides' packets ----

void msg_hold_packet(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    switch (packet->header.kind) {
    case WIRE_HOLDING:
        peer->flags &= (uint16_t)~PEER_SHORT;
        if (packet->header.tag)
            peer->flags |= PEER_SHORT;
        msg_hold_update(engine, index);
        break;
    case WIRE_FIND:
        msg_held_asked(engine, index, &packet->header);
        break;
    case WIRE_FOUND:
    case WIRE_ABSENT:
    case WIRE_BEHIND:
        answered(engine, index, &packet->header);
        break;
    case WIRE_TAKE:
    case WIRE_LEAVE:
        msg_held_decided(engine, index, &packet->header);
        break;
    case WIRE_LOOK:
        engine->hold->again = true;
        break;
    case WIRE_GIVEN:
        given(engine, index, packet);
        break;
    default:
        break;
    }
}

bool msg_hold_pay(struct msg_engine *engine, uint32_t index, unsigned todo)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_packet packet;
    switch (todo) {
    case TODO_FIND:
        return pay_find(engine, index);
    case TODO_TAKE:
        return pay_take(engine, index);
    case TODO_FOUND:
        return msg_held_behind(engine, index);
    case TODO_GIVE:
        return msg_held_give(engine, index);
    case TODO_LOOK:
    case TODO_HOLDING:
        packet.header = (struct msg_header){.kind = todo == TODO_LOOK ? WIRE_LOOK : WIRE_HOLDING,
                                            .tag = (peer->flags & PEER_TOLD) != 0};
        if (!msg_control(engine, index, &packet, 0))
            return false;
        if (todo == TODO_LOOK)
            peer->flags &= (uint16_t)~PEER_ABSENT;
        return true;
    default:
        return true;
    }
}
