/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans from the inside.
 *
 * A plan is plain data: pulses, one array with all their indices, one zone byte an element. What
 * makes plans, what checks them and what runs them meet only here. Advantage: a plan that comes
 * from elsewhere (a file, a mesh) is as good as one from decompose.c. Disadvantage: what has to
 * hold between the fields is not in the types; leat_plan_check says it.
 */
#ifndef LEAT_HALO_PLAN_H
#define LEAT_HALO_PLAN_H

#include "leat/halo.h"

/*
 * Received elements begin at a multiple of this. Bulk copies between devices will want addresses
 * and sizes of 16 bytes, hence 4 elements; but an element of padding has no zone that keeps it from
 * pairing with home elements, so that needs a mark for elements that are not there first.
 */
#define PLAN_RECV_ALIGNMENT 1u

struct leat_plan {
    int rank, rank_count;
    int pulse_count;
    leat_pulse *pulse; /* [pulse_count]; their indices lie one after the other in `index` */
    uint32_t *index;
    uint8_t *zone; /* [element_count] */
    uint32_t home_count, element_count;
    double margin_nm;
};

/*
 * What every plan has to fulfil, whoever made it: ranks and dimensions in range; each index once
 * and there when their pulse sends them; dependent_start where the ghosts begin; received elements
 * one pulse after the other behind the home elements; finite shifts; zones zero at home and not
 * zero for ghosts. -EPROTO names the pulse, what was expected and what the plan has.
 */
int leat_plan_check(const struct leat_plan *plan);

#endif
