// SPDX-License-Identifier: Apache-2.0
// The message engine among many ranks: a thousand that all talk; a hundred thousand, of which one
// hears from all; rings that go from hand to hand; the smallest budget.
//
// Ranks that only say a word and hear one are not engines but a few lines that speak the wire, so
// that a hundred thousand take no time. Advantage: scale that no machine here has. Disadvantage:
// one thread, so no speed is learnt.

#include "support/crowd_traffic.h"
#include "support/crowd_tuning.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void no_failure(struct crowd *crowd)
{
    const char *failure = crowd_failure(crowd);
    if (failure)
        fail_msg("%s", failure);
}

static void end(struct crowd *crowd)
{
    char *misuse = crowd_free(crowd);
    if (misuse)
        fail_msg("at the end: %s", misuse);
}

static void test_a_thousand_ranks(void **state)
{
    (void)state;
    struct traffic traffic = {.name = "a thousand ranks",
                              .net = {.rank_count = 1000,
                                      .queue_packets = 32,
                                      .delay_ns = 1000,
                                      .late_permille = 10,
                                      .refuse_permille = 20,
                                      .no_expose = MEMORY_SOME,
                                      .no_get = MEMORY_SOME,
                                      .no_put = MEMORY_SOME,
                                      .finish_later = MEMORY_SOME},
                              .tuning = crowd_tuning(),
                              .steps = getenv("LEAT_LONG") ? 1000000 : 40000,
                              .partners = 3,
                              .largest = CROWD_LARGEST,
                              .large_permille = 5};
    traffic.tuning.budget_bytes = 0;
    traffic.tuning.ring_limit = 2;
    struct msg_counts counts = {0};
    char failure[512];
    if (!traffic_run(&traffic, 1, &counts, failure))
        fail_msg("%s", failure);
    assert_true(counts.inlined && counts.bulk && counts.queued && counts.direct && counts.piped);
}

// ---- rings from hand to hand ----

static void burst(struct crowd *crowd, int from, int count)
{
    for (int n = 0; n < count; n++) {
        struct crowd_message message = {.tag = n % 3,
                                        .bytes = crowd_random(crowd) % (n % 8 == 0 ? 5000 : 200)};
        crowd_send(crowd, from, 0, message);
        crowd_receive(crowd, 0, from, message);
        crowd->now_ns += 200;
        crowd_progress(crowd, from);
        if (n % 4 == 0)
            crowd_progress(crowd, 0);
    }
    crowd_settle(crowd);
}

static void test_rings_go_from_hand_to_hand(void **state)
{
    (void)state;
    for (int map = 0; map < 2; map++) {
        struct memory_options net = {.rank_count = 21,
                                     .seed = 3,
                                     .queue_packets = 32,
                                     .delay_ns = 400,
                                     .refuse_permille = 50,
                                     .map = map};
        struct msg_tuning tuning = crowd_tuning();
        tuning.ring_limit = 2;
        struct crowd *crowd = crowd_new(&net, &tuning);
        for (int round = 0; round < 60; round++) {
            burst(crowd, 1 + (int)(crowd_random(crowd) % 20), 320);
            burst(crowd, 1 + (int)(crowd_random(crowd) % 20), 40);
            crowd_collect(crowd, 0);
        }
        struct msg_counts counts = {0};
        crowd_add_counts(crowd, &counts);
        const struct msg_engine *hub = crowd_rank(crowd, 0)->engine;
        print_message("promoted %llu, given back %llu\n", (unsigned long long)counts.promoted,
                      (unsigned long long)counts.given_back);
        assert_true(hub->rings_live <= 2);
        assert_true(counts.given_back >= 10 && counts.promoted > counts.given_back);
        crowd_drain(crowd);
        no_failure(crowd);
        assert_int_equal(crowd->judged, crowd->sent);
        end(crowd);
    }
}

// ---- a hundred thousand ranks ----

#define MANY 100000
#define HUB  0
#define CAP  8

// What a rank that is no engine does with a packet: accepts a message.
static void answer(struct msg_net *net, uint64_t *heard)
{
    uint32_t bytes;
    const struct msg_packet *packet;
    while ((packet = net->ops->queue_peek(net, &bytes)) != NULL) {
        struct msg_packet reply;
        reply.header = (struct msg_header){.flag = (uint32_t)net->rank,
                                           .kind = WIRE_ACCEPT,
                                           .sequence = packet->header.sequence + 1};
        bool message = packet->header.kind == WIRE_EAGER;
        int from = (int)packet->header.flag;
        uint64_t word = 0;
        if (message)
            memcpy(&word, packet->payload, sizeof word);
        *heard += message && word == (uint64_t)net->rank;
        net->ops->queue_release(net);
        if (message)
            assert_int_equal(net->ops->queue_send(net, from, &reply, sizeof reply.header), 0);
    }
}

static void speak(struct msg_net *net)
{
    struct msg_packet packet;
    packet.header = (struct msg_header){
        .flag = (uint32_t)net->rank, .kind = WIRE_EAGER, .payload = 8, .tag = 7, .bytes = 8};
    uint64_t word = (uint64_t)net->rank;
    memcpy(packet.payload, &word, sizeof word);
    assert_int_equal(net->ops->queue_send(net, HUB, &packet, sizeof packet.header + 8), 0);
}

// The hub and one more rank exchange a word each.
static void exchange(struct crowd *crowd, int rank, uint64_t *heard)
{
    struct crowd_rank *hub = crowd_rank(crowd, HUB);
    struct msg_net *net = memory_fabric_open(crowd->fabric, rank);
    leat_request send, receive;
    uint64_t out = (uint64_t)rank, in = 0;
    speak(net);
    msg_start_receive(hub->engine, msg_request_of(&receive), &hub->comm[0], 0,
                      (leat_data){.address = &in, .bytes = 8}, rank, 7);
    msg_start_send(hub->engine, msg_request_of(&send), &hub->comm[0], 0,
                   (leat_data){.address = &out, .bytes = 8}, rank, 7, false);
    for (int n = 0; n < 100 && !(msg_finished(msg_request_of(&send)) &&
                                 msg_finished(msg_request_of(&receive)));
         n++) {
        crowd_progress(crowd, HUB);
        net->ops->progress(net, crowd->now_ns += 100);
        answer(net, heard);
    }
    assert_true(msg_finished(msg_request_of(&send)) && msg_finished(msg_request_of(&receive)));
    assert_int_equal(in, rank);
    for (int n = 0; n < 3; n++) { // what else is said to it
        crowd_progress(crowd, HUB);
        net->ops->progress(net, crowd->now_ns += 100);
        answer(net, heard);
    }
    net->ops->close(net);
}

static void talk_by_ring(struct crowd *crowd)
{
    for (int rank = 1; rank <= CAP; rank++)
        for (int n = 0; n < 20; n++) {
            struct crowd_message message = {.tag = 1, .bytes = 100};
            crowd_send(crowd, rank, HUB, message);
            crowd_receive(crowd, HUB, rank, message);
            crowd_send(crowd, HUB, rank, message);
            crowd_receive(crowd, rank, HUB, message);
            crowd_step(crowd);
        }
    crowd_settle(crowd);
}

static uint64_t used_among(int rank_count)
{
    struct memory_options net = {.rank_count = rank_count, .seed = 1, .queue_packets = 64};
    struct msg_tuning tuning = crowd_tuning();
    tuning.budget_bytes = 32u << 20;
    tuning.ring_limit = CAP;
    struct crowd *crowd = crowd_new(&net, &tuning);
    talk_by_ring(crowd);
    uint64_t used = crowd_rank(crowd, HUB)->engine->pools.used;
    crowd_drain(crowd);
    no_failure(crowd);
    end(crowd);
    return used;
}

static void test_an_idle_rank_costs_nothing(void **state)
{
    (void)state;
    assert_int_equal(used_among(CAP + 1), used_among(MANY));
}

static void test_a_further_peer_costs_at_most_64_bytes(void **state)
{
    (void)state;
    struct memory_options net = {.rank_count = MANY, .seed = 1, .queue_packets = 64};
    struct msg_tuning tuning = crowd_tuning();
    tuning.budget_bytes = 16u << 20;
    tuning.ring_limit = CAP;
    struct crowd *crowd = crowd_new(&net, &tuning);
    talk_by_ring(crowd);
    const struct msg_engine *hub = crowd_rank(crowd, HUB)->engine;
    assert_int_equal(hub->rings_live, CAP);
    uint64_t heard = 0, used = hub->pools.used, worst = 0;
    int last = CAP;
    for (int rank = CAP + 1; rank < MANY; rank++) {
        exchange(crowd, rank, &heard);
        // Records come by the page and the index doubles, so per peer over a thousand.
        if (rank % 1000)
            continue;
        uint64_t each = (hub->pools.used - used) / (uint64_t)(rank - CAP);
        worst = each > worst && rank >= 8000 ? each : worst;
        last = rank;
    }
    assert_int_equal(heard, MANY - 1 - CAP);
    print_message("%llu bytes a further peer in use, at the most, from 8000 of them on; %llu at "
                  "%d\n",
                  (unsigned long long)worst,
                  (unsigned long long)((hub->pools.used - used) / (uint64_t)(last - CAP)), last);
    assert_true(worst <= 64);
    assert_true(hub->pools.peak <= tuning.budget_bytes);
    crowd_drain(crowd);
    no_failure(crowd);
    end(crowd);
}

// ---- the smallest budget ----

static void test_the_smallest_budget_works_and_none_below(void **state)
{
    (void)state;
    const int ranks[] = {2, 64, 5000};
    for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; k++) {
        struct memory_options net = {.rank_count = ranks[k], .seed = 2, .queue_packets = 32};
        struct msg_tuning tuning = crowd_tuning();
        uint64_t least = crowd_smallest_budget(&net, &tuning);
        assert_true(least > 0);
        struct memory_fabric *fabric = memory_fabric_new(&net);
        struct msg_engine *engine = NULL;
        tuning.budget_bytes = least - 1;
        assert_int_equal(msg_engine_open(memory_fabric_open(fabric, 0), &tuning, &engine),
                         -ENOBUFS);
        assert_null(engine);
        assert_null(memory_fabric_check(fabric));
        memory_fabric_free(fabric);
        struct traffic traffic = {.name = "smallest budget",
                                  .net = net,
                                  .tuning = tuning,
                                  .steps = 3000,
                                  .partners = 1,
                                  .largest = 70000,
                                  .large_permille = 20};
        traffic.tuning.budget_bytes = least;
        traffic.net.rank_count = ranks[k] > 64 ? 64 : ranks[k];
        struct msg_counts counts = {0};
        char failure[512];
        if (!traffic_run(&traffic, 1, &counts, failure))
            fail_msg("%d ranks: %s", ranks[k], failure);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_ranks),
        cmocka_unit_test(test_rings_go_from_hand_to_hand),
        cmocka_unit_test(test_an_idle_rank_costs_nothing),
        cmocka_unit_test(test_a_further_peer_costs_at_most_64_bytes),
        cmocka_unit_test(test_the_smallest_budget_works_and_none_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
