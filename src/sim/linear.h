/*
 * Is a history linearizable? Each operation must seem to happen at one moment between its beginning
 * and its end, in an order that a sequential model allows. Operations whose outcome nobody knows
 * (cut off, failed half-way) may have happened or not.
 *
 * The search keeps every pair of (which operations under way have happened, state of the model) that
 * explains what was seen so far, and extends it only when an operation ends and must have happened. Of two
 * that differ in optional operations alone it keeps the one with fewer: it explains all that the other does.
 * Source: Lowe, Testing for linearizability, 2017 (just-in-time linearization).
 */
#ifndef SIM_LINEAR_H
#define SIM_LINEAR_H

#include "base/base.h"

#define SIM_LINEAR_STATE_BYTES_MAX 72
#define SIM_LINEAR_SUCCESSORS_MAX  5

struct sim_linear_op {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t number; /* the model's name for it */
    uint32_t
        same; /* of optional ones that never end: those with the same number do the same in every state; 0: there is no other */
    bool optional; /* it may not have happened */
    bool read;     /* where it leaves the state as it is, it may as well happen there: found faster */
};

struct sim_linear_model {
    size_t state_bytes; /* a multiple of 8; states are compared byte by byte */

    /**
     * What the state may be after the operation was seen to do what it did.
     *
     * @param ret_states  SIM_LINEAR_SUCCESSORS_MAX states
     * @return how many; 0: it cannot have happened in this state
     */
    uint32_t (*apply)(void *arg, uint64_t number, const void *state, void *ret_states);

    /** Called for some of the states that were possible before the operation that cannot have happened. */
    void (*explain)(void *arg, const void *state);

    void *arg;
};

/**
 * Check a history.
 *
 * @param ops            ordered by begin_ns
 * @param initial        state before all
 * @param ret_number     the operation that cannot be explained; set only with -EINVAL
 * @return 0; -EINVAL (not linearizable); -E2BIG (too many operations at once to tell); -ENOMEM
 */
base_must_check int sim_linear_check(struct base_account *account, const struct sim_linear_model *model,
                                     const struct sim_linear_op *ops, size_t count, const void *initial,
                                     uint64_t *ret_number);

#endif
