// SPDX-License-Identifier: Apache-2.0
// Halos of processes that share a GPU.
//
// CUDA runs the kernels of two processes by turns, and does not say when a turn ends, nor that a
// kernel which waits for another process's will ever be interrupted for it: only kernels of one
// cooperative launch are sure to run at once, and that is of one process. The same goes for waits
// in streams. So where any two processes share a GPU, all ranks go by mode host, in which nothing
// on a GPU waits. Advantage: it ends, whatever the driver does. Disadvantage: two waits of the CPU
// a pulse.

#include "halo/halo_internal.h"

#include "core/log.h"

#include <string.h>

int halo_learn_sharing(struct leat_job *job)
{
    if (job->gpus_shared != GPUS_UNKNOWN)
        return 0;
    if (job->segment->head->threads || job->rank_count == 1) {
        job->gpus_shared = GPUS_APART;
        return 0;
    }
    // Once all have come, all have said which GPU is theirs.
    int error = leat_barrier(job);
    double shared = leat_gpu_sharers(job, NULL) > 1;
    if (!error)
        error = leat_reduce(job, REDUCE_MAX, &shared, 1);
    if (!error)
        job->gpus_shared = shared > 0 ? GPUS_SHARED : GPUS_APART;
    return error;
}

static void warn(struct leat_job *job, const struct halo_mode *mode)
{
    int first = job->rank;
    if (job->warned & WARNED_SHARED_GPU || leat_gpu_sharers(job, &first) < 2 || first != job->rank)
        return;
    job->warned |= WARNED_SHARED_GPU;
    leat_log(job->config.log_level, LOG_WARN, job->rank,
             "this process and others of the job share a GPU: CUDA does not promise that their "
             "kernels run at once, so in mode %s they might wait for each other for ever; halos go "
             "by mode host. Give each process a GPU of its own, or make the ranks threads of one "
             "process (leat_options.thread_ranks, leat md --rank-threads)",
             mode->name);
}

const struct halo_mode *halo_mode_for(struct leat_job *job, const struct halo_mode *mode)
{
    if (job->gpus_shared != GPUS_SHARED || (!mode->waits_in_kernels && !mode->waits_in_stream))
        return mode;
    warn(job, mode);
    return halo_mode_find(LEAT_MODE_HOST);
}
