// SPDX-License-Identifier: Apache-2.0
// The trace of a rank, and the file that all ranks of a job share.
//
// Algorithm: a rank that writes takes the file's lock. When the file's first line names this job,
// its slices go in front of the closing brackets; otherwise the file is begun anew. Advantage:
// whole JSON at every moment, one file for the job, and no rank waits for one that is gone.
// Disadvantage: ranks write one after the other.

#define _GNU_SOURCE
#include "core/trace.h"

#include "core/log.h"
#include "core/writable.h"
#include "device/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRACE_SLICES (UINT64_C(1) << 16)
#define TRACE_TAIL   "\n]}\n"

struct slice {
    uint64_t begin_ns, end_ns;
    int64_t a, b;
    uint32_t kind, track;
};

struct trace {
    uint64_t noted, written; /* slices ever */
    struct slice slice[TRACE_SLICES];
};

uint64_t leat_trace_now(void)
{
    return leat_now_ns();
}

uint64_t leat_trace_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void leat_trace_cpu(leat_job *job, uint64_t begin_cpu_ns)
{
    leat_count(&job->counts.cpu_ns, leat_trace_cpu_ns() - begin_cpu_ns);
}

void leat_trace_note(leat_job *job, enum trace_kind kind, uint32_t track, uint64_t begin_ns,
                     int64_t a, int64_t b)
{
    struct trace *trace = job->trace;
    uint64_t end_ns = leat_now_ns();
    // Blocks of a kernel note at once; each has a place of its own.
    uint64_t at = __atomic_fetch_add(&trace->noted, 1, __ATOMIC_RELAXED);
    trace->slice[at % TRACE_SLICES] = (struct slice){.begin_ns = begin_ns,
                                                     .end_ns = end_ns,
                                                     .a = a,
                                                     .b = b,
                                                     .kind = (uint32_t)kind,
                                                     .track = track};
}

int leat_trace_open(leat_job *job)
{
    if (!strcmp(job->config.trace, "off"))
        return 0;
    // Found out when the job closes, the run and its trace would be lost.
    int error = leat_check_writable(job->config.trace);
    if (error)
        return leat_fail(error, "LEAT_TRACE names %s, which cannot be written: %s",
                         job->config.trace, strerror(-error));
    job->trace = calloc(1, sizeof *job->trace);
    return job->trace ? 0
                      : leat_fail(-ENOMEM, "no memory for a trace of %zu bytes; unset LEAT_TRACE",
                                  sizeof *job->trace);
}

// ---- Writing ----

static const char *const kernel_names[KERNEL_COUNT] = {
    [KERNEL_FUSED_FORWARD_F32] = "fused_forward_f32",
    [KERNEL_FUSED_FORWARD_F64] = "fused_forward_f64",
    [KERNEL_FUSED_FORWARD_WORDS] = "fused_forward_words",
    [KERNEL_FUSED_REVERSE_F32] = "fused_reverse_f32",
    [KERNEL_FUSED_REVERSE_F64] = "fused_reverse_f64",
    [KERNEL_PACK_F32] = "pack_f32",
    [KERNEL_PACK_F64] = "pack_f64",
    [KERNEL_PACK_WORDS] = "pack_words",
    [KERNEL_ACCUMULATE_F32] = "accumulate_f32",
    [KERNEL_ACCUMULATE_F64] = "accumulate_f64",
    [KERNEL_PULSE_FORWARD_F32] = "pulse_forward_f32",
    [KERNEL_PULSE_FORWARD_F64] = "pulse_forward_f64",
    [KERNEL_PULSE_FORWARD_WORDS] = "pulse_forward_words",
    [KERNEL_PULSE_REVERSE_F32] = "pulse_reverse_f32",
    [KERNEL_PULSE_REVERSE_F64] = "pulse_reverse_f64",
    [KERNEL_RESIDENT] = "resident",
};

static void print_what(FILE *out, const struct slice *slice)
{
    long long a = slice->a, b = slice->b;
    switch ((enum trace_kind)slice->kind) {
    case TRACE_RUN:
        fprintf(out, "\"name\":\"run\",\"cat\":\"halo\",\"args\":{\"steps\":%lld}", a);
        break;
    case TRACE_EXCHANGE:
        fprintf(out,
                "\"name\":\"%s %lld\",\"cat\":\"exchange\",\"args\":{\"field\":%lld,\"exchange\":"
                "%lld}",
                a & 1 ? "reverse" : "forward", a / 2, a / 2, b);
        break;
    case TRACE_LAUNCH:
        fprintf(out, "\"name\":\"%s\",\"cat\":\"launch\",\"args\":{}",
                a >= 0 && a < KERNEL_COUNT && kernel_names[a] ? kernel_names[a] : "kernel");
        break;
    case TRACE_WAIT:
        fprintf(out, "\"name\":\"wait\",\"cat\":\"wait\",\"args\":{\"peer\":%lld,\"pulse\":%lld}",
                a, b);
        break;
    case TRACE_SYNC:
        fprintf(out, "\"name\":\"sync\",\"cat\":\"sync\",\"args\":{}");
        break;
    }
}

static void print_names(FILE *out, const leat_job *job)
{
    fprintf(out,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":"
            "\"rank %d\"}}",
            job->rank, job->rank);
    for (int block = 0; block < job->config.block_count; block++)
        fprintf(out,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{"
                "\"name\":\"%sblock %d\"}}",
                job->rank, block, block ? "" : "host and ", block);
}

// Microseconds with three digits, as both viewers expect.
static void print_time(FILE *out, const char *name, uint64_t ns)
{
    fprintf(out, "\"%s\":%llu.%03llu", name, (unsigned long long)(ns / 1000),
            (unsigned long long)(ns % 1000));
}

static void print_slices(FILE *out, leat_job *job)
{
    struct trace *trace = job->trace;
    uint64_t noted = __atomic_load_n(&trace->noted, __ATOMIC_ACQUIRE);
    uint64_t first = noted > TRACE_SLICES ? noted - TRACE_SLICES : 0;
    if (first > trace->written)
        leat_log(job->config.log_level, LOG_WARN, job->rank,
                 "the trace's first %llu slices are lost: it keeps the last %llu",
                 (unsigned long long)(first - trace->written), (unsigned long long)TRACE_SLICES);
    for (uint64_t i = first > trace->written ? first : trace->written; i < noted; i++) {
        const struct slice *slice = &trace->slice[i % TRACE_SLICES];
        fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,", job->rank, slice->track);
        print_time(out, "ts", slice->begin_ns);
        fputc(',', out);
        print_time(out, "dur", slice->end_ns - slice->begin_ns);
        fputc(',', out);
        print_what(out, slice);
        fputc('}', out);
    }
    trace->written = noted;
}

// Leaves the stream where the next slice goes; false when the file is another job's or none.
static bool continue_file(FILE *out, const char *head)
{
    char line[128] = "";
    const long tail = (long)strlen(TRACE_TAIL);
    char end[8] = "";
    return fgets(line, sizeof line, out) && !strcmp(line, head) && !fseek(out, -tail, SEEK_END) &&
           fread(end, 1, (size_t)tail, out) == (size_t)tail &&
           !strncmp(end, TRACE_TAIL, (size_t)tail) && !fseek(out, -tail, SEEK_END);
}

static int write_file(leat_job *job, FILE *out)
{
    struct stat status;
    char head[128];
    if (fstat(job->segment->fd, &status))
        return -errno;
    // A job's memory file has its number alone while it lives, and its time ever after.
    snprintf(head, sizeof head, "{\"leat_job\":\"%llx-%llx\",\"traceEvents\":[\n",
             (unsigned long long)job->segment->head->created_ns, (unsigned long long)status.st_ino);
    if (continue_file(out, head)) {
        fputs(",\n", out);
    } else {
        rewind(out);
        if (ftruncate(fileno(out), 0))
            return -errno;
        fputs(head, out);
    }
    print_names(out, job);
    print_slices(out, job);
    fputs(TRACE_TAIL, out);
    return fflush(out) || ferror(out) ? -EIO : 0;
}

int leat_trace_write(leat_job *job, const char *path)
{
    if (!job || !path)
        return leat_fail(-EINVAL, "leat_trace_write: %s is NULL", job ? "path" : "job");
    if (!job->trace)
        return leat_fail(-ENODATA, "nothing is recorded: set LEAT_TRACE, or leat_options.trace, "
                                   "before the job is opened");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return leat_fail(-errno, "cannot open the trace %s: %s", path, strerror(errno));
    FILE *out = flock(fd, LOCK_EX) ? NULL : fdopen(fd, "r+");
    if (!out) {
        int error = errno;
        close(fd);
        return leat_fail(-error, "cannot lock the trace %s: %s", path, strerror(error));
    }
    int error = write_file(job, out);
    if (fclose(out) && !error)
        error = -errno;
    return error ? leat_fail(error, "cannot write the trace %s: %s", path, strerror(-error)) : 0;
}

void leat_trace_close(leat_job *job)
{
    if (!job->trace)
        return;
    if (job->trace->noted > job->trace->written && leat_trace_write(job, job->config.trace))
        leat_log(job->config.log_level, LOG_ERROR, job->rank, "%s", leat_error_detail());
    free(job->trace);
    job->trace = NULL;
}
