// SPDX-License-Identifier: Apache-2.0
// leat file write: standard input, or a pattern, from memory of the device into a file.
//
// Algorithm: four windows are filled in turn, each written while the next one is filled; a sync at
// the end. Advantage: what it says is done is on the device. Disadvantage: with --offset a run that
// fails leaves what it has written so far.

#define _GNU_SOURCE
#include "commands.h"
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_PATTERN = OPTION_LONG };
enum pattern { FROM_INPUT = -1, PATTERN_STAMPS, PATTERN_ZEROS };

static const struct option_row rows[] = {
    FILE_DEVICE_ROW,
    {FILE_OPTION_OFFSET, "offset", "BYTES",
     "write there and leave the rest of the file (the file is begun anew)"},
    {FILE_OPTION_BYTES, "bytes", "BYTES", "how much (all of standard input)"},
    {OPTION_PATTERN, "pattern", "WORD",
     "not standard input but stamps (each 8 bytes are their own offset) or zeros"},
    {FILE_OPTION_CHECKSUM, "checksum", NULL, "print the CRC-32C of what was written"},
    FILE_PATH_ROWS,
    FILE_SIZE_ROWS,
    {FILE_OPTION_STATS, "stats", NULL, "what each path carried, and why not a better one"},
    FILE_JSON_ROW,
};

static const struct option_table table = {
    .command = "file write",
    .synopsis = "PATH [--device NAME] [--offset N] [--bytes N] [--pattern stamps|zeros] "
                "[--checksum] [--stats] [--json]",
    .summary = "Writes standard input, or a pattern, from memory of a device into a file, and "
               "returns when it is on the file's device. Sizes take K, M and G.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct writing {
    struct file_use use;
    enum pattern pattern;
    const char *path;
    leat_job *job;
    leat_file *file;
    struct file_windows windows;
    struct crc32c crc;
    leat_file_range range[FILE_WINDOWS];
    leat_file_request *request[FILE_WINDOWS];
    uint64_t begun, done;
    double seconds;
};

static int fill_from_input(char *to, uint64_t bytes, uint64_t *got)
{
    *got = 0;
    while (*got < bytes) {
        ssize_t count = read(STDIN_FILENO, to + *got, bytes - *got);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return leat_fail(-errno, "cannot read standard input: %s", strerror(errno));
        if (count == 0)
            break;
        *got += (uint64_t)count;
    }
    return 0;
}

static void stamp(char *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t i = 0; i < bytes; i++) {
        uint64_t word = (offset + i) & ~UINT64_C(7);
        to[i] = (char)(word >> 8 * ((offset + i) & 7));
    }
}

// What goes into the next window; 0 bytes: nothing more.
static int fill(struct writing *writing, int window, uint64_t *bytes)
{
    uint64_t left = writing->use.has_bytes ? writing->use.bytes - writing->begun : INT64_MAX;
    uint64_t room = writing->windows.bytes_each, offset = writing->use.offset + writing->begun;
    char *to = file_window_host(&writing->windows, window);
    *bytes = left < room ? left : room;
    int error = 0;
    if (writing->pattern == FROM_INPUT)
        error = fill_from_input(to, *bytes, bytes);
    else if (writing->pattern == PATTERN_STAMPS)
        stamp(to, *bytes, offset);
    else
        memset(to, 0, *bytes);
    if (!error && writing->use.checksum)
        crc32c_add(&writing->crc, to, *bytes);
    return error ? error : file_window_publish(&writing->windows, window, *bytes);
}

static int start(struct writing *writing, int window, uint64_t bytes)
{
    leat_file_range *range = &writing->range[window];
    *range = (leat_file_range){.file_offset = writing->use.offset + writing->begun,
                               .bytes = bytes,
                               .buffer = file_window(&writing->windows, window)};
    leat_file_call call = {
        .size = sizeof call, .operation = LEAT_FILE_OP_WRITE, .ranges = range, .range_count = 1};
    int error = leat_file_start(writing->file, &call, &writing->request[window]);
    writing->begun += error ? 0 : bytes;
    return error;
}

static int finish(struct writing *writing, int window)
{
    uint64_t done = 0;
    if (!writing->request[window])
        return 0;
    int error = leat_file_wait(writing->request[window], -1, &done);
    if (error != -ETIMEDOUT)
        writing->request[window] = NULL;
    writing->done += done;
    return error;
}

static int write_windows(struct writing *writing, struct file_bar *bar)
{
    int error = 0, window = 0;
    for (uint64_t bytes = 1; !error && bytes; window = (window + 1) % FILE_WINDOWS) {
        error = finish(writing, window);
        if (!error)
            error = fill(writing, window, &bytes);
        if (!error && bytes)
            error = start(writing, window, bytes);
        file_bar_draw(bar, writing->done);
    }
    // The first error counts; what is under way uses the windows all the same.
    char first[1024] = "";
    if (error)
        snprintf(first, sizeof first, "%s", leat_error_detail());
    for (int i = 0; error != -ETIMEDOUT && i < FILE_WINDOWS;
         i++, window = (window + 1) % FILE_WINDOWS) {
        int late = finish(writing, window);
        if (late && !error) {
            error = late;
            snprintf(first, sizeof first, "%s", leat_error_detail());
        }
    }
    return error ? leat_fail(error, "%s (%" PRIu64 " bytes had been written)", first, writing->done)
                 : 0;
}

static int write_all(struct writing *writing)
{
    struct file_bar bar;
    crc32c_begin(&writing->crc);
    file_bar_begin(&bar, writing->use.bytes, writing->use.json);
    double begin = file_now_s();
    int error = write_windows(writing, &bar);
    if (!error)
        error = leat_file_sync(writing->file);
    writing->seconds = file_now_s() - begin;
    file_bar_end(&bar);
    return error;
}

static int report(const struct writing *writing)
{
    double rate = writing->seconds > 0 ? (double)writing->done / writing->seconds * 1e-9 : 0;
    char crc[16] = "", amount[48], device[16];
    if (writing->use.checksum)
        snprintf(crc, sizeof crc, "%08" PRIx32, crc32c_value(&writing->crc));
    file_device_name(writing->job, device);
    if (writing->use.json)
        return file_json_print(
            "file write",
            json_pack("{s:s, s:o, s:s, s:I, s:I, s:s?, s:f, s:f, s:o}", "schema",
                      "leat.file.write/1", "file", file_json_text(writing->path), "device", device,
                      "offset", (json_int_t)writing->use.offset, "bytes", (json_int_t)writing->done,
                      "crc32c", *crc ? crc : NULL, "seconds", writing->seconds, "gb_per_s", rate,
                      "paths", file_paths_json(writing->file, &writing->windows, writing->done)));
    file_print_bytes(amount, writing->done);
    printf("%s: %s written and synced in %.3f s, %.2f GB/s\n", writing->path, amount,
           writing->seconds, rate);
    if (*crc)
        printf("crc32c %s\n", crc);
    if (writing->use.stats) {
        file_paths_print(writing->file, &writing->windows, writing->done);
        file_stats_print(writing->job);
    }
    return EXIT_DONE;
}

// What is there is not given up for a write that no path may carry.
static int look_first(struct writing *writing)
{
    leat_file *file = NULL;
    leat_file_info info = {.size = sizeof info};
    leat_file_options options = file_options(&writing->use, LEAT_FILE_WRITE);
    uint64_t bytes = writing->use.has_bytes ? writing->use.bytes : writing->windows.bytes_each;
    int error = leat_file_open(writing->job, writing->path, &options, &file);
    if (error == -ENOENT)
        return 0;
    if (!error)
        error = file_ask(file, &writing->windows, bytes, &info);
    bool chosen = false;
    char reasons[LEAT_FILE_PATHS * (LEAT_REASON + 16)] = "";
    size_t used = 0;
    for (int i = 0; !error && i < LEAT_FILE_PATHS; i++) {
        chosen |= info.path[i].chosen;
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", i ? "; " : "",
                                 info.path[i].name, info.path[i].reason);
    }
    leat_file_close(file);
    if (!error && !chosen)
        error = leat_fail(-ENOTSUP, "%s is left as it was: no path for the write (%s)",
                          writing->path, reasons);
    return error;
}

static int run(struct writing *writing)
{
    int flags = LEAT_FILE_WRITE | LEAT_FILE_CREATE;
    if (!writing->use.has_offset)
        flags |= LEAT_FILE_TRUNCATE;
    leat_file_options options = file_options(&writing->use, flags);
    int error = file_windows_open(&writing->windows, writing->job, writing->use.bytes);
    if (!error && (writing->use.require || writing->use.compat))
        error = look_first(writing);
    if (!error)
        error = leat_file_open(writing->job, writing->path, &options, &writing->file);
    if (!error)
        error = write_all(writing);
    int status = error ? file_fail("file write", error) : report(writing);
    error = leat_file_close(writing->file);
    if (error && status == EXIT_DONE)
        status = file_fail("file write", error);
    file_windows_close(&writing->windows);
    return status;
}

int file_write(int argc, char **argv)
{
    static const char *const patterns[] = {"stamps", "zeros"};
    struct writing writing = {.pattern = FROM_INPUT};
    struct option_reader reader;
    int status, chosen = FROM_INPUT;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        if (reader.id == OPTION_PATTERN)
            options_choice(&reader, patterns, 2, &chosen);
        else
            file_use_option(&reader, &writing.use);
    writing.pattern = (enum pattern)chosen;
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 1 != argc)
        return options_error(&reader, "one file is written, got %d", argc - reader.operand);
    if (writing.pattern != FROM_INPUT && !writing.use.has_bytes)
        return options_error(&reader, "a pattern has no end: say how much with --bytes");
    writing.path = argv[reader.operand];
    if (!file_job_open(&writing.use, "file write", &writing.job, &status))
        return status;
    status = run(&writing);
    leat_close(writing.job, NULL);
    return status;
}
