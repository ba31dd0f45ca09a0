// SPDX-License-Identifier: Apache-2.0
// Energies of two runs as CSV, column by column, rows matched by step.
//
// Whose row is behind goes on, as with trajectories. Advantage: runs that wrote at different
// intervals can be compared (`common`). Disadvantage: rows have to be in ascending order of steps.

#include "md/compare.h"

#include "core/error.h"
#include "md/md.h"
#include "md/csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct side {
    struct md_csv table;
    bool there;
    int64_t step, step_before, only, first_only;
};

struct columns {
    int count;
    int of[2][MD_CSV_COLUMNS]; /* their numbers in either file */
    struct md_compare_worst worst[MD_CSV_COLUMNS];
    int64_t half[MD_CSV_COLUMNS]; /* values that only one of them has */
};

static int advance(struct side *side)
{
    struct md_csv *table = &side->table;
    int got = md_csv_next(table);
    side->there = got > 0;
    if (got <= 0)
        return got;
    double step = table->step < 0 ? (double)table->row : table->value[table->step];
    // A double holds whole numbers up to this one.
    if (!(step >= 0.0 && step <= 0x1p53) || step != floor(step))
        return leat_fail(-EINVAL, "%s:%lld: %g is no step", table->name,
                         (long long)table->line.number, step);
    side->step = (int64_t)step;
    if (table->row > 1 && side->step <= side->step_before)
        return leat_fail(-EINVAL, "%s:%lld: step %lld behind step %lld", table->name,
                         (long long)table->line.number, (long long)side->step,
                         (long long)side->step_before);
    side->step_before = side->step;
    return 0;
}

static bool is_wanted(const struct md_compare *result, const char *name)
{
    return !result->options->columns || md_csv_listed(result->options->columns, name);
}

// No energies, so no sum has them as a term.
static bool is_apart(const char *name)
{
    return md_csv_listed("step,time,coulomb_gross,temperature_k,pressure_bar,volume_nm3", name);
}

// Rounding and nothing else, unless the runs are to be the same to the bit.
static bool is_noise(const struct md_compare *result, const char *name)
{
    return !result->options->exact && strncmp(name, "net_force", 9) == 0;
}

int md_compare_listed(struct md_compare *result, const struct md_csv *a, const struct md_csv *b)
{
    int error = 0;
    for (const char *at = result->options->columns; at && !error;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[sizeof *a->column];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (md_csv_find(a, name) < 0 && md_csv_find(b, name) < 0)
            error = md_compare_tell(result, name, "a column of neither file");
    }
    return error;
}

static int pair_columns(struct md_compare *result, const struct md_csv *a, const struct md_csv *b,
                        struct columns *columns)
{
    const struct md_compare_options *options = result->options;
    int error = 0;
    if (options->columns)
        error = md_compare_listed(result, a, b);
    for (int i = 0; i < b->column_count && !error; i++) {
        int other = md_csv_find(a, b->column[i]);
        if (strcmp(b->column[i], "step") == 0 || is_noise(result, b->column[i]) ||
            !is_wanted(result, b->column[i]))
            continue;
        if (other < 0) {
            error = options->common ? 0 : md_compare_tell(result, b->column[i], "only in B");
            continue;
        }
        columns->of[0][columns->count] = other;
        columns->of[1][columns->count] = i;
        columns->worst[columns->count++] = (struct md_compare_worst){.what = b->column[i]};
    }
    for (int i = 0; i < a->column_count && !error && !options->common; i++)
        if (md_csv_find(b, a->column[i]) < 0 && is_wanted(result, a->column[i]))
            error = md_compare_tell(result, a->column[i], "only in A");
    return error;
}

// 2/(3V) of what the kinetic energy and the trace of the virial may differ by; see compare_json.c.
static double pressure_allowed(const struct md_csv *table, const struct md_compare_term *term,
                               int count)
{
    int volume = md_csv_find(table, "volume_nm3");
    double kinetic = NAN, potential = NAN;
    for (int i = 0; i < count; i++) {
        if (strcmp(term[i].name, "kinetic") == 0)
            kinetic = term[i].allowed;
        if (strcmp(term[i].name, "potential") == 0)
            potential = term[i].allowed;
    }
    if (volume < 0 || !(table->value[volume] > 0.0))
        return NAN;
    return md_pressure_bar(kinetic + 3.0 * potential, (const double[9]){0}, table->value[volume]);
}

// What each column may differ by in this row of B.
static void allow(const struct md_compare *result, const struct side sides[2],
                  const struct columns *columns, double *allowed)
{
    struct md_compare_term term[MD_CSV_COLUMNS] = {0};
    const struct md_csv *b = &sides[1].table;
    double gross = NAN;
    int terms = 0, term_of[MD_CSV_COLUMNS] = {0};
    for (int side = 0; side < 2; side++) {
        int column = md_csv_find(&sides[side].table, "coulomb_gross");
        if (column >= 0)
            gross = fmin(gross, sides[side].table.value[column]);
    }
    for (int i = 0; i < b->column_count; i++) {
        bool energy = !is_apart(b->column[i]);
        term_of[i] = energy ? terms : -1;
        if (energy && b->has[i]) {
            snprintf(term[terms].name, sizeof term[terms].name, "%s", b->column[i]);
            term[terms++].value = b->value[i];
        }
    }
    md_compare_allow(term, terms, result->options->tolerance, gross);
    double pressure = pressure_allowed(b, term, terms);
    for (int c = 0; c < columns->count; c++) {
        int i = columns->of[1][c];
        allowed[c] = term_of[i] >= 0 && b->has[i]
                         ? term[term_of[i]].allowed
                         : fmax(result->options->tolerance * fabs(b->value[i]), 1e-9);
        if (strcmp(b->column[i], "pressure_bar") == 0 && isfinite(pressure))
            allowed[c] = pressure;
    }
}

static void compare_rows(struct md_compare *result, const struct side sides[2],
                         struct columns *columns)
{
    double allowed[MD_CSV_COLUMNS];
    allow(result, sides, columns, allowed);
    for (int c = 0; c < columns->count; c++) {
        int a = columns->of[0][c], b = columns->of[1][c];
        const struct md_csv *ta = &sides[0].table, *tb = &sides[1].table;
        columns->half[c] += ta->has[a] != tb->has[b];
        if (ta->has[a] && tb->has[b])
            md_compare_values(result, &columns->worst[c], ta->value[a], tb->value[b], allowed[c], 0,
                              sides[1].step);
    }
    result->compared++;
}

static int walk(struct md_compare *result, struct side sides[2], struct columns *columns)
{
    int error = advance(&sides[0]);
    if (!error)
        error = advance(&sides[1]);
    while (!error && (sides[0].there || sides[1].there)) {
        int behind = !sides[0].there || (sides[1].there && sides[1].step < sides[0].step);
        if (sides[0].there && sides[1].there && sides[0].step == sides[1].step) {
            compare_rows(result, sides, columns);
            error = advance(&sides[0]);
            behind = 1;
        } else if (sides[behind].only++ == 0) {
            sides[behind].first_only = sides[behind].step;
        }
        if (!error)
            error = advance(&sides[behind]);
    }
    return error;
}

static int report(struct md_compare *result, const struct side sides[2],
                  const struct columns *columns)
{
    int error = 0;
    for (int side = 0; side < 2 && !error; side++)
        if (sides[side].only && !result->options->common)
            error = md_compare_tell(result, "steps", "%lld only in %s, the first is step %lld",
                                    (long long)sides[side].only, side ? "B" : "A",
                                    (long long)sides[side].first_only);
    if (!error && (!result->compared || !columns->count))
        error = md_compare_tell(result, result->compared ? "columns" : "steps",
                                "none is in both files");
    for (int c = 0; c < columns->count && !error; c++) {
        error = md_compare_add(result, &columns->worst[c]);
        if (!error && columns->half[c])
            error = md_compare_tell(result, columns->worst[c].what,
                                    "%lld values are there in one file only",
                                    (long long)columns->half[c]);
    }
    return error;
}

int md_compare_tables(struct md_compare *result, FILE *const stream[2])
{
    struct side *sides = calloc(2, sizeof *sides);
    struct columns *columns = calloc(1, sizeof *columns);
    int error = sides && columns ? 0 : leat_fail(-ENOMEM, "no memory for two tables");
    result->kind = "energies";
    for (int side = 0; side < 2 && !error; side++) {
        sides[side].table = (struct md_csv){.stream = stream[side], .name = result->path[side]};
        error = md_csv_open(&sides[side].table);
    }
    if (!error)
        error = pair_columns(result, &sides[0].table, &sides[1].table, columns);
    if (!error)
        error = walk(result, sides, columns);
    if (!error)
        error = report(result, sides, columns);
    for (int side = 0; sides && side < 2; side++)
        md_csv_close(&sides[side].table);
    free(columns);
    free(sides);
    return error;
}
