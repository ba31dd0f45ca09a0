// SPDX-License-Identifier: Apache-2.0
// leat bench: measures leat and what its user would take instead, in turn, in one run.
//
// Algorithm: two ranks of leat and two of the peer's program are started once and sleep on pipes.
// For every size they are woken by turns for short slices, so that both see the same machine; the
// way of a flag from rank to rank is measured with every slice of leat's, since on virtual machines
// the distance between cores changes within minutes. Medians, extremes and the ratio of medians are
// printed. Advantage: noise hits both sides alike. Disadvantage: slices are short, so a single one
// says little.

#define _GNU_SOURCE
#include "bench_halo.h"
#include "commands.h"
#include "core/error.h"
#include "core/launch.h"
#include "core/signal.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OPTION_ATOMS = OPTION_LONG,
    OPTION_MODE,
    OPTION_ROUNDS,
    OPTION_SLICE,
    OPTION_AGAINST,
    OPTION_JSON,
    OPTION_SERVE
};

#define SIZES_MAX  32
#define ROUNDS_MAX 101
#define ANSWER_MS  60000

static const char *const mode_names[] = {"fused", "host", "stream", "pulse", "resident"};
static const char *const against_names[] = {"openmpi", "none"};

static const struct option_row rows[] = {
    {OPTION_ATOMS, "atoms", "N[,N...]",
     "atoms sent each way (100,1000,4000,16000,64000,256000,1000000)"},
    {OPTION_MODE, "mode", "MODE", "fused, host, stream, pulse or resident (fused)"},
    {OPTION_ROUNDS, "rounds", "N", "slices a size and side (9)"},
    {OPTION_SLICE, "slice", "MS", "length of a slice in milliseconds (20)"},
    {OPTION_AGAINST, "against", "PEER", "openmpi or none (openmpi)"},
    {OPTION_JSON, "json", NULL, "print one JSON object in the shape of Google Benchmark"},
    {OPTION_SERVE, "serve", "DIRECTORY", "(a rank of the benchmark itself)"},
};

static const struct option_table table = {
    .command = "bench",
    .synopsis = "halo [--atoms N,...] [--mode MODE] [--against openmpi|none] [--json]",
    .summary =
        "Measures one coordinate pulse each way between two ranks (processes of this host): "
        "gather through an index map with a shift, exchange, every ghost read once. The "
        "peer does the same with MPI_Sendrecv, by turns. The ratio is the peer's median over "
        "leat's: above 1 leat is faster. \"flag ns\" is one way of a flag from rank to rank.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct side {
    const char *name;
    pid_t pid;
    int commands[2], answers;
    double ns[ROUNDS_MAX];
};

struct bench {
    uint32_t atoms[SIZES_MAX];
    int size_count, mode, rounds, slice_ms, against;
    bool json;
    const char *serve;
    char directory[64];
    struct side leat, peer;
    double flag_ns[ROUNDS_MAX];
    json_t *list;
};

static bool parse_sizes(struct option_reader *reader, struct bench *bench)
{
    const char *at = reader->value;
    for (bench->size_count = 0; bench->size_count < SIZES_MAX; at++) {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at || value < 1 || value > 1000000 || (*end && *end != ',')) {
            options_error(reader, "--atoms takes numbers from 1 to 1000000 with commas, got \"%s\"",
                          reader->value);
            return false;
        }
        bench->atoms[bench->size_count++] = (uint32_t)value;
        at = end;
        if (!*end)
            return true;
    }
    options_error(reader, "--atoms takes at most %d sizes", SIZES_MAX);
    return false;
}

static int parse(struct option_reader *reader, struct bench *bench)
{
    while (options_next(reader))
        switch (reader->id) {
        case OPTION_ATOMS:
            parse_sizes(reader, bench);
            break;
        case OPTION_MODE:
            options_choice(reader, mode_names, 5, &bench->mode);
            break;
        case OPTION_ROUNDS:
            options_integer(reader, 1, ROUNDS_MAX, &bench->rounds);
            break;
        case OPTION_SLICE:
            options_integer(reader, 1, 10000, &bench->slice_ms);
            break;
        case OPTION_AGAINST:
            options_choice(reader, against_names, 2, &bench->against);
            break;
        case OPTION_JSON:
            bench->json = true;
            break;
        case OPTION_SERVE:
            bench->serve = reader->value;
            break;
        }
    return reader->exit_status;
}

// ---- the two sides ----

static void path_of(const struct bench *bench, const struct side *side, const char *end,
                    char path[128])
{
    snprintf(path, 128, "%s/%s.%s", bench->directory, side->name, end);
}

// Read and write, so that opening waits for nobody and a side that dies is no broken pipe.
static int make_pipe(const struct bench *bench, const struct side *side, const char *end, int *fd)
{
    char path[128];
    path_of(bench, side, end, path);
    if (mkfifo(path, 0600) || (*fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return leat_fail(-EIO, "cannot make the pipe %s: %s", path, strerror(errno));
    return 0;
}

static int make_pipes(struct bench *bench, struct side *side)
{
    int error = make_pipe(bench, side, "0", &side->commands[0]);
    if (!error)
        error = make_pipe(bench, side, "1", &side->commands[1]);
    return error ? error : make_pipe(bench, side, "out", &side->answers);
}

static void run_leat(const struct bench *bench)
{
    char *const arguments[] = {"leat",
                               "bench",
                               "halo",
                               "--serve",
                               (char *)bench->directory,
                               "--mode",
                               (char *)mode_names[bench->mode],
                               NULL};
    const struct launch_options options = {
        .rank_count = 2, .program = "/proc/self/exe", .argv = arguments};
    int status;
    int error = leat_launch(&options, &status);
    if (error)
        command_fail("bench", error);
    _exit(error ? EXIT_FAILED : status);
}

// The peer's program lies beside this one.
static int peer_program(char path[512])
{
    ssize_t length = readlink("/proc/self/exe", path, 480);
    char *slash = length > 0 ? (path[length] = 0, strrchr(path, '/')) : NULL;
    if (!slash)
        return leat_fail(-ENOENT, "cannot tell where this program lies: %s", strerror(errno));
    snprintf(slash + 1, 32, "leat-peer-mpi-halo");
    if (access(path, X_OK))
        return leat_fail(-ENOTSUP,
                         "%s is not there: this build found no MPI; install libopenmpi-dev and "
                         "build again, or give --against none",
                         path);
    return 0;
}

static void run_openmpi(const struct bench *bench, const char *program)
{
    int quiet = open("/dev/null", O_RDONLY);
    dup2(quiet, 0);
    execlp("mpirun", "mpirun", "-np", "2", "--allow-run-as-root", "--oversubscribe", program,
           bench->directory, (char *)NULL);
    fprintf(stderr, "leat bench: cannot run mpirun: %s\n", strerror(errno));
    _exit(127);
}

static int start(struct bench *bench)
{
    char program[512];
    int error = make_pipes(bench, &bench->leat);
    if (!error && !bench->against) {
        error = peer_program(program);
        if (!error)
            error = make_pipes(bench, &bench->peer);
    }
    if (error)
        return error;
    fflush(NULL);
    if ((bench->leat.pid = fork()) == 0)
        run_leat(bench);
    if (!bench->against && (bench->peer.pid = fork()) == 0)
        run_openmpi(bench, program);
    return 0;
}

static void stop(struct bench *bench)
{
    struct side *const sides[] = {&bench->leat, &bench->peer};
    for (int i = 0; i < 2; i++) {
        struct side *side = sides[i];
        for (int rank = 0; side->pid > 0 && rank < 2; rank++)
            if (write(side->commands[rank], "0 0\n", 4) != 4)
                kill(side->pid, SIGTERM);
        if (side->pid > 0)
            waitpid(side->pid, NULL, 0);
        static const char *const ends[] = {"0", "1", "out"};
        for (int end = 0; end < 3; end++) {
            char path[128];
            path_of(bench, side, ends[end], path);
            unlink(path);
        }
    }
    rmdir(bench->directory);
}

static int await_answer(struct side *side, char *text, size_t bytes)
{
    size_t length = 0;
    uint64_t deadline_ns = leat_now_ns() + ANSWER_MS * UINT64_C(1000000);
    while (!memchr(text, '\n', length)) {
        struct pollfd poller = {.fd = side->answers, .events = POLLIN};
        if (poll(&poller, 1, 50) == 1) {
            ssize_t got = read(side->answers, text + length, bytes - 1 - length);
            if (got <= 0)
                return leat_fail(-EIO, "%s: no answer can be read", side->name);
            length += (size_t)got;
        }
        int status;
        if (waitpid(side->pid, &status, WNOHANG) == side->pid) {
            side->pid = 0;
            return leat_fail(-ECHILD, "the %s ranks have ended in mid-run; their message is above",
                             side->name);
        }
        if (leat_now_ns() > deadline_ns)
            return leat_fail(-ETIMEDOUT, "the %s ranks did not answer within %d s", side->name,
                             ANSWER_MS / 1000);
    }
    text[length] = 0;
    return 0;
}

static int slice(struct side *side, uint32_t atoms, uint32_t iterations, double *ns,
                 double *flag_ns)
{
    char command[64], answer[128] = "";
    int length = snprintf(command, sizeof command, "%u %u\n", atoms, iterations);
    for (int rank = 0; rank < 2; rank++)
        if (write(side->commands[rank], command, (size_t)length) != length)
            return leat_fail(-EIO, "%s: cannot send a command: %s", side->name, strerror(errno));
    int error = await_answer(side, answer, sizeof answer);
    if (!error && sscanf(answer, "%lf %lf", ns, flag_ns) != 2)
        error = leat_fail(-EPROTO, "%s answered \"%s\"", side->name, answer);
    return error;
}

// ---- measuring and reporting ----

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static uint32_t iterations_for(const struct bench *bench, double ns)
{
    double count = bench->slice_ms * 1e6 / (ns > 1 ? ns : 1);
    return count < 3 ? 3 : count > 1e6 ? 1000000 : (uint32_t)count;
}

static void report_json(struct bench *bench, uint32_t atoms, const struct side *side, double ratio)
{
    char name[64];
    bool ours = side == &bench->leat;
    snprintf(name, sizeof name, "halo/%s/%u", ours ? mode_names[bench->mode] : side->name, atoms);
    json_t *entry =
        json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:s}", "name", name, ours ? "mode" : "peer",
                  ours ? mode_names[bench->mode] : side->name, "atoms", (int)atoms, "pulses", 1,
                  "real_time", side->ns[bench->rounds / 2] / 1e3, "min", side->ns[0] / 1e3, "max",
                  side->ns[bench->rounds - 1] / 1e3, "time_unit", "us");
    if (ours) {
        json_object_set_new(entry, "flag_ns", json_real(bench->flag_ns[bench->rounds / 2]));
        json_object_set_new(entry, "flag_min_ns", json_real(bench->flag_ns[0]));
        json_object_set_new(entry, "flag_max_ns", json_real(bench->flag_ns[bench->rounds - 1]));
        json_object_set_new(entry, "ratio_to_best_peer",
                            bench->against ? json_null() : json_real(ratio));
    }
    json_array_append_new(bench->list, entry);
}

static void report_line(const struct bench *bench, uint32_t atoms, double ratio)
{
    const struct side *leat = &bench->leat, *peer = &bench->peer;
    int middle = bench->rounds / 2, last = bench->rounds - 1;
    printf("%8u  %10.2f (%.2f-%.2f)", atoms, leat->ns[middle] / 1e3, leat->ns[0] / 1e3,
           leat->ns[last] / 1e3);
    if (!bench->against)
        printf("  %10.2f (%.2f-%.2f)  %6.2f", peer->ns[middle] / 1e3, peer->ns[0] / 1e3,
               peer->ns[last] / 1e3, ratio);
    printf("  %.0f (%.0f-%.0f)\n", bench->flag_ns[middle], bench->flag_ns[0], bench->flag_ns[last]);
    fflush(stdout);
}

static int measure(struct bench *bench, uint32_t atoms)
{
    double ns = 0, ignored = 0;
    uint32_t count[2] = {0};
    struct side *const sides[] = {&bench->leat, &bench->peer};
    int side_count = bench->against ? 1 : 2, error = 0;
    for (int i = 0; !error && i < side_count; i++) {
        error = slice(sides[i], atoms, 50, &ns, &ignored); // warms up and says how many fit
        count[i] = iterations_for(bench, ns);
    }
    for (int round = 0; !error && round < bench->rounds; round++) {
        error = slice(sides[0], atoms, count[0], &sides[0]->ns[round], &bench->flag_ns[round]);
        if (!error && side_count == 2)
            error = slice(sides[1], atoms, count[1], &sides[1]->ns[round], &ignored);
    }
    if (error)
        return error;
    median(bench->flag_ns, bench->rounds);
    double ours = median(bench->leat.ns, bench->rounds);
    double ratio = bench->against ? 0 : median(bench->peer.ns, bench->rounds) / ours;
    if (!bench->json)
        report_line(bench, atoms, ratio);
    for (int i = 0; i < side_count; i++)
        report_json(bench, atoms, sides[i], ratio);
    return 0;
}

static int run(struct bench *bench)
{
    snprintf(bench->directory, sizeof bench->directory, "/tmp/leat-bench-XXXXXX");
    if (!mkdtemp(bench->directory))
        return leat_fail(-EIO, "cannot make a directory in /tmp: %s", strerror(errno));
    bench->list = json_array();
    int error = start(bench);
    if (!error && !bench->json)
        printf("# halo exchange, %s, 2 processes, float3, us an exchange: median (min-max)\n"
               "#  atoms        leat%s  flag ns\n",
               mode_names[bench->mode],
               bench->against ? "" : "                  openmpi              ratio");
    for (int i = 0; !error && i < bench->size_count; i++)
        error = measure(bench, bench->atoms[i]);
    stop(bench);
    if (!error && bench->json) {
        json_t *report = json_pack("{s:s, s:{s:s, s:i, s:i}, s:O}", "schema", "leat.bench/1",
                                   "context", "benchmark", "halo", "rounds", bench->rounds,
                                   "slice_ms", bench->slice_ms, "benchmarks", bench->list);
        json_dumpf(report, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(report);
    }
    json_decref(bench->list);
    return error;
}

int cmd_bench(int argc, char **argv)
{
    static const uint32_t sizes[] = {100, 1000, 4000, 16000, 64000, 256000, 1000000};
    struct bench bench = {.rounds = 9, .slice_ms = 20};
    bench.leat.name = "leat";
    bench.peer.name = "openmpi";
    bench.size_count = sizeof sizes / sizeof *sizes;
    memcpy(bench.atoms, sizes, sizeof sizes);
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    if (reader.operand + 1 != argc || strcmp(argv[reader.operand], "halo") != 0)
        return options_error(&reader, "what to measure? The benchmarks are: halo");
    int error =
        bench.serve ? bench_halo_rank(bench.serve, (enum leat_mode)bench.mode) : run(&bench);
    return error ? command_fail("bench", error) : EXIT_DONE;
}
