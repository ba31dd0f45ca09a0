// SPDX-License-Identifier: Apache-2.0
// CRC-32C: the answers that RFC 3720 (appendix B.4) gives, and that the two ways and all cuts of an
// input agree.

#include "format/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t of(const void *bytes, size_t count, bool hardware)
{
    struct crc32c crc;
    crc32c_begin(&crc);
    crc.hardware = crc.hardware && hardware;
    crc32c_add(&crc, bytes, count);
    return crc32c_value(&crc);
}

static void the_known_answers_come_out(void **state)
{
    (void)state;
    unsigned char bytes[32];
    for (int hardware = 0; hardware < 2; hardware++) {
        assert_int_equal(of("", 0, hardware), 0);
        assert_int_equal(of("123456789", 9, hardware), 0xe3069283u);
        memset(bytes, 0, 32);
        assert_int_equal(of(bytes, 32, hardware), 0x8a9136aau);
        memset(bytes, 0xff, 32);
        assert_int_equal(of(bytes, 32, hardware), 0x62a8ab43u);
        for (int i = 0; i < 32; i++)
            bytes[i] = (unsigned char)i;
        assert_int_equal(of(bytes, 32, hardware), 0x46dd794eu);
        for (int i = 0; i < 32; i++)
            bytes[i] = (unsigned char)(31 - i);
        assert_int_equal(of(bytes, 32, hardware), 0x113fdb5cu);
    }
}

// Without the instruction both are the tables, which the answers above have checked.
static void both_ways_and_all_cuts_agree(void **state)
{
    (void)state;
    enum { BYTES = 50000 };
    unsigned char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    uint32_t random = 1;
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
    static const size_t lengths[] = {1, 7, 8, 9, 4095, 12287, 12288, 12289, 24576, 49990};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t from = 0; from < 9; from++) {
            uint32_t whole = of(bytes + from, lengths[i], false);
            assert_int_equal(of(bytes + from, lengths[i], true), whole);
            struct crc32c crc;
            crc32c_begin(&crc);
            for (size_t at = 0, part; at < lengths[i]; at += part) {
                part = 1 + (at * 7 + from) % 13000;
                part = part < lengths[i] - at ? part : lengths[i] - at;
                crc32c_add(&crc, bytes + from + at, part);
            }
            assert_int_equal(crc32c_value(&crc), whole);
        }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_answers_come_out),
        cmocka_unit_test(both_ways_and_all_cuts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
