// SPDX-License-Identifier: Apache-2.0
// The MPI side of `leat bench p2p`, `coll`, `memory` and `flood`: plain MPI calls, compiled once
// with each MPI that is there. usage: PROGRAM DIRECTORY SIDE, started by that MPI's mpirun.

#define _GNU_SOURCE
#include "bind.h"
#include "msg_flood.h"

#include <mpi.h>

// Errors are fatal by MPI's default and print their own text, so that no call's result is looked
// at.
struct way {
    const char *wrong;
    MPI_Request request[2 * SLICE_WINDOW];
    MPI_Request never; // what way_poll tests
};

static int way_send(struct way *way, const void *data, size_t bytes, int peer, int tag)
{
    (void)way;
    return MPI_Send(data, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
}

static int way_receive(struct way *way, void *data, size_t bytes, int peer, int tag, int *source)
{
    MPI_Status status;
    (void)way;
    MPI_Recv(data, (int)bytes, MPI_BYTE, peer == SLICE_ANY ? MPI_ANY_SOURCE : peer, tag,
             MPI_COMM_WORLD, source ? &status : MPI_STATUS_IGNORE);
    if (source)
        *source = status.MPI_SOURCE;
    return 0;
}

static int way_start_send(struct way *way, int request, const void *data, size_t bytes, int peer)
{
    return MPI_Isend(data, (int)bytes, MPI_BYTE, peer, SLICE_TAG_DATA, MPI_COMM_WORLD,
                     &way->request[request]);
}

static int way_start_receive(struct way *way, int request, void *data, size_t bytes, int peer)
{
    return MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, SLICE_TAG_DATA, MPI_COMM_WORLD,
                     &way->request[request]);
}

static int way_finish(struct way *way, int count)
{
    return MPI_Waitall(count, way->request, MPI_STATUSES_IGNORE);
}

// Not a probe: that would search all the messages nobody has received, each time.
static int way_poll(struct way *way)
{
    int there;
    if (way->never == MPI_REQUEST_NULL)
        MPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &way->never);
    return MPI_Test(&way->never, &there, MPI_STATUS_IGNORE);
}

static int way_barrier(struct way *way)
{
    (void)way;
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int way_broadcast(struct way *way, void *data, size_t bytes, int root)
{
    (void)way;
    return MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static int way_sum(struct way *way, const double *from, double *to, size_t count)
{
    (void)way;
    return MPI_Allreduce(from, to, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int way_other(struct way *way, const char *what, double *values, int *value_count)
{
    (void)what, (void)values, (void)value_count;
    way->wrong = "there is no such slice";
    return -1;
}

static const char *way_wrong(struct way *way)
{
    return way->wrong ? way->wrong : "MPI has reported it";
}

int main(int argc, char **argv)
{
    static struct way way = {.never = MPI_REQUEST_NULL};
    struct slice slice = {.way = &way};
    struct slice_pipes pipes = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &slice.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &slice.rank_count);
    slice_bind(slice.rank, slice.rank_count);
    if (argc != 3 || slice_open(argv[1], argv[2], slice.rank, &pipes)) {
        fprintf(stderr, "usage: %s DIRECTORY SIDE, where DIRECTORY has the pipes of SIDE\n", *argv);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    slice.directory = argv[1];
    slice.side = argv[2];
    if (slice_serve(&slice, &pipes))
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (way.never != MPI_REQUEST_NULL) {
        MPI_Cancel(&way.never);
        MPI_Wait(&way.never, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
