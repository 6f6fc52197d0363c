/* For the tests of this layer: a cache of one or more partitions, exported or not. */
#ifndef CACHE_TESTING_H
#define CACHE_TESTING_H

#include "base/testing.h"
#include "cache/cache_internal.h"

#define TESTING_SECOND BASE_NS_PER_SECOND
#define TESTING_NOW    (1000 * TESTING_SECOND) /* civil time of most calls */

#define TESTING_PARTITIONS_MAX 4

struct testing_cache {
    struct tarn_node *node;
    struct cache *cache;
    struct cache_partition *partition; /* the first */
    bool exported;
    uint64_t bytes; /* of one partition */
    struct tarn_fabric_region regions[TESTING_PARTITIONS_MAX];
};

static inline struct tarn_node *testing_node(void)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    return node;
}

/** Open a cache of a node. @param mem  how exported memory is touched; NULL: it is plain */
static inline void testing_open(struct testing_cache *testing, struct tarn_node *node, uint32_t partitions,
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

static inline void testing_close(struct testing_cache *testing)
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

/** One partition in a node of its own. */
static inline void testing_begin(struct testing_cache *testing, uint64_t bytes, bool exported)
{
    testing_open(testing, testing_node(), 1, bytes, exported, NULL, 42);
}

static inline void testing_end(struct testing_cache *testing)
{
    testing_close(testing);
    task_node_close(testing->node);
}

/* ---- short forms, of text keys and values ----------------------------------------------------------------- */

static inline int testing_put(struct testing_cache *testing, const char *key, const char *value)
{
    return cache_put(testing->partition, key, strlen(key), value, strlen(value), NULL, TESTING_NOW, NULL);
}

static inline int testing_put_with(struct testing_cache *testing, const char *key, const char *value,
                                   struct tarn_put_options options, uint64_t *ret_version)
{
    return cache_put(testing->partition, key, strlen(key), value, strlen(value), &options, TESTING_NOW,
                     ret_version);
}

static inline void testing_expect_at(struct testing_cache *testing, const char *key, const char *value,
                                     uint64_t now_ns)
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

/** @param value  NULL: the key is not there */
static inline void testing_expect(struct testing_cache *testing, const char *key, const char *value)
{
    testing_expect_at(testing, key, value, TESTING_NOW);
}

static inline struct cache_stats testing_stats(struct testing_cache *testing)
{
    struct cache_stats stats;
    cache_stats(testing->partition, &stats);
    return stats;
}

static inline void testing_check(struct testing_cache *testing)
{
    const char *wrong = cache_check(testing->partition);
    assert_string_equal(wrong == NULL ? "" : wrong, "");
}

/** For main(): what a test of EACH_WAY() is given, whether the partition is exported. */
#define TESTING_WAYS static bool plain = false, exported = true

/** The same test twice. */
#define EACH_WAY(test)                                                                                       \
    {#test " (plain)", test, NULL, NULL, &plain},                                                            \
    {                                                                                                        \
#test " (exported)", test, NULL, NULL, &exported                                                     \
    }

#endif
