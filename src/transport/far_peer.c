// SPDX-License-Identifier: Apache-2.0
// Peers of a rank's service: where they are, what goes to them, and who is lost.
//
// Algorithm: a record a peer in use, found by rank. What a peer is owed goes first, then this
// rank's operations in their order, cut into messages of one size, as far as there are buffers and
// the peer has answered the ones before. Advantage: a peer that is slow holds up nobody else, and
// can be made to keep no more than a few answers. Disadvantage: all peers in use are looked at.

#include "transport/far_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/hello_mac.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#define LOOK_NS UINT64_C(20000000)

// ---- Records ----

static void make_cookie(const struct far *far, int from, int to, uint8_t cookie[FAR_COOKIE_BYTES])
{
    static const char use[] = "far";
    uint8_t mac[MAC_BYTES];
    const struct segment_head *head = far->job->segment->head;
    const uint32_t ranks[2] = {(uint32_t)from, (uint32_t)to};
    const struct mac_piece pieces[] = {
        {head->job, sizeof head->job}, {ranks, sizeof ranks}, {use, sizeof use}};
    leat_mac(far->secret, sizeof far->secret, pieces, 3, mac);
    memcpy(cookie, mac, FAR_COOKIE_BYTES);
}

int far_peer_find(struct far *far, int rank, struct far_peer **found)
{
    if (!far->peer[rank]) {
        struct far_peer *made = calloc(1, sizeof *made);
        if (!made)
            return leat_fail(-ENOMEM, "no memory for rank %d in the network", rank);
        made->rank = rank;
        made->next = far->peers;
        make_cookie(far, far->job->rank, rank, made->to);
        make_cookie(far, rank, far->job->rank, made->from);
        far->peers = far->peer[rank] = made;
    }
    *found = far->peer[rank];
    return 0;
}

// A stranger must not be able to fill the table.
struct far_peer *far_peer_proven(struct far *far, int rank, const uint8_t cookie[FAR_COOKIE_BYTES])
{
    uint8_t expected[FAR_COOKIE_BYTES];
    struct far_peer *peer = far->peer[rank];
    if (peer)
        return leat_mac_begins_equal(cookie, peer->from, FAR_COOKIE_BYTES) ? peer : NULL;
    make_cookie(far, rank, far->job->rank, expected);
    bool proven = leat_mac_begins_equal(cookie, expected, FAR_COOKIE_BYTES);
    return proven && !far_peer_find(far, rank, &peer) ? peer : NULL;
}

void far_peers_free(struct far *far)
{
    while (far->peers) {
        struct far_peer *peer = far->peers;
        far->peers = peer->next;
        free(peer);
    }
    free(far->peer);
}

// ---- Who is there ----

static void end_all(struct far *far, struct far_operation *first, int error)
{
    while (first) {
        struct far_operation *next = first->next;
        far_finish(far, first, error);
        first = next;
    }
}

static void lose_with(struct far *far, struct far_peer *peer, int error, const char *text)
{
    if (peer->state == FAR_LOST)
        return;
    peer->state = FAR_LOST;
    peer->error = error;
    snprintf(peer->why, sizeof peer->why, "%s", text);
    struct far_operation *pending = peer->first, *awaiting = peer->awaiting;
    peer->first = peer->awaiting = NULL;
    peer->owed_count = 0;
    peer->asks = false;
    end_all(far, pending, error);
    end_all(far, awaiting, error);
}

void far_peer_lose(struct far *far, struct far_peer *peer, const char *why)
{
    char text[400];
    snprintf(text, sizeof text, "rank %d %.380s", peer->rank, why);
    leat_rank_gone(far->job->segment->head, peer->rank, RANK_LOST, why);
    lose_with(far, peer, -ECONNRESET, text);
}

static bool busy(const struct far_peer *peer)
{
    return peer->first || peer->awaiting || peer->owed_count || peer->asks;
}

void far_peers_look(struct far *far)
{
    uint64_t now_ns = leat_now_ns();
    if (now_ns - far->looked_ns < LOOK_NS)
        return;
    far->looked_ns = now_ns;
    for (struct far_peer *peer = far->peers; peer; peer = peer->next) {
        if (peer->state == FAR_LOST || !busy(peer) || !leat_rank_lost(far->job, peer->rank))
            continue;
        char fate[400];
        leat_rank_fate(far->job, peer->rank, fate, sizeof fate);
        lose_with(far, peer, -ECONNRESET, fate);
    }
}

void far_peer_meet(struct far *far, struct far_peer *peer, const char *card)
{
    char why[300];
    if (peer->state != FAR_NEW)
        return;
    if (fabric_meet(&far->fabric, card, &peer->address)) {
        snprintf(why, sizeof why, "cannot be reached: %.270s", leat_error_detail());
        far_peer_lose(far, peer, why);
        return;
    }
    peer->state = FAR_MET;
}

static void ask_where(struct far *far, struct far_peer *peer)
{
    char card[LEAT_CARD_BYTES], why[300];
    int error = leat_card_find(far->job, CARD_FAR, peer->rank, card);
    if (!error)
        far_peer_meet(far, peer, card);
    if (!error || error == -EAGAIN || error == -ECONNRESET) // of the last, far_peers_look tells
        return;
    snprintf(why, sizeof why, "cannot be reached: %.270s", leat_error_detail());
    far_peer_lose(far, peer, why);
}

// ---- Messages ----

struct far_slot *far_slot_take(struct far *far, struct far_peer *peer, enum far_kind kind)
{
    struct far_slot *slot = far->free_slots;
    // The first one alone: it may have to go again.
    if (!slot || peer->sending >= (peer->settled ? FAR_SENDS_A_PEER : 1))
        return NULL;
    far->free_slots = slot->next;
    slot->peer = peer->rank;
    struct far_header *header = far_head(slot);
    *header = (struct far_header){.rank = (uint32_t)far->job->rank, .kind = (uint16_t)kind};
    memcpy(header->cookie, peer->to, sizeof header->cookie);
    return slot;
}

void far_slot_give(struct far *far, struct far_slot *slot)
{
    slot->next = far->free_slots;
    far->free_slots = slot;
}

static ssize_t give(struct far *far, const struct far_peer *peer, struct far_slot *slot)
{
    size_t bytes = sizeof(struct far_header) + far_head(slot)->bytes;
    void *desc = far->slots_memory ? fi_mr_desc(far->slots_memory) : NULL;
    return fi_send(far->fabric.endpoint, slot->message, bytes, desc, peer->address, &slot->context);
}

static void cannot_send(struct far *far, struct far_peer *peer, int error)
{
    char why[200];
    snprintf(why, sizeof why, "was lost: libfabric cannot send to it: %s", fabric_error(error));
    far_peer_lose(far, peer, why);
}

bool far_slot_again(struct far *far, struct far_slot *slot, int error)
{
    struct far_peer *peer = far->peer[slot->peer];
    if (!fabric_crossed(error) || peer->settled || peer->state == FAR_LOST ||
        peer->attempts >= FABRIC_ATTEMPTS || leat_rank_lost(far->job, peer->rank))
        return false;
    peer->attempts++;
    slot->next = far->again;
    far->again = slot;
    return true;
}

void far_slots_again(struct far *far)
{
    struct far_slot *slot = far->again;
    far->again = NULL;
    while (slot) {
        struct far_slot *next = slot->next;
        struct far_peer *peer = far->peer[slot->peer];
        ssize_t error = peer->state == FAR_LOST ? -FI_ENOTCONN : give(far, peer, slot);
        if (error == -FI_EAGAIN) {
            slot->next = far->again;
            far->again = slot;
        } else if (error) {
            cannot_send(far, peer, (int)error);
            peer->sending--;
            far_slot_give(far, slot);
        }
        slot = next;
    }
}

int far_slot_send(struct far *far, struct far_peer *peer, struct far_slot *slot)
{
    ssize_t error = give(far, peer, slot);
    if (!error) {
        peer->sending++;
        return 0;
    }
    far_slot_give(far, slot);
    if (error == -FI_EAGAIN)
        return -EAGAIN;
    cannot_send(far, peer, (int)error);
    return -ECONNRESET;
}

static bool greet(struct far *far, struct far_peer *peer)
{
    struct far_slot *slot = far_slot_take(far, peer, FAR_HELLO);
    if (!slot)
        return false;
    struct far_hello hello = {0};
    snprintf(hello.build, sizeof hello.build, "%s", leat_build_id());
    memcpy(hello.card, far->card, sizeof hello.card);
    memcpy(far_payload(slot), &hello, sizeof hello);
    far_head(slot)->bytes = sizeof hello;
    peer->greeted = far_slot_send(far, peer, slot) == 0;
    return peer->greeted;
}

// ---- This rank's operations ----

static uint64_t part_of(const struct far_operation *operation)
{
    uint64_t left = operation->bytes - operation->posted;
    return left < FAR_PAYLOAD_BYTES ? left : FAR_PAYLOAD_BYTES;
}

static void fill_put(struct far_slot *slot, const struct far_operation *operation, uint64_t part)
{
    struct far_header *header = far_head(slot);
    header->bytes = (uint32_t)part;
    header->offset = operation->offset + operation->posted;
    if (part)
        memcpy(far_payload(slot), (const char *)operation->local + operation->posted, part);
    if (operation->acknowledged)
        header->flags |= FAR_ASKS;
    if (operation->posted + part < operation->bytes) {
        header->flags |= FAR_MORE;
        return;
    }
    if (operation->signal.generation) {
        header->flags |= FAR_SIGNALS;
        header->signal = operation->signal;
        header->signal_offset = operation->signal_offset;
        header->value = operation->value;
    }
}

static void fill_get(struct far_slot *slot, const struct far_operation *operation, uint64_t part)
{
    struct far_header *header = far_head(slot);
    header->offset = operation->offset + operation->posted;
    header->value = part;
    header->signal_offset = operation->posted;
}

static void fill(struct far_slot *slot, const struct far_operation *operation, uint64_t part)
{
    struct far_header *header = far_head(slot);
    header->id = operation->id;
    header->key = operation->key;
    switch (operation->verb) {
    case FAR_DO_PUT:
        fill_put(slot, operation, part);
        break;
    case FAR_DO_GET:
        fill_get(slot, operation, part);
        break;
    case FAR_DO_FIND:
        header->bytes = sizeof(struct far_name);
        memset(far_payload(slot), 0, sizeof(struct far_name));
        memcpy(far_payload(slot), operation->name, strnlen(operation->name, LEAT_REGION_NAME - 1));
        break;
    case FAR_DO_SUM:
    case FAR_DO_ANSWER:
        header->bytes = sizeof(struct reduce_side);
        memcpy(far_payload(slot), operation->local, sizeof(struct reduce_side));
        break;
    case FAR_DO_LOOK:
    case FAR_DO_BYE:
        break;
    }
}

static enum far_kind kind_of(enum far_verb verb)
{
    static const enum far_kind kinds[] = {
        [FAR_DO_PUT] = FAR_PUT,   [FAR_DO_GET] = FAR_GET, [FAR_DO_FIND] = FAR_FIND,
        [FAR_DO_LOOK] = FAR_LOOK, [FAR_DO_SUM] = FAR_SUM, [FAR_DO_ANSWER] = FAR_ANSWER,
        [FAR_DO_BYE] = FAR_BYE};
    return kinds[verb];
}

// Whether the next message of the operation is answered, and so counts.
static bool asks(const struct far_operation *operation, uint64_t part)
{
    if (operation->verb == FAR_DO_PUT)
        return operation->acknowledged && operation->posted + part >= operation->bytes;
    return operation->verb == FAR_DO_GET || operation->verb == FAR_DO_LOOK ||
           operation->verb == FAR_DO_BYE;
}

static bool answered(const struct far_operation *operation)
{
    return operation->verb == FAR_DO_PUT
               ? operation->acknowledged
               : operation->verb != FAR_DO_SUM && operation->verb != FAR_DO_ANSWER;
}

static void posted(struct far *far, struct far_peer *peer)
{
    struct far_operation *operation = peer->first;
    peer->first = operation->next;
    if (!answered(operation)) {
        far_finish(far, operation, 0);
        return;
    }
    // At the end: answers come in order.
    struct far_operation **at = &peer->awaiting;
    while (*at)
        at = &(*at)->next;
    operation->next = NULL;
    *at = operation;
}

// One message; false: it cannot go now.
static bool post_one(struct far *far, struct far_peer *peer)
{
    struct far_operation *operation = peer->first;
    uint64_t part = part_of(operation);
    bool counts = asks(operation, part);
    if (counts && peer->asked >= FAR_ASKED_A_PEER)
        return false;
    struct far_slot *slot = far_slot_take(far, peer, kind_of(operation->verb));
    if (!slot)
        return false;
    fill(slot, operation, part);
    if (far_slot_send(far, peer, slot))
        return false;
    peer->asked += counts;
    operation->posted += part;
    if (operation->posted >= operation->bytes)
        posted(far, peer);
    return true;
}

static bool progress_one(struct far *far, struct far_peer *peer)
{
    bool moved = false;
    if (peer->state == FAR_NEW)
        ask_where(far, peer);
    if (peer->state == FAR_MET && !peer->greeted)
        moved = greet(far, peer);
    if (peer->state != FAR_MET || !peer->greeted || !far_answer(far, peer, &moved))
        return moved;
    while (peer->first && post_one(far, peer))
        moved = true;
    return moved;
}

bool far_peers_progress(struct far *far)
{
    bool moved = false;
    for (struct far_peer *peer = far->peers; peer; peer = peer->next)
        if (peer->state != FAR_LOST &&
            (peer->first || peer->owed_count || peer->asks || peer->refuses))
            moved |= progress_one(far, peer);
    return moved;
}

bool far_peers_pending(const struct far *far)
{
    for (const struct far_peer *peer = far->peers; peer; peer = peer->next)
        if (peer->state != FAR_LOST && (peer->first || peer->owed_count || peer->refuses))
            return true;
    return false;
}

bool far_peers_await(const struct far *far)
{
    for (const struct far_peer *peer = far->peers; peer; peer = peer->next)
        if (peer->state != FAR_LOST && peer->awaiting)
            return true;
    return false;
}

bool far_peers_sending(const struct far *far)
{
    for (const struct far_peer *peer = far->peers; peer; peer = peer->next)
        if (peer->state != FAR_LOST && peer->sending)
            return true;
    return false;
}

#endif
