/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of many small ranges: which stretches of the file are read at once, and where their pieces
 * go. call.c plans a call's short ranges with this and makes a task of each span; the others it
 * cuts as it does those of any call.
 */
#ifndef LEAT_FILE_RANGES_H
#define LEAT_FILE_RANGES_H

#include "file/internal.h"

#define FILE_PIECES_MAX 16384u /* of a load, so that what a device keeps of them is bounded */

/* A stretch of the file that is read at once; in the slot it lies at `slot`. */
struct file_run {
    uint64_t offset, bytes;
    uint64_t slot;
    uint32_t first, count; /* its pieces, by rising offset */
};

/* What one slot takes: runs one behind the other. Their pieces follow one another too. */
struct file_load {
    uint32_t first_run, run_count;
    uint32_t first_piece, piece_count;
    uint64_t slot_bytes; /* used of the slot */
    uint64_t bytes;      /* of the pieces */
};

/* What one task reads: loads, all to memory of one kind. */
struct file_span {
    const struct file_ranges *plan;
    struct file_memory memory; /* of its first piece */
    uint32_t first_load, load_count;
    uint64_t offset, bytes; /* of its first run; of the pieces */
};

/* Everything of one call. */
struct file_ranges {
    struct copies_piece *piece; /* `from` is the place in the slot */
    uint32_t *range;            /* [pieces]: whose it is */
    struct file_run *run;
    struct file_load *load;
    struct file_span *span;
    uint32_t piece_count, run_count, load_count, span_count;
};

struct file_ranges_rule {
    uint64_t small_bytes; /* ranges shorter than this are taken; at most slot_bytes */
    uint64_t slot_bytes;  /* most of a load: LEAT_FILE_BUFFER */
    uint64_t gap_bytes; /* read over rather than around: LEAT_FILE_GAP; without alignment at most 4
                           KiB */
    uint64_t alignment; /* of direct I/O, of offsets and slots; 0: none */
    uint32_t lanes;     /* to share the work among */
};

/* Ranges shorter than this are planned: the rule's small_bytes, or what fits a slot. */
uint64_t file_ranges_small(const struct file_ranges_rule *rule);

/* Plans those of the ranges that are short, and not empty; the plan has no span when there are
 * none. Reads no data. -ENOMEM, -E2BIG (2^32 ranges or more). */
int file_ranges_plan(const leat_file_range *ranges, const struct file_memory *memory, size_t count,
                     const struct file_ranges_rule *rule, struct file_ranges **plan);
/* Safe on NULL. */
void file_ranges_free(struct file_ranges *plan);

/* Carries out a task that has a span, by FILE_ODIRECT or FILE_BUFFERED: reports the ranges that end
 * early with file_request_stop and the bytes with file_task_moved, and sets task->done to the bytes
 * delivered. 0, or FILE_OTHER_PATH as a path's run has it. */
int file_ranges_run(struct file_lane *lane, struct file_task *task);

struct uring;

/* Runs to be read past the page cache into a slot. */
struct file_deep_read {
    const struct leat_file *file;
    const struct file_run *run;
    uint32_t run_count;
    char *slot;
    /* The run has come to an end after `got` bytes: the file's, or an error. */
    void (*shorter)(void *user, const struct file_run *run, uint64_t got);
    void *user;
};

/* 0 when all are there, or as far as they can be; -EINVAL, -EOPNOTSUPP the kernel refuses direct
 * reads of the file. *left: 0, or why the ring cannot be used; then any of the runs may be missing.
 */
int file_runs_read(struct uring *ring, const struct file_deep_read *read, int *left);

#endif
