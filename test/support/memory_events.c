// SPDX-License-Identifier: Apache-2.0
// Events: see memory_events.h and memory_net.h.

#include "support/memory_events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- when ----

// Between packets of one pair, whose places in time must not cross.
static uint64_t *pair_time(struct memory_fabric *fabric, int from, int to)
{
    if (fabric->pair_count * 2 >= fabric->pair_capacity) {
        struct pair_time *old = fabric->pair;
        size_t old_capacity = fabric->pair_capacity, live = 0;
        for (size_t i = 0; i < old_capacity; i++)
            live += old[i].pair && old[i].time > fabric->now_ns;
        fabric->pair_capacity = 64;
        while (fabric->pair_capacity < live * 4)
            fabric->pair_capacity *= 2;
        fabric->pair = calloc(fabric->pair_capacity, sizeof *fabric->pair);
        if (!fabric->pair)
            abort();
        fabric->pair_count = 0;
        for (size_t i = 0; i < old_capacity; i++)
            if (old[i].pair && old[i].time > fabric->now_ns)
                *pair_time(fabric, (int)(old[i].pair >> 32) - 1, (int)(uint32_t)old[i].pair) =
                    old[i].time;
        free(old);
    }
    uint64_t pair = (uint64_t)(from + 1) << 32 | (uint32_t)to;
    size_t at = memory_mix(7, pair) & (fabric->pair_capacity - 1);
    while (fabric->pair[at].pair && fabric->pair[at].pair != pair)
        at = (at + 1) & (fabric->pair_capacity - 1);
    if (!fabric->pair[at].pair) {
        fabric->pair[at] = (struct pair_time){.pair = pair};
        fabric->pair_count++;
    }
    return &fabric->pair[at].time;
}

static void draw_time(struct memory_fabric *fabric, struct event *event)
{
    uint64_t longest = fabric->options.delay_ns;
    event->time = fabric->now_ns + (longest ? memory_random(fabric) % (longest + 1) : 0);
    if (memory_chance(fabric, fabric->options.late_permille))
        event->time += memory_random(fabric) % (longest * 50 + 1);
    if (event->kind != EVENT_PACKET || fabric->options.manual)
        return;
    if (event->loose) {
        event->time += longest * 10;
        return;
    }
    uint64_t *last = pair_time(fabric, event->from, event->to);
    if (event->time < *last)
        event->time = *last;
    *last = event->time;
}

// ---- the heap, or list ----

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void heap_up(struct event **event, size_t at)
{
    for (; at && before(event[at], event[(at - 1) / 2]); at = (at - 1) / 2) {
        struct event *parent = event[(at - 1) / 2];
        event[(at - 1) / 2] = event[at];
        event[at] = parent;
    }
}

static void heap_down(struct event **event, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (before(event[child], event[least]))
                least = child;
        if (least == at)
            return;
        struct event *parent = event[at];
        event[at] = event[least];
        event[least] = parent;
        at = least;
    }
}

static void insert(struct memory_fabric *fabric, struct event *event)
{
    if (fabric->event_count == fabric->event_capacity) {
        fabric->event_capacity = fabric->event_capacity ? 2 * fabric->event_capacity : 64;
        fabric->event = realloc(fabric->event, fabric->event_capacity * sizeof(struct event *));
        if (!fabric->event)
            abort();
    }
    fabric->event[fabric->event_count++] = event;
    if (!fabric->options.manual)
        heap_up(fabric->event, fabric->event_count - 1);
}

// ---- faults ----

// Whether the event is to be forgotten.
static bool suffer(struct memory_fabric *fabric, struct event *event)
{
    uint64_t number = event->kind == EVENT_PACKET ? fabric->packets++
                      : event->kind == EVENT_PUT  ? fabric->puts++
                                                  : UINT64_MAX;
    if (!fabric->options.fault || number != fabric->options.fault_at)
        return false;
    bool packet = event->kind == EVENT_PACKET;
    switch (fabric->options.fault) {
    case MEMORY_FAULT_DROP_PACKET:
        return packet;
    case MEMORY_FAULT_DROP_PUT:
        return !packet;
    case MEMORY_FAULT_REORDER:
        event->loose = packet;
        return false;
    default:
        return false;
    }
}

// The flag of a put, on its own and at once.
static void tear(struct memory_fabric *fabric, const struct event *put)
{
    int last = put->extent[1] ? 1 : 0;
    const char *flag = put->data + (last ? put->extent[0] : 0);
    uint64_t bytes = put->extent[last] < 8 ? put->extent[last] : 8;
    memcpy(memory_endpoint(fabric, put->to)->memory[put->memory].address + put->offset[last], flag,
           bytes);
}

static void account(struct memory_fabric *fabric, const struct event *event, int change)
{
    struct endpoint *from = memory_endpoint(fabric, event->from);
    if (event->kind == EVENT_PACKET)
        memory_endpoint(fabric, event->to)->queue_used += (uint32_t)change;
    else
        memory_endpoint(fabric, event->to)->memory[event->memory].under_way += (uint32_t)change;
    if (event->kind == EVENT_PUT)
        from->puts_under_way += (uint32_t)change;
}

void memory_event_begin(struct memory_fabric *fabric, struct event *event)
{
    struct endpoint *from = memory_endpoint(fabric, event->from);
    event->own_number = from->events_begun++;
    event->number = fabric->event_number++;
    from->changes++;
    if (event->kind == EVENT_PUT && fabric->options.fault == MEMORY_FAULT_TEAR &&
        fabric->puts == fabric->options.fault_at)
        tear(fabric, event);
    if (suffer(fabric, event)) {
        free(event);
        return;
    }
    draw_time(fabric, event);
    account(fabric, event, 1);
    insert(fabric, event);
}

// ---- what they do ----

static void arrive(struct memory_fabric *fabric, struct event *event)
{
    struct endpoint *to = memory_endpoint(fabric, event->to);
    event->next = NULL;
    if (to->arrived)
        to->arrived_tail->next = event;
    else
        to->arrived = event;
    to->arrived_tail = event;
}

// The transfer belongs to an engine and may be looked at from then on.
static void finish(struct memory_fabric *fabric, struct event *event, int result)
{
    struct endpoint *from = memory_endpoint(fabric, event->from);
    from->learnt += memory_mix(event->own_number, (uint64_t)(int64_t)result);
    event->transfer->finished = (int16_t)result;
}

static void take_effect(struct memory_fabric *fabric, struct event *event)
{
    if (event->kind == EVENT_PACKET) {
        arrive(fabric, event);
        return;
    }
    account(fabric, event, -1);
    memory_endpoint(fabric, event->to)->net.puts += event->kind == EVENT_PUT;
    struct memory *memory = &memory_endpoint(fabric, event->to)->memory[event->memory];
    bool there = memory->live && memory->generation == event->generation;
    char *at = there ? memory->address + event->offset[0] : NULL;
    if (event->kind == EVENT_PUT && there) {
        memcpy(at, event->data, event->extent[0]);
        if (event->extent[1])
            memcpy(memory->address + event->offset[1], event->data + event->extent[0],
                   event->extent[1]);
    }
    if (event->kind == EVENT_GET && there)
        memcpy(event->local, at, event->extent[0]);
    if (event->kind == EVENT_BULK_PUT && there)
        memcpy(at, event->local, event->extent[0]);
    if (event->kind != EVENT_PUT)
        finish(fabric, event, there ? 1 : -ECONNRESET);
    free(event);
}

void memory_events_run(struct memory_fabric *fabric)
{
    while (fabric->event_count && fabric->event[0]->time <= fabric->now_ns) {
        struct event *event = fabric->event[0];
        fabric->event[0] = fabric->event[--fabric->event_count];
        heap_down(fabric->event, fabric->event_count, 0);
        take_effect(fabric, event);
    }
}

void memory_events_cut(struct memory_fabric *fabric, int rank)
{
    size_t kept = 0;
    for (size_t i = 0; i < fabric->event_count; i++) {
        struct event *event = fabric->event[i];
        if (event->from != rank && event->to != rank) {
            fabric->event[kept++] = event;
            continue;
        }
        account(fabric, event, -1);
        if (event->from != rank && event->transfer)
            finish(fabric, event, -ECONNRESET);
        free(event);
    }
    fabric->event_count = kept;
    for (size_t i = kept / 2; !fabric->options.manual && i-- > 0;)
        heap_down(fabric->event, kept, i);
}

// ---- without a clock ----

static bool may_happen(const struct memory_fabric *fabric, size_t at)
{
    const struct event *event = fabric->event[at];
    for (size_t i = 0; event->kind == EVENT_PACKET && i < at; i++) {
        const struct event *other = fabric->event[i];
        if (other->kind == EVENT_PACKET && !other->loose && other->from == event->from &&
            other->to == event->to)
            return false;
    }
    return true;
}

static size_t place_of(const struct memory_fabric *fabric, size_t choice)
{
    for (size_t i = 0; i < fabric->event_count; i++)
        if (may_happen(fabric, i) && choice-- == 0)
            return i;
    abort();
}

size_t memory_fabric_choices(const struct memory_fabric *fabric)
{
    size_t count = 0;
    for (size_t i = 0; i < fabric->event_count; i++)
        count += may_happen(fabric, i);
    return count;
}

void memory_fabric_deliver(struct memory_fabric *fabric, size_t choice)
{
    size_t at = place_of(fabric, choice);
    struct event *event = fabric->event[at];
    fabric->event_count--;
    memmove(fabric->event + at, fabric->event + at + 1,
            (fabric->event_count - at) * sizeof(struct event *));
    take_effect(fabric, event);
}

struct memory_choice memory_fabric_choice(const struct memory_fabric *fabric, size_t choice)
{
    const struct event *event = fabric->event[place_of(fabric, choice)];
    int rank = event->kind == EVENT_BULK_PUT ? -1
               : event->kind == EVENT_GET    ? event->from
                                             : event->to;
    return (struct memory_choice){rank, event->kind == EVENT_PACKET, event->number};
}

void memory_fabric_describe(const struct memory_fabric *fabric, size_t choice, char *text,
                            size_t room)
{
    static const char *const name[] = {"packet", "put", "get", "bulk put"};
    const struct event *event = fabric->event[place_of(fabric, choice)];
    snprintf(text, room, "%s %d>%d #%llu", name[event->kind], event->from, event->to,
             (unsigned long long)event->own_number);
}

uint64_t memory_fabric_hash(const struct memory_fabric *fabric)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < fabric->event_count; i++)
        sum += memory_mix(memory_mix(3, (uint64_t)fabric->event[i]->from),
                          fabric->event[i]->own_number);
    return sum;
}
