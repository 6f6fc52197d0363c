/* Load on a store: its tasks and threads, and fio beside it. */
#include "lab/depot_load.h"
#include "lab/fio.h"
#include "lab/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

enum {
    SPARE_TASKS = 64,
    WHOLE_EVERY = 64, /* one in this many values is checked from end to end */
    PROOFS = 256,     /* records read back after writing */
    FLUSH_BLOCK_BYTES = 4096,
    SEQUENTIAL_BLOCK_BYTES = 256 << 10,
};

/* One measurement under way. */
struct load {
    struct lab_depot_job *job;
    struct bench_sample *sample;
    struct tarn_depot *depot;
    struct task_sched *const *scheds; /* of tasks */
    uint64_t end_ns;
    uint64_t generation; /* of what is written */
};

/* One task or thread, in its own memory. */
struct worker {
    struct load *load;
    struct base_histogram *latency;
    struct base_random random;
    pthread_t thread;
    uint8_t *value;
    uint64_t operations;
    uint64_t number; /* inserts: of the next record */
    int error;       /* its first */
};

/* Tasks or threads. */
static uint32_t worker_count(const struct lab_depot_job *job)
{
    return job->threads ? job->depth : job->depth * job->scheds;
}

/* Histograms: tasks of one scheduler share one, each thread has its own. */
static uint32_t histogram_count(const struct lab_depot_job *job)
{
    return job->threads ? job->depth : job->scheds;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static int get_random(struct worker *worker)
{
    struct load *load = worker->load;
    const struct lab_depot_store *store = load->job->store;
    return lab_depot_get(store, load->depot, base_random_below(&worker->random, store->records),
                         worker->value, worker->operations % WHOLE_EVERY == 0);
}

static int put_number(struct worker *worker, uint64_t number)
{
    struct load *load = worker->load;
    return lab_depot_put(load->job->store, load->depot, number, load->generation, worker->value);
}

static int overwrite_random(struct worker *worker)
{
    return put_number(worker, base_random_below(&worker->random, worker->load->job->store->records));
}

/* Workers take turns in the numbers, so that they need not agree on them. */
static int insert_next(struct worker *worker)
{
    int error = put_number(worker, worker->number);
    worker->number += worker_count(worker->load->job);
    return error;
}

/* ---- workers ---------------------------------------------------------------------------------- */

/* Each call begins when the one before has ended, so that one look at the clock tells both. */
static void run_worker(struct worker *worker)
{
    static int (*const calls[])(struct worker * worker) = {[LAB_DEPOT_GET] = get_random,
                                                           [LAB_DEPOT_OVERWRITE] = overwrite_random,
                                                           [LAB_DEPOT_INSERT] = insert_next};
    const struct load *load = worker->load;
    int (*call)(struct worker * worker) = calls[load->job->op];
    uint64_t begin_ns = task_now();
    while (begin_ns < load->end_ns && worker->error == 0 && worker->number < load->job->store->records_max) {
        worker->error = call(worker);
        uint64_t now_ns = task_now();
        base_histogram_add(worker->latency, now_ns - begin_ns);
        worker->operations++;
        begin_ns = now_ns;
    }
}

static void work_task(void *arg)
{
    run_worker(arg);
}

static void *work_thread(void *arg)
{
    run_worker(arg);
    return NULL;
}

static int run_tasks(const struct load *load, struct worker *workers)
{
    const struct lab_depot_job *job = load->job;
    struct task_group group;
    task_group_init(&group);
    int error = 0;
    for (uint32_t i = 0; i < worker_count(job) && error == 0; i++)
        error = task_spawn(load->scheds[i / job->depth], &group, "worker", work_task, &workers[i]);
    int joined = task_group_join(&group, TASK_FOREVER);
    base_assert(joined == 0); /* nobody cancels */
    return error;
}

static int run_threads(struct worker *workers, uint32_t count)
{
    uint32_t started = 0;
    int error = 0;
    while (started < count && error == 0) {
        error = -pthread_create(&workers[started].thread, NULL, work_thread, &workers[started]);
        started += error == 0;
    }
    while (started > 0)
        (void)pthread_join(workers[--started].thread, NULL);
    return error;
}

/* Workers, their histograms, their values. */
static size_t workers_bytes(const struct lab_depot_job *job)
{
    return worker_count(job) * (sizeof(struct worker) + (size_t)job->store->value_bytes) +
           histogram_count(job) * sizeof(struct base_histogram);
}

static struct worker *make_workers(struct load *load)
{
    struct lab_depot_job *job = load->job;
    struct lab_depot_store *store = job->store;
    struct worker *workers = base_alloc(store->bench->account, workers_bytes(job));
    if (workers == NULL)
        return NULL;
    const uint32_t histograms = histogram_count(job);
    struct base_histogram *latencies = (struct base_histogram *)(workers + worker_count(job));
    uint8_t *values = (uint8_t *)(latencies + histograms);
    for (uint32_t i = 0; i < histograms; i++)
        base_histogram_reset(&latencies[i]);
    for (uint32_t i = 0; i < worker_count(job); i++) {
        struct worker *worker = &workers[i];
        *worker = (struct worker){.load = load,
                                  .latency = &latencies[job->threads ? i : i / job->depth],
                                  .value = values + (size_t)i * store->value_bytes,
                                  .number = job->op == LAB_DEPOT_INSERT ? i : 0};
        base_random_init(&worker->random, store->bench->options.seed + (job->measured << 32) + i);
        lab_depot_value_init(store, worker->value);
    }
    return workers;
}

/* ---- a measurement ------------------------------------------------------------------------------ */

/* @param ret_number  of the first record that a worker has not inserted */
static int sum_up(struct load *load, const struct worker *workers, uint64_t *ret_number)
{
    struct lab_depot_job *job = load->job;
    int error = 0;
    uint64_t number = UINT64_MAX;
    for (uint32_t i = 0; i < worker_count(job); i++) {
        error = error == 0 ? workers[i].error : error;
        load->sample->operations += workers[i].operations;
        number = base_min(number, workers[i].number);
        if (i == 0 || workers[i].latency != workers[i - 1].latency)
            base_histogram_merge(load->sample->latency, workers[i].latency);
    }
    *ret_number = number;
    return error;
}

/* What was acknowledged is there. */
static int prove(struct load *load, uint64_t records, struct worker *worker)
{
    int error = 0;
    for (int i = 0; i < PROOFS && records > 0 && error == 0; i++)
        error = lab_depot_get(load->job->store, load->depot, base_random_below(&worker->random, records),
                              worker->value, true);
    return error;
}

static void tell_values(struct load *load, uint64_t used_ns, const struct tarn_depot_stats *before,
                        const struct tarn_depot_stats *after)
{
    struct lab_depot_job *job = load->job;
    double *values = load->sample->values;
    double operations = (double)base_max(load->sample->operations, UINT64_C(1));
    values[LAB_DEPOT_THREAD_NS] = (double)used_ns / operations;
    if (job->op == LAB_DEPOT_GET) {
        values[LAB_DEPOT_P50_NS] = (double)base_histogram_percentile(load->sample->latency, 50);
        values[LAB_DEPOT_READS] = (double)(after->reads - before->reads) / operations;
    } else {
        uint64_t writes = base_max(after->writes - before->writes, UINT64_C(1));
        values[LAB_DEPOT_PER_WRITE] = operations / (double)writes;
        values[LAB_DEPOT_WRITTEN] = (double)(after->written_bytes - before->written_bytes) /
                                    (operations * (double)job->store->record_bytes);
    }
}

static uint64_t used_ns(const struct lab_depot_job *job)
{
    struct lab_usage usage;
    if (!job->threads && job->scheds == 1)
        return lab_thread_ns();
    return lab_usage_read(&usage) == 0 ? usage.processor_ns : 0;
}

static int run_workers(struct load *load, struct worker *workers)
{
    struct lab_depot_job *job = load->job;
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    tarn_depot_stats(load->depot, &before);
    uint64_t before_ns = used_ns(job);
    uint64_t begin_ns = task_now();
    load->end_ns = begin_ns + job->store->bench->options.duration_ns;
    int error = job->threads ? run_threads(workers, job->depth) : run_tasks(load, workers);
    load->sample->elapsed_ns = task_now() - begin_ns;
    uint64_t spent_ns = used_ns(job) - before_ns;
    tarn_depot_stats(load->depot, &after);
    uint64_t inserted;
    int failed = sum_up(load, workers, &inserted);
    if (error == 0)
        error = failed;
    tell_values(load, spent_ns, &before, &after);
    if (error == 0 && job->op == LAB_DEPOT_INSERT &&
        after.records - before.records != load->sample->operations)
        error = -EBADMSG; /* some were no new records */
    if (error == 0 && job->op != LAB_DEPOT_GET)
        error = prove(load, job->op == LAB_DEPOT_INSERT ? inserted : job->store->records, workers);
    return error;
}

static int take_stages(struct load *load)
{
    struct lab_depot_job *job = load->job;
    struct base_json json;
    base_json_init_buffer(&json, job->stages_text, sizeof(job->stages_text));
    int error = depot_write_stages(load->depot, &json, NULL);
    int finished = base_json_finish(&json, NULL);
    return error == 0 ? finished : error;
}

static int load_open_store(struct load *load)
{
    struct lab_depot_job *job = load->job;
    struct worker *workers = make_workers(load);
    int error = workers == NULL ? -ENOMEM : 0;
    if (error == 0 && job->stages)
        depot_measure(load->depot, 1);
    if (error == 0)
        error = run_workers(load, workers);
    if (error == 0 && job->stages)
        error = take_stages(load);
    base_free(job->store->bench->account, workers, workers_bytes(job));
    return error;
}

static int measure_on(struct tarn_node *node, struct load *load)
{
    const struct lab_depot_job *job = load->job;
    bool reads = job->op == LAB_DEPOT_GET;
    int error = job->op == LAB_DEPOT_INSERT ? lab_depot_format(job->store, node) : 0;
    if (error == 0)
        error = lab_depot_open(job->store, node, job->mode, reads, &load->depot);
    if (error != 0)
        return error;
    error = load_open_store(load);
    int closed = tarn_depot_close(load->depot);
    return error == 0 ? closed : error;
}

static void load_main(void *arg)
{
    struct bench_world *world = arg;
    struct load *load = world->arg;
    load->scheds = world->scheds;
    world->error = measure_on(world->node, load);
}

/* Threads, and what they start, on the core that tasks have too. */
static int measure_threads(struct load *load)
{
    struct lab_depot_store *store = load->job->store;
    struct tarn_node *node;
    int error = bench_node_open(store->bench, store->setup->engine, &node);
    if (error != 0)
        return error;
    bench_pin(&store->bench->machine, 0);
    error = measure_on(node, load);
    bench_unpin(&store->bench->machine);
    task_node_close(node);
    return error;
}

int lab_depot_measure(void *arg, struct bench_sample *sample)
{
    struct lab_depot_job *job = arg;
    const struct lab_depot_store *store = job->store;
    struct load load = {.job = job, .sample = sample, .generation = job->measured + 1};
    const struct bench_world_options options = {
        .engine = store->setup->engine,
        .sched_count = job->scheds,
        .sched = {.tasks_max = job->depth + SPARE_TASKS, .spin_ns = store->setup->spin_ns},
        .memory_bytes = store->setup->memory_bytes,
    };
    int error =
        job->threads ? measure_threads(&load) : bench_world_run(store->bench, &options, load_main, &load);
    job->measured++;
    if (error == -ENOENT || error == -EBADMSG)
        return bench_fail(store->bench, error, "%s: a record is not there as it was stored",
                          store->file.path);
    return error;
}

/* ---- fio beside it ------------------------------------------------------------------------------- */

void lab_depot_peer_init(struct lab_depot_peer *peer, enum lab_depot_peer_kind kind,
                         const struct lab_depot_job *job, const struct lab_drive_file *file,
                         uint64_t file_bytes)
{
    static const enum lab_drive_op ops[] = {[LAB_DEPOT_PEER_READ] = LAB_DRIVE_RANDREAD,
                                            [LAB_DEPOT_PEER_READ_SYNC] = LAB_DRIVE_RANDREAD,
                                            [LAB_DEPOT_PEER_WRITE] = LAB_DRIVE_RANDWRITE,
                                            [LAB_DEPOT_PEER_SEQUENTIAL] = LAB_DRIVE_WRITE,
                                            [LAB_DEPOT_PEER_FLUSH] = LAB_DRIVE_WRITE};
    const struct lab_depot_store *store = job->store;
    const uint64_t block = store->block_bytes;
    const uint32_t put_bytes = LAB_DEPOT_KEY_BYTES + store->value_bytes;
    const bool flushes = kind == LAB_DEPOT_PEER_FLUSH;
    const bool plain = flushes || kind == LAB_DEPOT_PEER_READ_SYNC;
    const uint64_t block_bytes[] = {
        [LAB_DEPOT_PEER_READ] = base_max(base_align_down(store->read_bytes + block / 2, block), block),
        [LAB_DEPOT_PEER_READ_SYNC] = base_max(base_align_down(store->read_bytes + block / 2, block), block),
        [LAB_DEPOT_PEER_WRITE] = base_align_up(store->record_bytes, block),
        [LAB_DEPOT_PEER_SEQUENTIAL] =
            base_max((uint64_t)SEQUENTIAL_BLOCK_BYTES, base_align_up(put_bytes, block)),
        [LAB_DEPOT_PEER_FLUSH] = FLUSH_BLOCK_BYTES};
    *peer = (struct lab_depot_peer){.drive = {.bench = store->bench,
                                              .path = file->path,
                                              .provider = plain ? DRIVE_PROVIDER_SYNC : store->engine,
                                              .op = ops[kind],
                                              .block_bytes = (uint32_t)block_bytes[kind],
                                              .depth = flushes ? 1 : job->depth,
                                              .flush_each = flushes,
                                              .opened = true,
                                              .direct = store->direct,
                                              .bytes = file_bytes},
                                    .factor = 1};
    if (flushes)
        peer->factor = job->depth;
    else if (kind == LAB_DEPOT_PEER_SEQUENTIAL)
        peer->factor = peer->drive.block_bytes / put_bytes;
}

const char *lab_depot_peer_name(const struct lab_depot_peer *peer, char *buffer, size_t room)
{
    if (peer->drive.flush_each)
        (void)snprintf(buffer, room, "fio-flush-x%" PRIu32, peer->factor);
    else if (peer->drive.op == LAB_DRIVE_WRITE)
        (void)snprintf(buffer, room, "fio-sequential");
    else
        (void)snprintf(buffer, room, "fio-%s", lab_fio_engine(peer->drive.provider));
    return buffer;
}

int lab_depot_peer_measure(void *arg, struct bench_sample *sample)
{
    struct lab_depot_peer *peer = arg;
    int error = lab_fio_measure(&peer->drive, sample);
    if (error != 0)
        return error;
    sample->operations *= peer->factor;
    sample->values[LAB_DEPOT_P50_NS] = lab_drive_op_writes(peer->drive.op)
                                           ? 1 /* put for a write */
                                           : (double)base_histogram_percentile(sample->latency, 50);
    sample->values[LAB_DEPOT_READS] = 1; /* or bytes written for a byte */
    if (peer->drive.flush_each)          /* what it tells of those is without the flush */
        base_histogram_reset(sample->latency);
    return 0;
}
