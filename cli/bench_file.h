/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sides of `leat bench file`: processes that are asked by lines (bench/file_slice.h), and fio,
 * which is started for each slice.
 *
 * Advantage: a library of any language is a side, with its own context and threads. Disadvantage:
 * several of them hold memory of the device at once.
 */
#ifndef LEAT_CLI_BENCH_FILE_H
#define LEAT_CLI_BENCH_FILE_H

#include "bench_sides.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_SIDES_MOST 16

struct file_side {
    char name[24]; /* "leat", "pread:4" */
    bool is_leat, is_fio, gone;
    int jobs; /* fio's */
    pid_t pid;
    int ask, answer;        /* descriptors */
    char text[512];         /* of an answer that is not complete */
    char why[256];          /* it is not measured at this point; "": it is */
    uint64_t repeat;        /* calls of a slice */
    struct bench_series ns; /* a call, or a batch */
};

/* What is measured: one point. */
struct file_point {
    const char *state, *path; /* "cached", "direct" */
    bool ranges;
    uint64_t bytes, depth; /* of a call; calls under way, or ranges of a batch */
    uint64_t file_bytes;
};

/* Starts the side for a device ("cpu", "cuda:0"). What is not there is said on stderr, and the side
 * is gone. */
void file_side_start(struct file_side *side, const char *name, const char *device);
void file_side_end(struct file_side *side);
/* `repeat` calls from `seed` on: nanoseconds of one. 0; -EREMOTEIO with why set: not at this point,
 * or no more (gone). */
int file_side_ask(struct file_side *side, const struct file_point *point, uint64_t repeat,
                  uint64_t seed, double *ns);

/* fio's turn of so many milliseconds. */
int file_fio_ask(struct file_side *side, const struct file_point *point, int slice_ms, double *ns);

/* A file of so many bytes in the directory, every eight bytes their own offset, on the device. */
int file_bench_make(const char *directory, uint64_t bytes, char path[1024]);

/* The best median among those that are not leat; 0 without any. */
double file_best_other(const struct file_side *sides, int count);
/* In Google Benchmark's shape, with fio's names. */
json_t *file_side_json(const struct file_side *side, const struct file_point *point,
                       const char *state, double best);
void file_side_print(const struct file_side *side, const struct file_point *point, double best);

#endif
