/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: where a rank's kernels run, and the stream that orders them.
 *
 * A rank has one device, chosen at leat_open (leat_options.device, LEAT_DEVICE): the CPU device,
 * whose kernels have ended when a call returns, or a CUDA device, where an exchange is work of the
 * rank's stream: the call returns once it is enqueued, what the caller enqueues to that stream
 * afterwards comes after it, and nobody waits on the host. Several ranks of a process (threads) may
 * share a GPU; their exchanges are one launch then, so each of them has to call before it starts.
 *
 * Errors of an exchange under way on a GPU (a peer that never signals, a rank that stopped) are
 * found by the kernel's own deadline, written to memory that the host sees, and returned by the
 * next call on that halo or by leat_device_wait.
 */
#ifndef LEAT_DEVICE_H
#define LEAT_DEVICE_H

#include <leat/leat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_device_info {
    size_t size;
    char name[16];   /* "cpu", "cuda:0" */
    char model[64];  /* what the vendor calls it */
    int number;      /* CUDA's number of it in this process; -1 for the CPU device */
    int rank_count;  /* ranks of this process on it */
    int block_count; /* most blocks that one of the rank's exchanges takes */
    /* cudaStream_t of the rank's exchanges, owned by the job and not blocking towards the default
     * stream; NULL on the CPU device. */
    void *stream;
} leat_device_info;

/* -EINVAL when size is not set. Any thread. */
LEAT_API int leat_device_info_get(const leat_job *job, leat_device_info *info);

/*
 * Blocks until the rank's stream is empty. `timeout_s` < 0 takes the job's and a second more, since
 * kernels in it have that deadline themselves; 0 only looks. At once on the CPU device.
 * -ETIMEDOUT the stream is not empty by then; -ETIMEDOUT, -ECONNRESET an exchange failed: names
 * halo, peer, pulse, wanted and seen signal, and the halo can only be freed; -EIO what CUDA says
 * failed before (an illegal access by any kernel of the process ends the device's use)
 */
LEAT_API int leat_device_wait(leat_job *job, double timeout_s);

#ifdef __cplusplus
}
#endif

#endif
