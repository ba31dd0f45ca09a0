// SPDX-License-Identifier: Apache-2.0
// Sides of `leat bench file` on a GPU without leat: leat-peer-file-cuda WAY[:THREADS] cuda:NUMBER
//
//   pinned    threads that read into four pinned buffers of 1 MiB each and copy from there
//   mapped    pages of the page cache mapped, registered 64 MiB at a time, copied, given back
//   cufile    cuFileRead by threads, into a registered buffer
//   cubatch   cuFile's batch interface, for ranges
//
// Algorithm: parts of 4 MiB (64 for mapped, 16 for cuFile with several threads) go to whichever
// thread is free. cuFile is loaded where it is there. Advantage: each way is as short as its user
// would write it. Disadvantage: none is tuned beyond that.

#define _GNU_SOURCE
#include "file_slice.h"
#include "peer_file_cufile.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFERS      4
#define BUFFER_BYTES ((uint64_t)1 << 20)
#define CHUNK_BYTES  ((uint64_t)64 << 20)
#define CUFILE_PART  ((uint64_t)16 << 20)

enum way { PINNED, MAPPED, CUFILE, CUBATCH, WAYS };
static const char *const way_names[WAYS] = {"pinned", "mapped", "cufile", "cubatch"};

struct member {
    cudaStream_t stream;
    char *buffer[BUFFERS];
    cudaEvent_t copied[BUFFERS];
    int next;
    uint64_t used; // of the buffer at `next`, by ranges
};

static struct {
    enum way way;
    int gpu;
    char path[1024], failed[256];
    bool direct;
    int fd;
    uint64_t size;
    char *map;
    char *memory;
    uint64_t memory_bytes;
    struct file_crew crew;
    struct member member[FILE_CREW_MOST];
    const struct file_ask *ask;
    uint64_t first, part_bytes;
} side = {.fd = -1};

void failed(const char *what, const char *why)
{
    snprintf(side.failed, sizeof side.failed, "%.150s: %.100s", what, why);
}

static bool good(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        failed(what, cudaGetErrorString(error));
    return error == cudaSuccess;
}

static bool read_all(char *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(side.fd, to + done, bytes - done, (off_t)(offset + done));
        if (got <= 0) {
            failed("pread", got ? strerror(errno) : "the file ends");
            return false;
        }
        done += (uint64_t)got;
    }
    return true;
}

// ---- Pinned buffers ----

static bool make_member(struct member *member)
{
    if (member->stream)
        return true;
    // A thread has to be told which GPU is meant.
    bool fine = good(cudaSetDevice(side.gpu), "cudaSetDevice") &&
                good(cudaStreamCreateWithFlags(&member->stream, cudaStreamNonBlocking), "stream");
    for (int i = 0; fine && side.way == PINNED && i < BUFFERS; i++)
        fine = good(cudaHostAlloc((void **)&member->buffer[i], BUFFER_BYTES, 0), "cudaHostAlloc") &&
               good(cudaEventCreateWithFlags(&member->copied[i], cudaEventDisableTiming), "event");
    return fine;
}

static bool pinned_part(struct member *member, char *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        int slot = member->next;
        uint64_t left = bytes - done, part = left < BUFFER_BYTES ? left : BUFFER_BYTES;
        if (!good(cudaEventSynchronize(member->copied[slot]), "a copy") ||
            !read_all(member->buffer[slot], part, offset + done) ||
            !good(cudaMemcpyAsync(to + done, member->buffer[slot], part, cudaMemcpyHostToDevice,
                                  member->stream),
                  "a copy") ||
            !good(cudaEventRecord(member->copied[slot], member->stream), "an event"))
            return false;
        member->next = (slot + 1) % BUFFERS;
        done += part;
    }
    return true;
}

// Ranges are packed into a buffer, each with a copy of its own.
static bool pinned_range(struct member *member, char *to, uint64_t bytes, uint64_t offset)
{
    if (bytes > BUFFER_BYTES)
        return pinned_part(member, to, bytes, offset);
    if (member->used + bytes > BUFFER_BYTES) {
        if (!good(cudaEventRecord(member->copied[member->next], member->stream), "an event"))
            return false;
        member->next = (member->next + 1) % BUFFERS;
        member->used = 0;
    }
    char *from = member->buffer[member->next] + member->used;
    if (!member->used && !good(cudaEventSynchronize(member->copied[member->next]), "a copy"))
        return false;
    member->used += (bytes + 4095) / 4096 * 4096; // as direct reads need it
    return read_all(from, bytes, offset) &&
           good(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, member->stream), "a copy");
}

// ---- Registered pages ----

static bool mapped_part(struct member *member, char *to, uint64_t bytes, uint64_t offset)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
    uint64_t end = (offset + bytes + page - 1) / page * page;
    if (!good(cudaHostRegister(side.map + begin, end - begin, cudaHostRegisterReadOnly),
              "cudaHostRegister"))
        return false;
    bool fine =
        good(cudaMemcpyAsync(to, side.map + offset, bytes, cudaMemcpyHostToDevice, member->stream),
             "a copy") &&
        good(cudaStreamSynchronize(member->stream), "a copy");
    cudaHostUnregister(side.map + begin);
    return fine;
}

// ---- An ask ----

static bool carry(struct member *member, char *to, uint64_t bytes, uint64_t offset)
{
    switch (side.way) {
    case PINNED:
        return side.ask->ranges ? pinned_range(member, to, bytes, offset)
                                : pinned_part(member, to, bytes, offset);
    case MAPPED:
        return mapped_part(member, to, bytes, offset);
    default:
        return cufile_part(side.memory, to, bytes, offset);
    }
}

static void work(void *user, int number, uint64_t task)
{
    const struct file_ask *ask = side.ask;
    struct member *member = &side.member[number];
    (void)user;
    if (side.failed[0] || !make_member(member))
        return;
    if (ask->ranges) {
        carry(member, side.memory + task * ask->bytes, ask->bytes,
              file_range_offset(ask, side.size, task));
        return;
    }
    uint64_t parts = (ask->bytes + side.part_bytes - 1) / side.part_bytes;
    uint64_t call = task / parts, at = task % parts * side.part_bytes, left = ask->bytes - at;
    carry(member, side.memory + call * ask->bytes + at,
          left < side.part_bytes ? left : side.part_bytes,
          file_call_offset(ask, side.size, side.first + call) + at);
}

static void drain(void)
{
    for (int i = 0; i < side.crew.members; i++)
        if (side.member[i].stream) {
            good(cudaStreamSynchronize(side.member[i].stream), "a copy");
            side.member[i].used = 0;
        }
}

static void run(const struct file_ask *ask)
{
    uint64_t parts = (ask->bytes + side.part_bytes - 1) / side.part_bytes;
    if (ask->ranges) {
        for (uint64_t k = 0; !side.failed[0] && k < ask->repeat; k++) {
            if (side.way == CUBATCH)
                cufile_batches(side.ask, side.size, side.memory);
            else
                file_crew_run(&side.crew, work, NULL, ask->depth);
            drain();
        }
        return;
    }
    for (side.first = 0; !side.failed[0] && side.first < ask->repeat; side.first += ask->depth) {
        uint64_t left = ask->repeat - side.first;
        file_crew_run(&side.crew, work, NULL, (left < ask->depth ? left : ask->depth) * parts);
        drain();
    }
}

static bool use_memory(uint64_t bytes)
{
    if (side.memory_bytes >= bytes)
        return true;
    if (side.memory && side.way >= CUFILE)
        cufile_forget(side.memory);
    cudaFree(side.memory);
    side.memory = NULL;
    side.memory_bytes = 0;
    if (!good(cudaMalloc((void **)&side.memory, bytes), "cudaMalloc"))
        return false;
    side.memory_bytes = bytes;
    // What is not registered goes through buffers of its own, more slowly but as well.
    if (side.way >= CUFILE)
        cufile_register(side.memory, bytes);
    return true;
}

static bool use_file(const struct file_ask *ask)
{
    struct stat status;
    if (!strcmp(side.path, ask->path) && side.direct == ask->direct)
        return true;
    if (side.map)
        munmap(side.map, side.size);
    if (side.way >= CUFILE)
        cufile_close();
    if (side.fd >= 0)
        close(side.fd);
    side.map = NULL;
    side.path[0] = 0;
    side.fd = open(ask->path, O_RDONLY | O_CLOEXEC | (ask->direct ? O_DIRECT : 0));
    if (side.fd < 0 || fstat(side.fd, &status)) {
        failed(ask->path, strerror(errno));
        return false;
    }
    side.size = (uint64_t)status.st_size;
    if (side.way == MAPPED) {
        void *map = mmap(NULL, side.size, PROT_READ, MAP_SHARED, side.fd, 0);
        if (map == MAP_FAILED) {
            failed("mmap", strerror(errno));
            return false;
        }
        side.map = map;
    }
    if (side.way >= CUFILE && !cufile_open(side.fd))
        return false;
    side.direct = ask->direct;
    snprintf(side.path, sizeof side.path, "%s", ask->path);
    return true;
}

static void look(uint64_t at, uint64_t offset)
{
    uint64_t word = 0;
    if (!good(cudaMemcpy(&word, side.memory + at, 8, cudaMemcpyDeviceToHost), "a copy back"))
        return;
    if (word != offset)
        failed("the bytes", "they are not those of this place of the file");
}

static void serve(const struct file_ask *ask)
{
    side.ask = ask;
    side.failed[0] = 0;
    if (side.way == MAPPED && (ask->ranges || ask->direct))
        failed("mapped", "only calls from the page cache");
    else if (side.way == CUBATCH && !ask->ranges)
        failed("cubatch", "only ranges");
    else if (use_file(ask) && side.size < ask->bytes)
        failed(ask->path, "too short");
    if (side.failed[0] || !use_memory(ask->bytes * ask->depth)) {
        file_answer_error(side.failed);
        return;
    }
    uint64_t begin = file_now_ns();
    run(ask);
    uint64_t ns = file_now_ns() - begin;
    uint64_t last = ask->ranges ? ask->depth - 1 : (ask->repeat - 1) % ask->depth;
    uint64_t offset = ask->ranges ? file_range_offset(ask, side.size, last)
                                  : file_call_offset(ask, side.size, ask->repeat - 1);
    if (!side.failed[0] && ask->bytes >= 8)
        look(last * ask->bytes, offset);
    if (side.failed[0])
        file_answer_error(side.failed);
    else
        file_answer(ns);
}

int main(int argc, char **argv)
{
    struct file_ask ask;
    if (argc != 3)
        return 2;
    size_t length = strcspn(argv[1], ":");
    while (side.way < WAYS && (strlen(way_names[side.way]) != length ||
                               strncmp(argv[1], way_names[side.way], length) != 0))
        side.way++;
    int threads = argv[1][length] ? atoi(argv[1] + length + 1) : 1;
    const char *number = strchr(argv[2], ':');
    side.gpu = number ? atoi(number + 1) : 0;
    side.part_bytes = side.way == MAPPED                   ? CHUNK_BYTES
                      : side.way == CUFILE && threads == 1 ? UINT64_MAX / 2
                      : side.way == CUFILE                 ? CUFILE_PART
                                                           : FILE_TASK;
    file_crew_open(&side.crew, threads > 0 ? threads : 1);
    bool there = side.way < WAYS && good(cudaSetDevice(side.gpu), "cudaSetDevice") &&
                 good(cudaFree(NULL), "CUDA") && (side.way < CUFILE || cufile_load());
    if (side.way == WAYS)
        failed(argv[1], "there is no such way");
    char absent[256];
    snprintf(absent, sizeof absent, "%s", side.failed);
    while (file_ask_read(&ask)) {
        if (there)
            serve(&ask);
        else
            file_answer_error(absent);
    }
    return 0;
}
