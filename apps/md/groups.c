// SPDX-License-Identifier: Apache-2.0
// Temperature groups: which atoms of each kind of molecule belong to which, and what moves in them.
//
// A group is named by a residue, by a kind of molecule, or by one of the groups that `gmx make_ndx`
// makes of every system: System, Water and SOL, non-Water, Other, Ion. Advantage: membership is
// known a site, not an atom, so it costs nothing and needs no index file. Disadvantage: two
// molecules of one kind cannot be in different groups.

#include "core/error.h"
#include "md/system.h"
#include "md/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Residues by GROMACS' residuetypes.dat.
static const char *const waters[] = {"SOL", "WAT", "HOH", "OHH", "TIP", "T3P", "T4P", "T5P", "T3H"};
static const char *const ions[] = {"K",  "NA", "CA", "MG",  "CL", "ZN", "CU1", "CU",  "LI", "NA+",
                                   "RB", "CS", "F",  "CL-", "BR", "I",  "OH",  "Cal", "IB+"};

static bool is_one_of(const char *residue, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (md_same_word(residue, names[i]))
            return true;
    return false;
}

static bool is_water(const char *residue)
{
    return is_one_of(residue, waters, sizeof waters / sizeof *waters);
}

static bool is_ion(const char *residue)
{
    return is_one_of(residue, ions, sizeof ions / sizeof *ions);
}

enum way {
    BY_NOTHING,
    BY_RESIDUE,
    BY_MOLECULE,
    SYSTEM,
    WATER,
    NON_WATER,
    ION,
    WATER_AND_IONS,
    OTHER
};

static bool belongs(enum way way, const char *name, const struct md_molecule_type *type, int atom)
{
    const char *residue = type->atoms[atom].residue_name;
    switch (way) {
    case BY_RESIDUE:
        return md_same_word(name, residue);
    case BY_MOLECULE:
        return md_same_word(name, type->name);
    case SYSTEM:
        return true;
    case WATER:
        return is_water(residue);
    case NON_WATER:
        return !is_water(residue);
    case ION:
        return is_ion(residue);
    case WATER_AND_IONS:
        return is_water(residue) || is_ion(residue);
    case OTHER:
        return !is_water(residue) && !is_ion(residue);
    default:
        return false;
    }
}

static bool has_any(const struct md_topology *topology, enum way way, const char *name)
{
    for (int t = 0; t < topology->molecule_type_count; t++)
        for (int i = 0; i < topology->molecule_types[t].atom_count; i++)
            if (belongs(way, name, &topology->molecule_types[t], i))
                return true;
    return false;
}

static enum way find_way(const struct md_topology *topology, const char *name)
{
    static const struct {
        const char *name;
        enum way way;
    } made[] = {{"System", SYSTEM}, {"Water", WATER}, {"non-Water", NON_WATER},
                {"Ion", ION},       {"Other", OTHER}, {"Water_and_ions", WATER_AND_IONS}};
    enum way first[] = {BY_RESIDUE, BY_MOLECULE};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (md_same_word(name, made[i].name) && has_any(topology, made[i].way, name))
            return made[i].way;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (has_any(topology, first[i], name))
            return first[i];
    return BY_NOTHING;
}

static int fail_unknown(const struct md_system *system, const char *name)
{
    char known[256] = "";
    size_t used = 0;
    const struct md_topology *topology = system->topology;
    for (int t = 0; t < topology->molecule_type_count && used < sizeof known - 80; t++)
        used += (size_t)snprintf(known + used, sizeof known - used, ", %s",
                                 topology->molecule_types[t].name);
    return leat_fail(
        -EINVAL,
        "%s: 'tc-grps' names %s, of which there are no atoms; known are System, Water, "
        "non-Water, Ion, Water_and_ions, Other, names of residues and of molecules%s",
        system->settings.file, name, known);
}

static int set_group(struct md_system *system, int group)
{
    const char *name = system->settings.group_name[group];
    enum way way = find_way(system->topology, name);
    if (way == BY_NOTHING)
        return fail_unknown(system, name);
    for (int s = 0; s < system->site_count; s++) {
        struct md_site *site = &system->sites[s];
        const struct md_molecule_type *type =
            &system->topology->molecule_types[site->molecule_type];
        if (!belongs(way, name, type, site->index))
            continue;
        if (site->group >= 0)
            return leat_fail(-EINVAL,
                             "%s: 'tc-grps' has atom %d (%s) of molecule %s in both %s and %s",
                             system->settings.file, site->index + 1, type->atoms[site->index].name,
                             type->name, system->settings.group_name[site->group], name);
        site->group = group;
    }
    return 0;
}

static int set_groups(struct md_system *system)
{
    for (int s = 0; s < system->site_count; s++)
        system->sites[s].group = system->settings.group_count ? -1 : 0;
    for (int g = 0; g < system->settings.group_count; g++) {
        int error = set_group(system, g);
        if (error)
            return error;
    }
    for (int s = 0; s < system->site_count; s++) {
        const struct md_site *site = &system->sites[s];
        const struct md_molecule_type *type =
            &system->topology->molecule_types[site->molecule_type];
        if (site->group < 0)
            return leat_fail(-EINVAL,
                             "%s: atom %d (%s) of molecule %s is in none of the groups of "
                             "'tc-grps'; each atom has to be in one",
                             system->settings.file, site->index + 1, type->atoms[site->index].name,
                             type->name);
    }
    return 0;
}

// Of one molecule: a constraint takes half a degree from the group of each of its atoms.
static void add_degrees(const struct md_system *system, int molecule_type, double count,
                        double degrees[MD_GROUPS_MAX])
{
    const struct md_molecule_type *type = &system->topology->molecule_types[molecule_type];
    const struct md_site *site = system->sites + system->first_site[molecule_type];
    for (int i = 0; i < type->atom_count; i++)
        degrees[site[i].group] += 3.0 * count;
    for (int s = 0; s < type->settle_count; s++)
        for (int i = 0; i < 3; i++)
            degrees[site[type->settles[s].oxygen + i].group] -= count;
    for (int c = 0; c < type->constraint_count; c++) {
        degrees[site[type->constraints[c].a].group] -= 0.5 * count;
        degrees[site[type->constraints[c].b].group] -= 0.5 * count;
    }
}

// The centre of mass is all groups'; each gives of what it has.
static void count_degrees(struct md_system *system)
{
    double total = 0.0, centre = system->settings.remove_com ? 3.0 : 0.0;
    double *degrees = system->group_degrees;
    memset(degrees, 0, sizeof system->group_degrees);
    for (int b = 0; b < system->topology->block_count; b++)
        add_degrees(system, system->topology->blocks[b].type,
                    (double)system->topology->blocks[b].count, degrees);
    for (int g = 0; g < MD_GROUPS_MAX; g++)
        total += degrees[g];
    for (int g = 0; g < MD_GROUPS_MAX && total > 0.0; g++)
        degrees[g] *= (total - centre) / total;
    system->degrees = total - centre;
}

int md_system_group(struct md_system *system)
{
    int error = set_groups(system);
    if (!error)
        count_degrees(system);
    return error;
}
