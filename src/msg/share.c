// SPDX-License-Identifier: Apache-2.0
// Shared copies: sender and receiver move one large message together.
//
// Algorithm: the receiver reads chunks from the front, the sender writes chunks from the back, and
// both claim them from one word in the receiver's memory. Whoever is busy elsewhere just claims
// none. The lines with these words are never freed, and a claim names the generation of its line,
// so a helper who comes late claims nothing and touches nothing. Advantage: two cores copy at once,
// and neither depends on the other's progress. Disadvantage: an atomic operation a chunk, so it
// pays from a size on.

#include "msg/rendezvous.h"

#include <errno.h>
#include <string.h>

#define LINE   64
#define SHARES 16
#define PAGE   4096

struct share {
    uint64_t claim;   // generation << 32 | chunks claimed
    uint64_t written; // chunks the helper has written
    uint64_t failed;  // the chunk that the helper claimed and could not write, + 1
    uint8_t line[LINE - 24];
};

struct msg_shares {
    struct share *line;
    struct msg_token token;
    uint32_t in_use; // bits
    uint32_t generation;
};

#define SHARES_BYTES (SHARES * sizeof(struct share))

int msg_shares_open(struct msg_engine *engine)
{
    struct msg_net *net = engine->net;
    struct msg_shares *shares = msg_alloc(&engine->pools, POOL_STAGING, sizeof *shares);
    if (!shares)
        return -ENOMEM;
    void *memory = NULL;
    if (msg_charge(&engine->pools, POOL_STAGING, SHARES_BYTES)) {
        msg_free(&engine->pools, POOL_STAGING, shares, sizeof *shares);
        return -ENOMEM;
    }
    if (net->ops->alloc(net, SHARES_BYTES, &memory, &shares->token)) {
        msg_discharge(&engine->pools, POOL_STAGING, SHARES_BYTES);
        msg_free(&engine->pools, POOL_STAGING, shares, sizeof *shares);
        return -ENOMEM;
    }
    shares->line = memory;
    engine->shares = shares;
    engine->mapped = net->ops->map(net, net->rank, &shares->token, SHARES_BYTES) != NULL;
    return 0;
}

void msg_shares_close(struct msg_engine *engine)
{
    struct msg_shares *shares = engine->shares;
    if (!shares)
        return;
    engine->net->ops->free(engine->net, shares->line, SHARES_BYTES);
    msg_discharge(&engine->pools, POOL_STAGING, SHARES_BYTES);
    msg_free(&engine->pools, POOL_STAGING, shares, sizeof *shares);
    engine->shares = NULL;
}

// Two halves while a system call costs more than waiting for the other side; more chunks later, so
// that one who comes late still helps. Both sides compute it from the same number.
uint64_t msg_chunk_bytes(const struct msg_engine *engine, uint64_t all)
{
    uint64_t parts = all <= 512 * 1024 ? 2 : all <= 2048 * 1024 ? 4 : 8;
    uint64_t size = (all / parts + PAGE) / PAGE * PAGE;
    return size < engine->tuning.chunk_bytes ? size : engine->tuning.chunk_bytes;
}

static uint64_t count_of(const struct msg_engine *engine, uint64_t all)
{
    uint64_t size = msg_chunk_bytes(engine, all);
    return (all + size - 1) / size;
}

static uint64_t piece_bytes(uint64_t size, uint64_t all, uint64_t offset)
{
    return all - offset < size ? all - offset : size;
}

// Claims a chunk of this generation; false: none is left.
static bool claim(struct share *share, uint32_t generation, uint64_t count)
{
    uint64_t seen = __atomic_load_n(&share->claim, __ATOMIC_RELAXED);
    do {
        if (seen >> 32 != generation || (uint32_t)seen >= count)
            return false;
    } while (!__atomic_compare_exchange_n(&share->claim, &seen, seen + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    return true;
}

static struct share *take_line(struct msg_shares *shares, uint32_t *generation)
{
    for (uint32_t i = 0; i < SHARES; i++) {
        if (shares->in_use & 1u << i)
            continue;
        struct share *share = &shares->line[i];
        shares->in_use |= 1u << i;
        // Generation 0 belongs to lines that are not in use.
        if (++shares->generation == 0)
            shares->generation = 1;
        *generation = shares->generation;
        share->written = share->failed = 0;
        __atomic_store_n(&share->claim, (uint64_t)*generation << 32, __ATOMIC_RELEASE);
        return share;
    }
    return NULL;
}

static void hide(struct msg_engine *engine, struct msg_request *request)
{
    if (engine->net->ops->hide)
        engine->net->ops->hide(engine->net, &request->helped);
}

void msg_share_drop(struct msg_engine *engine, struct msg_request *request)
{
    hide(engine, request);
    struct share *share = request->near;
    __atomic_store_n(&share->claim, 0, __ATOMIC_RELEASE);
    engine->shares->in_use &= ~(1u << (share - engine->shares->line));
    request->near = NULL;
}

void msg_share_ask(struct msg_engine *engine, struct msg_request *request)
{
    struct msg_token tokens[2];
    uint32_t peer = msg_peer_find(engine, request->peer), generation;
    if (request->data.layout || request->peer == engine->net->rank || !peer ||
        engine->net->ops->expose(engine->net, request->peer, request->data.address,
                                 msg_wanted(request), &tokens[0]))
        return;
    struct share *share = take_line(engine->shares, &generation);
    request->helped = tokens[0];
    if (!share) {
        hide(engine, request);
        return;
    }
    request->near = share;
    tokens[1] = engine->shares->token;
    struct msg_packet packet;
    packet.header = (struct msg_header){.kind = WIRE_CLEAR,
                                        .handle = request->remote,
                                        .bytes = msg_wanted(request),
                                        .tag = (int32_t)(share - engine->shares->line),
                                        .sequence = generation};
    memcpy(packet.payload, tokens, sizeof tokens);
    if (!msg_control(engine, peer, &packet, sizeof tokens)) {
        msg_share_drop(engine, request);
        return;
    }
    request->produced = 0;
    request->mode = MODE_SHARE;
    msg_add(&engine->counts.shared, 1);
}

// A chunk could not be read: nobody claims any more, and what was claimed is all there will be.
static void give_up(struct msg_request *request, uint32_t generation, uint64_t count, int error)
{
    struct share *share = request->near;
    uint64_t before = __atomic_exchange_n(&share->claim, (uint64_t)generation << 32 | UINT32_MAX,
                                          __ATOMIC_ACQ_REL);
    uint64_t claimed = (uint32_t)before;
    request->status.error = error < 0 ? error : -EIO;
    request->done = claimed < count ? claimed : count;
}

static int copy_one(struct msg_engine *engine, struct msg_request *request, uint64_t chunk)
{
    uint64_t all = msg_wanted(request), size = msg_chunk_bytes(engine, all), offset = chunk * size;
    int error = msg_copy_chunk(engine, request, offset, piece_bytes(size, all, offset));
    request->produced++;
    engine->events++;
    return error;
}

// Nothing is left to claim: once what the helper has claimed is written, or known not to be, it is
// over.
static bool settled(struct msg_engine *engine, struct msg_request *request, uint32_t generation,
                    uint64_t count)
{
    struct share *share = request->near;
    uint64_t failed = __atomic_load_n(&share->failed, __ATOMIC_ACQUIRE);
    uint64_t written = __atomic_load_n(&share->written, __ATOMIC_ACQUIRE);
    if (request->status.error)
        return request->produced + written + (failed != 0) >= request->done;
    if (failed && failed <= count && request->produced + written + 1 == count) {
        int error = copy_one(engine, request, failed - 1);
        if (error)
            give_up(request, generation, count, error);
        return true;
    }
    return request->produced + written >= count;
}

void msg_share_step(struct msg_engine *engine, struct msg_request *request)
{
    struct share *share = request->near;
    uint64_t count = count_of(engine, msg_wanted(request));
    uint32_t generation = (uint32_t)(__atomic_load_n(&share->claim, __ATOMIC_RELAXED) >> 32);
    if (!request->status.error && claim(share, generation, count)) {
        if (request->produced >= count) {
            msg_peer_nonsense(engine, msg_peer_find(engine, request->peer), NULL,
                              "chunks of a message are claimed again");
            return;
        }
        int error = copy_one(engine, request, request->produced);
        if (error)
            give_up(request, generation, count, error);
        return;
    }
    if (!settled(engine, request, generation, count))
        return;
    engine->events++;
    msg_share_drop(engine, request);
    request->mode = MODE_DONE;
    if (request->status.error != -EPERM)
        return;
    // Neither side may touch the other's memory: all of it once more, by pipe.
    request->mode = MODE_WANT_PIPE;
    request->status.error = 0;
    request->done = 0;
}

// `done` is what the receiver wants, `remote` the generation, `produced` the chunks written.
void msg_share_help(struct msg_engine *engine, struct msg_request *request)
{
    struct share *share = request->near;
    uint64_t count = count_of(engine, request->done);
    int error = -EALREADY;
    if (request->produced < count && claim(share, request->remote, count)) {
        uint64_t chunk = count - 1 - request->produced;
        uint64_t size = msg_chunk_bytes(engine, request->done), offset = chunk * size;
        uint64_t bytes = piece_bytes(size, request->done, offset);
        const char *from = (const char *)request->data.address + offset;
        error = 0;
        if (request->far)
            memcpy((char *)request->far + offset, from, bytes);
        else
            error = engine->net->ops->bulk_put(engine->net, request->peer, &request->helped, offset,
                                               from, bytes, &request->transfer);
        if (!error)
            msg_count(engine, request->peer, bytes);
        request->produced += !error;
        if (error)
            __atomic_store_n(&share->failed, chunk + 1, __ATOMIC_RELEASE);
        else
            __atomic_store_n(&share->written, request->produced, __ATOMIC_RELEASE);
        engine->events++;
        msg_poke(engine, request->peer);
    }
    if (error) {
        request->mode = MODE_NONE;
        msg_rendezvous_leave(engine, request);
    }
}

void msg_share_asked(struct msg_engine *engine, uint32_t peer, struct msg_request *request,
                     const struct msg_packet *packet)
{
    struct msg_token tokens[2];
    void *lines;
    memcpy(tokens, packet->payload, sizeof tokens);
    if (request->mode != MODE_NONE || !msg_is_plain(request))
        return;
    if (packet->header.tag < 0 || packet->header.tag >= SHARES || !packet->header.sequence) {
        msg_peer_nonsense(engine, peer, &packet->header, "it names no line of shares");
        return;
    }
    if (!msg_map_words(engine, peer, packet, &tokens[1], SHARES_BYTES, &lines) || !lines)
        return;
    request->near = (struct share *)lines + packet->header.tag;
    request->far =
        engine->net->ops->map(engine->net, request->peer, &tokens[0], packet->header.bytes);
    request->helped = tokens[0];
    request->remote = packet->header.sequence;
    request->done = packet->header.bytes;
    request->produced = 0;
    request->mode = MODE_HELP;
    msg_rendezvous_join(engine, request);
}
