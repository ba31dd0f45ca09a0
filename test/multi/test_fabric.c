// SPDX-License-Identifier: Apache-2.0
// Messages by libfabric: between ranks of one host that have to take it, between two network
// namespaces, past a rank that is killed or that leaves, and past strangers.
//
// Advantage: real processes and a real provider. Disadvantage: which provider is the machine's.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/fabric_job.h"
#include "multi/ranks.h"

#include <dirent.h>
#include <leat/msg.h>
#include <string.h>

static void start(struct started *ranks, const int *where, int count, const char *paths,
                  const char *role)
{
    fabric_start(ranks, where, count, 7900, paths, "20", role);
}

static void finish_talk(struct started *ranks, int count, const char *path, const char *provider)
{
    for (int rank = 0; rank < count; rank++) {
        int status = root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "talk 0: all right");
        root_expect(&ranks[rank], path);
        root_expect(&ranks[rank], provider);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void test_messages_of_all_sizes_where_libfabric_is_required(void **state)
{
    (void)state;
    need_fabric();
    static struct started ranks[4];
    start(ranks, NULL, 4, "require:fabric", "talk");
    finish_talk(ranks, 4, "path fabric", "provider took memory");
}

static void test_messages_of_all_sizes_between_networks(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[4];
    start(ranks, (const int[]){0, 1, 1, 0}, 4, NULL, "talk");
    finish_talk(ranks, 4, "path fabric", "provider took memory");
    for (int rank = 0; rank < 4; rank++)
        root_expect(&ranks[rank], "path shm"); // to the neighbour
}

static void test_the_provider_takes_no_memory_where_there_is_none(void **state)
{
    (void)state;
    static struct started ranks[2];
    start(ranks, NULL, 2, "auto", "talk");
    finish_talk(ranks, 2, "path shm", "provider took none");
}

// Who has left first was the one to know where the others are.
static void test_ranks_meet_after_rank_0_has_left(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[3];
    start(ranks, (const int[]){0, 0, 1}, 3, NULL, "late");
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(root_finish(&ranks[rank]), 0);
        if (rank)
            root_expect(&ranks[rank], "late 0: all right");
    }
}

static void test_ranks_of_two_networks_without_libfabric_are_told_so(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[2];
    start(ranks, (const int[]){0, 1}, 2, "forbid:fabric", "talk");
    for (int rank = 0; rank < 2; rank++) {
        root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "talk -113: messages: rank");
    }
}

static void test_a_rank_killed_in_the_other_network_is_named(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[2];
    start(ranks, (const int[]){0, 1}, 2, NULL, "listen");
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
    kill(ranks[1].pid, SIGKILL);
    uint64_t since_ms = root_now_ms();
    root_finish(&ranks[1]);
    root_finish(&ranks[0]);
    assert_true(root_now_ms() - since_ms < 5000);
    root_expect(&ranks[0], "recv -104");
    root_expect(&ranks[0], "rank 1 was lost");
}

static void test_a_cut_link_is_an_error_that_names_the_peer(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[2];
    for (int rank = 0; rank < 2; rank++)
        root_start(&ranks[rank], &(struct root_rank_options){.port = 7901,
                                                             .address = "10.77.0.1",
                                                             .network = network[rank],
                                                             .rank = rank,
                                                             .size = 2,
                                                             .timeout_s = "3",
                                                             .role = "listen"});
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
    uint64_t since_ms = root_now_ms();
    assert_int_equal(run_ip(0, "link set leat-a down"), 0);
    for (int rank = 0; rank < 2; rank++)
        root_finish(&ranks[rank]);
    uint64_t took_ms = root_now_ms() - since_ms;
    assert_int_equal(run_ip(0, "link set leat-a up"), 0);
    if (took_ms > 8000)
        fail_msg("a cut link was noticed after %d ms only", (int)took_ms);
    root_expect(&ranks[0], "recv -104");
    root_expect(&ranks[0], "rank 1 was lost");
    root_expect(&ranks[1], "recv -104");
    root_expect(&ranks[1], "rank 0 was lost");
}

// ---- What is left behind ----

static int entries_of(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void say_to_next(struct rank_thread *self)
{
    leat_comm *comm;
    leat_request request, *list = &request;
    uint64_t out[500] = {(uint64_t)self->rank}, in[500] = {99};
    int next = (self->rank + 1) % self->rank_count;
    int before = (self->rank + self->rank_count - 1) % self->rank_count;
    int error = leat_comm_split(self->job, NULL, &comm);
    if (!error)
        error =
            leat_send(comm, (leat_data){.address = out, .bytes = sizeof out}, next, 1, 0, &request);
    if (!error)
        error =
            leat_recv(comm, (leat_data){.address = in, .bytes = sizeof in}, before, 1, NULL, NULL);
    if (!error)
        error = leat_request_wait(&list, 1, LEAT_WAIT_ALL, -1, NULL);
    rank_check(self, !error && in[0] == (uint64_t)before, "%d: %s", error, leat_error_detail());
}

static void test_no_descriptor_and_no_thread_stays_behind(void **state)
{
    (void)state;
    need_fabric();
    int files = 0, threads = 0;
    setenv("LEAT_PATHS", "require:fabric", 1);
    for (int round = 0; round < 4; round++) {
        ranks_run(3, say_to_next, NULL);
        // What libfabric keeps for itself is there after the first.
        if (!round) {
            files = entries_of("/proc/self/fd");
            threads = entries_of("/proc/self/task");
        }
    }
    unsetenv("LEAT_PATHS");
    assert_int_equal(entries_of("/proc/self/fd"), files);
    assert_int_equal(entries_of("/proc/self/task"), threads);
}

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_all_sizes_where_libfabric_is_required),
        cmocka_unit_test(test_the_provider_takes_no_memory_where_there_is_none),
        cmocka_unit_test(test_messages_of_all_sizes_between_networks),
        cmocka_unit_test(test_ranks_meet_after_rank_0_has_left),
        cmocka_unit_test(test_ranks_of_two_networks_without_libfabric_are_told_so),
        cmocka_unit_test(test_a_rank_killed_in_the_other_network_is_named),
        cmocka_unit_test(test_a_cut_link_is_an_error_that_names_the_peer),
        cmocka_unit_test(test_no_descriptor_and_no_thread_stays_behind),
    };
    return cmocka_run_group_tests(tests, join_networks, leave_networks);
}
