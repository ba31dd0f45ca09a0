// SPDX-License-Identifier: Apache-2.0
// Steps of leap-frog or velocity Verlet, as many at a time as need nothing of other ranks but their
// halos.
//
// Algorithm of a step: positions to the ghosts (or a new partition), forces, ghosts' forces back
// home, velocities and positions on, constraints. Pairs of home atoms are worked on while halos
// travel. Steps between two that need sums over ranks, or a
// partition, are one run of the halo, which orders exchanges and work as its mode does: in resident
// mode in one kernel. Sums over ranks follow a run: for leap-frog once its last step has moved on,
// for velocity Verlet in the middle of that step. On a GPU a step is work enqueued to its stream.
// Advantage: two exchanges a step and nothing else between ranks, and one order of work in all
// modes, so all give the same bits. Disadvantage: a fault that only a sum shows is seen up to
// nstcalcenergy steps late, and of the kernel's blocks one does the work.

#include "core/error.h"
#include "md/checkpoint.h"
#include "md/halo_check.h"
#include "md/md.h"

#include <string.h>

// Steps in one run of the halo.
struct run {
    struct md_rank *rank;
    uint64_t count;
    bool want; // energies of the last of them
    bool stay; // and positions are not to move on after it
    struct md_terms terms;
    double heat; // that the thermostat of leap-frog takes out in the last of them
    int error;
    char detail[LEAT_DETAIL_BYTES]; // the run may be in another thread, whose words would be lost
};

static bool is_last(const struct md_rank *rank, int64_t step)
{
    return step == rank->system.settings.steps;
}

static bool wants_energy(const struct md_rank *rank, int64_t step)
{
    return is_last(rank, step) || step % rank->system.settings.nstcalcenergy == 0;
}

static bool starts_list(const struct md_rank *rank, int64_t step)
{
    return !rank->domain.plan || rank->list_spent || step % rank->system.settings.nstlist == 0;
}

static bool couples_next(const struct md_rank *rank, int64_t step)
{
    return rank->system.settings.tcoupl == MD_TCOUPL_V_RESCALE &&
           step % rank->system.couple_steps == 0;
}

static bool stops_centre(const struct md_rank *rank, int64_t step)
{
    const struct md_settings *settings = &rank->system.settings;
    return settings->remove_com && settings->nstcomm > 0 && step % settings->nstcomm == 0;
}

// After this step something other than halos has to be exchanged.
static bool ends_run(const struct md_rank *rank, int64_t step)
{
    return wants_energy(rank, step) || couples_next(rank, step) || stops_centre(rank, step) ||
           starts_list(rank, step + 1) || rank->system.skin_nm > 0.0 ||
           md_trajectory_wants(rank, step) || md_halo_check_due(rank, step);
}

static bool is_verlet(const struct md_rank *rank)
{
    return rank->system.settings.integrator == MD_VELOCITY_VERLET;
}

// Leap-frog's velocities at the half step that the last sum was of, velocity Verlet's at the full.
static void thermostat(struct md_rank *rank, double factor[MD_GROUPS_MAX], double *heat)
{
    const struct md_system *system = &rank->system;
    const struct md_settings *settings = &system->settings;
    int groups = md_system_groups(system);
    int64_t since = rank->step + system->couple_steps - (is_verlet(rank) ? 0 : 1);
    bool acts = settings->tcoupl == MD_TCOUPL_V_RESCALE && since % system->couple_steps == 0;
    *heat = 0.0;
    for (int g = 0; g < groups; g++) {
        double taken = 0.0;
        factor[g] = 1.0;
        if (acts)
            factor[g] = md_v_rescale(groups > 1 ? rank->ekin_group[g] : rank->ekin_half,
                                     groups > 1 ? system->group_degrees[g] : system->degrees,
                                     settings->ref_t_k[g], settings->tau_t_ps[g],
                                     system->couple_steps * settings->dt_ps, settings->ld_seed,
                                     rank->step, (uint32_t)g, &taken);
        *heat += taken;
    }
}

// Positions and velocities to the next step.
static int move(struct md_rank *rank, struct md_terms *terms, double *heat)
{
    struct md_domain *domain = &rank->domain;
    double factor[MD_GROUPS_MAX], dt_ps = rank->system.settings.dt_ps;
    thermostat(rank, factor, heat);
    // Half a cut-off in one step is hundreds of times what atoms do at any temperature of interest.
    double limit_nm = 0.5 * rank->system.interaction.cutoff_nm;
    int error = md_leapfrog(&domain->atoms, md_rigid_any(&domain->rigid) ? &domain->rigid : NULL,
                            is_verlet(rank) ? 0.5 * dt_ps : dt_ps, dt_ps, factor, limit_nm,
                            domain->scratch, terms ? terms->virial : NULL, rank->ekin_after);
    md_clock_lap(&rank->clock, PHASE_UPDATE);
    return error;
}

// Velocities to the full step that the positions are at, which at the first they are.
static int arrive(struct md_rank *rank, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    double dt_ps = rank->system.settings.dt_ps;
    int error = 0;
    if (rank->step > 0)
        error = md_verlet_arrive(&domain->atoms, &domain->rigid, dt_ps);
    if (!error && terms)
        error =
            md_verlet_virial(&domain->atoms, &domain->rigid, dt_ps, domain->scratch, terms->virial);
    md_kinetic(&domain->atoms, rank->ekin_after);
    memcpy(rank->ekin_before, rank->ekin_after, sizeof rank->ekin_before);
    md_clock_lap(&rank->clock, PHASE_UPDATE);
    return error;
}

// On to the next step, for which nothing is left to be sent but halos.
static void go_on(struct md_rank *rank)
{
    memcpy(rank->ekin_before, rank->ekin_after, sizeof rank->ekin_before);
    if (rank->gpu)
        md_gpu_note_step(rank);
    else
        md_clock_step(&rank->clock);
    rank->step++;
}

static int keep_words(struct run *run, int error)
{
    if (error) {
        run->error = error;
        strncpy(run->detail, leat_error_detail(), sizeof run->detail - 1);
    }
    return error;
}

// Of the kernel's blocks one does the work; what it waited for until now was the halo.
static bool takes_part(struct run *run, uint32_t block)
{
    if (block == 0)
        md_clock_lap(&run->rank->clock, PHASE_HALO);
    return block == 0;
}

static int while_forward(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct run *run = user;
    (void)block_count;
    if (takes_part(run, block))
        md_home_pairs_begin(run->rank, run->want && step + 1 == run->count);
    return 0;
}

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct run *run = user;
    (void)block_count;
    (void)step;
    if (takes_part(run, block))
        md_ghost_pairs(run->rank, &run->terms);
    return 0;
}

static int while_reverse(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct run *run = user;
    (void)block_count;
    (void)step;
    if (takes_part(run, block))
        md_home_pairs_end(run->rank, &run->terms);
    return 0;
}

static int advance(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct run *run = user;
    struct md_rank *rank = run->rank;
    bool last = step + 1 == run->count;
    (void)block_count;
    if (!takes_part(run, block))
        return 0;
    struct md_terms *terms = run->want && last ? &run->terms : NULL;
    md_home_forces(rank, terms != NULL, &run->terms);
    bool verlet = is_verlet(rank) && rank->system.settings.steps > 0;
    int error = verlet ? arrive(rank, terms) : 0;
    if (error || (last && (run->stay || verlet)))
        return keep_words(run, error);
    error = move(rank, verlet ? NULL : terms, &run->heat);
    if (error || last)
        return keep_words(run, error);
    rank->heat += run->heat;
    go_on(rank);
    md_domain_image(rank);
    return 0;
}

static void record_drift(struct md_rank *rank)
{
    double time_ps = (double)rank->step * rank->system.settings.dt_ps;
    if (time_ps >= rank->options->drift_after_ps)
        md_slope_add(&rank->slope, time_ps, rank->energy.conserved);
}

static int move_on_gpu(struct run *run, uint32_t choice)
{
    struct md_rank *rank = run->rank;
    double factor[MD_GROUPS_MAX] = {1.0};
    thermostat(rank, factor, &run->heat);
    int error = md_gpu_move(rank, factor[0], choice);
    if (error || !(choice & (MD_GPU_STEP_TERMS | MD_GPU_STEP_KINETIC)))
        return error;
    return md_gpu_terms(rank, true, run->want ? &run->terms : NULL);
}

// What the device adds up in this move.
static uint32_t sums_of_move(const struct run *run, bool last)
{
    return run->want && last                                  ? MD_GPU_STEP_TERMS
           : last && couples_next(run->rank, run->rank->step) ? MD_GPU_STEP_KINETIC
                                                              : 0;
}

// Coordinates to the ghosts, forces of pairs, and theirs back.
static int exchange_on_gpu(struct md_rank *rank, bool refresh, bool want, bool sampled)
{
    leat_halo *halo = rank->domain.halo;
    int error = md_gpu_mark(rank, sampled, -1);
    if (!error && refresh)
        error = leat_halo_exchange(halo, FIELD_X, LEAT_FORWARD);
    if (!error)
        error = md_gpu_mark(rank, sampled, PHASE_HALO);
    if (!error)
        error = md_gpu_pair_forces(rank, want);
    if (!error)
        error = md_gpu_mark(rank, sampled, PHASE_LOCAL);
    if (!error)
        error = leat_halo_exchange(halo, FIELD_F, LEAT_REVERSE);
    return error ? error : md_gpu_mark(rank, sampled, PHASE_HALO);
}

static int step_on_gpu(struct run *run, bool refresh, bool last, bool sampled)
{
    struct md_rank *rank = run->rank;
    bool want = run->want && last;
    int error = exchange_on_gpu(rank, refresh, want, sampled);
    if (error)
        return error;
    if (run->stay && last) {
        error = md_gpu_home_forces(rank, want);
        return error || !want ? error : md_gpu_terms(rank, false, &run->terms);
    }
    error = move_on_gpu(run, sums_of_move(run, last));
    if (!error)
        error = md_gpu_mark(rank, sampled, PHASE_UPDATE);
    if (error || last)
        return error;
    rank->heat += run->heat;
    go_on(rank);
    return 0;
}

// Work of a GPU is only enqueued here, so there is no function that a halo's run could call: its
// exchanges are enqueued one by one, in all modes.
static int run_on_gpu(struct run *run, bool refresh)
{
    int error = 0;
    for (uint64_t step = 0; step < run->count && !error; step++) {
        bool last = step + 1 == run->count;
        // One in the middle, where the stream is as full as it gets.
        bool sampled = step == run->count / 2 && !last;
        error = step_on_gpu(run, refresh || step > 0, last, sampled);
    }
    return error;
}

// What the last step of a run asks of all ranks. Energies need both half steps around it.
static int sum_up(struct md_rank *rank, const struct run *run)
{
    int error = 0;
    // The mean of the two half steps has seen half of what the thermostat did between them.
    if (run->want)
        error = md_energy_sum(rank, &run->terms, rank->heat + 0.5 * run->heat);
    else if (couples_next(rank, rank->step))
        error = md_kinetic_sum(rank);
    rank->heat += run->heat;
    if (!error && run->want)
        record_drift(rank);
    if (!error && run->want)
        error = md_energies_add(rank);
    if (!error && stops_centre(rank, rank->step))
        error = rank->gpu ? md_gpu_stop_centre(rank) : md_stop_centre(rank);
    if (!error && couples_next(rank, rank->step) && md_system_groups(&rank->system) > 1)
        error = md_kinetic_group_sum(rank);
    return error;
}

// From the full step, whose sums are known by now.
static int depart(struct md_rank *rank)
{
    double heat = 0.0;
    int error = move(rank, NULL, &heat);
    rank->heat += heat;
    return error;
}

// A step of which atoms are collected: before their positions move on.
static int end_collected(struct md_rank *rank, struct run *run)
{
    int error = md_trajectory_add(rank);
    if (!error && is_last(rank, rank->step))
        error = md_collect(rank);
    // A run of no steps is one look at the coordinates as they stand.
    if (!error && rank->system.settings.steps == 0) {
        error = md_energy_sum(rank, &run->terms, 0.0);
        return error ? error : md_energies_add(rank);
    }
    if (!error && rank->gpu)
        error = move_on_gpu(run, sums_of_move(run, true) | MD_GPU_STEP_STORED);
    else if (!error && !is_verlet(rank))
        error = move(rank, run->want ? &run->terms : NULL, &run->heat);
    return error ? error : sum_up(rank, run);
}

static int run_halo(struct md_rank *rank, struct run *run, bool refresh)
{
    leat_step step = {.size = sizeof step,
                      .forward_field = refresh ? FIELD_X : -1,
                      .reverse_field = FIELD_F,
                      .consume = consume,
                      .advance = advance,
                      .user = run,
                      .while_forward = while_forward,
                      .while_reverse = while_reverse};
    int error = leat_halo_run(rank->domain.halo, &step, run->count, NULL);
    if (run->error)
        return leat_fail(run->error, "%s", run->detail);
    return error ? error : md_halo_check(rank);
}

int md_evaluate(struct md_rank *rank, bool refresh, struct md_terms *terms)
{
    struct run run = {.rank = rank, .count = 1, .want = true, .stay = true};
    int error = run_halo(rank, &run, refresh);
    *terms = run.terms;
    return error;
}

// Before a partition, from which a run can go on.
static int keep(struct md_rank *rank)
{
    int error = md_stop_watch(rank);
    bool stops = rank->files.stopping && rank->step > 0;
    if (!error && (md_checkpoint_due(rank) || (stops && rank->step != rank->files.checkpoint_step)))
        error = md_checkpoint_write(rank);
    return error || !stops ? error : md_stop(rank);
}

int md_steps(struct md_rank *rank)
{
    bool fresh = starts_list(rank, rank->step);
    struct run run = {.rank = rank, .count = 1};
    int error = 0;
    if (fresh)
        error = keep(rank);
    if (fresh && !error)
        error = md_domain_partition(rank);
    else if (!fresh && !rank->gpu)
        md_domain_image(rank);
    if (error)
        return error;
    rank->looping = true;
    // A partition has brought the ghosts, so its step begins otherwise than those that follow.
    while (!fresh && !ends_run(rank, rank->step + (int64_t)run.count - 1))
        run.count++;
    int64_t last = rank->step + (int64_t)run.count - 1;
    run.stay = is_last(rank, last) || md_trajectory_wants(rank, last);
    run.want = wants_energy(rank, last);
    error = rank->gpu ? run_on_gpu(&run, !fresh) : run_halo(rank, &run, !fresh);
    if (error)
        return error;
    error = run.stay ? end_collected(rank, &run) : sum_up(rank, &run);
    if (!error && !is_last(rank, last) && is_verlet(rank))
        error = depart(rank);
    if (error)
        return error;
    go_on(rank);
    return md_skin_watch(rank);
}
