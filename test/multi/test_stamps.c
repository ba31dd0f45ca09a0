// SPDX-License-Identifier: Apache-2.0
// Stamped exchanges on a device: every value of every step is checked by kernels of the library,
// with random delays on either side and each ghost read by another block than the one that had its
// share of the exchange. test/gpu/test_stamps.c is the same on GPUs.
//
// LEAT_LONG=1 makes 1,000,000 steps in the modes fused and resident, 100,000 in the others.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "multi/ranks.h"

#include "core/job.h"
#include "halo/halo_internal.h"

#include <leat/device.h>
#include <leat/halo.h>

#include <errno.h>
#include <math.h>

#ifndef STAMPS_DEVICE
#define STAMPS_DEVICE   "cpu"
#define STAMPS_STEPS    60
#define STAMPS_POINTS   150
#define STAMPS_DELAY_NS 20000
#endif

enum { X, F, NUMBER, FIELDS };

struct scenario {
    const char *device;
    enum leat_mode mode;
    enum leat_plan_kind kind;
    int grid[3];
    int zones; /* 2: forward only */
    uint64_t first_epoch;
};

struct play {
    const struct scenario *scenario;
    uint32_t points; /* a rank */
    uint64_t steps;
    leat_decomposition decomposition;
};

struct part {
    struct rank_thread *thread;
    const struct play *play;
    leat_plan *plan;
    leat_plan_info info;
    leat_region *region[FIELDS], *host;
    leat_halo *halo;
    struct device_memory stamp, found, copies;
};

static bool failed(struct part *part, int error, const char *what)
{
    return !rank_check(part->thread, !error, "%s: %s", what, leat_error_detail());
}

static bool build_plan(struct part *part)
{
    const leat_decomposition *cut = &part->play->decomposition;
    const uint32_t points = part->play->points;
    const int rank = part->thread->rank;
    const int cell[3] = {rank / (cut->grid[1] * cut->grid[2]), rank / cut->grid[2] % cut->grid[1],
                         rank % cut->grid[2]};
    struct ranks_random random = {(uint64_t)rank + 77};
    double *x = malloc(3 * points * sizeof *x);
    uint32_t *start = malloc((points + 1) * sizeof *start);
    for (uint32_t i = 0; i < points; i++)
        for (int d = 0; d < 3; d++)
            x[3 * i + (uint32_t)d] =
                (cell[d] + ranks_random_real(&random)) * cut->box_nm[d][d] / cut->grid[d];
    for (uint32_t i = 0; i <= points; i++)
        start[i] = i;
    const leat_groups groups = {points, start};
    int error = leat_plan_build(part->thread->job, cut, &groups, x, &part->plan);
    free(x);
    free(start);
    if (failed(part, error, "the plan"))
        return false;
    part->info.size = sizeof part->info;
    return !failed(part, leat_plan_info_get(part->plan, &part->info), "the plan's numbers");
}

static uint32_t places(const struct part *part)
{
    uint32_t ghosts = part->info.element_count - part->info.home_count;
    return part->info.element_count + (part->play->scenario->zones == 2 ? ghosts : 0);
}

static bool open_halo(struct part *part)
{
    const struct scenario *scenario = part->play->scenario;
    const bool both = scenario->zones != 2;
    leat_field fields[FIELDS] = {
        [X] = {.element = LEAT_F32,
               .components = 3,
               .zones = scenario->zones,
               .acknowledged_by = both ? F + 1 : 0},
        [F] = {.element = LEAT_F32, .components = 3, .acknowledged_by = both ? X + 1 : 0},
        [NUMBER] = {.element = LEAT_WORDS, .components = 1},
    };
    leat_region_options options = {.size = sizeof options, .bytes = 12ull * places(part)};
    if (failed(part, leat_region_alloc(part->thread->job, &options, &part->host), "host memory"))
        return false;
    for (int f = 0; f < FIELDS; f++) {
        options.memory = LEAT_MEMORY_DEVICE;
        int error = leat_region_alloc(part->thread->job, &options, &part->region[f]);
        if (failed(part, error, "device memory"))
            return false;
        fields[f].place.region = part->region[f];
    }
    const leat_halo_options open = {.size = sizeof open,
                                    .mode = scenario->mode,
                                    .field_count = FIELDS,
                                    .fields = fields,
                                    .first_epoch = scenario->first_epoch};
    return !failed(part, leat_halo_open(part->thread->job, part->plan, &open, &part->halo),
                   "the halo");
}

static bool copy(struct part *part, leat_region *to, leat_region *from)
{
    const leat_place there = {to, 0}, here = {from, 0};
    return !failed(
        part, leat_copy(part->thread->job, there, here, 12ull * places(part), (leat_place){0}, 0),
        "a copy");
}

static void *host(const struct part *part)
{
    return part->host->address;
}

// Numbers travel as words; on the way back every ghost is worth one, which tells the copies.
static bool learn(struct part *part)
{
    uint32_t *number = host(part);
    float *count = host(part);
    uint32_t *copies = part->copies.host;
    for (uint32_t i = 0; i < part->info.home_count; i++)
        number[i] = (uint32_t)part->thread->rank << 24 | i;
    if (!copy(part, part->region[NUMBER], part->host) ||
        failed(part, leat_halo_exchange(part->halo, NUMBER, LEAT_FORWARD), "numbers") ||
        failed(part, leat_device_wait(part->thread->job, -1), "numbers") ||
        !copy(part, part->host, part->region[NUMBER]))
        return false;
    uint32_t own = 0, total = part->info.element_count - part->info.home_count;
    for (uint32_t g = part->info.home_count; g < part->info.element_count; g++)
        own += number[g] >> 24 == (uint32_t)part->thread->rank;
    rank_check(part->thread, own == 0 && total > 0, "%u ghosts, %u of its own", total, own);
    if (part->play->scenario->zones == 2)
        return true;
    for (uint32_t i = 0; i < 3 * part->info.element_count; i++)
        count[i] = i < 3 * part->info.home_count ? 0 : 1;
    if (!copy(part, part->region[F], part->host) ||
        failed(part, leat_halo_exchange(part->halo, F, LEAT_REVERSE), "copies") ||
        failed(part, leat_device_wait(part->thread->job, -1), "copies") ||
        !copy(part, part->host, part->region[F]))
        return false;
    for (uint32_t i = 0; i < part->info.home_count; i++)
        copies[i] = (uint32_t)count[3 * i];
    return true;
}

static bool prepare_stamps(struct part *part)
{
    struct device *device = part->thread->job->device;
    const struct device_ops *ops = device->ops;
    int error = ops->alloc(device, sizeof(struct k_stamp), &part->stamp);
    if (!error)
        error = ops->alloc(device, sizeof(struct k_stamp_found), &part->found);
    if (!error)
        error = ops->alloc(device, part->info.home_count * sizeof(uint32_t), &part->copies);
    if (failed(part, error, "memory for stamps") || !learn(part))
        return false;
    *(struct k_stamp *)part->stamp.host = (struct k_stamp){
        .x = part->region[X]->address,
        .f = part->region[F]->address,
        .number = part->region[NUMBER]->address,
        .copies = part->copies.address,
        .home_count = part->info.home_count,
        .ghost_count = part->info.element_count - part->info.home_count,
        .components = 3,
        .zones = part->play->scenario->zones == 2 ? 2 : 1,
        .reverse = part->play->scenario->zones != 2,
        .seed = (uint32_t)part->thread->rank * 1000003,
        .delay_ns = STAMPS_DELAY_NS,
        .found = part->found.address,
    };
    error = ops->publish(device, &part->stamp);
    if (!error)
        error = ops->publish(device, &part->copies);
    return !failed(part, error, "publishing stamps");
}

static bool launch(struct part *part, enum kernel_id kernel, uint64_t step)
{
    const struct device_launch launch = {.kernel = kernel,
                                         .choice = (uint32_t)step,
                                         .arguments = &part->stamp,
                                         .work = part->info.element_count};
    return !failed(part, leat_device_launch(part->thread->job->device, &launch), "a stamp kernel");
}

static uint64_t run_steps(struct part *part)
{
    const bool reverse = part->play->scenario->zones != 2;
    uint64_t done = 0, steps = part->play->steps;
    if (!launch(part, KERNEL_STAMP_WRITE, 0))
        return 0;
    // Another mode may have been taken in its place; then nobody but the test looks at the stamps.
    if (part->halo->mode->mode == LEAT_MODE_RESIDENT && part->info.pulse_count) {
        const leat_step step = {
            .size = sizeof step, .forward_field = X, .reverse_field = reverse ? F : -1};
        part->halo->stamp = part->stamp.host;
        failed(part, leat_halo_run(part->halo, &step, steps, &done), "the resident loop");
        return done;
    }
    for (; done < steps; done++)
        if (failed(part, leat_halo_exchange(part->halo, X, LEAT_FORWARD), "coordinates") ||
            !launch(part, KERNEL_STAMP_CHECK, done) ||
            (reverse && failed(part, leat_halo_exchange(part->halo, F, LEAT_REVERSE), "forces")) ||
            !launch(part, KERNEL_STAMP_SUM, done))
            break;
    return done;
}

static void judge(struct part *part, uint64_t done)
{
    const struct k_stamp_found *found = part->found.host;
    struct device *device = part->thread->job->device;
    if (failed(part, leat_device_wait(part->thread->job, -1), "the end") ||
        failed(part, device->ops->fetch(device, &part->found), "what was found"))
        return;
    rank_check(part->thread, done == part->play->steps && found->steps == done,
               "%llu of %llu steps, %llu looked at", (unsigned long long)done,
               (unsigned long long)part->play->steps, (unsigned long long)found->steps);
    rank_check(part->thread, found->wrong == 0,
               "%u values are wrong; the first: element %u of %u (%u at home), step %u, axis %u: "
               "%.0f, not %.0f",
               found->wrong, found->element, part->info.element_count, part->info.home_count,
               found->step, found->axis, (double)found->seen, (double)found->wanted);
}

static void body(struct rank_thread *thread)
{
    struct part part = {.thread = thread, .play = thread->user};
    struct device *device = thread->job->device;
    if (build_plan(&part) && open_halo(&part) && prepare_stamps(&part))
        judge(&part, run_steps(&part));
    leat_halo_free(part.halo);
    device->ops->free(device, &part.stamp);
    device->ops->free(device, &part.found);
    device->ops->free(device, &part.copies);
    leat_plan_free(part.plan);
}

// The largest case of the slower modes takes a tenth: minutes otherwise.
static uint64_t steps_of(const struct scenario *scenario)
{
    const int *grid = scenario->grid;
    const bool large = grid[0] * grid[1] * grid[2] == 8 && scenario->kind == LEAT_PLAN_ONEHOP;
    if (!getenv("LEAT_LONG"))
        return STAMPS_STEPS;
    if (scenario->mode == LEAT_MODE_RESIDENT)
        return 1000000;
    return (scenario->mode == LEAT_MODE_FUSED ? 1000000u : 100000u) / (large ? 10u : 1u);
}

static struct play play_of(const struct scenario *scenario)
{
    struct play play = {.scenario = scenario,
                        .points = STAMPS_POINTS,
                        .steps = steps_of(scenario),
                        .decomposition = {.size = sizeof(leat_decomposition),
                                          .cutoff_nm = 0.9,
                                          .kind = scenario->kind}};
    for (int d = 0; d < 3; d++) {
        play.decomposition.grid[d] = scenario->grid[d];
        play.decomposition.box_nm[d][d] = 4.0 + 0.5 * d;
    }
    return play;
}

#ifndef STAMPS_ONLY_PARTS // of ranks that another test starts

static void play(const struct scenario *scenario)
{
    struct play play = play_of(scenario);
    setenv("LEAT_DEVICE", scenario->device, 1);
    ranks_run(scenario->grid[0] * scenario->grid[1] * scenario->grid[2], body, &play);
    unsetenv("LEAT_DEVICE");
}

static const char *device = STAMPS_DEVICE;

static void all_plans(enum leat_mode mode)
{
    static const int grids[][3] = {{2, 1, 1}, {2, 2, 2}};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        for (int kind = LEAT_PLAN_FORWARDED; kind <= LEAT_PLAN_ONEHOP; kind++) {
            struct scenario scenario = {
                .device = device, .mode = mode, .kind = (enum leat_plan_kind)kind, .zones = 1};
            memcpy(scenario.grid, grids[g], sizeof scenario.grid);
            play(&scenario);
        }
}

static void test_fused(void **state)
{
    (void)state;
    all_plans(LEAT_MODE_FUSED);
}

static void test_resident(void **state)
{
    (void)state;
    all_plans(LEAT_MODE_RESIDENT);
}

static void test_pulse(void **state)
{
    (void)state;
    all_plans(LEAT_MODE_PULSE);
}

static void test_stream(void **state)
{
    (void)state;
    all_plans(LEAT_MODE_STREAM);
}

static void test_host(void **state)
{
    (void)state;
    all_plans(LEAT_MODE_HOST);
}

static void test_two_zones_forward_only(void **state)
{
    (void)state;
    unsetenv("LEAT_LONG");
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        play(&(struct scenario){
            .device = device, .mode = (enum leat_mode)mode, .grid = {2, 1, 2}, .zones = 2});
}

static void test_counters_near_their_end(void **state)
{
    (void)state;
    unsetenv("LEAT_LONG");
    for (int mode = LEAT_MODE_FUSED; mode <= LEAT_MODE_RESIDENT; mode++)
        play(&(struct scenario){.device = device,
                                .mode = (enum leat_mode)mode,
                                .grid = {1, 2, 1},
                                .zones = 1,
                                .first_epoch = UINT64_MAX - 20});
}

// Arguments: another device, as LEAT_DEVICE names it, and a pattern of tests.
int main(int argc, char **argv)
{
    leat_job *job = NULL;
    if (argc > 1)
        device = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    setenv("LEAT_DEVICE", device, 1);
    if (leat_open(NULL, &job)) {
        printf("skipped: %s\n", leat_error_detail());
        return 77;
    }
    leat_close(job, NULL);
    unsetenv("LEAT_DEVICE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_pulse),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_two_zones_forward_only),
        cmocka_unit_test(test_counters_near_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
