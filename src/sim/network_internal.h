/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the modelled network share: times, interfaces, node paths and routes.
 *
 * Advantage: sending (network.c) and arriving (network_settle.c) claim a node's resources by the
 * same few lines. Disadvantage: they are compiled twice.
 */
#ifndef LEAT_SIM_NETWORK_INTERNAL_H
#define LEAT_SIM_NETWORK_INTERNAL_H

#include "sim/network.h"

/* Links of the way between two ranks, in network->route; negative, noted as the network's error,
 * where there is none. */
int sim_network_route(struct sim_network *network, int from, int to, uint32_t choice);

static inline uint64_t sim_time_of(uint64_t bytes, double ps_per_byte)
{
    return (uint64_t)((double)bytes * ps_per_byte + 0.5);
}

static inline uint64_t sim_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Traffic of different pairs spreads over routes that are equally good. */
static inline uint32_t sim_choice_of(int from, int to)
{
    return ((uint32_t)from * 2654435761u ^ (uint32_t)to * 2246822519u) >> 16;
}

static inline uint64_t *sim_ends_of(const struct sim_network *network, int rank, int receiving)
{
    return network->ends + ((size_t)rank * 2 + (size_t)receiving) * (size_t)network->interfaces;
}

static inline uint64_t *sim_first_free(const struct sim_network *network, uint64_t *ends)
{
    uint64_t *least = ends;
    for (int i = 1; i < network->interfaces; i++)
        if (ends[i] < *least)
            least = &ends[i];
    return least;
}

/* The node's path works on one piece after the other. */
static inline uint64_t sim_take_path(uint64_t *path_ps, uint64_t from_ps, uint64_t bytes, double ps)
{
    if (ps <= 0)
        return from_ps;
    *path_ps = sim_later(*path_ps, from_ps) + sim_time_of(bytes, ps);
    return *path_ps;
}

#endif
