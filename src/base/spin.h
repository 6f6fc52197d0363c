/*
 * A spin lock for critical sections of a few instructions: nothing that waits, allocates or yields may be
 * inside. A waiter spins briefly and then gives the processor away.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include "base/define.h"

/** All zero is unlocked. */
struct base_spin {
    _Atomic bool locked;
};

/**
 * Make an unlocked lock.
 */
void base_spin_init(struct base_spin *spin);

/**
 * Take the lock. Any thread, but not one that holds it.
 */
void base_spin_lock(struct base_spin *spin);

/**
 * Take the lock if it is free; never waits. Any thread.
 *
 * @return whether it is now held
 */
bool base_spin_lock_try(struct base_spin *spin) base_must_check;

/**
 * Release the lock that this thread holds.
 */
void base_spin_unlock(struct base_spin *spin);

#endif
