// SPDX-License-Identifier: Apache-2.0
// The network in memory that the message engine is tested on: what it delivers, in which order, and
// what it notices.

#include "support/memory_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct pair {
    struct memory_fabric *fabric;
    struct msg_net *net[3];
};

static struct pair open_pair(const struct memory_options *options)
{
    struct memory_options three = *options;
    three.rank_count = 3;
    three.queue_packets = options->queue_packets ? options->queue_packets : 16;
    struct pair pair = {.fabric = memory_fabric_new(&three)};
    for (int rank = 0; rank < 3; rank++)
        pair.net[rank] = memory_fabric_open(pair.fabric, rank);
    return pair;
}

static void close_pair(struct pair *pair)
{
    for (int rank = 0; rank < 3; rank++)
        pair->net[rank]->ops->close(pair->net[rank]);
    memory_fabric_free(pair->fabric);
}

static bool take(struct msg_net *net, uint64_t *word)
{
    uint32_t bytes;
    const void *packet = net->ops->queue_peek(net, &bytes);
    if (!packet)
        return false;
    assert_int_equal(bytes, sizeof *word);
    memcpy(word, packet, sizeof *word);
    net->ops->queue_release(net);
    return true;
}

static void test_packets_of_a_sender_keep_their_order(void **state)
{
    (void)state;
    struct pair pair =
        open_pair(&(struct memory_options){.seed = 3, .delay_ns = 1000, .late_permille = 100});
    uint64_t sent[2] = {0, 0}, seen[2] = {0, 0}, word, crossed = 0, last = 0;
    for (uint64_t now = 0; seen[0] + seen[1] < 4000; now += 50) {
        for (int from = 0; from < 2; from++) {
            word = (uint64_t)from << 32 | sent[from];
            if (sent[from] < 2000 &&
                !pair.net[from]->ops->queue_send(pair.net[from], 2, &word, sizeof word))
                sent[from]++;
        }
        pair.net[2]->ops->progress(pair.net[2], now);
        while (take(pair.net[2], &word)) {
            assert_int_equal((uint32_t)word, seen[word >> 32]++);
            crossed += last != word >> 32;
            last = word >> 32;
        }
        assert_true(now < 100000000);
    }
    assert_true(crossed > 100); // the two senders' packets lie between one another
    assert_null(memory_fabric_misuse(pair.fabric));
    close_pair(&pair);
}

static void test_queue_is_bounded(void **state)
{
    (void)state;
    struct pair pair = open_pair(&(struct memory_options){.queue_packets = 4});
    uint64_t word = 5;
    for (int n = 0; n < 4; n++)
        assert_int_equal(pair.net[0]->ops->queue_send(pair.net[0], 1, &word, sizeof word), 0);
    assert_int_equal(pair.net[2]->ops->queue_send(pair.net[2], 1, &word, sizeof word), -EAGAIN);
    pair.net[1]->ops->progress(pair.net[1], 0);
    assert_true(take(pair.net[1], &word));
    assert_int_equal(pair.net[2]->ops->queue_send(pair.net[2], 1, &word, sizeof word), 0);
    close_pair(&pair);
}

static void test_put_comes_whole_and_may_overtake(void **state)
{
    (void)state;
    struct pair pair = open_pair(&(struct memory_options){.manual = true});
    uint64_t *memory, first = 1, second = 2, flag = 3;
    struct msg_token token;
    assert_int_equal(pair.net[1]->ops->alloc(pair.net[1], 64, (void **)&memory, &token), 0);
    assert_int_equal(memory[0] | memory[7], 0);
    struct msg_piece pieces[2] = {{&first, 16, 8}, {&flag, 0, 8}};
    assert_int_equal(pair.net[0]->ops->put(pair.net[0], 1, &token, pieces, 2), 0);
    pieces[0] = (struct msg_piece){&second, 16, 8};
    assert_int_equal(pair.net[0]->ops->put(pair.net[0], 1, &token, pieces, 1), 0);
    first = second = flag = 77; // copied
    assert_int_equal(memory_fabric_choices(pair.fabric), 2);
    memory_fabric_deliver(pair.fabric, 1);
    assert_int_equal(memory[2], 2);
    assert_int_equal(memory[0], 0);
    memory_fabric_deliver(pair.fabric, 0);
    assert_int_equal(memory[2], 1);
    assert_int_equal(memory[0], 3);
    pair.net[1]->ops->free(pair.net[1], memory, 64);
    assert_null(memory_fabric_misuse(pair.fabric));
    close_pair(&pair);
}

static void test_bulk_copies_happen_when_they_finish(void **state)
{
    (void)state;
    struct pair pair =
        open_pair(&(struct memory_options){.manual = true, .finish_later = MEMORY_ALL});
    char there[40], here[40];
    memset(there, 'a', sizeof there);
    struct msg_token token;
    struct msg_transfer transfer = {.finished = 9};
    assert_int_equal(pair.net[1]->ops->expose(pair.net[1], 0, there, sizeof there, &token), 0);
    assert_int_equal(pair.net[0]->ops->bulk_get(pair.net[0], 1, &token, 8, here, 32, &transfer), 1);
    assert_int_equal(transfer.finished, 0);
    memset(there, 'b', sizeof there);
    memory_fabric_deliver(pair.fabric, 0);
    assert_int_equal(transfer.finished, 1);
    assert_int_equal(here[31], 'b');
    assert_int_equal(pair.net[0]->ops->bulk_put(pair.net[0], 1, &token, 0, here, 8, &transfer), 1);
    memset(here, 'c', sizeof here);
    memory_fabric_deliver(pair.fabric, 0);
    assert_int_equal(there[7], 'c');
    assert_int_equal(there[8], 'b');
    pair.net[1]->ops->hide(pair.net[1], &token);
    assert_null(memory_fabric_misuse(pair.fabric));
    close_pair(&pair);
}

enum wrong {
    PUT_BEYOND,
    PUT_TO_FREED,
    FREE_UNDER_WAY,
    HIDE_UNDER_WAY,
    MADE_UP,
    FOR_ANOTHER,
    LARGE_PACKET,
    RELEASE_UNSEEN,
    NOT_GIVEN_BACK,
    WRONG_COUNT
};

static void do_wrong(struct pair *pair, enum wrong wrong)
{
    struct msg_net *a = pair->net[0], *b = pair->net[1];
    void *memory;
    char bytes[1024] = {0};
    struct msg_token token, shown;
    struct msg_transfer transfer;
    struct msg_piece piece = {bytes, wrong == PUT_BEYOND ? 57 : 56, 8};
    b->ops->alloc(b, 64, &memory, &token);
    b->ops->expose(b, 0, bytes, sizeof bytes, &shown);
    if (wrong == MADE_UP)
        token.word[1]++;
    if (wrong == PUT_TO_FREED)
        b->ops->free(b, memory, 64);
    if (wrong <= FREE_UNDER_WAY || wrong == MADE_UP)
        a->ops->put(a, 1, &token, &piece, 1);
    if (wrong == FREE_UNDER_WAY || wrong == WRONG_COUNT)
        b->ops->free(b, memory, wrong == WRONG_COUNT ? 63 : 64);
    if (wrong == HIDE_UNDER_WAY) {
        char to[8];
        a->ops->bulk_get(a, 1, &shown, 0, to, 8, &transfer);
        b->ops->hide(b, &shown);
        memory_fabric_deliver(pair->fabric, 0);
    }
    if (wrong == FOR_ANOTHER)
        pair->net[2]->ops->bulk_get(pair->net[2], 1, &shown, 0, bytes, 8, &transfer);
    if (wrong == LARGE_PACKET)
        a->ops->queue_send(a, 1, bytes, MSG_PACKET_BYTES + 1);
    if (wrong == RELEASE_UNSEEN)
        b->ops->queue_release(b);
    if (wrong == NOT_GIVEN_BACK)
        b->ops->close(b);
}

static void test_misuse_is_noticed(void **state)
{
    (void)state;
    static const char *const text[] = {
        [PUT_BEYOND] = "beyond the memory",
        [PUT_TO_FREED] = "freed or hidden",
        [FREE_UNDER_WAY] = "frees 64 bytes with 1 operations under way",
        [HIDE_UNDER_WAY] = "hides 1024 bytes with 1 operations under way",
        [MADE_UP] = "made by nobody",
        [FOR_ANOTHER] = "for others",
        [LARGE_PACKET] = "a packet of 513 bytes",
        [RELEASE_UNSEEN] = "has not looked at",
        [NOT_GIVEN_BACK] = "2 pieces of memory not given back",
        [WRONG_COUNT] = "frees 63 bytes that were 64",
    };
    for (enum wrong wrong = PUT_BEYOND; wrong <= WRONG_COUNT; wrong++) {
        struct pair pair =
            open_pair(&(struct memory_options){.manual = true, .finish_later = MEMORY_ALL});
        assert_null(memory_fabric_misuse(pair.fabric));
        do_wrong(&pair, wrong);
        const char *misuse = memory_fabric_misuse(pair.fabric);
        if (!misuse || !strstr(misuse, text[wrong]))
            fail_msg("wanted \"%s\", got \"%s\"", text[wrong], misuse ? misuse : "nothing");
        close_pair(&pair);
    }
}

static void test_stores_to_freed_memory_are_noticed(void **state)
{
    (void)state;
    struct pair pair = open_pair(&(struct memory_options){.map = true});
    void *memory;
    struct msg_token token;
    pair.net[1]->ops->alloc(pair.net[1], 64, &memory, &token);
    char *mapped = pair.net[0]->ops->map(pair.net[0], 1, &token, 64);
    assert_ptr_equal(mapped, memory);
    pair.net[1]->ops->free(pair.net[1], memory, 64);
    mapped[63] = 1;
    assert_non_null(memory_fabric_check(pair.fabric));
    assert_non_null(strstr(memory_fabric_misuse(pair.fabric), "byte 63 of 64"));
    close_pair(&pair);
}

static void test_the_dead_are_told(void **state)
{
    (void)state;
    struct pair pair =
        open_pair(&(struct memory_options){.delay_ns = 10, .finish_later = MEMORY_ALL});
    char there[8] = {0}, here[8];
    struct msg_token token;
    struct msg_transfer transfer;
    pair.net[1]->ops->expose(pair.net[1], 0, there, 8, &token);
    assert_int_equal(pair.net[0]->ops->bulk_get(pair.net[0], 1, &token, 0, here, 8, &transfer), 1);
    assert_int_equal(pair.net[0]->ops->alive(pair.net[0], 1), 0);
    memory_fabric_kill(pair.fabric, 1);
    assert_int_equal(transfer.finished, -ECONNRESET);
    assert_int_equal(pair.net[0]->ops->alive(pair.net[0], 1), -ECONNRESET);
    assert_int_equal(pair.net[0]->ops->queue_send(pair.net[0], 1, here, 8), -ECONNRESET);
    assert_int_equal(memory_fabric_next(pair.fabric), UINT64_MAX);
    close_pair(&pair);
}

static void test_a_rank_costs_nothing_until_spoken_to(void **state)
{
    (void)state;
    struct memory_fabric *fabric =
        memory_fabric_new(&(struct memory_options){.rank_count = 1000000, .queue_packets = 4});
    struct msg_net *net = memory_fabric_open(fabric, 999999);
    uint64_t word = 1;
    assert_int_equal(net->ops->queue_send(net, 123456, &word, sizeof word), 0);
    assert_int_equal(net->ops->alive(net, 0), 0);
    net->ops->close(net);
    memory_fabric_free(fabric);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets_of_a_sender_keep_their_order),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_put_comes_whole_and_may_overtake),
        cmocka_unit_test(test_bulk_copies_happen_when_they_finish),
        cmocka_unit_test(test_misuse_is_noticed),
        cmocka_unit_test(test_stores_to_freed_memory_are_noticed),
        cmocka_unit_test(test_the_dead_are_told),
        cmocka_unit_test(test_a_rank_costs_nothing_until_spoken_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
