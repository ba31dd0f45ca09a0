// SPDX-License-Identifier: Apache-2.0
// Many small ranges of a file into memory of the device, in one call.
//     ranges [FILE]             (LEAT_DEVICE=cuda:0 ranges FILE: into memory of a GPU)
// It makes FILE (records.bin), which must not be there yet, of 100,000 records, reads every third
// of them into a region, and looks whether each is the right one. The library sorts and merges the
// ranges, and on a GPU copies them over together.
#include <leat/file.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS = 100000, EVERY = 3, READ = (RECORDS + EVERY - 1) / EVERY, WORDS = 125 };

struct record {
    unsigned number[WORDS]; // all of them its own number
};

static int fail(const char *what)
{
    fprintf(stderr, "ranges: %s: %s\n", what, leat_error_detail());
    return 1;
}

static int write_records(leat_job *job, const char *path)
{
    leat_file *file;
    leat_file_options options = {.size = sizeof options};
    options.flags = LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_EXCLUSIVE;
    struct record *record = malloc(RECORDS * sizeof *record);
    if (!record || leat_file_open(job, path, &options, &file))
        return -1;
    printf("making %s of %d records\n", path, RECORDS);
    for (unsigned i = 0; i < RECORDS; i++)
        for (int k = 0; k < WORDS; k++)
            record[i].number[k] = i;
    leat_buffer from = {.address = record};
    int error = leat_file_write(file, from, 0, RECORDS * sizeof *record, NULL);
    free(record);
    return error | leat_file_close(file);
}

// One range a record, last ones first: the order is the library's to mend.
static int read_records(leat_file *file, leat_region *region)
{
    leat_file_range *range = calloc(READ, sizeof *range);
    leat_file_request *request;
    uint64_t done = 0;
    if (!range)
        return -1;
    for (unsigned i = 0; i < READ; i++) {
        unsigned which = READ - 1 - i;
        range[i].file_offset = (uint64_t)which * EVERY * sizeof(struct record);
        range[i].bytes = sizeof(struct record);
        range[i].buffer.region = region;
        range[i].buffer.offset = which * sizeof(struct record);
    }
    leat_file_call call = {.size = sizeof call, .operation = LEAT_FILE_OP_READ};
    call.ranges = range;
    call.range_count = READ;
    int error = leat_file_start(file, &call, &request);
    if (!error)
        error = leat_file_wait(request, -1, &done);
    free(range);
    return error || done != READ * sizeof(struct record);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "records.bin";
    leat_job *job;
    leat_file *file;
    leat_region *region, *host;
    leat_region_info seen = {.size = sizeof seen};
    leat_file_info info = {.size = sizeof info};
    leat_region_options room = {.size = sizeof room, .bytes = READ * sizeof(struct record)};
    if (argc > 2 || *path == '-') {
        fprintf(stderr, "usage: ranges [FILE]: makes FILE, a new one of %zu bytes, and reads it\n",
                RECORDS * sizeof(struct record));
        return 2;
    }
    if (leat_open(NULL, &job) || leat_region_alloc(job, &room, &host))
        return fail("open");
    room.memory = LEAT_MEMORY_DEVICE;
    if (leat_region_alloc(job, &room, &region) || write_records(job, path))
        return fail("write");
    if (leat_file_open(job, path, NULL, &file) || read_records(file, region))
        return fail("read");
    leat_place to = {host, 0}, from = {region, 0}, nobody = {NULL, 0};
    if (leat_copy(job, to, from, room.bytes, nobody, 0) || leat_region_info_get(host, &seen) ||
        leat_file_info_get(file, NULL, &info))
        return fail("look");
    const struct record *record = seen.address;
    int wrong = 0;
    for (unsigned i = 0; i < READ; i++)
        for (int k = 0; k < WORDS; k++)
            wrong += record[i].number[k] != i * EVERY;
    for (int p = 0; p < LEAT_FILE_PATHS; p++)
        printf("%-9s %9llu bytes\n", info.path[p].name, (unsigned long long)info.path[p].bytes);
    printf("%d records read, %d words wrong\n", READ, wrong);
    leat_file_close(file);
    leat_close(job, NULL);
    return wrong != 0;
}
