/* Histograms of the stages of the work. */
#include "depot/stage.h"

#include "task/task.h"

uint64_t depot_stage_begin(struct depot_stages *stages)
{
    return base_unlikely(atomic_load_explicit(&stages->enabled, memory_order_relaxed)) ? task_now() : 0;
}

uint64_t depot_stage_end(struct depot_stages *stages, enum depot_stage stage, uint64_t begin_ns)
{
    if (base_likely(begin_ns == 0))
        return 0;
    uint64_t now_ns = task_now();
    base_spin_lock(&stages->lock);
    base_stages_add(&stages->stages, stage, now_ns - begin_ns);
    base_spin_unlock(&stages->lock);
    return now_ns;
}
