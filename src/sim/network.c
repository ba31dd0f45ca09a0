// SPDX-License-Identifier: Apache-2.0
// The modelled network: see network.h.
//
// Algorithm: a queue a node, started by whoever visits the node; starts of a window sorted by time
// (radix sort, stable) and walked along their routes. Advantage: neighbours' traffic touches one
// link and two nodes. Disadvantage: a long route is computed for each piece.

#include "sim/network.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAR_AHEAD  8
#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

static uint64_t ps_of(double ns)
{
    return (uint64_t)(ns * 1000 + 0.5);
}

static uint64_t time_of(uint64_t bytes, double ps_per_byte)
{
    return (uint64_t)((double)bytes * ps_per_byte + 0.5);
}

static double ps_per_byte(double gb_per_s)
{
    return gb_per_s > 0 ? 1000 / gb_per_s : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// ---- Opening ----

static uint64_t least_link_ps(const struct sim_topology *topology)
{
    double least = -1;
    struct sim_link link;
    for (uint32_t i = 0; i < topology->link_count; i++)
        if (!sim_link_get(topology, i, &link) && (least < 0 || link.latency_ns < least))
            least = link.latency_ns;
    return least < 0 ? 0 : ps_of(least);
}

uint64_t sim_network_least_ps(const struct sim_topology *topology)
{
    return ps_of(topology->base_ns) + least_link_ps(topology);
}

static int check(const struct sim_network *network)
{
    const struct sim_machine *machine = network->topology->machine;
    if (machine->tni_count < 1)
        return leat_fail(-EINVAL, "%s: a node has %d network interfaces; it needs one at least",
                         machine->file, machine->tni_count);
    if (!network->least_ps)
        return leat_fail(-EINVAL,
                         "%s: a message between some nodes takes no time at all; give links or "
                         "messages a latency",
                         machine->file);
    return 0;
}

static void open_links(struct sim_network *network)
{
    struct sim_link link;
    for (uint32_t i = 0; i < network->topology->link_count; i++) {
        if (sim_link_get(network->topology, i, &link))
            continue;
        network->link[i].latency_ps = ps_of(link.latency_ns);
        network->link[i].ps_per_byte = ps_per_byte(link.gb_per_s);
    }
}

int sim_network_open(struct sim_network *network, const struct sim_topology *topology,
                     const int32_t *node, int rank_count, struct sim_agenda *agenda)
{
    const struct sim_machine *machine = topology->machine;
    size_t ranks = (size_t)rank_count;
    *network = (struct sim_network){.topology = topology,
                                    .agenda = agenda,
                                    .rank_count = rank_count,
                                    .node = node,
                                    .base_ps = ps_of(topology->base_ns),
                                    .least_ps = sim_network_least_ps(topology),
                                    .interface_ps = ps_per_byte(machine->tni_gb_per_s),
                                    .path_ps = ps_per_byte(machine->node_gb_per_s),
                                    .both_ps = ps_per_byte(machine->node_both_gb_per_s),
                                    .interfaces = machine->tni_count,
                                    .small_bytes = machine->packet_bytes};
    int error = check(network);
    if (error)
        return error;
    network->link = calloc(topology->link_count, sizeof *network->link);
    network->interface = calloc(ranks, sizeof *network->interface);
    network->ends = calloc(ranks * 2 * (size_t)network->interfaces, sizeof *network->ends);
    network->ways = calloc(ranks, sizeof *network->ways);
    network->route = calloc((size_t)topology->route_links_max + 1, sizeof *network->route);
    if (!network->link || !network->interface || !network->ends || !network->ways ||
        !network->route) {
        sim_network_close(network);
        return leat_fail(-ENOMEM, "no memory for the links of %s", machine->name);
    }
    open_links(network);
    for (size_t i = 0; i < ranks; i++) {
        network->interface[i].next_ps = SIM_NEVER;
        memset(network->ways[i].to, -1, sizeof network->ways[i].to);
    }
    return 0;
}

void sim_network_close(struct sim_network *network)
{
    free(network->link);
    free(network->interface);
    free(network->ends);
    free(network->ways);
    free(network->route);
    free(network->start);
    free(network->sorted);
    free(network->order);
    while (network->head_count)
        free(network->head[--network->head_count]);
    while (network->free_heads) {
        struct sim_head *head = network->free_heads;
        network->free_heads = head->next;
        free(head);
    }
    free(network->head);
    *network = (struct sim_network){.rank_count = 0};
}

// ---- Routes ----

// Traffic of different pairs spreads over routes that are equally good.
static uint32_t choice_of(int from, int to)
{
    return ((uint32_t)from * 2654435761u ^ (uint32_t)to * 2246822519u) >> 16;
}

static int find_route(struct sim_network *network, int from, int to, uint32_t choice)
{
    int count = sim_route(network->topology, network->node[from], network->node[to], choice,
                          network->route, network->topology->route_links_max);
    if (count < 0 && !network->error)
        network->error = count;
    return count;
}

static const struct sim_way *way_to(struct sim_network *network, int from, int to)
{
    struct sim_ways *ways = &network->ways[from];
    for (int i = 0; i < SIM_WAYS_KEPT; i++)
        if (ways->to[i] == to)
            return &ways->way[i];
    struct sim_way *way = &ways->way[ways->oldest];
    ways->to[ways->oldest] = to;
    ways->oldest = (ways->oldest + 1) % SIM_WAYS_KEPT;
    way->link = way->other_link = SIM_LINK_NONE;
    way->link_count = find_route(network, from, to, choice_of(from, to));
    if (way->link_count > 0)
        way->link = way->other_link = network->route[0];
    if (way->link_count != 1)
        return way;
    // Two nodes may be joined by two links.
    for (uint32_t choice = 0; choice < 2; choice++)
        if (find_route(network, from, to, choice) == 1 && network->route[0] != way->link)
            way->other_link = network->route[0];
    return way;
}

int sim_network_hops(struct sim_network *network, int from, int to)
{
    return way_to(network, from, to)->link_count;
}

uint64_t sim_network_latency_ps(struct sim_network *network, int from, int to)
{
    if (from == to)
        return network->least_ps;
    int count = find_route(network, from, to, choice_of(from, to));
    uint64_t sum = network->base_ps;
    for (int i = 0; i < count; i++)
        sum += network->link[network->route[i]].latency_ps;
    return sum;
}

// ---- Starting ----

static struct sim_start *new_start(struct sim_network *network)
{
    if (network->start_count == network->start_capacity) {
        size_t capacity = network->start_capacity ? 2 * network->start_capacity : 1024;
        struct sim_start *grown = realloc(network->start, capacity * sizeof *grown);
        struct sim_start *sorted =
            grown ? realloc(network->sorted, capacity * sizeof *sorted) : NULL;
        if (grown)
            network->start = grown;
        if (!sorted) {
            if (!network->error)
                network->error = leat_fail(-ENOMEM, "no memory for %zu transfers", capacity);
            return NULL;
        }
        network->sorted = sorted;
        network->start_capacity = capacity;
    }
    return &network->start[network->start_count++];
}

void sim_network_send(struct sim_network *network, struct sim_transfer *transfer, uint64_t at_ps)
{
    const struct sim_way *way = way_to(network, transfer->from, transfer->to);
    struct sim_start *start = new_start(network);
    if (!start || way->link_count < 0)
        return;
    *start = (struct sim_start){.at_ps = at_ps,
                                .end_ps = at_ps,
                                .transfer = transfer,
                                .bytes = (uint32_t)transfer->bytes,
                                .link = way->link,
                                .alone = way->link_count == 1,
                                .last = true};
    network->interface[transfer->from].bytes_sent += transfer->bytes;
    // There has to be a window for it.
    if (at_ps >= sim_agenda_end(network->agenda))
        sim_agenda_mark(network->agenda, transfer->from, at_ps);
}

static void enqueue(struct sim_interface *interface, struct sim_transfer *transfer)
{
    transfer->next = NULL;
    if (interface->queue)
        interface->queue_tail->next = transfer;
    else
        interface->queue = transfer;
    interface->queue_tail = transfer;
}

static uint64_t link_free(const struct sim_network *network, uint32_t index, uint64_t now_ps)
{
    return index == SIM_LINK_NONE ? now_ps : later(now_ps, network->link[index].bulk_free_ps);
}

static uint64_t *ends_of(const struct sim_network *network, int rank, int receiving)
{
    return network->ends + ((size_t)rank * 2 + (size_t)receiving) * (size_t)network->interfaces;
}

static uint64_t *first_free(const struct sim_network *network, uint64_t *ends)
{
    uint64_t *least = ends;
    for (int i = 1; i < network->interfaces; i++)
        if (ends[i] < *least)
            least = &ends[i];
    return least;
}

// The node's path works on one piece after the other.
static uint64_t take_path(uint64_t *path_ps, uint64_t from_ps, uint64_t bytes, double ps)
{
    if (ps <= 0)
        return from_ps;
    *path_ps = later(*path_ps, from_ps) + time_of(bytes, ps);
    return *path_ps;
}

static void start_piece(struct sim_network *network, struct sim_transfer *transfer,
                        uint64_t *interface_end, uint64_t now_ps)
{
    struct sim_interface *interface = &network->interface[transfer->from];
    uint64_t bytes = transfer->left < SIM_PIECE_BYTES ? transfer->left : SIM_PIECE_BYTES;
    uint32_t index = transfer->link;
    double slowest = network->interface_ps;
    if (index != SIM_LINK_NONE && network->link[index].ps_per_byte > slowest)
        slowest = network->link[index].ps_per_byte;
    uint64_t end = now_ps + time_of(bytes, slowest);
    end = later(end, take_path(&interface->sent_path_ps, now_ps, bytes, network->path_ps));
    end = later(end, take_path(&interface->both_path_ps, now_ps, bytes, network->both_ps));
    *interface_end = end;
    if (index != SIM_LINK_NONE) {
        network->link[index].bulk_free_ps = end;
        network->link[index].bytes += bytes;
    }
    interface->bytes_sent += bytes;
    transfer->left -= bytes;
    struct sim_start *start = new_start(network);
    if (!start)
        return;
    *start = (struct sim_start){.at_ps = now_ps,
                                .end_ps = end,
                                .transfer = transfer,
                                .bytes = (uint32_t)bytes,
                                .link = index,
                                .alone = transfer->alone,
                                .last = !transfer->left,
                                .bulk = true};
}

// The first one in the queue whose link is free, taken out; otherwise when one will be.
static struct sim_transfer *take_ready(struct sim_network *network, struct sim_interface *interface,
                                       uint64_t now_ps, uint64_t *next_ps)
{
    struct sim_transfer *before = NULL;
    *next_ps = SIM_NEVER;
    for (struct sim_transfer *at = interface->queue; at; before = at, at = at->next) {
        uint64_t free_ps = link_free(network, at->link, now_ps);
        if (free_ps > now_ps && at->other_link != at->link) {
            uint32_t link = at->link;
            at->link = at->other_link;
            at->other_link = link;
            uint64_t other_ps = link_free(network, at->link, now_ps);
            free_ps = other_ps < free_ps ? other_ps : free_ps;
        }
        if (free_ps <= now_ps) {
            if (before)
                before->next = at->next;
            else
                interface->queue = at->next;
            if (interface->queue_tail == at)
                interface->queue_tail = before;
            return at;
        }
        if (free_ps < *next_ps)
            *next_ps = free_ps;
    }
    return NULL;
}

void sim_network_go_on(struct sim_network *network, int rank, uint64_t now_ps)
{
    struct sim_interface *interface = &network->interface[rank];
    uint64_t *ends = ends_of(network, rank, 0);
    interface->next_ps = SIM_NEVER;
    while (interface->queue) {
        uint64_t *end = first_free(network, ends), next_ps;
        if (*end > now_ps) {
            interface->next_ps = *end;
            return;
        }
        struct sim_transfer *transfer = take_ready(network, interface, now_ps, &next_ps);
        if (!transfer) {
            interface->next_ps = next_ps;
            return;
        }
        start_piece(network, transfer, end, now_ps);
        // The rest comes after what was there before.
        if (transfer->left)
            enqueue(interface, transfer);
    }
}

void sim_network_send_bulk(struct sim_network *network, struct sim_transfer *transfer,
                           uint64_t now_ps)
{
    const struct sim_way *way = way_to(network, transfer->from, transfer->to);
    if (way->link_count < 0)
        return;
    transfer->link = way->link;
    transfer->other_link = way->other_link;
    transfer->alone = way->link_count == 1;
    transfer->left = transfer->bytes;
    enqueue(&network->interface[transfer->from], transfer);
    sim_network_go_on(network, transfer->from, now_ps);
}

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
    uint64_t done = head + later(time_of(start->bytes, slowest), start->end_ps - start->at_ps);
    if (start->bulk) {
        uint64_t *end = first_free(network, ends_of(network, transfer->to, 1));
        done = later(done, later(head, *end) + time_of(start->bytes, network->interface_ps));
        done = later(done,
                     take_path(&interface->received_path_ps, head, start->bytes, network->path_ps));
        done =
            later(done, take_path(&interface->both_path_ps, head, start->bytes, network->both_ps));
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
        uint64_t time = time_of(start->bytes, link->ps_per_byte);
        head = later(head, link->small_free_ps);
        if (link->bulk_free_ps > head) {
            // A packet of bulk is on its way, which this one in turn delays.
            if (link->small_free_ps < head)
                head += time_of(network->small_bytes, link->ps_per_byte) / 2;
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
    uint64_t from = later(head->at_ps, link->bulk_free_ps);
    link->bulk_free_ps = from + time_of(head->start.bytes, link->ps_per_byte);
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
    int count =
        find_route(network, transfer->from, transfer->to, choice_of(transfer->from, transfer->to));
    struct sim_head *head = start->bulk && count > 0 ? new_head(network) : NULL;
    if (!head) {
        uint64_t head_ps = walk_small(network, start, network->route, count, &slowest);
        arrive(network, start, head_ps, slowest);
        return;
    }
    const struct sim_link_state *link = &network->link[network->route[0]];
    head->start = *start;
    head->at = 1;
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
        __builtin_prefetch(ends_of(network, to, 1));
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
