// SPDX-License-Identifier: Apache-2.0
// The operations of an endpoint of the network in memory: see memory_net.h.

#include "support/memory_events.h"

#include "core/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- chance and records ----

uint64_t memory_random(struct memory_fabric *fabric)
{
    fabric->random += 0x9e3779b97f4a7c15ULL;
    return memory_mix(memory_mix(fabric->options.seed, fabric->random), 5);
}

bool memory_chance(struct memory_fabric *fabric, uint32_t permille)
{
    return permille && memory_random(fabric) % 1000 < permille;
}

uint64_t memory_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t at = 0; at < count; at += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + at, count - at < 8 ? count - at : 8);
        hash = memory_mix(hash, word);
    }
    return hash;
}

void memory_misuse(struct memory_fabric *fabric, const char *format, ...)
{
    if (fabric->misuse[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fabric->misuse, sizeof fabric->misuse, format, arguments);
    va_end(arguments);
}

struct endpoint *memory_endpoint(struct memory_fabric *fabric, int rank)
{
    if (fabric->endpoint[rank])
        return fabric->endpoint[rank];
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        abort();
    endpoint->fabric = fabric;
    endpoint->net.rank = rank;
    fabric->endpoint[rank] = endpoint;
    return endpoint;
}

static struct endpoint *self_at_end(struct msg_net *net)
{
    return (struct endpoint *)(void *)net;
}

static struct endpoint *self(struct msg_net *net)
{
    struct endpoint *endpoint = self_at_end(net);
    if (endpoint->dead || !endpoint->open)
        memory_misuse(endpoint->fabric, "rank %d was closed, or is dead, and goes on", net->rank);
    return endpoint;
}

// The same answer for a pair (and question) every time.
static bool holds_for(const struct memory_fabric *fabric, enum memory_some some, int from, int to,
                      uint64_t question)
{
    if (some != MEMORY_SOME)
        return some == MEMORY_ALL;
    uint64_t hash = memory_mix(memory_mix(fabric->options.seed, question), (uint64_t)from);
    return memory_mix(hash, (uint64_t)to) >> 40 & 1;
}

static bool peer_gone(struct endpoint *endpoint, int peer)
{
    if (peer < 0 || peer >= endpoint->fabric->options.rank_count) {
        memory_misuse(endpoint->fabric, "rank %d speaks to rank %d", endpoint->net.rank, peer);
        return true;
    }
    return memory_endpoint(endpoint->fabric, peer)->dead;
}

static int gone(int peer)
{
    return leat_fail(-ECONNRESET, "rank %d has died or left", peer);
}

// ---- queue ----

static void net_progress(struct msg_net *net, uint64_t now_ns)
{
    struct memory_fabric *fabric = self(net)->fabric;
    if (fabric->options.manual)
        return;
    if (fabric->now_ns < now_ns)
        fabric->now_ns = now_ns;
    memory_events_run(fabric);
}

static struct event *new_event(struct endpoint *from, enum event_kind kind, int to, uint64_t bytes)
{
    struct event *event = malloc(sizeof *event + bytes);
    if (event)
        *event = (struct event){
            .kind = kind, .from = from->net.rank, .to = to, .bytes = (uint32_t)bytes};
    return event;
}

static int again(struct endpoint *endpoint)
{
    endpoint->learnt = memory_mix(endpoint->learnt, endpoint->changes);
    return -EAGAIN;
}

static int net_queue_send(struct msg_net *net, int peer, const void *packet, uint32_t bytes)
{
    struct endpoint *endpoint = self(net);
    struct memory_fabric *fabric = endpoint->fabric;
    if (peer_gone(endpoint, peer))
        return gone(peer);
    if (bytes == 0 || bytes > MSG_PACKET_BYTES)
        memory_misuse(fabric, "rank %d sends a packet of %u bytes to rank %d", net->rank, bytes,
                      peer);
    struct endpoint *to = memory_endpoint(fabric, peer);
    if (to->queue_used >= fabric->options.queue_packets ||
        memory_chance(fabric, fabric->options.refuse_permille))
        return again(endpoint);
    struct event *event = new_event(endpoint, EVENT_PACKET, peer, bytes);
    if (!event)
        return -EAGAIN;
    memcpy(event->data, packet, bytes);
    memory_event_begin(fabric, event);
    return 0;
}

static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    struct endpoint *endpoint = self(net);
    endpoint->peeked = endpoint->arrived != NULL;
    if (!endpoint->arrived)
        return NULL;
    *bytes = endpoint->arrived->bytes;
    return endpoint->arrived->data;
}

static void drop_arrived(struct endpoint *endpoint)
{
    struct event *event = endpoint->arrived;
    endpoint->arrived = event->next;
    endpoint->queue_used--;
    // What a packet said must not be read once it is released.
    memset(event->data, 0xdb, event->bytes);
    free(event);
}

static void net_queue_release(struct msg_net *net)
{
    struct endpoint *endpoint = self(net);
    if (!endpoint->peeked) {
        memory_misuse(endpoint->fabric, "rank %d releases a packet that it has not looked at",
                      net->rank);
        return;
    }
    endpoint->peeked = false;
    endpoint->changes++;
    drop_arrived(endpoint);
}

// ---- memory ----

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        return -ENOMEM;
    if (!memory_register(self(net), -1, memory, bytes, token)) {
        free(memory);
        return -ENOMEM;
    }
    self(net)->changes++;
    *address = memory;
    return 0;
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    struct endpoint *endpoint = self_at_end(net);
    struct memory_fabric *fabric = endpoint->fabric;
    for (size_t i = 0; i < endpoint->memory_count; i++) {
        struct memory *memory = &endpoint->memory[i];
        if (!memory->live || memory->exposed || memory->address != address)
            continue;
        if (memory->bytes != bytes)
            memory_misuse(fabric, "rank %d frees %llu bytes that were %llu", net->rank,
                          (unsigned long long)bytes, (unsigned long long)memory->bytes);
        if (memory->under_way)
            memory_misuse(fabric, "rank %d frees %llu bytes with %u operations under way to them",
                          net->rank, (unsigned long long)bytes, memory->under_way);
        endpoint->changes++;
        memory_release(fabric, memory);
        return;
    }
    memory_misuse(fabric, "rank %d frees %llu bytes that are not its own", net->rank,
                  (unsigned long long)bytes);
}

static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    struct endpoint *endpoint = self(net);
    struct memory_fabric *fabric = endpoint->fabric;
    if (peer_gone(endpoint, peer))
        return gone(peer);
    if (holds_for(fabric, fabric->options.no_expose, net->rank, peer, 1))
        return leat_fail(-EPERM, "rank %d cannot show memory to rank %d", net->rank, peer);
    struct memory *memory =
        memory_register(endpoint, peer, (void *)(uintptr_t)address, bytes, token);
    if (!memory)
        return -ENOMEM;
    memory->exposed = true;
    return 0;
}

static void net_hide(struct msg_net *net, const struct msg_token *token)
{
    struct endpoint *endpoint = self_at_end(net);
    struct memory_fabric *fabric = endpoint->fabric;
    size_t index = (uint32_t)token->word[0];
    struct memory *memory = index < endpoint->memory_count ? &endpoint->memory[index] : NULL;
    if (!memory || !memory->live || !memory->exposed ||
        memory->generation != (uint32_t)(token->word[0] >> 32)) {
        memory_misuse(fabric, "rank %d hides memory that it has not exposed", net->rank);
        return;
    }
    if (memory->under_way)
        memory_misuse(fabric, "rank %d hides %llu bytes with %u operations under way to them",
                      net->rank, (unsigned long long)memory->bytes, memory->under_way);
    // Nobody was told of it: a state that is compared with others is as it was before.
    if (fabric->options.manual && memory->born == endpoint->changes)
        memory->generation--;
    else
        endpoint->changes++;
    memory_release(fabric, memory);
}

static void *net_map(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes)
{
    struct endpoint *endpoint = self(net);
    struct memory_fabric *fabric = endpoint->fabric;
    if (peer_gone(endpoint, peer))
        return NULL;
    // A token may have come late: only who uses the memory does wrong.
    struct memory *memory = memory_named(fabric, net->rank, peer, token, 0, bytes, NULL);
    if (!memory ||
        (memory->exposed ? !holds_for(fabric, fabric->options.map_exposed, net->rank, peer, 2)
                         : !fabric->options.map))
        return NULL;
    return memory->address;
}

// ---- put and get ----

static int net_put(struct msg_net *net, int peer, const struct msg_token *token,
                   const struct msg_piece *pieces, int count)
{
    struct endpoint *endpoint = self(net);
    struct memory_fabric *fabric = endpoint->fabric;
    if (peer_gone(endpoint, peer))
        return 0; // lost, as all that a dead rank is sent
    if (count < 1 || count > 2) {
        memory_misuse(fabric, "rank %d puts %d pieces", net->rank, count);
        return 0;
    }
    uint64_t total = 0;
    struct memory *memory = NULL;
    for (int i = 0; i < count; i++) {
        memory =
            memory_named(fabric, net->rank, peer, token, pieces[i].offset, pieces[i].bytes, "put");
        if (!memory)
            return -EINVAL;
        total += pieces[i].bytes;
    }
    if ((fabric->options.put_limit && endpoint->puts_under_way >= fabric->options.put_limit) ||
        memory_chance(fabric, fabric->options.refuse_permille))
        return again(endpoint);
    struct event *event = new_event(endpoint, EVENT_PUT, peer, total);
    if (!event)
        return -EAGAIN;
    event->memory = (uint32_t)(memory - memory_endpoint(fabric, peer)->memory);
    event->generation = memory->generation;
    for (int i = 0; i < count; i++) {
        event->offset[i] = pieces[i].offset;
        event->extent[i] = pieces[i].bytes;
        memcpy(event->data + (i ? event->extent[0] : 0), pieces[i].from, pieces[i].bytes);
    }
    memory_event_begin(fabric, event);
    return 0;
}

struct bulk {
    enum event_kind kind;
    const struct msg_token *token;
    uint64_t offset, bytes;
    char *local;
    struct msg_transfer *transfer;
};

static int bulk_copy(struct msg_net *net, int peer, const struct bulk *bulk)
{
    struct endpoint *endpoint = self(net);
    struct memory_fabric *fabric = endpoint->fabric;
    bool get = bulk->kind == EVENT_GET;
    if (peer_gone(endpoint, peer))
        return gone(peer);
    struct memory *memory = memory_named(fabric, net->rank, peer, bulk->token, bulk->offset,
                                         bulk->bytes, get ? "get" : "bulk put");
    if (!memory)
        return leat_fail(-EINVAL, "rank %d has no such memory", peer);
    if (holds_for(fabric, get ? fabric->options.no_get : fabric->options.no_put, net->rank, peer,
                  get ? 3 : 4))
        return leat_fail(-EPERM, "rank %d may not copy from or to rank %d", net->rank, peer);
    char *remote = memory->address + bulk->offset;
    char *to = get ? bulk->local : remote;
    if (fabric->options.finish_later == MEMORY_NONE ||
        (fabric->options.finish_later == MEMORY_SOME && memory_chance(fabric, 500))) {
        if (bulk->bytes)
            memcpy(to, get ? remote : bulk->local, bulk->bytes);
        endpoint->changes++;
        return 0;
    }
    struct event *event = new_event(endpoint, bulk->kind, peer, 0);
    if (!event)
        return -ENOMEM;
    // Nobody may look before it has finished.
    if (bulk->bytes)
        memset(to, 0xee, bulk->bytes);
    event->memory = (uint32_t)(memory - memory_endpoint(fabric, peer)->memory);
    event->generation = memory->generation;
    event->offset[0] = bulk->offset;
    event->extent[0] = bulk->bytes;
    event->local = bulk->local;
    event->transfer = bulk->transfer;
    bulk->transfer->finished = 0;
    memory_event_begin(fabric, event);
    return 1;
}

static int net_bulk_get(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, void *to, uint64_t bytes, struct msg_transfer *transfer)
{
    return bulk_copy(net, peer, &(struct bulk){EVENT_GET, token, offset, bytes, to, transfer});
}

static int net_bulk_put(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, const void *from, uint64_t bytes,
                        struct msg_transfer *transfer)
{
    return bulk_copy(
        net, peer,
        &(struct bulk){EVENT_BULK_PUT, token, offset, bytes, (char *)(uintptr_t)from, transfer});
}

// ---- the rest ----

static int net_alive(struct msg_net *net, int peer)
{
    return peer_gone(self(net), peer) ? gone(peer) : 0;
}

static int net_distance(struct msg_net *net, int peer)
{
    return self(net)->fabric->options.distance ? abs(peer - net->rank) : 1;
}

static void net_sleep_prepare(struct msg_net *net)
{
    (void)net;
}

static void net_sleep(struct msg_net *net, uint64_t ns)
{
    struct memory_fabric *fabric = self(net)->fabric;
    if (fabric->sleeps)
        fabric->sleeps(fabric->sleeps_user, net->rank);
    else
        fabric->now_ns += ns;
}

static void let_go(struct endpoint *endpoint)
{
    struct memory_fabric *fabric = endpoint->fabric;
    memory_events_cut(fabric, endpoint->net.rank);
    while (endpoint->arrived)
        drop_arrived(endpoint);
    endpoint->dead = true;
}

static void release_all(struct endpoint *endpoint)
{
    for (size_t i = 0; i < endpoint->memory_count; i++)
        if (endpoint->memory[i].live)
            memory_release(endpoint->fabric, &endpoint->memory[i]);
}

static void net_close(struct msg_net *net)
{
    struct endpoint *endpoint = self_at_end(net);
    size_t held = memory_fabric_held(endpoint->fabric, net->rank);
    if (held && !endpoint->dead)
        memory_misuse(endpoint->fabric, "rank %d closes with %zu pieces of memory not given back",
                      net->rank, held);
    let_go(endpoint);
    release_all(endpoint);
    endpoint->open = false;
}

static const struct msg_net_ops memory_ops = {
    .name = "memory",
    .progress = net_progress,
    .queue_send = net_queue_send,
    .queue_peek = net_queue_peek,
    .queue_release = net_queue_release,
    .alloc = net_alloc,
    .free = net_free,
    .expose = net_expose,
    .hide = net_hide,
    .map = net_map,
    .put = net_put,
    .bulk_get = net_bulk_get,
    .bulk_put = net_bulk_put,
    .sleep_prepare = net_sleep_prepare,
    .sleep = net_sleep,
    .sleep_cancel = net_sleep_prepare,
    .alive = net_alive,
    .distance = net_distance,
    .close = net_close,
};

// ---- the fabric ----

struct memory_fabric *memory_fabric_new(const struct memory_options *options)
{
    struct memory_fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return NULL;
    fabric->options = *options;
    fabric->endpoint = calloc((size_t)options->rank_count, sizeof(struct endpoint *));
    if (!fabric->endpoint) {
        free(fabric);
        return NULL;
    }
    return fabric;
}

void memory_fabric_free(struct memory_fabric *fabric)
{
    if (!fabric)
        return;
    for (size_t i = 0; i < fabric->event_count; i++)
        free(fabric->event[i]);
    for (int rank = 0; rank < fabric->options.rank_count; rank++) {
        struct endpoint *endpoint = fabric->endpoint[rank];
        while (endpoint && endpoint->arrived)
            drop_arrived(endpoint);
        if (endpoint)
            release_all(endpoint);
    }
    memory_unpark_all(fabric);
    for (int rank = 0; rank < fabric->options.rank_count; rank++) {
        if (fabric->endpoint[rank])
            free(fabric->endpoint[rank]->memory);
        free(fabric->endpoint[rank]);
    }
    free(fabric->pair);
    free(fabric->event);
    free(fabric->endpoint);
    free(fabric);
}

struct msg_net *memory_fabric_open(struct memory_fabric *fabric, int rank)
{
    struct endpoint *endpoint = memory_endpoint(fabric, rank);
    endpoint->open = true;
    endpoint->net.ops = &memory_ops;
    endpoint->net.rank_count = fabric->options.rank_count;
    endpoint->net.queue_bytes = (uint64_t)fabric->options.queue_packets * MSG_PACKET_BYTES;
    return &endpoint->net;
}

void memory_fabric_kill(struct memory_fabric *fabric, int rank)
{
    let_go(memory_endpoint(fabric, rank));
}

void memory_fabric_on_sleep(struct memory_fabric *fabric, void (*sleeps)(void *user, int rank),
                            void *user)
{
    fabric->sleeps = sleeps;
    fabric->sleeps_user = user;
}

const char *memory_fabric_misuse(const struct memory_fabric *fabric)
{
    return fabric->misuse[0] ? fabric->misuse : NULL;
}

const char *memory_fabric_check(struct memory_fabric *fabric)
{
    memory_unpark_all(fabric);
    return memory_fabric_misuse(fabric);
}

uint64_t memory_fabric_refused(const struct memory_fabric *fabric)
{
    return fabric->refused;
}

size_t memory_fabric_held(const struct memory_fabric *fabric, int rank)
{
    const struct endpoint *endpoint = fabric->endpoint[rank];
    size_t count = 0;
    for (size_t i = 0; endpoint && i < endpoint->memory_count; i++)
        count += endpoint->memory[i].live;
    return count;
}

void *memory_fabric_memory(const struct memory_fabric *fabric, int rank, size_t number,
                           uint64_t *bytes)
{
    const struct endpoint *endpoint = fabric->endpoint[rank];
    for (size_t i = 0; endpoint && i < endpoint->memory_count; i++) {
        const struct memory *memory = &endpoint->memory[i];
        if (!memory->live || number-- > 0)
            continue;
        *bytes = memory->bytes;
        return memory->address;
    }
    return NULL;
}

uint64_t memory_fabric_now(const struct memory_fabric *fabric)
{
    return fabric->now_ns;
}

uint64_t memory_fabric_next(const struct memory_fabric *fabric)
{
    return fabric->event_count ? fabric->event[0]->time : UINT64_MAX;
}

uint64_t memory_fabric_visible(const struct memory_fabric *fabric, int rank)
{
    const struct endpoint *endpoint = fabric->endpoint[rank];
    uint64_t hash = memory_mix(11, endpoint->learnt);
    for (const struct event *event = endpoint->arrived; event; event = event->next)
        hash = memory_mix(memory_mix(hash, (uint64_t)event->from), event->own_number);
    for (size_t i = 0; i < endpoint->memory_count; i++)
        if (endpoint->memory[i].live)
            hash = memory_hash(memory_mix(hash, i), endpoint->memory[i].address,
                               endpoint->memory[i].bytes);
    return hash;
}

uint64_t memory_fabric_learnt(const struct memory_fabric *fabric, int rank)
{
    return fabric->endpoint[rank]->learnt;
}

void memory_fabric_unlearn(struct memory_fabric *fabric, int rank, uint64_t learnt)
{
    fabric->endpoint[rank]->learnt = learnt;
}

uint64_t memory_fabric_changes(const struct memory_fabric *fabric, int rank)
{
    return fabric->endpoint[rank]->changes;
}
