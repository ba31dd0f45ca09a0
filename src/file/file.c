// SPDX-License-Identifier: Apache-2.0
// Opening and closing files, and what is asked of them as a whole.
//
// Algorithm: one descriptor through the page cache is opened at once, one past it when a call first
// wants it, by the first one's entry in /proc, so that it is the same file whatever has been
// renamed meanwhile. Calls under way are counted: closing waits for them. Advantage: a file that
// refuses direct I/O is still open. Disadvantage: two descriptors a file.

#define _GNU_SOURCE
#include "file/internal.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Calls under way ----

int file_enter(struct leat_file *file)
{
    pthread_mutex_lock(&file->lock);
    bool open = file->job;
    file->calls += open;
    pthread_mutex_unlock(&file->lock);
    return open ? 0
                : leat_fail(-ESHUTDOWN, "%s: the job that opened this file has been closed",
                            file->path);
}

void file_leave(struct leat_file *file)
{
    pthread_mutex_lock(&file->lock);
    if (--file->calls == 0)
        pthread_cond_broadcast(&file->quiet);
    pthread_mutex_unlock(&file->lock);
}

void file_release(struct leat_file *file)
{
    pthread_mutex_lock(&file->lock);
    bool last = --file->references == 0;
    pthread_mutex_unlock(&file->lock);
    if (!last)
        return;
    pthread_cond_destroy(&file->quiet);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file);
}

// No more calls begin once the job is gone, and those under way end first.
static void wait_quiet(struct leat_file *file)
{
    while (file->calls)
        pthread_cond_wait(&file->quiet, &file->lock);
}

void file_orphan(struct leat_file *file)
{
    pthread_mutex_lock(&file->lock);
    wait_quiet(file);
    pthread_mutex_unlock(&file->lock);
    file_cufile_close(file);
    pthread_mutex_lock(&file->lock);
    file->job = NULL;
    pthread_mutex_unlock(&file->lock);
}

// ---- Opening ----

static int check_switch(const char *option, const char *text, const char *setting, int *value)
{
    static const char *const words[] = {"auto", "on", "off"};
    const char *word = text && *text ? text : setting;
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, words[i])) {
            *value = i;
            return 0;
        }
    return leat_fail(-EINVAL, "leat_file_options.%s is \"%s\"; expected auto, on or off", option,
                     word);
}

static int check_require(const char *name, int *require)
{
    *require = -1;
    if (!name || !*name)
        return 0;
    char known[96] = "";
    size_t used = 0;
    for (int row = 0; row < FILE_ROWS; row++) {
        if (!strcmp(name, file_paths[row]->name)) {
            *require = row;
            return 0;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", row ? ", " : "",
                                 file_paths[row]->name);
    }
    return leat_fail(-EINVAL, "leat_file_options.require is \"%s\"; the paths of files are %s",
                     name, known);
}

static int check_flags(int flags)
{
    const int all = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE |
                    LEAT_FILE_EXCLUSIVE;
    if (flags & ~all)
        return leat_fail(-EINVAL, "leat_file_options.flags has unknown bits: %#x", flags & ~all);
    if (!(flags & (LEAT_FILE_READ | LEAT_FILE_WRITE)))
        return leat_fail(-EINVAL, "leat_file_options.flags: neither READ nor WRITE");
    if ((flags & (LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE)) && !(flags & LEAT_FILE_WRITE))
        return leat_fail(-EINVAL, "leat_file_options.flags: CREATE and TRUNCATE need WRITE");
    if ((flags & LEAT_FILE_EXCLUSIVE) && !(flags & LEAT_FILE_CREATE))
        return leat_fail(-EINVAL, "leat_file_options.flags: EXCLUSIVE needs CREATE");
    return 0;
}

static int read_options(const leat_job *job, const leat_file_options *options,
                        leat_file_options *full, struct leat_file *file)
{
    *full = (leat_file_options){.size = sizeof *full};
    if (options && !options->size)
        return leat_fail(-EINVAL, "leat_file_options.size is 0; set it to sizeof");
    if (options)
        memcpy(full, options, options->size < sizeof *full ? options->size : sizeof *full);
    file->flags = full->flags ? full->flags : LEAT_FILE_READ;
    file->cufile_min_bytes =
        full->cufile_min_bytes ? full->cufile_min_bytes : job->config.cufile_min_bytes;
    file->task_bytes = full->task_bytes ? full->task_bytes : job->config.file_task_bytes;
    if (file->task_bytes < 4096)
        return leat_fail(-EINVAL, "leat_file_options.task_bytes is %llu; at least 4096, or 0",
                         (unsigned long long)file->task_bytes);
    int compat = 0, direct = 0;
    int error = check_flags(file->flags);
    if (!error)
        error = check_switch("compat", full->compat, job->config.compat, &compat);
    if (!error)
        error = check_switch("direct", full->direct, job->config.file_direct, &direct);
    if (!error)
        error = check_require(full->require, &file->require);
    file->compat = compat == 0 ? COMPAT_AUTO : compat == 1 ? COMPAT_ON : COMPAT_OFF;
    file->direct = direct == 0 ? DIRECT_AUTO : direct == 1 ? DIRECT_ON : DIRECT_OFF;
    return error;
}

static int access_mode(const struct leat_file *file)
{
    int both = LEAT_FILE_READ | LEAT_FILE_WRITE;
    return (file->flags & both) == both           ? O_RDWR
           : (file->flags & LEAT_FILE_WRITE) != 0 ? O_WRONLY
                                                  : O_RDONLY;
}

static int open_fail(const struct leat_file *file, int error)
{
    const char *remedy = "";
    if (error == -ENOENT)
        remedy = (file->flags & LEAT_FILE_CREATE)
                     ? "; a directory of the path is not there: make it"
                 : (file->flags & LEAT_FILE_WRITE) ? "; CREATE makes it"
                                                   : "; check the path";
    else if (error == -EACCES || error == -EPERM)
        remedy = "; check its permissions and those of its directories";
    else if (error == -EEXIST)
        remedy = "; without EXCLUSIVE it is taken as it is";
    else if (error == -EMFILE)
        remedy = "; close some files, or raise `ulimit -n`";
    return leat_fail(error, "%s: cannot open it to %s: %s%s", file->path,
                     (file->flags & LEAT_FILE_WRITE) ? "write" : "read", strerror(-error), remedy);
}

static int open_once(const struct leat_file *file, int flags, unsigned permissions)
{
    int fd;
    do
        fd = file->system->open(file->path, flags, permissions ? permissions : 0666);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

// *created: by this call and by nobody else, so that it may go again.
static int open_or_create(const struct leat_file *file, unsigned permissions, bool *created)
{
    // Not to hang at a pipe without a writer, which is refused below.
    int flags = access_mode(file) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    bool creates = file->flags & LEAT_FILE_CREATE, exclusive = file->flags & LEAT_FILE_EXCLUSIVE;
    int fd = exclusive ? -ENOENT : open_once(file, flags, 0);
    if (fd != -ENOENT || !creates)
        return fd;
    fd = open_once(file, flags | O_CREAT | O_EXCL, permissions);
    *created = fd >= 0;
    // Made by another one meanwhile, or a link that leads to nothing yet.
    return fd == -EEXIST && !exclusive ? open_once(file, flags | O_CREAT, permissions) : fd;
}

static int open_descriptor(struct leat_file *file, unsigned permissions, bool *created)
{
    file->fd = open_or_create(file, permissions, created);
    if (file->fd < 0)
        return open_fail(file, file->fd);
    struct stat status;
    if (file->system->fstat(file->fd, &status))
        return leat_fail(-errno, "%s: cannot tell what it is: %s", file->path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return leat_fail(-EISDIR, "%s: it is a directory", file->path);
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))
        return leat_fail(-EINVAL, "%s: neither a regular file nor a block device", file->path);
    return 0;
}

// Only what is still the file that was made.
static void remove_created(const struct leat_file *file)
{
    struct stat made, named;
    if (!fstat(file->fd, &made) && !lstat(file->path, &named) && made.st_dev == named.st_dev &&
        made.st_ino == named.st_ino)
        unlink(file->path);
}

static void discard(struct leat_file *file, bool created)
{
    if (created)
        remove_created(file);
    if (file->direct_fd >= 0)
        file->system->close(file->direct_fd);
    if (file->fd >= 0)
        file->system->close(file->fd);
    file_release(file);
}

// `require` names a path that this file can take for some call, or the open fails.
static int check_possible(struct leat_file *file)
{
    if (file->require < 0)
        return 0;
    bool reading = file->flags & LEAT_FILE_READ;
    if (file->require == FILE_MAPPED && (!reading || (file->flags & LEAT_FILE_TRUNCATE)))
        return leat_fail(-ENOTSUP, "%s: the path mapped only reads: nothing could be written by it",
                         file->path);
    char reason[LEAT_REASON] = "";
    int error = -ENOTSUP;
    bool forbidden = file->forbidden[file->require];
    if (forbidden)
        memcpy(reason, file->why[file->require], sizeof reason);
    else if (file->require == FILE_ODIRECT) {
        int fd = file_open_direct(file, reason);
        forbidden = fd < 0;
        error = file_error_passes(fd) ? fd : error;
    }
    return forbidden ? leat_fail(error, "%s: the path %s is required and cannot be taken: %s",
                                 file->path, file_paths[file->require]->name, reason)
                     : 0;
}

// As O_TRUNC would, once nothing refuses the file any more.
static int truncate_opened(const struct leat_file *file)
{
    struct stat status;
    if (!(file->flags & LEAT_FILE_TRUNCATE))
        return 0;
    if (file->system->fstat(file->fd, &status))
        return leat_fail(-errno, "%s: cannot tell what it is: %s", file->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return 0;
    int result;
    do
        result = file->system->ftruncate(file->fd, 0);
    while (result && errno == EINTR);
    return result ? leat_fail(-errno, "%s: cannot make it empty: %s", file->path, strerror(errno))
                  : 0;
}

static int open_checked(struct leat_file *file, const leat_file_options *options)
{
    bool created = false;
    leat_file_options full;
    int error = read_options(file->job, options, &full, file);
    if (!error)
        error = open_descriptor(file, full.permissions, &created);
    if (!error) {
        file_look(file);
        error = file_cufile_open(file);
    }
    if (!error)
        error = check_possible(file);
    if (!error)
        error = truncate_opened(file);
    if (error) {
        file_cufile_close(file);
        discard(file, created);
    }
    return error;
}

int leat_file_open(leat_job *job, const char *path, const leat_file_options *options,
                   leat_file **opened)
{
    int error = leat_need(job, "leat_file_open", "job");
    if (!error)
        error = leat_need(path, "leat_file_open", "path");
    if (!error)
        error = leat_need(opened, "leat_file_open", "file");
    struct file_pool *pool = NULL;
    if (!error)
        error = file_pool_get(job, &pool);
    if (error)
        return error;
    struct leat_file *file = calloc(1, sizeof *file);
    char *name = strdup(path);
    if (!file || !name) {
        free(file);
        free(name);
        return leat_fail(-ENOMEM, "no memory for a file handle");
    }
    *file = (struct leat_file){.job = job,
                               .pool = pool,
                               .path = name,
                               .fd = -1,
                               .direct_fd = -1,
                               .references = 1,
                               .process = getpid()};
    file->system = job->file_system ? job->file_system : &file_system_real;
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->quiet, NULL);
    error = open_checked(file, options);
    if (error)
        return error;
    file_pool_add(pool, file);
    *opened = file;
    return 0;
}

int leat_file_close(leat_file *file)
{
    if (!file)
        return 0;
    pthread_mutex_lock(&file->lock);
    wait_quiet(file);
    bool orphan = !file->job;
    pthread_mutex_unlock(&file->lock);
    if (!orphan) {
        file_pool_remove(file);
        file_cufile_close(file);
    }
    int error = 0;
    // Linux has freed the descriptor whatever close says.
    if (file->direct_fd >= 0 && file->system->close(file->direct_fd))
        error = -errno;
    if (file->system->close(file->fd))
        error = -errno;
    if (error)
        leat_fail(error, "%s: closing it: %s; what was written may not be there", file->path,
                  strerror(-error));
    file_release(file);
    return error;
}

// ---- The file as a whole ----

static int enter_open(leat_file *file, const char *function, bool writing)
{
    int error = leat_need(file, function, "file");
    if (!error && writing && !(file->flags & LEAT_FILE_WRITE))
        error = leat_fail(-EBADF, "%s: it is not open for writing", file->path);
    return error ? error : file_enter(file);
}

int file_write_out(struct leat_file *file)
{
    int result;
    do
        result = file->system->fdatasync(file->fd);
    while (result && errno == EINTR);
    return result ? leat_fail(-errno, "%s: writing it out: %s; write it anew", file->path,
                              strerror(errno))
                  : 0;
}

int leat_file_sync(leat_file *file)
{
    int error = enter_open(file, "leat_file_sync", true);
    if (error)
        return error;
    error = file_write_out(file);
    file_leave(file);
    return error;
}

int leat_file_resize(leat_file *file, uint64_t bytes)
{
    int error = enter_open(file, "leat_file_resize", true);
    if (error)
        return error;
    int result = -1;
    if (bytes > INT64_MAX)
        error = leat_fail(-EINVAL, "%s: %llu bytes are more than a file can have", file->path,
                          (unsigned long long)bytes);
    else
        do
            result = file->system->ftruncate(file->fd, (off_t)bytes);
        while (result && errno == EINTR);
    if (result && !error)
        error = leat_fail(-errno, "%s: cannot make it %llu bytes long: %s", file->path,
                          (unsigned long long)bytes, strerror(errno));
    file_leave(file);
    return error;
}
