// SPDX-License-Identifier: Apache-2.0
// What a rank of the job under the search does: steps of exchanges, each value checked for whose it
// is and of which step, and a new halo now and then.
//
// Advantage: the calls are those of any program (leat_halo_run). Disadvantage: a new halo's
// agreement is a barrier here, since reduce.c waits in words of its own.

#include "proof/model_internal.h"

static double stamp(uint64_t origin, int halo, uint64_t step)
{
    return (double)(origin * 1000 + (uint64_t)halo * 100 + step + 1);
}

// ---- what a rank does ----

static int consume(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct model_rank *self = user;
    uint32_t ghosts = self->elements - self->home;
    uint64_t epoch = self->model->scenario->first_epoch + step + 1;
    uint32_t zone = self->model->scenario->zones == 2 && epoch & 1 ? ghosts : 0;
    for (uint32_t g = k_part(0, ghosts, block, block_count);
         g < k_part(0, ghosts, block + 1, block_count); g++) {
        double value = self->x[self->home + zone + g];
        if (value != stamp(self->origin[g], self->now, step))
            explore_violation("rank %d, halo %d, step %d, ghost %u: %g instead of %g", self->rank,
                              self->now, (int)step, g, value,
                              stamp(self->origin[g], self->now, step));
        self->f[self->home + g] = (double)(100 * (uint64_t)self->now + step + 1);
    }
    return 0;
}

// Only what is home, and while the peers' data may come in.
static int while_forward(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct model_rank *self = user;
    explore_step((uint32_t)step);
    for (uint32_t i = k_part(0, self->home, block, block_count);
         i < k_part(0, self->home, block + 1, block_count); i++) {
        if (self->x[i] != stamp((uint64_t)self->rank << 16 | i, self->now, step))
            explore_violation("rank %d, halo %d, step %d, element %u: %g while it travels",
                              self->rank, self->now, (int)step, i, self->x[i]);
        self->f[i] = -1;
    }
    return 0;
}

static int while_reverse(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct model_rank *self = user;
    explore_step((uint32_t)step);
    for (uint32_t i = k_part(0, self->home, block, block_count);
         i < k_part(0, self->home, block + 1, block_count); i++)
        self->f[i] += 1;
    return 0;
}

static int advance(void *user, uint32_t block, uint32_t block_count, uint64_t step)
{
    struct model_rank *self = user;
    for (uint32_t i = k_part(0, self->home, block, block_count);
         i < k_part(0, self->home, block + 1, block_count); i++) {
        double wanted =
            self->model->copies[self->rank][i] * (double)(100 * (uint64_t)self->now + step + 1);
        if (!self->model->scenario->forward_only && self->f[i] != wanted)
            explore_violation("rank %d, halo %d, step %d, element %u: sum %g instead of %g",
                              self->rank, self->now, (int)step, i, self->f[i], wanted);
        self->x[i] = stamp((uint64_t)self->rank << 16 | i, self->now, step + 1);
    }
    return 0;
}

static void barrier(struct model *model, uint64_t round)
{
    model->arrived++;
    explore_step(0);
    explore_until(&model->arrived, round * (uint64_t)model->scenario->ranks);
}

// A halo in the old one's memory, as if its board had been freed and allocated again.
static void clear_halo(struct model_rank *self, struct leat_halo *halo)
{
    for (int p = 0; p < halo->plan->pulse_count; p++)
        for (int f = 0; f < 2; f++)
            for (int s = 0; s < BOARD_SIGNALS; s++)
                if (self->model->scenario->mutant != STALE_SIGNALS)
                    halo_signal(halo->signals, 2, p, f, (enum board_signal)s)->value =
                        self->model->scenario->first_epoch;
    for (int f = 0; f < 2; f++) {
        memset(halo->field[f].turns.host, 0, halo->field[f].turns.bytes);
        halo->field[f].forward_epoch = self->model->scenario->first_epoch;
        halo->field[f].reverse_epoch = self->model->scenario->first_epoch;
        halo->field[f].forward_sequence = halo->field[f].reverse_sequence = 0;
    }
    halo->sequence = 0;
    explore_step(0);
}

void model_play(void *user)
{
    struct model_rank *self = user;
    const struct scenario *scenario = self->model->scenario;
    const leat_step step = {.size = sizeof step,
                            .reverse_field = scenario->forward_only ? -1 : 1,
                            .consume = consume,
                            .advance = advance,
                            .user = self,
                            .while_forward = while_forward,
                            .while_reverse = while_reverse};
    for (int h = 0; h < scenario->halos; h++) {
        self->now = h;
        struct leat_halo *halo = self->halo[scenario->rebuild == SAME_MEMORY ? 0 : h];
        if (h && scenario->rebuild == SAME_MEMORY)
            clear_halo(self, halo);
        // leat_halo_open agrees twice: all boards are written, all have been compared.
        if (h) {
            barrier(self->model, 2 * (uint64_t)h - 1);
            barrier(self->model, 2 * (uint64_t)h);
        }
        for (uint32_t i = 0; i < self->home; i++)
            self->x[i] = stamp((uint64_t)self->rank << 16 | i, h, 0);
        uint64_t done = 0;
        int error = leat_halo_run(halo, &step, (uint64_t)scenario->steps, &done);
        if (error || done != (uint64_t)scenario->steps)
            explore_violation("rank %d: %d after %d steps: %s", self->rank, error, (int)done,
                              leat_error_detail());
    }
}
