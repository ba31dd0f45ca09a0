/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the checksums of a changed plan file right, so that a reader gets to see what was changed.
 *
 * Advantage: reaches the checks behind the checksums. Disadvantage: knows the format a second time.
 */
#ifndef LEAT_TEST_GLUE_REPAIR_PLAN_H
#define LEAT_TEST_GLUE_REPAIR_PLAN_H

#include "halo/plan_bytes.h"

static inline void repair_plan(uint8_t *data, size_t bytes)
{
    if (bytes < PLAN_HEAD_BYTES)
        return;
    put_u64(data + 16, bytes);
    uint64_t ranks = get_u32(data + 12);
    if (ranks > (bytes - PLAN_HEAD_BYTES) / PLAN_ROW_BYTES)
        return;
    for (uint64_t r = 0; r < ranks; r++) {
        uint8_t *row = data + PLAN_HEAD_BYTES + r * PLAN_ROW_BYTES;
        uint64_t offset = get_u64(row), length = get_u64(row + 8);
        if (offset <= bytes && length <= bytes - offset)
            put_u32(row + 16, leat_crc32(0, data + offset, length));
    }
    uint32_t sum = leat_crc32(0, data, PLAN_HEAD_BYTES - 4);
    sum = leat_crc32(sum, data + PLAN_HEAD_BYTES, ranks * PLAN_ROW_BYTES);
    put_u32(data + PLAN_HEAD_BYTES - 4, sum);
}

#endif
