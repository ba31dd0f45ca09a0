// SPDX-License-Identifier: Apache-2.0
// What holds on every way between a file and memory: bytes, counts, ends.

#define _GNU_SOURCE
#include "support/file_ways.h"

#define FILE_BYTES UINT64_C(1500007)

static void each_way(struct stage *stage, void (*test)(const struct way *, struct stage *))
{
    for (size_t i = 0; i < file_way_count; i++) {
        struct fake_copies fake;
        way_begin(&file_ways[i], stage, &fake, NULL);
        test(&file_ways[i], stage);
        way_end(&file_ways[i], stage, &fake);
    }
}

static void read_shapes(const struct way *way, struct stage *stage)
{
    static const uint64_t offsets[] = {0, 1, 511, 512, 4095, 4096, 65537, 262143};
    static const uint64_t lengths[] = {1, 513, 4096, 65536, 300001, 1048576};
    stage_fill(stage, FILE_BYTES);
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    uint64_t sum = 0;
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            stage_read_checked(stage, file, offsets[o], lengths[l], lengths[l]);
            sum += lengths[l];
        }
    way_check_bytes(way, file, sum);
    stage_ok(leat_file_close(file));
}

static void reads_of_any_shape(void **state)
{
    each_way(*state, read_shapes);
}

// That io_uring is refused is no secret.
static void check_ring(const struct way *way, leat_file *file)
{
    leat_file_info info = {.size = sizeof info};
    leat_file_range range = {.bytes = 1};
    leat_file_call question = {.size = sizeof question, .ranges = &range, .range_count = 1};
    range.buffer.address = file;
    stage_ok(leat_file_info_get(file, &question, &info));
    bool told = strstr(info.path[FILE_ODIRECT].reason, "io_uring is refused: Function not");
    if (told != way->no_ring)
        fail_msg("%s: %s", way->name, info.path[FILE_ODIRECT].reason);
}

// A call for much more than there is ends soon after it has met the end.
static void read_far_too_much(struct stage *stage, leat_file *file, uint64_t size)
{
    uint64_t before = faults_calls(), done = 0;
    stage_poison(stage, size);
    stage_ok(leat_file_read(file, stage_buffer(stage), 0, UINT64_C(8) << 30, &done));
    assert_int_equal(done, size);
    stage_check(stage, 0, size, size);
    assert_true(faults_calls() - before < 2000); // of 32768 tasks
}

// F2
static void read_ends(const struct way *way, struct stage *stage)
{
    static const uint64_t sizes[] = {1, 512, 4095, 4096, 65536, 1500007, 1572864};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t size = sizes[i];
        stage_fill(stage, size);
        leat_file *file = way_open(way, stage, LEAT_FILE_READ);
        stage_read_checked(stage, file, 0, size, size);
        stage_read_checked(stage, file, 0, size + 1, size);
        stage_read_checked(stage, file, size - 1, 600000, 1);
        stage_read_checked(stage, file, size, 4096, 0);
        stage_read_checked(stage, file, size + 5000, 600000, 0);
        stage_read_checked(stage, file, size / 2, 2000000, size - size / 2);
        stage_read_checked(stage, file, UINT64_C(1) << 45, 5000, 0);
        stage_read_checked(stage, file, 0, 0, 0);
        if (!way->device)
            read_far_too_much(stage, file, size);
        way_check_bytes(way, file, (way->device ? 2 : 3) * size + 1 + (size - size / 2));
        check_ring(way, file);
        stage_ok(leat_file_close(file));
    }
}

static void ends_are_short_counts(void **state)
{
    each_way(*state, read_ends);
}

// Reads of the last block that an offset can have find nothing there, and spoil nothing.
static void read_at_the_last_offset(const struct way *way, struct stage *stage)
{
    const uint64_t last = INT64_MAX;
    stage_fill(stage, 100000);
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_read_checked(stage, file, last - 10, 10, 0);
    stage_read_checked(stage, file, last - 1000000, 1000000, 0);
    stage_read_checked(stage, file, last - 1000, 0, 0);
    leat_file_range range[4];
    for (uint64_t i = 0; i < 4; i++)
        range[i] = (leat_file_range){
            .file_offset = last - 4000 + i * 1000, .bytes = 500, .buffer = stage_buffer(stage)};
    const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = 4};
    leat_file_request *request = NULL;
    uint64_t done = 77;
    stage_ok(leat_file_start(file, &call, &request));
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, 0);
    stage_read_checked(stage, file, 0, 100000, 100000);
    way_check_bytes(way, file, 100000);
    stage_ok(leat_file_close(file));
}

static void reads_at_the_last_offset_are_empty(void **state)
{
    each_way(*state, read_at_the_last_offset);
}

static void write_whole(const struct way *way, struct stage *stage)
{
    unlink(stage->path);
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE | LEAT_FILE_READ | LEAT_FILE_CREATE);
    stage_stamp(stage, 0, FILE_BYTES);
    uint64_t done = 0;
    stage_ok(leat_file_write(file, stage_buffer(stage), 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    stage_check_file(stage, FILE_BYTES);
    way_check_written(way, file, FILE_BYTES, FILE_BYTES % 4096);
    stage_ok(leat_file_sync(file));
    stage_read_checked(stage, file, 0, FILE_BYTES + 9, FILE_BYTES);
    stage_ok(leat_file_close(file));
}

static void writes_of_a_new_file(void **state)
{
    each_way(*state, write_whole);
}

// Of a write from `begin` to `end`: what is no whole page.
static uint64_t edge_bytes(uint64_t begin, uint64_t end)
{
    uint64_t head = (begin + 4095) / 4096 * 4096, tail = end / 4096 * 4096;
    return head > tail ? end - begin : (head - begin) + (end - tail);
}

// Into a file of zeros, piece by piece, in an order in which neighbours share pages.
static void write_pieces(const struct way *way, struct stage *stage)
{
    static const uint64_t cuts[] = {0,     1,      511,    4096,   5000,    8191,
                                    70000, 262144, 262145, 900000, 1048576, FILE_BYTES};
    const size_t pieces = sizeof cuts / sizeof *cuts - 1;
    uint64_t edges = 0;
    unlink(stage->path);
    leat_file *file = way_open(way, stage, LEAT_FILE_WRITE | LEAT_FILE_CREATE);
    stage_ok(leat_file_resize(file, FILE_BYTES));
    for (size_t i = 0; i < pieces; i++) {
        size_t piece = i * 5 % pieces;
        uint64_t bytes = cuts[piece + 1] - cuts[piece], done = 0;
        edges += edge_bytes(cuts[piece], cuts[piece + 1]);
        stage_stamp(stage, cuts[piece], bytes);
        stage_ok(leat_file_write(file, stage_buffer(stage), cuts[piece], bytes, &done));
        assert_int_equal(done, bytes);
    }
    way_check_written(way, file, FILE_BYTES, edges);
    stage_ok(leat_file_close(file));
    stage_check_file(stage, FILE_BYTES);
}

static void writes_of_any_shape_leave_their_neighbours(void **state)
{
    each_way(*state, write_pieces);
}

static void many_calls(const struct way *way, struct stage *stage)
{
    enum { CALLS = 48, EACH = 30000 };
    leat_file_range range[CALLS];
    leat_file_request *request[CALLS];
    stage_fill(stage, CALLS * EACH);
    leat_file *file = way_open(way, stage, LEAT_FILE_READ);
    stage_poison(stage, CALLS * EACH);
    for (int i = 0; i < CALLS; i++) {
        int at = i * 7 % CALLS * EACH;
        range[i] = (leat_file_range){
            .file_offset = (uint64_t)at, .bytes = EACH, .buffer = stage_buffer(stage)};
        range[i].buffer.address = (char *)range[i].buffer.address + at;
        const leat_file_call call = {.size = sizeof call, .ranges = &range[i], .range_count = 1};
        stage_ok(leat_file_start(file, &call, &request[i]));
    }
    for (int i = CALLS - 1; i >= 0; i--) {
        uint64_t done = 0;
        stage_ok(leat_file_wait(request[i], -1, &done));
        assert_int_equal(done, EACH);
        assert_int_equal(range[i].done, EACH);
    }
    stage_check(stage, 0, CALLS * EACH, CALLS * EACH);
    way_check_bytes(way, file, CALLS * EACH);
    stage_ok(leat_file_close(file));
}

static void many_calls_at_once(void **state)
{
    each_way(*state, many_calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_of_any_shape, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(ends_are_short_counts, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(reads_at_the_last_offset_are_empty, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(writes_of_a_new_file, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(writes_of_any_shape_leave_their_neighbours, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(many_calls_at_once, stage_begin, stage_end),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
