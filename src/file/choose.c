// SPDX-License-Identifier: Apache-2.0
// Choice of path: the first row that may and can, with a reason for every row.
//
// Algorithm: rules first (LEAT_PATHS, `require`, `compat`, `direct`, what this file has turned out
// not to allow), then the row's own look at the file and the memory. Advantage: one place says why
// bytes go where they go. Disadvantage: the order is fixed, so what is faster on one machine has to
// be said by settings.

#include "file/internal.h"

#include "core/log.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct file_path *const file_paths[FILE_ROWS] = {
    [FILE_CUFILE] = &file_path_cufile,
    [FILE_MAPPED] = &file_path_mapped,
    [FILE_ODIRECT] = &file_path_odirect,
    [FILE_BUFFERED] = &file_path_buffered,
};

bool file_paths_required(const char *rule)
{
    for (int row = 0; row < FILE_ROWS; row++)
        if (leat_path_rule(rule, "require:", file_paths[row]->name))
            return true;
    return false;
}

// Why a rule keeps the row out, or NULL.
static const char *ruled_out(const struct leat_file *file, const struct file_need *need,
                             enum file_row row)
{
    const char *rule = file->job->config.paths, *name = file_paths[row]->name;
    if (leat_path_rule(rule, "forbid:", name))
        return "forbidden by LEAT_PATHS";
    if (file_paths_required(rule) && !leat_path_rule(rule, "require:", name))
        return "not what LEAT_PATHS requires";
    if (file->require >= 0 && (int)row != file->require)
        return "not what the file's `require` names";
    if (row == FILE_CUFILE && file->compat == COMPAT_ON)
        return "compat (LEAT_COMPAT) is on";
    if (row != FILE_CUFILE && file->compat == COMPAT_OFF)
        return "compat (LEAT_COMPAT) is off: cuFile or nothing";
    if (row == FILE_CUFILE && file->compat == COMPAT_AUTO && need->bytes < file->cufile_min_bytes)
        return "shorter than LEAT_CUFILE_MIN";
    if (row <= FILE_MAPPED && need->spans)
        return "many small ranges: read as merged spans";
    if (row == FILE_ODIRECT && file->direct == DIRECT_OFF)
        return "direct (LEAT_FILE_DIRECT) is off";
    if (row == FILE_MAPPED && file->direct == DIRECT_ON)
        return "direct (LEAT_FILE_DIRECT) is on: not from the page cache";
    return NULL;
}

static int try_row(struct leat_file *file, const struct file_need *need, enum file_row row,
                   char reason[LEAT_REASON])
{
    const char *rule = ruled_out(file, need, row);
    if (rule) {
        snprintf(reason, LEAT_REASON, "%s", rule);
        return -ENOTSUP;
    }
    pthread_mutex_lock(&file->lock);
    bool forbidden = file->forbidden[row];
    if (forbidden)
        memcpy(reason, file->why[row], LEAT_REASON);
    pthread_mutex_unlock(&file->lock);
    return forbidden ? -ENOTSUP : file_paths[row]->can(file, need, reason);
}

static int fail_all(const struct leat_file *file, const struct file_need *need,
                    char reason[FILE_ROWS][LEAT_REASON])
{
    char reasons[LEAT_DETAIL_BYTES] = "";
    size_t used = 0;
    for (int row = 0; row < FILE_ROWS && used < sizeof reasons; row++)
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", row ? "; " : "",
                                 file_paths[row]->name, reason[row]);
    return leat_fail(-ENOTSUP, "%s: no path for a %s of %llu bytes (%s)", file->path,
                     need->operation == LEAT_FILE_OP_READ ? "read" : "write",
                     (unsigned long long)need->bytes, reasons);
}

int file_choose(struct leat_file *file, const struct file_need *need, leat_file_info *info)
{
    char reason[FILE_ROWS][LEAT_REASON];
    int chosen = -1;
    for (int row = 0; row < FILE_ROWS; row++) {
        reason[row][0] = '\0';
        if (chosen >= 0)
            snprintf(reason[row], LEAT_REASON, "not needed");
        else if (!try_row(file, need, (enum file_row)row, reason[row]))
            chosen = row;
        if (chosen >= 0 && !info)
            return chosen;
    }
    for (int row = 0; info && row < FILE_ROWS; row++) {
        leat_file_path *path = &info->path[row];
        snprintf(path->name, sizeof path->name, "%s", file_paths[row]->name);
        memcpy(path->reason, reason[row], LEAT_REASON);
        path->chosen = row == chosen;
    }
    return chosen >= 0 ? chosen : fail_all(file, need, reason);
}

void file_path_forbid(struct leat_file *file, enum file_row row, const char *format, ...)
{
    char why[LEAT_REASON];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&file->lock);
    bool first = !file->forbidden[row];
    if (first) {
        file->forbidden[row] = true;
        memcpy(file->why[row], why, sizeof why);
    }
    pthread_mutex_unlock(&file->lock);
    if (first)
        leat_log(file->job->config.log_level, LOG_INFO, file->job->rank,
                 "%s: not by the path %s: %s", file->path, file_paths[row]->name, why);
}
