// SPDX-License-Identifier: Apache-2.0
// Jobs that lock up are ended, and told who waits for whom; jobs that are only slow are not.
//
// Advantage: real waits of processes, over shared memory and libfabric.
// Disadvantage: each takes a LEAT_TIMEOUT.

#include "multi/msg_ranks.h"

#include "core/signal.h"
#include "transport/fabric.h"

#include <time.h>

static int next_of(const struct rank_thread *self)
{
    return (self->rank + 1) % self->rank_count;
}

// Afterwards messages and new communicators' collectives work.
static void go_on(struct rank_thread *self, leat_comm *comm)
{
    leat_request request;
    int got = -1, from = (self->rank + self->rank_count - 1) % self->rank_count;
    msg_fine(self, leat_recv(comm, msg_plain(&got, sizeof got), from, 5, NULL, &request));
    msg_fine(self, leat_send(comm, msg_plain(&self->rank, sizeof got), next_of(self), 5, 0, NULL));
    msg_fine(self, msg_wait_one(&request, -1));
    rank_check(self, got == from, "%d instead of %d", got, from);
}

static void expect_deadlock(struct rank_thread *self, int error, const char *says)
{
    rank_check(self, error == -EDEADLK, "%d: %s", error, leat_error_detail());
    msg_says(self, "deadlock: ");
    msg_says(self, "no rank of the job can go on");
    msg_says(self, says);
}

static void all_receive_first(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    int word;
    int error = leat_recv(comm, msg_plain(&word, sizeof word), next_of(self), 3, NULL, NULL);
    expect_deadlock(self, error,
                    self->rank_count > 1 ? "rank 0 waits for rank 1 (receive, tag 3)"
                                         : "rank 0 waits for rank 0 (receive, tag 3)");
    go_on(self, comm);
}

static void all_send_first(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint64_t bytes = self->rank % 2 ? 1000000 : 100;
    uint8_t *memory = calloc(1, bytes);
    int error =
        leat_send(comm, msg_plain(memory, bytes), next_of(self), 4, LEAT_SEND_SYNCHRONOUS, NULL);
    expect_deadlock(self, error, "rank 0 waits for rank 1 (send, tag 4)");
    free(memory);
    go_on(self, comm);
}

// The last rank waits for a message before it enters the barrier.
static void barrier_and_receive(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    char text[64];
    int last = self->rank_count - 1, error;
    if (self->rank == last)
        error = leat_recv(comm, msg_plain(NULL, 0), 0, 6, NULL, NULL);
    else
        error = leat_collective(comm, &barrier, NULL);
    snprintf(text, sizeof text, "rank %d waits for rank 0 (receive, tag 6)", last);
    expect_deadlock(self, error, text);
    msg_says(self, "(barrier)");
    go_on(self, comm);
    msg_gives(self, -EDEADLK, leat_collective(comm, &barrier, NULL));
}

// Waits of several requests, and a probe for anybody's.
static void many_kinds(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request[3], *list[3] = {&request[0], &request[1], &request[2]};
    int error;
    for (int i = 0; i < 3 && self->rank < 2; i++)
        msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), i, 8, NULL, list[i]));
    if (self->rank < 2)
        error = leat_request_wait(list, 3, self->rank ? LEAT_WAIT_ANY : LEAT_WAIT_ALL, -1, NULL);
    else if (self->rank == 2)
        error = leat_probe(comm, LEAT_ANY_RANK, 9, -1, NULL, NULL);
    else
        error = leat_recv(comm, msg_plain(NULL, 0), 2, 10, NULL, NULL);
    expect_deadlock(self, error, "rank 2 waits for any rank (receive, tag 9)");
    for (int i = 0; i < 3 && self->rank < 2; i++)
        rank_check(self, request[i].status.error == -EDEADLK, "request %d: %d", i,
                   request[i].status.error);
    go_on(self, comm);
}

static void compute(double seconds)
{
    const struct timespec some = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&some, NULL);
}

// Each rank in turn is slow, by several time-outs, while the others wait; then one waits with a
// deadline, and one looks again and again.
static void only_slow(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    leat_request request;
    int error = -ETIMEDOUT;
    for (int slow = 0; slow < self->rank_count; slow++) {
        if (self->rank == slow)
            compute(0.3);
        msg_fine(self, leat_collective(comm, &barrier, NULL));
    }
    msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), next_of(self), 1, NULL, &request));
    if (self->rank == 1) {
        msg_gives(self, -ETIMEDOUT, msg_wait_one(&request, 0.3));
        for (uint64_t begin = leat_now_ns(); leat_now_ns() - begin < 300000000;)
            msg_gives(self, -ETIMEDOUT, msg_wait_one(&request, 0));
    }
    // The chain begins at rank 1, who nobody has sent anything yet.
    if (self->rank != 1)
        error = msg_wait_one(&request, -1);
    msg_fine(self, leat_send(comm, msg_plain(NULL, 0),
                             (self->rank + self->rank_count - 1) % self->rank_count, 1, 0, NULL));
    msg_fine(self, self->rank == 1 ? msg_wait_one(&request, -1) : error);
}

static const struct msg_part parts[] = {{"all_receive_first", all_receive_first},
                                        {"all_send_first", all_send_first},
                                        {"barrier_and_receive", barrier_and_receive},
                                        {"many_kinds", many_kinds},
                                        {"only_slow", only_slow},
                                        {NULL, NULL}};

static void test_ranks_that_all_receive_first(void **state)
{
    (void)state;
    msg_run_processes(1, "all_receive_first");
    msg_run_processes(3, "all_receive_first");
    msg_run_processes(7, "all_receive_first");
}

static void test_synchronous_sends_in_a_circle(void **state)
{
    (void)state;
    msg_run_processes(4, "all_send_first");
}

static void test_a_barrier_that_one_rank_never_enters(void **state)
{
    (void)state;
    msg_run_processes(3, "barrier_and_receive");
    msg_run_processes(18, "barrier_and_receive"); // not by words of memory
}

static void test_every_kind_of_wait(void **state)
{
    (void)state;
    msg_run_processes(4, "many_kinds");
}

static void test_slow_ranks_are_waited_for(void **state)
{
    (void)state;
    msg_run_processes(3, "only_slow");
}

static void test_the_same_over_libfabric(void **state)
{
    (void)state;
    if (MSG_FEWER || fabric_absent()) {
        print_message("%s\n",
                      MSG_FEWER ? "ThreadSanitizer does not see into libfabric" : fabric_absent());
        skip();
    }
    setenv("LEAT_PATHS", "require:fabric", 1);
    msg_run_processes(3, "all_receive_first");
    msg_run_processes(3, "barrier_and_receive");
    msg_run_processes(3, "only_slow");
    unsetenv("LEAT_PATHS");
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    setenv("LEAT_TIMEOUT", "0.1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_all_receive_first),
        cmocka_unit_test(test_synchronous_sends_in_a_circle),
        cmocka_unit_test(test_a_barrier_that_one_rank_never_enters),
        cmocka_unit_test(test_every_kind_of_wait),
        cmocka_unit_test(test_slow_ranks_are_waited_for),
        cmocka_unit_test(test_the_same_over_libfabric),
    };
    return cmocka_run_group_tests_name("deadlocked jobs", tests, NULL, NULL);
}
