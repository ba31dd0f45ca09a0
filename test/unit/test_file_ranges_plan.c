// SPDX-License-Identifier: Apache-2.0
// Plans for reads of many ranges: every byte of every short range has exactly one place, whatever
// the ranges are; and the kernel that brings pieces where they belong, against a byte loop.

#define _GNU_SOURCE
#include "device/copies.h"
#include "device/kernel.h"
#include "file/file_kernels.inc"
#include "file/ranges.h"
#include "support/splitmix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct world {
    leat_file_range *range;
    struct file_memory *memory;
    size_t count;
    struct file_ranges_rule rule;
    uint8_t *seen; // times a range has been met
};

static bool host(const struct file_memory *memory)
{
    return memory->kind == COPIES_HOST || memory->kind == COPIES_PINNED;
}

static void look_at_piece(struct world *world, const struct file_ranges *plan,
                          const struct file_run *run, uint32_t p)
{
    const struct copies_piece *piece = &plan->piece[p];
    uint32_t r = plan->range[p];
    const leat_file_range *range = &world->range[r];
    assert_true(r < world->count);
    assert_true(range->bytes < file_ranges_small(&world->rule));
    world->seen[r]++;
    assert_int_equal(piece->to, (uint64_t)(uintptr_t)world->memory[r].address);
    assert_int_equal(piece->bytes, range->bytes);
    assert_true(piece->from >= run->slot);
    assert_int_equal(run->offset + (piece->from - run->slot), range->file_offset);
    assert_true(piece->from + piece->bytes <= run->slot + run->bytes);
}

// Nothing is read that a range does not ask for, but gaps within the rule and alignment.
static void look_at_run(const struct world *world, const struct file_ranges *plan,
                        const struct file_run *run)
{
    uint64_t alignment = world->rule.alignment ? world->rule.alignment : 1;
    uint64_t end = run->offset;
    assert_true(run->count > 0 && run->count <= FILE_PIECES_MAX);
    assert_int_equal(run->offset % alignment, 0);
    assert_int_equal(run->slot % alignment, 0);
    assert_int_equal(run->bytes % alignment, 0);
    for (uint32_t p = run->first; p < run->first + run->count; p++) {
        const leat_file_range *range = &world->range[plan->range[p]];
        assert_true(range->file_offset < end + world->rule.gap_bytes + 2 * alignment);
        if (range->file_offset + range->bytes > end)
            end = range->file_offset + range->bytes;
    }
    assert_true(run->offset + run->bytes - end < alignment);
    if (!world->rule.alignment) {
        const struct copies_piece *first = &plan->piece[run->first];
        assert_int_equal((first->to ^ first->from) & 15, 0);
    }
}

static void look_at_load(struct world *world, const struct file_ranges *plan,
                         const struct file_load *load, const struct file_span *span)
{
    uint64_t bytes = 0, end = 0;
    uint32_t pieces = 0;
    assert_true(load->slot_bytes <= world->rule.slot_bytes);
    for (uint32_t r = load->first_run; r < load->first_run + load->run_count; r++) {
        const struct file_run *run = &plan->run[r];
        assert_true(run->slot >= end);
        end = run->slot + run->bytes;
        assert_int_equal(run->first, load->first_piece + pieces);
        look_at_run(world, plan, run);
        for (uint32_t p = run->first; p < run->first + run->count; p++) {
            const struct file_memory *memory = &world->memory[plan->range[p]];
            look_at_piece(world, plan, run, p);
            assert_int_equal(host(memory), host(&span->memory));
            if (!host(memory))
                assert_int_equal(memory->gpu, span->memory.gpu);
            bytes += plan->piece[p].bytes;
        }
        pieces += run->count;
    }
    assert_true(end <= load->slot_bytes);
    assert_int_equal(pieces, load->piece_count);
    assert_int_equal(bytes, load->bytes);
}

static void look(struct world *world)
{
    struct file_ranges *plan;
    assert_int_equal(
        file_ranges_plan(world->range, world->memory, world->count, &world->rule, &plan), 0);
    uint32_t loads = 0;
    for (uint32_t s = 0; s < plan->span_count; s++) {
        const struct file_span *span = &plan->span[s];
        uint64_t bytes = 0;
        assert_ptr_equal(span->plan, plan);
        assert_int_equal(span->first_load, loads);
        assert_true(span->load_count > 0);
        for (uint32_t l = 0; l < span->load_count; l++, loads++) {
            look_at_load(world, plan, &plan->load[loads], span);
            bytes += plan->load[loads].bytes;
        }
        assert_int_equal(bytes, span->bytes);
    }
    assert_int_equal(loads, plan->load_count);
    for (size_t i = 0; i < world->count; i++) {
        bool taken =
            world->range[i].bytes && world->range[i].bytes < file_ranges_small(&world->rule);
        assert_int_equal(world->seen[i], taken);
    }
    file_ranges_free(plan);
}

static void make_world(struct world *world, uint64_t seed)
{
    uint64_t state = seed;
    static const uint64_t alignments[] = {0, 0, 512, 4096};
    static const uint64_t spans[] = {4096, 1 << 20, UINT64_C(1) << 33, UINT64_C(1) << 62};
    world->count = splitmix_below(&state, seed % 10 ? 300 : 5000);
    world->rule = (struct file_ranges_rule){.alignment = alignments[splitmix_below(&state, 4)],
                                            .gap_bytes = splitmix_below(&state, 3) * 5000,
                                            .slot_bytes = 16384u << splitmix_below(&state, 4),
                                            .lanes = (uint32_t)splitmix_below(&state, 9)};
    world->rule.small_bytes = 1 + splitmix_below(&state, world->rule.slot_bytes);
    uint64_t span = spans[splitmix_below(&state, 4)], longest = 1 + splitmix_below(&state, 40000);
    bool in_order = splitmix_below(&state, 3) == 0, mixed = splitmix_below(&state, 2);
    for (size_t i = 0; i < world->count; i++) {
        world->range[i] = (leat_file_range){
            .file_offset = in_order ? i * longest : splitmix_below(&state, span),
            .bytes = splitmix_below(&state, 8) ? splitmix_below(&state, longest) : 0,
        };
        world->memory[i] = (struct file_memory){
            .address = (char *)(uintptr_t)(1 + splitmix_below(&state, UINT64_C(1) << 40)),
            .kind = mixed ? (enum copies_memory)splitmix_below(&state, 4) : COPIES_DEVICE,
            .gpu = mixed ? (int)splitmix_below(&state, 3) : 0};
        if (world->memory[i].kind == COPIES_HOST)
            world->memory[i].gpu = -1;
    }
}

static struct world new_world(size_t most)
{
    struct world world = {.range = calloc(most, sizeof *world.range),
                          .memory = calloc(most, sizeof *world.memory),
                          .seen = calloc(most, 1)};
    assert_true(world.range && world.memory && world.seen);
    return world;
}

static void end_world(struct world *world)
{
    free(world->range);
    free(world->memory);
    free(world->seen);
}

static void every_short_range_has_its_place(void **state)
{
    (void)state;
    struct world world = new_world(5000);
    for (uint64_t seed = 1; seed <= 400; seed++) {
        memset(world.seen, 0, 5000);
        make_world(&world, seed);
        look(&world);
    }
    end_world(&world);
}

static void no_ranges_make_an_empty_plan(void **state)
{
    (void)state;
    struct file_ranges_rule rule = {.slot_bytes = 65536, .small_bytes = 65536};
    struct file_ranges *plan;
    assert_int_equal(file_ranges_plan(NULL, NULL, 0, &rule, &plan), 0);
    assert_int_equal(plan->span_count, 0);
    file_ranges_free(plan);
    file_ranges_free(NULL);
}

// Adjacent ranges in any order become one run; a gap over the rule parts them.
static void neighbours_are_read_at_once(void **state)
{
    (void)state;
    leat_file_range range[] = {{.file_offset = 6000, .bytes = 3000},
                               {.file_offset = 0, .bytes = 3000},
                               {.file_offset = 3000, .bytes = 3000},
                               {.file_offset = 9000 + 101, .bytes = 50},
                               {.file_offset = 9000 + 251, .bytes = 50}};
    struct file_memory memory[5];
    static char bytes[5][4096];
    for (int i = 0; i < 5; i++)
        memory[i] = (struct file_memory){.address = bytes[i], .kind = COPIES_HOST, .gpu = -1};
    struct file_ranges_rule rule = {
        .small_bytes = 1 << 20, .slot_bytes = 1 << 20, .gap_bytes = 100, .lanes = 1};
    struct file_ranges *plan;
    assert_int_equal(file_ranges_plan(range, memory, 5, &rule, &plan), 0);
    assert_int_equal(plan->run_count, 2);
    assert_int_equal(plan->run[0].offset, 0);
    assert_int_equal(plan->run[0].bytes, 9000);
    assert_int_equal(plan->run[1].offset, 9000 + 101);
    assert_int_equal(plan->run[1].bytes, 200);
    assert_int_equal(plan->load_count, 1);
    file_ranges_free(plan);
}

// Pages of host memory are not copied twice: each has a run of its own, but past the page cache.
static void pages_for_the_host_are_read_in_place(void **state)
{
    (void)state;
    enum { COUNT = 10 };
    leat_file_range range[COUNT];
    struct file_memory memory[COUNT];
    static char bytes[COUNT * 4096];
    for (int i = 0; i < COUNT; i++) {
        range[i] = (leat_file_range){.file_offset = (uint64_t)i * 4096, .bytes = 4096};
        memory[i] = (struct file_memory){
            .address = bytes + (ptrdiff_t)i * 4096, .kind = COPIES_HOST, .gpu = -1};
    }
    struct file_ranges_rule rule = {.small_bytes = 1 << 20, .slot_bytes = 1 << 20, .lanes = 1};
    struct file_ranges *plan;
    assert_int_equal(file_ranges_plan(range, memory, COUNT, &rule, &plan), 0);
    assert_int_equal(plan->run_count, COUNT);
    file_ranges_free(plan);
    rule.alignment = 512;
    assert_int_equal(file_ranges_plan(range, memory, COUNT, &rule, &plan), 0);
    assert_int_equal(plan->run_count, 1);
    file_ranges_free(plan);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// The time is printed and not judged: machines and sanitizers differ.
static void a_hundred_thousand_ranges_are_planned(void **state)
{
    (void)state;
    enum { COUNT = 100000, BYTES = 4096 };
    struct world world = new_world(COUNT);
    world.count = COUNT;
    world.rule = (struct file_ranges_rule){
        .small_bytes = 1 << 19, .slot_bytes = 1 << 20, .gap_bytes = 16384, .lanes = 8};
    uint64_t random = 7;
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            world.range[i] = (leat_file_range){
                .file_offset = splitmix_below(&random, UINT64_C(1) << 20) * BYTES, .bytes = BYTES};
            world.memory[i] = (struct file_memory){
                .address = (char *)(uintptr_t)(i * BYTES), .kind = COPIES_DEVICE, .gpu = 0};
        }
        struct file_ranges *plan;
        double begin = now_ms();
        assert_int_equal(file_ranges_plan(world.range, world.memory, COUNT, &world.rule, &plan), 0);
        double took = now_ms() - begin;
        best = took < best ? took : best;
        assert_int_equal(plan->piece_count, COUNT);
        file_ranges_free(plan);
    }
    printf("100,000 ranges of 4 KiB are planned in %.1f ms\n", best);
    end_world(&world);
}

// ---- The kernel ----

static void the_kernel_scatters_any_alignment_and_length(void **state)
{
    (void)state;
    enum { SLAB = 8192, ROOM = 64 };
    static char slab[SLAB] __attribute__((aligned(64)));
    static char target[SLAB + ROOM] __attribute__((aligned(64)));
    for (int i = 0; i < SLAB; i++)
        slab[i] = (char)(i * 7 + i / 251);
    for (uint32_t from = 0; from < 33; from++)
        for (uint32_t to = 0; to < 33; to++)
            for (uint32_t bytes = 0; bytes < 70; bytes += 1 + bytes / 20) {
                struct copies_piece piece = {from, (uint64_t)(uintptr_t)(target + 16 + to), bytes};
                struct k_grid grid = {0, 1};
                memset(target, 0x5a, 256);
                file_scatter(&grid, slab, &piece, 1);
                assert_memory_equal(target + 16 + to, slab + from, bytes);
                for (uint32_t i = 0; i < 16 + to; i++)
                    assert_int_equal(target[i], 0x5a);
                for (uint32_t i = 16 + to + bytes; i < 256; i++)
                    assert_int_equal(target[i], 0x5a);
            }
}

// Blocks share the pieces: each is brought once, by whichever grid.
static void the_kernel_shares_pieces_among_blocks(void **state)
{
    (void)state;
    enum { PIECES = 37, BYTES = 100 };
    static char slab[PIECES * BYTES], target[PIECES * BYTES];
    struct copies_piece piece[PIECES];
    for (int i = 0; i < PIECES * BYTES; i++)
        slab[i] = (char)(i % 253);
    for (int i = 0; i < PIECES; i++) // in reverse
        piece[i] = (struct copies_piece){
            (uint64_t)i * BYTES, (uint64_t)(uintptr_t)(target + (PIECES - 1 - i) * BYTES), BYTES};
    for (uint32_t blocks = 1; blocks < 50; blocks += 6) {
        memset(target, 0, sizeof target);
        for (uint32_t block = 0; block < blocks; block++) {
            struct k_grid grid = {block, blocks};
            file_scatter(&grid, slab, piece, PIECES);
        }
        for (int i = 0; i < PIECES; i++)
            assert_memory_equal(target + (PIECES - 1 - i) * BYTES, slab + i * BYTES, BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_range_has_its_place),
        cmocka_unit_test(no_ranges_make_an_empty_plan),
        cmocka_unit_test(neighbours_are_read_at_once),
        cmocka_unit_test(pages_for_the_host_are_read_in_place),
        cmocka_unit_test(a_hundred_thousand_ranges_are_planned),
        cmocka_unit_test(the_kernel_scatters_any_alignment_and_length),
        cmocka_unit_test(the_kernel_shares_pieces_among_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
