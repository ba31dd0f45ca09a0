// SPDX-License-Identifier: Apache-2.0
// leat run: starts a program as the ranks of a job on this host.
//
// Advantage: any program can be a rank, and one that opens leat joins the job. Disadvantage: one
// host; for more there are mpirun and srun (PMIx), or LEAT_ROOT (docs/jobs.md).

#include "commands.h"
#include "core/launch.h"
#include "options.h"

enum { OPTION_GRID = OPTION_LONG, OPTION_SURVIVE };

#define RANKS_MAX 65536

static const struct option_row rows[] = {
    {'n', "ranks", "N", "ranks to start (required)"},
    {OPTION_GRID, "grid", "AxBxC",
     "how the ranks divide the box, a hint that programs may follow; A*B*C is N"},
    {OPTION_SURVIVE, "survive", NULL,
     "let the other ranks go on when one dies (otherwise they are ended)"},
};

static const struct option_table table = {
    .command = "run",
    .synopsis = "-n N [--grid AxBxC] [--survive] PROGRAM [ARGUMENTS...]",
    .summary =
        "Starts N copies of PROGRAM on this host as the ranks of one job and waits for them. "
        "Rank 0 reads standard input. The exit status is that of the first rank that failed "
        "(128 + signal when it was killed), 127 when PROGRAM is not found, 126 when it cannot "
        "be executed. Without it, ranks find one another under Open MPI's mpirun and srun "
        "--mpi=pmix, or by LEAT_ROOT=HOST:PORT with LEAT_RANK, LEAT_SIZE and LEAT_JOB_KEY.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
    .stops_at_operand = true,
};

int cmd_run(int argc, char **argv)
{
    struct launch_options options = {0};
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        switch (reader.id) {
        case 'n':
            options_integer(&reader, 1, RANKS_MAX, &options.rank_count);
            break;
        case OPTION_GRID:
            options_grid(&reader, options.grid);
            break;
        case OPTION_SURVIVE:
            options.survive = true;
            break;
        }
    if (reader.exit_status >= 0)
        return reader.exit_status;
    if (!options.rank_count)
        return options_error(&reader, "how many ranks? Give -n N");
    const int *grid = options.grid;
    if (grid[0] && grid[0] * grid[1] * grid[2] != options.rank_count)
        return options_error(&reader, "a grid of %dx%dx%d has %d ranks, but -n says %d", grid[0],
                             grid[1], grid[2], grid[0] * grid[1] * grid[2], options.rank_count);
    if (reader.operand >= argc)
        return options_error(&reader, "which program? Give its name after the options");
    options.program = argv[reader.operand];
    options.argv = argv + reader.operand;
    int status = 0;
    int error = leat_launch(&options, &status);
    return error ? command_fail("run", error) : status;
}
