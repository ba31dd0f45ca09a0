// SPDX-License-Identifier: Apache-2.0
// Fuzz target: what arrives at a rank's service (transport/far.h) while it has operations of its
// own under way.
//
// The input is a program: messages of any bytes, or of a peer with its right cookie and fields that
// are nearly right, among them answers to what was asked; operations; sends that end well, badly or
// not yet. Advantage: a fuzzer cannot guess a MAC or a generation, so both are given to it.
// Disadvantage: the service's thread does not run, so one order of events an input.

#ifndef LEAT_HAVE_FABRIC
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}
#else

#include "fuzz/fake_service.h"

#include <stdio.h>

enum { RANKS = 5, STEPS = 200, REGION_BYTES = 4096, OPERATIONS = 12, MOST_BYTES = 200000 };

struct target {
    leat_job *jobs[RANKS];
    struct fake_endpoint fake;
    struct far far;
    uint8_t cookie[RANKS][FAR_COOKIE_BYTES];
    leat_region *region[2];
    struct region_key key[2];
    void *memory;
    struct far_operation operation[OPERATIONS];
    bool begun[OPERATIONS];
};

static void make_regions(struct target *target)
{
    leat_job *job = target->jobs[0];
    leat_region_options options = {.size = sizeof options, .bytes = REGION_BYTES, .name = "named"};
    target->memory = calloc(1, REGION_BYTES);
    fake_demand(target->memory && !leat_region_alloc(job, &options, &target->region[0]));
    options.name = NULL;
    options.address = target->memory;
    fake_demand(!leat_region_register(job, &options, &target->region[1]));
    for (int i = 0; i < 2; i++)
        target->key[i] = leat_region_key(target->region[i]);
}

static void begin(struct target *target)
{
    const leat_options options = {
        .size = sizeof options, .thread_ranks = RANKS, .arena_bytes = 16 << 20};
    fake_demand(leat_open(&options, target->jobs) == 0);
    make_regions(target);
    struct far *far = &target->far;
    fake_service_open(far, &target->fake, target->jobs[0]);
    for (int rank = 1; rank < RANKS; rank++)
        memcpy(target->cookie[rank], far->peer[rank]->from, FAR_COOKIE_BYTES);
}

static void end(struct target *target)
{
    struct far *far = &target->far;
    for (int rank = 1; rank < RANKS; rank++)
        far_peer_lose(far, far->peer[rank], "was lost: the test is over");
    for (int i = 0; i < OPERATIONS; i++) {
        fake_demand(!target->begun[i] || far_finished(&target->operation[i]));
        free(target->operation[i].local);
    }
    fake_service_close(far);
    for (int i = 0; i < 2; i++)
        leat_region_free(target->region[i]);
    for (int rank = 0; rank < RANKS; rank++)
        leat_close(target->jobs[rank], NULL);
    free(target->memory);
}

// ---- Arrival ----

static uint64_t near(struct fake_input *input, uint64_t value)
{
    uint64_t how = fake_take(input, 1);
    return how & 1 ? value : how & 2 ? value + (how >> 2) - 32 : fake_take(input, 8);
}

static void say_raw(struct target *target, struct fake_input *input)
{
    uint8_t bytes[300];
    size_t count = fake_take(input, 1);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)fake_take(input, 1);
    fake_arrive(&target->fake, bytes, count);
}

static struct region_key some_key(struct target *target, struct fake_input *input)
{
    uint64_t how = fake_take(input, 1);
    struct region_key key = target->key[how & 1];
    if (how & 2)
        key.slot = (uint32_t)near(input, key.slot);
    if (how & 4)
        key.generation = near(input, key.generation);
    if (how & 8)
        key.owner = (int32_t)near(input, 0);
    return key;
}

// What a message of the kind has behind its header.
static size_t fill(struct target *target, struct fake_input *input, uint16_t kind, uint8_t *payload)
{
    memset(payload, (int)fake_take(input, 1), 1024);
    if (kind == FAR_HELLO) {
        struct far_hello hello = {0};
        snprintf(hello.build, sizeof hello.build, "%s%s", fake_take(input, 1) ? "" : "x",
                 leat_build_id());
        snprintf(hello.card, sizeof hello.card, "leat-fabric net %s",
                 fake_take(input, 1) ? "03030303030303030303030303030303" : "0");
        memcpy(payload, &hello, sizeof hello);
        return sizeof hello;
    }
    if (kind == FAR_FIND) {
        struct far_name name = {.name = "named"};
        name.name[fake_take(input, 1) % 8] = (char)fake_take(input, 1);
        memcpy(payload, &name, sizeof name);
        return sizeof name;
    }
    if (kind == FAR_SUM || kind == FAR_ANSWER) {
        memset(payload, (int)fake_take(input, 1), sizeof(struct reduce_side));
        return sizeof(struct reduce_side);
    }
    (void)target;
    return kind == FAR_PUT || kind == FAR_DATA ? near(input, 64) % FAR_PAYLOAD_BYTES : 0;
}

static void say_nearly(struct target *target, struct fake_input *input)
{
    static uint8_t message[FAR_MESSAGE_BYTES];
    uint64_t how = fake_take(input, 1);
    int rank = 1 + (int)(how % (RANKS - 1));
    struct far_header header = {.rank = (uint32_t)rank,
                                .kind = (uint16_t)(1 + (how >> 2) % FAR_KINDS)};
    memcpy(header.cookie, target->cookie[rank], sizeof header.cookie);
    size_t bytes = fill(target, input, header.kind, message + sizeof header);
    header.bytes = (uint32_t)(how & 128 ? near(input, bytes) : bytes);
    header.flags = header.kind == FAR_PUT ? (uint16_t)(fake_take(input, 1) & 15) : 0;
    header.key = some_key(target, input);
    header.signal = some_key(target, input);
    header.offset = near(input, header.kind == FAR_PUT ? REGION_BYTES - bytes : 0);
    header.value = near(input, 8);
    header.signal_offset = near(input, 0);
    header.error = how & 64 ? (int32_t)fake_take(input, 1) - 128 : 0;
    header.id = near(input, 1 + fake_take(input, 1) % (OPERATIONS + 1));
    memcpy(message, &header, sizeof header);
    fake_arrive(&target->fake, message, sizeof header + bytes);
}

// ---- Operations ----

static void begin_some(struct target *target, struct fake_input *input)
{
    static const enum far_verb verbs[] = {FAR_DO_GET, FAR_DO_PUT, FAR_DO_FIND, FAR_DO_LOOK,
                                          FAR_DO_BYE};
    uint64_t how = fake_take(input, 1);
    int i = (int)(how % OPERATIONS), rank = 1 + (int)(how / OPERATIONS % (RANKS - 1));
    struct far_operation *operation = &target->operation[i];
    if (target->begun[i] && !far_finished(operation))
        return;
    free(operation->local);
    uint64_t kind = fake_take(input, 1), bytes = near(input, 100) % MOST_BYTES;
    *operation = (struct far_operation){.verb = verbs[kind % 5],
                                        .rank = rank,
                                        .key = target->key[0],
                                        .acknowledged = kind & 64,
                                        .name = "other"};
    if (kind % 5 < 2) {
        operation->bytes = bytes;
        operation->local = calloc(1, bytes ? bytes : 1);
        fake_demand(operation->local != NULL);
    }
    target->begun[i] = !far_begin(target->jobs[0], operation);
}

static void check_slots(const struct target *target)
{
    size_t count = target->fake.waiting_count + target->fake.sending_count;
    for (const struct far_slot *slot = target->far.free_slots; slot; slot = slot->next)
        count++;
    for (const struct far_slot *slot = target->far.idle_slots; slot; slot = slot->next)
        count++;
    fake_demand(count == FAR_RECEIVING + FAR_SENDING);
}

static void one_step(struct target *target, struct fake_input *input)
{
    uint64_t how = fake_take(input, 1);
    switch (how % 8) {
    case 0:
        say_raw(target, input);
        break;
    case 1:
    case 2:
        begin_some(target, input);
        break;
    case 3:
        fake_sent(&target->fake);
        break;
    case 4:
        if (how & 8)
            target->fake.refused = 1;
        else
            fake_fail(&target->fake, how & 16, 1 + (int)(how >> 5));
        break;
    default:
        say_nearly(target, input);
        break;
    }
    if (how & 128)
        far_progress(&target->far);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake_input input = {data, size};
    if (fabric_absent()) // its words for errors are wanted
        return 0;
    struct target *target = calloc(1, sizeof *target);
    fake_demand(target != NULL);
    begin(target);
    target->jobs[0]->far = &target->far;
    for (int n = 0; n < STEPS && input.left; n++)
        one_step(target, &input);
    for (int n = 0; n < 2 * FAKE_MOST; n++)
        far_progress(&target->far);
    fake_demand(target->fake.done_count == 0 && !target->fake.has_failed);
    check_slots(target);
    target->jobs[0]->far = NULL;
    end(target);
    free(target);
    return 0;
}
#endif
