// SPDX-License-Identifier: Apache-2.0
// Parameters by the types of two to four atoms.
//
// Algorithm: open addressing over the types in the smaller of their two orders; a look-up with
// wildcards tries those places for them that the table has, fewest first. Advantage: a term of a
// large molecule costs a few probes, whatever the size of the force field. Disadvantage: no entry
// is ever taken out.

#include "md/topology_parts.h"

#include "core/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// 1 if the types are written in the larger of their two orders.
static int is_reversed(const struct md_table *table, const int *type)
{
    for (int i = 0; i < table->atom_count; i++) {
        int other = type[table->atom_count - 1 - i];
        if (type[i] != other)
            return type[i] > other;
    }
    return 0;
}

static bool same_types(const struct md_table *table, const int *a, const int *b)
{
    int last = table->atom_count - 1;
    int turned = is_reversed(table, a) != is_reversed(table, b);
    for (int i = 0; i <= last; i++) {
        if (a[i] != b[turned ? last - i : i])
            return false;
    }
    return true;
}

// Mixed as by https://xoshiro.di.unimi.it/splitmix64.c
static uint64_t hash(const struct md_table *table, const int *type)
{
    int last = table->atom_count - 1, turned = is_reversed(table, type);
    uint64_t value = 0;
    for (int i = 0; i <= last; i++) {
        value += (uint64_t)(unsigned)type[turned ? last - i : i] + 0x9e3779b97f4a7c15u;
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
        value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
        value ^= value >> 31;
    }
    return value;
}

// The slot of these types, or the empty one where they would be.
static size_t find_slot(const struct md_table *table, const int *type)
{
    size_t mask = (size_t)table->slot_count - 1;
    size_t slot = (size_t)hash(table, type) & mask;
    while (table->slot[slot] &&
           !same_types(table, table->entries[table->slot[slot] - 1].type, type))
        slot = (slot + 1) & mask;
    return slot;
}

int md_table_find(const struct md_table *table, const int *type)
{
    return table->slot_count ? table->slot[find_slot(table, type)] - 1 : -1;
}

static int grow_slots(struct md_table *table)
{
    if (2 * ((int64_t)table->count + 1) <= table->slot_count)
        return 0;
    if (table->slot_count > INT_MAX / 4)
        return leat_fail(-ENOMEM, "too many parameters in an input");
    int wanted = table->slot_count ? 2 * table->slot_count : 64;
    int *slot = calloc((size_t)wanted, sizeof *slot);
    if (!slot)
        return leat_fail(-ENOMEM, "no memory for a table of %d parameters", wanted);
    free(table->slot);
    table->slot = slot;
    table->slot_count = wanted;
    for (int i = 0; i < table->count; i++) {
        size_t place = find_slot(table, table->entries[i].type);
        if (!table->slot[place]) // else a further term
            table->slot[place] = i + 1;
    }
    return 0;
}

static unsigned wildcards(const struct md_table *table, const int *type)
{
    unsigned bits = 0;
    for (int i = 0; i < table->atom_count; i++)
        bits |= type[i] == MD_WILDCARD ? 1U << i : 0;
    return bits;
}

static int append(struct md_table *table, const struct md_table_entry *entry)
{
    struct md_table_entry *grown =
        md_reserve(table->entries, table->count, &table->capacity, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    table->entries = grown;
    table->entries[table->count] = *entry;
    table->entries[table->count].next = -1;
    // The other order matches too.
    int turned[MD_TERM_ATOMS];
    for (int i = 0; i < table->atom_count; i++)
        turned[i] = entry->type[table->atom_count - 1 - i];
    table->wildcards |= 1U << wildcards(table, entry->type) | 1U << wildcards(table, turned);
    table->count++;
    return 0;
}

static bool same_parameters(const struct md_table_entry *a, const struct md_table_entry *b)
{
    for (int i = 0; i < MD_TERM_PARAMETERS; i++) {
        if (a->parameter[i] < b->parameter[i] || a->parameter[i] > b->parameter[i])
            return false;
    }
    return true;
}

// Another line for types that are there.
static int add_again(struct md_table *table, int first, const struct md_table_entry *entry,
                     bool several)
{
    bool repeated = false, differs = false;
    int last = first;
    for (int i = first; i >= 0; i = table->entries[i].next) {
        if (same_parameters(&table->entries[i], entry))
            repeated = true;
        else
            differs = true;
        last = i;
    }
    const int *before = table->entries[table->count - 1].type;
    bool goes_on =
        several && memcmp(before, entry->type, sizeof entry->type) == 0; // in the same order too
    if (differs && !goes_on && !table->entries[first].changed.file)
        table->entries[first].changed = entry->place;
    if (repeated || !goes_on)
        return 0;
    int error = append(table, entry);
    if (!error)
        table->entries[last].next = table->count - 1;
    return error;
}

int md_table_add(struct md_table *table, int atom_count, const struct md_table_entry *entry,
                 bool several)
{
    table->atom_count = atom_count;
    int first = md_table_find(table, entry->type);
    if (first >= 0)
        return add_again(table, first, entry, several);
    int error = grow_slots(table);
    if (!error)
        error = append(table, entry);
    if (!error)
        table->slot[find_slot(table, entry->type)] = table->count;
    return error;
}

// The earliest entry with `count` wildcards that matches, -1.
static int match_wildcards(const struct md_table *table, const int *type, int count)
{
    int best = -1;
    for (unsigned bits = 0; bits < 1U << table->atom_count; bits++) {
        if (__builtin_popcount(bits) != count || !(table->wildcards >> bits & 1))
            continue;
        int tried[MD_TERM_ATOMS] = {0};
        for (int i = 0; i < table->atom_count; i++)
            tried[i] = bits >> i & 1 ? MD_WILDCARD : type[i];
        int found = md_table_find(table, tried);
        if (found >= 0 && (best < 0 || found < best))
            best = found;
    }
    return best;
}

int md_table_match(const struct md_table *table, const int *type)
{
    int found = -1;
    for (int count = 0; count <= table->atom_count && found < 0; count++)
        found = match_wildcards(table, type, count);
    return found;
}

void md_table_free(struct md_table *table)
{
    free(table->entries);
    free(table->slot);
}
