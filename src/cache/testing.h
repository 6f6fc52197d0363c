/* For the tests of this layer: a cache of one or more partitions, exported or not. */
#ifndef CACHE_TESTING_H
#define CACHE_TESTING_H

#include "base/testing.h"
#include "cache/cache_internal.h"

#define TESTING_SECOND         BASE_NS_PER_SECOND
#define TESTING_NOW            (1000 * TESTING_SECOND) /* civil time of most calls */
#define TESTING_PARTITIONS_MAX 4

struct testing_cache {
    struct tarn_node *node;
    struct cache *cache;
    struct cache_partition *partition; /* the first */
    bool exported;
    uint64_t bytes; /* of one partition */
    struct tarn_fabric_region regions[TESTING_PARTITIONS_MAX];
};

struct tarn_node *cache_testing_node(void);

/** Open a cache of a node. @param mem  how exported memory is touched; NULL: it is plain */
void cache_testing_open(struct testing_cache *testing, struct tarn_node *node, uint32_t partitions,
                        uint64_t bytes, bool exported, const struct tarn_fabric_mem_operations *mem,
                        uint64_t seed);

void cache_testing_close(struct testing_cache *testing);

/** One partition in a node of its own. */
void testing_begin(struct testing_cache *testing, uint64_t bytes, bool exported);

void cache_testing_end(struct testing_cache *testing);

/* ---- short forms, of text keys and values ----------------------------------------------------------------- */

int cache_testing_put(struct testing_cache *testing, const char *key, const char *value);

int testing_put_with(struct testing_cache *testing, const char *key, const char *value,
                     struct tarn_put_options options, uint64_t *ret_version);

void testing_expect_at(struct testing_cache *testing, const char *key, const char *value, uint64_t now_ns);

/** @param value  NULL: the key is not there */
void cache_testing_expect(struct testing_cache *testing, const char *key, const char *value);

struct cache_stats testing_stats(struct testing_cache *testing);

void cache_testing_check(struct testing_cache *testing);

/** For main(): what a test of EACH_WAY() is given, whether the partition is exported. */
#define TESTING_WAYS static bool plain = false, exported = true
/** The same test twice. */
#define EACH_WAY(test)                                                                                       \
    {#test " (plain)", test, NULL, NULL, &plain},                                                            \
    {                                                                                                        \
#test " (exported)", test, NULL, NULL, &exported                                                     \
    }

#endif
