/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a kernel in the words of lane_words.h: two blocks of 32 lanes.
 *
 * Algorithm: each lane is a coroutine; all take their turns in order until they have left, or so
 * many turns are over that they never will. Advantage: a run is the same each time. Disadvantage:
 * as in lane_words.h.
 */
#ifndef LEAT_TEST_UNIT_LANES_H
#define LEAT_TEST_UNIT_LANES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
/* After the headers that it needs. */
#include <cmocka.h>

enum {
    BLOCKS = 2,
    ALL = BLOCKS * 32,
    STACK_BYTES = 64 * 1024,
    TIMEOUT = 50,     // in turns of all lanes
    MOST_TURNS = 5000 // of a loop that ends
};

typedef void lanes_kernel(const struct k_grid *grid, const void *arguments, uint32_t choice,
                          uint64_t turn);

static struct {
    ucontext_t main, lane[ALL];
    char *stack[ALL];
    bool done[ALL];
    uint32_t now;
    uint64_t clock;
    uint32_t come[BLOCKS], any[BLOCKS], answer[BLOCKS], meetings[BLOCKS];
    lanes_kernel *kernel;
    const void *arguments;
    uint32_t choice;
    uint64_t turn;
    struct {
        void *to;
        const void *from;
        uint32_t bytes;
    } copy[BLOCKS][2]; // under way, the oldest first
    uint32_t copies[BLOCKS];
} gpu;

uint32_t lane_number(void)
{
    return gpu.now % LANES;
}

uint64_t lane_clock(void)
{
    return gpu.clock;
}

void lane_rest(void)
{
    swapcontext(&gpu.lane[gpu.now], &gpu.main);
}

// Lanes that have left count as come.
static void open_barrier(uint32_t block)
{
    uint32_t left = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        left += gpu.done[block * LANES + lane];
    if (!gpu.come[block] || gpu.come[block] + left < LANES)
        return;
    gpu.answer[block] = gpu.any[block];
    gpu.come[block] = gpu.any[block] = 0;
    gpu.meetings[block]++;
}

uint32_t lane_meet(uint32_t block, uint32_t value)
{
    const uint32_t meeting = gpu.meetings[block];
    gpu.come[block]++;
    gpu.any[block] |= value;
    open_barrier(block);
    while (gpu.meetings[block] == meeting)
        lane_rest();
    return gpu.answer[block];
}

void lane_copies_end(uint32_t block, uint32_t left)
{
    for (; gpu.copies[block] > left; gpu.copies[block]--) {
        memcpy(gpu.copy[block][0].to, gpu.copy[block][0].from, gpu.copy[block][0].bytes);
        gpu.copy[block][0] = gpu.copy[block][1];
    }
}

// Places and sizes are those that the copy unit takes.
void lane_copy(uint32_t block, void *to, const void *from, uint32_t bytes)
{
    const uint32_t at = gpu.copies[block]++;
    assert_true(at < 2);
    assert_int_equal(((uintptr_t)to | bytes) & 15, 0);
    gpu.copy[block][at].to = to;
    gpu.copy[block][at].from = from;
    gpu.copy[block][at].bytes = bytes;
}

static void run_lane(void)
{
    const struct k_grid grid = {gpu.now / LANES, BLOCKS};
    gpu.kernel(&grid, gpu.arguments, gpu.choice, gpu.turn);
    gpu.done[gpu.now] = true;
    open_barrier(grid.block);
    lane_rest();
}

// Apart from the loop: who returns from getcontext twice may find its own variables changed.
__attribute__((noinline)) static void start_lane(uint32_t lane)
{
    getcontext(&gpu.lane[lane]);
    gpu.lane[lane].uc_stack.ss_sp = gpu.stack[lane];
    gpu.lane[lane].uc_stack.ss_size = STACK_BYTES;
    gpu.lane[lane].uc_link = NULL;
    makecontext(&gpu.lane[lane], run_lane, 0);
}

/* Whether all lanes have left by themselves. */
static bool lanes_run(lanes_kernel *kernel, const void *arguments, uint32_t choice, uint64_t turn)
{
    memset(gpu.done, 0, sizeof gpu.done);
    memset(gpu.come, 0, sizeof gpu.come);
    memset(gpu.any, 0, sizeof gpu.any);
    gpu.kernel = kernel;
    gpu.arguments = arguments;
    gpu.choice = choice;
    gpu.turn = turn;
    for (uint32_t lane = 0; lane < ALL; lane++)
        start_lane(lane);
    uint32_t left = 1;
    for (gpu.clock = 0; left && gpu.clock < MOST_TURNS; gpu.clock++) {
        left = 0;
        for (uint32_t lane = 0; lane < ALL; lane++) {
            gpu.now = lane;
            if (!gpu.done[lane])
                swapcontext(&gpu.main, &gpu.lane[lane]);
            left += !gpu.done[lane];
        }
    }
    return !left;
}

static int lanes_enter(void **state)
{
    (void)state;
    for (uint32_t lane = 0; lane < ALL; lane++)
        assert_non_null(gpu.stack[lane] = malloc(STACK_BYTES));
    return 0;
}

static int lanes_leave(void **state)
{
    (void)state;
    for (uint32_t lane = 0; lane < ALL; lane++)
        free(gpu.stack[lane]);
    return 0;
}

#endif
