// SPDX-License-Identifier: Apache-2.0
// What goes wrong on a device ends with an error that says who and where, within the deadline and a
// second more, and leaves the device usable: ranks that stop or close, in every mode and protocol,
// and jobs and halos that cannot be opened. test/gpu/test_device_failures.c is the same on GPUs.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multi/device_halo.h"

#ifndef FAILURES_DEVICE
#define FAILURES_DEVICE "cpu"
#define TIMEOUT_S       1.0
#endif

#define RANKS 3

static const char *device = FAILURES_DEVICE;

struct play {
    struct graph graph;
    enum leat_mode mode;
    bool resident_loop, closes;
    int lost;          /* the rank that does not come */
    uint64_t steps;    /* of the loop that it makes all the same, and the others longer; or 0 */
    int number[RANKS]; /* of each rank's device */
    pthread_barrier_t met;
};

static bool on_gpu(void)
{
    return strcmp(device, "cpu") != 0;
}

static bool bind(struct bound *bound, struct rank_thread *self)
{
    const struct play *play = self->user;
    *bound = (struct bound){
        .self = self,
        .field_count = 2,
        .field = {{.element = LEAT_F32, .components = 3}, {.element = LEAT_F32, .components = 3}}};
    bound->plan = graph_plan(self, &play->graph);
    return bound->plan && make_room(bound, box_info(bound->plan).element_count) &&
           open_halo(bound, play->mode, 0);
}

static void note_device(struct rank_thread *self)
{
    struct play *play = self->user;
    leat_device_info info = {.size = sizeof info};
    rank_check(self, !leat_device_info_get(self->job, &info), "%s", leat_error_detail());
    play->number[self->rank] = info.number;
}

static int loop_for(struct bound *bound, uint64_t steps)
{
    const leat_step step = {.size = sizeof step, .reverse_field = 1};
    return leat_halo_run(bound->halo, &step, steps, NULL);
}

static int exchange_in_vain(const struct play *play, struct bound *bound)
{
    int error = play->resident_loop ? loop_for(bound, 1000000000)
                                    : leat_halo_exchange(bound->halo, 0, LEAT_FORWARD);
    return error ? error : leat_device_wait(bound->self->job, -1);
}

// Ranks of the lost one's GPU cannot start without it, and others may wait for those.
static bool names_whom(const struct play *play, int rank)
{
    char name[16];
    bool shared = false, any = false;
    for (int r = 0; r < RANKS; r++) {
        snprintf(name, sizeof name, "rank %d", r);
        bool named = strstr(leat_error_detail(), name);
        any |= r != rank && named;
        if (r == play->lost && named)
            return true;
        shared |= r != play->lost && play->number[r] == play->number[play->lost];
    }
    return on_gpu() && shared && any;
}

static void be_left_alone(struct rank_thread *self, struct bound *bound)
{
    struct play *play = self->user;
    uint64_t begin = leat_now_ns();
    int error = exchange_in_vain(play, bound);
    double took_s = (double)(leat_now_ns() - begin) * 1e-9;
    rank_check(self, error == -ETIMEDOUT || (play->closes && error == -ECONNRESET), "%d: %s", error,
               error ? leat_error_detail() : "no error");
    rank_check(self, names_whom(play, self->rank), "rank %d is not named: %s", play->lost,
               leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), "pulse") || strstr(leat_error_detail(), "GPU"),
               "no pulse is named: %s", leat_error_detail());
    rank_check(self, took_s < TIMEOUT_S + 1, "it took %.2f s", took_s);
    rank_check(self, play->closes || took_s > TIMEOUT_S / 2, "it took only %.2f s", took_s);
    error = leat_halo_exchange(bound->halo, 0, LEAT_FORWARD);
    rank_check(self, error != 0 && strstr(leat_error_detail(), "can only be freed"), "%d: %s",
               error, leat_error_detail());
}

// The others close in order after the lost rank has gone on, so that nobody's memory goes first.
static void lose_one(struct rank_thread *self)
{
    struct play *play = self->user;
    struct bound bound;
    bool held = bind(&bound, self);
    note_device(self);
    for (uint64_t step = 0; held && step < 3; step++)
        held = forward(&bound, &play->graph, 0, step) && reverse(&bound, &play->graph, 1, step);
    if (self->rank == play->lost && play->closes) {
        leat_halo_free(bound.halo);
        leat_plan_free(bound.plan);
        leat_close(self->job, NULL);
        self->job = NULL;
    }
    pthread_barrier_wait(&play->met);
    if (held && self->rank != play->lost)
        be_left_alone(self, &bound);
    else if (held && play->steps)
        rank_check(self, !loop_for(&bound, play->steps), "%s", leat_error_detail());
    pthread_barrier_wait(&play->met);
    if (self->job)
        unbind(&bound);
}

static void all_is_well(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct bound bound;
    bool held = bind(&bound, self);
    for (uint64_t step = 0; held && step < 4; step++)
        held = forward(&bound, &play->graph, 0, step) && reverse(&bound, &play->graph, 1, step);
    if (held)
        unbind(&bound);
}

// Afterwards a new job has to come through on the same devices.
static void lose(struct play *play, const char *packets)
{
    struct device_job job = {
        .device = device, .packets = packets, .timeout_s = TIMEOUT_S, .rank_count = RANKS};
    graph_ring(&play->graph, RANKS);
    assert_int_equal(pthread_barrier_init(&play->met, NULL, RANKS), 0);
    device_run(&job, lose_one, play);
    pthread_barrier_destroy(&play->met);
    job.timeout_s = 20;
    device_run(&job, all_is_well, play);
}

// The last rank is alone on its GPU where there are two; the first shares its own.
static void lose_in_mode(enum leat_mode mode, bool resident_loop, bool closes)
{
    bool packets = mode == LEAT_MODE_FUSED || mode == LEAT_MODE_RESIDENT;
    for (int protocol = 0; protocol < 1 + packets; protocol++)
        for (int lost = RANKS - 1; lost >= 0; lost -= RANKS - 1)
            lose(
                &(struct play){
                    .mode = mode, .resident_loop = resident_loop, .closes = closes, .lost = lost},
                protocols[protocol]);
}

static void test_a_rank_that_stops(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++)
        lose_in_mode(graph_modes[m], false, false);
}

static void test_a_rank_that_stops_while_others_loop(void **state)
{
    (void)state;
    lose_in_mode(LEAT_MODE_RESIDENT, true, false);
}

// So that kernels find it out also where ranks share a GPU and are launched together.
static void test_a_rank_that_leaves_the_loop_before_others(void **state)
{
    (void)state;
    for (int protocol = 0; protocol < 2; protocol++)
        for (int lost = 0; lost < RANKS; lost++)
            lose(
                &(struct play){
                    .mode = LEAT_MODE_RESIDENT, .resident_loop = true, .lost = lost, .steps = 3},
                protocols[protocol]);
}

static void test_a_rank_that_closes(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++)
        lose_in_mode(graph_modes[m], false, true);
    lose_in_mode(LEAT_MODE_RESIDENT, true, true);
}

// ---- What cannot be opened ----

static int open_on(const char *name, int ranks)
{
    const leat_options options = {
        .size = sizeof options, .thread_ranks = ranks, .arena_bytes = 16 << 20, .device = name};
    leat_job *jobs[64] = {0};
    int error = leat_open(&options, jobs);
    for (int r = 0; !error && r < ranks; r++)
        leat_close(jobs[r], NULL);
    return error;
}

static void check_words(const char *first, const char *second)
{
    if (!strstr(leat_error_detail(), first) || !strstr(leat_error_detail(), second))
        fail_msg("\"%s\" or \"%s\" is not in: %s", first, second, leat_error_detail());
}

static void test_names_that_are_no_device(void **state)
{
    (void)state;
    static const char *const names[] = {"gpu", "cuda:x", "cuda:", "cuda:0,", "cuda:-1", "cuda0"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        int error = open_on(names[n], 1);
        if (error != -EINVAL)
            fail_msg("%s: %d instead of %d: %s", names[n], error, -EINVAL, leat_error_detail());
        check_words(names[n], "cuda:0,1");
    }
    int error = open_on("cuda:99", 1);
    if (error != -ENODEV && (on_gpu() || error != -ENOTSUP))
        fail_msg("cuda:99: %d: %s", error, leat_error_detail());
    check_words("LEAT_DEVICE", on_gpu() ? "there is no GPU 99" : "cuda");
}

static void test_more_ranks_than_a_gpu_takes(void **state)
{
    (void)state;
    assert_int_equal(open_on("cuda:0", 33), -E2BIG);
    check_words("33 ranks", "at most 32");
    assert_int_equal(open_on("cuda:0", 1), 0);
}

static void open_on_host_memory(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct bound bound = {
        .self = self, .field_count = 1, .field = {{.element = LEAT_F32, .components = 3}}};
    bound.plan = graph_plan(self, &play->graph);
    if (!bound.plan || !make_room(&bound, box_info(bound.plan).element_count))
        return;
    if (self->rank == 0)
        bound.field[0].place.region = bound.mirror[0];
    const leat_halo_options options = {
        .size = sizeof options, .mode = play->mode, .field_count = 1, .fields = bound.field};
    int error = leat_halo_open(self->job, bound.plan, &options, &bound.halo);
    rank_check(self, error == (self->rank == 0 ? -EINVAL : -EREMOTEIO) && !bound.halo, "%d: %s",
               error, leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), "LEAT_MEMORY_DEVICE") != NULL, "%s",
               leat_error_detail());
    bound.field[0].place.region = bound.region[0];
    if (open_halo(&bound, play->mode, 0) && forward(&bound, &play->graph, 0, 1))
        unbind(&bound);
}

static void test_a_field_in_the_hosts_memory(void **state)
{
    (void)state;
    for (int m = 0; m < GRAPH_MODES; m++) {
        struct play play = {.mode = graph_modes[m]};
        graph_ring(&play.graph, RANKS);
        device_run(&(struct device_job){.device = device, .rank_count = RANKS}, open_on_host_memory,
                   &play);
    }
}

static int do_nothing(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    (void)user, (void)block, (void)block_count, (void)step;
    return 0;
}

static void loop_with_functions(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct bound bound;
    if (!bind(&bound, self))
        return;
    for (int which = 0; which < 2; which++) {
        leat_step step = {.size = sizeof step, .reverse_field = 1};
        *(which ? &step.advance : &step.consume) = do_nothing;
        uint64_t done = 99;
        int error = leat_halo_run(bound.halo, &step, 3, &done);
        rank_check(self, error == -ENOTSUP && done == 0, "%d after %llu steps: %s", error,
                   (unsigned long long)done, leat_error_detail());
        rank_check(self, strstr(leat_error_detail(), "fused") != NULL, "%s", leat_error_detail());
    }
    if (forward(&bound, &play->graph, 0, 1)) // a refusal has begun nothing
        unbind(&bound);
}

static void test_a_gpus_loop_cannot_call_the_host(void **state)
{
    (void)state;
    struct play play = {.mode = LEAT_MODE_RESIDENT};
    graph_ring(&play.graph, RANKS);
    device_run(&(struct device_job){.device = device, .rank_count = RANKS}, loop_with_functions,
               &play);
}

// Arguments: another device, as LEAT_DEVICE names it, and a pattern of tests.
int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_are_no_device),
        cmocka_unit_test(test_a_rank_that_stops),
        cmocka_unit_test(test_a_rank_that_stops_while_others_loop),
        cmocka_unit_test(test_a_rank_that_leaves_the_loop_before_others),
        cmocka_unit_test(test_a_rank_that_closes),
    };
    const struct CMUnitTest of_gpus[] = {
        cmocka_unit_test(test_more_ranks_than_a_gpu_takes),
        cmocka_unit_test(test_a_field_in_the_hosts_memory),
        cmocka_unit_test(test_a_gpus_loop_cannot_call_the_host),
    };
    int missing = device_missing(device);
    if (missing)
        return missing;
    int failed = on_gpu() ? cmocka_run_group_tests(of_gpus, NULL, NULL) : 0;
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
