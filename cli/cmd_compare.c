// SPDX-License-Identifier: Apache-2.0
// leat compare: the results of two runs, and whether they are the same within a tolerance.
//
// What the two files are is told by their contents (apps/md/compare.c). Advantage: one command for
// reports, forces, trajectories and energies. Disadvantage: one pair of files at a time.

#include "commands.h"
#include "core/error.h"
#include "md/compare.h"
#include "options.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    OPTION_TOLERANCE = OPTION_LONG,
    OPTION_EXACT,
    OPTION_COMMON,
    OPTION_COLUMNS,
    OPTION_STATISTICS,
    OPTION_SKIP,
    OPTION_SIGMA,
    OPTION_JSON
};

#define TOLERANCE_DEFAULT 1e-5
#define SIGMA_DEFAULT     3.0

static const struct option_row rows[] = {
    {OPTION_TOLERANCE, "tolerance", "T",
     "relative difference allowed; 1e-8 suits double precision (1e-5)"},
    {OPTION_EXACT, "exact", NULL, "the same bits"},
    {OPTION_COMMON, "common", NULL,
     "pass over steps, columns and terms that only one of the files has"},
    {OPTION_COLUMNS, "columns", "NAMES", "of tables these columns only, as potential,pressure_bar"},
    {OPTION_STATISTICS, "statistics", NULL,
     "of tables the means, with standard errors from blocks, instead of the values"},
    {OPTION_SKIP, "skip-ps", "PS", "leave this time at the beginning out of the means (0)"},
    {OPTION_SIGMA, "sigma", "N", "standard errors that two means may be apart (3)"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.compare/1)"},
};

static const struct option_table table = {
    .command = "compare",
    .synopsis = "A B [--tolerance T | --exact | --statistics] [OPTIONS...]",
    .summary =
        "Compares the results of two runs, B being the reference: reports of `leat md --json`, "
        "forces as text, .gro and TRR trajectories by step, energies as CSV (or .xvg of gmx "
        "energy) by step and column. Prints what differs most, where, and what is allowed: T "
        "times the value, for Coulomb times |pairs| + |exclusions| + |self|, for sums what their "
        "terms are allowed; for forces and velocities T times the root mean square, for positions "
        "times the box. What is not a finite number always differs. The exit status is 0 when the "
        "files agree, 1 when they do not, 2 when they cannot be compared.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct request {
    struct md_compare_options options;
    bool as_json, tolerant;
};

static void print_value(double value, int width)
{
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(" %*.3e", width, value);
}

static void print_place(const struct md_compare_row *row)
{
    const char *verdict = row->differs ? "DIFFERS" : isnan(row->allowed) ? "-" : "equal";
    if (!*row->where && row->first_step < 0) {
        printf("  %s", verdict);
        return;
    }
    printf("  %-7s  %s", verdict, row->where);
    if (row->first_step >= 0)
        printf("; first at step %lld", (long long)row->first_step);
}

static void print_row(const struct md_compare_row *row, bool statistics)
{
    printf("%-26s", row->what);
    if (*row->text) {
        printf(" %s  DIFFERS\n", row->text);
        return;
    }
    if (statistics)
        printf(" %14.6g %9.2g %14.6g %9.2g", row->value[0], row->error[0], row->value[1],
               row->error[1]);
    // The distance to something that is no number is none.
    print_value(row->deviation, 10);
    print_value(row->allowed, 10);
    print_place(row);
    if (!statistics && !isnan(row->value[1]) && row->differs)
        printf(" (%.10g, %.10g)", row->value[0], row->value[1]);
    putchar('\n');
}

static void print_text(const struct md_compare *result)
{
    bool statistics = result->options->statistics;
    printf("A: %s\nB: %s\n%s", result->path[0], result->path[1], result->kind);
    if (result->options->exact)
        printf(", to the bit\n\n");
    else if (statistics)
        printf(", within %g standard errors\n\n", result->options->sigma);
    else
        printf(", tolerance %g\n\n", result->options->tolerance);
    printf("%-26s", "what");
    if (statistics)
        printf(" %14s %9s %14s %9s", "mean of A", "error", "mean of B", "error");
    printf(" %10s %10s  %-7s  where\n", statistics ? "apart" : "largest", "allowed", "verdict");
    for (int i = 0; i < result->row_count; i++)
        print_row(&result->rows[i], statistics);
    printf("\n%s\n", result->differs ? "The files differ." : "The files agree.");
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_row(const struct md_compare_row *row)
{
    return json_pack("{s:s, s:b, s:o, s:o, s:[o,o], s:[o,o], s:s, s:s*, s:o}", "what", row->what,
                     "differs", row->differs, "deviation", number(row->deviation), "allowed",
                     number(row->allowed), "values", number(row->value[0]), number(row->value[1]),
                     "errors", number(row->error[0]), number(row->error[1]), "where", row->where,
                     "text", *row->text ? row->text : NULL, "first_step",
                     row->first_step >= 0 ? json_integer((json_int_t)row->first_step)
                                          : json_null());
}

static int print_json(const struct md_compare *result)
{
    const struct md_compare_options *options = result->options;
    json_t *list = json_array();
    for (int i = 0; i < result->row_count; i++)
        json_array_append_new(list, json_row(&result->rows[i]));
    json_t *whole = json_pack(
        "{s:s, s:s, s:s, s:s, s:f, s:b, s:b, s:I, s:b, s:o}", "schema", "leat.compare/1", "kind",
        result->kind, "a", result->path[0], "b", result->path[1], "tolerance", options->tolerance,
        "exact", options->exact, "statistics", options->statistics, "compared",
        (json_int_t)result->compared, "equal", !result->differs, "rows", list);
    if (!whole)
        return leat_fail(-ENOMEM, "no memory for the report");
    json_dumpf(whole, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(whole);
    return 0;
}

static void read_option(struct option_reader *reader, struct request *request)
{
    struct md_compare_options *options = &request->options;
    switch (reader->id) {
    case OPTION_TOLERANCE:
        request->tolerant = options_number(reader, 0.0, 1.0, &options->tolerance);
        break;
    case OPTION_EXACT:
        options->exact = true;
        break;
    case OPTION_COMMON:
        options->common = true;
        break;
    case OPTION_COLUMNS:
        options->columns = reader->value;
        break;
    case OPTION_STATISTICS:
        options->statistics = true;
        break;
    case OPTION_SKIP:
        options_number(reader, 0.0, 1e12, &options->skip_ps);
        break;
    case OPTION_SIGMA:
        options_number(reader, 0.0, 1e6, &options->sigma);
        break;
    default:
        request->as_json = true;
    }
}

static int check(struct option_reader *reader, const struct request *request)
{
    const struct md_compare_options *options = &request->options;
    int count = reader->argc - reader->operand;
    if (count != 2)
        return options_error(reader, "two files are compared; %d %s given", count,
                             count == 1 ? "is" : "are");
    if (options->exact && (request->tolerant || options->statistics))
        return options_error(reader, "--exact allows nothing, so there is nothing for %s",
                             request->tolerant ? "--tolerance" : "--statistics");
    if (!options->statistics && (options->skip_ps > 0.0 || options->sigma != SIGMA_DEFAULT))
        return options_error(reader, "--skip-ps and --sigma belong to --statistics");
    return -1;
}

int cmd_compare(int argc, char **argv)
{
    struct request request = {.options = {.tolerance = TOLERANCE_DEFAULT, .sigma = SIGMA_DEFAULT}};
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        read_option(&reader, &request);
    if (reader.exit_status < 0)
        reader.exit_status = check(&reader, &request);
    if (reader.exit_status >= 0)
        return reader.exit_status;
    struct md_compare result;
    int error =
        md_compare_files(argv[reader.operand], argv[reader.operand + 1], &request.options, &result);
    if (!error && request.as_json)
        error = print_json(&result);
    else if (!error)
        print_text(&result);
    int status = result.differs ? EXIT_FAILED : EXIT_DONE;
    md_compare_free(&result);
    if (!error)
        return status;
    // 1 says that they differ, which nobody knows here.
    command_fail("compare", error);
    return EXIT_USAGE;
}
