// SPDX-License-Identifier: Apache-2.0
// Reads the options that benchmarks share, and starts the sides they ask for; see the header.

#include "bench_options.h"

#include "core/config.h"
#include "core/error.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

const struct bench_common bench_common_default = {
    .rank_count = 2, .transport = -1, .against = {true, true}, .pace = {9, 20}};

// The next word of a list; false once there is none. Empty words and long ones come as they are.
static bool next_word(const char **at, char word[32])
{
    if (!*at)
        return false;
    size_t length = strcspn(*at, ",");
    snprintf(word, 32, "%.*s", (int)length, *at);
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return true;
}

bool bench_read_sizes(struct option_reader *reader, const char *option, uint64_t minimum,
                      uint64_t maximum, struct bench_sizes *sizes)
{
    struct bench_sizes read = {.count = 0};
    const char *at = reader->value;
    char word[32];
    while (next_word(&at, word)) {
        uint64_t value;
        if (read.count == BENCH_SIZES_MAX) {
            options_error(reader, "--%s takes at most %d numbers", option, BENCH_SIZES_MAX);
            return false;
        }
        if (leat_parse_bytes(word, &value) || value < minimum || value > maximum) {
            options_error(reader,
                          "--%s takes numbers from %" PRIu64 " to %" PRIu64
                          " with commas (K, M, G), got \"%s\"",
                          option, minimum, maximum, reader->value);
            return false;
        }
        read.value[read.count++] = value;
    }
    *sizes = read;
    return true;
}

bool bench_read_set(struct option_reader *reader, const char *option, const char *const *names,
                    int count, bool *chosen)
{
    const char *at = reader->value;
    char word[32], list[160] = "";
    bool none = strcmp(at, "none") == 0;
    memset(chosen, 0, (size_t)count * sizeof *chosen);
    while (!none && next_word(&at, word)) {
        int found = 0;
        while (found < count && strcmp(word, names[found]) != 0)
            found++;
        if (found < count) {
            chosen[found] = true;
            continue;
        }
        for (int i = 0; i < count; i++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", names[i]);
        options_error(reader, "--%s takes %sor none, with commas, got \"%s\"", option, list,
                      reader->value);
        return false;
    }
    return true;
}

void bench_read_common(struct option_reader *reader, struct bench_common *common)
{
    const char *names[ROW_COUNT];
    for (int i = 0; i < ROW_COUNT; i++)
        names[i] = leat_transports[i]->name;
    switch (reader->id) {
    case 'n':
        options_integer(reader, 1, BENCH_RANKS_MAX, &common->rank_count);
        break;
    case BENCH_OPTION_TRANSPORT:
        options_choice(reader, names, ROW_COUNT, &common->transport);
        break;
    case BENCH_OPTION_AGAINST:
        bench_read_set(reader, "against", bench_peer_names, BENCH_PEER_COUNT, common->against);
        break;
    case BENCH_OPTION_JSON:
        common->json = true;
        break;
    case BENCH_OPTION_ROUNDS:
        options_integer(reader, 1, BENCH_ROUNDS_MAX, &common->pace.rounds);
        break;
    case BENCH_OPTION_SLICE:
        options_integer(reader, 1, 10000, &common->pace.slice_ms);
        break;
    }
}

void bench_add_path(struct bench_side *side, const struct bench_common *common)
{
    char setting[64];
    if (common->transport < 0)
        return;
    snprintf(setting, sizeof setting, "LEAT_PATHS=require:%s",
             leat_transports[common->transport]->name);
    bench_add_setting(side, setting);
}

int bench_start_common(struct bench_sides *sides, const struct bench_common *common,
                       const char *algorithm)
{
    int error = bench_open(sides, common->rank_count);
    if (error)
        return error;
    bench_add_path(bench_add_leat(sides, "leat", "msg-rank", algorithm), common);
    for (int peer = 0; peer < BENCH_PEER_COUNT; peer++) {
        char launcher[32], program[40];
        snprintf(launcher, sizeof launcher, "mpirun.%s", bench_peer_names[peer]);
        snprintf(program, sizeof program, "leat-peer-%s-msg", bench_peer_names[peer]);
        if (common->against[peer])
            bench_add_peer(sides, peer, launcher, program);
    }
    return bench_start(sides);
}
