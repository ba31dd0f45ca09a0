// SPDX-License-Identifier: Apache-2.0
// One evaluation of the forces on this rank's atoms, before and after ghosts' shares come home.
//
// Order of sums, fixed: pairs with a ghost, pairs of home atoms, ghosts' shares from their other
// ranks in the plan's order, excluded pairs and self terms, terms within molecules. Pairs of home
// atoms are worked on in two pieces, while coordinates travel and while forces do, so that a rank
// may be late by as much before another waits for it. Advantage: the same input on the same ranks
// and threads gives the same bits. Disadvantage: what is copied between images and state is copied
// by itself.

#include "md/md.h"

#include <math.h>
#include <string.h>

static void add_tensor(double sum[9], const double tensor[9])
{
    for (int i = 0; i < 9; i++)
        sum[i] += tensor[i];
}

// Of the pairs of home atoms, what is done while coordinates travel; the rest follows while forces
// do.
#define SHARE_FORWARD 0.5

static void add_output(struct md_terms *terms, const struct md_pair_output *output)
{
    terms->lj += output->energy.lj;
    terms->coulomb += output->energy.coulomb;
    add_tensor(terms->virial, output->virial);
}

// The part of the forces' image that begins at an element.
static void clear_image(struct md_domain *domain, size_t begin, size_t end)
{
    const struct md_image *image = &domain->image[FIELD_F];
    memset((char *)image->data + begin * image->element_bytes, 0,
           (end - begin) * image->element_bytes);
}

static void take_image(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    size_t count = 3 * (size_t)domain->atoms.count;
    double *f = domain->atoms.f;
    if (rank->options->precision == MD_DOUBLE) {
        memcpy(f, domain->image[FIELD_F].data, count * sizeof *f);
        return;
    }
    const float *image = domain->image[FIELD_F].data;
    for (size_t i = 0; i < count; i++)
        f[i] = image[i];
}

static void sum_forces(const struct md_atoms *atoms, double sum[3], double *length)
{
    for (int64_t i = 0; i < atoms->count; i++) {
        const double *f = atoms->f + 3 * i;
        for (int d = 0; d < 3; d++)
            sum[d] += f[d];
        *length += sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    }
}

void md_home_pairs_begin(struct md_rank *rank, bool want)
{
    struct md_domain *domain = &rank->domain;
    clear_image(domain, 0, (size_t)domain->atoms.count);
    md_list_home_begin(domain->list, domain->image[FIELD_X].data, SHARE_FORWARD, want, want);
    md_clock_lap(&rank->clock, PHASE_LOCAL);
}

void md_ghost_pairs(struct md_rank *rank, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    struct md_pair_output output = {0};
    *terms = (struct md_terms){0};
    clear_image(domain, (size_t)domain->atoms.count, domain->element_count);
    md_list_ghosts(domain->list, domain->image[FIELD_X].data, domain->image[FIELD_F].data, &output);
    add_output(terms, &output);
    md_clock_lap(&rank->clock, PHASE_NONLOCAL);
}

void md_home_pairs_end(struct md_rank *rank, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    struct md_pair_output output = {0};
    md_list_home_end(domain->list, domain->image[FIELD_F].data, &output);
    add_output(terms, &output);
    md_clock_lap(&rank->clock, PHASE_LOCAL);
}

void md_pair_forces(struct md_rank *rank, bool want, struct md_terms *terms)
{
    md_home_pairs_begin(rank, want);
    md_ghost_pairs(rank, terms);
    md_home_pairs_end(rank, terms);
}

static void bonded_forces(struct md_rank *rank, bool want, struct md_terms *terms)
{
    const struct md_domain *domain = &rank->domain;
    for (uint32_t s = 0; s < domain->stretch_count; s++) {
        const struct md_stretch *stretch = &domain->stretch[s];
        const struct md_molecule_type *type =
            &rank->system.topology->molecule_types[stretch->molecule_type];
        int64_t at = 3 * (int64_t)stretch->first_atom;
        if (type->term_start[MD_TERM_KINDS] > 0)
            md_bonded_forces(type, stretch->count, rank->system.interaction.coulomb,
                             domain->atoms.x_nm + at, domain->atoms.f + at,
                             want ? &terms->bonded : NULL, want ? terms->virial : NULL);
    }
    md_clock_lap(&rank->clock, PHASE_BONDED);
}

void md_home_forces(struct md_rank *rank, bool want, struct md_terms *terms)
{
    struct md_domain *domain = &rank->domain;
    const struct md_system *system = &rank->system;
    double edges[3] = {system->box_nm[0][0], system->box_nm[1][1], system->box_nm[2][2]};
    take_image(rank);
    md_clock_lap(&rank->clock, PHASE_OTHER);
    double corrections = md_exclusion_forces(
        &system->interaction, domain->atoms.count, domain->atoms.x_nm, domain->charge,
        domain->exclusion_start, domain->exclusion, system->images ? NULL : edges, domain->atoms.f,
        want ? terms->virial : NULL, &terms->corrections);
    terms->pairs = terms->coulomb;
    terms->coulomb += corrections;
    md_clock_lap(&rank->clock, PHASE_LOCAL);
    bonded_forces(rank, want, terms);
    if (want)
        sum_forces(&domain->atoms, terms->force, &terms->force_length);
    md_clock_lap(&rank->clock, PHASE_OTHER);
}
