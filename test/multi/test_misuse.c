// SPDX-License-Identifier: Apache-2.0
// Wrong use of the library is an error that says what is wrong, never a crash, a hang or silence.

#include "multi/boxes.h"

#include "core/job.h"

#include <errno.h>

static leat_plan *ring(struct rank_thread *self)
{
    static const uint32_t index[2] = {0, 1};
    const leat_list send = {
        .rank = (self->rank + 1) % self->rank_count, .count = 2, .index = index};
    const leat_list receive = {.rank = (self->rank + self->rank_count - 1) % self->rank_count,
                               .count = 2};
    const leat_lists lists = {.size = sizeof lists,
                              .home_count = 2,
                              .send_count = 1,
                              .recv_count = 1,
                              .sends = &send,
                              .receives = &receive};
    leat_plan *plan = NULL;
    rank_check(self, !leat_plan_lists(self->job, &lists, &plan), "%s", leat_error_detail());
    return plan;
}

static int open_ring(struct rank_thread *self, leat_plan *plan, leat_region *region,
                     int acknowledged_by, uint64_t first_epoch, leat_halo **halo)
{
    const leat_field field = {.place = {region, 0},
                              .element = LEAT_F64,
                              .components = 1,
                              .acknowledged_by = acknowledged_by};
    const leat_halo_options options = {
        .size = sizeof options, .field_count = 1, .fields = &field, .first_epoch = first_epoch};
    return leat_halo_open(self->job, plan, &options, halo);
}

#define refused(call, error)                                                                       \
    rank_check(self, (call) == (error) && leat_error_detail()[0], "not %d: %s", error,             \
               leat_error_detail())

static void pass_nothing(struct rank_thread *self)
{
    leat_job_info job_info = {.size = sizeof job_info};
    leat_region_options options = {.size = sizeof options, .bytes = 64};
    leat_region_info region_info = {.size = sizeof region_info};
    leat_stats stats = {.size = sizeof stats};
    leat_path_report report = {.size = sizeof report};
    leat_halo_info halo_info = {.size = sizeof halo_info};
    leat_plan *plan = ring(self);
    leat_halo *halo = NULL;
    const leat_step step = {.size = sizeof step, .forward_field = 0, .reverse_field = -1};
    const leat_halo_options no_fields = {.size = sizeof no_fields, .field_count = 1};
    refused(leat_open(NULL, NULL), -EINVAL);
    refused(leat_job_info_get(NULL, &job_info), -EINVAL);
    refused(leat_job_info_get(self->job, NULL), -EINVAL);
    refused(leat_region_alloc(NULL, &options, NULL), -EINVAL);
    refused(leat_region_alloc(self->job, &options, NULL), -EINVAL);
    refused(leat_region_info_get(NULL, &region_info), -EINVAL);
    refused(leat_wait(self->job, NULL, 3, LEAT_WAIT_ALL, 0, NULL), -EINVAL);
    refused(leat_path_query(NULL, 0, 0, &report), -EINVAL);
    refused(leat_path_query(self->job, 0, 0, NULL), -EINVAL);
    refused(leat_stats_read(NULL, LEAT_ALL_PEERS, &stats), -EINVAL);
    refused(leat_stats_read(self->job, LEAT_ALL_PEERS, NULL), -EINVAL);
    refused(leat_plan_lists(NULL, NULL, NULL), -EINVAL);
    refused(leat_halo_open(NULL, plan, &no_fields, &halo), -EINVAL);
    refused(leat_halo_open(self->job, plan, &no_fields, &halo), -EINVAL);
    refused(leat_halo_exchange(NULL, 0, LEAT_FORWARD), -EINVAL);
    refused(leat_halo_run(NULL, &step, 1, NULL), -EINVAL);
    refused(leat_halo_info_get(NULL, &halo_info), -EINVAL);
    leat_plan_free(plan);
}

static void test_nothing_where_something_has_to_be_is_refused(void **state)
{
    (void)state;
    ranks_run(1, pass_nothing, NULL);
}

static void wait_and_copy_wrongly(struct rank_thread *self)
{
    leat_region *region = NULL, *registered = NULL;
    box_region(self, 4 * LEAT_SIGNAL_BYTES, &region);
    const leat_place here = {region, 0}, there = {region, 32}, none = {0};
    const leat_event event = {.signal = here, .at_least = 1, .from = -1};
    refused(leat_wait(self->job, &event, 1, LEAT_WAIT_ALL, NAN, NULL), -EINVAL);
    refused(leat_wait(self->job, &event, 1, (enum leat_wait_mode)7, 0, NULL), -EINVAL);
    refused(leat_wait(self->job, NULL, 0, LEAT_WAIT_ANY, 0, NULL), -EINVAL);
    refused(leat_copy(self->job, here, there, 64, none, 0), -EINVAL);
    refused(leat_copy(self->job, here, here, 64, none, 0), -EINVAL);
    rank_check(self, !leat_copy(self->job, here, there, 32, none, 0), "%s", leat_error_detail());
    const leat_region_options wrap = {
        .size = sizeof wrap, .bytes = 64, .address = (void *)(UINTPTR_MAX - 7)};
    refused(leat_region_register(self->job, &wrap, &registered), -EINVAL);
}

static void test_waits_and_copies_that_cannot_be_are_refused(void **state)
{
    (void)state;
    ranks_run(1, wait_and_copy_wrongly, NULL);
}

static void test_a_region_of_another_job_is_refused(void **state)
{
    (void)state;
    leat_job *jobs[2];
    leat_region *region[2];
    const leat_region_options options = {.size = sizeof options, .bytes = 64};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leat_open(NULL, &jobs[i]), 0);
        assert_int_equal(leat_region_alloc(jobs[i], &options, &region[i]), 0);
    }
    assert_int_equal(leat_copy(jobs[0], (leat_place){region[1], 0}, (leat_place){region[0], 0}, 8,
                               (leat_place){0}, 0),
                     -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "another job"));
    leat_close(jobs[0], NULL);
    leat_close(jobs[1], NULL);
}

static void free_under_halo(struct rank_thread *self)
{
    leat_region *region = NULL, *other = NULL;
    leat_halo *halo = NULL;
    leat_plan *plan = ring(self);
    box_region(self, 64, &region);
    rank_check(self, !open_ring(self, plan, region, 0, 0, &halo), "%s", leat_error_detail());
    const char *words = "rank 0 has freed";
    if (self->rank == 0) {
        leat_region_free(region);
        memset(box_region(self, 64, &other), 7, 64); // the same place
        words = "its region has been freed";
    }
    leat_agree(self->job, 0);
    refused(leat_halo_exchange(halo, 0, LEAT_FORWARD), -ESTALE);
    rank_check(self, strstr(leat_error_detail(), words) != NULL, "\"%s\" is not in: %s", words,
               leat_error_detail());
    leat_agree(self->job, 0);
    leat_halo_free(halo);
    leat_plan_free(plan);
}

static void test_a_halo_whose_region_is_gone_is_stale_on_both_sides(void **state)
{
    (void)state;
    ranks_run(2, free_under_halo, NULL);
}

static void close_first(struct rank_thread *self)
{
    leat_region *region = NULL;
    leat_halo *halo = NULL, *second = NULL;
    leat_plan *plan = ring(self);
    box_region(self, 64, &region);
    rank_check(self, !open_ring(self, plan, region, 0, 0, &halo), "%s", leat_error_detail());
    rank_check(self, !open_ring(self, plan, region, 0, 0, &second), "%s", leat_error_detail());
    rank_check(self, !leat_halo_exchange(halo, 0, LEAT_FORWARD), "%s", leat_error_detail());
    leat_agree(self->job, 0);
    leat_halo_free(second);
    leat_close(self->job, NULL);
    self->job = NULL;
    refused(leat_halo_exchange(halo, 0, LEAT_FORWARD), -ESHUTDOWN);
    leat_halo_free(halo);
    leat_plan_free(plan);
}

static void test_a_halo_outlives_its_job_as_an_empty_shell(void **state)
{
    (void)state;
    ranks_run(2, close_first, NULL);
}

static void disagree(struct rank_thread *self)
{
    leat_region *region = NULL;
    leat_halo *halo = NULL;
    leat_plan *plan = ring(self);
    box_region(self, 64, &region);
    refused(open_ring(self, plan, region, self->rank, 0, &halo), -EPROTO);
    rank_check(self, strstr(leat_error_detail(), "acknowledged_by") != NULL, "%s",
               leat_error_detail());
    refused(open_ring(self, plan, region, 0, (uint64_t)self->rank, &halo), -EPROTO);
    rank_check(self, strstr(leat_error_detail(), "first_epoch") != NULL, "%s", leat_error_detail());
    rank_check(self, !open_ring(self, plan, region, 0, 9, &halo), "%s", leat_error_detail());
    refused(leat_halo_exchange(halo, 0, (enum leat_direction)7), -EINVAL);
    rank_check(self, !leat_halo_exchange(halo, 0, LEAT_FORWARD), "%s", leat_error_detail());
    leat_agree(self->job, 0);
    leat_halo_free(halo);
    leat_plan_free(plan);
}

static void test_ranks_that_disagree_are_told_when_they_open(void **state)
{
    (void)state;
    ranks_run(2, disagree, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_where_something_has_to_be_is_refused),
        cmocka_unit_test(test_waits_and_copies_that_cannot_be_are_refused),
        cmocka_unit_test(test_a_region_of_another_job_is_refused),
        cmocka_unit_test(test_a_halo_whose_region_is_gone_is_stale_on_both_sides),
        cmocka_unit_test(test_a_halo_outlives_its_job_as_an_empty_shell),
        cmocka_unit_test(test_ranks_that_disagree_are_told_when_they_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
