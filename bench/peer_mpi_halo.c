// SPDX-License-Identifier: Apache-2.0
// The MPI side of `leat bench halo`: pack through the index map, MPI_Sendrecv straight into the
// ghosts' place, read every ghost. What a code without leat does today, without its needless copy.

#include "halo_slice.h"

#include <mpi.h>
#include <stdlib.h>

static float *packed, *home;
static uint32_t *index_map;

static void exchange(uint32_t atoms, int peer)
{
    float *ghosts = home + 6 * (size_t)atoms;
    for (uint32_t i = 0; i < atoms; i++) {
        const float *from = home + (size_t)index_map[i] * 3;
        packed[3 * (size_t)i] = from[0] + 1.0f;
        packed[3 * (size_t)i + 1] = from[1] + 2.0f;
        packed[3 * (size_t)i + 2] = from[2] + 3.0f;
    }
    MPI_Sendrecv(packed, (int)(3 * atoms), MPI_FLOAT, peer, 0, ghosts, (int)(3 * atoms), MPI_FLOAT,
                 peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank;
    struct slice_pipes pipes;
    uint32_t atoms, iterations;
    volatile float sink = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    packed = malloc(3 * sizeof(float) * SLICE_ATOMS_MAX);
    home = calloc(9 * SLICE_ATOMS_MAX, sizeof(float));
    index_map = malloc(sizeof(uint32_t) * SLICE_ATOMS_MAX);
    if (argc < 2 || !packed || !home || !index_map || slice_open(argv[1], "openmpi", rank, &pipes))
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (slice_next(&pipes, &atoms, &iterations)) {
        slice_index(atoms, index_map);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (uint32_t i = 0; i < iterations; i++) {
            exchange(atoms, 1 - rank);
            sink = sink + slice_consume(home + 6 * (size_t)atoms, atoms);
        }
        slice_answer(&pipes, (MPI_Wtime() - begin) * 1e9 / iterations, 0);
    }
    MPI_Finalize();
    return 0;
}
