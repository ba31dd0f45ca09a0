// SPDX-License-Identifier: Apache-2.0
// One rank of `leat md` from open job to exit status: set-up, leap-frog steps, report.
//
// Algorithm of a step: positions to the ghosts (or a new partition), forces, ghosts' forces back
// home, velocities and positions on, constraints. Energies, and with them a sum over ranks, only in
// the steps that ask for them. Advantage: two exchanges a step and nothing else between ranks.
// Disadvantage: a fault that only a sum shows is seen up to nstcalcenergy steps late.
//
// Errors are printed once a cause. Until the loop begins all ranks come to the same verdict and
// rank 0 prints it. In the loop the rank that met the error prints it, and closes the job with it
// as the reason, which is what its peers then find. When a rank was killed, all that miss it say
// so.

#include "core/error.h"
#include "core/log.h"
#include "core/signal.h"
#include "md/md.h"
#include "md/progress.h"
#include "md/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double thermostat(struct md_rank *rank, double *heat)
{
    const struct md_system *system = &rank->system;
    const struct md_settings *settings = &system->settings;
    *heat = 0.0;
    if (settings->tcoupl != MD_TCOUPL_V_RESCALE ||
        (rank->step + system->couple_steps - 1) % system->couple_steps)
        return 1.0;
    return md_v_rescale(rank->ekin_half, system->degrees, settings->ref_t_k, settings->tau_t_ps,
                        system->couple_steps * settings->dt_ps, settings->ld_seed, rank->step,
                        heat);
}

static bool couples_next(const struct md_rank *rank)
{
    return rank->system.settings.tcoupl == MD_TCOUPL_V_RESCALE &&
           rank->step % rank->system.couple_steps == 0;
}

static bool stops_centre(const struct md_rank *rank)
{
    const struct md_settings *settings = &rank->system.settings;
    return settings->remove_com && settings->nstcomm > 0 && rank->step % settings->nstcomm == 0;
}

static void record_drift(struct md_rank *rank)
{
    double time_ps = (double)rank->step * rank->system.settings.dt_ps;
    if (time_ps >= rank->options->drift_after_ps)
        md_slope_add(&rank->slope, time_ps, rank->energy.conserved);
}

// Positions and velocities to the next step; energies at this one, which needs both half steps.
static int move(struct md_rank *rank, bool want, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    double heat;
    double factor = thermostat(rank, &heat);
    // Half a cut-off in one step is hundreds of times what atoms do at any temperature of interest.
    double limit_nm = 0.5 * rank->system.interaction.cutoff_nm;
    int error = md_leapfrog(&domain->atoms, domain->waters.count ? &domain->waters : NULL,
                            rank->system.settings.dt_ps, factor, limit_nm, domain->scratch,
                            want ? terms->virial : NULL, rank->ekin_after);
    if (error)
        return error;
    md_clock_lap(&rank->clock, PHASE_UPDATE);
    // The mean of the two half steps has seen half of what the thermostat did between them.
    if (want)
        error = md_energy_sum(rank, terms, rank->heat + 0.5 * heat);
    else if (couples_next(rank))
        error = md_kinetic_sum(rank);
    rank->heat += heat;
    if (!error && want)
        record_drift(rank);
    if (!error && stops_centre(rank))
        error = md_stop_centre(rank);
    memcpy(rank->ekin_before, rank->ekin_after, sizeof rank->ekin_before);
    md_clock_lap(&rank->clock, PHASE_OTHER);
    return error;
}

static int take_step(struct md_rank *rank)
{
    const struct md_settings *settings = &rank->system.settings;
    bool last = rank->step == settings->steps;
    bool want = last || rank->step % settings->nstcalcenergy == 0;
    bool partition = rank->step == 0 || rank->step % settings->nstlist == 0;
    struct md_terms terms;
    int error = partition ? md_domain_partition(rank) : md_domain_refresh(rank);
    if (error)
        return error;
    rank->looping = true;
    error = md_forces(rank, want, &terms);
    if (!error && last)
        error = md_collect(rank);
    if (error)
        return error;
    // A run of no steps is one look at the coordinates as they stand.
    return settings->steps == 0 ? md_energy_sum(rank, &terms, 0.0) : move(rank, want, &terms);
}

static int loop(struct md_rank *rank)
{
    struct md_progress progress;
    md_progress_begin(&progress, rank->rank == 0 && !rank->options->json,
                      rank->system.settings.steps);
    uint64_t begin_ns = leat_now_ns();
    md_clock_start(&rank->clock);
    int error = 0;
    for (rank->step = 0; !error && rank->step <= rank->system.settings.steps; rank->step++) {
        error = take_step(rank);
        if (error) {
            leat_fail_in(error, "step %lld", (long long)rank->step);
            break;
        }
        md_clock_step(&rank->clock);
        if (rank->step == 0 && rank->system.settings.steps > 0) {
            // The first step touches all memory for the first time.
            md_clock_start(&rank->clock);
            begin_ns = leat_now_ns();
        }
        md_progress_step(&progress, rank->step);
    }
    rank->loop_s = (double)(leat_now_ns() - begin_ns) * 1e-9;
    md_progress_end(&progress);
    return error;
}

static void drop_input(struct md_rank *rank)
{
    struct gro *gro = rank->system.input;
    bool keep = rank->rank == 0 && rank->options->out;
    if (!keep) {
        gro_free(gro);
        rank->system.input = NULL;
        return;
    }
    free(gro->x_nm);
    free(gro->v_nm_ps);
    gro->x_nm = gro->v_nm_ps = NULL;
}

static int set_up(struct md_rank *rank)
{
    int error =
        leat_agree(rank->job, md_system_load(rank->options, rank->rank == 0, &rank->system));
    if (!error)
        error = leat_agree(rank->job, md_domain_open(rank));
    if (error)
        return error;
    drop_input(rank);
    return md_start(rank);
}

static int finish(struct md_rank *rank)
{
    struct md_report report;
    int error = md_report_make(rank, &report);
    if (!error)
        error = leat_agree(rank->job, md_write_files(rank));
    // One more verdict, so that no rank ends well while rank 0 cannot print.
    int printed = 0;
    if (!error && rank->rank == 0) {
        if (rank->options->json)
            printed = md_report_json(&report, stdout);
        else
            md_report_text(&report, stdout);
    }
    return error ? error : leat_agree(rank->job, printed);
}

static int exit_status(int error)
{
    return error == 0 ? 0 : error == -ETIMEDOUT ? 124 : 1;
}

// The rank that failed first, if it is another; else NULL.
static const struct rank_record *first_failed(const struct md_rank *rank)
{
    const struct segment_head *head = rank->job->segment->head;
    int first = __atomic_load_n(&head->first_failed, __ATOMIC_ACQUIRE) - 1;
    return first < 0 || first == rank->rank ? NULL : leat_rank_record(rank->job, first);
}

// The rank that failed first has left with a reason, which it has printed.
static bool told_by_peer(const struct md_rank *rank)
{
    const struct rank_record *record = first_failed(rank);
    uint32_t state = record ? __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) : RANK_ABSENT;
    return (state == RANK_CLOSED || state == RANK_DEAD) && record->failed;
}

// The status of a job is that of the first rank to end. Who only follows lets the cause go first.
static void follow(const struct md_rank *rank)
{
    const struct rank_record *record = first_failed(rank);
    const struct timespec pause = {.tv_nsec = 5000000};
    if (!record || rank->job->segment->head->threads)
        return;
    for (int i = 0; i < 100; i++) {
        if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == RANK_DEAD)
            return;
        nanosleep(&pause, NULL);
    }
}

static bool is_mine_to_print(const struct md_rank *rank, int error)
{
    if (!rank->looping || rank->alike)
        return rank->rank == 0;
    return error != -EREMOTEIO && !(error == -ECONNRESET && told_by_peer(rank));
}

static void complain(const struct md_rank *rank, int error)
{
    if (is_mine_to_print(rank, error))
        leat_log(LOG_WARN, LOG_ERROR, rank->rank_count > 1 ? rank->rank : -1, "%s",
                 leat_error_detail());
}

int md_run_rank(leat_job *job, const struct md_options *options)
{
    leat_job_info info = {.size = sizeof info};
    struct md_rank *rank = calloc(1, sizeof *rank);
    int error = rank ? leat_job_info_get(job, &info) : leat_fail(-ENOMEM, "no memory for a rank");
    if (error) {
        leat_log(LOG_WARN, LOG_ERROR, -1, "%s", leat_error_detail());
        free(rank);
        leat_close(job, leat_error_detail());
        return 1;
    }
    *rank = (struct md_rank){
        .job = job, .rank = info.rank, .rank_count = info.rank_count, .options = options};
    error = set_up(rank);
    if (!error)
        error = loop(rank);
    if (!error)
        error = finish(rank);
    char detail[LEAT_DETAIL_BYTES] = "";
    if (error) {
        complain(rank, error);
        if (error == -ECONNRESET)
            follow(rank);
        memcpy(detail, leat_error_detail(), strnlen(leat_error_detail(), sizeof detail - 1));
    }
    md_domain_close(&rank->domain);
    md_system_free(&rank->system);
    free(rank->forces);
    free(rank);
    leat_close(job, error ? detail : NULL);
    return exit_status(error);
}
