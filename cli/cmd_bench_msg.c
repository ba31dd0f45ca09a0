// SPDX-License-Identifier: Apache-2.0
// leat bench p2p and coll: latency, rate and collectives of leat beside Open MPI and MPICH.
//
// Algorithm: each size of each operation is measured by slices in turn (bench_sides.h), all sides
// running the same loops (bench/msg_slice.h). The speedup is the better peer's median over leat's.
// Advantage: the rival is the better MPI at each size, not one chosen once. Disadvantage: one host.

#include "bench.h"
#include "bench_algorithm.h"
#include "bench_options.h"
#include "bench_tune.h"
#include "commands.h"

enum {
    OPTION_SIZES = OPTION_LONG,
    OPTION_RATE,
    OPTION_TUNE,
    OPTION_WRITE,
    OPTION_OPERATION,
    OPTION_ALGORITHM
};
enum { OPERATION_SUM = 2 }; // of bench_operation_names

#define MESSAGE_MAX (UINT64_C(1) << 30)
#define WINDOW_MAX  (UINT64_C(1) << 23) // of a message, 64 at a time

static const struct option_row p2p_rows[] = {
    BENCH_COMMON_ROWS,
    {OPTION_SIZES, "sizes", "N[,N...]", "bytes of a message (8 to 64M)"},
    {OPTION_RATE, "rate", NULL,
     "time a message with 64 outstanding, not half a round trip of one (up to 64K)"},
    {OPTION_TUNE, "tune", NULL,
     "measure leat's own ways instead (512 to 256K) and propose LEAT_MSG_EAGER and LEAT_MSG_SHARE"},
    {OPTION_WRITE, "write", NULL, "with --tune: put what it can tell into the settings file"},
    BENCH_PACE_ROWS,
};

static const struct option_table p2p_table = {
    .command = "bench p2p",
    .synopsis = "[-n N] [--transport NAME] [--against openmpi,mpich] [--sizes N,...] "
                "[--rate | --tune [--write]] [--json]",
    .summary =
        "Measures half round trips of messages between ranks 0 and 1, in ordinary memory; the "
        "receiver returns the very buffer it received. The speedup is the better peer's median "
        "over leat's: above 1 leat is faster. \"flag ns\" is one way of a flag from rank to rank.",
    .row = p2p_rows,
    .row_count = sizeof p2p_rows / sizeof *p2p_rows,
};

static const struct option_row coll_rows[] = {
    BENCH_COMMON_ROWS,
    {OPTION_SIZES, "sizes", "N[,N...]", "bytes of a rank's vector (8 to 16M)"},
    {OPTION_OPERATION, "operation", "NAME[,NAME]", "barrier, broadcast and allreduce (all)"},
    {OPTION_ALGORITHM, "algorithm", "OPERATION=NAME", "leat's algorithm for one of them (chosen)"},
    BENCH_PACE_ROWS,
};

static const struct option_table coll_table = {
    .command = "bench coll",
    .synopsis = "[-n N] [--transport NAME] [--against openmpi,mpich] [--operation NAME,...] "
                "[--sizes N,...] [--json]",
    .summary =
        "Measures barrier, broadcast (the root goes round, so that none begins before it has the "
        "last one's data) and allreduce (sums of doubles). The speedup is the better peer's median "
        "over leat's: above 1 leat is faster. GB/s are bytes of the vector over the time. \"flag "
        "ns\" is one way of a flag from rank 0 to rank 1.",
    .row = coll_rows,
    .row_count = sizeof coll_rows / sizeof *coll_rows,
};

struct msg_bench {
    const char *name; // of the benchmark
    struct bench_common common;
    struct bench_sizes sizes;
    const char *algorithm;
    bool rate, tune, write, operation[BENCH_OPERATION_COUNT];
    struct bench_sides sides;
    json_t *list;
};

static void read_algorithm(struct option_reader *reader, struct msg_bench *bench)
{
    struct bench_algorithm algorithm;
    if (bench_algorithm_read(reader->value, &algorithm))
        bench->algorithm = reader->value;
    else
        options_error(reader,
                      "--algorithm takes OPERATION=NAME, such as broadcast=chain, got \"%s\"; the "
                      "help lists them",
                      reader->value);
}

static void check_sizes(struct option_reader *reader, const struct msg_bench *bench)
{
    if (reader->exit_status < 0 && bench->rate && bench->tune)
        options_error(reader, "--rate and --tune are two measurements: give one of them");
    else if (reader->exit_status < 0 && bench->write && !bench->tune)
        options_error(reader, "--write writes what --tune finds: give both");
    for (int i = 0; reader->exit_status < 0 && i < bench->sizes.count; i++) {
        uint64_t bytes = bench->sizes.value[i];
        if (bench->rate && bytes > WINDOW_MAX)
            options_error(reader, "with --rate messages have at most %" PRIu64 " bytes",
                          WINDOW_MAX);
        else if (bench->tune && bytes < (i ? bench->sizes.value[i - 1] + 1 : BENCH_TUNE_LEAST))
            options_error(reader,
                          "with --tune sizes begin with %" PRIu64 " bytes or more and rise, got "
                          "%" PRIu64,
                          BENCH_TUNE_LEAST, bytes);
        else if (bench->operation[OPERATION_SUM] && bytes % sizeof(double))
            options_error(reader, "allreduce sums doubles, so --sizes takes multiples of %zu",
                          sizeof(double));
    }
}

static int parse(struct option_reader *reader, struct msg_bench *bench)
{
    while (options_next(reader))
        switch (reader->id) {
        case OPTION_SIZES:
            bench_read_sizes(reader, "sizes", 0, MESSAGE_MAX, &bench->sizes);
            break;
        case OPTION_RATE:
            bench->rate = true;
            break;
        case OPTION_TUNE:
            bench->tune = true;
            break;
        case OPTION_WRITE:
            bench->write = true;
            break;
        case OPTION_OPERATION:
            bench_read_set(reader, "operation", bench_operation_names, BENCH_OPERATION_COUNT,
                           bench->operation);
            break;
        case OPTION_ALGORITHM:
            read_algorithm(reader, bench);
            break;
        default:
            bench_read_common(reader, &bench->common);
        }
    if (reader->exit_status < 0 && options_no_operands(reader) && bench->common.rank_count < 2)
        options_error(reader, "-n is 1, but messages take two ranks");
    check_sizes(reader, bench);
    return reader->exit_status;
}

// ---- reporting ----

static void report_json(struct msg_bench *bench, const char *what, uint64_t bytes, double speedup)
{
    const struct bench_sides *sides = &bench->sides;
    double ranks = sides->rank_count, ns = bench_median(&sides->side[0].ns);
    bool sized = strcmp(what, "barrier") != 0, sum = strcmp(what, "allreduce") == 0;
    char name[64];
    snprintf(name, sizeof name, sized ? "%s/%" PRIu64 : "%s", what, bytes);
    json_t *entry = json_pack("{s:s, s:I}", "name", name, "bytes", (json_int_t)bytes);
    for (int i = 0; i < sides->side_count; i++)
        bench_json_series(entry, sides->side[i].name, "_us", &sides->side[i].ns, 1e3);
    for (int peer = 0; peer < BENCH_PEER_COUNT; peer++) {
        snprintf(name, sizeof name, "%s_us", bench_peer_names[peer]);
        if (!json_object_get(entry, name))
            json_object_set_new(entry, name, json_null());
    }
    json_object_set_new(entry, "speedup", speedup > 0 ? json_real(speedup) : json_null());
    json_object_set_new(entry, "leat_gb_per_s", json_real((double)bytes / ns));
    if (strcmp(bench->name, "coll") == 0)
        json_object_set_new(entry, "leat_bus_gb_per_s",
                            json_real((double)bytes / ns * (sum ? 2 * (ranks - 1) / ranks : 1)));
    bench_json_series(entry, "flag", "_ns", &sides->flag_ns, 1);
    json_array_append_new(bench->list, entry);
}

static void print_head(const struct msg_bench *bench, const char *what)
{
    const struct bench_sides *sides = &bench->sides;
    printf("# leat bench %s, %d processes, %s, us: median (min-max) of %d slices of %d ms\n#%10s",
           bench->name, sides->rank_count, what, bench->common.pace.rounds,
           bench->common.pace.slice_ms, "bytes");
    for (int i = 0; i < sides->side_count; i++) {
        printf("  %28s", sides->side[i].name);
        if (i == 0)
            printf("  %8s", "GB/s");
    }
    printf("%s  %22s\n", sides->side_count > 1 ? "  speedup" : "", "flag ns");
    fflush(stdout);
}

static void print_line(const struct msg_bench *bench, uint64_t bytes, double speedup)
{
    const struct bench_sides *sides = &bench->sides;
    printf("%11" PRIu64, bytes);
    for (int i = 0; i < sides->side_count; i++) {
        bench_print_series(&sides->side[i].ns, 1e3, 28);
        if (i == 0)
            printf("  %8.3f", (double)bytes / bench_median(&sides->side[0].ns));
    }
    if (speedup > 0)
        printf("  %7.2f", speedup);
    bench_print_series(&sides->flag_ns, 1, 22);
    putchar('\n');
    fflush(stdout);
}

// ---- measuring ----

static int measure(struct msg_bench *bench, const char *what, uint64_t bytes)
{
    struct bench_sides *sides = &bench->sides;
    int error = bench_measure(sides, &bench->common.pace, what, bytes);
    if (error)
        return error;
    double speedup = bench_best_peer(sides) / bench_median(&sides->side[0].ns);
    report_json(bench, what, bytes, speedup);
    if (!bench->common.json)
        print_line(bench, bytes, speedup);
    return 0;
}

static int measure_sizes(struct msg_bench *bench, const char *what, const char *title)
{
    bool sized = strcmp(what, "barrier") != 0;
    int error = 0;
    if (!bench->common.json)
        print_head(bench, title);
    for (int i = 0; !error && i < (sized ? bench->sizes.count : 1); i++)
        error = measure(bench, what, sized ? bench->sizes.value[i] : 0);
    return error;
}

static int run_p2p(struct msg_bench *bench)
{
    return bench->rate ? measure_sizes(bench, "rate", "a message of 64 outstanding")
                       : measure_sizes(bench, "p2p", "half a round trip");
}

static int run_coll(struct msg_bench *bench)
{
    int error = 0;
    for (int i = 0; !error && i < BENCH_OPERATION_COUNT; i++)
        if (bench->operation[i])
            error = measure_sizes(bench, bench_operation_names[i], bench_operation_names[i]);
    return error;
}

static int run(struct msg_bench *bench, int (*body)(struct msg_bench *))
{
    bench->list = json_array();
    int error = bench_start_common(&bench->sides, &bench->common, bench->algorithm);
    if (!error)
        error = body(bench);
    bench_close(&bench->sides, error);
    if (!error && bench->common.json)
        bench_print_json(bench->name, &bench->sides, &bench->common.pace, bench->list, NULL);
    else
        json_decref(bench->list);
    return error;
}

// What is measured without --sizes.
static struct bench_sizes p2p_sizes(const struct msg_bench *bench)
{
    enum { RATE_COUNT = 7 }; // larger ones wait for the copying
    struct bench_sizes sizes = {{8, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20,
                                 1 << 22, 1 << 24, 1 << 26},
                                12};
    if (bench->rate)
        sizes.count = RATE_COUNT;
    if (bench->tune)
        sizes = (struct bench_sizes){{1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15,
                                      1 << 16, 1 << 17, 1 << 18},
                                     10};
    return sizes;
}

int bench_p2p(int argc, char **argv)
{
    struct msg_bench bench = {.name = "p2p", .common = bench_common_default};
    struct option_reader reader;
    options_begin(&reader, &p2p_table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    if (!bench.sizes.count)
        bench.sizes = p2p_sizes(&bench);
    int error =
        bench.tune ? bench_tune(&bench.common, &bench.sizes, bench.write) : run(&bench, run_p2p);
    return error ? command_fail(p2p_table.command, error) : EXIT_DONE;
}

int bench_coll(int argc, char **argv)
{
    struct msg_bench bench = {
        .name = "coll",
        .common = bench_common_default,
        .sizes = {{8, 64, 512, 1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 24}, 8},
        .operation = {true, true, true}};
    struct option_reader reader;
    struct option_table table = coll_table;
    char known[800], summary[2000];
    bench_algorithm_list(known, sizeof known);
    snprintf(summary, sizeof summary,
             "%s Algorithms of the library, for --algorithm and others: %s.", coll_table.summary,
             known);
    table.summary = summary;
    options_begin(&reader, &table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    int error = run(&bench, run_coll);
    return error ? command_fail(coll_table.command, error) : EXIT_DONE;
}
