/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated network asks of a topology: nodes, directed links, routes.
 *
 * Nodes (where ranks run) are vertices 0 .. node_count-1; switches are the vertices after them.
 * Links are directed, numbered 0 .. link_count-1, and computed, not stored: a topology takes a few
 * hundred bytes for any number of nodes, plus what the machine file declares dead. Some numbers may
 * stand for no link (the open end of a mesh); no route holds them.
 *
 * Everything is const after opening, so any number of threads may ask at once. Routes are the same
 * in every run.
 *
 * Advantage: torus and cluster are the same to the network. Disadvantage: a route is computed each
 * time; whoever sends much to few peers keeps it.
 */
#ifndef LEAT_SIM_TOPOLOGY_H
#define LEAT_SIM_TOPOLOGY_H

#include "sim/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_LINK_NONE UINT32_MAX

struct sim_link {
    uint32_t from, to; /* vertices */
    double gb_per_s;   /* one direction */
    double latency_ns; /* of the first byte */
};

struct sim_topology;

/* A topology's own part; everybody else calls the functions below. */
struct sim_topology_ops {
    /* Links of the route, writing links_max of them at most. `attempt` counts the routes of this
     * choice that may be tried in turn where something is dead; 0: there are no more. */
    int (*route)(const struct sim_topology *topology, int from, int to, uint32_t choice,
                 int attempt, uint32_t *links, int links_max);
    int (*hops)(const struct sim_topology *topology, int from, int to);
    int (*link)(const struct sim_topology *topology, uint32_t link, struct sim_link *out);
    int (*neighbours)(const struct sim_topology *topology, int node, int *nodes, int nodes_max);
    uint32_t (*out_count)(const struct sim_topology *topology, uint32_t vertex);
    /* The i-th link that leaves the vertex, or SIM_LINK_NONE. */
    uint32_t (*out_link)(const struct sim_topology *topology, uint32_t vertex, uint32_t i);
    /* Whether what comes in by one link may leave by the other; NULL: always. */
    bool (*passes)(const struct sim_topology *topology, uint32_t in, uint32_t out);
    void (*describe)(const struct sim_topology *topology, uint32_t vertex, char *text,
                     size_t text_bytes);
    /* What a dead_node or dead_link line means: 0 or -EINVAL (without detail). A link is two
     * directed ones. */
    int (*find_vertex)(const struct sim_topology *topology, const char *text, uint32_t *vertex);
    int (*find_link)(const struct sim_topology *topology, const char *text, uint32_t both_ways[2]);
    const char *vertex_form, *link_form; /* how such a line is written, for messages */
};

struct sim_topology {
    const struct sim_topology_ops *ops;
    const struct sim_machine *machine; /* the caller's; has to live as long */
    int node_count;
    uint32_t vertex_count; /* nodes and switches */
    uint32_t link_count;   /* one above the largest link number */
    int route_links_max;   /* no route is longer, those around dead links included */
    int hops_max;          /* diameter with nothing dead */
    double base_ns;        /* latency of a message beyond that of its links */
    /* Sorted; both directions of a dead link are in it. */
    uint32_t *dead_links, *dead_vertices;
    int dead_link_count, dead_vertex_count;
    uint32_t first[20]; /* the topology's own: where its kinds of vertices and links begin */
};

/* The topology of the machine's kind. -EINVAL for sizes that do not fit and for dead things that
 * do not exist (file and line in the detail), -ENOMEM. Release with sim_topology_close(). */
int sim_topology_open(struct sim_topology *topology, const struct sim_machine *machine);
void sim_topology_close(struct sim_topology *topology);

/*
 * Directed links of the route, in order; returns how many (0: from == to), or -ENOBUFS where
 * links_max is too small (route_links_max always does), -EHOSTUNREACH where an end is dead or no
 * way is left (detail names it and the line of the machine file), -EINVAL outside the nodes.
 *
 * `choice` picks among routes that are equally good: half round a ring, two links between
 * two nodes (even: the one that runs in + direction, odd: -), spines, cores, global cables. The
 * same (from, to, choice) gives the same links always. Traffic that should spread passes different
 * values; 0 is a fine choice. Dead links and switches are routed around, if need be by a longer
 * way.
 */
int sim_route(const struct sim_topology *topology, int from, int to, uint32_t choice,
              uint32_t *links, int links_max);
/* 0, or -EHOSTUNREACH where the node is dead, with its line in the machine file. */
int sim_node_check(const struct sim_topology *topology, int node);
/* Length of the route with choice 0 (longer than the distance only where dead things force it), or
 * negative as above. */
int sim_hops(const struct sim_topology *topology, int from, int to);
/* 0, or -ENOENT: the number stands for no link (quietly, without detail). Dead ones are told. */
int sim_link_get(const struct sim_topology *topology, uint32_t link, struct sim_link *out);
bool sim_link_is_dead(const struct sim_topology *topology, uint32_t link);
bool sim_vertex_is_dead(const struct sim_topology *topology, uint32_t vertex);
/* Distinct nodes at the least distance from `node` that are alive: those one link away on a torus,
 * those of the same NVLink switch (else host, else leaf) on a cluster; ascending. Returns how many
 * there are, even if more than nodes_max, of which nodes_max are written. */
int sim_neighbours(const struct sim_topology *topology, int node, int *nodes, int nodes_max);
/* base_ns and the latency of all links: the hardware time of the first byte over this route. */
double sim_route_ns(const struct sim_topology *topology, const uint32_t *links, int count);
/* "(3,0,2,0,1,0)", "gpu 17", "leaf 3": for messages; always NUL-terminated. */
void sim_vertex_text(const struct sim_topology *topology, uint32_t vertex, char *text,
                     size_t text_bytes);
/* "(3,0,2,0,1,0) to (4,0,2,0,1,0)". */
void sim_link_text(const struct sim_topology *topology, uint32_t link, char *text,
                   size_t text_bytes);

/* For the topologies: the shortest way by breadth-first search around everything dead, with
 * 8 bytes a vertex while it runs. As sim_route. */
int sim_route_search(const struct sim_topology *topology, int from, int to, uint32_t *links,
                     int links_max);

#endif
