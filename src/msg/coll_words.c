// SPDX-License-Identifier: Apache-2.0
// Barrier and allreduce of up to eight words: the fixed-function path.
//
// Algorithm: a network that can do it is asked to. In shared memory every rank has a line for every
// other one, twice, by the parity of a counter. It writes its values into its own line at all
// others, the counter last, waits until all lines of its own are at that counter, and combines the
// values in the brackets of recursive doubling. Writing to a line again takes two such collectives,
// the second of which shows that the first one's values were read. Advantage: one line crosses and
// nothing is matched: the time of a flag. Disadvantage: n lines a rank, so it is for few ranks, and
// for the first communicators of a job.

#include "msg/coll.h"
#include "msg/internal.h"
#include "msg/op.h"
#include "msg/wait.h"

#include <errno.h>
#include <string.h>

#define WORDS_COMMS 16
#define WORDS_RANKS 16
#define WORDS       8
#define LOOK_NS     4 // what a look at a line takes, about

struct words_line {
    uint64_t counter; // written last
    uint64_t value[WORDS];
    uint64_t unused[7];
};

_Static_assert(WORDS_COMMS * 2 * WORDS_RANKS * sizeof(struct words_line) == MSG_WORDS_BYTES,
               "the lines fill the memory that a network gives for them");

bool coll_words_fit(const leat_comm *comm, const struct coll_call *call)
{
    const struct msg_net_ops *ops = comm->engine->net->ops;
    bool few =
        call->kind == LEAT_BARRIER || (call->count <= WORDS * sizeof(uint64_t) &&
                                       call->count * call->element <= WORDS * sizeof(uint64_t));
    if (ops->reduce)
        return few && !comm->context && call->operation != LEAT_OPERATION_USER;
    return few && ops->words && comm->rank_count <= WORDS_RANKS && comm->context / 2 < WORDS_COMMS;
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

// The line that rank `of` of the communicator writes at the job's rank `at`; NULL: not open yet.
static struct words_line *line_at(const struct msg_schedule *schedule, int at, int of)
{
    struct msg_net *net = schedule->engine->net;
    struct words_line *lines = net->ops->words(net, at);
    uint64_t set = (uint64_t)(schedule->comm->context / 2) * 2 + (schedule->from & 1);
    return lines ? &lines[set * WORDS_RANKS + (uint64_t)of] : NULL;
}

// Who is waited for is a peer in use, so that its death is seen.
static void look_for_lost(struct msg_schedule *schedule, int rank)
{
    int job_rank = msg_comm_job_rank(schedule->comm, rank);
    uint32_t peer = msg_peer_make(schedule->engine, job_rank);
    if (peer && msg_peer_at(schedule->engine, peer)->flags & PEER_LOST) {
        schedule->error = -ECONNRESET;
        schedule->failed_peer = job_rank;
    }
}

// Writes to the ranks that it has not written to yet; true: to all.
static bool write_lines(struct msg_schedule *schedule)
{
    struct msg_net *net = schedule->engine->net;
    uint64_t bytes = schedule->call.count * schedule->call.element;
    for (; schedule->i < schedule->rank_count; schedule->i++) {
        if (schedule->i == schedule->rank)
            continue;
        int peer = msg_comm_job_rank(schedule->comm, schedule->i);
        struct words_line *line = line_at(schedule, peer, schedule->rank);
        if (!line) {
            look_for_lost(schedule, schedule->i);
            return false;
        }
        if (schedule->call.kind != LEAT_BARRIER)
            memcpy(line->value, schedule->call.send, bytes);
        __atomic_store_n(&line->counter, schedule->from, __ATOMIC_RELEASE);
        if (net->ops->wake)
            net->ops->wake(net, peer);
    }
    return true;
}

// Goes on to the first rank whose line has not come; true: all have.
static bool have_come(struct msg_schedule *schedule, bool waiting)
{
    for (; schedule->j < schedule->rank_count; schedule->j++) {
        if (schedule->j == schedule->rank)
            continue;
        const struct words_line *line = line_at(schedule, schedule->engine->net->rank, schedule->j);
        if (__atomic_load_n(&line->counter, __ATOMIC_ACQUIRE) == schedule->from)
            continue;
        if (waiting)
            look_for_lost(schedule, schedule->j);
        return false;
    }
    return true;
}

// In the brackets of recursive doubling, so that a communicator without lines gives the same bits:
// where the ranks are no power of two, the first ones in pairs, then neighbouring blocks of 2^k.
static void combine(struct msg_schedule *schedule)
{
    const struct coll_call *call = &schedule->call;
    enum leat_operation operation = (enum leat_operation)call->operation;
    enum leat_type type = (enum leat_type)call->type;
    uint64_t bytes = call->count * call->element, value[WORDS_RANKS][WORDS];
    uint64_t *block[WORDS_RANKS];
    int ranks = schedule->rank_count, power = 1 << (31 - __builtin_clz((unsigned)ranks));
    for (int rank = 0; rank < ranks; rank++)
        memcpy(value[rank],
               rank == schedule->rank ? (const void *)call->send
                                      : line_at(schedule, schedule->engine->net->rank, rank)->value,
               bytes);
    for (int i = 0, rank = 0; i < power; i++) {
        if (i < ranks - power) {
            msg_combine(operation, type, call->user, value[rank], value[rank + 1], call->count);
            rank++;
        }
        block[i] = value[rank++];
    }
    for (int step = 1; step < power; step *= 2)
        for (int i = 0; i < power; i += 2 * step) {
            msg_combine(operation, type, call->user, block[i], block[i + step], call->count);
            block[i] = block[i + step];
        }
    memcpy(call->receive, block[0], bytes);
}

enum coll_step_result coll_words(struct msg_schedule *schedule)
{
    struct coll_comm *own = coll_of(schedule->comm);
    COLL_BEGIN(schedule);
    schedule->from = ++own->words_started;
    schedule->i = schedule->j = 0;
    COLL_AWAIT(schedule, own->words_ended + 1 == schedule->from);
    if (schedule->engine->net->ops->reduce) {
        schedule->error = start_reduce(schedule);
        COLL_AWAIT(schedule, reduced(schedule));
        return COLL_DONE;
    }
    COLL_AWAIT(schedule, write_lines(schedule));
    COLL_AWAIT(schedule, have_come(schedule, true));
    if (schedule->call.kind != LEAT_BARRIER)
        combine(schedule);
    COLL_END(schedule);
}

bool coll_words_spin(struct msg_schedule *schedule)
{
    struct msg_engine *engine = schedule->engine;
    if (schedule->algorithm->phase[0] != coll_words || schedule->i < schedule->rank_count ||
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

void coll_words_end(struct msg_schedule *schedule)
{
    if (schedule->algorithm->phase[0] == coll_words)
        coll_of(schedule->comm)->words_ended++;
}
