// SPDX-License-Identifier: Apache-2.0
// leat torus md-halo: the halo exchange of an input on a modelled machine, forwarded and with one
// hop.
//
// Algorithm: every atom of the input (repeated as --tile says) is looked at once: its domain, and
// the displacements to whose domains it is a ghost, by the eighth-shell rule (its distance from the
// receiver's upper corner, in the dimensions that are crossed). Those counts are the sizes of the
// messages. Advantage: the input's own unevenness is in them. Disadvantage: molecules are not kept
// whole, which would add a molecule's reach to the cut-off.

#include "commands.h"
#include "core/error.h"
#include "format/gro.h"
#include "sim/halo.h"
#include "torus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_BYTES 12 /* three floats */
#define KINDS         2  /* forwarded, onehop */
#define COUNTS_MOST   (UINT64_C(1) << 32)

struct domains {
    int grid[3], ranks;
    double edge_nm[3], width_nm[3];
    uint32_t *home, *ghost;
    uint64_t atoms, ghosts, most_ghosts;
};

struct halo_report {
    struct sim_measured measured[KINDS];
    char shape[256];
};

// ---- Counting ----

static int set_grid(const struct torus_request *request, const struct gro *gro,
                    struct domains *domains)
{
    if (request->side_count != 3)
        return leat_fail(-EINVAL, "md-halo needs the grid of domains: --nodes AxBxC");
    domains->ranks = 1;
    for (int d = 0; d < 3; d++) {
        for (int e = 0; e < 3; e++)
            if (d != e && gro->box_nm[d][e] != 0)
                return leat_fail(-ENOTSUP, "%s: the box is tilted; md-halo takes upright ones",
                                 request->gro);
        domains->grid[d] = request->side[d];
        domains->ranks *= request->side[d];
        domains->edge_nm[d] = gro->box_nm[d][d] * request->tile[d];
        domains->width_nm[d] = domains->edge_nm[d] / domains->grid[d];
        if (!(domains->edge_nm[d] > 0))
            return leat_fail(-EINVAL, "%s: box edge %d is %g nm", request->gro, d + 1,
                             gro->box_nm[d][d]);
        if (domains->grid[d] > 1 && domains->width_nm[d] < request->cutoff_nm)
            return leat_fail(-EDOM,
                             "domains would be %g nm wide in dimension %d, but the cut-off is %g "
                             "nm; take fewer nodes there, or a larger --tile",
                             domains->width_nm[d], d + 1, request->cutoff_nm);
    }
    domains->home = calloc((size_t)domains->ranks, sizeof *domains->home);
    domains->ghost = calloc((size_t)domains->ranks * SIM_HALO_WAYS, sizeof *domains->ghost);
    return domains->home && domains->ghost
               ? 0
               : leat_fail(-ENOMEM, "no memory for %d domains", domains->ranks);
}

static void count_atom(struct domains *domains, const double x_nm[3], double cutoff_nm)
{
    int at[3];
    double beyond[3];
    const int *grid = domains->grid;
    for (int d = 0; d < 3; d++) {
        double x = x_nm[d] - domains->edge_nm[d] * floor(x_nm[d] / domains->edge_nm[d]);
        at[d] = (int)(x / domains->width_nm[d]);
        at[d] = at[d] < grid[d] ? at[d] : grid[d] - 1;
        beyond[d] = x - at[d] * domains->width_nm[d];
    }
    domains->home[(at[0] * grid[1] + at[1]) * grid[2] + at[2]]++;
    for (int way = 1; way < SIM_HALO_WAYS; way++) {
        double square = 0;
        int to[3] = {at[0], at[1], at[2]};
        bool is_cut = true;
        for (int d = 0; d < 3; d++)
            if (way >> d & 1) {
                is_cut = is_cut && grid[d] > 1;
                square += beyond[d] * beyond[d];
                to[d] = (at[d] + grid[d] - 1) % grid[d];
            }
        if (is_cut && square < cutoff_nm * cutoff_nm)
            domains->ghost[(size_t)((to[0] * grid[1] + to[1]) * grid[2] + to[2]) * SIM_HALO_WAYS +
                           (size_t)way]++;
    }
}

static void count_all(const struct torus_request *request, const struct gro *gro,
                      struct domains *domains)
{
    for (int a = 0; a < request->tile[0]; a++)
        for (int b = 0; b < request->tile[1]; b++)
            for (int c = 0; c < request->tile[2]; c++)
                for (int64_t i = 0; i < gro->atom_count; i++) {
                    const double *from = &gro->x_nm[3 * i];
                    const double x[3] = {from[0] + a * gro->box_nm[0][0],
                                         from[1] + b * gro->box_nm[1][1],
                                         from[2] + c * gro->box_nm[2][2]};
                    count_atom(domains, x, request->cutoff_nm);
                }
    for (int rank = 0; rank < domains->ranks; rank++) {
        uint64_t ghosts = 0;
        for (int way = 1; way < SIM_HALO_WAYS; way++)
            ghosts += domains->ghost[(size_t)rank * SIM_HALO_WAYS + (size_t)way];
        domains->atoms += domains->home[rank];
        domains->ghosts += ghosts;
        domains->most_ghosts = ghosts > domains->most_ghosts ? ghosts : domains->most_ghosts;
    }
}

static int count(const struct torus_request *request, struct domains *domains)
{
    struct gro *gro;
    int error = gro_read(request->gro, &gro);
    if (error)
        return error;
    double atoms = (double)gro->atom_count * request->tile[0] * request->tile[1] * request->tile[2];
    if (atoms > (double)COUNTS_MOST)
        error = leat_fail(-EINVAL, "--tile makes %.0f atoms; at most %.0f are counted", atoms,
                          (double)COUNTS_MOST);
    if (!error)
        error = set_grid(request, gro, domains);
    if (!error)
        count_all(request, gro, domains);
    gro_free(gro);
    return error;
}

// ---- Running ----

static int run_kind(const struct torus_request *request, const struct domains *domains, bool onehop,
                    struct halo_report *report)
{
    struct sim_halo halo = {.grid = {domains->grid[0], domains->grid[1], domains->grid[2]},
                            .home = domains->home,
                            .ghost = domains->ghost,
                            .element_bytes = ELEMENT_BYTES,
                            .element_ns = request->atom_ns,
                            .onehop = onehop};
    struct msg_tuning tuning;
    struct sim_job job;
    struct sim_job_options options = torus_options(request, sim_halo_hollow(&halo), &tuning);
    int error = sim_job_open(&job, &options);
    if (error)
        return error;
    if (job.folded)
        sim_fold_text(&job.fold, report->shape, sizeof report->shape);
    else
        snprintf(report->shape, sizeof report->shape, "%d", job.rank_count);
    // The first steps open the rings.
    struct sim_measured *measured = &report->measured[onehop];
    halo.steps = 3;
    error = sim_halo_run(&job, &halo, measured);
    int wrong = error ? 0 : measured->wrong;
    halo.steps = request->steps;
    if (!error)
        error = sim_halo_run(&job, &halo, measured);
    measured->wrong += wrong;
    sim_job_close(&job);
    return error;
}

static double step_us(const struct torus_request *request, const struct halo_report *report,
                      int kind)
{
    return report->measured[kind].seconds * 1e6 / request->steps;
}

static int print_json(const struct torus_request *request, const struct domains *domains,
                      const struct halo_report *report)
{
    return torus_print(json_pack(
        "{s:s, s:s, s:s, s:i, s:s, s:I, s:f, s:f, s:I, s:f, s:f, s:i, s:f, s:f, s:b}", "schema",
        "leat.torus/1", "machine", request->machine.name, "operation", "md-halo", "ranks",
        domains->ranks, "shape", report->shape, "atoms", (json_int_t)domains->atoms, "cutoff_nm",
        request->cutoff_nm, "ghosts_mean", (double)domains->ghosts / domains->ranks, "ghosts_most",
        (json_int_t)domains->most_ghosts, "atom_ns", request->atom_ns, "compute_us",
        (double)domains->atoms / domains->ranks * request->atom_ns * 1e-3, "steps", request->steps,
        "forwarded_step_us", step_us(request, report, 0), "onehop_step_us",
        step_us(request, report, 1), "checked",
        report->measured[0].wrong + report->measured[1].wrong == 0));
}

static void print_text(const struct torus_request *request, const struct domains *domains,
                       const struct halo_report *report)
{
    printf("%s, %d domains %dx%dx%d as %s, %.2f x %.2f x %.2f nm each, cut-off %g nm\n",
           request->machine.name, domains->ranks, domains->grid[0], domains->grid[1],
           domains->grid[2], report->shape, domains->width_nm[0], domains->width_nm[1],
           domains->width_nm[2], request->cutoff_nm);
    printf("%llu atoms, %.1f a domain, %.1f ghosts (%llu at most), %.3f us of computing a step\n",
           (unsigned long long)domains->atoms, (double)domains->atoms / domains->ranks,
           (double)domains->ghosts / domains->ranks, (unsigned long long)domains->most_ghosts,
           (double)domains->atoms / domains->ranks * request->atom_ns * 1e-3);
    printf("us a step, %d steps: forwarded %.3f, onehop %.3f\n", request->steps,
           step_us(request, report, 0), step_us(request, report, 1));
    int wrong = report->measured[0].wrong + report->measured[1].wrong;
    if (wrong)
        printf("WRONG: %d messages\n", wrong);
    else
        printf("right at all ranks\n");
}

int torus_halo(const struct torus_request *request)
{
    struct domains domains = {.ranks = 0};
    struct halo_report report = {.shape = ""};
    int status = EXIT_DONE, error = count(request, &domains);
    for (int kind = 0; !error && kind < KINDS; kind++)
        error = run_kind(request, &domains, kind == 1, &report);
    if (error)
        status = command_fail("torus", error);
    else if (request->json)
        status = print_json(request, &domains, &report);
    else
        print_text(request, &domains, &report);
    free(domains.home);
    free(domains.ghost);
    if (report.measured[0].wrong + report.measured[1].wrong)
        status = EXIT_FAILED;
    return status;
}
