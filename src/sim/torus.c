// SPDX-License-Identifier: Apache-2.0
// Torus or mesh of up to six axes: coordinates, links, routes; see torus.h.
//
// A node has a port for each direction of each axis, or one where a single link joins a side of 2;
// a link's number is its node's times the ports plus the port. At the open ends of a mesh a number
// stands for no link.
//
// Advantage: everything follows from the number. Disadvantage: a division by each side for every
// question.

#include "sim/torus.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sim_torus_shape *shape_of(const struct sim_topology *topology)
{
    return &topology->machine->torus;
}

static bool one_link(const struct sim_torus_shape *shape, int axis)
{
    return shape->side[axis] == 2 && !shape->wrap[axis];
}

static int ports_of(const struct sim_torus_shape *shape, int axis)
{
    return shape->side[axis] == 1 ? 0 : one_link(shape, axis) ? 1 : 2;
}

static int port_count(const struct sim_torus_shape *shape)
{
    int count = 0;
    for (int axis = 0; axis < shape->axis_count; axis++)
        count += ports_of(shape, axis);
    return count;
}

static int stride_of(const struct sim_torus_shape *shape, int axis)
{
    int stride = 1;
    for (int i = axis + 1; i < shape->axis_count; i++)
        stride *= shape->side[i];
    return stride;
}

void sim_torus_coordinates(const struct sim_torus_shape *shape, int node, int *coordinates)
{
    for (int axis = shape->axis_count - 1; axis >= 0; axis--) {
        coordinates[axis] = node % shape->side[axis];
        node /= shape->side[axis];
    }
}

int sim_torus_node(const struct sim_torus_shape *shape, const int *coordinates)
{
    int node = 0;
    for (int axis = 0; axis < shape->axis_count; axis++)
        node = node * shape->side[axis] + coordinates[axis];
    return node;
}

// The port of an axis and direction, or -1 where the way from coordinate `at` is not there.
static int port_of(const struct sim_torus_shape *shape, int axis, int direction, int at)
{
    int side = shape->side[axis];
    if (side == 1)
        return -1;
    if (side > 2 && !shape->wrap[axis] && at == (direction > 0 ? side - 1 : 0))
        return -1;
    int port = direction < 0 && !one_link(shape, axis);
    for (int i = 0; i < axis; i++)
        port += ports_of(shape, i);
    return port;
}

uint32_t sim_torus_link(const struct sim_torus_shape *shape, int node, int axis, int direction)
{
    int at = node / stride_of(shape, axis) % shape->side[axis];
    int port = port_of(shape, axis, direction, at);
    return port < 0 ? SIM_LINK_NONE : (uint32_t)node * (uint32_t)port_count(shape) + (uint32_t)port;
}

// Steps from one coordinate to another the shorter way, negative in - direction; `tied` tells that
// both ways are equally long.
static int steps_between(const struct sim_torus_shape *shape, int axis, int from, int to,
                         bool *tied)
{
    int side = shape->side[axis], steps = to - from;
    *tied = false;
    if (!shape->wrap[axis])
        return steps;
    if (steps < 0)
        steps += side;
    *tied = steps * 2 == side;
    return steps * 2 > side ? steps - side : steps;
}

int sim_torus_distance(const struct sim_torus_shape *shape, int from, int to)
{
    int distance = 0;
    for (int axis = shape->axis_count - 1; axis >= 0; axis--) {
        int side = shape->side[axis];
        bool tied;
        distance += abs(steps_between(shape, axis, from % side, to % side, &tied));
        from /= side;
        to /= side;
    }
    return distance;
}

// ---- Routes ---------------------------------------------------------------------------------

// The `number`-th order of the axes, 0 being that of the machine; false: there are no more.
static bool axis_order(int number, int axis_count, int *order)
{
    bool taken[SIM_AXES_MAX] = {false};
    int orders = 1;
    for (int i = 2; i <= axis_count; i++)
        orders *= i;
    if (number >= orders)
        return false;
    for (int place = 0; place < axis_count; place++) {
        orders /= axis_count - place;
        int skip = number / orders;
        number %= orders;
        int axis = 0;
        while (taken[axis] || skip-- > 0)
            axis++;
        taken[axis] = true;
        order[place] = axis;
    }
    return true;
}

// Walks `steps` along an axis from `node`, whose coordinate there is `at`, and returns the new
// node.
static int walk(const struct sim_torus_shape *shape, int node, int axis, int at, int steps,
                uint32_t *links, int *count, int links_max)
{
    if (steps == 0)
        return node;
    int direction = steps < 0 ? -1 : 1, side = shape->side[axis], stride = stride_of(shape, axis);
    uint32_t ports = (uint32_t)port_count(shape);
    // A route never runs into the open end of a mesh, so the port is the same at every node.
    uint32_t port = (uint32_t)port_of(shape, axis, direction, at);
    for (; steps != 0; steps -= direction, ++*count) {
        if (*count < links_max)
            links[*count] = (uint32_t)node * ports + port;
        int next = (at + direction + side) % side;
        node += (next - at) * stride;
        at = next;
    }
    return node;
}

static int route(const struct sim_topology *topology, int from, int to, uint32_t choice,
                 int attempt, uint32_t *links, int links_max)
{
    const struct sim_torus_shape *shape = shape_of(topology);
    int at[SIM_AXES_MAX], end[SIM_AXES_MAX], order[SIM_AXES_MAX], steps[SIM_AXES_MAX];
    if (!axis_order(attempt, shape->axis_count, order))
        return 0;
    sim_torus_coordinates(shape, from, at);
    sim_torus_coordinates(shape, to, end);
    for (int axis = 0; axis < shape->axis_count; axis++) {
        bool tied;
        steps[axis] = steps_between(shape, axis, at[axis], end[axis], &tied);
        if (tied && choice & 1)
            steps[axis] = -steps[axis];
        choice = tied ? choice >> 1 : choice; // each tie has a bit of its own
    }
    int count = 0;
    for (int i = 0, node = from; i < shape->axis_count; i++) {
        int axis = shape->route[order[i]];
        node = walk(shape, node, axis, at[axis], steps[axis], links, &count, links_max);
    }
    return count;
}

static int hops(const struct sim_topology *topology, int from, int to)
{
    return sim_torus_distance(shape_of(topology), from, to);
}

// ---- Links ----------------------------------------------------------------------------------

static void axis_and_direction(const struct sim_torus_shape *shape, int port, int *axis,
                               int *direction)
{
    for (*axis = 0; port >= ports_of(shape, *axis); ++*axis)
        port -= ports_of(shape, *axis);
    *direction = port ? -1 : 1;
}

static int link_ends(const struct sim_topology *topology, uint32_t link, struct sim_link *out)
{
    const struct sim_torus_shape *shape = shape_of(topology);
    uint32_t ports = (uint32_t)port_count(shape);
    int node = (int)(link / ports), axis, direction;
    axis_and_direction(shape, (int)(link % ports), &axis, &direction);
    int stride = stride_of(shape, axis), side = shape->side[axis], at = node / stride % side;
    if (port_of(shape, axis, direction, at) < 0)
        return -ENOENT;
    int to = node + ((at + direction + side) % side - at) * stride;
    *out = (struct sim_link){.from = (uint32_t)node,
                             .to = (uint32_t)to,
                             .gb_per_s = shape->link_gb_per_s,
                             .latency_ns = shape->hop_ns};
    return 0;
}

static uint32_t out_count(const struct sim_topology *topology, uint32_t vertex)
{
    (void)vertex;
    return (uint32_t)port_count(shape_of(topology));
}

static uint32_t out_link(const struct sim_topology *topology, uint32_t vertex, uint32_t i)
{
    uint32_t link = vertex * (uint32_t)port_count(shape_of(topology)) + i;
    struct sim_link ends;
    return link_ends(topology, link, &ends) == 0 ? link : SIM_LINK_NONE;
}

static int compare_nodes(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static int neighbours(const struct sim_topology *topology, int node, int *nodes, int nodes_max)
{
    int found[2 * SIM_AXES_MAX] = {0}, count = 0, distinct = 0;
    for (uint32_t i = 0; i < out_count(topology, (uint32_t)node); i++) {
        uint32_t link = out_link(topology, (uint32_t)node, i);
        struct sim_link ends;
        if (sim_link_get(topology, link, &ends) == 0 && !sim_link_is_dead(topology, link) &&
            !sim_vertex_is_dead(topology, ends.to))
            found[count++] = (int)ends.to;
    }
    qsort(found, (size_t)count, sizeof *found, compare_nodes);
    for (int i = 0; i < count; i++) {
        if (i > 0 && found[i] == found[i - 1])
            continue; // two links join a side of 2
        if (distinct < nodes_max)
            nodes[distinct] = found[i];
        distinct++;
    }
    return distinct;
}

// ---- Names ----------------------------------------------------------------------------------

static void describe(const struct sim_topology *topology, uint32_t vertex, char *text,
                     size_t text_bytes)
{
    const struct sim_torus_shape *shape = shape_of(topology);
    int at[SIM_AXES_MAX];
    sim_torus_coordinates(shape, (int)vertex, at);
    size_t length = 0;
    for (int axis = 0; axis < shape->axis_count && length < text_bytes; axis++)
        length += (size_t)snprintf(text + length, text_bytes - length, "%c%d", axis ? ',' : '(',
                                   at[axis]);
    if (length < text_bytes)
        snprintf(text + length, text_bytes - length, ")");
}

// Reads coordinates, with or without the signs between them; returns what follows, or NULL.
static const char *read_coordinates(const struct sim_torus_shape *shape, const char *text,
                                    int *coordinates)
{
    static const char between[] = " \t,()";
    for (int axis = 0; axis < shape->axis_count; axis++) {
        text += strspn(text, between);
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (end == text || errno || value < 0 || value >= shape->side[axis])
            return NULL;
        coordinates[axis] = (int)value;
        text = end;
    }
    return text + strspn(text, between);
}

static int find_vertex(const struct sim_topology *topology, const char *text, uint32_t *vertex)
{
    int at[SIM_AXES_MAX];
    text = read_coordinates(shape_of(topology), text, at);
    if (!text || *text)
        return -EINVAL;
    *vertex = (uint32_t)sim_torus_node(shape_of(topology), at);
    return 0;
}

static int find_link(const struct sim_topology *topology, const char *text, uint32_t both_ways[2])
{
    const struct sim_torus_shape *shape = shape_of(topology);
    int at[SIM_AXES_MAX], axis = 0;
    text = read_coordinates(shape, text, at);
    if (!text || (text[0] != '+' && text[0] != '-') || !isupper((unsigned char)text[1]) || text[2])
        return -EINVAL;
    while (axis < shape->axis_count && shape->letter[axis] != text[1])
        axis++;
    if (axis == shape->axis_count)
        return -EINVAL;
    int direction = text[0] == '+' ? 1 : -1, side = shape->side[axis];
    both_ways[0] = sim_torus_link(shape, sim_torus_node(shape, at), axis, direction);
    if (both_ways[0] == SIM_LINK_NONE)
        return -EINVAL;
    at[axis] = (at[axis] + direction + side) % side;
    both_ways[1] = sim_torus_link(shape, sim_torus_node(shape, at), axis, -direction);
    return 0;
}

static const struct sim_topology_ops torus_ops = {
    .route = route,
    .hops = hops,
    .link = link_ends,
    .neighbours = neighbours,
    .out_count = out_count,
    .out_link = out_link,
    .describe = describe,
    .find_vertex = find_vertex,
    .find_link = find_link,
    .vertex_form = "the coordinates of a node, such as '3 0 2 0 1 0'",
    .link_form = "the coordinates of a node and a direction in which it has a link, such as "
                 "'3 0 2 0 1 0 +X'",
};

int sim_torus_open(struct sim_topology *topology)
{
    const struct sim_torus_shape *shape = shape_of(topology);
    topology->ops = &torus_ops;
    topology->node_count = 1;
    for (int axis = 0; axis < shape->axis_count; axis++) {
        int side = shape->side[axis];
        topology->node_count *= side;
        topology->hops_max += shape->wrap[axis] ? side / 2 : side - 1;
    }
    topology->vertex_count = (uint32_t)topology->node_count;
    topology->link_count = topology->vertex_count * (uint32_t)port_count(shape);
    topology->route_links_max = topology->hops_max > 0 ? topology->hops_max : 1;
    topology->base_ns = shape->latency_ns - shape->hop_ns;
    return 0;
}
