// SPDX-License-Identifier: Apache-2.0
// Waiting, cancelling and the requests themselves: what is finished, what is not, and what is said.
//
// Tokens fix which messages have come, so every answer is known beforehand; deadlines are passed by
// requests that nobody answers. Bodies run on ranks as threads (ranks_run) and as processes.
// Advantage: no answer depends on speed. Disadvantage: that a wait ends soon after its deadline is
// not measured.

#include "multi/msg_ranks.h"

#include "core/signal.h"

static const struct msg_part parts[11];

static leat_request *const no_list[1] = {NULL};

static bool none_is(struct rank_thread *self, leat_request *const *list, size_t count)
{
    size_t index = 77;
    return msg_fine(self, leat_request_wait(list, count, LEAT_WAIT_ALL, -1, &index)) &&
           rank_check(self, index == 77, "all set an index") &&
           msg_fine(self, leat_request_wait(list, count, LEAT_WAIT_ANY, -1, &index)) &&
           rank_check(self, index == count, "index %zu of none", index);
}

// ---- Deadlines ----

static void expect_time_out(struct rank_thread *self, leat_request *request, double timeout_s)
{
    leat_request *const list[2] = {NULL, request};
    size_t index = 77;
    uint64_t begin = leat_now_ns();
    msg_gives(self, -ETIMEDOUT, leat_request_wait(list, 2, LEAT_WAIT_ALL, timeout_s, &index));
    msg_gives(self, -ETIMEDOUT, leat_request_wait(list, 2, LEAT_WAIT_ANY, timeout_s, &index));
    double seconds = (double)(leat_now_ns() - begin) * 1e-9;
    rank_check(self, seconds >= 2 * timeout_s, "%g s instead of twice %g", seconds, timeout_s);
    rank_check(self, index == 77, "a time-out set the index");
    msg_says(self, "not finished");
    msg_says(self, self->rank ? "the send of 100000 bytes to rank 0, tag 5"
                              : "the receive of up to 100000 bytes from rank 1, tag 5");
}

// Both sides' requests stay under way after any number of time-outs.
static void deadlines(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct msg_memory memory;
    leat_request request;
    int peer = 1 - self->rank;
    if (!comm || !msg_memory_make(self, &memory, MSG_PLAIN, 100000))
        return;
    for (int turn = 0; turn < 2; turn++) { // who of the two begins
        if (self->rank)
            msg_memory_stamp(&memory, 3);
        if (self->rank != turn)
            msg_hear(self, comm, peer);
        if (self->rank)
            msg_fine(self, leat_send(comm, memory.data, peer, 5, 0, &request));
        else
            msg_fine(self, leat_recv(comm, memory.data, peer, 5, NULL, &request));
        if (self->rank == turn) {
            expect_time_out(self, &request, 0);
            expect_time_out(self, &request, 0.003);
            expect_time_out(self, &request, 1e-9);
            msg_tell(self, comm, peer);
        }
        msg_fine(self, msg_wait_one(&request, turn ? INFINITY : 1e6));
        if (!self->rank)
            msg_memory_check(self, &memory, 3, 100000);
    }
    msg_memory_free(&memory);
}

static void test_a_deadline_leaves_requests_under_way(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "deadlines");
}

#define LONG_BYTES (UINT64_C(256) << 20)

// While a large message moves, a look is a look, and another request's deadline is kept.
static void moving(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint8_t *memory = calloc(1, LONG_BYTES);
    leat_request large, never;
    leat_data data = msg_plain(memory, LONG_BYTES);
    if (!comm || !rank_check(self, memory != NULL, "no memory"))
        return;
    if (self->rank == 0) {
        msg_fine(self, leat_send(comm, data, 1, 1, 0, NULL));
    } else {
        msg_fine(self, leat_probe(comm, 0, 1, -1, NULL, NULL));
        msg_fine(self, leat_recv(comm, data, 0, 1, NULL, &large));
        msg_gives(self, -ETIMEDOUT, msg_wait_one(&large, 0));
        msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), 0, 2, NULL, &never));
        msg_gives(self, -ETIMEDOUT, msg_wait_one(&never, 0.001));
        msg_gives(self, -ETIMEDOUT, msg_wait_one(&large, 0));
        msg_gives(self, -ETIMEDOUT, leat_probe(comm, 0, 3, 0, NULL, NULL));
        msg_gives(self, -ETIMEDOUT, msg_wait_one(&large, 0));
        msg_fine(self, leat_cancel(&never));
        msg_fine(self, msg_wait_one(&large, -1));
    }
    free(memory);
}

static void test_deadlines_are_kept_while_other_bytes_move(void **state)
{
    (void)state;
    setenv("LEAT_MSG_SHARE", "1G", 1); // the receiver alone moves them
    msg_run_both(parts, 2, "moving");
    unsetenv("LEAT_MSG_SHARE");
}

// ---- Any and all ----

static void sets(struct rank_thread *self)
{
    static const int order[] = {2, 0, 3, 1};
    leat_comm *comm = msg_world(self);
    leat_request request[4] = {0}, zero = {0};
    leat_request *const list[6] = {&request[0], NULL, &request[1], &zero, &request[2], &request[3]};
    static const size_t place[] = {0, 2, 4, 5};
    int value[4] = {-1, -1, -1, -1};
    none_is(self, list, 6);
    none_is(self, no_list, 1);
    none_is(self, NULL, 0);
    for (int i = 0; comm && i < 4 && self->rank; i++)
        msg_fine(self,
                 leat_recv(comm, msg_plain(&value[i], sizeof *value), 0, i, NULL, &request[i]));
    for (int i = 0; comm && i < 4; i++) {
        size_t index = 77;
        if (self->rank == 0) {
            msg_fine(self, leat_send(comm, msg_plain(&i, sizeof i), 1, order[i], 0, NULL));
            msg_hear(self, comm, 1);
            continue;
        }
        msg_fine(self, leat_request_wait(list, 6, LEAT_WAIT_ANY, -1, &index));
        rank_check(self, index == place[order[i]] && value[order[i]] == i,
                   "request %zu has %d instead of request %zu %d", index, value[order[i]],
                   place[order[i]], i);
        // It is none now, so the next look finds nothing.
        msg_gives(self, i < 3 ? -ETIMEDOUT : 0,
                  leat_request_wait(list, 6, LEAT_WAIT_ANY, 0, &index));
        msg_tell(self, comm, 0);
    }
    none_is(self, list, 6);
}

static void test_any_gives_each_request_once_and_passes_over_none(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "sets");
}

#define MANY 500

// Sends, receives and a collective, by all or by any, some a second time.
static void many(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    static const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    leat_request *request = calloc(2 * MANY + 1, sizeof *request);
    leat_request **list = calloc(2 * MANY + 1, sizeof(leat_request *));
    int value[2 * MANY], to = (self->rank + 1) % self->rank_count;
    for (int round = 0; comm && round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            value[i] = self->rank * 10000 + i + round;
            msg_fine(self, leat_send(comm, msg_plain(&value[i], sizeof *value), to, i, 0,
                                     list[2 * i] = &request[2 * i]));
            msg_fine(self,
                     leat_recv(comm, msg_plain(&value[MANY + i], sizeof *value), LEAT_ANY_RANK,
                               MANY - 1 - i, NULL, list[2 * i + 1] = &request[2 * i + 1]));
        }
        msg_fine(self, leat_collective(comm, &barrier, list[2 * MANY] = &request[2 * MANY]));
        size_t found = 0, index = 0;
        while (round && found <= 2 * MANY && index <= 2 * MANY) {
            msg_fine(self, leat_request_wait(list, 2 * MANY + 1, LEAT_WAIT_ANY, -1, &index));
            found += index <= 2 * MANY;
        }
        if (!round)
            msg_fine(self, leat_request_wait(list, 2 * MANY + 1, LEAT_WAIT_ALL, -1, NULL));
        rank_check(self, !round || found == 2 * MANY + 1, "%zu were found", found);
        int from = (self->rank + self->rank_count - 1) % self->rank_count;
        for (int i = 0; i < MANY; i++)
            rank_check(self, value[MANY + i] == from * 10000 + MANY - 1 - i + round,
                       "%d instead of %d", value[MANY + i], from * 10000 + MANY - 1 - i + round);
        none_is(self, list, 2 * MANY + 1);
    }
    free(request);
    free(list);
}

static void test_many_requests_of_all_kinds_and_their_reuse(void **state)
{
    (void)state;
    msg_run_both(parts, 1, "many");
    msg_run_both(parts, 3, "many");
}

// The first error in order, once all are finished; each has its own.
static void errors_of_all(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request[4];
    leat_request *const list[4] = {&request[0], &request[1], &request[2], &request[3]};
    uint8_t byte[4];
    leat_status status = {.error = 5};
    if (!comm)
        return;
    if (self->rank == 0) {
        msg_hear(self, comm, 1);
        for (int i = 0; i < 4; i++)
            msg_fine(self, leat_send(comm, msg_plain("hello", i == 2 ? 5 : 1), 1, i, 0, NULL));
        return;
    }
    for (int i = 0; i < 4; i++)
        msg_fine(self, leat_recv(comm, msg_plain(&byte[i], 1), 0, i, i == 2 ? &status : NULL,
                                 &request[i]));
    msg_fine(self, leat_cancel(&request[3]));
    rank_check(self, status.error == 5, "a status was written early");
    msg_tell(self, comm, 0);
    msg_gives(self, -EMSGSIZE, leat_request_wait(list, 4, LEAT_WAIT_ALL, -1, NULL));
    static const int expected[] = {0, 0, -EMSGSIZE, -ECANCELED};
    for (int i = 0; i < 4; i++)
        rank_check(self, request[i].status.error == expected[i], "request %d: %d", i,
                   request[i].status.error);
    rank_check(self, status.error == -EMSGSIZE && status.tag == 2 && status.bytes == 1,
               "error %d, tag %d", status.error, status.tag);
    none_is(self, list, 4);
    msg_fine(self, leat_recv(comm, msg_plain(&byte[3], 1), 0, 3, NULL, NULL));
}

static void test_all_gives_the_first_error_and_each_status_its_own(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "errors_of_all");
}

static void wrong_waits(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request;
    leat_request *const list[1] = {&request};
    size_t index = 77;
    if (!comm || !msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), 0, 1, NULL, &request)))
        return;
    msg_gives(self, -EINVAL, leat_request_wait(NULL, 1, LEAT_WAIT_ALL, -1, &index));
    msg_says(self, "requests");
    msg_gives(self, -EINVAL, leat_request_wait(list, 1, LEAT_WAIT_ANY, NAN, &index));
    msg_says(self, "not a number");
    msg_gives(self, -EINVAL, leat_request_wait(list, 1, (enum leat_wait_mode)7, 0, &index));
    msg_says(self, "7");
    msg_gives(self, -EINVAL, leat_probe(comm, 0, 1, NAN, NULL, NULL));
    msg_says(self, "not a number");
    rank_check(self, index == 77, "a refused wait set the index");
    msg_fine(self, leat_send(comm, msg_plain(NULL, 0), 0, 1, 0, NULL));
    msg_fine(self, msg_wait_one(&request, -1));
}

static void test_wrong_waits_are_refused_and_change_nothing(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "wrong_waits");
}

// ---- Cancel ----

static void cancel(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint8_t byte[3] = {1, 2, 3}, *large = calloc(1, 100000);
    leat_request request[3], zero = {0};
    if (!comm || !large)
        return;
    for (int i = 0; i < 3; i++)
        msg_fine(self, leat_recv(comm, msg_plain(&byte[i], 1), 0, 1, NULL, &request[i]));
    msg_fine(self, leat_cancel(&request[1]));
    msg_gives(self, -EALREADY, leat_cancel(&request[1]));
    msg_gives(self, -ECANCELED, msg_wait_one(&request[1], 0));
    msg_says(self, "cancelled");
    msg_fine(self, msg_wait_one(&request[1], 0)); // none any more
    msg_gives(self, -EINVAL, leat_cancel(&request[1]));
    msg_gives(self, -EINVAL, leat_cancel(&zero));
    msg_says(self, "receive");
    msg_gives(self, -EINVAL, leat_cancel(NULL));
    msg_says(self, "request");
    // The others are matched in their order.
    for (int i = 0; i < 2; i++)
        msg_fine(self, leat_send(comm, msg_plain(i ? "c" : "a", 1), 0, 1, 0, NULL));
    msg_fine(self, leat_send(comm, msg_plain(NULL, 0), 0, 3, 0, NULL));
    msg_fine(self, msg_wait_one(&request[0], -1));
    msg_fine(self, leat_probe(comm, 0, 3, -1, NULL, NULL)); // sent after them: they have come
    msg_gives(self, -EALREADY, leat_cancel(&request[2]));
    msg_fine(self, msg_wait_one(&request[2], 0));
    rank_check(self, byte[0] == 'a' && byte[1] == 2 && byte[2] == 'c', "%d %d %d", byte[0], byte[1],
               byte[2]);
    // Matched, and its bytes not here yet; a send.
    msg_fine(self, leat_send(comm, msg_plain(large, 100000), 0, 2, 0, &request[0]));
    msg_gives(self, -EINVAL, leat_cancel(&request[0]));
    msg_fine(self, leat_probe(comm, 0, 2, -1, NULL, NULL));
    msg_fine(self, leat_recv(comm, msg_plain(large, 100000), 0, 2, NULL, &request[1]));
    msg_gives(self, -EALREADY, leat_cancel(&request[1]));
    msg_fine(self, msg_wait_one(&request[1], -1));
    msg_fine(self, msg_wait_one(&request[0], -1));
    free(large);
}

static void test_only_receives_that_are_not_matched_are_cancelled(void **state)
{
    (void)state;
    msg_run_both(parts, 1, "cancel");
}

#define RACES 3000

// Receives are taken back while messages come: none is lost, none comes twice.
static void cancel_race(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct ranks_random random = {(uint64_t)self->rank + 4};
    for (int next = 0; comm && next < RACES && !self->failure_count;) {
        if (self->rank == 0) {
            msg_fine(self, leat_send(comm, msg_plain(&next, sizeof next), 1, next % 2, 0, NULL));
            next++;
            msg_delay(&random, comm);
            continue;
        }
        int value = -1, wild = ranks_random_word(&random) % 2;
        leat_request request;
        msg_fine(self, leat_recv(comm, msg_plain(&value, sizeof value), wild ? LEAT_ANY_RANK : 0,
                                 wild ? LEAT_ANY_TAG : next % 2, NULL, &request));
        msg_delay(&random, comm);
        int error = leat_cancel(&request);
        if (!error) {
            msg_gives(self, -ECANCELED, msg_wait_one(&request, -1));
            rank_check(self, value == -1, "a receive that was taken back has %d", value);
            continue;
        }
        rank_check(self, error == -EALREADY, "%d: %s", error, leat_error_detail());
        msg_fine(self, msg_wait_one(&request, -1));
        rank_check(self, value == next, "%d instead of %d", value, next);
        next++;
    }
}

static void test_cancelling_loses_no_message(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "cancel_race");
}

// ---- Wrong calls ----

// A layout that is wrong in one way, and what is said of it.
struct wrong_layout {
    leat_layout layout;
    const char *words;
};

#define LAYOUT_SIZE sizeof(leat_layout)

static uint64_t no_piece(void *user, void *address, uint64_t place, void **at)
{
    (void)user;
    (void)place;
    *at = address;
    return 1;
}

static void wrong_layouts(struct rank_thread *self, leat_comm *comm)
{
    static uint8_t memory[64];
    const struct wrong_layout list[] = {
        {{.size = 0, .block_bytes = 16}, "layout->size"},
        {{.size = LAYOUT_SIZE, .block_bytes = 16, .dim_count = 5}, "5 dimensions"},
        {{.size = LAYOUT_SIZE, .block_bytes = 16, .dim_count = -1}, "-1 dimensions"},
        {{.size = LAYOUT_SIZE, .block_bytes = 4, .dim_count = 1, .dim = {{3, 8}}}, "12 bytes"},
        {{.size = LAYOUT_SIZE, .block_bytes = UINT64_MAX, .dim_count = 1, .dim = {{3, 8}}}, "64"},
        {{.size = LAYOUT_SIZE, .block_bytes = 4, .dim_count = 1, .dim = {{4, INT64_MAX}}},
         "beyond the address space"},
        {{.size = LAYOUT_SIZE, .block_bytes = 4, .piece = no_piece}, "piece"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        leat_data data = {memory, 16, &list[i].layout};
        leat_request request = {.opaque = {7}};
        msg_gives(self, -EINVAL, leat_send(comm, data, 0, 1, 0, &request));
        msg_says(self, list[i].words);
        msg_says(self, "leat_send");
        msg_gives(self, -EINVAL, leat_recv(comm, data, 0, 1, NULL, &request));
        msg_says(self, list[i].words);
        msg_says(self, "leat_recv");
        rank_check(self, request.opaque[0] == 7, "a refused call wrote its request");
    }
}

static void wrong_calls(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_data none = {NULL, 0, NULL}, lost = {NULL, 16, NULL};
    leat_request matched = {0};
    if (!comm)
        return;
#define REFUSED(call, words) (void)(msg_gives(self, -EINVAL, call) && msg_says(self, words))
    REFUSED(leat_send(NULL, none, 0, 1, 0, NULL), "comm");
    REFUSED(leat_send(comm, none, 1, 1, 0, NULL), "rank 1 of a communicator of 1");
    REFUSED(leat_send(comm, none, LEAT_ANY_RANK, 1, 0, NULL), "rank -1");
    REFUSED(leat_send(comm, none, 0, LEAT_ANY_TAG, 0, NULL), "tag -1");
    REFUSED(leat_send(comm, none, 0, 1, 4, NULL), "0x4");
    REFUSED(leat_send(comm, lost, 0, 1, 0, NULL), "16");
    REFUSED(leat_send(comm, msg_plain(&none, UINT64_MAX), 0, 1, 0, NULL), "the address space");
    REFUSED(leat_recv(NULL, none, 0, 1, NULL, NULL), "comm");
    REFUSED(leat_recv(comm, none, 1, 1, NULL, NULL), "rank 1 of a communicator of 1");
    REFUSED(leat_recv(comm, none, -2, 1, NULL, NULL), "rank -2");
    REFUSED(leat_recv(comm, none, 0, -2, NULL, NULL), "tag -2");
    REFUSED(leat_recv(comm, lost, 0, 1, NULL, NULL), "16");
    REFUSED(leat_recv(comm, msg_plain(&none, UINT64_MAX), 0, 1, NULL, NULL), "the address space");
    REFUSED(leat_probe(NULL, 0, 1, 0, NULL, NULL), "comm");
    REFUSED(leat_probe(comm, 1, 1, 0, NULL, NULL), "rank 1 of a communicator of 1");
    REFUSED(leat_probe(comm, 0, -2, 0, NULL, NULL), "tag -2");
    REFUSED(leat_recv_matched(none, NULL, NULL, 1), "matched");
    REFUSED(leat_recv_matched(none, NULL, &matched, 1), "leat_probe");
#undef REFUSED
    wrong_layouts(self, comm);
    msg_gives(self, -ETIMEDOUT, leat_probe(comm, LEAT_ANY_RANK, LEAT_ANY_TAG, 0, NULL, NULL));
}

static void test_wrong_calls_are_refused_by_name(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "wrong_calls");
}

// Layouts of nothing, the largest tag, a receive whose layout has room for more.
static void odd_calls(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const leat_layout empty = {
        .size = LAYOUT_SIZE, .block_bytes = 8, .dim_count = 2, .dim = {{0, 8}, {1u << 31, 1}}};
    const leat_layout wide = {
        .size = LAYOUT_SIZE, .block_bytes = 1, .dim_count = 1, .dim = {{8, 2}}};
    uint8_t memory[16] = {0};
    leat_status status;
    if (!comm)
        return;
    msg_fine(self, leat_send(comm, (leat_data){NULL, 0, &empty}, 0, INT32_MAX, 0, NULL));
    msg_fine(self, leat_recv(comm, (leat_data){NULL, 0, &empty}, 0, LEAT_ANY_TAG, &status, NULL));
    rank_check(self, status.tag == INT32_MAX && !status.bytes, "tag %d", status.tag);
    msg_fine(self, leat_send(comm, msg_plain("abc", 3), 0, 0, 0, NULL));
    msg_fine(self, leat_recv(comm, (leat_data){memory, 5, &wide}, 0, 0, &status, NULL));
    rank_check(self, status.bytes == 3 && !memcmp(memory, "a\0b\0c\0\0", 7), "%llu bytes",
               (unsigned long long)status.bytes);
}

static void test_odd_calls_that_are_right(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "odd_calls");
}

static const struct msg_part parts[] = {{"deadlines", deadlines},
                                        {"moving", moving},
                                        {"sets", sets},
                                        {"many", many},
                                        {"errors_of_all", errors_of_all},
                                        {"wrong_waits", wrong_waits},
                                        {"cancel", cancel},
                                        {"cancel_race", cancel_race},
                                        {"wrong_calls", wrong_calls},
                                        {"odd_calls", odd_calls},
                                        {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deadline_leaves_requests_under_way),
        cmocka_unit_test(test_deadlines_are_kept_while_other_bytes_move),
        cmocka_unit_test(test_any_gives_each_request_once_and_passes_over_none),
        cmocka_unit_test(test_many_requests_of_all_kinds_and_their_reuse),
        cmocka_unit_test(test_all_gives_the_first_error_and_each_status_its_own),
        cmocka_unit_test(test_wrong_waits_are_refused_and_change_nothing),
        cmocka_unit_test(test_only_receives_that_are_not_matched_are_cancelled),
        cmocka_unit_test(test_cancelling_loses_no_message),
        cmocka_unit_test(test_wrong_calls_are_refused_by_name),
        cmocka_unit_test(test_odd_calls_that_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
