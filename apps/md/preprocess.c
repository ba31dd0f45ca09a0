// SPDX-License-Identifier: Apache-2.0
// Line source with GROMACS' preprocessor; see preprocess.h for the language.
//
// Algorithm: a stack of open files, each with its own stack of conditions; lines are handed out one
// at a time. Advantage: one pass, constant memory whatever the length of the input, and every line
// still knows its file and number. Disadvantage: a file included twice is read twice.

#include "md/preprocess.h"

#include "md/macros.h"

#include "core/error.h"
#include "format/line.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    DEPTH_MAX = 32,       // files inside one another
    CONDITIONS_MAX = 64,  // conditions inside one another in a file
    FILES_MAX = 10000,    // files opened in all: doubling includes would go on for years
    JOINED_MAX = 1 << 22, // bytes of lines joined by backslashes
};

static const char library[] = "/usr/share/gromacs/top";

enum condition_state { TAKEN, NOT_TAKEN, INSIDE_NOT_TAKEN };

struct condition {
    enum condition_state state;
    bool else_seen;
    int line;
};

struct frame {
    FILE *file;
    struct line_reader reader;
    const char *name; // in the table of file names
    struct condition conditions[CONDITIONS_MAX];
    int condition_count;
};

struct md_source {
    struct frame frames[DEPTH_MAX];
    int depth;
    FILE *caller_stream;
    char *include_dirs, *gmxlib;
    struct md_names files; // every file name used: places point here
    int opened;            // files, in all
    struct md_macros macros;
    char *joined; // the logical line
    size_t joined_size;
    struct md_place place;
};

static struct frame *top(struct md_source *source)
{
    return &source->frames[source->depth - 1];
}

static struct md_place here(struct md_source *source)
{
    int64_t line = top(source)->reader.number;
    return (struct md_place){top(source)->name, line > INT_MAX ? INT_MAX : (int)line};
}

static bool active(const struct frame *frame)
{
    return frame->condition_count == 0 ||
           frame->conditions[frame->condition_count - 1].state == TAKEN;
}

// ---- files

// The name as it lasts in messages.
static const char *keep_file_name(struct md_source *source, const char *name)
{
    int number = md_names_find(&source->files, name, strlen(name));
    if (number < 0)
        number = md_names_add(&source->files, name, strlen(name));
    return number < 0 ? NULL : source->files.name[number];
}

static int push_file(struct md_source *source, FILE *file, const char *name)
{
    const char *kept = keep_file_name(source, name);
    if (!kept)
        return -ENOMEM;
    struct frame *frame = &source->frames[source->depth++];
    *frame = (struct frame){.file = file, .reader = {.file = file}, .name = kept};
    return 0;
}

static int pop_file(struct md_source *source)
{
    struct frame *frame = top(source);
    int error = 0;
    if (frame->condition_count) {
        struct condition *condition = &frame->conditions[frame->condition_count - 1];
        error = md_fail_at((struct md_place){frame->name, condition->line}, -EINVAL,
                           "the file ends inside this #ifdef or #ifndef: #endif is missing");
    }
    line_reader_end(&frame->reader);
    if (frame->file != source->caller_stream)
        fclose(frame->file);
    source->depth--;
    return error;
}

// Tries `directory`/`name`; `length` 0 leaves the directory out. NULL with *error 0: not there.
static FILE *try_file(const char *directory, size_t length, const char *name, char **path,
                      int *error)
{
    size_t size = length + strlen(name) + 2;
    *path = malloc(size);
    if (!*path) {
        *error = leat_fail(-ENOMEM, "no memory for a file name");
        return NULL;
    }
    if (length)
        snprintf(*path, size, "%.*s/%s", (int)length, directory, name);
    else
        snprintf(*path, size, "%s", name);
    struct stat status;
    // Opening a pipe would wait for ever, so look first.
    if (stat(*path, &status) == 0 && S_ISREG(status.st_mode)) {
        FILE *file = fopen(*path, "re");
        if (file)
            return file;
        *error = leat_fail(-errno, "%s: %s", *path, strerror(errno));
    }
    free(*path);
    *path = NULL;
    return NULL;
}

static FILE *search_list(const char *list, const char *name, char **path, int *error)
{
    while (list && *list && !*error) {
        size_t length = strcspn(list, ":");
        FILE *file = length ? try_file(list, length, name, path, error) : NULL;
        if (file)
            return file;
        list += length + (list[length] == ':');
    }
    return NULL;
}

static FILE *search(struct md_source *source, const char *name, char **path, int *error)
{
    if (*name == '/')
        return try_file("", 0, name, path, error);
    const char *includer = top(source)->name;
    const char *slash = strrchr(includer, '/');
    FILE *file = try_file(includer, slash ? (size_t)(slash - includer) : 0, name, path, error);
    if (!file && !*error)
        file = search_list(source->include_dirs, name, path, error);
    if (!file && !*error)
        file = search_list(source->gmxlib, name, path, error);
    if (!file && !*error)
        file = search_list(library, name, path, error);
    return file;
}

static int fail_missing(struct md_source *source, const char *name)
{
    const char *includer = top(source)->name;
    const char *slash = strrchr(includer, '/');
    return md_fail_at(here(source), -ENOENT,
                      "include file '%s' not found; searched %.*s%s%s%s%s, %s; add its directory "
                      "to 'include' in the .mdp or to GMXLIB",
                      name, slash ? (int)(slash - includer) : 1, slash ? includer : ".",
                      source->include_dirs && *source->include_dirs ? ", " : "",
                      source->include_dirs ? source->include_dirs : "",
                      source->gmxlib && *source->gmxlib ? ", " : "",
                      source->gmxlib ? source->gmxlib : "", library);
}

static int fail_depth(struct md_source *source, const char *name)
{
    char chain[400] = "";
    size_t used = 0;
    // The inmost files repeat in a loop, so a few of them say it.
    for (int i = source->depth - 4; i < source->depth; i++)
        used +=
            (size_t)snprintf(chain + used, sizeof chain - used, "%.80s > ", source->frames[i].name);
    return md_fail_at(here(source), -EINVAL,
                      "includes are more than %d deep, probably a loop: ... %s%.80s", DEPTH_MAX,
                      chain, name);
}

static int include(struct md_source *source, char *value)
{
    char *name = value + strcspn(value, "\"<");
    size_t length = *name ? strcspn(name + 1, "\">") : 0;
    if (length == 0 || name[1 + length] == 0)
        return md_fail_at(here(source), -EINVAL, "expected #include \"file\", found '%s'", value);
    name++;
    name[length] = 0;
    if (source->depth == DEPTH_MAX)
        return fail_depth(source, name);
    if (++source->opened > FILES_MAX)
        return md_fail_at(here(source), -EINVAL, "more than %d files included in all", FILES_MAX);
    int error = 0;
    char *path = NULL;
    FILE *file = search(source, name, &path, &error);
    if (error)
        return leat_fail_in(error, "%s:%d: #include", here(source).file, here(source).line);
    if (!file)
        return fail_missing(source, name);
    error = push_file(source, file, path);
    if (error)
        fclose(file);
    free(path);
    return error;
}

// ---- directives

static int push_condition(struct md_source *source, const char *name, bool wanted)
{
    struct frame *frame = top(source);
    if (frame->condition_count == CONDITIONS_MAX)
        return md_fail_at(here(source), -EINVAL, "conditions are more than %d deep",
                          CONDITIONS_MAX);
    enum condition_state state = INSIDE_NOT_TAKEN;
    if (active(frame)) {
        size_t length = md_identifier_length(name);
        const char *after = name + length;
        after += strspn(after, " \t");
        if (length == 0 || (*after && *after != ';'))
            return md_fail_at(here(source), -EINVAL, "expected one name after %s, found '%s'",
                              wanted ? "#ifdef" : "#ifndef", name);
        state = md_macros_defined(&source->macros, name, length) == wanted ? TAKEN : NOT_TAKEN;
    }
    frame->conditions[frame->condition_count++] =
        (struct condition){state, false, here(source).line};
    return 0;
}

static int turn_condition(struct md_source *source)
{
    struct frame *frame = top(source);
    if (frame->condition_count == 0)
        return md_fail_at(here(source), -EINVAL, "#else without #ifdef or #ifndef");
    struct condition *condition = &frame->conditions[frame->condition_count - 1];
    if (condition->else_seen)
        return md_fail_at(here(source), -EINVAL, "a second #else for the condition of line %d",
                          condition->line);
    condition->else_seen = true;
    if (condition->state != INSIDE_NOT_TAKEN)
        condition->state = condition->state == TAKEN ? NOT_TAKEN : TAKEN;
    return 0;
}

static int pop_condition(struct md_source *source)
{
    struct frame *frame = top(source);
    if (frame->condition_count == 0)
        return md_fail_at(here(source), -EINVAL, "#endif without #ifdef or #ifndef");
    frame->condition_count--;
    return 0;
}

static int define_line(struct md_source *source, char *value)
{
    size_t length = md_identifier_length(value);
    if (length == 0 || (value[length] && !isspace((unsigned char)value[length])))
        return md_fail_at(here(source), -EINVAL,
                          "expected #define NAME [text] with letters, digits and '_' in the name "
                          "(no macros with arguments), found '%s'",
                          value);
    size_t end = strlen(value);
    if (value[end - 1] == '\\')
        return md_fail_at(here(source), -EINVAL, "a #define cannot go on on the next line");
    return md_macros_define(&source->macros, value, length,
                            value + length + strspn(value + length, " \t"));
}

static int undefine_line(struct md_source *source, char *value)
{
    size_t length = md_identifier_length(value);
    const char *after = value + length + strspn(value + length, " \t");
    if (length == 0 || (*after && *after != ';'))
        return md_fail_at(here(source), -EINVAL, "expected one name after #undef, found '%s'",
                          value);
    md_macros_undefine(&source->macros, value, length);
    return 0;
}

static int directive(struct md_source *source, char *text)
{
    char *name = text + 1 + strspn(text + 1, " \t");
    size_t length = strcspn(name, " \t\r\v\f\"<");
    char *value = md_trim(name + length);
    char word[16] = "";
    if (length < sizeof word)
        memcpy(word, name, length);
    if (strcmp(word, "ifdef") == 0 || strcmp(word, "ifndef") == 0)
        return push_condition(source, value, word[2] == 'd');
    if (strcmp(word, "else") == 0)
        return turn_condition(source);
    if (strcmp(word, "endif") == 0)
        return pop_condition(source);
    // Skipping an unknown condition would pair its #endif with the wrong one.
    if (strcmp(word, "if") == 0 || strcmp(word, "elif") == 0)
        return md_fail_at(here(source), -EINVAL,
                          "#%s is not known to GROMACS' preprocessor; use #ifdef or #ifndef", word);
    if (!active(top(source)))
        return 0;
    if (strcmp(word, "include") == 0)
        return include(source, value);
    if (strcmp(word, "define") == 0)
        return define_line(source, value);
    if (strcmp(word, "undef") == 0)
        return undefine_line(source, value);
    if (strcmp(word, "error") == 0)
        return md_fail_at(here(source), -EINVAL, "#error %s", value);
    return md_fail_at(here(source), -EINVAL,
                      "unknown preprocessor line '#%.*s'; known are include, define, undef, ifdef, "
                      "ifndef, else, endif, error",
                      (int)length, name);
}

// ---- lines

// The next line outside untaken conditions, after replacement, in source->macros.line. 1, 0 or an
// error.
static int next_raw(struct md_source *source)
{
    while (source->depth) {
        struct frame *frame = top(source);
        int result = line_read(&frame->reader);
        if (result < 0)
            return md_fail_at(here(source), result, "%s", line_problem(result));
        if (result == 0) {
            result = pop_file(source);
            if (result)
                return result;
            continue;
        }
        char *text = frame->reader.text + strspn(frame->reader.text, " \t\v\f");
        if (*text == '#') {
            result = directive(source, text);
            if (result)
                return result;
        } else if (active(frame)) {
            if (frame->reader.length >= MD_LINE_BYTES)
                return md_fail_at(here(source), -EINVAL, "the line is too long");
            memcpy(source->macros.line, frame->reader.text, frame->reader.length + 1);
            result = md_macros_replace(&source->macros, here(source));
            return result ? result : 1;
        }
    }
    return 0;
}

// Appends source->macros.line to the logical line; *more tells whether it goes on.
static int join(struct md_source *source, size_t *used, bool *more)
{
    char *line = source->macros.line;
    size_t length = strlen(line);
    while (length && isspace((unsigned char)line[length - 1]))
        length--;
    *more = length && line[length - 1] == '\\';
    if (*more)
        line[length - 1] = ' ';
    if (*used + length + 1 > source->joined_size) {
        size_t size = 2 * (*used + length + 1);
        if (size > JOINED_MAX)
            return md_fail_at(source->place, -EINVAL, "too many lines joined by '\\'");
        char *grown = realloc(source->joined, size);
        if (!grown)
            return leat_fail(-ENOMEM, "no memory for a line of %zu bytes", size);
        source->joined = grown;
        source->joined_size = size;
    }
    memcpy(source->joined + *used, line, length);
    *used += length;
    source->joined[*used] = 0;
    return 0;
}

int md_source_next(struct md_source *source, char **text)
{
    for (;;) {
        int result = next_raw(source);
        if (result <= 0)
            return result;
        source->place = here(source);
        size_t used = 0;
        bool more = false;
        int error = join(source, &used, &more);
        while (!error && more) {
            result = next_raw(source);
            if (result < 0)
                return result;
            if (result == 0)
                break;
            error = join(source, &used, &more);
        }
        if (error)
            return error;
        source->joined[strcspn(source->joined, ";")] = 0;
        *text = md_trim(source->joined);
        if (**text)
            return 1;
    }
}

struct md_place md_source_place(const struct md_source *source)
{
    return source->place;
}

bool md_source_in_first_file(const struct md_source *source)
{
    return source->place.file == source->frames[0].name;
}

static int prepare(struct md_source *source, const char *define_options, const char *include_dirs)
{
    const char *gmxlib = getenv("GMXLIB");
    int error = md_macros_prepare(&source->macros);
    if (error)
        return error;
    source->include_dirs = include_dirs ? strdup(include_dirs) : NULL;
    source->gmxlib = gmxlib ? strdup(gmxlib) : NULL;
    if ((include_dirs && !source->include_dirs) || (gmxlib && !source->gmxlib))
        return leat_fail(-ENOMEM, "no memory to read a topology");
    return define_options ? md_macros_options(&source->macros, define_options) : 0;
}

int md_source_open(const char *path, FILE *stream, const char *define_options,
                   const char *include_dirs, struct md_source **source)
{
    struct md_source *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "%s: out of memory", path);
    made->caller_stream = stream;
    int error = prepare(made, define_options, include_dirs);
    if (!error && !stream && !(stream = fopen(path, "re")))
        error = leat_fail(-errno, "%s: %s", path, strerror(errno));
    if (!error) {
        error = push_file(made, stream, path);
        if (error && stream != made->caller_stream)
            fclose(stream);
    }
    if (error) {
        md_source_close(made);
        return error;
    }
    made->place = (struct md_place){made->frames[0].name, 0};
    *source = made;
    return 0;
}

void md_source_close(struct md_source *source)
{
    if (!source)
        return;
    while (source->depth) {
        top(source)->condition_count = 0;
        pop_file(source);
    }
    md_macros_free(&source->macros);
    md_names_free(&source->files);
    free(source->include_dirs);
    free(source->gmxlib);
    free(source->joined);
    free(source);
}
