/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leat torus: what its parts share.
 *
 * Advantage: each measurement is one file that knows request and report only. Disadvantage: a
 * request has members that most measurements do not look at.
 */
#ifndef LEAT_CLI_TORUS_H
#define LEAT_CLI_TORUS_H

#include "sim/measure.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum torus_what {
    TORUS_BROADCAST,
    TORUS_ALLREDUCE,
    TORUS_ALLTOALL,
    TORUS_BARRIER,
    TORUS_EXCHANGE,
    TORUS_PINGPONG,
    TORUS_MEMORY,
    TORUS_HALO,
    TORUS_WHATS
};

extern const char *const torus_names[TORUS_WHATS];

struct torus_request {
    struct sim_machine machine;
    enum torus_what what;
    int side_count, side[SIM_FOLD_SIDES_MAX];
    uint64_t bytes;        /* 0: not given */
    const char *algorithm; /* NULL: chosen */
    uint64_t chunk_bytes;  /* 0: the algorithm's own */
    uint64_t seed, jitter_ns;
    int root;
    int hops;  /* ping-pong; -1: some */
    bool warm; /* an operation of few bytes goes before */
    bool json;
    const char *svg; /* file, or NULL */
    /* md-halo */
    const char *gro;
    int tile[3], steps;
    double cutoff_nm, atom_ns;
};

/* A request as a job, with the tuning of the machine; `tuning` is the caller's. */
struct sim_job_options torus_options(const struct torus_request *request, uint64_t hollow_bytes,
                                     struct msg_tuning *tuning);

/* Ranks of the request: a rank a node. -EINVAL: more than there are nodes. */
int torus_ranks(const struct torus_request *request, int *ranks);

/* Each prints its report (text, or one JSON object); the exit status. */
int torus_collective(const struct torus_request *request);
int torus_pingpong(const struct torus_request *request);
int torus_memory(const struct torus_request *request);
int torus_halo(const struct torus_request *request);

/* Prints an object and lets go of it; the exit status. */
int torus_print(json_t *object);

/* ---- torus_watch.c: what is seen while a job runs ---- */
struct torus_watch {
    double expected_bytes; /* through the network; 0: not known */
    bool bar;              /* a bar on stderr is drawn */
    int drawn;             /* its length so far */
    struct torus_sample {
        double seconds, bytes;
    } * sample;
    int count, capacity;
    uint64_t begin_ps, next_ps, every_ps;
};

/* Has the job watched, drawing a bar if stderr is a terminal, keeping samples for a time line. */
void torus_watch_begin(struct torus_watch *watch, struct sim_job *job, double expected_bytes);
void torus_watch_end(struct torus_watch *watch);

/* ---- torus_svg.c ---- */
/* Link loads and the time line as one picture. 0 or a negative errno, with detail. */
int torus_svg_write(const char *path, const struct sim_job *job, const struct torus_watch *watch,
                    double seconds, const char *title);

#endif
