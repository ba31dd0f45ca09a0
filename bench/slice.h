/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands for the ranks of a benchmark, and their answers.
 *
 * Algorithm: each rank sleeps in a read of its own pipe, DIRECTORY/SIDE.RANK, until a line
 * "WHAT AMOUNT COUNT" wakes it for a slice; "end 0 0" ends it. Every rank answers every command
 * with one line in DIRECTORY/SIDE.out, "RANK NUMBER...", or "RANK error TEXT". A line is shorter
 * than PIPE_BUF, so that ranks may write at once.
 * Advantage: whoever is measured has the cores to itself, and ranks of any library, started by any
 * launcher, are led alike. Disadvantage: on one host only.
 */
#ifndef LEAT_BENCH_SLICE_H
#define LEAT_BENCH_SLICE_H

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLICE_VALUES_MAX 8

struct slice_pipes {
    FILE *commands;
    int answers, rank;
};

struct slice_command {
    char what[16];
    uint64_t amount, count;
};

/* 0 or -1. */
static inline int slice_open(const char *directory, const char *side, int rank,
                             struct slice_pipes *pipes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%d", directory, side, rank);
    pipes->commands = fopen(path, "r");
    snprintf(path, sizeof path, "%s/%s.out", directory, side);
    pipes->answers = open(path, O_WRONLY | O_CLOEXEC);
    pipes->rank = rank;
    return pipes->commands && pipes->answers >= 0 ? 0 : -1;
}

/* False at the end. */
static inline int slice_next(struct slice_pipes *pipes, struct slice_command *command)
{
    return fscanf(pipes->commands, "%15s %" SCNu64 " %" SCNu64, command->what, &command->amount,
                  &command->count) == 3 &&
           strcmp(command->what, "end") != 0;
}

/* `wrong` is a text, or NULL and the values count. 0, or -1: nobody reads. */
static inline int slice_answer(struct slice_pipes *pipes, const char *wrong, const double *values,
                               int count)
{
    char line[512];
    int length = wrong ? snprintf(line, sizeof line, "%d error %.400s", pipes->rank, wrong)
                       : snprintf(line, sizeof line, "%d", pipes->rank);
    for (int i = 0; !wrong && i < count && i < SLICE_VALUES_MAX; i++)
        length += snprintf(line + length, sizeof line - (size_t)length, " %.3f", values[i]);
    line[length++] = '\n';
    return write(pipes->answers, line, (size_t)length) == length ? 0 : -1;
}

static inline uint64_t slice_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
