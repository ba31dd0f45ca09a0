// SPDX-License-Identifier: Apache-2.0
// Dragonfly; see cluster.h and struct sim_cluster_shape.
//
// The global ports of a group are counted through its routers; they lead to the other groups in
// turn, as often round as there are ports for. So port c * (groups - 1) + k of a group leads to the
// k-th of the other groups, and back by the c-th port of that group to this one. Ports left over
// are not used. A way is the number c.
//
// Advantage: both ends of a cable follow from one number. Disadvantage: minimal routes only, which
// is what a dragonfly's worst patterns suffer from.

#include "sim/cluster.h"

#include "core/error.h"

#include <errno.h>

static int hosts_per_group(const struct sim_cluster_shape *cluster)
{
    return cluster->routers_per_group * cluster->hosts_per_router;
}

static uint32_t groups_of(const struct sim_cluster_shape *cluster)
{
    return (uint32_t)((cluster->hosts - 1) / hosts_per_group(cluster) + 1);
}

static uint32_t ports_of(const struct sim_cluster_shape *cluster)
{
    return (uint32_t)(cluster->routers_per_group * cluster->global_links);
}

// Cables between any two groups.
static uint32_t ways_most(const struct sim_topology *topology)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    uint32_t groups = groups_of(cluster);
    return groups > 1 ? ports_of(cluster) / (groups - 1) : 1;
}

static int size(const struct sim_topology *topology, int64_t *count)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    uint32_t groups = groups_of(cluster);
    if (ways_most(topology) == 0)
        return leat_fail(-EINVAL,
                         "%s: %u groups need %u cables to the others each, and %d routers with %d "
                         "global_links have %u",
                         topology->machine->file, groups, groups - 1, cluster->routers_per_group,
                         cluster->global_links, ports_of(cluster));
    count[V_LEAF] = (int64_t)groups * cluster->routers_per_group;
    count[L_LEAF_UP] = count[V_LEAF] * cluster->routers_per_group;
    count[L_SPINE_UP] = count[V_LEAF] * cluster->global_links;
    return 0;
}

static int between_max(const struct sim_topology *topology)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    int local = cluster->routers_per_group > 1;
    return groups_of(cluster) > 1 ? 2 * local + 1 : local;
}

static uint32_t way_to(const struct sim_topology *topology, int host, int nic)
{
    return (uint32_t)host * (uint32_t)sim_cluster_of(topology)->nics_per_host + (uint32_t)nic;
}

static uint32_t leaf_of(const struct sim_topology *topology, int host, int nic)
{
    (void)nic;
    return (uint32_t)(host / sim_cluster_of(topology)->hosts_per_router);
}

// The port of group `from` that leads to group `to` by their way number `way`.
static uint32_t port_to(const struct sim_topology *topology, uint32_t from, uint32_t to,
                        uint32_t way)
{
    uint32_t others = groups_of(sim_cluster_of(topology)) - 1;
    return way * others + (to < from ? to : to - 1);
}

static int add_local(const struct sim_topology *topology, uint32_t from, uint32_t to,
                     uint32_t *links, int count, int links_max)
{
    uint32_t routers = (uint32_t)sim_cluster_of(topology)->routers_per_group;
    if (from == to)
        return count;
    uint32_t link = topology->first[L_LEAF_UP] + from * routers + to % routers;
    return sim_add_link(link, links, count, links_max);
}

static int route(const struct sim_topology *topology, uint32_t from, uint32_t to, uint32_t way,
                 uint32_t *links, int count, int links_max)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    uint32_t routers = (uint32_t)cluster->routers_per_group;
    uint32_t global = (uint32_t)cluster->global_links;
    uint32_t from_group = from / routers, to_group = to / routers;
    if (from_group == to_group)
        return add_local(topology, from, to, links, count, links_max);
    way %= ways_most(topology);
    uint32_t out = from_group * ports_of(cluster) + port_to(topology, from_group, to_group, way);
    uint32_t in = to_group * ports_of(cluster) + port_to(topology, to_group, from_group, way);
    count = add_local(topology, from, out / global, links, count, links_max);
    count = sim_add_link(topology->first[L_SPINE_UP] + out, links, count, links_max);
    return add_local(topology, in / global, to, links, count, links_max);
}

static int ends(const struct sim_topology *topology, int kind, uint32_t number, uint32_t *from,
                uint32_t *to)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    uint32_t leaf = topology->first[V_LEAF], routers = (uint32_t)cluster->routers_per_group;
    if (kind == L_LEAF_UP) {
        uint32_t router = number / routers;
        *from = leaf + router;
        *to = leaf + router / routers * routers + number % routers;
        return *from == *to ? -ENOENT : 0;
    }
    uint32_t ports = ports_of(cluster), others = groups_of(cluster) - 1;
    uint32_t group = number / ports, port = number % ports;
    uint32_t way = others ? port / others : 0;
    if (others == 0 || way >= ways_most(topology))
        return -ENOENT;
    uint32_t other = port % others;
    other += other >= group;
    uint32_t global = (uint32_t)cluster->global_links;
    *from = leaf + number / global;
    *to = leaf + (other * ports + port_to(topology, other, group, way)) / global;
    return 0;
}

static uint32_t out_count(const struct sim_topology *topology, uint32_t vertex)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    (void)vertex;
    return (uint32_t)(cluster->routers_per_group + cluster->global_links +
                      cluster->hosts_per_router * cluster->nics_per_host);
}

static uint32_t out_link(const struct sim_topology *topology, uint32_t vertex, uint32_t i)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    const uint32_t *first = topology->first;
    uint32_t router = vertex - first[V_LEAF], nics = (uint32_t)cluster->nics_per_host;
    uint32_t routers = (uint32_t)cluster->routers_per_group;
    uint32_t global = (uint32_t)cluster->global_links;
    uint32_t from, to, link = SIM_LINK_NONE;
    if (i < routers)
        return ends(topology, L_LEAF_UP, router * routers + i, &from, &to) == 0
                   ? first[L_LEAF_UP] + router * routers + i
                   : link;
    i -= routers;
    if (i < global)
        return ends(topology, L_SPINE_UP, router * global + i, &from, &to) == 0
                   ? first[L_SPINE_UP] + router * global + i
                   : link;
    i -= global;
    uint32_t host = router * (uint32_t)cluster->hosts_per_router + i / nics;
    return host < (uint32_t)cluster->hosts ? first[L_NIC_DOWN] + host * nics + i % nics : link;
}

static void siblings(const struct sim_topology *topology, int host, int *first, int *count)
{
    const struct sim_cluster_shape *cluster = sim_cluster_of(topology);
    *first = host / cluster->hosts_per_router * cluster->hosts_per_router;
    int left = cluster->hosts - *first;
    *count = left < cluster->hosts_per_router ? left : cluster->hosts_per_router;
}

const struct sim_cluster_outside sim_dragonfly = {
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
    .switch_names = {"router", NULL, NULL},
};
