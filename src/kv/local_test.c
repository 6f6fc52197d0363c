/* Stores in this process, and the URLs of all. */
#include "cache/cache.h"
#include "fabric/shm_testing.h"
#include "kv/front_testing.h"
#include <tarn/depot.h>

/* ---- depots ------------------------------------------------------------------------------------- */

static char depot_path[64];

static void open_depot(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(16) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    char url[80];
    (void)snprintf(depot_path, sizeof(depot_path), "/dev/shm/kv-test-%d.tarn", (int)getpid());
    (void)snprintf(url, sizeof(url), "file:%s", depot_path);
    (void)unlink(depot_path);
    assert_int_equal(tarn_kv_open(testing->node, url, &options, ret_kv), 0);
}

static void close_depot(struct testing_fabric *testing, struct tarn_kv *kv)
{
    struct tarn_kv *again;
    struct tarn_kv_info info;
    assert_int_equal(tarn_kv_put(kv, "last", 4, "words", 5, NULL, NULL), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    assert_int_equal(tarn_kv_open(testing->node, depot_path, NULL, &again), 0); /* a path is a URL, too */
    tarn_kv_info(again, &info);
    assert_string_equal(info.kind, "depot");
    assert_int_equal(info.abilities,
                     TARN_KV_DURABLE | TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS | TARN_KV_BATCHES);
    char value[5];
    assert_int_equal(tarn_kv_get(again, "last", 4, value, sizeof(value), NULL), 0);
    assert_memory_equal(value, "words", 5);
    assert_int_equal(tarn_kv_close(again), 0);
    assert_int_equal(unlink(depot_path), 0);
}

static int begin_depot(void **state)
{
    static const struct testing_kind kind = {.open = open_depot, .close = close_depot};
    testing_kind = &kind;
    return shm_testing_setup(state);
}

/* ---- caches ------------------------------------------------------------------------------------- */

static void open_cache(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    struct tarn_kv_info info;
    assert_int_equal(tarn_kv_open(testing->node, "cache:memory=32M,partitions=3,item=1K", NULL, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "cache");
    assert_int_equal(info.abilities, TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS);
    assert_int_equal(info.partitions, 3);
    assert_int_equal(info.value_bytes_max, 1 << 20);
}

static void close_cache(struct testing_fabric *testing, struct tarn_kv *kv)
{
    (void)testing;
    assert_int_equal(tarn_kv_close(kv), 0);
}

static int begin_cache(void **state)
{
    static const struct testing_kind kind = {.open = open_cache, .close = close_cache};
    testing_kind = &kind;
    return shm_testing_setup(state);
}

/* ---- hash stores -------------------------------------------------------------------------------- */

static void open_hash(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    struct tarn_kv_info info;
    assert_int_equal(tarn_kv_open(testing->node, "hash:memory=64M,filter=6,slots=1024", NULL, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "hash");
    assert_int_equal(info.abilities, TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS);
    assert_in_range(info.value_bytes_max, (1 << 20) - 100, 1 << 20);
}

static int begin_hash(void **state)
{
    static const struct testing_kind kind = {.open = open_hash, .close = close_cache};
    testing_kind = &kind;
    return shm_testing_setup(state);
}

/* ---- ordered stores ------------------------------------------------------------------------------ */

static void open_tree(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(64) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    struct tarn_kv_info info;
    char url[100];
    (void)snprintf(depot_path, sizeof(depot_path), "/dev/shm/kv-test-%d.tarn", (int)getpid());
    (void)snprintf(url, sizeof(url), "tree:path=%s,memory=64M", depot_path);
    (void)unlink(depot_path);
    assert_int_equal(tarn_kv_open(testing->node, url, &options, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "tree");
    assert_int_equal(info.abilities, TARN_KV_DURABLE | TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS |
                                         TARN_KV_ORDERED | TARN_KV_BATCHES);
}

static int begin_tree(void **state)
{
    static const struct testing_kind kind = {.open = open_tree, .close = close_depot, .key_bytes_max = 1024};
    testing_kind = &kind;
    return shm_testing_setup(state);
}

/* ---- what cannot be opened ---------------------------------------------------------------------- */

static void expect_url(struct base_log *log, const char *text, enum kv_scheme scheme, const char *address,
                       const char *name)
{
    struct kv_url url;
    char server[KV_ADDRESS_ROOM];
    assert_null(kv_url_wrong(text));
    assert_int_equal(kv_url_read(log, text, &url), 0);
    assert_int_equal(url.scheme, scheme);
    if (scheme == KV_FILE) {
        assert_string_equal(url.path, address);
        return;
    }
    kv_url_server(&url, url.servers - 1, server); /* the last one */
    assert_string_equal(server, address);
    assert_string_equal(url.name, name);
}

static void ignore_line(void *arg, enum base_log_level level, const char *line, size_t len)
{
    unsigned *lines = arg;
    assert_true(level == BASE_LOG_ERROR && line[len - 1] == '\n');
    ++*lines;
}

static void urls_are_read(void **state)
{
    static const char *const wrong[] = {
        "",
        "file:",
        "cache:",
        "cache:memory=",
        "cache:memory=0",
        "cache:memory=1x",
        "cache:partitions=2",
        "cache:memory=1M,partitions=0",
        "cache:memory=1M,partitions=257",
        "cache:memory=1M,item=0",
        "cache:memory=1M,item=4G",
        "cache:memory=1M,other=1",
        "cache:memory",
        "cache:memory=1M,,item=1K",
        "cache:memoryy=1M",
        "cache:memory=1M,partitions=11111111111111111111111111111111111111111111111111111111",
        "hash:",
        "hash:memory=0",
        "hash:memory=1023K",
        "hash:memory=64M,",
        "hash:memory=64M,,slots=64",
        "hash:memory=64M,slots=0",
        "hash:memory=64M,slots=1M",
        "hash:memory=64M,ranks=9",
        "hash:memory=64M,filter=12",
        "hash:memory=64M,partitions=2",
        "hash:memory=64M,store=s",
        "hash:memory=64M,secret=f",
        "hash:memory=64M,node=n",
        "hash:memory=64M?tcp:",
        "hash:space=a:1,namespace=n",
        "hash:space=,namespace=n,store=s",
        "hash:space=a:1,namespace=n,store=s,slots=64",
        "hash:space=a:1,b:2,namespace=n,store=s",
        "hash:space=a:1,namespace=n,store=012345678901234567890123456789012",
        "tarn://",
        "tarn://host:1",
        "tarn://host:1/",
        "tarn:///store",
        "tarn://host:1/a b",
        "unix:",
        "unix:store",
        "unix:/store",
        "unix:/a/",
        "unix:/a/0123456789012345678901234567890123456789012345678901234567890123",
        "tarn://host:1,/store",
        "tarn://,host:1/store",
        "tarn://host:1,,host:2/store",
        "tarn://host:1,host:2,host:1/store",
        "unix:/a\\,b,/a\\,b/store",
        "tarn://host:1/store?",
        "tarn://host:1/store?shm:",
        "tarn://host:1?tcp:/store",
        "tarn://host:1/?tcp:",
        "other:thing",
        "http://host/store"};
    unsigned lines = 0;
    const struct task_node_options options = {.log_sink = ignore_line, .log_arg = &lines};
    struct tarn_node *node;
    struct tarn_kv *kv;
    struct kv_url url;
    char text[600];
    (void)state;
    assert_int_equal(task_node_open(&options, &node), 0);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        assert_int_equal(tarn_kv_open(node, wrong[i], NULL, &kv), -EINVAL);
        assert_int_equal(lines, i + 1);
        assert_non_null(kv_url_wrong(wrong[i]));
    }
    (void)snprintf(text, sizeof(text), "tarn://%0*d/s", KV_ADDRESS_ROOM - 1, 1);
    assert_int_equal(kv_url_read(&node->log, text, &url), 0);
    (void)snprintf(text, sizeof(text), "tarn://%0*d/s", KV_ADDRESS_ROOM, 1);
    assert_int_equal(kv_url_read(&node->log, text, &url), -EINVAL);
    expect_url(&node->log, "file:/a/b:c", KV_FILE, "/a/b:c", NULL);
    expect_url(&node->log, "./b:c", KV_FILE, "./b:c", NULL);
    expect_url(&node->log, "C:x", KV_FILE, "C:x", NULL);
    expect_url(&node->log, "tarn://[::1]:7/my_Store-1.x", KV_TARN, "[::1]:7", "my_Store-1.x");
    expect_url(&node->log, "unix:/run/a.socket/s", KV_UNIX, "/run/a.socket", "s");
    expect_url(&node->log, "tarn://a:1,b:2,[::1]:3/s", KV_TARN, "[::1]:3", "s");
    expect_url(&node->log, "unix:/a,/b\\,c\\d/s", KV_UNIX, "/b,c\\d", "s");
    expect_url(&node->log, "tarn://a:1/s?tcp:secret=/a/b,tls", KV_TARN, "a:1", "s");
    assert_int_equal(kv_url_read(&node->log, "tarn://a:1/s?tcp:secret=/a/b,tls", &url), 0);
    assert_string_equal(url.fabric, "tcp:secret=/a/b,tls");
    assert_int_equal(kv_url_read(&node->log, "tarn://a:1/s", &url), 0);
    assert_null(url.fabric);
    expect_url(&node->log, "unix:/a?b/s", KV_UNIX, "/a?b", "s");
    (void)snprintf(text, sizeof(text), "tarn://h");
    for (unsigned i = 1; i <= KV_SERVERS_MAX; i++) {
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",%u", i);
        assert_int_equal(kv_url_read(&node->log, text, &url), -EINVAL);
    }
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "/s");
    assert_int_equal(kv_url_read(&node->log, text, &url), -EINVAL);
    memmove(text + 7, text + 9, strlen(text + 9) + 1); /* one less */
    assert_int_equal(kv_url_read(&node->log, text, &url), 0);
    assert_int_equal(url.servers, KV_SERVERS_MAX);
    assert_int_equal(kv_url_read(&node->log, "cache:item=2K,memory=3M,partitions=256", &url), 0);
    assert_true(url.memory_bytes == 3 << 20 && url.item_bytes == 2048 && url.partitions == 256);
    assert_int_equal(kv_url_read(&node->log, "cache:memory=3M", &url), 0);
    assert_int_equal(url.partitions, 1);
    assert_int_equal(
        kv_url_read(&node->log, "hash:space=a:1\\,b:2,namespace=n,store=s,memory=2M,ranks=4?tcp:tls", &url),
        0);
    assert_int_equal(url.scheme, KV_HASH);
    assert_string_equal(url.masters, "a:1,b:2");
    assert_string_equal(url.space_namespace, "n");
    assert_string_equal(url.name, "s");
    assert_string_equal(url.fabric, "tcp:tls");
    assert_true(url.memory_bytes == 2 << 20 && url.ranks == 4 && url.slots == 0 && url.filter_bits == 0);
    assert_int_equal(kv_url_read(&node->log, "hash:secret=/a\\,b,space=/m,namespace=n,node=m1,store=s", &url),
                     0);
    assert_string_equal(url.secret_path, "/a,b");
    assert_string_equal(url.node, "m1");
    assert_null(url.fabric);
    assert_int_equal(
        kv_url_read(&node->log, "hash:space=tarn://a:1\\,tarn://b:2\\,c:3,namespace=n,node=*,store=s", &url),
        0);
    assert_string_equal(url.masters, "a:1,b:2,c:3");
    assert_string_equal(url.fabric, "tcp:");
    assert_int_equal(kv_url_read(&node->log, "hash:space=unix:m.socket,namespace=n,store=s", &url), 0);
    assert_string_equal(url.masters, "m.socket");
    assert_string_equal(url.fabric, "shm:");
    assert_int_equal(kv_url_read(&node->log, "hash:space=unix:,namespace=n,store=s", &url), -EINVAL);
    assert_int_equal(kv_url_memory("hash:memory=64M"), 64 << 20);
    assert_int_equal(kv_url_memory("hash:space=/m,namespace=n,store=s,memory=2M"), 0);
    assert_int_equal(kv_url_memory("file:a"), 0);
    assert_int_equal(tarn_kv_open(node, "hash:memory=1M,slots=1048576", NULL, &kv), -EINVAL);
    assert_int_equal(tarn_kv_open(node, "cache:memory=4K,partitions=2", NULL, &kv), -EINVAL);
    assert_int_equal(tarn_kv_open(node, "file:/nowhere/at/all", NULL, &kv), -ENOENT);
    assert_int_equal(tarn_kv_open(node, "tarn://127.0.0.1:1/s?tcp:colour=red", NULL, &kv), -EINVAL);
    assert_int_equal(tarn_kv_open(node, "tarn://127.0.0.1:1/s?tcp:heartbeat=2s", NULL, &kv), -ECONNREFUSED);
    task_node_close(node);
}

static bool is_shown(void *arg, struct tarn_get *get, struct tarn_lease *lease)
{
    (void)arg;
    assert_int_equal(get->error, 0);
    assert_int_equal(lease->bytes, sizeof(uint64_t));
    return true;
}

/* The cache asserts that a partition has one owner at a time. */
static void *put_and_get(void *arg)
{
    struct tarn_kv *kv = arg;
    uint64_t number = 0, got[2];
    size_t bytes;
    for (unsigned i = 0; i < 15000; i++) {
        struct tarn_get get = {.key = "k", .key_len = 1, .value = got, .value_room = sizeof(got)};
        assert_int_equal(tarn_kv_put(kv, "k", 1, &number, sizeof(number), NULL, NULL), 0);
        assert_int_equal(tarn_kv_get(kv, "k", 1, got, sizeof(got), NULL), 0);
        assert_int_equal(tarn_kv_read(kv, "k", 1, 0, 0, got, sizeof(got), &bytes, NULL), 0);
        tarn_kv_get_many(kv, &get, 1);
        assert_int_equal(get.error, 0);
        assert_int_equal(kv_update(kv, "k", 1, count_one, &got[0], NULL), 0);
        assert_int_equal(kv_touch(kv, "k", 1, 0), 0);
        assert_int_equal(kv_get_each(kv, &get, 1, NULL, is_shown, NULL), 1);
        assert_int_equal(kv_flush(kv, UINT64_MAX - 1), 0);
    }
    return NULL;
}

static void a_partition_has_one_owner(void **state)
{
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct tarn_kv *kv;
    pthread_t threads[3];
    (void)state;
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(tarn_kv_open(node, "cache:memory=64K", NULL, &kv), 0);
    for (unsigned i = 0; i < base_array_count(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_get, kv), 0);
    for (unsigned i = 0; i < base_array_count(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    task_node_close(node);
}

/* Each allocation may fail: then nothing is left. */
static void no_memory_is_an_error(void **state)
{
    (void)state;
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    struct tarn_node *node;
    struct tarn_kv *kv;
    unsigned failures = 0;
    assert_int_equal(task_node_open(&options, &node), 0);
    for (;; failures++) {
        base_account_fail_at(&node->memory, failures + 1);
        int error = tarn_kv_open(node, "cache:memory=64K,partitions=2", NULL, &kv);
        base_account_fail_at(&node->memory, 0);
        if (error == 0)
            break;
        assert_int_equal(error, -ENOMEM);
    }
    assert_true(failures >= 3);
    assert_int_equal(tarn_kv_close(kv), 0);
    task_node_close(node);
}

/* Who has opened a cache has it still when the store is closed. */
static void a_cache_may_be_somebody_elses(void **state)
{
    (void)state;
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    const struct cache_options cache_options = {.memory_bytes = 64 << 10, .partitions = 2};
    struct tarn_record_info info;
    struct tarn_node *node;
    struct cache *cache;
    struct tarn_kv *kv;
    char value[8];
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(cache_open(node, &cache_options, &cache), 0);
    base_account_fail_at(&node->memory, 1);
    assert_int_equal(kv_wrap_cache(node, cache, &kv), -ENOMEM);
    base_account_fail_at(&node->memory, 2);
    assert_int_equal(kv_wrap_cache(node, cache, &kv), -ENOMEM);
    base_account_fail_at(&node->memory, 0);
    assert_int_equal(kv_wrap_cache(node, cache, &kv), 0);
    assert_int_equal(tarn_kv_put(kv, "key", 3, "value", 5, NULL, NULL), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    assert_int_equal(kv_wrap_cache(node, cache, &kv), 0);
    assert_int_equal(tarn_kv_get(kv, "key", 3, value, sizeof(value), &info), 0);
    assert_int_equal(info.value_bytes, 5);
    assert_int_equal(tarn_kv_close(kv), 0);
    cache_close(cache);
    task_node_close(node);
}

/* What a scan has taken from an account when a record is shown. */
struct testing_taken {
    struct base_account *account;
    uint64_t before_bytes, taken_bytes;
};

static int visit_taken(void *arg, const void *key, size_t key_len, const void *value,
                       const struct tarn_record_info *info)
{
    struct testing_taken *taken = arg;
    assert_int_equal(key_len, 3);
    assert_memory_equal(key, "key", 3);
    assert_memory_equal(value, "value", info->value_bytes);
    taken->taken_bytes = base_account_used(taken->account) - taken->before_bytes;
    return 0;
}

/* A scan takes room for the longest records of a bucket, however large the cache is. */
static void a_scan_of_a_large_cache_takes_little(void **state)
{
    (void)state;
    const struct task_node_options options = {.log_level = BASE_LOG_ERROR};
    const uint64_t most_bytes = CACHE_BUCKET_RECORDS * (uint64_t)(TARN_KEY_BYTES_MAX + CACHE_VALUE_BYTES_MAX);
    struct tarn_node *node;
    struct tarn_kv *kv;
    assert_int_equal(task_node_open(&options, &node), 0);
    assert_int_equal(tarn_kv_open(node, "cache:memory=64M", NULL, &kv), 0);
    assert_int_equal(tarn_kv_put(kv, "key", 3, "value", 5, NULL, NULL), 0);
    struct testing_taken taken = {.account = &node->memory, .before_bytes = base_account_used(&node->memory)};
    assert_int_equal(tarn_kv_scan(kv, visit_taken, &taken), 0);
    assert_in_range(taken.taken_bytes, 1, most_bytes);
    assert_int_equal(base_account_used(&node->memory), taken.before_bytes);
    assert_int_equal(tarn_kv_close(kv), 0);
    task_node_close(node);
}

int main(void)
{
    const struct testing_suite suites[] = {kv_conformance, kv_front, {0}};
    const struct CMUnitTest urls[] = {
        cmocka_unit_test(urls_are_read), cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(a_cache_may_be_somebody_elses), cmocka_unit_test(a_partition_has_one_owner),
        cmocka_unit_test(a_scan_of_a_large_cache_takes_little)};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("file", suites, NULL, begin_depot, NULL) +
           testing_run_suites("cache", suites, NULL, begin_cache, NULL) +
           testing_run_suites("hash", suites, NULL, begin_hash, NULL) +
           testing_run_suites("tree", suites, NULL, begin_tree, NULL) +
           cmocka_run_group_tests_name("urls", urls, NULL, NULL);
}
