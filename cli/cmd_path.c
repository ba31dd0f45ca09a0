// SPDX-License-Identifier: Apache-2.0
// leat path: which row of the path table leads from each rank to each other, and why.
//
// Algorithm: every rank asks for its own row of pairs; rank 0 gathers and prints them. Where ranks
// are on several hosts nothing carries the rows yet, and rank 0 prints its own. Pairs with the same
// answer are printed together. Advantage: what is printed is what a program started the same way
// would get. Disadvantage: all answers, N*N of them, pass through rank 0.

#define _GNU_SOURCE
#include "commands.h"
#include "core/job.h"
#include "core/launch.h"
#define LEAT_DEVICE_HOST_ONLY
#include "leat/device.h"
#include "leat/msg.h"
#include "options.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_JSON = OPTION_LONG };

#define RANKS_MAX     256
#define DEFAULT_RANKS 2
#define KINDS         4 // memory allocated by leat, registered by its owner, both of the owner's GPU

static const struct option_row rows[] = {
    {'n', "ranks", "N",
     "ranks to open, as threads of this process (2); inside `leat run` the ranks are the job's"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.path/1)"},
};

static const struct option_table table = {
    .command = "path",
    .synopsis = "[-n N] [--json]",
    .summary =
        "Prints, for each pair of ranks, the path to the peer's memory, and why better paths "
        "are not taken. `leat run -n 2 leat path` shows it for processes. The exit status is 1 "
        "when a pair has no path.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

static const char *const kind_words[KINDS] = {"allocated", "registered", "device",
                                              "device-registered"};

struct survey {
    int rank_count;
    int kinds;      // on the CPU device the first two
    int from_count; // whose rows are there: all ranks', or rank 0's
    bool threads;
    leat_path_report *report; // [from][to][kind]
};

static leat_path_report *report_at(const struct survey *survey, int from, int to, int kind)
{
    size_t pair = (size_t)from * (size_t)survey->rank_count + (size_t)to;
    return &survey->report[pair * KINDS + (size_t)kind];
}

static const leat_path_row *taken_row(const leat_path_report *report)
{
    for (int row = 0; row < report->row_count; row++)
        if (report->row[row].chosen)
            return &report->row[row];
    return NULL;
}

static int make_survey(struct survey *survey, int rank_count, bool threads)
{
    size_t pairs = (size_t)rank_count * (size_t)rank_count;
    *survey =
        (struct survey){.rank_count = rank_count, .from_count = rank_count, .threads = threads};
    survey->report = calloc(pairs * KINDS, sizeof *survey->report);
    return survey->report ? 0 : leat_fail(-ENOMEM, "no memory for %zu pairs of ranks", pairs);
}

// ---- Asking ----

// That no path leads to a peer is an answer here.
static int ask(leat_job *job, int from, struct survey *survey)
{
    leat_device_info device = {.size = sizeof device};
    int known = leat_device_info_get(job, &device);
    if (known)
        return known;
    survey->kinds = device.number >= 0 ? KINDS : KINDS - 2;
    for (int to = 0; to < survey->rank_count; to++)
        for (int kind = 0; kind < survey->kinds && kind < KINDS; kind++) {
            leat_path_report *report = report_at(survey, from, to, kind);
            report->size = sizeof *report;
            int error = leat_path_query(job, to, kind, report);
            if (error && error != -EHOSTUNREACH)
                return error;
        }
    return 0;
}

static int survey_threads(int rank_count, struct survey *survey)
{
    leat_options options = {.size = sizeof options, .thread_ranks = rank_count};
    leat_job **jobs = calloc((size_t)rank_count, sizeof *jobs);
    if (!jobs)
        return leat_fail(-ENOMEM, "no memory for %d handles", rank_count);
    int error = leat_open(&options, jobs);
    if (!error) {
        error = make_survey(survey, rank_count, true);
        for (int from = 0; from < rank_count && !error; from++)
            error = ask(jobs[from], from, survey);
        for (int rank = 0; rank < rank_count; rank++)
            leat_close(jobs[rank], NULL);
    }
    free(jobs);
    return error;
}

// Every rank's row to rank 0.
static int collect(leat_job *job, const leat_job_info *info, struct survey *survey)
{
    leat_comm *comm;
    leat_request request = {0};
    leat_request *const requests[] = {&request};
    bool at_root = info->rank == 0;
    leat_collective_options gather = {
        .size = sizeof gather,
        .kind = LEAT_GATHER,
        .send = at_root ? LEAT_IN_PLACE : report_at(survey, info->rank, 0, 0),
        .receive = survey->report,
        .count = (uint64_t)survey->rank_count * KINDS * sizeof *survey->report,
        .type = LEAT_BYTE};
    int error = leat_comm_split(job, NULL, &comm);
    if (!error)
        error = leat_collective(comm, &gather, &request);
    if (!error)
        error = leat_request_wait(requests, 1, LEAT_WAIT_ALL, info->timeout_s, NULL);
    return error;
}

// The others stay until rank 0 has asked.
static int survey_hosts(leat_job *job, int rank, struct survey *survey)
{
    survey->from_count = 1;
    if (rank == 0)
        return ask(job, 0, survey);
    leat_region *region;
    const leat_region_options memory = {.size = sizeof memory, .bytes = LEAT_SIGNAL_BYTES};
    int error = leat_region_alloc(job, &memory, &region);
    if (error)
        return error;
    const leat_event never = {.signal = {region, 0}, .at_least = 1, .from = 0};
    error = leat_wait(job, &never, 1, LEAT_WAIT_ALL, -1, NULL);
    return error == -ECONNRESET ? 0 : error;
}

static int survey_job(leat_job *job, const leat_job_info *info, struct survey *survey)
{
    int error = make_survey(survey, info->rank_count, info->thread_ranks > 1);
    if (!error && job->first_away >= 0)
        return survey_hosts(job, info->rank, survey);
    // Whether memory of a process may be read shows once that process has joined.
    if (!error)
        error = leat_barrier(job);
    if (!error)
        error = ask(job, info->rank, survey);
    // Nobody leaves while another still asks about its memory.
    error = leat_agree(job, error);
    return error ? error : collect(job, info, survey);
}

static int survey_launched(int *rank, struct survey *survey)
{
    leat_job *job;
    leat_job_info info = {.size = sizeof info};
    int error = leat_open(NULL, &job);
    if (error)
        return error;
    error = leat_job_info_get(job, &info);
    if (!error)
        error = survey_job(job, &info, survey);
    *rank = info.rank;
    leat_close(job, error ? leat_error_detail() : NULL);
    return error;
}

// ---- Printing ----

// A pair as one number: from * rank_count + to.
static bool same_answer(const struct survey *survey, int kind, int pair, int other)
{
    int n = survey->rank_count;
    const leat_path_report *a = report_at(survey, pair / n, pair % n, kind);
    const leat_path_report *b = report_at(survey, other / n, other % n, kind);
    return a->row_count == b->row_count &&
           !memcmp(a->row, b->row, (size_t)a->row_count * sizeof *a->row);
}

static void print_pairs(const struct survey *survey, int kind, int pair)
{
    int n = survey->rank_count, shown = 0, more = 0;
    printf(" ");
    for (int other = pair; other < survey->from_count * n; other++) {
        if (!same_answer(survey, kind, pair, other))
            continue;
        if (shown++ < 12)
            printf(" %d>%d", other / n, other % n);
        else
            more++;
    }
    if (more)
        printf(" and %d more", more);
    putchar('\n');
}

static void print_answer(const leat_path_report *report)
{
    for (int row = 0; row < report->row_count; row++) {
        const leat_path_row *line = &report->row[row];
        printf("    %-9s %-12s %s\n", line->name, line->chosen ? "taken" : "passed over",
               line->reason);
        if (line->chosen)
            return;
    }
    printf("    no path\n");
}

static const char *ranks_are(const struct survey *survey)
{
    return survey->threads                            ? "threads of one process"
           : survey->from_count == survey->rank_count ? "processes of one host"
                                                      : "processes of several hosts, as rank 0 "
                                                        "sees them";
}

static void print_text(const struct survey *survey)
{
    int n = survey->rank_count;
    printf("%d ranks, %s; A>B: from rank A to memory of rank B\n", n, ranks_are(survey));
    for (int kind = 0; kind < survey->kinds && kind < KINDS; kind++) {
        static const char *const headings[KINDS] = {"allocated by leat", "registered by its owner",
                                                    "of the owner's GPU, allocated by leat",
                                                    "of the owner's GPU, registered by it"};
        printf("\nmemory %s\n", headings[kind]);
        for (int pair = 0; pair < survey->from_count * n; pair++) {
            int before = 0;
            while (before < pair && !same_answer(survey, kind, before, pair))
                before++;
            if (before < pair)
                continue; // printed with that one
            print_pairs(survey, kind, pair);
            print_answer(report_at(survey, pair / n, pair % n, kind));
        }
    }
}

static json_t *describe_pair(const struct survey *survey, int from, int to, int kind)
{
    const leat_path_report *report = report_at(survey, from, to, kind);
    const leat_path_row *taken = taken_row(report);
    json_t *list = json_array();
    for (int row = 0; row < report->row_count; row++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", report->row[row].name,
                                              "taken", report->row[row].chosen, "reason",
                                              report->row[row].reason));
    return json_pack("{s:i, s:i, s:s, s:s?, s:o}", "from", from, "to", to, "memory",
                     kind_words[kind], "path", taken ? taken->name : NULL, "rows", list);
}

static int print_json(const struct survey *survey)
{
    json_t *pairs = json_array();
    for (int from = 0; from < survey->from_count; from++)
        for (int to = 0; to < survey->rank_count; to++)
            for (int kind = 0; kind < survey->kinds && kind < KINDS; kind++)
                json_array_append_new(pairs, describe_pair(survey, from, to, kind));
    json_t *whole =
        json_pack("{s:s, s:i, s:s, s:b, s:o}", "schema", "leat.path/1", "ranks", survey->rank_count,
                  "ranks_are", survey->threads ? "threads" : "processes", "several_hosts",
                  survey->from_count < survey->rank_count, "pairs", pairs);
    if (!whole)
        return leat_fail(-ENOMEM, "no memory for the report");
    json_dumpf(whole, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(whole);
    return 0;
}

// Names the first pair without a path.
static int check_all_reached(const struct survey *survey)
{
    for (int from = 0; from < survey->from_count; from++)
        for (int to = 0; to < survey->rank_count; to++)
            for (int kind = 0; kind < survey->kinds && kind < KINDS; kind++)
                if (!taken_row(report_at(survey, from, to, kind)))
                    return leat_fail(-EHOSTUNREACH,
                                     "no path leads from rank %d to memory %s by rank %d", from,
                                     kind_words[kind], to);
    return 0;
}

int cmd_path(int argc, char **argv)
{
    int rank_count = 0, rank = 0;
    bool as_json = false;
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        if (reader.id == 'n')
            options_integer(&reader, 1, RANKS_MAX, &rank_count);
        else
            as_json = true;
    if (reader.exit_status >= 0 || !options_no_operands(&reader))
        return reader.exit_status;
    if (rank_count && leat_launched())
        return options_error(&reader, "-n %d inside a launched job, which has its own ranks",
                             rank_count);
    struct survey survey = {0};
    int error = leat_launched() ? survey_launched(&rank, &survey)
                                : survey_threads(rank_count ? rank_count : DEFAULT_RANKS, &survey);
    if (!error && rank == 0) {
        if (as_json)
            error = print_json(&survey);
        else
            print_text(&survey);
        if (!error)
            error = check_all_reached(&survey);
    }
    free(survey.report);
    return error ? command_fail("path", error) : EXIT_DONE;
}
