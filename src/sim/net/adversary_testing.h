/* For the plays of the adversary's proof: an owner of a region and a peer in a world of a seed, and what they do most. */
#ifndef SIM_NET_ADVERSARY_TESTING_H
#define SIM_NET_ADVERSARY_TESTING_H

#include "fabric/fabric.h"
#include "sim/net/net.h"
#include "sim/testing.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define A_SECOND (task_now() + BASE_NS_PER_SECOND)

enum { WORDS = 4, OPS = 3, OLD = 1, NEW = 2, OUTCOMES_MAX = 4, OWNER = 0, PEER = 1 };

struct stage;

struct play {
    const char *name;
    uint32_t trouble; /* that makes the outcomes; 0: what happens to links and nodes does */
    const char *outcomes[OUTCOMES_MAX];
    void (*owner)(struct stage *stage);
    void (*peer)(struct stage *stage);
    void (*driver)(struct sim_event *event); /* once the two are connected, after a while */
    bool fence_cuts;
    bool is_bulk;       /* the region */
    bool preempts;      /* the owner, now and then */
    uint32_t drift_ppm; /* of both clocks, at most */
};

/* One seed of a play. */
struct stage {
    const struct play *play;
    struct sim_world *world;
    struct base_random random;
    struct sim_node *nodes[2];
    struct tarn_fabric_region *region;
    struct tarn_fabric_connection *owner;
    struct tarn_fabric_connection *peer;
    struct tarn_fabric_op ops[OPS];
    struct iovec iov[OPS];
    uint64_t data[OPS][WORDS];
    struct sim_event event;
    unsigned scene; /* how far the driver is */
    uint64_t begun_ns;
    bool told; /* from one to the other, past the network */
    bool peer_ended;
    bool read_before_swap;
    uint32_t seen; /* bits: which outcomes */
};

void see(struct stage *stage, unsigned outcome);

uint64_t draw(struct stage *stage, uint64_t n);

void nap(struct stage *stage, uint64_t most_ns);

void wait_until_told(struct stage *stage);

/* An operation on words of the region; its data is stage->data[i]. */
void prepare(struct stage *stage, unsigned i, enum tarn_fabric_op_kind kind, uint64_t offset, uint64_t words);

void prepare_write(struct stage *stage, unsigned i, uint64_t offset, uint64_t words, uint64_t value);

/* ---- the stage ---------------------------------------------------------------------------------- */

void be_owner(void *arg);

void be_peer(void *arg);

/* @return the outcomes that were seen */
uint32_t run_play(const struct play *play, uint64_t seed, uint32_t troubles, uint64_t *ret_hash);

#endif
