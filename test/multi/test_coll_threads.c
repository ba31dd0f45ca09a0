// SPDX-License-Identifier: Apache-2.0
// Collectives over shared memory: ranks are threads, calls block or are waited for.
//
// The same cases as over the network in memory, here with everything that a host's ranks share.

#include "ranks.h"

#include "coll_case.h"

#include <errno.h>

struct plan {
    uint64_t count;
    bool uneven;
};

// True where all bytes are as expected; a failure names the first that is not.
static bool as_expected(struct rank_thread *self, const struct coll_case *test,
                        const struct case_memory *memory)
{
    char text[200];
    uint64_t bytes = memory->receive_bytes + 2 * CASE_GUARD, i = 0;
    while (i < bytes && memory->receive[i] == memory->expected[i])
        i++;
    return rank_check(self, i == bytes, "%s: byte %lld of %llu",
                      case_text(test, self->rank_count, text, sizeof text),
                      (long long)i - CASE_GUARD, (unsigned long long)memory->receive_bytes);
}

static bool one(struct rank_thread *self, leat_comm *comm, const struct coll_case *test)
{
    struct case_memory memory;
    leat_collective_options options;
    case_make(test, &memory, self->rank_count, self->rank);
    case_options(test, &memory, self->rank_count, self->rank, &options);
    int error = leat_collective(comm, &options, NULL);
    bool held =
        rank_check(self, error == 0, "%s", leat_error_detail()) && as_expected(self, test, &memory);
    case_drop(&memory);
    return held;
}

static bool takes_sizes(enum leat_collective_kind kind)
{
    return kind >= LEAT_GATHER && kind <= LEAT_ALLTOALL;
}

static void every_kind(struct rank_thread *self)
{
    const struct plan *plan = self->user;
    leat_comm *comm;
    if (!rank_check(self, leat_comm_split(self->job, NULL, &comm) == 0, "%s", leat_error_detail()))
        return;
    for (enum leat_collective_kind kind = 0; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        int count;
        const char *const *name = msg_algorithms(kind, &count);
        if (plan->uneven && !takes_sizes(kind))
            continue;
        for (int i = -1; i < count; i++) {
            // Trees of gather and scatter are for blocks of one size.
            if (plan->uneven && i > 0 && kind != LEAT_ALLGATHER && kind != LEAT_ALLTOALL)
                continue;
            struct coll_case test = {.kind = kind,
                                     .values = (enum case_values)((unsigned)(i + 1) % VALUES_COUNT),
                                     .root = self->rank_count - 1,
                                     .count = plan->count,
                                     .uneven = plan->uneven,
                                     // There the rest of the blocks is nobody's.
                                     .in_place = i & 1 && kind != LEAT_REDUCE_SCATTER,
                                     .algorithm = i < 0 ? NULL : name[i]};
            if (!one(self, comm, &test))
                return;
        }
    }
}

static void blocking_calls_are_exact(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 9, 500, 20000};
    for (int ranks = 1; ranks <= 5; ranks += 1 + (ranks == 3))
        for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct plan plan = {.count = counts[i]};
            ranks_run(ranks, every_kind, &plan);
            plan.uneven = true;
            ranks_run(ranks, every_kind, &plan);
        }
}

// ---- Several under way ----

#define FLIGHT 12

static void start_many(struct rank_thread *self)
{
    struct coll_case test[FLIGHT];
    struct case_memory memory[FLIGHT];
    leat_request request[FLIGHT], *pointer[FLIGHT];
    leat_comm *comm;
    if (!rank_check(self, leat_comm_split(self->job, NULL, &comm) == 0, "%s", leat_error_detail()))
        return;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < FLIGHT; i++) {
            // Those of a few words and longer ones in turn.
            test[i] = (struct coll_case){.kind = i % 3 == 0   ? LEAT_BARRIER
                                                 : i % 3 == 1 ? LEAT_ALLREDUCE
                                                              : LEAT_BROADCAST,
                                         .values = VALUES_INT64_MAXIMUM,
                                         .root = round % self->rank_count,
                                         .count = i & 4 ? 8 : 1000};
            leat_collective_options options;
            case_make(&test[i], &memory[i], self->rank_count, self->rank);
            case_options(&test[i], &memory[i], self->rank_count, self->rank, &options);
            pointer[i] = &request[i];
            rank_check(self, leat_collective(comm, &options, &request[i]) == 0, "%s",
                       leat_error_detail());
        }
        rank_check(self, leat_request_wait(pointer, FLIGHT, LEAT_WAIT_ALL, -1, NULL) == 0, "%s",
                   leat_error_detail());
        for (int i = 0; i < FLIGHT; i++) {
            as_expected(self, &test[i], &memory[i]);
            case_drop(&memory[i]);
        }
    }
}

static void several_at_a_time_are_exact(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        ranks_run(ranks, start_many, NULL);
}

// ---- Order ----

// A sum whose bits depend on the brackets, in the job's communicator and in its 20th copy.
static void sum_twice(struct rank_thread *self)
{
    leat_comm *comm = NULL, *copy[20];
    leat_comm_split(self->job, NULL, &comm);
    leat_comm_options options = {.size = sizeof options, .kind = LEAT_COMM_DUPLICATE};
    for (int i = 0; i < 20; i++)
        rank_check(self, leat_comm_split(self->job, &options, &copy[i]) == 0, "%s",
                   leat_error_detail());
    for (uint64_t i = 0; i < 200; i++) {
        double value = 1.0 / (double)(1 + case_hash((uint64_t)self->rank, i) % 1000);
        double sum[2] = {-1, -1};
        for (int j = 0; j < 2; j++) {
            leat_collective_options allreduce = {.size = sizeof allreduce,
                                                 .kind = LEAT_ALLREDUCE,
                                                 .send = &value,
                                                 .receive = &sum[j],
                                                 .count = 1,
                                                 .type = LEAT_DOUBLE,
                                                 .operation = LEAT_SUM};
            rank_check(self, leat_collective(j ? copy[19] : comm, &allreduce, NULL) == 0, "%s",
                       leat_error_detail());
        }
        rank_check(self, memcmp(&sum[0], &sum[1], 8) == 0, "sum %llu: %a and %a",
                   (unsigned long long)i, sum[0], sum[1]);
    }
    for (int i = 0; i < 20; i++)
        leat_comm_free(copy[i]);
}

static void every_communicator_gives_the_same_bits(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 7; ranks++)
        ranks_run(ranks, sum_twice, NULL);
}

// ---- Lines of a few words ----

// Ranks run ahead of each other as far as they can; nothing may be overwritten before it is read.
static void run_ahead(struct rank_thread *self)
{
    leat_comm *comm = NULL;
    leat_comm_split(self->job, NULL, &comm);
    struct ranks_random random = {.state = 7}; // the same at all ranks
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t word = ranks_random_word(&random), value[20];
        // One root for long, then any; broadcasts for long, then allreduces among them.
        int root = i % 600 < 300 ? 0 : (int)((word >> 8) % (uint64_t)self->rank_count);
        bool broadcast = i % 600 < 500 || word & 1;
        for (uint64_t at = 0; at < 20; at++)
            value[at] = broadcast && self->rank != root ? 99 : i * 20 + at;
        leat_collective_options options = {.size = sizeof options,
                                           .kind = broadcast ? LEAT_BROADCAST : LEAT_ALLREDUCE,
                                           .send = broadcast ? NULL : LEAT_IN_PLACE,
                                           .receive = value,
                                           .count = 1 + word % 20,
                                           .type = LEAT_UINT64,
                                           .operation = LEAT_MAXIMUM,
                                           .root = root};
        if (!rank_check(self, leat_collective(comm, &options, NULL) == 0, "%s",
                        leat_error_detail()))
            return;
        for (uint64_t at = 0; at < options.count; at++)
            if (!rank_check(self, value[at] == i * 20 + at, "call %d, value %d is %llu", (int)i,
                            (int)at, (unsigned long long)value[at]))
                return;
    }
}

static void no_rank_runs_over_what_another_reads(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        ranks_run(ranks, run_ahead, NULL);
}

static void differ(struct rank_thread *self)
{
    leat_comm *comm = NULL;
    uint64_t value[4] = {0};
    leat_comm_split(self->job, NULL, &comm);
    leat_collective_options options = {.size = sizeof options,
                                       .kind = self->rank ? LEAT_ALLREDUCE : LEAT_BARRIER,
                                       .send = LEAT_IN_PLACE,
                                       .receive = value,
                                       .count = 3,
                                       .type = LEAT_UINT64,
                                       .operation = LEAT_SUM};
    rank_check(self, leat_collective(comm, &options, NULL) == -EPROTO, "not refused");
    rank_check(self, strstr(leat_error_detail(), "barrier of 0 bytes"), "%s", leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), "allreduce of 24 bytes"), "%s",
               leat_error_detail());
    options.kind = LEAT_ALLREDUCE;
    options.count = 2 + (uint64_t)self->rank;
    rank_check(self, leat_collective(comm, &options, NULL) == -EPROTO, "not refused");
    rank_check(self, strstr(leat_error_detail(), "16 bytes"), "%s", leat_error_detail());
    options.count = 2;
    rank_check(self, leat_collective(comm, &options, NULL) == 0, "%s", leat_error_detail());
}

static void calls_that_do_not_fit_are_named(void **state)
{
    (void)state;
    ranks_run(2, differ, NULL);
}

// Rank 0 calls for a barrier, and the others only once it has said whom it waits for.
static void wait_in_vain(struct rank_thread *self)
{
    leat_comm *comm = NULL;
    leat_request request, *pointer = &request;
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    const leat_data go = {.bytes = 0};
    leat_comm_split(self->job, NULL, &comm);
    if (self->rank == 0) {
        int error = leat_collective(comm, &barrier, &request);
        if (!error)
            error = leat_request_wait(&pointer, 1, LEAT_WAIT_ALL, 0.02, NULL);
        rank_check(self,
                   error == -ETIMEDOUT && strstr(leat_error_detail(),
                                                 "barrier (words) waits for rank 1, 2 to call for "
                                                 "it"),
                   "%d: %s", error, leat_error_detail());
        for (int rank = 1; rank < self->rank_count; rank++)
            leat_send(comm, go, rank, 5, 0, NULL);
        error = leat_request_wait(&pointer, 1, LEAT_WAIT_ALL, -1, NULL);
        rank_check(self, error == 0, "%s", leat_error_detail());
        return;
    }
    leat_recv(comm, go, 0, 5, NULL, NULL);
    rank_check(self, leat_collective(comm, &barrier, NULL) == 0, "%s", leat_error_detail());
}

static void one_that_waits_says_for_whom(void **state)
{
    (void)state;
    ranks_run(3, wait_in_vain, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocking_calls_are_exact),
        cmocka_unit_test(several_at_a_time_are_exact),
        cmocka_unit_test(every_communicator_gives_the_same_bits),
        cmocka_unit_test(no_rank_runs_over_what_another_reads),
        cmocka_unit_test(one_that_waits_says_for_whom),
        cmocka_unit_test(calls_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests_name("collectives of threads", tests, NULL, NULL);
}
