// SPDX-License-Identifier: Apache-2.0
// A job under a file size limit: an error of its own, and nothing of the system's signal is seen.

#define _GNU_SOURCE
#include "core/bootstrap.h"
#include "core/job.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static volatile sig_atomic_t handled;

static void count(int number)
{
    (void)number;
    handled++;
}

static int limit(void **state)
{
    (void)state;
    struct rlimit size;
    getrlimit(RLIMIT_FSIZE, &size);
    size.rlim_cur = 1 << 20;
    signal(SIGXFSZ, count);
    handled = 0;
    return setrlimit(RLIMIT_FSIZE, &size);
}

static int unlimit(void **state)
{
    (void)state;
    struct rlimit size;
    getrlimit(RLIMIT_FSIZE, &size);
    size.rlim_cur = size.rlim_max;
    signal(SIGXFSZ, SIG_DFL);
    return setrlimit(RLIMIT_FSIZE, &size);
}

static void refused(void)
{
    int fd = -1;
    assert_int_equal(leat_segment_create(2, 64 << 20, NULL, false, &fd), -EFBIG);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(leat_error_detail(), "ulimit -f"));
}

static void test_no_handler_runs(void **state)
{
    (void)state;
    sigset_t mask, pending;
    refused();
    assert_int_equal(handled, 0);
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGXFSZ));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGXFSZ));
    raise(SIGXFSZ); // the program's own still comes
    assert_int_equal(handled, 1);
}

static void test_one_that_was_pending_stays(void **state)
{
    (void)state;
    sigset_t mask, pending;
    sigemptyset(&mask);
    sigaddset(&mask, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    raise(SIGXFSZ);
    refused();
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGXFSZ));
    pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
    assert_int_equal(handled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_handler_runs, limit, unlimit),
        cmocka_unit_test_setup_teardown(test_one_that_was_pending_stays, limit, unlimit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
