/* Stores of servers: what only they can meet. Servers that go and come, and change; threads and tasks that share. */
#include "kv/remote_testing.h"
#include "rpc/connection.h"
#include <tarn/depot.h>

/* ---- servers that go and come ------------------------------------------------------------------- */

/* They are for stores of the same process. */
static void front_ends_are_refused(struct testing_fabric *testing)
{
    struct testing_kv *self = testing_kv_open(testing);
    struct kv_stats stats;
    assert_false(kv_is_local(self->kv));
    assert_null(kv_depot_of(self->kv));
    assert_int_equal(kv_update(self->kv, "k", 1, NULL, NULL, NULL), -EOPNOTSUPP);
    assert_int_equal(kv_touch(self->kv, "k", 1, 0), -EOPNOTSUPP);
    assert_int_equal(kv_flush(self->kv, 0), -EOPNOTSUPP);
    assert_int_equal(kv_stats(self->kv, &stats), -EOPNOTSUPP);
    testing_kv_close(self);
}

static void what_is_not_there_cannot_be_opened(struct testing_fabric *testing)
{
    struct testing_server server;
    struct tarn_kv *kv;
    int error = testing_reach(testing, "depot", 0, &kv);
    assert_true(error == -ECONNREFUSED || error == -ENOENT);
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "other", 0, &kv), -ENXIO);
    testing_serve_no_more(&server);
}

static void a_server_that_has_gone_is_not_reached(struct testing_fabric *testing)
{
    struct testing_server server;
    struct tarn_get gets[2] = {{.key = "a", .key_len = 1}, {.key = "b", .key_len = 1}};
    struct tarn_kv *kv;
    char value[8];
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "depot", 60 * BASE_NS_PER_SECOND, &kv), 0);
    base_container_of(kv, struct kv_remote, kv)->timeout_ns = 30 * BASE_NS_PER_MS;
    kv_server_close(server.server);
    server.server = NULL;
    assert_int_equal(tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL), -EHOSTUNREACH);
    assert_int_equal(tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL), -EHOSTUNREACH);
    tarn_kv_get_many(kv, gets, 2);
    assert_true(gets[0].error == -EHOSTUNREACH && gets[1].error == -EHOSTUNREACH);
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&server);
}

/* It has memory for short requests alone: long ones fail with that reason, and the others go on. */
static void a_server_without_memory_says_so(struct testing_fabric *testing)
{
    static uint8_t value[100000];
    struct testing_server server = {.testing = testing,
                                    .memory_bytes = 4 * (TASK_STACK_BYTES + RPC_SMALL_SHARE)};
    struct tarn_kv *kv;
    testing_serve_there(testing, &server);
    assert_int_equal(testing_reach(testing, "depot", 60 * BASE_NS_PER_SECOND, &kv), 0);
    assert_int_equal(tarn_kv_put(kv, "k", 1, value, 100, NULL, NULL), 0);
    base_container_of(kv, struct kv_remote, kv)->timeout_ns = 30 * BASE_NS_PER_MS;
    int error;
    do
        error = tarn_kv_put(kv, "k", 1, value, sizeof(value), NULL, NULL);
    while (error == -EHOSTUNREACH); /* on a busy machine the server may not have refused by then */
    assert_int_equal(error, -ENOMEM);
    base_container_of(kv, struct kv_remote, kv)->timeout_ns = 60 * BASE_NS_PER_SECOND;
    assert_int_equal(tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&server);
}

void a_url_names_its_fabric(struct testing_fabric *testing)
{
    const struct tarn_kv_options given = {.fabric = testing_clients(testing)};
    const char *fabric =
        testing->subject->client_url != NULL ? testing->subject->client_url : testing->subject->url;
    const bool is_named = strcmp(testing_scheme, "tarn://") == 0;
    struct testing_server server;
    struct tarn_kv *kv;
    char url[300];
    testing_serve_both(testing, &server);
    (void)snprintf(url, sizeof(url), "%s%s/cache%s%s", testing_scheme, testing->address, is_named ? "?" : "",
                   is_named ? fabric : "");
    assert_int_equal(tarn_kv_open(testing->node, url, NULL, &kv), 0);
    assert_string_equal(tarn_fabric_info(base_container_of(kv, struct kv_remote, kv)->fabric)->provider,
                        tarn_fabric_info(testing->fabric)->provider);
    assert_int_equal(tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    if (is_named)
        assert_int_equal(tarn_kv_open(testing->node, url, &given, &kv), -EINVAL);
    testing_serve_no_more(&server);
}

/* Stores change places, a cache gets other partitions and another seed: nothing goes to the wrong one. */
static void a_server_comes_back_changed(struct testing_fabric *testing)
{
    struct testing_server server;
    struct tarn_kv *depot, *cache, *other;
    char key[16], value[8];
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "depot", 20 * BASE_NS_PER_SECOND, &depot), 0);
    assert_int_equal(testing_reach(testing, "cache", 20 * BASE_NS_PER_SECOND, &cache), 0);
    assert_int_equal(tarn_kv_put(depot, "k", 1, "depot", 5, NULL, NULL), 0);
    assert_int_equal(tarn_kv_open(testing->node, "cache:memory=1M,partitions=7", NULL, &other), 0);
    kv_server_close(server.server);
    const struct kv_served changed[] = {{"more", server.cache}, {"cache", other}, {"depot", server.depot}};
    testing_listen(&server, changed, 3);
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof(key), "key-%u", i);
        int error = tarn_kv_put(cache, key, strlen(key), "x", 1, NULL, NULL);
        assert_true(error == 0 || (i == 0 && error == -ECONNRESET));
        if (error == 0) {
            assert_int_equal(tarn_kv_get(cache, key, strlen(key), value, sizeof(value), NULL), 0);
            assert_int_equal(tarn_kv_get(other, key, strlen(key), value, sizeof(value), NULL), 0);
        }
    }
    assert_int_equal(tarn_kv_get(depot, "k", 1, value, sizeof(value), NULL), 0);
    assert_memory_equal(value, "depot", 5);
    kv_server_close(server.server);
    const struct kv_served kinds[] = {{"depot", other}};
    testing_listen(&server, kinds, 1);
    assert_int_equal(tarn_kv_get(depot, "k", 1, value, sizeof(value), NULL), -ENXIO);
    assert_int_equal(tarn_kv_get(cache, "k", 1, value, sizeof(value), NULL), -ENXIO);
    assert_int_equal(tarn_kv_close(depot), 0);
    assert_int_equal(tarn_kv_close(cache), 0);
    kv_server_close(server.server);
    server.server = NULL;
    assert_int_equal(tarn_kv_close(other), 0);
    testing_serve_no_more(&server);
}

/* A tree at a server shows ranges page by page. */
static void a_tree_has_ranges(struct testing_fabric *testing)
{
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(16) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    struct testing_server server = {.testing = testing};
    struct testing_kv *self = calloc(1, sizeof(*self));
    struct tarn_kv *tree;
    char url[100];
    assert_non_null(self);
    (void)snprintf(server.path, sizeof(server.path), "/dev/shm/kv-test-tree-%d.tarn", (int)getpid());
    (void)snprintf(url, sizeof(url), "tree:path=%s,memory=16M", server.path);
    assert_int_equal(tarn_kv_open(testing->node, url, &options, &tree), 0);
    testing_listen(&server, &(const struct kv_served){"tree", tree}, 1);
    assert_int_equal(testing_reach(testing, "tree", 60 * BASE_NS_PER_SECOND, &self->kv), 0);
    tarn_kv_info(self->kv, &self->info);
    assert_string_equal(self->info.kind, "tree");
    assert_int_equal(self->info.abilities, TARN_KV_DURABLE | TARN_KV_SCANS | TARN_KV_RANGES |
                                               TARN_KV_VERSIONS | TARN_KV_REMOTE | TARN_KV_ORDERED |
                                               TARN_KV_BATCHES);
    kv_testing_expect_ranges(self);
    kv_testing_expect_batches(self);
    assert_int_equal(tarn_kv_close(self->kv), 0);
    kv_server_close(server.server);
    assert_int_equal(tarn_kv_close(tree), 0);
    assert_int_equal(unlink(server.path), 0);
    free(self);
}

/* ---- trees that clients read by themselves -------------------------------------------------------- */

enum { READ_KEYS = 64, READ_ROUNDS = 16, READ_CLIENTS = 3 };

/* A tree that is changed and read at once. */
struct testing_reads {
    struct tarn_kv *tree, *kvs[READ_CLIENTS]; /* at its server; of clients, by the way that they go */
    struct testing_server server;
    uint32_t value_bytes;
    _Atomic uint64_t stored[READ_KEYS]; /* numbers of values of which it is known that they were stored */
    _Atomic bool ends;
};

static size_t name_key(unsigned number, char *key)
{
    return (size_t)snprintf(
        key, 300, "%s%05u%.*s", number % 5 == 0 ? "a-long-beginning-of-a-key-" : "", number,
        (int)(number % 7 == 0 ? 100 : 0),
        "----------------------------------------------------------------------------------------"
        "------------");
}

static void open_reads(struct testing_fabric *testing, struct testing_reads *reads)
{
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(64) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    char url[200];
    *reads = (struct testing_reads){.server = {.testing = testing}, .value_bytes = 2000};
    (void)snprintf(reads->server.path, sizeof(reads->server.path), "/dev/shm/kv-test-reads-%d.tarn",
                   (int)getpid());
    (void)snprintf(url, sizeof(url), "tree:path=%s,memory=48M", reads->server.path);
    assert_int_equal(tarn_kv_open(testing->node, url, &options, &reads->tree), 0);
    testing_listen(&reads->server, &(const struct kv_served){"tree", reads->tree}, 1);
    for (unsigned i = 0; i < READ_CLIENTS; i++) {
        const struct tarn_kv_options client = {.fabric = testing_clients(testing),
                                               .timeout_ns = 60 * BASE_NS_PER_SECOND,
                                               .way = (enum tarn_kv_way)i,
                                               .selector = {.exploration = 0.3},
                                               .node_cache_bytes =
                                                   i == TARN_KV_WAY_READ ? TARN_CACHE_OFF : 0};
        (void)snprintf(url, sizeof(url), "%s%s/tree", testing_scheme, testing->address);
        assert_int_equal(tarn_kv_open(testing->node, url, &client, &reads->kvs[i]), 0);
    }
}

static void close_reads(struct testing_reads *reads)
{
    for (unsigned i = 0; i < READ_CLIENTS; i++)
        assert_int_equal(tarn_kv_close(reads->kvs[i]), 0);
    kv_server_close(reads->server.server);
    assert_int_equal(tarn_kv_close(reads->tree), 0);
    assert_int_equal(unlink(reads->server.path), 0);
}

/* Value `number` of a key, in each of its words. */
static void put_number(struct testing_reads *reads, struct tarn_kv *kv, unsigned key_number, uint64_t number)
{
    uint64_t words[READ_KEYS * 40];
    char key[300];
    const size_t bytes = (size_t)8 * (1 + (number * 7 + key_number) % (reads->value_bytes / 8));
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = number;
    assert_int_equal(tarn_kv_put(kv, key, name_key(key_number, key), words, bytes, NULL, NULL), 0);
}

/* @return the number; 0: the key is not there */
static uint64_t get_number(const struct testing_reads *reads, struct tarn_kv *kv, unsigned key_number)
{
    uint64_t words[READ_KEYS * 40];
    struct tarn_record_info info;
    char key[300];
    int error = tarn_kv_get(kv, key, name_key(key_number, key), words, reads->value_bytes, &info);
    if (error != -ENOENT)
        assert_int_equal(error, 0);
    if (error != 0)
        return 0;
    assert_true(info.version != 0 && info.value_bytes % 8 == 0);
    for (size_t i = 1; i < info.value_bytes / 8; i++)
        assert_int_equal(words[i], words[0]);
    return words[0];
}

/* Whatever the way, a client finds what was stored before, also by others, and in memory that was taken since. */
static void trees_are_read_by_clients(struct testing_fabric *testing)
{
    struct testing_reads reads;
    struct tarn_kv_reads told;
    struct tarn_put_options expires = {.expiry_ns = UINT64_MAX / 2};
    struct tarn_record_info info;
    char value[8], key[300];
    open_reads(testing, &reads);
    for (unsigned way = 0; way < READ_CLIENTS; way++)
        assert_int_equal(get_number(&reads, reads.kvs[way], 1), 0);
    for (unsigned number = 1; number < 8000; number++) {
        put_number(&reads, number % 3 == 0 ? reads.tree : reads.kvs[number % READ_CLIENTS], number, number);
        if (number % 16 == 0)
            for (unsigned way = 0; way < READ_CLIENTS; way++)
                assert_int_equal(get_number(&reads, reads.kvs[way], number), number);
    }
    for (unsigned way = 0; way < READ_CLIENTS; way++) {
        assert_int_equal(tarn_kv_put(reads.tree, "e", 1, "expires", 7, &expires, NULL), 0);
        assert_int_equal(tarn_kv_get(reads.kvs[way], "e", 1, value, sizeof(value), &info), 0);
        assert_true(info.expiry_ns != 0 && memcmp(value, "expires", 7) == 0);
        assert_int_equal(tarn_kv_get(reads.kvs[way], "e", 1, value, 3, &info), -ENOBUFS);
        assert_int_equal(info.value_bytes, 7);
        for (unsigned number = way + 1; number < 8000; number += 500) {
            assert_int_equal(tarn_kv_delete(reads.tree, key, name_key(number, key)), 0);
            assert_int_equal(get_number(&reads, reads.kvs[way], number), 0);
        }
    }
    assert_int_equal(tarn_kv_reads(reads.kvs[TARN_KV_WAY_READ], &told), 0);
    assert_true(told.is_shared && told.searched > 500 && told.asked == 0 && told.reads > told.searched &&
                told.cached == 0);
    assert_true(told.fallbacks < told.searched / 4);
    assert_int_equal(tarn_kv_reads(reads.kvs[TARN_KV_WAY_ASK], &told), 0);
    assert_int_equal(told.searched, 0);
    assert_int_equal(tarn_kv_reads(reads.kvs[TARN_KV_WAY_ADAPTIVE], &told), 0);
    assert_true(told.searched > 0 && told.asked > 0 && told.explored > 0 && told.cached > 0);
    assert_int_equal(tarn_kv_reads(reads.tree, &told), -EOPNOTSUPP);

    kv_server_close(reads.server.server); /* the same store is served again: it is found again */
    testing_listen(&reads.server, &(const struct kv_served){"tree", reads.tree}, 1);
    for (unsigned way = 0; way < READ_CLIENTS; way++)
        assert_int_equal(get_number(&reads, reads.kvs[way], 16), 16);
    close_reads(&reads);
}

/* Store numbers that grow, and now and then nothing. Each writer has keys of its own. */
static void change_numbers(struct testing_reads *reads, unsigned first)
{
    char key[300];
    for (uint64_t number = 1; number <= READ_ROUNDS; number++) {
        for (unsigned i = first; i < READ_KEYS; i += 2) {
            struct tarn_kv *kv = i % 4 < 2 ? reads->tree : reads->kvs[i % READ_CLIENTS];
            put_number(reads, kv, i, number);
            atomic_store(&reads->stored[i], number);
            if (number % 8 == 5 && i % 8 >= 6)
                assert_int_equal(tarn_kv_delete(kv, key, name_key(i, key)), 0);
        }
    }
}

static void change_even(void *arg)
{
    change_numbers(arg, 0);
}

static void change_odd(void *arg)
{
    change_numbers(arg, 1);
}

/* See that no key goes back, and that nothing is missing that nobody has removed. */
static void watch_numbers(struct testing_reads *reads, struct tarn_kv *kv)
{
    uint64_t seen[READ_KEYS] = {0};
    while (!atomic_load(&reads->ends)) {
        for (unsigned i = 0; i < READ_KEYS; i++) {
            const bool is_removed = i % 8 >= 6;
            const uint64_t stored = atomic_load(&reads->stored[i]), number = get_number(reads, kv, i);
            assert_true(number >= seen[i] || (is_removed && number == 0));
            assert_true(number >= stored || (is_removed && number == 0));
            seen[i] = base_max(seen[i], number);
            (void)task_sleep(200000); /* writers and the server are to get on */
        }
    }
}

static void watch_adaptive(void *arg)
{
    struct testing_reads *reads = arg;
    watch_numbers(reads, reads->kvs[TARN_KV_WAY_ADAPTIVE]);
}

static void watch_reading(void *arg)
{
    struct testing_reads *reads = arg;
    watch_numbers(reads, reads->kvs[TARN_KV_WAY_READ]);
}

/* A range that is compared with what was stored before it began. */
struct testing_range {
    const struct testing_reads *reads;
    uint64_t stored[READ_KEYS];
    bool seen[READ_KEYS];
    char last[300];
    size_t last_len;
};

static int see_number(void *arg, const void *key, size_t key_len, const void *value,
                      const struct tarn_record_info *info)
{
    struct testing_range *range = arg;
    const uint64_t *words = value;
    char name[300];
    const size_t common = base_min(key_len, range->last_len);
    const int order = memcmp(range->last, key, common);
    assert_true(order < 0 || (order == 0 && range->last_len < key_len));
    memcpy(range->last, key, key_len);
    range->last_len = key_len;
    for (unsigned i = 0; i < READ_KEYS; i++) {
        if (name_key(i, name) != key_len || memcmp(name, key, key_len) != 0)
            continue;
        uint64_t first;
        assert_non_null(value);
        memcpy(&first, words, 8);
        assert_true(!range->seen[i] && first >= range->stored[i] && info->value_bytes % 8 == 0);
        range->seen[i] = true;
        return 0;
    }
    assert_true(false);
    return -EUCLEAN;
}

static void watch_ranges(void *arg)
{
    struct testing_reads *reads = arg;
    while (!atomic_load(&reads->ends)) {
        struct testing_range range = {.reads = reads};
        for (unsigned i = 0; i < READ_KEYS; i++)
            range.stored[i] = atomic_load(&reads->stored[i]);
        assert_int_equal(tarn_kv_range(reads->kvs[TARN_KV_WAY_READ], &(struct tarn_kv_range){.limit = 0},
                                       see_number, &range),
                         0);
        for (unsigned i = 0; i < READ_KEYS; i++)
            assert_true(range.seen[i] || range.stored[i] == 0 || i % 8 >= 6);
        (void)task_sleep(2000000);
    }
}

static int take_any(void *arg, const void *key, size_t key_len, const void *value,
                    const struct tarn_record_info *info)
{
    (void)arg;
    (void)key;
    assert_true(key_len == 4 && (value != NULL || info->value_bytes == 0));
    return 0;
}

/* Ranges by READs are those that are asked for. */
static void ranges_of_trees_are_read_by_clients(struct testing_fabric *testing)
{
    struct testing_reads reads;
    struct tarn_kv_reads before, after;
    struct testing_kv *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    open_reads(testing, &reads);
    for (unsigned way = 0; way < READ_CLIENTS; way++) {
        self->kv = reads.kvs[way];
        tarn_kv_info(self->kv, &self->info);
        kv_testing_expect_ranges(self);
        assert_int_equal(tarn_kv_reads(self->kv, &before), 0);
        assert_int_equal(tarn_kv_range(self->kv,
                                       &(struct tarn_kv_range){.from = "0100", .from_len = 4, .limit = 300},
                                       take_any, NULL),
                         0);
        assert_int_equal(tarn_kv_reads(self->kv, &after), 0);
        assert_true(way == TARN_KV_WAY_ADAPTIVE ||
                    (after.searched - before.searched >= 5) == (way == TARN_KV_WAY_READ));
        assert_int_equal(tarn_kv_delete(self->kv, "0000", 4), 0); /* the suite begins without keys */
        for (unsigned i = 1; i < 1000; i++) {
            char key[8];
            (void)snprintf(key, sizeof(key), "%04u", i);
            (void)!tarn_kv_delete(self->kv, key, 4);
        }
    }
    free(self);
    close_reads(&reads);
}

static void trees_are_read_while_they_change(struct testing_fabric *testing)
{
    struct testing_reads reads;
    struct testing_job writers[2], watchers[5];
    open_reads(testing, &reads);
    testing_start(testing, &watchers[0], 0, watch_reading, &reads);
    testing_start(testing, &watchers[1], 1, watch_adaptive, &reads);
    testing_start_thread(testing, &watchers[2], watch_reading, &reads);
    testing_start(testing, &watchers[3], 0, watch_ranges, &reads);
    testing_start_thread(testing, &watchers[4], watch_ranges, &reads);
    testing_start(testing, &writers[0], 0, change_even, &reads);
    testing_start_thread(testing, &writers[1], change_odd, &reads);
    testing_join(&writers[0]);
    testing_join(&writers[1]);
    atomic_store(&reads.ends, true);
    for (unsigned i = 0; i < base_array_count(watchers); i++)
        testing_join(&watchers[i]);
    for (unsigned way = 0; way < READ_CLIENTS; way++)
        for (unsigned i = 0; i < READ_KEYS; i++)
            assert_int_equal(get_number(&reads, reads.kvs[way], i),
                             get_number(&reads, reads.kvs[TARN_KV_WAY_ASK], i));
    close_reads(&reads);
}

/* ---- routing -------------------------------------------------------------------------------------- */

/* Who routes wrongly is told so, and asks. */
static void wrong_routing_is_mended(struct testing_fabric *testing)
{
    struct testing_server server;
    struct tarn_kv *kv;
    struct kv_lane *lane;
    struct tarn_get gets[20];
    char key[16], keys[20][16], value[8];
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "cache", 20 * BASE_NS_PER_SECOND, &kv), 0);
    struct kv_remote *remote = base_container_of(kv, struct kv_remote, kv);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(kv_lane_take(remote, TESTING_LATE, &lane), 0);
        lane->seed ^= 1;
        kv_lane_give(lane);
        (void)snprintf(key, sizeof(key), "key-%u", i);
        assert_int_equal(tarn_kv_put(kv, key, strlen(key), "x", 1, NULL, NULL), 0);
        assert_int_equal(tarn_kv_get(server.cache, key, strlen(key), value, sizeof(value), NULL), 0);
    }
    for (unsigned i = 0; i < base_array_count(gets); i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%u", i);
        gets[i] = (struct tarn_get){.key = keys[i], .key_len = strlen(keys[i])};
    }
    assert_int_equal(kv_lane_take(remote, TESTING_LATE, &lane), 0);
    lane->seed ^= 1;
    kv_lane_give(lane);
    tarn_kv_get_many(kv, gets, base_array_count(gets));
    for (unsigned i = 0; i < base_array_count(gets); i++)
        assert_int_equal(gets[i].error, -ENOBUFS);
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&server);
}

/* Counting while the server goes and comes: what is unknown may count, all else counts once. */
struct testing_restarts {
    struct tarn_kv *kv;
    _Atomic unsigned done, unknown;
    _Atomic bool ends;
};

static void count_through(void *arg)
{
    struct testing_restarts *restarts = arg;
    while (!restarts->ends) {
        struct tarn_put_options options = {.condition = TARN_PUT_IF_VERSION};
        struct tarn_record_info info;
        uint64_t number;
        assert_int_equal(tarn_kv_get(restarts->kv, "n", 1, &number, sizeof(number), &info), 0);
        options.if_version = info.version;
        number++;
        int error = tarn_kv_put(restarts->kv, "n", 1, &number, sizeof(number), &options, NULL);
        assert_true(error == 0 || error == -EEXIST || error == -ECONNRESET);
        restarts->done += error == 0;
        restarts->unknown += error == -ECONNRESET;
    }
}

static void nothing_counts_twice(struct testing_fabric *testing)
{
    struct testing_restarts restarts = {.done = 0};
    struct testing_server server;
    struct testing_job jobs[3];
    uint64_t number = 0;
    testing_serve_both(testing, &server);
    const struct kv_served stores[] = {{"depot", server.depot}, {"cache", server.cache}};
    assert_int_equal(testing_reach(testing, "cache", 60 * BASE_NS_PER_SECOND, &restarts.kv), 0);
    assert_int_equal(tarn_kv_put(restarts.kv, "n", 1, &number, sizeof(number), NULL, NULL), 0);
    for (unsigned i = 0; i < base_array_count(jobs); i++)
        testing_start(testing, &jobs[i], 0, count_through, &restarts);
    for (unsigned round = 0; round < 5; round++) {
        const unsigned before = restarts.done;
        while (restarts.done < before + 20)
            (void)task_sleep(BASE_NS_PER_MS);
        kv_server_close(server.server);
        testing_listen(&server, stores, 2);
    }
    restarts.ends = true;
    for (unsigned i = 0; i < base_array_count(jobs); i++)
        testing_join(&jobs[i]);
    assert_int_equal(tarn_kv_get(restarts.kv, "n", 1, &number, sizeof(number), NULL), 0);
    assert_true(number >= restarts.done && number <= restarts.done + restarts.unknown);
    assert_int_equal(tarn_kv_close(restarts.kv), 0);
    testing_serve_no_more(&server);
}

/* Threads and tasks use one store, and a task closes what threads have used. */
static void use_store(void *arg)
{
    struct tarn_kv *kv = arg;
    char value[8];
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL), 0);
}

static void threads_and_tasks_share(struct testing_fabric *testing)
{
    struct testing_server server;
    struct testing_job jobs[2 * KV_THREAD_LANES];
    struct tarn_kv *kv;
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "cache", 60 * BASE_NS_PER_SECOND, &kv), 0);
    assert_int_equal(tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL), 0);
    for (unsigned i = 0; i < base_array_count(jobs); i++) {
        if (i % 4 == 3)
            testing_start(testing, &jobs[i], i, use_store, kv);
        else
            testing_start_thread(testing, &jobs[i], use_store, kv);
    }
    for (unsigned i = 0; i < base_array_count(jobs); i++)
        testing_join(&jobs[i]);
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&server);
}

#define SUITE(EACH)                                                                                          \
    EACH(front_ends_are_refused)                                                                             \
    EACH(what_is_not_there_cannot_be_opened)                                                                 \
    EACH(a_server_that_has_gone_is_not_reached)                                                              \
    EACH(a_server_without_memory_says_so)                                                                    \
    EACH(a_url_names_its_fabric)                                                                             \
    EACH(a_server_comes_back_changed)                                                                        \
    EACH(a_tree_has_ranges)                                                                                  \
    EACH(trees_are_read_by_clients)                                                                          \
    EACH(ranges_of_trees_are_read_by_clients)                                                                \
    EACH(trees_are_read_while_they_change)                                                                   \
    EACH(wrong_routing_is_mended)                                                                            \
    EACH(nothing_counts_twice)                                                                               \
    EACH(threads_and_tasks_share)

SUITE(TESTING_BOTH)

static const struct CMUnitTest kv_remote_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite kv_remote = TESTING_SUITE(kv_remote_tests);
