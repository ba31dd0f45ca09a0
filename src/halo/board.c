// SPDX-License-Identifier: Apache-2.0
// The board: what a rank will send and expects to receive, for its peers to read.
//
// Algorithm: every rank writes its pulses and where its fields and signals lie into a region that
// peers find by the halo's number, and then reads the boards of those it deals with. Each compares
// what it is about to do with what the other expects. Advantage: nobody waits for a letter that the
// other side does not know it should send, so a disagreement on a peer or a count is found by both,
// at once, before anything moves. Disadvantage: one small region a halo and rank.

#include "halo/proxy.h"

#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void board_name(uint64_t sequence, char name[LEAT_REGION_NAME])
{
    snprintf(name, LEAT_REGION_NAME, "leat.halo.%llu", (unsigned long long)sequence);
}

static size_t signal_bytes(const struct leat_halo *halo)
{
    return (size_t)halo->plan->pulse_count * (size_t)halo->field_count * BOARD_SIGNALS *
           LEAT_SIGNAL_BYTES;
}

static uint64_t lay_out(const struct leat_halo *halo, uint64_t returned[LEAT_FIELDS_MAX])
{
    uint64_t at = 0;
    for (int f = 0; f < halo->field_count; f++) {
        bool comes_back = halo->field[f].given.element != LEAT_WORDS;
        returned[f] = at;
        if (comes_back)
            at += halo_whole_lines((uint64_t)halo->send_total * halo->field[f].element_bytes);
    }
    return at;
}

static void write_pulses(const struct leat_plan *plan, struct board *board)
{
    uint32_t send_offset = 0;
    for (int p = 0; p < plan->pulse_count; p++) {
        const leat_pulse *pulse = &plan->pulse[p];
        board->pulse[p] = (struct board_pulse){.dimension = pulse->dimension,
                                               .direction = pulse->direction,
                                               .send_rank = pulse->send_rank,
                                               .recv_rank = pulse->recv_rank,
                                               .send_count = pulse->send_count,
                                               .recv_count = pulse->recv_count,
                                               .send_offset = send_offset,
                                               .recv_offset = pulse->recv_offset};
        send_offset += pulse->send_count;
    }
}

int halo_board_post(struct leat_halo *halo)
{
    uint64_t returned[LEAT_FIELDS_MAX];
    char name[LEAT_REGION_NAME];
    board_name(halo->job->halo_sequence, name);
    leat_region_options head = {.size = sizeof head, .bytes = sizeof(struct board), .name = name};
    leat_region_options signals = {.size = sizeof signals,
                                   .bytes = signal_bytes(halo),
                                   .memory = halo->mode->host_signals ? LEAT_MEMORY_HOST
                                                                      : LEAT_MEMORY_DEVICE};
    leat_region_options back = {
        .size = sizeof back, .bytes = lay_out(halo, returned), .memory = LEAT_MEMORY_DEVICE};
    int error = leat_region_alloc(halo->job, &head, &halo->board);
    if (!error)
        error = leat_region_alloc(halo->job, &signals, &halo->signals);
    if (!error)
        error = leat_region_alloc(halo->job, &back, &halo->returned);
    if (error)
        return error;
    struct board *board = halo_board(halo->board);
    board->signals = leat_region_key(halo->signals);
    board->returned = leat_region_key(halo->returned);
    board->pulse_count = halo->plan->pulse_count;
    board->field_count = halo->field_count;
    board->home_count = halo->plan->home_count;
    board->send_total = halo->send_total;
    board->ghost_count = halo_ghost_count(halo);
    for (int f = 0; f < halo->field_count; f++) {
        const leat_field *given = &halo->field[f].given;
        board->field[f] = (struct board_field){.element = given->element,
                                               .components = (uint32_t)given->components,
                                               .shifted = given->shifted != 0,
                                               .zones = (uint32_t)given->zones,
                                               .acknowledged_by = given->acknowledged_by,
                                               .key = leat_region_key(given->place.region),
                                               .base_offset = given->place.offset,
                                               .returned_offset = returned[f]};
    }
    write_pulses(halo->plan, board);
    return 0;
}

struct leat_signal *halo_signal(const leat_region *signals, int field_count, int pulse, int field,
                                enum board_signal which)
{
    struct leat_signal *first = (struct leat_signal *)signals->address;
    return !first ? NULL
                  : first + ((size_t)pulse * (size_t)field_count + (size_t)field) * BOARD_SIGNALS +
                        which;
}

bool halo_signal_find(const struct leat_halo *halo, const void *signal, int *pulse, int *field,
                      enum board_signal *which)
{
    uint64_t offset = (uint64_t)((uintptr_t)signal - (uintptr_t)halo->signals->address);
    uint64_t number = offset / LEAT_SIGNAL_BYTES, fields = (uint64_t)halo->field_count;
    if (!signal || number >= (uint64_t)halo->plan->pulse_count * fields * BOARD_SIGNALS)
        return false;
    *which = (enum board_signal)(number % BOARD_SIGNALS);
    *field = (int)(number / BOARD_SIGNALS % fields);
    *pulse = (int)(number / BOARD_SIGNALS / fields);
    return true;
}

struct halo_peer *halo_peer_of(struct leat_halo *halo, int rank)
{
    for (int i = 0; i < halo->peer_count; i++)
        if (halo->peer[i].rank == rank)
            return &halo->peer[i];
    return NULL;
}

static int attach_fields(struct leat_halo *halo, struct halo_peer *peer)
{
    const struct board *board = halo_board_of(peer);
    for (int f = 0; f < halo->field_count && f < board->field_count; f++) {
        char what[32];
        snprintf(what, sizeof what, "field %d", f);
        int error = leat_region_attach(halo->job, &board->field[f].key, &peer->base[f]);
        if (!error)
            error = halo_can_carry(peer->base[f], what);
        if (error)
            return error;
    }
    return 0;
}

// The board of a rank that is reached by the network. All ranks have agreed since they wrote
// theirs, so what begins it, the signal that others wait for, is not looked at: it may be raised
// now.
static int copy_board(struct halo_peer *peer)
{
    const uint64_t begin = sizeof(struct leat_signal);
    struct board *copy = calloc(1, sizeof *copy);
    if (!copy)
        return leat_fail(-ENOMEM, "no memory for a halo's board");
    peer->copy = copy;
    int error =
        peer->board->transport->get((char *)copy + begin, peer->board, begin, sizeof *copy - begin);
    if (error)
        return leat_fail_in(error, "the halo's board");
    if (copy->pulse_count < 0 || copy->pulse_count > HALO_PULSES_MAX || copy->field_count < 1 ||
        copy->field_count > LEAT_FIELDS_MAX)
        return leat_fail(-EPROTO, "the halo's board of rank %d says %d pulses and %d fields",
                         peer->rank, copy->pulse_count, copy->field_count);
    return 0;
}

static int await_board(struct leat_halo *halo, const struct halo_peer *peer)
{
    uint64_t seen, deadline_ns = leat_now_ns() + halo->job->timeout_ns;
    int error = leat_signal_wait(halo->job, &halo_board(peer->board)->ready, 1, peer->rank,
                                 deadline_ns, &seen);
    return error ? leat_wait_fail(halo->job, error, "the halo's board", peer->rank, 1, seen) : 0;
}

static int meet(struct leat_halo *halo, int rank)
{
    if (rank == LEAT_NOBODY || halo_peer_of(halo, rank))
        return 0;
    char name[LEAT_REGION_NAME];
    board_name(halo->job->halo_sequence, name);
    struct halo_peer *peer = &halo->peer[halo->peer_count++];
    peer->rank = rank;
    leat_region_options options = {.size = sizeof options, .name = name, .owner = rank};
    int error = leat_region_register(halo->job, &options, &peer->board);
    if (!error)
        error = peer->board->address ? await_board(halo, peer) : copy_board(peer);
    if (error)
        return error;
    const struct board *board = halo_board_of(peer);
    error = leat_region_attach(halo->job, &board->signals, &peer->signals);
    if (!error)
        error = halo_can_carry(peer->signals, "the halo's signals");
    if (!error)
        error = leat_region_attach(halo->job, &board->returned, &peer->returned);
    if (!error)
        error = halo_can_carry(peer->returned, "the halo's buffer for what comes back");
    if (!error && halo->packets) {
        error = leat_region_attach(halo->job, &board->packets, &peer->packets);
        if (!error)
            error = halo_can_carry(peer->packets, "where the halo's packets land");
    }
    return error ? error : attach_fields(halo, peer);
}

static int compare_fields(const struct leat_halo *halo, const struct halo_peer *peer)
{
    const struct board *theirs = halo_board_of(peer);
    const struct board *ours = halo_board(halo->board);
    if (theirs->field_count != ours->field_count)
        return leat_fail(-EPROTO, "rank %d exchanges %d fields, rank %d %d", peer->rank,
                         theirs->field_count, halo->job->rank, ours->field_count);
    if (theirs->first_epoch != ours->first_epoch)
        return leat_fail(-EPROTO, "rank %d counts from first_epoch %llu, rank %d from %llu",
                         halo->job->rank, (unsigned long long)ours->first_epoch, peer->rank,
                         (unsigned long long)theirs->first_epoch);
    for (int f = 0; f < ours->field_count; f++) {
        const struct board_field *a = &ours->field[f], *b = &theirs->field[f];
        if (a->acknowledged_by != b->acknowledged_by)
            return leat_fail(-EPROTO,
                             "field %d: rank %d says acknowledged_by %d, rank %d %d; they have to "
                             "agree on what acknowledges what",
                             f, halo->job->rank, a->acknowledged_by, peer->rank,
                             b->acknowledged_by);
        if (a->element != b->element || a->components != b->components ||
            a->shifted != b->shifted || a->zones != b->zones)
            return leat_fail(
                -EPROTO,
                "field %d: rank %d has %u components of type %u (shifted %u, zones %u), "
                "rank %d %u of type %u (shifted %u, zones %u)",
                f, halo->job->rank, a->components, a->element, a->shifted, a->zones, peer->rank,
                b->components, b->element, b->shifted, b->zones);
    }
    return 0;
}

// The other side's pulse that goes with ours: of those between us two, as many come before it there
// as here. -1 when the other side has fewer.
static int matching(const struct leat_halo *halo, const struct board *theirs, int p, bool sends)
{
    int me = halo->job->rank, before = 0;
    const leat_pulse *ours = halo->plan->pulse;
    int peer = sends ? ours[p].send_rank : ours[p].recv_rank;
    for (int q = 0; q < p; q++)
        before += (sends ? ours[q].send_rank : ours[q].recv_rank) == peer;
    for (int q = 0; q < theirs->pulse_count; q++)
        if ((sends ? theirs->pulse[q].recv_rank : theirs->pulse[q].send_rank) == me && !before--)
            return q;
    return -1;
}

static int fail_unmatched(const struct leat_halo *halo, int p, const struct board *theirs,
                          bool sends)
{
    const leat_pulse *ours = &halo->plan->pulse[p];
    int peer = sends ? ours->send_rank : ours->recv_rank;
    uint32_t count = sends ? ours->send_count : ours->recv_count;
    // What the peer does in the pulse of the same number says most about where the two part.
    int instead = LEAT_NOBODY;
    if (p < theirs->pulse_count)
        instead = sends ? theirs->pulse[p].recv_rank : theirs->pulse[p].send_rank;
    return leat_fail(-EPROTO,
                     "pulse %d (dimension %c, %+d): rank %d %s %u elements %s rank %d, which %s "
                     "nothing more %s it, but %s rank %d in its pulse %d",
                     p, 'x' + ours->dimension, ours->direction, halo->job->rank,
                     sends ? "sends" : "expects", count, sends ? "to" : "from", peer,
                     sends ? "expects" : "sends", sends ? "from" : "to",
                     sends ? "receives from" : "sends to", instead, p);
}

static int compare_pulse(struct leat_halo *halo, int p, bool sends)
{
    const leat_pulse *ours = &halo->plan->pulse[p];
    int peer = sends ? ours->send_rank : ours->recv_rank;
    if (peer == LEAT_NOBODY)
        return 0;
    const struct halo_peer *met = halo_peer_of(halo, peer);
    const struct board *board = halo_board_of(met);
    int error = compare_fields(halo, met);
    if (error)
        return error;
    int q = matching(halo, board, p, sends);
    if (q < 0)
        return fail_unmatched(halo, p, board, sends);
    (sends ? halo->to_pulse : halo->from_pulse)[p] = q;
    const struct board_pulse *theirs = &board->pulse[q];
    uint32_t count = sends ? ours->send_count : ours->recv_count;
    uint32_t their_count = sends ? theirs->recv_count : theirs->send_count;
    if (count == their_count && theirs->dimension == ours->dimension &&
        theirs->direction == ours->direction)
        return 0;
    return leat_fail(-EPROTO,
                     "pulse %d (dimension %c, %+d): rank %d %s %u elements %s rank %d, which %s %u "
                     "(its pulse %d, dimension %c, %+d)",
                     p, 'x' + ours->dimension, ours->direction, halo->job->rank,
                     sends ? "sends" : "expects", count, sends ? "to" : "from", peer,
                     sends ? "expects" : "sends", their_count, q, 'x' + theirs->dimension,
                     theirs->direction);
}

int halo_board_compare(struct leat_halo *halo)
{
    // All is written: from here on peers may read, also when they fail themselves.
    leat_signal_raise(&halo_board(halo->board)->ready, 1);
    for (int p = 0; p < halo->plan->pulse_count; p++) {
        const leat_pulse *pulse = &halo->plan->pulse[p];
        int error = meet(halo, pulse->send_rank);
        if (!error)
            error = meet(halo, pulse->recv_rank);
        if (!error)
            error = compare_pulse(halo, p, true);
        if (!error)
            error = compare_pulse(halo, p, false);
        if (error)
            return error;
    }
    return 0;
}
