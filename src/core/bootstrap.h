/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process finds its job: `leat run` has given it the segment, or ranks find one another by a
 * root address, or by PMIx; else it is a job of its own.
 *
 * Whatever the way, the ranks of a host end up with one and the same memfd, passed on by the one of
 * them that has made it, over a socket that has no name in the file system. Advantage: the rest of
 * the library sees a segment and nothing of launchers. Disadvantage: all ranks that share memory
 * have to share their namespaces of processes and of networks; others count as other hosts.
 */
#ifndef LEAT_CORE_BOOTSTRAP_H
#define LEAT_CORE_BOOTSTRAP_H

#include "core/hello.h"
#include "core/job.h"

enum bootstrap_way { WAY_ALONE, WAY_LAUNCHER, WAY_ROOT, WAY_PMIX };

/* What this process's environment says. */
enum bootstrap_way leat_bootstrap_way(void);
/* The rank that the environment names, or 0: for messages before the job is open. */
int leat_bootstrap_rank(void);

/* What keeps a rank in touch with ranks that it shares no memory with; made by a bootstrap. */
struct tie_ops {
    /* Once this rank's record is claimed: waits, until `deadline_ns`, for all ranks of the job. */
    int (*arrive)(struct tie *tie, struct leat_job *job, uint64_t deadline_ns);
    /* Writes down who has gone, with leat_rank_gone; never waits; any thread. May be NULL. */
    void (*look)(struct tie *tie, struct segment_head *head);
    /* Tells those who ask where this rank can be found (core/card.h), and asks for another's; the
     * latter as leat_card_find. NULL: there is no way. */
    int (*publish)(struct tie *tie, int number, const char *card);
    int (*find)(struct tie *tie, struct segment_head *head, int number, char card[LEAT_CARD_BYTES]);
    /* What all ranks of the job know and nobody else; NULL: nothing. */
    int (*secret)(struct tie *tie, const struct segment_head *head, uint8_t secret[MAC_BYTES]);
    /* This end of the way to the other ranks, as a number; leaves `address` where it is unknown. */
    void (*address)(struct tie *tie, char address[64]);
    /* Says good-bye and, where there is no `end`, frees the tie; `reason` is leat_close's. */
    void (*leave)(struct tie *tie, const char *reason);
    /* The last call, after leave: may take as long as others need this rank's tie, a second at
     * most. Frees it; the segment is still there. May be NULL. */
    void (*end)(struct tie *tie);
};

struct tie {
    const struct tie_ops *ops;
};

struct bootstrap {
    struct segment *segment;
    int rank;        /* the first of this process */
    struct tie *tie; /* or NULL */
};

/* `thread_count` ranks of this process, or 0: one. */
int leat_bootstrap(const struct config *config, int thread_count, struct bootstrap *found);

/* A whole number from the environment; -EINVAL names the variable. */
int leat_environment_number(const char *name, int least, int most, int *value);

/* The same for all processes that may share a segment, and for no others. */
void leat_host_identity(uint8_t host[HELLO_HOST_BYTES]);

/* ---- bootstrap_root.c, root.c, pmix.c ---- */
int leat_bootstrap_root(const struct config *config, struct bootstrap *found);
int leat_bootstrap_pmix(const struct config *config, struct bootstrap *found);
/* Why PMIx cannot be used here, or NULL; loads the library. */
const char *leat_pmix_absent(void);

/* ---- bootstrap_seat.c: where the ranks of a host get their segment ---- */
struct seat {
    char name[HELLO_SEAT_BYTES + 1]; /* of an abstract socket */
    int listener;                    /* -1 once closed */
    struct segment *segment;         /* what is given out */
};

/* Makes the segment of a host for a job, and the socket. */
int leat_seat_make(const struct config *config, int rank_count, const uint8_t job[HELLO_JOB_BYTES],
                   struct seat *seat);
/* Gives the segment to whoever asks and is the same user, until `wake` can be read. -ETIMEDOUT. */
int leat_seat_serve(struct seat *seat, int wake, uint64_t deadline_ns);
void leat_seat_close(struct seat *seat);
/* Asks for the segment of that job. */
int leat_seat_take(const char name[HELLO_SEAT_BYTES + 1], const uint8_t job[HELLO_JOB_BYTES],
                   int rank_count, uint64_t deadline_ns, struct segment **segment);

/* Milliseconds for poll, rounded up, until a deadline; 0 when it is over. */
int leat_poll_ms(uint64_t deadline_ns);

/* Counts the ranks that have not claimed a record in this segment and names the first few, as in
 * "2 of 8 ranks (3, 5)"; with `here_only`, of those that are to be on this host. */
void leat_absent_ranks(const struct segment_head *head, bool here_only, char *text, size_t bytes);

#endif
