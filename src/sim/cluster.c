// SPDX-License-Identifier: Apache-2.0
// GPU cluster: what is inside the hosts, and the kinds of vertices and links; see cluster.h.
//
// Every kind has a range of numbers, so a number is told apart by where it falls, and a link up and
// the link down beside it have the same place in their ranges.
//
// Advantage: fat tree and dragonfly only say how switches are joined. Disadvantage: NVLink goes
// through one switch a group, so a mesh of NVLink cables without a switch is not described.

#include "sim/cluster.h"

#include "core/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 4096

static const struct sim_cluster_outside *outside_of(const struct sim_topology *topology)
{
    return sim_cluster_of(topology)->outside == SIM_DRAGONFLY ? &sim_dragonfly : &sim_fat_tree;
}

static int host_of(const struct sim_topology *topology, int gpu)
{
    return gpu / sim_cluster_of(topology)->gpus_per_host;
}

static int nvswitch_of(const struct sim_topology *topology, int gpu)
{
    return gpu / sim_cluster_of(topology)->gpus_per_nvlink;
}

// Which of the kinds from `low` on the number belongs to; it becomes the place in the range.
static int kind_of(const struct sim_topology *topology, int low, uint32_t *number)
{
    int kind = low;
    while (*number >= topology->first[kind + 1])
        kind++;
    *number -= topology->first[kind];
    return kind;
}

// ---- Routes ---------------------------------------------------------------------------------

// The network card of a GPU, `shift` cards on where something is dead.
static int nic_of(const struct sim_topology *topology, int gpu, uint32_t choice, int shift)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int nics = cluster->nics_per_host, gpus = cluster->gpus_per_host;
    int own = nics / gpus > 1 ? (int)(choice % (uint32_t)(nics / gpus)) : 0;
    return (gpu % gpus * nics / gpus + own + shift) % nics;
}

static int route_inside(const struct sim_topology *topology, int from, int to, int attempt,
                        uint32_t *links, int links_max)
{
    const uint32_t *first = topology->first;
    bool nvlink = sim_cluster_of(topology)->gpus_per_nvlink > 1 &&
                  nvswitch_of(topology, from) == nvswitch_of(topology, to);
    if (attempt > nvlink)
        return 0;
    bool pcie = attempt == nvlink;
    int count =
        sim_add_link(first[pcie ? L_PCIE_UP : L_NV_UP] + (uint32_t)from, links, 0, links_max);
    return sim_add_link(first[pcie ? L_PCIE_DOWN : L_NV_DOWN] + (uint32_t)to, links, count,
                        links_max);
}

static int route(const struct sim_topology *topology, int from, int to, uint32_t choice,
                 int attempt, uint32_t *links, int links_max)
{
    const struct sim_cluster_outside *outside = outside_of(topology);
    const uint32_t *first = topology->first;
    int from_host = host_of(topology, from), to_host = host_of(topology, to);
    if (from_host == to_host)
        return route_inside(topology, from, to, attempt, links, links_max);
    uint32_t nics = (uint32_t)sim_cluster_of(topology)->nics_per_host;
    uint32_t ways_most = outside->ways_most(topology);
    uint32_t shift = (uint32_t)attempt / ways_most;
    if (attempt >= ATTEMPTS_MAX || shift >= nics * nics)
        return 0;
    int from_nic = nic_of(topology, from, choice, (int)(shift % nics));
    int to_nic = nic_of(topology, to, choice, (int)(shift / nics));
    uint32_t from_leaf = outside->leaf_of(topology, from_host, from_nic);
    uint32_t to_leaf = outside->leaf_of(topology, to_host, to_nic);
    uint32_t way = outside->way_to(topology, to_host, to_nic) + choice + (uint32_t)attempt;
    int count = sim_add_link(first[L_PCIE_UP] + (uint32_t)from, links, 0, links_max);
    count = sim_add_link(first[L_NIC_UP] + (uint32_t)from_host * nics + (uint32_t)from_nic, links,
                         count, links_max);
    count = outside->route(topology, from_leaf, to_leaf, way, links, count, links_max);
    count = sim_add_link(first[L_NIC_DOWN] + (uint32_t)to_host * nics + (uint32_t)to_nic, links,
                         count, links_max);
    return sim_add_link(first[L_PCIE_DOWN] + (uint32_t)to, links, count, links_max);
}

static int hops(const struct sim_topology *topology, int from, int to)
{
    return from == to ? 0 : route(topology, from, to, 0, 0, NULL, 0);
}

// ---- Links ----------------------------------------------------------------------------------

// Ends of a link up inside the hosts; its rate and latency.
static void ends_inside(const struct sim_topology *topology, int kind, uint32_t number,
                        struct sim_link *out)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    int nics = cluster->nics_per_host;
    if (kind == L_NV_UP) {
        uint32_t to = first[V_NVSWITCH] + (uint32_t)nvswitch_of(topology, (int)number);
        *out = (struct sim_link){number, to, cluster->nvlink_gb_per_s, cluster->nvlink_ns};
    } else if (kind == L_PCIE_UP) {
        uint32_t to = first[V_HOST] + (uint32_t)host_of(topology, (int)number);
        *out = (struct sim_link){number, to, cluster->pcie_gb_per_s, cluster->pcie_ns};
    } else {
        int host = (int)number / nics, nic = (int)number % nics;
        uint32_t leaf = outside_of(topology)->leaf_of(topology, host, nic);
        *out = (struct sim_link){first[V_HOST] + (uint32_t)host, first[V_LEAF] + leaf,
                                 cluster->nic_gb_per_s, cluster->nic_ns};
    }
}

static int link_ends(const struct sim_topology *topology, uint32_t link, struct sim_link *out)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int kind = kind_of(topology, L_NV_UP, &link), error = 0;
    bool down = (kind - L_NV_UP) % 2 == 1;
    int up = down ? kind - 1 : kind;
    if (up < L_LEAF_UP) {
        ends_inside(topology, up, link, out);
    } else {
        error = outside_of(topology)->ends(topology, up, link, &out->from, &out->to);
        out->gb_per_s = cluster->switch_gb_per_s;
        out->latency_ns = cluster->switch_ns;
    }
    if (down) {
        uint32_t from = out->from;
        out->from = out->to;
        out->to = from;
    }
    return error;
}

static uint32_t out_count(const struct sim_topology *topology, uint32_t vertex)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    if (vertex < first[V_NVSWITCH])
        return cluster->gpus_per_nvlink > 1 ? 2 : 1;
    if (vertex < first[V_HOST])
        return (uint32_t)cluster->gpus_per_nvlink;
    if (vertex < first[V_LEAF])
        return (uint32_t)(cluster->gpus_per_host + cluster->nics_per_host);
    return outside_of(topology)->out_count(topology, vertex);
}

static uint32_t out_link(const struct sim_topology *topology, uint32_t vertex, uint32_t i)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t gpus = (uint32_t)cluster->gpus_per_host, nics = (uint32_t)cluster->nics_per_host;
    if (vertex < first[V_NVSWITCH])
        return first[i == 0 ? L_PCIE_UP : L_NV_UP] + vertex;
    if (vertex < first[V_HOST])
        return first[L_NV_DOWN] +
               (vertex - first[V_NVSWITCH]) * (uint32_t)cluster->gpus_per_nvlink + i;
    if (vertex >= first[V_LEAF])
        return outside_of(topology)->out_link(topology, vertex, i);
    uint32_t host = vertex - first[V_HOST];
    return i < gpus ? first[L_PCIE_DOWN] + host * gpus + i
                    : first[L_NIC_UP] + host * nics + i - gpus;
}

// GPUs pass nothing on, nor do hosts pass on what comes from outside to anywhere but their GPUs.
static bool passes(const struct sim_topology *topology, uint32_t in, uint32_t out)
{
    int from = kind_of(topology, L_NV_UP, &in), to = kind_of(topology, L_NV_UP, &out);
    if (from == L_NV_DOWN || from == L_PCIE_DOWN)
        return false;
    return from != L_NIC_DOWN || to == L_PCIE_DOWN;
}

static int neighbours(const struct sim_topology *topology, int node, int *nodes, int nodes_max)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int gpus = cluster->gpus_per_host, first, size;
    if (cluster->gpus_per_nvlink > 1) {
        size = cluster->gpus_per_nvlink;
        first = node / size * size;
    } else if (gpus > 1) {
        size = gpus;
        first = node / size * size;
    } else {
        outside_of(topology)->siblings(topology, host_of(topology, node), &first, &size);
    }
    int count = 0;
    for (int other = first; other < first + size; other++) {
        if (other == node || sim_vertex_is_dead(topology, (uint32_t)other))
            continue;
        if (count < nodes_max)
            nodes[count] = other;
        count++;
    }
    return count;
}

// ---- Names ----------------------------------------------------------------------------------

static const char *kind_name(const struct sim_topology *topology, int kind)
{
    if (kind >= V_LEAF)
        return outside_of(topology)->switch_names[kind - V_LEAF];
    return kind == V_HOST ? "host" : "nvswitch";
}

static void describe(const struct sim_topology *topology, uint32_t vertex, char *text,
                     size_t text_bytes)
{
    if (vertex < topology->first[V_NVSWITCH]) {
        snprintf(text, text_bytes, "gpu %u", vertex);
        return;
    }
    int kind = kind_of(topology, V_NVSWITCH, &vertex);
    snprintf(text, text_bytes, "%s %u", kind_name(topology, kind), vertex);
}

// Reads a word and a number; returns what follows, or NULL.
static const char *read_name(const char *text, char word[16], uint32_t *number)
{
    size_t length = 0;
    text += strspn(text, " \t");
    for (; islower((unsigned char)*text); text++) {
        if (length == 15)
            return NULL;
        word[length++] = *text;
    }
    word[length] = 0;
    text += strspn(text, " \t");
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*text))
        return NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || value > INT32_MAX)
        return NULL;
    *number = (uint32_t)value;
    return end + strspn(end, " \t");
}

static const char *read_vertex(const struct sim_topology *topology, const char *text,
                               uint32_t *vertex)
{
    char word[16];
    uint32_t number;
    const char *rest = read_name(text, word, &number);
    if (!rest)
        return NULL;
    if (!strcmp(word, "gpu")) {
        *vertex = number;
        return number < topology->first[V_NVSWITCH] ? rest : NULL;
    }
    for (int kind = V_NVSWITCH; kind < V_END; kind++) {
        const uint32_t *first = &topology->first[kind];
        const char *name = kind_name(topology, kind);
        if (!name || strcmp(word, name) != 0)
            continue;
        *vertex = first[0] + number;
        return number < first[1] - first[0] ? rest : NULL;
    }
    return NULL;
}

static int find_vertex(const struct sim_topology *topology, const char *text, uint32_t *vertex)
{
    text = read_vertex(topology, text, vertex);
    return text && !*text ? 0 : -EINVAL;
}

static uint32_t link_between(const struct sim_topology *topology, uint32_t from, uint32_t to)
{
    uint32_t count = out_count(topology, from);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t link = out_link(topology, from, i);
        struct sim_link ends;
        if (sim_link_get(topology, link, &ends) == 0 && ends.to == to)
            return link;
    }
    return SIM_LINK_NONE;
}

static int find_link(const struct sim_topology *topology, const char *text, uint32_t both_ways[2])
{
    uint32_t from, to, nic;
    char word[16];
    text = read_vertex(topology, text, &from);
    if (!text)
        return -EINVAL;
    const char *rest = read_name(text, word, &nic);
    uint32_t nics = (uint32_t)sim_cluster_of(topology)->nics_per_host;
    bool is_host = from >= topology->first[V_HOST] && from < topology->first[V_LEAF];
    if (is_host && rest && !*rest && !strcmp(word, "nic") && nic < nics) {
        uint32_t place = (from - topology->first[V_HOST]) * nics + nic;
        both_ways[0] = topology->first[L_NIC_UP] + place;
        both_ways[1] = topology->first[L_NIC_DOWN] + place;
        return 0;
    }
    text = read_vertex(topology, text, &to);
    if (!text || *text)
        return -EINVAL;
    both_ways[0] = link_between(topology, from, to);
    both_ways[1] = link_between(topology, to, from);
    return both_ways[0] == SIM_LINK_NONE || both_ways[1] == SIM_LINK_NONE ? -EINVAL : 0;
}

// ---- Opening --------------------------------------------------------------------------------

static const struct sim_topology_ops cluster_ops = {
    .route = route,
    .hops = hops,
    .link = link_ends,
    .neighbours = neighbours,
    .out_count = out_count,
    .out_link = out_link,
    .passes = passes,
    .describe = describe,
    .find_vertex = find_vertex,
    .find_link = find_link,
    .vertex_form = "a GPU, host or switch that exists, such as 'gpu 17' or 'leaf 3'",
    .link_form = "two of a GPU, host or switch that a cable joins, such as 'leaf 3 spine 0', or a "
                 "card, such as 'host 5 nic 2'",
};

int sim_cluster_open(struct sim_topology *topology)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const struct sim_cluster_outside *outside = outside_of(topology);
    int64_t count[L_END + 1] = {0};
    int64_t gpus = (int64_t)cluster->hosts * cluster->gpus_per_host;
    count[V_NVSWITCH] = cluster->gpus_per_nvlink > 1 ? gpus / cluster->gpus_per_nvlink : 0;
    count[V_HOST] = cluster->hosts;
    count[L_NV_UP] = count[L_NV_DOWN] = cluster->gpus_per_nvlink > 1 ? gpus : 0;
    count[L_PCIE_UP] = count[L_PCIE_DOWN] = gpus;
    count[L_NIC_UP] = count[L_NIC_DOWN] = (int64_t)cluster->hosts * cluster->nics_per_host;
    topology->ops = &cluster_ops;
    int error = outside->size(topology, count);
    if (error)
        return error;
    int64_t vertices = gpus, links = 0;
    for (int kind = V_NVSWITCH; kind <= V_END; vertices += count[kind++])
        topology->first[kind] = (uint32_t)vertices;
    for (int kind = L_NV_UP; kind <= L_END; links += count[kind++])
        topology->first[kind] = (uint32_t)links;
    if (vertices > INT32_MAX || links > INT32_MAX)
        return leat_fail(-EINVAL, "%s: it has more than 2^31 switches and cables",
                         topology->machine->file);
    topology->node_count = (int)gpus;
    topology->vertex_count = (uint32_t)vertices;
    topology->link_count = (uint32_t)links;
    topology->hops_max = cluster->hosts == 1 ? 2 : 4 + outside->between_max(topology);
    topology->route_links_max = topology->hops_max;
    topology->base_ns = cluster->base_ns;
    return 0;
}
