// SPDX-License-Identifier: Apache-2.0
// Migration: whole groups move to the rank whose domain their centre is in.
//
// Algorithm: each rank wraps its groups and finds their owners; sums over all ranks say at which
// distances in rank number anything moves at all. For each such distance every rank swaps one
// letter, to the rank so far above and from the one so far below, holding sizes and all fields of
// the groups that go there. What stayed and what came is put together beside the old state and
// replaces it only once every rank has agreed. Advantage: a group may go anywhere, nothing is lost
// when a rank fails, and the order of groups depends on ranks alone. Disadvantage: a swap is taken
// part in by all ranks even when two have something to say, and the state exists twice for a
// moment.

#include "halo/letter.h"
#include "halo/migrate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A letter: this, then group_count sizes (32 bits each), then field by field the groups' entries.
struct migration_letter {
    uint64_t magic;
    int32_t failed; // the sender has an error and takes part for the others' sake
    int32_t field_count;
    uint32_t group_count, element_count;
    uint64_t layout; // of the fields, see layout_code
};

#define MIGRATION_MAGIC 0x6574617267696d6cULL

// Groups from one rank, as they came.
struct arrival {
    unsigned char *letter; // NULL: nothing
    struct migration_letter head;
};

static void list_by_owner(struct moving *m)
{
    int ranks = m->domains.rank_count;
    memset(m->first, 0, ((size_t)ranks + 1) * sizeof *m->first);
    for (uint32_t g = 0; g < m->group_count; g++)
        m->first[m->owner[g] + 1]++;
    for (int r = 0; r < ranks; r++)
        m->first[r + 1] += m->first[r];
    for (uint32_t g = 0; g < m->group_count; g++)
        m->list[m->first[m->owner[g]]++] = g;
    // Filling moved each owner's beginning to its end, which is the next one's beginning.
    for (int r = ranks; r > 0; r--)
        m->first[r] = m->first[r - 1];
    m->first[0] = 0;
}

// ---- Letters ----

static const void *field_data(const struct moving *m, int f)
{
    return f == m->migration->x_field ? m->wrapped_nm : m->migration->fields[f].data;
}

static uint64_t field_bytes(const struct moving *m, int f, uint32_t groups, uint32_t elements)
{
    const leat_migrating *field = &m->migration->fields[f];
    return (uint64_t)field->element_bytes * (field->of_groups ? groups : elements);
}

// Bytes of sizes and all fields for so many groups.
static uint64_t content_bytes(const struct moving *m, uint32_t groups, uint32_t elements)
{
    uint64_t bytes = (uint64_t)groups * sizeof(uint32_t);
    for (int f = 0; f < m->migration->field_count; f++)
        bytes += field_bytes(m, f, groups, elements);
    return bytes;
}

// Tells fields that differ in size or kind, with all but certainty: letters of other fields would
// be read as what they are not.
static uint64_t layout_code(const leat_migration *migration)
{
    uint64_t code = (uint64_t)migration->x_field;
    for (int f = 0; f < migration->field_count; f++)
        code = code * 1000003 + 2 * (uint64_t)migration->fields[f].element_bytes +
               (migration->fields[f].of_groups != 0);
    return code;
}

static uint32_t count_elements(const struct moving *m, int owner)
{
    uint32_t elements = 0;
    for (uint32_t i = m->first[owner]; i < m->first[owner + 1]; i++)
        elements += m->start[m->list[i] + 1] - m->start[m->list[i]];
    return elements;
}

static unsigned char *put_sizes(const struct moving *m, int owner, unsigned char *to)
{
    for (uint32_t i = m->first[owner]; i < m->first[owner + 1]; i++) {
        uint32_t size = m->start[m->list[i] + 1] - m->start[m->list[i]];
        memcpy(to, &size, sizeof size);
        to += sizeof size;
    }
    return to;
}

static unsigned char *put_field(const struct moving *m, int f, int owner, unsigned char *to)
{
    const leat_migrating *field = &m->migration->fields[f];
    const unsigned char *data = field_data(m, f);
    size_t each = field->element_bytes;
    for (uint32_t i = m->first[owner]; i < m->first[owner + 1]; i++) {
        uint32_t g = m->list[i];
        size_t first = field->of_groups ? g : m->start[g];
        size_t count = field->of_groups ? 1 : m->start[g + 1] - m->start[g];
        memcpy(to, data + first * each, count * each);
        to += count * each;
    }
    return to;
}

static int write_letter(struct moving *m, int to, uint64_t *bytes)
{
    struct migration_letter head = {.magic = MIGRATION_MAGIC,
                                    .field_count = m->migration->field_count,
                                    .group_count = m->first[to + 1] - m->first[to],
                                    .element_count = count_elements(m, to),
                                    .layout = layout_code(m->migration)};
    *bytes = sizeof head + content_bytes(m, head.group_count, head.element_count);
    free(m->letter);
    m->letter = malloc(*bytes);
    if (!m->letter)
        return leat_fail(-ENOMEM, "no memory for %u groups that move to rank %d (%llu bytes)",
                         head.group_count, to, (unsigned long long)*bytes);
    memcpy(m->letter, &head, sizeof head);
    unsigned char *end = put_sizes(m, to, m->letter + sizeof head);
    for (int f = 0; f < m->migration->field_count; f++)
        end = put_field(m, f, to, end);
    return 0;
}

static int check_sizes(const struct migration_letter *head, const unsigned char *sizes, int from)
{
    uint64_t sum = 0;
    for (uint32_t g = 0; g < head->group_count; g++) {
        uint32_t size;
        memcpy(&size, sizes + (size_t)g * sizeof size, sizeof size);
        sum += size;
        if (size == 0)
            return leat_fail(-EPROTO, "migration: group %u from rank %d has no elements", g, from);
    }
    if (sum != head->element_count)
        return leat_fail(
            -EPROTO,
            "migration: groups from rank %d have %llu elements, expected the %u of the "
            "letter's head",
            from, (unsigned long long)sum, head->element_count);
    return 0;
}

static int read_letter(struct moving *m, int from, const void *data, uint64_t bytes)
{
    struct migration_letter head = {.magic = 0};
    if (bytes >= sizeof head)
        memcpy(&head, data, sizeof head);
    if (head.magic == MIGRATION_MAGIC && head.failed)
        return 0;
    if (head.magic == MIGRATION_MAGIC && head.layout != layout_code(m->migration))
        return leat_fail(-EPROTO,
                         "migration: rank %d sends %d fields of other sizes or kinds than the %d "
                         "fields here; pass the same fields in the same order on every rank",
                         from, head.field_count, m->migration->field_count);
    if (head.magic != MIGRATION_MAGIC ||
        bytes != sizeof head + content_bytes(m, head.group_count, head.element_count))
        return leat_fail(-EPROTO,
                         "migration: expected rank %d's groups, got a letter of %llu bytes with %u "
                         "groups and %u elements; do all ranks migrate at the same time?",
                         from, (unsigned long long)bytes, head.group_count, head.element_count);
    if (head.group_count == 0)
        return 0;
    int error = check_sizes(&head, (const unsigned char *)data + sizeof head, from);
    if (error)
        return error;
    // It lies in the letters' own memory, until the next one comes.
    unsigned char *kept = malloc(bytes);
    if (!kept)
        return leat_fail(-ENOMEM, "no memory for %u groups from rank %d (%llu bytes)",
                         head.group_count, from, (unsigned long long)bytes);
    memcpy(kept, data, bytes);
    m->from[from] = (struct arrival){.letter = kept, .head = head};
    return 0;
}

// Sums for 64 distances at a time, as many words as a reduction holds.
static int sum_distances(struct moving *m)
{
    int ranks = m->domains.rank_count;
    for (int k = 0; k < ranks; k++) {
        int to = (m->domains.rank + k) % ranks;
        m->distance[k] = m->first[to + 1] - m->first[to];
    }
    for (int k = 1; k < ranks; k += LEAT_REDUCE_WORDS) {
        int count = ranks - k < LEAT_REDUCE_WORDS ? ranks - k : LEAT_REDUCE_WORDS;
        int error = leat_reduce(m->job, REDUCE_SUM, m->distance + k, count);
        if (error)
            return error;
    }
    return 0;
}

// *error is this rank's own failure; what is returned makes going on pointless.
static int swap_letters(struct moving *m, int k, int *error)
{
    int ranks = m->domains.rank_count;
    int to = (m->domains.rank + k) % ranks, from = (m->domains.rank + ranks - k) % ranks;
    struct migration_letter failed = {.magic = MIGRATION_MAGIC, .failed = 1};
    uint64_t bytes = sizeof failed, received;
    const void *data;
    if (!*error)
        *error = write_letter(m, to, &bytes);
    if (*error)
        bytes = sizeof failed;
    int lost = leat_letter_swap(m->job, to, *error ? (const void *)&failed : m->letter, bytes, from,
                                &data, &received);
    if (lost)
        leat_fail_in(lost, "migration to rank %d and from rank %d", to, from);
    if (leat_letter_is_lost(lost))
        return lost;
    if (!*error)
        *error = lost;
    if (!*error)
        *error = read_letter(m, from, data, received);
    return 0;
}

// ---- The new state ----

// Where field f, or with f < 0 the sizes, begin in a letter or in the new state.
static size_t part_offset(const struct moving *m, int f, uint32_t groups, uint32_t elements)
{
    uint64_t offset = f < 0 ? 0 : (uint64_t)groups * sizeof(uint32_t);
    for (int before = 0; before < f; before++)
        offset += field_bytes(m, before, groups, elements);
    return offset;
}

static unsigned char *append_arrivals(const struct moving *m, int f, unsigned char *to)
{
    for (int r = 0; r < m->domains.rank_count; r++) {
        const struct arrival *a = &m->from[r];
        if (!a->letter)
            continue;
        uint32_t groups = a->head.group_count, elements = a->head.element_count;
        size_t bytes =
            f < 0 ? (size_t)groups * sizeof(uint32_t) : (size_t)field_bytes(m, f, groups, elements);
        memcpy(to, a->letter + sizeof a->head + part_offset(m, f, groups, elements), bytes);
        to += bytes;
    }
    return to;
}

static int build_after(struct moving *m)
{
    int own = m->domains.rank;
    uint64_t groups = m->first[own + 1] - m->first[own], elements = count_elements(m, own);
    for (int r = 0; r < m->domains.rank_count; r++) {
        groups += m->from[r].head.group_count;
        elements += m->from[r].head.element_count;
    }
    if (elements > UINT32_MAX)
        return leat_fail(-EOVERFLOW,
                         "%llu elements would be on rank %d, but they are counted in 32 bits; use "
                         "more ranks",
                         (unsigned long long)elements, own);
    m->new_groups = (uint32_t)groups;
    m->new_elements = (uint32_t)elements;
    uint64_t bytes = content_bytes(m, m->new_groups, m->new_elements);
    m->after = malloc(bytes + 1);
    if (!m->after)
        return leat_fail(-ENOMEM, "no memory for %u groups after migration (%llu bytes)",
                         m->new_groups, (unsigned long long)bytes);
    unsigned char *end = append_arrivals(m, -1, put_sizes(m, own, m->after));
    for (int f = 0; f < m->migration->field_count; f++)
        end = append_arrivals(m, f, put_field(m, f, own, end));
    return 0;
}

static int make_room(struct moving *m)
{
    leat_migration *migration = m->migration;
    int error = migration->resize(migration->user, migration, m->new_groups, m->new_elements);
    if (error)
        return leat_fail(error < 0 ? error : -EINVAL,
                         "migration: the caller's resize to %u groups and %u elements returned %d",
                         m->new_groups, m->new_elements, error);
    if (!migration->groups->start)
        return leat_fail(-EINVAL,
                         "migration: resize left groups->start NULL, expected room for "
                         "%u starts",
                         m->new_groups + 1);
    for (int f = 0; f < migration->field_count; f++)
        if (!migration->fields[f].data && field_bytes(m, f, m->new_groups, m->new_elements))
            return leat_fail(-EINVAL,
                             "migration: resize left the data of field %d NULL, expected room for "
                             "%u groups and %u elements",
                             f, m->new_groups, m->new_elements);
    return 0;
}

static void store_after(struct moving *m)
{
    const unsigned char *from = m->after;
    // The caller made this array for us to fill; only readers see it as constant.
    uint32_t *start = (uint32_t *)m->migration->groups->start;
    uint32_t sum = 0;
    for (uint32_t g = 0; g < m->new_groups; g++) {
        uint32_t size;
        memcpy(&size, from + (size_t)g * sizeof size, sizeof size);
        start[g] = sum;
        sum += size;
    }
    start[m->new_groups] = sum;
    m->migration->groups->group_count = m->new_groups;
    from += (size_t)m->new_groups * sizeof(uint32_t);
    for (int f = 0; f < m->migration->field_count; f++) {
        size_t bytes = (size_t)field_bytes(m, f, m->new_groups, m->new_elements);
        if (bytes)
            memcpy(m->migration->fields[f].data, from, bytes);
        from += bytes;
    }
}

// ---- The whole ----

static int check_fields(const leat_migration *migration, uint32_t groups, uint32_t elements)
{
    if (migration->field_count < 1 || !migration->fields)
        return leat_fail(-EINVAL, "migration: %d fields at %s, expected at least the positions",
                         migration->field_count, migration->fields ? "an address" : "NULL");
    if (migration->x_field < 0 || migration->x_field >= migration->field_count)
        return leat_fail(-EINVAL, "migration: x_field is %d of %d fields", migration->x_field,
                         migration->field_count);
    for (int f = 0; f < migration->field_count; f++) {
        const leat_migrating *field = &migration->fields[f];
        if (field->element_bytes == 0 || field->element_bytes % 4)
            return leat_fail(
                -EINVAL, "migration: field %d has %u bytes an element, expected a multiple of 4", f,
                field->element_bytes);
        if (!field->data && (field->of_groups ? groups : elements))
            return leat_fail(-EINVAL, "migration: the data of field %d are NULL", f);
    }
    const leat_migrating *x = &migration->fields[migration->x_field];
    if (x->of_groups || x->element_bytes != 3 * sizeof(double))
        return leat_fail(-EINVAL,
                         "migration: positions (field %d) have %u bytes %s, expected 3 doubles an "
                         "element",
                         migration->x_field, x->element_bytes,
                         x->of_groups ? "a group" : "an element");
    return 0;
}

static int check_migration(const leat_migration *migration)
{
    if (!migration)
        return leat_fail(-EINVAL, "the migration is NULL");
    if (migration->size < sizeof *migration)
        return leat_fail(
            -EINVAL,
            "migration->size is %zu, expected sizeof(leat_migration), which is %zu; set "
            "it before the call",
            migration->size, sizeof *migration);
    if (!migration->resize)
        return leat_fail(-EINVAL, "migration: resize is NULL, expected a function that makes room");
    if (!(migration->travel_limit_nm >= 0))
        return leat_fail(-EINVAL, "migration: travel_limit_nm is %g, expected 0 or more",
                         migration->travel_limit_nm);
    int error = leat_groups_check(migration->groups);
    if (error)
        return error;
    return check_fields(migration, migration->groups->group_count,
                        leat_groups_elements(migration->groups));
}

static int allocate(struct moving *m)
{
    size_t ranks = (size_t)m->domains.rank_count, groups = m->group_count;
    m->wrapped_nm = calloc((size_t)m->element_count + 1, 3 * sizeof *m->wrapped_nm);
    m->owner = calloc(groups + 1, sizeof *m->owner);
    m->list = calloc(groups + 1, sizeof *m->list);
    m->first = calloc(ranks + 1, sizeof *m->first);
    m->from = calloc(ranks, sizeof *m->from);
    m->distance = calloc(ranks, sizeof *m->distance);
    if (!m->wrapped_nm || !m->owner || !m->list || !m->first || !m->from || !m->distance)
        return leat_fail(-ENOMEM, "no memory to migrate %u groups of %u elements", m->group_count,
                         m->element_count);
    return 0;
}

static void release(struct moving *m)
{
    for (int r = 0; m->from && r < m->domains.rank_count; r++)
        free(m->from[r].letter);
    free(m->from);
    free(m->wrapped_nm);
    free(m->owner);
    free(m->list);
    free(m->first);
    free(m->distance);
    free(m->letter);
    free(m->after);
}

static int prepare(struct moving *m, const leat_decomposition *decomposition)
{
    int error = leat_domains_fill(decomposition, m->job->rank, m->job->rank_count, &m->domains);
    if (!error)
        error = check_migration(m->migration);
    if (error)
        return error;
    m->group_count = m->migration->groups->group_count;
    m->element_count = leat_groups_elements(m->migration->groups);
    m->start = m->migration->groups->start;
    error = allocate(m);
    if (!error)
        error = leat_letters_open(m->job);
    if (error)
        return error;
    if (m->element_count)
        memcpy(m->wrapped_nm, m->migration->fields[m->migration->x_field].data,
               (size_t)m->element_count * 3 * sizeof(double));
    error = migration_find_owners(m);
    if (!error)
        list_by_owner(m);
    return error;
}

int leat_halo_migrate(leat_job *job, const leat_decomposition *decomposition,
                      leat_migration *migration)
{
    if (!job)
        return leat_fail(-EINVAL, "leat_halo_migrate: job is NULL");
    struct moving m = {.job = job, .migration = migration};
    int own = prepare(&m, decomposition);
    int error = leat_agree(job, own);
    double nothing = 0;
    if (!error)
        error = leat_domains_agree(job, &m.domains, &nothing);
    if (!error)
        error = sum_distances(&m);
    for (int k = 1; !error && k < job->rank_count; k++)
        if (m.distance[k] > 0)
            error = swap_letters(&m, k, &own);
    if (!error && !own)
        own = build_after(&m);
    if (!error && !own)
        own = make_room(&m);
    if (!error)
        error = leat_agree(job, own);
    if (!error)
        store_after(&m);
    release(&m);
    return error;
}
