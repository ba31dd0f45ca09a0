/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine files: a modelled machine as `key = value` lines, every figure a parameter.
 *
 * `#` begins a comment. Keys may come in any order, each once, except dead_node and dead_link,
 * which may be repeated. What a kind of machine needs and the file leaves out is an error, as is a
 * key that the kind does not know: a figure is never invented. Errors name file, line, key, what
 * was expected and what was got.
 *
 * Rates are in GB/s of 10^9 bytes, which is also bytes a nanosecond. A rate of 0 means no limit
 * where the comment says so.
 *
 * Advantage: two machines differ by two text files. Disadvantage: the figures are per machine, not
 * per node; a machine of unlike nodes cannot be told.
 */
#ifndef LEAT_SIM_MACHINE_H
#define LEAT_SIM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_AXES_MAX   6
#define SIM_NAME_BYTES 64
#define SIM_NODES_MAX  (1 << 24)

enum sim_kind { SIM_TORUS, SIM_CLUSTER };
enum sim_outside { SIM_FAT_TREE, SIM_DRAGONFLY };

/* A link or node that the file declares dead; what `text` names is resolved by the topology. */
struct sim_dead {
    bool is_link;
    int line; /* of the machine file */
    char text[SIM_NAME_BYTES];
};

/* kind = torus: a torus or mesh of up to six axes. */
struct sim_torus_shape {
    int axis_count;
    int side[SIM_AXES_MAX];    /* sides = 24 18 16 2 3 2 */
    char letter[SIM_AXES_MAX]; /* axes = X Y Z A B C */
    bool wrap[SIM_AXES_MAX];   /* wrap = X Z B. A side of 2 that wraps is joined by two links, one
                                  that does not by one. */
    int route[SIM_AXES_MAX];   /* route = Z Y X A B C: axes in the order in which a route takes
                                  them; as in `axes` where the file does not say */
    double link_gb_per_s;      /* one direction of one link: what payload gets of it */
    double link_raw_gb_per_s;  /* the same with packet headers and link protocol; for reports */
    double hop_ns;             /* each hop after the first */
    double latency_ns;         /* hardware latency of the smallest put between neighbours */
};

/* kind = cluster: hosts with GPUs. A node of the topology, where a rank runs, is one GPU. */
struct sim_cluster_shape {
    int hosts, gpus_per_host;
    int gpus_per_nvlink;    /* GPUs joined by one NVLink switch; divides gpus_per_host; 1: none */
    int nics_per_host;      /* GPU i uses NIC i * nics / gpus, or the next ones where it has
                               several */
    double nvlink_gb_per_s; /* of one GPU, one direction */
    double nvlink_ns;       /* latency of each of the two NVLink steps, GPU to switch to GPU */
    double pcie_gb_per_s;   /* of one GPU to its host's PCIe, one direction */
    double pcie_ns;         /* latency of that step */
    double nic_gb_per_s, nic_ns; /* of one NIC's cable to its switch, one direction */
    double base_ns;              /* of a message beyond the latency of its links */
    enum sim_outside outside;
    double switch_gb_per_s; /* of one cable between switches, one direction */
    double switch_ns;       /* latency of such a cable and the switch behind it */
    /* outside = fat-tree. A pod of hosts_per_pod hosts has leaf_rails leaf switches; NIC j of its
     * hosts is connected to leaf j % leaf_rails. levels = 2: every leaf has leaf_uplinks cables,
     * one to each of leaf_uplinks spines. levels = 3: they go to leaf_uplinks spines of the pod,
     * and spine s of every pod has spine_uplinks cables, one to each of its plane's cores. */
    int levels, hosts_per_pod, leaf_rails, leaf_uplinks, spine_uplinks;
    /* outside = dragonfly. Router r of a group has hosts_per_router hosts with all their NICs, one
     * cable to each other router of its group and global_links cables to other groups. */
    int routers_per_group, hosts_per_router, global_links;
};

struct sim_machine {
    char name[SIM_NAME_BYTES];
    char file[256]; /* for messages */
    enum sim_kind kind;
    union {
        struct sim_torus_shape torus;
        struct sim_cluster_shape cluster;
    };
    /* A node and its network interfaces. */
    int tni_count;              /* interfaces of a node, each working on one transfer at a time */
    double tni_gb_per_s;        /* of one interface, each way; 0: as fast as the link */
    double node_gb_per_s;       /* of all interfaces of a node, all directions out and, apart from
                                   that, all in; 0: no limit */
    double node_both_gb_per_s;  /* of out and in together; 0: no limit */
    uint32_t packet_bytes;      /* payload of a packet, the least a bulk transfer is cut into */
    uint32_t piggyback_bytes;   /* payload that fits into a descriptor */
    double descriptor_fetch_ns; /* the interface's fetch of a descriptor from memory */
    bool descriptor_push;       /* small puts push their descriptor and save the fetch */
    double software_send_ns;    /* CPU time of the message layer for one message, sending side */
    double software_receive_ns; /* and receiving side */
    double command_ns;       /* of one command that is no message: a get, a completion, control */
    double copy_gb_per_s;    /* of the CPU's copies, as from an eager slot to the receiver */
    double combine_gb_per_s; /* of its reductions, bytes of one operand; 0: they take no time */
    uint64_t memory_bytes;   /* of a node, for reports */
    /* The barrier interface: reduces words in the network. barrier_words 0: there is none. */
    int barrier_words;       /* of 64 bits in one operation */
    double barrier_start_ns; /* from the CPU's start to the interface and back to the CPU */
    double barrier_stage_ns; /* at each node where signals meet or fork, besides the hops */
    /* In the file's order; `dead` belongs to the machine. */
    struct sim_dead *dead;
    int dead_count;
};

/* Reads a machine file. `path` may also be the bare name of an installed one ("k"): what has no '/'
 * and is no file here is looked for as NAME.machine in the folders of LEAT_MACHINES (colons between
 * them), then of the installation. -EINVAL, -ENOENT, -EFBIG, -ENOMEM, with detail. Release with
 * sim_machine_end(), which is harmless after an error. */
int sim_machine_read(const char *path, struct sim_machine *machine);
/* The same from memory; `name` stands for the file in messages. The text need not end in a NUL. */
int sim_machine_parse(const char *text, size_t bytes, const char *name,
                      struct sim_machine *machine);
void sim_machine_end(struct sim_machine *machine);

#endif
