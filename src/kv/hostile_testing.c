/* Stores of servers that lie, are silent or do not come back; and all tests of such stores, for each fabric. */
#include "kv/hostile_testing.h"

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

/* What all keys of a server fail with is found out once. */
static void fail_together(struct tarn_kv *kv, struct testing_liar *liar)
{
    static const char keys[] = "abcdefghijklmnopqrstuvwxyz";
    struct tarn_get gets[26];
    for (unsigned i = 0; i < base_array_count(gets); i++)
        gets[i] = (struct tarn_get){.key = &keys[i], .key_len = 1};
    liar->mode = ANSWER_LONG; /* two items, of values that nobody has room for, and nothing more */
    liar->calls = 0;
    tarn_kv_get_many(kv, gets, base_array_count(gets));
    for (unsigned i = 0; i < base_array_count(gets); i++)
        assert_int_equal(gets[i].error, -EPROTO);
    assert_int_equal(liar->calls, 1);
}

static void liars_do_no_harm(struct testing_fabric *testing)
{
    with_liar(testing, true, be_lied_to);
    with_liar(testing, false, be_lied_to);
    with_liar(testing, true, be_told_too_much);
    with_liar(testing, true, fail_together);
}

static void nothing_is_done_twice(struct testing_fabric *testing)
{
    with_liar(testing, true, lose_answers);
}

/* ---- clients that lie about their memory -------------------------------------------------------- */

/* A connection made by hand, and a region that it exports. */
struct testing_export {
    struct tarn_rpc_connection *rpc;
    struct tarn_fabric_region *_Atomic region; /* NULL: it was taken back */
    struct tarn_fabric_handle handle;          /* that is said to be its */
};

static struct testing_export *_Atomic testing_revoked;

/* whose region goes before the second READ */

static void testing_export_open(struct testing_fabric *testing, struct testing_export *self)
{
    const struct tarn_rpc_connect_options options = {.calls = 1, .request_bytes = 1024, .worker = 0};
    assert_int_equal(rpc_connect(testing_clients(testing), testing->address, &options, REGION_BYTES,
                                 TESTING_LATE, &self->rpc),
                     0);
    struct tarn_fabric_region *region;
    assert_int_equal(
        tarn_fabric_region_alloc(rpc_fabric_domain(self->rpc), REGION_BYTES, TARN_FABRIC_MAY_READ, &region),
        0);
    self->handle = region->handle;
    self->region = region;
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
                                 .deadline_ns = TESTING_LATE};
    kv_request_save(KV_PUT_REGION, &request, data);
    return tarn_rpc_call(self->rpc, &call);
}

/* As the server's, but that what it reads is taken back meanwhile. */
static int read_revoked(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                        uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    struct testing_export *revoked = testing_revoked;
    if (offset >= KV_PIECE_BYTES && revoked != NULL) {
        testing_revoked = NULL;
        tarn_fabric_region_free(revoked->region);
        revoked->region = NULL;
    }
    return kv_region_read(exchange, handle, offset, data, bytes, deadline_ns);
}

void nobody_reads_what_is_not_his(struct testing_fabric *testing)
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
            testing_revoked = &liar; /* it goes while it is read */
        if (i == 5) {                /* or before */
            tarn_fabric_region_free(liar.region);
            liar.region = NULL;
        }
        int error = testing_export_put(&liar, offset, bytes);
        assert_true(error < 0 && error != -ETIMEDOUT);
        assert_int_equal(error == -EINVAL, i == 3);
        while (i != 3 && tarn_rpc_error(liar.rpc) == 0) /* the status may be fetched before the end is told */
            assert_true(testing_export_put(&liar, offset, bytes) < 0);
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

#define SUITE(EACH)                                                                                          \
    EACH(liars_do_no_harm)                                                                                   \
    EACH(nothing_is_done_twice)                                                                              \
    EACH(parts_are_of_one_value)                                                                             \
    EACH(time_is_short)                                                                                      \
    EACH(nobody_reads_what_is_not_his)

SUITE(TESTING_BOTH)

static const struct CMUnitTest kv_hostile_tests[] = {SUITE(TESTING_EACH)};

const struct testing_suite kv_hostile = TESTING_SUITE(kv_hostile_tests);

/* ---- over one fabric ---------------------------------------------------------------------------- */

int (*testing_subject)(void **state);

/* the fabric's */

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

int testing_run_remote(const char *scheme, int (*subject)(void **state))
{
    const struct testing_suite stores[] = {kv_conformance, {0}};
    const struct testing_suite servers[] = {kv_remote, kv_hostile, {0}};
    testing_scheme = scheme;
    testing_subject = subject;
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("depot", stores, NULL, begin_remote_depot, NULL) +
           testing_run_suites("cache", stores, NULL, begin_remote_cache, NULL) +
           testing_run_suites("servers", servers, NULL, begin_remote_cache, NULL);
}
