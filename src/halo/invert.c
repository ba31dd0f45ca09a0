// SPDX-License-Identifier: Apache-2.0
// The plan inverted: for each element, what was sent of it, in the order its values come back.
//
// Algorithm: count the sent entries of each element, prefix-sum, fill with the pulses descending.
// Advantage: one lane can add all that comes back for an element, in a fixed order, without
// atomics. Disadvantage: four bytes an element and four an entry more.

#include "halo/halo_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int alloc_words(struct leat_halo *halo, uint64_t count, struct device_memory *words)
{
    return halo->job->device->ops->alloc(halo->job->device, count * sizeof(uint32_t), words);
}

static void fill_sources(struct leat_halo *halo)
{
    const struct leat_plan *plan = halo->plan;
    uint32_t *start = halo->source_start.host, *source = halo->source.host;
    const uint32_t *index = halo->index.host;
    struct k_sent *sent_home = halo->sent_home.host;
    for (uint32_t i = 0; i < halo->send_total; i++)
        start[index[i] + 1]++;
    for (uint32_t e = 0; e < plan->element_count; e++)
        start[e + 1] += start[e];
    // Each start is moved on while its entries are filled and ends where the next one began.
    uint32_t offset = halo->send_total;
    for (int p = plan->pulse_count - 1; p >= 0; p--) {
        offset -= plan->pulse[p].send_count;
        for (uint32_t i = 0; i < plan->pulse[p].send_count; i++)
            source[start[index[offset + i]]++] = offset + i;
    }
    memmove(start + 1, start, plan->element_count * sizeof *start);
    start[0] = 0;
    for (uint32_t e = 0; e < plan->home_count; e++)
        if (start[e] != start[e + 1])
            sent_home[halo->sent_home_count++] = (struct k_sent){e, start[e]};
    sent_home[halo->sent_home_count] = (struct k_sent){.first = start[plan->home_count]};
}

static int pulse_of(const struct leat_plan *plan, uint32_t element)
{
    for (int q = 0; q < plan->pulse_count; q++)
        if (element - plan->pulse[q].recv_offset < plan->pulse[q].recv_count)
            return q;
    return -1;
}

static void find_needs(struct leat_halo *halo)
{
    const struct leat_plan *plan = halo->plan;
    for (int p = 0; p < plan->pulse_count; p++) {
        const leat_pulse *pulse = &plan->pulse[p];
        for (uint32_t i = pulse->dependent_start; i < pulse->send_count; i++) {
            int q = pulse_of(plan, pulse->index[i]);
            if (q < 0)
                continue;
            halo->forward_needs[p] |= UINT64_C(1) << q;
            halo->reverse_needs[q] |= UINT64_C(1) << p;
        }
    }
}

static int publish(struct leat_halo *halo)
{
    struct device *device = halo->job->device;
    const struct device_memory *filled[] = {&halo->index, &halo->source_start, &halo->source,
                                            &halo->sent_home};
    int error = 0;
    for (size_t i = 0; !error && i < sizeof filled / sizeof *filled; i++)
        error = device->ops->publish(device, filled[i]);
    return error;
}

int halo_invert(struct leat_halo *halo)
{
    const struct leat_plan *plan = halo->plan;
    int error = alloc_words(halo, halo->send_total, &halo->index);
    if (!error)
        error = alloc_words(halo, halo->send_total, &halo->source);
    if (!error)
        error = alloc_words(halo, (uint64_t)plan->element_count + 1, &halo->source_start);
    if (!error)
        error = alloc_words(halo, 2 * ((uint64_t)plan->home_count + 1), &halo->sent_home);
    if (error)
        return error;
    uint32_t offset = 0, *index = halo->index.host;
    for (int p = 0; p < plan->pulse_count; p++) {
        if (plan->pulse[p].send_count)
            memcpy(index + offset, plan->pulse[p].index,
                   plan->pulse[p].send_count * sizeof(uint32_t));
        offset += plan->pulse[p].send_count;
    }
    fill_sources(halo);
    find_needs(halo);
    return publish(halo);
}
