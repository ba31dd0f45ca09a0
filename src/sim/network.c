// SPDX-License-Identifier: Apache-2.0
// The modelled network: see network.h.
//
// Algorithm: a queue a node, started by whoever visits the node. Advantage: who waits for a busy
// link holds up nobody else. Disadvantage: a node's queue is walked from its beginning each time.

#include "sim/network_internal.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t ps_of(double ns)
{
    return (uint64_t)(ns * 1000 + 0.5);
}

static double ps_per_byte(double gb_per_s)
{
    return gb_per_s > 0 ? 1000 / gb_per_s : 0;
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

int sim_network_route(struct sim_network *network, int from, int to, uint32_t choice)
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
    way->link_count = sim_network_route(network, from, to, sim_choice_of(from, to));
    if (way->link_count > 0)
        way->link = way->other_link = network->route[0];
    if (way->link_count != 1)
        return way;
    // Two nodes may be joined by two links.
    for (uint32_t choice = 0; choice < 2; choice++)
        if (sim_network_route(network, from, to, choice) == 1 && network->route[0] != way->link)
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
    int count = sim_network_route(network, from, to, sim_choice_of(from, to));
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
    return index == SIM_LINK_NONE ? now_ps : sim_later(now_ps, network->link[index].bulk_free_ps);
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
    uint64_t end = now_ps + sim_time_of(bytes, slowest);
    end = sim_later(end, sim_take_path(&interface->sent_path_ps, now_ps, bytes, network->path_ps));
    end = sim_later(end, sim_take_path(&interface->both_path_ps, now_ps, bytes, network->both_ps));
    *interface_end = end;
    if (index != SIM_LINK_NONE) {
        network->link[index].bulk_free_ps = end;
        network->link[index].bytes += bytes;
        network->link[index].waited = network->link[index].passed = false;
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
        network->link[at->link].waited = true;
        if (free_ps < *next_ps)
            *next_ps = free_ps;
    }
    return NULL;
}

void sim_network_go_on(struct sim_network *network, int rank, uint64_t now_ps)
{
    struct sim_interface *interface = &network->interface[rank];
    uint64_t *ends = sim_ends_of(network, rank, 0);
    interface->next_ps = SIM_NEVER;
    while (interface->queue) {
        uint64_t *end = sim_first_free(network, ends), next_ps;
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
