// SPDX-License-Identifier: Apache-2.0
// Ranks are killed, also while the others agree on who is left; those go on with a communicator.
//
// Timers kill a random set of ranks, rank 0 among them in some runs, while all go from communicator
// to communicator of survivors with collectives in between; once the last victim is left out the
// members, their order, an allreduce and an all-to-all of stamped values have to be exact.
// Advantage: deaths meet every step of the agreement in the end. Disadvantage: their moments are
// not repeated.

#define _GNU_SOURCE
#include "multi/msg_ranks.h"

#include "core/signal.h"
#include "transport/fabric.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#define MOST_RANKS 40

static leat_comm *survivors(struct rank_thread *self, leat_comm *parent, leat_comm_info *info)
{
    leat_comm *made = NULL;
    const leat_comm_options options = {
        .size = sizeof options, .parent = parent, .kind = LEAT_COMM_SURVIVORS};
    *info = (leat_comm_info){.size = sizeof *info};
    if (!msg_fine(self, leat_comm_split(self->job, &options, &made)))
        return NULL;
    msg_fine(self, leat_comm_info_get(made, info));
    return made;
}

// Which ranks die, the same at all.
static int choose(struct ranks_random *random, int ranks, bool dies[MOST_RANKS])
{
    int count = 1 + (int)(ranks_random_word(random) % (uint64_t)(ranks > 2 ? ranks - 2 : 1)), n = 0;
    count = count < 6 ? count : 6;
    memset(dies, 0, MOST_RANKS * sizeof *dies);
    if (ranks_random_word(random) % 3 == 0) {
        dies[0] = true;
        n++;
    }
    while (n < count) {
        int rank = (int)(ranks_random_word(random) % (uint64_t)ranks);
        n += !dies[rank];
        dies[rank] = true;
    }
    return count;
}

static int64_t stamp(int from, int to)
{
    return INT64_C(0x5eed000000) + from * 1000 + to;
}

static void check_members(struct rank_thread *self, leat_comm *comm, const leat_comm_info *info,
                          const bool dies[MOST_RANKS])
{
    int at = 0;
    for (int rank = 0; rank < self->rank_count; rank++)
        if (!dies[rank]) {
            rank_check(self, leat_comm_job_rank(comm, at) == rank, "member %d is rank %d, not %d",
                       at, leat_comm_job_rank(comm, at), rank);
            rank_check(self, rank != self->rank || info->rank == at, "rank %d is %d, not %d", rank,
                       info->rank, at);
            at++;
        }
    rank_check(self, at == info->rank_count, "%d members instead of %d", info->rank_count, at);
}

static void check_collectives(struct rank_thread *self, leat_comm *comm, const leat_comm_info *info)
{
    int64_t sum = self->rank, expected = 0, sent[MOST_RANKS], got[MOST_RANKS];
    leat_collective_options options = {.size = sizeof options,
                                       .kind = LEAT_ALLREDUCE,
                                       .send = LEAT_IN_PLACE,
                                       .receive = &sum,
                                       .count = 1,
                                       .type = LEAT_INT64,
                                       .operation = LEAT_SUM};
    memset(got, 0xa5, sizeof got);
    msg_fine(self, leat_collective(comm, &options, NULL));
    for (int i = 0; i < info->rank_count; i++) {
        expected += leat_comm_job_rank(comm, i);
        sent[i] = stamp(self->rank, leat_comm_job_rank(comm, i));
    }
    rank_check(self, sum == expected, "a sum of %lld, not %lld", (long long)sum,
               (long long)expected);
    options.kind = LEAT_ALLTOALL;
    options.send = sent;
    options.receive = got;
    msg_fine(self, leat_collective(comm, &options, NULL));
    for (int i = 0; i < info->rank_count; i++)
        rank_check(self, got[i] == stamp(leat_comm_job_rank(comm, i), self->rank),
                   "%llx came from member %d", (unsigned long long)got[i], i);
}

static void shrink(struct rank_thread *self)
{
    const char *text = getenv("TEST_SEED");
    struct ranks_random random = {text ? strtoull(text, NULL, 10) : 1};
    bool dies[MOST_RANKS];
    leat_comm *comm = msg_world(self);
    leat_comm_info info = {.rank_count = self->rank_count};
    int left = self->rank_count - choose(&random, self->rank_count, dies);
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    struct ranks_random own = {ranks_random_word(&random) + (uint64_t)self->rank};
    if (!msg_fine(self, leat_collective(comm, &barrier, NULL)))
        return;
    if (dies[self->rank]) {
        const struct itimerval timer = {
            .it_value = {.tv_usec = (suseconds_t)(100 + ranks_random_word(&own) % 30000)}};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    // Who is a member is the same at all, so all of them go round as often.
    for (int round = 0; info.rank_count != left; round++) {
        leat_comm *made = survivors(self, comm, &info);
        if (!made)
            return;
        if (round % 3 == 1)
            leat_comm_free(comm); // what was agreed on it is over
        comm = made;
        int error = leat_collective(comm, &barrier, NULL);
        rank_check(self, !error || error == -ECONNRESET, "%d: %s", error, leat_error_detail());
    }
    check_members(self, comm, &info, dies);
    check_collectives(self, comm, &info);
    check_collectives(self, comm, &info);
}

// Nobody has died: all are members, and the parent goes on.
static void nobody(struct rank_thread *self)
{
    const bool dies[MOST_RANKS] = {false};
    leat_comm *world = msg_world(self);
    leat_comm_info info = {.size = sizeof info};
    for (int i = 0; i < 3; i++) {
        leat_comm *comm = survivors(self, world, &info);
        if (!comm)
            return;
        check_members(self, comm, &info, dies);
        check_collectives(self, comm, &info);
        check_collectives(self, world, &info);
        leat_comm_free(comm);
    }
}

// What all ranks have said on stderr so far.
static bool was_said(int fd, const char *words)
{
    char text[4096];
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    return strstr(text, words) != NULL;
}

// Rank 1 takes part only once the others have said that they wait for it.
static void late(struct rank_thread *self)
{
    leat_comm_info info;
    const int said = atoi(getenv("TEST_SAID"));
    uint64_t deadline_ns = leat_now_ns() + UINT64_C(20000000000);
    bool named = self->rank != 1;
    leat_comm *world = msg_world(self);
    while (!named && leat_now_ns() < deadline_ns) {
        sched_yield();
        named = was_said(said, "waits for rank 1, for");
    }
    rank_check(self, named, "nobody has said whom he waits for");
    leat_comm *comm = survivors(self, world, &info);
    if (comm)
        leat_comm_free(comm);
}

static void run_shrink(int ranks, uint64_t seed)
{
    char text[32], failure[2048];
    bool dies[MOST_RANKS];
    struct ranks_random random = {seed};
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("TEST_SEED", text, 1);
    int left = ranks - choose(&random, ranks, dies);
    if (!msg_survived(ranks, "shrink", left, failure))
        fail_msg("seed %s, %d ranks, %d survive: %s", text, ranks, left, failure);
    unsetenv("TEST_SEED");
}

static const struct msg_part parts[] = {{"shrink", shrink}, {"nobody", nobody}, {NULL, NULL}};

static void test_survivors_where_nobody_died(void **state)
{
    (void)state;
    msg_run_both(parts, 4, "nobody");
    msg_run_threads(parts, 1, "nobody");
}

static void test_who_does_not_take_part_is_named(void **state)
{
    (void)state;
    char text[16];
    int said = memfd_create("said", 0), own = dup(STDERR_FILENO);
    assert_true(said >= 0 && own >= 0);
    snprintf(text, sizeof text, "%d", said);
    setenv("TEST_SAID", text, 1);
    dup2(said, STDERR_FILENO);
    ranks_run_for(1, 2, late, NULL);
    dup2(own, STDERR_FILENO);
    unsetenv("TEST_SAID");
    close(said);
    close(own);
}

static void test_survivors_go_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (MSG_FEWER ? 2 : 4); seed++)
        run_shrink(2 + (int)(seed % 5), seed);
}

static void test_survivors_of_many_go_on(void **state)
{
    (void)state;
    run_shrink(33, 50);
}

static void test_survivors_go_on_over_libfabric(void **state)
{
    (void)state;
    if (MSG_FEWER || fabric_absent()) {
        print_message("%s\n",
                      MSG_FEWER ? "ThreadSanitizer does not see into libfabric" : fabric_absent());
        skip();
    }
    setenv("LEAT_PATHS", "require:fabric", 1);
    run_shrink(4, 100);
    unsetenv("LEAT_PATHS");
}

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survivors_where_nobody_died),
        cmocka_unit_test(test_who_does_not_take_part_is_named),
        cmocka_unit_test(test_survivors_go_on),
        cmocka_unit_test(test_survivors_of_many_go_on),
        cmocka_unit_test(test_survivors_go_on_over_libfabric),
    };
    return cmocka_run_group_tests_name("survivors", tests, NULL, NULL);
}
