// SPDX-License-Identifier: Apache-2.0
// Jobs under the launcher; see launch_job.h. One half runs in the ranks, the other in the test.
//
// Advantage: ranks need no program of their own. Disadvantage: a role that goes wrong has only its
// exit status (93 to 97) to tell so.

#define _GNU_SOURCE
#include "launch_job.h"

#include <leat/leat.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

// ---- Ranks ----

static int number_named(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : -1;
}

static int rank_number(void)
{
    return number_named("LEAT_RANK");
}

__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(number_named("TEST_REPORT_FD"), line, (size_t)length) != length)
        _exit(97);
}

// Should a launcher not do what is tested, its ranks go in the end.
static void limit_life(void)
{
    alarm(3 * JOB_LIMIT_MS / 1000);
}

static void pause_for_ever(void)
{
    for (;;)
        pause();
}

// argv: one exit status a rank.
static int rank_exit(char **argv)
{
    return atoi(argv[rank_number()]);
}

static int rank_wait(char **argv)
{
    (void)argv;
    report("%d %d\n", rank_number(), (int)getpid());
    pause_for_ever();
    return 0;
}

// A handler may not look up the environment.
static volatile sig_atomic_t signal_fd = -1;

static void report_signal(int number)
{
    static const char line[] = "signal\n";
    (void)number;
    if (write(signal_fd, line, sizeof line - 1) < 0)
        _exit(97);
}

static int rank_deaf(char **argv)
{
    signal(SIGINT, report_signal);
    signal(SIGTERM, report_signal);
    return rank_wait(argv);
}

static void leave_quietly(int number)
{
    _exit(number == SIGTERM ? 0 : 96);
}

static int rank_polite(char **argv)
{
    signal(SIGTERM, leave_quietly);
    return rank_wait(argv);
}

static int rank_stop(char **argv)
{
    if (rank_number() == 0)
        return rank_wait(argv);
    report("%d %d\n", rank_number(), (int)getpid());
    raise(SIGSTOP);
    return 0;
}

// Rank 0 goes on when it is told to.
static int rank_obey(char **argv)
{
    char byte;
    if (rank_number() > 0)
        return rank_wait(argv);
    report("0 %d\n", (int)getpid());
    return read(number_named("TEST_GO_FD"), &byte, 1) == 1 ? 0 : 95;
}

static int rank_with_child(char **argv)
{
    if (fork() > 0)
        return rank_wait(argv);
    signal(SIGTERM, report_signal);
    limit_life(); // a child does not inherit it
    report("child %d\n", (int)getpid());
    pause_for_ever();
    return 0;
}

static int rank_environment(char **argv)
{
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    (void)argv;
    if (!leat_launched() || leat_open(NULL, &job) || leat_job_info_get(job, &info)) {
        report("%s\n", leat_error_detail());
        return 1;
    }
    report("%s/%s is %d/%d of grid %d %d %d\n", getenv("LEAT_RANK"), getenv("LEAT_SIZE"), info.rank,
           info.rank_count, info.grid[0], info.grid[1], info.grid[2]);
    leat_close(job, NULL);
    return 0;
}

static int rank_stdin(char **argv)
{
    char text[64];
    (void)argv;
    ssize_t got = read(STDIN_FILENO, text, sizeof text - 1);
    text[got > 0 ? got : 0] = '\0';
    report("%d read \"%s\"\n", rank_number(), text);
    return 0;
}

// Descriptors that a program started from here would have.
static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return count;
}

static int rank_inherited(char **argv)
{
    sigset_t blocked;
    int signals = 0;
    (void)argv;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int number = 1; number < 32; number++)
        signals += sigismember(&blocked, number) == 1;
    report("%d descriptors, %d blocked signals\n",
           count_descriptors() - number_named("TEST_DESCRIPTORS"), signals);
    return 0;
}

// Rank 0 waits for a signal that rank 1 never raises.
static int rank_await(char **argv)
{
    leat_job *job;
    leat_region *region;
    const leat_options options = {.size = sizeof options, .timeout_s = 60};
    const leat_region_options memory = {.size = sizeof memory, .bytes = LEAT_SIGNAL_BYTES};
    if (leat_open(&options, &job))
        return 1;
    if (rank_number() == 1) {
        if (!strcmp(argv[0], "die") || !strcmp(argv[0], "late"))
            return rank_wait(argv);
        leat_close(job, !strcmp(argv[0], "fail") ? "the box is too small" : NULL);
        return !strcmp(argv[0], "fail") ? 1 : 0;
    }
    if (leat_region_alloc(job, &memory, &region))
        return 1;
    const leat_event event = {.signal = {region, 0}, .at_least = 1, .from = 1};
    report("0 %d\n", (int)getpid());
    char byte;
    if (!strcmp(argv[0], "late") && read(number_named("TEST_GO_FD"), &byte, 1) != 1)
        return 95;
    int error = leat_wait(job, &event, 1, LEAT_WAIT_ALL, -1, NULL);
    report("wait: %d %s\n", error, leat_error_detail());
    leat_close(job, NULL);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(char **argv);
} rank_roles[] = {{"exit", rank_exit},
                  {"wait", rank_wait},
                  {"deaf", rank_deaf},
                  {"polite", rank_polite},
                  {"stop", rank_stop},
                  {"obey", rank_obey},
                  {"with_child", rank_with_child},
                  {"environment", rank_environment},
                  {"stdin", rank_stdin},
                  {"inherited", rank_inherited},
                  {"await", rank_await}};

void job_play_role(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "rank") != 0)
        return;
    for (size_t i = 0; i < sizeof rank_roles / sizeof *rank_roles; i++)
        if (!strcmp(argv[2], rank_roles[i].name)) {
            limit_life();
            signal_fd = number_named("TEST_REPORT_FD");
            exit(rank_roles[i].run(argv + 3));
        }
    exit(94);
}

// ---- Jobs ----

uint64_t job_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void set_fd(const char *variable, int fd)
{
    char text[16];
    snprintf(text, sizeof text, "%d", fd);
    setenv(variable, text, 1);
}

static _Noreturn void be_launcher(const struct launch_options *options, unsigned process_limit)
{
    int status = 0;
    struct rlimit limit = {.rlim_cur = process_limit, .rlim_max = process_limit};
    // The limit does not bind the superuser.
    if (process_limit && (setrlimit(RLIMIT_NPROC, &limit) || (!geteuid() && setuid(65534))))
        _exit(93);
    int error = leat_launch(options, &status);
    if (error)
        dprintf(STDERR_FILENO, "error %d: %s\n", error, leat_error_detail());
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        _exit(JOB_LEFT_OVER);
    _exit(error ? JOB_NOT_STARTED : status);
}

void job_start_limited(struct job *job, const struct launch_options *options, const char *input,
                       unsigned process_limit)
{
    int said[2], go[2], errors[2], in[2];
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_true(write(in[1], input, strlen(input)) == (ssize_t)strlen(input));
    close(in[1]);
    fflush(NULL);
    *job = (struct job){.said = said[0], .go = go[1], .errors = errors[0]};
    job->launcher = fork();
    if (job->launcher == 0) {
        set_fd("TEST_REPORT_FD", said[1]);
        set_fd("TEST_GO_FD", go[0]);
        close(said[0]);
        close(go[1]);
        set_fd("TEST_DESCRIPTORS", count_descriptors());
        dup2(in[0], STDIN_FILENO);
        dup2(errors[1], STDERR_FILENO);
        be_launcher(options, process_limit);
    }
    assert_true(job->launcher > 0);
    close(said[1]);
    close(go[0]);
    close(errors[1]);
    close(in[0]);
}

void job_start(struct job *job, const struct launch_options *options, const char *input)
{
    job_start_limited(job, options, input, 0);
}

void job_start_role(struct job *job, int rank_count, bool survive, char *const argv[])
{
    struct launch_options options = {.rank_count = rank_count,
                                     .arena_bytes = JOB_ARENA_BYTES,
                                     .survive = survive,
                                     .program = JOB_PROGRAM,
                                     .argv = argv};
    job_start(job, &options, "");
}

// More of the ranks' lines; false at their end.
static bool read_more(struct job *job)
{
    struct pollfd poller = {.fd = job->said, .events = POLLIN};
    if (poll(&poller, 1, JOB_LIMIT_MS) != 1) {
        kill(job->launcher, SIGKILL);
        fail_msg("the job said nothing and did not end for %d ms; so far: %s", JOB_LIMIT_MS,
                 job->text);
    }
    ssize_t got =
        read(job->said, job->text + job->text_bytes, sizeof job->text - 1 - job->text_bytes);
    assert_true(got >= 0);
    job->text_bytes += (size_t)got;
    job->text[job->text_bytes] = '\0';
    return got > 0;
}

int job_count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

void job_await_lines(struct job *job, int lines)
{
    while (job_count_lines(job->text) < lines)
        if (!read_more(job))
            fail_msg("the job ended after \"%s\", %d lines were expected", job->text, lines);
}

pid_t job_pid(const struct job *job, const char *who)
{
    char key[32];
    snprintf(key, sizeof key, "%s ", who);
    const char *line = job->text;
    while (line && strncmp(line, key, strlen(key)) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (line)
        return (pid_t)atoi(line + strlen(key));
    fail_msg("%s did not report itself in \"%s\"", who, job->text);
    return -1;
}

pid_t job_parent(pid_t pid)
{
    char path[48];
    int parent = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
    fclose(file);
    return parent;
}

void job_read_error(struct job *job, char *text, size_t bytes)
{
    ssize_t got = read(job->errors, text, bytes - 1);
    assert_true(got > 0);
    text[got] = '\0';
}

static void read_errors(struct job *job)
{
    size_t used = 0;
    ssize_t got;
    while ((got = read(job->errors, job->error_text + used, sizeof job->error_text - 1 - used)) > 0)
        used += (size_t)got;
    job->error_text[used] = '\0';
}

int job_finish_raw(struct job *job)
{
    int status;
    while (read_more(job))
        ;
    read_errors(job);
    assert_int_equal(waitpid(job->launcher, &status, 0), job->launcher);
    close(job->said);
    close(job->go);
    close(job->errors);
    return status;
}

void job_finish(struct job *job, int expected_status)
{
    int status = job_finish_raw(job);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected_status)
        fail_msg("wait status %#x, expected exit status %d; standard error: %s", status,
                 expected_status, job->error_text);
}

void job_expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" not in \"%s\"", words, text);
}
