/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between ranks by libfabric: one header, then a packet of the engine or a put.
 *
 * A put travels as a message, too, and its receiver stores it: no provider promises in which order
 * the bytes of a one-sided write appear, and the engine polls the last ones. Numbers are in host
 * order, since all ranks run the same build. The cookie is a MAC by the job's key over job, sender
 * and receiver: a stranger cannot make one up, so nothing of a message is looked at before it.
 * Advantage: every message proves its sender, without a handshake. Disadvantage: whoever reads the
 * wire reads the cookie, too; as all of the job's data, it is not encrypted.
 */
#ifndef LEAT_TRANSPORT_FABRIC_WIRE_H
#define LEAT_TRANSPORT_FABRIC_WIRE_H

#include "msg/net.h"

#include <stddef.h>
#include <string.h>

#define FABRIC_COOKIE_BYTES  16
#define FABRIC_SLOT_BYTES    128   /* what comes with the bytes of a put, at most */
#define FABRIC_COPIED_BYTES  4096  /* of a put, at most; beyond it see put_large */
#define FABRIC_LARGE_BYTES   32768 /* of a large put, where buffers are as large */
#define FABRIC_PAYLOAD_BYTES (FABRIC_COPIED_BYTES + FABRIC_SLOT_BYTES)

/* BYE: nothing comes after it. LARGE: a put whose first piece may stay where it has arrived. */
enum fabric_kind { FABRIC_PACKET = 1, FABRIC_PUT, FABRIC_BYE, FABRIC_LARGE };

/* As the program has it. */
struct fabric_header {
    uint8_t cookie[FABRIC_COOKIE_BYTES];
    uint32_t rank; /* the sender's */
    uint8_t kind;
    uint8_t pieces;     /* of a put: 1 or 2; of a large one: 2 or 3; of others 1 */
    uint16_t bytes[3];  /* of the pieces, which follow */
    uint64_t offset[3]; /* of a put's pieces, in the receiver's arena: 48 bits */
};

/* As it travels. Short, since what a provider sends without a buffer of its own ends at 64 or 128
 * bytes. */
struct fabric_wire {
    uint8_t cookie[FABRIC_COOKIE_BYTES];
    uint32_t rank;
    uint8_t kind, pieces;
    uint16_t unused;   /* 0 */
    uint64_t piece[3]; /* offset and, in the last 16 bits, bytes; only of the pieces there are */
};

#define FABRIC_OFFSET_BITS 48
/* What is before the bytes of the first piece. */
#define FABRIC_HEADER_BYTES(pieces) (offsetof(struct fabric_wire, piece) + 8 * (size_t)(pieces))
#define FABRIC_MESSAGE_BYTES        (sizeof(struct fabric_wire) + FABRIC_PAYLOAD_BYTES)

_Static_assert(sizeof(struct fabric_wire) == FABRIC_HEADER_BYTES(3), "no padding travels");

/* Writes the header; its bytes. */
static inline size_t fabric_pack(void *message, const struct fabric_header *header)
{
    struct fabric_wire wire = {
        .rank = header->rank, .kind = header->kind, .pieces = header->pieces};
    memcpy(wire.cookie, header->cookie, sizeof wire.cookie);
    for (int i = 0; i < 3; i++)
        wire.piece[i] = header->offset[i] << 16 | header->bytes[i];
    const size_t bytes = FABRIC_HEADER_BYTES(header->pieces);
    memcpy(message, &wire, bytes < sizeof wire ? bytes : sizeof wire);
    return bytes;
}

/* Reads the header of a message that has a sender; its bytes, which may be more than there are. */
static inline size_t fabric_unpack(const void *message, size_t bytes, struct fabric_header *header)
{
    struct fabric_wire wire = {.rank = 0};
    memcpy(&wire, message, bytes < sizeof wire ? bytes : sizeof wire);
    memcpy(header->cookie, wire.cookie, sizeof wire.cookie);
    header->rank = wire.rank;
    header->kind = wire.kind;
    header->pieces = wire.pieces;
    for (int i = 0; i < 3; i++) {
        header->bytes[i] = (uint16_t)wire.piece[i];
        header->offset[i] = wire.piece[i] >> 16;
    }
    return FABRIC_HEADER_BYTES(wire.pieces);
}

/* The rank that a message says it is from, or -1: it is too short, or there is no such rank. */
static inline int fabric_sender(const void *message, size_t bytes, int rank_count)
{
    uint32_t rank;
    if (bytes < FABRIC_HEADER_BYTES(1))
        return -1;
    memcpy(&rank, (const char *)message + offsetof(struct fabric_wire, rank), sizeof rank);
    return rank < (uint32_t)rank_count ? (int)rank : -1;
}

/* What is wrong with a message of `bytes` whose cookie is right, or NULL. Puts have to lie within
 * [first, arena_bytes) of the arena. */
static inline const char *fabric_fault(const struct fabric_header *header, size_t bytes,
                                       uint64_t first, uint64_t arena_bytes)
{
    if (header->pieces < 1 || header->pieces > (header->kind == FABRIC_LARGE ? 3 : 2))
        return "a message of no pieces, or of too many";
    if (header->kind < FABRIC_PACKET || header->kind > FABRIC_LARGE)
        return "a message of an unknown kind";
    if (header->kind == FABRIC_PACKET &&
        (header->pieces != 1 || !header->bytes[0] || header->bytes[0] > MSG_PACKET_BYTES))
        return "a packet of a wrong size";
    if (header->kind == FABRIC_BYE && (header->pieces != 1 || header->bytes[0]))
        return "a good-bye with a payload";
    if (header->kind == FABRIC_LARGE && header->pieces < 2)
        return "a large put of one piece";
    const bool put = header->kind == FABRIC_PUT || header->kind == FABRIC_LARGE;
    uint64_t total = FABRIC_HEADER_BYTES(header->pieces);
    for (int i = 0; i < header->pieces; i++) {
        total += header->bytes[i];
        if (put && (header->offset[i] < first || header->offset[i] > arena_bytes ||
                    header->bytes[i] > arena_bytes - header->offset[i]))
            return "a put outside the arena";
    }
    return total == bytes ? NULL : "a message of another length than it says";
}

#endif
