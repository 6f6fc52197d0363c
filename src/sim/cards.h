/*
 * cards: how fast network cards are, for the speed model of the simulated network (README, "The speed model"). The
 * constants stand in cards.c, and nowhere else.
 *
 * Threading: constants, for anybody.
 */
#ifndef SIM_CARDS_H
#define SIM_CARDS_H

#include <stdint.h>

/* A card and its link. A rate of 0 is without limit: nobody has printed one. */
struct sim_card {
    const char *name;
    const char *source;
    uint64_t in_kops;       /* thousands of operations a second that it serves for others: in-bound */
    uint64_t out_kops;      /* and that it begins for its own host: out-bound */
    uint64_t link_mbps;     /* payload each way, in millions of bits a second */
    uint64_t round_trip_ns; /* of a small operation when nothing else is under way */
};

#define SIM_CARDS 5

/** All cards; ends with one whose name is NULL. */
extern const struct sim_card sim_cards[SIM_CARDS + 1];

/** A card by its name. @return NULL: there is none */
const struct sim_card *sim_card_find(const char *name);

#endif
