// SPDX-License-Identifier: Apache-2.0
// Buffers that callers have registered.
//
// Algorithm: a list a job, newest first, under the job's lock of files. Advantage: a call's buffer
// is looked up without asking cuFile. Disadvantage: a scan, so it is for a few buffers, which is
// what registration is for.

#include "file/internal.h"

#include <errno.h>
#include <stdlib.h>

struct file_buffer {
    struct file_buffer *next;
    struct file_memory memory;
    uint64_t bytes;
};

// Under the lock: the link to the buffer that begins at the address, or to the end.
static struct file_buffer **find(struct leat_job *job, const char *address)
{
    struct file_buffer **link = &job->file_buffers;
    while (*link && (*link)->memory.address != address)
        link = &(*link)->next;
    return link;
}

int leat_file_buffer_register(leat_job *job, leat_buffer buffer, uint64_t bytes)
{
    int error = leat_need(job, "leat_file_buffer_register", "job");
    if (!error && !bytes)
        error = leat_fail(-EINVAL, "leat_file_buffer_register: a buffer of no bytes");
    struct file_memory memory;
    struct file_pool *pool;
    if (!error)
        error = file_memory_find(job, &buffer, bytes, &memory);
    if (!error)
        error = file_pool_get(job, &pool); // with which it is forgotten
    if (error)
        return error;
    struct file_buffer *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory to register a buffer");
    pthread_mutex_lock(&job->file_lock);
    if (*find(job, memory.address))
        error = leat_fail(-EBUSY, "the buffer at %p is registered already; deregister it first",
                          (void *)memory.address);
    if (!error)
        error = file_cufile_buffer(job, &memory, bytes);
    if (!error) {
        *made = (struct file_buffer){job->file_buffers, memory, bytes};
        job->file_buffers = made;
    }
    pthread_mutex_unlock(&job->file_lock);
    if (error)
        free(made);
    return error;
}

int leat_file_buffer_deregister(leat_job *job, leat_buffer buffer)
{
    int error = leat_need(job, "leat_file_buffer_deregister", "job");
    struct file_memory memory;
    if (!error)
        error = file_memory_find(job, &buffer, 0, &memory);
    if (error)
        return error;
    pthread_mutex_lock(&job->file_lock);
    struct file_buffer **link = find(job, memory.address), *gone = *link;
    if (gone) {
        *link = gone->next;
        file_cufile_buffer_gone(job, &gone->memory);
    }
    pthread_mutex_unlock(&job->file_lock);
    free(gone);
    return gone ? 0
                : leat_fail(-ENOENT, "no buffer is registered from %p on", (void *)memory.address);
}

void file_buffer_look(struct leat_job *job, struct file_memory *memory, uint64_t bytes)
{
    if (!__atomic_load_n(&job->file_buffers, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&job->file_lock);
    for (const struct file_buffer *buffer = job->file_buffers; buffer; buffer = buffer->next) {
        const char *start = buffer->memory.address;
        if (buffer->memory.registered && memory->address >= start && bytes <= buffer->bytes &&
            (uint64_t)(memory->address - start) <= buffer->bytes - bytes) {
            memory->registered = true;
            memory->base = buffer->memory.address;
        }
    }
    pthread_mutex_unlock(&job->file_lock);
}

void file_buffers_free(struct leat_job *job)
{
    while (job->file_buffers) {
        struct file_buffer *gone = job->file_buffers;
        job->file_buffers = gone->next;
        file_cufile_buffer_gone(job, &gone->memory);
        free(gone);
    }
}
