// SPDX-License-Identifier: Apache-2.0
// The smallest job that needs every memory order of the exchange: two ranks as threads
// (thread_ranks = 2), two blocks a kernel, each value read once.
//
// By itself it shows stale stamps. Built under ThreadSanitizer by relax.sh, with one order weakened
// at a time, it shows the race that the order is there to prevent; x86 alone would hide most.

#include "multi/ranks.h"

#include <leat/halo.h>

#define HOME  64u
#define LISTS 2
#define STEPS 40

struct ends {
    leat_region *region[2];
    double *x, *f;
    leat_plan *plan;
    leat_halo *halo;
    struct rank_thread *self;
};

// Two lists to the other rank: the lower half and the upper half, each ghost read and sent back.
static bool bind(struct rank_thread *self, enum leat_mode mode, bool paired, struct ends *ends)
{
    uint32_t index[LISTS][HOME / LISTS];
    leat_list sends[LISTS], receives[LISTS];
    for (uint32_t l = 0; l < LISTS; l++) {
        for (uint32_t i = 0; i < HOME / LISTS; i++)
            index[l][i] = l * (HOME / LISTS) + i;
        sends[l] = (leat_list){.rank = !self->rank, .count = HOME / LISTS, .index = index[l]};
        receives[l] = (leat_list){.rank = !self->rank, .count = HOME / LISTS};
    }
    leat_lists lists = {.size = sizeof lists,
                        .home_count = HOME,
                        .send_count = LISTS,
                        .recv_count = LISTS,
                        .sends = sends,
                        .receives = receives};
    leat_region_options options = {.size = sizeof options, .bytes = 2 * HOME * sizeof(double)};
    leat_region_info info = {.size = sizeof info};
    double **array[2] = {&ends->x, &ends->f};
    bool held = !leat_plan_lists(self->job, &lists, &ends->plan);
    for (int r = 0; held && r < 2; r++) {
        held = !leat_region_alloc(self->job, &options, &ends->region[r]);
        leat_region_info_get(ends->region[r], &info);
        *array[r] = info.address;
    }
    const leat_field fields[2] = {
        {.place = {ends->region[0], 0}, .element = LEAT_F64, .components = 1},
        {.place = {ends->region[1], 0}, .element = LEAT_F64, .components = 1}};
    leat_field paired_fields[2] = {fields[0], fields[1]};
    paired_fields[0].acknowledged_by = 2;
    paired_fields[1].acknowledged_by = 1;
    leat_halo_options bound = {.size = sizeof bound,
                               .mode = mode,
                               .field_count = 2,
                               .fields = paired ? paired_fields : fields};
    ends->self = self;
    held = held && !leat_halo_open(self->job, ends->plan, &bound, &ends->halo);
    return rank_check(self, held, "%s", leat_error_detail());
}

static void unbind(struct ends *ends)
{
    leat_halo_free(ends->halo);
    leat_plan_free(ends->plan);
    for (int r = 0; r < 2; r++)
        leat_region_free(ends->region[r]);
}

static double stamp(int rank, uint64_t step, uint32_t i)
{
    return (double)(rank * 1000000 + (int)step * 100) + i;
}

static uint32_t share(uint32_t block, uint32_t block_count)
{
    return HOME * block / block_count;
}

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct ends *ends = user;
    for (uint32_t i = share(block, block_count); i < share(block + 1, block_count); i++) {
        if (ends->x[HOME + i] != stamp(!ends->self->rank, step, i))
            return -1;
        ends->f[i] += 0.25;
        ends->f[HOME + i] = (double)step;
    }
    return 0;
}

// A home element's own value is made of what all three leave in it.
static int while_forward(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct ends *ends = user;
    for (uint32_t i = share(block, block_count); i < share(block + 1, block_count); i++) {
        if (ends->x[i] != stamp(ends->self->rank, step, i))
            return -3;
        ends->f[i] = 0.25;
    }
    return 0;
}

static int while_reverse(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct ends *ends = user;
    (void)step;
    for (uint32_t i = share(block, block_count); i < share(block + 1, block_count); i++)
        ends->f[i] += 0.5;
    return 0;
}

static int advance(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct ends *ends = user;
    for (uint32_t i = share(block, block_count); i < share(block + 1, block_count); i++) {
        if (ends->f[i] != 1 + (double)step)
            return -2;
        ends->x[i] = stamp(ends->self->rank, step + 1, i);
    }
    return 0;
}

static int advance_forward_only(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct ends *ends = user;
    for (uint32_t i = share(block, block_count); i < share(block + 1, block_count); i++)
        ends->x[i] = stamp(ends->self->rank, step + 1, i);
    return 0;
}

static void run(struct rank_thread *self, enum leat_mode mode, bool both_ways)
{
    struct ends ends = {0};
    if (!bind(self, mode, both_ways, &ends))
        return;
    for (uint32_t i = 0; i < HOME; i++)
        ends.x[i] = stamp(self->rank, 0, i);
    const leat_step step = {.size = sizeof step,
                            .forward_field = 0,
                            .reverse_field = both_ways ? 1 : -1,
                            .consume = consume,
                            .advance = both_ways ? advance : advance_forward_only,
                            .user = &ends,
                            .while_forward = while_forward,
                            .while_reverse = while_reverse};
    uint64_t done = 0;
    int error = leat_halo_run(ends.halo, &step, STEPS, &done);
    rank_check(self, !error && done == STEPS, "%d after %llu steps: %s", error,
               (unsigned long long)done, leat_error_detail());
    unbind(&ends);
}

static void exchange_in_turn(struct rank_thread *self)
{
    const enum leat_mode *mode = self->user;
    run(self, *mode, true);
    run(self, *mode, false);
}

static void run_blocks(enum leat_mode mode, const char *blocks)
{
    setenv("LEAT_BLOCKS", blocks, 1);
    ranks_run(2, exchange_in_turn, &mode);
    unsetenv("LEAT_BLOCKS");
}

static void run_mode(enum leat_mode mode)
{
    run_blocks(mode, "2");
}

static void test_fused_kernels_order_data_and_signals(void **state)
{
    (void)state;
    run_mode(LEAT_MODE_FUSED);
}

static void test_pulse_kernels_order_data_and_signals(void **state)
{
    (void)state;
    run_mode(LEAT_MODE_PULSE);
}

static void test_the_resident_loop_orders_data_and_signals(void **state)
{
    (void)state;
    run_mode(LEAT_MODE_RESIDENT);
}

// One block: what is left to do on the way back is done between sending and waiting.
static void test_work_while_data_travel_is_in_order_with_them(void **state)
{
    (void)state;
    run_blocks(LEAT_MODE_FUSED, "1");
    run_blocks(LEAT_MODE_PULSE, "1");
    run_blocks(LEAT_MODE_RESIDENT, "1");
}

static void test_packets_order_their_words(void **state)
{
    (void)state;
    setenv("LEAT_HALO_PACKETS", "100000", 1);
    run_blocks(LEAT_MODE_FUSED, "1");
    run_mode(LEAT_MODE_FUSED);
    run_mode(LEAT_MODE_RESIDENT);
    unsetenv("LEAT_HALO_PACKETS");
}

// Kernels store to nobody: packed values and orders go by the proxy's ring.
static void test_the_ring_orders_what_is_packed(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "require:proxy", 1);
    run_mode(LEAT_MODE_FUSED);
    run_mode(LEAT_MODE_PULSE);
    run_blocks(LEAT_MODE_STREAM, "1");
    run_mode(LEAT_MODE_RESIDENT);
    unsetenv("LEAT_PATHS");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_while_data_travel_is_in_order_with_them),
        cmocka_unit_test(test_packets_order_their_words),
        cmocka_unit_test(test_the_ring_orders_what_is_packed),
        cmocka_unit_test(test_fused_kernels_order_data_and_signals),
        cmocka_unit_test(test_pulse_kernels_order_data_and_signals),
        cmocka_unit_test(test_the_resident_loop_orders_data_and_signals),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
