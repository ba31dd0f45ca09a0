# SPDX-License-Identifier: Apache-2.0
"""A library, loaded before the system's, in which calls on files fail, are short or kill."""
import os
import pathlib
import subprocess

import leat_md

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// FAULT="CALL NAME NUMBER WHAT": the n-th such call on a file whose path has that name in it fails
// with that errno, or with 0 the process is killed in its place, with -1 after it.
static int fault(const char *call, const char *path, int after)
{
    static int calls;
    char name[32], part[32];
    int number, what;
    const char *told = getenv("FAULT");
    if (!told || sscanf(told, "%31s %31s %d %d", name, part, &number, &what) != 4 ||
        strcmp(name, call) ||
        !strstr(path, part) || (what == -1) != after ||
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != number)
        return 0;
    if (what < 1)
        kill(getpid(), SIGKILL);
    errno = what;
    return -1;
}

static const char *path_of(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset)
{
    char path[4096];
    if (fault("pwrite", path_of(fd, path), 0))
        return -1;
    if (bytes > 1000)
        bytes = bytes / 3; // short writes are continued
    ssize_t done = NEXT(ssize_t(*)(int, const void *, size_t, off_t), "pwrite")(fd, from, bytes,
                                                                              offset);
    fault("pwrite", path, 1);
    return done;
}
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));

int fdatasync(int fd)
{
    char path[4096];
    int failed = fault("fdatasync", path_of(fd, path), 0);
    return failed ? failed : NEXT(int (*)(int), "fdatasync")(fd);
}

int fsync(int fd)
{
    char path[4096];
    int failed = fault("fsync", path_of(fd, path), 0);
    return failed ? failed : NEXT(int (*)(int), "fsync")(fd);
}

int rename(const char *from, const char *to)
{
    if (fault("rename", from, 0))
        return -1;
    int done = NEXT(int (*)(const char *, const char *), "rename")(from, to);
    fault("rename", from, 1);
    return done;
}
"""


def library(directory):
    """The path of it, made here; skips where it cannot be."""
    with open(leat_md.leat_bin(), "rb") as file:
        if any(word in file.read() for word in (b"__asan_init", b"__tsan_init")):
            raise leat_md.Skip("a sanitizer has the system's calls already")
    source, made = (pathlib.Path(directory) / name for name in ("faults.c", "faults.so"))
    source.write_text(SOURCE, encoding="utf-8")
    done = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", made,
                           source, "-ldl"], capture_output=True, check=False)
    if done.returncode:
        raise leat_md.Skip("no C compiler to make the library with")
    return str(made)
