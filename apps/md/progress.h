/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line on a terminal that shows how far a run is.
 */
#ifndef MD_PROGRESS_H
#define MD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct md_progress {
    bool shown;
    int64_t step_count;
    uint64_t begin_ns, next_ns;
};

/* Shows nothing unless `wanted` and stderr is a terminal. */
void md_progress_begin(struct md_progress *progress, bool wanted, int64_t step_count);
void md_progress_step(struct md_progress *progress, int64_t step);
/* Takes the line away. */
void md_progress_end(struct md_progress *progress);

#endif
