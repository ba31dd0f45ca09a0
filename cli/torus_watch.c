// SPDX-License-Identifier: Apache-2.0
// What is seen while a simulated job runs: a bar, and samples for the time line.
//
// Algorithm: every so much virtual time the bytes that went through the network are noted; when
// there is no more room, every second sample is dropped and the distance doubled. Advantage: any
// length of run fits. Disadvantage: the job looks here only every few windows, so a short run has
// few samples.

#include "torus.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SAMPLES     512
#define FIRST_PS    1000000 // 1 us
#define BAR_COLUMNS 40

static void draw(struct torus_watch *watch, double bytes)
{
    int columns = (int)(bytes / watch->expected_bytes * BAR_COLUMNS);
    if (columns > BAR_COLUMNS)
        columns = BAR_COLUMNS;
    if (columns == watch->drawn)
        return;
    watch->drawn = columns;
    fprintf(stderr, "\r[");
    for (int i = 0; i < BAR_COLUMNS; i++)
        fputc(i < columns ? '#' : ' ', stderr);
    fputc(']', stderr);
    fflush(stderr);
}

static void halve(struct torus_watch *watch)
{
    watch->count /= 2;
    for (int i = 0; i < watch->count; i++)
        watch->sample[i] = watch->sample[2 * i + 1];
    watch->every_ps *= 2;
}

static int look(void *user, const struct sim_job *job)
{
    struct torus_watch *watch = user;
    uint64_t now_ps = job->fabric.agenda.begin_ps;
    double bytes = (double)job->fabric.network.bytes;
    if (watch->bar)
        draw(watch, bytes);
    if (!watch->sample || now_ps < watch->next_ps)
        return 0;
    if (watch->count == SAMPLES)
        halve(watch);
    watch->sample[watch->count++] =
        (struct torus_sample){(double)(now_ps - watch->begin_ps) * 1e-12, bytes};
    watch->next_ps = now_ps + watch->every_ps;
    return 0;
}

void torus_watch_begin(struct torus_watch *watch, struct sim_job *job, double expected_bytes)
{
    *watch = (struct torus_watch){.expected_bytes = expected_bytes,
                                  .bar = expected_bytes > 0 && isatty(STDERR_FILENO),
                                  .drawn = -1,
                                  .begin_ps = job->fabric.agenda.begin_ps,
                                  .next_ps = job->fabric.agenda.begin_ps,
                                  .every_ps = FIRST_PS};
    // Without memory there is no time line.
    watch->sample = calloc(SAMPLES, sizeof *watch->sample);
    job->watch = look;
    job->watch_user = watch;
}

void torus_watch_end(struct torus_watch *watch)
{
    if (watch->bar)
        fprintf(stderr, "\r%*s\r", BAR_COLUMNS + 2, "");
    free(watch->sample);
    watch->sample = NULL;
}
