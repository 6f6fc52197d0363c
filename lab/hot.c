/*
 * `tarn-lab hot`: which share of the reads of a trace the hot tier answers, beside an exact LRU and an exact S3-FIFO with
 * room for as many records as the same memory would hold if nothing but records were in it.
 */
#include "depot/hot/hot.h"
#include "bench/bench.h"
#include "bench/case.h"
#include "lab/verbs.h"
#include <errno.h>

enum {
    SCAN_LENGTH = 20000, /* records, one behind the other, that nobody reads again */
    SCAN_EVERY = 100000, /* reads from one scan to the next */
    LIFE_READS = 4,      /* of a record with a short life */
    LIFE_WINDOW = 2000,  /* reads between the first and the last of them, about */
    NEW_PERCENT = 30,    /* of reads are of such records */
    HITS_MAX = 3,
    TRIAL_SHARE = 10,
    TRIAL_HITS = 2,
};

#define ZIPF_EXPONENT 0.99
#define NONE          UINT32_MAX

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list percents;
    uint64_t keys;
    uint64_t reads;
    uint64_t record_bytes;
};

static const char *const cases[] = {"zipf", "scans", "short-lives", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure these alone: zipf, scans, short-lives.",
                 .metavar = "NAME[,...]"),
    BENCH_OPTION(LIST, "percents", percents, "Memory, in percent of what all records take.",
                 .metavar = "N[,...]", .default_text = "10,50"),
    BENCH_OPTION(UINT, "keys", keys, "Records that are read by Zipf's law (0.99).", .min = 1000,
                 .max = 100000000, .default_text = "500000"),
    BENCH_OPTION(UINT, "reads", reads, "Reads of a trace; the second half of them counts.", .min = 1000,
                 .max = 1000000000, .default_text = "10000000"),
    BENCH_OPTION(SIZE, "record", record_bytes, "Length of a record, with its header.", .min = 64,
                 .max = 65536, .default_text = "1080"),
    BENCH_COMMON_SETTINGS(struct options, "1s", "1"),
};

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_NUMBERS("percents", percents, 1, 100, 1),
    {.setting = NULL},
};

/* ---- traces -------------------------------------------------------------------------------------- */

/* Records from `keys` on are read in scans, or have short lives. */
struct trace {
    const struct options *options;
    const char *name;
    struct base_random random;
    struct base_random_zipf zipf;
    uint64_t read; /* so far */
    uint32_t next; /* record that nobody has read yet */
    uint32_t young[LIFE_WINDOW / LIFE_READS];
};

static uint32_t records_of(const struct options *options)
{
    return (uint32_t)(options->keys + options->reads);
}

static uint32_t draw_record(struct trace *trace)
{
    uint64_t read = trace->read++;
    bool scans = strcmp(trace->name, "scans") == 0, young = strcmp(trace->name, "short-lives") == 0;
    if (scans && read % SCAN_EVERY >= SCAN_EVERY - SCAN_LENGTH)
        return trace->next++;
    if (young && base_random_below(&trace->random, 100) < NEW_PERCENT) {
        uint32_t *one = &trace->young[base_random_below(&trace->random, base_array_count(trace->young))];
        if (*one == 0 || base_random_below(&trace->random, LIFE_READS) == 0)
            *one = trace->next++;
        return *one;
    }
    return (uint32_t)base_random_zipf_scattered(&trace->zipf, &trace->random);
}

/* ---- the exact ones ------------------------------------------------------------------------------ */

struct record {
    uint32_t before, after; /* in the queue of an LRU */
    uint32_t ghost;         /* number of the eviction that ended its trial */
    uint8_t hits;
    bool is_held;
};

struct queue {
    uint32_t *records; /* a ring */
    uint32_t room, begin, count;
};

/* A cache of `room` records that is told of each read. */
struct cache {
    struct record *records;
    uint32_t room, held;
    uint32_t first, last;     /* of an LRU: the one read last, and the one that goes next */
    struct queue trial, main; /* of S3-FIFO */
    uint32_t evictions;
};

static void unlink_record(struct cache *cache, uint32_t number)
{
    const struct record *record = &cache->records[number];
    *(record->before == NONE ? &cache->first : &cache->records[record->before].after) = record->after;
    *(record->after == NONE ? &cache->last : &cache->records[record->after].before) = record->before;
}

static void link_first(struct cache *cache, uint32_t number)
{
    cache->records[number].before = NONE;
    cache->records[number].after = cache->first;
    *(cache->first == NONE ? &cache->last : &cache->records[cache->first].before) = number;
    cache->first = number;
}

static bool read_lru(struct cache *cache, uint32_t number)
{
    struct record *record = &cache->records[number];
    bool was_held = record->is_held;
    if (was_held) {
        unlink_record(cache, number);
    } else if (cache->held++ == cache->room) {
        uint32_t victim = cache->last;
        unlink_record(cache, victim);
        cache->records[victim].is_held = false;
        cache->held--;
    }
    record->is_held = true;
    link_first(cache, number);
    return was_held;
}

static void push(struct queue *queue, uint32_t number)
{
    queue->records[(queue->begin + queue->count++) % queue->room] = number;
}

static uint32_t pop(struct queue *queue)
{
    uint32_t number = queue->records[queue->begin];
    queue->begin = (queue->begin + 1) % queue->room;
    queue->count--;
    return number;
}

static void evict_one(struct cache *cache)
{
    for (;;) {
        bool trial = cache->trial.count >= cache->room / TRIAL_SHARE || cache->main.count == 0;
        uint32_t number = pop(trial ? &cache->trial : &cache->main);
        struct record *record = &cache->records[number];
        if (record->hits >= (trial ? TRIAL_HITS : 1)) {
            record->hits = (uint8_t)(trial ? 0 : record->hits - 1);
            push(&cache->main, number);
            continue;
        }
        record->is_held = false;
        record->ghost = trial ? ++cache->evictions : 0;
        cache->held--;
        return;
    }
}

static bool read_s3fifo(struct cache *cache, uint32_t number)
{
    struct record *record = &cache->records[number];
    if (record->is_held) {
        record->hits = (uint8_t)(record->hits + (record->hits < HITS_MAX));
        return true;
    }
    while (cache->held >= cache->room)
        evict_one(cache);
    bool ghost = record->ghost != 0 && cache->evictions - record->ghost < cache->room;
    push(ghost ? &cache->main : &cache->trial, number);
    record->is_held = true;
    record->hits = 0;
    record->ghost = 0;
    cache->held++;
    return false;
}

static int open_cache(struct bench *bench, uint32_t records, uint32_t room, struct cache *ret_cache)
{
    struct cache cache = {.room = room, .first = NONE, .last = NONE};
    cache.trial.room = cache.main.room = room + 1;
    cache.records = base_alloc(bench->account, records * sizeof(*cache.records));
    cache.trial.records = base_alloc(bench->account, (room + 1) * sizeof(uint32_t));
    cache.main.records = base_alloc(bench->account, (room + 1) * sizeof(uint32_t));
    *ret_cache = cache;
    return cache.records == NULL || cache.trial.records == NULL || cache.main.records == NULL ? -ENOMEM : 0;
}

static void close_cache(struct bench *bench, uint32_t records, const struct cache *cache)
{
    base_free(bench->account, cache->main.records, (cache->room + 1) * sizeof(uint32_t));
    base_free(bench->account, cache->trial.records, (cache->room + 1) * sizeof(uint32_t));
    base_free(bench->account, cache->records, records * sizeof(*cache->records));
}

/* ---- measuring ----------------------------------------------------------------------------------- */

struct measurement {
    struct bench *bench;
    const struct options *options;
    const char *name;
    uint64_t memory_bytes;
};

static bool read_tarn(struct depot_hot *hot, uint32_t number, const uint8_t *bytes, size_t len)
{
    const uint64_t grain = 1 + UINT64_C(16) * number;
    struct depot_hot_found found;
    const struct depot_hot_part part = {.bytes = bytes, .len = len};
    if (depot_hot_find(hot, grain, 1, true, &found)) {
        depot_hot_unpin(found.page);
        return true;
    }
    depot_hot_add(hot, grain, 1, &part, 1, false);
    return false;
}

/* Play the trace to one of them: a tier, or one of the exact caches. */
static void play(const struct measurement *run, struct depot_hot *hot, struct cache *cache, bool lru,
                 struct bench_sample *sample)
{
    static const uint8_t bytes[65536];
    const struct options *options = run->options;
    struct trace trace = {.options = options, .name = run->name, .next = (uint32_t)options->keys};
    uint64_t hits = 0, from = options->reads / 2;
    base_random_init(&trace.random, run->bench->options.seed);
    base_random_zipf_init(&trace.zipf, options->keys, ZIPF_EXPONENT);
    for (uint64_t i = 0; i < options->reads; i++) {
        uint32_t number = draw_record(&trace);
        bool hit = hot != NULL ? read_tarn(hot, number, bytes, options->record_bytes)
                   : lru       ? read_lru(cache, number)
                               : read_s3fifo(cache, number);
        hits += hit && i >= from;
    }
    sample->values[0] = 100.0 * (double)hits / (double)(options->reads - from);
}

static int measure_tarn(void *arg, struct bench_sample *sample)
{
    const struct measurement *run = arg;
    const struct depot_hot_options options = {.bytes_max = run->memory_bytes};
    struct depot_hot *hot;
    int error = depot_hot_open(run->bench->account, &options, &hot);
    if (error != 0)
        return error;
    play(run, hot, NULL, false, sample);
    depot_hot_close(hot);
    return 0;
}

static int measure_exact(const struct measurement *run, bool lru, struct bench_sample *sample)
{
    const uint32_t records = records_of(run->options);
    struct cache cache;
    int error =
        open_cache(run->bench, records, (uint32_t)(run->memory_bytes / run->options->record_bytes), &cache);
    if (error == 0)
        play(run, NULL, &cache, lru, sample);
    close_cache(run->bench, records, &cache);
    return error;
}

static int measure_lru(void *arg, struct bench_sample *sample)
{
    return measure_exact(arg, true, sample);
}

static int measure_s3fifo(void *arg, struct bench_sample *sample)
{
    return measure_exact(arg, false, sample);
}

static int run_case(struct bench *bench, const struct options *options, const char *name, uint32_t percent)
{
    struct measurement run = {.bench = bench,
                              .options = options,
                              .name = name,
                              .memory_bytes = options->keys * options->record_bytes * percent / 100};
    struct bench_case *self;
    int error = bench_case_open(bench, name, "reads/s", &self);
    if (error != 0)
        return error;
    bench_case_number(self, "keys", options->keys);
    bench_case_number(self, "record_bytes", options->record_bytes);
    bench_case_number(self, "memory_percent", percent);
    bench_case_value(self, "hit_percent");
    bench_case_subject(self, "tarn", measure_tarn, &run);
    bench_case_subject(self, "lru", measure_lru, &run);
    bench_case_subject(self, "s3fifo", measure_s3fifo, &run);
    return bench_case_finish(self);
}

static int run_hot(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    int error = 0;
    for (size_t i = 0; cases[i] != NULL; i++) {
        for (size_t j = 0; j < options->percents.count && error == 0; j++) {
            if (bench_is_wanted(&options->only, cases[i]))
                error = run_case(bench, options, cases[i], bench_number(options->percents.items[j]));
        }
    }
    return error;
}

const struct bench_verb lab_verb_hot =
    BENCH_VERB("hot", "Shares of reads that the hot tier answers, beside an exact LRU and S3-FIFO.",
               .lists = lists, .run = run_hot);
