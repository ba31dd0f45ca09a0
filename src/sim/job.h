/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated job: the real message engine of every rank, on a modelled machine, in virtual time.
 *
 * A program is a function that is called for a rank whenever something has come for it: it looks at
 * its requests and starts what comes next (leat_send, leat_recv, leat_collective, always with a
 * request). Advantage: tens of thousands of ranks run in one thread. Disadvantage: programs are
 * written as steps.
 */
#ifndef LEAT_SIM_JOB_H
#define LEAT_SIM_JOB_H

#include "leat/msg.h"
#include "msg/engine.h"
#include "sim/sim_net.h"
#include "sim/torus.h"

struct sim_job_options {
    const struct sim_machine *machine; /* has to live as long as the job */
    int side_count;                    /* 0: the whole machine */
    int side[SIM_FOLD_SIDES_MAX];
    const int32_t *place; /* or so many nodes, a rank each; NULL: as the sides say */
    int place_count;
    uint64_t hollow_bytes;           /* the largest hollow buffer */
    uint64_t seed, jitter_ns;        /* ranks begin up to jitter_ns late, drawn from the seed */
    const struct msg_tuning *tuning; /* NULL: sim_job_tuning */
};

struct sim_job_rank {
    struct msg_engine *engine;
    leat_comm *comm;           /* all ranks */
    uint64_t begin_ps, end_ps; /* the program's */
    uint32_t phase;
    bool done;
    leat_request request;
};

struct sim_job;
/* Returns whether it started something, in which case it is called again. Sets rank->done when the
 * rank has nothing left to do. A negative errno ends the job. */
typedef int sim_program(struct sim_job *job, int rank, void *user);

struct sim_job {
    struct sim_job_options options;
    struct sim_topology topology;
    struct sim_fold fold; /* torus only */
    bool folded;
    int32_t *node;
    int rank_count;
    struct sim_fabric fabric;
    struct sim_job_rank *rank;
    sim_program *program;
    void *user;
    int left; /* ranks that are not done */
    int error;
    /* Called now and then; NULL: nobody wants to know. Not 0: stop (-ECANCELED). */
    int (*watch)(void *user, const struct sim_job *job);
    void *watch_user;
};

/* Sizes and limits for simulated ranks of that machine: few rings, of few slots. */
struct msg_tuning sim_job_tuning(const struct sim_machine *machine);

/* -EINVAL, -ENOMEM, -EHOSTUNREACH, with detail. */
int sim_job_open(struct sim_job *job, const struct sim_job_options *options);
void sim_job_close(struct sim_job *job);

/* Runs the program from now on at all ranks until all are done. -EDEADLK: nothing is under way, but
 * some are not (the detail says who waits for what); -EPROTO: what no engine may do was seen. */
int sim_job_run(struct sim_job *job, sim_program *program, void *user);

/* Virtual time of a rank, while its program is called. */
static inline uint64_t sim_job_now_ps(const struct sim_job *job, int rank)
{
    return job->fabric.rank[rank].cpu_ps;
}

#endif
