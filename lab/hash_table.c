/*
 * What is the least: a cuckoo table of three words a key in memory that processes share, by plain loads: all words of a key are
 * looked at, then the record. `floor` is that alone, which one process may use; `mutex` takes a mutex that processes share around each call.
 */
#include "lab/hash.h"
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

enum { RANKS = 3, MOVES_MAX = 1000, TAG_SHIFT = 40 };

struct state {
    uint64_t bytes, slots, stride;
    pthread_mutex_t *mutex; /* NULL: none; in shared memory, as all of it */
    uint64_t *words;        /* tag << TAG_SHIFT | number of the record and 1; 0: none */
    uint8_t *records;       /* key and value */
    uint64_t count;
    struct base_random random; /* which of the words in the way goes on */
};

/* ---- the table ----------------------------------------------------------------------------------- */

static uint64_t slot_of(const struct state *state, uint64_t hash, unsigned rank)
{
    return base_hash64(&hash, sizeof(hash), rank) & (state->slots - 1);
}

static uint64_t word_of(uint64_t hash, uint64_t number)
{
    return hash >> TAG_SHIFT << TAG_SHIFT | (number + 1);
}

static uint8_t *record_of(const struct state *state, uint64_t word)
{
    return state->records + ((word & ((UINT64_C(1) << TAG_SHIFT) - 1)) - 1) * state->stride;
}

/* @return NULL: there is no such key */
static uint8_t *find_record(const struct state *state, const char *key, uint64_t hash)
{
    uint64_t words[RANKS];
    for (unsigned rank = 0; rank < RANKS; rank++)
        words[rank] = state->words[slot_of(state, hash, rank)];
    for (unsigned rank = 0; rank < RANKS; rank++) {
        if (words[rank] == 0 || words[rank] >> TAG_SHIFT != hash >> TAG_SHIFT)
            continue;
        uint8_t *record = record_of(state, words[rank]);
        if (memcmp(record, key, BENCH_KEY_BYTES) == 0)
            return record;
    }
    return NULL;
}

/* Put a word into the index; those that are in its way go on to another place. @return -ENOSPC */
static int place(struct state *state, uint64_t word)
{
    for (unsigned move = 0; move < MOVES_MAX; move++) {
        const uint64_t hash = base_hash64(record_of(state, word), BENCH_KEY_BYTES, 0);
        for (unsigned rank = 0; rank < RANKS; rank++) {
            uint64_t *at = &state->words[slot_of(state, hash, rank)];
            if (*at == 0) {
                *at = word;
                return 0;
            }
        }
        uint64_t *at =
            &state->words[slot_of(state, hash, (unsigned)base_random_below(&state->random, RANKS))];
        const uint64_t other = *at;
        *at = word;
        word = other;
    }
    return -ENOSPC;
}

static int store_one(struct state *state, const char *key, const uint8_t *value, uint32_t value_bytes)
{
    const uint64_t hash = base_hash64(key, BENCH_KEY_BYTES, 0);
    uint8_t *record = find_record(state, key, hash);
    if (record != NULL) {
        memcpy(record + BENCH_KEY_BYTES, value, value_bytes);
        return 0;
    }
    record = state->records + state->count * state->stride;
    memcpy(record, key, BENCH_KEY_BYTES);
    memcpy(record + BENCH_KEY_BYTES, value, value_bytes);
    return place(state, word_of(hash, state->count++));
}

/* ---- as a store ---------------------------------------------------------------------------------- */

static int open_table(struct lab_hash_store *store)
{
    const struct lab_hash_job *job = store->job;
    struct state *state = base_alloc(job->bench->account, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    store->state = state;
    base_random_init(&state->random, job->bench->options.seed);
    state->slots = base_power_of_two_from(job->keys.count * 4 / 3);
    state->stride = base_align_up(BENCH_KEY_BYTES + (uint64_t)job->values.bytes, 16);
    state->bytes = BASE_PAGE_BYTES + state->slots * 8 + job->keys.count * state->stride;
    uint8_t *memory = mmap(NULL, state->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return bench_fail(job->bench, -errno, "shared memory");
    state->words = (uint64_t *)(memory + BASE_PAGE_BYTES);
    state->records = memory + BASE_PAGE_BYTES + state->slots * 8;
    return 0;
}

static int open_mutex(struct lab_hash_store *store)
{
    pthread_mutexattr_t attributes;
    int error = open_table(store);
    if (error != 0)
        return error;
    struct state *state = store->state;
    state->mutex = (pthread_mutex_t *)((uint8_t *)state->words - BASE_PAGE_BYTES);
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attributes,
                                      PTHREAD_MUTEX_ROBUST); /* else who dies with it blocks all */
    error = -pthread_mutex_init(state->mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return error;
}

static void close_table(struct lab_hash_store *store)
{
    struct state *state = store->state;
    if (state == NULL)
        return;
    if (state->words != NULL)
        (void)munmap((uint8_t *)state->words - BASE_PAGE_BYTES, state->bytes);
    base_free(store->job->bench->account, state, sizeof(*state));
    store->state = NULL;
}

static int get_records(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                       uint8_t *values)
{
    const struct state *state = store->state;
    const uint32_t bytes = store->job->values.bytes;
    int error = state->mutex == NULL ? 0 : -pthread_mutex_lock(state->mutex);
    for (uint32_t i = 0; i < count && error == 0; i++) {
        const uint8_t *record = find_record(state, keys[i], base_hash64(keys[i], BENCH_KEY_BYTES, 0));
        if (record == NULL)
            error = -ENOENT;
        else
            memcpy(values + (size_t)i * bytes, record + BENCH_KEY_BYTES, bytes);
    }
    if (state->mutex != NULL)
        (void)pthread_mutex_unlock(state->mutex);
    return error;
}

static int put_records(struct lab_hash_store *store, const char (*keys)[BENCH_KEY_BYTES], uint32_t count,
                       const uint8_t *values)
{
    struct state *state = store->state;
    const uint32_t bytes = store->job->values.bytes;
    int error = state->mutex == NULL ? 0 : -pthread_mutex_lock(state->mutex);
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = store_one(state, keys[i], values + (size_t)i * bytes, bytes);
    if (state->mutex != NULL)
        (void)pthread_mutex_unlock(state->mutex);
    return error;
}

static uint64_t table_bytes(struct lab_hash_store *store)
{
    const struct state *state = store->state;
    return state->bytes;
}

const struct lab_hash_store lab_hash_floor = {.name = "floor",
                                              .open = open_table,
                                              .get = get_records,
                                              .put = put_records,
                                              .bytes = table_bytes,
                                              .close = close_table};

const struct lab_hash_store lab_hash_mutex = {.name = "mutex",
                                              .open = open_mutex,
                                              .get = get_records,
                                              .put = put_records,
                                              .bytes = table_bytes,
                                              .close = close_table};
