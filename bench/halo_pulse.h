/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of one pulse each way between two ranks, as leat's sides of the halo benchmark run it.
 *
 * Advantage: processes and threads measure the same exchange. Disadvantage: an include more, since
 * halo_slice.h is for peers without leat too.
 */
#ifndef LEAT_BENCH_HALO_PULSE_H
#define LEAT_BENCH_HALO_PULSE_H

#include "halo_slice.h"

#include <leat/halo.h>

/* `index` has room for the atoms and is filled. 0 or a negative errno with detail. */
static inline int pulse_plan(leat_job *job, int rank, uint32_t atoms, uint32_t *index,
                             leat_plan **plan)
{
    slice_index(atoms, index);
    leat_list send = {.rank = 1 - rank, .count = atoms, .index = index, .shift_nm = {1, 2, 3}};
    leat_list receive = {.rank = 1 - rank, .count = atoms};
    const leat_lists lists = {.size = sizeof lists,
                              .home_count = 2 * atoms,
                              .send_count = 1,
                              .recv_count = 1,
                              .sends = &send,
                              .receives = &receive};
    return leat_plan_lists(job, &lists, plan);
}

#endif
