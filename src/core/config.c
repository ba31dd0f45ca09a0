// SPDX-License-Identifier: Apache-2.0
// Settings: one table, four sources.
//
// Algorithm: every setting is assigned as text from the weakest source to the strongest: default,
// file, environment, argument. Each assignment is checked, also one that a stronger source
// replaces. Advantage: a value that is wrong is reported where it stands, not once it happens to
// count. Disadvantage: a wrong line in the file cannot be mended by a variable.

#define _GNU_SOURCE
#include "core/config.h"

#include "core/error.h"
#include "core/log.h"
#include "device/ops.h"
#include "file/internal.h"
#include "leat/leat.h"
#include "transport/transport.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAXIMUM = 4096 }; // bytes of a line of the settings file

static const char *const log_words[] = {"error", "warn", "info", "debug"};

// LEAT_ names that are read elsewhere: by the launcher's ranks, here, and by leat's own tests.
static const char *const other_names[] = {
    "LEAT_RANK",       "LEAT_SIZE",   "LEAT_JOB_FD", "LEAT_CONFIG", "LEAT_BIN",     "LEAT_SHARED",
    "LEAT_SOURCE_DIR", "LEAT_TOTALS", "LEAT_LONG",   "LEAT_ROOT",   "LEAT_JOB_KEY",
};

#define PREFIX        "LEAT_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)

// Names that nobody knows are kept until the log level is known.
#define STRANGERS 8

struct stranger {
    char name[48];
    unsigned line; // of the settings file; 0: environment
};

struct loader {
    struct config *config;
    enum setting_source source;
    char where[320]; // for messages: " in the environment", " at FILE:LINE"
    struct stranger stranger[STRANGERS];
    size_t stranger_count;
};

// ---- Names ----

// " (did you mean X?)", or nothing.
static void print_guess(const struct name_guess *guess, const char *prefix, char *text,
                        size_t bytes)
{
    text[0] = '\0';
    if (guess->best)
        snprintf(text, bytes, " (did you mean %s%s?)", prefix, guess->best);
}

// ---- Values ----

int leat_parse_bytes(const char *text, uint64_t *bytes)
{
    uint64_t value = 0;
    const char *at = text;
    bool overflow = false;
    for (; isdigit((unsigned char)*at); at++)
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    bool digits = at != text;
    static const char suffixes[] = "KMGT";
    const char *suffix = *at ? strchr(suffixes, toupper((unsigned char)*at)) : NULL;
    if (suffix) {
        overflow |=
            __builtin_mul_overflow(value, UINT64_C(1) << 10 * (suffix - suffixes + 1), &value);
        at++;
        if (!strcmp(at, "iB"))
            at += 2;
    }
    if (!digits || *at)
        return leat_fail(-EINVAL,
                         "\"%s\" is no number of bytes; expected digits with an optional K, M, G "
                         "or T (powers of 1024), as in 512M",
                         text);
    if (overflow)
        return leat_fail(-EINVAL, "\"%s\" bytes do not fit in 64 bits", text);
    *bytes = value;
    return 0;
}

// Decimal numbers with a point, whatever the program's locale says.
static bool parse_decimal(const char *text, double *value)
{
    if (!*text || text[strspn(text, "0123456789.eE+-")])
        return false;
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    char *end;
    *value = strtod_l(text, &end, plain);
    freelocale(plain);
    return !*end && isfinite(*value);
}

// One name of a rule "require:..." or "forbid:..."; it need not end where `name` ends.
static int check_path_name(const char *name, size_t length, const char *where)
{
    char word[32] = "";
    if (length < sizeof word)
        memcpy(word, name, length);
    struct name_guess guess = {.wanted = word};
    char known[128] = "";
    size_t used = 0;
    static const char *const uses[] = {"proxy", "nvshmem-put"}; // how kernels use a path
    for (int row = 0; row < ROW_COUNT + FILE_ROWS + 2; row++) {
        const int file = row - ROW_COUNT;
        const char *row_name = file < 0           ? leat_transports[row]->name
                               : file < FILE_ROWS ? file_paths[file]->name
                                                  : uses[file - FILE_ROWS];
        if (!strcmp(word, row_name))
            return 0;
        leat_name_consider(&guess, row_name);
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", row ? ", " : "",
                                     row_name);
    }
    char hint[64];
    print_guess(&guess, "", hint, sizeof hint);
    return leat_fail(-EINVAL, "LEAT_PATHS%s: there is no path \"%.*s\"%s; the paths are %s", where,
                     (int)(length < 64 ? length : 64), name, hint, known);
}

static int check_paths(const char *rule, const char *where)
{
    if (!strcmp(rule, "auto"))
        return 0;
    bool require = !strncmp(rule, "require:", 8), forbid = !strncmp(rule, "forbid:", 7);
    if (!require && !forbid)
        return leat_fail(-EINVAL,
                         "LEAT_PATHS%s is \"%s\"; expected auto, require:NAME or "
                         "forbid:NAME[,NAME]",
                         where, rule);
    if (strlen(rule) >= sizeof((struct config *)0)->paths)
        return leat_fail(-EINVAL, "LEAT_PATHS%s is %zu characters long; at most %zu are read",
                         where, strlen(rule), sizeof((struct config *)0)->paths - 1);
    const char *name = rule + (require ? 8 : 7);
    for (;;) {
        // One row is taken, so one can be required: a comma there belongs to the (unknown) name.
        size_t length = require ? strlen(name) : strcspn(name, ",");
        int error = check_path_name(name, length, where);
        if (error || !name[length])
            return error;
        name += length + 1;
    }
}

static int check_log_word(const char *text, const char *where, int *level)
{
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (!strcmp(text, log_words[i])) {
            *level = i;
            return 0;
        }
    return leat_fail(-EINVAL, "LEAT_LOG%s is \"%s\"; expected error, warn, info or debug", where,
                     text);
}

static int check_length(const struct setting *setting, const char *text, const char *where)
{
    if (strlen(text) < sizeof((struct config *)0)->trace)
        return 0;
    return leat_fail(-EINVAL, "%s%s is %zu characters long; at most %zu are read", setting->name,
                     where, strlen(text), sizeof((struct config *)0)->trace - 1);
}

static int check_switch(const struct setting *setting, const char *text, const char *where)
{
    if (!strcmp(text, "auto") || !strcmp(text, "on") || !strcmp(text, "off"))
        return 0;
    return leat_fail(-EINVAL, "%s%s is \"%s\"; expected auto, on or off", setting->name, where,
                     text);
}

static int check_device(const char *text, const char *where)
{
    const char *wrong = leat_device_wrong(text);
    if (!wrong && strlen(text) < sizeof((struct config *)0)->device)
        return 0;
    return leat_fail(-EINVAL, "LEAT_DEVICE%s is \"%s\"; %s", where, text,
                     wrong ? wrong : "that is too long");
}

static void print_bytes(uint64_t bytes, char *text, size_t text_bytes)
{
    static const char suffixes[] = "KMGT";
    int power = 0;
    while (power < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        power++;
    }
    char suffix[2] = {power ? suffixes[power - 1] : '\0', '\0'};
    snprintf(text, text_bytes, "%llu%s", (unsigned long long)bytes, suffix);
}

static int out_of_range(const struct setting *setting, const char *where, const char *text)
{
    if (setting->kind == KIND_BYTES) {
        char least[32], most[32];
        print_bytes((uint64_t)setting->minimum, least, sizeof least);
        print_bytes((uint64_t)setting->maximum, most, sizeof most);
        return leat_fail(-EINVAL, "%s%s is %s; expected %s to %s bytes", setting->name, where, text,
                         least, most);
    }
    return leat_fail(-EINVAL, "%s%s is \"%s\"; expected %s from %.10g to %.10g", setting->name,
                     where, text, setting->kind == KIND_SECONDS ? "seconds" : "a whole number",
                     setting->minimum, setting->maximum);
}

static bool in_range(const struct setting *setting, double value)
{
    return value >= setting->minimum && value <= setting->maximum;
}

// The value as a number, checked; texts have no number.
static int parse_number(const struct setting *setting, const char *text, const char *where,
                        double *value)
{
    uint64_t bytes = 0;
    if (setting->kind == KIND_BYTES) {
        int error = leat_parse_bytes(text, &bytes);
        if (error)
            return leat_fail_in(error, "%s%s", setting->name, where);
        *value = (double)bytes; // exact up to 2^53, far beyond the range
    } else if (!parse_decimal(text, value)) {
        return out_of_range(setting, where, text);
    }
    bool integer = setting->kind == KIND_INTEGER || setting->kind == KIND_MICROSECONDS;
    bool whole = !integer || !text[strspn(text, "0123456789")];
    return whole && in_range(setting, *value) ? 0 : out_of_range(setting, where, text);
}

static int assign(struct loader *loader, enum setting_id id, const char *text)
{
    struct config *config = loader->config;
    const struct setting *setting = &leat_settings[id];
    double value = 0;
    int error = 0;
    if (setting->kind != KIND_TEXT)
        error = parse_number(setting, text, loader->where, &value);
    else if (id == SETTING_PATHS)
        error = check_paths(text, loader->where);
    else if (id == SETTING_TRACE || id == SETTING_FABRIC)
        error = check_length(setting, text, loader->where);
    else if (id == SETTING_DEVICE)
        error = check_device(text, loader->where);
    else if (id == SETTING_COMPAT || id == SETTING_FILE_DIRECT)
        error = check_switch(setting, text, loader->where);
    else
        error = check_log_word(text, loader->where, &config->log_level);
    if (error)
        return error;
    void *at = (char *)config + setting->offset;
    if (setting->kind == KIND_SECONDS)
        *(double *)at = value;
    else if (setting->kind == KIND_BYTES)
        *(uint64_t *)at = (uint64_t)value;
    else if (setting->kind == KIND_INTEGER)
        *(int *)at = (int)value;
    else if (setting->kind == KIND_MICROSECONDS)
        *(uint64_t *)at = (uint64_t)value * 1000;
    else if (id != SETTING_LOG)
        snprintf(at, sizeof config->paths, "%s", text);
    config->source[id] = loader->source;
    return 0;
}

// ---- Sources ----

static void remember_stranger(struct loader *loader, const char *name, size_t length, unsigned line)
{
    if (loader->stranger_count == STRANGERS)
        return;
    struct stranger *stranger = &loader->stranger[loader->stranger_count++];
    snprintf(stranger->name, sizeof stranger->name, "%.*s", (int)(length < 256 ? length : 256),
             name);
    stranger->line = line;
}

static int find_setting(const char *name, size_t length)
{
    for (int id = 0; id < SETTING_COUNT; id++)
        if (strlen(leat_settings[id].name) == length &&
            !memcmp(leat_settings[id].name, name, length))
            return id;
    return -1;
}

static bool read_elsewhere(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strlen(other_names[i]) == length && !memcmp(other_names[i], name, length))
            return true;
    return false;
}

// Cuts a comment and the white space around what is left.
static char *trim(char *text)
{
    text[strcspn(text, "#")] = '\0';
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static int read_line(struct loader *loader, const char *path, unsigned number, char *line)
{
    char *name = trim(line);
    if (!*name)
        return 0;
    snprintf(loader->where, sizeof loader->where, " at %s:%u", path, number);
    char *equals = strchr(name, '=');
    if (!equals || strncmp(name, PREFIX, PREFIX_LENGTH) != 0)
        return leat_fail(-EINVAL, "%s:%u: expected LEAT_NAME = value, got \"%.60s\"", path, number,
                         name);
    *equals = '\0';
    name = trim(name);
    const char *value = trim(equals + 1);
    int id = find_setting(name, strlen(name));
    if (id < 0)
        remember_stranger(loader, name, strlen(name), number);
    else if (!*value)
        return leat_fail(-EINVAL, "%s:%u: %s has no value", path, number, name);
    return id < 0 ? 0 : assign(loader, (enum setting_id)id, value);
}

bool leat_config_file(char *path, size_t bytes)
{
    const char *named = getenv("LEAT_CONFIG");
    const char *home = getenv("HOME");
    int length = -1;
    if (named && *named)
        length = snprintf(path, bytes, "%s", named);
    else if (home && *home)
        length = snprintf(path, bytes, "%s/.config/leat/leat.conf", home);
    return length >= 0 && (size_t)length < bytes;
}

static int read_lines(struct loader *loader, const char *path, FILE *file)
{
    char line[LINE_MAXIMUM + 1];
    int error = 0, byte = 0;
    for (unsigned number = 1; !error && byte != EOF; number++) {
        size_t length = 0;
        while (!error && (byte = getc(file)) != EOF && byte != '\n') {
            if (byte == 0)
                error = leat_fail(-EINVAL, "%s:%u: there is a zero byte; expected a text file",
                                  path, number);
            else if (length == LINE_MAXIMUM)
                error = leat_fail(-EINVAL,
                                  "%s:%u: the line is longer than %d bytes; expected a text file",
                                  path, number, LINE_MAXIMUM);
            else
                line[length++] = (char)byte;
        }
        line[length] = '\0';
        if (!error && !ferror(file))
            error = read_line(loader, path, number, line);
    }
    if (!error && ferror(file))
        error = leat_fail(-errno, "cannot read the settings file %s: %s", path, strerror(errno));
    return error;
}

// Not a pipe, which could keep its opener waiting, nor a device, which could have no end.
static int check_kind(const char *path)
{
    struct stat status;
    if (stat(path, &status) || S_ISREG(status.st_mode))
        return 0; // what cannot be found is for opening to say
    return leat_fail(S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL,
                     "the settings file %s is no regular file; name one with LEAT_CONFIG", path);
}

static int load_file(struct loader *loader, char *path, size_t path_bytes)
{
    const char *named = getenv("LEAT_CONFIG");
    bool must = named && *named;
    if (!leat_config_file(path, path_bytes))
        return must ? leat_fail(-ENAMETOOLONG, "LEAT_CONFIG is longer than %zu characters",
                                path_bytes - 1)
                    : 0;
    int error = check_kind(path);
    if (error)
        return error;
    FILE *file = fopen(path, "re");
    if (!file && must)
        return leat_fail(-errno, "cannot open %s, which LEAT_CONFIG names: %s; unset it or mend it",
                         path, strerror(errno));
    if (!file)
        return 0;
    loader->source = FROM_FILE;
    error = read_lines(loader, path, file);
    fclose(file);
    return error;
}

static int load_environment(struct loader *loader)
{
    loader->source = FROM_ENVIRONMENT;
    snprintf(loader->where, sizeof loader->where, " in the environment");
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (!equals || strncmp(*entry, PREFIX, PREFIX_LENGTH) != 0 || !equals[1])
            continue;
        size_t length = (size_t)(equals - *entry);
        int id = find_setting(*entry, length);
        int error = 0;
        if (id >= 0)
            error = assign(loader, (enum setting_id)id, equals + 1);
        else if (!read_elsewhere(*entry, length))
            remember_stranger(loader, *entry, length, 0);
        if (error)
            return error;
    }
    return 0;
}

static int bad_option(const char *member, double value, enum setting_id id)
{
    const struct setting *setting = &leat_settings[id];
    return leat_fail(-EINVAL,
                     "leat_options.%s is %.10g; expected %.10g to %.10g, or 0 for the setting %s",
                     member, value, setting->minimum, setting->maximum, setting->name);
}

static int load_options(struct loader *loader, const struct leat_options *options)
{
    if (!options)
        return 0;
    if (options->size < sizeof options->size)
        return leat_fail(-EINVAL, "leat_options.size is %zu; set it to sizeof", options->size);
    struct leat_options known = {0};
    memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    struct config *config = loader->config;
    loader->source = FROM_ARGUMENT;
    snprintf(loader->where, sizeof loader->where, " in leat_options");
    if (known.timeout_s != 0) {
        if (!in_range(&leat_settings[SETTING_TIMEOUT], known.timeout_s))
            return bad_option("timeout_s", known.timeout_s, SETTING_TIMEOUT);
        config->timeout_s = known.timeout_s;
        config->source[SETTING_TIMEOUT] = FROM_ARGUMENT;
    }
    if (known.arena_bytes) {
        if (!in_range(&leat_settings[SETTING_ARENA], (double)known.arena_bytes))
            return bad_option("arena_bytes", (double)known.arena_bytes, SETTING_ARENA);
        config->arena_bytes = known.arena_bytes;
        config->source[SETTING_ARENA] = FROM_ARGUMENT;
    }
    if (known.block_count) {
        if (!in_range(&leat_settings[SETTING_BLOCKS], known.block_count))
            return bad_option("block_count", known.block_count, SETTING_BLOCKS);
        config->block_count = known.block_count;
        config->source[SETTING_BLOCKS] = FROM_ARGUMENT;
    }
    int error = known.paths && *known.paths ? assign(loader, SETTING_PATHS, known.paths) : 0;
    if (!error && known.trace && *known.trace)
        error = assign(loader, SETTING_TRACE, known.trace);
    if (!error && known.device && *known.device)
        error = assign(loader, SETTING_DEVICE, known.device);
    return error;
}

static void warn_strangers(const struct loader *loader, const char *path)
{
    for (size_t i = 0; i < loader->stranger_count; i++) {
        const struct stranger *stranger = &loader->stranger[i];
        struct name_guess guess = {.wanted = stranger->name + PREFIX_LENGTH};
        for (int id = 0; id < SETTING_COUNT; id++)
            leat_name_consider(&guess, leat_settings[id].name + PREFIX_LENGTH);
        char hint[96], where[320] = "in the environment";
        print_guess(&guess, PREFIX, hint, sizeof hint);
        if (stranger->line)
            snprintf(where, sizeof where, "at %s:%u", path, stranger->line);
        leat_log(loader->config->log_level, LOG_WARN, 0, "%s %s is no setting and has no effect%s",
                 stranger->name, where, hint);
    }
}

int leat_config_load(const struct leat_options *options, int rank, struct config *config)
{
    struct config made = {0};
    struct loader loader = {.config = &made, .source = FROM_DEFAULT};
    char path[256] = "";
    int error = 0;
    for (int id = 0; id < SETTING_COUNT && !error; id++)
        error = assign(&loader, (enum setting_id)id, leat_settings[id].fallback);
    if (!error)
        error = load_file(&loader, path, sizeof path);
    if (!error)
        error = load_environment(&loader);
    if (!error)
        error = load_options(&loader, options);
    if (error)
        return error;
    if (rank == 0)
        warn_strangers(&loader, path);
    *config = made;
    return 0;
}

// ---- Printing ----

void leat_config_print(const struct config *config, enum setting_id id, char *text, size_t bytes)
{
    const void *at = (const char *)config + leat_settings[id].offset;
    switch (leat_settings[id].kind) {
    case KIND_SECONDS:
        snprintf(text, bytes, "%.10g", *(const double *)at);
        break;
    case KIND_BYTES:
        print_bytes(*(const uint64_t *)at, text, bytes);
        break;
    case KIND_INTEGER:
        snprintf(text, bytes, "%d", *(const int *)at);
        break;
    case KIND_MICROSECONDS:
        snprintf(text, bytes, "%llu", (unsigned long long)(*(const uint64_t *)at / 1000));
        break;
    case KIND_TEXT:
        snprintf(text, bytes, "%s",
                 id == SETTING_LOG ? log_words[config->log_level] : (const char *)at);
        break;
    }
}
