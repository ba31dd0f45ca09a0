// SPDX-License-Identifier: Apache-2.0
// Every order of events that the message engine can meet in a few small programs: rings are granted
// and given back, credits run out, messages are held back and found; always all of it arrives, in
// order, and nobody waits for ever.
//
// Rings have two or four slots and pools hardly any room. LEAT_LONG=1 searches further where there
// are more orders than states are counted here; beyond that random ways are walked. Advantage: what
// holds here holds in every order, of these programs. Disadvantage: the programs are chosen by
// hand.

#include "proof/msg_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ANY (-1)

static struct msg_tuning tiny(void)
{
    return (struct msg_tuning){.budget_bytes = 2 << 20,
                               .ring_slots = 4,
                               .ring_bulk_bytes = 1024,
                               .fragment_bytes = 128,
                               .eager_bytes = 300,
                               .direct_bytes = 600,
                               .share_bytes = 1 << 20,
                               .chunk_bytes = 4096,
                               .pipe_bytes = 1024,
                               .queue_window = 2,
                               .promote_after = 1,
                               .ring_limit = 2,
                               .handle_limit = 8};
}

static void run(const struct script *script, uint64_t states, uint64_t walks)
{
    struct search_result result;
    uint64_t more = getenv("LEAT_LONG") ? 20 : 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    states /= 8; // each costs several times as much
    walks /= 8;
#endif
    search_script(script, states * more, &result);
    print_message("%s: %llu states, %llu steps, %llu ends, longest %zu%s\n", script->name,
                  (unsigned long long)result.states, (unsigned long long)result.steps,
                  (unsigned long long)result.ends, result.longest,
                  result.whole ? ", all orders" : "");
    if (result.violation[0])
        fail_msg("%s", result.violation);
    assert_true(result.ends > 0 || !result.whole);
    if (result.whole)
        return;
    walk_script(script, 1, walks * more, &result);
    print_message("  %llu ways at random, longest %zu\n", (unsigned long long)result.runs,
                  result.longest);
    if (result.violation[0])
        fail_msg("%s", result.violation);
}

// Rings are granted after the first message; the others fill them.
static void test_rings_are_granted(void **state)
{
    (void)state;
    struct script script = {.name = "granting",
                            .rank_count = 2,
                            .net = {.queue_packets = 4},
                            .tuning = tiny(),
                            .op[0] = {{OP_SEND, 1, 1, 8, true},
                                      {OP_SEND, 1, 1, 200, true},
                                      {OP_SEND, 1, 2, 8},
                                      {OP_SEND, 1, 1, 16}},
                            .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                                      {OP_RECEIVE, 0, 1, 200, true},
                                      {OP_RECEIVE, 0, 1, 16, true},
                                      {OP_RECEIVE, 0, ANY, 8}}};
    run(&script, 60000, 3000);
    script.name = "granting, mapped";
    script.net.map = true;
    run(&script, 60000, 3000);
}

static void test_rings_both_ways(void **state)
{
    (void)state;
    struct script script = {
        .name = "both ways",
        .rank_count = 2,
        .net = {.queue_packets = 3},
        .tuning = tiny(),
        .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_RECEIVE, 1, 1, 8, true}, {OP_SEND, 1, 1, 8}},
        .op[1] = {{OP_SEND, 0, 1, 8, true}, {OP_RECEIVE, 0, 1, 8, true}, {OP_RECEIVE, 0, 1, 8}}};
    run(&script, 60000, 3000);
}

// Two slots: each message needs a credit of an earlier one.
static void test_credits_run_out(void **state)
{
    (void)state;
    struct script script = {.name = "credits",
                            .rank_count = 2,
                            .net = {.queue_packets = 2, .put_limit = 1},
                            .tuning = tiny(),
                            .op[0] = {{OP_SEND, 1, 1, 8, true},
                                      {OP_SEND, 1, 1, 9, true},
                                      {OP_SEND, 1, 1, 10, true},
                                      {OP_SEND, 1, 1, 11, true},
                                      {OP_SEND, 1, 1, 12, true},
                                      {OP_SEND, 1, 1, 13, true}},
                            .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                                      {OP_RECEIVE, 0, 1, 9, true},
                                      {OP_RECEIVE, 0, 1, 10, true},
                                      {OP_RECEIVE, 0, 1, 11, true},
                                      {OP_RECEIVE, 0, 1, 12, true},
                                      {OP_RECEIVE, 0, 1, 13}}};
    script.tuning.ring_slots = 2;
    run(&script, 60000, 3000);
}

// A message in fragments, put one by one, between others, while the ring is asked back.
static void test_fragments_and_giving_back(void **state)
{
    (void)state;
    struct script script = {
        .name = "fragments",
        .rank_count = 2,
        .net = {.queue_packets = 3, .put_limit = 1},
        .tuning = tiny(),
        .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 1, 300, true}, {OP_SEND, 1, 1, 8, true}},
        .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                  {OP_RECEIVE, 0, 1, 300, true},
                  {OP_REVOKE, 0},
                  {OP_RECEIVE, 0, 1, 8}}};
    run(&script, 60000, 3000);
}

static void test_rings_are_given_back(void **state)
{
    (void)state;
    struct script script = {.name = "giving back",
                            .rank_count = 2,
                            .net = {.queue_packets = 3},
                            .tuning = tiny(),
                            .op[0] = {{OP_SEND, 1, 1, 8, true},
                                      {OP_SEND, 1, 1, 9, true},
                                      {OP_SEND, 1, 1, 10},
                                      {OP_SEND, 1, 1, 11}},
                            .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                                      {OP_RECEIVE, 0, 1, 9, true},
                                      {OP_RECEIVE, 0, 1, 10, true},
                                      {OP_RECEIVE, 0, 1, 11, true},
                                      {OP_REVOKE, 0}}};
    run(&script, 60000, 3000);
    script.name = "giving back, mapped";
    script.net.map = true;
    run(&script, 60000, 3000);
}

// One ring for two senders, asked back from whoever has it.
static void test_a_ring_goes_from_hand_to_hand(void **state)
{
    (void)state;
    struct script script = {.name = "hand to hand",
                            .rank_count = 3,
                            .net = {.queue_packets = 3},
                            .tuning = tiny(),
                            .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 1, 9}},
                            .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                                      {OP_RECEIVE, 2, 1, 8, true},
                                      {OP_RECEIVE, 0, 1, 9, true},
                                      {OP_RECEIVE, 2, 1, 9, true},
                                      {OP_REVOKE, 0},
                                      {OP_REVOKE, 2}},
                            .op[2] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 1, 9}}};
    script.tuning.ring_limit = 1;
    run(&script, 60000, 3000);
}

// Nothing unexpected is kept: the later message is asked for first.
static void test_held_by_queue(void **state)
{
    (void)state;
    struct script script = {
        .name = "held by queue",
        .rank_count = 2,
        .net = {.queue_packets = 3},
        .tuning = tiny(),
        .no_room = true,
        .op[0] = {{OP_SEND, 1, 1, 8, true},
                  {OP_SEND, 1, 2, 9, true},
                  {OP_SEND_SYNCHRONOUS, 1, 2, 10}},
        .op[1] = {{OP_RECEIVE, 0, 2, 9, true}, {OP_RECEIVE, 0, 2, 10}, {OP_RECEIVE, 0, ANY, 8}}};
    script.tuning.promote_after = 200;
    run(&script, 60000, 3000);
}

static void test_held_in_the_ring(void **state)
{
    (void)state;
    struct script script = {.name = "held in the ring",
                            .rank_count = 2,
                            .net = {.queue_packets = 3},
                            .tuning = tiny(),
                            .no_room = true,
                            .op[0] = {{OP_SEND, 1, 1, 8, true},
                                      {OP_SEND, 1, 1, 9, true},
                                      {OP_SEND, 1, 2, 200, true},
                                      {OP_SEND, 1, 3, 11, true}},
                            .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                                      {OP_RECEIVE, 0, 3, 11},
                                      {OP_RECEIVE, 0, 2, 200},
                                      {OP_RECEIVE, 0, ANY, 9}}};
    script.tuning.ring_slots = 2;
    run(&script, 60000, 3000);
    script.name = "held in the ring, mapped";
    script.net.map = true;
    run(&script, 60000, 3000);
}

static void test_held_while_the_ring_is_given_back(void **state)
{
    (void)state;
    struct script script = {
        .name = "held, giving back",
        .rank_count = 2,
        .net = {.queue_packets = 3},
        .tuning = tiny(),
        .no_room = true,
        .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 1, 9, true}, {OP_SEND, 1, 2, 10, true}},
        .op[1] = {{OP_RECEIVE, 0, 1, 8, true},
                  {OP_REVOKE, 0},
                  {OP_RECEIVE, 0, 2, 10},
                  {OP_RECEIVE, 0, ANY, 9}}};
    run(&script, 60000, 3000);
}

// Anybody's message; the other's is taken by a receive that names it.
static void test_held_by_two(void **state)
{
    (void)state;
    struct script script = {
        .name = "held by two",
        .rank_count = 3,
        .net = {.queue_packets = 3},
        .tuning = tiny(),
        .no_room = true,
        .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 2, 8}},
        .op[1] = {{OP_RECEIVE, ANY, 2, 8, true}, {OP_RECEIVE, 2, ANY, 9}, {OP_RECEIVE, 0, ANY, 8}},
        .op[2] = {{OP_SEND, 1, 1, 9, true}}};
    script.tuning.promote_after = 200;
    run(&script, 60000, 3000);
}

static void test_a_search_that_is_cancelled(void **state)
{
    (void)state;
    struct script script = {.name = "cancelled search",
                            .rank_count = 2,
                            .net = {.queue_packets = 3},
                            .tuning = tiny(),
                            .no_room = true,
                            .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 2, 9, true}},
                            .op[1] = {{OP_RECEIVE, 0, 2, 9, true},
                                      {OP_CANCEL, 0, 0},
                                      {OP_RECEIVE, 0, ANY, 9},
                                      {OP_RECEIVE, 0, ANY, 9}}};
    script.tuning.promote_after = 200;
    // The cancelled receive may have taken its message, so one of the others may stay.
    script.may_stay = true;
    run(&script, 60000, 3000);
}

static void test_rendezvous(void **state)
{
    (void)state;
    struct script script = {
        .name = "get",
        .rank_count = 2,
        .net = {.queue_packets = 3, .finish_later = MEMORY_ALL},
        .tuning = tiny(),
        .op[0] = {{OP_SEND, 1, 1, 700, true},
                  {OP_SEND, 1, 1, 2000, true},
                  {OP_SEND_SYNCHRONOUS, 1, 1, 8}},
        .op[1] = {{OP_RECEIVE, 0, 1, 700, true}, {OP_RECEIVE, 0, 1, 1000}, {OP_RECEIVE, 0, 1, 8}}};
    run(&script, 60000, 3000);
    script.name = "pipe";
    script.net.no_expose = MEMORY_ALL;
    script.tuning.pipe_bytes = 1024;
    run(&script, 60000, 3000);
    script.name = "pipe, mapped";
    script.net.map = true;
    run(&script, 60000, 3000);
}

// One handle for what is announced, at each side.
static void test_handles_run_out(void **state)
{
    (void)state;
    struct script script = {
        .name = "handles",
        .rank_count = 2,
        .net = {.queue_packets = 3},
        .tuning = tiny(),
        .op[0] = {{OP_SEND, 1, 1, 700, true}, {OP_SEND, 1, 2, 800, true}, {OP_SEND, 1, 3, 8}},
        .op[1] = {{OP_RECEIVE, 0, 3, 8, true}, {OP_RECEIVE, 0, 2, 800}, {OP_RECEIVE, 0, 1, 700}}};
    script.tuning.handle_limit = 3;
    run(&script, 60000, 3000);
}

static void test_a_probe_finds_what_is_held(void **state)
{
    (void)state;
    struct script script = {.name = "probe",
                            .rank_count = 2,
                            .net = {.queue_packets = 3},
                            .tuning = tiny(),
                            .no_room = true,
                            .op[0] = {{OP_SEND, 1, 1, 8, true}, {OP_SEND, 1, 2, 700, true}},
                            .op[1] = {{OP_PROBE, 0, 2, 700}, {OP_RECEIVE, 0, 1, 8}}};
    script.tuning.promote_after = 200;
    run(&script, 60000, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rings_are_granted),
        cmocka_unit_test(test_rings_both_ways),
        cmocka_unit_test(test_credits_run_out),
        cmocka_unit_test(test_fragments_and_giving_back),
        cmocka_unit_test(test_rings_are_given_back),
        cmocka_unit_test(test_a_ring_goes_from_hand_to_hand),
        cmocka_unit_test(test_held_by_queue),
        cmocka_unit_test(test_held_in_the_ring),
        cmocka_unit_test(test_held_while_the_ring_is_given_back),
        cmocka_unit_test(test_held_by_two),
        cmocka_unit_test(test_a_search_that_is_cancelled),
        cmocka_unit_test(test_rendezvous),
        cmocka_unit_test(test_handles_run_out),
        cmocka_unit_test(test_a_probe_finds_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
