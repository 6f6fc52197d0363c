/*
 * Choosing, search by search, whether a client reads a tree by itself or asks its server (Cell §2.4): it joins the shorter of
 * two queues, the server's and its card's. A queue is as long as what one waits in it takes longer than a round trip: of the
 * server's that is told by the time of a call, of the card's by the time of a READ, of which a search takes several.
 *
 *     ask, if   call - round trip  <  READs of a search x (READ - round trip)
 *
 * Where no card carries out READs, but the client's processor (shm) or the server's (tcp), they are work as a call is, and the
 * whole of a search counts:
 *
 *     ask, if   call  <  search
 *
 * Threading: one call at a time for each selector. Nothing yields.
 */
#ifndef TREE_SELECTOR_H
#define TREE_SELECTOR_H

#include "base/base.h"

#define TREE_SAMPLES_MAX 256u

/* The constants of §2.5. */
struct tree_selector_settings {
    uint32_t samples;        /* over which times are averaged, 1 to TREE_SAMPLES_MAX */
    double outliers;         /* standard deviations from which on a sample does not count */
    double exploration;      /* the part of searches that go the way that seems worse */
    uint64_t stale_ns;       /* after so long a pause nothing is known any more */
    double reads_per_search; /* before any search was seen */
    bool reads_are_work;     /* of a processor, and not of a card */
};

/* 100 samples, 3 deviations, 1 %, 3 s, 5 READs */
extern const struct tree_selector_settings tree_selector_usual;

/* The last samples of a time. */
struct tree_average {
    double ns[TREE_SAMPLES_MAX];
    uint32_t count, next; /* samples that there are; the place of the next one */
    uint32_t discarded;   /* outliers since as many samples as count were taken */
    uint32_t taken;       /* samples since then */
    double sum, squares;
};

struct tree_selector {
    struct tree_selector_settings settings;
    struct tree_average call, read; /* `read`: of searches, where reads_are_work */
    double round_trip_ns;           /* the least time of a READ; 0: none was seen */
    double reads_per_search;        /* averaged */
    uint64_t last_ns;               /* when a search was chosen last */
    uint32_t explores_left;         /* searches that still go the way that seems worse, one after the other */
    bool call_wakes; /* the next call is the first after others that were READs: it may wake the server */
    uint64_t asked, read_by_itself, explored, forgotten; /* searches; how often all was forgotten */
};

/** Begin without samples. @param settings  NULL: the usual ones */
void tree_selector_init(struct tree_selector *selector, const struct tree_selector_settings *settings);

/** Choose the way of a search. @param random  a random number @return whether the client reads by itself */
bool tree_selector_reads(struct tree_selector *selector, uint64_t now_ns, uint64_t random);

/** A call has taken its time. */
void tree_selector_called(struct tree_selector *selector, uint64_t ns);

/** A READ of a search has taken its time. */
void tree_selector_read(struct tree_selector *selector, uint64_t ns);

/** A search by READs is over. @param reads  of it @param ns  its time */
void tree_selector_searched(struct tree_selector *selector, uint32_t reads, uint64_t ns);

#endif
