// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a table and as forces, compared with themselves.
//
// What is the same bytes has to be the same, but for what is no finite number. Advantage: reading
// and judging in one. Disadvantage: two files of different structure are left to the unit tests.

#include "md/compare.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

typedef int comparison(struct md_compare *result, FILE *const stream[2]);

static void try(comparison *compare, const struct md_compare_options *options, const uint8_t *data,
                size_t size)
{
    FILE *stream[2];
    struct md_compare result = {.options = options, .path = {"a", "b"}};
    for (int side = 0; side < 2; side++)
        stream[side] = fmemopen((void *)(uintptr_t)data, size, "r");
    if (stream[0] && stream[1] && compare(&result, stream) == 0)
        for (int i = 0; i < result.row_count; i++) {
            const struct md_compare_row *row = &result.rows[i];
            demand(row->differs == !(row->deviation == 0.0) || *row->text || options->statistics);
            demand(!options->statistics || row->differs || isfinite(row->value[0]));
        }
    md_compare_free(&result);
    for (int side = 0; side < 2; side++)
        if (stream[side])
            fclose(stream[side]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct md_compare_options exact = {.tolerance = 1e-5, .exact = true};
    const struct md_compare_options some = {.tolerance = 1e-5, .common = true, .columns = "lj,,x"};
    const struct md_compare_options means = {.tolerance = 1e-5, .statistics = true, .sigma = 3.0};
    try(md_compare_tables, &exact, data, size);
    try(md_compare_tables, &some, data, size);
    try(md_compare_statistics, &means, data, size);
    try(md_compare_forces, &exact, data, size);
    return 0;
}
