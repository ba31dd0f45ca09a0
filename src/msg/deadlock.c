// SPDX-License-Identifier: Apache-2.0
// A deadlock of the whole job: proven, ended, and said who waits for whom.
//
// Algorithm: F. Mattern's four counters ("Algorithms for distributed termination detection",
// Distributed Computing 2, 1987): two waves over all ranks add up what was sent and received. Once
// rank 0 has waited for LEAT_TIMEOUT without a deadline, it asks all ranks along a tree. A rank
// answers only from within a wait that has no deadline and that only a message can end, right after
// a round of progress that found nothing to do, nothing under way and nothing refused by the
// network; otherwise it answers once that is so. It tells what it has sent and received (packets,
// and puts where the network has them travel), and whether anything has happened here since its
// answer to the wave before: its events, the wait it is in, its two counts.
//
// Why that is a proof: take a moment between the waves. No rank has changed between its two
// answers, one before and one after that moment, so at it every rank is in its wait, and what was
// sent and received in all is what the second wave found. Where the sums are equal, nothing is
// under way. What lies in shared memory needs no count: whatever was stored there before the second
// wave was begun, its reader has looked for in its last round. So every rank waits for others that
// do nothing before something comes: for ever. A rank that computes, looks, waits with a deadline,
// waits elsewhere, has left or has died answers nothing, and nothing is concluded.
//
// The verdict goes down the same tree with the ranks' edges. Advantage: no false alarm, nothing is
// done before somebody has waited for long, and a rank talks to five others. Disadvantage: ranks
// that look again and again instead of waiting are never found out.

#include "core/error.h"
#include "core/job.h"
#include "core/log.h"
#include "msg/coll.h"
#include "msg/internal.h"
#include "msg/wait.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FANOUT       4
#define EDGES        28
#define INTERVAL_NS  UINT64_C(1000000000) /* between two pairs of waves, at most */
#define EDGE_ANYBODY (-1)

struct edge {
    int32_t rank, peer, tag; // of the job; a collective's kind as its tag
    int32_t kind;            // enum msg_request_kind
};

struct report {
    uint64_t sent, received;
    uint32_t edge_count, unchanged;
    struct edge edge[EDGES];
};

#define REPORT_LEAST offsetof(struct report, edge)

_Static_assert(sizeof(struct report) <= MSG_PACKET_PAYLOAD, "a report is a packet");

// What a rank was like when it answered last.
struct state {
    uint64_t events, serial, sent, received;
};

struct msg_quest {
    uint32_t wave, answered;  // asked for; answered last
    bool asked, verdict;      // it is to be answered; it is proven
    uint8_t ask, await, tell; // children that are to be asked, to answer, to be told; a bit each
    struct report sum;        // of the children's answers; or the verdict
    struct state last;
    uint64_t own_events; // of this search itself
    uint64_t next_ns;    // rank 0's next wave
};

static struct msg_quest *quest_of(struct msg_engine *engine)
{
    if (!engine->quest)
        engine->quest = msg_alloc(&engine->pools, POOL_WORK, sizeof *engine->quest);
    return engine->quest;
}

void msg_deadlock_close(struct msg_engine *engine)
{
    msg_free(&engine->pools, POOL_WORK, engine->quest, sizeof *engine->quest);
    engine->quest = NULL;
}

// ---- The tree ----

static int child_of(const struct msg_engine *engine, int place)
{
    int64_t child = (int64_t)engine->net->rank * FANOUT + 1 + place;
    return child < engine->net->rank_count ? (int)child : -1;
}

static uint8_t children(const struct msg_engine *engine)
{
    uint8_t mask = 0;
    for (int place = 0; place < FANOUT; place++)
        if (child_of(engine, place) >= 0)
            mask = (uint8_t)(mask | 1 << place);
    return mask;
}

static bool say(struct msg_engine *engine, int rank, enum msg_wire_kind kind,
                const struct report *report)
{
    uint32_t peer = msg_peer_make(engine, rank);
    struct msg_packet packet;
    uint32_t bytes = 0;
    packet.header = (struct msg_header){.kind = (uint8_t)kind, .sequence = engine->quest->wave};
    if (report) {
        bytes = (uint32_t)(REPORT_LEAST + report->edge_count * sizeof report->edge[0]);
        memcpy(packet.payload, report, bytes);
    }
    return peer && msg_control(engine, peer, &packet, bytes);
}

// To those of the children that are left in *whom; true: to all.
static bool say_down(struct msg_engine *engine, uint8_t *whom, enum msg_wire_kind kind,
                     const struct report *report)
{
    for (int place = 0; place < FANOUT; place++)
        if (*whom >> place & 1 && say(engine, child_of(engine, place), kind, report))
            *whom = (uint8_t)(*whom & ~(1 << place));
    return !*whom;
}

static void begin_wave(struct msg_engine *engine, uint32_t wave)
{
    struct msg_quest *quest = engine->quest;
    quest->wave = wave;
    quest->asked = true;
    quest->ask = quest->await = children(engine);
    quest->sum.sent = quest->sum.received = 0;
    quest->sum.edge_count = 0;
    quest->sum.unchanged = 1;
}

static void add_report(struct report *sum, const struct report *report)
{
    sum->sent += report->sent;
    sum->received += report->received;
    sum->unchanged &= report->unchanged;
    for (uint32_t i = 0; i < report->edge_count && sum->edge_count < EDGES; i++)
        sum->edge[sum->edge_count++] = report->edge[i];
}

// ---- Packets ----

static bool read_report(const struct msg_packet *packet, struct report *report)
{
    uint64_t bytes = packet->header.payload;
    if (bytes < REPORT_LEAST || bytes > sizeof *report)
        return false;
    memcpy(report, packet->payload, bytes);
    if (report->edge_count > EDGES ||
        bytes != REPORT_LEAST + report->edge_count * sizeof report->edge[0])
        return false;
    for (uint32_t i = 0; i < report->edge_count; i++)
        if (report->edge[i].kind == REQUEST_COLLECTIVE &&
            (uint32_t)report->edge[i].tag >= LEAT_COLLECTIVE_COUNT)
            return false;
    return true;
}

static void heard(struct msg_engine *engine, int from, const struct report *report)
{
    int place = from - engine->net->rank * FANOUT - 1;
    struct msg_quest *quest = engine->quest;
    if (place < 0 || place >= FANOUT || !(quest->await >> place & 1))
        return;
    quest->await = (uint8_t)(quest->await & ~(1 << place));
    add_report(&quest->sum, report);
}

void msg_deadlock_packet(struct msg_engine *engine, int from, const struct msg_packet *packet)
{
    const struct msg_header *header = &packet->header;
    struct msg_quest *quest = quest_of(engine);
    struct report report;
    if (!quest)
        return; // then there is no answer, and no proof
    quest->own_events++;
    bool parent = engine->net->rank && from == (engine->net->rank - 1) / FANOUT;
    if (header->kind == WIRE_ASK) {
        if (parent)
            begin_wave(engine, header->sequence);
        return;
    }
    if (header->sequence != quest->wave || !read_report(packet, &report))
        return;
    if (header->kind == WIRE_QUIET) {
        heard(engine, from, &report);
    } else if (parent) {
        quest->sum = report;
        quest->verdict = true;
        quest->tell = children(engine);
        // Also where this rank's wait has just been ended by one that was told before.
        say_down(engine, &quest->tell, WIRE_DEADLOCK, &quest->sum);
    }
}

// ---- This rank ----

static struct state state_of(const struct msg_engine *engine)
{
    return (struct state){.events = engine->events - engine->quest->own_events,
                          .serial = engine->wait_serial,
                          .sent = engine->sent,
                          .received = engine->received + engine->net->puts};
}

// Nothing can be done, and what is owed waits for room that a rank has to make.
static bool is_still(struct msg_engine *engine)
{
    uint64_t refused = engine->refused;
    if (msg_progress(engine, engine->now_ns) || engine->refused != refused || engine->rendezvous ||
        engine->tellers)
        return false;
    for (uint32_t at = engine->todo_head; at; at = msg_peer_at(engine, at)->todo_next)
        if (msg_peer_at(engine, at)->todo & ~(TODO_SEND | TODO_RESUME))
            return false;
    return true;
}

static struct edge edge_of(const struct msg_request *request)
{
    struct edge edge = {.rank = request->engine->net->rank,
                        .peer = request->peer < 0 ? EDGE_ANYBODY : request->peer,
                        .tag = request->tag,
                        .kind = request->kind};
    if (request->kind == REQUEST_COLLECTIVE)
        edge.peer = msg_collective_awaits(request, &edge.tag);
    return edge;
}

static bool same(const struct state *a, const struct state *b)
{
    return a->events == b->events && a->serial == b->serial && a->sent == b->sent &&
           a->received == b->received;
}

static void conclude(struct msg_engine *engine, const struct report *whole, uint64_t now_ns)
{
    struct msg_quest *quest = engine->quest;
    uint64_t timeout_ns = engine->job ? engine->job->timeout_ns : INTERVAL_NS;
    if (!whole->unchanged || whole->sent != whole->received) {
        // The second wave of a pair follows at once.
        quest->next_ns = quest->wave % 2
                             ? now_ns
                             : now_ns + (timeout_ns < INTERVAL_NS ? timeout_ns : INTERVAL_NS);
        return;
    }
    quest->sum = *whole;
    quest->verdict = true;
    quest->tell = children(engine);
    char text[700];
    msg_deadlock_describe(engine, text, sizeof text);
    if (engine->job)
        leat_log(engine->job->config.log_level, LOG_ERROR, engine->net->rank, "deadlock: %s", text);
}

static void answer(const struct msg_waiter *waiter, uint64_t now_ns)
{
    struct msg_engine *engine = waiter->engine;
    struct msg_quest *quest = engine->quest;
    struct state now = state_of(engine);
    struct report own = {.sent = now.sent,
                         .received = now.received,
                         .edge_count = 1,
                         .unchanged =
                             quest->answered + 1 == quest->wave && same(&now, &quest->last),
                         .edge[0] = edge_of(waiter->request)};
    add_report(&own, &quest->sum);
    if (engine->net->rank && !say(engine, (engine->net->rank - 1) / FANOUT, WIRE_QUIET, &own))
        return;
    quest->asked = false;
    quest->answered = quest->wave;
    quest->last = now;
    if (!engine->net->rank)
        conclude(engine, &own, now_ns);
}

bool msg_deadlock_expected(const struct msg_engine *engine)
{
    const struct msg_quest *quest = engine->quest;
    return quest && quest->last.serial && quest->last.serial == engine->wait_serial;
}

// All know of it, and this rank may say so.
static int end_wait(struct msg_engine *engine)
{
    struct msg_quest *quest = engine->quest;
    if (!say_down(engine, &quest->tell, WIRE_DEADLOCK, &quest->sum))
        return 0;
    quest->verdict = quest->asked = false;
    bool this_wait = msg_deadlock_expected(engine);
    quest->last.serial = 0;
    msg_broken_again(engine);
    if (!this_wait)
        return 0;
    msg_check_peers(engine); // a dead peer is the better reason
    return -EDEADLK;
}

int msg_deadlock_look(const struct msg_waiter *waiter, uint64_t now_ns)
{
    struct msg_engine *engine = waiter->engine;
    if (waiter->deadline_ns != UINT64_MAX || !waiter->request)
        return 0;
    uint64_t timeout_ns = engine->job ? engine->job->timeout_ns : INTERVAL_NS;
    if (!engine->net->rank && now_ns - waiter->begin_ns >= timeout_ns && quest_of(engine) &&
        !engine->quest->asked && !engine->quest->verdict && now_ns >= engine->quest->next_ns)
        begin_wave(engine, engine->quest->wave + 1);
    struct msg_quest *quest = engine->quest;
    if (!quest || !(quest->asked || quest->verdict))
        return 0;
    if (quest->verdict)
        return end_wait(engine);
    uint64_t events = engine->events;
    if (say_down(engine, &quest->ask, WIRE_ASK, NULL) && !quest->await && is_still(engine))
        answer(waiter, now_ns);
    return engine->events != events;
}

// ---- What is said ----

static int add_edge(const struct edge *edge, char *text, size_t bytes)
{
    char whom[32], what[48];
    if (edge->peer >= 0)
        snprintf(whom, sizeof whom, "rank %d", (int)edge->peer);
    else
        snprintf(whom, sizeof whom, "%s", edge->peer == EDGE_ANYBODY ? "any rank" : "others");
    if (edge->kind == REQUEST_COLLECTIVE)
        snprintf(what, sizeof what, "%s", coll_kind_name((enum leat_collective_kind)edge->tag));
    else if (edge->tag < 0)
        snprintf(what, sizeof what, "receive, any tag");
    else
        snprintf(what, sizeof what, "%s, tag %d", edge->kind == REQUEST_SEND ? "send" : "receive",
                 (int)edge->tag);
    return snprintf(text, bytes, "rank %d waits for %s (%s)", (int)edge->rank, whom, what);
}

void msg_deadlock_describe(const struct msg_engine *engine, char *text, size_t bytes)
{
    int ranks = engine->net->rank_count;
    if (!engine->quest) {
        snprintf(text, bytes, "its ranks were in a deadlock, which has ended its collectives");
        return;
    }
    const struct report *found = &engine->quest->sum;
    size_t used = (size_t)snprintf(text, bytes, "no rank of the job can go on: ");
    for (uint32_t i = 0; i < found->edge_count && used < bytes; i++) {
        if (i)
            used += (size_t)snprintf(text + used, bytes - used, "; ");
        if (used < bytes)
            used += (size_t)add_edge(&found->edge[i], text + used, bytes - used);
    }
    if (used < bytes && found->edge_count < (uint32_t)ranks)
        snprintf(text + used, bytes - used, "; and %d ranks more", ranks - (int)found->edge_count);
}

void msg_give_up(struct msg_request *request)
{
    if (msg_finished(request))
        return;
    if (request->kind == REQUEST_COLLECTIVE) {
        coll_break(request->comm, msg_collective_number(request), -1, -EDEADLK);
    } else if (msg_drop(request) == 0) {
        request->status.error = -EDEADLK;
        if (request->status_to)
            request->status_to->error = -EDEADLK;
    }
}
