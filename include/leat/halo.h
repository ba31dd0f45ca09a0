/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Halo exchange: ghost copies of a neighbour's elements, forward (coordinates) and back (forces).
 *
 * A plan is data: pulses in order, each with whom it sends to and receives from and which elements.
 * The decomposition helper makes one for particles (eighth shell, 1-D to 3-D, in orthorhombic and
 * triclinic boxes, several pulses a dimension where domains are thinner than the cut-off). A halo
 * binds a plan to fields (arrays in regions) and runs exchanges in a mode; modes differ in who
 * orders the work, not in the result, which is the same to the bit.
 *
 * All functions here but the queries and the frees are collective over the job: every rank calls
 * them in the same order. They return the same verdict everywhere: when one rank fails in a build,
 * an open or a migration, the others get -EREMOTEIO and the failing rank's own words.
 *
 * Sources: eighth-shell decomposition, Bowers, Dror, Shaw, J. Chem. Phys. 124 (2006) 184109, and
 * Hess et al., J. Chem. Theory Comput. 4 (2008) 435; fused signalling, Doijade et al., arXiv
 * 2509.21527.
 */
#ifndef LEAT_HALO_H
#define LEAT_HALO_H

#include <leat/leat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Decomposition ------------------------------------------------------------------------ */

enum leat_order { LEAT_ORDER_ZYX, LEAT_ORDER_XYZ };

enum leat_plan_kind {
    LEAT_PLAN_FORWARDED, /* neighbours only; what others need is passed on, pulse after pulse */
    /* Every domain within the cut-off directly; no pulse waits for another. The same ghosts with
     * the same zones, in another order, for one pulse a displacement of domains: with n_d forwarded
     * pulses in dimension d, (n_x + 1)(n_y + 1)(n_z + 1) - 1 of them. */
    LEAT_PLAN_ONEHOP
};

/*
 * A periodic box cut into grid[0] x grid[1] x grid[2] equal domains; rank = (x * ny + y) * nz + z.
 *
 * Domains are parallelepipeds like the box: dimension d (x, y, z) is cut into grid[d] along box
 * vector d (a, b, c), by planes that hold the two other vectors. What is called an edge, width,
 * distance or position along a dimension is measured across those planes: in a triclinic box that
 * is less than along the vector. Shifts are sums of whole box vectors. Tilts may be of any size;
 * those that GROMACS allows, at most half a vector, make the widest domains.
 *
 * Without images, ghosts come across cut dimensions only, and each pair has one image within the
 * cut-off there (half of a cut edge at most). Across a dimension with one domain the caller looks
 * by itself, by whole vectors of that dimension.
 *
 * With images, ghosts come across all boundaries, in dimensions with one domain from the rank
 * itself, and distances are plain differences everywhere: nobody looks across anything. The cut-off
 * may exceed half or all of an edge, cut or not, and then a rank has several images of an element,
 * its own included. Over all ranks, an element a and the image of b != a in each box is found once,
 * and a and its own image once for the two boxes of opposite sign, so sums are per box. Elements of
 * one group in the same image pair as home elements only: a pair with a ghost in it is never one
 * within a group, although both may be the group's.
 */
typedef struct leat_decomposition {
    size_t size;
    int grid[3];
    enum leat_order order; /* of dimensions on the way forward; back is the reverse */
    /* Row vectors a, b, c; a along x, b in the x-y plane, else -ENOTSUP; components of at most 1e9
     * nm, else -EINVAL. */
    double box_nm[3][3];
    double cutoff_nm; /* every pair closer than this is found on exactly one rank */
    enum leat_plan_kind kind;
    int images; /* 1: ghosts across all periodic boundaries, 0: across those of cut dimensions */
} leat_decomposition;

/*
 * The grid with the least halo volume for `rank_count` domains; then with the fewest pulses; then
 * with most domains in z, in y. Local, any thread. Groups that stick out of their domains need room
 * for twice as much: a caller that knows how far adds it to the cut-off here, lest leat_plan_build
 * refuse the grid. Plans with images have no such limits, but this choice keeps to them.
 *
 * -EDOM    more than one domain, and twice the cut-off exceeds every edge
 * -ENOTSUP box vectors that point elsewhere; -EINVAL a value out of range
 */
LEAT_API int leat_grid_choose(int rank_count, const double box_nm[3][3], double cutoff_nm,
                              int grid[3]);

/* Home elements come in groups (molecules) that stay whole. A group lies in the domain of its
 * centre (the mean of its positions). */
typedef struct leat_groups {
    uint32_t group_count;
    const uint32_t *start; /* [group_count + 1], first element of each group; start[0] is 0 */
} leat_groups;

/* ---- Plans -------------------------------------------------------------------------------- */

#define LEAT_NOBODY (-1)

typedef struct leat_pulse {
    int dimension;            /* 0, 1, 2; of onehop plans the first one crossed, of lists 0 */
    int direction;            /* of the data: -1 to the lower neighbour, +1 to the higher */
    int send_rank, recv_rank; /* may be the same; LEAT_NOBODY where there is nothing that way */
    uint32_t send_count, recv_count;
    const uint32_t *index;    /* [send_count], elements sent, each once */
    uint32_t dependent_start; /* entries from here on were received in an earlier pulse */
    uint32_t recv_offset;     /* element where the received ones begin */
    double shift_nm[3];       /* added to coordinates on the way */
} leat_pulse;

typedef struct leat_plan leat_plan;

typedef struct leat_plan_info {
    size_t size;
    int pulse_count;
    const leat_pulse *pulses;           /* owned by the plan */
    uint32_t home_count, element_count; /* the latter with all ghosts */
    /* [element_count], bit d set where a ghost came across dimension d (1 x, 2 y, 4 z), 0 at home.
     * A pair belongs to this rank exactly when the two share no bit. Owned by the plan. */
    const uint8_t *zone;
    /* How far a group's element may lie from its centre along a dimension; agreed by all. */
    double ghost_margin_nm;
} leat_plan_info;

/*
 * Builds the plan for the home elements as they stand: x_nm is [3 * home_count], groups
 * as leat_halo_migrate left them. The halo holds at least every element that takes part in a pair
 * of this rank's closer than the cut-off.
 *
 * -EDOM   without images: a dimension needs as many pulses as it has domains, so that a rank would
 *         receive its own elements, or the cut-off exceeds half of its edge, so that a pair would
 *         have two images; names dimension, domains, width, cut-off and what would do
 * -E2BIG  more than 64 pulses: names the pulses a dimension needs, and what would do
 * -ENOTSUP box vectors that point elsewhere; -ERANGE a coordinate is not finite (names the element)
 * -EINVAL a value out of range, a grid that is not one domain a rank, ranks that pass different
 *         decompositions, a group that has no elements or its centre in another rank's domain
 */
LEAT_API int leat_plan_build(leat_job *job, const leat_decomposition *decomposition,
                             const leat_groups *groups, const double *x_nm, leat_plan **plan);

/* One neighbour of a plan from lists. */
typedef struct leat_list {
    int rank;
    uint32_t count;
    const uint32_t *index; /* [count] home elements to send, each once; unused for receives */
    double shift_nm[3];    /* added to shifted fields on the way; unused for receives */
} leat_list;

typedef struct leat_lists {
    size_t size;
    uint32_t home_count;
    int send_count, recv_count;
    const leat_list *sends, *receives;
} leat_lists;

/*
 * A plan from the caller's own lists: a mesh, a graph. The k-th list that a rank sends to a peer is
 * the k-th that the peer receives from it; ghosts lie behind the home elements in the order of
 * `receives`. Local, no communication: leat_halo_open compares both sides.
 * -EINVAL an index out of range or twice in a list, a rank out of range; -E2BIG more than 64 lists
 */
LEAT_API int leat_plan_lists(leat_job *job, const leat_lists *lists, leat_plan **plan);

/*
 * Writes all ranks' plans into one file, which replaces one that is there in one step. Collective;
 * rank 0 gathers and writes. The file also notes where each ghost comes from, so that `leat halo
 * check` can replay it elsewhere and tell what is missing.
 * What the file system says, with the path; -EINVAL a plan of another rank or job
 */
LEAT_API int leat_plan_write(leat_job *job, const leat_plan *plan, const char *path);

/*
 * The plan of one rank from such a file. Local, any thread; the rank is checked against the job
 * where a halo is opened.
 * -EPROTO not a plan file, cut short or damaged, or not a plan that can be run: names file, offset,
 * what was expected and what is there; -EINVAL a rank that the file does not have
 */
LEAT_API int leat_plan_read(const char *path, int rank, leat_plan **plan);

LEAT_API int leat_plan_info_get(const leat_plan *plan, leat_plan_info *info);
LEAT_API void leat_plan_free(leat_plan *plan);

/* ---- Exchange ----------------------------------------------------------------------------- */

enum leat_mode {
    LEAT_MODE_FUSED,   /* one kernel for all pulses */
    LEAT_MODE_HOST,    /* pack kernel, synchronise, transfer, wait, pulse by pulse */
    LEAT_MODE_STREAM,  /* pack kernel, transfer with signal and wait as operations of the stream */
    LEAT_MODE_PULSE,   /* one kernel a pulse: pack, store, signal, wait */
    LEAT_MODE_RESIDENT /* leat_halo_run is one kernel for all steps; else as fused */
};

enum leat_element {
    LEAT_F32,  /* floats */
    LEAT_F64,  /* doubles */
    LEAT_WORDS /* 32-bit words, copied as they are; forward only */
};

#define LEAT_FIELDS_MAX 8

typedef struct leat_field {
    /* Element 0, in a region of this rank's (registered ones on the CPU device only), with room for
     * element_count. Where peers' kernels cannot store to it, their proxy threads copy. */
    leat_place place;
    enum leat_element element;
    int components; /* of the element's type, 1 to 64; with `shifted`, at least 3 */
    int shifted;    /* forward adds the pulse's shift to the first three components */
    /* Number plus one of a field whose exchange the other way acknowledges this one's (forces after
     * coordinates); 0 for none. Where such an exchange lies between two of this field's, no
     * acknowledgement of its own is sent; from its call on, a peer may store the next data, so the
     * ghosts are to be read before it. Otherwise the next exchange of this field acknowledges, and
     * ghosts stay as they are until it is called. */
    int acknowledged_by;
    /* Landing zones of the ghosts, 1 or 2 (0 is 1). With 2, forward exchanges land by turns in the
     * ghosts' own elements and as many elements behind the last (the region has room for both), and
     * a sender waits for who still reads the exchange before the last, not the last: nobody waits
     * in a steady flow, nor at the first: ghosts are the peers' from leat_halo_open on. For fields
     * that only go forward. leat_halo_info_get tells where they are. */
    int zones;
} leat_field;

typedef struct leat_halo_options {
    size_t size;
    enum leat_mode mode;
    int field_count;
    const leat_field *fields; /* read during the call */
    uint64_t first_epoch;     /* where the signals' counters start (tests: near 2^64) */
} leat_halo_options;

typedef struct leat_halo leat_halo;

/*
 * Binds a plan to fields. Both sides of every pulse compare what they expect (peer, count, element
 * size) before anything moves.
 * -EPROTO the two sides disagree: names pulse, peer, expected and got
 * -ENOSPC a field's region is too small for the plan (names field, needed and had)
 * -EHOSTUNREACH no path to a peer's field, with the reasons
 * The plan has to outlive the halo.
 */
LEAT_API int leat_halo_open(leat_job *job, const leat_plan *plan, const leat_halo_options *options,
                            leat_halo **halo);

enum leat_direction { LEAT_FORWARD, LEAT_REVERSE };

/*
 * One exchange of a field; on return all ghosts (forward) or all sums (reverse) are in place.
 * Forward: ghosts of this field are overwritten. Reverse: each ghost's value is added to the
 * element it is a copy of, in a fixed order (own value first, then pulses from last to first);
 * ghosts' own values are unspecified afterwards.
 * -ESTALE the field's region has been freed, here or where this rank's data would go.
 * -ETIMEDOUT, -ECONNRESET name peer, pulse, exchange number, wanted and seen signal. After an error
 * the halo can only be freed.
 */
LEAT_API int leat_halo_exchange(leat_halo *halo, int field, enum leat_direction direction);

typedef struct leat_halo_info {
    size_t size;
    const char *mode; /* its name */
    uint64_t exchanges;
    /* By field: elements between a ghost's number in the plan and where the latest forward exchange
     * put it: 0, or the number of ghosts. */
    uint32_t ghost_shift[LEAT_FIELDS_MAX];
} leat_halo_info;

LEAT_API int leat_halo_info_get(const leat_halo *halo, leat_halo_info *info);

/*
 * A step of a simulation, for leat_halo_run: forward exchange of one field, `consume`, reverse
 * exchange of another, `advance`. The functions are called once a block (LEAT_BLOCKS of them, at
 * the same time, each for its share), on the CPU device; in modes other than resident by one block
 * alone. `consume` may read ghosts and write what goes back; `advance` may write home elements.
 *
 * Work that needs no ghost can be done while data travel: `while_forward` is called once what does
 * not depend on others has been sent, before anything is awaited, `while_reverse` likewise on the
 * way back (with several blocks, just before it). They must not touch ghosts, and while_forward
 * must not write the field that is sent; while_reverse may write home elements of the one that
 * comes back: what it leaves there is the own value, to which the others' are added. The order is
 * while_forward, consume, while_reverse, advance in every mode, so the bits are the same.
 *
 * Each may be NULL. What is not 0 ends the run. They must not call leat.
 */
typedef struct leat_step {
    size_t size;
    int forward_field, reverse_field; /* -1: none */
    int (*consume)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*advance)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    void *user;
    int (*while_forward)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
    int (*while_reverse)(void *user, uint32_t block, uint32_t block_count, uint64_t step);
} leat_step;

/*
 * Runs `step_count` steps. In resident mode the loop is one kernel: one launch for all steps, and
 * the host waits only for its end. In other modes every step makes its exchanges as
 * leat_halo_exchange does. `*done` (may be NULL) gets the number of whole steps, also on failure.
 * Errors as leat_halo_exchange, and what a function of the step returned.
 */
LEAT_API int leat_halo_run(leat_halo *halo, const leat_step *step, uint64_t step_count,
                           uint64_t *done);
LEAT_API void leat_halo_free(leat_halo *halo);

/* ---- Migration ---------------------------------------------------------------------------- */

typedef struct leat_migrating {
    void *data;             /* [count * element_bytes] */
    uint32_t element_bytes; /* a multiple of 4 */
    int of_groups;          /* 1: one entry a group, 0: one an element */
} leat_migrating;

typedef struct leat_migration {
    size_t size;
    leat_groups *groups; /* in: home groups; out: the new ones (start is the callee's to fill) */
    int x_field;         /* which of `fields` is the positions (3 doubles an element); wrapped */
    int field_count;
    leat_migrating *fields;
    /* Called once, when the new counts are known: make room for so many in every field's data and
     * for groups + 1 in groups->start, and store the pointers back. What is there has to be kept
     * only in case another rank fails. 0 or a negative errno. */
    int (*resize)(void *user, struct leat_migration *migration, uint32_t groups, uint32_t elements);
    void *user;
    /* A centre this far outside the box is an error; 0: one box length; never more than 1e9 nm. */
    double travel_limit_nm;
    const int64_t *element_id; /* for messages; may be NULL. [home elements], before migration */
    int64_t step;              /* for messages */
} leat_migration;

/*
 * Wraps every group into the box by its centre, by whole box vectors c, b, a, and moves whole
 * groups to the rank whose domain the centre is in, however far that is. Groups are then in a fixed
 * order: those that stayed, then those from each rank by rank number. An error leaves all data as
 * they were.
 *
 * -ERANGE a position is not finite or lies too far outside the box: an element jumped; names
 *         element, rank, step and position, the same on every device. Too far is, for a group's
 *         centre, the travel limit, and for an element that or a box length, whichever is more
 * -EPROTO the ranks' fields differ; -EINVAL, -ENOTSUP as for leat_plan_build; what resize returned
 */
LEAT_API int leat_halo_migrate(leat_job *job, const leat_decomposition *decomposition,
                               leat_migration *migration);

#ifdef __cplusplus
}
#endif

#endif
