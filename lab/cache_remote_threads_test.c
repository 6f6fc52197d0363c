/* Real threads: clients that READ an exported cache while its owner changes it, and look at its counters. */
#include "base/testing_slow.h"
#include "cache/testing.h"
#include "lab/cache_remote.h"
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
    _Atomic uint32_t finished; /* number of readers that have ended */
};

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
    struct cache_header remote;
    struct base_random random;
    uint8_t data[READ_ROOM];
    base_random_init(&random, (uintptr_t)&random);
    tarn_fabric_mem_copy_out(region, 0, data, CACHE_HEADER_BYTES);
    assert_int_equal(cache_header_unpack(data, region->bytes, &remote), 0);
    while (hits < HITS_MIN || !atomic_load(&shared->over)) {
        struct lab_cache_get get;
        struct tarn_record_info info;
        struct cache_stats stats;
        const void *value;
        uint64_t key = base_random_below(&random, KEYS);
        int error;
        assert_int_equal(lab_cache_get_begin(&get, &remote, &key, sizeof(key)), 0);
        do {
            assert_true(get.bytes <= sizeof(data));
            tarn_fabric_mem_copy_out(region, get.offset, data, get.bytes);
            tarn_fabric_mem_fence(); /* the next READ is posted when this one is complete */
            error = lab_cache_get_take(&get, data, TESTING_NOW, &value, &info);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_read_while_the_owner_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
