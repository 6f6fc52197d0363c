/* `tarn-lab growth`: how long writes take while the index grows, and while the collector works. */
#include "bench/case.h"
#include "lab/depot_load.h"
#include "lab/index_tables.h"
#include "lab/lab.h"
#include "lab/verbs.h"

#include <errno.h>
#include <pthread.h>

enum {
    ENTRIES_MIN = 1 << 12,
    DOUBLINGS_MAX = 8, /* that the widths of the index allow here */
    PATH_ROOM = 4096,
    STORES = 4,
    P9999_NS = 3, /* place of that value of puts */
};

#define LOOK_EACH_NS (100 * BASE_NS_PER_US)

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list tables;
    const char *path;
    uint64_t from;
    uint64_t to;
    uint64_t size_bytes;
    uint64_t value_bytes;
    uint64_t depth;
    uint64_t memory_bytes;
    unsigned mode;
    bool force;
};

static const char *const cases[] = {"index", "put", NULL};
static const char *const tables[] = {"tarn", "ck_ht", "lfht", NULL}; /* as kinds[] */

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_WORDS("tables", tables, tables),
    {.setting = NULL},
};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure these alone: index, put.", .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "tables", tables, "Measure these indexes alone: tarn, ck_ht, lfht.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(UINT, "from", from, "Entries that the index has in the beginning.", .min = ENTRIES_MIN,
                 .max = (uint64_t)1 << 32, .default_text = "1000000"),
    BENCH_OPTION(UINT, "to", to, "Entries that it has in the end; at most 256 times as many.",
                 .min = ENTRIES_MIN, .max = (uint64_t)1 << 32, .default_text = "64000000"),
    BENCH_OPTION(
        STRING, "path", path,
        "File to make a store on; three more beside it have names that end in .growth, .hot and .collection. "
        "They are "
        "made, and removed afterwards.",
        .metavar = "FILE", .default_text = "tarn-bench.tarn"),
    BENCH_OPTION(SIZE, "size", size_bytes, "Size of each of them.", .min = 32 << 20, .default_text = "512M"),
    BENCH_OPTION(SIZE, "value", value_bytes, "Length of a value.", .min = LAB_DEPOT_VALUE_BYTES_MIN,
                 .max = 1 << 20, .default_text = "1K"),
    BENCH_OPTION(UINT, "depth", depth, "Tasks that put at once.", .min = 1, .max = BENCH_DEPTH_MAX,
                 .default_text = "16"),
    BENCH_OPTION(SIZE, "memory", memory_bytes,
                 "Memory for growth-hot, which hot records take before the index needs it.", .min = 64 << 20,
                 .default_text = "96M"),
    BENCH_OPTION(ENUM, "mode", mode, "When a put is acknowledged.", .choices = depot_mode_names,
                 .default_text = "device"),
    BENCH_OPTION(BOOL, "force", force, "Use files that were there before: what they hold is lost."),
    BENCH_COMMON_SETTINGS(struct options, "2s", "3"),
};

static const struct lab_index_kind *const kinds[] = {&lab_index_tarn, &lab_index_ck, &lab_index_lfht};

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    if (!base_is_aligned(options->value_bytes, sizeof(uint64_t)))
        return bench_fail(bench, 0, "--value: no multiple of %zu", sizeof(uint64_t));
    if (options->to <= options->from || options->to / options->from > 1U << DOUBLINGS_MAX)
        return bench_fail(bench, 0, "--to: more than --from, and at most %d times as much",
                          1 << DOUBLINGS_MAX);
    return 0;
}

/* ---- the index ----------------------------------------------------------------------------------- */

struct subject {
    struct bench *bench;
    const struct options *options;
    const struct lab_index_kind *kind;
    struct lab_index_table *table;
    pthread_mutex_t growing; /* one at a time has it grow */
    _Atomic bool done;
    int grow_error;
    uint64_t waits; /* of inserts, for room */
};

/* @return 0; negative errno */
static int grow(struct subject *subject, bool now)
{
    (void)pthread_mutex_lock(&subject->growing);
    int error = subject->kind->grow(subject->table, now);
    (void)pthread_mutex_unlock(&subject->growing);
    return error;
}

/* What the log's service does in a store. */
static void *grow_ahead(void *arg)
{
    struct subject *subject = arg;
    bench_pin(&subject->bench->machine, 1);
    while (!atomic_load(&subject->done) && subject->grow_error == 0) {
        subject->grow_error = grow(subject, false);
        (void)task_sleep(LOOK_EACH_NS);
    }
    return NULL;
}

/* An insert that finds no place waits for growth, as in a store. */
static int insert(struct subject *subject, uint64_t number)
{
    int error = subject->kind->insert(subject->table, number, 1);
    while (error == -EAGAIN && (error = grow(subject, true)) == 0) {
        subject->waits++;
        error = subject->kind->insert(subject->table, number, 1);
    }
    return error;
}

static int insert_timed(struct subject *subject, struct base_histogram *latency)
{
    int error = 0;
    uint64_t begin_ns = task_now();
    for (uint64_t number = subject->options->from; number < subject->options->to && error == 0; number++) {
        error = insert(subject, number);
        uint64_t now_ns = task_now();
        base_histogram_add(latency, now_ns - begin_ns);
        begin_ns = now_ns;
    }
    return error;
}

static int insert_beside_growth(struct subject *subject, struct base_histogram *latency)
{
    pthread_t thread;
    atomic_store(&subject->done, false);
    subject->grow_error = 0;
    int error = subject->kind->grow == NULL ? 0 : -pthread_create(&thread, NULL, grow_ahead, subject);
    if (error != 0)
        return error;
    error = insert_timed(subject, latency);
    atomic_store(&subject->done, true);
    if (subject->kind->grow != NULL)
        (void)pthread_join(thread, NULL);
    return error != 0 ? error : subject->grow_error;
}

/* All that was inserted is there. */
static int prove(const struct subject *subject)
{
    const uint64_t count = subject->options->to;
    uint64_t found = 0;
    for (uint64_t number = 0; number < count; number++)
        found += subject->kind->find(subject->table, &number, 1);
    return found == count ? 0 : -EBADMSG;
}

static int measure_table(struct subject *subject, struct bench_sample *sample)
{
    int error = subject->kind->insert(subject->table, 0, subject->options->from);
    uint64_t begin_ns = task_now();
    if (error == 0)
        error = insert_beside_growth(subject, sample->latency);
    sample->elapsed_ns = task_now() - begin_ns;
    return error == 0 ? prove(subject) : error;
}

static int measure_index(void *arg, struct bench_sample *sample)
{
    struct subject *subject = arg;
    const struct lab_index_kind *kind = subject->kind;
    const struct lab_index_table options = {.account = subject->bench->account,
                                            .seed = subject->bench->options.seed,
                                            .keys = subject->options->to,
                                            .grows = true};
    if (kind->grow != NULL) /* else its own threads would be on this core, too */
        bench_pin(&subject->bench->machine, 0);
    subject->waits = 0;
    int error = kind->open(&options, subject->options->from, &subject->table);
    if (error == 0) {
        if (kind->thread_begin != NULL)
            kind->thread_begin();
        error = measure_table(subject, sample);
        if (kind->thread_end != NULL)
            kind->thread_end();
        kind->close(subject->table);
    }
    bench_unpin(&subject->bench->machine);
    sample->operations = base_histogram_count(sample->latency);
    sample->values[0] = (double)base_histogram_percentile(sample->latency, 99.99);
    sample->values[1] = (double)base_histogram_max(sample->latency);
    sample->values[2] = (double)subject->waits;
    return error;
}

static int run_index(struct bench *bench, const struct options *options)
{
    struct subject subjects[base_array_count(kinds)];
    struct bench_case *self;
    int error = bench_case_open(bench, cases[0], "inserts/s", &self);
    if (error != 0)
        return error;
    bench_case_number(self, "from", options->from);
    bench_case_number(self, "to", options->to);
    bench_case_value(self, "p99.99_ns");
    bench_case_value(self, "max_ns");
    bench_case_value(self, "waits");
    for (size_t i = 0; i < base_array_count(kinds); i++) {
        subjects[i] = (struct subject){
            .bench = bench, .options = options, .kind = kinds[i], .growing = PTHREAD_MUTEX_INITIALIZER};
        if (!bench_is_wanted(&options->tables, kinds[i]->name))
            continue;
        bench_case_subject(self, kinds[i]->name, measure_index, &subjects[i]);
        bench_case_skip(self, kinds[i]->skipped);
    }
    return bench_case_finish(self);
}

/* ---- puts ---------------------------------------------------------------------------------------- */

/* Where puts are measured: the first is what the others are compared to. */
static const struct {
    const char *name;
    const char *suffix; /* of its file */
    enum lab_depot_op op;
    uint64_t fill_percent;
    bool hot; /* with a hot tier, which has all memory when the index wants more */
} states[STORES] = {
    {"steady", "", LAB_DEPOT_OVERWRITE, 20, false},
    {"growth", ".growth", LAB_DEPOT_INSERT, 0, false},
    {"growth-hot", ".hot", LAB_DEPOT_INSERT, 0, true},
    {"collection", ".collection", LAB_DEPOT_OVERWRITE, 80, false},
};

struct put {
    char path[PATH_ROOM];
    bool opened;
    struct lab_depot_setup setup;
    struct lab_depot_store store;
    struct lab_depot_job job;
};

static int measure_put(void *arg, struct bench_sample *sample)
{
    struct put *put = arg;
    int error = lab_depot_measure(&put->job, sample);
    if (error == 0)
        sample->values[P9999_NS] = (double)base_histogram_percentile(sample->latency, 99.99);
    return error;
}

static int measure_puts(struct bench *bench, const struct options *options, struct put *puts)
{
    static const char *const names[] = {"thread_ns", "puts_per_write",
                                        "written_per_byte", [P9999_NS] = "p99.99_ns"};
    struct bench_case *self;
    int error = bench_case_open(bench, cases[1], "puts/s", &self);
    if (error != 0)
        return error;
    bench_case_text(self, "mode", depot_mode_names[options->mode]);
    bench_case_number(self, "depth", options->depth);
    bench_case_number(self, "value_bytes", options->value_bytes);
    bench_case_number(self, "size_bytes", options->size_bytes);
    bench_case_number(self, "memory_bytes", options->memory_bytes);
    for (size_t i = 0; i < base_array_count(names); i++)
        bench_case_value(self, names[i]);
    for (size_t i = 0; i < STORES; i++)
        bench_case_subject(self, states[i].name, measure_put, &puts[i]);
    error = bench_case_run(self);
    if (error == 0)
        error = bench_case_write_times(self, P9999_NS, "put-p99.99", "1/99.99th percentile");
    bench_case_close(self);
    return error;
}

static int open_put(struct bench *bench, const struct options *options, size_t state, struct put *put)
{
    put->setup = (struct lab_depot_setup){.memory_bytes = states[state].hot ? options->memory_bytes : 0};
    int len = snprintf(put->path, sizeof(put->path), "%s%s", options->path, states[state].suffix);
    if (len < 0 || (size_t)len >= sizeof(put->path))
        return bench_fail(bench, -ENAMETOOLONG, "%s", options->path);
    int error = lab_check_new_file(bench, put->path, options->force);
    if (error == 0)
        error = lab_depot_store_open(bench, &put->setup, put->path, options->size_bytes, &put->store);
    if (error != 0)
        return error;
    put->opened = true;
    put->job = (struct lab_depot_job){.store = &put->store,
                                      .op = states[state].op,
                                      .mode = (enum tarn_mode)options->mode,
                                      .depth = (uint32_t)options->depth,
                                      .scheds = 1};
    return lab_depot_fill(&put->store, (uint32_t)options->value_bytes, states[state].fill_percent);
}

static int run_puts(struct bench *bench, const struct options *options)
{
    struct put *puts = base_alloc(bench->account, STORES * sizeof(*puts));
    if (puts == NULL)
        return bench_fail(bench, -ENOMEM, "its stores");
    int error = 0;
    for (size_t i = 0; i < STORES && error == 0; i++)
        error = open_put(bench, options, i, &puts[i]);
    if (error == 0)
        error = measure_puts(bench, options, puts);
    for (size_t i = 0; i < STORES; i++) {
        if (puts[i].opened)
            lab_depot_store_close(&puts[i].store);
    }
    base_free(bench->account, puts, STORES * sizeof(*puts));
    return error;
}

static int run_growth(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    if (bench_is_wanted(&options->only, cases[0]))
        error = run_index(bench, options);
    if (error == 0 && bench_is_wanted(&options->only, cases[1]))
        error = run_puts(bench, options);
    return error;
}

const struct bench_verb lab_verb_growth = BENCH_VERB(
    "growth",
    "How long writes take while the index grows, beside other tables, and while the collector works.",
    .lists = lists, .check = check_options, .run = run_growth);
