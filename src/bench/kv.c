/* `tarn bench kv`: a store by its URL, asked through <tarn/kv.h> as programs do, beside another one. */
#include "bench/case.h"
#include "bench/contest.h"
#include "bench/world.h"
#include <errno.h>
#include <inttypes.h>
#include <tarn/kv.h>

enum {
    WALKERS = 32, /* tasks that store or delete all keys */
    KEYS_PER_GET_MAX = 64,
    STACK_BYTES = 256 << 10,
};

struct options {
    struct bench_options common;
    const char *store, *beside;
    struct base_setting_list patterns;
    struct base_setting_list read_shares;
    struct base_setting_list sizes;
    unsigned way, beside_way;
    const char *zipf_exponent;
    uint64_t keys;
};

/* in the order of enum tarn_kv_way */
static const char *const ways[] = {"adaptive", "ask", "read", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(STRING, "store", store,
                 "What to measure: file:PATH of a store that is there, cache:memory=SIZE, hash:memory=SIZE, "
                 "unix:PATH/STORE, "
                 "tarn://HOST:PORT/STORE. Keys that begin with bench- are put there, and deleted in the end.",
                 .metavar = "URL", .default_text = "cache:memory=256M"),
    BENCH_OPTION(STRING, "beside", beside, "Another one to compare it with, in turn.", .metavar = "URL"),
    BENCH_OPTION(
        ENUM, "way", way,
        "How an ordered store of a server is searched: its memory is read, or the server is asked, whichever "
        "seems to be done first; or always one of both.",
        .choices = ways),
    BENCH_OPTION(ENUM, "beside-way", beside_way, "The same of the other one.", .choices = ways),
    BENCH_OPTION(LIST, "pipeline", patterns,
                 "Tasks that ask at once, 1 to 1024; with xM each get asks for M keys, 1 to 64.",
                 .metavar = "N[xM][,...]", .min = 1, .default_text = "1,16,1x64"),
    BENCH_OPTION(LIST, "read-share", read_shares, "Share of gets in the requests; the others are puts.",
                 .metavar = "0...1[,...]", .min = 1, .default_text = "1,0.95,0"),
    BENCH_OPTION(LIST, "sizes", sizes, "Lengths of values: multiples of 8 from 32 bytes to 1 MiB.",
                 .metavar = "SIZE[,...]", .min = 1, .default_text = "64,4K"),
    BENCH_OPTION(
        STRING, "zipf-exponent", zipf_exponent,
        "The key of rank k is drawn with a probability like 1 / k^exponent. Below 1; 0: all are alike.",
        .metavar = "0...1", .default_text = "0"),
    BENCH_OPTION(UINT, "keys", keys, "Different keys. All are stored first.", .min = 1,
                 .max = UINT64_C(1) << 30, .default_text = "10000"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "5"),
};

static const struct bench_list lists[] = {
    BENCH_NUMBERS("sizes", sizes, BENCH_VALUE_BYTES_MIN, 1 << 20, BENCH_WORD_BYTES),
    {.setting = NULL},
};

struct store;

/* What is asked in the case under way. */
struct job {
    struct bench *bench;
    const struct options *options;
    struct bench_values values;
    struct bench_keys keys;
    struct bench_contest_pattern pattern;
    double read_share;
    struct base_random random;
    uint64_t generation; /* of the next value */
    struct store *stores;
    uint32_t count;
};

struct store {
    struct job *job;
    const char *name, *url;
    struct tarn_kv *kv;
};

/* ---- options ------------------------------------------------------------------------------------ */

static int check_options(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    double share;
    int error = bench_contest_check_patterns(bench, &options->patterns, BENCH_DEPTH_MAX, KEYS_PER_GET_MAX);
    if (error == 0)
        error = bench_contest_check_shares(bench, &options->read_shares);
    if (error != 0)
        return error;
    if (bench_contest_read_share(options->zipf_exponent, &share) != 0 || share >= 1)
        return bench_fail(bench, 0, "--zipf-exponent: '%s' is no number from 0 to below 1",
                          options->zipf_exponent);
    return 0;
}

/* ---- all keys ----------------------------------------------------------------------------------- */

/* All keys are visited by some tasks. */
struct walk {
    struct store *store;
    bool deletes; /* else it puts */
    uint64_t next;
    int error; /* the first */
    struct base_progress progress;
};

static void walk_keys(void *arg)
{
    struct walk *walk = arg;
    struct job *job = walk->store->job;
    struct tarn_kv *kv = walk->store->kv;
    uint8_t *value = base_alloc(job->bench->account, job->values.bytes);
    char key[BENCH_KEY_BYTES];
    if (value == NULL)
        walk->error = -ENOMEM;
    while (walk->error == 0 && walk->next < job->keys.count) {
        const uint64_t number = walk->next++;
        bench_key(number, key);
        if (!walk->deletes)
            bench_value(&job->values, number, 0, value);
        int error = walk->deletes ? tarn_kv_delete(kv, key, sizeof(key))
                                  : tarn_kv_put(kv, key, sizeof(key), value, job->values.bytes, NULL, NULL);
        if (error != 0 && error != -ENOENT && walk->error == 0)
            walk->error = error;
        base_progress_update(&walk->progress, walk->next);
    }
    base_free(job->bench->account, value, job->values.bytes);
}

static int walk_store(struct store *store, bool deletes)
{
    struct job *job = store->job;
    struct walk walk = {.store = store, .deletes = deletes};
    bench_progress_init(job->bench, &walk.progress, deletes ? "delete" : "fill", "keys", job->keys.count);
    int error = bench_tasks_run(WALKERS, walk_keys, &walk);
    base_progress_end(&walk.progress);
    error = error != 0 ? error : walk.error;
    return error == 0 ? 0 : bench_fail(job->bench, error, "%s: %s", store->url, deletes ? "delete" : "put");
}

/* ---- measuring ---------------------------------------------------------------------------------- */

/* One measurement, of all its tasks together. */
struct load {
    struct store *store;
    struct base_histogram *latency; /* of requests */
    uint64_t until_ns;
    uint64_t keys, gets, hits;
    int error; /* the first */
};

/* What one task has. */
struct asker {
    struct load *load;
    struct base_random random;
    uint8_t *values; /* room for those of a request */
    uint64_t numbers[KEYS_PER_GET_MAX];
    char keys[KEYS_PER_GET_MAX][BENCH_KEY_BYTES];
};

static uint64_t draw_key(struct asker *asker, uint32_t place)
{
    const uint64_t number = bench_keys_draw(&asker->load->store->job->keys, &asker->random);
    asker->numbers[place] = number;
    bench_key(number, asker->keys[place]);
    return number;
}

static int put_value(struct asker *asker)
{
    struct job *job = asker->load->store->job;
    const uint64_t number = draw_key(asker, 0);
    bench_value(&job->values, number, job->generation++, asker->values);
    asker->load->keys++;
    return tarn_kv_put(asker->load->store->kv, asker->keys[0], sizeof(asker->keys[0]), asker->values,
                       job->values.bytes, NULL, NULL);
}

/* @return 0; -EBADMSG: it is not the key's value; what the get came to, but for a miss */
static int take_get(struct load *load, uint64_t number, int error, const uint8_t *value, uint64_t bytes)
{
    const struct job *job = load->store->job;
    struct bench_value_check checked;
    load->gets++;
    load->keys++;
    if (error == -ENOENT)
        return 0;
    if (error != 0)
        return error;
    load->hits++;
    bench_value_check_begin(&checked, number, false);
    return bytes == job->values.bytes && bench_value_check_bytes(&job->values, &checked, value, bytes)
               ? 0
               : -EBADMSG;
}

static int get_one(struct asker *asker)
{
    struct load *load = asker->load;
    const uint64_t number = draw_key(asker, 0);
    struct tarn_record_info info = {0};
    int error = tarn_kv_get(load->store->kv, asker->keys[0], sizeof(asker->keys[0]), asker->values,
                            load->store->job->values.bytes, &info);
    return take_get(load, number, error, asker->values, info.value_bytes);
}

static int get_many(struct asker *asker)
{
    struct load *load = asker->load;
    const struct job *job = load->store->job;
    const uint32_t count = job->pattern.keys_per_get, bytes = job->values.bytes;
    struct tarn_get gets[KEYS_PER_GET_MAX];
    int error = 0;
    for (uint32_t i = 0; i < count; i++) {
        (void)draw_key(asker, i);
        gets[i] = (struct tarn_get){.key = asker->keys[i],
                                    .key_len = sizeof(asker->keys[i]),
                                    .value = asker->values + (size_t)i * bytes,
                                    .value_room = bytes};
    }
    tarn_kv_get_many(load->store->kv, gets, count);
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = take_get(load, asker->numbers[i], gets[i].error, gets[i].value, gets[i].info.value_bytes);
    return error;
}

/* Closed loop: once, and until the time is over. */
static void ask_store(void *arg)
{
    struct load *load = arg;
    struct job *job = load->store->job;
    const uint64_t read_below = (uint64_t)(job->read_share * (double)(UINT64_C(1) << 63));
    const size_t bytes = (size_t)job->pattern.keys_per_get * job->values.bytes;
    struct asker asker = {.load = load, .random = base_random_fork(&job->random)};
    asker.values = base_alloc(job->bench->account, bytes);
    if (asker.values == NULL)
        load->error = -ENOMEM;
    uint64_t now_ns = task_now();
    for (bool is_first = true; load->error == 0 && (is_first || now_ns < load->until_ns); is_first = false) {
        const uint64_t begin_ns = now_ns;
        int error = base_random_u64(&asker.random) >> 1 >= read_below ? put_value(&asker)
                    : job->pattern.keys_per_get == 1                  ? get_one(&asker)
                                                                      : get_many(&asker);
        if (error != 0 && load->error == 0)
            load->error = error;
        now_ns = task_now();
        base_histogram_add(load->latency, now_ns - begin_ns);
    }
    base_free(job->bench->account, asker.values, bytes);
}

static int measure_store(void *arg, struct bench_sample *sample)
{
    struct store *store = arg;
    const struct job *job = store->job;
    const uint64_t begin_ns = task_now();
    struct load load = {
        .store = store, .latency = sample->latency, .until_ns = begin_ns + job->bench->options.duration_ns};
    int error = bench_tasks_run(job->pattern.pipeline, ask_store, &load);
    sample->operations = load.keys;
    sample->elapsed_ns = task_now() - begin_ns;
    sample->values[0] = load.gets == 0 ? 100 : 100 * (double)load.hits / (double)load.gets;
    return error != 0 ? error : load.error;
}

static int run_case(struct job *job, const char *read_share)
{
    struct bench_case *self;
    int error = bench_case_open(job->bench, "ask", "keys/s", &self);
    if (error != 0)
        return bench_fail(job->bench, error, "a case");
    for (uint32_t i = 0; i < job->count; i++)
        bench_case_text(self, job->stores[i].name, job->stores[i].url);
    bench_case_number(self, "pipeline", job->pattern.pipeline);
    bench_case_number(self, "keys_per_get", job->pattern.keys_per_get);
    bench_case_text(self, "read_share", read_share);
    bench_case_text(self, "zipf_exponent", job->options->zipf_exponent);
    bench_case_number(self, "keys", job->keys.count);
    bench_case_number(self, "value_bytes", job->values.bytes);
    bench_case_value(self, "hit_percent");
    for (uint32_t i = 0; i < job->count; i++)
        bench_case_subject(self, job->stores[i].name, measure_store, &job->stores[i]);
    return bench_case_finish(self);
}

/* ---- a run -------------------------------------------------------------------------------------- */

static int run_patterns(struct job *job, const char *read_share)
{
    int error = bench_contest_read_share(read_share, &job->read_share);
    for (size_t i = 0; i < job->options->patterns.count && error == 0; i++) {
        error = bench_contest_read_pattern(job->options->patterns.items[i], &job->pattern);
        const bool means_gets = job->pattern.keys_per_get > 1;
        if (error == 0 && (job->read_share > 0 || !means_gets))
            error = run_case(job, read_share);
    }
    return error;
}

/* With values of one length: stored, measured, deleted. */
static int run_size(struct job *job, const char *size)
{
    const struct options *options = job->options;
    int error = bench_values_open(job->bench->account, bench_number(size), &job->values);
    if (error != 0)
        return bench_fail(job->bench, error, "values of %s", size);
    for (uint32_t i = 0; i < job->count && error == 0; i++)
        error = walk_store(&job->stores[i], false);
    for (size_t i = 0; i < options->read_shares.count && error == 0; i++)
        error = run_patterns(job, options->read_shares.items[i]);
    for (uint32_t i = 0; i < job->count; i++) { /* also after a failure: they were nobody's wish */
        int ended = walk_store(&job->stores[i], true);
        error = error != 0 ? error : ended;
    }
    bench_values_close(&job->values);
    return error;
}

static int open_stores(struct job *job, struct tarn_node *node)
{
    int error = 0;
    for (uint32_t i = 0; i < job->count && error == 0; i++) {
        const struct tarn_kv_options options = {
            .way = (enum tarn_kv_way)(i == 0 ? job->options->way : job->options->beside_way)};
        error = tarn_kv_open(node, job->stores[i].url, &options, &job->stores[i].kv);
        if (error != 0)
            (void)bench_fail(job->bench, error, "%s", job->stores[i].url);
    }
    return error;
}

static void run_all(void *arg)
{
    struct bench_world *world = arg;
    struct job *job = world->arg;
    int error = open_stores(job, world->node);
    for (size_t i = 0; i < job->options->sizes.count && error == 0; i++)
        error = run_size(job, job->options->sizes.items[i]);
    for (uint32_t i = 0; i < job->count; i++) {
        int closed = job->stores[i].kv == NULL ? 0 : tarn_kv_close(job->stores[i].kv);
        if (error == 0 && closed != 0)
            error = bench_fail(job->bench, closed, "%s", job->stores[i].url);
    }
    world->error = error;
}

static int run_kv(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    const struct bench_world_options world = {
        .sched = {.stack_bytes = STACK_BYTES, .tasks_max = 2 * BENCH_DEPTH_MAX}};
    struct job job = {.bench = bench, .options = options, .count = options->beside == NULL ? 1 : 2};
    struct store stores[2] = {{.job = &job, .name = "store", .url = options->store},
                              {.job = &job, .name = "beside", .url = options->beside}};
    double exponent;
    int error = bench_contest_read_share(options->zipf_exponent, &exponent);
    if (error != 0)
        return error;
    job.stores = stores;
    base_random_init(&job.random, bench->options.seed);
    bench_keys_init(&job.keys, options->keys, exponent);
    return bench_world_run(bench, &world, run_all, &job);
}

const struct bench_verb bench_verb_kv = BENCH_VERB(
    "kv", "Any store by its URL, in this process or of a server: gets and puts, beside another store.",
    .lists = lists, .check = check_options, .run = run_kv);
