// SPDX-License-Identifier: Apache-2.0
// cuFile where it is not there, old, or incomplete. A process can load one library of its name, so
// every case has one of its own.

#define _GNU_SOURCE
#include "support/fake_copies.h"
#include "support/file_stage.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>

#define FILE_BYTES UINT64_C(300007)

static struct fake_copies fake;
static struct file_system_calls calls;

static int open_some(const char *path, int flags, mode_t mode)
{
    bool modules = !strcmp(path, "/proc/modules");
    return file_system_real.open(modules ? "/dev/null" : path, flags, mode);
}

// The case's library, its expectations, and what it says when they fail.
struct kind {
    const char *library; /* NULL: none */
    const char *compat, *absent;
    int version;
    bool by_cufile;
};

static int check_info(const struct stage *stage, const struct kind *kind)
{
    leat_cufile_info info = {.size = sizeof info};
    if (leat_cufile_info_get(stage->job, &info))
        return printf("info: %s\n", leat_error_detail());
    if (!strstr(info.absent, kind->absent) || (!*kind->absent && *info.absent))
        return printf("absent: \"%s\"\n", info.absent);
    if (info.version != kind->version || info.nvfs_operations != LEAT_FILE_UNKNOWN)
        return printf("version %d\n", info.version);
    return 0;
}

static int check_read(const struct stage *stage, const struct kind *kind)
{
    const leat_file_options options = {.size = sizeof options, .compat = kind->compat};
    leat_file_info info = {.size = sizeof info};
    leat_file *file = NULL;
    uint64_t done = 0;
    stage_fill(stage, FILE_BYTES);
    stage_poison(stage, FILE_BYTES);
    if (leat_file_open(stage->job, stage->path, &options, &file) ||
        leat_file_read(file, stage_buffer(stage), 0, FILE_BYTES, &done) ||
        leat_file_info_get(file, NULL, &info))
        return printf("read: %s\n", leat_error_detail());
    for (uint64_t i = 0; i < FILE_BYTES; i++)
        if (done != FILE_BYTES || stage->buffer[i] != stage_byte(i))
            return printf("%llu bytes, byte %llu\n", (unsigned long long)done,
                          (unsigned long long)i);
    if (info.path[FILE_CUFILE].bytes != (kind->by_cufile ? FILE_BYTES : 0))
        return printf("not by the path expected\n");
    return leat_file_close(file);
}

static void run_case(const struct kind *kind)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void *state = NULL;
        if (kind->library && !dlopen(kind->library, RTLD_NOW))
            _exit(printf("%s\n", dlerror()) > 0);
        int failed = stage_begin(&state);
        struct stage *stage = state;
        calls = file_system_real;
        calls.open = open_some;
        stage->job->file_system = &calls;
        fake_copies_begin(&fake, stage->job, stage->buffer, STAGE_BYTES + 4096, 1);
        failed = failed || check_info(stage, kind) || check_read(stage, kind);
        failed = stage_end(&state) || failed;
        fflush(NULL);
        _exit(failed != 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void without_the_library_files_are_read(void **state)
{
    (void)state;
    if (dlopen("libcufile.so.0", RTLD_NOW))
        skip(); // this machine has the real one
    run_case(&(struct kind){.absent = "it cannot be loaded: libcufile.so.0"});
}

static void a_library_that_lacks_a_function_is_not_used(void **state)
{
    (void)state;
    run_case(&(struct kind){.library = FAKE_CUFILE "/broken/libcufile.so.0",
                            .absent = "the library has no cuFileRead"});
}

static void an_old_library_is_used_where_it_has_to_be(void **state)
{
    (void)state;
    run_case(&(struct kind){.library = FAKE_CUFILE "/old/libcufile.so.0",
                            .absent = "",
                            .version = 1000,
                            .compat = "off",
                            .by_cufile = true});
    run_case(&(struct kind){
        .library = FAKE_CUFILE "/old/libcufile.so.0", .absent = "", .version = 1000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_library_files_are_read),
        cmocka_unit_test(a_library_that_lacks_a_function_is_not_used),
        cmocka_unit_test(an_old_library_is_used_where_it_has_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
