// SPDX-License-Identifier: Apache-2.0
// fio as a side of `leat bench file`: started for each slice, with the same file, size of a call,
// depth and size of the destination.
//
// Advantage: the tool that people know, as it is. Disadvantage: its start is a second or so, which
// it does not count, so that slices take longer than they measure.

#define _GNU_SOURCE
#include "bench_file.h"

#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_arguments(const struct file_side *side, const struct file_point *point,
                           int slice_ms, char text[16][1200], char *arguments[18])
{
    bool direct = !strcmp(point->state, "direct");
    uint64_t depth = point->ranges ? 1 : point->depth;
    int count = 0;
    snprintf(text[count++], 1200, "fio");
    snprintf(text[count++], 1200, "--name=leat");
    snprintf(text[count++], 1200, "--filename=%s", point->path);
    snprintf(text[count++], 1200, "--rw=%s", point->ranges ? "randread" : "read");
    snprintf(text[count++], 1200, "--bs=%" PRIu64, point->bytes);
    snprintf(text[count++], 1200, "--size=%" PRIu64,
             point->file_bytes / point->bytes * point->bytes);
    snprintf(text[count++], 1200, "--ioengine=%s", depth > 1 ? "io_uring" : "psync");
    snprintf(text[count++], 1200, "--iodepth=%" PRIu64, depth);
    snprintf(text[count++], 1200, "--direct=%d", direct);
    snprintf(text[count++], 1200, "--numjobs=%d", side->jobs);
    snprintf(text[count++], 1200, "--runtime=%dms", slice_ms);
    snprintf(text[count++], 1200, "--time_based");
    snprintf(text[count++], 1200, "--thread");
    snprintf(text[count++], 1200, "--group_reporting");
    snprintf(text[count++], 1200, "--invalidate=0");
    snprintf(text[count++], 1200, "--output-format=json");
    for (int i = 0; i < count; i++)
        arguments[i] = text[i];
    arguments[count] = NULL;
}

// What it prints, or NULL.
static json_t *run(char *arguments[])
{
    int out[2], status = 0;
    posix_spawn_file_actions_t actions;
    pid_t pid;
    json_t *report = NULL;
    if (pipe2(out, O_CLOEXEC))
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int error = posix_spawnp(&pid, "fio", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    FILE *stream = error ? NULL : fdopen(out[0], "r");
    if (stream) {
        // Notes may stand before the object.
        int byte;
        while ((byte = getc(stream)) != EOF && byte != '{')
            continue;
        ungetc('{', stream);
        report = byte == EOF ? NULL : json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL);
        while (getc(stream) != EOF)
            continue;
        fclose(stream);
    } else {
        close(out[0]);
    }
    if (!error)
        waitpid(pid, &status, 0);
    if (report && status) {
        json_decref(report);
        report = NULL;
    }
    return report;
}

int file_fio_ask(struct file_side *side, const struct file_point *point, int slice_ms, double *ns)
{
    static char text[16][1200];
    char *arguments[18];
    make_arguments(side, point, slice_ms, text, arguments);
    json_t *report = run(arguments);
    const json_t *job = json_array_get(json_object_get(report, "jobs"), 0);
    double rate = json_number_value(json_object_get(json_object_get(job, "read"), "bw_bytes"));
    json_decref(report);
    if (rate <= 0) {
        snprintf(side->why, sizeof side->why, "fio is not there, or has failed");
        return -EREMOTEIO;
    }
    *ns = (double)point->bytes / rate * 1e9 * (point->ranges ? (double)point->depth : 1);
    return 0;
}
