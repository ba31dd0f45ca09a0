// SPDX-License-Identifier: Apache-2.0
// Messages from rank to rank arrive whole and in order, by every protocol and from any layout.
//
// Each message has its own stamps, is received into poison, and is tried both ways round: the
// receive posted first, and the message there first; tokens, not clocks, make sure of it. Bodies
// run on ranks as threads (ranks_run) and as processes. Advantage: a protocol that is chosen
// wrongly at a limit shows as wrong bytes or a wrong count. Disadvantage: which protocol carried a
// message is not seen here, but in test_msg_budget.c.

#include "multi/msg_ranks.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// ---- Every size at which something changes, one less and one more ----

#define AROUND(size) (size) - 1, (size), (size) + 1
#define LARGE        60000 /* from here on fewer layouts are tried */

static const uint64_t sizes[] = {0,
                                 1,
                                 8,
                                 AROUND(16),       // a provider sends at once
                                 AROUND(96),       // a slot
                                 AROUND(480),      // a packet
                                 AROUND(4096),     // a fragment, and direct copies
                                 AROUND(16384),    // a provider's own rendezvous
                                 AROUND(32768),    // eager, shared copies
                                 AROUND(65536),    // bulk area of a ring
                                 AROUND(131072),   // a pipe
                                 AROUND(262144),   // a chunk
                                 AROUND(524288),   // two chunks, four
                                 AROUND(2097152)}; // four chunks, eight

static const enum msg_shape pairs[][2] = {{MSG_PLAIN, MSG_PLAIN},
                                          {MSG_ROWS, MSG_PLAIN},
                                          {MSG_PLAIN, MSG_BACKWARDS},
                                          {MSG_PIECES, MSG_DEEP},
                                          {MSG_DEEP, MSG_PIECES}};

struct exchange {
    leat_comm *comm;
    int to, from, tag, flags;
    bool posted; // the receive comes before the message
    struct msg_memory send, receive;
    leat_request requests[2];
    leat_status status;
};

static bool exchange_start(struct rank_thread *self, struct exchange *x)
{
    leat_request *send = &x->requests[0], *receive = &x->requests[1];
    bool fine = true;
    for (int step = 0; step < 2 && fine; step++) {
        if (x->posted == (step == 0)) {
            fine = msg_fine(
                self, leat_recv(x->comm, x->receive.data, x->from, x->tag, &x->status, receive));
            fine = fine && (step == 1 ||
                            (msg_tell(self, x->comm, x->from) && msg_hear(self, x->comm, x->to)));
        } else {
            fine = msg_fine(self, leat_send(x->comm, x->send.data, x->to, x->tag, x->flags, send));
            fine = fine && (step == 1 ||
                            (msg_tell(self, x->comm, x->to) && msg_hear(self, x->comm, x->from)));
        }
    }
    return fine;
}

// To the next rank, from the one before: with one rank to itself.
static bool exchange(struct rank_thread *self, struct exchange *x, uint64_t bytes,
                     const enum msg_shape shapes[2])
{
    x->to = (self->rank + 1) % self->rank_count;
    x->from = (self->rank + self->rank_count - 1) % self->rank_count;
    if (!msg_memory_make(self, &x->send, shapes[0], bytes) ||
        !msg_memory_make(self, &x->receive, shapes[1], bytes))
        return false;
    uint64_t seed = (uint64_t)x->tag * 1000;
    msg_memory_stamp(&x->send, seed + (uint64_t)self->rank);
    leat_request *const list[2] = {&x->requests[0], &x->requests[1]};
    bool fine = exchange_start(self, x) &&
                msg_fine(self, leat_request_wait(list, 2, LEAT_WAIT_ALL, -1, NULL)) &&
                rank_check(self,
                           x->status.bytes == bytes && x->status.source == x->from &&
                               x->status.tag == x->tag && !x->status.error,
                           "%llu of %llu bytes, source %d, tag %d, error %d",
                           (unsigned long long)x->status.bytes, (unsigned long long)bytes,
                           x->status.source, x->status.tag, x->status.error) &&
                msg_memory_check(self, &x->receive, seed + (uint64_t)x->from, bytes) &&
                msg_memory_check(self, &x->send, seed + (uint64_t)self->rank, bytes);
    msg_memory_free(&x->send);
    msg_memory_free(&x->receive);
    return fine;
}

static void limits(struct rank_thread *self)
{
    struct exchange x = {.comm = msg_world(self), .tag = 1};
    struct ranks_random random = {(uint64_t)self->rank};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
            // Each size meets each pair once, and both ways round.
            x.posted = (i + p) % 2;
            x.flags = (i + p) % 3 == 2 ? LEAT_SEND_SYNCHRONOUS : 0;
            if (sizes[i] >= LARGE && (MSG_FEWER ? p != i % 5 : p && p != 1 + i % 4))
                continue;
            msg_delay(&random, x.comm);
            if (x.comm && !exchange(self, &x, sizes[i], pairs[p])) {
                fprintf(stderr, "size %llu, pair %zu\n", (unsigned long long)sizes[i], p);
                return;
            }
            x.tag++;
        }
}

static const struct msg_part parts[9];

static void test_sizes_around_every_limit_between_threads(void **state)
{
    (void)state;
    msg_run_threads(parts, 1, "limits");
    msg_run_threads(parts, 3, "limits");
}

static void test_sizes_around_every_limit_between_processes(void **state)
{
    (void)state;
    msg_run_processes(1, "limits");
    msg_run_processes(3, "limits");
}

static void test_sizes_around_every_limit_with_few_rings(void **state)
{
    (void)state;
    setenv("LEAT_MSG_PEERS", "1", 1);
    msg_run_both(parts, 3, "limits");
    unsetenv("LEAT_MSG_PEERS");
}

static void test_sizes_around_every_limit_with_other_thresholds(void **state)
{
    (void)state;
    setenv("LEAT_MSG_EAGER", "0", 1);
    setenv("LEAT_MSG_SHARE", "1M", 1);
    msg_run_both(parts, 2, "limits");
    setenv("LEAT_MSG_EAGER", "1000", 1);
    setenv("LEAT_MSG_SHARE", "4K", 1);
    msg_run_both(parts, 2, "limits");
    unsetenv("LEAT_MSG_EAGER");
    unsetenv("LEAT_MSG_SHARE");
}

// As where a container forbids it: the calls fail with EPERM from here on.
static bool forbid_attach(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static bool attach_is_forbidden(struct rank_thread *self)
{
    return rank_check(self, forbid_attach(), "no system-call filter: %s", strerror(errno));
}

static void limits_without_attach(struct rank_thread *self)
{
    if (attach_is_forbidden(self))
        limits(self);
}

// Only one side may.
static void limits_half_attach(struct rank_thread *self)
{
    if (self->rank != 0 || attach_is_forbidden(self))
        limits(self);
}

static void test_sizes_around_every_limit_where_attach_is_forbidden(void **state)
{
    (void)state;
    msg_run_processes(2, "limits_without_attach");
    msg_run_processes(2, "limits_half_attach");
}

// ---- When sends finish ----

static bool is_open(struct rank_thread *self, leat_request *request)
{
    return msg_gives(self, -ETIMEDOUT, msg_wait_one(request, 0));
}

// Rank 0 looks at its send before and after rank 1 has posted the receive.
static void synchronous(struct rank_thread *self)
{
    static const uint64_t some[] = {0, 8, 96, 97, 480, 481, 32768, 32769, 200000};
    leat_comm *comm = msg_world(self);
    for (int i = 0; comm && i < 2 * (int)(sizeof some / sizeof *some); i++) {
        struct msg_memory memory;
        leat_request request;
        if (!msg_memory_make(self, &memory, MSG_PLAIN, some[i / 2]))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&memory, 5);
            msg_fine(self, leat_send(comm, memory.data, 1, i, LEAT_SEND_SYNCHRONOUS, &request));
            msg_tell(self, comm, 1);
            msg_hear(self, comm, 1);
            is_open(self, &request);
            msg_tell(self, comm, 1);
            msg_fine(self, msg_wait_one(&request, -1));
        } else {
            msg_hear(self, comm, 0); // the message is here
            msg_tell(self, comm, 0);
            msg_hear(self, comm, 0);
            msg_fine(self, leat_recv(comm, memory.data, 0, i, NULL, NULL));
            msg_memory_check(self, &memory, 5, some[i / 2]);
        }
        msg_memory_free(&memory);
    }
}

static void test_a_synchronous_send_finishes_only_when_it_is_matched(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "synchronous");
}

// The sender says that it is done before anybody asks for the message, and changes its data.
static void eager(struct rank_thread *self)
{
    static const uint64_t some[] = {0, 8, 96, 480, 97, 480, 481, 32768};
    leat_comm *comm = msg_world(self);
    for (int i = 0; comm && i < (int)(sizeof some / sizeof *some); i++) {
        struct msg_memory memory;
        if (!msg_memory_make(self, &memory, i % 2 ? MSG_ROWS : MSG_PLAIN, some[i]))
            return;
        if (self->rank == 0) {
            msg_memory_stamp(&memory, 7);
            msg_fine(self, leat_send(comm, memory.data, 1, 3, 0, NULL));
            msg_memory_stamp(&memory, 8);
            msg_tell(self, comm, 1);
        } else {
            msg_hear(self, comm, 0);
            msg_fine(self, leat_recv(comm, memory.data, 0, 3, NULL, NULL));
            msg_memory_check(self, &memory, 7, some[i]);
        }
        msg_memory_free(&memory);
    }
}

static void test_a_synchronous_send_over_libfabric_finishes_only_when_it_is_matched(void **state)
{
    (void)state;
    msg_run_threads(parts, 2, "synchronous");
}

static void test_a_small_send_finishes_without_its_receive(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "eager");
}

// A large message to oneself: nobody else makes progress for it.
static void to_oneself(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    struct msg_memory send, receive;
    leat_request request;
    if (!comm || !msg_memory_make(self, &send, MSG_PLAIN, 100000) ||
        !msg_memory_make(self, &receive, MSG_PLAIN, 100000))
        return;
    for (int flags = 0; flags <= LEAT_SEND_SYNCHRONOUS; flags += LEAT_SEND_SYNCHRONOUS) {
        msg_memory_stamp(&send, 9);
        msg_fine(self, leat_recv(comm, receive.data, self->rank, 4, NULL, &request));
        msg_fine(self, leat_send(comm, send.data, self->rank, 4, flags, NULL));
        msg_fine(self, msg_wait_one(&request, -1));
        msg_memory_check(self, &receive, 9, 100000);
        msg_fine(self, leat_send(comm, send.data, self->rank, 4, flags, &request));
        msg_fine(self, leat_recv(comm, receive.data, LEAT_ANY_RANK, 4, NULL, NULL));
        msg_fine(self, msg_wait_one(&request, -1));
        msg_memory_check(self, &receive, 9, 100000);
    }
    msg_memory_free(&send);
    msg_memory_free(&receive);
}

static void test_blocking_calls_to_oneself(void **state)
{
    (void)state;
    msg_run_both(parts, 1, "to_oneself");
    msg_run_both(parts, 3, "to_oneself");
}

// ---- Order ----

#define ORDER_COUNT 200 /* of a sender in a communicator */
#define ORDER_MOST  150000

// What a sender sends follows from its rank, the communicator and the number.
static uint64_t order_seed(int rank, int which, int number)
{
    return (uint64_t)((rank * 2 + which) * 100000 + number);
}

static uint64_t order_bytes(int rank, int which, int number)
{
    static const uint64_t some[] = {0,    8,    96,    97,    480,   481,  4096,
                                    4097, 9000, 32768, 32769, 70000, 1000, ORDER_MOST};
    struct ranks_random random = {order_seed(rank, which, number)};
    return some[ranks_random_word(&random) % (sizeof some / sizeof *some)];
}

static void order_send(struct rank_thread *self, leat_comm *const comms[2])
{
    struct ranks_random random = {(uint64_t)self->rank};
    struct msg_memory *memory = calloc(2 * ORDER_COUNT, sizeof *memory);
    leat_request *request = calloc(2 * ORDER_COUNT, sizeof *request);
    leat_request **list = calloc(2 * ORDER_COUNT, sizeof(leat_request *));
    int next[2] = {0, 0};
    for (int i = 0; i < 2 * ORDER_COUNT; i++) {
        int which = ranks_random_word(&random) % 2;
        if (next[which] == ORDER_COUNT)
            which = 1 - which;
        int number = next[which]++;
        list[i] = &request[i];
        if (!msg_memory_make(self, &memory[i], i % 5 ? MSG_PLAIN : MSG_ROWS,
                             order_bytes(self->rank, which, number)))
            return;
        msg_memory_stamp(&memory[i], order_seed(self->rank, which, number));
        int flags = ranks_random_word(&random) % 4 ? 0 : LEAT_SEND_SYNCHRONOUS;
        msg_fine(self, leat_send(comms[which], memory[i].data, 0, 6, flags, &request[i]));
        msg_delay(&random, comms[0]);
    }
    msg_fine(self, leat_request_wait(list, 2 * ORDER_COUNT, LEAT_WAIT_ALL, -1, NULL));
    for (int i = 0; i < 2 * ORDER_COUNT; i++)
        msg_memory_free(&memory[i]);
    free(memory);
    free(request);
    free(list);
}

static bool order_check(struct rank_thread *self, struct msg_memory *memory,
                        const leat_status *status, int which, int *next)
{
    int source = status->source;
    if (!rank_check(self, source > 0 && source < self->rank_count && status->tag == 6,
                    "source %d, tag %d", source, status->tag))
        return false;
    int number = next[2 * source + which]++;
    uint64_t bytes = order_bytes(source, which, number);
    return rank_check(self, status->bytes == bytes,
                      "message %d of rank %d has %llu bytes, not %llu", number, source,
                      (unsigned long long)bytes, (unsigned long long)status->bytes) &&
           msg_memory_check(self, memory, order_seed(source, which, number), bytes);
}

#define ORDER_WINDOW 8

// Posts a few receives at a time, in one communicator or the other, from anybody or in turn.
static void order_receive(struct rank_thread *self, leat_comm *const comms[2], bool wild)
{
    struct ranks_random random = {77};
    struct msg_memory memory[ORDER_WINDOW];
    leat_request request[ORDER_WINDOW], *list[ORDER_WINDOW];
    int next[64] = {0}, senders = self->rank_count - 1, asked[2] = {0, 0};
    bool fine = true;
    for (int i = 0; i < ORDER_WINDOW; i++) {
        list[i] = &request[i];
        fine = fine && msg_memory_make(self, &memory[i], MSG_PLAIN, ORDER_MOST);
    }
    while (fine && asked[0] + asked[1] < 2 * ORDER_COUNT * senders) {
        int which = ranks_random_word(&random) % 2, count = 0;
        for (; count < ORDER_WINDOW && asked[which] < ORDER_COUNT * senders; count++) {
            int from = wild ? LEAT_ANY_RANK : 1 + asked[which] % senders;
            asked[which]++;
            msg_delay(&random, comms[1 - which]);
            msg_fine(self, leat_recv(comms[which], memory[count].data, from,
                                     count % 2 ? 6 : LEAT_ANY_TAG, NULL, &request[count]));
        }
        fine = msg_fine(self, leat_request_wait(list, (size_t)count, LEAT_WAIT_ALL, -1, NULL));
        for (int i = 0; fine && i < count; i++)
            fine = order_check(self, &memory[i], &request[i].status, which, next);
    }
    for (int i = 0; i < ORDER_WINDOW; i++)
        msg_memory_free(&memory[i]);
}

static void order(struct rank_thread *self)
{
    leat_comm *comms[2] = {msg_world(self), NULL};
    const leat_comm_options options = {.size = sizeof options, .kind = LEAT_COMM_DUPLICATE};
    for (int wild = 0; wild < 2; wild++) {
        if (!comms[0] || !msg_fine(self, leat_comm_split(self->job, &options, &comms[1])))
            return;
        if (self->rank)
            order_send(self, comms);
        else
            order_receive(self, comms, wild);
        leat_comm_free(comms[1]);
    }
}

static void test_mixed_messages_keep_their_order(void **state)
{
    (void)state;
    msg_run_both(parts, 2, "order");
    msg_run_both(parts, 4, "order");
}

static void test_mixed_messages_keep_their_order_with_few_rings(void **state)
{
    (void)state;
    setenv("LEAT_MSG_PEERS", "1", 1);
    msg_run_both(parts, 4, "order");
    unsetenv("LEAT_MSG_PEERS");
}

static void test_mixed_messages_over_libfabric_keep_their_order(void **state)
{
    (void)state;
    msg_run_threads(parts, 4, "order");
}

// ---- Wildcards, communicators ----

// Collectives run while a receive of anything from anybody is posted, which is not for them.
static void apart(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self), *other = NULL;
    const leat_comm_options options = {
        .size = sizeof options, .kind = LEAT_COMM_COLOR, .key = -self->rank};
    leat_request request;
    leat_status status = {.source = -7};
    int value = 0;
    if (!comm || !msg_fine(self, leat_recv(comm, msg_plain(&value, sizeof value), LEAT_ANY_RANK,
                                           LEAT_ANY_TAG, &status, &request)))
        return;
    msg_fine(self, leat_comm_split(self->job, &options, &other));
    int last = self->rank_count - 1, mine = 1000 + self->rank;
    // There, ranks are in the opposite order.
    int to = (last - self->rank + 1) % self->rank_count, got = 0;
    leat_status other_status;
    leat_request send;
    msg_fine(self, leat_send(other, msg_plain(&mine, sizeof mine), to, 8, 0, &send));
    msg_fine(self, leat_recv(other, msg_plain(&got, sizeof got), LEAT_ANY_RANK, LEAT_ANY_TAG,
                             &other_status, NULL));
    int from = (last - self->rank + last) % self->rank_count;
    rank_check(self, other_status.source == from && got == 1000 + last - from,
               "%d came from rank %d, not %d", got, other_status.source, from);
    msg_fine(self, msg_wait_one(&send, -1));
    is_open(self, &request);
    rank_check(self, status.source == -7 && !value, "the posted receive has got something");
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    msg_fine(self, leat_collective(comm, &barrier, NULL));
    msg_fine(self, leat_send(comm, msg_plain(&mine, sizeof mine), (self->rank + 1) % (last + 1), 9,
                             0, NULL));
    msg_fine(self, msg_wait_one(&request, -1));
    rank_check(self, status.source == (self->rank + last) % (last + 1) && status.tag == 9,
               "source %d, tag %d", status.source, status.tag);
    rank_check(self, value == 1000 + status.source, "%d from rank %d", value, status.source);
    leat_comm_free(other);
}

static void test_communicators_and_collectives_are_apart(void **state)
{
    (void)state;
    msg_run_both(parts, 1, "apart");
    msg_run_both(parts, 4, "apart");
}

static void test_communicators_and_collectives_over_libfabric_are_apart(void **state)
{
    (void)state;
    msg_run_threads(parts, 4, "apart");
}

static const struct msg_part parts[] = {{"limits", limits},
                                        {"limits_without_attach", limits_without_attach},
                                        {"limits_half_attach", limits_half_attach},
                                        {"synchronous", synchronous},
                                        {"eager", eager},
                                        {"to_oneself", to_oneself},
                                        {"order", order},
                                        {"apart", apart},
                                        {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_around_every_limit_between_threads),
        cmocka_unit_test(test_sizes_around_every_limit_between_processes),
        cmocka_unit_test(test_sizes_around_every_limit_with_few_rings),
        cmocka_unit_test(test_sizes_around_every_limit_with_other_thresholds),
        cmocka_unit_test(test_sizes_around_every_limit_where_attach_is_forbidden),
        cmocka_unit_test(test_a_synchronous_send_finishes_only_when_it_is_matched),
        cmocka_unit_test(test_a_small_send_finishes_without_its_receive),
        cmocka_unit_test(test_blocking_calls_to_oneself),
        cmocka_unit_test(test_mixed_messages_keep_their_order),
        cmocka_unit_test(test_mixed_messages_keep_their_order_with_few_rings),
        cmocka_unit_test(test_communicators_and_collectives_are_apart),
    };
    const struct CMUnitTest over_fabric[] = {
        cmocka_unit_test(test_sizes_around_every_limit_between_threads),
        cmocka_unit_test(test_a_synchronous_send_over_libfabric_finishes_only_when_it_is_matched),
        cmocka_unit_test(test_mixed_messages_over_libfabric_keep_their_order),
        cmocka_unit_test(test_communicators_and_collectives_over_libfabric_are_apart),
    };
    return msg_over_fabric() ? cmocka_run_group_tests(over_fabric, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL);
}
