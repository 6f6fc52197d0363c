/*
 * Is a snapshot of one moment, while threads write, the collector moves what they write, and the index grows?
 *
 * Each writer stores the number of its round under one of its keys after the other. So at any moment the
 * numbers of its keys fall by one at one place, or nowhere, from the first key to the last.
 */
#include "depot/testing.h"
#include <pthread.h>

#define WRITERS     3
#define KEYS        40 /* of a writer */
#define ROUNDS_MIN  3
#define SNAPSHOTS   (TESTING_SLOW ? 12 : 40)
#define STORE_BYTES (UINT64_C(24) << 20)
#define SHORT_BYTES 3000
#define TINY_KEYS   30000 /* that come and go, so that the index grows */

#define REQUIRE(condition) base_assert(condition)

struct shared {
    struct testing_store store;
    uint32_t long_bytes; /* of the values of some keys: in pieces */
    _Atomic bool done;
    _Atomic uint32_t begun[WRITERS][KEYS]; /* rounds */
    _Atomic uint32_t ended[WRITERS][KEYS];
};

struct writer {
    struct shared *shared;
    uint32_t number;
};

static uint32_t bytes_of(const struct shared *shared, uint32_t key)
{
    return key % 16 == 3 ? shared->long_bytes : SHORT_BYTES + key;
}

static void fill_key(char name[16], uint32_t writer, uint32_t key)
{
    (void)snprintf(name, 16, "%u/%u", writer, key);
}

static void require_success(int error)
{
    if (error != 0)
        (void)fprintf(stderr, "%s\n", strerrorname_np(-error));
    REQUIRE(error == 0);
}

static void *write_rounds(void *arg)
{
    const struct writer *writer = arg;
    struct shared *shared = writer->shared;
    uint8_t *value = malloc(shared->long_bytes);
    REQUIRE(value != NULL);
    for (uint32_t round = 1; !atomic_load(&shared->done); round++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            char name[16];
            fill_key(name, writer->number, key);
            memset(value, (int)round, shared->long_bytes);
            memcpy(value, &round, sizeof(round));
            atomic_store(&shared->begun[writer->number][key], round);
            require_success(tarn_depot_put(shared->store.depot, name, strlen(name), value,
                                           bytes_of(shared, key), NULL, NULL));
            atomic_store(&shared->ended[writer->number][key], round);
        }
    }
    free(value);
    return NULL;
}

/* Keys come and go; some hash like nothing else, so that regions are crowded and split. */
static void *write_tiny(void *arg)
{
    struct shared *shared = arg;
    for (uint32_t i = 0; !atomic_load(&shared->done); i++) {
        uint32_t key = i % TINY_KEYS;
        int error = i / TINY_KEYS % 2 == 0
                        ? tarn_depot_put(shared->store.depot, &key, sizeof(key), &i, sizeof(i), NULL, NULL)
                        : tarn_depot_delete(shared->store.depot, &key, sizeof(key));
        require_success(error);
    }
    return NULL;
}

/* ---- looking ------------------------------------------------------------------------------------- */

/* What a snapshot shows. */
struct look {
    struct shared *shared;
    struct tarn_depot_snapshot *snapshot;
    uint32_t rounds[WRITERS][KEYS]; /* 0: not there */
    uint8_t *value;
};

static uint32_t round_in(const struct shared *shared, uint32_t key, const uint8_t *value, uint64_t bytes)
{
    uint32_t round;
    assert_int_equal(bytes, bytes_of(shared, key));
    memcpy(&round, value, sizeof(round));
    for (uint64_t i = sizeof(round); i < bytes; i++)
        assert_int_equal(value[i], (uint8_t)round);
    return round;
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
                 const struct tarn_record_info *info)
{
    struct look *look = arg;
    char name[16] = "";
    unsigned int writer, number;
    size_t bytes = info->value_bytes;
    memcpy(name, key, base_min(key_len, sizeof(name) - 1));
    if (key_len == sizeof(uint32_t) && memchr(name, '/', key_len) == NULL)
        return 0; /* a tiny one */
    if (sscanf(name, "%u/%u", &writer, &number) != 2)
        return 0;
    assert_true(writer < WRITERS && number < KEYS && look->rounds[writer][number] == 0);
    if (value == NULL) {
        int error = tarn_depot_snapshot_read(look->snapshot, key, key_len, 0, look->value,
                                             look->shared->long_bytes, &bytes, NULL);
        if (error == -ECANCELED)
            return error;
        assert_int_equal(error, 0);
        value = look->value;
    }
    look->rounds[writer][number] = round_in(look->shared, number, value, bytes);
    return 0;
}

/* What was scanned, again. It may be cancelled meanwhile. */
static void get_all(struct look *look)
{
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            struct tarn_record_info info;
            char name[16];
            fill_key(name, writer, key);
            int error = tarn_depot_snapshot_get(look->snapshot, name, strlen(name), look->value,
                                                look->shared->long_bytes, &info);
            if (error == -ECANCELED)
                return;
            assert_int_equal(error, look->rounds[writer][key] == 0 ? -ENOENT : 0);
            if (error == 0)
                assert_int_equal(round_in(look->shared, key, look->value, info.value_bytes),
                                 look->rounds[writer][key]);
        }
    }
}

static void expect_one_moment(const struct look *look)
{
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        const uint32_t *rounds = look->rounds[writer];
        uint32_t falls = 0;
        for (uint32_t key = 1; key < KEYS; key++) {
            assert_true(rounds[key] == rounds[key - 1] || rounds[key] + 1 == rounds[key - 1]);
            falls += rounds[key] != rounds[key - 1];
        }
        assert_true(falls <= 1);
    }
}

/* @return whether it could be read to the end before its space was needed */
static bool look_once(struct shared *shared, struct look *look, uint64_t room_bytes)
{
    uint32_t before[WRITERS][KEYS], after[WRITERS][KEYS];
    memset(look->rounds, 0, sizeof(look->rounds));
    for (uint32_t i = 0; i < WRITERS * KEYS; i++)
        before[i / KEYS][i % KEYS] = atomic_load(&shared->ended[i / KEYS][i % KEYS]);
    assert_int_equal(tarn_depot_snapshot_open(shared->store.depot, room_bytes, &look->snapshot), 0);
    for (uint32_t i = 0; i < WRITERS * KEYS; i++)
        after[i / KEYS][i % KEYS] = atomic_load(&shared->begun[i / KEYS][i % KEYS]);
    int error = tarn_depot_snapshot_scan(look->snapshot, visit, look);
    assert_true(error == 0 || error == -ECANCELED);
    if (error == 0) {
        expect_one_moment(look);
        for (uint32_t i = 0; i < WRITERS * KEYS; i++)
            assert_in_range(look->rounds[i / KEYS][i % KEYS], before[i / KEYS][i % KEYS],
                            after[i / KEYS][i % KEYS]);
        get_all(look);
    }
    tarn_depot_snapshot_close(look->snapshot);
    return error == 0;
}

static void it_is_of_one_moment(void **state)
{
    (void)state;
    struct testing_drive drive = {.size = 0};
    struct shared *shared = calloc(1, sizeof(*shared));
    assert_non_null(shared);
    const struct tarn_depot_options options = {.create_bytes = STORE_BYTES, .mode = TARN_MODE_DEVICE};
    assert_int_equal(testing_try_open(&shared->store, &drive, NULL, &options), 0);
    shared->long_bytes = (uint32_t)tarn_depot_whole_bytes_max(shared->store.depot) + 5000;
    struct look look = {.shared = shared, .value = malloc(shared->long_bytes)};
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS + 1];
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.shared = shared, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_rounds, &writers[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[WRITERS], NULL, write_tiny, shared), 0);
    uint32_t whole = 0;
    for (int i = 0; i < SNAPSHOTS; i++) {
        whole += look_once(shared, &look, i % 2 == 0 ? STORE_BYTES / 4 : 0);
        while (atomic_load(&shared->ended[0][KEYS - 1]) < ROUNDS_MIN)
            assert_int_equal(task_sleep(BASE_NS_PER_MS), 0);
    }
    atomic_store(&shared->done, true);
    for (uint32_t i = 0; i < WRITERS + 1; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct tarn_depot_stats stats;
    tarn_depot_stats(shared->store.depot, &stats);
    print_message("%u of %d read to the end, %llu segments collected, %llu entries\n", whole, SNAPSHOTS,
                  (unsigned long long)stats.collections, (unsigned long long)stats.index_entries);
    assert_true(whole >= SNAPSHOTS / 4);
    depot_testing_close(&shared->store);
    testing_drive_free(&drive);
    free(look.value);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_of_one_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
