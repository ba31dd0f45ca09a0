/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way that a byte can take between a file and memory, for tests that are to hold on all of
 * them: through the page cache or past it, with io_uring or without, to memory of the host, aligned
 * or not, or of a device whose copies come late.
 */
#ifndef SUPPORT_FILE_WAYS_H
#define SUPPORT_FILE_WAYS_H

#include "support/fake_copies.h"
#include "support/file_faults.h"
#include "support/file_stage.h"

struct way {
    const char *name, *path; /* the path that carries it */
    const char *direct;
    bool device, no_ring;
    uint64_t shift; /* of the memory, from a page */
};

extern const struct way file_ways[];
extern const size_t file_way_count;

/* Sets small tasks and buffers, so that little data has many of each. Before stage_begin. */
void ways_settings(void);
/* The stage's next file and memory go this way, with these faults (NULL: none). */
void way_begin(const struct way *way, struct stage *stage, struct fake_copies *fake,
               const struct file_faults *faults);
/* The copies that were under way have ended, and things are as before. */
void way_end(const struct way *way, struct stage *stage, struct fake_copies *fake);
/* Opened to go this way. */
leat_file *way_open(const struct way *way, const struct stage *stage, int flags);
/* So many bytes have gone by the way's path, of this file, and none by others. */
void way_check_bytes(const struct way *way, leat_file *file, uint64_t bytes);
/* The same of writes, of which `edges` are in no whole page: these go through the page cache. */
void way_check_written(const struct way *way, leat_file *file, uint64_t bytes, uint64_t edges);

#endif
