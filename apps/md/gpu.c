// SPDX-License-Identifier: Apache-2.0
// A rank's memory on its device: tables, state, and what goes there and comes back.
//
// Algorithm: molecules still change ranks on the host, so a partition brings positions and
// velocities there and sends them back with the new topology; between partitions nothing but sums
// leaves the device. Advantage: one migration and one plan for all devices, and plain steps without
// the host. Disadvantage: a partition costs two transfers of the state.
//
// Memory grows only where no rank has an exchange under way: allocating may wait for a device, and
// a device may wait for a peer that waits for its host.

#include "core/error.h"
#include "md/gpu_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int md_gpu_array_reserve(struct md_gpu *gpu, enum md_gpu_array array, size_t count,
                         size_t element_bytes)
{
    struct md_gpu_memory *memory = &gpu->array[array];
    // One element more than nothing, so that every array has an address.
    size_t bytes = (count + 1) * element_bytes;
    if (count > SIZE_MAX / 2 / element_bytes)
        return leat_fail(-EOVERFLOW, "%zu elements of %zu bytes do not fit a device's memory",
                         count, element_bytes);
    if (bytes <= memory->bytes)
        return 0;
    gpu->backend->free(gpu->state, memory->data);
    *memory = (struct md_gpu_memory){0};
    bytes += bytes / 8 + 256;
    int error = gpu->backend->alloc(gpu->state, bytes, &memory->data);
    if (error)
        return leat_fail_in(error, "%zu bytes for a rank's atoms; use more ranks or devices",
                            bytes);
    memory->bytes = bytes;
    return 0;
}

int md_gpu_launch(struct md_gpu *gpu, enum md_gpu_kernel kernel, uint32_t choice, uint32_t count)
{
    return count ? gpu->backend->launch(gpu->state, kernel, choice, count, &gpu->args) : 0;
}

int md_gpu_upload(struct md_gpu *gpu, void *to, const void *from, size_t bytes)
{
    return bytes ? gpu->backend->upload(gpu->state, to, from, bytes) : 0;
}

int md_gpu_put(struct md_gpu *gpu, enum md_gpu_array array, const void *from, size_t count,
               size_t element_bytes)
{
    int error = md_gpu_array_reserve(gpu, array, count, element_bytes);
    return error ? error : md_gpu_upload(gpu, gpu->array[array].data, from, count * element_bytes);
}

static int put_sites(struct md_gpu *gpu, const struct md_system *system)
{
    size_t count = (size_t)system->site_count;
    double *value = calloc(2 * count + 1, sizeof *value);
    int32_t *type = calloc(count + 1, sizeof *type);
    int error = value && type ? 0 : leat_fail(-ENOMEM, "no memory for %zu kinds of atoms", count);
    for (size_t s = 0; !error && s < count; s++) {
        type[s] = system->sites[s].type;
        value[s] = system->sites[s].charge_e;
        value[count + s] = system->sites[s].mass_u;
    }
    if (!error)
        error = md_gpu_put(gpu, ARRAY_SITE_TYPE, type, count, sizeof *type);
    if (!error)
        error = md_gpu_put(gpu, ARRAY_SITE_CHARGE, value, count, sizeof *value);
    if (!error)
        error = md_gpu_put(gpu, ARRAY_SITE_MASS, value + count, count, sizeof *value);
    free(value);
    free(type);
    return error;
}

static int put_lj(struct md_gpu *gpu, const struct md_interaction *interaction)
{
    size_t types = (size_t)interaction->type_count, count = types * types;
    float *lj = calloc(2 * count, sizeof *lj);
    if (!lj)
        return leat_fail(-ENOMEM, "no memory for the tables of %zu atom types", types);
    for (size_t k = 0; k < count; k++) {
        lj[2 * k] = (float)(6.0 * interaction->c6[k]);
        lj[2 * k + 1] = (float)(12.0 * interaction->c12[k]);
    }
    int error = md_gpu_put(gpu, ARRAY_LJ, lj, 2 * count, sizeof *lj);
    free(lj);
    return error;
}

static void set_interaction(struct md_gpu_args *args, const struct md_system *system)
{
    const struct md_interaction *from = &system->interaction;
    double shift6 = from->shift ? pow(from->cutoff_nm, -6) : 0.0;
    args->site_count = system->site_count;
    args->type_count = (uint32_t)from->type_count;
    args->exact_cutoff2 = from->cutoff_nm * from->cutoff_nm;
    args->exact_coulomb = from->coulomb;
    args->exact_krf = from->krf;
    args->exact_crf = from->crf;
    args->cutoff2 = (float)args->exact_cutoff2;
    args->coulomb = (float)from->coulomb;
    args->krf = (float)from->krf;
    args->crf = (float)from->crf;
    args->shift6 = (float)shift6;
    args->shift12 = (float)(shift6 * shift6);
    // As on the CPU: half a cut-off in one step is far more than atoms ever do.
    args->limit2 = 0.25 * args->exact_cutoff2;
    args->dt_ps = system->settings.dt_ps;
}

static int set_water(struct md_gpu_water *to, const struct md_waters *water)
{
    double oh = water->d_oh_nm, hh = water->d_hh_nm;
    double total = water->mass_o_u + 2.0 * water->mass_h_u, height2 = oh * oh - 0.25 * hh * hh;
    // The same conditions as md_settle's, which the first step on a CPU would meet.
    if (!(oh > 0.0 && hh > 0.0 && height2 > 1e-6 * oh * oh && water->mass_o_u > 0.0 &&
          water->mass_h_u > 0.0) ||
        !isfinite(height2 + total))
        return leat_fail(-EINVAL,
                         "rigid water with O-H %g nm, H-H %g nm, masses %g u and %g u: expected "
                         "positive masses and a triangle (0 < H-H < 2 O-H); correct [ settles ] "
                         "and the masses in the topology",
                         oh, hh, water->mass_o_u, water->mass_h_u);
    double height = sqrt(height2);
    to->o_nm = 2.0 * water->mass_h_u * height / total;
    to->h_nm = water->mass_o_u * height / total;
    to->half_hh_nm = 0.5 * hh;
    to->inverse_o = 1.0 / to->o_nm;
    to->inverse_hh = 1.0 / hh;
    to->h_share = water->mass_h_u / total;
    to->h_over_o = water->mass_h_u / water->mass_o_u;
    to->largest_move2 = oh * oh;
    to->least_normal = 1e-3 * hh * height;
    to->mass_h_u = water->mass_h_u;
    return 0;
}

static int put_system(struct md_gpu *gpu, const struct md_system *system)
{
    set_interaction(&gpu->args, system);
    int error = system->water_count ? set_water(&gpu->args.water, &system->water) : 0;
    if (!error)
        error = put_sites(gpu, system);
    if (!error)
        error = put_lj(gpu, &system->interaction);
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_BOUNDS, 6 * MD_GPU_PARTS, sizeof(float));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_SCAN_PART, MD_GPU_SCAN_PARTS, sizeof(uint64_t));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_SUM, (size_t)MD_GPU_TERM_COUNT * MD_GPU_PARTS,
                                     sizeof(double));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_FAULT, 1, sizeof(struct md_gpu_fault));
    if (!error)
        error = md_gpu_molecules_open(gpu, system);
    return error;
}

#ifndef LEAT_HAVE_CUDA
const struct md_gpu_backend *const md_gpu_cuda = NULL;
#endif

static const struct md_gpu_backend *find_backend(const struct md_rank *rank)
{
    return rank->options->device == MD_DEVICE_CUDA ? md_gpu_cuda : &md_gpu_emulated;
}

static const char *find_unsupported(const struct md_system *system)
{
    if (system->settings.integrator == MD_VELOCITY_VERLET)
        return "integrator = md-vv";
    if (system->settings.integrator == MD_STEEPEST_DESCENT)
        return "integrator = steep";
    return md_system_groups(system) > 1 ? "several groups in tc-grps" : NULL;
}

int md_gpu_supports(struct md_rank *rank)
{
    const char *what = find_unsupported(&rank->system);
    rank->unsupported = what != NULL;
    return what ? leat_fail(-ENOTSUP,
                            "--device cuda and emulated do not do this yet: %s; use --device cpu",
                            what)
                : 0;
}

int md_gpu_open(struct md_rank *rank)
{
    const struct md_gpu_backend *backend = find_backend(rank);
    if (rank->options->precision != MD_MIXED)
        return leat_fail(-ENOTSUP, "the device computes in mixed precision only; leave --precision "
                                   "double to --device cpu");
    if (!backend)
        return leat_fail(-ENOTSUP, "this build has no CUDA device; build it where nvcc is found");
    struct md_gpu *gpu = calloc(1, sizeof *gpu);
    double *part = calloc((size_t)MD_GPU_TERM_COUNT * MD_GPU_PARTS, sizeof *part);
    if (!gpu || !part) {
        free(gpu);
        free(part);
        return leat_fail(-ENOMEM, "no memory for a rank on a device");
    }
    gpu->backend = backend;
    gpu->part = part;
    int error = backend->open(rank->job, gpu->model, &gpu->state);
    if (error) {
        free(gpu->part);
        free(gpu);
        return error;
    }
    rank->gpu = gpu;
    return put_system(gpu, &rank->system);
}

void md_gpu_close(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    if (!gpu)
        return;
    for (int array = 0; array < ARRAY_COUNT; array++)
        gpu->backend->free(gpu->state, gpu->array[array].data);
    gpu->backend->close(gpu->state);
    free(gpu->role);
    free(gpu->cluster);
    free(gpu->part);
    free(gpu);
    rank->gpu = NULL;
}

const char *md_gpu_device(const struct md_rank *rank)
{
    return rank->gpu->backend->device;
}

const char *md_gpu_model(const struct md_rank *rank)
{
    return rank->gpu->model;
}

enum leat_memory md_gpu_memory(const struct md_rank *rank)
{
    return rank->gpu ? rank->gpu->backend->memory : LEAT_MEMORY_HOST;
}

static int reserve_home(struct md_gpu *gpu, const struct md_domain *domain)
{
    size_t home = (size_t)domain->atoms.count;
    const enum md_gpu_array vectors[] = {ARRAY_X, ARRAY_V, ARRAY_F};
    int error = 0;
    for (size_t k = 0; !error && k < sizeof vectors / sizeof *vectors; k++)
        error = md_gpu_array_reserve(gpu, vectors[k], 3 * home, sizeof(double));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_ROLE, home, sizeof(uint8_t));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_EXCLUSION_START, home + 1, sizeof(int32_t));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_EXCLUSION, (size_t)domain->exclusion_start[home],
                                     sizeof(int32_t));
    if (error || (gpu->role && home <= gpu->role_capacity))
        return error;
    free(gpu->role);
    gpu->role_capacity = home + home / 8 + 64;
    gpu->role = malloc(gpu->role_capacity);
    return gpu->role ? 0 : leat_fail(-ENOMEM, "no memory for the roles of %zu atoms", home);
}

static int reserve_elements(struct md_gpu *gpu, size_t elements)
{
    static const struct {
        enum md_gpu_array array;
        size_t count, bytes; // of each element
    } arrays[] = {
        {ARRAY_ZONE, 1, sizeof(uint8_t)},      {ARRAY_TERM, MD_GPU_TERM_COUNT, sizeof(double)},
        {ARRAY_CELL, 1, sizeof(uint32_t)},     {ARRAY_SLOT_ELEMENT, 1, sizeof(uint32_t)},
        {ARRAY_XQ, 4, sizeof(float)},          {ARRAY_KIND, 1, sizeof(uint32_t)},
        {ARRAY_ROW_SIZE, 1, sizeof(uint32_t)}, {ARRAY_ROW_START, 1, sizeof(uint64_t)},
    };
    int error = 0;
    for (size_t k = 0; !error && k < sizeof arrays / sizeof *arrays; k++)
        error = md_gpu_array_reserve(gpu, arrays[k].array, elements * arrays[k].count + 1,
                                     arrays[k].bytes);
    // Cells in proportion to elements, however large the space is that they are in.
    gpu->cell_capacity = 4096 + 2 * (uint32_t)elements;
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_CELL_SIZE, gpu->cell_capacity, sizeof(uint32_t));
    if (!error)
        error = md_gpu_array_reserve(gpu, ARRAY_CELL_START, (size_t)gpu->cell_capacity + 1,
                                     sizeof(uint64_t));
    return error;
}

int md_gpu_reserve(struct md_rank *rank)
{
    int error = reserve_home(rank->gpu, &rank->domain);
    if (!error)
        error = md_gpu_molecules_reserve(rank);
    return error ? error : reserve_elements(rank->gpu, rank->domain.element_count);
}

// Who moves with whom, and whether an excluded pair is of two that do not move together.
static void find_roles(struct md_gpu *gpu, const struct md_domain *domain)
{
    int home = domain->atoms.count;
    memset(gpu->role, MD_GPU_FREE, (size_t)home);
    for (int w = 0; w < domain->rigid.waters.count; w++) {
        uint8_t *role = gpu->role + domain->rigid.waters.oxygen[w];
        role[0] = MD_GPU_OXYGEN;
        role[1] = role[2] = MD_GPU_HYDROGEN;
    }
    gpu->apart = gpu->bonded || gpu->cluster_count > 0;
    for (int i = 0, first = 0; i < home; i++) {
        if (gpu->role[i] != MD_GPU_HYDROGEN)
            first = i;
        int last = gpu->role[first] == MD_GPU_OXYGEN ? first + 2 : first;
        for (int k = domain->exclusion_start[i]; k < domain->exclusion_start[i + 1]; k++)
            if (domain->exclusion[k] < first || domain->exclusion[k] > last)
                gpu->apart = true;
    }
}

static void point(struct md_gpu *gpu, const struct md_domain *domain)
{
    struct md_gpu_args *a = &gpu->args;
    const struct md_gpu_memory *array = gpu->array;
    a->home_count = (uint32_t)domain->atoms.count;
    a->element_count = domain->element_count;
    a->x = array[ARRAY_X].data;
    a->v = array[ARRAY_V].data;
    a->f = array[ARRAY_F].data;
    a->image_x = domain->image[FIELD_X].data;
    a->image_f = domain->image[FIELD_F].data;
    a->site = domain->image[FIELD_SITE].data;
    a->zone = array[ARRAY_ZONE].data;
    a->role = array[ARRAY_ROLE].data;
    a->exclusion_start = array[ARRAY_EXCLUSION_START].data;
    a->exclusion = array[ARRAY_EXCLUSION].data;
    a->site_type = array[ARRAY_SITE_TYPE].data;
    a->site_charge = array[ARRAY_SITE_CHARGE].data;
    a->site_mass = array[ARRAY_SITE_MASS].data;
    a->lj = array[ARRAY_LJ].data;
    a->terms = array[ARRAY_TERM_TABLE].data;
    a->shares = array[ARRAY_SHARE].data;
    a->share_start = array[ARRAY_SHARE_START].data;
    a->clusters = array[ARRAY_CLUSTER].data;
    a->scratch = array[ARRAY_SCRATCH].data;
    a->bounds = array[ARRAY_BOUNDS].data;
    a->cell = array[ARRAY_CELL].data;
    a->cell_size = array[ARRAY_CELL_SIZE].data;
    a->cell_start = array[ARRAY_CELL_START].data;
    a->slot_element = array[ARRAY_SLOT_ELEMENT].data;
    a->xq = array[ARRAY_XQ].data;
    a->kind = array[ARRAY_KIND].data;
    a->row_size = array[ARRAY_ROW_SIZE].data;
    a->row_start = array[ARRAY_ROW_START].data;
    a->scan_part = array[ARRAY_SCAN_PART].data;
    a->partner = array[ARRAY_PARTNER].data;
    a->term = array[ARRAY_TERM].data;
    a->term_stride = domain->element_count;
    a->sum = array[ARRAY_SUM].data;
    a->fault = array[ARRAY_FAULT].data;
}

int md_gpu_send(struct md_rank *rank, const uint8_t *zone)
{
    struct md_gpu *gpu = rank->gpu;
    const struct md_domain *domain = &rank->domain;
    size_t home = (size_t)domain->atoms.count, vectors = 3 * home * sizeof(double);
    find_roles(gpu, domain);
    point(gpu, domain);
    int error = md_gpu_molecules_send(rank);
    const struct {
        void *to;
        const void *from;
        size_t bytes;
    } parts[] = {
        {gpu->args.x, domain->atoms.x_nm, vectors},
        {gpu->args.v, domain->atoms.v_nm_ps, vectors},
        {gpu->array[ARRAY_ROLE].data, gpu->role, home},
        {gpu->array[ARRAY_EXCLUSION_START].data, domain->exclusion_start,
         (home + 1) * sizeof(int32_t)},
        {gpu->array[ARRAY_EXCLUSION].data, domain->exclusion,
         (size_t)domain->exclusion_start[home] * sizeof(int32_t)},
        {gpu->array[ARRAY_ZONE].data, zone, domain->element_count},
        {domain->image[FIELD_SITE].data, domain->site, home * sizeof(int32_t)},
    };
    for (size_t k = 0; !error && k < sizeof parts / sizeof *parts; k++)
        error = md_gpu_upload(gpu, parts[k].to, parts[k].from, parts[k].bytes);
    if (error)
        return error;
    gpu->sent = true;
    return md_gpu_launch(gpu, MD_GPU_IMAGE, 0, gpu->args.home_count);
}

static int receive(struct md_gpu *gpu, double *to, const double *from)
{
    size_t bytes = 3 * (size_t)gpu->args.home_count * sizeof *to;
    return bytes ? gpu->backend->download(gpu->state, to, from, bytes) : 0;
}

int md_gpu_receive(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    if (!gpu->sent)
        return 0;
    int error = md_gpu_check(rank);
    if (!error)
        error = receive(gpu, rank->domain.atoms.x_nm, gpu->args.x);
    return error ? error : receive(gpu, rank->domain.atoms.v_nm_ps, gpu->args.v);
}

int md_gpu_receive_forces(struct md_rank *rank)
{
    int error = md_gpu_check(rank);
    return error ? error : receive(rank->gpu, rank->domain.atoms.f, rank->gpu->args.f);
}

int md_gpu_wait(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    int error = gpu->backend->wait(gpu->state);
    if (!error && gpu->marked) {
        memset(gpu->weight, 0, sizeof gpu->weight);
        error = gpu->backend->spent(gpu->state, gpu->weight);
        gpu->marked = false;
    }
    // The host only sees how long all of it has taken; a step of it tells what for.
    if (gpu->pending_steps)
        md_clock_share(&rank->clock, gpu->weight);
    else
        md_clock_lap(&rank->clock, PHASE_OTHER);
    md_clock_steps(&rank->clock, gpu->pending_steps);
    gpu->pending_steps = 0;
    return error;
}

int md_gpu_mark(struct md_rank *rank, bool sampled, int phase)
{
    struct md_gpu *gpu = rank->gpu;
    if (!sampled)
        return 0;
    gpu->marked = true;
    return gpu->backend->mark(gpu->state, phase);
}

void md_gpu_note_step(struct md_rank *rank)
{
    rank->gpu->pending_steps++;
}

// As the CPU's messages for the same, of which the words are known to who reads logs.
static int say(const struct md_rank *rank, const struct md_gpu_fault *fault)
{
    const struct md_domain *domain = &rank->domain;
    uint32_t i = fault->element;
    bool home = i < (uint32_t)domain->atoms.count;
    long long atom = home ? (long long)domain->id[i] + 1 : 0;
    const double *x = fault->x, *v = fault->v, *f = fault->f;
    switch (fault->kind) {
    case MD_GPU_FAULT_MOVE:
        return leat_fail(-ERANGE,
                         "atom %lld would move %.6g nm in one of the last steps, limit %g nm: at "
                         "(%.6g %.6g %.6g) nm, velocity (%.6g %.6g %.6g) nm/ps, force (%.6g %.6g "
                         "%.6g) kJ/mol/nm; minimise the start's energy, shorten dt or look for "
                         "overlapping atoms in the input",
                         atom, fault->move_nm, sqrt(rank->gpu->args.limit2), x[0], x[1], x[2], v[0],
                         v[1], v[2], f[0], f[1], f[2]);
    case MD_GPU_FAULT_WATER:
        return leat_fail(-EDOM,
                         "the water whose oxygen is atom %lld cannot be constrained in one of the "
                         "last steps, oxygen at (%.6g %.6g %.6g) nm: expected a whole molecule "
                         "that turns less than a quarter and whose hydrogens move less than a "
                         "bond; minimise the start's energy, shorten dt or make the input's "
                         "molecules whole",
                         atom, x[0], x[1], x[2]);
    case MD_GPU_FAULT_CONSTRAINT:
        return leat_fail(-EDOM,
                         "atoms %lld and %lld cannot be kept %.6g nm apart in one of the last "
                         "steps, the first at (%.6g %.6g %.6g) nm: expected a whole molecule whose "
                         "bonds turn less than a quarter, and constraints of which none follows "
                         "from the others; minimise the start's energy, shorten dt, make the "
                         "input's molecules whole or leave a constraint out",
                         atom, (long long)domain->id[fault->other] + 1, fault->move_nm, x[0], x[1],
                         x[2]);
    case MD_GPU_FAULT_POSITION:
        return leat_fail(-ERANGE,
                         "pair list: local atom %u (%d are home) is at (%g %g %g) nm; the "
                         "simulation has blown up or its input is broken",
                         i, domain->atoms.count, x[0], x[1], x[2]);
    default:
        return leat_fail(-EBADMSG,
                         "ghost %u of rank %d is of kind %d of %d after the exchange; this is a "
                         "fault of the program or of the memory",
                         i, rank->rank, fault->site, rank->system.site_count);
    }
}

int md_gpu_check(struct md_rank *rank)
{
    struct md_gpu *gpu = rank->gpu;
    struct md_gpu_fault fault;
    int error = md_gpu_wait(rank);
    if (!error)
        error =
            gpu->backend->download(gpu->state, &fault, gpu->array[ARRAY_FAULT].data, sizeof fault);
    if (error)
        return error;
    return fault.claimed ? say(rank, &fault) : 0;
}
