/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cluster pair list: what its parts share.
 *
 * Atoms of a zone are put into columns over xy, sorted along z and cut into clusters of eight; the
 * list pairs a half cluster (four atoms, "i") with a cluster (eight atoms, "j"), so that one SIMD
 * instruction works on many pairs with contiguous loads (Pall & Hess, Comput. Phys. Commun. 184
 * (2013) 2641). Slots are places in clusters; those without an atom lie far away.
 * Advantage: no gathering in the pair loop and little list to read.
 * Disadvantage: about half of the pairs evaluated are beyond the cut-off.
 *
 * Files: list.c (create, build), list_grid.c (clusters), list_search.c (pairs), list_forces.c
 * (evaluation), pair_kernels.inc (loops over pairs), pair_*.c (its instruction sets).
 *
 * Threads share the clusters, and the list they build does not depend on how many they are. In an
 * evaluation each has its own rows and its own forces of all clusters, which are added up in the
 * order of the threads: so bits depend on their number, through these sums only.
 */
#ifndef MD_LIST_INTERNAL_H
#define MD_LIST_INTERNAL_H

#include "core/error.h"
#include "leat/leat.h"
#include "md/nonbonded.h"

#include <stddef.h>

enum {
    MD_I_ATOMS = 4,
    MD_J_ATOMS = 8,
    MD_ZONES = 8,
    MD_SHIFTS = 27, /* (sz + 1) * 9 + (sy + 1) * 3 + (sx + 1) */
    MD_NO_SHIFT = 13,
    MD_X_STRIDE = 32,    /* reals a cluster: x[8] y[8] z[8] charge[8] */
    MD_WRAP_STRIDE = 24, /* x[8] y[8] z[8] */
    MD_F_REALS = 48,     /* most that loops use for the forces of a cluster */
    MD_TYPE_STRIDE = 16, /* type[8], and again plus MD_FEW_TYPES for tables of two rows */
    MD_SCAN_ROOM = 16,
    MD_FEW_TYPES = 8 /* a row of the LJ table fits a register */
};

/* Memory that grows only; 64-byte aligned. */
struct md_buffer {
    void *data;
    size_t bytes;
};

/* Makes room for count elements, keeping the contents; when it has to grow, by a quarter more. */
int md_list_reserve(struct md_buffer *buffer, size_t count, size_t element_bytes);

/* One i half cluster in one image against its j clusters. */
struct md_row {
    int i;            /* half cluster; its cluster is i / 2 */
    int shift;        /* added to the coordinates of i */
    int masked_count; /* first so many j have a mask each */
    int count;        /* of j, masked ones included */
    size_t first;     /* in j */
    size_t first_mask;
};

struct md_rows {
    struct md_row *row;
    int *j;         /* clusters */
    uint32_t *mask; /* bit 8 a + b: atom a of i with atom b of j counts */
    size_t row_count;
};

/* What the loops of pair_kernels.inc work on; REAL is float or double there. */
struct md_pair_job {
    struct md_rows rows;
    const void *xq;       /* REAL [MD_X_STRIDE * clusters] */
    void *f;              /* REAL [MD_F_REALS * clusters], as the loops lay it out */
    const int *type;      /* [MD_TYPE_STRIDE * clusters] */
    const int *lj_count;  /* [half cluster]: so many of its atoms, the first ones, have LJ */
    const void *shift;    /* REAL [MD_SHIFTS][3] */
    const void *c6, *c12; /* REAL [type_count][type_stride], 6 c6 and 12 c12 */
    int type_stride;      /* MD_FEW_TYPES, or more */
    double cutoff2, coulomb, krf, crf, shift6, shift12;
    double (*shift_force)[3];     /* [MD_SHIFTS] added to, or NULL */
    struct md_pair_energy energy; /* added to */
};

/* Movement between the caller's order of atoms and clusters. */
struct md_pair_move {
    const int *cluster; /* those to move */
    size_t cluster_count;
    const int *atom;   /* [8 * clusters] */
    const int *filled; /* [clusters]: the first so many slots have an atom */
    const void *wrap;  /* REAL [MD_WRAP_STRIDE * clusters], added to coordinates */
    void *xq, *f;
};

/* One instruction set and precision. */
struct md_pair_loops {
    void (*gather)(const struct md_pair_move *move, const void *x);
    /* Adds the forces to f, and to `virial` -1/2 sum x (x) f where it is not NULL. */
    void (*scatter)(const struct md_pair_move *move, void *f, double *virial);
    void (*forces)(struct md_pair_job *job);
    void (*forces_and_energy)(struct md_pair_job *job);
    /* Keeps those of j[0, count) that have an atom within sqrt(radius2) of one of i (shifted by
     * shift); out may be j. Returns how many. */
    int (*prune)(const void *xq, int i, const void *shift, double radius2, const int *j, int count,
                 int *out);
    void (*add)(const struct md_pair_move *move, const void *f); /* to move->f */
    size_t f_stride;                                             /* reals of f a cluster */
};

struct md_pair_kernels {
    const char *name;
    /* Those of [first, last) whose boxes are near box; out has room for MD_SCAN_ROOM more. */
    int (*scan)(const float *j_box, size_t stride, const float box[6], int first, int last,
                float radius2, int *out);
    const struct md_pair_loops *loops[2]; /* [enum md_precision] */
};

extern const struct md_pair_kernels md_pair_plain;
#if defined(__x86_64__)
extern const struct md_pair_kernels md_pair_sse2, md_pair_avx2, md_pair_avx512;
#endif

/* Clusters of one zone. */
struct md_grid {
    int first_cluster, cluster_count;
    int columns[2];        /* along x and y */
    float low[2], edge[2]; /* of the columns */
    float inverse_edge[2];
    float bounds[2][3];      /* lowest and highest coordinates */
    struct md_buffer column; /* int [columns + 1]: first cluster of each, in the list's numbering */
};

/* Rows in the making, or made. */
struct md_rows_made {
    struct md_buffer rows, j, mask;
    size_t row_count, j_count, mask_count;
};

/* A thread's share of a part's evaluation: rows that follow one another, and where it stands. */
struct md_share {
    size_t row_begin, row_end; /* of what was built */
    size_t inner_end, inner_j; /* of the inner list, whose rows begin at row_begin too */
    size_t next;               /* row to go on with */
    struct md_pair_energy energy;
    double shift_force[MD_SHIFTS][3], virial[9];
};

struct md_part_list {
    struct md_rows_made made;
    /* What of it is within inner_nm, each share's where its rows and j are in `made`. */
    struct md_buffer inner_rows, inner_j;
    struct md_buffer used; /* clusters that occur */
    size_t used_count;
    int inner_age;                 /* evaluations since the inner list was made; -1: never */
    struct md_share *shares;       /* [threads] */
    bool want_energy, want_virial; /* of the evaluation under way */
};

/* What a thread needs to build rows. */
struct md_builder {
    struct md_rows_made made; /* with several threads, until they are put together */
    struct md_buffer candidate;
    struct md_buffer row_mask, changed; /* of the row in the making, see list_search.c */
    int changed_count;
    struct md_buffer f; /* REAL [MD_F_REALS * clusters] */
    int error;
    char detail[LEAT_DETAIL_BYTES];
};

struct md_list {
    struct md_interaction interaction; /* c6 and c12 are not kept */
    enum md_precision precision;
    const struct md_pair_kernels *kernels;
    void *c6, *c12; /* see struct md_pair_job */
    int type_stride;
    bool *has_lj; /* [type] */

    struct md_grid grids[MD_ZONES];
    int cluster_count;
    struct md_buffer atom, type, filled, lj_count; /* see above; slots and clusters */
    struct md_buffer wrap, xq;
    struct md_buffer slot;            /* int [atom_count]: where the atom is */
    struct md_buffer i_box;           /* float [half cluster][6]: low and high corner */
    struct md_buffer j_box;           /* float [6][cluster capacity], likewise */
    struct md_buffer wrapped;         /* float [3 * atom_count] */
    struct md_buffer order, key, bin; /* sorting */
    size_t j_box_stride;
    double shift[MD_SHIFTS][3];
    void *real_shift;           /* REAL [MD_SHIFTS][3] */
    double radius_nm, inner_nm; /* with the slack for rounding */
    double far_nm;              /* coordinates of empty slots are multiples of it */
    int inner_calls;
    struct md_team *team;
    int thread_count;
    struct md_builder *builders;  /* [threads] */
    struct md_part_list parts[2]; /* [enum md_part] */
    struct md_buffer home_used;   /* clusters of home atoms that occur in either */
    size_t home_used_count;
};

/* As md_list_create with the loops of that name; -ENOTSUP where this CPU lacks them. */
int md_list_create_with(const struct md_interaction *interaction, enum md_precision precision,
                        const char *kernel, struct md_list **list);

int md_grid_build(struct md_list *list, const struct md_list_input *input);
int md_search(struct md_list *list, const struct md_list_input *input);
/* Cuts what was built into shares of about as many cluster pairs. */
void md_list_cut(struct md_list *list, struct md_part_list *part);
/* The rows that the next evaluation runs over in that share, unless it makes new inner ones. */
void md_list_rows(const struct md_list *list, enum md_part part, int share, struct md_rows *rows);
/* Keeps the words of a thread's failure, which the caller of md_list_build cannot see. */
void md_list_note(struct md_builder *builder, int error);
/* The first thread's failure, if any, as this thread's. */
int md_list_noted(struct md_list *list);

static inline size_t md_real_bytes(enum md_precision precision)
{
    return precision == MD_MIXED ? sizeof(float) : sizeof(double);
}

#endif
