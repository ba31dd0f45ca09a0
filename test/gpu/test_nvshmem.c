// SPDX-License-Identifier: Apache-2.0
// Stamped exchanges of ranks that are processes, over NVSHMEM: multi/test_stamps.c with one process
// a rank, by stores where nvshmem_ptr answers and by puts, of one block and of every warp.
//
// A job is started once for each of the two ways and plays all modes, since starting NVSHMEM takes
// seconds. Ranks that share a GPU take turns on it, so there they make fewer steps.
//
// usage: test_nvshmem [RANKS]; as a rank of `leat run`: test_nvshmem rank STEPS (0: starts, no
// more)

#define main stamps_main
#include "gpu/test_stamps.c"
#undef main

#include "core/launch.h"

#include <unistd.h>

#define SKIPPED 77

static int rank_count = 2;

// ---- A rank ----

static bool can_be_used(leat_job *job, int peer)
{
    leat_path_report report = {.size = sizeof report};
    if (!leat_path_query(job, peer, REGION_DEVICE, &report))
        return true;
    fprintf(stderr, "skipped: %s\n", leat_error_detail());
    return false;
}

static bool plays(struct rank_thread *self, const struct scenario *scenario, uint32_t points,
                  uint64_t steps)
{
    struct play play = {.scenario = scenario,
                        .points = points,
                        .steps = steps,
                        .decomposition = {.size = sizeof(leat_decomposition), .cutoff_nm = 0.9}};
    const uint64_t begin_ns = leat_now_ns();
    for (int d = 0; d < 3; d++) {
        play.decomposition.grid[d] = scenario->grid[d];
        play.decomposition.box_nm[d][d] = 4.0 + 0.5 * d;
    }
    self->user = &play;
    body(self);
    if (self->rank == 0)
        fprintf(stderr, "mode %d, %u points, zones %d: %llu steps, %.1f us each, %s\n",
                (int)scenario->mode, points, scenario->zones, (unsigned long long)steps,
                (double)(leat_now_ns() - begin_ns) * 1e-3 / (double)steps,
                self->failure_count ? "failed" : "right");
    return !self->failure_count;
}

static bool plays_all(struct rank_thread *self, uint64_t steps)
{
    static const enum leat_mode modes[] = {LEAT_MODE_FUSED, LEAT_MODE_PULSE, LEAT_MODE_RESIDENT,
                                           LEAT_MODE_HOST, LEAT_MODE_STREAM};
    bool held = true;
    for (size_t m = 0; held && m < sizeof modes / sizeof *modes; m++) {
        struct scenario scenario = {.mode = modes[m], .grid = {self->rank_count, 1, 1}, .zones = 1};
        held = plays(self, &scenario, STAMPS_POINTS, steps);
        if (held)
            held = plays(self, &scenario, 20 * STAMPS_POINTS, steps / 10 + 1);
        scenario.zones = 2;
        if (held)
            held = plays(self, &scenario, STAMPS_POINTS, steps / 10 + 1);
    }
    return held;
}

static int play_rank(const char *steps)
{
    const leat_options options = {.size = sizeof options, .arena_bytes = 64 << 20, .timeout_s = 20};
    struct rank_thread self = {0};
    leat_job_info info = {.size = sizeof info};
    if (leat_open(&options, &self.job) || leat_job_info_get(self.job, &info)) {
        fprintf(stderr, "leat_open: %s\n", leat_error_detail());
        return 1;
    }
    self.job->gpus_shared = GPUS_IGNORED; // ranks of one GPU take turns
    self.rank = info.rank;
    self.rank_count = info.rank_count;
    if (!can_be_used(self.job, (self.rank + 1) % self.rank_count)) {
        leat_close(self.job, NULL);
        return SKIPPED;
    }
    const uint64_t count = strtoull(steps, NULL, 10);
    const bool held = !count || plays_all(&self, count);
    if (!held)
        fprintf(stderr, "rank %d: %s\n", self.rank, self.failure);
    leat_close(self.job, held ? NULL : "a check failed");
    return held ? 0 : 1;
}

// ---- The test ----

static void run_job(const char *paths)
{
    char last[64], steps[32];
    snprintf(last, sizeof last, "%d", rank_count - 1);
    // A GPU for every rank, or all on the first.
    leat_job *job = NULL;
    leat_options options = {.size = sizeof options, .device = "cuda"};
    assert_int_equal(leat_open(&options, &job), 0);
    char text[256];
    const bool apart = leat_device_describe(atoi(last), text, sizeof text) == 0;
    leat_close(job, NULL);
    snprintf(steps, sizeof steps, "%d", apart ? STAMPS_STEPS : 40);
    const struct launch_options launch = {.rank_count = rank_count,
                                          .reports_itself = true,
                                          .program = "/proc/self/exe",
                                          .argv = (char *[]){"test", "rank", steps, NULL}};
    int status = -1;
    setenv("LEAT_PATHS", paths, 1);
    setenv("LEAT_DEVICE", "cuda", 1);
    if (leat_launch(&launch, &status))
        fail_msg("leat_launch: %s", leat_error_detail());
    unsetenv("LEAT_PATHS");
    unsetenv("LEAT_DEVICE");
    if (status == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void test_stores(void **state)
{
    (void)state;
    run_job("require:nvshmem");
}

static void test_puts(void **state)
{
    (void)state;
    run_job("require:nvshmem-put");
}

int main(int argc, char **argv)
{
    if (leat_launched() && argc > 2)
        return play_rank(argv[2]);
    if (argc > 1)
        rank_count = atoi(argv[1]);
    const leat_options options = {.size = sizeof options, .device = "cuda"};
    leat_job *job = NULL;
    if (leat_open(&options, &job)) {
        printf("skipped: %s\n", leat_error_detail());
        return SKIPPED;
    }
    leat_close(job, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stores),
        cmocka_unit_test(test_puts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
