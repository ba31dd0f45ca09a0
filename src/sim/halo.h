/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The halo exchange of a decomposed box on a simulated job: forwarded, or to everybody at once.
 *
 * Each step sends coordinates to the lower neighbours, computes, and sends forces back. Forwarded:
 * three messages after one another, z, y, x, each with what came by those before it; forces the
 * other way round. One hop: up to seven messages at once. Sizes are the given plan's.
 *
 * Advantage: whether fewer messages or fewer steps win is seen on a machine that one has not got.
 * Disadvantage: halos travel as messages here, where the library stores into the neighbour's memory
 * and signals, and a pulse goes as a whole once the one before it has come.
 */
#ifndef LEAT_SIM_HALO_H
#define LEAT_SIM_HALO_H

#include "sim/measure.h"

#define SIM_HALO_WAYS 8 /* displacements: bit d set: from the upper neighbour in dimension d */

struct sim_halo {
    int grid[3];           /* ranks: (x * grid[1] + y) * grid[2] + z */
    const uint32_t *home;  /* [ranks] elements */
    const uint32_t *ghost; /* [ranks][SIM_HALO_WAYS] elements that come from that displacement */
    uint32_t element_bytes;
    double element_ns; /* computing between coordinates and forces, a home element */
    bool onehop;
    int steps;
};

/* Bytes of the largest hollow buffer that it takes. */
uint64_t sim_halo_hollow(const struct sim_halo *halo);
/* As sim_collective_run, for all steps together. -EINVAL: the grid is not the job's. */
int sim_halo_run(struct sim_job *job, const struct sim_halo *halo, struct sim_measured *measured);

#endif
