// SPDX-License-Identifier: Apache-2.0
// Progress bar on stderr, drawn five times a second at most.
//
// Advantage: two comparisons a step when nothing is drawn. Disadvantage: the time left is
// extrapolated from the whole run so far, so it follows a change of speed slowly.

#include "md/progress.h"

#include "core/signal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 40 };
#define PERIOD_NS 200000000ull

void md_progress_begin(struct md_progress *progress, bool wanted, int64_t step_count)
{
    *progress = (struct md_progress){.step_count = step_count};
    progress->shown = wanted && step_count > 0 && isatty(STDERR_FILENO);
    if (progress->shown) {
        progress->begin_ns = leat_now_ns();
        progress->next_ns = progress->begin_ns + PERIOD_NS;
    }
}

void md_progress_step(struct md_progress *progress, int64_t step)
{
    if (!progress->shown)
        return;
    uint64_t now = leat_now_ns();
    if (now < progress->next_ns)
        return;
    progress->next_ns = now + PERIOD_NS;
    char bar[WIDTH + 1];
    double part = (double)(step + 1) / (double)(progress->step_count + 1);
    size_t full = (size_t)(part * WIDTH);
    memset(bar, '.', WIDTH);
    memset(bar, '#', full < WIDTH ? full : WIDTH);
    bar[WIDTH] = 0;
    double spent_s = (double)(now - progress->begin_ns) * 1e-9;
    fprintf(stderr, "\r[%s] step %lld of %lld, %.0f s left \033[K", bar, (long long)step,
            (long long)progress->step_count, spent_s * (1.0 - part) / part);
    fflush(stderr);
}

void md_progress_end(struct md_progress *progress)
{
    if (progress->shown) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
