/* Histograms of stages by kind of request, each with one writer, emptied by rounds. */
#include "base/stages.h"

#include <errno.h>

int base_stages_init(struct base_stages *stages, struct base_account *account, size_t count)
{
    struct base_stage *memory = base_map(account, BASE_PAGE_BYTES, count * sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    *stages = (struct base_stages){account, count, memory};
    return 0;
}

void base_stages_deinit(struct base_stages *stages)
{
    base_unmap(stages->account, stages->stages, stages->count * sizeof(*stages->stages));
    stages->stages = NULL;
}

void base_stages_add(struct base_stages *stages, size_t stage, const _Atomic uint64_t *round, uint64_t ns)
{
    base_assert(stage < stages->count);
    struct base_stage *to = &stages->stages[stage];
    uint64_t current = atomic_load_explicit(round, memory_order_acquire);
    if (base_unlikely(atomic_load_explicit(&to->round, memory_order_relaxed) != current)) {
        base_histogram_reset(&to->histogram);
        atomic_store_explicit(&to->round, current, memory_order_release); /* base_stages_read() */
    }
    base_histogram_add(&to->histogram, ns);
}

/*
 * Zeros are stored with release after the owner has seen the new round, and loaded with acquire: a reader that
 * has met one of them sees that round below.
 */
bool base_stages_read(const struct base_stages *stages, size_t stage, const _Atomic uint64_t *round,
                      struct base_histogram *into)
{
    base_assert(stage < stages->count);
    const struct base_stage *from = &stages->stages[stage];
    uint64_t current = atomic_load_explicit(round, memory_order_acquire);
    if (atomic_load_explicit(&from->round, memory_order_acquire) != current)
        return true;
    base_histogram_merge(into, &from->histogram);
    return atomic_load_explicit(round, memory_order_relaxed) == current;
}
