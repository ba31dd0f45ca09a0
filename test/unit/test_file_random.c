// SPDX-License-Identifier: Apache-2.0
// Random calls against a model: an array that says what the file holds.
//
// Every round writes ranges that do not overlap, by calls under way at once, through the page cache
// or past it (not both at once, which the kernel does not promise to keep apart), from memory of
// the host and of a device whose copies come late; now and then the file gets another length or its
// pages are dropped; then random ranges are read both ways and compared, counts and the bytes
// behind them too.

#define _GNU_SOURCE
#include "support/file_ways.h"

#define MODEL_BYTES UINT64_C(3000000)
#define CALLS       12
#define RANGES      6

struct world {
    struct stage *stage;
    unsigned char *model; /* [MODEL_BYTES] */
    uint64_t bytes;       /* of the file */
    leat_file *file[2];   /* through the page cache, past it */
    uint64_t state;       /* of the generator */
};

struct flight {
    leat_file_range range[RANGES];
    leat_file_request *request;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->state ^= world->state << 13;
    world->state ^= world->state >> 7;
    world->state ^= world->state << 17;
    return world->state % below;
}

// Often at a page or a block, and a few bytes beside it.
static uint64_t draw_offset(struct world *world, uint64_t below)
{
    static const uint64_t units[] = {1, 512, 4096, 65536};
    uint64_t unit = units[draw(world, 4)], at = draw(world, below) / unit * unit;
    return draw(world, 4) ? at : (at + draw(world, 7)) % below;
}

// The lower half of the buffer is the host's, the upper one the device's.
static leat_buffer place(const struct world *world, bool device, uint64_t offset)
{
    unsigned char *half = world->stage->buffer + (device ? STAGE_BYTES / 2 : 0);
    return (leat_buffer){.address = half, .offset = offset};
}

static void begin(leat_file *file, struct flight *flight, enum leat_file_operation operation,
                  size_t count)
{
    const leat_file_call call = {
        .size = sizeof call, .operation = operation, .ranges = flight->range, .range_count = count};
    stage_ok(leat_file_start(file, &call, &flight->request));
}

static void write_round(struct world *world)
{
    struct flight flight[CALLS];
    leat_file *file = world->file[draw(world, 2)];
    uint64_t at = draw_offset(world, 100000), end = 0;
    int calls = 0;
    for (; calls < CALLS; calls++) {
        bool device = draw(world, 2);
        size_t count = 0;
        for (; count < RANGES && at < MODEL_BYTES; count++) {
            uint64_t bytes = 1 + draw_offset(world, draw(world, 3) ? 20000 : 400000);
            bytes = bytes < MODEL_BYTES - at ? bytes : MODEL_BYTES - at;
            leat_buffer from = place(world, device, at + draw(world, 9));
            for (uint64_t i = 0; i < bytes; i++)
                world->model[at + i] = (unsigned char)draw(world, 256);
            memcpy((char *)from.address + from.offset, world->model + at, bytes);
            flight[calls].range[count] =
                (leat_file_range){.file_offset = at, .bytes = bytes, .buffer = from};
            end = at + bytes;
            // The next one's memory begins behind this one's, whatever its shift.
            at = end + 16 + draw_offset(world, 60000);
        }
        if (!count)
            break;
        begin(file, &flight[calls], LEAT_FILE_OP_WRITE, count);
        world->bytes = end > world->bytes ? end : world->bytes;
    }
    for (int i = 0; i < calls; i++)
        stage_ok(leat_file_wait(flight[i].request, -1, NULL));
}

static void check_range(const struct world *world, const leat_file_range *range, uint64_t room)
{
    uint64_t at = range->file_offset;
    uint64_t there = at < world->bytes ? world->bytes - at : 0;
    assert_int_equal(range->done, there < range->bytes ? there : range->bytes);
    const unsigned char *to = (unsigned char *)range->buffer.address + range->buffer.offset;
    if (memcmp(to, world->model + at, range->done) != 0)
        fail_msg("%llu bytes at %llu are not what was written", (unsigned long long)range->bytes,
                 (unsigned long long)at);
    for (uint64_t i = range->done; i < room; i++)
        assert_int_equal(to[i], STAGE_POISON);
}

static void read_round(struct world *world)
{
    enum { ROOM = 280000 };
    struct flight flight[CALLS];
    size_t counts[CALLS];
    memset(world->stage->buffer, STAGE_POISON, STAGE_BYTES);
    for (uint64_t i = 0; i < CALLS; i++) {
        bool device = draw(world, 2);
        counts[i] = 1 + draw(world, RANGES);
        for (uint64_t j = 0; j < counts[i]; j++)
            flight[i].range[j] = (leat_file_range){
                .file_offset = draw_offset(world, MODEL_BYTES),
                .bytes = draw_offset(world, draw(world, 3) ? 9000 : ROOM - 64),
                .buffer = place(world, device, (i * RANGES + j) * ROOM + draw(world, 9))};
        begin(world->file[draw(world, 2)], &flight[i], LEAT_FILE_OP_READ, counts[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        stage_ok(leat_file_wait(flight[i].request, -1, NULL));
        for (size_t j = 0; j < counts[i]; j++)
            check_range(world, &flight[i].range[j], flight[i].range[j].bytes + 16);
    }
}

static void change_round(struct world *world)
{
    if (draw(world, 3) == 0) {
        uint64_t bytes = draw_offset(world, MODEL_BYTES);
        stage_ok(leat_file_resize(world->file[0], bytes));
        if (bytes < world->bytes)
            memset(world->model + bytes, 0, MODEL_BYTES - bytes);
        world->bytes = bytes;
    }
    if (draw(world, 3) == 0)
        stage_ok(leat_file_drop(world->file[0], 0, 0));
}

static void run_rounds(struct stage *stage, unsigned seed)
{
    struct fake_copies fake;
    struct world world = {.stage = stage, .state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    world.model = calloc(1, MODEL_BYTES);
    assert_non_null(world.model);
    fake_copies_begin(&fake, stage->job, stage->buffer + STAGE_BYTES / 2, STAGE_BYTES / 2, seed);
    stage_fill(stage, 0);
    leat_file_options options = {.size = sizeof options, .flags = LEAT_FILE_READ | LEAT_FILE_WRITE};
    for (int i = 0; i < 2; i++) {
        options.direct = i ? "on" : "off";
        world.file[i] = stage_open(stage, &options);
    }
    for (int round = 0; round < 12; round++) {
        write_round(&world);
        change_round(&world);
        read_round(&world);
    }
    for (int i = 0; i < 2; i++)
        stage_ok(leat_file_close(world.file[i]));
    leat_close(stage->job, NULL);
    assert_int_equal(fake_copies_lost(), 0);
    fake_copies_forget();
    stage_ok(leat_open(NULL, &stage->job));
    free(world.model);
}

static void files_hold_what_the_model_holds(void **state)
{
    for (unsigned seed = 1; seed <= 5; seed++) {
        print_message("seed %u\n", seed);
        run_rounds(*state, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_hold_what_the_model_holds, stage_begin, stage_end),
    };
    ways_settings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
