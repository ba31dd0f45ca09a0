// SPDX-License-Identifier: Apache-2.0
// leat file check: what a read of a file will take, and why nothing better.
//
// Algorithm: the file layer is asked, twice where a path is required: as it would choose, and with
// nothing but that path. Everything goes into one JSON object, from which the text is printed.
// Advantage: it cannot say anything else than what a read then does. Disadvantage: what is faster
// on this machine it does not know; `leat file tune` and `leat bench file` measure that.

#include "commands.h"
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES (UINT64_C(2) << 20) /* of the read that is asked about, at least */
#define PARTS_MOST UINT64_C(65536)

static const struct option_row rows[] = {
    FILE_DEVICE_ROW,
    {FILE_OPTION_OFFSET, "offset", "BYTES", "where the read would begin (0)"},
    {FILE_OPTION_BYTES, "bytes", "BYTES", "how long it would be (the whole file)"},
    FILE_PATH_ROWS,
    FILE_SIZE_ROWS,
    FILE_JSON_ROW,
};

static const struct option_table table = {
    .command = "file check",
    .synopsis = "PATH [--device NAME] [--bytes N] [--require PATH] [--json]",
    .summary =
        "Says what a read of a file into memory of a device takes: the path and why no better one, "
        "file system, alignment, what of it is in the page cache, cuFile's state, and into how "
        "many "
        "tasks and requests it is cut. Exits with 1 when what --require names cannot be had, with "
        "77 when the device is not there.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct checking {
    struct file_use use;
    const char *path;
    leat_job *job;
    leat_file *file;
    leat_file_info info;
    leat_file_cut cut;
    leat_cufile_info cufile;
    uint64_t bytes; // of the read
    bool met;       // what is required can be had
    char unmet[1024];
};

// ---- Asking ----

// The read that is asked about: many parts into one buffer, which needs no room for all of it.
static int ask(const struct checking *checking, leat_file *file, leat_file_info *info)
{
    leat_device_info device = {.size = sizeof device};
    uint64_t part = checking->bytes / PARTS_MOST + 1;
    part = part > PART_BYTES ? part : PART_BYTES;
    size_t count = (size_t)(checking->bytes / part + (checking->bytes % part != 0));
    leat_file_range *range = calloc(count + 1, sizeof *range);
    leat_region *region = NULL;
    leat_region_options options = {
        .size = sizeof options, .bytes = part, .memory = LEAT_MEMORY_DEVICE};
    int error = leat_device_info_get(checking->job, &device);
    void *host = device.number < 0 ? malloc(part) : NULL;
    if (!error && device.number >= 0)
        error = leat_region_alloc(checking->job, &options, &region);
    if (!range || (device.number < 0 && !host))
        error = leat_fail(-ENOMEM, "no memory for a buffer of %" PRIu64 " bytes", part);
    for (size_t i = 0; !error && i < count; i++) {
        uint64_t at = part * i, left = checking->bytes - at;
        range[i] = (leat_file_range){.file_offset = checking->use.offset + at,
                                     .bytes = left < part ? left : part,
                                     .buffer = {.region = region, .address = host}};
    }
    leat_file_call call = {
        .size = sizeof call, .operation = LEAT_FILE_OP_READ, .ranges = range, .range_count = count};
    if (!error)
        error = leat_file_info_get(file, &call, info);
    free(range);
    free(host);
    leat_region_free(region);
    return error;
}

static void ask_required(struct checking *checking)
{
    leat_file *file = NULL;
    leat_file_info info = {.size = sizeof info};
    leat_file_options options = file_options(&checking->use, LEAT_FILE_READ);
    int error = leat_file_open(checking->job, checking->path, &options, &file);
    if (!error)
        error = ask(checking, file, &info);
    for (int i = 0; !error && i < LEAT_FILE_PATHS; i++)
        if (!strcmp(info.path[i].name, checking->use.require)) {
            checking->met = info.path[i].chosen;
            snprintf(checking->unmet, sizeof checking->unmet, "%s: %s", info.path[i].name,
                     info.path[i].reason);
        }
    if (error)
        snprintf(checking->unmet, sizeof checking->unmet, "%s", leat_error_detail());
    leat_file_close(file);
}

static int ask_all(struct checking *checking)
{
    struct file_use open_use = checking->use;
    open_use.require = NULL;
    leat_file_options options = file_options(&open_use, LEAT_FILE_READ);
    int error = leat_file_open(checking->job, checking->path, &options, &checking->file);
    if (!error)
        error = leat_file_info_get(checking->file, NULL, &checking->info);
    uint64_t offset = checking->use.offset, size = checking->info.bytes;
    checking->bytes = checking->use.has_bytes ? checking->use.bytes
                      : size > offset         ? size - offset
                                              : 0;
    if (!error && offset + checking->bytes > INT64_MAX)
        error = leat_fail(-EINVAL, "--offset and --bytes pass 2^63");
    if (!error)
        error = ask(checking, checking->file, &checking->info);
    if (!error)
        error = leat_file_cut_get(checking->file, checking->bytes, &checking->cut);
    if (!error)
        error = leat_cufile_info_get(checking->job, &checking->cufile);
    if (!error && checking->use.require)
        ask_required(checking);
    return error;
}

// ---- What is missing ----

static void miss(json_t *list, const char *what, const char *costs)
{
    json_array_append_new(list,
                          json_pack("{s:o, s:s}", "what", file_json_text(what), "costs", costs));
}

static json_t *missing(const struct checking *checking)
{
    json_t *list = json_array();
    const leat_file_info *info = &checking->info;
    const leat_cufile_info *cufile = &checking->cufile;
    leat_device_info device = {.size = sizeof device};
    leat_device_info_get(checking->job, &device);
    if (device.number >= 0 && !cufile->version)
        miss(list, cufile->absent,
             "without cuFile nothing goes from storage to the GPU past the host; from the page "
             "cache its compatibility mode would not be faster than leat's own paths");
    else if (device.number >= 0 && !cufile->nvfs && !cufile->p2pdma)
        miss(list, "cuFile has neither its kernel module (nvidia-fs) nor PCI peer-to-peer",
             "it reads by its compatibility mode, through the host, where leat's own paths are "
             "faster from the page cache; LEAT_COMPAT=on takes those");
    bool in_memory = !strcmp(info->file_system, "tmpfs") || !strcmp(info->file_system, "proc");
    if (!info->direct_offset_alignment && !in_memory)
        miss(list, "the alignment of direct I/O is not known (file system, or a kernel below 6.1)",
             "files that are not in the page cache are read through it, at one request a thread, "
             "instead of past it with many under way; --direct on tries all the same");
    if (info->cached_bytes == LEAT_FILE_UNKNOWN)
        miss(list, "the system does not say what is in the page cache",
             "whether direct I/O pays is guessed from the size alone");
    if (!info->bytes)
        miss(list, "the file says it has no bytes (it is empty, or made as it is read)",
             "it is read until it ends, by small steps");
    return list;
}

// ---- Reporting ----

static json_t *number_or_null(uint64_t value)
{
    return value == LEAT_FILE_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

static json_t *describe_cufile(const leat_cufile_info *info)
{
    if (!info->version)
        return json_pack("{s:i, s:o}", "version", 0, "absent", file_json_text(info->absent));
    json_t *settings = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:o}", "direct_io_bytes",
        (json_int_t)info->direct_io_bytes, "min_io_bytes", (json_int_t)info->min_io_bytes,
        "pinned_bytes", (json_int_t)info->pinned_bytes, "cache_bytes",
        (json_int_t)info->cache_bytes, "bar_bytes", (json_int_t)info->bar_bytes, "io_threads",
        info->io_threads, "request_parallelism", info->request_parallelism, "queue_depth",
        info->queue_depth, "batch_entries", info->batch_entries, "parallel_io", info->parallel_io,
        "compat_allowed", info->compat_allowed, "compat_forced", info->compat_forced,
        "settings_file", file_json_text(info->settings_file));
    json_t *counters = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "nvfs_operations", number_or_null(info->nvfs_operations),
        "p2p_operations", number_or_null(info->p2p_operations), "posix_operations",
        number_or_null(info->posix_operations), "nvfs_bytes", number_or_null(info->nvfs_bytes),
        "p2p_bytes", number_or_null(info->p2p_bytes), "posix_bytes",
        number_or_null(info->posix_bytes));
    return json_pack("{s:i, s:o, s:o, s:b, s:b, s:o, s:o}", "version", info->version, "library",
                     file_json_text(info->library), "absent", file_json_text(info->absent), "nvfs",
                     info->nvfs, "p2pdma", info->p2pdma, "settings", settings, "counters",
                     counters);
}

static json_t *describe(const struct checking *checking)
{
    const leat_file_info *info = &checking->info;
    char device[16];
    file_device_name(checking->job, device);
    json_t *paths = json_array();
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        json_array_append_new(paths, json_pack("{s:s, s:b, s:o}", "path", info->path[i].name,
                                               "chosen", info->path[i].chosen, "reason",
                                               file_json_text(info->path[i].reason)));
    json_t *cut = json_pack("{s:I, s:I, s:I, s:I}", "tasks", (json_int_t)checking->cut.tasks,
                            "task_bytes", (json_int_t)checking->cut.task_bytes,
                            "cufile_requests_per_task", (json_int_t)checking->cut.requests_per_task,
                            "cufile_request_bytes", (json_int_t)checking->cut.request_bytes);
    json_t *report = json_pack(
        "{s:s, s:o, s:s, s:s, s:I, s:o, s:I, s:I, s:{s:I, s:I}, s:o, s:o, s:o, s:o}", "schema",
        "leat.file.check/1", "file", file_json_text(checking->path), "device", device,
        "file_system", info->file_system, "bytes", (json_int_t)info->bytes, "cached_bytes",
        number_or_null(info->cached_bytes), "direct_memory_alignment",
        (json_int_t)info->direct_memory_alignment, "direct_offset_alignment",
        (json_int_t)info->direct_offset_alignment, "read", "offset",
        (json_int_t)checking->use.offset, "bytes", (json_int_t)checking->bytes, "paths", paths,
        "cut", cut, "cufile", describe_cufile(&checking->cufile), "missing", missing(checking));
    if (report && checking->use.require)
        json_object_set_new(report, "required",
                            json_pack("{s:s, s:b, s:o}", "path", checking->use.require, "met",
                                      checking->met, "reason", file_json_text(checking->unmet)));
    return report;
}

static void print_cufile(const leat_cufile_info *info)
{
    if (!info->version) {
        printf("cuFile      absent: %s\n", info->absent);
        return;
    }
    printf("cuFile      %d.%d (%s); nvidia-fs %s, peer-to-peer %s, compatibility mode %s\n",
           info->version / 1000, info->version % 1000 / 10, info->library,
           info->nvfs ? "yes" : "no", info->p2pdma ? "yes" : "no",
           info->compat_forced    ? "forced"
           : info->compat_allowed ? "allowed"
                                  : "not allowed");
    if (*info->absent)
        printf("            not usable: %s\n", info->absent);
    printf("            requests up to %" PRIu64 " bytes, not cut below %" PRIu64 "; %d threads, "
           "%d parts a request, %d deep, batches of %d; settings from %s\n",
           info->direct_io_bytes, info->min_io_bytes, info->io_threads, info->request_parallelism,
           info->queue_depth, info->batch_entries,
           *info->settings_file ? info->settings_file : "its defaults");
    if (info->posix_bytes != LEAT_FILE_UNKNOWN)
        printf("            so far, this process: nvfs %" PRIu64 " bytes, p2p %" PRIu64
               ", posix %" PRIu64 "\n",
               info->nvfs_bytes, info->p2p_bytes, info->posix_bytes);
}

static void print_text(const struct checking *checking, const json_t *report)
{
    const leat_file_info *info = &checking->info;
    const leat_file_cut *cut = &checking->cut;
    char size[48], read[48], cached[48] = "not known";
    file_print_bytes(size, info->bytes);
    file_print_bytes(read, checking->bytes);
    if (info->cached_bytes != LEAT_FILE_UNKNOWN)
        file_print_bytes(cached, info->cached_bytes);
    printf("file        %s\nfile system %s\nsize        %s\nin cache    %s\n", checking->path,
           info->file_system, size, cached);
    if (info->direct_offset_alignment)
        printf("direct I/O  memory at %u bytes, offsets at %u\n", info->direct_memory_alignment,
               info->direct_offset_alignment);
    else
        printf("direct I/O  none, or its alignment is not known\n");
    printf("\na read of %s at offset %" PRIu64 " into memory of %s:\n", read, checking->use.offset,
           json_string_value(json_object_get(report, "device")));
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        printf("  %-9s %s  %s\n", info->path[i].name, info->path[i].chosen ? "TAKEN" : "no   ",
               info->path[i].reason);
    printf("  cut into %" PRIu64 " %s of %" PRIu64 " %s", FILE_COUNT(cut->tasks, "task"),
           FILE_COUNT(cut->task_bytes, "byte"));
    if (cut->requests_per_task)
        printf("; by cuFile each into %" PRIu64 " %s of %" PRIu64,
               FILE_COUNT(cut->requests_per_task, "request"), cut->request_bytes);
    printf("\n\n");
    print_cufile(&checking->cufile);
    const json_t *list = json_object_get(report, "missing");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        printf("\nmissing     %s\nwhich costs %s\n",
               json_string_value(json_object_get(one, "what")),
               json_string_value(json_object_get(one, "costs")));
    }
    if (checking->use.require)
        printf("\nrequired    %s: %s\n", checking->use.require,
               checking->met ? "can be had" : "CANNOT be had");
}

static int run(struct checking *checking)
{
    int error = ask_all(checking);
    json_t *report = error ? NULL : describe(checking);
    if (!error && !report)
        error = leat_fail(-ENOMEM, "no memory for the report");
    int status = EXIT_DONE;
    if (error)
        status = file_fail("file check", error);
    else if (checking->use.json)
        status = file_json_print("file check", report);
    else
        print_text(checking, report);
    if (report && !checking->use.json)
        json_decref(report);
    if (!error && checking->use.require && !checking->met) {
        fprintf(stderr, "leat file check: --require %s is not met: %s\n", checking->use.require,
                checking->unmet);
        status = EXIT_FAILED;
    }
    leat_file_close(checking->file);
    return status;
}

int file_check(int argc, char **argv)
{
    struct checking checking = {.info = {.size = sizeof(leat_file_info)},
                                .cufile = {.size = sizeof(leat_cufile_info)}};
    struct option_reader reader;
    int status;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        file_use_option(&reader, &checking.use);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 1 != argc)
        return options_error(&reader, "one file is looked at, got %d", argc - reader.operand);
    checking.path = argv[reader.operand];
    if (!file_job_open(&checking.use, "file check", &checking.job, &status))
        return status;
    status = run(&checking);
    leat_close(checking.job, NULL);
    return status;
}
