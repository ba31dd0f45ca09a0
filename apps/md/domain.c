// SPDX-License-Identifier: Apache-2.0
// A rank's part of the system: whole molecules by their centres, an eighth-shell halo, a pair list.
//
// Algorithm: once a list's life all molecules are wrapped and sent home, a new plan is made from
// where they are, and the halo, the local topology and the list follow from it. Advantage: one
// period for everything, so within it indices do not change and a step only moves coordinates and
// forces. Disadvantage: everything is done anew although few molecules moved; a step with a
// partition costs several others.

#include "core/error.h"
#include "core/log.h"
#include "md/checkpoint.h"
#include "md/halo_check.h"
#include "md/md.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static uint32_t roomy(uint32_t count)
{
    return count + count / 8 + 64;
}

// Grows one array, or leaves it and notes the failure. `array` is the address of a pointer of any
// type, which only memcpy may read and write under that name.
static void grow(void *array, size_t count, size_t bytes, bool *failed)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, count * bytes);
    if (grown)
        memcpy(array, &grown, sizeof grown);
    else
        *failed = true;
}

static int reserve_home(struct md_domain *domain, uint32_t atoms)
{
    if (domain->id && atoms <= domain->home_capacity)
        return 0;
    size_t count = roomy(atoms);
    bool failed = false;
    grow(&domain->atoms.x_nm, count, 3 * sizeof(double), &failed);
    grow(&domain->atoms.v_nm_ps, count, 3 * sizeof(double), &failed);
    grow(&domain->atoms.f, count, 3 * sizeof(double), &failed);
    grow(&domain->scratch, count, 3 * sizeof(double), &failed);
    grow(&domain->x_listed, count, 3 * sizeof(double), &failed);
    grow(&domain->mass_u, count, sizeof(double), &failed);
    grow(&domain->id, count, sizeof(int64_t), &failed);
    grow(&domain->number, count, sizeof(int64_t), &failed);
    grow(&domain->site, count, sizeof(int32_t), &failed);
    grow(&domain->group, count, sizeof(uint8_t), &failed);
    grow(&domain->exclusion_start, count + 1, sizeof(int), &failed);
    grow(&domain->oxygen, count, sizeof(int), &failed);
    domain->atoms.id = domain->id;
    domain->atoms.mass_u = domain->mass_u;
    domain->atoms.number = domain->number;
    if (failed)
        return leat_fail(-ENOMEM, "no memory for %u atoms on a rank; use more ranks", atoms);
    domain->home_capacity = (uint32_t)count;
    return 0;
}

int md_domain_reserve(struct md_domain *domain, uint32_t groups, uint32_t atoms)
{
    int error = reserve_home(domain, atoms);
    if (error || (domain->group_start && groups <= domain->group_capacity))
        return error;
    bool failed = false;
    grow(&domain->group_start, (size_t)roomy(groups) + 1, sizeof(uint32_t), &failed);
    if (failed)
        return leat_fail(-ENOMEM, "no memory for %u molecules on a rank; use more ranks", groups);
    domain->group_capacity = roomy(groups);
    domain->group_start[0] = 0;
    return 0;
}

static int reserve_elements(struct md_domain *domain, uint32_t elements)
{
    if (elements > INT_MAX / 3)
        return leat_fail(-EOVERFLOW, "%u atoms and ghosts on one rank; use more ranks", elements);
    if (domain->type && elements <= domain->element_capacity)
        return 0;
    size_t count = roomy(elements);
    bool failed = false;
    grow(&domain->x_all, count, 3 * sizeof(double), &failed);
    grow(&domain->type, count, sizeof(int), &failed);
    grow(&domain->charge, count, sizeof(double), &failed);
    if (failed)
        return leat_fail(-ENOMEM, "no memory for %u atoms and ghosts on a rank; use more ranks",
                         elements);
    domain->element_capacity = (uint32_t)count;
    return 0;
}

static int reserve_image(const struct md_rank *rank, struct md_image *image, uint32_t elements)
{
    if (image->region && elements <= image->capacity)
        return 0;
    leat_region_free(image->region);
    image->region = NULL;
    image->data = NULL;
    leat_region_options options = {.size = sizeof options,
                                   .bytes = (uint64_t)roomy(elements) * image->element_bytes,
                                   .memory = md_gpu_memory(rank)};
    int error = leat_region_alloc(rank->job, &options, &image->region);
    if (error)
        return error;
    leat_region_info info = {.size = sizeof info};
    error = leat_region_info_get(image->region, &info);
    if (error)
        return error;
    image->data = info.address;
    image->capacity = roomy(elements);
    return 0;
}

// The library's choice, with room for molecules that stick out; where there is none, without.
static int find_grid(const struct md_rank *rank, int grid[3])
{
    const struct md_system *system = &rank->system;
    const double(*box_nm)[3] = system->box_nm;
    double reach_nm = system->list_nm + 2.0 * system->radius_nm;
    int error = leat_grid_choose(rank->rank_count, box_nm, reach_nm, grid);
    if (error == -EDOM)
        error = leat_grid_choose(rank->rank_count, box_nm, system->list_nm, grid);
    // With images any grid will do. A smaller reach still finds which is best for the box's shape.
    for (int halved = 0; error == -EDOM && system->images && halved < 16; halved++) {
        reach_nm *= 0.5;
        error = leat_grid_choose(rank->rank_count, box_nm, reach_nm, grid);
    }
    return error;
}

static int choose_grid(struct md_rank *rank, int grid[3])
{
    leat_job_info info = {.size = sizeof info};
    int error = leat_job_info_get(rank->job, &info);
    if (error)
        return error;
    const int *wanted = rank->options->grid[0] ? rank->options->grid : info.grid;
    if (!wanted[0] && rank->files.grid[0])
        wanted = rank->files.grid;
    if (!wanted[0])
        return find_grid(rank, grid);
    if ((int64_t)wanted[0] * wanted[1] * wanted[2] != rank->rank_count)
        return leat_fail(-EINVAL, "grid %dx%dx%d has not as many domains as there are ranks, %d",
                         wanted[0], wanted[1], wanted[2], rank->rank_count);
    memcpy(grid, wanted, 3 * sizeof *grid);
    return 0;
}

static int decompose(struct md_rank *rank)
{
    leat_decomposition *decomposition = &rank->domain.decomposition;
    *decomposition = (leat_decomposition){.size = sizeof *decomposition,
                                          .order = rank->options->order,
                                          .kind = rank->options->plan,
                                          .images = rank->system.images,
                                          .cutoff_nm = rank->system.list_nm};
    memcpy(decomposition->box_nm, rank->system.box_nm, sizeof decomposition->box_nm);
    return choose_grid(rank, decomposition->grid);
}

// The molecules of rank r are those before share_begin(r + 1).
static int64_t share_begin(const struct md_rank *rank, int r)
{
    return rank->system.topology->molecule_count * r / rank->rank_count;
}

// Of a molecule, or with their number the number of atoms.
static int64_t first_atom(const struct md_topology *topology, int64_t molecule)
{
    if (molecule == topology->molecule_count)
        return topology->atom_count;
    const struct md_molecule_block *block = &topology->blocks[md_find_block(topology, molecule)];
    return block->first_atom +
           (molecule - block->first_molecule) * topology->molecule_types[block->type].atom_count;
}

static int64_t share_atoms(const struct md_rank *rank, int r)
{
    const struct md_topology *topology = rank->system.topology;
    return first_atom(topology, share_begin(rank, r + 1)) -
           first_atom(topology, share_begin(rank, r));
}

static void take_molecule(struct md_rank *rank, const struct md_molecule_block *block,
                          int64_t molecule)
{
    struct md_domain *domain = &rank->domain;
    const struct md_system *system = &rank->system;
    int atoms = system->topology->molecule_types[block->type].atom_count;
    int64_t first = block->first_atom + (molecule - block->first_molecule) * atoms;
    int64_t to = domain->atoms.count;
    for (int i = 0; i < atoms; i++) {
        domain->id[to + i] = first + i;
        domain->site[to + i] = system->first_site[block->type] + i;
    }
    domain->atoms.count += atoms;
    domain->group_start[++domain->group_count] = (uint32_t)domain->atoms.count;
}

int md_domain_add(struct md_rank *rank, int64_t molecule)
{
    struct md_domain *domain = &rank->domain;
    const struct md_topology *topology = rank->system.topology;
    const struct md_molecule_block *block = &topology->blocks[md_find_block(topology, molecule)];
    int64_t atoms = domain->atoms.count + topology->molecule_types[block->type].atom_count;
    int error = md_domain_reserve(domain, domain->group_count + 1, (uint32_t)atoms);
    if (!error)
        take_molecule(rank, block, molecule);
    return error;
}

static void take_share(struct md_rank *rank)
{
    const struct md_topology *topology = rank->system.topology;
    int64_t begin = share_begin(rank, rank->rank), end = share_begin(rank, rank->rank + 1);
    int b = md_find_block(topology, begin);
    for (int64_t m = begin; m < end; m++) {
        while (m >= topology->blocks[b].first_molecule + topology->blocks[b].count)
            b++;
        take_molecule(rank, &topology->blocks[b], m);
    }
}

// Rank 0's coordinates and velocities, to each rank those of its share.
static int deal_coordinates(struct md_rank *rank, uint64_t *counts)
{
    const struct gro *input = rank->system.input;
    struct md_atoms *atoms = &rank->domain.atoms;
    uint64_t own = 3 * (uint64_t)share_atoms(rank, rank->rank);
    for (int r = 0; r < rank->rank_count; r++)
        counts[r] = 3 * (uint64_t)share_atoms(rank, r);
    int error = md_deal(rank, input ? input->x_nm : NULL, counts, atoms->x_nm, own);
    return error ? error
                 : md_deal(rank, input ? input->v_nm_ps : NULL, counts, atoms->v_nm_ps, own);
}

// Ranks are of one host.
static int make_team(struct md_rank *rank)
{
    int threads = rank->options->threads;
    if (threads < 0)
        threads = md_team_fit(rank->rank_count);
    if (threads == 0)
        threads = 1;
    int error =
        md_team_create(threads, md_team_is_crowd((int64_t)threads * rank->rank_count), &rank->team);
    if (error || threads == 1)
        return error;
    rank->thread_terms = calloc((size_t)threads, sizeof *rank->thread_terms);
    if (!rank->thread_terms)
        return leat_fail(-ENOMEM, "no memory for the terms of %d threads", threads);
    return md_list_use_team(rank->domain.list, rank->team);
}

static int prepare(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    uint32_t bytes = rank->options->precision == MD_DOUBLE ? 3 * sizeof(double) : 3 * sizeof(float);
    domain->image[FIELD_X].element_bytes = bytes;
    domain->image[FIELD_F].element_bytes = bytes;
    domain->image[FIELD_SITE].element_bytes = sizeof(int32_t);
    int error = decompose(rank);
    if (!error)
        error = md_list_create(&rank->system.interaction, rank->options->precision, &domain->list);
    if (!error)
        error = make_team(rank);
    if (error)
        return error;
    int64_t groups = share_begin(rank, rank->rank + 1) - share_begin(rank, rank->rank);
    return md_domain_reserve(domain, (uint32_t)groups, (uint32_t)share_atoms(rank, rank->rank));
}

static int deal(struct md_rank *rank)
{
    uint64_t *counts = calloc((size_t)rank->rank_count, sizeof *counts);
    int error =
        counts ? 0 : leat_fail(-ENOMEM, "no memory for the shares of %d ranks", rank->rank_count);
    // Nothing is dealt to ranks that have given up.
    error = md_agree(rank, error);
    if (!error)
        error = deal_coordinates(rank, counts);
    free(counts);
    if (!error)
        take_share(rank);
    return error;
}

int md_domain_open(struct md_rank *rank)
{
    // A checkpoint says how far lists reach, from which grid and lists follow.
    int error = rank->options->restart ? md_checkpoint_read(rank) : 0;
    if (!error)
        error = md_agree(rank, prepare(rank));
    if (!error && !rank->options->restart)
        error = deal(rank);
    return error ? error : md_local_home(rank);
}

static void drop_plan(struct md_domain *domain)
{
    leat_halo_free(domain->halo);
    leat_plan_free(domain->plan);
    domain->halo = NULL;
    domain->plan = NULL;
}

void md_domain_close(struct md_domain *domain)
{
    drop_plan(domain);
    for (int field = 0; field < FIELD_COUNT; field++)
        leat_region_free(domain->image[field].region);
    md_list_free(domain->list);
    void *arrays[] = {domain->group_start, domain->atoms.x_nm, domain->atoms.v_nm_ps,
                      domain->atoms.f,     domain->scratch,    domain->mass_u,
                      domain->id,          domain->site,       domain->x_all,
                      domain->type,        domain->charge,     domain->exclusion_start,
                      domain->exclusion,   domain->oxygen,     domain->number,
                      domain->x_listed,    domain->stretch,    domain->group};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    *domain = (struct md_domain){0};
}

enum { MOVE_X, MOVE_V, MOVE_ID, MOVE_SITE, MOVE_COUNT };

static void point_fields(struct md_domain *domain, leat_migrating fields[MOVE_COUNT])
{
    fields[MOVE_X] = (leat_migrating){domain->atoms.x_nm, 3 * sizeof(double), 0};
    fields[MOVE_V] = (leat_migrating){domain->atoms.v_nm_ps, 3 * sizeof(double), 0};
    fields[MOVE_ID] = (leat_migrating){domain->id, sizeof(int64_t), 0};
    fields[MOVE_SITE] = (leat_migrating){domain->site, sizeof(int32_t), 0};
}

static int make_room(void *user, leat_migration *migration, uint32_t groups, uint32_t elements)
{
    struct md_domain *domain = user;
    int error = md_domain_reserve(domain, groups, elements);
    point_fields(domain, migration->fields);
    migration->groups->start = domain->group_start;
    migration->element_id = domain->number;
    return error;
}

static void number_atoms(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    for (int i = 0; i < domain->atoms.count; i++)
        domain->number[i] = md_system_number(&rank->system, domain->id[i]) + 1;
}

static int migrate(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    leat_migrating fields[MOVE_COUNT];
    number_atoms(rank);
    point_fields(domain, fields);
    leat_groups groups = {domain->group_count, domain->group_start};
    leat_migration migration = {.size = sizeof migration,
                                .groups = &groups,
                                .x_field = MOVE_X,
                                .field_count = MOVE_COUNT,
                                .fields = fields,
                                .resize = make_room,
                                .user = domain,
                                .element_id = domain->number,
                                .step = rank->step};
    int error = leat_halo_migrate(rank->job, &domain->decomposition, &migration);
    if (error)
        return error;
    domain->group_count = groups.group_count;
    domain->atoms.count = (int)domain->group_start[groups.group_count];
    number_atoms(rank);
    return md_check_count(rank);
}

static int open_halo(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    enum leat_element real = rank->options->precision == MD_DOUBLE ? LEAT_F64 : LEAT_F32;
    leat_field fields[FIELD_COUNT] = {
        [FIELD_X] = {.element = real,
                     .components = 3,
                     .shifted = 1,
                     .acknowledged_by = FIELD_F + 1},
        [FIELD_F] = {.element = real, .components = 3, .acknowledged_by = FIELD_X + 1},
        [FIELD_SITE] = {.element = LEAT_WORDS, .components = 1},
    };
    for (int field = 0; field < FIELD_COUNT; field++) {
        int error = reserve_image(rank, &domain->image[field], domain->element_count);
        if (error)
            return error;
        fields[field].place.region = domain->image[field].region;
    }
    leat_halo_options options = {.size = sizeof options,
                                 .mode = rank->options->mode,
                                 .field_count = FIELD_COUNT,
                                 .fields = fields};
    return leat_halo_open(rank->job, domain->plan, &options, &domain->halo);
}

// Where molecules reach too far for domains as thin as these, also in the midst of a run as they
// unfold, images do: more ghosts, but from all around.
static int build_plan(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    leat_groups groups = {domain->group_count, domain->group_start};
    leat_decomposition *decomposition = &domain->decomposition;
    decomposition->images = rank->system.images;
    int error =
        leat_plan_build(rank->job, decomposition, &groups, domain->atoms.x_nm, &domain->plan);
    if (error != -EDOM || rank->system.images)
        return error;
    rank->system.images = true;
    decomposition->images = 1;
    error = leat_plan_build(rank->job, decomposition, &groups, domain->atoms.x_nm, &domain->plan);
    if (!error && rank->rank == 0)
        leat_log(LOG_WARN, LOG_WARN, -1,
                 "domains of %dx%dx%d are too thin for the cut-off and the molecules, so ghosts "
                 "come across all boundaries from step %lld on, as --images has them",
                 decomposition->grid[0], decomposition->grid[1], decomposition->grid[2],
                 (long long)rank->step);
    return error;
}

static int make_plan(struct md_rank *rank, leat_plan_info *info)
{
    struct md_domain *domain = &rank->domain;
    int error = build_plan(rank);
    if (error)
        return error;
    *info = (leat_plan_info){.size = sizeof *info};
    error = leat_plan_info_get(domain->plan, info);
    if (error)
        return error;
    domain->element_count = info->element_count;
    error = reserve_elements(domain, info->element_count);
    if (!error && rank->gpu)
        error = md_gpu_reserve(rank);
    error = md_agree(rank, error);
    return error ? error : open_halo(rank);
}

static void image_some(void *user, int thread, int count)
{
    struct md_rank *rank = user;
    const struct md_domain *domain = &rank->domain;
    const size_t values = 3 * (size_t)domain->atoms.count;
    const size_t begin = md_team_share(values, thread, count);
    const size_t end = md_team_share(values, thread + 1, count);
    const double *x = domain->atoms.x_nm;
    if (rank->options->precision == MD_DOUBLE) {
        if (end > begin)
            memcpy((double *)domain->image[FIELD_X].data + begin, x + begin,
                   (end - begin) * sizeof *x);
        return;
    }
    float *image = domain->image[FIELD_X].data;
    for (size_t i = begin; i < end; i++)
        image[i] = (float)x[i];
}

void md_domain_image(struct md_rank *rank)
{
    md_team_run(rank->team, image_some, rank);
}

// The list is built from what the pair loop will read, so both agree on where an atom is.
static const double *positions_of_all(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    if (rank->options->precision == MD_DOUBLE)
        return domain->image[FIELD_X].data;
    const float *image = domain->image[FIELD_X].data;
    for (size_t i = 0; i < 3 * (size_t)domain->element_count; i++)
        domain->x_all[i] = image[i];
    return domain->x_all;
}

static int build_list(struct md_rank *rank, const uint8_t *zone)
{
    const struct md_system *system = &rank->system;
    struct md_domain *domain = &rank->domain;
    struct md_list_input input = {.home_count = domain->atoms.count,
                                  .atom_count = (int)domain->element_count,
                                  .x_nm = positions_of_all(rank),
                                  .type = domain->type,
                                  .charge = domain->charge,
                                  .zone = zone,
                                  .exclusion_start = domain->exclusion_start,
                                  .exclusion = domain->exclusion,
                                  .list_nm = system->list_nm,
                                  .inner_nm = system->inner_nm,
                                  .inner_calls = system->inner_calls};
    for (int d = 0; d < 3; d++) {
        input.box_nm[d] = system->box_nm[d][d];
        input.periodic[d] = domain->decomposition.grid[d] == 1 && !system->images;
    }
    return md_list_build(domain->list, &input);
}

// What ghosts are made from, where the exchanges take it.
static int send_home(struct md_rank *rank, const uint8_t *zone)
{
    const struct md_domain *domain = &rank->domain;
    if (rank->gpu)
        return md_gpu_send(rank, zone);
    memcpy(domain->image[FIELD_SITE].data, domain->site,
           (size_t)domain->atoms.count * sizeof *domain->site);
    md_domain_image(rank);
    return 0;
}

static int make_list(struct md_rank *rank, const uint8_t *zone)
{
    int error = md_local_ghosts(rank);
    return error ? error : build_list(rank, zone);
}

int md_domain_partition(struct md_rank *rank)
{
    struct md_domain *domain = &rank->domain;
    leat_plan_info info;
    int error = rank->gpu ? md_gpu_receive(rank) : 0;
    if (error)
        return error;
    md_clock_lap(&rank->clock, PHASE_OTHER);
    drop_plan(domain);
    error = migrate(rank);
    if (!error)
        error = md_agree(rank, md_local_home(rank));
    if (!error)
        error = make_plan(rank, &info);
    if (error)
        return error;
    error = send_home(rank, info.zone);
    if (!error)
        error = leat_halo_exchange(domain->halo, FIELD_SITE, LEAT_FORWARD);
    if (!error)
        error = leat_halo_exchange(domain->halo, FIELD_X, LEAT_FORWARD);
    if (!error)
        error = rank->gpu ? md_gpu_list(rank) : make_list(rank, info.zone);
    error = md_agree(rank, error);
    if (!error)
        md_skin_begin(rank);
    if (!error)
        md_halo_check_begin(rank);
    md_clock_lap(&rank->clock, PHASE_LIST);
    return error;
}
