/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Halos on any device: fields in the device's memory, each with a mirror on the host, and jobs of
 * thread ranks whose time-out, device, packets and trace the test chooses.
 *
 * Values go up by leat_copy before an exchange and come down after it, with poison in every ghost
 * in between. Advantage: one body for the CPU device and for GPUs, and what is expected is computed
 * from the graph alone. Disadvantage: the host waits in every step, so exchanges never queue up.
 */
#ifndef LEAT_TEST_MULTI_DEVICE_HALO_H
#define LEAT_TEST_MULTI_DEVICE_HALO_H

#include "multi/boxes.h"
#include "multi/graphs.h"

#include "core/job.h"

#define LEAT_DEVICE_HOST_ONLY
#include <leat/device.h>

#include <errno.h>

#define HALO_POISON 77777.0

/* ---- Jobs ---- */

struct device_job {
    const char *device;
    const char *packets; /* LEAT_HALO_PACKETS, or NULL */
    const char *trace;
    double timeout_s;
    int rank_count;
};

static const char *const protocols[] = {"0", "1000000"};

/* As ranks_run. */
__attribute__((unused)) static void device_run(const struct device_job *job,
                                               void (*body)(struct rank_thread *self), void *user)
{
    leat_options options = {.size = sizeof options,
                            .thread_ranks = job->rank_count,
                            .arena_bytes = 64 << 20,
                            .timeout_s = job->timeout_s > 0 ? job->timeout_s : 20,
                            .trace = job->trace,
                            .device = job->device};
    leat_job *jobs[GRAPH_RANKS];
    struct rank_thread ranks[GRAPH_RANKS];
    pthread_t threads[GRAPH_RANKS];
    int failed = 0;
    assert_true(job->rank_count <= GRAPH_RANKS);
    if (job->packets)
        setenv("LEAT_HALO_PACKETS", job->packets, 1);
    int error = leat_open(&options, jobs);
    unsetenv("LEAT_HALO_PACKETS");
    if (error)
        fail_msg("leat_open of %d thread ranks: %s", job->rank_count, leat_error_detail());
    for (int r = 0; r < job->rank_count; r++) {
        ranks[r] = (struct rank_thread){
            .job = jobs[r], .rank = r, .rank_count = job->rank_count, .user = user, .body = body};
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < job->rank_count; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < job->rank_count; r++) {
        if (ranks[r].failure_count)
            print_error("rank %d of %d on %s, packets %s: first of %d: %s\n", r, job->rank_count,
                        job->device, job->packets ? job->packets : "by default",
                        ranks[r].failure_count, ranks[r].failure);
        failed += ranks[r].failure_count > 0;
        leat_close(ranks[r].job, NULL);
    }
    if (failed)
        fail_msg("%d of %d ranks failed", failed, job->rank_count);
}

/* 0, or the status of a program that cannot use the device, with the reason printed. */
__attribute__((unused)) static int device_missing(const char *device)
{
    const leat_options options = {.size = sizeof options, .device = device};
    leat_job *job = NULL;
    if (leat_open(&options, &job)) {
        printf("skipped: %s\n", leat_error_detail());
        return 77;
    }
    leat_close(job, NULL);
    return 0;
}

__attribute__((unused)) static void spin_for(uint64_t ns)
{
    uint64_t until = leat_now_ns() + ns;
    while (leat_now_ns() < until)
        ;
}

/* ---- Fields ---- */

struct bound {
    struct rank_thread *self;
    leat_plan *plan;
    leat_plan_info info;
    int field_count;
    leat_field field[LEAT_FIELDS_MAX];
    leat_region *region[LEAT_FIELDS_MAX], *mirror[LEAT_FIELDS_MAX];
    void *data[LEAT_FIELDS_MAX]; /* of the mirrors */
    leat_halo *halo;
};

__attribute__((unused)) static uint32_t element_bytes(const leat_field *field)
{
    return (uint32_t)field->components * (field->element == LEAT_F64 ? 8 : 4);
}

/* Room for `elements` in every field, there and here. */
__attribute__((unused)) static bool make_room(struct bound *bound, uint32_t elements)
{
    for (int f = 0; f < bound->field_count; f++) {
        leat_region_options options = {
            .size = sizeof options,
            .bytes = (uint64_t)elements * element_bytes(&bound->field[f]) + 64,
            .memory = LEAT_MEMORY_DEVICE};
        if (!rank_check(bound->self,
                        !leat_region_alloc(bound->self->job, &options, &bound->region[f]), "%s",
                        leat_error_detail()))
            return false;
        bound->data[f] = box_region(bound->self, options.bytes, &bound->mirror[f]);
        bound->field[f].place.region = bound->region[f];
    }
    return true;
}

__attribute__((unused)) static bool open_halo(struct bound *bound, enum leat_mode mode,
                                              uint64_t first_epoch)
{
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = mode,
                                       .field_count = bound->field_count,
                                       .fields = bound->field,
                                       .first_epoch = first_epoch};
    bound->info = box_info(bound->plan);
    return rank_check(bound->self,
                      !leat_halo_open(bound->self->job, bound->plan, &options, &bound->halo), "%s",
                      leat_error_detail());
}

__attribute__((unused)) static void unbind(struct bound *bound)
{
    leat_halo_free(bound->halo);
    leat_plan_free(bound->plan);
    for (int f = 0; f < bound->field_count; f++) {
        leat_region_free(bound->region[f]);
        leat_region_free(bound->mirror[f]);
    }
}

/* Brings the first `elements` of the mirror up, or of the field down. */
__attribute__((unused)) static bool bring(struct bound *bound, int f, uint32_t elements, bool up)
{
    const leat_place there = {bound->region[f], 0}, here = {bound->mirror[f], 0};
    const uint64_t bytes = (uint64_t)elements * element_bytes(&bound->field[f]);
    return rank_check(bound->self,
                      !leat_copy(bound->self->job, up ? there : here, up ? here : there, bytes,
                                 (leat_place){0}, 0),
                      "%s", leat_error_detail());
}

__attribute__((unused)) static double get(const struct bound *bound, int f, uint32_t element, int c)
{
    return graph_get(&bound->field[f], bound->data[f], element, c);
}

__attribute__((unused)) static void set(const struct bound *bound, int f, uint32_t element, int c,
                                        double value)
{
    graph_set(&bound->field[f], bound->data[f], element, c, value);
}

/* ---- Exchanges of a graph, every value checked; whole numbers and quarters, so that sums are
 * exact in every type ---- */

__attribute__((unused)) static double value_of(int rank, uint32_t element, int f, int c,
                                               uint64_t step)
{
    return (double)(rank * 400000 + (int)element * 8000 + (int)(step % 20) * 400 + c * 5 + f);
}

__attribute__((unused)) static void poison(const struct bound *bound, int f)
{
    for (uint32_t g = bound->info.home_count; g < bound->info.element_count; g++)
        for (int c = 0; c < bound->field[f].components; c++)
            set(bound, f, g, c, HALO_POISON);
}

/* Both in the stream's order; GPUs report here what went wrong. */
__attribute__((unused)) static bool exchange(struct bound *bound, int f,
                                             enum leat_direction direction)
{
    return rank_check(bound->self, !leat_halo_exchange(bound->halo, f, direction), "field %d: %s",
                      f, leat_error_detail()) &&
           rank_check(bound->self, !leat_device_wait(bound->self->job, -1), "field %d: %s", f,
                      leat_error_detail());
}

__attribute__((unused)) static bool check_ghosts(const struct bound *bound,
                                                 const struct graph *graph, int f, uint64_t step)
{
    struct rank_thread *self = bound->self;
    uint32_t ghost = bound->info.home_count;
    for (int e = 0; e < graph->edge_count; e++) {
        const struct graph_edge *edge = &graph->edge[e];
        for (uint32_t i = 0; edge->to == self->rank && i < edge->count; i++, ghost++)
            for (int c = 0; c < bound->field[f].components; c++) {
                double wanted = value_of(edge->from, edge->index[i], f, c, step);
                if (bound->field[f].shifted && c < 3)
                    wanted += edge->shift_nm[c];
                if (!rank_check(self, get(bound, f, ghost, c) == wanted,
                                "field %d, step %llu, edge %d (%d to %d), entry %u, component %d: "
                                "%g instead of %g",
                                f, (unsigned long long)step, e, edge->from, edge->to, i, c,
                                get(bound, f, ghost, c), wanted))
                    return false;
            }
    }
    return rank_check(self, ghost == bound->info.element_count, "%u elements instead of %u",
                      bound->info.element_count, ghost);
}

__attribute__((unused)) static void fill_home(const struct bound *bound, int f, uint64_t step)
{
    for (uint32_t i = 0; i < bound->info.home_count; i++)
        for (int c = 0; c < bound->field[f].components; c++)
            set(bound, f, i, c, value_of(bound->self->rank, i, f, c, step));
}

/* Ghosts that a peer may store to already are not poisoned. */
__attribute__((unused)) static bool forward(struct bound *bound, const struct graph *graph, int f,
                                            uint64_t step)
{
    const bool own = !bound->field[f].acknowledged_by;
    fill_home(bound, f, step);
    if (own)
        poison(bound, f);
    return bring(bound, f, own ? bound->info.element_count : bound->info.home_count, true) &&
           exchange(bound, f, LEAT_FORWARD) && bring(bound, f, bound->info.element_count, false) &&
           check_ghosts(bound, graph, f, step);
}

/* What a ghost sends back: known to its owner from the edge and the place in it. */
__attribute__((unused)) static double returned(int edge, uint32_t entry, int c, uint64_t step)
{
    return (double)(edge + 3 * (int)entry + c + (int)(step % 50)) + 0.25;
}

__attribute__((unused)) static bool check_sums(const struct bound *bound, const struct graph *graph,
                                               int f, uint64_t step)
{
    double sum[GRAPH_HOME];
    for (int c = 0; c < bound->field[f].components; c++) {
        for (uint32_t i = 0; i < bound->info.home_count; i++)
            sum[i] = (double)i;
        for (int e = 0; e < graph->edge_count; e++) {
            const struct graph_edge *edge = &graph->edge[e];
            for (uint32_t i = 0; edge->from == bound->self->rank && i < edge->count; i++)
                sum[edge->index[i]] += returned(e, i, c, step);
        }
        for (uint32_t i = 0; i < bound->info.home_count; i++)
            if (!rank_check(bound->self, get(bound, f, i, c) == sum[i],
                            "field %d, step %llu, element %u, component %d: %g instead of %g", f,
                            (unsigned long long)step, i, c, get(bound, f, i, c), sum[i]))
                return false;
    }
    return true;
}

/* Numbers at home, and what goes back in the ghosts. */
__attribute__((unused)) static void fill_returned(const struct bound *bound,
                                                  const struct graph *graph, int f, uint64_t step)
{
    uint32_t ghost = bound->info.home_count;
    for (int c = 0; c < bound->field[f].components; c++)
        for (uint32_t i = 0; i < bound->info.home_count; i++)
            set(bound, f, i, c, (double)i);
    for (int e = 0; e < graph->edge_count; e++)
        for (uint32_t i = 0; graph->edge[e].to == bound->self->rank && i < graph->edge[e].count;
             i++, ghost++)
            for (int c = 0; c < bound->field[f].components; c++)
                set(bound, f, ghost, c, returned(e, i, c, step));
}

__attribute__((unused)) static bool reverse(struct bound *bound, const struct graph *graph, int f,
                                            uint64_t step)
{
    fill_returned(bound, graph, f, step);
    return bring(bound, f, bound->info.element_count, true) && exchange(bound, f, LEAT_REVERSE) &&
           bring(bound, f, bound->info.home_count, false) && check_sums(bound, graph, f, step);
}

#endif
