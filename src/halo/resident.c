// SPDX-License-Identifier: Apache-2.0
// leat_halo_run: many steps in one call, and in resident mode in one kernel.
//
// Algorithm: what the first step and every later one have to acknowledge is worked out beforehand,
// as if the exchanges had been called one by one; then resident_kernels.inc loops on the device.
// Advantage: nothing is launched in a step. Disadvantage: the host learns of a failure at the end.

#include "halo/halo_internal.h"

#include <errno.h>
#include <string.h>

static int check_step(const struct leat_halo *halo, const leat_step *step)
{
    if (halo->failed)
        return leat_fail(halo->failed, "this halo failed earlier and can only be freed: %s",
                         halo->detail);
    if (step->forward_field < -1 || step->forward_field >= halo->field_count ||
        step->reverse_field < -1 || step->reverse_field >= halo->field_count)
        return leat_fail(-EINVAL, "a step with fields %d and %d of a halo with %d fields",
                         step->forward_field, step->reverse_field, halo->field_count);
    if (step->reverse_field >= 0 && halo->field[step->reverse_field].given.element == LEAT_WORDS)
        return leat_fail(-EINVAL, "field %d is of words: they cannot be added on the way back",
                         step->reverse_field);
    return 0;
}

static int run_on_host(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                       uint64_t *done)
{
    int error = 0;
    for (*done = 0; !error && *done < step_count;) {
        if (step->forward_field >= 0)
            error = leat_halo_exchange(halo, step->forward_field, LEAT_FORWARD);
        if (!error && step->consume)
            error = step->consume(step->user, 0, 1, *done);
        if (!error && step->reverse_field >= 0)
            error = leat_halo_exchange(halo, step->reverse_field, LEAT_REVERSE);
        if (!error && step->advance)
            error = step->advance(step->user, 0, 1, *done);
        *done += !error;
    }
    return error;
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

static int run_resident(struct leat_halo *halo, const leat_step *step, uint64_t step_count,
                        uint64_t *done)
{
    struct device *device = halo->job->device;
    void *memory;
    int error = device->ops->alloc(device, sizeof(struct k_resident), &memory);
    if (error)
        return error;
    struct k_resident *loop = memory;
    fill_loop(halo, step, step_count, loop);
    error = leat_device_launch(device, KERNEL_RESIDENT, loop, 0);
    if (!error)
        error = leat_device_sync(device);
    if (!error)
        error = halo_kernel_error(halo, step->forward_field >= 0 ? step->forward_field : 0,
                                  LEAT_FORWARD);
    *done = loop->done;
    device->ops->free(device, loop);
    if (step->forward_field >= 0)
        halo_count_bytes(halo, step->forward_field, LEAT_FORWARD, *done);
    if (step->reverse_field >= 0)
        halo_count_bytes(halo, step->reverse_field, LEAT_REVERSE, *done);
    return error ? halo_give_up(halo, error) : 0;
}

int leat_halo_run(leat_halo *halo, const leat_step *step, uint64_t step_count, uint64_t *done)
{
    if (!step || !step->size)
        return leat_fail(-EINVAL, "leat_step.size is 0; set it to sizeof(leat_step)");
    leat_step full = {.size = sizeof full, .forward_field = -1, .reverse_field = -1};
    memcpy(&full, step, step->size < sizeof full ? step->size : sizeof full);
    uint64_t finished = 0;
    int error = check_step(halo, &full);
    bool resident = halo->mode->mode == LEAT_MODE_RESIDENT && halo->plan->pulse_count;
    if (!error && step_count)
        error = resident ? run_resident(halo, &full, step_count, &finished)
                         : run_on_host(halo, &full, step_count, &finished);
    if (done)
        *done = finished;
    return error;
}
