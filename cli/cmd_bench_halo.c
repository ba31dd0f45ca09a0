// SPDX-License-Identifier: Apache-2.0
// leat bench halo: the exchange of boundary atoms, beside what one would take instead.
//
// Algorithm: for every size, leat's ranks and the peer's run slices by turns (bench_sides.h).
// Medians, extremes and the ratio of medians are printed. Advantage: a step of a real code, gather
// and reading included. Disadvantage: between processes one pulse only, so nothing of what fusing
// pulses saves; whole plans and GPUs are bench_halo_threads.c's.

#include "bench.h"
#include "bench_halo.h"
#include "commands.h"

#include "../bench/halo_slice.h"

#include "core/error.h"

#include <errno.h>

enum {
    OPTION_ATOMS = OPTION_LONG,
    OPTION_MODE,
    OPTION_DEVICE,
    OPTION_PLAN,
    OPTION_KIND,
    OPTION_ELEMENTS,
    OPTION_DIRECTION,
    OPTION_CONSUMER,
    OPTION_GRAPH,
    OPTION_ROUNDS,
    OPTION_SLICE,
    OPTION_AGAINST,
    OPTION_JSON
};

const char *const halo_mode_names[] = {"fused", "host", "stream", "pulse", "resident"};
const char *const halo_plan_names[] = {"pulse", "1d", "2d", "3d"};
const char *const halo_kind_names[] = {"forwarded", "onehop"};
const char *const halo_element_names[] = {"float3", "float4"};
const char *const halo_direction_names[] = {"forward", "reverse"};
const char *const halo_peer_names[] = {
    "openmpi", "mpi", "nccl", "nvshmem", "nvshmem-put", "nvshmem-store", "nvshmem-resident"};
static const char *const device_names[] = {"cpu", "cuda"}; /* from HALO_CPU on */

static const struct option_row rows[] = {
    {OPTION_ATOMS, "atoms", "N[,N...]",
     "atoms sent each way, or home atoms of a rank in whole plans "
     "(100,1000,4000,16000,64000,256000,1000000; whole plans and GPUs from 1000)"},
    {OPTION_MODE, "mode", "MODE[,MODE...]",
     "fused, host, stream, pulse, resident, or all (fused; with --device all)"},
    {OPTION_DEVICE, "device", "NAME",
     "ranks as threads: cuda, on the GPUs there are, or cpu (without: processes on the CPU "
     "device)"},
    {OPTION_PLAN, "plan", "PLAN",
     "pulse, or all pulses of a grid: 1d (2x1x1), 2d (2x2x1), 3d (2x2x2); with --device (pulse)"},
    {OPTION_KIND, "kind", "KIND[,KIND]", "of whole plans: forwarded, onehop (forwarded)"},
    {OPTION_ELEMENTS, "elements", "TYPE[,TYPE]", "float3, float4; with --device (float3)"},
    {OPTION_DIRECTION, "direction", "WAY[,WAY]",
     "forward (coordinates), reverse (forces, accumulated); with --device (forward)"},
    {OPTION_CONSUMER, "consumer", NULL,
     "also measure whole steps: a kernel, or the resident loop itself, reads every ghost; with "
     "--device"},
    {OPTION_GRAPH, "graph", NULL, "also replay exchanges from CUDA graphs; with --device cuda"},
    {OPTION_ROUNDS, "rounds", "N", "slices a size and side (9)"},
    {OPTION_SLICE, "slice", "MS", "length of a slice in milliseconds (20)"},
    {OPTION_AGAINST, "against", "PEER[,PEER...]",
     "openmpi (processes); mpi, nccl, nvshmem, nvshmem-put, nvshmem-store, nvshmem-resident (one "
     "pulse between two GPUs); or none (all of these)"},
    {OPTION_JSON, "json", NULL, "print one JSON object in the shape of Google Benchmark"},
};

static const struct option_table table = {
    .command = "bench halo",
    .synopsis = "[--device cuda] [--plan PLAN] [--mode MODE,...] [--atoms N,...] [--json]",
    .summary =
        "Measures the halo exchange. Between two processes of this host: one coordinate pulse each "
        "way, gathered through an index map with a shift, every ghost read once; Open MPI does the "
        "same with MPI_Sendrecv, by turns. The ratio is the peer's median over leat's: above 1 "
        "leat is faster. \"flag ns\" is one way of a flag from rank to rank. With --device, "
        "ranks are threads, all modes are measured by turns, on two GPUs beside host-staged MPI, "
        "NCCL and four ways of NVSHMEM where they are built, and whole plans on one GPU or more.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct halo_bench {
    int mode;
    const struct halo_request *request;
    struct bench_sides sides;
    json_t *list;
};

// ---- options ----

struct asked {
    bool modes[HALO_MODE_COUNT + 1]; /* the last one: all */
    bool threads, mode, kind, against, atoms;
};

static void read_modes(struct option_reader *reader, struct asked *asked)
{
    static const char *const names[] = {"fused", "host", "stream", "pulse", "resident", "all"};
    bench_read_set(reader, "mode", names, HALO_MODE_COUNT + 1, asked->modes);
}

static void read_option(struct option_reader *reader, struct halo_request *request,
                        struct asked *asked)
{
    switch (reader->id) {
    case OPTION_ATOMS:
        asked->atoms = true;
        bench_read_sizes(reader, "atoms", 1, SLICE_ATOMS_MAX, &request->atoms);
        break;
    case OPTION_MODE:
        asked->mode = true;
        read_modes(reader, asked);
        break;
    case OPTION_DEVICE:
        if (options_choice(reader, device_names, 2, &request->device))
            request->device += HALO_CPU;
        break;
    case OPTION_PLAN:
        asked->threads = true;
        options_choice(reader, halo_plan_names, 4, &request->plan);
        break;
    case OPTION_KIND:
        asked->threads = asked->kind = true;
        bench_read_set(reader, "kind", halo_kind_names, 2, request->kind);
        break;
    case OPTION_ELEMENTS:
        asked->threads = true;
        bench_read_set(reader, "elements", halo_element_names, 2, request->elements);
        break;
    case OPTION_DIRECTION:
        asked->threads = true;
        bench_read_set(reader, "direction", halo_direction_names, 2, request->direction);
        break;
    case OPTION_CONSUMER:
        asked->threads = request->consumer = true;
        break;
    case OPTION_GRAPH:
        asked->threads = request->graph = true;
        break;
    case OPTION_ROUNDS:
        options_integer(reader, 1, BENCH_ROUNDS_MAX, &request->pace.rounds);
        break;
    case OPTION_SLICE:
        options_integer(reader, 1, 10000, &request->pace.slice_ms);
        break;
    case OPTION_AGAINST:
        asked->against = true;
        bench_read_set(reader, "against", halo_peer_names, HALO_PEER_COUNT, request->against);
        break;
    case OPTION_JSON:
        request->json = true;
        break;
    }
}

static int count(const bool *chosen, int of)
{
    int sum = 0;
    for (int i = 0; i < of; i++)
        sum += chosen[i];
    return sum;
}

// What does not go together is refused before anything starts.
static void check(struct option_reader *reader, const struct halo_request *request,
                  const struct asked *asked)
{
    const bool processes = request->device == HALO_PROCESSES;
    const int gpu_peers = count(request->against + 1, HALO_PEER_COUNT - 1);
    if (processes && (asked->threads || count(request->mode, HALO_MODE_COUNT) > 1))
        options_error(reader, "several modes, --plan, --kind, --elements, --direction, --consumer "
                              "and --graph want --device cuda or --device cpu");
    else if (!count(request->mode, HALO_MODE_COUNT) || !count(request->kind, 2) ||
             !count(request->elements, 2) || !count(request->direction, 2))
        options_error(reader, "--mode, --kind, --elements and --direction want one word at least");
    else if (asked->kind && !request->plan)
        options_error(reader, "--kind is of whole plans: choose one with --plan 1d, 2d or 3d");
    else if (request->graph && request->device != HALO_CUDA)
        options_error(reader, "--graph wants --device cuda");
    else if (asked->against && request->against[HALO_PEER_OPENMPI] && !processes)
        options_error(reader, "openmpi is the peer of processes; on GPUs it is mpi");
    else if (asked->against && gpu_peers && (request->device != HALO_CUDA || request->plan))
        options_error(reader, "peers but openmpi want --device cuda and --plan pulse");
}

static void settle(struct halo_request *request, struct asked *asked)
{
    const bool cuda_pulse = request->device == HALO_CUDA && !request->plan;
    const bool threads = request->device != HALO_PROCESSES;
    const bool all = asked->modes[HALO_MODE_COUNT];
    if (!asked->mode) {
        for (int i = 0; i < HALO_MODE_COUNT; i++)
            request->mode[i] = threads || i == LEAT_MODE_FUSED;
    } else {
        for (int i = 0; i < HALO_MODE_COUNT; i++)
            request->mode[i] = all || asked->modes[i];
    }
    for (int i = 0; !asked->against && i < HALO_PEER_COUNT; i++)
        request->against[i] = i == HALO_PEER_OPENMPI ? !threads : cuda_pulse;
    if (threads && !asked->atoms)
        request->atoms = (struct bench_sizes){{1000, 4000, 16000, 64000, 256000, 1000000}, 6};
}

static int parse(struct option_reader *reader, struct halo_request *request)
{
    struct asked asked = {0};
    while (options_next(reader))
        read_option(reader, request, &asked);
    if (reader->exit_status >= 0 || !options_no_operands(reader))
        return reader->exit_status;
    settle(request, &asked);
    check(reader, request, &asked);
    return reader->exit_status;
}

// ---- between processes ----

static void report_json(struct halo_bench *bench, uint64_t atoms, const struct bench_side *side,
                        double ratio)
{
    char name[64];
    const struct bench_series *ns = &side->ns, *flag = &bench->sides.flag_ns;
    bool ours = side == &bench->sides.side[0];
    const char *kind = ours ? halo_mode_names[bench->mode] : side->name;
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
    int error = bench_measure(sides, &bench->request->pace, "halo", atoms);
    if (error)
        return error;
    double ratio = bench_best_peer(sides) / bench_median(&sides->side[0].ns);
    if (!bench->request->json)
        report_line(bench, atoms, ratio);
    for (int i = 0; i < sides->side_count; i++)
        report_json(bench, atoms, &sides->side[i], ratio);
    return 0;
}

static int run(struct halo_bench *bench)
{
    const struct halo_request *request = bench->request;
    struct bench_sides *sides = &bench->sides;
    bench->list = json_array();
    int error = bench_open(sides, 2);
    if (!error) {
        bench_add_leat(sides, "leat", "halo-rank", halo_mode_names[bench->mode]);
        // FindMPI takes the system's first MPI, whose launcher has the plain name.
        if (request->against[HALO_PEER_OPENMPI])
            bench_add_peer(sides, 0, "mpirun", "leat-peer-mpi-halo");
        error = bench_start(sides);
    }
    if (!error && !request->json) {
        printf("# halo exchange, %s, 2 processes, float3, us an exchange: median (min-max)\n"
               "#  atoms  %26s",
               halo_mode_names[bench->mode], "leat");
        for (int i = 1; i < sides->side_count; i++)
            printf("  %26s", sides->side[i].name);
        printf("%s  %22s\n", sides->side_count > 1 ? "   ratio" : "", "flag ns");
    }
    for (int i = 0; !error && i < request->atoms.count; i++)
        error = measure(bench, request->atoms.value[i]);
    bench_close(sides, error);
    if (!error && request->json)
        bench_print_json("halo", sides, &request->pace, bench->list, NULL);
    else
        json_decref(bench->list);
    return error;
}

static int run_processes(const struct halo_request *request)
{
    struct halo_bench bench = {.request = request};
    while (!request->mode[bench.mode])
        bench.mode++;
    return run(&bench);
}

int bench_halo(int argc, char **argv)
{
    struct halo_request request = {
        .atoms = {{100, 1000, 4000, 16000, 64000, 256000, 1000000}, 7},
        .kind = {true, false},
        .elements = {true, false},
        .direction = {true, false},
        .pace = {.rounds = 9, .slice_ms = 20},
    };
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    int status = parse(&reader, &request);
    if (status >= 0)
        return status;
    int error =
        request.device == HALO_PROCESSES ? run_processes(&request) : bench_halo_threads(&request);
    return error ? command_fail("bench halo", error) : EXIT_DONE;
}

int bench_halo_serve(int argc, char **argv)
{
    int mode = 0;
    while (argc == 4 && mode < HALO_MODE_COUNT && strcmp(argv[3], halo_mode_names[mode]) != 0)
        mode++;
    if (argc != 4 || mode == HALO_MODE_COUNT) {
        fprintf(stderr, "leat bench halo-rank: started by leat bench halo itself\n");
        return EXIT_USAGE;
    }
    int error = bench_halo_rank(argv[1], argv[2], (enum leat_mode)mode);
    return error ? command_fail("bench halo", error) : EXIT_DONE;
}
