// SPDX-License-Identifier: Apache-2.0
// What a file is: its file system, its alignment for direct I/O, its pages in memory.
//
// Algorithm: statx tells the alignment (Linux 6.1), statfs the file system, cachestat (6.5) or
// mincore the pages. Advantage: nothing is tried out on the caller's data. Disadvantage: where the
// kernel tells no alignment, `auto` does not go past the page cache.

#define _GNU_SOURCE
#include "device/ops.h"
#include "file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

struct system_name {
    uint64_t type;
    const char *name;
    bool local; /* a call comes back by itself: no server, no other process behind it */
};

static const struct system_name system_names[] = {
    {0xef53, "ext4", true},       {0x58465342, "xfs", true},   {0x9123683e, "btrfs", true},
    {TMPFS_MAGIC, "tmpfs", true}, {0x858458f6, "ramfs", true}, {0x794c7630, "overlay", true},
    {0xf2f52010, "f2fs", true},   {0x2fc12fc1, "zfs", true},   {0x958458f6, "hugetlbfs", true},
    {0x9fa0, "proc", true},       {0x62656572, "sysfs", true}, {0x73717368, "squashfs", true},
    {0x65735546, "fuse", false},  {0x6969, "nfs", false},      {0xff534d42, "cifs", false},
    {0xfe534d42, "smb2", false},  {0x01021997, "9p", false},   {0x0bd00bd0, "lustre", false},
    {0x47504653, "gpfs", false},  {0x00c36400, "ceph", false}, {0x19830326, "beegfs", false},
    {0x4d44, "vfat", true},       {0x2011bab0, "exfat", true},
};

static void look_at_system(struct leat_file *file)
{
    struct statfs status;
    snprintf(file->file_system_name, sizeof file->file_system_name, "unknown");
    if (fstatfs(file->fd, &status))
        return;
    file->file_system = (uint64_t)(uint32_t)status.f_type;
    snprintf(file->file_system_name, sizeof file->file_system_name, "%#llx",
             (unsigned long long)file->file_system);
    for (size_t i = 0; i < sizeof system_names / sizeof *system_names; i++)
        if (system_names[i].type == file->file_system) {
            snprintf(file->file_system_name, sizeof file->file_system_name, "%s",
                     system_names[i].name);
            file->here = system_names[i].local;
        }
}

void file_look(struct leat_file *file)
{
    look_at_system(file);
#ifdef STATX_DIOALIGN
    struct statx status;
    if (!statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) &&
        (status.stx_mask & STATX_DIOALIGN)) {
        file->memory_alignment = status.stx_dio_mem_align;
        file->offset_alignment = status.stx_dio_offset_align;
    }
#endif
    file->alignment_told = file->offset_alignment;
    // Who insists gets a try: what the file system refuses goes the other way.
    if (!file->alignment_told && (file->direct == DIRECT_ON || file->require == FILE_ODIRECT))
        file->memory_alignment = file->offset_alignment = PAGE_BYTES;
}

int file_open_direct(struct leat_file *file, char reason[LEAT_REASON])
{
    pthread_mutex_lock(&file->lock);
    int fd = file->direct_fd;
    if (fd < 0) {
        char name[64];
        int both = LEAT_FILE_READ | LEAT_FILE_WRITE;
        int mode = (file->flags & both) == both           ? O_RDWR
                   : (file->flags & LEAT_FILE_WRITE) != 0 ? O_WRONLY
                                                          : O_RDONLY;
        snprintf(name, sizeof name, "/proc/self/fd/%d", file->fd);
        do
            fd = file->system->open(name, mode | O_CLOEXEC | O_DIRECT, 0);
        while (fd < 0 && errno == EINTR);
        if (fd < 0) {
            fd = -errno;
            snprintf(reason, LEAT_REASON, "opening past the page cache: %s", strerror(errno));
        } else {
            file->direct_fd = fd;
        }
    }
    pthread_mutex_unlock(&file->lock);
    return fd;
}

// ---- Pages in memory ----

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

struct cache_range {
    uint64_t offset, bytes;
};

struct cache_counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static int count_mapped(const struct leat_file *file, uint64_t offset, uint64_t bytes,
                        uint64_t *cached)
{
    uint64_t first = offset / PAGE_BYTES * PAGE_BYTES;
    uint64_t span = (offset + bytes - first + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uint64_t pages = 0;
    unsigned char seen[4096];
    for (uint64_t at = 0; at < span; at += sizeof seen * PAGE_BYTES) {
        uint64_t part = span - at < sizeof seen * PAGE_BYTES ? span - at : sizeof seen * PAGE_BYTES;
        void *map =
            file->system->mmap(NULL, part, PROT_READ, MAP_SHARED, file->fd, (off_t)(first + at));
        if (map == MAP_FAILED)
            return -ENOTSUP;
        int error = mincore(map, part, seen);
        file->system->munmap(map, part);
        if (error)
            return -ENOTSUP;
        for (uint64_t i = 0; i < part / PAGE_BYTES; i++)
            pages += seen[i] & 1;
    }
    *cached = pages;
    return 0;
}

int file_cached(struct leat_file *file, uint64_t offset, uint64_t bytes, uint64_t *cached)
{
    struct stat status;
    if (file->system->fstat(file->fd, &status))
        return -errno;
    uint64_t size = (uint64_t)status.st_size;
    uint64_t rest = offset < size ? size - offset : 0;
    bytes = bytes && bytes < rest ? bytes : rest;
    *cached = 0;
    if (!bytes)
        return 0;
    struct cache_range range = {offset, bytes};
    struct cache_counts counts = {0};
    uint64_t pages = 0;
    if (!syscall(SYS_cachestat, file->fd, &range, &counts, 0))
        pages = counts.cached;
    else if (count_mapped(file, offset, bytes, &pages))
        return -ENOTSUP;
    pages *= PAGE_BYTES;
    *cached = pages < bytes ? pages : bytes; // the last page may be longer than the file
    return 0;
}

int leat_file_cached(leat_file *file, uint64_t file_offset, uint64_t bytes, uint64_t *cached)
{
    int error = leat_need(file, "leat_file_cached", "file");
    if (!error)
        error = leat_need(cached, "leat_file_cached", "cached");
    if (!error)
        error = file_enter(file);
    if (error)
        return error;
    uint64_t found = 0;
    error = file_cached(file, file_offset, bytes, &found);
    if (error)
        leat_fail(error, "%s: the system does not tell which of its pages are in memory",
                  file->path);
    else
        *cached = found;
    file_leave(file);
    return error;
}

int leat_file_drop(leat_file *file, uint64_t file_offset, uint64_t bytes)
{
    int error = leat_need(file, "leat_file_drop", "file");
    if (!error && (file_offset > INT64_MAX || bytes > INT64_MAX - file_offset))
        error = leat_fail(-EINVAL, "%s: the range passes 2^63", file->path);
    if (!error)
        error = file_enter(file);
    if (error)
        return error;
    error = file_write_out(file);
    int result =
        error ? 0 : posix_fadvise(file->fd, (off_t)file_offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    if (result)
        error =
            leat_fail(-result, "%s: its pages cannot be dropped: %s", file->path, strerror(result));
    file_leave(file);
    return error;
}

// ---- Everything at once ----

// All ranges of the question together, to or from the first one's memory.
static int ask_for(struct leat_file *file, const leat_file_call *question, struct file_need *need,
                   struct file_memory *memory)
{
    const leat_file_range *range = question->ranges;
    need->operation = question->operation;
    if (!question->range_count)
        return 0;
    int error = 0;
    uint64_t end = 0;
    need->offset = UINT64_MAX;
    need->bytes = 0;
    for (size_t i = question->range_count; i-- > 0 && !error;) {
        error = file_memory_find(file->job, &range[i].buffer, range[i].bytes, memory);
        need->bytes += range[i].bytes;
        need->offset = range[i].file_offset < need->offset ? range[i].file_offset : need->offset;
        uint64_t last = range[i].file_offset + range[i].bytes;
        end = last > end ? last : end;
    }
    need->extent = end - need->offset;
    return error;
}

static int answer(struct leat_file *file, const leat_file_call *question, leat_file_info *info)
{
    struct file_memory memory = {.kind = COPIES_HOST, .gpu = -1};
    struct file_need need = {.operation = LEAT_FILE_OP_READ,
                             .memory = &memory,
                             .bytes = info->bytes,
                             .extent = info->bytes};
    leat_device_info device = {.size = sizeof device};
    int error = leat_device_info_get(file->job, &device);
    if (!error && device.number >= 0)
        memory = (struct file_memory){.kind = COPIES_DEVICE, .gpu = device.number};
    leat_file_call full = {0};
    if (!error && question)
        error = file_question_take(file, question, &full);
    if (!error && question)
        error = ask_for(file, &full, &need, &memory);
    if (error)
        return error;
    int row = file_choose(file, &need, info);
    return row < 0 ? row : 0;
}

int leat_file_info_get(leat_file *file, const leat_file_call *question, leat_file_info *info)
{
    int error = leat_need(file, "leat_file_info_get", "file");
    if (!error)
        error = leat_need(info, "leat_file_info_get", "info");
    if (!error && !info->size)
        error = leat_fail(-EINVAL, "leat_file_info.size is 0; set it to sizeof");
    if (!error)
        error = file_enter(file);
    if (error)
        return error;
    leat_file_info full = {
        .size = info->size,
        .direct_memory_alignment = file->alignment_told ? file->memory_alignment : 0,
        .direct_offset_alignment = file->alignment_told ? file->offset_alignment : 0,
        .cached_bytes = LEAT_FILE_UNKNOWN};
    struct stat status;
    if (file->system->fstat(file->fd, &status))
        error = leat_fail(-errno, "%s: cannot tell its size: %s", file->path, strerror(errno));
    else
        full.bytes = (uint64_t)status.st_size;
    memcpy(full.file_system, file->file_system_name, sizeof full.file_system);
    uint64_t cached = 0;
    if (!error && !file_cached(file, 0, 0, &cached))
        full.cached_bytes = cached;
    if (!error)
        error = answer(file, question, &full);
    // That no path is left is an answer: each row has its reason.
    if (error == -ENOTSUP && full.path[0].name[0])
        error = 0;
    for (int row = 0; row < FILE_ROWS; row++) {
        full.path[row].bytes = __atomic_load_n(&file->bytes[row], __ATOMIC_RELAXED);
        full.path[row].operations = __atomic_load_n(&file->operations[row], __ATOMIC_RELAXED);
    }
    if (!error)
        memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    file_leave(file);
    return error;
}
