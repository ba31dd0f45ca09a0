// SPDX-License-Identifier: Apache-2.0
// What goes wrong between ranks ends with an error on every rank that says who, where and what.

#include "multi/boxes.h"

#include "core/job.h"
#include "halo/plan.h"

#include <errno.h>

static const enum leat_mode both_modes[] = {LEAT_MODE_FUSED, LEAT_MODE_HOST};
static const int pair[3] = {2, 1, 1}, cube[3] = {2, 2, 2};

struct job {
    struct box box;
    enum leat_mode mode;
    void (*spoil)(struct rank_thread *self, struct leat_plan *plan, uint64_t *bytes);
    int expected[BOX_RANKS]; /* leat_halo_open's answer */
    const char *words[3];    /* all in the detail of the rank that found it */
};

static int open_halo(struct rank_thread *self, const struct job *job, leat_plan *plan,
                     uint64_t bytes, leat_halo **halo, double **x)
{
    leat_region *region = NULL;
    *x = box_region(self, bytes, &region);
    const leat_field field = {
        .place = {region, 0}, .element = LEAT_F64, .components = 3, .shifted = 1};
    const leat_halo_options options = {
        .size = sizeof options, .mode = job->mode, .field_count = 1, .fields = &field};
    return leat_halo_open(self->job, plan, &options, halo);
}

static void open_spoilt(struct rank_thread *self)
{
    struct job *job = self->user;
    leat_plan *plan = box_plan(self, &job->box);
    if (!plan)
        return;
    uint64_t bytes = box_info(plan).element_count * 24ull + 4096;
    job->spoil(self, plan, &bytes);
    leat_halo *halo = NULL;
    double *x;
    int error = open_halo(self, job, plan, bytes, &halo, &x);
    rank_check(self, error == job->expected[self->rank] && !halo, "%d instead of %d: %s", error,
               job->expected[self->rank], leat_error_detail());
    for (int i = 0; i < 3; i++)
        rank_check(self, strstr(leat_error_detail(), job->words[i]) != NULL, "\"%s\" is not in: %s",
                   job->words[i], leat_error_detail());
    leat_plan_free(plan);
    // What failed on one rank early has not put the ranks out of step.
    plan = box_plan(self, &job->box);
    if (!plan)
        return;
    error = open_halo(self, job, plan, box_info(plan).element_count * 24ull + 4096, &halo, &x);
    rank_check(self, !error && !leat_halo_exchange(halo, 0, LEAT_FORWARD), "the next halo: %s",
               leat_error_detail());
    leat_halo_free(halo);
    leat_plan_free(plan);
}

static void run_spoilt(struct job *job)
{
    for (size_t m = 0; m < 2; m++) {
        job->mode = both_modes[m];
        ranks_run(2, open_spoilt, job);
    }
    free(job);
}

static struct job *new_job(const int grid[3], uint32_t points)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    box_fill(&job->box, grid, 0.9, points, 0, 3);
    return job;
}

static void send_less(struct rank_thread *self, struct leat_plan *plan, uint64_t *bytes)
{
    (void)bytes;
    if (self->rank == 1) {
        plan->pulse[0].send_count--;
        plan->pulse[0].dependent_start--;
    }
}

static void test_a_count_that_differs_is_found_by_both_sides(void **state)
{
    (void)state;
    struct job *job = new_job(pair, 100);
    job->spoil = send_less;
    job->expected[0] = job->expected[1] = -EPROTO;
    job->words[0] = "pulse 0";
    job->words[1] = "rank 0";
    job->words[2] = "rank 1";
    run_spoilt(job);
}

static void turn_around(struct rank_thread *self, struct leat_plan *plan, uint64_t *bytes)
{
    (void)bytes;
    if (self->rank == 0)
        plan->pulse[0].dimension = 2;
}

static void test_a_dimension_that_differs_is_found_by_both_sides(void **state)
{
    (void)state;
    struct job *job = new_job(pair, 100);
    job->spoil = turn_around;
    job->expected[0] = job->expected[1] = -EPROTO;
    job->words[0] = "dimension z";
    job->words[1] = "dimension x";
    job->words[2] = "elements";
    run_spoilt(job);
}

static void send_to_oneself(struct rank_thread *self, struct leat_plan *plan, uint64_t *bytes)
{
    (void)bytes;
    if (self->rank == 1)
        plan->pulse[0].send_rank = 1;
}

static void test_a_peer_that_differs_is_found_by_both_sides(void **state)
{
    (void)state;
    struct job *job = new_job(pair, 100);
    job->spoil = send_to_oneself;
    job->expected[0] = job->expected[1] = -EPROTO;
    job->words[0] = "pulse 0";
    job->words[1] = "rank 0";
    job->words[2] = "rank 1";
    run_spoilt(job);
}

static void too_small(struct rank_thread *self, struct leat_plan *plan, uint64_t *bytes)
{
    if (self->rank == 1)
        *bytes = plan->element_count * 24ull - 1;
}

static void test_a_region_that_is_too_small_fails_the_open_everywhere(void **state)
{
    (void)state;
    struct job *job = new_job(pair, 100);
    job->spoil = too_small;
    job->expected[0] = -EREMOTEIO;
    job->expected[1] = -ENOSPC;
    job->words[0] = "field 0";
    job->words[1] = "elements need";
    job->words[2] = "bytes";
    run_spoilt(job);
}

// Rank 5 leaves after a few exchanges; everybody else comes to an end that names a rank and a
// pulse, and those that waited for rank 5 itself give its own reason.
static void leave_early(struct rank_thread *self)
{
    struct job *job = self->user;
    leat_plan *plan = box_plan(self, &job->box);
    leat_halo *halo = NULL;
    double *x;
    if (!plan ||
        !rank_check(
            self, !open_halo(self, job, plan, box_info(plan).element_count * 24ull + 64, &halo, &x),
            "%s", leat_error_detail()))
        return;
    int error = 0;
    for (int step = 0; !error && step < 1000; step++) {
        if (self->rank == 5 && step == 7)
            break;
        error = leat_halo_exchange(halo, 0, LEAT_FORWARD);
    }
    if (self->rank != 5) {
        rank_check(self, error == -ECONNRESET, "%d: %s", error, leat_error_detail());
        rank_check(self,
                   strstr(leat_error_detail(), "pulse") && strstr(leat_error_detail(), "rank"),
                   "who and where is not in: %s", leat_error_detail());
        rank_check(self, strstr(leat_error_detail(), "out of coffee") != NULL,
                   "the first reason is not in: %s", leat_error_detail());
        rank_check(self, leat_halo_exchange(halo, 0, LEAT_FORWARD) == error,
                   "a failed halo goes on");
    }
    char reason[LEAT_DETAIL_BYTES];
    snprintf(reason, sizeof reason, "%s", self->rank == 5 ? "out of coffee" : leat_error_detail());
    leat_halo_free(halo);
    leat_plan_free(plan);
    leat_close(self->job, reason);
    self->job = NULL;
}

static void test_a_rank_that_leaves_ends_the_others_with_its_reason(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct job *job = new_job(cube, 30);
        job->mode = both_modes[m];
        uint64_t begin = leat_now_ns();
        ranks_run(8, leave_early, job);
        assert_true(leat_now_ns() - begin < 5000000000ULL); // its time-out is 20 s
        free(job);
    }
}

// Two ranks, one of which never exchanges: the other's wait ends at its time-out, with numbers.
struct silent {
    struct job *job;
    leat_job *handle;
    pthread_barrier_t *after;
    int rank, error;
    char detail[LEAT_DETAIL_BYTES];
};

static void *exchange_or_not(void *argument)
{
    struct silent *silent = argument;
    struct rank_thread self = {.job = silent->handle, .rank = silent->rank, .rank_count = 2};
    leat_plan *plan = box_plan(&self, &silent->job->box);
    leat_halo *halo = NULL;
    double *x;
    silent->error =
        open_halo(&self, silent->job, plan, box_info(plan).element_count * 24ull + 64, &halo, &x);
    if (!silent->error && silent->rank == 0)
        silent->error = leat_halo_exchange(halo, 0, LEAT_FORWARD);
    snprintf(silent->detail, sizeof silent->detail, "%s", leat_error_detail());
    pthread_barrier_wait(silent->after);
    leat_halo_free(halo);
    leat_plan_free(plan);
    leat_close(silent->handle, NULL);
    return NULL;
}

static void test_a_silent_rank_is_a_time_out_that_names_pulse_peer_and_signal(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        leat_options options = {.size = sizeof options, .thread_ranks = 2, .timeout_s = 0.3};
        leat_job *jobs[2];
        assert_int_equal(leat_open(&options, jobs), 0);
        struct job *job = new_job(pair, 100);
        job->mode = both_modes[m];
        pthread_barrier_t after;
        pthread_barrier_init(&after, NULL, 2);
        struct silent ranks[2] = {0};
        pthread_t threads[2];
        uint64_t begin = leat_now_ns();
        for (int i = 0; i < 2; i++) {
            ranks[i] = (struct silent){.job = job, .handle = jobs[i], .after = &after, .rank = i};
            assert_int_equal(pthread_create(&threads[i], NULL, exchange_or_not, &ranks[i]), 0);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(ranks[0].error, -ETIMEDOUT);
        assert_int_equal(ranks[1].error, 0);
        assert_non_null(strstr(ranks[0].detail, "pulse 0 (dimension x)"));
        assert_non_null(strstr(ranks[0].detail, "rank 1"));
        assert_non_null(strstr(ranks[0].detail, "wanted 1, seen 0"));
        assert_true(leat_now_ns() - begin > 300000000ULL);
        assert_true(leat_now_ns() - begin < 5000000000ULL);
        pthread_barrier_destroy(&after);
        free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_count_that_differs_is_found_by_both_sides),
        cmocka_unit_test(test_a_dimension_that_differs_is_found_by_both_sides),
        cmocka_unit_test(test_a_peer_that_differs_is_found_by_both_sides),
        cmocka_unit_test(test_a_region_that_is_too_small_fails_the_open_everywhere),
        cmocka_unit_test(test_a_rank_that_leaves_ends_the_others_with_its_reason),
        cmocka_unit_test(test_a_silent_rank_is_a_time_out_that_names_pulse_peer_and_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
