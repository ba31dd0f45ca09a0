// SPDX-License-Identifier: Apache-2.0
// A call cut into tasks.
//
// Algorithm: a path is chosen for the whole call, once for each kind of memory. Small ranges of a
// read are merged (ranges.c); the others are cut to the length that a thread carries out at a time,
// at pages of the file, so that no two tasks share one. Advantage: a call's threads never meet in a
// page or a block. Disadvantage: all of a call's tasks are made before the first one begins.

#include "device/ops.h"
#include "file/internal.h"
#include "file/ranges.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL_IN_HOST   (UINT64_C(16) << 10)
#define SMALL_ELSEWHERE (UINT64_C(256) << 10)
#define LEAST_BYTES     (UINT64_C(256) << 10) /* waking a thread is worth that much reading */

static bool same_memory(const struct file_memory *a, const struct file_memory *b)
{
    return a->kind == b->kind && a->gpu == b->gpu && a->registered == b->registered;
}

static struct file_need whole_need(const struct leat_file_request *request)
{
    struct file_need need = {.operation = request->call.operation, .offset = UINT64_MAX};
    uint64_t end = 0;
    for (size_t i = 0; i < request->call.range_count; i++) {
        const leat_file_range *range = &request->call.ranges[i];
        uint64_t last = range->file_offset + range->bytes;
        need.offset = range->file_offset < need.offset ? range->file_offset : need.offset;
        end = last > end ? last : end;
        need.bytes += range->bytes;
    }
    need.extent = request->call.range_count ? end - need.offset : 0;
    return need;
}

// The bytes of the next task: up to a page's end in the file.
static uint64_t cut(uint64_t offset, uint64_t rest, uint64_t task_bytes)
{
    uint64_t end = (offset + task_bytes) / PAGE_BYTES * PAGE_BYTES;
    uint64_t bytes = end > offset ? end - offset : task_bytes;
    return bytes < rest ? bytes : rest;
}

// A call through the page cache is cut finer than the setting says where there would be less than
// two tasks a thread.
uint64_t file_task_bytes(const struct leat_file *file, int row, uint64_t bytes)
{
    uint64_t liked = file_paths[row]->task_bytes;
    uint64_t most = liked > file->task_bytes ? liked : file->task_bytes;
    if (row != FILE_BUFFERED)
        return most;
    uint64_t share = bytes / (2 * (uint64_t)file_pool_lanes(file->pool));
    share = (share + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    share = share > LEAST_BYTES ? share : LEAST_BYTES;
    return share < most ? share : most;
}

static int task_room(struct leat_file_request *request, size_t *room)
{
    if (request->task_count < *room)
        return 0;
    *room = *room ? *room * 2 : 16;
    struct file_task *more = realloc(request->tasks, *room * sizeof *more);
    if (!more)
        return leat_fail(-ENOMEM, "no memory for %zu tasks of a file's call", *room);
    request->tasks = more;
    return 0;
}

static int cut_range(struct leat_file_request *request, size_t index, int row, uint64_t size,
                     size_t *room)
{
    const leat_file_range *range = &request->call.ranges[index];
    uint64_t done = 0;
    while (done < range->bytes) {
        int error = task_room(request, room);
        if (error)
            return error;
        struct file_task *task = &request->tasks[request->task_count++];
        *task = (struct file_task){.request = request,
                                   .range = index,
                                   .offset = range->file_offset + done,
                                   .memory = request->memory[index],
                                   .row = (enum file_row)row};
        task->memory.address += done;
        task->bytes = cut(task->offset, range->bytes - done, size);
        done += task->bytes;
    }
    return 0;
}

// ---- Many small ranges ----

// Ranges shorter than this are merged: what a system call of their own costs is then more than a
// copy of them.
static uint64_t small_bytes(const struct file_memory *memory)
{
    return file_memory_plain(memory) ? SMALL_IN_HOST : SMALL_ELSEWHERE;
}

static bool is_small(const struct leat_file_request *request, size_t index, uint64_t small)
{
    uint64_t bytes = request->call.ranges[index].bytes;
    return bytes && bytes < small;
}

static int make_span_tasks(struct leat_file_request *request, int row)
{
    const struct file_ranges *plan = request->plan;
    request->tasks = calloc(plan->span_count, sizeof *request->tasks);
    if (plan->span_count && !request->tasks)
        return leat_fail(-ENOMEM, "no memory for %u tasks of a file's call", plan->span_count);
    for (uint32_t i = 0; i < plan->span_count; i++)
        request->tasks[i] = (struct file_task){.request = request,
                                               .offset = plan->span[i].offset,
                                               .bytes = plan->span[i].bytes,
                                               .memory = plan->span[i].memory,
                                               .span = &plan->span[i],
                                               .row = (enum file_row)row};
    request->task_count = plan->span_count;
    return 0;
}

// Plans the small ranges, where there are several; *small is what they are shorter than, or 0.
static int plan_ranges(struct leat_file_request *request, const struct file_need *whole,
                       uint64_t *small)
{
    const struct leat_file *file = request->file;
    const struct config *config = &file->job->config;
    *small = 0;
    if (request->call.operation != LEAT_FILE_OP_READ || request->call.range_count < 2)
        return 0;
    struct file_ranges_rule rule = {.small_bytes = small_bytes(&request->memory[0]),
                                    .slot_bytes = file_slot_bytes(file->job),
                                    .gap_bytes = config->file_gap_bytes,
                                    .lanes = (uint32_t)file_pool_lanes(file->pool)};
    uint64_t limit = file_ranges_small(&rule);
    size_t count = 0, first = 0;
    for (size_t i = request->call.range_count; i-- > 0;)
        if (is_small(request, i, limit)) {
            first = i;
            count++;
        }
    if (count < 2)
        return 0;
    struct file_need need = *whole;
    need.memory = &request->memory[first];
    need.spans = true;
    int row = file_choose(request->file, &need, NULL);
    if (row < FILE_ODIRECT)
        return 0; // a rule asks for a path of single ranges
    rule.alignment = row == FILE_ODIRECT ? file->offset_alignment : 0;
    int error = file_ranges_plan(request->call.ranges, request->memory, request->call.range_count,
                                 &rule, &request->plan);
    *small = file_ranges_small(&rule); // with the alignment it may be less
    return error ? error : make_span_tasks(request, row);
}

int file_request_cut(struct leat_file_request *request)
{
    struct file_need need = whole_need(request);
    const struct file_memory *last = NULL;
    uint64_t small = 0, size = 0;
    int row = -1, error = plan_ranges(request, &need, &small);
    size_t room = request->task_count;
    for (size_t i = 0; i < request->call.range_count && !error; i++) {
        need.memory = &request->memory[i];
        if (!request->call.ranges[i].bytes || is_small(request, i, small))
            continue;
        if (!last || !same_memory(last, need.memory)) {
            row = file_choose(request->file, &need, NULL);
            size = row < 0 ? 0 : file_task_bytes(request->file, row, need.bytes);
        }
        last = need.memory;
        error = row < 0 ? row : cut_range(request, i, row, size, &room);
    }
    request->pending = request->task_count;
    return error;
}

// The row that memory of the job's device would take; where it can take none, the one that is asked
// for.
static int row_of(struct leat_file *file, uint64_t bytes)
{
    struct file_memory memory = {.kind = COPIES_HOST, .gpu = -1};
    leat_device_info device = {.size = sizeof device};
    if (!leat_device_info_get(file->job, &device) && device.number >= 0)
        memory = (struct file_memory){.kind = COPIES_DEVICE, .gpu = device.number};
    const struct file_need need = {
        .operation = LEAT_FILE_OP_READ, .memory = &memory, .bytes = bytes, .extent = bytes};
    int row = file_choose(file, &need, NULL);
    if (row >= 0)
        return row;
    return file->compat == COMPAT_OFF ? FILE_CUFILE
           : file->require >= 0       ? file->require
                                      : FILE_BUFFERED;
}

int leat_file_cut_get(leat_file *file, uint64_t bytes, leat_file_cut *cut)
{
    int error = leat_need(cut, "leat_file_cut_get", "cut");
    if (!error)
        error = leat_need(file, "leat_file_cut_get", "file");
    if (!error)
        error = file_enter(file);
    if (error)
        return error;
    uint64_t size = file_task_bytes(file, row_of(file, bytes), bytes);
    leat_file_cut made = {.tasks = bytes / size + (bytes % size != 0),
                          .task_bytes = bytes < size ? bytes : size};
    file_cufile_cut(file->job, made.task_bytes, &made);
    *cut = made;
    file_leave(file);
    return 0;
}
