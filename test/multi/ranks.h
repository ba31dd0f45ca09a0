/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function on the ranks of a job, each a thread of this process.
 *
 * cmocka's assertions end a test by a jump that only the main thread may make, so ranks note their
 * first failure and the main thread reports all of them once every thread has ended. Advantage: one
 * failing rank does not hide what the others saw. Disadvantage: checks have to be written as
 * rank_check, and a body that cannot go on has to return by itself.
 */
#ifndef LEAT_TEST_MULTI_RANKS_H
#define LEAT_TEST_MULTI_RANKS_H

#include "support/splitmix.h"

#include <leat/leat.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
/* After the headers that it needs. */
#include <cmocka.h>

struct rank_thread {
    leat_job *job; /* NULL once the rank has left because of a failure */
    int rank, rank_count;
    void *user; /* what ranks_run was given; bodies write only what is theirs in it */
    void (*body)(struct rank_thread *self);
    int failure_count;
    char failure[1400]; /* the first */
};

/* Notes a failure unless the condition holds, and goes on; the value says whether it held. */
#define rank_check(self, condition, ...)                                                           \
    rank_noted((self), (condition), __FILE__, __LINE__, #condition, __VA_ARGS__)

__attribute__((format(printf, 6, 7), unused)) static bool
rank_noted(struct rank_thread *self, bool held, const char *file, int line, const char *condition,
           const char *format, ...)
{
    if (held || self->failure_count++)
        return held;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(self->failure, sizeof self->failure, "%s:%d: %s: %s", file, line, condition, text);
    return false;
}

static void *rank_main(void *argument)
{
    struct rank_thread *self = argument;
    self->body(self);
    if (self->failure_count) {
        // Whoever waits for this rank must not wait for its time-out.
        leat_close(self->job, "a check failed");
        self->job = NULL;
    }
    return NULL;
}

__attribute__((unused)) static void
ranks_run_for(double timeout_s, int rank_count, void (*body)(struct rank_thread *self), void *user)
{
    leat_options options = {.size = sizeof options,
                            .thread_ranks = rank_count,
                            .arena_bytes = 64 << 20,
                            .timeout_s = timeout_s};
    leat_job **jobs = calloc((size_t)rank_count, sizeof *jobs);
    struct rank_thread *ranks = calloc((size_t)rank_count, sizeof *ranks);
    pthread_t *threads = calloc((size_t)rank_count, sizeof *threads);
    assert_true(jobs && ranks && threads);
    if (leat_open(&options, jobs) != 0)
        fail_msg("leat_open of %d thread ranks: %s", rank_count, leat_error_detail());
    for (int r = 0; r < rank_count; r++) {
        ranks[r] = (struct rank_thread){
            .job = jobs[r], .rank = r, .rank_count = rank_count, .user = user, .body = body};
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    int failed = 0;
    for (int r = 0; r < rank_count; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < rank_count; r++) {
        if (ranks[r].failure_count)
            print_error("rank %d of %d, first of %d: %s\n", r, rank_count, ranks[r].failure_count,
                        ranks[r].failure);
        failed += ranks[r].failure_count > 0;
        leat_close(ranks[r].job, NULL);
    }
    free(jobs);
    free(ranks);
    free(threads);
    if (failed)
        fail_msg("%d of %d ranks failed", failed, rank_count);
}

__attribute__((unused)) static void ranks_run(int rank_count,
                                              void (*body)(struct rank_thread *self), void *user)
{
    ranks_run_for(20, rank_count, body, user);
}

/* A small generator with a seed, so that every run sees the same input (splitmix64). */
struct ranks_random {
    uint64_t state;
};

__attribute__((unused)) static uint64_t ranks_random_word(struct ranks_random *random)
{
    return splitmix_next(&random->state);
}

/* In [0, 1). */
__attribute__((unused)) static double ranks_random_real(struct ranks_random *random)
{
    return (double)(ranks_random_word(random) >> 11) * 0x1p-53;
}

#endif
