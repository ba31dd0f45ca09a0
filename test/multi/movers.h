/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole job's groups, and what a caller of leat_halo_migrate holds of them on each rank.
 *
 * Every element and group carries stamps made from its number, so that whatever arrives tells what
 * it is.
 */
#ifndef LEAT_TEST_MULTI_MOVERS_H
#define LEAT_TEST_MULTI_MOVERS_H

#include "multi/ranks.h"

#include <leat/halo.h>

#include <errno.h>
#include <math.h>

#define MOST_RANKS 8
#define STAMPS     5

enum { FIELD_STAMP, FIELD_X, FIELD_ID, FIELD_GROUP, FIELD_COUNT };

struct stamp {
    uint32_t word[STAMPS];
};

/* What a caller of the library holds on one rank. Its arrays have no spare room, so that a store
 * beyond what was asked for is seen by the sanitizers. */
struct home {
    leat_groups groups;
    uint32_t *start;
    double *x_nm;
    int64_t *id;
    struct stamp *stamp;
    uint64_t *group_id;
    uint32_t element_count;
    int resize_calls, resize_result;
    bool keeps; /* what is there, although the new counts are smaller */
    leat_migrating field[FIELD_COUNT];
};

struct world {
    leat_decomposition decomposition;
    int rank_count;
    uint32_t group_count;
    uint32_t *size;               /* [group_count], elements */
    uint32_t *first;              /* [group_count + 1], first element of each */
    double *x_nm;                 /* [3 * elements], as handed in */
    struct home home[MOST_RANKS]; /* each touched by its rank only, while ranks run */
    /* For the refusals. */
    double travel_limit_nm;
    bool anonymous; /* no element_id */
    int expected[MOST_RANKS];
    const char *words[4];
};

static void *make(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        abort();
    return memory;
}

__attribute__((unused)) static struct stamp stamp_of(uint32_t element)
{
    struct stamp stamp;
    for (uint32_t i = 0; i < STAMPS; i++)
        stamp.word[i] = element * 2654435761u + i * 40503u + 1;
    return stamp;
}

__attribute__((unused)) static uint64_t group_stamp(uint32_t group)
{
    return 0xabcd000000000000ULL | group;
}

__attribute__((unused)) static uint32_t group_of(const struct home *home, uint32_t at)
{
    return (uint32_t)(home->group_id[at] & 0xffffffffu);
}

/* ---- The caller's side ---- */

static void point_fields(struct home *home)
{
    home->field[FIELD_STAMP] = (leat_migrating){home->stamp, sizeof *home->stamp, 0};
    home->field[FIELD_X] = (leat_migrating){home->x_nm, 3 * sizeof *home->x_nm, 0};
    home->field[FIELD_ID] = (leat_migrating){home->id, sizeof *home->id, 0};
    home->field[FIELD_GROUP] = (leat_migrating){home->group_id, sizeof *home->group_id, 1};
}

/* New memory of exactly the size asked for, even where that is less; what fits is kept. */
static void *exactly(void *old, size_t old_bytes, size_t bytes)
{
    unsigned char *fresh = make(bytes, 1);
    memcpy(fresh, old, old_bytes < bytes ? old_bytes : bytes);
    free(old);
    return fresh;
}

static int resize(void *user, leat_migration *migration, uint32_t groups, uint32_t elements)
{
    struct home *home = user;
    uint32_t old_groups = home->groups.group_count, old_elements = home->element_count;
    home->resize_calls++;
    if (home->resize_result)
        return home->resize_result;
    groups = home->keeps && groups < old_groups ? old_groups : groups;
    elements = home->keeps && elements < old_elements ? old_elements : elements;
    home->start = exactly(home->start, (old_groups + 1) * sizeof *home->start,
                          (groups + 1) * sizeof *home->start);
    home->x_nm = exactly(home->x_nm, old_elements * 3 * sizeof *home->x_nm,
                         elements * 3 * sizeof *home->x_nm);
    home->id = exactly(home->id, old_elements * sizeof *home->id, elements * sizeof *home->id);
    home->stamp =
        exactly(home->stamp, old_elements * sizeof *home->stamp, elements * sizeof *home->stamp);
    home->group_id = exactly(home->group_id, old_groups * sizeof *home->group_id,
                             groups * sizeof *home->group_id);
    home->element_count = elements;
    migration->groups->start = home->start;
    point_fields(home);
    return 0;
}

__attribute__((unused)) static int migrate(leat_job *job, struct world *world, struct home *home)
{
    point_fields(home);
    leat_migration migration = {.size = sizeof migration,
                                .groups = &home->groups,
                                .x_field = FIELD_X,
                                .field_count = FIELD_COUNT,
                                .fields = home->field,
                                .resize = resize,
                                .user = home,
                                .travel_limit_nm = world->travel_limit_nm,
                                .element_id = world->anonymous ? NULL : home->id,
                                .step = 1234};
    return leat_halo_migrate(job, &world->decomposition, &migration);
}

__attribute__((unused)) static void rank_migrating(struct rank_thread *self)
{
    struct world *world = self->user;
    int error = migrate(self->job, world, &world->home[self->rank]);
    rank_check(self, !error, "%d: %s", error, leat_error_detail());
}

/* ---- Worlds ---- */

__attribute__((unused)) static void make_world(struct world *world, const int grid[3],
                                               const double edge_nm[3], uint32_t groups,
                                               uint32_t most_elements, struct ranks_random *random)
{
    *world = (struct world){.rank_count = grid[0] * grid[1] * grid[2], .group_count = groups};
    world->decomposition =
        (leat_decomposition){.size = sizeof world->decomposition, .cutoff_nm = 0.5};
    for (int d = 0; d < 3; d++) {
        world->decomposition.grid[d] = grid[d];
        world->decomposition.box_nm[d][d] = edge_nm[d];
    }
    world->size = make(groups, sizeof *world->size);
    world->first = make(groups + 1, sizeof *world->first);
    for (uint32_t g = 0; g < groups; g++) {
        world->size[g] = 1 + (uint32_t)(ranks_random_word(random) % most_elements);
        world->first[g + 1] = world->first[g] + world->size[g];
    }
    world->x_nm = make(3 * (size_t)world->first[groups], sizeof *world->x_nm);
}

__attribute__((unused)) static double edge(const struct world *world, int d)
{
    return world->decomposition.box_nm[d][d];
}

/* Anywhere up to most of a box length outside. */
__attribute__((unused)) static void scatter(struct world *world, struct ranks_random *random)
{
    for (uint32_t g = 0; g < world->group_count; g++)
        for (int d = 0; d < 3; d++) {
            double centre = (2.6 * ranks_random_real(random) - 0.8) * edge(world, d);
            for (uint32_t i = world->first[g]; i < world->first[g + 1]; i++)
                world->x_nm[3 * i + (uint32_t)d] = centre + 0.2 * ranks_random_real(random) - 0.1;
        }
}

/* Hands group g to rank holder[g], in order. */
__attribute__((unused)) static void deal(struct world *world, const int *holder)
{
    for (int r = 0; r < world->rank_count; r++) {
        struct home *home = &world->home[r];
        uint32_t elements = world->first[world->group_count];
        *home = (struct home){.start = make(world->group_count + 1, sizeof *home->start),
                              .x_nm = make(elements, 3 * sizeof *home->x_nm),
                              .id = make(elements, sizeof *home->id),
                              .stamp = make(elements, sizeof *home->stamp),
                              .group_id = make(world->group_count, sizeof *home->group_id)};
        for (uint32_t g = 0; g < world->group_count; g++) {
            if (holder[g] != r)
                continue;
            for (uint32_t i = world->first[g]; i < world->first[g + 1]; i++) {
                uint32_t at = home->element_count++;
                memcpy(home->x_nm + 3 * at, world->x_nm + 3 * i, 3 * sizeof *home->x_nm);
                home->id[at] = 1000000007LL * i;
                home->stamp[at] = stamp_of(i);
            }
            home->group_id[home->groups.group_count] = group_stamp(g);
            home->start[++home->groups.group_count] = home->element_count;
        }
        home->groups.start = home->start;
    }
}

__attribute__((unused)) static void free_homes(struct world *world)
{
    for (int r = 0; r < world->rank_count; r++) {
        struct home *home = &world->home[r];
        free(home->start);
        free(home->x_nm);
        free(home->id);
        free(home->stamp);
        free(home->group_id);
        *home = (struct home){0};
    }
}

__attribute__((unused)) static void free_world(struct world *world)
{
    free_homes(world);
    free(world->size);
    free(world->first);
    free(world->x_nm);
}

#endif
