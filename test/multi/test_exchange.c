// SPDX-License-Identifier: Apache-2.0
// Halo exchange with stamped values: every ghost of every exchange is checked for whose it is and
// of which step, every sum for what was added to it, in every mode, on grids of one to eight ranks.

#include "multi/boxes.h"

#include "core/job.h"

#include <errno.h>

#define POISON NAN

#define MODES 5 /* the first is what the others are compared with */
static const enum leat_mode all_modes[MODES] = {LEAT_MODE_FUSED, LEAT_MODE_HOST, LEAT_MODE_STREAM,
                                                LEAT_MODE_PULSE, LEAT_MODE_RESIDENT};
static const int grids[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {2, 2, 2}, {8, 1, 1}, {4, 2, 1}};
#define GRIDS (sizeof grids / sizeof *grids)

struct job {
    struct box box;
    enum leat_mode mode;
    int steps, zones;
    uint64_t first_epoch;
    unsigned delays;                   /* seed of random delays, or 0 */
    int copies[BOX_RANKS][BOX_POINTS]; /* ghosts of each point, over all ranks */
    double sum[MODES][BOX_RANKS][3 * BOX_POINTS];
    leat_stats stats[BOX_RANKS];
};

static struct job *new_job(const int grid[3], double cutoff_nm, uint32_t points, unsigned empty,
                           enum leat_mode mode, int steps)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    box_fill(&job->box, grid, cutoff_nm, points, empty, 11);
    job->mode = mode;
    job->steps = steps;
    return job;
}

static int rank_total(const int grid[3])
{
    return grid[0] * grid[1] * grid[2];
}

// Random work before an exchange, so that either side comes first now and then.
static void dawdle(unsigned seed, int rank, int step)
{
    uint64_t state = seed * 1099511628211u + (unsigned)(rank * 7919 + step) + 1;
    box_random(&state);
    uint64_t until = leat_now_ns() + (uint64_t)(box_random(&state) * 60000);
    while (seed && leat_now_ns() < until)
        ;
}

struct bound {
    leat_plan *plan;
    leat_plan_info info;
    leat_region *region[3];
    double *x, *f;
    uint32_t *stamp;
    leat_halo *halo;
};

enum { X, F, STAMP };

static bool bind(struct rank_thread *self, struct job *job, bool paired, struct bound *bound)
{
    *bound = (struct bound){.plan = box_plan(self, &job->box)};
    if (!bound->plan)
        return false;
    bound->info = box_info(bound->plan);
    uint64_t elements = bound->info.element_count;
    bound->x = box_region(self, elements * 24 + 64, &bound->region[X]);
    bound->f = box_region(self, elements * 24 + 64, &bound->region[F]);
    bound->stamp = box_region(self, elements * 24 + 64, &bound->region[STAMP]);
    const leat_field fields[3] = {{.place = {bound->region[X], 0},
                                   .element = LEAT_F64,
                                   .components = 3,
                                   .shifted = 1,
                                   .acknowledged_by = paired ? F + 1 : 0},
                                  {.place = {bound->region[F], 0},
                                   .element = LEAT_F64,
                                   .components = 3,
                                   .acknowledged_by = paired ? X + 1 : 0},
                                  {.place = {bound->region[STAMP], 0},
                                   .element = LEAT_WORDS,
                                   .components = 3,
                                   .zones = job->zones}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = job->mode,
                                       .field_count = 3,
                                       .fields = fields,
                                       .first_epoch = job->first_epoch};
    return rank_check(self, !leat_halo_open(self->job, bound->plan, &options, &bound->halo), "%s",
                      leat_error_detail());
}

static void unbind(struct bound *bound)
{
    leat_halo_free(bound->halo);
    leat_plan_free(bound->plan);
    for (int i = 0; i < 3; i++)
        leat_region_free(bound->region[i]);
}

static void write_home(struct rank_thread *self, const struct job *job, struct bound *bound,
                       int step)
{
    for (uint32_t i = 0; i < bound->info.home_count; i++) {
        bound->stamp[3 * i] = (uint32_t)self->rank;
        bound->stamp[3 * i + 1] = i;
        bound->stamp[3 * i + 2] = (uint32_t)step;
        for (uint32_t d = 0; d < 3; d++)
            bound->x[3 * i + d] = job->box.x[self->rank][3 * i + d] + step * 1e-3;
    }
}

// A ghost is its owner's point, moved by whole box edges, and of this step.
static bool check_ghost(struct rank_thread *self, const struct job *job, const struct bound *bound,
                        uint32_t ghost, int step)
{
    const uint32_t *stamp = &bound->stamp[3 * ghost];
    if (!rank_check(self, stamp[0] < BOX_RANKS && stamp[1] < job->box.count[stamp[0]],
                    "ghost %u of step %d says it is point %u of rank %u", ghost, step, stamp[1],
                    stamp[0]))
        return false;
    bool held = rank_check(self, stamp[2] == (uint32_t)step, "ghost %u is of step %u in step %d",
                           ghost, stamp[2], step);
    for (uint32_t d = 0; d < 3; d++) {
        double edge = job->box.decomposition.box_nm[d][d];
        double moved =
            bound->x[3 * ghost + d] - step * 1e-3 - job->box.x[stamp[0]][3 * stamp[1] + d];
        held &= rank_check(self, fabs(moved - edge * round(moved / edge)) < 1e-12,
                           "ghost %u, axis %u: %.17g from its owner's place", ghost, d, moved);
    }
    return held;
}

static bool forward(struct rank_thread *self, struct bound *bound, int field)
{
    return rank_check(self, !leat_halo_exchange(bound->halo, field, LEAT_FORWARD), "%s",
                      leat_error_detail());
}

static void count_copies(struct job *job, const struct bound *bound)
{
    for (uint32_t g = bound->info.home_count; g < bound->info.element_count; g++)
        __atomic_fetch_add(&job->copies[bound->stamp[3 * g]][bound->stamp[3 * g + 1]], 1,
                           __ATOMIC_RELAXED);
}

// What each element's value is before the way back: home 1 + step, ghosts 1, in exact numbers.
static bool check_sums(struct rank_thread *self, const struct job *job, struct bound *bound,
                       int step)
{
    bool held = true;
    for (uint32_t i = 0; held && i < bound->info.home_count; i++)
        for (uint32_t d = 0; d < 3; d++) {
            double wanted = 1 + step + job->copies[self->rank][i];
            held &= rank_check(self, bound->f[3 * i + d] == wanted,
                               "step %d, point %u, axis %u: sum %g instead of %g", step, i, d,
                               bound->f[3 * i + d], wanted);
        }
    return held;
}

static bool reverse_ones(struct rank_thread *self, struct bound *bound, int step)
{
    for (uint32_t e = 0; e < bound->info.element_count; e++)
        for (uint32_t d = 0; d < 3; d++)
            bound->f[3 * e + d] = e < bound->info.home_count ? 1 + step : 1;
    return rank_check(self, !leat_halo_exchange(bound->halo, F, LEAT_REVERSE), "%s",
                      leat_error_detail());
}

static void step_both_ways(struct rank_thread *self)
{
    struct job *job = self->user;
    struct bound bound;
    if (!bind(self, job, true, &bound))
        return;
    for (uint32_t e = bound.info.home_count * 3; e < bound.info.element_count * 3; e++)
        bound.x[e] = POISON;
    bool held = !leat_barrier(self->job); // poison before a peer may store
    for (int step = 0; held && step < job->steps; step++) {
        write_home(self, job, &bound, step);
        dawdle(job->delays, self->rank, 2 * step);
        held = forward(self, &bound, X) && forward(self, &bound, STAMP);
        for (uint32_t g = bound.info.home_count; held && g < bound.info.element_count; g++)
            held = check_ghost(self, job, &bound, g, step);
        if (held && step == 0) {
            count_copies(job, &bound);
            held = !leat_barrier(self->job);
        }
        dawdle(job->delays, self->rank, 2 * step + 1);
        held = held && reverse_ones(self, &bound, step) && check_sums(self, job, &bound, step);
    }
    unbind(&bound);
}

static void run_everywhere(uint32_t points, unsigned empty, double cutoff_nm, int steps,
                           uint64_t first_epoch, unsigned delays)
{
    for (size_t g = 0; g < GRIDS; g++)
        for (size_t m = 0; m < MODES; m++) {
            struct job *job = new_job(grids[g], cutoff_nm, points, empty, all_modes[m], steps);
            job->first_epoch = first_epoch;
            job->delays = delays;
            ranks_run(rank_total(grids[g]), step_both_ways, job);
            free(job);
        }
}

static void test_every_ghost_and_sum_is_right_on_every_grid(void **state)
{
    (void)state;
    run_everywhere(120, 0, 0.9, 10, 0, 0);
}

static void test_random_delays_on_either_side_change_nothing(void **state)
{
    (void)state;
    run_everywhere(40, 0, 0.9, 60, 0, 5);
}

static void test_empty_domains_neither_hang_nor_lose_points(void **state)
{
    (void)state;
    for (unsigned empty = 1; empty < 256; empty = empty * 2 + 1)
        run_everywhere(20, empty, 0.9, 3, 0, 0);
    run_everywhere(1, 0, 0.05, 3, 0, 0); // nearly every pulse has nothing to send
    run_everywhere(0, 0, 0.9, 3, 0, 0);
}

static void test_counters_near_the_end_of_their_range_wrap(void **state)
{
    (void)state;
    run_everywhere(20, 0, 0.9, 8, UINT64_MAX - 2, 0);
}

static void test_three_blocks_share_a_kernel(void **state)
{
    (void)state;
    setenv("LEAT_BLOCKS", "3", 1);
    run_everywhere(60, 0, 0.9, 6, 0, 5);
    unsetenv("LEAT_BLOCKS");
}

// Forward only: nothing but the library's own acknowledgement keeps a fast sender from overwriting
// what a slow reader still reads.
static void read_slowly(struct rank_thread *self)
{
    struct job *job = self->user;
    struct bound bound;
    if (!bind(self, job, false, &bound))
        return;
    bool held = true;
    for (int step = 0; held && step < job->steps; step++) {
        write_home(self, job, &bound, step);
        held = forward(self, &bound, STAMP);
        leat_halo_info info = {.size = sizeof info};
        leat_halo_info_get(bound.halo, &info);
        const uint32_t *ghost = bound.stamp + 3 * info.ghost_shift[STAMP];
        for (int look = 0; held && look < 3; look++) {
            for (uint32_t g = bound.info.home_count; held && g < bound.info.element_count; g++)
                held = rank_check(self, ghost[3 * g + 2] == (uint32_t)step,
                                  "ghost %u is of step %u while step %d is read", g,
                                  ghost[3 * g + 2], step);
            dawdle(self->rank % 2 ? 9 : 0, self->rank, step);
        }
    }
    unbind(&bound);
}

static void test_fast_senders_wait_for_slow_readers(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODES; m++)
        for (int zones = 1; zones <= 2; zones++) {
            struct job *job = new_job(grids[3], 0.9, 60, 0, all_modes[m], 150);
            job->zones = zones;
            ranks_run(8, read_slowly, job);
            free(job);
        }
}

static void sum_random(struct rank_thread *self)
{
    struct job *job = self->user;
    struct bound bound;
    if (!bind(self, job, true, &bound))
        return;
    uint64_t state = (uint64_t)self->rank + 77;
    for (uint32_t e = 0; e < 3 * bound.info.element_count; e++)
        bound.f[e] = box_random(&state) - 0.5;
    if (rank_check(self, !leat_halo_exchange(bound.halo, F, LEAT_REVERSE), "%s",
                   leat_error_detail()))
        memcpy(job->sum[job->mode][self->rank], bound.f, bound.info.home_count * 24);
    unbind(&bound);
}

static void test_modes_add_in_the_same_order_to_the_bit(void **state)
{
    (void)state;
    for (size_t g = 0; g < GRIDS; g++) {
        struct job *job = new_job(grids[g], 0.9, 200, 0, LEAT_MODE_FUSED, 1);
        for (size_t m = 0; m < MODES; m++) {
            job->mode = all_modes[m];
            ranks_run(rank_total(grids[g]), sum_random, job);
            assert_memory_equal(job->sum[all_modes[0]], job->sum[all_modes[m]], sizeof job->sum[0]);
        }
        free(job);
    }
}

static void count_step(struct rank_thread *self)
{
    struct job *job = self->user;
    struct bound bound;
    if (!bind(self, job, true, &bound))
        return;
    leat_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    // The first step of all acknowledges more than every later one.
    bool held = forward(self, &bound, X) && reverse_ones(self, &bound, 0);
    leat_stats_read(self->job, LEAT_ALL_PEERS, &before);
    held = held && forward(self, &bound, X) && reverse_ones(self, &bound, 0);
    leat_stats_read(self->job, LEAT_ALL_PEERS, &after);
    after.launches -= before.launches;
    after.blocking_waits -= before.blocking_waits;
    after.path[0].bytes -= before.path[0].bytes;
    after.path[0].operations -= before.path[0].operations;
    job->stats[self->rank] = after;
    uint64_t bytes = 0;
    for (int p = 0; p < bound.info.pulse_count; p++)
        bytes += 24ull * (bound.info.pulses[p].send_count + bound.info.pulses[p].recv_count);
    rank_check(self, held && after.path_count == 1 && !strcmp(after.path[0].path, "shm"),
               "%d paths, first %s", after.path_count, after.path[0].path);
    rank_check(self, after.path[0].bytes == bytes && after.path[0].operations == 6,
               "%llu bytes in %llu operations instead of %llu in 6",
               (unsigned long long)after.path[0].bytes,
               (unsigned long long)after.path[0].operations, (unsigned long long)bytes);
    unbind(&bound);
}

static void test_launches_and_waits_of_a_step_are_as_designed(void **state)
{
    (void)state;
    const uint64_t launches[MODES] = {2, 6, 6, 6, 2}, waits[MODES] = {0, 12, 0, 0, 0};
    for (size_t m = 0; m < MODES; m++) {
        struct job *job = new_job(grids[3], 0.9, 60, 0, all_modes[m], 1);
        ranks_run(8, count_step, job);
        for (int rank = 0; rank < 8; rank++) {
            assert_int_equal(job->stats[rank].launches, launches[m]);
            assert_int_equal(job->stats[rank].blocking_waits, waits[m]);
        }
        free(job);
    }
}

// One pulse in x, two, one again: nothing of the plan before may act.
static void rebuild(struct rank_thread *self)
{
    struct job *job = self->user;
    for (int round = 0; round < 12; round++) {
        if (self->rank == 0)
            job->box.decomposition.cutoff_nm = round % 3 == 1 ? 1.3 : 0.7;
        if (leat_barrier(self->job))
            return;
        struct bound bound;
        bool held = bind(self, job, true, &bound);
        int pulses = round % 3 == 1 ? 2 : 1;
        held = held && rank_check(self, bound.info.pulse_count == pulses, "%d pulses in round %d",
                                  bound.info.pulse_count, round);
        for (int step = 0; held && step < 3; step++) {
            write_home(self, job, &bound, 100 * round + step);
            held = forward(self, &bound, X) && forward(self, &bound, STAMP);
            for (uint32_t g = bound.info.home_count; held && g < bound.info.element_count; g++)
                held = check_ghost(self, job, &bound, g, 100 * round + step);
            held = held && reverse_ones(self, &bound, step);
        }
        if (!held || leat_barrier(self->job))
            return;
        unbind(&bound);
    }
}

static void test_a_rebuilt_plan_leaves_nothing_of_the_old_one(void **state)
{
    (void)state;
    const int grid[3] = {4, 1, 1};
    for (size_t m = 0; m < MODES; m++) {
        struct job *job = new_job(grid, 0.7, 60, 0, all_modes[m], 3);
        ranks_run(4, rebuild, job);
        free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_ghost_and_sum_is_right_on_every_grid),
        cmocka_unit_test(test_random_delays_on_either_side_change_nothing),
        cmocka_unit_test(test_empty_domains_neither_hang_nor_lose_points),
        cmocka_unit_test(test_counters_near_the_end_of_their_range_wrap),
        cmocka_unit_test(test_three_blocks_share_a_kernel),
        cmocka_unit_test(test_fast_senders_wait_for_slow_readers),
        cmocka_unit_test(test_modes_add_in_the_same_order_to_the_bit),
        cmocka_unit_test(test_launches_and_waits_of_a_step_are_as_designed),
        cmocka_unit_test(test_a_rebuilt_plan_leaves_nothing_of_the_old_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
