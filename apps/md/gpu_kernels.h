/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels of `leat md` are given, and what there is to launch. C and CUDA.
 *
 * Elements are home atoms and, behind them, ghosts, in the plan's order. Slots are elements sorted
 * by cells of a grid, those of a cell by their number. A row is what a slot's element interacts
 * with: every pair is in two rows, so an element's force is one sum, in the row's order.
 * Advantage: no atomics on forces, the same bits in every run. Disadvantage: each pair is computed
 * twice.
 */
#ifndef MD_GPU_KERNELS_H
#define MD_GPU_KERNELS_H

#include "md/constrain_plan.h"
#include "md/topology.h"

#include <stdint.h>

enum {
    MD_GPU_PARTS = 1024,     /* partial sums of a term, which the host adds up in order */
    MD_GPU_SCAN_PARTS = 2048 /* runs of a prefix sum */
};

/* kernel, team: 1 for those called by a team of lanes */
#define MD_GPU_KERNELS(X)                                                                          \
    X(IMAGE, g_image, 0)             /* home atoms' float positions, for the halo */               \
    X(BOUNDS, g_bounds, 0)           /* parts: extent of the elements */                           \
    X(CELL, g_cell, 0)               /* elements: which cell, and how many in it */                \
    X(SCAN_SUM, g_scan_sum, 0)       /* scan parts; choice: enum md_gpu_scan */                    \
    X(SCAN_WRITE, g_scan_write, 0)   /* scan parts; likewise */                                    \
    X(PLACE, g_place, 0)             /* elements: into their cells, in any order */                \
    X(SORT, g_sort, 0)               /* cells: in order of elements */                             \
    X(KIND, g_kind, 0)               /* slots: charge, type and zone */                            \
    X(GATHER, g_gather, 0)           /* slots: positions */                                        \
    X(SEARCH, g_search, 1)           /* slots; choice 0: length of the row, 1: the row */          \
    X(PAIRS, g_pairs, 1)             /* slots: forces */                                           \
    X(PAIRS_TERMS, g_pairs_terms, 1) /* slots: forces and terms */                                 \
    X(HOME, g_home, 0)               /* home atoms: forces in double; choice 1: and terms */       \
    X(BONDED, g_add_bonded, 0)       /* home atoms: adds to HOME's forces; choice 1: and terms */  \
    X(CONSTRAIN, g_constrain, 0)     /* clusters: STEP of the atoms in them */                     \
    X(STEP, g_step, 0)               /* home atoms: forces and move; choice: enum md_gpu_step */   \
    X(MOMENTUM, g_momentum, 0)       /* home atoms: terms */                                       \
    X(BRAKE, g_brake, 0)             /* home atoms: takes a velocity off */                        \
    X(SUM, g_sum, 0)                 /* terms x parts; choice: first term */

#define MD_GPU_NUMBER(id, name, team) MD_GPU_##id,
enum md_gpu_kernel { MD_GPU_KERNELS(MD_GPU_NUMBER) MD_GPU_KERNEL_COUNT };

enum md_gpu_scan { MD_GPU_SCAN_CELLS, MD_GPU_SCAN_ROWS };

enum md_gpu_step {
    MD_GPU_STEP_KINETIC = 1, /* with the kinetic energies before and after */
    MD_GPU_STEP_TERMS = 2,   /* with all terms */
    MD_GPU_STEP_STORED = 4   /* the forces have been made by HOME already */
};

/* Terms of an evaluation: an array each, summed over the elements or the home atoms. */
enum md_gpu_term {
    MD_GPU_TERM_LJ,
    MD_GPU_TERM_PAIRS,
    MD_GPU_TERM_VIRIAL,
    MD_GPU_TERM_HOME = MD_GPU_TERM_VIRIAL + 9, /* from here on of home atoms only */
    MD_GPU_TERM_EXCLUDED = MD_GPU_TERM_HOME,
    MD_GPU_TERM_SELF,
    MD_GPU_TERM_FORCE,
    MD_GPU_TERM_FORCE_LENGTH = MD_GPU_TERM_FORCE + 3,
    MD_GPU_TERM_EKIN_BEFORE,
    MD_GPU_TERM_EKIN_AFTER,
    MD_GPU_TERM_BONDED, /* of enum md_term_kind */
    MD_GPU_TERM_COULOMB14 = MD_GPU_TERM_BONDED + MD_TERM_KINDS,
    MD_GPU_TERM_MOMENTUM,
    MD_GPU_TERM_MASS = MD_GPU_TERM_MOMENTUM + 3,
    MD_GPU_TERM_COUNT
};

enum md_gpu_role {
    MD_GPU_FREE,
    MD_GPU_OXYGEN,
    MD_GPU_HYDROGEN,
    MD_GPU_HELD /* in a cluster, which CONSTRAIN moves */
};

enum md_gpu_fault_kind {
    MD_GPU_FAULT_NONE,
    MD_GPU_FAULT_MOVE,       /* an atom would move too far */
    MD_GPU_FAULT_WATER,      /* a water cannot be constrained */
    MD_GPU_FAULT_CONSTRAINT, /* two atoms cannot, to a distance of move_nm */
    MD_GPU_FAULT_POSITION,   /* an element is nowhere */
    MD_GPU_FAULT_SITE        /* an element is of no known kind */
};

/* The first thing to go wrong since the last look. */
struct md_gpu_fault {
    uint32_t claimed, kind;
    uint32_t element, other;
    int32_t site;
    double move_nm, x[3], v[3], f[3];
};

/* What SETTLE makes of one kind of water, see settle.c. */
struct md_gpu_water {
    double o_nm, h_nm, half_hh_nm, inverse_o, inverse_hh, h_share, h_over_o;
    double largest_move2, least_normal, mass_h_u;
};

/* An atom's place in a term: atom `slot` of it. */
struct md_gpu_share {
    int32_t term, kind, slot;
};

/* A cluster of constraints in a home molecule: its first atom, its number in the tables, and where
 * its scratch begins. */
struct md_gpu_cluster {
    uint32_t first;
    int32_t cluster;
    uint64_t scratch;
};

struct md_gpu_args {
    uint32_t home_count, element_count;

    double *x, *v, *f;        /* [3 * home_count], the state; f of HOME and STEP_STORED only */
    float *image_x, *image_f; /* [3 * element_count], fields of the halo */
    const int32_t *site;      /* [element_count], likewise */
    const uint8_t *zone;      /* [element_count], see struct md_list_input */
    const uint8_t *role;      /* [home_count], enum md_gpu_role */
    const int32_t *exclusion_start, *exclusion; /* of home atoms */

    int32_t site_count;
    uint32_t type_count;
    const int32_t *site_type;
    const double *site_charge, *site_mass;
    const float *lj; /* [type_count][type_count][2]: 6 c6, 12 c12 */

    const struct md_term *terms; /* of all molecule kinds */
    const struct md_gpu_share *shares;
    const int32_t *share_start;              /* [site_count + 1] */
    struct md_constraint_tables constraints; /* likewise of all kinds */
    const struct md_gpu_cluster *clusters;
    double *scratch;

    float cutoff2, coulomb, krf, crf, shift6, shift12;
    double exact_cutoff2, exact_coulomb, exact_krf, exact_crf;
    /* Of the dimensions that this rank has to itself, where pairs meet in their nearest images; 0
     * elsewhere. Exclusions need the exact ones. */
    float edge[3], inverse_edge[3];
    double exact_edge[3];
    uint32_t periodic; /* 1 when there is such a dimension */

    int32_t cells[3]; /* z runs fastest */
    uint32_t cell_count;
    float low[3], inverse_cell[3]; /* of the grid's corner and of a cell's edge */
    float reach, radius2;          /* list cut-off with room for rounding; the same, squared */
    float *bounds;                 /* [6 * MD_GPU_PARTS]: low and high */
    uint32_t *cell, *cell_size;    /* of elements; of cells, 0 between two builds */
    uint64_t *cell_start;          /* [cell_count + 1] */
    uint32_t *slot_element;
    float *xq;          /* [4 * element_count]: position and charge of a slot */
    uint32_t *kind;     /* of slots: type, and zone above MD_GPU_ZONE_SHIFT */
    uint32_t *row_size; /* of slots */
    uint64_t *row_start, *scan_part;
    uint32_t *partner; /* slots */

    double dt_ps, v_scale, limit2;
    double brake[3];
    struct md_gpu_water water;
    double *term; /* [MD_GPU_TERM_COUNT][term_stride] */
    uint64_t term_stride;
    double *sum; /* [MD_GPU_TERM_COUNT][MD_GPU_PARTS] */
    struct md_gpu_fault *fault;
};

#define MD_GPU_ZONE_SHIFT 24

#endif
