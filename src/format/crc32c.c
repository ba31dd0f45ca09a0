// SPDX-License-Identifier: Apache-2.0
// CRC-32C.
//
// Algorithm: where the processor has the instruction, three lanes of 4 KiB at once, since each
// instruction waits for the one before it, put together by a table of what so many zero bytes do
// to a state; else eight bytes at a time by eight tables. Advantage: the speed of memory, and no
// global tables. Disadvantage: 12 KiB of tables are worked out at each beginning, in microseconds.

#include "format/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78u
#define LANE       4096u /* bytes, a power of two */

// What a matrix over bits, one column a bit, does to a state.
static uint32_t apply(const uint32_t column[32], uint32_t state)
{
    uint32_t sum = 0;
    for (int bit = 0; state; state >>= 1, bit++)
        if (state & 1)
            sum ^= column[bit];
    return sum;
}

static void make_behind(struct crc32c *crc)
{
    uint32_t column[32], squared[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t state = 1u << bit;
        column[bit] = crc->table[0][state & 0xff] ^ state >> 8; // one zero byte
    }
    for (uint32_t length = 1; length < LANE; length *= 2) {
        for (int bit = 0; bit < 32; bit++)
            squared[bit] = apply(column, column[bit]);
        memcpy(column, squared, sizeof column);
    }
    for (int k = 0; k < 4; k++) {
        crc->behind[k][0] = 0;
        for (uint32_t byte = 1; byte < 256; byte++)
            crc->behind[k][byte] =
                crc->behind[k][byte & (byte - 1)] ^ column[8 * k + __builtin_ctz(byte)];
    }
}

void crc32c_begin(struct crc32c *crc)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = state & 1 ? POLYNOMIAL ^ state >> 1 : state >> 1;
        crc->table[0][byte] = state;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int k = 1; k < 8; k++) {
            uint32_t before = crc->table[k - 1][byte];
            crc->table[k][byte] = crc->table[0][before & 0xff] ^ before >> 8;
        }
    make_behind(crc);
    crc->state = ~0u;
    crc->hardware = false;
#if defined(__x86_64__)
    crc->hardware = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

static uint64_t load(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint32_t add_by_tables(const struct crc32c *crc, uint32_t state, const unsigned char *at,
                              size_t count)
{
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word = load(at) ^ state;
        state = 0;
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++)
            state ^= crc->table[7 - k][word >> 8 * k & 0xff];
    }
    for (; count; count--, at++)
        state = crc->table[0][(state ^ *at) & 0xff] ^ state >> 8;
    return state;
}

#if defined(__x86_64__)
static uint32_t pass_lane(const struct crc32c *crc, uint32_t state)
{
    uint32_t passed = 0;
    for (int k = 0; k < 4; k++)
        passed ^= crc->behind[k][state >> 8 * k & 0xff];
    return passed;
}

__attribute__((target("sse4.2"))) static uint32_t
add_by_instruction(const struct crc32c *crc, uint32_t state, const unsigned char *at, size_t count)
{
    for (; count >= 3 * LANE; count -= 3 * LANE, at += 3 * LANE) {
        uint64_t first = state, second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            first = __builtin_ia32_crc32di(first, load(at + i));
            second = __builtin_ia32_crc32di(second, load(at + LANE + i));
            third = __builtin_ia32_crc32di(third, load(at + 2 * LANE + i));
        }
        state = pass_lane(crc, (uint32_t)first) ^ (uint32_t)second;
        state = pass_lane(crc, state) ^ (uint32_t)third;
    }
    uint64_t wide = state;
    for (; count >= 8; count -= 8, at += 8)
        wide = __builtin_ia32_crc32di(wide, load(at));
    state = (uint32_t)wide;
    for (; count; count--, at++)
        state = __builtin_ia32_crc32qi(state, *at);
    return state;
}
#endif

void crc32c_add(struct crc32c *crc, const void *bytes, size_t count)
{
#if defined(__x86_64__)
    if (crc->hardware) {
        crc->state = add_by_instruction(crc, crc->state, bytes, count);
        return;
    }
#endif
    crc->state = add_by_tables(crc, crc->state, bytes, count);
}
