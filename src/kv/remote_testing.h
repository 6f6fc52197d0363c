/* Stores of servers: the suite of all stores, and what only they can meet. For the tests of each fabric. */
#ifndef KV_REMOTE_TESTING_H
#define KV_REMOTE_TESTING_H

#include "fabric/fabric.h"
#include "kv/conformance_testing.h"
#include "kv/remote.h"
#include "kv/service.h"

/* A server in this process, on the schedulers that are not the client's, or on threads of its own. */
struct testing_server {
    struct testing_fabric *testing;
    struct kv_server *server;
    struct tarn_kv *depot, *cache;
    char path[64];
    char address[108]; /* "": the test's */
};

static struct testing_server testing_server; /* of the suite */
static const char *testing_scheme;           /* "tarn://" or "unix:" */

static inline void testing_listen(struct testing_server *self, const struct kv_served *stores, uint32_t count)
{
    const struct tarn_node *node = self->testing->node;
    const struct tarn_rpc_serve_options options = {.workers = 2};
    const bool has_scheds = self->testing->tasks != NULL; /* others' may be servers' own */
    const char *address = self->address[0] != '\0' ? self->address : self->testing->address;
    assert_int_equal(kv_serve(self->testing->fabric, address, stores, count, &options,
                              has_scheds ? &node->scheds[1] : NULL, TASK_TESTING_SCHEDS - 1, &self->server),
                     0);
}

/** Make a depot and a cache, and serve them. @param self  its address counts */
static inline void testing_serve_there(struct testing_fabric *testing, struct testing_server *self)
{
    static unsigned number;
    const struct tarn_depot_options depot = {.create_bytes = UINT64_C(8) << 20, .mode = TARN_MODE_ASYNC};
    const struct tarn_kv_options options = {.depot = &depot};
    self->testing = testing;
    (void)snprintf(self->path, sizeof(self->path), "/dev/shm/kv-test-%d-%u.tarn", (int)getpid(), number++);
    assert_int_equal(tarn_kv_open(testing->node, self->path, &options, &self->depot), 0);
    assert_int_equal(tarn_kv_open(testing->node, "cache:memory=24M,partitions=4,item=1K", NULL, &self->cache),
                     0);
    const struct kv_served stores[] = {{"depot", self->depot}, {"cache", self->cache}};
    testing_listen(self, stores, 2);
}

static inline void testing_serve_both(struct testing_fabric *testing, struct testing_server *self)
{
    *self = (struct testing_server){.testing = testing};
    testing_serve_there(testing, self);
}

static inline void testing_serve_no_more(struct testing_server *self)
{
    if (self->server != NULL)
        kv_server_close(self->server);
    assert_int_equal(tarn_kv_close(self->cache), 0);
    assert_int_equal(tarn_kv_close(self->depot), 0);
    assert_int_equal(unlink(self->path), 0);
}

/** Open a store of servers. @param addresses  with commas between @return as tarn_kv_open() */
static inline int testing_reach_at(struct testing_fabric *testing, const char *addresses, const char *name,
                                   uint64_t timeout_ns, struct tarn_kv **ret_kv)
{
    const struct tarn_kv_options options = {.fabric = testing_clients(testing), .timeout_ns = timeout_ns};
    char url[600];
    assert_true(snprintf(url, sizeof(url), "%s%s/%s", testing_scheme, addresses, name) < (int)sizeof(url));
    return tarn_kv_open(testing->node, url, &options, ret_kv);
}

/** Open a store of the server. @return as tarn_kv_open() */
static inline int testing_reach(struct testing_fabric *testing, const char *name, uint64_t timeout_ns,
                                struct tarn_kv **ret_kv)
{
    return testing_reach_at(testing, testing->address, name, timeout_ns, ret_kv);
}

/* ---- the suite ---------------------------------------------------------------------------------- */

static void open_remote_depot(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    testing_serve_both(testing, &testing_server);
    assert_int_equal(testing_reach(testing, "depot", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
}

static void open_remote_cache(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    struct tarn_kv_info info;
    testing_serve_both(testing, &testing_server);
    assert_int_equal(testing_reach(testing, "cache", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "cache");
    assert_int_equal(info.abilities, TARN_KV_RANGES | TARN_KV_VERSIONS | TARN_KV_REMOTE);
    assert_int_equal(info.partitions, 4);
}

static void close_remote(struct testing_fabric *testing, struct tarn_kv *kv)
{
    (void)testing;
    assert_int_equal(tarn_kv_close(kv), 0);
    testing_serve_no_more(&testing_server);
}

static const struct testing_kind testing_remote_depot = {.open = open_remote_depot, .close = close_remote};
static const struct testing_kind testing_remote_cache = {.open = open_remote_cache, .close = close_remote};

/* ---- servers that go and come ------------------------------------------------------------------- */

/* They are for stores of the same process. */
static void front_doors_are_refused(struct testing_fabric *testing)
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

/* A URL may say by which fabric, if nobody else does. */
static void a_url_names_its_fabric(struct testing_fabric *testing)
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

/* Who routes wrongly is told so, and asks. */
static void wrong_routing_is_mended(struct testing_fabric *testing)
{
    struct testing_server server;
    struct tarn_kv *kv;
    struct kv_lane *lane;
    char key[16];
    testing_serve_both(testing, &server);
    assert_int_equal(testing_reach(testing, "cache", 20 * BASE_NS_PER_SECOND, &kv), 0);
    struct kv_remote *remote = base_container_of(kv, struct kv_remote, kv);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(kv_lane_take(remote, TESTING_SECONDS(60), &lane), 0);
        lane->seed ^= 1;
        kv_lane_give(lane);
        (void)snprintf(key, sizeof(key), "key-%u", i);
        assert_int_equal(tarn_kv_put(kv, key, strlen(key), "x", 1, NULL, NULL), 0);
        assert_int_equal(tarn_kv_delete(server.cache, key, strlen(key)), 0);
    }
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

/* ---- servers that are none ---------------------------------------------------------------------- */

enum { ANSWER_RUBBISH, ANSWER_LITTLE, ANSWER_NEVER, ANSWER_LONG };

/* A service that says of itself what the real one would, and else something else. */
struct testing_liar {
    _Atomic int mode;
    _Atomic unsigned calls;
    _Atomic unsigned ends; /* so many calls end their connection instead */
    _Atomic bool goes_on;  /* who has ended one may return, though no other has come */
    bool is_depot;
    struct tarn_node *node;
};

static int lie(void *arg, struct tarn_rpc_request *request)
{
    struct testing_liar *liar = arg;
    uint8_t *result = request->result;
    const unsigned call = ++liar->calls;
    if (liar->ends > 0) {
        liar->ends--;
        fabric_connection_end(rpc_fabric_connection(request->connection), "a test ends it", -ECONNABORTED);
        while (!liar->goes_on && liar->calls == call) /* or the answer might come before the end */
            (void)task_sleep(BASE_NS_PER_MS);
        return 0;
    }
    if (liar->mode == ANSWER_LONG) {
        const struct tarn_get get = {.info = {.version = 1, .value_bytes = 200}};
        for (uint32_t i = 0; i < 2; i++)
            kv_got_save(&get, result + (size_t)i * (KV_ITEM_BYTES + 200));
        request->result_bytes = 2 * (KV_ITEM_BYTES + 200);
        return 0;
    }
    while (liar->mode == ANSWER_NEVER)
        (void)task_sleep(BASE_NS_PER_MS);
    memset(result, 0, base_min(request->room, 4096U));
    request->result_bytes = (uint32_t)task_rng(liar->node) % base_min(request->room + 1, 200U);
    for (uint32_t i = 0; i < request->result_bytes && liar->mode == ANSWER_RUBBISH; i++)
        result[i] = (uint8_t)(task_rng(liar->node) % 3 == 0 ? task_rng(liar->node) : 0);
    return 0;
}

static int lie_well(void *arg, struct tarn_rpc_request *request)
{
    const struct testing_liar *liar = arg;
    const struct kv_store_info info = {.stores = 1,
                                       .workers = 1,
                                       .name = "depot",
                                       .name_len = 5,
                                       .info = {.kind = liar->is_depot ? kv_kind_depot : kv_kind_cache,
                                                .abilities = TARN_KV_SCANS,
                                                .partitions = 1,
                                                .value_bytes_max = 100000,
                                                .whole_bytes_max = 1000}};
    kv_info_save(&info, request->result);
    request->result_bytes = KV_INFO_BYTES + 5;
    return 0;
}

static int visit_any(void *arg, const void *key, size_t key_len, const void *value,
                     const struct tarn_record_info *info)
{
    unsigned *sum = arg;
    *sum += ((const uint8_t *)key)[key_len - 1];
    if (value != NULL && info->value_bytes > 0)
        *sum += ((const uint8_t *)value)[info->value_bytes - 1];
    return 0;
}

static void be_lied_to(struct tarn_kv *kv, struct testing_liar *liar)
{
    struct tarn_get gets[3];
    unsigned failures = 0, sum = 0;
    uint8_t value[3][300];
    size_t bytes;
    for (unsigned round = 0; round < 300; round++) {
        for (unsigned i = 0; i < 3; i++)
            gets[i] = (struct tarn_get){.key = &"abc"[i], .key_len = 1, .value = value[i], .value_room = 300};
        liar->mode = round % 2 == 0 ? ANSWER_RUBBISH : ANSWER_LITTLE;
        failures += tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL) == -EPROTO;
        failures += tarn_kv_get(kv, "k", 1, value[0], sizeof(value[0]), NULL) == -EPROTO;
        failures += tarn_kv_read(kv, "k", 1, 0, 100, value[0], sizeof(value[0]), &bytes, NULL) == -EPROTO;
        failures += tarn_kv_scan(kv, visit_any, &sum) == -EPROTO;
        tarn_kv_get_many(kv, gets, 3);
        failures += gets[2].error == -EPROTO;
    }
    assert_true(failures > 1000);
}

/* What a server did not answer is not asked twice, if that could do something twice. */
static void lose_answers(struct tarn_kv *kv, struct testing_liar *liar)
{
    const struct tarn_put_options options = {.condition = TARN_PUT_IF_ABSENT};
    uint8_t value[8];
    liar->mode = ANSWER_LITTLE;
    for (unsigned i = 0; i < 3; i++) {
        liar->calls = 0;
        liar->goes_on = false;
        liar->ends = 1;
        int error = i == 0   ? tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL)
                    : i == 1 ? tarn_kv_put(kv, "k", 1, "v", 1, &options, NULL)
                             : tarn_kv_delete(kv, "k", 1);
        assert_int_equal(error, -ECONNRESET);
        assert_int_equal(liar->calls, 1);
        liar->goes_on = true;
    }
    liar->calls = 0;
    liar->goes_on = false;
    liar->ends = 3;
    assert_int_equal(tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL), -EPROTO);
    assert_int_equal(liar->calls, 4);
}

static void with_liar(struct testing_fabric *testing, bool is_depot,
                      void (*function)(struct tarn_kv *kv, struct testing_liar *liar))
{
    struct tarn_rpc_method methods[KV_SHORT + KV_METHODS];
    struct testing_liar liar = {.is_depot = is_depot, .node = testing->node};
    const struct tarn_rpc_service service = {
        .methods = methods, .count = base_array_count(methods), .arg = &liar};
    const struct tarn_rpc_serve_options options = {.result_bytes_max = 1 << 19, .request_bytes_max = 1 << 19};
    const bool has_scheds = testing->tasks != NULL;
    struct tarn_rpc_server *server;
    struct tarn_kv *kv;
    for (unsigned i = 0; i < base_array_count(methods); i++)
        methods[i] = (struct tarn_rpc_method){.name = "lie", .function = i == KV_INFO ? lie_well : lie};
    if (has_scheds)
        assert_int_equal(rpc_serve(testing->fabric, testing->address, &service, &options,
                                   &testing->node->scheds[1], 1, &server),
                         0);
    else
        assert_int_equal(tarn_rpc_serve(testing->fabric, testing->address, &service, &options, &server), 0);
    assert_int_equal(testing_reach(testing, "depot", 20 * BASE_NS_PER_SECOND, &kv), 0);
    function(kv, &liar);
    assert_int_equal(tarn_kv_close(kv), 0);
    tarn_rpc_server_close(server);
}

/* More than there is room for. */
static void be_told_too_much(struct tarn_kv *kv, struct testing_liar *liar)
{
    struct tarn_get gets[4];
    uint8_t values[4][200];
    memset(values, 0xee, sizeof(values));
    for (unsigned i = 0; i < 4; i++)
        gets[i] = (struct tarn_get){
            .key = &"abcd"[i], .key_len = 1, .value = values[i], .value_room = i < 2 ? 10 : 200};
    liar->mode = ANSWER_LONG; /* the first items lie; their room is that of all */
    tarn_kv_get_many(kv, gets, 4);
    assert_int_equal(gets[0].error, -EPROTO);
    for (unsigned i = 10; i < 200; i++)
        assert_int_equal(values[0][i], 0xee);
}

/* A store whose value is another one each time that it is read. */
static int read_anew(struct tarn_kv *kv, const void *key, size_t key_len, uint64_t if_version,
                     uint64_t offset, void *data, size_t data_room, size_t *ret_bytes,
                     struct tarn_record_info *ret_info)
{
    (void)kv;
    (void)key;
    (void)key_len;
    if (if_version != 0)
        return -ESTALE;
    memset(data, 1, data_room);
    *ret_bytes = data_room;
    *ret_info = (struct tarn_record_info){.version = offset + 1, .value_bytes = 4 << 20};
    return 0;
}

static void parts_are_of_one_value(struct testing_fabric *testing)
{
    static const struct kv_operations operations = {.read = read_anew};
    struct tarn_kv changing = {.operations = &operations, .node = testing->node};
    changing.info = (struct tarn_kv_info){.kind = kv_kind_depot, .partitions = 1, .value_bytes_max = 8 << 20};
    struct testing_server server = {.testing = testing};
    const struct kv_served store = {"changing", &changing};
    const size_t room = 3 << 20;
    uint8_t *value = malloc(room);
    struct tarn_kv *kv;
    size_t bytes;
    assert_non_null(value);
    testing_listen(&server, &store, 1);
    assert_int_equal(testing_reach(testing, "changing", 20 * BASE_NS_PER_SECOND, &kv), 0);
    assert_int_equal(tarn_kv_read(kv, "k", 1, 0, 0, value, 1000, &bytes, NULL), 0);
    assert_int_equal(tarn_kv_read(kv, "k", 1, 0, 0, value, room, &bytes, NULL), -ESTALE);
    assert_int_equal(tarn_kv_close(kv), 0);
    kv_server_close(server.server);
    free(value);
}

static void liars_do_no_harm(struct testing_fabric *testing)
{
    with_liar(testing, true, be_lied_to);
    with_liar(testing, false, be_lied_to);
    with_liar(testing, true, be_told_too_much);
}

static void nothing_is_done_twice(struct testing_fabric *testing)
{
    with_liar(testing, true, lose_answers);
}

/* ---- clients that lie about their memory -------------------------------------------------------- */

enum { REGION_BYTES = 3 << 20 };

/* A connection made by hand, and a region that it exports. */
struct testing_export {
    struct tarn_rpc_connection *rpc;
    struct tarn_fabric_region *region;
    struct tarn_fabric_handle handle; /* that is said to be its */
};

static struct tarn_fabric_region **_Atomic testing_revoked; /* before the second READ */

static void testing_export_open(struct testing_fabric *testing, struct testing_export *self)
{
    const struct tarn_rpc_connect_options options = {.calls = 1, .request_bytes = 1024, .worker = 0};
    assert_int_equal(rpc_connect(testing_clients(testing), testing->address, &options, REGION_BYTES,
                                 TESTING_SECONDS(60), &self->rpc),
                     0);
    assert_int_equal(tarn_fabric_region_alloc(rpc_fabric_domain(self->rpc), REGION_BYTES,
                                              TARN_FABRIC_MAY_READ, &self->region),
                     0);
    self->handle = self->region->handle;
}

static void testing_export_close(struct testing_export *self)
{
    if (self->region != NULL)
        tarn_fabric_region_free(self->region);
    tarn_rpc_disconnect(self->rpc);
}

/* Have the server store what the handle names. */
static int testing_export_put(struct testing_export *self, uint64_t offset, uint64_t bytes)
{
    uint8_t data[200], result[8];
    const struct kv_request request = {.key = "x",
                                       .key_len = 1,
                                       .amount = 3,
                                       .value = "end",
                                       .offset = offset,
                                       .region_bytes = bytes,
                                       .handle = self->handle};
    struct tarn_rpc_call call = {.method = KV_PUT_REGION,
                                 .request = data,
                                 .request_bytes = (uint32_t)kv_request_bytes(KV_PUT_REGION, &request),
                                 .result = result,
                                 .room = sizeof(result),
                                 .deadline_ns = TESTING_SECONDS(60)};
    kv_request_save(KV_PUT_REGION, &request, data);
    return tarn_rpc_call(self->rpc, &call);
}

/* As the server's, but that what it reads is taken back meanwhile. */
static int read_revoked(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                        uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    if (offset >= KV_PIECE_BYTES && testing_revoked != NULL) {
        tarn_fabric_region_free(*testing_revoked);
        *testing_revoked = NULL;
        testing_revoked = NULL;
    }
    return kv_region_read(exchange, handle, offset, data, bytes, deadline_ns);
}

/* Each breaks its own connection, or is told so; nothing is stored, and others are served as ever. */
static void nobody_reads_what_is_not_his(struct testing_fabric *testing)
{
    struct testing_server server;
    struct testing_export honest, liar;
    char value[8];
    testing_serve_both(testing, &server);
    server.server->read = read_revoked;
    testing_export_open(testing, &honest);
    for (unsigned i = 0; i < 6; i++) {
        uint64_t offset = 0, bytes = REGION_BYTES;
        testing_export_open(testing, &liar);
        if (i == 0)
            liar.handle.key += 1000; /* there is none */
        else if (i == 1)
            liar.handle = honest.handle; /* of another connection */
        else if (i == 2)
            liar.handle.bytes = bytes = REGION_BYTES + 4096; /* longer than it is */
        else if (i == 3)
            offset = 8; /* longer than it says itself */
        else if (i == 4)
            testing_revoked = &liar.region; /* it goes while it is read */
        if (i == 5) {                       /* or before */
            tarn_fabric_region_free(liar.region);
            liar.region = NULL;
        }
        int error = testing_export_put(&liar, offset, bytes);
        assert_true(error < 0 && error != -ETIMEDOUT);
        assert_int_equal(error == -EINVAL, i == 3);
        assert_int_equal(tarn_rpc_error(liar.rpc) != 0, i != 3);
        testing_export_close(&liar);
        assert_int_equal(tarn_kv_get(server.depot, "x", 1, value, sizeof(value), NULL), -ENOENT);
    }
    assert_int_equal(testing_export_put(&honest, 16, 8), 0);
    assert_int_equal(tarn_kv_get(server.depot, "x", 1, value, sizeof(value), NULL), -ENOBUFS);
    testing_export_close(&honest);
    testing_serve_no_more(&server);
}

/* ---- deadlines ---------------------------------------------------------------------------------- */

/* What takes too long is unknown, and what comes later is answered. */
static void run_out_of_time(struct tarn_kv *kv, struct testing_liar *liar)
{
    struct kv_remote *remote = base_container_of(kv, struct kv_remote, kv);
    uint8_t value[8];
    int error;
    liar->mode = ANSWER_NEVER;
    remote->timeout_ns = 20 * BASE_NS_PER_MS;
    for (unsigned i = 0; i < 4; i++) {
        do {
            liar->calls = 0;
            error = i % 2 == 0 ? tarn_kv_put(kv, "k", 1, "v", 1, NULL, NULL)
                               : tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL);
            assert_true(error == -ETIMEDOUT || (error == -EHOSTUNREACH && liar->calls == 0));
        } while (error != -ETIMEDOUT);
    }
    remote->timeout_ns = 20 * BASE_NS_PER_SECOND;
    liar->mode = ANSWER_LITTLE;
    assert_int_equal(tarn_kv_get(kv, "k", 1, value, sizeof(value), NULL), -EPROTO);
}

static void time_is_short(struct testing_fabric *testing)
{
    with_liar(testing, true, run_out_of_time);
}

TESTING_BOTH(front_doors_are_refused)
TESTING_BOTH(what_is_not_there_cannot_be_opened)
TESTING_BOTH(a_server_that_has_gone_is_not_reached)
TESTING_BOTH(a_url_names_its_fabric)
TESTING_BOTH(a_server_comes_back_changed)
TESTING_BOTH(wrong_routing_is_mended)
TESTING_BOTH(nothing_counts_twice)
TESTING_BOTH(threads_and_tasks_share)
TESTING_BOTH(liars_do_no_harm)
TESTING_BOTH(nothing_is_done_twice)
TESTING_BOTH(parts_are_of_one_value)
TESTING_BOTH(time_is_short)
TESTING_BOTH(nobody_reads_what_is_not_his)

#define KV_REMOTE_UNITS                                                                                      \
    TESTING_UNITS(what_is_not_there_cannot_be_opened), TESTING_UNITS(a_server_that_has_gone_is_not_reached), \
        TESTING_UNITS(a_url_names_its_fabric), TESTING_UNITS(a_server_comes_back_changed),                   \
        TESTING_UNITS(nothing_counts_twice), TESTING_UNITS(threads_and_tasks_share),                         \
        TESTING_UNITS(liars_do_no_harm), TESTING_UNITS(parts_are_of_one_value),                              \
        TESTING_UNITS(wrong_routing_is_mended), TESTING_UNITS(nothing_is_done_twice),                        \
        TESTING_UNITS(time_is_short), TESTING_UNITS(front_doors_are_refused),                                \
        TESTING_UNITS(nobody_reads_what_is_not_his)

/* ---- over one fabric ---------------------------------------------------------------------------- */

static int (*testing_subject)(void **state); /* the fabric's */

static int begin_remote_depot(void **state)
{
    testing_kind = &testing_remote_depot;
    return testing_subject(state);
}

static int begin_remote_cache(void **state)
{
    testing_kind = &testing_remote_cache;
    return testing_subject(state);
}

/** All of it. @param scheme  of URLs @param filter  variable that names the cases @param subject  sets the fabric up @return how
 * many failed */
static inline int testing_run_remote(const char *scheme, const char *filter, int (*subject)(void **state))
{
    const struct CMUnitTest suite[] = {KV_CONFORMANCE_UNITS};
    const struct CMUnitTest servers[] = {KV_REMOTE_UNITS};
    testing_scheme = scheme;
    testing_subject = subject;
    cmocka_set_test_filter(getenv(filter));
    return cmocka_run_group_tests_name("depot", suite, begin_remote_depot, NULL) +
           cmocka_run_group_tests_name("cache", suite, begin_remote_cache, NULL) +
           cmocka_run_group_tests_name("servers", servers, begin_remote_cache, NULL);
}

#endif
