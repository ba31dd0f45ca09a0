// SPDX-License-Identifier: Apache-2.0
// Options of a command; see options.h.
//
// Algorithm: the table becomes getopt_long's two descriptions on the stack at every call, and the
// help by walking it once more. Advantage: GNU conventions (abbreviations, --name=value, --) for
// nothing. Disadvantage: a table of n rows is copied for each option that is read.

#define _GNU_SOURCE
#include "options.h"

#include "commands.h"
#include "core/config.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX   64
#define HELP_WIDTH 80
#define GRID_MAX   (1 << 20)

// ---- Help ----

// Prints text from `column` on, broken at spaces.
static void print_wrapped(FILE *out, const char *text, int column, int indent)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > indent && column + 1 + (int)length > HELP_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += (int)length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

// "  -n, --ranks N"; the result is its length.
static int print_left(char *text, size_t bytes, const struct option_row *row)
{
    char letter[8] = "    ";
    if (row->id < OPTION_LONG)
        snprintf(letter, sizeof letter, "-%c, ", row->id);
    return snprintf(text, bytes, "  %s--%s%s%s", letter, row->name, row->argument ? " " : "",
                    row->argument ? row->argument : "");
}

static void print_row(const struct option_row *row, int indent)
{
    char left[80];
    int length = print_left(left, sizeof left, row);
    printf("%s", left);
    if (length > indent - 2)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - length, "");
    print_wrapped(stdout, row->help, indent, indent);
}

static void print_help(const struct option_table *table)
{
    static const struct option_row help = {'h', "help", NULL, "print this and exit"};
    char left[80];
    int widest = print_left(left, sizeof left, &help);
    for (size_t i = 0; i < table->row_count; i++) {
        int length = print_left(left, sizeof left, &table->row[i]);
        if (length > widest && length < 32)
            widest = length;
    }
    int column = printf("usage: leat %s ", table->command);
    print_wrapped(stdout, table->synopsis, column, column);
    putchar('\n');
    print_wrapped(stdout, table->summary, 0, 0);
    putchar('\n');
    for (size_t i = 0; i < table->row_count; i++)
        print_row(&table->row[i], widest + 2);
    print_row(&help, widest + 2);
}

// ---- Errors ----

static void vcomplain(struct option_reader *reader, const char *format, va_list arguments)
{
    const char *command = reader->table->command;
    fprintf(stderr, "leat %s: ", command);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n(leat %s --help lists its options)\n", command);
    reader->exit_status = EXIT_USAGE;
}

int options_error(struct option_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vcomplain(reader, format, arguments);
    va_end(arguments);
    return reader->exit_status;
}

static const struct option_row *find_row(const struct option_table *table, int id)
{
    for (size_t i = 0; i < table->row_count; i++)
        if (table->row[i].id == id)
            return &table->row[i];
    return NULL;
}

// Long options are what getopt has just gone past; letters may stand in a cluster.
static void unknown_option(struct option_reader *reader)
{
    if (optopt > 0 && optopt < OPTION_LONG && !find_row(reader->table, optopt) && optopt != 'h') {
        options_error(reader, "there is no option -%c", optopt);
        return;
    }
    const char *given = reader->argv[optind - 1];
    if (optopt) {
        // getopt reports a value given to a flag by the flag's own id.
        options_error(reader, "option %.*s takes no value, got \"%s\"", (int)strcspn(given, "="),
                      given, given + strcspn(given, "=") + 1);
        return;
    }
    char name[LEAT_NAME_FAR] = "";
    const char *start = given + strspn(given, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    struct name_guess guess = {.wanted = name};
    for (size_t i = 0; i < reader->table->row_count; i++)
        leat_name_consider(&guess, reader->table->row[i].name);
    leat_name_consider(&guess, "help");
    if (guess.best)
        options_error(reader, "there is no option --%s; did you mean --%s?", name, guess.best);
    else
        options_error(reader, "there is no option --%s", name);
}

// ---- Reading ----

void options_begin(struct option_reader *reader, const struct option_table *table, int argc,
                   char **argv)
{
    *reader = (struct option_reader){
        .table = table, .argc = argc, .argv = argv, .id = -1, .exit_status = -1, .operand = argc};
    optind = 0; // GNU: forget what an earlier reader left
    opterr = 0;
}

static int call_getopt(const struct option_reader *reader)
{
    const struct option_table *table = reader->table;
    struct option longs[ROWS_MAX + 2] = {0};
    char shorts[2 * ROWS_MAX + 8];
    size_t used = 0;
    if (table->stops_at_operand)
        shorts[used++] = '+';
    shorts[used++] = ':'; // tell a missing argument from an unknown option
    shorts[used++] = 'h';
    for (size_t i = 0; i < table->row_count && i < ROWS_MAX; i++) {
        const struct option_row *row = &table->row[i];
        longs[i] = (struct option){.name = row->name,
                                   .has_arg = row->argument ? required_argument : no_argument,
                                   .val = row->id};
        if (row->id >= OPTION_LONG)
            continue;
        shorts[used++] = (char)row->id;
        if (row->argument)
            shorts[used++] = ':';
    }
    longs[table->row_count < ROWS_MAX ? table->row_count : ROWS_MAX] =
        (struct option){.name = "help", .has_arg = no_argument, .val = 'h'};
    shorts[used] = '\0';
    return getopt_long(reader->argc, reader->argv, shorts, longs, NULL);
}

bool options_next(struct option_reader *reader)
{
    if (reader->exit_status >= 0)
        return false;
    optopt = 0;
    int id = call_getopt(reader);
    reader->operand = optind;
    reader->value = optarg;
    reader->id = id;
    if (id == '?') {
        unknown_option(reader);
    } else if (id == ':') {
        const struct option_row *row = find_row(reader->table, optopt);
        options_error(reader, "option --%s needs a value (%s)", row ? row->name : "?",
                      row ? row->argument : "?");
    } else if (id == 'h' && !find_row(reader->table, 'h')) {
        print_help(reader->table);
        reader->exit_status = EXIT_DONE;
    }
    return reader->exit_status < 0 && id != -1;
}

// ---- Values ----

static bool bad_value(struct option_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool bad_value(struct option_reader *reader, const char *format, ...)
{
    const struct option_row *row = find_row(reader->table, reader->id);
    char expected[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    options_error(reader, "--%s is \"%s\"; expected %s", row ? row->name : "?", reader->value,
                  expected);
    return false;
}

bool options_integer(struct option_reader *reader, long minimum, long maximum, int *out)
{
    char *end;
    errno = 0;
    long value = strtol(reader->value, &end, 10);
    if (end == reader->value || *end || errno || value < minimum || value > maximum ||
        value < INT_MIN || value > INT_MAX)
        return bad_value(reader, "a whole number from %ld to %ld", minimum, maximum);
    *out = (int)value;
    return true;
}

bool options_number(struct option_reader *reader, double minimum, double maximum, double *out)
{
    char *end;
    double value = strtod(reader->value, &end);
    if (end == reader->value || *end || !isfinite(value) || value < minimum || value > maximum)
        return bad_value(reader, "a number from %.10g to %.10g", minimum, maximum);
    *out = value;
    return true;
}

bool options_grid(struct option_reader *reader, int out[3])
{
    long value[3] = {0}, product = 1;
    const char *at = reader->value;
    for (int d = 0; d < 3; d++) {
        char *end;
        value[d] = strspn(at, "0123456789") ? strtol(at, &end, 10) : 0;
        if (value[d] < 1 || value[d] > GRID_MAX || *end != (d < 2 ? 'x' : '\0'))
            return bad_value(reader, "three whole numbers as in 2x2x1");
        product *= value[d];
        at = end + 1;
    }
    if (product > GRID_MAX)
        return bad_value(reader, "a product of at most %d", GRID_MAX);
    for (int d = 0; d < 3; d++)
        out[d] = (int)value[d];
    return true;
}

bool options_choice(struct option_reader *reader, const char *const *names, size_t count, int *out)
{
    char list[200] = "";
    size_t used = 0;
    struct name_guess guess = {.wanted = reader->value};
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(reader->value, names[i])) {
            *out = (int)i;
            return true;
        }
        leat_name_consider(&guess, names[i]);
        if (used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    if (guess.best)
        return bad_value(reader, "one of %s; did you mean %s?", list, guess.best);
    return bad_value(reader, "one of %s", list);
}

bool options_no_operands(struct option_reader *reader)
{
    if (reader->operand >= reader->argc)
        return true;
    options_error(reader, "\"%s\" is not understood; this command takes options only",
                  reader->argv[reader->operand]);
    return false;
}

int options_verb(const struct option_verbs *verbs, int argc, char **argv)
{
    struct option_reader reader;
    options_begin(&reader, verbs->table, argc, argv);
    while (options_next(&reader))
        continue;
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand == argc)
        return options_error(&reader, "%s", verbs->question);
    const char *name = argv[reader.operand];
    struct name_guess guess = {.wanted = name};
    for (size_t i = 0; i < verbs->count; i++) {
        if (strcmp(name, verbs->verb[i].name) == 0)
            return verbs->verb[i].run(argc - reader.operand, argv + reader.operand);
        if (!verbs->verb[i].hidden)
            leat_name_consider(&guess, verbs->verb[i].name);
    }
    if (guess.best)
        return options_error(&reader, "there is no %s\"%s\"; did you mean %s?", verbs->kind, name,
                             guess.best);
    return options_error(&reader, "there is no %s\"%s\"%s", verbs->kind, name, verbs->others);
}
