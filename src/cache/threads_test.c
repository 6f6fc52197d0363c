/* Real threads: clients that READ while the owner changes, counters that others look at, several owners. */
#include "base/testing_slow.h"
#include "cache/testing.h"
#include <pthread.h>

enum {
    KEYS = 50,
    READERS = 2,
    CHANGES = TESTING_SLOW ? 50000 : 500000,
    HITS_MIN = 1000,
    READ_ROOM = 4096,
};

struct shared {
    struct testing_cache testing;
    _Atomic bool over;         /* the owner has done all, and goes on only for readers */
    _Atomic uint32_t finished; /* readers */
};

/* ---- clients ---------------------------------------------------------------------------------------------------- */

/* A value is the number of its change, again and again, and the key once. */
static size_t make_value(uint64_t key, uint64_t number, uint64_t value[40])
{
    size_t words = 2 + number % 30;
    value[0] = key;
    for (size_t i = 1; i < words; i++)
        value[i] = number;
    return words * sizeof(value[0]);
}

static void check_value(uint64_t key, const void *got, size_t bytes, uint64_t *inout_newest)
{
    uint64_t value[40], wanted[40];
    assert_true(bytes >= 16 && bytes <= sizeof(value));
    memcpy(value, got, bytes);
    assert_int_equal(make_value(key, value[1], wanted), bytes);
    assert_memory_equal(value, wanted, bytes);
    assert_true(value[1] >= *inout_newest); /* a reader never sees an older one again */
    *inout_newest = value[1];
}

static void *read_on(void *arg)
{
    struct shared *shared = arg;
    const struct tarn_fabric_region *region = &shared->testing.regions[0];
    uint64_t newest[KEYS] = {0};
    uint64_t hits = 0;
    struct cache_remote remote;
    struct base_random random;
    uint8_t data[READ_ROOM];
    base_random_init(&random, (uintptr_t)&random);
    tarn_fabric_mem_copy_out(region, 0, data, CACHE_REMOTE_HEADER_BYTES);
    assert_int_equal(cache_remote_open(data, region->bytes, &remote), 0);
    while (hits < HITS_MIN || !atomic_load(&shared->over)) {
        struct cache_remote_get get;
        struct tarn_record_info info;
        struct cache_stats stats;
        const void *value;
        uint64_t key = base_random_below(&random, KEYS);
        int error;
        assert_int_equal(cache_remote_begin(&get, &remote, &key, sizeof(key)), 0);
        do {
            assert_true(get.bytes <= sizeof(data));
            tarn_fabric_mem_copy_out(region, get.offset, data, get.bytes);
            tarn_fabric_mem_fence(); /* the next READ is posted when this one is complete */
            error = cache_remote_take(&get, data, TESTING_NOW, &value, &info);
        } while (error == -EINPROGRESS || error == -EAGAIN);
        if (error == 0) {
            check_value(key, value, info.value_bytes, &newest[key]);
            hits++;
        }
        cache_stats(shared->testing.partition, &stats);
        assert_true(stats.records <= KEYS);
    }
    atomic_fetch_add(&shared->finished, 1);
    return NULL;
}

static void change(struct shared *shared, struct base_random *random, uint64_t number)
{
    uint64_t value[40], key = base_random_below(random, KEYS);
    struct cache_partition *partition = shared->testing.partition;
    if (base_random_below(random, 10) == 0) {
        (void)!cache_delete(partition, &key, sizeof(key), TESTING_NOW);
    } else if (base_random_below(random, 10) == 0) {
        (void)!cache_touch(partition, &key, sizeof(key), 0, TESTING_NOW);
    } else {
        size_t bytes = make_value(key, number, value);
        assert_int_equal(cache_put(partition, &key, sizeof(key), value, bytes, NULL, TESTING_NOW, NULL), 0);
    }
}

static void test_clients_read_while_the_owner_changes(void **state base_unused)
{
    static struct shared shared;
    pthread_t readers[READERS];
    struct base_random random;
    base_random_init(&random, 5);
    testing_begin(&shared.testing, 8192, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, &shared), 0);
    uint64_t number = 1;
    for (; number <= CHANGES; number++)
        change(&shared, &random, number);
    atomic_store(&shared.over, true);
    while (atomic_load(&shared.finished) < READERS)
        change(&shared, &random, number++);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    cache_testing_end(&shared.testing);
}

/* ---- owners ------------------------------------------------------------------------------------------------------ */

struct owner {
    struct cache *cache;
    uint32_t number;
};

static void *own(void *arg)
{
    struct owner *owner = arg;
    struct cache_partition *partition = cache_partition(owner->cache, owner->number);
    for (uint64_t key = 0; key < CHANGES / 4; key++) {
        uint64_t got = 0;
        bool mine = cache_partition_of(cache_seed(owner->cache), cache_partitions(owner->cache), &key,
                                       sizeof(key)) == owner->number;
        assert_int_equal(cache_put(partition, &key, sizeof(key), &key, sizeof(key), NULL, TESTING_NOW, NULL),
                         mine ? 0 : -EXDEV);
        if (!mine)
            continue;
        assert_int_equal(cache_get(partition, &key, sizeof(key), TESTING_NOW, &got, sizeof(got), NULL), 0);
        assert_int_equal(got, key);
    }
    return NULL;
}

static void test_partitions_do_not_know_of_each_other(void **state base_unused)
{
    struct testing_cache testing;
    pthread_t threads[TESTING_PARTITIONS_MAX];
    struct owner owners[TESTING_PARTITIONS_MAX];
    cache_testing_open(&testing, cache_testing_node(), TESTING_PARTITIONS_MAX, 1 << 16, false, NULL, 5);
    for (uint32_t i = 0; i < TESTING_PARTITIONS_MAX; i++) {
        owners[i] = (struct owner){.cache = testing.cache, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, own, &owners[i]), 0);
    }
    for (uint32_t i = 0; i < TESTING_PARTITIONS_MAX; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    cache_testing_end(&testing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_read_while_the_owner_changes),
        cmocka_unit_test(test_partitions_do_not_know_of_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
