// SPDX-License-Identifier: Apache-2.0
// Starts, leads and ends the sides of a benchmark; the algorithm is told in the header.

#define _GNU_SOURCE
#include "bench_sides.h"

#include "core/error.h"
#include "core/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { ANSWER_S = 120, END_MS = 10000, FAILED_MS = 2000 };

const char *const bench_peer_names[BENCH_PEER_COUNT] = {"openmpi", "mpich"};

// Room for the launcher, its options, the number of ranks, program, directory and side.
static const struct {
    const char *options[4];
    const char *packages;
} peers[BENCH_PEER_COUNT] = {
    {{"--allow-run-as-root", "--oversubscribe", "-np"}, "openmpi-bin and libopenmpi-dev"},
    {{"-n"}, "mpich and libmpich-dev"},
};

static sigset_t ending_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

int bench_open(struct bench_sides *sides, int rank_count)
{
    *sides = (struct bench_sides){.rank_count = rank_count, .answer_s = ANSWER_S, .signals = -1};
    snprintf(sides->directory, sizeof sides->directory, "/tmp/leat-bench-XXXXXX");
    if (!mkdtemp(sides->directory)) {
        sides->directory[0] = 0;
        return leat_fail(-EIO, "cannot make a directory in /tmp: %s", strerror(errno));
    }
    sigset_t set = ending_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
    sides->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return 0;
}

// ---- command lines ----

static void add(struct bench_side *side, const char *argument)
{
    if (argument && side->argument_count + 1 < (int)(sizeof side->arguments / sizeof argument))
        side->arguments[side->argument_count++] = argument;
}

static struct bench_side *new_side(struct bench_sides *sides, const char *name)
{
    if (sides->side_count == BENCH_SIDES_MAX)
        return NULL;
    struct bench_side *side = &sides->side[sides->side_count++];
    side->name = name;
    return side;
}

static void add_rank_count(struct bench_sides *sides, struct bench_side *side)
{
    snprintf(side->ranks, sizeof side->ranks, "%d", sides->rank_count);
    add(side, side->ranks);
}

struct bench_side *bench_add_leat(struct bench_sides *sides, const char *name,
                                  const char *rank_command, const char *extra)
{
    struct bench_side *side = new_side(sides, name);
    if (!side)
        return NULL;
    static const char *const head[] = {"/proc/self/exe", "run", "-n"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        add(side, head[i]);
    add_rank_count(sides, side);
    const char *const tail[] = {"/proc/self/exe", "bench", rank_command,
                                sides->directory, name,    extra};
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++)
        add(side, tail[i]);
    return side;
}

void bench_add_setting(struct bench_side *side, const char *setting)
{
    if (side->setting_count < (int)(sizeof side->setting / sizeof *side->setting))
        snprintf(side->setting[side->setting_count++], sizeof *side->setting, "%s", setting);
}

static bool on_path(const char *program)
{
    const char *at = getenv("PATH");
    char path[1024];
    while (at && *at) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, at, program);
        if (access(path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

bool bench_beside(const char *program, char *path, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    char *slash = length > 0 ? (path[length] = 0, strrchr(path, '/')) : NULL;
    if (!slash)
        return false;
    snprintf(slash + 1, bytes - (size_t)(slash + 1 - path), "%s", program);
    return access(path, X_OK) == 0;
}

struct bench_side *bench_add_peer(struct bench_sides *sides, int peer, const char *launcher,
                                  const char *program)
{
    char path[480];
    const char *absent = !on_path(launcher)                          ? launcher
                         : !bench_beside(program, path, sizeof path) ? program
                                                                     : NULL;
    if (absent) {
        fprintf(stderr,
                "leat bench: %s is not there, so %s is not measured; %s bring it (with them, build "
                "again)\n",
                absent, bench_peer_names[peer], peers[peer].packages);
        return NULL;
    }
    struct bench_side *side = new_side(sides, bench_peer_names[peer]);
    if (!side)
        return NULL;
    snprintf(side->launcher, sizeof side->launcher, "%s", launcher);
    snprintf(side->program, sizeof side->program, "%s", path);
    add(side, side->launcher);
    for (int i = 0; peers[peer].options[i]; i++)
        add(side, peers[peer].options[i]);
    add_rank_count(sides, side);
    add(side, side->program);
    add(side, sides->directory);
    add(side, side->name);
    return side;
}

// ---- starting and ending ----

// Read and write, so that opening waits for nobody and a side that dies is no broken pipe.
static int make_pipe(const struct bench_sides *sides, const struct bench_side *side,
                     const char *end, int *fd)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.%s", sides->directory, side->name, end);
    if (mkfifo(path, 0600) || (*fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return leat_fail(-EIO, "cannot make the pipe %s: %s", path, strerror(errno));
    return 0;
}

static int make_pipes(struct bench_sides *sides, struct bench_side *side)
{
    int error = make_pipe(sides, side, "out", &side->answers);
    for (int rank = 0; !error && rank < sides->rank_count; rank++) {
        char end[12];
        snprintf(end, sizeof end, "%d", rank);
        error = make_pipe(sides, side, end, &side->commands[rank]);
    }
    return error;
}

// Standard output belongs to the report.
static _Noreturn void run_side(const struct bench_side *side)
{
    char *arguments[sizeof side->arguments / sizeof *side->arguments] = {0};
    for (int i = 0; i < side->argument_count; i++)
        arguments[i] = (char *)(uintptr_t)side->arguments[i];
    sigset_t set = ending_signals();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    int quiet = open("/dev/null", O_RDONLY);
    dup2(quiet, 0);
    dup2(2, 1);
    for (int i = 0; i < side->setting_count; i++)
        putenv((char *)(uintptr_t)side->setting[i]);
    if (arguments[0])
        execvp(arguments[0], arguments);
    fprintf(stderr, "leat bench: cannot run the %s ranks: %s\n", side->name, strerror(errno));
    _exit(127);
}

int bench_start(struct bench_sides *sides)
{
    int error = 0;
    fflush(NULL);
    for (int i = 0; !error && i < sides->side_count; i++) {
        struct bench_side *side = &sides->side[i];
        error = make_pipes(sides, side);
        if (!error && (side->pid = fork()) == 0)
            run_side(side);
        if (side->pid < 0)
            error = leat_fail(-errno, "cannot start the %s ranks: %s", side->name, strerror(errno));
    }
    return error;
}

static int send_command(const struct bench_sides *sides, const struct bench_side *side,
                        const char *command)
{
    for (int rank = 0; rank < sides->rank_count; rank++)
        if (write(side->commands[rank], command, strlen(command)) != (ssize_t)strlen(command))
            return leat_fail(-EIO, "%s: cannot send a command: %s", side->name, strerror(errno));
    return 0;
}

// Ranks that sleep end by themselves, without the noise that launchers make about signals.
static void end_side(const struct bench_sides *sides, struct bench_side *side, int error)
{
    if (side->pid <= 0)
        return;
    int patience_ms = send_command(sides, side, "end 0 0\n") ? 0 : error ? FAILED_MS : END_MS;
    for (int ms = 0; waitpid(side->pid, NULL, WNOHANG) == 0; ms += 10) {
        if (ms == patience_ms)
            kill(side->pid, SIGTERM);
        if (ms == patience_ms + END_MS)
            kill(side->pid, SIGKILL);
        usleep(10000);
    }
    side->pid = 0;
}

static void unlink_end(const struct bench_sides *sides, const struct bench_side *side,
                       const char *end)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.%s", sides->directory, side->name, end);
    unlink(path);
}

void bench_close(struct bench_sides *sides, int error)
{
    if (!sides->directory[0])
        return;
    for (int i = 0; i < sides->side_count; i++) {
        struct bench_side *side = &sides->side[i];
        end_side(sides, side, error);
        for (int rank = 0; rank < sides->rank_count; rank++) {
            char end[12];
            snprintf(end, sizeof end, "%d", rank);
            unlink_end(sides, side, end);
            if (side->commands[rank])
                close(side->commands[rank]);
        }
        unlink_end(sides, side, "out");
        unlink_end(sides, side, "board");
        if (side->answers)
            close(side->answers);
    }
    rmdir(sides->directory);
    if (sides->signals >= 0)
        close(sides->signals);
    sigset_t set = ending_signals();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

// ---- slices ----

// Reads what there is within 50 ms.
static int read_more(const struct bench_sides *sides, struct bench_side *side)
{
    struct pollfd poller[] = {{.fd = side->answers, .events = POLLIN},
                              {.fd = sides->signals, .events = POLLIN}};
    struct signalfd_siginfo signal;
    int status, ready = poll(poller, 2, 50);
    if (ready > 0 && poller[1].revents && read(sides->signals, &signal, sizeof signal) > 0)
        return leat_fail(-EINTR, "ended by signal %u (%s)", signal.ssi_signo,
                         strsignal((int)signal.ssi_signo));
    if (ready > 0 && poller[0].revents) {
        ssize_t got = read(side->answers, side->text + side->text_bytes,
                           sizeof side->text - 1 - side->text_bytes);
        if (got <= 0)
            return leat_fail(-EIO, "%s: no answer can be read", side->name);
        side->text_bytes += (size_t)got;
    } else if (waitpid(side->pid, &status, WNOHANG) == side->pid) {
        side->pid = 0;
        return leat_fail(-ECHILD, "the %s ranks have ended in mid-run; their message is above",
                         side->name);
    }
    return 0;
}

static int take_answer(struct bench_sides *sides, const struct bench_side *side, const char *line)
{
    int rank, used = 0;
    if (sscanf(line, "%d%n", &rank, &used) != 1 || rank < 0 || rank >= sides->rank_count)
        return leat_fail(-EPROTO, "%s answered \"%s\"", side->name, line);
    const char *at = line + used;
    if (strncmp(at, " error ", 7) == 0)
        return leat_fail(-EREMOTEIO, "%s, rank %d: %s", side->name, rank, at + 7);
    double *values = sides->values[rank];
    memset(values, 0, sizeof sides->values[rank]);
    for (int i = 0; i < SLICE_VALUES_MAX && *at; i++) {
        char *end;
        values[i] = strtod(at, &end);
        if (end == at)
            return leat_fail(-EPROTO, "%s answered \"%s\"", side->name, line);
        at = end;
    }
    return 0;
}

static int await_answers(struct bench_sides *sides, struct bench_side *side)
{
    uint64_t deadline_ns = leat_now_ns() + (uint64_t)sides->answer_s * UINT64_C(1000000000);
    int missing = sides->rank_count, error = 0;
    while (missing) {
        char *newline = memchr(side->text, '\n', side->text_bytes);
        if (newline) {
            *newline = 0;
            error = take_answer(sides, side, side->text);
            side->text_bytes -= (size_t)(newline + 1 - side->text);
            memmove(side->text, newline + 1, side->text_bytes);
            missing--;
        } else {
            error = read_more(sides, side);
        }
        if (!error && missing && leat_now_ns() > deadline_ns)
            error = leat_fail(-ETIMEDOUT, "%d of %d %s ranks did not answer within %d s", missing,
                              sides->rank_count, side->name, sides->answer_s);
        if (error)
            return error;
    }
    return 0;
}

int bench_slice(struct bench_sides *sides, struct bench_side *side, const char *what,
                uint64_t amount, uint64_t count)
{
    char command[64];
    snprintf(command, sizeof command, "%s %" PRIu64 " %" PRIu64 "\n", what, amount, count);
    int error = send_command(sides, side, command);
    return error ? error : await_answers(sides, side);
}

// ---- measuring ----

static int timed(struct bench_sides *sides, struct bench_side *side, const char *what,
                 uint64_t amount, uint64_t count, double *ns)
{
    int error = bench_slice(sides, side, what, amount, count);
    *ns = 0;
    for (int rank = 0; !error && rank < sides->rank_count; rank++)
        if (sides->values[rank][0] > *ns)
            *ns = sides->values[rank][0];
    return error;
}

uint32_t bench_iterations(double slice_ns, double ns)
{
    double count = slice_ns / (ns > 1 ? ns : 1);
    return count < 3 ? 3 : count > 1e6 ? 1000000 : (uint32_t)count;
}

// The first messages of a size may pay for what later ones find ready, so they say little.
static int warm_up(struct bench_sides *sides, struct bench_side *side,
                   const struct bench_pace *pace, const char *what, uint64_t amount)
{
    double ns, slice_ns = pace->slice_ms * 1e6;
    int error = timed(sides, side, what, amount, 3, &ns);
    if (!error)
        error = timed(sides, side, what, amount, bench_iterations(slice_ns / 8, ns), &ns);
    side->iterations = bench_iterations(slice_ns, ns);
    return error;
}

static int measure_round(struct bench_sides *sides, const char *what, uint64_t amount, int round)
{
    int error = timed(sides, &sides->side[0], "flag", 0, 0, &sides->flag_ns.value[round]);
    for (int i = 0; !error && i < sides->side_count; i++) {
        // Nobody is always first.
        struct bench_side *side = &sides->side[(round + i) % sides->side_count];
        if (!side->idle)
            error = timed(sides, side, what, amount, side->iterations, &side->ns.value[round]);
    }
    return error;
}

int bench_measure(struct bench_sides *sides, const struct bench_pace *pace, const char *what,
                  uint64_t amount)
{
    int error = 0, count = sides->side_count;
    for (int i = 0; !error && i < count; i++)
        if (!sides->side[i].idle)
            error = warm_up(sides, &sides->side[i], pace, what, amount);
    for (int round = 0; !error && round < pace->rounds; round++)
        error = measure_round(sides, what, amount, round);
    if (error)
        return error;
    sides->flag_ns.count = pace->rounds;
    bench_sort(&sides->flag_ns);
    for (int i = 0; i < count; i++) {
        sides->side[i].ns.count = sides->side[i].idle ? 0 : pace->rounds;
        bench_sort(&sides->side[i].ns);
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(struct bench_series *series)
{
    qsort(series->value, (size_t)series->count, sizeof *series->value, compare);
}

double bench_best_peer(const struct bench_sides *sides)
{
    double best = 0;
    for (int i = 1; i < sides->side_count; i++) {
        double ns = bench_median(&sides->side[i].ns);
        if (best <= 0 || ns < best)
            best = ns;
    }
    return best;
}

// ---- reporting ----

void bench_json_series(json_t *entry, const char *key, const char *suffix,
                       const struct bench_series *series, double divisor)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", key, suffix);
    json_object_set_new(entry, name, json_real(bench_median(series) / divisor));
    snprintf(name, sizeof name, "%s_min%s", key, suffix);
    json_object_set_new(entry, name, json_real(series->value[0] / divisor));
    snprintf(name, sizeof name, "%s_max%s", key, suffix);
    json_object_set_new(entry, name, json_real(series->value[series->count - 1] / divisor));
}

void bench_print_json(const char *benchmark, const struct bench_sides *sides,
                      const struct bench_pace *pace, json_t *list, json_t *more)
{
    json_t *context = json_pack("{s:s, s:i}", "benchmark", benchmark, "ranks", sides->rank_count);
    if (pace) {
        json_object_set_new(context, "rounds", json_integer(pace->rounds));
        json_object_set_new(context, "slice_ms", json_integer(pace->slice_ms));
    }
    json_t *report = json_pack("{s:s, s:o, s:o}", "schema", "leat.bench/1", "context", context,
                               "benchmarks", list);
    if (more) {
        json_object_update(report, more);
        json_decref(more);
    }
    json_dumpf(report, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(report);
}

void bench_print_series(const struct bench_series *series, double divisor, int width)
{
    char text[96];
    snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", bench_median(series) / divisor,
             series->value[0] / divisor, series->value[series->count - 1] / divisor);
    printf("  %*s", width, text);
}
