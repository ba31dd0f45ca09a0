// SPDX-License-Identifier: Apache-2.0
// Files to and from memory of GPUs: every path, every kind of memory, stream order, two GPUs.

#ifdef LEAT_HAVE_CUDA

#define _GNU_SOURCE
#include "support/file_stage.h"

#include "device/ops.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <leat/device.h>

#define MIB        (UINT64_C(1) << 20)
#define FILE_BYTES (33 * MIB + 4567)
#define ROOM       (36 * MIB) /* of a buffer */
#define AFTER      4096       /* behind what is read, looked at too */

static void cuda_ok_at(cudaError_t error, const char *what, int line)
{
    if (error != cudaSuccess)
        fail_msg("line %d: %s: %s", line, what, cudaGetErrorString(error));
}
#define cuda_ok(call) cuda_ok_at(call, #call, __LINE__)

static int begin(void **state)
{
    setenv("LEAT_DEVICE", "cuda:0", 1);
    setenv("LEAT_FILE_TASK", "1M", 1);
    setenv("LEAT_FILE_BUFFER", "256K", 1);
    setenv("LEAT_FILE_THREADS", "2", 1);
    setenv("LEAT_FILE_MAPPED_CHUNK", "4M", 1);
    if (stage_begin(state))
        return printf("%s\n", leat_error_detail());
    stage_fill(*state, FILE_BYTES);
    return cudaSetDevice(0) != cudaSuccess;
}

static leat_file *open_as(const struct stage *stage, const char *require, int flags)
{
    const leat_file_options options = {.size = sizeof options,
                                       .require = require,
                                       .cufile_min_bytes = 1,
                                       .direct =
                                           require && !strcmp(require, "odirect") ? "on" : "auto",
                                       .flags = flags};
    leat_file *file = NULL;
    int error = leat_file_open(stage->job, stage->path, &options, &file);
    if (error == -ENOTSUP && require)
        return NULL;
    stage_ok(error);
    return file;
}

// Any memory that CUDA can copy from.
static void check_memory(const struct stage *stage, const void *memory, uint64_t offset,
                         uint64_t count, uint64_t bytes)
{
    cuda_ok(cudaMemcpy(stage->buffer, memory, bytes + AFTER, cudaMemcpyDefault));
    stage_check(stage, offset, count, bytes);
}

static void read_checked(const struct stage *stage, leat_file *file, void *memory, uint64_t offset,
                         uint64_t bytes, uint64_t count)
{
    uint64_t done = 12345;
    memset(stage->buffer, STAGE_POISON, bytes + AFTER);
    cuda_ok(cudaMemcpy(memory, stage->buffer, bytes + AFTER, cudaMemcpyDefault));
    stage_ok(leat_file_read(file, (leat_buffer){.address = memory}, offset, bytes, &done));
    assert_int_equal(done, count);
    check_memory(stage, memory, offset, count, bytes);
}

static uint64_t read_shapes(const struct stage *stage, leat_file *file, char *memory)
{
    static const struct {
        uint64_t shift, offset, bytes, count;
    } reads[] = {
        {0, 0, FILE_BYTES, FILE_BYTES},
        {0, 4096, 3 * MIB, 3 * MIB},
        {1, 4095, 3000001, 3000001},
        {8, MIB + 1, 2 * MIB - 2, 2 * MIB - 2},
        {16, FILE_BYTES - 4567, 2 * MIB, 4567},
        {4, FILE_BYTES, MIB, 0},
        {2, 513, 1, 1},
    };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        read_checked(stage, file, memory + reads[i].shift, reads[i].offset, reads[i].bytes,
                     reads[i].count);
        sum += reads[i].count;
    }
    return sum;
}

static uint64_t went(leat_file *file, enum file_row row)
{
    leat_file_info info = {.size = sizeof info};
    stage_ok(leat_file_info_get(file, NULL, &info));
    return info.path[row].bytes;
}

// ---- Paths ----

static void read_by(const struct stage *stage, const char *path, enum file_row row)
{
    char *memory = NULL;
    leat_file *file = open_as(stage, path, LEAT_FILE_READ);
    if (!file) {
        printf("%s: %s\n", path, leat_error_detail());
        skip();
    }
    cuda_ok(cudaMalloc((void **)&memory, ROOM));
    uint64_t sum = read_shapes(stage, file, memory);
    assert_int_equal(went(file, row), sum);
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
}

static void reads_through_buffers(void **state)
{
    read_by(*state, "buffered", FILE_BUFFERED);
}

static void reads_past_the_page_cache(void **state)
{
    read_by(*state, "odirect", FILE_ODIRECT);
}

static void reads_of_mapped_pages(void **state)
{
    read_by(*state, "mapped", FILE_MAPPED);
}

static void a_cached_file_is_mapped_by_few_threads(void **state)
{
    struct stage *stage = *state;
    char *memory = NULL;
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    cuda_ok(cudaMalloc((void **)&memory, ROOM));
    for (int i = 0; i < 10; i++)
        read_checked(stage, file, memory, 0, FILE_BYTES, FILE_BYTES);
    uint64_t mapped = went(file, FILE_MAPPED);
    assert_int_equal(mapped + went(file, FILE_BUFFERED) + went(file, FILE_CUFILE), 10 * FILE_BYTES);
    assert_true(mapped > 0 || went(file, FILE_CUFILE) > 0);
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
}

static void write_by(const struct stage *stage, const char *path, enum file_row row)
{
    char *memory = NULL;
    uint64_t done = 0;
    leat_file *file = open_as(stage, path, LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
    if (!file) {
        printf("%s: %s\n", path, leat_error_detail());
        skip();
    }
    cuda_ok(cudaMalloc((void **)&memory, ROOM));
    stage_stamp(stage, 0, FILE_BYTES);
    cuda_ok(cudaMemcpy(memory + 8, stage->buffer, FILE_BYTES, cudaMemcpyDefault));
    stage_ok(leat_file_write(file, (leat_buffer){.address = memory + 8}, 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    // The end that is no whole page goes through the page cache.
    assert_int_equal(went(file, row), FILE_BYTES - (row == FILE_ODIRECT ? FILE_BYTES % 4096 : 0));
    stage_ok(leat_file_sync(file));
    stage_check_file(stage, FILE_BYTES);
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
}

static void writes_through_buffers(void **state)
{
    write_by(*state, "buffered", FILE_BUFFERED);
}

static void writes_past_the_page_cache(void **state)
{
    write_by(*state, "odirect", FILE_ODIRECT);
}

// ---- Kinds of memory ----

struct driver {
    CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags);
    CUresult (*release)(CUmemGenericAllocationHandle handle);
    CUresult (*reserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr at,
                        unsigned long long flags);
    CUresult (*unreserve)(CUdeviceptr address, size_t bytes);
    CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags);
    CUresult (*unmap)(CUdeviceptr address, size_t bytes);
    CUresult (*access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                       size_t count);
};

static void load(const char *name, void *function, size_t bytes)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult found;
    cuda_ok(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    memcpy(function, &entry, bytes);
}

static struct driver load_driver(void)
{
    struct driver driver;
    load("cuMemCreate", &driver.create, sizeof driver.create);
    load("cuMemRelease", &driver.release, sizeof driver.release);
    load("cuMemAddressReserve", &driver.reserve, sizeof driver.reserve);
    load("cuMemAddressFree", &driver.unreserve, sizeof driver.unreserve);
    load("cuMemMap", &driver.map, sizeof driver.map);
    load("cuMemUnmap", &driver.unmap, sizeof driver.unmap);
    load("cuMemSetAccess", &driver.access, sizeof driver.access);
    return driver;
}

// Pieces of 2 MiB, one behind the other.
static void map_pieces(const struct driver *driver, CUdeviceptr at, uint64_t bytes)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    for (uint64_t done = 0; done < bytes; done += 2 * MIB) {
        CUmemGenericAllocationHandle piece;
        assert_int_equal(driver->create(&piece, 2 * MIB, &properties, 0), CUDA_SUCCESS);
        assert_int_equal(driver->map(at + done, 2 * MIB, 0, piece, 0), CUDA_SUCCESS);
        assert_int_equal(driver->release(piece), CUDA_SUCCESS);
    }
}

static void read_and_write(struct stage *stage, void *memory, enum copies_memory kind,
                           const char *made_by)
{
    struct copies_found found;
    stage_ok(stage->job->device->ops->copies->find(stage->job->device, memory, FILE_BYTES, &found));
    assert_int_equal(found.kind, kind);
    assert_string_equal(found.made_by, made_by);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    read_checked(stage, file, memory, 0, FILE_BYTES, FILE_BYTES);
    read_checked(stage, file, memory, 4097, 300000, 300000);
    stage_ok(leat_file_close(file));
    uint64_t done = 0;
    file = open_as(stage, NULL, LEAT_FILE_WRITE | LEAT_FILE_TRUNCATE);
    stage_stamp(stage, 0, FILE_BYTES);
    cuda_ok(cudaMemcpy(memory, stage->buffer, FILE_BYTES, cudaMemcpyDefault));
    stage_ok(leat_file_write(file, (leat_buffer){.address = memory}, 0, FILE_BYTES, &done));
    assert_int_equal(done, FILE_BYTES);
    stage_ok(leat_file_close(file));
    stage_check_file(stage, FILE_BYTES);
}

static void every_kind_of_memory_is_known_by_name(void **state)
{
    struct stage *stage = *state;
    void *memory = NULL;
    cuda_ok(cudaMalloc(&memory, ROOM));
    read_and_write(stage, memory, COPIES_DEVICE, "cudaMalloc");
    cuda_ok(cudaFree(memory));
    cuda_ok(cudaMallocAsync(&memory, ROOM, 0));
    cuda_ok(cudaStreamSynchronize(0));
    read_and_write(stage, memory, COPIES_DEVICE, "cudaMallocAsync");
    cuda_ok(cudaFreeAsync(memory, 0));
    cuda_ok(cudaMallocManaged(&memory, ROOM, cudaMemAttachGlobal));
    read_and_write(stage, memory, COPIES_MANAGED, "cudaMallocManaged");
    cuda_ok(cudaFree(memory));
    cuda_ok(cudaMallocHost(&memory, ROOM));
    read_and_write(stage, memory, COPIES_PINNED, "cudaHostAlloc or cudaHostRegister");
    cuda_ok(cudaFreeHost(memory));
    assert_int_equal(posix_memalign(&memory, 4096, ROOM), 0);
    read_and_write(stage, memory, COPIES_HOST, "the host");
    cuda_ok(cudaHostRegister(memory, ROOM, cudaHostRegisterDefault));
    read_and_write(stage, memory, COPIES_PINNED, "cudaHostAlloc or cudaHostRegister");
    cuda_ok(cudaHostUnregister(memory));
    free(memory);
}

static void mapped_memory_is_one_buffer(void **state)
{
    const struct driver driver = load_driver();
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = 0;
    assert_int_equal(driver.reserve(&at, ROOM, 0, 0, 0), CUDA_SUCCESS);
    map_pieces(&driver, at, ROOM);
    assert_int_equal(driver.access(at, ROOM, &access, 1), CUDA_SUCCESS);
    read_and_write(*state, (void *)(uintptr_t)at, COPIES_DEVICE, "cuMemMap");
    assert_int_equal(driver.unmap(at, ROOM), CUDA_SUCCESS);
    assert_int_equal(driver.unreserve(at, ROOM), CUDA_SUCCESS);
}

static void refused(const struct stage *stage, void *memory, uint64_t bytes, int error,
                    const char *words)
{
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    uint64_t done = 1;
    int got = leat_file_read(file, (leat_buffer){.address = memory}, 0, bytes, &done);
    if (got != error || !strstr(leat_error_detail(), words))
        fail_msg("%d: %s", got, got ? leat_error_detail() : "it was taken");
    assert_int_equal(done, 0);
    stage_ok(leat_file_close(file));
}

static void what_cannot_be_used_is_refused_by_name(void **state)
{
    const struct driver driver = load_driver();
    CUdeviceptr at = 0;
    void *memory = NULL;
    cuda_ok(cudaMalloc(&memory, 2 * MIB));
    refused(*state, memory, 30 * MIB, -ERANGE, "made by cudaMalloc on GPU 0 ends");
    cuda_ok(cudaFree(memory));
    assert_int_equal(driver.reserve(&at, 8 * MIB, 0, 0, 0), CUDA_SUCCESS);
    // The driver does not tell these from any other addresses with nothing behind them.
    refused(*state, (void *)(uintptr_t)at, 4 * MIB, -EFAULT, "Bad address");
    map_pieces(&driver, at, 4 * MIB);
    refused(*state, (void *)(uintptr_t)at, 4 * MIB, -ENOTSUP, "no access");
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_int_equal(driver.access(at, 4 * MIB, &access, 1), CUDA_SUCCESS);
    refused(*state, (void *)(uintptr_t)at, 6 * MIB, -ERANGE, "made by cuMemMap on GPU 0 ends");
    assert_int_equal(driver.unmap(at, 4 * MIB), CUDA_SUCCESS);
    assert_int_equal(driver.unreserve(at, 8 * MIB), CUDA_SUCCESS);
}

// ---- Stream order ----

static void calls_keep_the_order_of_the_stream(void **state)
{
    enum { CALLS = 100 };
    struct stage *stage = *state;
    leat_device_info device = {.size = sizeof device};
    leat_file_request *request[CALLS];
    static leat_file_range range[CALLS];
    const uint64_t each = 300001;
    char *memory = NULL, *kept = NULL;
    stage_ok(leat_device_info_get(stage->job, &device));
    cuda_ok(cudaMalloc((void **)&memory, each));
    cuda_ok(cudaMalloc((void **)&kept, each * CALLS + AFTER));
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    // One buffer for all: each call's bytes are copied away before the next one's come.
    for (int i = 0; i < CALLS; i++) {
        range[i] = (leat_file_range){
            .file_offset = each * (uint64_t)i, .bytes = each, .buffer = {.address = memory}};
        const leat_file_call call = {
            .size = sizeof call, .ranges = &range[i], .range_count = 1, .in_stream = 1};
        cuda_ok(cudaMemsetAsync(memory, STAGE_POISON, each, device.stream));
        stage_ok(leat_file_start(file, &call, &request[i]));
        cuda_ok(cudaMemcpyAsync(kept + each * (uint64_t)i, memory, each, cudaMemcpyDefault,
                                device.stream));
    }
    stage_ok(leat_device_wait(stage->job, -1));
    for (int i = 0; i < CALLS; i++) {
        uint64_t done = 0;
        stage_ok(leat_file_wait(request[i], -1, &done));
        assert_int_equal(done, each);
    }
    cuda_ok(cudaMemset(kept + each * CALLS, STAGE_POISON, AFTER));
    check_memory(stage, kept, 0, each * CALLS, each * CALLS);
    cuda_ok(cudaFree(memory));
    cuda_ok(cudaFree(kept));
    stage_ok(leat_file_close(file));
}

static void a_failed_call_lets_the_stream_go_on(void **state)
{
    struct stage *stage = *state;
    leat_device_info device = {.size = sizeof device};
    leat_file_request *request = NULL;
    char *memory = NULL;
    stage_ok(leat_device_info_get(stage->job, &device));
    cuda_ok(cudaMalloc((void **)&memory, MIB));
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    leat_file_range range = {
        .file_offset = FILE_BYTES, .bytes = MIB, .buffer = {.address = memory}, .done = 7};
    const leat_file_call call = {
        .size = sizeof call, .ranges = &range, .range_count = 1, .in_stream = 1};
    stage_ok(leat_file_start(file, &call, &request));
    stage_ok(leat_device_wait(stage->job, -1));
    stage_ok(leat_file_wait(request, 0, NULL));
    assert_int_equal(range.done, 0);
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
}

// ---- Many ranges ----

static void many_ranges_come_to_their_places(void **state)
{
    enum { RANGES = 6000 };
    struct stage *stage = *state;
    static leat_file_range range[RANGES];
    unsigned char *wanted = malloc(ROOM), *got = malloc(ROOM);
    char *memory = NULL;
    unsigned seed = 11;
    uint64_t place = 0, sum = 0, done = 0;
    assert_true(wanted && got);
    cuda_ok(cudaMalloc((void **)&memory, ROOM));
    cuda_ok(cudaMemset(memory, STAGE_POISON, ROOM));
    memset(wanted, STAGE_POISON, ROOM);
    for (int i = 0; i < RANGES; i++) {
        uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % 5000;
        uint64_t offset = (uint64_t)rand_r(&seed) % (FILE_BYTES - bytes);
        range[i] = (leat_file_range){
            .file_offset = offset, .bytes = bytes, .buffer = {.address = memory + place}};
        for (uint64_t b = 0; b < bytes; b++)
            wanted[place + b] = stage_byte(offset + b);
        place += bytes + (uint64_t)rand_r(&seed) % 40;
        sum += bytes;
    }
    assert_true(place < ROOM);
    leat_file *file = open_as(stage, NULL, LEAT_FILE_READ);
    const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = RANGES};
    leat_file_request *request = NULL;
    stage_ok(leat_file_start(file, &call, &request));
    stage_ok(leat_file_wait(request, -1, &done));
    assert_int_equal(done, sum);
    cuda_ok(cudaMemcpy(got, memory, ROOM, cudaMemcpyDefault));
    assert_memory_equal(got, wanted, ROOM);
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
    free(wanted);
    free(got);
}

// ---- Two GPUs ----

static void memory_of_another_gpu_is_reached(void **state)
{
    struct stage *stage = *state;
    int count = 0;
    char *memory[2];
    cuda_ok(cudaGetDeviceCount(&count));
    if (count < 2) {
        printf("one GPU only\n");
        skip();
    }
    for (int gpu = 0; gpu < 2; gpu++) {
        cuda_ok(cudaSetDevice(gpu));
        cuda_ok(cudaMalloc((void **)&memory[gpu], ROOM));
    }
    for (int path = 0; path < 2; path++) {
        leat_file *file = open_as(stage, path ? "mapped" : "buffered", LEAT_FILE_READ);
        read_shapes(stage, file, memory[1]);
        read_shapes(stage, file, memory[0]);
        // Both in one call, piece by piece, so that lanes change over.
        leat_file_range range[16];
        leat_file_request *request = NULL;
        for (int i = 0; i < 16; i++)
            range[i] = (leat_file_range){
                .file_offset = (uint64_t)i * 2 * MIB,
                .bytes = 2 * MIB,
                .buffer = {.address = memory[i % 2], .offset = (uint64_t)i * MIB}};
        const leat_file_call call = {.size = sizeof call, .ranges = range, .range_count = 16};
        stage_ok(leat_file_start(file, &call, &request));
        stage_ok(leat_file_wait(request, -1, NULL));
        for (int i = 0; i < 16; i++) {
            cuda_ok(cudaMemcpy(stage->buffer, memory[i % 2] + (uint64_t)i * MIB, 2 * MIB,
                               cudaMemcpyDefault));
            for (uint64_t b = 0; b < 2 * MIB; b++)
                assert_int_equal(stage->buffer[b], stage_byte((uint64_t)i * 2 * MIB + b));
        }
        stage_ok(leat_file_close(file));
    }
    for (int gpu = 0; gpu < 2; gpu++)
        cuda_ok(cudaFree(memory[gpu]));
    cuda_ok(cudaSetDevice(0));
}

// ---- cuFile ----

static void count_requests(const struct stage *stage, leat_file *file, char *memory,
                           const char *what)
{
    leat_cufile_info before = {.size = sizeof before}, after = {.size = sizeof after};
    leat_file_cut cut;
    const uint64_t bytes = 32 * MIB;
    stage_ok(leat_cufile_info_get(stage->job, &before));
    read_checked(stage, file, memory, 0, bytes, bytes);
    stage_ok(leat_cufile_info_get(stage->job, &after));
    stage_ok(leat_file_cut_get(file, bytes, &cut));
    printf("%s: %llu tasks of %llu requests; cuFile counted nvfs %lld, p2p %lld, posix %lld\n",
           what, (unsigned long long)cut.tasks, (unsigned long long)cut.requests_per_task,
           (long long)(after.nvfs_operations - before.nvfs_operations),
           (long long)(after.p2p_operations - before.p2p_operations),
           (long long)(after.posix_operations - before.posix_operations));
    if (after.nvfs_operations != LEAT_FILE_UNKNOWN)
        assert_true(after.nvfs_operations + after.p2p_operations + after.posix_operations >
                    before.nvfs_operations + before.p2p_operations + before.posix_operations);
}

static void cufile_reads_and_counts(void **state)
{
    struct stage *stage = *state;
    leat_cufile_info info = {.size = sizeof info};
    char *memory = NULL;
    stage_ok(leat_cufile_info_get(stage->job, &info));
    leat_file *file = open_as(stage, "cufile", LEAT_FILE_READ);
    if (!file) {
        printf("cuFile %d: %s\n", info.version, leat_error_detail());
        skip();
    }
    cuda_ok(cudaMalloc((void **)&memory, ROOM));
    uint64_t sum = read_shapes(stage, file, memory);
    assert_int_equal(went(file, FILE_CUFILE), sum);
    count_requests(stage, file, memory, "unregistered");
    stage_ok(leat_file_buffer_register(stage->job, (leat_buffer){.address = memory}, ROOM));
    count_requests(stage, file, memory, "registered");
    stage_ok(leat_file_buffer_deregister(stage->job, (leat_buffer){.address = memory}));
    cuda_ok(cudaFree(memory));
    stage_ok(leat_file_close(file));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, stage_end)

int main(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        printf("skipped: there is no GPU\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        TEST(reads_through_buffers),
        TEST(reads_past_the_page_cache),
        TEST(reads_of_mapped_pages),
        TEST(a_cached_file_is_mapped_by_few_threads),
        TEST(writes_through_buffers),
        TEST(writes_past_the_page_cache),
        TEST(every_kind_of_memory_is_known_by_name),
        TEST(mapped_memory_is_one_buffer),
        TEST(what_cannot_be_used_is_refused_by_name),
        TEST(calls_keep_the_order_of_the_stream),
        TEST(a_failed_call_lets_the_stream_go_on),
        TEST(many_ranges_come_to_their_places),
        TEST(memory_of_another_gpu_is_reached),
        TEST(cufile_reads_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
    printf("skipped: this build has no CUDA device\n");
    return 77;
}

#endif
