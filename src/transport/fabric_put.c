// SPDX-License-Identifier: Apache-2.0
// Puts: into rings and pipes, which lie in the receiver's arena.
//
// Algorithm: a put is a message with its pieces behind the header, copied into a slot. Of a large
// put the first piece stays where the caller has it, and is sent from there. Advantage: no copy at
// the sender where it would cost. Disadvantage: the caller's memory is in use until the provider
// says that it has been read.

#include "transport/fabric_msg_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include <errno.h>

#define RXM_BUFFER_BYTES 16000 /* 16 KiB by default, with a header of its own */

int fabric_take_slot(struct fabric_net *net, int rank, struct fabric_peer **peer,
                     struct slot **slot)
{
    int error = rank == net->net.rank ? fabric_peer_find(net, rank, peer)
                                      : fabric_peer_meet(net, rank, peer);
    if (error)
        return error;
    *slot = fabric_slot_take(net, *peer);
    return *slot ? 0 : -EAGAIN;
}

static int check_piece(const struct msg_token *token, const struct msg_piece *piece)
{
    uint64_t most = fabric_token_bytes(token);
    if (piece->bytes <= UINT16_MAX && piece->offset <= most && piece->bytes <= most - piece->offset)
        return 0;
    return leat_fail(-EINVAL, "a put of %llu bytes at %llu of memory of %llu",
                     (unsigned long long)piece->bytes, (unsigned long long)piece->offset,
                     (unsigned long long)most);
}

static int fill_put(struct slot *slot, const struct msg_token *token,
                    const struct msg_piece *pieces, int count)
{
    struct fabric_header *header = (struct fabric_header *)(void *)slot->message;
    uint64_t at = sizeof *header;
    header->kind = FABRIC_PUT;
    header->pieces = (uint16_t)count;
    for (int i = 0; i < count; i++) {
        int error = check_piece(token, &pieces[i]);
        if (!error && at + pieces[i].bytes > FABRIC_MESSAGE_BYTES)
            error = leat_fail(-EMSGSIZE, "a put of more than %d bytes", FABRIC_PAYLOAD_BYTES);
        if (error)
            return error;
        header->bytes[i] = (uint16_t)pieces[i].bytes;
        header->offset[i] = token->word[1] + pieces[i].offset;
        memcpy(slot->message + at, pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    slot->bytes = (uint32_t)at;
    return 0;
}

// A large put: its second and third piece, and where the first one is.
static int fill_large(struct slot *slot, const struct msg_token *token,
                      const struct msg_piece pieces[3], const struct msg_token *third)
{
    struct fabric_header *header = (struct fabric_header *)(void *)slot->message;
    const bool lent = pieces[0].bytes > FABRIC_COPIED_BYTES;
    uint64_t at = sizeof *header;
    header->kind = FABRIC_LARGE;
    header->pieces = third ? 3 : 2;
    for (int i = 0; i < header->pieces; i++) {
        const struct msg_token *memory = i == 2 ? third : token;
        int error = check_piece(memory, &pieces[i]);
        if (error)
            return error;
        header->bytes[i] = (uint16_t)pieces[i].bytes;
        header->offset[i] = memory->word[1] + pieces[i].offset;
        if (i == 0 && lent)
            continue;
        memcpy(slot->message + at, pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    slot->bytes = (uint32_t)at;
    if (lent) {
        slot->lent = pieces[0].from;
        slot->lent_bytes = (uint32_t)pieces[0].bytes;
    }
    return 0;
}

int fabric_put(struct msg_net *net, int rank, const struct msg_token *token,
               const struct msg_piece *pieces, int count)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    if (!fabric_is_token(token, TOKEN_ARENA, rank))
        return leat_fail(-EINVAL, "a token of rank %d names no memory to put to", rank);
    struct slot *slot;
    int error = fabric_take_slot(own, rank, &peer, &slot);
    if (error)
        return error;
    error = fill_put(slot, token, pieces, count);
    if (!error && rank != net->rank)
        return fabric_slot_send(own, peer, slot, false);
    if (!error && !fabric_fault(slot->message, slot->bytes, own->arena_first, own->arena_bytes))
        fabric_store(own->arena, (struct fabric_header *)(void *)slot->message,
                     slot->message + sizeof(struct fabric_header));
    net->puts += !error;
    fabric_slot_give(own, slot);
    return error;
}

int fabric_put_large(struct msg_net *net, int rank, const struct msg_token *token,
                     const struct msg_piece pieces[3], const struct msg_token *third,
                     struct msg_transfer *transfer)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    struct slot *slot;
    if (rank == net->rank || !fabric_is_token(token, TOKEN_ARENA, rank) ||
        (third && !fabric_is_token(third, TOKEN_ARENA, rank)) ||
        pieces[1].bytes + (third ? pieces[2].bytes : 0) > FABRIC_SLOT_BYTES)
        return leat_fail(-EINVAL, "a large put to rank %d that cannot be", rank);
    int error = fabric_take_slot(own, rank, &peer, &slot);
    if (error)
        return error;
    error = fill_large(slot, token, pieces, third);
    if (error) {
        fabric_slot_give(own, slot);
        return error;
    }
    const bool lent = slot->lent;
    if (lent) {
        slot->waiter = transfer;
        transfer->finished = 0;
    }
    error = fabric_slot_send(own, peer, slot, false);
    return error ? error : lent;
}

uint32_t fabric_large_most(struct msg_net *net, const struct msg_token *token)
{
    const struct fabric *fabric = &fabric_of(net)->fabric;
    // Registering the caller's memory would cost more than a copy.
    if (!fabric_is_token(token, TOKEN_ARENA, (int)(uint32_t)token->word[0]) ||
        (int)(uint32_t)token->word[0] == net->rank || fabric_registers_local(fabric) ||
        fabric->info->tx_attr->iov_limit < 3)
        return 0;
    uint64_t most = (token->word[2] >> FABRIC_LARGE_SHIFT) * FABRIC_LARGE_UNIT;
    // What passes the utility layer's own buffers goes by a handshake there.
    uint64_t eager = strstr(fabric->info->fabric_attr->prov_name, "ofi_rxm")
                         ? RXM_BUFFER_BYTES - FABRIC_MESSAGE_BYTES + FABRIC_COPIED_BYTES
                         : UINT16_MAX;
    return (uint32_t)(most < eager ? most : eager);
}

#endif
