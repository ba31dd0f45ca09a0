// SPDX-License-Identifier: Apache-2.0
// By NVIDIA's cuFile: past the host's memory, where nvidia-fs or P2PDMA are there.
//
// Algorithm: the library is loaded and the file registered by the first call that could use it.
// What it refuses, then or in the middle of a transfer, goes another way from there on, under
// `auto`; the reason is kept. Where cuFile itself would only copy through the host, `auto` does not
// ask it: leat's own paths do that faster. Advantage: a driver that opens and then refuses every
// file costs one attempt a file. Disadvantage: a file that it would take later (udev data written
// meanwhile) has to be opened again.

#include "file/cufile.h"

#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_BYTES (UINT64_C(1) << 30) /* of one request */

static bool goes_direct(const struct cufile *cufile)
{
    return cufile->properties.nvfs.major > 0 || cufile->p2pdma;
}

// Whether nothing but cuFile will do for this file.
static bool is_required(const struct leat_file *file)
{
    const char *rule = file->job->config.paths;
    return file->compat == COMPAT_OFF || file->require == FILE_CUFILE ||
           leat_path_rule(rule, "require:", file_path_cufile.name);
}

static int refuse(char reason[LEAT_REASON], const char *what, const char *why)
{
    snprintf(reason, LEAT_REASON, "%s%s", what, why);
    return -ENOTSUP;
}

// ---- Files ----

static int register_descriptor(const struct cufile *cufile, int fd, void **handle)
{
    struct cufile_description description = {.type = CUFILE_HANDLE_FD, .handle = {.fd = fd}};
    return cufile->call.cuFileHandleRegister(handle, &description).error;
}

// Past the page cache where cuFile can do that, else through it; the other one when it is refused.
static int register_file(struct leat_file *file, struct cufile *cufile, char reason[LEAT_REASON])
{
    char ignored[LEAT_REASON];
    bool direct = goes_direct(cufile);
    int direct_fd = file_open_direct(file, ignored), error = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        int fd = (attempt == 0) == direct ? direct_fd : file->fd;
        void *handle = NULL;
        if (fd < 0)
            continue;
        error = register_descriptor(cufile, fd, &handle);
        if (!error) {
            __atomic_store_n(&file->cufile, handle, __ATOMIC_RELEASE);
            return 0;
        }
    }
    char words[LEAT_REASON];
    cufile_words(error, words, sizeof words);
    return refuse(reason, "cuFile refuses the file: ", words);
}

// Under the job's lock of files.
static int open_locked(struct leat_file *file, char reason[LEAT_REASON])
{
    if (file->cufile)
        return 0;
    struct cufile *cufile = cufile_get(file->job);
    if (!cufile)
        return refuse(reason, "no memory for cuFile's functions", "");
    if (cufile->absent[0])
        return refuse(reason, "cuFile: ", cufile->absent);
    if (!goes_direct(cufile) && !is_required(file))
        return refuse(reason, "cuFile has neither nvidia-fs nor P2PDMA",
                      ", and would copy through the host");
    return register_file(file, cufile, reason);
}

static int open_once(struct leat_file *file, char reason[LEAT_REASON])
{
    if (__atomic_load_n(&file->cufile, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&file->job->file_lock);
    int error = open_locked(file, reason);
    pthread_mutex_unlock(&file->job->file_lock);
    if (error)
        file_path_forbid(file, FILE_CUFILE, "%s", reason);
    return error;
}

int file_cufile_open(struct leat_file *file)
{
    char reason[LEAT_REASON] = "";
    if (file->compat == COMPAT_ON || !is_required(file))
        return 0; // by the first call that could use it
    int error = open_once(file, reason);
    return error && file->compat == COMPAT_OFF
               ? leat_fail(-ENOTSUP,
                           "%s: compat is off, so that only cuFile will do: %s; open it with "
                           "compat (LEAT_COMPAT) auto to go another way",
                           file->path, reason)
               : 0;
}

void file_cufile_close(struct leat_file *file)
{
    const struct cufile *cufile = file->job ? file->job->cufile : NULL;
    if (file->cufile && cufile)
        cufile->call.cuFileHandleDeregister(file->cufile);
    file->cufile = NULL;
}

void file_cufile_free(struct leat_job *job)
{
    free(job->cufile);
    job->cufile = NULL;
}

// ---- Choice ----

static int cufile_can(struct leat_file *file, const struct file_need *need,
                      char reason[LEAT_REASON])
{
    if (need->spans)
        return refuse(reason, "many small ranges: these are read as spans", "");
    if ((!need->memory || file_memory_plain(need->memory)) && !is_required(file))
        return refuse(reason, "the buffer is the host's", "");
    int error = open_once(file, reason);
    if (error)
        return error;
    pthread_mutex_lock(&file->job->file_lock);
    const struct cufile *cufile = file->job->cufile;
    const char *way = cufile->properties.nvfs.major > 0 ? "nvidia-fs"
                      : cufile->p2pdma                  ? "P2PDMA"
                                                        : "its compatibility mode";
    snprintf(reason, LEAT_REASON, "cuFile %d.%d, by %s%s%s", cufile->version / 1000,
             cufile->version % 1000 / 10, way,
             cufile->buffer_refused[0] ? "; a buffer was not registered: " : "",
             cufile->buffer_refused);
    pthread_mutex_unlock(&file->job->file_lock);
    return 0;
}

// ---- Transfers ----

static int give_up(const struct file_task *task, long result, int error)
{
    struct leat_file *file = task->request->file;
    bool reading = task->request->call.operation == LEAT_FILE_OP_READ;
    unsigned long long offset = task->offset + task->done, bytes = task->bytes - task->done;
    char words[LEAT_REASON];
    if (result == -1)
        snprintf(words, sizeof words, "%s", strerror(-error));
    else
        cufile_words(result, words, sizeof words);
    if (file->compat == COMPAT_OFF)
        return leat_fail(error,
                         "%s: cuFile cannot %s %llu bytes at offset %llu: %s; with compat "
                         "(LEAT_COMPAT) auto they go another way",
                         file->path, reading ? "read" : "write", bytes, offset, words);
    file_path_forbid(file, FILE_CUFILE, "cuFile refuses to %s at offset %llu: %s",
                     reading ? "read" : "write", offset, words);
    return FILE_OTHER_PATH;
}

// -1 is the system's word, which is the same on every path unless it is about how it was asked.
static int settle(const struct file_task *task, long result, int code)
{
    const struct leat_file *file = task->request->file;
    bool own = result < -CUFILE_ERROR_FIRST;
    int error = own ? cufile_errno(result) : -(code ? code : EIO);
    if (own || error == -EINVAL || error == -EOPNOTSUPP || error == -ENOSYS)
        return give_up(task, result, error);
    return file_transfer_fail(file, error, task->request->call.operation, task->offset + task->done,
                              task->bytes - task->done);
}

// In its compatibility mode cuFile copies whole blocks, past the end of the file too, so that it is
// asked for what the file has.
static uint64_t within_file(const struct leat_file *file, uint64_t at, uint64_t bytes)
{
    struct stat status;
    if (file->system->fstat(file->fd, &status) || !S_ISREG(status.st_mode))
        return bytes;
    uint64_t size = (uint64_t)status.st_size, rest = at < size ? size - at : 0;
    return bytes < rest ? bytes : rest;
}

static ssize_t transfer(const struct cufile *cufile, const struct file_task *task)
{
    const struct leat_file *file = task->request->file;
    bool reading = task->request->call.operation == LEAT_FILE_OP_READ;
    uint64_t rest = task->bytes - task->done, at = task->offset + task->done;
    rest = reading ? within_file(file, at, rest) : rest;
    if (!rest)
        return 0;
    size_t part = (size_t)(rest < CALL_BYTES ? rest : CALL_BYTES);
    // A registered buffer is named by where it begins.
    char *base = task->memory.registered ? task->memory.base : task->memory.address;
    off_t within = task->memory.address + task->done - base;
    errno = 0;
    return reading ? cufile->call.cuFileRead(file->cufile, base, part, (off_t)at, within)
                   : cufile->call.cuFileWrite(file->cufile, base, part, (off_t)at, within);
}

static int cufile_run(struct file_lane *lane, struct file_task *task)
{
    const struct cufile *cufile = lane->job->cufile;
    int error = file_lane_use(lane, &task->memory); // and with it the GPU's context
    while (!error && task->done < task->bytes) {
        ssize_t moved = transfer(cufile, task);
        if (moved == -1 && errno == EINTR)
            continue;
        if (moved < 0)
            error = settle(task, moved, errno);
        else if (!moved && task->request->call.operation == LEAT_FILE_OP_WRITE)
            error = settle(task, -1, EIO);
        else if (!moved)
            break;
        task->done += moved > 0 ? (uint64_t)moved : 0;
        file_task_moved(task, moved > 0 ? (uint64_t)moved : 0);
    }
    return error;
}

const struct file_path file_path_cufile = {.name = "cufile", .can = cufile_can, .run = cufile_run};

// ---- Buffers ----

int file_cufile_buffer(struct leat_job *job, struct file_memory *memory, uint64_t bytes)
{
    bool required = !strcmp(job->config.compat, "off");
    if (!strcmp(job->config.compat, "on") || (file_memory_plain(memory) && !required))
        return 0;
    struct cufile *cufile = cufile_get(job);
    if (!cufile)
        return -ENOMEM;
    if (cufile->absent[0])
        return required ? leat_fail(-ENOTSUP, "a buffer cannot be registered with cuFile: %s",
                                    cufile->absent)
                        : 0;
    if (!goes_direct(cufile) && !required)
        return 0; // no call will ask it
    struct cufile_status status = cufile->call.cuFileBufRegister(memory->address, bytes, 0);
    memory->registered = !status.error;
    memory->base = memory->address;
    if (!status.error)
        return 0;
    char words[LEAT_REASON];
    cufile_words(status.error, words, sizeof words);
    if (required)
        return leat_fail(cufile_errno(status.error),
                         "cuFile does not register a buffer of %llu bytes at %p: %s; leave it "
                         "unregistered, or set compat (LEAT_COMPAT) to auto",
                         (unsigned long long)bytes, (void *)memory->address, words);
    snprintf(cufile->buffer_refused, sizeof cufile->buffer_refused, "%s", words);
    return 0;
}

void file_cufile_buffer_gone(struct leat_job *job, const struct file_memory *memory)
{
    const struct cufile *cufile = job->cufile;
    if (memory->registered && cufile)
        cufile->call.cuFileBufDeregister(memory->address);
}
