// SPDX-License-Identifier: Apache-2.0
// What arrives at a rank's service, and what it answers.
//
// Algorithm: a message is looked at where it lies: its cookie, its form, and then the directory of
// regions, whose owner changes it below the same lock; so a region that is found alive stays so
// until the bytes are copied. The signal is raised after them. Questions are noted and answered
// when there is a buffer. Advantage: nothing of a peer is trusted beyond its name. Disadvantage:
// each message looks the region up again.

#include "transport/far_internal.h"

#ifdef LEAT_HAVE_FABRIC

#include "core/log.h"

#include <errno.h>
#include <stdio.h>

static void lose(struct far *far, struct far_peer *peer, const char *fault)
{
    char why[200];
    snprintf(why, sizeof why, "was lost: it has sent %s", fault);
    far_peer_lose(far, peer, why);
}

// ---- Regions of this rank ----

static int place(const struct far *far, const struct region_key *key, uint64_t offset,
                 uint64_t bytes, bool signal, char **address)
{
    struct arena_head *head = far->job->arena.head;
    if (key->owner != far->job->rank || key->slot >= LEAT_REGION_SLOTS)
        return -EPROTO;
    const struct region_slot *slot = &head->slot[key->slot];
    // The owner writes the rest first and needs the lock to free it.
    if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) != key->generation ||
        !(key->generation & 1))
        return -ESTALE;
    uint64_t all = __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED);
    uint32_t kind = __atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
    if (offset > all || bytes > all - offset)
        return -ERANGE;
    if (leat_on_device(kind) || (signal && (kind != REGION_ARENA || offset % LEAT_SIGNAL_BYTES)))
        return -EINVAL;
    uint64_t first = __atomic_load_n(&slot->offset, __ATOMIC_RELAXED);
    *address =
        kind == REGION_ARENA ? (char *)head + first + offset : (char *)(uintptr_t)(first + offset);
    return 0;
}

static int store(const struct far *far, const struct far_header *header, const uint8_t *payload)
{
    char *to, *word;
    int error = 0;
    if (header->bytes) {
        error = place(far, &header->key, header->offset, header->bytes, false, &to);
        if (!error)
            memcpy(to, payload, header->bytes);
    }
    if (error || !(header->flags & FAR_SIGNALS))
        return error;
    error = place(far, &header->signal, header->signal_offset, LEAT_SIGNAL_BYTES, true, &word);
    if (!error)
        leat_signal_raise((struct leat_signal *)(void *)word, header->value);
    return error;
}

// ---- Questions ----

static void owe(struct far *far, struct far_peer *peer, struct far_owed owed)
{
    if (peer->owed_count == FAR_ASKED_A_PEER) {
        lose(far, peer, "more questions than it may");
        return;
    }
    uint32_t at = (peer->owed_first + peer->owed_count++) % FAR_ASKED_A_PEER;
    peer->owed[at] = owed;
}

static void take_put(struct far *far, struct far_peer *peer, const struct far_header *header,
                     const uint8_t *payload)
{
    const bool asks = header->flags & FAR_ASKS;
    // The rest of one that failed in part may never come, since its sender took it back.
    const bool failed = asks && peer->failed && peer->failed_id == header->id;
    int error = failed ? peer->failed : store(far, header, payload);
    // Nobody waits any more for a signal in memory that is freed: an exchange was acknowledged on a
    // longer way than the agreement of all ranks took that its halo is over.
    if (!asks && error && (header->bytes || error != -ESTALE))
        peer->refuses = error;
    if (asks) {
        peer->failed = header->flags & FAR_MORE ? error : 0;
        peer->failed_id = header->id;
    }
    if (asks && !(header->flags & FAR_MORE))
        owe(far, peer, (struct far_owed){.kind = FAR_DONE, .id = header->id, .error = error});
}

static void take_question(struct far *far, struct far_peer *peer, const struct far_header *header,
                          const uint8_t *payload)
{
    struct far_owed owed = {.id = header->id, .key = header->key};
    switch (header->kind) {
    case FAR_GET:
        owed.kind = FAR_DATA;
        owed.offset = header->offset;
        owed.bytes = header->value;
        owed.at = header->signal_offset;
        if (owed.bytes > FAR_PAYLOAD_BYTES)
            lose(far, peer, "a question for more than a message holds");
        else
            owe(far, peer, owed);
        break;
    case FAR_FIND:
        peer->asks = true;
        peer->asks_id = header->id;
        memcpy(peer->asks_name, payload, LEAT_REGION_NAME);
        break;
    case FAR_LOOK:
        owed.kind = FAR_FOUND;
        owe(far, peer, owed);
        break;
    default: // BYE
        peer->bye = true;
        owed.kind = FAR_DONE;
        owe(far, peer, owed);
        break;
    }
}

// ---- Reductions (core/reduce.c) ----

static void take_sum(struct far *far, struct far_peer *peer, const struct far_header *header,
                     const uint8_t *payload)
{
    const struct leat_job *job = far->job;
    struct reduce_side side;
    memcpy(&side, payload, sizeof side);
    side.detail[sizeof side.detail - 1] = 0;
    if (header->kind == FAR_SUM && job->rank == 0) {
        struct reduce_slot *slot = &leat_arena_head(job, peer->rank)->reduce;
        slot->side[side.epoch & 1] = side;
        leat_signal_raise(&slot->ready, side.epoch);
    } else if (header->kind == FAR_ANSWER && peer->rank == 0) {
        struct reduce_slot *slot = &job->arena.head->reduce;
        slot->answer = side;
        leat_signal_raise(&slot->answered, side.epoch);
    } else {
        lose(far, peer, "a reduction that was not its to send");
    }
}

// ---- Answers to this rank ----

static struct far_operation **awaited(struct far_peer *peer, uint64_t id)
{
    struct far_operation **at = &peer->awaiting;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    // Of a long get, the first parts come while the last are still to be asked for.
    if (!*at && peer->first && peer->first->id == id)
        return &peer->first;
    return at;
}

static void end(struct far *far, struct far_operation **at, int error)
{
    struct far_operation *operation = *at;
    *at = operation->next;
    far_finish(far, operation, error);
}

static void take_data(struct far *far, struct far_peer *peer, struct far_operation **at,
                      const struct far_header *header, const uint8_t *payload)
{
    struct far_operation *operation = *at;
    if (operation->verb != FAR_DO_GET || header->offset > operation->posted ||
        header->bytes > operation->posted - header->offset ||
        header->bytes > operation->bytes - operation->arrived) {
        lose(far, peer, "bytes that were not asked for");
        return;
    }
    if (header->error) {
        end(far, at, header->error);
        return;
    }
    memcpy((char *)operation->local + header->offset, payload, header->bytes);
    operation->arrived += header->bytes;
    if (operation->arrived == operation->bytes)
        end(far, at, 0);
}

static void take_found(struct far *far, struct far_peer *peer, struct far_operation **at,
                       const struct far_header *header)
{
    struct far_operation *operation = *at;
    if (operation->verb != FAR_DO_FIND && operation->verb != FAR_DO_LOOK) {
        lose(far, peer, "a region that was not asked for");
        return;
    }
    operation->found.slot = header->key.slot;
    operation->found.generation = header->key.generation;
    operation->found.bytes = header->value;
    operation->found.kind = (uint32_t)header->signal_offset;
    end(far, at, header->error);
}

static void take_done(struct far *far, struct far_peer *peer, struct far_operation **at, int error)
{
    if ((*at)->verb == FAR_DO_PUT || (*at)->verb == FAR_DO_BYE)
        end(far, at, error);
    else
        lose(far, peer, "that it is done, and was asked for something else");
}

static void take_answer(struct far *far, struct far_peer *peer, const struct far_header *header,
                        const uint8_t *payload)
{
    struct far_operation **at = awaited(peer, header->id), *operation = *at;
    // A question after a name is not counted: it may be taken back, and asked again.
    bool counts = header->kind != FAR_FOUND || header->offset == 0;
    if (counts && peer->asked == 0) {
        lose(far, peer, "an answer to no question");
        return;
    }
    peer->asked -= counts;
    if (!operation)
        return; // taken back
    if (header->kind == FAR_DATA)
        take_data(far, peer, at, header, payload);
    else if (header->kind == FAR_FOUND)
        take_found(far, peer, at, header);
    else
        take_done(far, peer, at, header->error);
}

// ---- Arrival ----

static void take_hello(struct far *far, struct far_peer *peer, const uint8_t *payload)
{
    struct far_hello hello;
    char why[200];
    memcpy(&hello, payload, sizeof hello);
    far_peer_meet(far, peer, hello.card);
    if (strcmp(hello.build, leat_build_id()) == 0)
        return;
    snprintf(why, sizeof why, "was lost: it runs leat %s, this rank %s; give all the same build",
             hello.build, leat_build_id());
    far_peer_lose(far, peer, why);
}

static void dispatch(struct far *far, struct far_peer *peer, const struct far_header *header,
                     const uint8_t *payload)
{
    switch (header->kind) {
    case FAR_HELLO:
        take_hello(far, peer, payload);
        break;
    case FAR_PUT:
        take_put(far, peer, header, payload);
        break;
    case FAR_SUM:
    case FAR_ANSWER:
        take_sum(far, peer, header, payload);
        break;
    case FAR_DONE:
    case FAR_DATA:
    case FAR_FOUND:
        take_answer(far, peer, header, payload);
        break;
    case FAR_REFUSED:
        peer->refused = header->error ? header->error : -EPROTO;
        break;
    default:
        take_question(far, peer, header, payload);
        break;
    }
}

void far_take(struct far *far, const uint8_t *message, size_t bytes)
{
    struct far_header header;
    struct far_peer *peer = NULL;
    int rank = far_sender(message, bytes, far->job->rank_count);
    if (rank >= 0) {
        memcpy(&header, message, sizeof header);
        peer = far_peer_proven(far, rank, header.cookie);
    }
    if (!peer) {
        if (far->strangers++ == 0)
            leat_log(far->job->config.log_level, LOG_WARN, far->job->rank,
                     "a message that came by libfabric was thrown away: it does not prove that it "
                     "is from a rank of this job; further ones are counted and not named");
        return;
    }
    if (peer->state == FAR_LOST)
        return;
    const char *fault = far_fault(message, bytes);
    if (fault)
        lose(far, peer, fault);
    else
        dispatch(far, peer, &header, message + sizeof header);
}

// ---- Answering ----

static int fill_answer(const struct far *far, struct far_slot *slot, const struct far_owed *owed)
{
    struct far_header *header = far_head(slot);
    char *from = NULL;
    int error = owed->error;
    header->id = owed->id;
    header->key = owed->key;
    if (owed->kind == FAR_DATA) {
        error = place(far, &owed->key, owed->offset, owed->bytes, false, &from);
        header->offset = owed->at;
        header->bytes = error ? 0 : (uint32_t)owed->bytes;
        if (!error)
            memcpy(far_payload(slot), from, owed->bytes);
    } else if (owed->kind == FAR_FOUND) {
        error = place(far, &owed->key, 0, 0, false, &from);
        if (!error) {
            const struct region_slot *found = &far->job->arena.head->slot[owed->key.slot];
            header->value = __atomic_load_n(&found->bytes, __ATOMIC_RELAXED);
            header->signal_offset = __atomic_load_n(&found->kind, __ATOMIC_RELAXED);
        }
    }
    return error;
}

static bool answer_one(struct far *far, struct far_peer *peer)
{
    const struct far_owed *owed = &peer->owed[peer->owed_first];
    struct far_slot *slot = far_slot_take(far, peer, owed->kind);
    if (!slot)
        return false;
    far_head(slot)->error = fill_answer(far, slot, owed);
    if (far_slot_send(far, peer, slot))
        return false;
    peer->owed_first = (peer->owed_first + 1) % FAR_ASKED_A_PEER;
    peer->owed_count--;
    return true;
}

static bool answer_name(struct far *far, struct far_peer *peer, bool *moved)
{
    struct region_key key = {.owner = far->job->rank};
    uint64_t bytes;
    uint32_t kind;
    if (!leat_region_named(far->job, peer->asks_name, &key, &bytes, &kind))
        return true; // when it is there
    struct far_slot *slot = far_slot_take(far, peer, FAR_FOUND);
    if (!slot)
        return false;
    struct far_header *header = far_head(slot);
    header->id = peer->asks_id;
    header->key = key;
    header->value = bytes;
    header->signal_offset = kind;
    header->offset = 1; // not counted
    if (far_slot_send(far, peer, slot))
        return false;
    peer->asks = false;
    *moved = true;
    return true;
}

static bool say_refused(struct far *far, struct far_peer *peer, bool *moved)
{
    struct far_slot *slot = far_slot_take(far, peer, FAR_REFUSED);
    if (!slot)
        return false;
    far_head(slot)->error = peer->refuses;
    if (far_slot_send(far, peer, slot))
        return false;
    peer->refuses = 0;
    *moved = true;
    return true;
}

bool far_answer(struct far *far, struct far_peer *peer, bool *moved)
{
    while (peer->owed_count) {
        if (!answer_one(far, peer))
            return false;
        *moved = true;
    }
    if (peer->asks && !answer_name(far, peer, moved))
        return false;
    return !peer->refuses || say_refused(far, peer, moved);
}

#endif
