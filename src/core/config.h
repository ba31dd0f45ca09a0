/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: one table for parsing, help and `leat info --config`. Argument, then environment, then
 * file ($LEAT_CONFIG, else ~/.config/leat/leat.conf, lines "LEAT_NAME = value"), then default.
 */
#ifndef LEAT_CORE_CONFIG_H
#define LEAT_CORE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

struct leat_options;

enum setting_id {
    SETTING_TIMEOUT,
    SETTING_ARENA,
    SETTING_PATHS,
    SETTING_BLOCKS,
    SETTING_SPIN,
    SETTING_LOG,
    SETTING_COUNT
};

enum setting_source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_ARGUMENT };

enum setting_kind { KIND_SECONDS, KIND_BYTES, KIND_INTEGER, KIND_TEXT };

struct setting {
    const char *name; /* LEAT_... */
    enum setting_kind kind;
    const char *fallback; /* as a user would write it */
    double minimum, maximum;
    const char *help;
};

extern const struct setting leat_settings[SETTING_COUNT];

struct config {
    double timeout_s;
    uint64_t arena_bytes;
    char paths[128];
    int block_count;
    uint64_t spin_ns;
    int log_level;
    enum setting_source source[SETTING_COUNT];
};

/*
 * Fills every setting. -EINVAL names setting, source (file and line) and value. A LEAT_* variable
 * that is no setting and none of the launcher's own (LEAT_RANK, LEAT_SIZE, LEAT_JOB_FD) warns with
 * the nearest name, from rank 0 only (`rank`).
 */
int leat_config_load(const struct leat_options *options, int rank, struct config *config);

/* The value as text, for `leat info --config`. */
void leat_config_print(const struct config *config, enum setting_id id, char *text, size_t bytes);

/* Bytes with an optional K, M, G, T suffix (powers of 1024, "iB" allowed); -EINVAL otherwise. */
int leat_parse_bytes(const char *text, uint64_t *bytes);

/* Edit distance, capped; for "did you mean". */
unsigned leat_name_distance(const char *a, const char *b);

#endif
