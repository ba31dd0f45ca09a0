// SPDX-License-Identifier: Apache-2.0
// The barrier interface: barriers and reductions of a few words by the network itself.
//
// Model: signals go from all nodes to one in the middle and back; each hop costs what a hop does
// and a stage of the interface. The operation ends at all ranks at the same time, that much after
// the last rank has begun. Values are combined in the brackets of recursive doubling, as the
// message layer's own algorithms do. Advantage: a constant number of events a rank. Disadvantage:
// real ones end up to half a diameter apart, and share links with other traffic.

#include "core/error.h"
#include "msg/op.h"
#include "sim/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Hops from a rank to the farthest other one.
static int reach_of(const struct sim_fabric *fabric, int rank)
{
    int most = 0;
    for (int to = 0; to < fabric->rank_count; to++) {
        int hops = sim_hops(fabric->topology, fabric->node[rank], fabric->node[to]);
        if (hops < 0)
            return hops;
        if (hops > most)
            most = hops;
    }
    return most;
}

int sim_words_open(struct sim_fabric *fabric)
{
    const struct sim_machine *machine = fabric->topology->machine;
    if (!machine->barrier_words)
        return 0;
    size_t ranks = (size_t)fabric->rank_count;
    for (int i = 0; i < 2; i++) {
        fabric->words[i].value = calloc(ranks * SIM_WORDS, sizeof *fabric->words[i].value);
        fabric->words[i].part = calloc(ranks, sizeof *fabric->words[i].part);
        if (!fabric->words[i].value || !fabric->words[i].part)
            return leat_fail(-ENOMEM, "no memory for the barrier interface of %d ranks",
                             fabric->rank_count);
    }
    const int candidate[3] = {0, fabric->rank_count / 2, fabric->rank_count / 3};
    int reach = -1;
    for (int i = 0; i < 3; i++) {
        int most = reach_of(fabric, candidate[i]);
        if (most < 0)
            return most;
        if (reach < 0 || most < reach)
            reach = most;
    }
    double hop_ns = machine->kind == SIM_TORUS ? machine->torus.hop_ns : machine->cluster.switch_ns;
    double ns = machine->barrier_start_ns + 2 * reach * (hop_ns + machine->barrier_stage_ns);
    fabric->costs.words_ps = (uint64_t)(ns * 1000 + 0.5);
    // Nothing reaches another rank sooner.
    if (fabric->costs.words_ps < fabric->network.least_ps)
        fabric->costs.words_ps = fabric->network.least_ps;
    return 0;
}

void sim_words_close(struct sim_fabric *fabric)
{
    for (int i = 0; i < 2; i++) {
        free(fabric->words[i].value);
        free(fabric->words[i].part);
        fabric->words[i] = (struct sim_words){.value = NULL};
    }
}

static void combine_all(struct sim_words *words, int ranks)
{
    uint64_t count = words->bytes / msg_type_bytes(words->type);
    int power = 1 << (31 - __builtin_clz((unsigned)ranks)), blocks = 0;
    uint64_t *value = words->value;
    // Where the ranks are no power of two, the first ones in pairs.
    for (int rank = 0; rank < ranks; blocks++) {
        if (blocks < ranks - power) {
            msg_combine(words->operation, words->type, NULL, value + rank * SIM_WORDS,
                        value + (rank + 1) * SIM_WORDS, count);
            rank++;
        }
        memmove(value + blocks * SIM_WORDS, value + rank * SIM_WORDS, words->bytes);
        rank++;
    }
    for (int step = 1; step < power; step *= 2)
        for (int i = 0; i + step < power; i += 2 * step) {
            msg_combine(words->operation, words->type, NULL, value + i * SIM_WORDS,
                        value + (i + step) * SIM_WORDS, count);
            memcpy(value + i * SIM_WORDS, value + (i + step) * SIM_WORDS, words->bytes);
        }
}

static void end(struct sim_fabric *fabric, struct sim_words *words)
{
    uint64_t at_ps = words->latest_ps + fabric->costs.words_ps;
    if (words->bytes)
        combine_all(words, fabric->rank_count);
    for (int rank = 0; rank < fabric->rank_count; rank++) {
        struct sim_message *message = sim_fabric_wake(fabric, rank, at_ps);
        if (!message)
            return;
        message->transfer.kind = SIM_WORDS_END;
        message->get.remote = (const char *)words->value;
        message->get.local = words->part[rank].to;
        message->get.bytes = words->bytes;
        message->get.finished = words->part[rank].finished;
    }
}

int sim_words_reduce(struct msg_net *net, enum leat_operation operation, enum leat_type type,
                     const void *in, void *out, uint64_t count, struct msg_transfer *finished)
{
    struct sim_rank *rank = (struct sim_rank *)(void *)net;
    struct sim_fabric *fabric = rank->fabric;
    struct sim_words *words = &fabric->words[rank->words_number & 1];
    uint64_t bytes = count * msg_type_bytes(type);
    if (!words->entered)
        *words = (struct sim_words){.number = rank->words_number,
                                    .operation = operation,
                                    .type = type,
                                    .bytes = bytes,
                                    .value = words->value,
                                    .part = words->part};
    if (words->number != rank->words_number || words->bytes != bytes ||
        (bytes && (words->operation != operation || words->type != type)))
        return leat_fail(-EPROTO,
                         "rank %d: operation %u of the barrier interface has %llu bytes, other "
                         "ranks' have %llu",
                         net->rank, rank->words_number, (unsigned long long)bytes,
                         (unsigned long long)words->bytes);
    rank->words_number++;
    sim_spend(rank, fabric->costs.command_ps);
    if (bytes)
        memcpy(words->value + (size_t)net->rank * SIM_WORDS, in, bytes);
    words->part[net->rank] = (struct sim_words_part){out, finished};
    if (rank->cpu_ps > words->latest_ps)
        words->latest_ps = rank->cpu_ps;
    if (++words->entered == (uint32_t)fabric->rank_count) {
        words->entered = 0;
        end(fabric, words);
    }
    return 0;
}
