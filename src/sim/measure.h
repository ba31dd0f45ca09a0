/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements on a simulated job: a collective, a ping-pong; with the result checked.
 *
 * Advantage: the command and the tests run the same programs. Disadvantage: one operation at a
 * time, by all ranks.
 */
#ifndef LEAT_SIM_MEASURE_H
#define LEAT_SIM_MEASURE_H

#include "sim/job.h"

struct sim_collective {
    enum leat_collective_kind kind; /* barrier, broadcast, allreduce or all-to-all */
    uint64_t bytes;                 /* of the data; all-to-all: for each other rank */
    const char *algorithm;          /* NULL: as the message layer chooses */
    int root;
};

/* The largest data that is real; more is hollow. */
#define SIM_REAL_BYTES 1024

struct sim_measured {
    double seconds;        /* from the first rank's beginning to the last one's end */
    int wrong;             /* ranks whose result is not right */
    const char *algorithm; /* that ran */
};

/* Bytes of the largest hollow buffer that it takes. */
uint64_t sim_collective_hollow(const struct sim_collective *what, int rank_count);
/* 0, or what sim_job_run and leat_collective give; *measured is set with 0 only. */
int sim_collective_run(struct sim_job *job, const struct sim_collective *what,
                       struct sim_measured *measured);

/* Half a round trip of so many bytes between two ranks, the median of some. -EBADMSG: other bytes
 * came back than were sent. */
int sim_pingpong_run(struct sim_job *job, int from, int to, uint64_t bytes, double *half_ns);

#endif
