// SPDX-License-Identifier: Apache-2.0
// A rank dies in the middle of everybody's traffic, at a point that a seed chooses.
//
// All ranks send each other messages of random sizes, all under way at once; the last rank kills
// itself after so many of its own have finished. What goes between the others has to arrive whole;
// what was to or from the dead one either did or ends with -ECONNRESET; nobody waits for ever.
// Advantage: a death meets every state of every protocol in the end. Disadvantage: which state it
// met is not known.

#include "multi/msg_flood.h"

#include <signal.h>

#define LETTERS   24 /* from each rank to each */
#define MOST_RANK 5

struct traffic {
    struct rank_thread *self;
    leat_comm *comm;
    int victim, places; // the first half sends, the other one receives
    struct msg_memory memory[2 * LETTERS * MOST_RANK];
    leat_request request[2 * LETTERS * MOST_RANK], *list[2 * LETTERS * MOST_RANK];
    leat_status status[2 * LETTERS * MOST_RANK];
};

static uint64_t letter_seed(int from, int to, int number)
{
    return (uint64_t)((from * MOST_RANK + to) * LETTERS + number);
}

static uint64_t letter_bytes(int from, int to, int number)
{
    static const uint64_t most[] = {100, 100, 100, 500, 5000, 40000, 300000};
    struct ranks_random random = {letter_seed(from, to, number)};
    uint64_t bound = most[ranks_random_word(&random) % (sizeof most / sizeof *most)];
    return ranks_random_word(&random) % bound;
}

static int peer_of(const struct traffic *traffic, int place)
{
    return place / LETTERS % traffic->self->rank_count;
}

// An unfinished call for the letter of a place; its tag is its number.
static bool begin(struct traffic *traffic, int place)
{
    struct rank_thread *self = traffic->self;
    int peer = peer_of(traffic, place), number = place % LETTERS;
    bool sends = place < traffic->places / 2;
    int from = sends ? self->rank : peer, to = sends ? peer : self->rank;
    struct msg_memory *memory = &traffic->memory[place];
    if (!msg_memory_make(self, memory, number % 5 ? MSG_PLAIN : MSG_ROWS,
                         letter_bytes(from, to, number)))
        return false;
    traffic->list[place] = &traffic->request[place];
    if (!sends)
        return msg_fine(self, leat_recv(traffic->comm, memory->data, peer, number,
                                        &traffic->status[place], traffic->list[place]));
    msg_memory_stamp(memory, letter_seed(from, to, number));
    return msg_fine(self, leat_send(traffic->comm, memory->data, peer, number, number % 7 == 0,
                                    traffic->list[place]));
}

static void end(struct traffic *traffic, int place, int error)
{
    struct rank_thread *self = traffic->self;
    int peer = peer_of(traffic, place), number = place % LETTERS;
    rank_check(self, !error || (error == -ECONNRESET && peer == traffic->victim),
               "letter %d %s rank %d: %d %s", number, place < traffic->places / 2 ? "to" : "from",
               peer, error, leat_error_detail());
    if (!error && place >= traffic->places / 2)
        msg_memory_check(self, &traffic->memory[place], letter_seed(peer, self->rank, number),
                         letter_bytes(peer, self->rank, number));
    msg_memory_free(&traffic->memory[place]);
}

static void finish(struct traffic *traffic, struct ranks_random *random, int dies_after)
{
    struct rank_thread *self = traffic->self;
    size_t place;
    for (int finished = 0; finished < traffic->places && !self->failure_count;) {
        double timeout_s = ranks_random_word(random) % 3 ? 0.001 : 0;
        int error = leat_request_wait(traffic->list, (size_t)traffic->places, LEAT_WAIT_ANY,
                                      timeout_s, &place);
        if (self->rank == traffic->victim && finished >= dies_after)
            raise(SIGKILL);
        if (error == -ETIMEDOUT)
            continue;
        end(traffic, (int)place, error);
        traffic->list[place] = NULL;
        finished++;
    }
}

static void deaths(struct rank_thread *self)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    struct ranks_random random = {seed * 8 + (uint64_t)self->rank};
    struct traffic *traffic = calloc(1, sizeof *traffic);
    leat_comm *comm = msg_world(self);
    if (!comm || !traffic || self->rank_count > MOST_RANK)
        return;
    traffic->self = self;
    traffic->comm = comm;
    traffic->victim = self->rank_count - 1;
    traffic->places = 2 * LETTERS * self->rank_count;
    // In an order of its own; a death among the beginnings is tried too.
    int step = 1 + 2 * (int)(ranks_random_word(&random) % 20), place = 0, begun = 0;
    while (step % 3 == 0 || step % 5 == 0) // the places are 2^a * 3 * 5^b at most
        step += 2;
    struct ranks_random shared = {seed};
    int dies_after = (int)(ranks_random_word(&shared) % (uint64_t)traffic->places);
    bool early = ranks_random_word(&shared) % 4 == 0;
    for (; begun < traffic->places && !self->failure_count; begun++) {
        if (early && self->rank == traffic->victim && begun == dies_after)
            raise(SIGKILL);
        begin(traffic, place);
        place = (place + step) % traffic->places;
        if (begun % 16 == 0)
            msg_delay(&random, comm);
    }
    finish(traffic, &random, dies_after);
    // Who is through may not leave before the others are.
    for (int r = 0; r < traffic->victim; r++)
        msg_tell(self, comm, r);
    for (int r = 0; r < traffic->victim; r++)
        msg_hear(self, comm, r);
    msg_check_budget(self);
    free(traffic);
}

static void run_deaths(const char *budget, const char *peers, uint64_t first, uint64_t count)
{
    char text[32];
    setenv("LEAT_MSG_BUDGET", budget, 1);
    setenv("LEAT_MSG_PEERS", peers, 1);
    for (uint64_t seed = first; seed < first + count; seed++) {
        int ranks = 2 + (int)(seed % 4);
        snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
        setenv("TEST_SEED", text, 1);
        char failure[2048];
        if (!msg_survived(ranks, "deaths", ranks - 1, failure))
            fail_msg("seed %s, %d ranks: %s", text, ranks, failure);
    }
    unsetenv("LEAT_MSG_BUDGET");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("TEST_SEED");
}

static void test_a_death_in_the_middle_ends_only_what_it_has_to(void **state)
{
    (void)state;
    run_deaths("64M", "1024", 1, msg_scaled(400, 20));
}

static void test_a_death_in_the_middle_of_small_budgets(void **state)
{
    (void)state;
    run_deaths("1500K", "1", 1000, msg_scaled(400, 20));
}

static const struct msg_part parts[] = {{"deaths", deaths}, {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_death_in_the_middle_ends_only_what_it_has_to),
        cmocka_unit_test(test_a_death_in_the_middle_of_small_budgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
