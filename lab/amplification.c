/* `tarn-lab amplification`: bytes that the drive moves for bytes of keys and values. */
#include "lab/amplification.h"
#include "lab/verbs.h"

#include "bench/case.h"
#include "lab/depot_store.h"
#include <errno.h>
#include <math.h>

enum {
    TASKS_MAX = 128,
    FILL_PERCENT = 50, /* of the capacity, for reads and writes: nothing is collected */
    LIVE_PERCENT = 80, /* of all segments, for collection */
    CAPACITY_PERCENT_MAX = 98,
    WARM_UP_ROUNDS = 3, /* times all records, until as much dies as is written */
    ROUNDS = 2,
    HOT_RECORDS_PERCENT = 10,
    HOT_WRITES_PERCENT = 90,
    VALUES_MAX = 1 << 16,
    COLLECTED_VALUE_BYTES = 1024,
    BISECTIONS = 60,
    COLLECTION = 2, /* its place among cases */
};

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list sizes;
    struct base_setting_list blocks;
    uint64_t grain_bytes;
    uint64_t size_bytes;
    uint64_t gets;
};

static const char *const cases[] = {"read", "write", "collection", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure these alone: read, write, collection.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "sizes", sizes, "Lengths of values that are read and written.",
                 .metavar = "SIZE[,...]", .default_text = "4K,400,100"),
    BENCH_OPTION(LIST, "blocks", blocks, "Lengths of the drive's blocks.", .metavar = "SIZE[,...]",
                 .default_text = "512,4K"),
    BENCH_OPTION(SIZE, "grain", grain_bytes, "Unit of addresses of the store: a power of two.", .min = 32,
                 .max = 512, .default_text = "32"),
    BENCH_OPTION(SIZE, "size", size_bytes, "Size of the drive, which is in memory.", .min = 32 << 20,
                 .default_text = "256M"),
    BENCH_OPTION(UINT, "gets", gets, "Random records that are read.", .min = 1, .max = 1000000000,
                 .default_text = "200000"),
    BENCH_COMMON_SETTINGS(struct options, "1s", "3"),
};

double lab_greedy_bound(double live_share)
{
    double low = 0;
    double high = 1;
    for (int i = 0; i < BISECTIONS; i++) {
        double left = (low + high) / 2;
        if ((left - 1) / log(left) < live_share)
            low = left;
        else
            high = left;
    }
    return 1 / (1 - low);
}

/* ---- options ------------------------------------------------------------------------------------- */

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_NUMBERS("sizes", sizes, LAB_DEPOT_VALUE_BYTES_MIN, VALUES_MAX, 1),
    BENCH_NUMBERS("blocks", blocks, DRIVE_SECTOR_BYTES, VALUES_MAX, 0),
    {.setting = NULL},
};

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    return base_is_power_of_two(options->grain_bytes) ? 0 : bench_fail(bench, 0, "--grain: no power of two");
}

/* ---- a drive in memory ------------------------------------------------------------------------------ */

/*
 * Its blocks have any size, its requests take no time. They are done when the tasks that can run have run, so that
 * writes gather as with a drive that is busy.
 */
struct memory {
    uint8_t *bytes;
    uint64_t size;
    uint32_t block_bytes; /* logical and physical */
};

static int open_drive(struct tarn_node *node, void *provider_arg, const char *path,
                      const struct drive_options *options, struct drive_info *ret_info, void **ret_state)
{
    struct memory *memory = provider_arg;
    (void)node, (void)path, (void)options;
    *ret_info = (struct drive_info){.provider = "memory",
                                    .bytes = memory->size,
                                    .logical_block_bytes = memory->block_bytes,
                                    .physical_block_bytes = memory->block_bytes,
                                    .memory_alignment_bytes = DRIVE_SECTOR_BYTES,
                                    .direct = true};
    *ret_state = memory;
    return 0;
}

static void close_drive(void *state)
{
    (void)state;
}

static void finish_request(struct task_message *message)
{
    drive_finish(base_container_of(message, struct drive_request, message), 0);
}

static void move_bytes(const struct memory *memory, const struct drive_request *request)
{
    uint8_t *at = memory->bytes + request->offset;
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *vector = &request->iov[i];
        if (request->op == DRIVE_READ)
            memcpy(vector->iov_base, at, vector->iov_len);
        else
            memcpy(at, vector->iov_base, vector->iov_len);
        at += vector->iov_len;
    }
}

static void post_request(void *state, struct drive_request *request)
{
    move_bytes(state, request);
    request->message.run = finish_request;
    if (request->sched == NULL)
        drive_finish_now(request, 0);
    else /* a scheduler does not end while a task of its waits */
        base_assert(task_sched_post(request->sched, &request->message));
}

static const struct drive_provider memory_provider = {
    .name = "memory", .open = open_drive, .close = close_drive, .post = post_request};

/* ---- measurements -------------------------------------------------------------------------------- */

/* One case on a store that is made for each measurement. */
struct job {
    const struct options *options;
    const struct kind *kind;
    uint32_t value_bytes;
    uint32_t block_bytes;
    bool skewed; /* collection: 90 % of the writes are to 10 % of the records */
    uint64_t measured;
    uint64_t records;             /* in the store */
    struct lab_depot_store store; /* its values */
    struct tarn_depot *depot;
    struct base_random random;
    double *values; /* of the sample */
};

static uint64_t moved(const struct job *job, enum drive_op op)
{
    return drive_moved_bytes(depot_drive(job->depot), op);
}

static double user_bytes(const struct job *job, uint64_t records)
{
    return (double)records * (LAB_DEPOT_KEY_BYTES + job->value_bytes);
}

/* Put a first record, whose size tells how many fill so much. @return 0; the store's error */
static int put_first(struct job *job, uint64_t (*room)(const struct tarn_depot_stats *stats))
{
    struct tarn_depot_stats stats;
    int error = lab_depot_put_all(&job->store, job->depot, 0, 1);
    tarn_depot_stats(job->depot, &stats);
    job->records = error == 0 ? base_max(room(&stats) / stats.live_bytes, UINT64_C(2)) : 2;
    return error;
}

static int put_others(struct job *job)
{
    return lab_depot_put_all(&job->store, job->depot, 1, job->records);
}

static uint64_t half_of_capacity(const struct tarn_depot_stats *stats)
{
    return stats->capacity_bytes * FILL_PERCENT / 100;
}

static uint64_t share_of_segments(const struct tarn_depot_stats *stats)
{
    uint64_t share = (uint64_t)stats->segments * stats->segment_bytes * LIVE_PERCENT / 100;
    return base_min(share, stats->capacity_bytes * CAPACITY_PERCENT_MAX /
                               100); /* of a small store: live_percent tells */
}

static int get_all(struct job *job, uint64_t count)
{
    uint8_t *value = base_alloc(job->store.bench->account, job->value_bytes);
    int error = value == NULL ? -ENOMEM : 0;
    for (uint64_t i = 0; i < count && error == 0; i++)
        error = lab_depot_get(&job->store, job->depot, base_random_below(&job->random, job->records), value,
                              true);
    base_free(job->store.bench->account, value, job->value_bytes);
    return error;
}

static int measure_reads(struct job *job)
{
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    int error = put_first(job, half_of_capacity);
    if (error == 0)
        error = put_others(job);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_READ);
    if (error == 0)
        error = get_all(job, job->options->gets);
    tarn_depot_stats(job->depot, &after);
    double read = (double)(moved(job, DRIVE_READ) - bytes);
    job->values[0] = read / user_bytes(job, job->options->gets);
    job->values[1] = read / (double)job->block_bytes / (double)job->options->gets;
    job->values[2] = (double)(after.reads - before.reads) / (double)job->options->gets;
    return error;
}

static int measure_writes(struct job *job)
{
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    int error = put_first(job, half_of_capacity);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_WRITE);
    if (error == 0)
        error = put_others(job);
    tarn_depot_stats(job->depot, &after);
    double puts = (double)job->records - 1;
    job->values[0] = (double)(moved(job, DRIVE_WRITE) - bytes) / (user_bytes(job, 1) * puts);
    job->values[1] = puts / (double)base_max(after.writes - before.writes, UINT64_C(1));
    return error;
}

/* ---- collection ---------------------------------------------------------------------------------- */

/* A record to be overwritten. */
static uint64_t draw_record(void *arg)
{
    struct job *job = arg;
    uint64_t hot = base_max(job->records * HOT_RECORDS_PERCENT / 100, UINT64_C(1));
    if (!job->skewed)
        return base_random_below(&job->random, job->records);
    if (base_random_below(&job->random, 100) < HOT_WRITES_PERCENT)
        return base_random_below(&job->random, hot);
    return hot + base_random_below(&job->random, job->records - hot);
}

static int overwrite_all(struct job *job, uint64_t rounds)
{
    return lab_depot_put_drawn(&job->store, job->depot, job->records * rounds, draw_record, job);
}

static int measure_collection(struct job *job)
{
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    int error = put_first(job, share_of_segments);
    if (error == 0)
        error = put_others(job);
    if (error == 0)
        error = overwrite_all(job, WARM_UP_ROUNDS);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_WRITE);
    if (error == 0)
        error = overwrite_all(job, ROUNDS);
    tarn_depot_stats(job->depot, &after);
    double user = (double)base_max(after.user_bytes - before.user_bytes, UINT64_C(1));
    double live_share = (double)after.live_bytes / ((double)after.segments * after.segment_bytes);
    job->values[0] = (double)(moved(job, DRIVE_WRITE) - bytes) / user;
    job->values[1] = 1 + (double)(after.moved_bytes - before.moved_bytes) / user;
    job->values[2] = lab_greedy_bound(live_share);
    job->values[3] = live_share * 100;
    return error == 0 ? get_all(job, base_min(job->records, UINT64_C(1000))) : error;
}

/* ---- cases --------------------------------------------------------------------------------------- */

/* What can be measured, in the order of cases[]. */
static const struct kind {
    int (*measure)(struct job *job);
    const char *values[BENCH_VALUES_MAX];
} kinds[] = {
    {measure_reads, {"amplification", "blocks_per_get", "reads_per_get"}},
    {measure_writes, {"amplification", "puts_per_write"}},
    {measure_collection, {"amplification", "collection_alone", "greedy_bound", "live_percent"}},
};

static void measure_main(void *arg)
{
    struct bench_world *world = arg;
    struct job *job = world->arg;
    const struct tarn_format_options format = {.grain_bytes = (uint32_t)job->options->grain_bytes,
                                               .force = true};
    const struct tarn_depot_options options = {.mode = TARN_MODE_DEVICE, .hot_bytes = TARN_HOT_OFF};
    world->error = tarn_depot_format(world->node, "memory", &format);
    if (world->error == 0)
        world->error = tarn_depot_open(world->node, "memory", &options, &job->depot);
    if (world->error != 0)
        return;
    world->error = job->kind->measure(job);
    int closed = tarn_depot_close(job->depot);
    if (world->error == 0)
        world->error = closed;
}

static int measure_round(void *arg, struct bench_sample *sample)
{
    struct job *job = arg;
    struct bench *bench = job->store.bench;
    struct memory memory = {.size = base_align_down(job->options->size_bytes, job->block_bytes),
                            .block_bytes = job->block_bytes};
    memory.bytes = base_alloc(bench->account, memory.size);
    if (memory.bytes == NULL)
        return -ENOMEM;
    const struct bench_world_options options = {
        .sched = {.tasks_max = TASKS_MAX}, .drives = &memory_provider, .drives_arg = &memory};
    job->values = sample->values;
    base_random_init(&job->random, bench->options.seed + job->measured++);
    int error = bench_world_run(bench, &options, measure_main, job);
    base_free(bench->account, memory.bytes, memory.size);
    return error;
}

static int run_case(struct bench *bench, const struct options *options, struct job *job)
{
    struct bench_case *self;
    const char *name = cases[job->kind - kinds];
    job->options = options;
    job->store = (struct lab_depot_store){.bench = bench, .file = {.path = "memory"}};
    int error = lab_depot_set_value_bytes(&job->store, job->value_bytes);
    if (error == 0)
        error = bench_case_open(bench, name, "bytes", &self);
    if (error != 0) {
        lab_depot_store_close(&job->store);
        return bench_fail(bench, error, "%s", name);
    }
    if (job->kind == &kinds[COLLECTION])
        bench_case_text(self, "keys", job->skewed ? "90/10" : "uniform");
    bench_case_number(self, "value_bytes", job->value_bytes);
    bench_case_number(self, "block_bytes", job->block_bytes);
    bench_case_number(self, "grain_bytes", options->grain_bytes);
    bench_case_number(self, "size_bytes", options->size_bytes);
    for (size_t i = 0; i < BENCH_VALUES_MAX && job->kind->values[i] != NULL; i++)
        bench_case_value(self, job->kind->values[i]);
    bench_case_subject(self, "tarn", measure_round, job);
    error = bench_case_finish(self);
    lab_depot_store_close(&job->store);
    return error;
}

static int run_transfers(struct bench *bench, const struct options *options, const struct kind *kind)
{
    int error = 0;
    for (size_t i = 0; i < options->sizes.count && error == 0; i++) {
        for (size_t k = 0; k < options->blocks.count && error == 0; k++) {
            struct job job = {.kind = kind,
                              .value_bytes = bench_number(options->sizes.items[i]),
                              .block_bytes = bench_number(options->blocks.items[k])};
            error = run_case(bench, options, &job);
        }
    }
    return error;
}

static int run_amplification(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    for (size_t i = 0; i < COLLECTION && error == 0; i++) {
        if (bench_is_wanted(&options->only, cases[i]))
            error = run_transfers(bench, options, &kinds[i]);
    }
    for (int skewed = 0; skewed < 2 && error == 0 && bench_is_wanted(&options->only, cases[COLLECTION]);
         skewed++) {
        struct job job = {.kind = &kinds[COLLECTION],
                          .value_bytes = COLLECTED_VALUE_BYTES,
                          .block_bytes = BASE_PAGE_BYTES,
                          .skewed = skewed == 1};
        error = run_case(bench, options, &job);
    }
    return error;
}

const struct bench_verb lab_verb_amplification = BENCH_VERB(
    "amplification", "Bytes that the drive moves for bytes of keys and values: reads, writes, collection.",
    .lists = lists, .check = check_options, .run = run_amplification);
