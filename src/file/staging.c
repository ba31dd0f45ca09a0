// SPDX-License-Identifier: Apache-2.0
// A lane's slots: bounce buffers in a ring, each with a mark in the lane's stream of copies.
//
// Algorithm: slots are taken in turn. One that is copying is waited for by its mark, and by then
// the copies of those taken before it are over too, since a stream keeps its order. Advantage:
// reading into one slot and copying from others overlap without a thread between them.
// Disadvantage: where one read is slow, free slots behind it wait too.

#include "file/internal.h"

#include <errno.h>

int file_lane_use(struct file_lane *lane, const struct file_memory *memory)
{
    const struct copies_ops *copies = file_copies(lane->job);
    if (lane->copies && lane->gpu == memory->gpu)
        return 0;
    int error = file_lane_drain(lane);
    if (error)
        return error;
    if (lane->copies)
        copies->close(lane->copies);
    lane->copies = NULL;
    error = copies->open(lane->job->device, memory->gpu, FILE_SLOTS_MAX,
                         lane->only ? 0 : COPIES_PLACE, &lane->copies);
    lane->gpu = memory->gpu;
    return error;
}

int file_slot_wait(struct file_lane *lane, struct file_slot *slot)
{
    if (slot->state != SLOT_COPYING)
        return 0;
    int passed = file_copies(lane->job)->passed(lane->copies, (int)(slot - lane->slot), true);
    // After a failed copy the slot is no safer to keep than to use: the lane's stream is broken.
    slot->state = SLOT_FREE;
    return passed < 0 ? passed : 0;
}

static int fill_in(struct file_lane *lane, struct file_slot *slot)
{
    void *made = NULL;
    if (slot->buffer)
        return 0;
    int error =
        file_copies(lane->job)->alloc(lane->job->device, lane->gpu, lane->slot_bytes, &made);
    slot->buffer = made;
    return error;
}

int file_slot_spare(struct file_lane *lane, struct file_slot **spare)
{
    *spare = &lane->slot[lane->slot_count];
    return fill_in(lane, *spare);
}

int file_slot_take(struct file_lane *lane, struct file_slot **taken)
{
    struct file_slot *slot = &lane->slot[lane->next];
    int error = file_slot_wait(lane, slot);
    if (error)
        return error;
    if (slot->state != SLOT_FREE)
        return leat_fail(-EBUSY, "a bounce buffer is in use although its turn has come");
    error = fill_in(lane, slot);
    if (error)
        return error;
    lane->next = (lane->next + 1) % lane->slot_count;
    *taken = slot;
    return 0;
}

static int copy_and_mark(struct file_lane *lane, struct file_slot *slot, void *to, const void *from,
                         uint64_t bytes)
{
    const struct copies_ops *copies = file_copies(lane->job);
    int error = copies->copy(lane->copies, to, from, bytes);
    if (!error)
        error = copies->mark(lane->copies, (int)(slot - lane->slot));
    // What was enqueued before an error may still run.
    slot->state = error ? slot->state : SLOT_COPYING;
    return error;
}

int file_slot_to_memory(struct file_lane *lane, struct file_slot *slot, uint64_t from, void *to,
                        uint64_t bytes)
{
    return copy_and_mark(lane, slot, to, slot->buffer + from, bytes);
}

int file_slot_from_memory(struct file_lane *lane, struct file_slot *slot, const void *from,
                          uint64_t bytes)
{
    return copy_and_mark(lane, slot, slot->buffer, from, bytes);
}

int file_lane_drain(struct file_lane *lane)
{
    int error = 0;
    for (int i = 0; i < lane->slot_count; i++) {
        int failed = file_slot_wait(lane, &lane->slot[i]);
        error = error ? error : failed;
    }
    return error;
}

void file_lane_free(struct file_lane *lane)
{
    const struct copies_ops *copies = file_copies(lane->job);
    file_lane_drain(lane);
    for (int i = 0; i <= lane->slot_count; i++)
        if (lane->slot[i].buffer)
            copies->free(lane->job->device, lane->slot[i].buffer, lane->slot_bytes);
    if (lane->copies)
        copies->close(lane->copies);
    file_ring_free(lane->ring);
}
