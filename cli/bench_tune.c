// SPDX-License-Identifier: Apache-2.0
// leat bench p2p --tune; the algorithm is told in the header.

#include "bench_tune.h"

#include "bench_fit.h"
#include "bench_settings.h"
#include "core/config.h"
#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TELLING_ROUNDS = 5, THRESHOLDS = 2 }; // with fewer slices a spread is no spread

#define FLAG_CHANGE  1.5    // between sizes: the cores' distance has changed meanwhile
#define FLAG_BUSY_NS 5000.0 // no distance: something else has the cores

// What no message has, and yet fits wherever a size is kept.
#define NEVER_SHARED "LEAT_MSG_SHARE=1G"

static const struct {
    const char *name, *title, *setting[2];
} ways[WAY_COUNT] = {
    [WAY_RING] = {"ring", "by ring", {"LEAT_MSG_EAGER=32K", NEVER_SHARED}},
    [WAY_ALONE] = {"alone", "announced", {"LEAT_MSG_EAGER=0", NEVER_SHARED}},
    [WAY_SHARED] = {"shared", "announced, shared", {"LEAT_MSG_EAGER=0", "LEAT_MSG_SHARE=4K"}},
};

struct proposal {
    enum setting_id id;
    uint64_t present;
    struct bench_threshold threshold;
    bool written;
};

struct tune {
    const struct bench_common *common;
    const struct bench_sizes *sizes;
    struct bench_sides sides;
    struct bench_fit_size measured[BENCH_SIZES_MAX];
    double flag_least_ns, flag_most_ns; // medians, over the sizes
    struct config config;
    char file[256]; // of settings; empty: there is no place for one
    struct proposal proposal[THRESHOLDS];
    json_t *list;
};

static const char *bytes_text(uint64_t bytes, char text[24])
{
    static const char suffixes[] = " KMGT";
    int power = 0;
    for (; power < 4 && bytes && bytes % 1024 == 0; power++)
        bytes /= 1024;
    snprintf(text, 24, power ? "%" PRIu64 "%c" : "%" PRIu64, bytes, suffixes[power]);
    return text;
}

// ---- measuring ----

static int start(struct tune *tune)
{
    int error = bench_open(&tune->sides, tune->common->rank_count);
    if (error)
        return error;
    for (int way = 0; way < WAY_COUNT; way++) {
        struct bench_side *side = bench_add_leat(&tune->sides, ways[way].name, "msg-rank", NULL);
        bench_add_path(side, tune->common);
        for (int i = 0; i < 2; i++)
            bench_add_setting(side, ways[way].setting[i]);
    }
    return bench_start(&tune->sides);
}

static void keep(struct tune *tune, int index)
{
    struct bench_fit_size *size = &tune->measured[index];
    double flag_ns = bench_median(&tune->sides.flag_ns);
    *size = (struct bench_fit_size){.bytes = tune->sizes->value[index]};
    for (int way = 0; way < WAY_COUNT; way++) {
        const struct bench_series *ns = &tune->sides.side[way].ns;
        if (!ns->count)
            continue;
        size->ns[way].quarter = ns->value[ns->count / 4];
        size->ns[way].median = bench_median(ns);
        size->ns[way].three_quarters = ns->value[ns->count - 1 - ns->count / 4];
    }
    if (index == 0 || flag_ns < tune->flag_least_ns)
        tune->flag_least_ns = flag_ns;
    if (index == 0 || flag_ns > tune->flag_most_ns)
        tune->flag_most_ns = flag_ns;
}

static void report_json(struct tune *tune, const struct bench_fit_size *size)
{
    char name[64];
    snprintf(name, sizeof name, "tune/%" PRIu64, size->bytes);
    json_t *entry = json_pack("{s:s, s:I}", "name", name, "bytes", (json_int_t)size->bytes);
    for (int way = 0; way < WAY_COUNT; way++) {
        if (size->ns[way].median > 0)
            bench_json_series(entry, ways[way].name, "_us", &tune->sides.side[way].ns, 1e3);
        snprintf(name, sizeof name, "%s_us", ways[way].name);
        if (!json_object_get(entry, name))
            json_object_set_new(entry, name, json_null());
    }
    json_object_set_new(entry, "fastest", json_string(ways[bench_fit_fastest(size)].name));
    bench_json_series(entry, "flag", "_ns", &tune->sides.flag_ns, 1);
    json_array_append_new(tune->list, entry);
}

static void print_head(const struct tune *tune)
{
    printf("# leat bench p2p --tune, %d processes, half a round trip, us: median (min-max) of %d "
           "slices of %d ms\n#%8s",
           tune->common->rank_count, tune->common->pace.rounds, tune->common->pace.slice_ms,
           "bytes");
    for (int way = 0; way < WAY_COUNT; way++)
        printf("  %26s", ways[way].title);
    printf("  %-10s  %22s\n", "fastest", "flag ns");
    fflush(stdout);
}

// A way that the fastest one does not leave behind by more than the spread is as fast.
static void print_line(const struct tune *tune, const struct bench_fit_size *size)
{
    bool close = false;
    enum bench_way fastest = bench_fit_fastest(size);
    printf("%9" PRIu64, size->bytes);
    for (enum bench_way way = WAY_RING; way < WAY_COUNT; way++) {
        if (size->ns[way].median > 0)
            bench_print_series(&tune->sides.side[way].ns, 1e3, 26);
        else
            printf("  %26s", "-");
        close |= way != fastest && size->ns[way].median > 0 && !bench_fit_slower(size, way);
    }
    printf("  %-6s%4s", ways[fastest].name, close ? "?" : "");
    bench_print_series(&tune->sides.flag_ns, 1, 22);
    putchar('\n');
    fflush(stdout);
}

static int measure(struct tune *tune)
{
    int error = 0;
    if (!tune->common->json)
        print_head(tune);
    for (int i = 0; !error && i < tune->sizes->count; i++) {
        uint64_t bytes = tune->sizes->value[i];
        tune->sides.side[WAY_RING].idle = bytes > BENCH_RING_MOST;
        tune->sides.side[WAY_SHARED].idle = bytes < BENCH_SHARE_LEAST;
        error = bench_measure(&tune->sides, &tune->common->pace, "p2p", bytes);
        if (error)
            break;
        keep(tune, i);
        report_json(tune, &tune->measured[i]);
        if (!tune->common->json)
            print_line(tune, &tune->measured[i]);
    }
    return error;
}

// ---- proposing ----

// NULL where all sizes have seen the same machine.
static const char *unsteady(const struct tune *tune, char text[160])
{
    if (tune->flag_most_ns > FLAG_BUSY_NS)
        snprintf(text, 160,
                 "something else has the cores (a flag took up to %.0f ns): measure again without "
                 "it",
                 tune->flag_most_ns);
    else if (tune->flag_most_ns > FLAG_CHANGE * tune->flag_least_ns)
        snprintf(text, 160,
                 "the cores' distance has changed meanwhile (a flag took %.0f to %.0f ns): measure "
                 "again",
                 tune->flag_least_ns, tune->flag_most_ns);
    else
        return NULL;
    return text;
}

// NULL where the measurement can tell.
static const char *untold(const struct tune *tune, const struct proposal *proposal, char text[160])
{
    if (tune->common->pace.rounds < TELLING_ROUNDS) {
        snprintf(text, 160, "%d slices a size are too few to tell, give --rounds %d or more",
                 tune->common->pace.rounds, TELLING_ROUNDS);
        return text;
    }
    if (!proposal->threshold.told && proposal->threshold.lowest == proposal->threshold.highest)
        return "no size was measured that it decides on";
    if (!proposal->threshold.told)
        return "the spread is too large to tell, so it stays";
    return unsteady(tune, text);
}

static void propose(struct tune *tune)
{
    uint64_t eager = tune->config.msg_eager_bytes, share = tune->config.msg_share_bytes;
    struct bench_thresholds found = bench_fit(tune->measured, tune->sizes->count, eager, share);
    tune->proposal[0] = (struct proposal){SETTING_MSG_EAGER, eager, found.eager, false};
    tune->proposal[1] = (struct proposal){SETTING_MSG_SHARE, share, found.share, false};
}

static int write_settings(struct tune *tune)
{
    if (!tune->file[0])
        return leat_fail(-ENOENT, "there is no place for a settings file: set HOME or LEAT_CONFIG");
    for (int i = 0; i < THRESHOLDS; i++) {
        struct proposal *proposal = &tune->proposal[i];
        char value[24], why[160];
        const char *name = leat_settings[proposal->id].name;
        if (untold(tune, proposal, why))
            continue;
        int error =
            bench_settings_set(tune->file, name, bytes_text(proposal->threshold.value, value));
        if (error)
            return error;
        proposal->written = true;
        if (tune->config.source[proposal->id] == FROM_ENVIRONMENT)
            fprintf(stderr, "leat bench: %s is set in the environment, which counts before %s\n",
                    name, tune->file);
    }
    return 0;
}

// ---- reporting the proposals ----

static double announced_ns(const struct bench_fit_size *size)
{
    double alone = size->ns[WAY_ALONE].median, shared = size->ns[WAY_SHARED].median;
    return shared > 0 && shared < alone ? shared : alone;
}

// The sizes on both sides of a threshold. Where a ring carries messages nobody shares a copy.
static void print_figures(const struct tune *tune, const struct proposal *proposal)
{
    bool eager = proposal->id == SETTING_MSG_EAGER;
    enum bench_way way = eager ? WAY_RING : WAY_SHARED;
    uint64_t value = proposal->threshold.value;
    const struct bench_fit_size *near[2] = {NULL, NULL};
    for (int i = 0; i < tune->sizes->count; i++) {
        const struct bench_fit_size *size = &tune->measured[i];
        bool below = eager ? size->bytes <= value : size->bytes < value;
        bool counts = eager || size->bytes > tune->proposal[0].threshold.value;
        if (counts && size->ns[way].median > 0 && (below || !near[1]))
            near[below ? 0 : 1] = size;
    }
    for (int i = 0; i < 2; i++) {
        char text[24];
        if (near[i])
            printf("# at %s %.2f us %s, %.2f %s\n", bytes_text(near[i]->bytes, text),
                   near[i]->ns[way].median / 1e3, ways[way].title,
                   (eager ? announced_ns(near[i]) : near[i]->ns[WAY_ALONE].median) / 1e3,
                   eager ? "announced" : "by the receiver alone");
    }
}

static void print_proposal(const struct tune *tune, const struct proposal *proposal)
{
    char value[24], low[24], high[24], why[160];
    const struct bench_threshold *threshold = &proposal->threshold;
    const char *reason = untold(tune, proposal, why), *name = leat_settings[proposal->id].name;
    print_figures(tune, proposal);
    if (reason)
        printf("# %s: %s\n", name, reason);
    else if (threshold->lowest < threshold->highest)
        printf("# %s to %s do as well within the spread\n", bytes_text(threshold->lowest, low),
               bytes_text(threshold->highest, high));
    printf("%s%s = %s # %s%s\n", reason ? "# " : "", name, bytes_text(threshold->value, value),
           threshold->value == proposal->present ? "as it is" : "is now ",
           threshold->value == proposal->present ? "" : bytes_text(proposal->present, low));
}

static void print_proposals(const struct tune *tune, bool write)
{
    printf("#\n# fastest with \"?\": another way is as fast within the spread\n");
    printf("# for the settings file %s%s:\n", tune->file,
           write ? "" : ", which --write puts them into");
    for (int i = 0; i < THRESHOLDS; i++)
        print_proposal(tune, &tune->proposal[i]);
    for (int i = 0; write && i < THRESHOLDS; i++)
        printf("# %s: %s\n", leat_settings[tune->proposal[i].id].name,
               tune->proposal[i].written ? "written" : "not written");
}

static json_t *proposals_json(const struct tune *tune)
{
    json_t *list = json_array();
    char value[24], line[80], why[160];
    for (int i = 0; i < THRESHOLDS; i++) {
        const struct proposal *proposal = &tune->proposal[i];
        const struct bench_threshold *threshold = &proposal->threshold;
        const char *name = leat_settings[proposal->id].name;
        const char *reason = untold(tune, proposal, why);
        snprintf(line, sizeof line, "%s = %s", name, bytes_text(threshold->value, value));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:s?, s:b}", "name", name, "line",
                            line, "present", (json_int_t)proposal->present, "value",
                            (json_int_t)threshold->value, "lowest", (json_int_t)threshold->lowest,
                            "highest", (json_int_t)threshold->highest, "told", reason == NULL,
                            "why_not", reason, "written", proposal->written));
    }
    return json_pack("{s:o, s:s, s:f, s:f}", "settings", list, "settings_file", tune->file,
                     "flag_least_ns", tune->flag_least_ns, "flag_most_ns", tune->flag_most_ns);
}

int bench_tune(const struct bench_common *common, const struct bench_sizes *sizes, bool write)
{
    struct tune tune = {.common = common, .sizes = sizes, .list = json_array()};
    // As another rank than 0, which alone warns of names that are no settings: the sides do too.
    int error = leat_config_load(NULL, 1, &tune.config);
    if (!error && !leat_config_file(tune.file, sizeof tune.file))
        tune.file[0] = 0;
    if (!error) {
        error = start(&tune);
        if (!error)
            error = measure(&tune);
        bench_close(&tune.sides, error);
    }
    if (!error) {
        propose(&tune);
        error = write ? write_settings(&tune) : 0;
    }
    if (!error && common->json)
        bench_print_json("p2p --tune", &tune.sides, &common->pace, tune.list,
                         proposals_json(&tune));
    else
        json_decref(tune.list);
    if (!error && !common->json)
        print_proposals(&tune, write);
    return error;
}
