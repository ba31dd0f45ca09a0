/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of no network: what is sent ends here, and the test says what arrives.
 *
 * libfabric's functions are calls through tables, so tables of our own replace it. Advantage: the
 * code that a provider would run is run, without a library or a socket. Disadvantage: only what
 * leat calls is there.
 */
#ifndef LEAT_TEST_FUZZ_FAKE_ENDPOINT_H
#define LEAT_TEST_FUZZ_FAKE_ENDPOINT_H

#include "transport/fabric.h"

#include <stdlib.h>
#include <string.h>

enum { FAKE_MOST = 256, FAKE_NAME_BYTES = 16 };

struct fake_buffer {
    void *memory, *context;
    size_t bytes;
};

struct fake_endpoint {
    struct fid_ep endpoint;
    struct fid_cq queue;
    struct fid_av table;
    struct fake_buffer waiting[FAKE_MOST]; /* to be received into, the oldest first */
    void *sending[FAKE_MOST];
    struct fi_cq_msg_entry done[2 * FAKE_MOST];
    struct fi_cq_err_entry failed;
    size_t waiting_count, sending_count, done_count;
    bool has_failed;
    uint32_t refused; /* sends to be refused with -FI_EAGAIN */
    uint64_t named;
    uint64_t looks; /* into the completions */
    struct fi_info info;
    struct fi_fabric_attr provider;
    struct fi_domain_attr domain;
};

/* What the fuzzer gives. */
struct fake_input {
    const uint8_t *data;
    size_t left;
};

static inline uint64_t fake_take(struct fake_input *input, int bytes)
{
    uint64_t value = 0;
    for (; bytes && input->left; bytes--, input->left--)
        value = value << 8 | *input->data++;
    return value;
}

static inline void fake_demand(bool holds)
{
    if (!holds)
        abort();
}

static inline struct fake_endpoint *fake_of(void *context)
{
    return context;
}

static ssize_t fake_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
                         void *context)
{
    struct fake_endpoint *fake = fake_of(ep->fid.context);
    (void)desc, (void)from;
    if (fake->waiting_count == FAKE_MOST)
        return -FI_EAGAIN;
    fake->waiting[fake->waiting_count++] = (struct fake_buffer){buf, context, len};
    return 0;
}

static ssize_t fake_begin_send(struct fake_endpoint *fake, void *context)
{
    if (fake->refused) {
        fake->refused--;
        return -FI_EAGAIN;
    }
    fake_demand(fake->sending_count < FAKE_MOST);
    fake->sending[fake->sending_count++] = context;
    return 0;
}

static ssize_t fake_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
                         void *context)
{
    volatile uint8_t last = ((const uint8_t *)buf)[len - 1]; // all of it can be read
    (void)last, (void)desc, (void)to;
    return fake_begin_send(fake_of(ep->fid.context), context);
}

static ssize_t fake_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    (void)flags;
    return fake_begin_send(fake_of(ep->fid.context), msg->context);
}

static ssize_t fake_read(struct fid_cq *cq, void *buf, size_t count)
{
    struct fake_endpoint *fake = fake_of(cq->fid.context);
    fake->looks++;
    if (fake->has_failed)
        return -FI_EAVAIL;
    count = count < fake->done_count ? count : fake->done_count;
    memcpy(buf, fake->done, count * sizeof *fake->done);
    fake->done_count -= count;
    memmove(fake->done, fake->done + count, fake->done_count * sizeof *fake->done);
    return count ? (ssize_t)count : -FI_EAGAIN;
}

static ssize_t fake_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct fake_endpoint *fake = fake_of(cq->fid.context);
    (void)flags;
    *buf = fake->failed;
    fake->has_failed = false;
    return 1;
}

static int fake_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
                       uint64_t flags, void *context)
{
    struct fake_endpoint *fake = fake_of(av->fid.context);
    (void)flags, (void)context;
    const uint8_t *name = addr;
    for (int i = 0; i < FAKE_NAME_BYTES; i++)
        fake->named += name[i]; // a sanitizer sees what was never written
    *fi_addr = 7;
    return (int)count;
}

static int fake_name(fid_t fid, void *addr, size_t *addrlen)
{
    (void)fid;
    fake_demand(*addrlen >= FAKE_NAME_BYTES);
    memset(addr, 3, FAKE_NAME_BYTES);
    *addrlen = FAKE_NAME_BYTES;
    return 0;
}

/* Calls itself the provider "net". */
static inline void fake_open(struct fake_endpoint *fake, struct fabric *fabric)
{
    static char name[] = "net";
    static struct fi_ops_msg messages = {
        .size = sizeof messages, .recv = fake_recv, .send = fake_send, .sendmsg = fake_sendmsg};
    static struct fi_ops_cm names = {.size = sizeof names, .getname = fake_name};
    static struct fi_ops_cq completions = {
        .size = sizeof completions, .read = fake_read, .readerr = fake_readerr};
    static struct fi_ops_av addresses = {.size = sizeof addresses, .insert = fake_insert};
    memset(fake, 0, sizeof *fake);
    fake->provider.prov_name = name;
    fake->info.fabric_attr = &fake->provider;
    fake->info.domain_attr = &fake->domain;
    fake->endpoint.fid.context = fake->queue.fid.context = fake->table.fid.context = fake;
    fake->endpoint.msg = &messages;
    fake->endpoint.cm = &names;
    fake->queue.ops = &completions;
    fake->table.ops = &addresses;
    *fabric = (struct fabric){.info = &fake->info,
                              .addresses = &fake->table,
                              .completions = &fake->queue,
                              .endpoint = &fake->endpoint,
                              .wait_fd = -1};
}

/* Bytes arrive in the oldest buffer, cut to its size; nothing where there is none. */
static inline void fake_arrive(struct fake_endpoint *fake, const void *bytes, size_t count)
{
    if (!fake->waiting_count || fake->done_count == 2 * FAKE_MOST)
        return;
    struct fake_buffer *buffer = &fake->waiting[0];
    count = count < buffer->bytes ? count : buffer->bytes;
    memcpy(buffer->memory, bytes, count);
    fake->done[fake->done_count++] =
        (struct fi_cq_msg_entry){.op_context = buffer->context, .flags = FI_RECV, .len = count};
    fake->waiting_count--;
    memmove(fake->waiting, fake->waiting + 1, fake->waiting_count * sizeof *fake->waiting);
}

/* The oldest buffer, or send, ends with an error. */
static inline void fake_fail(struct fake_endpoint *fake, bool send, int error)
{
    if (fake->has_failed || (send ? fake->sending_count : fake->waiting_count) == 0)
        return;
    void *context = send ? fake->sending[0] : fake->waiting[0].context;
    fake->failed = (struct fi_cq_err_entry){.op_context = context, .err = error};
    fake->has_failed = true;
    if (send)
        memmove(fake->sending, fake->sending + 1, --fake->sending_count * sizeof *fake->sending);
    else
        memmove(fake->waiting, fake->waiting + 1, --fake->waiting_count * sizeof *fake->waiting);
}

static inline void fake_sent(struct fake_endpoint *fake)
{
    if (!fake->sending_count || fake->done_count == 2 * FAKE_MOST)
        return;
    fake->done[fake->done_count++] =
        (struct fi_cq_msg_entry){.op_context = fake->sending[0], .flags = FI_SEND};
    memmove(fake->sending, fake->sending + 1, --fake->sending_count * sizeof *fake->sending);
}

#endif
