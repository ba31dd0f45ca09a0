// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a plan file, as they are and with the checksums put right; what is read
// is checked, compared and traced.
//
// Advantage: gets behind the checksums, which no fuzzer guesses. Disadvantage: sections have to lie
// exactly one behind the other, so the corpus matters.

#include "glue/repair_plan.h"
#include "halo/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void parse(const uint8_t *data, size_t size)
{
    struct plan_set set = {.rank_count = -7};
    if (leat_plan_set_parse(data, size, "fuzz.plan", &set)) {
        return;
    }
    struct check_report *report = calloc(1, sizeof *report);
    demand(report != NULL);
    for (int rank = 0; rank < set.rank_count; rank++)
        demand(leat_plan_check(set.plan[rank]) == 0);
    leat_check_pairs(&set, report);
    leat_plan_set_trace(&set);
    leat_plan_set_free(&set);
    free(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size);
    uint8_t *copy = malloc(size ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    repair_plan(copy, size);
    parse(copy, size);
    free(copy);
    return 0;
}
