// SPDX-License-Identifier: Apache-2.0
// Messages with buffers in memory of a GPU, which no load or store may touch.
//
// The GPU is emulated (support/emulated_gpu.h): its memory faults when it is looked at, and its
// copies come late. Bodies run on ranks as threads, where one copy goes from buffer to buffer, and
// as processes, where everything is staged; each pair of ends meets: GPU and GPU, GPU and host,
// host and GPU. Advantage: all but CUDA's own copies is tried without a GPU. Disadvantage: what
// CUDA refuses is seen in test/gpu only.

#include "multi/msg_ranks.h"

#define AROUND(size) (size) - 1, (size), (size) + 1

static const uint64_t sizes[] = {0,
                                 1,
                                 8,
                                 AROUND(96),     // a slot
                                 AROUND(4096),   // the largest that is not announced
                                 AROUND(32768),  // what a host sends without announcing it
                                 65537,          // more than a bounce buffer
                                 AROUND(126976), // a fragment of a pipe
                                 1015808 + 1,    // all fragments of a pipe, and more
                                 3000000};
#define SIZES (sizeof sizes / sizeof *sizes)

enum { GPU_GPU, GPU_HOST, HOST_GPU, ENDS };

struct exchange {
    leat_comm *comm;
    int to, from, tag, flags;
    bool posted;
    struct msg_memory send, receive;
    leat_request requests[2];
    leat_status status;
};

static bool one_side(struct rank_thread *self, struct exchange *x, bool receives)
{
    return receives ? msg_fine(self, leat_recv(x->comm, x->receive.data, x->from, x->tag,
                                               &x->status, &x->requests[1]))
                    : msg_fine(self, leat_send(x->comm, x->send.data, x->to, x->tag, x->flags,
                                               &x->requests[0]));
}

// The receive first, or the message: a token says that the other side has come so far.
static bool start(struct rank_thread *self, struct exchange *x)
{
    bool fine = one_side(self, x, x->posted);
    int told = x->posted ? x->from : x->to, heard = x->posted ? x->to : x->from;
    return fine && msg_tell(self, x->comm, told) && msg_hear(self, x->comm, heard) &&
           one_side(self, x, !x->posted);
}

static bool exchange(struct rank_thread *self, struct exchange *x, uint64_t bytes, int ends,
                     enum msg_shape from, enum msg_shape to)
{
    leat_request *const list[2] = {&x->requests[0], &x->requests[1]};
    uint64_t seed = (uint64_t)x->tag * 1000;
    x->to = (self->rank + 1) % self->rank_count;
    x->from = (self->rank + self->rank_count - 1) % self->rank_count;
    bool fine = msg_memory_make_in(self, &x->send, from, bytes, ends != HOST_GPU) &&
                msg_memory_make_in(self, &x->receive, to, bytes, ends != GPU_HOST);
    if (!fine)
        return false;
    msg_memory_stamp(&x->send, seed + (uint64_t)self->rank);
    fine = start(self, x) && msg_fine(self, leat_request_wait(list, 2, LEAT_WAIT_ALL, -1, NULL)) &&
           rank_check(self, x->status.bytes == bytes, "%llu of %llu bytes",
                      (unsigned long long)x->status.bytes, (unsigned long long)bytes) &&
           msg_memory_check(self, &x->receive, seed + (uint64_t)x->from, bytes) &&
           msg_memory_check(self, &x->send, seed + (uint64_t)self->rank, bytes);
    msg_memory_free(&x->send);
    msg_memory_free(&x->receive);
    return fine;
}

static void limits(struct rank_thread *self)
{
    static const enum msg_shape shapes[][2] = {
        {MSG_PLAIN, MSG_PLAIN}, {MSG_ROWS, MSG_PLAIN}, {MSG_PIECES, MSG_DEEP}};
    gpu_begin(self->job);
    struct exchange x = {.comm = msg_world(self), .tag = 1};
    struct ranks_random random = {(uint64_t)self->rank};
    for (size_t i = 0; i < SIZES; i++)
        for (int ends = 0; ends < ENDS; ends++)
            for (size_t s = 0; s < 3; s++) {
                x.posted = (i + s + (size_t)ends) % 2;
                x.flags = (i + s) % 3 == 2 ? LEAT_SEND_SYNCHRONOUS : 0;
                // Each size meets each layout and each pair of ends, if not all of them.
                if (s && (i + (size_t)ends) % 3 != s)
                    continue;
                msg_delay(&random, x.comm);
                if (x.comm && !exchange(self, &x, sizes[i], ends, shapes[s][0], shapes[s][1])) {
                    fprintf(stderr, "size %llu, ends %d, shapes %zu\n",
                            (unsigned long long)sizes[i], ends, s);
                    return;
                }
                x.tag++;
            }
}

// How the bytes went is counted.
static void ways(struct rank_thread *self)
{
    gpu_begin(self->job);
    struct exchange x = {.comm = msg_world(self), .tag = 1};
    leat_stats stats = {.size = sizeof stats};
    msg_warm(self, x.comm, 1 - self->rank);
    exchange(self, &x, 100, GPU_GPU, MSG_PLAIN, MSG_PLAIN);
    exchange(self, &x, 200000, GPU_GPU, MSG_PLAIN, MSG_PLAIN);
    exchange(self, &x, 300000, GPU_HOST, MSG_PLAIN, MSG_PLAIN);
    msg_fine(self, leat_stats_read(self->job, LEAT_ALL_PEERS, &stats));
#ifdef MSG_CUDA
    uint64_t direct = stats.msg_gpu_direct; // whether processes may map it depends on the machine
#else
    uint64_t direct = 1;
#endif
    rank_check(self,
               stats.msg_gpu_small == 1 && stats.msg_gpu_direct == direct &&
                   stats.msg_gpu_direct + stats.msg_gpu_staged == 2,
               "%llu small, %llu direct, %llu staged", (unsigned long long)stats.msg_gpu_small,
               (unsigned long long)stats.msg_gpu_direct, (unsigned long long)stats.msg_gpu_staged);
}

// ---- Too small, too long ----

static void truncated(struct rank_thread *self)
{
    static const uint64_t sent[] = {50, 3000, 20000, 500000};
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    for (int i = 0; comm && i < 4 * ENDS; i++) {
        struct msg_memory memory;
        leat_status status;
        int ends = i % ENDS;
        uint64_t bytes = sent[i / ENDS], room = bytes * 2 / 3;
        bool gpu = self->rank ? ends != GPU_HOST : ends != HOST_GPU;
        if (!msg_memory_make_in(self, &memory, MSG_PLAIN, self->rank ? room : bytes, gpu))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&memory, 5);
            msg_fine(self, leat_send(comm, memory.data, 1, i, 0, NULL));
        } else {
            msg_gives(self, -EMSGSIZE, leat_recv(comm, memory.data, 0, i, &status, NULL));
            rank_check(self, status.bytes == room, "%llu bytes", (unsigned long long)status.bytes);
            msg_memory_check(self, &memory, 5, room);
        }
        msg_memory_free(&memory);
    }
}

#define FAR (UINT64_C(64) << 20)

static void beyond(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    uint8_t *host = NULL;
    void *memory = gpu_alloc(1000, &host);
    msg_gives(self, -ERANGE, leat_send(comm, msg_plain(memory, FAR), self->rank, 1, 0, NULL));
    msg_says(self, "ends");
    msg_gives(self, -ERANGE, leat_recv(comm, msg_plain(memory, FAR), self->rank, 1, NULL, NULL));
    gpu_free(memory, host);
}

// A message that a probe took out goes to a GPU.
static void matched(struct rank_thread *self)
{
    static const uint64_t some[] = {60, 4000, 30000, 200000};
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    for (int i = 0; comm && i < 4; i++) {
        struct msg_memory memory;
        leat_request request;
        leat_status status;
        if (!msg_memory_make_in(self, &memory, MSG_PLAIN, some[i], self->rank || i % 2))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&memory, 6);
            msg_fine(self, leat_send(comm, memory.data, 1, i, 0, NULL));
        } else {
            msg_fine(self, leat_probe(comm, 0, i, -1, &status, &request));
            msg_fine(self, leat_recv_matched(memory.data, &status, &request, 1));
            msg_memory_check(self, &memory, 6, some[i]);
        }
        msg_memory_free(&memory);
    }
}

// ---- Memory ----

#define FLOOD 12

// More under way than there are pipes, in the smallest budget: all arrive, and none is exceeded.
static void budget(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct msg_memory send[FLOOD], receive[FLOOD];
    leat_request request[2 * FLOOD], *list[2 * FLOOD];
    leat_stats stats = {.size = sizeof stats};
    int other = 1 - self->rank;
    if (!comm)
        return;
    for (int i = 0; i < FLOOD; i++) {
        uint64_t bytes = i % 2 ? 150000 : 3000;
        msg_memory_make_in(self, &send[i], i % 4 ? MSG_PLAIN : MSG_ROWS, bytes, i % 3 != 0);
        msg_memory_make_in(self, &receive[i], MSG_PLAIN, bytes, i % 3 != 1);
        msg_memory_stamp(&send[i], (uint64_t)(i + 10 * self->rank));
        list[i] = &request[i];
        list[FLOOD + i] = &request[FLOOD + i];
        msg_fine(self, leat_send(comm, send[i].data, other, i, 0, list[i]));
    }
    for (int i = FLOOD - 1; i >= 0; i--)
        msg_fine(self, leat_recv(comm, receive[i].data, other, i, NULL, list[FLOOD + i]));
    msg_fine(self, leat_request_wait(list, (size_t)2 * FLOOD, LEAT_WAIT_ALL, -1, NULL));
    for (int i = 0; i < FLOOD; i++) {
        msg_memory_check(self, &receive[i], (uint64_t)(i + 10 * other), receive[i].bytes);
        msg_memory_free(&send[i]);
        msg_memory_free(&receive[i]);
    }
    msg_fine(self, leat_stats_read(self->job, LEAT_ALL_PEERS, &stats));
    rank_check(self, stats.msg_peak_bytes <= stats.msg_budget_bytes, "%llu of %llu bytes",
               (unsigned long long)stats.msg_peak_bytes,
               (unsigned long long)stats.msg_budget_bytes);
}

// ---- Failures ----

#ifndef MSG_CUDA

// A copy that fails ends the request with its error, at both ends of a staged message.
static void failing(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct msg_memory memory;
    if (!comm || !msg_memory_make_in(self, &memory, MSG_PLAIN, 400000, self->rank == 0))
        return;
    if (self->rank == 0) {
        emulated_gpu_fail_at(memory.gpu + MSG_GUARD + 200000);
        msg_gives(self, -EIO, leat_send(comm, memory.data, 1, 1, 0, NULL));
        msg_says(self, "a copy has failed");
        emulated_gpu_fail_at(NULL);
    } else {
        msg_gives(self, -EIO, leat_recv(comm, memory.data, 0, 1, NULL, NULL));
        msg_says(self, "the GPU of rank 0");
    }
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    msg_fine(self, leat_collective(comm, &barrier, NULL));
    msg_memory_free(&memory);
}

#endif

// ---- Tests ----

static const struct msg_part parts[] = {
    {"limits", limits},   {"ways", ways},       {"truncated", truncated},
    {"beyond", beyond},   {"matched", matched}, {"budget", budget},
#ifndef MSG_CUDA
    {"failing", failing},
#endif
    {NULL, NULL}};

static void settled(void)
{
#ifndef MSG_CUDA
    assert_true(emulated_gpu_copies() > 100);
#endif
    assert_int_equal(emulated_gpu_lost(), 0);
    assert_int_equal(emulated_gpu_pins(), 0);
}

static void test_messages_of_every_size_between_gpu_and_host(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "limits");
    msg_run_both(parts, 2, "limits");
    settled();
}

static void test_the_ways_of_messages_are_counted(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "ways");
}

static void test_a_receive_that_is_too_small(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "truncated");
}

static void test_a_buffer_that_is_longer_than_its_memory(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "beyond");
}

static void test_a_message_that_a_probe_took_out(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "matched");
}

static void test_many_at_once_in_the_smallest_budget(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "1600K", 1);
    msg_run_both(parts, 2, "budget");
    unsetenv("LEAT_MSG_BUDGET");
    settled();
}

#ifndef MSG_CUDA

static void test_copies_that_fail(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "failing");
}

#endif

int main(int argc, char **argv)
{
#ifdef MSG_CUDA
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || !count)
        return printf("no GPU\n"), 77;
    setenv("LEAT_DEVICE", "cuda", 1);
#endif
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_every_size_between_gpu_and_host),
        cmocka_unit_test(test_the_ways_of_messages_are_counted),
        cmocka_unit_test(test_a_receive_that_is_too_small),
        cmocka_unit_test(test_a_buffer_that_is_longer_than_its_memory),
        cmocka_unit_test(test_a_message_that_a_probe_took_out),
        cmocka_unit_test(test_many_at_once_in_the_smallest_budget),
#ifndef MSG_CUDA
        cmocka_unit_test(test_copies_that_fail),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
