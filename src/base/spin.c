/* How a thread waits for a spin lock that is held. */
#include "base/spin.h"

#include <sched.h>

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

void base_spin_lock_contended(struct base_spin *spin)
{
    do {
        /* Waiting reads only: the line stays shared until the holder writes it. */
        for (unsigned spins = 0; atomic_load_explicit(&spin->locked, memory_order_relaxed); spins++) {
            if (spins < SPINS_BEFORE_YIELD)
                pause_briefly();
            else
                sched_yield();
        }
    } while (!base_spin_lock_try(spin));
}
