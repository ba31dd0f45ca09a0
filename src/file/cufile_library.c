// SPDX-License-Identifier: Apache-2.0
// libcufile.so.0: found, loaded, its driver opened, its errors in words.
//
// Algorithm: dlopen by the name that the loader finds. Its driver is opened by a thread that is
// waited for no longer than the job's time-out: some versions read a file of /proc without end
// where it is missing, and a GPU that does not answer holds others up. Advantage: cuFile can be
// absent, broken or stuck, and files are read all the same. Disadvantage: a thread that never comes
// back stays until the process ends.

#define _GNU_SOURCE
#include "file/cufile.h"

#include "core/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- Errors ----

static const struct {
    int number, error;
    const char *words;
} cufile_errors[] = {
    {5001, -ENOTSUP, "nvidia-fs is not loaded, and its compatibility mode is off"},
    {5002, -EINVAL, "a setting is invalid"},
    {5003, -EINVAL, "a setting is out of range"},
    {5004, -ENOTSUP, "nvidia-fs is of another version"},
    {5005, -ENOTSUP, "the version of nvidia-fs cannot be read"},
    {5006, -ESHUTDOWN, "its driver is closing"},
    {5007, -ENOTSUP, "not on this platform"},
    {5008, -ENOTSUP, "not for this file"},
    {5009, -ENOTSUP, "not for this GPU"},
    {5010, -EIO, "nvidia-fs failed"},
    {5011, -EIO, "CUDA failed"},
    {5012, -EINVAL, "no address of a GPU"},
    {5013, -EINVAL, "memory of a kind that it does not take"},
    {5014, -ERANGE, "the buffer passes the end of its allocation"},
    {5015, -EINVAL, "the buffer is of another CUDA context"},
    {5016, -ENOMEM, "more pinned than max_device_pinned_mem_size_kb allows"},
    {5017, -ERANGE, "beyond what is pinned"},
    {5018, -ENOTSUP, "not for files of this type"},
    {5019, -ENOTSUP, "not for files opened like this"},
    {5020, -ENOTSUP, "the file is not opened with O_DIRECT"},
    {5022, -EINVAL, "an argument is invalid"},
    {5023, -EBUSY, "the buffer is registered already"},
    {5024, -EINVAL, "the buffer is not registered"},
    {5025, -EACCES, "not permitted"},
    {5026, -EBUSY, "its driver is open already"},
    {5027, -ENOTSUP, "the file is not registered: tmpfs, overlay, or no udev data of its disk"},
    {5028, -EBUSY, "the file is registered already"},
    {5029, -ENODEV, "no such GPU"},
    {5030, -EIO, "internal error"},
    {5031, -EMFILE, "no descriptor left"},
    {5033, -EIO, "nvidia-fs cannot be set up"},
    {5034, -ENOTSUP, "switched off for this file in cufile.json"},
    {5036, -ENOMEM, "memory of the GPU cannot be pinned"},
    {5043, -ENOMEM, "it has no memory left"},
    {5044, -EIO, "I/O failed"},
    {5045, -EIO, "the buffer cannot be registered"},
    {5047, -EINVAL, "the CUDA context is invalid"},
    {5048, -EIO, "nvidia-fs failed inside"},
    {5049, -ENOTSUP, "its compatibility mode is off"},
};

static size_t find_error(long error)
{
    size_t count = sizeof cufile_errors / sizeof cufile_errors[0], i = 0;
    while (i < count && cufile_errors[i].number != labs(error))
        i++;
    return i < count ? i : SIZE_MAX;
}

void cufile_words(long error, char *text, size_t bytes)
{
    size_t found = find_error(error);
    snprintf(text, bytes, "%ld (%s)", labs(error),
             found == SIZE_MAX ? "which leat has no words for" : cufile_errors[found].words);
}

int cufile_errno(long error)
{
    size_t found = find_error(error);
    return found == SIZE_MAX ? -EIO : cufile_errors[found].error;
}

// ---- Loading ----

static bool load(struct cufile *cufile)
{
    void *library = dlopen(CUFILE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        snprintf(cufile->absent, sizeof cufile->absent, "it cannot be loaded: %s",
                 why ? why : CUFILE_LIBRARY);
        return false;
    }
#define CUFILE_LOAD(name, optional, result, arguments)                                             \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&cufile->call.name, &symbol, sizeof symbol);                                        \
        if (!symbol && !(optional)) {                                                              \
            snprintf(cufile->absent, sizeof cufile->absent, "the library has no %s", #name);       \
            return false;                                                                          \
        }                                                                                          \
    }
    CUFILE_FUNCTIONS(CUFILE_LOAD)
#undef CUFILE_LOAD
    Dl_info place;
    void *symbol;
    memcpy(&symbol, &cufile->call.cuFileDriverOpen, sizeof symbol);
    if (dladdr(symbol, &place) && place.dli_fname)
        snprintf(cufile->library, sizeof cufile->library, "%s", place.dli_fname);
    if (!cufile->call.cuFileGetVersion || cufile->call.cuFileGetVersion(&cufile->version).error)
        cufile->version = 1000; // before there was a number to ask for
    return true;
}

// ---- Opening the driver ----

// The driver is the process's, not a job's, since a job may end while others use it: it is closed
// when the process ends. Its thread that adds up counts has to stop first, which in version 1.15
// reads them after they are gone.
static struct cufile_status (*driver_close)(void);
static struct cufile_status (*driver_count)(int level);

static void close_driver(void)
{
    struct cufile_status (*count)(int) = __atomic_load_n(&driver_count, __ATOMIC_ACQUIRE);
    struct cufile_status (*close)(void) = __atomic_load_n(&driver_close, __ATOMIC_ACQUIRE);
    if (count)
        count(0);
    if (close)
        close();
}

static void close_at_exit(const struct cufile *cufile)
{
    struct cufile_status (*none)(void) = NULL;
    __atomic_store_n(&driver_count, cufile->call.cuFileSetStatsLevel, __ATOMIC_RELEASE);
    if (cufile->call.cuFileDriverClose_v2 &&
        __atomic_compare_exchange_n(&driver_close, &none, cufile->call.cuFileDriverClose_v2, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        atexit(close_driver);
}

/* Of the waiting thread and the one that opens; the last one frees it. */
struct opening {
    pthread_mutex_t lock;
    pthread_cond_t over;
    struct cufile_status (*open)(void);
    struct cufile_status status;
    bool done;
    int users;
};

static void leave_opening(struct opening *opening)
{
    bool last = --opening->users == 0;
    pthread_mutex_unlock(&opening->lock);
    if (!last)
        return;
    pthread_cond_destroy(&opening->over);
    pthread_mutex_destroy(&opening->lock);
    free(opening);
}

static void *open_driver(void *user)
{
    struct opening *opening = user;
    struct cufile_status status = opening->open();
    pthread_mutex_lock(&opening->lock);
    opening->status = status;
    opening->done = true;
    pthread_cond_signal(&opening->over);
    leave_opening(opening);
    return NULL;
}

static struct opening *new_opening(struct cufile_status (*open)(void))
{
    struct opening *opening = calloc(1, sizeof *opening);
    if (!opening)
        return NULL;
    *opening = (struct opening){.open = open, .users = 2};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&opening->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&opening->lock, NULL);
    return opening;
}

// Whether it has been opened; `absent` says why not.
static bool open_in_time(struct cufile *cufile, uint64_t timeout_ns)
{
    struct opening *opening = new_opening(cufile->call.cuFileDriverOpen);
    pthread_t thread;
    if (!opening || leat_thread_start(&thread, open_driver, opening)) {
        free(opening);
        snprintf(cufile->absent, sizeof cufile->absent, "no thread to open its driver");
        return false;
    }
    pthread_detach(thread);
    uint64_t until_ns = leat_now_ns() + timeout_ns;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_mutex_lock(&opening->lock);
    int late = 0;
    while (!opening->done && !late)
        late = pthread_cond_timedwait(&opening->over, &opening->lock, &until);
    bool done = opening->done;
    struct cufile_status status = opening->status;
    leave_opening(opening);
    if (!done) {
        snprintf(cufile->absent, sizeof cufile->absent,
                 "cuFileDriverOpen has not returned in %.3g s (LEAT_TIMEOUT)",
                 (double)timeout_ns * 1e-9);
        return false;
    }
    if (!status.error)
        close_at_exit(cufile);
    if (!status.error || status.error == CUFILE_ALREADY_OPEN)
        return true;
    char words[LEAT_REASON];
    cufile_words(status.error, words, sizeof words);
    snprintf(cufile->absent, sizeof cufile->absent, "its driver does not open: %s", words);
    return false;
}

// The library reads its lines until there are no more, which is never where it is not there.
static bool modules_listed(const struct leat_job *job, struct cufile *cufile)
{
    const struct file_system_calls *system =
        job->file_system ? job->file_system : &file_system_real;
    int fd = system->open("/proc/modules", O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        system->close(fd);
        return true;
    }
    snprintf(cufile->absent, sizeof cufile->absent,
             "there is no /proc/modules (%s), without which it reads for ever", strerror(errno));
    return false;
}

static void look_at_driver(struct cufile *cufile)
{
    const struct cufile_functions *call = &cufile->call;
    if (!call->cuFileDriverGetProperties ||
        call->cuFileDriverGetProperties(&cufile->properties).error)
        memset(&cufile->properties, 0, sizeof cufile->properties);
    cufile->p2pdma = cufile_switch(cufile, CUFILE_SWITCH_P2PDMA) &&
                     cufile->properties.feature_flags & CUFILE_FEATURE_P2P;
}

struct cufile *cufile_get(struct leat_job *job)
{
    if (job->cufile)
        return job->cufile;
    struct cufile *cufile = calloc(1, sizeof *cufile);
    if (!cufile) {
        leat_fail(-ENOMEM, "no memory for cuFile's functions");
        return NULL;
    }
    job->cufile = cufile;
    if (!load(cufile))
        cufile->version = 0;
    else if (modules_listed(job, cufile) && open_in_time(cufile, job->timeout_ns))
        look_at_driver(cufile);
    return cufile;
}

// ---- Parameters ----

uint64_t cufile_size(const struct cufile *cufile, enum cufile_size parameter)
{
    size_t value = 0;
    if (!cufile->call.cuFileGetParameterSizeT ||
        cufile->call.cuFileGetParameterSizeT((int)parameter, &value).error)
        return 0;
    return value;
}

bool cufile_switch(const struct cufile *cufile, enum cufile_switch parameter)
{
    bool value = false;
    return cufile->call.cuFileGetParameterBool &&
           !cufile->call.cuFileGetParameterBool((int)parameter, &value).error && value;
}
