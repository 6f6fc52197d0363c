/* Stores that several servers have together: the suite of all stores, which server has a key, and servers that are gone. */
#include "base/hash.h"
#include "fabric/shm_testing.h"
#include "kv/serving_testing.h"

enum { SERVERS = 3 };

static struct testing_server servers[SERVERS];
static char addresses[SERVERS * 108];

/* ---- three servers ------------------------------------------------------------------------------ */

static void serve_all(struct testing_fabric *testing)
{
    addresses[0] = '\0';
    for (unsigned i = 0; i < SERVERS; i++) {
        servers[i] = (struct testing_server){.testing = testing};
        testing->subject->address(servers[i].address, sizeof(servers[i].address));
        testing_serve_there(testing, &servers[i]);
        (void)snprintf(addresses + strlen(addresses), sizeof(addresses) - strlen(addresses), "%s%s",
                       i == 0 ? "" : ",", servers[i].address);
    }
}

static void serve_none(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        testing_serve_no_more(&servers[i]);
}

static void stop(unsigned number)
{
    kv_server_close(servers[number].server);
    servers[number].server = NULL;
}

static void start(unsigned number)
{
    const struct kv_served stores[] = {{"depot", servers[number].depot}, {"cache", servers[number].cache}};
    testing_listen(&servers[number], stores, 2);
}

static int reach(struct testing_fabric *testing, const char *name, uint64_t timeout_ns,
                 struct tarn_kv **ret_kv)
{
    return testing_reach_at(testing, addresses, name, timeout_ns, ret_kv);
}

/* Which of them has a key. */
static unsigned owner_of(const char *key)
{
    uint64_t seeds[SERVERS];
    for (unsigned i = 0; i < SERVERS; i++)
        seeds[i] = kv_server_seed(servers[i].address);
    const struct kv_servers all = {.seeds = seeds, .count = SERVERS};
    return kv_server_of(&all, key, strlen(key));
}

/* ---- the suite ---------------------------------------------------------------------------------- */

static void open_depots(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    serve_all(testing);
    assert_int_equal(reach(testing, "depot", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
}

static void open_caches(struct testing_fabric *testing, struct tarn_kv **ret_kv)
{
    struct tarn_kv_info info;
    serve_all(testing);
    assert_int_equal(reach(testing, "cache", 60 * BASE_NS_PER_SECOND, ret_kv), 0);
    tarn_kv_info(*ret_kv, &info);
    assert_string_equal(info.kind, "cache");
    assert_int_equal(info.abilities, TARN_KV_SCANS | TARN_KV_RANGES | TARN_KV_VERSIONS | TARN_KV_REMOTE);
    assert_int_equal(info.partitions, SERVERS * 4);
}

static void close_spread(struct testing_fabric *testing, struct tarn_kv *kv)
{
    (void)testing;
    assert_int_equal(tarn_kv_close(kv), 0);
    serve_none();
}

static const struct testing_kind depots = {.open = open_depots, .close = close_spread};
static const struct testing_kind caches = {.open = open_caches, .close = close_spread};

/* ---- which server ------------------------------------------------------------------------------- */

/* The weights of docs/wire.md, and which server they choose. */
static void the_hash_is_as_it_is_written(void **state)
{
    static const char *const names[] = {"10.0.0.1:4711", "10.0.0.2:4711", "10.0.0.3:4711"};
    static const struct {
        const char *key;
        uint64_t weights[3];
        uint32_t server;
    } vectors[] = {{"a", {0x946a8eeff4a6ca6f, 0x80dfc698c99caff2, 0x90265e316815ef5e}, 0},
                   {"user:1000", {0x98f3c638b30966f6, 0x8ac0509f2321e4f4, 0x82d8201c1f1dcf26}, 0},
                   {"user:1001", {0x87fbd237b902dc6b, 0x0c0927bb587be7cf, 0x9fcce89a41be33f1}, 2}};
    uint64_t seeds[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        seeds[i] = kv_server_seed(names[i]);
    assert_true(seeds[0] == 0xd183f29e17adf17d && seeds[1] == 0xd070987cff7d88a8 &&
                seeds[2] == 0xc4288d77aa41b611);
    const struct kv_servers all = {.seeds = seeds, .count = 3};
    for (unsigned i = 0; i < base_array_count(vectors); i++) {
        const char *key = vectors[i].key;
        for (unsigned k = 0; k < 3; k++)
            assert_true(base_hash64(key, strlen(key), seeds[k]) == vectors[i].weights[k]);
        assert_int_equal(kv_server_of(&all, key, strlen(key)), vectors[i].server);
    }
}

enum { SPREAD_KEYS = 30000, SPREAD_SERVERS = 6 };

/* Each has its part; who joins takes keys from all, and no other key moves; the order says nothing. */
static void keys_are_spread_evenly(void **state)
{
    uint64_t seeds[SPREAD_SERVERS], turned[SPREAD_SERVERS];
    unsigned held[SPREAD_SERVERS] = {0}, moved = 0, taken[SPREAD_SERVERS] = {0};
    char text[32];
    (void)state;
    for (unsigned i = 0; i < SPREAD_SERVERS; i++) {
        (void)snprintf(text, sizeof(text), "10.0.0.%u:4711", i + 1);
        seeds[i] = turned[SPREAD_SERVERS - 1 - i] = kv_server_seed(text);
    }
    const struct kv_servers five = {.seeds = seeds, .count = SPREAD_SERVERS - 1},
                            six = {.seeds = seeds, .count = SPREAD_SERVERS},
                            backwards = {.seeds = turned, .count = SPREAD_SERVERS};
    for (unsigned i = 0; i < SPREAD_KEYS; i++) {
        const size_t len = (size_t)snprintf(text, sizeof(text), "key-%u", i);
        const uint32_t before = kv_server_of(&five, text, len), now = kv_server_of(&six, text, len);
        assert_int_equal(now, SPREAD_SERVERS - 1 - kv_server_of(&backwards, text, len));
        held[now]++;
        if (before == now)
            continue;
        assert_int_equal(now, SPREAD_SERVERS - 1);
        taken[before]++;
        moved++;
    }
    assert_int_equal(moved, held[SPREAD_SERVERS - 1]);
    for (unsigned i = 0; i < SPREAD_SERVERS; i++) {
        assert_in_range(held[i], SPREAD_KEYS / SPREAD_SERVERS * 95 / 100,
                        SPREAD_KEYS / SPREAD_SERVERS * 105 / 100);
        if (i < SPREAD_SERVERS - 1)
            assert_in_range(taken[i], moved / 5 * 85 / 100, moved / 5 * 115 / 100);
    }
}

/* What was stored through all lies where the hash says, and nowhere else. */
static void keys_lie_with_their_servers(struct testing_fabric *testing)
{
    unsigned held[SERVERS] = {0};
    struct tarn_kv *kv;
    char key[16], value[8];
    serve_all(testing);
    assert_int_equal(reach(testing, "cache", 60 * BASE_NS_PER_SECOND, &kv), 0);
    for (unsigned i = 0; i < 90; i++) {
        (void)snprintf(key, sizeof(key), "key-%u", i);
        assert_int_equal(tarn_kv_put(kv, key, strlen(key), "x", 1, NULL, NULL), 0);
        for (unsigned k = 0; k < SERVERS; k++)
            assert_int_equal(tarn_kv_get(servers[k].cache, key, strlen(key), value, sizeof(value), NULL),
                             k == owner_of(key) ? 0 : -ENOENT);
        held[owner_of(key)]++;
    }
    assert_true(held[0] > 10 && held[1] > 10 && held[2] > 10);
    assert_int_equal(tarn_kv_close(kv), 0);
    serve_none();
}

/* ---- servers that are gone ---------------------------------------------------------------------- */

enum { MANY = 60 };

static struct tarn_get gets[MANY];
static char keys[MANY][16], values[MANY][16];

static void get_all(struct tarn_kv *kv, unsigned gone, int error)
{
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%u", i);
        gets[i] = (struct tarn_get){
            .key = keys[i], .key_len = strlen(keys[i]), .value = values[i], .value_room = sizeof(values[i])};
    }
    tarn_kv_get_many(kv, gets, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(gets[i].error, owner_of(keys[i]) == gone ? error : 0);
        if (gets[i].error == 0)
            assert_string_equal(values[i], keys[i]);
    }
}

static void put_all(struct tarn_kv *kv)
{
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%u", i);
        assert_int_equal(tarn_kv_put(kv, keys[i], strlen(keys[i]), keys[i], strlen(keys[i]) + 1, NULL, NULL),
                         0);
    }
}

static int count_record(void *arg, const void *key, size_t key_len, const void *value,
                        const struct tarn_record_info *info)
{
    unsigned *count = arg;
    (void)key;
    (void)key_len;
    (void)value;
    (void)info;
    ++*count;
    return 0;
}

/* With the second server alone: the others take what time they need. */
static void be_impatient(struct tarn_kv *kv, uint64_t timeout_ns)
{
    struct kv_spread *spread = base_container_of(kv, struct kv_spread, kv);
    for (unsigned i = 0; i < SERVERS; i++) {
        if (strcmp(spread->remotes[i]->address, servers[1].address) == 0)
            spread->remotes[i]->timeout_ns = timeout_ns;
    }
}

static void a_server_that_is_gone_fails_its_own_keys(struct testing_fabric *testing)
{
    unsigned gone_keys = 0, count = 0;
    struct tarn_kv *kv, *late;
    char value[16];
    serve_all(testing);
    assert_int_equal(reach(testing, "depot", 60 * BASE_NS_PER_SECOND, &kv), 0);
    put_all(kv);
    stop(1);
    be_impatient(kv, 30 * BASE_NS_PER_MS);
    get_all(kv, 1, -EHOSTUNREACH);
    for (unsigned i = 0; i < MANY; i++)
        gone_keys += owner_of(keys[i]) == 1;
    for (unsigned i = 0, some = 0; i < MANY && some < 3; i++) {
        if (owner_of(keys[i]) != 1)
            continue;
        some++;
        assert_int_equal(tarn_kv_put(kv, keys[i], strlen(keys[i]), "x", 1, NULL, NULL), -EHOSTUNREACH);
        assert_int_equal(tarn_kv_get(kv, keys[i], strlen(keys[i]), value, sizeof(value), NULL),
                         -EHOSTUNREACH);
    }
    assert_int_equal(tarn_kv_scan(kv, count_record, &count), -EHOSTUNREACH);
    assert_int_equal(count, MANY - gone_keys);
    assert_int_equal(reach(testing, "depot", 60 * BASE_NS_PER_SECOND, &late), 0); /* the others are enough */
    be_impatient(late, 30 * BASE_NS_PER_MS);
    get_all(late, 1, -EHOSTUNREACH);
    start(1);
    be_impatient(kv, 60 * BASE_NS_PER_SECOND);
    be_impatient(late, 60 * BASE_NS_PER_SECOND);
    get_all(kv, SERVERS, 0);
    get_all(late, SERVERS, 0);
    count = 0;
    assert_int_equal(tarn_kv_scan(late, count_record, &count), 0);
    assert_int_equal(count, MANY);
    assert_int_equal(tarn_kv_close(late), 0);
    assert_int_equal(tarn_kv_close(kv), 0);
    serve_none();
}

static void who_does_not_agree_is_refused(struct testing_fabric *testing)
{
    struct tarn_kv *kv;
    serve_all(testing);
    stop(2);
    const struct kv_served other_kind[] = {{"depot", servers[2].cache}, {"cache", servers[2].cache}};
    testing_listen(&servers[2], other_kind, 1);
    assert_int_equal(reach(testing, "depot", 0, &kv), -EINVAL);
    assert_int_equal(reach(testing, "cache", 0, &kv), -ENXIO);
    for (unsigned i = 0; i < SERVERS; i++)
        stop(i);
    const int error = reach(testing, "depot", BASE_NS_PER_SECOND, &kv);
    assert_true(error == -ECONNREFUSED || error == -ENOENT);
    serve_none();
}

/* ---- at once ------------------------------------------------------------------------------------ */

/* A service that answers no batch before all that are expected are there. */
struct gate {
    struct tarn_rpc_method methods[KV_SHORT + KV_METHODS];
    struct tarn_rpc_service service;
    bool is_cache;
    uint16_t workers;
    unsigned expected;
    _Atomic unsigned batches, keys, late;
};

static int wait_at_gate(void *arg, struct tarn_rpc_request *request)
{
    struct gate *gate = arg;
    const uint32_t count = base_load_le32((const uint8_t *)request->data + 4);
    const uint64_t deadline_ns = TESTING_SECONDS(10);
    gate->keys += count;
    gate->batches++;
    while (gate->batches % gate->expected != 0 && task_now() < deadline_ns)
        (void)task_sleep(BASE_NS_PER_MS / 10);
    gate->late += task_now() >= deadline_ns;
    for (uint32_t i = 0; i < count; i++) {
        const struct tarn_get get = {.error = -ENOENT};
        kv_got_save(&get, (uint8_t *)request->result + (size_t)i * KV_ITEM_BYTES);
    }
    request->result_bytes = count * KV_ITEM_BYTES;
    return 0;
}

static int describe_gate(void *arg, struct tarn_rpc_request *request)
{
    const struct gate *gate = arg;
    const struct kv_store_info info = {.stores = 1,
                                       .workers = gate->workers,
                                       .name = "gate",
                                       .name_len = 4,
                                       .info = {.kind = gate->is_cache ? kv_kind_cache : kv_kind_depot,
                                                .partitions = gate->is_cache ? gate->workers : 1}};
    kv_info_save(&info, request->result);
    request->result_bytes = KV_INFO_BYTES + 4;
    return 0;
}

static struct tarn_rpc_server *open_gate(struct testing_fabric *testing, struct gate *gate,
                                         const char *address)
{
    const struct tarn_rpc_serve_options options = {.workers = gate->workers,
                                                   .request_bytes_max = KV_NARROW_REQUEST,
                                                   .result_bytes_max = KV_NARROW_RESULT};
    struct tarn_rpc_server *server;
    gate->methods[KV_INFO] = (struct tarn_rpc_method){.name = "info", .function = describe_gate};
    gate->methods[KV_MULTI_GET] = gate->methods[KV_SHORT + KV_MULTI_GET] =
        (struct tarn_rpc_method){.name = "many", .function = wait_at_gate};
    gate->service = (struct tarn_rpc_service){
        .methods = gate->methods, .count = base_array_count(gate->methods), .arg = gate};
    if (testing->tasks != NULL)
        assert_int_equal(rpc_serve(testing->fabric, address, &gate->service, &options,
                                   &testing->node->scheds[1], gate->workers, &server),
                         0);
    else
        assert_int_equal(tarn_rpc_serve(testing->fabric, address, &gate->service, &options, &server), 0);
    return server;
}

/* Ask for some keys, twice: each time so many batches are sent, and none is answered before all are there. */
static void pass_gate(struct testing_fabric *testing, struct gate *gate, const char *where)
{
    struct tarn_kv *kv;
    assert_int_equal(testing_reach_at(testing, where, "gate", 60 * BASE_NS_PER_SECOND, &kv), 0);
    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "key-%u", i);
            gets[i] = (struct tarn_get){.key = keys[i], .key_len = strlen(keys[i])};
        }
        tarn_kv_get_many(kv, gets, MANY);
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(gets[i].error, -ENOENT);
        assert_int_equal(gate->keys, round * MANY);
        assert_int_equal(gate->batches, round * gate->expected);
        assert_int_equal(gate->late, 0);
    }
    assert_int_equal(tarn_kv_close(kv), 0);
}

static void all_servers_are_asked_at_once(struct testing_fabric *testing)
{
    struct gate gate = {.workers = 1, .expected = SERVERS};
    struct tarn_rpc_server *opened[SERVERS];
    char address[108];
    addresses[0] = '\0';
    for (unsigned i = 0; i < SERVERS; i++) {
        testing->subject->address(address, sizeof(address));
        opened[i] = open_gate(testing, &gate, address);
        (void)snprintf(addresses + strlen(addresses), sizeof(addresses) - strlen(addresses), "%s%s",
                       i == 0 ? "" : ",", address);
    }
    pass_gate(testing, &gate, addresses);
    for (unsigned i = 0; i < SERVERS; i++)
        tarn_rpc_server_close(opened[i]);
}

static void all_workers_are_asked_at_once(struct testing_fabric *testing)
{
    struct gate gate = {
        .workers = TASK_TESTING_SCHEDS - 1, .is_cache = true, .expected = TASK_TESTING_SCHEDS - 1};
    struct tarn_rpc_server *server = open_gate(testing, &gate, testing->address);
    pass_gate(testing, &gate, testing->address);
    tarn_rpc_server_close(server);
}

TESTING_BOTH(keys_lie_with_their_servers)
TESTING_BOTH(a_server_that_is_gone_fails_its_own_keys)
TESTING_BOTH(who_does_not_agree_is_refused)
TESTING_BOTH(all_servers_are_asked_at_once)
TESTING_BOTH(all_workers_are_asked_at_once)

static int begin_depots(void **state)
{
    testing_scheme = "unix:";
    testing_kind = &depots;
    return shm_testing_setup(state);
}

static int begin_caches(void **state)
{
    testing_kind = &caches;
    return shm_testing_setup(state);
}

int main(void)
{
    const struct testing_suite suites[] = {kv_conformance, {0}};
    /* Where caches are routed otherwise. */
    static const char *const routed[] = {"many_are_fetched", "long_values_come_back", "agrees_with_a_model",
                                         NULL};
    const struct CMUnitTest more[] = {cmocka_unit_test(the_hash_is_as_it_is_written),
                                      cmocka_unit_test(keys_are_spread_evenly),
                                      TESTING_UNITS(keys_lie_with_their_servers),
                                      TESTING_UNITS(a_server_that_is_gone_fails_its_own_keys),
                                      TESTING_UNITS(who_does_not_agree_is_refused),
                                      TESTING_UNITS(all_servers_are_asked_at_once),
                                      TESTING_UNITS(all_workers_are_asked_at_once)};
    cmocka_set_test_filter(getenv("TARN_CASE"));
    return testing_run_suites("depots", suites, NULL, begin_depots, NULL) +
           testing_run_suites("caches", suites, routed, begin_caches, NULL) +
           cmocka_run_group_tests_name("servers", more, begin_caches, NULL);
}
