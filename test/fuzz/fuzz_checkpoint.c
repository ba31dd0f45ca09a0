// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a checkpoint, once as they are and once with checksums put right, since
// no fuzzer finds those.
//
// Advantage: what lies behind the checksums is reached by any input. Disadvantage: the offsets of
// checksums are known here too.

#include "md/checkpoint_format.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AT_VERSION = 16, AT_CHECKSUM = 20, AT_FILE_BYTES = 32 };

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void put(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static void read_section(const struct md_checkpoint_head *head, uint32_t number,
                         const unsigned char *file)
{
    const struct md_share *share = &head->share[number];
    struct md_section section;
    demand(share->offset + share->bytes <= head->file_bytes);
    // Exactly its bytes, so that a sanitizer sees the first beyond them.
    unsigned char *bytes = malloc(share->bytes ? share->bytes : 1);
    if (!bytes)
        return;
    memcpy(bytes, file + share->offset, share->bytes);
    if (md_get_section("fuzz.cpt", head, number, bytes, &section) == 0) {
        double sum = 0.0;
        for (uint64_t m = 0; m < section.molecule_count; m++)
            sum += (double)md_get_i64(section.molecules + 8 * m);
        for (uint64_t i = 0; i < 3 * section.atom_count; i++)
            sum += md_get_f64(section.x + 8 * i) + md_get_f64(section.v + 8 * i);
        for (uint32_t r = 0; r < section.records.count; r++)
            demand(strlen(section.records.record[r].name) < MD_RECORD_NAME_BYTES);
        demand(sum >= 0.0 || !(sum >= 0.0));
        md_records_free(&section.records);
    }
    free(bytes);
}

static void read_file(unsigned char *file, size_t size, bool repair)
{
    struct md_checkpoint_head head;
    uint64_t head_bytes = 0;
    if (md_get_head_bytes("fuzz.cpt", file, size, &head_bytes) != 0)
        return;
    demand(head_bytes <= size);
    if (repair) {
        put(file + AT_CHECKSUM, 0, 4);
        put(file + AT_CHECKSUM, md_checksum(file, head_bytes), 4);
    }
    if (md_get_head("fuzz.cpt", file, head_bytes, size, &head) != 0)
        return;
    for (uint32_t r = 0; r < head.rank_count; r++) {
        if (repair)
            head.share[r].checksum = md_checksum(file + head.share[r].offset, head.share[r].bytes);
        read_section(&head, r, file);
    }
    md_head_free(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *file = malloc(size ? size : 1);
    if (!file)
        return 0;
    memcpy(file, data, size);
    read_file(file, size, false);
    if (size >= MD_CHECKPOINT_BEGIN_BYTES) {
        memcpy(file, "leat checkpoint\n", 16);
        put(file + AT_VERSION, MD_CHECKPOINT_VERSION, 4);
        put(file + AT_FILE_BYTES, size, 8);
        read_file(file, size, true);
    }
    free(file);
    return 0;
}
