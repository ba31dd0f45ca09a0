// SPDX-License-Identifier: Apache-2.0
// leat_halo_run in every mode: each ghost of each step is read once, by another block than the one
// that received it, and says whose it is and of which step; each sum is checked by what was sent
// back. Work while data travel: once, in its place, before any wait. Launches, waits, failures,
// runs in a row.

#include "multi/boxes.h"
#include "multi/graphs.h"

#include "core/job.h"

#include <errno.h>

#define BLOCKS_MAX 16

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MANY_STEPS 3000
#else
#define MANY_STEPS 100000
#endif

enum { STAMP, FORCE, FIELDS };

struct job {
    struct graph graph;
    enum leat_mode mode;
    uint64_t steps, first_epoch;
    bool forward, reverse, delays;
    bool works;          /* part of the sums is left to the work while data travel */
    int failing_rank;    /* its consume fails at step 5; -1: nobody's */
    bool fails_at_work;  /* its while_forward instead */
    uint32_t reached[4]; /* of ranks that wait for one another, see below */
    leat_stats stats[GRAPH_RANKS];
};

struct block_record {
    uint64_t ghosts_read;
    uint64_t calls;  /* of the four functions, in their order */
    char wrong[200]; /* the first */
};

/* What consume and advance see of a rank. */
struct load {
    const struct job *job;
    int rank;
    leat_plan *plan;
    leat_plan_info info;
    leat_region *region[FIELDS];
    leat_halo *halo;
    uint32_t *stamp; /* owner, element, step */
    double *force;
    uint64_t before; /* steps of earlier runs */
    struct block_record block[BLOCKS_MAX];
};

static void dawdle(const struct load *load, uint32_t block, uint64_t step)
{
    struct ranks_random random = {(uint64_t)load->rank * 7919 + block * 31 + step * 65537};
    uint64_t until = leat_now_ns() + ranks_random_word(&random) % 40000;
    while (load->job->delays && leat_now_ns() < until)
        ;
}

static uint32_t part(uint32_t count, uint32_t block, uint32_t block_count)
{
    return (uint32_t)((uint64_t)count * block / block_count);
}

static double returned(int edge, uint32_t entry, uint64_t step)
{
    return (double)((uint64_t)edge + 3 * entry + step % 1000) + 0.25;
}

__attribute__((format(printf, 3, 4))) static int wrong(struct load *load, uint32_t block,
                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(load->block[block].wrong, sizeof load->block[block].wrong, format, arguments);
    va_end(arguments);
    return -EBADMSG;
}

enum { WHILE_FORWARD, CONSUME, WHILE_REVERSE, ADVANCE, CALLS };

// Each block is called in the step's order, whatever other blocks do.
static int in_order(struct load *load, uint32_t block, unsigned call)
{
    uint64_t *calls = &load->block[block].calls;
    if (load->job->works && *calls % CALLS != call)
        return wrong(load, block, "function %u of the step came as number %llu", call,
                     (unsigned long long)*calls);
    *calls += load->job->works;
    return 0;
}

// Home elements' own values, in two halves; a ghost's part comes in between.
static int add_halves(struct load *load, uint32_t block, uint32_t block_count, double by)
{
    uint32_t begin = part(load->info.home_count, block, block_count);
    uint32_t end = part(load->info.home_count, block + 1, block_count);
    for (uint32_t i = begin; i < end; i++)
        load->force[i] += by * i;
    return 0;
}

static int while_forward(void *user, uint32_t block, uint32_t block_count, uint64_t run_step)
{
    struct load *load = user;
    uint64_t step = load->before + run_step;
    dawdle(load, block, step + 2000003);
    if (load->job->fails_at_work && load->rank == load->job->failing_rank && step == 5 &&
        block == block_count - 1)
        return -EDOM;
    int error = in_order(load, block, WHILE_FORWARD);
    return error ? error : add_halves(load, block, block_count, 0.25);
}

static int while_reverse(void *user, uint32_t block, uint32_t block_count, uint64_t run_step)
{
    struct load *load = user;
    dawdle(load, block, load->before + run_step + 3000017);
    int error = in_order(load, block, WHILE_REVERSE);
    return error ? error : add_halves(load, block, block_count, 0.75);
}

static int read_ghost(struct load *load, uint32_t block, uint32_t ghost, int e, uint32_t entry,
                      uint64_t step)
{
    const struct graph_edge *edge = &load->job->graph.edge[e];
    const uint32_t *stamp = &load->stamp[3 * ghost];
    load->block[block].ghosts_read++;
    if (load->job->forward && (stamp[0] != (uint32_t)edge->from || stamp[1] != edge->index[entry] ||
                               stamp[2] != (uint32_t)step))
        return wrong(load, block, "step %llu, ghost %u: element %u of rank %u in step %u",
                     (unsigned long long)step, ghost, stamp[1], stamp[0], stamp[2]);
    load->force[ghost] = returned(e, entry, step);
    return 0;
}

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t run_step)
{
    struct load *load = user;
    const struct graph *graph = &load->job->graph;
    uint64_t step = load->before + run_step;
    dawdle(load, block, step);
    if (!load->job->fails_at_work && load->rank == load->job->failing_rank && step == 5 &&
        block == block_count - 1)
        return -EDOM;
    int out_of_order = in_order(load, block, CONSUME);
    if (out_of_order)
        return out_of_order;
    // Another block's share than the one that the kernel itself would give.
    uint32_t other = (block + 1) % block_count, home = load->info.home_count, ghost = home;
    uint32_t count = load->info.element_count - home;
    uint32_t begin = home + part(count, other, block_count);
    uint32_t end = home + part(count, other + 1, block_count);
    for (int e = 0; e < graph->edge_count; e++)
        for (uint32_t i = 0; graph->edge[e].to == load->rank && i < graph->edge[e].count; i++) {
            int error =
                ghost >= begin && ghost < end ? read_ghost(load, block, ghost, e, i, step) : 0;
            if (error)
                return error;
            ghost++;
        }
    return 0;
}

static int check_sums(struct load *load, uint32_t block, uint32_t begin, uint32_t end,
                      uint64_t step)
{
    const struct graph *graph = &load->job->graph;
    double sum[GRAPH_HOME];
    for (uint32_t i = 0; i < load->info.home_count; i++)
        sum[i] = i;
    for (int e = 0; e < graph->edge_count; e++)
        for (uint32_t i = 0; graph->edge[e].from == load->rank && i < graph->edge[e].count; i++)
            sum[graph->edge[e].index[i]] += returned(e, i, step);
    for (uint32_t i = begin; i < end; i++)
        if (load->force[i] != sum[i])
            return wrong(load, block, "step %llu, element %u: sum %g instead of %g",
                         (unsigned long long)step, i, load->force[i], sum[i]);
    return 0;
}

static void write_home(struct load *load, uint32_t begin, uint32_t end, uint64_t step)
{
    for (uint32_t i = begin; i < end; i++) {
        load->stamp[3 * i] = (uint32_t)load->rank;
        load->stamp[3 * i + 1] = i;
        load->stamp[3 * i + 2] = (uint32_t)step;
        load->force[i] = load->job->works ? 0.0 : i;
    }
}

static int advance(void *user, uint32_t block, uint32_t block_count, uint64_t run_step)
{
    struct load *load = user;
    uint64_t step = load->before + run_step;
    dawdle(load, block, step + 1000003);
    uint32_t begin = part(load->info.home_count, block, block_count);
    uint32_t end = part(load->info.home_count, block + 1, block_count);
    int error = load->job->reverse ? check_sums(load, block, begin, end, step) : 0;
    if (!error)
        error = in_order(load, block, ADVANCE);
    write_home(load, begin, end, step + 1);
    return error;
}

static bool bind(struct rank_thread *self, struct load *load)
{
    const struct job *job = self->user;
    *load = (struct load){.job = job, .rank = self->rank, .plan = graph_plan(self, &job->graph)};
    if (!load->plan)
        return false;
    load->info = box_info(load->plan);
    load->stamp = box_region(self, load->info.element_count * 12ull + 8, &load->region[STAMP]);
    load->force = box_region(self, load->info.element_count * 8ull + 8, &load->region[FORCE]);
    bool paired = job->forward && job->reverse;
    const leat_field fields[FIELDS] = {{.place = {load->region[STAMP], 0},
                                        .element = LEAT_WORDS,
                                        .components = 3,
                                        .acknowledged_by = paired ? FORCE + 1 : 0},
                                       {.place = {load->region[FORCE], 0},
                                        .element = LEAT_F64,
                                        .components = 1,
                                        .acknowledged_by = paired ? STAMP + 1 : 0}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = job->mode,
                                       .field_count = FIELDS,
                                       .fields = fields,
                                       .first_epoch = job->first_epoch};
    write_home(load, 0, load->info.home_count, 0);
    return rank_check(self, !leat_halo_open(self->job, load->plan, &options, &load->halo), "%s",
                      leat_error_detail());
}

static void unbind(struct load *load)
{
    leat_halo_free(load->halo);
    leat_plan_free(load->plan);
    for (int f = 0; f < FIELDS; f++)
        leat_region_free(load->region[f]);
}

static int run(struct load *load, uint64_t steps, uint64_t *done)
{
    const leat_step step = {.size = sizeof step,
                            .forward_field = load->job->forward ? STAMP : -1,
                            .reverse_field = load->job->reverse ? FORCE : -1,
                            .consume = consume,
                            .advance = advance,
                            .user = load,
                            .while_forward = load->job->works ? while_forward : NULL,
                            .while_reverse = load->job->works ? while_reverse : NULL};
    return leat_halo_run(load->halo, &step, steps, done);
}

static bool run_well(struct rank_thread *self, struct load *load, uint64_t steps)
{
    uint64_t done = UINT64_MAX, ghosts = 0;
    int error = run(load, steps, &done);
    for (uint32_t b = 0; b < BLOCKS_MAX; b++)
        rank_check(self, !load->block[b].wrong[0], "block %u: %s", b, load->block[b].wrong);
    bool held = rank_check(self, !error, "%s", leat_error_detail());
    held &= rank_check(self, done == steps, "%llu steps of %llu", (unsigned long long)done,
                       (unsigned long long)steps);
    load->before += steps;
    for (uint32_t b = 0; b < BLOCKS_MAX; b++)
        ghosts += load->block[b].ghosts_read;
    uint64_t wanted = load->before * (load->info.element_count - load->info.home_count);
    return rank_check(self, ghosts == wanted, "%llu ghosts read instead of %llu",
                      (unsigned long long)ghosts, (unsigned long long)wanted) &&
           held;
}

// ---- All modes, one block and several, either way and both ----

static void whole_run(struct rank_thread *self)
{
    struct job *job = self->user;
    struct load load;
    if (!bind(self, &load))
        return;
    leat_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    leat_stats_read(self->job, LEAT_ALL_PEERS, &before);
    bool held = run_well(self, &load, job->steps);
    leat_stats_read(self->job, LEAT_ALL_PEERS, &after);
    after.launches -= before.launches;
    after.blocking_waits -= before.blocking_waits;
    job->stats[self->rank] = after;
    if (held)
        unbind(&load);
}

static struct job *new_job(int ranks, uint64_t steps)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    graph_ring(&job->graph, ranks);
    job->steps = steps;
    job->forward = job->reverse = true;
    job->failing_rank = -1;
    return job;
}

static void set_blocks(int blocks)
{
    char text[16];
    snprintf(text, sizeof text, "%d", blocks);
    setenv("LEAT_BLOCKS", text, 1);
}

static void run_ways(uint64_t first_epoch)
{
    for (int blocks = 1; blocks <= 3; blocks += 2)
        for (int m = 0; m < GRAPH_MODES; m++)
            for (int way = 1; way <= 3; way++) {
                struct job *job = new_job(3, 60);
                job->mode = graph_modes[m];
                job->forward = way & 1;
                job->reverse = way & 2;
                job->works = (m + way) % 2 == 0 || blocks > 1;
                job->delays = true;
                job->first_epoch = first_epoch;
                set_blocks(blocks);
                ranks_run(3, whole_run, job);
                free(job);
            }
    unsetenv("LEAT_BLOCKS");
}

static void test_every_ghost_is_read_once_and_every_sum_is_right(void **state)
{
    (void)state;
    run_ways(0);
}

static void test_counters_near_the_end_of_their_range_wrap_in_a_run(void **state)
{
    (void)state;
    run_ways(UINT64_MAX - 20);
}

static void test_many_steps(void **state)
{
    (void)state;
    struct job *job = new_job(2, MANY_STEPS);
    job->mode = LEAT_MODE_RESIDENT;
    ranks_run(2, whole_run, job);
    job->steps = MANY_STEPS / 10;
    job->reverse = false;
    ranks_run(2, whole_run, job);
    job->mode = LEAT_MODE_FUSED;
    ranks_run(2, whole_run, job);
    free(job);
}

static void test_a_resident_run_is_one_launch_and_waits_once_at_its_end(void **state)
{
    (void)state;
    for (uint64_t steps = 1; steps <= 100; steps *= 10) {
        struct job *job = new_job(4, steps);
        job->mode = LEAT_MODE_RESIDENT;
        ranks_run(4, whole_run, job);
        for (int rank = 0; rank < 4; rank++) {
            assert_int_equal(job->stats[rank].launches, 1);
            assert_int_equal(job->stats[rank].blocking_waits, 1);
        }
        free(job);
    }
}

static void test_other_modes_launch_in_each_step_and_only_host_blocks(void **state)
{
    (void)state;
    // A ring has two pulses; a step is two exchanges. The first forward one waits for leave, too.
    const uint64_t launches[] = {2, 4, 4, 4}, waits[] = {0, 8, 0, 0}, first[] = {0, 2, 0, 0};
    for (int m = 0; m < 4; m++) {
        struct job *job = new_job(4, 10);
        job->mode = graph_modes[m];
        ranks_run(4, whole_run, job);
        for (int rank = 0; rank < 4; rank++) {
            assert_int_equal(job->stats[rank].launches, 10 * launches[m]);
            assert_int_equal(job->stats[rank].blocking_waits, 10 * waits[m] + first[m]);
        }
        free(job);
    }
}

// ---- Work while data travel ----

// The ranks wait for one another in ways that come to an end only where the work comes after the
// rank's own data are on their way, and before it waits for the other's.
enum { IN_FORWARD, CONSUMED, IN_REVERSE, ADVANCED };

static int await_mark(struct load *load, int mark)
{
    struct job *job = (struct job *)(uintptr_t)load->job;
    uint64_t deadline_ns = leat_now_ns() + UINT64_C(20000000000);
    while (!__atomic_load_n(&job->reached[mark], __ATOMIC_ACQUIRE)) {
        if (leat_now_ns() > deadline_ns)
            return wrong(load, 0, "the other rank has not come to mark %d in 20 s", mark);
        sched_yield();
    }
    return 0;
}

static void set_mark(const struct load *load, int mark)
{
    struct job *job = (struct job *)(uintptr_t)load->job;
    __atomic_store_n(&job->reached[mark], 1, __ATOMIC_RELEASE);
}

static int meet_forward(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct load *load = user;
    (void)block, (void)block_count, (void)step;
    if (load->rank == 1)
        return 0;
    set_mark(load, IN_FORWARD);
    return await_mark(load, CONSUMED);
}

static int meet_consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct load *load = user;
    (void)block, (void)block_count, (void)step;
    if (load->rank == 0)
        return 0;
    set_mark(load, CONSUMED);
    return await_mark(load, IN_REVERSE);
}

static int meet_reverse(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct load *load = user;
    (void)block, (void)block_count, (void)step;
    if (load->rank == 1)
        return 0;
    set_mark(load, IN_REVERSE);
    return await_mark(load, ADVANCED);
}

static int meet_advance(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    const struct load *load = user;
    (void)block, (void)block_count, (void)step;
    if (load->rank == 1)
        set_mark(load, ADVANCED);
    return 0;
}

static void meet(struct rank_thread *self)
{
    struct load load;
    if (!bind(self, &load))
        return;
    const leat_step step = {.size = sizeof step,
                            .forward_field = STAMP,
                            .reverse_field = FORCE,
                            .consume = meet_consume,
                            .advance = meet_advance,
                            .user = &load,
                            .while_forward = meet_forward,
                            .while_reverse = meet_reverse};
    // The first exchange waits for leave to overwrite ghosts, so another step goes before.
    const leat_step plain = {.size = sizeof plain, .forward_field = STAMP, .reverse_field = FORCE};
    bool held =
        rank_check(self, !leat_halo_run(load.halo, &plain, 1, NULL), "%s", leat_error_detail());
    if (load.rank == 1)
        held = held && rank_check(self, !await_mark(&load, IN_FORWARD), "%s", load.block[0].wrong);
    held = held &&
           rank_check(self, !leat_halo_run(load.halo, &step, 1, NULL), "%s", leat_error_detail());
    if (held)
        unbind(&load);
}

static void test_work_is_done_between_sending_and_waiting(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++) {
        struct job *job = new_job(2, 1);
        job->mode = graph_modes[m];
        ranks_run(2, meet, job);
        free(job);
    }
}

static void test_more_blocks_than_cores_come_to_an_end(void **state)
{
    (void)state;
    struct job *job = new_job(8, 5);
    job->mode = LEAT_MODE_RESIDENT;
    set_blocks(BLOCKS_MAX);
    ranks_run(8, whole_run, job);
    unsetenv("LEAT_BLOCKS");
    free(job);
}

// ---- Runs and single exchanges in a row ----

static bool exchange_once(struct rank_thread *self, struct load *load)
{
    bool held = rank_check(self, !leat_halo_exchange(load->halo, STAMP, LEAT_FORWARD), "%s",
                           leat_error_detail()) &&
                !consume(load, 0, 1, 0) &&
                rank_check(self, !leat_halo_exchange(load->halo, FORCE, LEAT_REVERSE), "%s",
                           leat_error_detail()) &&
                !advance(load, 0, 1, 0);
    load->before++;
    return rank_check(self, held, "step %llu alone: %s", (unsigned long long)load->before - 1,
                      load->block[0].wrong);
}

static void run_and_exchange(struct rank_thread *self)
{
    struct load load;
    bool held = bind(self, &load);
    for (int round = 0; held && round < 6; round++) {
        if (round % 3)
            held = exchange_once(self, &load);
        held = held && run_well(self, &load, (uint64_t)round) && run_well(self, &load, 2);
    }
    if (held)
        unbind(&load);
}

static void test_runs_and_single_exchanges_follow_one_another(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++) {
        struct job *job = new_job(4, 0);
        job->mode = graph_modes[m];
        job->delays = true;
        ranks_run(4, run_and_exchange, job);
        free(job);
    }
}

// ---- A consumer that fails ----

static void fail_at_step_5(struct rank_thread *self)
{
    const struct job *job = self->user;
    struct load load;
    if (!bind(self, &load))
        return;
    uint64_t done = UINT64_MAX;
    int error = run(&load, 1000, &done);
    bool failing = self->rank == job->failing_rank;
    const char *detail = leat_error_detail();
    rank_check(self, error == (failing ? -EDOM : -ECONNRESET), "%d: %s", error, detail);
    rank_check(self, strstr(detail, "step 5 of the run ended it") && strstr(detail, "returned -33"),
               "the cause is not in: %s", detail);
    rank_check(self, failing ? done == 5 : done >= 4 && done <= 8, "%llu steps done",
               (unsigned long long)done);
    rank_check(self, failing || (strstr(detail, "pulse") && strstr(detail, "rank 1")),
               "where is not in: %s", detail);
    rank_check(self, leat_halo_exchange(load.halo, STAMP, LEAT_FORWARD) == error,
               "a failed halo goes on");
    char reason[LEAT_DETAIL_BYTES];
    snprintf(reason, sizeof reason, "%s", detail);
    unbind(&load);
    leat_close(self->job, reason);
    self->job = NULL;
}

static void test_a_consumer_that_fails_ends_all_ranks_with_its_error(void **state)
{
    (void)state;
    // With several blocks many times: one may fail before the others have left the last barrier.
    for (int round = 0; round < 20; round++)
        for (int m = 0; m < GRAPH_MODES; m++) {
            struct job *job = new_job(3, 0);
            job->mode = graph_modes[m];
            job->failing_rank = 1;
            job->works = job->fails_at_work = round % 2;
            set_blocks(round ? 3 : 1);
            ranks_run(3, fail_at_step_5, job);
            free(job);
        }
    unsetenv("LEAT_BLOCKS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_ghost_is_read_once_and_every_sum_is_right),
        cmocka_unit_test(test_counters_near_the_end_of_their_range_wrap_in_a_run),
        cmocka_unit_test(test_many_steps),
        cmocka_unit_test(test_a_resident_run_is_one_launch_and_waits_once_at_its_end),
        cmocka_unit_test(test_other_modes_launch_in_each_step_and_only_host_blocks),
        cmocka_unit_test(test_work_is_done_between_sending_and_waiting),
        cmocka_unit_test(test_more_blocks_than_cores_come_to_an_end),
        cmocka_unit_test(test_runs_and_single_exchanges_follow_one_another),
        cmocka_unit_test(test_a_consumer_that_fails_ends_all_ranks_with_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
