// SPDX-License-Identifier: Apache-2.0
// Settings: which source wins, what is refused and with which words, what is warned about.

#define _GNU_SOURCE
#include "core/config.h"
#include "core/log.h"

#include <leat/leat.h>

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// ---- An environment of its own for each test ----
struct place {
    char directory[64], file[96];
};

static struct place place;

// Clears every LEAT_ variable and points HOME at an empty directory.
static int enter(void **state)
{
    (void)state;
    for (char **entry = environ; *entry;) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "LEAT_", 5) != 0)
            entry++;
        else if (unsetenv(name))
            return -1;
    }
    snprintf(place.directory, sizeof place.directory, "config_test_XXXXXX");
    if (!mkdtemp(place.directory))
        return -1;
    snprintf(place.file, sizeof place.file, "%s/settings", place.directory);
    return setenv("HOME", place.directory, 1);
}

static int leave(void **state)
{
    (void)state;
    unlink(place.file);
    return rmdir(place.directory);
}

static void write_file_bytes(const char *text, size_t bytes)
{
    FILE *file = fopen(place.file, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    setenv("LEAT_CONFIG", place.file, 1);
}

static void write_file(const char *text)
{
    write_file_bytes(text, strlen(text));
}

static struct config load(const leat_options *options)
{
    struct config config;
    memset(&config, 0xa5, sizeof config);
    if (leat_config_load(options, 0, &config))
        fail_msg("%s", leat_error_detail());
    return config;
}

// The load fails with `error`, the detail holds all words, and nothing was written.
static void expect_refusal(const leat_options *options, int error, const char *const words[])
{
    struct config config, untouched;
    memset(&config, 0xa5, sizeof config);
    memset(&untouched, 0xa5, sizeof untouched);
    assert_int_equal(leat_config_load(options, 0, &config), error);
    for (size_t i = 0; words[i]; i++)
        if (!strstr(leat_error_detail(), words[i]))
            fail_msg("\"%s\" not in \"%s\"", words[i], leat_error_detail());
    assert_memory_equal(&config, &untouched, sizeof config);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

// What a load by `rank` prints on stderr.
static void capture_load(int rank, char *text, size_t bytes)
{
    struct config config;
    FILE *caught = tmpfile();
    assert_non_null(caught);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(caught), STDERR_FILENO);
    int error = leat_config_load(NULL, rank, &config);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(caught);
    size_t got = fread(text, 1, bytes - 1, caught);
    text[got] = '\0';
    fclose(caught);
    if (error)
        fail_msg("%s", leat_error_detail());
}

// ---- Sources ----

static void test_defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct config config = load(NULL);
    assert_true(config.timeout_s == 30.0);
    assert_true(config.arena_bytes == UINT64_C(4) << 30);
    assert_string_equal(config.paths, "auto");
    assert_int_equal(config.block_count, 1);
    assert_true(config.spin_ns == 20000);
    assert_int_equal(config.log_level, LOG_WARN);
    for (int id = 0; id < SETTING_COUNT; id++)
        assert_int_equal(config.source[id], FROM_DEFAULT);
}

static void test_argument_beats_environment_beats_file_beats_default(void **state)
{
    (void)state;
    write_file("LEAT_TIMEOUT = 2\nLEAT_ARENA = 32M\nLEAT_BLOCKS = 3\n");
    setenv("LEAT_TIMEOUT", "4", 1);
    setenv("LEAT_ARENA", "64M", 1);
    const leat_options options = {.size = sizeof options, .timeout_s = 8};
    struct config config = load(&options);
    assert_true(config.timeout_s == 8.0);
    assert_true(config.arena_bytes == UINT64_C(64) << 20);
    assert_int_equal(config.block_count, 3);
    assert_true(config.spin_ns == 20000);
    assert_int_equal(config.source[SETTING_TIMEOUT], FROM_ARGUMENT);
    assert_int_equal(config.source[SETTING_ARENA], FROM_ENVIRONMENT);
    assert_int_equal(config.source[SETTING_BLOCKS], FROM_FILE);
    assert_int_equal(config.source[SETTING_SPIN], FROM_DEFAULT);
}

static void test_zero_members_mean_the_setting(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "require:shm", 1);
    setenv("LEAT_BLOCKS", "7", 1);
    const leat_options options = {.size = sizeof options, .paths = NULL};
    struct config config = load(&options);
    assert_string_equal(config.paths, "require:shm");
    assert_int_equal(config.block_count, 7);
    assert_int_equal(config.source[SETTING_BLOCKS], FROM_ENVIRONMENT);
}

static void test_members_beyond_an_older_size_are_not_read(void **state)
{
    (void)state;
    const leat_options options = {.size = offsetof(leat_options, paths),
                                  .timeout_s = 5,
                                  .paths = "no rule at all",
                                  .block_count = -1};
    struct config config = load(&options);
    assert_true(config.timeout_s == 5.0);
    assert_string_equal(config.paths, "auto");
    assert_int_equal(config.block_count, 1);
}

static void test_a_variable_set_to_nothing_is_not_set(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "", 1);
    setenv("LEAT_CONFIG", "", 1);
    struct config config = load(NULL);
    assert_true(config.timeout_s == 30.0);
    assert_int_equal(config.source[SETTING_TIMEOUT], FROM_DEFAULT);
}

static void test_the_default_file_lies_in_the_home_directory(void **state)
{
    (void)state;
    char path[200], directory[160], expected[200];
    snprintf(directory, sizeof directory, "%s/.config", place.directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(directory, sizeof directory, "%s/.config/leat", place.directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(expected, sizeof expected, "%s/leat.conf", directory);
    write_file("LEAT_BLOCKS = 5\n");
    unsetenv("LEAT_CONFIG");
    assert_int_equal(rename(place.file, expected), 0);
    struct config config;
    int error = leat_config_load(NULL, 0, &config);
    bool found = leat_config_file(path, sizeof path);
    unlink(expected);
    rmdir(directory);
    *strrchr(directory, '/') = '\0';
    rmdir(directory);
    assert_int_equal(error, 0);
    assert_true(found);
    assert_string_equal(path, expected);
    assert_int_equal(config.block_count, 5);
    assert_int_equal(config.source[SETTING_BLOCKS], FROM_FILE);
}

// ---- The file ----

static void test_comments_blanks_and_white_space_in_the_file(void **state)
{
    (void)state;
    write_file("# leat\n\n \t\n  LEAT_SPIN=7 # short\n\tLEAT_LOG\t=\terror\r\nLEAT_SPIN = 9");
    struct config config = load(NULL);
    assert_true(config.spin_ns == 9000);
    assert_int_equal(config.log_level, LOG_ERROR);
}

static void test_a_malformed_line_is_named_by_file_and_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"LEAT_TIMEOUT 3", "timeout = 3", "= 3", "LEAT_BLOCKS ="};
    char where[128];
    snprintf(where, sizeof where, "%s:3", place.file);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[128];
        snprintf(text, sizeof text, "# one\nLEAT_SPIN = 1\n%s\n", lines[i]);
        write_file(text);
        expect_refusal(NULL, -EINVAL, WORDS(where));
    }
}

static void test_a_zero_byte_in_the_file_is_refused(void **state)
{
    (void)state;
    write_file_bytes("LEAT_SPIN = 1\n\0\n", 16);
    expect_refusal(NULL, -EINVAL, WORDS(":2", "zero byte"));
}

static void test_a_bad_value_in_the_file_is_refused_though_overridden(void **state)
{
    (void)state;
    write_file("LEAT_SPIN = 1\nLEAT_BLOCKS = 0\n");
    setenv("LEAT_BLOCKS", "2", 1);
    expect_refusal(NULL, -EINVAL, WORDS("LEAT_BLOCKS", "settings:2", "\"0\"", "1 to 256"));
}

static void test_a_missing_named_file_is_an_error(void **state)
{
    (void)state;
    setenv("LEAT_CONFIG", place.file, 1);
    expect_refusal(NULL, -ENOENT, WORDS("LEAT_CONFIG", place.file));
}

static void test_a_directory_as_the_file_is_an_error(void **state)
{
    (void)state;
    setenv("LEAT_CONFIG", place.directory, 1);
    expect_refusal(NULL, -EISDIR, WORDS(place.directory));
}

static void test_a_pipe_as_the_file_is_refused_without_waiting(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(place.file, 0600), 0);
    setenv("LEAT_CONFIG", place.file, 1);
    expect_refusal(NULL, -EINVAL, WORDS(place.file, "no regular file"));
}

static void test_a_line_without_an_end_is_refused(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    text[1] = '\n';
    text[0] = '#';
    write_file_bytes(text, sizeof text);
    expect_refusal(NULL, -EINVAL, WORDS("settings:2:", "4096"));
}

// ---- Values ----

static void test_values_at_the_ends_of_their_ranges(void **state)
{
    (void)state;
    setenv("LEAT_TIMEOUT", "0.001", 1);
    setenv("LEAT_ARENA", "16M", 1);
    setenv("LEAT_BLOCKS", "256", 1);
    setenv("LEAT_SPIN", "0", 1);
    struct config config = load(NULL);
    assert_true(config.timeout_s == 0.001);
    assert_true(config.arena_bytes == UINT64_C(16) << 20);
    assert_int_equal(config.block_count, 256);
    assert_true(config.spin_ns == 0);
    setenv("LEAT_TIMEOUT", "86400", 1);
    setenv("LEAT_ARENA", "1T", 1);
    setenv("LEAT_BLOCKS", "1", 1);
    setenv("LEAT_SPIN", "100000", 1);
    config = load(NULL);
    assert_true(config.timeout_s == 86400.0);
    assert_true(config.arena_bytes == UINT64_C(1) << 40);
    assert_int_equal(config.block_count, 1);
    assert_true(config.spin_ns == 100000000);
}

static void test_values_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"LEAT_TIMEOUT", "0"},
        {"LEAT_TIMEOUT", "-1"},
        {"LEAT_TIMEOUT", "86400.1"},
        {"LEAT_TIMEOUT", "nan"},
        {"LEAT_TIMEOUT", "inf"},
        {"LEAT_TIMEOUT", "0x10"},
        {"LEAT_TIMEOUT", "30s"},
        {"LEAT_TIMEOUT", "1e999"},
        {"LEAT_TIMEOUT", "."},
        {"LEAT_ARENA", "16777215"},
        {"LEAT_ARENA", "1025G"},
        {"LEAT_ARENA", "4GB"},
        {"LEAT_ARENA", "-4G"},
        {"LEAT_ARENA", "G"},
        {"LEAT_ARENA", "99999999999T"},
        {"LEAT_BLOCKS", "0"},
        {"LEAT_BLOCKS", "257"},
        {"LEAT_BLOCKS", "1.5"},
        {"LEAT_BLOCKS", "2e0"},
        {"LEAT_BLOCKS", "two"},
        {"LEAT_SPIN", "-1"},
        {"LEAT_SPIN", "100001"},
        {"LEAT_COMPAT", "maybe"},
        {"LEAT_FILE_DIRECT", "1"},
        {"LEAT_LOG", "2"},
        {"LEAT_LOG", "Warn"},
        {"LEAT_PATHS", "fast"},
        {"LEAT_PATHS", "require:"},
        {"LEAT_PATHS", "forbid:shm,"},
        {"LEAT_PATHS", "require:shm,peer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv(bad[i][0], bad[i][1], 1);
        expect_refusal(NULL, -EINVAL, WORDS(bad[i][0], "environment"));
        unsetenv(bad[i][0]);
    }
}

static void test_options_out_of_range_are_refused_by_member(void **state)
{
    (void)state;
    leat_options options = {.size = sizeof options, .timeout_s = -1};
    expect_refusal(&options, -EINVAL, WORDS("leat_options.timeout_s", "-1"));
    options = (leat_options){.size = sizeof options, .timeout_s = NAN};
    expect_refusal(&options, -EINVAL, WORDS("leat_options.timeout_s"));
    options = (leat_options){.size = sizeof options, .arena_bytes = 4096};
    expect_refusal(&options, -EINVAL, WORDS("leat_options.arena_bytes", "4096"));
    options = (leat_options){.size = sizeof options, .block_count = -1};
    expect_refusal(&options, -EINVAL, WORDS("leat_options.block_count"));
    options = (leat_options){.size = sizeof options, .paths = "require:smh"};
    expect_refusal(&options, -EINVAL, WORDS("leat_options", "smh", "did you mean shm"));
    options = (leat_options){.size = 0};
    expect_refusal(&options, -EINVAL, WORDS("leat_options.size"));
}

static void test_every_path_of_the_table_can_be_named(void **state)
{
    (void)state;
    setenv("LEAT_PATHS", "forbid:self,peer,shm,nvshmem,fabric,hostcopy", 1);
    struct config config = load(NULL);
    assert_string_equal(config.paths, "forbid:self,peer,shm,nvshmem,fabric,hostcopy");
}

static void test_a_rule_that_does_not_fit_is_refused_not_cut(void **state)
{
    (void)state;
    char rule[256];
    size_t used = (size_t)snprintf(rule, sizeof rule, "forbid:shm");
    while (used < sizeof((struct config *)0)->paths)
        used += (size_t)snprintf(rule + used, sizeof rule - used, ",shm");
    setenv("LEAT_PATHS", rule, 1);
    expect_refusal(NULL, -EINVAL, WORDS("LEAT_PATHS", "characters"));
}

static void test_bytes_with_and_without_suffix(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"1K", 1024},
                {"2k", 2048},
                {"3MiB", UINT64_C(3) << 20},
                {"4G", UINT64_C(4) << 30},
                {"1T", UINT64_C(1) << 40},
                {"18446744073709551615", UINT64_MAX},
                {"16777215T", UINT64_C(16777215) << 40}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 0xa5a5;
        assert_int_equal(leat_parse_bytes(good[i].text, &bytes), 0);
        assert_true(bytes == good[i].bytes);
    }
    static const char *const bad[] = {"",     "K",     "-1",       "+1",
                                      "1.5G", "1KB",   "1 K",      "1Ki",
                                      "1iB",  "1KiBs", " 1",       "18446744073709551616",
                                      "0x1",  "1P",    "16777216T"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 0xa5a5;
        if (leat_parse_bytes(bad[i], &bytes) != -EINVAL)
            fail_msg("\"%s\" was read as bytes", bad[i]);
        assert_true(bytes == 0xa5a5);
    }
}

// ---- Unknown names ----

static void test_an_unknown_variable_warns_with_the_nearest_name(void **state)
{
    (void)state;
    char text[1024];
    setenv("LEAT_TIMOUT", "3", 1);
    capture_load(0, text, sizeof text);
    assert_non_null(strstr(text, "leat[0]: warning: LEAT_TIMOUT"));
    assert_non_null(strstr(text, "did you mean LEAT_TIMEOUT?"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void test_an_unknown_name_in_the_file_warns_with_its_line(void **state)
{
    (void)state;
    char text[1024];
    write_file("LEAT_SPIN = 1\nLEAT_ARENAS = 1G\n");
    capture_load(0, text, sizeof text);
    assert_non_null(strstr(text, "LEAT_ARENAS"));
    assert_non_null(strstr(text, "settings:2"));
    assert_non_null(strstr(text, "did you mean LEAT_ARENA?"));
}

static void test_what_resembles_nothing_gets_no_suggestion(void **state)
{
    (void)state;
    char text[1024];
    setenv("LEAT_XYZZYXYZZY", "1", 1);
    capture_load(0, text, sizeof text);
    assert_non_null(strstr(text, "LEAT_XYZZYXYZZY"));
    assert_null(strstr(text, "did you mean"));
}

static void test_only_rank_0_warns(void **state)
{
    (void)state;
    char text[1024];
    setenv("LEAT_TIMOUT", "3", 1);
    capture_load(1, text, sizeof text);
    assert_string_equal(text, "");
    capture_load(-1, text, sizeof text);
    assert_string_equal(text, "");
}

static void test_the_log_level_silences_the_warning(void **state)
{
    (void)state;
    char text[1024];
    setenv("LEAT_TIMOUT", "3", 1);
    setenv("LEAT_LOG", "error", 1);
    capture_load(0, text, sizeof text);
    assert_string_equal(text, "");
}

static void test_the_launchers_names_do_not_warn(void **state)
{
    (void)state;
    char text[1024];
    setenv("LEAT_RANK", "0", 1);
    setenv("LEAT_SIZE", "1", 1);
    setenv("LEAT_JOB_FD", "3", 1);
    write_file("");
    capture_load(0, text, sizeof text);
    assert_string_equal(text, "");
}

static void test_very_long_unknown_names_do_no_harm(void **state)
{
    (void)state;
    char name[1024], text[4096];
    memset(name, 'A', sizeof name - 1);
    memcpy(name, "LEAT_", 5);
    name[sizeof name - 1] = '\0';
    setenv(name, "1", 1);
    capture_load(0, text, sizeof text);
    unsetenv(name);
    assert_non_null(strstr(text, "LEAT_AAAA"));
}

static void test_name_distances(void **state)
{
    (void)state;
    char far[80];
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    assert_int_equal(leat_name_distance("", ""), 0);
    assert_int_equal(leat_name_distance("grid", "grid"), 0);
    assert_int_equal(leat_name_distance("grid", ""), 4);
    assert_int_equal(leat_name_distance("gird", "grid"), 1);
    assert_int_equal(leat_name_distance("gri", "grid"), 1);
    assert_int_equal(leat_name_distance("grid", "gride"), 1);
    assert_int_equal(leat_name_distance("kitten", "sitting"), 3);
    assert_int_equal(leat_name_distance(far, "grid"), LEAT_NAME_FAR);
    assert_int_equal(leat_name_distance("grid", far), LEAT_NAME_FAR);
}

// ---- Printing ----
static void test_printed_values_can_be_read_again(void **state)
{
    (void)state;
    static const char *const values[SETTING_COUNT] = {[SETTING_TIMEOUT] = "0.25",
                                                      [SETTING_ARENA] = "1536M",
                                                      [SETTING_PATHS] = "forbid:shm,peer",
                                                      [SETTING_FABRIC] = "net@10.0.0.1",
                                                      [SETTING_DEVICE] = "cuda:1,0",
                                                      [SETTING_BLOCKS] = "12",
                                                      [SETTING_PACKETS] = "4096",
                                                      [SETTING_BULK] = "20000",
                                                      [SETTING_SPIN] = "0",
                                                      [SETTING_LOG] = "debug",
                                                      [SETTING_TRACE] = "some.json",
                                                      [SETTING_MSG_BUDGET] = "48M",
                                                      [SETTING_MSG_PEERS] = "40",
                                                      [SETTING_MSG_EAGER] = "16K",
                                                      [SETTING_MSG_SHARE] = "2G",
                                                      [SETTING_COMPAT] = "off",
                                                      [SETTING_CUFILE_MIN] = "64K",
                                                      [SETTING_FILE_THREADS] = "3",
                                                      [SETTING_FILE_TASK] = "8M",
                                                      [SETTING_FILE_BUFFER] = "2M",
                                                      [SETTING_FILE_BUFFERS] = "6",
                                                      [SETTING_FILE_DIRECT] = "on",
                                                      [SETTING_FILE_GAP] = "0",
                                                      [SETTING_FILE_MAPPED_CHUNK] = "16M"};
    for (int id = 0; id < SETTING_COUNT; id++)
        setenv(leat_settings[id].name, values[id], 1);
    struct config config = load(NULL);
    for (int id = 0; id < SETTING_COUNT; id++) {
        char text[160] = "poison";
        leat_config_print(&config, (enum setting_id)id, text, sizeof text);
        assert_string_equal(text, values[id]);
    }
}

static void test_odd_byte_counts_print_in_full(void **state)
{
    (void)state;
    char text[64] = "poison";
    setenv("LEAT_ARENA", "16777217", 1);
    struct config config = load(NULL);
    leat_config_print(&config, SETTING_ARENA, text, sizeof text);
    assert_string_equal(text, "16777217");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_defaults_are_those_of_the_table),
        CASE(test_argument_beats_environment_beats_file_beats_default),
        CASE(test_zero_members_mean_the_setting),
        CASE(test_members_beyond_an_older_size_are_not_read),
        CASE(test_a_variable_set_to_nothing_is_not_set),
        CASE(test_the_default_file_lies_in_the_home_directory),
        CASE(test_comments_blanks_and_white_space_in_the_file),
        CASE(test_a_malformed_line_is_named_by_file_and_line),
        CASE(test_a_zero_byte_in_the_file_is_refused),
        CASE(test_a_bad_value_in_the_file_is_refused_though_overridden),
        CASE(test_a_missing_named_file_is_an_error),
        CASE(test_a_directory_as_the_file_is_an_error),
        CASE(test_a_pipe_as_the_file_is_refused_without_waiting),
        CASE(test_a_line_without_an_end_is_refused),
        CASE(test_values_at_the_ends_of_their_ranges),
        CASE(test_values_out_of_range_are_refused_by_name),
        CASE(test_options_out_of_range_are_refused_by_member),
        CASE(test_every_path_of_the_table_can_be_named),
        CASE(test_a_rule_that_does_not_fit_is_refused_not_cut),
        CASE(test_bytes_with_and_without_suffix),
        CASE(test_an_unknown_variable_warns_with_the_nearest_name),
        CASE(test_an_unknown_name_in_the_file_warns_with_its_line),
        CASE(test_what_resembles_nothing_gets_no_suggestion),
        CASE(test_only_rank_0_warns),
        CASE(test_the_log_level_silences_the_warning),
        CASE(test_the_launchers_names_do_not_warn),
        CASE(test_very_long_unknown_names_do_no_harm),
        CASE(test_name_distances),
        CASE(test_printed_values_can_be_read_again),
        CASE(test_odd_byte_counts_print_in_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
