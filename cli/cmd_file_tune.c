// SPDX-License-Identifier: Apache-2.0
// leat file tune: measures reads on this machine and keeps the settings that do best.
//
// Algorithm: one setting after the other, the others as they are best so far. Each value gets a job
// of its own; they read the same file by turns, so that all see the same machine. The default stays
// where its median is within 3 % of the best, else the smallest value is taken that is. Advantage:
// minutes, not hours, and without evidence nothing changes. Disadvantage: settings that only help
// together are not found.

#define _GNU_SOURCE
#include "bench_settings.h"
#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define VALUES_MOST 8
#define ROUNDS_MOST 99
#define NEAR        0.97 /* of the best: as good */

enum { OPTION_ROUNDS = OPTION_LONG, OPTION_DRY };

static const struct option_row rows[] = {
    FILE_DEVICE_ROW,
    {FILE_OPTION_BYTES, "bytes", "BYTES", "of the file that is made to be read (512M)"},
    {OPTION_ROUNDS, "rounds", "N", "reads with each value (7)"},
    {OPTION_DRY, "dry-run", NULL, "print the settings and keep none"},
    FILE_JSON_ROW,
};

static const struct option_table table = {
    .command = "file tune",
    .synopsis = "[FILE|DIRECTORY] [--device NAME] [--bytes N] [--rounds N] [--dry-run] [--json]",
    .summary = "Measures reads of a file, or of one that it makes in a directory (.), from the "
               "page cache into memory of a device with several values of each setting, and puts "
               "those that do best into the settings file. What else is in that file stays.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

// The default, as core/config_table.c has it, then the others rising; a GPU has more that matters.
static const struct axis {
    const char *name, *value[VALUES_MOST];
    bool gpu_only;
} axes[] = {
    {"LEAT_FILE_THREADS", {"0", "1", "2", "4", "8", "12", "16"}, false},
    {"LEAT_FILE_TASK", {"4M", "1M", "2M", "8M", "16M"}, false},
    {"LEAT_FILE_BUFFER", {"2M", "512K", "1M", "4M"}, true},
    {"LEAT_FILE_BUFFERS", {"4", "2", "8"}, true},
    {"LEAT_FILE_MAPPED_CHUNK", {"64M", "16M", "256M"}, true},
};

struct candidate {
    const char *value;
    leat_job *job;
    leat_file *file;
    leat_region *region;
    double gb_per_s[ROUNDS_MOST];
};

struct tuning {
    struct file_use use;
    int rounds;
    bool dry;
    const char *path;
    char made[PATH_MAX]; // the file that is removed again
    char *host;
    uint64_t bytes, window; // of the file; read at once
    bool on_gpu;
    struct candidate candidate[VALUES_MOST];
    int count;
    json_t *settings;
};

// ---- The file ----

static int make_file(struct tuning *tuning, const char *directory)
{
    enum { PIECE = 4 << 20 };
    struct statvfs room;
    if (!statvfs(directory, &room) && room.f_blocks && room.f_frsize &&
        tuning->use.bytes / room.f_frsize >= room.f_bavail) // its blocks' list takes some too
        return leat_fail(-ENOSPC,
                         "a file of %" PRIu64 " bytes in %s: %" PRIu64
                         " are free there; --bytes asks for less",
                         tuning->use.bytes, directory, (uint64_t)room.f_bavail * room.f_frsize);
    if (file_leftover_name(directory, "/leat-tune-", tuning->made))
        return leat_fail(-ENAMETOOLONG, "%s is too long a path", directory);
    file_leftover_set(tuning->made);
    int fd = open(tuning->made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        int reason = errno;
        file_leftover_kept();
        return leat_fail(-reason, "cannot make a file in %s: %s", directory, strerror(reason));
    }
    char *piece = malloc(PIECE);
    int reason = piece ? 0 : ENOMEM;
    for (uint64_t at = 0; !reason && at < tuning->use.bytes;) {
        uint64_t left = tuning->use.bytes - at;
        memset(piece, (int)(at >> 22), PIECE);
        ssize_t put = write(fd, piece, left < PIECE ? left : PIECE);
        if (put < 0 && errno != EINTR)
            reason = errno;
        at += put > 0 ? (uint64_t)put : 0;
    }
    // Dirty pages would be written out while others are timed.
    if (!reason && fsync(fd))
        reason = errno;
    free(piece);
    close(fd);
    tuning->path = tuning->made;
    return reason ? leat_fail(-reason, "cannot write %s: %s; --bytes asks for less", tuning->made,
                              strerror(reason))
                  : 0;
}

static int find_file(struct tuning *tuning, const char *given)
{
    struct stat status;
    if (stat(given, &status))
        return leat_fail(-errno, "cannot open %s: %s", given, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return make_file(tuning, given);
    tuning->path = given;
    return 0;
}

// ---- Candidates ----

static int open_candidate(struct tuning *tuning, const struct axis *axis, struct candidate *one)
{
    leat_options options = {.size = sizeof options, .device = tuning->use.device};
    leat_file_options how = {.size = sizeof how};
    leat_region_options region = {
        .size = sizeof region, .bytes = tuning->window, .memory = LEAT_MEMORY_DEVICE};
    setenv(axis->name, one->value, 1);
    int error = leat_open(&options, &one->job);
    if (!error)
        error = leat_file_open(one->job, tuning->path, &how, &one->file);
    if (!error && tuning->on_gpu)
        error = leat_region_alloc(one->job, &region, &one->region);
    return error;
}

static void close_candidates(struct tuning *tuning)
{
    for (int i = 0; i < tuning->count; i++) {
        struct candidate *one = &tuning->candidate[i];
        leat_file_close(one->file);
        leat_region_free(one->region);
        leat_close(one->job, NULL);
    }
    tuning->count = 0;
}

static int read_once(const struct tuning *tuning, struct candidate *one, double *gb_per_s)
{
    leat_buffer buffer = {.region = one->region, .address = one->region ? NULL : tuning->host};
    double begin = file_now_s();
    for (uint64_t at = 0; at < tuning->bytes;) {
        uint64_t left = tuning->bytes - at, done = 0;
        int error = leat_file_read(one->file, buffer, at,
                                   left < tuning->window ? left : tuning->window, &done);
        if (!error && !done)
            error = leat_fail(-EIO, "%s has become shorter", tuning->path);
        if (error)
            return error;
        at += done;
    }
    *gb_per_s = (double)tuning->bytes / (file_now_s() - begin) * 1e-9;
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(struct tuning *tuning)
{
    double warm;
    int error = 0;
    for (int i = 0; !error && i < tuning->count; i++)
        error = read_once(tuning, &tuning->candidate[i], &warm);
    for (int round = 0; !error && round < tuning->rounds; round++)
        for (int i = 0; !error && i < tuning->count; i++) {
            // Nobody is always first.
            struct candidate *one = &tuning->candidate[(round + i) % tuning->count];
            error = read_once(tuning, one, &one->gb_per_s[round]);
        }
    for (int i = 0; i < tuning->count; i++)
        qsort(tuning->candidate[i].gb_per_s, (size_t)tuning->rounds, sizeof(double), compare);
    return error;
}

static const struct candidate *best(const struct tuning *tuning)
{
    int middle = tuning->rounds / 2;
    double most = 0;
    for (int i = 0; i < tuning->count; i++)
        if (tuning->candidate[i].gb_per_s[middle] > most)
            most = tuning->candidate[i].gb_per_s[middle];
    int i = 0;
    while (tuning->candidate[i].gb_per_s[middle] < NEAR * most)
        i++;
    return &tuning->candidate[i];
}

static void note(struct tuning *tuning, const struct axis *axis, const struct candidate *chosen)
{
    int middle = tuning->rounds / 2, last = tuning->rounds - 1;
    json_t *list = json_array();
    for (int i = 0; i < tuning->count; i++) {
        const struct candidate *one = &tuning->candidate[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:f, s:f}", "value", one->value, "gb_per_s",
                                        one->gb_per_s[middle], "gb_per_s_min", one->gb_per_s[0],
                                        "gb_per_s_max", one->gb_per_s[last]));
        if (!tuning->use.json)
            printf("%-22s = %-5s %7.2f (%.2f-%.2f) GB/s%s\n", axis->name, one->value,
                   one->gb_per_s[middle], one->gb_per_s[0], one->gb_per_s[last],
                   one == chosen ? "  <- taken" : "");
    }
    fflush(stdout);
    json_array_append_new(tuning->settings, json_pack("{s:s, s:s, s:o}", "name", axis->name,
                                                      "value", chosen->value, "measured", list));
}

static int tune_axis(struct tuning *tuning, const struct axis *axis)
{
    int error = 0;
    for (int i = 0; !error && i < VALUES_MOST && axis->value[i]; i++) {
        tuning->candidate[i] = (struct candidate){.value = axis->value[i]};
        tuning->count++;
        error = open_candidate(tuning, axis, &tuning->candidate[i]);
    }
    if (!error)
        error = measure(tuning);
    if (!error) {
        const struct candidate *chosen = best(tuning);
        note(tuning, axis, chosen);
        setenv(axis->name, chosen->value, 1); // for what comes after it
    }
    if (error != -ETIMEDOUT)
        close_candidates(tuning);
    return error;
}

// ---- The command ----

static int prepare(struct tuning *tuning, const char *given, int *status)
{
    leat_job *job;
    leat_file *file = NULL;
    leat_file_info info = {.size = sizeof info};
    leat_device_info device = {.size = sizeof device};
    if (!file_job_open(&tuning->use, "file tune", &job, status))
        return 1;
    int error = leat_device_info_get(job, &device);
    tuning->on_gpu = device.number >= 0;
    if (!error)
        error = find_file(tuning, given);
    if (!error)
        error = leat_file_open(job, tuning->path, NULL, &file);
    if (!error)
        error = leat_file_info_get(file, NULL, &info);
    if (!error && info.bytes < 1 << 20)
        error = leat_fail(-EINVAL, "%s has %" PRIu64 " bytes; to measure takes at least 1M",
                          tuning->path, info.bytes);
    tuning->bytes = info.bytes;
    tuning->window = info.bytes < 256u << 20 ? info.bytes : 256u << 20;
    leat_file_close(file);
    leat_close(job, NULL);
    void *host = NULL;
    if (!error && posix_memalign(&host, 4096, tuning->window))
        error = leat_fail(-ENOMEM, "no memory for %" PRIu64 " bytes", tuning->window);
    tuning->host = host;
    if (error)
        *status = file_fail("file tune", error);
    else
        memset(tuning->host, 0, tuning->window);
    return error;
}

static int keep(const struct tuning *tuning, char *path, size_t bytes)
{
    int error = 0;
    if (!leat_config_file(path, bytes))
        return leat_fail(-ENOENT, "there is no place for a settings file: set LEAT_CONFIG or HOME");
    for (size_t i = 0; !error && i < json_array_size(tuning->settings); i++) {
        const json_t *setting = json_array_get(tuning->settings, i);
        error = bench_settings_set(path, json_string_value(json_object_get(setting, "name")),
                                   json_string_value(json_object_get(setting, "value")));
    }
    return error;
}

static int run(struct tuning *tuning)
{
    char path[4096] = "";
    int error = 0;
    tuning->settings = json_array();
    for (size_t i = 0; !error && i < sizeof axes / sizeof *axes; i++)
        if (tuning->on_gpu || !axes[i].gpu_only)
            error = tune_axis(tuning, &axes[i]);
    if (!error && !tuning->dry)
        error = keep(tuning, path, sizeof path);
    if (error) {
        json_decref(tuning->settings);
        return file_fail("file tune", error);
    }
    if (tuning->use.json)
        return file_json_print("file tune",
                               json_pack("{s:s, s:o, s:I, s:o, s:o}", "schema", "leat.file.tune/1",
                                         "file", file_json_text(tuning->path), "bytes",
                                         (json_int_t)tuning->bytes, "settings", tuning->settings,
                                         "written", *path ? file_json_text(path) : json_null()));
    json_decref(tuning->settings);
    if (*path)
        printf("kept in %s\n", path);
    return EXIT_DONE;
}

// A settings file that LEAT_CONFIG names has to be there for a job to open; this is who makes it.
static int make_settings(const struct tuning *tuning)
{
    const char *named = getenv("LEAT_CONFIG");
    if (tuning->dry || !named || !*named)
        return 0;
    int fd = open(named, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return leat_fail(-errno, "cannot make %s, which LEAT_CONFIG names: %s", named,
                         strerror(errno));
    close(fd);
    return 0;
}

int file_tune(int argc, char **argv)
{
    struct tuning tuning = {.use = {.bytes = UINT64_C(512) << 20}, .rounds = 7};
    struct option_reader reader;
    int status = EXIT_DONE;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        if (reader.id == OPTION_ROUNDS)
            options_integer(&reader, 1, ROUNDS_MOST, &tuning.rounds);
        else if (reader.id == OPTION_DRY)
            tuning.dry = true;
        else
            file_use_option(&reader, &tuning.use);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand + 1 < argc)
        return options_error(&reader, "one file or directory, got %d", argc - reader.operand);
    int error = make_settings(&tuning);
    if (error)
        return file_fail("file tune", error);
    if (!prepare(&tuning, reader.operand < argc ? argv[reader.operand] : ".", &status))
        status = run(&tuning);
    file_leftover_remove();
    free(tuning.host);
    return status;
}
