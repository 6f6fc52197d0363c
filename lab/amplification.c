/* `tarn-lab amplification`: bytes that the drive moves for bytes of keys and values. */
#include "lab/amplification.h"
#include "lab/verbs.h"

#include "bench/case.h"
#include "lab/depot_store.h"
#include "lab/drive_memory.h"
#include <errno.h>
#include <math.h>

enum {
    TASKS_MAX = 128,
    WRITERS = 64,      /* as lab_depot_put_all() has */
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

static int read_size(const char *text, uint64_t min, uint64_t max, uint32_t *ret_bytes)
{
    uint64_t bytes;
    int error = base_parse_size(text, &bytes);
    if (error != 0 || bytes < min || bytes > max)
        return -EINVAL;
    *ret_bytes = (uint32_t)bytes;
    return 0;
}

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    uint32_t bytes;
    int error = bench_check_words(bench, "only", &options->only, cases);
    for (size_t i = 0; i < options->sizes.count && error == 0; i++) {
        if (read_size(options->sizes.items[i], LAB_DEPOT_VALUE_BYTES_MIN, VALUES_MAX, &bytes) != 0)
            error = bench_fail(bench, 0, "--sizes: '%s' is no length from %d to %d", options->sizes.items[i],
                               LAB_DEPOT_VALUE_BYTES_MIN, VALUES_MAX);
    }
    for (size_t i = 0; i < options->blocks.count && error == 0; i++) {
        if (read_size(options->blocks.items[i], DRIVE_SECTOR_BYTES, VALUES_MAX, &bytes) != 0 ||
            !base_is_power_of_two(bytes))
            error = bench_fail(bench, 0, "--blocks: '%s' is no power of two from %d to %d",
                               options->blocks.items[i], DRIVE_SECTOR_BYTES, VALUES_MAX);
    }
    if (error == 0 && !base_is_power_of_two(options->grain_bytes))
        error = bench_fail(bench, 0, "--grain: no power of two");
    return error;
}

/* ---- measurements -------------------------------------------------------------------------------- */

/* One case on a store that is made for each measurement. */
struct job {
    const struct options *options;
    const char *name;
    uint32_t value_bytes;
    uint32_t block_bytes;
    bool skewed; /* collection: 90 % of the writes are to 10 % of the records */
    uint64_t measured;
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

/* How many records fill so much, by the first. @return 0; the store's error */
static int count_records(struct job *job, uint64_t (*room)(const struct tarn_depot_stats *stats),
                         uint64_t *ret_records)
{
    struct tarn_depot_stats stats;
    int error = lab_depot_put_all(&job->store, job->depot, 0, 1);
    tarn_depot_stats(job->depot, &stats);
    if (error == 0)
        *ret_records = base_max(room(&stats) / stats.live_bytes, UINT64_C(2));
    return error;
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

static int get_all(struct job *job, uint64_t records, uint64_t count)
{
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    uint8_t *value = base_alloc(job->store.bench->account, job->value_bytes);
    int error = value == NULL ? -ENOMEM : 0;
    for (uint64_t i = 0; i < count && error == 0; i++) {
        uint64_t number = base_random_below(&job->random, records);
        struct tarn_record_info info;
        lab_depot_key(number, key);
        error = tarn_depot_get(job->depot, key, sizeof(key), value, job->value_bytes, &info);
        if (error == 0 && !lab_depot_value_check(&job->store, number, value, info.value_bytes, true))
            error = -EBADMSG;
    }
    base_free(job->store.bench->account, value, job->value_bytes);
    return error;
}

static int measure_reads(struct job *job)
{
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    uint64_t records = 0;
    int error = count_records(job, half_of_capacity, &records);
    if (error == 0)
        error = lab_depot_put_all(&job->store, job->depot, 1, records);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_READ);
    if (error == 0)
        error = get_all(job, records, job->options->gets);
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
    uint64_t records = 0;
    int error = count_records(job, half_of_capacity, &records);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_WRITE);
    if (error == 0)
        error = lab_depot_put_all(&job->store, job->depot, 1, records);
    tarn_depot_stats(job->depot, &after);
    double puts = (double)base_max(records, UINT64_C(2)) - 1;
    job->values[0] = (double)(moved(job, DRIVE_WRITE) - bytes) / (user_bytes(job, 1) * puts);
    job->values[1] = puts / (double)base_max(after.writes - before.writes, UINT64_C(1));
    return error;
}

/* ---- collection ---------------------------------------------------------------------------------- */

/* Tasks that overwrite. */
struct overwrite {
    struct job *job;
    uint64_t records;
    uint64_t left;
    uint64_t generation;
    int error;
};

static uint64_t draw_key(struct overwrite *overwrite)
{
    struct base_random *random = &overwrite->job->random;
    uint64_t hot = base_max(overwrite->records * HOT_RECORDS_PERCENT / 100, UINT64_C(1));
    if (!overwrite->job->skewed)
        return base_random_below(random, overwrite->records);
    if (base_random_below(random, 100) < HOT_WRITES_PERCENT)
        return base_random_below(random, hot);
    return hot + base_random_below(random, overwrite->records - hot);
}

static void overwriter(void *arg)
{
    struct overwrite *overwrite = arg;
    struct job *job = overwrite->job;
    uint8_t key[LAB_DEPOT_KEY_BYTES];
    uint8_t *value = base_alloc(job->store.bench->account, job->value_bytes);
    if (value == NULL) {
        overwrite->error = -ENOMEM;
        return;
    }
    lab_depot_value_init(&job->store, value);
    while (overwrite->left > 0 && overwrite->error == 0) {
        uint64_t number = draw_key(overwrite);
        overwrite->left--;
        lab_depot_key(number, key);
        lab_depot_value_set(&job->store, number, overwrite->generation++, value);
        int error = tarn_depot_put(job->depot, key, sizeof(key), value, job->value_bytes, NULL, NULL);
        if (error != 0)
            overwrite->error = error;
    }
    base_free(job->store.bench->account, value, job->value_bytes);
}

static int overwrite_all(struct job *job, uint64_t records, uint64_t rounds)
{
    struct overwrite overwrite = {.job = job, .records = records, .left = records * rounds, .generation = 1};
    struct task_group group;
    task_group_init(&group);
    int error = 0;
    for (uint32_t i = 0; i < WRITERS && error == 0; i++)
        error = task_spawn(NULL, &group, "overwriter", overwriter, &overwrite);
    int joined = task_group_join(&group, TASK_FOREVER);
    base_assert(joined == 0); /* nobody cancels */
    return error != 0 ? error : overwrite.error;
}

static int measure_collection(struct job *job)
{
    struct tarn_depot_stats before;
    struct tarn_depot_stats after;
    uint64_t records = 0;
    int error = count_records(job, share_of_segments, &records);
    if (error == 0)
        error = lab_depot_put_all(&job->store, job->depot, 1, records);
    if (error == 0)
        error = overwrite_all(job, records, WARM_UP_ROUNDS);
    tarn_depot_stats(job->depot, &before);
    uint64_t bytes = moved(job, DRIVE_WRITE);
    if (error == 0)
        error = overwrite_all(job, records, ROUNDS);
    tarn_depot_stats(job->depot, &after);
    double user = (double)base_max(after.user_bytes - before.user_bytes, UINT64_C(1));
    double live_share = (double)after.live_bytes / ((double)after.segments * after.segment_bytes);
    job->values[0] = (double)(moved(job, DRIVE_WRITE) - bytes) / user;
    job->values[1] = 1 + (double)(after.moved_bytes - before.moved_bytes) / user;
    job->values[2] = lab_greedy_bound(live_share);
    job->values[3] = live_share * 100;
    return error == 0 ? get_all(job, records, base_min(records, UINT64_C(1000))) : error;
}

/* ---- cases --------------------------------------------------------------------------------------- */

static void measure_main(void *arg)
{
    struct bench_world *world = arg;
    struct job *job = world->arg;
    const struct tarn_format_options format = {.grain_bytes = (uint32_t)job->options->grain_bytes,
                                               .force = true};
    const struct tarn_depot_options options = {.mode = TARN_MODE_DEVICE};
    world->error = tarn_depot_format(world->node, "memory", &format);
    if (world->error == 0)
        world->error = tarn_depot_open(world->node, "memory", &options, &job->depot);
    if (world->error != 0)
        return;
    world->error = strcmp(job->name, "read") == 0    ? measure_reads(job)
                   : strcmp(job->name, "write") == 0 ? measure_writes(job)
                                                     : measure_collection(job);
    int closed = tarn_depot_close(job->depot);
    if (world->error == 0)
        world->error = closed;
}

static int measure_round(void *arg, struct bench_sample *sample)
{
    struct job *job = arg;
    struct bench *bench = job->store.bench;
    struct lab_drive_memory memory;
    int error =
        lab_drive_memory_open(bench->account, base_align_down(job->options->size_bytes, job->block_bytes),
                              job->block_bytes, &memory);
    if (error != 0)
        return error;
    const struct bench_world_options options = {
        .sched = {.tasks_max = TASKS_MAX}, .drives = &lab_drive_memory_provider, .drives_arg = &memory};
    job->values = sample->values;
    base_random_init(&job->random, bench->options.seed + job->measured++);
    error = bench_world_run(bench, &options, measure_main, job);
    lab_drive_memory_close(&memory);
    return error;
}

static int run_case(struct bench *bench, const struct options *options, struct job *job)
{
    struct bench_case *self;
    job->options = options;
    job->store = (struct lab_depot_store){.bench = bench, .file = {.path = "memory"}};
    int error = lab_depot_set_value_bytes(&job->store, job->value_bytes);
    if (error == 0)
        error = bench_case_open(bench, job->name, "bytes", &self);
    if (error != 0) {
        lab_depot_store_close(&job->store);
        return bench_fail(bench, error, "%s", job->name);
    }
    bool collects = strcmp(job->name, "collection") == 0;
    if (collects)
        bench_case_text(self, "keys", job->skewed ? "90/10" : "uniform");
    bench_case_number(self, "value_bytes", job->value_bytes);
    bench_case_number(self, "block_bytes", job->block_bytes);
    bench_case_number(self, "grain_bytes", options->grain_bytes);
    bench_case_number(self, "size_bytes", options->size_bytes);
    bench_case_value(self, "amplification");
    if (collects) {
        bench_case_value(self, "collection_alone");
        bench_case_value(self, "greedy_bound");
        bench_case_value(self, "live_percent");
    } else if (strcmp(job->name, "read") == 0) {
        bench_case_value(self, "blocks_per_get");
        bench_case_value(self, "reads_per_get");
    } else {
        bench_case_value(self, "puts_per_write");
    }
    bench_case_subject(self, "tarn", measure_round, job);
    error = bench_case_run(self);
    bench_case_close(self);
    lab_depot_store_close(&job->store);
    return error;
}

static int run_transfers(struct bench *bench, const struct options *options, const char *name)
{
    int error = 0;
    for (size_t i = 0; i < options->sizes.count && error == 0; i++) {
        for (size_t k = 0; k < options->blocks.count && error == 0; k++) {
            struct job job = {.name = name};
            error = read_size(options->sizes.items[i], 0, VALUES_MAX, &job.value_bytes);
            if (error == 0)
                error = read_size(options->blocks.items[k], 0, VALUES_MAX, &job.block_bytes);
            if (error == 0)
                error = run_case(bench, options, &job);
        }
    }
    return error;
}

static int run_amplification(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    for (size_t i = 0; i < 2 && error == 0; i++) {
        if (bench_is_wanted(&options->only, cases[i]))
            error = run_transfers(bench, options, cases[i]);
    }
    for (int skewed = 0; skewed < 2 && error == 0 && bench_is_wanted(&options->only, cases[2]); skewed++) {
        struct job job = {.name = cases[2],
                          .value_bytes = COLLECTED_VALUE_BYTES,
                          .block_bytes = BASE_PAGE_BYTES,
                          .skewed = skewed == 1};
        error = run_case(bench, options, &job);
    }
    return error;
}

const struct bench_verb lab_verb_amplification = {
    .name = "amplification",
    .summary = "Bytes that the drive moves for bytes of keys and values: reads, writes, collection.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct options),
    .check = check_options,
    .run = run_amplification,
};
