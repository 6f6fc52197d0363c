/*
 * net: what lies between the nodes of a world. Nodes open it as their fabric, whatever URL they say; drivers of
 * worlds cut links and say which troubles the network may make. Peers die by sim_node_kill() and sim_node_cut(),
 * and stand still by sim_node_pause().
 *
 * Threading: as sim.h. A world without fabrics draws nothing from here.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "sim/sim.h"
#include <tarn/fabric.h>

/* What the network may do to operations, each on its own; a world begins with all of them. */
enum sim_net_trouble {
    SIM_NET_TORN_READ = 1,  /* of a READ each word is any that was there between posting and completion; else
                                all are what was there at one moment */
    SIM_NET_TORN_WRITE = 2, /* the words of a WRITE arrive at several moments, in any order; else at one */
    SIM_NET_TORN_WORD =
        4, /* both, for the bytes of a word: tarn_fabric_info.whole_words is false. But a READ that asks
                               for a whole word gets one, as it was at one moment */
    SIM_NET_REORDER = 8,       /* operations take effect, and complete, in any order; else one by one */
    SIM_NET_DELAY = 16,        /* now and then something takes up to a millisecond */
    SIM_NET_SLIPPED_SWAP = 32, /* between the look and the store of a CAS or FAA others may store:
                                  tarn_fabric_info.atomics is TARN_FABRIC_ATOMICS_DEVICE, else _MEMORY */
    SIM_NET_LATE = 64,         /* what was posted on a connection that failed may take effect later */
    SIM_NET_TORN_BULK =
        128, /* as SIM_NET_TORN_WORD, in bulk regions alone: tarn_fabric_info tells nothing of it. A
                                  WRITE there that fails may leave any bytes */
};

#define SIM_NET_TROUBLES     8
#define SIM_NET_ALL_TROUBLES 255

/* A dead or silent peer is noticed within three of these. */
#define SIM_NET_HEARTBEAT_NS UINT64_C(10000000)

/* What the network of a world is like. */
struct sim_net_options {
    uint32_t troubles; /* of enum sim_net_trouble; all at first */
    bool
        fence_cuts; /* tarn_fabric_fence() cuts the peer off, as the end of a queue pair does; else it waits until
                           the peer has left or ended, as with `shm` */
    bool
        refuses_whole; /* cards that tear words refuse READs of a whole word: tarn_fabric_info.whole_reads is false */

    /* What tarn_fabric_info says. What nodes do depends on it, what the network does not: an operation takes as long, and
     * is as torn. */
    enum tarn_fabric_served_by served_by;

    /* One in this many accesses of an owner to its exported memory is preempted: its scheduler loses the processor before
     * it, or in the middle of a copy, and others go on. 0: none. */
    uint32_t preempted_one_in;

    /* Time that a gigabyte takes: of a region, whose pages are touched; of the caller's memory, which is registered. 0: none */
    uint64_t touched_ns, registered_ns;

    /* The pages of a node are touched and registered one after the other, whichever tasks ask: the times are the node's. Else
     * each task that asks has a processor for it. */
    bool pages_in_turn;

    /* What nodes with cards do with their own memory goes past their card, and takes own_ns: with bulk regions, with all. Else it
     * takes the way of a round trip through the card, but none of the link. */
    bool owns_bulk, owns_all;
    uint64_t own_ns;

    /* Regions of at least this size, peers' and a node's own, have addresses and no bytes, so that a world can have more
     * memory than its machine. Operations there take their time and move nothing, what an owner copies there is dropped, swaps
     * are refused. 0: none */
    uint64_t blank_bytes;
};

/** The options of a world's network, to be changed before a fabric is opened. */
struct sim_net_options *sim_net_options(struct sim_world *world);

/** Cut one direction between two nodes: what `from` sends waits until it is healed. Outside. */
void sim_net_cut(struct sim_node *from, struct sim_node *to);

/** Heal it: what waits goes on. Outside. */
void sim_net_heal(struct sim_node *from, struct sim_node *to);

/* What there is now, of all nodes; all zero when everything was given back. */
struct sim_net_stats {
    uint64_t domains;
    uint64_t regions; /* those in quarantine too */
    uint64_t connections;
    uint64_t operations; /* posted, or still on their way */
};

/** What there is. */
void sim_net_stats(struct sim_world *world, struct sim_net_stats *ret_stats);

#endif
