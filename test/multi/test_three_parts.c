// SPDX-License-Identifier: Apache-2.0
// All three parts on one set of bytes: atoms read from a file into regions, exchanged by a halo
// plan, reduced by messages; and one report of paths whose bytes are those that can be worked out
// from the box.

#define _GNU_SOURCE
#include "multi/boxes.h"

#include <leat/file.h>
#include <leat/msg.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define RANKS     4
#define POINTS    300
#define RING_TAG  7
#define RING_WORD 1000 // 64-bit words of the message that goes round

// The file: all coordinates, three floats an atom, rank by rank; then all numbers, a word an atom.
struct play {
    struct box box;
    uint32_t first[RANKS + 1]; // number of a rank's first atom
    char path[64];
};

struct atoms {
    leat_region *x_region, *id_region;
    float *x;
    uint32_t *id;
    leat_plan *plan;
    leat_plan_info info;
    uint64_t halo_bytes; // that this rank sends in one exchange of both fields
};

static void write_all(int fd, const void *data, size_t bytes)
{
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
}

static void make_file(struct play *play)
{
    snprintf(play->path, sizeof play->path, "/tmp/leat-parts-XXXXXX");
    int fd = mkstemp(play->path);
    assert_true(fd >= 0);
    for (int r = 0; r < RANKS; r++) {
        play->first[r + 1] = play->first[r] + play->box.count[r];
        for (uint32_t i = 0; i < 3 * play->box.count[r]; i++) {
            // What a float holds is what the plan is made from, so that no atom changes sides.
            float x = (float)play->box.x[r][i];
            play->box.x[r][i] = (double)x;
            write_all(fd, &x, sizeof x);
        }
    }
    for (uint32_t id = 0; id < play->first[RANKS]; id++)
        write_all(fd, &id, sizeof id);
    assert_int_equal(close(fd), 0);
}

static uint64_t path_bytes(struct rank_thread *self, bool files)
{
    leat_stats stats = {.size = sizeof stats};
    uint64_t sum = 0;
    rank_check(self, !leat_stats_read(self->job, LEAT_ALL_PEERS, &stats), "%s",
               leat_error_detail());
    for (int p = 0; p < stats.path_count; p++) {
        const char *name = stats.path[p].path;
        bool file = !strcmp(name, "cufile") || !strcmp(name, "mapped") ||
                    !strcmp(name, "odirect") || !strcmp(name, "buffered");
        sum += file == files ? stats.path[p].bytes : 0;
    }
    return sum;
}

static bool make_room(struct rank_thread *self, struct play *play, struct atoms *atoms)
{
    *atoms = (struct atoms){.plan = box_plan(self, &play->box)};
    if (!atoms->plan)
        return false;
    atoms->info = box_info(atoms->plan);
    const uint64_t elements = atoms->info.element_count;
    atoms->x = box_region(self, elements * 12, &atoms->x_region);
    atoms->id = box_region(self, elements * 4, &atoms->id_region);
    if (!atoms->x || !atoms->id)
        return false;
    memset(atoms->x, 0xff, elements * 12);
    memset(atoms->id, 0xff, elements * 4);
    for (int p = 0; p < atoms->info.pulse_count; p++)
        atoms->halo_bytes += (uint64_t)atoms->info.pulses[p].send_count * (12 + 4);
    return true;
}

// Both arrays in one call, straight into the regions.
static bool read_atoms(struct rank_thread *self, const struct play *play, const struct atoms *atoms)
{
    const uint64_t all = play->first[RANKS], mine = play->first[self->rank];
    const uint64_t count = play->box.count[self->rank];
    leat_file_range ranges[] = {
        {.file_offset = mine * 12, .bytes = count * 12, .buffer = {.region = atoms->x_region}},
        {.file_offset = all * 12 + mine * 4,
         .bytes = count * 4,
         .buffer = {.region = atoms->id_region}},
    };
    const leat_file_call call = {.size = sizeof call, .ranges = ranges, .range_count = 2};
    leat_file *file = NULL;
    leat_file_request *request = NULL;
    uint64_t done = 0;
    int error = leat_file_open(self->job, play->path, NULL, &file);
    if (!error)
        error = leat_file_start(file, &call, &request);
    if (!error)
        error = leat_file_wait(request, -1, &done);
    rank_check(self, !error, "%d: %s", error, leat_error_detail());
    rank_check(self, done == count * 16, "%llu bytes", (unsigned long long)done);
    rank_check(self, !leat_file_close(file), "%s", leat_error_detail());
    return !error;
}

static bool exchange(struct rank_thread *self, struct atoms *atoms)
{
    const leat_field fields[] = {
        {.place = {atoms->x_region, 0}, .element = LEAT_F32, .components = 3, .shifted = 1},
        {.place = {atoms->id_region, 0}, .element = LEAT_WORDS, .components = 1},
    };
    const leat_halo_options options = {.size = sizeof options, .field_count = 2, .fields = fields};
    leat_halo *halo = NULL;
    int error = leat_halo_open(self->job, atoms->plan, &options, &halo);
    for (int f = 0; !error && f < 2; f++)
        error = leat_halo_exchange(halo, f, LEAT_FORWARD);
    rank_check(self, !error, "%d: %s", error, leat_error_detail());
    leat_halo_free(halo);
    return !error;
}

// A ghost is the atom of its number, moved by a whole edge or not at all along each axis.
static void check_ghosts(struct rank_thread *self, const struct play *play,
                         const struct atoms *atoms)
{
    for (uint32_t e = 0; e < atoms->info.element_count; e++) {
        const uint32_t id = atoms->id[e];
        int owner = 0;
        if (!rank_check(self, id < play->first[RANKS], "element %u has number %u", e, id))
            return;
        while (id >= play->first[owner + 1])
            owner++;
        rank_check(self, (owner == self->rank) == (e < atoms->info.home_count), "%u of rank %d", e,
                   owner);
        for (int d = 0; d < 3; d++) {
            const float edge = (float)play->box.decomposition.box_nm[d][d];
            const float x = (float)play->box.x[owner][3 * (id - play->first[owner]) + (uint32_t)d];
            const float got = atoms->x[3 * e + (uint32_t)d];
            const bool moved = got == x + edge || got == x - edge;
            rank_check(self, got == x || (e >= atoms->info.home_count && moved),
                       "element %u axis %d is %.9g, atom %u is at %.9g", e, d, (double)got, id,
                       (double)x);
        }
    }
}

static void reduce(struct rank_thread *self, const struct play *play, const struct atoms *atoms)
{
    uint64_t mine[2] = {atoms->info.home_count, 0}, all[2] = {0};
    for (uint32_t e = 0; e < atoms->info.home_count; e++)
        mine[1] += atoms->id[e];
    const leat_collective_options options = {.size = sizeof options,
                                             .kind = LEAT_ALLREDUCE,
                                             .send = mine,
                                             .receive = all,
                                             .count = 2,
                                             .type = LEAT_UINT64,
                                             .operation = LEAT_SUM};
    leat_comm *comm = NULL;
    const uint64_t count = play->first[RANKS];
    rank_check(self, !leat_comm_split(self->job, NULL, &comm), "%s", leat_error_detail());
    rank_check(self, !leat_collective(comm, &options, NULL), "%s", leat_error_detail());
    rank_check(self, all[0] == count && all[1] == count * (count - 1) / 2, "%llu atoms, sum %llu",
               (unsigned long long)all[0], (unsigned long long)all[1]);
}

// Once round the ranks: as many bytes as were sent.
static void send_round(struct rank_thread *self)
{
    static const uint64_t bytes = RING_WORD * sizeof(uint64_t);
    uint64_t out[RING_WORD], in[RING_WORD] = {0};
    leat_request sent = {0};
    leat_request *requests[] = {&sent};
    const int to = (self->rank + 1) % RANKS, from = (self->rank + RANKS - 1) % RANKS;
    leat_comm *comm = NULL;
    leat_comm_split(self->job, NULL, &comm);
    for (uint64_t i = 0; i < RING_WORD; i++)
        out[i] = (uint64_t)self->rank << 32 | i;
    int error = leat_send(comm, (leat_data){out, bytes, NULL}, to, RING_TAG, 0, &sent);
    if (!error)
        error = leat_recv(comm, (leat_data){in, bytes, NULL}, from, RING_TAG, NULL, NULL);
    if (!error)
        error = leat_request_wait(requests, 1, LEAT_WAIT_ALL, -1, NULL);
    rank_check(self, !error, "%d: %s", error, leat_error_detail());
    for (uint64_t i = 0; i < RING_WORD; i++)
        rank_check(self, in[i] == ((uint64_t)from << 32 | i), "word %llu", (unsigned long long)i);
}

static void read_exchange_reduce(struct rank_thread *self)
{
    struct play *play = self->user;
    struct atoms atoms;
    if (!make_room(self, play, &atoms))
        return;
    const uint64_t before = path_bytes(self, false);
    bool held = read_atoms(self, play, &atoms);
    rank_check(self, path_bytes(self, true) == (uint64_t)play->box.count[self->rank] * 16,
               "%llu bytes of files", (unsigned long long)path_bytes(self, true));
    rank_check(self, path_bytes(self, false) == before, "reading counted for a peer");
    held = held && exchange(self, &atoms);
    const uint64_t moved = path_bytes(self, false) - before;
    rank_check(self, moved == atoms.halo_bytes, "%llu bytes of halos, %llu by the plan",
               (unsigned long long)moved, (unsigned long long)atoms.halo_bytes);
    if (held) {
        check_ghosts(self, play, &atoms);
        reduce(self, play, &atoms);
        const uint64_t then = path_bytes(self, false);
        send_round(self);
        const uint64_t sent = path_bytes(self, false) - then;
        rank_check(self, sent == RING_WORD * sizeof(uint64_t), "%llu bytes of messages",
                   (unsigned long long)sent);
    }
    rank_check(self, path_bytes(self, true) == (uint64_t)play->box.count[self->rank] * 16,
               "halos or messages counted as files");
    leat_plan_free(atoms.plan);
}

static void test_atoms_from_a_file_through_a_halo_into_a_sum(void **state)
{
    (void)state;
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    box_fill(&play->box, (const int[3]){1, 2, 2}, 0.9, POINTS, 1u << 2, 17);
    make_file(play);
    ranks_run(RANKS, read_exchange_reduce, play);
    unlink(play->path);
    free(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_atoms_from_a_file_through_a_halo_into_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
