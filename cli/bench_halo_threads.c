// SPDX-License-Identifier: Apache-2.0
// leat bench halo with ranks as threads, on GPUs or the CPU device: every combination that is
// asked for, and the report.
//
// For each of elements, direction and group, and each size, all ways run slices by turns. A mode of
// leat is compared with the best peer of its group, and with its own mode `host` on whole plans.
// Advantage: one run, one machine state, one report. Disadvantage: with everything asked for it
// takes minutes.

#include "bench_halo_ways.h"

#include "core/error.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
    const struct halo_request *request;
    struct halo_ways *ways;
    json_t *list;
    enum halo_group group;
    int elements, direction; /* rows of their names */
    uint64_t atoms;
};

static const struct halo_way *best_peer(const struct halo_ways *ways)
{
    const struct halo_way *best = NULL;
    for (int i = 0; i < ways->count; i++) {
        const struct halo_way *way = &ways->way[i];
        if (way->measured && !way->ours &&
            (!best || bench_median(&way->ns) < bench_median(&best->ns)))
            best = way;
    }
    return best;
}

static const struct halo_way *host_mode(const struct halo_ways *ways, int kind)
{
    for (int i = 0; i < ways->count; i++) {
        const struct halo_way *way = &ways->way[i];
        if (way->measured && way->ours && way->mode == LEAT_MODE_HOST && way->kind == kind)
            return way;
    }
    return NULL;
}

// How much faster than the other; 0 where there is none.
static double ratio_to(const struct halo_way *other, const struct halo_way *way)
{
    return other ? bench_median(&other->ns) / bench_median(&way->ns) : 0;
}

static void set_ratio(json_t *entry, const char *key, double ratio)
{
    json_object_set_new(entry, key, ratio > 0 ? json_real(ratio) : json_null());
}

static void add_entry(const struct report *report, const struct halo_way *way)
{
    const struct halo_request *request = report->request;
    const struct halo_way *best = best_peer(report->ways);
    char name[160];
    snprintf(name, sizeof name, "%s/%s/%s/%s/%s%s%s/%" PRIu64, halo_plan_names[request->plan],
             halo_element_names[report->elements], halo_direction_names[report->direction],
             halo_group_names[report->group], way->name, way->ours && request->plan ? "/" : "",
             way->ours && request->plan ? halo_kind_names[way->kind] : "", report->atoms);
    json_t *entry = json_pack(
        "{s:s, s:s, s:I, s:s, s:s, s:s, s:f, s:f, s:f, s:s, s:I}", "name", name,
        way->ours ? "mode" : "peer", way->name, "atoms", (json_int_t)report->atoms, "elements",
        halo_element_names[report->elements], "direction", halo_direction_names[report->direction],
        "group", halo_group_names[report->group], "real_time", bench_median(&way->ns) / 1e3, "min",
        way->ns.value[0] / 1e3, "max", way->ns.value[way->ns.count - 1] / 1e3, "time_unit", "us",
        "iterations", (json_int_t)way->iterations);
    json_object_set_new(entry, "pulses", json_integer(way->ours ? (json_int_t)way->pulses : 1));
    if (way->ours) {
        json_object_set_new(entry, "kind", json_string(halo_kind_names[way->kind]));
        json_object_set_new(entry, "ghosts", json_integer((json_int_t)way->ghosts));
        json_object_set_new(entry, "launches", json_real(way->launches));
        json_object_set_new(entry, "blocking_waits", json_real(way->waits));
        set_ratio(entry, "ratio_to_best_peer", ratio_to(best, way));
        json_object_set_new(entry, "best_peer", best ? json_string(best->name) : json_null());
        set_ratio(entry, "ratio_to_host", ratio_to(host_mode(report->ways, way->kind), way));
    }
    json_array_append_new(report->list, entry);
}

static void print_ratio(double ratio)
{
    if (ratio > 0)
        printf("  %7.2f", ratio);
    else
        printf("  %7s", "-");
}

static void print_way(const struct report *report, const struct halo_way *way)
{
    char name[48];
    snprintf(name, sizeof name, "%s%s%s", way->name, way->ours && report->request->plan ? " " : "",
             way->ours && report->request->plan ? halo_kind_names[way->kind] : "");
    printf("%8" PRIu64 "  %-5s %-18s", report->atoms, way->ours ? "leat" : "peer", name);
    bench_print_series(&way->ns, 1e3, 28);
    if (way->ours) {
        print_ratio(ratio_to(best_peer(report->ways), way));
        print_ratio(ratio_to(host_mode(report->ways, way->kind), way));
        printf("  %2.0f  %8.2f  %6.2f", way->pulses, way->launches, way->waits);
    }
    putchar('\n');
}

static int measure_size(struct report *report, uint64_t atoms)
{
    const int components = report->elements ? 4 : 3;
    report->atoms = atoms;
    int error = halo_ways_measure(report->ways, &report->request->pace, report->group, components,
                                  report->direction == LEAT_REVERSE, atoms);
    for (int i = 0; !error && i < report->ways->count; i++) {
        const struct halo_way *way = &report->ways->way[i];
        if (!way->measured)
            continue;
        add_entry(report, way);
        if (!report->request->json)
            print_way(report, way);
    }
    if (!report->request->json)
        fflush(stdout);
    return error;
}

static int measure_group(struct report *report)
{
    const struct halo_request *request = report->request;
    int error = 0;
    if (!request->json)
        printf("# halo %s, %s, %s, %s, %s, us: median (least-most); ratios to the best peer and to "
               "mode host\n#  atoms        %-18s%30s  %7s  %7s  %2s  %8s  %6s\n",
               halo_group_names[report->group], request->device == HALO_CUDA ? "cuda" : "cpu",
               halo_plan_names[request->plan], halo_element_names[report->elements],
               halo_direction_names[report->direction], "way", "us", "/peer", "/host", "p",
               "launches", "waits");
    for (int i = 0; !error && i < request->atoms.count; i++)
        error = measure_size(report, request->atoms.value[i]);
    return error;
}

static int measure_all(struct report *report)
{
    const struct halo_request *request = report->request;
    const bool groups[HALO_GROUP_COUNT] = {true, request->consumer, request->graph};
    int error = 0;
    for (report->elements = 0; report->elements < 2; report->elements++)
        for (report->direction = 0; report->direction < 2; report->direction++)
            for (int group = 0; group < HALO_GROUP_COUNT; group++) {
                if (error || !groups[group] || !request->elements[report->elements] ||
                    !request->direction[report->direction] ||
                    (group && report->direction == LEAT_REVERSE))
                    continue;
                report->group = (enum halo_group)group;
                error = measure_group(report);
            }
    return error;
}

// Whether the device can be had at all, asked in a process of its own: a GPU once opened would keep
// memory in this one.
static int probe_device(const struct halo_request *request)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        leat_job *job = NULL;
        const leat_options options = {.size = sizeof options,
                                      .device = request->device == HALO_CUDA ? "cuda" : "cpu"};
        const int error = leat_open(&options, &job);
        if (error)
            fprintf(stderr, "leat bench halo: %s\n", leat_error_detail());
        else
            leat_close(job, NULL);
        _exit(-error & 0xff);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return leat_fail(-EAGAIN, "cannot start a process to look at the device");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return leat_fail(WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO,
                     "the device cannot be used; the reason is above");
}

static json_t *circumstances(const struct halo_request *request, bool incomplete)
{
    return json_pack("{s:s, s:s, s:i, s:b}", "device",
                     request->device == HALO_CUDA ? "cuda" : "cpu", "plan",
                     halo_plan_names[request->plan], "ranks",
                     request->plan ? 1 << request->plan : 2, "incomplete", (int)incomplete);
}

int bench_halo_threads(const struct halo_request *request)
{
    struct halo_ways *ways = calloc(1, sizeof *ways);
    if (!ways)
        return leat_fail(-ENOMEM, "no memory for the benchmark's sides");
    struct report report = {.request = request, .ways = ways, .list = json_array()};
    int error = probe_device(request);
    if (!error)
        error = bench_open(&ways->sides, request->plan ? 1 << request->plan : 2);
    if (!error)
        error = halo_ways_add(ways, request);
    if (!error)
        error = bench_start(&ways->sides);
    if (!error)
        error = measure_all(&report);
    bench_close(&ways->sides, error);
    if (!error && json_array_size(report.list) == 0)
        error = leat_fail(-EREMOTEIO, "nothing could be measured; the reasons are above");
    // What was measured before a signal came is worth having.
    if (request->json && json_array_size(report.list) > 0)
        bench_print_json("halo", &ways->sides, &request->pace, report.list,
                         circumstances(request, error != 0));
    else
        json_decref(report.list);
    if (!error && ways->ours_failed)
        error = leat_fail(-EREMOTEIO, "one of leat's modes failed; its message is above");
    free(ways);
    return error;
}
