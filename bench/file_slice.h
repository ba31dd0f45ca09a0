/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of `leat bench file`: what a side is asked for and how it answers, and threads for those
 * that read with several.
 *
 * A side is a process that reads lines from standard input and answers each with one:
 *
 *     read STATE BYTES DEPTH REPEAT SEED PATH     REPEAT calls of BYTES, DEPTH of them under way,
 * at successive offsets from block SEED on ranges STATE BYTES COUNT REPEAT SEED PATH   REPEAT times
 * COUNT ranges at random blocks
 *
 * STATE is cached (through the page cache) or direct (past it). The answer is nanoseconds for all
 * of it, or "error TEXT". Every eight bytes of the file are their own offset, so that a side can
 * look whether it has read what it was to read.
 */
#ifndef LEAT_BENCH_FILE_SLICE_H
#define LEAT_BENCH_FILE_SLICE_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_BLOCK UINT64_C(4096)      /* what random offsets are multiples of */
#define FILE_TASK  (UINT64_C(4) << 20) /* what a thread takes at a time */

struct file_ask {
    bool ranges, direct;
    uint64_t bytes, depth, repeat, seed;
    char path[1024];
};

static inline bool file_ask_read(struct file_ask *ask)
{
    char line[1200], what[16], state[16];
    int used = 0;
    if (!fgets(line, sizeof line, stdin))
        return false;
    if (sscanf(line, "%15s %15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %n", what, state,
               &ask->bytes, &ask->depth, &ask->repeat, &ask->seed, &used) != 6)
        return false;
    line[strcspn(line, "\n")] = 0;
    snprintf(ask->path, sizeof ask->path, "%s", line + used);
    ask->ranges = !strcmp(what, "ranges");
    ask->direct = !strcmp(state, "direct");
    return ask->bytes > 0 && ask->depth > 0;
}

static inline uint64_t file_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Of call `i` of the ask in a file of `size` bytes. */
static inline uint64_t file_call_offset(const struct file_ask *ask, uint64_t size, uint64_t i)
{
    uint64_t calls = size / ask->bytes;
    return calls ? (ask->seed + i) % calls * ask->bytes : 0;
}

/* Of range `i`: the same for all sides. */
static inline uint64_t file_range_offset(const struct file_ask *ask, uint64_t size, uint64_t i)
{
    uint64_t x = (ask->seed + i) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % ((size - ask->bytes) / FILE_BLOCK + 1) * FILE_BLOCK;
}

static inline void file_answer(uint64_t ns)
{
    printf("%" PRIu64 "\n", ns);
    fflush(stdout);
}

static inline void file_answer_error(const char *text)
{
    printf("error %s\n", text);
    fflush(stdout);
}

/* ---- A crew of threads ---- */

#define FILE_CREW_MOST 64

/* Does tasks 0 to count - 1 of a job; `member` is the thread's number. */
typedef void file_crew_work(void *user, int member, uint64_t task);

struct file_crew {
    int members;
    pthread_t thread[FILE_CREW_MOST];
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    uint64_t job; /* counts jobs */
    int working;
    file_crew_work *work;
    void *user;
    uint64_t next, count; /* `next` is atomic */
};

struct file_crew_member {
    struct file_crew *crew;
    int number;
};

static inline void file_crew_share(struct file_crew *crew, int member)
{
    for (;;) {
        uint64_t task = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED);
        if (task >= crew->count)
            return;
        crew->work(crew->user, member, task);
    }
}

static inline void *file_crew_main(void *user)
{
    struct file_crew_member *member = (struct file_crew_member *)user;
    struct file_crew *crew = member->crew;
    uint64_t seen = 0;
    for (;;) {
        pthread_mutex_lock(&crew->lock);
        while (crew->job == seen)
            pthread_cond_wait(&crew->wake, &crew->lock);
        seen = crew->job;
        pthread_mutex_unlock(&crew->lock);
        file_crew_share(crew, member->number);
        pthread_mutex_lock(&crew->lock);
        if (--crew->working == 0)
            pthread_cond_signal(&crew->done);
        pthread_mutex_unlock(&crew->lock);
    }
    return NULL;
}

/* The caller is member 0; the others sleep between jobs, until the process ends. */
static inline void file_crew_open(struct file_crew *crew, int members)
{
    static struct file_crew_member member[FILE_CREW_MOST];
    crew->members = members < FILE_CREW_MOST ? members : FILE_CREW_MOST;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wake, NULL);
    pthread_cond_init(&crew->done, NULL);
    for (int i = 1; i < crew->members; i++) {
        member[i].crew = crew;
        member[i].number = i;
        if (pthread_create(&crew->thread[i], NULL, file_crew_main, &member[i])) {
            fprintf(stderr, "leat bench: cannot start a thread\n");
            exit(1);
        }
    }
}

static inline void file_crew_run(struct file_crew *crew, file_crew_work *work, void *user,
                                 uint64_t count)
{
    crew->work = work;
    crew->user = user;
    crew->count = count;
    __atomic_store_n(&crew->next, 0, __ATOMIC_RELAXED);
    bool shared = crew->members > 1 && count > 1;
    if (shared) {
        pthread_mutex_lock(&crew->lock);
        crew->job++;
        crew->working = crew->members - 1;
        pthread_cond_broadcast(&crew->wake);
        pthread_mutex_unlock(&crew->lock);
    }
    file_crew_share(crew, 0);
    if (!shared)
        return;
    pthread_mutex_lock(&crew->lock);
    while (crew->working)
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

#endif
