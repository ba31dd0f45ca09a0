// SPDX-License-Identifier: Apache-2.0
// The device of a rank, and the counts of what the host asks of it.

#include "device/ops.h"

#include "core/trace.h"

int leat_device_open(struct leat_job *job, struct device **device)
{
    return leat_device_cpu_open(job, device);
}

int leat_device_launch(struct device *device, enum kernel_id kernel, void *arguments,
                       uint32_t choice)
{
    leat_count(&device->job->counts.launches, 1);
    uint64_t begin = leat_trace_begin(device->job);
    int error = device->ops->launch(device, kernel, arguments, choice);
    leat_trace_end(device->job, TRACE_LAUNCH, 0, begin, (int64_t)kernel, 0);
    return error;
}

int leat_device_sync(struct device *device)
{
    leat_count(&device->job->counts.blocking_waits, 1);
    uint64_t begin = leat_trace_begin(device->job);
    int error = device->ops->sync(device);
    leat_trace_end(device->job, TRACE_SYNC, 0, begin, 0, 0);
    return error;
}
