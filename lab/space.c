/*
 * `tarn-lab space`: what the memory of a space costs: reading beside the fabric's own READ and beside memcpy(), mapping what
 * was mapped before, and allocating. A master and its memory servers run on the other core.
 */
#include "space/space.h"
#include "bench/case.h"
#include "bench/world.h"
#include "cluster/cluster.h"
#include "fabric/fabric.h"
#include "lab/server.h"
#include "lab/usage.h"
#include "lab/verbs.h"
#include "space/client.h"

#include <errno.h>
#include <unistd.h>

enum { SERVERS = 3, PATH_ROOM = 64, ADDRESS_ROOM = 100, URL_ROOM = 300, NODE_BYTES = 100 };

#define SPIN_NS     20000
#define WAIT_NS     (60 * BASE_NS_PER_SECOND)
#define CHUNK_BYTES (UINT64_C(4) << 20)
#define CHUNKS      32 /* of each memory server */
#define SPARE       8  /* for what is allocated: what was dropped comes back in the background */

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list providers;
    struct base_setting_list sizes;
    const char *cluster;
};

static const char *const cases[] = {"read", "map", "alloc", NULL};
static const char *const providers[] = {"shm", "tcp", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure only these: read, map, alloc.", .metavar = "CASE[,...]"),
    BENCH_OPTION(LIST, "providers", providers, "Of these alone: shm, tcp.", .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "sizes", sizes, "What a read moves, 8 to 64M, multiples of 8.",
                 .metavar = "SIZE[,...]", .default_text = "8,4K,1M,64M"),
    BENCH_OPTION(
        STRING, "cluster", cluster,
        "Where the master keeps its metadata: a path of an ensemble, below which each run leaves its own. "
        "Default: a file in memory.",
        .metavar = "URL"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_WORDS("providers", providers, providers),
    BENCH_NUMBERS("sizes", sizes, BENCH_WORD_BYTES, UINT64_C(64) << 20, BENCH_WORD_BYTES),
    {.setting = NULL},
};

/* ---- a space ------------------------------------------------------------------------------------- */

struct job {
    struct bench *bench;
    const char *url;
    const char *cluster; /* NULL: a file in memory */
    uint64_t bytes;
};

/* A measurement, with the space that it is of. */
struct run {
    const struct job *job;
    struct bench_sample *sample;
    int (*measure)(struct run *run);
    char path[PATH_ROOM];
    char addresses[1 + SERVERS][ADDRESS_ROOM]; /* the master's, and those of memory servers */
    struct tarn_fabric *fabric;
    char url[URL_ROOM];      /* of the cluster */
    struct cluster *cluster; /* where it is measured by itself */
    struct space_master *master;
    struct space_server *servers[SERVERS];
    struct tarn_space *space;
    struct tarn_space_namespace *of;
    struct tarn_space_region *region;
    uint8_t *memory;
    uint8_t *copied; /* what memcpy() copies */
};

static bool is_shm(const struct job *job)
{
    return strncmp(job->url, "shm", 3) == 0;
}

static int choose_addresses(struct run *run)
{
    int error = 0;
    for (unsigned i = 0; i <= SERVERS && error == 0; i++) {
        uint16_t port = 0;
        error = lab_find_port(&port);
        (void)snprintf(run->addresses[i], ADDRESS_ROOM,
                       is_shm(run->job) ? "/tmp/tarn-bench-%u" : "127.0.0.1:%u", port);
        if (i > 0)
            continue;
        (void)snprintf(run->path, PATH_ROOM, "/dev/shm/tarn-bench-%u.tarn", port);
        if (run->job->cluster == NULL)
            (void)snprintf(run->url, URL_ROOM, "solo:%s", run->path);
        else
            (void)snprintf(run->url, URL_ROOM, "%s/%u", run->job->cluster, port);
    }
    return error;
}

static int open_space(struct run *run, struct bench_world *world)
{
    char name[16];
    int error = tarn_fabric_open(world->node, run->job->url, &run->fabric);
    const struct space_master_options master = {.fabric = run->fabric,
                                                .address = run->addresses[0],
                                                .cluster = run->url,
                                                .name = "bench",
                                                .sched = world->scheds[1],
                                                .chunk_bytes = CHUNK_BYTES};
    if (error == 0)
        error = space_master_open(world->node, &master, &run->master);
    for (unsigned i = 0; i < SERVERS && error == 0; i++) {
        const struct space_server_options server = {.fabric = run->fabric,
                                                    .address = run->addresses[1 + i],
                                                    .masters = run->addresses[0],
                                                    .name = name,
                                                    .sched = world->scheds[1],
                                                    .memory_bytes = CHUNKS * CHUNK_BYTES,
                                                    .chunk_bytes = CHUNK_BYTES};
        (void)snprintf(name, sizeof(name), "node%u", i);
        error = space_server_open(world->node, &server, &run->servers[i]);
    }
    return error;
}

static int await_servers(const struct run *run)
{
    const uint64_t deadline_ns = task_now() + WAIT_NS;
    struct space_master_stats stats;
    do {
        if (task_sleep(BASE_NS_PER_MS) != 0 || task_now() >= deadline_ns)
            return -ETIMEDOUT;
        space_master_stats(run->master, &stats);
    } while (stats.servers < SERVERS);
    return 0;
}

static int open_region(struct run *run)
{
    const uint64_t deadline_ns = task_now() + WAIT_NS;
    const uint64_t bytes = base_max(run->job->bytes, CHUNK_BYTES);
    int error = tarn_space_connect(run->fabric, run->addresses[0], NULL, deadline_ns, &run->space);
    if (error == 0)
        error = tarn_space_create_ns(run->space, "bench", NULL, 0, deadline_ns, &run->of);
    if (error == 0)
        error = tarn_space_reserve(run->of, bytes + SPARE * CHUNK_BYTES, deadline_ns);
    if (error == 0)
        error = tarn_space_alloc(run->of, bytes, NULL, deadline_ns, &run->region);
    if (error == 0)
        error = tarn_space_map(run->region, deadline_ns, (void **)&run->memory);
    return error;
}

static void close_space(struct run *run)
{
    if (run->memory != NULL)
        tarn_space_unmap(run->region);
    if (run->region != NULL)
        tarn_space_drop(run->region);
    if (run->of != NULL)
        tarn_space_leave_ns(run->of);
    if (run->space != NULL)
        tarn_space_disconnect(run->space);
    for (unsigned i = 0; i < SERVERS; i++) {
        if (run->servers[i] != NULL)
            space_server_close(run->servers[i]);
    }
    if (run->master != NULL)
        space_master_close(run->master);
    if (run->fabric != NULL)
        tarn_fabric_close(run->fabric);
    for (unsigned i = 0; i <= SERVERS && is_shm(run->job); i++)
        (void)unlink(run->addresses[i]);
    (void)unlink(run->path);
}

static void run_main(void *arg)
{
    struct bench_world *world = arg;
    struct run *run = world->arg;
    world->error = choose_addresses(run);
    if (world->error == 0)
        world->error = open_space(run, world);
    if (world->error == 0)
        world->error = await_servers(run);
    if (world->error == 0)
        world->error = open_region(run);
    if (world->error == 0)
        world->error = run->measure(run);
    close_space(run);
}

static int run_world(struct run *run, task_function *function)
{
    const struct bench_world_options options = {.sched_count = 2, .sched = {.spin_ns = SPIN_NS}};
    return bench_world_run(run->job->bench, &options, function, run);
}

static int measure_with(const struct job *job, struct bench_sample *sample, int (*measure)(struct run *run))
{
    struct run run = {.job = job, .sample = sample, .measure = measure};
    return run_world(&run, run_main);
}

/* Repeat a step for the length of a measurement, and time each. */
static int repeat(struct run *run, int (*step)(struct run *run))
{
    struct bench_sample *sample = run->sample;
    const uint64_t begin_ns = task_now();
    uint64_t now_ns = begin_ns, before_ns;
    int error = 0;
    while (error == 0 && now_ns - begin_ns < run->job->bench->options.duration_ns) {
        before_ns = now_ns;
        error = step(run);
        now_ns = task_now();
        base_histogram_add(sample->latency, now_ns - before_ns);
        sample->operations++;
    }
    sample->elapsed_ns = now_ns - begin_ns;
    return error;
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int read_space(struct run *run)
{
    return tarn_space_read(run->region, run->memory, run->job->bytes, TARN_FOREVER);
}

/* The same READs by the fabric alone: each chunk's, posted together where there are several. */
static int read_fabric(struct run *run)
{
    enum { PARTS = 16 };
    const struct tarn_space_region *region = run->region;
    if (run->job->bytes <= CHUNK_BYTES)
        return tarn_fabric_read(region->targets[0].link->connection, 0, &region->targets[0].handle, 0,
                                run->memory, run->job->bytes, TARN_FOREVER);
    struct tarn_fabric_op ops[PARTS] = {{.kind = TARN_FABRIC_READ}};
    struct iovec iov[PARTS];
    uint32_t count = 0;
    for (uint64_t at = 0; at < run->job->bytes; at += CHUNK_BYTES, count++) {
        iov[count] = (struct iovec){.iov_base = run->memory + at,
                                    .iov_len = base_min(run->job->bytes - at, CHUNK_BYTES)};
        ops[count] = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                             .handle = &region->targets[count].handle,
                                             .iov = &iov[count],
                                             .iov_count = 1};
        tarn_fabric_post(region->targets[count].link->connection, &ops[count], 1);
    }
    return tarn_fabric_wait(ops, count, TARN_FOREVER);
}

static int copy_memory(struct run *run)
{
    memcpy(run->memory, run->copied, run->job->bytes);
    __asm__ volatile("" ::: "memory"); /* the copy is to be made each time */
    return 0;
}

static int repeat_read_space(struct run *run)
{
    return repeat(run, read_space);
}

static int repeat_read_fabric(struct run *run)
{
    return repeat(run, read_fabric);
}

/* The source is in memory of its own, of which every page is there. */
static int repeat_copy(struct run *run)
{
    struct base_account *account = &fabric_node(run->fabric)->memory;
    run->copied = base_alloc_aligned(account, BASE_PAGE_BYTES, run->job->bytes);
    int error = run->copied == NULL ? -ENOMEM : repeat(run, copy_memory);
    base_free(account, run->copied, run->job->bytes);
    return error;
}

static int measure_read(void *arg, struct bench_sample *sample)
{
    return measure_with(arg, sample, repeat_read_space);
}

static int measure_fabric(void *arg, struct bench_sample *sample)
{
    return measure_with(arg, sample, repeat_read_fabric);
}

static int measure_copy(void *arg, struct bench_sample *sample)
{
    return measure_with(arg, sample, repeat_copy);
}

/* ---- mapping, allocating ------------------------------------------------------------------------- */

/* Store a node as long as a region's, in the cluster's store alone. */
static int put_node(struct run *run)
{
    static const uint8_t data[NODE_BYTES];
    return cluster_put(run->cluster, 0, "/regions/1", data, sizeof(data), CLUSTER_ANY);
}

static void store_main(void *arg)
{
    struct bench_world *world = arg;
    struct run *run = world->arg;
    const struct cluster_options options = {.name = "bench"};
    world->error = choose_addresses(run);
    if (world->error == 0)
        world->error = cluster_join(world->node, run->url, &options, &run->cluster);
    if (world->error != 0)
        return;
    world->error = repeat(run, put_node);
    cluster_leave(run->cluster);
    (void)unlink(run->path);
}

static int measure_store(void *arg, struct bench_sample *sample)
{
    struct run run = {.job = arg, .sample = sample};
    return run_world(&run, store_main);
}

static int map_again(struct run *run)
{
    tarn_space_unmap(run->region);
    run->memory = NULL;
    return tarn_space_map(run->region, TARN_FOREVER, (void **)&run->memory);
}

static int alloc_and_free(struct run *run)
{
    struct tarn_space_region *region;
    int error = tarn_space_alloc(run->of, CHUNK_BYTES, NULL, TARN_FOREVER, &region);
    if (error == 0)
        error = tarn_space_free(region, TARN_FOREVER);
    if (error == 0)
        tarn_space_drop(region);
    return error;
}

static int repeat_map(struct run *run)
{
    return repeat(run, map_again);
}

static int repeat_alloc(struct run *run)
{
    return repeat(run, alloc_and_free);
}

static int measure_map(void *arg, struct bench_sample *sample)
{
    return measure_with(arg, sample, repeat_map);
}

static int measure_alloc(void *arg, struct bench_sample *sample)
{
    return measure_with(arg, sample, repeat_alloc);
}

/* ---- cases --------------------------------------------------------------------------------------- */

static int open_case(const struct job *job, const char *name, const char *unit, struct bench_case **ret_case)
{
    int error = bench_case_open(job->bench, name, unit, ret_case);
    if (error == 0)
        bench_case_text(*ret_case, "provider", is_shm(job) ? "shm" : "tcp");
    return error;
}

static int run_read(struct job *job)
{
    struct bench_case *self;
    int error = open_case(job, "read", "reads/s", &self);
    if (error != 0)
        return error;
    bench_case_number(self, "bytes", job->bytes);
    bench_case_subject(self, "space", measure_read, job);
    bench_case_subject(self, "fabric", measure_fabric, job);
    if (is_shm(job))
        bench_case_subject(self, "memcpy", measure_copy, job);
    return bench_case_finish(self);
}

static int run_map(struct job *job)
{
    struct bench_case *self;
    int error = open_case(job, "map", "maps/s", &self);
    if (error != 0)
        return error;
    bench_case_subject(self, "map", measure_map, job);
    return bench_case_finish(self);
}

static int run_alloc(struct job *job)
{
    struct bench_case *self;
    int error = open_case(job, "alloc", "operations/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "cluster", job->cluster == NULL ? "solo" : "zookeeper");
    bench_case_subject(self, "alloc and free", measure_alloc, job);
    bench_case_subject(self, "the store's put", measure_store, job);
    return bench_case_finish(self);
}

static int run_provider(struct bench *bench, const struct options *options, const char *url)
{
    struct job job = {.bench = bench, .url = url, .cluster = options->cluster};
    int error = 0;
    for (size_t i = 0; i < options->sizes.count && error == 0 && bench_is_wanted(&options->only, "read");
         i++) {
        job.bytes = bench_number(options->sizes.items[i]);
        error = run_read(&job);
    }
    job.bytes = CHUNK_BYTES;
    if (error == 0 && bench_is_wanted(&options->only, "map"))
        error = run_map(&job);
    if (error == 0 && bench_is_wanted(&options->only, "alloc"))
        error = run_alloc(&job);
    return error;
}

static int run_space(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    if (!bench_has_two_cores(&bench->machine))
        return bench_fail(bench, -ENOTSUP, "the memory servers have the other core: there is one alone");
    if (bench_is_wanted(&options->providers, "shm"))
        error = run_provider(bench, options, "shm:");
    if (error == 0 && bench_is_wanted(&options->providers, "tcp"))
        error = run_provider(bench, options, "tcp:");
    return error;
}

const struct bench_verb lab_verb_space =
    BENCH_VERB("space", "The memory of a space beside the fabric's own operations and plain memory.",
               .lists = lists, .run = run_space);
