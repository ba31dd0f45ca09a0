// SPDX-License-Identifier: Apache-2.0
// Communicators: duplicates, divisions by color and key, by host; ranks are threads, and calls
// block.

#include "ranks.h"

#include "core/job.h"
#include "msg/coll.h"

#include <leat/msg.h>

#include <errno.h>

static leat_comm *world_of(struct rank_thread *self)
{
    leat_comm *world = NULL;
    rank_check(self, leat_comm_split(self->job, NULL, &world) == 0, "%s", leat_error_detail());
    return world;
}

static leat_comm *split(struct rank_thread *self, leat_comm *parent, enum leat_comm_kind kind,
                        int color, int key)
{
    leat_comm *comm = NULL;
    leat_comm_options options = {
        .size = sizeof options, .parent = parent, .kind = kind, .color = color, .key = key};
    rank_check(self, leat_comm_split(self->job, &options, &comm) == 0, "%s", leat_error_detail());
    return comm;
}

// Every member learns every member's number by an allgather, and sums by an allreduce; both have
// to agree with what the members' job ranks should be.
static void members_are(struct rank_thread *self, leat_comm *comm, const int *expected, int count)
{
    leat_comm_info info = {.size = sizeof info};
    if (!rank_check(self, comm && leat_comm_info_get(comm, &info) == 0, "no communicator"))
        return;
    rank_check(self, info.rank_count == count, "%d ranks, expected %d", info.rank_count, count);
    rank_check(self, info.job == self->job, "another job");
    if (info.rank_count != count)
        return;
    rank_check(self, expected[info.rank] == self->rank, "rank %d should be job rank %d", info.rank,
               expected[info.rank]);
    int32_t all[64], own = self->rank, sum = -1, want = 0;
    memset(all, 0xa5, sizeof all);
    leat_collective_options gather = {.size = sizeof gather,
                                      .kind = LEAT_ALLGATHER,
                                      .send = &own,
                                      .receive = all,
                                      .count = 1,
                                      .type = LEAT_INT32};
    leat_collective_options reduce = gather;
    reduce.kind = LEAT_ALLREDUCE;
    reduce.receive = &sum;
    rank_check(self, leat_collective(comm, &gather, NULL) == 0, "%s", leat_error_detail());
    rank_check(self, leat_collective(comm, &reduce, NULL) == 0, "%s", leat_error_detail());
    for (int rank = 0; rank < count; rank++) {
        want += expected[rank];
        rank_check(self, all[rank] == expected[rank], "member %d is %d, expected %d", rank,
                   all[rank], expected[rank]);
        rank_check(self, leat_comm_job_rank(comm, rank) == expected[rank], "job rank of %d", rank);
        rank_check(self, msg_comm_rank_of(comm, expected[rank]) == rank, "rank of job rank %d",
                   expected[rank]);
    }
    rank_check(self, sum == want, "the sum is %d, expected %d", sum, want);
}

// ---- The job's own ----

static void ask_world(struct rank_thread *self)
{
    leat_comm *world = world_of(self), *again = world_of(self);
    int expected[64];
    for (int rank = 0; rank < self->rank_count; rank++)
        expected[rank] = rank;
    rank_check(self, world == again, "two calls give two communicators");
    leat_comm_free(world); // stays
    members_are(self, world, expected, self->rank_count);
}

static void the_jobs_own_has_all_ranks_and_stays(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        ranks_run(ranks, ask_world, NULL);
}

// ---- Duplicates ----

static void talk_in_both(struct rank_thread *self)
{
    leat_comm *world = world_of(self), *other = split(self, NULL, LEAT_COMM_DUPLICATE, 0, 0);
    int expected[64], first = -1, second = -1;
    for (int rank = 0; rank < self->rank_count; rank++)
        expected[rank] = rank;
    members_are(self, other, expected, self->rank_count);
    int one = 1, two = 2, peer = self->rank ^ 1;
    leat_request sends[2];
    leat_request *both[2] = {&sends[0], &sends[1]};
    leat_send(world, (leat_data){&one, sizeof one, NULL}, peer, 5, 0, &sends[0]);
    leat_send(other, (leat_data){&two, sizeof two, NULL}, peer, 5, 0, &sends[1]);
    // In the other order: each has to find its own.
    leat_recv(other, (leat_data){&second, sizeof second, NULL}, peer, 5, NULL, NULL);
    leat_recv(world, (leat_data){&first, sizeof first, NULL}, peer, 5, NULL, NULL);
    rank_check(self, first == 1 && second == 2, "got %d and %d", first, second);
    rank_check(self, leat_request_wait(both, 2, LEAT_WAIT_ALL, -1, NULL) == 0, "%s",
               leat_error_detail());
    leat_comm_free(other);
}

static void messages_of_a_duplicate_are_apart(void **state)
{
    (void)state;
    ranks_run(2, talk_in_both, NULL);
    ranks_run(4, talk_in_both, NULL);
}

// ---- Colors and keys ----

static void divide(struct rank_thread *self)
{
    // Color by thirds, the members in falling order.
    leat_comm *third = split(self, NULL, LEAT_COMM_COLOR, self->rank % 3, -self->rank);
    int expected[64] = {0}, count = 0;
    for (int rank = self->rank_count - 1; rank >= 0; rank--)
        if (rank % 3 == self->rank % 3)
            expected[count++] = rank;
    members_are(self, third, expected, count);
    // A division of that division, and equal keys: in the parent's order.
    leat_comm_info info = {.size = sizeof info};
    leat_comm_info_get(third, &info);
    leat_comm *half = split(self, third, LEAT_COMM_COLOR, info.rank & 1, 0);
    int halves[64], half_count = 0;
    for (int i = 0; i < count; i++)
        if ((i & 1) == (info.rank & 1))
            halves[half_count++] = expected[i];
    members_are(self, half, halves, half_count);
    leat_comm *copy = split(self, half, LEAT_COMM_DUPLICATE, 7, 7);
    leat_comm_free(half);
    members_are(self, copy, halves, half_count);
    leat_comm_free(third);
    leat_comm_free(copy);
}

static void colors_divide_and_keys_order(void **state)
{
    (void)state;
    const int ranks[] = {1, 2, 5, 12};
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++)
        ranks_run(ranks[i], divide, NULL);
}

static void leave_out(struct rank_thread *self)
{
    // Odd ranks take part and get nothing; keys at both ends of their range.
    bool in = !(self->rank & 1);
    leat_comm *even = split(self, NULL, LEAT_COMM_COLOR, in ? INT32_MAX : -1,
                            self->rank & 2 ? INT32_MIN : INT32_MAX);
    int expected[64] = {0}, count = 0;
    for (int rank = 2; rank < self->rank_count; rank += 4)
        expected[count++] = rank;
    for (int rank = 0; rank < self->rank_count; rank += 4)
        expected[count++] = rank;
    if (in)
        members_are(self, even, expected, count);
    else
        rank_check(self, !even, "a rank without color got a communicator");
    leat_comm_free(even);
}

static void a_negative_color_gets_nothing(void **state)
{
    (void)state;
    ranks_run(7, leave_out, NULL);
}

static void by_host(struct rank_thread *self)
{
    leat_comm *host = split(self, NULL, LEAT_COMM_HOST, -1, -self->rank);
    int expected[64];
    for (int rank = 0; rank < self->rank_count; rank++)
        expected[rank] = self->rank_count - 1 - rank;
    members_are(self, host, expected, self->rank_count);
    leat_comm_free(host);
}

static void ranks_of_a_host_are_together(void **state)
{
    (void)state;
    ranks_run(3, by_host, NULL);
}

// ---- Numbers of communicators ----

static void make_unevenly(struct rank_thread *self)
{
    // Rank 0 alone makes some; then all make one, whose number must be new to everybody.
    leat_comm *alone[3];
    for (int i = 0; i < 3; i++)
        alone[i] = split(self, NULL, LEAT_COMM_COLOR, self->rank == 0 ? 0 : -1, 0);
    leat_comm *low = split(self, NULL, LEAT_COMM_COLOR, self->rank < 2, 0);
    leat_comm *deep = split(self, low, LEAT_COMM_DUPLICATE, 0, 0);
    leat_comm *all = split(self, NULL, LEAT_COMM_DUPLICATE, 0, 0);
    uint32_t numbers[4] = {0, low->context, deep->context, all->context};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            rank_check(self, numbers[i] != numbers[j] && !(numbers[i] & 1), "%u and %u", numbers[i],
                       numbers[j]);
    uint32_t mine = all->context, least = 0;
    leat_collective_options agree = {.size = sizeof agree,
                                     .kind = LEAT_ALLREDUCE,
                                     .send = &mine,
                                     .receive = &least,
                                     .count = 1,
                                     .type = LEAT_UINT32,
                                     .operation = LEAT_MINIMUM};
    rank_check(self, leat_collective(all, &agree, NULL) == 0 && least == mine, "%u and %u", least,
               mine);
    for (int i = 0; i < 3; i++)
        leat_comm_free(alone[i]);
    leat_comm_free(low);
    leat_comm_free(deep);
    leat_comm_free(all);
}

static void numbers_are_new_to_every_member(void **state)
{
    (void)state;
    ranks_run(4, make_unevenly, NULL);
}

static void make_and_free(struct rank_thread *self)
{
    leat_comm *first = split(self, NULL, LEAT_COMM_COLOR, self->rank & 1, -self->rank);
    leat_comm_free(first);
    uint64_t before = self->job->msg->pools.pool[POOL_WORK].used;
    for (int i = 0; i < 200; i++)
        leat_comm_free(split(self, NULL, LEAT_COMM_COLOR, self->rank & 1, -self->rank));
    rank_check(self, self->job->msg->pools.pool[POOL_WORK].used == before, "%llu bytes, then %llu",
               (unsigned long long)before,
               (unsigned long long)self->job->msg->pools.pool[POOL_WORK].used);
}

static void freed_communicators_give_everything_back(void **state)
{
    (void)state;
    ranks_run(5, make_and_free, NULL);
}

// Makes communicators until one rank's memory is used up; all have to be told, and go on.
static void make_too_many(struct rank_thread *self)
{
    struct msg_pool *work = NULL;
    leat_comm *made[512], *world = world_of(self);
    int count = 0, error = 0;
    work = &self->job->msg->pools.pool[POOL_WORK];
    if (self->rank == 1)
        work->limit = work->used + 200000;
    leat_comm_options options = {.size = sizeof options, .kind = LEAT_COMM_DUPLICATE};
    while (count < 512 && (error = leat_comm_split(self->job, &options, &made[count])) == 0)
        count++;
    rank_check(self, error == -ENOBUFS, "error %d after %d", error, count);
    rank_check(self, strstr(leat_error_detail(), "rank 1") && strstr(leat_error_detail(), "BUDGET"),
               "%s", leat_error_detail());
    rank_check(self, count > 10, "only %d communicators in 200,000 bytes", count);
    int expected[] = {0, 1, 2};
    members_are(self, made[count - 1], expected, 3);
    members_are(self, world, expected, 3);
    for (int i = 0; i < count; i++)
        leat_comm_free(made[i]);
}

static void too_many_are_refused_at_all_ranks(void **state)
{
    (void)state;
    ranks_run(3, make_too_many, NULL);
}

// ---- Wrong use ----

static void differ_in_kind(struct rank_thread *self)
{
    leat_comm *comm = NULL;
    leat_comm_options options = {.size = sizeof options,
                                 .kind = self->rank ? LEAT_COMM_COLOR : LEAT_COMM_DUPLICATE};
    rank_check(self, leat_comm_split(self->job, &options, &comm) == -EPROTO, "not refused");
    rank_check(self, strstr(leat_error_detail(), "different kinds") && !comm, "%s",
               leat_error_detail());
}

static void different_kinds_are_refused(void **state)
{
    (void)state;
    ranks_run(3, differ_in_kind, NULL);
}

static void refuse(struct rank_thread *self)
{
    leat_comm *comm = NULL, *world = world_of(self);
    leat_comm_options options = {.size = sizeof options, .kind = (enum leat_comm_kind)9};
    leat_comm_info info = {.size = 0};
    rank_check(self, leat_comm_split(self->job, &options, &comm) == -EINVAL, "kind 9");
    rank_check(self, strstr(leat_error_detail(), "kind 9"), "%s", leat_error_detail());
    options.size = 0;
    rank_check(self, leat_comm_split(self->job, &options, &comm) == -EINVAL, "size 0");
    rank_check(self, leat_comm_split(NULL, NULL, &comm) == -EINVAL, "no job");
    rank_check(self, leat_comm_split(self->job, NULL, NULL) == -EINVAL, "no output");
    rank_check(self, leat_comm_info_get(world, &info) == -EINVAL, "info without size");
    rank_check(self, leat_comm_info_get(NULL, &info) == -EINVAL, "info of nothing");
    rank_check(self, leat_comm_job_rank(world, 2) == -EINVAL, "rank 2 of 2");
    rank_check(self, strstr(leat_error_detail(), "ranks 0 to 1"), "%s", leat_error_detail());
    rank_check(self, leat_comm_job_rank(world, -1) == -EINVAL, "rank -1");
    rank_check(self, msg_comm_rank_of(world, 2) == -1, "job rank 2");
    rank_check(self, !comm, "an output was set");
    leat_comm_free(NULL);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    ranks_run(2, refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_jobs_own_has_all_ranks_and_stays),
        cmocka_unit_test(messages_of_a_duplicate_are_apart),
        cmocka_unit_test(colors_divide_and_keys_order),
        cmocka_unit_test(a_negative_color_gets_nothing),
        cmocka_unit_test(ranks_of_a_host_are_together),
        cmocka_unit_test(numbers_are_new_to_every_member),
        cmocka_unit_test(freed_communicators_give_everything_back),
        cmocka_unit_test(too_many_are_refused_at_all_ranks),
        cmocka_unit_test(different_kinds_are_refused),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests_name("communicators", tests, NULL, NULL);
}
