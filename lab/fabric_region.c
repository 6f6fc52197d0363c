/*
 * Round trips while memory is made: one task sends messages of a peer's process there and back, and times each; another
 * task of its scheduler makes a large region meanwhile, or a plain thread maps as much memory. All threads may use all
 * processors, and schedulers sleep where they have nothing to do, as those of programs do.
 */
#include "lab/fabric.h"

#include "bench/world.h"
#include "task/thread.h"
#include <errno.h>
#include <sys/mman.h>

#define SPIN_NS 20000

struct making {
    const struct lab_fabric_job *job;
    struct bench_sample *sample;
    struct tarn_fabric *fabric;
    struct tarn_fabric_connection *connection;
    _Atomic bool over;                 /* the memory is made, or could not be */
    int error;                         /* the outcome of making it */
    struct tarn_fabric_domain *domain; /* of the region; it is freed when all round trips are over */
    struct tarn_fabric_region *region;
    void *memory; /* MAP_FAILED: there is none */
};

/* ---- what happens beside the round trips --------------------------------------------------------- */

/* Make the region. In a task. */
static void make_region(void *arg)
{
    struct making *making = arg;
    const uint64_t begin_ns = task_now();
    making->error = tarn_fabric_region_alloc(making->domain, making->job->making_bytes,
                                             TARN_FABRIC_MAY_READ | TARN_FABRIC_MAY_WRITE, &making->region);
    making->sample->values[LAB_FABRIC_MADE_MS] = (double)(task_now() - begin_ns) / BASE_NS_PER_MS;
    atomic_store(&making->over, true);
}

/* Map as much memory. In a plain thread. */
static void *map_memory(void *arg)
{
    struct making *making = arg;
    const uint64_t bytes = making->job->making_bytes, begin_ns = task_now();
    making->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (making->memory == MAP_FAILED || madvise(making->memory, bytes, MADV_POPULATE_WRITE) != 0)
        making->error = -ENOMEM;
    making->sample->values[LAB_FABRIC_MADE_MS] = (double)(task_now() - begin_ns) / BASE_NS_PER_MS;
    atomic_store(&making->over, true);
    return NULL;
}

/* ---- round trips --------------------------------------------------------------------------------- */

/* Until a moment, or where that is 0 until the memory is made. */
static int go_round(struct making *making, uint64_t until_ns)
{
    uint8_t data[LAB_FABRIC_MAKING_BYTES] = {0};
    struct tarn_fabric_message message;
    const uint64_t begin_ns = task_now();
    uint64_t now_ns = begin_ns, before_ns;
    int error = 0;
    do {
        before_ns = now_ns;
        error = tarn_fabric_send(making->connection, 0, data, sizeof(data), TARN_FOREVER);
        if (error == 0)
            error = tarn_fabric_receive(making->connection, data, sizeof(data), TARN_FOREVER, &message);
        now_ns = task_now();
        base_histogram_add(making->sample->latency, now_ns - before_ns);
        making->sample->operations++;
    } while (error == 0 && (until_ns != 0 ? now_ns < until_ns : !atomic_load(&making->over)));
    making->sample->elapsed_ns = now_ns - begin_ns;
    return error;
}

static int go_beside_region(struct making *making)
{
    const struct tarn_fabric_domain_options options = {.writable_bytes = making->job->making_bytes};
    struct task_group group;
    task_group_init(&group);
    int error = tarn_fabric_domain_open(making->fabric, &options, &making->domain);
    if (error != 0)
        return error;
    error = task_spawn(NULL, &group, "region", make_region, making);
    if (error == 0) {
        error = go_round(making, 0);
        int joined = task_group_join(&group, TARN_FOREVER);
        error = error != 0 ? error : joined;
    }
    if (making->region != NULL)
        tarn_fabric_region_free(making->region);
    tarn_fabric_domain_close(making->domain);
    return error;
}

static int go_beside_thread(struct making *making)
{
    pthread_t thread;
    int error = task_thread_start(&thread, "map", map_memory, making);
    if (error != 0)
        return error;
    error = go_round(making, 0);
    (void)pthread_join(thread, NULL);
    if (making->memory != MAP_FAILED)
        (void)munmap(making->memory, making->job->making_bytes);
    return error;
}

static int measure_beside(void *arg)
{
    struct making *making = arg;
    const struct lab_fabric_job *job = making->job;
    int error = 0;
    switch (job->beside) {
    case LAB_FABRIC_BESIDE_NOTHING:
        error = go_round(making, task_now() + job->bench->options.duration_ns);
        break;
    case LAB_FABRIC_BESIDE_REGION:
        error = go_beside_region(making);
        break;
    case LAB_FABRIC_BESIDE_THREAD:
        error = go_beside_thread(making);
        break;
    }
    return error != 0 ? error : making->error;
}

/* ---- a measurement ------------------------------------------------------------------------------- */

static void making_main(void *arg)
{
    struct bench_world *world = arg;
    struct making *making = world->arg;
    bench_unpin(&world->bench->machine);
    world->error = tarn_fabric_open(world->node, making->job->server->url, &making->fabric);
    if (world->error != 0)
        return;
    world->error = lab_fabric_meet(making->job, making->fabric, LAB_FABRIC_MAKING_BYTES, &making->connection,
                                   measure_beside, making);
    tarn_fabric_close(making->fabric);
}

static int measure(struct lab_fabric_job *job, enum lab_fabric_beside beside, struct bench_sample *sample)
{
    struct making making = {.job = job, .sample = sample};
    const struct bench_world_options options = {.sched = {.spin_ns = SPIN_NS}};
    if (job->bench->machine.memory_bytes / 2 < job->making_bytes) {
        sample->skipped = "this machine has not twice as much memory";
        return 0;
    }
    job->beside = beside;
    return bench_world_run(job->bench, &options, making_main, &making);
}

int lab_fabric_alone(void *arg, struct bench_sample *sample)
{
    return measure(arg, LAB_FABRIC_BESIDE_NOTHING, sample);
}

int lab_fabric_beside_region(void *arg, struct bench_sample *sample)
{
    return measure(arg, LAB_FABRIC_BESIDE_REGION, sample);
}

int lab_fabric_beside_thread(void *arg, struct bench_sample *sample)
{
    return measure(arg, LAB_FABRIC_BESIDE_THREAD, sample);
}
