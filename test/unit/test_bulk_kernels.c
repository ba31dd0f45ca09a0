// SPDX-License-Identifier: Apache-2.0
// Pulses sent by bulk copies, with blocks of many lanes: the bits of plain stores, wherever the
// landing begins and however long the pulse is, and no byte beside them. The copies are carried out
// as late as the kernel's waits allow, so that one which waits too little sends another tile's
// values, or raises the signal before they are in.

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEAT_KERNEL_WORDS "unit/lane_words.h"
#include "device/kernel.h"
#include "halo/halo_kernels.h"

#define K_KERNEL(name)                                                                             \
    __attribute__((unused)) static void name(const struct k_grid *grid, const void *arguments,     \
                                             uint32_t choice, uint64_t turn)
#include "halo/kernels.inc"

#include "unit/lanes.h"

enum { HOME = 700, MOST = 2100, GUARD = 8 };
#define POISON 77777.0f

struct rank {
    struct {
        struct k_field field;
        struct k_pulse pulse[2];
    } kernel;
    struct k_turns turns[3];
    struct k_error error, report;
    struct leat_signal in[2];
    uint32_t index[MOST];
    _Alignas(16) float value[HOME * 4];
    _Alignas(16) float ghosts[2][4 * (MOST + 2 * GUARD)];
};

static struct rank rank;

static float *landing(int p, uint32_t components, uint32_t offset)
{
    return rank.ghosts[p] + GUARD * 4 + offset * components;
}

// Two pulses, so that a block's tiles of the second follow those of the first.
static void prepare(uint32_t count, uint32_t components, uint32_t offset, uint32_t bulk)
{
    memset(&rank, 0, sizeof rank);
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof rank.ghosts[p] / sizeof rank.ghosts[p][0]; i++)
            rank.ghosts[p][i] = POISON;
    for (uint32_t i = 0; i < count; i++)
        rank.index[i] = (i * 37 + i / 5) % HOME;
    for (uint32_t i = 0; i < HOME * components; i++)
        rank.value[i] = (float)i * 0.25f;
    rank.kernel.field = (struct k_field){
        .base = rank.value,
        .components = (int32_t)components,
        .shifted = (int32_t)(offset & 1),
        .pulse_count = 2,
        .home_count = HOME,
        .zones = 1,
        .turns = rank.turns,
        .bulk = bulk,
        .wait = {.timeout_ns = TIMEOUT, .error = &rank.error, .report = &rank.report},
    };
    for (int p = 0; p < 2; p++)
        rank.kernel.pulse[p] = (struct k_pulse){
            .index = rank.index,
            .send_count = p ? count / 2 : count,
            .dependent_start = p ? count / 2 : count,
            .x_landing = landing(p, components, offset),
            .shift = {1.5, p ? 0.0 : -2.25, 1000},
            .signal = {.x_there = &rank.in[p]},
        };
}

static void send(uint32_t count, uint32_t components, uint32_t offset, uint32_t bulk)
{
    prepare(count, components, offset, bulk);
    assert_true(lanes_run(fused_forward_f32, &rank.kernel, 0, 1));
    for (int p = 0; p < 2; p++)
        assert_int_equal(rank.in[p].value, 1);
}

static void compare(uint32_t count, uint32_t components, uint32_t offset)
{
    static float plain[2][sizeof rank.ghosts[0] / sizeof(float)];
    send(count, components, offset, 0);
    memcpy(plain, rank.ghosts, sizeof plain);
    for (int p = 0; p < 2; p++) {
        const uint32_t sent = p ? count / 2 : count;
        const float *first = landing(p, components, offset);
        for (uint32_t i = 0; i < sent * components; i++)
            assert_true(first[i] != POISON);
        assert_true(first[-1] == POISON && first[sent * components] == POISON);
    }
    send(count, components, offset, 1);
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof plain[p] / sizeof plain[p][0]; i++)
            if (rank.ghosts[p][i] != plain[p][i])
                fail_msg("%u elements of %u components, landing %u elements on: float %zu of "
                         "pulse %d is not what stores give",
                         count, components, offset, i, p);
}

static void test_any_place_and_length(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 8, 255, 256, 257, 511, 515, 1029, MOST};
    for (uint32_t components = 3; components <= 4; components++)
        for (uint32_t offset = 0; offset < 5; offset++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                compare(counts[c], components, offset);
}

// What does not lie at its size, no copy takes.
static void test_four_components_between_places(void **state)
{
    (void)state;
    prepare(600, 4, 0, 1);
    for (int p = 0; p < 2; p++)
        rank.kernel.pulse[p].x_landing = landing(p, 4, 0) + 1;
    assert_true(lanes_run(fused_forward_f32, &rank.kernel, 0, 1));
    for (uint32_t i = 0; i < 600 * 4; i++)
        assert_true(landing(0, 4, 0)[1 + i] == rank.value[rank.index[i / 4] * 4 + i % 4]);
    assert_true(landing(0, 4, 0)[0] == POISON && landing(0, 4, 0)[1 + 600 * 4] == POISON);
}

static void test_shorter_pulses_go_by_stores(void **state)
{
    (void)state;
    prepare(600, 3, 1, 601);
    assert_true(lanes_run(fused_forward_f32, &rank.kernel, 0, 1));
    assert_true(landing(0, 3, 1)[0] == rank.value[0] + 1.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_place_and_length),
        cmocka_unit_test(test_four_components_between_places),
        cmocka_unit_test(test_shorter_pulses_go_by_stores),
    };
    return cmocka_run_group_tests(tests, lanes_enter, lanes_leave);
}
