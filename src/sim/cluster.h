/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU cluster: hosts with GPUs joined by NVLink switches, and a fat tree or dragonfly outside.
 *
 * Vertices are GPUs (the nodes), NVLink switches, hosts (the PCIe side) and the switches outside. A
 * GPU reaches another under the same NVLink switch through it, one in the same host by PCIe, and
 * any other by PCIe, a network card and the switches. GPUs never pass on what is not for them.
 *
 * A fat tree's way up is chosen by the receiver's number, so that streams to different receivers
 * spread and those to one receiver meet early. A dragonfly's routes are minimal: at most one cable
 * in the own group, one between groups, one in the other group.
 *
 * Advantage: no tables; any size. Disadvantage: no adaptive routing, so a pattern can be unlucky
 * where a real switch would step aside; `choice` is the caller's means against that.
 */
#ifndef LEAT_SIM_CLUSTER_H
#define LEAT_SIM_CLUSTER_H

#include "sim/topology.h"

/* Called by sim_topology_open; machine->kind is SIM_CLUSTER. */
int sim_cluster_open(struct sim_topology *topology);

/* Where the kinds of vertices and links begin, in sim_topology.first. A kind that the machine lacks
 * is empty. Below each: what its members are numbered by. */
enum sim_cluster_first {
    V_NVSWITCH, /* gpu / gpus_per_nvlink; the GPUs themselves begin at 0 */
    V_HOST,
    V_LEAF,  /* fat tree: pod * leaf_rails + rail; dragonfly: routers */
    V_SPINE, /* levels = 2: uplink; 3: pod * leaf_uplinks + uplink */
    V_CORE,  /* plane * spine_uplinks + uplink */
    V_END,
    L_NV_UP, /* gpu */
    L_NV_DOWN,
    L_PCIE_UP, /* gpu */
    L_PCIE_DOWN,
    L_NIC_UP, /* host * nics_per_host + nic */
    L_NIC_DOWN,
    L_LEAF_UP, /* leaf * leaf_uplinks + uplink; dragonfly: router * routers_per_group + the other */
    L_LEAF_DOWN,
    L_SPINE_UP, /* spine * spine_uplinks + uplink; dragonfly: router * global_links + port */
    L_SPINE_DOWN,
    L_END
};

/* The part outside the hosts, by its kind. Switches at the hosts are numbered from V_LEAF on. */
struct sim_cluster_outside {
    /* Sets count[] of the kinds of switches and of their cables. -EINVAL with detail. */
    int (*size)(const struct sim_topology *topology, int64_t *count);
    /* Most cables between two switches at the hosts on a route. */
    int (*between_max)(const struct sim_topology *topology);
    /* Appends the cables from one such switch to another; any `way` will do, and those below
     * ways_most are all that there are. Returns the new count, of which links_max are written. */
    int (*route)(const struct sim_topology *topology, uint32_t from, uint32_t to, uint32_t way,
                 uint32_t *links, int count, int links_max);
    uint32_t (*ways_most)(const struct sim_topology *topology);
    /* The way to a host's network card that other receivers' streams are least likely to take. */
    uint32_t (*way_to)(const struct sim_topology *topology, int host, int nic);
    /* The switch of a host's network card. */
    uint32_t (*leaf_of)(const struct sim_topology *topology, int host, int nic);
    /* Vertices at both ends of a cable; `kind` is L_LEAF_UP or L_SPINE_UP. -ENOENT: no cable. */
    int (*ends)(const struct sim_topology *topology, int kind, uint32_t number, uint32_t *from,
                uint32_t *to);
    /* As in sim_topology_ops, for switches. */
    uint32_t (*out_count)(const struct sim_topology *topology, uint32_t vertex);
    uint32_t (*out_link)(const struct sim_topology *topology, uint32_t vertex, uint32_t i);
    /* Hosts at the same switch or switches as `host`: the first and how many. */
    void (*siblings)(const struct sim_topology *topology, int host, int *first, int *count);
    const char *switch_names[3]; /* V_LEAF, V_SPINE, V_CORE */
};

extern const struct sim_cluster_outside sim_fat_tree, sim_dragonfly;

static inline const struct sim_cluster_shape *sim_cluster_of(const struct sim_topology *topology)
{
    return &topology->machine->cluster;
}

static inline int sim_add_link(uint32_t link, uint32_t *links, int count, int links_max)
{
    if (count < links_max)
        links[count] = link;
    return count + 1;
}

#endif
