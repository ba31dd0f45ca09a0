// SPDX-License-Identifier: Apache-2.0
// Bytes of a checkpoint, written and read in memory.
//
// What is read is believed only after its checksum, and lengths only where they add up to the
// file's. Advantage: one place knows the layout, and it can be tested byte by byte without a run.
// Disadvantage: a section is in memory whole.

#include "md/checkpoint_format.h"

#include "core/error.h"
#include "format/crc32c.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char magic[16] = "leat checkpoint\n"; // without a zero

enum {
    AT_VERSION = 16,
    AT_CHECKSUM = 20,
    AT_HEAD_BYTES = 24,
    AT_FILE_BYTES = 32,
    AT_STEP = 40,
    AT_RANKS = 48,
    AT_GRID = 52,
    AT_RECORDS = 64
};

static uint32_t get_u32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const unsigned char *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

int64_t md_get_i64(const unsigned char *from)
{
    return (int64_t)get_u64(from);
}

double md_get_f64(const unsigned char *from)
{
    uint64_t word = get_u64(from);
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static unsigned char *put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (8 * i));
    return to + 4;
}

static unsigned char *put_u64(unsigned char *to, uint64_t value)
{
    return put_u32(put_u32(to, (uint32_t)value), (uint32_t)(value >> 32));
}

unsigned char *md_put_i64(unsigned char *to, int64_t value)
{
    return put_u64(to, (uint64_t)value);
}

unsigned char *md_put_f64(unsigned char *to, double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return put_u64(to, word);
}

uint32_t md_checksum(const void *bytes, uint64_t count)
{
    struct crc32c crc;
    crc32c_begin(&crc);
    crc32c_add(&crc, bytes, count);
    return crc32c_value(&crc);
}

// ---- Records ----

int md_records_add(struct md_records *records, const char *name, double value)
{
    if (records->count == records->capacity) {
        uint32_t capacity = 2 * records->capacity + 16;
        struct md_record *grown = realloc(records->record, capacity * sizeof *grown);
        if (!grown)
            return leat_fail(-ENOMEM, "no memory for %u records of a checkpoint", capacity);
        records->record = grown;
        records->capacity = capacity;
    }
    struct md_record *record = &records->record[records->count++];
    *record = (struct md_record){.value = value};
    strncpy(record->name, name, sizeof record->name - 1);
    return 0;
}

const struct md_record *md_records_find(const struct md_records *records, const char *name)
{
    for (uint32_t i = 0; i < records->count; i++)
        if (strcmp(records->record[i].name, name) == 0)
            return &records->record[i];
    return NULL;
}

void md_records_free(struct md_records *records)
{
    free(records->record);
    *records = (struct md_records){0};
}

static unsigned char *put_records(const struct md_records *records, unsigned char *to)
{
    for (uint32_t i = 0; i < records->count; i++) {
        memcpy(to, records->record[i].name, MD_RECORD_NAME_BYTES);
        to = md_put_f64(to + MD_RECORD_NAME_BYTES, records->record[i].value);
    }
    return to;
}

static int get_records(const unsigned char *from, uint32_t count, struct md_records *records)
{
    int error = 0;
    for (uint32_t i = 0; i < count && !error; i++, from += MD_RECORD_BYTES) {
        char name[MD_RECORD_NAME_BYTES];
        memcpy(name, from, sizeof name);
        name[sizeof name - 1] = 0;
        error = md_records_add(records, name, md_get_f64(from + MD_RECORD_NAME_BYTES));
    }
    return error;
}

// ---- Writing ----

uint64_t md_head_bytes(uint32_t records, uint32_t ranks)
{
    return MD_CHECKPOINT_BEGIN_BYTES + (uint64_t)records * MD_RECORD_BYTES +
           (uint64_t)ranks * MD_SHARE_BYTES;
}

uint64_t md_section_bytes(uint32_t records, uint64_t molecules, uint64_t atoms)
{
    return MD_SECTION_BEGIN_BYTES + (uint64_t)records * MD_RECORD_BYTES + 8 * molecules +
           48 * atoms;
}

void md_head_lay_out(struct md_checkpoint_head *head)
{
    uint64_t at = head->head_bytes = md_head_bytes(head->records.count, head->rank_count);
    for (uint32_t r = 0; r < head->rank_count; r++) {
        head->share[r].offset = at;
        at += head->share[r].bytes;
    }
    head->file_bytes = at;
}

void md_put_head(const struct md_checkpoint_head *head, unsigned char *to)
{
    memset(to, 0, MD_CHECKPOINT_BEGIN_BYTES);
    memcpy(to, magic, sizeof magic);
    put_u32(to + AT_VERSION, MD_CHECKPOINT_VERSION);
    put_u64(to + AT_HEAD_BYTES, head->head_bytes);
    put_u64(to + AT_FILE_BYTES, head->file_bytes);
    md_put_i64(to + AT_STEP, head->step);
    put_u32(to + AT_RANKS, head->rank_count);
    for (int d = 0; d < 3; d++)
        put_u32(to + AT_GRID + 4 * d, head->grid[d]);
    put_u32(to + AT_RECORDS, head->records.count);
    unsigned char *at = put_records(&head->records, to + MD_CHECKPOINT_BEGIN_BYTES);
    for (uint32_t r = 0; r < head->rank_count; r++) {
        const struct md_share *share = &head->share[r];
        at = put_u64(at, share->offset);
        at = put_u64(at, share->bytes);
        at = put_u64(at, share->molecule_count);
        at = put_u64(at, share->atom_count);
        at = put_u64(at, share->checksum);
    }
    put_u32(to + AT_CHECKSUM, md_checksum(to, head->head_bytes));
}

unsigned char *md_put_section(const struct md_records *records, uint64_t molecules, uint64_t atoms,
                              unsigned char *to)
{
    to = put_u64(to, molecules);
    to = put_u64(to, atoms);
    to = put_u64(to, records->count);
    return put_records(records, to);
}

// ---- Reading ----

static int fail_torn(const char *name, const char *what)
{
    return leat_fail(-EBADMSG, "%s is damaged: %s", name, what);
}

int md_get_head_bytes(const char *name, const unsigned char *from, uint64_t file_bytes,
                      uint64_t *head_bytes)
{
    if (file_bytes < MD_CHECKPOINT_BEGIN_BYTES)
        return leat_fail(-EBADMSG, "%s has %llu bytes, no more than the beginning of a checkpoint",
                         name, (unsigned long long)file_bytes);
    if (memcmp(from, magic, sizeof magic) != 0)
        return leat_fail(-EINVAL, "%s does not begin as a checkpoint does", name);
    if (get_u32(from + AT_VERSION) != MD_CHECKPOINT_VERSION)
        return leat_fail(-ENOTSUP, "%s is a checkpoint of version %u; this program knows %d", name,
                         get_u32(from + AT_VERSION), MD_CHECKPOINT_VERSION);
    uint64_t bytes = get_u64(from + AT_HEAD_BYTES);
    if (get_u64(from + AT_FILE_BYTES) != file_bytes)
        return leat_fail(-EBADMSG, "%s is damaged: it has %llu bytes, and says of itself %llu",
                         name, (unsigned long long)file_bytes,
                         (unsigned long long)get_u64(from + AT_FILE_BYTES));
    if (bytes != md_head_bytes(get_u32(from + AT_RECORDS), get_u32(from + AT_RANKS)) ||
        bytes > file_bytes)
        return fail_torn(name, "the length of its head is not what its counts make");
    *head_bytes = bytes;
    return 0;
}

static bool is_checked(const unsigned char *from, uint64_t bytes)
{
    static const unsigned char none[4] = {0};
    struct crc32c crc;
    crc32c_begin(&crc);
    crc32c_add(&crc, from, AT_CHECKSUM);
    crc32c_add(&crc, none, sizeof none);
    crc32c_add(&crc, from + AT_CHECKSUM + 4, bytes - AT_CHECKSUM - 4);
    return crc32c_value(&crc) == get_u32(from + AT_CHECKSUM);
}

static int get_shares(const char *name, const unsigned char *from, struct md_checkpoint_head *head)
{
    uint64_t at = head->head_bytes;
    for (uint32_t r = 0; r < head->rank_count; r++, from += MD_SHARE_BYTES) {
        struct md_share *share = &head->share[r];
        *share = (struct md_share){get_u64(from), get_u64(from + 8), get_u64(from + 16),
                                   get_u64(from + 24), get_u32(from + 32)};
        if (share->offset != at || share->bytes > head->file_bytes - at || get_u32(from + 36) != 0)
            return fail_torn(name, "its sections do not follow one another");
        at += share->bytes;
    }
    return at == head->file_bytes ? 0 : fail_torn(name, "its sections end before the file does");
}

int md_get_head(const char *name, const unsigned char *from, uint64_t bytes, uint64_t file_bytes,
                struct md_checkpoint_head *head)
{
    *head = (struct md_checkpoint_head){0};
    uint64_t head_bytes;
    int error = bytes < MD_CHECKPOINT_BEGIN_BYTES
                    ? fail_torn(name, "its head is cut off")
                    : md_get_head_bytes(name, from, file_bytes, &head_bytes);
    if (error)
        return error;
    if (head_bytes != bytes || !is_checked(from, bytes))
        return fail_torn(name, "the checksum of its head is wrong");
    head->head_bytes = head_bytes;
    head->file_bytes = file_bytes;
    head->step = md_get_i64(from + AT_STEP);
    head->rank_count = get_u32(from + AT_RANKS);
    for (int d = 0; d < 3; d++)
        head->grid[d] = get_u32(from + AT_GRID + 4 * d);
    uint32_t records = get_u32(from + AT_RECORDS);
    if (head->step < 0 || head->rank_count < 1)
        error = fail_torn(name, "its step or its number of ranks is impossible");
    if (!error)
        error = get_records(from + MD_CHECKPOINT_BEGIN_BYTES, records, &head->records);
    head->share = error ? NULL : calloc(head->rank_count, sizeof *head->share);
    if (!error && !head->share)
        error = leat_fail(-ENOMEM, "no memory for the shares of %u ranks", head->rank_count);
    if (!error)
        error = get_shares(
            name, from + MD_CHECKPOINT_BEGIN_BYTES + (uint64_t)records * MD_RECORD_BYTES, head);
    if (error)
        md_head_free(head);
    return error;
}

void md_head_free(struct md_checkpoint_head *head)
{
    md_records_free(&head->records);
    free(head->share);
    *head = (struct md_checkpoint_head){0};
}

int md_get_section(const char *name, const struct md_checkpoint_head *head, uint32_t number,
                   const unsigned char *from, struct md_section *section)
{
    const struct md_share *share = &head->share[number];
    *section = (struct md_section){0};
    if (md_checksum(from, share->bytes) != share->checksum)
        return leat_fail(-EBADMSG, "%s is damaged: the checksum of the section of rank %u is wrong",
                         name, number);
    bool begins = share->bytes >= MD_SECTION_BEGIN_BYTES;
    uint64_t molecules = begins ? get_u64(from) : 0, atoms = begins ? get_u64(from + 8) : 0;
    uint64_t records = begins ? get_u64(from + 16) : 0;
    // No count can be so large that their sum wraps.
    if (!begins || molecules > share->bytes || atoms > share->bytes || records > UINT32_MAX ||
        molecules != share->molecule_count || atoms != share->atom_count ||
        md_section_bytes((uint32_t)records, molecules, atoms) != share->bytes)
        return leat_fail(-EBADMSG,
                         "%s is damaged: the section of rank %u is not as long as its "
                         "counts make it",
                         name, number);
    section->molecule_count = molecules;
    section->atom_count = atoms;
    section->molecules = from + MD_SECTION_BEGIN_BYTES + records * MD_RECORD_BYTES;
    section->x = section->molecules + 8 * molecules;
    section->v = section->x + 24 * atoms;
    int error = get_records(from + MD_SECTION_BEGIN_BYTES, (uint32_t)records, &section->records);
    if (error)
        md_records_free(&section->records);
    return error;
}
