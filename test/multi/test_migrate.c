// SPDX-License-Identifier: Apache-2.0
// Migration of whole groups against a model of the whole job, the ranks being threads
// (leat_options.thread_ranks).
//
// The main thread knows all groups and works out, by itself, who has to hold which in what order.

#include "multi/movers.h"

#include <float.h>

// ---- What has to come out ----

// The rank whose domain holds the centre of group `at` of a rank's new state; -1 outside the box.
static int owner_of(const struct world *world, const struct home *home, uint32_t at)
{
    int owner = 0;
    for (int d = 0; d < 3; d++) {
        double sum = 0;
        for (uint32_t i = home->start[at]; i < home->start[at + 1]; i++)
            sum += home->x_nm[3 * i + (uint32_t)d];
        double centre = sum / (home->start[at + 1] - home->start[at]);
        int count = world->decomposition.grid[d], cell = 0;
        if (centre < 0 || centre >= edge(world, d))
            return -1;
        while (cell + 1 < count && centre >= edge(world, d) * (cell + 1) / count)
            cell++;
        owner = owner * count + cell;
    }
    return owner;
}

// Group g of the world at place `at`: all of it, in order, with its stamps, moved by whole boxes.
static void check_group(const struct world *world, const struct home *home, uint32_t at, uint32_t g)
{
    assert_int_equal(home->group_id[at], group_stamp(g));
    assert_int_equal(home->start[at + 1] - home->start[at], world->size[g]);
    for (uint32_t i = 0; i < world->size[g]; i++) {
        uint32_t here = home->start[at] + i, element = world->first[g] + i;
        struct stamp stamp = stamp_of(element);
        assert_int_equal(home->id[here], 1000000007LL * element);
        assert_memory_equal(&home->stamp[here], &stamp, sizeof stamp);
        for (int d = 0; d < 3; d++) {
            double moved =
                home->x_nm[3 * here + (uint32_t)d] - world->x_nm[3 * element + (uint32_t)d];
            double boxes = nearbyint(moved / edge(world, d));
            assert_true(fabs(moved - boxes * edge(world, d)) < 1e-13);
        }
    }
}

// Who held what before gives the order: those that stayed, then those of each rank in their order.
static void check_after(const struct world *world, const int *before)
{
    int *after = make(world->group_count, sizeof *after);
    uint32_t total = 0;
    for (int r = 0; r < world->rank_count; r++)
        for (uint32_t at = 0; at < world->home[r].groups.group_count; at++, total++) {
            uint32_t g = group_of(&world->home[r], at);
            assert_true(g < world->group_count && after[g] == 0);
            after[g] = r + 1;
            assert_int_equal(owner_of(world, &world->home[r], at), r);
        }
    assert_int_equal(total, world->group_count);
    for (int r = 0; r < world->rank_count; r++) {
        const struct home *home = &world->home[r];
        uint32_t at = 0;
        for (int turn = -1; turn < world->rank_count; turn++) {
            int from = turn < 0 ? r : turn;
            if (turn == r)
                continue;
            for (uint32_t g = 0; g < world->group_count; g++)
                if (after[g] == r + 1 && before[g] == from)
                    check_group(world, home, at++, g);
        }
        assert_int_equal(at, home->groups.group_count);
        assert_int_equal(home->start[0], 0);
        assert_int_equal(home->start[at], home->element_count);
        assert_int_equal(home->resize_calls, 1);
    }
    free(after);
}

static const struct {
    int grid[3];
    double edge_nm[3];
} shapes[] = {
    {{1, 1, 1}, {2, 2.5, 3}},     {{2, 1, 1}, {2.2, 2.1, 1.9}}, {{1, 2, 2}, {1.7, 3.1, 2.9}},
    {{2, 2, 2}, {2.3, 2.9, 3.7}}, {{8, 1, 1}, {3.3, 1.1, 1.3}}, {{1, 7, 1}, {3.3, 1.9, 1.3}},
};

#define SHAPE_COUNT (sizeof shapes / sizeof shapes[0])

enum dealing { DEAL_ROUND, DEAL_ONE, DEAL_RANDOM };

static void run_shapes(enum dealing dealing, uint32_t groups, uint32_t most_elements)
{
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        struct ranks_random random = {.state = 77 + s};
        struct world world;
        make_world(&world, shapes[s].grid, shapes[s].edge_nm, groups, most_elements, &random);
        scatter(&world, &random);
        int *holder = make(groups, sizeof *holder);
        for (uint32_t g = 0; g < groups; g++) {
            uint32_t any = dealing == DEAL_ROUND    ? g
                           : dealing == DEAL_RANDOM ? (uint32_t)ranks_random_word(&random)
                                                    : 0;
            holder[g] = (int)(any % (uint32_t)world.rank_count);
        }
        deal(&world, holder);
        ranks_run(world.rank_count, rank_migrating, &world);
        check_after(&world, holder);
        free(holder);
        free_world(&world);
    }
}

static void test_whole_groups_reach_their_owners_from_anywhere(void **state)
{
    (void)state;
    run_shapes(DEAL_RANDOM, 300, 9);
}

static void test_single_elements_reach_their_owners(void **state)
{
    (void)state;
    run_shapes(DEAL_ROUND, 500, 1);
}

static void test_one_rank_can_hand_out_everything(void **state)
{
    (void)state;
    run_shapes(DEAL_ONE, 200, 5);
}

static void test_ranks_without_groups_take_part(void **state)
{
    (void)state;
    run_shapes(DEAL_RANDOM, 3, 4);
}

static void test_a_job_without_groups_migrates_nothing(void **state)
{
    (void)state;
    run_shapes(DEAL_ROUND, 0, 1);
}

// ---- Again and again ----

static void rank_settled(struct rank_thread *self)
{
    struct world *world = self->user;
    struct home *home = &world->home[self->rank];
    if (!rank_check(self, migrate(self->job, world, home) == 0, "%s", leat_error_detail()))
        return;
    size_t bytes = home->element_count * 3 * sizeof *home->x_nm;
    uint32_t groups = home->groups.group_count;
    double *x_nm = make(bytes, 1);
    uint64_t *group_id = make(groups, sizeof *group_id);
    memcpy(x_nm, home->x_nm, bytes);
    memcpy(group_id, home->group_id, groups * sizeof *group_id);
    rank_check(self, migrate(self->job, world, home) == 0, "%s", leat_error_detail());
    rank_check(self, home->groups.group_count == groups, "%u groups, then %u", groups,
               home->groups.group_count);
    rank_check(self,
               home->groups.group_count == groups && !memcmp(x_nm, home->x_nm, bytes) &&
                   !memcmp(group_id, home->group_id, groups * sizeof *group_id),
               "a settled state changed");
    free(x_nm);
    free(group_id);
}

static void test_a_settled_state_does_not_change(void **state)
{
    (void)state;
    struct ranks_random random = {.state = 5};
    struct world world;
    make_world(&world, shapes[3].grid, shapes[3].edge_nm, 400, 6, &random);
    scatter(&world, &random);
    int *holder = make(400, sizeof *holder);
    deal(&world, holder);
    ranks_run(8, rank_settled, &world);
    free(holder);
    free_world(&world);
}

#define WALKS 12

static void rank_walking(struct rank_thread *self)
{
    struct world *world = self->user;
    struct home *home = &world->home[self->rank];
    for (int walk = 0; walk < WALKS; walk++) {
        int error = migrate(self->job, world, home);
        if (!rank_check(self, !error, "walk %d: %s", walk, leat_error_detail()))
            return;
        for (uint32_t g = 0; g < home->groups.group_count; g++) {
            // The steps depend on the group alone, so two jobs walk alike.
            struct ranks_random random = {.state =
                                              1000 * (uint64_t)group_of(home, g) + (uint64_t)walk};
            for (int d = 0; d < 3; d++) {
                double step = 1.4 * ranks_random_real(&random) - 0.7;
                for (uint32_t i = home->start[g]; i < home->start[g + 1]; i++)
                    home->x_nm[3 * i + (uint32_t)d] += step;
            }
        }
    }
    rank_check(self, migrate(self->job, world, home) == 0, "%s", leat_error_detail());
}

static void walk(struct world *world)
{
    struct ranks_random random = {.state = 6};
    make_world(world, shapes[3].grid, shapes[3].edge_nm, 250, 6, &random);
    scatter(world, &random);
    int *holder = make(250, sizeof *holder);
    deal(world, holder);
    ranks_run(8, rank_walking, world);
    free(holder);
}

static void test_nothing_is_lost_on_a_long_walk(void **state)
{
    (void)state;
    struct world world;
    walk(&world);
    uint8_t seen[250] = {0};
    for (int r = 0; r < 8; r++) {
        const struct home *home = &world.home[r];
        for (uint32_t at = 0; at < home->groups.group_count; at++) {
            uint32_t g = group_of(home, at);
            assert_true(g < 250 && !seen[g]);
            seen[g] = 1;
            assert_int_equal(owner_of(&world, home, at), r);
            for (uint32_t i = 0; i < world.size[g]; i++) {
                struct stamp stamp = stamp_of(world.first[g] + i);
                assert_memory_equal(&home->stamp[home->start[at] + i], &stamp, sizeof stamp);
            }
        }
    }
    for (int g = 0; g < 250; g++)
        assert_int_equal(seen[g], 1);
    free_world(&world);
}

static void test_two_walks_agree_to_the_bit(void **state)
{
    (void)state;
    struct world first, second;
    walk(&first);
    walk(&second);
    for (int r = 0; r < 8; r++) {
        const struct home *a = &first.home[r], *b = &second.home[r];
        assert_int_equal(a->element_count, b->element_count);
        assert_memory_equal(a->group_id, b->group_id, a->groups.group_count * sizeof *a->group_id);
        assert_memory_equal(a->x_nm, b->x_nm, a->element_count * 3 * sizeof *a->x_nm);
    }
    free_world(&first);
    free_world(&second);
}

// ---- Bounds ----

static void test_every_centre_on_a_bound_has_one_owner(void **state)
{
    (void)state;
    // An edge at which a quotient alone would put some bounds into the domain before, others after.
    const int grid[3] = {1, 1, 7};
    const double edges[3] = {1, 1, 3.2};
    // Each bound, the numbers beside it, the box's own edges from both sides, and next to nothing.
    double z[7 * 3 + 9];
    uint32_t count = 0;
    for (int k = 0; k < 7; k++) {
        double bound = edges[2] * k / 7;
        z[count++] = bound;
        z[count++] = nextafter(bound, 9);
        z[count++] = nextafter(bound, -9);
    }
    const double more[] = {3.2,     nextafter(3.2, 9), nextafter(3.2, 0), -1e-20, -5e-324,
                           -1e-300, -DBL_MIN,          2 * 3.2,           -3.2};
    memcpy(z + count, more, sizeof more);
    count += 9;
    struct ranks_random random = {.state = 9};
    struct world world;
    make_world(&world, grid, edges, count, 1, &random);
    int *holder = make(count, sizeof *holder);
    for (uint32_t g = 0; g < count; g++) {
        world.x_nm[3 * g + 2] = z[g];
        holder[g] = (int)g % 7;
    }
    deal(&world, holder);
    ranks_run(7, rank_migrating, &world);
    check_after(&world, holder); // inside the box, in the domain whose bounds hold the centre
    free(holder);
    free_world(&world);
}

static void rank_of_many(struct rank_thread *self)
{
    // One element a rank, and only three of them go anywhere: farther than one reduction holds.
    leat_decomposition decomposition = {.size = sizeof decomposition,
                                        .grid = {70, 1, 1},
                                        .box_nm = {{70, 0, 0}, {0, 1, 0}, {0, 0, 1}},
                                        .cutoff_nm = 0.5};
    struct world world = {.decomposition = decomposition};
    int target = self->rank == 2 ? 69 : self->rank == 5 ? 3 : self->rank == 60 ? 61 : self->rank;
    struct home *home = &world.home[0];
    *home = (struct home){.start = make(2, sizeof *home->start),
                          .x_nm = make(3, sizeof *home->x_nm),
                          .id = make(1, sizeof *home->id),
                          .stamp = make(1, sizeof *home->stamp),
                          .group_id = make(1, sizeof *home->group_id)};
    home->start[1] = 1;
    home->x_nm[0] = target + 0.5;
    home->id[0] = self->rank;
    home->stamp[0] = stamp_of((uint32_t)self->rank);
    home->element_count = 1;
    home->groups = (leat_groups){1, home->start};
    int error = migrate(self->job, &world, home);
    rank_check(self, !error, "%s", leat_error_detail());
    uint32_t expected = self->rank == 69 || self->rank == 3 || self->rank == 61  ? 2
                        : self->rank == 2 || self->rank == 5 || self->rank == 60 ? 0
                                                                                 : 1;
    rank_check(self, home->groups.group_count == expected, "%u groups, expected %u",
               home->groups.group_count, expected);
    if (expected == 2 && home->groups.group_count == 2) {
        uint32_t from = self->rank == 69 ? 2 : self->rank == 3 ? 5 : 60;
        struct stamp stamp = stamp_of(from);
        rank_check(self, home->id[1] == from && !memcmp(&home->stamp[1], &stamp, sizeof stamp),
                   "rank %d got element %lld", self->rank, (long long)home->id[1]);
    }
    world.rank_count = 1;
    free_homes(&world);
}

static void test_distances_beyond_one_reduction_are_served(void **state)
{
    (void)state;
    ranks_run(70, rank_of_many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_groups_reach_their_owners_from_anywhere),
        cmocka_unit_test(test_single_elements_reach_their_owners),
        cmocka_unit_test(test_one_rank_can_hand_out_everything),
        cmocka_unit_test(test_ranks_without_groups_take_part),
        cmocka_unit_test(test_a_job_without_groups_migrates_nothing),
        cmocka_unit_test(test_a_settled_state_does_not_change),
        cmocka_unit_test(test_nothing_is_lost_on_a_long_walk),
        cmocka_unit_test(test_two_walks_agree_to_the_bit),
        cmocka_unit_test(test_every_centre_on_a_bound_has_one_owner),
        cmocka_unit_test(test_distances_beyond_one_reduction_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
