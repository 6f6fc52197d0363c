/*
 * Pages of fresh memory. Zeroing them takes most of the time in which a large region is made, and one processor uses
 * only a fraction of the memory's bandwidth: so several threads do it.
 */
#include "fabric/fabric_internal.h"
#include "task/thread.h"
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#define PARALLEL_BYTES (UINT64_C(64) << 20) /* below this, starting threads does not pay */
#define PART_BYTES     (UINT64_C(16) << 20)
#define THREADS_MAX    8 /* the most threads, the caller's included */

struct population {
    uint8_t *memory;
    uint64_t bytes;
    _Atomic uint64_t next;  /* offset of the next part that a thread takes */
    _Atomic uint64_t *done; /* bytes of the parts that are done; NULL: nobody watches */
    _Atomic bool failed;
};

static void *populate_parts(void *arg)
{
    struct population *population = arg;
    while (!atomic_load(&population->failed)) {
        const uint64_t at = atomic_fetch_add(&population->next, PART_BYTES);
        if (at >= population->bytes)
            break;
        const uint64_t bytes = base_min(population->bytes - at, PART_BYTES);
        if (madvise(population->memory + at, bytes, MADV_POPULATE_WRITE) != 0) {
            atomic_store(&population->failed, true);
            break;
        }
        if (population->done != NULL)
            atomic_fetch_add(population->done,
                             bytes); /* pairs with make_aside() of region.c, which tells it */
    }
    return NULL;
}

/* The number of processors that this process may use. */
static unsigned count_processors(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return 1; /* the machine has more than a set of this size holds */
    return (unsigned)CPU_COUNT(&allowed);
}

static int populate_counting(uint8_t *memory, uint64_t bytes, _Atomic uint64_t *done)
{
    struct population population = {.memory = memory, .bytes = bytes, .done = done};
    const unsigned wanted = bytes < PARALLEL_BYTES ? 1 : base_min(count_processors(), THREADS_MAX);
    pthread_t threads[THREADS_MAX];
    unsigned helpers = 0;
    while (helpers + 1 < wanted &&
           task_thread_start(&threads[helpers], "tarn-populate", populate_parts, &population) == 0)
        helpers++; /* a thread that cannot be started is done without */
    (void)populate_parts(&population);
    for (unsigned i = 0; i < helpers; i++)
        (void)pthread_join(threads[i], NULL);
    return atomic_load(&population.failed) ? -ENOMEM : 0;
}

int fabric_populate(uint8_t *memory, uint64_t bytes)
{
    return populate_counting(memory, bytes, NULL);
}

int fabric_region_populate(const struct tarn_fabric_region *region, uint8_t *memory)
{
    return populate_counting(memory, region->bytes, region->making);
}
