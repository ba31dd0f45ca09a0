/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of the file layer, through one table, so that a test can let each of them fail,
 * be interrupted, or do less than it was asked.
 *
 * Advantage: every path of every error runs in a test, without another kernel. Disadvantage: an
 * indirect call each; beside a system call it does not show.
 */
#ifndef LEAT_FILE_SYSTEM_H
#define LEAT_FILE_SYSTEM_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct statx;

/* As the functions of the same name: -1 and errno. */
struct file_system_calls {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*pread)(int fd, void *to, size_t bytes, off_t offset);
    ssize_t (*pwrite)(int fd, const void *from, size_t bytes, off_t offset);
    int (*fstat)(int fd, struct stat *status);
    int (*fdatasync)(int fd);
    int (*ftruncate)(int fd, off_t bytes);
    void *(*mmap)(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
    int (*munmap)(void *address, size_t bytes);
    int (*uring_setup)(unsigned depth); /* 0: io_uring may be used; else -1 and errno */
    int (*uring_enter)(void);           /* 0: the ring may be entered; else -1 and errno */
    /* What the ring says of a request's result: a test puts another one in its place. */
    int (*uring_result)(int result, uint64_t offset, uint64_t bytes);
};

/* The system's own. A job uses it unless a test puts another table into job->file_system before it
 * opens a file. */
extern const struct file_system_calls file_system_real;

#endif
