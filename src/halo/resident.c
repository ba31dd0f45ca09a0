// SPDX-License-Identifier: Apache-2.0
// leat_halo_run: many steps in one call, and in resident mode in one kernel.
//
// Algorithm: what the first step and every later one have to acknowledge is worked out beforehand,
// as if the exchanges had been called one by one; then resident_kernels.inc loops on the device.
// Advantage: nothing is launched in a step. Disadvantage: the host learns of a failure at the end.

#include "halo/proxy.h"

#include "core/trace.h"

#include <errno.h>
#include <string.h>

static int check_step(struct leat_halo *halo, const leat_step *step)
{
    int error = halo_check_usable(halo);
    if (!error && step->forward_field != -1)
        error = halo_check_call(halo, step->forward_field, LEAT_FORWARD);
    if (!error && step->reverse_field != -1)
        error = halo_check_call(halo, step->reverse_field, LEAT_REVERSE);
    return error;
}

static int ended_by_step(uint64_t step, int answer)
{
    return leat_fail(answer, "step %llu of the run ended it: a function of the step returned %d",
                     (unsigned long long)step, answer);
}

typedef int step_function(void *user, uint32_t block, uint32_t block_count, uint64_t step);

// The caller's work in an exchange of a run by single exchanges: by one block alone, and what it
// returns ends the run only after the exchange.
struct alone {
    step_function *call;
    void *user;
    int answer;
};

static int work_alone(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct alone *alone = user;
    (void)block_count;
    if (block == 0)
        alone->answer = alone->call(alone->user, 0, 1, step);
    return 0;
}

static int work(step_function *call, void *user, uint64_t step)
{
    return call ? call(user, 0, 1, step) : 0;
}

// An exchange with the caller's work in it, or that alone. Where the host runs ahead of the device,
// or nothing is sent, or other blocks would add to what is being written, the work comes before.
static int exchange_and_work(struct leat_halo *halo, int f, enum leat_direction direction,
                             const leat_step *step, uint64_t number, int *answer)
{
    step_function *call = direction == LEAT_FORWARD ? step->while_forward : step->while_reverse;
    struct alone alone = {.call = call, .user = step->user};
    bool blocks = direction == LEAT_REVERSE && halo->job->config.block_count > 1;
    bool apart = f < 0 || halo_is_remote(halo) || !halo->plan->pulse_count || blocks;
    if (apart)
        *answer = work(call, step->user, number);
    if (*answer || f < 0)
        return 0;
    if (!apart && call)
        halo->meanwhile[direction] = (struct k_meanwhile){work_alone, &alone, number};
    int error = leat_halo_exchange(halo, f, direction);
    halo->meanwhile[direction] = (struct k_meanwhile){0};
    *answer = alone.answer;
    return error;
}

static int run_on_host(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                       uint64_t *done)
{
    for (*done = 0; *done < step_count; ++*done) {
        int answer = 0;
        int error =
            exchange_and_work(halo, step->forward_field, LEAT_FORWARD, step, *done, &answer);
        if (!error && !answer)
            answer = work(step->consume, step->user, *done);
        if (!error && !answer)
            error =
                exchange_and_work(halo, step->reverse_field, LEAT_REVERSE, step, *done, &answer);
        if (!error && !answer)
            answer = work(step->advance, step->user, *done);
        if (error)
            return error;
        if (answer) // peers may be an exchange ahead, as after any error
            return halo_give_up(halo, ended_by_step(*done, answer));
    }
    return 0;
}

// The acknowledgement that the exchange needs now; then the books are kept as if it had been made.
static uint32_t choice_of(struct leat_halo *halo, int f, enum leat_direction direction)
{
    if (f < 0)
        return 0;
    bool explicit_free = halo_needs_explicit_free(halo, f, direction);
    struct halo_field *field = &halo->field[f];
    halo->sequence++;
    if (direction == LEAT_FORWARD)
        field->forward_sequence = halo->sequence;
    else
        field->reverse_sequence = halo->sequence;
    return explicit_free ? HALO_EXPLICIT_FREE : 0;
}

static size_t field_bytes(const struct leat_halo *halo)
{
    return sizeof(struct k_field) + (size_t)halo->plan->pulse_count * sizeof(struct k_pulse);
}

int halo_run_alloc(struct leat_halo *halo)
{
    struct device *device = halo->job->device;
    size_t bytes = sizeof(struct k_resident) + 2 * field_bytes(halo);
    int error = device->ops->alloc(device, bytes, &halo->run);
    return error ? error : device->ops->alloc(device, sizeof(struct k_loop), &halo->loop);
}

// Puts a field behind what is there already; the offset from the run's beginning.
static uint32_t put_field(struct leat_halo *halo, int f, size_t *bytes)
{
    if (f < 0)
        return 0;
    size_t at = *bytes;
    memcpy((char *)halo->run.host + at, halo->field[f].kernel.host, field_bytes(halo));
    *bytes += field_bytes(halo);
    return (uint32_t)at;
}

int halo_run_reads(struct leat_halo *halo, int f)
{
    struct device *device = halo->job->device;
    const struct k_field *field = halo_kernel(halo, f);
    int error = device->ops->alloc(device, sizeof(struct k_stamp_found), &halo->found);
    if (error)
        return error;
    halo->reader = (struct k_stamp){
        .x = field->base,
        .home_count = field->home_count,
        .ghost_count = field->ghost_count,
        .components = (uint32_t)field->components,
        .zones = field->zones,
        .reads_only = 1,
        .found = halo->found.address,
    };
    halo->stamp = &halo->reader;
    return 0;
}

// What is read after the exchange has to be read by all blocks before it is overwritten: by the way
// back, by what the caller's advance does, or by the next exchange, unless that lands elsewhere.
static uint32_t barriers_of(const struct leat_halo *halo, const leat_step *step)
{
    int x = step->forward_field;
    bool apart = x >= 0 && halo->field[x].given.zones == 2 && halo_packets_of(halo, x);
    bool stamps = halo->stamp && !halo->stamp->reads_only;
    bool advances = step->advance || stamps;
    bool works = step->while_forward || step->while_reverse;
    return (step->reverse_field >= 0 || advances || works || !apart ? RESIDENT_AFTER_CONSUME : 0) |
           (advances ? RESIDENT_AFTER_ADVANCE : 0);
}

static void fill_run(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                     struct k_resident *run)
{
    int x = step->forward_field, f = step->reverse_field;
    size_t bytes = sizeof *run;
    uint32_t forward_at = put_field(halo, x, &bytes), reverse_at = put_field(halo, f, &bytes);
    *run = (struct k_resident){
        .forward_at = forward_at,
        .reverse_at = reverse_at,
        .forward_element = x >= 0 ? (int32_t)halo->field[x].given.element : 0,
        .reverse_element = f >= 0 ? (int32_t)halo->field[f].given.element : 0,
        .forward_epoch = x >= 0 ? halo->field[x].forward_epoch : 0,
        .reverse_epoch = f >= 0 ? halo->field[f].reverse_epoch : 0,
        .steps = step_count,
        .barriers = barriers_of(halo, step),
        .loop = halo->loop.address,
        .wait = halo_kernel(halo, 0)->wait, // the halo's, whichever field
        .stamped = halo->stamp != NULL,
        .consume = step->consume,
        .advance = step->advance,
        .while_forward = step->while_forward,
        .while_reverse = step->while_reverse,
        .user = step->user,
    };
    if (halo->stamp)
        run->stamp = *halo->stamp;
    halo->run.bytes = bytes; // what a launch may carry along
    run->first_forward = choice_of(halo, x, LEAT_FORWARD);
    run->first_reverse = choice_of(halo, f, LEAT_REVERSE);
    run->next_forward = choice_of(halo, x, LEAT_FORWARD);
    run->next_reverse = choice_of(halo, f, LEAT_REVERSE);
}

// Which exchange of the step it was shows in the signal.
static int loop_error(struct leat_halo *halo, const leat_step *step, uint64_t done)
{
    const struct k_error *report = halo->report;
    if (!__atomic_load_n(&report->ready, __ATOMIC_ACQUIRE)) {
        bool forward = step->forward_field >= 0;
        halo->sequence++;
        int error = halo_kernel_error(halo, forward ? step->forward_field : step->reverse_field,
                                      forward ? LEAT_FORWARD : LEAT_REVERSE);
        halo->sequence -= !error;
        return error;
    }
    if (report->signal) {
        enum board_signal which = BOARD_X_IN;
        enum leat_direction direction = LEAT_FORWARD;
        int pulse, f;
        bool packet = halo_packet_find(halo, report->signal, &pulse, &f, &direction);
        bool signal = !packet && halo_signal_find(halo, report->signal, &pulse, &f, &which);
        bool forward = packet ? direction == LEAT_FORWARD
                              : !signal || which == BOARD_X_IN || which == BOARD_X_FREE;
        halo->sequence += !forward && step->forward_field >= 0 ? 2 : 1;
        return halo_kernel_error(halo, forward ? step->forward_field : step->reverse_field,
                                 forward ? LEAT_FORWARD : LEAT_REVERSE);
    }
    if (report->wanted)
        return leat_fail(report->code,
                         "step %llu of the run: its blocks did not meet within %.3g s; consume or "
                         "advance takes longer in some: raise LEAT_TIMEOUT, or do less in a step",
                         (unsigned long long)done, (double)halo->job->timeout_ns * 1e-9);
    return ended_by_step(report->seen, report->code);
}

// As if the exchanges had been called one by one.
static void keep_books(struct leat_halo *halo, const leat_step *step, uint64_t begin, uint64_t done)
{
    int x = step->forward_field, f = step->reverse_field;
    uint64_t per_step = (uint64_t)(x >= 0) + (uint64_t)(f >= 0);
    halo->sequence = begin + done * per_step;
    if (done && x >= 0) {
        halo->field[x].forward_sequence = halo->sequence - (f >= 0);
        halo->field[x].forward_epoch += done;
        halo_count_bytes(halo, x, LEAT_FORWARD, done);
    }
    if (done && f >= 0) {
        halo->field[f].reverse_sequence = halo->sequence;
        halo->field[f].reverse_epoch += done;
        halo_count_bytes(halo, f, LEAT_REVERSE, done);
    }
}

static int launch_run(struct leat_halo *halo, struct k_loop *loop)
{
    struct device *device = halo->job->device;
    const struct k_resident *run = halo->run.host;
    const struct k_field *forward = k_field_at(run, run->forward_at);
    const struct device_launch launch = {
        .kernel = KERNEL_RESIDENT,
        .arguments = &halo->run,
        .puts = halo_puts(halo),
        .orders = halo_orders(halo),
        .bulk = forward && forward->bulk,
        .work = halo_work(halo),
        .gang = halo->gang,
    };
    *loop = (struct k_loop){0};
    int error = device->ops->publish(device, &halo->loop);
    if (!error)
        error = device->ops->publish(device, &halo->run);
    if (!error)
        error = leat_device_launch(device, &launch);
    if (!error)
        error = leat_device_sync(device);
    return error ? error : device->ops->fetch(device, &halo->loop);
}

static int run_resident(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                        uint64_t *done)
{
    struct k_loop *loop = halo->loop.host;
    uint64_t begin = halo->sequence;
    if (halo_is_remote(halo) &&
        (step->consume || step->advance || step->while_forward || step->while_reverse))
        return leat_fail(-ENOTSUP,
                         "leat_halo_run: on a GPU a resident loop cannot call functions of "
                         "the host; use mode fused, or leave consume and advance NULL");
    if (halo->job->device->captured)
        return leat_fail(-ENOTSUP,
                         "leat_halo_run: exchanges of this rank have been captured into a "
                         "graph, so that how many there were is known to the GPU only");
    fill_run(halo, step, step_count, halo->run.host);
    uint64_t since = leat_trace_begin(halo->job), cpu = since ? leat_trace_cpu_ns() : 0;
    int error = launch_run(halo, loop);
    *done = loop->done;
    // A block that ends the run may do so before the first has counted the step before.
    if (!error && halo->report->ready && !halo->report->signal && !halo->report->wanted)
        *done = halo->report->seen;
    if (since)
        leat_trace_cpu(halo->job, cpu);
    leat_trace_end(halo->job, TRACE_RUN, 0, since, (int64_t)*done, 0);
    keep_books(halo, step, begin, *done);
    if (!error)
        error = loop_error(halo, step, *done);
    return error ? halo_give_up(halo, error) : 0;
}

int leat_halo_run(leat_halo *halo, const leat_step *step, uint64_t step_count, uint64_t *done)
{
    if (!step || !step->size)
        return leat_fail(-EINVAL, "leat_step.size is 0; set it to sizeof(leat_step)");
    leat_step full = {.size = sizeof full, .forward_field = -1, .reverse_field = -1};
    memcpy(&full, step, step->size < sizeof full ? step->size : sizeof full);
    uint64_t finished = 0;
    int error = leat_need(halo, "leat_halo_run", "halo");
    if (!error)
        error = check_step(halo, &full);
    if (error)
        return error;
    bool resident = halo->mode->mode == LEAT_MODE_RESIDENT && halo->plan->pulse_count;
    if (step_count)
        error = resident ? run_resident(halo, &full, step_count, &finished)
                         : run_on_host(halo, &full, step_count, &finished);
    if (done)
        *done = finished;
    return error;
}
