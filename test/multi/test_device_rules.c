// SPDX-License-Identifier: Apache-2.0
// Plans of every shape on a device, in every mode and with both protocols: empty lists and ranks,
// several lists between two ranks, chains that only go forward, counters near their end, every
// element type, memory freed while others wait, and halos opened anew on the same memory.
// test/gpu/test_device_rules.c is the same on GPUs.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multi/device_halo.h"

#include <sched.h>

#ifndef RULES_DEVICE
#define RULES_DEVICE "cpu"
#define RULES_STEPS  4
#define RULES_CHAIN  40
#endif

static const char *device = RULES_DEVICE;

struct play {
    struct graph graph[2];
    enum leat_mode mode;
    int field_count;
    leat_field field[LEAT_FIELDS_MAX]; /* places are filled in by each rank */
    uint64_t steps, first_epoch, delay_ns;
    /* Of ranks that hold one another back on purpose. */
    pthread_barrier_t met;
    int waiting;
};

static struct play *new_play(uint64_t steps)
{
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    play->steps = steps;
    return play;
}

static void add_field(struct play *play, enum leat_element element, int components, int shifted)
{
    play->field[play->field_count++] =
        (leat_field){.element = element, .components = components, .shifted = shifted};
}

// Packets are for modes whose kernels do all pulses.
static void run_everywhere(struct play *play, void (*body)(struct rank_thread *self))
{
    for (int m = 0; m < GRAPH_MODES; m++) {
        play->mode = graph_modes[m];
        bool both = play->mode == LEAT_MODE_FUSED || play->mode == LEAT_MODE_RESIDENT;
        for (int protocol = 0; protocol < 1 + both; protocol++, play->waiting = 0)
            device_run(&(struct device_job){.device = device,
                                            .packets = protocols[protocol],
                                            .rank_count = play->graph[0].rank_count},
                       body, play);
    }
    free(play);
}

static void use_play(struct bound *bound, struct rank_thread *self)
{
    const struct play *play = self->user;
    *bound = (struct bound){.self = self, .field_count = play->field_count};
    memcpy(bound->field, play->field, sizeof bound->field);
}

static bool bind(struct bound *bound, struct rank_thread *self)
{
    const struct play *play = self->user;
    use_play(bound, self);
    bound->plan = graph_plan(self, &play->graph[0]);
    return bound->plan && make_room(bound, box_info(bound->plan).element_count) &&
           open_halo(bound, play->mode, play->first_epoch);
}

static void delay(struct ranks_random *random, uint64_t most_ns)
{
    if (most_ns)
        spin_for(ranks_random_word(random) % most_ns);
}

static void both_ways(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct ranks_random random = {(uint64_t)self->rank + 5};
    struct bound bound;
    bool held = bind(&bound, self);
    for (uint64_t step = 0; held && step < play->steps; step++)
        for (int f = 0; held && f < play->field_count; f++) {
            delay(&random, play->delay_ns);
            held = forward(&bound, &play->graph[0], f, step);
            if (held && play->field[f].element != LEAT_WORDS)
                held = reverse(&bound, &play->graph[0], f, step);
        }
    if (held)
        unbind(&bound);
}

static void forward_only(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct ranks_random random = {(uint64_t)self->rank + 9};
    struct bound bound;
    bool held = bind(&bound, self);
    for (uint64_t step = 0; held && step < play->steps; step++) {
        delay(&random, play->delay_ns);
        held = forward(&bound, &play->graph[0], 0, step);
    }
    if (held)
        unbind(&bound);
}

// ---- Shapes ----

static void test_empty_lists_and_empty_ranks(void **state)
{
    (void)state;
    struct play *play = new_play(RULES_STEPS);
    struct ranks_random random = {3};
    struct graph *graph = &play->graph[0];
    *graph = (struct graph){.rank_count = 4, .home = {9, 0, 5, 7}};
    for (int e = 0; e < 4; e++)
        graph_join(graph, 0, 1, (uint32_t)e, &random); // the first is empty
    graph_join(graph, 1, 0, 0, &random);
    graph_join(graph, 2, 0, 0, &random);
    graph_join(graph, 0, 2, 4, &random);
    graph_join(graph, 0, 0, 3, &random); // rank 3 has no part in it
    add_field(play, LEAT_F32, 3, 1);
    run_everywhere(play, both_ways);
}

static void test_the_last_list_is_empty(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        struct play *play = new_play(RULES_STEPS);
        struct ranks_random random = {4};
        struct graph *graph = &play->graph[0];
        *graph = (struct graph){.rank_count = ranks};
        for (int r = 0; r < ranks; r++)
            graph->home[r] = 12;
        for (int r = 0; r < ranks; r++)
            graph_join(graph, r, (r + 1) % ranks, 5, &random);
        for (int r = 0; r < ranks; r++)
            graph_join(graph, r, (r + ranks - 1) % ranks, 0, &random);
        add_field(play, LEAT_F32, 3, 0);
        run_everywhere(play, both_ways);
    }
}

static void test_several_lists_between_two_ranks(void **state)
{
    (void)state;
    struct play *play = new_play(RULES_STEPS);
    struct ranks_random random = {5};
    struct graph *graph = &play->graph[0];
    *graph = (struct graph){.rank_count = 2, .home = {20, 31}};
    for (uint32_t e = 0; e < 6; e++) {
        graph_join(graph, 0, 1, 3 + e, &random);
        graph_join(graph, 1, 0, 9 - e, &random);
    }
    add_field(play, LEAT_F32, 3, 1);
    add_field(play, LEAT_F64, 1, 0);
    run_everywhere(play, both_ways);
}

static void test_ranks_with_different_numbers_of_pulses(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks += 3) {
        struct play *play = new_play(RULES_STEPS);
        graph_star(&play->graph[0], ranks);
        add_field(play, LEAT_F32, 3, 1);
        add_field(play, LEAT_WORDS, 1, 0);
        run_everywhere(play, both_ways);
    }
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 21; seed <= 28; seed++) {
        struct play *play = new_play(3);
        graph_random(&play->graph[0], 1 + (int)(seed % 6), seed);
        add_field(play, LEAT_F64, 3, 1);
        add_field(play, LEAT_F32, 4, 0);
        run_everywhere(play, both_ways);
    }
}

static void test_every_element_type(void **state)
{
    (void)state;
    struct play *play = new_play(RULES_STEPS);
    graph_ring(&play->graph[0], 3);
    for (int components = 1; components <= 4; components++)
        add_field(play, LEAT_F64, components, components == 3);
    add_field(play, LEAT_F32, 4, 1);
    add_field(play, LEAT_WORDS, 1, 0);
    add_field(play, LEAT_WORDS, 4, 0);
    add_field(play, LEAT_F32, 7, 1); // too wide for packets, beside fields that are not
    run_everywhere(play, both_ways);
}

// The first rank receives nothing and the last sends nothing: only acknowledgements hold one back.
static void test_a_chain_that_only_goes_forward(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        struct play *play = new_play(RULES_CHAIN);
        struct ranks_random random = {6};
        struct graph *graph = &play->graph[0];
        *graph = (struct graph){.rank_count = ranks};
        for (int r = 0; r < ranks; r++)
            graph->home[r] = 30;
        for (int r = 0; r + 1 < ranks; r++)
            graph_join(graph, r, r + 1, 20, &random);
        add_field(play, LEAT_F32, 3, 1);
        play->delay_ns = 300000;
        run_everywhere(play, forward_only);
    }
}

static void test_a_chain_both_ways(void **state)
{
    (void)state;
    struct play *play = new_play(RULES_CHAIN);
    struct ranks_random random = {7};
    struct graph *graph = &play->graph[0];
    *graph = (struct graph){.rank_count = 3, .home = {10, 20, 30}};
    graph_join(graph, 0, 1, 7, &random);
    graph_join(graph, 1, 2, 9, &random);
    add_field(play, LEAT_F32, 3, 1);
    play->delay_ns = 200000;
    run_everywhere(play, both_ways);
}

static void test_counters_near_their_end(void **state)
{
    (void)state;
    // 32 bits of them are what a packet carries.
    static const uint64_t starts[] = {UINT64_MAX - 2, UINT32_MAX - 2, 5};
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        struct play *play = new_play(7);
        graph_ring(&play->graph[0], 3);
        add_field(play, LEAT_F32, 3, 1);
        play->first_epoch = starts[s];
        run_everywhere(play, both_ways);
    }
}

// ---- Coordinates and forces have sequences of their own ----

// Which exchange comes next is the same random choice on all ranks.
static void irregular(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct ranks_random shared = {11}, random = {(uint64_t)self->rank};
    struct bound bound;
    bool held = bind(&bound, self);
    for (uint64_t step = 0; held && step < play->steps; step++) {
        delay(&random, play->delay_ns);
        held = ranks_random_word(&shared) % 2 ? forward(&bound, &play->graph[0], 0, step)
                                              : reverse(&bound, &play->graph[0], 1, step);
    }
    if (held)
        unbind(&bound);
}

static void test_irregular_orders_of_both_directions(void **state)
{
    (void)state;
    for (int chain = 0; chain < 2; chain++) {
        struct play *play = new_play(RULES_CHAIN);
        struct ranks_random random = {8};
        if (chain) {
            play->graph[0] = (struct graph){.rank_count = 3, .home = {10, 20, 30}};
            graph_join(&play->graph[0], 0, 1, 7, &random);
            graph_join(&play->graph[0], 1, 2, 9, &random);
        } else {
            graph_ring(&play->graph[0], 3);
        }
        add_field(play, LEAT_F32, 3, 1);
        add_field(play, LEAT_F32, 3, 0);
        play->field[0].acknowledged_by = 2;
        play->field[1].acknowledged_by = 1;
        play->delay_ns = 100000;
        run_everywhere(play, irregular);
    }
}

// ---- Memory that comes and goes while others wait on the device ----

static bool come_and_go(struct bound *bound)
{
    struct rank_thread *self = bound->self;
    bool held = true;
    for (int round = 0; held && round < RULES_CHAIN; round++) {
        leat_region *region = NULL;
        const leat_region_options options = {.size = sizeof options,
                                             .bytes = round % 3 ? 1000 : 3 << 20,
                                             .memory = LEAT_MEMORY_DEVICE};
        held = rank_check(self, !leat_region_alloc(self->job, &options, &region), "%s",
                          leat_error_detail()) &&
               bring(bound, 0, bound->info.element_count, round % 2);
        leat_region_free(region);
    }
    return held;
}

// The last rank has no part in the exchanges; the one before it comes when the last is through with
// its memory, in the end with all of it, and the others wait for that one.
static void free_meanwhile(struct rank_thread *self)
{
    struct play *play = self->user;
    const int last = self->rank_count - 1;
    struct bound bound;
    bool held = bind(&bound, self);
    for (int step = 1; step <= 3; step++) {
        if (self->rank < last - 1)
            __atomic_add_fetch(&play->waiting, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&play->waiting, __ATOMIC_ACQUIRE) < step * (last - 1))
            sched_yield();
        if (self->rank == last && held)
            held = come_and_go(&bound);
        if (self->rank == last && held && step == 3) {
            unbind(&bound);
            leat_close(self->job, NULL);
            self->job = NULL;
        }
        if (self->rank >= last - 1)
            pthread_barrier_wait(&play->met);
        if (held && self->rank != last)
            held = forward(&bound, &play->graph[0], 0, (uint64_t)step) &&
                   reverse(&bound, &play->graph[0], 0, (uint64_t)step);
    }
    if (held && self->rank != last)
        unbind(&bound);
}

static void test_memory_comes_and_goes_while_others_wait(void **state)
{
    (void)state;
    struct play *play = new_play(0);
    assert_int_equal(pthread_barrier_init(&play->met, NULL, 2), 0);
    graph_ring(&play->graph[0], 3);
    play->graph[0].rank_count = 4;
    play->graph[0].home[3] = 10;
    add_field(play, LEAT_F32, 3, 1);
    run_everywhere(play, free_meanwhile);
}

// ---- Plans that change on the same memory ----

static bool reopen(struct bound *bound, const struct play *play, const struct graph *graph,
                   uint64_t step)
{
    bound->plan = graph_plan(bound->self, graph);
    bool held = bound->plan && open_halo(bound, play->mode, 0);
    for (uint64_t i = 0; held && i < 2; i++)
        held = forward(bound, graph, 0, step + i) && reverse(bound, graph, 1, step + i);
    leat_halo_free(bound->halo);
    leat_plan_free(bound->plan);
    bound->halo = NULL;
    bound->plan = NULL;
    return held;
}

static void change_plans(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct bound bound;
    use_play(&bound, self);
    bool held = make_room(&bound, 4 * GRAPH_HOME);
    for (uint64_t step = 0; held && step < 2 * RULES_STEPS; step++)
        held = reopen(&bound, play, &play->graph[step % 2], 2 * step);
    if (held)
        unbind(&bound);
}

static void test_two_pulses_then_one_then_two_on_the_same_regions(void **state)
{
    (void)state;
    struct play *play = new_play(0);
    struct ranks_random random = {12};
    graph_ring(&play->graph[0], 4);
    play->graph[1] = (struct graph){.rank_count = 4, .home = {30, 11, 8, 25}};
    for (int r = 0; r < 4; r++)
        graph_join(&play->graph[1], r, (r + 3) % 4, 6, &random);
    add_field(play, LEAT_F32, 3, 1);
    add_field(play, LEAT_F32, 3, 0);
    run_everywhere(play, change_plans);
}

// ---- The two sides disagree ----

static void disagree(struct rank_thread *self)
{
    const struct play *play = self->user;
    struct bound bound;
    struct graph graph = play->graph[0];
    graph.edge[0].count -= (uint32_t)self->rank; // the edge leads from rank 0 to rank 1
    use_play(&bound, self);
    bound.plan = graph_plan(self, &graph);
    if (!bound.plan || !make_room(&bound, box_info(bound.plan).element_count))
        return;
    const leat_halo_options options = {
        .size = sizeof options, .mode = play->mode, .field_count = 1, .fields = bound.field};
    int error = leat_halo_open(self->job, bound.plan, &options, &bound.halo);
    rank_check(self, error == -EPROTO && !bound.halo, "%d: %s", error, leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), "pulse 0") && strstr(leat_error_detail(), "rank"),
               "no pulse and no rank in: %s", leat_error_detail());
    unbind(&bound);
}

static void test_sides_that_disagree_are_told_at_the_open(void **state)
{
    (void)state;
    struct play *play = new_play(0);
    graph_ring(&play->graph[0], 2);
    add_field(play, LEAT_F32, 3, 1);
    run_everywhere(play, disagree);
}

// Arguments: another device, as LEAT_DEVICE names it, and a pattern of tests.
int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_lists_and_empty_ranks),
        cmocka_unit_test(test_the_last_list_is_empty),
        cmocka_unit_test(test_several_lists_between_two_ranks),
        cmocka_unit_test(test_ranks_with_different_numbers_of_pulses),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_every_element_type),
        cmocka_unit_test(test_a_chain_that_only_goes_forward),
        cmocka_unit_test(test_a_chain_both_ways),
        cmocka_unit_test(test_counters_near_their_end),
        cmocka_unit_test(test_irregular_orders_of_both_directions),
        cmocka_unit_test(test_memory_comes_and_goes_while_others_wait),
        cmocka_unit_test(test_two_pulses_then_one_then_two_on_the_same_regions),
        cmocka_unit_test(test_sides_that_disagree_are_told_at_the_open),
    };
    int missing = device_missing(device);
    return missing ? missing : cmocka_run_group_tests(tests, NULL, NULL);
}
