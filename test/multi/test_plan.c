// SPDX-License-Identifier: Apache-2.0
// Halo plans of the decomposition helper against brute force, the ranks being threads
// (leat_options.thread_ranks).
//
// Each scene is made whole, so that the main thread knows every element and pair. The ranks build a
// plan from their share, follow it with stamped elements, and list the pairs that are theirs. Over
// all ranks, every pair within the cut-off has to be listed once.

#include "multi/ranks.h"

#include "core/job.h"
#include "halo/letter.h"
#include "halo/plan.h"

#include <errno.h>
#include <math.h>

// ---- Scenes ----

enum kind {
    KIND_UNIFORM,  // groups of 3, as water
    KIND_MIXED,    // groups of 1 to 9
    KIND_CORNER,   // all in the first domain
    KIND_BOUNDARY, // single elements on the bounds of domains, edges and corners included
    KIND_SPARSE,   // five groups, most domains empty
    KIND_EMPTY,
    KIND_COUNT
};

static const char *const kind_name[KIND_COUNT] = {"uniform",  "mixed",  "corner",
                                                  "boundary", "sparse", "empty"};

struct layout {
    int grid[3];
    double edge_nm[3];
    double cutoff_nm, radius_nm;
};

#define MOST_RANKS 8

// What a rank found, for the main thread.
struct share {
    uint32_t *pairs; // two global elements each
    size_t pair_count;
    double margin_nm;
};

struct scene {
    const struct layout *layout;
    enum leat_order order;
    enum kind kind;
    uint32_t element_count, group_count;
    uint32_t *start; // [group_count + 1]
    double *x_nm;    // [3 * element_count]
    int (*cell)[3];  // [element_count], domain of the group's centre
    double margin_nm;
    struct share share[MOST_RANKS];
};

static void *make(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (!memory)
        abort();
    return memory;
}

static double bound(const struct layout *layout, int d, int k)
{
    return layout->edge_nm[d] * k / layout->grid[d];
}

static double place_centre(const struct scene *scene, int d, struct ranks_random *random)
{
    const struct layout *layout = scene->layout;
    double u = ranks_random_real(random);
    if (scene->kind == KIND_BOUNDARY && u < 0.6) {
        double on = bound(layout, d, (int)(u / 0.6 * layout->grid[d]));
        // On it, or the next number below it.
        return u < 0.3 || on == 0 ? on : nextafter(on, 0);
    }
    double span = scene->kind == KIND_CORNER ? bound(layout, d, 1) : layout->edge_nm[d];
    return u * span * (1 - 1e-9);
}

static void place_group(struct scene *scene, uint32_t g, struct ranks_random *random)
{
    const struct layout *layout = scene->layout;
    uint32_t first = scene->start[g], last = scene->start[g + 1];
    for (int d = 0; d < 3; d++) {
        double centre = place_centre(scene, d, random), mean = 0;
        double radius = last - first > 1 ? layout->radius_nm : 0;
        for (uint32_t i = first; i < last; i++)
            scene->x_nm[3 * i + (uint32_t)d] =
                centre + radius * (2 * ranks_random_real(random) - 1);
        for (uint32_t i = first; i < last; i++)
            mean += scene->x_nm[3 * i + (uint32_t)d];
        mean /= last - first;
        double back = mean < 0                     ? layout->edge_nm[d]
                      : mean >= layout->edge_nm[d] ? -layout->edge_nm[d]
                                                   : 0;
        for (uint32_t i = first; i < last; i++)
            scene->x_nm[3 * i + (uint32_t)d] += back;
    }
}

static void find_cells(struct scene *scene)
{
    for (uint32_t g = 0; g < scene->group_count; g++)
        for (int d = 0; d < 3; d++) {
            uint32_t first = scene->start[g], last = scene->start[g + 1];
            double sum = 0;
            for (uint32_t i = first; i < last; i++)
                sum += scene->x_nm[3 * i + (uint32_t)d];
            double centre = sum / (last - first);
            int cell = 0;
            while (cell + 1 < scene->layout->grid[d] && centre >= bound(scene->layout, d, cell + 1))
                cell++;
            for (uint32_t i = first; i < last; i++) {
                scene->cell[i][d] = cell;
                scene->margin_nm =
                    fmax(scene->margin_nm, fabs(scene->x_nm[3 * i + (uint32_t)d] - centre));
            }
        }
}

static void make_scene(struct scene *scene, const struct layout *layout, enum leat_order order,
                       enum kind kind, uint64_t seed)
{
    static const uint32_t groups_of[KIND_COUNT] = {160, 110, 90, 420, 5, 0};
    struct ranks_random random = {.state = seed};
    *scene = (struct scene){
        .layout = layout, .order = order, .kind = kind, .group_count = groups_of[kind]};
    scene->start = make(scene->group_count + 1, sizeof *scene->start);
    for (uint32_t g = 0; g < scene->group_count; g++) {
        uint32_t mixed = 1 + (uint32_t)(ranks_random_word(&random) % 9);
        scene->start[g + 1] = scene->start[g] + (kind == KIND_MIXED      ? mixed
                                                 : kind == KIND_BOUNDARY ? 1
                                                                         : 3);
    }
    scene->element_count = scene->start[scene->group_count];
    scene->x_nm = make(scene->element_count, 3 * sizeof *scene->x_nm);
    scene->cell = make(scene->element_count, sizeof *scene->cell);
    for (uint32_t g = 0; g < scene->group_count; g++)
        place_group(scene, g, &random);
    find_cells(scene);
}

static void free_scene(struct scene *scene)
{
    free(scene->start);
    free(scene->x_nm);
    free(scene->cell);
    for (int r = 0; r < MOST_RANKS; r++)
        free(scene->share[r].pairs);
}

static leat_decomposition decomposition_of(const struct layout *layout, enum leat_order order)
{
    leat_decomposition decomposition = {
        .size = sizeof decomposition, .order = order, .cutoff_nm = layout->cutoff_nm};
    for (int d = 0; d < 3; d++) {
        decomposition.grid[d] = layout->grid[d];
        decomposition.box_nm[d][d] = layout->edge_nm[d];
    }
    return decomposition;
}

static void cell_of(const int grid[3], int rank, int cell[3])
{
    cell[0] = rank / (grid[1] * grid[2]);
    cell[1] = rank / grid[2] % grid[1];
    cell[2] = rank % grid[2];
}

static int rank_of(const int grid[3], int x, int y, int z)
{
    return ((x + grid[0]) % grid[0] * grid[1] + (y + grid[1]) % grid[1]) * grid[2] +
           (z + grid[2]) % grid[2];
}

// ---- One rank's view of a scene ----

struct element {
    double x_nm[3];
    uint32_t id; // global
};

struct view {
    int cell[3];
    leat_groups groups;
    uint32_t *start;
    double *x_nm;            // home only
    struct element *element; // home and ghosts
    uint32_t home_count;
    leat_plan *plan;
    leat_plan_info info;
};

static bool is_home(const struct scene *scene, const int cell[3], uint32_t element)
{
    return memcmp(scene->cell[element], cell, sizeof scene->cell[element]) == 0;
}

static void take_share(struct view *view, const struct scene *scene, int rank)
{
    *view = (struct view){.info = {.size = sizeof view->info}};
    cell_of(scene->layout->grid, rank, view->cell);
    view->start = make(scene->group_count + 1, sizeof *view->start);
    view->x_nm = make(scene->element_count, 3 * sizeof *view->x_nm);
    view->element = make(2 * scene->element_count, sizeof *view->element);
    for (uint32_t g = 0; g < scene->group_count; g++) {
        if (!is_home(scene, view->cell, scene->start[g]))
            continue;
        for (uint32_t i = scene->start[g]; i < scene->start[g + 1]; i++) {
            struct element *element = &view->element[view->home_count];
            memcpy(element->x_nm, scene->x_nm + 3 * i, sizeof element->x_nm);
            memcpy(view->x_nm + 3 * view->home_count, element->x_nm, sizeof element->x_nm);
            element->id = i;
            view->home_count++;
        }
        view->start[++view->groups.group_count] = view->home_count;
    }
    view->groups.start = view->start;
}

static void free_view(struct view *view)
{
    leat_plan_free(view->plan);
    free(view->start);
    free(view->x_nm);
    free(view->element);
}

static void check_frame(struct rank_thread *self, const struct scene *scene,
                        const struct view *view)
{
    const int *grid = scene->layout->grid, *c = view->cell;
    int p = 0;
    for (int i = 0; i < 3; i++) {
        int d = scene->order == LEAT_ORDER_XYZ ? i : 2 - i;
        int step[3] = {d == 0, d == 1, d == 2};
        int below = rank_of(grid, c[0] - step[0], c[1] - step[1], c[2] - step[2]);
        int above = rank_of(grid, c[0] + step[0], c[1] + step[1], c[2] + step[2]);
        double width_nm = scene->layout->edge_nm[d] / grid[d];
        double reach_nm = scene->layout->cutoff_nm + 2 * scene->margin_nm;
        int expected = grid[d] > 1 ? (int)ceil(reach_nm / width_nm - 1e-9) : 0;
        for (int k = 0; k < expected; k++, p++) {
            if (!rank_check(self, p < view->info.pulse_count, "%d pulses", view->info.pulse_count))
                return;
            const leat_pulse *pulse = &view->info.pulses[p];
            rank_check(self, pulse->dimension == d && pulse->direction == -1,
                       "pulse %d: dimension %d, direction %d", p, pulse->dimension,
                       pulse->direction);
            rank_check(self, pulse->send_rank == below && pulse->recv_rank == above,
                       "pulse %d: to %d, from %d; expected %d and %d", p, pulse->send_rank,
                       pulse->recv_rank, below, above);
            for (int e = 0; e < 3; e++)
                rank_check(self,
                           pulse->shift_nm[e] ==
                               (e == d && c[d] == 0 ? scene->layout->edge_nm[d] : 0),
                           "pulse %d: shift %g in %d", p, pulse->shift_nm[e], e);
        }
    }
    rank_check(self, p == view->info.pulse_count, "%d pulses, expected %d", view->info.pulse_count,
               p);
}

// Sends the stamped elements the way the plan says. False when it makes no sense to go on.
static bool follow_plan(struct rank_thread *self, struct view *view, uint32_t most)
{
    struct element *letter = make(most, sizeof *letter);
    uint32_t present = view->info.home_count;
    bool good = true;
    for (int p = 0; p < view->info.pulse_count && good; p++) {
        const leat_pulse *pulse = &view->info.pulses[p];
        for (uint32_t i = 0; i < pulse->send_count; i++) {
            letter[i] = view->element[pulse->index[i]];
            for (int d = 0; d < 3; d++)
                letter[i].x_nm[d] += pulse->shift_nm[d];
        }
        const void *data;
        uint64_t bytes;
        int error =
            leat_letter_swap(self->job, pulse->send_rank, letter,
                             pulse->send_count * sizeof *letter, pulse->recv_rank, &data, &bytes);
        good = rank_check(self, !error, "%s", leat_error_detail()) &&
               rank_check(self, bytes == pulse->recv_count * sizeof *letter,
                          "pulse %d: %llu bytes came for %u elements", p, (unsigned long long)bytes,
                          pulse->recv_count) &&
               rank_check(self, pulse->recv_offset == present, "pulse %d: offset %u, expected %u",
                          p, pulse->recv_offset, present);
        if (good && bytes)
            memcpy(view->element + pulse->recv_offset, data, bytes);
        present += pulse->recv_count;
    }
    free(letter);
    return good;
}

// Every ghost is the image above, once, with its zone, and near enough to be needed at all.
static void check_ghosts(struct rank_thread *self, const struct scene *scene,
                         const struct view *view)
{
    uint8_t *seen = make(scene->element_count, 1);
    for (uint32_t i = 0; i < view->info.element_count; i++) {
        const struct element *element = &view->element[i];
        double beyond2 = 0;
        unsigned zone = 0;
        rank_check(self, !seen[element->id]++, "element %u is there twice", element->id);
        for (int d = 0; d < 3; d++) {
            int theirs = scene->cell[element->id][d], own = view->cell[d];
            double x = scene->x_nm[3 * element->id + (uint32_t)d];
            double image = theirs < own ? x + scene->layout->edge_nm[d] : x;
            rank_check(self, element->x_nm[d] == image, "element %u: %.17g, expected %.17g",
                       element->id, element->x_nm[d], image);
            if (theirs == own)
                continue;
            zone |= 1u << d;
            double beyond = image - bound(scene->layout, d, own + 1) - scene->margin_nm;
            beyond2 += beyond > 0 ? beyond * beyond : 0;
        }
        rank_check(self, view->info.zone[i] == zone, "element %u: zone %u, expected %u",
                   element->id, view->info.zone[i], zone);
        rank_check(self, sqrt(beyond2) < scene->layout->cutoff_nm * (1 + 1e-4),
                   "element %u came from %g nm away", element->id, sqrt(beyond2));
    }
    free(seen);
}

static double distance2(const struct scene *scene, const double a[3], const double b[3],
                        bool across_all)
{
    double sum = 0;
    for (int d = 0; d < 3; d++) {
        double edge = scene->layout->edge_nm[d], difference = a[d] - b[d];
        // A rank looks across the boundary only where its domain goes all round.
        if (across_all || scene->layout->grid[d] == 1)
            difference -= edge * nearbyint(difference / edge);
        sum += difference * difference;
    }
    return sum;
}

#define DOUBT_NM 1e-9 // pairs so near the cut-off may be found or not

static void list_pairs(const struct scene *scene, const struct view *view, struct share *share)
{
    double limit = scene->layout->cutoff_nm + DOUBT_NM;
    size_t capacity = 0;
    for (uint32_t i = 0; i < view->info.element_count; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct element *a = &view->element[i], *b = &view->element[j];
            if (view->info.zone[i] & view->info.zone[j] ||
                distance2(scene, a->x_nm, b->x_nm, false) >= limit * limit)
                continue;
            if (share->pair_count == capacity) {
                capacity = 2 * capacity + 1024;
                share->pairs = realloc(share->pairs, capacity * 2 * sizeof *share->pairs);
                if (!share->pairs)
                    abort();
            }
            share->pairs[2 * share->pair_count] = a->id;
            share->pairs[2 * share->pair_count + 1] = b->id;
            share->pair_count++;
        }
}

static void rank_of_scene(struct rank_thread *self)
{
    struct scene *scene = self->user;
    struct share *share = &scene->share[self->rank];
    leat_decomposition decomposition = decomposition_of(scene->layout, scene->order);
    struct view view;
    take_share(&view, scene, self->rank);
    int error = leat_plan_build(self->job, &decomposition, &view.groups, view.x_nm, &view.plan);
    if (rank_check(self, !error, "%s", leat_error_detail())) {
        leat_plan_info_get(view.plan, &view.info);
        share->margin_nm = view.info.ghost_margin_nm;
        bool good = rank_check(self, leat_plan_check(view.plan) == 0, "%s", leat_error_detail()) &&
                    rank_check(self, view.info.home_count == view.home_count,
                               "%u home elements of %u", view.info.home_count, view.home_count) &&
                    rank_check(self, view.info.element_count <= scene->element_count,
                               "%u elements of %u", view.info.element_count, scene->element_count);
        check_frame(self, scene, &view);
        if (good && follow_plan(self, &view, 2 * scene->element_count)) {
            check_ghosts(self, scene, &view);
            list_pairs(scene, &view, share);
        }
    }
    free_view(&view);
}

static void check_pairs(const struct scene *scene, int rank_count)
{
    size_t n = scene->element_count;
    double cutoff = scene->layout->cutoff_nm;
    uint8_t *found = make(n * n, 1);
    for (int r = 0; r < rank_count; r++)
        for (size_t k = 0; k < scene->share[r].pair_count; k++) {
            size_t a = scene->share[r].pairs[2 * k], b = scene->share[r].pairs[2 * k + 1];
            found[a < b ? a * n + b : b * n + a]++;
        }
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++) {
            double distance =
                sqrt(distance2(scene, scene->x_nm + 3 * a, scene->x_nm + 3 * b, true));
            int least = distance < cutoff - DOUBT_NM, most = distance < cutoff + 2 * DOUBT_NM;
            if (found[a * n + b] < least || found[a * n + b] > most)
                fail_msg("elements %zu and %zu, %.12g nm apart, are a pair on %d ranks", a, b,
                         distance, found[a * n + b]);
        }
    free(found);
}

// ---- Each pair once ----

static const struct layout layouts[] = {
    {{1, 1, 1}, {2.1, 2.3, 2.2}, 0.9, 0.05},
    {{2, 1, 1}, {2.6, 1.9, 2.2}, 0.9, 0.05},
    {{1, 2, 2}, {1.9, 2.4, 2.9}, 0.9, 0.05},
    {{2, 2, 2}, {2.4, 2.8, 2.3}, 0.9, 0.05},
    {{8, 1, 1}, {3.3, 1.7, 1.9}, 0.8, 0.05},
    {{4, 2, 1}, {2.9, 2.1, 1.8}, 0.8, 0.05},
    {{1, 1, 3}, {1.8, 1.9, 2.0}, 0.8, 0.05},
    {{1, 3, 2}, {1.8, 2.4, 2.9}, 0.8, 0.15},
    // Groups that stick out need the second pulse.
    {{1, 1, 4}, {1.7, 1.8, 3.6}, 0.8, 0.05},
    // The cut-off is just a domain's width, and half of the box in y.
    {{4, 2, 1}, {3.2, 1.6, 2.0}, 0.8, 0},
};

#define LAYOUT_COUNT (sizeof layouts / sizeof layouts[0])

static void run_kind(enum kind kind)
{
    for (size_t s = 0; s < LAYOUT_COUNT; s++)
        for (int order = LEAT_ORDER_ZYX; order <= LEAT_ORDER_XYZ; order++) {
            const int *grid = layouts[s].grid;
            int ranks = grid[0] * grid[1] * grid[2];
            struct scene scene;
            make_scene(&scene, &layouts[s], (enum leat_order)order, kind,
                       1000 * s + 10 * (uint64_t)kind + (uint64_t)order);
            print_message("%s, %d x %d x %d, %s: %u elements\n", kind_name[kind], grid[0], grid[1],
                          grid[2], order == LEAT_ORDER_ZYX ? "zyx" : "xyz", scene.element_count);
            ranks_run(ranks, rank_of_scene, &scene);
            check_pairs(&scene, ranks);
            for (int r = 0; r < ranks; r++)
                assert_true(scene.share[r].margin_nm == scene.margin_nm);
            free_scene(&scene);
        }
}

static void test_each_pair_is_found_once_in_water(void **state)
{
    (void)state;
    run_kind(KIND_UNIFORM);
}

static void test_each_pair_is_found_once_with_mixed_groups(void **state)
{
    (void)state;
    run_kind(KIND_MIXED);
}

static void test_each_pair_is_found_once_with_all_in_one_domain(void **state)
{
    (void)state;
    run_kind(KIND_CORNER);
}

static void test_each_pair_is_found_once_on_the_bounds_of_domains(void **state)
{
    (void)state;
    run_kind(KIND_BOUNDARY);
}

static void test_each_pair_is_found_once_with_empty_domains(void **state)
{
    (void)state;
    run_kind(KIND_SPARSE);
}

static void test_a_box_without_elements_has_all_its_pulses(void **state)
{
    (void)state;
    run_kind(KIND_EMPTY);
}

// ---- The same again ----

static void rank_building_twice(struct rank_thread *self)
{
    const struct scene *scene = self->user;
    leat_decomposition decomposition = decomposition_of(scene->layout, scene->order);
    struct view view;
    take_share(&view, scene, self->rank);
    leat_plan *plan[2] = {NULL, NULL};
    leat_plan_info info[2] = {{.size = sizeof info[0]}, {.size = sizeof info[1]}};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        int error = leat_plan_build(self->job, &decomposition, &view.groups, view.x_nm, &plan[i]);
        good = rank_check(self, !error, "%s", leat_error_detail());
        if (good)
            leat_plan_info_get(plan[i], &info[i]);
    }
    for (int p = 0; good && p < info[0].pulse_count; p++) {
        const leat_pulse *a = &info[0].pulses[p], *b = &info[1].pulses[p];
        rank_check(self,
                   a->send_count == b->send_count && a->send_count > 0 &&
                       !memcmp(a->index, b->index, a->send_count * sizeof *a->index),
                   "pulse %d differs or is empty", p);
    }
    leat_plan_free(plan[0]);
    leat_plan_free(plan[1]);
    free_view(&view);
}

static void test_the_same_input_gives_the_same_plan(void **state)
{
    (void)state;
    struct scene scene;
    make_scene(&scene, &layouts[5], LEAT_ORDER_ZYX, KIND_MIXED, 7);
    ranks_run(8, rank_building_twice, &scene);
    free_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_is_found_once_in_water),
        cmocka_unit_test(test_each_pair_is_found_once_with_mixed_groups),
        cmocka_unit_test(test_each_pair_is_found_once_with_all_in_one_domain),
        cmocka_unit_test(test_each_pair_is_found_once_on_the_bounds_of_domains),
        cmocka_unit_test(test_each_pair_is_found_once_with_empty_domains),
        cmocka_unit_test(test_a_box_without_elements_has_all_its_pulses),
        cmocka_unit_test(test_the_same_input_gives_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
