// SPDX-License-Identifier: Apache-2.0
// The modes: who orders the work of one exchange.
//
//   host      the CPU: pack kernel, synchronise, transfer, wait, pulse by pulse
//   stream    the stream: pack kernel, then transfer, signal and wait as its operations
//   pulse     one kernel a pulse does all of that
//   fused     one kernel for all pulses (halo_kernels.inc)
//   resident  as fused; its own gain is leat_halo_run (resident.c)
//
// All add in the same order and so give the same bits. Advantage: a new mode is a row here.
// Disadvantage: the row's two functions know the pulse protocol; it is written once more in the
// kernels.

#include "halo/halo_internal.h"

#include "core/trace.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>

static enum kernel_id kernel_for(const struct leat_halo *halo, int f, enum kernel_id first)
{
    return (enum kernel_id)(first + halo->field[f].given.element);
}

static int wait_failed(struct leat_halo *halo, int f, enum leat_direction direction, int pulse,
                       int peer, int code, uint64_t wanted, uint64_t seen)
{
    char what[96];
    snprintf(what, sizeof what, "halo exchange %llu (field %d, %s), pulse %d (dimension %c)",
             (unsigned long long)halo->sequence, f,
             direction == LEAT_FORWARD ? "forward" : "reverse", pulse,
             'x' + halo->plan->pulse[pulse].dimension);
    return leat_wait_fail(halo->job, code, what, peer, wanted, seen);
}

int halo_kernel_error(struct leat_halo *halo, int f, enum leat_direction direction)
{
    const struct k_error *record = halo->error;
    if (!__atomic_load_n(&record->failed, __ATOMIC_ACQUIRE))
        return 0;
    return wait_failed(halo, f, direction, record->pulse, record->peer, record->code,
                       record->wanted, record->seen);
}

// ---- fused and pulse: all in kernels ----

static int run_kernels(struct leat_halo *halo, int f, enum leat_direction direction,
                       enum kernel_id first, bool by_pulse, bool explicit_free)
{
    int pulse_count = halo->plan->pulse_count, error = 0;
    int launches = by_pulse ? pulse_count : 1;
    for (int i = 0; !error && i < launches; i++) {
        int p = direction == LEAT_FORWARD ? i : launches - 1 - i;
        uint32_t choice = (uint32_t)p << HALO_PULSE_BIT | (explicit_free ? HALO_EXPLICIT_FREE : 0);
        error = leat_device_launch(halo->job->device, kernel_for(halo, f, first),
                                   halo->field[f].kernel, choice);
        if (!error)
            error = halo_kernel_error(halo, f, direction);
    }
    return error;
}

static int fused_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_kernels(halo, f, LEAT_FORWARD, KERNEL_FUSED_FORWARD_F32, false, explicit_free);
}

static int fused_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_kernels(halo, f, LEAT_REVERSE, KERNEL_FUSED_REVERSE_F32, false, explicit_free);
}

static int pulse_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_kernels(halo, f, LEAT_FORWARD, KERNEL_PULSE_FORWARD_F32, true, explicit_free);
}

static int pulse_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    return run_kernels(halo, f, LEAT_REVERSE, KERNEL_PULSE_REVERSE_F32, true, explicit_free);
}

// ---- host and stream: pack or accumulate kernels, and between them copies, signals and waits ----

// Where the two differ: a wait that blocks the host, or one that holds up the stream.
struct ordering {
    int (*await)(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                 struct leat_signal *signal, int peer, uint64_t epoch);
    int (*transfer)(struct leat_halo *halo, const leat_region *to, void *landing, const void *from,
                    uint64_t bytes, struct leat_signal *signal, uint64_t epoch);
    int (*launched)(struct device *device); /* after each kernel; NULL: nothing */
};

static int host_await(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                      struct leat_signal *signal, int peer, uint64_t epoch)
{
    uint64_t seen, deadline_ns = leat_now_ns() + halo->job->timeout_ns;
    leat_count(&halo->job->counts.blocking_waits, 1);
    uint64_t begin = leat_trace_begin(halo->job);
    int error = leat_signal_wait(halo->job, signal, epoch, peer, deadline_ns, &seen);
    leat_trace_end(halo->job, TRACE_WAIT, 0, begin, peer, p);
    return error ? wait_failed(halo, f, direction, p, peer, error, epoch, seen) : 0;
}

// By the path of the peer's region, as any copy.
static int host_transfer(struct leat_halo *halo, const leat_region *to, void *landing,
                         const void *from, uint64_t bytes, struct leat_signal *signal,
                         uint64_t epoch)
{
    (void)halo;
    uint64_t offset = (uint64_t)((const char *)landing - (const char *)to->address);
    int error = bytes ? to->transport->put(to, offset, from, bytes) : 0;
    if (!error)
        leat_signal_raise(signal, epoch);
    return error;
}

static int stream_await(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                        struct leat_signal *signal, int peer, uint64_t epoch)
{
    struct device *device = halo->job->device;
    int error = device->ops->wait(device, &halo->field[f].kernel->wait, signal, epoch, peer, p);
    return error ? error : halo_kernel_error(halo, f, direction);
}

static int stream_transfer(struct leat_halo *halo, const leat_region *to, void *landing,
                           const void *from, uint64_t bytes, struct leat_signal *signal,
                           uint64_t epoch)
{
    (void)to;
    struct device *device = halo->job->device;
    int error = device->ops->put(device, landing, from, bytes);
    return error ? error : device->ops->raise(device, signal, epoch);
}

static const struct ordering by_host = {host_await, host_transfer, leat_device_sync};
static const struct ordering by_stream = {stream_await, stream_transfer, NULL};

static int launch_pulse(struct leat_halo *halo, int f, int p, enum kernel_id first,
                        const struct ordering *order)
{
    int error = leat_device_launch(halo->job->device, kernel_for(halo, f, first),
                                   halo->field[f].kernel, (uint32_t)p << HALO_PULSE_BIT);
    return !error && order->launched ? order->launched(halo->job->device) : error;
}

// Pulses are sent in order, and each waits only for what it forwards: two ranks may have their
// pulses in different orders, and would otherwise wait for each other for ever.

static int await_arrivals(struct leat_halo *halo, int f, const struct ordering *order, int end,
                          int *next)
{
    struct k_field *field = halo->field[f].kernel;
    int error = 0;
    for (; !error && *next < end; (*next)++) {
        struct k_pulse *pulse = &field->pulse[*next];
        if (field->senders >> *next & 1)
            error = order->await(halo, f, LEAT_FORWARD, *next, pulse->signal.x_here,
                                 pulse->recv_rank, field->forward_epoch);
    }
    return error;
}

static int send_pulse(struct leat_halo *halo, int f, int p, bool explicit_free,
                      const struct ordering *order)
{
    struct k_field *field = halo->field[f].kernel;
    struct k_pulse *pulse = &field->pulse[p];
    const struct halo_peer *to = halo_peer_of(halo, pulse->send_rank);
    if (!to)
        return 0;
    int error = launch_pulse(halo, f, p, KERNEL_PACK_F32, order);
    if (!error && explicit_free)
        error = order->await(halo, f, LEAT_FORWARD, p, pulse->signal.x_free_here, pulse->send_rank,
                             field->forward_epoch - (field->zones - 1));
    if (error)
        return error;
    uint64_t zone = field->zones == 2 ? field->forward_epoch & 1 : 0;
    char *landing = (char *)pulse->x_landing + zone * pulse->x_stride;
    return order->transfer(halo, to->base[f], landing, field->staging,
                           (uint64_t)pulse->send_count * halo->field[f].element_bytes,
                           pulse->signal.x_there, field->forward_epoch);
}

static int ordered_forward(struct leat_halo *halo, int f, bool explicit_free,
                           const struct ordering *order)
{
    struct k_field *field = halo->field[f].kernel;
    uint64_t epoch = ++field->forward_epoch;
    int error = 0, arrived = 0;
    for (int p = 0; explicit_free && p < field->pulse_count; p++)
        if (field->senders >> p & 1)
            leat_signal_raise(field->pulse[p].signal.x_free_there, epoch);
    for (int p = 0; !error && p < field->pulse_count; p++) {
        uint64_t needs = field->pulse[p].forward_needs;
        if (needs)
            error = await_arrivals(halo, f, order, 64 - __builtin_clzll(needs), &arrived);
        if (!error)
            error = send_pulse(halo, f, p, explicit_free, order);
    }
    return error ? error : await_arrivals(halo, f, order, field->pulse_count, &arrived);
}

// From the last pulse on, since sums are made in that order in every mode.
static int add_returns(struct leat_halo *halo, int f, const struct ordering *order, int end,
                       int *next)
{
    struct k_field *field = halo->field[f].kernel;
    int error = 0;
    for (; !error && *next >= end; (*next)--) {
        struct k_pulse *pulse = &field->pulse[*next];
        if (!(field->receivers >> *next & 1))
            continue;
        error = order->await(halo, f, LEAT_REVERSE, *next, pulse->signal.f_here, pulse->send_rank,
                             field->reverse_epoch);
        if (!error)
            error = launch_pulse(halo, f, *next, KERNEL_ACCUMULATE_F32, order);
    }
    return error;
}

static int return_pulse(struct leat_halo *halo, int f, int p, bool explicit_free,
                        const struct ordering *order)
{
    struct k_field *field = halo->field[f].kernel;
    struct k_pulse *pulse = &field->pulse[p];
    const struct halo_peer *from = halo_peer_of(halo, pulse->recv_rank);
    if (!from)
        return 0;
    uint64_t element = halo->field[f].element_bytes;
    const char *ghosts = (const char *)field->base + pulse->recv_offset * element;
    int error = 0;
    if (explicit_free)
        error = order->await(halo, f, LEAT_REVERSE, p, pulse->signal.f_free_here, pulse->recv_rank,
                             field->reverse_epoch);
    if (error)
        return error;
    return order->transfer(halo, from->board, pulse->f_landing, ghosts, pulse->recv_count * element,
                           pulse->signal.f_there, field->reverse_epoch);
}

static int ordered_reverse(struct leat_halo *halo, int f, bool explicit_free,
                           const struct ordering *order)
{
    struct k_field *field = halo->field[f].kernel;
    uint64_t epoch = ++field->reverse_epoch;
    int error = 0, next = field->pulse_count - 1;
    for (int p = 0; explicit_free && p < field->pulse_count; p++)
        if (field->receivers >> p & 1)
            leat_signal_raise(field->pulse[p].signal.f_free_there, epoch);
    for (int p = field->pulse_count - 1; !error && p >= 0; p--) {
        uint64_t needs = field->pulse[p].reverse_needs;
        if (needs)
            error = add_returns(halo, f, order, __builtin_ctzll(needs), &next);
        if (!error)
            error = return_pulse(halo, f, p, explicit_free, order);
    }
    return error ? error : add_returns(halo, f, order, 0, &next);
}

static int host_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    return ordered_forward(halo, f, explicit_free, &by_host);
}

static int host_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    return ordered_reverse(halo, f, explicit_free, &by_host);
}

static int stream_forward(struct leat_halo *halo, int f, bool explicit_free)
{
    return ordered_forward(halo, f, explicit_free, &by_stream);
}

static int stream_reverse(struct leat_halo *halo, int f, bool explicit_free)
{
    return ordered_reverse(halo, f, explicit_free, &by_stream);
}

static const struct halo_mode modes[] = {
    {"fused", LEAT_MODE_FUSED, fused_forward, fused_reverse},
    {"host", LEAT_MODE_HOST, host_forward, host_reverse},
    {"stream", LEAT_MODE_STREAM, stream_forward, stream_reverse},
    {"pulse", LEAT_MODE_PULSE, pulse_forward, pulse_reverse},
    {"resident", LEAT_MODE_RESIDENT, fused_forward, fused_reverse},
};

const struct halo_mode *halo_mode_find(enum leat_mode mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (modes[i].mode == mode)
            return &modes[i];
    return NULL;
}
