// SPDX-License-Identifier: Apache-2.0
// leat bench file: reads by leat and by what one would take instead, in turn.
//
// Algorithm: a file is written the same way each time, every eight bytes their own offset. For each
// state of it (in the page cache, past it, in tmpfs) and size of a call, and for batches of ranges,
// all sides are warmed up and then take turns in short slices; medians, least and most are printed
// with the ratio to the best other. Advantage: one run, one machine, one file. Disadvantage: sides
// that idle still hold their memory.

#define _GNU_SOURCE
#include "bench.h"
#include "bench_file.h"
#include "bench_options.h"
#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "device/ops.h"
#include "options.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATES     3
#define BATCHES    8
#define FLIGHT     (UINT64_C(64) << 20) /* bytes under way past the page cache, at most */
#define TMPFS_PATH "/dev/shm"

static const char *const states[STATES] = {"cached", "direct", "tmpfs"};

enum {
    OPTION_DEVICE = OPTION_LONG,
    OPTION_SIZES,
    OPTION_RANGES,
    OPTION_STATE,
    OPTION_DEPTH,
    OPTION_FILE_BYTES,
    OPTION_AGAINST,
    OPTION_JSON
};

static const struct option_row rows[] = {
    {OPTION_DEVICE, "device", "NAME", "whose memory is read into: cpu, cuda:0 (cpu)"},
    {OPTION_SIZES, "sizes", "N[,N...]", "bytes of a call, or none (16K,256K,4M,64M,256M)"},
    {OPTION_RANGES, "ranges", "CxN[,CxN...]", "batches of C ranges of N bytes (10000x4K), or none"},
    {OPTION_STATE, "state", "WORD[,WORD]", "cached, direct and tmpfs (cached,direct)"},
    {OPTION_DEPTH, "depth", "N", "calls under way (1, and 16 or 64 MiB of them past the cache)"},
    {OPTION_FILE_BYTES, "file-bytes", "N", "size of the file (the largest call, at least 256M)"},
    {OPTION_AGAINST, "against", "SIDE[,SIDE]",
     "pread, fio, pinned, mapped, cufile and kvikio, each with :THREADS, cubatch, torch, numpy, "
     "another "
     "leat:THREADS; or none (cpu: leat:1,pread:1,pread:4,fio:1,fio:2)"},
    {OPTION_JSON, "json", NULL, "print one JSON object"},
    BENCH_PACE_ROWS,
};

static const struct option_table table = {
    .command = "bench file",
    .synopsis = "[DIRECTORY] [--device NAME] [--sizes N,...] [--ranges CxN,...] [--state WORD,...] "
                "[--against SIDE,...] [--json]",
    .summary =
        "Reads a file that it makes in a directory (.) into memory of a device, by leat and by "
        "threads of pread, fio, and on a GPU by pinned buffers, by registered pages, by cuFile, "
        "KvikIO, torch and NumPy where they are there: GB/s, median (least-most) of slices that "
        "take turns, and leat's ratio to the best other.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct file_bench {
    const char *directory, *device, *against;
    struct bench_sizes sizes, file_bytes;
    struct bench_pace pace;
    uint64_t batch_count[BATCHES], batch_bytes[BATCHES];
    int batches, depth;
    bool state[STATES], json, no_sizes;
    char path[2][1024]; // in the directory; in tmpfs
    struct file_side side[FILE_SIDES_MOST];
    int side_count;
    uint64_t seed;
    json_t *list;
};

// ---- Options ----

static void read_batches(struct option_reader *reader, struct file_bench *bench)
{
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", reader->value);
    bench->batches = 0;
    if (!strcmp(copy, "none"))
        return;
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *cross = strchr(word, 'x');
        uint64_t count, bytes;
        if (cross)
            *cross = 0;
        if (!cross || bench->batches == BATCHES || leat_parse_bytes(word, &count) ||
            leat_parse_bytes(cross + 1, &bytes) || !count || count > 10000000 || !bytes ||
            bytes > 1 << 30) {
            options_error(reader, "--ranges takes up to %d batches as in 10000x4K, got \"%s\"",
                          BATCHES, reader->value);
            return;
        }
        bench->batch_count[bench->batches] = count;
        bench->batch_bytes[bench->batches++] = bytes;
    }
}

static void read_option(struct option_reader *reader, struct file_bench *bench)
{
    struct bench_common common = {.pace = bench->pace};
    switch (reader->id) {
    case OPTION_DEVICE:
        bench->device = reader->value;
        if (leat_device_wrong(reader->value))
            options_error(reader, "--device is \"%s\"; %s", reader->value,
                          leat_device_wrong(reader->value));
        break;
    case OPTION_SIZES:
        bench->no_sizes = !strcmp(reader->value, "none");
        if (!bench->no_sizes)
            bench_read_sizes(reader, "sizes", 4096, UINT64_C(1) << 40, &bench->sizes);
        break;
    case OPTION_RANGES:
        read_batches(reader, bench);
        break;
    case OPTION_STATE:
        bench_read_set(reader, "state", states, STATES, bench->state);
        break;
    case OPTION_DEPTH:
        options_integer(reader, 1, 256, &bench->depth);
        break;
    case OPTION_FILE_BYTES:
        bench_read_sizes(reader, "file-bytes", 1 << 20, UINT64_C(1) << 42, &bench->file_bytes);
        break;
    case OPTION_AGAINST:
        bench->against = reader->value;
        break;
    case OPTION_JSON:
        bench->json = true;
        break;
    default:
        bench_read_common(reader, &common);
        bench->pace = common.pace;
    }
}

static int read_options(int argc, char **argv, struct file_bench *bench)
{
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        read_option(&reader, bench);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 1 < argc)
        return options_error(&reader, "one directory, got %d", argc - reader.operand);
    bench->directory = reader.operand < argc ? argv[reader.operand] : ".";
    if (!bench->against)
        bench->against = !strcmp(bench->device, "cpu")
                             ? "leat:1,pread:1,pread:4,fio:1,fio:2"
                             : "leat:1,pinned:1,pinned:4,pinned:8,pinned:16,mapped:1,cufile:1,"
                               "cufile:8,cubatch,kvikio:1,kvikio:16,torch,numpy";
    return -1;
}

// ---- The file ----

static uint64_t wanted_bytes(const struct file_bench *bench)
{
    uint64_t bytes = bench->file_bytes.count ? bench->file_bytes.value[0] : UINT64_C(256) << 20;
    for (int i = 0; !bench->no_sizes && i < bench->sizes.count; i++)
        bytes = bench->sizes.value[i] > bytes ? bench->sizes.value[i] : bytes;
    return bytes;
}

// ---- Measuring ----

static int ask(struct file_bench *bench, struct file_side *side, const struct file_point *point,
               uint64_t repeat, double *ns)
{
    if (side->is_fio)
        return file_fio_ask(side, point, bench->pace.slice_ms, ns);
    bench->seed += repeat;
    return file_side_ask(side, point, repeat, bench->seed, ns);
}

// How many calls a slice takes; the first ones of a size pay for its memory.
static int warm_up(struct file_bench *bench, struct file_side *side, const struct file_point *point)
{
    double ns = 0, slice_ns = bench->pace.slice_ms * 1e6;
    side->why[0] = 0;
    side->ns.count = 0;
    uint64_t few = point->ranges ? 1 : point->depth;
    int error = ask(bench, side, point, few, &ns);
    for (int i = 0; !error && !side->is_fio && i < 2; i++) {
        double count = slice_ns / (4 >> i) / (ns > 1 ? ns : 1);
        side->repeat = count < (double)few ? few : count > 1e6 ? 1000000 : (uint64_t)count;
        error = ask(bench, side, point, side->repeat, &ns);
    }
    double count = slice_ns / (ns > 1 ? ns : 1);
    side->repeat = count < (double)few ? few : count > 1e6 ? 1000000 : (uint64_t)count;
    return error;
}

static int measure(struct file_bench *bench, const struct file_point *point)
{
    for (int i = 0; i < bench->side_count; i++) {
        struct file_side *side = &bench->side[i];
        if (!side->gone && warm_up(bench, side, point) && side->is_leat)
            return leat_fail(-EIO, "%s: %s", side->name, side->why);
    }
    for (int round = 0; round < bench->pace.rounds; round++)
        for (int i = 0; i < bench->side_count; i++) {
            // Nobody is always first.
            struct file_side *side = &bench->side[(round + i) % bench->side_count];
            double ns;
            if (side->gone || side->why[0])
                continue;
            if (!ask(bench, side, point, side->repeat, &ns))
                side->ns.value[side->ns.count++] = ns;
            else if (side->is_leat)
                return leat_fail(-EIO, "%s: %s", side->name, side->why);
        }
    for (int i = 0; i < bench->side_count; i++)
        bench_sort(&bench->side[i].ns);
    return 0;
}

// ---- Points ----

static int do_point(struct file_bench *bench, struct file_point *point, const char *state)
{
    int error = measure(bench, point);
    if (error)
        return error;
    double best = file_best_other(bench->side, bench->side_count);
    if (!bench->json)
        printf("%s, %s of %" PRIu64 " bytes, %" PRIu64 " %s\n", state,
               point->ranges ? "ranges" : "calls", point->bytes, point->depth,
               point->ranges ? "at once" : "under way");
    for (int i = 0; i < bench->side_count; i++) {
        json_array_append_new(bench->list, file_side_json(&bench->side[i], point, state, best));
        if (!bench->json)
            file_side_print(&bench->side[i], point, best);
    }
    fflush(stdout);
    return 0;
}

static uint64_t depth_of(const struct file_bench *bench, int state, uint64_t bytes)
{
    if (bench->depth)
        return (uint64_t)bench->depth;
    uint64_t fits = FLIGHT / bytes;
    return state != 1 || fits < 1 ? 1 : fits < 16 ? fits : 16;
}

static int do_state(struct file_bench *bench, int state)
{
    int error = 0;
    struct file_point point = {.state = state == 1 ? "direct" : "cached",
                               .path = bench->path[state == 2],
                               .file_bytes = wanted_bytes(bench)};
    for (int i = 0; !error && !bench->no_sizes && i < bench->sizes.count; i++) {
        point.bytes = bench->sizes.value[i];
        point.depth = depth_of(bench, state, point.bytes);
        error = do_point(bench, &point, states[state]);
    }
    point.ranges = true;
    for (int i = 0; !error && i < bench->batches; i++) {
        point.bytes = bench->batch_bytes[i];
        point.depth = bench->batch_count[i];
        error = do_point(bench, &point, states[state]);
    }
    return error;
}

static void start_sides(struct file_bench *bench)
{
    char copy[512], *save = NULL;
    file_side_start(&bench->side[bench->side_count++], "leat", bench->device);
    snprintf(copy, sizeof copy, "%s", strcmp(bench->against, "none") ? bench->against : "");
    for (char *word = strtok_r(copy, ",", &save); word && bench->side_count < FILE_SIDES_MOST;
         word = strtok_r(NULL, ",", &save))
        file_side_start(&bench->side[bench->side_count++], word, bench->device);
}

static int run(struct file_bench *bench)
{
    int error = 0;
    if (bench->state[0] || bench->state[1])
        error = file_bench_make(bench->directory, wanted_bytes(bench), bench->path[0]);
    if (!error && bench->state[2])
        error = file_bench_make(TMPFS_PATH, wanted_bytes(bench), bench->path[1]);
    if (!error)
        start_sides(bench);
    if (!error && !bench->json)
        printf("# leat bench file, %s, %d slices of %d ms a side: GB/s median (least-most), time "
               "of a call\n",
               bench->device, bench->pace.rounds, bench->pace.slice_ms);
    for (int state = 0; !error && state < STATES; state++)
        if (bench->state[state])
            error = do_state(bench, state);
    for (int i = 0; i < bench->side_count; i++)
        file_side_end(&bench->side[i]);
    for (int i = 0; i < 2; i++)
        if (bench->path[i][0])
            unlink(bench->path[i]);
    return error;
}

int bench_file(int argc, char **argv)
{
    struct file_bench bench = {.device = "cpu",
                               .sizes = {{16 << 10, 256 << 10, 4 << 20, 64 << 20, 256 << 20}, 5},
                               .pace = {9, 100},
                               .batch_count = {10000},
                               .batch_bytes = {4096},
                               .batches = 1,
                               .state = {true, true, false}};
    int status = read_options(argc, argv, &bench);
    if (status >= 0)
        return status;
    char model[512] = "";
    if (strcmp(bench.device, "cpu") != 0 &&
        leat_device_describe(leat_device_number(bench.device, 1, 0, 1), model, sizeof model)) {
        command_fail(table.command, -ENODEV);
        return EXIT_UNSUPPORTED;
    }
    signal(SIGPIPE, SIG_IGN); // a side that dies is said to have ended
    bench.list = json_array();
    int error = run(&bench);
    if (error) {
        json_decref(bench.list);
        return command_fail(table.command, error);
    }
    if (!bench.json) {
        json_decref(bench.list);
        return EXIT_DONE;
    }
    json_t *report =
        json_pack("{s:s, s:{s:s, s:s, s:s, s:i, s:i}, s:o}", "schema", "leat.bench/1", "context",
                  "benchmark", "file", "device", bench.device, "model", model, "rounds",
                  bench.pace.rounds, "slice_ms", bench.pace.slice_ms, "benchmarks", bench.list);
    json_dumpf(report, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(report);
    return EXIT_DONE;
}
