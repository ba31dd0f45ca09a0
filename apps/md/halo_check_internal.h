/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of --check share; see halo_check.h.
 */
#ifndef MD_HALO_CHECK_INTERNAL_H
#define MD_HALO_CHECK_INTERNAL_H

#include "md/halo_check.h"
#include "md/md.h"

/* Words an atom in what is added up over ranks: each rank fills in its own. */
enum { ALL_X, ALL_LISTED = 3, ALL_OWNER = 6, ALL_COUNT, ALL_WORDS };

/* An element of this rank by atom and image. */
struct md_place_of_atom {
    uint64_t key;
    int element;
};

struct md_pair_keys {
    uint64_t *key;
    int64_t count, capacity;
};

struct md_halo_check {
    int64_t *steps; /* that are wanted, ascending; NULL: every so many */
    int step_count;
    double *all;      /* [ALL_WORDS * atom_count] */
    double *listed;   /* image of home atoms at the partition, [3 * home_count] */
    int64_t *first;   /* [atom_count]: first atom of the molecule */
    int *molecule;    /* [atom_count]: its kind */
    uint32_t room;    /* elements that the arrays of the view have room for */
    uint32_t at_home; /* and `listed` */
    struct md_halo_view view;
    struct md_place_of_atom *place; /* [place_count] of the elements, sorted */
    int place_count;
    double *f_wanted, *f_gross; /* [3 * home_count], [home_count]: sums of |force| a pair */
    struct md_pair_keys wanted, computed, built;
    bool fresh; /* nothing has moved since the partition */
    struct md_halo_checked sum;
    int64_t ghosts, pairs, unseen; /* of this rank, in this check */
    int64_t faults;
    char fault[512]; /* the first */
};

/* An atom's position over all ranks, as its owner has it. */
static inline const double *md_all(const struct md_halo_check *check, int64_t atom, int words)
{
    return check->all + ALL_WORDS * atom + words;
}

static inline int md_owner(const struct md_halo_check *check, int64_t atom)
{
    return (int)*md_all(check, atom, ALL_OWNER);
}

void md_halo_fault(struct md_halo_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes whole box vectors off d, as many as leave the least of it; their numbers to n. */
void md_halo_image(const double box_nm[3][3], double d[3], int n[3]);
/* Place of a rank's domain in the grid, `n` boxes further (NULL: none), counted on beyond the box;
 * 0 in dimensions that ghosts do not cross. */
void md_halo_domain(const struct md_rank *rank, int owner, const int n[3], int domain[3]);
bool md_halo_crosses(const struct md_rank *rank, int dimension);
/* What a position may be off by rounding. */
double md_halo_slack_nm(const struct md_rank *rank);
/* -1 where the rank does not have it. */
int md_halo_find(const struct md_halo_check *check, int64_t atom, const int n[3]);

/* Ghosts one by one; fills check->place. */
void md_halo_check_atoms(struct md_rank *rank, const struct md_halo_view *view);
/* -ENOMEM. */
int md_halo_check_pairs(struct md_rank *rank, const struct md_halo_view *view);
/* Where no pair is unseen on any rank: its force would be missing. */
void md_halo_check_forces(struct md_rank *rank, const struct md_halo_view *view);

#endif
