// SPDX-License-Identifier: Apache-2.0
// Through the page cache, by threads.
//
// Algorithm: memory of the host is read and written where it is. For a GPU's, slots are filled and
// emptied in turn, while copies of the others run: a read waits for a slot's last copy only when
// its turn comes again; a write has the copies of as many slots under way as the lane has, and
// writes the oldest. Advantage: works for every file there is. Disadvantage: one copy by the CPU,
// so many threads for a fast device.

#include "file/internal.h"
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

static int read_staged(struct file_lane *lane, struct file_task *task)
{
    const struct leat_file *file = task->request->file;
    int error = file_lane_use(lane, &task->memory);
    uint64_t got = 0, wanted = 0;
    while (!error && got == wanted && task->done < task->bytes) {
        struct file_slot *slot;
        error = file_slot_take(lane, &slot);
        if (error)
            break;
        uint64_t rest = task->bytes - task->done;
        wanted = rest < lane->slot_bytes ? rest : lane->slot_bytes;
        error =
            file_pread_all(file, file->fd, slot->buffer, wanted, task->offset + task->done, &got);
        int copied =
            got ? file_slot_to_memory(lane, slot, 0, task->memory.address + task->done, got) : 0;
        error = copied ? copied : error;
        if (!copied)
            task->done += got;
        file_task_moved(task, got);
    }
    int drained = file_lane_drain(lane);
    if (drained)
        task->done = 0; // which of the copies failed is not known
    return drained ? drained : error;
}

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
    const struct leat_file *file = task->request->file;
    struct file_slot *slot = ahead->slot[ahead->head];
    uint64_t put = 0;
    ahead->head = (ahead->head + 1) % FILE_SLOTS_MAX;
    ahead->count--;
    int error = file_slot_wait(lane, slot);
    if (!error)
        error = file_pwrite_all(file, file->fd, slot->buffer, slot->bytes,
                                task->offset + task->done, &put);
    task->done += put;
    file_task_moved(task, put);
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

static int buffered_run(struct file_lane *lane, struct file_task *task)
{
    const struct leat_file *file = task->request->file;
    bool reading = task->request->call.operation == LEAT_FILE_OP_READ;
    if (task->span)
        return file_ranges_run(lane, task);
    if (!file_memory_plain(&task->memory))
        return reading ? read_staged(lane, task) : write_staged(lane, task);
    uint64_t done = 0, rest = task->bytes - task->done, offset = task->offset + task->done;
    char *address = task->memory.address + task->done;
    int error = reading ? file_pread_all(file, file->fd, address, rest, offset, &done)
                        : file_pwrite_all(file, file->fd, address, rest, offset, &done);
    task->done += done;
    file_task_moved(task, done);
    return error;
}

const struct file_path file_path_buffered = {
    .name = "buffered", .can = buffered_can, .run = buffered_run};
