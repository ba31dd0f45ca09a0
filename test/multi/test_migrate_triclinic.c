// SPDX-License-Identifier: Apache-2.0
// Migration in tilted boxes: groups are wrapped by whole vectors and reach the domain that holds
// their centre, where a plan takes them. The ranks are threads (leat_options.thread_ranks).

#include "multi/movers.h"

static const double shapes[][3][3] = {
    {{3, 0, 0}, {0, 3, 0}, {1.5, 1.5, 2.1213203435596424}}, // rhombic dodecahedron
    {{3, 0, 0}, {1, 2.8284271247461903, 0}, {-1, 1.4142135623730951, 2.4494897427831779}},
    {{3, 0, 0}, {1.5, 2.4, 0}, {-1.5, 1.2, 2.9}},
    {{3, 0, 0}, {-1.5, 2.4, 0}, {-1.5, -1.2, 2}},
};

#define SHAPES (sizeof shapes / sizeof shapes[0])

static const int grids[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {2, 2, 2}, {1, 7, 1}, {3, 1, 2}};

#define GRIDS (sizeof grids / sizeof grids[0])

// Back substitution: vector c alone has a part along z, b and c alone along y.
static void fractions(const struct world *world, const double x_nm[3], double fraction[3])
{
    const double(*vector)[3] = (const double(*)[3])world->decomposition.box_nm;
    for (int d = 2; d >= 0; d--) {
        fraction[d] = x_nm[d];
        for (int e = d + 1; e < 3; e++)
            fraction[d] -= fraction[e] * vector[e][d];
        fraction[d] /= vector[d][d];
    }
}

static void centre_of(const struct home *home, uint32_t at, double centre_nm[3])
{
    uint32_t first = home->start[at], last = home->start[at + 1];
    for (uint32_t d = 0; d < 3; d++) {
        centre_nm[d] = 0;
        for (uint32_t i = first; i < last; i++)
            centre_nm[d] += home->x_nm[3 * i + d] / (last - first);
    }
}

static void check_owner(const struct world *world, const struct home *home, uint32_t at, int rank)
{
    double centre_nm[3], fraction[3];
    centre_of(home, at, centre_nm);
    fractions(world, centre_nm, fraction);
    const int *grid = world->decomposition.grid;
    const int cell[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    for (int d = 0; d < 3; d++) {
        double where = fraction[d] * grid[d] - cell[d];
        if (where < -1e-12 || where > 1 + 1e-12)
            fail_msg("rank %d has a centre at fraction %.17g of dimension %d", rank, fraction[d],
                     d);
    }
}

// All of its elements by the same whole vectors.
static void check_moved(const struct world *world, const struct home *home, uint32_t at, uint32_t g)
{
    double boxes[3] = {0, 0, 0};
    for (uint32_t i = 0; i < world->size[g]; i++) {
        uint32_t here = home->start[at] + i, element = world->first[g] + i;
        struct stamp stamp = stamp_of(element);
        double moved[3], fraction[3];
        assert_memory_equal(&home->stamp[here], &stamp, sizeof stamp);
        for (uint32_t d = 0; d < 3; d++)
            moved[d] = home->x_nm[3 * here + d] - world->x_nm[3 * element + d];
        fractions(world, moved, fraction);
        for (int d = 0; d < 3; d++) {
            if (i == 0)
                boxes[d] = nearbyint(fraction[d]);
            assert_true(fabs(fraction[d] - boxes[d]) < 1e-12);
        }
    }
}

static void check_world(const struct world *world)
{
    uint8_t *seen = make(world->group_count, 1);
    uint32_t total = 0;
    for (int r = 0; r < world->rank_count; r++) {
        const struct home *home = &world->home[r];
        total += home->groups.group_count;
        for (uint32_t at = 0; at < home->groups.group_count; at++) {
            uint32_t g = group_of(home, at);
            assert_true(g < world->group_count && !seen[g]++);
            check_owner(world, home, at, r);
            check_moved(world, home, at, g);
        }
    }
    assert_int_equal(total, world->group_count);
    free(seen);
}

static void rank_settling(struct rank_thread *self)
{
    struct world *world = self->user;
    struct home *home = &world->home[self->rank];
    if (!rank_check(self, migrate(self->job, world, home) == 0, "%s", leat_error_detail()))
        return;
    size_t bytes = home->element_count * 3 * sizeof *home->x_nm;
    uint32_t groups = home->groups.group_count;
    double *x_nm = make(bytes, 1);
    memcpy(x_nm, home->x_nm, bytes);
    rank_check(self, migrate(self->job, world, home) == 0, "%s", leat_error_detail());
    rank_check(self, groups == home->groups.group_count && !memcmp(x_nm, home->x_nm, bytes),
               "a settled state changed");
    free(x_nm);
    // A plan takes what migration left; images, so that no cut-off is too long.
    leat_decomposition decomposition = world->decomposition;
    decomposition.images = 1;
    leat_plan *plan = NULL;
    int error = leat_plan_build(self->job, &decomposition, &home->groups, home->x_nm, &plan);
    rank_check(self, !error, "%s", leat_error_detail());
    leat_plan_free(plan);
}

static void open_world(struct world *world, const double shape[3][3], const int grid[3],
                       struct ranks_random *random)
{
    const double edges[3] = {1, 1, 1};
    make_world(world, grid, edges, 200, 4, random);
    memcpy(world->decomposition.box_nm, shape, sizeof world->decomposition.box_nm);
}

static void deal_at_random(struct world *world, struct ranks_random *random)
{
    int *holder = make(world->group_count, sizeof *holder);
    for (uint32_t g = 0; g < world->group_count; g++)
        holder[g] = (int)(ranks_random_word(random) % (uint64_t)world->rank_count);
    deal(world, holder);
    free(holder);
}

static void place(struct world *world, uint32_t g, const double fraction[3], double radius_nm,
                  struct ranks_random *random)
{
    for (uint32_t i = world->first[g]; i < world->first[g + 1]; i++)
        for (uint32_t e = 0; e < 3; e++) {
            world->x_nm[3 * i + e] = radius_nm * (2 * ranks_random_real(random) - 1);
            for (int d = 0; d < 3; d++)
                world->x_nm[3 * i + e] += fraction[d] * world->decomposition.box_nm[d][e];
        }
}

static void test_groups_reach_their_owners_in_tilted_boxes(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < GRIDS; n++) {
            struct ranks_random random = {.state = 10 * s + n};
            struct world world;
            open_world(&world, shapes[s], grids[n], &random);
            for (uint32_t g = 0; g < world.group_count; g++) {
                double fraction[3];
                for (int d = 0; d < 3; d++)
                    fraction[d] = 2.6 * ranks_random_real(&random) - 0.8;
                place(&world, g, fraction, 0.1, &random);
            }
            deal_at_random(&world, &random);
            ranks_run(world.rank_count, rank_settling, &world);
            check_world(&world);
            free_world(&world);
        }
}

static void test_centres_on_bounds_have_one_owner_in_tilted_boxes(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < GRIDS; n++) {
            struct ranks_random random = {.state = 100 + 10 * s + n};
            struct world world;
            open_world(&world, shapes[s], grids[n], &random);
            for (uint32_t g = 0; g < world.group_count; g++) {
                double fraction[3];
                for (int d = 0; d < 3; d++) {
                    int count = grids[n][d];
                    fraction[d] =
                        (double)(ranks_random_word(&random) % (2 * (unsigned)count)) / count;
                    fraction[d] = nextafter(fraction[d], (double)(g % 3) * fraction[d]);
                }
                place(&world, g, fraction, 0, &random);
            }
            deal_at_random(&world, &random);
            ranks_run(world.rank_count, rank_migrating, &world);
            check_world(&world);
            free_world(&world);
        }
}

static void rank_jumping(struct rank_thread *self)
{
    struct world *world = self->user;
    int error = migrate(self->job, world, &world->home[self->rank]);
    rank_check(self, error == world->expected[self->rank], "%d: %s", error, leat_error_detail());
    rank_check(self, !error || strstr(leat_error_detail(), world->words[0]) != NULL, "%s",
               leat_error_detail());
}

// Across the faces, a point can be far outside with every coordinate in the vectors' range.
static void test_what_is_too_far_is_measured_across_faces(void **state)
{
    (void)state;
    static const double cases[][3] = {{1.4, -0.9, 0.5}, {2.3, 0.5, 0.5}, {-1.3, 0.5, 0.5}};
    for (int c = 0; c < 3; c++) {
        struct ranks_random random = {.state = 7};
        struct world world;
        open_world(&world, shapes[3], grids[1], &random);
        for (uint32_t g = 0; g < world.group_count; g++) {
            const double middle[3] = {0.5, 0.5, 0.5};
            place(&world, g, g ? middle : cases[c], 0, &random);
        }
        int *holder = make(world.group_count, sizeof *holder);
        deal(&world, holder);
        free(holder);
        world.words[0] = c ? "too far outside the box" : "";
        world.expected[0] = c ? -ERANGE : 0;
        world.expected[1] = c ? -EREMOTEIO : 0;
        ranks_run(2, rank_jumping, &world);
        free_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_reach_their_owners_in_tilted_boxes),
        cmocka_unit_test(test_centres_on_bounds_have_one_owner_in_tilted_boxes),
        cmocka_unit_test(test_what_is_too_far_is_measured_across_faces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
