// SPDX-License-Identifier: Apache-2.0
// Calls in the order of the rank's stream.
//
// Algorithm: the device says when its stream has come to the call, which is queued then, and holds
// the stream until the call's last task is over, whatever came of it. Advantage: no thread of ours
// waits for the stream. Disadvantage: the stream stands while files are read; what does not depend
// on them belongs into another one.

#include "file/internal.h"

#include "device/ops.h"

#include <errno.h>

// Where the stream has failed, nothing before the call can be relied on, so none of it counts.
static void begin(void *user, int error)
{
    struct leat_file_request *request = user;
    for (size_t i = 0; error && i < request->call.range_count; i++)
        file_request_stop(request, i, request->call.ranges[i].file_offset, error);
    file_request_submit(request);
}

int file_stream_start(struct leat_file_request *request)
{
    struct leat_job *job = request->file->job;
    const struct copies_ops *copies = file_copies(job);
    if (!copies->hold) {
        file_request_submit(request);
        while (!file_request_over(request, UINT64_MAX))
            continue;
        return 0;
    }
    struct copies_hold **hold = (struct copies_hold **)&request->stream;
    request->in_stream = true;
    int error = copies->hold(job->device, begin, request, hold);
    if (error)
        request->in_stream = false;
    return error;
}

void file_stream_over(struct leat_file_request *request)
{
    struct leat_job *job = request->file->job;
    file_copies(job)->release(job->device, request->stream);
}
