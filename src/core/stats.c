// SPDX-License-Identifier: Apache-2.0
// Counts: bytes and operations a path and a peer, launches, waits.
//
// Algorithm: each rank writes its own counters, relaxed; a table a peer is made at the first byte.
// Advantage: reading stops nothing and idle peers cost a pointer. Disadvantage: a reader on another
// thread sees counters that may belong to slightly different moments.

#include "file/internal.h"
#include "msg/engine.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void leat_count_path(struct leat_job *job, int peer, int row, uint64_t bytes, uint64_t operations)
{
    struct peer_counts *counts = job->peer[peer];
    if (!counts) {
        counts = calloc(1, sizeof *counts);
        if (!counts)
            return; // a lost count is no reason to lose the transfer
        __atomic_store_n(&job->peer[peer], counts, __ATOMIC_RELEASE);
    }
    leat_count(&counts->bytes[row], bytes);
    leat_count(&counts->operations[row], operations);
}

static void add_peer(const struct peer_counts *counts, struct peer_counts *sum)
{
    for (int row = 0; row < ROW_COUNT; row++) {
        sum->bytes[row] += __atomic_load_n(&counts->bytes[row], __ATOMIC_RELAXED);
        sum->operations[row] += __atomic_load_n(&counts->operations[row], __ATOMIC_RELAXED);
    }
}

static void add_messages(const struct message_counts *counts, int row, struct peer_counts *sum)
{
    sum->bytes[row] += __atomic_load_n(&counts->bytes, __ATOMIC_RELAXED);
    sum->operations[row] += __atomic_load_n(&counts->operations, __ATOMIC_RELAXED);
}

static void fill_paths(const struct peer_counts *sum, leat_stats *stats)
{
    for (int row = 0; row < ROW_COUNT; row++) {
        if (!sum->operations[row])
            continue;
        leat_path_stats *path = &stats->path[stats->path_count++];
        snprintf(path->path, sizeof path->path, "%s", leat_transports[row]->name);
        path->bytes = sum->bytes[row];
        path->operations = sum->operations[row];
    }
}

static void fill_files(const struct file_counts *counts, leat_stats *stats)
{
    for (int row = 0; row < FILE_ROWS; row++) {
        uint64_t operations = __atomic_load_n(&counts->operations[row], __ATOMIC_RELAXED);
        if (!operations)
            continue;
        leat_path_stats *path = &stats->path[stats->path_count++];
        snprintf(path->path, sizeof path->path, "%s", file_paths[row]->name);
        path->bytes = __atomic_load_n(&counts->bytes[row], __ATOMIC_RELAXED);
        path->operations = operations;
    }
}

_Static_assert(ROW_COUNT + FILE_ROWS <= LEAT_PATH_ROWS, "every path has a place");
_Static_assert(FILE_ROWS == LEAT_FILE_ROWS, "one count a path");

static int message_row(const leat_job *job, int rank)
{
    return rank == job->rank           ? ROW_SELF
           : leat_rank_away(job, rank) ? job->message_row
                                       : job->message_row_near;
}

int leat_stats_read(const leat_job *job, int peer, leat_stats *stats)
{
    int error = leat_need(job, "leat_stats_read", "job");
    if (!error)
        error = leat_need(stats, "leat_stats_read", "stats");
    if (error)
        return error;
    if (!stats->size)
        return leat_fail(-EINVAL, "leat_stats.size is 0; set it to sizeof(leat_stats)");
    if (peer < LEAT_ALL_PEERS || peer >= job->rank_count)
        return leat_fail(-EINVAL, "peer %d of a job of %d ranks", peer, job->rank_count);
    struct peer_counts sum = {0};
    for (int rank = 0; rank < job->rank_count; rank++) {
        const struct peer_counts *counts = __atomic_load_n(&job->peer[rank], __ATOMIC_ACQUIRE);
        bool wanted = peer == LEAT_ALL_PEERS || peer == rank;
        if (counts && wanted)
            add_peer(counts, &sum);
        if (job->message && wanted)
            add_messages(&job->message[rank], message_row(job, rank), &sum);
    }
    leat_stats read = {.size = stats->size};
    fill_paths(&sum, &read);
    if (peer == LEAT_ALL_PEERS || peer == job->rank)
        fill_files(&job->file_counts, &read);
    read.launches = __atomic_load_n(&job->counts.launches, __ATOMIC_RELAXED);
    read.blocking_waits = __atomic_load_n(&job->counts.blocking_waits, __ATOMIC_RELAXED);
    read.signal_waits = __atomic_load_n(&job->counts.signal_waits, __ATOMIC_RELAXED);
    read.wait_ns = __atomic_load_n(&job->counts.wait_ns, __ATOMIC_RELAXED);
    read.cpu_ns = __atomic_load_n(&job->counts.cpu_ns, __ATOMIC_RELAXED);
    read.proxy_orders = __atomic_load_n(&job->counts.proxy_orders, __ATOMIC_RELAXED);
    read.proxy_bytes = __atomic_load_n(&job->counts.proxy_bytes, __ATOMIC_RELAXED);
    read.arena_bytes = job->arena.bytes;
    read.arena_used_bytes = __atomic_load_n(&job->arena.used, __ATOMIC_RELAXED);
    read.arena_peak_bytes = __atomic_load_n(&job->arena.peak, __ATOMIC_RELAXED);
    if (job->msg)
        msg_stats_fill(job->msg, &read);
    size_t known = stats->size < sizeof read ? stats->size : sizeof read;
    memcpy(stats, &read, known);
    return 0;
}
