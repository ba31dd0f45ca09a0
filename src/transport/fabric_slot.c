// SPDX-License-Identifier: Apache-2.0
// Buffers of the network: for messages that arrive, and for those that are being sent.
//
// Algorithm: one block, cut into slots; three quarters are for messages from anybody, the rest is
// for sending. Few are posted at a time, those that were used last, so that they stay in the cache
// (32 KiB over loopback: 16.5 us with 4, 20 with 16), and more in a burst.
// A message that arrives is looked at where it lies: its cookie first, then what it says; a packet
// stays in its slot until the engine has read it, a put is stored at once. The bytes of a large put
// wait one round for the engine to copy them to where they are wanted in the end; at its sender
// they went from the caller's memory. Advantage: the budget is the block, whatever the number of
// peers. Disadvantage: small messages take a whole slot.

#include "transport/fabric_msg_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

enum { SLOTS_LEAST = 12, COMPLETIONS_A_LOOK = 16, RECEIVING_GOOD = 22 };
enum { POSTED_FEW = 4, POSTED_MOST = 16 };

// ---- Lists ----

static void append(struct slot_list *list, struct slot *slot)
{
    slot->next = NULL;
    if (!list->first)
        list->end = &list->first;
    *list->end = slot;
    list->end = &slot->next;
}

static void *descriptor(const struct fabric_net *net)
{
    return net->slots_memory ? fi_mr_desc(net->slots_memory) : NULL;
}

// ---- The provider's memory ----

// Connections are made in calls of ours, and take most of it; once they stand, nothing is measured.
static int64_t measure(const struct fabric_net *net)
{
    return net->settling ? fabric_process_bytes() : 0;
}

static void measured(struct fabric_net *net, int64_t before)
{
    if (!net->settling)
        return;
    net->fabric.provider_bytes += fabric_process_bytes() - before;
    int64_t bytes = net->fabric.provider_bytes;
    __atomic_store_n(&net->net.provider_bytes, bytes > 0 ? (uint64_t)bytes : 0, __ATOMIC_RELAXED);
}

// ---- Sending ----

struct slot *fabric_slot_take(struct fabric_net *net, struct fabric_peer *peer)
{
    struct slot *slot = net->free_slots;
    // The first one alone: see goes_again.
    if (!slot || peer->sending >= (peer->settled ? FABRIC_SENDS_A_PEER : 1))
        return NULL;
    net->free_slots = slot->next;
    slot->operation.peer = peer->rank;
    slot->operation.kind = OPERATION_SEND;
    return slot;
}

uint8_t *fabric_slot_head(struct fabric_net *net, const struct fabric_peer *peer, struct slot *slot,
                          struct fabric_header *header)
{
    header->rank = (uint32_t)net->net.rank;
    memcpy(header->cookie, peer->to, sizeof header->cookie);
    slot->header_bytes = (uint32_t)fabric_pack(slot->message, header);
    slot->bytes = slot->header_bytes;
    return slot->message + slot->header_bytes;
}

void fabric_slot_give(struct fabric_net *net, struct slot *slot)
{
    slot->own = false;
    slot->lent = NULL;
    slot->waiter = NULL;
    slot->next = net->free_slots;
    net->free_slots = slot;
}

static ssize_t give(struct fabric_net *net, const struct fabric_peer *peer, struct slot *slot)
{
    void *desc[3] = {descriptor(net)};
    struct iovec piece[3] = {{slot->message, slot->bytes}};
    if (slot->lent) {
        piece[0].iov_len = slot->header_bytes;
        piece[1] = (struct iovec){(void *)(uintptr_t)slot->lent, slot->lent_bytes};
        piece[2] = (struct iovec){slot->message + piece[0].iov_len, slot->bytes - piece[0].iov_len};
    }
    struct fi_msg message = {.msg_iov = piece,
                             .desc = desc,
                             .iov_count = slot->lent ? 3 : 1,
                             .addr = peer->address,
                             .context = &slot->operation.context};
    int64_t before = measure(net);
    ssize_t error = fi_sendmsg(net->fabric.endpoint, &message,
                               FI_COMPLETION | (slot->last ? FI_DELIVERY_COMPLETE : 0));
    measured(net, before);
    return error;
}

static void cannot_send(struct fabric_net *net, int rank, int error)
{
    char why[200];
    snprintf(why, sizeof why, "was lost: libfabric cannot send to it: %s", fabric_error(error));
    fabric_peer_lose(net, rank, why);
}

int fabric_slot_send(struct fabric_net *net, struct fabric_peer *peer, struct slot *slot, bool last)
{
    slot->last = last;
    ssize_t error = give(net, peer, slot);
    if (!error) {
        peer->sending++;
        return 0;
    }
    fabric_slot_give(net, slot);
    if (error == -FI_EAGAIN)
        return -EAGAIN;
    cannot_send(net, peer->rank, (int)error);
    return fabric_peer_alive(net, peer->rank);
}

// ---- Arrival ----

static void post(struct fabric_net *net, struct slot *slot)
{
    slot->operation.kind = OPERATION_RECEIVE;
    slot->next = net->idle_slots;
    net->idle_slots = slot;
}

static void post_all(struct fabric_net *net)
{
    while (net->idle_slots && net->posted < net->posting) {
        struct slot *slot = net->idle_slots;
        if (fi_recv(net->fabric.endpoint, slot->message, net->receive_bytes, descriptor(net),
                    FI_ADDR_UNSPEC, &slot->operation.context))
            return; // no room now: at the next progress
        net->idle_slots = slot->next;
        net->posted++;
    }
}

void fabric_slot_arrive(struct fabric_net *net, struct slot *slot)
{
    slot->own = true;
    append(&net->arrived, slot);
}

void fabric_store(char *arena, const struct fabric_header *header, const uint8_t *data)
{
    for (int i = 0; i < header->pieces; i++) {
        char *to = arena + header->offset[i];
        uint64_t bytes = header->bytes[i];
        const bool flagged = i == header->pieces - 1 && bytes >= sizeof(uint64_t) &&
                             header->offset[i] % sizeof(uint64_t) == 0;
        // The flag, which somebody may poll, comes last.
        if (flagged) {
            uint64_t flag;
            memcpy(&flag, data, sizeof flag);
            memcpy(to + sizeof flag, data + sizeof flag, bytes - sizeof flag);
            __atomic_store_n((uint64_t *)(void *)to, flag, __ATOMIC_RELEASE);
        } else {
            memcpy(to, data, bytes);
        }
        data += bytes;
    }
}

// ---- Large puts ----

uint32_t fabric_slots_large(const struct fabric_net *net)
{
    return net->receive_bytes - (uint32_t)FABRIC_MESSAGE_BYTES + FABRIC_COPIED_BYTES;
}

// A large put's second and third piece.
static void store_rest(char *arena, const struct fabric_header *header, const uint8_t *data)
{
    struct fabric_header part = {
        .pieces = 1, .bytes = {header->bytes[1]}, .offset = {header->offset[1]}};
    if (header->pieces == 3)
        memcpy(arena + header->offset[2], data + header->bytes[1], header->bytes[2]);
    fabric_store(arena, &part, data);
}

// The flag says that the bytes are there, which large_find makes true. False: they are stored.
static bool keep_loose(struct fabric_net *net, struct slot *slot,
                       const struct fabric_header *header, const uint8_t *data)
{
    char *at = net->arena + header->offset[0];
    const bool kept = net->net.large < FABRIC_LOOSE;
    if (kept)
        net->loose[net->net.large++] = (struct loose){at, data, header->bytes[0], slot};
    else
        memcpy(at, data, header->bytes[0]);
    store_rest(net->arena, header, data + header->bytes[0]);
    return kept;
}

const void *fabric_large_find(struct msg_net *net, const void *at, uint64_t bytes)
{
    const struct fabric_net *own = fabric_of(net);
    for (uint32_t i = 0; i < net->large; i++)
        if (own->loose[i].at == at && bytes <= own->loose[i].bytes)
            return own->loose[i].data;
    return at;
}

void fabric_large_take(struct msg_net *net, const void *at)
{
    struct fabric_net *own = fabric_of(net);
    for (uint32_t i = 0; i < net->large; i++)
        if (own->loose[i].at == at) {
            post(own, own->loose[i].slot);
            own->loose[i] = own->loose[--net->large];
            return;
        }
}

// What the engine did not want yet.
static void store_loose(struct fabric_net *net)
{
    for (uint32_t i = 0; i < net->net.large; i++) {
        const struct loose *loose = &net->loose[i];
        memcpy(loose->at, loose->data, loose->bytes);
        post(net, loose->slot);
    }
    net->net.large = 0;
}

// ---- Messages ----

static void turn_away(struct fabric_net *net, const char *why)
{
    if (net->strangers++ == 0)
        leat_log(net->job->config.log_level, LOG_WARN, net->net.rank,
                 "a message that came by libfabric was thrown away: %s; further ones are counted "
                 "and not named",
                 why);
}

// False: the slot is free again.
static bool take_in(struct fabric_net *net, struct slot *slot, size_t bytes)
{
    struct fabric_header header;
    const uint8_t *data = slot->message;
    int rank = fabric_sender(slot->message, bytes, net->net.rank_count);
    struct fabric_peer *peer = NULL;
    if (rank >= 0) {
        data += fabric_unpack(slot->message, bytes, &header);
        peer = fabric_peer_proven(net, rank, header.cookie);
    }
    if (!peer) {
        turn_away(net, "it does not prove that it is from a rank of this job");
        return false;
    }
    const char *fault = fabric_fault(&header, bytes, net->arena_first, net->arena_bytes);
    if (fault) {
        char why[200];
        snprintf(why, sizeof why, "was lost: it has sent %s", fault);
        fabric_peer_lose(net, rank, why);
        return false;
    }
    peer->heard_ns = net->now_ns;
    if (header.kind == FABRIC_BYE)
        peer->bye = true;
    if (header.kind == FABRIC_LARGE) {
        net->net.puts++;
        return keep_loose(net, slot, &header, data);
    }
    if (header.kind == FABRIC_PUT) {
        fabric_store(net->arena, &header, data);
        net->net.puts++;
    }
    if (header.kind != FABRIC_PACKET)
        return false;
    slot->bytes = (uint32_t)bytes;
    append(&net->arrived, slot);
    return true;
}

// ---- Completions ----

static struct slot *slot_of(struct operation *operation)
{
    return (struct slot *)(void *)operation;
}

// Others of the message may still be read by the provider.
static void piece_sent(struct msg_transfer *transfer, bool failed)
{
    transfer->failed |= failed;
    if (--transfer->pieces == 0)
        transfer->finished = transfer->failed ? -ECONNRESET : 1;
}

static void sent(struct fabric_net *net, struct slot *slot, bool failed)
{
    struct fabric_peer *peer;
    if (slot->waiter)
        piece_sent(slot->waiter, failed);
    if (!fabric_peer_find(net, slot->operation.peer, &peer)) {
        peer->sending--;
        net->settling -= !peer->settled;
        peer->settled = true;
    }
    fabric_slot_give(net, slot);
}

static void complete(struct fabric_net *net, const struct fi_cq_msg_entry *entry)
{
    struct operation *operation = entry->op_context;
    switch (operation->kind) {
    case OPERATION_RECEIVE:
        net->posted--;
        net->settling -= !net->visited;
        net->visited = true;
        if (!take_in(net, slot_of(operation), entry->len))
            post(net, slot_of(operation));
        break;
    case OPERATION_SEND:
        sent(net, slot_of(operation), false);
        break;
    case OPERATION_TRANSFER:
        fabric_transfer_done(net, (struct transfer *)(void *)operation, 0);
        break;
    }
}

// Before a peer has got anything, one message is under way to it, and that goes again where the
// connection was one of two; so later ones keep their order.
static bool goes_again(struct fabric_net *net, struct slot *slot, int error)
{
    struct fabric_peer *peer;
    if (!fabric_crossed(error) || fabric_peer_find(net, slot->operation.peer, &peer) ||
        peer->settled || peer->state == FABRIC_PEER_LOST || leat_rank_lost(net->job, peer->rank) ||
        peer->attempts >= FABRIC_ATTEMPTS)
        return false;
    peer->attempts++;
    slot->next = net->again;
    net->again = slot;
    return true;
}

static void send_again(struct fabric_net *net)
{
    struct slot *slot = net->again;
    net->again = NULL;
    while (slot) {
        struct slot *next = slot->next;
        struct fabric_peer *peer;
        ssize_t error = fabric_peer_find(net, slot->operation.peer, &peer);
        if (!error)
            error = peer->state == FABRIC_PEER_LOST ? -FI_ENOTCONN : give(net, peer, slot);
        if (error == -FI_EAGAIN) {
            slot->next = net->again;
            net->again = slot;
        } else if (error) {
            cannot_send(net, slot->operation.peer, (int)error);
            sent(net, slot, true);
        }
        slot = next;
    }
}

static void complete_badly(struct fabric_net *net)
{
    struct fi_cq_err_entry entry = {0};
    char why[200];
    if (fi_cq_readerr(net->fabric.completions, &entry, 0) != 1 || !entry.op_context)
        return;
    struct operation *operation = entry.op_context;
    snprintf(why, sizeof why, "was lost: libfabric says: %s", fabric_error(entry.err));
    switch (operation->kind) {
    case OPERATION_RECEIVE:
        // Too long for any message of ours, or cut short: nobody has proven to have sent it.
        turn_away(net, fabric_error(entry.err));
        net->posted--;
        post(net, slot_of(operation));
        break;
    case OPERATION_SEND:
        if (goes_again(net, slot_of(operation), entry.err))
            return;
        fabric_peer_lose(net, operation->peer, why);
        sent(net, slot_of(operation), true);
        break;
    case OPERATION_TRANSFER:
        fabric_transfer_done(net, (struct transfer *)(void *)operation, entry.err);
        break;
    }
}

// Few buffers, so that they stay in the cache; more of them while all are filled at each look. What
// has come is not kept waiting for new ones, unless they run out.
static void post_again(struct fabric_net *net, bool idle)
{
    if (idle)
        net->posting = POSTED_FEW;
    else if (!net->posted && net->posting < POSTED_MOST)
        net->posting *= 2;
    if (net->idle_slots && (idle || net->posted < POSTED_FEW / 2))
        post_all(net);
}

void fabric_slots_progress(struct fabric_net *net)
{
    struct fi_cq_msg_entry entries[COMPLETIONS_A_LOOK];
    if (net->net.large)
        store_loose(net);
    int64_t before = measure(net);
    ssize_t count = fi_cq_read(net->fabric.completions, entries, COMPLETIONS_A_LOOK);
    measured(net, before);
    net->heard += count > 0 ? (uint64_t)count : 0;
    for (ssize_t i = 0; i < count; i++)
        complete(net, &entries[i]);
    if (count == -FI_EAVAIL)
        complete_badly(net);
    if (net->again)
        send_again(net);
    post_again(net, count <= 0);
}

// ---- Opening ----

static uint64_t stride(uint64_t message_bytes)
{
    return (sizeof(struct slot) + message_bytes + 63) / 64 * 64;
}

// A message that may arrive: as large as leaves enough of them.
static uint32_t receive_bytes(uint64_t block_bytes)
{
    const uint64_t overhead = stride(sizeof(struct fabric_wire) + FABRIC_SLOT_BYTES);
    uint64_t room = block_bytes / RECEIVING_GOOD, bytes = FABRIC_COPIED_BYTES;
    while (2 * bytes <= FABRIC_LARGE_BYTES && 2 * bytes + overhead <= room)
        bytes *= 2;
    return (uint32_t)(sizeof(struct fabric_wire) + FABRIC_SLOT_BYTES + bytes);
}

static struct slot *slot_at(const struct fabric_net *net, uint32_t i)
{
    uint64_t receiving = stride(net->receive_bytes), sending = stride(FABRIC_MESSAGE_BYTES);
    uint64_t offset = i < net->receive_count
                          ? i * receiving
                          : net->receive_count * receiving + (i - net->receive_count) * sending;
    return (struct slot *)(void *)(net->slots + offset);
}

static int allocate(struct fabric_net *net, uint64_t bytes)
{
    uint64_t receiving = bytes - bytes / 4, sending = bytes / 4;
    net->receive_bytes = receive_bytes(receiving);
    net->receive_count = (uint32_t)(receiving / stride(net->receive_bytes));
    net->send_count = (uint32_t)(sending / stride(FABRIC_MESSAGE_BYTES));
    if (net->receive_count + net->send_count < SLOTS_LEAST)
        return leat_fail(-EINVAL, "buffers for libfabric of %llu bytes: at least %llu",
                         (unsigned long long)bytes,
                         (unsigned long long)(SLOTS_LEAST * stride(FABRIC_MESSAGE_BYTES)));
    uint64_t block = net->receive_count * stride(net->receive_bytes) +
                     net->send_count * stride(FABRIC_MESSAGE_BYTES);
    net->slots = aligned_alloc(64, block);
    if (!net->slots)
        return leat_fail(-ENOMEM, "no memory for %u buffers for libfabric",
                         net->receive_count + net->send_count);
    memset(net->slots, 0, block);
    net->net.queue_bytes = block;
    return fabric_registers_local(&net->fabric)
               ? fabric_register(&net->fabric, net->slots, block, false, &net->slots_memory)
               : 0;
}

int fabric_slots_open(struct fabric_net *net, uint64_t bytes)
{
    int error = allocate(net, bytes);
    if (error)
        return error;
    for (uint32_t i = 0; i < net->receive_count + net->send_count; i++) {
        if (i < net->receive_count)
            post(net, slot_at(net, i));
        else
            fabric_slot_give(net, slot_at(net, i));
    }
    net->settling = 1;
    net->posting = POSTED_FEW;
    int64_t before = measure(net);
    post_all(net);
    measured(net, before);
    return 0;
}

void fabric_slots_forget(struct fabric_net *net)
{
    for (uint32_t i = 0; net->slots && i < net->send_count; i++)
        slot_at(net, net->receive_count + i)->waiter = NULL;
}

void fabric_slots_close(struct fabric_net *net)
{
    if (net->slots_memory)
        fi_close(&net->slots_memory->fid);
    free(net->slots);
    net->slots = NULL;
}

#endif
