// SPDX-License-Identifier: Apache-2.0
// Step times in fixed memory: every stride-th step is kept, and when the array is full every second
// one is dropped and the stride doubles. Advantage: a median over runs of any length, spread evenly
// over the run, without a growing buffer. Disadvantage: in long runs it is a median of a sample,
// and a period of the run that equals the stride would bias it; strides are powers of two, rebuild
// periods seldom.

#include "md/clock.h"

#include "core/signal.h"

#include <stdlib.h>
#include <string.h>

void md_clock_start(struct md_clock *clock)
{
    memset(clock, 0, sizeof *clock);
    clock->stride = 1;
    clock->lap_ns = clock->step_begin_ns = leat_now_ns();
}

void md_clock_lap(struct md_clock *clock, enum md_phase phase)
{
    uint64_t now = leat_now_ns();
    clock->phase_ns[phase] += now - clock->lap_ns;
    clock->lap_ns = now;
}

void md_clock_share(struct md_clock *clock, const double weight[PHASE_COUNT])
{
    double sum = 0.0;
    for (int p = 0; p < PHASE_COUNT; p++)
        sum += weight[p];
    if (!(sum > 0.0)) {
        md_clock_lap(clock, PHASE_OTHER);
        return;
    }
    uint64_t now = leat_now_ns();
    double spent_ns = (double)(now - clock->lap_ns);
    for (int p = 0; p < PHASE_COUNT; p++)
        clock->phase_ns[p] += (uint64_t)(spent_ns * weight[p] / sum);
    clock->lap_ns = now;
}

static void thin(struct md_clock *clock)
{
    for (int i = 0; i < MD_SAMPLES / 2; i++)
        clock->sample_us[i] = clock->sample_us[2 * i];
    clock->sample_count = MD_SAMPLES / 2;
    clock->stride *= 2;
}

static void add_step(struct md_clock *clock, float spent_us)
{
    if (clock->step_count++ % clock->stride != 0)
        return;
    if (clock->sample_count == MD_SAMPLES)
        thin(clock);
    clock->sample_us[clock->sample_count++] = spent_us;
}

void md_clock_step(struct md_clock *clock)
{
    md_clock_steps(clock, 1);
}

void md_clock_steps(struct md_clock *clock, int64_t count)
{
    if (count < 1)
        return;
    md_clock_lap(clock, PHASE_OTHER);
    uint64_t now = clock->lap_ns;
    for (int64_t step = 0; step < count; step++)
        add_step(clock, (float)(now - clock->step_begin_ns) / (float)count * 1e-3f);
    clock->step_begin_ns = now;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double md_clock_median_us(const struct md_clock *clock)
{
    int count = clock->sample_count;
    if (count == 0)
        return 0.0;
    struct md_clock copy = *clock;
    qsort(copy.sample_us, (size_t)count, sizeof copy.sample_us[0], compare);
    return 0.5 * ((double)copy.sample_us[count / 2] + (double)copy.sample_us[(count - 1) / 2]);
}

double md_clock_phase_us(const struct md_clock *clock, enum md_phase phase)
{
    return clock->step_count ? (double)clock->phase_ns[phase] * 1e-3 / (double)clock->step_count
                             : 0.0;
}
