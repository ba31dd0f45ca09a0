// SPDX-License-Identifier: Apache-2.0
// The library's kernels and modes on a device whose blocks are threads of the search.
//
// Algorithm: halo_kernels.inc, resident_kernels.inc and modes.c are compiled once more, with words
// that give way to other threads and that spoil the protocol where a mutant asks for it. Advantage:
// what is searched is what ships. Disadvantage: a second copy of them in the test.

#define _GNU_SOURCE
#include "proof/model_internal.h"

#include "transport/transport.h"

#include <errno.h>

// ---- the library's kernels and modes, once more, in the words of the search ----

#define K_KERNEL(name)                                                                             \
    __attribute__((unused)) static void name(const struct k_grid *grid, void *arguments,           \
                                             uint32_t choice, uint64_t turn)
#include "halo/kernels.inc"

static int model_wait(leat_job *job, struct leat_signal *signal, uint64_t wanted, int peer,
                      uint64_t deadline_ns, uint64_t *seen)
{
    (void)job;
    (void)peer;
    (void)deadline_ns;
    model_await(signal, wanted);
    *seen = signal->value;
    return 0;
}

#define leat_signal_raise model_raise
#define leat_signal_wait  model_wait
#define halo_mode_find    model_mode_find
#include "halo/modes.c"
#undef leat_signal_raise
#undef leat_signal_wait
#undef halo_mode_find

typedef void kernel_function(const struct k_grid *grid, void *arguments, uint32_t choice,
                             uint64_t turn);

static kernel_function *const model_kernels[KERNEL_COUNT] = {
    [KERNEL_FUSED_FORWARD_F64] = fused_forward_f64,
    [KERNEL_FUSED_REVERSE_F64] = fused_reverse_f64,
    [KERNEL_PACK_F64] = pack_f64,
    [KERNEL_ACCUMULATE_F64] = accumulate_f64,
    [KERNEL_PULSE_FORWARD_F64] = pulse_forward_f64,
    [KERNEL_PULSE_REVERSE_F64] = pulse_reverse_f64,
    [KERNEL_PROXY_ORDER] = proxy_order,
    [KERNEL_RESIDENT] = resident};

static struct model *modelled;

void model_use(struct model *model)
{
    modelled = model;
}

// ---- words ----

// What a signal says: whose it is, of which halo, pulse and field.
struct meaning {
    struct model_rank *rank; /* on whose board it lies; NULL: on none */
    int halo, pulse, field;
    enum board_signal which;
};

static struct meaning meaning_of(const struct leat_signal *signal)
{
    for (int r = 0; r < modelled->scenario->ranks; r++)
        for (int h = 0; h < HALOS_MAX && modelled->rank[r].halo[h]; h++) {
            const struct leat_halo *halo = modelled->rank[r].halo[h];
            const struct leat_signal *first = halo_signal(halo->signals, 2, 0, 0, BOARD_X_IN);
            int number = (int)(signal - first);
            if (signal >= first && number < halo->plan->pulse_count * 2 * BOARD_SIGNALS)
                return (struct meaning){&modelled->rank[r], h, number / BOARD_SIGNALS / 2,
                                        number / BOARD_SIGNALS % 2,
                                        (enum board_signal)(number % BOARD_SIGNALS)};
        }
    return (struct meaning){0};
}

// Nothing travels with the signal, or nothing would be overwritten without it.
static bool is_of_empty_pulse(const struct meaning *meaning)
{
    const leat_pulse *pulse = &meaning->rank->plan->pulse[meaning->pulse];
    bool receives = meaning->which == BOARD_X_IN || meaning->which == BOARD_F_FREE;
    return !(receives ? pulse->recv_count : pulse->send_count);
}

static bool skips_wait(const struct leat_signal *signal)
{
    struct meaning meaning = meaning_of(signal);
    if (!meaning.rank)
        return false;
    switch (modelled->scenario->mutant) {
    case NO_WAIT_FOR_FREE:
        return meaning.which == BOARD_X_FREE || meaning.which == BOARD_F_FREE;
    case EMPTY_NOT_AWAITED:
        return is_of_empty_pulse(&meaning);
    case LAST_ARRIVAL_ONLY:
        return meaning.which == BOARD_X_IN && meaning.pulse + 1 < meaning.rank->plan->pulse_count;
    case REVERSE_NOT_AWAITED:
        return meaning.which == BOARD_F_IN;
    default:
        return false;
    }
}

// Of SIGNAL_BEFORE_DATA: the sender's data have waited aside.
static void store_late(const struct leat_signal *signal)
{
    for (int r = 0; r < modelled->scenario->ranks; r++) {
        struct model_rank *sender = &modelled->rank[r];
        for (int h = 0; h < HALOS_MAX && sender->halo[h]; h++)
            for (int p = 0; p < sender->plan->pulse_count; p++)
                if (k_pulse_at(halo_kernel(sender->halo[h], 0), p)->signal.x_there == signal)
                    memcpy(sender->landing[h][p], sender->aside[h][p],
                           sender->plan->pulse[p].send_count * sizeof(double));
    }
    explore_step(0);
}

void model_raise(struct leat_signal *signal, uint64_t value)
{
    struct meaning meaning = meaning_of(signal);
    if (modelled->scenario->mutant == SILENT_WHEN_EMPTY && meaning.rank &&
        meaning.which == BOARD_X_IN && is_of_empty_pulse(&meaning))
        return;
    if ((int64_t)(value - signal->value) <= 0)
        explore_violation("a signal goes from %lld to %lld", (long long)signal->value,
                          (long long)value);
    signal->value = value;
    explore_step(0);
    if (modelled->scenario->mutant == SIGNAL_BEFORE_DATA && meaning.which == BOARD_X_IN)
        store_late(signal);
}

void model_await(const struct leat_signal *signal, uint64_t wanted)
{
    if (!skips_wait(signal))
        explore_until(&signal->value, wanted);
    if (!meaning_of(signal).rank) // a barrier of the resident loop; the launch is in the device
        explore_at(wanted | UINT64_C(1) << 40);
}

void model_element(void)
{
    if (modelled->scenario->by_element)
        explore_step(0);
}

// ---- the device ----

static void run_block(struct model_device *device, uint32_t block, uint64_t turn)
{
    struct k_grid grid = {block, device->block_count};
    model_kernels[device->kernel](&grid, device->arguments, device->choice, turn);
}

void model_serve(void *user)
{
    struct model_block *worker = user;
    struct model_device *device = &worker->rank->device;
    for (uint64_t launch = 1;; launch++) {
        explore_until(&device->launches, launch);
        run_block(device, worker->block, 0);
        device->finished++;
        explore_at(launch);
        explore_step(0);
    }
}

static int model_launch(struct device *base, const struct device_launch *launch)
{
    struct model_device *device = (struct model_device *)base;
    device->kernel = launch->kernel;
    device->arguments = launch->arguments->address;
    device->choice = launch->choice;
    device->launches++;
    if (device->block_count > 1)
        explore_step(0);
    run_block(device, 0, launch->turn);
    explore_until(&device->finished, device->launches * (device->block_count - 1));
    explore_at(device->launches); // ranks launch the same kernels in the same order every time
    return 0;
}

// What is done in proxy.c and by the transport, in turn.
void model_carry(void *user)
{
    struct halo_proxy *link = user;
    const bool late = modelled->scenario->mutant == CARRIED_LATE;
    for (uint64_t ticket = link->taken;; ticket++) {
        const struct k_order *order = &link->order[ticket % K_RING_ORDERS];
        explore_until(&order->turn, ticket + 1);
        const struct halo_post *post = &link->posts[order->post];
        const uint64_t zone = post->stride ? order->value & 1 : 0;
        char *there = post->bytes ? (char *)post->to->address + post->offset : NULL;
        const char *here = post->from + zone * post->from_stride;
        if (there && !late)
            memcpy(there + zone * post->stride, here, post->bytes);
        model_raise(
            (struct leat_signal *)(void *)((char *)post->signals->address + post->signal_offset),
            order->value);
        if (there && late)
            memcpy(there + zone * post->stride, here, post->bytes);
        link->carried->value = ticket + 1;
        explore_at(ticket);
        explore_step(0);
    }
}

static int model_put(struct device *base, void *to, const void *from, uint64_t bytes)
{
    (void)base;
    memcpy(to, from, bytes);
    return 0;
}

static int model_stream_raise(struct device *base, struct leat_signal *signal, uint64_t value)
{
    (void)base;
    model_raise(signal, value);
    return 0;
}

static int model_stream_wait(struct device *base, const struct k_wait *wait,
                             struct leat_signal *signal, uint64_t wanted, int peer, int pulse)
{
    (void)base;
    (void)wait;
    (void)peer;
    (void)pulse;
    model_await(signal, wanted);
    return 0;
}

static int model_same(struct device *base, const struct device_memory *memory)
{
    (void)base;
    (void)memory;
    return 0;
}

static int model_sync(struct device *base)
{
    (void)base;
    return 0;
}

const struct device_ops model_ops = {.name = "model",
                                     .publish = model_same,
                                     .fetch = model_same,
                                     .launch = model_launch,
                                     .put = model_put,
                                     .raise = model_stream_raise,
                                     .wait = model_stream_wait,
                                     .sync = model_sync};
