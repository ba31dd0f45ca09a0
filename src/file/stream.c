// SPDX-License-Identifier: Apache-2.0
// Calls in stream order. Those of a GPU are not built yet.

#include "file/internal.h"

#include <errno.h>

int file_stream_start(struct leat_file_request *request)
{
    if (file_copies(request->file->job)->hold)
        return leat_fail(-ENOTSUP, "%s: calls in stream order are not built yet",
                         request->file->path);
    file_request_submit(request);
    while (!file_request_over(request, UINT64_MAX))
        continue;
    return 0;
}

void file_stream_over(struct leat_file_request *request)
{
    (void)request;
}
