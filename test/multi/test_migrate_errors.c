// SPDX-License-Identifier: Apache-2.0
// Migrations that fail: what jumped is named, every rank gets the verdict, nothing has changed. The
// ranks are threads (leat_options.thread_ranks).

#include "multi/movers.h"

// Four ranks of 2 nm along z, three groups of two elements on each, all at home.
static void calm_world(struct world *world)
{
    const int grid[3] = {1, 1, 4};
    const double edges[3] = {3, 4, 8};
    struct ranks_random random = {.state = 3};
    make_world(world, grid, edges, 12, 1, &random);
    for (uint32_t g = 0; g < 12; g++) {
        world->size[g] = 2;
        world->first[g + 1] = 2 * (g + 1);
    }
    free(world->x_nm);
    world->x_nm = make(3 * 24, sizeof *world->x_nm);
    int holder[12];
    for (uint32_t i = 0; i < 24; i++) {
        world->x_nm[3 * i] = 0.5 + 0.1 * (i % 5);
        world->x_nm[3 * i + 1] = 1.5;
        world->x_nm[3 * i + 2] = 2 * (i / 6) + 1;
    }
    for (int g = 0; g < 12; g++)
        holder[g] = g / 3;
    deal(world, holder);
}

static void rank_failing(struct rank_thread *self)
{
    struct world *world = self->user;
    struct home *home = &world->home[self->rank];
    uint32_t start[4];
    double x_nm[18];
    memcpy(start, home->start, sizeof start);
    memcpy(x_nm, home->x_nm, sizeof x_nm);
    int error = migrate(self->job, world, home);
    rank_check(self, error == world->expected[self->rank], "%d, expected %d: %s", error,
               world->expected[self->rank], leat_error_detail());
    for (int w = 0; w < 4 && world->words[w]; w++)
        rank_check(self, strstr(leat_error_detail(), world->words[w]) != NULL,
                   "\"%s\" not in \"%s\"", world->words[w], leat_error_detail());
    rank_check(self, home->groups.group_count == 3 && !memcmp(start, home->start, sizeof start),
               "the groups changed");
    rank_check(self, !memcmp(x_nm, home->x_nm, sizeof x_nm), "the positions changed");
    for (uint32_t g = 0; g < 3; g++)
        rank_check(self, group_of(home, g) == 3 * (uint32_t)self->rank + g, "group %u changed", g);
}

// Element 8 of the world is the third one of rank 1, its id 8000000056.
static void expect_jump(struct world *world, const char *position)
{
    for (int r = 0; r < 4; r++)
        world->expected[r] = r == 1 ? -ERANGE : -EREMOTEIO;
    world->words[0] = world->anonymous ? "home element 2 is" : "element 8000000056 is";
    world->words[1] = "step 1234, rank 1";
    world->words[2] = position;
    world->words[3] = "the integration has blown up or the input is wrong";
    ranks_run(4, rank_failing, world);
    for (int r = 0; r < 4; r++)
        assert_int_equal(world->home[r].resize_calls, 0);
}

static void jump(int d, double x_nm, double travel_limit_nm, bool anonymous, const char *position)
{
    struct world world;
    calm_world(&world);
    world.home[1].x_nm[3 * 2 + d] = x_nm;
    world.travel_limit_nm = travel_limit_nm;
    world.anonymous = anonymous;
    expect_jump(&world, position);
    free_world(&world);
}

static void test_a_jump_of_50_boxes_is_named(void **state)
{
    (void)state;
    jump(2, 3 + 50 * 8, 0, false, "(0.8, 1.5, 403) nm");
    jump(0, -150, 0, false, "(-150, 1.5, 3) nm");
}

static void test_an_element_just_too_far_is_named(void **state)
{
    (void)state;
    // Its group's centre is well within the limit.
    jump(1, 8.01, 0, false, "(0.8, 8.01, 3) nm");
    jump(1, -4.01, 0, false, "(0.8, -4.01, 3) nm");
}

static void test_a_position_that_is_no_number_is_named(void **state)
{
    (void)state;
    jump(0, NAN, 0, false, "nan");
    jump(1, INFINITY, 0, false, "inf");
    jump(2, -INFINITY, 0, false, "-inf");
    jump(2, 1e308, 0, false, "1e+308");
}

static void test_without_identifiers_the_home_element_is_named(void **state)
{
    (void)state;
    jump(2, 403, 0, true, "(0.8, 1.5, 403) nm");
}

static void test_a_centre_beyond_the_travel_limit_is_named(void **state)
{
    (void)state;
    struct world world;
    calm_world(&world);
    // Both elements; the farther one is named.
    world.home[1].x_nm[3 * 2 + 1] = 4.7;
    world.home[1].x_nm[3 * 3 + 1] = 4.6;
    world.travel_limit_nm = 0.5;
    expect_jump(&world, "(0.8, 4.7, 3) nm, and its group's centre");
    free_world(&world);
}

static void test_a_travel_limit_beyond_a_box_allows_as_much(void **state)
{
    (void)state;
    struct world world;
    calm_world(&world);
    for (int i = 2; i < 4; i++)
        world.home[1].x_nm[3 * i + 2] += 50 * 8.0;
    world.travel_limit_nm = 500;
    ranks_run(4, rank_migrating, &world);
    assert_int_equal(world.home[1].groups.group_count, 3);
    assert_true(world.home[1].x_nm[3 * 2 + 2] == 3);
    free_world(&world);
}

static void test_a_travel_limit_does_not_allow_what_wrapping_would_lose(void **state)
{
    (void)state;
    jump(0, 1e300, 1e308, false, "(1e+300, 1.5, 3) nm");
    jump(1, -1.1e9, 1e308, false, "(0.8, -1.1e+09, 3) nm");
}

static void test_a_failed_resize_leaves_everything(void **state)
{
    (void)state;
    struct world world;
    calm_world(&world);
    // A group that would move, so that there is something to lose.
    world.home[0].x_nm[2] = world.home[0].x_nm[5] = 5;
    world.home[2].resize_result = -ENOMEM;
    for (int r = 0; r < 4; r++)
        world.expected[r] = r == 2 ? -ENOMEM : -EREMOTEIO;
    world.words[0] = "resize to 4 groups and 8 elements";
    for (int r = 0; r < 4; r++)
        world.home[r].keeps = true;
    ranks_run(4, rank_failing, &world);
    free_world(&world);
}

static void rank_with_other_fields(struct rank_thread *self)
{
    struct world *world = self->user;
    struct home *home = &world->home[self->rank];
    point_fields(home);
    if (self->rank == 0) // a group for rank 2, so these two swap letters
        home->x_nm[2] = home->x_nm[5] = 5;
    if (self->rank == 2 && world->anonymous) // says here which of the two faults
        home->field[FIELD_STAMP].of_groups = 1;
    else if (self->rank == 2)
        home->field[FIELD_STAMP].element_bytes -= 4;
    leat_migration migration = {.size = sizeof migration,
                                .groups = &home->groups,
                                .x_field = FIELD_X,
                                .field_count = FIELD_COUNT,
                                .fields = home->field,
                                .resize = resize,
                                .user = home};
    int error = leat_halo_migrate(self->job, &world->decomposition, &migration);
    rank_check(self, error == (self->rank % 2 ? -EREMOTEIO : -EPROTO), "%d", error);
    rank_check(self, strstr(leat_error_detail(), "fields of other sizes or kinds") != NULL, "%s",
               leat_error_detail());
    rank_check(self, home->resize_calls == 0 || self->rank % 2, "resize was called");
}

static void test_ranks_with_different_fields_are_told(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct world world;
        calm_world(&world);
        world.anonymous = kind;
        ranks_run(4, rank_with_other_fields, &world);
        free_world(&world);
    }
}

// One rank with one element, and one thing wrong in the call.
static void rank_misusing(struct rank_thread *self)
{
    const int *fault = self->user;
    static const char *const words[] = {
        "migration is NULL", "size is 0",        "resize is NULL",       "x_field is 7 of 1",
        "multiple of 4",     "field 0 are NULL", "3 doubles an element", "travel_limit_nm is -1",
        "group 0",           "0 fields",         "decomposition is NULL"};
    double x_nm[3] = {1, 1, 1};
    const uint32_t start[] = {0, *fault == 8 ? 0 : 1};
    leat_groups groups = {1, start};
    leat_migrating field = {*fault == 5 ? NULL : x_nm, *fault == 4 ? 22 : 24, *fault == 6};
    leat_decomposition decomposition = {.size = sizeof decomposition,
                                        .grid = {1, 1, 1},
                                        .box_nm = {{2, 0, 0}, {0, 2, 0}, {0, 0, 2}},
                                        .cutoff_nm = 0.5};
    leat_migration migration = {.size = *fault == 1 ? 0 : sizeof migration,
                                .groups = &groups,
                                .x_field = *fault == 3 ? 7 : 0,
                                .field_count = *fault == 9 ? 0 : 1,
                                .fields = &field,
                                .resize = *fault == 2 ? NULL : resize,
                                .travel_limit_nm = *fault == 7 ? -1 : 0};
    int error = leat_halo_migrate(self->job, *fault == 10 ? NULL : &decomposition,
                                  *fault == 0 ? NULL : &migration);
    rank_check(self, error == -EINVAL, "fault %d: %d", *fault, error);
    rank_check(self, strstr(leat_error_detail(), words[*fault]) != NULL, "fault %d: %s", *fault,
               leat_error_detail());
}

static void test_misuse_is_named(void **state)
{
    (void)state;
    for (int fault = 0; fault <= 10; fault++)
        ranks_run(1, rank_misusing, &fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_jump_of_50_boxes_is_named),
        cmocka_unit_test(test_an_element_just_too_far_is_named),
        cmocka_unit_test(test_a_position_that_is_no_number_is_named),
        cmocka_unit_test(test_without_identifiers_the_home_element_is_named),
        cmocka_unit_test(test_a_centre_beyond_the_travel_limit_is_named),
        cmocka_unit_test(test_a_travel_limit_beyond_a_box_allows_as_much),
        cmocka_unit_test(test_a_travel_limit_does_not_allow_what_wrapping_would_lose),
        cmocka_unit_test(test_a_failed_resize_leaves_everything),
        cmocka_unit_test(test_ranks_with_different_fields_are_told),
        cmocka_unit_test(test_misuse_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
