// SPDX-License-Identifier: Apache-2.0
// The NVSHMEM side of `leat bench halo --device cuda`, in four ways: `stream` (pack kernel, put
// with signal and wait as operations of the stream), and the kernels of nvshmem_kernels.cuh: `put`,
// `store` and `resident`.
// usage: PROGRAM DIRECTORY SIDE; it forks into two ranks, a GPU each.
//
// Advantage: one symmetric heap and one initialisation for all ways. Disadvantage: what breaks one
// way (a kernel past its deadline) ends them all.

#include "gpu_peer.h"
#include "pair.h"

#include "nvshmem_kernels.cuh"

#include <errno.h>

static const uint32_t THREADS = 512;
static const size_t WORD_BYTES = 256; /* none shares a line */

struct nvshmem_side {
    struct pair pair;
    unsigned char *words; /* symmetric: signal, acknowledgement */
    struct nvshmem_state *state;
    struct exchange exchange;
    uint32_t blocks, multiprocessors;
};

static int barrier(struct gpu_peer *peer)
{
    return pair_barrier(&((struct nvshmem_side *)peer->user)->pair);
}

static bool way_is(const struct gpu_peer *peer, const char *way)
{
    return strcmp(peer->halo.slice.way, way) == 0;
}

// ---- preparing a slice ----

static int complain(const struct gpu_peer *peer, const char *why)
{
    if (peer->halo.rank == 0)
        fprintf(stderr, "NVSHMEM, %s: %s\n", peer->halo.slice.way, why);
    return GPU_CANNOT;
}

static int is_possible(const struct gpu_peer *peer)
{
    const struct nvshmem_side *side = (const struct nvshmem_side *)peer->user;
    const bool stream = way_is(peer, "stream"), resident = way_is(peer, "resident");
    if (!stream && !resident && !way_is(peer, "put") && !way_is(peer, "store"))
        return complain(peer, "no way of NVSHMEM");
    if (peer->halo.slice.graph && (stream || resident))
        return complain(peer, stream ? "a graph would replay the signals' old values"
                                     : "one launch does all, a graph has nothing to save");
    if ((resident || way_is(peer, "store")) && !side->exchange.peer_land[0])
        return complain(peer, "nvshmem_ptr says that the other GPU's memory cannot be stored to");
    return 0;
}

// Two blocks a multiprocessor are resident, by the kernels' launch bounds. In the resident loop a
// larger grid costs at the barrier, and pays where each thread has several parts.
static uint32_t block_count(const struct gpu_peer *peer, uint32_t count)
{
    const struct nvshmem_side *side = (const struct nvshmem_side *)peer->user;
    const uint32_t one = side->multiprocessors, most = 2 * one;
    const uint32_t fours = (count + 3) / 4, wanted = (fours + THREADS - 1) / THREADS;
    if (way_is(peer, "resident") && wanted > one && wanted < 4 * one)
        return one;
    const uint32_t blocks = wanted < most ? wanted : most;
    if (!way_is(peer, "put"))
        return blocks;
    const uint32_t part = (fours + blocks - 1) / blocks; // no block without a part
    return (fours + part - 1) / part;
}

static int begin(struct gpu_peer *peer)
{
    struct nvshmem_side *side = (struct nvshmem_side *)peer->user;
    struct exchange *x = &side->exchange;
    const int cannot = is_possible(peer);
    if (cannot)
        return cannot;
    x->components = (uint32_t)peer->halo.slice.components;
    x->count = peer->halo.slice.atoms * x->components;
    x->reverse = peer->halo.slice.reverse;
    x->consume = peer->halo.slice.consume;
    side->blocks = block_count(peer, x->count);
    // In the stream, which the caller waits for: plain memsets may still be under way on return.
    cudaStream_t stream = peer->halo.stream;
    return gpu_ok(cudaMemsetAsync(side->words, 0, 2 * WORD_BYTES, stream),
                  "cannot clear the signals") ||
                   gpu_ok(cudaMemsetAsync(side->state, 0, sizeof *side->state, stream),
                          "cannot clear the state")
               ? GPU_FAILED
               : 0;
}

// ---- exchanges ----

static int exchange_on_stream(struct gpu_peer *peer, uint64_t number)
{
    struct gpu_halo *halo = &peer->halo;
    const struct exchange *x = &((struct nvshmem_side *)peer->user)->exchange;
    const int zone = (int)((number - 1) & 1);
    if (!x->reverse && gpu_halo_pack(halo))
        return GPU_FAILED;
    nvshmemx_putmem_signal_on_stream(x->land[zone], x->out, gpu_slice_bytes(&halo->slice),
                                     x->signal, number, NVSHMEM_SIGNAL_SET, x->peer, halo->stream);
    nvshmemx_signal_wait_until_on_stream(x->signal, NVSHMEM_CMP_GE, number, halo->stream);
    return x->reverse ? gpu_halo_accumulate(halo, zone) : 0;
}

static int launch(struct gpu_peer *peer)
{
    const struct nvshmem_side *side = (const struct nvshmem_side *)peer->user;
    const bool four = side->exchange.components == 4;
    cudaStream_t stream = peer->halo.stream;
    if (way_is(peer, "put")) {
        if (four)
            put_kernel<4><<<side->blocks, THREADS, 0, stream>>>(side->exchange);
        else
            put_kernel<3><<<side->blocks, THREADS, 0, stream>>>(side->exchange);
    } else {
        if (four)
            store_kernel<4><<<side->blocks, THREADS, 0, stream>>>(side->exchange);
        else
            store_kernel<3><<<side->blocks, THREADS, 0, stream>>>(side->exchange);
    }
    return gpu_ok(cudaGetLastError(), "cannot launch an exchange");
}

static int launch_resident(struct gpu_peer *peer, uint32_t count)
{
    struct nvshmem_side *side = (struct nvshmem_side *)peer->user;
    void *arguments[] = {&side->exchange, &count};
    const void *kernel = side->exchange.components == 4 ? (const void *)resident_kernel<4>
                                                        : (const void *)resident_kernel<3>;
    return gpu_ok(cudaLaunchCooperativeKernel(kernel, dim3(side->blocks), dim3(THREADS), arguments,
                                              0, peer->halo.stream),
                  "cannot launch the resident kernel");
}

static int enqueue(struct gpu_peer *peer, uint64_t first, uint32_t count)
{
    const bool stream = way_is(peer, "stream");
    if (way_is(peer, "resident"))
        return launch_resident(peer, count);
    for (uint64_t i = first; i < first + count; i++) {
        if (stream ? exchange_on_stream(peer, i + 1) : launch(peer))
            return GPU_FAILED;
        if (peer->halo.slice.consume && !peer->halo.slice.reverse &&
            gpu_halo_consume(&peer->halo, (int)(i & 1)))
            return GPU_FAILED;
    }
    return 0;
}

static int look(struct gpu_peer *peer)
{
    const struct nvshmem_side *side = (const struct nvshmem_side *)peer->user;
    struct nvshmem_state state;
    if (gpu_ok(cudaMemcpy(&state, side->state, sizeof state, cudaMemcpyDeviceToHost),
               "cannot read the state"))
        return GPU_FAILED;
    if (!state.failed)
        return 0;
    fprintf(stderr,
            "NVSHMEM, %s, rank %d: no signal within 5 s: wanted %llu, seen %llu, after %llu "
            "exchanges\n",
            peer->halo.slice.way, peer->halo.rank, (unsigned long long)state.wanted,
            (unsigned long long)state.seen, (unsigned long long)state.epoch);
    return GPU_FAILED;
}

// ---- opening ----

static int join(struct nvshmem_side *side)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (side->pair.rank == 0 && nvshmemx_get_uniqueid(&id)) {
        fprintf(stderr, "nvshmemx_get_uniqueid failed\n");
        return GPU_FAILED;
    }
    if (pair_share(&side->pair, &id, sizeof id))
        return GPU_FAILED;
    if (nvshmemx_set_attr_uniqueid_args(side->pair.rank, 2, &id, &attributes) ||
        nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes)) {
        fprintf(stderr, "rank %d: nvshmemx_init_attr failed\n", side->pair.rank);
        return GPU_FAILED;
    }
    return 0;
}

static float *symmetric(size_t bytes)
{
    void *address = nvshmem_malloc(bytes);
    if (!address)
        fprintf(stderr, "nvshmem_malloc has no %zu bytes\n", bytes);
    return (float *)address;
}

// A kernel that is first needed while others spin might wait for them to be loaded.
static int load_kernels(struct nvshmem_side *side, int device)
{
    const void *kernels[] = {(const void *)put_kernel<3>,      (const void *)put_kernel<4>,
                             (const void *)store_kernel<3>,    (const void *)store_kernel<4>,
                             (const void *)resident_kernel<3>, (const void *)resident_kernel<4>};
    struct cudaFuncAttributes attributes;
    int count = 0;
    for (const void *kernel : kernels)
        if (gpu_ok(cudaFuncGetAttributes(&attributes, kernel), "cannot load a kernel"))
            return GPU_FAILED;
    if (gpu_ok(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
               "cannot ask for the multiprocessors"))
        return GPU_FAILED;
    side->multiprocessors = (uint32_t)count;
    return 0;
}

static int open_arrays(struct gpu_peer *peer, struct nvshmem_side *side)
{
    struct gpu_halo *halo = &peer->halo;
    struct exchange *x = &side->exchange;
    halo->out = symmetric(GPU_LAND_BYTES);
    halo->land[0] = symmetric(GPU_LAND_BYTES);
    halo->land[1] = symmetric(GPU_LAND_BYTES);
    side->words = (unsigned char *)symmetric(2 * WORD_BYTES);
    if (!halo->out || !halo->land[0] || !halo->land[1] || !side->words ||
        gpu_halo_open(halo, halo->rank) ||
        gpu_ok(cudaMalloc((void **)&side->state, sizeof *side->state), "cannot allocate") ||
        load_kernels(side, halo->rank))
        return GPU_FAILED;
    x->home = halo->home;
    x->out = halo->out;
    x->index = halo->index;
    x->sink = halo->sink;
    x->state = side->state;
    x->peer = 1 - halo->rank;
    x->signal = (uint64_t *)side->words;
    x->ack = (uint64_t *)(side->words + WORD_BYTES);
    x->peer_signal = (uint64_t *)nvshmem_ptr(x->signal, x->peer);
    x->peer_ack = (uint64_t *)nvshmem_ptr(x->ack, x->peer);
    for (int zone = 0; zone < 2; zone++) {
        x->land[zone] = halo->land[zone];
        x->peer_land[zone] = (float *)nvshmem_ptr(halo->land[zone], x->peer);
    }
    return 0;
}

static int open_rank(struct gpu_peer *peer)
{
    struct nvshmem_side *side = (struct nvshmem_side *)peer->user;
    int gpus = 0;
    peer->halo.rank = side->pair.rank;
    if (gpu_ok(cudaGetDeviceCount(&gpus), "no GPU can be used"))
        return GPU_FAILED;
    if (gpus < 2) {
        fprintf(stderr, "NVSHMEM wants a GPU for each of two ranks, and there is one\n");
        return GPU_FAILED;
    }
    if (gpu_ok(cudaSetDevice(side->pair.rank), "cannot choose the GPU") || join(side))
        return GPU_FAILED;
    return open_arrays(peer, side);
}

static void set_environment(void)
{
    // Multicast can take the GPUs of a host out of service where others share its switch.
    setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
    setenv("NVSHMEM_SYMMETRIC_SIZE", "128M", 0);
    // Both ranks are on this host: they meet over the loopback interface, and need no network.
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
}

int main(int argc, char **argv)
{
    struct nvshmem_side side;
    struct gpu_peer peer;
    memset(&side, 0, sizeof side);
    memset(&peer, 0, sizeof peer);
    if (argc != 3) {
        fprintf(stderr, "usage: %s DIR SIDE\n", argv[0]);
        return 2;
    }
    set_environment();
    if (pair_open(&side.pair)) {
        fprintf(stderr, "cannot start a second rank: %s\n", strerror(errno));
        return 1;
    }
    peer.user = &side;
    peer.barrier = barrier;
    peer.begin = begin;
    peer.enqueue = enqueue;
    peer.look = look;
    alarm(GPU_OPEN_S);
    int status = open_rank(&peer) ? 1 : 0;
    alarm(0);
    if (!status)
        status = gpu_peer_serve(&peer, argv[1], argv[2]);
    // Finalising waits for the other rank, so it is for an orderly end.
    if (!status)
        nvshmem_finalize();
    return pair_end(&side.pair, status);
}
