/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the services of two ranks say to each other (far.h): one header, then what belongs to it.
 *
 *     HELLO   build and card of the sender, first of all
 *     PUT     bytes for a region, and perhaps a signal to raise behind them     > DONE, if asked
 *     GET     bytes of a region are wanted                                      > DATA
 *     FIND    the region of a name is wanted, LOOK the one of a key             > FOUND
 *     SUM     a contribution to a reduction, to rank 0; ANSWER its result
 *     REFUSED a put that was not to be answered could not be done
 *     BYE     nothing but answers comes after it                                > DONE
 *
 * Numbers are in host order, since all ranks run the same build. The cookie is a MAC by the job's
 * key over job, sender, receiver and this use: nothing of a message is looked at before it.
 * Advantage: every message proves its sender and says what it needs, so the receiver keeps nothing
 * between two of them. Disadvantage: 96 bytes a message.
 */
#ifndef LEAT_TRANSPORT_FAR_WIRE_H
#define LEAT_TRANSPORT_FAR_WIRE_H

#include "core/region.h"

#include <string.h>

#define FAR_COOKIE_BYTES  16
#define FAR_PAYLOAD_BYTES (64 << 10)
#define FAR_ERRNO_MOST    4095

enum far_kind {
    FAR_HELLO = 1,
    FAR_PUT,
    FAR_GET,
    FAR_FIND,
    FAR_LOOK,
    FAR_SUM,
    FAR_ANSWER,
    FAR_BYE,
    FAR_DONE,
    FAR_DATA,
    FAR_FOUND,
    FAR_REFUSED,
    FAR_KINDS
};

/* MORE: another part of the same put follows, and the answer comes behind the last. */
enum far_flags { FAR_SIGNALS = 1, FAR_ASKS = 2, FAR_MORE = 4 };

struct far_header {
    uint8_t cookie[FAR_COOKIE_BYTES];
    uint32_t rank; /* the sender's */
    uint16_t kind;
    uint16_t flags;
    uint32_t bytes; /* that follow */
    int32_t error;  /* DONE, DATA, FOUND, REFUSED */
    uint64_t id;    /* of the sender's operation, and again in its answer */
    /* PUT, GET, LOOK: where; DATA: `offset` from the operation's first byte; FOUND: what is there.
     */
    struct region_key key;
    uint64_t offset;
    uint64_t value; /* PUT: of the signal; GET: bytes wanted; FOUND: bytes */
    struct region_key signal;
    uint64_t signal_offset; /* FOUND: enum region_kind */
};

#define FAR_MESSAGE_BYTES (sizeof(struct far_header) + FAR_PAYLOAD_BYTES)

_Static_assert(sizeof(struct far_header) == 96, "no padding travels");

struct far_hello {
    char build[LEAT_BUILD_BYTES];
    char card[LEAT_CARD_BYTES];
};

struct far_name {
    char name[LEAT_REGION_NAME];
};

/* The rank that a message says it is from, or -1: it is too short, or there is no such rank. */
static inline int far_sender(const void *message, size_t bytes, int rank_count)
{
    struct far_header header;
    if (bytes < sizeof header)
        return -1;
    memcpy(&header, message, sizeof header);
    return header.rank < (uint32_t)rank_count ? (int)header.rank : -1;
}

static inline bool far_ends(const char *text, size_t bytes)
{
    return memchr(text, 0, bytes) != NULL;
}

/* What is wrong with a message whose cookie is right, or NULL. What it says of regions is looked at
 * when they are. */
static inline const char *far_fault(const void *message, size_t bytes)
{
    struct far_header header;
    const char *payload = (const char *)message + sizeof header;
    memcpy(&header, message, sizeof header);
    if (header.kind < FAR_HELLO || header.kind >= FAR_KINDS)
        return "a message of an unknown kind";
    if (header.bytes > FAR_PAYLOAD_BYTES || header.bytes != bytes - sizeof header)
        return "a message of another length than it says";
    if (header.flags & ~(FAR_SIGNALS | FAR_ASKS | FAR_MORE) ||
        (header.flags && header.kind != FAR_PUT))
        return "a message with unknown flags";
    if (header.error > 0 || header.error < -FAR_ERRNO_MOST)
        return "an error that is none";
    switch (header.kind) {
    case FAR_HELLO:
        return header.bytes != sizeof(struct far_hello) || !far_ends(payload, LEAT_BUILD_BYTES) ||
                       !far_ends(payload + LEAT_BUILD_BYTES, LEAT_CARD_BYTES)
                   ? "a greeting that is none"
                   : NULL;
    case FAR_FIND:
        return header.bytes != sizeof(struct far_name) || !far_ends(payload, LEAT_REGION_NAME)
                   ? "a name that is none"
                   : NULL;
    case FAR_SUM:
    case FAR_ANSWER:
        return header.bytes != sizeof(struct reduce_side) ? "a reduction of another size" : NULL;
    case FAR_PUT:
    case FAR_DATA:
        return NULL;
    default:
        return header.bytes ? "bytes where none belong" : NULL;
    }
}

#endif
