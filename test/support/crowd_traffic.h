/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random traffic among many ranks, to the last byte received.
 *
 * Sizes lie at and beside every threshold; receives name sources and tags or not, are too small,
 * are cancelled; messages are probed for and taken out; sends are synchronous; data is strided;
 * some ranks make progress rarely. At the end everything that is left is received. Advantage: finds
 * what nobody thought of. Disadvantage: a failure has to be narrowed down; the seed is told.
 */
#ifndef LEAT_TEST_SUPPORT_CROWD_TRAFFIC_H
#define LEAT_TEST_SUPPORT_CROWD_TRAFFIC_H

#include "support/crowd.h"

struct traffic {
    const char *name;
    struct memory_options net;
    struct msg_tuning tuning;
    uint32_t steps;            /* calls */
    int partners;              /* that a rank mostly talks to */
    uint64_t largest;          /* bytes */
    uint32_t large_permille;   /* messages of any size up to that */
    uint64_t unexpected_bytes; /* crowd->unexpected_bytes */
};

/* False, with the reason in `failure`, where something went wrong. Adds to *counts. */
bool traffic_run(const struct traffic *traffic, uint64_t seed, struct msg_counts *counts,
                 char failure[512]);

#endif
