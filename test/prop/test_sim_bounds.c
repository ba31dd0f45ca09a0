// SPDX-License-Identifier: Apache-2.0
// Collectives of simulated jobs: right at every rank, never faster than the closed-form bound, and
// the same to the bit when run again; on drawn shapes, sizes, roots and delays.

#include "unit/sim_parts.h"

#include "sim/bounds.h"
#include "sim/measure.h"

#define TRIALS 150

// The shipped k.machine in small.
static const char machine_text[] = SIM_TORUS_TEXT
    "sides = 8 6 4 2 3 2\naxes = X Y Z A B C\nwrap = X Z B\ntni_gb_per_s = 4.7\n"
    "node_gb_per_s = 16\npiggyback_bytes = 16\ndescriptor_push = yes\n"
    "descriptor_fetch_ns = 500\ncommand_ns = 60\ncombine_gb_per_s = 20\nbarrier_words = 8\n"
    "barrier_start_ns = 700\nbarrier_stage_ns = 50\n";

static const char *const shapes[] = {"4x6x4", "2x2x2", "8x2x4", "3x4x2",
                                     "12",    "8x4",   "5x3x2", "1x6x4"};
static const uint64_t sizes[] = {8, 96, 1000, 4096, 20000, 65536, 100000, 262144};

struct kind {
    enum leat_collective_kind kind;
    const char *algorithm;
};

static const struct kind kinds[] = {
    {LEAT_BROADCAST, "binomial"},
    {LEAT_BROADCAST, "chain"},
    {LEAT_BROADCAST, "trinary"},
    {LEAT_BROADCAST, "scatter-allgather"},
    {LEAT_BROADCAST, NULL},
    {LEAT_ALLREDUCE, "ring"},
    {LEAT_ALLREDUCE, "trinary"},
    {LEAT_ALLREDUCE, "recursive-doubling"},
    {LEAT_ALLREDUCE, "recursive-halving"},
    {LEAT_ALLREDUCE, NULL},
    {LEAT_ALLTOALL, "spread"},
    {LEAT_BARRIER, "dissemination"},
    {LEAT_BARRIER, NULL},
};

static uint64_t next(uint64_t *state)
{
    return *state = sim_phantom_hash(*state + 1);
}

static int read_sides(const char *text, int *side)
{
    return sscanf(text, "%dx%dx%d", &side[0], &side[1], &side[2]);
}

struct trial {
    struct sim_job_options options;
    struct sim_collective what;
    const char *shape;
};

static struct trial draw(const struct sim_machine *machine, uint64_t seed)
{
    uint64_t state = seed;
    struct trial trial = {.options = {.machine = machine, .seed = seed}};
    const struct kind *kind = &kinds[next(&state) % (sizeof kinds / sizeof *kinds)];
    trial.shape = shapes[next(&state) % (sizeof shapes / sizeof *shapes)];
    trial.options.side_count = read_sides(trial.shape, trial.options.side);
    trial.options.jitter_ns = next(&state) % 3 ? 0 : next(&state) % 20000;
    int ranks = 1;
    for (int i = 0; i < trial.options.side_count; i++)
        ranks *= trial.options.side[i];
    trial.what = (struct sim_collective){.kind = kind->kind, .algorithm = kind->algorithm};
    if (kind->kind != LEAT_BARRIER)
        trial.what.bytes = sizes[next(&state) % (sizeof sizes / sizeof *sizes)];
    if (kind->kind == LEAT_ALLREDUCE)
        trial.what.bytes -= trial.what.bytes % 8;
    if (kind->kind == LEAT_BROADCAST)
        trial.what.root = (int)(next(&state) % (uint64_t)ranks);
    trial.options.hollow_bytes = sim_collective_hollow(&trial.what, ranks);
    return trial;
}

static struct sim_measured run(const struct trial *trial, struct sim_bound *bound)
{
    struct sim_job job;
    struct sim_measured measured;
    if (sim_job_open(&job, &trial->options))
        fail_msg("%s: %s", trial->shape, leat_error_detail());
    // The second one finds rings open.
    for (int i = 0; i < 2; i++) {
        memset(&measured, 0xA5, sizeof measured);
        if (sim_collective_run(&job, &trial->what, &measured))
            fail_msg("%s, %s, %llu bytes: %s", trial->shape,
                     trial->what.algorithm ? trial->what.algorithm : "chosen",
                     (unsigned long long)trial->what.bytes, leat_error_detail());
        assert_int_equal(measured.wrong, 0);
    }
    *bound = sim_bound_collective(&job, &trial->what, measured.algorithm);
    assert_null(job.fabric.misuse[0] ? job.fabric.misuse : NULL);
    sim_job_close(&job);
    return measured;
}

static void test_drawn(void **state)
{
    (void)state;
    struct sim_machine machine;
    must_parse(machine_text, &machine);
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct trial trial = draw(&machine, seed);
        struct sim_bound bound, again_bound;
        struct sim_measured measured = run(&trial, &bound);
        if (measured.seconds < bound.seconds || bound.seconds <= 0)
            fail_msg("seed %llu: %s on %s, %llu bytes, root %d: %.3f us, but %.3f us at least",
                     (unsigned long long)seed, measured.algorithm, trial.shape,
                     (unsigned long long)trial.what.bytes, trial.what.root, measured.seconds * 1e6,
                     bound.seconds * 1e6);
        // To the bit.
        struct sim_measured again = run(&trial, &again_bound);
        assert_memory_equal(&again.seconds, &measured.seconds, sizeof again.seconds);
        assert_memory_equal(&again_bound.seconds, &bound.seconds, sizeof bound.seconds);
    }
    sim_machine_end(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
