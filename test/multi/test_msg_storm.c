// SPDX-License-Identifier: Apache-2.0
// Random traffic within small budgets: whatever order receives take, every letter arrives.
//
// All ranks know a list of letters from a seed. Each sends its own without waiting, and receives
// those for it in an order of its own, by receives posted early or late, cancelled ones among them,
// too small ones, and matched probes for anything from anybody. Letters of one sender under one tag
// have to come in their order, all others are free. Advantage: any program that is right by the
// rules may come out, so a message that is lost or a rank that waits for ever shows. Disadvantage:
// which part is wrong has to be found from the seed.
//
// As threads (ranks_run) and as processes.

#include "multi/msg_flood.h"

#define TAGS      3
#define MOST_RANK 8

static const struct msg_part parts[2];

struct letter {
    int from, to, tag, flags;
    enum msg_shape shape, into;
    uint64_t bytes, room; // room: of the receive
};

struct storm {
    struct rank_thread *self;
    leat_comm *comm;
    struct ranks_random random;
    struct letter *letter; // of all ranks, in the order of each sender
    int count, sent, taken, open;
    int only; // the tag that is asked for, as long as there are letters of it; -1: any
    int next[MOST_RANK][TAGS]; // place in the list after the last letter that was asked for
    int left[MOST_RANK][TAGS]; // letters of a class that were not asked for yet
    struct msg_memory *memory; // of each letter that this rank sends or receives
    leat_request *request, **list;
    leat_status *status;
};

static uint64_t below(struct ranks_random *random, uint64_t bound)
{
    return ranks_random_word(random) % bound;
}

// Mostly of a few bytes; in every second storm nearly all fit a packet.
static uint64_t letter_bytes(struct ranks_random *random, bool small)
{
    if (small && below(random, 32))
        return below(random, 8) ? below(random, 100) : below(random, 481);
    switch (below(random, 16)) {
    case 0:
        return below(random, 200000);
    case 1:
    case 2:
        return below(random, 40000);
    case 3:
    case 4:
    case 5:
        return below(random, 1200);
    default:
        return below(random, 120);
    }
}

static void make_letters(struct storm *storm, uint64_t seed, int ranks)
{
    struct ranks_random random = {seed};
    for (int i = 0; i < storm->count; i++) {
        struct letter *letter = &storm->letter[i];
        letter->from = (int)below(&random, (uint64_t)ranks);
        letter->to = (int)below(&random, (uint64_t)ranks);
        letter->tag = (int)below(&random, TAGS);
        letter->flags = below(&random, 8) == 0 ? LEAT_SEND_SYNCHRONOUS : 0;
        letter->bytes = letter->room = letter_bytes(&random, seed % 2);
        letter->shape = below(&random, 4) ? MSG_PLAIN : (enum msg_shape)below(&random, MSG_SHAPES);
        letter->into = below(&random, 4) ? MSG_PLAIN : (enum msg_shape)below(&random, MSG_SHAPES);
        if (letter->bytes && below(&random, 10) == 0)
            letter->room = below(&random, letter->bytes);
        if (letter->to == storm->self->rank)
            storm->left[letter->from][letter->tag]++;
    }
}

static bool send_next(struct storm *storm)
{
    struct rank_thread *self = storm->self;
    while (storm->sent < storm->count && storm->letter[storm->sent].from != self->rank)
        storm->sent++;
    if (storm->sent == storm->count)
        return false;
    // A letter to oneself has a place of its own for each side.
    int i = storm->sent++, place = i + storm->count;
    const struct letter *letter = &storm->letter[i];
    if (!msg_memory_make(self, &storm->memory[place], letter->shape, letter->bytes))
        return false;
    msg_memory_stamp(&storm->memory[place], (uint64_t)i);
    storm->list[place] = &storm->request[place];
    storm->open++;
    return msg_fine(self, leat_send(storm->comm, storm->memory[place].data, letter->to, letter->tag,
                                    letter->flags, &storm->request[place]));
}

// The next letter of its class is asked for: its number.
static int ask_for(struct storm *storm, int from, int tag)
{
    int i = storm->next[from][tag];
    while (storm->letter[i].from != from || storm->letter[i].to != storm->self->rank ||
           storm->letter[i].tag != tag)
        i++;
    storm->next[from][tag] = i + 1;
    storm->left[from][tag]--;
    storm->list[i] = &storm->request[i];
    storm->open++;
    return i;
}

static void give_back(struct storm *storm, int i)
{
    const struct letter *letter = &storm->letter[i];
    storm->next[letter->from][letter->tag] = i;
    storm->left[letter->from][letter->tag]++;
    storm->list[i] = NULL;
    storm->open--;
    msg_memory_free(&storm->memory[i]);
}

// A receive of a class that has letters left; some are taken back at once.
static bool post_one(struct storm *storm)
{
    struct rank_thread *self = storm->self;
    int from = (int)below(&storm->random, (uint64_t)self->rank_count);
    int tag = storm->only < 0 ? (int)below(&storm->random, TAGS) : storm->only;
    if (!storm->left[from][tag])
        return true;
    int i = ask_for(storm, from, tag);
    const struct letter *letter = &storm->letter[i];
    if (!msg_memory_make(self, &storm->memory[i], letter->into, letter->room) ||
        !msg_fine(self, leat_recv(storm->comm, storm->memory[i].data, from, tag, &storm->status[i],
                                  &storm->request[i])))
        return false;
    if (below(&storm->random, 10) == 0 && !leat_cancel(&storm->request[i])) {
        msg_gives(self, -ECANCELED, msg_wait_one(&storm->request[i], -1));
        give_back(storm, i);
    }
    return true;
}

// Takes whatever there is that no posted receive is for.
static bool take_one(struct storm *storm, double timeout_s)
{
    struct rank_thread *self = storm->self;
    // Its number is known only afterwards, and a request has to stay where it is.
    leat_request *matched = &storm->request[2 * storm->count + storm->taken];
    leat_status status;
    bool wild = below(&storm->random, 2);
    int from = (int)below(&storm->random, (uint64_t)self->rank_count);
    int error = leat_probe(storm->comm, wild ? LEAT_ANY_RANK : from, LEAT_ANY_TAG, timeout_s,
                           &status, matched);
    if (error == -ETIMEDOUT)
        return true;
    storm->taken++;
    if (!msg_fine(self, error) ||
        !rank_check(self, storm->left[status.source][status.tag] > 0,
                    "one letter too many from rank %d, tag %d", status.source, status.tag))
        return false;
    int i = ask_for(storm, status.source, status.tag);
    storm->list[i] = matched;
    const struct letter *letter = &storm->letter[i];
    return rank_check(self, status.bytes == letter->bytes, "letter %d has %llu of %llu bytes", i,
                      (unsigned long long)status.bytes, (unsigned long long)letter->bytes) &&
           msg_memory_make(self, &storm->memory[i], letter->into, letter->room) &&
           msg_fine(self, leat_recv_matched(storm->memory[i].data, &storm->status[i], matched, 0));
}

static bool finish_one(struct storm *storm, size_t place, int error)
{
    struct rank_thread *self = storm->self;
    bool send = place >= (size_t)storm->count;
    size_t i = send ? place - (size_t)storm->count : place;
    const struct letter *letter = &storm->letter[i];
    storm->list[place] = NULL;
    storm->open--;
    bool fine = rank_check(self, error == (send || letter->room == letter->bytes ? 0 : -EMSGSIZE),
                           "letter %zu of %llu bytes into %llu: %d %s", i,
                           (unsigned long long)letter->bytes, (unsigned long long)letter->room,
                           error, leat_error_detail());
    if (!send) {
        const leat_status *status = &storm->status[i];
        fine = fine && rank_check(self,
                                  status->source == letter->from && status->tag == letter->tag &&
                                      status->bytes == letter->room,
                                  "letter %zu: source %d, tag %d, %llu bytes", i, status->source,
                                  status->tag, (unsigned long long)status->bytes);
    }
    fine = fine &&
           msg_memory_check(self, &storm->memory[place], i, send ? letter->bytes : letter->room);
    msg_memory_free(&storm->memory[place]);
    return fine;
}

static bool wait_one(struct storm *storm, double timeout_s)
{
    size_t place = 0;
    int error =
        leat_request_wait(storm->list, 2 * (size_t)storm->count, LEAT_WAIT_ANY, timeout_s, &place);
    if (error == -ETIMEDOUT || place == 2 * (size_t)storm->count)
        return true;
    return finish_one(storm, place, error);
}

static bool is_left(const struct storm *storm, int tag)
{
    for (int from = 0; from < MOST_RANK; from++)
        if (storm->left[from][tag])
            return true;
    return false;
}

// How eager a rank is to send and to receive, and what, changes now and then. Some first want the
// letters of the last tag, so that those of the others find no room.
static void change_mind(struct storm *storm, uint64_t weight[4])
{
    for (int w = 0; w < 4; w++)
        weight[w] = below(&storm->random, 8) + (w == 3);
    while (storm->only >= 0 && !is_left(storm, storm->only))
        storm->only--;
    if (storm->only >= 0)
        weight[2] = 0;
}

static void run_letters(struct storm *storm)
{
    struct rank_thread *self = storm->self;
    uint64_t weight[4] = {0};
    bool sends = true;
    storm->only = below(&storm->random, 4) ? TAGS - 1 : -1;
    for (int step = 0; !self->failure_count; step++) {
        if (!sends && !storm->open && !is_left(storm, 0) && !is_left(storm, 1) &&
            !is_left(storm, 2))
            break;
        if (step % 50 == 0)
            change_mind(storm, weight);
        uint64_t choice = below(&storm->random, weight[0] + weight[1] + weight[2] + weight[3]);
        if (choice < weight[0])
            sends = send_next(storm);
        else if ((choice -= weight[0]) < weight[1])
            post_one(storm);
        else if ((choice -= weight[1]) < weight[2])
            take_one(storm, below(&storm->random, 4) ? 0 : 0.0005);
        else
            wait_one(storm, below(&storm->random, 4) ? 0 : 0.0005);
        if (below(&storm->random, 8) == 0)
            sched_yield();
    }
}

static void storm_once(struct rank_thread *self, leat_comm *comm, uint64_t seed, int count)
{
    size_t places = 2 * (size_t)count;
    struct storm storm = {.self = self,
                          .comm = comm,
                          .random = {seed * 64 + (uint64_t)self->rank},
                          .count = count,
                          .letter = calloc(places, sizeof *storm.letter),
                          .memory = calloc(places, sizeof *storm.memory),
                          .request = calloc(places + (size_t)count, sizeof *storm.request),
                          .list = calloc(places, sizeof(leat_request *)),
                          .status = calloc(places, sizeof *storm.status)};
    if (rank_check(self,
                   storm.letter && storm.memory && storm.request && storm.list && storm.status,
                   "no memory")) {
        make_letters(&storm, seed, self->rank_count);
        run_letters(&storm);
    }
    // Who has gone on may neither leave nor send the next letters.
    const leat_collective_options barrier = {.size = sizeof barrier, .kind = LEAT_BARRIER};
    if (!self->failure_count)
        msg_fine(self, leat_collective(comm, &barrier, NULL));
    for (size_t i = 0; storm.memory && i < places; i++)
        msg_memory_free(&storm.memory[i]);
    free(storm.letter);
    free(storm.memory);
    free(storm.request);
    free(storm.list);
    free(storm.status);
}

static void storm(struct rank_thread *self)
{
    leat_comm *comm = msg_world(self);
    const char *text = getenv("TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1, count = msg_scaled(40, 2);
    for (uint64_t i = 0; comm && i < count && !self->failure_count; i++)
        storm_once(self, comm, seed + i,
                   (seed + i) % 2 ? 900 * self->rank_count : 500 * self->rank_count);
    if (self->failure_count)
        fprintf(stderr, "rank %d of %d: seed %llu\n", self->rank, self->rank_count,
                (unsigned long long)seed);
    msg_check_budget(self);
}

// ---- Settings ----

struct weather {
    int ranks;
    const char *budget, *peers, *eager;
};

static void run_storm(const struct weather *weather, uint64_t seed)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("TEST_SEED", text, 1);
    setenv("LEAT_MSG_BUDGET", weather->budget, 1);
    setenv("LEAT_MSG_PEERS", weather->peers, 1);
    setenv("LEAT_MSG_EAGER", weather->eager, 1);
    msg_run_both(parts, weather->ranks, "storm");
    unsetenv("TEST_SEED");
    unsetenv("LEAT_MSG_BUDGET");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("LEAT_MSG_EAGER");
}

static void test_storms_within_ample_budgets(void **state)
{
    (void)state;
    static const struct weather list[] = {
        {1, "64M", "1024", "32K"}, {2, "64M", "1024", "32K"}, {4, "64M", "2", "32K"}};
    for (uint64_t i = 0; i < sizeof list / sizeof *list; i++)
        run_storm(&list[i], 100 * i);
}

static void test_storms_within_small_budgets(void **state)
{
    (void)state;
    static const struct weather list[] = {{1, "1500K", "1", "32K"},  {2, "1500K", "2", "32K"},
                                          {3, "1500K", "1", "1000"}, {4, "1500K", "3", "0"},
                                          {5, "1500K", "2", "32K"},  {3, "1500K", "3", "32K"}};
    for (uint64_t i = 0; i < sizeof list / sizeof *list; i++)
        run_storm(&list[i], 1000 + 100 * i);
}

static void test_storms_over_libfabric(void **state)
{
    (void)state;
    setenv("LEAT_MSG_BUDGET", "2M", 1);
    setenv("TEST_SEED", "2000", 1);
    msg_run_threads(parts, 2, "storm");
    setenv("LEAT_MSG_PEERS", "1", 1);
    setenv("TEST_SEED", "2101", 1);
    msg_run_threads(parts, 3, "storm");
    unsetenv("LEAT_MSG_PEERS");
    unsetenv("TEST_SEED");
    unsetenv("LEAT_MSG_BUDGET");
}

static const struct msg_part parts[] = {{"storm", storm}, {NULL, NULL}};

int main(int argc, char **argv)
{
    if (leat_launched())
        return msg_play(parts, argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storms_within_ample_budgets),
        cmocka_unit_test(test_storms_within_small_budgets),
    };
    const struct CMUnitTest over_fabric[] = {cmocka_unit_test(test_storms_over_libfabric)};
    return msg_over_fabric() ? cmocka_run_group_tests(over_fabric, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL);
}
