// SPDX-License-Identifier: Apache-2.0
// The message network of one host, over the job's segment.
//
// Algorithm. Queue: cells in the receiver's arena, claimed and filled by senders (shm_queue.h);
// they find it in the head of that arena, so nobody has to be asked. Memory from alloc is arena
// memory, a token is a rank and an offset, and mapping one is an addition after a check of its
// bounds, since tokens come from others. Exposed memory is the same where it lies in an arena, an
// address where ranks are threads, and otherwise an address for cross-memory attach. Advantage:
// state is one structure a rank, nothing per peer. Disadvantage: bulk copies take this rank's time.
//
// Sleeping. A rank that will sleep sets `asleep`, makes the kernel put a memory barrier into every
// running thread of the job's processes (membarrier), looks once more for arrivals, and sleeps on
// the word as a futex. A sender stores and then looks at `asleep`, without a fence. No wake-up is
// lost: the barrier lands somewhere in the sender's instructions. If it lands after the store, the
// sleeper's last look, which is later, sees what was stored. If it lands before the store, it lands
// before the look at `asleep` too, which was set before the barrier, so the sender sees that and
// wakes: it exchanges the word for 0, and the kernel refuses to put anybody to sleep on a word that
// is not 1. A thread that does not run passes barriers of the scheduler instead. Advantage: a
// message to a rank that is awake costs one load of a shared line. Disadvantage: going to sleep
// interrupts the other cores.
//
// Where the kernel has no such barrier, senders exchange `asleep` each time, and the sleeper sets
// and clears it by exchanges: of two exchanges of one word one comes first, and the other one sees
// it and what its thread had stored before. A sender that cannot register does so at every peer; a
// sleeper that cannot says so in its endpoint before it can be found. A sender that is killed
// between exchange and wake leaves the sleeper asleep until its time limit.
// test/proof/test_msg_sleep.c tries all that.
//
// The kernel's barrier passes over processors that it does not know to run a registered process,
// and one that idled in the process's memory while that registered is not known (seen as one
// wake-up in some hundred thousand lost on busy machines). So a sleep begins with a nap, after
// which the sleeper, still announced, looks again: what was stored before the announcement is
// visible long since.

#define _GNU_SOURCE
#include "transport/shm_msg.h"

#include "transport/attach.h"
#include "transport/shm_queue.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS   UINT64_C(100000)  // far longer than a store takes to be seen
#define STUCK_NS UINT64_C(1000000) // a claimed cell at the head is looked into after that long

_Static_assert(SHM_QUEUE_PACKET == MSG_PACKET_BYTES, "a cell holds a packet");

struct shm_net {
    struct msg_net net; // first
    struct leat_job *job;
    struct endpoint *own;
    struct shm_queue queue; // own
    uint64_t head;          // of the own queue
    uint64_t stuck_head, stuck_ns;
    char *arenas;
    uint64_t arena_bytes, arena_first; // the first byte of an arena that can be handed out
    bool always_wake;                  // this process takes no part in barriers
    bool napped;                       // announced since before the last look
    int attached; // peer whose process was last seen to be the right one, or -1
};

static struct shm_net *shm(struct msg_net *net)
{
    return (struct shm_net *)(void *)net;
}

static char *arena_of(const struct shm_net *net, int rank)
{
    return net->arenas + (uint64_t)rank * net->arena_bytes;
}

static struct endpoint *endpoint_of(const struct shm_net *net, int rank)
{
    return &((struct arena_head *)(void *)arena_of(net, rank))->endpoint;
}

// ---- Sleep ----

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static void wake_endpoint(const struct shm_net *net, struct endpoint *endpoint)
{
    // The compiler, too, has to keep the store before the look.
    __asm__ volatile("" ::: "memory");
    bool exchange = net->always_wake || __atomic_load_n(&endpoint->always_wake, __ATOMIC_RELAXED);
    if (!exchange && !__atomic_load_n(&endpoint->asleep, __ATOMIC_RELAXED))
        return;
    if (__atomic_exchange_n(&endpoint->asleep, 0, __ATOMIC_ACQ_REL))
        syscall(SYS_futex, &endpoint->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void net_wake(struct msg_net *net, int peer)
{
    wake_endpoint(shm(net), endpoint_of(shm(net), peer));
}

static void net_sleep_cancel(struct msg_net *net)
{
    shm(net)->napped = false;
    // A store would hide from the next exchange what was exchanged before it.
    __atomic_exchange_n(&shm(net)->own->asleep, 0, __ATOMIC_ACQ_REL);
}

static void net_sleep_prepare(struct msg_net *net)
{
    struct endpoint *own = shm(net)->own;
    if (shm(net)->napped && __atomic_load_n(&own->asleep, __ATOMIC_RELAXED))
        return;
    shm(net)->napped = false;
    __atomic_exchange_n(&own->asleep, 1, __ATOMIC_ACQ_REL);
    // A filter that was installed since may refuse it: then the coming sleep ends at once.
    if (!own->always_wake && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
        net_sleep_cancel(net);
}

static void net_sleep(struct msg_net *net, uint64_t ns)
{
    struct endpoint *own = shm(net)->own;
    const bool naps = !own->always_wake && !shm(net)->napped && ns > NAP_NS;
    if (naps)
        ns = NAP_NS;
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000ULL),
                             .tv_nsec = (long)(ns % 1000000000ULL)};
    long woken = syscall(SYS_futex, &own->asleep, FUTEX_WAIT, 1, &limit, NULL, 0);
    if (naps && woken && errno == ETIMEDOUT)
        shm(net)->napped = true;
    else
        net_sleep_cancel(net);
}

static const uint32_t *net_asleep(struct msg_net *net, int peer)
{
    struct endpoint *endpoint = endpoint_of(shm(net), peer);
    // There a look is not enough.
    if (shm(net)->always_wake || __atomic_load_n(&endpoint->always_wake, __ATOMIC_RELAXED))
        return NULL;
    return &endpoint->asleep;
}

// ---- Queue ----

static int net_alive(struct msg_net *net, int peer)
{
    const struct leat_job *job = shm(net)->job;
    int error = leat_rank_lost(job, peer);
    if (!error)
        return 0;
    char fate[520];
    leat_rank_fate(job, peer, fate, sizeof fate);
    return leat_fail(error, "%s", fate);
}

static int closed(int peer)
{
    return leat_fail(-ECONNRESET, "rank %d has closed its message layer", peer);
}

// The queue is full or not there yet: never, if its rank has ended. Cheaper than net_alive, which
// asks the kernel; whoever waits calls that.
static int not_now(struct msg_net *net, int peer)
{
    uint32_t state =
        __atomic_load_n(&leat_rank_record(shm(net)->job, peer)->state, __ATOMIC_RELAXED);
    return state == RANK_CLOSED || state == RANK_DEAD ? net_alive(net, peer) : -EAGAIN;
}

static struct shm_queue queue_of(const struct shm_net *net, int rank)
{
    struct endpoint *endpoint = endpoint_of(net, rank);
    return (struct shm_queue){
        .cells = (struct shm_cell *)(void *)(arena_of(net, rank) + endpoint->queue_offset),
        .tail = &endpoint->queue_tail,
        .count_bits = (uint32_t)__builtin_ctz(endpoint->cell_count)};
}

static int net_queue_send(struct msg_net *net, int peer, const void *packet, uint32_t bytes)
{
    struct endpoint *endpoint = endpoint_of(shm(net), peer);
    if (bytes > MSG_PACKET_BYTES)
        return leat_fail(-EMSGSIZE, "a packet of %u bytes for rank %d: at most %d", bytes, peer,
                         MSG_PACKET_BYTES);
    uint32_t state = __atomic_load_n(&endpoint->state, __ATOMIC_ACQUIRE);
    if (state == ENDPOINT_NONE)
        return not_now(net, peer);
    if (state == ENDPOINT_CLOSED)
        return closed(peer);
    struct shm_queue queue = queue_of(shm(net), peer);
    uint64_t ticket;
    struct shm_cell *cell = shm_queue_claim(&queue, (uint32_t)net->rank, &ticket);
    if (!cell)
        return not_now(net, peer);
    memcpy(cell->packet, packet, bytes);
    cell->bytes = bytes;
    shm_queue_publish(&queue, cell, ticket);
    wake_endpoint(shm(net), endpoint);
    return 0;
}

static const void *net_queue_peek(struct msg_net *net, uint32_t *bytes)
{
    const struct shm_cell *cell = shm_queue_look(&shm(net)->queue, shm(net)->head);
    if (!cell)
        return NULL;
    *bytes = cell->bytes < MSG_PACKET_BYTES ? cell->bytes : MSG_PACKET_BYTES;
    return cell->packet;
}

static void net_queue_release(struct msg_net *net)
{
    shm_queue_pass(&shm(net)->queue, shm(net)->head);
    shm(net)->head++;
}

// A sender that was killed between claim and publication would hold up all others for ever.
static void net_progress(struct msg_net *net, uint64_t now_ns)
{
    struct shm_net *own = shm(net);
    int claimer = shm_queue_claimer(&own->queue, own->head);
    if (claimer < 0)
        return;
    if (own->stuck_head != own->head || !own->stuck_ns) {
        own->stuck_head = own->head;
        own->stuck_ns = now_ns;
    } else if (now_ns - own->stuck_ns >= STUCK_NS) {
        own->stuck_ns = now_ns;
        // Who has ended may have published before it did.
        if ((claimer >= net->rank_count || leat_rank_lost(own->job, claimer)) &&
            shm_queue_claimer(&own->queue, own->head) == claimer)
            net_queue_release(net);
    }
}

// ---- Memory ----

enum token_kind {
    TOKEN_NONE,
    TOKEN_ARENA,  // offset in a rank's arena
    TOKEN_DIRECT, // address in this process
    TOKEN_ATTACH  // address in the exposer's process
};

static struct msg_token make_token(enum token_kind kind, int rank, uint64_t at, uint64_t bytes)
{
    return (struct msg_token){{(uint64_t)kind << 32 | (uint32_t)rank, at, bytes}};
}

static enum token_kind kind_of(const struct msg_token *token)
{
    uint64_t kind = token->word[0] >> 32;
    return kind <= TOKEN_ATTACH ? (enum token_kind)kind : TOKEN_NONE;
}

static bool inside(uint64_t offset, uint64_t bytes, uint64_t whole)
{
    return offset <= whole && bytes <= whole - offset;
}

static int net_alloc(struct msg_net *net, uint64_t bytes, void **address, struct msg_token *token)
{
    struct shm_net *own = shm(net);
    uint64_t offset;
    int error = leat_arena_alloc(own->job, bytes, &offset);
    if (error)
        return error;
    *address = arena_of(own, net->rank) + offset;
    *token = make_token(TOKEN_ARENA, net->rank, offset, bytes);
    return 0;
}

static void net_free(struct msg_net *net, void *address, uint64_t bytes)
{
    if (address)
        leat_arena_free(shm(net)->job, (uint64_t)((char *)address - arena_of(shm(net), net->rank)),
                        bytes);
}

// Memory of an arena, this rank's or another's, that peers have mapped.
static bool expose_arena(const struct shm_net *net, const void *address, uint64_t bytes,
                         struct msg_token *token)
{
    uint64_t at = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)net->arenas;
    uint64_t rank = at / net->arena_bytes, offset = at % net->arena_bytes;
    if ((const char *)address < net->arenas || rank >= (uint64_t)net->net.rank_count ||
        offset < net->arena_first || !inside(offset, bytes, net->arena_bytes))
        return false;
    *token = make_token(TOKEN_ARENA, (int)rank, offset, bytes);
    return true;
}

// Whether peers may attach to this rank. They find that out at the first copy; until one has, the
// answer for the other direction is the best guess, and the other rank's record may know it.
static int attach_refused(struct shm_net *net, int peer)
{
    uint32_t own =
        __atomic_load_n(&leat_rank_record(net->job, net->net.rank)->attach, __ATOMIC_RELAXED);
    uint32_t other = __atomic_load_n(&leat_rank_record(net->job, peer)->attach, __ATOMIC_RELAXED);
    if (own == ATTACH_REFUSED || other == ATTACH_REFUSED)
        return leat_fail(-EPERM,
                         "cross-memory attach between ranks %d and %d: it was refused before",
                         net->net.rank, peer);
    if (own == ATTACH_PERMITTED || other == ATTACH_PERMITTED)
        return 0;
    int error = leat_attach_probe(net->job, peer);
    return error == -EPERM ? error : 0;
}

static int net_expose(struct msg_net *net, int peer, const void *address, uint64_t bytes,
                      struct msg_token *token)
{
    struct shm_net *own = shm(net);
    if (bytes > UINTPTR_MAX - (uintptr_t)address)
        return leat_fail(-EINVAL, "%llu bytes from address %p on pass the end of memory",
                         (unsigned long long)bytes, address);
    if (expose_arena(own, address, bytes, token))
        return 0;
    bool direct = own->job->segment->head->threads || peer == net->rank;
    int error = direct ? 0 : attach_refused(own, peer);
    if (!error)
        *token = make_token(direct ? TOKEN_DIRECT : TOKEN_ATTACH, net->rank,
                            (uint64_t)(uintptr_t)address, bytes);
    return error;
}

static void net_hide(struct msg_net *net, const struct msg_token *token)
{
    (void)net;
    (void)token;
}

// A token is from `peer`, who may have made it up: between processes it leads into the arenas or
// nowhere. Threads have all memory in common, and an address from one is taken as it is.
static void *mapped(const struct shm_net *net, int peer, const struct msg_token *token,
                    uint64_t offset, uint64_t bytes)
{
    uint64_t rank = token->word[0] & UINT32_MAX, at = token->word[1];
    if (rank >= (uint64_t)net->net.rank_count || !inside(offset, bytes, token->word[2]))
        return NULL;
    switch (kind_of(token)) {
    case TOKEN_ARENA:
        if (at < net->arena_first || !inside(at, token->word[2], net->arena_bytes))
            return NULL;
        return arena_of(net, (int)rank) + at + offset;
    case TOKEN_DIRECT:
        if (!net->job->segment->head->threads && ((int)rank != net->net.rank || peer != (int)rank))
            return NULL;
        return (void *)(uintptr_t)(at + offset);
    default:
        return NULL;
    }
}

static void *net_map(struct msg_net *net, int peer, const struct msg_token *token, uint64_t bytes)
{
    return mapped(shm(net), peer, token, 0, bytes);
}

static void *net_words(struct msg_net *net, int peer)
{
    const struct endpoint *endpoint = endpoint_of(shm(net), peer);
    if (__atomic_load_n(&endpoint->state, __ATOMIC_ACQUIRE) == ENDPOINT_NONE)
        return NULL;
    // They lie behind the queue, and stay as long.
    return arena_of(shm(net), peer) + endpoint->queue_offset +
           (uint64_t)endpoint->cell_count * sizeof(struct shm_cell);
}

static int net_put(struct msg_net *net, int peer, const struct msg_token *token,
                   const struct msg_piece *pieces, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t bytes = pieces[i].bytes, flag = 0;
        char *to = mapped(shm(net), peer, token, pieces[i].offset, bytes);
        if (!to)
            return leat_fail(-EPERM, "memory of rank %d that is not mapped here takes no put",
                             peer);
        if (i + 1 < count || bytes < sizeof flag || (uintptr_t)to % sizeof flag) {
            memcpy(to, pieces[i].from, bytes);
            continue;
        }
        memcpy(to + sizeof flag, (const char *)pieces[i].from + sizeof flag, bytes - sizeof flag);
        memcpy(&flag, pieces[i].from, sizeof flag);
        __atomic_store_n((uint64_t *)(void *)to, flag, __ATOMIC_RELEASE);
    }
    net_wake(net, peer);
    return 0;
}

// The address for cross-memory attach; an error where the token names none or this way is closed.
static int attachable(struct shm_net *net, int peer, const struct msg_token *token, uint64_t offset,
                      uint64_t bytes)
{
    if (kind_of(token) != TOKEN_ATTACH || (token->word[0] & UINT32_MAX) != (uint64_t)peer ||
        !inside(offset, bytes, token->word[2]) ||
        !inside(token->word[1], token->word[2], UINTPTR_MAX))
        return leat_fail(-EPROTO,
                         "rank %d sent a token (%#llx %#llx %#llx) that names no %llu bytes at "
                         "offset %llu",
                         peer, (unsigned long long)token->word[0],
                         (unsigned long long)token->word[1], (unsigned long long)token->word[2],
                         (unsigned long long)bytes, (unsigned long long)offset);
    const struct rank_record *record = leat_rank_record(net->job, peer);
    if (__atomic_load_n(&record->attach, __ATOMIC_RELAXED) == ATTACH_REFUSED)
        return leat_fail(-EPERM, "cross-memory attach to rank %d: it was refused before", peer);
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
    if (net->attached == peer && state == RANK_OPEN)
        return 0;
    int error = leat_attach_probe(net->job, peer);
    net->attached = error ? -1 : peer;
    return error;
}

static int net_bulk_get(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, void *to, uint64_t bytes, struct msg_transfer *transfer)
{
    (void)transfer; // nothing is ever under way
    const void *from = mapped(shm(net), peer, token, offset, bytes);
    if (from) {
        memcpy(to, from, bytes);
        return 0;
    }
    int error = attachable(shm(net), peer, token, offset, bytes);
    return error ? error : leat_attach_get(shm(net)->job, peer, token->word[1] + offset, to, bytes);
}

static int net_bulk_put(struct msg_net *net, int peer, const struct msg_token *token,
                        uint64_t offset, const void *from, uint64_t bytes,
                        struct msg_transfer *transfer)
{
    (void)transfer;
    void *to = mapped(shm(net), peer, token, offset, bytes);
    if (to) {
        memcpy(to, from, bytes);
        return 0;
    }
    int error = attachable(shm(net), peer, token, offset, bytes);
    return error ? error
                 : leat_attach_put(shm(net)->job, peer, token->word[1] + offset, from, bytes);
}

// ---- Open and close ----

static void net_close(struct msg_net *net)
{
    struct endpoint *own = shm(net)->own;
    net_sleep_cancel(net);
    // The cells stay: a sender that looked before this may still be filling one.
    own->queue_head = shm(net)->head;
    __atomic_store_n(&own->state, ENDPOINT_CLOSED, __ATOMIC_RELAXED);
    free(net);
}

static const struct msg_net_ops shm_ops = {.name = "shm",
                                           .progress = net_progress,
                                           .queue_send = net_queue_send,
                                           .queue_peek = net_queue_peek,
                                           .queue_release = net_queue_release,
                                           .alloc = net_alloc,
                                           .free = net_free,
                                           .expose = net_expose,
                                           .hide = net_hide,
                                           .map = net_map,
                                           .words = net_words,
                                           .put = net_put,
                                           .bulk_get = net_bulk_get,
                                           .bulk_put = net_bulk_put,
                                           .wake = net_wake,
                                           .sleep_prepare = net_sleep_prepare,
                                           .sleep = net_sleep,
                                           .sleep_cancel = net_sleep_cancel,
                                           .alive = net_alive,
                                           .close = net_close};

uint64_t leat_shm_msg_least_bytes(void)
{
    return sizeof(struct shm_cell);
}

static uint64_t cells_of(uint64_t queue_bytes)
{
    uint64_t cells = queue_bytes / sizeof(struct shm_cell);
    cells = cells < (1u << 24) ? cells : 1u << 24;
    return cells ? UINT64_C(1) << (63 - __builtin_clzll(cells)) : 0;
}

uint64_t leat_shm_msg_queue_bytes(uint64_t queue_bytes)
{
    return cells_of(queue_bytes) * sizeof(struct shm_cell) + MSG_WORDS_BYTES;
}

static int make_queue(struct shm_net *net, uint64_t queue_bytes)
{
    struct endpoint *own = net->own;
    uint64_t cells = cells_of(queue_bytes);
    if (!cells)
        return leat_fail(-EINVAL, "a receive queue of %llu bytes: at least %llu",
                         (unsigned long long)queue_bytes,
                         (unsigned long long)leat_shm_msg_least_bytes());
    int error =
        leat_arena_alloc(net->job, leat_shm_msg_queue_bytes(queue_bytes), &own->queue_offset);
    if (!error)
        own->cell_count = (uint32_t)cells;
    return error;
}

// Goes on with the cells of an earlier opening, as senders may still hold on to them.
static void take_queue(struct shm_net *net)
{
    net->queue = queue_of(net, net->net.rank);
    net->head = net->own->queue_head;
    while (shm_queue_look(&net->queue, net->head))
        net_queue_release(&net->net);
    net->net.queue_bytes = (sizeof(struct shm_cell) << net->queue.count_bits) + MSG_WORDS_BYTES;
}

int leat_shm_msg_open(struct leat_job *job, uint64_t queue_bytes, struct msg_net **net)
{
    const struct segment_head *head = job->segment->head;
    struct endpoint *own = &job->arena.head->endpoint;
    if (__atomic_load_n(&own->state, __ATOMIC_RELAXED) == ENDPOINT_OPEN)
        return leat_fail(-EALREADY, "the message layer of rank %d is open already", job->rank);
    struct shm_net *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for the message layer of rank %d", job->rank);
    made->net = (struct msg_net){
        .ops = &shm_ops, .rank = job->rank, .rank_count = job->rank_count, .asleep = net_asleep};
    made->job = job;
    made->own = own;
    made->arenas = (char *)job->segment->head + head->first_arena;
    made->arena_bytes = head->arena_bytes;
    made->arena_first = sizeof(struct arena_head);
    made->attached = -1;
    made->always_wake = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0;
    int error = own->cell_count ? 0 : make_queue(made, queue_bytes);
    if (error) {
        free(made);
        return error;
    }
    take_queue(made);
    __atomic_store_n(&own->always_wake, made->always_wake, __ATOMIC_RELAXED);
    __atomic_store_n(&own->state, ENDPOINT_OPEN, __ATOMIC_RELEASE);
    *net = &made->net;
    return 0;
}
