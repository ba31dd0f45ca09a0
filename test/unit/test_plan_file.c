// SPDX-License-Identifier: Apache-2.0
// Plan files: what is written is read back to the last bit, and what is damaged is refused by
// place.

#include "glue/repair_plan.h"
#include "multi/boxes.h"
#include "multi/graphs.h"

#include "core/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    struct graph graph;
    struct box box;
    bool of_box;
    const char *path;
    leat_plan *plan[GRAPH_RANKS];
    int error[GRAPH_RANKS];
};

static char directory[] = "leat-plan-XXXXXX";

static const char *file(char path[64], const char *name)
{
    snprintf(path, 64, "%s/%s", directory, name);
    return path;
}

static void write_plan(struct rank_thread *self)
{
    struct job *job = self->user;
    leat_plan *plan = job->of_box ? box_plan(self, &job->box) : graph_plan(self, &job->graph);
    job->error[self->rank] = leat_plan_write(self->job, plan, job->path);
    rank_check(self, !job->error[self->rank] || strstr(leat_error_detail(), job->path),
               "the path is not in: %s", leat_error_detail());
    job->plan[self->rank] = plan;
}

static void free_plans(struct job *job, int ranks)
{
    for (int rank = 0; rank < ranks; rank++)
        leat_plan_free(job->plan[rank]);
    free(job);
}

static struct job *new_job(const char *path)
{
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->path = path;
    return job;
}

static void assert_same(const leat_plan *a, const leat_plan *b)
{
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->rank_count, b->rank_count);
    assert_int_equal(a->home_count, b->home_count);
    assert_int_equal(a->element_count, b->element_count);
    assert_int_equal(a->pulse_count, b->pulse_count);
    assert_memory_equal(&a->margin_nm, &b->margin_nm, sizeof a->margin_nm);
    assert_memory_equal(a->zone, b->zone, a->element_count);
    for (int p = 0; p < a->pulse_count; p++) {
        leat_pulse one = a->pulse[p], other = b->pulse[p];
        if (one.send_count)
            assert_memory_equal(one.index, other.index, one.send_count * sizeof *one.index);
        one.index = other.index = NULL;
        assert_int_equal(one.dimension, other.dimension);
        assert_int_equal(one.direction, other.direction);
        assert_int_equal(one.send_rank, other.send_rank);
        assert_int_equal(one.recv_rank, other.recv_rank);
        assert_int_equal(one.send_count, other.send_count);
        assert_int_equal(one.recv_count, other.recv_count);
        assert_int_equal(one.dependent_start, other.dependent_start);
        assert_int_equal(one.recv_offset, other.recv_offset);
        assert_memory_equal(one.shift_nm, other.shift_nm, sizeof one.shift_nm);
    }
}

static void read_back(struct job *job, int ranks)
{
    ranks_run(ranks, write_plan, job);
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(job->error[rank], 0);
        leat_plan *plan = NULL;
        if (leat_plan_read(job->path, rank, &plan))
            fail_msg("rank %d: %s", rank, leat_error_detail());
        assert_same(plan, job->plan[rank]);
        leat_plan_free(plan);
    }
    free_plans(job, ranks);
}

static void test_what_is_written_is_read_back_to_the_bit(void **state)
{
    (void)state;
    char path[64];
    for (int ranks = 1; ranks <= 8; ranks++) {
        struct job *job = new_job(file(path, "graph"));
        graph_random(&job->graph, ranks, 40 + (uint64_t)ranks);
        read_back(job, ranks);
    }
    static const int cube[3] = {2, 2, 2}, row[3] = {4, 1, 1};
    struct job *job = new_job(file(path, "box"));
    job->of_box = true;
    box_fill(&job->box, cube, 0.9, 100, 0, 3);
    read_back(job, 8);
    job = new_job(path);
    job->of_box = true;
    box_fill(&job->box, row, 1.3, 100, 2, 3);
    read_back(job, 4);
}

static size_t file_count(void)
{
    size_t count = 0;
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static void test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(void **state)
{
    (void)state;
    char path[64];
    size_t before = file_count();
    for (int round = 0; round < 2; round++) {
        struct job *job = new_job(file(path, "replaced"));
        graph_ring(&job->graph, 2 + round);
        read_back(job, 2 + round);
    }
    assert_int_equal(file_count(), before + 1);
}

static void test_what_cannot_be_written_is_everybodys_error(void **state)
{
    (void)state;
    char path[64];
    struct job *job = new_job(file(path, "absent/plan"));
    graph_ring(&job->graph, 3);
    ranks_run(3, write_plan, job);
    assert_int_equal(job->error[0], -ENOENT);
    assert_int_equal(job->error[1], -EREMOTEIO);
    assert_int_equal(job->error[2], -EREMOTEIO);
    free_plans(job, 3);
}

// ---- Damaged files ----

struct bytes {
    uint8_t *data;
    size_t bytes;
};

static struct bytes sample(void)
{
    char path[64];
    struct job *job = new_job(file(path, "sample"));
    struct ranks_random random = {2};
    job->graph = (struct graph){.rank_count = 2, .home = {5, 3}};
    graph_join(&job->graph, 0, 1, 3, &random);
    graph_join(&job->graph, 1, 0, 2, &random);
    ranks_run(2, write_plan, job);
    free_plans(job, 2);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    struct bytes read = {.data = calloc(1, 4096)};
    assert_non_null(read.data);
    read.bytes = fread(read.data, 1, 4096, stream);
    fclose(stream);
    return read;
}

static void refuse(const uint8_t *data, size_t bytes, const char *words)
{
    struct plan_set set = {.rank_count = -7};
    leat_fail(0, "poison");
    assert_int_equal(leat_plan_set_parse(data, bytes, "some.plan", &set), -EPROTO);
    if (!strstr(leat_error_detail(), "some.plan: ") || !strstr(leat_error_detail(), words))
        fail_msg("\"%s\" is not in: %s", words, leat_error_detail());
}

static void test_every_flipped_byte_and_every_cut_is_noticed(void **state)
{
    (void)state;
    struct bytes good = sample();
    struct plan_set set;
    assert_int_equal(leat_plan_set_parse(good.data, good.bytes, "some.plan", &set), 0);
    leat_plan_set_free(&set);
    for (size_t i = 0; i < good.bytes; i++) {
        good.data[i] ^= 0x10;
        refuse(good.data, good.bytes, "offset");
        good.data[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < good.bytes; cut++)
        refuse(good.data, cut, "bytes");
    free(good.data);
}

static void test_sizes_that_the_file_cannot_hold_are_refused_by_place(void **state)
{
    (void)state;
    // Two ranks: table from 32, sections from 80 on; rank 0 has 1 pulse, 5 + 2 elements.
    static const struct {
        size_t offset;
        uint32_t value;
        const char *words;
    } changes[] = {
        {0, 0, "offset 0: no plan file"},
        {8, 2, "offset 8: version 2"},
        {12, 0, "offset 12: 0 ranks"},
        {12, 0xffffffff, "offset 12: 4294967295 ranks"},
        {32, 81, "offset 32: rank 0 lies at 81"},
        {40, 0xfffffff8, "offset 32"},
        {40, 8, "offset 32"},
        {80, 1, "offset 80: rank 0: a section"},
        {84, 0xffffffff, "offset 80: rank 0: 4294967295 pulses"},
        {84, 2, "do not make a section"},
        {88, 8, "8 home elements of 7"},
        {92, 0xffffffff, "do not make a section"},
        {96, 0xffffffff, "4294967295 entries"},
        {100, 0xffffffff, "do not make a section"},
        {108, 0x7ff00000, "a ghost margin of"},
        {112, 3, "pulse 0 has dimension 3"},
        {116, 0, "pulse 0 has direction 0"},
        {120, 2, "pulse 0 sends to rank 2"},
        {124, 0xfffffffe, "receives from rank -2"},
        {128, 4, "pulse 0 sends 4 of 3 entries"},
        {128, 2, "2 of 3 entries"},
        {132, 3, "receives 3 elements"},
        {136, 2, "dependent entries"},
        {140, 6, "receives 2 elements at 6"},
        {148, 0x7ff80000, "shift"},
        {168, 5, "element 5"},
        {180, 2, "ghost 0 comes from rank 2 of 2"},
        {196, 1, "zone 1"},
    };
    struct bytes good = sample();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t *data = malloc(good.bytes); // its exact size, for the sanitizers
        assert_non_null(data);
        memcpy(data, good.data, good.bytes);
        put_u32(data + changes[i].offset, changes[i].value);
        repair_plan(data, good.bytes);
        refuse(data, good.bytes, changes[i].words);
        free(data);
    }
    free(good.data);
}

static void test_files_and_ranks_that_are_not_there(void **state)
{
    (void)state;
    char path[64];
    leat_plan *plan = NULL;
    struct bytes good = sample();
    free(good.data);
    assert_int_equal(leat_plan_read(file(path, "nothing"), 0, &plan), -ENOENT);
    assert_non_null(strstr(leat_error_detail(), path));
    assert_int_equal(leat_plan_read(directory, 0, &plan), -EINVAL);
    assert_int_equal(leat_plan_read(file(path, "sample"), 2, &plan), -EINVAL);
    assert_non_null(strstr(leat_error_detail(), "2 ranks; 2 was asked"));
    assert_int_equal(leat_plan_read(path, -1, &plan), -EINVAL);
    assert_null(plan);
}

static void open_the_others(struct rank_thread *self)
{
    char path[64];
    leat_plan *plan = NULL;
    leat_halo *halo = NULL;
    leat_region *region = NULL;
    box_region(self, 4096, &region);
    rank_check(self, !leat_plan_read(file(path, "sample"), 1 - self->rank, &plan), "%s",
               leat_error_detail());
    const leat_field field = {.place = {region, 0}, .element = LEAT_F32, .components = 1};
    const leat_halo_options options = {.size = sizeof options, .field_count = 1, .fields = &field};
    int error = leat_halo_open(self->job, plan, &options, &halo);
    rank_check(self, error == -EINVAL && strstr(leat_error_detail(), "the plan is of rank"),
               "%d: %s", error, leat_error_detail());
    leat_plan_free(plan);
    leat_region_free(region);
}

static void test_another_ranks_plan_is_refused_where_it_is_opened(void **state)
{
    (void)state;
    struct bytes good = sample();
    free(good.data);
    ranks_run(2, open_the_others, NULL);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static mode_t kind_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & S_IFMT;
}

static void test_a_link_stays_and_its_target_is_replaced(void **state)
{
    (void)state;
    char path[64], target[64];
    file(target, "replaced");
    file(path, "link");
    unlink(target);
    assert_int_equal(symlink("replaced", path), 0);
    for (int round = 0; round < 2; round++) { // to nowhere at first
        struct job *job = new_job(path);
        graph_random(&job->graph, 2, 9 + (uint64_t)round);
        read_back(job, 2);
        assert_int_equal(kind_of(path), S_IFLNK);
        assert_int_equal(kind_of(target), S_IFREG);
    }
    unlink(path);
}

static void test_a_pipe_is_written_and_stays_a_pipe(void **state)
{
    (void)state;
    char path[64], magic[9] = "";
    assert_int_equal(mkfifo(file(path, "pipe"), 0600), 0);
    int end = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(end >= 0);
    struct job *job = new_job(path);
    graph_random(&job->graph, 2, 11);
    ranks_run(2, write_plan, job);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(job->error[rank], 0);
    free_plans(job, 2);
    assert_int_equal(kind_of(path), S_IFIFO);
    assert_int_equal(read(end, magic, 8), 8);
    assert_string_equal(magic, "leatplan");
    close(end);
    unlink(path);
}

static int remove_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"graph", "box", "replaced", "sample"};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(file(path, names[i]));
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_back_to_the_bit),
        cmocka_unit_test(test_a_file_is_replaced_whole_and_nothing_is_left_beside_it),
        cmocka_unit_test(test_a_link_stays_and_its_target_is_replaced),
        cmocka_unit_test(test_a_pipe_is_written_and_stays_a_pipe),
        cmocka_unit_test(test_what_cannot_be_written_is_everybodys_error),
        cmocka_unit_test(test_every_flipped_byte_and_every_cut_is_noticed),
        cmocka_unit_test(test_sizes_that_the_file_cannot_hold_are_refused_by_place),
        cmocka_unit_test(test_files_and_ranks_that_are_not_there),
        cmocka_unit_test(test_another_ranks_plan_is_refused_where_it_is_opened),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
