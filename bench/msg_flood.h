/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What messages cost in memory: after a word to everybody, and while nobody receives.
 *
 *     memory BYTES PEERS    BYTES to each of the PEERS next ranks; resident, highest resident and
 *                           private dirty bytes of the rank
 *     flood BYTES COUNT     COUNT messages in all from ranks 1.. to rank 0, which begins to receive
 *                           when all are sent or the senders wait. Rank 0: messages delivered,
 *                           1 when in order, growth of its highest resident bytes, messages sent
 *                           before it received one, ns a message of the receiving. Others: the
 *                           growth in the third place only.
 *
 * Algorithm of the flood: senders use plain blocking sends and count on a board, a file mapped by
 * all ranks, so that rank 0 sees without any message whether they still get on. It polls its
 * library meanwhile, as a program does that waits for something else.
 * Advantage: a library that lets senders wait and one that takes everything are measured by the
 * same program. Disadvantage: senders that are merely starved for a second look like waiting ones.
 */
#ifndef LEAT_BENCH_MSG_FLOOD_H
#define LEAT_BENCH_MSG_FLOOD_H

#include "msg_slice.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define FLOOD_QUIET_NS UINT64_C(1000000000)

/* ---- this process's memory ---- */

/* The bytes on the line of `file` that begins with `key`; 0 when there is none. */
static inline uint64_t memory_line(const char *file, const char *key)
{
    char line[256];
    uint64_t kib = 0;
    FILE *in = fopen(file, "r");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtoull(line + strlen(key), NULL, 10);
    if (in)
        fclose(in);
    return kib * 1024;
}

/* Lets the highest resident size begin at the present one; where that is forbidden it stays. */
static inline void memory_reset_peak(void)
{
    FILE *out = fopen("/proc/self/clear_refs", "w");
    if (out) {
        fputs("5\n", out);
        fclose(out);
    }
}

static inline int slice_memory(struct slice *slice, size_t bytes, uint64_t peers, double values[3])
{
    int error = 0, ranks = slice->rank_count;
    for (int i = 1; !error && i < ranks && (uint64_t)i <= peers; i++) {
        int to = (slice->rank + i) % ranks, from = (slice->rank - i + ranks) % ranks;
        slice_stamp(slice->out, bytes, slice->serial << 32 | (uint64_t)slice->rank);
        error = way_start_receive(slice->way, 0, slice->in, bytes, from);
        if (!error)
            error = way_start_send(slice->way, 1, slice->out, bytes, to);
        if (!error)
            error = way_finish(slice->way, 2);
        if (!error && slice_differs(slice->in, bytes, slice->serial << 32 | (uint64_t)from))
            error = slice_fail(slice, "a wrong message came from rank", (uint64_t)from);
    }
    values[0] = (double)memory_line("/proc/self/status", "VmRSS:");
    values[1] = (double)memory_line("/proc/self/status", "VmHWM:");
    values[2] = (double)memory_line("/proc/self/smaps_rollup", "Private_Dirty:");
    return error;
}

/* ---- flood ---- */

/* A cache line for each rank. */
struct flood_board {
    _Alignas(64) _Atomic uint64_t sent;
    uint64_t received; /* rank 0's own count of this sender's */
};

static inline struct flood_board *flood_open(struct slice *slice)
{
    char path[512];
    size_t bytes = (size_t)slice->rank_count * sizeof(struct flood_board);
    snprintf(path, sizeof path, "%s/%s.board", slice->directory, slice->side);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *board = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (board != MAP_FAILED)
        return board;
    slice_fail(slice, "cannot map the flood's board", bytes);
    return NULL;
}

static inline int flood_send(struct slice *slice, struct flood_board *board, size_t bytes,
                             uint64_t count)
{
    uint64_t senders = (uint64_t)slice->rank_count - 1, me = (uint64_t)slice->rank - 1;
    uint64_t mine = count / senders + (me < count % senders);
    int error = 0;
    slice_fill(slice->out, bytes, me);
    for (uint64_t i = 0; !error && i < mine; i++) {
        slice_stamp(slice->out, bytes, i);
        error = way_send(slice->way, slice->out, bytes, 0, SLICE_TAG_DATA);
        atomic_store_explicit(&board[slice->rank].sent, i + 1, memory_order_relaxed);
    }
    return error;
}

/* Until all is sent, or nothing more within a second. */
static inline int flood_await(struct slice *slice, struct flood_board *board, uint64_t count,
                              double *sent)
{
    uint64_t seen = 0, since = slice_now_ns();
    int error = 0;
    while (!error && seen < count && slice_now_ns() - since < FLOOD_QUIET_NS) {
        uint64_t total = 0;
        for (int rank = 1; rank < slice->rank_count; rank++)
            total += atomic_load_explicit(&board[rank].sent, memory_order_relaxed);
        if (total != seen)
            since = slice_now_ns();
        seen = total;
        error = way_poll(slice->way);
    }
    *sent = (double)seen;
    return error;
}

static inline int flood_drain(struct slice *slice, struct flood_board *board, size_t bytes,
                              uint64_t count, double values[2])
{
    int error = 0, source = 0;
    values[0] = 0;
    values[1] = 1;
    for (uint64_t i = 0; !error && i < count; i++) {
        error = way_receive(slice->way, slice->in, bytes, SLICE_ANY, SLICE_TAG_DATA, &source);
        if (error)
            break;
        if (slice_differs(slice->in, bytes, board[source].received++))
            values[1] = 0;
        error = slice_check(slice, slice->in, bytes, (uint64_t)source - 1);
        values[0]++;
    }
    return error;
}

static inline int slice_flood(struct slice *slice, size_t bytes, uint64_t count, double values[5])
{
    if (slice->rank_count < 2)
        return slice_fail(slice, "a flood takes two ranks, here are", 1);
    struct flood_board *board = flood_open(slice);
    if (!board)
        return -1;
    atomic_store_explicit(&board[slice->rank].sent, 0, memory_order_relaxed);
    board[slice->rank].received = 0;
    memset(slice->in, 0xA5, bytes);
    memory_reset_peak();
    uint64_t before = memory_line("/proc/self/status", "VmRSS:");
    int error = way_barrier(slice->way);
    if (!error && slice->rank > 0)
        error = flood_send(slice, board, bytes, count);
    if (!error && slice->rank == 0)
        error = flood_await(slice, board, count, &values[3]);
    uint64_t begin = slice_now_ns();
    if (!error && slice->rank == 0)
        error = flood_drain(slice, board, bytes, count, values);
    values[4] = slice->rank || !count ? 0 : (double)(slice_now_ns() - begin) / (double)count;
    uint64_t peak = memory_line("/proc/self/status", "VmHWM:");
    values[2] = peak > before ? (double)(peak - before) : 0;
    munmap(board, (size_t)slice->rank_count * sizeof *board);
    return error;
}

/* ---- the loop of a rank ---- */

static inline int slice_run(struct slice *slice, const struct slice_command *command,
                            double values[SLICE_VALUES_MAX], int *value_count)
{
    const char *what = command->what;
    uint64_t amount = command->amount, count = command->count;
    uint64_t places = strcmp(what, "rate") == 0 ? SLICE_WINDOW : 1;
    if (amount > SLICE_BUFFER_MAX || slice_reserve(slice, places * (amount + 64)))
        return slice_fail(slice, "messages this large are not measured", amount);
    *value_count = 1;
    if (strcmp(what, "p2p") == 0)
        return slice_p2p(slice, amount, count, values);
    if (places > 1)
        return slice_rate(slice, amount, count, values);
    if (strcmp(what, "barrier") == 0)
        return slice_barrier(slice, count, values);
    if (strcmp(what, "broadcast") == 0)
        return slice_broadcast(slice, amount, count, values);
    if (strcmp(what, "allreduce") == 0)
        return slice_allreduce(slice, amount, count, values);
    *value_count = 3;
    if (strcmp(what, "memory") == 0)
        return slice_memory(slice, amount, count, values);
    *value_count = 5;
    if (strcmp(what, "flood") == 0)
        return slice_flood(slice, amount, count, values);
    return way_other(slice->way, what, values, value_count);
}

/* Serves until the end, or to the first error, which it answers and returns. */
static inline int slice_serve(struct slice *slice, struct slice_pipes *pipes)
{
    struct slice_command command;
    int error = 0;
    while (!error && slice_next(pipes, &command)) {
        double values[SLICE_VALUES_MAX] = {0};
        int value_count = 0;
        slice->serial++;
        error = slice_run(slice, &command, values, &value_count);
        const char *wrong = slice->wrong[0] ? slice->wrong : way_wrong(slice->way);
        slice_answer(pipes, error ? wrong : NULL, values, value_count);
    }
    slice_release(slice);
    return error;
}

#endif
