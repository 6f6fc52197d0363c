/*
 * A spin lock for critical sections of a few instructions: nothing that waits, allocates or yields may be
 * inside. A waiter spins briefly and then gives the processor away.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include "base/define.h"

#include <stdatomic.h>

/** All zero is unlocked. */
struct base_spin {
    _Atomic bool locked;
};

/**
 * Make an unlocked lock.
 */
static inline void base_spin_init(struct base_spin *spin)
{
    atomic_init(&spin->locked, false);
}

/**
 * Take the lock if it is free; never waits. Any thread.
 *
 * @return whether it is now held
 */
base_must_check static inline bool base_spin_lock_try(struct base_spin *spin)
{
    /* Pairs with the release in base_spin_unlock. */
    return !atomic_exchange_explicit(&spin->locked, true, memory_order_acquire);
}

/**
 * Wait for a lock that is held, and take it; base_spin_lock calls this.
 */
void base_spin_lock_contended(struct base_spin *spin);

/**
 * Take the lock. Any thread, but not one that holds it.
 */
static inline void base_spin_lock(struct base_spin *spin)
{
    if (base_unlikely(!base_spin_lock_try(spin)))
        base_spin_lock_contended(spin);
}

/**
 * Release the lock that this thread holds.
 */
static inline void base_spin_unlock(struct base_spin *spin)
{
    /* Pairs with the acquire in base_spin_lock_try. */
    atomic_store_explicit(&spin->locked, false, memory_order_release);
}

/**
 * Abort unless the lock is held. A function whose name ends in _locked begins with it. By whom the lock is held cannot be
 * told.
 */
static inline void base_spin_assert_held(const struct base_spin *spin)
{
    base_assert(atomic_load_explicit(&spin->locked, memory_order_relaxed));
}

#endif
