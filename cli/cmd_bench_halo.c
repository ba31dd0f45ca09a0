// SPDX-License-Identifier: Apache-2.0
// leat bench halo: one coordinate pulse each way between two ranks, beside MPI.
//
// Algorithm: for every size, leat's ranks and the peer's run slices by turns (bench_sides.h).
// Medians, extremes and the ratio of medians are printed. Advantage: a step of a real code, gather
// and reading included. Disadvantage: one pulse only, so nothing of what fusing pulses saves.

#include "bench.h"
#include "bench_halo.h"
#include "bench_options.h"
#include "commands.h"

#include "../bench/halo_slice.h"

enum {
    OPTION_ATOMS = OPTION_LONG,
    OPTION_MODE,
    OPTION_ROUNDS,
    OPTION_SLICE,
    OPTION_AGAINST,
    OPTION_JSON
};

static const char *const mode_names[] = {"fused", "host", "stream", "pulse", "resident"};
#define MODE_COUNT (sizeof mode_names / sizeof *mode_names)

static const struct option_row rows[] = {
    {OPTION_ATOMS, "atoms", "N[,N...]",
     "atoms sent each way (100,1000,4000,16000,64000,256000,1000000)"},
    {OPTION_MODE, "mode", "MODE", "fused, host, stream, pulse or resident (fused)"},
    {OPTION_ROUNDS, "rounds", "N", "slices a size and side (9)"},
    {OPTION_SLICE, "slice", "MS", "length of a slice in milliseconds (20)"},
    {OPTION_AGAINST, "against", "PEER", "openmpi or none (openmpi)"},
    {OPTION_JSON, "json", NULL, "print one JSON object in the shape of Google Benchmark"},
};

static const struct option_table table = {
    .command = "bench halo",
    .synopsis = "[--atoms N,...] [--mode MODE] [--against openmpi|none] [--json]",
    .summary =
        "Measures one coordinate pulse each way between two ranks (processes of this host): "
        "gather through an index map with a shift, exchange, every ghost read once. The "
        "peer does the same with MPI_Sendrecv, by turns. The ratio is the peer's median over "
        "leat's: above 1 leat is faster. \"flag ns\" is one way of a flag from rank to rank.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct halo_bench {
    struct bench_sizes atoms;
    int mode;
    bool against, json;
    struct bench_pace pace;
    struct bench_sides sides;
    json_t *list;
};

static int parse(struct option_reader *reader, struct halo_bench *bench)
{
    while (options_next(reader))
        switch (reader->id) {
        case OPTION_ATOMS:
            bench_read_sizes(reader, "atoms", 1, SLICE_ATOMS_MAX, &bench->atoms);
            break;
        case OPTION_MODE:
            options_choice(reader, mode_names, MODE_COUNT, &bench->mode);
            break;
        case OPTION_ROUNDS:
            options_integer(reader, 1, BENCH_ROUNDS_MAX, &bench->pace.rounds);
            break;
        case OPTION_SLICE:
            options_integer(reader, 1, 10000, &bench->pace.slice_ms);
            break;
        case OPTION_AGAINST:
            bench_read_set(reader, "against", bench_peer_names, 1, &bench->against);
            break;
        case OPTION_JSON:
            bench->json = true;
            break;
        }
    if (reader->exit_status < 0)
        options_no_operands(reader);
    return reader->exit_status;
}

static void report_json(struct halo_bench *bench, uint64_t atoms, const struct bench_side *side,
                        double ratio)
{
    char name[64];
    const struct bench_series *ns = &side->ns, *flag = &bench->sides.flag_ns;
    bool ours = side == &bench->sides.side[0];
    const char *kind = ours ? mode_names[bench->mode] : side->name;
    snprintf(name, sizeof name, "halo/%s/%" PRIu64, kind, atoms);
    json_t *entry = json_pack("{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:s}", "name", name,
                              ours ? "mode" : "peer", kind, "atoms", (json_int_t)atoms, "pulses", 1,
                              "real_time", bench_median(ns) / 1e3, "min", ns->value[0] / 1e3, "max",
                              ns->value[ns->count - 1] / 1e3, "time_unit", "us");
    if (ours) {
        bench_json_series(entry, "flag", "_ns", flag, 1);
        json_object_set_new(entry, "ratio_to_best_peer",
                            ratio > 0 ? json_real(ratio) : json_null());
    }
    json_array_append_new(bench->list, entry);
}

static void report_line(const struct halo_bench *bench, uint64_t atoms, double ratio)
{
    const struct bench_sides *sides = &bench->sides;
    printf("%8" PRIu64, atoms);
    for (int i = 0; i < sides->side_count; i++)
        bench_print_series(&sides->side[i].ns, 1e3, 26);
    if (ratio > 0)
        printf("  %6.2f", ratio);
    bench_print_series(&sides->flag_ns, 1, 22);
    putchar('\n');
    fflush(stdout);
}

static int measure(struct halo_bench *bench, uint64_t atoms)
{
    struct bench_sides *sides = &bench->sides;
    int error = bench_measure(sides, &bench->pace, "halo", atoms);
    if (error)
        return error;
    double ratio = bench_best_peer(sides) / bench_median(&sides->side[0].ns);
    if (!bench->json)
        report_line(bench, atoms, ratio);
    for (int i = 0; i < sides->side_count; i++)
        report_json(bench, atoms, &sides->side[i], ratio);
    return 0;
}

static int run(struct halo_bench *bench)
{
    struct bench_sides *sides = &bench->sides;
    bench->list = json_array();
    int error = bench_open(sides, 2);
    if (!error) {
        bench_add_leat(sides, "leat", "halo-rank", mode_names[bench->mode]);
        // FindMPI takes the system's first MPI, whose launcher has the plain name.
        if (bench->against)
            bench_add_peer(sides, 0, "mpirun", "leat-peer-mpi-halo");
        error = bench_start(sides);
    }
    if (!error && !bench->json) {
        printf("# halo exchange, %s, 2 processes, float3, us an exchange: median (min-max)\n"
               "#  atoms  %26s",
               mode_names[bench->mode], "leat");
        for (int i = 1; i < sides->side_count; i++)
            printf("  %26s", sides->side[i].name);
        printf("%s  %22s\n", sides->side_count > 1 ? "   ratio" : "", "flag ns");
    }
    for (int i = 0; !error && i < bench->atoms.count; i++)
        error = measure(bench, bench->atoms.value[i]);
    bench_close(sides, error);
    if (!error && bench->json)
        bench_print_json("halo", sides, &bench->pace, bench->list, NULL);
    else
        json_decref(bench->list);
    return error;
}

int bench_halo(int argc, char **argv)
{
    struct halo_bench bench = {
        .atoms = {{100, 1000, 4000, 16000, 64000, 256000, 1000000}, 7},
        .against = true,
        .pace = {.rounds = 9, .slice_ms = 20},
    };
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    int error = run(&bench);
    return error ? command_fail("bench halo", error) : EXIT_DONE;
}

int bench_halo_serve(int argc, char **argv)
{
    int mode = 0;
    while (argc == 4 && mode < (int)MODE_COUNT && strcmp(argv[3], mode_names[mode]) != 0)
        mode++;
    if (argc != 4 || mode == (int)MODE_COUNT) {
        fprintf(stderr, "leat bench halo-rank: started by leat bench halo itself\n");
        return EXIT_USAGE;
    }
    int error = bench_halo_rank(argv[1], argv[2], (enum leat_mode)mode);
    return error ? command_fail("bench halo", error) : EXIT_DONE;
}
