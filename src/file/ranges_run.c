// SPDX-License-Identifier: Apache-2.0
// Carries out a span of a plan: reads its runs into slots, and brings the pieces where they belong.
//
// Algorithm: a slot is filled run by run; on a GPU one copy of the slot and a kernel that scatters
// its pieces follow while the next slot is filled, in host memory the pieces are copied while the
// slot is still in the cache. A run of one piece goes straight into host memory. A run that ends
// early is looked at piece by piece, so that what is wrong in a gap or in a neighbour's range does
// not count against a range. Advantage: a system call and a share of a copy for many ranges.
// Disadvantage: host memory pays a copy that single reads would not.

#include "file/ranges.h"

#include <errno.h>
#include <string.h>

struct filler {
    struct file_lane *lane;
    struct file_task *task;
    struct leat_file *file;
    const struct file_ranges *plan;
    bool direct, host;  /* past the page cache; into memory of the host */
    struct uring *ring; /* for direct reads, many under way at once; NULL: one by one */
    uint64_t delivered;
};

// Direct reads end where the file does: what is missing cannot be asked for at an unaligned offset.
static int read_direct(const struct filler *filler, const struct file_run *run, char *to,
                       uint64_t *done)
{
    const struct leat_file *file = filler->file;
    *done = 0;
    while (*done < run->bytes && *done % file->offset_alignment == 0) {
        ssize_t got = file->system->pread(file->direct_fd, to + *done, run->bytes - *done,
                                          (off_t)(run->offset + *done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        *done += (uint64_t)got;
    }
    return 0;
}

// Shortens a piece to what there is of it, and says so.
static void shorten(const struct filler *filler, uint32_t piece, uint64_t offset, uint64_t bytes,
                    int error)
{
    filler->plan->piece[piece].bytes = bytes;
    file_request_stop(filler->task->request, filler->plan->range[piece], offset + bytes, error);
}

// The run came to `got` bytes. Pieces beyond are asked for alone: each gets its own answer.
static void settle_short(const struct filler *filler, const struct file_run *run, char *slot,
                         uint64_t got)
{
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        struct copies_piece *piece = &filler->plan->piece[i];
        uint64_t begin = piece->from - run->slot, done = 0;
        if (begin + piece->bytes <= got)
            continue;
        uint64_t offset = run->offset + begin;
        int error = file_task_pread(filler->task, slot + piece->from, piece->bytes, offset, &done);
        if (done < piece->bytes)
            shorten(filler, i, offset, done, error);
    }
}

// One run of one piece into host memory: bytes past the end of the file are not touched.
static void read_in_place(const struct filler *filler, const struct file_run *run)
{
    const struct copies_piece *piece = &filler->plan->piece[run->first];
    uint64_t done;
    int error = file_task_pread(filler->task, (char *)(uintptr_t)piece->to, piece->bytes,
                                run->offset, &done);
    if (done < piece->bytes)
        shorten(filler, run->first, run->offset, done, error);
}

static bool goes_in_place(const struct filler *filler, const struct file_run *run)
{
    return filler->host && !filler->direct && run->count == 1 &&
           run->bytes == filler->plan->piece[run->first].bytes;
}

static int refuse_direct(const struct filler *filler, int error)
{
    file_path_forbid(filler->file, FILE_ODIRECT, "the file system refused a direct read: %s",
                     strerror(-error));
    return FILE_OTHER_PATH;
}

// Rounded up to blocks, the last ones that an offset can have pass 2^63: not the path's fault.
static bool passes_end(const struct file_run *run)
{
    return run->offset + run->bytes > INT64_MAX;
}

// Into the slot.
static int read_run(const struct filler *filler, const struct file_run *run, char *slot)
{
    uint64_t done = 0;
    int error = filler->direct ? read_direct(filler, run, slot + run->slot, &done)
                               : file_task_pread(filler->task, slot + run->slot, run->bytes,
                                                 run->offset, &done);
    if (filler->direct && !passes_end(run) && (error == -EINVAL || error == -EOPNOTSUPP))
        return refuse_direct(filler, error);
    if (done < run->bytes)
        settle_short(filler, run, slot, done);
    return 0;
}

// A load that is being read by the lane's ring.
struct deep_load {
    const struct filler *filler;
    char *slot;
};

static void shorter(void *user, const struct file_run *run, uint64_t got)
{
    const struct deep_load *load = user;
    settle_short(load->filler, run, load->slot, got);
}

// Where the ring turns out to be of no use, it is left, and all runs are read one by one.
static int read_deep(struct filler *filler, const struct file_load *load, char *slot)
{
    struct deep_load deep = {filler, slot};
    struct file_deep_read read = {.file = filler->file,
                                  .run = &filler->plan->run[load->first_run],
                                  .run_count = load->run_count,
                                  .slot = slot,
                                  .shorter = shorter,
                                  .user = &deep};
    int left;
    int error = file_runs_read(filler->ring, &read, &left);
    if (left) {
        file_lane_leave_uring(filler->lane, left);
        filler->ring = NULL;
    }
    return error ? refuse_direct(filler, error) : 0;
}

// ---- Into memory ----

static void copy_pieces(const struct filler *filler, const struct file_run *run, const char *slot)
{
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        const struct copies_piece *piece = &filler->plan->piece[i];
        memcpy((char *)(uintptr_t)piece->to, slot + piece->from, piece->bytes);
    }
}

static int scatter(const struct filler *filler, const struct file_load *load,
                   struct file_slot *slot)
{
    int mark = (int)(slot - filler->lane->slot);
    int error = file_copies(filler->lane->job)
                    ->scatter(filler->lane->copies, mark, slot->buffer, load->slot_bytes,
                              &filler->plan->piece[load->first_piece], load->piece_count);
    if (!error)
        slot->state = SLOT_COPYING;
    return error;
}

static uint64_t pieces_bytes(const struct filler *filler, const struct file_load *load)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < load->piece_count; i++)
        bytes += filler->plan->piece[load->first_piece + i].bytes;
    return bytes;
}

static int carry_load(struct filler *filler, const struct file_load *load)
{
    struct file_slot *slot;
    int error = file_slot_take(filler->lane, &slot);
    if (!error && filler->ring)
        error = read_deep(filler, load, slot->buffer);
    for (uint32_t i = 0; !error && i < load->run_count; i++) {
        const struct file_run *run = &filler->plan->run[load->first_run + i];
        if (goes_in_place(filler, run)) {
            read_in_place(filler, run);
            continue;
        }
        if (!filler->ring)
            error = read_run(filler, run, slot->buffer);
        if (!error && filler->host)
            copy_pieces(filler, run, slot->buffer);
    }
    if (!error && !filler->host)
        error = scatter(filler, load, slot);
    if (error)
        return error;
    uint64_t bytes = pieces_bytes(filler, load);
    filler->delivered += bytes;
    file_task_moved(filler->task, bytes);
    return 0;
}

// Nothing of the span counts: its copies have failed, or there are no means for them.
static void fail_all(const struct filler *filler, const struct file_span *span, int error)
{
    for (uint32_t l = span->first_load; l < span->first_load + span->load_count; l++) {
        const struct file_load *load = &filler->plan->load[l];
        for (uint32_t r = load->first_run; r < load->first_run + load->run_count; r++) {
            const struct file_run *run = &filler->plan->run[r];
            for (uint32_t i = run->first; i < run->first + run->count; i++)
                file_request_stop(filler->task->request, filler->plan->range[i],
                                  run->offset + (filler->plan->piece[i].from - run->slot), error);
        }
    }
}

int file_ranges_run(struct file_lane *lane, struct file_task *task)
{
    const struct file_span *span = task->span;
    struct filler filler = {.lane = lane,
                            .task = task,
                            .file = task->request->file,
                            .plan = span->plan,
                            .direct = task->row == FILE_ODIRECT,
                            .host = file_memory_plain(&span->memory)};
    filler.ring = filler.direct ? file_lane_uring(lane) : NULL;
    int error = filler.host ? 0 : file_lane_use(lane, &span->memory);
    for (uint32_t i = 0; !error && i < span->load_count; i++)
        error = carry_load(&filler, &span->plan->load[span->first_load + i]);
    int drained = file_lane_drain(lane);
    if (!error)
        error = drained;
    task->done = error ? 0 : filler.delivered;
    if (error && error != FILE_OTHER_PATH) {
        fail_all(&filler, span, error);
        error = 0;
    }
    return error;
}
