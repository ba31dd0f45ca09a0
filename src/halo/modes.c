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

#include "halo/proxy.h"

#include "core/trace.h"

#include <errno.h>
#include <stdio.h>

static enum kernel_id kernel_for(const struct leat_halo *halo, int f, enum kernel_id first)
{
    return (enum kernel_id)(first + halo->field[f].given.element);
}

// ---- fused and pulse: all in kernels ----

static int launch(struct leat_halo *halo, int f, enum kernel_id first, uint32_t choice,
                  uint64_t epoch)
{
    const struct device_launch launch = {
        .kernel = kernel_for(halo, f, first),
        .choice = choice,
        .turn = epoch - halo_kernel(halo, f)->first_epoch,
        .arguments = &halo->field[f].kernel,
        .puts = halo->mode->waits_in_kernels && halo_puts(halo),
        .orders = halo_orders(halo),
        .bulk = halo_kernel(halo, f)->bulk != 0,
        .work = halo_work(halo),
        .gang = halo->gang,
    };
    return leat_device_launch(halo->job->device, &launch);
}

// The first of a direction's launches that may have to wait for what a peer sends.
static int first_to_wait(const struct leat_halo *halo, int f, enum leat_direction direction,
                         int launches)
{
    const struct k_field *field = halo_kernel(halo, f);
    for (int i = 0; i < launches; i++) {
        int p = direction == LEAT_FORWARD ? i : launches - 1 - i;
        const struct k_pulse *pulse = p < field->pulse_count ? k_pulse_at(field, p) : NULL;
        if (pulse && (direction == LEAT_FORWARD ? pulse->forward_needs : pulse->reverse_needs))
            return i;
    }
    return launches - 1;
}

static int run_kernels(struct leat_halo *halo, int f, enum leat_direction direction,
                       enum kernel_id first, bool by_pulse, bool explicit_free)
{
    int error = 0, launches = 1;
    // Ranks of one GPU start together every time.
    if (by_pulse)
        launches = halo->gang ? halo->most_pulses : halo->plan->pulse_count;
    uint64_t epoch =
        direction == LEAT_FORWARD ? halo->field[f].forward_epoch : halo->field[f].reverse_epoch;
    int busy = -1;
    if (halo->meanwhile[direction].call)
        busy = by_pulse ? first_to_wait(halo, f, direction, launches) : 0;
    for (int i = 0; !error && i < launches; i++) {
        int p = direction == LEAT_FORWARD ? i : launches - 1 - i;
        uint32_t choice =
            (uint32_t)p << HALO_PULSE_BIT | (explicit_free && i == 0 ? HALO_EXPLICIT_FREE : 0) |
            (i == busy ? HALO_MEANWHILE : 0) | (i == launches - 1 ? HALO_LAST_KERNEL : 0);
        error = launch(halo, f, first, choice, epoch);
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

// One that is to be raised at a peer.
struct word {
    int field, pulse;
    enum board_signal which;
    struct leat_signal *there; // NULL: by the proxy
    uint64_t epoch;
};

// Where the two differ: the host synchronises with the stream, transfers and raises; or all of it
// is in the stream.
struct ordering {
    int (*await)(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                 struct leat_signal *signal, int peer, uint64_t epoch);
    int (*transfer)(struct leat_halo *halo, const struct word *word, void *landing,
                    const void *from, uint64_t bytes);
    int (*raise)(struct leat_halo *halo, const struct word *word);
    int (*settle)(
        struct leat_halo *halo); /* before signals that say what was read; NULL: nothing */
};

static int host_await(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                      struct leat_signal *signal, int peer, uint64_t epoch)
{
    uint64_t seen, deadline_ns = leat_now_ns() + halo->job->timeout_ns;
    leat_count(&halo->job->counts.blocking_waits, 1);
    uint64_t begin = leat_trace_begin(halo->job);
    int error = leat_signal_wait(halo->job, signal, epoch, peer, deadline_ns, &seen);
    leat_trace_end(halo->job, TRACE_WAIT, 0, begin, peer, p);
    return error ? halo_wait_failed(halo, f, direction, p, peer, error, epoch, seen) : 0;
}

static int host_raise(struct leat_halo *halo, const struct word *word)
{
    if (!word->there)
        return halo_carry(halo, word->field, word->pulse, word->which, NULL, word->epoch);
    leat_signal_raise(word->there, word->epoch);
    return 0;
}

// The stream's copy comes after the pack kernel; one wait is for both.
static int host_transfer(struct leat_halo *halo, const struct word *word, void *landing,
                         const void *from, uint64_t bytes)
{
    struct device *device = halo->job->device;
    // The transport copies from where the host can load.
    const bool carried = !word->there && !halo_is_remote(halo);
    int error = 0;
    if (bytes && halo_puts(halo))
        error = halo_put(halo, word->field, word->pulse, word->which, from, word->epoch);
    else if (bytes && !carried)
        error = device->ops->put(device, landing, from, bytes);
    if (!error)
        error = leat_device_sync(device);
    if (!error && carried)
        return halo_carry(halo, word->field, word->pulse, word->which, from, word->epoch);
    return error ? error : host_raise(halo, word);
}

// Whoever reads ghosts in the stream may still be at it.
static int host_settle(struct leat_halo *halo)
{
    return halo_is_remote(halo) ? leat_device_sync(halo->job->device) : 0;
}

static int stream_await(struct leat_halo *halo, int f, enum leat_direction direction, int p,
                        struct leat_signal *signal, int peer, uint64_t epoch)
{
    struct device *device = halo->job->device;
    const struct k_wait *wait = &halo_kernel(halo, f)->wait;
    int error = device->ops->wait(device, wait, signal, epoch, peer, p);
    return error ? error : halo_kernel_error(halo, f, direction);
}

static int stream_raise(struct leat_halo *halo, const struct word *word)
{
    struct device *device = halo->job->device;
    if (word->there)
        return device->ops->raise(device, word->there, word->epoch);
    if (halo_puts(halo))
        return halo_put(halo, word->field, word->pulse, word->which, NULL, word->epoch);
    const struct device_launch order = {
        .kernel = KERNEL_PROXY_ORDER,
        .choice = (uint32_t)word->pulse << HALO_PULSE_BIT | (uint32_t)word->which,
        .turn = word->epoch - halo_kernel(halo, word->field)->first_epoch,
        .arguments = &halo->field[word->field].kernel,
        .work = 1,
    };
    // In place of a stream's operation, and no more counted than that.
    int error = device->ops->launch(device, &order);
    if (!error && device->captured) // replays would have to count
        error = leat_fail(-ENOTSUP, "mode stream cannot be captured where the proxy carries");
    return error;
}

static int stream_transfer(struct leat_halo *halo, const struct word *word, void *landing,
                           const void *from, uint64_t bytes)
{
    struct device *device = halo->job->device;
    if (halo_puts(halo))
        return halo_put(halo, word->field, word->pulse, word->which, bytes ? from : NULL,
                        word->epoch);
    int error = bytes ? device->ops->put(device, landing, from, bytes) : 0;
    return error ? error : stream_raise(halo, word);
}

static const struct ordering by_host = {host_await, host_transfer, host_raise, host_settle};
static const struct ordering by_stream = {stream_await, stream_transfer, stream_raise, NULL};

static int free_landings(struct leat_halo *halo, int f, enum leat_direction direction,
                         uint64_t epoch, const struct ordering *order)
{
    const struct k_field *field = halo_kernel(halo, f);
    uint64_t pulses = direction == LEAT_FORWARD ? field->senders : field->receivers;
    int error = order->settle ? order->settle(halo) : 0;
    for (int p = 0; !error && p < field->pulse_count; p++) {
        const struct k_pulse_signals *signal = &k_pulse_at(field, p)->signal;
        const struct word x = {f, p, BOARD_X_FREE, signal->x_free_there, epoch};
        const struct word back = {f, p, BOARD_F_FREE, signal->f_free_there, epoch};
        if (pulses >> p & 1)
            error = order->raise(halo, direction == LEAT_FORWARD ? &x : &back);
    }
    return error;
}

// The caller's work, once an exchange, before its first wait for what a peer sends.
static void work_meanwhile(const struct leat_halo *halo, enum leat_direction direction, bool *done)
{
    const struct k_meanwhile *meanwhile = &halo->meanwhile[direction];
    if (!*done && meanwhile->call)
        meanwhile->call(meanwhile->user, 0, 1, meanwhile->step); // its answer is the run's to read
    *done = true;
}

// Pulses are sent in order, and each waits only for what it forwards: two ranks may have their
// pulses in different orders, and would otherwise wait for each other for ever.

static int await_arrivals(struct leat_halo *halo, int f, const struct ordering *order, int end,
                          int *next)
{
    const struct k_field *field = halo_kernel(halo, f);
    int error = 0;
    for (; !error && *next < end; (*next)++) {
        const struct k_pulse *pulse = k_pulse_at(field, *next);
        if (field->senders >> *next & 1)
            error = order->await(halo, f, LEAT_FORWARD, *next, pulse->signal.x_here,
                                 pulse->recv_rank, halo->field[f].forward_epoch);
    }
    return error;
}

static int send_pulse(struct leat_halo *halo, int f, int p, bool explicit_free,
                      const struct ordering *order)
{
    const struct k_field *field = halo_kernel(halo, f);
    const struct k_pulse *pulse = k_pulse_at(field, p);
    const uint64_t epoch = halo->field[f].forward_epoch;
    const uint64_t zone = field->zones == 2 ? epoch & 1 : 0;
    if (!halo_peer_of(halo, pulse->send_rank))
        return 0;
    uint32_t choice = (uint32_t)p << HALO_PULSE_BIT | (zone ? HALO_SECOND_ZONE : 0);
    int error = launch(halo, f, KERNEL_PACK_F32, choice, epoch);
    if (!error && explicit_free)
        error = order->await(halo, f, LEAT_FORWARD, p, pulse->signal.x_free_here, pulse->send_rank,
                             epoch - (field->zones - 1));
    if (error)
        return error;
    char *landing = (char *)pulse->x_landing + zone * pulse->x_stride;
    const struct word word = {f, p, BOARD_X_IN, pulse->signal.x_there, epoch};
    return order->transfer(halo, &word, landing, field->staging,
                           (uint64_t)pulse->send_count * halo->field[f].element_bytes);
}

static int ordered_forward(struct leat_halo *halo, int f, bool explicit_free,
                           const struct ordering *order)
{
    const struct k_field *field = halo_kernel(halo, f);
    int error = 0, arrived = 0;
    bool worked = false;
    if (explicit_free)
        error = free_landings(halo, f, LEAT_FORWARD, halo->field[f].forward_epoch, order);
    for (int p = 0; !error && p < field->pulse_count; p++) {
        uint64_t needs = k_pulse_at(field, p)->forward_needs;
        if (needs) {
            work_meanwhile(halo, LEAT_FORWARD, &worked);
            error = await_arrivals(halo, f, order, 64 - __builtin_clzll(needs), &arrived);
        }
        if (!error)
            error = send_pulse(halo, f, p, explicit_free, order);
    }
    if (error)
        return error;
    work_meanwhile(halo, LEAT_FORWARD, &worked);
    return await_arrivals(halo, f, order, field->pulse_count, &arrived);
}

// From the last pulse on, since sums are made in that order in every mode.
static int add_returns(struct leat_halo *halo, int f, const struct ordering *order, int end,
                       int *next)
{
    const struct k_field *field = halo_kernel(halo, f);
    int error = 0;
    for (; !error && *next >= end; (*next)--) {
        const struct k_pulse *pulse = k_pulse_at(field, *next);
        if (!(field->receivers >> *next & 1))
            continue;
        error = order->await(halo, f, LEAT_REVERSE, *next, pulse->signal.f_here, pulse->send_rank,
                             halo->field[f].reverse_epoch);
        if (!error)
            error = launch(halo, f, KERNEL_ACCUMULATE_F32, (uint32_t)*next << HALO_PULSE_BIT,
                           halo->field[f].reverse_epoch);
    }
    return error;
}

static int return_pulse(struct leat_halo *halo, int f, int p, bool explicit_free,
                        const struct ordering *order)
{
    const struct k_field *field = halo_kernel(halo, f);
    const struct k_pulse *pulse = k_pulse_at(field, p);
    const uint64_t epoch = halo->field[f].reverse_epoch;
    if (!halo_peer_of(halo, pulse->recv_rank))
        return 0;
    uint64_t element = halo->field[f].element_bytes;
    const char *ghosts = (const char *)field->base + pulse->recv_offset * element;
    int error = 0;
    if (explicit_free)
        error = order->await(halo, f, LEAT_REVERSE, p, pulse->signal.f_free_here, pulse->recv_rank,
                             epoch);
    if (error)
        return error;
    const struct word word = {f, p, BOARD_F_IN, pulse->signal.f_there, epoch};
    return order->transfer(halo, &word, pulse->f_landing, ghosts, pulse->recv_count * element);
}

static int ordered_reverse(struct leat_halo *halo, int f, bool explicit_free,
                           const struct ordering *order)
{
    const struct k_field *field = halo_kernel(halo, f);
    int error = 0, next = field->pulse_count - 1;
    bool worked = false;
    if (explicit_free)
        error = free_landings(halo, f, LEAT_REVERSE, halo->field[f].reverse_epoch, order);
    for (int p = field->pulse_count - 1; !error && p >= 0; p--) {
        uint64_t needs = k_pulse_at(field, p)->reverse_needs;
        if (needs) {
            work_meanwhile(halo, LEAT_REVERSE, &worked);
            error = add_returns(halo, f, order, __builtin_ctzll(needs), &next);
        }
        if (!error)
            error = return_pulse(halo, f, p, explicit_free, order);
    }
    if (error)
        return error;
    work_meanwhile(halo, LEAT_REVERSE, &worked);
    return add_returns(halo, f, order, 0, &next);
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
    {.name = "fused",
     .mode = LEAT_MODE_FUSED,
     .waits_in_kernels = true,
     .takes_packets = true,
     .forward = fused_forward,
     .reverse = fused_reverse},
    {.name = "host",
     .mode = LEAT_MODE_HOST,
     .host_signals = true,
     .forward = host_forward,
     .reverse = host_reverse},
    {.name = "stream",
     .mode = LEAT_MODE_STREAM,
     .waits_in_stream = true,
     .forward = stream_forward,
     .reverse = stream_reverse},
    {.name = "pulse",
     .mode = LEAT_MODE_PULSE,
     .waits_in_kernels = true,
     .forward = pulse_forward,
     .reverse = pulse_reverse},
    {.name = "resident",
     .mode = LEAT_MODE_RESIDENT,
     .waits_in_kernels = true,
     .takes_packets = true,
     .forward = fused_forward,
     .reverse = fused_reverse},
};

const struct halo_mode *halo_mode_find(enum leat_mode mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (modes[i].mode == mode)
            return &modes[i];
    return NULL;
}
