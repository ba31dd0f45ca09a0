// SPDX-License-Identifier: Apache-2.0
// All atoms to rank 0.
//
// Each rank publishes its atoms in a region with a name; rank 0 looks at one after the other and
// hands each atom to whoever wants it, by its number. Advantage: rank 0 pulls, so it needs no room
// but for what becomes of the atoms, and nobody sends anything. Disadvantage: rank 0 does all the
// work, and the others wait for it.

#include "md/collect.h"

#include "core/error.h"
#include "md/md.h"

#include <errno.h>
#include <string.h>

#define REGION_NAME "md.collect"

// Then the atoms' numbers, and each wanted array.
struct parcel {
    int64_t count;
    int64_t unused[7]; // numbers start on a line of their own
};

enum { ARRAYS = 3 };

static int count_arrays(int wanted)
{
    return !!(wanted & MD_WANT_X) + !!(wanted & MD_WANT_V) + !!(wanted & MD_WANT_F);
}

static int receive(struct md_rank *rank, int wanted)
{
    if (!rank->gpu)
        return 0;
    int error = wanted & (MD_WANT_X | MD_WANT_V) ? md_gpu_receive(rank) : 0;
    return error || !(wanted & MD_WANT_F) ? error : md_gpu_receive_forces(rank);
}

static int publish(struct md_rank *rank, int wanted, leat_region **region)
{
    const struct md_atoms *atoms = &rank->domain.atoms;
    size_t count = (size_t)atoms->count;
    leat_region_options options = {.size = sizeof options, .name = REGION_NAME};
    options.bytes = sizeof(struct parcel) + count * sizeof *atoms->id +
                    count * 3 * sizeof(double) * (size_t)count_arrays(wanted);
    int error = leat_region_alloc(rank->job, &options, region);
    if (error)
        return error;
    leat_region_info info = {.size = sizeof info};
    error = leat_region_info_get(*region, &info);
    if (error)
        return error;
    struct parcel *parcel = info.address;
    parcel->count = atoms->count;
    int64_t *id = (int64_t *)(parcel + 1);
    memcpy(id, atoms->id, count * sizeof *id);
    double *to = (void *)(id + count);
    const double *from[ARRAYS] = {atoms->x_nm, atoms->v_nm_ps, atoms->f};
    for (int array = 0; array < ARRAYS; array++)
        if (wanted & (1 << array)) {
            memcpy(to, from[array], 3 * count * sizeof *to);
            to += 3 * count;
        }
    return 0;
}

static int take_parcel(const struct md_rank *rank, int from, const struct parcel *parcel,
                       int wanted, const struct md_taker *taker)
{
    const int64_t *id = (const int64_t *)(parcel + 1);
    const double *next = (const void *)(id + parcel->count), *array[ARRAYS] = {0};
    for (int a = 0; a < ARRAYS; a++)
        if (wanted & (1 << a)) {
            array[a] = next;
            next += 3 * parcel->count;
        }
    for (int64_t i = 0; i < parcel->count; i++) {
        if (id[i] < 0 || id[i] >= rank->system.atom_count)
            return leat_fail(-EBADMSG,
                             "rank %d has an atom of number %lld; this is a fault of the "
                             "program",
                             from, (long long)id[i] + 1);
        int error = taker->take(
            taker->user, md_system_number(&rank->system, id[i]), array[0] ? array[0] + 3 * i : NULL,
            array[1] ? array[1] + 3 * i : NULL, array[2] ? array[2] + 3 * i : NULL);
        if (error)
            return error;
    }
    return 0;
}

// Where rank 0 cannot look, the parcel is copied to it.
static int copy_parcel(struct md_rank *rank, leat_region *view, uint64_t bytes, leat_region **here)
{
    leat_region_options options = {.size = sizeof options, .bytes = bytes};
    int error = leat_region_alloc(rank->job, &options, here);
    return error ? error
                 : leat_copy(rank->job, (leat_place){*here, 0}, (leat_place){view, 0}, bytes,
                             (leat_place){0}, 0);
}

static int fetch_from(struct md_rank *rank, int from, leat_region *own, int wanted,
                      const struct md_taker *taker)
{
    leat_region_options options = {.size = sizeof options, .name = REGION_NAME, .owner = from};
    leat_region *view = NULL, *here = NULL;
    int error = from == rank->rank ? 0 : leat_region_register(rank->job, &options, &view);
    if (error)
        return error;
    leat_region_info info = {.size = sizeof info};
    error = leat_region_info_get(view ? view : own, &info);
    if (!error && !info.address)
        error = copy_parcel(rank, view, info.bytes, &here);
    if (!error && here)
        error = leat_region_info_get(here, &info);
    if (!error)
        error = take_parcel(rank, from, info.address, wanted, taker);
    leat_region_free(here);
    leat_region_free(view);
    return error;
}

int md_collect_atoms(struct md_rank *rank, int error, int wanted, const struct md_taker *taker)
{
    leat_region *region = NULL;
    if (!error)
        error = receive(rank, wanted);
    if (!error)
        error = publish(rank, wanted, &region);
    error = md_agree_on_files(rank, error);
    for (int from = 0; !error && rank->rank == 0 && from < rank->rank_count; from++)
        error = fetch_from(rank, from, region, wanted, taker);
    // Nobody takes its atoms back before rank 0 has seen them.
    error = md_agree(rank, error);
    leat_region_free(region);
    return error;
}
