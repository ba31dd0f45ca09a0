// SPDX-License-Identifier: Apache-2.0
// LEAT_MSG_BUDGET bounds what the message layer holds, whatever is sent, and nothing is lost by it.
//
// Floods are larger than the pools (LEAT_LONG=1: as large as those that took MPI libraries to a
// gigabyte), and budgets small. What a rank holds is read from its counts and, in processes, from
// the kernel. Bodies run on ranks as threads (ranks_run) and as processes. Advantage: peak counts
// catch every moment. Disadvantage: resident memory is seen at a few moments only.

#include "multi/msg_flood.h"

#include <pthread.h>

static const struct msg_part parts[9];

// ---- The smallest budget ----

// What rank 0 of a job of so many ranks is told at first use; no thread runs for the others.
static int open_with(int rank_count, const char *budget)
{
    leat_options options = {.size = sizeof options,
                            .thread_ranks = rank_count,
                            .arena_bytes = 16 << 20,
                            .timeout_s = 20};
    leat_job **jobs = calloc((size_t)rank_count, sizeof *jobs);
    leat_comm *comm = NULL;
    assert_non_null(jobs);
    setenv("LEAT_MSG_BUDGET", budget, 1);
    if (leat_open(&options, jobs))
        fail_msg("leat_open of %d ranks: %s", rank_count, leat_error_detail());
    unsetenv("LEAT_MSG_BUDGET");
    int error = leat_comm_split(jobs[0], NULL, &comm), value = 3, got = 0;
    if (error)
        assert_null(comm);
    leat_request request;
    if (!error && (leat_send(comm, msg_plain(&value, 4), 0, 1, 0, &request) ||
                   leat_recv(comm, msg_plain(&got, 4), 0, 1, NULL, NULL) ||
                   msg_wait_one(&request, -1) || got != 3))
        fail_msg("%s bytes do not carry a message: %s", budget, leat_error_detail());
    for (int r = 0; r < rank_count; r++)
        leat_close(jobs[r], NULL);
    free(jobs);
    return error;
}

static unsigned long long least_said(void)
{
    const char *at = strstr(leat_error_detail(), "at least ");
    if (!at || !strstr(leat_error_detail(), "LEAT_MSG_BUDGET"))
        fail_msg("no remedy in: %s", leat_error_detail());
    return strtoull(at + strlen("at least "), NULL, 10);
}

static void test_a_budget_too_small_is_refused_with_the_smallest_that_works(void **state)
{
    (void)state;
    for (int rank_count = 4000; rank_count <= 8000; rank_count *= 2) {
        assert_int_equal(open_with(rank_count, "1M"), -ENOBUFS);
        unsigned long long least = least_said();
        assert_true(least > 1 << 20 && least < 4 << 20);
        char text[32];
        snprintf(text, sizeof text, "%llu", least - 1);
        assert_int_equal(open_with(rank_count, text), -ENOBUFS);
        if (least_said() != least)
            fail_msg("1M: at least %llu; %s: at least %llu", least, text, least_said());
        snprintf(text, sizeof text, "%llu", least);
        if (open_with(rank_count, text))
            fail_msg("%s bytes do not work: %s", text, leat_error_detail());
    }
}

// ---- Floods ----

#define PACKET_BYTES 480

struct flood {
    uint64_t count, bytes; // in all, of one
};

// Half of the senders take the blocking call, the others keep some requests under way.
static void flood_send(struct rank_thread *self, leat_comm *comm, const struct flood *flood)
{
    enum { WINDOW = 64 };
    leat_request request[WINDOW] = {0};
    uint8_t *memory = calloc(WINDOW, flood->bytes);
    uint64_t senders = (uint64_t)self->rank_count - 1;
    bool blocking = self->rank % 2;
    for (uint64_t i = 0; memory && i < flood->count / senders; i++) {
        uint64_t place = i % WINDOW;
        uint8_t *at = memory + place * flood->bytes;
        if (!msg_fine(self, msg_wait_one(&request[place], -1)))
            break;
        msg_number(at, flood->bytes, self->rank, i);
        msg_fine(self, leat_send(comm, msg_plain(at, flood->bytes), 0, (int)flood->bytes, 0,
                                 blocking ? NULL : &request[place]));
    }
    for (int i = 0; i < WINDOW; i++)
        msg_fine(self, msg_wait_one(&request[i], -1));
    free(memory);
}

static void flood_receive(struct rank_thread *self, leat_comm *comm, const struct flood *flood)
{
    uint64_t senders = (uint64_t)self->rank_count - 1;
    uint64_t *next = calloc(senders + 1, sizeof *next);
    uint8_t *memory = malloc(flood->bytes);
    for (uint64_t i = 0; next && memory && i < flood->count / senders * senders; i++) {
        leat_status status;
        if (!msg_fine(self, leat_recv(comm, msg_plain(memory, flood->bytes), LEAT_ANY_RANK,
                                      (int)flood->bytes, &status, NULL)) ||
            !rank_check(self, status.bytes == flood->bytes, "%llu bytes",
                        (unsigned long long)status.bytes) ||
            !msg_is_number(self, memory, flood->bytes, status.source, next[status.source]++))
            break;
    }
    free(next);
    free(memory);
}

static void flood_with(struct rank_thread *self, const struct flood *flood)
{
    uint64_t before_bytes = msg_status_bytes("VmRSS:");
    leat_comm *comm = msg_world(self);
    if (!comm)
        return;
    // A send of more than a packet would wait for its receive without a ring.
    for (int r = 1; r < self->rank_count; r++)
        if (self->rank == r || !self->rank)
            msg_warm(self, comm, self->rank ? 0 : r);
    if (self->rank) {
        uint64_t before = msg_sent(self);
        flood_send(self, comm, flood);
        msg_check_sent(self, before, flood->count / ((uint64_t)self->rank_count - 1));
    } else {
        msg_fill_pools(self, comm);
        uint64_t full = msg_status_bytes("VmRSS:");
        flood_receive(self, comm, flood);
        uint64_t after = msg_status_bytes("VmRSS:");
        uint64_t growth = (full > after ? full : after) - before_bytes;
#if !defined __SANITIZE_ADDRESS__ && !MSG_FEWER
        // By queue, what its answers touch in its senders' memory is resident here as well.
        if (leat_launched() && flood->bytes != PACKET_BYTES)
            rank_check(self, growth < 20 << 20, "resident memory has grown by %llu bytes",
                       (unsigned long long)growth);
#endif
        (void)growth;
    }
    msg_check_budget(self);
}

static void flood_small(struct rank_thread *self)
{
    const struct flood flood = {.count = msg_scaled(1000000, 120000), .bytes = 64};
    flood_with(self, &flood);
}

static void flood_kilobytes(struct rank_thread *self)
{
    const struct flood flood = {.count = msg_scaled(200000, 20000), .bytes = 1024};
    flood_with(self, &flood);
}

static void flood_large(struct rank_thread *self)
{
    const struct flood flood = {.count = 600, .bytes = 32768};
    flood_with(self, &flood);
}

static void flood_packets(struct rank_thread *self)
{
    const struct flood flood = {.count = msg_scaled(200000, 40000), .bytes = PACKET_BYTES};
    flood_with(self, &flood);
}

static void test_floods_from_one_sender_stay_within_the_budget(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "16M", 1);
    msg_run_both(parts, 2, "flood_small");
    msg_run_both(parts, 2, "flood_kilobytes");
    msg_run_both(parts, 2, "flood_large");
    unsetenv("LEAT_MSG_BUDGET");
}

static void test_floods_from_several_senders_stay_within_the_budget(void **state)
{
    (void)state;
    int ranks = (int)msg_scaled(32, 6);
    setenv("LEAT_MSG_BUDGET", "16M", 1);
    msg_run_both(parts, ranks, "flood_small");
    msg_run_both(parts, ranks, "flood_kilobytes");
    setenv("LEAT_MSG_PEERS", "1", 1);
    msg_run_both(parts, ranks, "flood_packets");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("LEAT_MSG_BUDGET");
}

// LEAT_LONG=1: all of it from one sender and from 31.
static void test_floods_over_libfabric_stay_within_the_budget(void **state)
{
    (void)state;
    bool whole = msg_scaled(1, 0);
    setenv("LEAT_MSG_BUDGET", whole ? "16M" : "4M", 1); // less than there is
    msg_run_processes(2, "flood_small");
    if (whole) {
        msg_run_processes(2, "flood_kilobytes");
        msg_run_processes(32, "flood_small");
        msg_run_processes(32, "flood_kilobytes");
    } else {
        msg_run_threads(parts, 2, "flood_kilobytes");
        msg_run_threads(parts, 5, "flood_small");
    }
    unsetenv("LEAT_MSG_BUDGET");
}

// ---- A later message first ----

// Rank 1 sends many under one tag, then one under another, which rank 0 takes first.
static void later_first(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const char *text = getenv("TEST_BYTES");
    uint64_t bytes = text ? strtoull(text, NULL, 10) : 64,
             count = msg_scaled(1000000, MSG_FEWER ? 12000 : 30000);
    uint8_t *memory = calloc(1, bytes);
    leat_request *request = self->rank ? calloc(count + 1, sizeof *request) : NULL;
    if (!comm || !memory || (self->rank && !request))
        return;
    if (self->rank == 1) {
        // The bytes are the same, since a million of them have to lie somewhere.
        msg_number(memory, bytes, 1, 7);
        for (uint64_t i = 0; i <= count; i++)
            msg_fine(self, leat_send(comm, msg_plain(memory, i % 2 ? bytes : bytes / 2), 0,
                                     i == count ? 2 : 1, 0, &request[i]));
        for (uint64_t i = 0; i <= count; i++)
            msg_fine(self, msg_wait_one(&request[i], -1));
        msg_check_sent(self, 0, count + 1);
    } else if (self->rank == 0) {
        leat_status status;
        msg_fill_pools(self, comm);
        for (uint64_t i = 0; i <= count; i++) {
            if (!msg_fine(self, leat_recv(comm, msg_plain(memory, bytes), 1, i ? LEAT_ANY_TAG : 2,
                                          &status, NULL)) ||
                !rank_check(self, status.tag == (i ? 1 : 2), "tag %d is message %llu", status.tag,
                            (unsigned long long)i) ||
                !rank_check(self, !i || status.bytes == (i % 2 ? bytes / 2 : bytes),
                            "message %llu has %llu bytes", (unsigned long long)i,
                            (unsigned long long)status.bytes) ||
                !msg_is_number(self, memory, status.bytes, 1, 7))
                break;
        }
        rank_check(self, msg_stats(self).msg_found > 0, "it was never looked for");
    }
    msg_check_budget(self);
    free(memory);
    free(request);
}

static void test_a_later_message_is_received_before_those_held_back(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", msg_scaled(1, 0) ? "16M" : "3M", 1);
    msg_run_both(parts, 2, "later_first");
    setenv("TEST_BYTES", "1000", 1);
    msg_run_both(parts, 2, "later_first");
    setenv("LEAT_MSG_EAGER", "0", 1); // announced, by a ring
    msg_run_both(parts, 2, "later_first");
    unsetenv("LEAT_MSG_EAGER");
    unsetenv("TEST_BYTES");
    unsetenv("LEAT_MSG_BUDGET");
}

static void test_a_later_message_over_libfabric_is_received_first(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", msg_scaled(1, 0) ? "16M" : "3M", 1);
    msg_run_threads(parts, 2, "later_first");
    setenv("LEAT_MSG_EAGER", "0", 1);
    setenv("TEST_BYTES", "1000", 1);
    msg_run_threads(parts, 2, "later_first");
    unsetenv("TEST_BYTES");
    unsetenv("LEAT_MSG_EAGER");
    unsetenv("LEAT_MSG_BUDGET");
}

// ---- Counts ----

#define COUNT_SIZES 7

// So many messages of each size go from rank 0 to rank 1; all counts of it are known.
static void counts(struct rank_thread *self)
{
    static const uint64_t sizes[COUNT_SIZES] = {0, 96, 97, 32768, 32769, 400000, 8};
    static uint8_t memory[2][400000];
    leat_comm *comm = msg_world(self);
    leat_collective_options sum = {.size = sizeof sum,
                                   .kind = LEAT_ALLREDUCE,
                                   .send = LEAT_IN_PLACE,
                                   .count = 8,
                                   .type = LEAT_UINT64,
                                   .operation = LEAT_SUM};
    if (!comm)
        return;
    msg_warm(self, comm, 1 - self->rank);
    leat_stats before = msg_stats(self);
    uint64_t bytes = 0;
    for (int i = 0; i < 3 * COUNT_SIZES; i++) {
        leat_data data = msg_plain(memory[self->rank], sizes[i % COUNT_SIZES]);
        bytes += data.bytes;
        if (self->rank)
            msg_fine(self, leat_recv(comm, data, 0, 1, NULL, NULL));
        else
            msg_fine(self, leat_send(comm, data, 1, 1, 0, NULL));
    }
    leat_stats after = msg_stats(self);
    uint64_t moved = 0;
    for (int i = 0; i < after.path_count; i++)
        moved += after.path[i].bytes;
    uint64_t all[8] = {
        after.msg_inline - before.msg_inline, after.msg_bulk - before.msg_bulk,
        after.msg_queued - before.msg_queued, after.msg_announced - before.msg_announced,
        after.msg_direct - before.msg_direct, after.msg_shared - before.msg_shared,
        after.msg_piped - before.msg_piped,   moved};
    sum.receive = all;
    msg_fine(self, leat_collective(comm, &sum, NULL));
    static const uint64_t expected[7] = {9, 6, 0, 6, 6, 6, 0};
    static const char *const name[7] = {"inline", "bulk",   "queued", "announced",
                                        "direct", "shared", "piped"};
    for (int i = 0; i < 7; i++)
        rank_check(self, all[i] == expected[i], "%llu messages %s instead of %llu",
                   (unsigned long long)all[i], name[i], (unsigned long long)expected[i]);
    rank_check(self, all[7] == bytes, "%llu bytes by all paths, %llu were sent",
               (unsigned long long)all[7], (unsigned long long)bytes);
}

// Before there is a ring: by queue what fits a packet, and announced what does not.
static void counts_cold(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    static uint8_t memory[500];
    if (!comm)
        return;
    for (uint64_t bytes = 450; bytes <= 500; bytes += 50) {
        leat_data data = msg_plain(memory, bytes);
        if (self->rank)
            msg_fine(self, leat_recv(comm, data, 0, 1, NULL, NULL));
        else
            msg_fine(self, leat_send(comm, data, 1, 1, 0, NULL));
    }
    leat_stats stats = msg_stats(self);
    uint64_t sent = !self->rank;
    rank_check(self, stats.msg_queued == sent && stats.msg_announced == sent,
               "%llu queued, %llu announced", (unsigned long long)stats.msg_queued,
               (unsigned long long)stats.msg_announced);
    rank_check(self, stats.msg_direct == !sent, "%llu fetched",
               (unsigned long long)stats.msg_direct);
    msg_check_sent(self, 0, 2 * sent);
}

static void test_counts_by_protocol_and_path_add_up(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "counts");
    msg_run_threads(parts, 2, "counts_cold"); // processes move so little by a pipe
}

// ---- Steady state ----

struct reader {
    const struct rank_thread *rank;
    int stop;
    uint64_t reads, wrong;
};

// Counts may be read by any thread while the rank goes on.
static void *read_counts(void *argument)
{
    struct reader *reader = argument;
    while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
        leat_stats stats = msg_stats(reader->rank);
        reader->reads++;
        reader->wrong += stats.msg_used_bytes > stats.msg_budget_bytes;
    }
    return NULL;
}

// Everything once: floods, pipes, communicators, collectives, messages to all.
static void mixed(struct rank_thread *self, leat_comm *comm)
{
    static const struct flood small = {20000, 64}, medium = {300, 30000};
    const leat_comm_options options = {
        .size = sizeof options, .kind = LEAT_COMM_COLOR, .color = self->rank % 2};
    const leat_layout rows = {
        .size = sizeof rows, .block_bytes = 100, .dim_count = 1, .dim = {{3000, 200}}};
    uint8_t *memory = calloc(1, 900000);
    leat_comm *half = NULL;
    leat_request request;
    int to = (self->rank + 1) % self->rank_count;
    for (int i = 0; i < 2; i++)
        if (self->rank)
            flood_send(self, comm, i ? &medium : &small);
        else
            flood_receive(self, comm, i ? &medium : &small);
    msg_fine(self, leat_comm_split(self->job, &options, &half));
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    msg_fine(self, leat_collective(half, &barrier, NULL));
    leat_comm_free(half);
    leat_data data = {memory, 300000, &rows};
    msg_fine(self, leat_send(comm, data, to, 2, 0, &request));
    msg_fine(self,
             leat_recv(comm, msg_plain(memory + 600000, 300000), LEAT_ANY_RANK, 2, NULL, NULL));
    msg_fine(self, msg_wait_one(&request, -1));
    msg_fine(self, leat_collective(comm, &barrier, NULL));
    free(memory);
}

static void steady(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct reader reader = {.rank = self};
    pthread_t thread;
    static const char *const name[] = {"queue", "peers",   "work", "staging",
                                       "rings", "headers", "bytes"};
    uint64_t used[7] = {0};
    if (!comm ||
        (!self->rank &&
         !rank_check(self, !pthread_create(&thread, NULL, read_counts, &reader), "thread")))
        return;
    for (int round = 0; round < 4; round++) {
        mixed(self, comm);
        msg_check_budget(self);
        for (int i = 0; i < 7; i++) {
            leat_pool_stats pool = msg_pool(self, name[i]);
            rank_check(self, pool.limit_bytes > 0, "no pool %s", name[i]);
            // The first rounds find out how much of each kind may be under way.
            rank_check(self, round < 2 || pool.used_bytes == used[i] || i > 4,
                       "pool %s holds %llu bytes, %llu before", name[i],
                       (unsigned long long)pool.used_bytes, (unsigned long long)used[i]);
            used[i] = pool.used_bytes;
        }
    }
    if (self->rank)
        return;
    __atomic_store_n(&reader.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    rank_check(self, reader.reads > 0 && !reader.wrong, "%llu of %llu looks saw too much",
               (unsigned long long)reader.wrong, (unsigned long long)reader.reads);
}

static void test_pools_return_to_where_they_were(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "4M", 1);
    msg_run_both(parts, 4, "steady");
    unsetenv("LEAT_MSG_BUDGET");
}

static const struct msg_part parts[] = {
    {"flood_small", flood_small},
    {"flood_kilobytes", flood_kilobytes},
    {"flood_large", flood_large},
    {"flood_packets", flood_packets},
    {"later_first", later_first},
    {"counts", counts},
    {"counts_cold", counts_cold},
    {"steady", steady},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_budget_too_small_is_refused_with_the_smallest_that_works),
        cmocka_unit_test(test_floods_from_one_sender_stay_within_the_budget),
        cmocka_unit_test(test_floods_from_several_senders_stay_within_the_budget),
        cmocka_unit_test(test_a_later_message_is_received_before_those_held_back),
        cmocka_unit_test(test_counts_by_protocol_and_path_add_up),
        cmocka_unit_test(test_pools_return_to_where_they_were),
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(test_floods_over_libfabric_stay_within_the_budget),
        cmocka_unit_test(test_a_later_message_over_libfabric_is_received_first),
    };
    return msg_over_fabric() ? cmocka_run_group_tests(over_fabric, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL);
}
