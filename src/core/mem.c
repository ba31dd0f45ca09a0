// SPDX-License-Identifier: Apache-2.0
// Regions and the directory by which peers find them.
//
// Algorithm: each rank keeps a table of slots in its arena's head. A slot's generation is odd while
// its region lives and grows by one at birth and at death, so a key (rank, slot, generation) can
// never be taken for a later region in the same place. Advantage: a peer finds, checks and maps a
// region by reading, without the owner's help. Disadvantage: names are found by a scan, which is
// for set-up only; plans use keys.

#include "core/region.h"

#include "device/copies.h"
#include "device/ops.h"
#include "transport/door.h"
#include "transport/far.h"
#include "transport/nvshmem.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELAXED __ATOMIC_RELAXED

struct slot_view {
    uint64_t generation, offset, bytes;
    uint32_t serial;
    enum region_kind kind;
    char name[LEAT_REGION_NAME];
};

// Slots are read while their owner may rewrite them, so every word goes through an atomic and the
// generation is compared before and after.
static bool read_slot(const struct region_slot *slot, struct slot_view *view)
{
    view->generation = __atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE);
    if (!(view->generation & 1))
        return false;
    view->offset = __atomic_load_n(&slot->offset, __ATOMIC_ACQUIRE);
    view->bytes = __atomic_load_n(&slot->bytes, __ATOMIC_ACQUIRE);
    view->kind = (enum region_kind)__atomic_load_n(&slot->kind, __ATOMIC_ACQUIRE);
    view->serial = __atomic_load_n(&slot->serial, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < sizeof view->name; i++)
        view->name[i] = __atomic_load_n(&slot->name[i], __ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->generation, RELAXED) == view->generation;
}

static void publish(struct leat_job *job)
{
    struct arena_head *head = job->arena.head;
    leat_signal_raise(&head->published, leat_signal_read(&head->published) + 1);
    far_published(job);
}

static int find_name(const struct arena_head *head, const char *name, struct slot_view *view)
{
    uint32_t count = __atomic_load_n(&head->slot_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < LEAT_REGION_SLOTS; i++)
        if (read_slot(&head->slot[i], view) && !strncmp(view->name, name, LEAT_REGION_NAME))
            return (int)i;
    return -1;
}

bool leat_region_named(struct leat_job *job, const char *name, struct region_key *key,
                       uint64_t *bytes, uint32_t *kind)
{
    struct slot_view view;
    int slot = find_name(job->arena.head, name, &view);
    if (slot < 0)
        return false;
    *key = (struct region_key){job->rank, (uint32_t)slot, view.generation};
    *bytes = view.bytes;
    *kind = (uint32_t)view.kind;
    return true;
}

static int free_slot(struct leat_job *job)
{
    struct arena_head *head = job->arena.head;
    uint32_t count = head->slot_count;
    for (uint32_t i = 0; i < count; i++)
        if (!(head->slot[i].generation & 1))
            return (int)i;
    if (count == LEAT_REGION_SLOTS)
        return leat_fail(-ENOMEM, "rank %d has %d regions already; free some", job->rank,
                         LEAT_REGION_SLOTS);
    __atomic_store_n(&head->slot_count, count + 1, __ATOMIC_RELEASE);
    return (int)count;
}

static int check_name(struct leat_job *job, const char *name)
{
    struct slot_view view;
    if (!name)
        return 0;
    if (strlen(name) >= LEAT_REGION_NAME || !name[0])
        return leat_fail(-ENAMETOOLONG, "region name \"%s\": 1 to %d characters", name,
                         LEAT_REGION_NAME - 1);
    if (find_name(job->arena.head, name, &view) >= 0)
        return leat_fail(-EEXIST, "rank %d has a region named \"%s\" already", job->rank, name);
    return 0;
}

// Whoever reads one of these words sees that the region which was here before is gone, too.
static void fill_slot(struct region_slot *slot, uint64_t offset, uint64_t bytes,
                      enum region_kind kind, uint32_t serial, const char *name)
{
    __atomic_store_n(&slot->offset, offset, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->kind, kind, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->serial, serial, __ATOMIC_RELEASE);
    size_t length = name ? strlen(name) : 0;
    for (size_t i = 0; i < LEAT_REGION_NAME; i++)
        __atomic_store_n(&slot->name[i], i < length ? name[i] : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->generation, slot->generation + 1, __ATOMIC_RELEASE);
}

static void link_region(struct leat_job *job, struct leat_region *region)
{
    region->job = job;
    region->next = job->regions;
    region->link = &job->regions;
    if (region->next)
        region->next->link = &region->next;
    job->regions = region;
}

static int own_region(struct leat_job *job, const leat_region_options *options,
                      enum region_kind kind, uint64_t offset, leat_region **region)
{
    // Who is asked for a name by the network has to be found there first.
    int error = job->networked && options->name ? far_open(job) : 0;
    if (!error && leat_on_device(kind))
        error = leat_door_open(job);
    if (error)
        return error;
    int slot = free_slot(job);
    if (slot < 0)
        return slot;
    struct leat_region *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a region handle");
    struct arena_head *head = job->arena.head;
    made->serial = kind == REGION_DEVICE ? leat_door_serial(job, offset) : 0;
    fill_slot(&head->slot[slot], offset, options->bytes, kind, made->serial, options->name);
    made->owner = job->rank;
    made->slot = (uint32_t)slot;
    made->generation = head->slot[slot].generation;
    made->bytes = options->bytes;
    made->remote = offset;
    made->kind = kind;
    made->address = kind == REGION_ARENA ? (char *)head + offset : (void *)(uintptr_t)offset;
    made->row = ROW_SELF;
    made->transport = leat_transports[ROW_SELF];
    link_region(job, made);
    publish(job);
    *region = made;
    return 0;
}

// Members beyond the caller's size count as zero.
static int read_options(const leat_region_options *options, leat_region_options *full)
{
    if (!options || !options->size)
        return leat_fail(-EINVAL, "leat_region_options.size is 0; set it to sizeof");
    *full = (leat_region_options){0};
    memcpy(full, options, options->size < sizeof *full ? options->size : sizeof *full);
    return 0;
}

static int arena_region(leat_job *job, const leat_region_options *options, leat_region **region)
{
    uint64_t offset = 0;
    int error = leat_arena_alloc(job, options->bytes, &offset);
    if (error)
        return error;
    error = own_region(job, options, REGION_ARENA, offset, region);
    if (error)
        leat_arena_free(job, offset, options->bytes);
    return error;
}

static void free_on_device(struct leat_job *job, void *address, uint64_t bytes)
{
    if (leat_nvshmem_holds(job))
        leat_nvshmem_free(job, address, bytes);
    else
        job->device->ops->region_free(job->device, address);
}

static int device_region(leat_job *job, const leat_region_options *options, leat_region **region)
{
    void *address;
    int error = leat_nvshmem_holds(job)
                    ? leat_nvshmem_alloc(job, options->bytes, &address)
                    : job->device->ops->region_alloc(job->device, options->bytes, &address);
    if (error)
        return error;
    error = own_region(job, options, REGION_DEVICE, (uint64_t)(uintptr_t)address, region);
    if (error)
        free_on_device(job, address, options->bytes);
    return error;
}

int leat_region_alloc(leat_job *job, const leat_region_options *options, leat_region **region)
{
    leat_region_options full = {0};
    int error = leat_need(job, "leat_region_alloc", "job");
    if (!error)
        error = leat_need(region, "leat_region_alloc", "region");
    if (!error)
        error = read_options(options, &full);
    if (!error)
        error = check_name(job, full.name);
    if (!error && full.memory != LEAT_MEMORY_HOST && full.memory != LEAT_MEMORY_DEVICE)
        error =
            leat_fail(-EINVAL, "leat_region_alloc: no memory has the number %d", (int)full.memory);
    if (error)
        return error;
    bool device = full.memory == LEAT_MEMORY_DEVICE && job->device->ops->region_alloc;
    return device ? device_region(job, &full, region) : arena_region(job, &full, region);
}

static int make_view(struct leat_job *job, int owner, uint32_t slot, const struct slot_view *found,
                     leat_region **region)
{
    int row = leat_path_choose(job, owner, found->kind, NULL);
    if (row < 0)
        return row;
    struct leat_region *made = calloc(1, sizeof *made);
    if (!made)
        return leat_fail(-ENOMEM, "no memory for a region handle");
    made->job = job;
    made->owner = owner;
    made->slot = slot;
    made->generation = found->generation;
    made->bytes = found->bytes;
    made->remote = found->offset;
    made->kind = found->kind;
    made->view = true;
    made->far = row == ROW_FABRIC;
    made->row = row;
    made->serial = found->serial;
    made->transport = leat_transports[row];
    int error = made->transport->attach ? made->transport->attach(made) : 0;
    if (error) {
        free(made);
        return error;
    }
    made->address = made->transport->map ? made->transport->map(made) : NULL;
    link_region(job, made);
    *region = made;
    return 0;
}

// Of a rank that is reached by the network, by name or, without one, by key.
static int ask_for_region(struct leat_job *job, int owner, const char *name,
                          const struct region_key *key, struct slot_view *view)
{
    char what[96];
    struct far_operation ask = {
        .verb = name ? FAR_DO_FIND : FAR_DO_LOOK, .rank = owner, .name = name};
    if (key)
        ask.key = *key;
    snprintf(what, sizeof what, "region%s%s%s of rank %d", name ? " \"" : "", name ? name : "",
             name ? "\"" : "", owner);
    int error = far_do(job, &ask, what);
    if (error)
        return error;
    if (ask.found.kind > REGION_DEVICE_REGISTERED || ask.found.slot >= LEAT_REGION_SLOTS)
        return leat_fail(-EPROTO, "%s: rank %d says what cannot be", what, owner);
    *view = (struct slot_view){.generation = ask.found.generation,
                               .bytes = ask.found.bytes,
                               .kind = (enum region_kind)ask.found.kind};
    return (int)ask.found.slot;
}

static int find_peer_region(struct leat_job *job, const leat_region_options *options,
                            struct slot_view *view)
{
    if (far_reaches(job, options->owner))
        return ask_for_region(job, options->owner, options->name, NULL, view);
    struct arena_head *head = leat_arena_head(job, options->owner);
    uint64_t deadline = leat_now_ns() + job->timeout_ns;
    for (;;) {
        uint64_t version = leat_signal_read(&head->published);
        int slot = find_name(head, options->name, view);
        if (slot >= 0)
            return slot;
        int error =
            leat_signal_wait(job, &head->published, version + 1, options->owner, deadline, NULL);
        if (error) {
            char what[96];
            snprintf(what, sizeof what, "region \"%s\" of rank %d", options->name, options->owner);
            return leat_wait_fail(job, error, what, options->owner, version + 1, version);
        }
    }
}

static int register_memory(leat_job *job, const leat_region_options *options, leat_region **region)
{
    const struct device_ops *ops = job->device->ops;
    const uint64_t address = (uint64_t)(uintptr_t)options->address;
    struct copies_found found = {.kind = COPIES_HOST};
    int error = check_name(job, options->name);
    if (!error && options->bytes > UINTPTR_MAX - address)
        error = leat_fail(-EINVAL, "%llu bytes from address %p on pass the end of memory",
                          (unsigned long long)options->bytes, options->address);
    if (!error && ops->region_alloc && options->bytes)
        error = ops->copies->find(job->device, options->address, options->bytes, &found);
    const bool on_device = found.kind == COPIES_DEVICE;
    return error
               ? error
               : own_region(job, options, on_device ? REGION_DEVICE_REGISTERED : REGION_REGISTERED,
                            address, region);
}

int leat_region_register(leat_job *job, const leat_region_options *options, leat_region **region)
{
    leat_region_options full = {0};
    int error = leat_need(job, "leat_region_register", "job");
    if (!error)
        error = leat_need(region, "leat_region_register", "region");
    if (!error)
        error = read_options(options, &full);
    if (error)
        return error;
    if (full.address)
        return register_memory(job, &full, region);
    if (!full.name || full.owner < 0 || full.owner >= job->rank_count)
        return leat_fail(-EINVAL,
                         "leat_region_register needs an address, or a name and an owner from 0 to "
                         "%d (got %d)",
                         job->rank_count - 1, full.owner);
    struct slot_view view;
    // Before anybody is asked: where no path leads there, that is the answer.
    int slot =
        far_reaches(job, full.owner) ? leat_path_choose(job, full.owner, REGION_ARENA, NULL) : 0;
    if (slot < 0)
        return slot;
    slot = find_peer_region(job, &full, &view);
    if (slot < 0)
        return slot;
    if (full.bytes > view.bytes)
        return leat_fail(-EINVAL, "region \"%s\" of rank %d has %llu bytes, %llu were expected",
                         full.name, full.owner, (unsigned long long)view.bytes,
                         (unsigned long long)full.bytes);
    return make_view(job, full.owner, (uint32_t)slot, &view, region);
}

int leat_region_attach(struct leat_job *job, const struct region_key *key, leat_region **region)
{
    struct slot_view view = {0};
    if (key->owner < 0 || key->owner >= job->rank_count || key->slot >= LEAT_REGION_SLOTS)
        return leat_fail(-EPROTO, "a region key names slot %u of rank %d: no such thing", key->slot,
                         key->owner);
    if (far_reaches(job, key->owner)) {
        int slot = ask_for_region(job, key->owner, NULL, key, &view);
        return slot < 0 ? slot : make_view(job, key->owner, key->slot, &view, region);
    }
    if (!read_slot(&leat_arena_head(job, key->owner)->slot[key->slot], &view) ||
        view.generation != key->generation)
        return leat_fail(-ESTALE, "rank %d has freed the region in its slot %u", key->owner,
                         key->slot);
    return make_view(job, key->owner, key->slot, &view, region);
}

struct region_key leat_region_key(const struct leat_region *region)
{
    return (struct region_key){region->owner, region->slot, region->generation};
}

int leat_region_check(const struct leat_region *region, uint64_t offset, uint64_t bytes,
                      const char *what)
{
    if (!region)
        return leat_fail(-EINVAL, "%s: no region given", what);
    if (offset > region->bytes || bytes > region->bytes - offset)
        return leat_fail(-ERANGE,
                         "%s: %llu bytes at offset %llu do not fit a region of %llu (rank %d)",
                         what, (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)region->bytes, region->owner);
    if (region->far)
        return 0; // its owner looks, with each operation
    const struct region_slot *slot =
        &leat_arena_head(region->job, region->owner)->slot[region->slot];
    if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) != region->generation)
        return leat_fail(-ESTALE, "%s: rank %d has freed this region", what, region->owner);
    return 0;
}

void leat_region_free(leat_region *region)
{
    if (!region)
        return;
    struct leat_job *job = region->job;
    if (!region->view) {
        struct region_slot *slot = &job->arena.head->slot[region->slot];
        __atomic_store_n(&slot->generation, region->generation + 1, __ATOMIC_RELEASE);
        far_settle(job);
        if (leat_on_device(region->kind))
            leat_door_settle(job);
        if (region->kind == REGION_ARENA)
            leat_arena_free(job, region->remote, region->bytes);
        else if (region->kind == REGION_DEVICE)
            free_on_device(job, region->address, region->bytes);
        publish(job);
    } else if (region->transport->detach) {
        region->transport->detach(region);
    }
    *region->link = region->next;
    if (region->next)
        region->next->link = region->link;
    free(region);
}

void leat_region_retire(struct leat_region *region)
{
    if (region)
        region->retired = true;
}

void leat_region_free_retired(struct leat_job *job)
{
    for (leat_region *region = job->regions, *next; region; region = next) {
        next = region->next;
        if (region->retired)
            leat_region_free(region);
    }
}

int leat_region_info_get(const leat_region *region, leat_region_info *info)
{
    int error = leat_need(region, "leat_region_info_get", "region");
    if (!error)
        error = leat_need(info, "leat_region_info_get", "info");
    if (error)
        return error;
    if (!info->size)
        return leat_fail(-EINVAL, "leat_region_info.size is 0; set it to sizeof");
    leat_region_info full = {.size = info->size,
                             .address = region->address,
                             .bytes = region->bytes,
                             .owner = region->owner,
                             .path = region->transport->name};
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return 0;
}
