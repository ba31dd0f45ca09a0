/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Non-bonded forces of one rank: cluster pair list and the loops over it, and the all-pairs oracle.
 */
#ifndef MD_NONBONDED_H
#define MD_NONBONDED_H

#include <stdbool.h>
#include <stdint.h>

enum md_precision { MD_MIXED, MD_DOUBLE };

struct md_interaction {
    double cutoff_nm;       /* plain cut-off: nothing at r >= cutoff */
    double coulomb;         /* 138.935457644 / epsilon_r */
    double krf, crf;        /* V = qq (1/r + krf r^2 - crf) */
    int type_count;         /* at least 1 */
    const double *c6, *c12; /* [i * type_count + j], as in the topology */
    bool shift;             /* LJ shifted to zero at the cut-off */
};

struct md_pair_energy {
    double lj, coulomb; /* kJ/mol */
};

struct md_list;
struct md_team;

/*
 * What the list is built from, valid during the call only. Atoms [0, home_count) are this rank's
 * own, the rest came with the halo. `zone` may be NULL without halo atoms and `exclusion_start`
 * without exclusions.
 */
struct md_list_input {
    int home_count, atom_count;
    const double *x_nm;   /* [3 * atom_count], halo atoms with their periodic shift applied */
    const int *type;      /* [atom_count] */
    const double *charge; /* [atom_count] */
    /* Bits of the dimensions (1 x, 2 y, 4 z) along which a halo atom lies in a higher domain; 0 for
     * home atoms. A pair is this rank's exactly when the two masks share no bit. */
    const uint8_t *zone;
    /* Excluded partners of home atom i, local indices of home atoms, ascending, symmetric. */
    const int *exclusion_start, *exclusion;
    double box_nm[3]; /* orthorhombic edges */
    bool periodic[3]; /* dimensions this rank has to itself: the list looks across the boundary */
    double list_nm;   /* list cut-off: cutoff plus buffer */
    /*
     * Where inner_calls is at least 1, the loops run over an inner list: what of the list lies
     * within inner_nm (cutoff plus the buffer for inner_calls steps), made anew by the first call
     * of md_list_forces and by each inner_calls-th after it, from the coordinates of that call. It
     * pays where list_nm is much larger than the cut-off.
     */
    double inner_nm;
    int inner_calls;
};

/*
 * `precision` decides the arithmetic of the pair loop and the type of its coordinates. The tables
 * of `interaction` are copied. -EINVAL names a parameter that makes no sense; -ENOMEM.
 */
int md_list_create(const struct md_interaction *interaction, enum md_precision precision,
                   struct md_list **list);
void md_list_free(struct md_list *list);

/*
 * From the next build on, the threads of `team` (NULL: one) share building and evaluation; the team
 * has to outlive the list. The list is the same whatever their number, sums of forces are not to
 * the bit: each thread has forces of its own for all clusters, added up in the threads' order. They
 * take at most 24 bytes an atom and thread in mixed precision, twice that in double. -ENOMEM.
 */
int md_list_use_team(struct md_list *list, struct md_team *team);

/*
 * Builds two lists: local (home with home) and non-local (a halo atom in it). They hold every pair
 * of this rank's, not excluded, within list_nm, once. Home atoms may lie anywhere along the
 * dimensions in `periodic` (molecules need not be whole in the box). Buffers grow only.
 *
 * -ERANGE names an atom whose coordinate is not finite or beyond 1e7 nm; -EINVAL an edge of the box
 * beyond that or shorter than twice list_nm in a dimension of `periodic` (the nearest image would
 * not be the only one), or a count, type, zone or exclusion out of range; -EOVERFLOW and -ENOMEM.
 * The list is empty after a failure.
 */
int md_list_build(struct md_list *list, const struct md_list_input *input);

enum md_part { MD_LOCAL, MD_NONLOCAL };

struct md_pair_output {
    struct md_pair_energy energy; /* set when `want_energy` */
    double virial[9];             /* -1/2 sum x (x) f over pairs, row-major, when `want_virial` */
};

/*
 * Adds the pair forces of one part to f (kJ/mol/nm). x and f are [3 * atom_count] of float (mixed)
 * or double, in the order of md_list_input; atoms may have moved since the build, but must not have
 * been put back into the box: that is for the next build. The order of every sum is fixed by the
 * list. LJ and reaction-field terms of pairs not excluded, inside the cut-off only.
 */
void md_list_forces(struct md_list *list, enum md_part part, const void *x, void *f,
                    bool want_energy, bool want_virial, struct md_pair_output *output);

/*
 * Both parts in three calls, of which only the second looks at halo atoms: so that pairs of home
 * atoms can be computed while these atoms' coordinates come in, and while the forces on them go
 * out. The first reads the coordinates of home atoms and runs over a share of their pairs, from 0
 * for none to 1 for all; the second makes the forces on halo atoms, the third those on home atoms.
 * All three come once, in this order. The outputs of the last two add up to those of both parts.
 * The same share gives the same bits.
 */
void md_list_home_begin(struct md_list *list, const void *x, double share, bool want_energy,
                        bool want_virial);
void md_list_ghosts(struct md_list *list, const void *x, void *f, struct md_pair_output *output);
void md_list_home_end(struct md_list *list, void *f, struct md_pair_output *output);

/* What the loops run over, for reports: [0] cluster pairs, [1] atom pairs in them. */
void md_list_size(const struct md_list *list, enum md_part part, int64_t counts[2]);

/* Calls for each pair of atoms that the last evaluation of both parts looked at, also beyond the
 * cut-off; with `built` for each of the whole list. Their distance is x_i - x_j + offset. */
typedef void md_list_visitor(void *user, int i, int j, const double offset_nm[3]);
void md_list_visit(const struct md_list *list, bool built, md_list_visitor *visitor, void *user);

/* Name of the inner loop chosen for this CPU: "avx512", "avx2", "sse2", "plain". */
const char *md_list_kernel(const struct md_list *list);

/*
 * Reaction-field terms of excluded pairs and of each atom with itself, always in double; adds the
 * forces to f (double, home atoms). Nearest image in the upright box with edges box_nm; where that
 * is NULL, positions as they stand, which is enough for molecules that are whole. Returns the
 * Coulomb energy; `gross` (may be NULL) gets |exclusion| + |self| for tolerances; virial (may be
 * NULL) gets the excluded pairs' share added, -1/2 sum x (x) f.
 */
double md_exclusion_forces(const struct md_interaction *interaction, int home_count,
                           const double *x_nm, const double *charge, const int *exclusion_start,
                           const int *exclusion, const double box_nm[3], double *f, double *virial,
                           double *gross);

/* The same of atoms [begin, end), which are whole molecules: several threads may work on different
 * ones. */
double md_exclusion_share(const struct md_interaction *interaction, int begin, int end,
                          const double *x_nm, const double *charge, const int *exclusion_start,
                          const int *exclusion, const double box_nm[3], double *f, double *virial,
                          double *gross);

/*
 * All pairs, nearest image in a box of any shape (md/box.h), double, excluded pairs left out: the
 * oracle. Same conventions.
 */
void md_oracle(const struct md_interaction *interaction, int atom_count, const double *x_nm,
               const int *type, const double *charge, const int *exclusion_start,
               const int *exclusion, const double box_nm[3][3], double *f,
               struct md_pair_output *output);

/* Atoms that move and interact alike. */
struct md_kind {
    int type;
    double charge_e, mass_u;
    double number; /* of them in the volume */
    /* Rigid bond to a heavier partner, of bonds the one to the heaviest: its length, and the
     * partner's mass. A length of 0 is a free atom. */
    double bond_nm, partner_mass_u;
};

/*
 * List cut-off (nm) for an error of at most `tolerance` kJ/mol/ps/atom by pairs that come within
 * the cut-off before the list is built anew, `nstlist` steps of dt_ps later; the estimate of the
 * GROMACS manual ("Energy drift and pair list buffering"): atoms fly freely at temperature_k, the
 * potential is expanded at the cut-off, pairs of kinds add up without sign. Two additions of
 * GROMACS as well: an atom on a rigid bond turns about the centre of mass and gets no further, and
 * of the pairs just beyond the list cut-off most are in a list of clusters of four. `tolerance` has
 * to be positive. In a system with empty space, give the volume that the atoms fill. HUGE_VAL when
 * atoms may move further than 1e6 nm, so that no cut-off would do.
 */
double md_list_cutoff(const struct md_interaction *interaction, double tolerance, int nstlist,
                      double dt_ps, double temperature_k, int kind_count,
                      const struct md_kind *kinds, double volume_nm3);

#endif
