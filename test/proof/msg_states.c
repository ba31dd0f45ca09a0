// SPDX-License-Identifier: Apache-2.0
// The search: see msg_states.h for how and why.

#include "proof/msg_states.h"

#include "proof/explore_states.h"
#include "proof/msg_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 1000

struct search {
    const struct script *script;
    struct search_result *result;
    struct states states;
    uint64_t state_limit;
    struct world *world; /* NULL: has to be made again */
    uint16_t way[DEPTH_MAX], next[DEPTH_MAX];
    uint64_t hash[DEPTH_MAX]; /* of the state that the way has led to */
    bool moved[DEPTH_MAX];
    size_t depth;
};

static void tell(struct search_result *result, const struct script *script,
                 const struct world *world, const uint16_t *way, size_t depth)
{
    char *text = result->violation;
    size_t room = sizeof result->violation, used;
    used = (size_t)snprintf(text, room, "%s: %s; order:", script->name, world->violation);
    struct world *again = world_new(script);
    for (size_t d = 0; d < depth && used + 64 < room; d++) {
        char one[48];
        world_describe(again, way[d], one, sizeof one);
        used += (size_t)snprintf(text + used, room - used, " %s,", one);
        world_do(again, way[d]);
    }
    world_free(again);
}

static struct world *go_to(const struct search *search)
{
    struct world *world = world_new(search->script);
    for (size_t d = 0; d < search->depth; d++)
        world_do(world, search->way[d]);
    search->result->runs++;
    search->result->steps += search->depth;
    if (search->depth && !world->violation[0] && world_hash(world) != search->hash[search->depth])
        snprintf(world->violation, sizeof world->violation,
                 "the same order did not lead to the same state: something that was said to change "
                 "nothing did");
    return world;
}

static void leave(struct search *search)
{
    world_free(search->world);
    search->world = NULL;
}

// One step at the node that the way leads to; false: the search is over.
static bool advance(struct search *search)
{
    struct search_result *result = search->result;
    size_t depth = search->depth;
    if (!search->world)
        search->world = go_to(search);
    struct world *world = search->world;
    if (world->violation[0])
        return false;
    if (search->next[depth] >= world_choices(world)) {
        if (!search->moved[depth]) {
            result->ends++;
            world_end(world);
            if (world->violation[0])
                return false;
        }
        leave(search);
        if (!depth)
            return false;
        search->depth--;
        return true;
    }
    uint16_t choice = search->next[depth]++;
    result->steps++;
    bool changed = world_do(world, choice);
    search->way[depth] = choice;
    if (world->violation[0]) {
        search->depth++;
        return false;
    }
    if (!changed)
        return true;
    search->moved[depth] = true;
    uint64_t hash = world_hash(world);
    if (!states_add(&search->states, hash)) {
        leave(search);
        return true;
    }
    if (++result->states > search->state_limit) {
        result->whole = false;
        return false;
    }
    if (depth + 1 == DEPTH_MAX) {
        snprintf(world->violation, sizeof world->violation, "it goes on without end");
        return false;
    }
    search->depth++;
    search->hash[search->depth] = hash;
    search->next[search->depth] = 0;
    search->moved[search->depth] = false;
    if (search->depth > result->longest)
        result->longest = search->depth;
    return true;
}

void search_script(const struct script *script, uint64_t state_limit, struct search_result *result)
{
    *result = (struct search_result){.whole = true};
    struct search *search = calloc(1, sizeof *search);
    search->script = script;
    search->result = result;
    search->state_limit = state_limit;
    search->states.capacity = 1 << 16;
    search->states.seen = calloc(search->states.capacity, sizeof *search->states.seen);
    while (advance(search))
        ;
    if (search->world && search->world->violation[0])
        tell(result, script, search->world, search->way, search->depth);
    world_free(search->world);
    free(search->states.seen);
    free(search);
}

// ---- at random ----

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    return mix(mix(*state, 1), 2);
}

// Tries the choices of a state from a random one on; false: none changes anything.
static bool walk_on(struct world *world, uint64_t *random, uint16_t *choice)
{
    size_t count = world_choices(world), first = draw(random) % count;
    for (size_t i = 0; i < count; i++) {
        *choice = (uint16_t)((first + i) % count);
        if (world_do(world, *choice))
            return true;
        if (world->violation[0])
            return true;
    }
    return false;
}

void walk_script(const struct script *script, uint64_t seed, uint64_t walks,
                 struct search_result *result)
{
    *result = (struct search_result){0};
    uint16_t way[DEPTH_MAX];
    for (uint64_t n = 0; n < walks && !result->violation[0]; n++) {
        uint64_t random = mix(seed, n);
        struct world *world = world_new(script);
        size_t depth = 0;
        while (depth < DEPTH_MAX && walk_on(world, &random, &way[depth])) {
            depth++;
            if (world->violation[0])
                break;
        }
        result->runs++;
        result->steps += depth;
        if (depth > result->longest)
            result->longest = depth;
        if (depth == DEPTH_MAX)
            snprintf(world->violation, sizeof world->violation, "it goes on without end");
        else if (!world->violation[0])
            world_end(world);
        if (world->violation[0])
            tell(result, script, world, way, depth);
        world_free(world);
    }
}
