/*
 * For campaigns: nodes that are killed and begin anew, stand still, and are cut off from each other, for a while.
 */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include "sim/net/net.h"

enum { SIM_ARENA_NODES_MAX = 9 };

/* What may happen in a run; bits. */
enum {
    SIM_ARENA_KILLS = 1,
    SIM_ARENA_PAUSES = 2,
    SIM_ARENA_CUTS = 4,        /* of one direction or both, for a while or until the end */
    SIM_ARENA_FLAPS = 8,       /* that are over before anybody notices */
    SIM_ARENA_IMPATIENCE = 16, /* of the campaign's own: deadlines that pass */
    SIM_ARENA_ALL_EVENTS = 31,
};

struct sim_arena {
    struct sim_world *world;
    struct base_random *random;
    uint32_t nodes;
    uint32_t events;                               /* that may happen */
    struct sim_node *current[SIM_ARENA_NODES_MAX]; /* NULL: it is down */
    char names[SIM_ARENA_NODES_MAX][16];
    bool stop; /* nothing new begins any more */

    /** A node begins: set current. */
    void (*begin)(struct sim_arena *arena, uint32_t number);

    /** It is about to be killed. */
    void (*end)(struct sim_arena *arena, uint32_t number);

    /** After each event: something of the campaign's own. NULL: nothing. @return 0, or the run has failed */
    int (*happen)(struct sim_arena *arena);

    /** Begin the nodes without which the run cannot come to its end. NULL: there are none */
    void (*restore)(struct sim_arena *arena);

    uint32_t turns_more; /* the number of events is below this and some; 0: as in most campaigns */
};

/** Let time pass up to a moment. @return 0, or the run has failed */
base_must_check int sim_arena_pass_until(struct sim_arena *arena, uint64_t until_ns);

/** Cut or heal what one node sends to another, if both are up. */
void sim_arena_turn_links(struct sim_arena *arena, uint32_t a, uint32_t b, bool cut);

/** Draw what may happen, which troubles the network makes, and the processor that it reports to serve operations; name the nodes. */
void sim_arena_draw(struct sim_arena *arena);

/** Begin all nodes, let things happen, heal all, say stop, run until nothing is left to do, and see that nothing of the
 * fabric was left behind. What failed the world knows; then nodes may be open. */
void sim_arena_play(struct sim_arena *arena);

#endif
