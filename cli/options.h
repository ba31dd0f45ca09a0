/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a command: one table drives getopt_long, the --help text and "did you mean".
 *
 * Advantage: an option cannot be parsed without being in the help, nor the other way round.
 * Disadvantage: getopt keeps its place in globals, so only one reader is in use at a time.
 *
 *     static const struct option_row rows[] = {
 *         {'n', "ranks", "N", "ranks to start (1)"},
 *         {OPTION_LONG + 0, "json", NULL, "print one JSON object"},
 *     };
 *     static const struct option_table table = {"md", "--gro F ...", "Runs ...", rows, 2, false};
 *
 *     struct option_reader reader;
 *     options_begin(&reader, &table, argc, argv);
 *     while (options_next(&reader))
 *         switch (reader.id) {
 *         case 'n':
 *             options_integer(&reader, 1, 4096, &rank_count);
 *             break;
 *         ...
 *         }
 *     if (reader.exit_status >= 0)
 *         return reader.exit_status;
 */
#ifndef LEAT_CLI_OPTIONS_H
#define LEAT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Ids of options without a letter start here. */
#define OPTION_LONG 256

struct option_row {
    int id;               /* the letter, or OPTION_LONG and up */
    const char *name;     /* without dashes */
    const char *argument; /* what stands for it in the help ("N"), or NULL: takes none */
    const char *help;     /* one phrase, the default in parentheses; wrapped when printed */
};

struct option_table {
    const char *command;  /* "run" */
    const char *synopsis; /* what follows "leat run " in the usage line */
    const char *summary;  /* a sentence or two, wrapped when printed */
    const struct option_row *row;
    size_t row_count;
    bool stops_at_operand; /* what follows the first operand belongs to another program */
};

/* -h and --help are in every table without being listed. */
struct option_reader {
    const struct option_table *table;
    int argc;
    char **argv;
    int id;            /* of the option just read */
    const char *value; /* its argument, or NULL */
    int exit_status;   /* -1; 0 once the help was printed, 2 once an error was */
    int operand;       /* index in argv of the first operand, after the last option */
};

void options_begin(struct option_reader *reader, const struct option_table *table, int argc,
                   char **argv);

/*
 * Reads the next option. False at the end, after --help (printed on stdout), and after an error,
 * which has been printed on stderr with the nearest name; reader->exit_status tells them apart.
 * When no error occurred, operands stand last in argv, from reader->operand.
 */
bool options_next(struct option_reader *reader);

/*
 * The value of the option just read. A value that does not fit is an error: it is printed with what
 * was expected, *out stays as it was, the result is false, and options_next ends the loop.
 */
bool options_integer(struct option_reader *reader, long minimum, long maximum, int *out);
bool options_number(struct option_reader *reader, double minimum, double maximum, double *out);
/* "AxBxC", each at least 1, the product at most 2^20. */
bool options_grid(struct option_reader *reader, int out[3]);
/* The index of the value among `names`. */
bool options_choice(struct option_reader *reader, const char *const *names, size_t count, int *out);

/* What a command with commands of its own has, by name. */
struct option_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    bool hidden; /* the program's own, and no guess */
};

struct option_verbs {
    const struct option_table *table;
    const struct option_verb *verb;
    size_t count;
    const char *question; /* where no operand names one */
    const char *kind;     /* what stands before an unknown name in the message: "benchmark ", "" */
    const char *others;   /* what follows it where no name is near: "; there are ...", "" */
};

/* Runs the one that the first operand names; its status, or EXIT_USAGE. */
int options_verb(const struct option_verbs *verbs, int argc, char **argv);

/* Prints "leat COMMAND: ..." and where the help is; sets and returns EXIT_USAGE. */
int options_error(struct option_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Complains about operands of a command that takes none; false then. */
bool options_no_operands(struct option_reader *reader);

#endif
