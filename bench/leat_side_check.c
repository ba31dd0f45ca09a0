// SPDX-License-Identifier: Apache-2.0
// What an exchange of leat's side of the halo benchmark has to do, worked out on the host.
//
// Every rank keeps an array of what is expected, and follows the plans pulse by pulse: forward each
// ghost is the sender's expected element and the shift, back each element gets its ghosts' sums.
// Advantage: independent of the kernels, and exact, since all sums are of small whole numbers.
// Disadvantage: takes the plan's word for what has to be where; `leat halo check` does not.

#define _GNU_SOURCE
#include "leat_side.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void meet(struct side_rank *rank)
{
    pthread_barrier_wait(&rank->side->barrier);
}

static size_t value_count(const struct side_rank *rank)
{
    return (size_t)rank->info.element_count * (size_t)rank->slice.components;
}

static float stamp_of(const struct side_rank *rank, size_t element, size_t c, uint32_t stamp)
{
    const size_t number = (size_t)rank->rank;
    if (rank->slice.reverse)
        return (float)((element + 3 * c + 5 * number + stamp) & 127);
    if (c == 0)
        return (float)(element + 1);
    return c == 1 ? (float)(16 * stamp + number) : (float)((7 * element + stamp + c) & 1023);
}

// ---- what is expected ----

static void expect_forward(struct side_rank *rank, int p)
{
    const leat_pulse *pulse = &rank->info.pulses[p];
    const size_t components = (size_t)rank->slice.components;
    if (pulse->recv_rank == LEAT_NOBODY)
        return;
    const struct side_rank *from = &rank->side->rank[pulse->recv_rank];
    const leat_pulse *sent = &from->info.pulses[p];
    for (size_t k = 0; k < sent->send_count; k++)
        for (size_t c = 0; c < components; c++)
            rank->expected[(pulse->recv_offset + k) * components + c] =
                from->expected[sent->index[k] * components + c] +
                (c < 3 ? (float)sent->shift_nm[c] : 0.0f);
}

static void expect_reverse(struct side_rank *rank, int p)
{
    const leat_pulse *pulse = &rank->info.pulses[p];
    const size_t components = (size_t)rank->slice.components;
    if (pulse->send_rank == LEAT_NOBODY)
        return;
    const struct side_rank *from = &rank->side->rank[pulse->send_rank];
    const size_t offset = from->info.pulses[p].recv_offset;
    for (size_t k = 0; k < pulse->send_count; k++)
        for (size_t c = 0; c < components; c++)
            rank->expected[pulse->index[k] * components + c] +=
                from->expected[(offset + k) * components + c];
}

// Between pulses all meet, since one's ghosts are the next one's elements.
static void expect(struct side_rank *rank)
{
    const int count = rank->info.pulse_count;
    for (int i = 0; i < count; i++) {
        meet(rank);
        if (rank->slice.reverse)
            expect_reverse(rank, count - 1 - i);
        else
            expect_forward(rank, i);
    }
    meet(rank);
}

// ---- the device's memory, by the library's own copy ----

static int copy(struct side_rank *rank, leat_region *to, leat_region *from, size_t offset,
                size_t bytes)
{
    const leat_place none = {0};
    return leat_copy(rank->job, (leat_place){to, offset}, (leat_place){from, offset}, bytes, none,
                     0);
}

int side_fill(struct side_rank *rank, uint32_t stamp)
{
    const size_t components = (size_t)rank->slice.components, count = value_count(rank);
    const size_t home = (size_t)rank->info.home_count * components;
    const size_t all = count + (size_t)side_ghost_count(rank) * components;
    for (size_t i = 0; i < all; i++)
        rank->host[i] = i < home || (rank->slice.reverse && i < count)
                            ? stamp_of(rank, i / components, i % components, stamp)
                            : NAN; // has to be overwritten
    memcpy(rank->expected, rank->host, count * sizeof *rank->expected);
    expect(rank);
    int error = copy(rank, rank->field, rank->staging, 0, all * sizeof *rank->host);
    meet(rank);
    return error;
}

int side_check(struct side_rank *rank)
{
    const size_t components = (size_t)rank->slice.components, count = value_count(rank);
    const size_t home = (size_t)rank->info.home_count * components;
    const size_t all = count + (size_t)side_ghost_count(rank) * components;
    leat_halo_info info = {.size = sizeof info};
    leat_halo_info_get(rank->halo, &info);
    int error = copy(rank, rank->staging, rank->field, 0, all * sizeof *rank->host);
    // Back, ghosts' own values say nothing any more.
    const size_t end = rank->slice.reverse ? home : count;
    for (size_t i = 0; !error && i < end; i++) {
        const size_t at = i < home ? i : i + info.ghost_shift[0] * components;
        if (rank->host[at] != rank->expected[i])
            error = leat_fail(-EIO, "element %zu (%s), component %zu: got %g, expected %g",
                              i / components, i < home ? "home" : "ghost", i % components,
                              (double)rank->host[at], (double)rank->expected[i]);
    }
    return error;
}
