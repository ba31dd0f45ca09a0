// SPDX-License-Identifier: Apache-2.0
// A flag back and forth between ranks 0 and 1; see the header.

#include "bench_flag.h"

#include "core/job.h"
#include "core/region.h"
#include "core/signal.h"
#include "transport/transport.h"

static int make_regions(struct bench_flag *flag, leat_job *job)
{
    leat_region_options options = {
        .size = sizeof options, .bytes = LEAT_SIGNAL_BYTES, .name = "bench.flag"};
    int error = leat_region_alloc(job, &options, &flag->here);
    if (error)
        return error;
    options =
        (leat_region_options){.size = sizeof options, .name = "bench.flag", .owner = 1 - job->rank};
    return leat_region_register(job, &options, &flag->there);
}

int bench_flag_measure(struct bench_flag *flag, leat_job *job, double *ns)
{
    enum { ROUNDS = 2000 };
    *ns = 0;
    // Through a network there is no flag that both see.
    if (job->rank > 1 || job->rank_count < 2 || job->message_row == ROW_FABRIC)
        return 0;
    int error = flag->there ? 0 : make_regions(flag, job);
    if (error)
        return error;
    struct leat_signal *here = (struct leat_signal *)flag->here->address;
    struct leat_signal *there = (struct leat_signal *)flag->there->address;
    uint64_t start = flag->raised, begin = leat_now_ns();
    uint64_t deadline_ns = begin + job->timeout_ns;
    flag->raised += ROUNDS;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (i == 2)
            begin = leat_now_ns(); // the first round is the other rank's waking up
        if (job->rank == 0)
            leat_signal_raise(there, start + i);
        error = leat_signal_wait(job, here, start + i, 1 - job->rank, deadline_ns, NULL);
        if (error)
            return error;
        if (job->rank == 1)
            leat_signal_raise(there, start + i);
    }
    *ns = (double)(leat_now_ns() - begin) / (2.0 * (ROUNDS - 1));
    return 0;
}
