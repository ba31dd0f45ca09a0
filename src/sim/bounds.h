/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed-form bounds: what no run on a modelled machine can be faster than, and why.
 *
 * From the machine's figures and the algorithm's shape alone: bytes through the busiest link, the
 * interfaces and the node's path, and latencies that follow one another. Advantage: a wrong
 * simulation that is too fast is found out. Disadvantage: the processor's time and waiting for each
 * other are left out, so a bound is not reached.
 */
#ifndef LEAT_SIM_BOUNDS_H
#define LEAT_SIM_BOUNDS_H

#include "sim/measure.h"

struct sim_bound {
    double seconds;           /* no less; bandwidth and latency */
    double bandwidth_seconds; /* bandwidth alone: what large data tends to */
    const char *limit;        /* what decides that: "links", "interfaces", "node path" */
};

struct sim_bound sim_bound_collective(const struct sim_job *job, const struct sim_collective *what,
                                      const char *algorithm);

/* One message after the other on each link, interface and path: bytes that the busiest rank sends
 * and receives, and the busiest link carries. */
struct sim_bound sim_bound_loads(const struct sim_job *job, double out, double in, double link);

#endif
