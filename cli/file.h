/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of `leat file` share: their options, the job they open, and windows: buffers in
 * memory of the device that are used in turn, so that several calls are under way at once.
 *
 * Advantage: a command is a loop over windows. Disadvantage: a file that is larger than the windows
 * is never in memory as a whole.
 */
#ifndef LEAT_CLI_FILE_H
#define LEAT_CLI_FILE_H

#include "format/crc32c.h"
#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"
#include "leat/file.h"
#include "options.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Each takes argv from its own name on; the result is the exit status. */
int file_check(int argc, char **argv);
int file_read(int argc, char **argv);
int file_write(int argc, char **argv);
int file_copy(int argc, char **argv);
int file_tune(int argc, char **argv);

/* ---- Options ---- */

struct file_use {
    const char *device, *direct, *compat, *require; /* NULL: as the settings say */
    uint64_t offset, bytes, task_bytes;
    int threads;
    bool has_offset, has_bytes, checksum, stats, json;
};

enum file_option {
    FILE_OPTION_DEVICE = OPTION_LONG + 200,
    FILE_OPTION_OFFSET,
    FILE_OPTION_BYTES,
    FILE_OPTION_CHECKSUM,
    FILE_OPTION_STATS,
    FILE_OPTION_JSON,
    FILE_OPTION_THREADS,
    FILE_OPTION_TASK,
    FILE_OPTION_DIRECT,
    FILE_OPTION_COMPAT,
    FILE_OPTION_REQUIRE
};

#define FILE_DEVICE_ROW                                                                            \
    {                                                                                              \
        FILE_OPTION_DEVICE, "device", "NAME",                                                      \
            "whose memory: cpu, or a GPU as cuda:0 (LEAT_DEVICE, else cpu)"                        \
    }
#define FILE_PATH_ROWS                                                                             \
    {FILE_OPTION_DIRECT, "direct", "WORD",                                                         \
     "past the page cache: auto, on or off (LEAT_FILE_DIRECT)"},                                   \
        {FILE_OPTION_COMPAT, "compat", "WORD",                                                     \
         "cuFile: auto, on (never) or off (cuFile or an error; LEAT_COMPAT)"},                     \
    {                                                                                              \
        FILE_OPTION_REQUIRE, "require", "PATH",                                                    \
            "fail unless this carries it: cufile, mapped, odirect or buffered"                     \
    }
#define FILE_SIZE_ROWS                                                                             \
    {FILE_OPTION_THREADS, "threads", "N", "threads (LEAT_FILE_THREADS)"},                          \
    {                                                                                              \
        FILE_OPTION_TASK, "task", "BYTES",                                                         \
            "part of a call that one thread carries out (LEAT_FILE_TASK)"                          \
    }
#define FILE_JSON_ROW                                                                              \
    {                                                                                              \
        FILE_OPTION_JSON, "json", NULL, "print one JSON object"                                    \
    }

/* Takes the option if it is one of these. */
void file_use_option(struct option_reader *reader, struct file_use *use);
/* A number of bytes with K, M or G for the option just read. */
bool file_option_bytes(struct option_reader *reader, const char *name, uint64_t *bytes);

/* Opens a job of one rank for them. On an error *status is the exit status, and it has been printed
 * ("leat file NAME: ..."). */
bool file_job_open(const struct file_use *use, const char *command, leat_job **job, int *status);
leat_file_options file_options(const struct file_use *use, int flags);
/* "leat COMMAND: detail" on stderr; 1: the file's errors. After a time-out it ends the process with
 * 124: a thread of it hangs in the system, and whoever closed the file would wait for that. */
int file_fail(const char *command, int error);

/* ---- Windows ---- */

#define FILE_WINDOWS 4

struct file_windows {
    leat_job *job;
    bool on_gpu;
    leat_region *region, *staging; /* of the GPU; of the host, one window */
    char *host;                    /* memory of the CPU device */
    uint64_t bytes_each;
};

/* For transfers of `total` bytes (0: unknown), which a window holds as a whole where it can. */
int file_windows_open(struct file_windows *windows, leat_job *job, uint64_t total);
void file_windows_close(struct file_windows *windows);
leat_buffer file_window(const struct file_windows *windows, int number);
/* What a window holds, where the host reads it; until the next call. */
int file_window_fetch(struct file_windows *windows, int number, uint64_t bytes, char **address);
/* Where the host writes what file_window_publish then brings into the window. */
char *file_window_host(struct file_windows *windows, int number);
int file_window_publish(struct file_windows *windows, int number, uint64_t bytes);

/* ---- Reading through windows ---- */

/*
 * A file from beginning to end, in order. `next` gives windows that have been read, each to be
 * returned by `again` once its content is no longer needed; up to FILE_WINDOWS calls are under way.
 */
struct file_reader {
    leat_file *file;
    struct file_windows *windows;
    uint64_t offset, known_end, end; /* of the next call; of the file when it began; wanted */
    leat_file_range range[FILE_WINDOWS];
    leat_file_request *request[FILE_WINDOWS];
    int next_start, next_wait;
    int busy, held; /* with a call under way; given out */
    bool over;      /* the file's end has been seen */
};

void file_reader_begin(struct file_reader *reader, leat_file *file, struct file_windows *windows,
                       uint64_t offset, uint64_t bytes, bool has_bytes, uint64_t file_bytes);
/* *bytes 0: the end. The windows come in turn, from 0 on. */
int file_reader_next(struct file_reader *reader, int *window, uint64_t *bytes);
void file_reader_again(struct file_reader *reader);
/* Waits for what is under way. */
void file_reader_end(struct file_reader *reader);

/* ---- A file that is removed again ---- */

/* "DIRECTORYWHAT<16 digits>", which nobody else has; the directory with its slash. -1: too long. */
int file_leftover_name(const char *directory, const char *what, char path[PATH_MAX]);
/* Before it is made: it goes with INT, TERM, HUP and file_leftover_remove. One at a time. */
void file_leftover_set(const char *path);
/* It is there to stay, or has another name. */
void file_leftover_kept(void);
void file_leftover_remove(void);

/* ---- A copy's name ---- */

struct file_target {
    char path[PATH_MAX];
    unsigned permissions; /* that the copy gets: those of the file it replaces, else the source's */
    int owner, group;     /* of the file it replaces; -1: there is none */
};

/* The file that a copy of `from` to `given` is to become: in a directory, behind a link. -EINVAL
 * the same file, or something else than a regular one; what the system says. */
int file_target_find(const char *from, const char *given, struct file_target *to);
/* A name in the same directory, for the time until the copy is whole. */
int file_target_beside(const struct file_target *to, char beside[PATH_MAX]);
/* What lies beside takes its permissions and its name, which is on the device then. */
int file_target_take(const struct file_target *to, const char *beside);

/* ---- Reports ---- */

struct file_bar {
    bool shown;
    int drawn;
    uint64_t total;
};
/* On terminals only, and not beside JSON. */
void file_bar_begin(struct file_bar *bar, uint64_t total, bool quiet);
void file_bar_draw(struct file_bar *bar, uint64_t done);
void file_bar_end(struct file_bar *bar);

double file_now_s(void);
/* "cpu", "cuda:0" */
void file_device_name(leat_job *job, char name[16]);
/* About a read of the whole file, or, with the windows that are written, of a write of that many
 * bytes of one. */
int file_ask(leat_file *file, const struct file_windows *written, uint64_t bytes,
             leat_file_info *info);
/* [{path, bytes, ops, reason}] of what the file's calls took; the reasons as file_ask. */
json_t *file_paths_json(leat_file *file, const struct file_windows *written, uint64_t bytes);
void file_paths_print(leat_file *file, const struct file_windows *written, uint64_t bytes);
/* A string of JSON has to be UTF-8 and a file's name does not: bytes that are not become \xNN. */
json_t *file_json_text(const char *text);
/* "1 task", "2 tasks" */
#define FILE_COUNT(count, word) (count), (count) == 1 ? word : word "s"
/* Paths of the device's and the job's counts, as --stats prints them. */
void file_stats_print(leat_job *job);
/* "12345 bytes (12.1 KiB)" */
void file_print_bytes(char text[48], uint64_t bytes);
int file_json_print(const char *command, json_t *object);

#endif
