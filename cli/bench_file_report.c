// SPDX-License-Identifier: Apache-2.0
// What `leat bench file` reads, and how it reports a point; see bench_file.h.

#define _GNU_SOURCE
#include "bench_file.h"

#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)4 << 20)

int file_bench_make(const char *directory, uint64_t bytes, char path[1024])
{
    snprintf(path, 1024, "%s/leat-bench-XXXXXX", directory);
    int fd = mkostemp(path, O_CLOEXEC);
    uint64_t *piece = malloc(PIECE);
    int reason = fd < 0 ? errno : !piece ? ENOMEM : 0;
    for (uint64_t at = 0; !reason && at < bytes;) {
        uint64_t length = bytes - at < PIECE ? bytes - at : PIECE;
        for (size_t i = 0; i < PIECE / 8; i++)
            piece[i] = at + 8 * i;
        ssize_t put = pwrite(fd, piece, length, (off_t)at);
        if (put > 0)
            at += (uint64_t)put / 8 * 8;
        reason = put < 8 ? (put < 0 ? errno : ENOSPC) : 0;
    }
    if (!reason && fsync(fd))
        reason = errno;
    free(piece);
    if (fd >= 0)
        close(fd);
    if (!reason)
        return 0;
    if (fd >= 0)
        unlink(path);
    path[0] = 0;
    return leat_fail(-reason,
                     "cannot make a file of %" PRIu64 " bytes in %s: %s; --file-bytes and "
                     "--sizes ask for less",
                     bytes, directory, strerror(reason));
}

double file_best_other(const struct file_side *sides, int count)
{
    double best = 0;
    for (int i = 0; i < count; i++) {
        const struct file_side *side = &sides[i];
        if (side->is_leat || !side->ns.count || side->why[0])
            continue;
        double ns = bench_median(&side->ns);
        best = best <= 0 || ns < best ? ns : best;
    }
    return best;
}

json_t *file_side_json(const struct file_side *side, const struct file_point *point,
                       const char *state, double best)
{
    char name[160];
    double bytes = (double)point->bytes * (point->ranges ? (double)point->depth : 1);
    snprintf(name, sizeof name, "file/%s/%s:%" PRIu64 "/%s:%" PRIu64 "/%s", state,
             point->ranges ? "range_bytes" : "bs", point->bytes,
             point->ranges ? "ranges" : "iodepth", point->depth, side->name);
    if (side->gone || side->why[0] || !side->ns.count)
        return json_pack("{s:s, s:b, s:s}", "name", name, "error_occurred", 1, "error_message",
                         side->why);
    double ns = bench_median(&side->ns);
    json_t *entry = json_pack("{s:s, s:s, s:I, s:f, s:s, s:f, s:f}", "name", name, "run_type",
                              "aggregate", "iterations", (json_int_t)side->ns.count, "real_time",
                              ns, "time_unit", "ns", "bw_bytes", bytes / ns * 1e9, "iops",
                              (point->ranges ? (double)point->depth : 1) / ns * 1e9);
    json_object_update_new(entry, json_pack("{s:f, s:f, s:I, s:I}", "bw_bytes_min",
                                            bytes / side->ns.value[side->ns.count - 1] * 1e9,
                                            "bw_bytes_max", bytes / side->ns.value[0] * 1e9, "bs",
                                            (json_int_t)point->bytes, "iodepth",
                                            (json_int_t)point->depth));
    if (side->is_leat && best > 0)
        json_object_set_new(entry, "ratio_to_best_other", json_real(best / ns));
    return entry;
}

void file_side_print(const struct file_side *side, const struct file_point *point, double best)
{
    double bytes = (double)point->bytes * (point->ranges ? (double)point->depth : 1);
    if (side->gone)
        return;
    if (side->why[0] || !side->ns.count) {
        printf("    %-10s not measured: %s\n", side->name, side->why);
        return;
    }
    double ns = bench_median(&side->ns);
    printf("    %-10s %7.2f (%.2f-%.2f) GB/s %12.1f us", side->name, bytes / ns,
           bytes / side->ns.value[side->ns.count - 1], bytes / side->ns.value[0], ns * 1e-3);
    if (side->is_leat && best > 0)
        printf("   %.2f of the best other", best / ns);
    putchar('\n');
}
