// SPDX-License-Identifier: Apache-2.0
// The matcher against a model of arrays and linear searches: random arrivals, receives, probes,
// matched probes and cancels, with wildcards and pools so small that they are often full.
//
// After each step both have to agree on which receive or message was meant; each message's bytes
// carry its number and are compared when it goes. Whether there was room has to be what the
// matcher foretold. The mix of steps changes, so that receives and messages pile up by turns.

#include "msg/match.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RECEIVES   1024
#define MESSAGES   1024
#define TAKEN      24
#define MOST_BYTES 100000
#define STEPS      200000
#define PHASE      1500

struct setting {
    uint64_t headers_bytes, bytes_bytes, budget_bytes;
    int contexts, sources, tags;
};

static const struct setting settings[] = {
    {24 << 10, 48 << 10, 72 << 10, 3, 4, 5},
    {64 << 10, 20 << 10, 84 << 10, 2, 7, 9},      // bytes are short
    {9 << 10, 200 << 10, 209 << 10, 3, 3, 3},     // envelopes are, and bins cannot grow
    {64 << 10, 64 << 10, 60 << 10, 3, 4, 40},     // neither limit is ever met, the budget is
    {100 << 10, 100 << 10, 200 << 10, 5, 20, 80}, // few match, so bins fill and grow
};

// What the model knows of a message.
struct message {
    struct msg_unexpected *real;
    struct msg_envelope envelope;
    uint64_t serial, stored;
    uint8_t state;
};

struct world {
    const struct setting *setting;
    struct msg_pools pools;
    struct msg_matcher matcher;
    struct msg_request *receive; // [RECEIVES]
    int posted[RECEIVES], posted_count;
    int idle[RECEIVES], idle_count;
    struct message listed[MESSAGES], taken[TAKEN];
    int listed_count, taken_count;
    uint64_t random, serial;
    uint64_t matched, found, full, held, cancelled, grown;
    uint8_t bytes[MOST_BYTES];
};

static uint64_t below(struct world *world, uint64_t bound)
{
    world->random = world->random * 6364136223846793005ull + 1442695040888963407ull;
    return (world->random >> 33) % bound;
}

static uint8_t stamp(uint64_t serial, uint64_t offset)
{
    return (uint8_t)((serial * 2654435761u + offset * 40503u) >> 7);
}

static void open_world(struct world *world, const struct setting *setting, uint64_t seed)
{
    world->setting = setting;
    world->random = seed;
    world->pools = (struct msg_pools){.budget = setting->budget_bytes};
    world->pools.pool[POOL_HEADERS].limit = setting->headers_bytes;
    world->pools.pool[POOL_BYTES].limit = setting->bytes_bytes;
    msg_match_open(&world->matcher, &world->pools);
    world->receive = calloc(RECEIVES, sizeof *world->receive);
    assert_non_null(world->receive);
    for (int i = 0; i < RECEIVES; i++)
        world->idle[world->idle_count++] = i;
}

// ---- The model ------------------------------------------------------------------------------

static bool fits(const struct msg_request *receive, const struct msg_envelope *envelope)
{
    if (receive->context != envelope->context)
        return false;
    if (receive->peer != LEAT_ANY_RANK && receive->peer != envelope->source)
        return false;
    return receive->tag == LEAT_ANY_TAG || receive->tag == envelope->tag;
}

static int model_arrival(const struct world *world, const struct msg_envelope *envelope)
{
    for (int i = 0; i < world->posted_count; i++)
        if (fits(&world->receive[world->posted[i]], envelope))
            return i;
    return -1;
}

static int model_find(const struct world *world, const struct msg_request *receive)
{
    for (int i = 0; i < world->listed_count; i++)
        if (fits(receive, &world->listed[i].envelope))
            return i;
    return -1;
}

static void model_unpost(struct world *world, int at)
{
    world->idle[world->idle_count++] = world->posted[at];
    world->posted_count--;
    memmove(&world->posted[at], &world->posted[at + 1],
            (size_t)(world->posted_count - at) * sizeof *world->posted);
}

static struct message model_unlist(struct world *world, int at)
{
    struct message message = world->listed[at];
    world->listed_count--;
    memmove(&world->listed[at], &world->listed[at + 1],
            (size_t)(world->listed_count - at) * sizeof *world->listed);
    return message;
}

// ---- Messages -------------------------------------------------------------------------------

static void check_message(const struct message *message)
{
    assert_memory_equal(&message->real->envelope, &message->envelope, sizeof message->envelope);
    assert_int_equal(message->real->stored, message->stored);
    assert_int_equal(message->real->state, message->state);
}

static void check_bytes(struct world *world, const struct message *message)
{
    uint32_t cell = 0;
    uint64_t offset = 0;
    do {
        const void *piece = world;
        uint64_t bytes = msg_match_piece(&world->matcher, message->real, &cell, &piece);
        assert_true(bytes <= message->stored - offset);
        assert_true(bytes > 0 || (message->stored == 0 && !piece && !cell));
        for (uint64_t i = 0; i < bytes; i++, offset++)
            if (((const uint8_t *)piece)[i] != stamp(message->serial, offset))
                fail_msg("byte %llu of message %llu", (unsigned long long)offset,
                         (unsigned long long)message->serial);
    } while (cell);
    assert_int_equal(offset, message->stored);
}

// Appends `bytes` of the message's stamps; false where the pool is full.
static bool store(struct world *world, struct message *message, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        world->bytes[i] = stamp(message->serial, message->stored + i);
    int error = msg_match_store(&world->matcher, message->real, world->bytes, bytes);
    if (error) {
        assert_int_equal(error, -ENOBUFS);
        assert_int_equal(message->real->stored, message->stored);
        return false;
    }
    message->stored += bytes;
    return true;
}

static void drop(struct world *world, const struct message *message)
{
    check_message(message);
    check_bytes(world, message);
    if (below(world, 3) == 0) {
        msg_match_drop_bytes(&world->matcher, message->real);
        struct message empty = *message;
        empty.stored = 0;
        check_message(&empty);
        check_bytes(world, &empty);
    }
    msg_match_drop(&world->matcher, message->real);
}

static uint64_t random_bytes(struct world *world)
{
    switch (below(world, 8)) {
    case 0:
        return 0;
    case 1: // about whole cells
        return 124 * (1 + below(world, 12)) - 1 + below(world, 3);
    case 2:
        return below(world, 5000);
    case 3: // often more than there is room for
        return below(world, 20) ? below(world, 300) : below(world, MOST_BYTES);
    default:
        return below(world, 400);
    }
}

// A refusal has to have a reason: a page more, with an array of pages beside its old one, would
// have passed a limit.
static void check_refusal(const struct world *world, uint64_t bytes)
{
    uint64_t spare = 8192 + 16 + 2048, cells = bytes / 124 * 130 + 2 * spare;
    const struct msg_pool *pool = world->pools.pool;
    assert_true(pool[POOL_HEADERS].used + spare > pool[POOL_HEADERS].limit ||
                pool[POOL_BYTES].used + cells > pool[POOL_BYTES].limit ||
                world->pools.used + spare + cells > world->pools.budget);
}

// ---- Steps ----------------------------------------------------------------------------------

static void arrive_unexpected(struct world *world, const struct msg_envelope *envelope, bool remote)
{
    uint64_t bytes = remote ? 0 : envelope->bytes;
    bool room = msg_match_has_room(&world->matcher, bytes);
    struct message message = {.envelope = *envelope, .serial = world->serial++};
    message.real = msg_match_add(&world->matcher, envelope);
    bool stored = message.real != NULL;
    if (stored) {
        message.state = remote ? UNEXPECTED_REMOTE : UNEXPECTED_WHOLE;
        message.real->state = message.state;
    }
    while (stored && message.stored < bytes) {
        uint64_t left = bytes - message.stored;
        stored = store(world, &message, below(world, 2) ? left : 1 + below(world, left));
    }
    assert_int_equal(stored, room);
    if (!stored) {
        check_refusal(world, bytes);
        world->full++;
        if (message.real) {
            check_bytes(world, &message);
            msg_match_take(&world->matcher, message.real);
            msg_match_drop(&world->matcher, message.real);
        }
        return;
    }
    assert_true(world->listed_count < MESSAGES);
    world->listed[world->listed_count++] = message;
}

static void arrive(struct world *world)
{
    bool remote = below(world, 8) == 0;
    struct msg_envelope envelope = {
        .context = (uint32_t)below(world, (uint64_t)world->setting->contexts),
        .source = (int32_t)below(world, (uint64_t)world->setting->sources),
        .tag = (int32_t)below(world, (uint64_t)world->setting->tags),
        .handle = (uint32_t)world->serial,
        .bytes = remote ? 1ull << 40 : random_bytes(world),
        .token = {{world->serial, ~world->serial, 3}},
    };
    int at = model_arrival(world, &envelope);
    struct msg_request *taken = msg_match_arrival(&world->matcher, &envelope);
    if (at < 0) {
        assert_null(taken);
        arrive_unexpected(world, &envelope, remote);
        return;
    }
    assert_ptr_equal(taken, &world->receive[world->posted[at]]);
    model_unpost(world, at);
    world->matched++;
}

static struct msg_request random_receive(struct world *world)
{
    struct msg_request receive = {
        .context = (uint32_t)below(world, (uint64_t)world->setting->contexts),
        .peer = (int32_t)below(world, (uint64_t)world->setting->sources),
        .tag = (int32_t)below(world, (uint64_t)world->setting->tags),
    };
    uint64_t wild = below(world, 16);
    if (wild == 0 || wild == 1)
        receive.peer = LEAT_ANY_RANK;
    if (wild == 0 || wild == 2)
        receive.tag = LEAT_ANY_TAG;
    return receive;
}

// Asks both which message a receive would get; the model's place of it, or -1.
static int find(struct world *world, const struct msg_request *receive)
{
    int at = model_find(world, receive);
    struct msg_unexpected *found =
        msg_match_find(&world->matcher, receive->context, receive->peer, receive->tag);
    if (at < 0) {
        assert_null(found);
        return -1;
    }
    assert_ptr_equal(found, world->listed[at].real);
    check_message(&world->listed[at]);
    world->found++;
    return at;
}

static void receive(struct world *world)
{
    struct msg_request wanted = random_receive(world);
    int at = find(world, &wanted);
    if (at >= 0) {
        struct message message = model_unlist(world, at);
        msg_match_take(&world->matcher, message.real);
        drop(world, &message);
    } else if (world->idle_count > 0) {
        int idle = world->idle[--world->idle_count];
        world->receive[idle] = wanted;
        msg_match_post(&world->matcher, &world->receive[idle]);
        world->posted[world->posted_count++] = idle;
    }
}

static void probe(struct world *world)
{
    struct msg_request wanted = random_receive(world);
    int at = find(world, &wanted);
    if (at < 0 || below(world, 2) || world->taken_count == TAKEN)
        return;
    struct message message = model_unlist(world, at);
    msg_match_take(&world->matcher, message.real);
    world->taken[world->taken_count++] = message;
    world->held++;
}

static void drop_taken(struct world *world)
{
    if (!world->taken_count)
        return;
    int at = (int)below(world, (uint64_t)world->taken_count);
    drop(world, &world->taken[at]);
    world->taken[at] = world->taken[--world->taken_count];
}

static void cancel(struct world *world)
{
    if (!world->posted_count)
        return;
    int at = (int)below(world, (uint64_t)world->posted_count);
    msg_match_withdraw(&world->matcher, &world->receive[world->posted[at]]);
    model_unpost(world, at);
    world->cancelled++;
}

// Another fragment comes for a message that is listed, or was taken already.
static void append(struct world *world)
{
    bool taken = world->taken_count && below(world, 2);
    int count = taken ? world->taken_count : world->listed_count;
    if (!count)
        return;
    struct message *message =
        &(taken ? world->taken : world->listed)[below(world, (uint64_t)count)];
    uint64_t bytes = random_bytes(world);
    uint64_t cells = (message->stored + bytes + 123) / 124 - (message->stored + 123) / 124;
    bool must = cells == 0 || msg_match_has_room(&world->matcher, cells * 124);
    assert_true(store(world, message, bytes) || !must);
    check_bytes(world, message);
}

static void ask_for_the_next_posted(struct world *world)
{
    if (!world->posted_count) {
        assert_null(msg_match_next_posted(&world->matcher, below(world, 1000)));
        return;
    }
    int at = (int)below(world, (uint64_t)world->posted_count);
    const struct msg_request *one = &world->receive[world->posted[at]];
    assert_ptr_equal(msg_match_next_posted(&world->matcher, one->stamp - 1), one);
    const struct msg_request *after =
        at + 1 < world->posted_count ? &world->receive[world->posted[at + 1]] : NULL;
    assert_ptr_equal(msg_match_next_posted(&world->matcher, one->stamp), after);
    assert_ptr_equal(one->next, after);
    assert_ptr_equal(msg_match_next_posted(&world->matcher, 0), &world->receive[world->posted[0]]);
}

static void step(struct world *world, unsigned phase)
{
    // Steps of 16: arrivals, then receives; what is left are the others.
    static const unsigned arrivals[] = {8, 3, 6}, receives[] = {3, 8, 6};
    unsigned kind = (unsigned)below(world, 16), mix = phase % 3;
    if (kind < arrivals[mix])
        arrive(world);
    else if (kind < arrivals[mix] + receives[mix])
        receive(world);
    else if (kind == 15)
        below(world, 2) ? append(world) : ask_for_the_next_posted(world);
    else if (kind == 14)
        cancel(world);
    else if (kind == 13)
        drop_taken(world);
    else
        probe(world);
    assert_int_equal(world->matcher.posted_count, world->posted_count);
    assert_int_equal(world->matcher.unexpected_count, world->listed_count);
    for (int id = 0; id < POOL_COUNT; id++)
        assert_true(world->pools.pool[id].peak <= world->pools.pool[id].limit);
    assert_true(world->pools.peak <= world->pools.budget);
}

// Takes everything out again, in an order that wildcards over all contexts give.
static void drain(struct world *world)
{
    while (world->taken_count)
        drop_taken(world);
    while (world->posted_count)
        cancel(world);
    for (int context = 0; context < world->setting->contexts; context++) {
        struct msg_request any = {
            .context = (uint32_t)context, .peer = LEAT_ANY_RANK, .tag = LEAT_ANY_TAG};
        for (int at; (at = find(world, &any)) >= 0;) {
            struct message message = model_unlist(world, at);
            msg_match_take(&world->matcher, message.real);
            drop(world, &message);
        }
    }
    assert_int_equal(world->listed_count, 0);
    assert_int_equal(world->matcher.headers.live, 0);
    assert_int_equal(world->matcher.cells.live, 0);
}

static void test_a_million_random_steps_agree_with_the_model(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        struct world *world = calloc(1, sizeof *world);
        assert_non_null(world);
        open_world(world, &settings[s], 20 + s);
        for (unsigned i = 0; i < STEPS; i++) {
            step(world, i / PHASE);
            world->grown |= world->matcher.posted_bits > 6 && world->matcher.unexpected_bits > 6;
        }
        // The random steps have to have come to everything that they are for.
        assert_true(world->matched > STEPS / 100);
        assert_true(world->found > STEPS / 100);
        assert_true(world->full > STEPS / 200);
        assert_true(world->held > STEPS / 2000);
        assert_true(world->cancelled > STEPS / 100);
        assert_true(s < 4 || world->grown);
        drain(world);
        msg_match_close(&world->matcher);
        assert_int_equal(world->pools.used, 0);
        assert_int_equal(world->pools.pool[POOL_HEADERS].used, 0);
        assert_int_equal(world->pools.pool[POOL_BYTES].used, 0);
        free(world->receive);
        free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_random_steps_agree_with_the_model),
    };
    return cmocka_run_group_tests_name("msg_match", tests, NULL, NULL);
}
