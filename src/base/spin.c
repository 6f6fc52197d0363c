#include "base/spin.h"

#include <sched.h>
#include <stdatomic.h>

/* Longer than any critical section; after that the holder was probably interrupted. */
#define SPINS_BEFORE_YIELD 128

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

void base_spin_init(struct base_spin *spin)
{
    atomic_init(&spin->locked, false);
}

bool base_spin_lock_try(struct base_spin *spin)
{
    /* Pairs with the release in base_spin_unlock. */
    return !atomic_exchange_explicit(&spin->locked, true, memory_order_acquire);
}

void base_spin_lock(struct base_spin *spin)
{
    while (base_unlikely(!base_spin_lock_try(spin))) {
        /* Waiting reads only: the line stays shared until the holder writes it. */
        for (unsigned spins = 0; atomic_load_explicit(&spin->locked, memory_order_relaxed); spins++) {
            if (spins < SPINS_BEFORE_YIELD)
                pause_briefly();
            else
                sched_yield();
        }
    }
}

void base_spin_unlock(struct base_spin *spin)
{
    /* Pairs with the acquire in base_spin_lock_try. */
    atomic_store_explicit(&spin->locked, false, memory_order_release);
}
