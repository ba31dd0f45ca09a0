// SPDX-License-Identifier: Apache-2.0
// Messages and collectives between hosts whose network loses packets, is slow, delays bytes, or is
// cut.
//
// Ranks are processes in network namespaces (hosts.h); all values are stamped. LEAT_LONG=1 takes
// more losses, lower rates and more rounds. Advantage: real TCP with its retransmissions.
// Disadvantage: hosts of one machine share its cores, so times are no measure.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "multi/hosts.h"
#include "multi/root_job.h"
#include "transport/fabric.h"

#include <string.h>
#include <sys/resource.h>

enum { MOST_RANKS = 8 };

static struct started ranks[MOST_RANKS];

static bool long_run(void)
{
    const char *all = getenv("LEAT_LONG");
    return all && !strcmp(all, "1");
}

static void need_all(void)
{
    if (fabric_absent()) {
        print_message("%s\n", fabric_absent());
        skip();
    }
    need_hosts();
}

// Rank r on host r % hosts.
static void start(int count, int hosts, const char *timeout_s, const char *role)
{
    static int port = 7950;
    port++;
    for (int rank = 0; rank < count; rank++)
        root_start(&ranks[rank], &(struct root_rank_options){.port = port,
                                                             .address = "10.78.0.2",
                                                             .network = host_network[rank % hosts],
                                                             .rank = rank,
                                                             .size = count,
                                                             .timeout_s = timeout_s,
                                                             .role = role});
}

static void talk(const char *what, int count, int hosts)
{
    uint64_t since_ms = root_now_ms();
    start(count, hosts, "20", "talk");
    for (int rank = 0; rank < count; rank++) {
        int status = root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "talk 0: all right");
        root_expect(&ranks[rank], "path fabric");
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    print_message("%s, %d ranks on %d hosts: %d ms\n", what, count, hosts,
                  (int)(root_now_ms() - since_ms));
}

static void test_lost_packets_are_sent_again(void **state)
{
    (void)state;
    need_all();
    for (int percent = 2; percent <= (long_run() ? 8 : 2); percent *= 2) {
        router_drops(percent);
        // Of so few packets chance may spare all.
        for (int i = 0; i < 20 && (i == 0 || !router_has_dropped()); i++)
            talk("lost packets", 2, 2);
        if (long_run())
            talk("lost packets", 8, 4);
        assert_true(router_has_dropped());
        router_is_good_again();
    }
}

static void test_a_slow_network_is_waited_for(void **state)
{
    (void)state;
    need_all();
    router_limits(long_run() ? "20mbit" : "200mbit");
    talk("a limited rate", 4, 4);
    if (long_run())
        talk("a limited rate", 2, 2);
    assert_true(router_has_limited());
    router_is_good_again();
}

static void test_delayed_bytes_are_put_together(void **state)
{
    (void)state;
    need_all();
    pid_t pid = router_delays();
    talk("delayed bytes", 4, 4);
    for (int i = 0; i < 6 && long_run(); i++)
        talk("delayed bytes", 8, 4);
    assert_true(router_has_dropped()); // or diverted: the rule has counted
    router_delays_no_more(pid);
}

static void expect_loss(int rank, int lost)
{
    char words[64];
    snprintf(words, sizeof words, "rank %d was lost", lost);
    root_expect(&ranks[rank], "recv -104");
    root_expect(&ranks[rank], words);
}

static void test_a_silent_link_is_an_error_on_both_sides(void **state)
{
    (void)state;
    need_all();
    start(2, 2, "1.5", "listen");
    root_await(&ranks[0], "open ");
    root_await(&ranks[1], "open ");
    uint64_t since_ms = root_now_ms();
    router_cuts(0, 1);
    for (int rank = 0; rank < 2; rank++)
        root_finish(&ranks[rank]);
    uint64_t took_ms = root_now_ms() - since_ms;
    router_is_good_again();
    expect_loss(0, 1);
    expect_loss(1, 0);
    if (took_ms > 9000)
        fail_msg("it was noticed after %d ms only", (int)took_ms);
    print_message("a silent link was noticed after %d ms\n", (int)took_ms);
}

// Nothing that this rank opens from now on.
static void takes_descriptors(pid_t pid)
{
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &none, NULL), 0);
}

// Neither host is rank 0's, to which everybody is connected. A rank that is stopped, and waited for
// as long, is not taken for one behind a cut, nor is one that cannot be asked for want of
// descriptors.
static void test_a_cut_between_others_is_an_error_on_both_sides(void **state)
{
    enum { COUNT = 6 };
    (void)state;
    need_all();
    start(COUNT, 4, "1.5", "pair"); // 0 and 5, 1 and 4, 2 and 3
    for (int rank = 0; rank < COUNT; rank++)
        root_await(&ranks[rank], "open ");
    uint64_t since_ms = root_now_ms();
    assert_int_equal(kill(ranks[5].pid, SIGSTOP), 0);
    takes_descriptors(ranks[1].pid);
    router_cuts(2, 3);
    for (int rank = 2; rank < 4; rank++)
        root_await(&ranks[rank], "recv ");
    uint64_t took_ms = root_now_ms() - since_ms;
    for (int rank = 0; rank < 2; rank++)
        root_await(&ranks[rank], "for 5 s now");
    router_is_good_again();
    for (int rank = COUNT - 1; rank >= 0; rank--)
        assert_int_equal(kill(ranks[rank].pid, SIGKILL), 0);
    for (int rank = 0; rank < COUNT; rank++)
        root_finish(&ranks[rank]);
    expect_loss(2, 3);
    expect_loss(3, 2);
    root_expect(&ranks[2], "has not answered");
    root_expect(&ranks[3], "has not answered");
    if (took_ms > 10000)
        fail_msg("it was noticed after %d ms only", (int)took_ms);
    print_message("a cut between others was noticed after %d ms\n", (int)took_ms);
}

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_packets_are_sent_again),
        cmocka_unit_test(test_a_slow_network_is_waited_for),
        cmocka_unit_test(test_delayed_bytes_are_put_together),
        cmocka_unit_test(test_a_silent_link_is_an_error_on_both_sides),
        cmocka_unit_test(test_a_cut_between_others_is_an_error_on_both_sides),
    };
    return cmocka_run_group_tests(tests, hosts_open, hosts_close);
}
