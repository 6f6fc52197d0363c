/* Does a cache do what its header says, edges and errors included? */
#include "cache/testing.h"
#include <sys/mman.h>

enum { SMALL = 8192 };

/* ---- opening ---------------------------------------------------------------------------------------------- */

static int try_to_open(struct tarn_node *node, uint64_t bytes, uint32_t partitions)
{
    struct cache *cache;
    int error =
        cache_open(node, &(struct cache_options){.memory_bytes = bytes, .partitions = partitions}, &cache);
    if (error == 0)
        cache_close(cache);
    return error;
}

static void test_open_refuses_nonsense(void **state base_unused)
{
    struct tarn_node *node = cache_testing_node();
    assert_int_equal(try_to_open(node, 1 << 20, 0), -EINVAL);
    assert_int_equal(try_to_open(node, 1 << 20, 257), -EINVAL);
    assert_int_equal(try_to_open(node, 8191, 2), -EINVAL);
    assert_int_equal(try_to_open(node, 8192, 2), 0);
    assert_int_equal(try_to_open(node, UINT64_MAX, 1), -EFBIG);
    assert_int_equal(try_to_open(node, 16 << 20, 256), 0);
    task_node_close(node);
}

static void test_memory_is_charged_and_bounded(void **state base_unused)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR, .memory_bytes = 3 << 20};
    struct tarn_node *node;
    assert_int_equal(task_node_open(&options, &node), 0);
    uint64_t before = base_account_used(&node->memory);
    struct cache *cache;
    assert_int_equal(
        cache_open(node, &(struct cache_options){.memory_bytes = 2 << 20, .partitions = 4}, &cache), 0);
    uint64_t used = base_account_used(&node->memory) - before;
    assert_true(used >= 2 << 20 && used < (2 << 20) + 8192);
    assert_int_equal(try_to_open(node, 2 << 20, 4), -ENOMEM);
    for (uint32_t i = 0; i < 4; i++) { /* nothing is taken later */
        struct cache_partition *partition = cache_partition(cache, i);
        for (uint64_t key = 0; key < 100000; key++)
            (void)!cache_put(partition, &key, sizeof(key), &key, sizeof(key), NULL, TESTING_NOW, NULL);
    }
    assert_int_equal(base_account_used(&node->memory) - before, used);
    cache_close(cache);
    assert_int_equal(base_account_used(&node->memory), before);
    for (uint64_t n = 1; n <= 3; n++) {
        base_account_fail_at(&node->memory, n);
        assert_int_equal(try_to_open(node, 1 << 20, 2), -ENOMEM);
        base_account_fail_at(&node->memory, 0);
        assert_int_equal(base_account_used(&node->memory), before);
    }
    task_node_close(node);
}

static void test_seeds_are_drawn_or_given(void **state base_unused)
{
    struct tarn_node *node = cache_testing_node();
    struct cache *a, *b, *c;
    const struct cache_options drawn = {.memory_bytes = SMALL, .partitions = 1};
    const struct cache_options given = {.memory_bytes = SMALL, .partitions = 1, .seed = 17};
    assert_int_equal(cache_open(node, &drawn, &a), 0);
    assert_int_equal(cache_open(node, &drawn, &b), 0);
    assert_int_equal(cache_open(node, &given, &c), 0);
    assert_int_not_equal(cache_seed(a), cache_seed(b));
    assert_int_equal(cache_seed(c), 17);
    cache_close(a);
    cache_close(b);
    cache_close(c);
    task_node_close(node);
}

/* A region that was another cache's holds nothing for the next. */
static void test_a_region_may_be_used_again(void **state base_unused)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, true);
    struct tarn_fabric_region *region = &testing.regions[0];
    assert_int_equal(cache_testing_put(&testing, "k", "v"), 0);
    cache_close(testing.cache);
    const struct cache_options options = {.partitions = 1, .seed = 42, .item_bytes = 24, .regions = &region};
    assert_int_equal(cache_open(testing.node, &options, &testing.cache), 0);
    testing.partition = cache_partition(testing.cache, 0);
    cache_testing_expect(&testing, "k", NULL);
    cache_testing_check(&testing);
    region->bytes = CACHE_PARTITION_BYTES_MIN - 8;
    struct cache *other;
    assert_int_equal(cache_open(testing.node, &options, &other), -EINVAL);
    cache_testing_end(&testing);
}

/* Each key has one partition, which anybody with the seed can tell; the others refuse it. */
static void test_keys_belong_to_one_partition(void **state base_unused)
{
    struct testing_cache testing;
    cache_testing_open(&testing, cache_testing_node(), 3, 1 << 16, false, NULL, 5);
    unsigned counts[3] = {0};
    for (uint32_t key = 0; key < 3000; key++) {
        uint32_t owner =
            cache_partition_of(cache_seed(testing.cache), cache_partitions(testing.cache), &key, sizeof(key));
        counts[owner]++;
        for (uint32_t i = 0; i < 3; i++) {
            struct cache_partition *partition = cache_partition(testing.cache, i);
            int wanted = i == owner ? 0 : -EXDEV;
            struct cache_found found = {.key = &key, .key_len = sizeof(key)};
            assert_int_equal(cache_put(partition, &key, sizeof(key), "v", 1, NULL, TESTING_NOW, NULL),
                             wanted);
            assert_int_equal(cache_find(partition, TESTING_NOW, &found), wanted);
            assert_int_equal(cache_touch(partition, &key, sizeof(key), 0, TESTING_NOW), wanted);
            found.error = 1;
            cache_find_many(partition, TESTING_NOW, &found, 1);
            assert_int_equal(found.error, wanted);
        }
    }
    assert_true(counts[0] > 800 && counts[1] > 800 && counts[2] > 800);
    cache_testing_end(&testing);
}

/* ---- reading and storing ------------------------------------------------------------------------------------ */

static void test_put_get_delete(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    cache_testing_expect(&testing, "a", NULL);
    assert_int_equal(cache_testing_put(&testing, "a", "1"), 0);
    assert_int_equal(cache_testing_put(&testing, "b", ""), 0);
    cache_testing_expect(&testing, "a", "1");
    cache_testing_expect(&testing, "b", "");
    cache_testing_expect(&testing, "c", NULL);
    assert_int_equal(cache_testing_put(&testing, "a", "a longer value than before"), 0);
    cache_testing_expect(&testing, "a", "a longer value than before");
    assert_int_equal(cache_testing_put(&testing, "a", "short"), 0);
    cache_testing_expect(&testing, "a", "short");
    assert_int_equal(cache_delete(testing.partition, "a", 1, TESTING_NOW), 0);
    assert_int_equal(cache_delete(testing.partition, "a", 1, TESTING_NOW), -ENOENT);
    cache_testing_expect(&testing, "a", NULL);
    cache_testing_expect(&testing, "b", "");
    struct cache_stats stats = testing_stats(&testing);
    assert_int_equal(stats.gets, 8);
    assert_int_equal(stats.hits, 5);
    assert_int_equal(stats.puts, 4);
    assert_int_equal(stats.deletes, 1);
    assert_int_equal(stats.records, 1);
    assert_int_equal(stats.live_bytes, 40);
    cache_testing_end(&testing);
}

static void test_conditions(void **state)
{
    struct testing_cache testing;
    uint64_t version = 1, second = 1;
    testing_begin(&testing, SMALL, *(bool *)*state);
    const struct tarn_put_options absent = {.condition = TARN_PUT_IF_ABSENT};
    const struct tarn_put_options present = {.condition = TARN_PUT_IF_PRESENT};
    assert_int_equal(testing_put_with(&testing, "k", "0", present, &version), -ENOENT);
    assert_int_equal(testing_put_with(&testing, "k", "0",
                                      (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION}, &version),
                     -ENOENT);
    assert_int_equal(version, 1); /* untouched */
    cache_testing_expect(&testing, "k", NULL);
    assert_int_equal(testing_put_with(&testing, "k", "1", absent, &version), 0);
    assert_int_equal(testing_put_with(&testing, "k", "2", absent, NULL), -EEXIST);
    cache_testing_expect(&testing, "k", "1");
    assert_int_equal(testing_put_with(&testing, "k", "3", present, &second), 0);
    assert_true(second > version);
    struct tarn_put_options same = {.condition = TARN_PUT_IF_VERSION, .if_version = version};
    assert_int_equal(testing_put_with(&testing, "k", "4", same, NULL), -EEXIST);
    cache_testing_expect(&testing, "k", "3");
    same.if_version = second;
    assert_int_equal(testing_put_with(&testing, "k", "5", same, &version), 0);
    cache_testing_expect(&testing, "k", "5");
    assert_int_equal(
        testing_put_with(&testing, "k", "6", (struct tarn_put_options){.note = TARN_NOTE_MAX + 1}, NULL),
        -EINVAL);
    assert_int_equal(testing_put_with(&testing, "k", "6",
                                      (struct tarn_put_options){.condition = (enum tarn_put_condition)9},
                                      NULL),
                     -EINVAL);
    cache_testing_expect(&testing, "k", "5");
    assert_int_equal(
        testing_put_with(&testing, "k", "7", (struct tarn_put_options){.version = 12345}, &version), 0);
    assert_int_equal(version, 12345);
    cache_testing_end(&testing);
}

static void test_flags_and_notes_come_back(void **state)
{
    struct testing_cache testing;
    struct tarn_record_info info;
    testing_begin(&testing, SMALL, *(bool *)*state);
    const struct tarn_put_options options = {
        .client_flags = UINT32_MAX, .note = 3, .expiry_ns = TESTING_NOW + 5};
    assert_int_equal(testing_put_with(&testing, "k", "v", options, NULL), 0);
    assert_int_equal(cache_get(testing.partition, "k", 1, TESTING_NOW, NULL, 0, &info), -ENOBUFS);
    assert_int_equal(info.value_bytes, 1);
    assert_int_equal(info.client_flags, UINT32_MAX);
    assert_int_equal(info.note, 3);
    assert_int_equal(info.expiry_ns, TESTING_NOW + CACHE_EXPIRY_UNIT_NS); /* rounded up */
    char value = 'x';
    assert_int_equal(cache_get(testing.partition, "k", 1, TESTING_NOW, &value, 0, NULL), -ENOBUFS);
    assert_int_equal(value, 'x');
    cache_testing_end(&testing);
}

/* The longest key and value, and one byte more. */
static void test_lengths_at_their_borders(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, 6 << 20, *(bool *)*state);
    size_t most = CACHE_VALUE_BYTES_MAX;
    uint8_t *value = mmap(NULL, most + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *got = mmap(NULL, most + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static uint8_t key[TARN_KEY_BYTES_MAX + 1];
    struct base_random random;
    base_random_init(&random, 3);
    base_random_fill(&random, value, most + 1);
    base_random_fill(&random, key, sizeof(key));
    const size_t key_lens[] = {1, 2, 7, 8, 9, 250, 251, 65534, 65535};
    for (size_t i = 0; i < base_array_count(key_lens); i++) {
        assert_int_equal(cache_value_bytes_max(testing.partition, key_lens[i]), most);
        const size_t value_lens[] = {0, 1, 7, 8, 9, 4096, most - 1, most};
        for (size_t j = 0; j < base_array_count(value_lens); j++) {
            struct tarn_record_info info;
            assert_int_equal(
                cache_put(testing.partition, key, key_lens[i], value, value_lens[j], NULL, TESTING_NOW, NULL),
                0);
            assert_int_equal(cache_get(testing.partition, key, key_lens[i], TESTING_NOW, got, most, &info),
                             0);
            assert_int_equal(info.value_bytes, value_lens[j]);
            assert_memory_equal(got, value, value_lens[j]);
            cache_testing_check(&testing);
        }
        assert_int_equal(
            cache_put(testing.partition, key, key_lens[i], value, most + 1, NULL, TESTING_NOW, NULL),
            -EMSGSIZE);
        assert_int_equal(
            cache_put(testing.partition, key, key_lens[i], value, SIZE_MAX, NULL, TESTING_NOW, NULL),
            -EMSGSIZE);
        assert_int_equal(cache_get(testing.partition, key, key_lens[i], TESTING_NOW, got, most, NULL), 0);
        assert_memory_equal(got, value, most);
    }
    const size_t no_lens[] = {0, sizeof(key)};
    for (size_t i = 0; i < base_array_count(no_lens); i++) {
        struct tarn_get get = {.key = key, .key_len = no_lens[i]};
        assert_int_equal(cache_put(testing.partition, key, no_lens[i], value, 1, NULL, TESTING_NOW, NULL),
                         -EINVAL);
        assert_int_equal(cache_get(testing.partition, key, no_lens[i], TESTING_NOW, got, 1, NULL), -EINVAL);
        assert_int_equal(cache_delete(testing.partition, key, no_lens[i], TESTING_NOW), -EINVAL);
        cache_get_many(testing.partition, TESTING_NOW, &get, 1);
        assert_int_equal(get.error, -EINVAL);
    }
    munmap(value, most + 1);
    munmap(got, most + 1);
    cache_testing_end(&testing);
}

/* A partition that is too small for them takes shorter ones, and says how long. */
static void test_a_small_partition_says_what_it_takes(void **state)
{
    struct testing_cache testing;
    static uint8_t bytes[65535];
    testing_begin(&testing, SMALL, *(bool *)*state);
    uint64_t most = cache_value_bytes_max(testing.partition, 250);
    assert_true(most > 400 && most < SMALL / 4);
    assert_int_equal(cache_put(testing.partition, bytes, 250, bytes, most, NULL, TESTING_NOW, NULL), 0);
    assert_int_equal(cache_put(testing.partition, bytes, 250, bytes, most + 1, NULL, TESTING_NOW, NULL),
                     -EMSGSIZE);
    assert_int_equal(cache_get(testing.partition, bytes, 250, TESTING_NOW, bytes, most, NULL), 0);
    assert_int_equal(cache_value_bytes_max(testing.partition, 65535), 0);
    assert_int_equal(cache_put(testing.partition, bytes, 65535, bytes, 0, NULL, TESTING_NOW, NULL),
                     -EMSGSIZE);
    cache_testing_end(&testing);
}

static void test_find_shows_the_value_in_its_place(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_testing_put(&testing, "key", "the value"), 0);
    struct cache_found found = {.key = "key", .key_len = 3};
    assert_int_equal(cache_find(testing.partition, TESTING_NOW, &found), 0);
    assert_int_equal(found.info.value_bytes, 9);
    assert_memory_equal(found.value, "the value", 9);
    assert_true(cache_in_log(testing.partition, found.value));
    cache_testing_expect(&testing, "other", NULL); /* gets move nothing */
    assert_memory_equal(found.value, "the value", 9);
    found.key = "none", found.key_len = 4, found.value = NULL;
    assert_int_equal(cache_find(testing.partition, TESTING_NOW, &found), -ENOENT);
    assert_null(found.value);
    cache_testing_end(&testing);
}

/* Of several batches, with repeats, misses, keys that are none and buffers that are too short. */
static void test_get_many(void **state)
{
    enum { COUNT = 150 };
    struct testing_cache testing;
    testing_begin(&testing, 1 << 17, *(bool *)*state);
    static char keys[COUNT][16], values[COUNT][16];
    struct tarn_get gets[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int len = snprintf(keys[i], sizeof(keys[i]), "key%d", i / 2);
        gets[i] = (struct tarn_get){.key = keys[i],
                                    .key_len = i == 77 ? 0 : (size_t)len,
                                    .value = values[i],
                                    .value_room = i == 80 ? 2 : sizeof(values[i])};
        if (i % 4 < 2)
            assert_int_equal(cache_testing_put(&testing, keys[i], keys[i]), 0);
    }
    uint64_t gets_before = testing_stats(&testing).gets;
    cache_get_many(testing.partition, TESTING_NOW, gets, COUNT);
    for (int i = 0; i < COUNT; i++) {
        int wanted = i == 77 ? -EINVAL : i % 4 >= 2 ? -ENOENT : i == 80 ? -ENOBUFS : 0;
        assert_int_equal(gets[i].error, wanted);
        if (wanted == 0 || wanted == -ENOBUFS)
            assert_int_equal(gets[i].info.value_bytes, strlen(keys[i]));
        if (wanted == 0)
            assert_string_equal(values[i], keys[i]);
    }
    assert_int_equal(testing_stats(&testing).gets - gets_before, COUNT - 1);
    cache_get_many(testing.partition, TESTING_NOW, gets, 0);
    cache_testing_end(&testing);
}

/* To ask for memory early changes nothing, whatever the keys are. */
static void test_prefetch_changes_nothing(void **state)
{
    struct testing_cache testing;
    struct cache_found found[100];
    static uint32_t keys[100];
    testing_begin(&testing, SMALL, *(bool *)*state);
    cache_flush(testing.partition, TESTING_NOW + 1, TESTING_NOW);
    for (uint32_t i = 0; i < 100; i++) {
        keys[i] = i;
        found[i] =
            (struct cache_found){.key = &keys[i], .key_len = i % 9 == 0 ? 0 : sizeof(keys[i]), .error = 17};
        if (i % 2 == 0)
            assert_int_equal(cache_put(testing.partition, &i, sizeof(i), "v", 1, NULL, TESTING_NOW, NULL), 0);
    }
    struct cache_stats before = testing_stats(&testing), after;
    for (size_t count = 0; count <= 100; count++)
        cache_prefetch(testing.partition, found, count);
    after = testing_stats(&testing);
    assert_memory_equal(&before, &after, sizeof(before));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(found[i].error, 17);
    cache_testing_check(&testing);
    cache_testing_end(&testing);
}

/* ---- time ---------------------------------------------------------------------------------------------------- */

static void test_expiry_and_touch(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    const uint64_t end_ns = TESTING_NOW + TESTING_SECOND;
    uint64_t version;
    struct tarn_record_info info;
    assert_int_equal(
        testing_put_with(&testing, "k", "v", (struct tarn_put_options){.expiry_ns = end_ns}, &version), 0);
    testing_expect_at(&testing, "k", "v", end_ns - 1);
    testing_expect_at(&testing, "k", NULL, end_ns);
    assert_int_equal(testing_stats(&testing).expired, 1);
    assert_int_equal(cache_touch(testing.partition, "k", 1, end_ns + TESTING_SECOND, end_ns - 1), 0);
    testing_expect_at(&testing, "k", "v", end_ns);
    assert_int_equal(cache_get(testing.partition, "k", 1, end_ns, NULL, 0, &info), -ENOBUFS);
    assert_int_equal(info.version, version); /* a touch keeps it */
    assert_int_equal(info.expiry_ns, end_ns + TESTING_SECOND);
    assert_int_equal(cache_touch(testing.partition, "k", 1, 0, end_ns + TESTING_SECOND), -ENOENT);
    assert_int_equal(cache_touch(testing.partition, "none", 4, 0, TESTING_NOW), -ENOENT);
    assert_int_equal(cache_touch(testing.partition, "k", 1, 0, end_ns), 0);
    testing_expect_at(&testing, "k", "v", UINT64_MAX - 1);
    assert_int_equal(testing_stats(&testing).touches, 2);
    cache_testing_end(&testing);
}

/* What has expired is absent for conditions, deletes and all else, and a new one takes its place. */
static void test_what_has_expired_is_not_there(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    struct tarn_put_options options = {.expiry_ns = TESTING_NOW};
    struct cache_count count = {.delta = 1};
    uint64_t version;
    assert_int_equal(testing_put_with(&testing, "k", "5", options, &version), 0);
    cache_testing_expect(&testing, "k", NULL);
    assert_int_equal(cache_delete(testing.partition, "k", 1, TESTING_NOW), -ENOENT);
    assert_int_equal(cache_append(testing.partition, "k", 1, "x", 1, false, TESTING_NOW, NULL), -ENOENT);
    assert_int_equal(cache_count(testing.partition, "k", 1, TESTING_NOW, &count), -ENOENT);
    options = (struct tarn_put_options){.condition = TARN_PUT_IF_PRESENT};
    assert_int_equal(testing_put_with(&testing, "k", "w", options, NULL), -ENOENT);
    options = (struct tarn_put_options){.condition = TARN_PUT_IF_VERSION, .if_version = version};
    assert_int_equal(testing_put_with(&testing, "k", "w", options, NULL), -ENOENT);
    options = (struct tarn_put_options){.condition = TARN_PUT_IF_ABSENT};
    assert_int_equal(testing_put_with(&testing, "k", "w", options, NULL), 0);
    cache_testing_expect(&testing, "k", "w");
    assert_int_equal(testing_stats(&testing).records, 1);
    cache_testing_end(&testing);
}

static void test_flush_now_and_later(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_testing_put(&testing, "a", "1"), 0);
    cache_flush(testing.partition, TESTING_NOW, TESTING_NOW);
    cache_testing_expect(&testing, "a", NULL);
    cache_testing_check(&testing);
    assert_int_equal(cache_testing_put(&testing, "a", "2"), 0);
    cache_testing_expect(&testing, "a", "2");
    cache_flush(testing.partition, TESTING_NOW + 10, TESTING_NOW);
    cache_flush(testing.partition, TESTING_NOW + 5, TESTING_NOW); /* replaces it */
    testing_expect_at(&testing, "a", "2", TESTING_NOW + 4);
    assert_int_equal(cache_testing_put(&testing, "b", "3"), 0);
    testing_expect_at(&testing, "a", NULL, TESTING_NOW + 5);
    testing_expect_at(&testing, "b", NULL, TESTING_NOW + 5);
    assert_int_equal(cache_testing_put(&testing, "a", "4"), 0);
    testing_expect_at(&testing, "a", "4", TESTING_NOW + 20); /* once */
    assert_int_equal(testing_stats(&testing).flushes, 2);
    cache_testing_end(&testing);
}

/* ---- eviction ------------------------------------------------------------------------------------------------ */

static void fill(struct testing_cache *testing, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        assert_int_equal(
            cache_put(testing->partition, &i, sizeof(i), "0123456789abcdef", 16, NULL, TESTING_NOW, NULL), 0);
}

static bool has(struct testing_cache *testing, unsigned key)
{
    struct cache_found found = {.key = &key, .key_len = sizeof(key)};
    return cache_find(testing->partition, TESTING_NOW, &found) == 0;
}

static void test_the_oldest_go_first(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, 1 << 16, *(bool *)*state);
    fill(&testing, 0, 20000);
    struct cache_stats stats = testing_stats(&testing);
    assert_int_equal(stats.records + stats.evictions_log + stats.evictions_index, 20000);
    assert_true(stats.records > 800 && stats.evictions_index < 20000 / 6);
    assert_true(stats.live_bytes <= stats.log_bytes);
    for (unsigned i = 0; i < 20000 - 1200; i++)
        assert_false(has(&testing, i));
    unsigned there = 0;
    for (unsigned i = 20000 - 800; i < 20000; i++)
        there += has(&testing, i);
    assert_true(there > 800 * 90 / 100);
    cache_testing_end(&testing);
}

/* Of a full bucket the oldest goes; keys that strangers choose to collide hurt each other alone. */
static void test_keys_that_collide_in_one_bucket(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, 1 << 16, *(bool *)*state);
    uint64_t *bucket = NULL;
    unsigned keys[60], count = 0;
    for (unsigned i = 0; count < base_array_count(keys); i++) {
        uint64_t hash = base_hash64(&i, sizeof(i), 42);
        if (bucket == NULL)
            bucket = cache_bucket(testing.partition, (uint32_t)hash);
        if (bucket == cache_bucket(testing.partition, (uint32_t)hash))
            keys[count++] = i;
    }
    assert_int_equal(cache_testing_put(&testing, "bystander", "1"), 0);
    assert_true(cache_bucket(testing.partition, (uint32_t)base_hash64("bystander", 9, 42)) != bucket);
    for (unsigned i = 0; i < count; i++) {
        fill(&testing, keys[i], keys[i] + 1);
        for (unsigned j = 0; j <= i; j++)
            assert_true(has(&testing, keys[j]) == (i - j < CACHE_BUCKET_ENTRIES));
        cache_testing_check(&testing);
    }
    assert_int_equal(testing_stats(&testing).evictions_index, count - CACHE_BUCKET_ENTRIES);
    fill(&testing, keys[count - 8], keys[count - 8] + 1); /* overwriting evicts nobody */
    assert_int_equal(testing_stats(&testing).evictions_index, count - CACHE_BUCKET_ENTRIES);
    cache_testing_expect(&testing, "bystander", "1");
    cache_testing_end(&testing);
}

/* Two keys with one tag in one bucket, by force: each gets its own value. */
static void test_equal_tags_are_told_apart_by_keys(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_int_equal(cache_testing_put(&testing, "a", "1"), 0);
    struct cache_place place;
    assert_int_equal(cache_look(testing.partition, "a", 1, &place), 0);
    uint64_t entry = cache_entry_load(&place.bucket[place.slot]);
    struct cache_place other;
    cache_look_among(testing.partition, "b", 1, place.hash, cache_bucket_match(place.bucket, place.hash),
                     &other);
    assert_int_equal(other.slot, CACHE_NONE);
    struct cache_record header = {.version = 1};
    const struct cache_value value = {.parts = {"2"}, .bytes = {1}};
    cache_record_store(testing.partition, &other, "b", 1, &header, &value, TESTING_NOW);
    uint32_t mask = cache_bucket_match(place.bucket, place.hash);
    assert_int_equal(__builtin_popcount(mask), 2);
    cache_look_among(testing.partition, "b", 1, place.hash, mask, &other);
    assert_int_not_equal(other.slot, place.slot);
    assert_memory_equal(cache_record_value(other.record, &other.header), "2", 1);
    assert_int_equal(cache_entry_load(&place.bucket[place.slot]), entry);
    cache_testing_expect(&testing, "a", "1");
    cache_record_remove(testing.partition, &other); /* its hash is not its key's */
    cache_testing_end(&testing);
}

static void test_what_expired_is_reclaimed_not_evicted(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    const struct tarn_put_options expired = {.expiry_ns = TESTING_NOW};
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(cache_put(testing.partition, &i, sizeof(i), "v", 1, &expired, TESTING_NOW, NULL), 0);
    struct cache_stats stats = testing_stats(&testing);
    assert_int_equal(stats.evictions_log + stats.evictions_index, 0);
    assert_int_equal(stats.reclaimed + stats.records, 1000);
    cache_testing_end(&testing);
}

/* In place where the new value fits, down to nothing and up to the old length; never if somebody may be reading. */
static void test_overwriting_in_place(void **state)
{
    struct testing_cache testing;
    bool exported = *(bool *)*state;
    testing_begin(&testing, SMALL, exported);
    assert_int_equal(cache_testing_put(&testing, "k", "0123456789012345678901234567890123456789"), 0);
    uint64_t tail = testing.partition->tail;
    assert_int_equal(cache_testing_put(&testing, "k", ""), 0);
    cache_testing_expect(&testing, "k", "");
    cache_testing_check(&testing);
    assert_int_equal(cache_testing_put(&testing, "k", "012345678901234567890123456789012345678x"), 0);
    cache_testing_expect(&testing, "k", "012345678901234567890123456789012345678x");
    cache_testing_check(&testing);
    assert_int_equal(testing.partition->tail == tail, !exported);
    assert_int_equal(testing_stats(&testing).in_place, exported ? 0 : 2);
    assert_int_equal(testing_stats(&testing).records, 1);
    cache_testing_end(&testing);
}

/* What is written again and again stays, however much else is. */
static void test_what_is_overwritten_stays_young(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, 1 << 16, *(bool *)*state);
    for (unsigned i = 0; i < 20000; i++) {
        if (i % 100 == 0) {
            if (i > 0)
                cache_testing_expect(&testing, "hot", "0123");
            assert_int_equal(cache_testing_put(&testing, "hot", "0123"), 0);
        }
        fill(&testing, i, i + 1);
    }
    cache_testing_end(&testing);
}

static void test_versions_never_repeat(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    uint64_t last = 0, version = 0;
    for (unsigned i = 0; i < 10000; i++) {
        unsigned key = i % 50;
        assert_int_equal(cache_put(testing.partition, &key, sizeof(key), "1", 1, NULL, TESTING_NOW, &version),
                         0);
        assert_true(version > last);
        last = version;
        if (i % 3 == 0) {
            assert_int_equal(
                cache_append(testing.partition, &key, sizeof(key), "0", 1, false, TESTING_NOW, &version), 0);
            assert_true(version > last);
            last = version;
        }
        if (i % 7 == 0)
            assert_int_equal(cache_delete(testing.partition, &key, sizeof(key), TESTING_NOW), 0);
        if (i % 1000 == 0)
            cache_flush(testing.partition, 0, TESTING_NOW);
    }
    cache_testing_end(&testing);
    testing_begin(&testing, SMALL, *(bool *)*state); /* nor after a restart */
    assert_int_equal(testing_put_with(&testing, "k", "v", (struct tarn_put_options){.note = 0}, &version), 0);
    assert_true(version > last);
    cache_testing_end(&testing);
}

/* ---- one at a time -------------------------------------------------------------------------------------------- */

static int decide_by_calling(void *arg, const struct tarn_record_info *old base_unused,
                             const void *value base_unused, struct tarn_update *update base_unused)
{
    cache_testing_expect(arg, "k", NULL);
    return -ENOENT;
}

static void call_within_a_call(void *arg)
{
    struct testing_cache *testing = arg;
    (void)!cache_update(testing->partition, "k", 1, decide_by_calling, testing, TESTING_NOW, NULL);
}

static void test_two_calls_at_a_time_abort(void **state)
{
    struct testing_cache testing;
    testing_begin(&testing, SMALL, *(bool *)*state);
    assert_true(testing_aborts(call_within_a_call, &testing));
    cache_testing_end(&testing);
}

/* The checker sees what is wrong: each of these is one invariant broken. */
static void test_the_checker_sees(void **state base_unused)
{
    struct testing_cache testing;
    struct cache_place place;
    testing_begin(&testing, SMALL, true);
    assert_int_equal(cache_testing_put(&testing, "a", "1"), 0);
    assert_int_equal(cache_look(testing.partition, "a", 1, &place), 0);
    assert_null(cache_check(testing.partition));
    place.record[33] ^= 1; /* the value */
    assert_non_null(cache_check(testing.partition));
    place.record[33] ^= 1;
    place.record[5] ^= 1; /* its hash */
    assert_non_null(cache_check(testing.partition));
    place.record[5] ^= 1;
    uint64_t entry = place.bucket[place.slot];
    place.bucket[place.slot] ^= UINT64_C(1) << 40; /* a length class */
    assert_non_null(cache_check(testing.partition));
    place.bucket[place.slot] = 0;
    assert_non_null(cache_check(testing.partition));
    place.bucket[place.slot] = entry;
    place.bucket[(place.slot + 1) % 8] = entry;
    assert_non_null(cache_check(testing.partition));
    place.bucket[(place.slot + 1) % 8] = 0;
    testing.partition->counters.live_bytes++;
    assert_non_null(cache_check(testing.partition));
    testing.partition->counters.live_bytes--;
    testing.partition->tail -= 8;
    assert_non_null(cache_check(testing.partition));
    testing.partition->tail += 8;
    cache_testing_end(&testing);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

int main(void)
{
    TESTING_WAYS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_refuses_nonsense),
        cmocka_unit_test(test_memory_is_charged_and_bounded),
        cmocka_unit_test(test_seeds_are_drawn_or_given),
        cmocka_unit_test(test_a_region_may_be_used_again),
        cmocka_unit_test(test_keys_belong_to_one_partition),
        EACH_WAY(test_put_get_delete),
        EACH_WAY(test_conditions),
        EACH_WAY(test_flags_and_notes_come_back),
        EACH_WAY(test_lengths_at_their_borders),
        EACH_WAY(test_a_small_partition_says_what_it_takes),
        EACH_WAY(test_find_shows_the_value_in_its_place),
        EACH_WAY(test_get_many),
        EACH_WAY(test_prefetch_changes_nothing),
        EACH_WAY(test_expiry_and_touch),
        EACH_WAY(test_what_has_expired_is_not_there),
        EACH_WAY(test_flush_now_and_later),
        EACH_WAY(test_the_oldest_go_first),
        EACH_WAY(test_keys_that_collide_in_one_bucket),
        EACH_WAY(test_equal_tags_are_told_apart_by_keys),
        EACH_WAY(test_what_expired_is_reclaimed_not_evicted),
        EACH_WAY(test_overwriting_in_place),
        EACH_WAY(test_what_is_overwritten_stays_young),
        EACH_WAY(test_versions_never_repeat),
        EACH_WAY(test_two_calls_at_a_time_abort),
        cmocka_unit_test(test_the_checker_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
