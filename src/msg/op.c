// SPDX-License-Identifier: Apache-2.0
// Loops of the reductions; see op.h.
//
// Algorithm: a list of types and a list of operations make one loop each, on plain arrays that do
// not overlap, so that the compiler vectorises it. Integers are added and multiplied as unsigned
// ones of at least 32 bits, which wrap. Every result that is a NaN is replaced by the quiet NaN
// with an empty payload, and of two zeros the minimum takes the union and the maximum the
// intersection of the bits. Advantage: built-in operations are commutative to the bit, whatever
// instruction the compiler chose, so any rank may hold either operand. Disadvantage: a float sum is
// four instructions instead of one, which shows only while the data lies in the first cache.

#include "msg/op.h"

#include "core/error.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

// The default cost model of -O2 leaves out loops of unknown length.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

// Chosen when the library is loaded, which is before a sanitizer is ready for it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

typedef void combine_function(const void *in, void *inout, uint64_t count);

#define LOOP(operation, name, type, body)                                                          \
    WIDE static void operation##_##name(const void *in, void *inout, uint64_t count)               \
    {                                                                                              \
        const type *restrict x = in;                                                               \
        type *restrict y = inout;                                                                  \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            type a = x[i], b = y[i];                                                               \
            y[i] = body;                                                                           \
        }                                                                                          \
    }

// The bits of the result, from those of the operands.
#define BIT_LOOP(operation, name, type, bits_type, body)                                           \
    WIDE static void operation##_##name(const void *in, void *inout, uint64_t count)               \
    {                                                                                              \
        const type *restrict x = in;                                                               \
        type *restrict y = inout;                                                                  \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            type a = x[i], b = y[i];                                                               \
            bits_type a_bits, b_bits, bits;                                                        \
            memcpy(&a_bits, &a, sizeof a);                                                         \
            memcpy(&b_bits, &b, sizeof b);                                                         \
            body;                                                                                  \
            memcpy(&y[i], &bits, sizeof bits);                                                     \
        }                                                                                          \
    }

#include "msg/combine_kernels.inc"

#define LOGICAL_ROWS(name)                                                                         \
    [LEAT_LOGICAL_AND] = logical_and_##name, [LEAT_LOGICAL_OR] = logical_or_##name,                \
    [LEAT_LOGICAL_XOR] = logical_xor_##name
#define NUMBER_ROWS(name)                                                                          \
    [LEAT_SUM] = sum_##name, [LEAT_PRODUCT] = product_##name, [LEAT_MINIMUM] = minimum_##name,     \
    [LEAT_MAXIMUM] = maximum_##name, LOGICAL_ROWS(name)
#define BITWISE_ROWS(name)                                                                         \
    [LEAT_BITWISE_AND] = bitwise_and_##name, [LEAT_BITWISE_OR] = bitwise_or_##name,                \
    [LEAT_BITWISE_XOR] = bitwise_xor_##name

static combine_function *const combine[LEAT_TYPE_COUNT][LEAT_OPERATION_USER] = {
    [LEAT_BYTE] = {BITWISE_ROWS(uint8)},
    [LEAT_INT8] = {NUMBER_ROWS(int8), BITWISE_ROWS(int8)},
    [LEAT_INT16] = {NUMBER_ROWS(int16), BITWISE_ROWS(int16)},
    [LEAT_INT32] = {NUMBER_ROWS(int32), BITWISE_ROWS(int32)},
    [LEAT_INT64] = {NUMBER_ROWS(int64), BITWISE_ROWS(int64)},
    [LEAT_UINT8] = {NUMBER_ROWS(uint8), BITWISE_ROWS(uint8)},
    [LEAT_UINT16] = {NUMBER_ROWS(uint16), BITWISE_ROWS(uint16)},
    [LEAT_UINT32] = {NUMBER_ROWS(uint32), BITWISE_ROWS(uint32)},
    [LEAT_UINT64] = {NUMBER_ROWS(uint64), BITWISE_ROWS(uint64)},
    [LEAT_FLOAT] = {NUMBER_ROWS(float)},
    [LEAT_DOUBLE] = {NUMBER_ROWS(double)},
};

static const struct {
    const char *name;
    uint64_t bytes;
} types[LEAT_TYPE_COUNT] = {
    [LEAT_BYTE] = {"byte", 1},     [LEAT_INT8] = {"int8", 1},     [LEAT_INT16] = {"int16", 2},
    [LEAT_INT32] = {"int32", 4},   [LEAT_INT64] = {"int64", 8},   [LEAT_UINT8] = {"uint8", 1},
    [LEAT_UINT16] = {"uint16", 2}, [LEAT_UINT32] = {"uint32", 4}, [LEAT_UINT64] = {"uint64", 8},
    [LEAT_FLOAT] = {"float", 4},   [LEAT_DOUBLE] = {"double", 8},
};

static const char *const operations[LEAT_OPERATION_COUNT] = {
    [LEAT_SUM] = "sum",
    [LEAT_PRODUCT] = "product",
    [LEAT_MINIMUM] = "minimum",
    [LEAT_MAXIMUM] = "maximum",
    [LEAT_LOGICAL_AND] = "logical and",
    [LEAT_LOGICAL_OR] = "logical or",
    [LEAT_LOGICAL_XOR] = "logical xor",
    [LEAT_BITWISE_AND] = "bitwise and",
    [LEAT_BITWISE_OR] = "bitwise or",
    [LEAT_BITWISE_XOR] = "bitwise xor",
    [LEAT_OPERATION_USER] = "the caller's",
};

static bool is_type(enum leat_type type)
{
    return (unsigned)type < LEAT_TYPE_COUNT;
}

uint64_t msg_type_bytes(enum leat_type type)
{
    return is_type(type) ? types[type].bytes : 0;
}

const char *msg_type_name(enum leat_type type)
{
    return is_type(type) ? types[type].name : "unknown";
}

const char *msg_operation_name(enum leat_operation operation)
{
    return (unsigned)operation < LEAT_OPERATION_COUNT ? operations[operation] : "unknown";
}

int msg_operation_check(enum leat_operation operation, enum leat_type type,
                        const leat_user_operation *user)
{
    if (!is_type(type))
        return leat_fail(-EINVAL, "type %d is none of leat_type", (int)type);
    if ((unsigned)operation >= LEAT_OPERATION_COUNT)
        return leat_fail(-EINVAL, "operation %d is none of leat_operation", (int)operation);
    if (operation == LEAT_OPERATION_USER) {
        if (!user || !user->combine)
            return leat_fail(-EINVAL, "LEAT_OPERATION_USER needs `user` with a combine function");
        return 0;
    }
    if (!combine[type][operation])
        return leat_fail(-EINVAL,
                         "%s is no operation for values of type %s (byte takes bitwise operations "
                         "only, floats take none)",
                         msg_operation_name(operation), msg_type_name(type));
    return 0;
}

void msg_combine(enum leat_operation operation, enum leat_type type,
                 const leat_user_operation *user, const void *in, void *inout, uint64_t count)
{
    if (!count)
        return;
    if (operation == LEAT_OPERATION_USER)
        user->combine(user->user, in, inout, count);
    else
        combine[type][operation](in, inout, count);
}

static enum leat_operation normalizer(enum leat_operation operation, enum leat_type type)
{
    bool is_float = type == LEAT_FLOAT || type == LEAT_DOUBLE;
    switch (operation) {
    case LEAT_SUM:
    case LEAT_PRODUCT:
    case LEAT_MINIMUM:
    case LEAT_MAXIMUM:
        return is_float ? LEAT_MINIMUM : LEAT_OPERATION_COUNT;
    case LEAT_LOGICAL_AND:
    case LEAT_LOGICAL_OR:
    case LEAT_LOGICAL_XOR:
        return LEAT_LOGICAL_AND;
    default:
        return LEAT_OPERATION_COUNT;
    }
}

void msg_combine_alone(enum leat_operation operation, enum leat_type type, void *values,
                       uint64_t count)
{
    enum leat_operation with_itself = normalizer(operation, type);
    if (with_itself == LEAT_OPERATION_COUNT)
        return;
    // The loops take operands that do not overlap.
    unsigned char copy[512];
    uint64_t step = sizeof copy / types[type].bytes;
    for (uint64_t done = 0; done < count; done += step) {
        uint64_t some = count - done < step ? count - done : step;
        unsigned char *at = (unsigned char *)values + done * types[type].bytes;
        memcpy(copy, at, some * types[type].bytes);
        combine[type][with_itself](copy, at, some);
    }
}
