// SPDX-License-Identifier: Apache-2.0
// The engines of a script in one state: see msg_world.h.

#include "proof/msg_world.h"

#include "msg/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_ROUNDS 2 /* of progress without news, after which a rank may sleep */
#define GUARD        0xa7

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
}

__attribute__((format(printf, 2, 3))) static void violate(struct world *world, const char *format,
                                                          ...)
{
    if (world->violation[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->violation, sizeof world->violation, format, arguments);
    va_end(arguments);
}

static struct call *call_of(const struct world *world, int rank, int op)
{
    return &world->call[rank * SCRIPT_OPS + op];
}

static const struct script_op *op_of(const struct world *world, int rank)
{
    int next = world->next_op[rank];
    const struct script_op *op = &world->script->op[rank][next];
    return next < SCRIPT_OPS && op->kind != OP_NONE ? op : NULL;
}

// ---- messages ----

static char byte_of(int from, int to, uint32_t sequence, uint64_t at)
{
    return (char)(mix(mix(mix(1, (uint64_t)from), (uint64_t)to), sequence) >> at % 8 * 8);
}

static uint32_t sent_before(const struct world *world, int from, int to, int op)
{
    uint32_t count = 0;
    for (int i = 0; i < op; i++) {
        const struct script_op *other = &world->script->op[from][i];
        count +=
            (other->kind == OP_SEND || other->kind == OP_SEND_SYNCHRONOUS) && other->peer == to;
    }
    return count;
}

static void begin_send(struct world *world, int rank, int number, const struct script_op *op)
{
    struct call *call = call_of(world, rank, number);
    call->sequence = sent_before(world, rank, op->peer, number);
    for (uint64_t i = 0; i < op->bytes; i++)
        call->memory[i] = byte_of(rank, op->peer, call->sequence, i);
    leat_data data = {.address = call->memory, .bytes = op->bytes};
    msg_start_send(world->engine[rank], msg_request_of(&call->request), &world->comm[rank], 0, data,
                   op->peer, op->tag, op->kind == OP_SEND_SYNCHRONOUS);
}

static leat_data room_of(struct call *call, uint64_t bytes)
{
    memset(call->memory, GUARD, sizeof call->memory);
    call->receiving = true;
    return (leat_data){.address = call->memory, .bytes = bytes};
}

static bool begin_probe(struct world *world, int rank, int number, const struct script_op *op)
{
    struct call *call = call_of(world, rank, number);
    int error = leat_probe(&world->comm[rank], op->peer, op->tag, 0, &call->probed, &call->request);
    if (error && error != -ETIMEDOUT)
        violate(world, "a probe of rank %d ended with %d", rank, error);
    if (error)
        return false;
    if (leat_recv_matched(room_of(call, op->bytes), NULL, &call->request, 0))
        violate(world, "rank %d cannot receive what it probed", rank);
    return true;
}

static void revoke(struct world *world, int rank, int from)
{
    struct msg_engine *engine = world->engine[rank];
    uint32_t index = msg_peer_find(engine, from);
    if (!index || msg_peer_at(engine, index)->in_state != IN_OPEN)
        return;
    msg_peer_at(engine, index)->in_state = IN_REVOKED;
    msg_peer_owe(engine, index, TODO_REVOKE);
}

// False: nothing has begun, it is tried again.
static bool begin(struct world *world, int rank, const struct script_op *op)
{
    int number = world->next_op[rank];
    struct call *call = call_of(world, rank, number);
    call->order = (uint32_t)number;
    switch (op->kind) {
    case OP_SEND:
    case OP_SEND_SYNCHRONOUS:
        begin_send(world, rank, number, op);
        break;
    case OP_RECEIVE:
        msg_start_receive(world->engine[rank], msg_request_of(&call->request), &world->comm[rank],
                          0, room_of(call, op->bytes), op->peer, op->tag);
        break;
    case OP_CANCEL:
        leat_cancel(&call_of(world, rank, op->tag)->request);
        break;
    case OP_REVOKE:
        revoke(world, rank, op->peer);
        break;
    case OP_PROBE:
        if (!begin_probe(world, rank, number, op))
            return false;
        break;
    default:
        break;
    }
    call->begun = op->kind != OP_CANCEL && op->kind != OP_REVOKE;
    world->next_op[rank]++;
    return true;
}

// ---- making one ----

// What is unexpected finds no room: the pools hold what they hold and no more.
static void close_pools(struct msg_engine *engine)
{
    struct msg_pool *pool = engine->pools.pool;
    pool[POOL_HEADERS].limit = pool[POOL_HEADERS].used;
    pool[POOL_BYTES].limit = pool[POOL_BYTES].used;
}

static void open_rank(struct world *world, int rank)
{
    const struct script *script = world->script;
    struct msg_net *net = memory_fabric_open(world->fabric, rank);
    int error = msg_engine_open(net, &script->tuning, &world->engine[rank]);
    if (error) {
        fprintf(stderr, "%s: %s\n", script->name, leat_error_detail());
        abort();
    }
    if (script->no_room)
        close_pools(world->engine[rank]);
    world->comm[rank] =
        (leat_comm){.engine = world->engine[rank], .rank = rank, .rank_count = script->rank_count};
}

struct world *world_new(const struct script *script)
{
    struct world *world = calloc(1, sizeof *world);
    struct memory_options net = script->net;
    net.rank_count = script->rank_count;
    net.manual = true;
    world->script = script;
    world->fabric = memory_fabric_new(&net);
    world->call = calloc(SCRIPT_RANKS * SCRIPT_OPS, sizeof *world->call);
    world->batch = -1;
    for (int rank = 0; rank < script->rank_count; rank++)
        open_rank(world, rank);
    const struct script_op *op;
    for (int rank = 0; rank < script->rank_count; rank++)
        while ((op = op_of(world, rank)) != NULL && op->first)
            begin(world, rank, op);
    return world;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    for (int rank = 0; rank < world->script->rank_count; rank++)
        msg_engine_close(world->engine[rank]);
    memory_fabric_free(world->fabric);
    free(world->call);
    free(world);
}

// ---- what can happen ----

enum move_kind { MOVE_OP, MOVE_PROGRESS, MOVE_DELIVER };

struct move {
    enum move_kind kind;
    size_t which; /* rank, or the fabric's choice */
};

// Deliveries that change different things are made in one order only: puts and copies by number,
// then packets, which lie in the queue as they came.
static bool may_deliver(const struct world *world, size_t event)
{
    struct memory_choice choice = memory_fabric_choice(world->fabric, event);
    if (world->batch < 0)
        return true;
    if (choice.rank != world->batch)
        return false;
    return choice.packet || (!world->batch_packets && choice.number > world->batch_last);
}

static bool find_move(const struct world *world, size_t choice, struct move *move)
{
    int ranks = world->script->rank_count;
    for (int rank = 0; rank < ranks; rank++) {
        *move = (struct move){MOVE_OP, (size_t)rank};
        if (world->batch < 0 && op_of(world, rank) && choice-- == 0)
            return true;
    }
    for (int rank = 0; rank < ranks; rank++) {
        *move = (struct move){MOVE_PROGRESS, (size_t)rank};
        if ((world->batch < 0 || world->batch == rank) && choice-- == 0)
            return true;
    }
    size_t events = memory_fabric_choices(world->fabric);
    for (size_t event = 0; event < events; event++) {
        *move = (struct move){MOVE_DELIVER, event};
        if (may_deliver(world, event) && choice-- == 0)
            return true;
    }
    return false;
}

size_t world_choices(const struct world *world)
{
    struct move move;
    size_t count = 0;
    while (find_move(world, count, &move))
        count++;
    return count;
}

void world_describe(const struct world *world, size_t choice, char *text, size_t room)
{
    struct move move;
    if (!find_move(world, choice, &move))
        snprintf(text, room, "?");
    else if (move.kind == MOVE_DELIVER)
        memory_fabric_describe(world->fabric, move.which, text, room);
    else if (move.kind == MOVE_PROGRESS)
        snprintf(text, room, "progress %zu", move.which);
    else
        snprintf(text, room, "rank %zu calls its %d.", move.which, world->next_op[move.which]);
}

// All that an engine can see: where memory is mapped, others' too.
static uint64_t visible(const struct world *world, int rank)
{
    uint64_t hash = memory_fabric_visible(world->fabric, rank);
    for (int other = 0; world->script->net.map && other < world->script->rank_count; other++)
        hash = mix(hash, memory_fabric_visible(world->fabric, other));
    return hash;
}

static bool progress_once(struct world *world, int rank)
{
    struct msg_engine *engine = world->engine[rank];
    uint64_t changes = memory_fabric_changes(world->fabric, rank);
    bool moved = msg_progress(engine, 0);
    return moved || memory_fabric_changes(world->fabric, rank) != changes;
}

static bool do_progress(struct world *world, int rank)
{
    uint64_t before = visible(world, rank);
    uint64_t learnt = memory_fabric_learnt(world->fabric, rank);
    bool moved = progress_once(world, rank);
    // Who waits sleeps once a few rounds have found nothing; nobody would wake it.
    for (int n = 1; !moved && n < QUIET_ROUNDS; n++)
        moved = progress_once(world, rank);
    if (!moved && progress_once(world, rank))
        violate(world, "rank %d had nothing to do %d times, and then it had", rank, QUIET_ROUNDS);
    if (moved)
        world->seen[rank] = mix(world->seen[rank], before);
    else
        memory_fabric_unlearn(world->fabric, rank, learnt);
    return moved;
}

static bool do_op(struct world *world, int rank)
{
    uint64_t before = visible(world, rank);
    uint64_t changes = memory_fabric_changes(world->fabric, rank);
    uint64_t events = world->engine[rank]->events;
    uint64_t learnt = memory_fabric_learnt(world->fabric, rank);
    if (!begin(world, rank, op_of(world, rank)) && events == world->engine[rank]->events &&
        changes == memory_fabric_changes(world->fabric, rank)) {
        memory_fabric_unlearn(world->fabric, rank, learnt);
        return false;
    }
    world->seen[rank] = mix(mix(world->seen[rank], before), (uint64_t)world->next_op[rank] + 1000);
    return true;
}

static void do_deliver(struct world *world, size_t event)
{
    struct memory_choice choice = memory_fabric_choice(world->fabric, event);
    memory_fabric_deliver(world->fabric, event);
    if (choice.rank < 0)
        return;
    if (world->batch < 0) {
        world->batch = choice.rank;
        world->batch_packets = false;
    }
    world->batch_packets |= choice.packet;
    world->batch_last = choice.number;
}

bool world_do(struct world *world, size_t choice)
{
    struct move move;
    if (!find_move(world, choice, &move))
        return false;
    bool changed = true;
    if (move.kind == MOVE_DELIVER)
        do_deliver(world, move.which);
    else if (move.kind == MOVE_OP)
        changed = do_op(world, (int)move.which);
    else
        changed = do_progress(world, (int)move.which);
    if (move.kind == MOVE_PROGRESS) {
        changed |= world->batch >= 0;
        world->batch = -1;
    }
    const char *misuse = memory_fabric_misuse(world->fabric);
    if (misuse)
        violate(world, "%s", misuse);
    return changed;
}

uint64_t world_hash(const struct world *world)
{
    uint64_t hash = mix(memory_fabric_hash(world->fabric), (uint64_t)(world->batch + 1));
    if (world->batch >= 0)
        hash = mix(mix(hash, world->batch_packets), world->batch_last);
    for (int rank = 0; rank < world->script->rank_count; rank++)
        hash = mix(mix(hash, world->seen[rank]), memory_fabric_visible(world->fabric, rank));
    return hash ? hash : 1;
}

// ---- the end ----

// Whether the message of a finished receive is the one with that number; bytes and guards.
static bool holds(const struct call *call, const struct script_op *sent, int from, int to,
                  uint32_t sequence, uint64_t room)
{
    uint64_t bytes = sent->bytes < room ? sent->bytes : room;
    for (uint64_t i = 0; i < bytes; i++)
        if (call->memory[i] != byte_of(from, to, sequence, i))
            return false;
    for (uint64_t i = bytes; i < sizeof call->memory; i++)
        if ((unsigned char)call->memory[i] != GUARD)
            return false;
    return true;
}

// In the order of posting each receive has the oldest message of its source that fits and is left.
static void judge(struct world *world, int rank, int number, bool taken[SCRIPT_RANKS][SCRIPT_OPS])
{
    const struct script_op *op = &world->script->op[rank][number];
    struct call *call = call_of(world, rank, number);
    const leat_status *status = &call->request.status;
    if (status->error == -ECANCELED)
        return;
    int from = status->source;
    if (from < 0 || from >= world->script->rank_count) {
        violate(world, "the receive %d of rank %d has source %d", number, rank, from);
        return;
    }
    for (int i = 0; i < SCRIPT_OPS; i++) {
        const struct script_op *sent = &world->script->op[from][i];
        if ((sent->kind != OP_SEND && sent->kind != OP_SEND_SYNCHRONOUS) || sent->peer != rank ||
            taken[from][i] || (op->tag >= 0 && op->tag != sent->tag))
            continue;
        taken[from][i] = true;
        if (status->error != (sent->bytes > op->bytes ? -EMSGSIZE : 0) ||
            status->tag != sent->tag ||
            !holds(call, sent, from, rank, sent_before(world, from, rank, i), op->bytes))
            violate(world,
                    "the receive %d of rank %d has another message than number %d of rank %d, "
                    "or not all of it (error %d)",
                    number, rank, i, from, status->error);
        return;
    }
    violate(world, "the receive %d of rank %d has what nobody sent", number, rank);
}

void world_end(struct world *world)
{
    bool taken[SCRIPT_RANKS][SCRIPT_OPS] = {{false}};
    const char *misuse = memory_fabric_check(world->fabric);
    if (misuse)
        violate(world, "%s", misuse);
    for (int rank = 0; rank < world->script->rank_count; rank++) {
        if (op_of(world, rank))
            violate(world, "deadlock: rank %d never found what it probed for", rank);
        for (int number = 0; number < world->next_op[rank]; number++) {
            struct call *call = call_of(world, rank, number);
            bool stays = call->receiving && world->script->may_stay &&
                         msg_request_of(&call->request)->state == STATE_PENDING;
            if (call->begun && !stays && !msg_finished(msg_request_of(&call->request)))
                violate(world, "deadlock: call %d of rank %d is not finished (state %d)", number,
                        rank, msg_request_of(&call->request)->state);
        }
    }
    for (int rank = 0; rank < world->script->rank_count && !world->violation[0]; rank++) {
        for (int number = 0; number < world->next_op[rank]; number++)
            if (call_of(world, rank, number)->receiving &&
                msg_finished(msg_request_of(&call_of(world, rank, number)->request)))
                judge(world, rank, number, taken);
        const struct msg_engine *engine = world->engine[rank];
        const struct msg_matcher *matcher = &engine->matcher;
        if ((matcher->posted_count && !world->script->may_stay) || engine->handles_live ||
            (engine->holding && !world->script->no_room))
            violate(world, "rank %d keeps %llu receives, %u handles, %u peers that hold back", rank,
                    (unsigned long long)matcher->posted_count, engine->handles_live,
                    engine->holding);
    }
}
