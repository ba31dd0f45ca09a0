// SPDX-License-Identifier: Apache-2.0
// Regions, copies, signals and their waits, between ranks that are threads over one mapping.

#include "multi/boxes.h"

#include "core/job.h"
#include "core/region.h"

#include <errno.h>

static leat_region *alloc_named(struct rank_thread *self, const char *name, uint64_t bytes)
{
    leat_region_options options = {.size = sizeof options, .bytes = bytes, .name = name};
    leat_region *region = NULL;
    rank_check(self, !leat_region_alloc(self->job, &options, &region), "%s", leat_error_detail());
    return region;
}

static leat_region *attach(struct rank_thread *self, const char *name, int owner)
{
    leat_region_options options = {.size = sizeof options, .name = name, .owner = owner};
    leat_region *region = NULL;
    rank_check(self, !leat_region_register(self->job, &options, &region), "%s",
               leat_error_detail());
    return region;
}

static uint64_t *words(const leat_region *region)
{
    leat_region_info info = {.size = sizeof info};
    leat_region_info_get(region, &info);
    return info.address;
}

static void pass_around(struct rank_thread *self)
{
    enum { COUNT = 1000, ROUNDS = 200 };
    int next = (self->rank + 1) % self->rank_count;
    int before = (self->rank + self->rank_count - 1) % self->rank_count;
    leat_region *in = alloc_named(self, "in", COUNT * 8 + LEAT_SIGNAL_BYTES);
    leat_region *out = alloc_named(self, NULL, COUNT * 8);
    leat_region *there = attach(self, "in", next);
    const uint64_t signal_offset = COUNT * 8 / 64 * 64;
    bool held = !self->failure_count;
    for (uint64_t round = 1; held && round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < signal_offset / 8; i++)
            words(out)[i] = round << 32 | (uint64_t)self->rank << 16 | i;
        held = rank_check(self,
                          !leat_copy(self->job, (leat_place){there, 0}, (leat_place){out, 0},
                                     signal_offset, (leat_place){there, signal_offset}, round),
                          "%s", leat_error_detail());
        leat_event arrived = {{in, signal_offset}, round, before};
        held = held && rank_check(self, !leat_wait(self->job, &arrived, 1, LEAT_WAIT_ALL, -1, NULL),
                                  "%s", leat_error_detail());
        for (uint64_t i = 0; held && i < signal_offset / 8; i++)
            held = rank_check(self, words(in)[i] == (round << 32 | (uint64_t)before << 16 | i),
                              "word %llu of round %llu is %llx", (unsigned long long)i,
                              (unsigned long long)round, (unsigned long long)words(in)[i]);
        held = held && !leat_barrier(self->job);
    }
}

static void test_who_sees_the_signal_sees_the_bytes(void **state)
{
    (void)state;
    ranks_run(2, pass_around, NULL);
    ranks_run(5, pass_around, NULL);
}

static void register_own(struct rank_thread *self)
{
    uint64_t mine[4] = {1, 2, 3, (uint64_t)self->rank}, got[4] = {0};
    leat_region_options options = {
        .size = sizeof options, .bytes = sizeof mine, .name = "mine", .address = mine};
    leat_region *own = NULL, *sink = NULL;
    rank_check(self, !leat_region_register(self->job, &options, &own), "%s", leat_error_detail());
    options = (leat_region_options){.size = sizeof options, .bytes = sizeof got, .address = got};
    rank_check(self, !leat_region_register(self->job, &options, &sink), "%s", leat_error_detail());
    int next = (self->rank + 1) % self->rank_count;
    leat_region *peer = attach(self, "mine", next);
    rank_check(self,
               !leat_copy(self->job, (leat_place){sink, 0}, (leat_place){peer, 0}, sizeof got,
                          (leat_place){0}, 0),
               "%s", leat_error_detail());
    rank_check(self, got[2] == 3 && got[3] == (uint64_t)next, "got %llu, %llu",
               (unsigned long long)got[2], (unsigned long long)got[3]);
    int error =
        leat_copy(self->job, (leat_place){peer, 8}, (leat_place){sink, 0}, 32, (leat_place){0}, 0);
    rank_check(self, error == -ERANGE && strstr(leat_error_detail(), "offset 8"), "%d %s", error,
               leat_error_detail());
    error = leat_copy(self->job, (leat_place){sink, 0}, (leat_place){own, 0}, 8,
                      (leat_place){own, 0}, 1);
    rank_check(self, error == -ERANGE || error == -EINVAL, "a signal in registered memory: %d",
               error);
    rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
}

static void test_registered_memory_is_copied_and_its_bounds_kept(void **state)
{
    (void)state;
    ranks_run(3, register_own, NULL);
}

static void free_under_peers(struct rank_thread *self)
{
    leat_region *old = alloc_named(self, "gone", 4096);
    words(old)[0] = 77;
    int next = (self->rank + 1) % self->rank_count;
    leat_region *view = attach(self, "gone", next);
    leat_region *sink = alloc_named(self, NULL, 64);
    rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    leat_region_free(old);
    leat_region *again = alloc_named(self, "gone", 4096); // the same place, another region
    rank_check(self, words(again)[0] == 0, "fresh memory holds %llu",
               (unsigned long long)words(again)[0]);
    rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    int error =
        leat_copy(self->job, (leat_place){sink, 0}, (leat_place){view, 0}, 64, (leat_place){0}, 0);
    rank_check(self, error == -ESTALE, "a freed region could be read: %d", error);
    rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
}

static void test_a_freed_region_is_stale_also_when_its_place_is_used_again(void **state)
{
    (void)state;
    ranks_run(2, free_under_peers, NULL);
}

static void refuse(struct rank_thread *self)
{
    leat_region *region = alloc_named(self, "one", 64);
    leat_region *other = NULL;
    leat_region_options options = {.size = sizeof options, .bytes = 64, .name = "one"};
    rank_check(self, leat_region_alloc(self->job, &options, &other) == -EEXIST && !other, "%s",
               leat_error_detail());
    options.name = "a name that is far too long for the directory";
    rank_check(self, leat_region_alloc(self->job, &options, &other) == -ENAMETOOLONG, "%s",
               leat_error_detail());
    options = (leat_region_options){.size = sizeof options, .bytes = UINT64_MAX - 8};
    rank_check(self, leat_region_alloc(self->job, &options, &other) == -ENOMEM, "%s",
               leat_error_detail());
    rank_check(self, strstr(leat_error_detail(), "LEAT_ARENA") != NULL, "no remedy in: %s",
               leat_error_detail());
    options.bytes = 65 << 20;
    rank_check(self, leat_region_alloc(self->job, &options, &other) == -ENOMEM, "%s",
               leat_error_detail());
    options = (leat_region_options){.size = sizeof options, .name = "one", .owner = 9};
    rank_check(self, leat_region_register(self->job, &options, &other) == -EINVAL, "%s",
               leat_error_detail());
    leat_event event = {{region, 0}, 1, self->rank};
    rank_check(self, leat_wait(self->job, &event, 1, LEAT_WAIT_ALL, 0, NULL) == -ETIMEDOUT, "%s",
               leat_error_detail());
    event.signal.offset = 8;
    rank_check(self, leat_wait(self->job, &event, 1, LEAT_WAIT_ALL, 0, NULL) < 0, "%s",
               leat_error_detail());
}

static void test_what_cannot_be_is_refused_with_its_remedy(void **state)
{
    (void)state;
    ranks_run(1, refuse, NULL);
}

static void churn(struct rank_thread *self)
{
    leat_region *live[40] = {0};
    uint64_t state = 3 + (uint64_t)self->rank;
    leat_stats stats = {.size = sizeof stats};
    leat_stats_read(self->job, LEAT_ALL_PEERS, &stats);
    uint64_t before = stats.arena_used_bytes;
    for (int i = 0; i < 4000 && !self->failure_count; i++) {
        int at = (int)(box_random(&state) * 40);
        uint64_t bytes = (uint64_t)(box_random(&state) * 20000);
        if (live[at]) {
            leat_region_info info = {.size = sizeof info};
            leat_region_info_get(live[at], &info);
            const unsigned char *byte = info.address;
            for (uint64_t k = 0; k < info.bytes; k++)
                if (!rank_check(self, byte[k] == at, "two regions share a byte"))
                    return;
            leat_region_free(live[at]);
            live[at] = NULL;
        } else if ((live[at] = alloc_named(self, NULL, bytes)) != NULL) {
            const unsigned char *byte = (unsigned char *)words(live[at]);
            for (uint64_t k = 0; k < bytes; k++)
                if (!rank_check(self, byte[k] == 0, "fresh memory is not zero"))
                    return;
            memset(words(live[at]), at, bytes);
        }
    }
    for (int at = 0; at < 40; at++)
        leat_region_free(live[at]);
    leat_stats_read(self->job, LEAT_ALL_PEERS, &stats);
    rank_check(self, stats.arena_used_bytes == before, "%llu bytes in use instead of %llu",
               (unsigned long long)stats.arena_used_bytes, (unsigned long long)before);
}

static void test_regions_come_and_go_without_overlap_or_leak(void **state)
{
    (void)state;
    ranks_run(2, churn, NULL);
}

static void wait_any(struct rank_thread *self)
{
    leat_region *region = alloc_named(self, "signals", 3 * LEAT_SIGNAL_BYTES);
    leat_region *empty = alloc_named(self, NULL, 64);
    if (self->rank == 1) {
        leat_region *there = attach(self, "signals", 0);
        leat_copy(self->job, (leat_place){there, 0}, (leat_place){empty, 0}, 0,
                  (leat_place){there, 128}, 5);
    } else {
        leat_event events[3];
        for (int i = 0; i < 3; i++)
            events[i] = (leat_event){{region, (uint64_t)i * 64}, i == 2 ? 5 : 1, 1};
        size_t index = 99;
        rank_check(self, !leat_wait(self->job, events, 3, LEAT_WAIT_ANY, -1, &index) && index == 2,
                   "event %zu: %s", index, leat_error_detail());
    }
    rank_check(self, !leat_barrier(self->job), "%s", leat_error_detail());
}

static void test_wait_any_names_the_event_that_is_in(void **state)
{
    (void)state;
    ranks_run(2, wait_any, NULL);
}

static void reduce(struct rank_thread *self)
{
    double sum[LEAT_REDUCE_WORDS];
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < LEAT_REDUCE_WORDS; i++)
            sum[i] = (self->rank + 1) * 0.1 + i * 1e-17 * self->rank + round;
        if (!rank_check(self, !leat_reduce(self->job, REDUCE_SUM, sum, LEAT_REDUCE_WORDS), "%s",
                        leat_error_detail()))
            return;
        for (int i = 0; i < LEAT_REDUCE_WORDS; i++) {
            double wanted = 0.1 + round;
            for (int rank = 1; rank < self->rank_count; rank++)
                wanted += (rank + 1) * 0.1 + i * 1e-17 * rank + round;
            rank_check(self, sum[i] == wanted, "round %d, word %d: %.17g, not %.17g in rank order",
                       round, i, sum[i], wanted);
        }
        double extreme[2] = {self->rank, -self->rank};
        leat_reduce(self->job, REDUCE_MAX, extreme, 2);
        rank_check(self, extreme[0] == self->rank_count - 1 && extreme[1] == 0, "maxima %g %g",
                   extreme[0], extreme[1]);
    }
}

static void test_reductions_add_in_rank_order(void **state)
{
    (void)state;
    ranks_run(2, reduce, NULL);
    ranks_run(7, reduce, NULL);
}

static void disagree(struct rank_thread *self)
{
    int own = self->rank == 2 ? leat_fail(-ENOSPC, "rank two is full") : 0;
    int verdict = leat_agree(self->job, own);
    rank_check(self, verdict == (self->rank == 2 ? -ENOSPC : -EREMOTEIO), "verdict %d", verdict);
    rank_check(self, strstr(leat_error_detail(), "rank two is full") != NULL, "detail: %s",
               leat_error_detail());
    rank_check(self, leat_agree(self->job, 0) == 0, "an old verdict comes back");
}

static void test_one_failure_is_everybodys_verdict(void **state)
{
    (void)state;
    ranks_run(4, disagree, NULL);
}

static void query(struct rank_thread *self)
{
    leat_path_report report = {.size = sizeof report};
    int peer = 1 - self->rank;
    rank_check(self, !leat_path_query(self->job, peer, 0, &report), "%s", leat_error_detail());
    const char *names[] = {"self", "peer", "shm"};
    for (int i = 0; i < 3; i++)
        rank_check(self,
                   !strcmp(report.row[i].name, names[i]) && report.row[i].reason[0] &&
                       report.row[i].chosen == (i == 2),
                   "row %d: %s (%s)", i, report.row[i].name, report.row[i].reason);
}

static void test_the_path_report_has_a_reason_for_every_row(void **state)
{
    (void)state;
    ranks_run(2, query, NULL);
}

static void forbidden(struct rank_thread *self)
{
    leat_path_report report = {.size = sizeof report};
    int error = leat_path_query(self->job, 1 - self->rank, 0, &report);
    rank_check(self, error == -EHOSTUNREACH && strstr(leat_error_detail(), "LEAT_PATHS"), "%d %s",
               error, leat_error_detail());
}

static void test_a_forbidden_path_is_not_taken(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "forbid:shm", 1);
    ranks_run(2, forbidden, NULL);
    setenv("LEAT_PATHS", "require:peer", 1);
    ranks_run(2, forbidden, NULL);
    unsetenv("LEAT_PATHS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_sees_the_signal_sees_the_bytes),
        cmocka_unit_test(test_registered_memory_is_copied_and_its_bounds_kept),
        cmocka_unit_test(test_a_freed_region_is_stale_also_when_its_place_is_used_again),
        cmocka_unit_test(test_what_cannot_be_is_refused_with_its_remedy),
        cmocka_unit_test(test_regions_come_and_go_without_overlap_or_leak),
        cmocka_unit_test(test_wait_any_names_the_event_that_is_in),
        cmocka_unit_test(test_reductions_add_in_rank_order),
        cmocka_unit_test(test_one_failure_is_everybodys_verdict),
        cmocka_unit_test(test_the_path_report_has_a_reason_for_every_row),
        cmocka_unit_test(test_a_forbidden_path_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
