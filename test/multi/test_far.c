// SPDX-License-Identifier: Apache-2.0
// What ranks of several hosts do beside messages: agree, find each other's regions, copy, raise
// signals. Between ranks of one host that have to take libfabric, and between network namespaces.
//
// Advantage: real processes and a real provider. Disadvantage: which provider is the machine's.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/region.h"
#include "multi/fabric_job.h"
#include "support/splitmix.h"
#include "transport/far.h"

#include <string.h>
#include <time.h>

// ---- Ranks ----

struct checker {
    leat_job *job;
    uint64_t random;
    char said[1200]; /* what was wrong first, or "" */
};

__attribute__((format(printf, 3, 4))) static void check(struct checker *self, bool held,
                                                        const char *format, ...)
{
    va_list arguments;
    if (held || *self->said)
        return;
    va_start(arguments, format);
    vsnprintf(self->said, sizeof self->said, format, arguments);
    va_end(arguments);
}

static void delay(struct checker *self)
{
    uint64_t ns = splitmix_next(&self->random) % 2000000;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

// Of a rank, in the order of adding which decides about the last bits.
static double term(int rank, int round)
{
    return (rank % 2 ? 1e16 : 0.1) * (rank + 1) / (round + 3);
}

static void play_reduce(struct checker *self)
{
    leat_job *job = self->job;
    for (int round = 0; round < 20; round++) {
        double values[3] = {term(job->rank, round), job->rank, -1}, sum = 0;
        delay(self);
        int error = leat_reduce(job, REDUCE_SUM, values, 2);
        for (int rank = 0; rank < job->rank_count; rank++)
            sum = rank ? sum + term(rank, round) : term(rank, round);
        check(self, !error && values[0] == sum && values[2] == -1, "round %d: %d, %a for %a: %s",
              round, error, values[0], sum, leat_error_detail());
        values[0] = values[1] = job->rank == 1 ? round : -round;
        error = leat_reduce(job, REDUCE_MAX, values, 1);
        check(self, !error && values[0] == round, "maximum of round %d: %d, %g", round, error,
              values[0]);
        error = round % 3 == 0 && job->rank == 1 ? leat_fail(-EDOM, "rank 1 says no") : 0;
        int verdict = leat_agree(job, error);
        int expected = round % 3 ? 0 : job->rank == 1 ? -EDOM : -EREMOTEIO;
        check(self, verdict == expected, "agreement of round %d: %d for %d: %s", round, verdict,
              expected, leat_error_detail());
        check(self, !verdict || strstr(leat_error_detail(), "rank 1 says no"), "detail: %s",
              leat_error_detail());
        check(self, verdict != -EREMOTEIO || !strncmp(leat_error_detail(), "rank 1: ", 8),
              "whose detail: %s", leat_error_detail());
    }
}

// Rank 2 is late for ever; rank 0 says of whom it has not heard.
static void play_late(struct checker *self)
{
    check(self, !leat_barrier(self->job), "%s", leat_error_detail());
    printf("open %d\n", (int)getpid());
    fflush(stdout);
    while (self->job->rank == 2)
        pause();
    int error = leat_barrier(self->job);
    printf("barrier %d: %s\n", error, leat_error_detail());
}

enum { BOX_BYTES = 300000, BOX_SIGNALS = 2, BOX_HEAD = BOX_SIGNALS * LEAT_SIGNAL_BYTES };

static uint8_t stamp(int from, int to, uint64_t at)
{
    return (uint8_t)((uint64_t)from * 31 + (uint64_t)to * 7 + at * 13 + (at >> 8));
}

static void copy_to(struct checker *self, int to, leat_region *scratch)
{
    leat_job *job = self->job;
    leat_region *box;
    const leat_region_options options = {.size = sizeof options, .name = "box", .owner = to};
    int error = leat_region_register(job, &options, &box);
    check(self, !error, "finding box: %s", leat_error_detail());
    if (error)
        return;
    leat_region_info info = {.size = sizeof info};
    leat_region_info_get(box, &info);
    check(self, info.bytes == BOX_BYTES && !info.address && !strcmp(info.path, "fabric"),
          "box has %llu bytes at %p by %s", (unsigned long long)info.bytes, info.address,
          info.path);
    const uint64_t half = (BOX_BYTES - BOX_HEAD) / 2;
    uint8_t *bytes = scratch->address;
    for (uint64_t i = 0; i < half; i++)
        bytes[i] = stamp(job->rank, to, i);
    error = leat_copy(job, (leat_place){box, BOX_HEAD}, (leat_place){scratch, 0}, half,
                      (leat_place){box, 0}, 7);
    check(self, !error, "copy: %s", leat_error_detail());
    // The other half comes back by a get.
    memset(bytes, 0xa5, half);
    error = leat_copy(job, (leat_place){scratch, 0}, (leat_place){box, BOX_HEAD + half}, half,
                      (leat_place){0}, 0);
    check(self, !error, "copy back: %s", leat_error_detail());
    for (uint64_t i = 0; i < half; i++)
        if (bytes[i] != stamp(to, to, i))
            check(self, false, "byte %d of the get is %d", (int)i, bytes[i]);
    error = leat_copy(job, (leat_place){box, BOX_BYTES - 10}, (leat_place){scratch, 0}, 11,
                      (leat_place){0}, 0);
    check(self, error == -ERANGE, "a copy beyond the end: %d", error);
    leat_barrier(job); // owners free their boxes
    leat_barrier(job);
    error = leat_copy(job, (leat_place){box, BOX_HEAD}, (leat_place){scratch, 0}, half,
                      (leat_place){box, 0}, 8);
    check(self, error == -ESTALE, "a copy to a freed region: %d %s", error, leat_error_detail());
    error = leat_copy(job, (leat_place){scratch, 0}, (leat_place){box, BOX_HEAD}, half,
                      (leat_place){0}, 0);
    check(self, error == -ESTALE, "a copy from a freed region: %d", error);
    leat_barrier(job);
    leat_region_free(box);
}

static void play_copy(struct checker *self)
{
    leat_job *job = self->job;
    leat_region *box = NULL, *scratch = NULL;
    const leat_region_options named = {.size = sizeof named, .bytes = BOX_BYTES, .name = "box"};
    const leat_region_options plain = {.size = sizeof plain, .bytes = BOX_BYTES};
    check(self, !leat_region_alloc(job, &plain, &scratch), "%s", leat_error_detail());
    delay(self);
    check(self, !leat_region_alloc(job, &named, &box), "%s", leat_error_detail());
    if (*self->said)
        return;
    const uint64_t half = (BOX_BYTES - BOX_HEAD) / 2;
    uint8_t *bytes = box->address;
    if (job->rank == 1) {
        for (uint64_t i = 0; i < half; i++)
            bytes[BOX_HEAD + half + i] = stamp(1, 1, i);
        memset(bytes + BOX_HEAD, 0x5a, half);
    }
    check(self, !leat_barrier(job), "%s", leat_error_detail());
    if (job->rank == 0) {
        copy_to(self, 1, scratch);
        return;
    }
    // The owner is in no call of leat while its neighbour copies, but for this wait.
    const leat_event event = {.signal = {box, 0}, .at_least = 7, .from = 0};
    if (job->rank == 1) {
        check(self, !leat_wait(job, &event, 1, LEAT_WAIT_ALL, -1, NULL), "%s", leat_error_detail());
        for (uint64_t i = 0; i < half; i++)
            if (bytes[BOX_HEAD + i] != stamp(0, 1, i))
                check(self, false, "byte %d of the put is %d", (int)i, bytes[BOX_HEAD + i]);
    }
    leat_barrier(job);
    leat_region_free(box);
    leat_barrier(job);
    leat_barrier(job); // an owner that has left is another error
}

static const struct {
    const char *name;
    void (*play)(struct checker *self);
} roles[] = {{"reduce", play_reduce}, {"late", play_late}, {"copy", play_copy}};

static void play_role(int argc, char **argv)
{
    struct checker self = {0};
    if (argc != 3 || strcmp(argv[1], "rank") != 0)
        return;
    alarm(3 * ROOT_LIMIT_MS / 1000); // should the test be killed
    if (leat_open(NULL, &self.job)) {
        printf("open: %s\n", leat_error_detail());
        exit(3);
    }
    self.random = (uint64_t)self.job->rank + 1;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i].name, argv[2]))
            roles[i].play(&self);
    printf("%s %s\n", argv[2], *self.said ? self.said : "is all right");
    fflush(stdout);
    leat_close(self.job, *self.said ? self.said : NULL);
    exit(*self.said != 0);
}

// ---- The tests ----

// `where` NULL: on this host.
static void start(struct started *ranks, const int *where, int count, const char *timeout_s,
                  const char *role)
{
    fabric_start(ranks, where, count, 7950, where ? NULL : "require:fabric", timeout_s, role);
}

static void run(const int *where, int count, const char *role)
{
    static struct started ranks[4];
    char words[64];
    start(ranks, where, count, "20", role);
    snprintf(words, sizeof words, "%s is all right", role);
    for (int rank = 0; rank < count; rank++) {
        int status = root_finish(&ranks[rank]);
        root_expect(&ranks[rank], words);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static const int by_turns[] = {0, 1, 1, 0};

static void test_reductions_add_in_rank_order_and_agree(void **state)
{
    (void)state;
    need_fabric();
    run(NULL, 3, "reduce");
}

static void test_reductions_between_networks(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    run(by_turns, 4, "reduce");
}

static void test_regions_are_found_and_copied(void **state)
{
    (void)state;
    need_fabric();
    run(NULL, 3, "copy");
}

static void test_regions_between_networks(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    run(by_turns, 4, "copy");
}

static void test_who_is_late_for_an_agreement_is_named_by_all(void **state)
{
    (void)state;
    need_fabric();
    static struct started ranks[4];
    start(ranks, NULL, 4, "1", "late");
    for (int rank = 0; rank < 4; rank++)
        root_await(&ranks[rank], "open ");
    for (int rank = 0; rank < 4; rank++) {
        if (rank == 2)
            continue;
        root_await(&ranks[rank], "barrier -110: reduction: rank 2 did not answer");
        root_finish(&ranks[rank]);
    }
    kill(ranks[2].pid, SIGKILL);
    root_finish(&ranks[2]);
}

static void test_who_is_killed_before_an_agreement_is_named_by_all(void **state)
{
    (void)state;
    need_fabric();
    need_networks();
    static struct started ranks[4];
    start(ranks, by_turns, 4, "20", "late");
    for (int rank = 0; rank < 4; rank++)
        root_await(&ranks[rank], "open ");
    uint64_t since_ms = root_now_ms();
    kill(ranks[2].pid, SIGKILL);
    root_finish(&ranks[2]);
    for (int rank = 0; rank < 4; rank++) {
        if (rank == 2)
            continue;
        root_finish(&ranks[rank]);
        root_expect(&ranks[rank], "barrier -104: ");
        root_expect(&ranks[rank], "rank 2 was lost");
    }
    assert_true(root_now_ms() - since_ms < 5000);
}

int main(int argc, char **argv)
{
    play_role(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_add_in_rank_order_and_agree),
        cmocka_unit_test(test_reductions_between_networks),
        cmocka_unit_test(test_regions_are_found_and_copied),
        cmocka_unit_test(test_regions_between_networks),
        cmocka_unit_test(test_who_is_late_for_an_agreement_is_named_by_all),
        cmocka_unit_test(test_who_is_killed_before_an_agreement_is_named_by_all),
    };
    return cmocka_run_group_tests(tests, join_networks, leave_networks);
}
