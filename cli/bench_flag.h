/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a flag takes from rank 0 to rank 1: the distance of the two cores, logged beside every
 * measurement, since on virtual machines it changes within minutes.
 *
 * Algorithm: a signal back and forth, the way every exchange's goes. Advantage: what is measured is
 * what everything else is built on. Disadvantage: it says nothing about further ranks.
 */
#ifndef LEAT_CLI_BENCH_FLAG_H
#define LEAT_CLI_BENCH_FLAG_H

#include <leat/leat.h>

/* Zero at first; regions are made at the first measurement and freed with the job. */
struct bench_flag {
    leat_region *here, *there;
    uint64_t raised; /* so far, the same on both sides */
};

/* Called by all ranks of the job; *ns is one way on ranks 0 and 1, 0 on the others. */
int bench_flag_measure(struct bench_flag *flag, leat_job *job, double *ns);

#endif
