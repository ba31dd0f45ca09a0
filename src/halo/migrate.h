/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A migration under way: what the caller gave, who owns each group, what has come, the new state.
 *
 * migrate.c sends groups and puts the new state together; migrate_owner.c finds their owners.
 */
#ifndef LEAT_HALO_MIGRATE_H
#define LEAT_HALO_MIGRATE_H

#include "halo/domains.h"

struct arrival;

struct moving {
    struct leat_job *job;
    struct domains domains;
    leat_migration *migration;
    uint32_t group_count, element_count; /* before */
    const uint32_t *start;
    double *wrapped_nm;    /* [3 * element_count] */
    uint32_t *owner;       /* [group_count], rank */
    uint32_t *list;        /* [group_count], groups by owner, ascending for each */
    uint32_t *first;       /* [rank_count + 1], where an owner's groups begin in `list` */
    struct arrival *from;  /* [rank_count] */
    double *distance;      /* [rank_count], groups that go so far up, over all ranks */
    unsigned char *letter; /* the one being sent */
    unsigned char *after;  /* the new state: sizes of groups, then each field */
    uint32_t new_groups, new_elements;
};

/* Wraps every group in wrapped_nm and finds the rank whose domain its centre is in. -ERANGE, naming
 * the element, when one is no point in the box or too far outside it. Local. */
int migration_find_owners(struct moving *m);

#endif
