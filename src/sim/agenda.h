/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time: a heap of events a node, and windows of time that are gone through node by node.
 *
 * A window is no longer than the least time in which anything done at one node reaches another. So
 * within a window nodes do not depend on one another, and each is visited once, in rising order,
 * with all its events of that window, whatever the order between nodes. What a node's events cause
 * at others lies in later windows. Events of a node come in order of time, ties in the order in
 * which they were added; nothing depends on addresses, so a run repeats to the bit.
 *
 * Advantage: a node's memory is in the cache for all it does in a window, and the next one's can be
 * fetched ahead: with tens of thousands of nodes that is most of the cost. Disadvantage: what nodes
 * share (links) has to be seen to between two windows.
 */
#ifndef LEAT_SIM_AGENDA_H
#define LEAT_SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_WINDOWS 1024 /* that are kept apart; what lies beyond is looked at early, and again */
#define SIM_NEVER   UINT64_MAX

#define SIM_DUE_FIRST 12 /* events of a node that find room without asking for memory */

struct sim_event {
    uint64_t at_ps;
};

/* The events of a node: a heap in an array, so that finding the next one reads few lines. */
struct sim_dues {
    struct sim_due {
        uint64_t at_ps, number;
        struct sim_event *event;
    } * due;
    uint32_t count, capacity;
};

struct sim_agenda {
    int node_count;
    uint64_t window_ps, begin_ps; /* of the current window */
    uint64_t window;              /* its number */
    uint64_t added;               /* events so far: their numbers */
    struct sim_dues *dues;        /* [node_count] */
    struct sim_due *first_dues;   /* [node_count][SIM_DUE_FIRST] */
    uint64_t *marks;              /* [SIM_WINDOWS][words] a bit a node */
    uint32_t *marked;             /* [SIM_WINDOWS] nodes */
    uint32_t words, at_word;
    int visited;           /* -1: none */
    uint64_t marked_count; /* in all windows */
};

/* -ENOMEM. */
int sim_agenda_open(struct sim_agenda *agenda, int node_count, uint64_t window_ps);
/* The events are the caller's. */
void sim_agenda_close(struct sim_agenda *agenda);

static inline uint64_t sim_agenda_end(const struct sim_agenda *agenda)
{
    return agenda->begin_ps + agenda->window_ps;
}

/* Goes to the next window in which a node has something to do; false: there is none. */
bool sim_agenda_advance(struct sim_agenda *agenda);
/* The next node of the current window, unmarked; -1: no more. Nodes may be taken before they are
 * visited. */
int sim_agenda_node(struct sim_agenda *agenda);
/* Says which node is visited; -1: none is. */
static inline void sim_agenda_visit(struct sim_agenda *agenda, int node)
{
    agenda->visited = node;
}

/* Has the node visited in the window of `at_ps`, which is not before the current one. */
void sim_agenda_mark(struct sim_agenda *agenda, int node, uint64_t at_ps);
/* Adds an event; event->at_ps is set. -ENOMEM. The node is marked, unless it is being visited and
 * the event lies in the current window: whoever is visited looks at its events until the window
 * ends. */
int sim_agenda_add(struct sim_agenda *agenda, int node, struct sim_event *event);
/* When the node's next event is; SIM_NEVER: it has none. */
static inline uint64_t sim_agenda_next_ps(const struct sim_agenda *agenda, int node)
{
    const struct sim_dues *dues = &agenda->dues[node];
    return dues->count ? dues->due->at_ps : SIM_NEVER;
}
/* The node's next event, which is there. */
struct sim_event *sim_agenda_take(struct sim_agenda *agenda, int node);

#endif
