// SPDX-License-Identifier: Apache-2.0
// Small pulses in packets (packet_kernels.inc): who uses them, where they land, who acknowledges.
//
// Algorithm: all ranks find the largest pulse of all and compare it with their limits, so that one
// protocol serves the whole halo. Two landing zones go by turns; that the last but one has been
// emptied a sender knows from the packets that the same peer sent it in the last exchange, and only
// where a peer sends it none it asks for acknowledgements. Advantage: in a steady flow between
// neighbours nothing but data travels. Disadvantage: a third more bytes, and twice the room.

#include "halo/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Packets of an element of the field where the halo takes packets; 0: it is too wide for them.
static uint32_t packets_each(const struct leat_halo *halo, int f)
{
    const struct halo_field *field = &halo->field[f];
    bool fits = field->given.components <= K_PACKET_COMPONENTS;
    return fits ? (field->element_bytes / 4 + 2) / 3 : 0;
}

uint32_t halo_packets_of(const struct leat_halo *halo, int f)
{
    return halo->packets ? packets_each(halo, f) : 0;
}

// Elements of several packets are not stored as whole lines, and each is more bytes.
static double weight_of(const struct leat_halo *halo)
{
    uint32_t most = 1;
    for (int f = 0; f < halo->field_count; f++)
        if (packets_each(halo, f) > most)
            most = packets_each(halo, f);
    return (double)(most * most);
}

// All ranks come to the same answer.
static int agree_on_pulses(struct leat_halo *halo, bool *use)
{
    const struct leat_job *job = halo->job;
    const bool chosen = job->config.source[SETTING_PACKETS] != FROM_DEFAULT;
    const struct device_ops *ops = job->device->ops;
    const bool resident = halo->mode->mode == LEAT_MODE_RESIDENT;
    double limit = chosen ? job->config.packets : resident ? ops->resident_packets : ops->packets;
    double weight = chosen ? 1 : weight_of(halo);
    double excess = -limit; // of the largest pulse over the smallest limit
    for (int p = 0; p < halo->plan->pulse_count; p++) {
        double count = weight * halo->plan->pulse[p].send_count;
        if (count - limit > excess)
            excess = count - limit;
    }
    // The proxy carries pulses, not single packets.
    if (limit <= 0 || !halo->mode->takes_packets || !halo_stores_to_all(halo))
        excess = 1;
    double most[2] = {excess, halo->plan->pulse_count};
    int error = leat_reduce(halo->job, REDUCE_MAX, most, 2);
    *use = most[0] <= 0;
    halo->most_pulses = (int)most[1];
    return error;
}

static uint64_t lay_out(struct leat_halo *halo, struct board *board)
{
    uint64_t at = 0;
    for (int f = 0; f < halo->field_count; f++) {
        uint64_t bytes = packets_each(halo, f) * sizeof(struct k_packet);
        board->field[f].x_packet_offset = at;
        at += 2 * halo_ghost_count(halo) * bytes;
        board->field[f].f_packet_offset = at;
        if (halo->field[f].given.element != LEAT_WORDS)
            at += 2 * halo->send_total * bytes;
    }
    return at;
}

// No packet may look as if it had come: the first exchanges are first_epoch + 1 and + 2.
static int clear(struct leat_halo *halo, uint64_t first_epoch)
{
    size_t count = halo->packets->bytes / sizeof(struct k_packet);
    struct k_packet *blank = count ? calloc(count, sizeof *blank) : NULL;
    if (count && !blank)
        return leat_fail(-ENOMEM, "no memory for a halo's packets");
    for (size_t i = 0; i < count; i++)
        blank[i].tag = (uint32_t)first_epoch;
    int error =
        count ? halo->packets->transport->put(halo->packets, 0, blank, halo->packets->bytes) : 0;
    free(blank);
    return error;
}

int halo_packets_open(struct leat_halo *halo, uint64_t first_epoch)
{
    bool use;
    int error = agree_on_pulses(halo, &use);
    if (error || !use)
        return error;
    struct board *board = halo_board(halo->board);
    leat_region_options options = {
        .size = sizeof options, .bytes = lay_out(halo, board), .memory = LEAT_MEMORY_DEVICE};
    error = leat_region_alloc(halo->job, &options, &halo->packets);
    if (!error)
        error = clear(halo, first_epoch);
    if (!error)
        board->packets = leat_region_key(halo->packets);
    return leat_agree(halo->job, error);
}

// Whether something comes from the rank, or goes to it, at all.
static bool deals_with(const struct leat_plan *plan, int rank, bool sends)
{
    for (int p = 0; p < plan->pulse_count; p++) {
        const leat_pulse *pulse = &plan->pulse[p];
        if (sends ? pulse->send_rank == rank && pulse->send_count
                  : pulse->recv_rank == rank && pulse->recv_count)
            return true;
    }
    return false;
}

static void bind_pulse(struct leat_halo *halo, int f, int p, struct k_field *field)
{
    struct k_pulse *kernel = (struct k_pulse *)(void *)(field + 1) + p;
    const leat_pulse *pulse = &halo->plan->pulse[p];
    const struct halo_peer *to = halo_peer_of(halo, pulse->send_rank);
    const struct halo_peer *from = halo_peer_of(halo, pulse->recv_rank);
    const uint64_t bit = UINT64_C(1) << p, each = field->packets;
    if (to && pulse->send_count) {
        const struct board *theirs = halo_board_of(to);
        const struct board_pulse *there = &theirs->pulse[halo->to_pulse[p]];
        struct k_packet *landing = (struct k_packet *)(void *)((char *)to->packets->address +
                                                               theirs->field[f].x_packet_offset);
        kernel->x_packets = landing + (there->recv_offset - theirs->home_count) * each;
        kernel->x_packet_stride = theirs->ghost_count * each;
        bool answered = deals_with(halo->plan, pulse->send_rank, false);
        field->x_ask |= answered ? 0 : bit;
        field->f_tell |= answered ? 0 : bit;
    }
    if (from && pulse->recv_count) {
        const struct board *theirs = halo_board_of(from);
        const struct board_pulse *there = &theirs->pulse[halo->from_pulse[p]];
        struct k_packet *landing = (struct k_packet *)(void *)((char *)from->packets->address +
                                                               theirs->field[f].f_packet_offset);
        kernel->f_packets = landing + there->send_offset * each;
        kernel->f_packet_stride = theirs->send_total * each;
        bool answered = deals_with(halo->plan, pulse->recv_rank, true);
        field->f_ask |= answered ? 0 : bit;
        field->x_tell |= answered ? 0 : bit;
    }
}

void halo_packets_bind(struct leat_halo *halo, int f, struct k_field *kernel)
{
    kernel->packets = halo_packets_of(halo, f);
    kernel->send_total = halo->send_total;
    if (!kernel->packets)
        return;
    kernel->x_tell = kernel->x_ask = kernel->f_tell = kernel->f_ask = 0;
    const struct board_field *posted = &halo_board(halo->board)->field[f];
    const char *landing = halo->packets->address;
    kernel->x_packets = (const struct k_packet *)(const void *)(landing + posted->x_packet_offset);
    kernel->f_packets = (const struct k_packet *)(const void *)(landing + posted->f_packet_offset);
    for (int p = 0; p < halo->plan->pulse_count; p++)
        bind_pulse(halo, f, p, kernel);
}

bool halo_packet_find(const struct leat_halo *halo, const void *packet, int *pulse, int *field,
                      enum leat_direction *direction)
{
    uintptr_t at = (uintptr_t)packet;
    for (int f = 0; halo->packets && f < halo->field_count; f++) {
        const struct k_field *kernel = halo_kernel(halo, f);
        uint64_t each = sizeof(struct k_packet) * kernel->packets;
        uintptr_t x = (uintptr_t)kernel->x_packets, back = (uintptr_t)kernel->f_packets;
        bool ghost = each && at >= x && at < x + 2 * halo_ghost_count(halo) * each;
        bool sent = each && at >= back && at < back + 2 * halo->send_total * each;
        if (!ghost && !sent)
            continue;
        uint64_t number = ghost ? (at - x) / each % halo_ghost_count(halo) + halo->plan->home_count
                                : (at - back) / each % halo->send_total;
        for (int p = 0; p < halo->plan->pulse_count; p++) {
            const struct k_pulse *one = k_pulse_at(kernel, p);
            uint64_t first = ghost ? one->recv_offset : one->send_offset;
            if (number - first < (ghost ? one->recv_count : one->send_count))
                *pulse = p;
        }
        *field = f;
        *direction = ghost ? LEAT_FORWARD : LEAT_REVERSE;
        return true;
    }
    return false;
}
