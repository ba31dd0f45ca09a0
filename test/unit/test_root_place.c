// SPDX-License-Identifier: Apache-2.0
// Where a root is, on a card: what rank 0 writes others read, and take the address of a network
// that they are in; what is no such card is refused.
//
// Advantage: needs no launcher. Disadvantage: the host's own networks are what they are.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/root.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEY "0123456789abcdef0123456789abcdef"

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    struct root_options drawn = {.rank = 0}, read = {.rank = 1};
    char card[256];
    assert_int_equal(root_place_draw(&drawn), 0);
    assert_int_equal(drawn.key.bytes, 32);
    int error = root_place_write(&drawn, card, sizeof card);
    if (error == -EADDRNOTAVAIL) {
        print_message("%s\n", leat_error_detail());
        skip();
    }
    assert_int_equal(error, 0);
    assert_int_equal(root_place_read(card, &read), 0);
    assert_memory_equal(read.key.text, drawn.key.text, 32);
    assert_int_equal(read.key.bytes, 32);
    assert_string_equal(strrchr(read.address, ':'), strrchr(drawn.address, ':'));
    assert_null(strstr(read.address, "0.0.0.0"));
}

static void test_the_first_address_where_no_network_is_shared(void **state)
{
    (void)state;
    struct root_options read = {.rank = 1};
    // Of networks for documentation, in which nobody is.
    assert_int_equal(root_place_read("7000 " KEY " c0000205/ffffff00 cb007107/ffffff00", &read), 0);
    assert_string_equal(read.address, "192.0.2.5:7000");
}

static void test_what_is_no_card_is_refused(void **state)
{
    (void)state;
    static const char *const cards[] = {"",
                                        "7000",
                                        "7000 short c0000205/ffffff00",
                                        "7000 " KEY,
                                        "7000 " KEY " 192.0.2.5",
                                        "x " KEY " c0000205/ffffff00",
                                        "7000 " KEY "00 c0000205/ffffff00"};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        struct root_options read = {.rank = 1};
        assert_int_equal(root_place_read(cards[i], &read), -EPROTO);
        assert_int_equal(read.key.bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_the_first_address_where_no_network_is_shared),
        cmocka_unit_test(test_what_is_no_card_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
