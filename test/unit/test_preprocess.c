// SPDX-License-Identifier: Apache-2.0
// GROMACS' preprocessor: definitions, conditions, includes, joined lines, and where faults lie.
//
// Advantage: the lines that come out are compared as text. Disadvantage: needs a directory for the
// included files.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/leat.h"
#include "md/preprocess.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char path[64], sub[80];
};

static int make_folder(void **state)
{
    static struct folder folder;
    snprintf(folder.path, sizeof folder.path, "/tmp/leat_top_XXXXXX");
    if (!mkdtemp(folder.path))
        return -1;
    snprintf(folder.sub, sizeof folder.sub, "%s/sub", folder.path);
    *state = &folder;
    return mkdir(folder.sub, 0700);
}

static void empty_folder(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL) {
        char name[400];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(name);
    }
    if (directory)
        closedir(directory);
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    empty_folder(folder->sub);
    rmdir(folder->sub);
    empty_folder(folder->path);
    return rmdir(folder->path);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

// Appends "line|" for every line that comes out; the result of the last call.
static int drain(struct md_source *source, char *out, size_t size)
{
    char *text;
    int result;
    out[0] = 0;
    while ((result = md_source_next(source, &text)) > 0) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s|", text);
    }
    return result;
}

static int run(const char *text, const char *name, const char *define, const char *directories,
               char *out, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    struct md_source *source = NULL;
    int result = md_source_open(name, stream, define, directories, &source);
    if (result == 0)
        result = drain(source, out, size);
    md_source_close(source);
    fclose(stream);
    return result;
}

static void gives(const char *text, const char *define, const char *expected)
{
    char out[4000];
    if (run(text, "test.top", define, NULL, out, sizeof out))
        fail_msg("%s", leat_error_detail());
    assert_string_equal(out, expected);
}

static void refuse(const char *text, const char *word)
{
    char out[4000];
    assert_int_equal(run(text, "test.top", NULL, NULL, out, sizeof out), -EINVAL);
    if (!strstr(leat_error_detail(), word))
        fail_msg("'%s' is not in '%s'", word, leat_error_detail());
}

static void test_comments_and_blank_lines_vanish(void **state)
{
    (void)state;
    gives("; one\n\n  two ; three\n\t\r\nfour;\nfive", NULL, "two|four|five|");
    gives("", NULL, "");
}

static void test_a_backslash_joins_lines(void **state)
{
    (void)state;
    gives("a \\\nb\\  \nc\nd\\\n", NULL, "a  b c|d|");
    gives("a ; comment \\\n b\nc\n", NULL, "a|c|");
}

static void test_definitions_replace_whole_words(void **state)
{
    (void)state;
    gives("#define kb 1.5 2.5\n#define flag\n1 kb xkb kb_ kb,kb flag\n", NULL,
          "1 1.5 2.5 xkb kb_ 1.5 2.5,1.5 2.5 flag|");
    gives("#define A 1\n#define A 2\nA\n#undef A\nA\n", NULL, "2|A|");
}

static void test_definitions_apply_once_in_their_order(void **state)
{
    (void)state;
    gives("#define A B\n#define B C\nA B\n", NULL, "C C|");
    gives("#define B C\n#define A B\nA B\n", NULL, "B C|");
    gives("#define A A A\nA\n", NULL, "A A|");
    // Defined anew after #undef, A comes after B.
    gives("#define A B\n#define B C\n#undef A\n#define A B\nA\n", NULL, "B|");
}

static void test_options_define_with_and_without_text(void **state)
{
    (void)state;
    gives("ONE TWO\n#ifdef ONE\nyes\n#endif\n#ifdef THREE\nno\n#endif\n", "-DONE  -DTWO=2=2",
          "ONE 2=2|yes|");
    char out[100];
    assert_int_equal(run("", "test.top", "-UONE", NULL, out, sizeof out), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "'-UONE'"));
    assert_int_equal(run("", "test.top", "-D=1", NULL, out, sizeof out), -EINVAL);
    assert_int_equal(run("", "test.top", "-DA-B", NULL, out, sizeof out), -EINVAL);
}

static void test_conditions_nest(void **state)
{
    (void)state;
    static const char text[] = "#ifdef A\na\n# ifndef B ; comment\nnot b\n#else\nb\n#endif\n#else\n"
                               "not a\n#ifdef B\nhidden? no\n#else\n#ifdef A\nnever\n#else\nboth\n"
                               "#endif\n#endif\n#endif\nend\n";
    gives(text, "-DA", "a|not b|end|");
    gives(text, "-DA -DB", "a|b|end|");
    gives(text, "-DB", "not a|hidden? no|end|");
    gives(text, NULL, "not a|both|end|");
}

static void test_nothing_acts_inside_an_untaken_condition(void **state)
{
    (void)state;
    gives("#ifdef A\n#include \"nowhere\"\n#define B 1\n#error no\n#pragma "
          "x\n#ifdef\n#endif\n#endif\n"
          "B\n",
          NULL, "B|");
}

static void test_faults_name_their_line(void **state)
{
    (void)state;
    refuse("x\n#else\n", "test.top:2: #else without");
    refuse("#endif\n", "test.top:1: #endif without");
    refuse("a\n#ifdef A\n#ifdef B\n#endif\n", "test.top:2: the file ends inside");
    refuse("#ifdef A\n#else\n#else\n#endif\n", "a second #else for the condition of line 1");
    refuse("#ifdef A B\n#endif\n", "test.top:1");
    refuse("#ifdef\n#endif\n", "test.top:1");
    refuse("#ifdef A\n#if B\n#endif\n#endif\n", "test.top:2: #if is not known");
    refuse("\n#error stop here\n", "test.top:2: #error stop here");
    refuse("#pragma once\n", "unknown preprocessor line '#pragma'");
    refuse("#define\n", "test.top:1");
    refuse("#define F(x) x\n", "no macros with arguments");
    refuse("#define A 1 \\\n", "cannot go on");
    refuse("#undef\n", "test.top:1");
    refuse("#include nothing\n", "expected #include");
    refuse("#include \"open\n", "expected #include");
}

static void test_growth_by_replacement_is_bounded(void **state)
{
    (void)state;
    char text[4000] = "";
    for (int i = 0; i < 40; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "#define A%d A%d A%d\n", i, i + 1, i + 1);
    }
    strcat(text, "A0\n");
    refuse(text, "test.top:41: the line grows beyond");
}

static void test_includes_are_relative_to_their_file(void **state)
{
    const struct folder *folder = *state;
    write_file(folder->path, "main.top", "#include \"sub/a.itp\"\nmain\n");
    write_file(folder->sub, "a.itp", "#define FROM_A 7\n#include \"b.itp\" ; comment\na\n");
    write_file(folder->sub, "b.itp", "b FROM_A\n#ifdef FROM_A\n#include <../c.itp>\n#endif");
    write_file(folder->path, "c.itp", "c");
    char path[200], out[400];
    snprintf(path, sizeof path, "%s/main.top", folder->path);
    struct md_source *source = NULL;
    assert_int_equal(md_source_open(path, NULL, NULL, NULL, &source), 0);
    int result = drain(source, out, sizeof out);
    md_source_close(source);
    assert_int_equal(result, 0);
    assert_string_equal(out, "b 7|c|a|main|");
}

static void test_includes_are_looked_for_in_the_directories_given(void **state)
{
    const struct folder *folder = *state;
    write_file(folder->sub, "x.itp", "found\n");
    char out[400], directories[200];
    snprintf(directories, sizeof directories, ":/nowhere:%s:", folder->sub);
    assert_int_equal(run("#include \"x.itp\"\n", "test.top", NULL, directories, out, sizeof out),
                     0);
    assert_string_equal(out, "found|");
    assert_int_equal(setenv("GMXLIB", folder->sub, 1), 0);
    int result = run("#include \"x.itp\"\n", "test.top", NULL, NULL, out, sizeof out);
    unsetenv("GMXLIB");
    assert_int_equal(result, 0);
    assert_string_equal(out, "found|");
}

static void test_a_missing_include_names_where_it_was_looked_for(void **state)
{
    const struct folder *folder = *state;
    char out[400];
    assert_int_equal(
        run("\n#include \"x.itp\"\n", "dir/test.top", NULL, folder->sub, out, sizeof out), -ENOENT);
    const char *detail = leat_error_detail();
    assert_non_null(strstr(detail, "dir/test.top:2: include file 'x.itp' not found"));
    assert_non_null(strstr(detail, "searched dir, "));
    assert_non_null(strstr(detail, folder->sub));
    assert_non_null(strstr(detail, "/usr/share/gromacs/top"));
}

static void test_only_regular_files_are_included(void **state)
{
    const struct folder *folder = *state;
    char pipe_path[200], out[400];
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder->path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    // Opening the pipe would wait for a writer.
    assert_int_equal(run("#include \"pipe\"\n", "t", NULL, folder->path, out, sizeof out), -ENOENT);
    assert_int_equal(run("#include \"sub\"\n", "t", NULL, folder->path, out, sizeof out), -ENOENT);
}

static void test_a_loop_of_includes_ends(void **state)
{
    const struct folder *folder = *state;
    write_file(folder->path, "a.itp", "#include \"b.itp\"\n");
    write_file(folder->path, "b.itp", "\n#include \"a.itp\"\n");
    char out[400];
    assert_int_equal(run("#include \"a.itp\"\n", "t", NULL, folder->path, out, sizeof out),
                     -EINVAL);
    const char *detail = leat_error_detail();
    assert_non_null(strstr(detail, "32 deep"));
    assert_non_null(strstr(detail, "a.itp > "));
    assert_non_null(strstr(detail, "b.itp > "));
}

static void test_places_follow_the_includes(void **state)
{
    const struct folder *folder = *state;
    write_file(folder->path, "p.itp", "\n\nthird \\\nfourth\nfifth\n");
    static const char text[] = "first\n#include \"p.itp\"\nthird of main\n";
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    struct md_source *source = NULL;
    assert_int_equal(md_source_open("main", stream, NULL, folder->path, &source), 0);
    static const int lines[] = {1, 3, 5, 3};
    for (int i = 0; i < 4; i++) {
        char *line = NULL;
        assert_int_equal(md_source_next(source, &line), 1);
        struct md_place place = md_source_place(source);
        assert_int_equal(place.line, lines[i]);
        if (i == 0 || i == 3)
            assert_string_equal(place.file, "main");
        else
            assert_non_null(strstr(place.file, "/p.itp"));
    }
    md_source_close(source);
    fclose(stream);
}

static void test_a_file_that_is_no_text_is_refused(void **state)
{
    (void)state;
    static const char bytes[] = "a\n\0b\n";
    FILE *stream = fmemopen((void *)(uintptr_t)bytes, sizeof bytes - 1, "r");
    struct md_source *source = NULL;
    char out[100];
    assert_int_equal(md_source_open("test.top", stream, NULL, NULL, &source), 0);
    assert_int_equal(drain(source, out, sizeof out), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "test.top:2: "));
    md_source_close(source);
    fclose(stream);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comments_and_blank_lines_vanish),
        cmocka_unit_test(test_a_backslash_joins_lines),
        cmocka_unit_test(test_definitions_replace_whole_words),
        cmocka_unit_test(test_definitions_apply_once_in_their_order),
        cmocka_unit_test(test_options_define_with_and_without_text),
        cmocka_unit_test(test_conditions_nest),
        cmocka_unit_test(test_nothing_acts_inside_an_untaken_condition),
        cmocka_unit_test(test_faults_name_their_line),
        cmocka_unit_test(test_growth_by_replacement_is_bounded),
        WITH_FOLDER(test_includes_are_relative_to_their_file),
        WITH_FOLDER(test_includes_are_looked_for_in_the_directories_given),
        WITH_FOLDER(test_a_missing_include_names_where_it_was_looked_for),
        WITH_FOLDER(test_only_regular_files_are_included),
        WITH_FOLDER(test_a_loop_of_includes_ends),
        WITH_FOLDER(test_places_follow_the_includes),
        cmocka_unit_test(test_a_file_that_is_no_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
