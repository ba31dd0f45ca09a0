// SPDX-License-Identifier: Apache-2.0
// --check: ghosts one by one.
//
// A ghost's place less that of its atom on the owner is a sum of whole box vectors, which tells the
// image, and the image and the owner tell the domain that the ghost stands for. Advantage: nothing
// of the plan is believed but the atom's number, and that is held against the place. Disadvantage:
// a ghost that nobody needs is no fault here.

#include "md/halo_check_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_BITS = 6, IMAGE_HALF = 1 << (IMAGE_BITS - 1) };

void md_halo_image(const double box_nm[3][3], double d[3], int n[3])
{
    for (int k = 2; k >= 0; k--) {
        double times = rint(d[k] / box_nm[k][k]);
        n[k] = fabs(times) < 1e6 ? (int)times : 0;
        for (int a = 0; a < 3; a++)
            d[a] -= n[k] * box_nm[k][a];
    }
}

bool md_halo_crosses(const struct md_rank *rank, int dimension)
{
    return rank->system.images || rank->domain.decomposition.grid[dimension] > 1;
}

void md_halo_domain(const struct md_rank *rank, int owner, const int n[3], int domain[3])
{
    const int *grid = rank->domain.decomposition.grid;
    const int home[3] = {owner / (grid[1] * grid[2]), owner / grid[2] % grid[1], owner % grid[2]};
    for (int d = 0; d < 3; d++)
        domain[d] = md_halo_crosses(rank, d) ? home[d] + (n ? n[d] * grid[d] : 0) : 0;
}

double md_halo_slack_nm(const struct md_rank *rank)
{
    double largest = 1.0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            largest += fabs(rank->system.box_nm[i][j]);
    return largest * (rank->options->precision == MD_DOUBLE ? 1e-14 : 0x1p-20);
}

static uint64_t key_of(int64_t atom, const int n[3])
{
    uint64_t key = (uint64_t)atom;
    for (int d = 0; d < 3; d++)
        key = key << IMAGE_BITS | (uint64_t)(n[d] + IMAGE_HALF);
    return key;
}

static int by_key(const void *a, const void *b)
{
    const struct md_place_of_atom *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->element > right->element) - (left->element < right->element);
}

int md_halo_find(const struct md_halo_check *check, int64_t atom, const int n[3])
{
    const uint64_t key = key_of(atom, n);
    int low = 0, high = check->place_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (check->place[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < check->place_count && check->place[low].key == key ? check->place[low].element
                                                                    : -1;
}

static void check_zone(struct md_rank *rank, const struct md_halo_view *view, int element,
                       const int n[3])
{
    int64_t atom = view->id[element];
    int domain[3], own[3];
    md_halo_domain(rank, md_owner(rank->check, atom), n, domain);
    md_halo_domain(rank, rank->rank, NULL, own);
    unsigned zone = 0;
    for (int d = 0; d < 3; d++)
        zone |= domain[d] > own[d] ? 1u << d : 0;
    if (zone != view->zone[element])
        md_halo_fault(
            rank->check,
            "ghost %d (atom %lld of rank %d) has crossed dimensions %u, but its image (%d "
            "%d %d) lies above in %u",
            element, (long long)atom + 1, md_owner(rank->check, atom), view->zone[element], n[0],
            n[1], n[2], zone);
}

// The image of an element, false where it is none.
static bool place_element(struct md_rank *rank, const struct md_halo_view *view, int element,
                          double slack_nm, int n[3])
{
    struct md_halo_check *check = rank->check;
    int64_t atom = view->id[element];
    const double *x = view->x_nm + 3 * (size_t)element;
    if (atom < 0 || atom >= rank->system.atom_count) {
        md_halo_fault(check, "ghost %d has the number %lld, which no atom has", element,
                      (long long)atom + 1);
        return false;
    }
    const double *wanted = md_all(check, atom, ALL_X);
    double d[3] = {x[0] - wanted[0], x[1] - wanted[1], x[2] - wanted[2]};
    md_halo_image(rank->system.box_nm, d, n);
    double off = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    bool near = off <= slack_nm;
    for (int k = 0; k < 3; k++)
        near = near && abs(n[k]) < IMAGE_HALF && (n[k] == 0 || md_halo_crosses(rank, k));
    if (!near)
        md_halo_fault(check,
                      "%s %d (atom %lld of rank %d) is at (%.9g %.9g %.9g) nm; its owner has it at "
                      "(%.9g %.9g %.9g), and the nearest image is %.3g nm away",
                      element < view->home_count ? "home atom" : "ghost", element,
                      (long long)atom + 1, md_owner(check, atom), x[0], x[1], x[2], wanted[0],
                      wanted[1], wanted[2], off);
    return near;
}

static void check_doubles(struct md_halo_check *check, const struct md_halo_view *view, int count)
{
    for (int i = 1; i < count; i++) {
        const struct md_place_of_atom *one = &check->place[i - 1], *other = &check->place[i];
        int64_t atom = view->id[other->element];
        if (one->key == other->key)
            md_halo_fault(check, "atom %lld of rank %d is there twice, as elements %d and %d",
                          (long long)atom + 1, md_owner(check, atom), one->element, other->element);
    }
}

void md_halo_check_atoms(struct md_rank *rank, const struct md_halo_view *view)
{
    struct md_halo_check *check = rank->check;
    double slack_nm = md_halo_slack_nm(rank);
    int count = 0;
    for (int e = 0; e < view->element_count; e++) {
        int n[3];
        if (!place_element(rank, view, e, slack_nm, n))
            continue;
        if (e >= view->home_count)
            check_zone(rank, view, e, n);
        check->place[count++] = (struct md_place_of_atom){key_of(view->id[e], n), e};
    }
    qsort(check->place, (size_t)count, sizeof *check->place, by_key);
    check_doubles(check, view, count);
    check->place_count = count;
    check->ghosts = count - view->home_count;
}
