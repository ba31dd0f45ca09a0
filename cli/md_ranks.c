// SPDX-License-Identifier: Apache-2.0
// Ranks of `leat md`: as processes, as threads, or this process.
//
// Advantage: whatever starts them, a rank is one call of the driver. Disadvantage: a process that
// is started reads the arguments again.

#include "commands.h"
#include "core/launch.h"
#include "md.h"
#include "md/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int md_launch(int argc, char *const *argv, const struct md_request *request)
{
    char **again = calloc((size_t)argc + 2, sizeof *again);
    if (!again) {
        fprintf(stderr, "leat md: no memory for the arguments\n");
        return EXIT_FAILED;
    }
    char name[] = "leat";
    again[0] = name;
    memcpy(again + 1, argv, (size_t)argc * sizeof *again);
    struct launch_options options = {.rank_count = request->rank_count,
                                     .reports_itself = true,
                                     .program = "/proc/self/exe",
                                     .argv = again};
    memcpy(options.grid, request->options.grid, sizeof options.grid);
    int status = 0;
    int error = leat_launch(&options, &status);
    free(again);
    return error ? command_fail("md", error) : status;
}

struct seat {
    leat_job *job;
    const struct md_options *options;
    pthread_t thread;
    int status;
};

static void *sit(void *argument)
{
    struct seat *seat = argument;
    seat->status = md_run_rank(seat->job, seat->options);
    return NULL;
}

static int run_seats(leat_job **jobs, int count, const struct md_options *options)
{
    struct seat *seat = calloc((size_t)count, sizeof *seat);
    int status = seat ? EXIT_DONE : EXIT_FAILED, started = 0;
    for (int i = 0; i < count; i++) {
        int error = ENOMEM;
        if (seat) {
            seat[i] = (struct seat){.job = jobs[i], .options = options};
            error = pthread_create(&seat[i].thread, NULL, sit, &seat[i]);
        }
        if (!error) {
            started++;
            continue;
        }
        fprintf(stderr, "leat md: no thread for rank %d: %s\n", i, strerror(error));
        for (int rest = i; rest < count; rest++)
            leat_close(jobs[rest], "its thread could not be started");
        status = EXIT_FAILED;
        break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(seat[i].thread, NULL);
        // A rank that only misses another fails too; the one that waited in vain tells more.
        if (status == EXIT_DONE || seat[i].status == EXIT_TIMED_OUT)
            status = seat[i].status;
    }
    free(seat);
    return status;
}

// The driver's device is its own option: LEAT_DEVICE does not move half of it to a GPU.
static const char *job_device(const struct md_request *request)
{
    return request->options.device == MD_DEVICE_CUDA ? request->cuda : "cpu";
}

int md_run_threads(const struct md_request *request)
{
    int count = request->options.rank_count;
    leat_job **jobs = calloc((size_t)count, sizeof(leat_job *));
    if (!jobs) {
        fprintf(stderr, "leat md: no memory for %d ranks\n", count);
        return EXIT_FAILED;
    }
    md_stop_hold(&request->options);
    leat_options options = {
        .size = sizeof options, .thread_ranks = count, .device = job_device(request)};
    int error = leat_open(&options, jobs);
    int status = error ? command_fail("md", error) : run_seats(jobs, count, &request->options);
    free(jobs);
    return status;
}

int md_run_process(const struct md_request *request)
{
    leat_job *job;
    md_stop_hold(&request->options);
    leat_options own = {.size = sizeof own, .device = job_device(request)};
    int error = leat_open(&own, &job);
    if (error)
        return command_fail("md", error);
    leat_job_info info = {.size = sizeof info};
    error = leat_job_info_get(job, &info);
    if (error)
        return command_fail("md", error);
    if (request->rank_count && request->rank_count != info.rank_count) {
        if (info.rank == 0)
            fprintf(stderr, "leat md: -n %d, but the launcher started %d ranks; leave -n out\n",
                    request->rank_count, info.rank_count);
        leat_close(job, NULL);
        return EXIT_USAGE;
    }
    struct md_options options = request->options;
    options.rank_count = info.rank_count;
    return md_run_rank(job, &options);
}
