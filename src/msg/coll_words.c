// SPDX-License-Identifier: Apache-2.0
// Barrier, and broadcast and allreduce of a few words: the fixed-function path.
//
// Algorithm: a network that can do it is asked to. In shared memory every rank has a line for every
// other one, twice, by the parity of a counter; the fewer the ranks, the longer the lines. It
// writes its values into its own line at all others, the counter last, waits until the lines that
// it wants are at that counter, and combines the values in the brackets of recursive doubling.
// Before it writes, it waits until all lines are at the counter before: then all have read what it
// overwrites. Advantage: one line crosses and nothing is matched: the time of a flag. Disadvantage:
// n lines a rank, so it is for few ranks, and for the first communicators of a job.

#include "msg/coll.h"

#include "core/error.h"
#include "msg/internal.h"
#include "msg/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORDS_COMMS           16
#define WORDS_RANKS           16
#define WORDS_BROADCAST_RANKS 4    // its lines go to all, too, where a tree's messages are fewer
#define WORDS_SET             2048 // bytes of a communicator's lines, of one parity
#define WORDS_MOST            256  // bytes of values; more is faster by a ring
#define LOOK_NS               4    // what a look at a line takes, about

struct words_line {
    uint64_t counter; // written last
    uint64_t call;    // of the writer
    uint8_t value[];
};

#define FIRST_BYTES (64 - sizeof(struct words_line)) // of the values, beside the counter

_Static_assert(WORDS_COMMS * 2 * WORDS_SET == MSG_WORDS_BYTES,
               "the lines fill the memory that a network gives for them");

static uint64_t line_bytes(const leat_comm *comm)
{
    int ranks = 2;
    while (ranks < comm->rank_count)
        ranks *= 2;
    return WORDS_SET / (uint64_t)ranks;
}

static bool reduce_fits(const leat_comm *comm, const struct coll_call *call)
{
    if (comm->context || call->kind == LEAT_BROADCAST)
        return false;
    return call->kind == LEAT_BARRIER || (call->operation != LEAT_OPERATION_USER &&
                                          call->count <= 64 && call->count * call->element <= 64);
}

// Ranks that map each other's memory are those of one host: all of them find the same.
static bool all_beside(const leat_comm *comm)
{
    const struct msg_net *net = comm->engine->net;
    struct coll_comm *own = coll_of(comm);
    if (!net->beside || own->placed)
        return !net->beside || own->beside;
    own->placed = own->beside = true;
    for (int rank = 0; rank < comm->rank_count && own->beside; rank++)
        own->beside = net->beside(net, msg_comm_job_rank(comm, rank));
    return own->beside;
}

bool coll_words_fit(const leat_comm *comm, const struct coll_call *call)
{
    const struct msg_net_ops *ops = comm->engine->net->ops;
    if (ops->reduce)
        return reduce_fits(comm, call);
    if (!ops->words || comm->rank_count > WORDS_RANKS || comm->context / 2 >= WORDS_COMMS ||
        !all_beside(comm))
        return false;
    if (call->kind == LEAT_BARRIER)
        return true;
    if (call->kind == LEAT_BROADCAST && comm->rank_count > WORDS_BROADCAST_RANKS)
        return false;
    uint64_t most = line_bytes(comm) - sizeof(struct words_line);
    return call->count <= WORDS_MOST &&
           call->count * call->element <= (most < WORDS_MOST ? most : WORDS_MOST);
}

// ---- By the network ----

static struct msg_transfer *transfer_of(struct msg_schedule *schedule)
{
    return &schedule->slot[0].transfer;
}

static int start_reduce(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    struct msg_net *net = schedule->engine->net;
    bool barrier = call->kind == LEAT_BARRIER;
    transfer_of(schedule)->finished = 0;
    return net->ops->reduce(net, (enum leat_operation)call->operation, (enum leat_type)call->type,
                            call->send, call->receive, barrier ? 0 : call->count,
                            transfer_of(schedule));
}

static bool reduced(struct msg_schedule *schedule)
{
    int finished = transfer_of(schedule)->finished;
    if (finished < 0)
        schedule->error = finished;
    return finished > 0;
}

// ---- By lines of memory ----

// Among a rank's lines the one that rank `of` of the communicator writes, for the collective with
// that counter.
static struct words_line *line_of(const struct msg_schedule *schedule, uint8_t *lines, int of,
                                  uint64_t counter)
{
    uint64_t set = (uint64_t)(schedule->comm->context / 2) * 2 + (counter & 1);
    return (void *)(lines + set * WORDS_SET + (uint64_t)of * line_bytes(schedule->comm));
}

static const struct words_line *own_line(const struct msg_schedule *schedule, int of,
                                         uint64_t counter)
{
    struct msg_net *net = schedule->engine->net;
    return line_of(schedule, net->ops->words(net, net->rank), of, counter);
}

// What has to be the same at all ranks.
static uint64_t call_of(const struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    uint64_t root = call->kind == LEAT_BROADCAST ? (uint64_t)call->root : 0;
    return call->count * call->element << 32 | root << 8 | call->kind;
}

// Who is waited for is a peer in use, so that its death is seen.
static void look_for_lost(struct msg_schedule *schedule, int rank)
{
    int job_rank = msg_comm_job_rank(schedule->comm, rank);
    uint32_t peer = msg_peer_make(schedule->engine, job_rank);
    if (peer && msg_peer_at(schedule->engine, peer)->flags & PEER_LOST) {
        schedule->error = msg_lost_error(schedule->engine, job_rank);
        schedule->failed_peer = job_rank;
    }
}

// Whether all have begun the collective before this one, and so ended the one before that, whose
// lines are written to next.
static bool have_ended(struct msg_schedule *schedule)
{
    for (; schedule->i < schedule->rank_count; schedule->i++) {
        const struct words_line *line = own_line(schedule, schedule->i, schedule->from - 1);
        if (schedule->i == schedule->rank || schedule->from == 1 ||
            __atomic_load_n(&line->counter, __ATOMIC_ACQUIRE) == schedule->from - 1)
            continue;
        look_for_lost(schedule, schedule->i);
        return false;
    }
    return true;
}

static void write_line(const struct msg_schedule *schedule, struct words_line *line)
{
    const struct coll_call *call = &schedule->call;
    uint64_t bytes = call->count * call->element;
    if (call->kind != LEAT_BROADCAST || call->root == schedule->rank) {
        // What is beside the counter last: whoever looks at that takes the line away.
        if (bytes > FIRST_BYTES)
            coll_copy(schedule, line->value + FIRST_BYTES, call->send + FIRST_BYTES,
                      bytes - FIRST_BYTES);
        if (bytes)
            coll_copy(schedule, line->value, call->send, bytes < FIRST_BYTES ? bytes : FIRST_BYTES);
    }
    line->call = call_of(schedule);
    __atomic_store_n(&line->counter, schedule->from, __ATOMIC_RELEASE);
}

// Writes to the ranks that it has not written to yet; true: to all.
static bool write_lines(struct msg_schedule *schedule)
{
    struct msg_net *net = schedule->engine->net;
    for (; schedule->j < schedule->rank_count; schedule->j++) {
        if (schedule->j == schedule->rank)
            continue;
        int peer = msg_comm_job_rank(schedule->comm, schedule->j);
        uint8_t *lines = net->ops->words(net, peer);
        if (!lines) {
            look_for_lost(schedule, schedule->j);
            return false;
        }
        write_line(schedule, line_of(schedule, lines, schedule->rank, schedule->from));
        if (net->ops->wake)
            net->ops->wake(net, peer);
    }
    schedule->engine->events++; // others may go on (deadlock.c)
    return true;
}

static bool wants(const struct msg_schedule *schedule, int rank)
{
    return rank != schedule->rank &&
           (schedule->call.kind != LEAT_BROADCAST || rank == schedule->call.root);
}

static void compare(struct msg_schedule *schedule, const struct words_line *line, int rank)
{
    uint64_t theirs = line->call, ours = call_of(schedule);
    if (theirs == ours || schedule->error)
        return;
    schedule->failed_peer = msg_comm_job_rank(schedule->comm, rank);
    schedule->error = leat_fail(
        -EPROTO,
        "%s of %llu bytes, root %llu, collective %u of the communicator, at rank %d: rank %d calls "
        "for %s of %llu bytes, root %llu; all ranks have to call for the same",
        coll_kind_name((enum leat_collective_kind)(ours & 0xff)), (unsigned long long)ours >> 32,
        (unsigned long long)ours >> 8 & 0xff, schedule->number,
        msg_comm_job_rank(schedule->comm, schedule->rank), schedule->failed_peer,
        coll_kind_name((enum leat_collective_kind)(theirs & 0xff)),
        (unsigned long long)theirs >> 32, (unsigned long long)theirs >> 8 & 0xff);
}

// Goes on to the first rank whose line is wanted and has not come; true: all have.
static bool have_come(struct msg_schedule *schedule, bool waiting)
{
    for (; schedule->mask < schedule->rank_count; schedule->mask++) {
        if (!wants(schedule, schedule->mask))
            continue;
        const struct words_line *line = own_line(schedule, schedule->mask, schedule->from);
        if (__atomic_load_n(&line->counter, __ATOMIC_ACQUIRE) != schedule->from) {
            if (waiting)
                look_for_lost(schedule, schedule->mask);
            return false;
        }
        compare(schedule, line, schedule->mask);
    }
    return true;
}

// In the brackets of recursive doubling, so that a communicator without lines gives the same bits:
// where the ranks are no power of two, the first ones in pairs, then neighbouring blocks of 2^k.
static void combine(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    uint64_t bytes = call->count * call->element, step = line_bytes(schedule->comm);
    _Alignas(64) uint8_t value[WORDS_SET];
    uint8_t *block[WORDS_RANKS] = {value};
    int ranks = schedule->rank_count, power = 1 << (31 - __builtin_clz((unsigned)ranks));
    for (int rank = 0; rank < ranks; rank++)
        coll_copy(schedule, value + (uint64_t)rank * step,
                  rank == schedule->rank ? call->send
                                         : own_line(schedule, rank, schedule->from)->value,
                  bytes);
    for (int i = 0, rank = 0; i < power; i++) {
        uint8_t *at = value + (uint64_t)rank * step;
        bool folded = i < ranks - power;
        if (folded)
            coll_combine(schedule, at, at + step, bytes);
        block[i] = folded ? at + step : at;
        rank += 1 + folded;
    }
    for (int width = 1; width < power; width *= 2)
        for (int i = 0; i < power; i += 2 * width) {
            coll_combine(schedule, block[i], block[i + width], bytes);
            block[i] = block[i + width];
        }
    coll_copy(schedule, call->receive, block[0], bytes);
}

// What is to be done with the lines that have come.
static void take_values(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    uint64_t bytes = call->count * call->element;
    if (call->kind == LEAT_BROADCAST && call->root != schedule->rank) {
        coll_copy(schedule, call->receive, own_line(schedule, call->root, schedule->from)->value,
                  bytes);
    } else if (call->kind == LEAT_ALLREDUCE && schedule->rank_count == 2 &&
               call->operation != LEAT_OPERATION_USER) {
        // Operands may be exchanged, so nothing is copied on the way.
        const uint8_t *other = own_line(schedule, 1 - schedule->rank, schedule->from)->value;
        if (!call->in_place)
            coll_copy(schedule, call->receive, other, bytes);
        coll_combine(schedule, call->in_place ? other : call->send, call->receive, bytes);
    } else if (call->kind == LEAT_ALLREDUCE) {
        combine(schedule);
    }
}

enum coll_step_result coll_words(struct msg_schedule *schedule)
{
    struct coll_comm *own = coll_of(schedule->comm);
    COLL_BEGIN(schedule);
    schedule->from = ++own->words_started;
    schedule->i = schedule->j = schedule->mask = 0;
    COLL_AWAIT(schedule, own->words_ended + 1 == schedule->from);
    if (schedule->engine->net->ops->reduce) {
        schedule->error = start_reduce(schedule);
        COLL_AWAIT(schedule, reduced(schedule));
        return COLL_DONE;
    }
    COLL_AWAIT(schedule, have_ended(schedule));
    COLL_AWAIT(schedule, write_lines(schedule));
    COLL_AWAIT(schedule, have_come(schedule, true));
    if (!schedule->error)
        take_values(schedule);
    COLL_END(schedule);
}

bool coll_words_spin(struct msg_schedule *schedule)
{
    struct msg_engine *engine = schedule->engine;
    if (schedule->algorithm->phase[0] != coll_words || schedule->j < schedule->rank_count ||
        engine->crowded || engine->net->ops->reduce)
        return false;
    uint64_t looks = engine->spin_ns / LOOK_NS;
    for (uint64_t n = 0; n < looks; n++)
        if (have_come(schedule, false)) {
            if (n > looks / 2)
                msg_spin_succeeded(engine);
            return true;
        }
    return false;
}

// From rank `from` on the first one whose line this rank waits for, or rank_count.
static int missing(const struct msg_schedule *schedule, int from)
{
    // Lines that are written to next still may hold what somebody has to read.
    bool early = schedule->i < schedule->rank_count;
    uint64_t counter = schedule->from - early;
    for (; from < schedule->rank_count; from++)
        if (from != schedule->rank && (early || wants(schedule, from)) &&
            __atomic_load_n(&own_line(schedule, from, counter)->counter, __ATOMIC_ACQUIRE) !=
                counter)
            break;
    return from;
}

int coll_words_awaits(const struct msg_schedule *schedule)
{
    int rank = schedule->engine->net->ops->reduce ? schedule->rank_count : missing(schedule, 0);
    return rank < schedule->rank_count ? msg_comm_job_rank(schedule->comm, rank) : -2;
}

void coll_words_describe(const struct msg_schedule *schedule, char *text, size_t bytes)
{
    if (schedule->engine->net->ops->reduce) {
        snprintf(text, bytes, " the network, which does not say who has not called for it");
        return;
    }
    size_t used = 0;
    for (int rank = missing(schedule, 0); rank < schedule->rank_count && used < bytes;
         rank = missing(schedule, rank + 1)) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", used ? ", " : " rank ",
                                 msg_comm_job_rank(schedule->comm, rank));
    }
    if (used < bytes)
        snprintf(text + used, bytes - used, "%s",
                 used ? " to call for it" : " an earlier collective of this rank to end");
}

void coll_words_end(struct msg_schedule *schedule)
{
    if (schedule->algorithm->phase[0] == coll_words)
        coll_of(schedule->comm)->words_ended++;
}
