// SPDX-License-Identifier: Apache-2.0
// Plans as data: what is shown of them, what has to hold, their end. See plan.h.

#include "halo/plan.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int leat_plan_info_get(const leat_plan *plan, leat_plan_info *info)
{
    if (!plan || !info)
        return leat_fail(-EINVAL, "leat_plan_info_get: %s is NULL", plan ? "info" : "plan");
    if (info->size < sizeof info->size)
        return leat_fail(-EINVAL,
                         "leat_plan_info_get: info->size is %zu, expected sizeof(leat_plan_info), "
                         "which is %zu; set it before the call",
                         info->size, sizeof *info);
    leat_plan_info full = {.size = info->size,
                           .pulse_count = plan->pulse_count,
                           .pulses = plan->pulse,
                           .home_count = plan->home_count,
                           .element_count = plan->element_count,
                           .zone = plan->zone,
                           .ghost_margin_nm = plan->margin_nm};
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}

void leat_plan_free(leat_plan *plan)
{
    if (!plan)
        return;
    free(plan->pulse);
    free(plan->index);
    free(plan->zone);
    free(plan);
}

static int check_frame(const struct leat_plan *plan, int p)
{
    const leat_pulse *pulse = &plan->pulse[p];
    if (pulse->dimension < 0 || pulse->dimension > 2)
        return leat_fail(-EPROTO, "plan: pulse %d has dimension %d, expected 0, 1 or 2", p,
                         pulse->dimension);
    if (pulse->direction != -1 && pulse->direction != 1)
        return leat_fail(-EPROTO, "plan: pulse %d has direction %d, expected -1 or 1", p,
                         pulse->direction);
    if (pulse->send_rank < LEAT_NOBODY || pulse->send_rank >= plan->rank_count ||
        pulse->recv_rank < LEAT_NOBODY || pulse->recv_rank >= plan->rank_count)
        return leat_fail(-EPROTO,
                         "plan: pulse %d sends to rank %d and receives from rank %d, expected "
                         "ranks below %d",
                         p, pulse->send_rank, pulse->recv_rank, plan->rank_count);
    if ((pulse->send_rank == LEAT_NOBODY && pulse->send_count) ||
        (pulse->recv_rank == LEAT_NOBODY && pulse->recv_count))
        return leat_fail(-EPROTO,
                         "plan: pulse %d sends %u elements to rank %d and receives %u "
                         "from rank %d, expected none to and from nobody (%d)",
                         p, pulse->send_count, pulse->send_rank, pulse->recv_count,
                         pulse->recv_rank, LEAT_NOBODY);
    for (int d = 0; d < 3; d++)
        if (!isfinite(pulse->shift_nm[d]))
            return leat_fail(-EPROTO, "plan: pulse %d has shift %g nm in dimension %d", p,
                             pulse->shift_nm[d], d);
    return 0;
}

// `seen` has an entry an element, so that one pass finds an element that is sent twice in a pulse.
static int check_indices(const struct leat_plan *plan, int p, uint32_t present, int *seen)
{
    const leat_pulse *pulse = &plan->pulse[p];
    for (uint32_t i = 0; i < pulse->send_count; i++) {
        uint32_t element = pulse->index[i];
        if (element >= present)
            return leat_fail(-EPROTO,
                             "plan: entry %u of pulse %d sends element %u, but only %u are there "
                             "when it does",
                             i, p, element, present);
        if (seen[element] == p + 1)
            return leat_fail(-EPROTO, "plan: entry %u of pulse %d sends element %u again", i, p,
                             element);
        seen[element] = p + 1;
        if ((element < plan->home_count) != (i < pulse->dependent_start))
            return leat_fail(-EPROTO,
                             "plan: the dependent entries of pulse %d begin at %u, but entry %u is "
                             "element %u of %u home elements",
                             p, pulse->dependent_start, i, element, plan->home_count);
    }
    if (pulse->dependent_start > pulse->send_count)
        return leat_fail(-EPROTO,
                         "plan: the dependent entries of pulse %d begin at %u, but it sends %u", p,
                         pulse->dependent_start, pulse->send_count);
    return 0;
}

static int check_zones(const struct leat_plan *plan)
{
    for (uint32_t i = 0; i < plan->element_count; i++)
        if ((plan->zone[i] == 0) != (i < plan->home_count) || plan->zone[i] > 7)
            return leat_fail(-EPROTO, "plan: element %u of %u home elements has zone %u", i,
                             plan->home_count, plan->zone[i]);
    return 0;
}

static int check_pulses(const struct leat_plan *plan, int *seen)
{
    uint64_t present = plan->home_count;
    for (int p = 0; p < plan->pulse_count; p++) {
        const leat_pulse *pulse = &plan->pulse[p];
        int error = check_frame(plan, p);
        if (!error)
            error = check_indices(plan, p, (uint32_t)present, seen);
        if (error)
            return error;
        uint64_t begin = (present + PLAN_RECV_ALIGNMENT - 1) / PLAN_RECV_ALIGNMENT;
        begin *= PLAN_RECV_ALIGNMENT;
        if (pulse->recv_offset != begin || begin + pulse->recv_count > plan->element_count)
            return leat_fail(-EPROTO,
                             "plan: pulse %d receives %u elements at %u, expected at %llu with at "
                             "most %u elements in all",
                             p, pulse->recv_count, pulse->recv_offset, (unsigned long long)begin,
                             plan->element_count);
        present = begin + pulse->recv_count;
    }
    if (present != plan->element_count)
        return leat_fail(-EPROTO, "plan: %u elements, but home elements and pulses make %llu",
                         plan->element_count, (unsigned long long)present);
    return 0;
}

int leat_plan_check(const struct leat_plan *plan)
{
    int *seen = calloc((size_t)plan->element_count + 1, sizeof *seen);
    if (!seen)
        return leat_fail(-ENOMEM, "no memory to check a plan of %u elements", plan->element_count);
    int error = check_pulses(plan, seen);
    free(seen);
    return error ? error : check_zones(plan);
}
