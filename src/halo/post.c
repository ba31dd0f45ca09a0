// SPDX-License-Identifier: Apache-2.0
// What the proxy carries for a halo, or NVSHMEM's puts: which peers need it, what is packed where,
// what an order means.
//
// Algorithm: a peer's region without an address here cannot be stored to; every word and every
// entry that goes to one gets a post, found by its number alone, and entries a place here that
// takes the landing's part. Advantage: an order is two numbers, and the kernels pack as they store.
// Disadvantage: memory for all entries that are sent so, twice where they land in two zones.

#include "halo/proxy.h"

#include "transport/nvshmem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool rule(const struct leat_job *job, const char *verb)
{
    return leat_path_rule(job->config.paths, verb, "proxy");
}

bool halo_is_direct(const leat_region *view)
{
    return view->address && (view->owner == view->job->rank || !rule(view->job, "require:"));
}

int halo_can_carry(const leat_region *view, const char *what)
{
    if (halo_is_direct(view) || view->row == ROW_NVSHMEM)
        return 0;
    if (!view->transport->put_signal)
        return leat_fail(-EHOSTUNREACH,
                         "%s of rank %d can be copied to but not stored to directly (%s), and that "
                         "path carries nothing for kernels",
                         what, view->owner, view->transport->name);
    if (rule(view->job, "forbid:"))
        return leat_fail(-EHOSTUNREACH,
                         "%s of rank %d can be copied to but not stored to directly (%s), and "
                         "LEAT_PATHS forbids the proxy; allow it, or allocate with "
                         "leat_region_alloc",
                         what, view->owner, view->transport->name);
    return 0;
}

bool halo_stores_to_all(const struct leat_halo *halo)
{
    struct leat_job *job = halo->job;
    const enum region_kind kind = job->device->ops->region_alloc ? REGION_DEVICE : REGION_ARENA;
    for (int p = 0; p < halo->plan->pulse_count; p++) {
        const int ranks[2] = {halo->plan->pulse[p].send_rank, halo->plan->pulse[p].recv_rank};
        for (int i = 0; i < 2; i++) {
            if (ranks[i] == LEAT_NOBODY || ranks[i] == job->rank)
                continue;
            int row = rule(job, "require:") ? -1 : leat_path_choose(job, ranks[i], kind, NULL);
            if (row < 0 || !leat_transports[row]->map || row == ROW_HOSTCOPY ||
                (row == ROW_NVSHMEM && !leat_nvshmem_stores(job, ranks[i])))
                return false;
        }
    }
    return true;
}

// ---- posts ----

static void word(struct leat_halo *halo, const struct halo_peer *peer, int p, int f, int q,
                 enum board_signal which)
{
    struct halo_post *post = &halo->proxy->posts[halo_post_number(halo, p, f, which)];
    post->signals = peer->signals;
    post->signal_offset = (uint64_t)halo_post_number(halo, q, f, which) * LEAT_SIGNAL_BYTES;
    if (!halo_is_direct(peer->signals))
        post->peer = peer->rank;
}

// What goes with a word, and how many bytes it takes here.
static uint64_t entries(struct leat_halo *halo, const struct halo_peer *peer, uint32_t number,
                        const leat_region *to, uint64_t bytes, uint64_t zones)
{
    struct halo_post *post = &halo->proxy->posts[number];
    if (halo_is_direct(to) && halo_is_direct(peer->signals))
        return 0;
    post->peer = peer->rank;
    post->to = to;
    post->bytes = bytes;
    post->from_stride = halo_whole_lines(bytes);
    return zones * halo_whole_lines(bytes);
}

static uint64_t to_receiver(struct leat_halo *halo, int p, int f)
{
    const struct halo_peer *to = halo_peer_of(halo, halo->plan->pulse[p].send_rank);
    if (!to)
        return 0;
    const struct board *theirs = halo_board_of(to);
    const uint64_t each = halo->field[f].element_bytes;
    const int q = halo->to_pulse[p], zones = halo->field[f].given.zones;
    const uint32_t number = halo_post_number(halo, p, f, BOARD_X_IN);
    struct halo_post *post = &halo->proxy->posts[number];
    word(halo, to, p, f, q, BOARD_X_IN);
    word(halo, to, p, f, q, BOARD_F_FREE);
    post->offset = theirs->field[f].base_offset + theirs->pulse[q].recv_offset * each;
    post->stride = zones == 2 ? theirs->ghost_count * each : 0;
    return entries(halo, to, number, to->base[f], halo->plan->pulse[p].send_count * each,
                   (uint64_t)zones);
}

static uint64_t to_sender(struct leat_halo *halo, int p, int f)
{
    const struct halo_peer *from = halo_peer_of(halo, halo->plan->pulse[p].recv_rank);
    if (!from)
        return 0;
    const struct board *theirs = halo_board_of(from);
    const uint64_t each = halo->field[f].element_bytes;
    const int q = halo->from_pulse[p];
    const uint32_t number = halo_post_number(halo, p, f, BOARD_F_IN);
    word(halo, from, p, f, q, BOARD_X_FREE);
    word(halo, from, p, f, q, BOARD_F_IN);
    if (halo->field[f].given.element == LEAT_WORDS) // they do not come back
        return 0;
    halo->proxy->posts[number].offset =
        theirs->field[f].returned_offset + theirs->pulse[q].send_offset * each;
    return entries(halo, from, number, from->returned, halo->plan->pulse[p].recv_count * each, 1);
}

static uint32_t post_count(const struct leat_halo *halo)
{
    return halo_post_number(halo, halo->plan->pulse_count, 0, BOARD_X_IN);
}

static bool is_needed(const struct leat_halo *halo)
{
    for (int i = 0; i < halo->peer_count; i++) {
        const struct halo_peer *peer = &halo->peer[i];
        bool direct = halo_is_direct(peer->signals) && halo_is_direct(peer->returned);
        for (int f = 0; f < halo->field_count; f++)
            direct = direct && halo_is_direct(peer->base[f]);
        if (!direct)
            return true;
    }
    return false;
}

static int share(struct leat_halo *halo, struct halo_proxy *link, uint64_t packed_bytes)
{
    struct device *device = halo->job->device;
    const uint64_t orders = K_RING_ORDERS * sizeof(struct k_order);
    const uint64_t bytes = orders + sizeof(struct leat_signal) + packed_bytes;
    void *made = NULL;
    int error = 0;
    if (device->ops->report_alloc)
        error = device->ops->report_alloc(device, bytes, &made);
    else if (posix_memalign(&made, LEAT_SIGNAL_BYTES, bytes))
        error = leat_fail(-ENOMEM, "no memory for what the proxy carries (%llu bytes)",
                          (unsigned long long)bytes);
    if (error)
        return error;
    link->shared_bytes = bytes;
    link->shared = memset(made, 0, bytes);
    link->order = made;
    link->carried = (struct leat_signal *)(void *)(link->shared + orders);
    link->packed = link->shared + orders + sizeof(struct leat_signal);
    return 0;
}

// ---- puts ----

// All of the halo's memory on GPUs is reached by one path or none of it.
static bool by_nvshmem(const struct leat_halo *halo)
{
    for (int i = 0; i < halo->peer_count; i++)
        if (halo->peer[i].returned->row == ROW_NVSHMEM)
            return true;
    return false;
}

static void fill_put(const struct halo_post *post, struct k_put *put)
{
    *put = (struct k_put){.from = post->from,
                          .from_stride = post->from_stride,
                          .bytes = post->bytes,
                          .peer = post->peer};
    if (post->peer < 0)
        return;
    if (post->to) {
        put->to = leat_nvshmem_symmetric(post->to, post->offset);
        put->to_stride = post->stride;
    }
    if (post->signals->row == ROW_NVSHMEM)
        put->signal = leat_nvshmem_symmetric(post->signals, post->signal_offset);
}

// What has been packed lies in the symmetric heap too: a put may come from there on any path.
static int share_puts(struct leat_halo *halo, struct halo_proxy *link, uint64_t packed_bytes)
{
    const leat_region_options options = {
        .size = sizeof options, .bytes = packed_bytes, .memory = LEAT_MEMORY_DEVICE};
    int error = leat_region_alloc(halo->job, &options, &link->packed_region);
    if (!error)
        link->packed = link->packed_region->address;
    return error;
}

static int publish_puts(struct leat_halo *halo, struct halo_proxy *link)
{
    struct device *device = halo->job->device;
    const uint32_t count = post_count(halo);
    int error = device->ops->alloc(device, count * sizeof(struct k_put), &link->puts);
    struct k_put *puts = link->puts.host;
    for (uint32_t i = 0; !error && i < count; i++)
        fill_put(&link->posts[i], &puts[i]);
    return error ? error : device->ops->publish(device, &link->puts);
}

int halo_put(struct leat_halo *halo, int f, int p, enum board_signal word, const void *from,
             uint64_t value)
{
    const struct k_put *puts = halo->proxy->puts.host;
    struct k_put put = puts[halo_post_number(halo, p, f, word)];
    put.from = from;
    put.bytes = from ? put.bytes : 0;
    int error = leat_nvshmem_put(halo->job, &put, value);
    return error ? halo_carry_failed(halo, f, p, word, error) : 0;
}

int halo_proxy_open(struct leat_halo *halo, uint64_t first_epoch)
{
    if (!is_needed(halo))
        return 0;
    const bool puts_bytes = by_nvshmem(halo);
    const uint32_t count = post_count(halo);
    struct halo_proxy *link = calloc(1, sizeof *link);
    struct halo_post *posts = calloc(count, sizeof *posts);
    if (!link || !posts) {
        free(link);
        free(posts);
        return leat_fail(-ENOMEM, "no memory for what the proxy carries");
    }
    *link = (struct halo_proxy){.halo = halo, .posts = posts};
    halo->proxy = link;
    for (uint32_t i = 0; i < count; i++)
        posts[i].peer = -1;
    uint64_t packed = 0;
    for (int p = 0; p < halo->plan->pulse_count; p++)
        for (int f = 0; f < halo->field_count; f++)
            packed += to_receiver(halo, p, f) + to_sender(halo, p, f);
    int error = puts_bytes ? share_puts(halo, link, packed) : share(halo, link, packed);
    for (uint64_t i = 0, at = 0; !error && i < count; i++) {
        posts[i].from = link->packed + at;
        at += (posts[i].stride ? 2 : 1) * posts[i].from_stride;
    }
    if (error)
        return error;
    return puts_bytes ? publish_puts(halo, link) : halo_proxy_attach(halo, first_epoch);
}

void halo_proxy_free(struct leat_halo *halo)
{
    struct halo_proxy *link = halo->proxy;
    struct device *device = halo->job->device;
    if (!link)
        return;
    halo_proxy_drain(halo);
    halo_proxy_detach(halo);
    device->ops->free(device, &link->ring);
    device->ops->free(device, &link->puts);
    leat_region_free(link->packed_region);
    if (link->shared && device->ops->report_free)
        device->ops->report_free(device, link->shared);
    else
        free(link->shared);
    free(link->posts);
    free(link);
    halo->proxy = NULL;
}

// ---- for kernels ----

static bool by_proxy(const struct leat_halo *halo, int p, int f, enum board_signal which)
{
    return halo->proxy->posts[halo_post_number(halo, p, f, which)].peer >= 0;
}

void halo_proxy_bind(struct leat_halo *halo, int f, struct k_field *kernel)
{
    if (!halo->proxy)
        return;
    kernel->ring = halo->proxy->ring.address;
    kernel->puts = halo->proxy->puts.address;
    for (int p = 0; p < kernel->pulse_count; p++) {
        struct k_pulse *pulse = (struct k_pulse *)(void *)(kernel + 1) + p;
        struct leat_signal **there[BOARD_SIGNALS] = {
            [BOARD_X_IN] = &pulse->signal.x_there,
            [BOARD_X_FREE] = &pulse->signal.x_free_there,
            [BOARD_F_IN] = &pulse->signal.f_there,
            [BOARD_F_FREE] = &pulse->signal.f_free_there,
        };
        const uint32_t first = halo_post_number(halo, p, f, BOARD_X_IN);
        const struct halo_post *x = &halo->proxy->posts[first + BOARD_X_IN];
        const struct halo_post *back = &halo->proxy->posts[first + BOARD_F_IN];
        pulse->posts = first << K_POST_BIT;
        for (int which = 0; which < BOARD_SIGNALS; which++)
            if (by_proxy(halo, p, f, (enum board_signal)which)) {
                pulse->posts |= 1u << which;
                // A word of the host's stays the host's to raise after a put.
                if (!halo_puts(halo) || !halo->mode->host_signals)
                    *there[which] = NULL;
            }
        if (x->peer >= 0) {
            pulse->x_landing = x->from;
            pulse->x_stride = x->from_stride;
        }
        if (back->peer >= 0)
            pulse->f_landing = back->from;
    }
}

int halo_proxy_error(const struct leat_halo *halo, const char *what)
{
    const struct halo_proxy *link = halo->proxy;
    const struct k_error *report = halo->report;
    if (!link || !link->carried || report->signal != link->carried)
        return 0;
    int failed = __atomic_load_n(&link->failed, __ATOMIC_ACQUIRE);
    if (failed)
        return leat_fail(failed, "%s: the proxy carried nothing more %s", what, link->detail);
    return leat_fail(report->code,
                     "%s, to rank %d: the proxy thread of rank %d carried no order within %.3g s: "
                     "it is not given time, or a copy hangs (done %llu, wanted %llu)",
                     what, report->peer, halo->job->rank, (double)halo->job->timeout_ns * 1e-9,
                     (unsigned long long)report->seen, (unsigned long long)report->wanted);
}
