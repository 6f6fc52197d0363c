/* For the tests of this layer: a cache of one or more partitions, exported or not. */
#include "cache/testing.h"

struct tarn_node *cache_testing_node(void)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

void cache_testing_open(struct testing_cache *testing, struct tarn_node *node, uint32_t partitions,
                        uint64_t bytes, bool exported, const struct tarn_fabric_mem_operations *mem,
                        uint64_t seed)
{
    struct tarn_fabric_region *regions[TESTING_PARTITIONS_MAX];
    *testing = (struct testing_cache){.node = node, .exported = exported, .bytes = bytes};
    for (uint32_t i = 0; i < partitions && exported; i++) {
        regions[i] = &testing->regions[i];
        *regions[i] = (struct tarn_fabric_region){.bytes = bytes, .mem = mem};
        regions[i]->memory = base_alloc_aligned(&node->memory, BASE_PAGE_BYTES, bytes);
        assert_non_null(regions[i]->memory);
    }
    const struct cache_options options = {.memory_bytes = partitions * bytes,
                                          .partitions = partitions,
                                          .item_bytes = 24,
                                          .seed = seed,
                                          .regions = exported ? regions : NULL};
    assert_int_equal(cache_open(node, &options, &testing->cache), 0);
    testing->partition = cache_partition(testing->cache, 0);
}

void cache_testing_close(struct testing_cache *testing)
{
    for (uint32_t i = 0; i < cache_partitions(testing->cache); i++) {
        const char *wrong = cache_check(cache_partition(testing->cache, i));
        assert_string_equal(wrong == NULL ? "" : wrong, "");
    }
    uint32_t partitions = cache_partitions(testing->cache);
    cache_close(testing->cache);
    for (uint32_t i = 0; i < partitions && testing->exported; i++)
        base_free(&testing->node->memory, testing->regions[i].memory, testing->bytes);
}

void testing_begin(struct testing_cache *testing, uint64_t bytes, bool exported)
{
    cache_testing_open(testing, cache_testing_node(), 1, bytes, exported, NULL, 42);
}

void cache_testing_end(struct testing_cache *testing)
{
    cache_testing_close(testing);
    task_node_close(testing->node);
}

/* ---- short forms, of text keys and values ----------------------------------------------------------------- */

int cache_testing_put(struct testing_cache *testing, const char *key, const char *value)
{
    return cache_put(testing->partition, key, strlen(key), value, strlen(value), NULL, TESTING_NOW, NULL);
}

int testing_put_with(struct testing_cache *testing, const char *key, const char *value,
                     struct tarn_put_options options, uint64_t *ret_version)
{
    return cache_put(testing->partition, key, strlen(key), value, strlen(value), &options, TESTING_NOW,
                     ret_version);
}

void testing_expect_at(struct testing_cache *testing, const char *key, const char *value, uint64_t now_ns)
{
    char got[2000] = "";
    struct tarn_record_info info = {.version = 0};
    int error = cache_get(testing->partition, key, strlen(key), now_ns, got, sizeof(got) - 1, &info);
    assert_int_equal(error, value == NULL ? -ENOENT : 0);
    if (value != NULL) {
        assert_int_equal(info.value_bytes, strlen(value));
        assert_string_equal(got, value);
    }
}

void cache_testing_expect(struct testing_cache *testing, const char *key, const char *value)
{
    testing_expect_at(testing, key, value, TESTING_NOW);
}

struct cache_stats testing_stats(struct testing_cache *testing)
{
    struct cache_stats stats;
    cache_stats(testing->partition, &stats);
    return stats;
}

void cache_testing_check(struct testing_cache *testing)
{
    const char *wrong = cache_check(testing->partition);
    assert_string_equal(wrong == NULL ? "" : wrong, "");
}
