// SPDX-License-Identifier: Apache-2.0
// The NCCL side of `leat bench halo --device cuda`: pack kernel, then a group of ncclSend and
// ncclRecv on the stream, straight into the ghosts.
// usage: PROGRAM DIRECTORY SIDE; it forks into two ranks, a GPU each.
//
// Advantage: no host in an exchange. Disadvantage: two launches, and NCCL's own hand-shake inside.

#define _GNU_SOURCE
#include "gpu_peer.h"
#include "pair.h"

#include <errno.h>
#include <nccl.h>

struct nccl {
    struct pair pair;
    ncclComm_t comm;
};

static int nccl_ok(ncclResult_t result, const char *what)
{
    if (result == ncclSuccess)
        return 0;
    fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
    return GPU_FAILED;
}

static int barrier(struct gpu_peer *peer)
{
    struct nccl *nccl = peer->user;
    return pair_barrier(&nccl->pair);
}

static int begin(struct gpu_peer *peer)
{
    if (strcmp(peer->halo.slice.way, "nccl") == 0)
        return 0;
    if (peer->halo.rank == 0)
        fprintf(stderr, "%s: no way of NCCL\n", peer->halo.slice.way);
    return GPU_CANNOT;
}

static int exchange(struct gpu_peer *peer, int zone)
{
    struct gpu_halo *halo = &peer->halo;
    const struct nccl *nccl = peer->user;
    const size_t count = gpu_slice_bytes(&halo->slice) / sizeof(float);
    const int other = 1 - halo->rank;
    if (!halo->slice.reverse && gpu_halo_pack(halo))
        return GPU_FAILED;
    if (nccl_ok(ncclGroupStart(), "ncclGroupStart") ||
        nccl_ok(ncclSend(halo->out, count, ncclFloat, other, nccl->comm, halo->stream),
                "ncclSend") ||
        nccl_ok(ncclRecv(halo->land[zone], count, ncclFloat, other, nccl->comm, halo->stream),
                "ncclRecv") ||
        nccl_ok(ncclGroupEnd(), "ncclGroupEnd"))
        return GPU_FAILED;
    return gpu_peer_take(peer, zone);
}

static int enqueue(struct gpu_peer *peer, uint64_t first, uint32_t count)
{
    return gpu_peer_each(peer, first, count, exchange);
}

static int open_rank(struct gpu_peer *peer)
{
    struct nccl *nccl = peer->user;
    int gpus = 0;
    ncclUniqueId id;
    if (gpu_ok(cudaGetDeviceCount(&gpus), "no GPU can be used"))
        return GPU_FAILED;
    if (gpus < 2) {
        fprintf(stderr, "NCCL wants a GPU for each of two ranks, and there is one\n");
        return GPU_FAILED;
    }
    if (gpu_halo_open(&peer->halo, peer->halo.rank))
        return GPU_FAILED;
    memset(&id, 0, sizeof id);
    if (peer->halo.rank == 0 && nccl_ok(ncclGetUniqueId(&id), "ncclGetUniqueId"))
        return GPU_FAILED;
    return pair_share(&nccl->pair, &id, sizeof id) ||
                   nccl_ok(ncclCommInitRank(&nccl->comm, 2, id, peer->halo.rank),
                           "ncclCommInitRank")
               ? GPU_FAILED
               : 0;
}

int main(int argc, char **argv)
{
    struct nccl nccl = {0};
    struct gpu_peer peer = {.user = &nccl, .barrier = barrier, .begin = begin, .enqueue = enqueue};
    if (argc != 3) {
        fprintf(stderr, "usage: %s DIR SIDE\n", argv[0]);
        return 2;
    }
    // Multicast can take the GPUs of a host out of service where others share its switch.
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    // Both ranks are on this host, and need no network.
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
    if (pair_open(&nccl.pair)) {
        fprintf(stderr, "cannot start a second rank: %s\n", strerror(errno));
        return 1;
    }
    peer.halo.rank = nccl.pair.rank;
    alarm(GPU_OPEN_S);
    int status = open_rank(&peer) ? 1 : 0;
    alarm(0);
    if (!status)
        status = gpu_peer_serve(&peer, argv[1], argv[2]);
    // A communicator whose peer has failed waits for it, so it is destroyed in good order only.
    if (!status && nccl.comm)
        ncclCommDestroy(nccl.comm);
    return pair_end(&nccl.pair, status);
}
