// SPDX-License-Identifier: Apache-2.0
// leat torus: the message layer on a modelled machine, in virtual time.
//
// Advantage: algorithms and machines are compared before either is there, with the code that would
// run. Disadvantage: what is printed is a model's answer; docs/torus.md says what it assumes.

#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "options.h"
#include "torus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTION_NODES = OPTION_LONG,
    OPTION_BYTES,
    OPTION_ALGORITHM,
    OPTION_CHUNK,
    OPTION_ROOT,
    OPTION_HOPS,
    OPTION_SEED,
    OPTION_JITTER,
    OPTION_COLD,
    OPTION_SVG,
    OPTION_GRO,
    OPTION_TILE,
    OPTION_CUTOFF,
    OPTION_ATOM_NS,
    OPTION_STEPS,
    OPTION_JSON
};

#define BYTES_MOST (UINT64_C(1) << 34)

const char *const torus_names[TORUS_WHATS] = {"bcast",    "allreduce", "alltoall", "barrier",
                                              "exchange", "pingpong",  "memory",   "md-halo"};

static const struct option_row rows[] = {
    {OPTION_NODES, "nodes", "AxBxC",
     "the job's torus, one to three sides, or the number of ranks on a cluster (the whole "
     "machine)"},
    {OPTION_BYTES, "bytes", "N",
     "bytes of the data, of each block in alltoall and exchange, with K, M or G (1M; alltoall and "
     "memory 8; pingpong some)"},
    {OPTION_ALGORITHM, "algorithm", "NAME", "as `leat bench coll --help` lists them (chosen)"},
    {OPTION_CHUNK, "chunk", "N", "bytes of a chunk of trees, chains and rings (their own)"},
    {OPTION_ROOT, "root", "RANK", "of a broadcast (0)"},
    {OPTION_HOPS, "hops", "N", "between the two ranks of a ping-pong (some from 1 up)"},
    {OPTION_SEED, "seed", "N", "of what is drawn (1)"},
    {OPTION_JITTER, "jitter", "NS", "ranks begin up to so much later, as drawn (0)"},
    {OPTION_COLD, "cold", NULL, "no operation goes before, so rings are still to be granted"},
    {OPTION_SVG, "svg", "FILE", "write link loads and a time line as a picture"},
    {OPTION_GRO, "gro", "FILE", "md-halo: coordinates of the input, in an upright box"},
    {OPTION_TILE, "tile", "AxBxC", "md-halo: the input so many times in each direction (1x1x1)"},
    {OPTION_CUTOFF, "cutoff", "NM", "md-halo: the list's cut-off (1.0)"},
    {OPTION_ATOM_NS, "atom-ns", "NS", "md-halo: computing a step, an atom, in one domain (0)"},
    {OPTION_STEPS, "steps", "N", "md-halo: steps that are timed, after three (20)"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.torus/1)"},
};

static const struct option_table table = {
    .command = "torus",
    .synopsis =
        "MACHINE bcast|allreduce|alltoall|barrier|exchange|pingpong|memory|md-halo [--nodes AxBxC] "
        "[--bytes N] [--algorithm NAME] [--json]",
    .summary =
        "Runs the real message code of all ranks in one process, in virtual time, on the machine "
        "that the file MACHINE models (or the shipped one of that name: k, gpu-cluster). Results "
        "are checked, every byte of every rank; the exit status is 1 when one is wrong. Printed: "
        "the time, the rate, and what no run can be faster than on that machine. exchange sends to "
        "and receives from both neighbours on each side of the job's torus. memory has one real "
        "endpoint talk to all others, and says what it holds. md-halo takes an input, cuts its box "
        "into a domain a node, and times steps of halo exchange, forwarded and with one hop.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

// ---- Reading ----

static void read_nodes(struct option_reader *reader, struct torus_request *request)
{
    const char *at = reader->value;
    int count = 0, side[SIM_FOLD_SIDES_MAX];
    while (count < SIM_FOLD_SIDES_MAX) {
        char *end;
        long value = strspn(at, "0123456789") ? strtol(at, &end, 10) : 0;
        if (value < 1 || value > SIM_NODES_MAX)
            break;
        side[count++] = (int)value;
        if (*end == '\0') {
            memcpy(request->side, side, sizeof side);
            request->side_count = count;
            return;
        }
        if (*end != 'x')
            break;
        at = end + 1;
    }
    options_error(reader, "--nodes is \"%s\"; expected one to three whole numbers as in 48x6x32",
                  reader->value);
}

static void read_bytes(struct option_reader *reader, const char *option, uint64_t *bytes)
{
    if (leat_parse_bytes(reader->value, bytes) || *bytes > BYTES_MOST)
        options_error(reader, "--%s is \"%s\"; expected bytes up to 16G, with K, M or G", option,
                      reader->value);
}

static void read_seed(struct option_reader *reader, struct torus_request *request)
{
    char *end;
    errno = 0;
    request->seed = strtoull(reader->value, &end, 10);
    if (errno || end == reader->value || *end || *reader->value == '-')
        options_error(reader, "--seed is \"%s\"; expected a whole number", reader->value);
}

static void read_jitter(struct option_reader *reader, struct torus_request *request)
{
    double ns = 0;
    if (options_number(reader, 0, 1e12, &ns))
        request->jitter_ns = (uint64_t)ns;
}

static void read_option(struct option_reader *reader, struct torus_request *request)
{
    switch (reader->id) {
    case OPTION_NODES:
        read_nodes(reader, request);
        break;
    case OPTION_BYTES:
        read_bytes(reader, "bytes", &request->bytes);
        break;
    case OPTION_ALGORITHM:
        request->algorithm = reader->value;
        break;
    case OPTION_CHUNK:
        read_bytes(reader, "chunk", &request->chunk_bytes);
        break;
    case OPTION_ROOT:
        options_integer(reader, 0, SIM_NODES_MAX, &request->root);
        break;
    case OPTION_HOPS:
        options_integer(reader, 1, 1000, &request->hops);
        break;
    case OPTION_SEED:
        read_seed(reader, request);
        break;
    case OPTION_JITTER:
        read_jitter(reader, request);
        break;
    case OPTION_COLD:
        request->warm = false;
        break;
    case OPTION_GRO:
        request->gro = reader->value;
        break;
    case OPTION_TILE:
        options_grid(reader, request->tile);
        break;
    case OPTION_CUTOFF:
        options_number(reader, 1e-3, 1e3, &request->cutoff_nm);
        break;
    case OPTION_ATOM_NS:
        options_number(reader, 0, 1e9, &request->atom_ns);
        break;
    case OPTION_STEPS:
        options_integer(reader, 1, 100000, &request->steps);
        break;
    case OPTION_SVG:
        request->svg = reader->value;
        break;
    default:
        request->json = true;
    }
}

static int read_what(struct option_reader *reader, struct torus_request *request)
{
    int count = reader->argc - reader->operand;
    if (count < 2)
        return options_error(reader, "which machine, and what is to be done on it? leat torus k "
                                     "bcast");
    if (count > 2)
        return options_error(reader, "one machine and one thing to do; \"%s\" is one too many",
                             reader->argv[reader->operand + 2]);
    const char *name = reader->argv[reader->operand + 1];
    struct name_guess guess = {.wanted = name};
    int what = 0;
    for (; what < TORUS_WHATS && strcmp(torus_names[what], name) != 0; what++)
        leat_name_consider(&guess, torus_names[what]);
    request->what = (enum torus_what)what;
    if (what < TORUS_WHATS)
        return -1;
    if (guess.best)
        return options_error(reader, "\"%s\" is nothing to do; did you mean %s?", name, guess.best);
    return options_error(reader,
                         "\"%s\" is nothing to do; there are bcast, allreduce, alltoall, "
                         "barrier, exchange, pingpong, memory and md-halo",
                         name);
}

// ---- Running ----

struct sim_job_options torus_options(const struct torus_request *request, uint64_t hollow_bytes,
                                     struct msg_tuning *tuning)
{
    *tuning = sim_job_tuning(&request->machine);
    if (request->chunk_bytes)
        tuning->tree_bytes = tuning->chain_bytes = tuning->part_bytes =
            (uint32_t)(request->chunk_bytes < UINT32_MAX ? request->chunk_bytes : UINT32_MAX);
    struct sim_job_options options = {.machine = &request->machine,
                                      .side_count = request->side_count,
                                      .hollow_bytes = hollow_bytes,
                                      .seed = request->seed,
                                      .jitter_ns = request->jitter_ns,
                                      .tuning = tuning};
    memcpy(options.side, request->side, sizeof options.side);
    return options;
}

int torus_ranks(const struct torus_request *request, int *ranks)
{
    struct sim_topology topology;
    int error = sim_topology_open(&topology, &request->machine);
    if (error)
        return error;
    int64_t count = request->side_count ? 1 : topology.node_count;
    for (int i = 0; i < request->side_count && count <= SIM_NODES_MAX; i++)
        count *= request->side[i];
    if (count > topology.node_count)
        error = leat_fail(-EINVAL, "--nodes asks for %lld ranks, but %s has %d nodes",
                          (long long)count, request->machine.name, topology.node_count);
    *ranks = (int)count;
    sim_topology_close(&topology);
    return error;
}

int torus_print(json_t *object)
{
    if (!object)
        return command_fail("torus", leat_fail(-ENOMEM, "no memory for the report"));
    json_dumpf(object, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(object);
    return EXIT_DONE;
}

static int run(const struct torus_request *request)
{
    switch (request->what) {
    case TORUS_PINGPONG:
        return torus_pingpong(request);
    case TORUS_MEMORY:
        return torus_memory(request);
    case TORUS_HALO:
        return torus_halo(request);
    default:
        return torus_collective(request);
    }
}

int cmd_torus(int argc, char **argv)
{
    struct torus_request request = {
        .hops = -1, .seed = 1, .warm = true, .tile = {1, 1, 1}, .steps = 20, .cutoff_nm = 1};
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        read_option(&reader, &request);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    int status = read_what(&reader, &request);
    if (status >= 0)
        return status;
    if (request.what == TORUS_HALO && !request.gro)
        return options_error(&reader, "md-halo needs an input: --gro FILE");
    if (!request.bytes && request.what != TORUS_PINGPONG)
        request.bytes =
            request.what == TORUS_ALLTOALL || request.what == TORUS_MEMORY ? 8 : 1 << 20;
    int error = sim_machine_read(argv[reader.operand], &request.machine);
    if (error)
        return command_fail("torus", error);
    status = run(&request);
    sim_machine_end(&request.machine);
    return status;
}
