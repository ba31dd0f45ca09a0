// SPDX-License-Identifier: Apache-2.0
// The message network of one host between ranks that are threads.

#define _GNU_SOURCE
#include "multi/msg_net_parts.h"

// ---- queue ----

static void test_everybody_to_everybody_keeps_each_senders_order(void **state)
{
    (void)state;
    ranks_run(2, part_storm, NULL);
    ranks_run(8, part_storm, NULL);
}

static void body_full(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 4 * sizeof(struct shm_cell));
    uint64_t next[2] = {0};
    for (uint64_t lap = 0; net && lap < 3; lap++) {
        uint64_t first = lap * 5;
        for (uint64_t i = 0; i < 4; i++)
            rank_check(self, send_packet(net, 0, first + i) == 0, "packet %llu of lap %llu",
                       (unsigned long long)i, (unsigned long long)lap);
        rank_check(self, send_packet(net, 0, first + 4) == -EAGAIN, "a fifth packet found room");
        rank_check(self, take_packet(self, net, next), "nothing came");
        rank_check(self, send_packet(net, 0, first + 4) == 0, "one was taken out: there is room");
        rank_check(self, send_packet(net, 0, first + 5) == -EAGAIN, "a sixth packet found room");
        for (int i = 0; i < 4; i++)
            rank_check(self, take_packet(self, net, next), "packet %d is missing", i);
        rank_check(self, !take_packet(self, net, next), "a packet too many");
    }
    if (net)
        net->ops->close(net);
}

static void test_a_full_queue_refuses_until_one_is_taken_out(void **state)
{
    (void)state;
    ranks_run(1, body_full, NULL);
}

static void body_sizes(struct rank_thread *self)
{
    struct msg_net *net = NULL;
    uint64_t least = leat_shm_msg_least_bytes();
    rank_check(self, leat_shm_msg_open(self->job, least - 1, &net) == -EINVAL, "too small");
    rank_check(self, strstr(leat_error_detail(), "at least") != NULL, "%s", leat_error_detail());
    net = open_net(self, 15 * least);
    for (uint64_t i = 0; net && i < 9; i++)
        rank_check(self, send_packet(net, 0, i) == (i < 8 ? 0 : -EAGAIN), "15 cells become 8");
    rank_check(self, net && net->queue_bytes >= 8 * least, "less than it takes");
    struct msg_net *second = NULL;
    rank_check(self, leat_shm_msg_open(self->job, least, &second) == -EALREADY, "open already");
    uint8_t large[MSG_PACKET_BYTES + 1] = {0};
    if (!net)
        return;
    rank_check(self, net->ops->queue_send(net, 0, large, sizeof large) == -EMSGSIZE, "too large");
    net->ops->close(net);
}

static void test_sizes_are_rounded_down_and_checked(void **state)
{
    (void)state;
    ranks_run(1, body_sizes, NULL);
}

// Rank 0 opens late and closes early; rank 1 sees both, and the queue of a second opening is empty.
static void body_life(struct rank_thread *self)
{
    struct msg_net *net = NULL;
    uint32_t bytes;
    if (self->rank == 1) {
        net = open_net(self, 1 << 14);
        rank_check(self, net && send_packet(net, 0, 0) == -EAGAIN, "rank 0 is not open yet");
    }
    leat_barrier(self->job);
    if (self->rank == 0)
        net = open_net(self, 1 << 14);
    leat_barrier(self->job);
    if (self->rank == 1 && net)
        rank_check(self, send_packet(net, 0, 0) == 0, "rank 0 is open");
    leat_barrier(self->job);
    if (self->rank == 0 && net)
        net->ops->close(net);
    leat_barrier(self->job);
    if (self->rank == 1 && net)
        rank_check(self, send_packet(net, 0, 1) == -ECONNRESET, "rank 0 has closed");
    leat_barrier(self->job);
    if (self->rank == 0 && (net = open_net(self, 1 << 14)))
        rank_check(self, !net->ops->queue_peek(net, &bytes), "a packet of the earlier opening");
    leat_barrier(self->job);
    if (self->rank == 1 && net)
        rank_check(self, send_packet(net, 0, 0) == 0, "rank 0 is open again");
    leat_barrier(self->job);
    uint64_t next[2] = {0};
    if (self->rank == 0 && net)
        rank_check(self, take_packet(self, net, next), "the packet to the second opening");
    if (net)
        net->ops->close(net);
}

static void test_a_queue_refuses_before_and_after_its_rank_is_open(void **state)
{
    (void)state;
    ranks_run(2, body_life, NULL);
}

static void body_left(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    leat_barrier(self->job);
    if (self->rank == 0) {
        if (net)
            net->ops->close(net);
        leat_close(self->job, "it had enough");
        self->job = NULL;
        return;
    }
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    int error = 0;
    while (net && !(error = net->ops->alive(net, 0)) && leat_now_ns() < limit)
        sched_yield();
    rank_check(self, error == -ECONNRESET, "alive: %d", error);
    rank_check(self, strstr(leat_error_detail(), "it had enough") != NULL, "%s",
               leat_error_detail());
    if (!net)
        return;
    rank_check(self, send_packet(net, 0, 0) == -ECONNRESET, "rank 0 has left");
    net->ops->close(net);
}

static void test_a_rank_that_left_is_not_alive(void **state)
{
    (void)state;
    ranks_run(2, body_left, NULL);
}

// A claim without a publication, as a killed sender leaves one; thread ranks cannot be killed, so
// rank 1 leaves the job instead.
static void body_stuck(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 4 * sizeof(struct shm_cell));
    struct endpoint *zero = &leat_arena_head(self->job, 0)->endpoint;
    uint64_t ticket, next[3] = {0};
    leat_barrier(self->job);
    if (!net)
        return;
    if (self->rank == 1) {
        struct shm_queue queue = {
            .cells = (struct shm_cell *)(void *)((char *)leat_arena_head(self->job, 0) +
                                                 zero->queue_offset),
            .tail = &zero->queue_tail,
            .count_bits = 2};
        rank_check(self, shm_queue_claim(&queue, 1, &ticket) != NULL, "no cell");
        leat_barrier(self->job);
        leat_barrier(self->job);
        net->ops->close(net);
        leat_close(self->job, NULL);
        self->job = NULL;
        return;
    }
    leat_barrier(self->job);
    if (self->rank == 2)
        for (uint64_t i = 0; i < 3; i++)
            rank_check(self, send_packet(net, 0, i) == 0, "packet %llu", (unsigned long long)i);
    if (self->rank == 0) {
        uint32_t bytes;
        for (uint64_t now = 1; now < UINT64_C(1000000000); now += 10000000)
            net->ops->progress(net, now);
        rank_check(self, !net->ops->queue_peek(net, &bytes), "rank 1 may still publish");
    }
    leat_barrier(self->job);
    uint64_t limit = leat_now_ns() + GIVE_UP_NS;
    while (self->rank == 0 && next[2] < 3 && leat_now_ns() < limit)
        if (!take_packet(self, net, next))
            net->ops->progress(net, leat_now_ns());
    rank_check(self, self->rank != 0 || next[2] == 3, "%llu packets got past the dead one's",
               (unsigned long long)next[2]);
    net->ops->close(net);
}

static void test_a_cell_of_a_lost_sender_is_passed_over(void **state)
{
    (void)state;
    ranks_run(3, body_stuck, NULL);
}

// ---- memory ----

static void body_alloc(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    if (!net)
        return;
    const uint64_t sizes[] = {1, 64, 4096, 100000};
    for (int lap = 0; lap < 2; lap++)
        for (size_t i = 0; i < 4; i++) {
            void *address = NULL;
            struct msg_token token;
            int error = net->ops->alloc(net, sizes[i], &address, &token);
            if (!rank_check(self, error == 0, "alloc: %d", error))
                continue;
            rank_check(self, (uintptr_t)address % 64 == 0, "%p is not aligned", address);
            for (uint64_t at = 0; at < sizes[i]; at++)
                if (!rank_check(self, ((uint8_t *)address)[at] == 0, "byte %llu is not zero",
                                (unsigned long long)at))
                    break;
            rank_check(self, net->ops->map(net, 0, &token, sizes[i]) == address,
                       "mapped elsewhere");
            memset(address, 0xa5, sizes[i]);
            net->ops->free(net, address, sizes[i]);
        }
    void *address;
    struct msg_token token;
    rank_check(self, net->ops->alloc(net, UINT64_C(1) << 40, &address, &token) == -ENOMEM,
               "a terabyte");
    net->ops->close(net);
}

static void test_allocated_memory_is_zeroed_aligned_and_counted_back(void **state)
{
    (void)state;
    ranks_run(1, body_alloc, NULL);
}

static void body_forged(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    void *address = NULL;
    struct msg_token good;
    if (!net || net->ops->alloc(net, 4096, &address, &good)) {
        rank_check(self, false, "no memory");
        return;
    }
    rank_check(self, net->ops->map(net, 0, &good, 4096) == address, "the good one is mapped");
    rank_check(self, !net->ops->map(net, 0, &good, 4097), "more than the token names");
    const uint64_t arena = self->job->segment->head->arena_bytes;
    const struct msg_token forged[] = {
        {{good.word[0] + 1, good.word[1], 64}},                 // no such rank
        {{good.word[0] | UINT32_MAX, good.word[1], 64}},        // nor this
        {{good.word[0], 0, 64}},                                // the arena's head
        {{good.word[0], arena, 64}},                            // behind it
        {{good.word[0], arena - 32, 64}},                       // across its end
        {{good.word[0], UINT64_MAX - 16, 64}},                  // wraps
        {{good.word[0], good.word[1], UINT64_MAX}},             // wraps
        {{good.word[0] ^ UINT64_C(1) << 40, good.word[1], 64}}, // no such kind
        {{0, 0, 0}},
    };
    uint8_t byte = 7;
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        rank_check(self, !net->ops->map(net, 0, &forged[i], 64), "forged token %zu is mapped", i);
        int error = net->ops->bulk_get(net, 0, &forged[i], 0, &byte, 1, NULL);
        rank_check(self, error == -EPROTO && byte == 7, "forged token %zu: %d", i, error);
        error = net->ops->bulk_put(net, 0, &forged[i], 0, &byte, 1, NULL);
        rank_check(self, error == -EPROTO, "forged token %zu: %d", i, error);
    }
    rank_check(self, net->ops->bulk_get(net, 0, &good, 4096, &byte, 1, NULL) == -EPROTO, "beyond");
    rank_check(self, net->ops->bulk_get(net, 0, &good, UINT64_MAX, &byte, 2, NULL) == -EPROTO,
               "wraps");
    net->ops->close(net);
}

static void test_tokens_that_were_not_given_out_are_refused(void **state)
{
    (void)state;
    ranks_run(1, body_forged, NULL);
}

// Every rank exposes an ordinary array and reads and writes its neighbour's, mapped and by bulk.
static void body_expose(struct rank_thread *self)
{
    enum { BYTES = 10000 };
    struct msg_net *net = open_net(self, 1 << 14);
    uint8_t *mine = malloc(BYTES), *copy = malloc(BYTES);
    struct msg_token token, theirs;
    uint32_t bytes;
    int next = (self->rank + 1) % self->rank_count;
    int before = (self->rank + self->rank_count - 1) % self->rank_count;
    if (net && mine && copy && !net->ops->expose(net, before, mine, BYTES, &token)) {
        for (uint64_t i = 0; i < BYTES; i++)
            mine[i] = stamp((uint64_t)self->rank, 1, i);
        send_patiently(self, net, before, &token, sizeof token);
        const void *packet = peek_patiently(self, net, &bytes);
        if (packet)
            memcpy(&theirs, packet, sizeof theirs);
        net->ops->queue_release(net);
        const uint8_t *there = net->ops->map(net, next, &theirs, BYTES);
        rank_check(self, there != NULL, "memory of a thread is not mapped");
        memset(copy, 0x5a, BYTES);
        rank_check(self, net->ops->bulk_get(net, next, &theirs, 100, copy + 3, 9000, NULL) == 0,
                   "%s", leat_error_detail());
        for (uint64_t i = 0; there && i < BYTES; i++) {
            uint8_t want = i < 3 || i >= 9003 ? 0x5a : stamp((uint64_t)next, 1, i + 97);
            if (!rank_check(self, copy[i] == want && there[i] == stamp((uint64_t)next, 1, i),
                            "byte %llu", (unsigned long long)i))
                break;
        }
        leat_barrier(self->job);
        for (uint64_t i = 0; i < BYTES; i++)
            copy[i] = stamp((uint64_t)self->rank, 2, i);
        rank_check(self, net->ops->bulk_put(net, next, &theirs, 500, copy, 9000, NULL) == 0, "%s",
                   leat_error_detail());
        leat_barrier(self->job);
        for (uint64_t i = 0; i < BYTES; i++) {
            uint8_t want = i < 500 || i >= 9500 ? stamp((uint64_t)self->rank, 1, i)
                                                : stamp((uint64_t)before, 2, i - 500);
            if (!rank_check(self, mine[i] == want, "byte %llu", (unsigned long long)i))
                break;
        }
        net->ops->hide(net, &token);
    } else {
        rank_check(self, false, "cannot expose: %s", leat_error_detail());
    }
    leat_barrier(self->job);
    free(mine);
    free(copy);
    if (net)
        net->ops->close(net);
}

static void test_exposed_memory_of_threads_is_mapped_and_copied(void **state)
{
    (void)state;
    ranks_run(3, body_expose, NULL);
}

// Puts of two pieces: whoever sees the flag sees everything else.
static void body_put(struct rank_thread *self)
{
    enum { ROUNDS = 2000, WORDS = 40 };
    struct msg_net *net = open_net(self, 1 << 14);
    struct msg_token token, theirs;
    void *address = NULL;
    uint32_t bytes;
    int peer = 1 - self->rank;
    if (!net || net->ops->alloc(net, 8 * 2 * WORDS, &address, &token)) {
        rank_check(self, false, "no memory");
        return;
    }
    send_patiently(self, net, peer, &token, sizeof token);
    const void *packet = peek_patiently(self, net, &bytes);
    if (!packet)
        return;
    memcpy(&theirs, packet, sizeof theirs);
    net->ops->queue_release(net);
    uint64_t *mine = address, values[WORDS];
    for (uint64_t round = 1; round <= ROUNDS && !self->failure_count; round++) {
        if ((uint64_t)self->rank == round % 2) {
            for (int i = 0; i < WORDS; i++)
                values[i] = round;
            const struct msg_piece pieces[2] = {{values, 8 * WORDS, sizeof values},
                                                {values, 0, sizeof values}};
            int error = net->ops->put(net, peer, &theirs, pieces, 2);
            rank_check(self, error == 0, "put: %d", error);
            continue;
        }
        uint64_t limit = leat_now_ns() + GIVE_UP_NS;
        while (__atomic_load_n(mine, __ATOMIC_ACQUIRE) != round && leat_now_ns() < limit)
            sched_yield();
        for (int i = 1; i < 2 * WORDS; i++)
            if (!rank_check(self, mine[i] == round, "word %d of round %llu is %llu", i,
                            (unsigned long long)round, (unsigned long long)mine[i]))
                break;
    }
    leat_barrier(self->job);
    net->ops->close(net);
}

static void test_a_puts_flag_comes_last(void **state)
{
    (void)state;
    ranks_run(2, body_put, NULL);
}

// ---- sleep ----

static void test_no_wake_up_is_lost(void **state)
{
    (void)state;
    ranks_run(2, part_wake, NULL);
}

static void body_limit(struct rank_thread *self)
{
    struct msg_net *net = open_net(self, 1 << 14);
    if (!net)
        return;
    net->ops->sleep_prepare(net);
    const uint32_t *asleep = net->asleep(net, 0);
    rank_check(self, !asleep || *asleep == 1, "it is about to sleep");
    net->ops->sleep_cancel(net);
    rank_check(self, !asleep || *asleep == 0, "it is not any more");
    // A nap may come first, after which the sleeper looks again, still announced.
    uint64_t begin = leat_now_ns(), slept_ns = 0;
    int sleeps = 0;
    for (; slept_ns < 4900000 && sleeps < 3; sleeps++) {
        net->ops->sleep_prepare(net);
        rank_check(self, !asleep || *asleep == 1, "it is about to sleep");
        net->ops->sleep(net, 5000000 - slept_ns);
        slept_ns = leat_now_ns() - begin;
    }
    rank_check(self, slept_ns >= 4900000 && slept_ns < LONG_SLEEP_NS / 2 && sleeps <= 2,
               "slept %llu ns in %d sleeps", (unsigned long long)slept_ns, sleeps);
    rank_check(self, !asleep || *asleep == 0, "it has woken up");
    net->ops->sleep_prepare(net);
    net->ops->wake(net, 0);
    net->ops->sleep(net, LONG_SLEEP_NS);
    rank_check(self, leat_now_ns() - begin < LONG_SLEEP_NS / 2, "woken before it slept");
    net->ops->close(net);
}

static void test_a_sleep_ends_at_its_limit_and_by_a_wake_before_it(void **state)
{
    (void)state;
    ranks_run(1, body_limit, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_to_everybody_keeps_each_senders_order),
        cmocka_unit_test(test_a_full_queue_refuses_until_one_is_taken_out),
        cmocka_unit_test(test_sizes_are_rounded_down_and_checked),
        cmocka_unit_test(test_a_queue_refuses_before_and_after_its_rank_is_open),
        cmocka_unit_test(test_a_rank_that_left_is_not_alive),
        cmocka_unit_test(test_a_cell_of_a_lost_sender_is_passed_over),
        cmocka_unit_test(test_allocated_memory_is_zeroed_aligned_and_counted_back),
        cmocka_unit_test(test_tokens_that_were_not_given_out_are_refused),
        cmocka_unit_test(test_exposed_memory_of_threads_is_mapped_and_copied),
        cmocka_unit_test(test_a_puts_flag_comes_last),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_a_sleep_ends_at_its_limit_and_by_a_wake_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
