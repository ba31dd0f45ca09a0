// SPDX-License-Identifier: Apache-2.0
// Many ranks in one thread: see crowd.h.

#include "support/crowd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_NS     40 /* of virtual time */
#define IDLE_SWEEPS  3  /* a search for held messages takes steps that move nothing */
#define AGAIN_SWEEPS 60 /* where a network says -EAGAIN for no reason */
#define SETTLE_LIMIT 3000000
#define ROOM_LARGE   (256u << 10)

uint64_t crowd_smallest_budget(const struct memory_options *net, const struct msg_tuning *tuning)
{
    struct memory_fabric *fabric = memory_fabric_new(net);
    struct msg_tuning least = *tuning;
    struct msg_engine *engine;
    least.budget_bytes = 1;
    int error = msg_engine_open(memory_fabric_open(fabric, 0), &least, &engine);
    const char *says = strstr(leat_error_detail(), "at least ");
    uint64_t bytes = error == -ENOBUFS && says ? strtoull(says + 9, NULL, 10) : 0;
    memory_fabric_free(fabric);
    return bytes;
}

// An engine waits inside a call: the others go on.
static void others_run(void *user, int waiting)
{
    struct crowd *crowd = user;
    bool moved = false;
    crowd->now_ns += SWEEP_NS;
    for (int i = 0; i < crowd->open_count; i++)
        if (crowd->open[i] != waiting)
            moved |= msg_progress(crowd->rank[crowd->open[i]].engine, crowd->now_ns);
    uint64_t next = memory_fabric_next(crowd->fabric);
    if (!moved && next != UINT64_MAX && next > crowd->now_ns)
        crowd->now_ns = next;
    crowd->rank[waiting].engine->now_ns = crowd->now_ns;
}

struct crowd *crowd_new(const struct memory_options *net, const struct msg_tuning *tuning)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    crowd->fabric = memory_fabric_new(net);
    memory_fabric_on_sleep(crowd->fabric, others_run, crowd);
    crowd->tuning = *tuning;
    if (!tuning->budget_bytes)
        crowd->tuning.budget_bytes = crowd_smallest_budget(net, tuning);
    crowd->rank_count = net->rank_count;
    crowd->rank = calloc((size_t)net->rank_count, sizeof *crowd->rank);
    crowd->open = calloc((size_t)net->rank_count, sizeof *crowd->open);
    crowd->random = net->seed;
    crowd->idle_sweeps = net->refuse_permille ? AGAIN_SWEEPS : IDLE_SWEEPS;
    return crowd;
}

uint64_t crowd_random(struct crowd *crowd)
{
    crowd->random += 0x9e3779b97f4a7c15ULL;
    uint64_t word = crowd->random;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
    return word ^ word >> 31;
}

static void narrow(struct msg_engine *engine, enum msg_pool_id id, uint64_t bytes)
{
    struct msg_pool *pool = &engine->pools.pool[id];
    if (bytes && pool->limit > pool->used + bytes)
        pool->limit = pool->used + bytes;
}

struct crowd_rank *crowd_rank(struct crowd *crowd, int number)
{
    struct crowd_rank *rank = &crowd->rank[number];
    if (rank->engine)
        return rank;
    struct msg_net *net = memory_fabric_open(crowd->fabric, number);
    int error = msg_engine_open(net, &crowd->tuning, &rank->engine);
    if (error) {
        fprintf(stderr, "engine of rank %d: %s: %s\n", number, strerror(-error),
                leat_error_detail());
        abort();
    }
    for (int c = 0; c < CROWD_CONTEXTS; c++)
        rank->comm[c] = (leat_comm){.engine = rank->engine,
                                    .context = 2 * (uint32_t)c,
                                    .rank = number,
                                    .rank_count = crowd->rank_count};
    narrow(rank->engine, POOL_HEADERS, crowd->unexpected_bytes);
    narrow(rank->engine, POOL_BYTES, crowd->unexpected_bytes);
    rank->staging_bytes = rank->engine->pools.pool[POOL_STAGING].used;
    rank->behind = &rank->receive;
    crowd->open[crowd->open_count++] = number;
    return rank;
}

static void free_receive(struct crowd_receive *receive)
{
    free(receive->memory);
    free(receive);
}

static void close_rank(struct crowd_rank *rank)
{
    if (rank->engine)
        msg_engine_close(rank->engine);
    rank->engine = NULL;
    for (struct crowd_send *send = rank->sends, *next; send; send = next) {
        next = send->next;
        free(send->memory);
        free(send);
    }
    for (struct crowd_receive *receive = rank->receive, *next; receive; receive = next) {
        next = receive->next;
        free_receive(receive);
    }
}

char *crowd_free(struct crowd *crowd)
{
    for (int rank = 0; rank < crowd->rank_count; rank++)
        close_rank(&crowd->rank[rank]);
    const char *misuse = memory_fabric_check(crowd->fabric);
    char *text = misuse ? strdup(misuse) : NULL;
    for (size_t i = 0; i < crowd->log_capacity; i++) {
        if (crowd->log[i])
            free(crowd->log[i]->sent);
        free(crowd->log[i]);
    }
    memory_fabric_free(crowd->fabric);
    free(crowd->log);
    free(crowd->open);
    free(crowd->rank);
    free(crowd);
    return text;
}

const char *crowd_failure(struct crowd *crowd)
{
    return crowd->failure[0] ? crowd->failure : memory_fabric_misuse(crowd->fabric);
}

// ---- calls ----

void crowd_send(struct crowd *crowd, int from, int to, struct crowd_message message)
{
    struct crowd_rank *rank = crowd_rank(crowd, from);
    struct crowd_log *log = crowd_log(crowd, from, to, message.context);
    if (log->count == log->capacity) {
        log->capacity = log->capacity ? 2 * log->capacity : 8;
        log->sent = realloc(log->sent, log->capacity * sizeof *log->sent);
    }
    struct crowd_send *send = calloc(1, sizeof *send);
    send->log = log;
    send->sequence = log->count;
    log->sent[log->count++] = (struct crowd_sent){
        .tag = message.tag, .bytes = message.bytes, .synchronous = message.synchronous};
    leat_data data = crowd_data(message.bytes, message.strided, &send->memory, &send->layout);
    crowd_fill(log, send->sequence, data);
    send->next = rank->sends;
    rank->sends = send;
    crowd->rank[to].left++;
    crowd->sent++;
    leat_comm *comm = &rank->comm[message.context];
    msg_start_send(rank->engine, msg_request_of(&send->request), comm, comm->context, data, to,
                   message.tag, message.synchronous);
}

static struct crowd_receive *new_receive(enum crowd_kind kind, int from,
                                         struct crowd_message wanted)
{
    struct crowd_receive *receive = calloc(1, sizeof *receive);
    receive->kind = kind;
    receive->from = from;
    receive->tag = wanted.tag;
    receive->context = wanted.context;
    return receive;
}

static void line_up(struct crowd_rank *rank, struct crowd_receive *receive)
{
    *rank->behind = receive;
    rank->behind = &receive->next;
}

struct crowd_receive *crowd_receive(struct crowd *crowd, int at, int from,
                                    struct crowd_message wanted)
{
    struct crowd_rank *rank = crowd_rank(crowd, at);
    struct crowd_receive *receive = new_receive(CROWD_RECEIVE, from, wanted);
    line_up(rank, receive);
    receive->data = crowd_data(wanted.bytes, wanted.strided, &receive->memory, &receive->layout);
    leat_comm *comm = &rank->comm[wanted.context];
    msg_start_receive(rank->engine, msg_request_of(&receive->request), comm, comm->context,
                      receive->data, from, wanted.tag);
    return receive;
}

bool crowd_probe(struct crowd *crowd, int at, int from, struct crowd_message wanted, bool take)
{
    struct crowd_rank *rank = crowd_rank(crowd, at);
    struct crowd_receive *receive = new_receive(take ? CROWD_MATCHED : CROWD_PROBE, from, wanted);
    receive->probed.source = -77;
    int error = leat_probe(&rank->comm[wanted.context], from, wanted.tag, 0, &receive->probed,
                           take ? &receive->request : NULL);
    if (error) {
        free(receive);
        if (error != -ETIMEDOUT)
            crowd_fail(crowd, "rank %d probes %d: %s", at, from, leat_error_detail());
        return false;
    }
    crowd->probed++;
    line_up(rank, receive);
    if (!take)
        return true;
    receive->data =
        crowd_data(receive->probed.bytes, wanted.strided, &receive->memory, &receive->layout);
    error = leat_recv_matched(receive->data, NULL, &receive->request, 0);
    if (error)
        crowd_fail(crowd, "rank %d receives what it probed: %s", at, leat_error_detail());
    return true;
}

bool crowd_cancel(struct crowd *crowd, struct crowd_receive *receive)
{
    int error = leat_cancel(&receive->request);
    if (error && error != -EALREADY)
        crowd_fail(crowd, "cancel: %s", leat_error_detail());
    crowd->canceled += error == 0;
    return error == 0;
}

// ---- progress ----

bool crowd_progress(struct crowd *crowd, int rank)
{
    return msg_progress(crowd_rank(crowd, rank)->engine, crowd->now_ns);
}

bool crowd_sweep(struct crowd *crowd)
{
    bool moved = false;
    crowd->now_ns += SWEEP_NS;
    for (int i = 0; i < crowd->open_count; i++)
        moved |= msg_progress(crowd->rank[crowd->open[i]].engine, crowd->now_ns);
    return moved;
}

bool crowd_step(struct crowd *crowd)
{
    for (int n = 0; n < crowd->idle_sweeps; n++)
        if (crowd_sweep(crowd))
            return true;
    uint64_t next = memory_fabric_next(crowd->fabric);
    if (next == UINT64_MAX)
        return false;
    if (next > crowd->now_ns)
        crowd->now_ns = next;
    return true;
}

void crowd_settle(struct crowd *crowd)
{
    for (uint64_t n = 0; crowd_step(crowd); n++) {
        if (n < SETTLE_LIMIT)
            continue;
        crowd_fail(crowd, "things go on happening without end");
        return;
    }
}

// ---- what has finished ----

static void collect_sends(struct crowd *crowd, struct crowd_rank *rank)
{
    for (struct crowd_send **at = &rank->sends; *at;) {
        struct crowd_send *send = *at;
        if (!msg_finished(msg_request_of(&send->request))) {
            at = &send->next;
            continue;
        }
        const leat_status *status = &send->request.status;
        bool lost = status->error == -ECONNRESET && crowd->rank[send->log->destination].dead;
        if (status->error && !lost)
            crowd_fail(crowd, "message %u of %d to %d ended with %d", send->sequence,
                       send->log->source, send->log->destination, status->error);
        *at = send->next;
        free(send->memory); // whoever still reads it is seen by the sanitizer
        free(send);
    }
}

// Whether it ended as it should without a message. What a dead rank had sent comes or does not.
static bool ended_without(struct crowd *crowd, const struct crowd_receive *receive)
{
    int error = receive->request.status.error;
    int from = receive->from >= 0 ? receive->from : receive->request.status.source;
    bool of_dead = from >= 0 && from < crowd->rank_count && crowd->rank[from].dead;
    if (of_dead && error && error != -ECONNRESET && error != -ECANCELED && error != -EMSGSIZE)
        crowd_fail(crowd, "a receive from the dead rank %d ended with %d", from, error);
    return error == -ECANCELED || of_dead;
}

void crowd_collect(struct crowd *crowd, int number)
{
    struct crowd_rank *rank = crowd_rank(crowd, number);
    collect_sends(crowd, rank);
    while (rank->receive) {
        struct crowd_receive *receive = rank->receive;
        bool probe = receive->kind == CROWD_PROBE;
        if (!probe && !msg_finished(msg_request_of(&receive->request)))
            return;
        if (probe || !ended_without(crowd, receive))
            crowd_judge(crowd, number, receive);
        rank->receive = receive->next;
        if (!rank->receive)
            rank->behind = &rank->receive;
        free_receive(receive);
    }
}

static void collect_all(struct crowd *crowd)
{
    for (int i = 0; i < crowd->open_count; i++)
        crowd_collect(crowd, crowd->open[i]);
}

// ---- the dead ----

static void wait_for(struct crowd *crowd, leat_request *request, int rank)
{
    if (msg_finished(msg_request_of(request)))
        return;
    // As a program does; the engine asks for the dead only while it waits.
    struct msg_request before = *msg_request_of(request);
    int error = leat_request_wait(&request, 1, LEAT_WAIT_ALL, 20, NULL);
    if (error == -ETIMEDOUT)
        crowd_fail(crowd, "rank %d waits for a dead rank (kind %d, state %d, mode %d)", rank,
                   before.kind, before.state, before.mode);
}

static void forget_logs(struct crowd *crowd, int dead)
{
    for (size_t i = 0; i < crowd->log_capacity; i++) {
        struct crowd_log *log = crowd->log[i];
        if (!log || (log->source != dead && log->destination != dead))
            continue;
        for (uint32_t k = log->first_left; k < log->count; k++)
            crowd->rank[log->destination].left -= !log->sent[k].taken;
    }
}

// What it had sent before can still be received, and then nothing.
static void receive_from_dead(struct crowd *crowd, int number, int dead)
{
    for (int context = 0; context < CROWD_CONTEXTS; context++) {
        bool matched = true;
        while (matched && !crowd->failure[0]) {
            struct crowd_receive *receive =
                crowd_receive(crowd, number, dead,
                              (struct crowd_message){
                                  .context = context, .tag = LEAT_ANY_TAG, .bytes = ROOM_LARGE});
            wait_for(crowd, &receive->request, number);
            matched = receive->request.status.source >= 0;
            crowd_collect(crowd, number);
        }
    }
}

void crowd_kill(struct crowd *crowd, int dead)
{
    crowd->rank[dead].dead = true;
    memory_fabric_kill(crowd->fabric, dead);
    int kept = 0;
    for (int i = 0; i < crowd->open_count; i++)
        if (crowd->open[i] != dead)
            crowd->open[kept++] = crowd->open[i];
    crowd->open_count = kept;
    for (int i = 0; i < kept; i++) {
        struct crowd_rank *rank = &crowd->rank[crowd->open[i]];
        for (struct crowd_send *send = rank->sends; send; send = send->next)
            if (send->log->destination == dead)
                wait_for(crowd, &send->request, crowd->open[i]);
        for (struct crowd_receive *receive = rank->receive; receive; receive = receive->next)
            if (receive->kind != CROWD_PROBE &&
                (receive->from == dead || receive->request.status.source == dead))
                wait_for(crowd, &receive->request, crowd->open[i]);
    }
    collect_all(crowd);
    crowd_settle(crowd);
    forget_logs(crowd, dead);
    for (int i = 0; i < kept; i++)
        receive_from_dead(crowd, crowd->open[i], dead);
}

// ---- the end ----

static void cancel_all(struct crowd *crowd)
{
    for (int i = 0; i < crowd->open_count; i++) {
        struct crowd_rank *rank = &crowd->rank[crowd->open[i]];
        for (struct crowd_receive *receive = rank->receive; receive; receive = receive->next)
            if (receive->kind == CROWD_RECEIVE && !msg_finished(msg_request_of(&receive->request)))
                crowd_cancel(crowd, receive);
    }
}

// A few of anybody's, by wildcard, then the rest one by one.
static void receive_any(struct crowd *crowd)
{
    for (int i = 0; i < crowd->open_count; i++) {
        int number = crowd->open[i];
        for (int n = 0; n < 4 && crowd->rank[number].left > 4; n++)
            crowd_receive(crowd, number, LEAT_ANY_RANK,
                          (struct crowd_message){.context = n % CROWD_CONTEXTS,
                                                 .tag = LEAT_ANY_TAG,
                                                 .bytes = ROOM_LARGE});
    }
    crowd_settle(crowd);
    cancel_all(crowd);
    crowd_settle(crowd);
    collect_all(crowd);
}

static void receive_rest(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->log_capacity; i++) {
        const struct crowd_log *log = crowd->log[i];
        if (!log || crowd->rank[log->source].dead || crowd->rank[log->destination].dead)
            continue;
        for (uint32_t k = log->first_left; k < log->count; k++)
            if (!log->sent[k].taken)
                crowd_receive(crowd, log->destination, log->source,
                              (struct crowd_message){.context = log->context,
                                                     .tag = log->sent[k].tag,
                                                     .bytes = log->sent[k].bytes});
    }
    crowd_settle(crowd);
    collect_all(crowd);
}

static void check_rank(struct crowd *crowd, int number)
{
    const struct crowd_rank *rank = &crowd->rank[number];
    const struct msg_engine *engine = rank->engine;
    const struct msg_pools *pools = &engine->pools;
    if (rank->sends)
        crowd_fail(crowd, "rank %d: message %u to %d, %llu bytes, is not finished (state %d)",
                   number, rank->sends->sequence, rank->sends->log->destination,
                   (unsigned long long)rank->sends->request.status.bytes,
                   msg_request_of(&rank->sends->request)->state);
    if (rank->receive)
        crowd_fail(crowd, "rank %d: a receive from %d under tag %d is not finished (state %d)",
                   number, rank->receive->from, rank->receive->tag,
                   msg_request_of(&rank->receive->request)->state);
    if (rank->left)
        crowd_fail(crowd, "rank %d: %llu messages were not received", number,
                   (unsigned long long)rank->left);
    const struct msg_matcher *matcher = &engine->matcher;
    if (matcher->unexpected_count || matcher->posted_count || matcher->headers.live ||
        matcher->cells.live)
        crowd_fail(crowd, "rank %d keeps %llu messages, %llu receives, %u envelopes, %u cells",
                   number, (unsigned long long)matcher->unexpected_count,
                   (unsigned long long)matcher->posted_count, matcher->headers.live,
                   matcher->cells.live);
    if (engine->handles_live || pools->pool[POOL_STAGING].used != rank->staging_bytes)
        crowd_fail(crowd, "rank %d keeps %u handles and %llu bytes of staging", number,
                   engine->handles_live, (unsigned long long)pools->pool[POOL_STAGING].used);
    for (int id = 0; id < POOL_COUNT; id++)
        if (pools->pool[id].peak > pools->pool[id].limit)
            crowd_fail(crowd, "rank %d: pool %s had %llu of %llu bytes", number, msg_pool_names[id],
                       (unsigned long long)pools->pool[id].peak,
                       (unsigned long long)pools->pool[id].limit);
    if (pools->peak > pools->budget || pools->budget > crowd->tuning.budget_bytes)
        crowd_fail(crowd, "rank %d: the pools had %llu of %llu bytes", number,
                   (unsigned long long)pools->peak, (unsigned long long)pools->budget);
}

void crowd_drain(struct crowd *crowd)
{
    crowd_settle(crowd);
    cancel_all(crowd);
    crowd_settle(crowd);
    collect_all(crowd);
    for (int round = 0; round < 3; round++)
        receive_any(crowd);
    receive_rest(crowd);
    for (int i = 0; i < crowd->open_count; i++)
        check_rank(crowd, crowd->open[i]);
}

void crowd_add_counts(const struct crowd *crowd, struct msg_counts *counts)
{
    for (int i = 0; i < crowd->open_count; i++) {
        const struct msg_counts *one = &crowd->rank[crowd->open[i]].engine->counts;
        counts->inlined += one->inlined;
        counts->bulk += one->bulk;
        counts->queued += one->queued;
        counts->announced += one->announced;
        counts->direct += one->direct;
        counts->shared += one->shared;
        counts->piped += one->piped;
        counts->held += one->held;
        counts->found += one->found;
        counts->promoted += one->promoted;
        counts->given_back += one->given_back;
    }
}
