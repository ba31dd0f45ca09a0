// SPDX-License-Identifier: Apache-2.0
// A message engine among ranks that say what no engine says: packets, slots and shared words that
// would lead outside of memory, or nowhere.
//
// Rank 0 is an engine, ranks 1 and 2 are bare endpoints that this test plays. Each fault has to end
// the receive that waits for its rank with -EPROTO and a text that names the rank and what was
// seen, and rank 2's messages have to go on. Advantage: every check has a line that needs it.
// Disadvantage: only what somebody has thought of; fuzz_msg_packet.c looks for the rest.

#include "unit/msg_stage.h"

// ---- Packets ----

struct hostile {
    const char *name;
    struct msg_header header;
    uint32_t bytes; // that follow the header
    const char *text;
};

static const struct hostile packets[] = {
    {"a payload that is not there",
     {.kind = WIRE_EAGER, .payload = 480, .bytes = 480},
     8,
     "longer than the packet"},
    {"a message of all memory",
     {.kind = WIRE_EAGER, .payload = 8, .bytes = UINT64_MAX},
     8,
     "not the message"},
    {"a message shorter than its payload",
     {.kind = WIRE_EAGER, .payload = 8, .bytes = 3},
     8,
     "not the message"},
    {"an announcement without a token",
     {.kind = WIRE_ANNOUNCE, .payload = 8, .bytes = 999},
     8,
     "no token"},
    {"a grant of nothing", {.kind = WIRE_GRANT}, 0, "no token"},
    {"a grant of made-up memory", {.kind = WIRE_GRANT, .payload = 24}, 24, "names no memory"},
    {"a switch to nothing", {.kind = WIRE_SWITCH, .payload = 23}, 23, "no token"},
    {"half of a clearance", {.kind = WIRE_CLEAR, .payload = 24}, 24, "lacks tokens"},
    {"a credit without a figure", {.kind = WIRE_CREDIT, .payload = 4}, 4, "lacks a figure"},
    {"a gift without a token", {.kind = WIRE_GIVEN, .payload = 8, .handle = 1}, 8, "no token"},
    {"a gift that is cut", {.kind = WIRE_GIVEN, .payload = 8, .bytes = 480}, 8, "not the message"},
    {"a fragment by packet", {.kind = WIRE_MORE, .payload = 8, .bytes = 8}, 8, "of this kind"},
    {"no kind", {.kind = WIRE_NONE}, 0, "of this kind"},
    {"a kind of later builds", {.kind = 255}, 0, "of this kind"},
};

static void test_packets_that_cannot_be(void **state)
{
    (void)state;
    const uint8_t payload[MSG_PACKET_PAYLOAD] = {1, 2, 3};
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++) {
        struct stage stage;
        open_stage(&stage, REACH_ALL);
        say(&stage, 1, packets[i].header, payload, packets[i].bytes);
        expect_fault(&stage, packets[i].name, packets[i].text);
        close_stage(&stage);
    }
}

static void test_packets_of_nobody_are_passed_over(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        struct stage stage;
        open_stage(&stage, REACH_ALL);
        struct msg_header header = {.kind = WIRE_EAGER, .flag = what ? UINT32_MAX : RANKS};
        uint32_t bytes = what ? 3 : (uint32_t)sizeof header;
        stage.other[1]->ops->queue_send(stage.other[1], 0, &header, bytes);
        run(&stage);
        assert_false(msg_finished(msg_request_of(&stage.wanted)));
        assert_non_null(strstr(stage.engine->nonsense, "no rank of the job"));
        say_message(&stage, 1, 99);
        assert_true(msg_finished(msg_request_of(&stage.wanted)));
        close_stage(&stage);
    }
}

// ---- Slots ----

// Rank 1 is given a ring; its memory.
static char *open_ring(struct stage *stage)
{
    struct msg_packet packet;
    leat_request request;
    uint64_t word, bytes;
    for (int n = 0; n < 2; n++) {
        receive(stage, &request, (char *)&word, 8, 1, 0);
        say_message(stage, 1, 0);
        assert_true(msg_finished(msg_request_of(&request)));
    }
    assert_true(hear(stage, 1, WIRE_GRANT, &packet));
    say(stage, 1, (struct msg_header){.kind = WIRE_SWITCH, .payload = 24}, &stage->token[1], 24);
    char *ring = memory_fabric_memory(stage->fabric, 0, 1, &bytes);
    assert_int_equal(bytes, msg_ring_bytes(&tuning));
    return ring;
}

static void write_slot(char *ring, uint32_t number, struct msg_header header, uint64_t word)
{
    struct msg_slot slot = {.header = header};
    slot.header.flag = number + 1;
    memcpy(slot.payload, &word, sizeof word);
    memcpy(ring + (uint64_t)number * MSG_SLOT_BYTES, &slot, sizeof slot);
}

struct hostile_slot {
    const char *name;
    struct msg_header header;
    uint64_t word; // where in the bulk area
    const char *text;
};

static const struct hostile_slot slots[] = {
    {"more than a slot", {.kind = WIRE_EAGER, .payload = 97, .bytes = 97}, 0, "than the slot"},
    {"bulk beyond its end",
     {.kind = WIRE_EAGER, .flags = WIRE_BULK, .payload = 100, .bytes = 100},
     1000,
     "beyond the bulk area"},
    {"more than the bulk area",
     {.kind = WIRE_EAGER, .flags = WIRE_BULK, .payload = 65535, .bytes = 65535},
     0,
     "beyond the bulk area"},
    {"a token at the end of the bulk area",
     {.kind = WIRE_ANNOUNCE, .flags = WIRE_BULK, .payload = 4, .bytes = 100},
     1020,
     "no token"},
    {"a short token", {.kind = WIRE_ANNOUNCE, .payload = 4, .bytes = 100}, 0, "no token"},
    {"a message shorter than its payload",
     {.kind = WIRE_EAGER, .payload = 8, .bytes = 1},
     0,
     "longer than the message"},
    {"a message of all memory",
     {.kind = WIRE_EAGER, .payload = 8, .bytes = UINT64_MAX},
     0,
     "longer than a ring"},
    {"a first fragment of nothing", {.kind = WIRE_EAGER, .bytes = 100}, 0, "longer than a ring"},
    {"a fragment of nothing", {.kind = WIRE_MORE}, 0, "no bytes"},
    {"a kind of packets", {.kind = WIRE_GRANT}, 0, "of this kind"},
    {"a kind of later builds", {.kind = 200}, 0, "of this kind"},
};

static void test_slots_that_cannot_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        struct stage stage;
        open_stage(&stage, REACH_ALL);
        write_slot(open_ring(&stage), 0, slots[i].header, slots[i].word);
        expect_fault(&stage, slots[i].name, slots[i].text);
        close_stage(&stage);
    }
}

static const struct msg_header first_half = {
    .kind = WIRE_EAGER, .payload = 60, .bytes = 100, .tag = 1};
static const struct msg_header second_half = {.kind = WIRE_MORE, .payload = 40};
static const struct msg_header small = {.kind = WIRE_EAGER, .payload = 8, .bytes = 8, .tag = 5};

// A message that is received, or not yet, when its sender breaks off.
static void test_a_message_that_breaks_off(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct stage stage;
        open_stage(&stage, REACH_ALL);
        char *ring = open_ring(&stage), data[100];
        leat_request request, *const wanted = &request;
        if (what % 2)
            receive(&stage, &request, data, sizeof data, 1, 1);
        write_slot(ring, 0, first_half, 0);
        write_slot(ring, 1, what / 2 ? (struct msg_header){.kind = WIRE_END} : small, 0);
        run(&stage);
        if (what % 2 == 0)
            receive(&stage, &request, data, sizeof data, 1, 1);
        assert_int_equal(leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
        expect_fault(&stage, "broken off", "is not finished");
        close_stage(&stage);
    }
}

// The same behind a message that is held back, where it is looked for out of turn.
static void test_a_held_message_that_breaks_off(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, REACH_ALL);
    char *ring = open_ring(&stage), data[100];
    struct msg_pool *pool = stage.engine->pools.pool;
    pool[POOL_HEADERS].limit = pool[POOL_HEADERS].used;
    pool[POOL_BYTES].limit = pool[POOL_BYTES].used;
    // It would be looked for first.
    assert_int_equal(leat_cancel(&stage.wanted), 0);
    leat_request request, *const wanted = &request;
    uint32_t number = 0;
    while (!stage.engine->holding && number < 10) {
        write_slot(ring, number++, small, 0);
        run(&stage);
    }
    assert_true(stage.engine->holding);
    write_slot(ring, number, first_half, 0);
    write_slot(ring, number + 1, small, 0);
    write_slot(ring, number + 2, second_half, 0);
    receive(&stage, &request, data, sizeof data, 1, 1);
    run(&stage);
    assert_int_equal(leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
    assert_non_null(strstr(leat_error_detail(), "is not finished"));
    close_stage(&stage);
}

// ---- Rings and rendezvous that rank 0 sends by ----

static void send_large(struct stage *stage, leat_request *request, const char *data, uint64_t bytes)
{
    msg_start_send(stage->engine, msg_request_of(request), &stage->comm, 0,
                   (leat_data){.address = (char *)(uintptr_t)data, .bytes = bytes}, 1, 0, false);
    run(stage);
}

static void test_credit_for_what_was_not_written(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, REACH_ALL);
    say(&stage, 1, (struct msg_header){.kind = WIRE_GRANT, .payload = 24}, &stage.token[1], 24);
    struct msg_packet packet;
    assert_true(hear(&stage, 1, WIRE_SWITCH, &packet));
    uint64_t bulk = 0;
    say(&stage, 1, (struct msg_header){.kind = WIRE_CREDIT, .payload = 8, .bytes = 1}, &bulk, 8);
    expect_fault(&stage, "credit", "more than was written");
    close_stage(&stage);
}

static void test_clearances_that_cannot_be(void **state)
{
    (void)state;
    static const struct hostile clears[] = {
        {"more than the message", {.bytes = 16385, .sequence = 1}, 0, "more than the message"},
        {"a line that is not there", {.bytes = 16384, .sequence = 1, .tag = 16}, 0, "no line"},
        {"a line before the first", {.bytes = 16384, .sequence = 1, .tag = -1}, 0, "no line"},
        {"a line of no generation", {.bytes = 16384}, 0, "no line"},
        {"lines of nobody", {.bytes = 16384, .sequence = 1}, 1, "names no memory"},
        {"a pipe of nobody", {.bytes = 16384, .flags = WIRE_PIPE}, 1, "names no memory"},
        {"a pipe for what no GPU has",
         {.bytes = 16384, .flags = WIRE_PIPE | WIRE_FAR, .context = 4096},
         1,
         "for a GPU's pieces"},
    };
    for (size_t i = 0; i < sizeof clears / sizeof *clears; i++) {
        struct stage stage;
        open_stage(&stage, REACH_ALL);
        char *data = malloc(16384);
        leat_request request, *const sent = &request;
        send_large(&stage, &request, data, 16384);
        struct msg_packet packet;
        assert_true(hear(&stage, 1, WIRE_ANNOUNCE, &packet));
        say(&stage, 1,
            (struct msg_header){.kind = WIRE_ACCEPT, .sequence = packet.header.sequence + 1}, "",
            0);
        struct msg_header header = clears[i].header;
        header.kind = WIRE_CLEAR;
        header.handle = packet.header.handle;
        header.payload = 48;
        struct msg_token tokens[2] = {stage.token[1], stage.token[1]};
        if (clears[i].bytes)
            memset(tokens, 7, sizeof tokens);
        say(&stage, 1, header, tokens, sizeof tokens);
        assert_int_equal(leat_request_wait(&sent, 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
        expect_fault(&stage, clears[i].name, clears[i].text);
        close_stage(&stage);
        free(data);
    }
}

// The word from which chunks are claimed says again and again that none has been.
static void test_chunks_that_are_claimed_again(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, REACH_ALL);
    uint64_t bytes, *line = memory_fabric_memory(stage.fabric, 0, 0, &bytes);
    char *data = malloc(16384);
    leat_request request, *const wanted = &request;
    receive(&stage, &request, data, 16384, 1, 0);
    say(&stage, 1,
        (struct msg_header){.kind = WIRE_ANNOUNCE,
                            .payload = 24,
                            .bytes = 16384,
                            .handle = 1,
                            .sequence = stage.sequence[1]++},
        &stage.token[1], 24);
    // It may have been copied by now; then once more, with a hand on the word in between.
    assert_true(msg_finished(msg_request_of(&request)));
    receive(&stage, &request, data, 16384, 1, 0);
    struct msg_packet packet = {.header = {.flag = 1,
                                           .kind = WIRE_ANNOUNCE,
                                           .payload = 24,
                                           .bytes = 16384,
                                           .handle = 1,
                                           .sequence = stage.sequence[1]++}};
    memcpy(packet.payload, &stage.token[1], 24);
    stage.other[1]->ops->queue_send(stage.other[1], 0, &packet, sizeof packet.header + 24);
    for (int n = 0; n < 50 && !msg_finished(msg_request_of(&request)); n++) {
        stage.now_ns += 100;
        msg_progress(stage.engine, stage.now_ns);
        line[0] &= ~(uint64_t)UINT32_MAX;
        line[1] = 0;
    }
    assert_int_equal(leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
    expect_fault(&stage, "claims", "claimed again");
    close_stage(&stage);
    free(data);
}

// Rank 0 helps, and the word says again and again that nothing was claimed: it writes each chunk
// once, and no further.
static void test_help_that_never_ends(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, REACH_ALL);
    char *data = calloc(1, 16384);
    leat_request request;
    send_large(&stage, &request, data, 16384);
    struct msg_packet packet;
    assert_true(hear(&stage, 1, WIRE_ANNOUNCE, &packet));
    uint32_t handle = packet.header.handle;
    say(&stage, 1, (struct msg_header){.kind = WIRE_ACCEPT, .sequence = packet.header.sequence + 1},
        "", 0);
    uint64_t *line = (uint64_t *)(void *)stage.memory[1];
    struct msg_token tokens[2] = {stage.token[1], stage.token[1]};
    line[0] = UINT64_C(1) << 32;
    packet = (struct msg_packet){.header = {.flag = 1,
                                            .kind = WIRE_CLEAR,
                                            .payload = 48,
                                            .handle = handle,
                                            .bytes = 16384,
                                            .sequence = 1}};
    memcpy(packet.payload, tokens, sizeof tokens);
    stage.other[1]->ops->queue_send(stage.other[1], 0, &packet, sizeof packet.header + 48);
    for (int n = 0; n < 50; n++) {
        stage.now_ns += 100;
        msg_progress(stage.engine, stage.now_ns);
        line[0] = UINT64_C(1) << 32;
    }
    assert_false(msg_finished(msg_request_of(&request)));
    say(&stage, 1, (struct msg_header){.kind = WIRE_FINISH, .handle = handle}, "", 0);
    assert_true(msg_finished(msg_request_of(&request)));
    assert_int_equal(request.status.error, 0);
    close_stage(&stage);
    free(data);
}

// A copy is under way when its sender says what cannot be: the receive's memory is written to until
// the copy is over, so the receive lasts as long.
static void test_a_copy_outlasts_its_sender(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, REACH_NOTHING);
    char *data = malloc(LARGE);
    leat_request request, *const wanted = &request;
    receive(&stage, &request, data, LARGE, 1, 0);
    struct msg_packet packets_of_it[2] = {{.header = {.flag = 1,
                                                      .kind = WIRE_ANNOUNCE,
                                                      .payload = 24,
                                                      .bytes = LARGE,
                                                      .handle = 1,
                                                      .sequence = 0}},
                                          {.header = {.flag = 1, .kind = 255}}};
    memcpy(packets_of_it[0].payload, &stage.token[1], 24);
    struct msg_net *net = stage.other[1];
    net->ops->queue_send(net, 0, &packets_of_it[0], sizeof packets_of_it[0].header + 24);
    for (int n = 0; n < 3 && !msg_rendezvous_busy(msg_request_of(&request)); n++)
        msg_progress(stage.engine, stage.now_ns += 100);
    net->ops->queue_send(net, 0, &packets_of_it[1], sizeof packets_of_it[1].header);
    bool seen = false;
    while (!msg_finished(msg_request_of(&request)) && stage.now_ns < 100000) {
        seen |= msg_rank_is_lost(stage.engine, 1);
        msg_progress(stage.engine, stage.now_ns += 10);
    }
    assert_true(seen);
    assert_int_equal(leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
    free(data); // who still writes to it is seen by the sanitizer
    expect_fault(&stage, "copy", "of this kind");
    close_stage(&stage);
}

// Not a peer but the caller breaks a promise; it must not keep us for ever.
static uint64_t no_piece(void *user, void *address, uint64_t offset, void **at)
{
    (void)user;
    (void)offset;
    *at = address;
    return 0;
}

static void test_a_layout_that_gives_no_bytes(void **state)
{
    (void)state;
    for (enum reach reach = REACH_NOTHING; reach <= REACH_RINGS; reach += 2) {
        struct stage stage;
        open_stage(&stage, reach);
        char byte;
        const leat_layout layout = {.size = sizeof layout, .piece = no_piece};
        leat_request request, *const wanted = &request;
        msg_start_receive(stage.engine, msg_request_of(&request), &stage.comm, 0,
                          (leat_data){.address = &byte, .bytes = LARGE, .layout = &layout}, 1, 0);
        struct msg_net *net = stage.other[1];
        struct msg_token token;
        assert_int_equal(net->ops->expose(net, 0, stage.memory[1], LARGE, &token), 0);
        say(&stage, 1,
            (struct msg_header){
                .kind = WIRE_ANNOUNCE, .payload = 24, .bytes = LARGE, .handle = 1, .sequence = 0},
            &token, 24);
        for (int n = 0; n < 10; n++)
            run(&stage);
        assert_int_equal(leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL), -EINVAL);
        assert_non_null(strstr(leat_error_detail(), "piece function"));
        net->ops->hide(net, &token);
        close_stage(&stage);
    }
}

// ---- Peers that are gone in the middle of a search ----

static void hold_back(struct stage *stage, int rank)
{
    say(stage, rank, (struct msg_header){.kind = WIRE_HOLDING, .tag = 1}, "", 0);
}

static void test_a_search_survives_whom_it_asked(void **state)
{
    (void)state;
    struct stage stage;
    struct msg_packet packet;
    open_stage(&stage, REACH_ALL);
    hold_back(&stage, 1);
    assert_true(hear(&stage, 1, WIRE_FIND, &packet)); // for `wanted`; it is never answered
    memory_fabric_kill(stage.fabric, 1);
    stage.dead = 1;
    msg_check_peers(stage.engine);
    assert_int_equal(msg_request_of(&stage.wanted)->status.error, -ECONNRESET);
    leat_request request;
    char one;
    receive(&stage, &request, &one, 1, 2, 7);
    hold_back(&stage, 2);
    assert_true(hear(&stage, 2, WIRE_FIND, &packet));
    assert_int_equal(packet.header.tag, 7);
    // Nor does a receive from the dead wait because somebody else holds back.
    receive(&stage, &request, &one, 1, 1, 7);
    run(&stage);
    assert_true(msg_finished(msg_request_of(&request)));
    assert_int_equal(request.status.error, -ECONNRESET);
    close_stage(&stage);
}

static void test_a_search_ends_at_more_than_a_ring_holds(void **state)
{
    (void)state;
    struct stage stage;
    struct msg_packet packet;
    open_stage(&stage, REACH_ALL);
    open_ring(&stage);
    hold_back(&stage, 1);
    assert_true(hear(&stage, 1, WIRE_FIND, &packet));
    say(&stage, 1, (struct msg_header){.kind = WIRE_BEHIND, .bytes = UINT64_MAX / 2}, "", 0);
    expect_fault(&stage, "behind", "than the ring holds");
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets_that_cannot_be),
        cmocka_unit_test(test_packets_of_nobody_are_passed_over),
        cmocka_unit_test(test_slots_that_cannot_be),
        cmocka_unit_test(test_a_message_that_breaks_off),
        cmocka_unit_test(test_a_held_message_that_breaks_off),
        cmocka_unit_test(test_credit_for_what_was_not_written),
        cmocka_unit_test(test_clearances_that_cannot_be),
        cmocka_unit_test(test_chunks_that_are_claimed_again),
        cmocka_unit_test(test_help_that_never_ends),
        cmocka_unit_test(test_a_copy_outlasts_its_sender),
        cmocka_unit_test(test_a_layout_that_gives_no_bytes),
        cmocka_unit_test(test_a_search_survives_whom_it_asked),
        cmocka_unit_test(test_a_search_ends_at_more_than_a_ring_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
