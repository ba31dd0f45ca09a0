// SPDX-License-Identifier: Apache-2.0
// A run from a checkpoint.
//
// Algorithm: each rank reads the head and its part: its own section where there are as many ranks
// as then, else a range of molecules in the order in which the sections have them. All agree on
// whether the file is whole before any of it is used; if not, all turn to the one before.
// Advantage: no rank reads more than the sections it takes from, and none goes on from another file
// than the rest. Disadvantage: on other numbers of ranks a section is read by each that takes from
// it.

#include "core/error.h"
#include "core/log.h"
#include "leat/file.h"
#include "md/checkpoint.h"
#include "md/md.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Sections that a rank takes from, with their bytes.
struct source {
    const char *path;
    leat_file *file;
    struct md_checkpoint_head head;
    uint64_t begin, end; // molecules, as the sections have them one after the other
    uint32_t first, count;
    unsigned char **bytes;
    struct md_section *section;
};

static void drop(struct source *source)
{
    for (uint32_t s = 0; s < source->count; s++) {
        md_records_free(&source->section[s].records);
        free(source->bytes[s]);
    }
    free(source->bytes);
    free(source->section);
    md_head_free(&source->head);
    leat_file_close(source->file);
    *source = (struct source){.path = source->path};
}

static int read_bytes(const struct source *source, uint64_t offset, uint64_t bytes,
                      unsigned char **to)
{
    uint64_t done = 0;
    *to = malloc(bytes + 1);
    int error =
        *to ? leat_file_read(source->file, (leat_buffer){.address = *to}, offset, bytes, &done)
            : leat_fail(-ENOMEM, "no memory for %llu bytes of %s", (unsigned long long)bytes,
                        source->path);
    if (!error && done < bytes)
        error = leat_fail(-EBADMSG, "%s is damaged: it ends at byte %llu", source->path,
                          (unsigned long long)(offset + done));
    return error;
}

static int read_head(struct source *source, uint64_t file_bytes)
{
    unsigned char *bytes = NULL;
    uint64_t head_bytes = 0;
    uint64_t begin =
        file_bytes < MD_CHECKPOINT_BEGIN_BYTES ? file_bytes : MD_CHECKPOINT_BEGIN_BYTES;
    int error = read_bytes(source, 0, begin, &bytes);
    if (!error)
        error = md_get_head_bytes(source->path, bytes, file_bytes, &head_bytes);
    free(bytes);
    bytes = NULL;
    if (!error)
        error = read_bytes(source, 0, head_bytes, &bytes);
    if (!error)
        error = md_get_head(source->path, bytes, head_bytes, file_bytes, &source->head);
    free(bytes);
    return error;
}

static int open_source(struct md_rank *rank, struct source *source)
{
    leat_file_info info = {.size = sizeof info};
    int error = leat_file_open(rank->job, source->path, NULL, &source->file);
    if (!error)
        error = leat_file_info_get(source->file, NULL, &info);
    return error ? error : read_head(source, info.bytes);
}

static int read_sections(struct source *source)
{
    source->bytes = calloc(source->count, sizeof *source->bytes);
    source->section = calloc(source->count, sizeof *source->section);
    if (!source->bytes || !source->section) {
        source->count = 0;
        return leat_fail(-ENOMEM, "no memory for the sections of %s", source->path);
    }
    int error = 0;
    for (uint32_t s = 0; s < source->count && !error; s++) {
        const struct md_share *share = &source->head.share[source->first + s];
        error = read_bytes(source, share->offset, share->bytes, &source->bytes[s]);
        if (!error)
            error = md_get_section(source->path, &source->head, source->first + s, source->bytes[s],
                                   &source->section[s]);
    }
    return error;
}

// begin, end, and the sections between them.
static void choose(const struct md_rank *rank, struct source *source)
{
    const struct md_checkpoint_head *head = &source->head;
    uint64_t total = 0, before = 0;
    for (uint32_t r = 0; r < head->rank_count; r++)
        total += head->share[r].molecule_count;
    uint64_t ranks = (uint64_t)rank->rank_count, own = (uint64_t)rank->rank;
    source->begin = total * own / ranks;
    source->end = total * (own + 1) / ranks;
    bool alike = head->rank_count == ranks;
    for (uint32_t r = 0; r < head->rank_count; r++) {
        uint64_t after = before + head->share[r].molecule_count;
        if (alike ? r == own : before < source->end && after > source->begin) {
            source->first = source->count ? source->first : r;
            source->count = r - source->first + 1;
        }
        if (alike && r == own) {
            source->begin = before;
            source->end = after;
        }
        before = after;
    }
}

static int load(struct md_rank *rank, struct source *source)
{
    int error = open_source(rank, source);
    if (error)
        return error;
    choose(rank, source);
    return read_sections(source);
}

static int take_molecule(struct md_rank *rank, const struct source *source,
                         const struct md_section *section, uint64_t m, uint64_t *atom, bool wanted)
{
    const struct md_topology *topology = rank->system.topology;
    int64_t molecule = md_get_i64(section->molecules + 8 * m);
    if (molecule < 0 || molecule >= topology->molecule_count)
        return leat_fail(-EBADMSG, "%s has a molecule of number %lld; there are %lld", source->path,
                         (long long)molecule + 1, (long long)topology->molecule_count);
    const struct md_molecule_block *block = &topology->blocks[md_find_block(topology, molecule)];
    uint64_t atoms = (uint64_t)topology->molecule_types[block->type].atom_count, from = *atom;
    if (atoms > section->atom_count - from)
        return leat_fail(-EBADMSG, "%s has fewer atoms than its molecules", source->path);
    *atom += atoms;
    if (!wanted)
        return 0;
    size_t to = 3 * (size_t)rank->domain.atoms.count;
    int error = md_domain_add(rank, molecule);
    for (uint64_t i = 0; i < 3 * atoms && !error; i++) {
        rank->domain.atoms.x_nm[to + i] = md_get_f64(section->x + 8 * (3 * from + i));
        rank->domain.atoms.v_nm_ps[to + i] = md_get_f64(section->v + 8 * (3 * from + i));
    }
    return error;
}

static int take_molecules(struct md_rank *rank, const struct source *source)
{
    uint64_t number = 0;
    int error = 0;
    for (uint32_t r = 0; r < source->first; r++)
        number += source->head.share[r].molecule_count;
    for (uint32_t s = 0; s < source->count; s++) {
        const struct md_section *section = &source->section[s];
        uint64_t atom = 0;
        for (uint64_t m = 0; m < section->molecule_count && !error; m++, number++)
            error = take_molecule(rank, source, section, m, &atom,
                                  number >= source->begin && number < source->end);
    }
    return error;
}

static int check(const struct md_rank *rank, const struct source *source)
{
    const struct md_settings *settings = &rank->system.settings;
    int error = md_state_check(rank, source->path, &source->head.records);
    if (error)
        return error;
    uint64_t molecules = 0;
    for (uint32_t r = 0; r < source->head.rank_count; r++)
        molecules += source->head.share[r].molecule_count;
    if (molecules != (uint64_t)rank->system.topology->molecule_count ||
        (source->head.step % settings->nstlist != 0 && !(rank->system.skin_nm > 0.0)))
        return leat_fail(-EBADMSG, "%s has %llu molecules and step %lld, which cannot be",
                         source->path, (unsigned long long)molecules, (long long)source->head.step);
    if (source->head.step > settings->steps)
        return leat_fail(-EINVAL,
                         "%s is at step %lld, beyond the last step of this run, %lld; raise nsteps "
                         "or --steps, which count from the run's beginning",
                         source->path, (long long)source->head.step, (long long)settings->steps);
    return 0;
}

// On as many ranks.
static int go_on_alike(struct md_rank *rank, const struct source *source)
{
    uint64_t domains = 1;
    for (int d = 0; d < 3; d++) {
        domains *= source->head.grid[d];
        rank->files.grid[d] = (int)source->head.grid[d];
    }
    if (domains != (uint64_t)rank->rank_count)
        return leat_fail(-EBADMSG, "%s has %llu domains on %d ranks, which cannot be", source->path,
                         (unsigned long long)domains, rank->rank_count);
    return md_state_set_rank(rank, source->path, &source->section[0].records);
}

static int apply(struct md_rank *rank, const struct source *source)
{
    int error = md_state_set_job(rank, source->path, &source->head.records);
    if (!error)
        error = take_molecules(rank, source);
    if (!error && source->head.rank_count == (uint32_t)rank->rank_count)
        error = go_on_alike(rank, source);
    else if (!error)
        rank->files.other_ranks = true;
    rank->step = source->head.step;
    return error;
}

static bool is_same_file(const struct md_rank *rank, const char *path)
{
    struct stat one, other;
    return rank->files.checkpoint && !stat(path, &one) && !stat(rank->files.checkpoint, &other) &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Reads --restart, or else the one before it; which, all agree on.
static int load_one(struct md_rank *rank, struct source *source, char *previous)
{
    const char *path = source->path;
    int error = md_agree_on_files(rank, load(rank, source));
    if (!error) {
        rank->files.checkpoint_good = is_same_file(rank, path);
        return 0;
    }
    // Nobody has lost its peers: an error of these comes back here too.
    if (rank->together.error)
        return error;
    char why[LEAT_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", leat_error_detail());
    drop(source);
    source->path = previous;
    error = md_agree_on_files(rank, load(rank, source));
    if (error && !rank->together.error)
        return leat_fail(error, "neither %s nor %s can be used: %.400s; %.400s", path, previous,
                         why, leat_error_detail());
    if (!error && rank->rank == 0)
        leat_log(LOG_WARN, LOG_WARN, -1, "going on from %s at step %lld, since %.800s", previous,
                 (long long)source->head.step, why);
    return error;
}

int md_checkpoint_read(struct md_rank *rank)
{
    struct source source = {.path = rank->options->restart};
    size_t bytes = strlen(source.path) + sizeof ".prev";
    char *previous = malloc(bytes);
    int error = previous ? 0 : leat_fail(-ENOMEM, "no memory for a file's name");
    error = md_agree(rank, error);
    if (!error) {
        snprintf(previous, bytes, "%s.prev", source.path);
        error = load_one(rank, &source, previous);
    }
    if (!error)
        error = md_agree(rank, check(rank, &source));
    if (!error)
        error = md_agree(rank, apply(rank, &source));
    // It is there already, unless it is to have another name or was the one before.
    if (!error && rank->files.checkpoint_good)
        rank->files.checkpoint_step = rank->step;
    drop(&source);
    free(previous);
    return error;
}

int md_checkpoint_verify(struct md_rank *rank, const char *path)
{
    struct source source = {.path = path};
    int error = open_source(rank, &source);
    for (uint32_t r = 0; !error && r < source.head.rank_count; r++) {
        const struct md_share *share = &source.head.share[r];
        struct md_section section = {0};
        unsigned char *bytes = NULL;
        error = read_bytes(&source, share->offset, share->bytes, &bytes);
        if (!error)
            error = md_get_section(path, &source.head, r, bytes, &section);
        md_records_free(&section.records);
        free(bytes);
    }
    drop(&source);
    return error;
}
