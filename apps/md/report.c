// SPDX-License-Identifier: Apache-2.0
// The end of a run: what all ranks measured, added up, and the page that people read.
//
// Advantage: one reduction for times, paths and counts together. Disadvantage: it limits how many
// there may be (MD_SUM_WORDS).

#include "md/report.h"

#include "core/error.h"
#include "file/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const md_phase_names[PHASE_COUNT] = {
    "halo", "nonbonded_local", "nonbonded_nonlocal", "bonded", "update", "list", "other",
};

const char *const md_mode_names[MD_MODES] = {[LEAT_MODE_FUSED] = "fused",
                                             [LEAT_MODE_HOST] = "host",
                                             [LEAT_MODE_STREAM] = "stream",
                                             [LEAT_MODE_PULSE] = "pulse",
                                             [LEAT_MODE_RESIDENT] = "resident"};
const char *const md_plan_names[MD_PLANS] = {
    [LEAT_PLAN_FORWARDED] = "forwarded", [LEAT_PLAN_ONEHOP] = "onehop"};

void md_report_begin(const struct md_system *system, const struct md_options *options,
                     struct md_report *report)
{
    *report = (struct md_report){.atoms = system->atom_count,
                                 .rank_count = 1,
                                 .grid = {1, 1, 1},
                                 .device = "cpu",
                                 .dt_ps = system->settings.dt_ps,
                                 .cutoff_nm = system->interaction.cutoff_nm,
                                 .list_nm = system->list_nm};
    report->units = md_units(system->units);
    report->per_atom = system->units == MD_UNITS_LJ;
    report->mode = md_mode_names[options->mode];
    report->plan = md_plan_names[options->plan];
    report->order = options->order == LEAT_ORDER_XYZ ? "xyz" : "zyx";
    report->precision = options->precision == MD_DOUBLE ? "double" : "mixed";
    for (int t = 0; t < system->topology->molecule_type_count; t++) {
        const int *start = system->topology->molecule_types[t].term_start;
        for (int k = 0; k < MD_TERM_KINDS; k++)
            report->has_term[k] |= start[k + 1] > start[k];
    }
}

enum word {
    WORD_PHASE,
    WORD_BYTES = WORD_PHASE + PHASE_COUNT,
    WORD_OPERATIONS = WORD_BYTES + LEAT_PATH_ROWS,
    WORD_COUNTS = WORD_OPERATIONS + LEAT_PATH_ROWS,
    WORD_COUNT = WORD_COUNTS + 8
};

_Static_assert(WORD_COUNT <= MD_SUM_WORDS, "a report is one reduction");

// Rows carry the same names on every rank; which of them carried something differs.
static void book_paths(const leat_stats *stats, const leat_path_report *rows, double *word)
{
    for (int p = 0; p < stats->path_count; p++)
        for (int r = 0; r < rows->row_count; r++)
            if (strncmp(stats->path[p].path, rows->row[r].name, sizeof rows->row[r].name) == 0) {
                word[WORD_BYTES + r] += (double)stats->path[p].bytes;
                word[WORD_OPERATIONS + r] += (double)stats->path[p].operations;
            }
}

// Files have rows of their own; they lead to no rank, so no question about one lists them.
static void add_file_rows(leat_path_report *rows)
{
    for (int r = 0; r < FILE_ROWS; r++) {
        leat_path_row *row = &rows->row[rows->row_count++];
        snprintf(row->name, sizeof row->name, "%s", file_paths[r]->name);
        snprintf(row->reason, sizeof row->reason, "files");
    }
}

static int gather(struct md_rank *rank, leat_path_report *rows, double word[WORD_COUNT])
{
    leat_stats stats = {.size = sizeof stats};
    *rows = (leat_path_report){.size = sizeof *rows};
    int error = leat_stats_read(rank->job, LEAT_ALL_PEERS, &stats);
    if (!error)
        error = leat_path_query(rank->job, (rank->rank + 1) % rank->rank_count, 2, rows);
    error = md_agree(rank, error);
    if (error)
        return error;
    add_file_rows(rows);
    memset(word, 0, WORD_COUNT * sizeof *word);
    for (int p = 0; p < PHASE_COUNT; p++)
        word[WORD_PHASE + p] = md_clock_phase_us(&rank->clock, (enum md_phase)p);
    book_paths(&stats, rows, word);
    word[WORD_COUNTS] = (double)stats.launches;
    word[WORD_COUNTS + 1] = (double)stats.blocking_waits;
    word[WORD_COUNTS + 2] = (double)stats.signal_waits;
    word[WORD_COUNTS + 3] = (double)stats.wait_ns * 1e-9;
    word[WORD_COUNTS + 4] = (double)stats.arena_peak_bytes;
    word[WORD_COUNTS + 5] = (double)stats.proxy_orders;
    word[WORD_COUNTS + 6] = (double)stats.proxy_bytes;
    word[WORD_COUNTS + 7] = (double)stats.msg_provider_bytes;
    return md_sum(rank, word, WORD_COUNT);
}

static void set_times(const struct md_rank *rank, const double *word, struct md_report *report)
{
    report->has_time = true;
    report->median_us = md_clock_median_us(&rank->clock);
    for (int p = 0; p < PHASE_COUNT; p++)
        report->phase_us[p] = word[WORD_PHASE + p] / rank->rank_count;
    // Reduced time has no nanoseconds, and a minimisation no time.
    if (report->steps > 0 && rank->loop_s > 0.0 && rank->system.units != MD_UNITS_LJ &&
        !report->has_minimum)
        report->ns_per_day =
            (double)rank->clock.step_count * report->dt_ps * 1e-3 / rank->loop_s * 86400.0;
}

int md_report_make(struct md_rank *rank, struct md_report *report)
{
    double word[WORD_COUNT];
    leat_path_report rows;
    int error = gather(rank, &rows, word);
    if (error)
        return error;
    md_report_begin(&rank->system, rank->options, report);
    report->rank_count = rank->rank_count;
    leat_halo_info halo = {.size = sizeof halo};
    if (rank->domain.halo && !leat_halo_info_get(rank->domain.halo, &halo))
        report->mode =
            halo.mode; // processes that share a GPU are given another than they asked for
    memcpy(report->grid, rank->domain.decomposition.grid, sizeof report->grid);
    report->kernel = rank->gpu ? md_gpu_model(rank) : md_list_kernel(rank->domain.list);
    if (rank->gpu)
        report->device = md_gpu_device(rank);
    report->has_minimum = md_system_minimises(&rank->system);
    report->minimum = rank->minimum;
    report->steps = report->has_minimum ? rank->step : rank->system.settings.steps;
    report->energy = rank->energy;
    md_energy_in_units(report->units, &report->energy);
    double slope = md_slope_value(&rank->slope);
    report->has_drift = report->steps >= 100 && isfinite(slope);
    report->drift =
        slope / (double)report->atoms * report->units->energy_out / report->units->time_out;
    set_times(rank, word, report);
    for (int r = 0; r < rows.row_count; r++) {
        if (r >= rows.row_count - FILE_ROWS && !(word[WORD_OPERATIONS + r] > 0.0))
            continue;
        struct md_path *path = &report->path[report->path_count++];
        memcpy(path->name, rows.row[r].name, sizeof path->name);
        memcpy(path->reason, rows.row[r].reason, sizeof path->reason);
        path->chosen = rows.row[r].chosen != 0;
        path->bytes = word[WORD_BYTES + r];
        path->operations = word[WORD_OPERATIONS + r];
    }
    if (md_halo_check_sum(rank))
        report->checked = *md_halo_check_sum(rank);
    report->has_counts = rank->options->stats;
    report->counts = (struct md_counts){
        word[WORD_COUNTS],     word[WORD_COUNTS + 1], word[WORD_COUNTS + 2], word[WORD_COUNTS + 3],
        word[WORD_COUNTS + 4], word[WORD_COUNTS + 5], word[WORD_COUNTS + 6], word[WORD_COUNTS + 7]};
    return 0;
}

static void print_energy(const struct md_report *report, const char *name, double value,
                         FILE *stream)
{
    fprintf(stream, "  %-14s %18.6f", name, value);
    if (report->per_atom)
        fprintf(stream, " %18.10f", value / (double)report->atoms);
    fprintf(stream, "\n");
}

static void print_energies(const struct md_report *report, FILE *stream)
{
    const struct md_energy *energy = &report->energy;
    const struct md_units *units = report->units;
    fprintf(stream, "\nenergy at step %lld (%s%s)\n", (long long)report->steps, units->energy,
            report->per_atom ? "; and an atom" : "");
    const bool *has = report->has_term;
    bool improper = has[MD_TERM_IMPROPER] || has[MD_TERM_PERIODIC_IMPROPER];
    const struct {
        const char *name;
        double value;
        bool wanted;
    } rows[] = {
        {"Lennard-Jones", energy->lj, true},
        {"Coulomb", energy->coulomb, true},
        {"bonds", energy->bond, has[MD_TERM_BOND]},
        {"angles", energy->angle, has[MD_TERM_ANGLE]},
        {"dihedrals", energy->dihedral, has[MD_TERM_DIHEDRAL]},
        {"Ryckaert-Bell.", energy->ryckaert_bellemans, has[MD_TERM_RYCKAERT_BELLEMANS]},
        {"impropers", energy->improper, improper},
        {"LJ 1-4", energy->lj14, has[MD_TERM_PAIR]},
        {"Coulomb 1-4", energy->coulomb14, has[MD_TERM_PAIR]},
        {"potential", energy->potential, true},
        {"kinetic", energy->kinetic, true},
        {"total", energy->total, true},
        {"conserved", energy->conserved, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].wanted)
            print_energy(report, rows[i].name, rows[i].value, stream);
    int decimals = report->per_atom ? 10 : 3;
    fprintf(stream, "  %-14s %18.*f %s\n", "temperature", decimals, energy->temperature_k,
            units->temperature);
    if (energy->has_pressure)
        fprintf(stream, "  %-14s %18.*f %s\n", "pressure", decimals, energy->pressure_bar,
                units->pressure);
    else
        fprintf(stream, "  %-14s %18s (not defined before a step's constraints have acted)\n",
                "pressure", "-");
    if (report->has_drift)
        fprintf(stream, "  %-14s %18.3e %s/%s/atom\n", "drift", report->drift, units->energy,
                units->time);
}

static void print_check(const struct md_report *report, FILE *stream)
{
    const struct md_halo_checked *checked = &report->checked;
    fprintf(
        stream,
        "\nchecked at %lld step%s by brute force: %lld ghosts, each once and in place; %lld pairs, "
        "each on one rank; the forces of all pairs\n",
        (long long)checked->steps, checked->steps == 1 ? "" : "s", (long long)checked->ghosts,
        (long long)checked->pairs);
    if (checked->unseen)
        fprintf(stream, "%lld pairs had come within the cut-off from beyond the list\n",
                (long long)checked->unseen);
}

static void print_times(const struct md_report *report, FILE *stream)
{
    double sum = 0.0;
    for (int p = 0; p < PHASE_COUNT; p++)
        sum += report->phase_us[p];
    fprintf(stream, "\nstep time: median %.1f us, mean %.1f us", report->median_us, sum);
    if (report->ns_per_day > 0.0)
        fprintf(stream, ", %.2f ns/day of the mean", report->ns_per_day);
    fprintf(stream, "\n");
    for (int p = 0; p < PHASE_COUNT; p++)
        if (report->phase_us[p] > 0.0)
            fprintf(stream, "  %-20s %10.1f us %5.1f %%\n",
                    p == PHASE_HALO ? "halo (with waiting)" : md_phase_names[p],
                    report->phase_us[p], sum > 0.0 ? 100.0 * report->phase_us[p] / sum : 0.0);
}

static void print_bytes(double bytes, FILE *stream)
{
    const char *unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024.0 && u < 4) {
        bytes /= 1024.0;
        u++;
    }
    fprintf(stream, u ? "%9.1f %-3s" : "%9.0f %-3s", bytes, unit[u]);
}

static void print_paths(const struct md_report *report, FILE *stream)
{
    bool whole = report->has_counts;
    fprintf(stream, "\npaths%s, best first (* taken to the next rank)\n", whole ? "" : " in use");
    for (int p = 0; p < report->path_count; p++) {
        const struct md_path *path = &report->path[p];
        if (!whole && !path->chosen && !(path->bytes > 0.0))
            continue;
        fprintf(stream, "%c %-9s", path->chosen ? '*' : ' ', path->name);
        print_bytes(path->bytes, stream);
        fprintf(stream, " %9.0f ops  %s\n", path->operations, path->reason);
    }
}

void md_report_text(const struct md_report *report, FILE *stream)
{
    fprintf(stream,
            "%lld atoms on %d rank%s, grid %dx%dx%d, order %s, plan %s, mode %s, %s precision, "
            "device %s",
            (long long)report->atoms, report->rank_count, report->rank_count == 1 ? "" : "s",
            report->grid[0], report->grid[1], report->grid[2], report->order, report->plan,
            report->mode, report->precision, report->device);
    if (report->kernel)
        fprintf(stream, " (%s)", report->kernel);
    const struct md_units *units = report->units;
    fprintf(stream, "\ncut-off %g %s, list to %.4g %s", report->cutoff_nm * units->length_out,
            units->length, report->list_nm * units->length_out, units->length);
    if (report->has_minimum)
        fprintf(stream, "; minimised in %lld step%s, largest force %.6g kJ/mol/nm on atom %lld%s",
                (long long)report->steps, report->steps == 1 ? "" : "s", report->minimum.most_force,
                (long long)report->minimum.atom + 1,
                report->minimum.reached ? "" : ", which is above emtol");
    else if (report->steps > 0)
        fprintf(stream, "; %lld step%s of %g %s", (long long)report->steps,
                report->steps == 1 ? "" : "s", report->dt_ps * units->time_out, units->time);
    fprintf(stream, "\n");
    print_energies(report, stream);
    if (report->checked.steps)
        print_check(report, stream);
    if (report->has_time)
        print_times(report, stream);
    if (report->path_count)
        print_paths(report, stream);
    if (report->has_counts)
        fprintf(stream,
                "\nall ranks together: %.0f kernels launched, %.0f blocking waits, %.0f signals "
                "awaited, %.3f s in waits, regions %.1f MiB at most\n",
                report->counts.launches, report->counts.blocking_waits, report->counts.signal_waits,
                report->counts.wait_s, report->counts.arena_peak_bytes / 1048576.0);
    if (report->has_counts && report->counts.proxy_orders > 0)
        fprintf(stream, "the halo's proxy threads carried %.1f MiB and raised %.0f signals\n",
                report->counts.proxy_bytes / 1048576.0, report->counts.proxy_orders);
    if (report->has_counts && report->counts.provider_bytes > 0)
        fprintf(stream, "libfabric's provider took %.1f MiB for messages, beside their budget\n",
                report->counts.provider_bytes / 1048576.0);
}
