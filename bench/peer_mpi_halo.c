// SPDX-License-Identifier: Apache-2.0
// The MPI side of `leat bench halo`: pack through the index map, MPI_Sendrecv straight into the
// ghosts' place, read every ghost. What a code without leat does today, without its needless copy.
// usage: PROGRAM DIRECTORY SIDE, started by mpirun.

#define _GNU_SOURCE
#include "bind.h"
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
    struct slice_pipes pipes = {0};
    struct slice_command command;
    const char *wrong = NULL;
    volatile float sink = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    packed = malloc(3 * sizeof(float) * SLICE_ATOMS_MAX);
    home = calloc(9 * SLICE_ATOMS_MAX, sizeof(float));
    index_map = malloc(sizeof(uint32_t) * SLICE_ATOMS_MAX);
    slice_bind(rank, 2);
    if (argc != 3 || !packed || !home || !index_map || slice_open(argv[1], argv[2], rank, &pipes))
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (slice_next(&pipes, &command)) {
        if (!slice_is_halo(&command, &wrong)) {
            slice_answer(&pipes, wrong, NULL, 0);
            continue;
        }
        uint32_t atoms = (uint32_t)command.amount;
        slice_index(atoms, index_map);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (uint64_t i = 0; i < command.count; i++) {
            exchange(atoms, 1 - rank);
            sink = sink + slice_consume(home + 6 * (size_t)atoms, atoms);
        }
        double ns = (MPI_Wtime() - begin) * 1e9 / (double)command.count;
        slice_answer(&pipes, NULL, &ns, 1);
    }
    MPI_Finalize();
    return 0;
}
