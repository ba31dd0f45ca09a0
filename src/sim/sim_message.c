// SPDX-License-Identifier: Apache-2.0
// What travels between simulated ranks, and what it does when it is there.
//
// Algorithm: records come from pages and go back to a list; the bytes of a slot or packet lie in
// the record, as a rule. Advantage: the last record that was given back, still in the cache, is the
// next one. Disadvantage: a record is as large as the largest kind needs.

#define _GNU_SOURCE
#include "core/error.h"
#include "msg/wire.h"
#include "sim/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES    (2u << 20)
#define PAGE_MESSAGES 8190

struct sim_message_page {
    struct sim_message_page *next;
    struct sim_message message[PAGE_MESSAGES];
};

struct sim_message *sim_message_take(struct sim_fabric *fabric)
{
    if (!fabric->free_messages) {
        struct sim_message_page *page =
            aligned_alloc(PAGE_BYTES, (sizeof *page + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
        if (!page) {
            if (!fabric->error)
                fabric->error = leat_fail(-ENOMEM, "no memory for messages on their way");
            return NULL;
        }
        madvise(page, sizeof *page, MADV_HUGEPAGE);
        page->next = fabric->pages;
        fabric->pages = page;
        for (int i = PAGE_MESSAGES - 1; i >= 0; i--) {
            page->message[i].transfer.next = (void *)fabric->free_messages;
            fabric->free_messages = &page->message[i];
        }
    }
    struct sim_message *message = fabric->free_messages;
    fabric->free_messages = (void *)message->transfer.next;
    message->ranges = NULL;
    message->more = NULL;
    message->range_count = message->bytes = 0;
    message->leaves = false;
    return message;
}

void sim_message_give(struct sim_fabric *fabric, struct sim_message *message)
{
    free(message->more);
    if (message->ranges != &message->range)
        free(message->ranges);
    message->transfer.next = (void *)fabric->free_messages;
    fabric->free_messages = message;
}

uint8_t *sim_message_data(struct sim_message *message, uint32_t bytes)
{
    message->bytes = bytes;
    if (bytes <= SIM_DATA_BYTES)
        return message->data;
    return message->more = malloc(bytes);
}

void sim_messages_free(struct sim_fabric *fabric)
{
    while (fabric->pages) {
        struct sim_message_page *page = fabric->pages;
        fabric->pages = page->next;
        free(page);
    }
    fabric->free_messages = NULL;
}

// ---- Arriving ----

static void arrive_put(struct sim_fabric *fabric, struct sim_rank *rank,
                       struct sim_message *message)
{
    if (message->put.block >= rank->block_count)
        return;
    struct sim_block *block = &rank->block[message->put.block];
    const uint8_t *data = message->more ? message->more : message->data;
    if (!block->live || block->generation != message->put.generation)
        return; // it was freed: lost, as on a real network
    if (!block->news) {
        block->news = true;
        if (rank->news_count < SIM_NEWS)
            rank->news[rank->news_count] = message->put.block;
        rank->news_count++;
    }
    for (int i = 0; i < 2 && message->put.extent[i]; i++) {
        uint64_t at = message->put.offset[i];
        uint32_t extent = message->put.extent[i];
        bool hollow = i == 0 && message->ranges;
        if ((hollow || block->store.count) &&
            sim_store_write(&block->store, at, at + extent, hollow ? message->ranges : NULL,
                            hollow ? message->range_count : 0, hollow ? at : 0) &&
            !fabric->error)
            fabric->error = leat_fail(-ENOMEM, "no memory to say what a ring holds");
        if (hollow)
            continue;
        memcpy(sim_block_at(block, at), data, extent);
        data += extent;
    }
}

static bool is_message(const struct sim_message *message)
{
    if (message->transfer.kind == SIM_PUT)
        return true;
    if (message->transfer.kind != SIM_PACKET)
        return false;
    const struct msg_header *header = (const void *)(message->more ? message->more : message->data);
    return header->kind == WIRE_EAGER || header->kind == WIRE_ANNOUNCE;
}

// The data begins its way back.
static void arrive_get(struct sim_fabric *fabric, struct sim_message *message)
{
    struct sim_transfer *transfer = &message->transfer;
    int from = transfer->from;
    transfer->from = transfer->to;
    transfer->to = from;
    transfer->kind = SIM_GET_DATA;
    transfer->bytes = message->get.bytes;
    if (transfer->bytes <= fabric->network.small_bytes)
        sim_network_send(&fabric->network, transfer, transfer->event.at_ps);
    else
        sim_network_send_bulk(&fabric->network, transfer, transfer->event.at_ps);
}

static void notice(struct sim_rank *rank, uint64_t at_ps, uint64_t cost_ps)
{
    rank->owed_ps += cost_ps;
    if (rank->wake_ps == SIM_NEVER)
        rank->wake_ps = at_ps > rank->cpu_ps ? at_ps : rank->cpu_ps;
}

void sim_message_arrive(struct sim_fabric *fabric, struct sim_message *message)
{
    struct sim_rank *rank = &fabric->rank[message->transfer.to];
    uint64_t at_ps = message->transfer.event.at_ps;
    if (message->leaves) {
        message->leaves = false;
        sim_network_send_bulk(&fabric->network, &message->transfer, at_ps);
        return;
    }
    uint64_t cost_ps = is_message(message) ? fabric->costs.receive_ps : fabric->costs.command_ps;
    switch (message->transfer.kind) {
    case SIM_PUT:
        arrive_put(fabric, rank, message);
        break;
    case SIM_PACKET:
        message->transfer.next = NULL;
        if (rank->arrived)
            rank->latest->transfer.next = &message->transfer;
        else
            rank->arrived = message;
        rank->latest = message;
        notice(rank, at_ps, cost_ps);
        return;
    case SIM_GET:
        arrive_get(fabric, message);
        return;
    case SIM_GET_DATA:
        sim_memory_move(rank, message->get.local, &fabric->rank[message->transfer.from],
                        message->get.remote, message->get.bytes);
        message->get.finished->finished = 1;
        rank->net.gets--;
        break;
    case SIM_WORDS_END:
        if (message->get.bytes)
            memcpy(message->get.local, message->get.remote, message->get.bytes);
        message->get.finished->finished = 1;
        break;
    default:
        cost_ps = 0;
        break;
    }
    notice(rank, at_ps, cost_ps);
    sim_message_give(fabric, message);
}
