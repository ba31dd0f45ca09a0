// SPDX-License-Identifier: Apache-2.0
// cuFile as a side of `leat bench file` uses it; see the header.

#define _GNU_SOURCE
#include "peer_file_cufile.h"

#include <dlfcn.h>
#include <sys/types.h>

#define BATCH 128u

// cuFile's interface, as far as it is used here, by its public reference.
struct cufile_status {
    int error, cuda_error;
};
struct cufile_description {
    int type;
    union {
        int fd;
        void *other;
    } handle;
    const void *operations;
};
struct cufile_batch_entry {
    int mode; // 1
    struct {
        void *base;
        off_t file_offset, device_offset;
        size_t bytes;
    } part;
    void *handle;
    int operation; // 0: read
    void *cookie;
};
struct cufile_batch_event {
    void *cookie;
    int status; // 4: complete
    size_t result;
};

static struct {
    struct cufile_status (*open)(void);
    struct cufile_status (*add_file)(void **handle, struct cufile_description *description);
    void (*remove_file)(void *handle);
    struct cufile_status (*add_buffer)(const void *address, size_t bytes, int flags);
    struct cufile_status (*remove_buffer)(const void *address);
    ssize_t (*read)(void *handle, void *base, size_t bytes, off_t offset, off_t device_offset);
    struct cufile_status (*batch_open)(void **batch, unsigned entries);
    struct cufile_status (*batch_submit)(void *batch, unsigned count,
                                         struct cufile_batch_entry *entries, unsigned flags);
    struct cufile_status (*batch_status)(void *batch, unsigned least, unsigned *count,
                                         struct cufile_batch_event *events,
                                         struct timespec *timeout);
    void (*batch_close)(void *batch);
} library;

static void *handle; // of the file

struct batch {
    void *number;
    const struct file_ask *ask;
    uint64_t size; // of the file
    char *base;
};

static bool well(struct cufile_status status, const char *what)
{
    char number[64];
    snprintf(number, sizeof number, "cuFile says %d (CUDA %d)", status.error, status.cuda_error);
    if (status.error)
        failed(what, number);
    return !status.error;
}

bool cufile_load(void)
{
    void *file = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void **to;
    } symbols[] = {{"cuFileDriverOpen", (void **)&library.open},
                   {"cuFileHandleRegister", (void **)&library.add_file},
                   {"cuFileHandleDeregister", (void **)&library.remove_file},
                   {"cuFileBufRegister", (void **)&library.add_buffer},
                   {"cuFileBufDeregister", (void **)&library.remove_buffer},
                   {"cuFileRead", (void **)&library.read},
                   {"cuFileBatchIOSetUp", (void **)&library.batch_open},
                   {"cuFileBatchIOSubmit", (void **)&library.batch_submit},
                   {"cuFileBatchIOGetStatus", (void **)&library.batch_status},
                   {"cuFileBatchIODestroy", (void **)&library.batch_close}};
    if (!file) {
        failed("libcufile.so.0", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].to = dlsym(file, symbols[i].name))) {
            failed("libcufile.so.0", symbols[i].name);
            return false;
        }
    return well(library.open(), "cuFileDriverOpen");
}

bool cufile_part(char *base, char *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = library.read(handle, base, bytes - done, (off_t)(offset + done),
                                   to - base + (off_t)done);
        if (got <= 0) {
            char number[48];
            snprintf(number, sizeof number, "result %zd", got);
            failed("cuFileRead", number);
            return false;
        }
        done += (uint64_t)got;
    }
    return true;
}

static bool batch_round(const struct batch *batch, uint64_t from, unsigned count)
{
    static struct cufile_batch_entry entry[BATCH];
    static struct cufile_batch_event event[BATCH];
    const struct file_ask *ask = batch->ask;
    for (unsigned i = 0; i < count; i++) {
        entry[i] = (struct cufile_batch_entry){.mode = 1, .handle = handle};
        entry[i].part.base = batch->base;
        entry[i].part.file_offset = (off_t)file_range_offset(ask, batch->size, from + i);
        entry[i].part.device_offset = (off_t)((from + i) * ask->bytes);
        entry[i].part.bytes = ask->bytes;
        entry[i].cookie = &entry[i];
    }
    if (!well(library.batch_submit(batch->number, count, entry, 0), "cuFileBatchIOSubmit"))
        return false;
    for (unsigned over = 0; over < count;) {
        unsigned got = count - over;
        if (!well(library.batch_status(batch->number, 1, &got, event, NULL),
                  "cuFileBatchIOGetStatus"))
            return false;
        for (unsigned i = 0; i < got; i++)
            if (event[i].result != ask->bytes) {
                failed("cuFile's batch", "an entry has failed");
                return false;
            }
        over += got;
    }
    return true;
}

bool cufile_batches(const struct file_ask *ask, uint64_t size, char *base)
{
    struct batch batch = {.ask = ask, .size = size, .base = base};
    if (!well(library.batch_open(&batch.number, BATCH), "cuFileBatchIOSetUp"))
        return false;
    bool fine = true;
    for (uint64_t i = 0; fine && i < ask->depth; i += BATCH)
        fine = batch_round(&batch, i, ask->depth - i < BATCH ? (unsigned)(ask->depth - i) : BATCH);
    library.batch_close(batch.number);
    return fine;
}

void cufile_register(void *memory, uint64_t bytes)
{
    library.add_buffer(memory, bytes, 0);
}

void cufile_forget(void *memory)
{
    library.remove_buffer(memory);
}

bool cufile_open(int fd)
{
    struct cufile_description description = {.type = 1, .handle.fd = fd};
    return well(library.add_file(&handle, &description), "cuFileHandleRegister");
}

void cufile_close(void)
{
    if (handle)
        library.remove_file(handle);
    handle = NULL;
}
