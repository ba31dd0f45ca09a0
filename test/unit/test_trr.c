// SPDX-License-Identifier: Apache-2.0
// Writer and reader of TRR frames: what is put comes back, and what is no frame is refused.
//
// Advantage: each byte of a small frame is cut off and each word of its head is spoilt.
// Disadvantage: whether GROMACS agrees is for the peer test.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/trr.h"
#include "leat/leat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ATOMS = 3, ROOM = 4096 };

static double stamp(int array, int64_t number)
{
    return array + 1.0 + (double)number / 1024.0; // exact in single precision
}

static const struct trr_frame whole = {.atom_count = ATOMS,
                                       .step = 70000,
                                       .time_ps = 140.0,
                                       .lambda = 0.25,
                                       .has_box = true,
                                       .has_x = true,
                                       .has_v = true,
                                       .has_f = true,
                                       .box_nm = {{3, 0, 0}, {0.5, 4, 0}, {-0.25, 0.125, 5}}};

static uint64_t write_frame(const struct trr_frame *frame, unsigned char *to)
{
    struct trr_layout layout;
    assert_int_equal(trr_lay_out(frame, &layout), 0);
    assert_true(layout.bytes <= ROOM);
    trr_put_head(frame, to);
    const uint64_t at[3] = {layout.x, layout.v, layout.f};
    for (int array = 0; array < 3; array++)
        for (int64_t atom = 0; atom < frame->atom_count && at[array]; atom++) {
            double v[3];
            for (int d = 0; d < 3; d++)
                v[d] = stamp(array, 3 * atom + d);
            trr_put_vector(frame, v, to + at[array] + (uint64_t)atom * layout.vector_bytes);
        }
    return layout.bytes;
}

static void check_frame(const struct trr_reader *reader, const struct trr_frame *expected)
{
    const struct trr_frame *got = &reader->frame;
    assert_int_equal(got->atom_count, expected->atom_count);
    assert_int_equal(got->step, expected->step);
    assert_true(got->time_ps == expected->time_ps && got->lambda == expected->lambda);
    assert_int_equal(got->is_double, expected->is_double);
    assert_true(got->has_box == expected->has_box && got->has_x == expected->has_x &&
                got->has_v == expected->has_v && got->has_f == expected->has_f);
    assert_memory_equal(got->box_nm, expected->box_nm, sizeof got->box_nm);
    const double *arrays[3] = {got->has_x ? reader->x_nm : NULL,
                               got->has_v ? reader->v_nm_ps : NULL, got->has_f ? reader->f : NULL};
    for (int array = 0; array < 3; array++)
        for (int64_t i = 0; i < 3 * got->atom_count && arrays[array]; i++)
            assert_true(arrays[array][i] == stamp(array, i));
}

static FILE *open_bytes(const unsigned char *bytes, uint64_t count)
{
    FILE *stream = fmemopen((void *)(uintptr_t)bytes, count, "r");
    assert_non_null(stream);
    return stream;
}

// The result of reading one frame of these bytes.
static int read_bytes(const unsigned char *bytes, uint64_t count)
{
    FILE *stream = open_bytes(bytes, count);
    struct trr_reader reader = {.stream = stream, .name = "test.trr"};
    int result = trr_read(&reader);
    trr_reader_end(&reader);
    fclose(stream);
    return result;
}

static void frames_come_back_in_both_precisions(void **state)
{
    (void)state;
    unsigned char bytes[4 * ROOM];
    memset(bytes, 0xa5, sizeof bytes);
    struct trr_frame frame[3] = {whole, whole, whole};
    frame[1].is_double = true;
    frame[1].has_v = false;
    frame[1].step = 0;
    frame[2].has_box = frame[2].has_x = frame[2].has_v = false;
    memset(frame[2].box_nm, 0, sizeof frame[2].box_nm);
    uint64_t count = 0;
    for (int i = 0; i < 3; i++)
        count += write_frame(&frame[i], bytes + count);
    FILE *stream = open_bytes(bytes, count);
    struct trr_reader reader = {.stream = stream, .name = "test.trr"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trr_read(&reader), 1);
        check_frame(&reader, &frame[i]);
        assert_int_equal(reader.number, i + 1);
    }
    assert_int_equal(reader.offset, count);
    assert_int_equal(trr_read(&reader), 0);
    trr_reader_end(&reader);
    fclose(stream);
}

static void head_is_as_gromacs_writes_it(void **state)
{
    (void)state;
    // The first bytes of a file of GROMACS 2022 with 3000 atoms in single precision.
    static const unsigned char gromacs[] =
        "\0\0\7\xc9\0\0\0\x0d\0\0\0\x0cGMX_trn_file\0\0\0\0\0\0\0\0\0\0\0\x24\0\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\0\0\x8c\xa0\0\0\x8c\xa0\0\0\x8c\xa0\0\0\x0b\xb8\0\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\x40\x46\xdf\xf8";
    struct trr_frame frame = {
        .atom_count = 3000, .has_box = true, .has_x = true, .has_v = true, .has_f = true};
    frame.box_nm[0][0] = frame.box_nm[1][1] = frame.box_nm[2][2] = 3.10742;
    unsigned char bytes[256];
    memset(bytes, 0xa5, sizeof bytes);
    trr_put_head(&frame, bytes);
    assert_memory_equal(bytes, gromacs, sizeof gromacs - 1);
    struct trr_layout layout;
    assert_int_equal(trr_lay_out(&frame, &layout), 0);
    assert_int_equal(layout.x, 0x78);
    assert_int_equal(layout.bytes, 0x78 + 3 * 36000);
}

static void a_cut_frame_is_told_from_a_bad_one(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    memset(bytes, 0xa5, sizeof bytes);
    uint64_t count = write_frame(&whole, bytes);
    for (uint64_t cut = 1; cut < count; cut++) {
        assert_int_equal(read_bytes(bytes, cut), -ENODATA);
        assert_non_null(strstr(leat_error_detail(), "test.trr: frame 0 at byte 0"));
    }
    assert_int_equal(read_bytes(bytes, count), 1);
}

static void a_spoilt_head_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    memset(bytes, 0xa5, sizeof bytes);
    uint64_t count = write_frame(&whole, bytes);
    // Magic, lengths, version, fields; any bit of the step makes another step.
    for (size_t at = 0; at < 76; at++) {
        if (at >= 68 && at < 72)
            continue;
        bytes[at] ^= 0x90;
        assert_int_equal(read_bytes(bytes, count), -EINVAL);
        bytes[at] ^= 0x90;
    }
}

static void a_promise_takes_no_memory(void **state)
{
    (void)state;
    struct trr_frame frame = whole;
    frame.has_v = frame.has_f = false;
    frame.atom_count = INT32_MAX / 12;
    unsigned char bytes[ROOM];
    memset(bytes, 0xa5, sizeof bytes);
    trr_put_head(&frame, bytes);
    FILE *stream = open_bytes(bytes, sizeof bytes);
    struct trr_reader reader = {.stream = stream, .name = "test.trr"};
    assert_int_equal(trr_read(&reader), -ENODATA);
    assert_true(reader.capacity[0] <= 16384);
    trr_reader_end(&reader);
    fclose(stream);
}

static void what_the_format_cannot_hold_is_refused(void **state)
{
    (void)state;
    struct trr_layout layout = {.bytes = 99};
    struct trr_frame frame = whole;
    frame.step = (int64_t)INT32_MAX + 1;
    assert_int_equal(trr_lay_out(&frame, &layout), -EOVERFLOW);
    frame = whole;
    frame.atom_count = INT32_MAX / 12 + 1;
    assert_int_equal(trr_lay_out(&frame, &layout), -EOVERFLOW);
    assert_int_equal(layout.bytes, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_in_both_precisions),
        cmocka_unit_test(head_is_as_gromacs_writes_it),
        cmocka_unit_test(a_cut_frame_is_told_from_a_bad_one),
        cmocka_unit_test(a_spoilt_head_is_refused),
        cmocka_unit_test(a_promise_takes_no_memory),
        cmocka_unit_test(what_the_format_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
