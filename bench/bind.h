/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of a benchmark on cores of their own.
 *
 * Advantage: all sides are measured alike, whatever their launchers do. Disadvantage: other load on
 * one of those cores is not avoided.
 */
#ifndef LEAT_BENCH_BIND_H
#define LEAT_BENCH_BIND_H

/* A file that includes this defines _GNU_SOURCE before its first include. */
#include <sched.h>

/* Each rank on a core of its own, where there are as many: some launchers see to that and some do
 * not, and two ranks that share a core measure the scheduler. */
static inline void slice_bind(int rank, int rank_count)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < rank_count)
        return; // bound already, or more ranks than cores
    int left = rank;
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || left-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

#endif
