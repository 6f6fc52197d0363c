/* Giving back what the index does not need. README of the index, "Shrinking". */
#include "depot/depot_internal.h"

#define SHRINK_PAIRS 8 /* merged between two looks at other work, and at who waits to grow */

/* Halve the index. The growth lock is held, and given away in between. @return 0; as depot_index_shrink_begin();
 * -ECANCELED; -EAGAIN */
static int halve_locked(struct tarn_depot *depot, bool (*stops)(void *arg), void *arg)
{
    task_mutex_assert_held(&depot->growth);
    int error = depot_index_shrink_begin(&depot->index);
    int more = error == 0;
    while (more > 0) {
        task_mutex_unlock(&depot->growth);
        task_yield();
        task_mutex_lock_firmly(&depot->growth);
        if (stops(arg) && depot_index_shrink_turn(&depot->index))
            error = -ECANCELED;
        more = depot_index_shrink_step(&depot->index, SHRINK_PAIRS);
    }
    if (more < 0 && error == 0)
        error = -EAGAIN;
    depot_growth_end_locked(depot); /* what was turned */
    return error;
}

int depot_shrink_index(struct tarn_depot *depot, bool (*stops)(void *arg), void *arg, uint64_t *ret_bytes)
{
    int error;
    *ret_bytes = 0;
    if (atomic_exchange_explicit(&depot->shrinking, true,
                                 memory_order_acquire)) /* pairs with the release below */
        return -EBUSY;
    task_mutex_lock_firmly(&depot->growth);
    uint64_t before = depot_index_given_bytes(&depot->index);
    do
        error = halve_locked(depot, stops, arg);
    while (error == 0);
    *ret_bytes = depot_index_given_bytes(&depot->index) - before;
    if (*ret_bytes > 0) /* there may be memory for it now */
        atomic_store_explicit(&depot->growth_refused, false, memory_order_relaxed);
    task_mutex_unlock(&depot->growth);
    atomic_store_explicit(&depot->shrinking, false, memory_order_release);
    return error == -ENOENT ? 0 : error; /* there is nothing more to give back */
}

static bool is_cancelled(void *arg)
{
    (void)arg;
    return task_cancelled();
}

int tarn_depot_shrink_index(struct tarn_depot *depot, uint64_t *ret_bytes)
{
    return depot_shrink_index(depot, is_cancelled, NULL, ret_bytes);
}
