/* `tarn-lab tree`: an ordered store's tree in memory beside LMDB, RocksDB's memtable and WiredTiger, all in this process. */
#include "lab/tree.h"
#include "bench/case.h"
#include "task/task.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct options {
    struct bench_options common;
    struct base_setting_list only;
    struct base_setting_list threads;
    uint64_t records;
    uint64_t scan;
    struct base_setting_list peers;
};

static const char *const cases[] = {"search", "scan", "insert", NULL};
static const char *const peers[] = {"rocksdb", "lmdb", "wiredtiger", "none", NULL};

static const struct base_setting table[] = {
    BENCH_OPTION(LIST, "only", only, "Measure only these: search, scan, insert.", .metavar = "CASE[,...]"),
    BENCH_OPTION(LIST, "threads", threads, "How many call at once.", .metavar = "COUNT[,...]",
                 .default_text = "1,2"),
    BENCH_OPTION(
        UINT, "records", records,
        "How many there are before anything is inserted, with keys of 8 to 64 bytes and values of 8.",
        .min = 1000, .max = UINT64_C(1) << 30, .default_text = "10000000"),
    BENCH_OPTION(UINT, "scan", scan, "Records of a scan.", .min = 1, .max = 1000000, .default_text = "100"),
    BENCH_OPTION(LIST, "peers", peers, "Beside it only these: rocksdb, lmdb, wiredtiger; none.",
                 .metavar = "NAME[,...]"),
    BENCH_COMMON_SETTINGS(struct options, "500ms", "7"),
};

static const struct bench_list lists[] = {
    BENCH_WORDS("only", only, cases),
    BENCH_NUMBERS("threads", threads, 1, LAB_YCSB_THREADS_MAX, 1),
    BENCH_WORDS("peers", peers, peers),
    {.setting = NULL},
};

/* Tarn first: the others are compared with it. */
static const struct lab_ycsb_engine *const engines[] = {&lab_tree_tarn, &lab_ycsb_rocksdb, &lab_ycsb_lmdb,
                                                        &lab_ycsb_wiredtiger};

enum {
    STORES = base_array_count(engines),
    GROWTH = 4,        /* records that may be inserted, for each that there is */
    MEMORY_EACH = 512, /* bytes of memory that a record may take, generously */
    WARM_UP_SHARE = 5,
    TURNS = 16, /* operations, the first of which is timed */
    FOLDER_ROOM = 64,
};

enum { KEY_MIN = 8, KEY_MAX = 64, VALUE_BYTES = 8 };

#define SALT UINT64_C(0x9e3779b97f4a7c15)

/* A store that is measured, and what is asked of it. */
struct store {
    struct contest *contest;
    const struct lab_ycsb_engine *engine;
    const char *skipped;
    struct lab_ycsb_place place;
    char folder[FOLDER_ROOM]; /* "": there is none */
    void *state;              /* NULL: it is not open */
    uint64_t resident_bytes;  /* of the process, that it has added when it was filled */
    _Atomic uint64_t records; /* also the number of the next one */
};

struct contest {
    const struct options *options;
    struct bench *bench;
    struct store stores[STORES];
    unsigned kind; /* of it, in `cases` */
    uint32_t threads;
    uint64_t seed;
};

enum kind { SEARCH, SCAN, INSERT };

/* ---- records ------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t number)
{
    number = (number ^ number >> 33) * UINT64_C(0xff51afd7ed558ccd);
    number = (number ^ number >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return number ^ number >> 33;
}

/* The key of a record, of any length and in no order. Its first word belongs to one number alone, since each step of mix()
 * can be undone. @param key  KEY_MAX bytes @return its length */
static size_t fill_key(uint64_t number, uint8_t *key)
{
    uint64_t word = mix(number + SALT);
    const size_t bytes = KEY_MIN + word % (KEY_MAX - KEY_MIN + 1);
    for (size_t at = 0; at < bytes; at += sizeof(word)) {
        memcpy(key + at, &word, sizeof(word));
        word = word * SALT + 1;
    }
    return bytes;
}

static int put(const struct store *store, void *session, uint64_t number)
{
    uint8_t key[KEY_MAX];
    const size_t bytes = fill_key(number, key);
    return store->engine->put(session, key, bytes, &number);
}

static int search(const struct store *store, void *session, uint64_t number)
{
    uint8_t key[KEY_MAX];
    uint64_t value;
    const size_t bytes = fill_key(number, key);
    int error = store->engine->get(session, key, bytes, &value);
    return error != 0 ? error : value == number ? 0 : -EBADMSG;
}

struct seen {
    uint64_t first_word; /* of the key that was shown last, most significant byte first */
    uint64_t count;
    bool is_wrong;
};

static void see(void *arg, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    struct seen *seen = arg;
    uint64_t word, number;
    if (key_bytes < KEY_MIN || value_bytes != sizeof(number)) {
        seen->is_wrong = true;
        return;
    }
    memcpy(&word, key, sizeof(word));
    memcpy(&number, value, sizeof(number));
    seen->is_wrong |= word != mix(number + SALT) || __builtin_bswap64(word) < seen->first_word;
    seen->first_word = __builtin_bswap64(word);
    seen->count++;
}

/* What is found is in order, and each value is its key's. Only at the end of all keys there are fewer than were asked for. */
static int scan(const struct store *store, void *session, uint64_t number)
{
    uint8_t key[KEY_MAX];
    struct seen seen = {.first_word = 0};
    const size_t bytes = fill_key(number, key);
    int error = store->engine->scan(session, key, bytes, (uint32_t)store->contest->options->scan, see, &seen);
    return error != 0 ? error : seen.is_wrong || seen.count == 0 ? -EBADMSG : 0;
}

/* ---- threads ------------------------------------------------------------------------------------- */

struct worker {
    struct store *store;
    uint64_t duration_ns;
    struct base_random random;
    uint64_t begin_ns, end_ns, operations;
    struct base_histogram latency;
};

static int operate(struct worker *worker, void *session)
{
    struct store *store = worker->store;
    if (store->contest->kind == INSERT)
        return put(store, session, atomic_fetch_add(&store->records, 1));
    const uint64_t number = base_random_below(&worker->random, store->contest->options->records);
    return store->contest->kind == SCAN ? scan(store, session, number) : search(store, session, number);
}

/* @param duration_ns  at least one turn is done in any case */
static int operate_for(struct worker *worker, void *session, uint64_t duration_ns)
{
    worker->begin_ns = task_now();
    worker->operations = 0;
    do {
        const uint64_t before_ns = task_now();
        int error = operate(worker, session);
        base_histogram_add(&worker->latency, task_now() - before_ns);
        for (unsigned i = 1; i < TURNS && error == 0; i++)
            error = operate(worker, session);
        if (error != 0)
            return error;
        worker->operations += TURNS;
        worker->end_ns = task_now();
    } while (worker->end_ns - worker->begin_ns < duration_ns);
    return 0;
}

static int run_worker(void *arg)
{
    struct worker *worker = arg;
    struct store *store = worker->store;
    void *session;
    int error = lab_ycsb_session_open(&store->place, store->engine, store->state, &session);
    if (error != 0)
        return error;
    error = operate_for(worker, session, worker->duration_ns / WARM_UP_SHARE);
    base_histogram_reset(&worker->latency);
    if (error == 0)
        error = operate_for(worker, session, worker->duration_ns);
    lab_ycsb_session_close(&store->place, store->engine, session);
    return error;
}

static int measure_store(void *arg, struct bench_sample *sample)
{
    struct store *store = arg;
    struct contest *contest = store->contest;
    const uint32_t count = contest->threads;
    if (store->skipped != NULL) {
        sample->skipped = store->skipped;
        return 0;
    }
    struct worker *workers = base_alloc(contest->bench->account, count * sizeof(*workers));
    if (workers == NULL)
        return bench_fail(contest->bench, -ENOMEM, "%s", store->engine->name);
    for (uint32_t i = 0; i < count; i++) {
        workers[i].store = store;
        workers[i].duration_ns = contest->bench->options.duration_ns;
        base_random_init(&workers[i].random, contest->seed++);
        base_histogram_reset(&workers[i].latency);
    }
    int error = lab_ycsb_threads_run(workers, sizeof(*workers), count, run_worker);
    for (uint32_t i = 0; i < count; i++) {
        sample->operations += workers[i].operations;
        sample->elapsed_ns = base_max(sample->elapsed_ns, workers[i].end_ns - workers[i].begin_ns);
        base_histogram_merge(sample->latency, &workers[i].latency);
    }
    sample->values[0] = (double)store->resident_bytes / (double)contest->options->records;
    base_free(contest->bench->account, workers, count * sizeof(*workers));
    return error == 0 ? 0
                      : bench_fail(contest->bench, error, "%s: %s", store->engine->name, store->place.why);
}

/* ---- stores -------------------------------------------------------------------------------------- */

static uint64_t resident_bytes(void)
{
    uint64_t kibibytes;
    return bench_number_read("/proc/self/status", "VmRSS:", &kibibytes) == 0 ? kibibytes << 10 : 0;
}

static int open_store(struct store *store)
{
    struct lab_ycsb_place *place = &store->place;
    int error = store->engine->library == NULL ? 0 : lab_ycsb_library(place, store->engine);
    if (error != 0) {
        store->skipped = place->why;
        return 0;
    }
    (void)snprintf(store->folder, sizeof(store->folder), "/dev/shm/tarn-lab-tree-XXXXXX");
    if (mkdtemp(store->folder) == NULL) {
        store->folder[0] = '\0';
        return -errno;
    }
    place->folder = store->folder;
    void *state = base_alloc(place->account, store->engine->store_bytes);
    if (state == NULL)
        return -ENOMEM;
    error = store->engine->open(place, false, state);
    if (error == 0)
        store->state = state;
    else
        base_free(place->account, state, store->engine->store_bytes);
    return error;
}

static int fill_store(struct store *store)
{
    struct contest *contest = store->contest;
    struct base_progress progress;
    void *session;
    const uint64_t count = contest->options->records, before = resident_bytes();
    int error = lab_ycsb_session_open(&store->place, store->engine, store->state, &session);
    if (error != 0)
        return error;
    bench_progress_init(contest->bench, &progress, store->engine->name, "records", count);
    for (uint64_t i = 0; i < count && error == 0; i++) {
        error = put(store, session, i);
        if (i % 1024 == 0)
            base_progress_update(&progress, i);
    }
    base_progress_end(&progress);
    lab_ycsb_session_close(&store->place, store->engine, session);
    atomic_store(&store->records, count);
    store->resident_bytes = base_max(resident_bytes(), before) - before;
    return error;
}

static int make_store(struct contest *contest, struct store *store, const struct lab_ycsb_engine *engine)
{
    const uint64_t records = contest->options->records;
    store->contest = contest;
    store->engine = engine;
    store->skipped = engine->skipped;
    store->place = (struct lab_ycsb_place){.account = contest->bench->account,
                                           .memory_bytes = (GROWTH + 1) * records * MEMORY_EACH,
                                           .records_max = (GROWTH + 1) * records,
                                           .in_memory = true,
                                           .value_bytes = VALUE_BYTES};
    if (store->skipped != NULL)
        return 0;
    int error = open_store(store);
    if (error == 0 && store->skipped == NULL)
        error = fill_store(store);
    return error == 0 ? 0 : bench_fail(contest->bench, error, "%s: %s", engine->name, store->place.why);
}

static void close_store(struct store *store)
{
    if (store->state != NULL) {
        (void)store->engine->close(store->state);
        base_free(store->place.account, store->state, store->engine->store_bytes);
    }
    if (store->folder[0] != '\0') {
        (void)lab_ycsb_empty_folder(store->folder);
        (void)rmdir(store->folder);
    }
}

/* ---- cases --------------------------------------------------------------------------------------- */

static int run_case(struct contest *contest, unsigned kind, uint32_t threads)
{
    struct bench_case *self;
    contest->kind = kind;
    contest->threads = threads;
    int error = bench_case_open(contest->bench, cases[kind], kind == SCAN ? "scans/s" : "records/s", &self);
    if (error != 0)
        return bench_fail(contest->bench, error, "a case");
    bench_case_number(self, "threads", threads);
    bench_case_number(self, "records", contest->options->records);
    if (kind == SCAN)
        bench_case_number(self, "scan", contest->options->scan);
    bench_case_value(self, "record_bytes");
    for (size_t i = 0; i < STORES; i++) {
        if (contest->stores[i].contest != NULL)
            bench_case_subject(self, engines[i]->name, measure_store, &contest->stores[i]);
    }
    return bench_case_finish(self);
}

static int run_tree(struct bench *bench, const void *verb_options)
{
    const struct options *options = verb_options;
    struct contest contest = {.options = options, .bench = bench, .seed = bench->options.seed};
    int error = 0;
    for (size_t i = 0; i < STORES && error == 0; i++) {
        if (i == 0 || bench_is_wanted(&options->peers, engines[i]->name))
            error = make_store(&contest, &contest.stores[i], engines[i]);
    }
    for (unsigned kind = 0; cases[kind] != NULL && error == 0; kind++) {
        for (size_t i = 0; i < options->threads.count && error == 0; i++) {
            if (bench_is_wanted(&options->only, cases[kind]))
                error = run_case(&contest, kind, bench_number(options->threads.items[i]));
        }
    }
    for (size_t i = 0; i < STORES; i++)
        close_store(&contest.stores[i]);
    return error;
}

const struct bench_verb lab_verb_tree = BENCH_VERB(
    "tree", "The tree of an ordered store, in memory, beside RocksDB's memtable, LMDB and WiredTiger.",
    .lists = lists, .run = run_tree);
