// SPDX-License-Identifier: Apache-2.0
// Reader and writer of .gro files: one behaviour a test, on texts made here.
//
// Advantage: every expected number can be read in the text above it. Disadvantage: whether GROMACS
// agrees is for the peer tests.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/gro.h"
#include "leat/leat.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gro *const poison = (struct gro *)(uintptr_t)0x5a5a;

static int read_text(const char *text, struct gro **gro)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    int error = gro_read_stream(stream, "test.gro", gro);
    fclose(stream);
    return error;
}

static struct gro *must_read(const char *text)
{
    struct gro *gro = poison;
    if (read_text(text, &gro))
        fail_msg("%s", leat_error_detail());
    return gro;
}

// Refused with a detail that holds `word`, the output untouched.
static void refuse(const char *text, const char *word)
{
    struct gro *gro = poison;
    assert_int_equal(read_text(text, &gro), -EINVAL);
    assert_ptr_equal(gro, poison);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
}

static void near(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-12 * fabs(expected));
}

#define HEAD  "stamped\n2\n"
#define ATOM1 "    7SOL     OW    1   1.001   1.002   1.003"
#define V1    "  0.1001  0.1002  0.1003"
#define V2    "  0.2001 -0.2002  0.2003"
#define BOX   "   4.1   5.2   6.3\n"

static void test_reads_every_column(void **state)
{
    (void)state;
    struct gro *gro =
        must_read(HEAD ATOM1 V1 "\n"
                                "99999LIGANC1B9999999   2.001  -2.002   2.003" V2 "\n" BOX);
    assert_string_equal(gro->title, "stamped");
    assert_int_equal(gro->atom_count, 2);
    assert_true(gro->has_velocities);
    assert_int_equal(gro->labels[0].residue, 7);
    assert_string_equal(gro->labels[0].residue_name, "SOL");
    assert_string_equal(gro->labels[0].atom_name, "OW");
    assert_int_equal(gro->labels[1].residue, 99999);
    assert_string_equal(gro->labels[1].residue_name, "LIGAN");
    assert_string_equal(gro->labels[1].atom_name, "C1B99");
    for (int axis = 0; axis < 3; axis++) {
        double sign = axis == 1 ? -1 : 1;
        near(gro->x_nm[axis], 1.001 + 0.001 * axis);
        near(gro->x_nm[3 + axis], sign * (2.001 + 0.001 * axis));
        near(gro->v_nm_ps[axis], 0.1001 + 0.0001 * axis);
        near(gro->v_nm_ps[3 + axis], sign * (0.2001 + 0.0001 * axis));
    }
    gro_free(gro);
}

static void test_takes_the_width_from_the_decimal_points(void **state)
{
    (void)state;
    struct gro *gro = must_read("t\n1\n"
                                "    1AR      AR    1   1.234567  -2.345678  13.456789"
                                "  0.1234567 -0.2345678  0.3456789\n" BOX);
    near(gro->x_nm[0], 1.234567);
    near(gro->x_nm[1], -2.345678);
    near(gro->x_nm[2], 13.456789);
    near(gro->v_nm_ps[2], 0.3456789);
    gro_free(gro);
}

static void test_touching_columns_are_told_apart(void **state)
{
    (void)state;
    struct gro *gro = must_read("t\n1\n"
                                "    1AR      AR    1-100.001-200.002-300.003\n" BOX);
    near(gro->x_nm[0], -100.001);
    near(gro->x_nm[1], -200.002);
    near(gro->x_nm[2], -300.003);
    assert_false(gro->has_velocities);
    near(gro->v_nm_ps[2], 0);
    gro_free(gro);
}

static void test_atoms_without_velocities_among_others_have_zero(void **state)
{
    (void)state;
    struct gro *gro = must_read(HEAD ATOM1 "\n" ATOM1 V1 "\n" BOX);
    assert_true(gro->has_velocities);
    near(gro->v_nm_ps[0], 0);
    near(gro->v_nm_ps[3], 0.1001);
    gro_free(gro);
}

static void test_dos_line_ends_and_a_missing_last_one_are_fine(void **state)
{
    (void)state;
    struct gro *gro = must_read("title\r\n  1 \r\n" ATOM1 "\r\n 1 2 3");
    assert_string_equal(gro->title, "title");
    near(gro->x_nm[2], 1.003);
    near(gro->box_nm[2][2], 3);
    gro_free(gro);
}

static void test_atom_numbers_are_not_looked_at(void **state)
{
    (void)state;
    struct gro *gro = must_read("t\n1\n    1AR      AR*****   1.000   2.000   3.000\n" BOX);
    assert_string_equal(gro->labels[0].atom_name, "AR");
    gro_free(gro);
}

static void test_nine_numbers_are_box_vectors(void **state)
{
    (void)state;
    struct gro *gro = must_read("t\n0\n1 2 3 0.12 0.13 0.21 0.23 0.31 0.32\n");
    const double expected[3][3] = {{1, 0.12, 0.13}, {0.21, 2, 0.23}, {0.31, 0.32, 3}};
    for (int i = 0; i < 9; i++)
        near(gro->box_nm[i / 3][i % 3], expected[i / 3][i % 3]);
    gro_free(gro);
}

static void test_later_frames_are_left_alone(void **state)
{
    (void)state;
    struct gro *gro = must_read("t\n1\n" ATOM1 "\n" BOX "second frame\nnonsense\n");
    assert_int_equal(gro->atom_count, 1);
    gro_free(gro);
}

static void test_a_false_count_is_an_error_not_an_allocation(void **state)
{
    (void)state;
    refuse("t\n9000000000000000000\n" ATOM1 "\n" ATOM1 "\n" ATOM1 "\n",
           "test.gro:6: the file ends where atom 4 of 9000000000000000000 was expected");
    refuse("t\n2\n" ATOM1 "\n" BOX, "test.gro:4: expected atom 2 of 2");
    refuse("t\n1\n" ATOM1 "\n" ATOM1 "\n" BOX, "test.gro:4: expected the box");
    refuse("t\n-1\n" BOX, "test.gro:2");
    refuse("t\n1 atom\n" ATOM1 "\n" BOX, "test.gro:2");
    refuse("t\n99999999999999999999\n" BOX, "test.gro:2");
    refuse("t\n", "number of atoms");
    refuse("", "title");
}

static void test_coordinates_have_to_be_finite_numbers_in_their_columns(void **state)
{
    (void)state;
    refuse("t\n1\n    1AR      AR    1   1.000   1.000     nan\n" BOX, "test.gro:3");
    refuse("t\n2\n" ATOM1 "\n    1AR      AR    1   1.000     inf   1.000\n" BOX, "test.gro:4");
    refuse("t\n2\n" ATOM1 "\n    1AR      AR    1   1.0e9991.e999   1.000\n" BOX, "test.gro:4");
    refuse("t\n2\n" ATOM1 "\n    1AR      AR    1   1.000 0x1.000   1.000\n" BOX, "test.gro:4");
    // Shifted by four: the columns cut through the numbers.
    refuse("t\n2\n" ATOM1 "\n    1AR      AR    1       1.000   2.000   3.000\n" BOX, "test.gro:4");
    refuse("t\n2\n" ATOM1 "\n    1AR      AR    1   1.000   2.000\n" BOX, "test.gro:4");
    refuse("t\n1\n    1AR      AR    1   1.000   2.00   3.000\n" BOX, "decimal points");
    refuse("t\n1\n    1AR      AR    1   1       2       3\n" BOX, "decimal points");
}

static void test_velocities_have_to_be_three_finite_numbers(void **state)
{
    (void)state;
    refuse("t\n1\n" ATOM1 "  0.1000  0.1000\n" BOX, "velocities");
    refuse("t\n1\n" ATOM1 "  0.1000  0.1000     nan\n" BOX, "velocities");
}

static void test_the_box_is_three_or_nine_finite_numbers(void **state)
{
    (void)state;
    refuse("t\n0\n1 2\n", "found 2");
    refuse("t\n0\n1 2 3 4\n", "found 4");
    refuse("t\n0\n1 2 3 4 5 6 7 8 9 10\n", "test.gro:3");
    refuse("t\n0\n1 2 nan\n", "test.gro:3");
    refuse("t\n0\n1 -2 3\n", "negative");
}

static void test_a_binary_file_is_refused(void **state)
{
    (void)state;
    static const char bytes[] = "t\n1\n\0\0\0\0";
    FILE *stream = fmemopen((void *)(uintptr_t)bytes, sizeof bytes, "r");
    struct gro *gro = poison;
    assert_int_equal(gro_read_stream(stream, "test.gro", &gro), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "test.gro:3"));
    fclose(stream);
}

static void test_a_missing_file_gives_its_errno(void **state)
{
    (void)state;
    struct gro *gro = poison;
    assert_int_equal(gro_read("/nowhere/x.gro", &gro), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "/nowhere/x.gro"));
}

// ---- writing

struct folder {
    char path[64], file[96];
};

static int make_folder(void **state)
{
    static struct folder folder;
    snprintf(folder.path, sizeof folder.path, "/tmp/leat_gro_XXXXXX");
    if (!mkdtemp(folder.path))
        return -1;
    snprintf(folder.file, sizeof folder.file, "%s/out.gro", folder.path);
    *state = &folder;
    return 0;
}

static int count_entries(const struct folder *folder, bool remove_them)
{
    int count = 0;
    DIR *directory = opendir(folder->path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
        if (remove_them)
            unlink(path);
        count++;
    }
    if (directory)
        closedir(directory);
    return count;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    count_entries(folder, true);
    return rmdir(folder->path);
}

static struct gro *make_system(int64_t atoms)
{
    struct gro *gro = calloc(1, sizeof *gro);
    assert_non_null(gro);
    size_t n = (size_t)atoms;
    snprintf(gro->title, sizeof gro->title, "made");
    gro->atom_count = atoms;
    gro->labels = calloc(n, sizeof *gro->labels);
    gro->x_nm = calloc(3 * n, sizeof(double));
    gro->v_nm_ps = calloc(3 * n, sizeof(double));
    gro->has_velocities = true;
    assert_true(gro->labels && gro->x_nm && gro->v_nm_ps);
    for (size_t i = 0; i < n; i++) {
        gro->labels[i] = (struct gro_label){(int)i + 1, "RES", "AT"};
        for (size_t axis = 0; axis < 3; axis++) {
            gro->x_nm[3 * i + axis] = (double)(i % 1000) + 0.1 * (double)axis - 0.123456789;
            gro->v_nm_ps[3 * i + axis] = 0.01 * (double)axis - 0.00123456789;
        }
    }
    for (int axis = 0; axis < 3; axis++)
        gro->box_nm[axis][axis] = 4 + axis;
    return gro;
}

static void write_and_compare(const struct folder *folder, int decimals)
{
    struct gro *gro = make_system(5), *back = poison;
    gro->box_nm[2][0] = 1.5;
    assert_int_equal(gro_write(folder->file, gro, decimals), 0);
    assert_int_equal(gro_read(folder->file, &back), 0);
    double step = pow(10, -decimals);
    assert_int_equal(back->atom_count, 5);
    for (int i = 0; i < 15; i++) {
        assert_true(fabs(back->x_nm[i] - gro->x_nm[i]) <= 0.51 * step);
        assert_true(fabs(back->v_nm_ps[i] - gro->v_nm_ps[i]) <= 0.051 * step);
    }
    for (int i = 0; i < 9; i++)
        near(back->box_nm[i / 3][i % 3], gro->box_nm[i / 3][i % 3]);
    assert_string_equal(back->labels[4].atom_name, "AT");
    assert_string_equal(back->title, "made");
    gro_free(back);
    gro_free(gro);
}

static void test_what_is_written_reads_back(void **state)
{
    for (int decimals = 1; decimals <= 12; decimals++)
        write_and_compare(*state, decimals);
    assert_int_equal(count_entries(*state, false), 1);
}

static void test_writes_the_usual_columns(void **state)
{
    const struct folder *folder = *state;
    struct gro *gro = make_system(1);
    for (int axis = 0; axis < 3; axis++)
        gro->x_nm[axis] = -1.5 - axis;
    assert_int_equal(gro_write(folder->file, gro, 3), 0);
    char text[400] = "";
    FILE *file = fopen(folder->file, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text, "made\n    1\n"
                              "    1RES     AT    1  -1.500  -2.500  -3.500"
                              " -0.0012  0.0088  0.0188\n"
                              "   4.00000   5.00000   6.00000\n");
    gro_free(gro);
}

static void test_numbers_wrap_in_large_files(void **state)
{
    const struct folder *folder = *state;
    struct gro *gro = make_system(100001), *back = poison;
    assert_int_equal(gro_write(folder->file, gro, 3), 0);
    assert_int_equal(gro_read(folder->file, &back), 0);
    assert_int_equal(back->atom_count, 100001);
    assert_int_equal(back->labels[99998].residue, 99999);
    assert_int_equal(back->labels[99999].residue, 0);
    assert_int_equal(back->labels[100000].residue, 1);
    gro_free(back);
    gro_free(gro);
}

static void refuse_to_write(const struct folder *folder, const struct gro *gro)
{
    assert_int_equal(gro_write(folder->file, gro, 3), -ERANGE);
    assert_non_null(strstr(leat_error_detail(), "atom 2 "));
    struct gro *old = poison;
    assert_int_equal(gro_read(folder->file, &old), 0);
    assert_int_equal(old->atom_count, 5);
    gro_free(old);
    assert_int_equal(count_entries(folder, false), 1);
}

static void test_a_value_too_wide_leaves_the_old_file(void **state)
{
    const struct folder *folder = *state;
    struct gro *gro = make_system(5), *bad = make_system(2);
    assert_int_equal(gro_write(folder->file, gro, 3), 0);
    bad->x_nm[4] = 12345.678;
    refuse_to_write(folder, bad);
    bad->x_nm[4] = NAN;
    refuse_to_write(folder, bad);
    bad->x_nm[4] = 0;
    bad->v_nm_ps[3] = -1000;
    refuse_to_write(folder, bad);
    gro_free(gro);
    gro_free(bad);
}

static void test_decimals_have_limits(void **state)
{
    const struct folder *folder = *state;
    struct gro *gro = make_system(1);
    assert_int_equal(gro_write(folder->file, gro, 0), -EINVAL);
    assert_int_equal(gro_write(folder->file, gro, 16), -EINVAL);
    assert_int_equal(count_entries(folder, false), 0);
    gro_free(gro);
}

static void test_a_symbolic_link_stays_one(void **state)
{
    const struct folder *folder = *state;
    char link_path[160];
    snprintf(link_path, sizeof link_path, "%s/link.gro", folder->path);
    struct gro *gro = make_system(1), *back = poison;
    assert_int_equal(gro_write(folder->file, gro, 3), 0);
    assert_int_equal(symlink("out.gro", link_path), 0);
    gro->x_nm[0] = 7.125;
    assert_int_equal(gro_write(link_path, gro, 3), 0);
    struct stat status;
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(gro_read(folder->file, &back), 0);
    near(back->x_nm[0], 7.125);
    gro_free(back);
    gro_free(gro);
}

static void test_a_device_is_written_and_not_replaced(void **state)
{
    (void)state;
    struct gro *gro = make_system(1);
    assert_int_equal(gro_write("/dev/null", gro, 3), 0);
    struct stat status;
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    gro_free(gro);
}

static void test_a_missing_directory_gives_its_errno(void **state)
{
    (void)state;
    struct gro *gro = make_system(1);
    assert_int_equal(gro_write("/nowhere/x.gro", gro, 3), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), "/nowhere/x.gro"));
    gro_free(gro);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_column),
        cmocka_unit_test(test_takes_the_width_from_the_decimal_points),
        cmocka_unit_test(test_touching_columns_are_told_apart),
        cmocka_unit_test(test_atoms_without_velocities_among_others_have_zero),
        cmocka_unit_test(test_dos_line_ends_and_a_missing_last_one_are_fine),
        cmocka_unit_test(test_atom_numbers_are_not_looked_at),
        cmocka_unit_test(test_nine_numbers_are_box_vectors),
        cmocka_unit_test(test_later_frames_are_left_alone),
        cmocka_unit_test(test_a_false_count_is_an_error_not_an_allocation),
        cmocka_unit_test(test_coordinates_have_to_be_finite_numbers_in_their_columns),
        cmocka_unit_test(test_velocities_have_to_be_three_finite_numbers),
        cmocka_unit_test(test_the_box_is_three_or_nine_finite_numbers),
        cmocka_unit_test(test_a_binary_file_is_refused),
        cmocka_unit_test(test_a_missing_file_gives_its_errno),
        cmocka_unit_test_setup_teardown(test_what_is_written_reads_back, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_writes_the_usual_columns, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_numbers_wrap_in_large_files, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_value_too_wide_leaves_the_old_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_decimals_have_limits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_symbolic_link_stays_one, make_folder, remove_folder),
        cmocka_unit_test(test_a_device_is_written_and_not_replaced),
        cmocka_unit_test(test_a_missing_directory_gives_its_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
