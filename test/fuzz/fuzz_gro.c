// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a .gro file; what is read is checked and written again.
//
// Advantage: covers reader and writer in one. Disadvantage: columns need many lucky bytes, so the
// corpus matters.

#include "format/gro.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (!stream)
        return 0;
    struct gro *gro = NULL;
    if (gro_read_stream(stream, "fuzz.gro", &gro) == 0) {
        demand(gro->atom_count >= 0);
        for (int64_t i = 0; i < 3 * gro->atom_count; i++)
            demand(isfinite(gro->x_nm[i]) && isfinite(gro->v_nm_ps[i]));
        for (int64_t i = 0; i < gro->atom_count; i++)
            demand(strlen(gro->labels[i].atom_name) < 6 && strlen(gro->labels[i].residue_name) < 6);
        for (int i = 0; i < 3; i++)
            demand(gro->box_nm[i][i] >= 0);
        (void)gro_write("/dev/null", gro, 3); // values may be too wide for a column
        gro_free(gro);
    } else {
        demand(gro == NULL);
    }
    fclose(stream);
    return 0;
}
