// SPDX-License-Identifier: Apache-2.0
// Buffers of the network: for messages that arrive, and for those that are being sent.
//
// Algorithm: one block, cut into slots of one size; three quarters wait for messages from anybody,
// the rest is for sending. A message that arrives is looked at where it lies: its cookie first,
// then what it says; a packet stays in its slot until the engine has read it, a put is stored at
// once. Advantage: the budget is the block, whatever the number of peers. Disadvantage: small
// messages take a whole slot.

#include "transport/fabric_msg_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

enum { SLOTS_LEAST = 12, COMPLETIONS_A_LOOK = 16 };

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

// ---- Sending ----

struct slot *fabric_slot_take(struct fabric_net *net, struct fabric_peer *peer)
{
    struct slot *slot = net->free_slots;
    if (!slot || peer->sending >= FABRIC_SENDS_A_PEER)
        return NULL;
    net->free_slots = slot->next;
    slot->operation.peer = peer->rank;
    slot->operation.kind = OPERATION_SEND;
    struct fabric_header header = {.rank = (uint32_t)net->net.rank};
    memcpy(header.cookie, peer->to, sizeof header.cookie);
    memcpy(slot->message, &header, sizeof header);
    return slot;
}

void fabric_slot_give(struct fabric_net *net, struct slot *slot)
{
    slot->own = false;
    slot->next = net->free_slots;
    net->free_slots = slot;
}

int fabric_slot_send(struct fabric_net *net, struct fabric_peer *peer, struct slot *slot, bool last)
{
    void *desc = descriptor(net);
    struct iovec piece = {slot->message, slot->bytes};
    struct fi_msg message = {.msg_iov = &piece,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = peer->address,
                             .context = &slot->operation.context};
    ssize_t error = fi_sendmsg(net->fabric.endpoint, &message,
                               FI_COMPLETION | (last ? FI_DELIVERY_COMPLETE : 0));
    if (!error) {
        peer->sending++;
        return 0;
    }
    fabric_slot_give(net, slot);
    if (error == -FI_EAGAIN)
        return -EAGAIN;
    char why[200];
    snprintf(why, sizeof why, "was lost: libfabric cannot send to it: %s",
             fabric_error((int)error));
    fabric_peer_lose(net, peer->rank, why);
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
    while (net->idle_slots) {
        struct slot *slot = net->idle_slots;
        if (fi_recv(net->fabric.endpoint, slot->message, sizeof slot->message, descriptor(net),
                    FI_ADDR_UNSPEC, &slot->operation.context))
            return; // no room now: at the next progress
        net->idle_slots = slot->next;
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
    int rank = fabric_sender(slot->message, bytes, net->net.rank_count);
    struct fabric_peer *peer = NULL;
    if (rank >= 0) {
        memcpy(&header, slot->message, sizeof header);
        peer = fabric_peer_proven(net, rank, header.cookie);
    }
    if (!peer) {
        turn_away(net, "it does not prove that it is from a rank of this job");
        return false;
    }
    const char *fault = fabric_fault(slot->message, bytes, net->arena_first, net->arena_bytes);
    if (fault) {
        char why[200];
        snprintf(why, sizeof why, "was lost: it has sent %s", fault);
        fabric_peer_lose(net, rank, why);
        return false;
    }
    if (header.kind == FABRIC_BYE)
        peer->bye = true;
    if (header.kind == FABRIC_PUT) {
        fabric_store(net->arena, &header, slot->message + sizeof header);
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

static void sent(struct fabric_net *net, struct slot *slot)
{
    struct fabric_peer *peer;
    if (!fabric_peer_find(net, slot->operation.peer, &peer))
        peer->sending--;
    fabric_slot_give(net, slot);
}

static void complete(struct fabric_net *net, const struct fi_cq_msg_entry *entry)
{
    struct operation *operation = entry->op_context;
    switch (operation->kind) {
    case OPERATION_RECEIVE:
        if (!take_in(net, slot_of(operation), entry->len))
            post(net, slot_of(operation));
        break;
    case OPERATION_SEND:
        sent(net, slot_of(operation));
        break;
    case OPERATION_TRANSFER:
        fabric_transfer_done(net, (struct transfer *)(void *)operation, 0);
        break;
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
        post(net, slot_of(operation));
        break;
    case OPERATION_SEND:
        fabric_peer_lose(net, operation->peer, why);
        sent(net, slot_of(operation));
        break;
    case OPERATION_TRANSFER:
        fabric_transfer_done(net, (struct transfer *)(void *)operation, entry.err);
        break;
    }
}

void fabric_slots_progress(struct fabric_net *net)
{
    struct fi_cq_msg_entry entries[COMPLETIONS_A_LOOK];
    ssize_t count = fi_cq_read(net->fabric.completions, entries, COMPLETIONS_A_LOOK);
    for (ssize_t i = 0; i < count; i++)
        complete(net, &entries[i]);
    if (count == -FI_EAVAIL)
        complete_badly(net);
    if (net->idle_slots)
        post_all(net);
}

// ---- Opening ----

int fabric_slots_open(struct fabric_net *net, uint64_t bytes)
{
    uint64_t count = bytes / sizeof(struct slot);
    if (count < SLOTS_LEAST)
        return leat_fail(-EINVAL, "buffers for libfabric of %llu bytes: at least %llu",
                         (unsigned long long)bytes,
                         (unsigned long long)(SLOTS_LEAST * sizeof(struct slot)));
    net->slot_count = (uint32_t)count;
    const uint32_t receiving = net->slot_count - net->slot_count / 4;
    net->slots = aligned_alloc(64, (count * sizeof(struct slot) + 63) / 64 * 64);
    if (!net->slots)
        return leat_fail(-ENOMEM, "no memory for %u buffers for libfabric", net->slot_count);
    memset(net->slots, 0, count * sizeof(struct slot));
    net->net.queue_bytes = count * sizeof(struct slot);
    if (fabric_registers_local(&net->fabric)) {
        int error = fabric_register(&net->fabric, net->slots, count * sizeof(struct slot), false,
                                    &net->slots_memory);
        if (error)
            return error;
    }
    for (uint32_t i = 0; i < net->slot_count; i++) {
        if (i < receiving)
            post(net, &net->slots[i]);
        else
            fabric_slot_give(net, &net->slots[i]);
    }
    post_all(net);
    return 0;
}

void fabric_slots_close(struct fabric_net *net)
{
    if (net->slots_memory)
        fi_close(&net->slots_memory->fid);
    free(net->slots);
    net->slots = NULL;
}

#endif
