// SPDX-License-Identifier: Apache-2.0
// The modelled network, from what has started to what arrives: see network.h.
//
// Algorithm: starts of a window sorted by time (radix sort, stable) and walked along their routes;
// a piece with more links to go is a head in a heap, by the time at which it comes to the next one.
// Advantage: neighbours' traffic touches one link and two nodes. Disadvantage: a long route is
// computed for each piece.

#include "core/error.h"
#include "sim/network_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAR_AHEAD  8
#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

// ---- Heads that are under way ----

static bool sooner(const struct sim_head *a, const struct sim_head *b)
{
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->number < b->number;
}

// False: no memory.
static bool add_head(struct sim_network *network, struct sim_head *head)
{
    if (network->head_count == network->head_capacity) {
        size_t capacity = network->head_capacity ? 2 * network->head_capacity : 256;
        struct sim_head **grown = realloc(network->head, capacity * sizeof(struct sim_head *));
        if (!grown) {
            if (!network->error)
                network->error = leat_fail(-ENOMEM, "no memory for %zu routes", capacity);
            return false;
        }
        network->head = grown;
        network->head_capacity = capacity;
    }
    head->number = network->head_number++;
    size_t at = network->head_count++;
    for (; at && sooner(head, network->head[(at - 1) / 2]); at = (at - 1) / 2)
        network->head[at] = network->head[(at - 1) / 2];
    network->head[at] = head;
    return true;
}

static struct sim_head *take_head(struct sim_network *network)
{
    struct sim_head **heap = network->head, *taken = heap[0], *last = heap[--network->head_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < network->head_count; at = child) {
        if (child + 1 < network->head_count && sooner(heap[child + 1], heap[child]))
            child++;
        if (!sooner(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return taken;
}

// ---- Arriving ----

// The head has left the last link at `head_ps`.
static void arrive(struct sim_network *network, const struct sim_start *start, uint64_t head_ps,
                   double slowest)
{
    struct sim_transfer *transfer = start->transfer;
    struct sim_interface *interface = &network->interface[transfer->to];
    uint64_t head = head_ps + network->base_ps;
    if (transfer->from == transfer->to)
        head = start->at_ps + network->least_ps;
    uint64_t done =
        head + sim_later(sim_time_of(start->bytes, slowest), start->end_ps - start->at_ps);
    if (start->bulk) {
        uint64_t *end = sim_first_free(network, sim_ends_of(network, transfer->to, 1));
        done = sim_later(done,
                         sim_later(head, *end) + sim_time_of(start->bytes, network->interface_ps));
        done = sim_later(done, sim_take_path(&interface->received_path_ps, head, start->bytes,
                                             network->path_ps));
        done = sim_later(
            done, sim_take_path(&interface->both_path_ps, head, start->bytes, network->both_ps));
        *end = done;
    }
    interface->bytes_received += start->bytes;
    network->bytes += start->bytes;
    if (!start->last)
        return;
    network->transfers++;
    transfer->event.at_ps = done;
    if (sim_agenda_add(network->agenda, transfer->to, &transfer->event) && !network->error)
        network->error = leat_fail(-ENOMEM, "no memory for what comes to rank %d", transfer->to);
}

static uint64_t walk_small(struct sim_network *network, const struct sim_start *start,
                           const uint32_t *route, int count, double *slowest)
{
    uint64_t head = start->at_ps;
    for (int i = 0; i < count; i++) {
        struct sim_link_state *link = &network->link[route[i]];
        uint64_t time = sim_time_of(start->bytes, link->ps_per_byte);
        head = sim_later(head, link->small_free_ps);
        if (link->bulk_free_ps > head) {
            // A packet of bulk is on its way, which this one in turn delays.
            if (link->small_free_ps < head)
                head += sim_time_of(network->small_bytes, link->ps_per_byte) / 2;
            link->bulk_free_ps += time;
        }
        link->small_free_ps = head + time;
        link->bytes += start->bytes;
        head += link->latency_ps;
        if (link->ps_per_byte > *slowest)
            *slowest = link->ps_per_byte;
    }
    return head;
}

static struct sim_head *new_head(struct sim_network *network)
{
    struct sim_head *head = network->free_heads;
    if (head) {
        network->free_heads = head->next;
        return head;
    }
    head =
        malloc(sizeof *head + ((size_t)network->topology->route_links_max + 1) * sizeof(uint32_t));
    if (!head && !network->error)
        network->error = leat_fail(-ENOMEM, "no memory for a route");
    return head;
}

static void free_head(struct sim_network *network, struct sim_head *head)
{
    head->next = network->free_heads;
    network->free_heads = head;
}

// The head comes to its next link, and waits there until those before it are through.
static void step(struct sim_network *network, struct sim_head *head)
{
    struct sim_link_state *link = &network->link[head->route[head->at]];
    if (link->waited && link->passed && !head->yielded && link->bulk_free_ps > head->at_ps) {
        // It is the turn of the node's own traffic, if that is still there when the link is free.
        head->yielded = true;
        head->at_ps = link->bulk_free_ps + 1;
        if (add_head(network, head))
            return;
    }
    head->yielded = false;
    link->passed = true;
    uint64_t from = sim_later(head->at_ps, link->bulk_free_ps);
    link->bulk_free_ps = from + sim_time_of(head->start.bytes, link->ps_per_byte);
    link->bytes += head->start.bytes;
    if (link->ps_per_byte > head->slowest)
        head->slowest = link->ps_per_byte;
    head->at_ps = from + link->latency_ps;
    if (++head->at < head->count && add_head(network, head))
        return;
    arrive(network, &head->start, head->at_ps, head->slowest);
    free_head(network, head);
}

static void begin_far(struct sim_network *network, const struct sim_start *start)
{
    const struct sim_transfer *transfer = start->transfer;
    double slowest = 0;
    int count = sim_network_route(network, transfer->from, transfer->to,
                                  sim_choice_of(transfer->from, transfer->to));
    struct sim_head *head = start->bulk && count > 0 ? new_head(network) : NULL;
    if (!head) {
        uint64_t head_ps = walk_small(network, start, network->route, count, &slowest);
        arrive(network, start, head_ps, slowest);
        return;
    }
    const struct sim_link_state *link = &network->link[network->route[0]];
    head->start = *start;
    head->at = 1;
    head->yielded = false;
    head->count = count;
    head->slowest = link->ps_per_byte;
    head->at_ps = start->at_ps + link->latency_ps;
    memcpy(head->route, network->route, (size_t)count * sizeof *head->route);
    if (!add_head(network, head))
        free_head(network, head);
}

static void begin(struct sim_network *network, const struct sim_start *start)
{
    if (!start->alone) {
        begin_far(network, start);
        return;
    }
    const struct sim_link_state *link = &network->link[start->link];
    double slowest = link->ps_per_byte;
    uint64_t head_ps = start->at_ps + link->latency_ps;
    if (!start->bulk)
        head_ps = walk_small(network, start, &start->link, 1, &slowest);
    arrive(network, start, head_ps, slowest);
}

// Orders the starts of this window by time; the others stay. Returns how many there are.
static size_t sort_starts(struct sim_network *network)
{
    uint64_t end = sim_agenda_end(network->agenda), begin = network->agenda->begin_ps;
    size_t now = 0, kept = 0;
    for (size_t i = 0; i < network->start_count; i++)
        if (network->start[i].at_ps < end)
            network->sorted[now++] = network->start[i];
        else
            network->start[kept++] = network->start[i];
    network->start_count = kept;
    if (network->order_capacity < 4 * now) {
        free(network->order);
        network->order_capacity = 8 * now;
        network->order = malloc(network->order_capacity * sizeof *network->order);
        if (!network->order) {
            network->order_capacity = 0;
            network->error = leat_fail(-ENOMEM, "no memory to order %zu transfers", now);
            return 0;
        }
    }
    uint32_t *key = network->order, *place = key + now, *key_to = place + now,
             *place_to = key_to + now;
    for (size_t i = 0; i < now; i++) {
        key[i] = (uint32_t)(network->sorted[i].at_ps - begin);
        place[i] = (uint32_t)i;
    }
    for (unsigned shift = 0; network->agenda->window_ps >> shift; shift += DIGIT_BITS) {
        uint32_t count[DIGITS] = {0}, sum = 0;
        for (size_t i = 0; i < now; i++)
            count[key[i] >> shift & (DIGITS - 1)]++;
        for (uint32_t d = 0; d < DIGITS; d++) {
            uint32_t here = count[d];
            count[d] = sum;
            sum += here;
        }
        for (size_t i = 0; i < now; i++) {
            uint32_t at = count[key[i] >> shift & (DIGITS - 1)]++;
            key_to[at] = key[i];
            place_to[at] = place[i];
        }
        uint32_t *swap = key;
        key = key_to;
        key_to = swap;
        swap = place;
        place = place_to;
        place_to = swap;
    }
    // The caller reads the order at the beginning.
    if (place != network->order)
        memmove(network->order, place, now * sizeof *place);
    return now;
}

// Receivers come in any order, so their memory is asked for ahead.
static void fetch_ahead(const struct sim_network *network, size_t at, size_t count)
{
    if (at + FAR_AHEAD < count) {
        int to = network->sorted[network->order[at + FAR_AHEAD]].transfer->to;
        __builtin_prefetch(&network->interface[to]);
        __builtin_prefetch(sim_ends_of(network, to, 1));
        __builtin_prefetch(&network->agenda->dues[to]);
        __builtin_prefetch(&network->agenda->first_dues[(size_t)to * SIM_DUE_FIRST]);
    }
    if (at + 2 * FAR_AHEAD < count)
        __builtin_prefetch(network->sorted[network->order[at + 2 * FAR_AHEAD]].transfer);
}

void sim_network_settle(struct sim_network *network)
{
    uint64_t end_ps = sim_agenda_end(network->agenda);
    size_t count = network->start_count ? sort_starts(network) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct sim_start *start = &network->sorted[network->order[i]];
        while (network->head_count && network->head[0]->at_ps < start->at_ps)
            step(network, take_head(network));
        fetch_ahead(network, i, count);
        begin(network, start);
    }
    while (network->head_count && network->head[0]->at_ps < end_ps)
        step(network, take_head(network));
    // There has to be a window for the others.
    if (network->head_count)
        sim_agenda_mark(network->agenda, network->head[0]->start.transfer->to,
                        network->head[0]->at_ps);
}
