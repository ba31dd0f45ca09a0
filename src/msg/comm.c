// SPDX-License-Identifier: Apache-2.0
// Communicators.
//
// Algorithm: making one is two collectives over its parent. A maximum agrees on what all need
// alike: the next number for messages that no member uses, the size of the buffer for collectives
// that everybody can spare, and whether all called for the same kind. For a division an allgather
// brings everybody's color and key, into memory that becomes the table of members. Advantage: no
// rank is asked alone, and groups of one division share a number, since they share no rank.
// Disadvantage: a division takes 16 bytes a rank of the parent for a moment, and 4 or 8 a member
// for good.

#include "msg/coll.h"

#include "core/error.h"
#include "core/job.h"
#include "msg/survivors.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MOST_TEMP (64 * 1024)

// ---- One communicator ----

static uint64_t sorted_bytes(int rank_count)
{
    return (uint64_t)rank_count * sizeof(int32_t);
}

static struct coll_comm *comm_make(struct msg_engine *engine, uint64_t temp_bytes)
{
    struct msg_memory *memory = engine->memory;
    uint8_t *temp = memory && !engine->world ? memory->buffer(memory, temp_bytes) : NULL;
    uint64_t bytes = sizeof(struct coll_comm) + (temp ? 0 : temp_bytes);
    struct coll_comm *own = msg_alloc(&engine->pools, POOL_WORK, bytes);
    if (!own)
        return NULL;
    own->own_bytes = bytes;
    own->temp_bytes = temp_bytes;
    own->temp = temp ? temp : (uint8_t *)(own + 1);
    own->comm.engine = engine;
    return own;
}

static void comm_free(struct coll_comm *own)
{
    struct msg_engine *engine = own->comm.engine;
    msg_free(&engine->pools, POOL_WORK, own->sorted, sorted_bytes(own->comm.rank_count));
    msg_free(&engine->pools, POOL_WORK, own->comm.group, sorted_bytes(own->comm.rank_count));
    msg_free(&engine->pools, POOL_WORK, own, own->own_bytes);
}

static void comm_link(struct coll_comm *own)
{
    own->comm.next = own->comm.engine->comms;
    own->comm.engine->comms = &own->comm;
    coll_break_early(&own->comm);
}

static void comm_unlink(struct coll_comm *own)
{
    leat_comm **link = &own->comm.engine->comms;
    while (*link != &own->comm)
        link = &(*link)->next;
    *link = own->comm.next;
}

void coll_comm_release(leat_comm *comm)
{
    struct coll_comm *own = coll_of(comm);
    if (own->freed && !own->running)
        comm_free(own);
}

void leat_comm_free(leat_comm *comm)
{
    if (!comm || comm == comm->engine->world)
        return;
    struct coll_comm *own = coll_of(comm);
    own->freed = true;
    own->parked = NULL;
    comm_unlink(own);
    msg_collective_abandon(comm->engine, comm);
    coll_comm_release(comm);
}

void msg_comms_close(struct msg_engine *engine)
{
    msg_collective_abandon(engine, NULL);
    while (engine->tellers) {
        struct coll_comm *own = engine->tellers;
        engine->tellers = own->next_teller;
        own->running--;
        coll_comm_release(&own->comm);
    }
    while (engine->comms) {
        struct coll_comm *own = coll_of(engine->comms);
        engine->comms = own->comm.next;
        comm_free(own);
    }
    if (engine->world)
        comm_free(coll_of(engine->world));
    engine->world = NULL;
}

// ---- Asking ----

int leat_comm_info_get(const leat_comm *comm, leat_comm_info *info)
{
    int error = leat_need(comm, "leat_comm_info_get", "comm");
    if (!error)
        error = leat_need(info, "leat_comm_info_get", "info");
    if (error)
        return error;
    if (info->size < sizeof info->size)
        return leat_fail(-EINVAL, "leat_comm_info.size is %zu; set it to sizeof", info->size);
    leat_comm_info full = {.size = info->size,
                           .rank = comm->rank,
                           .rank_count = comm->rank_count,
                           .job = comm->engine->job};
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}

int leat_comm_job_rank(const leat_comm *comm, int rank)
{
    int error = leat_need(comm, "leat_comm_job_rank", "comm");
    if (error)
        return error;
    if (rank < 0 || rank >= comm->rank_count)
        return leat_fail(-EINVAL, "rank %d is not in the communicator, which has ranks 0 to %d",
                         rank, comm->rank_count - 1);
    return msg_comm_job_rank(comm, rank);
}

int msg_comm_rank_of(const leat_comm *comm, int job_rank)
{
    if (!comm->group)
        return job_rank < comm->rank_count ? job_rank : -1;
    const int32_t *sorted = coll_of(comm)->sorted;
    int low = 0, high = comm->rank_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (comm->group[sorted ? sorted[middle] : middle] < job_rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == comm->rank_count)
        return -1;
    int rank = sorted ? sorted[low] : low;
    return comm->group[rank] == job_rank ? rank : -1;
}

// ---- Sorting: in place, so that no memory is needed that is not counted ----

static void sink(int64_t *word, int at, int end)
{
    for (int child; (child = 2 * at + 1) < end; at = child) {
        if (child + 1 < end && word[child] < word[child + 1])
            child++;
        if (word[at] >= word[child])
            return;
        int64_t moved = word[at];
        word[at] = word[child];
        word[child] = moved;
    }
}

// Heap sort.
static void sort_words(int64_t *word, int count)
{
    for (int at = count / 2 - 1; at >= 0; at--)
        sink(word, at, count);
    for (int end = count - 1; end > 0; end--) {
        int64_t largest = word[0];
        word[0] = word[end];
        word[end] = largest;
        sink(word, 0, end);
    }
}

// A word that sorts by `high`, then by `low`, which is not negative.
static int64_t word_of(int32_t high, int32_t low)
{
    return (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

static int32_t low_of(int64_t word)
{
    return (int32_t)((uint64_t)word & 0xffffffff);
}

static int32_t high_of(int64_t word)
{
    return (int32_t)((uint64_t)word >> 32);
}

// ---- Making one ----

// What a split holds until it is done.
struct split {
    leat_comm *parent;
    const leat_comm_options *options;
    int color;
    int64_t *word;       // a rank of the parent: color and key, then key and rank of members
    void *spare[2];      // as much as the tables of members may take
    uint64_t temp_bytes; // agreed
    uint32_t context;    // agreed
    struct coll_comm *made;
};

static uint64_t word_bytes(const struct split *split)
{
    return (uint64_t)split->parent->rank_count * sizeof(int64_t);
}

static void split_end(struct split *split)
{
    struct msg_pools *pools = &split->parent->engine->pools;
    msg_free(pools, POOL_WORK, split->word, word_bytes(split));
    for (int i = 0; i < 2; i++)
        msg_free(pools, POOL_WORK, split->spare[i], sorted_bytes(split->parent->rank_count));
    split->word = NULL;
}

// Takes what only the number of ranks decides; false: no room.
static bool split_begin(struct split *split)
{
    struct msg_pools *pools = &split->parent->engine->pools;
    split->word = msg_alloc(pools, POOL_WORK, word_bytes(split));
    for (int i = 0; i < 2; i++)
        split->spare[i] = msg_alloc(pools, POOL_WORK, sorted_bytes(split->parent->rank_count));
    return split->word && split->spare[0] && split->spare[1];
}

// The largest buffer that leaves most of the pool to others; 0: none.
static uint64_t temp_offer(const struct msg_engine *engine)
{
    const struct msg_pool *pool = &engine->pools.pool[POOL_WORK];
    uint64_t room = pool->limit > pool->used ? pool->limit - pool->used : 0;
    uint64_t rest =
        engine->pools.budget > engine->pools.used ? engine->pools.budget - engine->pools.used : 0;
    room = room < rest ? room : rest;
    uint64_t least = sizeof(struct coll_comm) + 2 * COLL_LEAST_TEMP;
    if (room < least)
        return 0;
    uint64_t offer = MOST_TEMP;
    while (offer > COLL_LEAST_TEMP && offer > room / 16)
        offer /= 2;
    return offer;
}

static int no_room(const struct split *split, uint64_t who)
{
    const struct msg_pool *pool = &split->parent->engine->pools.pool[POOL_WORK];
    return leat_fail(-ENOBUFS,
                     "leat_comm_split of %d ranks: rank %" PRIu64
                     " has no room for it in its pool of work (here %" PRIu64 " of %" PRIu64
                     " bytes are used; it takes at least %" PRIu64
                     " more); free communicators or raise LEAT_MSG_BUDGET",
                     split->parent->rank_count, who - 1, pool->used, pool->limit,
                     (uint64_t)sizeof(struct coll_comm) + COLL_LEAST_TEMP + 2 * word_bytes(split));
}

static int used_up(void)
{
    return leat_fail(-EOVERFLOW, "leat_comm_split: all numbers of communicators are used up");
}

// Agrees on the number of the new communicator and on its buffer.
static int split_agree(struct split *split, bool begun)
{
    leat_comm *parent = split->parent;
    struct msg_engine *engine = parent->engine;
    uint64_t offer = begun ? temp_offer(engine) : 0;
    uint64_t kind = (uint64_t)split->options->kind;
    // Complements make minima of maxima.
    uint64_t all[5] = {engine->next_context, ~offer, kind, ~kind,
                       offer ? 0 : (uint64_t)engine->net->rank + 1};
    leat_collective_options agree = {.size = sizeof agree,
                                     .kind = LEAT_ALLREDUCE,
                                     .send = LEAT_IN_PLACE,
                                     .receive = all,
                                     .count = 5,
                                     .type = LEAT_UINT64,
                                     .operation = LEAT_MAXIMUM};
    int error = leat_collective(parent, &agree, NULL);
    if (error)
        return leat_fail_in(error, "leat_comm_split");
    if (all[2] != ~all[3])
        return leat_fail(-EPROTO,
                         "leat_comm_split: ranks call for different kinds, %" PRIu64 " and %" PRIu64
                         "; here %d",
                         ~all[3], all[2], (int)split->options->kind);
    if (all[4])
        return no_room(split, all[4]);
    uint64_t context = all[0] > 2 ? all[0] : 2; // the job's own has 0
    if (context > UINT32_MAX - 3)
        return used_up();
    split->context = (uint32_t)context;
    split->temp_bytes = ~all[1];
    engine->next_context = (uint32_t)context + 2;
    return 0;
}

static int split_make(struct split *split, int rank, int rank_count)
{
    struct msg_engine *engine = split->parent->engine;
    split->made = comm_make(engine, split->temp_bytes);
    if (!split->made)
        return leat_fail(-ENOMEM, "leat_comm_split: the system has no memory for it");
    split->made->comm.context = split->context;
    split->made->comm.rank = rank;
    split->made->comm.rank_count = rank_count;
    return 0;
}

static int no_table(void)
{
    return leat_fail(-ENOMEM, "leat_comm_split: the system has no memory for the members' table");
}

// Keeps the table of members, given as the parent's ranks in order, as job ranks, and how to find
// them; none where they are the job's first ranks in order.
static int split_table(struct split *split, int64_t *word, int count)
{
    leat_comm *parent = split->parent;
    struct msg_pools *pools = &parent->engine->pools;
    bool same = true, rising = true;
    for (int i = 0; i < count; i++) {
        int32_t rank = msg_comm_job_rank(parent, low_of(word[i]));
        word[i] = word_of(rank, i);
        same = same && rank == i;
        rising = rising && (!i || word[i - 1] < word[i]);
    }
    if (same)
        return 0;
    // This much is sure to be free now.
    for (int i = 0; i < 2; i++) {
        msg_free(pools, POOL_WORK, split->spare[i], sorted_bytes(parent->rank_count));
        split->spare[i] = NULL;
    }
    split->made->comm.group = msg_alloc(pools, POOL_WORK, sorted_bytes(count));
    if (!split->made->comm.group)
        return no_table();
    for (int i = 0; i < count; i++)
        split->made->comm.group[i] = high_of(word[i]);
    if (rising)
        return 0;
    split->made->sorted = msg_alloc(pools, POOL_WORK, sorted_bytes(count));
    if (!split->made->sorted)
        return no_table();
    sort_words(word, count);
    for (int i = 0; i < count; i++)
        split->made->sorted[i] = low_of(word[i]);
    return 0;
}

// Leaves the members of the own color in order, by key and rank; their number.
static int split_members(struct split *split)
{
    int count = 0;
    for (int rank = 0; rank < split->parent->rank_count; rank++)
        if (high_of(split->word[rank]) == split->color)
            split->word[count++] = word_of(low_of(split->word[rank]), rank);
    sort_words(split->word, count);
    return count;
}

static int split_by_color(struct split *split)
{
    leat_comm *parent = split->parent;
    split->word[parent->rank] = word_of(split->color, split->options->key);
    leat_collective_options gather = {.size = sizeof gather,
                                      .kind = LEAT_ALLGATHER,
                                      .send = LEAT_IN_PLACE,
                                      .receive = split->word,
                                      .count = 1,
                                      .type = LEAT_INT64};
    int error = leat_collective(parent, &gather, NULL);
    if (error)
        return leat_fail_in(error, "leat_comm_split");
    if (split->color < 0)
        return 0;
    int count = split_members(split), rank = 0;
    while (low_of(split->word[rank]) != parent->rank)
        rank++;
    error = split_make(split, rank, count);
    return error ? error : split_table(split, split->word, count);
}

static int split_duplicate(struct split *split)
{
    leat_comm *parent = split->parent;
    int error = split_make(split, parent->rank, parent->rank_count);
    if (error || !parent->group)
        return error;
    for (int rank = 0; rank < parent->rank_count; rank++)
        split->word[rank] = word_of(0, rank);
    return split_table(split, split->word, parent->rank_count);
}

// The lowest rank whose segment this rank has mapped, too: the same for all that have.
static int host_of(const struct msg_engine *engine)
{
    int rank = 0;
    while (engine->job && leat_rank_away(engine->job, rank))
        rank++;
    return rank;
}

static int world_get(struct msg_engine *engine)
{
    if (!engine->world) {
        struct coll_comm *own = comm_make(engine, COLL_WORLD_TEMP);
        if (!own)
            return leat_fail(-ENOBUFS,
                             "the job's communicator takes %" PRIu64 " bytes of the pool of work, "
                             "which has %" PRIu64 "; raise LEAT_MSG_BUDGET",
                             msg_collective_reserve_bytes(), engine->pools.pool[POOL_WORK].limit);
        own->comm.rank = engine->net->rank;
        own->comm.rank_count = engine->net->rank_count;
        engine->world = &own->comm;
    }
    return 0;
}

static int check_options(const struct msg_engine *engine, const leat_comm_options *options)
{
    if ((unsigned)options->kind > LEAT_COMM_SURVIVORS)
        return leat_fail(-EINVAL, "leat_comm_split: kind %d is none of leat_comm_kind",
                         (int)options->kind);
    if (options->parent && options->parent->engine != engine)
        return leat_fail(-EINVAL, "leat_comm_split: the parent is of another job or rank");
    return 0;
}

static int split_survivors(struct split *split, bool begun)
{
    leat_comm *parent = split->parent;
    struct msg_engine *engine = parent->engine;
    struct msg_proposal found;
    int error = msg_survivors_agree(parent, begun ? temp_offer(engine) : 0, &found);
    if (error)
        return error;
    if (!found.temp_bytes)
        return leat_fail(-ENOBUFS, "leat_comm_split: a survivor has no room for it in its pool of "
                                   "work; free communicators or raise LEAT_MSG_BUDGET");
    if (found.context > UINT32_MAX - 3)
        return used_up();
    split->context = found.context;
    split->temp_bytes = found.temp_bytes;
    engine->next_context = found.context + 2;
    int count = 0, own = 0;
    for (int rank = 0; rank < parent->rank_count; rank++) {
        if (!msg_proposal_has(&found, rank))
            continue;
        own = rank == parent->rank ? count : own;
        split->word[count++] = word_of(0, rank);
    }
    error = split_make(split, own, count);
    return error ? error : split_table(split, split->word, count);
}

static int split_all(struct split *split, bool begun)
{
    int error = split_agree(split, begun);
    if (error)
        return error;
    return split->options->kind == LEAT_COMM_DUPLICATE ? split_duplicate(split)
                                                       : split_by_color(split);
}

static int split(struct split *split)
{
    bool begun = split_begin(split);
    int error = split->options->kind == LEAT_COMM_SURVIVORS ? split_survivors(split, begun)
                                                            : split_all(split, begun);
    split_end(split);
    if (error && split->made)
        comm_free(split->made);
    return error;
}

int leat_comm_split(leat_job *job, const leat_comm_options *options, leat_comm **comm)
{
    int error = leat_need(comm, "leat_comm_split", "comm");
    struct msg_engine *engine;
    if (!error)
        error = leat_need(job, "leat_comm_split", "job");
    if (!error && options && options->size < sizeof options->size)
        error =
            leat_fail(-EINVAL, "leat_comm_options.size is %zu; set it to sizeof", options->size);
    if (!error)
        error = msg_engine_of(job, &engine);
    if (error)
        return error;
    error = world_get(engine);
    if (error)
        return error;
    if (!options) {
        *comm = engine->world;
        return 0;
    }
    leat_comm_options full = {.size = 0};
    memcpy(&full, options, options->size < sizeof full ? options->size : sizeof full);
    error = check_options(engine, &full);
    if (error)
        return error;
    struct split making = {.parent = full.parent ? full.parent : engine->world,
                           .options = &full,
                           .color = full.kind == LEAT_COMM_HOST ? host_of(engine) : full.color};
    error = split(&making);
    if (error)
        return error;
    if (making.made)
        comm_link(making.made);
    *comm = making.made ? &making.made->comm : NULL;
    return 0;
}
