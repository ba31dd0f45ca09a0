// SPDX-License-Identifier: Apache-2.0
// leat file: between files and memory of a device.
//
// One table of what it does. Advantage: each is one file with its own options, and this one knows
// only their names. Disadvantage: there are no options that all share by construction.

#include "commands.h"
#include "core/config.h"
#include "file.h"

#include <stdio.h>
#include <string.h>

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
};

static const struct verb verbs[] = {
    {"check", file_check}, {"read", file_read}, {"write", file_write},
    {"cp", file_copy},     {"tune", file_tune},
};

#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static const struct option_table table = {
    .command = "file",
    .synopsis = "check|read|write|cp|tune [OPTIONS] PATH...",
    .summary =
        "Moves files to memory of a device and back. check PATH: what a read of it will take, and "
        "why nothing better; read PATH: into memory of the device; write PATH: from there; cp SRC "
        "DST: through there; tune [PATH]: measures here and keeps the settings that do best. `leat "
        "file NAME --help` lists the options of each.",
    .stops_at_operand = true,
};

int cmd_file(int argc, char **argv)
{
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        continue;
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (reader.operand == argc)
        return options_error(&reader, "what to do? There are check, read, write, cp and tune");
    const char *name = argv[reader.operand];
    struct name_guess guess = {.wanted = name};
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return verbs[i].run(argc - reader.operand, argv + reader.operand);
        leat_name_consider(&guess, verbs[i].name);
    }
    if (guess.best)
        return options_error(&reader, "there is no \"%s\"; did you mean %s?", name, guess.best);
    return options_error(&reader, "there is no \"%s\"; there are check, read, write, cp and tune",
                         name);
}
