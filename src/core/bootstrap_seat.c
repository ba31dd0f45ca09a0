// SPDX-License-Identifier: Apache-2.0
// The seat: how the ranks of a host get the one segment.
//
// Algorithm: whoever makes the segment listens at a socket in the abstract namespace, under a name
// of 128 random bits that only the job learns, and hands the descriptor to every process of the
// same user that connects. The kernel says who that is, to both sides. Advantage: nothing in the
// file system, nothing left when a process dies, and no right to look into another process is
// needed (unlike /proc/PID/fd). Disadvantage: both have to be in one network namespace.

#define _GNU_SOURCE
#include "core/bootstrap.h"

#include "core/descriptor.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int leat_poll_ms(uint64_t deadline_ns)
{
    uint64_t now = leat_now_ns();
    uint64_t left_ms = now < deadline_ns ? (deadline_ns - now + 999999) / 1000000 : 0;
    return left_ms < 3600000 ? (int)left_ms : 3600000;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "leat-%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int draw_name(char name[HELLO_SEAT_BYTES + 1])
{
    uint8_t bytes[HELLO_SEAT_BYTES / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int listen_at(struct seat *seat)
{
    struct sockaddr_un address;
    int error = draw_name(seat->name);
    if (error)
        return error;
    socklen_t bytes = address_of(seat->name, &address);
    int fd = leat_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, 4096)) {
        error = leat_fail(-errno, "cannot listen for the ranks of this host: %s%s", strerror(errno),
                          leat_descriptor_remedy(errno));
        if (fd >= 0)
            close(fd);
        return error;
    }
    seat->listener = fd;
    return 0;
}

int leat_seat_make(const struct config *config, int rank_count, const uint8_t job[HELLO_JOB_BYTES],
                   struct seat *seat)
{
    int fd;
    *seat = (struct seat){.listener = -1};
    int error = leat_segment_create(rank_count, config->arena_bytes, NULL, false, &fd);
    if (error)
        return error;
    error = leat_segment_map(fd, &seat->segment);
    if (error) {
        close(fd);
        return error;
    }
    leat_segment_part(seat->segment, job);
    error = listen_at(seat);
    if (error)
        leat_segment_release(seat->segment);
    return error;
}

void leat_seat_close(struct seat *seat)
{
    if (seat->listener >= 0)
        close(seat->listener);
    seat->listener = -1;
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) && peer.uid == geteuid();
}

union descriptor_message {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

// The receiver's buffer is empty, so this does not wait; should it fail, the other end says so.
static void hand_over(int fd, int descriptor)
{
    char byte = 'l';
    union descriptor_message control = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    control.header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    if (same_user(fd))
        sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The others would stay at the door, and poll would say so without end.
static bool leave_it(int reason)
{
    return reason != EMFILE && reason != ENFILE && reason != ENOMEM && reason != ENOBUFS;
}

int leat_seat_serve(struct seat *seat, int wake, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd pollers[2] = {{.fd = wake, .events = POLLIN},
                                    {.fd = seat->listener, .events = POLLIN}};
        int ready = poll(pollers, 2, leat_poll_ms(deadline_ns));
        if (ready < 0 && errno != EINTR)
            return leat_fail(-errno, "poll: %s", strerror(errno));
        if (ready > 0 && pollers[1].revents) {
            int fd = accept4(seat->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0 && !leave_it(errno))
                return leat_fail(-errno, "cannot give this host's segment to another rank: %s%s",
                                 strerror(errno), leat_descriptor_remedy(errno));
            if (fd >= 0) {
                hand_over(fd, seat->segment->fd);
                close(fd);
            }
        }
        if (ready > 0 && pollers[0].revents)
            return 0;
        if (leat_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

static int receive_descriptor(int fd, uint64_t deadline_ns, int *descriptor)
{
    char byte;
    union descriptor_message control = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int ready;
    while ((ready = poll(&poller, 1, leat_poll_ms(deadline_ns))) < 0 && errno == EINTR)
        ;
    if (ready == 0)
        return leat_fail(-ETIMEDOUT, "the rank that has this host's segment does not answer");
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (got > 0 && !header && message.msg_flags & MSG_CTRUNC)
        return leat_fail(-EMFILE, "no descriptor is left for this host's segment%s",
                         leat_descriptor_remedy(EMFILE));
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int)))
        return leat_fail(-ECONNRESET, "the rank that has this host's segment did not give it: %s",
                         got < 0 ? strerror(errno) : "it has ended, or is another user's");
    memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    *descriptor = leat_descriptor_keep(*descriptor);
    return *descriptor >= 0 ? 0
                            : leat_fail(-errno, "this host's segment: %s%s", strerror(errno),
                                        leat_descriptor_remedy(errno));
}

static int connect_to(const char *name, int *fd)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(name, &address);
    *fd = leat_descriptor_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return leat_fail(-errno, "socket: %s%s", strerror(errno), leat_descriptor_remedy(errno));
    int error = 0;
    if (connect(*fd, (struct sockaddr *)&address, bytes))
        error = leat_fail(errno == ECONNREFUSED ? -ECONNRESET : -errno,
                          "cannot reach the rank that has this host's segment: %s; it has ended, "
                          "or is in another network namespace",
                          strerror(errno));
    else if (!same_user(*fd))
        error = leat_fail(-EACCES, "the rank that has this host's segment is another user's");
    if (error)
        close(*fd);
    return error;
}

int leat_seat_take(const char name[HELLO_SEAT_BYTES + 1], const uint8_t job[HELLO_JOB_BYTES],
                   int rank_count, uint64_t deadline_ns, struct segment **segment)
{
    int fd, descriptor = -1;
    struct segment *mapped;
    int error = connect_to(name, &fd);
    if (error)
        return error;
    error = receive_descriptor(fd, deadline_ns, &descriptor);
    close(fd);
    if (error)
        return error;
    error = leat_segment_map(descriptor, &mapped);
    if (error) {
        close(descriptor);
        return error;
    }
    const struct segment_head *head = mapped->head;
    if (memcmp(head->job, job, sizeof head->job) != 0 || (int)head->rank_count != rank_count) {
        leat_segment_release(mapped);
        return leat_fail(-EPROTO, "the segment that was given is another job's");
    }
    *segment = mapped;
    return 0;
}
