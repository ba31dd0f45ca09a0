/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of a network, by libfabric: packets to ranks, and one-sided copies.
 *
 * libfabric is opened when a job first needs it, and only its headers are needed to build.
 * Advantage: the engine that clusters already run, by whatever provider suits the machine.
 * Disadvantage: what a provider keeps for itself is its own affair; it is no part of any budget.
 */
#ifndef LEAT_TRANSPORT_FABRIC_H
#define LEAT_TRANSPORT_FABRIC_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef LEAT_HAVE_FABRIC
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <sys/socket.h>

enum fabric_use { FABRIC_SLEEPS, FABRIC_POLLED };

/* One endpoint and all it needs. */
struct fabric {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *completions;
    struct fid_ep *endpoint;
    int wait_fd;            /* becomes readable with a completion; -1: there is none */
    int64_t provider_bytes; /* what the process has grown by in the provider's calls */
};

/*
 * `wanted` is LEAT_FABRIC: "auto", or a provider's name, either with "@ADDRESS" for the own end;
 * `address` is what the end is bound to otherwise, or NULL. POLLED: whoever uses it looks often,
 * and does without a descriptor to sleep in where that makes messages slower. -ENOTSUP the library
 * or the provider is not there, or is refused, with the reason; -EIO what the provider says.
 */
int fabric_open(const char *wanted, const char *address, size_t operations, enum fabric_use use,
                struct fabric *fabric);
void fabric_close(struct fabric *fabric);

/* The name by which others find the endpoint, and the provider that they have to use, as text. */
int fabric_card(const struct fabric *fabric, char *card, size_t bytes);
/* Where its provider listens, for one that speaks TCP; -EPROTO no card, -EAFNOSUPPORT another. */
int fabric_card_address(const char *card, struct sockaddr_storage *address, socklen_t *length);
/* Takes another's card. -EPROTO another provider's, or no card. */
int fabric_meet(struct fabric *fabric, const char *card, fi_addr_t *address);

/* Memory for one-sided access, `remote`: by others, under a key drawn at random. Free with
 * fi_close(&memory->fid). */
int fabric_register(struct fabric *fabric, const void *address, size_t bytes, bool remote,
                    struct fid_mr **memory);
/* Whether local memory has to be registered, and remote addresses are virtual ones. */
bool fabric_registers_local(const struct fabric *fabric);
bool fabric_addresses_virtual(const struct fabric *fabric);
const char *fabric_error(int error);
/* Whether what was sent first to a peer can have failed so because both connected to each other at
 * once: a provider drops one of the connections, and what was to go by it. It goes by the other if
 * it is sent again, FABRIC_ATTEMPTS times at most. */
bool fabric_crossed(int error);
enum { FABRIC_ATTEMPTS = 32 };

/* Private memory of this process that is resident. What it grows by in a call of the provider is
 * put down to it; what other threads take meanwhile, too. */
int64_t fabric_process_bytes(void);
#endif

/* Why libfabric cannot be used here, or NULL; loads the library. */
const char *fabric_absent(void);
/* "1.17", or "" where it is absent. */
void fabric_version(char text[16]);

#endif
