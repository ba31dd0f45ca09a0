// SPDX-License-Identifier: Apache-2.0
// Traces: whole JSON with all ranks in it, slices that nest, and as many as the counts say.

#include "multi/boxes.h"
#include "multi/graphs.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#define STEPS 6

struct job {
    struct graph graph;
    enum leat_mode mode;
    int steps;
    bool run, write_early;
    leat_stats stats[GRAPH_RANKS]; /* of the exchanges alone */
};

static char file[] = "leat-trace-XXXXXX";

struct fields {
    leat_plan *plan;
    leat_region *region[2];
    leat_halo *halo;
};

static bool bind(struct rank_thread *self, const struct job *job, struct fields *fields)
{
    fields->plan = graph_plan(self, &job->graph);
    for (int f = 0; f < 2; f++)
        box_region(self, box_info(fields->plan).element_count * 8ull + 8, &fields->region[f]);
    const leat_field given[2] = {{.place = {fields->region[0], 0},
                                  .element = LEAT_F64,
                                  .components = 1,
                                  .acknowledged_by = 2},
                                 {.place = {fields->region[1], 0},
                                  .element = LEAT_F64,
                                  .components = 1,
                                  .acknowledged_by = 1}};
    const leat_halo_options options = {
        .size = sizeof options, .mode = job->mode, .field_count = 2, .fields = given};
    return rank_check(self, !leat_halo_open(self->job, fields->plan, &options, &fields->halo), "%s",
                      leat_error_detail());
}

static int exchange(const struct job *job, leat_halo *halo)
{
    const leat_step step = {.size = sizeof step, .reverse_field = 1};
    int error = job->run ? leat_halo_run(halo, &step, (uint64_t)job->steps, NULL) : 0;
    for (int i = 0; !job->run && !error && i < job->steps; i++) {
        error = leat_halo_exchange(halo, 0, LEAT_FORWARD);
        if (!error)
            error = leat_halo_exchange(halo, 1, LEAT_REVERSE);
    }
    return error;
}

static void trace(struct rank_thread *self)
{
    struct job *job = self->user;
    struct fields fields = {0};
    if (!bind(self, job, &fields))
        return;
    leat_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    leat_stats_read(self->job, LEAT_ALL_PEERS, &before);
    rank_check(self, !exchange(job, fields.halo), "%s", leat_error_detail());
    leat_stats_read(self->job, LEAT_ALL_PEERS, &after);
    after.launches -= before.launches;
    after.blocking_waits -= before.blocking_waits;
    after.signal_waits -= before.signal_waits;
    after.cpu_ns -= before.cpu_ns;
    job->stats[self->rank] = after;
    if (job->write_early)
        rank_check(self, !leat_trace_write(self->job, file), "%s", leat_error_detail());
    leat_halo_free(fields.halo);
    leat_plan_free(fields.plan);
}

// ---- Reading the file ----

struct slice {
    json_int_t pid, tid;
    double begin, end; /* microseconds */
    const char *category;
};

struct slices {
    json_t *root;
    struct slice *slice;
    size_t count;
};

static int by_track_and_time(const void *a, const void *b)
{
    const struct slice *one = a, *other = b;
    if (one->pid != other->pid)
        return one->pid < other->pid ? -1 : 1;
    if (one->tid != other->tid)
        return one->tid < other->tid ? -1 : 1;
    if (one->begin != other->begin)
        return one->begin < other->begin ? -1 : 1;
    return one->end > other->end ? -1 : one->end < other->end; // the outer one first
}

static struct slices load(void)
{
    json_error_t error;
    struct slices slices = {.root = json_load_file(file, 0, &error)};
    if (!slices.root)
        fail_msg("%s:%d: %s", file, error.line, error.text);
    json_t *events = json_object_get(slices.root, "traceEvents");
    assert_true(json_is_array(events));
    slices.slice = calloc(json_array_size(events), sizeof *slices.slice);
    assert_non_null(slices.slice);
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0)
            continue;
        double begin = json_real_value(json_object_get(event, "ts"));
        double length = json_real_value(json_object_get(event, "dur"));
        assert_true(begin > 0 && length >= 0);
        slices.slice[slices.count++] =
            (struct slice){.pid = json_integer_value(json_object_get(event, "pid")),
                           .tid = json_integer_value(json_object_get(event, "tid")),
                           .begin = begin,
                           .end = begin + length,
                           .category = json_string_value(json_object_get(event, "cat"))};
    }
    qsort(slices.slice, slices.count, sizeof *slices.slice, by_track_and_time);
    return slices;
}

static void unload(struct slices *slices)
{
    json_decref(slices->root);
    free(slices->slice);
}

static uint64_t count(const struct slices *slices, int rank, const char *category)
{
    uint64_t found = 0;
    for (size_t i = 0; i < slices->count; i++)
        found += slices->slice[i].pid == rank && !strcmp(slices->slice[i].category, category);
    return found;
}

// Each slice ends before the innermost open one does, or begins after it. A microsecond's last
// digits are rounded twice on the way through a double.
static void assert_nested(const struct slices *slices)
{
    const struct slice *open[8];
    size_t depth = 0;
    for (size_t i = 0; i < slices->count; i++) {
        const struct slice *slice = &slices->slice[i];
        while (depth && (open[depth - 1]->pid != slice->pid || open[depth - 1]->tid != slice->tid ||
                         open[depth - 1]->end <= slice->begin + 0.01))
            depth--;
        if (depth && slice->end > open[depth - 1]->end + 0.01)
            fail_msg("rank %d: a %s from %f to %f ends after the %s from %f to %f", (int)slice->pid,
                     slice->category, slice->begin, slice->end, open[depth - 1]->category,
                     open[depth - 1]->begin, open[depth - 1]->end);
        assert_true(depth < 8);
        open[depth++] = slice;
    }
}

static struct job *new_job(int ranks, enum leat_mode mode)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    graph_ring(&job->graph, ranks);
    job->mode = mode;
    job->steps = STEPS;
    return job;
}

static void check_counts(const struct job *job, const struct slices *slices)
{
    for (int rank = 0; rank < job->graph.rank_count; rank++) {
        const leat_stats *stats = &job->stats[rank];
        bool host = job->mode == LEAT_MODE_HOST;
        assert_int_equal(count(slices, rank, "exchange"), job->run ? 0 : 2 * job->steps);
        assert_int_equal(count(slices, rank, "halo"), job->run);
        assert_int_equal(count(slices, rank, "launch"), stats->launches);
        assert_int_equal(count(slices, rank, "wait"), stats->signal_waits);
        assert_int_equal(count(slices, rank, "sync") + (host ? stats->signal_waits : 0),
                         stats->blocking_waits);
        assert_true(stats->cpu_ns > 0);
    }
}

static void run_traced(struct job *job)
{
    setenv("LEAT_TRACE", file, 1);
    ranks_run(job->graph.rank_count, trace, job);
    unsetenv("LEAT_TRACE");
}

static void trace_and_check(int ranks, enum leat_mode mode, bool run, bool write_early)
{
    struct job *job = new_job(ranks, mode);
    job->run = run;
    job->write_early = write_early;
    run_traced(job);
    struct slices slices = load();
    assert_nested(&slices);
    check_counts(job, &slices);
    unload(&slices);
    free(job);
}

static void test_slices_nest_and_are_as_many_as_the_counts_in_every_mode(void **state)
{
    (void)state;
    for (int blocks = 1; blocks <= 3; blocks += 2) {
        setenv("LEAT_BLOCKS", blocks == 1 ? "1" : "3", 1);
        for (int m = 0; m < GRAPH_MODES; m++)
            trace_and_check(3, graph_modes[m], false, false);
    }
    unsetenv("LEAT_BLOCKS");
}

static void test_a_resident_run_is_one_slice_around_its_waits(void **state)
{
    (void)state;
    trace_and_check(3, LEAT_MODE_RESIDENT, true, false);
}

static void test_what_was_written_is_not_written_again(void **state)
{
    (void)state;
    trace_and_check(3, LEAT_MODE_PULSE, false, true);
}

static void test_another_jobs_trace_is_begun_anew(void **state)
{
    (void)state;
    trace_and_check(4, LEAT_MODE_FUSED, false, false);
    trace_and_check(2, LEAT_MODE_FUSED, false, false);
    struct slices slices = load();
    assert_int_equal(count(&slices, 2, "exchange"), 0);
    unload(&slices);
}

static void test_a_full_ring_keeps_the_latest(void **state)
{
    (void)state;
    struct job *job = new_job(1, LEAT_MODE_FUSED);
    job->steps = 20000;
    setenv("LEAT_LOG", "error", 1);
    run_traced(job);
    unsetenv("LEAT_LOG");
    struct slices slices = load();
    assert_int_equal(slices.count, 65536);
    assert_nested(&slices);
    unload(&slices);
    free(job);
}

static void test_nothing_is_recorded_unless_asked(void **state)
{
    (void)state;
    unlink(file);
    struct job *job = new_job(2, LEAT_MODE_FUSED);
    ranks_run(2, trace, job);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(job->stats[0].cpu_ns, 0);
    free(job);
    leat_job *alone = NULL;
    assert_int_equal(leat_open(NULL, &alone), 0);
    assert_int_equal(leat_trace_write(alone, file), -ENODATA);
    assert_non_null(strstr(leat_error_detail(), "LEAT_TRACE"));
    leat_close(alone, NULL);
}

static void test_a_path_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    leat_job *alone = NULL;
    const leat_options options = {.size = sizeof options, .trace = file};
    assert_int_equal(leat_open(&options, &alone), 0);
    assert_int_equal(leat_trace_write(alone, "leat-no-such-folder/trace"), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "leat-no-such-folder/trace"));
    leat_close(alone, NULL);
}

static void test_a_path_that_cannot_be_written_is_refused_when_the_job_opens(void **state)
{
    (void)state;
    leat_job *alone = NULL;
    leat_options options = {.size = sizeof options, .trace = "leat-no-such-folder/trace"};
    assert_int_equal(leat_open(&options, &alone), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "LEAT_TRACE"));
    assert_non_null(strstr(leat_error_detail(), "leat-no-such-folder/trace"));
    options.trace = "/";
    assert_int_equal(leat_open(&options, &alone), -EISDIR);
    leat_job *threads[3] = {NULL};
    options.thread_ranks = 3;
    assert_int_equal(leat_open(&options, threads), -EISDIR);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_nest_and_are_as_many_as_the_counts_in_every_mode),
        cmocka_unit_test(test_a_resident_run_is_one_slice_around_its_waits),
        cmocka_unit_test(test_what_was_written_is_not_written_again),
        cmocka_unit_test(test_another_jobs_trace_is_begun_anew),
        cmocka_unit_test(test_a_full_ring_keeps_the_latest),
        cmocka_unit_test(test_nothing_is_recorded_unless_asked),
        cmocka_unit_test(test_a_path_that_cannot_be_written_is_named),
        cmocka_unit_test(test_a_path_that_cannot_be_written_is_refused_when_the_job_opens),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
