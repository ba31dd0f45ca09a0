/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message engine, rank 0, and two bare endpoints beside it that a test plays.
 *
 * Advantage: a test says in a line what a peer says, and hears in a line what it is told.
 * Disadvantage: a peer that would have said something else is not noticed.
 */
#ifndef LEAT_TEST_UNIT_MSG_STAGE_H
#define LEAT_TEST_UNIT_MSG_STAGE_H

#include "msg/internal.h"
#include "support/memory_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS  3
#define LARGE  65536
#define ROUNDS 20

struct stage {
    struct memory_fabric *fabric;
    struct msg_engine *engine;
    leat_comm comm;
    struct msg_net *other[RANKS];
    char *memory[RANKS]; /* of the others, LARGE bytes that can be named */
    struct msg_token token[RANKS];
    leat_request wanted; /* what rank 0 waits for from rank 1 */
    char *room;          /* of exactly that size */
    uint64_t now_ns;
    uint32_t sequence[RANKS];
    int dead; /* 0: nobody */
};

static const struct msg_tuning tuning = {.budget_bytes = 4 << 20,
                                         .ring_slots = 16,
                                         .ring_bulk_bytes = 1024,
                                         .fragment_bytes = 128,
                                         .eager_bytes = 500,
                                         .direct_bytes = 2000,
                                         .share_bytes = 8000,
                                         .chunk_bytes = 4096,
                                         .pipe_bytes = 4096,
                                         .queue_window = 4,
                                         .promote_after = 2,
                                         .ring_limit = 2,
                                         .handle_limit = 8};

static void run(struct stage *stage)
{
    for (int n = 0; n < ROUNDS; n++) {
        stage->now_ns += 100;
        msg_progress(stage->engine, stage->now_ns);
        for (int rank = 1; rank < RANKS; rank++)
            if (rank != stage->dead)
                stage->other[rank]->ops->progress(stage->other[rank], stage->now_ns);
    }
}

static void receive(struct stage *stage, leat_request *request, char *to, uint64_t bytes, int from,
                    int tag)
{
    msg_start_receive(stage->engine, msg_request_of(request), &stage->comm, 0,
                      (leat_data){.address = to, .bytes = bytes}, from, tag);
}

enum reach { REACH_NOTHING, REACH_ALL, REACH_RINGS };

/* What of other ranks' memory is mapped; with nothing, copies take their time. */
static void open_stage(struct stage *stage, enum reach reach)
{
    const struct memory_options net = {.rank_count = RANKS,
                                       .seed = 1,
                                       .queue_packets = 64,
                                       .map = reach != REACH_NOTHING,
                                       .map_exposed = reach == REACH_ALL ? MEMORY_ALL : MEMORY_NONE,
                                       .finish_later = reach ? MEMORY_NONE : MEMORY_ALL,
                                       .delay_ns = reach ? 0 : 1000,
                                       .hostile = true};
    *stage = (struct stage){.fabric = memory_fabric_new(&net)};
    assert_int_equal(msg_engine_open(memory_fabric_open(stage->fabric, 0), &tuning, &stage->engine),
                     0);
    stage->comm = (leat_comm){.engine = stage->engine, .rank_count = RANKS};
    for (int rank = 1; rank < RANKS; rank++) {
        stage->other[rank] = memory_fabric_open(stage->fabric, rank);
        void *memory;
        assert_int_equal(
            stage->other[rank]->ops->alloc(stage->other[rank], LARGE, &memory, &stage->token[rank]),
            0);
        stage->memory[rank] = memory;
    }
    stage->room = malloc(1);
    receive(stage, &stage->wanted, stage->room, 1, 1, 99);
}

static void close_stage(struct stage *stage)
{
    assert_true(stage->engine->pools.peak <= tuning.budget_bytes);
    msg_engine_close(stage->engine);
    for (int rank = 1; rank < RANKS; rank++) {
        stage->other[rank]->ops->free(stage->other[rank], stage->memory[rank], LARGE);
        stage->other[rank]->ops->close(stage->other[rank]);
    }
    assert_null(memory_fabric_check(stage->fabric));
    memory_fabric_free(stage->fabric);
    free(stage->room);
}

static void say(struct stage *stage, int rank, struct msg_header header, const void *payload,
                uint32_t bytes)
{
    struct msg_packet packet = {.header = header};
    packet.header.flag = (uint32_t)rank;
    memcpy(packet.payload, payload, bytes);
    assert_int_equal(stage->other[rank]->ops->queue_send(stage->other[rank], 0, &packet,
                                                         (uint32_t)sizeof header + bytes),
                     0);
    run(stage);
}

static void say_message(struct stage *stage, int rank, int tag)
{
    const uint64_t word = 0x1122334455667788;
    say(stage, rank,
        (struct msg_header){.kind = WIRE_EAGER,
                            .payload = 8,
                            .bytes = 8,
                            .tag = tag,
                            .sequence = stage->sequence[rank]++},
        &word, 8);
}

/* The next packet of a kind that the engine has said to a rank; others are passed over. */
static bool hear(struct stage *stage, int rank, uint8_t kind, struct msg_packet *heard)
{
    struct msg_net *net = stage->other[rank];
    uint32_t bytes;
    const void *packet;
    bool found = false;
    while (!found && (packet = net->ops->queue_peek(net, &bytes)) != NULL) {
        memset(heard, 0, sizeof *heard);
        memcpy(heard, packet, bytes);
        net->ops->queue_release(net);
        found = heard->header.kind == kind;
    }
    return found;
}

/* The receive from rank 1 has ended, and says why; rank 2's messages come as before. */
static void expect_fault(struct stage *stage, const char *name, const char *text)
{
    leat_request *const wanted = &stage->wanted;
    run(stage);
    int error = leat_request_wait(&wanted, 1, LEAT_WAIT_ALL, 0, NULL);
    if (error != -EPROTO || !strstr(leat_error_detail(), text) ||
        !strstr(leat_error_detail(), "rank 1 has sent what cannot be"))
        fail_msg("%s: %d, %s; expected \"%s\"", name, error, leat_error_detail(), text);
    leat_request late, other, *both[] = {&late, &other};
    uint64_t word = 0;
    char one;
    receive(stage, &late, &one, 1, 1, 3);
    assert_int_equal(leat_request_wait(&both[0], 1, LEAT_WAIT_ALL, 0, NULL), -EPROTO);
    receive(stage, &other, (char *)&word, 8, 2, 4);
    say_message(stage, 2, 4);
    assert_int_equal(leat_request_wait(&both[1], 1, LEAT_WAIT_ALL, 0, NULL), 0);
    assert_true(word == 0x1122334455667788);
}

#endif
