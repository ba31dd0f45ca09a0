// SPDX-License-Identifier: Apache-2.0
// Peers in use: a record each, found by rank, and what is owed to them.
//
// Algorithm: records of 40 bytes lie in a slab; a hash of ranks chains them by slab index and
// doubles when there are more records than buckets. Whoever owes a peer something sets a bit and
// puts the record into a list once; progress walks the list and pays. Advantage: an idle rank costs
// nothing, a peer in use 60 to 64 bytes with its counts and its share of the index. Disadvantage:
// doubling walks all records once.

#include "msg/internal.h"

#include <errno.h>

#define INDEX_FIRST 16
#define PEER_COUNTS 16 /* sizeof(struct message_counts) */

static uint32_t bucket_of(const struct msg_engine *engine, int rank)
{
    return ((uint32_t)rank * 2654435769u) & (engine->index_count - 1);
}

int msg_peers_open(struct msg_engine *engine)
{
    msg_slab_open(&engine->peers, &engine->pools, POOL_PEERS, sizeof(struct msg_peer));
    engine->index = msg_alloc(&engine->pools, POOL_PEERS, INDEX_FIRST * sizeof *engine->index);
    engine->index_count = INDEX_FIRST;
    return engine->index ? 0 : -ENOMEM;
}

void msg_peers_close(struct msg_engine *engine)
{
    if (engine->index)
        msg_free(&engine->pools, POOL_PEERS, engine->index,
                 engine->index_count * sizeof *engine->index);
    engine->index = NULL;
    msg_discharge(&engine->pools, POOL_PEERS, PEER_COUNTS * (uint64_t)engine->peers.live);
    msg_slab_close(&engine->peers);
}

uint32_t msg_peer_find(struct msg_engine *engine, int rank)
{
    if (engine->last_peer && msg_peer_at(engine, engine->last_peer)->rank == rank)
        return engine->last_peer;
    uint32_t at = engine->index[bucket_of(engine, rank)];
    while (at && msg_peer_at(engine, at)->rank != rank)
        at = msg_peer_at(engine, at)->chain;
    if (at)
        engine->last_peer = at;
    return at;
}

static void grow(struct msg_engine *engine)
{
    uint32_t before = engine->index_count;
    uint32_t *old = engine->index;
    uint32_t *grown = msg_alloc(&engine->pools, POOL_PEERS, 2ULL * before * sizeof *grown);
    if (!grown)
        return; // longer chains still find everything
    engine->index = grown;
    engine->index_count = 2 * before;
    for (uint32_t b = 0; b < before; b++)
        for (uint32_t at = old[b]; at;) {
            struct msg_peer *peer = msg_peer_at(engine, at);
            uint32_t next = peer->chain, bucket = bucket_of(engine, peer->rank);
            peer->chain = grown[bucket];
            grown[bucket] = at;
            at = next;
        }
    msg_free(&engine->pools, POOL_PEERS, old, (uint64_t)before * sizeof *old);
}

uint32_t msg_peer_make(struct msg_engine *engine, int rank)
{
    uint32_t at = msg_peer_find(engine, rank);
    if (at)
        return at;
    if (engine->peers.live >= engine->index_count)
        grow(engine);
    // What the job counts for it (struct message_counts) is the peer's cost as well.
    if (msg_charge(&engine->pools, POOL_PEERS, PEER_COUNTS))
        return 0;
    at = msg_slab_take(&engine->peers);
    if (!at) {
        msg_discharge(&engine->pools, POOL_PEERS, PEER_COUNTS);
        return 0;
    }
    struct msg_peer *peer = msg_peer_at(engine, at);
    uint32_t bucket = bucket_of(engine, rank);
    peer->rank = rank;
    peer->flags = PEER_USED;
    peer->chain = engine->index[bucket];
    engine->index[bucket] = at;
    engine->last_peer = at;
    return at;
}

void msg_peer_owe(struct msg_engine *engine, uint32_t index, unsigned todo)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    peer->todo = (uint16_t)(peer->todo | todo);
    if (peer->flags & PEER_TODO)
        return;
    peer->flags |= PEER_TODO;
    peer->todo_next = 0;
    if (engine->todo_tail)
        msg_peer_at(engine, engine->todo_tail)->todo_next = index;
    else
        engine->todo_head = index;
    engine->todo_tail = index;
}

// A packet of control that says nothing but its kind.
static bool plain(struct msg_engine *engine, uint32_t index, enum msg_wire_kind kind)
{
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = (uint8_t)kind};
    return msg_control(engine, index, &packet, 0);
}

static bool resume(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (!msg_match_has_room_for(&engine->matcher, engine->tuning.queue_window,
                                MSG_PACKET_PAYLOAD) ||
        !plain(engine, index, WIRE_RESUME))
        return false;
    peer->flags &= (uint16_t)~PEER_REJECTING;
    msg_hold_update(engine, index);
    return true;
}

// Pays one debt; true once it is paid.
static bool pay(struct msg_engine *engine, uint32_t index, unsigned debt)
{
    switch (debt) {
    case TODO_ANSWER:
        return msg_queue_answer(engine, index);
    case TODO_SEND:
        return msg_send_pending(engine, index);
    case TODO_RESUME:
        return resume(engine, index);
    case TODO_GRANT:
        return msg_ring_grant(engine, index);
    case TODO_SWITCH:
        return msg_ring_switch(engine, index);
    case TODO_REVOKE:
        return plain(engine, index, WIRE_REVOKE);
    case TODO_ENDED:
        return plain(engine, index, WIRE_ENDED);
    case TODO_END:
        return msg_ring_end(engine, index);
    case TODO_LOST:
        msg_peer_lost(engine, index);
        return true;
    case TODO_CREDIT:
        return msg_ring_credit(engine, index);
    default:
        return msg_hold_pay(engine, index, debt);
    }
}

void msg_peers_progress(struct msg_engine *engine)
{
    uint32_t last = engine->todo_tail;
    while (engine->todo_head) {
        uint32_t index = engine->todo_head;
        struct msg_peer *peer = msg_peer_at(engine, index);
        engine->todo_head = peer->todo_next;
        if (!engine->todo_head)
            engine->todo_tail = 0;
        peer->flags &= (uint16_t)~PEER_TODO;
        unsigned left = 0;
        for (unsigned debts = peer->todo; debts; debts &= debts - 1) {
            unsigned debt = debts & (~debts + 1);
            // A debt may come up again while it is paid, so it is struck off before.
            peer->todo = (uint16_t)(peer->todo & ~debt);
            if (pay(engine, index, debt))
                engine->events++;
            else
                left |= debt;
        }
        if (left || peer->todo)
            msg_peer_owe(engine, index, left);
        if (index == last)
            break;
    }
}

void msg_pending_prepend(struct msg_peer *peer, struct msg_request *request)
{
    struct msg_request *tail = peer->pending_tail;
    request->next = tail ? tail->next : request;
    if (tail)
        tail->next = request;
    else
        peer->pending_tail = request;
}

void msg_pending_append(struct msg_peer *peer, struct msg_request *request)
{
    msg_pending_prepend(peer, request);
    peer->pending_tail = request;
}

void msg_pending_remove(struct msg_peer *peer, struct msg_request *request)
{
    struct msg_request *before = peer->pending_tail;
    while (before->next != request)
        before = before->next;
    before->next = request->next;
    if (request == peer->pending_tail)
        peer->pending_tail = before == request ? NULL : before;
    request->next = NULL;
}
