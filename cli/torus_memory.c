// SPDX-License-Identifier: Apache-2.0
// leat torus memory: what one endpoint of the real message code holds after all-to-alls.
//
// Algorithm: one engine with the library's own sizes among stubs (sim/stubs.h), once for each
// bound: no ring at all yet, rings as the default budget allows, at most 1024 rings, and as many as
// there are peers. Advantage: any number of ranks in a second. Disadvantage: rings count whole,
// though an all-to-all of few bytes touches a page or two of each; the resident column shows that.

#include "commands.h"
#include "core/error.h"
#include "sim/stubs.h"
#include "torus.h"

#include <errno.h>
#include <stdio.h>

#define ROUNDS     4 /* the second one promotes, the third uses the rings */
#define RINGS_CAP  1024
#define RINGS_MOST 65535 /* what the engine's tables can name */
#define MIB        (1024.0 * 1024.0)

static const struct bound {
    const char *name;
    uint64_t budget_bytes;
    uint32_t ring_limit;
    int rounds;
} bounds[] = {
    {"start-up only", UINT64_C(64) << 20, RINGS_CAP, 0},
    {"default budget", UINT64_C(64) << 20, RINGS_CAP, ROUNDS},
    {"1024 rings", UINT64_C(256) << 20, RINGS_CAP, ROUNDS},
    {"unlimited", UINT64_C(1) << 40, RINGS_MOST, ROUNDS},
};

#define BOUNDS (int)(sizeof bounds / sizeof *bounds)

// As leat_open gives them, but for the thresholds of eager and shared messages, which nothing here
// reaches.
static struct msg_tuning tuning_of(const struct bound *bound)
{
    struct msg_tuning tuning = msg_tuning_usual();
    tuning.budget_bytes = bound->budget_bytes;
    tuning.eager_bytes = 8 << 10;
    tuning.share_bytes = UINT32_MAX;
    tuning.ring_limit = bound->ring_limit;
    return tuning;
}

static int print_json(const struct torus_request *request, int ranks,
                      const struct sim_stubs_result *results)
{
    json_t *list = json_array();
    for (int i = 0; list && i < BOUNDS; i++) {
        const struct sim_stubs_result *result = &results[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:I}", "bound",
                      bounds[i].name, "budget_bytes", (json_int_t)bounds[i].budget_bytes,
                      "start_bytes", (json_int_t)result->start_bytes, "used_bytes",
                      (json_int_t)result->used_bytes, "peak_bytes", (json_int_t)result->peak_bytes,
                      "ring_bytes", (json_int_t)result->ring_bytes, "peer_bytes",
                      (json_int_t)result->peer_bytes, "resident_bytes",
                      (json_int_t)result->resident_bytes, "rings_in", (int)result->rings_in,
                      "rings_out", (int)result->rings_out, "messages",
                      (json_int_t)result->messages));
    }
    return torus_print(json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:b, s:o*}", "schema",
                                 "leat.torus/1", "machine", request->machine.name, "operation",
                                 "memory", "ranks", ranks, "bytes", (json_int_t)request->bytes,
                                 "ring_each_bytes", (json_int_t)results[0].ring_each_bytes,
                                 "checked", 1, "bounds", list));
}

static void print_text(const struct torus_request *request, int ranks,
                       const struct sim_stubs_result *results)
{
    printf("%s: one endpoint among %d ranks, after %d all-to-alls of %llu bytes a pair, MiB\n",
           request->machine.name, ranks, ROUNDS, (unsigned long long)request->bytes);
    printf("a ring takes %.0f KiB; held: what counts against the budget\n",
           results[0].ring_each_bytes / 1024.0);
    printf("bound            rings in   out      held      peak   (rings)   (peers)  resident\n");
    for (int i = 0; i < BOUNDS; i++) {
        const struct sim_stubs_result *result = &results[i];
        printf("%-15s  %8u  %5u  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f\n", bounds[i].name,
               result->rings_in, result->rings_out,
               (double)(bounds[i].rounds ? result->used_bytes : result->start_bytes) / MIB,
               (double)result->peak_bytes / MIB, (double)result->ring_bytes / MIB,
               (double)result->peer_bytes / MIB, (double)result->resident_bytes / MIB);
    }
    printf("right at all ranks\n");
}

int torus_memory(const struct torus_request *request)
{
    struct sim_stubs_result results[BOUNDS];
    int ranks = 0;
    int error = torus_ranks(request, &ranks);
    if (!error && ranks < 2)
        error = leat_fail(-EINVAL, "memory takes two ranks or more");
    for (int i = 0; !error && i < BOUNDS; i++) {
        struct msg_tuning tuning = tuning_of(&bounds[i]);
        error = sim_stubs_run(&tuning, ranks, request->bytes, bounds[i].rounds, &results[i]);
    }
    if (error)
        return command_fail("torus", error);
    if (request->json)
        return print_json(request, ranks, results);
    print_text(request, ranks, results);
    return EXIT_DONE;
}
