/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's section of a plan file as bytes; plan_file.h has the format.
 *
 * Advantage: byte by byte, so that neither the machine's order nor its alignment shows.
 * Disadvantage: slower than a copy, by less than a disk takes.
 */
#ifndef LEAT_HALO_PLAN_BYTES_H
#define LEAT_HALO_PLAN_BYTES_H

#include "halo/plan_file.h"

#define PLAN_MAGIC        "leatplan"
#define PLAN_VERSION      1
#define PLAN_HEAD_BYTES   32
#define PLAN_ROW_BYTES    24
#define PLAN_SECTION_HEAD 32
#define PLAN_PULSE_BYTES  56

static inline uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t get_u64(const uint8_t *at)
{
    return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

static inline void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline void put_u64(uint8_t *at, uint64_t value)
{
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

/* CRC-32 as in zlib and PNG, continued from `sum` (0 to begin). */
uint32_t leat_crc32(uint32_t sum, const uint8_t *data, size_t bytes);

uint64_t leat_section_bytes(const leat_plan *plan);
/* `origin` may be NULL: unknown. `section` is section_bytes long and zero. */
void leat_section_fill(const leat_plan *plan, const struct origin *origin, uint8_t *section);
/* The plan has passed leat_plan_check. Both outputs are the caller's; set on success only. */
int leat_section_parse(const uint8_t *section, uint64_t bytes, uint32_t rank, uint32_t rank_count,
                       leat_plan **plan, struct origin **origin);

#endif
