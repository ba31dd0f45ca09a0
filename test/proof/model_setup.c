// SPDX-License-Identifier: Apache-2.0
// Sets up the job under the search: see model_halo.h for how and why.

#define _GNU_SOURCE
#include "proof/model_internal.h"

struct rank_job {
    int ranks;
    leat_job *jobs[RANKS_MAX];
};

static void ranks_do(struct rank_job *job, void (*body)(struct rank_thread *self), void *user)
{
    struct rank_thread self[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    for (int r = 0; r < job->ranks; r++) {
        self[r] = (struct rank_thread){
            .job = job->jobs[r], .rank = r, .rank_count = job->ranks, .user = user, .body = body};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main, &self[r]), 0);
    }
    for (int r = 0; r < job->ranks; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < job->ranks; r++)
        if (self[r].failure_count)
            fail_msg("rank %d: %s", r, self[r].failure);
}

static void ranks_open(struct rank_job *job, int ranks)
{
    leat_options options = {
        .size = sizeof options, .thread_ranks = ranks, .arena_bytes = 16 << 20, .timeout_s = 20};
    job->ranks = ranks;
    if (leat_open(&options, job->jobs))
        fail_msg("leat_open: %s", leat_error_detail());
}

// Which element each ghost is a copy of, found by an exchange of the library's own.
static bool learn_origins(struct rank_thread *thread, struct model_rank *self, leat_halo *halo)
{
    for (uint32_t i = 0; i < self->home; i++)
        self->x[i] = (double)((uint64_t)self->rank << 16 | i);
    if (!rank_check(thread, !leat_halo_exchange(halo, 0, LEAT_FORWARD), "%s", leat_error_detail()))
        return false;
    for (uint32_t g = 0; g < self->elements - self->home; g++) {
        self->origin[g] = (uint64_t)self->x[self->home + g];
        __atomic_fetch_add(&self->model->copies[self->origin[g] >> 16][self->origin[g] & 0xffff], 1,
                           __ATOMIC_RELAXED);
    }
    return !leat_barrier(thread->job);
}

static leat_halo *open_halo(struct rank_thread *thread, struct model_rank *self,
                            enum leat_mode mode, uint64_t first_epoch, uint32_t zones)
{
    bool forward_only = self->model->scenario->forward_only;
    const leat_field fields[2] = {{.place = {self->region[0], 0},
                                   .element = LEAT_F64,
                                   .components = 1,
                                   .zones = (int)zones,
                                   .acknowledged_by = forward_only ? 0 : 2},
                                  {.place = {self->region[1], 0},
                                   .element = LEAT_F64,
                                   .components = 1,
                                   .acknowledged_by = forward_only ? 0 : 1}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = mode,
                                       .field_count = 2,
                                       .fields = fields,
                                       .first_epoch = first_epoch};
    leat_halo *halo = NULL;
    rank_check(thread, !leat_halo_open(thread->job, self->plan, &options, &halo), "%s",
               leat_error_detail());
    return halo;
}

static leat_plan *plan_from_lists(struct rank_thread *thread, const struct scenario *scenario)
{
    uint32_t index[GHOSTS_MAX];
    leat_list sends[RANKS_MAX], receives[RANKS_MAX];
    int ranks = scenario->ranks, from = (thread->rank + ranks - 1) % ranks;
    uint32_t mine = scenario->empty >> thread->rank & 1 ? 0 : scenario->points;
    uint32_t theirs = scenario->empty >> from & 1 ? 0 : scenario->points;
    for (uint32_t i = 0; i < mine; i++)
        index[i] = i;
    for (int l = 0; l < scenario->lists; l++) {
        sends[l] = (leat_list){.rank = (thread->rank + 1) % ranks, .count = mine, .index = index};
        receives[l] = (leat_list){.rank = from, .count = theirs};
    }
    leat_lists lists = {.size = sizeof lists,
                        .home_count = mine,
                        .send_count = scenario->lists,
                        .recv_count = scenario->lists,
                        .sends = sends,
                        .receives = receives};
    leat_plan *plan = NULL;
    rank_check(thread, !leat_plan_lists(thread->job, &lists, &plan), "%s", leat_error_detail());
    return plan;
}

static leat_plan *plan_from_box(struct rank_thread *thread, const struct scenario *scenario)
{
    struct box *box = malloc(sizeof *box);
    box_fill(box, scenario->grid, scenario->cutoff_nm, scenario->points, scenario->empty, 11);
    leat_plan *plan = box_plan(thread, box);
    free(box);
    return plan;
}

static void set_up(struct rank_thread *thread)
{
    struct model *model = thread->user;
    const struct scenario *scenario = model->scenario;
    struct model_rank *self = &model->rank[thread->rank];
    self->plan =
        scenario->lists ? plan_from_lists(thread, scenario) : plan_from_box(thread, scenario);
    if (!self->plan)
        return;
    leat_plan_info info = box_info(self->plan);
    self->home = info.home_count;
    self->elements = info.element_count;
    if (!rank_check(thread, 2 * self->elements <= GHOSTS_MAX, "%u elements", self->elements))
        return;
    self->x = box_region(thread, GHOSTS_MAX * sizeof(double), &self->region[0]);
    self->f = box_region(thread, GHOSTS_MAX * sizeof(double), &self->region[1]);
    leat_halo *first = open_halo(thread, self, LEAT_MODE_FUSED, 0, 0);
    if (!first || !learn_origins(thread, self, first))
        return;
    leat_halo_free(first);
    for (int h = 0; h < (scenario->rebuild == SAME_MEMORY ? 1 : scenario->halos); h++)
        self->halo[h] =
            open_halo(thread, self, scenario->mode, scenario->first_epoch, scenario->zones);
}

static void take_apart(struct rank_thread *thread)
{
    struct model_rank *self = &((struct model *)thread->user)->rank[thread->rank];
    if (self->own)
        thread->job->device = self->own;
    for (int h = 0; h < HALOS_MAX; h++)
        leat_halo_free(self->halo[h]);
    leat_plan_free(self->plan);
}

static void put_aside(struct model_rank *self, int h, struct k_field *field)
{
    struct k_pulse *pulse = (struct k_pulse *)(void *)(field + 1);
    for (int p = 0; p < field->pulse_count; p++) {
        self->landing[h][p] = pulse[p].x_landing;
        pulse[p].x_landing = self->aside[h][p];
    }
}

static void share_halo(struct explorer *explorer, struct model_rank *self, int h)
{
    struct leat_halo *halo = self->halo[h];
    halo->mode = model_mode_find(self->model->scenario->mode);
    for (int f = 0; f < 2; f++) {
        struct k_field *field = halo->field[f].kernel.host;
        if (self->model->scenario->mutant == SIGNAL_BEFORE_DATA && f == 0)
            put_aside(self, h, field);
        explore_memory(explorer, halo->field[f].turns.host, halo->field[f].turns.bytes, true);
    }
    uint32_t largest = 0;
    for (int p = 0; p < halo->plan->pulse_count; p++)
        if (halo->plan->pulse[p].send_count > largest)
            largest = halo->plan->pulse[p].send_count;
    explore_memory(explorer, halo->staging.host, largest * sizeof(double), true);
    explore_memory(explorer, halo->signals->address, halo->signals->bytes, true);
    explore_memory(explorer, halo->returned->address, halo->returned->bytes, true);
    if (halo->run.host) {
        explore_memory(explorer, halo->run.host, halo->run.bytes, true);
        explore_memory(explorer, halo->loop.host, halo->loop.bytes, true);
        explore_memory(explorer, &halo->run, sizeof halo->run, false);
    }
    // Books of what has been called: a function of how far the rank is.
    explore_memory(explorer, halo->field, sizeof halo->field, false);
    explore_memory(explorer, &halo->sequence, sizeof halo->sequence, false);
    explore_memory(explorer, halo->meanwhile, sizeof halo->meanwhile, false);
    if (self->model->scenario->mutant == SIGNAL_BEFORE_DATA)
        explore_memory(explorer, self->aside[h], sizeof self->aside[h], true);
    if (self->model->scenario->proxied) {
        halo_proxy_detach(halo); // the library's own thread has no part in this
        explore_memory(explorer, halo->proxy->ring.host, halo->proxy->ring.bytes, true);
        explore_memory(explorer, halo->proxy->shared, halo->proxy->shared_bytes, true);
        explore_thread(explorer, model_carry, halo->proxy, true);
    }
}

static void share_rank(struct explorer *explorer, struct model_rank *self, leat_job *job)
{
    const struct scenario *scenario = self->model->scenario;
    self->device = (struct model_device){.base = {.ops = &model_ops, .job = job},
                                         .block_count = scenario->blocks};
    self->own = job->device;
    job->device = &self->device.base;
    job->config.block_count = (int)scenario->blocks;
    uint32_t zones = scenario->zones == 2 ? 2 : 1;
    uint32_t places = self->home + zones * (self->elements - self->home);
    memset(self->x, 0, places * sizeof *self->x);
    explore_memory(explorer, &self->device, sizeof self->device, true);
    explore_memory(explorer, self->x, places * sizeof *self->x, true);
    explore_memory(explorer, self->f, self->elements * sizeof *self->f, true);
    explore_memory(explorer, &self->now, sizeof self->now, true);
    for (int h = 0; h < HALOS_MAX && self->halo[h]; h++)
        share_halo(explorer, self, h);
    explore_thread(explorer, model_play, self, false);
    for (uint32_t b = 1; b < scenario->blocks; b++) {
        struct model_block *block = &self->model->block[self->rank * 4 + (int)b];
        *block = (struct model_block){self, b};
        explore_thread(explorer, model_serve, block, true);
    }
}

bool model_run(const struct scenario *scenario, uint64_t state_limit, struct explore_result *result)
{
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    model->scenario = scenario;
    model_use(model);
    struct rank_job job;
    for (int r = 0; r < scenario->ranks; r++) {
        model->rank[r].model = model;
        model->rank[r].rank = r;
    }
    if (scenario->proxied)
        setenv("LEAT_PATHS", "require:proxy", 1);
    ranks_open(&job, scenario->ranks);
    unsetenv("LEAT_PATHS");
    ranks_do(&job, set_up, model);
    struct explorer *explorer = explore_new();
    explore_memory(explorer, &model->arrived, sizeof model->arrived, true);
    for (int r = 0; r < scenario->ranks; r++)
        share_rank(explorer, &model->rank[r], job.jobs[r]);
    bool whole = explore_run(explorer, state_limit, result);
    explore_free(explorer);
    ranks_do(&job, take_apart, model);
    for (int r = 0; r < scenario->ranks; r++)
        leat_close(job.jobs[r], NULL);
    model_use(NULL);
    free(model);
    return whole;
}
