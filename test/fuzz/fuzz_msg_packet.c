// SPDX-License-Identifier: Apache-2.0
// Fuzz target: one message engine among four ranks that say and write whatever the input says:
// packets, slots of the rings and fragments of the pipes that it has given out, shared words,
// tokens, handles; and that die.
//
// The input is a program: calls of the engine's own user, packets (raw, or with fields that are
// nearly right), stores to memory that the engine lets others reach, honest answers to what it has
// said last. Advantage: honest answers lead deep into the protocol, where a wrong word is worth
// more. Disadvantage: messages between two engines are not the subject here (test_msg_engine.c).

#include "msg/internal.h"

// Fuzz targets are linked with the library alone.
#include "support/memory_events.c"
#include "support/memory_net.c"
#include "support/memory_tokens.c"

#define RANKS    5 /* a rank that has said what cannot be is heard no more */
#define STEPS    300
#define REQUESTS 16
#define LARGEST  40000
#define MEMORY   8192 /* of each of the others, that tokens can name */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

struct user_call {
    leat_request request;
    char *memory; // of exactly that size
    bool begun;
};

struct target {
    struct memory_fabric *fabric;
    struct msg_net *other[RANKS];
    struct msg_engine *engine;
    leat_comm comm;
    struct user_call call[REQUESTS];
    struct msg_packet heard[RANKS]; // what the engine said to each of them last
    struct msg_token token[RANKS];  // memory of theirs, and the last token heard
    struct msg_token heard_token[RANKS];
    void *memory[RANKS];
    bool dead[RANKS];
    uint32_t next_sequence[RANKS];
    uint64_t now_ns;
};

static void demand(bool holds)
{
    if (!holds)
        abort();
}

// ---- reading the program ----

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t word = 0;
    if (bytes > input->left)
        bytes = input->left;
    memcpy(&word, input->at, bytes);
    input->at += bytes;
    input->left -= bytes;
    return word;
}

static uint32_t below(struct input *input, uint32_t bound)
{
    return (uint32_t)take(input, bound > 256 ? 2 : 1) % bound;
}

// ---- the engine's user ----

static struct user_call *fresh_call(struct target *target)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct user_call *call = &target->call[i];
        if (call->begun && !msg_finished(msg_request_of(&call->request)))
            continue;
        free(call->memory);
        *call = (struct user_call){.begun = false};
        return call;
    }
    return NULL;
}

static leat_data room(struct user_call *call, uint64_t bytes)
{
    call->memory = malloc(bytes ? bytes : 1);
    demand(call->memory != NULL);
    memset(call->memory, 0x3c, bytes);
    call->begun = true;
    return (leat_data){.address = call->memory, .bytes = bytes};
}

static void user_calls(struct target *target, struct input *input)
{
    struct user_call *call = fresh_call(target);
    uint32_t what = below(input, 8);
    int rank = (int)below(input, RANKS + 1) - 1, tag = (int)below(input, 4) - 1;
    uint64_t bytes = below(input, 3) ? below(input, 600) : below(input, LARGEST);
    if (!call || (what < 3 && (rank < 0 || tag < 0)))
        return;
    struct msg_request *request = msg_request_of(&call->request);
    if (what < 3) {
        msg_start_send(target->engine, request, &target->comm, 0, room(call, bytes), rank, tag,
                       what == 2);
    } else if (what < 6) {
        msg_start_receive(target->engine, request, &target->comm, 0, room(call, bytes), rank, tag);
    } else if (what == 6) {
        leat_status status;
        if (leat_probe(&target->comm, rank, tag, 0, &status, &call->request) == 0)
            leat_recv_matched(room(call, bytes), NULL, &call->request, 0);
    } else {
        struct user_call *other = &target->call[below(input, REQUESTS)];
        if (other->begun)
            leat_cancel(&other->request);
    }
}

// ---- the others ----

static void listen(struct target *target, int rank)
{
    struct msg_net *net = target->other[rank];
    uint32_t bytes;
    const void *packet = target->dead[rank] ? NULL : net->ops->queue_peek(net, &bytes);
    if (!packet)
        return;
    struct msg_packet *heard = &target->heard[rank];
    memset(heard, 0, sizeof *heard);
    memcpy(heard, packet, bytes);
    net->ops->queue_release(net);
    if (heard->header.payload >= sizeof(struct msg_token))
        memcpy(&target->heard_token[rank], heard->payload, sizeof(struct msg_token));
}

static void say(struct target *target, int rank, const struct msg_packet *packet, uint32_t bytes)
{
    struct msg_net *net = target->other[rank];
    if (bytes && bytes <= MSG_PACKET_BYTES && !target->dead[rank])
        net->ops->queue_send(net, 0, packet, bytes);
}

// Bytes that name nobody's memory, a rank's own, the engine's, or none.
static struct msg_token some_token(struct target *target, struct input *input, int rank)
{
    switch (below(input, 4)) {
    case 0:
        return target->token[rank];
    case 1:
        return target->heard_token[rank];
    case 2:
        return msg_token_none;
    default:
        return (struct msg_token){{take(input, 8), take(input, 8), take(input, 2)}};
    }
}

static void say_raw(struct target *target, struct input *input)
{
    int rank = 1 + (int)below(input, RANKS - 1);
    struct msg_packet packet;
    uint32_t bytes = 1 + below(input, MSG_PACKET_BYTES);
    memset(&packet, 0, sizeof packet);
    for (uint32_t at = 0; at < bytes && input->left; at += 8) {
        uint64_t word = take(input, 8);
        memcpy((char *)&packet + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
    say(target, rank, &packet, bytes);
}

// Fields that are mostly right.
static void say_something(struct target *target, struct input *input)
{
    int rank = 1 + (int)below(input, RANKS - 1);
    const struct msg_header *heard = &target->heard[rank].header;
    struct msg_packet packet;
    memset(&packet, 0, sizeof packet);
    struct msg_header *header = &packet.header;
    header->flag = (uint32_t)rank;
    header->kind = (uint8_t)below(input, WIRE_KINDS + 1);
    uint32_t how = below(input, 256);
    header->flags = how & 1 ? (uint8_t)take(input, 1) : 0;
    header->context = how & 2 ? (uint32_t)take(input, 4) : 0;
    header->tag = how & 4 ? (int32_t)take(input, 4) : (int32_t)below(input, 3);
    header->handle = how & 8 ? (uint32_t)take(input, 4) : heard->handle;
    header->sequence = how & 16 ? (uint32_t)take(input, 4) : target->next_sequence[rank];
    header->bytes = how & 32 ? take(input, 8) : below(input, 481);
    struct msg_token tokens[2] = {some_token(target, input, rank), target->token[rank]};
    memcpy(packet.payload, tokens, sizeof tokens);
    header->payload = (uint16_t)(how & 64 ? sizeof tokens : header->bytes);
    uint32_t bytes = (uint32_t)sizeof *header + (how & 128 ? below(input, 481) : header->payload);
    target->next_sequence[rank] += header->kind == WIRE_EAGER || header->kind == WIRE_ANNOUNCE;
    say(target, rank, &packet, bytes);
}

// What an engine would answer to what was heard last.
static void answer(struct target *target, struct input *input)
{
    int rank = 1 + (int)below(input, RANKS - 1);
    listen(target, rank);
    const struct msg_header *heard = &target->heard[rank].header;
    struct msg_packet packet;
    memset(&packet, 0, sizeof packet);
    struct msg_header *header = &packet.header;
    *header = (struct msg_header){.flag = (uint32_t)rank, .handle = heard->handle};
    memcpy(packet.payload, &target->token[rank], sizeof target->token[rank]);
    uint32_t token = sizeof(struct msg_token);
    switch (heard->kind) {
    case WIRE_EAGER:
    case WIRE_ANNOUNCE:
        header->kind = below(input, 4) ? WIRE_ACCEPT : WIRE_REJECT;
        header->sequence = heard->sequence + (header->kind == WIRE_ACCEPT);
        break;
    case WIRE_GRANT:
        header->kind = below(input, 4) ? WIRE_SWITCH : WIRE_END;
        header->payload = (uint16_t)token;
        break;
    case WIRE_REJECT:
        target->next_sequence[rank] = heard->sequence;
        header->kind = below(input, 2) ? WIRE_HOLDING : WIRE_LOOK;
        break;
    case WIRE_REVOKE:
        header->kind = WIRE_ENDED;
        break;
    case WIRE_FIND:
        header->kind = (uint8_t)(below(input, 3) ? WIRE_FOUND : WIRE_ABSENT + below(input, 2));
        header->context = heard->context;
        header->tag = heard->tag < 0 ? 0 : heard->tag;
        header->bytes = below(input, 1000);
        break;
    case WIRE_TAKE:
        header->kind = WIRE_GIVEN;
        header->sequence = heard->handle;
        header->handle = below(input, 2);
        header->bytes = header->payload = (uint16_t)(header->handle ? token : below(input, 480));
        break;
    default:
        header->kind = WIRE_FINISH;
        break;
    }
    say(target, rank, &packet, (uint32_t)sizeof *header + header->payload);
}

// A large message, or, with the right handle, what wants one of the engine's.
static void rendezvous(struct target *target, struct input *input)
{
    int rank = 1 + (int)below(input, RANKS - 1);
    uint32_t how = below(input, 16);
    struct msg_packet packet;
    memset(&packet, 0, sizeof packet);
    struct msg_header *header = &packet.header;
    *header = (struct msg_header){.flag = (uint32_t)rank,
                                  .kind = how & 1 ? WIRE_ANNOUNCE : WIRE_CLEAR,
                                  .bytes = below(input, MEMORY + 1),
                                  .handle = 1};
    struct msg_token tokens[2] = {target->token[rank], target->token[rank]};
    memcpy(packet.payload, tokens, sizeof tokens);
    if (how & 1) {
        header->payload = sizeof tokens[0];
        header->tag = how >> 1 & 1;
        header->sequence = target->next_sequence[rank]++;
    } else {
        header->payload = sizeof tokens;
        header->flags = how & 2 ? WIRE_PIPE : 0;
        header->handle = target->heard[rank].header.handle;
        header->sequence = how & 2 ? below(input, 4) : 1;
    }
    say(target, rank, &packet, (uint32_t)sizeof *header + header->payload);
}

// Words of the others' own memory that the engine reads: claims of shares, flags of pipes, credits.
static void set_word(struct target *target, struct input *input)
{
    uint64_t *words = target->memory[1 + below(input, RANKS - 1)];
    uint32_t place = below(input, 64), how = below(input, 4);
    words[place] = how == 0   ? take(input, 8)
                   : how == 1 ? UINT64_C(1) << 32 | below(input, 4)
                              : below(input, 20);
}

static void kill(struct target *target, struct input *input)
{
    int rank = 1 + (int)below(input, RANKS - 1);
    if (target->dead[rank] || below(input, 8))
        return;
    memory_fabric_kill(target->fabric, rank);
    target->dead[rank] = true;
    if (below(input, 2))
        msg_check_peers(target->engine);
}

// Stores to memory that the engine has given out: anywhere, or as a slot at a slot's place.
static void scribble(struct target *target, struct input *input)
{
    uint64_t bytes, which = below(input, 8);
    char *memory = memory_fabric_memory(target->fabric, 0, which, &bytes);
    if (!memory || bytes < MSG_SLOT_BYTES)
        return;
    if (below(input, 4) == 0) {
        uint64_t word = below(input, 2) ? take(input, 8) : take(input, 1) << 32;
        uint64_t at = take(input, 2) % (bytes - 7);
        if (below(input, 2))
            at -= at % 8;
        memcpy(memory + at, &word, 8);
        return;
    }
    struct msg_slot slot;
    memset(&slot, 0, sizeof slot);
    uint32_t place = below(input, 4), how = below(input, 256);
    slot.header.kind = (uint8_t)below(input, WIRE_KINDS + 1);
    slot.header.flags = (uint8_t)(how & 1 ? WIRE_BULK : how & 2 ? take(input, 1) : 0);
    slot.header.tag = (int32_t)below(input, 3);
    slot.header.bytes = how & 4 ? take(input, 8) : below(input, 1000);
    slot.header.payload = (uint16_t)(how & 8 ? take(input, 2) : slot.header.bytes);
    slot.header.handle = how & 16 ? (uint32_t)take(input, 4) : 1;
    uint64_t word = how & 32 ? take(input, 8) : below(input, 600);
    memcpy(slot.payload, &word, 8);
    if (how & 64)
        memcpy(slot.payload, &target->token[1], sizeof target->token[1]);
    slot.header.flag = place + 1 + 4 * below(input, 3);
    if ((place + 1) * MSG_SLOT_BYTES <= bytes)
        memcpy(memory + place * MSG_SLOT_BYTES, &slot, sizeof slot);
}

// ---- one run ----

static void move_on(struct target *target, uint32_t rounds)
{
    for (uint32_t n = 0; n <= rounds; n++) {
        target->now_ns += 100;
        msg_progress(target->engine, target->now_ns);
        for (int rank = 1; rank < RANKS; rank++)
            if (!target->dead[rank])
                target->other[rank]->ops->progress(target->other[rank], target->now_ns);
    }
}

static void one_step(struct target *target, struct input *input)
{
    switch (below(input, 12)) {
    case 0:
    case 8:
        user_calls(target, input);
        break;
    case 1:
        say_raw(target, input);
        break;
    case 9:
        rendezvous(target, input);
        break;
    case 10:
        set_word(target, input);
        break;
    case 11:
        kill(target, input);
        break;
    case 2:
    case 3:
        say_something(target, input);
        break;
    case 4:
    case 5:
        answer(target, input);
        break;
    case 6:
        scribble(target, input);
        break;
    default:
        move_on(target, below(input, 4));
        break;
    }
}

static void begin(struct target *target, struct input *input)
{
    uint32_t how = below(input, 256);
    const struct memory_options net = {.rank_count = RANKS,
                                       .seed = 1,
                                       .queue_packets = 12,
                                       .map = how & 1,
                                       .map_exposed = how & 2 ? MEMORY_ALL : MEMORY_NONE,
                                       .finish_later =
                                           how % 2 == 0 && how & 4 ? MEMORY_ALL : MEMORY_NONE,
                                       .no_expose = how & 8 ? MEMORY_ALL : MEMORY_NONE,
                                       .hostile = true};
    const struct msg_tuning tuning = {.budget_bytes = 4 << 20,
                                      .ring_slots = 4,
                                      .ring_bulk_bytes = 1024,
                                      .fragment_bytes = 128,
                                      .eager_bytes = 500,
                                      .direct_bytes = 2000,
                                      .share_bytes = 3000,
                                      .chunk_bytes = 1024,
                                      .pipe_bytes = 4096,
                                      .queue_window = 4,
                                      .promote_after = 2,
                                      .ring_limit = 3,
                                      .handle_limit = 8};
    target->fabric = memory_fabric_new(&net);
    demand(target->fabric != NULL);
    demand(msg_engine_open(memory_fabric_open(target->fabric, 0), &tuning, &target->engine) == 0);
    target->comm = (leat_comm){.engine = target->engine, .rank_count = RANKS};
    for (int rank = 1; rank < RANKS; rank++) {
        target->other[rank] = memory_fabric_open(target->fabric, rank);
        demand(target->other[rank]->ops->alloc(target->other[rank], MEMORY, &target->memory[rank],
                                               &target->token[rank]) == 0);
    }
    if (how & 16) { // no room for what is unexpected
        struct msg_pool *pool = target->engine->pools.pool;
        pool[POOL_HEADERS].limit = pool[POOL_HEADERS].used;
        pool[POOL_BYTES].limit = pool[POOL_BYTES].used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct target *target = calloc(1, sizeof *target);
    demand(target != NULL);
    begin(target, &input);
    for (int n = 0; n < STEPS && input.left; n++)
        one_step(target, &input);
    move_on(target, 20);
    demand(target->engine->pools.peak <= target->engine->tuning.budget_bytes);
    for (int id = 0; id < POOL_COUNT; id++)
        demand(target->engine->pools.pool[id].used <= target->engine->pools.pool[id].limit);
    msg_engine_close(target->engine);
    for (int rank = 1; rank < RANKS; rank++) {
        target->other[rank]->ops->free(target->other[rank], target->memory[rank], MEMORY);
        target->other[rank]->ops->close(target->other[rank]);
    }
    for (int i = 0; i < REQUESTS; i++)
        free(target->call[i].memory);
    memory_fabric_free(target->fabric);
    free(target);
    return 0;
}
