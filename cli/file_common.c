// SPDX-License-Identifier: Apache-2.0
// Options, jobs and reports of `leat file`; see file.h.

#define _GNU_SOURCE
#include "file.h"

#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "device/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_COLUMNS 40

// ---- Options ----

bool file_option_bytes(struct option_reader *reader, const char *name, uint64_t *bytes)
{
    uint64_t value;
    if (leat_parse_bytes(reader->value, &value) || value > INT64_MAX) {
        options_error(reader,
                      "--%s is \"%s\"; expected bytes, with K, M or G for powers of 1024, "
                      "below 2^63",
                      name, reader->value);
        return false;
    }
    *bytes = value;
    return true;
}

static void take_word(struct option_reader *reader, const char *const *words, size_t count,
                      const char **word)
{
    int index;
    if (options_choice(reader, words, count, &index))
        *word = words[index];
}

static void take_device(struct option_reader *reader, struct file_use *use)
{
    const char *wrong = leat_device_wrong(reader->value);
    if (wrong)
        options_error(reader, "--device is \"%s\"; %s", reader->value, wrong);
    use->device = reader->value;
}

void file_use_option(struct option_reader *reader, struct file_use *use)
{
    static const char *const ways[] = {"auto", "on", "off"};
    static const char *const paths[] = {"cufile", "mapped", "odirect", "buffered"};
    switch (reader->id) {
    case FILE_OPTION_DEVICE:
        take_device(reader, use);
        break;
    case FILE_OPTION_OFFSET:
        use->has_offset = file_option_bytes(reader, "offset", &use->offset);
        break;
    case FILE_OPTION_BYTES:
        use->has_bytes = file_option_bytes(reader, "bytes", &use->bytes);
        break;
    case FILE_OPTION_CHECKSUM:
        use->checksum = true;
        break;
    case FILE_OPTION_STATS:
        use->stats = true;
        break;
    case FILE_OPTION_JSON:
        use->json = true;
        break;
    case FILE_OPTION_THREADS:
        options_integer(reader, 1, 256, &use->threads);
        break;
    case FILE_OPTION_TASK:
        if (file_option_bytes(reader, "task", &use->task_bytes) && use->task_bytes < 4096)
            options_error(reader, "--task is \"%s\"; expected at least 4K", reader->value);
        break;
    case FILE_OPTION_DIRECT:
        take_word(reader, ways, 3, &use->direct);
        break;
    case FILE_OPTION_COMPAT:
        take_word(reader, ways, 3, &use->compat);
        break;
    case FILE_OPTION_REQUIRE:
        take_word(reader, paths, 4, &use->require);
        break;
    }
}

// ---- Jobs ----

bool file_job_open(const struct file_use *use, const char *command, leat_job **job, int *status)
{
    leat_options options = {.size = sizeof options, .device = use->device};
    if (use->threads) {
        char number[16];
        snprintf(number, sizeof number, "%d", use->threads);
        setenv("LEAT_FILE_THREADS", number, 1);
    }
    int error = leat_open(&options, job);
    if (error)
        *status = error == -ENODEV ? (command_fail(command, error), EXIT_UNSUPPORTED)
                                   : command_fail(command, error);
    return !error;
}

leat_file_options file_options(const struct file_use *use, int flags)
{
    return (leat_file_options){.size = sizeof(leat_file_options),
                               .flags = flags,
                               .compat = use->compat,
                               .direct = use->direct,
                               .require = use->require,
                               .task_bytes = use->task_bytes};
}

int file_fail(const char *command, int error)
{
    if (command_fail(command, error) != EXIT_TIMED_OUT)
        return EXIT_FAILED;
    file_leftover_remove();
    fflush(stdout);
    _exit(EXIT_TIMED_OUT);
}

// ---- Reports ----

void file_bar_begin(struct file_bar *bar, uint64_t total, bool quiet)
{
    *bar = (struct file_bar){.shown = total && !quiet && isatty(STDERR_FILENO), .total = total};
    bar->drawn = -1;
}

void file_bar_draw(struct file_bar *bar, uint64_t done)
{
    if (!bar->shown)
        return;
    double part = (double)done / (double)bar->total;
    int columns = part < 1 ? (int)(part * BAR_COLUMNS) : BAR_COLUMNS;
    if (columns == bar->drawn)
        return;
    bar->drawn = columns;
    fprintf(stderr, "\r[");
    for (int i = 0; i < BAR_COLUMNS; i++)
        fputc(i < columns ? '#' : ' ', stderr);
    fputc(']', stderr);
    fflush(stderr);
}

void file_bar_end(struct file_bar *bar)
{
    if (bar->shown)
        fprintf(stderr, "\r%*s\r", BAR_COLUMNS + 2, "");
}

double file_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void file_device_name(leat_job *job, char name[16])
{
    leat_device_info info = {.size = sizeof info};
    leat_device_info_get(job, &info);
    snprintf(name, 16, "%s", info.name);
}

int file_ask(leat_file *file, const struct file_windows *written, uint64_t bytes,
             leat_file_info *info)
{
    if (!written)
        return leat_file_info_get(file, NULL, info);
    leat_file_range range = {.bytes = bytes < written->bytes_each ? bytes : written->bytes_each,
                             .buffer = file_window(written, 0)};
    leat_file_call call = {
        .size = sizeof call, .operation = LEAT_FILE_OP_WRITE, .ranges = &range, .range_count = 1};
    return leat_file_info_get(file, &call, info);
}

json_t *file_paths_json(leat_file *file, const struct file_windows *written, uint64_t bytes)
{
    leat_file_info info = {.size = sizeof info};
    json_t *list = json_array();
    if (file_ask(file, written, bytes, &info))
        return list;
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o}", "path", info.path[i].name,
                                              "bytes", (json_int_t)info.path[i].bytes, "ops",
                                              (json_int_t)info.path[i].operations, "reason",
                                              file_json_text(info.path[i].reason)));
    return list;
}

void file_paths_print(leat_file *file, const struct file_windows *written, uint64_t bytes)
{
    leat_file_info info = {.size = sizeof info};
    if (file_ask(file, written, bytes, &info))
        return;
    printf("%-9s %16s %10s  %s\n", "path", "bytes", "ops",
           written ? "a write like these would take it?" : "a read of the whole would take it?");
    for (int i = 0; i < LEAT_FILE_PATHS; i++)
        printf("%-9s %16" PRIu64 " %10" PRIu64 "  %s%s\n", info.path[i].name, info.path[i].bytes,
               info.path[i].operations,
               info.path[i].chosen ? "yes: " : "no: ", info.path[i].reason);
}

// Bytes of the character that begins there, 0: it is none.
static size_t character(const char *text)
{
    for (size_t bytes = 1; bytes <= 4 && text[bytes - 1]; bytes++) {
        json_t *one = json_stringn(text, bytes); // jansson's own mind about UTF-8
        json_decref(one);
        if (one)
            return bytes;
    }
    return 0;
}

json_t *file_json_text(const char *text)
{
    json_t *made = json_string(text);
    char *clean = made ? NULL : malloc(4 * strlen(text) + 1);
    if (!clean)
        return made;
    size_t used = 0;
    while (*text) {
        size_t bytes = character(text);
        if (bytes)
            memcpy(clean + used, text, bytes);
        else
            snprintf(clean + used, 5, "\\x%02X", (unsigned)(unsigned char)*text);
        used += bytes ? bytes : 4;
        text += bytes ? bytes : 1;
    }
    clean[used] = 0;
    made = json_string(clean);
    free(clean);
    return made;
}

void file_stats_print(leat_job *job)
{
    leat_stats stats = {.size = sizeof stats};
    if (leat_stats_read(job, LEAT_ALL_PEERS, &stats))
        return;
    for (int i = 0; i < stats.path_count; i++)
        printf("job: %-9s %16" PRIu64 " %s in %" PRIu64 " %s\n", stats.path[i].path,
               FILE_COUNT(stats.path[i].bytes, "byte"),
               FILE_COUNT(stats.path[i].operations, "operation"));
    printf("job: %" PRIu64 " blocking %s, %" PRIu64 " launch%s\n",
           FILE_COUNT(stats.blocking_waits, "wait"), stats.launches,
           stats.launches == 1 ? "" : "es");
}

void file_print_bytes(char text[48], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double scaled = (double)bytes / 1024;
    int unit = 0;
    while (scaled >= 1024 && unit < 3) {
        scaled /= 1024;
        unit++;
    }
    if (bytes < 1024)
        snprintf(text, 48, "%" PRIu64 " %s", FILE_COUNT(bytes, "byte"));
    else
        snprintf(text, 48, "%" PRIu64 " bytes (%.1f %s)", bytes, scaled, units[unit]);
}

int file_json_print(const char *command, json_t *object)
{
    if (!object)
        return command_fail(command, leat_fail(-ENOMEM, "no memory for the report"));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
    return EXIT_DONE;
}
