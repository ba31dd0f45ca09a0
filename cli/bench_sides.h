/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sides of a benchmark: leat's ranks and those of each peer, led through pipes by slices.
 *
 * Algorithm: every side is started once, by its own launcher, and its ranks sleep on pipes
 * (bench/slice.h). They are woken by turns for short slices, so that all see the same machine.
 * Advantage: noise hits all sides alike, and a side is a command line and nothing more.
 * Disadvantage: slices are short, so a single one says little.
 *
 *     struct bench_sides sides;
 *     int error = bench_open(&sides, 2);
 *     if (!error)
 *         bench_add_leat(&sides, "leat", "msg-rank", NULL), bench_add_peer(...);
 *     error = error ? error : bench_start(&sides);
 *     ...
 *     bench_close(&sides, error);
 */
#ifndef LEAT_CLI_BENCH_SIDES_H
#define LEAT_CLI_BENCH_SIDES_H

#include "../bench/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_ROUNDS_MAX 101
#define BENCH_SIDES_MAX  8
#define BENCH_RANKS_MAX  256
#define BENCH_SIZES_MAX  32

/* Ascending once measured. */
struct bench_series {
    double value[BENCH_ROUNDS_MAX];
    int count;
};

struct bench_side {
    const char *name; /* of its pipes too */
    const char *arguments[16];
    int argument_count;
    char setting[4][64]; /* NAME=VALUE, for its environment */
    int setting_count;
    char launcher[32], ranks[12], program[480];
    pid_t pid;
    int commands[BENCH_RANKS_MAX], answers;
    char text[1024]; /* read and not looked at yet */
    size_t text_bytes;
    uint32_t iterations; /* of a slice */
    bool idle;           /* not to be measured for now */
    struct bench_series ns;
};

struct bench_sides {
    char directory[64];
    int rank_count, side_count, answer_s;
    int signals; /* a descriptor that tells of SIGINT, SIGTERM and SIGHUP, blocked meanwhile */
    struct bench_side side[BENCH_SIDES_MAX]; /* leat is the first */
    struct bench_series flag_ns; /* one way of a flag from rank to rank, by leat's ranks */
    double values[BENCH_RANKS_MAX][SLICE_VALUES_MAX]; /* of the last slice */
};

struct bench_pace {
    int rounds, slice_ms;
};

/* Makes a directory for the pipes, and lets signals end the measurement in order. 0 or -EIO with
 * detail; bench_close in any case. */
int bench_open(struct bench_sides *sides, int rank_count);

/* A side of `leat bench RANK_COMMAND DIRECTORY NAME EXTRA`, EXTRA where it is not NULL. */
struct bench_side *bench_add_leat(struct bench_sides *sides, const char *name,
                                  const char *rank_command, const char *extra);

/* "NAME=VALUE", for the side's environment; four at most, of 63 characters. */
void bench_add_setting(struct bench_side *side, const char *setting);

#define BENCH_PEER_COUNT 2
extern const char *const bench_peer_names[BENCH_PEER_COUNT];

/* A side of an MPI program that lies beside this one, started as `LAUNCHER ... PROGRAM DIRECTORY
 * NAME`. Where it is not there, stderr gets the packages that bring it, and the result is NULL. */
struct bench_side *bench_add_peer(struct bench_sides *sides, int peer, const char *launcher,
                                  const char *program);

/* The path of a program that lies beside this one; false where none can be run there. */
bool bench_beside(const char *program, char *path, size_t bytes);

int bench_start(struct bench_sides *sides);

/* Ends the ranks, by force those that do not come, and removes the pipes. */
void bench_close(struct bench_sides *sides, int error);

/*
 * One slice on one side; the answers are in sides->values.
 * -EINTR a signal asks to end, -EREMOTEIO a rank found something wrong, -ECHILD the ranks have
 * ended, -ETIMEDOUT no answer within answer_s, -EPROTO an answer that cannot be read
 */
int bench_slice(struct bench_sides *sides, struct bench_side *side, const char *what,
                uint64_t amount, uint64_t count);

/*
 * Warms all sides up but the idle ones, then measures them by turns: fills ns of each (of an idle
 * one with nothing) and flag_ns, which side 0 measures, idle or not. `what` takes a number of
 * iterations as its count and answers with nanoseconds; the slowest rank counts.
 */
int bench_measure(struct bench_sides *sides, const struct bench_pace *pace, const char *what,
                  uint64_t amount);

/* How often what takes `ns` is repeated in a slice. */
uint32_t bench_iterations(double slice_ns, double ns);

void bench_sort(struct bench_series *series);
static inline double bench_median(const struct bench_series *series)
{
    return series->value[series->count / 2];
}

/* The best median among the peers; 0 without any. */
double bench_best_peer(const struct bench_sides *sides);

/* Adds KEY, KEY_min and KEY_max with `suffix` behind ("leat_us", "leat_min_us"), divided. */
void bench_json_series(json_t *entry, const char *key, const char *suffix,
                       const struct bench_series *series, double divisor);

/* Prints {schema, context, benchmarks} and what `more` (or NULL) has; takes both references. */
void bench_print_json(const char *benchmark, const struct bench_sides *sides,
                      const struct bench_pace *pace, json_t *list, json_t *more);

/* "median (least-most)", padded to `width`. */
void bench_print_series(const struct bench_series *series, double divisor, int width);

#endif
