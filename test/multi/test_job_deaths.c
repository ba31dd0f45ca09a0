// SPDX-License-Identifier: Apache-2.0
// Jobs end whatever dies, and whoever has started them: `leat run`, mpirun, or a hand.
//
// A rank, or the launcher, is killed or stopped at a random moment while a halo is exchanged.
// The ends of all ranks and of the launcher are awaited; what takes longer than is promised fails.
// LEAT_LONG=1 does it 200 times each.

#define _GNU_SOURCE
#include "multi/root_job.h"

#include "core/bootstrap.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS    4
#define ENDED_MS 2000
#define SLACK_MS 2000 // for a machine busy with other tests

enum way { BY_LEAT_RUN, BY_MPIRUN };
enum victim { ONE_RANK, THE_LAUNCHER };

static uint64_t state_of_chance = 0x9e3779b97f4a7c15;

static unsigned chance(unsigned below)
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return (unsigned)(state_of_chance % below);
}

static bool on_path(const char *program)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return system(command) == 0;
}

static void need(enum way way)
{
    const char *absent = way == BY_LEAT_RUN ? getenv("LEAT_BIN") ? NULL : "LEAT_BIN is not set"
                         : on_path("mpirun.openmpi") ? leat_pmix_absent()
                                                     : "Open MPI's mpirun is not here";
    if (!absent)
        return;
    print_message("skipped: %s\n", absent);
    skip();
}

static void start(struct started *job, enum way way)
{
    char self[256];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(bytes > 0);
    self[bytes] = 0;
    if (way == BY_LEAT_RUN)
        root_start_command(
            job, (char *[]){getenv("LEAT_BIN"), "run", "-n", "4", self, "rank", "halo", NULL});
    else
        root_start_command(job, (char *[]){"mpirun.openmpi", "--oversubscribe", "-n", "4", self,
                                           "rank", "halo", NULL});
}

static pid_t pid_of(const struct started *job, int rank)
{
    char words[32];
    snprintf(words, sizeof words, " is rank %d\n", rank);
    const char *at = strstr(job->text, words);
    assert_non_null(at);
    while (at > job->text && at[-1] != ' ')
        at--;
    return (pid_t)atoi(at);
}

// mpirun gives its ranks pipes of its own, so what ends with it does not tell of them.
static void await_ends(const int pidfds[RANKS])
{
    for (int rank = 0; rank < RANKS; rank++) {
        struct pollfd poller = {.fd = pidfds[rank], .events = POLLIN};
        if (poll(&poller, 1, ROOT_LIMIT_MS) != 1)
            fail_msg("rank %d is left over", rank);
        close(pidfds[rank]);
    }
}

// How long after the blow everything had ended.
static uint64_t strike(enum way way, enum victim victim, int signal_number)
{
    static struct started job;
    start(&job, way);
    for (int rank = 0; rank < RANKS; rank++) {
        char words[32];
        snprintf(words, sizeof words, " is rank %d\n", rank);
        root_await(&job, words);
    }
    int rank = (int)chance(RANKS);
    pid_t blow = victim == THE_LAUNCHER ? job.pid : pid_of(&job, rank);
    int pidfds[RANKS];
    for (int r = 0; r < RANKS; r++) {
        pidfds[r] = (int)syscall(SYS_pidfd_open, pid_of(&job, r), 0);
        assert_true(pidfds[r] >= 0);
    }
    // The moment is what is drawn: nothing is awaited here.
    poll(NULL, 0, (int)chance(20));
    uint64_t since_ms = root_now_ms();
    assert_int_equal(kill(blow, signal_number), 0);
    int status = root_finish(&job);
    await_ends(pidfds);
    uint64_t took_ms = root_now_ms() - since_ms;
    if (victim == ONE_RANK) {
        char words[64];
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            fail_msg("the launcher says that all is well: %s", job.text);
        snprintf(words, sizeof words, "rank %d (p", rank); // "(pid N) was killed", "(process N)..."
        root_expect(&job, words);
        root_expect(&job, signal_number == SIGSTOP ? "is stopped" : "rank");
    }
    return took_ms;
}

static void strike_often(enum way way, enum victim victim, int signal_number, int count,
                         uint64_t limit_ms)
{
    need(way);
    uint64_t slowest_ms = 0, sum_ms = 0;
    const char *want_long = getenv("LEAT_LONG");
    if (want_long && *want_long)
        count = 200;
    for (int i = 0; i < count; i++) {
        uint64_t took_ms = strike(way, victim, signal_number);
        slowest_ms = took_ms > slowest_ms ? took_ms : slowest_ms;
        sum_ms += took_ms;
        if (took_ms > limit_ms + SLACK_MS)
            fail_msg("blow %d: all had ended after %d ms, promised are %d", i, (int)took_ms,
                     (int)limit_ms);
    }
    print_message("%d times: all had ended after %d ms in the mean, %d at most (%d promised)\n",
                  count, (int)(sum_ms / (uint64_t)count), (int)slowest_ms, (int)limit_ms);
}

#define TIMEOUT_MS 500 /* LEAT_TIMEOUT of these jobs */

static void test_leat_run_ends_after_a_killed_rank(void **state)
{
    (void)state;
    strike_often(BY_LEAT_RUN, ONE_RANK, SIGKILL, 12, ENDED_MS);
}

static void test_leat_run_ends_after_a_stopped_rank(void **state)
{
    (void)state;
    strike_often(BY_LEAT_RUN, ONE_RANK, SIGSTOP, 3, TIMEOUT_MS + ENDED_MS);
}

static void test_nothing_is_left_of_a_killed_leat_run(void **state)
{
    (void)state;
    strike_often(BY_LEAT_RUN, THE_LAUNCHER, SIGKILL, 12, ENDED_MS);
}

static void test_mpirun_ends_after_a_killed_rank(void **state)
{
    (void)state;
    strike_often(BY_MPIRUN, ONE_RANK, SIGKILL, 5, ENDED_MS);
}

static void test_mpirun_ends_after_a_stopped_rank(void **state)
{
    (void)state;
    strike_often(BY_MPIRUN, ONE_RANK, SIGSTOP, 2, TIMEOUT_MS + ENDED_MS);
}

static void test_nothing_is_left_of_a_killed_mpirun(void **state)
{
    (void)state;
    strike_often(BY_MPIRUN, THE_LAUNCHER, SIGKILL, 3, ENDED_MS);
}

// A killed mpirun leaves its session directory, which is the test's to remove.
static char directory[] = "/tmp/leat-test-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? setenv("TMPDIR", directory, 1) : -1;
}

static int remove_directory(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(int argc, char **argv)
{
    root_play_role(argc, argv);
    setenv("LEAT_TIMEOUT", "0.5", 1);
    setenv("LEAT_ARENA", "64M", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leat_run_ends_after_a_killed_rank),
        cmocka_unit_test(test_leat_run_ends_after_a_stopped_rank),
        cmocka_unit_test(test_nothing_is_left_of_a_killed_leat_run),
        cmocka_unit_test(test_mpirun_ends_after_a_killed_rank),
        cmocka_unit_test(test_mpirun_ends_after_a_stopped_rank),
        cmocka_unit_test(test_nothing_is_left_of_a_killed_mpirun),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
