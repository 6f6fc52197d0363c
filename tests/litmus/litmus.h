/*
 * Litmus tests of the fabric: small plays that show what a provider really does with words, operations and messages.
 * README.md beside this file says what is played, and how to run it.
 *
 *      OWNER ── region of words ◀── connection 0 ── PEER        three actors, in threads, or tasks of the simulator
 *                                ◀── connection 1 ── SECOND
 */
#ifndef LITMUS_H
#define LITMUS_H

#include "base/base.h"
#include "base/random.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tarn/fabric.h>

struct tarn_node;

enum {
    LITMUS_WORDS = 256, /* that are read and written at once */
    LITMUS_LONG = 2048, /* words of what shall take long */
    LITMUS_X = 4096,    /* words of their own, in lines of their own: offsets */
    LITMUS_Y = 8192,
    LITMUS_BYTES = 65536, /* of the region */
    LITMUS_OPS = 6,       /* under way at once */
    LITMUS_LOG = 65536,   /* rounds of a play that are remembered */
    LITMUS_SEED = 1,
};

enum litmus_actor { LITMUS_OWNER, LITMUS_PEER, LITMUS_SECOND, LITMUS_ACTORS };

/* When a behaviour is allowed. */
enum litmus_rule {
    LITMUS_ALWAYS,
    LITMUS_NEVER,
    LITMUS_IF_TORN,     /* where the provider does not report whole words */
    LITMUS_IF_DEVICE,   /* where its atomics are not those of the memory */
    LITMUS_NEVER_WHOLE, /* never; there may be no whole READs to try it */
    LITMUS_NEVER_OWNER, /* never; the owner may have no swaps to try it */
};

enum litmus_sight {
    LITMUS_READ_TORN,
    LITMUS_READ_TORN_BY_CAS,
    LITMUS_WHOLE_TORN,
    LITMUS_WHOLE_TORN_BY_CAS,
    LITMUS_FAA_TORN,
    LITMUS_READ_MIXED,
    LITMUS_READ_UPWARD,
    LITMUS_READ_DOWNWARD,
    LITMUS_WRITE_TORN,
    LITMUS_WRITE_UPWARD,
    LITMUS_WRITE_DOWNWARD,
    LITMUS_WRITE_OVERTAKES,
    LITMUS_WRITE_OVERTAKES_FENCE,
    LITMUS_WRITE_OVERTAKES_COMPLETED,
    LITMUS_SWAP_OVERTAKES_FENCE,
    LITMUS_READ_MISSES,
    LITMUS_READ_MISSES_FENCE,
    LITMUS_READ_FORESEES,
    LITMUS_READ_FORESEES_FENCE,
    LITMUS_READ_GOES_BACK,
    LITMUS_COMPLETED_FIRST,
    LITMUS_COMPLETED_FIRST_FENCE,
    LITMUS_STORE_LOST,
    LITMUS_WRITE_LOST,
    LITMUS_SWAP_LOST,
    LITMUS_OWNER_SWAP_LOST,
    LITMUS_SENT_BEFORE_WRITE,
    LITMUS_NOTIFIED_BEFORE_WRITE,
    LITMUS_SENT_BEFORE_READ,
    LITMUS_BOTH_MISSED,
    LITMUS_SIGHTS,
};

/* What may be seen. */
struct litmus_behaviour {
    const char *name;
    enum litmus_rule rule;
};

extern const struct litmus_behaviour litmus_behaviours[LITMUS_SIGHTS];

/* How often it was. */
struct litmus_count {
    uint64_t tries;
    uint64_t seen;
    uint64_t seeds; /* of the simulator: after how many it was seen first */
};

struct litmus_stage;

/* Where the actors are: threads, or tasks of the simulator. */
struct litmus_place {
    void (*meet)(struct litmus_stage *stage);                              /* wait for the two others */
    void (*relax)(struct litmus_stage *stage, struct base_random *random); /* let others go on */
};

/* One play after the other on one provider. Fields of an actor are his alone between two meetings. */
struct litmus_stage {
    const struct litmus_place *place;
    uint64_t tries; /* of each play */
    struct tarn_fabric_info info;
    char address[108];
    struct tarn_fabric *fabrics[2]; /* the owner's, the others' */
    struct tarn_fabric_domain *domains[2];
    struct tarn_fabric_listener *listener;
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *accepted[2];
    struct tarn_fabric_connection *connections[2]; /* of PEER and SECOND */
    struct base_random random[LITMUS_ACTORS];
    struct tarn_fabric_op ops[LITMUS_OPS]; /* PEER's */
    struct iovec iov[LITMUS_OPS];
    uint64_t data[LITMUS_OPS][LITMUS_LONG];
    _Atomic bool over;           /* PEER has done what he does */
    _Atomic uint64_t added;      /* by SECOND, or by the owner, in a play of swaps */
    _Atomic uint64_t rounds;     /* of whom PEER plays with */
    bool alone;                  /* he plays with nobody */
    uint32_t log[2][LITMUS_LOG]; /* what PEER and SECOND have read of the other's, by their rounds */
    struct litmus_count counts[LITMUS_SIGHTS];
};

/** Open a side's provider; the owner listens then. */
void litmus_open(struct litmus_stage *stage, enum litmus_actor side, struct tarn_node *node, const char *url);

/** Meet the other side: the owner accepts PEER and SECOND, which connect. */
void litmus_connect(struct litmus_stage *stage, enum litmus_actor side);

/** Act in all plays. The three actors at once. */
void litmus_act(struct litmus_stage *stage, enum litmus_actor actor);

/** Disconnect; when all have, close a side. */
void litmus_disconnect(struct litmus_stage *stage, enum litmus_actor side);
void litmus_close(struct litmus_stage *stage, enum litmus_actor side);

/** Run everything on a provider of this machine, in threads. @param counts  are added to */
void litmus_run_threads(const char *url, const char *peer_url, const char *address, uint64_t tries,
                        struct tarn_fabric_info *ret_info, struct litmus_count *counts);

/** Run everything in the simulator, with these troubles, for so many seeds. */
void litmus_run_worlds(uint32_t troubles, uint64_t seeds, uint64_t tries, struct tarn_fabric_info *ret_info,
                       struct litmus_count *counts);

#endif
