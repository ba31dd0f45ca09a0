/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two thresholds out of measured times: up to which size a ring carries messages (LEAT_MSG_EAGER),
 * and from which size sender and receiver copy together (LEAT_MSG_SHARE).
 *
 * Algorithm: of all pairs of thresholds, the one whose choices lose least time over all sizes, in
 * ratios. A way loses nothing where its slices and those of the fastest way overlap by their
 * middle halves. Among equals the pair nearest to the present one. Advantage: one odd size moves
 * nothing, and without evidence nothing changes. Disadvantage: thresholds are sizes that have been
 * measured, so as coarse as those.
 */
#ifndef LEAT_CLI_BENCH_FIT_H
#define LEAT_CLI_BENCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* By ring; announced and read by the receiver alone; announced and copied by both. */
enum bench_way { WAY_RING, WAY_ALONE, WAY_SHARED, WAY_COUNT };

#define BENCH_RING_MOST   (UINT64_C(32) << 10) /* what a ring carries at most */
#define BENCH_SHARE_LEAST (UINT64_C(4) << 10)  /* what both sides copy at least */

struct bench_fit_size {
    uint64_t bytes;
    struct {
        double quarter, median, three_quarters; /* median 0: not measured */
    } ns[WAY_COUNT];
};

struct bench_threshold {
    uint64_t value;
    uint64_t lowest, highest; /* of those that do as well, the other threshold being as it is */
    bool told;                /* some other value does worse */
};

struct bench_thresholds {
    struct bench_threshold eager, share;
};

/*
 * `sizes` ascend, and WAY_ALONE is measured at all of them. `eager` and `share` are the present
 * settings, and remain where nothing speaks against them.
 */
struct bench_thresholds bench_fit(const struct bench_fit_size *sizes, int count, uint64_t eager,
                                  uint64_t share);

/* The fastest of the ways measured at this size; and whether `way` is slower beyond the spread. */
enum bench_way bench_fit_fastest(const struct bench_fit_size *size);
bool bench_fit_slower(const struct bench_fit_size *size, enum bench_way way);

#endif
