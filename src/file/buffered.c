// SPDX-License-Identifier: Apache-2.0
// Through the page cache, by threads.
//
// Algorithm: memory of the host is read and written where it is. For a GPU's, slots are filled and
// emptied in turn, while copies of the others run: a read waits for a slot's last copy only when
// its turn comes again, and the lane goes on to the next task meanwhile; a write has the copies of
// as many slots under way as the lane has, and writes the oldest. Advantage: works for every file
// there is. Disadvantage: one copy by the CPU, so many threads for a fast device.

#include "file/internal.h"

#include "core/error.h"
#include "file/ranges.h"

#include <stdio.h>

static int buffered_can(struct leat_file *file, const struct file_need *need,
                        char reason[LEAT_REASON])
{
    (void)file;
    snprintf(reason, LEAT_REASON, "through the page cache%s",
             need->memory && !file_memory_plain(need->memory) ? " and bounce buffers" : "");
    return 0;
}

// ---- Tasks whose copies still run ----

struct behind_task {
    struct file_task *task;
    uint64_t begin; /* its `done` when the lane took it */
    uint64_t last;  /* number of the slot that it took last */
};

/* In the order of the lane's stream. Each has taken a slot at least. */
struct behind {
    struct behind_task task[FILE_SLOTS_MAX];
    int head, count;
    uint64_t taken; /* slots, so far */
    bool broken;    /* a copy has failed, and which one is not known */
};

static void end_task(struct file_lane *lane, struct file_task *task, uint64_t done, uint64_t begin,
                     int error)
{
    task->done = done;
    file_task_book(task, FILE_BUFFERED, done - begin);
    file_task_over(lane, task, error);
}

static void end_oldest(struct file_lane *lane, struct behind *behind, int error)
{
    const struct behind_task *oldest = &behind->task[behind->head];
    behind->head = (behind->head + 1) % FILE_SLOTS_MAX;
    behind->count--;
    end_task(lane, oldest->task, error ? oldest->begin : oldest->task->done, oldest->begin, error);
}

// Whether copies have failed, with `error` or one of their own.
static bool end_all(struct file_lane *lane, struct behind *behind, int error)
{
    int drained = file_lane_drain(lane);
    bool broken = behind->broken || drained;
    error = drained ? drained : error;
    while (behind->count)
        end_oldest(lane, behind, broken ? error : 0);
    behind->broken = false;
    return broken;
}

// A slot that is taken again has been copied, and all that was taken before it.
static int take_slot(struct file_lane *lane, struct behind *behind, struct file_slot **slot)
{
    int error = file_slot_take(lane, slot);
    behind->broken |= error != 0;
    behind->taken++;
    while (!error && behind->count &&
           behind->task[behind->head].last + (uint64_t)lane->slot_count <= behind->taken)
        end_oldest(lane, behind, 0);
    return error;
}

// ---- Reads into slots ----

static int read_slots(struct file_lane *lane, struct file_task *task, struct behind *behind)
{
    int error = 0;
    uint64_t got = 0, wanted = 0;
    while (!error && got == wanted && task->done < task->bytes) {
        struct file_slot *slot;
        error = take_slot(lane, behind, &slot);
        if (error)
            break;
        uint64_t rest = task->bytes - task->done;
        wanted = rest < lane->slot_bytes ? rest : lane->slot_bytes;
        error = file_task_pread(task, slot->buffer, wanted, task->offset + task->done, &got);
        int copied =
            got ? file_slot_to_memory(lane, slot, 0, task->memory.address + task->done, got) : 0;
        behind->broken |= copied != 0;
        error = copied ? copied : error;
        if (!copied)
            task->done += got;
    }
    return error;
}

// One that ends with an error of its own ends after those before it.
static void read_staged(struct file_lane *lane, struct file_task *task, struct behind *behind)
{
    uint64_t begin = task->done;
    int error = file_lane_use(lane, &task->memory);
    if (!error)
        error = read_slots(lane, task, behind);
    if (!error) {
        int at = (behind->head + behind->count++) % FILE_SLOTS_MAX;
        behind->task[at] = (struct behind_task){task, begin, behind->taken};
        return;
    }
    char text[LEAT_DETAIL_BYTES];
    snprintf(text, sizeof text, "%s", leat_error_detail());
    bool broken = end_all(lane, behind, error);
    leat_fail(error, "%s", text);
    end_task(lane, task, broken ? begin : task->done, begin, error);
}

// Without other tasks before or after it.
static int read_alone(struct file_lane *lane, struct file_task *task)
{
    struct behind behind = {0};
    uint64_t begin = task->done;
    int error = file_lane_use(lane, &task->memory);
    if (!error)
        error = read_slots(lane, task, &behind);
    int drained = file_lane_drain(lane);
    if (drained || behind.broken)
        task->done = begin; // which of the copies failed is not known
    return drained ? drained : error;
}

// ---- Writes out of slots ----

// Slots that copies fill while the oldest of them is written.
struct ahead {
    struct file_slot *slot[FILE_SLOTS_MAX];
    int head, count;
    uint64_t next; /* in the task: not yet in a slot */
};

static int copy_ahead(struct file_lane *lane, const struct file_task *task, struct ahead *ahead)
{
    while (ahead->count < lane->slot_count && ahead->next < task->bytes) {
        struct file_slot *slot;
        int error = file_slot_take(lane, &slot);
        if (error)
            return error;
        uint64_t rest = task->bytes - ahead->next;
        slot->bytes = rest < lane->slot_bytes ? rest : lane->slot_bytes;
        error = file_slot_from_memory(lane, slot, task->memory.address + ahead->next, slot->bytes);
        if (error)
            return error;
        ahead->next += slot->bytes;
        ahead->slot[(ahead->head + ahead->count++) % FILE_SLOTS_MAX] = slot;
    }
    return 0;
}

static int write_oldest(struct file_lane *lane, struct file_task *task, struct ahead *ahead)
{
    struct file_slot *slot = ahead->slot[ahead->head];
    uint64_t put = 0;
    ahead->head = (ahead->head + 1) % FILE_SLOTS_MAX;
    ahead->count--;
    int error = file_slot_wait(lane, slot);
    if (!error)
        error = file_task_pwrite(task, slot->buffer, slot->bytes, task->offset + task->done, &put);
    task->done += put;
    return error;
}

static int write_staged(struct file_lane *lane, struct file_task *task)
{
    struct ahead ahead = {.next = task->done};
    int error = file_lane_use(lane, &task->memory);
    while (!error && task->done < task->bytes) {
        error = copy_ahead(lane, task, &ahead);
        if (!error)
            error = write_oldest(lane, task, &ahead);
    }
    int drained = file_lane_drain(lane);
    return error ? error : drained;
}

// ---- Both ----

static bool reads(const struct file_task *task)
{
    return task->request->call.operation == LEAT_FILE_OP_READ;
}

static int buffered_run(struct file_lane *lane, struct file_task *task)
{
    if (task->span)
        return file_ranges_run(lane, task);
    if (!file_memory_plain(&task->memory))
        return reads(task) ? read_alone(lane, task) : write_staged(lane, task);
    uint64_t done = 0, rest = task->bytes - task->done, offset = task->offset + task->done;
    char *address = task->memory.address + task->done;
    int error = reads(task) ? file_task_pread(task, address, rest, offset, &done)
                            : file_task_pwrite(task, address, rest, offset, &done);
    task->done += done;
    return error;
}

static void run_alone(struct file_lane *lane, struct file_task *task)
{
    uint64_t begin = task->done;
    int error = buffered_run(lane, task);
    end_task(lane, task, task->done, begin, error);
}

static void buffered_serve(struct file_lane *lane, struct file_task *task)
{
    if (file_memory_plain(&task->memory)) {
        run_alone(lane, task);
        return;
    }
    struct behind behind = {0};
    const struct leat_file_request *request = task->request;
    for (int gpu = task->memory.gpu; task; task = file_pool_next(lane, FILE_BUFFERED, gpu)) {
        if (file_task_beyond(task)) {
            file_task_over(lane, task, 0);
            continue;
        }
        // A call does not wait for what is read for another, which may be slow.
        if (task->request != request)
            end_all(lane, &behind, 0);
        request = task->request;
        if (reads(task))
            read_staged(lane, task, &behind);
        else
            run_alone(lane, task);
    }
    end_all(lane, &behind, 0);
}

const struct file_path file_path_buffered = {
    .name = "buffered", .can = buffered_can, .run = buffered_run, .serve = buffered_serve};
