// SPDX-License-Identifier: Apache-2.0
// One exchange: what may be asked, which acknowledgements it needs, what it counts.
//
// Algorithm: whether a sender has to be told that its data have been read follows from what both
// sides did before: an exchange the other way in between says it already. Advantage: forces after
// coordinates cost no message of their own. Disadvantage: every rank has to make the same exchanges
// in the same order, as with any collective.

#include "halo/proxy.h"

#include "core/trace.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool halo_needs_explicit_free(const struct leat_halo *halo, int f, enum leat_direction direction)
{
    const struct halo_field *field = &halo->field[f];
    uint64_t last = direction == LEAT_FORWARD ? field->forward_sequence : field->reverse_sequence;
    // The way back lands in the library's own memory, untouched so far; ghosts are the caller's,
    // who may still be filling them.
    if (!last)
        return direction == LEAT_FORWARD;
    if (!field->given.acknowledged_by)
        return true;
    const struct halo_field *other = &halo->field[field->given.acknowledged_by - 1];
    return (direction == LEAT_FORWARD ? other->reverse_sequence : other->forward_sequence) < last;
}

int halo_give_up(struct leat_halo *halo, int error)
{
    halo->failed = error;
    snprintf(halo->detail, sizeof halo->detail, "%s", leat_error_detail());
    return error;
}

static void describe(const struct leat_halo *halo, int f, enum leat_direction direction, int pulse,
                     char *text, size_t bytes)
{
    snprintf(text, bytes, "halo exchange %llu (field %d, %s), pulse %d (dimension %c)",
             (unsigned long long)halo->sequence, f,
             direction == LEAT_FORWARD ? "forward" : "reverse", pulse,
             'x' + halo->plan->pulse[pulse].dimension);
}

int halo_carry_failed(const struct leat_halo *halo, int f, int pulse, enum board_signal word,
                      int error)
{
    char what[96];
    bool forward = word == BOARD_X_IN || word == BOARD_X_FREE;
    describe(halo, f, forward ? LEAT_FORWARD : LEAT_REVERSE, pulse, what, sizeof what);
    return leat_fail_in(error, "%s", what);
}

int halo_wait_failed(struct leat_halo *halo, int f, enum leat_direction direction, int pulse,
                     int peer, int code, uint64_t wanted, uint64_t seen)
{
    char what[96];
    describe(halo, f, direction, pulse, what, sizeof what);
    return leat_wait_fail(halo->job, code, what, peer, wanted, seen);
}

// Kernels that wait have been ended; which pulse each was in, they did not say.
static int lost_error(const struct leat_halo *halo, int f, enum leat_direction direction)
{
    const int lost = leat_lookout_lost(&halo->lookout);
    char what[96] = "";
    for (int p = 0; lost >= 0 && !what[0] && p < halo->plan->pulse_count; p++)
        if (halo->plan->pulse[p].recv_rank == lost || halo->plan->pulse[p].send_rank == lost)
            describe(halo, f, direction, p, what, sizeof what);
    return lost < 0 ? 0 : leat_peer_fail(halo->job, -ECONNRESET, what, lost, "");
}

int halo_kernel_error(struct leat_halo *halo, int f, enum leat_direction direction)
{
    const struct k_error *report = halo->report;
    if (!__atomic_load_n(&report->ready, __ATOMIC_ACQUIRE))
        return lost_error(halo, f, direction);
    // On a GPU the host has gone on meanwhile, so the signal says which exchange it was.
    enum board_signal which;
    int pulse = report->pulse, peer = report->peer;
    if (halo_signal_find(halo, report->signal, &pulse, &f, &which))
        direction = which == BOARD_X_IN || which == BOARD_X_FREE ? LEAT_FORWARD : LEAT_REVERSE;
    else
        halo_packet_find(halo, report->signal, &pulse, &f, &direction);
    if (pulse >= 0 && peer < 0)
        peer = direction == LEAT_FORWARD ? halo->plan->pulse[pulse].recv_rank
                                         : halo->plan->pulse[pulse].send_rank;
    char what[96] = "";
    if (pulse >= 0)
        describe(halo, f, direction, pulse, what, sizeof what);
    const int carried = halo_proxy_error(halo, what);
    if (carried)
        return carried;
    if (pulse < 0)
        return leat_fail(report->code, "a kernel's blocks did not meet within %.3g s",
                         (double)halo->job->timeout_ns * 1e-9);
    return halo_wait_failed(halo, f, direction, pulse, peer, report->code, report->wanted,
                            report->seen);
}

int halo_check_report(struct leat_halo *halo)
{
    if (!halo->report || (!__atomic_load_n(&halo->report->ready, __ATOMIC_ACQUIRE) &&
                          leat_lookout_lost(&halo->lookout) < 0))
        return 0;
    return halo->failed ? halo_check_usable(halo)
                        : halo_give_up(halo, halo_kernel_error(halo, 0, LEAT_FORWARD));
}

static void count_pulse(struct leat_halo *halo, int f, int rank, uint32_t count, uint64_t times)
{
    const struct halo_peer *peer = halo_peer_of(halo, rank);
    if (peer) // the board lies with the host, the returned values with the fields
        leat_count_path(halo->job, rank, peer->returned->row,
                        times * count * halo->field[f].element_bytes, times);
}

void halo_count_bytes(struct leat_halo *halo, int f, enum leat_direction direction, uint64_t times)
{
    for (int p = 0; times && p < halo->plan->pulse_count; p++) {
        const leat_pulse *pulse = &halo->plan->pulse[p];
        if (direction == LEAT_FORWARD)
            count_pulse(halo, f, pulse->send_rank, pulse->send_count, times);
        else
            count_pulse(halo, f, pulse->recv_rank, pulse->recv_count, times);
    }
}

static int check_regions(struct leat_halo *halo, int f, enum leat_direction direction)
{
    const struct region_key *own = &halo->field[f].key;
    const struct region_slot *slot = &halo->job->arena.head->slot[own->slot];
    if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) != own->generation)
        return leat_fail(-ESTALE, "field %d: its region has been freed; free the halo first", f);
    // Packets do not land in regions of the caller's.
    if (halo_packets_of(halo, f))
        return 0;
    // On the way back data land in the peers' boards. Forward a peer cannot be through with this
    // exchange before it has our data, so its region lives, unless the peer itself has ended, of
    // which the wait has more to say.
    for (int p = 0; direction == LEAT_FORWARD && p < halo->plan->pulse_count; p++) {
        const struct halo_peer *to = halo_peer_of(halo, halo->plan->pulse[p].send_rank);
        int error = to ? leat_region_check(to->base[f], 0, 0, "its region") : 0;
        if (error && !leat_rank_lost(halo->job, to->rank))
            return leat_fail_in(error, "field %d", f);
    }
    return 0;
}

int halo_check_usable(const struct leat_halo *halo)
{
    return halo->failed
               ? leat_fail(halo->failed, "this halo failed earlier and can only be freed: %s",
                           halo->detail)
               : 0;
}

int halo_check_call(struct leat_halo *halo, int field, enum leat_direction direction)
{
    int error = halo_check_usable(halo);
    if (!error)
        error = halo_check_report(halo);
    if (error)
        return error;
    if (field < 0 || field >= halo->field_count)
        return leat_fail(-EINVAL, "field %d of a halo with %d fields", field, halo->field_count);
    if (direction == LEAT_REVERSE && halo->field[field].given.element == LEAT_WORDS)
        return leat_fail(-EINVAL, "field %d is of words: they cannot be added on the way back",
                         field);
    if (direction == LEAT_REVERSE && halo->field[field].given.zones == 2)
        return leat_fail(-EINVAL, "field %d has two landing zones and so only goes forward", field);
    return check_regions(halo, field, direction);
}

int leat_halo_info_get(const leat_halo *halo, leat_halo_info *info)
{
    int error = leat_need(halo, "leat_halo_info_get", "halo");
    if (!error)
        error = leat_need(info, "leat_halo_info_get", "info");
    if (!error && !halo->job)
        error = leat_fail(halo->failed, "leat_halo_info_get: %s", halo->detail);
    if (error)
        return error;
    if (!info->size)
        return leat_fail(-EINVAL, "leat_halo_info.size is 0; set it to sizeof(leat_halo_info)");
    leat_halo_info full = {
        .size = info->size, .mode = halo->mode->name, .exchanges = halo->sequence};
    for (int f = 0; f < halo->field_count; f++) {
        const struct halo_field *field = &halo->field[f];
        if (field->given.zones == 2 && field->forward_epoch & 1)
            full.ghost_shift[f] = halo_ghost_count(halo);
    }
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}

int leat_halo_exchange(leat_halo *halo, int field, enum leat_direction direction)
{
    int error = leat_need(halo, "leat_halo_exchange", "halo");
    if (!error && direction != LEAT_FORWARD && direction != LEAT_REVERSE)
        error = leat_fail(-EINVAL, "leat_halo_exchange: no direction has the number %d",
                          (int)direction);
    if (!error)
        error = halo_check_call(halo, field, direction);
    if (error)
        return error;
    struct halo_field *state = &halo->field[field];
    bool explicit_free = halo_needs_explicit_free(halo, field, direction);
    halo->sequence++;
    ++*(direction == LEAT_FORWARD ? &state->forward_epoch : &state->reverse_epoch);
    uint64_t begin = leat_trace_begin(halo->job), cpu = begin ? leat_trace_cpu_ns() : 0;
    if (halo->plan->pulse_count)
        error = direction == LEAT_FORWARD ? halo->mode->forward(halo, field, explicit_free)
                                          : halo->mode->reverse(halo, field, explicit_free);
    if (begin)
        leat_trace_cpu(halo->job, cpu);
    leat_trace_end(halo->job, TRACE_EXCHANGE, 0, begin, 2 * field + (direction == LEAT_REVERSE),
                   (int64_t)halo->sequence);
    if (error)
        return halo_give_up(halo, error);
    if (direction == LEAT_FORWARD)
        state->forward_sequence = halo->sequence;
    else
        state->reverse_sequence = halo->sequence;
    halo_count_bytes(halo, field, direction, 1);
    return 0;
}
