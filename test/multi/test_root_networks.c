// SPDX-License-Identifier: Apache-2.0
// Ranks in two network namespaces, which leat takes for two hosts: they start by root address, say
// that no path leads across where libfabric is forbidden, and name one another when the link is
// cut.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/networks.h"
#include "multi/root_job.h"

#include <string.h>

static void start(struct started *ranks, const int *where, int count, const char *role)
{
    for (int rank = 0; rank < count; rank++)
        root_start(&ranks[rank], &(struct root_rank_options){.port = 7800,
                                                             .address = "10.77.0.1",
                                                             .paths = "forbid:fabric",
                                                             .network = network[where[rank]],
                                                             .rank = rank,
                                                             .size = count,
                                                             .timeout_s = "3",
                                                             .role = role});
}

static void test_ranks_of_two_networks_start_and_say_that_no_path_leads_across(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[3];
    start(ranks, (const int[]){0, 1, 0}, 3, "sum");
    for (int rank = 0; rank < 3; rank++) {
        int status = root_finish(&ranks[rank]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        char words[96];
        snprintf(words, sizeof words,
                 "sum error %d: the network is forbidden by LEAT_PATHS: rank %d is on",
                 -EHOSTUNREACH, rank == 1 ? 0 : 1);
        root_expect(&ranks[rank], words);
    }
}

static void test_path_shows_why_there_is_none(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[3];
    if (!getenv("LEAT_BIN"))
        skip();
    start(ranks, (const int[]){0, 1, 0}, 3, "path");
    for (int rank = 0; rank < 3; rank++)
        root_finish(&ranks[rank]);
    root_expect(&ranks[0], "3 ranks, processes of several hosts");
    root_expect(&ranks[0], "the rank is on another host, or in other namespaces");
    root_expect(&ranks[0], "a process of this host, mapped segment");
    root_expect(&ranks[0], "no path leads from rank 0 to memory allocated by rank 1");
}

static void test_a_rank_killed_in_the_other_network_is_named(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[2];
    start(ranks, (const int[]){0, 1}, 2, "watch");
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
    kill(ranks[1].pid, SIGKILL);
    uint64_t since_ms = root_now_ms();
    root_finish(&ranks[1]);
    root_finish(&ranks[0]);
    assert_true(root_now_ms() - since_ms < 2000);
    root_expect(&ranks[0], "wait -104");
    root_expect(&ranks[0], "rank 1 was lost: its process at 10.77.0.2:");
}

static void test_a_cut_link_is_an_error_that_names_the_peer(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[2];
    start(ranks, (const int[]){0, 1}, 2, "watch");
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
    uint64_t since_ms = root_now_ms();
    assert_int_equal(run_ip(0, "link set leat-a down"), 0);
    for (int rank = 0; rank < 2; rank++)
        root_finish(&ranks[rank]);
    // LEAT_TIMEOUT is 3 s, and the kernel's clock for it ticks in seconds.
    uint64_t took_ms = root_now_ms() - since_ms;
    assert_int_equal(run_ip(0, "link set leat-a up"), 0);
    if (took_ms > 5000)
        fail_msg("a cut link was noticed after %d ms only", (int)took_ms);
    root_expect(&ranks[0], "wait -104");
    root_expect(&ranks[1], "wait -104");
    root_expect(&ranks[0], "rank 1 was lost: the link to 10.77.0.2:");
    root_expect(&ranks[1], "rank 0 was lost: the link to the root (rank 0) at 10.77.0.1:7800");
    print_message("a cut link was noticed after %d ms\n", (int)took_ms);
}

// From now on, connections in the second network are from these ports.
static void draw_ports_from(const char *range)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        FILE *file = setns(network[1], CLONE_NEWNET)
                         ? NULL
                         : fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
        _exit(!file || fputs(range, file) < 0 || fclose(file));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        skip();
}

// Without rank 0, the kernel draws the first port of the range for a connection to that port.
static void test_a_rank_does_not_take_itself_for_the_root(void **state)
{
    (void)state;
    need_networks();
    static struct started ranks[2];
    struct root_rank_options options = {.port = 40010,
                                        .network = network[1],
                                        .rank = 1,
                                        .size = 2,
                                        .timeout_s = "0.5",
                                        .role = "sum"};
    draw_ports_from("40010 40013");
    root_start(&ranks[1], &options);
    root_finish(&ranks[1]);
    root_expect(&ranks[1], "Connection refused; is rank 0 started?");
    options.timeout_s = "20";
    for (options.rank = 1; options.rank >= 0; options.rank--)
        root_start(&ranks[options.rank], &options);
    for (int rank = 0; rank < 2; rank++) {
        root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "sum 3 of rank ");
    }
}

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_two_networks_start_and_say_that_no_path_leads_across),
        cmocka_unit_test(test_path_shows_why_there_is_none),
        cmocka_unit_test(test_a_rank_killed_in_the_other_network_is_named),
        cmocka_unit_test(test_a_rank_does_not_take_itself_for_the_root),
        cmocka_unit_test(test_a_cut_link_is_an_error_that_names_the_peer),
    };
    return cmocka_run_group_tests(tests, join_networks, leave_networks);
}
