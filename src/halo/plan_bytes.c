// SPDX-License-Identifier: Apache-2.0
// Sections of plan files, to and from bytes.
//
// Algorithm: counts first; the length that they make has to be the section's own, and only then is
// anything allocated or read. Advantage: one comparison guards every later access. Disadvantage: a
// section cannot carry more than this version knows.

#include "halo/plan_bytes.h"

#include "core/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN_BYTES 8

uint32_t leat_crc32(uint32_t sum, const uint8_t *data, size_t bytes)
{
    // Half an octet at a time: a table of 16 needs no set-up.
    static const uint32_t half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                      0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                      0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    sum = ~sum;
    for (size_t i = 0; i < bytes; i++) {
        sum = half[(sum ^ data[i]) & 15] ^ sum >> 4;
        sum = half[(sum ^ data[i] >> 4) & 15] ^ sum >> 4;
    }
    return ~sum;
}

static void put_f64(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u64(at, bits);
}

static double get_f64(const uint8_t *at)
{
    uint64_t bits = get_u64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t sent_entries(const leat_plan *plan)
{
    uint64_t entries = 0;
    for (int p = 0; p < plan->pulse_count; p++)
        entries += plan->pulse[p].send_count;
    return entries;
}

// No overflow: pulses, entries and elements are counts of 32 bits, entries of as many pulses.
static uint64_t bytes_for(uint64_t pulses, uint64_t entries, uint64_t ghosts, uint64_t elements)
{
    uint64_t bytes = PLAN_SECTION_HEAD + pulses * PLAN_PULSE_BYTES + entries * 4 +
                     ghosts * ORIGIN_BYTES + elements;
    return (bytes + 7) / 8 * 8;
}

uint64_t leat_section_bytes(const leat_plan *plan)
{
    return bytes_for((uint64_t)plan->pulse_count, sent_entries(plan),
                     plan->element_count - plan->home_count, plan->element_count);
}

void leat_section_fill(const leat_plan *plan, const struct origin *origin, uint8_t *section)
{
    uint8_t *at = section;
    put_u32(at, (uint32_t)plan->rank);
    put_u32(at + 4, (uint32_t)plan->pulse_count);
    put_u32(at + 8, plan->home_count);
    put_u32(at + 12, plan->element_count);
    put_u64(at + 16, sent_entries(plan));
    put_f64(at + 24, plan->margin_nm);
    at += PLAN_SECTION_HEAD;
    for (int p = 0; p < plan->pulse_count; p++, at += PLAN_PULSE_BYTES) {
        const leat_pulse *pulse = &plan->pulse[p];
        const uint32_t words[8] = {(uint32_t)pulse->dimension, (uint32_t)pulse->direction,
                                   (uint32_t)pulse->send_rank, (uint32_t)pulse->recv_rank,
                                   pulse->send_count,          pulse->recv_count,
                                   pulse->dependent_start,     pulse->recv_offset};
        for (int i = 0; i < 8; i++)
            put_u32(at + 4 * i, words[i]);
        for (int d = 0; d < 3; d++)
            put_f64(at + 32 + 8 * d, pulse->shift_nm[d]);
    }
    for (int p = 0; p < plan->pulse_count; p++)
        for (uint32_t i = 0; i < plan->pulse[p].send_count; i++, at += 4)
            put_u32(at, plan->pulse[p].index[i]);
    for (uint32_t g = 0; g < plan->element_count - plan->home_count; g++, at += ORIGIN_BYTES) {
        put_u32(at, origin ? (uint32_t)origin[g].owner : UINT32_MAX);
        put_u32(at + 4, origin ? origin[g].element : 0);
    }
    if (plan->element_count)
        memcpy(at, plan->zone, plan->element_count);
}

// A plan with room for what the head says, once the section is as long as that takes.
static int alloc_section(const uint8_t *section, uint64_t bytes, leat_plan **made,
                         struct origin **origin)
{
    uint64_t pulses = get_u32(section + 4), home = get_u32(section + 8);
    uint64_t elements = get_u32(section + 12), entries = get_u64(section + 16);
    if (home > elements || pulses > INT32_MAX || entries > bytes / 4 ||
        bytes_for(pulses, entries, elements - home, elements) != bytes)
        return leat_fail(-EPROTO,
                         "%llu pulses, %llu entries, %llu home elements of %llu do not make a "
                         "section of %llu bytes",
                         (unsigned long long)pulses, (unsigned long long)entries,
                         (unsigned long long)home, (unsigned long long)elements,
                         (unsigned long long)bytes);
    leat_plan *plan = calloc(1, sizeof *plan);
    *origin = calloc(elements - home + 1, sizeof **origin);
    if (plan) {
        plan->pulse = calloc(pulses + 1, sizeof *plan->pulse);
        plan->index = calloc(entries + 1, sizeof *plan->index);
        plan->zone = calloc(elements + 1, 1);
    }
    if (!plan || !*origin || !plan->pulse || !plan->index || !plan->zone) {
        leat_plan_free(plan);
        free(*origin);
        return leat_fail(-ENOMEM, "no memory for a plan of %llu elements",
                         (unsigned long long)elements);
    }
    plan->pulse_count = (int)pulses;
    plan->home_count = (uint32_t)home;
    plan->element_count = (uint32_t)elements;
    plan->margin_nm = get_f64(section + 24);
    *made = plan;
    return 0;
}

static int parse_pulses(const uint8_t *at, uint64_t entries, leat_plan *plan)
{
    uint64_t first = 0;
    for (int p = 0; p < plan->pulse_count; p++, at += PLAN_PULSE_BYTES) {
        leat_pulse *pulse = &plan->pulse[p];
        *pulse = (leat_pulse){.dimension = (int32_t)get_u32(at),
                              .direction = (int32_t)get_u32(at + 4),
                              .send_rank = (int32_t)get_u32(at + 8),
                              .recv_rank = (int32_t)get_u32(at + 12),
                              .send_count = get_u32(at + 16),
                              .recv_count = get_u32(at + 20),
                              .dependent_start = get_u32(at + 24),
                              .recv_offset = get_u32(at + 28)};
        for (int d = 0; d < 3; d++)
            pulse->shift_nm[d] = get_f64(at + 32 + 8 * d);
        if (pulse->send_count > entries - first)
            return leat_fail(-EPROTO, "pulse %d sends %u of %llu entries that are left", p,
                             pulse->send_count, (unsigned long long)(entries - first));
        pulse->index = plan->index + first;
        first += pulse->send_count;
    }
    if (first != entries)
        return leat_fail(-EPROTO, "the pulses send %llu of %llu entries", (unsigned long long)first,
                         (unsigned long long)entries);
    return 0;
}

static int parse_origins(const uint8_t *at, uint32_t rank_count, const leat_plan *plan,
                         struct origin *origin)
{
    for (uint32_t g = 0; g < plan->element_count - plan->home_count; g++, at += ORIGIN_BYTES) {
        origin[g] = (struct origin){(int32_t)get_u32(at), get_u32(at + 4)};
        if (origin[g].owner < -1 || origin[g].owner >= (int32_t)rank_count)
            return leat_fail(-EPROTO, "ghost %u comes from rank %d of %u", g, origin[g].owner,
                             rank_count);
    }
    return 0;
}

int leat_section_parse(const uint8_t *section, uint64_t bytes, uint32_t rank, uint32_t rank_count,
                       leat_plan **plan, struct origin **origin)
{
    if (bytes < PLAN_SECTION_HEAD || get_u32(section) != rank)
        return leat_fail(-EPROTO, "a section of %llu bytes that says it is of rank %u",
                         (unsigned long long)bytes,
                         bytes < PLAN_SECTION_HEAD ? UINT32_MAX : get_u32(section));
    leat_plan *made = NULL;
    struct origin *origins = NULL;
    int error = alloc_section(section, bytes, &made, &origins);
    if (error)
        return error;
    made->rank = (int)rank;
    made->rank_count = (int)rank_count;
    uint64_t entries = get_u64(section + 16);
    const uint8_t *at = section + PLAN_SECTION_HEAD;
    error = parse_pulses(at, entries, made);
    at += (uint64_t)made->pulse_count * PLAN_PULSE_BYTES;
    for (uint64_t i = 0; i < entries; i++, at += 4)
        made->index[i] = get_u32(at);
    if (!error)
        error = parse_origins(at, rank_count, made, origins);
    at += (uint64_t)(made->element_count - made->home_count) * ORIGIN_BYTES;
    memcpy(made->zone, at, made->element_count);
    if (!error && !(isfinite(made->margin_nm) && made->margin_nm >= 0))
        error = leat_fail(-EPROTO, "a ghost margin of %g nm", made->margin_nm);
    if (!error)
        error = leat_plan_check(made);
    if (error) {
        leat_plan_free(made);
        free(origins);
        return error;
    }
    *plan = made;
    *origin = origins;
    return 0;
}
