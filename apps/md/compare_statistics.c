// SPDX-License-Identifier: Apache-2.0
// Means of two runs that follow different paths, and whether they agree within their errors.
//
// Algorithm: columns that both files have, each with its mean and standard error (blocking.c); two
// means agree when they are at most so many errors of their difference apart. Advantage: what two
// programs say of a liquid can be compared although no step is alike. Disadvantage: a mean that
// drifts has an error too small, and all values of a file are in memory.

#include "md/compare.h"

#include "core/error.h"
#include "md/csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_LEAST = 16 };

struct series {
    struct md_csv table;
    double *value[MD_CSV_COLUMNS];
    int64_t count[MD_CSV_COLUMNS], capacity[MD_CSV_COLUMNS];
};

static int keep(struct series *series, int column)
{
    if (series->count[column] == series->capacity[column]) {
        int64_t capacity = 2 * series->capacity[column] + 1024;
        double *value =
            realloc(series->value[column], (size_t)capacity * sizeof *series->value[column]);
        if (!value)
            return leat_fail(-ENOMEM, "%s: no memory for %lld values", series->table.name,
                             (long long)capacity);
        series->value[column] = value;
        series->capacity[column] = capacity;
    }
    series->value[column][series->count[column]++] = series->table.value[column];
    return 0;
}

static int read_all(struct series *series, double skip_ps)
{
    struct md_csv *table = &series->table;
    int error = md_csv_open(table), got = error;
    if (!error && skip_ps > 0.0 && table->time < 0)
        return leat_fail(-EINVAL, "%s has no column \"time\", so nothing can be skipped by it",
                         table->name);
    while (!error && (got = md_csv_next(table)) > 0) {
        if (skip_ps > 0.0 && !(table->value[table->time] >= skip_ps))
            continue;
        for (int i = 0; i < table->column_count && !error; i++)
            error = table->has[i] ? keep(series, i) : 0;
    }
    return error ? error : got;
}

static bool is_wanted(const struct md_compare *result, const char *name)
{
    if (result->options->columns)
        return md_csv_listed(result->options->columns, name);
    return !md_csv_listed("step,time,coulomb_gross,net_force_kj_mol_nm", name);
}

static int judge(struct md_compare *result, const char *name, const struct md_mean mean[2])
{
    double error = sqrt(mean[0].error * mean[0].error + mean[1].error * mean[1].error);
    double difference = fabs(mean[0].mean - mean[1].mean);
    double allowed = result->options->sigma * error;
    // What does not vary at all has no error, but digits.
    if (error == 0.0)
        allowed = result->options->tolerance * fabs(mean[1].mean);
    struct md_compare_worst worst = {.what = name};
    md_compare_values(result, &worst, mean[0].mean, mean[1].mean, allowed, 0, -1);
    worst.row.error[0] = mean[0].error;
    worst.row.error[1] = mean[1].error;
    if (error > 0.0)
        snprintf(worst.row.where, sizeof worst.row.where, "%.2f sigma", difference / error);
    if (!isfinite(difference)) {
        snprintf(worst.row.where, sizeof worst.row.where, "not a finite number");
    } else if (!mean[0].decided || !mean[1].decided) {
        // An error that is too small may let means agree that do not, or the other way.
        worst.row.differs = true;
        snprintf(worst.row.where, sizeof worst.row.where,
                 "%s: too few values for their correlation",
                 mean[0].decided   ? "B"
                 : mean[1].decided ? "A"
                                   : "A, B");
    }
    return md_compare_add(result, &worst);
}

static int compare_column(struct md_compare *result, struct series series[2], int a, int b)
{
    const int column[2] = {a, b};
    const char *name = series[1].table.column[b];
    struct md_mean mean[2];
    for (int side = 0; side < 2; side++) {
        int64_t count = series[side].count[column[side]];
        if (count < VALUES_LEAST)
            return md_compare_tell(result, name, "%s has %lld values; at least %d are needed",
                                   side ? "B" : "A", (long long)count, VALUES_LEAST);
        md_blocking(series[side].value[column[side]], count, &mean[side]);
        result->compared = count > result->compared ? count : result->compared;
    }
    return judge(result, name, mean);
}

static int compare_columns(struct md_compare *result, struct series series[2])
{
    const struct md_csv *b = &series[1].table;
    int error = md_compare_listed(result, &series[0].table, b), found = 0;
    for (int i = 0; i < b->column_count && !error; i++) {
        int a = md_csv_find(&series[0].table, b->column[i]);
        if (!is_wanted(result, b->column[i]))
            continue;
        found += a >= 0;
        if (a >= 0)
            error = compare_column(result, series, a, i);
        else if (!result->options->common)
            error = md_compare_tell(result, b->column[i], "only in B");
    }
    if (!error && !found)
        error = md_compare_tell(result, "columns", "none is in both files");
    return error;
}

int md_compare_statistics(struct md_compare *result, FILE *const stream[2])
{
    struct series *series = calloc(2, sizeof *series);
    int error = series ? 0 : leat_fail(-ENOMEM, "no memory for two tables");
    result->kind = "statistics";
    for (int side = 0; side < 2 && !error; side++) {
        series[side].table = (struct md_csv){.stream = stream[side], .name = result->path[side]};
        error = read_all(&series[side], result->options->skip_ps);
    }
    if (!error)
        error = compare_columns(result, series);
    for (int side = 0; series && side < 2; side++) {
        md_csv_close(&series[side].table);
        for (int i = 0; i < MD_CSV_COLUMNS; i++)
            free(series[side].value[i]);
    }
    free(series);
    return error;
}
