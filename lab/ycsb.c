/* `tarn-lab ycsb`: its options and its cases. */
#include "lab/ycsb.h"
#include "bench/case.h"
#include "lab/verbs.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOLDER_MODE = 0700,
    KEY_BYTES = 16,
    VALUE_BYTES_MIN = 64,
    VALUE_BYTES_MAX = 1 << 20,
    DATA_FACTOR = 2,           /* of the memory, where nothing else is said */
    RECORDS_MAX_PERCENT = 200, /* of those that are loaded: inserts end there */
    RECORDS_MIN = 16,
    ENGINES = 4,
};

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list engines;
    struct base_setting_list threads;
    struct base_setting_list syncs;
    const char *path;
    const char *memory_group;
    uint64_t memory_bytes;
    uint64_t data_bytes;
    uint64_t value_bytes;
    bool direct;
};

static const char *const workloads[] = {"load", "a", "b", "c", "f", "d", NULL}; /* then lab_ycsb_workloads */
static const char *const engine_names[] = {"tarn", "rocksdb", "lmdb", "wiredtiger", NULL};
static const char *const sync_names[] = {"no", "yes", NULL};

static const struct lab_ycsb_engine *const engines[ENGINES] = {&lab_ycsb_tarn, &lab_ycsb_rocksdb,
                                                               &lab_ycsb_lmdb, &lab_ycsb_wiredtiger};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only,
                 "Measure these alone: load, a, b, c, f, d. They run in this order, whatever yours is.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "engines", engines, "Measure these alone: tarn, rocksdb, lmdb, wiredtiger.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "threads", threads,
                 "Numbers of threads, each of which asks for one thing after the other.",
                 .metavar = "N[,...]", .default_text = "1,2"),
    BENCH_OPTION(LIST, "sync", syncs,
                 "Whether each write is durable before the next: Tarn's modes async and power.",
                 .metavar = "yes|no[,...]", .default_text = "no,yes"),
    BENCH_OPTION(STRING, "path", path,
                 "Where the stores are made. There is none yet: it is made, and removed afterwards.",
                 .metavar = "FOLDER", .default_text = "tarn-bench.ycsb"),
    BENCH_OPTION(SIZE, "memory", memory_bytes, "Memory of each engine, page cache included.", .min = 8 << 20,
                 .default_text = "192M"),
    BENCH_OPTION(
        STRING, "memory-group", memory_group,
        "A memory control group in which one is made for each engine, and removed afterwards; of either "
        "version. Without it only the engines' own caches are limited, and not the page cache.",
        .metavar = "FOLDER"),
    BENCH_OPTION(SIZE, "data", data_bytes, "Keys and values that are loaded; 0: twice the memory.",
                 .default_text = "0"),
    BENCH_OPTION(SIZE, "value", value_bytes, "Length of a value. Keys have 16 bytes.", .min = VALUE_BYTES_MIN,
                 .max = VALUE_BYTES_MAX, .default_text = "1K"),
    BENCH_OPTION(BOOL, "direct", direct, "Have the engines that can go past the page cache (O_DIRECT).",
                 .default_text = "yes"),
    BENCH_COMMON_SETTINGS(struct options, "1s", "3"),
};

/* ---- options ------------------------------------------------------------------------------------- */

static int read_threads(const char *text, uint32_t *ret_threads)
{
    uint64_t threads;
    int error = base_parse_u64(text, &threads);
    if (error != 0 || threads < 1 || threads > LAB_YCSB_THREADS_MAX)
        return -EINVAL;
    *ret_threads = (uint32_t)threads;
    return 0;
}

static uint64_t count_records(const struct options *options)
{
    uint64_t data = options->data_bytes != 0 ? options->data_bytes : DATA_FACTOR * options->memory_bytes;
    return data / (KEY_BYTES + options->value_bytes);
}

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    uint32_t threads;
    int error = bench_check_words(bench, "only", &options->only, workloads);
    if (error == 0)
        error = bench_check_words(bench, "engines", &options->engines, engine_names);
    if (error == 0)
        error = bench_check_words(bench, "sync", &options->syncs, sync_names);
    for (size_t i = 0; i < options->threads.count && error == 0; i++) {
        if (read_threads(options->threads.items[i], &threads) != 0)
            error = bench_fail(bench, 0, "--threads: '%s' is no number from 1 to %d",
                               options->threads.items[i], LAB_YCSB_THREADS_MAX);
    }
    if (error == 0 && !base_is_aligned(options->value_bytes, sizeof(uint64_t)))
        error = bench_fail(bench, 0, "--value: no multiple of %zu", sizeof(uint64_t));
    if (error == 0 && count_records(options) < RECORDS_MIN)
        error = bench_fail(bench, 0, "--data: these are fewer than %d records", RECORDS_MIN);
    if (error == 0 && access(options->path, F_OK) == 0)
        error = bench_fail(bench, 0, "%s is there already: remove it, or name another --path", options->path);
    return error;
}

/* ---- cases --------------------------------------------------------------------------------------- */

/* One engine of a run. */
struct contestant {
    const struct run *run;
    const char *skipped; /* why it cannot be measured, or NULL */
    bool has_folder;
    uint64_t measured; /* times in this case */
    struct lab_ycsb_host host;
    struct lab_ycsb_report report; /* the last */
};

struct run {
    struct bench *bench;
    const struct options *options;
    struct lab_ycsb_job job; /* of the case under way */
    struct contestant contestants[ENGINES];
};

/* The page cache counts where there is a group. */
static int tell_memory(const struct contestant *contestant, double *ret_bytes)
{
    uint64_t bytes = contestant->report.resident_bytes;
    int error = 0;
    if (contestant->host.group.path[0] != '\0')
        error = lab_memory_group_used(&contestant->host.group, &bytes);
    *ret_bytes = (double)bytes;
    return error;
}

/* All draw the same: seeds differ from repeat to repeat, and not from engine to engine. */
static int measure_engine(void *arg, struct bench_sample *sample)
{
    struct contestant *contestant = arg;
    const struct lab_ycsb_report *report = &contestant->report;
    struct lab_ycsb_job job = contestant->run->job;
    job.seed = contestant->host.bench->options.seed + (contestant->measured++ << 32);
    int error =
        contestant->skipped == NULL ? lab_ycsb_host_run(&contestant->host, &job, &contestant->report) : 0;
    if (error == -ELIBACC)
        contestant->skipped = report->why;
    else if (error == -EPIPE && contestant->host.engine != &lab_ycsb_tarn) /* the others go on */
        contestant->skipped = "its process has ended: was it given too little --memory?";
    else if (error != 0)
        return error;
    sample->skipped = contestant->skipped;
    if (contestant->skipped != NULL)
        return 0;
    double operations = (double)base_max(report->operations, UINT64_C(1));
    sample->operations = report->operations;
    sample->elapsed_ns = report->elapsed_ns;
    sample->values[0] = (double)report->processor_ns / operations;
    sample->values[1] = (double)report->read_bytes / operations;
    sample->values[2] = (double)report->written_bytes / operations;
    base_histogram_merge(sample->latency, &report->latency);
    return tell_memory(contestant, &sample->values[3]);
}

static void describe(struct bench_case *self, const struct run *run)
{
    const struct options *options = run->options;
    const struct lab_ycsb_job *job = &run->job;
    bench_case_text(self, "sync", sync_names[job->sync]);
    bench_case_number(self, "threads", job->threads);
    bench_case_number(self, "records", count_records(options));
    bench_case_number(self, "value_bytes", options->value_bytes);
    bench_case_number(self, "memory_bytes", options->memory_bytes);
    bench_case_text(self, "memory_limit", options->memory_group != NULL ? "group" : "options");
    bench_case_text(self, "direct", options->direct ? "yes" : "no");
    bench_case_value(self, "processor_ns");
    bench_case_value(self, "read_bytes");
    bench_case_value(self, "written_bytes");
    bench_case_value(self, "memory_bytes");
}

static int run_case(struct run *run, int workload)
{
    const char *name = workload == LAB_YCSB_LOAD ? workloads[0] : lab_ycsb_workloads[workload].name;
    struct bench_case *self;
    if (!bench_is_wanted(&run->options->only, name))
        return 0;
    int error = bench_case_open(run->bench, name, "operations/s", &self);
    if (error != 0)
        return error;
    run->job.workload = workload;
    run->job.duration_ns = run->options->common.duration_ns;
    if (workload == LAB_YCSB_LOAD && !run->job.sync)
        run->job.duration_ns = 0; /* all of it: what fits in caches alone would tell another story */
    describe(self, run);
    for (size_t i = 0; i < ENGINES; i++) {
        run->contestants[i].measured = 0;
        if (bench_is_wanted(&run->options->engines, engines[i]->name))
            bench_case_subject(self, engines[i]->name, measure_engine, &run->contestants[i]);
    }
    error = bench_case_run(self);
    bench_case_close(self);
    return error;
}

static int run_threads(struct run *run, const char *threads)
{
    int error = read_threads(threads, &run->job.threads);
    if (error == 0)
        error = run_case(run, LAB_YCSB_LOAD);
    for (int i = 0; i < LAB_YCSB_WORKLOADS && error == 0; i++)
        error = run_case(run, i);
    return error;
}

/* ---- engines ------------------------------------------------------------------------------------- */

static int begin_engine(struct run *run, size_t number)
{
    const struct options *options = run->options;
    struct contestant *contestant = &run->contestants[number];
    struct lab_ycsb_host *host = &contestant->host;
    char group[64];
    *host = (struct lab_ycsb_host){
        .bench = run->bench,
        .engine = engines[number],
        .place = {.memory_bytes = options->memory_bytes,
                  .records_max = count_records(options) * RECORDS_MAX_PERCENT / 100,
                  .value_bytes = (uint32_t)options->value_bytes,
                  .direct = options->direct},
        .records = count_records(options),
    };
    contestant->run = run;
    contestant->skipped = engines[number]->skipped;
    if (contestant->skipped != NULL)
        return 0;
    int len = snprintf(host->folder, sizeof(host->folder), "%s/%s", options->path, engines[number]->name);
    if (len < 0 || (size_t)len >= sizeof(host->folder))
        return bench_fail(host->bench, -ENAMETOOLONG, "%s", options->path);
    if (mkdir(host->folder, FOLDER_MODE) != 0)
        return bench_fail(host->bench, -errno, "%s", host->folder);
    contestant->has_folder = true;
    (void)snprintf(group, sizeof(group), "tarn-bench-%s", engines[number]->name);
    int error = 0;
    if (options->memory_group != NULL)
        error = lab_memory_group_open(host->bench, options->memory_group, group, options->memory_bytes,
                                      &host->group);
    return error == 0 ? lab_ycsb_host_start(host) : error;
}

static int end_engine(struct contestant *contestant)
{
    struct lab_ycsb_host *host = &contestant->host;
    int error = lab_ycsb_host_stop(host);
    if (contestant->has_folder) {
        (void)lab_ycsb_empty_folder(host->folder);
        if (rmdir(host->folder) != 0)
            error = bench_fail(host->bench, -errno, "removing %s", host->folder);
    }
    lab_memory_group_close(host->bench, &host->group);
    return error;
}

static int run_all(struct run *run)
{
    const struct options *options = run->options;
    int error = 0;
    for (size_t i = 0; i < ENGINES && error == 0; i++) {
        if (bench_is_wanted(&options->engines, engines[i]->name))
            error = begin_engine(run, i);
    }
    for (size_t i = 0; i < options->syncs.count; i++) {
        run->job.sync = strcmp(options->syncs.items[i], "yes") == 0;
        for (size_t k = 0; k < options->threads.count && error == 0; k++)
            error = run_threads(run, options->threads.items[k]);
    }
    for (size_t i = 0; i < ENGINES; i++) {
        int ended = end_engine(&run->contestants[i]);
        error = error != 0 ? error : ended;
    }
    return error;
}

static void note_limits(struct bench *bench, const struct options *options)
{
    static const char note[] =
        "no --memory-group: the engines' own caches are limited, but not the page cache, "
        "on which LMDB lives and others lean: such figures are no comparison";
    if (options->memory_group != NULL)
        return;
    if (bench->options.json)
        (void)fprintf(bench->err, "tarn bench %s: %s\n", bench->verb, note);
    else
        (void)fprintf(bench->out, "note: %s\n\n", note);
}

static int run_ycsb(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct run *self = base_alloc(bench->account, sizeof(*self));
    if (self == NULL)
        return bench_fail(bench, -ENOMEM, "its engines");
    self->bench = bench;
    self->options = options;
    note_limits(bench, options);
    int error = 0;
    if (mkdir(options->path, FOLDER_MODE) != 0)
        error = bench_fail(bench, -errno, "%s", options->path);
    if (error == 0) {
        error = run_all(self);
        if (rmdir(options->path) != 0 && error == 0)
            error = bench_fail(bench, -errno, "removing %s", options->path);
    }
    base_free(bench->account, self, sizeof(*self));
    return error;
}

const struct bench_verb lab_verb_ycsb = {
    .name = "ycsb",
    .summary = "The store beside RocksDB, LMDB and WiredTiger: YCSB's workloads, with little memory.",
    .table = table,
    .table_count = base_array_count(table),
    .options_bytes = sizeof(struct options),
    .check = check_options,
    .run = run_ycsb,
};
