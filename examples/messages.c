// SPDX-License-Identifier: Apache-2.0
// Work handed out by messages: rank 0 gives the parts of an integral to whoever asks.
//     leat run -n 4 messages
// It shows a blocking and an unfinished call, a receive from any rank, and a collective. The parts
// are added in their own order, so the result has the same bits whoever computed them.
#include <leat/msg.h>
#include <math.h>
#include <stdio.h>

enum { PARTS = 200, POINTS = 20000, RESULT = 1, PART = 2, NO_PART = -1 };

struct result {
    int part;
    double value;
};

// Part of the integral of 4 / (1 + x * x) from 0 to 1, which is pi: by the midpoint rule.
static double integrate(int part)
{
    double step = 1.0 / ((double)PARTS * POINTS), sum = 0;
    for (int i = 0; i < POINTS; i++) {
        double x = ((double)part * POINTS + i + 0.5) * step;
        sum += 4 / (1 + x * x);
    }
    return sum * step;
}

// What a message carries: an address and a size, or a layout (see leat/msg.h).
static leat_data data_of(void *address, uint64_t bytes)
{
    return (leat_data){.address = address, .bytes = bytes};
}

// Ranks begin with the result of no part; each answer is a part, or none when all are given.
static int hand_out(leat_comm *comm, int workers, double *value)
{
    int next = 0;
    while (workers > 0) {
        struct result result;
        leat_status status;
        if (leat_recv(comm, data_of(&result, sizeof result), LEAT_ANY_RANK, RESULT, &status, NULL))
            return -1;
        if (result.part != NO_PART)
            value[result.part] = result.value;
        int part = next < PARTS ? next++ : NO_PART;
        workers -= part == NO_PART;
        if (leat_send(comm, data_of(&part, sizeof part), status.source, PART, 0, NULL))
            return -1;
    }
    for (; next < PARTS; next++) // nobody else is there
        value[next] = integrate(next);
    return 0;
}

// The receive of the next part is under way while the last result is sent.
static int work(leat_comm *comm)
{
    struct result result = {.part = NO_PART};
    do {
        leat_request request, *list[] = {&request};
        int part;
        if (leat_recv(comm, data_of(&part, sizeof part), 0, PART, NULL, &request) ||
            leat_send(comm, data_of(&result, sizeof result), 0, RESULT, 0, NULL) ||
            leat_request_wait(list, 1, LEAT_WAIT_ALL, -1, NULL))
            return -1;
        result.part = part;
        if (part != NO_PART)
            result.value = integrate(part);
    } while (result.part != NO_PART);
    return 0;
}

static int fail(const char *what)
{
    fprintf(stderr, "messages: %s: %s\n", what, leat_error_detail());
    return 1;
}

int main(void)
{
    leat_job *job;
    leat_comm *comm;
    leat_comm_info info = {.size = sizeof info};
    if (leat_open(NULL, &job) || leat_comm_split(job, NULL, &comm) ||
        leat_comm_info_get(comm, &info))
        return fail("open");
    double value[PARTS], pi = 0;
    if (info.rank ? work(comm) : hand_out(comm, info.rank_count - 1, value))
        return fail("messages");
    for (int part = 0; !info.rank && part < PARTS; part++)
        pi += value[part];
    leat_collective_options all = {.size = sizeof all, .kind = LEAT_BROADCAST, .receive = &pi};
    all.count = 1, all.type = LEAT_DOUBLE;
    if (leat_collective(comm, &all, NULL))
        return fail("broadcast");
    printf("rank %d of %d: pi is %.15f\n", info.rank, info.rank_count, pi);
    leat_close(job, NULL);
    return fabs(pi - acos(-1)) > 1e-12;
}
