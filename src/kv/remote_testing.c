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
    EACH(wrong_routing_is_mended)                                                                            \
    EACH(nothing_counts_twice)                                                                               \
    EACH(threads_and_tasks_share)

SUITE(TESTING_BOTH)

static const struct CMUnitTest kv_remote_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite kv_remote = TESTING_SUITE(kv_remote_tests);
