// SPDX-License-Identifier: Apache-2.0
// One exchange, in the halo's mode.
//
// Algorithm: a mode is two functions, forward and reverse. `fused` starts one kernel that does it
// all (halo_kernels.inc). `host` goes pulse by pulse as GPU-aware MPI codes do: pack kernel,
// synchronise, transfer with a signal behind it, wait for the peer's. Both add in the same order
// and so give the same bits. Advantage: a new mode is a row here. Disadvantage: none known.

#include "halo/halo_internal.h"

#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>

struct halo_mode {
    const char *name;
    enum leat_mode mode;
    int (*forward)(struct leat_halo *halo, int field, bool explicit_free);
    int (*reverse)(struct leat_halo *halo, int field, bool explicit_free);
};

static enum kernel_id kernel_for(enum leat_element element, enum kernel_id first)
{
    return (enum kernel_id)(first + element);
}

static int wait_failed(struct leat_halo *halo, int field, enum leat_direction direction, int pulse,
                       int peer, int code, uint64_t wanted, uint64_t seen)
{
    char what[96];
    snprintf(what, sizeof what, "halo exchange %llu (field %d, %s), pulse %d (dimension %c)",
             (unsigned long long)halo->sequence, field,
             direction == LEAT_FORWARD ? "forward" : "reverse", pulse,
             'x' + halo->plan->pulse[pulse].dimension);
    return leat_wait_fail(halo->job, code, what, peer, wanted, seen);
}

// ---- fused ----

static int run_fused(struct leat_halo *halo, int f, enum leat_direction direction,
                     enum kernel_id first, bool explicit_free)
{
    struct halo_field *field = &halo->field[f];
    int error = leat_device_launch(halo->job->device, kernel_for(field->given.element, first),
                                   field->kernel, explicit_free ? HALO_EXPLICIT_FREE : 0);
    const struct k_error *record = halo->error;
    if (!error && record->failed)
        error = wait_failed(halo, f, direction, record->pulse, record->peer, record->code,
                            record->wanted, record->seen);
    return error;
}

static int fused_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_fused(halo, f, LEAT_FORWARD, KERNEL_FUSED_FORWARD_F32, explicit_free);
}

static int fused_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_fused(halo, f, LEAT_REVERSE, KERNEL_FUSED_REVERSE_F32, explicit_free);
}

// ---- host ----

static int host_wait(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                     struct leat_signal *signal, int peer, uint64_t epoch)
{
    uint64_t seen, deadline_ns = leat_now_ns() + halo->job->timeout_ns;
    leat_count(&halo->job->counts.blocking_waits, 1);
    int error = leat_signal_wait(halo->job, signal, epoch, peer, deadline_ns, &seen);
    return error ? wait_failed(halo, f, direction, p, peer, error, epoch, seen) : 0;
}

static int launch_pulse(struct leat_halo *halo, int f, int p, enum kernel_id first)
{
    struct halo_field *field = &halo->field[f];
    int error = leat_device_launch(halo->job->device, kernel_for(field->given.element, first),
                                   field->kernel, (uint32_t)p << HALO_PULSE_BIT);
    return error ? error : leat_device_sync(halo->job->device);
}

// Copies to an address inside a peer's region by the region's own transport.
static int transfer(const leat_region *to, const void *landing, const void *from, uint64_t bytes)
{
    uint64_t offset = (uint64_t)((const char *)landing - (const char *)to->address);
    return bytes ? to->transport->put(to, offset, from, bytes) : 0;
}

static int host_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    struct k_field *field = halo->field[f].kernel;
    uint64_t epoch = ++field->forward_epoch;
    int error = 0;
    for (int p = 0; explicit_free && p < field->pulse_count; p++)
        leat_signal_raise(field->pulse[p].signal.x_free_there, epoch);
    for (int p = 0; !error && p < field->pulse_count; p++) {
        struct k_pulse *pulse = &field->pulse[p];
        uint64_t bytes = (uint64_t)pulse->send_count * halo->field[f].element_bytes;
        error = launch_pulse(halo, f, p, KERNEL_PACK_F32);
        if (!error && explicit_free)
            error = host_wait(halo, f, LEAT_FORWARD, p, pulse->signal.x_free_here, pulse->send_rank,
                              epoch);
        if (!error)
            error = transfer(halo_peer_of(halo, pulse->send_rank)->base[f], pulse->x_landing,
                             field->staging, bytes);
        if (error)
            break;
        leat_signal_raise(pulse->signal.x_there, epoch);
        error = host_wait(halo, f, LEAT_FORWARD, p, pulse->signal.x_here, pulse->recv_rank, epoch);
    }
    return error;
}

static int host_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    struct k_field *field = halo->field[f].kernel;
    uint64_t epoch = ++field->reverse_epoch;
    int error = 0;
    for (int p = 0; explicit_free && p < field->pulse_count; p++)
        leat_signal_raise(field->pulse[p].signal.f_free_there, epoch);
    for (int p = field->pulse_count - 1; !error && p >= 0; p--) {
        struct k_pulse *pulse = &field->pulse[p];
        uint64_t element = halo->field[f].element_bytes;
        const char *ghosts = (const char *)field->base + pulse->recv_offset * element;
        if (explicit_free)
            error = host_wait(halo, f, LEAT_REVERSE, p, pulse->signal.f_free_here, pulse->recv_rank,
                              epoch);
        if (!error)
            error = transfer(halo_peer_of(halo, pulse->recv_rank)->board, pulse->f_landing, ghosts,
                             pulse->recv_count * element);
        if (error)
            break;
        leat_signal_raise(pulse->signal.f_there, epoch);
        error = host_wait(halo, f, LEAT_REVERSE, p, pulse->signal.f_here, pulse->send_rank, epoch);
        if (!error)
            error = launch_pulse(halo, f, p, KERNEL_ACCUMULATE_F32);
    }
    return error;
}

static const struct halo_mode modes[] = {
    {"fused", LEAT_MODE_FUSED, fused_forward, fused_reverse},
    {"host", LEAT_MODE_HOST, host_forward, host_reverse},
};

const struct halo_mode *halo_mode_find(enum leat_mode mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (modes[i].mode == mode)
            return &modes[i];
    return NULL;
}

// Both sides call the same exchanges in the same order, so both come to the same answer.
static bool needs_explicit_free(const struct leat_halo *halo, const struct halo_field *field,
                                enum leat_direction direction)
{
    uint64_t last = direction == LEAT_FORWARD ? field->forward_sequence : field->reverse_sequence;
    if (!last)
        return false; // nobody has read or written there yet
    if (!field->given.acknowledged_by)
        return true;
    const struct halo_field *other = &halo->field[field->given.acknowledged_by - 1];
    return (direction == LEAT_FORWARD ? other->reverse_sequence : other->forward_sequence) < last;
}

static void count_bytes(struct leat_halo *halo, int f, enum leat_direction direction)
{
    for (int p = 0; p < halo->plan->pulse_count; p++) {
        const leat_pulse *pulse = &halo->plan->pulse[p];
        int rank = direction == LEAT_FORWARD ? pulse->send_rank : pulse->recv_rank;
        uint32_t count = direction == LEAT_FORWARD ? pulse->send_count : pulse->recv_count;
        leat_count_path(halo->job, rank, halo_peer_of(halo, rank)->board->row,
                        (uint64_t)count * halo->field[f].element_bytes, 1);
    }
}

int leat_halo_exchange(leat_halo *halo, int field, enum leat_direction direction)
{
    if (halo->failed)
        return leat_fail(halo->failed, "this halo failed earlier and can only be freed: %s",
                         halo->detail);
    if (field < 0 || field >= halo->field_count)
        return leat_fail(-EINVAL, "field %d of a halo with %d fields", field, halo->field_count);
    struct halo_field *state = &halo->field[field];
    if (direction == LEAT_REVERSE && state->given.element == LEAT_WORDS)
        return leat_fail(-EINVAL, "field %d is of words: they cannot be added on the way back",
                         field);
    halo->sequence++;
    bool explicit_free = needs_explicit_free(halo, state, direction);
    int error = 0;
    if (halo->plan->pulse_count)
        error = direction == LEAT_FORWARD ? halo->mode->forward(halo, field, explicit_free)
                                          : halo->mode->reverse(halo, field, explicit_free);
    if (error) {
        halo->failed = error;
        snprintf(halo->detail, sizeof halo->detail, "%s", leat_error_detail());
        return error;
    }
    if (direction == LEAT_FORWARD)
        state->forward_sequence = halo->sequence;
    else
        state->reverse_sequence = halo->sequence;
    count_bytes(halo, field, direction);
    return 0;
}
