// SPDX-License-Identifier: Apache-2.0
// The replay of plans; see check.h.
//
// Algorithm: every home element is stamped with its rank, number and step, and goes forward; what a
// ghost then holds is compared with where the plan file says it comes from. On the way back every
// ghost is worth one, so a home element has to receive as many as it has copies. Advantage: a value
// that is wrong says by itself whose it is and of when. Disadvantage: a plan whose own idea of its
// ghosts is wrong passes; that is for the tests of whoever made it.

#include "halo/check.h"

#include "core/job.h"
#include "core/thread.h"
#include "halo/halo_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4096 // as many threads

const char *const leat_finding_names[FINDING_KINDS] = {
    "disagrees", "missing", "double", "misplaced", "stale", "sum", "failed"};

enum { FIELD_STAMP, FIELD_COUNT, FIELDS };

/* What all ranks' threads share. */
struct replay {
    const struct plan_set *set;
    enum leat_mode mode;
    int steps;
    uint32_t **copies; /* [rank][home], ghosts of each element over all ranks */
    pthread_mutex_t lock;
    struct check_report *report;
};

struct replay_rank {
    struct replay *replay;
    leat_job *job;
    pthread_t thread;
    const struct leat_plan *plan;
    const struct origin *origin;
    leat_region *region[FIELDS];
    uint32_t *stamp; /* rank, element, step */
    double *count;
    leat_halo *halo;
};

// ---- Findings ----

__attribute__((format(printf, 6, 7))) static void note(struct check_report *report,
                                                       enum finding_kind kind, int rank, int pulse,
                                                       uint32_t slot, const char *format, ...)
{
    report->count[kind]++;
    if (report->kept == FINDINGS_KEPT)
        return;
    struct finding *finding = &report->finding[report->kept++];
    *finding = (struct finding){.kind = kind, .rank = rank, .pulse = pulse, .slot = slot};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

uint64_t leat_check_total(const struct check_report *report)
{
    uint64_t total = 0;
    for (int kind = 0; kind < FINDING_KINDS; kind++)
        total += report->count[kind];
    return total;
}

// ---- Both sides of every pulse ----

static void compare_zones(const struct plan_set *set, int rank, int p, int q,
                          struct check_report *report)
{
    const leat_pulse *ours = &set->plan[rank]->pulse[p];
    const struct leat_plan *other = set->plan[ours->send_rank];
    for (uint32_t i = 0; i < ours->send_count; i++) {
        uint8_t here = set->plan[rank]->zone[ours->index[i]];
        uint8_t there = other->zone[other->pulse[q].recv_offset + i];
        if (here & ~there)
            note(report, FINDING_DISAGREES, rank, p, i,
                 "element %u has crossed dimensions %u at rank %d, and %u as ghost %u of rank %d",
                 ours->index[i], here, rank, there, other->pulse[q].recv_offset + i,
                 ours->send_rank);
    }
}

static void compare(const struct plan_set *set, int rank, int p, int sends,
                    struct check_report *report)
{
    const leat_pulse *ours = &set->plan[rank]->pulse[p];
    int peer = sends ? ours->send_rank : ours->recv_rank;
    if (peer == LEAT_NOBODY)
        return;
    uint32_t count = sends ? ours->send_count : ours->recv_count;
    const char *does = sends ? "sends" : "expects", *to = sends ? "to" : "from";
    int q = leat_plan_set_match(set, rank, p, sends);
    if (q < 0) {
        note(report, FINDING_DISAGREES, rank, p, 0,
             "rank %d %s %u elements %s rank %d, which %s nothing more %s it", rank, does, count,
             to, peer, sends ? "expects" : "sends", sends ? "from" : "to");
        return;
    }
    const leat_pulse *theirs = &set->plan[peer]->pulse[q];
    uint32_t their_count = sends ? theirs->recv_count : theirs->send_count;
    if (count != their_count)
        note(report, FINDING_DISAGREES, rank, p, count < their_count ? count : their_count,
             "rank %d %s %u elements %s rank %d, which %s %u in its pulse %d", rank, does, count,
             to, peer, sends ? "expects" : "sends", their_count, q);
    else if (sends)
        compare_zones(set, rank, p, q, report);
    if (theirs->dimension != ours->dimension || theirs->direction != ours->direction)
        note(report, FINDING_DISAGREES, rank, p, 0,
             "rank %d says dimension %c, %+d; rank %d dimension %c, %+d in its pulse %d", rank,
             'x' + ours->dimension, ours->direction, peer, 'x' + theirs->dimension,
             theirs->direction, q);
}

void leat_check_pairs(const struct plan_set *set, struct check_report *report)
{
    for (int rank = 0; rank < set->rank_count; rank++)
        for (int p = 0; p < set->plan[rank]->pulse_count; p++) {
            compare(set, rank, p, true, report);
            compare(set, rank, p, false, report);
        }
}

// ---- What a ghost holds ----

// How often an element is there among the rank's ghosts, or is expected to be.
static uint32_t times(const struct replay_rank *self, uint32_t owner, uint32_t element, bool there)
{
    uint32_t home = self->plan->home_count, found = 0;
    for (uint32_t g = 0; g < self->plan->element_count - home; g++) {
        const uint32_t *stamp = &self->stamp[3 * (size_t)(home + g)];
        found +=
            there ? stamp[0] == owner && stamp[1] == element
                  : (uint32_t)self->origin[g].owner == owner && self->origin[g].element == element;
    }
    return found;
}

static void judge_other(struct replay_rank *self, int p, uint32_t slot, const struct origin *wanted,
                        const uint32_t *stamp)
{
    struct check_report *report = self->replay->report;
    if (report->kept == FINDINGS_KEPT) { // to say what else it is takes a look at all ghosts
        report->count[FINDING_MISPLACED]++;
        return;
    }
    uint32_t owner = (uint32_t)wanted->owner, got_expected = times(self, stamp[0], stamp[1], false);
    uint32_t got_there = times(self, stamp[0], stamp[1], true);
    bool missing =
        times(self, owner, wanted->element, true) < times(self, owner, wanted->element, false);
    if (missing)
        note(report, FINDING_MISSING, self->job->rank, p, slot,
             "element %u of rank %u does not arrive; element %u of rank %u is in its place",
             wanted->element, owner, stamp[1], stamp[0]);
    if (got_there > got_expected)
        note(report, FINDING_DOUBLE, self->job->rank, p, slot,
             "element %u of rank %u comes %u times; %u expected", stamp[1], stamp[0], got_there,
             got_expected);
    else if (!missing)
        note(report, FINDING_MISPLACED, self->job->rank, p, slot,
             "element %u of rank %u is where element %u of rank %u should be", stamp[1], stamp[0],
             wanted->element, owner);
}

static void judge_ghost(struct replay_rank *self, int p, uint32_t slot, int step)
{
    const leat_pulse *pulse = &self->plan->pulse[p];
    uint32_t element = pulse->recv_offset + slot;
    const uint32_t *stamp = &self->stamp[3 * (size_t)element];
    const struct origin *wanted = &self->origin[element - self->plan->home_count];
    if (stamp[2] == (uint32_t)step + 1 &&
        (wanted->owner < 0 || (stamp[0] == (uint32_t)wanted->owner && stamp[1] == wanted->element)))
        return;
    pthread_mutex_lock(&self->replay->lock);
    if (stamp[2] != (uint32_t)step + 1)
        note(self->replay->report, FINDING_STALE, self->job->rank, p, slot,
             "ghost %u (element %u of rank %u) is of step %d in step %d", element, stamp[1],
             stamp[0], (int)stamp[2] - 1, step);
    else if (step == 0) // later steps would only say it again
        judge_other(self, p, slot, wanted, stamp);
    pthread_mutex_unlock(&self->replay->lock);
}

static void count_copy(struct replay_rank *self, uint32_t element)
{
    const uint32_t *stamp = &self->stamp[3 * (size_t)element];
    const struct plan_set *set = self->replay->set;
    if (stamp[0] < (uint32_t)set->rank_count && stamp[1] < set->plan[stamp[0]]->home_count)
        __atomic_fetch_add(&self->replay->copies[stamp[0]][stamp[1]], 1, __ATOMIC_RELAXED);
}

static void judge_sums(struct replay_rank *self, int step)
{
    for (uint32_t i = 0; i < self->plan->home_count; i++) {
        uint32_t wanted =
            __atomic_load_n(&self->replay->copies[self->job->rank][i], __ATOMIC_RELAXED);
        if (self->count[i] == wanted)
            continue;
        pthread_mutex_lock(&self->replay->lock);
        note(self->replay->report, FINDING_SUM, self->job->rank, -1, i,
             "step %d: element %u of rank %d has %u copies and gets %g back", step, i,
             self->job->rank, wanted, self->count[i]);
        pthread_mutex_unlock(&self->replay->lock);
    }
}

// ---- One rank's steps ----

static int forward(struct replay_rank *self, int step)
{
    const struct leat_plan *plan = self->plan;
    for (uint32_t i = 0; i < plan->home_count; i++) {
        self->stamp[3 * (size_t)i] = (uint32_t)self->job->rank;
        self->stamp[3 * (size_t)i + 1] = i;
        self->stamp[3 * (size_t)i + 2] = (uint32_t)step + 1; // fresh memory is of no step
    }
    int error = leat_halo_exchange(self->halo, FIELD_STAMP, LEAT_FORWARD);
    for (int p = 0; !error && p < plan->pulse_count; p++)
        for (uint32_t slot = 0; slot < plan->pulse[p].recv_count; slot++)
            judge_ghost(self, p, slot, step);
    if (!error && step == 0)
        for (uint32_t g = plan->home_count; g < plan->element_count; g++)
            count_copy(self, g);
    return error;
}

static int run_steps(struct replay_rank *self)
{
    const struct leat_plan *plan = self->plan;
    int error = 0;
    for (int step = 0; !error && step < self->replay->steps; step++) {
        error = forward(self, step);
        if (!error && step == 0)
            error = leat_barrier(self->job); // everybody's copies are counted
        for (uint32_t e = 0; e < plan->element_count; e++)
            self->count[e] = e >= plan->home_count;
        if (!error)
            error = leat_halo_exchange(self->halo, FIELD_COUNT, LEAT_REVERSE);
        if (!error)
            judge_sums(self, step);
    }
    return error;
}

static int open_halo(struct replay_rank *self)
{
    static const uint32_t element_bytes[FIELDS] = {12, 8};
    void *data[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        leat_region_options options = {
            .size = sizeof options,
            .bytes = (uint64_t)self->plan->element_count * element_bytes[f] + LEAT_SIGNAL_BYTES};
        int error = leat_region_alloc(self->job, &options, &self->region[f]);
        if (error)
            return error;
        data[f] = self->region[f]->address;
    }
    self->stamp = data[FIELD_STAMP];
    self->count = data[FIELD_COUNT];
    const leat_field fields[FIELDS] = {{.place = {self->region[FIELD_STAMP], 0},
                                        .element = LEAT_WORDS,
                                        .components = 3,
                                        .acknowledged_by = FIELD_COUNT + 1},
                                       {.place = {self->region[FIELD_COUNT], 0},
                                        .element = LEAT_F64,
                                        .components = 1,
                                        .acknowledged_by = FIELD_STAMP + 1}};
    const leat_halo_options options = {.size = sizeof options,
                                       .mode = self->replay->mode,
                                       .field_count = FIELDS,
                                       .fields = fields};
    return leat_halo_open(self->job, self->plan, &options, &self->halo);
}

static void *replay_rank(void *argument)
{
    struct replay_rank *self = argument;
    int error = open_halo(self);
    if (!error)
        error = run_steps(self);
    if (error) {
        pthread_mutex_lock(&self->replay->lock);
        note(self->replay->report, FINDING_FAILED, self->job->rank, -1, 0, "%s",
             leat_error_detail());
        pthread_mutex_unlock(&self->replay->lock);
        char reason[LEAT_DETAIL_BYTES];
        snprintf(reason, sizeof reason, "%s", leat_error_detail());
        leat_halo_free(self->halo);
        leat_close(self->job, reason); // nobody waits for this rank's time-out
        self->job = NULL;
        return NULL;
    }
    leat_halo_free(self->halo);
    return NULL;
}

// ---- All ranks ----

static uint64_t arena_bytes(const struct plan_set *set)
{
    uint64_t most = 0;
    for (int rank = 0; rank < set->rank_count; rank++) {
        const struct leat_plan *plan = set->plan[rank];
        uint64_t bytes = (uint64_t)plan->element_count * 20;
        for (int p = 0; p < plan->pulse_count; p++)
            bytes += (uint64_t)plan->pulse[p].send_count * 8 + 4096;
        most = bytes > most ? bytes : most;
    }
    // Room for the board, the directory and the ends of pages.
    return most + (UINT64_C(16) << 20) + (uint64_t)set->rank_count * 256;
}

static int alloc_copies(struct replay *replay)
{
    const struct plan_set *set = replay->set;
    replay->copies = calloc((size_t)set->rank_count, sizeof *replay->copies);
    bool all = replay->copies != NULL;
    for (int rank = 0; all && rank < set->rank_count; rank++) {
        replay->copies[rank] =
            calloc((size_t)set->plan[rank]->home_count + 1, sizeof **replay->copies);
        all = replay->copies[rank] != NULL;
    }
    return all ? 0 : leat_fail(-ENOMEM, "no memory to count the copies of every element");
}

static void free_copies(struct replay *replay)
{
    for (int rank = 0; replay->copies && rank < replay->set->rank_count; rank++)
        free(replay->copies[rank]);
    free(replay->copies);
}

static int run_ranks(struct replay *replay, struct replay_rank *ranks, leat_job **jobs)
{
    const struct plan_set *set = replay->set;
    leat_options options = {
        .size = sizeof options, .thread_ranks = set->rank_count, .arena_bytes = arena_bytes(set)};
    int error = leat_open(&options, jobs), started = 0;
    if (error)
        return error;
    for (; started < set->rank_count; started++) {
        ranks[started] = (struct replay_rank){.replay = replay,
                                              .job = jobs[started],
                                              .plan = set->plan[started],
                                              .origin = set->origin[started]};
        error = leat_thread_start(&ranks[started].thread, replay_rank, &ranks[started]);
        if (error)
            break;
    }
    if (error) {
        error = leat_fail(-error, "cannot start thread %d of %d ranks: %s", started,
                          set->rank_count, strerror(error));
        for (int rank = started; rank < set->rank_count; rank++)
            leat_close(jobs[rank], leat_error_detail());
    }
    for (int rank = 0; rank < started; rank++)
        pthread_join(ranks[rank].thread, NULL);
    for (int rank = 0; rank < started; rank++)
        leat_close(ranks[rank].job, NULL);
    return error;
}

int leat_check_replay(const struct plan_set *set, enum leat_mode mode, int steps,
                      struct check_report *report)
{
    if (set->rank_count > RANKS_MAX)
        return leat_fail(-E2BIG, "plans of %d ranks; at most %d are replayed as threads",
                         set->rank_count, RANKS_MAX);
    struct replay replay = {.set = set, .mode = mode, .steps = steps, .report = report};
    struct replay_rank *ranks = calloc((size_t)set->rank_count, sizeof *ranks);
    leat_job **jobs = calloc((size_t)set->rank_count, sizeof *jobs);
    int error = ranks && jobs ? alloc_copies(&replay)
                              : leat_fail(-ENOMEM, "no memory for %d ranks", set->rank_count);
    pthread_mutex_init(&replay.lock, NULL);
    if (!error)
        error = run_ranks(&replay, ranks, jobs);
    for (int rank = 0; !error && rank < set->rank_count; rank++)
        report->ghosts += (uint64_t)(set->plan[rank]->element_count - set->plan[rank]->home_count) *
                          (uint64_t)steps;
    report->exchanges += error ? 0 : 2 * (uint64_t)steps;
    pthread_mutex_destroy(&replay.lock);
    free_copies(&replay);
    free(ranks);
    free(jobs);
    return error;
}
