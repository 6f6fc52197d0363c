/*
 * Where the time goes: a latency histogram for each stage of the work of one owner (a scheduler), who adds
 * without a lock. Anybody may read meanwhile, and have all begin anew: in another *round*. The owner empties
 * a histogram when it first adds to it in a round, so nobody else ever writes to one, and those that are
 * never used take no memory of the machine's.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include "base/account.h"
#include "base/histogram.h"
#include <stdatomic.h>

struct base_stage {
    _Atomic uint64_t round; /* that its values are of; 0: none */
    struct base_histogram histogram;
};

struct base_stages {
    struct base_account *account;
    size_t count;
    struct base_stage *stages;
};

/**
 * Make the histograms.
 *
 * @param account  outlives them
 * @return 0; -ENOMEM
 */
int base_stages_init(struct base_stages *stages, struct base_account *account, size_t count) base_must_check;

/**
 * Free them.
 */
void base_stages_deinit(struct base_stages *stages);

/**
 * Count the time that a stage took. By the owner.
 *
 * @param round  current: counted from 1, shared by all owners whose stages are read together
 */
void base_stages_add(struct base_stages *stages, size_t stage, const _Atomic uint64_t *round, uint64_t ns);

/**
 * Add to `into` what was counted of a stage in the current round. Any thread.
 *
 * @return false: another round has begun meanwhile, and `into` may hold a part of what is forgotten
 */
bool base_stages_read(const struct base_stages *stages, size_t stage, const _Atomic uint64_t *round,
                      struct base_histogram *into) base_must_check;

/**
 * Begin another round: all that was counted is forgotten. Any thread.
 */
static inline void base_stages_forget(_Atomic uint64_t *round)
{
    atomic_fetch_add_explicit(round, 1, memory_order_release);
}

#endif
