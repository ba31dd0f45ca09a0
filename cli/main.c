// SPDX-License-Identifier: Apache-2.0
// The command `leat`: one table of commands.
//
// Advantage: each command is one file with its own options, and this one knows only their names.
// Disadvantage: there are no options that all commands share.

#include "commands.h"
#include "core/config.h"
#include "leat/leat.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"info", cmd_info, "what this build and this host have, and the settings"},
    {"path", cmd_path, "which path leads from rank to rank, and why"},
    {"run", cmd_run, "start the ranks of a program on this host"},
    {"md", cmd_md, "molecular dynamics of GROMACS inputs over several ranks"},
    {"compare", cmd_compare, "the results of two runs, within a tolerance"},
    {"halo", cmd_halo, "replay a plan file and say what is missing, double or stale"},
    {"file", cmd_file, "read, write and copy files through memory of a device; check and tune"},
    {"bench", cmd_bench, "measure leat and what one would take instead, in turn"},
    {"torus", cmd_torus, "the message layer on a modelled machine, up to whole machines"},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

int command_status(int error)
{
    switch (error) {
    case 0:
        return EXIT_DONE;
    case -ETIMEDOUT:
        return EXIT_TIMED_OUT;
    case -ENOSYS:
    case -ENOTSUP:
        return EXIT_UNSUPPORTED;
    default:
        return EXIT_FAILED;
    }
}

int command_fail(const char *command, int error)
{
    const char *detail = leat_error_detail();
    fprintf(stderr, "leat %s: %s\n", command, *detail ? detail : strerror(-error));
    return command_status(error);
}

static void print_help(FILE *out)
{
    fprintf(out, "usage: leat COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-7s %s\n", commands[i].name, commands[i].help);
    fprintf(out,
            "\n`leat COMMAND --help` lists the options of a command, `leat --version` prints "
            "the version.\n\nSettings, from the environment or from the file that LEAT_CONFIG "
            "names\n(~/.config/leat/leat.conf when unset), one NAME = value a line, # begins a "
            "comment:\n\n");
    for (int id = 0; id < SETTING_COUNT; id++)
        fprintf(out, "  %-22s %s (%s)\n", leat_settings[id].name, leat_settings[id].help,
                leat_settings[id].fallback);
}

static int unknown_command(const char *name)
{
    struct name_guess guess = {.wanted = name};
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        leat_name_consider(&guess, commands[i].name);
    if (guess.best)
        fprintf(stderr, "leat: there is no command \"%s\"; did you mean %s?\n", name, guess.best);
    else
        fprintf(stderr, "leat: there is no command \"%s\"; leat --help lists them\n", name);
    return EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("leat %d.%d.%d\n", LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR, LEAT_VERSION_PATCH);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(name, commands[i].name)) {
            // A file size limit is an error of a write. What `run` starts would inherit that.
            if (commands[i].run != cmd_run)
                signal(SIGXFSZ, SIG_IGN);
            return commands[i].run(argc - 1, argv + 1);
        }
    return unknown_command(name);
}

// A parent that closed our standard streams would have files opened in their place.
static void fill_standard_streams(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    int status = dispatch(argc, argv);
    // A full disk shows only when the buffer is written.
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "leat: cannot write to standard output: %s\n", strerror(errno));
        if (status == EXIT_DONE)
            status = EXIT_FAILED;
    }
    return status;
}
