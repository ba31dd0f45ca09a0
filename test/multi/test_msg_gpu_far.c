// SPDX-License-Identifier: Apache-2.0
// Messages with buffers of a GPU between ranks that reach each other by libfabric only.
//
// Ranks are processes, each with an emulated GPU (support/emulated_gpu.h). What is announced goes
// in pieces through pinned staging at both ends: bytes, the number of copies, a receiver that
// stands still, copies that fail and a rank that dies are looked at, and that nothing stays pinned.
// Advantage: only the wire is this host's. Disadvantage: how long a copy takes is made up.

#include "multi/msg_ranks.h"

#include "transport/fabric.h"

#include <signal.h>

#define LARGE 2000000

enum { GPU_GPU, GPU_HOST, HOST_GPU, ENDS };

struct letter {
    struct msg_memory memory;
    leat_request request;
};

static bool begin(struct rank_thread *self, leat_comm *comm, struct letter *letter, int peer,
                  int tag)
{
    return msg_fine(self, leat_recv(comm, letter->memory.data, peer, tag, NULL, &letter->request));
}

static bool send(struct rank_thread *self, leat_comm *comm, struct letter *letter, int peer,
                 int tag)
{
    msg_memory_stamp(&letter->memory, (uint64_t)(100 * tag + 10 * self->rank + peer));
    return msg_fine(self, leat_send(comm, letter->memory.data, peer, tag, 0, &letter->request));
}

static bool check(struct rank_thread *self, struct letter *letter, int peer, int tag)
{
    bool fine =
        msg_memory_check(self, &letter->memory, (uint64_t)(100 * tag + 10 * peer + self->rank),
                         letter->memory.bytes);
    msg_memory_free(&letter->memory);
    return fine;
}

// To and fro at the same time.
static bool exchange(struct rank_thread *self, leat_comm *comm, uint64_t bytes, int ends,
                     enum msg_shape from, enum msg_shape to, int tag)
{
    struct letter out, in;
    int peer = 1 - self->rank;
    leat_request *const list[2] = {&out.request, &in.request};
    return msg_memory_make_in(self, &out.memory, from, bytes, ends != HOST_GPU) &&
           msg_memory_make_in(self, &in.memory, to, bytes, ends != GPU_HOST) &&
           begin(self, comm, &in, peer, tag) && send(self, comm, &out, peer, tag) &&
           msg_fine(self, leat_request_wait(list, 2, LEAT_WAIT_ALL, -1, NULL)) &&
           check(self, &in, peer, tag) && (msg_memory_free(&out.memory), true);
}

static void pieces(struct rank_thread *self)
{
    static const uint64_t sizes[] = {4097, 65536, 65537, 8 * 65536 + 1, LARGE};
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    leat_stats stats = {.size = sizeof stats};
    int tag = 0;
    for (size_t i = 0; comm && i < sizeof sizes / sizeof *sizes; i++)
        for (int ends = 0; ends < ENDS; ends++) {
            uint64_t before = emulated_gpu_copies();
            if (!exchange(self, comm, sizes[i], ends, MSG_PLAIN, MSG_PLAIN, ++tag))
                return;
            // At both ends of two messages, in pieces of 64 KiB.
            uint64_t most = 2 * (sizes[i] / 65536 + 1);
            rank_check(self, emulated_gpu_copies() - before <= most, "%llu copies of %llu bytes",
                       (unsigned long long)(emulated_gpu_copies() - before),
                       (unsigned long long)sizes[i]);
        }
    exchange(self, comm, 200000, GPU_GPU, MSG_ROWS, MSG_PLAIN, ++tag);
    exchange(self, comm, 200000, GPU_HOST, MSG_PLAIN, MSG_ROWS, ++tag);
    exchange(self, comm, 200000, HOST_GPU, MSG_PLAIN, MSG_PIECES, ++tag);
    msg_fine(self, leat_stats_read(self->job, LEAT_ALL_PEERS, &stats));
    rank_check(self, stats.msg_gpu_staged == 17, "%llu staged",
               (unsigned long long)stats.msg_gpu_staged);
}

// A receive that is too small for the message.
static void truncated(struct rank_thread *self)
{
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct letter letter;
    for (int ends = 0; comm && ends < ENDS; ends++) {
        bool gpu = self->rank ? ends != GPU_HOST : ends != HOST_GPU;
        if (!msg_memory_make_in(self, &letter.memory, MSG_PLAIN, self->rank ? 300000 : LARGE, gpu))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&letter.memory, 7);
            msg_fine(self, leat_send(comm, letter.memory.data, 1, ends, 0, NULL));
        } else {
            msg_gives(self, -EMSGSIZE, leat_recv(comm, letter.memory.data, 0, ends, NULL, NULL));
            msg_memory_check(self, &letter.memory, 7, 300000);
        }
        msg_memory_free(&letter.memory);
    }
}

#define EACH  3 /* letters to each rank: more than there is staging for */
#define RANKS 3

// All ranks send to all, all at once.
static void crowd(struct rank_thread *self)
{
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct letter letter[2 * RANKS * EACH];
    leat_request *list[2 * RANKS * EACH];
    leat_stats stats = {.size = sizeof stats};
    if (!comm)
        return;
    for (int i = 0; i < 2 * RANKS * EACH; i++) {
        int peer = i / 2 / EACH, tag = i / 2 % EACH;
        list[i] = peer == self->rank ? NULL : &letter[i].request;
        if (!list[i])
            continue;
        if (!msg_memory_make_in(self, &letter[i].memory, MSG_PLAIN, (uint64_t)(tag + 1) * 100000,
                                (tag + peer) % 3 != i % 2))
            return;
        if (i % 2 ? !send(self, comm, &letter[i], peer, tag)
                  : !begin(self, comm, &letter[i], peer, tag))
            return;
    }
    msg_fine(self, leat_request_wait(list, (size_t)2 * RANKS * EACH, LEAT_WAIT_ALL, -1, NULL));
    for (int i = 0; i < 2 * RANKS * EACH; i++) {
        if (list[i] && i % 2)
            msg_memory_free(&letter[i].memory);
        else if (list[i])
            check(self, &letter[i], i / 2 / EACH, i / 2 % EACH);
    }
    msg_fine(self, leat_stats_read(self->job, LEAT_ALL_PEERS, &stats));
    rank_check(self, stats.msg_peak_bytes <= stats.msg_budget_bytes, "%llu of %llu bytes",
               (unsigned long long)stats.msg_peak_bytes,
               (unsigned long long)stats.msg_budget_bytes);
}

// Progress until the own GPU has copied so many pieces of what is under way.
static void until_copied(struct rank_thread *self, leat_request *request, uint64_t copies)
{
    int error = -ETIMEDOUT;
    while (emulated_gpu_copies() < copies && error == -ETIMEDOUT)
        error = msg_wait_one(request, 0);
    rank_check(self, error == -ETIMEDOUT, "over too early: %d", error);
}

// Rank 2 stands still in the middle of a message until rank 1 has got one of the same sender.
static void stalled(struct rank_thread *self)
{
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct letter letter[2];
    int ends[2];
    char byte = 1;
    if (!comm || sscanf(getenv("TEST_STALL_FDS"), "%d %d", &ends[0], &ends[1]) != 2 ||
        !msg_memory_make_in(self, &letter[0].memory, MSG_PLAIN, LARGE, true) ||
        !msg_memory_make_in(self, &letter[1].memory, MSG_PLAIN, LARGE, true))
        return;
    if (self->rank == 0) {
        leat_request *const list[2] = {&letter[0].request, &letter[1].request};
        send(self, comm, &letter[0], 2, 1);
        msg_hear(self, comm, 2);
        send(self, comm, &letter[1], 1, 1);
        msg_fine(self, leat_request_wait(list, 2, LEAT_WAIT_ALL, -1, NULL));
    } else if (begin(self, comm, &letter[0], 0, 1)) {
        if (self->rank == 2) {
            until_copied(self, &letter[0].request, 2);
            msg_tell(self, comm, 0);
            rank_check(self, read(ends[0], &byte, 1) == 1, "nobody wrote");
        }
        msg_fine(self, msg_wait_one(&letter[0].request, -1));
        msg_memory_check(self, &letter[0].memory, 100 + (uint64_t)self->rank, LARGE);
        if (self->rank == 1)
            rank_check(self, write(ends[1], &byte, 1) == 1, "it cannot be told");
    }
    msg_memory_free(&letter[0].memory);
    msg_memory_free(&letter[1].memory);
}

// First the sender's copies, then the receiver's, which the sender does not mind.
static void failing(struct rank_thread *self)
{
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct letter letter;
    if (!comm || !msg_memory_make_in(self, &letter.memory, MSG_PLAIN, LARGE, self->rank == 0))
        return;
    if (self->rank == 0) {
        msg_fine(self, leat_send(comm, letter.memory.data, 1, 1, 0, NULL));
        emulated_gpu_fail_at(letter.memory.gpu + MSG_GUARD + 400000);
        msg_gives(self, -EIO, leat_send(comm, letter.memory.data, 1, 2, 0, NULL));
        msg_says(self, "a copy has failed");
    } else {
        struct letter own;
        msg_memory_make_in(self, &own.memory, MSG_PLAIN, LARGE, true);
        emulated_gpu_fail_at(own.memory.gpu + MSG_GUARD + 400000);
        msg_gives(self, -EIO, leat_recv(comm, own.memory.data, 0, 1, NULL, NULL));
        msg_says(self, "a copy has failed");
        msg_gives(self, -EIO, leat_recv(comm, letter.memory.data, 0, 2, NULL, NULL));
        msg_says(self, "the GPU of rank 0");
        msg_memory_free(&own.memory);
    }
    emulated_gpu_fail_at(NULL);
    msg_tell(self, comm, 1 - self->rank);
    msg_hear(self, comm, 1 - self->rank);
    msg_memory_free(&letter.memory);
}

// Rank 1 dies while it sends and receives; then the others use their staging again.
static void killed(struct rank_thread *self)
{
    emulated_gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct letter letter[4];
    leat_request *list[4];
    int other = 2 - self->rank;
    if (!comm)
        return;
    for (int i = 0; i < 4; i++) {
        list[i] = &letter[i].request;
        if (!msg_memory_make_in(self, &letter[i].memory, MSG_PLAIN, LARGE, true))
            return;
    }
    if (self->rank == 1) {
        for (int i = 0; i < 4; i++)
            if (i % 2 ? !send(self, comm, &letter[i], i - 1, i)
                      : !begin(self, comm, &letter[i], i, i))
                return;
        until_copied(self, list[0], 8);
        raise(SIGKILL);
    }
    send(self, comm, &letter[0], 1, self->rank);
    begin(self, comm, &letter[1], 1, self->rank + 1);
    msg_gives(self, -ECONNRESET, msg_wait_one(list[0], -1));
    msg_gives(self, -ECONNRESET, msg_wait_one(list[1], -1));
    for (int i = 0; i < 2; i++) {
        begin(self, comm, &letter[2 + i], other, 10 + i);
        send(self, comm, &letter[i], other, 10 + i);
    }
    msg_fine(self, leat_request_wait(list, 4, LEAT_WAIT_ALL, -1, NULL));
    for (int i = 0; i < 2; i++) {
        check(self, &letter[2 + i], other, 10 + i);
        msg_memory_free(&letter[i].memory);
    }
}

// ---- Tests ----

static const struct msg_part parts[] = {
    {"pieces", pieces},   {"truncated", truncated}, {"crowd", crowd}, {"stalled", stalled},
    {"failing", failing}, {"killed", killed},       {NULL, NULL}};

static void test_large_messages_go_in_pieces(void **state)
{
    (void)state;
    msg_run_processes(2, "pieces");
}

static void test_a_receive_that_is_too_small(void **state)
{
    (void)state;
    msg_run_processes(2, "truncated");
}

static void test_more_at_once_than_there_is_staging_for(void **state)
{
    (void)state;
    msg_run_processes(RANKS, "crowd");
    setenv("LEAT_FABRIC", "tcp;ofi_rxm", 1);
    msg_run_processes(RANKS, "crowd");
    unsetenv("LEAT_FABRIC");
    setenv("LEAT_MSG_BUDGET", "4M", 1); // too little for staging
    msg_run_processes(RANKS, "crowd");
    unsetenv("LEAT_MSG_BUDGET");
}

static void test_a_receiver_that_stands_still_stalls_nobody_else(void **state)
{
    int ends[2];
    char text[32];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(text, sizeof text, "%d %d", ends[0], ends[1]);
    setenv("TEST_STALL_FDS", text, 1);
    msg_run_processes(3, "stalled");
    close(ends[0]);
    close(ends[1]);
}

static void test_copies_that_fail(void **state)
{
    (void)state;
    msg_run_processes(2, "failing");
}

static void test_staging_comes_back_from_a_rank_that_dies(void **state)
{
    (void)state;
    msg_run_survivors(3, "killed", 2);
}

static int play(int argc, char **argv)
{
    int status = msg_play(parts, argc, argv);
    if (status || (!emulated_gpu_lost() && !emulated_gpu_pins()))
        return status;
    fprintf(stderr, "copies under way at the end, or %lld pins\n", (long long)emulated_gpu_pins());
    return 92;
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return play(argc, argv);
    if (fabric_absent())
        return printf("%s\n", fabric_absent()), 77;
    setenv("LEAT_PATHS", "require:fabric", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_messages_go_in_pieces),
        cmocka_unit_test(test_a_receive_that_is_too_small),
        cmocka_unit_test(test_more_at_once_than_there_is_staging_for),
        cmocka_unit_test(test_a_receiver_that_stands_still_stalls_nobody_else),
        cmocka_unit_test(test_copies_that_fail),
        cmocka_unit_test(test_staging_comes_back_from_a_rank_that_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
