// SPDX-License-Identifier: Apache-2.0
// The bytes of a checkpoint: what is put comes back, and no byte can change or lack unseen.
//
// Advantage: every byte of a small file is flipped and every length tried. Disadvantage: the runs
// that write and read such files are for the tests of the command.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"
#include "md/checkpoint_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, ROOM = 4096 };

static const uint64_t molecules_of[RANKS] = {2, 1}, atoms_of[RANKS] = {3, 2};

static double stamp(uint32_t rank, int array, uint64_t i)
{
    return 100.0 * rank + 10.0 * array + (double)i / 3.0;
}

static void add(struct md_records *records, const char *name, double value)
{
    assert_int_equal(md_records_add(records, name, value), 0);
}

static uint64_t put_section(uint32_t rank, unsigned char *to)
{
    struct md_records records = {0};
    add(&records, "kinetic", rank + 0.5);
    uint64_t molecules = molecules_of[rank], atoms = atoms_of[rank];
    unsigned char *at = md_put_section(&records, molecules, atoms, to);
    for (uint64_t m = 0; m < molecules; m++)
        at = md_put_i64(at, (int64_t)(10 * rank + m));
    for (int array = 0; array < 2; array++)
        for (uint64_t i = 0; i < 3 * atoms; i++)
            at = md_put_f64(at, stamp(rank, array, i));
    assert_int_equal(at - to, md_section_bytes(records.count, molecules, atoms));
    md_records_free(&records);
    return (uint64_t)(at - to);
}

// A whole file; gives its length.
static uint64_t put_file(unsigned char *to)
{
    struct md_share share[RANKS] = {{0}};
    struct md_checkpoint_head head = {
        .step = 70, .rank_count = RANKS, .grid = {2, 1, 1}, .share = share};
    add(&head.records, "heat", -1.25);
    add(&head.records, "atoms", 5);
    unsigned char *at = to + md_head_bytes(head.records.count, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        share[r] = (struct md_share){.bytes = put_section(r, at),
                                     .molecule_count = molecules_of[r],
                                     .atom_count = atoms_of[r]};
        share[r].checksum = md_checksum(at, share[r].bytes);
        at += share[r].bytes;
    }
    md_head_lay_out(&head);
    md_put_head(&head, to);
    md_records_free(&head.records);
    assert_int_equal(at - to, head.file_bytes);
    return head.file_bytes;
}

// The result of reading head and sections, the first that is not 0.
static int read_file(const unsigned char *from, uint64_t bytes)
{
    struct md_checkpoint_head head;
    uint64_t head_bytes = 0;
    memset(&head, 0xa5, sizeof head);
    int error = md_get_head_bytes("test.cpt", from, bytes, &head_bytes);
    if (!error)
        error = md_get_head("test.cpt", from, head_bytes, bytes, &head);
    if (error)
        return error;
    for (uint32_t r = 0; r < head.rank_count && !error; r++) {
        struct md_section section;
        memset(&section, 0xa5, sizeof section);
        error = md_get_section("test.cpt", &head, r, from + head.share[r].offset, &section);
        md_records_free(&section.records);
    }
    md_head_free(&head);
    return error;
}

static void check_section(const struct md_checkpoint_head *head, uint32_t r,
                          const unsigned char *file)
{
    struct md_section section;
    memset(&section, 0xa5, sizeof section);
    assert_int_equal(md_get_section("test.cpt", head, r, file + head->share[r].offset, &section),
                     0);
    assert_int_equal(section.molecule_count, molecules_of[r]);
    assert_int_equal(section.atom_count, atoms_of[r]);
    assert_true(md_records_find(&section.records, "kinetic")->value == r + 0.5);
    for (uint64_t m = 0; m < molecules_of[r]; m++)
        assert_int_equal(md_get_i64(section.molecules + 8 * m), 10 * r + m);
    for (uint64_t i = 0; i < 3 * atoms_of[r]; i++) {
        assert_true(md_get_f64(section.x + 8 * i) == stamp(r, 0, i));
        assert_true(md_get_f64(section.v + 8 * i) == stamp(r, 1, i));
    }
    md_records_free(&section.records);
}

static void what_is_put_comes_back(void **state)
{
    (void)state;
    unsigned char file[ROOM];
    memset(file, 0xa5, sizeof file);
    uint64_t bytes = put_file(file), head_bytes = 0;
    struct md_checkpoint_head head;
    memset(&head, 0xa5, sizeof head);
    assert_int_equal(md_get_head_bytes("test.cpt", file, bytes, &head_bytes), 0);
    assert_int_equal(md_get_head("test.cpt", file, head_bytes, bytes, &head), 0);
    assert_int_equal(head.step, 70);
    assert_int_equal(head.rank_count, RANKS);
    assert_int_equal(head.grid[0], 2);
    assert_true(md_records_find(&head.records, "heat")->value == -1.25);
    assert_true(md_records_find(&head.records, "atoms")->value == 5);
    assert_null(md_records_find(&head.records, "hea"));
    for (uint32_t r = 0; r < RANKS; r++)
        check_section(&head, r, file);
    md_head_free(&head);
}

static void each_flipped_bit_is_seen(void **state)
{
    (void)state;
    unsigned char file[ROOM];
    memset(file, 0xa5, sizeof file);
    uint64_t bytes = put_file(file);
    assert_int_equal(read_file(file, bytes), 0);
    for (uint64_t at = 0; at < bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1 << bit);
            int error = read_file(file, bytes);
            if (error != -EBADMSG && !(at < 16 && error == -EINVAL) &&
                !(at >= 16 && at < 20 && error == -ENOTSUP))
                fail_msg("byte %d bit %d: %d", (int)at, bit, error);
            file[at] ^= (unsigned char)(1 << bit);
        }
}

static void each_other_length_is_seen(void **state)
{
    (void)state;
    unsigned char file[ROOM];
    memset(file, 0xa5, sizeof file);
    uint64_t bytes = put_file(file);
    for (uint64_t length = 0; length < bytes + 16; length++) {
        if (length == bytes)
            continue;
        // Exactly as many bytes, so that a sanitizer sees the first beyond them.
        unsigned char *cut = malloc(length ? length : 1);
        assert_non_null(cut);
        memcpy(cut, file, length);
        assert_int_equal(read_file(cut, length), -EBADMSG);
        assert_non_null(strstr(leat_error_detail(), "test.cpt"));
        free(cut);
    }
}

static void a_lying_count_is_refused_though_its_checksum_is_right(void **state)
{
    (void)state;
    unsigned char file[ROOM];
    memset(file, 0xa5, sizeof file);
    uint64_t bytes = put_file(file), head_bytes = 0;
    struct md_checkpoint_head head;
    memset(&head, 0xa5, sizeof head);
    assert_int_equal(md_get_head_bytes("test.cpt", file, bytes, &head_bytes), 0);
    assert_int_equal(md_get_head("test.cpt", file, head_bytes, bytes, &head), 0);
    unsigned char *section = file + head.share[0].offset;
    for (int field = 0; field < 3; field++) {
        section[8 * field + 7] ^= 0x80;
        head.share[0].checksum = md_checksum(section, head.share[0].bytes);
        struct md_section got;
        memset(&got, 0xa5, sizeof got);
        assert_int_equal(md_get_section("test.cpt", &head, 0, section, &got), -EBADMSG);
        section[8 * field + 7] ^= 0x80;
    }
    md_head_free(&head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_back),
        cmocka_unit_test(each_flipped_bit_is_seen),
        cmocka_unit_test(each_other_length_is_seen),
        cmocka_unit_test(a_lying_count_is_refused_though_its_checksum_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
