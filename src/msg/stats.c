// SPDX-License-Identifier: Apache-2.0
// The message layer's counts, as leat_stats_read shows them.
//
// Algorithm: the engine counts with plain stores; bytes are counted once, by the rank that moves
// them: the sender of what goes by ring, packet or pipe, the receiver of what it copies itself.
// Advantage: the sum over ranks is what was sent, by path. Disadvantage: one rank's own report has
// some messages at their other end.

#include "core/job.h"
#include "msg/engine.h"

#include <stdio.h>

void msg_count(struct msg_engine *engine, int peer, uint64_t bytes)
{
    if (!engine->job)
        return;
    struct message_counts *counts = &engine->job->message[peer];
    // Nobody else writes them, so no locked instruction is needed.
    __atomic_store_n(&counts->bytes, counts->bytes + bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->operations, counts->operations + 1, __ATOMIC_RELAXED);
}

static uint64_t look(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

void msg_stats_fill(const struct msg_engine *engine, leat_stats *stats)
{
    const struct msg_pools *pools = &engine->pools;
    const struct msg_counts *counts = &engine->counts;
    stats->msg_budget_bytes = pools->budget;
    stats->msg_used_bytes = look(&pools->used);
    stats->msg_peak_bytes = look(&pools->peak);
    stats->msg_pool_count = POOL_COUNT;
    for (int i = 0; i < POOL_COUNT; i++) {
        leat_pool_stats *pool = &stats->msg_pool[i];
        snprintf(pool->name, sizeof pool->name, "%s", msg_pool_names[i]);
        pool->used_bytes = look(&pools->pool[i].used);
        pool->peak_bytes = look(&pools->pool[i].peak);
        pool->limit_bytes = pools->pool[i].limit;
    }
    stats->msg_provider_bytes = look(&engine->net->provider_bytes);
    stats->msg_inline = look(&counts->inlined);
    stats->msg_bulk = look(&counts->bulk);
    stats->msg_queued = look(&counts->queued);
    stats->msg_announced = look(&counts->announced);
    stats->msg_direct = look(&counts->direct);
    stats->msg_shared = look(&counts->shared);
    stats->msg_piped = look(&counts->piped);
    stats->msg_gpu_small = look(&counts->gpu_small);
    stats->msg_gpu_direct = look(&counts->gpu_direct);
    stats->msg_gpu_staged = look(&counts->gpu_staged);
    stats->msg_held = look(&counts->held);
    stats->msg_found = look(&counts->found);
    stats->msg_rings_granted = look(&counts->promoted);
    stats->msg_rings_returned = look(&counts->given_back);
}
