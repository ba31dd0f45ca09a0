/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: one table for parsing, help and `leat info --config`. Argument, then environment, then
 * file ($LEAT_CONFIG, else ~/.config/leat/leat.conf, lines "LEAT_NAME = value", # for comments),
 * then default. A variable that is set to nothing counts as not set.
 *
 * Advantage: what is checked, documented and printed cannot differ. Disadvantage: every setting
 * goes through text, defaults included, and the file is read at each open.
 */
#ifndef LEAT_CORE_CONFIG_H
#define LEAT_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct leat_options;

enum setting_id {
    SETTING_TIMEOUT,
    SETTING_ARENA,
    SETTING_PATHS,
    SETTING_FABRIC,
    SETTING_DEVICE,
    SETTING_BLOCKS,
    SETTING_PACKETS,
    SETTING_BULK,
    SETTING_SPIN,
    SETTING_LOG,
    SETTING_TRACE,
    SETTING_MSG_BUDGET,
    SETTING_MSG_PEERS,
    SETTING_MSG_EAGER,
    SETTING_MSG_SHARE,
    SETTING_COMPAT,
    SETTING_CUFILE_MIN,
    SETTING_FILE_THREADS,
    SETTING_FILE_TASK,
    SETTING_FILE_BUFFER,
    SETTING_FILE_BUFFERS,
    SETTING_FILE_DIRECT,
    SETTING_FILE_GAP,
    SETTING_FILE_MAPPED_CHUNK,
    SETTING_COUNT
};

enum setting_source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_ARGUMENT };

/* Each kind has one type in struct config: double, uint64_t, int, uint64_t in ns, char[128]. */
enum setting_kind { KIND_SECONDS, KIND_BYTES, KIND_INTEGER, KIND_MICROSECONDS, KIND_TEXT };

struct setting {
    const char *name; /* LEAT_... */
    enum setting_kind kind;
    const char *fallback; /* as a user would write it */
    double minimum, maximum;
    const char *help;
    size_t offset; /* in struct config */
};

extern const struct setting leat_settings[SETTING_COUNT];

struct config {
    double timeout_s;
    uint64_t arena_bytes;
    char paths[128];
    char fabric[128]; /* provider of libfabric, with @ADDRESS, or "auto" */
    char device[128]; /* "cpu", "cuda" or "cuda:0,1" */
    int block_count;
    int packets; /* elements of a pulse */
    int bulk;    /* likewise */
    uint64_t spin_ns;
    int log_level;
    char trace[128]; /* file, or "off" */
    uint64_t msg_budget_bytes, msg_eager_bytes, msg_share_bytes;
    int msg_peers;
    char compat[128]; /* "auto", "on" or "off" */
    char file_direct[128];
    uint64_t cufile_min_bytes, file_task_bytes, file_buffer_bytes, file_gap_bytes,
        file_mapped_chunk_bytes;
    int file_threads, file_buffers;
    enum setting_source source[SETTING_COUNT];
};

/*
 * Fills every setting; `options` may be NULL. A name LEAT_* that is no setting, in the environment
 * or the file, warns with the nearest one, from rank 0 only (`rank`); those of the launcher
 * (LEAT_RANK, LEAT_SIZE, LEAT_JOB_FD), of this file (LEAT_CONFIG) and of leat's own tests are
 * known.
 *
 * -EINVAL  a value outside its range, or a line that cannot be read: named with its source
 * (variable, file and line, or member of leat_options), what was expected and got -ENOENT and other
 * errors of open and read: the file that LEAT_CONFIG names; a missing default file is no error
 */
int leat_config_load(const struct leat_options *options, int rank, struct config *config);

/* The settings file that leat_config_load looks at; false when there is no place to look. */
bool leat_config_file(char *path, size_t bytes);

/* The value as text, as a user would write it, for `leat info --config`. */
void leat_config_print(const struct config *config, enum setting_id id, char *text, size_t bytes);

/* Bytes with an optional K, M, G, T suffix (powers of 1024, "iB" allowed); -EINVAL, with the detail
 * set, otherwise. */
int leat_parse_bytes(const char *text, uint64_t *bytes);

/* Edit distance (insert, delete, replace, swap neighbours); names longer than 63 characters are
 * LEAT_NAME_FAR from everything. */
#define LEAT_NAME_FAR 64u
unsigned leat_name_distance(const char *a, const char *b);

/* "Did you mean": start with {wanted}, consider every candidate; `best` stays NULL when none is
 * near enough to be a typing error. */
struct name_guess {
    const char *wanted, *best;
    unsigned distance;
};
void leat_name_consider(struct name_guess *guess, const char *candidate);

#endif
