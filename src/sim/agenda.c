// SPDX-License-Identifier: Apache-2.0
// Virtual time: see agenda.h.
//
// Algorithm: a heap of four children a node; a ring of windows, each with a bit a node. Advantage:
// few lines of memory are read, and finding who is next is a scan of bits. Disadvantage: the bits
// take 128 bytes a node.

#include "sim/agenda.h"

#include <errno.h>
#include <stdlib.h>

int sim_agenda_open(struct sim_agenda *agenda, int node_count, uint64_t window_ps)
{
    *agenda = (struct sim_agenda){.node_count = node_count, .window_ps = window_ps, .visited = -1};
    agenda->words = ((uint32_t)node_count + 63) / 64;
    agenda->dues = calloc((size_t)node_count, sizeof *agenda->dues);
    agenda->first_dues = calloc((size_t)node_count * SIM_DUE_FIRST, sizeof *agenda->first_dues);
    agenda->marks = calloc((size_t)SIM_WINDOWS * agenda->words, sizeof *agenda->marks);
    agenda->marked = calloc(SIM_WINDOWS, sizeof *agenda->marked);
    if (!agenda->dues || !agenda->first_dues || !agenda->marks || !agenda->marked) {
        sim_agenda_close(agenda);
        return -ENOMEM;
    }
    for (int node = 0; node < node_count; node++)
        agenda->dues[node] = (struct sim_dues){
            .due = agenda->first_dues + (size_t)node * SIM_DUE_FIRST, .capacity = SIM_DUE_FIRST};
    return 0;
}

void sim_agenda_close(struct sim_agenda *agenda)
{
    for (int node = 0; agenda->dues && node < agenda->node_count; node++)
        if (agenda->dues[node].capacity > SIM_DUE_FIRST)
            free(agenda->dues[node].due);
    free(agenda->dues);
    free(agenda->first_dues);
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
        return -1;
    while (!marks[agenda->at_word])
        agenda->at_word++;
    uint64_t word = marks[agenda->at_word];
    marks[agenda->at_word] = word & (word - 1);
    agenda->marked[agenda->window % SIM_WINDOWS]--;
    agenda->marked_count--;
    return (int)(agenda->at_word * 64) + __builtin_ctzll(word);
}

// ---- Events ----

static bool before(const struct sim_due *a, const struct sim_due *b)
{
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->number < b->number;
}

static int grow(struct sim_dues *dues)
{
    uint32_t capacity = 2 * dues->capacity;
    bool shared = dues->capacity <= SIM_DUE_FIRST; // the beginning, which lies with all the others'
    struct sim_due *grown = realloc(shared ? NULL : dues->due, capacity * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    for (uint32_t i = 0; shared && i < dues->count; i++)
        grown[i] = dues->due[i];
    dues->due = grown;
    dues->capacity = capacity;
    return 0;
}

int sim_agenda_add(struct sim_agenda *agenda, int node, struct sim_event *event)
{
    struct sim_dues *dues = &agenda->dues[node];
    if (dues->count == dues->capacity && grow(dues))
        return -ENOMEM;
    const struct sim_due added = {event->at_ps, agenda->added++, event};
    uint32_t at = dues->count++;
    for (; at && before(&added, &dues->due[(at - 1) / 4]); at = (at - 1) / 4)
        dues->due[at] = dues->due[(at - 1) / 4];
    dues->due[at] = added;
    if (node != agenda->visited || event->at_ps >= sim_agenda_end(agenda))
        sim_agenda_mark(agenda, node, event->at_ps);
    return 0;
}

struct sim_event *sim_agenda_take(struct sim_agenda *agenda, int node)
{
    struct sim_dues *dues = &agenda->dues[node];
    struct sim_due *due = dues->due, last = due[--dues->count];
    struct sim_event *taken = due->event;
    uint32_t at = 0;
    for (;;) {
        uint32_t first = 4 * at + 1, least = first;
        if (first >= dues->count)
            break;
        for (uint32_t child = first + 1; child < first + 4 && child < dues->count; child++)
            if (before(&due[child], &due[least]))
                least = child;
        if (!before(&due[least], &last))
            break;
        due[at] = due[least];
        at = least;
    }
    due[at] = last;
    return taken;
}
