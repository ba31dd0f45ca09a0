// SPDX-License-Identifier: Apache-2.0
// The resident loop with blocks of many lanes, as a GPU has them: a packet that does not come ends
// the loop in all lanes, whichever of them waits for it.

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

// ---- A rank with one pulse, whose peer's packets of the first step the test writes ----

enum { HOME = 80, MOVED = 40, ELEMENTS = HOME + MOVED };

struct rank {
    struct {
        struct k_resident run;
        struct {
            struct k_field field;
            struct k_pulse pulse;
        } side[2]; // coordinates, forces
    } kernel;
    struct k_loop loop;
    struct k_error error, report;
    struct k_turns turns[2][2];
    struct k_packet x_in[2 * MOVED], x_out[2 * MOVED], f_in[2 * MOVED], f_out[2 * MOVED];
    float value[2][ELEMENTS];
    uint32_t index[MOVED], source_start[ELEMENTS + 1], source[MOVED];
    struct k_sent sent_home[MOVED + 1];
};

static void fill_side(struct rank *rank, int which, uint32_t count)
{
    struct k_field *field = &rank->kernel.side[which].field;
    *field = (struct k_field){
        .base = rank->value[which],
        .components = 1,
        .pulse_count = 1,
        .home_count = HOME,
        .ghost_count = count,
        .zones = 1,
        .turns = rank->turns[which],
        .source_start = rank->source_start,
        .source = rank->source,
        .sent_home = rank->sent_home,
        .sent_home_count = count,
        .packets = 1,
        .send_total = count,
        .x_packets = rank->x_in,
        .f_packets = rank->f_in,
        .senders = 1,
        .receivers = 1,
        .wait = {.timeout_ns = TIMEOUT, .error = &rank->error, .report = &rank->report},
    };
    rank->kernel.side[which].pulse = (struct k_pulse){
        .index = rank->index,
        .send_count = count,
        .dependent_start = count,
        .recv_count = count,
        .recv_offset = HOME,
        .x_packets = rank->x_out,
        .f_packets = rank->f_out,
        .x_packet_stride = count,
        .f_packet_stride = count,
    };
}

// Steps: so many that a lane which stays in the loop does not come to their end.
static struct rank *new_rank(uint32_t count)
{
    struct rank *rank = calloc(1, sizeof *rank);
    assert_non_null(rank);
    for (uint32_t i = 0; i < count; i++)
        rank->index[i] = rank->source[i] = i;
    for (uint32_t i = 0; i <= count; i++)
        rank->sent_home[i] = (struct k_sent){i, i};
    for (uint32_t e = 0; e <= ELEMENTS; e++)
        rank->source_start[e] = e < count ? e : count;
    for (int which = 0; which < 2; which++)
        fill_side(rank, which, count);
    const struct k_resident *run = &rank->kernel.run;
    rank->kernel.run = (struct k_resident){
        .forward_at = (uint32_t)((char *)&rank->kernel.side[0] - (const char *)run),
        .reverse_at = (uint32_t)((char *)&rank->kernel.side[1] - (const char *)run),
        .steps = 1000000,
        .barriers = RESIDENT_AFTER_CONSUME,
        .loop = &rank->loop,
        .wait = rank->kernel.side[0].field.wait,
    };
    for (uint32_t i = 0; i < count; i++) // the first exchange's lie in the second zone
        rank->x_in[count + i].tag = rank->f_in[count + i].tag = 1;
    return rank;
}

static void lose(bool forces, uint32_t count, uint32_t lost)
{
    struct rank *rank = new_rank(count);
    struct k_packet *packet = (forces ? rank->f_in : rank->x_in) + count + lost;
    packet->tag = 0;
    bool ended = lanes_run(resident, &rank->kernel, 0, 0);
    if (!ended)
        fail_msg("%u %s, number %u missing: lanes are still in the loop", count,
                 forces ? "forces" : "coordinates", lost);
    assert_int_equal(rank->report.ready, 1);
    assert_int_equal(rank->report.code, -110);
    assert_ptr_equal(rank->report.signal, packet);
    assert_int_equal(rank->loop.done, 0);
    free(rank);
}

static void test_a_coordinate_that_does_not_come(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOVED; count += 13)
        for (uint32_t lost = 0; lost < count; lost++)
            lose(false, count, lost);
}

static void test_a_force_that_does_not_come(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOVED; count += 13)
        for (uint32_t lost = 0; lost < count; lost++)
            lose(true, count, lost);
}

// Without a loss the loop goes on to the second step, for which nothing has come.
static void test_the_next_step(void **state)
{
    (void)state;
    struct rank *rank = new_rank(MOVED);
    assert_true(lanes_run(resident, &rank->kernel, 0, 0));
    assert_int_equal(rank->loop.done, 1);
    assert_int_equal(rank->report.wanted, 2);
    free(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_coordinate_that_does_not_come),
        cmocka_unit_test(test_a_force_that_does_not_come),
        cmocka_unit_test(test_the_next_step),
    };
    return cmocka_run_group_tests(tests, lanes_enter, lanes_leave);
}
