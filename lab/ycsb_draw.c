/* YCSB's core workloads: drawing operations and records. */
#include "lab/ycsb_draw.h"

const struct lab_ycsb_workload lab_ycsb_workloads[LAB_YCSB_WORKLOADS] = {
    {.name = "a", .percent = {[LAB_YCSB_READ] = 50, [LAB_YCSB_UPDATE] = 50}},
    {.name = "b", .percent = {[LAB_YCSB_READ] = 95, [LAB_YCSB_UPDATE] = 5}},
    {.name = "c", .percent = {[LAB_YCSB_READ] = 100}},
    {.name = "f", .percent = {[LAB_YCSB_READ] = 50, [LAB_YCSB_MODIFY] = 50}},
    {.name = "d", .percent = {[LAB_YCSB_READ] = 95, [LAB_YCSB_INSERT] = 5}, .latest = true},
};

enum lab_ycsb_op lab_ycsb_draw_op(const struct lab_ycsb_workload *workload, struct base_random *random)
{
    uint64_t place = base_random_below(random, 100);
    enum lab_ycsb_op op = LAB_YCSB_READ;
    while (place >= workload->percent[op])
        place -= workload->percent[op++];
    return op;
}

void lab_ycsb_numbers_init(struct lab_ycsb_numbers *numbers, uint64_t count)
{
    atomic_init(&numbers->next, count);
    for (size_t i = 0; i < LAB_YCSB_THREADS_MAX; i++)
        atomic_init(&numbers->inserting[i], UINT64_MAX);
}

/* The bound is stored before the number is taken: a thread that sees a later `next` in lab_ycsb_present() sees the
 * bound, too. */
uint64_t lab_ycsb_insert(struct lab_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], atomic_load(&numbers->next));
    return atomic_fetch_add(&numbers->next, 1);
}

void lab_ycsb_inserted(struct lab_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], UINT64_MAX);
}

uint64_t lab_ycsb_present(struct lab_ycsb_numbers *numbers)
{
    uint64_t present = atomic_load(&numbers->next);
    for (size_t i = 0; i < LAB_YCSB_THREADS_MAX; i++)
        present = base_min(present, atomic_load(&numbers->inserting[i]));
    return present;
}

uint64_t lab_ycsb_draw_number(const struct lab_ycsb_workload *workload, const struct base_random_zipf *zipf,
                              uint64_t present, struct base_random *random)
{
    if (workload->latest)
        return present - 1 - base_random_zipf_rank(zipf, random);
    return base_random_zipf_scattered(zipf, random);
}
