// SPDX-License-Identifier: Apache-2.0
// Processes that deal with each other's GPU memory, on GPUs that are none (fake_gpu.h): exchanges
// in all modes, copies, memory that cannot be given away, memory that is freed, owners that die.
//
// This program starts itself under the launcher and plays one part a rank. A rank that finds
// something wrong says so on standard error and exits with 1.

#define _GNU_SOURCE
#define STAMPS_ONLY_PARTS
#define STAMPS_DEVICE   "cpu"
#define STAMPS_STEPS    20
#define STAMPS_POINTS   150
#define STAMPS_DELAY_NS 5000
#include "multi/test_stamps.c"

#include "multi/fake_gpu.h"

#include "transport/door_internal.h"

#define RANKS 2
#include "multi/parts.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define BYTES (UINT64_C(5) << 18) /* more than one piece of a copy by the owner's door */

// ---- the ranks' side ----

static bool says(const char *words)
{
    if (strstr(leat_error_detail(), words))
        return true;
    fprintf(stderr, "rank %d: \"%s\" is not in: %s\n", rank, words, leat_error_detail());
    return false;
}

static leat_region *on_gpu(const char *name, uint64_t bytes)
{
    leat_region *region = NULL;
    const leat_region_options options = {
        .size = sizeof options, .bytes = bytes, .name = name, .memory = LEAT_MEMORY_DEVICE};
    CHECK(!leat_region_alloc(job, &options, &region));
    return region;
}

static leat_region *of_host(uint64_t bytes)
{
    leat_region *region = NULL;
    const leat_region_options options = {.size = sizeof options, .bytes = bytes};
    CHECK(!leat_region_alloc(job, &options, &region));
    return region;
}

static int look_up(const char *name, leat_region **view)
{
    const leat_region_options options = {.size = sizeof options, .name = name, .owner = 1 - rank};
    return leat_region_register(job, &options, view);
}

static void play_modes(void)
{
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        for (int zones = 1; zones <= 2; zones++) {
            const struct scenario scenario = {.mode = (enum leat_mode)mode,
                                              .kind = LEAT_PLAN_FORWARDED,
                                              .grid = {RANKS, 1, 1},
                                              .zones = zones};
            const struct play play = play_of(&scenario);
            struct rank_thread thread = {
                .job = job, .rank = rank, .rank_count = RANKS, .user = (void *)(uintptr_t)&play};
            body(&thread);
            if (thread.failure_count)
                fprintf(stderr, "mode %d, %d zones: %s\n", mode, zones, thread.failure);
            CHECK(!thread.failure_count);
        }
}

// The row that halos counted their bytes under.
static uint64_t bytes_by(const char *path)
{
    leat_stats stats = {.size = sizeof stats};
    CHECK(!leat_stats_read(job, -1, &stats));
    for (int i = 0; i < stats.path_count; i++)
        if (!strcmp(stats.path[i].path, path))
            return stats.path[i].bytes;
    return 0;
}

static void play_exchanges(void)
{
    play_modes();
    CHECK(bytes_by("peer") > 0 && bytes_by("hostcopy") == 0);
    CHECK(fake_gpu.taken > 0);
}

static void play_exchanges_by_proxy(void)
{
    leat_stats stats = {.size = sizeof stats};
    play_modes();
    CHECK(!leat_stats_read(job, -1, &stats) && stats.proxy_orders > 0);
    CHECK(bytes_by("peer") > 0 && bytes_by("hostcopy") == 0);
}

static void play_exchanges_by_host(void)
{
    play_modes();
    CHECK(bytes_by("hostcopy") > 0 && bytes_by("peer") == 0);
    CHECK(fake_gpu.taken == 0);
}

static const char *reason_of(leat_path_report *report, int kind, const char *row, bool *chosen)
{
    *report = (leat_path_report){.size = sizeof *report};
    CHECK(!leat_path_query(job, 1 - rank, kind, report));
    for (int i = 0; i < report->row_count; i++)
        if (!strcmp(report->row[i].name, row)) {
            *chosen = report->row[i].chosen;
            return report->row[i].reason;
        }
    return "";
}

static void copy_both_ways(const char *name, uint64_t seed)
{
    leat_region *view = NULL, *here = of_host(BYTES), *own = on_gpu(NULL, BYTES);
    CHECK(!look_up(name, &view));
    CHECK(!copy_all(here, view, BYTES) && is_stamped(here, seed + 1 - (uint64_t)rank));
    CHECK(!copy_all(own, view, BYTES) && is_stamped(own, seed + 1 - (uint64_t)rank));
    CHECK(!leat_barrier(job));
    stamp(here, seed + 10 + (uint64_t)rank);
    CHECK(!copy_all(view, here, BYTES));
    CHECK(!leat_barrier(job));
    leat_region_free(view);
    leat_region_free(here);
    leat_region_free(own);
}

static void play_copies(void)
{
    leat_region *own = on_gpu("shared", BYTES);
    leat_path_report report;
    bool chosen;
    stamp(own, 100 + (uint64_t)rank);
    CHECK(!leat_barrier(job));
    reason_of(&report, 2, "peer", &chosen);
    CHECK(chosen);
    copy_both_ways("shared", 100);
    CHECK(is_stamped(own, 111 - (uint64_t)rank));
    CHECK(!leat_barrier(job));
}

// What the caller has registered, and what cannot be given away, goes through the host.
static void play_host_copies(int kind, leat_region *own, const char *why)
{
    leat_path_report report;
    bool chosen;
    stamp(own, 100 + (uint64_t)rank);
    CHECK(!leat_barrier(job));
    if (!strstr(reason_of(&report, kind, "peer", &chosen), why) || chosen) {
        fprintf(stderr, "not %s: %s\n", why, reason_of(&report, kind, "peer", &chosen));
        CHECK(false);
    }
    CHECK(strstr(reason_of(&report, kind, "hostcopy", &chosen), "host") && chosen);
    copy_both_ways("shared", 100);
    CHECK(is_stamped(own, 111 - (uint64_t)rank));
    CHECK(fake_gpu.given == 0 && fake_gpu.taken == 0);
    CHECK(!leat_barrier(job));
}

static void play_registered(void)
{
    static uint64_t words[BYTES / 8];
    leat_region *own = NULL;
    fake_gpu.callers = (const char *)words;
    fake_gpu.callers_bytes = sizeof words;
    const leat_region_options options = {
        .size = sizeof options, .bytes = sizeof words, .address = words, .name = "shared"};
    CHECK(!leat_region_register(job, &options, &own));
    play_host_copies(3, own, "registered");
}

static void play_unexported(void)
{
    play_host_copies(2, on_gpu("shared", BYTES), "gives nothing away");
}

// Mapped once for all views, and again for a new allocation; what was freed is an error by name.
static void play_freed(void)
{
    leat_region *first = NULL, *second = NULL, *own = on_gpu("short", 8192), *here = of_host(8192);
    stamp(own, 7);
    CHECK(!look_up("short", &first) && !look_up("short", &second));
    CHECK(fake_gpu.taken == 1 && first->address == second->address && is_stamped(first, 7));
    leat_region_free(second);
    CHECK(!leat_barrier(job));
    leat_region_free(own);
    CHECK(!leat_barrier(job));
    CHECK(copy_all(here, first, 8192) == -ESTALE && says("freed") &&
          says(rank ? "rank 0" : "rank 1"));
    CHECK(is_stamped(first, 7)); // nobody else's memory
    CHECK(fake_gpu.dropped == 0);
    // Asked for by a key from before.
    const struct region_key key = leat_region_key(first);
    leat_region *late = NULL;
    CHECK(leat_region_attach(job, &key, &late) == -ESTALE && !late);
    struct leat_region again = *first;
    CHECK(leat_import(&again) == 0); // the mapping is still known by its serial
    leat_import_drop(&again);
    struct door_ask ask = {.verb = DOOR_GIVE};
    struct door_answer answer;
    CHECK(leat_door_ask(first, &ask, &answer, NULL) == -ESTALE && says("freed"));
    leat_region_free(first);
    own = on_gpu("short", 8192);
    stamp(own, 8);
    CHECK(!leat_barrier(job));
    CHECK(!look_up("short", &first) && is_stamped(first, 8));
    CHECK(fake_gpu.taken == 2 && fake_gpu.dropped == 1);
    CHECK(!leat_barrier(job));
}

// What no rank would say is answered by an error, or not at all, and leaves the door open.
static void play_strangers(void)
{
    leat_region *own = on_gpu("door", 8192), *plain = of_host(64), *view = NULL;
    stamp(own, 3);
    CHECK(!look_up("door", &view) && !leat_door_stage(job));
    struct door_answer answer;
    struct door_ask ask = {
        .verb = DOOR_READ, .offset = 8000, .bytes = 200, .stage = job->door->stage};
    CHECK(leat_door_ask(view, &ask, &answer, NULL) == -ERANGE && says("do not fit"));
    ask = (struct door_ask){.verb = DOOR_READ, .bytes = 64, .stage = UINT64_MAX - 8};
    CHECK(leat_door_ask(view, &ask, &answer, NULL) == -EPROTO && says("arena"));
    ask = (struct door_ask){.verb = DOOR_WRITE,
                            .stage = job->door->stage,
                            .signal_slot = UINT32_MAX,
                            .signal_generation = 1};
    CHECK(leat_door_ask(view, &ask, &answer, NULL) == -EPROTO && says("slot"));
    struct leat_region wrong = *view;
    wrong.slot = plain->slot;
    wrong.generation = plain->generation;
    ask = (struct door_ask){.verb = DOOR_GIVE};
    CHECK(leat_door_ask(&wrong, &ask, &answer, NULL) == -EINVAL && says("not a GPU's"));
    ask = (struct door_ask){.verb = 77};
    CHECK(leat_door_ask(view, &ask, &answer, NULL) == -ECONNRESET);
    ask = (struct door_ask){.verb = DOOR_READ, .bytes = 8192, .stage = job->door->stage};
    CHECK(!leat_door_ask(view, &ask, &answer, NULL));
    CHECK(!memcmp((char *)job->arena.head + job->door->stage, own->address, 8192));
    CHECK(!leat_barrier(job));
    // Another process, if of the same user, is shown out.
    pid_t child = fork();
    if (!child) {
        struct sockaddr_un address;
        char byte;
        socklen_t length = leat_door_address(leat_arena_head(job, 1 - rank)->gpu.door, &address);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, length))
            _exit(1);
        send(fd, &ask, sizeof ask, MSG_NOSIGNAL);
        _exit(recv(fd, &byte, 1, 0) > 0 ? 2 : 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(!leat_barrier(job));
}

static void play_shared(void)
{
    leat_halo_info info = {.size = sizeof info};
    const struct scenario scenario = {
        .mode = LEAT_MODE_FUSED, .kind = LEAT_PLAN_FORWARDED, .grid = {RANKS, 1, 1}, .zones = 1};
    const struct play play = play_of(&scenario);
    struct rank_thread thread = {
        .job = job, .rank = rank, .rank_count = RANKS, .user = (void *)(uintptr_t)&play};
    struct part part = {.thread = &thread, .play = &play};
    CHECK(build_plan(&part) && open_halo(&part) && prepare_stamps(&part));
    CHECK(job->gpus_shared == GPUS_SHARED);
    CHECK(!leat_halo_info_get(part.halo, &info) && !strcmp(info.mode, "host"));
    judge(&part, run_steps(&part));
    if (thread.failure_count)
        fprintf(stderr, "%s\n", thread.failure);
    CHECK(!thread.failure_count && !leat_barrier(job));
    leat_halo_free(part.halo);
    job->device->ops->free(job->device, &part.stamp);
    job->device->ops->free(job->device, &part.found);
    job->device->ops->free(job->device, &part.copies);
    leat_plan_free(part.plan);
}

// Rank 1 dies; what rank 0 still does with it ends, by name.
static void play_dead(void)
{
    leat_region *own = on_gpu("dead", 8192), *other = on_gpu("other", 8192), *here = of_host(8192);
    leat_region *mapped = NULL, *late = NULL;
    stamp(own, 5);
    stamp(other, 6);
    CHECK(!look_up("dead", &mapped) && !leat_barrier(job));
    struct leat_region view = *mapped;
    if (rank == 1)
        raise(SIGKILL);
    const uint64_t begin = leat_now_ns();
    while (!leat_rank_lost(job, 1))
        CHECK(leat_now_ns() - begin < 5000000000);
    int error = copy_all(here, mapped, 8192); // the memory outlives its owner
    CHECK(error == 0 && is_stamped(here, 5));
    error = look_up("other", &late);
    CHECK(error == -ECONNRESET && says("other") && says("rank 1"));
    struct door_ask ask = {.verb = DOOR_GIVE};
    struct door_answer answer;
    error = leat_door_ask(&view, &ask, &answer, NULL);
    CHECK(error == -ECONNRESET && says("dead") && says("rank 1"));
    CHECK(leat_now_ns() - begin < 5000000000);
    survive();
}

// A peer that dies while kernels wait for it, which they are told by the lookout.
static void play_lookout(void)
{
    uint32_t failed[32] = {0};
    struct lookout_item item = {.error = (void *)failed, .peer_count = -1};
    CHECK(!leat_barrier(job) && !leat_lookout_add(job, &item));
    if (rank == 1)
        raise(SIGKILL);
    const uint64_t begin = leat_now_ns();
    while (!__atomic_load_n(failed, __ATOMIC_ACQUIRE))
        CHECK(leat_now_ns() - begin < 2000000000);
    CHECK(leat_lookout_lost(&item) == 1);
    leat_lookout_remove(job, &item);
    survive();
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    CHECK(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used));
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

// Rank 1 has no descriptor left for who connects: it does not spend its time on that, and lets rank
// 0 in once it has one again.
static void play_crowded(void)
{
    on_gpu("crowded", 8192);
    struct rlimit before, none;
    CHECK(!leat_barrier(job));
    if (rank) {
        CHECK(!getrlimit(RLIMIT_NOFILE, &before));
        none = before;
        const int free = dup(STDERR_FILENO); // all below are taken
        CHECK(free >= 0 && !close(free));
        none.rlim_cur = (rlim_t)free;
        CHECK(!setrlimit(RLIMIT_NOFILE, &none));
    }
    CHECK(!leat_barrier(job));
    if (rank) {
        const struct timespec watched = {.tv_nsec = 300000000};
        const uint64_t begin_ns = cpu_ns();
        nanosleep(&watched, NULL);
        CHECK(cpu_ns() - begin_ns < 100000000);
        CHECK(!setrlimit(RLIMIT_NOFILE, &before));
    } else {
        leat_region *view = NULL;
        CHECK(!look_up("crowded", &view));
    }
    CHECK(!leat_barrier(job));
}

static const struct {
    const char *name;
    void (*play)(void);
    int gpus; /* 1: both ranks on one */
    bool gives;
} parts[] = {
    {"exchanges", play_exchanges, 2, true},
    {"exchanges_by_proxy", play_exchanges_by_proxy, 2, true},
    {"exchanges_by_host", play_exchanges_by_host, 2, false},
    {"copies", play_copies, 2, true},
    {"registered", play_registered, 2, true},
    {"unexported", play_unexported, 2, false},
    {"freed", play_freed, 2, true},
    {"strangers", play_strangers, 2, true},
    {"crowded", play_crowded, 2, true},
    {"shared", play_shared, 1, true},
    {"dead", play_dead, 2, true},
    {"lookout", play_lookout, 2, true},
};

static int play_part(const char *name)
{
    leat_job_info info = {.size = sizeof info};
    if (strstr(name, "by_proxy"))
        setenv("LEAT_PATHS", "require:proxy", 1);
    CHECK(!leat_open(NULL, &job) && !leat_job_info_get(job, &info));
    rank = info.rank;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, name)) {
            fake_open(job, parts[i].gpus == 1 ? 0 : rank, parts[i].gives);
            CHECK(!leat_barrier(job));
            parts[i].play();
        }
    leat_close(job, NULL);
    CHECK(fake_gpu.taken == fake_gpu.dropped);
    return 0;
}

// ---- the parent's side ----

static void test_exchanges_in_memory_that_others_gave(void **state)
{
    (void)state;
    run_part("exchanges");
}

static void test_exchanges_by_the_proxy(void **state)
{
    (void)state;
    run_part("exchanges_by_proxy");
}

static void test_exchanges_by_the_owners_door(void **state)
{
    (void)state;
    run_part("exchanges_by_host");
}

static void test_copies_to_and_from_what_was_mapped(void **state)
{
    (void)state;
    run_part("copies");
}

static void test_registered_memory_goes_through_the_host(void **state)
{
    (void)state;
    run_part("registered");
}

static void test_memory_that_cannot_be_given_goes_through_the_host(void **state)
{
    (void)state;
    run_part("unexported");
}

static void test_freed_memory_is_an_error_by_name(void **state)
{
    (void)state;
    run_part("freed");
}

static void test_a_door_answers_its_job_only(void **state)
{
    (void)state;
    run_part("strangers");
}

static void test_a_door_without_descriptors_waits_for_one(void **state)
{
    (void)state;
    run_part("crowded");
}

static void test_processes_on_one_gpu_go_by_mode_host(void **state)
{
    (void)state;
    run_part("shared");
}

// The launcher tells of the killed rank.
static void test_a_dead_owner_is_an_error_by_name(void **state)
{
    (void)state;
    run_killed("dead");
    run_killed("lookout");
}

int main(int argc, char **argv)
{
    if (leat_launched()) {
        verdict = atoi(argv[2]);
        return play_part(argv[1]);
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchanges_in_memory_that_others_gave),
        cmocka_unit_test(test_exchanges_by_the_proxy),
        cmocka_unit_test(test_exchanges_by_the_owners_door),
        cmocka_unit_test(test_copies_to_and_from_what_was_mapped),
        cmocka_unit_test(test_registered_memory_goes_through_the_host),
        cmocka_unit_test(test_memory_that_cannot_be_given_goes_through_the_host),
        cmocka_unit_test(test_freed_memory_is_an_error_by_name),
        cmocka_unit_test(test_a_door_answers_its_job_only),
        cmocka_unit_test(test_a_door_without_descriptors_waits_for_one),
        cmocka_unit_test(test_processes_on_one_gpu_go_by_mode_host),
        cmocka_unit_test(test_a_dead_owner_is_an_error_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
