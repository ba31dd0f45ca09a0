// SPDX-License-Identifier: Apache-2.0
// A step's work on the device, and the sums that leave it.
//
// Terms are written an atom, added up in a fixed number of parts there and in order here.
// Advantage: the same bits in every run, and steps that want no terms write none. Disadvantage: a
// step with terms writes and reads an array for each.

#include "core/error.h"
#include "md/gpu_internal.h"

#include <math.h>
#include <string.h>

int md_gpu_pair_forces(struct md_rank *rank, bool want)
{
    struct md_gpu *gpu = rank->gpu;
    int error = md_gpu_launch(gpu, MD_GPU_GATHER, 0, gpu->args.element_count);
    enum md_gpu_kernel pairs = want ? MD_GPU_PAIRS_TERMS : MD_GPU_PAIRS;
    return error ? error : md_gpu_launch(gpu, pairs, 0, gpu->args.element_count);
}

int md_gpu_home_forces(struct md_rank *rank, bool want)
{
    struct md_gpu *gpu = rank->gpu;
    int error = md_gpu_launch(gpu, MD_GPU_HOME, want, gpu->args.home_count);
    if (error || !gpu->bonded)
        return error;
    return md_gpu_launch(gpu, MD_GPU_BONDED, want, gpu->args.home_count);
}

int md_gpu_move(struct md_rank *rank, double v_scale, uint32_t choice)
{
    struct md_gpu *gpu = rank->gpu;
    gpu->args.v_scale = v_scale;
    if (gpu->apart && !(choice & MD_GPU_STEP_STORED)) {
        int error = md_gpu_home_forces(rank, choice & MD_GPU_STEP_TERMS);
        if (error)
            return error;
        choice |= MD_GPU_STEP_STORED;
    }
    int error = md_gpu_launch(gpu, MD_GPU_CONSTRAIN, choice, gpu->cluster_count);
    return error ? error : md_gpu_launch(gpu, MD_GPU_STEP, choice, gpu->args.home_count);
}

int md_gpu_sum(struct md_rank *rank, uint32_t first, uint32_t count, double *sum)
{
    struct md_gpu *gpu = rank->gpu;
    int error = md_gpu_launch(gpu, MD_GPU_SUM, first, count * MD_GPU_PARTS);
    if (!error)
        error = md_gpu_check(rank);
    if (!error)
        error = gpu->backend->download(gpu->state, gpu->part,
                                       gpu->args.sum + (size_t)first * MD_GPU_PARTS,
                                       (size_t)count * MD_GPU_PARTS * sizeof *gpu->part);
    if (error)
        return error;
    for (size_t term = 0; term < count; term++) {
        sum[term] = 0.0;
        for (size_t part = 0; part < MD_GPU_PARTS; part++)
            sum[term] += gpu->part[term * MD_GPU_PARTS + part];
    }
    return 0;
}

// Of the tensors only the traces are asked for.
static void set_kinetic(struct md_rank *rank, double before, double after)
{
    memset(rank->ekin_before, 0, sizeof rank->ekin_before);
    memset(rank->ekin_after, 0, sizeof rank->ekin_after);
    rank->ekin_before[0] = before;
    rank->ekin_after[0] = after;
}

int md_gpu_terms(struct md_rank *rank, bool moved, struct md_terms *terms)
{
    double sum[MD_GPU_TERM_MOMENTUM];
    uint32_t first = terms ? 0 : MD_GPU_TERM_EKIN_BEFORE;
    bool bonded = terms && rank->gpu->bonded;
    uint32_t end = bonded ? MD_GPU_TERM_MOMENTUM : MD_GPU_TERM_BONDED;
    int error = md_gpu_sum(rank, first, end - first, sum + first);
    if (error)
        return error;
    if (moved)
        set_kinetic(rank, sum[MD_GPU_TERM_EKIN_BEFORE], sum[MD_GPU_TERM_EKIN_AFTER]);
    if (!terms)
        return 0;
    terms->lj = sum[MD_GPU_TERM_LJ];
    terms->pairs = sum[MD_GPU_TERM_PAIRS];
    terms->coulomb = terms->pairs + (sum[MD_GPU_TERM_EXCLUDED] + sum[MD_GPU_TERM_SELF]);
    terms->corrections = fabs(sum[MD_GPU_TERM_EXCLUDED]) + fabs(sum[MD_GPU_TERM_SELF]);
    memcpy(terms->virial, sum + MD_GPU_TERM_VIRIAL, sizeof terms->virial);
    memcpy(terms->force, sum + MD_GPU_TERM_FORCE, sizeof terms->force);
    terms->force_length = sum[MD_GPU_TERM_FORCE_LENGTH];
    if (!bonded)
        return 0;
    memcpy(terms->bonded.term, sum + MD_GPU_TERM_BONDED, sizeof terms->bonded.term);
    terms->bonded.coulomb14 = sum[MD_GPU_TERM_COULOMB14];
    return 0;
}

int md_gpu_stop_centre(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    double sum[4] = {0};
    int error = md_gpu_launch(gpu, MD_GPU_MOMENTUM, 0, gpu->args.home_count);
    if (!error)
        error = md_gpu_sum(rank, MD_GPU_TERM_MOMENTUM, 4, sum);
    if (!error)
        error = md_sum(rank, sum, 4);
    if (error || !(sum[3] > 0.0))
        return error;
    for (int d = 0; d < 3; d++) {
        gpu->args.brake[d] = sum[d] / sum[3];
        rank->ekin_half -= 0.5 * sum[d] * gpu->args.brake[d];
    }
    return md_gpu_launch(gpu, MD_GPU_BRAKE, 0, gpu->args.home_count);
}
