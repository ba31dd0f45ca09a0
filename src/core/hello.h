/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank and the root say to one another: frames, and who may speak when.
 *
 *     rank                                root (rank 0)
 *     HELLO  build, rank, size, host, nonce  >
 *                                         <  CHALLENGE  build, nonce, MAC over both so far
 *     PROOF  MAC over both so far         >
 *     from here on every frame is sealed: a MAC by a key of this connection, over direction,
 *     count and content
 *                                         <  LEAD: make your host's segment | FOLLOW: it is there
 *     SEAT   where the segment is         >
 *     READY  the rank's record is claimed >
 *                                         <  START: all are there
 *     CARD   where the rank is in a network >
 *     ASK    where is another?            >
 *                                         <  CARD: there, once it has said so
 *     LEAVE                               >
 *                                         <  GONE: another rank has left or died
 *                                         <  REFUSED: why not (unsealed before the proof)
 *
 * The key of the job is never sent: each side shows that it has it by a MAC over both sides'
 * nonces, so an old hello proves nothing. Everything here is a function of bytes: no socket, no
 * clock, no chance, so that a fuzzer reaches all of it.
 *
 * Advantage: one small state a connection, of fixed size, whatever a stranger sends.
 * Disadvantage: no secrecy; who listens on the wire learns ranks and host numbers, though no key.
 */
#ifndef LEAT_CORE_HELLO_H
#define LEAT_CORE_HELLO_H

#include "core/hello_mac.h"

#define HELLO_WIRE        1 /* raise on any change below */
#define HELLO_FRAME_BYTES 512
#define HELLO_BUILD_BYTES 48
#define HELLO_HOST_BYTES  16
#define HELLO_NONCE_BYTES 32
#define HELLO_JOB_BYTES   16
#define HELLO_SEAT_BYTES  32
#define HELLO_TEXT_BYTES  400
#define HELLO_KEY_LEAST   16
#define HELLO_KEY_MOST    128

enum hello_kind {
    HELLO_NONE,
    HELLO_HELLO,
    HELLO_CHALLENGE,
    HELLO_PROOF,
    HELLO_REFUSED,
    HELLO_LEAD,
    HELLO_FOLLOW,
    HELLO_SEAT,
    HELLO_READY,
    HELLO_START,
    HELLO_LEAVE,
    HELLO_GONE,
    HELLO_CARD,
    HELLO_ASK,
    HELLO_KINDS
};

/* How a rank went, in GONE and LEAVE. */
enum hello_end { END_LEFT, END_FAILED, END_DIED };

struct hello_key {
    char text[HELLO_KEY_MOST];
    size_t bytes;
};

/* Who a rank says it is; believed once it is proven. */
struct hello_claim {
    char build[HELLO_BUILD_BYTES];
    uint32_t rank, size;
    uint8_t host[HELLO_HOST_BYTES];
};

struct hello_frame {
    size_t bytes;
    uint8_t byte[HELLO_FRAME_BYTES];
};

/* What a frame says, by kind; texts end with a zero. */
struct hello_event {
    enum hello_kind kind;
    uint8_t job[HELLO_JOB_BYTES];    /* LEAD, FOLLOW */
    char seat[HELLO_SEAT_BYTES + 1]; /* SEAT, FOLLOW */
    uint32_t rank, end;              /* GONE; `end` in LEAVE, `rank` in CARD and ASK too */
    char text[HELLO_TEXT_BYTES + 1]; /* GONE, LEAVE, REFUSED, CARD */
};

/* One end of a connection. */
struct hello_channel {
    bool root;                /* this end is the root's */
    bool proven;              /* the other end has shown that it has the key */
    enum hello_kind expected; /* before the proof */
    struct hello_claim claim; /* the rank's */
    struct hello_frame in, hello, challenge;
    uint8_t session[MAC_BYTES];
    uint64_t sent, received; /* sealed frames */
};

/*
 * Takes bytes until one frame is complete; *used says how many. event->kind is HELLO_NONE while
 * more are wanted, HELLO_HELLO when the root may challenge, HELLO_CHALLENGE when the rank may
 * answer, HELLO_PROOF once a rank is proven, and then whatever the other end says.
 *
 * -EPROTO  what no rank or root says, or another wire version or build (both named)
 * -EACCES  the other end does not have this job's key, or a frame was changed on its way
 * After an error the channel takes nothing more.
 */
int hello_take(struct hello_channel *channel, const struct hello_key *key, const char *build,
               const uint8_t *bytes, size_t count, size_t *used, struct hello_event *event);

/* What goes between "rank R " and the text of an end: "failed: ", or all there is to say. */
const char *hello_verb(uint32_t end);

/* Frames of the handshake, in its order. The nonces have to be new and from a generator that
 * nobody can foretell. */
void hello_make(struct hello_channel *channel, const struct hello_claim *claim,
                const uint8_t nonce[HELLO_NONCE_BYTES], struct hello_frame *frame);
void hello_make_challenge(struct hello_channel *channel, const struct hello_key *key,
                          const char *build, const uint8_t nonce[HELLO_NONCE_BYTES],
                          struct hello_frame *frame);
void hello_make_proof(struct hello_channel *channel, const struct hello_key *key,
                      struct hello_frame *frame);
/* Any other one: sealed once proven; before that only REFUSED makes sense. */
void hello_say(struct hello_channel *channel, const struct hello_event *event,
               struct hello_frame *frame);

#endif
