// SPDX-License-Identifier: Apache-2.0
// Probes find what a receive would match and leave it; matched probes take it out, for one receive.
//
// Also for messages that are still with their sender, since the pools of the receiver are full:
// they are found behind ten thousands of others. Bodies run on ranks as threads (ranks_run) and as
// processes. Advantage: tokens fix what has come, so a look has one right answer. Disadvantage:
// a look for what is held back may say "not now" any number of times; the tests repeat it.

#include "multi/msg_flood.h"

static const struct msg_part parts[7];

static const uint64_t sizes[] = {0, 8, 96, 97, 480, 481, 4097, 32768, 32769, 300000};

#define SIZES (int)(sizeof sizes / sizeof *sizes)

static void status_is(struct rank_thread *self, const leat_status *status, int source, int tag,
                      uint64_t bytes)
{
    rank_check(self,
               status->source == source && status->tag == tag && status->bytes == bytes &&
                   !status->error,
               "source %d, tag %d, %llu bytes, error %d instead of %d, %d, %llu", status->source,
               status->tag, (unsigned long long)status->bytes, status->error, source, tag,
               (unsigned long long)bytes);
}

// ---- What is there ----

static void looks(struct rank_thread *self, leat_comm *comm, int tag, uint64_t bytes)
{
    leat_status status;
    msg_gives(self, -ETIMEDOUT, leat_probe(comm, 0, tag + 1000, 0, NULL, NULL));
    msg_gives(self, -ETIMEDOUT, leat_probe(comm, LEAT_ANY_RANK, tag + 1000, 0.002, NULL, NULL));
    msg_says(self, "any rank");
    for (int i = 0; i < 4; i++) {
        memset(&status, MSG_POISON, sizeof status);
        msg_fine(self, leat_probe(comm, i & 1 ? 0 : LEAT_ANY_RANK, i & 2 ? tag : LEAT_ANY_TAG, 0,
                                  &status, NULL));
        status_is(self, &status, 0, tag, bytes);
    }
    msg_fine(self, leat_probe(comm, 0, tag, -1, NULL, NULL));
}

// Rank 0 sends, the last one looks, more than once, and then receives.
static void left_there(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    int last = self->rank_count - 1;
    for (int i = 0; comm && i < 2 * SIZES; i++) {
        struct msg_memory send, receive;
        leat_request request;
        leat_status status;
        uint64_t bytes = sizes[i % SIZES];
        if (!msg_memory_make(self, &send, MSG_PLAIN, bytes) ||
            !msg_memory_make(self, &receive, i % 2 ? MSG_PLAIN : MSG_BACKWARDS, bytes))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&send, (uint64_t)i);
            msg_fine(self, leat_send(comm, send.data, last, i, i % 3 == 0, &request));
            msg_tell(self, comm, last);
        }
        if (self->rank == last) {
            msg_hear(self, comm, 0);
            looks(self, comm, i, bytes);
            msg_fine(self, leat_recv(comm, receive.data, 0, LEAT_ANY_TAG, &status, NULL));
            status_is(self, &status, 0, i, bytes);
            msg_memory_check(self, &receive, (uint64_t)i, bytes);
            msg_gives(self, -ETIMEDOUT, leat_probe(comm, 0, LEAT_ANY_TAG, 0, NULL, NULL));
            msg_tell(self, comm, 0);
        }
        if (self->rank == 0) {
            msg_hear(self, comm, last);
            msg_fine(self, msg_wait_one(&request, -1));
        }
        msg_memory_free(&send);
        msg_memory_free(&receive);
    }
}

static void test_a_probe_leaves_the_message_there(void **state)
{
    (void)state;
    msg_run_both(parts, 1, "left_there");
    msg_run_both(parts, 2, "left_there");
}

static void test_a_probe_leaves_the_message_there_without_rings(void **state)
{
    (void)state;
    setenv("LEAT_MSG_PEERS", "1", 1);
    setenv("LEAT_MSG_EAGER", "100", 1);
    msg_run_both(parts, 3, "left_there");
    unsetenv("LEAT_MSG_EAGER");
    unsetenv("LEAT_MSG_PEERS");
}

// ---- Taken out ----

// All are taken out first, those of a kind in their order; then they are received backwards.
static void taken(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request[2 * SIZES] = {0}, *list[2 * SIZES], other = {0};
    struct msg_memory memory[2 * SIZES];
    leat_status status[2 * SIZES];
    for (int i = 0; comm && i < 2 * SIZES; i++) {
        list[i] = &request[i];
        if (!msg_memory_make(self, &memory[i], i % 3 ? MSG_PLAIN : MSG_PIECES, sizes[i / 2]))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&memory[i], (uint64_t)i);
            msg_fine(self, leat_send(comm, memory[i].data, 1, i / 2, 0, &request[i]));
        }
    }
    if (self->rank == 0) {
        msg_tell(self, comm, 1);
        msg_fine(self, leat_request_wait(list, 2 * SIZES, LEAT_WAIT_ALL, -1, NULL));
    } else {
        msg_hear(self, comm, 0);
        for (int i = 0; i < 2 * SIZES; i++) {
            msg_fine(self, leat_probe(comm, i % 2 ? 0 : LEAT_ANY_RANK, i / 2, 0, &status[i],
                                      &request[i]));
            status_is(self, &status[i], 0, i / 2, sizes[i / 2]);
        }
        msg_gives(self, -ETIMEDOUT, leat_probe(comm, 0, LEAT_ANY_TAG, 0, NULL, &other));
        msg_gives(self, -EINVAL, leat_cancel(&request[0]));
        msg_gives(self, -ETIMEDOUT, leat_request_wait(list, 1, LEAT_WAIT_ALL, 0, NULL));
        msg_says(self, "leat_recv_matched");
        msg_gives(self, -EINVAL, leat_recv_matched(msg_plain(NULL, 5), NULL, &request[1], 1));
        for (int i = 2 * SIZES - 1; i >= 0; i--)
            msg_fine(self, leat_recv_matched(memory[i].data, &status[i], &request[i], i % 4 == 0));
        msg_fine(self, leat_request_wait(list, 2 * SIZES, LEAT_WAIT_ALL, -1, NULL));
        for (int i = 0; i < 2 * SIZES; i++) {
            status_is(self, &status[i], 0, i / 2, sizes[i / 2]);
            msg_memory_check(self, &memory[i], (uint64_t)i, sizes[i / 2]);
        }
        msg_gives(self, -EINVAL, leat_recv_matched(memory[0].data, NULL, &request[0], 1));
    }
    for (int i = 0; i < 2 * SIZES; i++)
        msg_memory_free(&memory[i]);
}

static void test_messages_taken_out_are_received_in_any_order(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "taken");
}

#define STREAM 400

// Messages are taken out or looked at as they come, also with their last fragments on the way.
static void stream(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct ranks_random random = {(uint64_t)self->rank};
    int next[8] = {0}, senders = self->rank_count - 1;
    for (int i = 0; comm && i < (self->rank ? STREAM : STREAM * senders); i++) {
        struct msg_memory memory;
        leat_request request;
        leat_status status = {.source = self->rank};
        int matched = ranks_random_word(&random) % 2;
        msg_delay(&random, comm);
        if (!self->rank && !msg_fine(self, leat_probe(comm, LEAT_ANY_RANK, LEAT_ANY_TAG, -1,
                                                      &status, matched ? &request : NULL)))
            return;
        uint64_t seed = (uint64_t)(status.source * STREAM + next[status.source]++);
        uint64_t bytes = sizes[seed * 7 % (uint64_t)SIZES];
        if (!msg_memory_make(self, &memory, MSG_PLAIN, bytes))
            return;
        if (self->rank) {
            msg_memory_stamp(&memory, seed);
            msg_fine(self, leat_send(comm, memory.data, 0, (int)(seed % 3), 0, NULL));
        } else {
            status_is(self, &status, status.source, (int)(seed % 3), bytes);
            leat_status end;
            if (matched)
                msg_fine(self, leat_recv_matched(memory.data, &end, &request, 1));
            else
                msg_fine(self, leat_recv(comm, memory.data, status.source, status.tag, &end, NULL));
            status_is(self, &end, status.source, status.tag, bytes);
            msg_memory_check(self, &memory, seed, bytes);
        }
        msg_memory_free(&memory);
        if (self->failure_count)
            return;
    }
}

static void test_messages_of_unknown_size_are_received_as_they_come(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "stream");
    msg_run_both(parts, 4, "stream");
}

// A message that was taken out is nobody's: not a posted receive's, nor the close's to wait for.
static void forgotten(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    static leat_request kept[4][SIZES];
    uint8_t byte = 7;
    leat_request request;
    if (!comm)
        return;
    if (self->rank == 0) {
        static uint8_t memory[300000];
        for (int i = 0; i < SIZES; i++)
            msg_fine(self, leat_send(comm, msg_plain(memory, sizes[i]), 1, 1, 0, &kept[0][i]));
        msg_tell(self, comm, 1);
        msg_hear(self, comm, 1);
        return;
    }
    msg_hear(self, comm, 0);
    for (int i = 0; i < SIZES; i++)
        msg_fine(self, leat_probe(comm, 0, 1, 0, NULL, &kept[self->rank][i]));
    msg_fine(self,
             leat_recv(comm, msg_plain(&byte, 1), LEAT_ANY_RANK, LEAT_ANY_TAG, NULL, &request));
    msg_gives(self, -ETIMEDOUT, msg_wait_one(&request, 0.001));
    msg_fine(self, leat_cancel(&request));
    rank_check(self, byte == 7, "the posted receive got something");
    msg_tell(self, comm, 0);
}

static void test_messages_taken_out_and_never_received_end_with_the_job(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "forgotten");
}

// ---- Held back ----

#define HELD_COUNT 12000 /* more than the pools take, and than there are names for */

// Many with tag 1, then each size with a tag of its own.
static void held_send(struct rank_thread *self, leat_comm *comm, uint64_t bytes)
{
    leat_request *request = calloc(HELD_COUNT + SIZES, sizeof *request);
    struct msg_memory memory[SIZES + 1];
    if (!request || !msg_memory_make(self, &memory[SIZES], MSG_PLAIN, bytes))
        return;
    msg_memory_stamp(&memory[SIZES], 99);
    for (int i = 0; i < HELD_COUNT; i++)
        msg_fine(self, leat_send(comm, memory[SIZES].data, 0, 1, 0, &request[i]));
    for (int i = 0; i < SIZES; i++) {
        if (!msg_memory_make(self, &memory[i], i % 2 ? MSG_ROWS : MSG_PLAIN, sizes[i]))
            return;
        msg_memory_stamp(&memory[i], (uint64_t)i);
        msg_fine(self, leat_send(comm, memory[i].data, 0, 2000 + i, i % 3 == 1,
                                 &request[HELD_COUNT + i]));
    }
    for (int i = 0; i < HELD_COUNT + SIZES; i++)
        msg_fine(self, msg_wait_one(&request[i], -1));
    for (int i = 0; i <= SIZES; i++)
        msg_memory_free(&memory[i]);
    free(request);
}

// "Not now" is no answer: the sender has to be asked.
static int look_until(leat_comm *comm, int from, int tag, leat_status *status,
                      leat_request *matched)
{
    int error = -ETIMEDOUT;
    for (uint64_t i = 0; error == -ETIMEDOUT && i < 10000000; i++) {
        error = leat_probe(comm, from, tag, 0, status, matched);
        sched_yield();
    }
    return error;
}

static void held_take(struct rank_thread *self, leat_comm *comm, int i)
{
    struct msg_memory memory;
    leat_status status;
    leat_request request;
    int tag = 2000 + i, from = i % 2 ? 1 : LEAT_ANY_RANK;
    if (!msg_memory_make(self, &memory, i % 2 ? MSG_PLAIN : MSG_PIECES, sizes[i]))
        return;
    for (int look = 0; look < 2; look++) {
        msg_fine(self, look ? look_until(comm, from, tag, &status, NULL)
                            : leat_probe(comm, from, tag, -1, &status, NULL));
        status_is(self, &status, 1, tag, sizes[i]);
    }
    if (i % 4 == 3) {
        msg_fine(self, leat_recv(comm, memory.data, from, tag, &status, NULL));
    } else {
        msg_fine(self, i % 2 ? look_until(comm, from, tag, &status, &request)
                             : leat_probe(comm, from, tag, -1, &status, &request));
        status_is(self, &status, 1, tag, sizes[i]);
        msg_gives(self, -ETIMEDOUT, leat_probe(comm, from, tag, 0.001, NULL, NULL));
        msg_fine(self, leat_recv_matched(memory.data, &status, &request, i % 4 == 0));
        msg_fine(self, msg_wait_one(&request, -1));
    }
    status_is(self, &status, 1, tag, sizes[i]);
    msg_memory_check(self, &memory, (uint64_t)i, sizes[i]);
    msg_memory_free(&memory);
}

static void held(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const char *text = getenv("TEST_BYTES");
    uint64_t bytes = text ? strtoull(text, NULL, 10) : 64;
    struct msg_memory memory;
    leat_status status;
    if (!comm || self->rank > 1)
        return;
    if (self->rank == 1) {
        held_send(self, comm, bytes);
        msg_hear(self, comm, 0);
    } else if (msg_memory_make(self, &memory, MSG_PLAIN, bytes)) {
        msg_fill_pools(self, comm);
        for (int i = SIZES - 1; i >= 0; i--)
            held_take(self, comm, i);
        for (int i = 0; i < HELD_COUNT && !self->failure_count; i++) {
            if (i % 1000 == 0)
                msg_fine(self, leat_probe(comm, 1, LEAT_ANY_TAG, -1, &status, NULL));
            msg_fine(self, leat_recv(comm, memory.data, LEAT_ANY_RANK, 1, &status, NULL));
            status_is(self, &status, 1, 1, bytes);
            msg_memory_check(self, &memory, 99, bytes);
        }
        msg_gives(self, -ETIMEDOUT, leat_probe(comm, 1, LEAT_ANY_TAG, 0.001, NULL, NULL));
        msg_tell(self, comm, 1);
        msg_memory_free(&memory);
    }
    msg_check_budget(self);
}

static void test_messages_that_are_held_back_are_found_and_taken_out(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "2M", 1);
    msg_run_both(parts, 2, "held");
    setenv("TEST_BYTES", "1000", 1); // through the bulk area
    msg_run_both(parts, 2, "held");
    setenv("LEAT_MSG_EAGER", "0", 1); // announced, as long as there are names for them
    msg_run_both(parts, 2, "held");
    unsetenv("TEST_BYTES");
    unsetenv("LEAT_MSG_EAGER");
    unsetenv("LEAT_MSG_BUDGET");
}

// The same by queue: the only ring is rank 0's to itself.
static void held_by_queue(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    if (!comm)
        return;
    if (self->rank == 0) {
        msg_warm(self, comm, 0);
        msg_tell(self, comm, 1);
    } else if (self->rank == 1) {
        msg_hear(self, comm, 0);
    }
    held(self);
}

static void test_messages_that_are_held_back_with_their_sender_are_found(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "2M", 1);
    setenv("LEAT_MSG_PEERS", "1", 1);
    msg_run_both(parts, 2, "held_by_queue");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("LEAT_MSG_BUDGET");
}

static const struct msg_part parts[] = {
    {"left_there", left_there},
    {"taken", taken},
    {"stream", stream},
    {"forgotten", forgotten},
    {"held", held},
    {"held_by_queue", held_by_queue},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_probe_leaves_the_message_there),
        cmocka_unit_test(test_a_probe_leaves_the_message_there_without_rings),
        cmocka_unit_test(test_messages_taken_out_are_received_in_any_order),
        cmocka_unit_test(test_messages_of_unknown_size_are_received_as_they_come),
        cmocka_unit_test(test_messages_taken_out_and_never_received_end_with_the_job),
        cmocka_unit_test(test_messages_that_are_held_back_are_found_and_taken_out),
        cmocka_unit_test(test_messages_that_are_held_back_with_their_sender_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
