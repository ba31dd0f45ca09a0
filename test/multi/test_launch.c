// SPDX-License-Identifier: Apache-2.0
// The launcher: what ranks get, how a job ends, what is left, what cannot start.

#include "launch_job.h"

#include <leat/leat.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ENDED_MS 2000 // all of a job, after one of its ranks was killed
#define SLACK_MS 2000 // for a machine busy with other tests

// After everything: ends within two seconds of `since_ms`.
static void expect_ended_soon(uint64_t since_ms)
{
    uint64_t took_ms = job_now_ms() - since_ms;
    if (took_ms > ENDED_MS + SLACK_MS)
        fail_msg("the job took %llu ms to end", (unsigned long long)took_ms);
}

static void expect_killed_message(const struct job *job, int rank, pid_t pid)
{
    char message[128];
    snprintf(message, sizeof message, "leat: rank %d (pid %d) was killed by signal 9 (Killed)\n",
             rank, (int)pid);
    assert_string_equal(job->error_text, message);
}

// ---- What ranks get ----

static void test_a_good_job_returns_0_and_is_silent(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, false, JOB_ROLE("exit", "0", "0", "0"));
    job_finish(&job, 0);
    assert_string_equal(job.error_text, "");
}

static void test_ranks_join_the_job_with_rank_size_and_grid(void **state)
{
    (void)state;
    struct job job;
    struct launch_options options = {.rank_count = 6,
                                     .grid = {3, 1, 2},
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .program = JOB_PROGRAM,
                                     .argv = JOB_ROLE("environment")};
    job_start(&job, &options, "");
    job_finish(&job, 0);
    assert_int_equal(job_count_lines(job.text), 6);
    for (int rank = 0; rank < 6; rank++) {
        char line[64];
        snprintf(line, sizeof line, "%d/6 is %d/6 of grid 3 1 2\n", rank, rank);
        job_expect_words(job.text, line);
    }
}

static void test_only_rank_0_reads_standard_input(void **state)
{
    (void)state;
    struct job job;
    struct launch_options options = {.rank_count = 3,
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .program = JOB_PROGRAM,
                                     .argv = JOB_ROLE("stdin")};
    job_start(&job, &options, "hello");
    job_finish(&job, 0);
    job_expect_words(job.text, "0 read \"hello\"\n");
    job_expect_words(job.text, "1 read \"\"\n");
    job_expect_words(job.text, "2 read \"\"\n");
}

static void test_ranks_inherit_three_streams_and_no_blocked_signal(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 2, false, JOB_ROLE("inherited"));
    job_finish(&job, 0);
    assert_string_equal(job.text, "1 descriptors, 0 blocked signals\n"
                                  "1 descriptors, 0 blocked signals\n");
}

static void test_this_process_was_not_launched(void **state)
{
    (void)state;
    assert_false(leat_launched());
}

// ---- How a job ends ----

static void test_the_first_failing_status_is_returned_and_named(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, false, JOB_ROLE("exit", "0", "3", "0"));
    job_finish(&job, 3);
    job_expect_words(job.error_text, "leat: rank 1 (pid ");
    job_expect_words(job.error_text, ") exited with status 3\n");
    assert_int_equal(job_count_lines(job.error_text), 1);
}

// Kills rank 2 of four; the others would stay for ever.
static void kill_one_of(char *const argv[])
{
    struct job job;
    job_start_role(&job, 4, false, argv);
    job_await_lines(&job, 4);
    pid_t victim = job_pid(&job, "2");
    uint64_t since_ms = job_now_ms();
    kill(victim, SIGKILL);
    job_finish(&job, 128 + SIGKILL);
    expect_ended_soon(since_ms);
    expect_killed_message(&job, 2, victim);
}

static void test_a_killed_rank_ends_the_job_and_is_named_once(void **state)
{
    (void)state;
    kill_one_of(JOB_ROLE("wait"));
}

static void test_ranks_deaf_to_sigterm_are_ended(void **state)
{
    (void)state;
    kill_one_of(JOB_ROLE("deaf"));
}

static void test_stopped_ranks_are_ended(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, false, JOB_ROLE("stop"));
    job_await_lines(&job, 3);
    pid_t victim = job_pid(&job, "0");
    uint64_t since_ms = job_now_ms();
    kill(victim, SIGKILL);
    job_finish(&job, 128 + SIGKILL);
    expect_ended_soon(since_ms);
    expect_killed_message(&job, 0, victim);
}

static void test_what_ranks_left_behind_is_ended(void **state)
{
    (void)state;
    struct job job;
    if (access("/proc/thread-self/children", R_OK) != 0) {
        print_message("skipped: this kernel does not list a process's children\n");
        skip();
    }
    job_start_role(&job, 2, false, JOB_ROLE("with_child"));
    job_await_lines(&job, 4);
    pid_t victim = job_pid(&job, "1");
    uint64_t since_ms = job_now_ms();
    kill(victim, SIGKILL);
    job_finish(&job, 128 + SIGKILL); // at the end of file the children have ended, too
    expect_ended_soon(since_ms);
    expect_killed_message(&job, 1, victim);
}

static void test_a_killed_launcher_takes_the_ranks_along(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, false, JOB_ROLE("deaf"));
    job_await_lines(&job, 3);
    uint64_t since_ms = job_now_ms();
    kill(job.launcher, SIGKILL);
    int status = job_finish_raw(&job);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_ended_soon(since_ms);
}

// What ranks have started, too: end of file comes when the last of them has ended.
static void kill_one_launcher(bool keeper, int expected_signal, const char *words)
{
    struct job job;
    if (access("/proc/thread-self/children", R_OK) != 0) {
        print_message("skipped: this kernel does not list a process's children\n");
        skip();
    }
    job_start_role(&job, 3, false, JOB_ROLE("with_child"));
    job_await_lines(&job, 6);
    pid_t victim = keeper ? job_parent(job_pid(&job, "1")) : job.launcher;
    assert_true(keeper ? victim != job.launcher && job_parent(victim) == job.launcher : true);
    uint64_t since_ms = job_now_ms();
    kill(victim, SIGKILL);
    int status = job_finish_raw(&job);
    if (keeper)
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + expected_signal);
    else
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == expected_signal);
    expect_ended_soon(since_ms);
    job_expect_words(job.error_text, words);
}

static void test_a_killed_launcher_takes_along_what_ranks_have_started(void **state)
{
    (void)state;
    kill_one_launcher(false, SIGKILL, "was killed, so its 3 ranks are ended");
}

static void test_a_killed_keeper_takes_along_what_ranks_have_started(void **state)
{
    (void)state;
    kill_one_launcher(true, SIGKILL, "the keeper of the ranks (pid ");
}

static void test_survivors_go_on_when_asked_to(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, true, JOB_ROLE("obey"));
    job_await_lines(&job, 3);
    pid_t first = job_pid(&job, "1"), second = job_pid(&job, "2");
    kill(first, SIGKILL);
    // Its message shows that the launcher knows, and has let the others be.
    char message[256];
    job_read_error(&job, message, sizeof message);
    job_expect_words(message, "leat: rank 1 (pid ");
    kill(second, SIGKILL);
    job_read_error(&job, message, sizeof message);
    job_expect_words(message, "leat: rank 2 (pid ");
    // Longer than any grace that others would have had: nothing is said and nothing ends.
    struct pollfd poller = {.fd = job.said, .events = POLLIN};
    assert_int_equal(poll(&poller, 1, 1600), 0);
    assert_int_equal(write(job.go, "g", 1), 1);
    job_finish(&job, 128 + SIGKILL);
    assert_string_equal(job.error_text, "");
}

static void test_sigterm_is_handed_on(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 3, false, JOB_ROLE("polite"));
    job_await_lines(&job, 3);
    kill(job.launcher, SIGTERM);
    job_finish(&job, 0);
    assert_string_equal(job.error_text, "");
}

static void test_sigint_is_handed_on_and_a_second_one_kills(void **state)
{
    (void)state;
    struct job job;
    job_start_role(&job, 2, false, JOB_ROLE("deaf"));
    job_await_lines(&job, 2);
    kill(job.launcher, SIGINT);
    job_await_lines(&job, 4); // both ranks have had it, and stay
    uint64_t since_ms = job_now_ms();
    struct pollfd poller = {.fd = job.said, .events = POLLIN};
    do // two in quick succession count as one
        kill(job.launcher, SIGINT);
    while (poll(&poller, 1, 20) == 0 && job_now_ms() - since_ms < JOB_LIMIT_MS);
    job_finish(&job, 128 + SIGINT);
    expect_ended_soon(since_ms);
    assert_int_equal(job_count_lines(job.text), 4);
}

// ---- What peers see ----

static void expect_await(char *how, const char *words, int status)
{
    struct job job;
    job_start_role(&job, 2, false, JOB_ROLE("await", how));
    if (!strcmp(how, "die")) {
        job_await_lines(&job, 2);
        kill(job_pid(&job, "1"), SIGKILL);
    }
    job_finish(&job, status);
    char expected[32];
    snprintf(expected, sizeof expected, "wait: %d ", -ECONNRESET);
    job_expect_words(job.text, expected);
    job_expect_words(job.text, words);
}

static void test_a_waiting_peer_hears_of_the_death(void **state)
{
    (void)state;
    expect_await("die", "rank 1", 128 + SIGKILL);
}

static void test_a_peer_that_comes_later_hears_how_the_rank_ended(void **state)
{
    (void)state;
    struct job job;
    char message[256];
    job_start_role(&job, 2, true, JOB_ROLE("await", "late"));
    job_await_lines(&job, 2);
    kill(job_pid(&job, "1"), SIGKILL);
    job_read_error(&job, message, sizeof message); // the launcher has seen it
    assert_int_equal(write(job.go, "g", 1), 1);
    job_finish(&job, 128 + SIGKILL);
    job_expect_words(job.text, "rank 1 was killed by signal 9");
}

static void test_a_waiting_peer_hears_of_the_failure_and_its_reason(void **state)
{
    (void)state;
    expect_await("fail", "the box is too small", 1);
}

static void test_a_waiting_peer_hears_of_the_orderly_end(void **state)
{
    (void)state;
    expect_await("leave", "rank 1", 0);
}

// ---- What cannot start ----

static void expect_not_executed(const char *program, int status, const char *words)
{
    struct job job;
    struct launch_options options = {.rank_count = 3,
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .program = program,
                                     .argv = (char *[]){"program", NULL}};
    job_start(&job, &options, "");
    job_finish(&job, status);
    job_expect_words(job.error_text, program);
    job_expect_words(job.error_text, words);
    assert_int_equal(job_count_lines(job.error_text), 1);
}

static void test_a_missing_program_gives_127(void **state)
{
    (void)state;
    expect_not_executed("leat-no-such-program", 127, strerror(ENOENT));
    expect_not_executed("/nowhere/program", 127, strerror(ENOENT));
}

static void test_a_directory_as_program_gives_126(void **state)
{
    (void)state;
    expect_not_executed("/", 126, strerror(EACCES));
}

static void test_a_missing_interpreter_is_said_to_be_missing(void **state)
{
    (void)state;
    char path[] = "launch_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "#!/nowhere/interpreter\n");
    fchmod(fd, 0700);
    close(fd);
    char program[64];
    snprintf(program, sizeof program, "./%s", path);
    expect_not_executed(program, 127, "interpreter");
    unlink(path);
}

static void expect_refused(const struct launch_options *options, const char *words)
{
    int status = 55;
    assert_int_equal(leat_launch(options, &status), -EINVAL);
    job_expect_words(leat_error_detail(), words);
    assert_int_equal(status, 55);
}

static void test_a_grid_of_another_size_is_refused(void **state)
{
    (void)state;
    struct launch_options options = {.rank_count = 4,
                                     .grid = {2, 2, 2},
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .program = JOB_PROGRAM,
                                     .argv = JOB_ROLE("exit", "0")};
    expect_refused(&options, "2x2x2");
    options.grid[2] = 0;
    expect_refused(&options, "2x2x0");
    options.grid[1] = 3;
    options.grid[2] = 1;
    expect_refused(&options, "2x3x1");
    options = (struct launch_options){.rank_count = 0, .arena_bytes = JOB_ARENA_BYTES};
    expect_refused(&options, "0 ranks");
}

static void test_a_process_limit_is_named_and_no_rank_runs(void **state)
{
    (void)state;
    struct job job;
    struct launch_options options = {.rank_count = 3,
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .program = JOB_PROGRAM,
                                     .argv = JOB_ROLE("wait")};
    job_start_limited(&job, &options, "", 1);
    job_finish(&job, JOB_NOT_STARTED);
    assert_string_equal(job.text, "");
    char expected[32];
    snprintf(expected, sizeof expected, "error %d: ", -EAGAIN);
    job_expect_words(job.error_text, expected);
    job_expect_words(job.error_text, "ulimit -u");
}

int main(int argc, char **argv)
{
    job_play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_job_returns_0_and_is_silent),
        cmocka_unit_test(test_ranks_join_the_job_with_rank_size_and_grid),
        cmocka_unit_test(test_only_rank_0_reads_standard_input),
        cmocka_unit_test(test_ranks_inherit_three_streams_and_no_blocked_signal),
        cmocka_unit_test(test_this_process_was_not_launched),
        cmocka_unit_test(test_the_first_failing_status_is_returned_and_named),
        cmocka_unit_test(test_a_killed_rank_ends_the_job_and_is_named_once),
        cmocka_unit_test(test_ranks_deaf_to_sigterm_are_ended),
        cmocka_unit_test(test_stopped_ranks_are_ended),
        cmocka_unit_test(test_what_ranks_left_behind_is_ended),
        cmocka_unit_test(test_a_killed_launcher_takes_the_ranks_along),
        cmocka_unit_test(test_a_killed_launcher_takes_along_what_ranks_have_started),
        cmocka_unit_test(test_a_killed_keeper_takes_along_what_ranks_have_started),
        cmocka_unit_test(test_survivors_go_on_when_asked_to),
        cmocka_unit_test(test_sigterm_is_handed_on),
        cmocka_unit_test(test_sigint_is_handed_on_and_a_second_one_kills),
        cmocka_unit_test(test_a_waiting_peer_hears_of_the_death),
        cmocka_unit_test(test_a_peer_that_comes_later_hears_how_the_rank_ended),
        cmocka_unit_test(test_a_waiting_peer_hears_of_the_failure_and_its_reason),
        cmocka_unit_test(test_a_waiting_peer_hears_of_the_orderly_end),
        cmocka_unit_test(test_a_missing_program_gives_127),
        cmocka_unit_test(test_a_directory_as_program_gives_126),
        cmocka_unit_test(test_a_missing_interpreter_is_said_to_be_missing),
        cmocka_unit_test(test_a_grid_of_another_size_is_refused),
        cmocka_unit_test(test_a_process_limit_is_named_and_no_rank_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
