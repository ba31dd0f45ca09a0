// SPDX-License-Identifier: Apache-2.0
// leat-bench-gpu-msg: messages between buffers of GPUs, beside the copies that they are made of.
//
// Algorithm: two ranks, threads of this process or, under `leat run -n 2`, processes, send a buffer
// of a GPU to and fro; between slices of that rank 0 copies as many bytes by itself, from GPU to
// GPU, waiting for each copy. Both kinds of slices take turns, and the medians are told, with the
// quarters around them; with "staged" rank 1 keeps its in memory of the host, with "host" both do,
// which is what a network by itself gives (LEAT_PATHS=require:fabric). Each message's first and
// last bytes are stamped and looked at. Then allreduce, but for these two and "short", which stops
// at 16 MiB. Advantage: what is beyond the copy shows, on a machine whose clock rates change.
// Disadvantage: the bare copy waits for nobody, as no message can.

#include <leat/device.h>
#include <leat/msg.h>

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICES 15
#define MOST   (UINT64_C(1) << 28)

struct rank {
    leat_job *job;
    leat_comm *comm;
    int rank, rank_count;
    char *out, *in;
    char *other_out, *other_in; /* rank 0's, for bare copies */
    int alone;                  /* messages only */
    uint64_t most;              /* bytes */
    int host;                   /* they are in memory of the host */
    int failed;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int fine(struct rank *self, int error, const char *what)
{
    if (error && !self->failed++)
        fprintf(stderr, "rank %d: %s: %s\n", self->rank, what, leat_error_detail());
    return !self->failed;
}

static int cuda(struct rank *self, cudaError_t error, const char *what)
{
    if (error != cudaSuccess && !self->failed++)
        fprintf(stderr, "rank %d: %s: %s\n", self->rank, what, cudaGetErrorString(error));
    return !self->failed;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The last byte, which a copy that ended too early would not have.
static void stamp(struct rank *self, char *at, uint64_t bytes, unsigned char value)
{
    cuda(self, cudaMemcpy(at, &value, 1, cudaMemcpyDefault), "stamping");
    cuda(self, cudaMemcpy(at + bytes - 1, &value, 1, cudaMemcpyDefault), "stamping");
    cuda(self, cudaDeviceSynchronize(), "stamping");
}

static void check(struct rank *self, const char *at, uint64_t bytes, unsigned char value)
{
    unsigned char got[2] = {0};
    cuda(self, cudaMemcpy(&got[0], at, 1, cudaMemcpyDefault), "looking");
    cuda(self, cudaMemcpy(&got[1], at + bytes - 1, 1, cudaMemcpyDefault), "looking");
    if ((got[0] != value || got[1] != value) && !self->failed++)
        fprintf(stderr, "rank %d: %llu bytes: %d and %d instead of %d\n", self->rank,
                (unsigned long long)bytes, got[0], got[1], value);
}

static double ping_pong(struct rank *self, uint64_t bytes, int count)
{
    leat_data out = {.address = self->out, .bytes = bytes};
    leat_data in = {.address = self->in, .bytes = bytes};
    double begin = 0;
    for (int i = -1; i < count && !self->failed; i++) {
        if (i == 0) // both have left the barrier
            begin = now_us();
        if (self->rank == 0)
            fine(self, leat_send(self->comm, out, 1, 1, 0, NULL), "send");
        fine(self, leat_recv(self->comm, in, 1 - self->rank, 1, NULL, NULL), "receive");
        if (self->rank == 1)
            fine(self, leat_send(self->comm, out, 0, 1, 0, NULL), "send");
    }
    return (now_us() - begin) / count / 2;
}

static double bare(struct rank *self, uint64_t bytes, int count, cudaStream_t stream)
{
    double begin = now_us();
    for (int i = 0; i < count && !self->failed; i++) {
        // Two pairs by turns, as to and fro: one alone would stay in the GPU's cache.
        cuda(self,
             cudaMemcpyAsync(i & 1 ? self->other_in : self->in, i & 1 ? self->other_out : self->out,
                             bytes, cudaMemcpyDefault, stream),
             "copy");
        cuda(self, cudaStreamSynchronize(stream), "copy");
    }
    return (now_us() - begin) / count;
}

static void barrier(struct rank *self)
{
    const leat_collective_options options = {.size = sizeof options, .kind = LEAT_BARRIER};
    fine(self, leat_collective(self->comm, &options, NULL), "barrier");
}

static void messages(struct rank *self, cudaStream_t stream)
{
    if (self->rank == 0)
        printf("      bytes   leat_us  (quarters)        GB/s   copy_us    GB/s  copy/leat\n");
    for (uint64_t bytes = 8; bytes <= self->most && !self->failed; bytes *= bytes < 4096 ? 8 : 4) {
        double leat[SLICES], copy[SLICES];
        int count = bytes < (1 << 20) ? 50 : bytes < (16 << 20) ? 20 : 5;
        stamp(self, self->out, bytes, (unsigned char)(bytes % 251 + 1));
        ping_pong(self, bytes, 3);
        for (int slice = 0; slice < SLICES && !self->failed; slice++) {
            leat[slice] = ping_pong(self, bytes, count);
            if (slice == 0)
                check(self, self->in, bytes, (unsigned char)(bytes % 251 + 1));
            if (self->rank == 0)
                copy[slice] = bare(self, bytes, count, stream);
            barrier(self);
        }
        if (self->rank)
            continue;
        qsort(leat, SLICES, sizeof *leat, by_value);
        qsort(copy, SLICES, sizeof *copy, by_value);
        double l = leat[SLICES / 2], c = copy[SLICES / 2];
        printf("%11llu %9.2f (%8.2f %8.2f) %8.2f %9.2f %7.2f %8.3f\n", (unsigned long long)bytes, l,
               leat[SLICES / 4], leat[SLICES * 3 / 4], (double)bytes / l * 1e-3, c,
               (double)bytes / c * 1e-3, c / l);
        fflush(stdout);
    }
}

static void reductions(struct rank *self)
{
    if (self->rank == 0)
        printf("  allreduce   leat_us      GB/s (of the buffer)\n");
    for (uint64_t bytes = 8; bytes <= MOST && !self->failed; bytes *= bytes < 4096 ? 8 : 4) {
        double time[SLICES];
        int count = bytes < (1 << 18) ? 20 : 1, slices = bytes < (1 << 24) ? SLICES : 3;
        const leat_collective_options options = {.size = sizeof options,
                                                 .kind = LEAT_ALLREDUCE,
                                                 .send = self->out,
                                                 .receive = self->in,
                                                 .count = bytes / 4,
                                                 .type = LEAT_FLOAT,
                                                 .operation = LEAT_SUM};
        cuda(self, cudaMemset(self->out, 0, bytes), "zeros");
        cuda(self, cudaDeviceSynchronize(), "zeros");
        for (int slice = -1; slice < slices && !self->failed; slice++) {
            barrier(self);
            double begin = now_us();
            for (int i = 0; i < count && !self->failed; i++)
                fine(self, leat_collective(self->comm, &options, NULL), "allreduce");
            if (slice >= 0)
                time[slice] = (now_us() - begin) / count;
        }
        if (self->rank)
            continue;
        qsort(time, (size_t)slices, sizeof *time, by_value);
        printf("%11llu %9.2f %9.2f\n", (unsigned long long)bytes, time[slices / 2],
               (double)bytes / time[slices / 2] * 1e-3);
        fflush(stdout);
    }
}

static void take(struct rank *self, char **memory)
{
    *memory = self->host ? calloc(1, MOST) : NULL;
    if (!self->host)
        cuda(self, cudaMalloc((void **)memory, MOST), "memory");
    else if (!*memory && !self->failed++)
        fprintf(stderr, "rank %d: no memory\n", self->rank);
}

static void *run(void *argument)
{
    struct rank *self = argument;
    leat_device_info device = {.size = sizeof device};
    leat_stats stats = {.size = sizeof stats};
    cudaStream_t stream = NULL;
    fine(self, leat_device_info_get(self->job, &device), "device");
    cuda(self, cudaSetDevice(device.number < 0 ? 0 : device.number), "the GPU");
    cuda(self, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    take(self, &self->out);
    take(self, &self->in);
    if (self->rank == 0) {
        take(self, &self->other_out);
        take(self, &self->other_in);
    }
    if (fine(self, leat_comm_split(self->job, NULL, &self->comm), "communicator"))
        messages(self, stream);
    if (!self->failed && !self->alone)
        reductions(self);
    if (!self->failed && !leat_stats_read(self->job, LEAT_ALL_PEERS, &stats))
        printf("rank %d on %s: %llu small, %llu direct, %llu staged\n", self->rank, device.name,
               (unsigned long long)stats.msg_gpu_small, (unsigned long long)stats.msg_gpu_direct,
               (unsigned long long)stats.msg_gpu_staged);
    return NULL;
}

int main(int argc, char **argv)
{
    struct rank ranks[2] = {{0}};
    leat_job *jobs[2];
    pthread_t threads[2];
    int threaded = 0, staged = 0, host = 0, brief = 0;
    for (int i = 1; i < argc; i++) {
        threaded |= !strcmp(argv[i], "threads");
        staged |= !strcmp(argv[i], "staged");
        host |= !strcmp(argv[i], "host");
        brief |= !strcmp(argv[i], "short");
    }
    int count = threaded ? 2 : 1;
    leat_options options = {
        .size = sizeof options, .thread_ranks = threaded ? 2 : 0, .device = "cuda"};
    if (leat_open(&options, jobs)) {
        fprintf(stderr, "%s\n", leat_error_detail());
        return 1;
    }
    for (int i = 0; i < count; i++) {
        leat_job_info info = {.size = sizeof info};
        leat_job_info_get(jobs[i], &info);
        if (info.rank_count != 2) {
            fprintf(stderr, "run it as `leat run -n 2 %s`, or `%s threads`\n", argv[0], argv[0]);
            return 2;
        }
        ranks[i] = (struct rank){.job = jobs[i],
                                 .rank = info.rank,
                                 .rank_count = info.rank_count,
                                 .alone = staged || host || brief,
                                 .most = brief ? UINT64_C(1) << 24 : MOST,
                                 .host = host || (staged && info.rank == 1)};
        if (pthread_create(&threads[i], NULL, run, &ranks[i]))
            return 1;
    }
    int failed = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        failed += ranks[i].failed;
    }
    for (int i = 0; i < count; i++)
        leat_close(ranks[i].job, failed ? "the benchmark failed" : NULL);
    return failed != 0;
}
