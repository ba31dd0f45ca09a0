// SPDX-License-Identifier: Apache-2.0
// libfabric: the library, the choice of a provider, and an endpoint.
//
// Algorithm: reliable datagram endpoints, so that there is one endpoint whatever the number of
// peers and a peer is connected when it is first spoken to. Providers are tried in an order of our
// own: what has hardware for it, then native TCP, then TCP under a utility layer. Advantage: one
// code for all of them. Disadvantage: connections, their buffers and their failures are the
// provider's, and are seen as completions that fail.

#define _GNU_SOURCE
#include "transport/fabric.h"

#include "core/library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LEAT_HAVE_FABRIC

const char *fabric_absent(void)
{
    return "this build has no libfabric (rdma/fabric.h was not found)";
}

void fabric_version(char text[16])
{
    *text = 0;
}

#else

#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#define API_VERSION FI_VERSION(1, 17)

static struct {
    __typeof__(fi_getinfo) *getinfo;
    __typeof__(fi_freeinfo) *freeinfo;
    __typeof__(fi_dupinfo) *dupinfo;
    __typeof__(fi_fabric) *fabric;
    __typeof__(fi_strerror) *strerror;
    __typeof__(fi_version) *version;
    char absent[200];
} library;

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void load_library(void)
{
    static const struct library_symbol symbols[] = {
        {"fi_getinfo", &library.getinfo},   {"fi_freeinfo", &library.freeinfo},
        {"fi_dupinfo", &library.dupinfo},   {"fi_fabric", &library.fabric},
        {"fi_strerror", &library.strerror}, {"fi_version", &library.version}};
    leat_library_open("libfabric.so.1", RTLD_NOW | RTLD_LOCAL, symbols,
                      sizeof symbols / sizeof *symbols, library.absent, sizeof library.absent);
    if (!*library.absent && library.version() < API_VERSION)
        snprintf(library.absent, sizeof library.absent, "libfabric %u.%u is older than 1.17",
                 FI_MAJOR(library.version()), FI_MINOR(library.version()));
}

const char *fabric_absent(void)
{
    pthread_once(&library_once, load_library);
    return *library.absent ? library.absent : NULL;
}

void fabric_version(char text[16])
{
    *text = 0;
    if (!fabric_absent())
        snprintf(text, 16, "%u.%u", FI_MAJOR(library.version()), FI_MINOR(library.version()));
}

const char *fabric_error(int error)
{
    return library.strerror(error < 0 ? -error : error);
}

bool fabric_crossed(int error)
{
    return error == FI_ENOTCONN || error == FI_ECONNABORTED || error == FI_ECONNREFUSED ||
           error == FI_ECONNRESET || error == FI_ECANCELED || error == FI_ESHUTDOWN;
}

static int fail(const char *what, ssize_t error)
{
    return leat_fail(-EIO, "libfabric: %s: %s", what, fabric_error((int)error));
}

// ---- The choice of a provider ----

// Best first. What names an address is bound to one; hardware finds its own.
static const struct provider {
    const char *name;
    bool by_address;
} providers[] = {
    {"efa", false}, {"cxi", false}, {"verbs;ofi_rxm", false},
    {"net", true},  {"tcp", true},  {"tcp;ofi_rxm", true},
};

// Providers that lose messages or time out under load.
static const struct {
    const char *name, *reason;
} refused[] = {
    {"sockets", "it is deprecated, and times out or fails under load; use net, tcp or tcp;ofi_rxm"},
    {"udp;ofi_rxd", "it drops and resends by time, some thirty times slower than tcp"},
};

static struct fi_info *make_hints(const char *provider)
{
    struct fi_info *hints = library.dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_FORMAT_UNSPEC;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strdup(provider);
    if (hints->fabric_attr->prov_name)
        return hints;
    library.freeinfo(hints);
    return NULL;
}

static struct fi_info *find_info(const char *provider, const char *address)
{
    struct fi_info *hints = make_hints(provider), *found = NULL;
    if (!hints)
        return NULL;
    if (library.getinfo(API_VERSION, address, NULL, address ? FI_SOURCE : 0, hints, &found))
        found = NULL;
    library.freeinfo(hints);
    return found;
}

static bool by_address(const char *name)
{
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
        if (!strcmp(providers[i].name, name))
            return providers[i].by_address;
    return false;
}

static int find_named(const char *name, const char *address, struct fi_info **info)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!strcmp(refused[i].name, name))
            return leat_fail(-ENOTSUP, "provider %s of libfabric is refused: %s", name,
                             refused[i].reason);
    *info = find_info(name, by_address(name) ? address : NULL);
    if (*info)
        return 0;
    return leat_fail(
        -ENOTSUP,
        "libfabric has no provider %s with reliable datagrams and one-sided copies%s%s "
        "here; `fi_info -p \"%s\"` says what it has",
        name, address ? " at " : "", address ? address : "", name);
}

static int find_provider(const char *wanted, const char *address, struct fi_info **info)
{
    char name[64], own[64];
    const char *at = strchr(wanted, '@');
    size_t length = at ? (size_t)(at - wanted) : strlen(wanted);
    snprintf(name, sizeof name, "%.*s", (int)length, wanted);
    snprintf(own, sizeof own, "%s", at ? at + 1 : address ? address : "");
    address = *own ? own : NULL;
    if (strcmp(name, "auto") != 0)
        return find_named(name, address, info);
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
        *info = find_info(providers[i].name, providers[i].by_address ? address : NULL);
        if (*info)
            return 0;
    }
    return leat_fail(-ENOTSUP,
                     "libfabric has no provider with reliable datagrams%s%s; `fi_info -t "
                     "FI_EP_RDM` lists what it has",
                     address ? " at " : "", address ? address : "");
}

// ---- The endpoint ----

// With one, tcp under the utility layer signals each completion through it and looks at its sockets
// by epoll: 2 us a message (bench/results/2026-12-01-messages-fabric.md).
static bool descriptor_costs(const struct fi_info *info)
{
    return !strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm");
}

static int open_objects(struct fabric *fabric, size_t operations, enum fabric_use use)
{
    struct fi_info *info = fabric->info;
    const bool blind = use == FABRIC_POLLED && descriptor_costs(info);
    struct fi_av_attr av = {.type = info->domain_attr->av_type};
    struct fi_cq_attr cq = {.size = operations,
                            .format = FI_CQ_FORMAT_MSG,
                            .wait_obj = blind ? FI_WAIT_NONE : FI_WAIT_FD};
    int error = library.fabric(info->fabric_attr, &fabric->fabric, NULL);
    if (error)
        return fail("opening the fabric", error);
    error = fi_domain(fabric->fabric, info, &fabric->domain, NULL);
    if (error)
        return fail("opening the domain", error);
    error = fi_av_open(fabric->domain, &av, &fabric->addresses, NULL);
    if (error)
        return fail("opening the address table", error);
    error = fi_cq_open(fabric->domain, &cq, &fabric->completions, NULL);
    if (error && !blind) {
        cq.wait_obj = FI_WAIT_NONE;
        error = fi_cq_open(fabric->domain, &cq, &fabric->completions, NULL);
    } else if (!error && !blind &&
               fi_control(&fabric->completions->fid, FI_GETWAIT, &fabric->wait_fd)) {
        fabric->wait_fd = -1;
    }
    return error ? fail("opening the completion queue", error) : 0;
}

static int open_endpoint(struct fabric *fabric)
{
    int error = fi_endpoint(fabric->domain, fabric->info, &fabric->endpoint, NULL);
    if (!error)
        error = fi_ep_bind(fabric->endpoint, &fabric->addresses->fid, 0);
    if (!error)
        error = fi_ep_bind(fabric->endpoint, &fabric->completions->fid, FI_TRANSMIT | FI_RECV);
    if (!error)
        error = fi_enable(fabric->endpoint);
    return error ? fail("opening the endpoint", error) : 0;
}

int64_t fabric_process_bytes(void)
{
    long long resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*d %lld %lld", &resident, &shared) != 2)
        resident = shared = 0;
    fclose(file);
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int fabric_open(const char *wanted, const char *address, size_t operations, enum fabric_use use,
                struct fabric *fabric)
{
    *fabric = (struct fabric){.wait_fd = -1};
    int64_t before = fabric_process_bytes();
    const char *absent = fabric_absent();
    if (absent)
        return leat_fail(-ENOTSUP, "%s; install libfabric1", absent);
    int error = find_provider(wanted, address, &fabric->info);
    if (error)
        return error;
    error = open_objects(fabric, operations, use);
    if (!error)
        error = open_endpoint(fabric);
    if (error) {
        leat_fail_in(error, "provider %s (LEAT_FABRIC=%s)", fabric->info->fabric_attr->prov_name,
                     wanted);
        fabric_close(fabric);
    }
    fabric->provider_bytes = fabric_process_bytes() - before;
    return error;
}

static void close_one(struct fid *fid)
{
    if (fid)
        fi_close(fid);
}

void fabric_close(struct fabric *fabric)
{
    close_one(fabric->endpoint ? &fabric->endpoint->fid : NULL);
    close_one(fabric->completions ? &fabric->completions->fid : NULL);
    close_one(fabric->addresses ? &fabric->addresses->fid : NULL);
    close_one(fabric->domain ? &fabric->domain->fid : NULL);
    close_one(fabric->fabric ? &fabric->fabric->fid : NULL);
    if (fabric->info)
        library.freeinfo(fabric->info);
    *fabric = (struct fabric){.wait_fd = -1};
}

// ---- Names ----

#define NAME_MOST 96

// "leat-fabric PROVIDER HEX"
int fabric_card(const struct fabric *fabric, char *card, size_t bytes)
{
    uint8_t name[NAME_MOST];
    size_t length = sizeof name;
    int error = fi_getname(&fabric->endpoint->fid, name, &length);
    if (error)
        return fail("the endpoint's name", error);
    int used = snprintf(card, bytes, "leat-fabric %s ", fabric->info->fabric_attr->prov_name);
    if (used < 0 || (size_t)used + 2 * length >= bytes)
        return leat_fail(-EOVERFLOW, "libfabric: a name of %zu bytes is too long", length);
    for (size_t i = 0; i < length; i++)
        snprintf(card + used + 2 * i, 3, "%02x", name[i]);
    return 0;
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static int read_name(const char *hex, uint8_t name[NAME_MOST], size_t *length)
{
    *length = strlen(hex) / 2;
    if (*length == 0 || *length > NAME_MOST || strlen(hex) % 2)
        return -EPROTO;
    for (size_t i = 0; i < *length; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EPROTO;
        name[i] = (uint8_t)(16 * high + low);
    }
    return 0;
}

// The provider reads as many bytes as its own names have.
static bool is_as_long(const struct fabric *fabric, size_t length)
{
    uint8_t name[NAME_MOST];
    size_t own = sizeof name;
    return !fi_getname(&fabric->endpoint->fid, name, &own) && own == length;
}

int fabric_card_address(const char *card, struct sockaddr_storage *address, socklen_t *length)
{
    char provider[64], hex[2 * NAME_MOST + 2];
    uint8_t name[NAME_MOST];
    size_t bytes;
    if (sscanf(card, "leat-fabric %63s %193s", provider, hex) != 2 || read_name(hex, name, &bytes))
        return -EPROTO;
    if (strcmp(provider, "net") != 0 && strncmp(provider, "tcp", 3) != 0)
        return -EAFNOSUPPORT;
    memset(address, 0, sizeof *address);
    if (bytes > sizeof *address)
        return -EAFNOSUPPORT;
    memcpy(address, name, bytes);
    *length = (socklen_t)bytes;
    return (address->ss_family == AF_INET && bytes == sizeof(struct sockaddr_in)) ||
                   (address->ss_family == AF_INET6 && bytes == sizeof(struct sockaddr_in6))
               ? 0
               : -EAFNOSUPPORT;
}

int fabric_meet(struct fabric *fabric, const char *card, fi_addr_t *address)
{
    char provider[64], hex[2 * NAME_MOST + 2];
    const char *own = fabric->info->fabric_attr->prov_name;
    uint8_t name[NAME_MOST];
    size_t length;
    if (sscanf(card, "leat-fabric %63s %193s", provider, hex) != 2 || read_name(hex, name, &length))
        return leat_fail(-EPROTO, "\"%.60s\" names no endpoint", card);
    if (strcmp(provider, own) != 0)
        return leat_fail(-EPROTO,
                         "it uses provider %s of libfabric, this rank %s; set LEAT_FABRIC to one "
                         "that all hosts have",
                         provider, own);
    if (!is_as_long(fabric, length))
        return leat_fail(-EPROTO, "its endpoint has a name of %zu bytes, unlike this rank's",
                         length);
    int inserted = fi_av_insert(fabric->addresses, name, 1, address, 0, NULL);
    return inserted == 1 ? 0 : fail("taking a name", inserted < 0 ? inserted : -EINVAL);
}

// ---- Memory ----

bool fabric_registers_local(const struct fabric *fabric)
{
    return fabric->info->domain_attr->mr_mode & FI_MR_LOCAL;
}

bool fabric_addresses_virtual(const struct fabric *fabric)
{
    return fabric->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
}

// A key that was seen on the wire must not tell the next one.
static int draw_key(const struct fabric *fabric, uint64_t *key)
{
    size_t bytes = fabric->info->domain_attr->mr_key_size;
    if (getrandom(key, sizeof *key, 0) != sizeof *key)
        return leat_fail(-errno, "getrandom: %s", strerror(errno));
    if (bytes < sizeof *key)
        *key >>= 8 * (sizeof *key - bytes);
    return 0;
}

int fabric_register(struct fabric *fabric, const void *address, size_t bytes, bool remote,
                    struct fid_mr **memory)
{
    uint64_t access = remote ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_READ | FI_WRITE;
    uint64_t key;
    int error = draw_key(fabric, &key);
    if (error)
        return error;
    error = fi_mr_reg(fabric->domain, address, bytes, access, 0, key, 0, memory, NULL);
    return error ? fail("registering memory", error) : 0;
}

#endif
