// SPDX-License-Identifier: Apache-2.0
// Who has a ring: granting, switching, giving back.
//
// Algorithm: the receiver grants a ring to a peer that has sent it a few messages by queue; the
// sender, once nothing of its own is in flight by queue, says SWITCH there and goes on by ring.
// With all rings given out, the one that has been silent longest is asked back: its sender writes
// END as the ring's last slot and goes on by queue once the receiver has read that. Each direction
// of a pair is on its own. Advantage: order needs no numbers, since each side finishes with one way
// before it takes the other. Disadvantage: a sender that makes no progress keeps its ring.

#include "msg/internal.h"

#include <errno.h>
#include <string.h>

#define LARGE_PIECES 4 /* of a message; of more, those of put do as well */
#define IDLE_TICKS                                                                                 \
    256 /* messages that came since a ring was last used, for it to count as idle                  \
         */

static uint32_t free_place(void *const *table, uint32_t limit)
{
    for (uint32_t i = 1; i <= limit; i++)
        if (!table[i])
            return i;
    return 0;
}

// ---- Receiving side ----

static void ask_back(struct msg_engine *engine)
{
    struct msg_ring_in *oldest = NULL;
    for (uint32_t i = 1; i <= engine->ring_in_count; i++) {
        struct msg_ring_in *ring = engine->ring_in[i];
        if (!ring)
            continue;
        uint8_t state = msg_peer_at(engine, ring->peer)->in_state;
        if (state == IN_REVOKED)
            return; // one at a time
        if (state == IN_OPEN && !ring->held && !ring->partial && !ring->partial_message &&
            (!oldest || ring->last_used < oldest->last_used))
            oldest = ring;
    }
    if (!oldest || engine->ticks - oldest->last_used < IDLE_TICKS)
        return;
    msg_peer_at(engine, oldest->peer)->in_state = IN_REVOKED;
    msg_peer_owe(engine, oldest->peer, TODO_REVOKE);
}

void msg_ring_consider(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->arrivals < UINT8_MAX)
        peer->arrivals++;
    if (peer->in_state != IN_NONE || peer->arrivals < engine->tuning.promote_after)
        return;
    if (engine->rings_live < engine->tuning.ring_limit)
        msg_peer_owe(engine, index, TODO_GRANT);
    else if (peer->arrivals % 16 == 0 || peer->arrivals == UINT8_MAX)
        ask_back(engine);
}

static struct msg_ring_in *make_ring(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    uint64_t bytes = msg_ring_bytes(&engine->tuning);
    uint32_t place = free_place((void **)engine->ring_in, engine->tuning.ring_limit);
    if (!place || msg_charge(&engine->pools, POOL_RINGS, bytes))
        return NULL;
    struct msg_ring_in *ring = msg_alloc(&engine->pools, POOL_RINGS, sizeof *ring);
    void *memory = NULL;
    if (!ring || engine->net->ops->alloc(engine->net, bytes, &memory, &ring->token)) {
        if (ring)
            msg_free(&engine->pools, POOL_RINGS, ring, sizeof *ring);
        msg_discharge(&engine->pools, POOL_RINGS, bytes);
        return NULL;
    }
    ring->slots = memory;
    ring->bulk = (uint8_t *)memory + (uint64_t)engine->tuning.ring_slots * MSG_SLOT_BYTES;
    if (engine->memory)
        ring->bulk = engine->memory->bulk(engine->memory, memory,
                                          (uint64_t)engine->tuning.ring_slots * MSG_SLOT_BYTES);
    ring->peer = index;
    ring->last_used = engine->ticks;
    engine->ring_in[place] = ring;
    if (place > engine->ring_in_count)
        engine->ring_in_count = place;
    engine->rings_live++;
    peer->ring_in = (uint16_t)place;
    peer->in_state = IN_GRANTED;
    return ring;
}

bool msg_ring_grant(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_ring_in *ring = NULL;
    if (peer->in_state == IN_GRANTED)
        ring = engine->ring_in[peer->ring_in]; // made before, but the packet found no room
    else if (peer->in_state == IN_NONE && engine->rings_live < engine->tuning.ring_limit)
        ring = make_ring(engine, index);
    if (!ring) {
        peer->arrivals = 0; // asks again after some more
        return true;
    }
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_GRANT};
    memcpy(packet.payload, &ring->token, sizeof ring->token);
    if (!msg_control(engine, index, &packet, sizeof ring->token))
        return false;
    msg_add(&engine->counts.promoted, 1);
    return true;
}

void msg_ring_switched(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->in_state != IN_GRANTED)
        return;
    struct msg_ring_in *ring = engine->ring_in[peer->ring_in];
    void *credit;
    memcpy(&ring->credit_token, packet->payload, sizeof ring->credit_token);
    if (!msg_map_words(engine, index, packet, &ring->credit_token, sizeof *ring->credit, &credit))
        return;
    ring->credit = credit;
    peer->in_state = IN_OPEN;
}

void msg_ring_drop_in(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (!peer->ring_in)
        return;
    struct msg_ring_in *ring = engine->ring_in[peer->ring_in];
    uint64_t bytes = msg_ring_bytes(&engine->tuning);
    engine->net->ops->free(engine->net, ring->slots, bytes);
    msg_discharge(&engine->pools, POOL_RINGS, bytes);
    engine->ring_in[peer->ring_in] = NULL;
    msg_free(&engine->pools, POOL_RINGS, ring, sizeof *ring);
    while (engine->ring_in_count && !engine->ring_in[engine->ring_in_count])
        engine->ring_in_count--;
    peer->ring_in = 0;
    peer->in_state = IN_NONE;
    peer->arrivals = 0;
    engine->rings_live--;
}

// A grant that the sender has no memory for.
void msg_ring_declined(struct msg_engine *engine, uint32_t index)
{
    if (msg_peer_at(engine, index)->in_state == IN_GRANTED)
        msg_ring_drop_in(engine, index);
}

// ---- Sending side ----

static void drop_ring_out(struct msg_engine *engine, struct msg_peer *peer)
{
    struct msg_ring_out *ring = engine->ring_out[peer->ring_out];
    engine->net->ops->free(engine->net, ring->credit, sizeof *ring->credit);
    msg_discharge(&engine->pools, POOL_RINGS, sizeof *ring->credit);
    engine->ring_out[peer->ring_out] = NULL;
    msg_free(&engine->pools, POOL_RINGS, ring, sizeof *ring);
    peer->ring_out = 0;
    peer->out_state = OUT_NONE;
}

// A gap of the same size may have to be left at the end of the bulk area, and the receiver may not
// have told yet of a quarter that it has read.
static uint32_t large_most_to(const struct msg_engine *engine, const struct msg_token *token)
{
    struct msg_net *net = engine->net;
    uint32_t fitting = engine->tuning.ring_bulk_bytes / 8 * 3;
    uint32_t most = net->ops->large_most ? net->ops->large_most(net, token) : 0;
    return most < fitting ? most : fitting;
}

// Of a message in such pieces: a gap may be at the end, each begins a line.
static uint32_t large_total(const struct msg_engine *engine, uint32_t most)
{
    uint32_t fitting = engine->tuning.ring_bulk_bytes / 4 * 3, taken = most + 64 * LARGE_PIECES;
    if (most < 2 * engine->tuning.fragment_bytes || fitting < taken + most)
        return most;
    return fitting - taken < LARGE_PIECES * most ? fitting - taken : LARGE_PIECES * most;
}

// A round trip costs more the longer the way is, a copy does not.
static uint32_t eager_bytes_to(const struct msg_engine *engine, int rank)
{
    const struct msg_tuning *tuning = &engine->tuning;
    struct msg_net *net = engine->net;
    int hops = tuning->eager_hop_bytes && net->ops->distance ? net->ops->distance(net, rank) : 1;
    uint64_t more = hops > 1 ? (uint64_t)(hops - 1) * tuning->eager_hop_bytes : 0;
    uint64_t most = tuning->eager_most - tuning->eager_bytes;
    return tuning->eager_bytes + (uint32_t)(more < most ? more : most);
}

static struct msg_ring_out *attach(struct msg_engine *engine, uint32_t index,
                                   const struct msg_token *token, void *slots)
{
    struct msg_net *net = engine->net;
    int rank = msg_peer_at(engine, index)->rank;
    if (msg_charge(&engine->pools, POOL_RINGS, sizeof(struct msg_credit)))
        return NULL;
    struct msg_ring_out *ring = msg_alloc(&engine->pools, POOL_RINGS, sizeof *ring);
    void *credit = NULL;
    if (!ring || net->ops->alloc(net, sizeof(struct msg_credit), &credit, &ring->credit_token)) {
        if (ring)
            msg_free(&engine->pools, POOL_RINGS, ring, sizeof *ring);
        msg_discharge(&engine->pools, POOL_RINGS, sizeof(struct msg_credit));
        return NULL;
    }
    ring->credit = credit;
    ring->token = *token;
    ring->peer = index;
    ring->eager_bytes = eager_bytes_to(engine, rank);
    ring->large_most = large_most_to(engine, token);
    ring->large_total = large_total(engine, ring->large_most);
    ring->slots = slots;
    if (slots)
        ring->bulk = (uint8_t *)(ring->slots + engine->tuning.ring_slots);
    ring->asleep = ring->slots && net->asleep ? net->asleep(net, rank) : NULL;
    return ring;
}

void msg_ring_granted(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state != OUT_NONE)
        return;
    struct msg_token token;
    void *slots;
    memcpy(&token, packet->payload, sizeof token);
    if (!msg_map_words(engine, index, packet, &token, msg_ring_bytes(&engine->tuning), &slots))
        return;
    uint32_t place = free_place((void **)engine->ring_out, engine->tuning.ring_limit);
    struct msg_ring_out *ring = place ? attach(engine, index, &token, slots) : NULL;
    if (ring) {
        engine->ring_out[place] = ring;
        peer->ring_out = (uint16_t)place;
    }
    // Without room for it the grant is declined, in turn as well.
    peer->out_state = OUT_GRANTED;
    msg_peer_owe(engine, index, TODO_SWITCH);
}

bool msg_ring_switch(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state != OUT_GRANTED)
        return true;
    struct msg_packet packet;
    if (!peer->ring_out) {
        packet.header = (struct msg_header){.kind = WIRE_END};
        if (!msg_control(engine, index, &packet, 0))
            return false;
        peer->out_state = OUT_NONE;
        return true;
    }
    if (peer->in_flight || peer->flags & (PEER_HELD | PEER_FROZEN))
        return false;
    struct msg_ring_out *ring = engine->ring_out[peer->ring_out];
    packet.header = (struct msg_header){.kind = WIRE_SWITCH};
    memcpy(packet.payload, &ring->credit_token, sizeof ring->credit_token);
    if (!msg_control(engine, index, &packet, sizeof ring->credit_token))
        return false;
    peer->out_state = OUT_OPEN;
    msg_peer_owe(engine, index, TODO_SEND);
    return true;
}

void msg_ring_revoked(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state != OUT_OPEN)
        return;
    peer->out_state = OUT_CLOSING;
    msg_peer_owe(engine, index, TODO_END);
}

bool msg_ring_end(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state != OUT_CLOSING)
        return true;
    // A message whose fragments are half written (by puts) has to be finished first.
    struct msg_request *head = msg_pending_head(peer);
    if (head && head->done && !msg_ring_send_pending(engine, index))
        return false;
    if (!msg_ring_write_end(engine, index))
        return false;
    peer->out_state = OUT_ENDING;
    return true;
}

void msg_ring_ended(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (peer->out_state != OUT_ENDING)
        return;
    drop_ring_out(engine, peer);
    msg_peer_owe(engine, index, TODO_SEND);
}

void msg_rings_close(struct msg_engine *engine)
{
    for (uint32_t i = 1; engine->ring_in && i <= engine->tuning.ring_limit; i++)
        if (engine->ring_in[i])
            msg_ring_drop_in(engine, engine->ring_in[i]->peer);
    for (uint32_t i = 1; engine->ring_out && i <= engine->tuning.ring_limit; i++)
        if (engine->ring_out[i])
            drop_ring_out(engine, msg_peer_at(engine, engine->ring_out[i]->peer));
}
