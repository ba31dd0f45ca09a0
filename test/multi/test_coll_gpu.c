// SPDX-License-Identifier: Apache-2.0
// Collectives with buffers in memory of a GPU, which no load or store may touch.
//
// The GPU is emulated (support/emulated_gpu.h). Every kind, type and algorithm runs on ranks as
// threads and as processes, with both buffers on GPUs, one of them, or a rank's in the host's
// memory. Advantage: an algorithm that touches a buffer by itself faults. Disadvantage: kernels
// that combine are tried in test/gpu only.

// Both headers have a structure of that name.
#define msg_memory msg_stamped_memory
#include "multi/msg_ranks.h"
#undef msg_memory

#include "multi/coll_case.h"

// ---- Collectives ----

static uint8_t *to_gpu(const uint8_t *from, uint64_t bytes, uint8_t **host)
{
    uint8_t *gpu = gpu_alloc(bytes + 2 * CASE_GUARD, host);
    if (gpu)
        memcpy(*host, from, bytes + 2 * CASE_GUARD);
    if (gpu)
        gpu_push(gpu, *host, bytes + 2 * CASE_GUARD);
    return gpu;
}

// `gpu` bits: the send buffer, the receive buffer.
static bool collective(struct rank_thread *self, leat_comm *comm, const struct coll_case *test,
                       unsigned gpu)
{
    struct case_memory memory = {0};
    leat_collective_options options;
    char text[200];
    case_make(test, &memory, self->rank_count, self->rank);
    case_options(test, &memory, self->rank_count, self->rank, &options);
    uint8_t *sent = NULL, *got = memory.receive;
    uint8_t *send = gpu & 1 ? to_gpu(memory.send, memory.send_bytes, &sent) : NULL;
    uint8_t *receive = gpu & 2 ? to_gpu(memory.receive, memory.receive_bytes, &got) : NULL;
    if (send && options.send && options.send != LEAT_IN_PLACE)
        options.send = send + CASE_GUARD;
    if (receive)
        options.receive = receive + CASE_GUARD;
    bool fine = msg_fine(self, leat_collective(comm, &options, NULL));
    if (receive)
        gpu_pull(receive, got, memory.receive_bytes + 2 * CASE_GUARD);
    uint64_t compared = CASE_GUARD + memory.receive_bytes;
    if (test->kind == LEAT_REDUCE_SCATTER && case_in_place(test, self->rank))
        compared = CASE_GUARD + memory.counts[1][0] * case_element[test->values];
    uint64_t wrong = 0;
    while (wrong < compared && got[wrong] == memory.expected[wrong])
        wrong++;
    fine = fine && rank_check(self, wrong == compared, "%s: byte %lld, buffers %u",
                              case_text(test, self->rank_count, text, sizeof text),
                              (long long)wrong - CASE_GUARD, gpu);
    if (send)
        gpu_free(send, sent);
    if (receive)
        gpu_free(receive, got);
    case_drop(&memory);
    return fine;
}

static void collectives(struct rank_thread *self)
{
    static const uint64_t counts[] = {1, 4, 700, 9001};
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    uint64_t n = 0;
    for (enum leat_collective_kind kind = LEAT_BROADCAST; kind < LEAT_COLLECTIVE_COUNT; kind++)
        for (int values = 0; values < VALUES_COUNT; values++)
            for (int c = 0; c < 4; c++, n++) {
                struct coll_case test = {.kind = kind,
                                         .values = (enum case_values)values,
                                         .root = (int)(n % (uint64_t)self->rank_count),
                                         .count = counts[c],
                                         .in_place = n % 3 == 0};
                unsigned gpu = n % 5 == 4 ? 1 + (unsigned)(n / 5 % 2) : 3;
                // Now and then a rank has its buffers in the host's memory.
                if (n % 7 == 6 && self->rank == 1)
                    gpu = 0;
                if ((MSG_FEWER && c == 3 && values) || !comm)
                    continue;
                if (!collective(self, comm, &test, gpu))
                    return;
            }
}

// Every algorithm by name.
static void algorithms(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    for (enum leat_collective_kind kind = LEAT_BROADCAST; kind < LEAT_COLLECTIVE_COUNT; kind++) {
        int count;
        const char *const *name = msg_algorithms(kind, &count);
        for (int i = 0; comm && i < count; i++) {
            struct coll_case test = {.kind = kind,
                                     .values = (enum case_values)(i % 2),
                                     .count = 9000,
                                     .uneven = i % 2 && kind >= LEAT_ALLGATHER &&
                                               kind != LEAT_SCAN && kind != LEAT_EXCLUSIVE_SCAN,
                                     .algorithm = name[i]};
            if (!collective(self, comm, &test, 3))
                return;
        }
    }
}

// In place and uneven: what is moved to its place overlaps.
static void overlapping(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    for (uint64_t count = 1; comm && count < 60000; count = count * 5 + 1) {
        struct coll_case test = {
            .kind = LEAT_REDUCE_SCATTER, .count = count, .in_place = true, .uneven = true};
        if (!collective(self, comm, &test, 3))
            return;
    }
}

// So large that the device lends its memory, and the next one finds it taken.
static void large(struct rank_thread *self)
{
    gpu_begin(self->job);
    leat_comm *comm = msg_world(self);
    struct coll_case test = {.kind = LEAT_ALLREDUCE, .values = VALUES_INT64_MAXIMUM};
    for (int i = 0; comm && i < 3; i++) {
        test.count = (UINT64_C(9) << 17) + (uint64_t)i;
        test.in_place = i == 1;
        test.algorithm = i == 2 ? "ring" : NULL;
        if (!collective(self, comm, &test, i == 2 && self->rank ? 0 : 3))
            return;
    }
}

// ---- Tests ----

static const struct msg_part parts[] = {{"collectives", collectives},
                                        {"algorithms", algorithms},
                                        {"overlapping", overlapping},
                                        {"large", large},
                                        {NULL, NULL}};

static void test_every_collective(void **state)
{
    (void)state;
    msg_run_both(parts, 3, "collectives");
    assert_int_equal(emulated_gpu_lost(), 0);
    assert_int_equal(emulated_gpu_pins(), 0);
}

static void test_every_algorithm(void **state)
{
    (void)state;
    msg_run_threads(parts, 4, "algorithms");
}

static void test_blocks_that_overlap_where_they_belong(void **state)
{
    (void)state;
    msg_run_threads(parts, 3, "overlapping");
}

static void test_large_reductions(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "large");
}

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
        cmocka_unit_test(test_every_collective),
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_large_reductions),
        cmocka_unit_test(test_blocks_that_overlap_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
