// SPDX-License-Identifier: Apache-2.0
// leat file cp: a file through memory of the device into another file.
//
// Algorithm: of four windows some are being read while others are being written. The bytes go to a
// temporary name beside the destination, which is synced, checked when asked, and then takes its
// name. Advantage: whoever looks sees the old file or the whole new one. Disadvantage: room for
// both is needed, and links to the old file stay with it.

#define _GNU_SOURCE
#include "commands.h"
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct option_row rows[] = {
    FILE_DEVICE_ROW,
    {FILE_OPTION_OFFSET, "offset", "BYTES", "where in SRC to begin (0)"},
    {FILE_OPTION_BYTES, "bytes", "BYTES", "how much of it (all)"},
    {FILE_OPTION_CHECKSUM, "checksum", NULL,
     "take the CRC-32C on the way, read the copy again and compare"},
    FILE_PATH_ROWS,
    FILE_SIZE_ROWS,
    {FILE_OPTION_STATS, "stats", NULL, "what each path carried, and why not a better one"},
    FILE_JSON_ROW,
};

static const struct option_table table = {
    .command = "file cp",
    .synopsis = "SRC DST [--device NAME] [--offset N] [--bytes N] [--checksum] [--stats] [--json]",
    .summary = "Copies a file through memory of a device, reading and writing at once. DST appears "
               "when all of it is on its device. --require is about reading. Sizes take K, M "
               "and G.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct copying {
    struct file_use use;
    const char *from;
    struct file_target to;
    char beside[PATH_MAX];
    leat_job *job;
    leat_file *source, *target;
    struct file_windows windows;
    struct crc32c crc;
    leat_file_range range[FILE_WINDOWS];
    leat_file_request *request[FILE_WINDOWS];
    int oldest, writes;
    uint64_t done;
    uint64_t expected; // of the source, as it was when the copy began
    double seconds;
};

// ---- Names ----

static int open_both(struct copying *copying)
{
    leat_file_options options = file_options(&copying->use, LEAT_FILE_READ);
    int error = leat_file_open(copying->job, copying->from, &options, &copying->source);
    if (error)
        return error;
    options.flags = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_EXCLUSIVE;
    options.require = NULL;
    options.permissions = 0600; // until it is whole
    error = file_target_beside(&copying->to, copying->beside);
    if (error)
        return error;
    file_leftover_set(copying->beside);
    return leat_file_open(copying->job, copying->beside, &options, &copying->target);
}

// ---- Bytes ----

static int start_write(struct copying *copying, int window, uint64_t offset, uint64_t bytes)
{
    leat_file_range *range = &copying->range[window];
    *range = (leat_file_range){
        .file_offset = offset, .bytes = bytes, .buffer = file_window(&copying->windows, window)};
    leat_file_call call = {
        .size = sizeof call, .operation = LEAT_FILE_OP_WRITE, .ranges = range, .range_count = 1};
    int error = leat_file_start(copying->target, &call, &copying->request[window]);
    copying->writes += !error;
    return error;
}

static int finish_write(struct copying *copying, struct file_reader *reader)
{
    uint64_t done;
    int error = leat_file_wait(copying->request[copying->oldest], -1, &done);
    if (error == -ETIMEDOUT)
        return error;
    copying->done += done;
    copying->oldest = (copying->oldest + 1) % FILE_WINDOWS;
    copying->writes--;
    file_reader_again(reader);
    return error;
}

static int carry(struct copying *copying, struct file_reader *reader, struct file_bar *bar)
{
    uint64_t offset = 0, bytes;
    for (;;) {
        int window = 0;
        char *address;
        int error = file_reader_next(reader, &window, &bytes);
        if (!error && bytes && copying->use.checksum) {
            error = file_window_fetch(&copying->windows, window, bytes, &address);
            if (!error)
                crc32c_add(&copying->crc, address, bytes);
        }
        if (!error && bytes)
            error = start_write(copying, window, offset, bytes);
        offset += bytes;
        if (!error && copying->writes > FILE_WINDOWS / 2)
            error = finish_write(copying, reader);
        if (error || !bytes)
            return error;
        file_bar_draw(bar, copying->done);
    }
}

static int carry_all(struct copying *copying, struct file_bar *bar, uint64_t size)
{
    struct file_reader reader;
    char first[1024] = "";
    file_reader_begin(&reader, copying->source, &copying->windows, copying->use.offset,
                      copying->use.bytes, copying->use.has_bytes, size);
    int error = carry(copying, &reader, bar);
    if (error)
        snprintf(first, sizeof first, "%s", leat_error_detail());
    while (copying->writes && error != -ETIMEDOUT) {
        int late = finish_write(copying, &reader);
        if (late && !error) {
            error = late;
            snprintf(first, sizeof first, "%s", leat_error_detail());
        }
    }
    if (error != -ETIMEDOUT)
        file_reader_end(&reader);
    return error ? leat_fail(error, "%s", first) : 0;
}

static int compare(struct copying *copying)
{
    struct file_reader reader;
    struct crc32c again;
    int error = 0;
    crc32c_begin(&again);
    file_reader_begin(&reader, copying->target, &copying->windows, 0, copying->done, true,
                      copying->done);
    for (;;) {
        int window = 0;
        uint64_t bytes;
        char *address;
        error = file_reader_next(&reader, &window, &bytes);
        if (!error && bytes)
            error = file_window_fetch(&copying->windows, window, bytes, &address);
        if (error || !bytes)
            break;
        crc32c_add(&again, address, bytes);
        file_reader_again(&reader);
    }
    if (error != -ETIMEDOUT)
        file_reader_end(&reader);
    if (!error && crc32c_value(&again) != crc32c_value(&copying->crc))
        error = leat_fail(-EBADMSG,
                          "the copy of %s has another content: crc32c %08" PRIx32 " was written, "
                          "%08" PRIx32 " is read; %s is left as it was",
                          copying->from, crc32c_value(&copying->crc), crc32c_value(&again),
                          copying->to.path);
    return error;
}

// What there is to copy; *size as the source says it, 0 for files that are made as they are read.
static int look_at_source(struct copying *copying, uint64_t *size)
{
    leat_file_info info = {.size = sizeof info};
    const struct file_use *use = &copying->use;
    int error = leat_file_info_get(copying->source, NULL, &info);
    if (error)
        return error;
    *size = info.bytes;
    if (*size && use->offset > *size)
        return leat_fail(-EINVAL,
                         "%s has %" PRIu64 " bytes: --offset %" PRIu64
                         " is past its end; %s is left as it was",
                         copying->from, *size, use->offset, copying->to.path);
    copying->expected = *size ? *size - use->offset : 0;
    if (use->has_bytes && use->bytes < copying->expected)
        copying->expected = use->bytes;
    return 0;
}

static int look_at_amount(const struct copying *copying, uint64_t size)
{
    const struct file_use *use = &copying->use;
    if (copying->done < copying->expected)
        return leat_fail(-EIO,
                         "%s became shorter meanwhile: %" PRIu64 " of %" PRIu64
                         " bytes were there to copy; %s is left as it was",
                         copying->from, copying->done, copying->expected, copying->to.path);
    if (!size && !copying->done && use->offset && (!use->has_bytes || use->bytes))
        return leat_fail(-EINVAL,
                         "%s ends before --offset %" PRIu64 " (it says it has 0 bytes); %s is left "
                         "as it was",
                         copying->from, use->offset, copying->to.path);
    return 0;
}

static int copy_all(struct copying *copying)
{
    struct file_bar bar;
    const struct file_use *use = &copying->use;
    uint64_t size = 0;
    int error = look_at_source(copying, &size);
    uint64_t known = copying->expected ? copying->expected : use->bytes;
    if (!error)
        error = file_windows_open(&copying->windows, copying->job, known);
    if (error)
        return error;
    crc32c_begin(&copying->crc);
    file_bar_begin(&bar, known, use->json);
    double begin = file_now_s();
    error = carry_all(copying, &bar, size);
    if (!error)
        error = look_at_amount(copying, size);
    if (!error)
        error = leat_file_sync(copying->target);
    if (!error && use->checksum)
        error = compare(copying);
    if (!error)
        error = file_target_take(&copying->to, copying->beside);
    copying->seconds = file_now_s() - begin;
    file_bar_end(&bar);
    return error;
}

// ---- The command ----

static int report(const struct copying *copying)
{
    double rate = copying->seconds > 0 ? (double)copying->done / copying->seconds * 1e-9 : 0;
    char crc[16] = "", amount[48], device[16];
    if (copying->use.checksum)
        snprintf(crc, sizeof crc, "%08" PRIx32, crc32c_value(&copying->crc));
    file_device_name(copying->job, device);
    if (copying->use.json)
        return file_json_print(
            "file cp",
            json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:s?, s:f, s:f, s:o, s:o}", "schema",
                      "leat.file.cp/1", "file", file_json_text(copying->from), "to",
                      file_json_text(copying->to.path), "device", device, "offset",
                      (json_int_t)copying->use.offset, "bytes", (json_int_t)copying->done, "crc32c",
                      *crc ? crc : NULL, "seconds", copying->seconds, "gb_per_s", rate, "paths",
                      file_paths_json(copying->source, NULL, 0), "write_paths",
                      file_paths_json(copying->target, &copying->windows, copying->done)));
    file_print_bytes(amount, copying->done);
    printf("%s -> %s: %s copied and synced in %.3f s, %.2f GB/s\n", copying->from, copying->to.path,
           amount, copying->seconds, rate);
    if (*crc)
        printf("crc32c %s, and that of the copy is the same\n", crc);
    if (copying->use.stats) {
        printf("reading\n");
        file_paths_print(copying->source, NULL, 0);
        printf("writing\n");
        file_paths_print(copying->target, &copying->windows, copying->done);
        file_stats_print(copying->job);
    }
    return EXIT_DONE;
}

static int run(struct copying *copying, const char *target)
{
    int error = file_target_find(copying->from, target, &copying->to);
    if (!error)
        error = open_both(copying);
    if (!error)
        error = copy_all(copying);
    int status = error ? file_fail("file cp", error) : report(copying);
    file_leftover_remove();
    leat_file_close(copying->target);
    leat_file_close(copying->source);
    file_windows_close(&copying->windows);
    return status;
}

int file_copy(int argc, char **argv)
{
    struct copying copying = {0};
    struct option_reader reader;
    int status;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        file_use_option(&reader, &copying.use);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 2 != argc)
        return options_error(&reader, "two names are needed, SRC and DST, got %d",
                             argc - reader.operand);
    copying.from = argv[reader.operand];
    if (!file_job_open(&copying.use, "file cp", &copying.job, &status))
        return status;
    status = run(&copying, argv[reader.operand + 1]);
    leat_close(copying.job, NULL);
    return status;
}
