// SPDX-License-Identifier: Apache-2.0
// Plans reads of many small ranges; ranges_run.c carries them out.
//
// Algorithm: the ranges are sorted by memory and file offset (radix sort, one pass for each 11 bits
// in which offsets differ, none when they are in order), then gone through once: a range joins the
// run before it when the gap is no larger than the rule allows and the run still fits a slot, runs
// fill slots one behind the other, and slots are dealt out in spans, one a task. Advantage: linear,
// a few milliseconds for 100,000 ranges, and each stretch of the file is read once though ranges
// overlap. Disadvantage: what lies in the gaps is read too, and thrown away.

#define _GNU_SOURCE
#include "file/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE   ((size_t)2 << 20)
#define DIGIT_BITS   11
#define DIGITS       (1u << DIGIT_BITS)
#define LOADS_MOST   16u   /* of a span */
#define SPANS_A_LANE 4u    /* so that the last ones to end do not decide alone */
#define GAP_CACHED   4096u /* copying more from the page cache takes longer than another call */
#define ALIKE        16u   /* pieces begin alike in slot and memory modulo this, for wide copies */

// All that is asked of a range, so that the sorted ones are gone through in memory's order.
struct key {
    uint64_t offset, address;
    uint32_t bytes, range, place;
};

struct planner {
    const struct file_memory *memory; // [ranges]
    const struct file_ranges_rule *rule;
    struct key *key, *other;
    size_t count;
    struct file_ranges *plan;
    uint64_t run_most, gap; /* bytes of a run; between two ranges of one */
};

// ---- Sorting ----

// Host memory is 0, whoever knows it; each GPU has its own number.
static uint32_t place_of(const struct file_memory *memory)
{
    bool host = memory->kind == COPIES_HOST || memory->kind == COPIES_PINNED;
    return host ? 0 : (uint32_t)(memory->gpu + 2);
}

static uint64_t digit_of(const struct key *key, int shift)
{
    uint64_t value = shift < 64 ? key->offset >> shift : key->place;
    return value & (DIGITS - 1);
}

// Stable, by one digit: of the offset, or from 64 on the place.
static void sort_digit(struct planner *planner, int shift)
{
    uint32_t start[DIGITS] = {0};
    for (size_t i = 0; i < planner->count; i++)
        start[digit_of(&planner->key[i], shift)]++;
    for (uint32_t digit = 0, sum = 0; digit < DIGITS; digit++) {
        uint32_t here = start[digit];
        start[digit] = sum;
        sum += here;
    }
    for (size_t i = 0; i < planner->count; i++)
        planner->other[start[digit_of(&planner->key[i], shift)]++] = planner->key[i];
    struct key *sorted = planner->other;
    planner->other = planner->key;
    planner->key = sorted;
}

static void sort(struct planner *planner)
{
    uint64_t differ = 0;
    uint32_t places = 0;
    bool rising = true;
    for (size_t i = 1; i < planner->count; i++) {
        const struct key *a = &planner->key[i - 1], *b = &planner->key[i];
        differ |= a->offset ^ b->offset;
        places |= a->place ^ b->place;
        rising &= a->offset <= b->offset;
    }
    for (int shift = 0; !rising && shift < 64; shift += DIGIT_BITS)
        if (differ >> shift & (DIGITS - 1))
            sort_digit(planner, shift);
    if (places)
        sort_digit(planner, 64);
}

// ---- Merging ----

// To a power of two; 0: not at all.
static uint64_t align_down(uint64_t value, uint64_t alignment)
{
    return alignment ? value & ~(alignment - 1) : value;
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return alignment ? (value + alignment - 1) & ~(alignment - 1) : value;
}

uint64_t file_ranges_small(const struct file_ranges_rule *rule)
{
    uint64_t lost = rule->alignment ? 2 * rule->alignment : ALIKE;
    uint64_t most = rule->slot_bytes > lost ? rule->slot_bytes - lost + 1 : 0;
    most = most < UINT32_MAX ? most : UINT32_MAX; // kernels count in 32 bits
    return rule->small_bytes < most ? rule->small_bytes : most;
}

// The stretch that the run has to cover for a range too.
static void covered(const struct planner *planner, const struct key *key, uint64_t *begin,
                    uint64_t *end)
{
    *begin = align_down(key->offset, planner->rule->alignment);
    *end = align_up(key->offset + key->bytes, planner->rule->alignment);
}

// Whether it is read where it belongs: host memory, through the page cache, and long enough that a
// call of its own takes less than a copy.
static bool goes_alone(const struct planner *planner, const struct key *key)
{
    return !planner->rule->alignment && !key->place && key->bytes >= GAP_CACHED;
}

// Runs from key `from` on that belong together; returns the key behind.
static size_t merge_run(struct planner *planner, size_t from, struct file_run *run)
{
    struct file_ranges *plan = planner->plan;
    uint64_t begin, end, run_end;
    covered(planner, &planner->key[from], &begin, &run_end);
    run->offset = begin;
    run->first = plan->piece_count;
    size_t i = from;
    for (; i < planner->count && i - from < FILE_PIECES_MAX; i++) {
        const struct key *key = &planner->key[i];
        covered(planner, key, &begin, &end);
        bool near = begin <= run_end || begin - run_end <= planner->gap;
        uint64_t longer = end > run_end ? end : run_end;
        if (key->place != planner->key[from].place || !near ||
            longer - run->offset > planner->run_most ||
            (i > from && (goes_alone(planner, key) || goes_alone(planner, key - 1))))
            break;
        run_end = longer;
        plan->piece[plan->piece_count] =
            (struct copies_piece){key->offset - run->offset, key->address, key->bytes};
        plan->range[plan->piece_count++] = key->range;
    }
    run->bytes = run_end - run->offset;
    run->count = plan->piece_count - run->first;
    return i;
}

// Where the run lies in a slot of which `used` bytes are taken.
static uint64_t slot_place(const struct planner *planner, const struct file_run *run, uint64_t used)
{
    const struct copies_piece *first = &planner->plan->piece[run->first];
    if (planner->rule->alignment)
        return align_up(used, planner->rule->alignment);
    return align_up(used, ALIKE) + ((first->to - first->from) & (ALIKE - 1));
}

// Puts the run into the load, or into a new one.
static void pack_run(struct planner *planner, struct file_run *run, uint32_t place, uint32_t *last)
{
    struct file_ranges *plan = planner->plan;
    struct file_load *load = plan->load_count ? &plan->load[plan->load_count - 1] : NULL;
    uint64_t at = load ? slot_place(planner, run, load->slot_bytes) : 0;
    if (!load || place != *last || at + run->bytes > planner->rule->slot_bytes ||
        load->piece_count + run->count > FILE_PIECES_MAX) {
        load = &plan->load[plan->load_count++];
        *load = (struct file_load){.first_run = plan->run_count, .first_piece = run->first};
        at = slot_place(planner, run, 0);
    }
    *last = place;
    run->slot = at;
    load->slot_bytes = at + run->bytes;
    load->run_count++;
    load->piece_count += run->count;
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        plan->piece[i].from += at;
        load->bytes += plan->piece[i].bytes;
    }
    plan->run_count++;
}

static uint32_t load_place(const struct planner *planner, const struct file_load *load)
{
    return place_of(&planner->memory[planner->plan->range[load->first_piece]]);
}

static void deal_out(struct planner *planner)
{
    struct file_ranges *plan = planner->plan;
    uint32_t lanes = planner->rule->lanes ? planner->rule->lanes : 1;
    uint32_t most = plan->load_count / (lanes * SPANS_A_LANE);
    most = most < 1 ? 1 : most > LOADS_MOST ? LOADS_MOST : most;
    struct file_span *span = NULL;
    for (uint32_t i = 0; i < plan->load_count; i++) {
        const struct file_load *load = &plan->load[i];
        if (!span || span->load_count == most ||
            load_place(planner, load) != load_place(planner, &plan->load[span->first_load])) {
            span = &plan->span[plan->span_count++];
            *span = (struct file_span){.plan = plan,
                                       .memory = planner->memory[plan->range[load->first_piece]],
                                       .first_load = i,
                                       .offset = plan->run[load->first_run].offset};
        }
        span->load_count++;
        span->bytes += load->bytes;
    }
}

static void merge(struct planner *planner)
{
    uint64_t lost = planner->rule->alignment ? 0 : ALIKE;
    uint32_t place = 0;
    planner->run_most = planner->rule->slot_bytes - lost;
    planner->gap = planner->rule->gap_bytes;
    if (!planner->rule->alignment && planner->gap > GAP_CACHED)
        planner->gap = GAP_CACHED;
    for (size_t i = 0; i < planner->count;) {
        struct file_run *run = &planner->plan->run[planner->plan->run_count];
        uint32_t here = planner->key[i].place;
        i = merge_run(planner, i, run);
        pack_run(planner, run, here, &place);
    }
    deal_out(planner);
}

// ---- Making ----

// In large pages where it is large: faults on small ones took longer than all the planning.
static void *room(size_t count, size_t each)
{
    size_t bytes = count * each;
    void *made = NULL;
    if (bytes < LARGE_PAGE)
        return malloc(bytes);
    if (posix_memalign(&made, LARGE_PAGE, bytes))
        return NULL;
    madvise(made, bytes, MADV_HUGEPAGE);
    return made;
}

static int make_room(struct planner *planner, size_t count)
{
    struct file_ranges *plan = planner->plan = calloc(1, sizeof *plan);
    planner->key = room(count, sizeof *planner->key);
    planner->other = room(count, sizeof *planner->other);
    if (plan) {
        plan->piece = room(count, sizeof *plan->piece);
        plan->range = room(count, sizeof *plan->range);
        plan->run = room(count, sizeof *plan->run);
        plan->load = malloc(count * sizeof *plan->load); // seldom many, the rest is never touched
        plan->span = malloc(count * sizeof *plan->span);
    }
    if (plan && planner->key && planner->other && plan->piece && plan->range && plan->run &&
        plan->load && plan->span)
        return 0;
    return leat_fail(-ENOMEM, "no memory to plan a read of %zu ranges", count);
}

void file_ranges_free(struct file_ranges *plan)
{
    if (!plan)
        return;
    free(plan->piece);
    free(plan->range);
    free(plan->run);
    free(plan->load);
    free(plan->span);
    free(plan);
}

int file_ranges_plan(const leat_file_range *ranges, const struct file_memory *memory, size_t count,
                     const struct file_ranges_rule *rule, struct file_ranges **plan)
{
    struct planner planner = {.memory = memory, .rule = rule};
    if (count > UINT32_MAX)
        return leat_fail(-E2BIG, "%zu ranges in one call; at most %u are taken: make several calls",
                         count, UINT32_MAX);
    int error = make_room(&planner, count ? count : 1);
    uint64_t small = file_ranges_small(rule);
    for (size_t i = 0; !error && i < count; i++)
        if (ranges[i].bytes && ranges[i].bytes < small)
            planner.key[planner.count++] =
                (struct key){ranges[i].file_offset, (uint64_t)(uintptr_t)memory[i].address,
                             (uint32_t)ranges[i].bytes, (uint32_t)i, place_of(&memory[i])};
    if (!error) {
        sort(&planner);
        merge(&planner);
        *plan = planner.plan;
    } else {
        file_ranges_free(planner.plan);
    }
    free(planner.key);
    free(planner.other);
    return error;
}
