/* What the verbs of `tarn fabric` share: their entries, and RDMA devices as the kernel tells of them. */
#ifndef CLI_FABRIC_H
#define CLI_FABRIC_H

#include "base/base.h"
#include <stdio.h>

/** What providers there are, and what each reports here. */
int cli_fabric_info(int argc, char **argv);

/** About info. */
void cli_fabric_info_help(FILE *file);

/** Ask a peer again and again, or answer. */
int cli_fabric_ping(int argc, char **argv);

/** About ping. */
void cli_fabric_ping_help(FILE *file);

/** What is wrong with this machine, for a fabric. */
int cli_fabric_doctor(int argc, char **argv);

/** About doctor. */
void cli_fabric_doctor_help(FILE *file);

/* ---- RDMA devices ---------------------------------------------------------------------------------------- */

enum {
    CLI_RDMA_DEVICES_MAX = 32, /* that are told of */
    CLI_RDMA_PORTS_MAX = 8,    /* of each */
    CLI_RDMA_TEXT_ROOM = 64,
};

/* Texts are the kernel's, without a line end; "" where it tells nothing. */
struct cli_rdma_port {
    uint32_t number;
    char state[CLI_RDMA_TEXT_ROOM];      /* "4: ACTIVE" */
    char link_layer[CLI_RDMA_TEXT_ROOM]; /* "InfiniBand", "Ethernet" */
    char rate[CLI_RDMA_TEXT_ROOM];       /* "100 Gb/sec (4X EDR)" */
    uint32_t gid_count;                  /* that are not zero */
    uint32_t gid_index;                  /* of the last of them: RoCE's version 2 comes behind version 1 */
    char gid[CLI_RDMA_TEXT_ROOM];
    char gid_type[CLI_RDMA_TEXT_ROOM];  /* "RoCE v2" */
    char interface[CLI_RDMA_TEXT_ROOM]; /* of RoCE: the network interface */
    uint64_t mtu;                       /* of that; 0: not known */
};

struct cli_rdma_device {
    char name[CLI_RDMA_TEXT_ROOM];
    char verbs[CLI_RDMA_TEXT_ROOM]; /* its file below /dev/infiniband; "": ib_uverbs is not loaded */
    int64_t numa_node;              /* -1: none, or not known */
    uint32_t port_count;
    struct cli_rdma_port ports[CLI_RDMA_PORTS_MAX];
};

/** Whether a port carries traffic. */
bool cli_rdma_port_is_active(const struct cli_rdma_port *port);

/**
 * Tell of each device, in the order of their names, from /sys/class/infiniband alone.
 *
 * @param root   stands before each path, "" for this machine
 * @param visit  gets each; borrowed until it returns
 * @return how many there are
 */
uint32_t cli_rdma_visit(const char *root, void (*visit)(void *arg, const struct cli_rdma_device *device),
                        void *arg);

/**
 * Read the first line of a file of the kernel's.
 *
 * @param root          stands before the path
 * @param format        of the path, as printf's
 * @return whether it could be read; `ret_text` is "" if not
 */
base_printf_like(4, 5) bool cli_read_line(char *ret_text, size_t room, const char *root, const char *format,
                                          ...);

#endif
