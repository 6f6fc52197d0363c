/* The service, asked directly: what each method answers, what it refuses, and pages of scans. */
#include "kv/service.h"
#include "task/testing.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM           KV_SCAN_BYTES_MAX
#define RECORDS        1000
#define LONG_MAX_BYTES (UINT64_C(4) << 20) /* of the fake's values */

/* ---- a store that is only scanned --------------------------------------------------------------- */

/* Record i has the key "i" and a value of i bytes. */
struct fake {
    struct tarn_kv kv;
    unsigned records;
    int outcome; /* of a scan, behind the last record */
    _Atomic unsigned running;
    _Atomic bool stalls;
    unsigned puts;
    uint64_t put_bytes; /* of the last one */
};

static int fake_scan(struct tarn_kv *kv, tarn_scan_function *visit, void *arg)
{
    static const uint8_t value[RECORDS];
    struct fake *fake = base_container_of(kv, struct fake, kv);
    int error = 0;
    fake->running++;
    for (unsigned i = 0; i < fake->records && error == 0; i++) {
        char key[16];
        const struct tarn_record_info info = {.version = i + 1, .value_bytes = i};
        while (fake->stalls)
            (void)task_sleep(BASE_NS_PER_MS);
        error = visit(arg, key, (size_t)snprintf(key, sizeof(key), "%u", i), value, &info);
    }
    fake->running--;
    return error != 0 ? error : fake->outcome;
}

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 31 + offset / 1000);
}

/* Takes values whose bytes tell where they have been. */
static int fake_put(struct tarn_kv *kv, const void *key, size_t key_len, const void *value, size_t value_len,
                    const struct tarn_put_options *options, uint64_t *ret_version)
{
    struct fake *fake = base_container_of(kv, struct fake, kv);
    const uint8_t *bytes = value;
    assert_true(key_len == 3 && memcmp(key, "key", 3) == 0 && options->client_flags == 77);
    for (size_t i = 0; i < value_len; i++)
        assert_int_equal(bytes[i], byte_at(i));
    fake->puts++;
    fake->put_bytes = value_len;
    *ret_version = 5;
    return 0;
}

static const struct kv_operations fake_operations = {.put = fake_put, .scan = fake_scan};

/* ---- asking ------------------------------------------------------------------------------------- */

enum { STORE_FAKE, STORE_CACHE, STORE_EMPTY, STORES };

struct asking {
    struct kv_server server;
    struct fake fake, empty;
    struct tarn_kv *cache;
    struct kv_worker worker;
    struct tarn_rpc_request exchange;
    uint64_t deadline_ns; /* 0: none */
    uint8_t request[4096], result[ROOM];
};

static int ask_bytes(struct asking *asking, uint32_t method, size_t bytes)
{
    asking->exchange = (struct tarn_rpc_request){.data = asking->request,
                                                 .bytes = (uint32_t)bytes,
                                                 .result = asking->result,
                                                 .room = ROOM,
                                                 .deadline_ns = TASK_FOREVER};
    return kv_answer(&asking->server, &asking->worker, method, &asking->exchange);
}

static int ask(struct asking *asking, uint32_t method, const struct kv_request *request)
{
    const enum kv_method plain = (enum kv_method)(method % KV_SHORT);
    kv_request_save(plain, request, asking->request);
    return ask_bytes(asking, method, kv_request_bytes(plain, request));
}

static int ask_page(struct asking *asking, uint64_t scan, uint32_t page, uint32_t room,
                    struct kv_page *ret_page)
{
    const struct kv_request request = {.amount = page, .scan = scan, .value_room = 2000};
    kv_request_save(KV_SCAN, &request, asking->request);
    asking->exchange = (struct tarn_rpc_request){
        .data = asking->request,
        .bytes = (uint32_t)kv_request_bytes(KV_SCAN, &request),
        .result = asking->result,
        .room = room,
        .deadline_ns = asking->deadline_ns == 0 ? TASK_FOREVER : asking->deadline_ns};
    int error = kv_answer(&asking->server, &asking->worker, KV_SCAN, &asking->exchange);
    if (error == 0)
        assert_int_equal(kv_page_load(asking->result, asking->exchange.result_bytes, ret_page), 0);
    return error;
}

static void with_server(struct task_testing *testing, void (*test)(struct asking *asking))
{
    struct asking *asking = calloc(1, sizeof(*asking));
    assert_non_null(asking);
    asking->fake =
        (struct fake){.kv = {.operations = &fake_operations, .node = testing->node}, .records = RECORDS};
    asking->fake.kv.info = (struct tarn_kv_info){.kind = kv_kind_depot,
                                                 .abilities = TARN_KV_SCANS,
                                                 .partitions = 1,
                                                 .whole_bytes_max = RECORDS,
                                                 .value_bytes_max = LONG_MAX_BYTES};
    asking->empty = asking->fake;
    asking->empty.records = 0;
    asking->worker.count = 1;
    assert_int_equal(tarn_kv_open(testing->node, "cache:memory=1M,partitions=4", NULL, &asking->cache), 0);
    const struct kv_served stores[STORES] = {
        {"fake", &asking->fake.kv}, {"cache", asking->cache}, {"empty", &asking->empty.kv}};
    assert_int_equal(kv_server_init(&asking->server, testing->node, stores, STORES), 0);
    test(asking);
    kv_scans_end(&asking->server.scans);
    assert_int_equal(asking->fake.running, 0);
    assert_int_equal(tarn_kv_close(asking->cache), 0);
    free(asking);
}

static void run(void *arg)
{
    struct task_testing *testing = arg;
    with_server(testing, (void (*)(struct asking *))(uintptr_t)testing->arg);
}

/* A test for cmocka, in a task. */
#define IN_A_TASK(test)                                                                                      \
    static void test(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        task_testing_run(NULL, NULL, run, (void *)(uintptr_t)test##_with);                                   \
    }

/* ---- stores ------------------------------------------------------------------------------------- */

static void stores_are_told_with(struct asking *asking)
{
    static const char *const names[STORES] = {"fake", "cache", "empty"};
    struct kv_store_info info;
    asking->worker.count = 3;
    for (uint16_t i = 0; i < 2 * STORES; i++) {
        const char *name = names[i % STORES];
        const struct kv_request by_name = {
            .store = KV_STORE_BY_NAME, .key = name, .key_len = (uint16_t)strlen(name)};
        const struct kv_request by_number = {.store = i % STORES};
        assert_int_equal(ask(asking, KV_INFO, i < STORES ? &by_name : &by_number), 0);
        assert_int_equal(kv_info_load(asking->result, asking->exchange.result_bytes, &info), 0);
        assert_true(info.store == i % STORES && info.stores == STORES && info.workers == 3);
        assert_memory_equal(info.name, name, info.name_len);
        assert_true(info.seed == (i % STORES == STORE_CACHE ? cache_seed(kv_cache_of(asking->cache)) : 0));
        assert_int_equal(info.info.partitions, i % STORES == STORE_CACHE ? 4 : 1);
    }
    const struct kv_request none = {.store = KV_STORE_BY_NAME, .key = "fak", .key_len = 3},
                            no_number = {.store = STORES};
    assert_int_equal(ask(asking, KV_INFO, &none), -ENXIO);
    assert_int_equal(ask(asking, KV_INFO, &no_number), -ENXIO);
}
IN_A_TASK(stores_are_told)

static void names_must_be_good_with(struct asking *asking)
{
    static const char *const wrong[] = {"", "a/b", "a b",
                                        "0123456789012345678901234567890123456789012345678901234567890123"};
    struct kv_server *server = calloc(1, sizeof(*server));
    struct tarn_kv remote = asking->fake.kv;
    assert_non_null(server);
    for (unsigned i = 0; i < base_array_count(wrong); i++) {
        const struct kv_served store = {wrong[i], asking->cache};
        assert_int_equal(kv_server_init(server, asking->server.node, &store, 1), -EINVAL);
    }
    remote.info.abilities |= TARN_KV_REMOTE;
    const struct kv_served twice[] = {{"a", asking->cache}, {"a", asking->cache}}, far = {"a", &remote};
    assert_int_equal(kv_server_init(server, asking->server.node, twice, 2), -EINVAL);
    assert_int_equal(kv_server_init(server, asking->server.node, twice, 1), 0);
    assert_int_equal(kv_server_init(server, asking->server.node, &far, 1), -EINVAL);
    assert_int_equal(kv_server_init(server, asking->server.node, twice, 0), -EINVAL);
    free(server);
}
IN_A_TASK(names_must_be_good)

/* ---- keys --------------------------------------------------------------------------------------- */

static struct kv_request cache_request(const char *key)
{
    return (struct kv_request){
        .store = STORE_CACHE, .key = key, .key_len = (uint16_t)strlen(key), .amount = 5, .value = "value"};
}

/* Whoever does not own a key's partition changes nothing. */
static void other_workers_refuse_with(struct asking *asking)
{
    static const uint32_t methods[] = {KV_GET, KV_PUT, KV_DELETE, KV_GET_RANGE};
    const struct cache *cache = kv_cache_of(asking->cache);
    unsigned refused = 0, answered = 0;
    char key[16];
    for (unsigned i = 0; i < 400; i++) {
        (void)snprintf(key, sizeof(key), "key-%u", i / 4);
        struct kv_request request = cache_request(key);
        request.amount = methods[i % 4] == KV_DELETE ? 0 : 5;
        const uint32_t partition = cache_partition_of(cache_seed(cache), 4, key, request.key_len);
        asking->worker = (struct kv_worker){.place = i / 4 % 3, .count = 3};
        const bool is_here = partition % 3 == asking->worker.place;
        int error = ask(asking, KV_SHORT + methods[i % 4], &request);
        assert_int_equal(error == -EXDEV, !is_here);
        *(is_here ? &answered : &refused) += 1;
        assert_int_equal(tarn_kv_get(asking->cache, key, request.key_len, asking->result, 9, NULL),
                         is_here && i % 4 == 1 ? 0 : -ENOENT);
        if (methods[i % 4] == KV_PUT)
            assert_int_equal(tarn_kv_delete(asking->cache, key, request.key_len), is_here ? 0 : -ENOENT);
    }
    assert_true(refused > 100 && answered > 60);
}
IN_A_TASK(other_workers_refuse)

static void a_kind_has_its_methods_with(struct asking *asking)
{
    struct kv_request request = cache_request("k");
    for (uint32_t method = KV_GET; method <= KV_PUT_REGION; method++) {
        if (method == KV_MULTI_GET || method == KV_SCAN)
            continue;
        request.region_bytes = request.handle.bytes = 1;
        request.handle.rights = TARN_FABRIC_MAY_READ;
        request.amount = method == KV_DELETE ? 0 : 5;
        request.store = STORE_CACHE;
        assert_int_equal(ask(asking, method, &request), -EOPNOTSUPP);
        request.store = STORE_FAKE;
        assert_int_equal(ask(asking, KV_SHORT + method, &request), -EOPNOTSUPP);
        request.store = STORES;
        assert_int_equal(ask(asking, method, &request), -ENXIO);
        assert_int_equal(ask(asking, KV_SHORT + method, &request), -ENXIO);
    }
    struct kv_request scan = {.store = STORE_CACHE};
    assert_int_equal(ask(asking, KV_SCAN, &scan), -EOPNOTSUPP);
    scan.store = STORE_FAKE;
    assert_int_equal(ask(asking, KV_SHORT + KV_SCAN, &scan), -EOPNOTSUPP);
}
IN_A_TASK(a_kind_has_its_methods)

/* Requests of every wrong length, and results with every little room. */
static void lengths_are_checked_with(struct asking *asking)
{
    static const uint32_t methods[] = {KV_GET, KV_PUT, KV_GET_RANGE, KV_MULTI_GET, KV_INFO};
    assert_int_equal(tarn_kv_put(asking->cache, "k", 1, "value", 5, NULL, NULL), 0);
    for (unsigned i = 0; i < base_array_count(methods); i++) {
        const uint32_t method = methods[i] == KV_INFO ? KV_INFO : KV_SHORT + methods[i];
        struct kv_request request = cache_request("k");
        size_t bytes = kv_request_bytes((enum kv_method)methods[i], &request);
        if (methods[i] == KV_INFO)
            request = (struct kv_request){.store = KV_STORE_BY_NAME, .key = "cache", .key_len = 5};
        if (methods[i] == KV_MULTI_GET) {
            const struct tarn_get get = {.key = "k", .key_len = 1};
            request = (struct kv_request){.store = STORE_CACHE, .amount = 1};
            bytes = kv_request_bytes(KV_MULTI_GET, &request);
            kv_key_save(&get, 5, asking->request + bytes);
            bytes += kv_key_bytes(1);
        } else {
            bytes = kv_request_bytes((enum kv_method)methods[i], &request);
        }
        kv_request_save((enum kv_method)methods[i], &request, asking->request);
        for (size_t cut = 0; cut <= bytes + 3; cut++)
            assert_int_equal(ask_bytes(asking, method, cut), cut == bytes ? 0 : -EINVAL);
        assert_int_equal(ask_bytes(asking, method, bytes), 0);
        const uint32_t needed = asking->exchange.result_bytes;
        for (uint32_t room = 0; room <= needed; room++) {
            memset(asking->result, 0xee, needed + 1);
            asking->exchange.room = room;
            asking->exchange.result_bytes = 0;
            int error = kv_answer(&asking->server, &asking->worker, method, &asking->exchange);
            assert_true(asking->exchange.result_bytes <= room && asking->result[room] == 0xee);
            const bool is_cut =
                (methods[i] == KV_GET || methods[i] == KV_GET_RANGE) && room >= KV_RECORD_BYTES;
            assert_int_equal(error, room == needed || is_cut ? 0 : -EMSGSIZE);
        }
    }
}
IN_A_TASK(lengths_are_checked)

static int read_zeros(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                      uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    (void)exchange;
    (void)deadline_ns;
    assert_true(bytes <= handle->bytes && offset <= handle->bytes - bytes);
    memset(data, 0, bytes);
    return 0;
}

/* Any bytes do no harm: what is asked is made of bytes of good requests. */
static void rubbish_is_answered_with(struct asking *asking)
{
    unsigned counts[2] = {0};
    asking->server.read = read_zeros;
    for (unsigned i = 0; i < 20000; i++) {
        static const uint32_t methods[] = {KV_INFO,
                                           KV_SCAN,
                                           KV_SHORT + KV_GET,
                                           KV_SHORT + KV_MULTI_GET,
                                           KV_SHORT + KV_PUT,
                                           KV_SHORT + KV_DELETE,
                                           KV_SHORT + KV_GET_RANGE,
                                           KV_SHORT + KV_PUT_REGION};
        const uint32_t method = methods[i % base_array_count(methods)];
        struct kv_request request = cache_request("k");
        request.scan = i % 2;
        request.region_bytes = request.handle.bytes = 1 + i % 3;
        request.handle.rights = TARN_FABRIC_MAY_READ;
        kv_request_save((enum kv_method)(method % KV_SHORT), &request, asking->request);
        for (unsigned k = 0; k < 1 + i % 3; k++)
            asking->request[task_rng(asking->server.node) % 48] = (uint8_t)task_rng(asking->server.node);
        const size_t bytes = kv_request_bytes((enum kv_method)(method % KV_SHORT), &request);
        int error = ask_bytes(asking, method, i % 4 == 0 ? task_rng(asking->server.node) % 80 : bytes);
        counts[error == -EINVAL]++;
        assert_true(error <= 0 && asking->exchange.result_bytes <= ROOM);
    }
    assert_true(counts[0] > 100 && counts[1] > 100);
}
IN_A_TASK(rubbish_is_answered)

/* ---- regions ------------------------------------------------------------------------------------ */

enum { REGION_AT = 4096 };

/* A client's memory, which is not there: the bytes are made when they are READ. */
static struct {
    unsigned reads, fails_at; /* 0: none fails */
    uint64_t bytes;
    _Atomic bool stalls;
    _Atomic unsigned stalled;
    unsigned gave_way;
    bool is_over; /* all fail */
} region;

static int read_region(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                       uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    uint8_t *to = data;
    region.stalled++;
    while (region.stalls)
        (void)task_sleep(BASE_NS_PER_MS);
    region.stalled--;
    if (region.is_over)
        return -EACCES;
    assert_true(handle->key == 9 && bytes <= KV_PIECE_BYTES);
    assert_true(deadline_ns <= exchange->deadline_ns && deadline_ns <= task_now() + KV_PIECE_NS);
    assert_int_equal(offset, REGION_AT + region.bytes);
    if (++region.reads == region.fails_at)
        return -EACCES;
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = byte_at(region.bytes + i);
    region.bytes += bytes;
    return 0;
}

static struct kv_request region_request(uint64_t bytes, const uint8_t *tail, uint32_t tail_bytes)
{
    return (struct kv_request){.store = STORE_FAKE,
                               .key = "key",
                               .key_len = 3,
                               .amount = tail_bytes,
                               .value = tail,
                               .options = {.client_flags = 77},
                               .offset = REGION_AT,
                               .region_bytes = bytes,
                               .handle = {.key = 9, .bytes = UINT64_MAX, .rights = TARN_FABRIC_MAY_READ}};
}

static int ask_region(struct asking *asking, uint64_t bytes, uint32_t tail_bytes)
{
    uint8_t tail[16];
    const struct kv_request request = region_request(bytes, tail, tail_bytes);
    for (uint32_t i = 0; i < tail_bytes; i++)
        tail[i] = byte_at(bytes + i);
    region.reads = 0;
    region.bytes = 0;
    asking->server.read = read_region;
    return ask(asking, KV_PUT_REGION, &request);
}

static void regions_are_stored_with(struct asking *asking)
{
    static const uint64_t lengths[] = {1, 8, KV_PIECE_BYTES, KV_PIECE_BYTES + 8, LONG_MAX_BYTES - 7};
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        assert_int_equal(ask_region(asking, lengths[i], i % 2 == 0 ? 7 : 0), 0);
        assert_int_equal(asking->exchange.result_bytes, 8);
        assert_true(base_load_le64(asking->result) == 5);
        assert_int_equal(asking->fake.puts, i + 1);
        assert_int_equal(asking->fake.put_bytes, lengths[i] + (i % 2 == 0 ? 7 : 0));
        assert_int_equal(region.reads, (lengths[i] + KV_PIECE_BYTES - 1) / KV_PIECE_BYTES);
    }
}
IN_A_TASK(regions_are_stored)

/* What is too long is not READ, however long it says it is. */
static void long_regions_are_refused_with(struct asking *asking)
{
    static const uint64_t lengths[] = {LONG_MAX_BYTES - 6, LONG_MAX_BYTES + 1, UINT64_C(1) << 63,
                                       UINT64_MAX - REGION_AT};
    for (unsigned i = 0; i < base_array_count(lengths); i++) {
        assert_int_equal(ask_region(asking, lengths[i], 7), -EMSGSIZE);
        assert_int_equal(region.reads, 0);
    }
    struct kv_request request = region_request(UINT64_MAX, (const uint8_t *)"1234567", 7);
    request.offset = 0;
    assert_int_equal(ask(asking, KV_PUT_REGION, &request), -EMSGSIZE); /* in all less than nothing */
    assert_int_equal(region.reads, 0);
    request = region_request(8, (const uint8_t *)"", 0);
    kv_request_save(KV_PUT_REGION, &request, asking->request);
    asking->exchange.room = 7;
    asking->exchange.bytes = (uint32_t)kv_request_bytes(KV_PUT_REGION, &request);
    assert_int_equal(kv_answer(&asking->server, &asking->worker, KV_PUT_REGION, &asking->exchange),
                     -EMSGSIZE);
    assert_int_equal(asking->fake.puts, 0);
}
IN_A_TASK(long_regions_are_refused)

/* Whatever fails, nothing is stored, and all memory and the place come back. */
static void what_cannot_be_read_is_not_stored_with(struct asking *asking)
{
    struct base_account *account = &asking->server.node->memory;
    const uint64_t before = base_account_used(account);
    unsigned failures = 0;
    for (region.fails_at = 1; region.fails_at <= 4; region.fails_at++)
        for (unsigned i = 0; i < KV_REGIONS_MAX; i++)
            assert_int_equal(ask_region(asking, LONG_MAX_BYTES - 8, 3), -EACCES);
    region.fails_at = 0;
    assert_int_equal(asking->fake.puts, 0);
    for (;; failures++) {
        base_account_fail_at(account, failures + 1);
        int error = ask_region(asking, LONG_MAX_BYTES - 8, 3);
        base_account_fail_at(account, 0);
        if (error == 0)
            break;
        assert_int_equal(error, -ENOMEM);
        assert_int_equal(asking->fake.puts, 0);
    }
    assert_true(failures >= 3);
    assert_int_equal(base_account_used(account), before);
}
IN_A_TASK(what_cannot_be_read_is_not_stored)

/* A put of somebody else, which waits as long as it takes. @return its status */
static int put_beside(struct asking *asking, uint64_t bytes)
{
    uint8_t request[200], result[8];
    const struct kv_worker worker = {.count = 1};
    const struct kv_request wanted = region_request(bytes, request, 0);
    struct tarn_rpc_request exchange = {.data = request,
                                        .bytes = (uint32_t)kv_request_bytes(KV_PUT_REGION, &wanted),
                                        .result = result,
                                        .room = sizeof(result),
                                        .deadline_ns = TASK_FOREVER};
    kv_request_save(KV_PUT_REGION, &wanted, request);
    return kv_answer(&asking->server, &worker, KV_PUT_REGION, &exchange);
}

/* Somebody whose memory does not answer. */
static void stall(void *arg)
{
    region.bytes = 0;
    assert_int_equal(put_beside(arg, 8), -EACCES);
}

/* So many are under way, and who comes then waits for no longer than he has said. */
static void regions_are_bounded_with(struct asking *asking)
{
    const struct kv_request wanted = region_request(8, (const uint8_t *)"", 0);
    struct task_group group;
    asking->server.read = read_region;
    region.stalls = true;
    region.reads = 0;
    task_group_init(&group);
    for (unsigned i = 0; i < KV_REGIONS_MAX; i++)
        assert_int_equal(task_spawn(NULL, &group, "stall", stall, asking), 0);
    while (region.stalled < KV_REGIONS_MAX)
        (void)task_sleep(BASE_NS_PER_MS);
    kv_request_save(KV_PUT_REGION, &wanted, asking->request);
    asking->exchange = (struct tarn_rpc_request){.data = asking->request,
                                                 .bytes = (uint32_t)kv_request_bytes(KV_PUT_REGION, &wanted),
                                                 .result = asking->result,
                                                 .room = ROOM,
                                                 .deadline_ns = task_now() + 20 * BASE_NS_PER_MS};
    assert_int_equal(kv_answer(&asking->server, &asking->worker, KV_PUT_REGION, &asking->exchange), -EBUSY);
    assert_int_equal(region.stalled, KV_REGIONS_MAX);
    for (unsigned i = 0; i < KV_REGIONS_WAIT; i++)
        assert_int_equal(task_spawn(NULL, &group, "wait", stall, asking), 0);
    while (asking->server.region_calls < KV_REGIONS_MAX + KV_REGIONS_WAIT)
        (void)task_sleep(BASE_NS_PER_MS);
    const uint64_t begin_ns = task_now();
    asking->exchange.deadline_ns = TASK_FOREVER; /* who comes now does not even wait */
    assert_int_equal(kv_answer(&asking->server, &asking->worker, KV_PUT_REGION, &asking->exchange), -EBUSY);
    assert_true(task_now() - begin_ns < KV_PIECE_NS);
    assert_int_equal(region.stalled, KV_REGIONS_MAX);
    region.is_over = true;
    region.stalls = false;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    region.is_over = false;
    assert_int_equal(ask_region(asking, 8, 0), 0);
}
IN_A_TASK(regions_are_bounded)

/* Two pieces, of which the second is not asked for while others wait. */
static void dawdle(void *arg)
{
    int error = put_beside(arg, KV_PIECE_BYTES + 8);
    assert_true(error == 0 || error == -ETIMEDOUT);
    region.gave_way += error != 0;
}

static int read_slowly(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                       uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    uint8_t *to = data;
    (void)exchange;
    (void)handle;
    (void)deadline_ns;
    region.stalled++;
    while (region.stalls)
        (void)task_sleep(BASE_NS_PER_MS);
    region.stalled--;
    if (bytes == KV_PIECE_BYTES)
        (void)task_sleep(300 * BASE_NS_PER_MS); /* too long where there is no grace */
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = byte_at(offset - REGION_AT + i);
    return 0;
}

/* Slow ones have all places, and somebody waits: one gives way. */
static void the_slow_give_way_with(struct asking *asking)
{
    const struct kv_request wanted = region_request(8, (const uint8_t *)"", 0);
    struct task_group group;
    asking->server.read = read_slowly;
    asking->server.region_grace_ns = 0;
    region.stalls = true;
    task_group_init(&group);
    for (unsigned i = 0; i < KV_REGIONS_MAX; i++)
        assert_int_equal(task_spawn(NULL, &group, "dawdle", dawdle, asking), 0);
    while (region.stalled < KV_REGIONS_MAX)
        (void)task_sleep(BASE_NS_PER_MS);
    assert_int_equal(asking->server.region_calls, KV_REGIONS_MAX);
    asking->server.region_calls++; /* somebody waits */
    region.stalls = false;
    assert_int_equal(task_group_join(&group, TASK_FOREVER), 0);
    asking->server.region_calls--;
    assert_true(region.gave_way >= 1); /* which was one too many */
    assert_int_equal(asking->fake.puts, KV_REGIONS_MAX - region.gave_way);
    assert_int_equal(ask(asking, KV_PUT_REGION, &wanted), 0);
    const struct kv_request slow = region_request(KV_PIECE_BYTES + 8, (const uint8_t *)"", 0);
    assert_int_equal(ask(asking, KV_PUT_REGION, &slow), 0); /* nobody waits */
}
IN_A_TASK(the_slow_give_way)

/* ---- scans -------------------------------------------------------------------------------------- */

/* Records of a page, from `*next` on. */
static void check_page(struct asking *asking, const struct kv_page *page, unsigned *next)
{
    size_t at = KV_PAGE_BYTES, bytes = asking->exchange.result_bytes;
    for (uint32_t i = 0; i < page->count; i++) {
        struct kv_item item;
        char key[16];
        const size_t taken = kv_scanned_load(asking->result + at, bytes - at, &item);
        assert_true(taken > 0);
        assert_int_equal(item.key_len, snprintf(key, sizeof(key), "%u", *next));
        assert_memory_equal(item.key, key, item.key_len);
        assert_int_equal(item.bytes, *next);
        at += taken;
        ++*next;
    }
    assert_int_equal(at, bytes);
}

/* All pages, each asked for three times; the one before is gone then. */
static void pages_follow_each_other_with(struct asking *asking)
{
    struct kv_page page, first;
    unsigned next = 0, pages = 0;
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &first), 0);
    const uint64_t scan = first.scan;
    assert_true(scan != 0);
    for (page = first; page.scan != 0; pages++) {
        for (unsigned again = 0; again < 3; again++) {
            unsigned at = next;
            assert_int_equal(ask_page(asking, scan, pages, ROOM, &page), 0);
            check_page(asking, &page, &at);
            if (again == 2)
                next = at;
        }
        if (pages > 0)
            assert_int_equal(ask_page(asking, scan, pages - 1, ROOM, &first), -ESTALE);
        assert_int_equal(ask_page(asking, scan, pages + 2, ROOM, &first), -ESTALE);
        assert_int_equal(ask_page(asking, scan, pages, KV_PAGE_BYTES, &first), -EMSGSIZE);
    }
    assert_int_equal(next, RECORDS);
    assert_true(pages > 1);
    assert_int_equal(ask_page(asking, scan, pages, ROOM, &page), -ESTALE);
    assert_int_equal(ask_page(asking, scan + 1, 0, ROOM, &page), -ESTALE);
    asking->worker = (struct kv_worker){.place = 1, .count = 2};
    assert_int_equal(ask_page(asking, scan, pages - 1, ROOM, &page), -ESTALE);
    const struct kv_request empty = {.store = STORE_EMPTY}, late = {.amount = 1};
    assert_int_equal(ask(asking, KV_SCAN, &empty), 0);
    assert_int_equal(kv_page_load(asking->result, asking->exchange.result_bytes, &page), 0);
    assert_true(page.scan == 0 && page.count == 0);
    assert_int_equal(ask(asking, KV_SCAN, &late), -EINVAL);
}
IN_A_TASK(pages_follow_each_other)

/* Who asks for the page behind one that is not there yet would miss that. */
static void no_page_is_left_out_with(struct asking *asking)
{
    struct kv_page page;
    unsigned next = 0;
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), 0);
    check_page(asking, &page, &next);
    asking->fake.stalls = true;
    asking->deadline_ns = task_now() + BASE_NS_PER_MS;
    assert_int_equal(ask_page(asking, page.scan, 1, ROOM, &page), -ETIMEDOUT);
    assert_int_equal(ask_page(asking, page.scan, 2, ROOM, &page), -ESTALE);
    asking->deadline_ns = 0;
    asking->fake.stalls = false;
    for (uint32_t number = 1; page.scan != 0; number++) {
        assert_int_equal(ask_page(asking, page.scan, number, ROOM, &page), 0);
        check_page(asking, &page, &next);
    }
    assert_int_equal(next, RECORDS);
}
IN_A_TASK(no_page_is_left_out)

static void damage_comes_last_with(struct asking *asking)
{
    struct kv_page page;
    unsigned next = 0, pages = 1;
    int error;
    asking->fake.outcome = -EBADMSG;
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), 0);
    check_page(asking, &page, &next);
    while ((error = ask_page(asking, page.scan, pages, ROOM, &page)) == 0) {
        assert_true(page.scan != 0);
        check_page(asking, &page, &next);
        pages++;
    }
    assert_int_equal(error, -EBADMSG);
    assert_int_equal(next, RECORDS);
    assert_int_equal(ask_page(asking, page.scan, pages, ROOM, &page), -EBADMSG);
}
IN_A_TASK(damage_comes_last)

static void scans_are_bounded_with(struct asking *asking)
{
    struct kv_page pages[KV_SCANS_MAX], page;
    const struct kv_request greedy = {.value_room = KV_SCAN_BYTES_MAX - TARN_KEY_BYTES_MAX};
    assert_int_equal(ask(asking, KV_SCAN, &greedy), -EMSGSIZE);
    for (unsigned i = 0; i < KV_SCANS_MAX; i++)
        assert_int_equal(ask_page(asking, 0, 0, ROOM, &pages[i]), 0);
    assert_int_equal(asking->fake.running, KV_SCANS_MAX);
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), -EBUSY);
    kv_request_save(KV_SCAN, &(struct kv_request){.scan = pages[3].scan, .amount = KV_SCAN_NO_MORE},
                    asking->request);
    assert_int_equal(ask_bytes(asking, KV_SCAN, 24), 0);
    assert_int_equal(asking->fake.running, KV_SCANS_MAX - 1);
    assert_int_equal(ask_page(asking, pages[3].scan, 0, ROOM, &page), -ESTALE);
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &pages[3]), 0);
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), -EBUSY);
    page = pages[5];
    for (uint32_t number = 1; page.scan != 0; number++)
        assert_int_equal(ask_page(asking, pages[5].scan, number, ROOM, &page), 0);
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), 0); /* in the place of what is over */
    assert_int_equal(ask_page(asking, 0, 0, ROOM, &page), -EBUSY);
    assert_int_equal(ask_page(asking, pages[5].scan, 0, ROOM, &page), -ESTALE);
}
IN_A_TASK(scans_are_bounded)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stores_are_told),
                                       cmocka_unit_test(names_must_be_good),
                                       cmocka_unit_test(other_workers_refuse),
                                       cmocka_unit_test(a_kind_has_its_methods),
                                       cmocka_unit_test(lengths_are_checked),
                                       cmocka_unit_test(rubbish_is_answered),
                                       cmocka_unit_test(regions_are_stored),
                                       cmocka_unit_test(long_regions_are_refused),
                                       cmocka_unit_test(what_cannot_be_read_is_not_stored),
                                       cmocka_unit_test(regions_are_bounded),
                                       cmocka_unit_test(the_slow_give_way),
                                       cmocka_unit_test(pages_follow_each_other),
                                       cmocka_unit_test(no_page_is_left_out),
                                       cmocka_unit_test(damage_comes_last),
                                       cmocka_unit_test(scans_are_bounded)};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
