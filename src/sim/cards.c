/*
 * The constants of the speed model, each with its source. They are frozen: figures are drawn from what follows from
 * them, so none may be changed to make a figure come out. They come from microbenchmarks that somebody has printed;
 * where a card's own were not, another card's stand in, and that is said.
 *
 *   RFP      "RFP: A Remote Fetching Paradigm", 2015: §III-B, Figure 1, Tables I and II
 *   Cell     "Balancing CPU and Network in the Cell Distributed B-Tree Store", ATC'16: §1, §3, §4.3, and §4, "Raw InfiniBand
 *            operations"
 *   Nessie   "Nessie: A Decoupled, Client-Driven, Key-Value Store using RDMA": §6, the first paragraph
 *   RStore   "RStore: A Direct-Access DRAM-based Data Store", CCGrid'15: §IV, Table II, §IV-A, §IV-B and "Bandwidth"
 *   CX6      NVIDIA, ConnectX-6 user manual, "Introduction" (docs.nvidia.com/networking/display/ConnectX6EN)
 */
#include "sim/cards.h"
#include <stddef.h>
#include <string.h>

enum {
    /* RFP §III-B: the peaks for 32 bytes, 11.26 M READs in-bound and 2.11 M WRITEs out-bound. */
    RFP_IN_KOPS = 11260,
    RFP_OUT_KOPS = 2110,
    /* RFP Table I: one thread that posts one WRITE after the other does 0.62 M a second: 1 / 0.62 M. */
    RFP_ROUND_TRIP_NS = 1613,
    /* RFP §III-B: above 1.5 KB in-bound and out-bound are the same, for the link is full: 2.11 M * 1,536 * 8. */
    RFP_LINK_MBPS = 25928,

    /* RFP Table II: one core does 41.9 M accesses of 32 bytes a second: 1 / 41.9 M, in picoseconds. */
    RFP_ACCESS_PS = 23866,
    /* Places in memory that a request touches, each an access; what lies behind in the same place is streamed, and no
     * paper prints what that takes. Server: the slot of the request, the state of its connection, that of the slot, the
     * bucket, the record, the answer, the slot of the result. Client: the key to ask for, the call, its result. */
    RFP_SERVER_PLACES = 7,
    RFP_CLIENT_PLACES = 3,
    /* Likewise of the hash store. Client: the key to ask for, the operation, its step with the words, its four READs in the
     * space's list of what is posted, the record, the room for its value. Server: what RFP's server touches, and two more words. */
    HASH_CLIENT_PLACES = 9,
    HASH_SERVER_PLACES = RFP_SERVER_PLACES + 2,

    /* Cell §4: 1.04 M READs of 1 KB a second of an area of 1 GB, limited by operations; 1.44 M of one of 64 MB. */
    CELL_IN_KOPS = 1040,
    CELL_IN_KOPS_OF_64_MB = 1440,
    /* Cell §4.3: at most 3.0 M two-way messages of 128 bytes a second, of four servers. */
    CELL_OUT_KOPS = 750,
    /* Cell §3 and §4: at 1 KB the link begins to be what limits; of an area of 64 MB that is 1.44 M * 1,024 * 8. */
    CELL_LINK_MBPS = 11796,
    /* Cell §1: "a few microseconds". Assumed is the least of these. */
    CELL_ROUND_TRIP_NS = 3000,

    /* Nessie §6: one port of 10 GbE. */
    NESSIE_LINK_MBPS = 10000,

    /* RStore §IV: 59.1 Gb/s of six ports of 10 GbE; here is one of them. */
    RSTORE_LINK_MBPS = 9850,
    /* RStore Table II: READ of 8 bytes, 9.6 us. */
    RSTORE_ROUND_TRIP_NS = 9600,
    /* RStore Table II: three cards of two ports each. */
    RSTORE_PORTS = 6,
    /* RStore §IV-B: "about 2.5 msec/connection". */
    RSTORE_CONNECT_NS = 2500000,
    /* RStore §IV-A: 36 clients on 12 machines map 32 GB each, so each machine 96 GB. It takes 19.9 s, of which 18.7 s "are
     * from concurrent mmaps": 195 ms a gigabyte, or 743 ns a page of 4 KiB, of the machine and not of a process, because the
     * same 96 GB a machine are made in 22.1 s where six memory servers make them. */
    RSTORE_MACHINE_GB = 96,
    RSTORE_MMAPS_MS = 18700,
    /* Of the other 1.2 s, connections with 72 servers are 180 ms; the rest registers the memory: 10.6 ms a gigabyte, or 41 ns
     * a page. */
    RSTORE_REST_MS = 1200,
    RSTORE_SERVERS = 72,

    /* CX6: 200 Gb/s, 215 million messages a second, less than 600 ns of latency, which is one way. */
    CX6_KOPS = 215000,
    CX6_LINK_MBPS = 200000,
    CX6_ROUND_TRIP_NS = 1200,
};

const struct sim_card sim_cards[SIM_CARDS + 1] = {
    {.name = "connectx3-40g",
     .source = "RFP III-B, Tables I and II",
     .in_kops = RFP_IN_KOPS,
     .out_kops = RFP_OUT_KOPS,
     .link_mbps = RFP_LINK_MBPS,
     .round_trip_ns = RFP_ROUND_TRIP_NS},
    /* Rates of READs of 1 KB all over an area: no general card of 20 Gb/s (docs/papers/cell.md). */
    {.name = "cell-1g",
     .source = "Cell 3, 4 and 4.3; round trip: 1, assumed",
     .in_kops = CELL_IN_KOPS,
     .out_kops = CELL_OUT_KOPS,
     .link_mbps = CELL_LINK_MBPS,
     .round_trip_ns = CELL_ROUND_TRIP_NS},
    {.name = "cell-64m",
     .source = "Cell 3, 4 and 4.3; round trip: 1, assumed",
     .in_kops = CELL_IN_KOPS_OF_64_MB,
     .out_kops = CELL_OUT_KOPS,
     .link_mbps = CELL_LINK_MBPS,
     .round_trip_ns = CELL_ROUND_TRIP_NS},
    /* Nessie prints the link alone. Its card is of the maker and the years of RFP's. */
    {.name = "roce-10g",
     .source = "link: Nessie 6; the rest as connectx3-40g",
     .in_kops = RFP_IN_KOPS,
     .out_kops = RFP_OUT_KOPS,
     .link_mbps = NESSIE_LINK_MBPS,
     .round_trip_ns = RFP_ROUND_TRIP_NS},
    /* RStore prints no rates of operations: there is no limit to them. */
    {.name = "iwarp-10g",
     .source = "RStore IV, Table II",
     .link_mbps = RSTORE_LINK_MBPS,
     .round_trip_ns = RSTORE_ROUND_TRIP_NS,
     .connect_ns = RSTORE_CONNECT_NS},
    /* A machine of RStore's: that card's ports, six of them. */
    {.name = "iwarp-6x10g",
     .source = "RStore IV, Table II",
     .link_mbps = RSTORE_LINK_MBPS,
     .round_trip_ns = RSTORE_ROUND_TRIP_NS,
     .connect_ns = RSTORE_CONNECT_NS,
     .ports = RSTORE_PORTS},
    /* What its maker says, which is the most that it can do. */
    {.name = "connectx6-200g",
     .source = "NVIDIA, ConnectX-6 user manual",
     .in_kops = CX6_KOPS,
     .out_kops = CX6_KOPS,
     .link_mbps = CX6_LINK_MBPS,
     .round_trip_ns = CX6_ROUND_TRIP_NS},
    {.name = NULL},
};

const struct sim_costs sim_costs_rfp = {.name = "rfp",
                                        .source = "RFP Table II, and a count of what is touched",
                                        .access_ns = RFP_ACCESS_PS / 1000,
                                        .server_ns = RFP_SERVER_PLACES * RFP_ACCESS_PS / 1000,
                                        .client_ns = RFP_CLIENT_PLACES * RFP_ACCESS_PS / 1000};

/* Nessie prints no access of its processors (Xeon E5-2620 v2, section 6). */
const struct sim_costs sim_costs_nessie = {.name = "nessie",
                                           .source = "RFP Table II, and a count of what is touched",
                                           .access_ns = RFP_ACCESS_PS / 1000,
                                           .server_ns = HASH_SERVER_PLACES * RFP_ACCESS_PS / 1000,
                                           .client_ns = HASH_CLIENT_PLACES * RFP_ACCESS_PS / 1000};

const struct sim_pages sim_pages_rstore = {
    .name = "rstore",
    .source = "RStore IV-A and IV-B",
    .touched_ns = RSTORE_MMAPS_MS * UINT64_C(1000000) / RSTORE_MACHINE_GB,
    .registered_ns =
        (RSTORE_REST_MS * UINT64_C(1000000) - RSTORE_SERVERS * RSTORE_CONNECT_NS) / RSTORE_MACHINE_GB};

const struct sim_card *sim_card_find(const char *name)
{
    for (const struct sim_card *card = sim_cards; card->name != NULL; card++) {
        if (strcmp(card->name, name) == 0)
            return card;
    }
    return NULL;
}
