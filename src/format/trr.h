/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GROMACS TRR trajectories: frames one after the other, each with any of box, positions, velocities
 * and forces, in big-endian floats or doubles.
 *
 *     struct trr_reader reader = {.stream = file, .name = path};
 *     while ((result = trr_read(&reader)) == 1)
 *         ... reader.frame, reader.x_nm ...
 *     trr_reader_end(&reader);
 */
#ifndef LEAT_FORMAT_TRR_H
#define LEAT_FORMAT_TRR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What a frame says but for its arrays. */
struct trr_frame {
    int64_t atom_count;
    int64_t step; /* the format has 32 bits for it */
    double time_ps, lambda;
    bool is_double, has_box, has_x, has_v, has_f;
    double box_nm[3][3]; /* row vectors; zero where the frame has none */
};

/* ---- Reading ---- */

/* Begun by {.stream, .name}; the rest is the reader's. Memory grows with the largest frame. */
struct trr_reader {
    FILE *stream;     /* the caller's; read forwards only, so a pipe will do */
    const char *name; /* what messages call it */
    int64_t number;   /* frames read so far */
    uint64_t begin;   /* where the frame begins, bytes from where reading began */
    uint64_t offset;  /* of what comes next */
    struct trr_frame frame;
    double *x_nm, *v_nm_ps, *f; /* [3 * atom_count]; only where the frame has them */
    uint64_t capacity[3];       /* of these, in numbers */
};

/*
 * Reads the next frame. 1: there it is; 0: the stream ended after the last one.
 *
 * -ENODATA the stream ends inside a frame, as one whose writer was stopped does; -EINVAL no frame,
 * or one that contradicts itself; -ENOMEM; what reading gave. Each names the stream, the frame and
 * where it begins. Numbers are taken as they are, also those that are not finite.
 */
int trr_read(struct trr_reader *reader);
void trr_reader_end(struct trr_reader *reader);

/* ---- Writing: into memory, each part where it belongs ---- */

struct trr_layout {
    uint64_t bytes;            /* of the frame */
    uint64_t x, v, f;          /* offset of the first number; 0: none */
    unsigned int vector_bytes; /* from one atom to the next */
};

/* -EOVERFLOW what the format has no digits for: atoms, or the step. */
int trr_lay_out(const struct trr_frame *frame, struct trr_layout *layout);
/* All but the arrays. */
void trr_put_head(const struct trr_frame *frame, unsigned char *to);
void trr_put_vector(const struct trr_frame *frame, const double vector[3], unsigned char *to);

#endif
