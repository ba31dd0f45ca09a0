// SPDX-License-Identifier: Apache-2.0
// A checkpoint, written by all ranks into one file.
//
// Algorithm: each rank packs its section; all are told all lengths, from which each knows its
// place; each writes its own, rank 0 the head as well, and makes sure that it is on the device.
// Only then the one before becomes FILE.prev and the new one FILE. Advantage: whenever the run is
// killed, one of the two is whole, and no rank holds more than its own part. Disadvantage: every
// rank syncs, and all wait for the slowest; between the two renames there is FILE.prev only.

#include "core/error.h"
#include "core/writable.h"
#include "leat/file.h"
#include "md/checkpoint.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// As it is told to all ranks.
struct told {
    uint64_t bytes, molecules, atoms, checksum;
};

bool md_checkpoint_due(const struct md_rank *rank)
{
    const struct md_settings *settings = &rank->system.settings;
    const struct md_files *files = &rank->files;
    int64_t step = rank->step, every = rank->options->checkpoint_every;
    int64_t before = files->checkpoint_step > 0 ? files->checkpoint_step : 0;
    if (!files->checkpoint || settings->steps < 1 || step == files->checkpoint_step)
        return false;
    return (every > 0 && step / every != before / every) ||
           step > settings->steps - settings->nstlist;
}

static int reserve(struct md_files *files, uint64_t bytes)
{
    if (bytes <= files->section_capacity)
        return 0;
    uint64_t capacity = bytes + bytes / 8;
    free(files->section);
    files->section = malloc(capacity);
    files->section_capacity = files->section ? capacity : 0;
    return files->section ? 0
                          : leat_fail(-ENOMEM, "no memory for %llu bytes of a checkpoint",
                                      (unsigned long long)capacity);
}

// A molecule's number is that of its first atom's.
static int64_t molecule_of(const struct md_rank *rank, uint32_t group)
{
    const struct md_molecule_type *type;
    int64_t molecule, first;
    int index;
    md_topology_locate(rank->system.topology, rank->domain.id[rank->domain.group_start[group]],
                       &type, &index, &molecule, &first);
    return molecule;
}

static int pack(struct md_rank *rank, struct told *told)
{
    const struct md_domain *domain = &rank->domain;
    uint64_t atoms = (uint64_t)domain->atoms.count, molecules = domain->group_count;
    struct md_records records = {0};
    int error = md_state_of_rank(rank, &records);
    uint64_t bytes = md_section_bytes(records.count, molecules, atoms);
    if (!error)
        error = reserve(&rank->files, bytes);
    if (!error) {
        unsigned char *at = md_put_section(&records, molecules, atoms, rank->files.section);
        for (uint32_t g = 0; g < molecules; g++)
            at = md_put_i64(at, molecule_of(rank, g));
        for (uint64_t i = 0; i < 3 * atoms; i++)
            at = md_put_f64(at, domain->atoms.x_nm[i]);
        for (uint64_t i = 0; i < 3 * atoms; i++)
            at = md_put_f64(at, domain->atoms.v_nm_ps[i]);
        *told = (struct told){bytes, molecules, atoms, md_checksum(rank->files.section, bytes)};
    }
    md_records_free(&records);
    return error;
}

// The head is the same on all ranks; its records are rank 0's to fill.
static int make_head(struct md_rank *rank, const struct told *told, struct md_checkpoint_head *head)
{
    *head =
        (struct md_checkpoint_head){.step = rank->step, .rank_count = (uint32_t)rank->rank_count};
    for (int d = 0; d < 3; d++)
        head->grid[d] = (uint32_t)rank->domain.decomposition.grid[d];
    head->share = calloc(head->rank_count, sizeof *head->share);
    if (!head->share)
        return leat_fail(-ENOMEM, "no memory for the shares of %d ranks", rank->rank_count);
    for (uint32_t r = 0; r < head->rank_count; r++)
        head->share[r] = (struct md_share){.bytes = told[r].bytes,
                                           .molecule_count = told[r].molecules,
                                           .atom_count = told[r].atoms,
                                           .checksum = (uint32_t)told[r].checksum};
    int error = md_state_of_job(rank, &head->records);
    if (!error)
        md_head_lay_out(head);
    return error;
}

static int write_all(leat_file *file, const char *path, void *from, uint64_t offset, uint64_t bytes)
{
    uint64_t done = 0;
    int error = leat_file_write(file, (leat_buffer){.address = from}, offset, bytes, &done);
    if (!error && done != bytes)
        error = leat_fail(-EIO, "%s: %llu of %llu bytes from byte %llu on were written", path,
                          (unsigned long long)done, (unsigned long long)bytes,
                          (unsigned long long)offset);
    return error;
}

static int write_head(leat_file *file, const char *path, const struct md_checkpoint_head *head)
{
    unsigned char *bytes = malloc(head->head_bytes);
    if (!bytes)
        return leat_fail(-ENOMEM, "no memory for %llu bytes of a checkpoint's head",
                         (unsigned long long)head->head_bytes);
    md_put_head(head, bytes);
    int error = write_all(file, path, bytes, 0, head->head_bytes);
    free(bytes);
    return error;
}

static int write_part(struct md_rank *rank, const char *path, leat_file *file,
                      const struct md_checkpoint_head *head)
{
    const struct md_share *own = &head->share[rank->rank];
    int error = write_all(file, path, rank->files.section, own->offset, own->bytes);
    if (!error && rank->rank == 0)
        error = write_head(file, path, head);
    return error ? error : leat_file_sync(file);
}

// Rank 0 makes the file, the others find it.
static int write_file(struct md_rank *rank, const char *path, const struct md_checkpoint_head *head)
{
    leat_file_options options = {.size = sizeof options, .flags = LEAT_FILE_WRITE};
    leat_file *file = NULL;
    int error = 0;
    if (rank->rank == 0) {
        options.flags |= LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE;
        error = leat_file_open(rank->job, path, &options, &file);
    }
    error = md_agree_on_files(rank, error);
    if (!error && rank->rank > 0)
        error = leat_file_open(rank->job, path, &options, &file);
    if (!error)
        error = write_part(rank, path, file, head);
    int closed = leat_file_close(file);
    return md_agree_on_files(rank, error ? error : closed);
}

static int move(const char *from, const char *to)
{
    return rename(from, to)
               ? leat_fail(-errno, "%s cannot be renamed to %s: %s", from, to, strerror(errno))
               : 0;
}

// A damaged one is not worth the place of the one before it.
static int put_in_place(struct md_rank *rank, const char *temporary, const char *previous)
{
    const char *path = rank->files.checkpoint;
    bool keep = rank->files.checkpoint_good || md_checkpoint_verify(rank, path) == 0;
    int error = keep ? move(path, previous) : 0;
    if (!error) {
        error = move(temporary, path);
        if (error && keep)
            (void)rename(previous, path);
    }
    if (error)
        return error;
    rank->files.checkpoint_good = true;
    return leat_sync_directory(path);
}

static char *with_suffix(const char *path, const char *suffix)
{
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s%s", path, suffix);
    return name;
}

static int replace(struct md_rank *rank, const struct md_checkpoint_head *head)
{
    char *temporary = with_suffix(rank->files.checkpoint, ".tmp");
    char *previous = with_suffix(rank->files.checkpoint, ".prev");
    int error = temporary && previous ? 0 : leat_fail(-ENOMEM, "no memory for a file's name");
    error = md_agree(rank, error);
    if (!error) {
        error = write_file(rank, temporary, head);
        if (!error)
            error = md_agree_on_files(
                rank, rank->rank == 0 ? put_in_place(rank, temporary, previous) : 0);
        if (error && rank->rank == 0)
            unlink(temporary);
    }
    free(temporary);
    free(previous);
    return error;
}

// What the state says of other files has to be there as well.
static int settle_files(struct md_rank *rank)
{
    int error = rank->gpu ? md_gpu_receive(rank) : 0;
    if (!error)
        error = md_trajectory_sync(rank);
    return error ? error : md_energies_sync(rank);
}

int md_checkpoint_write(struct md_rank *rank)
{
    struct md_checkpoint_head head = {0};
    struct told own = {0};
    const struct told *all = NULL;
    int error = settle_files(rank);
    if (!error)
        error = pack(rank, &own);
    error = md_agree_on_files(rank, error);
    if (!error)
        error = md_tell_each_other(rank, &own, sizeof own, (const void **)&all);
    if (!error)
        error = md_agree(rank, make_head(rank, all, &head));
    if (!error)
        error = replace(rank, &head);
    if (!error)
        rank->files.checkpoint_step = rank->step;
    md_head_free(&head);
    md_clock_lap(&rank->clock, PHASE_OTHER);
    return error;
}
