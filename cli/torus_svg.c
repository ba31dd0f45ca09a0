// SPDX-License-Identifier: Apache-2.0
// The picture of a run: link loads by place, and the traffic over time.
//
// Algorithm: each node is a cell, coloured by the busiest link that leaves it: the bytes that went
// through against what it could have carried in the time. Ranks of a folded torus stand as they are
// folded, one panel for each place along the second side; others, and switches, in rows. Cells of
// one colour in a row are one rectangle. Advantage: one file, which any browser shows.
// Disadvantage: the other links of a node are not seen.

#include "core/error.h"
#include "torus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS        10
#define WIDTH         960.0
#define MARGIN        30.0
#define TITLE_HEIGHT  50.0
#define GRAPH_HEIGHT  180.0
#define PANEL_GAP     14.0
#define MAP_HEIGHT    420.0
#define LEGEND_HEIGHT 60.0

/* Light to dark, so that it reads without colour too. */
static const char *const colour[LEVELS + 1] = {"#f4f4f4", "#e3edf7", "#cfe1f2", "#b5d4e9",
                                               "#93c3df", "#6daed5", "#4b97c9", "#2f7ebc",
                                               "#1864aa", "#0a4a90", "#08306b"};

struct map {
    const char *name;
    int columns, rows, panels;
    const uint8_t *level; /* [panels][rows][columns]; above LEVELS: nothing there */
};

// ---- Loads ----

static double load_of(const struct sim_job *job, uint32_t vertex, double seconds)
{
    const struct sim_topology *topology = &job->topology;
    double most = 0;
    uint32_t count = topology->ops->out_count(topology, vertex);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = topology->ops->out_link(topology, vertex, i);
        if (index == SIM_LINK_NONE)
            continue;
        const struct sim_link_state *link = &job->fabric.network.link[index];
        double load = (double)link->bytes * link->ps_per_byte * 1e-12 / seconds;
        most = load > most ? load : most;
    }
    return most;
}

static uint8_t level_of(double load)
{
    if (load <= 0)
        return 0;
    double level = ceil(load * LEVELS);
    return (uint8_t)(level > LEVELS ? LEVELS : level);
}

// ---- Maps ----

static void write_map(FILE *file, const struct map *map, double top)
{
    int across = map->panels < 8 ? map->panels : 8, down = (map->panels + across - 1) / across;
    double panel_width = (WIDTH - 2 * MARGIN - PANEL_GAP * (across - 1)) / across;
    double panel_height = (MAP_HEIGHT - 20 - PANEL_GAP * (down - 1)) / down;
    double width = panel_width / map->columns, height = panel_height / map->rows;
    fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%s</text>\n", MARGIN, top + 12, map->name);
    for (int panel = 0; panel < map->panels; panel++) {
        int in_row = panel % across, in_column = panel / across;
        double left = MARGIN + in_row * (panel_width + PANEL_GAP);
        double above = top + 20 + in_column * (panel_height + PANEL_GAP);
        for (int row = 0; row < map->rows; row++) {
            const uint8_t *level = map->level + ((size_t)panel * (size_t)map->rows + (size_t)row) *
                                                    (size_t)map->columns;
            for (int from = 0, to; from < map->columns; from = to) {
                for (to = from + 1; to < map->columns && level[to] == level[from];)
                    to++;
                if (level[from] <= LEVELS)
                    fprintf(file,
                            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                            "fill=\"%s\"/>\n",
                            left + from * width, above + row * height, (to - from) * width, height,
                            colour[level[from]]);
            }
        }
        fprintf(file,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" "
                "stroke=\"#888\" stroke-width=\"0.5\"/>\n",
                left, above, panel_width, panel_height);
    }
}

static int write_folded(FILE *file, const struct sim_job *job, double seconds, double top)
{
    const struct sim_fold *fold = &job->fold;
    uint8_t *level = malloc((size_t)job->rank_count);
    if (!level)
        return leat_fail(-ENOMEM, "no memory for a map of %d ranks", job->rank_count);
    for (int rank = 0; rank < job->rank_count; rank++) {
        int at[SIM_FOLD_SIDES_MAX];
        sim_fold_coordinates(fold, rank, at);
        int cell = (at[1] * fold->side[2] + at[2]) * fold->side[0] + at[0];
        level[cell] = level_of(load_of(job, (uint32_t)job->node[rank], seconds));
    }
    struct map map = {.name = "busiest link of each node: first side to the right, third downward, "
                              "a panel for each place on the second",
                      .columns = fold->side[0],
                      .rows = fold->side[2],
                      .panels = fold->side[1],
                      .level = level};
    write_map(file, &map, top);
    free(level);
    return 0;
}

// Vertices from..to-1 in rows.
static int write_rows(FILE *file, const struct sim_job *job, double seconds, double top,
                      const char *name, uint32_t from, uint32_t to)
{
    int columns = (int)ceil(sqrt((double)(to - from) * 2)), count = (int)(to - from);
    int rows = (count + columns - 1) / columns;
    uint8_t *level = malloc((size_t)columns * (size_t)rows);
    if (!level)
        return leat_fail(-ENOMEM, "no memory for a map of %d vertices", count);
    memset(level, UINT8_MAX, (size_t)columns * (size_t)rows);
    for (uint32_t vertex = from; vertex < to; vertex++)
        level[vertex - from] = level_of(load_of(job, vertex, seconds));
    struct map map = {.name = name, .columns = columns, .rows = rows, .panels = 1, .level = level};
    write_map(file, &map, top);
    free(level);
    return 0;
}

static void write_legend(FILE *file, double top)
{
    fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">share of what the link could have carried</text>\n",
            MARGIN, top + 12);
    for (int i = 0; i <= LEVELS; i++)
        fprintf(file,
                "<rect x=\"%.0f\" y=\"%.0f\" width=\"40\" height=\"14\" fill=\"%s\" "
                "stroke=\"#888\" stroke-width=\"0.5\"/><text x=\"%.0f\" y=\"%.0f\" "
                "font-size=\"9\">%s%d %%</text>\n",
                MARGIN + i * 44, top + 18, colour[i], MARGIN + i * 44, top + 43, i ? "to " : "",
                i * 100 / LEVELS);
}

// ---- Time line ----

static void write_line(FILE *file, const struct torus_watch *watch, double seconds, double top)
{
    double most = 0, width = WIDTH - 2 * MARGIN, height = GRAPH_HEIGHT - 40;
    for (int i = 1; i < watch->count; i++) {
        const struct torus_sample *now = &watch->sample[i], *before = now - 1;
        double rate = (now->bytes - before->bytes) / (now->seconds - before->seconds);
        most = rate > most ? rate : most;
    }
    fprintf(file,
            "<text x=\"%.0f\" y=\"%.0f\">traffic in all links together: up to %.4g GB/s, over %.6g "
            "us</text>\n<rect x=\"%.0f\" y=\"%.0f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" "
            "stroke=\"#888\" stroke-width=\"0.5\"/>\n<polyline fill=\"none\" stroke=\"#1864aa\" "
            "points=\"",
            MARGIN, top + 12, most * 1e-9, seconds * 1e6, MARGIN, top + 20, width, height);
    for (int i = 1; most > 0 && i < watch->count; i++) {
        const struct torus_sample *now = &watch->sample[i], *before = now - 1;
        double rate = (now->bytes - before->bytes) / (now->seconds - before->seconds);
        double middle = (now->seconds + before->seconds) / 2 / seconds;
        fprintf(file, "%.2f,%.2f ", MARGIN + (middle < 1 ? middle : 1) * width,
                top + 20 + height * (1 - rate / most));
    }
    fprintf(file, "\"/>\n");
}

static void write_text(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc(*text, file);
}

static int write_all(FILE *file, const struct sim_job *job, const struct torus_watch *watch,
                     double seconds, const char *title)
{
    const struct sim_topology *topology = &job->topology;
    bool switches = topology->vertex_count > (uint32_t)topology->node_count;
    double top = TITLE_HEIGHT;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n<text x=\"%.0f\" y=\"28\" font-size=\"14\">",
            WIDTH,
            TITLE_HEIGHT + GRAPH_HEIGHT + (switches ? 2 : 1) * MAP_HEIGHT + LEGEND_HEIGHT + MARGIN,
            MARGIN);
    write_text(file, title);
    fprintf(file, "</text>\n");
    write_line(file, watch, seconds, top);
    top += GRAPH_HEIGHT;
    int error = job->folded ? write_folded(file, job, seconds, top)
                            : write_rows(file, job, seconds, top,
                                         "busiest link of each node, in "
                                         "rows by number",
                                         0, (uint32_t)topology->node_count);
    top += MAP_HEIGHT;
    if (!error && switches)
        error = write_rows(file, job, seconds, top,
                           "busiest link of each switch and host, in rows by number",
                           (uint32_t)topology->node_count, topology->vertex_count);
    write_legend(file, top + (switches ? MAP_HEIGHT : 0));
    fprintf(file, "</svg>\n");
    return error;
}

int torus_svg_write(const char *path, const struct sim_job *job, const struct torus_watch *watch,
                    double seconds, const char *title)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return leat_fail(-errno, "%s: %s", path, strerror(errno));
    int error = write_all(file, job, watch, seconds > 0 ? seconds : 1e-12, title);
    bool failed = ferror(file);
    if ((fclose(file) || failed) && !error)
        error = leat_fail(-EIO, "%s: it could not be written: %s", path, strerror(errno));
    return error;
}
