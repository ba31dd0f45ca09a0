// SPDX-License-Identifier: Apache-2.0
// What `leat bench p2p --tune --write` does to a settings file: one behaviour a test.
//
// Advantage: the file before and after stand side by side. Disadvantage: the source is included,
// since the command is no library.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../cli/bench_settings.c"
#include "leat/leat.h"

struct place {
    char directory[32], file[64], link[64], nested[64];
};

static struct place place;

static int enter(void **state)
{
    (void)state;
    snprintf(place.directory, sizeof place.directory, "bench_settings_XXXXXX");
    if (!mkdtemp(place.directory))
        return -1;
    snprintf(place.file, sizeof place.file, "%s/leat.conf", place.directory);
    snprintf(place.link, sizeof place.link, "%s/link", place.directory);
    snprintf(place.nested, sizeof place.nested, "%s/a/b/leat.conf", place.directory);
    return 0;
}

// Nothing but what the tests make may lie there, so a file left behind fails the last rmdir.
static int leave(void **state)
{
    (void)state;
    char path[64];
    unlink(place.file);
    unlink(place.link);
    unlink(place.nested);
    snprintf(path, sizeof path, "%s/a/b", place.directory);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a", place.directory);
    rmdir(path);
    return rmdir(place.directory);
}

static void write_file(const char *text)
{
    FILE *file = fopen(place.file, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *path, const char *text)
{
    char got[1024] = "poison";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    got[fread(got, 1, sizeof got - 1, file)] = 0;
    fclose(file);
    assert_string_equal(got, text);
}

static void set(const char *path, const char *value)
{
    if (bench_settings_set(path, "LEAT_MSG_EAGER", value))
        fail_msg("%s", leat_error_detail());
}

static void a_missing_file_and_its_directories_are_made(void **state)
{
    (void)state;
    set(place.nested, "16K");
    assert_file(place.nested, "LEAT_MSG_EAGER = 16K\n");
}

static void a_new_line_goes_to_the_end(void **state)
{
    (void)state;
    write_file("# mine\n\nLEAT_SPIN = 5\n");
    set(place.file, "16K");
    assert_file(place.file, "# mine\n\nLEAT_SPIN = 5\nLEAT_MSG_EAGER = 16K\n");
}

static void a_last_line_without_an_end_gets_one(void **state)
{
    (void)state;
    write_file("LEAT_SPIN = 5");
    set(place.file, "16K");
    assert_file(place.file, "LEAT_SPIN = 5\nLEAT_MSG_EAGER = 16K\n");
}

static void a_line_is_changed_where_it_stands_and_keeps_its_comment(void **state)
{
    (void)state;
    write_file("LEAT_SPIN = 5 # five\n  LEAT_MSG_EAGER=32K#why\nLEAT_MSG_SHARE = 64K\n");
    set(place.file, "16K");
    assert_file(place.file, "LEAT_SPIN = 5 # five\nLEAT_MSG_EAGER = 16K #why\n"
                            "LEAT_MSG_SHARE = 64K\n");
}

static void a_longer_name_and_a_comment_are_other_lines(void **state)
{
    (void)state;
    write_file("LEAT_MSG_EAGERNESS = 1\n# LEAT_MSG_EAGER = 8K\n");
    set(place.file, "16K");
    assert_file(place.file,
                "LEAT_MSG_EAGERNESS = 1\n# LEAT_MSG_EAGER = 8K\nLEAT_MSG_EAGER = 16K\n");
}

// The last of two lines counts, so both have to be right.
static void a_line_that_is_there_twice_is_changed_twice(void **state)
{
    (void)state;
    write_file("LEAT_MSG_EAGER = 1K\nLEAT_MSG_EAGER = 2K\n");
    set(place.file, "16K");
    assert_file(place.file, "LEAT_MSG_EAGER = 16K\nLEAT_MSG_EAGER = 16K\n");
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    struct stat status;
    write_file("LEAT_SPIN = 5\n");
    assert_int_equal(symlink("leat.conf", place.link), 0);
    set(place.link, "16K");
    assert_int_equal(lstat(place.link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_file(place.file, "LEAT_SPIN = 5\nLEAT_MSG_EAGER = 16K\n");
}

static void the_mode_of_the_file_stays(void **state)
{
    (void)state;
    struct stat status;
    write_file("LEAT_SPIN = 5\n");
    assert_int_equal(chmod(place.file, 0640), 0);
    set(place.file, "16K");
    assert_int_equal(stat(place.file, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
}

static void a_directory_in_its_place_is_an_error_that_names_it(void **state)
{
    (void)state;
    assert_int_equal(bench_settings_set(place.directory, "LEAT_MSG_EAGER", "16K"), -EISDIR);
    assert_non_null(strstr(leat_error_detail(), place.directory));
}

static void a_file_where_a_directory_has_to_be_is_an_error(void **state)
{
    (void)state;
    char path[96];
    write_file("LEAT_SPIN = 5\n");
    snprintf(path, sizeof path, "%s/leat.conf", place.file);
    assert_int_equal(bench_settings_set(path, "LEAT_MSG_EAGER", "16K"), -ENOTDIR);
    assert_file(place.file, "LEAT_SPIN = 5\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_missing_file_and_its_directories_are_made),
        TEST(a_new_line_goes_to_the_end),
        TEST(a_last_line_without_an_end_gets_one),
        TEST(a_line_is_changed_where_it_stands_and_keeps_its_comment),
        TEST(a_longer_name_and_a_comment_are_other_lines),
        TEST(a_line_that_is_there_twice_is_changed_twice),
        TEST(a_link_stays_a_link),
        TEST(the_mode_of_the_file_stays),
        TEST(a_directory_in_its_place_is_an_error_that_names_it),
        TEST(a_file_where_a_directory_has_to_be_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
