/* `tarn-lab hash`: the hash store of a space in shared memory, beside what else processes of one machine share records by. */
#include "lab/hash.h"
#include "bench/contest.h"
#include "lab/verbs.h"

#include <errno.h>

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list sizes;
    struct base_setting_list distributions;
    uint64_t records;
    uint64_t batch;
    struct base_setting_list peers;
};

static const char *const cases[] = {"insert", "get", "get-many", "put", NULL};
static const char *const distributions[] = {"uniform", "zipf", NULL};
static const char *const peers[] = {"floor", "mutex", "lmdb", "memcached", "redis", "none", NULL};

#define ZIPF_EXPONENT 0.99

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure only these: insert, get, get-many, put.",
                 .metavar = "CASE[,...]"),
    BENCH_OPTION(LIST, "sizes", sizes, "Bytes of a value, 32 to 64K, multiples of 8.",
                 .metavar = "SIZE[,...]", .default_text = "64"),
    BENCH_OPTION(LIST, "distribution", distributions, "How keys are drawn: uniform, zipf.",
                 .metavar = "NAME[,...]", .min = 1, .default_text = "uniform,zipf"),
    BENCH_OPTION(UINT, "records", records, "How many there are; all of those that are measured hold as many.",
                 .min = 64, .max = UINT64_C(1) << 30, .default_text = "1000000"),
    BENCH_OPTION(UINT, "batch", batch, "Of get-many: keys of a get.", .min = 2, .max = LAB_HASH_BATCH_MAX,
                 .default_text = "16"),
    BENCH_OPTION(LIST, "peers", peers, "Beside it only these: floor, mutex, lmdb, memcached, redis; none.",
                 .metavar = "NAME[,...]"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_NUMBERS("sizes", sizes, BENCH_VALUE_BYTES_MIN, UINT64_C(64) << 10, 8),
    BENCH_WORDS("distribution", distributions, distributions),
    BENCH_WORDS("peers", peers, peers),
    {.setting = NULL},
};

/* Tarn first: the others are compared with it. */
static const struct lab_hash_store *const kinds[] = {&lab_hash_tarn, &lab_hash_floor, &lab_hash_mutex,
                                                     &lab_hash_lmdb};
static const char *const servers[LAB_HASH_PEERS] = {"memcached", "redis"};

enum { STORES = base_array_count(kinds), GROWTH = 16, SLOTS_MIN = 64 };

struct contest {
    const struct options *options;
    struct lab_hash_job job;
    struct lab_hash_store stores[STORES];
    struct lab_hash_peer *peers[LAB_HASH_PEERS];
};

/* ---- cases --------------------------------------------------------------------------------------- */

static int run_case(struct contest *contest, const char *name, const char *distribution)
{
    struct lab_hash_job *job = &contest->job;
    struct bench_case *self;
    job->is_put = strcmp(name, "put") == 0;
    job->batch = strcmp(name, "get-many") == 0 ? (uint32_t)contest->options->batch : 1;
    int error = bench_case_open(job->bench, name, "records/s", &self);
    if (error != 0)
        return bench_fail(job->bench, error, "a case");
    bench_case_number(self, "value_bytes", job->values.bytes);
    bench_case_text(self, "distribution", distribution);
    bench_case_number(self, "records", job->keys.count);
    bench_case_number(self, "batch", job->batch);
    bench_case_value(self, "record_bytes");
    bench_case_value(self, "others_percent");
    for (size_t i = 0; i < STORES; i++) {
        if (contest->stores[i].job != NULL)
            bench_case_subject(self, contest->stores[i].name, lab_hash_measure, &contest->stores[i]);
    }
    for (size_t i = 0; i < LAB_HASH_PEERS; i++) {
        if (contest->peers[i] != NULL)
            lab_hash_peer_add(contest->peers[i], self);
    }
    return bench_case_finish(self);
}

static int run_cases(struct contest *contest)
{
    const struct options *options = contest->options;
    struct lab_hash_job *job = &contest->job;
    int error = 0;
    for (size_t k = 0; k < options->distributions.count && error == 0; k++) {
        struct base_random random;
        const char *distribution = options->distributions.items[k];
        bench_keys_init(&job->keys, options->records, strcmp(distribution, "zipf") == 0 ? ZIPF_EXPONENT : 0);
        base_random_init(&random, job->bench->options.seed);
        for (uint32_t i = 0; i < LAB_HASH_DRAWS; i++)
            job->draws[i] = (uint32_t)bench_keys_draw(&job->keys, &random);
        for (size_t i = 1; cases[i] != NULL && error == 0; i++) {
            if (bench_is_wanted(&options->only, cases[i]))
                error = run_case(contest, cases[i], distribution);
        }
    }
    return error;
}

/* New records, one after the other, into an index that has room for all, and into one that is to grow sixteenfold. */
static int run_inserts(struct contest *contest)
{
    struct lab_hash_job *job = &contest->job;
    struct lab_hash_store steady = lab_hash_tarn, growing = lab_hash_tarn;
    struct bench_case *self;
    steady.job = growing.job = job;
    growing.name = "growing";
    growing.slots = base_max(base_power_of_two_from(job->keys.count * 4 / 3) / GROWTH, (uint64_t)SLOTS_MIN);
    int error = bench_case_open(job->bench, cases[0], "records/s", &self);
    if (error != 0)
        return bench_fail(job->bench, error, "a case");
    bench_case_number(self, "value_bytes", job->values.bytes);
    bench_case_number(self, "records", job->keys.count);
    bench_case_value(self, "record_bytes");
    bench_case_subject(self, steady.name, lab_hash_measure_inserts, &steady);
    bench_case_subject(self, growing.name, lab_hash_measure_inserts, &growing);
    return bench_case_finish(self);
}

/* ---- beginning and end --------------------------------------------------------------------------- */

/* Servers first, then Tarn's memory: children are made while this process has no threads. */
static int open_all(struct contest *contest)
{
    const struct options *options = contest->options;
    int error = 0;
    for (unsigned i = 0; i < LAB_HASH_PEERS && error == 0; i++) {
        if (bench_is_wanted(&options->peers, servers[i]))
            error = lab_hash_peer_start(&contest->job, i, &contest->peers[i]);
    }
    for (size_t i = 0; i < STORES && error == 0; i++) {
        struct lab_hash_store *store = &contest->stores[i];
        if (i > 0 && !bench_is_wanted(&options->peers, kinds[i]->name))
            continue;
        *store = *kinds[i];
        store->job = &contest->job;
        error = lab_hash_store_fill(store);
    }
    return error;
}

/* Whether anything is asked for but inserts. */
static bool wants_stores(const struct contest *contest)
{
    return contest->options->only.count != 1 || strcmp(contest->options->only.items[0], cases[0]) != 0;
}

static int run_size(struct contest *contest, uint32_t value_bytes)
{
    struct lab_hash_job *job = &contest->job;
    int error = bench_values_open(job->bench->account, value_bytes, &job->values);
    if (error != 0)
        return bench_fail(job->bench, error, "values");
    bench_keys_init(&job->keys, contest->options->records, 0);
    error = bench_is_wanted(&contest->options->only, cases[0]) ? run_inserts(contest) : 0;
    if (error == 0 && wants_stores(contest))
        error = open_all(contest);
    if (error == 0 && wants_stores(contest))
        error = run_cases(contest);
    for (size_t i = 0; i < STORES; i++) {
        if (contest->stores[i].job != NULL)
            contest->stores[i].close(&contest->stores[i]);
        contest->stores[i].job = NULL;
    }
    for (size_t i = 0; i < LAB_HASH_PEERS; i++) {
        int ended = lab_hash_peer_stop(contest->peers[i]);
        error = error != 0 ? error : ended;
        contest->peers[i] = NULL;
    }
    bench_values_close(&job->values);
    return error;
}

static int run_hash(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct contest contest = {.options = options, .job = {.bench = bench}};
    const size_t bytes = LAB_HASH_DRAWS * sizeof(uint32_t);
    int error = 0;
    if (!bench_has_two_cores(&bench->machine))
        return bench_fail(bench, -ENOTSUP, "the memory's process has the other core: there is one alone");
    contest.job.draws = base_alloc(bench->account, bytes);
    if (contest.job.draws == NULL)
        return bench_fail(bench, -ENOMEM, "what is asked");
    for (size_t i = 0; i < options->sizes.count && error == 0; i++)
        error = run_size(&contest, bench_number(options->sizes.items[i]));
    base_free(bench->account, contest.job.draws, bytes);
    return error;
}

const struct bench_verb lab_verb_hash = BENCH_VERB(
    "hash", "A hash store in shared memory beside LMDB, memcached, Redis and a table behind a mutex.",
    .lists = lists, .run = run_hash);
