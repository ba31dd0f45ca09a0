// SPDX-License-Identifier: Apache-2.0
// Reader of .mdp files.
//
// Algorithm: each "key = value" line is looked up in the table of options and parsed by the rule it
// finds there; what depends on several keys is settled at the end. Advantage: nothing is accepted
// without being in the table, so a run never differs in silence from what its file says.
// Disadvantage: files that GROMACS takes with a warning can be refused here.

#include "md/settings_table.h"

#include "core/error.h"
#include "format/line.h"
#include "md/text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

struct reader {
    struct md_raw_settings raw;
    const char *name;
    int line;
    int line_of[MD_OPTIONS_MAX]; // where the first name of a row of the table was set; 0: nowhere
    struct md_names seen;        // keys without case and separators, with
    int *seen_line;
    int seen_capacity;
};

static struct md_place place(const struct reader *reader)
{
    return (struct md_place){reader->name, reader->line};
}

// The i-th of blank-separated words; false past the last.
static bool nth_word(const char *list, int index, char *word, size_t size)
{
    for (;; index--) {
        list += strspn(list, " ");
        size_t length = strcspn(list, " ");
        if (length == 0)
            return false;
        if (index == 0) {
            length = length < size ? length : size - 1;
            memcpy(word, list, length);
            word[length] = 0;
            return true;
        }
        list += length;
    }
}

static int index_of(const char *list, const char *value)
{
    char word[NAME_BYTES];
    for (int i = 0; nth_word(list, i, word, sizeof word); i++) {
        if (md_same_word(word, value))
            return i;
    }
    return -1;
}

static int find_option(const char *key)
{
    char word[NAME_BYTES];
    for (int i = 0; i < md_option_count; i++) {
        for (int j = 0; nth_word(md_options[i].names, j, word, sizeof word); j++) {
            if (md_word_matches(key, word))
                return i;
        }
    }
    return -1;
}

static int fail_unknown(const struct reader *reader, const char *key)
{
    char word[NAME_BYTES], nearest[NAME_BYTES] = "";
    int least = INT_MAX;
    for (int i = 0; i < md_option_count; i++) {
        for (int j = 0; nth_word(md_options[i].names, j, word, sizeof word); j++) {
            int distance = strchr(word, '*') ? INT_MAX : md_word_distance(key, word);
            if (distance < least) {
                least = distance;
                memcpy(nearest, word, sizeof nearest);
            }
        }
    }
    return md_fail_at(place(reader), -EINVAL,
                      "unknown keyword '%.60s'; the nearest known one is '%s'", key, nearest);
}

// ---- values

static void *target(struct reader *reader, const struct md_option *option)
{
    return (char *)&reader->raw + option->offset;
}

static int parse_number(struct reader *reader, const struct md_option *option, const char *key,
                        const char *value)
{
    double real = 0;
    int64_t integer = 0;
    bool whole = option->rule != MD_REAL;
    bool fits = whole ? md_parse_integer(value, &integer) : md_parse_real(value, &real);
    if (option->rule == MD_INT && integer > INT_MAX)
        fits = false;
    if (!fits)
        return md_fail_at(place(reader), -EINVAL, "'%s' wants %s, found '%.80s'", key,
                          whole ? "an integer" : "a finite number", value);
    if ((whole ? (double)integer : real) < option->least)
        return md_fail_at(place(reader), -EINVAL, "'%s' wants at least %g, found '%.80s'", key,
                          option->least, value);
    if (option->rule == MD_REAL)
        *(double *)target(reader, option) = real;
    else if (option->rule == MD_INT)
        *(int *)target(reader, option) = (int)integer;
    else
        *(int64_t *)target(reader, option) = integer;
    return 0;
}

static int parse_choice(struct reader *reader, const struct md_option *option, const char *key,
                        const char *value)
{
    int index = index_of(option->values, value);
    if (index >= 0) {
        *(int *)target(reader, option) = index;
        return 0;
    }
    if (index_of(option->lacking, value) >= 0)
        return md_fail_at(place(reader), -ENOTSUP,
                          "keyword '%s' = '%s' is not supported; this driver does: %s", key, value,
                          option->values);
    return md_fail_at(place(reader), -EINVAL,
                      "keyword '%s' = '%.80s' is unknown; known are: %s%s%s", key, value,
                      option->values, *option->lacking ? " " : "", option->lacking);
}

static bool is_neutral(const char *values, const char *word)
{
    double number, zero;
    char neutral[NAME_BYTES];
    for (int i = 0; nth_word(values, i, neutral, sizeof neutral); i++) {
        if (md_same_word(neutral, word) ||
            (md_parse_real(neutral, &zero) && md_parse_real(word, &number) && !(number < zero) &&
             !(number > zero)))
            return true;
    }
    return false;
}

static int parse_neutral(struct reader *reader, const struct md_option *option, const char *key,
                         char *value)
{
    char *rest = value, *word;
    while ((word = md_next_word(&rest)) != NULL) {
        if (!is_neutral(option->values, word))
            return md_fail_at(place(reader), -ENOTSUP,
                              "keyword '%s' = '%.80s' is not supported; leave it out or write '%s'",
                              key, word, option->values);
    }
    return 0;
}

static int parse_value(struct reader *reader, const struct md_option *option, const char *key,
                       char *value)
{
    switch (option->rule) {
    case MD_IGNORED:
        return 0;
    case MD_NEUTRAL:
        return parse_neutral(reader, option, key, value);
    case MD_EMPTY:
        return md_fail_at(place(reader), -ENOTSUP,
                          "keyword '%s' = '%.80s' is not supported; leave it out", key, value);
    case MD_CHOICE:
        return parse_choice(reader, option, key, value);
    case MD_TEXT:
        if (strlen(value) >= option->bytes)
            return md_fail_at(place(reader), -EINVAL, "'%s' is longer than %zu characters", key,
                              option->bytes - 1);
        memcpy(target(reader, option), value, strlen(value) + 1);
        return 0;
    default:
        return parse_number(reader, option, key, value);
    }
}

// ---- lines

// A key is repeated also when it is spelt another way, or by its older name.
static int refuse_repeated(struct reader *reader, const struct md_option *option, const char *key)
{
    char plain[NAME_BYTES];
    bool aliases = option->rule >= MD_REAL;
    const char *name = aliases ? option->names : key;
    size_t length = 0;
    for (; *name && length + 1 < sizeof plain; name++) {
        if (*name != '-' && *name != '_')
            plain[length++] = *name >= 'A' && *name <= 'Z' ? (char)(*name + 32) : *name;
    }
    int number = md_names_find(&reader->seen, plain, length);
    if (number >= 0)
        return md_fail_at(place(reader), -EINVAL,
                          "keyword '%s' is set a second time; the first is on line %d", key,
                          reader->seen_line[number]);
    int *grown =
        md_reserve(reader->seen_line, reader->seen.count, &reader->seen_capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    reader->seen_line = grown;
    number = md_names_add(&reader->seen, plain, length);
    if (number < 0)
        return number;
    reader->seen_line[number] = reader->line;
    return 0;
}

static int read_line(struct reader *reader, char *text)
{
    text[strcspn(text, ";")] = 0;
    text = md_trim(text);
    if (*text == 0)
        return 0;
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return md_fail_at(place(reader), -EINVAL, "expected 'keyword = value', found '%.80s'",
                          text);
    *equals = 0;
    char *key = md_trim(text), *value = md_trim(equals + 1);
    if (*value == 0)
        return 0;
    int number = find_option(key);
    if (number < 0)
        return fail_unknown(reader, key);
    int error = refuse_repeated(reader, &md_options[number], key);
    if (error)
        return error;
    reader->line_of[number] = reader->line;
    return parse_value(reader, &md_options[number], key, value);
}

static int read_lines(struct reader *reader, FILE *stream)
{
    struct line_reader lines = {.file = stream};
    int result, error = 0;
    while (!error && (result = line_read(&lines)) != 0) {
        reader->line = lines.number > INT_MAX ? INT_MAX : (int)lines.number;
        error = result < 0 ? md_fail_at(place(reader), result, "%s", line_problem(result))
                           : read_line(reader, lines.text);
    }
    line_reader_end(&lines);
    return error;
}

static void set_defaults(struct md_raw_settings *raw, const char *name)
{
    *raw = (struct md_raw_settings){
        .out = {.dt_ps = 0.001,
                .nstlist = 10,
                .nstcalcenergy = 100,
                .nstenergy = 1000,
                .nstcomm = 100,
                .nsttcouple = -1,
                .rcoulomb_nm = 1,
                .rvdw_nm = 1,
                .rlist_nm = 1,
                .epsilon_r = 1,
                .verlet_buffer_tolerance = 0.005,
                .gen_temp_k = 300,
                .emtol_kj_mol_nm = 10,
                .emstep_nm = 0.01,
                .ld_seed = -1,
                .gen_seed = -1},
    };
    snprintf(raw->out.file, sizeof raw->out.file, "%s", name);
}

int md_settings_read_stream(FILE *stream, const char *name, struct md_settings *settings)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return leat_fail(-ENOMEM, "%s: out of memory", name);
    reader->name = name;
    set_defaults(&reader->raw, name);
    int error = read_lines(reader, stream);
    if (!error)
        error = md_settings_settle(&reader->raw, name, reader->line_of);
    if (!error)
        *settings = reader->raw.out;
    md_names_free(&reader->seen);
    free(reader->seen_line);
    free(reader);
    return error;
}

int md_settings_read(const char *path, struct md_settings *settings)
{
    FILE *stream = fopen(path, "re");
    if (!stream) {
        int error = -errno;
        return leat_fail(error, "%s: %s", path, strerror(-error));
    }
    int error = md_settings_read_stream(stream, path, settings);
    fclose(stream);
    return error;
}
