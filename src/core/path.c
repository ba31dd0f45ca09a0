// SPDX-License-Identifier: Apache-2.0
// Path selection: the first row of the table that may and can, with a reason for every row before.
//
// Advantage: one screen tells why bytes go where they go. Disadvantage: the order is fixed; what a
// user wants otherwise is said with LEAT_PATHS (auto, require:NAME, forbid:NAME[,NAME]).

#include "device/ops.h"
#include "file/internal.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return true;
    }
    return false;
}

bool leat_path_rule(const char *rule, const char *verb, const char *name)
{
    size_t length = strlen(verb);
    return !strncmp(rule, verb, length) && listed(rule + length, name);
}

// Why the user's rule keeps this row out, or NULL.
static const char *ruled_out(const struct leat_job *job, const char *name, enum region_kind kind)
{
    const char *rule = job->config.paths;
    if (leat_path_rule(rule, "forbid:", name))
        return "forbidden by LEAT_PATHS";
    // NVSHMEM moves memory of GPUs, by puts too; beside them the host's goes as it would.
    const bool puts = leat_path_rule(rule, "require:", "nvshmem-put");
    const bool beside = !leat_on_device(kind) && job->device->ops->region_alloc;
    if ((puts && !strcmp(name, "nvshmem")) ||
        (beside && (puts || leat_path_rule(rule, "require:", "nvshmem"))))
        return NULL;
    // Memory of one's own needs no path; requiring another row is about peers, or about files.
    if (!strncmp(rule, "require:", 8) && !leat_path_rule(rule, "require:", name) &&
        strcmp(name, "self") != 0 && !file_paths_required(rule) &&
        !leat_path_rule(rule, "require:", "proxy"))
        return "not what LEAT_PATHS requires";
    return NULL;
}

static int try_row(struct leat_job *job, const struct transport *transport, int peer,
                   enum region_kind kind, leat_path_row *row)
{
    const char *rule = ruled_out(job, transport->name, kind);
    // A device with memory of its own brings its transports along, a test's too.
    const bool with_device = transport->attach && job->device->ops->region_alloc;
    const char *absent = rule || with_device ? NULL : leat_transport_absent(transport);
    snprintf(row->name, sizeof row->name, "%s", transport->name);
    if (rule || absent) {
        snprintf(row->reason, sizeof row->reason, "%s", rule ? rule : absent);
        return -EHOSTUNREACH;
    }
    return transport->can_reach(job, peer, kind, row->reason);
}

static int fail_all(int peer, const leat_path_report *report)
{
    char reasons[LEAT_DETAIL_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < report->row_count && used < sizeof reasons; i++)
        used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", i ? "; " : "",
                                 report->row[i].name, report->row[i].reason);
    return leat_fail(-EHOSTUNREACH, "no path to rank %d (%s)", peer, reasons);
}

static void add_reason(leat_path_row *row, const char *more)
{
    size_t used = strlen(row->reason);
    snprintf(row->reason + used, sizeof row->reason - used, "%s", more);
}

int leat_path_choose(struct leat_job *job, int peer, enum region_kind kind,
                     leat_path_report *report)
{
    leat_path_report local = {.size = sizeof local};
    leat_path_report *full = report ? report : &local;
    int chosen = -1;
    full->row_count = ROW_COUNT;
    for (int row = 0; row < ROW_COUNT; row++) {
        if (chosen >= 0) {
            snprintf(full->row[row].name, sizeof full->row[row].name, "%s",
                     leat_transports[row]->name);
            snprintf(full->row[row].reason, LEAT_REASON, "not needed");
        } else if (!try_row(job, leat_transports[row], peer, kind, &full->row[row])) {
            chosen = row;
            full->row[row].chosen = 1;
            if (peer != job->rank && leat_path_rule(job->config.paths, "require:", "proxy"))
                add_reason(&full->row[row], "; kernels by the proxy thread");
        }
    }
    return chosen >= 0 ? chosen : fail_all(peer, full);
}

int leat_path_query(leat_job *job, int peer, int registered, leat_path_report *report)
{
    int error = leat_need(job, "leat_path_query", "job");
    if (!error)
        error = leat_need(report, "leat_path_query", "report");
    if (error)
        return error;
    if (!report->size)
        return leat_fail(-EINVAL, "leat_path_report.size is 0; set it to sizeof");
    if (peer < 0 || peer >= job->rank_count)
        return leat_fail(-EINVAL, "peer %d of a job of %d ranks", peer, job->rank_count);
    if (registered < REGION_ARENA || registered > REGION_DEVICE_REGISTERED)
        return leat_fail(-EINVAL, "leat_path_query: no kind of memory has the number %d",
                         registered);
    leat_path_report full = {.size = report->size};
    enum region_kind kind = (enum region_kind)registered;
    if (leat_on_device(kind) && !job->device->ops->region_alloc)
        kind = kind == REGION_DEVICE ? REGION_ARENA : REGION_REGISTERED;
    int row = leat_path_choose(job, peer, kind, &full);
    memcpy(report, &full, report->size < sizeof full ? report->size : sizeof full);
    return row < 0 ? row : 0;
}
