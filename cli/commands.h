/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of `leat`, each in its cmd_*.c, and what they share: exit statuses and the last line
 * that a failed command prints.
 *
 * Advantage: main.c needs one table, and a status means the same in every command. Disadvantage: a
 * new command is named in three places (here, that table, its file).
 */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1, /* failed, or the data is wrong */
    EXIT_USAGE = 2,
    EXIT_UNSUPPORTED = 77,
    EXIT_TIMED_OUT = 124
};

/* argv[0] is the command's own name ("md"); the result is the exit status. */
int cmd_bench(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_file(int argc, char **argv);
int cmd_halo(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_md(int argc, char **argv);
int cmd_path(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_torus(int argc, char **argv);

/* The exit status for a negative errno of the library; EXIT_DONE for 0. */
int command_status(int error);

/*
 * Prints "leat COMMAND: " and the calling thread's error detail (or the errno's text where there is
 * none) on stderr; returns command_status(error).
 */
int command_fail(const char *command, int error);

#endif
