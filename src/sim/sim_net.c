// SPDX-License-Identifier: Apache-2.0
// The operations of a simulated endpoint, and the loop over windows and ranks: see sim_net.h.
//
// Advantage: one visit to a rank does all it has to do in a window. Disadvantage: what a rank sends
// after its processor was busy for long is kept until that time comes.

#include "sim/sim_net.h"

#include "core/error.h"
#include "msg/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD         4
#define RETRY_PS      1000000 /* after the receiver's queue was full */
#define LEAST_HOLLOW  (UINT64_C(16) << 20)
#define REQUEST_BYTES 64 /* of a get */

static struct sim_rank *self(struct msg_net *net)
{
    return (struct sim_rank *)(void *)net;
}

static void add(struct sim_fabric *fabric, int rank, struct sim_transfer *transfer)
{
    if (sim_agenda_add(&fabric->agenda, rank, &transfer->event) && !fabric->error)
        fabric->error = leat_fail(-ENOMEM, "no memory for what comes to rank %d", rank);
}

// Hands a message to the network once the interface has fetched what it has to.
static void send(struct sim_rank *rank, struct sim_message *message, int to, uint64_t bytes,
                 uint64_t fetches, enum sim_message_kind kind)
{
    struct sim_fabric *fabric = rank->fabric;
    struct sim_transfer *transfer = &message->transfer;
    transfer->from = rank->net.rank;
    transfer->to = to;
    transfer->bytes = bytes;
    transfer->kind = (uint8_t)kind;
    uint64_t at_ps = rank->cpu_ps + fetches * fabric->costs.fetch_ps;
    message->leaves = bytes > fabric->network.small_bytes;
    if (!message->leaves) {
        sim_network_send(&fabric->network, transfer, at_ps);
        return;
    }
    transfer->event.at_ps = at_ps;
    add(fabric, rank->net.rank, transfer);
}

// A put or packet: its descriptor may be pushed, and hold small payload.
static uint64_t fetches_of(const struct sim_costs *costs, uint64_t payload)
{
    return (uint64_t)!costs->push + (payload > costs->piggyback_bytes);
}

// ---- Queue ----

static int net_queue_send(struct msg_net *net, int peer, const void *packet, uint32_t bytes)
{
    struct sim_rank *rank = self(net);
    struct sim_fabric *fabric = rank->fabric;
    struct sim_rank *to = &fabric->rank[peer];
    const struct msg_header *header = packet;
    struct sim_message *message = to->queued < SIM_QUEUE_LIMIT ? sim_message_take(fabric) : NULL;
    uint8_t *data = message ? sim_message_data(message, bytes) : NULL;
    if (!data) {
        // Nothing will come that says that there is room.
        sim_fabric_wake(fabric, net->rank, rank->cpu_ps + RETRY_PS);
        return -EAGAIN;
    }
    memcpy(data, packet, bytes);
    to->queued++;
    sim_spend(rank, header->kind == WIRE_EAGER || header->kind == WIRE_ANNOUNCE
                        ? fabric->costs.send_ps
                        : fabric->costs.command_ps);
    uint64_t payload = bytes - sizeof *header;
    send(rank, message, peer, bytes, fetches_of(&fabric->costs, payload), SIM_PACKET);
    return 0;
}

static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    const struct sim_message *message = self(net)->arrived;
    if (!message)
        return NULL;
    *bytes = message->bytes;
    return message->more ? message->more : message->data;
}

static void net_queue_release(struct msg_net *net)
{
    struct sim_rank *rank = self(net);
    struct sim_message *message = rank->arrived;
    rank->arrived = (struct sim_message *)(void *)message->transfer.next;
    rank->queued--;
    sim_message_give(rank->fabric, message);
}

// ---- Memory ----

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    struct sim_rank *rank = self(net);
    uint32_t block;
    int error = sim_memory_alloc(rank, bytes, address, &block);
    if (error)
        return error;
    *token = (struct msg_token){
        {(uint64_t)rank->block[block].generation << 32 | block, bytes, (uint32_t)net->rank}};
    return 0;
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    (void)bytes;
    sim_memory_free(self(net), address);
}

// Whatever it is, the holder keeps it until it is told that it was read.
static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    (void)peer;
    *token = (struct msg_token){{(uintptr_t)address, bytes, (uint32_t)net->rank}};
    return 0;
}

static void net_hide(struct msg_net *net, const struct msg_token *token)
{
    (void)net;
    (void)token;
}

static void *net_map(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes)
{
    (void)net;
    (void)peer;
    (void)token;
    (void)bytes;
    return NULL;
}

// ---- Puts and gets ----

// What the hollow first piece of a put stands for. False: it is not hollow.
static bool read_hollow(const struct sim_rank *rank, struct sim_message *message,
                        const struct msg_piece *piece)
{
    uint64_t place;
    struct sim_store *store = sim_memory_hollow(rank, piece->from, piece->bytes, &place);
    if (!store)
        return false;
    uint64_t end = place + piece->bytes;
    message->ranges = &message->range;
    message->range_count = sim_store_read(store, place, end, &message->range, 1);
    if (message->range_count > 1) {
        message->ranges = malloc(message->range_count * sizeof *message->ranges);
        if (message->ranges)
            sim_store_read(store, place, end, message->ranges, message->range_count);
    }
    // From here on by offset in the piece.
    for (uint32_t i = 0; message->ranges && i < message->range_count; i++) {
        message->ranges[i].from -= place;
        message->ranges[i].to -= place;
        message->ranges[i].shift += place;
    }
    return true;
}

static int net_put(struct msg_net *net, int peer, const struct msg_token *token,
                   const struct msg_piece *pieces, int count)
{
    struct sim_rank *rank = self(net);
    struct sim_fabric *fabric = rank->fabric;
    struct sim_message *message = sim_message_take(fabric);
    if (!message)
        return -EAGAIN;
    uint64_t total = 0, real = 0;
    message->put.block = (uint32_t)token->word[0];
    message->put.generation = (uint32_t)(token->word[0] >> 32);
    message->put.extent[1] = 0;
    bool hollow = count > 1 && read_hollow(rank, message, pieces);
    for (int i = 0; i < count; i++) {
        message->put.offset[i] = pieces[i].offset;
        message->put.extent[i] = (uint32_t)pieces[i].bytes;
        total += pieces[i].bytes;
        real += i == 0 && hollow ? 0 : pieces[i].bytes;
        if (pieces[i].offset + pieces[i].bytes > token->word[1])
            sim_misuse(fabric, "rank %d puts beyond memory of rank %d", net->rank, peer);
    }
    uint8_t *data = sim_message_data(message, (uint32_t)real);
    if (!data || (hollow && !message->ranges)) {
        sim_message_give(fabric, message);
        return -EAGAIN;
    }
    for (int i = hollow ? 1 : 0; i < count; i++) {
        memcpy(data, pieces[i].from, pieces[i].bytes);
        data += pieces[i].bytes;
    }
    sim_spend(rank, fabric->costs.send_ps);
    uint64_t payload = total > sizeof(struct msg_header) ? total - sizeof(struct msg_header) : 0;
    send(rank, message, peer, total, fetches_of(&fabric->costs, payload), SIM_PUT);
    return 0;
}

static int net_get(struct msg_net *net, int peer, const struct msg_token *token, uint64_t offset,
                   void *to, uint64_t bytes, struct msg_transfer *finished)
{
    struct sim_rank *rank = self(net);
    struct sim_fabric *fabric = rank->fabric;
    if (offset > token->word[1] || bytes > token->word[1] - offset) {
        sim_misuse(fabric, "rank %d gets beyond memory of rank %d", net->rank, peer);
        return -EINVAL;
    }
    struct sim_message *message = sim_message_take(fabric);
    if (!message)
        return -ENOMEM;
    message->get.remote = (const char *)(uintptr_t)token->word[0] + offset;
    message->get.local = to;
    message->get.bytes = bytes;
    message->get.finished = finished;
    rank->net.gets++;
    sim_spend(rank, fabric->costs.command_ps);
    // The own interface fetches the descriptor, the other one the data.
    send(rank, message, peer, REQUEST_BYTES, 2, SIM_GET);
    return 1;
}

static int net_bulk_put(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, const void *from, uint64_t bytes,
                        struct msg_transfer *finished)
{
    (void)net;
    (void)peer;
    (void)token;
    (void)offset;
    (void)from;
    (void)bytes;
    (void)finished;
    return -EPERM; // only asked for where memory is mapped
}

static int net_distance(struct msg_net *net, int peer)
{
    return sim_network_hops(&self(net)->fabric->network, net->rank, peer);
}

static bool net_torus(const struct msg_net *net, int side[3], bool doubled[3])
{
    const struct sim_rank *rank = (const struct sim_rank *)(const void *)net;
    const struct sim_fold *fold = rank->fabric->fold;
    for (int i = 0; i < 3; i++) {
        if (!fold || !fold->wrap[i])
            return false;
        side[i] = fold->side[i];
        doubled[i] = fold->doubled[i];
    }
    return true;
}

static void net_close(struct msg_net *net)
{
    struct sim_rank *rank = self(net);
    while (rank->arrived)
        net_queue_release(net);
    sim_memory_release(rank);
}

#define OPERATIONS                                                                                 \
    .name = "torus", .queue_send = net_queue_send, .queue_peek = net_queue_peek,                   \
    .queue_release = net_queue_release, .alloc = net_alloc, .free = net_free,                      \
    .expose = net_expose, .hide = net_hide, .map = net_map, .put = net_put, .bulk_get = net_get,   \
    .bulk_put = net_bulk_put, .distance = net_distance, .torus = net_torus, .close = net_close

static const struct msg_net_ops ops = {OPERATIONS};
static const struct msg_net_ops ops_with_words = {OPERATIONS, .reduce = sim_words_reduce};

// ---- Opening ----

static uint64_t ps_of(double ns)
{
    return (uint64_t)(ns * 1000 + 0.5);
}

static void read_costs(struct sim_costs *costs, const struct sim_machine *machine)
{
    *costs = (struct sim_costs){
        .send_ps = ps_of(machine->software_send_ns),
        .receive_ps = ps_of(machine->software_receive_ns),
        .command_ps = ps_of(machine->command_ns),
        .fetch_ps = ps_of(machine->descriptor_fetch_ns),
        .copy_ps = 1000 / machine->copy_gb_per_s,
        .combine_ps = machine->combine_gb_per_s > 0 ? 1000 / machine->combine_gb_per_s : 0,
        .piggyback_bytes = machine->piggyback_bytes,
        .push = machine->descriptor_push};
}

int sim_fabric_open(struct sim_fabric *fabric, const struct sim_topology *topology,
                    const int32_t *node, int rank_count, uint64_t hollow_bytes, uint64_t ring_bytes,
                    uint64_t slots_bytes)
{
    *fabric = (struct sim_fabric){.topology = topology,
                                  .node = node,
                                  .rank_count = rank_count,
                                  .ring_bytes = ring_bytes,
                                  .slots_bytes = slots_bytes,
                                  .hollow_bytes =
                                      hollow_bytes > LEAST_HOLLOW ? hollow_bytes : LEAST_HOLLOW};
    read_costs(&fabric->costs, topology->machine);
    fabric->rank = calloc((size_t)rank_count, sizeof *fabric->rank);
    int error = fabric->rank ? 0 : -ENOMEM;
    if (!error)
        error = sim_agenda_open(&fabric->agenda, rank_count, sim_network_least_ps(topology));
    if (error)
        error = leat_fail(error, "no memory for %d simulated ranks", rank_count);
    if (!error)
        error = sim_network_open(&fabric->network, topology, node, rank_count, &fabric->agenda);
    if (!error)
        error = sim_memory_open(fabric);
    if (!error)
        error = sim_words_open(fabric);
    if (error) {
        sim_fabric_close(fabric);
        return error;
    }
    bool words = topology->machine->barrier_words >= SIM_WORDS;
    for (int i = 0; i < rank_count; i++) {
        struct sim_rank *rank = &fabric->rank[i];
        rank->net = (struct msg_net){.ops = words ? &ops_with_words : &ops,
                                     .rank = i,
                                     .rank_count = rank_count,
                                     .quiet = true,
                                     .queue_bytes = (uint64_t)SIM_QUEUE_LIMIT * MSG_PACKET_BYTES};
        rank->fabric = fabric;
        rank->wake_ps = SIM_NEVER;
        sim_memory_hook(rank);
    }
    return 0;
}

void sim_fabric_close(struct sim_fabric *fabric)
{
    sim_words_close(fabric);
    sim_memory_close(fabric);
    sim_messages_free(fabric);
    sim_network_close(&fabric->network);
    sim_agenda_close(&fabric->agenda);
    free(fabric->rank);
    *fabric = (struct sim_fabric){.rank_count = 0};
}

// ---- Running ----

struct sim_message *sim_fabric_wake(struct sim_fabric *fabric, int rank, uint64_t at_ps)
{
    struct sim_message *message = sim_message_take(fabric);
    if (!message)
        return NULL;
    message->transfer.event.at_ps = at_ps;
    message->transfer.from = message->transfer.to = rank;
    message->transfer.kind = SIM_TIMER;
    add(fabric, rank, &message->transfer);
    return message;
}

static void run(struct sim_fabric *fabric, struct sim_rank *rank)
{
    rank->cpu_ps = rank->cpu_ps > rank->wake_ps ? rank->cpu_ps : rank->wake_ps;
    sim_spend(rank, rank->owed_ps);
    rank->owed_ps = 0;
    rank->wake_ps = SIM_NEVER;
    fabric->wakes++;
    fabric->run(fabric->user, rank->net.rank);
}

// All that a rank has to do in this window.
static void visit(struct sim_fabric *fabric, int index)
{
    struct sim_rank *rank = &fabric->rank[index];
    struct sim_agenda *agenda = &fabric->agenda;
    uint64_t end = sim_agenda_end(agenda), next;
    for (;;) {
        uint64_t event_ps = sim_agenda_next_ps(agenda, index);
        uint64_t go_on_ps = sim_network_next(&fabric->network, index);
        next = event_ps < go_on_ps ? event_ps : go_on_ps;
        if (rank->wake_ps < next)
            next = rank->wake_ps;
        if (next >= end)
            break;
        if (next == go_on_ps)
            sim_network_go_on(&fabric->network, index, next);
        else if (next == event_ps)
            sim_message_arrive(fabric,
                               (struct sim_message *)(void *)sim_agenda_take(agenda, index));
        else
            run(fabric, rank);
    }
    if (next != SIM_NEVER)
        sim_agenda_mark(agenda, index, next);
}

static void fetch(struct sim_fabric *fabric, int index)
{
    const char *rank = (const char *)&fabric->rank[index];
    for (size_t at = 0; at < sizeof(struct sim_rank); at += 64)
        __builtin_prefetch(rank + at);
    __builtin_prefetch(&fabric->network.interface[index]);
    __builtin_prefetch(&fabric->network.ways[index]);
    __builtin_prefetch(fabric->agenda.dues[index].due);
}

// Ranks in order; the memory of those to come is asked for while others are run, which is when it
// arrives.
static void visit_all(struct sim_fabric *fabric)
{
    int ahead[AHEAD];
    for (int i = 0; i < AHEAD; i++)
        ahead[i] = sim_agenda_node(&fabric->agenda);
    for (unsigned at = 0; ahead[at % AHEAD] >= 0; at++) {
        int next = ahead[(at + 1) % AHEAD], node = ahead[at % AHEAD];
        int last = ahead[(at + AHEAD - 1) % AHEAD];
        if (last >= 0)
            fetch(fabric, last);
        if (next >= 0 && fabric->fetch)
            fabric->fetch(fabric->user, next);
        sim_agenda_visit(&fabric->agenda, node);
        visit(fabric, node);
        ahead[at % AHEAD] = sim_agenda_node(&fabric->agenda);
    }
    sim_agenda_visit(&fabric->agenda, -1);
}

bool sim_fabric_step(struct sim_fabric *fabric)
{
    if (fabric->error || !sim_agenda_advance(&fabric->agenda))
        return false;
    visit_all(fabric);
    sim_network_settle(&fabric->network);
    if (!fabric->error)
        fabric->error = fabric->network.error;
    return !fabric->error;
}
