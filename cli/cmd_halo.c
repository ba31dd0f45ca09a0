// SPDX-License-Identifier: Apache-2.0
// leat halo check: replays a plan file and reports every entry that is missing, double or stale.
//
// Algorithm: first both sides of every pulse are compared, as reading; only plans that agree can be
// opened, and those are run in each mode asked for, with a thread a rank (src/halo/check.c).
// Advantage: a plan from another program, or another day, is tried without that program.
// Disadvantage: as many threads as the plan has ranks.

#include "commands.h"
#include "core/error.h"
#include "core/launch.h"
#include "halo/check.h"
#include "options.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_MODE = OPTION_LONG, OPTION_STEPS, OPTION_JSON };

#define STEPS_DEFAULT  3
#define FINDINGS_SHOWN 20

// As leat_mode counts them; behind the last, all.
static const char *const mode_names[] = {"fused", "host", "stream", "pulse", "resident", "all"};

#define MODE_COUNT (sizeof mode_names / sizeof *mode_names)
#define MODE_ALL   ((int)MODE_COUNT - 1)

static const struct option_row rows[] = {
    {OPTION_MODE, "mode", "MODE", "fused, host, stream, pulse, resident or all (all)"},
    {OPTION_STEPS, "steps", "N", "steps in each mode, forward and back (3)"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.halo.check/1)"},
};

static const struct option_table table = {
    .command = "halo",
    .synopsis = "check PLAN [--mode MODE] [--steps N] [--json]",
    .summary =
        "Replays PLAN, a file that leat_plan_write has written, on this host with a thread a rank: "
        "stamped values forward, values that can be counted back. Reports what the two sides of a "
        "pulse disagree about, and every entry that is missing, double, misplaced or stale, with "
        "rank, pulse and slot. The exit status is 0 when all is right, 1 when it is not, 2 when "
        "the command was wrong.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

struct request {
    const char *path;
    int mode, steps;
    bool as_json;
};

static int run_check(const struct request *request, const struct plan_set *set,
                     struct check_report *report)
{
    leat_check_pairs(set, report);
    int error = 0;
    for (int mode = 0; !error && !leat_check_total(report) && mode < MODE_ALL; mode++)
        if (request->mode == MODE_ALL || request->mode == mode)
            error = leat_check_replay(set, (enum leat_mode)mode, request->steps, report);
    return error;
}

// ---- Printing ----

static void print_text(const struct request *request, const struct plan_set *set,
                       const struct check_report *report)
{
    size_t shown = report->kept < FINDINGS_SHOWN ? report->kept : FINDINGS_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const struct finding *finding = &report->finding[i];
        printf("%-9s  rank %d", leat_finding_names[finding->kind], finding->rank);
        if (finding->pulse >= 0)
            printf(", pulse %d, slot %u", finding->pulse, finding->slot);
        printf(": %s\n", finding->text);
    }
    uint64_t total = leat_check_total(report);
    if (total > shown)
        printf("and %llu more\n", (unsigned long long)(total - shown));
    printf("%s: %d ranks, mode %s, %llu exchanges, %llu ghosts looked at: ", request->path,
           set->rank_count, mode_names[request->mode], (unsigned long long)report->exchanges,
           (unsigned long long)report->ghosts);
    if (!total)
        printf("all right\n");
    const char *comma = "";
    for (int kind = 0; kind < FINDING_KINDS; kind++) {
        if (!report->count[kind])
            continue;
        printf("%s%llu %s", comma, (unsigned long long)report->count[kind],
               leat_finding_names[kind]);
        comma = ", ";
    }
    if (total)
        putchar('\n');
}

static int print_json(const struct request *request, const struct plan_set *set,
                      const struct check_report *report)
{
    json_t *counts = json_object(), *list = json_array();
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        json_object_set_new(counts, leat_finding_names[kind],
                            json_integer((json_int_t)report->count[kind]));
    for (size_t i = 0; i < report->kept; i++) {
        const struct finding *finding = &report->finding[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I, s:s}", "kind",
                                              leat_finding_names[finding->kind], "rank",
                                              finding->rank, "pulse", finding->pulse, "slot",
                                              (json_int_t)finding->slot, "text", finding->text));
    }
    json_t *whole =
        json_pack("{s:s, s:s, s:i, s:s, s:i, s:b, s:I, s:I, s:o, s:o}", "schema",
                  "leat.halo.check/1", "plan", request->path, "ranks", set->rank_count, "mode",
                  mode_names[request->mode], "steps", request->steps, "right",
                  leat_check_total(report) == 0, "exchanges", (json_int_t)report->exchanges,
                  "ghosts", (json_int_t)report->ghosts, "counts", counts, "findings", list);
    if (!whole)
        return leat_fail(-ENOMEM, "no memory for the report");
    json_dumpf(whole, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(whole);
    return 0;
}

static int check(const struct request *request)
{
    struct plan_set set;
    struct check_report *report = calloc(1, sizeof *report);
    if (!report)
        return command_fail("halo", leat_fail(-ENOMEM, "no memory for the report"));
    int error = leat_plan_set_read(request->path, &set);
    if (error) {
        free(report);
        return command_fail("halo", error);
    }
    error = run_check(request, &set, report);
    if (!error && request->as_json)
        error = print_json(request, &set, report);
    else if (!error)
        print_text(request, &set, report);
    bool right = !leat_check_total(report);
    leat_plan_set_free(&set);
    free(report);
    if (error)
        return command_fail("halo", error);
    return right ? EXIT_DONE : EXIT_FAILED;
}

int cmd_halo(int argc, char **argv)
{
    struct request request = {.mode = MODE_ALL, .steps = STEPS_DEFAULT};
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        switch (reader.id) {
        case OPTION_MODE:
            options_choice(&reader, mode_names, MODE_COUNT, &request.mode);
            break;
        case OPTION_STEPS:
            options_integer(&reader, 1, 1000000, &request.steps);
            break;
        default:
            request.as_json = true;
        }
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (argc - reader.operand < 1 || strcmp(argv[reader.operand], "check") != 0)
        return options_error(&reader, "what is to be done? leat halo check PLAN");
    if (argc - reader.operand != 2)
        return options_error(&reader, "check takes one plan file; %d are given",
                             argc - reader.operand - 1);
    if (leat_launched())
        return options_error(&reader, "check opens ranks of its own; run it outside `leat run`");
    request.path = argv[reader.operand + 1];
    return check(&request);
}
