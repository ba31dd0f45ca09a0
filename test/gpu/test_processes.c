// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes, on GPUs: stamped exchanges in all modes, copies, and a process that is
// killed while kernels wait for it.
//
// This program starts itself under the launcher, two ranks on all GPUs there are. Where that is
// one, the modes whose kernels wait are tried all the same, in fewer steps, since CUDA lets the two
// processes take turns. Arguments: a pattern of tests, the number of kills. Under another launcher:
// `mpirun -n 2 PROGRAM modes`.

#define _GNU_SOURCE
static unsigned long long steps_wanted = 200;
#define STAMPS_ONLY_PARTS
#define STAMPS_DEVICE   "cuda"
#define STAMPS_STEPS    steps_wanted
#define STAMPS_POINTS   3000
#define STAMPS_DELAY_NS 3000
#include "multi/test_stamps.c"

#define RANKS 2
#include "multi/parts.h"

#include <signal.h>
#include <sys/wait.h>

#define BYTES      (UINT64_C(5) << 20)
#define TURN_STEPS 20 /* of two processes on one GPU */
#define MODES      5

// ---- the ranks' side ----

static leat_region *make(const char *name, uint64_t bytes, enum leat_memory memory)
{
    leat_region *region = NULL;
    const leat_region_options options = {
        .size = sizeof options, .bytes = bytes, .name = name, .memory = memory};
    CHECK(!leat_region_alloc(job, &options, &region));
    return region;
}

static leat_region *look_up(const char *name)
{
    leat_region *view = NULL;
    const leat_region_options options = {.size = sizeof options, .name = name, .owner = 1 - rank};
    CHECK(!leat_region_register(job, &options, &view));
    return view;
}

static void play_mode(enum leat_mode mode, int zones)
{
    const struct scenario scenario = {
        .mode = mode, .kind = LEAT_PLAN_FORWARDED, .grid = {RANKS, 1, 1}, .zones = zones};
    const struct play play = play_of(&scenario);
    struct rank_thread thread = {
        .job = job, .rank = rank, .rank_count = RANKS, .user = (void *)(uintptr_t)&play};
    uint64_t begin = leat_now_ns();
    body(&thread);
    if (rank == 0)
        printf("mode %d, %d zones: %llu steps in %.3f s\n", mode, zones, steps_wanted,
               (double)(leat_now_ns() - begin) * 1e-9);
    if (thread.failure_count)
        fprintf(stderr, "mode %d, %d zones: %s\n", mode, zones, thread.failure);
    CHECK(!thread.failure_count);
}

static void play_modes(void)
{
    if (leat_gpu_sharers(job, NULL) > 1)
        steps_wanted = TURN_STEPS;
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        for (int zones = 1; zones <= 2; zones++)
            play_mode((enum leat_mode)mode, zones);
}

// As if each had a GPU of its own.
static void play_turns(void)
{
    job->gpus_shared = GPUS_IGNORED;
    play_modes();
}

// Nothing is stored to directly.
static void play_carried(void)
{
    steps_wanted = TURN_STEPS;
    job->gpus_shared = GPUS_IGNORED;
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        play_mode((enum leat_mode)mode, 1);
}

// Up, to the other rank's, and what the other has put there comes down.
static void copy_across(const char *name, leat_region *own)
{
    leat_region *here = make(NULL, BYTES, LEAT_MEMORY_HOST);
    leat_region *device = make(NULL, BYTES, LEAT_MEMORY_DEVICE);
    leat_region *view = look_up(name);
    leat_region_info info = {.size = sizeof info};
    CHECK(!leat_region_info_get(view, &info));
    stamp(here, 10 + (uint64_t)rank);
    CHECK(!copy_all(device, here, BYTES) && !copy_all(view, device, BYTES) && !leat_barrier(job));
    memset(here->address, 0xee, BYTES);
    uint64_t begin = leat_now_ns();
    CHECK(!copy_all(here, own, BYTES) && is_stamped(here, 11 - (uint64_t)rank));
    memset(here->address, 0xee, BYTES);
    CHECK(!copy_all(here, view, BYTES) && is_stamped(here, 10 + (uint64_t)rank));
    if (rank == 0)
        printf("copies of %s by %s, %.3f ms\n", name, info.path,
               (double)(leat_now_ns() - begin) * 1e-6);
    CHECK(!leat_barrier(job));
    leat_region_free(view);
    leat_region_free(device);
    leat_region_free(here);
}

static void play_copies(void)
{
    struct device_memory callers;
    leat_region *registered = NULL;
    leat_path_report report = {.size = sizeof report};
    CHECK(!leat_path_query(job, 1 - rank, 2, &report));
    for (int row = 0; rank == 0 && row < report.row_count; row++)
        printf("%-9s %d %s\n", report.row[row].name, report.row[row].chosen,
               report.row[row].reason);
    leat_region *own = make("allocated", BYTES, LEAT_MEMORY_DEVICE);
    copy_across("allocated", own);
    CHECK(!job->device->ops->alloc(job->device, BYTES, &callers));
    const leat_region_options options = {
        .size = sizeof options, .bytes = BYTES, .address = callers.address, .name = "registered"};
    CHECK(!leat_region_register(job, &options, &registered));
    copy_across("registered", registered);
    leat_region_free(registered);
    leat_region_free(own);
    job->device->ops->free(job->device, &callers);
    CHECK(!leat_barrier(job));
}

static void *kill_oneself(void *user)
{
    uint64_t *when = user;
    struct ranks_random random = {leat_now_ns()};
    usleep(2000 + (unsigned)(ranks_random_word(&random) % 60000));
    __atomic_store_n(when, leat_now_ns(), __ATOMIC_RELEASE);
    kill(getpid(), SIGKILL);
    return NULL;
}

static int exchange_on(struct part *part)
{
    uint64_t done;
    const leat_step step = {.size = sizeof step, .forward_field = X, .reverse_field = F};
    int error = 0;
    if (part->play->scenario->mode == LEAT_MODE_RESIDENT)
        return leat_halo_run(part->halo, &step, 1000000000, &done);
    while (!error) {
        error = leat_halo_exchange(part->halo, X, LEAT_FORWARD);
        if (!error)
            error = leat_halo_exchange(part->halo, F, LEAT_REVERSE);
        if (!error)
            error = leat_device_wait(job, -1);
    }
    return error;
}

// Rank 1 is killed; rank 0 ends with its name, within two seconds, and uses its GPU afterwards.
static void play_kill(enum leat_mode mode)
{
    const struct scenario scenario = {
        .mode = mode, .kind = LEAT_PLAN_FORWARDED, .grid = {RANKS, 1, 1}, .zones = 1};
    const struct play play = play_of(&scenario);
    struct rank_thread thread = {
        .job = job, .rank = rank, .rank_count = RANKS, .user = (void *)(uintptr_t)&play};
    struct part part = {.thread = &thread, .play = &play};
    pthread_t killer;
    job->gpus_shared = GPUS_IGNORED;
    leat_region *when = make("when", 64, LEAT_MEMORY_HOST), *theirs = look_up("when");
    CHECK(build_plan(&part) && open_halo(&part) && !leat_barrier(job));
    if (rank == 1)
        CHECK(!pthread_create(&killer, NULL, kill_oneself, when->address));
    int error = exchange_on(&part);
    double late_s = (double)(leat_now_ns() - *(const uint64_t *)theirs->address) * 1e-9;
    CHECK(rank == 0 && error == -ECONNRESET && strstr(leat_error_detail(), "rank 1"));
    printf("killed in mode %d: %.3f s: %s\n", mode, late_s, leat_error_detail());
    CHECK(late_s < 2);
    leat_halo_free(part.halo);
    leat_region *here = make(NULL, BYTES, LEAT_MEMORY_HOST);
    leat_region *device = make(NULL, BYTES, LEAT_MEMORY_DEVICE);
    stamp(here, 99);
    CHECK(!copy_all(device, here, BYTES));
    memset(here->address, 0xee, BYTES);
    CHECK(!copy_all(here, device, BYTES) && is_stamped(here, 99));
    fflush(stdout);
    leat_close(job, "its peer was killed");
    survive();
}

static int play_part(const char *name)
{
    leat_job_info info = {.size = sizeof info};
    setenv("LEAT_DEVICE", "cuda", 0);
    if (!strcmp(name, "by_proxy"))
        setenv("LEAT_PATHS", "require:proxy", 1);
    if (!strcmp(name, "by_door"))
        setenv("LEAT_PATHS", "forbid:peer", 1);
    CHECK(!leat_open(NULL, &job) && !leat_job_info_get(job, &info));
    rank = info.rank;
    CHECK(info.rank_count == RANKS && !leat_barrier(job));
    if (!strcmp(name, "modes"))
        play_modes();
    else if (!strcmp(name, "turns"))
        play_turns();
    else if (!strncmp(name, "by_", 3))
        play_carried();
    else if (!strcmp(name, "copies"))
        play_copies();
    else if (!strncmp(name, "kill", 4))
        play_kill((enum leat_mode)(name[4] - '0'));
    fflush(stdout);
    leat_close(job, NULL);
    return 0;
}

// ---- the parent's side ----

static int kills = 50;

static void test_copies(void **state)
{
    (void)state;
    run_part("copies");
}

static void test_modes(void **state)
{
    (void)state;
    run_part("modes");
}

static void test_turns(void **state)
{
    (void)state;
    run_part("turns");
}

static void test_by_proxy(void **state)
{
    (void)state;
    run_part("by_proxy");
}

static void test_by_door(void **state)
{
    (void)state;
    run_part("by_door");
}

static void test_a_killed_process(void **state)
{
    (void)state;
    for (int i = 0; i < kills; i++) {
        const char name[] = {'k', 'i', 'l', 'l', (char)('0' + i % MODES), 0};
        run_killed(name);
    }
}

int main(int argc, char **argv)
{
    leat_job *alone = NULL;
    const leat_options options = {.size = sizeof options, .device = "cuda"};
    if (leat_launched()) {
        verdict = argc > 2 ? atoi(argv[2]) : -1;
        return play_part(argc > 1 ? argv[1] : "modes");
    }
    if (leat_open(&options, &alone)) {
        printf("skipped: %s\n", leat_error_detail());
        return 77;
    }
    leat_close(alone, NULL);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (argc > 2)
        kills = atoi(argv[2]);
    setenv("LEAT_DEVICE", "cuda", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),  cmocka_unit_test(test_modes),
        cmocka_unit_test(test_turns),   cmocka_unit_test(test_by_proxy),
        cmocka_unit_test(test_by_door), cmocka_unit_test(test_a_killed_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
