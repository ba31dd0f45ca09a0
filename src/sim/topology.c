// SPDX-License-Identifier: Apache-2.0
// What torus and cluster have in common: dead things, and ways around them; see topology.h.
//
// Where nothing is dead a route is what the topology computes. Else its routes of the same choice
// are tried in turn, and if all of them meet something dead the shortest way is searched breadth
// first.
//
// Advantage: a topology only has to know its regular routes. Disadvantage: a search looks at up to
// all vertices for one pair, so many pairs behind one dead link take long; and real machines, which
// have to keep their routes free of deadlock, may take longer ways.

#include "sim/topology.h"

#include "core/error.h"
#include "sim/cluster.h"
#include "sim/torus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERTEX_TEXT 48

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static bool holds(const uint32_t *sorted, int count, uint32_t number)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] == number)
            return true;
        if (sorted[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool sim_link_is_dead(const struct sim_topology *topology, uint32_t link)
{
    return holds(topology->dead_links, topology->dead_link_count, link);
}

bool sim_vertex_is_dead(const struct sim_topology *topology, uint32_t vertex)
{
    return holds(topology->dead_vertices, topology->dead_vertex_count, vertex);
}

static int resolve(struct sim_topology *topology, const struct sim_dead *dead)
{
    const struct sim_topology_ops *ops = topology->ops;
    int error;
    if (dead->is_link) {
        error =
            ops->find_link(topology, dead->text, &topology->dead_links[topology->dead_link_count]);
        topology->dead_link_count += error ? 0 : 2;
    } else {
        error = ops->find_vertex(topology, dead->text,
                                 &topology->dead_vertices[topology->dead_vertex_count]);
        topology->dead_vertex_count += !error;
    }
    if (error)
        return leat_fail(error, "%s:%d: expected %s, got '%s'", topology->machine->file, dead->line,
                         dead->is_link ? ops->link_form : ops->vertex_form, dead->text);
    return 0;
}

static int find_dead(struct sim_topology *topology)
{
    const struct sim_machine *machine = topology->machine;
    if (machine->dead_count == 0)
        return 0;
    topology->dead_links = calloc(2 * (size_t)machine->dead_count, sizeof(uint32_t));
    topology->dead_vertices = calloc((size_t)machine->dead_count, sizeof(uint32_t));
    if (!topology->dead_links || !topology->dead_vertices)
        return leat_fail(-ENOMEM, "%s: no memory for %d dead nodes and links", machine->file,
                         machine->dead_count);
    for (int i = 0; i < machine->dead_count; i++) {
        int error = resolve(topology, &machine->dead[i]);
        if (error)
            return error;
    }
    qsort(topology->dead_links, (size_t)topology->dead_link_count, sizeof(uint32_t),
          compare_numbers);
    qsort(topology->dead_vertices, (size_t)topology->dead_vertex_count, sizeof(uint32_t),
          compare_numbers);
    // A way around may be long, but not as long as a walk through all of the machine.
    topology->route_links_max = 4 * topology->route_links_max + 16;
    return 0;
}

int sim_topology_open(struct sim_topology *topology, const struct sim_machine *machine)
{
    memset(topology, 0, sizeof *topology);
    topology->machine = machine;
    int error = machine->kind == SIM_TORUS ? sim_torus_open(topology) : sim_cluster_open(topology);
    if (!error)
        error = find_dead(topology);
    if (error)
        sim_topology_close(topology);
    return error;
}

void sim_topology_close(struct sim_topology *topology)
{
    free(topology->dead_links);
    free(topology->dead_vertices);
    topology->dead_links = topology->dead_vertices = NULL;
    topology->dead_link_count = topology->dead_vertex_count = 0;
}

// ---- Routes ---------------------------------------------------------------------------------

static bool anything_dead(const struct sim_topology *topology)
{
    return topology->dead_link_count || topology->dead_vertex_count;
}

static bool is_alive(const struct sim_topology *topology, uint32_t link)
{
    struct sim_link ends;
    if (sim_link_is_dead(topology, link))
        return false;
    if (topology->dead_vertex_count == 0)
        return true;
    return sim_link_get(topology, link, &ends) == 0 && !sim_vertex_is_dead(topology, ends.to);
}

static bool all_alive(const struct sim_topology *topology, const uint32_t *links, int count)
{
    for (int i = 0; i < count; i++)
        if (!is_alive(topology, links[i]))
            return false;
    return true;
}

int sim_node_check(const struct sim_topology *topology, int node)
{
    if (!sim_vertex_is_dead(topology, (uint32_t)node))
        return 0;
    char text[VERTEX_TEXT];
    sim_vertex_text(topology, (uint32_t)node, text, sizeof text);
    const struct sim_machine *machine = topology->machine;
    int line = 0;
    for (int i = 0; i < machine->dead_count && !line; i++) {
        uint32_t vertex;
        if (!machine->dead[i].is_link &&
            topology->ops->find_vertex(topology, machine->dead[i].text, &vertex) == 0 &&
            vertex == (uint32_t)node)
            line = machine->dead[i].line;
    }
    return leat_fail(-EHOSTUNREACH, "node %s is dead (%s:%d); leave it out of the job", text,
                     machine->file, line);
}

static int too_long(int count, int links_max)
{
    return leat_fail(-ENOBUFS,
                     "a route takes %d links and there is room for %d; route_links_max "
                     "of the topology is always enough",
                     count, links_max);
}

static int route_around(const struct sim_topology *topology, int from, int to, uint32_t choice,
                        uint32_t *links, int links_max)
{
    int error = sim_node_check(topology, from);
    if (!error)
        error = sim_node_check(topology, to);
    if (error)
        return error;
    for (int attempt = 0;; attempt++) {
        int count = topology->ops->route(topology, from, to, choice, attempt, links, links_max);
        if (count == 0)
            return sim_route_search(topology, from, to, links, links_max);
        if (count > links_max)
            return too_long(count, links_max);
        if (all_alive(topology, links, count))
            return count;
    }
}

int sim_route(const struct sim_topology *topology, int from, int to, uint32_t choice,
              uint32_t *links, int links_max)
{
    int nodes = topology->node_count;
    if (from < 0 || from >= nodes || to < 0 || to >= nodes)
        return leat_fail(-EINVAL, "a route from node %d to %d: expected nodes from 0 to %d", from,
                         to, nodes - 1);
    if (from == to)
        return 0;
    if (anything_dead(topology))
        return route_around(topology, from, to, choice, links, links_max);
    int count = topology->ops->route(topology, from, to, choice, 0, links, links_max);
    return count <= links_max ? count : too_long(count, links_max);
}

int sim_hops(const struct sim_topology *topology, int from, int to)
{
    int nodes = topology->node_count;
    bool inside = from >= 0 && from < nodes && to >= 0 && to < nodes;
    if (inside && !anything_dead(topology))
        return topology->ops->hops(topology, from, to);
    uint32_t few[256];
    if (topology->route_links_max <= 256)
        return sim_route(topology, from, to, 0, few, 256);
    uint32_t *links = malloc((size_t)topology->route_links_max * sizeof *links);
    if (!links)
        return leat_fail(-ENOMEM, "no memory for a route of %d links", topology->route_links_max);
    int count = sim_route(topology, from, to, 0, links, topology->route_links_max);
    free(links);
    return count;
}

// ---- Search ---------------------------------------------------------------------------------

struct search {
    uint32_t *came_by; // [vertex_count] link, SIM_LINK_NONE: not reached
    uint32_t *queue;   // [vertex_count]
};

static bool search_to(const struct sim_topology *topology, uint32_t from, uint32_t to,
                      const struct search *search)
{
    uint32_t head = 0, tail = 0;
    search->queue[tail++] = from;
    while (head < tail && search->came_by[to] == SIM_LINK_NONE) {
        uint32_t at = search->queue[head++];
        uint32_t count = topology->ops->out_count(topology, at);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t link = topology->ops->out_link(topology, at, i);
            struct sim_link ends;
            if (link == SIM_LINK_NONE || !is_alive(topology, link) ||
                sim_link_get(topology, link, &ends) != 0)
                continue;
            if (ends.to == from || search->came_by[ends.to] != SIM_LINK_NONE)
                continue;
            if (at != from && topology->ops->passes &&
                !topology->ops->passes(topology, search->came_by[at], link))
                continue;
            search->came_by[ends.to] = link;
            search->queue[tail++] = ends.to;
        }
    }
    return search->came_by[to] != SIM_LINK_NONE;
}

static int walk_back(const struct sim_topology *topology, uint32_t from, uint32_t to,
                     const uint32_t *came_by, uint32_t *links, int links_max)
{
    int count = 0;
    struct sim_link ends;
    for (uint32_t at = to; at != from; at = ends.from, count++)
        if (sim_link_get(topology, came_by[at], &ends) != 0)
            return leat_fail(-EPROTO, "link %u of a route does not exist", came_by[at]);
    if (count > links_max)
        return too_long(count, links_max);
    int i = count;
    for (uint32_t at = to; at != from; at = ends.from) {
        links[--i] = came_by[at];
        sim_link_get(topology, came_by[at], &ends);
    }
    return count;
}

static int no_way(const struct sim_topology *topology, int from, int to)
{
    char from_text[VERTEX_TEXT], to_text[VERTEX_TEXT];
    sim_vertex_text(topology, (uint32_t)from, from_text, sizeof from_text);
    sim_vertex_text(topology, (uint32_t)to, to_text, sizeof to_text);
    const struct sim_machine *machine = topology->machine;
    return leat_fail(-EHOSTUNREACH,
                     "what %s declares dead in lines %d to %d leaves no way from node %s to %s",
                     machine->file, machine->dead[0].line,
                     machine->dead[machine->dead_count - 1].line, from_text, to_text);
}

int sim_route_search(const struct sim_topology *topology, int from, int to, uint32_t *links,
                     int links_max)
{
    size_t bytes = (size_t)topology->vertex_count * sizeof(uint32_t);
    struct search search = {.came_by = malloc(bytes), .queue = malloc(bytes)};
    int result;
    if (!search.came_by || !search.queue) {
        result = leat_fail(-ENOMEM, "no memory to look for a way through %u vertices",
                           topology->vertex_count);
    } else {
        memset(search.came_by, 0xff, bytes); // SIM_LINK_NONE everywhere
        if (search_to(topology, (uint32_t)from, (uint32_t)to, &search))
            result =
                walk_back(topology, (uint32_t)from, (uint32_t)to, search.came_by, links, links_max);
        else
            result = no_way(topology, from, to);
    }
    free(search.came_by);
    free(search.queue);
    return result;
}

// ---- Links and names ------------------------------------------------------------------------

int sim_link_get(const struct sim_topology *topology, uint32_t link, struct sim_link *out)
{
    return link < topology->link_count ? topology->ops->link(topology, link, out) : -ENOENT;
}

int sim_neighbours(const struct sim_topology *topology, int node, int *nodes, int nodes_max)
{
    if (node < 0 || node >= topology->node_count)
        return leat_fail(-EINVAL, "neighbours of node %d: expected a node from 0 to %d", node,
                         topology->node_count - 1);
    return topology->ops->neighbours(topology, node, nodes, nodes_max);
}

double sim_route_ns(const struct sim_topology *topology, const uint32_t *links, int count)
{
    double ns = topology->base_ns;
    for (int i = 0; i < count; i++) {
        struct sim_link link;
        if (sim_link_get(topology, links[i], &link) == 0)
            ns += link.latency_ns;
    }
    return ns;
}

void sim_vertex_text(const struct sim_topology *topology, uint32_t vertex, char *text,
                     size_t text_bytes)
{
    if (vertex < topology->vertex_count)
        topology->ops->describe(topology, vertex, text, text_bytes);
    else
        snprintf(text, text_bytes, "vertex %u, which does not exist", vertex);
}

void sim_link_text(const struct sim_topology *topology, uint32_t link, char *text,
                   size_t text_bytes)
{
    struct sim_link ends;
    if (sim_link_get(topology, link, &ends) != 0) {
        snprintf(text, text_bytes, "link %u, which does not exist", link);
        return;
    }
    char from[VERTEX_TEXT], to[VERTEX_TEXT];
    sim_vertex_text(topology, ends.from, from, sizeof from);
    sim_vertex_text(topology, ends.to, to, sizeof to);
    snprintf(text, text_bytes, "%s to %s", from, to);
}
