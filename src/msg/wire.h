/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels: one header for ring slots and for packets of the shared receive queue.
 *
 * A ring slot is 128 bytes: the header, then up to 96 bytes of payload; more payload of the same
 * message lies in the ring's bulk area, contiguous. A packet is the header and up to 480 bytes.
 * Numbers are in host order: all ranks run the same build (checked when a job is joined). What a
 * header says is checked once, where it is read (msg_ring_fault, msg_queue_packet, and for tokens
 * the network's map, get and put), before it is used as an offset, a length or a place: what cannot
 * be ends the peer with -EPROTO (msg_peer_nonsense). What merely comes too late, or at the wrong
 * time, names nothing and is passed over. A peer that changes a slot after it has published it is
 * not guarded against: whoever does that can write to this rank's memory anyway.
 */
#ifndef LEAT_MSG_WIRE_H
#define LEAT_MSG_WIRE_H

#include "msg/net.h"

enum msg_wire_kind {
    WIRE_NONE,
    /* Messages, in order; by ring or by queue. */
    WIRE_EAGER,    /* payload: the message, or its first fragment */
    WIRE_MORE,     /* ring only: the next fragment of the message before it */
    WIRE_ANNOUNCE, /* rendezvous: handle, then a token as payload */
    WIRE_END,      /* ring only: the ring's last slot */
    WIRE_TAKEN,    /* ring only, written by the receiver: its message was received out of turn */
    /* Control, by queue only. */
    WIRE_ACCEPT,  /* messages before `sequence` were accepted */
    WIRE_REJECT,  /* so, and those from it on were not: hold them back */
    WIRE_RESUME,  /* send them */
    WIRE_GRANT,   /* here is a ring (token) */
    WIRE_SWITCH,  /* from here on by ring; credit words are at token */
    WIRE_REVOKE,  /* end the ring */
    WIRE_ENDED,   /* its END has been read */
    WIRE_CREDIT,  /* read so far: `bytes` slots, bytes of the bulk area as payload (unmapped) */
    WIRE_CLEAR,   /* rendezvous: the receive's handle, a pipe or memory (token) to write to */
    WIRE_FINISH,  /* rendezvous: handle is finished; bytes: moved by the writer of this */
    WIRE_MATCHED, /* synchronous send `handle` was matched */
    WIRE_HOLDING, /* the sender itself holds messages back */
    WIRE_FIND,    /* have you a message for (context, tag)? `sequence`: what was read so far */
    WIRE_FOUND,   /* yes, kept for you; tag and bytes */
    WIRE_ABSENT,  /* no; a message that comes later is told by LOOK */
    WIRE_BEHIND,  /* read up to `sequence` first */
    WIRE_TAKE,    /* send what was found: `handle` is the receive's */
    WIRE_LEAVE,   /* it is not wanted any more */
    WIRE_LOOK,    /* a message came that FIND did not see */
    WIRE_GIVEN,   /* the answer to TAKE: like ANNOUNCE, or with the message as payload */
    WIRE_BROKEN,  /* collectives of `context` fail from number `bytes` on, with error `tag`, because
                     of the job's rank `handle`; flag LEFT: and the sender reads none of them */
    WIRE_AGREE,   /* survivors.c: flags say what, the payload is a proposal */
    WIRE_ASK,     /* do you stand still? wave `sequence` of a search for a deadlock */
    WIRE_QUIET,   /* yes, and all below this rank; a report as payload (deadlock.c) */
    WIRE_DEADLOCK, /* so do all; the report of all as payload */
    WIRE_KINDS
};

enum msg_wire_flags {
    WIRE_SYNCHRONOUS = 1, /* tell the sender of the match */
    WIRE_BULK = 2,        /* ring: the payload is in the bulk area; its offset is the payload */
    WIRE_LEFT = 8,        /* BROKEN: see there */
    WIRE_PIPE = 4,        /* CLEAR: token is a pipe, not the receive's memory */
    WIRE_STAGED = 16, /* so, of pinned fragments: `sequence` bytes each, `tag` says which pipe */
    WIRE_FAR = 32 /* so, but the receiver reads the fragments: `context` bytes each, `sequence` were
                     read, `tag` is the offset of the pipe's head in the token's memory */
};

struct msg_header {
    uint32_t flag;    /* ring: the slot's number + 1, written last; queue: the source rank */
    uint8_t kind;     /* enum msg_wire_kind */
    uint8_t flags;    /* enum msg_wire_flags */
    uint16_t payload; /* bytes that follow, here or in the bulk area */
    uint32_t context;
    int32_t tag;
    uint64_t bytes;    /* of the whole message */
    uint32_t handle;   /* of who sends this, or as the kind says */
    uint32_t sequence; /* queue: number of the message; or as the kind says */
};

_Static_assert(sizeof(struct msg_header) == 32, "the header is half a line");

#define MSG_SLOT_BYTES     128
#define MSG_SLOT_PAYLOAD   (MSG_SLOT_BYTES - sizeof(struct msg_header))
#define MSG_PACKET_PAYLOAD (MSG_PACKET_BYTES - sizeof(struct msg_header))

struct msg_slot {
    struct msg_header header;
    uint8_t payload[MSG_SLOT_PAYLOAD];
};

struct msg_packet {
    struct msg_header header;
    uint8_t payload[MSG_PACKET_PAYLOAD];
};

#endif
