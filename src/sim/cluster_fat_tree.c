// SPDX-License-Identifier: Apache-2.0
// Fat tree of two or three levels; see cluster.h and struct sim_cluster_shape.
//
// Leaves of a pod, spines (of the pod with three levels, of all with two) and cores in planes:
// spine s of every pod is connected to the cores of plane s. A way is the uplink of the leaf and,
// with three levels, that of the spine; the way down follows from it.
//
// Advantage: rails, pods and any ratio of uplinks to hosts are four numbers. Disadvantage: pods are
// alike; the last one is only less full.

#include "sim/cluster.h"

#include <errno.h>

static uint32_t pods_of(const struct sim_cluster_shape *cluster)
{
    return (uint32_t)((cluster->hosts - 1) / cluster->hosts_per_pod + 1);
}

static uint32_t pod_of_leaf(const struct sim_cluster_shape *cluster, uint32_t leaf)
{
    return leaf / (uint32_t)cluster->leaf_rails;
}

static int size(const struct sim_topology *topology, int64_t *count)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int64_t pods = pods_of(cluster), uplinks = cluster->leaf_uplinks;
    bool three = cluster->levels == 3;
    count[V_LEAF] = pods * cluster->leaf_rails;
    count[V_SPINE] = three ? pods * uplinks : uplinks;
    count[V_CORE] = three ? uplinks * cluster->spine_uplinks : 0;
    count[L_LEAF_UP] = count[L_LEAF_DOWN] = count[V_LEAF] * uplinks;
    count[L_SPINE_UP] = count[L_SPINE_DOWN] = three ? count[V_SPINE] * cluster->spine_uplinks : 0;
    return 0;
}

static int between_max(const struct sim_topology *topology)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    if (pods_of(cluster) == 1)
        return cluster->leaf_rails == 1 ? 0 : 2;
    return cluster->levels == 3 ? 4 : 2;
}

static uint32_t leaf_of(const struct sim_topology *topology, int host, int nic)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    return (uint32_t)(host / cluster->hosts_per_pod * cluster->leaf_rails +
                      nic % cluster->leaf_rails);
}

static uint32_t ways_most(const struct sim_topology *topology)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int cores = cluster->levels == 3 ? cluster->spine_uplinks : 1;
    return (uint32_t)(cluster->leaf_uplinks * cores);
}

// Cards of one rail are counted through its hosts and take the uplinks in turn; the rails of a pod,
// which share the spines, go to different cores.
static uint32_t way_to(const struct sim_topology *topology, int host, int nic)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int rails = cluster->leaf_rails, uplinks = cluster->leaf_uplinks;
    int cards = (cluster->nics_per_host - 1) / rails + 1;
    uint32_t card = (uint32_t)host * (uint32_t)cards + (uint32_t)(nic / rails);
    uint32_t core = card / (uint32_t)uplinks + (uint32_t)(nic % rails);
    uint32_t cores = ways_most(topology) / (uint32_t)uplinks;
    return core % cores * (uint32_t)uplinks + card % (uint32_t)uplinks;
}

static int route(const struct sim_topology *topology, uint32_t from, uint32_t to, uint32_t way,
                 uint32_t *links, int count, int links_max)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t uplinks = (uint32_t)cluster->leaf_uplinks, up = way % uplinks;
    if (from == to)
        return count;
    uint32_t from_pod = pod_of_leaf(cluster, from), to_pod = pod_of_leaf(cluster, to);
    count = sim_add_link(first[L_LEAF_UP] + from * uplinks + up, links, count, links_max);
    if (cluster->levels == 3 && from_pod != to_pod) {
        uint32_t cores = (uint32_t)cluster->spine_uplinks, core = way / uplinks % cores;
        count = sim_add_link(first[L_SPINE_UP] + (from_pod * uplinks + up) * cores + core, links,
                             count, links_max);
        count = sim_add_link(first[L_SPINE_DOWN] + (to_pod * uplinks + up) * cores + core, links,
                             count, links_max);
    }
    return sim_add_link(first[L_LEAF_DOWN] + to * uplinks + up, links, count, links_max);
}

static int ends(const struct sim_topology *topology, int kind, uint32_t number, uint32_t *from,
                uint32_t *to)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t uplinks = (uint32_t)cluster->leaf_uplinks;
    if (kind == L_LEAF_UP) {
        uint32_t leaf = number / uplinks;
        uint32_t pod = cluster->levels == 3 ? pod_of_leaf(cluster, leaf) : 0;
        *from = first[V_LEAF] + leaf;
        *to = first[V_SPINE] + pod * uplinks + number % uplinks;
    } else {
        uint32_t cores = (uint32_t)cluster->spine_uplinks, spine = number / cores;
        *from = first[V_SPINE] + spine;
        *to = first[V_CORE] + spine % uplinks * cores + number % cores;
    }
    return 0;
}

// Cards of one host on a rail.
static uint32_t cards_on_rail(const struct sim_cluster_shape *cluster, uint32_t rail)
{
    uint32_t rails = (uint32_t)cluster->leaf_rails, nics = (uint32_t)cluster->nics_per_host;
    return rail < nics ? (nics - rail - 1) / rails + 1 : 0;
}

static uint32_t out_count(const struct sim_topology *topology, uint32_t vertex)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t rails = (uint32_t)cluster->leaf_rails;
    if (vertex < first[V_SPINE]) {
        uint32_t cards = cards_on_rail(cluster, (vertex - first[V_LEAF]) % rails);
        return cards * (uint32_t)cluster->hosts_per_pod + (uint32_t)cluster->leaf_uplinks;
    }
    if (vertex >= first[V_CORE])
        return pods_of(cluster);
    return cluster->levels == 3 ? rails + (uint32_t)cluster->spine_uplinks
                                : rails * pods_of(cluster);
}

static uint32_t out_of_leaf(const struct sim_topology *topology, uint32_t leaf, uint32_t i)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    uint32_t rails = (uint32_t)cluster->leaf_rails, uplinks = (uint32_t)cluster->leaf_uplinks;
    if (i < uplinks)
        return topology->first[L_LEAF_UP] + leaf * uplinks + i;
    i -= uplinks;
    uint32_t cards = cards_on_rail(cluster, leaf % rails);
    if (cards == 0)
        return SIM_LINK_NONE;
    uint32_t host = leaf / rails * (uint32_t)cluster->hosts_per_pod + i / cards;
    if (host >= (uint32_t)cluster->hosts)
        return SIM_LINK_NONE; // the last pod is not full
    uint32_t nic = i % cards * rails + leaf % rails;
    return topology->first[L_NIC_DOWN] + host * (uint32_t)cluster->nics_per_host + nic;
}

static uint32_t out_link(const struct sim_topology *topology, uint32_t vertex, uint32_t i)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t rails = (uint32_t)cluster->leaf_rails, uplinks = (uint32_t)cluster->leaf_uplinks;
    uint32_t cores = (uint32_t)cluster->spine_uplinks;
    if (vertex < first[V_SPINE])
        return out_of_leaf(topology, vertex - first[V_LEAF], i);
    if (vertex >= first[V_CORE]) {
        uint32_t core = vertex - first[V_CORE];
        return first[L_SPINE_DOWN] + (i * uplinks + core / cores) * cores + core % cores;
    }
    uint32_t spine = vertex - first[V_SPINE];
    if (cluster->levels == 2)
        return first[L_LEAF_DOWN] + i * uplinks + spine;
    if (i >= rails)
        return first[L_SPINE_UP] + spine * cores + i - rails;
    return first[L_LEAF_DOWN] + (spine / uplinks * rails + i) * uplinks + spine % uplinks;
}

static void siblings(const struct sim_topology *topology, int host, int *first, int *count)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    *first = host / cluster->hosts_per_pod * cluster->hosts_per_pod;
    int left = cluster->hosts - *first;
    *count = left < cluster->hosts_per_pod ? left : cluster->hosts_per_pod;
}

const struct sim_cluster_outside sim_fat_tree = {
    .size = size,
    .between_max = between_max,
    .route = route,
    .ways_most = ways_most,
    .way_to = way_to,
    .leaf_of = leaf_of,
    .ends = ends,
    .out_count = out_count,
    .out_link = out_link,
    .siblings = siblings,
    .switch_names = {"leaf", "spine", "core"},
};
