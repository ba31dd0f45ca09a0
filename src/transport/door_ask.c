// SPDX-License-Identifier: Apache-2.0
// Asking at the doors of other ranks' processes; see door.h.
//
// Algorithm: one connection a rank, made at the first ask and kept; one ask is under way at a time.
// Copies go through a piece of this rank's arena, which the other process has mapped too: it copies
// between that and its GPU, and this one between that and where the bytes are. Advantage: between
// any two kinds of memory, and also where nothing can be mapped. Disadvantage: two copies through
// the host, and each piece of 1 MiB waits for the last.

#define _GNU_SOURCE
#include "transport/door_internal.h"

#include "core/descriptor.h"
#include "device/ops.h"
#include "transport/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLICE_MS 20

// "region "x" (slot 3) of rank 1", as far as its directory still tells.
static void describe(const struct leat_region *view, char *text, size_t bytes)
{
    const struct arena_head *head = leat_arena_head(view->job, view->owner);
    const struct region_slot *slot = &head->slot[view->slot];
    char name[LEAT_REGION_NAME + 3] = "";
    if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) == view->generation && slot->name[0])
        snprintf(name, sizeof name, "\"%.*s\" ", LEAT_REGION_NAME - 1, slot->name);
    snprintf(text, bytes, "region %s(slot %u) of rank %d", name, view->slot, view->owner);
}

// ---- The connection ----

static int connect_to(const struct leat_job *job, int rank, uint64_t deadline_ns, int *fd)
{
    const struct gpu_card *card = &leat_arena_head(job, rank)->gpu;
    struct sockaddr_un address;
    if (!__atomic_load_n(&card->door_open, __ATOMIC_ACQUIRE))
        return -ECONNREFUSED;
    socklen_t length = leat_door_address(card->door, &address);
    int made = leat_descriptor_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (made < 0)
        return leat_fail(-errno, "a socket to another process: %s%s", strerror(errno),
                         leat_descriptor_remedy(errno));
    while (connect(made, (struct sockaddr *)&address, length)) {
        int reason = errno;
        if (reason != EINTR || leat_now_ns() >= deadline_ns) {
            close(made);
            return -reason;
        }
    }
    int pid = leat_door_process(made);
    if (pid != __atomic_load_n(&leat_rank_record(job, rank)->pid, __ATOMIC_RELAXED)) {
        close(made);
        return leat_fail(-EPERM, "process %d answers at the door of rank %d", pid, rank);
    }
    *fd = made;
    return 0;
}

static int await_answer(const struct leat_job *job, int rank, int fd, uint64_t deadline_ns)
{
    for (;;) {
        int lost = leat_rank_lost(job, rank);
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int ready = poll(&poller, 1, lost ? 0 : SLICE_MS);
        if (ready > 0)
            return 0;
        if (lost)
            return lost;
        if (leat_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

static int receive(int fd, struct door_answer *answer, int *descriptor)
{
    union door_control control = {0};
    struct iovec piece = {answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (got != sizeof *answer)
        return -ECONNRESET;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
        *descriptor = leat_descriptor_keep(*descriptor);
    }
    return 0;
}

// A connection on which an answer is still owed is of no more use.
static int exchange(struct door *door, int rank, const struct door_ask *ask,
                    struct door_answer *answer, int *descriptor)
{
    struct leat_job *job = door->job;
    const uint64_t deadline_ns = leat_now_ns() + job->timeout_ns;
    int error = leat_rank_lost(job, rank);
    if (!error && door->fd[rank] < 0)
        error = connect_to(job, rank, deadline_ns, &door->fd[rank]);
    if (error)
        return error == -ECONNREFUSED ? -ECONNRESET : error;
    ssize_t sent;
    while ((sent = send(door->fd[rank], ask, sizeof *ask, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    error = sent < 0 ? -ECONNRESET : await_answer(job, rank, door->fd[rank], deadline_ns);
    if (!error)
        error = receive(door->fd[rank], answer, descriptor);
    if (error) {
        close(door->fd[rank]);
        door->fd[rank] = -1;
    }
    return error;
}

int leat_door_ask(const struct leat_region *view, struct door_ask *ask, struct door_answer *answer,
                  int *fd)
{
    struct leat_job *job = view->job;
    struct door *door = job->door;
    char what[96];
    int descriptor = -1;
    ask->slot = view->slot;
    ask->generation = view->generation;
    *answer = (struct door_answer){0};
    pthread_mutex_lock(&door->asking);
    int error = exchange(door, view->owner, ask, answer, &descriptor);
    pthread_mutex_unlock(&door->asking);
    if (descriptor >= 0 && (!fd || error || answer->error)) {
        close(descriptor);
        descriptor = -1;
    }
    describe(view, what, sizeof what);
    if (error == -ECONNRESET || error == -ETIMEDOUT)
        return leat_peer_fail(job, error, what, view->owner, "");
    if (error)
        return leat_fail(error, "%s: its process cannot be asked: %s", what,
                         error == -EPERM || error == -EMFILE || error == -ENFILE
                             ? leat_error_detail()
                             : strerror(-error));
    answer->detail[sizeof answer->detail - 1] = 0;
    if (answer->error)
        return leat_fail(answer->error, "%s: rank %d says: %s", what, view->owner, answer->detail);
    if (fd)
        *fd = descriptor;
    return 0;
}

// ---- Copies ----

int leat_door_stage(struct leat_job *job)
{
    struct door *door;
    int error = leat_door_of(job, &door);
    return error || door->stage ? error : leat_arena_alloc(job, DOOR_STAGE_BYTES, &door->stage);
}

static char *stage_of(const struct leat_job *job)
{
    return (char *)job->arena.head + job->door->stage;
}

static int ask_for_piece(const struct leat_region *region, enum door_verb verb, uint64_t offset,
                         uint64_t bytes)
{
    struct door_answer answer;
    struct door_ask ask = {
        .verb = verb, .offset = offset, .bytes = bytes, .stage = region->job->door->stage};
    return leat_door_ask(region, &ask, &answer, NULL);
}

static uint64_t piece_of(uint64_t bytes)
{
    return bytes < DOOR_STAGE_BYTES ? bytes : DOOR_STAGE_BYTES;
}

int leat_door_put(const struct leat_region *to, uint64_t offset, const void *from, uint64_t bytes)
{
    struct leat_job *job = to->job;
    int error = 0;
    pthread_mutex_lock(&job->door->staging);
    for (uint64_t done = 0; !error && done < bytes;) {
        const uint64_t piece = piece_of(bytes - done);
        error = leat_device_copy(job, stage_of(job), (const char *)from + done, piece);
        if (!error)
            error = ask_for_piece(to, DOOR_WRITE, offset + done, piece);
        done += piece;
    }
    pthread_mutex_unlock(&job->door->staging);
    return error;
}

int leat_door_get(void *to, const struct leat_region *from, uint64_t offset, uint64_t bytes)
{
    struct leat_job *job = from->job;
    int error = 0;
    pthread_mutex_lock(&job->door->staging);
    for (uint64_t done = 0; !error && done < bytes;) {
        const uint64_t piece = piece_of(bytes - done);
        error = ask_for_piece(from, DOOR_READ, offset + done, piece);
        if (!error)
            error = leat_device_copy(job, (char *)to + done, stage_of(job), piece);
        done += piece;
    }
    pthread_mutex_unlock(&job->door->staging);
    return error;
}

// The signal goes with the last piece, or alone.
static int put_pieces(struct leat_job *job, const struct put_signal *order, bool on_device)
{
    const struct leat_region *to = order->to ? order->to : order->signals;
    const uint64_t bytes = order->to ? order->bytes : 0;
    uint64_t done = 0;
    int error = 0;
    if (!bytes && !on_device)
        return 0;
    do {
        const uint64_t piece = piece_of(bytes - done);
        struct door_answer answer;
        struct door_ask ask = {.verb = DOOR_WRITE,
                               .offset = bytes ? order->offset + done : 0,
                               .bytes = piece,
                               .stage = job->door->stage};
        if (piece)
            memcpy(stage_of(job), (const char *)order->from + done, piece);
        done += piece;
        if (on_device && done == bytes) {
            ask.signal_slot = order->signals->slot;
            ask.signal_generation = order->signals->generation;
            ask.signal_offset = order->signal_offset;
            ask.value = order->value;
        }
        error = leat_door_ask(to, &ask, &answer, NULL);
    } while (!error && done < bytes);
    return error;
}

int leat_door_put_signal(struct leat_job *job, const struct put_signal *order)
{
    const bool on_device = leat_on_device(order->signals->kind);
    pthread_mutex_lock(&job->door->staging);
    int error = put_pieces(job, order, on_device);
    pthread_mutex_unlock(&job->door->staging);
    if (!error && !on_device)
        leat_signal_raise(
            (struct leat_signal *)(void *)((char *)order->signals->address + order->signal_offset),
            order->value);
    return error;
}
