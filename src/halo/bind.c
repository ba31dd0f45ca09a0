// SPDX-License-Identifier: Apache-2.0
// leat_halo_open: a plan bound to fields.
//
// Algorithm: check what was given, post the board, compare with every peer's, let all ranks agree,
// then write one k_field a field with the addresses where each pulse's data and signals go.
// Advantage: an exchange afterwards computes no address and asks nobody. Disadvantage: collective.

#include "halo/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t type_bytes(enum leat_element element)
{
    return element == LEAT_F64 ? 8 : 4;
}

static int check_field(const struct leat_halo *halo, const leat_halo_options *options, int f)
{
    const leat_field *field = &options->fields[f];
    if (field->element > LEAT_WORDS || field->components < 1 || field->components > 64 ||
        (field->shifted && (field->components < 3 || field->element == LEAT_WORDS)))
        return leat_fail(-EINVAL,
                         "field %d: element type %d with %d components%s; types are LEAT_F32, "
                         "LEAT_F64, LEAT_WORDS, components 1 to 64, shifted ones floating with at "
                         "least 3",
                         f, (int)field->element, field->components,
                         field->shifted ? ", shifted" : "");
    if (field->acknowledged_by < 0 || field->acknowledged_by > options->field_count)
        return leat_fail(-EINVAL,
                         "field %d: acknowledged_by is %d: a field's number plus one, or 0", f,
                         field->acknowledged_by);
    if (field->zones < 0 || field->zones > 2)
        return leat_fail(-EINVAL, "field %d: %d landing zones; 1 or 2", f, field->zones);
    uint64_t elements = halo->plan->element_count;
    if (field->zones == 2)
        elements += halo_ghost_count(halo);
    uint64_t needed = elements * type_bytes(field->element) * (uint64_t)field->components;
    int error = leat_region_check(field->place.region, field->place.offset, 0, "field");
    if (error)
        return leat_fail_in(error, "field %d", f);
    const leat_region *region = field->place.region;
    const bool remote = halo->job->device->ops->region_alloc;
    const bool registered =
        region->kind == REGION_REGISTERED || region->kind == REGION_DEVICE_REGISTERED;
    if (region->owner == halo->job->rank && remote != (region->kind == REGION_DEVICE) &&
        !registered)
        return leat_fail(
            -EINVAL,
            "field %d: its region lies in the host's memory and the rank computes on a "
            "GPU; allocate it with leat_region_options.memory LEAT_MEMORY_DEVICE",
            f);
    if (region->owner != halo->job->rank || (registered && remote) ||
        ((uintptr_t)region->address + field->place.offset) % type_bytes(field->element))
        return leat_fail(-EINVAL,
                         "field %d: the region has to be this rank's (and on a GPU allocated by "
                         "leat), and what begins at its offset %llu aligned to the element's type",
                         f, (unsigned long long)field->place.offset);
    if (region->bytes - field->place.offset < needed)
        return leat_fail(-ENOSPC,
                         "field %d: %llu elements need %llu bytes, its region has %llu from offset "
                         "%llu on",
                         f, (unsigned long long)elements, (unsigned long long)needed,
                         (unsigned long long)(region->bytes - field->place.offset),
                         (unsigned long long)field->place.offset);
    return 0;
}

static int take_options(struct leat_halo *halo, const leat_halo_options *options)
{
    halo->mode = halo_mode_find(options->mode);
    if (!halo->mode)
        return leat_fail(-EINVAL, "no exchange mode has the number %d", (int)options->mode);
    if (options->field_count < 1 || options->field_count > LEAT_FIELDS_MAX)
        return leat_fail(-EINVAL, "%d fields; 1 to %d", options->field_count, LEAT_FIELDS_MAX);
    if (halo->plan->pulse_count > HALO_PULSES_MAX)
        return leat_fail(-E2BIG, "the plan has %d pulses; at most %d", halo->plan->pulse_count,
                         HALO_PULSES_MAX);
    halo->mode = halo_mode_for(halo->job, halo->mode);
    for (int f = 0; f < options->field_count; f++) {
        int error = check_field(halo, options, f);
        if (error)
            return error;
        halo->field[f].given = options->fields[f];
        halo->field[f].key = leat_region_key(options->fields[f].place.region);
        if (!halo->field[f].given.zones)
            halo->field[f].given.zones = 1;
        halo->field[f].element_bytes =
            type_bytes(options->fields[f].element) * (uint32_t)options->fields[f].components;
    }
    halo->field_count = options->field_count;
    uint64_t total = 0;
    for (int p = 0; p < halo->plan->pulse_count; p++)
        total += halo->plan->pulse[p].send_count;
    if (total > UINT32_MAX - 1)
        return leat_fail(-EOVERFLOW, "the plan sends %llu entries; at most %u",
                         (unsigned long long)total, UINT32_MAX - 1);
    halo->send_total = (uint32_t)total;
    return 0;
}

// Counters start where the caller says; they are fresh memory, so only then is there work.
static int start_signals(struct leat_halo *halo, uint64_t first_epoch)
{
    halo_board(halo->board)->first_epoch = first_epoch;
    size_t count = (size_t)halo->plan->pulse_count * (size_t)halo->field_count * BOARD_SIGNALS;
    if (!first_epoch || !count)
        return 0;
    struct leat_signal *signals = calloc(count, sizeof *signals);
    if (!signals)
        return leat_fail(-ENOMEM, "no memory for a halo's signals");
    for (size_t i = 0; i < count; i++)
        signals[i].value = first_epoch;
    int error = halo->signals->transport->put(halo->signals, 0, signals, count * sizeof *signals);
    free(signals);
    return error;
}

// NULL where only the proxy can get there.
static void *address_in(const leat_region *region, uint64_t offset)
{
    return region->address ? (char *)region->address + offset : NULL;
}

// Where what we send goes, and the signals that go with it; nothing for LEAT_NOBODY.
static void bind_receiver(struct leat_halo *halo, int f, int p, struct k_pulse *kernel)
{
    struct halo_peer *to = halo_peer_of(halo, halo->plan->pulse[p].send_rank);
    if (!to)
        return;
    const struct board *theirs = halo_board_of(to);
    int q = halo->to_pulse[p];
    kernel->x_landing = address_in(to->base[f], theirs->field[f].base_offset +
                                                    (uint64_t)theirs->pulse[q].recv_offset *
                                                        halo->field[f].element_bytes);
    kernel->x_stride = (uint64_t)theirs->ghost_count * halo->field[f].element_bytes;
    kernel->signal.x_there = halo_signal(to->signals, halo->field_count, q, f, BOARD_X_IN);
    kernel->signal.x_free_here = halo_signal(halo->signals, halo->field_count, p, f, BOARD_X_FREE);
    kernel->signal.f_here = halo_signal(halo->signals, halo->field_count, p, f, BOARD_F_IN);
    kernel->signal.f_free_there = halo_signal(to->signals, halo->field_count, q, f, BOARD_F_FREE);
}

// Where what we received goes back to.
static void bind_sender(struct leat_halo *halo, int f, int p, struct k_pulse *kernel)
{
    struct halo_peer *from = halo_peer_of(halo, halo->plan->pulse[p].recv_rank);
    if (!from)
        return;
    const struct board *theirs = halo_board_of(from);
    int q = halo->from_pulse[p];
    kernel->f_landing = address_in(from->returned, theirs->field[f].returned_offset +
                                                       (uint64_t)theirs->pulse[q].send_offset *
                                                           halo->field[f].element_bytes);
    kernel->signal.x_here = halo_signal(halo->signals, halo->field_count, p, f, BOARD_X_IN);
    kernel->signal.x_free_there = halo_signal(from->signals, halo->field_count, q, f, BOARD_X_FREE);
    kernel->signal.f_there = halo_signal(from->signals, halo->field_count, q, f, BOARD_F_IN);
    kernel->signal.f_free_here = halo_signal(halo->signals, halo->field_count, p, f, BOARD_F_FREE);
}

static void bind_pulse(struct leat_halo *halo, int f, int p, struct k_field *field)
{
    const leat_pulse *pulse = &halo->plan->pulse[p];
    struct k_pulse *kernel = (struct k_pulse *)(void *)(field + 1) + p;
    uint32_t send_offset = halo_board(halo->board)->pulse[p].send_offset;
    *kernel = (struct k_pulse){.index = (const uint32_t *)halo->index.address + send_offset,
                               .send_count = pulse->send_count,
                               .dependent_start = pulse->dependent_start,
                               .recv_count = pulse->recv_count,
                               .recv_offset = pulse->recv_offset,
                               .send_offset = send_offset,
                               .forward_needs = halo->forward_needs[p],
                               .reverse_needs = halo->reverse_needs[p],
                               .send_rank = pulse->send_rank,
                               .recv_rank = pulse->recv_rank};
    memcpy(kernel->shift, pulse->shift_nm, sizeof kernel->shift);
    bind_receiver(halo, f, p, kernel);
    bind_sender(halo, f, p, kernel);
    const uint64_t bit = UINT64_C(1) << p;
    field->senders |= pulse->recv_rank != LEAT_NOBODY ? bit : 0;
    field->receivers |= pulse->send_rank != LEAT_NOBODY ? bit : 0;
    field->f_tell |= pulse->send_rank != LEAT_NOBODY ? bit : 0;
    field->f_ask |= pulse->recv_rank != LEAT_NOBODY ? bit : 0;
    field->x_tell |= pulse->recv_rank != LEAT_NOBODY ? bit : 0;
    field->x_ask |= pulse->send_rank != LEAT_NOBODY ? bit : 0;
}

// Where kernels store themselves and announce a pulse by a signal, in elements of 12 or 16 bytes.
static uint32_t bulk_from(const struct leat_halo *halo, int f)
{
    const struct leat_job *job = halo->job;
    const leat_field *given = &halo->field[f].given;
    const bool chosen = job->config.source[SETTING_BULK] != FROM_DEFAULT;
    if (!halo->mode->takes_packets || given->element != LEAT_F32 ||
        (given->components != 3 && given->components != 4) || !halo_stores_to_all(halo))
        return 0;
    return (uint32_t)(chosen ? job->config.bulk : job->device->ops->bulk);
}

static struct k_field field_head(const struct leat_halo *halo, int f, uint64_t first_epoch)
{
    const struct halo_field *field = &halo->field[f];
    const struct board_field *posted = &halo_board(halo->board)->field[f];
    return (struct k_field){
        .base = (char *)field->given.place.region->address + field->given.place.offset,
        .returned = (char *)halo->returned->address + posted->returned_offset,
        .staging = halo->staging.address,
        .components = field->given.components,
        .shifted = field->given.shifted,
        .pulse_count = halo->plan->pulse_count,
        .home_count = halo->plan->home_count,
        .ghost_count = halo_ghost_count(halo),
        .zones = (uint32_t)field->given.zones,
        .first_epoch = first_epoch,
        .turns = field->turns.address,
        .meanwhile = halo->meanwhile,
        .source_start = halo->source_start.address,
        .source = halo->source.address,
        .sent_home = halo->sent_home.address,
        .sent_home_count = halo->sent_home_count,
        .bulk = bulk_from(halo, f),
        .wait = {.job = halo->job,
                 .timeout_ns = halo->job->timeout_ns,
                 .error = halo->error.address,
                 .report = halo->report},
    };
}

static int bind_field(struct leat_halo *halo, int f, uint64_t first_epoch)
{
    struct device *device = halo->job->device;
    size_t pulse_count = (size_t)halo->plan->pulse_count;
    size_t kernel_count = (size_t)halo->most_pulses + 1; // in mode pulse, and the others' one
    struct halo_field *field = &halo->field[f];
    int error = device->ops->alloc(device, kernel_count * sizeof(struct k_turns), &field->turns);
    if (!error)
        error = device->ops->alloc(
            device, sizeof(struct k_field) + pulse_count * sizeof(struct k_pulse), &field->kernel);
    if (error)
        return error;
    field->forward_epoch = field->reverse_epoch = first_epoch;
    struct k_field *kernel = field->kernel.host;
    *kernel = field_head(halo, f, first_epoch);
    for (int p = 0; p < halo->plan->pulse_count; p++)
        bind_pulse(halo, f, p, kernel);
    halo_packets_bind(halo, f, kernel);
    halo_proxy_bind(halo, f, kernel);
    return device->ops->publish(device, &field->kernel);
}

static int alloc_shared(struct leat_halo *halo)
{
    struct device *device = halo->job->device;
    uint64_t largest = 0, widest = 0;
    for (int p = 0; p < halo->plan->pulse_count; p++)
        if (halo->plan->pulse[p].send_count > largest)
            largest = halo->plan->pulse[p].send_count;
    for (int f = 0; f < halo->field_count; f++)
        if (halo->field[f].element_bytes > widest)
            widest = halo->field[f].element_bytes;
    int error = device->ops->alloc(device, sizeof(struct k_error), &halo->error);
    if (error)
        return error;
    void *report = halo->error.address;
    if (device->ops->report_alloc)
        error = device->ops->report_alloc(device, sizeof(struct k_error), &report);
    if (error)
        return error;
    halo->report = report;
    if (halo->mode->waits_in_stream && device->ops->waits_open)
        error = device->ops->waits_open(device);
    if (error)
        return error;
    return device->ops->alloc(device, largest * widest, &halo->staging);
}

// Ranks without pulses launch nothing, so nobody may wait for them.
static int join_gang(struct leat_halo *halo)
{
    struct device *device = halo->job->device;
    if (!device->ops->gang_join || !halo->mode->waits_in_kernels || !halo->plan->pulse_count)
        return 0;
    return device->ops->gang_join(device, halo->job->halo_sequence, &halo->gang);
}

static int check_owner(const leat_job *job, const leat_plan *plan)
{
    if (!plan)
        return leat_fail(-EINVAL, "leat_halo_open: plan is NULL");
    if (plan->rank == job->rank && plan->rank_count == job->rank_count)
        return 0;
    return leat_fail(-EINVAL, "the plan is of rank %d of %d, this is rank %d of %d", plan->rank,
                     plan->rank_count, job->rank, job->rank_count);
}

// Everything that can fail on one rank alone, up to the point where all ranks agree.
static int prepare(struct leat_halo *halo, const leat_halo_options *options)
{
    int error = check_owner(halo->job, halo->plan);
    if (!error)
        error = take_options(halo, options);
    if (!error)
        error = leat_plan_check(halo->plan);
    if (!error)
        error = alloc_shared(halo);
    if (!error)
        error = halo_invert(halo);
    if (!error)
        error = halo_board_post(halo);
    if (!error)
        error = start_signals(halo, options->first_epoch);
    if (!error)
        error = join_gang(halo);
    return error;
}

// Lets go of everything that is the job's; the handle itself stays the caller's.
static void release(struct leat_halo *halo)
{
    halo_proxy_free(halo); // first: it may still be on its way to peers' regions
    leat_lookout_remove(halo->job, &halo->lookout);
    for (int i = 0; i < halo->peer_count; i++) {
        free(halo->peer[i].copy);
        leat_region_free(halo->peer[i].board);
        leat_region_free(halo->peer[i].signals);
        leat_region_free(halo->peer[i].returned);
        leat_region_free(halo->peer[i].packets);
        for (int f = 0; f < LEAT_FIELDS_MAX; f++)
            leat_region_free(halo->peer[i].base[f]);
    }
    leat_region_retire(halo->board);
    leat_region_retire(halo->signals);
    leat_region_retire(halo->returned);
    leat_region_retire(halo->packets);
    struct device *device = halo->job->device;
    if (halo->gang)
        device->ops->gang_leave(halo->gang);
    if (halo->report && device->ops->report_free)
        device->ops->report_free(device, halo->report);
    struct device_memory *owned[] = {&halo->error,        &halo->staging, &halo->index,
                                     &halo->source_start, &halo->source,  &halo->sent_home,
                                     &halo->run,          &halo->loop,    &halo->found};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        device->ops->free(device, owned[i]);
    for (int f = 0; f < halo->field_count; f++) {
        device->ops->free(device, &halo->field[f].kernel);
        device->ops->free(device, &halo->field[f].turns);
    }
    *halo->child.link = halo->child.next;
    if (halo->child.next)
        halo->child.next->link = halo->child.link;
    halo->job = NULL;
}

static void orphan(struct job_child *child)
{
    struct leat_halo *halo = (struct leat_halo *)(void *)child;
    halo->failed = -ESHUTDOWN;
    strcpy(halo->detail, "its job has been closed");
    release(halo);
}

static int check_child(struct job_child *child)
{
    return halo_check_report((struct leat_halo *)(void *)child);
}

static struct leat_halo *new_halo(leat_job *job, const leat_plan *plan)
{
    struct leat_halo *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->job = job;
    made->plan = plan;
    made->child = (struct job_child){
        .next = job->children, .link = &job->children, .orphan = orphan, .check = check_child};
    if (made->child.next)
        made->child.next->link = &made->child.next;
    job->children = &made->child;
    return made;
}

static int look_out(struct leat_halo *halo)
{
    for (int i = 0; i < halo->peer_count; i++)
        halo->lookout_peers[i] = halo->peer[i].rank;
    halo->lookout = (struct lookout_item){
        .error = halo->error.address, .peer_count = halo->peer_count, .peers = halo->lookout_peers};
    return halo->mode->waits_in_kernels ? leat_lookout_add(halo->job, &halo->lookout) : 0;
}

static int compare_and_bind(struct leat_halo *halo, uint64_t first_epoch)
{
    int error = halo_board_compare(halo);
    if (!error)
        error = halo_proxy_open(halo, first_epoch);
    for (int f = 0; !error && f < halo->field_count; f++)
        error = bind_field(halo, f, first_epoch);
    if (!error && halo->mode->mode == LEAT_MODE_RESIDENT)
        error = halo_run_alloc(halo);
    return error ? error : look_out(halo);
}

int leat_halo_open(leat_job *job, const leat_plan *plan, const leat_halo_options *options,
                   leat_halo **halo)
{
    int error = leat_need(job, "leat_halo_open", "job");
    if (error)
        return error;
    job->halo_sequence++; // also by a rank that fails early: all ranks name the next one alike
    struct leat_halo *made = new_halo(job, plan);
    leat_halo_options full = {.size = sizeof full};
    error = made ? leat_need(halo, "leat_halo_open", "halo")
                 : leat_fail(-ENOMEM, "no memory for a halo");
    if (!error)
        error = leat_need(plan, "leat_halo_open", "plan");
    if (!error && (!options || !options->size))
        error = leat_fail(-EINVAL, "leat_halo_options.size is 0; set it to sizeof");
    if (!error) {
        memcpy(&full, options, options->size < sizeof full ? options->size : sizeof full);
        error = leat_need(full.fields, "leat_halo_open", "options->fields");
    }
    int unknown = halo_learn_sharing(job);
    error = error ? error : unknown;
    if (!error)
        error = prepare(made, &full);
    leat_proxy_drain(job); // what has been retired may be freed next
    // A rank that failed has no board to read; so nobody looks before all have one.
    error = leat_agree(job, error);
    if (!error) {
        leat_region_free_retired(job); // every rank has come out of the exchanges before
        error = halo_packets_open(made, full.first_epoch);
    }
    if (!error) {
        error = leat_agree(job, compare_and_bind(made, full.first_epoch));
    }
    if (error) {
        leat_halo_free(made);
        return error;
    }
    *halo = made;
    return 0;
}

void leat_halo_free(leat_halo *halo)
{
    if (!halo)
        return;
    if (halo->job)
        release(halo);
    free(halo);
}
