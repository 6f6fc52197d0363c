/*
 * cards: how fast network cards are, for the speed model of the simulated network (README, "The speed model"). The
 * constants stand in cards.c, and nowhere else.
 *
 * Threading: constants, for anybody.
 */
#ifndef SIM_CARDS_H
#define SIM_CARDS_H

#include <stdint.h>

/* What a processor of RFP's takes for its part of a call: what task_charge() is told by rfp.c. */
struct sim_costs {
    const char *name;
    const char *source;
    uint64_t access_ns; /* an access to memory */
    uint64_t server_ns; /* to take a request, look up its key, and leave the result or post it */
    uint64_t client_ns; /* to make a request and take its result; posting is in a card's round trip */
};

extern const struct sim_costs sim_costs_rfp;
extern const struct sim_costs sim_costs_nessie; /* client: of an operation of a client-driven store */

/* What the memory of a machine costs it, whichever of its processes ask: a gigabyte of pages. For sim_net_options(). */
struct sim_pages {
    const char *name;
    const char *source;
    uint64_t touched_ns;    /* to map pages and to touch each */
    uint64_t registered_ns; /* to register those that are there with a card */
};

extern const struct sim_pages sim_pages_rstore;

#define SIM_PORTS_MAX 6

/* A card and its link. A rate of 0 is without limit: nobody has printed one. */
struct sim_card {
    const char *name;
    const char *source;
    uint64_t in_kops;       /* thousands of operations a second that it serves for others: in-bound */
    uint64_t out_kops;      /* and that it begins for its own host: out-bound */
    uint64_t link_mbps;     /* payload each way, in millions of bits a second */
    uint64_t round_trip_ns; /* of a small operation when nothing else is under way */
    uint64_t connect_ns;    /* that a connection takes its caller to make */
    uint32_t ports;         /* each with these rates and a link of its own; 0: one. To SIM_PORTS_MAX */
};

#define SIM_CARDS 7

/** How many ports a card has. */
static inline uint32_t sim_card_ports(const struct sim_card *card)
{
    return card->ports == 0 ? 1 : card->ports;
}

/** All cards; ends with one whose name is NULL. */
extern const struct sim_card sim_cards[SIM_CARDS + 1];

/** A card by its name. @return NULL: there is none */
const struct sim_card *sim_card_find(const char *name);

#endif
