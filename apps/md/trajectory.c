// SPDX-License-Identifier: Apache-2.0
// Trajectories: frames of .trr or .gro, one behind the other.
//
// Algorithm: a frame's length is known before its atoms are, and where in it each atom belongs, so
// rank 0 puts them there as it takes them from the ranks, and begins to write. Steps go on
// meanwhile; the write is waited for before the frame's memory is used again. Advantage: the loop
// does not wait for the disk, and rank 0 holds one copy of what is written. Disadvantage: frames
// that come faster than the disk takes them make it wait all the same.

#include "core/error.h"
#include "format/trr.h"
#include "leat/file.h"
#include "md/collect.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DECIMALS = 3 }; // of a .gro, as --out has them

struct md_trajectory {
    leat_file *file;
    leat_file_request *request; // NULL: nothing is under way
    leat_file_range range;
    unsigned char *frame;
    uint64_t capacity;
    bool is_gro;
    // Of the frame that is being put together.
    const struct gro_label *label;
    struct trr_frame head;
    struct trr_layout layout;
    uint64_t first_line;
    unsigned int line_bytes;
};

static bool is_multiple(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

static bool ends_in_gro(const char *path)
{
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".gro") == 0;
}

bool md_trajectory_needs_labels(const struct md_options *options)
{
    return options->trajectory && ends_in_gro(options->trajectory);
}

// Each array at its own pace, and positions and velocities of the last step whatever it is, which
// GROMACS' manual promises and mdrun leaves to its .gro.
int md_trajectory_wants(const struct md_rank *rank, int64_t step)
{
    const struct md_settings *settings = &rank->system.settings;
    const char *path = rank->options->trajectory;
    if (!path)
        return 0;
    bool last = step == settings->steps;
    int wanted = (last || is_multiple(step, settings->nstxout) ? MD_WANT_X : 0) |
                 (last || is_multiple(step, settings->nstvout) ? MD_WANT_V : 0) |
                 (is_multiple(step, settings->nstfout) ? MD_WANT_F : 0);
    if (ends_in_gro(path))
        return wanted & MD_WANT_X ? wanted & ~MD_WANT_F : 0;
    return wanted;
}

// ---- The file ----

static int fail_steps(const struct md_rank *rank)
{
    return leat_fail(-EOVERFLOW,
                     "%s: a .trr has room for steps up to %d, but the last is %lld; write a .gro, "
                     "or make the run in parts",
                     rank->options->trajectory, INT32_MAX, (long long)rank->system.settings.steps);
}

// What is behind the checkpoint's place was written by the run that was interrupted.
static int cut(struct md_rank *rank, leat_file *file)
{
    leat_file_info info = {.size = sizeof info};
    uint64_t from = rank->files.trajectory_bytes;
    int error = leat_file_info_get(file, NULL, &info);
    if (!error && info.bytes < from)
        error = leat_fail(-EINVAL,
                          "%s has %llu bytes, less than the %llu that it had when the checkpoint "
                          "was written; it is another file, name a new one",
                          rank->options->trajectory, (unsigned long long)info.bytes,
                          (unsigned long long)from);
    return error ? error : leat_file_resize(file, from);
}

static int open_file(struct md_rank *rank, struct md_trajectory *trajectory)
{
    bool goes_on = rank->options->restart && rank->files.trajectory_bytes > 0 &&
                   access(rank->options->trajectory, F_OK) == 0;
    leat_file_options options = {.size = sizeof options,
                                 .flags = LEAT_FILE_WRITE |
                                          (goes_on ? 0 : LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE)};
    if (!goes_on)
        rank->files.trajectory_bytes = 0;
    trajectory->is_gro = ends_in_gro(rank->options->trajectory);
    if (!trajectory->is_gro && rank->system.settings.steps > INT32_MAX)
        return fail_steps(rank);
    int error = leat_file_open(rank->job, rank->options->trajectory, &options, &trajectory->file);
    return error || !goes_on ? error : cut(rank, trajectory->file);
}

int md_trajectory_open(struct md_rank *rank)
{
    if (!rank->options->trajectory || rank->rank > 0)
        return 0;
    rank->files.trajectory = calloc(1, sizeof *rank->files.trajectory);
    if (!rank->files.trajectory)
        return leat_fail(-ENOMEM, "no memory for a trajectory");
    return open_file(rank, rank->files.trajectory);
}

// Waits for the frame before.
static int await(struct md_trajectory *trajectory)
{
    if (!trajectory->request)
        return 0;
    int error = leat_file_wait(trajectory->request, -1, NULL);
    if (error != -ETIMEDOUT)
        trajectory->request = NULL;
    return error;
}

int md_trajectory_sync(struct md_rank *rank)
{
    struct md_trajectory *trajectory = rank->files.trajectory;
    if (!trajectory)
        return 0;
    int error = await(trajectory);
    return error ? error : leat_file_sync(trajectory->file);
}

int md_trajectory_close(struct md_rank *rank)
{
    struct md_trajectory *trajectory = rank->files.trajectory;
    if (!trajectory)
        return 0;
    rank->files.trajectory = NULL;
    int error = await(trajectory);
    int closed = leat_file_close(trajectory->file); // waits for what still is under way
    free(trajectory->frame);
    free(trajectory);
    return error ? error : closed;
}

// ---- A frame ----

static int reserve(struct md_trajectory *trajectory, uint64_t bytes)
{
    if (bytes <= trajectory->capacity)
        return 0;
    free(trajectory->frame);
    trajectory->frame = malloc(bytes);
    trajectory->capacity = trajectory->frame ? bytes : 0;
    return trajectory->frame ? 0
                             : leat_fail(-ENOMEM, "no memory for a frame of %llu bytes",
                                         (unsigned long long)bytes);
}

static int begin_trr(const struct md_rank *rank, int wanted, struct md_trajectory *trajectory)
{
    struct trr_frame *head = &trajectory->head;
    *head = (struct trr_frame){.atom_count = rank->system.atom_count,
                               .step = rank->step,
                               .time_ps = (double)rank->step * rank->system.settings.dt_ps,
                               .is_double = rank->options->precision == MD_DOUBLE,
                               .has_box = true,
                               .has_x = wanted & MD_WANT_X,
                               .has_v = wanted & MD_WANT_V,
                               .has_f = wanted & MD_WANT_F};
    memcpy(head->box_nm, rank->system.box_nm, sizeof head->box_nm);
    int error = trr_lay_out(head, &trajectory->layout);
    if (!error)
        error = reserve(trajectory, trajectory->layout.bytes);
    if (error)
        return error;
    trr_put_head(head, trajectory->frame);
    trajectory->range.bytes = trajectory->layout.bytes;
    return 0;
}

static int begin_gro(const struct md_rank *rank, int wanted, struct md_trajectory *trajectory)
{
    char head[256], box[GRO_BOX_BYTES];
    const struct gro *gro = rank->system.input;
    int head_bytes = snprintf(head, sizeof head, "%.*s t= %.5f step= %lld\n%5lld\n",
                              (int)strcspn(gro->title, "\r\n"), gro->title,
                              (double)rank->step * rank->system.settings.dt_ps,
                              (long long)rank->step, (long long)gro->atom_count);
    int box_bytes = gro_put_box((const double(*)[3])rank->system.box_nm, DECIMALS, box);
    if (box_bytes < 0)
        return box_bytes;
    trajectory->label = gro->labels;
    trajectory->line_bytes = gro_atom_bytes(DECIMALS, wanted & MD_WANT_V);
    trajectory->first_line = (uint64_t)head_bytes;
    uint64_t end = (uint64_t)head_bytes + (uint64_t)gro->atom_count * trajectory->line_bytes;
    int error = reserve(trajectory, end + (uint64_t)box_bytes);
    if (error)
        return error;
    memcpy(trajectory->frame, head, (size_t)head_bytes);
    memcpy(trajectory->frame + end, box, (size_t)box_bytes);
    trajectory->range.bytes = end + (uint64_t)box_bytes;
    return 0;
}

static int put_in_trr(void *user, int64_t id, const double *x_nm, const double *v_nm_ps,
                      const double *f)
{
    const struct md_trajectory *trajectory = user;
    const struct trr_layout *layout = &trajectory->layout;
    uint64_t at = (uint64_t)id * layout->vector_bytes;
    if (x_nm)
        trr_put_vector(&trajectory->head, x_nm, trajectory->frame + layout->x + at);
    if (v_nm_ps)
        trr_put_vector(&trajectory->head, v_nm_ps, trajectory->frame + layout->v + at);
    if (f)
        trr_put_vector(&trajectory->head, f, trajectory->frame + layout->f + at);
    return 0;
}

static int put_in_gro(void *user, int64_t id, const double *x_nm, const double *v_nm_ps,
                      const double *f)
{
    const struct md_trajectory *trajectory = user;
    uint64_t at = trajectory->first_line + (uint64_t)id * trajectory->line_bytes;
    (void)f;
    return gro_put_atom(&trajectory->label[id], id, x_nm, v_nm_ps, DECIMALS,
                        (char *)trajectory->frame + at);
}

static int begin_frame(const struct md_rank *rank, int wanted)
{
    struct md_trajectory *trajectory = rank->files.trajectory;
    if (!trajectory)
        return 0;
    int error = await(trajectory);
    if (error)
        return error;
    return trajectory->is_gro ? begin_gro(rank, wanted, trajectory)
                              : begin_trr(rank, wanted, trajectory);
}

static int start_writing(struct md_rank *rank)
{
    struct md_trajectory *trajectory = rank->files.trajectory;
    leat_file_call call = {.size = sizeof call,
                           .operation = LEAT_FILE_OP_WRITE,
                           .ranges = &trajectory->range,
                           .range_count = 1};
    trajectory->range.file_offset = rank->files.trajectory_bytes;
    trajectory->range.buffer = (leat_buffer){.address = trajectory->frame};
    rank->files.trajectory_bytes += trajectory->range.bytes;
    return leat_file_start(trajectory->file, &call, &trajectory->request);
}

int md_trajectory_add(struct md_rank *rank)
{
    int wanted = md_trajectory_wants(rank, rank->step);
    struct md_trajectory *trajectory = rank->files.trajectory;
    if (!wanted)
        return 0;
    const struct md_taker taker = {trajectory && trajectory->is_gro ? put_in_gro : put_in_trr,
                                   trajectory};
    int error = md_collect_atoms(rank, begin_frame(rank, wanted), wanted, &taker);
    if (!error && rank->rank == 0)
        error = start_writing(rank);
    md_clock_lap(&rank->clock, PHASE_OTHER);
    return error;
}
