// SPDX-License-Identifier: Apache-2.0
// Frames between ranks and the root: making, checking, and their order; see hello.h.
//
// Algorithm: a frame begins with "leat", the wire version, its kind and its length. Before the
// proof a kind has one length and one place in the order, so the header alone tells what is wrong.
// Numbers are big-endian. Advantage: eight bytes of garbage are enough to hang up on.
// Disadvantage: lengths are fixed, so any new member is a new wire version.

#include "core/hello.h"

#include "core/error.h"

#include <errno.h>
#include <string.h>

#define HEADER 8

static const char magic[4] = {'l', 'e', 'a', 't'};

// Payload bytes by kind; texts may be shorter.
static const size_t payload_bytes[HELLO_KINDS] = {
    [HELLO_HELLO] = HELLO_BUILD_BYTES + 8 + HELLO_HOST_BYTES + HELLO_NONCE_BYTES,
    [HELLO_CHALLENGE] = HELLO_BUILD_BYTES + HELLO_NONCE_BYTES + MAC_BYTES,
    [HELLO_PROOF] = MAC_BYTES,
    [HELLO_LEAD] = HELLO_JOB_BYTES,
    [HELLO_FOLLOW] = HELLO_JOB_BYTES + HELLO_SEAT_BYTES,
    [HELLO_SEAT] = HELLO_SEAT_BYTES,
    [HELLO_REFUSED] = HELLO_TEXT_BYTES,
    [HELLO_LEAVE] = 4 + HELLO_TEXT_BYTES,
    [HELLO_GONE] = 8 + HELLO_TEXT_BYTES,
    [HELLO_CARD] = 4 + HELLO_TEXT_BYTES,
    [HELLO_ASK] = 4,
};

_Static_assert(HEADER + 8 + HELLO_TEXT_BYTES + MAC_BYTES <= HELLO_FRAME_BYTES, "frames fit");

static void put_number(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint32_t number_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool has_text(enum hello_kind kind)
{
    return kind == HELLO_REFUSED || kind == HELLO_LEAVE || kind == HELLO_GONE || kind == HELLO_CARD;
}

static uint8_t *begin_frame(struct hello_frame *frame, enum hello_kind kind, size_t payload)
{
    memset(frame->byte, 0, sizeof frame->byte);
    memcpy(frame->byte, magic, sizeof magic);
    frame->byte[4] = HELLO_WIRE;
    frame->byte[5] = (uint8_t)kind;
    frame->bytes = HEADER + payload;
    put_number(frame->byte + 6, frame->bytes, 2);
    return frame->byte + HEADER;
}

static size_t text_length(const char *text, size_t most)
{
    const char *end = memchr(text, 0, most);
    return end ? (size_t)(end - text) : most;
}

// ---- Proofs ----

// Each MAC begins with what it is for, so that none can stand for another.
static void proof_of(const struct hello_channel *channel, const struct hello_key *key,
                     const char *purpose, size_t challenge_bytes, uint8_t mac[MAC_BYTES])
{
    const struct mac_piece pieces[] = {{purpose, strlen(purpose) + 1},
                                       {channel->hello.byte, channel->hello.bytes},
                                       {channel->challenge.byte, challenge_bytes}};
    leat_mac(key->text, key->bytes, pieces, 3, mac);
}

#define UNSIGNED_CHALLENGE (HEADER + HELLO_BUILD_BYTES + HELLO_NONCE_BYTES)

static void seal_of(const struct hello_channel *channel, bool by_root, uint64_t count,
                    const uint8_t *frame, size_t bytes, uint8_t mac[MAC_BYTES])
{
    uint8_t order[9] = {by_root};
    put_number(order + 1, count, 8);
    const struct mac_piece pieces[] = {{order, sizeof order}, {frame, bytes}};
    leat_mac(channel->session, MAC_BYTES, pieces, 2, mac);
}

void hello_make(struct hello_channel *channel, const struct hello_claim *claim,
                const uint8_t nonce[HELLO_NONCE_BYTES], struct hello_frame *frame)
{
    *channel = (struct hello_channel){.claim = *claim, .expected = HELLO_CHALLENGE};
    uint8_t *at = begin_frame(&channel->hello, HELLO_HELLO, payload_bytes[HELLO_HELLO]);
    memcpy(at, claim->build, text_length(claim->build, HELLO_BUILD_BYTES));
    at += HELLO_BUILD_BYTES;
    put_number(at, claim->rank, 4);
    put_number(at + 4, claim->size, 4);
    memcpy(at + 8, claim->host, HELLO_HOST_BYTES);
    memcpy(at + 8 + HELLO_HOST_BYTES, nonce, HELLO_NONCE_BYTES);
    *frame = channel->hello;
}

void hello_make_challenge(struct hello_channel *channel, const struct hello_key *key,
                          const char *build, const uint8_t nonce[HELLO_NONCE_BYTES],
                          struct hello_frame *frame)
{
    struct hello_frame *made = &channel->challenge;
    uint8_t *at = begin_frame(made, HELLO_CHALLENGE, payload_bytes[HELLO_CHALLENGE]);
    memcpy(at, build, text_length(build, HELLO_BUILD_BYTES));
    memcpy(at + HELLO_BUILD_BYTES, nonce, HELLO_NONCE_BYTES);
    proof_of(channel, key, "leat root", UNSIGNED_CHALLENGE, made->byte + UNSIGNED_CHALLENGE);
    channel->expected = HELLO_PROOF;
    *frame = *made;
}

static void begin_session(struct hello_channel *channel, const struct hello_key *key)
{
    proof_of(channel, key, "leat session", channel->challenge.bytes, channel->session);
    channel->proven = true;
    channel->expected = HELLO_NONE;
}

void hello_make_proof(struct hello_channel *channel, const struct hello_key *key,
                      struct hello_frame *frame)
{
    uint8_t *at = begin_frame(frame, HELLO_PROOF, MAC_BYTES);
    proof_of(channel, key, "leat rank", channel->challenge.bytes, at);
    begin_session(channel, key);
}

void hello_say(struct hello_channel *channel, const struct hello_event *event,
               struct hello_frame *frame)
{
    size_t text = has_text(event->kind) ? text_length(event->text, HELLO_TEXT_BYTES) : 0;
    size_t payload = payload_bytes[event->kind];
    uint8_t *at = begin_frame(frame, event->kind,
                              has_text(event->kind) ? payload - HELLO_TEXT_BYTES + text : payload);
    switch (event->kind) {
    case HELLO_LEAD:
        memcpy(at, event->job, HELLO_JOB_BYTES);
        break;
    case HELLO_FOLLOW:
        memcpy(at, event->job, HELLO_JOB_BYTES);
        memcpy(at + HELLO_JOB_BYTES, event->seat, HELLO_SEAT_BYTES);
        break;
    case HELLO_SEAT:
        memcpy(at, event->seat, HELLO_SEAT_BYTES);
        break;
    case HELLO_ASK:
        put_number(at, event->rank, 4);
        break;
    case HELLO_CARD:
        put_number(at, event->rank, 4);
        memcpy(at + 4, event->text, text);
        break;
    case HELLO_GONE:
        put_number(at, event->rank, 4);
        at += 4;
        // fall through
    case HELLO_LEAVE:
        put_number(at, event->end, 4);
        at += 4;
        // fall through
    case HELLO_REFUSED:
        memcpy(at, event->text, text);
        break;
    default:
        break;
    }
    if (!channel->proven)
        return;
    size_t bytes = frame->bytes;
    frame->bytes += MAC_BYTES;
    put_number(frame->byte + 6, frame->bytes, 2);
    seal_of(channel, channel->root, channel->sent++, frame->byte, bytes, frame->byte + bytes);
}

const char *hello_verb(uint32_t end)
{
    // The text of one that has died is a sentence of its own.
    return end == END_DIED ? "" : end == END_FAILED ? "failed: " : "has left";
}

// ---- Taking ----

static int other_wire(unsigned wire, const char *build)
{
    return leat_fail(-EPROTO,
                     "it speaks version %u of the hello and this program (\"%s\") version %d; "
                     "start all ranks from the same installation",
                     wire, build, HELLO_WIRE);
}

static bool may_say(const struct hello_channel *channel, enum hello_kind kind)
{
    if (!channel->proven)
        return kind == channel->expected || (!channel->root && kind == HELLO_REFUSED);
    bool by_root = kind == HELLO_LEAD || kind == HELLO_FOLLOW || kind == HELLO_START ||
                   kind == HELLO_GONE || kind == HELLO_REFUSED || kind == HELLO_CARD;
    bool by_rank = kind == HELLO_SEAT || kind == HELLO_READY || kind == HELLO_LEAVE ||
                   kind == HELLO_CARD || kind == HELLO_ASK;
    return channel->root ? by_rank : by_root;
}

// What the first bytes already say.
static int check_header(const struct hello_channel *channel, const char *build, size_t *bytes)
{
    const uint8_t *byte = channel->in.byte;
    size_t have = channel->in.bytes;
    if (memcmp(byte, magic, have < sizeof magic ? have : sizeof magic) != 0)
        return leat_fail(-EPROTO, "%s",
                         channel->root || channel->proven
                             ? "what it sent is no hello of leat"
                             : "something else than leat answers at this address; choose another "
                               "port");
    if (have > 4 && byte[4] != HELLO_WIRE)
        return other_wire(byte[4], build);
    if (have > 5 && (byte[5] >= HELLO_KINDS || !may_say(channel, (enum hello_kind)byte[5])))
        return leat_fail(-EPROTO, "it sent a frame of kind %u, which nobody says at this point",
                         byte[5]);
    *bytes = HEADER;
    if (have < HEADER)
        return 0;
    enum hello_kind kind = (enum hello_kind)byte[5];
    size_t length = (size_t)byte[6] << 8 | byte[7];
    size_t most = HEADER + payload_bytes[kind] + (channel->proven ? MAC_BYTES : 0);
    size_t least = most - (has_text(kind) ? HELLO_TEXT_BYTES : 0);
    if (length < least || length > most)
        return leat_fail(-EPROTO, "it sent a frame of kind %u with %zu bytes, not %zu to %zu",
                         byte[5], length, least, most);
    *bytes = length;
    return 0;
}

static int check_build(const char *theirs, const char *ours, const char *who)
{
    if (!strncmp(theirs, ours, HELLO_BUILD_BYTES))
        return 0;
    return leat_fail(-EPROTO,
                     "%s is \"%.*s\" and this program is \"%s\"; start all ranks from the same "
                     "installation",
                     who, HELLO_BUILD_BYTES, theirs, ours);
}

// A build id is printed, so it is made printable first.
static void take_build(char build[HELLO_BUILD_BYTES], const uint8_t *from)
{
    memcpy(build, from, HELLO_BUILD_BYTES);
    build[HELLO_BUILD_BYTES - 1] = 0;
    for (char *at = build; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

static int take_hello(struct hello_channel *channel, const char *build)
{
    const uint8_t *at = channel->in.byte + HEADER;
    channel->hello = channel->in;
    take_build(channel->claim.build, at);
    at += HELLO_BUILD_BYTES;
    channel->claim.rank = number_at(at);
    channel->claim.size = number_at(at + 4);
    memcpy(channel->claim.host, at + 8, HELLO_HOST_BYTES);
    return check_build(channel->claim.build, build, "the rank");
}

static int take_challenge(struct hello_channel *channel, const struct hello_key *key,
                          const char *build)
{
    char theirs[HELLO_BUILD_BYTES];
    uint8_t mac[MAC_BYTES];
    channel->challenge = channel->in;
    take_build(theirs, channel->in.byte + HEADER);
    int error = check_build(theirs, build, "the root");
    if (error)
        return error;
    proof_of(channel, key, "leat root", UNSIGNED_CHALLENGE, mac);
    if (!leat_mac_equal(mac, channel->in.byte + UNSIGNED_CHALLENGE))
        return leat_fail(-EACCES, "the root does not have the key that this rank has; give all "
                                  "ranks of the job the same LEAT_JOB_KEY");
    return 0;
}

static int take_proof(struct hello_channel *channel, const struct hello_key *key)
{
    uint8_t mac[MAC_BYTES];
    proof_of(channel, key, "leat rank", channel->challenge.bytes, mac);
    if (!leat_mac_equal(mac, channel->in.byte + HEADER))
        return leat_fail(-EACCES, "it does not have this job's key (LEAT_JOB_KEY)");
    begin_session(channel, key);
    return 0;
}

static int take_text(const uint8_t *from, size_t bytes, struct hello_event *event)
{
    if (bytes > HELLO_TEXT_BYTES)
        return leat_fail(-EPROTO, "it sent a text of %zu bytes", bytes);
    memcpy(event->text, from, bytes);
    event->text[bytes] = 0;
    // It is printed.
    for (char *at = event->text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return 0;
}

static int take_other(struct hello_channel *channel, struct hello_event *event)
{
    const uint8_t *at = channel->in.byte + HEADER;
    const uint8_t *end = channel->in.byte + channel->in.bytes;
    if (channel->proven) {
        uint8_t mac[MAC_BYTES];
        end -= MAC_BYTES;
        seal_of(channel, !channel->root, channel->received++, channel->in.byte,
                channel->in.bytes - MAC_BYTES, mac);
        if (!leat_mac_equal(mac, end))
            return leat_fail(-EACCES, "a frame of kind %u was changed on its way",
                             channel->in.byte[5]);
    }
    if (event->kind == HELLO_LEAD || event->kind == HELLO_FOLLOW) {
        memcpy(event->job, at, HELLO_JOB_BYTES);
        at += HELLO_JOB_BYTES;
    }
    if (event->kind == HELLO_FOLLOW || event->kind == HELLO_SEAT)
        memcpy(event->seat, at, HELLO_SEAT_BYTES);
    if (event->kind == HELLO_GONE || event->kind == HELLO_CARD || event->kind == HELLO_ASK) {
        event->rank = number_at(at);
        at += 4;
    }
    if (event->kind == HELLO_GONE || event->kind == HELLO_LEAVE) {
        event->end = number_at(at);
        at += 4;
        if (event->end > END_DIED)
            return leat_fail(-EPROTO, "it says that a rank ended in way %u", event->end);
    }
    return has_text(event->kind) ? take_text(at, (size_t)(end - at), event) : 0;
}

static int take_frame(struct hello_channel *channel, const struct hello_key *key, const char *build,
                      struct hello_event *event)
{
    event->kind = (enum hello_kind)channel->in.byte[5];
    switch (event->kind) {
    case HELLO_HELLO:
        return take_hello(channel, build);
    case HELLO_CHALLENGE:
        return take_challenge(channel, key, build);
    case HELLO_PROOF:
        return take_proof(channel, key);
    default:
        return take_other(channel, event);
    }
}

int hello_take(struct hello_channel *channel, const struct hello_key *key, const char *build,
               const uint8_t *bytes, size_t count, size_t *used, struct hello_event *event)
{
    struct hello_frame *in = &channel->in;
    *event = (struct hello_event){.kind = HELLO_NONE};
    *used = 0;
    while (*used < count) {
        size_t wanted = HEADER;
        in->byte[in->bytes++] = bytes[(*used)++];
        int error = check_header(channel, build, &wanted);
        if (error)
            return error;
        if (in->bytes < HEADER || in->bytes < wanted)
            continue;
        error = take_frame(channel, key, build, event);
        in->bytes = 0;
        return error;
    }
    return 0;
}
