// SPDX-License-Identifier: Apache-2.0
// Rings: the fast way between two ranks that talk.
//
// Algorithm: the receiver owns the ring: slots of 128 bytes, each with its number in a flag written
// last, and a bulk area for payload that does not fit a slot. The sender writes both (stores where
// the memory is mapped, puts elsewhere) as far as its credits reach; the receiver polls the flag of
// the next slot and returns credits when a quarter has been read. A long message goes as fragments,
// all or none of them, so that both sides copy at the same time and no message is ever half sent.
// promote.c decides who has one.
// Advantage: one line crosses for a small message, no atomic operation, no system call.
// Disadvantage: every ring is memory and one more flag to poll, which is why there is a limit.

#include "msg/gpu.h"

#include "msg/far.h"
#include "msg/rendezvous.h"

#include <errno.h>
#include <string.h>

#define BULK_ALIGN  64
#define CLAIM_AHEAD 8 /* slots */
#define READ_AHEAD  4
#define POLL_SLOTS  64 /* read from one ring before the next has its turn */

uint64_t msg_ring_bytes(const struct msg_tuning *tuning)
{
    return (uint64_t)tuning->ring_slots * MSG_SLOT_BYTES + tuning->ring_bulk_bytes;
}

// ---- Sending ----

static bool have_slots(const struct msg_engine *engine, struct msg_ring_out *ring, uint64_t count)
{
    uint64_t size = engine->tuning.ring_slots;
    if (ring->head + count - ring->slots_read <= size)
        return true;
    uint64_t read = __atomic_load_n(&ring->credit->slots, __ATOMIC_ACQUIRE);
    // No more can have been read than was written.
    if ((int64_t)(read - ring->slots_read) > 0 && (int64_t)(ring->head - read) >= 0)
        ring->slots_read = read;
    return ring->head + count - ring->slots_read <= size;
}

static bool have_bulk(const struct msg_engine *engine, struct msg_ring_out *ring, uint64_t bytes)
{
    uint64_t size = engine->tuning.ring_bulk_bytes;
    if (ring->bulk_head + bytes - ring->bulk_read <= size)
        return true;
    uint64_t read = __atomic_load_n(&ring->credit->bulk_bytes, __ATOMIC_ACQUIRE);
    if ((int64_t)(read - ring->bulk_read) > 0 && (int64_t)(ring->bulk_head - read) >= 0)
        ring->bulk_read = read;
    return ring->bulk_head + bytes - ring->bulk_read <= size;
}

// What `bytes` take of the bulk area from `head` on: they stay together, so the end may be left
// out.
static uint64_t bulk_start(const struct msg_engine *engine, uint64_t head, uint64_t bytes)
{
    uint64_t size = engine->tuning.ring_bulk_bytes;
    return (head & (size - 1)) + bytes > size ? (head | (size - 1)) + 1 : head;
}

static void credit_told(struct msg_ring_in *ring)
{
    ring->slots_told = ring->tail;
    ring->bulk_told = ring->bulk_tail;
    ring->due = 0;
}

static void wake(const struct msg_engine *engine, const struct msg_ring_out *ring, int rank)
{
    // The store before is not fenced: who falls asleep makes it visible (net.h, sleep_prepare). The
    // compiler has to keep it before the look.
    __asm__ volatile("" ::: "memory");
    if (ring->asleep && !__atomic_load_n(ring->asleep, __ATOMIC_RELAXED))
        return;
    if (engine->net->ops->wake)
        engine->net->ops->wake(engine->net, rank);
}

static void copy_small(void *to, const void *from, uint64_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes)
        memcpy(to, from, bytes);
}

bool msg_put(struct msg_engine *engine, int rank, const struct msg_token *token,
             const struct msg_piece *pieces, int count)
{
    bool refused = engine->net->ops->put(engine->net, rank, token, pieces, count);
    engine->refused += refused;
    engine->sent += !refused;
    return !refused;
}

// The next slot; the caller has made sure of the credit. False only where put finds no room.
static bool write_slot(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                       struct msg_header *header, const void *payload, uint32_t bytes)
{
    uint64_t at = ring->head & (engine->tuning.ring_slots - 1);
    uint32_t flag = (uint32_t)(ring->head + 1);
    if (ring->slots) {
        struct msg_slot *slot = &ring->slots[at];
        copy_small(slot->payload, payload, bytes);
        memcpy((char *)&slot->header + sizeof flag, (const char *)header + sizeof flag,
               sizeof *header - sizeof flag);
        __atomic_store_n(&slot->header.flag, flag, __ATOMIC_RELEASE);
        ring->head++;
        // In a burst the line would not be here in time, and all stores behind it would wait.
        far_claim(&ring->slots[(at + CLAIM_AHEAD) & (engine->tuning.ring_slots - 1)]);
        return true;
    }
    struct msg_slot slot = {.header = *header};
    slot.header.flag = flag;
    copy_small(slot.payload, payload, bytes);
    struct msg_piece piece = {&slot, at * MSG_SLOT_BYTES, sizeof slot.header + bytes};
    if (!msg_put(engine, rank, &ring->token, &piece, 1))
        return false;
    ring->head++;
    return true;
}

// A slot whose payload lies in the bulk area.
static bool write_bulk(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                       struct msg_header *header, const leat_data *data, uint64_t offset)
{
    uint64_t bytes = header->payload;
    uint64_t start = bulk_start(engine, ring->bulk_head, bytes);
    uint64_t place = start & (engine->tuning.ring_bulk_bytes - 1);
    header->flags |= WIRE_BULK;
    if (ring->slots) {
        if (data->layout) {
            msg_layout_read(data, offset, ring->bulk + place, bytes);
        } else {
            far_copy(ring->bulk + place, (const char *)data->address + offset, bytes);
            far_push_all(ring->bulk + place, bytes);
        }
        write_slot(engine, ring, rank, header, &start, sizeof start);
    } else {
        uint8_t packed[4096];
        void *from = (char *)data->address + offset;
        if (data->layout) {
            msg_layout_read(data, offset, packed, bytes);
            from = packed;
        }
        struct msg_slot slot = {.header = *header};
        slot.header.flag = (uint32_t)(ring->head + 1);
        memcpy(slot.payload, &start, sizeof start);
        uint64_t at = ring->head & (engine->tuning.ring_slots - 1);
        uint64_t slots_bytes = (uint64_t)engine->tuning.ring_slots * MSG_SLOT_BYTES;
        struct msg_piece pieces[2] = {
            {from, slots_bytes + place, bytes},
            {&slot, at * MSG_SLOT_BYTES, sizeof slot.header + sizeof start}};
        if (!msg_put(engine, rank, &ring->token, pieces, 2))
            return false;
        ring->head++;
    }
    ring->bulk_head = start + (bytes + BULK_ALIGN - 1) / BULK_ALIGN * BULK_ALIGN;
    return true;
}

static uint64_t fragment_of(const struct msg_engine *engine, const struct msg_ring_out *ring,
                            const struct msg_request *request)
{
    uint64_t fragment = engine->tuning.fragment_bytes;
    // Strided data goes to a put through a buffer on the stack.
    if (!ring->slots && request->data.layout && fragment > 4096)
        fragment = 4096;
    return fragment;
}

static bool send_bulk(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                      struct msg_request *request)
{
    uint64_t fragment = fragment_of(engine, ring, request), total = request->data.bytes;
    if (!request->done) {
        uint64_t count = (total + fragment - 1) / fragment;
        // The gap at the end of the area and the alignment of the last fragment, at the most.
        if (!have_slots(engine, ring, count) ||
            !have_bulk(engine, ring, total + fragment + BULK_ALIGN * count))
            return false;
    }
    while (request->done < total) {
        uint64_t left = total - request->done;
        struct msg_header header = {.kind = request->done ? WIRE_MORE : WIRE_EAGER,
                                    .payload = (uint16_t)(left < fragment ? left : fragment),
                                    .context = request->context,
                                    .tag = request->tag,
                                    .bytes = total};
        if (!write_bulk(engine, ring, rank, &header, &request->data, request->done))
            return false; // what is written stays; the credits of the rest are nobody else's
        request->done += header.payload;
    }
    msg_add(&engine->counts.bulk, 1);
    return true;
}

// In pieces as large as may be, by a network that saves the copies of put.
static bool put_piece(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                      struct msg_request *request, uint64_t bytes)
{
    uint64_t start = bulk_start(engine, ring->bulk_head, bytes);
    struct msg_slot slot = {.header = {.flag = (uint32_t)(ring->head + 1),
                                       .kind = request->done ? WIRE_MORE : WIRE_EAGER,
                                       .flags = WIRE_BULK,
                                       .payload = (uint16_t)bytes,
                                       .context = request->context,
                                       .tag = request->tag,
                                       .bytes = request->data.bytes}};
    memcpy(slot.payload, &start, sizeof start);
    uint64_t at = ring->head & (engine->tuning.ring_slots - 1);
    uint64_t slots_bytes = (uint64_t)engine->tuning.ring_slots * MSG_SLOT_BYTES;
    uint64_t place = start & (engine->tuning.ring_bulk_bytes - 1);
    struct msg_ring_in *in = engine->ring_in[msg_peer_at(engine, ring->peer)->ring_in];
    const struct msg_token *credit = in && in->due ? &in->credit_token : NULL;
    const uint64_t read[2] = {credit ? in->tail : 0, credit ? in->bulk_tail : 0};
    const struct msg_piece pieces[3] = {
        {(const char *)request->data.address + request->done, slots_bytes + place, bytes},
        {&slot, at * MSG_SLOT_BYTES, sizeof slot.header + sizeof start},
        {read, 0, sizeof read}};
    int going = engine->net->ops->put_large(engine->net, rank, &ring->token, pieces, credit,
                                            &request->transfer);
    engine->refused += going < 0;
    if (going < 0)
        return false;
    engine->sent++;
    if (credit)
        credit_told(in);
    ring->head++;
    ring->bulk_head = start + (bytes + BULK_ALIGN - 1) / BULK_ALIGN * BULK_ALIGN;
    request->done += bytes;
    if (going)
        request->mode = MODE_PUT;
    return true;
}

static bool send_large(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                       struct msg_request *request)
{
    uint64_t total = request->data.bytes, most = ring->large_most;
    if (!request->done) {
        uint64_t count = (total + most - 1) / most;
        uint64_t gap =
            count > 1 ? most : bulk_start(engine, ring->bulk_head, total) - ring->bulk_head;
        if (!have_slots(engine, ring, count) ||
            !have_bulk(engine, ring, total + gap + BULK_ALIGN * count))
            return false;
        request->transfer = (struct msg_transfer){0};
    }
    while (request->done < total) {
        uint64_t left = total - request->done;
        if (!put_piece(engine, ring, rank, request, left < most ? left : most))
            return false; // as with fragments
    }
    msg_add(&engine->counts.bulk, 1);
    if (request->mode == MODE_PUT) {
        request->state = STATE_RENDEZVOUS;
        msg_rendezvous_join(engine, request);
        msg_count(engine, rank, total);
    }
    return true;
}

static bool send_announced(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                           struct msg_request *request)
{
    struct msg_header header;
    struct msg_token token;
    if (!have_slots(engine, ring, 1) ||
        !msg_announce(engine, request, msg_handle_reserve(engine), &header, &token))
        return false;
    if (!write_slot(engine, ring, rank, &header, &token, sizeof token)) {
        msg_unannounce(engine, request);
        return false;
    }
    request->state = STATE_RENDEZVOUS;
    msg_add(&engine->counts.announced, 1);
    return true;
}

// The next message goes to these lines; fetching them now is off anybody's way.
static void prepare_next(const struct msg_engine *engine, const struct msg_ring_out *ring,
                         uint64_t bytes)
{
    if (!ring->slots || bytes <= MSG_SLOT_PAYLOAD || bytes > 4 * FAR_AHEAD)
        return;
    far_claim(&ring->slots[ring->head & (engine->tuning.ring_slots - 1)]);
    uint64_t place =
        bulk_start(engine, ring->bulk_head, bytes) & (engine->tuning.ring_bulk_bytes - 1);
    for (uint64_t at = 0; at < bytes; at += FAR_LINE)
        far_claim(ring->bulk + place + at);
}

// Through memory of the host: there is no other way into a ring.
static bool send_from_gpu(struct msg_engine *engine, struct msg_ring_out *ring, int rank,
                          struct msg_request *request)
{
    const leat_data data = request->data;
    uint8_t packed[MSG_GPU_EAGER];
    // Asked before bytes are read, so that a full ring costs no copy.
    if (!have_slots(engine, ring, 1) || !have_bulk(engine, ring, 2 * (MSG_GPU_EAGER + BULK_ALIGN)))
        return false;
    request->status.error = msg_get_bytes(request, 0, packed, data.bytes);
    if (request->status.error)
        return true; // and nothing is sent
    request->data = (leat_data){.address = packed, .bytes = data.bytes};
    struct msg_header header = {.kind = WIRE_EAGER,
                                .payload = (uint16_t)data.bytes,
                                .context = request->context,
                                .tag = request->tag,
                                .bytes = data.bytes};
    bool sent = data.bytes > MSG_SLOT_PAYLOAD
                    ? write_bulk(engine, ring, rank, &header, &request->data, 0)
                    : write_slot(engine, ring, rank, &header, packed, (uint32_t)data.bytes);
    request->data = data;
    msg_add(&engine->counts.gpu_small, sent);
    msg_add(data.bytes > MSG_SLOT_PAYLOAD ? &engine->counts.bulk : &engine->counts.inlined, sent);
    return sent;
}

bool msg_ring_send(struct msg_engine *engine, uint32_t index, struct msg_request *request)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_ring_out *ring = engine->ring_out[peer->ring_out];
    uint64_t bytes = request->data.bytes;
    bool sent;
    if (request->synchronous || bytes > ring->eager_bytes) {
        sent = send_announced(engine, ring, peer->rank, request);
    } else if (request->gpu) {
        sent = send_from_gpu(engine, ring, peer->rank, request);
    } else if (bytes > MSG_SLOT_PAYLOAD && bytes <= ring->large_total && !request->data.layout) {
        sent = send_large(engine, ring, peer->rank, request);
    } else if (bytes > MSG_SLOT_PAYLOAD) {
        sent = send_bulk(engine, ring, peer->rank, request);
    } else {
        struct msg_header header = {.kind = WIRE_EAGER,
                                    .payload = (uint16_t)bytes,
                                    .context = request->context,
                                    .tag = request->tag,
                                    .bytes = bytes};
        uint8_t packed[MSG_SLOT_PAYLOAD];
        const void *payload = request->data.address;
        if (request->data.layout) {
            msg_layout_read(&request->data, 0, packed, bytes);
            payload = packed;
        }
        sent = have_slots(engine, ring, 1) &&
               write_slot(engine, ring, peer->rank, &header, payload, (uint32_t)bytes);
        msg_add(&engine->counts.inlined, sent);
    }
    if (!sent)
        return false;
    wake(engine, ring, peer->rank);
    prepare_next(engine, ring, bytes);
    if (request->state != STATE_RENDEZVOUS) {
        msg_count(engine, peer->rank, bytes);
        msg_finish(request, request->status.error);
    }
    return true;
}

// The next fragments of a message that is half written.
bool msg_ring_send_pending(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_request *head = msg_pending_head(peer);
    // Sending may put it on another list, or hand it back to its owner.
    msg_pending_remove(peer, head);
    bool sent = msg_ring_send(engine, index, head);
    if (!sent)
        msg_pending_prepend(peer, head);
    return sent;
}

bool msg_ring_write_end(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    struct msg_ring_out *ring = engine->ring_out[peer->ring_out];
    struct msg_header header = {.kind = WIRE_END};
    if (!have_slots(engine, ring, 1) || !write_slot(engine, ring, peer->rank, &header, NULL, 0))
        return false;
    wake(engine, ring, peer->rank);
    return true;
}

// ---- Receiving ----

const char *msg_ring_fault(const struct msg_engine *engine, const struct msg_slot *slot)
{
    const struct msg_header *header = &slot->header;
    uint64_t start, size = engine->tuning.ring_bulk_bytes, bytes = header->payload;
    bool bulk = header->flags & WIRE_BULK;
    if (header->kind == WIRE_END)
        return NULL;
    if (!bulk && bytes > MSG_SLOT_PAYLOAD)
        return "its payload is longer than the slot";
    memcpy(&start, slot->payload, sizeof start);
    if (bulk && (bytes > size || (start & (size - 1)) + bytes > size))
        return "its payload lies beyond the bulk area";
    switch (header->kind) {
    case WIRE_EAGER:
        if (bytes > header->bytes)
            return "its payload is longer than the message";
        // All fragments have room together, or none is sent.
        if (bytes < header->bytes && (!bytes || header->bytes > size))
            return "the message is longer than a ring carries";
        return NULL;
    case WIRE_MORE:
        return bytes ? NULL : "a fragment has no bytes";
    case WIRE_ANNOUNCE:
        return bulk || bytes < sizeof(struct msg_token) ? "an announcement has no token" : NULL;
    case WIRE_TAKEN:
        return NULL;
    default:
        return "no slot is of this kind";
    }
}

const void *msg_ring_payload(const struct msg_engine *engine, const struct msg_ring_in *ring,
                             const struct msg_slot *slot, uint64_t *bulk_end)
{
    *bulk_end = ring->bulk_tail;
    if (!(slot->header.flags & WIRE_BULK))
        return slot->payload;
    uint64_t start, size = engine->tuning.ring_bulk_bytes, bytes = slot->header.payload;
    memcpy(&start, slot->payload, sizeof start);
    *bulk_end = start + (bytes + BULK_ALIGN - 1) / BULK_ALIGN * BULK_ALIGN;
    const void *at = ring->bulk + (start & (size - 1));
    return engine->net->large ? engine->net->ops->large_find(engine->net, at, bytes) : at;
}

void msg_ring_taken(const struct msg_engine *engine, const struct msg_ring_in *ring,
                    const struct msg_slot *slot)
{
    uint64_t start;
    if (!engine->net->large || !(slot->header.flags & WIRE_BULK))
        return;
    memcpy(&start, slot->payload, sizeof start);
    engine->net->ops->large_take(engine->net,
                                 ring->bulk + (start & (engine->tuning.ring_bulk_bytes - 1)));
}

static void return_credit(struct msg_engine *engine, struct msg_ring_in *ring, bool at_once)
{
    uint64_t slots = ring->tail - ring->slots_told, bulk = ring->bulk_tail - ring->bulk_told;
    if (!at_once && slots < engine->tuning.ring_slots / 4 &&
        bulk < engine->tuning.ring_bulk_bytes / 4)
        return;
    if (!ring->credit) {
        ring->due = ring->due ? ring->due : 1;
        msg_peer_owe(engine, ring->peer, TODO_CREDIT);
        return;
    }
    __atomic_store_n(&ring->credit->bulk_bytes, ring->bulk_tail, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->credit->slots, ring->tail, __ATOMIC_RELEASE);
    credit_told(ring);
    if (engine->net->ops->wake)
        engine->net->ops->wake(engine->net, msg_peer_at(engine, ring->peer)->rank);
}

bool msg_ring_credit(struct msg_engine *engine, uint32_t index)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (!peer->ring_in)
        return true;
    struct msg_ring_in *ring = engine->ring_in[peer->ring_in];
    if (ring->tail == ring->slots_told && ring->bulk_tail == ring->bulk_told)
        return true;
    // One round later: an answer may have taken it along.
    if (ring->due == 1 && engine->net->ops->put_large) {
        ring->due = 2;
        return false;
    }
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_CREDIT, .bytes = ring->tail};
    memcpy(packet.payload, &ring->bulk_tail, sizeof ring->bulk_tail);
    if (!msg_control(engine, index, &packet, sizeof ring->bulk_tail))
        return false;
    credit_told(ring);
    return true;
}

void msg_ring_credited(struct msg_engine *engine, uint32_t index, const struct msg_packet *packet)
{
    struct msg_peer *peer = msg_peer_at(engine, index);
    if (!peer->ring_out || peer->out_state < OUT_OPEN)
        return;
    struct msg_ring_out *ring = engine->ring_out[peer->ring_out];
    uint64_t bulk;
    memcpy(&bulk, packet->payload, sizeof bulk);
    if (packet->header.bytes > ring->head || bulk > ring->bulk_head) {
        msg_peer_nonsense(engine, index, &packet->header, "it has read more than was written");
        return;
    }
    ring->credit->slots = packet->header.bytes;
    ring->credit->bulk_bytes = bulk;
    msg_peer_owe(engine, index, TODO_SEND);
}

// The same, of a slot that is the next one.
static const char *fault_of(const struct msg_engine *engine, const struct msg_ring_in *ring,
                            const struct msg_slot *slot)
{
    uint8_t kind = slot->header.kind;
    if ((ring->partial || ring->partial_message) && kind != WIRE_MORE && kind != WIRE_TAKEN)
        return "a message is not finished";
    return msg_ring_fault(engine, slot);
}

// Reads one slot. False: it has to stay, or the ring is gone.
static bool read_slot(struct msg_engine *engine, struct msg_ring_in *ring,
                      const struct msg_slot *slot)
{
    const char *fault = fault_of(engine, ring, slot);
    if (fault) {
        msg_peer_nonsense(engine, ring->peer, &slot->header, fault);
        return false;
    }
    uint64_t bulk_end;
    const void *payload = msg_ring_payload(engine, ring, slot, &bulk_end);
    if (slot->header.kind == WIRE_END) {
        uint32_t index = ring->peer;
        msg_ring_drop_in(engine, index);
        msg_hold_update(engine, index);
        msg_peer_owe(engine, index, TODO_ENDED);
        msg_add(&engine->counts.given_back, 1);
        return false;
    }
    enum arrival arrival = ARRIVAL_DONE;
    if (slot->header.kind == WIRE_EAGER || slot->header.kind == WIRE_ANNOUNCE)
        arrival = msg_arrive(engine, ring->peer, ring, &slot->header, payload);
    else if (slot->header.kind == WIRE_MORE)
        arrival = msg_arrive_more(engine, ring, &slot->header, payload);
    if (arrival == ARRIVAL_HELD) {
        if (!ring->held) {
            ring->held = 1;
            msg_add(&engine->counts.held, 1);
            msg_hold_update(engine, ring->peer);
        }
        return false;
    }
    msg_ring_taken(engine, ring, slot);
    ring->tail++;
    ring->bulk_tail = bulk_end;
    return true;
}

static void poll_ring(struct msg_engine *engine, struct msg_ring_in *ring)
{
    uint64_t mask = engine->tuning.ring_slots - 1, before = ring->tail;
    for (int n = 0; n < POLL_SLOTS; n++) {
        const struct msg_slot *slot = &ring->slots[ring->tail & mask];
        if (__atomic_load_n(&slot->header.flag, __ATOMIC_ACQUIRE) != (uint32_t)(ring->tail + 1))
            break;
        // In a burst the next ones are there too, in the sender's cache.
        __builtin_prefetch(&ring->slots[(ring->tail + READ_AHEAD) & mask]);
        bool held = ring->held, ends = slot->header.kind == WIRE_END;
        if (!read_slot(engine, ring, slot)) {
            if (ends) {
                engine->events++;
                return; // the ring is gone
            }
            engine->events += !held;
            break;
        }
        if (held) {
            ring->held = 0;
            msg_hold_update(engine, ring->peer);
        }
    }
    if (ring->tail == before)
        return;
    engine->events++;
    ring->last_used = engine->ticks;
    return_credit(engine, ring, false);
}

void msg_ring_progress(struct msg_engine *engine, uint32_t place)
{
    struct msg_ring_in *ring = engine->ring_in[place];
    const struct msg_peer *peer = ring ? msg_peer_at(engine, ring->peer) : NULL;
    if (peer && peer->in_state >= IN_OPEN && !(peer->flags & PEER_NONSENSE))
        poll_ring(engine, ring);
}

void msg_rings_progress(struct msg_engine *engine)
{
    for (uint32_t i = 1; i <= engine->ring_in_count; i++)
        msg_ring_progress(engine, i);
}
