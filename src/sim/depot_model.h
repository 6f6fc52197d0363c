/*
 * The model of one key of a store: what it may hold, and what each operation makes of that. For the oracle,
 * which asks of a whole history whether the model explains it.
 */
#ifndef SIM_DEPOT_MODEL_H
#define SIM_DEPOT_MODEL_H

#include "sim/depot_oracle.h"
#include "sim/linear.h"

#define SIM_MODEL_NEVER UINT64_MAX

/* What a key holds. */
struct sim_model_content {
    uint64_t value; /* number of the put or update; 0: nothing */
    uint64_t expiry_ns;
    uint64_t kill_ns; /* when a flush_all takes it */
    uint64_t gone_ns; /* of the world's time: when somebody has seen first that it has ended, or was evicted;
                         0: nobody has */
};

/* The same, and what is kept of it if all that is not durable is lost. No padding: compared byte by byte. */
struct sim_model_state {
    struct sim_model_content now;
    struct sim_model_content kept;
    uint64_t order_ns; /* a flush_all that is still to come; 0: none */
};
_Static_assert(sizeof(struct sim_model_state) == 72 &&
                   sizeof(struct sim_model_state) <= SIM_LINEAR_STATE_BYTES_MAX,
               "no padding");

/** A key that was never written. */
extern const struct sim_model_state sim_model_empty;

/**
 * What a key may hold after an operation was seen to do what it did.
 *
 * @param number      of the operation
 * @param ret_states  SIM_LINEAR_SUCCESSORS_MAX
 * @return how many; 0: it cannot have happened
 */
uint32_t sim_model_apply(const struct sim_oracle_op *op, uint64_t number,
                         const struct sim_model_state *before, struct sim_model_state *ret_states);

#endif
