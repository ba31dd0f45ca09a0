/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange with neighbours on a simulated job: what a halo exchange asks of a network.
 *
 * Every rank sends to, and receives from, both neighbours along each side of the job's torus that
 * is longer than 1, all at once. Where a side does not close there is none beyond its ends.
 *
 * Advantage: all links of the folded torus are busy in both directions. Disadvantage: no order of
 * dimensions, so corners would want messages of their own.
 */
#ifndef LEAT_SIM_EXCHANGE_H
#define LEAT_SIM_EXCHANGE_H

#include "sim/bounds.h"
#include "sim/measure.h"

#define SIM_DIRECTIONS (2 * SIM_FOLD_SIDES_MAX)

/* Bytes of the largest hollow buffer that an exchange of `bytes` with each neighbour takes. */
static inline uint64_t sim_exchange_hollow(uint64_t bytes)
{
    return SIM_DIRECTIONS * bytes;
}

/* As sim_collective_run. -EINVAL: the ranks are no torus. */
int sim_exchange_run(struct sim_job *job, uint64_t bytes, struct sim_measured *measured);
struct sim_bound sim_bound_exchange(const struct sim_job *job, uint64_t bytes);

#endif
