// SPDX-License-Identifier: Apache-2.0
// leat_halo_run: many steps in one call, and in resident mode in one kernel.
//
// Algorithm: what the first step and every later one have to acknowledge is worked out beforehand,
// as if the exchanges had been called one by one; then resident_kernels.inc loops on the device.
// Advantage: nothing is launched in a step. Disadvantage: the host learns of a failure at the end.

#include "halo/halo_internal.h"

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
    return leat_fail(answer, "step %llu of the run ended it: consume or advance returned %d",
                     (unsigned long long)step, answer);
}

static int run_on_host(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                       uint64_t *done)
{
    for (*done = 0; *done < step_count; ++*done) {
        int error = 0, answer = 0;
        if (step->forward_field >= 0)
            error = leat_halo_exchange(halo, step->forward_field, LEAT_FORWARD);
        if (!error && step->consume)
            answer = step->consume(step->user, 0, 1, *done);
        if (!error && !answer && step->reverse_field >= 0)
            error = leat_halo_exchange(halo, step->reverse_field, LEAT_REVERSE);
        if (!error && !answer && step->advance)
            answer = step->advance(step->user, 0, 1, *done);
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

static void fill_loop(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                      struct k_resident *loop)
{
    int x = step->forward_field, f = step->reverse_field;
    *loop = (struct k_resident){
        .forward = x >= 0 ? halo->field[x].kernel : NULL,
        .reverse = f >= 0 ? halo->field[f].kernel : NULL,
        .forward_element = x >= 0 ? (int32_t)halo->field[x].given.element : 0,
        .reverse_element = f >= 0 ? (int32_t)halo->field[f].given.element : 0,
        .steps = step_count,
        .wait = {.job = halo->job, .timeout_ns = halo->job->timeout_ns, .error = halo->error},
        .consume = step->consume,
        .advance = step->advance,
        .user = step->user,
    };
    loop->first_forward = choice_of(halo, x, LEAT_FORWARD);
    loop->first_reverse = choice_of(halo, f, LEAT_REVERSE);
    loop->next_forward = choice_of(halo, x, LEAT_FORWARD);
    loop->next_reverse = choice_of(halo, f, LEAT_REVERSE);
}

// Which exchange of which step it was shows in the epochs: those that were whole have moved them.
static int loop_error(struct leat_halo *halo, const leat_step *step, const struct k_resident *loop,
                      uint64_t forward_epoch)
{
    const struct k_error *record = halo->error;
    if (!__atomic_load_n(&record->failed, __ATOMIC_ACQUIRE))
        return 0;
    if (record->pulse >= 0) {
        bool forward = loop->forward && loop->forward->forward_epoch - forward_epoch == loop->done;
        halo->sequence += !forward && loop->forward ? 2 : 1;
        return halo_kernel_error(halo, forward ? step->forward_field : step->reverse_field,
                                 forward ? LEAT_FORWARD : LEAT_REVERSE);
    }
    if (record->wanted)
        return leat_fail(record->code,
                         "step %llu of the run: its blocks did not meet within %.3g s; consume or "
                         "advance takes longer in some: raise LEAT_TIMEOUT, or do less in a step",
                         (unsigned long long)loop->done, (double)halo->job->timeout_ns * 1e-9);
    return ended_by_step(loop->done, record->code);
}

// As if the exchanges had been called one by one.
static void keep_books(struct leat_halo *halo, const leat_step *step, uint64_t begin, uint64_t done)
{
    int x = step->forward_field, f = step->reverse_field;
    uint64_t per_step = (uint64_t)(x >= 0) + (uint64_t)(f >= 0);
    halo->sequence = begin + done * per_step;
    if (done && x >= 0) {
        halo->field[x].forward_sequence = halo->sequence - (f >= 0);
        halo_count_bytes(halo, x, LEAT_FORWARD, done);
    }
    if (done && f >= 0) {
        halo->field[f].reverse_sequence = halo->sequence;
        halo_count_bytes(halo, f, LEAT_REVERSE, done);
    }
}

static int run_resident(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                        uint64_t *done)
{
    struct device *device = halo->job->device;
    void *memory;
    int error = device->ops->alloc(device, sizeof(struct k_resident), &memory);
    if (error)
        return error;
    struct k_resident *loop = memory;
    uint64_t begin = halo->sequence;
    fill_loop(halo, step, step_count, loop);
    uint64_t forward_epoch = loop->forward ? loop->forward->forward_epoch : 0;
    uint64_t since = leat_trace_begin(halo->job), cpu = since ? leat_trace_cpu_ns() : 0;
    error = leat_device_launch(device, KERNEL_RESIDENT, loop, 0);
    if (!error)
        error = leat_device_sync(device);
    *done = loop->done;
    if (since)
        leat_trace_cpu(halo->job, cpu);
    leat_trace_end(halo->job, TRACE_RUN, 0, since, (int64_t)*done, 0);
    keep_books(halo, step, begin, *done);
    if (!error)
        error = loop_error(halo, step, loop, forward_epoch);
    device->ops->free(device, loop);
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
