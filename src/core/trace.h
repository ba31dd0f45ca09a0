/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank did and when, for Chrome's and Perfetto's trace viewers.
 *
 * Slices are noted when they end, with both times, into a ring that was allocated at open; when it
 * is full the oldest are lost. Advantage: no slice is ever half in the file, nothing is allocated
 * in a step, and with tracing off each place costs one look at a pointer. Disadvantage: what is
 * under way when a rank dies is not in its trace.
 */
#ifndef LEAT_CORE_TRACE_H
#define LEAT_CORE_TRACE_H

#include "core/job.h"

enum trace_kind {
    TRACE_RUN,      /* leat_halo_run; a = steps */
    TRACE_EXCHANGE, /* a = field * 2 + (1 for reverse), b = its number */
    TRACE_LAUNCH,   /* a = kernel id */
    TRACE_WAIT,     /* for a signal; a = peer, b = pulse */
    TRACE_SYNC      /* the host waits for the device */
};

struct trace;

/* NULL stays in job->trace unless the setting names a file. */
int leat_trace_open(leat_job *job);
/* Writes what has not been written, and frees. */
void leat_trace_close(leat_job *job);

uint64_t leat_trace_now(void);
void leat_trace_note(leat_job *job, enum trace_kind kind, uint32_t track, uint64_t begin_ns,
                     int64_t a, int64_t b);
/* CPU time of the calling thread, and what an exchange took of it. */
uint64_t leat_trace_cpu_ns(void);
void leat_trace_cpu(leat_job *job, uint64_t begin_cpu_ns);

/* 0 when nothing is recorded. */
static inline uint64_t leat_trace_begin(const leat_job *job)
{
    return __builtin_expect(job->trace != NULL, 0) ? leat_trace_now() : 0;
}

static inline void leat_trace_end(leat_job *job, enum trace_kind kind, uint32_t track,
                                  uint64_t begin_ns, int64_t a, int64_t b)
{
    if (__builtin_expect(begin_ns != 0, 0))
        leat_trace_note(job, kind, track, begin_ns, a, b);
}

#endif
