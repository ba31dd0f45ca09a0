// SPDX-License-Identifier: Apache-2.0
// Who waits for a rank that dies or leaves is told so, and by whom; who waits for a slow one waits.
//
// In each part the last rank is the victim: a process that kills itself at a point which a token
// fixes. The others have to get -ECONNRESET with its name within a second, and say so by a pipe of
// the test's, since the launcher's status is the victim's. Parts without a death run on threads
// (ranks_run) too. Advantage: what the kernel does when a process dies is part of the test.
// Disadvantage: a second is a second on a loaded machine as well.

#include "multi/msg_ranks.h"

#include "core/error.h"
#include "core/signal.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#define LATE "this came late:"

static const struct msg_part parts[14];

static _Noreturn void die(void)
{
    raise(SIGKILL);
    abort();
}

// The victim dies once rank 0 has come so far; false at the others.
static bool victim(struct rank_thread *self, leat_comm *comm, int *last)
{
    *last = self->rank_count - 1;
    if (self->rank == *last) {
        msg_hear(self, comm, 0);
        die();
    }
    if (self->rank == 0)
        msg_tell(self, comm, *last);
    return false;
}

// It was said in time that this rank was killed.
static void expect_killed(struct rank_thread *self, int error, int rank, uint64_t begin_ns)
{
    char name[2][64];
    // Whether the launcher or the kernel was seen first.
    snprintf(name[0], sizeof name[0], "rank %d was killed", rank);
    snprintf(name[1], sizeof name[1], "rank %d (process", rank);
    rank_check(self, error == -ECONNRESET, "%d: %s", error, leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), name[0]) || strstr(leat_error_detail(), name[1]),
               "rank %d is not named: %s", rank, leat_error_detail());
    double seconds = (double)(leat_now_ns() - begin_ns) * 1e-9;
    rank_check(self, seconds < 1, "%s after %.2f s", LATE, seconds);
}

// ---- A rank is killed ----

static void killed_receive(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint8_t byte;
    int last;
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    int error = leat_recv(comm, msg_plain(&byte, 1), last, 1, NULL, NULL);
    expect_killed(self, error, last, begin);
    // What is asked of it later ends at once, and others are not concerned.
    begin = leat_now_ns();
    error = leat_recv(comm, msg_plain(&byte, 1), last, LEAT_ANY_TAG, NULL, NULL);
    expect_killed(self, error, last, begin);
    error = leat_send(comm, msg_plain(&byte, 1), last, 1, 0, NULL);
    expect_killed(self, error, last, begin);
    error = leat_probe(comm, last, 1, -1, NULL, NULL);
    expect_killed(self, error, last, begin);
    leat_request request;
    msg_fine(self, leat_recv(comm, msg_plain(&byte, 1), self->rank, 2, NULL, &request));
    msg_fine(self, leat_send(comm, msg_plain(NULL, 0), self->rank, 2, 0, NULL));
    msg_fine(self, msg_wait_one(&request, -1));
}

// Nothing was ever sent to the victim, nor by it.
static void killed_stranger(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint8_t byte;
    int last = self->rank_count - 1;
    if (self->rank == last)
        die();
    uint64_t begin = leat_now_ns();
    int error = self->rank ? leat_recv(comm, msg_plain(&byte, 1), last, 1, NULL, NULL)
                           : leat_send(comm, msg_plain(&byte, 1), last, 1, 0, NULL);
    expect_killed(self, error, last, begin);
}

static void killed_probe(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    int last;
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    int error = leat_probe(comm, last, 1, -1, NULL, NULL);
    expect_killed(self, error, last, begin);
}

// Who only looks has to be told too.
static void killed_polling(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request;
    uint8_t byte;
    int last, error = -ETIMEDOUT;
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    msg_fine(self, leat_recv(comm, msg_plain(&byte, 1), last, 1, NULL, &request));
    while (error == -ETIMEDOUT && leat_now_ns() - begin < 2000000000u)
        error = msg_wait_one(&request, 0);
    expect_killed(self, error, last, begin);
}

// Nobody is left who could send.
static void killed_wildcard(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    leat_request request;
    uint8_t byte;
    int last;
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    msg_fine(self, leat_recv(comm, msg_plain(&byte, 1), LEAT_ANY_RANK, 1, NULL, &request));
    int error = msg_wait_one(&request, 5);
    expect_killed(self, error, last, begin);
}

// A large message that nobody receives.
static void killed_send(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint64_t bytes = 16 << 20;
    void *memory = calloc(1, bytes);
    int last;
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    int error = leat_send(comm, msg_plain(memory, bytes), last, 1, 0, NULL);
    expect_killed(self, error, last, begin);
    free(memory);
}

// The victim has begun to receive; it dies at whatever point that is.
static void killed_transfer(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint64_t bytes = 256 << 20, begin = leat_now_ns();
    void *memory = calloc(1, bytes);
    if (!rank_check(self, memory != NULL, "no memory"))
        return;
    if (self->rank == 1) {
        leat_request request;
        leat_status status;
        msg_fine(self, leat_probe(comm, 0, 1, -1, &status, NULL));
        msg_fine(self, leat_recv(comm, msg_plain(memory, bytes), 0, 1, NULL, &request));
        for (int i = 0; i < 2; i++)
            msg_gives(self, -ETIMEDOUT, msg_wait_one(&request, 0)); // a chunk or two a look
        die();
    }
    const leat_layout rows = {
        .size = sizeof rows, .block_bytes = 1 << 20, .dim_count = 1, .dim[0] = {256, 1 << 20}};
    leat_data data = {memory, bytes, getenv("TEST_ROWS") ? &rows : NULL};
    int error = leat_send(comm, data, 1, 1, 0, NULL);
    rank_check(self, error == -ECONNRESET, "%d: %s", error, leat_error_detail());
    msg_says(self, "rank 1");
    rank_check(self, leat_now_ns() - begin < 10000000000u, "%s after 10 s", LATE);
    free(memory);
}

// What it had sent is still received; what it had only announced is not.
static void killed_sender(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct msg_memory memory;
    leat_request request;
    if (!comm || !msg_memory_make(self, &memory, MSG_PLAIN, 32768))
        return;
    msg_warm(self, comm, 1 - self->rank);
    if (self->rank == 1) {
        for (uint64_t i = 0; i < 5; i++) {
            msg_memory_stamp(&memory, i);
            msg_fine(self, leat_send(comm, memory.data, 0, 3, 0, NULL));
        }
        uint8_t *large = calloc(1, 100000);
        msg_fine(self, leat_send(comm, msg_plain(large, 100000), 0, 4, 0, &request));
        msg_tell(self, comm, 0);
        msg_hear(self, comm, 0);
        die();
    }
    msg_hear(self, comm, 1);
    msg_fine(self, leat_recv(comm, msg_plain(NULL, 0), 1, 99, NULL, &request));
    msg_tell(self, comm, 1);
    uint64_t begin = leat_now_ns();
    expect_killed(self, msg_wait_one(&request, -1), 1, begin); // so it is known
    for (uint64_t i = 0; i < 5; i++) {
        msg_fine(self, leat_recv(comm, memory.data, 1, 3, NULL, NULL));
        msg_memory_check(self, &memory, i, 32768);
    }
    begin = leat_now_ns();
    expect_killed(self, leat_recv(comm, memory.data, LEAT_ANY_RANK, 4, NULL, NULL), 1, begin);
    msg_memory_free(&memory);
}

// Ranks that give up tell the next ones why, so all of them know of the victim.
static void give_up(struct rank_thread *self)
{
    char reason[LEAT_DETAIL_BYTES];
    snprintf(reason, sizeof reason, "%s", leat_error_detail());
    leat_close(self->job, reason);
    self->job = NULL;
}

static void killed_collective(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    uint64_t count = getenv("TEST_LARGE") ? 100000 : 1;
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLREDUCE,
                                       .send = LEAT_IN_PLACE,
                                       .receive = calloc(count, 8),
                                       .count = count,
                                       .type = LEAT_DOUBLE,
                                       .operation = LEAT_SUM};
    if (getenv("TEST_BARRIER"))
        options.kind = LEAT_BARRIER;
    int last;
    msg_fine(self, leat_collective(comm, &options, NULL));
    victim(self, comm, &last);
    uint64_t begin = leat_now_ns();
    int error = leat_collective(comm, &options, NULL);
    expect_killed(self, error, last, begin);
    give_up(self);
    free(options.receive);
}

// Three tries: on a machine that is busy with others a second may pass in any one of them.
static void survive(const char *name, int rank_count)
{
    char failure[2048];
    for (int i = 0; i < 3; i++)
        if (msg_survived(rank_count, name, rank_count - 1, failure))
            return;
        else if (!strstr(failure, LATE))
            break;
    fail_msg("%s on %d processes: %s", name, rank_count, failure);
}

static void test_a_receive_from_a_killed_rank_ends(void **state)
{
    (void)state;
    survive("killed_receive", 2);
    survive("killed_receive", 3);
}

static void test_a_killed_rank_that_nobody_talked_to_is_noticed(void **state)
{
    (void)state;
    survive("killed_stranger", 3);
}

static void test_a_probe_for_a_killed_rank_ends(void **state)
{
    (void)state;
    survive("killed_probe", 2);
}

static void test_polling_for_a_killed_rank_ends(void **state)
{
    (void)state;
    survive("killed_polling", 2);
}

static void test_a_receive_from_anybody_ends_when_nobody_is_left(void **state)
{
    (void)state;
    survive("killed_wildcard", 2);
}

static void test_a_large_send_to_a_killed_rank_ends(void **state)
{
    (void)state;
    survive("killed_send", 2);
}

static void test_a_transfer_to_a_rank_that_is_killed_ends(void **state)
{
    (void)state;
    setenv("LEAT_MSG_SHARE", "1G", 1); // the sender alone could move all of it
    survive("killed_transfer", 2);
    unsetenv("LEAT_MSG_SHARE");
    setenv("TEST_ROWS", "1", 1);
    survive("killed_transfer", 2);
    unsetenv("TEST_ROWS");
}

static void test_what_a_killed_rank_had_sent_is_received(void **state)
{
    (void)state;
    survive("killed_sender", 2);
}

static void test_collectives_with_a_killed_rank_end_everywhere(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++) {
        setenv("TEST_BARRIER", "1", 1);
        survive("killed_collective", ranks);
        unsetenv("TEST_BARRIER");
        survive("killed_collective", ranks);
        setenv("TEST_LARGE", "1", 1);
        survive("killed_collective", ranks);
        unsetenv("TEST_LARGE");
    }
}

// ---- A rank leaves ----

#define LEFT_COUNT 200

// It leaves as soon as its sends are done, whoever has received them by then.
static void left_early(struct rank_thread *self)
{
    static const uint64_t some[] = {8, 32768, 480, 97, 0, 4096};
    leat_comm *comm = msg_world(self);
    struct msg_memory memory;
    for (uint64_t i = 0; comm && i < LEFT_COUNT; i++) {
        uint64_t bytes = some[i % (sizeof some / sizeof *some)];
        if (!msg_memory_make(self, &memory, MSG_PLAIN, bytes))
            return;
        if (self->rank) {
            msg_memory_stamp(&memory, i * 8 + (uint64_t)self->rank);
            msg_fine(self, leat_send(comm, memory.data, 0, 1, 0, NULL));
        } else {
            for (int from = self->rank_count - 1; from > 0; from--) {
                msg_fine(self, leat_recv(comm, memory.data, from, 1, NULL, NULL));
                msg_memory_check(self, &memory, i * 8 + (uint64_t)from, bytes);
            }
        }
        msg_memory_free(&memory);
    }
    if (self->rank) {
        leat_close(self->job, self->rank == 2 ? "the tide is out" : NULL);
        self->job = NULL;
        return;
    }
    msg_gives(self, -ECONNRESET, leat_recv(comm, msg_plain(NULL, 0), 1, 1, NULL, NULL));
    msg_says(self, "rank 1");
    if (self->rank_count < 3)
        msg_says(self, "left the job");
    else
        msg_gives(self, -ECONNRESET, leat_recv(comm, msg_plain(NULL, 0), 2, 1, NULL, NULL));
    if (self->rank_count == 3)
        msg_says(self, "the tide is out");
}

static void test_messages_of_a_rank_that_has_left_are_received(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        msg_run_threads(parts, 2, "left_early");
        msg_run_threads(parts, 3, "left_early");
        msg_run_survivors(3, "left_early", 3);
    }
}

#define FULL_COUNT 100
#define FULL_BYTES 30000

// Looks until the pool of unexpected bytes is full, or nothing more comes.
static void fill_pool(struct rank_thread *self, leat_comm *comm)
{
    leat_stats stats = {.size = sizeof stats};
    for (int i = 0; i < 3000 && !leat_stats_read(self->job, 1, &stats); i++) {
        for (int p = 0; p < stats.msg_pool_count; p++)
            if (!strcmp(stats.msg_pool[p].name, "bytes") &&
                stats.msg_pool[p].used_bytes + 2 * FULL_BYTES > stats.msg_pool[p].limit_bytes)
                return;
        leat_probe(comm, 1, MSG_TOKEN_TAG + 1, 0, NULL, NULL);
        sched_yield();
    }
}

// It leaves when the pools of the receiver are full and hold back what it sent last.
static void left_full(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct msg_memory memory;
    if (!comm || !msg_memory_make(self, &memory, MSG_PLAIN, FULL_BYTES))
        return;
    msg_warm(self, comm, 1 - self->rank);
    for (uint64_t i = 0; i < FULL_COUNT; i++) {
        if (self->rank) {
            msg_memory_stamp(&memory, i);
            msg_fine(self, leat_send(comm, memory.data, 0, 1, 0, NULL));
        } else {
            fill_pool(self, comm);
            if (!msg_fine(self, leat_recv(comm, memory.data, 1, 1, NULL, NULL)))
                break;
            msg_memory_check(self, &memory, i, FULL_BYTES);
        }
    }
    if (self->rank == 0)
        msg_gives(self, -ECONNRESET, leat_recv(comm, memory.data, 1, 1, NULL, NULL));
    msg_memory_free(&memory);
    leat_close(self->job, NULL);
    self->job = NULL;
}

static void test_messages_held_back_by_a_rank_that_has_left_are_received(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "3M", 1);
    msg_run_threads(parts, 2, "left_full");
    msg_run_survivors(2, "left_full", 2);
    unsetenv("LEAT_MSG_BUDGET");
}

// Receives and sends that nobody will answer any more are given up by their owner.
static void unfinished(struct rank_thread *self)
{
    static leat_request kept[4][8]; // as in a program that does not tidy up
    leat_request *request = kept[self->rank];
    leat_comm *comm = msg_world(self);
    uint8_t *memory = calloc(4, 100000);
    int to = (self->rank + 1) % self->rank_count, from = (self->rank + 2) % self->rank_count;
    if (!comm || !memory)
        return;
    for (int i = 0; i < 2; i++)
        msg_fine(self, leat_recv(comm, msg_plain(memory + i * 100000, 100000),
                                 i ? LEAT_ANY_RANK : from, 1, NULL, &request[i]));
    msg_fine(self, leat_send(comm, msg_plain(memory + 200000, 100000), to, 2, 0, &request[2]));
    msg_fine(self, leat_send(comm, msg_plain(memory, 8), to, 3, 0, &request[3]));
    msg_fine(self, leat_probe(comm, from, 2, -1, NULL, &request[4])); // taken out, and left so
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    msg_fine(self, leat_collective(comm, &barrier, NULL));
    if (self->rank == 0)
        msg_fine(self, leat_collective(comm, &barrier, &request[5]));
    leat_close(self->job, NULL);
    self->job = NULL;
    free(memory);
}

static void test_a_job_with_unfinished_requests_can_be_closed(void **state)
{
    (void)state;
    msg_run_threads(parts, 3, "unfinished");
    msg_run_processes(3, "unfinished");
}

// ---- A rank is slow ----

static bool file_has(FILE *file, const char *words)
{
    char line[2048];
    rewind(file);
    while (fgets(line, sizeof line, file))
        if (strstr(line, words))
            return true;
    return false;
}

// Rank 0 computes for several time-outs; the others say on stderr whom they wait for, and go on.
static void slow(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    bool receives = getenv("TEST_RECEIVE") != NULL;
    int saved = dup(STDERR_FILENO), error;
    FILE *file = tmpfile();
    if (!comm || !rank_check(self, file && saved >= 0, "no file"))
        return;
    fcntl(fileno(file), F_SETFL, O_APPEND);
    dup2(fileno(file), STDERR_FILENO);
    if (self->rank == 0) {
        msg_tell(self, comm, 1);
        const struct timespec compute = {.tv_nsec = 900000000};
        nanosleep(&compute, NULL);
    }
    if (!receives)
        error = leat_collective(comm, &barrier, NULL);
    else if (self->rank)
        error = leat_recv(comm, msg_plain(NULL, 0), 0, 7, NULL, NULL);
    else
        error = leat_send(comm, msg_plain(NULL, 0), 1, 7, 0, NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    msg_fine(self, error);
    if (self->rank == 1) {
        rank_check(self, file_has(file, "waits for"), "nothing is said");
        rank_check(self, file_has(file, "rank 0"), "the rank is not named");
        rank_check(self, file_has(file, receives ? "tag 7" : "barrier"), "what for is not said");
        char came[80];
        snprintf(came, sizeof came, "from rank 0, tag %d", MSG_TOKEN_TAG);
        rank_check(self, file_has(file, came), "what came instead is not said");
    } else if (self->rank == 0) {
        rank_check(self, !file_has(file, "waits for"), "the slow rank waits for somebody");
    }
    fclose(file);
}

static void test_a_slow_rank_is_waited_for_and_named(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "0.2", 1);
    msg_run_processes(2, "slow");
    msg_run_processes(3, "slow");
    setenv("TEST_RECEIVE", "1", 1);
    msg_run_processes(2, "slow");
    unsetenv("TEST_RECEIVE");
    unsetenv("LEAT_TIMEOUT");
}

static const struct msg_part parts[] = {{"killed_receive", killed_receive},
                                        {"killed_stranger", killed_stranger},
                                        {"killed_probe", killed_probe},
                                        {"killed_polling", killed_polling},
                                        {"killed_wildcard", killed_wildcard},
                                        {"killed_send", killed_send},
                                        {"killed_transfer", killed_transfer},
                                        {"killed_sender", killed_sender},
                                        {"killed_collective", killed_collective},
                                        {"left_early", left_early},
                                        {"left_full", left_full},
                                        {"unfinished", unfinished},
                                        {"slow", slow},
                                        {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_receive_from_a_killed_rank_ends),
        cmocka_unit_test(test_a_killed_rank_that_nobody_talked_to_is_noticed),
        cmocka_unit_test(test_a_probe_for_a_killed_rank_ends),
        cmocka_unit_test(test_polling_for_a_killed_rank_ends),
        cmocka_unit_test(test_a_receive_from_anybody_ends_when_nobody_is_left),
        cmocka_unit_test(test_a_large_send_to_a_killed_rank_ends),
        cmocka_unit_test(test_a_transfer_to_a_rank_that_is_killed_ends),
        cmocka_unit_test(test_what_a_killed_rank_had_sent_is_received),
        cmocka_unit_test(test_collectives_with_a_killed_rank_end_everywhere),
        cmocka_unit_test(test_messages_of_a_rank_that_has_left_are_received),
        cmocka_unit_test(test_messages_held_back_by_a_rank_that_has_left_are_received),
        cmocka_unit_test(test_a_job_with_unfinished_requests_can_be_closed),
        cmocka_unit_test(test_a_slow_rank_is_waited_for_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
