// SPDX-License-Identifier: Apache-2.0
// --check: pairs and forces.
//
// Algorithm: all pairs of atoms and all their images within reach; a rank keeps those that are its
// own and sorts them, sorts what its list computes, and walks through both. Forces on home atoms
// are summed from the same pairs, whoever computes them. Advantage: a pair that is lost or done
// twice is named, and so is one that another rank has to do. Disadvantage: pairs within rounding of
// the cut-off are not judged.

#include "core/error.h"
#include "md/halo_check_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 2e-6 // of a cut-off: pairs so near to it may be on either side

enum { ATOM_BITS = 18, IMAGE_BITS = 6, IMAGE_HALF = 1 << (IMAGE_BITS - 1) };

struct search {
    struct md_rank *rank;
    struct md_halo_check *check;
    const struct md_halo_view *view;
    double reach_nm, cutoff_nm, shortest_nm; // the last: of cut-off and what is certainly within
    double inverse_edge[3];
    struct md_pair_keys *found; // where pairs of the list go
    int own[3];                 // this rank's domain
    int error;
};

// A pair of atoms, b in image n: d = x_a - (x_b + n box).
struct pair {
    int64_t a, b;
    int n[3];
    double d[3], r2;
};

// ---- Keys ----

static uint64_t key_of(const struct pair *pair)
{
    struct pair turned = *pair;
    bool turn = pair->a > pair->b;
    if (pair->a == pair->b)
        for (int d = 2; d >= 0; d--)
            turn = pair->n[d] != 0 ? pair->n[d] < 0 : turn;
    if (turn) {
        turned.a = pair->b;
        turned.b = pair->a;
        for (int d = 0; d < 3; d++)
            turned.n[d] = -pair->n[d];
    }
    uint64_t key = (uint64_t)turned.a << ATOM_BITS | (uint64_t)turned.b;
    for (int d = 0; d < 3; d++)
        key = key << IMAGE_BITS | (uint64_t)(turned.n[d] + IMAGE_HALF);
    return key;
}

static void open_key(uint64_t key, struct pair *pair)
{
    *pair = (struct pair){.a = (int64_t)(key >> (ATOM_BITS + 3 * IMAGE_BITS)),
                          .b = (int64_t)(key >> (3 * IMAGE_BITS)) & ((1 << ATOM_BITS) - 1)};
    for (int d = 0; d < 3; d++)
        pair->n[d] = (int)(key >> (IMAGE_BITS * (2 - d)) & ((1 << IMAGE_BITS) - 1)) - IMAGE_HALF;
}

static void push(struct search *search, struct md_pair_keys *keys, const struct pair *pair)
{
    if (keys->count == keys->capacity) {
        int64_t capacity = 2 * keys->capacity + 4096;
        uint64_t *key = realloc(keys->key, (size_t)capacity * sizeof *key);
        if (!key) {
            search->error =
                leat_fail(-ENOMEM, "no memory to check %lld pairs on a rank", (long long)capacity);
            return;
        }
        keys->key = key;
        keys->capacity = capacity;
    }
    keys->key[keys->count++] = key_of(pair);
}

static int by_key(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

// ---- One pair ----

static void set_distance(const struct search *search, int words, struct pair *pair)
{
    const double(*box)[3] = search->rank->system.box_nm;
    const double *xa = md_all(search->check, pair->a, words);
    const double *xb = md_all(search->check, pair->b, words);
    pair->r2 = 0.0;
    for (int d = 0; d < 3; d++) {
        pair->d[d] = xa[d] - xb[d];
        for (int k = 0; k < 3; k++)
            pair->d[d] -= pair->n[k] * box[k][d];
        pair->r2 += pair->d[d] * pair->d[d];
    }
}

// Beyond the list cut-off when the list was made: nobody has to have seen it.
static bool is_excused(const struct search *search, const struct pair *pair)
{
    struct pair listed = *pair;
    double list_nm = search->rank->system.list_nm * (1.0 - ROUNDING);
    if (search->check->fresh)
        return false;
    set_distance(search, ALL_LISTED, &listed);
    return listed.r2 > list_nm * list_nm;
}

static bool is_excluded(const struct search *search, const struct pair *pair)
{
    const struct md_halo_check *check = search->check;
    int64_t first = check->first[pair->a];
    if (check->first[pair->b] != first || pair->n[0] || pair->n[1] || pair->n[2])
        return false;
    const struct md_molecule_type *type =
        &search->rank->system.topology->molecule_types[check->molecule[pair->a]];
    int a = (int)(pair->a - first), b = (int)(pair->b - first);
    for (int e = type->exclusion_start[a]; e < type->exclusion_start[a + 1]; e++)
        if (type->exclusion[e] == b)
            return true;
    return false;
}

static const struct md_atom *atom_of(const struct search *search, int64_t atom)
{
    const struct md_halo_check *check = search->check;
    return &search->rank->system.topology->molecule_types[check->molecule[atom]]
                .atoms[atom - check->first[atom]];
}

static void describe(const struct search *search, const struct pair *pair, char text[160])
{
    snprintf(text, 160, "atoms %lld (of rank %d) and %lld (of rank %d, image %d %d %d), %.6f nm",
             (long long)pair->a + 1, md_owner(search->check, pair->a), (long long)pair->b + 1,
             md_owner(search->check, pair->b), pair->n[0], pair->n[1], pair->n[2], sqrt(pair->r2));
}

// ---- What has to be there ----

// The rank whose domain is the lowest of the two's, and how many boxes from this rank's it is.
static bool is_own(const struct search *search, const struct pair *pair, int boxes[3])
{
    static const int none[3];
    const int *grid = search->rank->domain.decomposition.grid;
    int a[3], b[3];
    md_halo_domain(search->rank, md_owner(search->check, pair->a), none, a);
    md_halo_domain(search->rank, md_owner(search->check, pair->b), pair->n, b);
    for (int d = 0; d < 3; d++) {
        int lower = (a[d] < b[d] ? a[d] : b[d]) - search->own[d];
        int edge = md_halo_crosses(search->rank, d) ? grid[d] : 1;
        if (lower % edge != 0)
            return false;
        boxes[d] = lower / edge;
    }
    return true;
}

// Both atoms of a pair of this rank's have to be there, in images that are as far apart.
static bool has_both(struct search *search, const struct pair *pair, const int boxes[3])
{
    int image[2][3];
    for (int d = 0; d < 3; d++) {
        bool crosses = md_halo_crosses(search->rank, d);
        image[0][d] = crosses ? -boxes[d] : 0;
        image[1][d] = crosses ? pair->n[d] - boxes[d] : 0;
    }
    const int64_t atom[2] = {pair->a, pair->b};
    for (int side = 0; side < 2; side++) {
        if (md_halo_find(search->check, atom[side], image[side]) >= 0)
            continue;
        if (is_excused(search, pair))
            return false;
        char text[160];
        describe(search, pair, text);
        md_halo_fault(search->check,
                      "atom %lld of rank %d, image %d %d %d, is not there, but this rank has to "
                      "compute %s",
                      (long long)atom[side] + 1, md_owner(search->check, atom[side]),
                      image[side][0], image[side][1], image[side][2], text);
        return false;
    }
    return true;
}

static void add_force(struct search *search, int64_t atom, double f_over_r, const double d[3],
                      double sign, double allowed)
{
    static const int none[3];
    struct md_halo_check *check = search->check;
    if (md_owner(check, atom) != search->rank->rank)
        return;
    int home = md_halo_find(check, atom, none);
    if (home < 0 || home >= search->view->home_count)
        return;
    for (int k = 0; k < 3; k++)
        check->f_wanted[3 * (size_t)home + (size_t)k] += sign * f_over_r * d[k];
    check->f_gross[home] += allowed;
}

// As in oracle.c; the shift of the potential exerts no force.
static void add_forces(struct search *search, const struct pair *pair)
{
    const struct md_interaction *interaction = &search->rank->system.interaction;
    const struct md_atom *a = atom_of(search, pair->a), *b = atom_of(search, pair->b);
    const size_t at = (size_t)a->type * (size_t)interaction->type_count + (size_t)b->type;
    double inverse2 = 1.0 / pair->r2, inverse6 = inverse2 * inverse2 * inverse2;
    double qq = interaction->coulomb * a->charge_e * b->charge_e;
    double f_over_r =
        qq * (sqrt(inverse2) * inverse2 - 2.0 * interaction->krf) +
        (12.0 * interaction->c12[at] * inverse6 - 6.0 * interaction->c6[at]) * inverse6 * inverse2;
    double part = search->rank->options->precision == MD_DOUBLE ? 1e-9 : 5e-5;
    double r = sqrt(pair->r2);
    // Terms that nearly cancel in a pair are rounded each.
    double gross = r * (fabs(qq) * (sqrt(inverse2) * inverse2 + 2.0 * interaction->krf) +
                        (12.0 * interaction->c12[at] * inverse6 + 6.0 * interaction->c6[at]) *
                            inverse6 * inverse2);
    double allowed = part * gross + (r > search->shortest_nm ? fabs(f_over_r) * r : 0.0);
    bool within = r < search->cutoff_nm;
    add_force(search, pair->a, within ? f_over_r : 0.0, pair->d, 1.0, allowed);
    add_force(search, pair->b, within ? f_over_r : 0.0, pair->d, -1.0, allowed);
}

static void look_at_pair(struct search *search, const struct pair *pair)
{
    int boxes[3], own = is_own(search, pair, boxes);
    bool near = sqrt(pair->r2) < search->cutoff_nm * (1.0 + ROUNDING);
    bool here = md_owner(search->check, pair->a) == search->rank->rank ||
                md_owner(search->check, pair->b) == search->rank->rank;
    if ((!near || !here) && !own)
        return;
    if (is_excluded(search, pair))
        return;
    if (near && here)
        add_forces(search, pair);
    if (!own)
        return;
    bool there = has_both(search, pair, boxes);
    search->check->unseen += !there;
    if (there && sqrt(pair->r2) < search->shortest_nm)
        push(search, &search->check->wanted, pair);
}

// The least whole number above v, for |v| below 2^20.
static int next_whole(double v)
{
    return (int)(v + 0x1p20) - (1 << 20) + 1;
}

// An atom with itself counts once for two opposite images, and not at home.
static bool counts(const struct pair *pair)
{
    const int *n = pair->n;
    return pair->a != pair->b || n[2] > 0 || (n[2] == 0 && (n[1] > 0 || (n[1] == 0 && n[0] > 0)));
}

// All images of b within reach of a: whole vectors from the last to the first.
static void look_at_images(struct search *search, struct pair *pair)
{
    const double(*box)[3] = search->rank->system.box_nm;
    const double *xa = md_all(search->check, pair->a, ALL_X);
    const double *xb = md_all(search->check, pair->b, ALL_X);
    const double reach = search->reach_nm, *inverse = search->inverse_edge;
    const double d[3] = {xa[0] - xb[0], xa[1] - xb[1], xa[2] - xb[2]};
    int *n = pair->n;
    for (n[2] = next_whole((d[2] - reach) * inverse[2]); n[2] * box[2][2] < d[2] + reach; n[2]++) {
        double y0 = d[1] - n[2] * box[2][1], x0 = d[0] - n[2] * box[2][0];
        pair->d[2] = d[2] - n[2] * box[2][2];
        for (n[1] = next_whole((y0 - reach) * inverse[1]); n[1] * box[1][1] < y0 + reach; n[1]++) {
            double x1 = x0 - n[1] * box[1][0];
            pair->d[1] = y0 - n[1] * box[1][1];
            for (n[0] = next_whole((x1 - reach) * inverse[0]); n[0] * box[0][0] < x1 + reach;
                 n[0]++) {
                pair->d[0] = x1 - n[0] * box[0][0];
                pair->r2 =
                    pair->d[0] * pair->d[0] + pair->d[1] * pair->d[1] + pair->d[2] * pair->d[2];
                if (pair->r2 < reach * reach && counts(pair))
                    look_at_pair(search, pair);
            }
        }
    }
}

// ---- What is there ----

static void visit(void *user, int i, int j, const double offset_nm[3])
{
    struct search *search = user;
    const struct md_halo_view *view = search->view;
    struct pair pair = {.a = view->id[i], .b = view->id[j]};
    int64_t atoms = search->rank->system.atom_count;
    if (pair.a < 0 || pair.b < 0 || pair.a >= atoms || pair.b >= atoms)
        return; // has been found already
    const double *xa = md_all(search->check, pair.a, ALL_X);
    const double *xb = md_all(search->check, pair.b, ALL_X);
    const double *xi = view->x_nm + 3 * (size_t)i, *xj = view->x_nm + 3 * (size_t)j;
    double left[3], r2 = 0.0;
    for (int d = 0; d < 3; d++) {
        double apart = xi[d] - xj[d] + offset_nm[d];
        r2 += apart * apart;
        left[d] = xa[d] - xb[d] - apart;
    }
    // Most are far beyond the cut-off.
    if (r2 > 1.1 * search->cutoff_nm * search->cutoff_nm)
        return;
    md_halo_image(search->rank->system.box_nm, left, pair.n);
    set_distance(search, ALL_X, &pair);
    if (!(sqrt(pair.r2) < search->shortest_nm))
        return;
    if (is_excluded(search, &pair) || pair.r2 == 0.0) {
        char text[160];
        describe(search, &pair, text);
        md_halo_fault(search->check, "an excluded pair is computed: %s", text);
        return;
    }
    push(search, search->found, &pair);
}

static void sort(struct md_pair_keys *keys)
{
    if (keys->count)
        qsort(keys->key, (size_t)keys->count, sizeof *keys->key, by_key);
}

static void find_computed(struct search *search)
{
    struct md_halo_check *check = search->check;
    const struct md_rank *rank = search->rank;
    search->found = &check->computed;
    md_list_visit(rank->domain.list, false, visit, search);
    // At a partition the inner list is pruned of nothing that is near.
    search->found = &check->built;
    if (!check->fresh && rank->system.inner_calls > 0)
        md_list_visit(rank->domain.list, true, visit, search);
    sort(&check->wanted);
    sort(&check->computed);
    sort(&check->built);
}

static void tell(struct search *search, uint64_t key, const char *what)
{
    struct pair pair;
    char text[160];
    open_key(key, &pair);
    set_distance(search, ALL_X, &pair);
    describe(search, &pair, text);
    md_halo_fault(search->check, "%s: %s", what, text);
}

static void tell_missing(struct search *search, uint64_t key)
{
    const struct md_pair_keys *built = &search->check->built;
    struct pair pair;
    open_key(key, &pair);
    set_distance(search, ALL_X, &pair);
    // An inner list may have pruned it since.
    bool pruned =
        built->count && bsearch(&key, built->key, (size_t)built->count, sizeof *built->key, by_key);
    if (pruned || is_excused(search, &pair))
        search->check->unseen++;
    else
        tell(search, key, "a pair of this rank's is not computed");
}

// A pair that only the clusters brought along.
static bool is_extra(const struct search *search, uint64_t key)
{
    struct pair pair;
    int boxes[3];
    open_key(key, &pair);
    set_distance(search, ALL_X, &pair);
    return is_excused(search, &pair) && is_own(search, &pair, boxes);
}

static void compare_pairs(struct search *search)
{
    struct md_pair_keys *wanted = &search->check->wanted, *computed = &search->check->computed;
    int64_t w = 0, c = 0;
    while (w < wanted->count || c < computed->count) {
        bool only_wanted =
            c == computed->count || (w < wanted->count && wanted->key[w] < computed->key[c]);
        if (only_wanted) {
            tell_missing(search, wanted->key[w]);
            w++;
            continue;
        }
        bool right = w < wanted->count && wanted->key[w] == computed->key[c];
        if (c > 0 && computed->key[c] == computed->key[c - 1])
            tell(search, computed->key[c], "a pair is computed more than once");
        else if (!right && !is_extra(search, computed->key[c]))
            tell(search, computed->key[c], "a pair is computed that is another rank's");
        c++;
        // The same one may come again.
        w += right && (c == computed->count || computed->key[c] != wanted->key[w]);
    }
    search->check->pairs = wanted->count;
}

void md_halo_check_forces(struct md_rank *rank, const struct md_halo_view *view)
{
    struct md_halo_check *check = rank->check;
    for (int i = 0; i < view->home_count; i++) {
        const double *f = view->f + 3 * (size_t)i, *wanted = check->f_wanted + 3 * (size_t)i;
        double off2 = 0.0;
        for (int d = 0; d < 3; d++)
            off2 += (f[d] - wanted[d]) * (f[d] - wanted[d]);
        if (!(sqrt(off2) <= check->f_gross[i] + 1e-9))
            md_halo_fault(check,
                          "the pairs' force on atom %lld is (%.9g %.9g %.9g) kJ/mol/nm once all "
                          "shares are home, and (%.9g %.9g %.9g) by all pairs",
                          (long long)view->id[i] + 1, f[0], f[1], f[2], wanted[0], wanted[1],
                          wanted[2]);
    }
}

int md_halo_check_pairs(struct md_rank *rank, const struct md_halo_view *view)
{
    struct md_halo_check *check = rank->check;
    double cutoff_nm = rank->system.interaction.cutoff_nm;
    struct search search = {.rank = rank,
                            .check = check,
                            .view = view,
                            .cutoff_nm = cutoff_nm,
                            .shortest_nm = cutoff_nm * (1.0 - ROUNDING)};
    // Without a look at the whole list only what has come within the cut-off has to be there.
    search.reach_nm =
        check->fresh ? rank->system.list_nm * (1.0 - ROUNDING) : cutoff_nm * (1.0 + ROUNDING);
    md_halo_domain(rank, rank->rank, NULL, search.own);
    for (int d = 0; d < 3; d++)
        search.inverse_edge[d] = 1.0 / rank->system.box_nm[d][d];
    check->wanted.count = check->computed.count = check->built.count = 0;
    memset(check->f_wanted, 0, 3 * (size_t)view->home_count * sizeof *check->f_wanted);
    memset(check->f_gross, 0, (size_t)view->home_count * sizeof *check->f_gross);
    for (int64_t a = 0; a < rank->system.atom_count && !search.error; a++)
        for (int64_t b = a; b < rank->system.atom_count; b++) {
            struct pair pair = {.a = a, .b = b};
            look_at_images(&search, &pair);
        }
    find_computed(&search);
    if (search.error)
        return search.error;
    compare_pairs(&search);
    return 0;
}
