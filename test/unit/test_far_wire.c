// SPDX-License-Identifier: Apache-2.0
// Messages between the services of two ranks: which of them are believed.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/splitmix.h"
#include "transport/far_wire.h"

struct message {
    struct far_header header;
    uint8_t payload[sizeof(struct reduce_side)];
};

static const char *fault_of(enum far_kind kind, uint32_t bytes)
{
    static struct message message;
    memset(&message, 0, sizeof message);
    message.header.kind = (uint16_t)kind;
    message.header.bytes = bytes;
    return far_fault(&message, sizeof message.header + bytes);
}

static void test_each_kind_has_its_length(void **state)
{
    (void)state;
    assert_null(fault_of(FAR_HELLO, sizeof(struct far_hello)));
    assert_null(fault_of(FAR_FIND, sizeof(struct far_name)));
    assert_null(fault_of(FAR_SUM, sizeof(struct reduce_side)));
    assert_null(fault_of(FAR_ANSWER, sizeof(struct reduce_side)));
    for (int kind = FAR_HELLO; kind < FAR_KINDS; kind++) {
        bool carries = kind == FAR_PUT || kind == FAR_DATA;
        if (carries)
            assert_null(fault_of((enum far_kind)kind, 5));
        else
            assert_non_null(fault_of((enum far_kind)kind, 5));
    }
    assert_null(fault_of(FAR_PUT, 0));
    assert_null(fault_of(FAR_GET, 0));
    assert_null(fault_of(FAR_BYE, 0));
    assert_non_null(fault_of((enum far_kind)0, 0));
    assert_non_null(fault_of(FAR_KINDS, 0));
}

static void test_a_message_has_the_length_that_it_says(void **state)
{
    (void)state;
    struct message message = {.header = {.kind = FAR_PUT, .bytes = 8}};
    assert_null(far_fault(&message, sizeof message.header + 8));
    assert_non_null(far_fault(&message, sizeof message.header + 7));
    assert_non_null(far_fault(&message, sizeof message.header + 9));
    message.header.bytes = FAR_PAYLOAD_BYTES + 1;
    assert_non_null(far_fault(&message, FAR_MESSAGE_BYTES + 1));
    assert_int_equal(far_sender(&message, sizeof message.header - 1, 4), -1);
    message.header.rank = 4;
    assert_int_equal(far_sender(&message, sizeof message, 4), -1);
    message.header.rank = 3;
    assert_int_equal(far_sender(&message, sizeof message, 4), 3);
}

static void test_texts_end_and_flags_are_known(void **state)
{
    (void)state;
    struct message message = {.header = {.kind = FAR_FIND, .bytes = sizeof(struct far_name)}};
    memset(message.payload, 'x', sizeof message.payload);
    assert_non_null(far_fault(&message, sizeof message.header + message.header.bytes));
    message.payload[LEAT_REGION_NAME - 1] = 0;
    assert_null(far_fault(&message, sizeof message.header + message.header.bytes));
    message.header.flags = FAR_ASKS;
    assert_non_null(far_fault(&message, sizeof message.header + message.header.bytes));
    message.header = (struct far_header){.kind = FAR_PUT, .flags = FAR_ASKS | FAR_SIGNALS};
    assert_null(far_fault(&message, sizeof message.header));
    message.header.flags = 8;
    assert_non_null(far_fault(&message, sizeof message.header));
}

// Whatever comes, it is judged without a look beyond its end.
static void test_random_bytes_are_judged(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct message message;
    int good = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t *words = (uint64_t *)(void *)&message;
        for (size_t w = 0; w < sizeof message / 8; w++)
            words[w] = splitmix_next(&random);
        size_t bytes = sizeof message.header + splitmix_next(&random) % sizeof message.payload;
        message.header.kind = (uint16_t)(splitmix_next(&random) % (FAR_KINDS + 2));
        message.header.flags = (uint16_t)(splitmix_next(&random) % 9);
        message.header.error = -(int32_t)(splitmix_next(&random) % 5000);
        message.header.bytes = (uint32_t)(bytes - sizeof message.header);
        good += far_fault(&message, bytes) == NULL;
    }
    assert_true(good > 100 && good < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_has_its_length),
        cmocka_unit_test(test_a_message_has_the_length_that_it_says),
        cmocka_unit_test(test_texts_end_and_flags_are_known),
        cmocka_unit_test(test_random_bytes_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
