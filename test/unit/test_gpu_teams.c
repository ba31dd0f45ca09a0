// SPDX-License-Identifier: Apache-2.0
// Kernels that a team of lanes works on, with the 32 lanes of a GPU: the same rows, in the same
// order, and the same forces as one lane finds.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "gpu_bench.h"

// clang-format off
#define MD_GPU_WORDS "unit/gpu_team_words.h"
#include "md/gpu_words.h"
#include "md/gpu_list_kernels.inc"
#include "md/gpu_force_kernels.inc"
#include "md/gpu_move_kernels.inc"
#include "md/gpu_molecule_kernels.inc"
// clang-format on

enum { STACK_BYTES = 64 * 1024 };

typedef void team_kernel(const struct md_gpu_args *args, uint32_t i, uint32_t choice);

static struct {
    ucontext_t main, lane[G_LANES];
    char *stack[G_LANES];
    uint32_t now, meetings[G_LANES];
    bool done[G_LANES];
    struct team_value value[2][G_LANES];
    team_kernel *kernel;
    const struct md_gpu_args *args;
    uint32_t i, choice;
} team;

uint32_t team_lane(void)
{
    return team.now;
}

const struct team_value *team_meet(uint32_t kind, double value)
{
    uint32_t lane = team.now, turn = team.meetings[lane]++ % 2;
    team.value[turn][lane] = (struct team_value){kind, value};
    swapcontext(&team.lane[lane], &team.main);
    for (uint32_t other = 0; other < G_LANES; other++)
        assert_int_equal(team.value[turn][other].kind, kind);
    return team.value[turn];
}

static void run_lane(void)
{
    team.kernel(team.args, team.i, team.choice);
    team.done[team.now] = true;
    swapcontext(&team.lane[team.now], &team.main);
}

// Apart from the loop: who returns from getcontext twice may find its own variables changed.
__attribute__((noinline)) static void start_lane(uint32_t lane)
{
    team.done[lane] = false;
    team.meetings[lane] = 0;
    getcontext(&team.lane[lane]);
    team.lane[lane].uc_stack.ss_sp = team.stack[lane];
    team.lane[lane].uc_stack.ss_size = STACK_BYTES;
    team.lane[lane].uc_link = NULL;
    makecontext(&team.lane[lane], run_lane, 0);
}

// All lanes as far as the next meeting, in turn, until they are through. `backwards`: the last lane
// first.
static void run_team(team_kernel *kernel, const struct md_gpu_args *args, uint32_t i,
                     uint32_t choice, bool backwards)
{
    team.kernel = kernel;
    team.args = args;
    team.i = i;
    team.choice = choice;
    for (uint32_t lane = 0; lane < G_LANES; lane++)
        start_lane(lane);
    for (uint32_t left = G_LANES; left > 0;) {
        left = G_LANES;
        for (uint32_t k = 0; k < G_LANES; k++) {
            team.now = backwards ? G_LANES - 1 - k : k;
            if (!team.done[team.now])
                swapcontext(&team.main, &team.lane[team.now]);
            left -= team.done[team.now];
        }
        // Who is through has met as often as the others, so all are.
        assert_true(left == 0 || left == G_LANES);
    }
    for (uint32_t lane = 1; lane < G_LANES; lane++)
        assert_int_equal(team.meetings[lane], team.meetings[0]);
}

static int enter(void **state)
{
    (void)state;
    for (uint32_t lane = 0; lane < G_LANES; lane++)
        team.stack[lane] = make(STACK_BYTES, 1);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    for (uint32_t lane = 0; lane < G_LANES; lane++)
        free(team.stack[lane]);
    return 0;
}

static void compare_rows(const struct md_gpu_args *one)
{
    struct md_gpu_args many = *one;
    uint64_t total = one->row_start[one->element_count];
    many.row_size = make(one->element_count, sizeof *many.row_size);
    many.partner = make(total, sizeof *many.partner);
    for (uint32_t slot = 0; slot < one->element_count; slot++) {
        run_team(g_search, &many, slot, 0, slot % 2);
        run_team(g_search, &many, slot, 1, slot % 3 == 0);
    }
    assert_memory_equal(many.row_size, one->row_size, one->element_count * sizeof *many.row_size);
    assert_memory_equal(many.partner, one->partner, total * sizeof *many.partner);
    free(many.row_size);
    free(many.partner);
}

static void test_teams_find_the_same_rows_in_the_same_order(void **state)
{
    (void)state;
    for (int images = 0; images < 2; images++) {
        struct pair_system system;
        system_make(&system, 6, (const int[]){6, 7, 6}, 3, 0.1);
        struct bench *b = bench_open(&system, system.count + 90, 0.75);
        memcpy(b->rank.domain.decomposition.grid, (const int[]){1, 2, 1}, 3 * sizeof(int));
        b->rank.system.images = images;
        scatter(b, 7, 3.0);
        bench_send(b);
        assert_return_code(md_gpu_list(&b->rank), 0);
        assert_true(b->rank.gpu->args.row_start[system.count + 90] > 1000);
        compare_rows(&b->rank.gpu->args);
        bench_close(b);
        system_free(&system);
    }
}

static double away(const float *got, const float *wanted, size_t count)
{
    double difference = 0.0, total = 0.0;
    for (size_t k = 0; k < count; k++) {
        difference += pow((double)got[k] - (double)wanted[k], 2.0);
        total += pow((double)wanted[k], 2.0);
    }
    return sqrt(difference / total);
}

static void test_teams_add_up_the_same_forces(void **state)
{
    struct pair_system system;
    (void)state;
    system_make(&system, 31, (const int[]){8, 8, 8}, 5, 0.8);
    struct bench *b = bench_open(&system, system.count, 0.9);
    bench_send(b);
    assert_return_code(md_gpu_list(&b->rank), 0);
    assert_return_code(md_gpu_pair_forces(&b->rank, true), 0);
    const struct md_gpu_args *one = &b->rank.gpu->args;
    size_t count = one->element_count;
    struct md_gpu_args many = *one;
    float *plain = make(3 * count, sizeof *plain);
    many.image_f = make(3 * count, sizeof *many.image_f);
    many.term = make(MD_GPU_TERM_COUNT * count, sizeof *many.term);
    for (uint32_t slot = 0; slot < count; slot++)
        run_team(g_pairs, &many, slot, 0, slot % 2);
    memcpy(plain, many.image_f, 3 * count * sizeof *plain);
    for (uint32_t slot = 0; slot < count; slot++)
        run_team(g_pairs_terms, &many, slot, 0, slot % 2 == 0);
    assert_memory_equal(plain, many.image_f, 3 * count * sizeof *plain);
    assert_true(away(plain, one->image_f, 3 * count) < 1e-6);
    for (size_t term = 0; term < MD_GPU_TERM_HOME; term++)
        for (size_t k = 0; k < count; k++) {
            double wanted = one->term[term * count + k];
            double size = fabs(one->term[k]) + fabs(one->term[MD_GPU_TERM_PAIRS * count + k]);
            assert_true(fabs(many.term[term * count + k] - wanted) <= 1e-9 * (1e3 + size));
        }
    free(plain);
    free(many.image_f);
    free(many.term);
    bench_close(b);
    system_free(&system);
}

int main(void)
{
    // Kernels that no team works on are tested one lane at a time, in test_gpu_kernels.c.
    team_kernel *const others[] = {g_image, g_bounds,   g_cell,  g_scan_sum, g_scan_write,
                                   g_place, g_sort,     g_kind,  g_gather,   g_home,
                                   g_step,  g_momentum, g_brake, g_sum};
    (void)others;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teams_find_the_same_rows_in_the_same_order),
        cmocka_unit_test(test_teams_add_up_the_same_forces),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
