// SPDX-License-Identifier: Apache-2.0
// PMIx: ranks that Open MPI's mpirun, or Slurm's srun --mpi=pmix, has started.
//
// Algorithm: the server knows which ranks are on this host. The lowest of them makes the host's
// segment and puts where it is; the others get that from the server, which keeps the question until
// the answer is there. One fence without data, in which the maker hands the segment out, ends the
// start. So a rank sends three small messages, however many ranks there are. Where ranks are on
// several hosts, the server only carries where rank 0 listens (root_place.c), and the job goes on
// as one of LEAT_ROOT. Advantage: nothing to configure, and the launcher's own watch over hosts
// serves. Disadvantage: PMIx_Init costs some 10 ms a rank.
//
// The library is opened when a PMIx launcher has started the process, and only its headers are
// needed to build: a program that runs under `leat run` does not load it, nor libevent, libhwloc
// and the others that it brings. Linked at build, all of leat's users would pay for it at start.

#define _GNU_SOURCE
#include "core/bootstrap.h"

#include "core/descriptor.h"
#include "core/library.h"
#include "core/log.h"
#include "core/root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LEAT_HAVE_PMIX

const char *leat_pmix_absent(void)
{
    return "this build has no PMIx (pmix.h was not found)";
}

int leat_bootstrap_pmix(const struct config *config, struct bootstrap *found)
{
    (void)config;
    (void)found;
    return leat_fail(-ENOTSUP,
                     "a PMIx launcher (mpirun, srun) has started this process, and %s; build leat "
                     "with libpmix-dev, use `leat run`, or unset PMIX_RANK for a job of its own",
                     leat_pmix_absent());
}

#else

#include <dlfcn.h>
#include <pmix.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#define CARD_KEY   "leat.seat"
#define ROOT_KEY   "leat.root"
#define PORTS      8 // that are tried
#define RETRY_MS   5
#define CARD_BYTES 256

static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Get_nb) *get_nb;
    __typeof__(PMIx_Fence_nb) *fence_nb;
    __typeof__(PMIx_Register_event_handler) *on_event;
    __typeof__(PMIx_Error_string) *error_string;
    char absent[200]; // why it cannot be used
} library;

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void load_library(void)
{
    static const struct library_symbol symbols[] = {
        {"PMIx_Init", &library.init},
        {"PMIx_Finalize", &library.finalize},
        {"PMIx_Put", &library.put},
        {"PMIx_Commit", &library.commit},
        {"PMIx_Get", &library.get},
        {"PMIx_Get_nb", &library.get_nb},
        {"PMIx_Fence_nb", &library.fence_nb},
        {"PMIx_Register_event_handler", &library.on_event},
        {"PMIx_Error_string", &library.error_string}};
    // Its own plug-ins look for its symbols among the global ones.
    leat_library_open("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL, symbols,
                      sizeof symbols / sizeof *symbols, library.absent, sizeof library.absent);
}

const char *leat_pmix_absent(void)
{
    pthread_once(&library_once, load_library);
    return *library.absent ? library.absent : NULL;
}

// ---- Answers that come later ----

// The library may answer after nobody waits any more, so the second to let go frees.
struct answer {
    int fd;
    int owners;
    pmix_status_t status; // released after the text
    char text[CARD_BYTES];
};

static struct answer *expect_answer(void)
{
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return NULL;
    answer->owners = 2;
    answer->fd = leat_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (answer->fd >= 0)
        return answer;
    free(answer);
    return NULL;
}

static void let_go(struct answer *answer)
{
    if (__atomic_sub_fetch(&answer->owners, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    close(answer->fd);
    free(answer);
}

static void answered(struct answer *answer, pmix_status_t status)
{
    uint64_t one = 1;
    __atomic_store_n(&answer->status, status, __ATOMIC_RELEASE);
    ssize_t written = write(answer->fd, &one, sizeof one);
    (void)written; // an eventfd takes one
    let_go(answer);
}

static void on_done(pmix_status_t status, void *data)
{
    answered(data, status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *data)
{
    struct answer *answer = data;
    if (status == PMIX_SUCCESS && value && value->type == PMIX_STRING && value->data.string)
        snprintf(answer->text, sizeof answer->text, "%s", value->data.string);
    answered(answer, status);
}

static int fail_call(const char *what, pmix_status_t status)
{
    return leat_fail(-EREMOTEIO, "PMIx: %s: %s", what, library.error_string(status));
}

// ---- The job ----

struct pmix_tie {
    struct tie tie;
    pmix_proc_t self;
    int rank_count, log_level;
    uint32_t leader; // the lowest rank of this host
    struct seat seat;
    struct tie *root; // of a job on several hosts, or NULL
};

// The kernel kills the ranks of a killed `leat run`; those of a killed mpirun would go on alone.
static void on_lost_launcher(size_t id, pmix_status_t status, const pmix_proc_t *source,
                             pmix_info_t info[], size_t info_count, pmix_info_t *results,
                             size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                             void *data)
{
    (void)id, (void)status, (void)source, (void)info, (void)info_count, (void)results;
    (void)result_count, (void)done, (void)data;
    leat_log(LOG_ERROR, LOG_ERROR, leat_bootstrap_rank(),
             "the launcher of this job (mpirun or srun) has died, so this rank is killed");
    kill(getpid(), SIGKILL);
}

static void watch_launcher(void)
{
    pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION_TO_SERVER};
    // Without it the ranks still notice one another's ends.
    library.on_event(codes, 2, NULL, 0, on_lost_launcher, NULL, NULL);
}

static int ask_number(const pmix_proc_t *about, const char *key, uint32_t *number)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = library.get(about, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value)
        return fail_call(key, status);
    bool good = value->type == PMIX_UINT32;
    *number = value->data.uint32;
    free(value);
    return good ? 0 : leat_fail(-EREMOTEIO, "PMIx: %s is no number", key);
}

// The ranks of this host as "0,1,2", which the caller frees.
static int ask_neighbours(const pmix_proc_t *about, char **list)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = library.get(about, PMIX_LOCAL_PEERS, NULL, 0, &value);
    if (status != PMIX_SUCCESS || !value)
        return fail_call(PMIX_LOCAL_PEERS, status);
    bool good = value->type == PMIX_STRING && value->data.string;
    *list = good ? value->data.string : NULL;
    free(value);
    return good ? 0 : leat_fail(-EREMOTEIO, "PMIx: %s is no list", PMIX_LOCAL_PEERS);
}

static int find_leader(const struct pmix_tie *own, const char *list, uint32_t *leader)
{
    bool member = false;
    *leader = UINT32_MAX;
    for (const char *at = list; *at; at += *at == ',') {
        char *end;
        unsigned long rank = strtoul(at, &end, 10);
        if (end == at || rank >= (unsigned long)own->rank_count)
            return leat_fail(-EREMOTEIO, "PMIx: the ranks of this host are \"%.100s\"", list);
        member |= rank == own->self.rank;
        *leader = rank < *leader ? (uint32_t)rank : *leader;
        at = end;
    }
    return member ? 0
                  : leat_fail(-EREMOTEIO, "PMIx: rank %u is not among the ranks of its host",
                              own->self.rank);
}

static int count_of(const char *list)
{
    int count = *list != 0;
    for (const char *at = list; *at; at++)
        count += *at == ',';
    return count;
}

static void mark_neighbours(struct segment_head *head, const char *list)
{
    for (const char *at = list; *at; at += *at == ',') {
        char *end;
        head->rank[strtoul(at, &end, 10)].here = 1;
        at = end;
    }
}

static void print_hex(const uint8_t bytes[16], char text[33])
{
    for (size_t i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static int put_card(pmix_scope_t scope, const char *key, char card[CARD_BYTES])
{
    pmix_value_t value = {.type = PMIX_STRING};
    value.data.string = card;
    pmix_status_t status = library.put(scope, key, &value);
    if (status == PMIX_SUCCESS)
        status = library.commit();
    return status == PMIX_SUCCESS ? 0 : fail_call(key, status);
}

static int publish(const struct pmix_tie *own, const uint8_t host[16], const uint8_t job[16])
{
    char hosts[33], jobs[33], card[CARD_BYTES];
    print_hex(host, hosts);
    print_hex(job, jobs);
    snprintf(card, sizeof card, "%s %s %s %s", hosts, jobs, own->seat.name, leat_build_id());
    return put_card(PMIX_LOCAL, CARD_KEY, card);
}

static int lead(struct pmix_tie *own, const struct config *config, const char *neighbours,
                const uint8_t host[16])
{
    uint8_t job[HELLO_JOB_BYTES];
    if (getrandom(job, sizeof job, 0) != sizeof job)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    int error = leat_seat_make(config, own->rank_count, job, &own->seat);
    if (error)
        return error;
    mark_neighbours(own->seat.segment->head, neighbours);
    error = publish(own, host, job);
    if (error) {
        leat_seat_close(&own->seat);
        leat_segment_release(own->seat.segment);
    }
    return error;
}

static int ask_card(const struct pmix_tie *own, uint32_t rank, const char *key,
                    uint64_t deadline_ns, char card[CARD_BYTES])
{
    pmix_proc_t leader = own->self;
    leader.rank = rank;
    struct answer *answer = expect_answer();
    if (!answer)
        return leat_fail(-ENOMEM, "no memory or descriptor to ask PMIx");
    pmix_status_t status = library.get_nb(&leader, key, NULL, 0, on_value, answer);
    if (status != PMIX_SUCCESS)
        answer->owners = 1; // nobody will answer
    struct pollfd poller = {.fd = answer->fd, .events = POLLIN};
    int error = 0;
    if (status == PMIX_SUCCESS && poll(&poller, 1, leat_poll_ms(deadline_ns)) == 0)
        error = leat_fail(
            -ETIMEDOUT,
            "rank %u%s, has not opened leat within LEAT_TIMEOUT; all "
            "ranks of the job have to, or raise LEAT_TIMEOUT",
            rank, rank == own->leader ? ", the lowest on this host" : ", which all others ask");
    else if (status == PMIX_SUCCESS)
        status = __atomic_load_n(&answer->status, __ATOMIC_ACQUIRE);
    if (!error && status == PMIX_ERR_NOT_FOUND)
        error = leat_fail(-ENOENT, "PMIx: rank %u has not said where it is", rank);
    else if (!error && status != PMIX_SUCCESS)
        error = fail_call(key, status);
    if (!error)
        memcpy(card, answer->text, CARD_BYTES);
    let_go(answer);
    return error;
}

// For what has not been put yet servers keep the question, or say so.
static int get_card(const struct pmix_tie *own, uint32_t rank, const char *key,
                    uint64_t deadline_ns, char card[CARD_BYTES])
{
    int error;
    while ((error = ask_card(own, rank, key, deadline_ns, card)) == -ENOENT &&
           leat_now_ns() < deadline_ns)
        poll(NULL, 0, RETRY_MS);
    return error;
}

static int read_hex(const char *text, uint8_t bytes[16])
{
    for (size_t i = 0; i < 16; i++) {
        unsigned value;
        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            return -EINVAL;
        bytes[i] = (uint8_t)value;
    }
    return 0;
}

static int follow(struct pmix_tie *own, const uint8_t host[16], uint64_t deadline_ns)
{
    char card[CARD_BYTES], hosts[33], jobs[33], mine[33], build[LEAT_BUILD_BYTES];
    uint8_t job[HELLO_JOB_BYTES];
    int error = get_card(own, own->leader, CARD_KEY, deadline_ns, card);
    if (error)
        return error;
    if (sscanf(card, "%32s %32s %32s %47[^\n]", hosts, jobs, own->seat.name, build) != 4 ||
        read_hex(jobs, job))
        return leat_fail(-EPROTO, "rank %u has published \"%.100s\", which is no seat of leat",
                         own->leader, card);
    if (strcmp(build, leat_build_id()) != 0)
        return leat_fail(-EPROTO,
                         "rank %u is \"%s\" and this program is \"%s\"; start all ranks from the "
                         "same installation",
                         own->leader, build, leat_build_id());
    print_hex(host, mine);
    if (strcmp(hosts, mine) != 0)
        return leat_fail(-ENOTSUP,
                         "ranks %u and %u are on one host, but not in the same namespaces of "
                         "processes and networks, or not the same user's; start them in one "
                         "container, or use LEAT_ROOT",
                         own->leader, own->self.rank);
    own->seat.listener = -1;
    return leat_seat_take(own->seat.name, job, own->rank_count, deadline_ns, &own->seat.segment);
}

// ---- The tie ----

static int arrive(struct tie *tie, struct leat_job *job, uint64_t deadline_ns)
{
    struct pmix_tie *own = (struct pmix_tie *)tie;
    struct answer *answer = expect_answer();
    if (!answer)
        return leat_fail(-ENOMEM, "no memory or descriptor to wait for PMIx");
    pmix_status_t status = library.fence_nb(NULL, 0, NULL, 0, on_done, answer);
    int error = 0;
    if (status != PMIX_SUCCESS) {
        answer->owners = 1; // nobody will answer
    } else {
        // poll passes over the listener of those that have none.
        error = leat_seat_serve(&own->seat, answer->fd, deadline_ns);
        status = error ? PMIX_SUCCESS : __atomic_load_n(&answer->status, __ATOMIC_ACQUIRE);
    }
    leat_seat_close(&own->seat);
    let_go(answer);
    if (error == -ETIMEDOUT) {
        char absent[160];
        leat_absent_ranks(job->segment->head, true, absent, sizeof absent);
        return leat_fail(error,
                         "not all ranks have opened leat within %.3g s; on this host %s have not; "
                         "all ranks of the job have to, or raise LEAT_TIMEOUT",
                         job->config.timeout_s, absent);
    }
    return error || status == PMIX_SUCCESS ? error : fail_call("the fence of all ranks", status);
}

static void leave(struct tie *tie, const char *reason)
{
    struct pmix_tie *own = (struct pmix_tie *)tie;
    (void)reason; // the segment has it
    leat_seat_close(&own->seat);
    library.finalize(NULL, 0);
    free(own);
}

static const struct tie_ops ops = {.arrive = arrive, .leave = leave};

// ---- The tie of a job on several hosts: the root's, and PMIx is left at the end ----

static struct tie *root_of(struct tie *tie)
{
    return ((struct pmix_tie *)tie)->root;
}

static int hosts_arrive(struct tie *tie, struct leat_job *job, uint64_t deadline_ns)
{
    return root_of(tie)->ops->arrive(root_of(tie), job, deadline_ns);
}

static void hosts_look(struct tie *tie, struct segment_head *head)
{
    root_of(tie)->ops->look(root_of(tie), head);
}

static int hosts_publish(struct tie *tie, int number, const char *card)
{
    return root_of(tie)->ops->publish(root_of(tie), number, card);
}

static int hosts_find(struct tie *tie, struct segment_head *head, int number,
                      char card[LEAT_CARD_BYTES])
{
    return root_of(tie)->ops->find(root_of(tie), head, number, card);
}

static int hosts_secret(struct tie *tie, const struct segment_head *head, uint8_t secret[MAC_BYTES])
{
    return root_of(tie)->ops->secret(root_of(tie), head, secret);
}

static void hosts_address(struct tie *tie, char address[64])
{
    root_of(tie)->ops->address(root_of(tie), address);
}

static void hosts_leave(struct tie *tie, const char *reason)
{
    root_of(tie)->ops->leave(root_of(tie), reason);
}

static void hosts_end(struct tie *tie)
{
    root_of(tie)->ops->end(root_of(tie));
    library.finalize(NULL, 0);
    free((struct pmix_tie *)tie);
}

static const struct tie_ops hosts_ops = {.arrive = hosts_arrive,
                                         .look = hosts_look,
                                         .publish = hosts_publish,
                                         .find = hosts_find,
                                         .secret = hosts_secret,
                                         .address = hosts_address,
                                         .leave = hosts_leave,
                                         .end = hosts_end};

static int begin_root(struct root_options *options, const struct config *config,
                      struct bootstrap *found)
{
    char card[CARD_BYTES];
    int error = 0;
    for (int i = 0; i < PORTS && (!i || error == -EADDRINUSE); i++) {
        error = root_place_draw(options);
        if (!error)
            error = root_bootstrap(options, config, found);
    }
    if (error)
        return error;
    error = root_place_write(options, card, sizeof card);
    if (!error)
        error = put_card(PMIX_GLOBAL, ROOT_KEY, card);
    if (error) {
        char reason[LEAT_DETAIL_BYTES];
        snprintf(reason, sizeof reason, "%s", leat_error_detail());
        found->tie->ops->leave(found->tie, reason);
        found->tie->ops->end(found->tie);
        leat_segment_release(found->segment);
        leat_fail(error, "%s", reason);
    }
    return error;
}

static int join_hosts(struct pmix_tie *own, const struct config *config, struct bootstrap *found)
{
    struct root_options options = {.rank = (int)own->self.rank,
                                   .rank_count = own->rank_count,
                                   .log_level = config->log_level,
                                   .timeout_s = config->timeout_s};
    char card[CARD_BYTES];
    uint64_t deadline_ns = leat_now_ns() + (uint64_t)(config->timeout_s * 1e9);
    leat_host_identity(options.host);
    int error = 0;
    if (options.rank == 0) {
        error = begin_root(&options, config, found);
    } else {
        error = get_card(own, 0, ROOT_KEY, deadline_ns, card);
        if (!error)
            error = root_place_read(card, &options);
        if (!error)
            error = root_bootstrap(&options, config, found);
    }
    if (error)
        return error;
    own->root = found->tie;
    own->tie.ops = &hosts_ops;
    found->tie = &own->tie;
    return 0;
}

static int join(struct pmix_tie *own, const struct config *config, struct bootstrap *found)
{
    uint32_t size = 0;
    char *neighbours = NULL;
    uint8_t host[HELLO_HOST_BYTES];
    pmix_proc_t everybody = own->self;
    everybody.rank = PMIX_RANK_WILDCARD;
    uint64_t deadline_ns = leat_now_ns() + (uint64_t)(config->timeout_s * 1e9);
    int error = ask_number(&everybody, PMIX_JOB_SIZE, &size);
    if (!error && (size < 1 || size > 1 << 30 || own->self.rank >= size))
        error = leat_fail(-EREMOTEIO, "PMIx: rank %u of %u", own->self.rank, size);
    if (!error)
        error = ask_neighbours(&everybody, &neighbours);
    if (error)
        return error;
    own->rank_count = (int)size;
    leat_host_identity(host);
    error = find_leader(own, neighbours, &own->leader);
    const bool together = error || count_of(neighbours) == own->rank_count;
    if (!error && together)
        error = own->leader == own->self.rank ? lead(own, config, neighbours, host)
                                              : follow(own, host, deadline_ns);
    free(neighbours);
    if (!together)
        return join_hosts(own, config, found);
    *found = (struct bootstrap){own->seat.segment, (int)own->self.rank, &own->tie};
    return error;
}

int leat_bootstrap_pmix(const struct config *config, struct bootstrap *found)
{
    const char *absent = leat_pmix_absent();
    if (absent)
        return leat_fail(-ENOTSUP,
                         "a PMIx launcher (mpirun, srun) has started this process, and %s; install "
                         "libpmix2, use `leat run`, or unset PMIX_RANK for a job of its own",
                         absent);
    struct pmix_tie *own = calloc(1, sizeof *own);
    if (!own)
        return leat_fail(-ENOMEM, "no memory for a job handle");
    own->tie.ops = &ops;
    own->seat.listener = -1;
    pmix_status_t status = library.init(&own->self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        free(own);
        fail_call("joining the launcher", status);
        return leat_fail(-EREMOTEIO,
                         "%s; unset PMIX_NAMESPACE and PMIX_RANK where no launcher runs",
                         leat_error_detail());
    }
    watch_launcher();
    struct bootstrap made;
    int error = join(own, config, &made);
    if (error) {
        library.finalize(NULL, 0);
        free(own);
        return error;
    }
    *found = made;
    return 0;
}

#endif
