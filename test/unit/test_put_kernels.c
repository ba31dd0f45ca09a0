// SPDX-License-Identifier: Apache-2.0
// Kernels that reach their peer by puts only, with blocks of many lanes: a rank whose peer is
// itself, below and above the size from which every warp puts a share.
//
// Puts are copies here, and what they were asked for is counted.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAT_KERNEL_WORDS "unit/lane_words.h"
#include "device/kernel.h"
#include "halo/halo_kernels.h"

static struct {
    uint32_t whole, shares, raised; // puts of a block, of warps; words alone
    uint64_t bytes;
} made;

static void copy(char *to, const char *from, uint64_t bytes, uint32_t lane, uint32_t lanes)
{
    for (uint64_t i = lane; i < bytes; i += lanes)
        to[i] = from[i];
    made.bytes += lane ? 0 : bytes;
}

static void raise_word(uint64_t *signal, uint64_t value, int peer)
{
    *signal = value;
    made.raised += peer == 0;
}

static void put_all(char *to, const char *from, uint64_t bytes, uint64_t *signal, uint64_t value);
static int put_overdue(const struct k_wait *wait, uint64_t *deadline);

#define K_LANES                                         LANES
#define K_PUT_LANES                                     8
#define K_PUT_VISIBLE()                                 (void)0
#define K_PUT_OVERDUE(wait, at)                         put_overdue(wait, at)
#define K_PUT_COUNT(blocks)                             (*(blocks))
#define K_PUT_RAISE(signal, value, peer)                raise_word(signal, value, peer)
#define K_PUT_SHARE(to, from, bytes, peer)              put_share(to, from, bytes)
#define K_PUT_ALL(to, from, bytes, signal, value, peer) put_all(to, from, bytes, signal, value)

static void put_share(char *to, const char *from, uint64_t bytes)
{
    const uint32_t lane = lane_number() % K_PUT_LANES;
    copy(to, from, bytes, lane, K_PUT_LANES);
    made.shares += !lane;
}

#define K_KERNEL(name)                                                                             \
    __attribute__((unused)) static void name(const struct k_grid *grid, const void *arguments,     \
                                             uint32_t choice, uint64_t turn)
#include "halo/put_kernels.inc"

#include "halo/kernels.inc"

#include "unit/lanes.h"

static void put_all(char *to, const char *from, uint64_t bytes, uint64_t *signal, uint64_t value)
{
    copy(to, from, bytes, lane_number(), LANES);
    made.whole += !lane_number();
    lane_meet(gpu.now / LANES, 0);
    if (!lane_number())
        *signal = value;
}

static int put_overdue(const struct k_wait *wait, uint64_t *deadline)
{
    if (!*deadline)
        *deadline = lane_clock();
    return lane_overdue(wait, *deadline);
}

enum { SMALL = 1000, LARGE = 20000, ZONES = 2 };

struct rank {
    struct {
        struct k_field field;
        struct k_pulse pulse;
    } kernel;
    struct k_turns turns[2];
    struct k_error error, report;
    struct k_put put[BOARD_SIGNALS];
    struct leat_signal word[BOARD_SIGNALS];
    uint32_t index[LARGE], source_start[2 * LARGE + 1], source[LARGE];
    struct k_sent sent_home[LARGE + 1];
    float base[3 * (LARGE + ZONES * LARGE)], returned[3 * LARGE];
    float packed[ZONES * 3 * LARGE], packed_back[3 * LARGE];
};

static void put_to(struct rank *rank, enum board_signal word, void *to, const void *from,
                   uint64_t bytes)
{
    rank->put[word] = (struct k_put){.to = to,
                                     .to_stride = word == BOARD_X_IN ? bytes : 0,
                                     .from = from,
                                     .from_stride = word == BOARD_X_IN ? bytes : 0,
                                     .bytes = bytes,
                                     .signal = &rank->word[word].value};
}

// So many home elements, all of which it sends to itself.
static struct rank *new_rank(uint32_t count)
{
    struct rank *rank = calloc(1, sizeof *rank);
    assert_non_null(rank);
    for (uint32_t i = 0; i < count; i++) {
        rank->index[i] = count - 1 - i;
        rank->source_start[i] = i;
        rank->source[i] = count - 1 - i;
        rank->sent_home[i] = (struct k_sent){i, i};
    }
    rank->sent_home[count].first = count;
    for (uint32_t ghost = count; ghost <= 2 * count; ghost++)
        rank->source_start[ghost] = count;
    rank->kernel.field = (struct k_field){
        .base = rank->base,
        .returned = rank->returned,
        .components = 3,
        .pulse_count = 1,
        .home_count = count,
        .ghost_count = count,
        .zones = ZONES,
        .turns = rank->turns,
        .source_start = rank->source_start,
        .source = rank->source,
        .sent_home = rank->sent_home,
        .sent_home_count = count,
        .send_total = count,
        .x_tell = 1,
        .x_ask = 1,
        .f_tell = 1,
        .f_ask = 1,
        .senders = 1,
        .receivers = 1,
        .wait = {.timeout_ns = TIMEOUT, .error = &rank->error, .report = &rank->report},
        .puts = rank->put,
    };
    rank->kernel.pulse = (struct k_pulse){
        .index = rank->index,
        .send_count = count,
        .dependent_start = count,
        .recv_count = count,
        .recv_offset = count,
        .posts = (1u << BOARD_SIGNALS) - 1,
        .x_landing = rank->packed,
        .x_stride = 12ull * count,
        .f_landing = rank->packed_back,
        .signal = {.x_here = &rank->word[BOARD_X_IN],
                   .x_free_here = &rank->word[BOARD_X_FREE],
                   .f_here = &rank->word[BOARD_F_IN],
                   .f_free_here = &rank->word[BOARD_F_FREE]},
    };
    put_to(rank, BOARD_X_IN, rank->base + 3 * count, rank->packed, 12ull * count);
    put_to(rank, BOARD_F_IN, rank->returned, rank->packed_back, 12ull * count);
    put_to(rank, BOARD_X_FREE, NULL, NULL, 0);
    put_to(rank, BOARD_F_FREE, NULL, NULL, 0);
    memset(&made, 0, sizeof made);
    return rank;
}

static void expect_puts(uint32_t count, uint32_t exchanges)
{
    const bool spread = 12ull * count >= PUT_SPREAD_BYTES;
    assert_int_equal(made.whole, spread ? 0 : exchanges);
    assert_true(spread ? made.shares > exchanges : !made.shares);
    assert_int_equal(made.bytes, 12ull * count * exchanges);
    // An acknowledgement each, and the word after shares.
    assert_int_equal(made.raised, spread ? 2 * exchanges : exchanges);
}

static void forward(uint32_t count)
{
    struct rank *rank = new_rank(count);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        const float *ghosts = rank->base + 3 * count + (epoch & 1) * 3ull * count;
        for (uint32_t w = 0; w < 3 * count; w++)
            rank->base[w] = (float)(epoch * 3 * LARGE + w);
        assert_true(lanes_run(fused_forward_f32, &rank->kernel, HALO_EXPLICIT_FREE, epoch));
        assert_int_equal(rank->report.ready, 0);
        assert_int_equal(rank->word[BOARD_X_IN].value, epoch);
        assert_int_equal(rank->word[BOARD_X_FREE].value, epoch);
        for (uint32_t w = 0; w < 3 * count; w++)
            assert_true(ghosts[w] == rank->base[3 * rank->index[w / 3] + w % 3]);
    }
    expect_puts(count, 3);
    free(rank);
}

static void reverse(uint32_t count)
{
    struct rank *rank = new_rank(count);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        for (uint32_t w = 0; w < 6 * count; w++)
            rank->base[w] = (float)(epoch + w);
        assert_true(lanes_run(fused_reverse_f32, &rank->kernel, HALO_EXPLICIT_FREE, epoch));
        assert_int_equal(rank->report.ready, 0);
        assert_int_equal(rank->word[BOARD_F_IN].value, epoch);
        assert_int_equal(rank->word[BOARD_F_FREE].value, epoch);
        for (uint32_t w = 0; w < 3 * count; w++) {
            const uint32_t ghost = 3 * (2 * count - 1 - w / 3) + w % 3;
            assert_true(rank->base[w] == (float)(epoch + w) + (float)(epoch + ghost));
        }
    }
    expect_puts(count, 3);
    free(rank);
}

static void test_the_last_block_puts_a_small_pulse(void **state)
{
    (void)state;
    forward(1);
    forward(SMALL);
    reverse(SMALL);
}

static void test_every_warp_puts_its_share_of_a_large_pulse(void **state)
{
    (void)state;
    forward(PUT_SPREAD_BYTES / 12);
    forward(LARGE);
    reverse(LARGE);
}

// A block that failed before it packed: the other does not wait for it for ever.
static void test_who_waits_for_packed_blocks_ends(void **state)
{
    (void)state;
    struct rank *rank = new_rank(LARGE);
    rank->turns[1].forward_blocks = UINT32_MAX; // as if one fewer had come
    assert_true(lanes_run(fused_forward_f32, &rank->kernel, HALO_EXPLICIT_FREE, 1));
    assert_int_equal(rank->report.ready, 1);
    assert_int_equal(rank->report.code, -110);
    assert_int_equal(rank->report.wanted, BLOCKS);
    assert_int_equal(rank->word[BOARD_X_IN].value, 0);
    free(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_block_puts_a_small_pulse),
        cmocka_unit_test(test_every_warp_puts_its_share_of_a_large_pulse),
        cmocka_unit_test(test_who_waits_for_packed_blocks_ends),
    };
    return cmocka_run_group_tests(tests, lanes_enter, lanes_leave);
}
