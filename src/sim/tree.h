/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge-disjoint spanning trees on a logical torus of up to three sides ("Trinaryx3").
 *
 * A message is cut into as many parts as there are trees, and part t goes down tree t. No directed
 * channel (node, side, direction) is used by two trees or twice by one, so the parts never wait for
 * one another on a link. The same trees, walked upward, reduce: those channels run the other way.
 *
 * Every rank computes its own place from shape, root and tree, without tables and without asking
 * anybody. Sides of 1 are folded away; sides of 2 may be joined by one link or by two. A rank has
 * at most 3 children in one tree and 4 in all trees together; the root has 1 in each.
 *
 * Advantage: three links busy at every node, from any root. Disadvantage: the depth is the sum of
 * the sides less 3, so short messages are better off with a binomial tree; all sides have to wrap.
 */
#ifndef LEAT_SIM_TREE_H
#define LEAT_SIM_TREE_H

#include <stdbool.h>

#define SIM_TREE_SIDES        3
#define SIM_TREES_MAX         3
#define SIM_TREE_CHILDREN_MAX 3

/* Ranks are numbered with the last side running fastest, as in struct sim_fold. All sides wrap. */
struct sim_tree_shape {
    int side[SIM_TREE_SIDES];     /* 1 or more */
    bool doubled[SIM_TREE_SIDES]; /* a side of 2 is joined by two links (ignored for others) */
};

/* A rank in one tree. Channels are 2 * side + (0: in + direction, 1: in - direction), seen from the
 * sender; where one link joins a side of 2 it is always called +. */
struct sim_tree_place {
    int parent;         /* rank, -1 for the root */
    int parent_channel; /* the parent's channel to this rank, -1 for the root */
    int depth;          /* channels from the root */
    int child_count;
    int child[SIM_TREE_CHILDREN_MAX];
    int child_channel[SIM_TREE_CHILDREN_MAX]; /* this rank's channel to the child */
};

/* 0, or -EINVAL with detail: sides below 1 or more ranks than an int holds. */
int sim_tree_check(const struct sim_tree_shape *shape);
int sim_tree_ranks(const struct sim_tree_shape *shape);
/* Trees that this shape has: 3 with three sides above 1, 2 with two, 1 or 2 with one (2 if it is a
 * ring), 0 for a single rank. */
int sim_tree_count(const struct sim_tree_shape *shape);
/* The place of `rank` in tree 0 .. count-1 from `root`; arguments are the caller's to check. */
void sim_tree_place(const struct sim_tree_shape *shape, int tree, int root, int rank,
                    struct sim_tree_place *place);
/* The largest depth in this tree, the same for every root. */
int sim_tree_depth(const struct sim_tree_shape *shape, int tree);

#endif
