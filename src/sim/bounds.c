// SPDX-License-Identifier: Apache-2.0
// Closed-form bounds; see bounds.h.
//
// Algorithm: for trees the streams of every rank and channel are counted, rank by rank; the other
// algorithms have formulas. Advantage: the count is the algorithm's own, from the same function.
// Disadvantage: an algorithm that is not named here is bounded by what the root sends.

#include "sim/bounds.h"

#include "sim/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct figures {
    double link_s, links_s, interfaces_s, path_s, both_s; // a byte; 0: no limit
    double latency_s;                                     // of the shortest way
};

static double seconds_of(double gb_per_s)
{
    return gb_per_s > 0 ? 1e-9 / gb_per_s : 0;
}

// What all links together take from the node that has most.
static double all_links(const struct sim_job *job)
{
    const struct sim_topology *topology = &job->topology;
    double most = 0;
    for (int rank = 0; rank < job->rank_count; rank++) {
        uint32_t node = (uint32_t)job->node[rank], count = topology->ops->out_count(topology, node);
        double sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct sim_link link;
            uint32_t index = topology->ops->out_link(topology, node, i);
            if (index != SIM_LINK_NONE && !sim_link_get(topology, index, &link))
                sum += link.gb_per_s;
        }
        most = sum > most ? sum : most;
    }
    return most;
}

static struct figures figures_of(const struct sim_job *job)
{
    const struct sim_machine *machine = job->options.machine;
    double link = 0;
    struct sim_link one;
    for (uint32_t i = 0; i < job->topology.link_count; i++)
        if (!sim_link_get(&job->topology, i, &one) && one.gb_per_s > link)
            link = one.gb_per_s;
    return (struct figures){.link_s = seconds_of(link),
                            .links_s = seconds_of(all_links(job)),
                            .interfaces_s = seconds_of(machine->tni_gb_per_s * machine->tni_count),
                            .path_s = seconds_of(machine->node_gb_per_s),
                            .both_s = seconds_of(machine->node_both_gb_per_s),
                            .latency_s = (double)job->fabric.network.least_ps * 1e-12};
}

static void raise(struct sim_bound *bound, double seconds, const char *limit)
{
    if (seconds <= bound->bandwidth_seconds)
        return;
    bound->bandwidth_seconds = seconds;
    bound->limit = limit;
}

// Bytes that a node sends and receives, and the busiest link carries.
static struct sim_bound of_loads(const struct figures *figures, double out, double in, double link)
{
    struct sim_bound bound = {.limit = "links", .bandwidth_seconds = link * figures->link_s};
    double most = out > in ? out : in;
    raise(&bound, most * figures->links_s, "links");
    raise(&bound, most * figures->interfaces_s, "interfaces");
    raise(&bound, most * figures->path_s, "node path");
    raise(&bound, (out + in) * figures->both_s, "node path");
    bound.seconds = bound.bandwidth_seconds;
    return bound;
}

// ---- Trees ----

struct streams {
    int out, in, channel, trees, depth;
};

static struct streams count_streams(const struct sim_job *job, int root, bool summed)
{
    struct sim_tree_shape shape;
    struct streams most = {0};
    for (int i = 0; i < SIM_TREE_SIDES; i++) {
        shape.side[i] = job->fold.side[i];
        shape.doubled[i] = job->fold.doubled[i];
    }
    most.trees = sim_tree_count(&shape);
    for (int t = 0; t < most.trees; t++)
        if (sim_tree_depth(&shape, t) > most.depth)
            most.depth = sim_tree_depth(&shape, t);
    for (int rank = 0; rank < job->rank_count; rank++) {
        int out = 0, in = 0;
        for (int t = 0; t < most.trees; t++) {
            struct sim_tree_place place;
            sim_tree_place(&shape, t, root, rank, &place);
            out += place.child_count + (summed && place.parent >= 0);
            in += (place.parent >= 0) + (summed ? place.child_count : 0);
        }
        most.out = out > most.out ? out : most.out;
        most.in = in > most.in ? in : most.in;
    }
    // No channel is used twice downward; upward the same ones the other way.
    most.channel = summed ? 2 : 1;
    return most;
}

static struct sim_bound of_trees(const struct sim_job *job, const struct figures *figures,
                                 const struct sim_collective *what)
{
    bool summed = what->kind == LEAT_ALLREDUCE;
    struct streams streams = count_streams(job, what->root, summed);
    double part = (double)what->bytes / streams.trees;
    double chunk = job->rank[0].engine->tuning.tree_bytes;
    chunk = chunk < part ? chunk : part;
    struct sim_bound bound =
        of_loads(figures, streams.out * part, streams.in * part, streams.channel * part);
    double hop_s = figures->latency_s + chunk * figures->link_s;
    double along = (summed ? 2 : 1) * streams.depth * hop_s + (part - chunk) * figures->link_s;
    bound.seconds = along > bound.seconds ? along : bound.seconds;
    return bound;
}

// ---- Others ----

// A message at a time from rank to rank, `steps` after one another.
static struct sim_bound of_steps(const struct figures *figures, double steps, double bytes,
                                 double bandwidth_bytes)
{
    struct sim_bound bound = of_loads(figures, bandwidth_bytes, bandwidth_bytes, bandwidth_bytes);
    double seconds = steps * (figures->latency_s + bytes * figures->link_s);
    bound.seconds = seconds > bound.seconds ? seconds : bound.seconds;
    return bound;
}

static struct sim_bound of_chain(const struct sim_job *job, const struct figures *figures,
                                 double bytes)
{
    double chunk = job->rank[0].engine->tuning.chain_bytes;
    chunk = chunk > 0 && chunk < bytes ? chunk : bytes;
    struct sim_bound bound = of_steps(figures, job->rank_count - 1, chunk, bytes);
    double whole = (job->rank_count - 1) * (figures->latency_s + chunk * figures->link_s) +
                   (bytes - chunk) * figures->link_s;
    bound.seconds = whole > bound.seconds ? whole : bound.seconds;
    return bound;
}

struct sim_bound sim_bound_collective(const struct sim_job *job, const struct sim_collective *what,
                                      const char *algorithm)
{
    struct figures figures = figures_of(job);
    double ranks = job->rank_count, bytes = (double)what->bytes, rounds = floor(log2(ranks));
    if (ranks < 2)
        return (struct sim_bound){.limit = "nothing"};
    if (!strcmp(algorithm, "trinary"))
        return of_trees(job, &figures, what);
    if (!strcmp(algorithm, "chain"))
        return of_chain(job, &figures, bytes);
    if (!strcmp(algorithm, "ring")) {
        double part = floor(bytes / ranks), piece = job->rank[0].engine->tuning.part_bytes;
        piece = piece > 0 && piece < part ? part / ceil(part / piece) : part;
        return of_steps(&figures, 2 * (ranks - 1), floor(piece), 2 * (ranks - 1) * part);
    }
    if (!strcmp(algorithm, "binomial") || !strcmp(algorithm, "recursive-doubling"))
        return of_steps(&figures, rounds, bytes, bytes);
    if (!strcmp(algorithm, "spread"))
        return of_loads(&figures, bytes * (ranks - 1), bytes * (ranks - 1), bytes);
    if (!strcmp(algorithm, "words"))
        return (struct sim_bound){.seconds = job->options.machine->barrier_start_ns * 1e-9,
                                  .limit = "latency"};
    if (what->kind == LEAT_BARRIER)
        return of_steps(&figures, rounds, 0, 0);
    return of_steps(&figures, 1, 0, bytes * (ranks - 1) / ranks);
}

struct sim_bound sim_bound_loads(const struct sim_job *job, double out, double in, double link)
{
    struct figures figures = figures_of(job);
    struct sim_bound bound = of_loads(&figures, out, in, link);
    bound.seconds += figures.latency_s;
    return bound;
}
