/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's side of doors: its own, and the way to those of others.
 */
#ifndef LEAT_TRANSPORT_DOOR_INTERNAL_H
#define LEAT_TRANSPORT_DOOR_INTERNAL_H

#include "transport/door.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

struct visitor {
    int fd, rank;
};

struct door {
    struct leat_job *job;
    /* Its own, where it has one. */
    bool open;
    int listener, wake[2];
    pthread_t thread;
    pthread_mutex_t lock;     /* something is being served */
    struct copies_lane *lane; /* of the thread, made at the first copy */
    struct visitor *visitors; /* [visitor_most] */
    int visitor_count, visitor_most;
    /* Others'. */
    pthread_mutex_t asking;
    int *fd; /* [rank_count], -1: not connected */
    pthread_mutex_t staging;
    uint64_t stage; /* offset in the arena; 0: none */
    struct import *imports;
};

union door_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* The job's, made at first use. */
int leat_door_of(struct leat_job *job, struct door **door);
socklen_t leat_door_address(const char *name, struct sockaddr_un *address);
/* The process at the other end; -1: unknown. */
int leat_door_process(int fd);

#endif
