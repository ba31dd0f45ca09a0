// SPDX-License-Identifier: Apache-2.0
// leat bench: measures leat and what its user would take instead, in turn, in one run.
//
// One table of benchmarks. Advantage: each is one file with its own options, and this one knows
// only their names. Disadvantage: there are no options that all share by construction.

#include "bench.h"
#include "commands.h"
#include "core/config.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

struct benchmark {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: a rank, started by the benchmark itself */
};

static const struct benchmark benchmarks[] = {
    {"halo", bench_halo, "halo exchange between two ranks"},
    {"p2p", bench_p2p, "messages between two ranks: half round trips, or rate"},
    {"coll", bench_coll, "barrier, broadcast and allreduce"},
    {"memory", bench_memory, "what ranks hold after talking to so many others"},
    {"flood", bench_flood, "messages that nobody receives yet: what they cost"},
    {"file", bench_file, "files into memory of a device"},
    {"file-side", bench_file_serve, NULL},
    {"halo-rank", bench_halo_serve, NULL},
    {"msg-rank", bench_msg_serve, NULL},
};

#define BENCHMARK_COUNT (sizeof benchmarks / sizeof *benchmarks)

static const struct option_table table = {
    .command = "bench",
    .synopsis = "halo|p2p|coll|memory|flood|file [OPTIONS]",
    .summary =
        "Measures leat and what one would take instead, by turns in one run. halo: the exchange of "
        "boundary atoms; p2p: messages between two ranks; coll: barrier, broadcast and allreduce; "
        "memory: what a rank holds; flood: what messages cost that nobody receives yet; file: "
        "reads "
        "of files into memory of a device. `leat bench NAME --help` lists the options of a "
        "benchmark.",
    .stops_at_operand = true,
};

int cmd_bench(int argc, char **argv)
{
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        continue;
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand == argc)
        return options_error(&reader, "what to measure? Name a benchmark");
    const char *name = argv[reader.operand];
    struct name_guess guess = {.wanted = name};
    for (size_t i = 0; i < BENCHMARK_COUNT; i++) {
        if (strcmp(name, benchmarks[i].name) == 0)
            return benchmarks[i].run(argc - reader.operand, argv + reader.operand);
        if (benchmarks[i].help)
            leat_name_consider(&guess, benchmarks[i].name);
    }
    if (guess.best)
        return options_error(&reader, "there is no benchmark \"%s\"; did you mean %s?", name,
                             guess.best);
    return options_error(&reader, "there is no benchmark \"%s\"", name);
}
