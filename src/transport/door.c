// SPDX-License-Identifier: Apache-2.0
// The door of a rank's process; see door.h.
//
// Algorithm: one thread sleeps in poll over the listener and everyone who has connected. Each ask
// is one packet and gets one packet, so a slow or broken asker holds up nobody: what it does not
// take at once is not sent again. A region's generation is looked at under the lock that its owner
// takes between the end of its life and the freeing of its memory. Advantage: what is given or
// copied is always a live region's. Disadvantage: one asker after the other.

#define _GNU_SOURCE
#include "transport/door_internal.h"

#include "core/descriptor.h"
#include "core/thread.h"
#include "device/copies.h"
#include "device/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define FULL_MS 20 // between two tries to let somebody in, where there is no descriptor

socklen_t leat_door_address(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "leat-%.*s",
                          LEAT_DOOR_BYTES - 1, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int leat_door_process(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    // A number that has become another user's is no rank's any more.
    bool ours = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid();
    return ours ? peer.pid : -1;
}

// ---- One ask ----

// What the ask is about, in this rank's memory, or why not.
static int find(const struct door *door, uint32_t number, uint64_t generation, uint64_t offset,
                uint64_t bytes, enum region_kind *kind, char **address)
{
    const struct arena_head *head = door->job->arena.head;
    if (number >= LEAT_REGION_SLOTS)
        return leat_fail(-EPROTO, "there is no such slot");
    const struct region_slot *slot = &head->slot[number];
    if (__atomic_load_n(&slot->generation, __ATOMIC_ACQUIRE) != generation || !(generation & 1))
        return leat_fail(-ESTALE, "it has been freed");
    uint64_t all = __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED);
    if (offset > all || bytes > all - offset)
        return leat_fail(-ERANGE, "%llu bytes at offset %llu do not fit its %llu",
                         (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)all);
    *kind = (enum region_kind)__atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
    if (!leat_on_device(*kind))
        return leat_fail(-EINVAL, "it is not a GPU's memory");
    *address = (char *)(uintptr_t)__atomic_load_n(&slot->offset, __ATOMIC_RELAXED) + offset;
    return 0;
}

static int give(struct door *door, const struct door_ask *ask, struct door_answer *answer, int *fd)
{
    struct device *device = door->job->device;
    enum region_kind kind;
    char *address;
    int error = find(door, ask->slot, ask->generation, 0, 0, &kind, &address);
    if (!error && (kind != REGION_DEVICE || !device->ops->share))
        error = leat_fail(-ENOTSUP, "it was not allocated by leat, so there is nothing to give");
    return error ? error : device->ops->share->give(device, address, fd, &answer->bytes);
}

static int copy_now(struct door *door, void *to, const void *from, uint64_t bytes)
{
    struct device *device = door->job->device;
    const struct copies_ops *copies = device->ops->copies;
    leat_device_info info = {.size = sizeof info, .number = -1};
    int error = 0;
    if (!door->lane) {
        device->ops->info(device, &info);
        error = copies->open(device, info.number, 1, COPIES_PLACE, &door->lane);
    }
    if (!error && bytes)
        error = copies->copy(door->lane, to, from, bytes);
    if (!error)
        error = copies->mark(door->lane, 0);
    if (error)
        return error;
    int passed = copies->passed(door->lane, 0, true);
    return passed < 0 ? passed : 0;
}

static int raise_signal(struct door *door, const struct door_ask *ask)
{
    enum region_kind kind;
    char *word;
    int error = find(door, ask->signal_slot, ask->signal_generation, ask->signal_offset,
                     LEAT_SIGNAL_BYTES, &kind, &word);
    if (!error && ask->signal_offset % LEAT_SIGNAL_BYTES)
        error = leat_fail(-EINVAL, "its signal is not aligned");
    if (error)
        return error;
    if (door->job->device->ops->asynchronous)
        return copy_now(door, word, &ask->value, sizeof ask->value);
    leat_signal_raise((struct leat_signal *)(void *)word, ask->value);
    return 0;
}

static int copy(struct door *door, int asker, const struct door_ask *ask)
{
    const uint64_t arena_bytes = door->job->segment->head->arena_bytes;
    enum region_kind kind;
    char *address;
    int error = find(door, ask->slot, ask->generation, ask->offset, ask->bytes, &kind, &address);
    if (!error && (ask->bytes > DOOR_STAGE_BYTES || ask->stage < sizeof(struct arena_head) ||
                   ask->stage > arena_bytes - ask->bytes))
        error = leat_fail(-EPROTO, "the place for its bytes is not in the asker's arena");
    if (error)
        return error;
    char *stage = (char *)leat_arena_head(door->job, asker) + ask->stage;
    error = ask->verb == DOOR_READ ? copy_now(door, stage, address, ask->bytes)
                                   : copy_now(door, address, stage, ask->bytes);
    return error || ask->verb == DOOR_READ || !ask->signal_generation ? error
                                                                      : raise_signal(door, ask);
}

static void reply(int to, const struct door_answer *answer, int fd)
{
    union door_control control = {0};
    struct iovec piece = {(void *)(uintptr_t)answer, sizeof *answer};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// False: the visitor has gone, or says what no rank says.
static bool serve_one(struct door *door, const struct visitor *visitor)
{
    struct door_ask ask;
    struct door_answer answer = {0};
    int fd = -1;
    ssize_t got = recv(visitor->fd, &ask, sizeof ask, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got != sizeof ask || ask.verb > DOOR_WRITE)
        return false;
    pthread_mutex_lock(&door->lock);
    answer.error =
        ask.verb == DOOR_GIVE ? give(door, &ask, &answer, &fd) : copy(door, visitor->rank, &ask);
    pthread_mutex_unlock(&door->lock);
    if (answer.error)
        snprintf(answer.detail, sizeof answer.detail, "%.255s", leat_error_detail());
    reply(visitor->fd, &answer, fd);
    if (fd >= 0)
        close(fd);
    return true;
}

// ---- The thread ----

// The rank whose process has connected, or -1.
static int rank_at(const struct door *door, int fd)
{
    const struct leat_job *job = door->job;
    int pid = leat_door_process(fd);
    for (int rank = 0; pid > 0 && rank < job->rank_count; rank++)
        if (!leat_rank_away(job, rank) &&
            __atomic_load_n(&leat_rank_record(job, rank)->pid, __ATOMIC_RELAXED) == pid)
            return rank;
    return -1;
}

// False: there is no descriptor for who has connected.
static bool let_in(struct door *door)
{
    int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    int rank = rank_at(door, fd);
    if (rank < 0 || door->visitor_count == door->visitor_most)
        close(fd);
    else
        door->visitors[door->visitor_count++] = (struct visitor){fd, rank};
    return true;
}

static void *serve(void *user)
{
    struct door *door = user;
    struct pollfd *pollers = calloc((size_t)door->visitor_most + 2, sizeof *pollers);
    bool full = false; // who stands outside would wake it again and again
    while (pollers) {
        int count = door->visitor_count;
        pollers[0] = (struct pollfd){.fd = door->wake[0], .events = POLLIN};
        pollers[1] = (struct pollfd){.fd = full ? -1 : door->listener, .events = POLLIN};
        for (int i = 0; i < count; i++)
            pollers[2 + i] = (struct pollfd){.fd = door->visitors[i].fd, .events = POLLIN};
        if (poll(pollers, (nfds_t)count + 2, full ? FULL_MS : -1) < 0)
            continue;
        full = false;
        if (pollers[0].revents)
            break;
        // From the last on: the one that takes a leaver's place has been looked at.
        for (int i = count - 1; i >= 0; i--)
            if (pollers[2 + i].revents && !serve_one(door, &door->visitors[i])) {
                close(door->visitors[i].fd);
                door->visitors[i] = door->visitors[--door->visitor_count];
            }
        if (pollers[1].revents)
            full = !let_in(door);
    }
    free(pollers);
    return NULL;
}

// ---- Opening and closing ----

int leat_door_of(struct leat_job *job, struct door **found)
{
    *found = job->door;
    if (*found)
        return 0;
    struct door *door = calloc(1, sizeof *door);
    int *fd = calloc((size_t)job->rank_count, sizeof *fd);
    if (!door || !fd) {
        free(door);
        free(fd);
        return leat_fail(-ENOMEM, "no memory for the doors of other processes");
    }
    *door = (struct door){.job = job, .listener = -1, .wake = {-1, -1}, .fd = fd};
    for (int rank = 0; rank < job->rank_count; rank++)
        fd[rank] = -1;
    pthread_mutex_init(&door->lock, NULL);
    pthread_mutex_init(&door->asking, NULL);
    pthread_mutex_init(&door->staging, NULL);
    *found = job->door = door;
    return 0;
}

static int listen_at(struct door *door, char name[LEAT_DOOR_BYTES])
{
    uint8_t bytes[16];
    struct sockaddr_un address;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    socklen_t length = leat_door_address(name, &address);
    door->listener =
        leat_descriptor_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (door->listener < 0 || bind(door->listener, (struct sockaddr *)&address, length) ||
        listen(door->listener, 4096) || pipe2(door->wake, O_CLOEXEC | O_NONBLOCK))
        return leat_fail(-errno, "cannot listen for processes that share this GPU's memory: %s%s",
                         strerror(errno), leat_descriptor_remedy(errno));
    return 0;
}

static void shut(struct door *door)
{
    if (door->listener >= 0)
        close(door->listener);
    for (int i = 0; i < 2; i++)
        if (door->wake[i] >= 0)
            close(door->wake[i]);
    door->listener = door->wake[0] = door->wake[1] = -1;
    free(door->visitors);
    door->visitors = NULL;
}

int leat_door_open(struct leat_job *job)
{
    struct door *door;
    char name[LEAT_DOOR_BYTES];
    if (job->segment->head->threads || job->rank_count == 1)
        return 0;
    int error = leat_door_of(job, &door);
    if (error || door->open)
        return error;
    door->visitor_most = 2 * job->rank_count;
    door->visitors = calloc((size_t)door->visitor_most, sizeof *door->visitors);
    error = door->visitors ? listen_at(door, name)
                           : leat_fail(-ENOMEM, "no memory for a door to this GPU's memory");
    int code = error ? 0 : leat_thread_start(&door->thread, serve, door);
    if (code)
        error = leat_fail(-code, "cannot start the thread at the door: %s", strerror(code));
    if (error) {
        shut(door);
        return error;
    }
    struct gpu_card *card = &job->arena.head->gpu;
    memcpy(card->door, name, sizeof card->door);
    __atomic_store_n(&card->door_open, 1, __ATOMIC_RELEASE);
    door->open = true;
    return 0;
}

uint32_t leat_door_serial(struct leat_job *job, uint64_t address)
{
    const struct share_ops *share = job->device->ops->share;
    return share && job->door ? share->serial(job->device, (const void *)(uintptr_t)address) : 0;
}

void leat_door_settle(struct leat_job *job)
{
    if (!job->door)
        return;
    pthread_mutex_lock(&job->door->lock);
    pthread_mutex_unlock(&job->door->lock);
}

void leat_door_close(struct leat_job *job)
{
    struct door *door = job->door;
    if (!door)
        return;
    if (door->open) {
        while (write(door->wake[1], "", 1) < 0 && errno == EINTR)
            ;
        pthread_join(door->thread, NULL);
        for (int i = 0; i < door->visitor_count; i++)
            close(door->visitors[i].fd);
        if (door->lane)
            job->device->ops->copies->close(door->lane);
    }
    shut(door);
    leat_imports_close(job);
    for (int rank = 0; rank < job->rank_count; rank++)
        if (door->fd[rank] >= 0)
            close(door->fd[rank]);
    if (door->stage)
        leat_arena_free(job, door->stage, DOOR_STAGE_BYTES);
    pthread_mutex_destroy(&door->lock);
    pthread_mutex_destroy(&door->asking);
    pthread_mutex_destroy(&door->staging);
    free(door->fd);
    free(door);
    job->door = NULL;
}
