// SPDX-License-Identifier: Apache-2.0
// Layouts of messages: any part of any layout against a plain list of its bytes' places, and what
// cannot be is refused by name.

#include "msg/layout.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AREA_BYTES 65536
#define MOST_BYTES 8448
#define POISON     0xee

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static uint64_t below(uint64_t *random, uint64_t bound)
{
    return next_random(random) % bound;
}

static unsigned char stamp(uint64_t offset)
{
    return (unsigned char)(1 + (offset * 37 + (offset >> 8)) % 223); // never the poison
}

// A layout whose blocks do not overlap, in memory that starts at `base`, and where message byte i
// lies, found by counting through the dimensions.
struct scene {
    leat_layout layout;
    leat_data data;
    uint32_t place[MOST_BYTES];
    unsigned char area[AREA_BYTES];
};

static void list_places(struct scene *scene)
{
    const leat_layout *layout = &scene->layout;
    uint64_t index[LEAT_LAYOUT_DIMS] = {0};
    int64_t base = (unsigned char *)scene->data.address - scene->area;
    for (uint64_t i = 0; i < scene->data.bytes;) {
        int64_t at = base;
        for (int d = 0; d < layout->dim_count; d++)
            at += (int64_t)index[d] * layout->dim[d].stride_bytes;
        for (uint64_t b = 0; b < layout->block_bytes; b++)
            scene->place[i++] = (uint32_t)(at + (int64_t)b);
        for (int d = layout->dim_count - 1; d >= 0; d--) {
            if (++index[d] < layout->dim[d].count)
                break;
            index[d] = 0;
        }
    }
}

static void make_scene(struct scene *scene, uint64_t *random)
{
    leat_layout *layout = &scene->layout;
    *layout = (leat_layout){.size = sizeof *layout};
    layout->dim_count = (int)below(random, LEAT_LAYOUT_DIMS + 1);
    static const uint64_t blocks[] = {1, 3, 4, 7, 8, 16, 24, 33};
    layout->block_bytes = blocks[below(random, 8)];
    uint64_t extent = layout->block_bytes, bytes = extent, down = 0;
    // Each dimension, in any order of nesting, strides over all inside it, with or without a gap.
    int order[LEAT_LAYOUT_DIMS] = {0, 1, 2, 3};
    for (int d = layout->dim_count - 1; d > 0; d--) {
        int other = (int)below(random, (uint64_t)d + 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (int n = layout->dim_count - 1; n >= 0; n--) {
        int d = order[n];
        uint64_t count = 1 + below(random, 4);
        uint64_t stride = extent + (below(random, 2) ? 0 : below(random, 6));
        bool backwards = below(random, 3) == 0;
        layout->dim[d].count = count;
        layout->dim[d].stride_bytes = backwards ? -(int64_t)stride : (int64_t)stride;
        down += backwards ? (count - 1) * stride : 0;
        extent = stride * (count - 1) + extent;
        bytes *= count;
    }
    assert_true(bytes <= MOST_BYTES && extent + 64 < AREA_BYTES);
    scene->data = (leat_data){scene->area + 32 + down, bytes, layout};
    list_places(scene);
}

static void test_parts_are_read_as_a_list_of_places_says(void **state)
{
    (void)state;
    uint64_t random = 1;
    static struct scene scene;
    static unsigned char to[MOST_BYTES + 1];
    for (int round = 0; round < 2000; round++) {
        make_scene(&scene, &random);
        assert_int_equal(msg_layout_check(&scene.data, "test"), 0);
        memset(scene.area, POISON, sizeof scene.area);
        for (uint64_t i = 0; i < scene.data.bytes; i++)
            scene.area[scene.place[i]] = stamp(i);
        for (int part = 0; part < 8; part++) {
            uint64_t offset = below(&random, scene.data.bytes + 1);
            uint64_t bytes = below(&random, scene.data.bytes - offset + 1);
            memset(to, POISON, sizeof to);
            msg_layout_read(&scene.data, offset, to, bytes);
            for (uint64_t i = 0; i < bytes; i++)
                assert_int_equal(to[i], stamp(offset + i));
            assert_int_equal(to[bytes], POISON);
        }
    }
}

static void test_parts_are_written_where_they_belong_and_nowhere_else(void **state)
{
    (void)state;
    uint64_t random = 2;
    static struct scene scene;
    static unsigned char from[MOST_BYTES], expected[AREA_BYTES];
    for (int round = 0; round < 1000; round++) {
        make_scene(&scene, &random);
        assert_int_equal(msg_layout_check_receive(&scene.data, "test"), 0);
        memset(scene.area, POISON, sizeof scene.area);
        memset(expected, POISON, sizeof expected);
        uint64_t offset = below(&random, scene.data.bytes + 1);
        uint64_t bytes = below(&random, scene.data.bytes - offset + 1);
        for (uint64_t i = 0; i < bytes; i++) {
            from[i] = stamp(offset + i);
            expected[scene.place[offset + i]] = from[i];
        }
        msg_layout_write(&scene.data, offset, from, bytes);
        assert_memory_equal(scene.area, expected, sizeof expected);
    }
}

static void test_pieces_follow_one_another_over_the_whole_message(void **state)
{
    (void)state;
    uint64_t random = 3;
    static struct scene scene;
    for (int round = 0; round < 2000; round++) {
        make_scene(&scene, &random);
        for (uint64_t offset = below(&random, 9); offset < scene.data.bytes;) {
            void *at = NULL;
            uint64_t bytes = msg_layout_piece(&scene.data, offset, &at);
            assert_true(bytes >= 1 && bytes <= scene.data.bytes - offset);
            for (uint64_t i = 0; i < bytes; i++)
                assert_ptr_equal((unsigned char *)at + i, scene.area + scene.place[offset + i]);
            offset += bytes;
        }
        void *at = &random;
        assert_int_equal(msg_layout_piece(&scene.data, scene.data.bytes, &at), 0);
        assert_null(at);
    }
}

static void test_dimensions_that_close_up_are_one_piece(void **state)
{
    (void)state;
    static unsigned char area[4096];
    leat_layout layout = {.size = sizeof layout,
                          .block_bytes = 8,
                          .dim_count = 4,
                          .dim = {{4, 1024}, {2, 128}, {1, -77}, {16, 8}}};
    leat_data data = {area, 1024, &layout};
    assert_int_equal(msg_layout_check(&data, "test"), 0);
    void *at = NULL;
    assert_int_equal(msg_layout_piece(&data, 256 + 5, &at), 251);
    assert_ptr_equal(at, area + 1024 + 5);
}

static void test_a_contiguous_message_is_one_piece(void **state)
{
    (void)state;
    unsigned char area[100], to[100];
    for (int i = 0; i < 100; i++)
        area[i] = stamp((uint64_t)i);
    leat_data data = {area, 100, NULL};
    assert_int_equal(msg_layout_check(&data, "test"), 0);
    void *at = NULL;
    assert_int_equal(msg_layout_piece(&data, 30, &at), 70);
    assert_ptr_equal(at, area + 30);
    msg_layout_read(&data, 10, to, 50);
    assert_memory_equal(to, area + 10, 50);
    msg_layout_read_slow(&data, 20, to, 50);
    assert_memory_equal(to, area + 20, 50);
    msg_layout_write_slow(&data, 0, to, 50);
    assert_int_equal(area[0], stamp(20));
    assert_int_equal(area[50], stamp(50));
}

// Sends may overlap: one block many times over makes a message of 24 GiB.
static void test_offsets_beyond_32_bits_find_their_block(void **state)
{
    (void)state;
    static unsigned char area[1 << 20];
    for (size_t i = 0; i < sizeof area; i++)
        area[i] = stamp(i);
    leat_layout layout = {
        .size = sizeof layout, .block_bytes = 3, .dim_count = 2, .dim = {{1ull << 33, 0}, {1, 0}}};
    leat_data data = {area + 1000, 3ull << 33, &layout};
    assert_int_equal(msg_layout_check(&data, "test"), 0);
    unsigned char to[6];
    uint64_t offset = 3 * ((1ull << 32) + 12345) + 2; // the last byte of a block
    msg_layout_read(&data, offset, to, 5);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(to[i], stamp(1000 + (offset + i) % 3));
    layout.block_bytes = sizeof area;
    layout.dim[0].count = 5000;
    data = (leat_data){area, 5000 * sizeof area, &layout};
    assert_int_equal(msg_layout_check(&data, "test"), 0);
    offset = 4700 * sizeof area + 99;
    assert_true(offset > UINT32_MAX);
    msg_layout_read(&data, offset, to, 5);
    assert_memory_equal(to, area + 99, 5);
}

struct chopped {
    uint64_t least, calls;
};

// Pieces that end at multiples of 7, in an area turned by 1001 bytes.
static uint64_t chop(void *user, void *address, uint64_t offset, void **at)
{
    struct chopped *chopped = user;
    chopped->calls++;
    *at = (unsigned char *)address + (offset + 1001) % 2002;
    uint64_t bytes = 7 - offset % 7;
    return bytes >= chopped->least ? bytes : 0;
}

static void test_a_piece_function_is_asked_for_every_byte(void **state)
{
    (void)state;
    unsigned char area[2002], to[2003];
    for (uint64_t i = 0; i < 2002; i++)
        area[(i + 1001) % 2002] = stamp(i);
    struct chopped chopped = {1, 0};
    leat_layout layout = {.size = sizeof layout, .piece = chop, .user = &chopped};
    leat_data data = {area, 2000, &layout};
    assert_int_equal(msg_layout_check(&data, "test"), 0);
    void *at = NULL;
    assert_int_equal(msg_layout_piece(&data, 1999, &at), 1); // of 3, and the message ends
    memset(to, POISON, sizeof to);
    chopped.calls = 0;
    msg_layout_read(&data, 3, to, 1997);
    assert_int_equal(chopped.calls, 286);
    for (uint64_t i = 0; i < 1997; i++)
        assert_int_equal(to[i], stamp(3 + i));
    assert_int_equal(to[1997], POISON);
    memset(area, POISON, sizeof area);
    msg_layout_write(&data, 3, to, 1000);
    for (uint64_t i = 0; i < 2002; i++)
        assert_int_equal(area[(i + 1001) % 2002], i >= 3 && i < 1003 ? stamp(i) : POISON);
}

static void test_a_piece_function_without_an_answer_ends_the_copy(void **state)
{
    (void)state;
    unsigned char area[2002] = {0}, to[100];
    struct chopped chopped = {7, 0}; // answers at the beginning of its pieces only
    leat_layout layout = {.size = sizeof layout, .piece = chop, .user = &chopped};
    leat_data data = {area, 2000, &layout};
    memset(to, POISON, sizeof to);
    msg_layout_read(&data, 3, to, 20);
    assert_int_equal(chopped.calls, 1);
    assert_int_equal(to[0], POISON);
}

static void refused(const leat_data *data, const char *said)
{
    assert_int_equal(msg_layout_check(data, "leat_send"), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "leat_send"));
    assert_non_null(strstr(leat_error_detail(), said));
}

static void test_null_with_bytes_is_refused(void **state)
{
    (void)state;
    leat_data data = {NULL, 8, NULL};
    refused(&data, "NULL");
    leat_layout layout = {.size = sizeof layout, .block_bytes = 8};
    data.layout = &layout;
    refused(&data, "NULL");
    layout.block_bytes = 0;
    data.bytes = 0;
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
    data.layout = NULL;
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
}

static void test_forms_that_cannot_be_are_refused(void **state)
{
    (void)state;
    unsigned char area[8];
    leat_layout layout = {.block_bytes = 8};
    leat_data data = {area, 8, &layout};
    refused(&data, "layout->size is 0");
    layout.size = sizeof layout;
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
    layout.dim_count = -1;
    refused(&data, "-1 dimensions");
    layout.dim_count = LEAT_LAYOUT_DIMS + 1;
    refused(&data, "5 dimensions");
    layout.dim_count = 0;
    layout.piece = chop;
    refused(&data, "piece function");
}

static void test_a_size_that_does_not_multiply_out_is_refused(void **state)
{
    (void)state;
    unsigned char area[100];
    leat_layout layout = {
        .size = sizeof layout, .block_bytes = 5, .dim_count = 2, .dim = {{2, 50}, {3, 10}}};
    leat_data data = {area, 31, &layout};
    refused(&data, "30 bytes");
    assert_int_equal(msg_layout_check_receive(&data, "leat_recv"), -EINVAL);
    data.bytes = 29;
    refused(&data, "30 bytes");
    assert_int_equal(msg_layout_check_receive(&data, "leat_recv"), 0); // a place with room to spare
    data.bytes = 30;
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
    layout.dim[0].count = 0;
    refused(&data, "0 bytes");
}

static void test_products_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    unsigned char area[8];
    leat_layout layout = {.size = sizeof layout,
                          .block_bytes = 1ull << 32,
                          .dim_count = 2,
                          .dim = {{1ull << 16, 0}, {1ull << 16, 0}}};
    leat_data data = {area, 0, &layout}; // what 2^64 wraps to
    refused(&data, "64 bits");
    layout.dim[1].count = 0; // then there are none
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
}

static void test_reaching_beyond_the_address_space_is_refused(void **state)
{
    (void)state;
    unsigned char area[8];
    leat_data data = {area, UINT64_MAX, NULL};
    refused(&data, "address space");
    leat_layout layout = {
        .size = sizeof layout, .block_bytes = 8, .dim_count = 2, .dim = {{2, INT64_MIN}, {1, 0}}};
    data = (leat_data){area, 16, &layout};
    refused(&data, "address space");
    layout.dim[0].stride_bytes = -(int64_t)((uintptr_t)area + 8);
    refused(&data, "address space");
    layout.dim[0].count = 1ull << 40;
    layout.dim[0].stride_bytes = 1ll << 40;
    data.bytes = 8ull << 40;
    refused(&data, "address space");
    layout.dim[0].count = 1; // a stride that nobody walks
    layout.dim[0].stride_bytes = INT64_MIN;
    layout.dim[1].count = 1;
    data.bytes = 8;
    assert_int_equal(msg_layout_check(&data, "leat_send"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_read_as_a_list_of_places_says),
        cmocka_unit_test(test_parts_are_written_where_they_belong_and_nowhere_else),
        cmocka_unit_test(test_pieces_follow_one_another_over_the_whole_message),
        cmocka_unit_test(test_dimensions_that_close_up_are_one_piece),
        cmocka_unit_test(test_a_contiguous_message_is_one_piece),
        cmocka_unit_test(test_offsets_beyond_32_bits_find_their_block),
        cmocka_unit_test(test_a_piece_function_is_asked_for_every_byte),
        cmocka_unit_test(test_a_piece_function_without_an_answer_ends_the_copy),
        cmocka_unit_test(test_null_with_bytes_is_refused),
        cmocka_unit_test(test_forms_that_cannot_be_are_refused),
        cmocka_unit_test(test_a_size_that_does_not_multiply_out_is_refused),
        cmocka_unit_test(test_products_beyond_64_bits_are_refused),
        cmocka_unit_test(test_reaching_beyond_the_address_space_is_refused),
    };
    return cmocka_run_group_tests_name("msg_layout", tests, NULL, NULL);
}
