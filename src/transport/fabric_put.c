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

#define RXM_BUFFER_BYTES 16384 /* by default */

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

// Their sizes and places, into the header.
static int check_pieces(struct fabric_header *header, const struct msg_token *token,
                        const struct msg_piece *pieces, const struct msg_token *third)
{
    for (int i = 0; i < header->pieces; i++) {
        const struct msg_token *memory = i == 2 ? third : token;
        int error = check_piece(memory, &pieces[i]);
        if (error)
            return error;
        header->bytes[i] = (uint16_t)pieces[i].bytes;
        header->offset[i] = memory->word[1] + pieces[i].offset;
    }
    return 0;
}

static void copy_pieces(struct slot *slot, uint8_t *at, const struct msg_piece *pieces, int count)
{
    for (int i = 0; i < count; i++) {
        memcpy(at, pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
        slot->bytes += (uint32_t)pieces[i].bytes;
    }
}

int fabric_put(struct msg_net *net, int rank, const struct msg_token *token,
               const struct msg_piece *pieces, int count)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    struct slot *slot;
    struct fabric_header header = {.kind = FABRIC_PUT, .pieces = (uint8_t)count};
    if (!fabric_is_token(token, TOKEN_ARENA, rank))
        return leat_fail(-EINVAL, "a token of rank %d names no memory to put to", rank);
    int error = check_pieces(&header, token, pieces, NULL);
    if (error)
        return error;
    if (pieces[0].bytes + (count == 2 ? pieces[1].bytes : 0) > FABRIC_PAYLOAD_BYTES)
        return leat_fail(-EMSGSIZE, "a put of more than %d bytes", FABRIC_PAYLOAD_BYTES);
    error = fabric_take_slot(own, rank, &peer, &slot);
    if (error)
        return error;
    uint8_t *data = fabric_slot_head(own, peer, slot, &header);
    copy_pieces(slot, data, pieces, count);
    if (rank != net->rank)
        return fabric_slot_send(own, peer, slot, false);
    if (!fabric_fault(&header, slot->bytes, own->arena_first, own->arena_bytes))
        fabric_store(own->arena, &header, data);
    net->puts++;
    fabric_slot_give(own, slot);
    return 0;
}

int fabric_put_large(struct msg_net *net, int rank, const struct msg_token *token,
                     const struct msg_piece pieces[3], const struct msg_token *third,
                     struct msg_transfer *transfer)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    struct slot *slot;
    struct fabric_header header = {.kind = FABRIC_LARGE, .pieces = third ? 3 : 2};
    const bool lent = pieces[0].bytes > FABRIC_COPIED_BYTES;
    if (rank == net->rank || !fabric_is_token(token, TOKEN_ARENA, rank) ||
        (third && !fabric_is_token(third, TOKEN_ARENA, rank)) ||
        pieces[1].bytes + (third ? pieces[2].bytes : 0) > FABRIC_SLOT_BYTES)
        return leat_fail(-EINVAL, "a large put to rank %d that cannot be", rank);
    int error = check_pieces(&header, token, pieces, third);
    if (!error)
        error = fabric_take_slot(own, rank, &peer, &slot);
    if (error)
        return error;
    uint8_t *data = fabric_slot_head(own, peer, slot, &header);
    copy_pieces(slot, data, pieces + lent, header.pieces - lent);
    if (lent) {
        slot->lent = pieces[0].from;
        slot->lent_bytes = (uint32_t)pieces[0].bytes;
        slot->waiter = transfer;
    }
    error = fabric_slot_send(own, peer, slot, false);
    if (error)
        return error;
    if (lent) {
        transfer->pieces++;
        transfer->finished = 0;
    }
    return lent;
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
