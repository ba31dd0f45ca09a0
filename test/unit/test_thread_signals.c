// SPDX-License-Identifier: Apache-2.0
// Threads of the library's own take no signal that is meant for the program's.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leat/file.h"
#include "leat/leat.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t blocked_by(const char *task)
{
    char path[64], line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
    FILE *status = fopen(path, "re");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        sscanf(line, "SigBlk: %llx", &mask);
    fclose(status);
    return mask;
}

static uint64_t bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

// How many threads there are beside this one; each has to leave signals alone.
static int look_at_others(void)
{
    const uint64_t others = bit(SIGTERM) | bit(SIGINT) | bit(SIGUSR1) | bit(SIGALRM) | bit(SIGCHLD);
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        if (!isdigit((unsigned char)*task->d_name) || atoi(task->d_name) == gettid())
            continue;
        uint64_t blocked = blocked_by(task->d_name);
        if ((blocked & others) != others)
            fail_msg("a thread has mask %llx", (unsigned long long)blocked);
        count++;
    }
    closedir(tasks);
    return count;
}

// Blocks of the CPU device, and lanes for files.
static void test_threads_of_the_library_take_no_signal(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    char name[] = "thread-signals-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
    setenv("LEAT_BLOCKS", "3", 1);
    leat_job *job;
    leat_file *file;
    assert_int_equal(leat_open(NULL, &job), 0);
    const int of_the_job = look_at_others();
    assert_true(of_the_job >= 2);
    const leat_file_options tasks = {.size = sizeof tasks, .task_bytes = 65536};
    assert_int_equal(leat_file_open(job, name, &tasks, &file), 0);
    uint64_t done = 0;
    assert_int_equal(leat_file_read(file, (leat_buffer){.address = bytes}, 0, sizeof bytes, &done),
                     0);
    assert_int_equal(done, sizeof bytes);
    assert_true(look_at_others() > of_the_job);
    assert_int_equal(leat_file_close(file), 0);
    leat_close(job, NULL);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_of_the_library_take_no_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
