// SPDX-License-Identifier: Apache-2.0
// One rank of `leat md` from open job to exit status: set-up, steps, report, and who prints what.
//
// Errors are printed once a cause. Until the loop begins all ranks come to the same verdict and
// rank 0 prints it. In the loop the rank that met the error prints it, and closes the job with it
// as the reason, which is what its peers then find. When a rank was killed or stopped, at any time,
// all that miss it say so. Advantage: a user reads the cause and not its echoes. Disadvantage: a
// rank that cannot print any more leaves nobody to say why.

#include "core/error.h"
#include "core/log.h"
#include "core/signal.h"
#include "md/halo_check.h"
#include "md/md.h"
#include "md/progress.h"
#include "md/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int make_steps(struct md_rank *rank, struct md_progress *progress, uint64_t *begin_ns)
{
    bool first = true;
    while (rank->step <= rank->system.settings.steps) {
        int error = md_steps(rank);
        if (!error && rank->gpu && (first || rank->step > rank->system.settings.steps))
            error = md_gpu_wait(rank);
        if (error)
            return leat_fail_in(error, "step %lld", (long long)rank->step);
        if (first && rank->system.settings.steps > 0) {
            // The first step touches all memory for the first time.
            md_clock_start(&rank->clock);
            *begin_ns = leat_now_ns();
        }
        first = false;
        md_progress_step(progress, rank->step - 1);
    }
    return 0;
}

static int loop(struct md_rank *rank)
{
    struct md_progress progress;
    md_progress_begin(&progress, rank->rank == 0 && !rank->options->json,
                      rank->system.settings.steps);
    uint64_t begin_ns = leat_now_ns();
    md_clock_start(&rank->clock);
    int error = md_system_minimises(&rank->system) ? md_minimise(rank, &progress)
                                                   : make_steps(rank, &progress, &begin_ns);
    rank->loop_s = (double)(leat_now_ns() - begin_ns) * 1e-9;
    md_progress_end(&progress);
    return error;
}

static void drop_input(struct md_rank *rank)
{
    struct gro *gro = rank->system.input;
    bool keep =
        rank->rank == 0 && (rank->options->out || md_trajectory_needs_labels(rank->options));
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
    int error = md_system_share(rank);
    if (!error && rank->options->device != MD_DEVICE_CPU)
        error = md_gpu_supports(rank);
    if (!error && rank->system.settings.steps > 0)
        error = md_agree(rank, md_system_prepare(&rank->system));
    if (!error)
        error = md_agree(rank, md_files_begin(rank));
    if (!error)
        error = md_agree(rank, md_domain_open(rank));
    if (error)
        return error;
    if (rank->options->device != MD_DEVICE_CPU)
        error = md_agree(rank, md_gpu_open(rank));
    if (error)
        return error;
    drop_input(rank);
    error = md_agree(rank, md_halo_check_open(rank));
    if (error)
        return error;
    error = rank->options->restart ? md_go_on(rank) : md_start(rank);
    return error ? error : md_agree_on_files(rank, md_files_open(rank));
}

static int finish(struct md_rank *rank)
{
    struct md_report report;
    int error = md_report_make(rank, &report);
    if (!error)
        error = md_agree_on_files(rank, md_write_files(rank));
    if (!error)
        error = md_agree_on_files(rank, md_files_close(rank));
    // One more verdict, so that no rank ends well while rank 0 cannot print.
    int printed = 0;
    if (!error && rank->rank == 0) {
        if (rank->options->json)
            printed = md_report_json(&report, stdout);
        else
            md_report_text(&report, stdout);
    }
    return error ? error : md_agree_on_files(rank, printed);
}

static int exit_status(int error, bool unsupported)
{
    enum { UNSUPPORTED = 77 };
    if (error && unsupported)
        return UNSUPPORTED;
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
    bool misses = error == -ETIMEDOUT || error == -ECONNRESET; // perhaps rank 0 itself
    if (!misses && (!rank->looping || rank->alike))
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
    md_team_free(rank->team);
    free(rank->thread_terms);
    md_system_free(&rank->system);
    free(rank->forces);
    md_files_end(rank);
    md_gpu_close(rank); // its memory is the job's
    leat_close(job, error ? detail : NULL);
    md_together_end(&rank->together);
    md_halo_check_close(rank);
    bool unsupported = rank->unsupported;
    free(rank);
    return exit_status(error, unsupported);
}
