// SPDX-License-Identifier: Apache-2.0
// Plans from the caller's own lists: meshes and graphs.
//
// Algorithm: list i of either kind becomes pulse i; nothing is forwarded, so nothing depends on an
// earlier pulse. Which of the peer's pulses goes with which of ours is found when boards are
// compared. Advantage: no communication to make the plan. Disadvantage: a mistake in the lists
// shows only at leat_halo_open.

#include "core/job.h"
#include "halo/halo_internal.h"
#include "halo/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check_list(const struct leat_job *job, const leat_list *list, uint32_t home_count, int i,
                      bool sends)
{
    const char *way = sends ? "send" : "receive";
    if (list->rank < 0 || list->rank >= job->rank_count)
        return leat_fail(-EINVAL, "list %d to %s names rank %d of a job of %d", i, way, list->rank,
                         job->rank_count);
    if (sends && list->count && !list->index)
        return leat_fail(-EINVAL, "list %d to send to rank %d has %u entries, but index is NULL", i,
                         list->rank, list->count);
    for (uint32_t e = 0; sends && e < list->count; e++)
        if (list->index[e] >= home_count)
            return leat_fail(-EINVAL,
                             "list %d to send to rank %d: entry %u is element %u; only home "
                             "elements can be sent, which are %u",
                             i, list->rank, e, list->index[e], home_count);
    return 0;
}

static int check_lists(const struct leat_job *job, const leat_lists *lists)
{
    if (lists->send_count < 0 || lists->recv_count < 0 || lists->send_count > HALO_PULSES_MAX ||
        lists->recv_count > HALO_PULSES_MAX)
        return leat_fail(-E2BIG, "%d lists to send and %d to receive; 0 to %d each",
                         lists->send_count, lists->recv_count, HALO_PULSES_MAX);
    if ((lists->send_count && !lists->sends) || (lists->recv_count && !lists->receives))
        return leat_fail(-EINVAL, "%d lists to send and %d to receive, but %s is NULL",
                         lists->send_count, lists->recv_count,
                         lists->send_count && !lists->sends ? "sends" : "receives");
    uint64_t elements = lists->home_count;
    for (int i = 0; i < lists->send_count + lists->recv_count; i++) {
        bool sends = i < lists->send_count;
        int number = sends ? i : i - lists->send_count;
        const leat_list *list = sends ? &lists->sends[number] : &lists->receives[number];
        int error = check_list(job, list, lists->home_count, number, sends);
        if (error)
            return error;
        elements += sends ? 0 : list->count;
    }
    if (elements > UINT32_MAX - 1)
        return leat_fail(-EOVERFLOW, "%llu elements with all ghosts; at most %u",
                         (unsigned long long)elements, UINT32_MAX - 1);
    return 0;
}

static int alloc_plan(const leat_lists *lists, int pulse_count, leat_plan **made)
{
    uint64_t entries = 0;
    uint32_t elements = lists->home_count;
    for (int i = 0; i < lists->send_count; i++)
        entries += lists->sends[i].count;
    for (int i = 0; i < lists->recv_count; i++)
        elements += lists->receives[i].count;
    leat_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return leat_fail(-ENOMEM, "no memory for a plan");
    plan->pulse = calloc((size_t)pulse_count + 1, sizeof *plan->pulse);
    plan->index = malloc((entries + 1) * sizeof *plan->index);
    plan->zone = calloc((size_t)elements + 1, 1);
    if (!plan->pulse || !plan->index || !plan->zone) {
        leat_plan_free(plan);
        return leat_fail(-ENOMEM, "no memory for a plan of %u elements", elements);
    }
    plan->home_count = lists->home_count;
    plan->element_count = elements;
    plan->pulse_count = pulse_count;
    memset(plan->zone + lists->home_count, 1, elements - lists->home_count);
    *made = plan;
    return 0;
}

static void fill_pulses(const leat_lists *lists, leat_plan *plan)
{
    uint32_t *index = plan->index;
    uint32_t offset = lists->home_count;
    for (int p = 0; p < plan->pulse_count; p++) {
        leat_pulse *pulse = &plan->pulse[p];
        *pulse = (leat_pulse){.direction = 1,
                              .send_rank = LEAT_NOBODY,
                              .recv_rank = LEAT_NOBODY,
                              .index = index,
                              .recv_offset = offset};
        if (p < lists->send_count) {
            const leat_list *list = &lists->sends[p];
            pulse->send_rank = list->rank;
            pulse->send_count = pulse->dependent_start = list->count;
            memcpy(pulse->shift_nm, list->shift_nm, sizeof pulse->shift_nm);
            if (list->count)
                memcpy(index, list->index, list->count * sizeof *index);
            index += list->count;
        }
        if (p < lists->recv_count) {
            pulse->recv_rank = lists->receives[p].rank;
            pulse->recv_count = lists->receives[p].count;
            offset += pulse->recv_count;
        }
    }
}

int leat_plan_lists(leat_job *job, const leat_lists *lists, leat_plan **plan)
{
    int need = leat_need(job, "leat_plan_lists", "job");
    if (!need)
        need = leat_need(plan, "leat_plan_lists", "plan");
    if (need)
        return need;
    if (!lists || !lists->size)
        return leat_fail(-EINVAL, "leat_lists.size is 0; set it to sizeof(leat_lists)");
    leat_lists full = {0};
    memcpy(&full, lists, lists->size < sizeof full ? lists->size : sizeof full);
    int pulse_count = full.send_count > full.recv_count ? full.send_count : full.recv_count;
    leat_plan *made = NULL;
    int error = check_lists(job, &full);
    if (!error)
        error = alloc_plan(&full, pulse_count, &made);
    if (error)
        return error;
    made->rank = job->rank;
    made->rank_count = job->rank_count;
    fill_pulses(&full, made);
    // The checks that every plan has to pass are what a list can be wrong in.
    if (leat_plan_check(made)) {
        leat_plan_free(made);
        return leat_fail_in(-EINVAL, "lists");
    }
    *plan = made;
    return 0;
}
