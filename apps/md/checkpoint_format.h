/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a checkpoint: a head, and a section a rank, one behind the other without a gap.
 *
 *     head      magic, version, checksum, lengths, step, ranks, grid; records; shares
 *     section   counts; records; the rank's molecules in its order; positions; velocities
 *
 * Numbers are little-endian, whatever wrote them: integers of 32 and 64 bits and doubles. A record
 * is a name and a double, so a program can have more of them than another without the layout being
 * another. A share says where a section is and its CRC-32C; the head has its own. There is no byte
 * that no checksum covers.
 */
#ifndef MD_CHECKPOINT_FORMAT_H
#define MD_CHECKPOINT_FORMAT_H

#include <stdint.h>

#define MD_RECORD_NAME_BYTES 40

enum {
    MD_CHECKPOINT_VERSION = 1,
    MD_CHECKPOINT_BEGIN_BYTES = 72, /* of the head, which say how long it is */
    MD_RECORD_BYTES = MD_RECORD_NAME_BYTES + 8,
    MD_SHARE_BYTES = 40,
    MD_SECTION_BEGIN_BYTES = 24
};

struct md_record {
    char name[MD_RECORD_NAME_BYTES]; /* ends with a zero */
    double value;
};

/* Begun by {0}. */
struct md_records {
    struct md_record *record;
    uint32_t count, capacity;
};

/* A rank's part, and where it is. */
struct md_share {
    uint64_t offset, bytes, molecule_count, atom_count;
    uint32_t checksum;
};

struct md_checkpoint_head {
    uint64_t head_bytes, file_bytes;
    int64_t step; /* that is made next */
    uint32_t rank_count, grid[3];
    struct md_records records;
    struct md_share *share; /* [rank_count] */
};

struct md_section {
    uint64_t molecule_count, atom_count;
    struct md_records records;
    /* Where arrays begin; numbers in them are for md_get_i64 and md_get_f64. */
    const unsigned char *molecules, *x, *v; /* [molecule_count], [3 * atom_count] twice */
};

/* ---- Records ---- */
/* -ENOMEM. A name that is too long is cut. */
int md_records_add(struct md_records *records, const char *name, double value);
/* NULL: there is none. */
const struct md_record *md_records_find(const struct md_records *records, const char *name);
void md_records_free(struct md_records *records);

/* ---- Writing ---- */
uint64_t md_head_bytes(uint32_t records, uint32_t ranks);
uint64_t md_section_bytes(uint32_t records, uint64_t molecules, uint64_t atoms);
/* Sets head_bytes, file_bytes and the shares' offsets from the counts and the shares' bytes. */
void md_head_lay_out(struct md_checkpoint_head *head);
void md_put_head(const struct md_checkpoint_head *head, unsigned char *to);
/* The section but for its arrays, and where these belong; x and v follow in 3 * atoms doubles. */
unsigned char *md_put_section(const struct md_records *records, uint64_t molecules, uint64_t atoms,
                              unsigned char *to);
unsigned char *md_put_i64(unsigned char *to, int64_t value);
unsigned char *md_put_f64(unsigned char *to, double value);
uint32_t md_checksum(const void *bytes, uint64_t count);

/* ---- Reading ---- */
/*
 * `name` is what messages call the file, `file_bytes` its length. -EBADMSG it is torn or damaged,
 * and where; -EINVAL it is no checkpoint; -ENOTSUP one of another version; -ENOMEM.
 */
/* The length of the head, from its first MD_CHECKPOINT_BEGIN_BYTES. */
int md_get_head_bytes(const char *name, const unsigned char *from, uint64_t file_bytes,
                      uint64_t *head_bytes);
/* From all of its bytes. */
int md_get_head(const char *name, const unsigned char *from, uint64_t bytes, uint64_t file_bytes,
                struct md_checkpoint_head *head);
void md_head_free(struct md_checkpoint_head *head);
/* Of section `number` of the head; `from` has its bytes, and is pointed to. */
int md_get_section(const char *name, const struct md_checkpoint_head *head, uint32_t number,
                   const unsigned char *from, struct md_section *section);
int64_t md_get_i64(const unsigned char *from);
double md_get_f64(const unsigned char *from);

#endif
