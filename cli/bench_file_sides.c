// SPDX-License-Identifier: Apache-2.0
// Starts, asks and ends the sides of `leat bench file`; see bench_file.h.

#define _GNU_SOURCE
#include "bench_file.h"

#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MS = 300000 };

static void lose(struct file_side *side, const char *format, const char *what)
{
    snprintf(side->why, sizeof side->why, format, what);
    side->gone = true;
    fprintf(stderr, "leat bench file: %s is not measured: %s\n", side->name, side->why);
}

// ---- Starting ----

static _Noreturn void become(char *const arguments[], int in, int out)
{
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    signal(SIGINT, SIG_DFL);
    execvp(arguments[0], arguments);
    dprintf(STDOUT_FILENO, "error cannot run %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static void start(struct file_side *side, char *const arguments[])
{
    int ask[2], answer[2];
    if (pipe2(ask, O_CLOEXEC) || pipe2(answer, O_CLOEXEC)) {
        lose(side, "no pipe: %s", strerror(errno));
        return;
    }
    fflush(NULL);
    side->pid = fork();
    if (side->pid == 0)
        become(arguments, ask[0], answer[1]);
    close(ask[0]);
    close(answer[1]);
    side->ask = ask[1];
    side->answer = answer[0];
    if (side->pid < 0)
        lose(side, "cannot start it: %s", strerror(errno));
}

static bool is_one_of(const char *name, const char *const *list)
{
    size_t length = strcspn(name, ":");
    for (; *list; list++)
        if (strlen(*list) == length && !strncmp(name, *list, length))
            return true;
    return false;
}

void file_side_start(struct file_side *side, const char *name, const char *device)
{
    static const char *const own[] = {"leat", "pread", NULL};
    static const char *const cuda[] = {"pinned", "mapped", "cufile", "cubatch", NULL};
    static const char *const python[] = {"kvikio", "torch", "numpy", NULL};
    static const char *const fio[] = {"fio", NULL};
    const char *colon = strchr(name, ':');
    char path[480], way[24], where[128];
    *side = (struct file_side){.ask = -1, .answer = -1, .jobs = colon ? atoi(colon + 1) : 1};
    snprintf(side->name, sizeof side->name, "%s", name);
    snprintf(way, sizeof way, "%s", name);
    snprintf(where, sizeof where, "%s", device);
    side->is_leat = !strncmp(name, "leat", 4);
    if (is_one_of(name, fio)) {
        side->is_fio = true;
        return;
    }
    char *self[] = {"/proc/self/exe", "bench", "file-side", way, where, NULL};
    char *peer[] = {path, way, where, NULL};
    if (is_one_of(name, own))
        start(side, self);
    else if (!is_one_of(name, cuda) && !is_one_of(name, python))
        lose(side, "there is no such side%s", "");
    else if (!bench_beside(is_one_of(name, cuda) ? "leat-peer-file-cuda" : "leat-peer-file.py",
                           path, sizeof path))
        lose(side, "%s is not beside leat",
             is_one_of(name, cuda) ? "leat-peer-file-cuda (built "
                                     "where nvcc is)"
                                   : "leat-peer-file.py");
    else
        start(side, peer);
}

void file_side_end(struct file_side *side)
{
    if (side->ask >= 0)
        close(side->ask); // the end of its input is the end of the side
    if (side->answer >= 0)
        close(side->answer);
    side->ask = side->answer = -1;
    if (side->pid <= 0)
        return;
    for (int ms = 0; waitpid(side->pid, NULL, WNOHANG) == 0; ms += 10) {
        if (ms == 10000)
            kill(side->pid, SIGKILL);
        usleep(10000);
    }
    side->pid = 0;
}

// ---- Asking ----

// One line, without its end.
static int read_line(struct file_side *side, char line[512])
{
    for (;;) {
        char *newline = strchr(side->text, '\n');
        if (newline) {
            *newline = 0;
            snprintf(line, 512, "%s", side->text);
            memmove(side->text, newline + 1, strlen(newline + 1) + 1);
            return 0;
        }
        struct pollfd poller = {.fd = side->answer, .events = POLLIN};
        size_t used = strlen(side->text);
        int ready = poll(&poller, 1, ANSWER_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t got =
            ready > 0 ? read(side->answer, side->text + used, sizeof side->text - 1 - used) : -1;
        if (got <= 0) {
            lose(side, "%s", ready == 0 ? "no answer within five minutes" : "it has ended");
            return -EREMOTEIO;
        }
        side->text[used + (size_t)got] = 0;
    }
}

int file_side_ask(struct file_side *side, const struct file_point *point, uint64_t repeat,
                  uint64_t seed, double *ns)
{
    char line[1400], answer[512];
    int length =
        snprintf(line, sizeof line, "%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
                 point->ranges ? "ranges" : "read", point->state, point->bytes, point->depth,
                 repeat, seed, point->path);
    if (write(side->ask, line, (size_t)length) != length) {
        lose(side, "%s", "it has ended");
        return -EREMOTEIO;
    }
    int error = read_line(side, answer);
    if (error)
        return error;
    char *end;
    double total = strtod(answer, &end);
    if (end == answer || total <= 0) {
        snprintf(side->why, sizeof side->why, "%s",
                 !strncmp(answer, "error ", 6) ? answer + 6 : answer);
        return -EREMOTEIO;
    }
    *ns = total / (double)repeat;
    return 0;
}
