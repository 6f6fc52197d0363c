#include "bench/ycsb_draw.h"

const struct bench_ycsb_workload bench_ycsb_workloads[BENCH_YCSB_WORKLOADS] = {
    {.name = "a", .percent = {[BENCH_YCSB_READ] = 50, [BENCH_YCSB_UPDATE] = 50}},
    {.name = "b", .percent = {[BENCH_YCSB_READ] = 95, [BENCH_YCSB_UPDATE] = 5}},
    {.name = "c", .percent = {[BENCH_YCSB_READ] = 100}},
    {.name = "f", .percent = {[BENCH_YCSB_READ] = 50, [BENCH_YCSB_MODIFY] = 50}},
    {.name = "d", .percent = {[BENCH_YCSB_READ] = 95, [BENCH_YCSB_INSERT] = 5}, .latest = true},
};

enum bench_ycsb_op bench_ycsb_draw_op(const struct bench_ycsb_workload *workload, struct base_random *random)
{
    uint64_t place = base_random_below(random, 100);
    enum bench_ycsb_op op = BENCH_YCSB_READ;
    while (place >= workload->percent[op])
        place -= workload->percent[op++];
    return op;
}

void bench_ycsb_numbers_init(struct bench_ycsb_numbers *numbers, uint64_t count)
{
    atomic_init(&numbers->next, count);
    for (size_t i = 0; i < BENCH_YCSB_THREADS_MAX; i++)
        atomic_init(&numbers->inserting[i], UINT64_MAX);
}

/* The bound is there before the number is taken: who sees a later `next` in bench_ycsb_present() sees it,
 * too. */
uint64_t bench_ycsb_insert(struct bench_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], atomic_load(&numbers->next));
    return atomic_fetch_add(&numbers->next, 1);
}

void bench_ycsb_inserted(struct bench_ycsb_numbers *numbers, uint32_t thread)
{
    atomic_store(&numbers->inserting[thread], UINT64_MAX);
}

uint64_t bench_ycsb_present(struct bench_ycsb_numbers *numbers)
{
    uint64_t present = atomic_load(&numbers->next);
    for (size_t i = 0; i < BENCH_YCSB_THREADS_MAX; i++)
        present = base_min(present, atomic_load(&numbers->inserting[i]));
    return present;
}

uint64_t bench_ycsb_draw_number(const struct bench_ycsb_workload *workload,
                                const struct base_random_zipf *zipf, uint64_t present,
                                struct base_random *random)
{
    if (workload->latest)
        return present - 1 - base_random_zipf_rank(zipf, random);
    return base_random_zipf_scattered(zipf, random);
}
