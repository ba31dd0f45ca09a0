// SPDX-License-Identifier: Apache-2.0
// Evaluation of a list: coordinates into clusters, the loops, forces back.
//
// The virial needs no pair: with wrapped coordinates x and the sum of forces on each image of i,
// sum d (x) f over pairs is sum x (x) f over atoms plus sum shift (x) f over images. Each thread
// runs over rows of its own and adds to forces of its own; then each takes some clusters and adds
// up all threads' forces there.
// Where both parts are evaluated together, clusters of home atoms are read and given back once.
// Advantage: the loops see contiguous clusters only, no thread waits for another's atoms, and a
// step that wants the virial costs no more than one that does not. Disadvantage: coordinates and
// forces are copied once a part, and every thread clears forces of all clusters.

#include "md/list_internal.h"
#include "md/team.h"

#include <math.h>
#include <string.h>

static bool has_inner(const struct md_list *list, const struct md_part_list *part)
{
    return list->inner_calls > 0 && part->inner_age >= 0;
}

void md_list_rows(const struct md_list *list, enum md_part part_index, int share,
                  struct md_rows *rows)
{
    const struct md_part_list *part = &list->parts[part_index];
    const struct md_share *own = &part->shares[share];
    const bool inner = has_inner(list, part);
    struct md_row *row = inner ? part->inner_rows.data : part->made.rows.data;
    *rows = (struct md_rows){0};
    if (own->row_end > own->row_begin)
        *rows = (struct md_rows){
            row + own->row_begin, inner ? part->inner_j.data : part->made.j.data,
            part->made.mask.data, (inner ? own->inner_end : own->row_end) - own->row_begin};
}

// An evaluation, or a piece of it, as all threads see it.
struct evaluation {
    struct md_list *list;
    struct md_part_list *part;
    enum md_part part_index;
    const int *cluster; // that are read, or whose forces are done
    size_t cluster_count;
    const void *x;
    void *f;
    double until; // share of the pairs after this piece
    bool renew;   // the inner list
};

static struct md_pair_move move_of(const struct evaluation *work, int thread, int count)
{
    const struct md_list *list = work->list;
    const size_t begin = md_team_share(work->cluster_count, thread, count);
    const size_t end = md_team_share(work->cluster_count, thread + 1, count);
    return (struct md_pair_move){work->cluster ? work->cluster + begin : NULL,
                                 end - begin,
                                 list->atom.data,
                                 list->filled.data,
                                 list->wrap.data,
                                 list->xq.data,
                                 list->builders[0].f.data};
}

// From the first to the last of the clusters.
static void clear_forces(const struct evaluation *work, int thread)
{
    const struct md_list *list = work->list;
    const size_t bytes =
        list->kernels->loops[list->precision]->f_stride * md_real_bytes(list->precision);
    if (work->cluster_count == 0)
        return;
    const size_t begin = (size_t)work->cluster[0];
    const size_t end = (size_t)work->cluster[work->cluster_count - 1] + 1;
    memset((char *)list->builders[thread].f.data + begin * bytes, 0, (end - begin) * bytes);
}

// Reads some of the coordinates; all of a thread's own forces there and sums are cleared.
static void gather(void *user, int thread, int count)
{
    const struct evaluation *work = user;
    const struct md_list *list = work->list;
    struct md_share *own = &work->part->shares[thread];
    struct md_pair_move move = move_of(work, thread, count);
    move.f = list->builders[thread].f.data;
    if (count > 1)
        clear_forces(work, thread);
    list->kernels->loops[list->precision]->gather(&move, work->x);
    own->next = own->row_begin;
    own->energy = (struct md_pair_energy){0};
    memset(own->shift_force, 0, sizeof own->shift_force);
    memset(own->virial, 0, sizeof own->virial);
}

// The inner list: rows with those j that need no mask and are within inner_nm. What needs a mask
// has bonded atoms and is near anyway.
static void make_inner(const struct md_list *list, struct md_part_list *part, struct md_share *own)
{
    const size_t real_bytes = md_real_bytes(list->precision);
    const struct md_row *from = part->made.rows.data;
    struct md_row *to = part->inner_rows.data;
    const int *j = part->made.j.data;
    int *inner_j = part->inner_j.data;
    size_t j_count = own->row_end > own->row_begin ? from[own->row_begin].first : 0;
    own->inner_end = own->row_begin;
    for (size_t k = own->row_begin; k < own->row_end; k++) {
        struct md_row row = from[k];
        int *out = inner_j + j_count;
        memcpy(out, j + row.first, (size_t)row.masked_count * sizeof *j);
        row.count = row.masked_count +
                    list->kernels->loops[list->precision]->prune(
                        list->xq.data, row.i,
                        (const char *)list->real_shift + 3 * (size_t)row.shift * real_bytes,
                        list->inner_nm * list->inner_nm, j + row.first + row.masked_count,
                        row.count - row.masked_count, out + row.masked_count);
        row.first = j_count;
        if (row.count > 0)
            to[own->inner_end++] = row;
        j_count += (size_t)row.count;
    }
}

// The first row of [begin, end) at or behind that place among the j.
static size_t find_row(const struct md_row *row, size_t begin, size_t end, double place)
{
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if ((double)row[middle].first < place)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

void md_list_cut(struct md_list *list, struct md_part_list *part)
{
    const size_t count = part->made.row_count;
    const struct md_row *row = part->made.rows.data;
    size_t begin = 0;
    for (int t = 0; t < list->thread_count; t++) {
        struct md_share *own = &part->shares[t];
        const double place = (double)part->made.j_count * (t + 1) / list->thread_count;
        own->row_begin = begin;
        own->row_end = t + 1 == list->thread_count ? count : find_row(row, begin, count, place);
        own->inner_end = own->row_begin;
        own->next = begin;
        begin = own->row_end;
    }
}

// Rows of this piece: from where the thread stands to the piece's end.
static struct md_rows rows_until(const struct evaluation *work, int thread)
{
    struct md_share *own = &work->part->shares[thread];
    struct md_rows rows;
    md_list_rows(work->list, work->part_index, thread, &rows);
    const size_t done = own->next - own->row_begin;
    size_t end = rows.row_count;
    if (work->until < 1.0 && end > 0) {
        const struct md_row *last = &rows.row[end - 1];
        const double first = (double)rows.row[0].first;
        const double behind = (double)(last->first + (size_t)last->count);
        end = find_row(rows.row, done, end, first + work->until * (behind - first));
    }
    own->next = own->row_begin + end;
    if (rows.row_count > 0)
        rows.row += done;
    rows.row_count = end - done;
    return rows;
}

static void run_rows(void *user, int thread, int count)
{
    const struct evaluation *work = user;
    const struct md_list *list = work->list;
    const struct md_pair_loops *loops = list->kernels->loops[list->precision];
    const struct md_interaction *interaction = &list->interaction;
    struct md_share *own = &work->part->shares[thread];
    const double shift6 = interaction->shift ? pow(interaction->cutoff_nm, -6) : 0;
    (void)count;
    if (work->renew)
        make_inner(list, work->part, own);
    struct md_pair_job job = {
        .rows = rows_until(work, thread),
        .xq = list->xq.data,
        .f = list->builders[thread].f.data,
        .type = list->type.data,
        .lj_count = list->lj_count.data,
        .shift = list->real_shift,
        .c6 = list->c6,
        .c12 = list->c12,
        .type_stride = list->type_stride,
        .cutoff2 = interaction->cutoff_nm * interaction->cutoff_nm,
        .coulomb = interaction->coulomb,
        .krf = interaction->krf,
        .crf = interaction->crf,
        .shift6 = shift6,
        .shift12 = shift6 * shift6,
        .shift_force = work->part->want_virial ? own->shift_force : NULL,
        .energy = own->energy,
    };
    if (work->part->want_energy)
        loops->forces_and_energy(&job);
    else
        loops->forces(&job);
    own->energy = job.energy;
}

static void scatter(void *user, int thread, int count)
{
    const struct evaluation *work = user;
    const struct md_list *list = work->list;
    const struct md_pair_loops *loops = list->kernels->loops[list->precision];
    struct md_part_list *part = work->part;
    const struct md_pair_move move = move_of(work, thread, count);
    for (int t = 1; t < count; t++)
        loops->add(&move, list->builders[t].f.data);
    loops->scatter(&move, work->f, part->want_virial ? part->shares[thread].virial : NULL);
}

// Reads coordinates and, as far as the share says, runs over pairs.
static void begin(struct evaluation *work, bool want_energy, bool want_virial)
{
    struct md_list *list = work->list;
    struct md_part_list *part = work->part;
    part->want_energy = want_energy;
    part->want_virial = want_virial;
    md_team_run(list->team, gather, work);
    work->renew =
        list->inner_calls > 0 && (part->inner_age < 0 || ++part->inner_age >= list->inner_calls);
    if (work->renew)
        part->inner_age = 0;
    if (work->renew || work->until > 0.0)
        md_team_run(list->team, run_rows, work);
    work->renew = false;
}

static void add_shifts(const struct md_list *list, const double (*shift_force)[3], double virial[9])
{
    for (int s = 0; s < MD_SHIFTS; s++)
        for (int d = 0; d < 9; d++)
            virial[d] -= 0.5 * list->shift[s][d / 3] * shift_force[s][d % 3];
}

static void sum_up(const struct md_list *list, const struct md_part_list *part,
                   struct md_pair_output *output)
{
    struct md_pair_energy energy = part->shares[0].energy;
    double virial[9];
    memcpy(virial, part->shares[0].virial, sizeof virial);
    for (int t = 1; t < list->thread_count; t++) {
        energy.lj += part->shares[t].energy.lj;
        energy.coulomb += part->shares[t].energy.coulomb;
        for (int d = 0; d < 9; d++)
            virial[d] += part->shares[t].virial[d];
    }
    if (part->want_energy)
        output->energy = energy;
    if (!part->want_virial)
        return;
    for (int t = 0; t < list->thread_count; t++)
        add_shifts(list, (const double(*)[3])part->shares[t].shift_force, virial);
    memcpy(output->virial, virial, sizeof virial);
}

// The pairs that are left; forces back.
static void end(struct evaluation *work, struct md_pair_output *output)
{
    if (work->until < 1.0) {
        work->until = 1.0;
        md_team_run(work->list->team, run_rows, work);
    }
    md_team_run(work->list->team, scatter, work);
    sum_up(work->list, work->part, output);
}

static struct evaluation evaluation_of(struct md_list *list, enum md_part part)
{
    return (struct evaluation){.list = list,
                               .part = &list->parts[part],
                               .part_index = part,
                               .cluster = list->parts[part].used.data,
                               .cluster_count = list->parts[part].used_count};
}

void md_list_forces(struct md_list *list, enum md_part part, const void *x, void *f,
                    bool want_energy, bool want_virial, struct md_pair_output *output)
{
    struct evaluation work = evaluation_of(list, part);
    work.x = x;
    work.f = f;
    begin(&work, want_energy, want_virial);
    end(&work, output);
}

static struct evaluation home_evaluation(struct md_list *list)
{
    struct evaluation work = evaluation_of(list, MD_LOCAL);
    work.cluster = list->home_used.data;
    work.cluster_count = list->home_used_count;
    return work;
}

void md_list_home_begin(struct md_list *list, const void *x, double share, bool want_energy,
                        bool want_virial)
{
    struct evaluation work = home_evaluation(list);
    work.x = x;
    work.until = share;
    begin(&work, want_energy, want_virial);
}

void md_list_ghosts(struct md_list *list, const void *x, void *f, struct md_pair_output *output)
{
    struct evaluation work = evaluation_of(list, MD_NONLOCAL);
    const int home = list->grids[0].cluster_count;
    work.x = x;
    work.f = f;
    while (work.cluster_count > 0 && *work.cluster < home) {
        work.cluster++;
        work.cluster_count--;
    }
    begin(&work, list->parts[MD_LOCAL].want_energy, list->parts[MD_LOCAL].want_virial);
    end(&work, output);
}

void md_list_home_end(struct md_list *list, void *f, struct md_pair_output *output)
{
    struct evaluation work = home_evaluation(list);
    work.f = f;
    end(&work, output);
}
