// SPDX-License-Identifier: Apache-2.0
// The exchange's signals and acknowledgements in every order in which ranks and blocks can take
// their steps: no deadlock, every ghost of its step, every sum whole, every signal upwards only.
// And mutants of the protocol, each of which has to be found.

#include "proof/model_halo.h"

#define STATES_MAX 3000000

static void search(const struct scenario *scenario)
{
    struct explore_result result;
    bool whole = model_run(scenario, STATES_MAX, &result);
    print_message("%-44s %8llu states, %9llu steps, longest way %zu%s\n", scenario->name,
                  (unsigned long long)result.states, (unsigned long long)result.steps,
                  result.longest, whole ? "" : ", not all");
    if (result.violation[0])
        fail_msg("%s: %s", scenario->name, result.violation);
    if (!whole)
        fail_msg("%s: more than %d states", scenario->name, STATES_MAX);
}

#define PAIR      .ranks = 2, .grid = {2, 1, 1}, .cutoff_nm = 1.9, .points = 2
#define THREE     .ranks = 3, .grid = {3, 1, 1}, .cutoff_nm = 1.9, .points = 2 /* two pulses */
#define RING      .ranks = 3, .lists = 1, .points = 2
#define BOTH_WAYS .blocks = 1, .steps = 3, .halos = 2, .rebuild = SAME_MEMORY
#define ONE_WAY   .blocks = 1, .steps = 4, .halos = 2, .rebuild = SAME_MEMORY, .forward_only = true

static const enum leat_mode modes[] = {LEAT_MODE_FUSED, LEAT_MODE_HOST, LEAT_MODE_STREAM,
                                       LEAT_MODE_PULSE, LEAT_MODE_RESIDENT};
#define MODES (sizeof modes / sizeof *modes)

static void in_every_mode(struct scenario scenario)
{
    static const char *const names[] = {"fused", "host", "stream", "pulse", "resident"};
    char name[96];
    for (size_t m = 0; m < MODES; m++) {
        struct scenario in_mode = scenario;
        snprintf(name, sizeof name, "%s, %s", scenario.name, names[m]);
        in_mode.name = name;
        in_mode.mode = modes[m];
        search(&in_mode);
    }
}

static void test_two_ranks_both_ways_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "2 ranks, 1 pulse, both ways", PAIR, BOTH_WAYS});
}

static void test_two_ranks_forward_only_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "2 ranks, 1 pulse, forward only", PAIR, ONE_WAY});
}

static void test_three_ranks_and_two_pulses_both_ways_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "3 ranks, 2 pulses, both ways", THREE, BOTH_WAYS});
}

static void test_three_ranks_and_two_pulses_forward_only_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "3 ranks, 2 pulses, forward only", THREE, ONE_WAY});
}

// Ranks without elements: pulses with nothing in them, at either end, first or last.
static void test_empty_pulses_in_every_order(void **state)
{
    (void)state;
    for (unsigned empty = 1; empty < 4; empty++) {
        in_every_mode((struct scenario){
            .name = "2 ranks, some empty, both ways", PAIR, BOTH_WAYS, .empty = empty});
        in_every_mode((struct scenario){
            .name = "2 ranks, some empty, forward only", PAIR, ONE_WAY, .empty = empty});
    }
    for (unsigned empty = 1; empty < 8; empty += 2)
        search(&(struct scenario){
            .name = "3 ranks, 2 pulses, some empty, both ways", THREE, BOTH_WAYS, .empty = empty});
    search(&(struct scenario){
        .name = "3 ranks, 2 pulses, some empty, forward only", THREE, ONE_WAY, .empty = 2});
}

// Rings from lists: whom a rank sends to is not whom it hears from.
static void test_rings_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "ring of 3, both ways", RING, BOTH_WAYS});
    in_every_mode((struct scenario){.name = "ring of 3, forward only", RING, ONE_WAY});
    search(&(struct scenario){
        .name = "ring of 3, two lists, forward only", RING, ONE_WAY, .lists = 2, .empty = 2});
}

static void test_two_blocks_in_every_order(void **state)
{
    (void)state;
    const enum leat_mode in[] = {LEAT_MODE_FUSED, LEAT_MODE_PULSE, LEAT_MODE_RESIDENT};
    const char *const names[] = {"fused", "pulse", "resident"};
    for (int m = 0; m < 3; m++) {
        char name[64];
        struct scenario scenario = {.name = name, PAIR, .mode = in[m], .blocks = 2};
        scenario.steps = 2;
        scenario.halos = 1;
        snprintf(name, sizeof name, "2 ranks of 2 blocks, both ways, %s", names[m]);
        search(&scenario);
        snprintf(name, sizeof name, "2 ranks of 2 blocks, forward only, %s", names[m]);
        scenario.forward_only = true;
        search(&scenario);
    }
}

static void test_points_before_every_element_change_nothing(void **state)
{
    (void)state;
    search(&(struct scenario){
        .name = "2 ranks, 1 pulse, by element", PAIR, BOTH_WAYS, .by_element = true});
    search(&(struct scenario){
        .name = "2 ranks, forward only, by element", PAIR, ONE_WAY, .by_element = true});
    search(&(struct scenario){.name = "3 ranks, 2 pulses, by element",
                              THREE,
                              .blocks = 1,
                              .steps = 2,
                              .halos = 1,
                              .by_element = true});
}

// With two zones a sender looks for 'free' one exchange late, so it may be one ahead of its reader.
static void test_two_landing_zones_in_every_order(void **state)
{
    (void)state;
    in_every_mode((struct scenario){.name = "2 ranks, two zones", PAIR, ONE_WAY, .zones = 2});
    search(&(struct scenario){.name = "3 ranks, two zones",
                              THREE,
                              .blocks = 1,
                              .steps = 4,
                              .halos = 1,
                              .forward_only = true,
                              .zones = 2});
    in_every_mode((struct scenario){.name = "ring of 3, two zones, 2 halos",
                                    RING,
                                    .blocks = 1,
                                    .steps = 4,
                                    .halos = 2,
                                    .forward_only = true,
                                    .zones = 2,
                                    .rebuild = NEW_MEMORY});
}

static void test_counters_that_wrap_and_halos_in_new_memory(void **state)
{
    (void)state;
    in_every_mode((struct scenario){
        .name = "2 ranks, counters wrap", PAIR, BOTH_WAYS, .first_epoch = UINT64_MAX - 1});
    search(&(struct scenario){
        .name = "2 ranks, wrap, forward only", PAIR, ONE_WAY, .first_epoch = UINT64_MAX - 1});
    search(&(struct scenario){
        .name = "3 ranks, 3 halos in new memory", THREE, .blocks = 1, .steps = 2, .halos = 3});
}

// Where kernels cannot store to peers: the ring and who carries are one more thread a rank, with
// packed values that wait for their turn.
static void test_the_proxy_in_every_order(void **state)
{
    (void)state;
    const enum leat_mode in[] = {LEAT_MODE_FUSED, LEAT_MODE_PULSE, LEAT_MODE_STREAM,
                                 LEAT_MODE_RESIDENT};
    for (size_t m = 0; m < sizeof in / sizeof *in; m++) {
        search(&(struct scenario){.name = "2 ranks by proxy, both ways",
                                  PAIR,
                                  BOTH_WAYS,
                                  .mode = in[m],
                                  .proxied = true,
                                  .first_epoch = UINT64_MAX - 1});
        search(&(struct scenario){.name = "2 ranks by proxy, forward only",
                                  PAIR,
                                  ONE_WAY,
                                  .mode = in[m],
                                  .proxied = true});
        search(&(struct scenario){.name = "2 ranks by proxy, two zones",
                                  PAIR,
                                  .blocks = 1,
                                  .steps = 4,
                                  .halos = 1,
                                  .forward_only = true,
                                  .mode = in[m],
                                  .proxied = true,
                                  .zones = 2});
    }
}

// ---- mutants ----

static void expect(struct scenario scenario, enum mutant mutant, const char *words)
{
    struct explore_result result;
    scenario.mutant = mutant;
    model_run(&scenario, STATES_MAX, &result);
    print_message("%-36s found after %llu states: %.200s\n", scenario.name,
                  (unsigned long long)result.states, result.violation);
    assert_non_null(strstr(result.violation, words));
}

static void test_mutants_of_the_flow_control_are_found(void **state)
{
    (void)state;
    expect((struct scenario){.name = "no wait for 'free', 2 ranks", PAIR, ONE_WAY},
           NO_WAIT_FOR_FREE, "instead of");
    expect(
        (struct scenario){
            .name = "no wait for 'free', 3 ranks, host", THREE, ONE_WAY, .mode = LEAT_MODE_HOST},
        NO_WAIT_FOR_FREE, "instead of");
    expect((struct scenario){.name = "no wait for 'free', ring, resident",
                             RING,
                             ONE_WAY,
                             .mode = LEAT_MODE_RESIDENT},
           NO_WAIT_FOR_FREE, "instead of");
    expect((struct scenario){.name = "no wait for 'free', two zones",
                             RING,
                             .blocks = 1,
                             .steps = 4,
                             .halos = 1,
                             .forward_only = true,
                             .zones = 2},
           NO_WAIT_FOR_FREE, "instead of");
    expect((struct scenario){.name = "sums before all is back, 2 ranks", PAIR, BOTH_WAYS},
           REVERSE_NOT_AWAITED, "instead of");
}

static void test_mutants_of_the_signals_are_found(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODES; m++)
        expect((struct scenario){.name = "signal before data", PAIR, BOTH_WAYS, .mode = modes[m]},
               SIGNAL_BEFORE_DATA, "instead of");
    expect((struct scenario){.name = "new halo, old signals", PAIR, BOTH_WAYS}, STALE_SIGNALS, "");
    expect((struct scenario){.name = "only the last arrival awaited", THREE, BOTH_WAYS},
           LAST_ARRIVAL_ONLY, "instead of");
}

static void test_mutants_of_the_proxy_are_found(void **state)
{
    (void)state;
    expect(
        (struct scenario){.name = "proxy raises, then carries", PAIR, BOTH_WAYS, .proxied = true},
        CARRIED_LATE, "instead of");
    expect((struct scenario){.name = "proxy, no wait for 'free'", PAIR, ONE_WAY, .proxied = true},
           NO_WAIT_FOR_FREE, "instead of");
}

// The last 'free' of a field with two zones is awaited by nobody: its board has to outlive it,
// which is why leat_halo_free retires boards until all ranks meet again.
static void test_a_board_cannot_be_cleared_as_soon_as_its_owner_is_done(void **state)
{
    (void)state;
    expect((struct scenario){.name = "ring, two zones, same board", RING, ONE_WAY, .zones = 2},
           AS_IT_IS, "a signal goes from");
}

static void test_mutants_of_empty_pulses_are_found(void **state)
{
    (void)state;
    expect((struct scenario){.name = "silent when empty", PAIR, BOTH_WAYS, .empty = 1},
           SILENT_WHEN_EMPTY, "nobody can go on");
    expect((struct scenario){.name = "empty pulse not awaited", PAIR, BOTH_WAYS, .empty = 1},
           EMPTY_NOT_AWAITED, "");
    expect((struct scenario){.name = "empty pulse not awaited, 3", THREE, BOTH_WAYS, .empty = 1},
           EMPTY_NOT_AWAITED, "");
    expect((struct scenario){.name = "empty pulse not awaited, fwd", PAIR, ONE_WAY, .empty = 1},
           EMPTY_NOT_AWAITED, "");
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("sanitizers do not follow the copying of stacks\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_both_ways_in_every_order),
        cmocka_unit_test(test_two_ranks_forward_only_in_every_order),
        cmocka_unit_test(test_three_ranks_and_two_pulses_both_ways_in_every_order),
        cmocka_unit_test(test_three_ranks_and_two_pulses_forward_only_in_every_order),
        cmocka_unit_test(test_empty_pulses_in_every_order),
        cmocka_unit_test(test_rings_in_every_order),
        cmocka_unit_test(test_two_blocks_in_every_order),
        cmocka_unit_test(test_points_before_every_element_change_nothing),
        cmocka_unit_test(test_two_landing_zones_in_every_order),
        cmocka_unit_test(test_counters_that_wrap_and_halos_in_new_memory),
        cmocka_unit_test(test_the_proxy_in_every_order),
        cmocka_unit_test(test_mutants_of_the_flow_control_are_found),
        cmocka_unit_test(test_mutants_of_the_signals_are_found),
        cmocka_unit_test(test_mutants_of_the_proxy_are_found),
        cmocka_unit_test(test_a_board_cannot_be_cleared_as_soon_as_its_owner_is_done),
        cmocka_unit_test(test_mutants_of_empty_pulses_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
