// SPDX-License-Identifier: Apache-2.0
// leat file read: a file into memory of the device, with its checksum when asked.
//
// Algorithm: four windows are filled in turn. Advantage: a file of any size, at the speed of its
// path. Disadvantage: a checksum is taken by one thread of the host, so it can be what takes
// longest.

#include "commands.h"
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const struct option_row rows[] = {
    FILE_DEVICE_ROW,
    {FILE_OPTION_OFFSET, "offset", "BYTES", "where in the file to begin (0)"},
    {FILE_OPTION_BYTES, "bytes", "BYTES", "how much; less at the end of the file (all)"},
    {FILE_OPTION_CHECKSUM, "checksum", NULL,
     "print the CRC-32C of what was read; taking it is part of the time"},
    FILE_PATH_ROWS,
    FILE_SIZE_ROWS,
    {FILE_OPTION_STATS, "stats", NULL, "what each path carried, and why not a better one"},
    FILE_JSON_ROW,
};

static const struct option_table table = {
    .command = "file read",
    .synopsis = "PATH [--device NAME] [--offset N] [--bytes N] [--checksum] [--stats] [--json]",
    .summary =
        "Reads a file into memory of a device, through windows of up to 64 MiB (on a GPU 256), and "
        "says how fast. Sizes take K, M and G.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct reading {
    struct file_use use;
    const char *path;
    leat_job *job;
    leat_file *file;
    struct file_windows windows;
    struct crc32c crc;
    uint64_t done;
    double seconds;
};

static int read_windows(struct reading *reading, struct file_reader *reader, struct file_bar *bar)
{
    for (;;) {
        int window = 0;
        uint64_t bytes;
        char *address;
        int error = file_reader_next(reader, &window, &bytes);
        if (error || !bytes)
            return error;
        if (reading->use.checksum) {
            error = file_window_fetch(&reading->windows, window, bytes, &address);
            if (error)
                return error;
            crc32c_add(&reading->crc, address, bytes);
        }
        reading->done += bytes;
        file_reader_again(reader);
        file_bar_draw(bar, reading->done);
    }
}

static int read_all(struct reading *reading)
{
    leat_file_info info = {.size = sizeof info};
    const struct file_use *use = &reading->use;
    int error = leat_file_info_get(reading->file, NULL, &info);
    uint64_t known = info.bytes > use->offset ? info.bytes - use->offset : 0;
    if (use->has_bytes && (use->bytes < known || !known))
        known = use->bytes;
    if (!error)
        error = file_windows_open(&reading->windows, reading->job, known);
    if (error)
        return error;
    struct file_reader reader;
    struct file_bar bar;
    crc32c_begin(&reading->crc);
    file_reader_begin(&reader, reading->file, &reading->windows, use->offset, use->bytes,
                      use->has_bytes, info.bytes);
    file_bar_begin(&bar, known, use->json);
    double begin = file_now_s();
    error = read_windows(reading, &reader, &bar);
    reading->seconds = file_now_s() - begin;
    file_bar_end(&bar);
    if (error != -ETIMEDOUT)
        file_reader_end(&reader);
    return error;
}

static int report(const struct reading *reading)
{
    double rate = reading->seconds > 0 ? (double)reading->done / reading->seconds * 1e-9 : 0;
    char crc[16] = "", amount[48], device[16];
    if (reading->use.checksum)
        snprintf(crc, sizeof crc, "%08" PRIx32, crc32c_value(&reading->crc));
    file_device_name(reading->job, device);
    if (reading->use.json)
        return file_json_print(
            "file read",
            json_pack("{s:s, s:o, s:s, s:I, s:I, s:s?, s:f, s:f, s:o}", "schema",
                      "leat.file.read/1", "file", file_json_text(reading->path), "device", device,
                      "offset", (json_int_t)reading->use.offset, "bytes", (json_int_t)reading->done,
                      "crc32c", *crc ? crc : NULL, "seconds", reading->seconds, "gb_per_s", rate,
                      "paths", file_paths_json(reading->file, NULL, 0)));
    file_print_bytes(amount, reading->done);
    printf("%s: %s read in %.3f s, %.2f GB/s\n", reading->path, amount, reading->seconds, rate);
    if (*crc)
        printf("crc32c %s\n", crc);
    if (reading->use.stats) {
        file_paths_print(reading->file, NULL, 0);
        file_stats_print(reading->job);
    }
    return EXIT_DONE;
}

static int run(struct reading *reading)
{
    leat_file_options options = file_options(&reading->use, LEAT_FILE_READ);
    int status = EXIT_DONE;
    int error = leat_file_open(reading->job, reading->path, &options, &reading->file);
    if (!error)
        error = read_all(reading);
    if (error)
        status = file_fail("file read", error);
    else
        status = report(reading);
    leat_file_close(reading->file);
    file_windows_close(&reading->windows);
    return status;
}

int file_read(int argc, char **argv)
{
    struct reading reading = {0};
    struct option_reader reader;
    int status;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        file_use_option(&reader, &reading.use);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 1 != argc)
        return options_error(&reader, "one file is read, got %d", argc - reader.operand);
    reading.path = argv[reader.operand];
    if (!file_job_open(&reading.use, "file read", &reading.job, &status))
        return status;
    status = run(&reading);
    leat_close(reading.job, NULL);
    return status;
}
