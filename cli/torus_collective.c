// SPDX-License-Identifier: Apache-2.0
// leat torus bcast, allreduce, alltoall, barrier and exchange.
//
// Algorithm: an operation of few bytes, so that neighbours have rings as in a program that has been
// running; then the one that is measured. Advantage: the second is what a benchmark sees.
// Disadvantage: the first takes its time; --cold leaves it out.

#include "commands.h"
#include "core/error.h"
#include "sim/exchange.h"
#include "torus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WARM_BYTES (UINT64_C(256) << 10)
#define TREE_BYTES (UINT64_C(1) << 20)

static const enum leat_collective_kind kinds[] = {[TORUS_BROADCAST] = LEAT_BROADCAST,
                                                  [TORUS_ALLREDUCE] = LEAT_ALLREDUCE,
                                                  [TORUS_ALLTOALL] = LEAT_ALLTOALL,
                                                  [TORUS_BARRIER] = LEAT_BARRIER,
                                                  // No collective: it has a program of its own.
                                                  [TORUS_EXCHANGE] = LEAT_COLLECTIVE_COUNT};

struct report {
    struct sim_measured measured;
    struct sim_bound bound;
    uint64_t events, transfers, wakes;
    int ranks, neighbours;
    char shape[256];
    double wall_seconds;
};

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// What goes through the network if everything goes once from a neighbour.
static double expected_bytes(const struct torus_request *request, int ranks)
{
    double bytes = (double)request->bytes * (ranks - 1);
    switch (request->what) {
    case TORUS_ALLREDUCE:
        return 2 * bytes;
    case TORUS_ALLTOALL:
        return bytes * ranks;
    case TORUS_EXCHANGE:
        return bytes * SIM_DIRECTIONS;
    default:
        return request->what == TORUS_BROADCAST ? bytes : 0;
    }
}

// The message layer takes trees for a sum only where it is asked to, since they change the order of
// combining; words have none.
static const char *algorithm_of(const struct torus_request *request, const struct sim_job *job)
{
    bool rings = job->folded && job->fold.wrap[0] && job->fold.wrap[1] && job->fold.wrap[2];
    bool trees = request->what == TORUS_BROADCAST || request->what == TORUS_ALLREDUCE;
    if (request->algorithm || !rings || !trees || request->bytes < TREE_BYTES)
        return request->algorithm;
    return "trinary";
}

static int run_once(const struct torus_request *request, struct sim_job *job,
                    const struct sim_collective *what, struct sim_measured *measured)
{
    return request->what == TORUS_EXCHANGE ? sim_exchange_run(job, what->bytes, measured)
                                           : sim_collective_run(job, what, measured);
}

static int measure(const struct torus_request *request, struct sim_job *job,
                   const struct sim_collective *what, struct report *report)
{
    struct sim_collective warm = *what;
    struct torus_watch watch;
    if (warm.bytes > WARM_BYTES)
        warm.bytes = WARM_BYTES;
    int error = 0;
    if (request->warm && what->kind != LEAT_ALLTOALL)
        error = run_once(request, job, &warm, &report->measured);
    if (error)
        return error;
    uint64_t events = job->fabric.agenda.added, transfers = job->fabric.network.transfers;
    uint64_t wakes = job->fabric.wakes;
    for (uint32_t i = 0; i < job->topology.link_count; i++)
        job->fabric.network.link[i].bytes = 0;
    job->fabric.network.bytes = 0;
    torus_watch_begin(&watch, job, expected_bytes(request, job->rank_count));
    error = run_once(request, job, what, &report->measured);
    report->events = job->fabric.agenda.added - events;
    report->transfers = job->fabric.network.transfers - transfers;
    report->wakes = job->fabric.wakes - wakes;
    char title[512];
    snprintf(title, sizeof title, "%s, %s of %llu bytes, %s, %d ranks as %s", request->machine.name,
             torus_names[request->what], (unsigned long long)what->bytes,
             error ? "" : report->measured.algorithm, job->rank_count, report->shape);
    if (!error && request->svg)
        error = torus_svg_write(request->svg, job, &watch, report->measured.seconds, title);
    torus_watch_end(&watch);
    return error;
}

static double rate(double bytes, double seconds)
{
    return seconds > 0 ? bytes / seconds * 1e-9 : 0;
}

// The bytes that the rate is of: a rank's to all it sends to, or the data.
static double rate_bytes(const struct torus_request *request, const struct report *report)
{
    if (request->what == TORUS_ALLTOALL)
        return (double)request->bytes * (report->ranks - 1);
    if (request->what == TORUS_EXCHANGE)
        return (double)request->bytes * report->neighbours;
    return request->what == TORUS_BARRIER ? 0 : (double)request->bytes;
}

static int print_json(const struct torus_request *request, const struct report *report)
{
    double bytes = rate_bytes(request, report);
    return torus_print(json_pack(
        "{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:f, s:f, s:f, s:f, s:s, s:I, s:I, s:I, s:b, s:i, "
        "s:f}",
        "schema", "leat.torus/1", "machine", request->machine.name, "operation",
        torus_names[request->what], "ranks", report->ranks, "shape", report->shape, "bytes",
        (json_int_t)(request->what == TORUS_BARRIER ? 0 : request->bytes), "algorithm",
        report->measured.algorithm, "seconds", report->measured.seconds, "gb_per_s",
        rate(bytes, report->measured.seconds), "bound_gb_per_s",
        rate(bytes, report->bound.bandwidth_seconds), "bound_seconds", report->bound.seconds,
        "bound_by", report->bound.limit, "events", (json_int_t)report->events, "transfers",
        (json_int_t)report->transfers, "wakes", (json_int_t)report->wakes, "checked",
        report->measured.wrong == 0, "wrong_ranks", report->measured.wrong, "wall_seconds",
        report->wall_seconds));
}

static void print_text(const struct torus_request *request, const struct report *report)
{
    double bytes = rate_bytes(request, report);
    double bound = rate(bytes, report->bound.bandwidth_seconds);
    double got = rate(bytes, report->measured.seconds);
    printf("%s, %d ranks as %s\n%s", request->machine.name, report->ranks, report->shape,
           torus_names[request->what]);
    if (bytes > 0)
        printf(" of %llu bytes", (unsigned long long)request->bytes);
    printf(", %s: %.3f us", report->measured.algorithm, report->measured.seconds * 1e6);
    if (bytes > SIM_REAL_BYTES)
        printf(", %.3f GB/s", got);
    if (bound > 0 && bytes > SIM_REAL_BYTES)
        printf("; bound %.2f GB/s (%s), reached to %.0f %%", bound, report->bound.limit,
               100 * got / bound);
    printf("; at least %.3f us\n", report->bound.seconds * 1e6);
    if (report->measured.wrong)
        printf("WRONG at %d of %d ranks\n", report->measured.wrong, report->ranks);
    else if (bytes > 0)
        printf("right at all ranks; ");
    printf("%.1f million transfers, %.1f million events, in %.1f s\n",
           (double)report->transfers * 1e-6, (double)report->events * 1e-6, report->wall_seconds);
}

static void describe_shape(const struct sim_job *job, char *text, size_t bytes)
{
    if (job->folded)
        sim_fold_text(&job->fold, text, bytes);
    else
        snprintf(text, bytes, "%d", job->rank_count);
}

static int run(const struct torus_request *request, struct report *report)
{
    struct sim_collective what = {.kind = kinds[request->what],
                                  .bytes = request->what == TORUS_BARRIER ? 0 : request->bytes,
                                  .root = request->root};
    struct msg_tuning tuning;
    struct sim_job job;
    int error = torus_ranks(request, &report->ranks);
    if (!error && what.root >= report->ranks)
        error =
            leat_fail(-EINVAL, "--root is %d, but there are %d ranks", what.root, report->ranks);
    if (error)
        return error;
    uint64_t hollow = request->what == TORUS_EXCHANGE ? sim_exchange_hollow(what.bytes)
                                                      : sim_collective_hollow(&what, report->ranks);
    struct sim_job_options options = torus_options(request, hollow, &tuning);
    error = sim_job_open(&job, &options);
    if (error)
        return error;
    describe_shape(&job, report->shape, sizeof report->shape);
    what.algorithm = algorithm_of(request, &job);
    error = measure(request, &job, &what, report);
    for (int i = 0; i < SIM_FOLD_SIDES_MAX; i++)
        report->neighbours += job.fold.side[i] > 1 ? 2 : 0;
    if (!error)
        report->bound = request->what == TORUS_EXCHANGE
                            ? sim_bound_exchange(&job, what.bytes)
                            : sim_bound_collective(&job, &what, report->measured.algorithm);
    sim_job_close(&job);
    return error;
}

int torus_collective(const struct torus_request *request)
{
    struct report report = {.ranks = 0};
    double begin = now_seconds();
    int error = run(request, &report);
    if (error)
        return command_fail("torus", error);
    report.wall_seconds = now_seconds() - begin;
    int status = EXIT_DONE;
    if (request->json)
        status = print_json(request, &report);
    else
        print_text(request, &report);
    return status == EXIT_DONE && report.measured.wrong ? EXIT_FAILED : status;
}
