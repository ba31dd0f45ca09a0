// SPDX-License-Identifier: Apache-2.0
// Reductions' kernels: the host's loops over two arrays, a value a thread and stride.
//
// Advantage: the same source and the same bits as op.c. Disadvantage: a kernel for each operation
// and type, and loads of one value at a time.

#include "device/cuda_copy.h"

#include <stdint.h>
#include <string.h>

#define EACH(i, count)                                                                             \
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                \
         i += (uint64_t)gridDim.x * blockDim.x)

#define LOOP(operation, name, type, body)                                                          \
    static __global__ void operation##_##name(const type *x, type *y, uint64_t count)              \
    {                                                                                              \
        EACH(i, count)                                                                             \
        {                                                                                          \
            type a = x[i], b = y[i];                                                               \
            y[i] = body;                                                                           \
        }                                                                                          \
    }

#define BIT_LOOP(operation, name, type, bits_type, body)                                           \
    static __global__ void operation##_##name(const type *x, type *y, uint64_t count)              \
    {                                                                                              \
        EACH(i, count)                                                                             \
        {                                                                                          \
            type a = x[i], b = y[i];                                                               \
            bits_type a_bits, b_bits, bits;                                                        \
            memcpy(&a_bits, &a, sizeof a);                                                         \
            memcpy(&b_bits, &b, sizeof b);                                                         \
            body;                                                                                  \
            memcpy(&y[i], &bits, sizeof bits);                                                     \
        }                                                                                          \
    }

#include "msg/combine_kernels.inc"

#define AT(kernel) ((const void *)(kernel))
#define NUMBER_ROW(name)                                                                           \
    AT(sum_##name), AT(product_##name), AT(minimum_##name), AT(maximum_##name),                    \
        AT(logical_and_##name), AT(logical_or_##name), AT(logical_xor_##name)
#define BITWISE_ROW(name) AT(bitwise_and_##name), AT(bitwise_or_##name), AT(bitwise_xor_##name)
#define INTEGER_ROW(name)                                                                          \
    {                                                                                              \
        NUMBER_ROW(name), BITWISE_ROW(name)                                                        \
    }

// In the order of leat_type and leat_operation.
static const void *const entries[CUDA_COMBINE_TYPES][CUDA_COMBINE_OPERATIONS] = {
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, BITWISE_ROW(uint8)},
    INTEGER_ROW(int8),
    INTEGER_ROW(int16),
    INTEGER_ROW(int32),
    INTEGER_ROW(int64),
    INTEGER_ROW(uint8),
    INTEGER_ROW(uint16),
    INTEGER_ROW(uint32),
    INTEGER_ROW(uint64),
    {NUMBER_ROW(float)},
    {NUMBER_ROW(double)}};

extern "C" const void *leat_cuda_combine_entry(unsigned operation, unsigned type)
{
    return type < CUDA_COMBINE_TYPES && operation < CUDA_COMBINE_OPERATIONS
               ? entries[type][operation]
               : NULL;
}
