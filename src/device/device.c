// SPDX-License-Identifier: Apache-2.0
// The device of a rank, and the counts of what the host asks of it.

#include "device/ops.h"

#include "core/job.h"

int leat_device_open(struct leat_job *job, struct device **device)
{
    return leat_device_cpu_open(job, device);
}

int leat_device_launch(struct device *device, enum kernel_id kernel, void *arguments,
                       uint32_t choice)
{
    leat_count(&device->job->counts.launches, 1);
    return device->ops->launch(device, kernel, arguments, choice);
}

int leat_device_sync(struct device *device)
{
    leat_count(&device->job->counts.blocking_waits, 1);
    return device->ops->sync(device);
}
