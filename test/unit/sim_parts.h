/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines for tests as texts, and what has to hold for every route.
 *
 * Advantage: a test says only what is special about its machine. Disadvantage: a failure in here
 * names the line in here.
 */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include "sim/machine.h"
#include "sim/topology.h"

#include "leat/leat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIM_NODE_TEXT                                                                              \
    "tni_count = 4\npacket_bytes = 1920\nsoftware_send_ns = 180\nsoftware_receive_ns = 180\n"      \
    "copy_gb_per_s = 5.4\n"
#define SIM_TORUS_TEXT                                                                             \
    SIM_NODE_TEXT "kind = torus\nlink_gb_per_s = 4.7\nhop_ns = 100\nlatency_ns = 910\n"
#define SIM_CLUSTER_TEXT                                                                           \
    SIM_NODE_TEXT "kind = cluster\nnvlink_gb_per_s = 400\nnvlink_ns = 400\npcie_gb_per_s = 55\n"   \
                  "pcie_ns = 350\nnic_gb_per_s = 48\nnic_ns = 300\nbase_ns = 500\n"                \
                  "switch_gb_per_s = 40\nswitch_ns = 250\n"

static inline void must_parse(const char *text, struct sim_machine *machine)
{
    memset(machine, 0xA5, sizeof *machine);
    int error = sim_machine_parse(text, strlen(text), "test.machine", machine);
    if (error)
        fail_msg("%s", leat_error_detail());
}

static inline void must_open(const char *text, struct sim_machine *machine,
                             struct sim_topology *topology)
{
    must_parse(text, machine);
    memset(topology, 0xA5, sizeof *topology);
    if (sim_topology_open(topology, machine) != 0)
        fail_msg("%s", leat_error_detail());
}

static inline void close_both(struct sim_machine *machine, struct sim_topology *topology)
{
    sim_topology_close(topology);
    sim_machine_end(machine);
}

/* "sides = ..." and "wrap = ..." of a torus, and more lines. */
static inline void open_torus(const char *sides, const char *wrap, const char *more,
                              struct sim_machine *machine, struct sim_topology *topology)
{
    char text[2048];
    snprintf(text, sizeof text, SIM_TORUS_TEXT "sides = %s\nwrap = %s\n%s", sides, wrap, more);
    must_open(text, machine, topology);
}

/* The route begins at one node, goes on from where each link ends, arrives at the other, and is of
 * living links; returns its length. */
static inline int look_at_route(const struct sim_topology *topology, int from, int to,
                                uint32_t choice, uint32_t *links, int links_max)
{
    memset(links, 0xA5, (size_t)links_max * sizeof *links);
    int count = sim_route(topology, from, to, choice, links, links_max);
    if (count < 0)
        fail_msg("%s", leat_error_detail());
    assert_in_range(count, 0, topology->route_links_max);
    uint32_t at = (uint32_t)from;
    for (int i = 0; i < count; i++) {
        struct sim_link link;
        memset(&link, 0xA5, sizeof link);
        assert_in_range(links[i], 0, topology->link_count - 1);
        assert_int_equal(sim_link_get(topology, links[i], &link), 0);
        assert_false(sim_link_is_dead(topology, links[i]));
        assert_false(sim_vertex_is_dead(topology, link.to));
        assert_int_equal(link.from, at);
        at = link.to;
    }
    assert_int_equal(at, to);
    return count;
}

/* Every link leaves the vertex that it says, and every vertex lists just its own. */
static inline void look_at_all_links(const struct sim_topology *topology)
{
    uint8_t *seen = calloc(topology->link_count + 1, 1);
    assert_non_null(seen);
    for (uint32_t vertex = 0; vertex < topology->vertex_count; vertex++) {
        uint32_t count = topology->ops->out_count(topology, vertex);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t link = topology->ops->out_link(topology, vertex, i);
            struct sim_link ends;
            if (link == SIM_LINK_NONE)
                continue;
            assert_int_equal(sim_link_get(topology, link, &ends), 0);
            assert_int_equal(ends.from, vertex);
            assert_in_range(ends.to, 0, topology->vertex_count - 1);
            assert_true(ends.to != vertex && ends.gb_per_s > 0);
            assert_int_equal(seen[link]++, 0);
        }
    }
    for (uint32_t link = 0; link < topology->link_count; link++) {
        struct sim_link ends;
        assert_int_equal(sim_link_get(topology, link, &ends) == 0, seen[link]);
    }
    free(seen);
}

#endif
