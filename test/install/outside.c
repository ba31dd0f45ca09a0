// SPDX-License-Identifier: Apache-2.0
// What a user's first program does: opens a job of one rank, copies between two regions, reads the
// counts. Uses nothing but the installed headers.

#include <leat/halo.h>
#include <leat/leat.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, int error)
{
    fprintf(stderr, "%s: %d: %s\n", what, error, leat_error_detail());
    return 1;
}

static int copy_and_count(leat_job *job)
{
    const leat_region_options options = {.size = sizeof options, .bytes = 64};
    leat_region *from = NULL, *to = NULL;
    leat_region_info from_info = {.size = sizeof from_info}, to_info = {.size = sizeof to_info};
    leat_stats stats = {.size = sizeof stats};
    int error = leat_region_alloc(job, &options, &from);
    if (!error)
        error = leat_region_alloc(job, &options, &to);
    if (!error)
        error = leat_region_info_get(from, &from_info);
    if (!error)
        error = leat_region_info_get(to, &to_info);
    if (error)
        return fail("region", error);

    memcpy(from_info.address, "from here to there", 19);
    error =
        leat_copy(job, (leat_place){to, 0}, (leat_place){from, 0}, 19, (leat_place){NULL, 0}, 0);
    if (error)
        return fail("leat_copy", error);
    if (memcmp(to_info.address, "from here to there", 19) != 0)
        return fail("leat_copy left other bytes", 0);
    error = leat_stats_read(job, LEAT_ALL_PEERS, &stats);
    if (error || stats.path_count < 1)
        return fail("leat_stats_read", error);
    printf("leat %d.%d.%d: %llu bytes by %s\n", LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR,
           LEAT_VERSION_PATCH, (unsigned long long)stats.path[0].bytes, stats.path[0].path);
    leat_region_free(to);
    leat_region_free(from);
    return 0;
}

int main(void)
{
    leat_job *job = NULL;
    const leat_options options = {.size = sizeof options, .arena_bytes = 1 << 24};
    int error = leat_open(&options, &job);
    if (error)
        return fail("leat_open", error);
    int failed = copy_and_count(job);
    leat_close(job, NULL);
    return failed;
}
