// SPDX-License-Identifier: Apache-2.0
// leat bench memory and flood: what messages cost in memory, for leat, Open MPI and MPICH.
//
// Algorithm: memory asks each rank for its resident bytes after it has talked to so many others, in
// rising numbers; flood lets senders go on while nobody receives, then receives all. leat adds what
// its own budget counted. Advantage: the system's figures and the library's stand side by side.
// Disadvantage: resident bytes come in pages, and shared ones count at everybody who touched them.

#include "bench.h"
#include "bench_options.h"
#include "commands.h"
#include "core/error.h"

#include <errno.h>
#include <stdlib.h>

enum { OPTION_PEERS = OPTION_LONG, OPTION_COUNT, OPTION_BYTES };
enum { FLOOD_ANSWER_S = 1800 };

static const struct option_row memory_rows[] = {
    BENCH_COMMON_ROWS,
    {OPTION_PEERS, "peers", "N[,N...]",
     "others that each rank sends to, rising (0 and all of them)"},
};

static const struct option_table memory_table = {
    .command = "bench memory",
    .synopsis = "[-n N] [--transport NAME] [--against openmpi,mpich] [--peers N,...] [--json]",
    .summary =
        "What a rank holds after it has sent 8 bytes to so many others and received as many: "
        "resident and private dirty bytes as the system counts them (median over the ranks), and "
        "for leat the bytes that count against LEAT_MSG_BUDGET (the highest rank's).",
    .row = memory_rows,
    .row_count = sizeof memory_rows / sizeof *memory_rows,
};

static const struct option_row flood_rows[] = {
    BENCH_COMMON_ROWS,
    {OPTION_COUNT, "count", "N", "messages, from all senders together (1000000)"},
    {OPTION_BYTES, "bytes", "N", "bytes of each (64)"},
};

static const struct option_table flood_table = {
    .command = "bench flood",
    .synopsis = "[-n N] [--count N] [--bytes N] [--transport NAME] [--against openmpi,mpich] "
                "[--json]",
    .summary =
        "Ranks 1 and up send to rank 0, which does not receive before all is sent or the senders "
        "have been waiting for a second. Then it receives all, checking each message. Printed: "
        "messages delivered, whether each sender's came in order, messages sent before the first "
        "was received, the growth of the receiver's resident bytes, and for leat the peak of what "
        "counts against LEAT_MSG_BUDGET (the highest rank's).",
    .row = flood_rows,
    .row_count = sizeof flood_rows / sizeof *flood_rows,
};

struct memory_bench {
    struct bench_common common;
    struct bench_sizes peers, count, bytes;
    struct bench_sides sides;
    json_t *list, *more;
    bool wrong; // something was lost or overtaken
};

static int parse(struct option_reader *reader, struct memory_bench *bench)
{
    while (options_next(reader))
        switch (reader->id) {
        case OPTION_PEERS:
            bench_read_sizes(reader, "peers", 0, BENCH_RANKS_MAX - 1, &bench->peers);
            break;
        case OPTION_COUNT:
            bench_read_sizes(reader, "count", 1, UINT64_C(1) << 40, &bench->count);
            break;
        case OPTION_BYTES:
            bench_read_sizes(reader, "bytes", 0, UINT64_C(1) << 30, &bench->bytes);
            break;
        default:
            bench_read_common(reader, &bench->common);
        }
    if (reader->exit_status < 0 && options_no_operands(reader) && bench->common.rank_count < 2)
        options_error(reader, "-n is 1, but messages take two ranks");
    if (reader->exit_status < 0 && (bench->count.count > 1 || bench->bytes.count > 1))
        options_error(reader, "--count and --bytes take one number each");
    return reader->exit_status;
}

static struct bench_series over_ranks(const struct bench_sides *sides, int value)
{
    struct bench_series series = {.count = 0};
    // A hundred ranks say what a rank holds.
    for (int rank = 0; rank < sides->rank_count && rank < BENCH_ROUNDS_MAX; rank++)
        series.value[series.count++] = sides->values[rank][value];
    bench_sort(&series);
    return series;
}

static double highest(const struct bench_sides *sides, int value, int first_rank)
{
    double most = 0;
    for (int rank = first_rank; rank < sides->rank_count; rank++)
        if (sides->values[rank][value] > most)
            most = sides->values[rank][value];
    return most;
}

static void set_bytes(json_t *entry, const char *side, const char *key, double bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", side, *side ? "_" : "", key);
    json_object_set_new(entry, name, json_integer((json_int_t)bytes));
}

// ---- memory ----

static int hold(struct memory_bench *bench, int index, uint64_t peers, json_t *entry)
{
    struct bench_sides *sides = &bench->sides;
    struct bench_side *side = &sides->side[index];
    int error = bench_slice(sides, side, "memory", 8, peers);
    if (error)
        return error;
    struct bench_series resident = over_ranks(sides, 0), dirty = over_ranks(sides, 2);
    set_bytes(entry, side->name, "rss_bytes", bench_median(&resident));
    set_bytes(entry, side->name, "rss_max_bytes", resident.value[resident.count - 1]);
    set_bytes(entry, side->name, "private_dirty_bytes", bench_median(&dirty));
    if (index == 0)
        error = bench_slice(sides, side, "budget", 0, 0);
    if (error)
        return error;
    if (!bench->common.json) {
        printf("%7" PRIu64 "  %-8s %10.2f  %10.2f  %10.2f", peers, side->name,
               bench_median(&resident) / 1048576, resident.value[resident.count - 1] / 1048576,
               bench_median(&dirty) / 1048576);
        if (index == 0)
            printf("  %10.1f  %10.1f", highest(sides, 0, 0) / 1024, highest(sides, 1, 0) / 1024);
        putchar('\n');
    }
    if (index == 0) {
        set_bytes(entry, "", "used_bytes", highest(sides, 0, 0));
        set_bytes(entry, "", "peak_bytes", highest(sides, 1, 0));
        set_bytes(entry, "", "budget_bytes", highest(sides, 2, 0));
    }
    return 0;
}

static int run_memory(struct memory_bench *bench)
{
    struct bench_sides *sides = &bench->sides;
    int error = 0;
    if (!bench->common.json)
        printf("# leat bench memory, %d processes, MiB a rank, leat's own count in KiB\n"
               "# peers  side       resident     highest       dirty        used        peak\n",
               sides->rank_count);
    for (int i = 0; !error && i < bench->peers.count; i++) {
        uint64_t peers = bench->peers.value[i];
        char name[64];
        snprintf(name, sizeof name, "memory/%" PRIu64, peers);
        json_t *entry = json_pack("{s:s, s:I}", "name", name, "peers", (json_int_t)peers);
        for (int side = 0; !error && side < sides->side_count; side++)
            error = hold(bench, side, peers, entry);
        json_array_append_new(bench->list, entry);
        fflush(stdout);
    }
    return error;
}

// ---- flood ----

static void report_flood(struct memory_bench *bench, int index, const double *got)
{
    struct bench_sides *sides = &bench->sides;
    const char *side = sides->side[index].name;
    char name[64];
    snprintf(name, sizeof name, "flood/%s", side);
    json_t *entry =
        json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:f}", "name", name, "delivered",
                  (json_int_t)got[0], "in_order", got[1] > 0, "rss_peak_bytes", (json_int_t)got[2],
                  "sent_before_receiving", (json_int_t)got[3], "sender_rss_peak_bytes",
                  (json_int_t)highest(sides, 2, 1), "receive_ns", got[4]);
    if (!bench->common.json)
        printf("%-8s %10.0f  %8s  %12.0f  %12.2f  %12.2f  %10.0f", side, got[0],
               got[1] > 0 ? "yes" : "NO", got[3], got[2] / 1048576, highest(sides, 2, 1) / 1048576,
               got[4]);
    json_array_append_new(bench->list, entry);
}

static int report_budget(struct memory_bench *bench)
{
    struct bench_sides *sides = &bench->sides;
    json_t *entry = json_array_get(bench->list, 0);
    int error = bench_slice(sides, &sides->side[0], "budget", 0, 0);
    if (error)
        return error;
    set_bytes(entry, "", "peak_bytes", highest(sides, 1, 0));
    set_bytes(entry, "", "budget_bytes", highest(sides, 2, 0));
    if (!bench->common.json)
        printf("  %10.2f  %10.2f", highest(sides, 1, 0) / 1048576, highest(sides, 2, 0) / 1048576);
    bench->more = json_copy(entry);
    json_object_del(bench->more, "name");
    return 0;
}

static int run_flood(struct memory_bench *bench)
{
    struct bench_sides *sides = &bench->sides;
    uint64_t count = bench->count.value[0], bytes = bench->bytes.value[0];
    int error = 0;
    sides->answer_s = FLOOD_ANSWER_S;
    if (!bench->common.json)
        printf(
            "# leat bench flood, %" PRIu64 " messages of %" PRIu64 " bytes from %d sender%s, "
            "MiB\n# side    delivered  in order  sent before  receiver +    senders +  ns/receive"
            "        peak      budget\n",
            count, bytes, sides->rank_count - 1, sides->rank_count > 2 ? "s" : "");
    for (int i = 0; !error && i < sides->side_count; i++) {
        double got[SLICE_VALUES_MAX];
        error = bench_slice(sides, &sides->side[i], "flood", bytes, count);
        if (error)
            break;
        memcpy(got, sides->values[0], sizeof got);
        if (i == 0 && (got[1] <= 0 || got[0] < (double)count))
            bench->wrong = true;
        report_flood(bench, i, got);
        error = i == 0 ? report_budget(bench) : 0;
        if (!bench->common.json)
            putchar('\n');
        fflush(stdout);
    }
    return error;
}

// ---- both ----

static int run(const char *name, struct memory_bench *bench, int (*body)(struct memory_bench *))
{
    bench->list = json_array();
    int error = bench_start_common(&bench->sides, &bench->common, NULL);
    if (!error)
        error = body(bench);
    bench_close(&bench->sides, error);
    if (!error && bench->common.json) {
        bench_print_json(name, &bench->sides, NULL, bench->list, bench->more);
    } else {
        json_decref(bench->list);
        json_decref(bench->more);
    }
    if (!error && bench->wrong)
        error = leat_fail(-EBADMSG, "leat lost a message or let one overtake another");
    return error;
}

int bench_memory(int argc, char **argv)
{
    struct memory_bench bench = {.common = bench_common_default};
    struct option_reader reader;
    options_begin(&reader, &memory_table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    if (!bench.peers.count)
        bench.peers = (struct bench_sizes){{0, (uint64_t)bench.common.rank_count - 1}, 2};
    for (int i = 0; i < bench.peers.count; i++)
        if (bench.peers.value[i] >= (uint64_t)bench.common.rank_count)
            return options_error(&reader, "--peers has %" PRIu64 ", but a rank of %d has %d others",
                                 bench.peers.value[i], bench.common.rank_count,
                                 bench.common.rank_count - 1);
    int error = run("memory", &bench, run_memory);
    return error ? command_fail(memory_table.command, error) : EXIT_DONE;
}

int bench_flood(int argc, char **argv)
{
    struct memory_bench bench = {
        .common = bench_common_default, .count = {{1000000}, 1}, .bytes = {{64}, 1}};
    struct option_reader reader;
    options_begin(&reader, &flood_table, argc, argv);
    int status = parse(&reader, &bench);
    if (status >= 0)
        return status;
    int error = run("flood", &bench, run_flood);
    return error ? command_fail(flood_table.command, error) : EXIT_DONE;
}
