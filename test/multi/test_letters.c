// SPDX-License-Identifier: Apache-2.0
// Letters between ranks as threads: every size arrives whole, nobody else's receive takes one, and
// who does not write or is gone is named.

#include "multi/ranks.h"

#include "core/error.h"
#include "core/job.h"
#include "halo/letter.h"
#include "leat/msg.h"

#include <errno.h>

#define RANKS 3

// Sender, place in the letter and its size are readable from each byte.
static unsigned char stamp(int rank, uint64_t at, uint64_t bytes)
{
    return (unsigned char)(31 * (uint64_t)rank + 7 * at + (at >> 8) + bytes);
}

static unsigned char *make_letter(int rank, uint64_t bytes)
{
    unsigned char *letter = calloc(1, bytes + 1);
    for (uint64_t i = 0; letter && i < bytes; i++)
        letter[i] = stamp(rank, i, bytes);
    return letter;
}

static void check_letter(struct rank_thread *self, int from, const void *data, uint64_t bytes,
                         uint64_t expected)
{
    const unsigned char *letter = data;
    uint64_t wrong = 0;
    if (!rank_check(self, bytes == expected, "%llu bytes, expected %llu", (unsigned long long)bytes,
                    (unsigned long long)expected))
        return;
    for (uint64_t i = 0; i < bytes; i++)
        wrong += letter[i] != stamp(from, i, bytes);
    rank_check(self, wrong == 0, "%llu of %llu bytes are wrong", (unsigned long long)wrong,
               (unsigned long long)bytes);
}

// Around the limits of the first message, of eager ones and of those that both sides copy.
static const uint64_t sizes[] = {0,    1,     96,    4096,  8175,  8176,   8177,
                                 8192, 32767, 32768, 40960, 65537, 1 << 20};

static void swap_around(struct rank_thread *self, int distance, uint64_t sent, uint64_t wanted)
{
    int to = (self->rank + distance) % self->rank_count;
    int from = (self->rank + self->rank_count - distance) % self->rank_count;
    unsigned char *letter = make_letter(self->rank, sent);
    const void *data = NULL;
    uint64_t bytes = UINT64_MAX;
    int error = leat_letter_swap(self->job, to, letter, sent, from, &data, &bytes);
    if (letter)
        memset(letter, 0xee, sent); // what was sent may be changed by now
    if (rank_check(self, !error, "%d: %s", error, leat_error_detail()))
        check_letter(self, from, data, bytes, wanted);
    free(letter);
}

static void rank_of_sizes(struct rank_thread *self)
{
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int distance = 0; distance < self->rank_count; distance++)
        for (int round = 0; round < COUNT; round++) {
            int from = (self->rank + self->rank_count - distance) % self->rank_count;
            swap_around(self, distance, sizes[(round + self->rank) % COUNT],
                        sizes[(round + from) % COUNT]);
        }
}

static void test_letters_of_any_size_arrive_whole(void **state)
{
    (void)state;
    ranks_run(RANKS, rank_of_sizes, NULL);
}

static void rank_alone(struct rank_thread *self)
{
    swap_around(self, 0, 100000, 100000);
    rank_check(self, !self->job->msg, "the message layer was opened for nothing");
}

static void test_a_letter_to_oneself_takes_no_message_layer(void **state)
{
    (void)state;
    ranks_run(1, rank_alone, NULL);
}

static void rank_with_receive(struct rank_thread *self)
{
    leat_comm *comm;
    leat_request request = {0};
    leat_request *const requests[] = {&request};
    uint64_t word = 0, sent = 1000 + (uint64_t)self->rank;
    int next = (self->rank + 1) % RANKS, before = (self->rank + RANKS - 1) % RANKS;
    if (!rank_check(self, !leat_comm_split(self->job, NULL, &comm), "%s", leat_error_detail()))
        return;
    leat_data into = {.address = &word, .bytes = sizeof word};
    leat_recv(comm, into, LEAT_ANY_RANK, LEAT_ANY_TAG, NULL, &request);
    swap_around(self, 1, 8, 8);
    swap_around(self, 1, 50000, 50000);
    leat_data from = {.address = &sent, .bytes = sizeof sent};
    rank_check(self, !leat_send(comm, from, next, 5, 0, NULL), "%s", leat_error_detail());
    int error = leat_request_wait(requests, 1, LEAT_WAIT_ALL, 20, NULL);
    rank_check(self, !error && word == 1000 + (uint64_t)before, "%d, word %llu", error,
               (unsigned long long)word);
    leat_barrier(self->job);
}

static void test_a_receive_from_anybody_takes_no_letter(void **state)
{
    (void)state;
    ranks_run(RANKS, rank_with_receive, NULL);
}

static void rank_in_silence(struct rank_thread *self)
{
    const uint64_t *sent = self->user;
    const void *data;
    uint64_t bytes;
    rank_check(self, !leat_letters_open(self->job), "%s", leat_error_detail());
    if (self->rank == 0) {
        unsigned char *letter = make_letter(0, *sent);
        self->job->timeout_ns = 100000000;
        int error = leat_letter_swap(self->job, 1, letter, *sent, 1, &data, &bytes);
        self->job->timeout_ns = 20000000000;
        free(letter);
        rank_check(self, error == -ETIMEDOUT, "%d", error);
        rank_check(self, strstr(leat_error_detail(), "letter: rank 1 did not answer") != NULL, "%s",
                   leat_error_detail());
    }
    leat_barrier(self->job);
}

static void test_a_rank_that_does_not_write_is_a_time_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint64_t sent = i ? 1 << 20 : 8;
        ranks_run(2, rank_in_silence, &sent);
    }
}

static void rank_in_company(struct rank_thread *self)
{
    const void *data;
    uint64_t bytes;
    swap_around(self, 1, 500, 500);
    if (self->rank == 1) {
        leat_close(self->job, "its disk is full");
        self->job = NULL;
        return;
    }
    uint64_t begin_ns = leat_now_ns();
    int error = leat_letter_swap(self->job, 1, "", 1, 1, &data, &bytes);
    double seconds = (double)(leat_now_ns() - begin_ns) * 1e-9;
    rank_check(self, error == -ECONNRESET, "%d", error);
    rank_check(self, strstr(leat_error_detail(), "rank 1 failed: its disk is full") != NULL, "%s",
               leat_error_detail());
    rank_check(self, seconds < 5, "after %g s", seconds);
}

static void test_a_rank_that_has_left_is_named(void **state)
{
    (void)state;
    ranks_run(2, rank_in_company, NULL);
}

// Strided at the sender, so it passes through a pipe that the sender has to fill meanwhile.
static void rank_behind_a_verdict(struct rank_thread *self)
{
    enum { BLOCKS = 65536, BYTES = 8 };
    leat_comm *comm;
    leat_request request = {0};
    leat_request *const requests[] = {&request};
    uint64_t *words = calloc(2 * BLOCKS, sizeof *words);
    rank_check(self, words && !leat_comm_split(self->job, NULL, &comm), "no memory");
    leat_layout layout = {.size = sizeof layout,
                          .block_bytes = BYTES,
                          .dim_count = 1,
                          .dim = {{.count = BLOCKS, .stride_bytes = 2 * BYTES}}};
    leat_data data = {.address = words, .bytes = BLOCKS * BYTES};
    if (self->rank == 0) {
        for (uint64_t i = 0; i < BLOCKS; i++)
            words[2 * i] = i + 1;
        data.layout = &layout;
        leat_send(comm, data, 1, 3, 0, &request);
        rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
        leat_request_wait(requests, 1, LEAT_WAIT_ALL, 20, NULL);
    } else {
        int error = leat_recv(comm, data, 0, 3, NULL, &request);
        if (!error)
            error = leat_request_wait(requests, 1, LEAT_WAIT_ALL, 15, NULL);
        rank_check(self, !error, "%s", leat_error_detail());
        for (uint64_t i = 0; i < BLOCKS; i++)
            rank_check(self, words[i] == i + 1, "word %llu", (unsigned long long)i);
        rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    }
    free(words);
}

static void test_who_waits_for_a_verdict_moves_messages_on(void **state)
{
    (void)state;
    ranks_run(2, rank_behind_a_verdict, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letters_of_any_size_arrive_whole),
        cmocka_unit_test(test_a_letter_to_oneself_takes_no_message_layer),
        cmocka_unit_test(test_a_receive_from_anybody_takes_no_letter),
        cmocka_unit_test(test_a_rank_that_does_not_write_is_a_time_out),
        cmocka_unit_test(test_a_rank_that_has_left_is_named),
        cmocka_unit_test(test_who_waits_for_a_verdict_moves_messages_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
