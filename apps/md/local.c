// SPDX-License-Identifier: Apache-2.0
// Topology of the atoms at hand, from the molecule types.
//
// An atom carries one number, its site: which atom of which molecule type it is. Home atoms bring
// it along when they move, ghosts get it once a partition through the halo. Advantage: memory and
// traffic do not depend on the size of the system, and no table from global to local numbers is
// needed, since molecules are whole and in order. Disadvantage: terms between molecules (none so
// far) would need such a table.

#include "core/error.h"
#include "md/md.h"

#include <errno.h>
#include <stdlib.h>

static int molecule_of_group(const struct md_rank *rank, uint32_t group,
                             const struct md_molecule_type **type)
{
    const struct md_domain *domain = &rank->domain;
    uint32_t first = domain->group_start[group], end = domain->group_start[group + 1];
    const struct md_site *site = &rank->system.sites[domain->site[first]];
    *type = &rank->system.topology->molecule_types[site->molecule_type];
    if (site->index != 0 || end - first != (uint32_t)(*type)->atom_count)
        return leat_fail(-EBADMSG,
                         "molecule of atom %lld has %u of the %d atoms of molecule type %s after "
                         "a migration; this is a fault of the program",
                         (long long)domain->id[first] + 1, end - first, (*type)->atom_count,
                         (*type)->name);
    return 0;
}

static int count_terms(const struct md_rank *rank, size_t *exclusions)
{
    const struct md_domain *domain = &rank->domain;
    *exclusions = 0;
    for (uint32_t g = 0; g < domain->group_count; g++) {
        const struct md_molecule_type *type;
        int error = molecule_of_group(rank, g, &type);
        if (error)
            return error;
        *exclusions += (size_t)type->exclusion_start[type->atom_count];
    }
    return 0;
}

static int reserve_exclusions(struct md_domain *domain, size_t count)
{
    if (count <= domain->exclusion_capacity && domain->exclusion)
        return 0;
    if (count > INT32_MAX / 2)
        return leat_fail(-EOVERFLOW, "%zu exclusions on one rank; use more ranks", count);
    size_t capacity = count + count / 8 + 64;
    int *exclusion = realloc(domain->exclusion, capacity * sizeof *exclusion);
    if (!exclusion)
        return leat_fail(-ENOMEM, "no memory for %zu exclusions", capacity);
    domain->exclusion = exclusion;
    domain->exclusion_capacity = capacity;
    return 0;
}

static int reserve_stretches(struct md_domain *domain)
{
    // One a molecule at most.
    if (domain->stretch && domain->stretch_capacity >= domain->group_count)
        return 0;
    size_t capacity = domain->group_count + domain->group_count / 8 + 64;
    struct md_stretch *stretch = realloc(domain->stretch, capacity * sizeof *stretch);
    if (!stretch)
        return leat_fail(-ENOMEM, "no memory for %u molecules on a rank; use more ranks",
                         domain->group_count);
    domain->stretch = stretch;
    domain->stretch_capacity = (uint32_t)capacity;
    return 0;
}

static void stretch_by(struct md_domain *domain, int molecule_type, int first, int atoms)
{
    struct md_stretch *last = domain->stretch + domain->stretch_count - 1;
    if (domain->stretch_count && last->molecule_type == molecule_type)
        last->count++;
    else
        domain->stretch[domain->stretch_count++] =
            (struct md_stretch){molecule_type, first, 1, atoms};
}

static void add_molecule(struct md_domain *domain, const struct md_molecule_type *type, int first,
                         int *exclusions)
{
    for (int i = 0; i < type->atom_count; i++) {
        domain->exclusion_start[first + i] = *exclusions;
        for (int e = type->exclusion_start[i]; e < type->exclusion_start[i + 1]; e++)
            domain->exclusion[(*exclusions)++] = first + type->exclusion[e];
    }
    for (int s = 0; s < type->settle_count; s++)
        domain->oxygen[domain->rigid.waters.count++] = first + type->settles[s].oxygen;
}

static void look_up(const struct md_system *system, struct md_domain *domain, int element,
                    int32_t number)
{
    const struct md_site *site = &system->sites[number];
    domain->type[element] = site->type;
    domain->charge[element] = site->charge_e;
}

int md_local_home(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    const struct md_system *system = &rank->system;
    size_t terms;
    int error = count_terms(rank, &terms);
    if (!error)
        error = reserve_exclusions(domain, terms);
    if (!error)
        error = reserve_stretches(domain);
    if (error)
        return error;
    domain->stretch_count = 0;
    domain->rigid = (struct md_rigid){.waters = system->water};
    domain->rigid.waters.oxygen = domain->oxygen;
    int exclusions = 0;
    for (uint32_t g = 0; g < domain->group_count; g++) {
        const struct md_molecule_type *type;
        error = molecule_of_group(rank, g, &type);
        if (error)
            return error;
        int first = (int)domain->group_start[g];
        add_molecule(domain, type, first, &exclusions);
        stretch_by(domain, (int)(type - system->topology->molecule_types), first, type->atom_count);
    }
    domain->rigid.stretch = domain->stretch;
    domain->rigid.stretch_count = domain->stretch_count;
    domain->rigid.constrainer = (const struct md_constrainer *const *)system->constrainers;
    domain->exclusion_start[domain->atoms.count] = exclusions;
    for (int i = 0; i < domain->atoms.count; i++) {
        domain->mass_u[i] = system->sites[domain->site[i]].mass_u;
        domain->group[i] = (uint8_t)system->sites[domain->site[i]].group;
    }
    domain->atoms.group = md_system_groups(system) > 1 ? domain->group : NULL;
    return 0;
}

int md_local_ghosts(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    const int32_t *site = domain->image[FIELD_SITE].data;
    for (uint32_t i = 0; i < domain->element_count; i++) {
        if (site[i] < 0 || site[i] >= rank->system.site_count)
            return leat_fail(-EBADMSG,
                             "ghost %u of rank %d is of kind %d of %d after the exchange; this is "
                             "a fault of the program or of the memory",
                             i, rank->rank, site[i], rank->system.site_count);
        look_up(&rank->system, domain, (int)i, site[i]);
    }
    return 0;
}
