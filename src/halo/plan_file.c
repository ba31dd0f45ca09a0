// SPDX-License-Identifier: Apache-2.0
// Plans to and from files; plan_file.h has the format.
//
// Algorithm: sections are made where the plans are and gathered on rank 0, which also follows every
// element through all pulses to note where each ghost comes from. A reader checks the frame (sizes
// that fit exactly, checksums), then the plan as any other. Advantage: nothing is allocated that
// the file does not pay for with its own length. Disadvantage: rank 0 holds all plans while it
// writes.

#define _GNU_SOURCE
#include "halo/plan_file.h"

#include "core/job.h"
#include "halo/halo_internal.h"
#include "halo/letter.h"
#include "halo/plan_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Reading ----

struct table_row {
    uint64_t offset, bytes;
    uint32_t checksum;
};

// What is known of a file before any section is read.
struct frame {
    const char *name;
    uint32_t rank_count;
    uint64_t bytes;
};

static int parse_head(const uint8_t *head, uint64_t bytes, struct frame *frame)
{
    if (!head || bytes < PLAN_HEAD_BYTES)
        return leat_fail(-EPROTO, "%s: %llu bytes; a plan file has at least %d", frame->name,
                         (unsigned long long)bytes, PLAN_HEAD_BYTES);
    if (memcmp(head, PLAN_MAGIC, 8) != 0)
        return leat_fail(-EPROTO, "%s: offset 0: no plan file: it does not begin with \"%s\"",
                         frame->name, PLAN_MAGIC);
    if (get_u32(head + 8) != PLAN_VERSION)
        return leat_fail(-EPROTO, "%s: offset 8: version %u; this library reads version %d",
                         frame->name, get_u32(head + 8), PLAN_VERSION);
    frame->rank_count = get_u32(head + 12);
    frame->bytes = bytes;
    if (get_u64(head + 16) != bytes)
        return leat_fail(-EPROTO, "%s: offset 16: the file says %llu bytes and has %llu",
                         frame->name, (unsigned long long)get_u64(head + 16),
                         (unsigned long long)bytes);
    uint64_t room = (bytes - PLAN_HEAD_BYTES) / (PLAN_ROW_BYTES + PLAN_SECTION_HEAD);
    if (frame->rank_count < 1 || frame->rank_count > room || frame->rank_count > INT32_MAX)
        return leat_fail(-EPROTO, "%s: offset 12: %u ranks in a file with room for 1 to %llu",
                         frame->name, frame->rank_count, (unsigned long long)room);
    return 0;
}

// `data` holds head and table.
static int check_table_sum(const struct frame *frame, const uint8_t *data)
{
    uint32_t sum = leat_crc32(0, data, PLAN_HEAD_BYTES - 4);
    sum = leat_crc32(sum, data + PLAN_HEAD_BYTES, (size_t)frame->rank_count * PLAN_ROW_BYTES);
    if (sum != get_u32(data + PLAN_HEAD_BYTES - 4))
        return leat_fail(-EPROTO, "%s: offset %d: checksum %08x of head and table, expected %08x",
                         frame->name, PLAN_HEAD_BYTES - 4, get_u32(data + PLAN_HEAD_BYTES - 4),
                         sum);
    return 0;
}

// The sections fill the file exactly, in order.
static int read_row(const struct frame *frame, const uint8_t *data, uint32_t rank,
                    struct table_row *row)
{
    uint64_t at = PLAN_HEAD_BYTES + (uint64_t)frame->rank_count * PLAN_ROW_BYTES;
    for (uint32_t r = 0; r <= rank; r++) {
        const uint8_t *entry = data + PLAN_HEAD_BYTES + (size_t)r * PLAN_ROW_BYTES;
        *row = (struct table_row){get_u64(entry), get_u64(entry + 8), get_u32(entry + 16)};
        if (row->offset != at || row->bytes % 8 || row->bytes < PLAN_SECTION_HEAD ||
            row->bytes > frame->bytes - at)
            return leat_fail(-EPROTO,
                             "%s: offset %llu: rank %u lies at %llu with %llu bytes, expected at "
                             "%llu with a multiple of 8 from %d to %llu",
                             frame->name, (unsigned long long)(entry - data), r,
                             (unsigned long long)row->offset, (unsigned long long)row->bytes,
                             (unsigned long long)at, PLAN_SECTION_HEAD,
                             (unsigned long long)(frame->bytes - at));
        at += row->bytes;
    }
    if (rank + 1 == frame->rank_count && at != frame->bytes)
        return leat_fail(-EPROTO, "%s: offset %llu: the last section ends here, the file at %llu",
                         frame->name, (unsigned long long)at, (unsigned long long)frame->bytes);
    return 0;
}

static int parse_section(const struct frame *frame, const struct table_row *row, uint32_t rank,
                         const uint8_t *section, leat_plan **plan, struct origin **origin)
{
    uint32_t sum = leat_crc32(0, section, row->bytes);
    int error = 0;
    if (sum != row->checksum)
        error = leat_fail(-EPROTO, "checksum %08x, expected %08x", sum, row->checksum);
    if (!error)
        error = leat_section_parse(section, row->bytes, rank, frame->rank_count, plan, origin);
    return error ? leat_fail_in(error, "%s: offset %llu: rank %u", frame->name,
                                (unsigned long long)row->offset, rank)
                 : 0;
}

static int alloc_set(struct plan_set *set, int rank_count)
{
    *set = (struct plan_set){.rank_count = rank_count};
    set->plan = calloc((size_t)rank_count, sizeof *set->plan);
    set->origin = calloc((size_t)rank_count, sizeof *set->origin);
    if (set->plan && set->origin)
        return 0;
    leat_plan_set_free(set);
    return leat_fail(-ENOMEM, "no memory for the plans of %d ranks", rank_count);
}

int leat_plan_set_parse(const void *data, size_t bytes, const char *name, struct plan_set *set)
{
    const uint8_t *octets = data;
    struct frame frame = {.name = name};
    int error = parse_head(octets, bytes, &frame);
    if (!error)
        error = check_table_sum(&frame, octets);
    if (!error)
        error = alloc_set(set, (int)frame.rank_count);
    if (error)
        return error;
    for (uint32_t rank = 0; !error && rank < frame.rank_count; rank++) {
        struct table_row row;
        error = read_row(&frame, octets, rank, &row);
        if (!error)
            error = parse_section(&frame, &row, rank, octets + row.offset, &set->plan[rank],
                                  &set->origin[rank]);
    }
    if (error)
        leat_plan_set_free(set);
    return error;
}

// ---- Files ----

static int open_file(const char *path, int *fd, uint64_t *bytes)
{
    struct stat status;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return leat_fail(-errno, "cannot open %s: %s", path, strerror(errno));
    if (fstat(*fd, &status) || !S_ISREG(status.st_mode)) {
        close(*fd);
        return leat_fail(-EINVAL, "%s is no regular file", path);
    }
    *bytes = (uint64_t)status.st_size;
    return 0;
}

static int read_at(int fd, const char *path, uint64_t offset, uint64_t bytes, uint8_t **data)
{
    uint8_t *made = malloc(bytes ? bytes : 1);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for %llu bytes of %s", (unsigned long long)bytes,
                         path);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, made + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int error = got && errno ? -errno : -EIO;
            free(made);
            return leat_fail(error, "%s: offset %llu: %s", path,
                             (unsigned long long)(offset + done),
                             got ? strerror(-error) : "the file has become shorter");
        }
        done += (uint64_t)got;
    }
    *data = made;
    return 0;
}

int leat_plan_set_read(const char *path, struct plan_set *set)
{
    int fd = -1;
    uint64_t bytes = 0;
    uint8_t *data = NULL;
    int error = open_file(path, &fd, &bytes);
    if (error)
        return error;
    error = read_at(fd, path, 0, bytes, &data);
    if (!error)
        error = leat_plan_set_parse(data, bytes, path, set);
    free(data);
    close(fd);
    return error;
}

static int read_table(int fd, struct frame *frame, uint64_t bytes, uint8_t **table)
{
    uint8_t *head = NULL;
    uint64_t head_bytes = bytes < PLAN_HEAD_BYTES ? bytes : PLAN_HEAD_BYTES;
    int error = read_at(fd, frame->name, 0, head_bytes, &head);
    if (!error)
        error = parse_head(head, bytes, frame);
    if (!error)
        error = read_at(fd, frame->name, 0,
                        PLAN_HEAD_BYTES + (uint64_t)frame->rank_count * PLAN_ROW_BYTES, table);
    free(head);
    return error ? error : check_table_sum(frame, *table);
}

int leat_plan_read(const char *path, int rank, leat_plan **plan)
{
    int fd = -1;
    uint64_t bytes = 0;
    uint8_t *table = NULL, *section = NULL;
    struct frame frame = {.name = path};
    struct table_row row = {0};
    struct origin *origin = NULL;
    leat_plan *made = NULL;
    int error = open_file(path, &fd, &bytes);
    if (error)
        return error;
    error = read_table(fd, &frame, bytes, &table);
    if (!error && (rank < 0 || (uint32_t)rank >= frame.rank_count))
        error = leat_fail(-EINVAL, "%s has plans of %u ranks; %d was asked", path, frame.rank_count,
                          rank);
    if (!error)
        error = read_row(&frame, table, (uint32_t)rank, &row);
    if (!error)
        error = read_at(fd, path, row.offset, row.bytes, &section);
    if (!error)
        error = parse_section(&frame, &row, (uint32_t)rank, section, &made, &origin);
    close(fd);
    free(table);
    free(section);
    free(origin);
    if (!error)
        *plan = made;
    return error;
}

// ---- Writing ----

static int write_all(int fd, const uint8_t *data, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t put = write(fd, data + done, bytes - done);
        if (put < 0 && errno != EINTR)
            return -errno;
        done += put < 0 ? 0 : (uint64_t)put;
    }
    // A pipe or a device has nothing to sync.
    return fsync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EROFS ? -errno : 0;
}

static int fail_write(int error, const char *path)
{
    return leat_fail(error, "cannot write %s: %s", path, strerror(-error));
}

// For pipes, devices and links to nowhere, which are not this library's to replace.
static int write_in_place(const char *path, const uint8_t *data, uint64_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    int error = fd < 0 ? -errno : write_all(fd, data, bytes);
    if (fd >= 0 && close(fd) && !error)
        error = -errno;
    return error ? fail_write(error, path) : 0;
}

// Beside the file and then in its place, so that a reader finds the old one or the new one.
static int replace_file(const char *path, const uint8_t *data, uint64_t bytes)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return leat_fail(-ENOMEM, "no memory for a file name");
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = fd < 0 ? -errno : write_all(fd, data, bytes);
    if (fd >= 0 && close(fd) && !error)
        error = -errno;
    if (!error && rename(beside, path))
        error = -errno;
    if (error) {
        if (fd >= 0)
            unlink(beside);
        fail_write(error, path);
    }
    free(beside);
    return error;
}

static int write_file(const char *path, const uint8_t *data, uint64_t bytes)
{
    struct stat link, status;
    if (lstat(path, &link))
        return replace_file(path, data, bytes);
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return write_in_place(path, data, bytes);
    if (!S_ISLNK(link.st_mode))
        return replace_file(path, data, bytes);
    char *target = realpath(path, NULL);
    if (!target)
        return fail_write(-errno, path);
    int error = replace_file(target, data, bytes);
    free(target);
    return error;
}

int leat_plan_set_write(const struct plan_set *set, const char *path)
{
    uint64_t at = PLAN_HEAD_BYTES + (uint64_t)set->rank_count * PLAN_ROW_BYTES, bytes = at;
    for (int rank = 0; rank < set->rank_count; rank++)
        bytes += leat_section_bytes(set->plan[rank]);
    uint8_t *data = calloc(1, bytes);
    if (!data)
        return leat_fail(-ENOMEM, "no memory for a plan file of %llu bytes",
                         (unsigned long long)bytes);
    memcpy(data, PLAN_MAGIC, 8);
    put_u32(data + 8, PLAN_VERSION);
    put_u32(data + 12, (uint32_t)set->rank_count);
    put_u64(data + 16, bytes);
    for (int rank = 0; rank < set->rank_count; rank++) {
        uint8_t *row = data + PLAN_HEAD_BYTES + (size_t)rank * PLAN_ROW_BYTES;
        uint64_t section = leat_section_bytes(set->plan[rank]);
        leat_section_fill(set->plan[rank], set->origin[rank], data + at);
        put_u64(row, at);
        put_u64(row + 8, section);
        put_u32(row + 16, leat_crc32(0, data + at, section));
        at += section;
    }
    uint32_t sum = leat_crc32(0, data, PLAN_HEAD_BYTES - 4);
    put_u32(data + PLAN_HEAD_BYTES - 4,
            leat_crc32(sum, data + PLAN_HEAD_BYTES, (size_t)set->rank_count * PLAN_ROW_BYTES));
    int error = write_file(path, data, bytes);
    free(data);
    return error;
}

void leat_plan_set_free(struct plan_set *set)
{
    for (int rank = 0; rank < set->rank_count; rank++) {
        if (set->plan)
            leat_plan_free(set->plan[rank]);
        if (set->origin)
            free(set->origin[rank]);
    }
    free(set->plan);
    free(set->origin);
    *set = (struct plan_set){0};
}

// One letter from each rank to rank 0. An empty one says that its sender failed.
static int gather(leat_job *job, const uint8_t *section, uint64_t bytes, struct plan_set *set)
{
    const void *letter;
    uint64_t letter_bytes;
    if (job->rank)
        return leat_letter_swap(job, 0, section, bytes, 0, &letter, &letter_bytes);
    int verdict = 0;
    uint32_t ranks = (uint32_t)job->rank_count;
    for (int from = 0; from < job->rank_count; from++) {
        int error = 0;
        letter = section;
        letter_bytes = bytes;
        if (from)
            error = leat_letter_swap(job, from, NULL, 0, from, &letter, &letter_bytes);
        if (leat_letter_is_lost(error))
            return error;
        if (!error && letter_bytes && set->plan && !verdict)
            error = leat_section_parse(letter, letter_bytes, (uint32_t)from, ranks,
                                       &set->plan[from], &set->origin[from]);
        verdict = verdict ? verdict : error; // the others still have letters to be rid of
    }
    return verdict;
}

static int check_plan(const leat_job *job, const leat_plan *plan, const char *path)
{
    if (!plan || !path)
        return leat_fail(-EINVAL, "leat_plan_write: %s is NULL", plan ? "path" : "plan");
    if (plan->rank != job->rank || plan->rank_count != job->rank_count)
        return leat_fail(-EINVAL, "the plan is of rank %d of %d, the job of rank %d of %d",
                         plan->rank, plan->rank_count, job->rank, job->rank_count);
    return leat_plan_check(plan);
}

int leat_plan_write(leat_job *job, const leat_plan *plan, const char *path)
{
    struct plan_set set = {0};
    uint8_t *section = NULL;
    uint64_t bytes = 0;
    int error = check_plan(job, plan, path);
    if (!error && !(section = calloc(1, leat_section_bytes(plan))))
        error = leat_fail(-ENOMEM, "no memory for a plan of %u elements", plan->element_count);
    if (!error && job->rank == 0)
        error = alloc_set(&set, job->rank_count);
    if (!error)
        error = leat_letters_open(job);
    // Nobody sends letters to ranks that have given up.
    error = leat_agree(job, error);
    if (!error) {
        bytes = leat_section_bytes(plan);
        leat_section_fill(plan, NULL, section);
        error = gather(job, section, bytes, &set);
        if (!error && job->rank == 0) {
            leat_plan_set_trace(&set);
            error = leat_plan_set_write(&set, path);
        }
        error = leat_agree(job, error);
    }
    free(section);
    leat_plan_set_free(&set);
    return error;
}
