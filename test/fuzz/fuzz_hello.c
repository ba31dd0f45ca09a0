// SPDX-License-Identifier: Apache-2.0
// Both ends of the hello, each against a partner that mostly keeps to it.
//
// Algorithm: the input is a program. A step feeds raw bytes, or a frame that an honest partner
// makes at this point, whole, in pieces, or with a byte changed. Advantage: a fuzzer cannot guess a
// MAC, so honest frames bring it behind the proof. Disadvantage: one key and one pair of nonces.

#include "core/hello.h"

#include "leat/leat.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD "leat 0.1.0 layout 1"
#define STEPS 64

static void demand(bool holds)
{
    if (!holds)
        abort();
}

struct input {
    const uint8_t *data;
    size_t left;
};

static uint8_t take(struct input *input)
{
    if (!input->left)
        return 0;
    input->left--;
    return *input->data++;
}

struct target {
    struct hello_channel tried, partner;
    bool changed;    /* something of what was fed is not what the partner made */
    bool over;       /* an error has ended the connection */
    int frames_said; /* by the partner, in the handshake */
};

static const struct hello_key key = {.text = "0123456789abcdef", .bytes = 16};
static const struct hello_claim claim = {.build = BUILD, .rank = 3, .size = 8, .host = {1, 2, 3}};
static const uint8_t nonce[2][HELLO_NONCE_BYTES] = {{1}, {2}};

static void check_event(const struct target *target, const struct hello_event *event)
{
    const struct hello_channel *tried = &target->tried;
    demand(event->kind < HELLO_KINDS);
    demand(memchr(event->text, 0, sizeof event->text) &&
           memchr(event->seat, 0, sizeof event->seat));
    demand(memchr(tried->claim.build, 0, sizeof tried->claim.build) != NULL);
    for (const char *at = event->text; *at; at++)
        demand((unsigned char)*at >= ' ');
    demand(event->end <= END_DIED);
    // Nobody gets in who has not shown the key, and nothing is sealed that was changed.
    if (tried->proven && tried->received > 0)
        demand(!target->changed || event->kind == HELLO_NONE);
}

// What comes after the tried end has accepted a frame.
static void go_on(struct target *target, const struct hello_event *event)
{
    struct hello_frame frame;
    struct hello_event heard;
    size_t used;
    switch (event->kind) {
    case HELLO_HELLO:
        hello_make_challenge(&target->tried, &key, BUILD, nonce[1], &frame);
        // The partner has said this hello, unless the fuzzer has.
        if (hello_take(&target->partner, &key, BUILD, frame.byte, frame.bytes, &used, &heard))
            target->frames_said = -1;
        break;
    case HELLO_PROOF:
        demand(target->tried.root && target->tried.proven && !target->changed);
        break;
    case HELLO_CHALLENGE:
        demand(!target->tried.root && !target->changed);
        hello_make_proof(&target->tried, &key, &frame);
        if (hello_take(&target->partner, &key, BUILD, frame.byte, frame.bytes, &used, &heard))
            abort();
        break;
    case HELLO_REFUSED:
        target->over = true; // whoever is refused goes, as does who is lied to
        break;
    default:
        break;
    }
}

static void feed(struct target *target, const uint8_t *bytes, size_t count)
{
    // The exact size lets a sanitizer see a read beyond it.
    uint8_t *exact = malloc(count ? count : 1);
    demand(exact != NULL);
    memcpy(exact, bytes, count);
    for (size_t at = 0, used; at < count && !target->over; at += used) {
        struct hello_event event;
        int error = hello_take(&target->tried, &key, BUILD, exact + at, count - at, &used, &event);
        demand(used <= count - at && (used > 0 || error));
        target->over = error != 0;
        if (error)
            demand(*leat_error_detail() != 0);
        else {
            check_event(target, &event);
            go_on(target, &event);
        }
    }
    free(exact);
}

// The partner's next frame at this point; no bytes where it has none.
static void honest(struct target *target, struct input *input, struct hello_frame *frame)
{
    struct hello_event event = {.kind = HELLO_NONE};
    frame->bytes = 0;
    if (target->tried.root && target->frames_said == 0) {
        hello_make(&target->partner, &claim, nonce[0], frame);
    } else if (!target->tried.root && target->frames_said == 0) {
        struct hello_frame hello = target->tried.hello;
        size_t used;
        if (hello_take(&target->partner, &key, BUILD, hello.byte, hello.bytes, &used, &event))
            abort();
        hello_make_challenge(&target->partner, &key, BUILD, nonce[1], frame);
    } else if (target->tried.root && target->frames_said == 1 && target->partner.challenge.bytes) {
        hello_make_proof(&target->partner, &key, frame);
    } else if (target->partner.proven) {
        static const enum hello_kind by_root[] = {HELLO_LEAD, HELLO_FOLLOW,  HELLO_START,
                                                  HELLO_GONE, HELLO_REFUSED, HELLO_CARD};
        static const enum hello_kind by_rank[] = {HELLO_SEAT, HELLO_READY, HELLO_LEAVE, HELLO_CARD,
                                                  HELLO_ASK};
        event.kind = target->tried.root ? by_rank[take(input) % 5] : by_root[take(input) % 6];
        event.rank = take(input);
        event.end = take(input) % (END_DIED + 1);
        size_t length = take(input);
        for (size_t i = 0; i < length; i++)
            event.text[i] = (char)take(input);
        memset(event.seat, 'a', HELLO_SEAT_BYTES);
        hello_say(&target->partner, &event, frame);
    }
    target->frames_said += target->frames_said >= 0 && frame->bytes > 0;
}

static void one_step(struct target *target, struct input *input)
{
    uint8_t how = take(input), bytes[256];
    struct hello_frame frame;
    if (how % 4 == 0) {
        size_t count = take(input);
        for (size_t i = 0; i < count; i++)
            bytes[i] = take(input);
        target->changed |= count > 0;
        feed(target, bytes, count);
        return;
    }
    honest(target, input, &frame);
    if (how % 4 == 1 && frame.bytes) {
        uint8_t change = take(input);
        frame.byte[(take(input) + 256u * (take(input) & 1)) % frame.bytes] ^= change;
        target->changed |= change != 0;
    }
    size_t cut = how % 4 == 2 && frame.bytes ? take(input) % frame.bytes : 0;
    feed(target, frame.byte, cut);
    feed(target, frame.byte + cut, frame.bytes - cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct target target = {0};
    struct hello_frame frame;
    bool root = take(&input) & 1;
    if (root) {
        target.tried = (struct hello_channel){.root = true, .expected = HELLO_HELLO};
    } else {
        hello_make(&target.tried, &claim, nonce[0], &frame);
        target.partner = (struct hello_channel){.root = true, .expected = HELLO_HELLO};
    }
    for (int i = 0; i < STEPS && input.left && !target.over; i++)
        one_step(&target, &input);
    return 0;
}
