/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching: posted receives against arrived messages, by MPI's rules.
 *
 * Two stores. Posted receives and unexpected messages each get a stamp, counting up, and lie in a
 * list of all in that order. Besides, both lie in bins by (context, source, tag), receives with a
 * wildcard in a list of their own. An arriving message takes the posted receive with the lowest
 * stamp among its bin and the wildcards; a receive takes its bin's oldest message, or walks the
 * list when it has a wildcard. Bins are doubled as they fill, up to an eighth of the pool of
 * headers. Advantage: constant time without wildcards, whatever waits. Disadvantage: a wildcard
 * walks what does not match it.
 *
 * Unexpected messages are 96-byte envelopes from the pool of headers; their bytes lie in chains of
 * 128-byte cells from the pool of bytes. Either being full is a result, not an error.
 */
#ifndef LEAT_MSG_MATCH_H
#define LEAT_MSG_MATCH_H

#include "msg/pool.h"
#include "msg/request.h"

struct msg_envelope {
    uint32_t context; /* of the communicator */
    int32_t source;   /* rank in the job */
    int32_t tag;
    uint32_t handle;        /* of the send at its source (rendezvous, synchronous); 0: none */
    uint64_t bytes;         /* of the whole message */
    struct msg_token token; /* rendezvous: where the bytes are */
};

enum msg_unexpected_state {
    UNEXPECTED_WHOLE,   /* all bytes are in cells */
    UNEXPECTED_PARTIAL, /* fragments are still coming */
    UNEXPECTED_REMOTE   /* the bytes are with the sender: envelope.token */
};

struct msg_unexpected {
    struct msg_envelope envelope;
    uint64_t stamp;
    uint64_t stored;         /* bytes in cells so far */
    uint32_t next, previous; /* list of all, in order of arrival (slab indices) */
    uint32_t bin_next, bin_previous;
    uint32_t first_cell, last_cell; /* slab indices */
    uint32_t self;                  /* own index */
    uint8_t state;                  /* enum msg_unexpected_state */
    uint8_t synchronous;            /* the sender wants to know of the match */
};

_Static_assert(sizeof(struct msg_unexpected) == 96, "what a message costs in the pool of headers");

#define MATCH_BINS 64 /* at first; a power of two */

struct msg_posted_bin {
    struct msg_request *head, *tail; /* by bin_next, bin_previous */
};

struct msg_unexpected_bin {
    uint32_t head, tail;
};

/* Must not be moved once opened. */
struct msg_matcher {
    struct msg_pools *pools;
    struct msg_slab headers, cells;
    uint64_t next_stamp;
    uint64_t posted_count, unexpected_count;
    struct msg_request *posted_head, *posted_tail; /* all, in order of posting */
    struct msg_request *wild_head, *wild_tail;     /* by bin_next, bin_previous */
    struct msg_request *cursor;                    /* what next_posted last said, or NULL */
    uint32_t head, tail;                           /* unexpected, in order of arrival */
    uint32_t posted_bits, unexpected_bits;         /* log2 of the bins */
    struct msg_posted_bin *posted_bin;
    struct msg_unexpected_bin *unexpected_bin;
    struct msg_posted_bin posted_first[MATCH_BINS];
    struct msg_unexpected_bin unexpected_first[MATCH_BINS];
};

void msg_match_open(struct msg_matcher *matcher, struct msg_pools *pools);
void msg_match_close(struct msg_matcher *matcher);

/* Whether a receive for (context, from, tag), wildcards allowed, fits the message. */
static inline bool msg_fits(uint32_t context, int32_t from, int32_t tag,
                            const struct msg_envelope *envelope)
{
    return context == envelope->context && (from < 0 || from == envelope->source) &&
           (tag < 0 || tag == envelope->tag);
}

/* Posts a receive: request->{context, peer, tag} are set, peer and tag may be -1. Uses next,
 * previous, bin_next and bin_previous while it is posted, and sets its stamp. May grow the bins. */
void msg_match_post(struct msg_matcher *matcher, struct msg_request *request);
/* Takes a receive out (cancel, or a match made elsewhere); it must be posted. */
void msg_match_withdraw(struct msg_matcher *matcher, struct msg_request *request);
/* The posted receive that an arriving message takes, withdrawn; NULL: none. */
struct msg_request *msg_match_arrival(struct msg_matcher *matcher,
                                      const struct msg_envelope *envelope);
/* The posted receive with the lowest stamp above `stamp` (0: the first), not withdrawn. Linear in
 * the distance to the last answer, so in constant time for one after the other. */
struct msg_request *msg_match_next_posted(const struct msg_matcher *matcher, uint64_t stamp);

/* The oldest unexpected message that fits, left in place; NULL: none. */
struct msg_unexpected *msg_match_find(const struct msg_matcher *matcher, uint32_t context,
                                      int32_t from, int32_t tag);
/* Stores an envelope, without bytes and as UNEXPECTED_WHOLE; NULL: the pool of headers is full. May
 * grow the bins. */
struct msg_unexpected *msg_match_add(struct msg_matcher *matcher,
                                     const struct msg_envelope *envelope);
/* Whether a message with that many bytes to store would fit now, envelope and cells: then add and
 * stores that sum up to `bytes` succeed, but for the system's own lack of memory. */
bool msg_match_has_room(const struct msg_matcher *matcher, uint64_t bytes);
/* The same for `messages` with that many bytes each (exact where the limits add up to the budget,
 * and up to a quarter of the pool of headers, which bins leave free). */
bool msg_match_has_room_for(const struct msg_matcher *matcher, uint64_t messages, uint64_t bytes);
/* Appends bytes to a message's cells; 0 or -ENOBUFS (nothing appended). */
int msg_match_store(struct msg_matcher *matcher, struct msg_unexpected *message, const void *from,
                    uint64_t bytes);
/* Takes it off the lists so that nobody else finds it (it still owns envelope and cells). */
void msg_match_take(struct msg_matcher *matcher, struct msg_unexpected *message);
/* Walks the stored bytes: piece after piece; *cell is 0 at first, and 0 again with the last piece:
 *     uint32_t cell = 0;
 *     do
 *         bytes = msg_match_piece(matcher, message, &cell, &piece);
 *     while (cell);
 * Returns the piece's bytes; 0 (and a NULL piece) only where nothing is stored. */
uint64_t msg_match_piece(const struct msg_matcher *matcher, const struct msg_unexpected *message,
                         uint32_t *cell, const void **piece);
/* Drops the cells only (their bytes were consumed; `stored` is 0 then), or message and cells; taken
 * ones only. In constant time. */
void msg_match_drop_bytes(struct msg_matcher *matcher, struct msg_unexpected *message);
void msg_match_drop(struct msg_matcher *matcher, struct msg_unexpected *message);

#endif
