// SPDX-License-Identifier: Apache-2.0
// Ways of the halo benchmark with ranks as threads: their programs, and slices by turns; the
// algorithm is told in bench_sides.h.

#define _GNU_SOURCE
#include "bench_halo_ways.h"

#include "../bench/gpu_slice.h"
#include "core/error.h"

#include <errno.h>
#include <signal.h>

const char *const halo_group_names[HALO_GROUP_COUNT] = {"exchange", "step", "graph"};

// ---- sides ----

static struct bench_side *new_side(struct halo_ways *ways, const char *name, const char *program)
{
    struct bench_sides *sides = &ways->sides;
    char path[480];
    if (sides->side_count == BENCH_SIDES_MAX || !bench_beside(program, path, sizeof path))
        return NULL;
    struct bench_side *side = &sides->side[sides->side_count];
    char *own = ways->side_name[sides->side_count++];
    snprintf(own, sizeof *ways->side_name, "%s", name);
    snprintf(side->program, sizeof side->program, "%s", path);
    side->name = own;
    return side;
}

static void arguments(struct bench_side *side, const char *const *words, int count)
{
    const int room = (int)(sizeof side->arguments / sizeof *side->arguments) - 1;
    for (int i = 0; i < count && side->argument_count < room; i++)
        side->arguments[side->argument_count++] = words[i];
}

static struct halo_way *new_way(struct halo_ways *ways, struct bench_side *side, const char *name,
                                const char *word)
{
    if (ways->count == HALO_WAYS_MAX)
        return NULL;
    struct halo_way *way = &ways->way[ways->count++];
    *way = (struct halo_way){.name = name, .word = word, .side = side};
    return way;
}

static int add_leat(struct halo_ways *ways, const struct halo_request *request, int mode, int kind)
{
    char name[32];
    snprintf(name, sizeof name, "leat-%s-%s", halo_mode_names[mode], halo_kind_names[kind]);
    if (ways->sides.side_count == BENCH_SIDES_MAX)
        return leat_fail(-E2BIG,
                         "more than %d programs at once: ask for fewer modes, kinds or "
                         "peers",
                         BENCH_SIDES_MAX);
    struct bench_side *side = new_side(ways, name, "leat-side");
    if (!side)
        return leat_fail(-ENOENT, "the program leat-side is not beside this one: build with "
                                  "LEAT_BUILD_BENCH=ON");
    const char *const words[] = {side->program,
                                 ways->sides.directory,
                                 side->name,
                                 request->device == HALO_CUDA ? "cuda" : "cpu",
                                 halo_mode_names[mode],
                                 halo_plan_names[request->plan],
                                 halo_kind_names[kind]};
    arguments(side, words, sizeof words / sizeof *words);
    struct halo_way *way = new_way(ways, side, halo_mode_names[mode], halo_mode_names[mode]);
    if (way) {
        way->ours = true;
        way->mode = mode;
        way->kind = kind;
    }
    return 0;
}

// Peers by program; the ways of NVSHMEM share one.
static const struct {
    enum halo_peer peer;
    const char *program, *word, *wants;
} peers[] = {
    {HALO_PEER_MPI, "leat-peer-cuda-mpi", "mpi", "an MPI"},
    {HALO_PEER_NCCL, "leat-peer-cuda-nccl", "nccl", "NCCL"},
    {HALO_PEER_NVSHMEM, "leat-peer-cuda-nvshmem", "stream", "NVSHMEM"},
    {HALO_PEER_PUT, "leat-peer-cuda-nvshmem", "put", "NVSHMEM"},
    {HALO_PEER_STORE, "leat-peer-cuda-nvshmem", "store", "NVSHMEM"},
    {HALO_PEER_RESIDENT, "leat-peer-cuda-nvshmem", "resident", "NVSHMEM"},
};
#define PEER_COUNT (sizeof peers / sizeof *peers)

static struct bench_side *side_of_program(struct halo_ways *ways, const char *program)
{
    for (int i = 0; i < ways->sides.side_count; i++)
        if (strcmp(ways->side_name[i], program) == 0)
            return &ways->sides.side[i];
    struct bench_side *side = new_side(ways, program, program);
    if (!side)
        return NULL;
    static const char *const launcher[] = {"mpirun", "--allow-run-as-root", "--oversubscribe",
                                           "-np", "2"};
    if (strcmp(program, "leat-peer-cuda-mpi") == 0)
        arguments(side, launcher, sizeof launcher / sizeof *launcher);
    const char *const words[] = {side->program, ways->sides.directory, side->name};
    arguments(side, words, sizeof words / sizeof *words);
    return side;
}

static void add_peers(struct halo_ways *ways, const struct halo_request *request)
{
    const char *missing = "";
    for (size_t i = 0; i < PEER_COUNT; i++) {
        if (!request->against[peers[i].peer])
            continue;
        struct bench_side *side = side_of_program(ways, peers[i].program);
        if (side)
            new_way(ways, side, halo_peer_names[peers[i].peer], peers[i].word);
        else if (strcmp(missing, peers[i].program) != 0)
            fprintf(stderr,
                    "leat bench: %s is not there or has no room, so it is not measured; it is "
                    "built where CUDA and %s are\n",
                    missing = peers[i].program, peers[i].wants);
    }
}

int halo_ways_add(struct halo_ways *ways, const struct halo_request *request)
{
    int error = 0;
    for (int kind = 0; kind < 2; kind++)
        for (int mode = 0; !error && mode < HALO_MODE_COUNT; mode++)
            if (request->kind[kind] && request->mode[mode])
                error = add_leat(ways, request, mode, kind);
    if (!error)
        add_peers(ways, request);
    return error;
}

// ---- slices ----

bool halo_way_joins(const struct halo_way *way, enum halo_group group, bool reverse)
{
    const bool resident = strcmp(way->word, "resident") == 0;
    if (group == HALO_EXCHANGE)
        return true;
    if (reverse)
        return false;
    if (group == HALO_STEP)
        return true;
    if (way->ours)
        return way->mode == LEAT_MODE_FUSED || way->mode == LEAT_MODE_PULSE;
    return !resident && strcmp(way->word, "mpi") != 0 && strcmp(way->word, "stream") != 0;
}

// A side that does not answer, or answered only in part, cannot be led any more.
static void drop_side(struct halo_ways *ways, struct bench_side *side)
{
    if (side->pid > 0)
        kill(side->pid, SIGKILL);
    side->idle = true;
    for (int i = 0; i < ways->count; i++)
        if (ways->way[i].side == side) {
            ways->way[i].measured = false;
            ways->ours_failed |= ways->way[i].ours;
        }
}

struct slot {
    enum halo_group group;
    int components;
    bool reverse;
    uint64_t atoms;
};

// *ns stays 0 where the way has none.
static int slice(struct halo_ways *ways, struct halo_way *way, const struct slot *slot,
                 uint64_t count, double *ns)
{
    struct gpu_slice ask = {.components = slot->components,
                            .reverse = slot->reverse,
                            .consume = slot->group == HALO_STEP,
                            .graph = slot->group == HALO_GRAPH};
    char what[16];
    snprintf(ask.way, sizeof ask.way, "%s", way->word);
    gpu_slice_format(&ask, what);
    *ns = 0;
    int error = bench_slice(&ways->sides, way->side, what, slot->atoms, count);
    if (error == -EINTR)
        return error;
    if (error) {
        fprintf(stderr, "leat bench: %s of %" PRIu64 " atoms (%s): %s; not measured any more\n",
                way->name, slot->atoms, halo_group_names[slot->group], leat_error_detail());
        drop_side(ways, way->side);
        return 0;
    }
    for (int rank = 0; rank < ways->sides.rank_count; rank++) {
        const double *values = ways->sides.values[rank];
        if (values[0] <= 0) {
            way->measured = false;
            *ns = 0;
            return 0;
        }
        if (values[0] > *ns)
            *ns = values[0];
        way->pulses = values[1];
        way->ghosts = values[2];
        way->launches = values[3];
        way->waits = values[4];
    }
    return 0;
}

static int warm_up(struct halo_ways *ways, const struct bench_pace *pace, const struct slot *slot)
{
    const double slice_ns = pace->slice_ms * 1e6;
    int error = 0;
    for (int i = 0; !error && i < ways->count; i++) {
        struct halo_way *way = &ways->way[i];
        double ns = 0;
        way->ns.count = 0;
        way->measured = !way->side->idle && halo_way_joins(way, slot->group, slot->reverse);
        if (way->measured)
            error = slice(ways, way, slot, 10, &ns);
        if (!error && way->measured)
            error = slice(ways, way, slot, bench_iterations(slice_ns / 8, ns), &ns);
        way->iterations = bench_iterations(slice_ns, ns);
    }
    return error;
}

int halo_ways_measure(struct halo_ways *ways, const struct bench_pace *pace, enum halo_group group,
                      int components, bool reverse, uint64_t atoms)
{
    const struct slot slot = {group, components, reverse, atoms};
    int error = warm_up(ways, pace, &slot);
    for (int round = 0; !error && round < pace->rounds; round++)
        for (int i = 0; !error && i < ways->count; i++) {
            // Nobody is always first.
            struct halo_way *way = &ways->way[(round + i) % ways->count];
            if (way->measured)
                error = slice(ways, way, &slot, way->iterations, &way->ns.value[round]);
        }
    for (int i = 0; i < ways->count; i++)
        if (ways->way[i].measured) {
            ways->way[i].ns.count = pace->rounds;
            bench_sort(&ways->way[i].ns);
        }
    return error;
}
