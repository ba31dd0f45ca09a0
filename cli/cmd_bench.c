// SPDX-License-Identifier: Apache-2.0
// leat bench: measures leat and what its user would take instead, in turn, in one run.
//
// One table of benchmarks. Advantage: each is one file with its own options, and this one knows
// only their names. Disadvantage: there are no options that all share by construction.

#include "bench.h"
#include "commands.h"
#include "options.h"

static const struct option_verb benchmarks[] = {
    {"halo", bench_halo, false},           {"p2p", bench_p2p, false},
    {"coll", bench_coll, false},           {"memory", bench_memory, false},
    {"flood", bench_flood, false},         {"file", bench_file, false},
    {"file-side", bench_file_serve, true}, // ranks and sides, started by the benchmarks themselves
    {"halo-rank", bench_halo_serve, true}, {"msg-rank", bench_msg_serve, true},
};

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
    static const struct option_verbs all = {
        .table = &table,
        .verb = benchmarks,
        .count = sizeof benchmarks / sizeof *benchmarks,
        .question = "what to measure? Name a benchmark",
        .kind = "benchmark ",
        .others = "",
    };
    return options_verb(&all, argc, argv);
}
