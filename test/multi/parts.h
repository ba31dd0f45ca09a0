/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that starts itself under the launcher, RANKS ranks that are processes, each of which
 * plays the part that its first argument names; the second is a descriptor by which one that
 * outlives another says so.
 *
 * Advantage: a rank may die, and the test sees what became of the other. Disadvantage: a rank that
 * finds something wrong can only say so on standard error and exit with 1.
 */
#ifndef LEAT_TEST_MULTI_PARTS_H
#define LEAT_TEST_MULTI_PARTS_H

#include "core/job.h"
#include "core/launch.h"

#include <leat/leat.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static leat_job *job;
static int rank, verdict = -1;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition,              \
                    leat_error_detail());                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The launcher's status is the killed rank's. */
static _Noreturn void survive(void)
{
    exit(write(verdict, "+", 1) == 1 ? 42 : 1);
}

static int copy_all(leat_region *to, leat_region *from, uint64_t bytes)
{
    return leat_copy(job, (leat_place){to, 0}, (leat_place){from, 0}, bytes, (leat_place){0}, 0);
}

static void stamp(leat_region *region, uint64_t seed)
{
    uint64_t *word = region->address;
    for (uint64_t i = 0; i < region->bytes / 8; i++)
        word[i] = seed << 32 | i;
}

static bool is_stamped(const leat_region *region, uint64_t seed)
{
    const uint64_t *word = region->address;
    uint64_t i = 0;
    while (i < region->bytes / 8 && word[i] == (seed << 32 | i))
        i++;
    return i == region->bytes / 8;
}

static int launch_part(const char *name, bool *survived)
{
    char number[16] = "", *const arguments[] = {"test", (char *)(uintptr_t)name, number, NULL};
    const struct launch_options options = {.rank_count = RANKS,
                                           .arena_bytes = 64 << 20,
                                           .program = "/proc/self/exe",
                                           .argv = arguments};
    int status = -1, ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    int error = leat_launch(&options, &status);
    close(ends[1]);
    *survived = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    if (error)
        fail_msg("leat_launch: %s", leat_error_detail());
    return status;
}

static void run_part(const char *name)
{
    bool survived;
    assert_int_equal(launch_part(name, &survived), 0);
}

static void run_killed(const char *name)
{
    bool survived;
    assert_int_equal(launch_part(name, &survived), 128 + SIGKILL);
    assert_true(survived);
}

#endif
