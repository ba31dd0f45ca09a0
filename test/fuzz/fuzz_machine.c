// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a machine file; an accepted machine has to open or say why not, and its
// routes have to lead where they should.
//
// Advantage: sizes and dead things meet in ways nobody thinks of. Disadvantage: large machines are
// only opened, for a search through one takes too long here.

#include "sim/machine.h"
#include "sim/topology.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROUTE_MAX    1024
#define VERTICES_MAX 20000
#define DEAD_ENOUGH  8
#define PAIRS        6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void look_at_route(const struct sim_topology *topology, int from, int to)
{
    static uint32_t links[ROUTE_MAX];
    int count = sim_route(topology, from, to, (uint32_t)(from + to), links, ROUTE_MAX);
    if (count < 0) {
        demand(count == -EHOSTUNREACH || count == -ENOBUFS || count == -ENOMEM);
        return;
    }
    uint32_t at = (uint32_t)from;
    for (int i = 0; i < count; i++) {
        struct sim_link link;
        demand(sim_link_get(topology, links[i], &link) == 0 && link.from == at);
        demand(!sim_link_is_dead(topology, links[i]) && link.gb_per_s > 0 && link.latency_ns >= 0);
        at = link.to;
    }
    demand(at == (uint32_t)to && sim_route_ns(topology, links, count) >= topology->base_ns);
}

static void look_at_machine(const struct sim_machine *machine)
{
    struct sim_topology topology;
    char text[96];
    int error = sim_topology_open(&topology, machine);
    demand(error == 0 || error == -EINVAL);
    if (error)
        return;
    demand(topology.node_count >= 1 && topology.base_ns >= 0 &&
           (uint32_t)topology.node_count <= topology.vertex_count);
    sim_vertex_text(&topology, topology.vertex_count - 1, text, sizeof text);
    int last = topology.node_count - 1;
    bool dead = topology.dead_link_count || topology.dead_vertex_count;
    if (!dead || (topology.vertex_count < VERTICES_MAX && machine->dead_count < DEAD_ENOUGH))
        for (int i = 0; i < PAIRS; i++)
            look_at_route(&topology, (int)((int64_t)last * i / PAIRS), last - (last * (i % 2)));
    sim_topology_close(&topology);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_machine machine;
    if (sim_machine_parse((const char *)data, size, "fuzz.machine", &machine) == 0) {
        demand(memchr(machine.name, 0, sizeof machine.name) != NULL);
        demand(machine.tni_count > 0 && machine.copy_gb_per_s > 0 && machine.packet_bytes > 0);
        look_at_machine(&machine);
    }
    sim_machine_end(&machine);
    return 0;
}
