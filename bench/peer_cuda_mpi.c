// SPDX-License-Identifier: Apache-2.0
// The MPI side of `leat bench halo --device cuda`: pack kernel, copy to pinned memory, wait for the
// stream, MPI_Sendrecv between hosts, copy to the GPU.
// usage: PROGRAM DIRECTORY SIDE, started by mpirun with two ranks.
//
// Advantage: any MPI will do, none needs to know of GPUs. Disadvantage: what this costs is the
// point: a blocking wait and two copies over PCIe an exchange.

#include "gpu_peer.h"

#include <mpi.h>

struct staging {
    float *send, *receive; /* pinned */
};

static int barrier(struct gpu_peer *peer)
{
    (void)peer;
    return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : GPU_FAILED;
}

static int begin(struct gpu_peer *peer)
{
    if (!peer->halo.slice.graph && strcmp(peer->halo.slice.way, "mpi") == 0)
        return 0;
    if (peer->halo.rank == 0)
        fprintf(stderr, "%s: host-staged MPI has neither other ways nor graphs\n",
                peer->halo.slice.way);
    return GPU_CANNOT;
}

static int exchange(struct gpu_peer *peer, int zone)
{
    struct gpu_halo *halo = &peer->halo;
    const struct staging *staging = peer->user;
    const size_t bytes = gpu_slice_bytes(&halo->slice);
    const int count = (int)(bytes / sizeof(float)), other = 1 - halo->rank;
    if (!halo->slice.reverse && gpu_halo_pack(halo))
        return GPU_FAILED;
    if (gpu_ok(
            cudaMemcpyAsync(staging->send, halo->out, bytes, cudaMemcpyDeviceToHost, halo->stream),
            "cannot copy to the host") ||
        gpu_ok(cudaStreamSynchronize(halo->stream), "the copy to the host failed"))
        return GPU_FAILED;
    // The copy from `receive` of the exchange before is over too, by the wait above.
    if (MPI_Sendrecv(staging->send, count, MPI_FLOAT, other, 0, staging->receive, count, MPI_FLOAT,
                     other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return GPU_FAILED;
    if (gpu_ok(cudaMemcpyAsync(halo->land[zone], staging->receive, bytes, cudaMemcpyHostToDevice,
                               halo->stream),
               "cannot copy to the GPU"))
        return GPU_FAILED;
    return gpu_peer_take(peer, zone);
}

static int enqueue(struct gpu_peer *peer, uint64_t first, uint32_t count)
{
    return gpu_peer_each(peer, first, count, exchange);
}

int main(int argc, char **argv)
{
    struct staging staging = {0};
    struct gpu_peer peer = {
        .user = &staging, .barrier = barrier, .begin = begin, .enqueue = enqueue};
    int size = 0, gpus = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &peer.halo.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int error = argc == 3 && size == 2 ? 0 : (fprintf(stderr, "usage: %s DIR SIDE\n", argv[0]), 1);
    if (!error)
        error =
            gpu_ok(cudaGetDeviceCount(&gpus), "no GPU can be used") ||
            gpu_halo_open(&peer.halo, peer.halo.rank % gpus) ||
            gpu_ok(cudaHostAlloc((void **)&staging.send, GPU_LAND_BYTES, cudaHostAllocDefault),
                   "cannot pin memory") ||
            gpu_ok(cudaHostAlloc((void **)&staging.receive, GPU_LAND_BYTES, cudaHostAllocDefault),
                   "cannot pin memory");
    if (!error)
        error = gpu_peer_serve(&peer, argv[1], argv[2]);
    if (error)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
