// SPDX-License-Identifier: Apache-2.0
// One real endpoint among stubs: see stubs.h.
//
// Algorithm: whatever the engine sends is answered at once, by packets in a list that is its queue
// or by stores to its rings. In step i of an all-to-all rank 0 sends to i and receives from -i; so
// the message to i makes stub -i send. Advantage: nothing is ever under way but in that list.
// Disadvantage: the order of events is one of many.

#include "sim/stubs.h"

#include "core/error.h"
#include "core/job.h"
#include "msg/coll.h"
#include "msg/internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGED_BYTES  4096
#define QUEUE_BYTES  (1u << 20)
#define ROUNDS_IDLE  1000 /* rounds of progress that move nothing: it is stuck */
#define STUB_OFFERED 1    /* flags: rank 0 was offered a ring, */
#define STUB_TAKEN   2    /* and took it */
#define STUB_ENDING  4    /* rank 0's ring: END is written */

struct stub {
    char *ring;               /* of rank 0, or NULL: by queue */
    uint32_t ring_head;       /* slots written there */
    uint32_t ring_tail;       /* slots that rank 0 has put to the stub's own */
    uint32_t sent, received;  /* by queue: sequence numbers */
    uint32_t messages, taken; /* to rank 0, and from it */
    uint8_t flags, arrivals;  /* arrivals: by queue, since it was declined last */
    bool news;                /* rank 0's engine has not looked at the ring since */
};

struct packet {
    struct packet *next;
    uint32_t bytes;
    struct msg_packet packet;
};

struct stubs {
    struct msg_net net; /* first: what the engine holds */
    struct msg_tuning tuning;
    struct stub *stub; /* [rank_count] */
    int *news, news_count;
    struct packet *queue, *queue_tail, *free;
    uint64_t bytes, messages;
    char failure[256]; /* the first one */
};

static struct stubs *of(struct msg_net *net)
{
    return (struct stubs *)(void *)net;
}

static void fail(struct stubs *stubs, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(struct stubs *stubs, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!*stubs->failure)
        vsnprintf(stubs->failure, sizeof stubs->failure, format, arguments);
    va_end(arguments);
}

// What message `number` from rank to rank holds at `index`.
static uint8_t byte_of(int from, int to, uint32_t number, uint64_t index)
{
    return (uint8_t)((uint32_t)from * 31 + (uint32_t)to * 7 + number * 3 + index + 1);
}

// ---- To rank 0 ----

static void to_queue(struct stubs *stubs, int from, struct msg_header header, const void *payload,
                     uint32_t bytes)
{
    struct packet *made = stubs->free;
    if (made)
        stubs->free = made->next;
    else
        made = malloc(sizeof *made);
    if (!made) {
        fail(stubs, "no memory for a packet");
        return;
    }
    header.flag = (uint32_t)from;
    header.payload = (uint16_t)bytes;
    made->packet.header = header;
    if (bytes)
        memcpy(made->packet.payload, payload, bytes);
    made->bytes = (uint32_t)sizeof header + bytes;
    made->next = NULL;
    if (stubs->queue)
        stubs->queue_tail->next = made;
    else
        stubs->queue = made;
    stubs->queue_tail = made;
}

static void to_ring(struct stubs *stubs, int from, struct msg_header header, const void *payload,
                    uint32_t bytes)
{
    struct stub *stub = &stubs->stub[from];
    uint32_t at = stub->ring_head & (stubs->tuning.ring_slots - 1);
    struct msg_slot *slot = (struct msg_slot *)(void *)stub->ring + at;
    header.payload = (uint16_t)bytes;
    header.flag = ++stub->ring_head;
    if (bytes)
        memcpy(slot->payload, payload, bytes);
    slot->header = header;
    if (!stub->news)
        stubs->news[stubs->news_count++] = from;
    stub->news = true;
}

// The stub's message of an all-to-all whose message to another stub was `like`.
static void send_message(struct stubs *stubs, int from, const struct msg_header *like)
{
    struct stub *stub = &stubs->stub[from];
    uint8_t payload[MSG_SLOT_PAYLOAD];
    uint32_t bytes = (uint32_t)stubs->bytes;
    for (uint32_t i = 0; i < bytes; i++)
        payload[i] = byte_of(from, 0, stub->messages, i);
    struct msg_header header = {
        .kind = WIRE_EAGER, .context = like->context, .tag = like->tag, .bytes = bytes};
    stub->messages++;
    if (stub->ring && !(stub->flags & STUB_ENDING)) {
        to_ring(stubs, from, header, payload, bytes);
        return;
    }
    header.sequence = stub->sent++;
    to_queue(stubs, from, header, payload, bytes);
}

// ---- From rank 0 ----

static void offer_ring(struct stubs *stubs, int index)
{
    struct stub *stub = &stubs->stub[index];
    if (stub->flags & (STUB_OFFERED | STUB_TAKEN) || stub->arrivals < stubs->tuning.promote_after)
        return;
    stub->flags |= STUB_OFFERED;
    struct msg_token token = {{(uint64_t)index, msg_ring_bytes(&stubs->tuning), 0}};
    to_queue(stubs, index, (struct msg_header){.kind = WIRE_GRANT}, &token, sizeof token);
}

static void take_message(struct stubs *stubs, int index, const struct msg_header *header,
                         const uint8_t *payload)
{
    struct stub *stub = &stubs->stub[index];
    if (header->kind != WIRE_EAGER || header->bytes != stubs->bytes ||
        header->payload != stubs->bytes) {
        fail(stubs, "stub %d: a message of kind %d and %llu bytes; expected kind %d and %llu",
             index, header->kind, (unsigned long long)header->bytes, WIRE_EAGER,
             (unsigned long long)stubs->bytes);
        return;
    }
    for (uint32_t i = 0; i < stubs->bytes; i++)
        if (payload[i] != byte_of(0, index, stub->taken, i))
            fail(stubs, "stub %d: byte %u of message %u is %d, expected %d", index, i, stub->taken,
                 payload[i], byte_of(0, index, stub->taken, i));
    stub->taken++;
    stubs->messages++;
    send_message(stubs, (stubs->net.rank_count - index) % stubs->net.rank_count, header);
}

static void take_packet(struct stubs *stubs, int index, const struct msg_packet *packet)
{
    struct stub *stub = &stubs->stub[index];
    struct msg_token token;
    switch (packet->header.kind) {
    case WIRE_EAGER:
        if (packet->header.sequence != stub->received++)
            fail(stubs, "stub %d: packet %u comes after %u", index, packet->header.sequence,
                 stub->received - 1);
        to_queue(stubs, index, (struct msg_header){.kind = WIRE_ACCEPT, .sequence = stub->received},
                 NULL, 0);
        take_message(stubs, index, &packet->header, packet->payload);
        if (stub->arrivals < UINT8_MAX)
            stub->arrivals++;
        offer_ring(stubs, index);
        break;
    case WIRE_ACCEPT:
        if (packet->header.sequence > stub->sent)
            fail(stubs, "stub %d: %u messages are accepted of %u", index, packet->header.sequence,
                 stub->sent);
        break;
    case WIRE_GRANT:
        memcpy(&token, packet->payload, sizeof token);
        memcpy(&stub->ring, &token.word[0], sizeof stub->ring);
        stub->ring_head = 0;
        token = (struct msg_token){{(uint64_t)index, sizeof(struct msg_credit), 1}};
        to_queue(stubs, index, (struct msg_header){.kind = WIRE_SWITCH}, &token, sizeof token);
        break;
    case WIRE_SWITCH:
        stub->flags |= STUB_TAKEN;
        break;
    case WIRE_END: // it has no room for the ring that it was offered
        stub->flags &= (uint8_t)~STUB_OFFERED;
        stub->arrivals = 0;
        break;
    case WIRE_REVOKE:
        stub->flags |= STUB_ENDING;
        to_ring(stubs, index, (struct msg_header){.kind = WIRE_END}, NULL, 0);
        break;
    case WIRE_ENDED:
        stub->ring = NULL;
        stub->flags &= (uint8_t)~STUB_ENDING;
        break;
    case WIRE_CREDIT:
        break; // a stub never has more than a message or two under way
    default:
        fail(stubs, "stub %d: a packet of kind %d", index, packet->header.kind);
    }
}

static int net_put(struct msg_net *net, int peer, const struct msg_token *token,
                   const struct msg_piece *pieces, int count)
{
    struct stubs *stubs = of(net);
    struct stub *stub = &stubs->stub[peer];
    struct msg_slot slot;
    uint32_t slots = stubs->tuning.ring_slots;
    if (token->word[0] != (uint64_t)peer || count != 1 || pieces->bytes > sizeof slot ||
        pieces->bytes < sizeof slot.header ||
        pieces->offset != (uint64_t)(stub->ring_tail & (slots - 1)) * sizeof slot) {
        fail(stubs, "stub %d: a put of %d pieces, %llu bytes at %llu", peer, count,
             (unsigned long long)pieces->bytes, (unsigned long long)pieces->offset);
        return 0;
    }
    memcpy(&slot, pieces->from, pieces->bytes);
    if (slot.header.flag != ++stub->ring_tail)
        fail(stubs, "stub %d: slot %u says that it is %u", peer, stub->ring_tail, slot.header.flag);
    if (stub->ring_tail % (slots / 4) == 0) {
        uint64_t bulk = 0;
        to_queue(stubs, peer, (struct msg_header){.kind = WIRE_CREDIT, .bytes = stub->ring_tail},
                 &bulk, sizeof bulk);
    }
    take_message(stubs, peer, &slot.header, slot.payload);
    return 0;
}

// ---- The other operations ----

static int net_queue_send(struct msg_net *net, int peer, const void *packet, uint32_t bytes)
{
    (void)bytes;
    take_packet(of(net), peer, packet);
    return 0;
}

static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    struct packet *packet = of(net)->queue;
    if (packet)
        *bytes = packet->bytes;
    return packet ? &packet->packet : NULL;
}

static void net_queue_release(struct msg_net *net)
{
    struct packet *packet = of(net)->queue;
    of(net)->queue = packet->next;
    packet->next = of(net)->free;
    of(net)->free = packet;
}

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    (void)net;
    // As in a shared segment: pages are taken by use.
    void *memory;
    if (bytes < PAGED_BYTES) {
        memory = calloc(1, bytes);
    } else {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            memory = NULL;
    }
    if (!memory)
        return -ENOMEM;
    *address = memory;
    *token = (struct msg_token){{(uintptr_t)memory, bytes, 0}};
    return 0;
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    (void)net;
    if (bytes >= PAGED_BYTES)
        munmap(address, bytes);
    else
        free(address);
}

static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    (void)bytes;
    (void)token;
    fail(of(net), "stub %d: memory at %p is shown to it, but nothing is that large", peer, address);
    return -EPERM;
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

static void net_close(struct msg_net *net)
{
    (void)net; // the list goes with the stubs
}

static const struct msg_net_ops ops = {.name = "stubs",
                                       .queue_send = net_queue_send,
                                       .queue_peek = net_queue_peek,
                                       .queue_release = net_queue_release,
                                       .alloc = net_alloc,
                                       .free = net_free,
                                       .expose = net_expose,
                                       .hide = net_hide,
                                       .map = net_map,
                                       .put = net_put,
                                       .close = net_close};

// ---- Running ----

// Polling all rings would take time by the square of the ranks.
static void look_at_rings(struct stubs *stubs, struct msg_engine *engine)
{
    int kept = 0;
    for (int i = 0; i < stubs->news_count; i++) {
        int from = stubs->news[i];
        const struct msg_peer *peer = msg_peer_at(engine, msg_peer_find(engine, from));
        stubs->stub[from].news = peer->in_state < IN_OPEN; // its SWITCH has not been read
        if (stubs->stub[from].news)
            stubs->news[kept++] = from;
        else
            msg_ring_progress(engine, peer->ring_in);
    }
    stubs->news_count = kept;
}

static bool move(struct stubs *stubs, struct msg_engine *engine, int round)
{
    uint64_t before = engine->events;
    look_at_rings(stubs, engine);
    bool moved = msg_progress(engine, (uint64_t)round);
    return moved || engine->events != before;
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;
    if (file) {
        if (fscanf(file, "%*s %llu", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int all_to_all(struct stubs *stubs, leat_comm *comm, uint8_t *send, uint8_t *receive,
                      int round)
{
    struct msg_engine *engine = comm->engine;
    int ranks = stubs->net.rank_count, idle = 0;
    for (int to = 0; to < ranks; to++)
        for (uint64_t i = 0; i < stubs->bytes; i++)
            send[(uint64_t)to * stubs->bytes + i] = byte_of(0, to, stubs->stub[to].taken, i);
    memset(receive, 0xdb, (size_t)ranks * stubs->bytes);
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLTOALL,
                                       .send = send,
                                       .receive = receive,
                                       .count = stubs->bytes,
                                       .type = LEAT_BYTE,
                                       .algorithm = "spread"};
    leat_request request;
    int error = leat_collective(comm, &options, &request);
    while (!error && !*stubs->failure && !msg_finished(msg_request_of(&request))) {
        idle = move(stubs, engine, round) ? 0 : idle + 1;
        if (idle > ROUNDS_IDLE)
            fail(stubs, "nothing moves any more in all-to-all %d", round);
    }
    if (!error && !*stubs->failure)
        error = msg_request_of(&request)->status.error;
    // Handshakes that are left.
    for (idle = 0; !error && idle < 2;)
        idle = move(stubs, engine, round) ? 0 : idle + 1;
    for (int from = 1; !error && from < ranks; from++)
        for (uint64_t i = 0; i < stubs->bytes; i++)
            if (receive[(uint64_t)from * stubs->bytes + i] !=
                byte_of(from, 0, stubs->stub[from].messages - 1, i))
                fail(stubs, "byte %llu from stub %d is wrong", (unsigned long long)i, from);
    return error ? error : *stubs->failure ? leat_fail(-EPROTO, "%s", stubs->failure) : 0;
}

static void read_result(const struct stubs *stubs, const struct msg_engine *engine,
                        struct sim_stubs_result *result)
{
    const struct msg_pools *pools = &engine->pools;
    result->used_bytes = pools->used;
    result->peak_bytes = pools->peak;
    result->budget_bytes = pools->budget;
    result->ring_bytes = pools->pool[POOL_RINGS].used;
    result->peer_bytes = pools->pool[POOL_PEERS].used;
    result->messages = stubs->messages;
    result->ring_each_bytes = (uint32_t)msg_ring_bytes(&stubs->tuning);
    for (uint32_t i = 1; i <= engine->tuning.ring_limit; i++) {
        result->rings_in += engine->ring_in[i] != NULL;
        result->rings_out += engine->ring_out[i] != NULL;
    }
}

// Engine and communicator, and then the rounds; the caller frees the rest.
static int run(struct stubs *stubs, int rounds, uint8_t *data, struct sim_stubs_result *result)
{
    // Communicators are asked for by job, of which they need no more than this.
    struct leat_job *stand_in = calloc(1, sizeof *stand_in);
    struct msg_engine *engine = NULL;
    leat_comm *comm;
    if (!stand_in)
        return leat_fail(-ENOMEM, "no memory for a job");
    malloc_trim(0); // what is free but resident would hide what the engine takes
    uint64_t before = resident_bytes();
    int error = msg_engine_open(&stubs->net, &stubs->tuning, &engine);
    stand_in->msg = engine;
    if (!error)
        error = leat_comm_split(stand_in, NULL, &comm);
    if (!error)
        result->start_bytes = engine->pools.used;
    for (int round = 0; !error && round < rounds; round++)
        error = all_to_all(stubs, comm, data, data + (uint64_t)stubs->net.rank_count * stubs->bytes,
                           round);
    if (!error) {
        read_result(stubs, engine, result);
        uint64_t after = resident_bytes();
        result->resident_bytes = after > before ? after - before : 0;
    }
    msg_engine_close(engine);
    free(stand_in);
    return error;
}

static void free_packets(struct packet *packet)
{
    while (packet) {
        struct packet *next = packet->next;
        free(packet);
        packet = next;
    }
}

int sim_stubs_run(const struct msg_tuning *tuning, int rank_count, uint64_t bytes, int rounds,
                  struct sim_stubs_result *result)
{
    *result = (struct sim_stubs_result){.rings_in = 0};
    if (bytes < 1 || bytes > MSG_SLOT_PAYLOAD || rank_count < 2 || rounds < 0)
        return leat_fail(-EINVAL,
                         "%d ranks and %llu bytes; stubs take 2 ranks or more, and 1 to %d bytes",
                         rank_count, (unsigned long long)bytes, (int)MSG_SLOT_PAYLOAD);
    struct stubs *stubs = calloc(1, sizeof *stubs);
    uint8_t *data = malloc(2 * (size_t)rank_count * bytes);
    int error = -ENOMEM;
    if (stubs) {
        stubs->stub = calloc((size_t)rank_count, sizeof *stubs->stub);
        stubs->news = calloc((size_t)rank_count, sizeof *stubs->news);
    }
    if (stubs && stubs->stub && stubs->news && data) {
        // So that what the process grows by is the engine's.
        memset(data, 1, 2 * (size_t)rank_count * bytes);
        memset(stubs->stub, 0, (size_t)rank_count * sizeof *stubs->stub);
        memset(stubs->news, 0, (size_t)rank_count * sizeof *stubs->news);
        stubs->tuning = *tuning;
        stubs->bytes = bytes;
        stubs->net = (struct msg_net){
            .ops = &ops, .rank_count = rank_count, .quiet = true, .queue_bytes = QUEUE_BYTES};
        error = run(stubs, rounds, data, result);
    } else {
        leat_fail(error, "no memory for %d stubs", rank_count);
    }
    if (stubs) {
        free_packets(stubs->queue);
        free_packets(stubs->free);
        free(stubs->news);
        free(stubs->stub);
    }
    free(stubs);
    free(data);
    return error;
}
