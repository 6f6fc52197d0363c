/* Real threads: several owners, each of a partition. */
#include "base/testing_slow.h"
#include "cache/testing.h"
#include <pthread.h>

enum { KEYS = TESTING_SLOW ? 12500 : 125000 };

struct owner {
    struct cache *cache;
    uint32_t number;
};

static void *own(void *arg)
{
    struct owner *owner = arg;
    struct cache_partition *partition = cache_partition(owner->cache, owner->number);
    for (uint64_t key = 0; key < KEYS; key++) {
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
        cmocka_unit_test(test_partitions_do_not_know_of_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
