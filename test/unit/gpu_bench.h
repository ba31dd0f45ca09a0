/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank for tests of the GPU's kernels, without files and halo: every atom is of a kind of its
 * own, and ghosts are put where exchanges would have brought them. Include after cmocka.h.
 *
 * Advantage: kernels run on any positions and zones. Disadvantage: it fills a rank's structures by
 * hand, and has to follow them.
 */
#ifndef TEST_GPU_BENCH_H
#define TEST_GPU_BENCH_H

#include "md/gpu_internal.h"
#include "pair_systems.h"

struct bench {
    struct md_options options;
    struct md_rank rank;
    leat_job *job;
    uint8_t *zone;
};

static inline void *make(size_t count, size_t bytes)
{
    void *made = calloc(count + 1, bytes);
    assert_non_null(made);
    return made;
}

/* Elements from `home` on are ghosts; positions, sites and zones are the caller's to fill. */
static inline struct bench *bench_open(const struct pair_system *from, int elements, double list_nm)
{
    struct bench *b = make(1, sizeof *b);
    struct md_rank *rank = &b->rank;
    struct md_system *system = &rank->system;
    struct md_domain *domain = &rank->domain;
    size_t count = (size_t)elements;
    assert_return_code(leat_open(NULL, &b->job), 0);
    b->options.device = MD_DEVICE_EMULATED;
    b->options.rank_count = 1;
    b->zone = make(count, 1);
    *rank = (struct md_rank){.job = b->job, .rank_count = 1, .options = &b->options};
    system->interaction = from->interaction;
    system->list_nm = list_nm;
    system->settings.dt_ps = 0.002;
    system->site_count = elements;
    system->sites = make(count, sizeof *system->sites);
    domain->atoms.count = from->count;
    domain->element_count = (uint32_t)elements;
    domain->atoms.x_nm = make(3 * count, sizeof(double));
    domain->atoms.v_nm_ps = make(3 * count, sizeof(double));
    domain->atoms.f = make(3 * count, sizeof(double));
    domain->id = make(count, sizeof *domain->id);
    domain->site = make(count, sizeof *domain->site);
    domain->exclusion_start = from->exclusion_start;
    domain->exclusion = from->exclusion;
    domain->image[FIELD_X].data = make(3 * count, sizeof(float));
    domain->image[FIELD_F].data = make(3 * count, sizeof(float));
    domain->image[FIELD_SITE].data = make(count, sizeof(int32_t));
    for (int d = 0; d < 3; d++) {
        domain->decomposition.grid[d] = 1;
        system->box_nm[d][d] = from->box[d];
    }
    for (int i = 0; i < elements; i++) {
        domain->id[i] = domain->site[i] = ((int32_t *)domain->image[FIELD_SITE].data)[i] = i;
        system->sites[i] = (struct md_site){.mass_u = 16.0};
        if (i >= from->count)
            continue;
        system->sites[i].type = from->type[i];
        system->sites[i].charge_e = from->charge[i];
        for (int d = 0; d < 3; d++)
            domain->atoms.x_nm[3 * i + d] = from->x[3 * i + d];
    }
    md_clock_start(&rank->clock);
    return b;
}

static inline void bench_send(struct bench *b)
{
    assert_return_code(md_gpu_open(&b->rank), 0);
    assert_return_code(md_gpu_reserve(&b->rank), 0);
    assert_return_code(md_gpu_send(&b->rank, b->zone), 0);
}

static inline void bench_close(struct bench *b)
{
    struct md_domain *domain = &b->rank.domain;
    md_gpu_close(&b->rank);
    leat_close(b->job, NULL);
    md_together_end(&b->rank.together);
    void *arrays[] = {domain->atoms.x_nm,
                      domain->atoms.v_nm_ps,
                      domain->atoms.f,
                      domain->id,
                      domain->site,
                      domain->image[FIELD_X].data,
                      domain->image[FIELD_F].data,
                      domain->image[FIELD_SITE].data,
                      b->rank.system.sites,
                      b->zone};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        free(arrays[k]);
    free(b);
}

/* Random zones and places: home atoms in the box or a little outside, ghosts around it. */
static inline void scatter(struct bench *b, uint64_t seed, double spread)
{
    struct md_domain *domain = &b->rank.domain;
    float *x = domain->image[FIELD_X].data;
    for (int i = 0; i < (int)domain->element_count; i++) {
        bool home = i < domain->atoms.count;
        b->zone[i] = (uint8_t)(home ? 0 : 1 + (int)(7.0 * random_unit(&seed)));
        for (int d = 0; d < 3; d++) {
            double at = (1.2 * random_unit(&seed) - 0.1) * b->rank.system.box_nm[d][d];
            double place = home ? at : at + spread * (random_unit(&seed) - 0.3);
            x[3 * i + d] = (float)place;
            if (home)
                domain->atoms.x_nm[3 * i + d] = place;
        }
    }
}

#endif
