// SPDX-License-Identifier: Apache-2.0
// Virtual time: see agenda.h.
//
// Algorithm: a pairing heap a node; a ring of windows, each with a bit a node. Advantage: adding an
// event compares with one other, and finding who is next is a scan of bits. Disadvantage: the bits
// take 128 bytes a node.

#include "sim/agenda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sim_agenda_open(struct sim_agenda *agenda, int node_count, uint64_t window_ps)
{
    *agenda = (struct sim_agenda){.node_count = node_count, .window_ps = window_ps, .visited = -1};
    agenda->words = ((uint32_t)node_count + 63) / 64;
    agenda->root = calloc((size_t)node_count, sizeof(struct sim_event *));
    agenda->marks = calloc((size_t)SIM_WINDOWS * agenda->words, sizeof *agenda->marks);
    agenda->marked = calloc(SIM_WINDOWS, sizeof *agenda->marked);
    if (agenda->root && agenda->marks && agenda->marked)
        return 0;
    sim_agenda_close(agenda);
    return -ENOMEM;
}

void sim_agenda_close(struct sim_agenda *agenda)
{
    free(agenda->root);
    free(agenda->marks);
    free(agenda->marked);
    *agenda = (struct sim_agenda){.node_count = 0};
}

// ---- Windows ----

static uint64_t *marks_of(const struct sim_agenda *agenda, uint64_t window)
{
    return agenda->marks + window % SIM_WINDOWS * agenda->words;
}

void sim_agenda_mark(struct sim_agenda *agenda, int node, uint64_t at_ps)
{
    uint64_t window = at_ps / agenda->window_ps;
    if (window > agenda->window + SIM_WINDOWS - 1)
        window = agenda->window + SIM_WINDOWS - 1;
    uint64_t *word = marks_of(agenda, window) + (uint32_t)node / 64;
    uint64_t bit = UINT64_C(1) << ((uint32_t)node % 64);
    if (*word & bit)
        return;
    *word |= bit;
    agenda->marked[window % SIM_WINDOWS]++;
    agenda->marked_count++;
}

bool sim_agenda_advance(struct sim_agenda *agenda)
{
    if (!agenda->marked_count)
        return false;
    while (!agenda->marked[agenda->window % SIM_WINDOWS])
        agenda->window++;
    agenda->begin_ps = agenda->window * agenda->window_ps;
    agenda->at_word = 0;
    return true;
}

int sim_agenda_node(struct sim_agenda *agenda)
{
    uint64_t *marks = marks_of(agenda, agenda->window);
    if (!agenda->marked[agenda->window % SIM_WINDOWS])
        return agenda->visited = -1;
    while (!marks[agenda->at_word])
        agenda->at_word++;
    uint64_t word = marks[agenda->at_word];
    marks[agenda->at_word] = word & (word - 1);
    agenda->marked[agenda->window % SIM_WINDOWS]--;
    agenda->marked_count--;
    return agenda->visited = (int)(agenda->at_word * 64) + __builtin_ctzll(word);
}

int sim_agenda_ahead(const struct sim_agenda *agenda)
{
    const uint64_t *marks = marks_of(agenda, agenda->window);
    for (uint32_t at = agenda->at_word; at < agenda->words && at < agenda->at_word + 8; at++)
        if (marks[at])
            return (int)(at * 64) + __builtin_ctzll(marks[at]);
    return -1;
}

// ---- Events ----

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->number < b->number;
}

static struct sim_event *meld(struct sim_event *a, struct sim_event *b)
{
    if (before(b, a)) {
        struct sim_event *c = a;
        a = b;
        b = c;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

void sim_agenda_add(struct sim_agenda *agenda, int node, struct sim_event *event)
{
    event->number = agenda->next_number++;
    event->child = event->sibling = NULL;
    agenda->added++;
    struct sim_event *root = agenda->root[node];
    agenda->root[node] = root ? meld(root, event) : event;
    if (node != agenda->visited || event->at_ps >= sim_agenda_end(agenda))
        sim_agenda_mark(agenda, node, event->at_ps);
}

struct sim_event *sim_agenda_take(struct sim_agenda *agenda, int node)
{
    struct sim_event *taken = agenda->root[node], *left = taken->child, *pairs = NULL;
    while (left) {
        struct sim_event *first = left, *second = first->sibling;
        left = second ? second->sibling : NULL;
        first->sibling = NULL;
        if (second) {
            second->sibling = NULL;
            first = meld(first, second);
        }
        first->sibling = pairs;
        pairs = first;
    }
    struct sim_event *root = NULL;
    while (pairs) {
        struct sim_event *next = pairs->sibling;
        pairs->sibling = NULL;
        root = root ? meld(root, pairs) : pairs;
        pairs = next;
    }
    agenda->root[node] = root;
    taken->child = NULL;
    return taken;
}
