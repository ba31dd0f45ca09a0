// SPDX-License-Identifier: Apache-2.0
// All plans of a job together: which pulse goes with which, and where every ghost comes from.
//
// Algorithm: origins are copied along the pulses until nothing changes. Advantage: needs no job and
// no order of pulses. Disadvantage: as many passes as an element is forwarded.

#include "halo/plan_file.h"

#include <stdbool.h>

int leat_plan_set_match(const struct plan_set *set, int rank, int p, int sends)
{
    const leat_pulse *ours = set->plan[rank]->pulse;
    int peer = sends ? ours[p].send_rank : ours[p].recv_rank, before = 0;
    for (int q = 0; q < p; q++)
        before += (sends ? ours[q].send_rank : ours[q].recv_rank) == peer;
    const struct leat_plan *other = set->plan[peer];
    for (int q = 0; q < other->pulse_count; q++)
        if ((sends ? other->pulse[q].recv_rank : other->pulse[q].send_rank) == rank && !before--)
            return q;
    return -1;
}

static struct origin origin_of(const struct plan_set *set, int rank, uint32_t element)
{
    uint32_t home = set->plan[rank]->home_count;
    return element < home ? (struct origin){rank, element} : set->origin[rank][element - home];
}

static bool follow(struct plan_set *set, int rank, int p)
{
    const leat_pulse *pulse = &set->plan[rank]->pulse[p];
    if (pulse->send_rank == LEAT_NOBODY)
        return false;
    int peer = pulse->send_rank, q = leat_plan_set_match(set, rank, p, true);
    if (q < 0)
        return false;
    const leat_pulse *theirs = &set->plan[peer]->pulse[q];
    struct origin *to = set->origin[peer] + (theirs->recv_offset - set->plan[peer]->home_count);
    bool changed = false;
    for (uint32_t i = 0; i < pulse->send_count && i < theirs->recv_count; i++) {
        struct origin from = origin_of(set, rank, pulse->index[i]);
        changed |= from.owner != to[i].owner || from.element != to[i].element;
        to[i] = from;
    }
    return changed;
}

void leat_plan_set_trace(struct plan_set *set)
{
    for (int rank = 0; rank < set->rank_count; rank++)
        for (uint32_t g = 0; g < set->plan[rank]->element_count - set->plan[rank]->home_count; g++)
            set->origin[rank][g] = (struct origin){-1, 0};
    // A ghost's origin has come from a home element after at most as many passes as there are
    // pulses; a plan in which elements go round in circles would never settle.
    bool changed = true;
    for (int pass = 0; changed && pass < 1000; pass++) {
        changed = false;
        for (int rank = 0; rank < set->rank_count; rank++)
            for (int p = 0; p < set->plan[rank]->pulse_count; p++)
                changed |= follow(set, rank, p);
    }
}
