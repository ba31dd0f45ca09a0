// SPDX-License-Identifier: Apache-2.0
// The message network between hosts, over libfabric.
//
// Algorithm: packets and puts are messages to the peer's one pool of buffers (fabric_slot.c), bulk
// copies are one-sided reads and writes of memory that its owner has registered under a random key.
// Memory from alloc lies in the rank's arena, as on one host, and a token is a rank and an offset.
// A close says good-bye to every peer that was spoken to and waits until that has arrived, so that
// nothing sent before is lost on the way. Advantage: state for peers in use only, and a budget that
// is one block. Disadvantage: a put costs its receiver a copy, and waits for its next progress.

#define _GNU_SOURCE
#include "transport/fabric_msg.h"

#ifndef LEAT_HAVE_FABRIC

#include "transport/fabric.h"

#include <errno.h>

int leat_fabric_msg_open(struct leat_job *job, uint64_t bytes, struct msg_net **net)
{
    (void)job, (void)bytes, (void)net;
    return leat_fail(-ENOTSUP, "%s; build leat with libfabric-dev", fabric_absent());
}

int leat_fabric_msg_watch(struct msg_net *net, int *fd)
{
    (void)net, (void)fd;
    return -ENOTSUP;
}

struct msg_token leat_fabric_msg_plain(const struct msg_token *token)
{
    return *token;
}

#else

#include "core/log.h"
#include "core/signal.h"
#include "transport/fabric_msg_internal.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { EXPOSURES_LEAST = 64, NAP_LEAST_NS = 20000, NAP_MOST_NS = 200000, LOOKS_NS = 100000000 };

// ---- Queue ----

static void net_progress(struct msg_net *net, uint64_t now_ns)
{
    fabric_of(net)->now_ns = now_ns;
    fabric_slots_progress(fabric_of(net));
}

static int net_queue_send(struct msg_net *net, int rank, const void *packet, uint32_t bytes)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    if (!bytes || bytes > MSG_PACKET_BYTES)
        return leat_fail(-EMSGSIZE, "a packet of %u bytes for rank %d: from 1 to %d", bytes, rank,
                         MSG_PACKET_BYTES);
    struct slot *slot;
    int error = fabric_take_slot(own, rank, &peer, &slot);
    if (error)
        return error;
    struct fabric_header header = {.kind = FABRIC_PACKET, .pieces = 1, .bytes = {(uint16_t)bytes}};
    memcpy(fabric_slot_head(own, peer, slot, &header), packet, bytes);
    slot->bytes += bytes;
    if (rank == net->rank) {
        fabric_slot_arrive(own, slot);
        return 0;
    }
    return fabric_slot_send(own, peer, slot, false);
}

static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    const struct slot *slot = fabric_of(net)->arrived.first;
    if (!slot)
        return NULL;
    *bytes = slot->bytes - (uint32_t)FABRIC_HEADER_BYTES(1);
    return slot->message + FABRIC_HEADER_BYTES(1);
}

static void net_queue_release(struct msg_net *net)
{
    struct fabric_net *own = fabric_of(net);
    struct slot *slot = own->arrived.first;
    own->arrived.first = slot->next;
    if (slot->own) {
        fabric_slot_give(own, slot);
        return;
    }
    slot->next = own->idle_slots;
    own->idle_slots = slot;
}

// ---- Memory ----

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    struct fabric_net *own = fabric_of(net);
    uint64_t offset;
    int error = leat_arena_alloc(own->job, bytes, &offset);
    if (error)
        return error;
    *address = own->arena + offset;
    *token = fabric_make_token(TOKEN_ARENA, net->rank, offset,
                               bytes | (uint64_t)(fabric_slots_large(own) / FABRIC_LARGE_UNIT)
                                           << FABRIC_LARGE_SHIFT);
    return 0;
}

struct msg_token leat_fabric_msg_plain(const struct msg_token *token)
{
    struct msg_token plain = *token;
    if (token->word[0] >> 32 == TOKEN_ARENA)
        plain.word[2] = fabric_token_bytes(token);
    return plain;
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    struct fabric_net *own = fabric_of(net);
    if (address)
        leat_arena_free(own->job, (uint64_t)((char *)address - own->arena), bytes);
}

static struct exposure *exposure_place(const struct fabric_net *net, uint64_t key)
{
    uint32_t place = (uint32_t)(key >> 32 ^ key) & (net->exposure_places - 1);
    while (net->exposures[place].memory && net->exposures[place].key != key)
        place = (place + 1) & (net->exposure_places - 1);
    return &net->exposures[place];
}

static int make_exposure_places(struct fabric_net *net, uint32_t places)
{
    struct exposure *old = net->exposures;
    uint32_t old_places = net->exposure_places;
    struct exposure *made = calloc(places, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for %u pieces of memory shown to others", places);
    net->exposures = made;
    net->exposure_places = places;
    for (uint32_t i = 0; i < old_places; i++)
        if (old[i].memory)
            *exposure_place(net, old[i].key) = old[i];
    free(old);
    return 0;
}

// Those that come after it in its row move up, so that each is found without a mark for the gap.
static void drop_exposure(struct fabric_net *net, struct exposure *gone)
{
    uint32_t mask = net->exposure_places - 1, place = (uint32_t)(gone - net->exposures);
    gone->memory = NULL;
    for (uint32_t next = (place + 1) & mask; net->exposures[next].memory;
         next = (next + 1) & mask) {
        struct exposure moved = net->exposures[next];
        net->exposures[next].memory = NULL;
        *exposure_place(net, moved.key) = moved;
    }
    net->exposure_count--;
}

static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    struct fabric_net *own = fabric_of(net);
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return leat_fail(-EINVAL, "%llu bytes from address %p on pass the end of memory",
                         (unsigned long long)bytes, address);
    if (peer == net->rank) {
        *token = fabric_make_token(TOKEN_OWN, peer, (uint64_t)(uintptr_t)address, bytes);
        return 0;
    }
    struct fid_mr *memory;
    int error = 2 * (own->exposure_count + 1) > own->exposure_places
                    ? make_exposure_places(own, own->exposure_places ? 2 * own->exposure_places
                                                                     : EXPOSURES_LEAST)
                    : 0;
    if (!error)
        error = fabric_register(&own->fabric, address, bytes, true, &memory);
    if (error)
        return error;
    uint64_t key = fi_mr_key(memory);
    struct exposure *exposure = exposure_place(own, key);
    if (exposure->memory) {
        fi_close(&memory->fid);
        return leat_fail(-EIO, "libfabric has given one key to two pieces of memory");
    }
    *exposure = (struct exposure){key, memory};
    own->exposure_count++;
    bool virtual = fabric_addresses_virtual(&own->fabric);
    *token =
        fabric_make_token(TOKEN_KEY, net->rank, key, virtual ? (uint64_t)(uintptr_t)address : 0);
    return 0;
}

static void net_hide(struct msg_net *net, const struct msg_token *token)
{
    struct fabric_net *own = fabric_of(net);
    if (!fabric_is_token(token, TOKEN_KEY, net->rank) || !own->exposure_places)
        return;
    struct exposure *exposure = exposure_place(own, token->word[1]);
    if (!exposure->memory)
        return;
    fi_close(&exposure->memory->fid);
    drop_exposure(own, exposure);
}

// Nothing of other ranks is mapped, so nothing of alloc's is.
static void *net_map(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes)
{
    if (peer != net->rank || !fabric_is_token(token, TOKEN_OWN, peer) || bytes > token->word[2])
        return NULL;
    return (void *)(uintptr_t)token->word[1];
}

// ---- Copies ----

// The peer is there, and shows no such memory.
static bool is_refusal(int error)
{
    return error == FI_EACCES || error == FI_EPERM || error == FI_EINVAL ||
           error == FI_EKEYREJECTED || error == FI_ENOKEY;
}

void fabric_transfer_done(struct fabric_net *net, struct transfer *transfer, int error)
{
    if (transfer->local)
        fi_close(&transfer->local->fid);
    int peer = transfer->operation.peer;
    if (error && !is_refusal(error)) {
        char why[200];
        snprintf(why, sizeof why, "was lost: libfabric cannot copy from or to it: %s",
                 fabric_error(error));
        fabric_peer_lose(net, peer, why);
    }
    if (transfer->waiter)
        transfer->waiter->finished = !error                         ? 1
                                     : fabric_peer_alive(net, peer) ? -ECONNRESET
                                                                    : -EPROTO;
    *transfer = (struct transfer){.next = net->free_transfers};
    net->free_transfers = transfer;
}

static int copy_own(const struct msg_token *token, uint64_t offset, void *local, uint64_t bytes,
                    bool get)
{
    char *far = (char *)(uintptr_t)token->word[1] + offset;
    if (offset > token->word[2] || bytes > token->word[2] - offset)
        return leat_fail(-EPROTO, "a copy outside of memory that was shown");
    memmove(get ? local : far, get ? far : local, bytes);
    return 0;
}

static int begin_transfer(struct fabric_net *net, struct fabric_peer *peer,
                          const struct msg_token *token, uint64_t offset, void *local,
                          uint64_t bytes, struct transfer *transfer, bool get)
{
    void *desc = NULL;
    if (fabric_registers_local(&net->fabric)) {
        int error = fabric_register(&net->fabric, local, bytes, false, &transfer->local);
        if (error)
            return error;
        desc = fi_mr_desc(transfer->local);
    }
    uint64_t at = token->word[2] + offset, key = token->word[1];
    void *context = &transfer->operation.context;
    ssize_t error =
        get ? fi_read(net->fabric.endpoint, local, bytes, desc, peer->address, at, key, context)
            : fi_write(net->fabric.endpoint, local, bytes, desc, peer->address, at, key, context);
    if (error && transfer->local)
        fi_close(&transfer->local->fid);
    if (!error || error == -FI_EAGAIN)
        return error ? -EAGAIN : 0;
    return leat_fail(-ECONNRESET, "libfabric: copying %s rank %d: %s", get ? "from" : "to",
                     peer->rank, fabric_error((int)error));
}

static int bulk_copy(struct msg_net *net, int rank, const struct msg_token *token, uint64_t offset,
                     void *local, uint64_t bytes, struct msg_transfer *waiter, bool get)
{
    struct fabric_net *own = fabric_of(net);
    struct fabric_peer *peer;
    if (rank == net->rank && fabric_is_token(token, TOKEN_OWN, rank))
        return copy_own(token, offset, local, bytes, get);
    if (!fabric_is_token(token, TOKEN_KEY, rank))
        return leat_fail(-EPROTO, "a token of rank %d names no memory that it has shown", rank);
    int error = fabric_peer_meet(own, rank, &peer);
    if (error)
        return error;
    struct transfer *transfer = own->free_transfers;
    if (!transfer || (peer->sending && !peer->settled)) // the connection may be one that goes
        return -EAGAIN;
    own->free_transfers = transfer->next;
    *transfer = (struct transfer){.operation = {.kind = OPERATION_TRANSFER, .peer = rank},
                                  .waiter = waiter};
    waiter->finished = 0;
    error = begin_transfer(own, peer, token, offset, local, bytes, transfer, get);
    if (!error)
        return 1;
    *transfer = (struct transfer){.next = own->free_transfers};
    own->free_transfers = transfer;
    return error;
}

static int net_bulk_get(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, void *to, uint64_t bytes, struct msg_transfer *transfer)
{
    return bulk_copy(net, peer, token, offset, to, bytes, transfer, true);
}

static int net_bulk_put(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, const void *from, uint64_t bytes,
                        struct msg_transfer *transfer)
{
    return bulk_copy(net, peer, token, offset, (void *)(uintptr_t)from, bytes, transfer, false);
}

// ---- Sleep ----

static void net_sleep_prepare(struct msg_net *net)
{
    (void)net;
}

// Without a descriptor a look every so often has to do, and ever less often while nothing comes; at
// first the core is only lent, since what a peer reads from this rank moves in such looks.
static void nap(struct fabric_net *net, uint64_t ns)
{
    if (!net->nap_ns || net->nap_heard != net->heard) {
        net->nap_heard = net->heard;
        net->nap_ns = NAP_LEAST_NS;
        net->heard_ns = net->now_ns;
    }
    if (net->now_ns - net->heard_ns < LOOKS_NS) {
        sched_yield();
        return;
    }
    nanosleep(&(struct timespec){.tv_nsec = (long)(ns < net->nap_ns ? ns : net->nap_ns)}, NULL);
    net->nap_ns = 2 * net->nap_ns < NAP_MOST_NS ? 2 * net->nap_ns : NAP_MOST_NS;
}

static void net_sleep(struct msg_net *net, uint64_t ns)
{
    struct fabric_net *own = fabric_of(net);
    struct fid *fid = &own->fabric.completions->fid;
    struct pollfd poller = {.fd = own->fabric.wait_fd, .events = POLLIN};
    const struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000ULL),
                                   .tv_nsec = (long)(ns % 1000000000ULL)};
    if (own->fabric.wait_fd < 0)
        nap(own, ns);
    else if (fi_trywait(own->fabric.fabric, &fid, 1) == 0)
        ppoll(&poller, 1, &limit, NULL);
}

int leat_fabric_msg_watch(struct msg_net *net, int *fd)
{
    struct fabric_net *own = fabric_of(net);
    struct fid *fid = &own->fabric.completions->fid;
    if (own->fabric.wait_fd < 0)
        return -ENOTSUP;
    *fd = own->fabric.wait_fd;
    return fi_trywait(own->fabric.fabric, &fid, 1) ? -EAGAIN : 0;
}

// ---- Opening and closing ----

static void net_watch(struct msg_net *net, int peer)
{
    fabric_line_watch(fabric_of(net), peer);
}

static int net_alive(struct msg_net *net, int peer)
{
    return peer == net->rank ? 0 : fabric_peer_alive(fabric_of(net), peer);
}

static bool say_bye(struct fabric_net *net, struct fabric_peer *peer)
{
    struct slot *slot = fabric_slot_take(net, peer);
    if (!slot)
        return false;
    struct fabric_header header = {.kind = FABRIC_BYE, .pieces = 1};
    fabric_slot_head(net, peer, slot, &header);
    if (fabric_slot_send(net, peer, slot, true) == -EAGAIN)
        return false;
    peer->said_bye = true;
    return true;
}

// Whether the peer still listens: neither has it said good-bye itself, nor has it died.
static bool listens(const struct fabric_net *net, const struct fabric_peer *peer)
{
    return peer->rank >= 0 && peer->state == FABRIC_PEER_MET && !peer->bye &&
           !leat_rank_died(net->job, peer->rank);
}

// Somebody who is still there: -1 nobody, or the rank that has something to hear; `data`: more than
// a good-bye, which would be lost.
static int still_talking(const struct fabric_net *net, bool data)
{
    for (uint32_t i = 0; i < net->peer_places; i++) {
        const struct fabric_peer *peer = &net->peers[i];
        if (peer->sending > (data && peer->said_bye) && listens(net, peer))
            return peer->rank;
    }
    return -1;
}

// A peer that is busy elsewhere may not have let this rank connect yet: what was sent to it waits
// as long as anything of the job does, good-byes alone wait less.
static void farewell(struct fabric_net *net)
{
    const uint64_t begin_ns = leat_now_ns(), timeout_ns = net->job->timeout_ns;
    const uint64_t end_ns = begin_ns + FABRIC_FAREWELL_NS;
    const uint64_t last_ns = timeout_ns < FABRIC_FAREWELL_NS ? end_ns : begin_ns + timeout_ns;
    // A message that arrives meanwhile may make the table grow, so nobody is held on to.
    for (uint32_t i = 0; i < net->peer_places; i++)
        while (listens(net, &net->peers[i]) && !say_bye(net, &net->peers[i]) &&
               leat_now_ns() < last_ns) {
            fabric_slots_progress(net);
            net_sleep(&net->net, 1000000);
        }
    for (;;) {
        const uint64_t now_ns = leat_now_ns();
        const int rank = still_talking(net, now_ns >= end_ns);
        if (rank >= 0 && now_ns >= last_ns)
            leat_log(net->job->config.log_level, LOG_WARN, net->net.rank,
                     "closing: rank %d has not taken what was sent to it for %.1f s "
                     "(LEAT_TIMEOUT), which is lost",
                     rank, (double)(now_ns - begin_ns) * 1e-9);
        if (rank < 0 || now_ns >= last_ns)
            return;
        fabric_slots_progress(net);
        net_sleep(&net->net, 1000000);
    }
}

static void let_go(struct fabric_net *net)
{
    for (uint32_t i = 0; i < net->exposure_places; i++)
        if (net->exposures[i].memory)
            fi_close(&net->exposures[i].memory->fid);
    // The endpoint before the buffers that it may write to.
    if (net->fabric.endpoint) {
        fi_close(&net->fabric.endpoint->fid);
        net->fabric.endpoint = NULL;
    }
    fabric_slots_close(net);
    fabric_close(&net->fabric);
    fabric_lines_close(net);
    fabric_peers_close(net);
    free(net->exposures);
    free(net);
}

static void net_close(struct msg_net *net)
{
    // What was not waited for may not be there any more.
    fabric_slots_forget(fabric_of(net));
    for (int i = 0; i < FABRIC_TRANSFERS; i++)
        fabric_of(net)->transfers[i].waiter = NULL;
    farewell(fabric_of(net));
    let_go(fabric_of(net));
}

static const struct msg_net_ops fabric_ops = {.name = "fabric",
                                              .progress = net_progress,
                                              .queue_send = net_queue_send,
                                              .queue_peek = net_queue_peek,
                                              .queue_release = net_queue_release,
                                              .alloc = net_alloc,
                                              .free = net_free,
                                              .expose = net_expose,
                                              .hide = net_hide,
                                              .map = net_map,
                                              .put = fabric_put,
                                              .put_large = fabric_put_large,
                                              .large_most = fabric_large_most,
                                              .large_find = fabric_large_find,
                                              .large_take = fabric_large_take,
                                              .bulk_get = net_bulk_get,
                                              .bulk_put = net_bulk_put,
                                              .sleep_prepare = net_sleep_prepare,
                                              .sleep = net_sleep,
                                              .sleep_cancel = net_sleep_prepare,
                                              .watch = net_watch,
                                              .alive = net_alive,
                                              .close = net_close};

static int open_parts(struct fabric_net *net, uint64_t bytes)
{
    char card[LEAT_CARD_BYTES], address[64];
    leat_card_address(net->job, address);
    // On one host nobody else need be able to come.
    if (net->job->first_away < 0)
        memcpy(address, "127.0.0.1", sizeof "127.0.0.1");
    uint64_t operations = bytes / FABRIC_MESSAGE_BYTES + FABRIC_TRANSFERS;
    int error = fabric_open(net->job->config.fabric, *address ? address : NULL, operations,
                            FABRIC_POLLED, &net->fabric);
    if (!error)
        error = fabric_peers_open(net);
    if (!error)
        error = fabric_slots_open(net, bytes);
    if (!error)
        error = fabric_card(&net->fabric, card, sizeof card);
    return error ? error : leat_card_publish(net->job, CARD_MESSAGES, card);
}

int leat_fabric_msg_open(struct leat_job *job, uint64_t bytes, struct msg_net **net)
{
    const struct segment_head *head = job->segment->head;
    struct fabric_net *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for the message layer of rank %d", job->rank);
    made->net =
        (struct msg_net){.ops = &fabric_ops, .rank = job->rank, .rank_count = job->rank_count};
    made->job = job;
    made->arena = (char *)job->arena.head;
    made->arena_bytes = head->arena_bytes;
    made->arena_first = sizeof(struct arena_head);
    for (int i = 0; i < FABRIC_TRANSFERS; i++) {
        made->transfers[i].next = made->free_transfers;
        made->free_transfers = &made->transfers[i];
    }
    int error = open_parts(made, bytes);
    if (error) {
        let_go(made);
        return error;
    }
    *net = &made->net;
    return 0;
}

#endif
