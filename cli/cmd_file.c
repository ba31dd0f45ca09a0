// SPDX-License-Identifier: Apache-2.0
// leat file: between files and memory of a device.
//
// One table of what it does. Advantage: each is one file with its own options, and this one knows
// only their names. Disadvantage: there are no options that all share by construction.

#include "commands.h"
#include "file.h"

static const struct option_verb verbs[] = {
    {"check", file_check, false}, {"read", file_read, false}, {"write", file_write, false},
    {"cp", file_copy, false},     {"tune", file_tune, false},
};

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
    static const struct option_verbs all = {
        .table = &table,
        .verb = verbs,
        .count = sizeof verbs / sizeof *verbs,
        .question = "what to do? There are check, read, write, cp and tune",
        .kind = "",
        .others = "; there are check, read, write, cp and tune",
    };
    return options_verb(&all, argc, argv);
}
