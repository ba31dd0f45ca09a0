/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floods of numbered messages, and what the message layer holds meanwhile.
 *
 * A receiver first lets its pools fill, looking for a message that never comes, and only then
 * receives. Advantage: the last messages of a flood have met full pools. Disadvantage: a receiver
 * that looks three thousand times while its senders do not run goes on too early, and tries less.
 */
#ifndef LEAT_TEST_MULTI_MSG_FLOOD_H
#define LEAT_TEST_MULTI_MSG_FLOOD_H

#include "multi/msg_ranks.h"

#define MSG_NEVER_TAG 999999

static inline leat_stats msg_stats(const struct rank_thread *self)
{
    leat_stats stats = {.size = sizeof stats};
    leat_stats_read(self->job, LEAT_ALL_PEERS, &stats);
    return stats;
}

static inline leat_pool_stats msg_pool(const struct rank_thread *self, const char *name)
{
    leat_stats stats = msg_stats(self);
    for (int i = 0; i < stats.msg_pool_count; i++)
        if (!strcmp(stats.msg_pool[i].name, name))
            return stats.msg_pool[i];
    return (leat_pool_stats){.limit_bytes = 0};
}

/* Messages sent so far, by all protocols. */
__attribute__((unused)) static uint64_t msg_sent(const struct rank_thread *self)
{
    leat_stats stats = msg_stats(self);
    return stats.msg_inline + stats.msg_bulk + stats.msg_queued + stats.msg_announced;
}

__attribute__((unused)) static void msg_check_sent(struct rank_thread *self, uint64_t before,
                                                   uint64_t count)
{
    uint64_t sent = msg_sent(self) - before;
    leat_stats stats = msg_stats(self);
    rank_check(self, sent == count,
               "%llu messages are counted, %llu were sent (in all inline %llu, bulk %llu, queued "
               "%llu, announced %llu)",
               (unsigned long long)sent, (unsigned long long)count,
               (unsigned long long)stats.msg_inline, (unsigned long long)stats.msg_bulk,
               (unsigned long long)stats.msg_queued, (unsigned long long)stats.msg_announced);
}

/* One of the pools for unexpected messages takes no more but for a page or two. */
static inline bool msg_pools_are_full(const struct rank_thread *self)
{
    leat_pool_stats headers = msg_pool(self, "headers"), bytes = msg_pool(self, "bytes");
    return headers.used_bytes > headers.limit_bytes / 8 * 7 ||
           bytes.used_bytes > bytes.limit_bytes / 8 * 7;
}

/* Looks until they are full, or nothing more comes. */
__attribute__((unused)) static void msg_fill_pools(struct rank_thread *self, leat_comm *comm)
{
    uint64_t before = 0;
    for (int same = 0; same < 3000; same++) {
        uint64_t used = msg_stats(self).msg_used_bytes;
        if (used != before)
            same = msg_pools_are_full(self) ? 2900 : 0;
        before = used;
        if (!msg_gives(self, -ETIMEDOUT,
                       leat_probe(comm, LEAT_ANY_RANK, MSG_NEVER_TAG, 0, NULL, NULL)))
            return;
        sched_yield();
    }
}

/* Used and peak within the budget, each pool within its limit, the limits within the budget. */
__attribute__((unused)) static void msg_check_budget(struct rank_thread *self)
{
    leat_stats stats = msg_stats(self);
    uint64_t used = 0, limits = 0;
    for (int i = 0; i < stats.msg_pool_count; i++) {
        const leat_pool_stats *pool = &stats.msg_pool[i];
        rank_check(self, pool->used_bytes <= pool->peak_bytes, "pool %s: peak", pool->name);
        rank_check(self, pool->peak_bytes <= pool->limit_bytes, "pool %s: %llu of %llu bytes",
                   pool->name, (unsigned long long)pool->peak_bytes,
                   (unsigned long long)pool->limit_bytes);
        used += pool->used_bytes;
        limits += pool->limit_bytes;
    }
    rank_check(self, used == stats.msg_used_bytes, "pools hold %llu bytes, all %llu",
               (unsigned long long)used, (unsigned long long)stats.msg_used_bytes);
    rank_check(self, limits <= stats.msg_budget_bytes, "the limits pass the budget");
    rank_check(self, stats.msg_peak_bytes <= stats.msg_budget_bytes && stats.msg_peak_bytes >= used,
               "peak %llu of %llu bytes", (unsigned long long)stats.msg_peak_bytes,
               (unsigned long long)stats.msg_budget_bytes);
}

/* A value of /proc/self/status, in bytes. */
__attribute__((unused)) static uint64_t msg_status_bytes(const char *name)
{
    char line[256];
    uint64_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            kilobytes = strtoull(line + strlen(name) + 1, NULL, 10);
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

/* LEAT_LONG=1: the whole of a case; over libfabric a quarter of the part. */
__attribute__((unused)) static uint64_t msg_scaled(uint64_t whole, uint64_t part)
{
    const char *all = getenv("LEAT_LONG");
    return all && *all && *all != '0' ? whole : msg_over_fabric() ? (part + 3) / 4 : part;
}

/* Message `number` of a rank begins with both and goes on with stamps. */
__attribute__((unused)) static void msg_number(uint8_t *memory, uint64_t bytes, int rank,
                                               uint64_t number)
{
    uint64_t word = number * 1000 + (uint64_t)rank;
    for (uint64_t place = 0; place + 8 <= bytes; place += 8) {
        memcpy(memory + place, &word, 8);
        word = word * 0xbf58476d1ce4e5b9ULL + 1;
    }
}

__attribute__((unused)) static bool msg_is_number(struct rank_thread *self, const uint8_t *memory,
                                                  uint64_t bytes, int rank, uint64_t number)
{
    uint64_t word = number * 1000 + (uint64_t)rank, seen;
    for (uint64_t place = 0; place + 8 <= bytes; place += 8) {
        memcpy(&seen, memory + place, 8);
        if (!rank_check(self, seen == word, "message %llu of rank %d was due, word %llu is %llx",
                        (unsigned long long)number, rank, (unsigned long long)place / 8,
                        (unsigned long long)seen))
            return false;
        word = word * 0xbf58476d1ce4e5b9ULL + 1;
    }
    return true;
}

#endif
