/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of ranks for plans from lists: edges that everybody knows, so that each rank can tell what
 * every ghost of its own has to be.
 *
 * Advantage: what is expected is computed from the edges alone, never from the plan under test.
 * Disadvantage: every rank holds the whole graph.
 */
#ifndef LEAT_TEST_MULTI_GRAPHS_H
#define LEAT_TEST_MULTI_GRAPHS_H

#include "multi/ranks.h"

#include <leat/halo.h>

#define GRAPH_RANKS 8
#define GRAPH_EDGES 256
#define GRAPH_HOME  40 /* home elements a rank, at most */
#define GRAPH_MODES 5

__attribute__((unused)) static const enum leat_mode graph_modes[GRAPH_MODES] = {
    LEAT_MODE_FUSED, LEAT_MODE_HOST, LEAT_MODE_STREAM, LEAT_MODE_PULSE, LEAT_MODE_RESIDENT};

/* A component of a field of any type. */
__attribute__((unused)) static double graph_get(const leat_field *field, const void *data,
                                                uint32_t element, int component)
{
    uint64_t at = (uint64_t)element * (uint64_t)field->components + (uint64_t)component;
    switch (field->element) {
    case LEAT_F32:
        return (double)((const float *)data)[at];
    case LEAT_F64:
        return ((const double *)data)[at];
    default:
        return (double)((const uint32_t *)data)[at];
    }
}

__attribute__((unused)) static void graph_set(const leat_field *field, void *data, uint32_t element,
                                              int component, double value)
{
    uint64_t at = (uint64_t)element * (uint64_t)field->components + (uint64_t)component;
    if (field->element == LEAT_F32)
        ((float *)data)[at] = (float)value;
    else if (field->element == LEAT_F64)
        ((double *)data)[at] = value;
    else
        ((uint32_t *)data)[at] = (uint32_t)value;
}

struct graph_edge {
    int from, to;
    uint32_t count, index[GRAPH_HOME];
    double shift_nm[3];
};

struct graph {
    int rank_count, edge_count;
    uint32_t home[GRAPH_RANKS];
    struct graph_edge edge[GRAPH_EDGES];
};

/* `count` different elements of `from`, in a random order. */
__attribute__((unused)) static struct graph_edge *
graph_join(struct graph *graph, int from, int to, uint32_t count, struct ranks_random *random)
{
    struct graph_edge *edge = &graph->edge[graph->edge_count];
    uint32_t home = graph->home[from], all[GRAPH_HOME];
    *edge = (struct graph_edge){.from = from, .to = to, .count = count < home ? count : home};
    for (uint32_t i = 0; i < home; i++)
        all[i] = i;
    for (uint32_t i = 0; i < edge->count; i++) {
        uint32_t other = i + (uint32_t)(ranks_random_word(random) % (home - i));
        edge->index[i] = all[other];
        all[other] = all[i];
    }
    for (int d = 0; d < 3; d++) // quarters: exact in every type
        edge->shift_nm[d] = (double)(ranks_random_word(random) % 16) * 0.25 - 2;
    graph->edge_count++;
    return edge;
}

/* The lists of one rank; `list` has room for all edges, twice. */
__attribute__((unused)) static leat_lists graph_lists(const struct graph *graph, int rank,
                                                      leat_list list[2 * GRAPH_EDGES])
{
    leat_lists lists = {.size = sizeof lists,
                        .home_count = graph->home[rank],
                        .sends = list,
                        .receives = list + GRAPH_EDGES};
    for (int e = 0; e < graph->edge_count; e++) {
        const struct graph_edge *edge = &graph->edge[e];
        if (edge->from == rank) {
            leat_list *send = &list[lists.send_count++];
            *send = (leat_list){.rank = edge->to, .count = edge->count, .index = edge->index};
            memcpy(send->shift_nm, edge->shift_nm, sizeof send->shift_nm);
        }
        if (edge->to == rank)
            list[GRAPH_EDGES + lists.recv_count++] =
                (leat_list){.rank = edge->from, .count = edge->count};
    }
    return lists;
}

__attribute__((unused)) static leat_plan *graph_plan(struct rank_thread *self,
                                                     const struct graph *graph)
{
    leat_list *list = calloc(2 * GRAPH_EDGES, sizeof *list);
    leat_lists lists = graph_lists(graph, self->rank, list);
    leat_plan *plan = NULL;
    int error = leat_plan_lists(self->job, &lists, &plan);
    free(list);
    rank_check(self, !error, "leat_plan_lists: %s", leat_error_detail());
    return plan;
}

/* ---- Graphs that are asked for often ---- */

/* Each rank to the next and to the one before, 3, 5, 7... elements. */
__attribute__((unused)) static void graph_ring(struct graph *graph, int rank_count)
{
    struct ranks_random random = {7};
    *graph = (struct graph){.rank_count = rank_count};
    for (int r = 0; r < rank_count; r++)
        graph->home[r] = 20 + (uint32_t)r;
    for (int r = 0; r < rank_count; r++) {
        graph_join(graph, r, (r + 1) % rank_count, 3 + 2 * (uint32_t)r, &random);
        graph_join(graph, r, (r + rank_count - 1) % rank_count, 1 + (uint32_t)r, &random);
    }
}

/* Rank 0 with all others: as many pulses there as all others have together. */
__attribute__((unused)) static void graph_star(struct graph *graph, int rank_count)
{
    struct ranks_random random = {8};
    *graph = (struct graph){.rank_count = rank_count};
    for (int r = 0; r < rank_count; r++)
        graph->home[r] = 12 + 3 * (uint32_t)r;
    for (int r = 1; r < rank_count; r++) {
        graph_join(graph, 0, r, (uint32_t)r, &random);
        for (int twice = 0; twice < 1 + r % 3; twice++)
            graph_join(graph, r, 0, 2 * (uint32_t)r, &random);
    }
}

/* Any edges, several between the same two, to oneself, empty, one way only. */
__attribute__((unused)) static void graph_random(struct graph *graph, int rank_count, uint64_t seed)
{
    struct ranks_random random = {seed};
    *graph = (struct graph){.rank_count = rank_count};
    for (int r = 0; r < rank_count; r++)
        graph->home[r] = (uint32_t)(ranks_random_word(&random) % GRAPH_HOME);
    int edges = 1 + (int)(ranks_random_word(&random) % (6 * (uint64_t)rank_count));
    for (int e = 0; e < edges; e++) {
        int from = (int)(ranks_random_word(&random) % (uint64_t)rank_count);
        int to = (int)(ranks_random_word(&random) % (uint64_t)rank_count);
        graph_join(graph, from, to, (uint32_t)(ranks_random_word(&random) % GRAPH_HOME), &random);
    }
}

#endif
