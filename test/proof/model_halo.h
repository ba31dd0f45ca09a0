/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of two to four ranks whose exchanges are searched through in every order.
 *
 * Algorithm: ranks are opened, plans made and halos bound by the library itself, in threads. Then
 * the device is replaced by one whose blocks are threads of explore.h, and the library's own
 * exchange.c, modes.c, resident.c and kernels run under the search. Advantage: what is proven is
 * the code that ships, with the addresses that bind.c worked out. Disadvantage: small jobs only.
 */
#ifndef LEAT_TEST_PROOF_MODEL_HALO_H
#define LEAT_TEST_PROOF_MODEL_HALO_H

#include "multi/boxes.h"

#include "proof/explore.h"

/* What is wrong in a mutant; every one has to be found. */
enum mutant {
    AS_IT_IS,
    NO_WAIT_FOR_FREE,    /* data are stored before the receiver says that it has read */
    SIGNAL_BEFORE_DATA,  /* the last store comes after the signal */
    SILENT_WHEN_EMPTY,   /* who sends nothing does not signal */
    EMPTY_NOT_AWAITED,   /* who expects nothing does not wait */
    LAST_ARRIVAL_ONLY,   /* only the last pulse's arrival is awaited before the consumer reads */
    REVERSE_NOT_AWAITED, /* sums are made before what comes back is in */
    STALE_SIGNALS,       /* a new halo finds the old one's signals */
    CARRIED_LATE         /* the proxy raises before it has carried */
};

/* Where a new halo's signals lie: in memory of its own, or in the old one's, cleared by its owner
 * before the ranks meet. */
enum rebuild { NEW_MEMORY, SAME_MEMORY };

struct scenario {
    const char *name;
    int ranks, grid[3]; /* a grid for leat_plan_build; all zero: lists */
    double cutoff_nm;
    int lists; /* each rank sends so many to the next one */
    uint32_t points;
    unsigned empty; /* ranks without points, as bits */
    enum leat_mode mode;
    uint32_t blocks; /* a rank */
    int steps, halos;
    bool forward_only;
    bool by_element; /* a point before every element */
    enum rebuild rebuild;
    uint64_t first_epoch;
    uint32_t zones;
    bool proxied; /* kernels store to no peer: a thread a rank and halo carries */
    enum mutant mutant;
};

/* Searches; false when there were more states than `state_limit`. */
bool model_run(const struct scenario *scenario, uint64_t state_limit,
               struct explore_result *result);

#endif
