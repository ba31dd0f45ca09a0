// SPDX-License-Identifier: Apache-2.0
// leat torus pingpong: latency, rate, and where announcing a message begins to pay, by distance.
//
// Algorithm: two ranks, alone on the machine, at each distance. The limit of eager sends is found
// by halving an interval of sizes with two tunings, one that sends everything eagerly and one that
// announces everything, and stands beside the limit that the job's own tuning has. Advantage: the
// limit is measured on the model, not computed from its figures. Disadvantage: sizes between which
// the two ways cross more than once give one of the crossings.

#include "commands.h"
#include "core/error.h"
#include "torus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (UINT64_C(4) << 20)
#define SMALL_BYTES 8
#define LEAST_EAGER 256
#define MOST_EAGER  (UINT64_C(192) << 10)
#define STEP_BYTES  64 /* to which the limit is found */

struct row {
    int hops;
    double latency_ns, asked_ns, large_ns;
    uint64_t eager_bytes, eager_own_bytes; /* 0: announcing is never faster */
    bool asked;                            /* --bytes was given */
};

enum protocol { OWN, EAGER, ANNOUNCED };

static int open_pair(const struct torus_request *request, const int32_t *place,
                     enum protocol protocol, struct sim_job *job)
{
    struct msg_tuning tuning;
    struct sim_job_options options = torus_options(request, 0, &tuning);
    options.side_count = 0;
    options.place = place;
    options.place_count = 2;
    if (protocol != OWN) {
        // Room for the largest size that is tried.
        tuning.ring_bulk_bytes = 1 << 20;
        tuning.eager_hop_bytes = 0;
        tuning.eager_bytes = protocol == EAGER ? (uint32_t)MOST_EAGER : 1;
    }
    return sim_job_open(job, &options);
}

// Where announcing gets no slower than sending at once.
static int find_limit(const struct torus_request *request, const int32_t *place, uint64_t *limit)
{
    struct sim_job eager, announced;
    int error = open_pair(request, place, EAGER, &eager);
    if (error)
        return error;
    error = open_pair(request, place, ANNOUNCED, &announced);
    if (error) {
        sim_job_close(&eager);
        return error;
    }
    uint64_t low = LEAST_EAGER, high = MOST_EAGER;
    while (!error && high - low > STEP_BYTES) {
        uint64_t middle = low + (high - low) / 2;
        double eager_ns = 0, announced_ns = 0;
        error = sim_pingpong_run(&eager, 0, 1, middle, &eager_ns);
        if (!error)
            error = sim_pingpong_run(&announced, 0, 1, middle, &announced_ns);
        if (eager_ns <= announced_ns)
            low = middle;
        else
            high = middle;
    }
    *limit = high < MOST_EAGER ? low : 0;
    sim_job_close(&eager);
    sim_job_close(&announced);
    return error;
}

static uint64_t own_limit(const struct sim_job *job, int hops)
{
    const struct msg_tuning *tuning = &job->rank[0].engine->tuning;
    uint64_t limit = tuning->eager_bytes + (uint64_t)(hops - 1) * tuning->eager_hop_bytes;
    return limit < tuning->eager_most ? limit : tuning->eager_most;
}

static int measure(const struct torus_request *request, int node, struct row *row)
{
    const int32_t place[2] = {0, node};
    struct sim_job job;
    int error = open_pair(request, place, OWN, &job);
    if (error)
        return error;
    row->eager_own_bytes = own_limit(&job, row->hops);
    error = sim_pingpong_run(&job, 0, 1, SMALL_BYTES, &row->latency_ns);
    if (!error)
        error = sim_pingpong_run(&job, 0, 1, LARGE_BYTES, &row->large_ns);
    if (!error && row->asked)
        error = sim_pingpong_run(&job, 0, 1, request->bytes, &row->asked_ns);
    sim_job_close(&job);
    return error ? error : find_limit(request, place, &row->eager_bytes);
}

// ---- Distances ----

// The first living node at each number of links from node 0; -1: there is none.
static int find_nodes(const struct torus_request *request, int **node, int *most)
{
    struct sim_topology topology;
    int error = sim_topology_open(&topology, &request->machine);
    if (error)
        return error;
    *most = topology.hops_max;
    *node = malloc(((size_t)*most + 1) * sizeof **node);
    if (!*node)
        error = leat_fail(-ENOMEM, "no memory for %d distances", *most);
    for (int i = 0; !error && i <= *most; i++)
        (*node)[i] = -1;
    if (!error)
        error = sim_node_check(&topology, 0);
    for (int i = 1; !error && i < topology.node_count; i++) {
        if (sim_vertex_is_dead(&topology, (uint32_t)i))
            continue;
        int hops = sim_hops(&topology, 0, i);
        if (hops > 0 && hops <= *most && (*node)[hops] < 0)
            (*node)[hops] = i;
    }
    sim_topology_close(&topology);
    return error;
}

static bool is_wanted(const struct torus_request *request, int hops, int most)
{
    if (request->hops >= 0)
        return hops == request->hops;
    return (hops & (hops - 1)) == 0 || hops == most;
}

static int measure_all(const struct torus_request *request, struct row **rows, int *count)
{
    int *node = NULL, most = 0;
    int error = find_nodes(request, &node, &most);
    *rows = error ? NULL : calloc((size_t)most + 1, sizeof **rows);
    if (!error && !*rows)
        error = leat_fail(-ENOMEM, "no memory for %d distances", most);
    for (int hops = 1; !error && hops <= most; hops++) {
        if (node[hops] < 0 || !is_wanted(request, hops, most))
            continue;
        struct row *row = &(*rows)[(*count)++];
        *row = (struct row){.hops = hops, .asked = request->bytes != 0};
        error = measure(request, node[hops], row);
    }
    if (!error && !*count)
        error =
            leat_fail(-EINVAL, "%s: no living node is %d links from node 0; the longest way has %d",
                      request->machine.name, request->hops, most);
    free(node);
    return error;
}

// ---- Reports ----

static double rate(uint64_t bytes, double ns)
{
    return ns > 0 ? (double)bytes / ns : 0;
}

static json_t *row_object(const struct torus_request *request, const struct row *row)
{
    json_t *object = json_pack("{s:i, s:f, s:f, s:I, s:I}", "hops", row->hops, "latency_us",
                               row->latency_ns * 1e-3, "gb_per_s", rate(LARGE_BYTES, row->large_ns),
                               "eager_limit_bytes", (json_int_t)row->eager_bytes,
                               "eager_limit_set_bytes", (json_int_t)row->eager_own_bytes);
    if (object && row->asked)
        json_object_update_new(object,
                               json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)request->bytes,
                                         "bytes_us", row->asked_ns * 1e-3, "bytes_gb_per_s",
                                         rate(request->bytes, row->asked_ns)));
    return object;
}

static int print_json(const struct torus_request *request, const struct row *rows, int count)
{
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        json_array_append_new(list, row_object(request, &rows[i]));
    // Every byte came back as it was sent, or the measurement would have failed.
    return torus_print(json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:o*}", "schema", "leat.torus/1",
                                 "machine", request->machine.name, "operation", "pingpong",
                                 "latency_bytes", (json_int_t)SMALL_BYTES, "rate_bytes",
                                 (json_int_t)LARGE_BYTES, "checked", 1, "distances", list));
}

static void print_text(const struct torus_request *request, const struct row *rows, int count)
{
    printf("%s, ping-pong of two ranks alone; us: half a round trip of %d bytes; GB/s: of %d MiB\n",
           request->machine.name, SMALL_BYTES, (int)(LARGE_BYTES >> 20));
    printf("eager limit: from where on announcing is faster, and what the job's tuning has\n");
    printf("links        us      GB/s  eager limit       set");
    if (rows[0].asked)
        printf("  us of %llu", (unsigned long long)request->bytes);
    putchar('\n');
    for (int i = 0; i < count; i++) {
        char limit[32] = "none";
        if (rows[i].eager_bytes)
            snprintf(limit, sizeof limit, "%llu", (unsigned long long)rows[i].eager_bytes);
        printf("%5d  %8.3f  %8.3f  %11s  %8llu", rows[i].hops, rows[i].latency_ns * 1e-3,
               rate(LARGE_BYTES, rows[i].large_ns), limit,
               (unsigned long long)rows[i].eager_own_bytes);
        if (rows[i].asked)
            printf("  %8.3f", rows[i].asked_ns * 1e-3);
        putchar('\n');
    }
}

int torus_pingpong(const struct torus_request *request)
{
    struct row *rows = NULL;
    int count = 0, status = EXIT_DONE;
    int error = measure_all(request, &rows, &count);
    if (error)
        status = command_fail("torus", error);
    else if (request->json)
        status = print_json(request, rows, count);
    else
        print_text(request, rows, count);
    free(rows);
    return status;
}
