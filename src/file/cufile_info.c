// SPDX-License-Identifier: Apache-2.0
// cuFile's settings and counts, and how it cuts a request.
//
// Algorithm: what the library tells, asked when somebody wants to know. Its counters of level 3 are
// switched on by the first who asks. Advantage: calls pay nothing for them before. Disadvantage:
// they count from then on.

#include "file/cufile.h"

#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB UINT64_C(1024)

_Static_assert(sizeof(struct cufile_status) == 8, "as the library returns it");
_Static_assert(sizeof(struct cufile_properties) == 56, "as the library fills it in");
_Static_assert(offsetof(struct cufile_properties, feature_flags) == 32, "as the library has it");
_Static_assert(sizeof(struct cufile_description) == 24, "as the library reads it");
_Static_assert(sizeof(struct cufile_gpu_counts) == 248, "as the library fills it in");

// ---- Requests ----

void file_cufile_cut(struct leat_job *job, uint64_t task_bytes, leat_file_cut *cut)
{
    pthread_mutex_lock(&job->file_lock);
    const struct cufile *cufile = cufile_get(job);
    uint64_t parts = 0;
    if (cufile && !cufile->absent[0] && task_bytes) {
        uint64_t least = cufile_size(cufile, CUFILE_SIZE_MIN_IO_KIB) * KIB;
        uint64_t most = cufile_size(cufile, CUFILE_SIZE_PARALLELISM);
        bool parallel = cufile_switch(cufile, CUFILE_SWITCH_PARALLEL_IO) &&
                        cufile_size(cufile, CUFILE_SIZE_IO_THREADS) > 0;
        parts = parallel && least ? task_bytes / least : 1;
        parts = parts > most ? most : parts;
        parts = parts ? parts : 1;
    }
    pthread_mutex_unlock(&job->file_lock);
    cut->requests_per_task = parts;
    cut->request_bytes =
        parts > 1 ? ((task_bytes + parts - 1) / parts + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES
        : parts   ? task_bytes
                  : 0;
}

// ---- Counts ----

/* Operations and bytes of one way. */
struct way {
    uint64_t operations, bytes;
    bool unknown; /* its bytes: some GPU went more than one way */
};

static void add_gpu(struct way way[3], const uint64_t operations[3], uint64_t bytes)
{
    int used = 0;
    for (int i = 0; i < 3; i++)
        used += operations[i] > 0;
    for (int i = 0; i < 3; i++) {
        way[i].operations += operations[i];
        if (operations[i] && used == 1)
            way[i].bytes += bytes;
        else if (operations[i])
            way[i].unknown = true;
    }
}

static bool count_on(struct cufile *cufile)
{
    const struct cufile_functions *call = &cufile->call;
    if (cufile->counting)
        return true;
    if (!call->cuFileSetStatsLevel || !call->cuFileStatsStart || !call->cuFileGetStatsL3)
        return false;
    cufile->counting = !call->cuFileSetStatsLevel(3).error && !call->cuFileStatsStart().error;
    return cufile->counting;
}

static bool read_counts(struct cufile *cufile, struct way way[3])
{
    unsigned char *counts = calloc(1, CUFILE_COUNTS_BYTES);
    bool read = counts && count_on(cufile) && !cufile->call.cuFileGetStatsL3(counts).error;
    size_t at = cufile->call.cuFileReadv ? CUFILE_GPUS_AT : CUFILE_GPUS_AT_NO_READV;
    uint32_t gpus = 0;
    if (read)
        memcpy(&gpus, counts + at, sizeof gpus);
    for (uint32_t i = 0; i < gpus && i < CUFILE_GPUS; i++) {
        struct cufile_gpu_counts gpu;
        memcpy(&gpu, counts + at + 8 + i * sizeof gpu, sizeof gpu);
        const uint64_t reads[3] = {gpu.nvfs_reads, gpu.p2p_reads, gpu.posix_reads};
        const uint64_t writes[3] = {gpu.nvfs_writes, gpu.p2p_writes, gpu.posix_writes};
        add_gpu(way, reads, gpu.read_bytes);
        add_gpu(way, writes, gpu.write_bytes);
    }
    free(counts);
    return read && gpus <= CUFILE_GPUS;
}

static void fill_counts(struct cufile *cufile, leat_cufile_info *info)
{
    struct way way[3] = {{0}};
    uint64_t *operations[3] = {&info->nvfs_operations, &info->p2p_operations,
                               &info->posix_operations};
    uint64_t *bytes[3] = {&info->nvfs_bytes, &info->p2p_bytes, &info->posix_bytes};
    bool known = read_counts(cufile, way);
    for (int i = 0; i < 3; i++) {
        *operations[i] = known ? way[i].operations : LEAT_FILE_UNKNOWN;
        *bytes[i] = known && !way[i].unknown ? way[i].bytes : LEAT_FILE_UNKNOWN;
    }
}

// ---- Settings ----

static void find_settings_file(char file[128])
{
    const char *named = getenv("CUFILE_ENV_PATH_JSON");
    const char *path = named && *named ? named : "/etc/cufile.json";
    file[0] = '\0';
    if (!access(path, R_OK))
        snprintf(file, 128, "%s", path);
}

static void fill_settings(const struct cufile *cufile, int gpu, leat_cufile_info *info)
{
    const struct cufile_properties *properties = &cufile->properties;
    size_t bar_kib = 0;
    info->direct_io_bytes = cufile_size(cufile, CUFILE_SIZE_MAX_DIRECT_IO_KIB) * KIB;
    if (!info->direct_io_bytes)
        info->direct_io_bytes = properties->nvfs.max_direct_io * KIB;
    info->min_io_bytes = cufile_size(cufile, CUFILE_SIZE_MIN_IO_KIB) * KIB;
    info->pinned_bytes = properties->max_device_pinned * KIB;
    info->cache_bytes = properties->max_device_cache * KIB;
    if (cufile->call.cuFileGetBARSizeInKB && gpu >= 0 &&
        !cufile->call.cuFileGetBARSizeInKB(gpu, &bar_kib).error)
        info->bar_bytes = bar_kib * KIB;
    info->io_threads = (int)cufile_size(cufile, CUFILE_SIZE_IO_THREADS);
    info->request_parallelism = (int)cufile_size(cufile, CUFILE_SIZE_PARALLELISM);
    info->queue_depth = (int)cufile_size(cufile, CUFILE_SIZE_QUEUE_DEPTH);
    info->batch_entries = (int)properties->max_batch_entries;
    info->parallel_io = cufile_switch(cufile, CUFILE_SWITCH_PARALLEL_IO);
    info->compat_allowed = cufile_switch(cufile, CUFILE_SWITCH_ALLOW_COMPAT);
    info->compat_forced = cufile_switch(cufile, CUFILE_SWITCH_FORCE_COMPAT);
    info->p2pdma = cufile->p2pdma;
    info->nvfs = properties->nvfs.major > 0;
}

static int fill(struct leat_job *job, leat_cufile_info *info)
{
    leat_device_info device = {.size = sizeof device, .number = -1};
    int error = leat_device_info_get(job, &device);
    if (error)
        return error;
    struct cufile *cufile = cufile_get(job);
    if (!cufile)
        return -ENOMEM;
    info->version = cufile->version;
    memcpy(info->absent, cufile->absent, sizeof info->absent);
    memcpy(info->library, cufile->library, sizeof info->library);
    find_settings_file(info->settings_file);
    if (cufile->absent[0])
        return 0;
    fill_settings(cufile, device.number, info);
    fill_counts(cufile, info);
    return 0;
}

int leat_cufile_info_get(leat_job *job, leat_cufile_info *info)
{
    struct file_pool *pool;
    int error = leat_need(job, "leat_cufile_info_get", "job");
    if (!error)
        error = leat_need(info, "leat_cufile_info_get", "info");
    if (!error && !info->size)
        error = leat_fail(-EINVAL, "leat_cufile_info.size is 0; set it to sizeof");
    if (!error)
        error = file_pool_get(job, &pool); // with which the library is forgotten
    if (error)
        return error;
    leat_cufile_info full = {.size = info->size,
                             .nvfs_operations = LEAT_FILE_UNKNOWN,
                             .p2p_operations = LEAT_FILE_UNKNOWN,
                             .posix_operations = LEAT_FILE_UNKNOWN,
                             .nvfs_bytes = LEAT_FILE_UNKNOWN,
                             .p2p_bytes = LEAT_FILE_UNKNOWN,
                             .posix_bytes = LEAT_FILE_UNKNOWN};
    pthread_mutex_lock(&job->file_lock);
    error = fill(job, &full);
    pthread_mutex_unlock(&job->file_lock);
    if (!error)
        memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return error;
}
