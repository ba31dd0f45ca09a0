/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rank's time goes: laps of one clock, each booked on a phase, and a sample of step times.
 */
#ifndef MD_CLOCK_H
#define MD_CLOCK_H

#include <stdint.h>

enum md_phase {
    PHASE_HALO,     /* exchanges of coordinates and forces, waits included */
    PHASE_LOCAL,    /* pairs of home atoms, excluded pairs, self terms */
    PHASE_NONLOCAL, /* pairs with a ghost */
    PHASE_BONDED,
    PHASE_UPDATE, /* leap-frog, constraints, thermostat */
    PHASE_LIST,   /* migration, plan, halo set-up, pair list */
    PHASE_OTHER,  /* copies between state and images, sums over ranks */
    PHASE_COUNT
};

enum { MD_SAMPLES = 4096 };

struct md_clock {
    uint64_t lap_ns, step_begin_ns;
    uint64_t phase_ns[PHASE_COUNT];
    int64_t step_count, stride;
    int sample_count;
    float sample_us[MD_SAMPLES];
};

/* Forgets everything and starts a lap. */
void md_clock_start(struct md_clock *clock);
/* Books the time since the last lap on `phase`. */
void md_clock_lap(struct md_clock *clock, enum md_phase phase);
/* Books it on all phases, in proportion to `weight`; on `other` where that is nothing. */
void md_clock_share(struct md_clock *clock, const double weight[PHASE_COUNT]);
/* Ends a step: its time is sampled, and the next one begins. */
void md_clock_step(struct md_clock *clock);
/* Ends `count` steps that nobody looked at one by one: each takes its share of the time. */
void md_clock_steps(struct md_clock *clock, int64_t count);
/* Median step time, microseconds; 0 without steps. */
double md_clock_median_us(const struct md_clock *clock);
double md_clock_phase_us(const struct md_clock *clock, enum md_phase phase);

#endif
