// SPDX-License-Identifier: Apache-2.0
// What a rank's service does with messages of a peer that belong to nothing of its own: to a put
// that was taken back, to a question of another kind.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"

#include <errno.h>

#ifndef LEAT_HAVE_FABRIC

static void test_no_libfabric(void **state)
{
    (void)state;
    print_message("built without libfabric\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_libfabric)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include "fuzz/fake_service.h"

enum { RANKS = 2, REGION_BYTES = 4096 };

static struct {
    leat_job *jobs[RANKS];
    struct fake_endpoint fake;
    struct far far;
    leat_region *region;
    struct region_key key;
    uint8_t message[FAR_MESSAGE_BYTES];
} own;

static int set_up(void **state)
{
    (void)state;
    const leat_options options = {
        .size = sizeof options, .thread_ranks = RANKS, .arena_bytes = 16 << 20};
    const leat_region_options bytes = {.size = sizeof bytes, .bytes = REGION_BYTES};
    memset(&own, 0, sizeof own);
    assert_int_equal(leat_open(&options, own.jobs), 0);
    assert_int_equal(leat_region_alloc(own.jobs[0], &bytes, &own.region), 0);
    own.key = leat_region_key(own.region);
    fake_service_open(&own.far, &own.fake, own.jobs[0]);
    own.jobs[0]->far = &own.far;
    own.far.peer[1]->state = FAR_MET;
    own.far.peer[1]->greeted = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    far_peer_lose(&own.far, own.far.peer[1], "was lost: the test is over");
    own.jobs[0]->far = NULL;
    fake_service_close(&own.far);
    leat_region_free(own.region);
    for (int rank = 0; rank < RANKS; rank++)
        leat_close(own.jobs[rank], NULL);
    return 0;
}

// Rank 1 says it, with `header.bytes` bytes of 0x77 behind it.
static void hear(struct far_header header)
{
    header.rank = 1;
    memcpy(header.cookie, own.far.peer[1]->from, sizeof header.cookie);
    memset(own.message, 0x77, sizeof own.message);
    memcpy(own.message, &header, sizeof header);
    fake_arrive(&own.fake, own.message, sizeof header + header.bytes);
    far_progress(&own.far);
}

// What this rank has sent last.
static const struct far_header *said(void)
{
    assert_true(own.fake.sending_count > 0);
    return far_head(own.fake.sending[own.fake.sending_count - 1]);
}

static void test_a_put_that_was_given_up_fails_no_later_one(void **state)
{
    (void)state;
    struct region_key gone = own.key;
    gone.generation += 2;
    uint8_t *bytes = own.region->address;
    memset(bytes, 0xa5, REGION_BYTES);
    // Its sender took the rest of it back when its time was over.
    hear((struct far_header){
        .kind = FAR_PUT, .id = 1, .flags = FAR_ASKS | FAR_MORE, .bytes = 64, .key = gone});
    hear((struct far_header){
        .kind = FAR_PUT, .id = 2, .flags = FAR_ASKS | FAR_MORE, .bytes = 64, .key = own.key});
    hear((struct far_header){
        .kind = FAR_PUT, .id = 2, .flags = FAR_ASKS, .bytes = 64, .offset = 64, .key = own.key});
    assert_int_equal(said()->kind, FAR_DONE);
    assert_int_equal(said()->id, 2);
    assert_int_equal(said()->error, 0);
    for (int i = 0; i < 128; i++)
        assert_int_equal(bytes[i], 0x77);
    assert_int_equal(bytes[128], 0xa5);
}

static void test_one_part_that_fails_fails_its_put(void **state)
{
    (void)state;
    struct region_key gone = own.key;
    gone.generation += 2;
    hear((struct far_header){
        .kind = FAR_PUT, .id = 1, .flags = FAR_ASKS | FAR_MORE, .bytes = 64, .key = gone});
    hear((struct far_header){
        .kind = FAR_PUT, .id = 1, .flags = FAR_ASKS, .bytes = 64, .key = own.key});
    assert_int_equal(said()->error, -ESTALE);
}

// Whoever sent it acknowledged an exchange whose halo its owner has freed since: on another way
// than the agreement on that came.
static void test_a_signal_for_freed_memory_is_no_fault(void **state)
{
    (void)state;
    struct region_key gone = own.key;
    gone.generation += 2;
    hear((struct far_header){.kind = FAR_PUT, .flags = FAR_SIGNALS, .signal = gone, .value = 7});
    assert_int_equal(own.fake.sending_count, 0);
    assert_int_equal(own.far.peer[1]->refuses, 0);
    // What others may wait for is one.
    hear((struct far_header){.kind = FAR_PUT, .bytes = 8, .key = gone});
    assert_int_equal(said()->kind, FAR_REFUSED);
    assert_int_equal(said()->error, -ESTALE);
}

// The peer's process was stopped: nothing of what is being sent to it goes.
static void test_a_peer_that_takes_nothing_is_not_waited_for_with_a_processor(void **state)
{
    (void)state;
    static char bytes[2 * FAR_PAYLOAD_BYTES];
    struct far_operation operation = {.verb = FAR_DO_PUT,
                                      .rank = 1,
                                      .key = own.key,
                                      .bytes = sizeof bytes,
                                      .local = bytes,
                                      .acknowledged = true};
    own.jobs[0]->config.spin_ns = 0;
    assert_int_equal(far_begin(own.jobs[0], &operation), 0);
    assert_true(own.far.peer[1]->sending > 0);
    own.fake.looks = 0;
    assert_int_equal(far_wait(own.jobs[0], &operation, "copy", leat_now_ns() + 400000000),
                     -ETIMEDOUT);
    if (own.fake.looks > 1500)
        fail_msg("looked %llu times in 0.4 s", (unsigned long long)own.fake.looks);
}

// A get that "is done" would leave its caller with bytes that nobody wrote.
static void test_an_answer_of_another_kind_loses_its_sender(void **state)
{
    (void)state;
    static const struct {
        enum far_verb asked;
        enum far_kind answered;
    } wrong[] = {{FAR_DO_GET, FAR_DONE},  {FAR_DO_GET, FAR_FOUND}, {FAR_DO_LOOK, FAR_DONE},
                 {FAR_DO_LOOK, FAR_DATA}, {FAR_DO_FIND, FAR_DONE}, {FAR_DO_PUT, FAR_DATA},
                 {FAR_DO_BYE, FAR_FOUND}, {FAR_DO_PUT, FAR_FOUND}, {FAR_DO_BYE, FAR_DATA}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t bytes[16] = {0};
        struct far_operation operation = {.verb = wrong[i].asked,
                                          .rank = 1,
                                          .key = own.key,
                                          .acknowledged = true,
                                          .name = "name"};
        if (wrong[i].asked == FAR_DO_GET || wrong[i].asked == FAR_DO_PUT) {
            operation.local = bytes;
            operation.bytes = sizeof bytes;
        }
        own.far.peer[1]->state = FAR_MET;
        assert_int_equal(far_begin(own.jobs[0], &operation), 0);
        own.far.peer[1]->asked = 1;
        hear((struct far_header){.kind = (uint16_t)wrong[i].answered, .id = operation.id});
        if (!far_finished(&operation) || operation.error != -ECONNRESET)
            fail_msg("case %zu: finished %d with %d", i, far_finished(&operation), operation.error);
        assert_int_equal(own.far.peer[1]->state, FAR_LOST);
        fake_sent(&own.fake);
        far_progress(&own.far);
    }
}

// Taken for an error of the system, it would be success, or nonsense in a message.
static void test_an_error_is_a_negative_errno(void **state)
{
    (void)state;
    static const int32_t errors[] = {1, INT32_MAX, INT32_MIN, -4096};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct far_header header = {.kind = FAR_DONE, .error = errors[i]};
        assert_non_null(far_fault(&header, sizeof header));
    }
    struct far_header header = {.kind = FAR_DONE, .error = -ESTALE};
    assert_null(far_fault(&header, sizeof header));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_put_that_was_given_up_fails_no_later_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_part_that_fails_fails_its_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_signal_for_freed_memory_is_no_fault, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_peer_that_takes_nothing_is_not_waited_for_with_a_processor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_answer_of_another_kind_loses_its_sender, set_up,
                                        tear_down),
        cmocka_unit_test(test_an_error_is_a_negative_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
