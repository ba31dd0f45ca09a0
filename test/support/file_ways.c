// SPDX-License-Identifier: Apache-2.0
// See file_ways.h.

#define _GNU_SOURCE
#include "support/file_ways.h"

const struct way file_ways[] = {
    {"page cache to host", "buffered", "off", false, false, 0},
    {"page cache to host, unaligned", "buffered", "off", false, false, 3},
    {"page cache to device", "buffered", "off", true, false, 8},
    {"direct to host", "odirect", "on", false, false, 0},
    {"direct to host, unaligned", "odirect", "on", false, false, 3},
    {"direct to host, blocks of 512", "odirect", "on", false, false, 512},
    {"direct to device", "odirect", "on", true, false, 8},
    {"direct to host, no io_uring", "odirect", "on", false, true, 0},
    {"direct to device, no io_uring", "odirect", "on", true, true, 0},
};

const size_t file_way_count = sizeof file_ways / sizeof *file_ways;

void ways_settings(void)
{
    setenv("LEAT_FILE_TASK", "256K", 1);
    setenv("LEAT_FILE_BUFFER", "64K", 1);
    setenv("LEAT_FILE_BUFFERS", "3", 1);
    setenv("LEAT_FILE_THREADS", "3", 1);
}

void way_begin(const struct way *way, struct stage *stage, struct fake_copies *fake,
               const struct file_faults *faults)
{
    struct file_faults is = faults ? *faults : (struct file_faults){0};
    is.uring_error = way->no_ring ? ENOSYS : is.uring_error;
    stage->shift = way->shift;
    stage->job->file_system = faults_set(&is);
    if (way->device)
        fake_copies_begin(fake, stage->job, stage->buffer, STAGE_BYTES + 4096,
                          (unsigned)(way - file_ways) + 1);
}

void way_end(const struct way *way, struct stage *stage, struct fake_copies *fake)
{
    // Lanes, with the rings that they were refused or not, go with the job.
    leat_close(stage->job, NULL);
    if (way->device)
        assert_int_equal(fake_copies_lost(), 0);
    if (way->device)
        fake_copies_forget();
    (void)fake;
    stage->job = NULL;
    stage_ok(leat_open(NULL, &stage->job));
    stage->shift = 0;
}

leat_file *way_open(const struct way *way, const struct stage *stage, int flags)
{
    leat_file_options options = {.size = sizeof options, .flags = flags, .direct = way->direct};
    return stage_open(stage, &options);
}

void way_check_written(const struct way *way, leat_file *file, uint64_t bytes, uint64_t edges)
{
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    bool direct = !strcmp(way->path, file_paths[FILE_ODIRECT]->name);
    for (int i = 0; i < LEAT_FILE_PATHS; i++) {
        uint64_t wanted = i == FILE_ODIRECT && direct ? bytes - edges
                          : i != FILE_BUFFERED        ? 0
                          : direct                    ? edges
                                                      : bytes;
        if (info.path[i].bytes != wanted)
            fail_msg("%s: %llu bytes by %s, %llu expected", way->name,
                     (unsigned long long)info.path[i].bytes, info.path[i].name,
                     (unsigned long long)wanted);
    }
}

void way_check_bytes(const struct way *way, leat_file *file, uint64_t bytes)
{
    way_check_written(way, file, bytes, 0);
}
