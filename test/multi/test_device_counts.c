// SPDX-License-Identifier: Apache-2.0
// What an exchange asks of the host, by its counts and in a trace: one launch and no wait in mode
// fused, a launch a pulse in mode pulse, one launch for any number of steps in a resident loop, and
// what mode host costs. test/gpu/test_device_counts.c is the same on GPUs.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multi/device_halo.h"

#include <jansson.h>
#include <unistd.h>

#ifndef COUNTS_DEVICE
#define COUNTS_DEVICE "cpu"
#endif

#define STEPS 12

enum { X, F, FIELDS };

static const char *device = COUNTS_DEVICE;
static char trace_file[] = "leat-device-trace-XXXXXX";

struct play {
    struct box box; /* 2 x 2 x 2, a pulse a dimension */
    enum leat_mode mode;
    bool loop;
    leat_stats before[BOX_RANKS], after[BOX_RANKS]; /* of STEPS steps */
};

static bool run_steps(struct bound *bound, bool loop, int count)
{
    const leat_step step = {.size = sizeof step, .forward_field = X, .reverse_field = F};
    int error = loop ? leat_halo_run(bound->halo, &step, (uint64_t)count, NULL) : 0;
    for (int i = 0; !loop && !error && i < count; i++) {
        error = leat_halo_exchange(bound->halo, X, LEAT_FORWARD);
        if (!error)
            error = leat_halo_exchange(bound->halo, F, LEAT_REVERSE);
    }
    return rank_check(bound->self, !error, "%s", leat_error_detail());
}

static void settle(struct rank_thread *self)
{
    rank_check(self, !leat_device_wait(self->job, -1), "%s", leat_error_detail());
}

// The first step acknowledges what there is to acknowledge, so it is not counted.
static void count_steps(struct rank_thread *self)
{
    struct play *play = self->user;
    struct bound bound = {
        .self = self,
        .field_count = FIELDS,
        .field = {[X] = {.element = LEAT_F32, .components = 3, .acknowledged_by = F + 1},
                  [F] = {.element = LEAT_F32, .components = 3, .acknowledged_by = X + 1}}};
    leat_stats *before = &play->before[self->rank], *after = &play->after[self->rank];
    before->size = after->size = sizeof *after;
    bound.plan = box_plan(self, &play->box);
    if (!bound.plan || !make_room(&bound, box_info(bound.plan).element_count) ||
        !open_halo(&bound, play->mode, 0) || !run_steps(&bound, false, 1))
        return;
    settle(self);
    leat_stats_read(self->job, LEAT_ALL_PEERS, before);
    run_steps(&bound, play->loop, STEPS);
    leat_stats_read(self->job, LEAT_ALL_PEERS, after);
    settle(self);
    unbind(&bound);
}

static struct play *count(enum leat_mode mode, bool loop, const char *packets, const char *trace)
{
    static const int cube[3] = {2, 2, 2};
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    box_fill(&play->box, cube, 0.9, 150, 0, 3);
    play->mode = mode;
    play->loop = loop;
    device_run(
        &(struct device_job){
            .device = device, .packets = packets, .trace = trace, .rank_count = BOX_RANKS},
        count_steps, play);
    return play;
}

static void expect(struct play *play, uint64_t launches, uint64_t blocking_waits)
{
    for (int r = 0; r < BOX_RANKS; r++) {
        uint64_t launched = play->after[r].launches - play->before[r].launches;
        uint64_t waited = play->after[r].blocking_waits - play->before[r].blocking_waits;
        if (launched != launches || waited != blocking_waits)
            fail_msg("rank %d: %llu launches and %llu blocking waits in %d steps instead of %llu "
                     "and %llu",
                     r, (unsigned long long)launched, (unsigned long long)waited, STEPS,
                     (unsigned long long)launches, (unsigned long long)blocking_waits);
    }
    free(play);
}

static void test_fused_is_one_launch_an_exchange_and_no_wait(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++)
        expect(count(LEAT_MODE_FUSED, false, protocols[p], NULL), 2 * STEPS, 0);
}

static void test_a_resident_loop_is_one_launch(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++)
        expect(count(LEAT_MODE_RESIDENT, true, protocols[p], NULL), 1, 1);
}

static void test_pulse_is_one_launch_a_pulse_and_no_wait(void **state)
{
    (void)state;
    expect(count(LEAT_MODE_PULSE, false, NULL, NULL), STEPS * 2 * 3, 0);
}

// A pack kernel a pulse forward, a sum a pulse back.
static void test_stream_waits_on_the_host_for_nothing(void **state)
{
    (void)state;
    bool in_stream = strcmp(device, "cpu") != 0; // where there is no stream the host has to wait
    struct play *play = count(LEAT_MODE_STREAM, false, NULL, NULL);
    if (in_stream)
        expect(play, STEPS * 2 * 3, 0);
    else
        free(play);
}

// A pulse: the stream is awaited, then the peer.
static void test_host_waits_twice_a_pulse_and_direction(void **state)
{
    (void)state;
    expect(count(LEAT_MODE_HOST, false, NULL, NULL), STEPS * 2 * 3, STEPS * 2 * 3 * 2);
}

// ---- The trace ----

struct slices {
    int exchanges, launches, others;
};

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

// What begins within the exchange, of the same rank.
static struct slices within(const json_t *events, const json_t *exchange)
{
    struct slices found = {0};
    size_t i;
    json_t *event;
    double begin = number_of(exchange, "ts"), end = begin + number_of(exchange, "dur");
    json_array_foreach(events, i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "cat"));
        double at = number_of(event, "ts");
        if (!kind || event == exchange || at < begin || at > end ||
            number_of(event, "pid") != number_of(exchange, "pid"))
            continue;
        if (!strcmp(kind, "launch")) {
            found.launches++;
            const char *name = json_string_value(json_object_get(event, "name"));
            found.others += strncmp(name, "fused_", 6) != 0;
        } else {
            // The CPU device's kernels wait in the thread that launches them.
            found.others += strcmp(kind, "wait") != 0 || strcmp(device, "cpu") != 0;
        }
    }
    return found;
}

static struct slices look_at(const json_t *events)
{
    struct slices all = {0};
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "cat"));
        if (!kind || strcmp(kind, "exchange") != 0)
            continue;
        struct slices inside = within(events, event);
        if (inside.launches != 1 || inside.others)
            fail_msg("%s: %d launches and %d other slices in one exchange",
                     json_string_value(json_object_get(event, "name")), inside.launches,
                     inside.others);
        all.exchanges++;
        all.launches += inside.launches;
    }
    return all;
}

// Where the host waited for the device after the rank's first exchange and before its last ended.
static int count_syncs(const json_t *events, int rank)
{
    double begin = INFINITY, end = -INFINITY;
    int syncs = 0;
    size_t i;
    json_t *event;
    for (int counting = 0; counting < 2; counting++)
        json_array_foreach(events, i, event)
        {
            const char *kind = json_string_value(json_object_get(event, "cat"));
            double at = number_of(event, "ts");
            if (!kind || (int)number_of(event, "pid") != rank)
                continue;
            if (!counting && !strcmp(kind, "exchange")) {
                begin = fmin(begin, at);
                end = fmax(end, at + number_of(event, "dur"));
            }
            syncs += counting && !strcmp(kind, "sync") && at > begin && at < end;
        }
    return syncs;
}

static json_t *trace_of(enum leat_mode mode)
{
    json_error_t error;
    free(count(mode, false, NULL, trace_file));
    json_t *root = json_load_file(trace_file, 0, &error);
    if (!root)
        fail_msg("%s:%d: %s", trace_file, error.line, error.text);
    return root;
}

static void test_a_trace_shows_one_launch_an_exchange(void **state)
{
    (void)state;
    json_t *root = trace_of(LEAT_MODE_HOST);
    assert_true(count_syncs(json_object_get(root, "traceEvents"), 0) >= STEPS); // it would show
    json_decref(root);
    root = trace_of(LEAT_MODE_FUSED);
    const json_t *events = json_object_get(root, "traceEvents");
    struct slices all = look_at(events);
    for (int r = 0; r < BOX_RANKS; r++)
        assert_int_equal(count_syncs(events, r), 0);
    json_decref(root);
    assert_int_equal(all.exchanges, BOX_RANKS * 2 * (STEPS + 1));
    assert_int_equal(all.launches, all.exchanges);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(trace_file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(trace_file);
}

// Argument: another device, as LEAT_DEVICE names it.
int main(int argc, char **argv)
{
    if (argc > 1)
        device = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_is_one_launch_an_exchange_and_no_wait),
        cmocka_unit_test(test_a_resident_loop_is_one_launch),
        cmocka_unit_test(test_pulse_is_one_launch_a_pulse_and_no_wait),
        cmocka_unit_test(test_stream_waits_on_the_host_for_nothing),
        cmocka_unit_test(test_host_waits_twice_a_pulse_and_direction),
        cmocka_unit_test(test_a_trace_shows_one_launch_an_exchange),
    };
    int missing = device_missing(device);
    return missing ? missing : cmocka_run_group_tests(tests, make_file, remove_file);
}
