// SPDX-License-Identifier: Apache-2.0
// Fuzz target: what arrives at a rank's message network by libfabric, and the cards of others.
//
// The input is a program: messages of any bytes, or of a peer with its right cookie and fields that
// are nearly right; sends that end well, badly or not yet; packets taken out; cards. Advantage: a
// fuzzer cannot guess a MAC, so cookies are given to it, and no provider is needed. Disadvantage:
// what a provider itself does with bytes is not tried.

#ifndef LEAT_HAVE_FABRIC
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}
#else

#include "core/card.h"
#include "fuzz/fake_endpoint.h"
#include "transport/fabric_msg_internal.h"

#include <stdio.h>

enum { RANKS = 5, STEPS = 200, ARENA_FIRST = 512, ARENA_BYTES = 16384, BUFFERS_BYTES = 128 << 10 };

struct target {
    leat_job *jobs[RANKS];
    struct fake_endpoint fake;
    struct fabric_net net;
    struct fabric_peer honest[RANKS]; // cookies
};

static void begin(struct target *target)
{
    const leat_options options = {
        .size = sizeof options, .thread_ranks = RANKS, .arena_bytes = 16 << 20};
    fake_demand(leat_open(&options, target->jobs) == 0);
    struct fabric_net *net = &target->net;
    net->job = target->jobs[0];
    net->job->config.log_level = -1;
    net->net.rank_count = RANKS;
    net->arena = malloc(ARENA_BYTES);
    fake_demand(net->arena != NULL);
    memset(net->arena, 0x5a, ARENA_BYTES);
    net->arena_first = ARENA_FIRST;
    net->arena_bytes = ARENA_BYTES;
    fake_open(&target->fake, &net->fabric);
    fake_demand(fabric_peers_open(net) == 0);
    fake_demand(fabric_slots_open(net, BUFFERS_BYTES) == 0);
    net->visited = true; // nothing is measured
    net->settling = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        struct fabric_peer *peer;
        fake_demand(fabric_peer_find(net, rank, &peer) == 0);
        target->honest[rank] = *peer;
    }
    // As it is before anybody has spoken.
    fabric_peers_close(net);
    net->peer_count = 0;
    fake_demand(fabric_peers_open(net) == 0);
}

static void end(struct target *target)
{
    for (int i = 0; i < ARENA_FIRST; i++)
        fake_demand(target->net.arena[i] == 0x5a);
    fabric_slots_close(&target->net);
    fabric_peers_close(&target->net);
    free(target->net.arena);
    for (int rank = 0; rank < RANKS; rank++)
        leat_close(target->jobs[rank], NULL);
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

static void say_nearly(struct target *target, struct fake_input *input)
{
    static uint8_t message[FABRIC_MESSAGE_BYTES + 64];
    uint64_t how = fake_take(input, 1);
    int rank = 1 + (int)(how % (RANKS - 1));
    struct fabric_header header = {.rank = (uint32_t)rank,
                                   .kind = (uint8_t)(1 + (how >> 2) % 4),
                                   .pieces = (uint8_t)(how & 128 ? fake_take(input, 1) : 1)};
    memcpy(header.cookie, target->honest[rank].from, sizeof header.cookie);
    header.bytes[0] = header.kind == FABRIC_BYE ? 0 : (uint16_t)near(input, 64);
    header.offset[0] = near(input, ARENA_FIRST);
    uint64_t bytes = FABRIC_HEADER_BYTES(header.pieces) + header.bytes[0];
    if (header.pieces >= 2 && header.pieces <= 3) {
        header.bytes[1] = (uint16_t)near(input, 128);
        header.offset[1] = near(input, ARENA_BYTES - header.bytes[1]);
        bytes += header.bytes[1];
    }
    if (header.pieces == 3) {
        header.bytes[2] = (uint16_t)near(input, 16);
        header.offset[2] = near(input, ARENA_BYTES - header.bytes[2]);
        bytes += header.bytes[2];
    }
    if (how & 64)
        bytes = near(input, bytes);
    if (fake_take(input, 1) == 255)
        header.cookie[fake_take(input, 1) % FABRIC_COOKIE_BYTES] ^= 1;
    memset(message, (int)fake_take(input, 1), sizeof message);
    fabric_pack(message, &header);
    fake_arrive(&target->fake, message, bytes < sizeof message ? bytes : sizeof message);
}

// ---- What the engine does ----

static void send_some(struct target *target, struct fake_input *input)
{
    struct fabric_net *net = &target->net;
    struct fabric_peer *peer;
    int rank = 1 + (int)(fake_take(input, 1) % (RANKS - 1));
    fake_demand(fabric_peer_find(net, rank, &peer) == 0);
    if (peer->state == FABRIC_PEER_LOST)
        return;
    peer->settled = true;
    struct slot *slot = fabric_slot_take(net, peer);
    if (!slot)
        return;
    struct fabric_header header = {.kind = FABRIC_BYE, .pieces = 1};
    fabric_slot_head(net, peer, slot, &header);
    target->fake.refused = fake_take(input, 1) == 0;
    (void)fabric_slot_send(net, peer, slot, false);
}

// Of a large put, if one waits: the engine finds it, and may have copied it.
static void take_large(struct target *target, bool copied)
{
    struct fabric_net *net = &target->net;
    if (!net->net.large)
        return;
    const char *at = net->loose[0].at;
    const uint8_t *found = fabric_large_find(&net->net, at, 1);
    volatile uint8_t first = *found;
    (void)first;
    if (copied)
        fabric_large_take(&net->net, at);
}

static void take_out(struct target *target)
{
    struct fabric_net *net = &target->net;
    struct slot *slot = net->arrived.first;
    if (!slot)
        return;
    struct fabric_header header;
    size_t before = fabric_unpack(slot->message, slot->bytes, &header);
    uint32_t bytes = slot->bytes - (uint32_t)before;
    fake_demand(bytes > 0 && bytes <= MSG_PACKET_BYTES && header.kind == FABRIC_PACKET);
    fake_demand(header.rank > 0 && header.rank < RANKS);
    fake_demand(!memcmp(header.cookie, target->honest[header.rank].from, sizeof header.cookie));
    net->arrived.first = slot->next;
    slot->next = net->idle_slots;
    net->idle_slots = slot;
}

static void read_card(struct target *target, struct fake_input *input)
{
    char card[LEAT_CARD_BYTES];
    fi_addr_t address;
    size_t count = fake_take(input, 1), used = 0;
    if (count & 1)
        used = (size_t)snprintf(card, sizeof card, "leat-fabric net ");
    for (count /= 2; count && used < sizeof card - 1; count--) {
        uint8_t byte = (uint8_t)fake_take(input, 1);
        card[used++] = (char)(byte ? byte : 'a');
    }
    card[used] = 0;
    if (fabric_meet(&target->net.fabric, card, &address))
        fake_demand(*leat_error_detail() != 0);
}

static void check_slots(struct target *target)
{
    const struct fabric_net *net = &target->net;
    size_t count = target->fake.waiting_count + target->fake.sending_count + net->net.large;
    for (const struct slot *slot = net->free_slots; slot; slot = slot->next)
        count++;
    for (const struct slot *slot = net->idle_slots; slot; slot = slot->next)
        count++;
    for (const struct slot *slot = net->arrived.first; slot; slot = slot->next)
        count++;
    fake_demand(count == net->receive_count + net->send_count); // none is lost, none is there twice
}

static void one_step(struct target *target, struct fake_input *input)
{
    uint64_t how = fake_take(input, 1);
    switch (how % 8) {
    case 0:
        say_raw(target, input);
        break;
    case 1:
        send_some(target, input);
        break;
    case 2:
        take_large(target, how & 8);
        take_out(target);
        break;
    case 3:
        fake_sent(&target->fake);
        break;
    case 4:
        fake_fail(&target->fake, how & 8, 1 + (int)(how >> 4));
        break;
    case 5:
        read_card(target, input);
        break;
    default:
        say_nearly(target, input);
        break;
    }
    if (how & 128)
        fabric_slots_progress(&target->net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fake_input input = {data, size};
    if (fabric_absent()) // its words for errors are wanted
        return 0;
    struct target *target = calloc(1, sizeof *target);
    fake_demand(target != NULL);
    begin(target);
    for (int n = 0; n < STEPS && input.left; n++)
        one_step(target, &input);
    for (int n = 0; n < 2 * FAKE_MOST; n++)
        fabric_slots_progress(&target->net);
    fake_demand(target->fake.done_count == 0 && !target->fake.has_failed);
    check_slots(target);
    end(target);
    free(target);
    return 0;
}
#endif
