/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Torus or mesh of up to six axes, and its folding to the 1-, 2- or 3-D torus that a job sees.
 *
 * Routes are dimension-ordered: the first axis first, the shorter way round where the axis wraps.
 * Where that meets something dead, the other orders of the axes are tried, then a search.
 *
 * A fold gives each axis of the job a set of machine axes (or a beginning of one) and runs through
 * their product on a Hamiltonian cycle, or a path where there is no cycle. So neighbours of the
 * job's torus are neighbours of the machine, joined by links that no other pair of neighbours uses.
 *
 * Advantage: coordinates both ways in O(axes), no tables. Disadvantage: a job is a box that is not
 * turned round or cut into pieces; a dead node inside it moves or refuses it.
 */
#ifndef LEAT_SIM_TORUS_H
#define LEAT_SIM_TORUS_H

#include "sim/machine.h"
#include "sim/topology.h"

/* Called by sim_topology_open; machine->kind is SIM_TORUS. */
int sim_torus_open(struct sim_topology *topology);

/* Node number <-> coordinates, the last axis running fastest. */
void sim_torus_coordinates(const struct sim_torus_shape *shape, int node, int *coordinates);
int sim_torus_node(const struct sim_torus_shape *shape, const int *coordinates);
/* The link that leaves `node` along `axis` in direction +1 or -1, or SIM_LINK_NONE at the open end
 * of a mesh. Where one link joins a side of 2, both directions name it. */
uint32_t sim_torus_link(const struct sim_torus_shape *shape, int node, int axis, int direction);
/* Hops between two nodes when nothing is dead. */
int sim_torus_distance(const struct sim_torus_shape *shape, int from, int to);

#define SIM_FOLD_SIDES_MAX 3

/* One axis of the job: `count` machine axes, of each the first `extent` coordinates from `origin`.
 */
struct sim_fold_axis {
    int count;
    int axis[SIM_AXES_MAX], extent[SIM_AXES_MAX], origin[SIM_AXES_MAX];
    bool wrap[SIM_AXES_MAX]; /* the whole of an axis that wraps is used */
};

struct sim_fold {
    int side_count;                   /* 1 .. 3, as asked for */
    int side[SIM_FOLD_SIDES_MAX];     /* missing ones are 1 */
    bool wrap[SIM_FOLD_SIDES_MAX];    /* last and first are neighbours too (side 1 and 2: true) */
    bool doubled[SIM_FOLD_SIDES_MAX]; /* a side of 2 joined by two links */
    int rank_count;                   /* product of the sides */
    struct sim_torus_shape shape;
    int origin[SIM_AXES_MAX]; /* of axes that no side uses: fixed there */
    struct sim_fold_axis along[SIM_FOLD_SIDES_MAX];
};

/*
 * Finds how the machine's axes give a job torus of these sides: as many sides as possible closed to
 * rings, then as many machine axes as possible used whole. 48x6x32 on 24x18x16x2x3x2 comes out as
 * (X24 A2) x (Y2 B3) x (Z16 C2). Where only part of an axis is used the box is moved along it until
 * no dead node is inside; -EHOSTUNREACH with the node and its line where that cannot be. -EINVAL
 * where the sides are no product of the axes; the detail names the
 * machine's own shape.
 */
int sim_fold_open(struct sim_fold *fold, const struct sim_topology *topology, const int *sides,
                  int side_count);
/* The whole machine as 1, 2 or 3 sides; axis i goes to side i modulo side_count, so that
 * 24x18x16x2x3x2 gives 48x54x32. */
int sim_fold_whole(struct sim_fold *fold, const struct sim_topology *topology, int side_count);

/* Rank <-> coordinates in the job's torus, the last side running fastest. */
void sim_fold_coordinates(const struct sim_fold *fold, int rank, int *coordinates);
int sim_fold_rank(const struct sim_fold *fold, const int *coordinates);
/* Rank -> node of the machine, and back: -1 where no rank runs on the node. */
int sim_fold_node(const struct sim_fold *fold, int rank);
int sim_fold_rank_of_node(const struct sim_fold *fold, int node);
/* The link to the neighbour along side `side` in direction +1 or -1 of the job's torus;
 * SIM_LINK_NONE where there is none. Where one link joins a side of 2, both directions name it. */
uint32_t sim_fold_link(const struct sim_fold *fold, int rank, int side, int direction);
/* "(X24 A2)x(Y2 B3)x(Z16 C2)" */
void sim_fold_text(const struct sim_fold *fold, char *text, size_t text_bytes);

#endif
