// SPDX-License-Identifier: Apache-2.0
// Broadcast and allreduce along edge-disjoint trees of a torus ("Trinaryx3").
//
// Algorithm: the data is cut into as many parts as the ranks' torus has trees (sim/tree.h), three
// on three sides, and each part streams down its own tree chunk by chunk; for a sum it streams up
// first, is combined on the way, children in their order, and comes down the same tree as soon as
// the root has it. Chunks are announced and read by the receiver, whatever their size: one copy,
// straight into place. Advantage: three links of every rank are busy in each direction, neighbours
// only. Disadvantage: a chunk takes as many steps as the trees are deep; the order in which values
// are combined is that of the torus, so sums of floats differ in their last bits from those of
// other algorithms, which is why nobody gets this one for a sum without asking.

#include "msg/coll.h"

#include "sim/tree.h"

#define WINDOW    4 /* chunks of a stream that are under way */
#define SUMMED_AT 4 /* children of a rank in all trees, at most */

// Lanes: by tree, and the way up apart from the way down, since two ranks may be parent and child
// of each other in different trees.
enum way { DOWN, UP };

struct tree_child {
    int rank;
    uint32_t sent, sent_through;  // chunks down
    uint32_t posted, summed;      // chunks from below
    uint8_t send, receive, place; // first requests, and place in the buffer
};

struct tree {
    uint64_t from, bytes; // of the part
    uint32_t chunks;
    int parent;
    uint32_t up, up_through;   // chunks sent to the parent
    uint32_t posted, received; // chunks from the parent
    uint8_t up_send, receive;
    uint8_t child_count;
    uint8_t at_child; // the next one to be combined
    struct tree_child child[SIM_TREE_CHILDREN_MAX];
};

struct coll_trees {
    uint64_t chunk;
    int count;
    struct tree tree[SIM_TREES_MAX];
};

_Static_assert(sizeof(struct coll_trees) <= COLL_TREE_STATE, "trees fit into the state");
// To and from parents and children.
_Static_assert(2 * (SIM_TREES_MAX + SUMMED_AT) * WINDOW <= COLL_TREE_REQUESTS,
               "every stream has its requests");

static bool shape_of(const leat_comm *comm, struct sim_tree_shape *shape)
{
    const struct msg_net *net = comm->engine->net;
    return net->ops->torus && !comm->context && net->ops->torus(net, shape->side, shape->doubled) &&
           sim_tree_ranks(shape) == comm->rank_count;
}

bool coll_trees_fit(const leat_comm *comm)
{
    struct sim_tree_shape shape;
    return shape_of(comm, &shape) && sim_tree_count(&shape) > 0;
}

// ---- Setting up ----

static uint64_t chunk_of(const struct msg_schedule *schedule, const struct tree *tree,
                         uint32_t index)
{
    uint64_t chunk = ((const struct coll_trees *)schedule->state)->chunk;
    uint64_t left = tree->bytes - index * chunk;
    return left < chunk ? left : chunk;
}

static uint64_t chunk_bytes(const struct msg_schedule *schedule, bool summed)
{
    uint64_t most = schedule->engine->tuning.tree_bytes, element = schedule->call.element;
    uint64_t room = coll_of(schedule->comm)->temp_bytes / (SUMMED_AT * WINDOW);
    if (summed && most > room)
        most = room;
    return element > most ? element : most - most % element;
}

static void open_trees(struct msg_schedule *schedule, bool summed)
{
    struct coll_trees *trees = schedule->state;
    struct sim_tree_shape shape;
    uint8_t request = 0, place = 0;
    shape_of(schedule->comm, &shape);
    trees->count = sim_tree_count(&shape);
    trees->chunk = chunk_bytes(schedule, summed);
    for (int t = 0; t < trees->count; t++) {
        struct tree *tree = &trees->tree[t];
        struct sim_tree_place at;
        sim_tree_place(&shape, t, summed ? 0 : schedule->call.root, schedule->rank, &at);
        tree->from = coll_part(schedule, t, trees->count);
        tree->bytes = coll_part(schedule, t + 1, trees->count) - tree->from;
        tree->chunks = (uint32_t)((tree->bytes + trees->chunk - 1) / trees->chunk);
        tree->parent = at.parent;
        tree->child_count = (uint8_t)at.child_count;
        tree->receive = request;
        tree->up_send = (uint8_t)(request + WINDOW);
        request = (uint8_t)(request + (at.parent < 0 ? 0 : summed ? 2 * WINDOW : WINDOW));
        for (int c = 0; c < at.child_count; c++) {
            struct tree_child *child = &tree->child[c];
            child->rank = at.child[c];
            child->send = request;
            child->receive = (uint8_t)(request + WINDOW);
            child->place = place++;
            request = (uint8_t)(request + (summed ? 2 * WINDOW : WINDOW));
        }
    }
}

// ---- Down ----

static int lane(int tree, enum way way)
{
    return 2 * tree + (way == UP);
}

static void receive_down(struct msg_schedule *schedule, struct tree *tree, int t)
{
    uint64_t chunk = ((struct coll_trees *)schedule->state)->chunk;
    while (tree->received < tree->posted &&
           coll_finished(schedule, COLL_BIT(tree->receive + tree->received % WINDOW)))
        tree->received++;
    for (; tree->posted < tree->chunks && tree->posted - tree->received < WINDOW; tree->posted++)
        coll_receive(schedule, tree->receive + (int)(tree->posted % WINDOW), tree->parent,
                     lane(t, DOWN), schedule->call.receive + tree->from + tree->posted * chunk,
                     chunk_of(schedule, tree, tree->posted));
}

// True: all children have all of it.
static bool send_down(struct msg_schedule *schedule, struct tree *tree, int t)
{
    uint64_t chunk = ((struct coll_trees *)schedule->state)->chunk;
    bool over = true;
    for (int c = 0; c < tree->child_count; c++) {
        struct tree_child *child = &tree->child[c];
        while (child->sent_through < child->sent &&
               coll_finished(schedule, COLL_BIT(child->send + child->sent_through % WINDOW)))
            child->sent_through++;
        for (; child->sent < tree->received && child->sent - child->sent_through < WINDOW;
             child->sent++)
            coll_send_direct(schedule, child->send + (int)(child->sent % WINDOW), child->rank,
                             lane(t, DOWN),
                             schedule->call.receive + tree->from + child->sent * chunk,
                             chunk_of(schedule, tree, child->sent));
        over = over && child->sent_through == tree->chunks;
    }
    return over;
}

static bool broadcast_move(struct msg_schedule *schedule)
{
    struct coll_trees *trees = schedule->state;
    bool over = true;
    for (int t = 0; t < trees->count; t++) {
        struct tree *tree = &trees->tree[t];
        if (tree->parent < 0)
            tree->received = tree->chunks;
        else
            receive_down(schedule, tree, t);
        over = send_down(schedule, tree, t) && over && tree->received == tree->chunks;
    }
    return over && !schedule->error;
}

enum coll_step_result coll_broadcast_trinary(struct msg_schedule *schedule)
{
    COLL_BEGIN(schedule);
    open_trees(schedule, false);
    COLL_AWAIT(schedule, broadcast_move(schedule));
    COLL_END(schedule);
}

// ---- Up ----

static uint8_t *target_of(const struct msg_schedule *schedule, const struct tree *tree,
                          uint32_t index)
{
    const struct coll_trees *trees = schedule->state;
    return schedule->call.receive + tree->from + index * trees->chunk;
}

// Where a child's chunk is received: the first child's in place, if what it is combined with lies
// elsewhere.
static uint8_t *landing_of(const struct msg_schedule *schedule, const struct tree *tree, int c,
                           uint32_t index)
{
    const struct coll_trees *trees = schedule->state;
    if (!c && !schedule->call.in_place)
        return target_of(schedule, tree, index);
    return schedule->temp + (tree->child[c].place * WINDOW + index % WINDOW) * trees->chunk;
}

static void receive_up(struct msg_schedule *schedule, struct tree *tree, int t)
{
    for (int c = 0; c < tree->child_count; c++) {
        struct tree_child *child = &tree->child[c];
        for (; child->posted < tree->chunks && child->posted - child->summed < WINDOW;
             child->posted++)
            coll_receive(schedule, child->receive + (int)(child->posted % WINDOW), child->rank,
                         lane(t, UP), landing_of(schedule, tree, c, child->posted),
                         chunk_of(schedule, tree, child->posted));
    }
}

// Combines what has come, chunk after chunk and child after child; returns the chunks that are
// complete.
static uint32_t sum_up(struct msg_schedule *schedule, struct tree *tree, int t)
{
    if (!tree->child_count)
        return tree->chunks;
    receive_up(schedule, tree, t);
    for (;;) {
        struct tree_child *child = &tree->child[tree->at_child];
        uint32_t index = child->summed;
        if (index == child->posted ||
            !coll_finished(schedule, COLL_BIT(child->receive + index % WINDOW)))
            break;
        uint8_t *target = target_of(schedule, tree, index);
        uint8_t *came = landing_of(schedule, tree, tree->at_child, index);
        uint64_t bytes = chunk_of(schedule, tree, index);
        if (came == target)
            coll_combine(schedule, schedule->call.send + (target - schedule->call.receive), target,
                         bytes);
        else
            coll_combine(schedule, came, target, bytes);
        child->summed++;
        tree->at_child = (uint8_t)((tree->at_child + 1) % tree->child_count);
        receive_up(schedule, tree, t);
    }
    return tree->child[tree->child_count - 1].summed;
}

static void send_up(struct msg_schedule *schedule, struct tree *tree, int t, uint32_t ready)
{
    const uint8_t *from = tree->child_count ? schedule->call.receive : schedule->call.send;
    uint64_t chunk = ((struct coll_trees *)schedule->state)->chunk;
    while (tree->up_through < tree->up &&
           coll_finished(schedule, COLL_BIT(tree->up_send + tree->up_through % WINDOW)))
        tree->up_through++;
    for (; tree->up < ready && tree->up - tree->up_through < WINDOW; tree->up++)
        coll_send_direct(schedule, tree->up_send + (int)(tree->up % WINDOW), tree->parent,
                         lane(t, UP), from + tree->from + tree->up * chunk,
                         chunk_of(schedule, tree, tree->up));
}

static bool allreduce_move(struct msg_schedule *schedule)
{
    struct coll_trees *trees = schedule->state;
    bool over = true;
    for (int t = 0; t < trees->count; t++) {
        struct tree *tree = &trees->tree[t];
        uint32_t ready = sum_up(schedule, tree, t);
        if (tree->parent < 0) {
            tree->received = tree->up_through = ready;
        } else {
            send_up(schedule, tree, t, ready);
            receive_down(schedule, tree, t);
        }
        over = send_down(schedule, tree, t) && over && tree->received == tree->chunks &&
               tree->up_through == tree->chunks;
    }
    return over && !schedule->error;
}

enum coll_step_result coll_allreduce_trinary(struct msg_schedule *schedule)
{
    COLL_BEGIN(schedule);
    open_trees(schedule, true);
    COLL_AWAIT(schedule, allreduce_move(schedule));
    COLL_END(schedule);
}
