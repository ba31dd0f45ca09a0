// SPDX-License-Identifier: Apache-2.0
// leat md: molecular dynamics of GROMACS and LAMMPS inputs over several ranks.
//
// Started by hand it starts its own ranks: the same program with the same arguments, which finds
// itself launched and becomes a rank. Advantage: one command line, and it works under `leat run`
// as well. Disadvantage: every rank parses the arguments again.

#include "commands.h"
#include "core/launch.h"
#include "md.h"
#include "md/gpu.h"
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 65536

enum {
    OPTION_GRO = OPTION_LONG,
    OPTION_TOP,
    OPTION_MDP,
    OPTION_DATA,
    OPTION_UNITS,
    OPTION_PAIR,
    OPTION_DT,
    OPTION_SKIN,
    OPTION_REBUILD,
    OPTION_ATOM_STYLE,
    OPTION_PAIR_COEFF,
    OPTION_MIX,
    OPTION_SPECIAL_BONDS,
    OPTION_THREADS,
    OPTION_TEAM,
    OPTION_GRID,
    OPTION_ORDER,
    OPTION_STEPS,
    OPTION_MODE,
    OPTION_PLAN,
    OPTION_IMAGES,
    OPTION_TILE,
    OPTION_OUT,
    OPTION_FORCES,
    OPTION_ENERGIES,
    OPTION_TRAJECTORY,
    OPTION_CHECKPOINT,
    OPTION_EVERY,
    OPTION_RESTART,
    OPTION_CHECK,
    OPTION_ORACLE,
    OPTION_PRECISION,
    OPTION_DEVICE,
    OPTION_DRIFT_AFTER,
    OPTION_STATS,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    {OPTION_GRO, "gro", "FILE", "coordinates, and velocities where it has them"},
    {OPTION_TOP, "top", "FILE", "topology"},
    {OPTION_MDP, "mdp", "FILE", "run settings"},
    {OPTION_DATA, "data", "FILE",
     "a LAMMPS data file, instead of these three; with --units and --pair"},
    {OPTION_UNITS, "units", "lj|real",
     "units of the data file, of what stands here, and of results"},
    {OPTION_PAIR, "pair", "lj/cut:RC|lj/cut/coul/cut:RC",
     "pair style of the data file and cut-off"},
    {OPTION_DT, "dt", "TIME", "time step of a data file's run (0.005 lj, 1 real)"},
    {OPTION_SKIN, "skin", "LENGTH",
     "pair lists reach this far beyond the cut-off and are made anew when an atom has moved half "
     "of it; data files only (0.3 lj, 2 real)"},
    {OPTION_REBUILD, "rebuild", "N", "and after this many steps at the latest (20)"},
    {OPTION_ATOM_STYLE, "atom-style", "STYLE",
     "of a data file that does not say it: atomic, charge, bond, angle, molecular or full"},
    {OPTION_PAIR_COEFF, "pair-coeff", "I,J,EPSILON,SIGMA",
     "coefficients of two atom types of a data file, above its own; may be repeated"},
    {OPTION_MIX, "mix", "geometric|arithmetic", "sigma of unlike types of a data file (geometric)"},
    {OPTION_SPECIAL_BONDS, "special-bonds", "lj/coul:A,B,C",
     "weights of pairs one, two and three bonds apart; or lj:... and coul:... (0,0,0)"},
    {'n', "ranks", "N", "ranks to start (1)"},
    {OPTION_THREADS, "rank-threads", NULL, "ranks are threads of one process, not processes"},
    {OPTION_TEAM, "threads", "N", "threads of each rank; 0: what processors there are for it (1)"},
    {OPTION_GRID, "grid", "AxBxC",
     "how the ranks divide the box; A*B*C is N (the grid with the least halo)"},
    {OPTION_ORDER, "order", "zyx|xyz",
     "order of dimensions in which coordinates travel; forces go back the other way (zyx)"},
    {OPTION_STEPS, "steps", "N",
     "steps, instead of the .mdp's nsteps; 0 evaluates the coordinates as they stand"},
    {OPTION_MODE, "mode", "fused|host|stream|pulse|resident",
     "who orders the halo exchange; results are the same to the bit (fused)"},
    {OPTION_PLAN, "plan", "forwarded|onehop",
     "ghosts come from neighbours, passed on, or from every rank within reach at once (forwarded)"},
    {OPTION_IMAGES, "images", NULL,
     "bring ghosts across undivided dimensions too, as tilted boxes need and domains that are thin "
     "for cut-off and molecules get; the cut-off still has to be at most half the box"},
    {OPTION_TILE, "tile", "AxBxC", "repeat the input along x, y and z (1x1x1)"},
    {OPTION_OUT, "out", "FILE", "write the last step's coordinates and velocities, as .gro"},
    {OPTION_FORCES, "forces", "FILE", "write the last step's forces, an atom a line, in kJ/mol/nm"},
    {OPTION_ENERGIES, "energies", "FILE",
     "write energies, temperature and pressure of each step of nstenergy, and the last, as .csv"},
    {OPTION_TRAJECTORY, "trajectory", "FILE",
     "write frames at the steps of nstxout, nstvout and nstfout, and the last: .trr, or as the "
     "name "
     "ends in it .gro"},
    {OPTION_CHECKPOINT, "checkpoint", "FILE",
     "write what the run can go on from, at the end and every so often; the one before is "
     "FILE.prev"},
    {OPTION_EVERY, "checkpoint-every", "STEPS",
     "from one checkpoint to the next, taken to the next list; 0: at the end only (10000)"},
    {OPTION_RESTART, "restart", "FILE",
     "go on from a checkpoint of the same input to the same last step; to the bit on as many "
     "ranks"},
    {OPTION_CHECK, "check", "STEPS",
     "compare every rank's ghosts, pairs and forces with brute force, every so many steps (10) or "
     "at "
     "those of a list (0,10,25); for small systems, on the CPU"},
    {OPTION_ORACLE, "oracle", NULL,
     "evaluate the coordinates by all pairs in double precision on one rank; no steps"},
    {OPTION_PRECISION, "precision", "mixed|double",
     "of pairs and halos; everything else is in double (mixed)"},
    {OPTION_DEVICE, "device", "cpu|cuda[:LIST]|emulated",
     "where the ranks compute: the CPU, all GPUs or those of LIST (ranks are threads then), or the "
     "GPU's kernels on the CPU, for tests (cpu)"},
    {OPTION_DRIFT_AFTER, "drift-after", "PS",
     "leave this time at the beginning out of the drift's fit (0)"},
    {'D', "define", "NAME[=VALUE]", "define a preprocessor name for the topology, as the .mdp may"},
    {'I', "include", "DIRECTORY", "look here for included files of the topology first"},
    {OPTION_STATS, "stats", NULL,
     "report counts of kernels, waits and memory, and all paths with reasons"},
    {OPTION_JSON, "json", NULL, "print one JSON object (schema leat.md/1) on standard output"},
};

static const struct option_table table = {
    .command = "md",
    .synopsis =
        "--gro FILE --top FILE --mdp FILE|--data FILE --units U --pair P [-n N] [OPTIONS...]",
    .summary =
        "Runs the input over N ranks of this host: Lennard-Jones and reaction field, molecules "
        "with "
        "bonded terms and constraints, leap-frog or velocity Verlet, NVE or v-rescale, steepest "
        "descent. Prints energies, temperature, pressure, drift, step time and which path every "
        "byte "
        "took. Phases of the step time are means over ranks and steps, the median is rank 0's.",
    .row = rows,
    .row_count = sizeof rows / sizeof *rows,
};

static const char *option_name(int id)
{
    size_t i = 0;
    while (rows[i].id != id)
        i++;
    return rows[i].name;
}

// Appends separator, prefix and the option's value to a text that grows.
static void append(struct option_reader *reader, char **text, const char *separator,
                   const char *prefix)
{
    const char *old = *text ? *text : "";
    size_t bytes = strlen(old) + strlen(separator) + strlen(prefix) + strlen(reader->value) + 1;
    char *joined = malloc(bytes);
    if (!joined) {
        options_error(reader, "no memory for \"%s\"", reader->value);
        return;
    }
    snprintf(joined, bytes, "%s%s%s%s", old, *text ? separator : "", prefix, reader->value);
    free(*text);
    *text = joined;
}

static void read_device(struct option_reader *reader, struct md_request *request)
{
    static const char *const devices[] = {
        [MD_DEVICE_CPU] = "cpu", [MD_DEVICE_CUDA] = "cuda", [MD_DEVICE_EMULATED] = "emulated"};
    int device = MD_DEVICE_CUDA;
    request->cuda = reader->value;
    // Which GPUs there are in a list is leat_open's to say.
    if (strncmp(reader->value, "cuda:", 5) == 0 || options_choice(reader, devices, 3, &device))
        request->options.device = (enum md_device)device;
}

static void read_choice(struct option_reader *reader, struct md_request *request)
{
    static const char *const orders[] = {"zyx", "xyz"};
    static const char *const precisions[] = {"mixed", "double"};
    struct md_options *options = &request->options;
    int choice = 0;
    switch (reader->id) {
    case OPTION_ORDER:
        if (options_choice(reader, orders, 2, &choice))
            options->order = choice ? LEAT_ORDER_XYZ : LEAT_ORDER_ZYX;
        break;
    case OPTION_MODE:
        if (options_choice(reader, md_mode_names, MD_MODES, &choice))
            options->mode = (enum leat_mode)choice;
        break;
    case OPTION_PLAN:
        if (options_choice(reader, md_plan_names, MD_PLANS, &choice))
            options->plan = (enum leat_plan_kind)choice;
        break;
    case OPTION_PRECISION:
        if (options_choice(reader, precisions, 2, &choice))
            options->precision = choice ? MD_DOUBLE : MD_MIXED;
        break;
    case OPTION_DEVICE:
        read_device(reader, request);
        break;
    }
}

// What the driver's own readers of a text say is what the user has to know.
static void check_text(struct option_reader *reader, int error)
{
    if (error)
        options_error(reader, "--%s: %s", option_name(reader->id), leat_error_detail());
}

static void read_lammps(struct option_reader *reader, struct md_request *request)
{
    static const char *const units[] = {"lj", "real"};
    static const char *const mixes[] = {"geometric", "arithmetic"};
    struct md_lammps *lammps = &request->lammps;
    int choice = 0;
    request->lammps_option = reader->id;
    switch (reader->id) {
    case OPTION_UNITS:
        if (options_choice(reader, units, 2, &choice))
            lammps->units = choice ? MD_UNITS_REAL : MD_UNITS_LJ;
        break;
    case OPTION_PAIR:
        check_text(reader, md_lammps_pair(lammps, reader->value));
        break;
    case OPTION_DT:
        options_number(reader, 1e-12, 1e12, &lammps->dt);
        break;
    case OPTION_SKIN:
        options_number(reader, 1e-12, 1e12, &lammps->skin);
        break;
    case OPTION_REBUILD:
        options_integer(reader, 1, 1000000, &lammps->rebuild);
        break;
    case OPTION_ATOM_STYLE:
        lammps->atom_style = reader->value;
        break;
    case OPTION_PAIR_COEFF:
        check_text(reader, md_lammps_pair_coeff(lammps, reader->value));
        break;
    case OPTION_MIX:
        if (options_choice(reader, mixes, 2, &choice))
            lammps->arithmetic = choice == 1;
        break;
    default:
        check_text(reader, md_lammps_special(lammps, reader->value));
    }
}

static void read_value(struct option_reader *reader, struct md_request *request)
{
    struct md_options *options = &request->options;
    switch (reader->id) {
    case 'n':
        options_integer(reader, 1, RANKS_MAX, &request->rank_count);
        break;
    case OPTION_TEAM:
        if (options_integer(reader, 0, 1024, &options->threads) && !options->threads)
            options->threads = -1;
        break;
    case OPTION_GRID:
        options_grid(reader, options->grid);
        break;
    case OPTION_TILE:
        options_grid(reader, options->tile);
        break;
    case OPTION_STEPS:
        options_integer(reader, 0, 2147483647, &request->steps);
        break;
    case OPTION_CHECK:
        if (strchr(reader->value, ',') || strcmp(reader->value, "0") == 0)
            options->check_steps = reader->value;
        else
            options_integer(reader, 1, 2147483647, &request->check_every);
        break;
    case OPTION_EVERY:
        options_integer(reader, 0, 2147483647, &request->checkpoint_every);
        break;
    case OPTION_DRIFT_AFTER:
        options_number(reader, 0.0, 1e12, &options->drift_after_ps);
        break;
    case 'D':
        append(reader, &request->define, " ", "-D");
        break;
    case 'I':
        append(reader, &request->include_dirs, ":", "");
        break;
    default:
        if (reader->id >= OPTION_UNITS && reader->id <= OPTION_SPECIAL_BONDS)
            read_lammps(reader, request);
        else
            read_choice(reader, request);
    }
}

static void read_option(struct option_reader *reader, struct md_request *request)
{
    struct md_options *options = &request->options;
    switch (reader->id) {
    case OPTION_GRO:
        options->gro = reader->value;
        break;
    case OPTION_TOP:
        options->top = reader->value;
        break;
    case OPTION_DATA:
        options->data = reader->value;
        break;
    case OPTION_MDP:
        options->mdp = reader->value;
        break;
    case OPTION_OUT:
        options->out = reader->value;
        break;
    case OPTION_FORCES:
        options->forces = reader->value;
        break;
    case OPTION_TRAJECTORY:
        options->trajectory = reader->value;
        break;
    case OPTION_CHECKPOINT:
        options->checkpoint = reader->value;
        break;
    case OPTION_RESTART:
        options->restart = reader->value;
        break;
    case OPTION_ENERGIES:
        options->energies = reader->value;
        break;
    case OPTION_THREADS:
        request->rank_threads = true;
        break;
    case OPTION_IMAGES:
        options->images = true;
        break;
    case OPTION_ORACLE:
        options->oracle = true;
        break;
    case OPTION_STATS:
        options->stats = true;
        break;
    case OPTION_JSON:
        options->json = true;
        break;
    default:
        read_value(reader, request);
    }
}

// -1 to go on, else the exit status.
static int check_device(struct option_reader *reader, const struct md_request *request)
{
    const struct md_options *options = &request->options;
    if (options->device == MD_DEVICE_CPU)
        return -1;
    if (options->data)
        return options_error(reader, "--data is computed by the CPU; leave --device out");
    if (options->oracle)
        return options_error(reader, "--oracle is computed by the CPU; leave --device out");
    if (options->precision == MD_DOUBLE) {
        fprintf(stderr, "leat md: --device cuda and emulated compute in mixed precision only; "
                        "leave --precision double to --device cpu\n");
        return EXIT_UNSUPPORTED;
    }
    if (options->device != MD_DEVICE_CUDA)
        return -1;
    if (md_gpu_cuda)
        return -1;
    fprintf(stderr, "leat md: --device cuda: this build has no CUDA device; build it where nvcc is "
                    "found, or use --device cpu\n");
    return EXIT_UNSUPPORTED;
}

static int check_lammps(struct option_reader *reader, const struct md_request *request)
{
    const struct md_options *options = &request->options;
    const char *other = options->gro ? "gro" : options->top ? "top" : options->mdp ? "mdp" : NULL;
    if (other)
        return options_error(reader, "--data is an input by itself; leave --%s out", other);
    if (request->define || request->include_dirs)
        return options_error(reader, "--data has no preprocessor; leave -D and -I out");
    if (request->lammps.units == MD_UNITS_GROMACS)
        return options_error(reader, "--data needs --units lj or real, which no data file says");
    if (!(request->lammps.cutoff > 0.0))
        return options_error(reader, "--data needs --pair, such as --pair lj/cut:2.5");
    if (md_lammps_check_special(&request->lammps))
        return options_error(reader, "--special-bonds: %s", leat_error_detail());
    return -1;
}

static int check_input(struct option_reader *reader, const struct md_request *request)
{
    const struct md_options *options = &request->options;
    if (options->data)
        return check_lammps(reader, request);
    if (request->lammps_option)
        return options_error(reader, "--%s is for --data", option_name(request->lammps_option));
    if (!options->gro || !options->top || !options->mdp)
        return options_error(reader,
                             "an input needs --gro, --top and --mdp, or --data; %s is missing",
                             !options->gro   ? "--gro"
                             : !options->top ? "--top"
                                             : "--mdp");
    return -1;
}

// Likewise.
static int check(struct option_reader *reader, const struct md_request *request)
{
    const struct md_options *options = &request->options;
    const int *grid = options->grid;
    int ranks = request->rank_count ? request->rank_count : 1;
    int status = check_input(reader, request);
    if (status >= 0)
        return status;
    bool sized = request->rank_count || !leat_launched();
    if (grid[0] && sized && grid[0] * grid[1] * grid[2] != ranks)
        return options_error(reader, "a grid of %dx%dx%d has %d ranks, but there are %d; give -n",
                             grid[0], grid[1], grid[2], grid[0] * grid[1] * grid[2], ranks);
    if (request->rank_threads && leat_launched())
        return options_error(reader, "--rank-threads makes a job of its own, but this is a rank of "
                                     "one already; start it without `leat run`");
    if (options->oracle && options->out)
        return options_error(reader, "--oracle moves nothing, so there is nothing for --out");
    if (options->oracle &&
        (options->energies || options->trajectory || options->checkpoint || options->restart))
        return options_error(reader, "--oracle makes no steps; --energies, --trajectory, "
                                     "--checkpoint and --restart are for these");
    return check_device(reader, request);
}

static int parse(int argc, char **argv, struct md_request *request)
{
    *request = (struct md_request){.steps = -1, .checkpoint_every = 10000};
    md_lammps_begin(&request->lammps);
    request->options.lammps = &request->lammps;
    request->options.tile[0] = request->options.tile[1] = request->options.tile[2] = 1;
    struct option_reader reader;
    options_begin(&reader, &table, argc, argv);
    while (options_next(&reader))
        read_option(&reader, request);
    if (reader.exit_status < 0 && options_no_operands(&reader))
        reader.exit_status = check(&reader, request);
    request->options.steps = request->steps;
    request->options.check_every = request->check_every;
    request->options.checkpoint_every = request->checkpoint_every;
    request->options.define = request->define;
    request->options.include_dirs = request->include_dirs;
    return reader.exit_status;
}

static int run(int argc, char **argv, char *const *given)
{
    struct md_request request;
    int status = parse(argc, argv, &request);
    if (status < 0) {
        request.options.rank_count = request.rank_count ? request.rank_count : 1;
        if (request.options.oracle)
            status = md_run_oracle(&request.options);
        else if (request.rank_threads ||
                 (request.options.device == MD_DEVICE_CUDA && !leat_launched()))
            status = md_run_threads(&request);
        else if (request.options.rank_count > 1 && !leat_launched())
            status = md_launch(argc, given, &request);
        else
            status = md_run_process(&request);
    }
    free(request.define);
    free(request.include_dirs);
    md_lammps_end(&request.lammps);
    return status;
}

int cmd_md(int argc, char **argv)
{
    // Reading options sorts argv; ranks are started with what was given.
    char **given = malloc(((size_t)argc + 1) * sizeof *given);
    if (!given) {
        fprintf(stderr, "leat md: no memory for the arguments\n");
        return EXIT_FAILED;
    }
    memcpy(given, argv, ((size_t)argc + 1) * sizeof *given);
    int status = run(argc, argv, given);
    free(given);
    return status;
}
