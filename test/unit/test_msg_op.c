// SPDX-License-Identifier: Apache-2.0
// Reductions of two arrays: every type with every operation, wrapping, NaNs, zeros, wrong
// arguments.

#include "msg/op.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 67 /* longer than a few vectors, and no multiple of one */

// ---- What is expected, by way of one wide integer ----

static bool is_signed(enum leat_type type)
{
    return type >= LEAT_INT8 && type <= LEAT_INT64;
}

static uint64_t load(enum leat_type type, const uint8_t *at)
{
    uint64_t value = 0;
    memcpy(&value, at, msg_type_bytes(type)); // little-endian
    unsigned bits = 64 - 8 * (unsigned)msg_type_bytes(type);
    return is_signed(type) ? (uint64_t)((int64_t)(value << bits) >> bits) : value;
}

static bool less(enum leat_type type, uint64_t a, uint64_t b)
{
    return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t expected(enum leat_operation operation, enum leat_type type, uint64_t a, uint64_t b)
{
    switch (operation) {
    case LEAT_SUM:
        return a + b;
    case LEAT_PRODUCT:
        return a * b;
    case LEAT_MINIMUM:
        return less(type, a, b) ? a : b;
    case LEAT_MAXIMUM:
        return less(type, a, b) ? b : a;
    case LEAT_LOGICAL_AND:
        return a && b;
    case LEAT_LOGICAL_OR:
        return a || b;
    case LEAT_LOGICAL_XOR:
        return !a != !b;
    case LEAT_BITWISE_AND:
        return a & b;
    case LEAT_BITWISE_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static void fill(uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        at[i] = seed >> 60 < 5 ? 0 : (uint8_t)(seed >> 33); // zeros are worth trying
    }
}

static void integers(enum leat_operation operation, enum leat_type type)
{
    uint8_t in[MOST * 8], inout[MOST * 8], before[MOST * 8];
    uint64_t bytes = msg_type_bytes(type);
    for (uint64_t count = 0; count < MOST; count++) {
        fill(in, sizeof in, count * 31 + (uint64_t)type);
        fill(inout, sizeof inout, count * 37 + (uint64_t)operation);
        memcpy(before, inout, sizeof inout);
        msg_combine(operation, type, NULL, in, inout, count);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t want = expected(operation, type, load(type, in + i * bytes),
                                     load(type, before + i * bytes));
            uint64_t mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;
            if (memcmp(inout + i * bytes, &want, bytes) != 0)
                fail_msg("%s of %s, element %llu: got %llx, expected %llx",
                         msg_operation_name(operation), msg_type_name(type), (unsigned long long)i,
                         (unsigned long long)load(type, inout + i * bytes),
                         (unsigned long long)(want & mask));
        }
        assert_memory_equal(inout + count * bytes, before + count * bytes,
                            sizeof inout - count * bytes);
    }
}

static void integers_are_combined_exactly_and_wrap(void **state)
{
    (void)state;
    for (enum leat_type type = LEAT_INT8; type <= LEAT_UINT64; type++)
        for (enum leat_operation operation = LEAT_SUM; operation <= LEAT_BITWISE_XOR; operation++)
            integers(operation, type);
}

static void bytes_take_bitwise_operations(void **state)
{
    (void)state;
    for (enum leat_operation operation = LEAT_BITWISE_AND; operation <= LEAT_BITWISE_XOR;
         operation++)
        integers(operation, LEAT_BYTE);
}

// ---- Floats ----

#define QUIET_DOUBLE 0x7ff8000000000000ull
#define QUIET_FLOAT  0x7fc00000u

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static const uint64_t special[] = {
    0,                     // 0.0
    0x8000000000000000ull, // -0.0
    0x3ff8000000000000ull, // 1.5
    0xc000000000000000ull, // -2.0
    0x7ff0000000000000ull, // infinity
    0xfff0000000000000ull, // -infinity
    0x7ff8000000000000ull, // quiet NaN
    0xfff8000000000123ull, // another one
    0x7ff0000000000001ull, // signalling NaN
    0x0000000000000001ull, // smallest
};
#define SPECIAL (sizeof special / sizeof *special)

static uint64_t expected_double(enum leat_operation operation, uint64_t a_bits, uint64_t b_bits)
{
    double a = double_of(a_bits), b = double_of(b_bits), value;
    bool first = a < b || (a == b && a_bits >> 63 > b_bits >> 63); // a is less
    switch (operation) {
    case LEAT_SUM:
        value = a + b;
        break;
    case LEAT_PRODUCT:
        value = a * b;
        break;
    case LEAT_MINIMUM:
        value = isnan(a) || isnan(b) ? NAN : first ? a : b;
        break;
    case LEAT_MAXIMUM:
        value = isnan(a) || isnan(b) ? NAN : first ? b : a;
        break;
    case LEAT_LOGICAL_AND:
        value = a != 0 && b != 0;
        break;
    case LEAT_LOGICAL_OR:
        value = a != 0 || b != 0;
        break;
    default:
        value = (a != 0) != (b != 0);
        break;
    }
    return isnan(value) ? QUIET_DOUBLE : bits_of(value);
}

// All pairs of special values, each at every place of an array, so in vectors and beyond them.
static void doubles(enum leat_operation operation)
{
    double in[MOST], inout[MOST];
    for (size_t shift = 0; shift < MOST; shift++) {
        for (size_t i = 0; i < MOST; i++) {
            in[i] = double_of(special[(i + shift) % SPECIAL]);
            inout[i] = double_of(special[(i + shift) / SPECIAL % SPECIAL]);
        }
        msg_combine(operation, LEAT_DOUBLE, NULL, in, inout, MOST);
        for (size_t i = 0; i < MOST; i++) {
            uint64_t want = expected_double(operation, special[(i + shift) % SPECIAL],
                                            special[(i + shift) / SPECIAL % SPECIAL]);
            if (bits_of(inout[i]) != want)
                fail_msg("%s of %llx and %llx at %zu: got %llx, expected %llx",
                         msg_operation_name(operation),
                         (unsigned long long)special[(i + shift) % SPECIAL],
                         (unsigned long long)special[(i + shift) / SPECIAL % SPECIAL], i,
                         (unsigned long long)bits_of(inout[i]), (unsigned long long)want);
        }
    }
}

static void doubles_follow_the_rules_of_nans_and_zeros(void **state)
{
    (void)state;
    for (enum leat_operation operation = LEAT_SUM; operation <= LEAT_LOGICAL_XOR; operation++)
        doubles(operation);
}

static void floats_follow_the_rules_of_nans_and_zeros(void **state)
{
    (void)state;
    const uint32_t in_bits[] = {0x80000000u, 0, 0x7fc00001u, 0xff800000u, 0x3f800000u};
    const uint32_t inout_bits[] = {0, 0x80000000u, 0x3f800000u, 0x7f800001u, 0xbf800000u};
    const uint32_t least[] = {0x80000000u, 0x80000000u, QUIET_FLOAT, QUIET_FLOAT, 0xbf800000u};
    const uint32_t largest[] = {0, 0, QUIET_FLOAT, QUIET_FLOAT, 0x3f800000u};
    uint32_t inout[5];
    memcpy(inout, inout_bits, sizeof inout);
    msg_combine(LEAT_MINIMUM, LEAT_FLOAT, NULL, in_bits, inout, 5);
    assert_memory_equal(inout, least, sizeof least);
    memcpy(inout, inout_bits, sizeof inout);
    msg_combine(LEAT_MAXIMUM, LEAT_FLOAT, NULL, in_bits, inout, 5);
    assert_memory_equal(inout, largest, sizeof largest);
}

static void exchanged_operands_give_the_same_bits(void **state)
{
    (void)state;
    for (enum leat_operation operation = LEAT_SUM; operation <= LEAT_LOGICAL_XOR; operation++)
        for (size_t i = 0; i < SPECIAL * SPECIAL; i++) {
            double a = double_of(special[i / SPECIAL]), b = double_of(special[i % SPECIAL]);
            double first = b, second = a;
            msg_combine(operation, LEAT_DOUBLE, NULL, &a, &first, 1);
            msg_combine(operation, LEAT_DOUBLE, NULL, &b, &second, 1);
            assert_int_equal(bits_of(first), bits_of(second));
        }
}

static void one_contribution_alone_obeys_the_same_rules(void **state)
{
    (void)state;
    double value[MOST];
    for (size_t i = 0; i < MOST; i++)
        value[i] = i % 3 ? (double)i : double_of(0xfff8000000000123ull);
    msg_combine_alone(LEAT_MAXIMUM, LEAT_DOUBLE, value, MOST);
    for (size_t i = 0; i < MOST; i++)
        assert_int_equal(bits_of(value[i]), i % 3 ? bits_of((double)i) : QUIET_DOUBLE);
    int16_t truth[] = {0, 5, -1, 256};
    const int16_t truth_alone[] = {0, 1, 1, 1};
    msg_combine_alone(LEAT_LOGICAL_XOR, LEAT_INT16, truth, 4);
    assert_memory_equal(truth, truth_alone, sizeof truth);
    int16_t number[] = {0, 5, -1, 256};
    const int16_t number_alone[] = {0, 5, -1, 256};
    msg_combine_alone(LEAT_SUM, LEAT_INT16, number, 4);
    assert_memory_equal(number, number_alone, sizeof number);
}

// ---- The caller's ----

static void append(void *user, const void *in, void *inout, uint64_t count)
{
    ++*(int *)user;
    for (uint64_t i = 0; i < count; i++)
        ((uint32_t *)inout)[i] += 10 * ((const uint32_t *)in)[i];
}

static void the_callers_operation_is_called(void **state)
{
    (void)state;
    int calls = 0;
    leat_user_operation user = {.combine = append, .user = &calls};
    const uint32_t in[] = {1, 2};
    uint32_t inout[] = {3, 4};
    msg_combine(LEAT_OPERATION_USER, LEAT_UINT32, &user, in, inout, 2);
    assert_int_equal(inout[0], 13);
    assert_int_equal(inout[1], 24);
    msg_combine(LEAT_OPERATION_USER, LEAT_UINT32, &user, in, inout, 0);
    assert_int_equal(calls, 1);
}

// ---- Wrong arguments ----

static void refused(enum leat_operation operation, enum leat_type type,
                    const leat_user_operation *user, const char *why)
{
    assert_int_equal(msg_operation_check(operation, type, user), -EINVAL);
    if (!strstr(leat_error_detail(), why))
        fail_msg("\"%s\" does not say \"%s\"", leat_error_detail(), why);
}

static void what_cannot_be_combined_is_named(void **state)
{
    (void)state;
    leat_user_operation without = {.element_bytes = 8};
    refused(LEAT_BITWISE_XOR, LEAT_FLOAT, NULL,
            "bitwise xor is no operation for values of type float");
    refused(LEAT_SUM, LEAT_BYTE, NULL, "sum is no operation for values of type byte");
    refused(LEAT_SUM, LEAT_TYPE_COUNT, NULL, "type 11 is none");
    refused(LEAT_OPERATION_COUNT, LEAT_INT8, NULL, "operation 11 is none");
    refused(LEAT_OPERATION_USER, LEAT_INT8, NULL, "needs `user`");
    refused(LEAT_OPERATION_USER, LEAT_INT8, &without, "needs `user`");
    assert_int_equal(msg_operation_check(LEAT_BITWISE_XOR, LEAT_BYTE, NULL), 0);
    assert_int_equal(msg_type_bytes(LEAT_TYPE_COUNT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_combined_exactly_and_wrap),
        cmocka_unit_test(bytes_take_bitwise_operations),
        cmocka_unit_test(doubles_follow_the_rules_of_nans_and_zeros),
        cmocka_unit_test(floats_follow_the_rules_of_nans_and_zeros),
        cmocka_unit_test(exchanged_operands_give_the_same_bits),
        cmocka_unit_test(one_contribution_alone_obeys_the_same_rules),
        cmocka_unit_test(the_callers_operation_is_called),
        cmocka_unit_test(what_cannot_be_combined_is_named),
    };
    return cmocka_run_group_tests_name("operations", tests, NULL, NULL);
}
