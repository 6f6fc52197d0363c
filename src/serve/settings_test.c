/* Is the table of settings sound, and are combinations refused that must not be served? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serve/serve_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <tarn/depot.h>

struct fixture {
    struct base_account account;
    struct base_settings_arena arena;
    struct serve_options options;
    struct base_settings settings;
    char error[BASE_SETTINGS_ERROR_ROOM];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    base_account_init(&fixture->account, BASE_ACCOUNT_UNLIMITED);
    base_settings_arena_init(&fixture->arena, &fixture->account);
    fixture->settings = (struct base_settings){.table = serve_settings,
                                               .count = serve_settings_count,
                                               .options = &fixture->options,
                                               .arena = &fixture->arena};
    *state = fixture;
    return base_settings_set_defaults(&fixture->settings, fixture->error, sizeof(fixture->error));
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    base_settings_arena_deinit(&fixture->arena);
    base_account_deinit(&fixture->account);
    free(fixture);
    return 0;
}

static void set(struct fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(
        base_settings_set(&fixture->settings, name, value, fixture->error, sizeof(fixture->error)), 0);
}

static int check(struct fixture *fixture)
{
    return serve_check_options(&fixture->options, fixture->error, sizeof(fixture->error));
}

static void defaults_are_safe(void **state)
{
    struct fixture *fixture = *state;
    const struct serve_options *options = &fixture->options;
    assert_int_equal(options->port, 11211);
    assert_int_equal(options->listen.count, 0); /* 127.0.0.1 */
    assert_int_equal(options->mode, 0);         /* auto: power */
    assert_false(options->cache);
    assert_int_equal(options->over_provisioning_percent, 7);
    assert_false(options->insecure);
    assert_int_equal(options->item_bytes_max, 1 << 20);
    assert_string_equal(options->hot, "auto");
    assert_int_equal(serve_hot_bytes(options), 0);
    assert_int_equal(options->hot_record_bytes, 64 << 10);
}

static void hot_is_a_size_or_a_word(void **state)
{
    struct fixture *fixture = *state;
    set(fixture, "data", "store");
    set(fixture, "hot", "off");
    assert_int_equal(check(fixture), 0);
    assert_int_equal(serve_hot_bytes(&fixture->options), TARN_HOT_OFF);
    set(fixture, "hot", "512M");
    assert_int_equal(check(fixture), 0);
    assert_int_equal(serve_hot_bytes(&fixture->options), 512 << 20);
    static const char *const wrong[] = {"", "0", "none", "-1", "1Q", "auto "};
    for (size_t i = 0; i < base_array_count(wrong); i++) {
        set(fixture, "hot", wrong[i]);
        assert_int_equal(check(fixture), -EINVAL);
        assert_non_null(strstr(fixture->error, "--hot="));
    }
    set(fixture, "hot", "auto");
    assert_int_equal(check(fixture), 0);
}

static void a_store_must_be_named(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(check(fixture), -EINVAL);
    assert_non_null(strstr(fixture->error, "--data"));
    assert_non_null(strstr(fixture->error, "--store"));
    set(fixture, "data", "");
    assert_int_equal(check(fixture), -EINVAL);
    set(fixture, "data", "store");
    assert_int_equal(check(fixture), 0);
}

static void only_loopback_is_secure(void **state)
{
    struct fixture *fixture = *state;
    const char *const inside[] = {"127.0.0.1",   "127.0.0.1:0",     "127.8.9.10:11211", "[::1]",
                                  "[::1]:11211", "127.0.0.1,[::1]", "localhost",        "localhost:0"};
    const char *const outside[] = {"0.0.0.0",    "0.0.0.0:11211",     "[::]:11211",
                                   "10.0.0.1",   "1.127.0.1",         "[::1:1]:1",
                                   "localhosts", "localhost.example", "127.0.0.1,192.0.2.1"};
    set(fixture, "data", "store");
    for (size_t i = 0; i < base_array_count(inside); i++) {
        set(fixture, "listen", inside[i]);
        assert_int_equal(check(fixture), 0);
    }
    for (size_t i = 0; i < base_array_count(outside); i++) {
        set(fixture, "insecure", "no");
        set(fixture, "listen", outside[i]);
        assert_int_equal(check(fixture), -EINVAL);
        assert_non_null(strstr(fixture->error, "--insecure"));
        set(fixture, "insecure", "yes");
        assert_int_equal(check(fixture), 0);
    }
}

/* What is said, and a part of the sentence; NULL: it is right. */
struct said {
    const char *stores[3];
    const char *sentence;
};

static void expect_stores(struct fixture *fixture, const struct said *said)
{
    set(fixture, "store", "");
    for (size_t i = 0; i < base_array_count(said->stores) && said->stores[i] != NULL; i++)
        set(fixture, "store", said->stores[i]);
    fixture->error[0] = '\0';
    assert_int_equal(check(fixture), said->sentence == NULL ? 0 : -EINVAL);
    if (said->sentence != NULL && strstr(fixture->error, said->sentence) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", said->sentence, fixture->error);
}

static void stores_go_together(void **state)
{
    static const struct said cases[] = {
        {{"a:depot,path=x"}, NULL},
        {{"a:cache,memory=1M"}, NULL},
        {{"a:depot,path=x", "b:cache,memory=1M,port=0", "c:depot,path=y,unix=/s"}, NULL},
        {{"a:depot,path=x", "a:cache,memory=1M,port=0"}, "two stores have the name a"},
        {{"a:depot,path=x", "b:depot,path=x,port=1"}, "the stores a and b have the same path"},
        {{"a:depot,path=x", "b:cache,memory=1M"}, "nobody could reach the store b"},
        {{"a:depot,path=x", "b:cache,memory=1M,port=1", "c:cache"}, "store c: how much memory"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < base_array_count(cases); i++)
        expect_stores(fixture, &cases[i]);
    set(fixture, "kv-unix", "/run/kv"); /* there it is reached */
    expect_stores(fixture, &(struct said){{"a:depot,path=x", "b:cache,memory=1M"}, NULL});
}

static void data_is_a_store_too(void **state)
{
    static const struct said cases[] = {
        {{NULL}, NULL},
        {{"b:cache,memory=1M,port=0"}, NULL},
        {{"default:cache,memory=1M,port=0"}, "two stores have the name default: --data is one of them"},
        {{"b:depot,path=store,port=0"}, "the stores default and b have the same path"},
    };
    struct fixture *fixture = *state;
    struct serve_store_options store;
    set(fixture, "data", "store");
    for (size_t i = 0; i < base_array_count(cases); i++)
        expect_stores(fixture, &cases[i]);
    set(fixture, "store", "");
    set(fixture, "store", "b:cache,memory=7M,port=0");
    assert_int_equal(serve_stores_named(&fixture->options), 2);
    assert_int_equal(serve_cache_bytes(&fixture->options), 7 << 20);
    assert_int_equal(serve_store_at(&fixture->options, 0, &store, fixture->error, 100), 0);
    assert_string_equal(store.name, "default");
    assert_string_equal(store.path, "store");
    assert_int_equal(serve_store_at(&fixture->options, 1, &store, fixture->error, 100), 0);
    assert_string_equal(store.name, "b");
}

static void there_is_an_end_to_stores(void **state)
{
    char texts[KV_STORES_MAX][32];
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < KV_STORES_MAX; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%u:cache,memory=1024P,port=0", i);
        set(fixture, "store", texts[i]);
    }
    assert_int_equal(check(fixture), 0);
    assert_int_equal(serve_cache_bytes(&fixture->options), UINT64_MAX); /* more than 16 E */
    set(fixture, "data", "store");
    assert_int_equal(check(fixture), -EINVAL);
    assert_non_null(strstr(fixture->error, "more than 64 stores"));
}

static void a_dump_is_of_one_depot(void **state)
{
    static const struct said cases[] = {
        {{"a:depot,path=x"}, NULL},
        {{"a:depot,path=x", "b:cache,memory=1M,port=0"}, NULL},
        {{"a:cache,memory=1M"}, "there are 0"},
        {{"a:depot,path=x", "b:depot,path=y,port=0"}, "there are 2"},
    };
    struct fixture *fixture = *state;
    set(fixture, "dump", "file");
    for (size_t i = 0; i < base_array_count(cases); i++)
        expect_stores(fixture, &cases[i]);
}

/* Set the options that a kv listener needs, and check. */
static void expect_kv_listener(struct fixture *fixture, const char *address, const char *fabric,
                               const char *sentence)
{
    set(fixture, "kv-listen", address);
    set(fixture, "kv-fabric", fabric);
    assert_int_equal(check(fixture), sentence == NULL ? 0 : -EINVAL);
    if (sentence != NULL)
        assert_non_null(strstr(fixture->error, sentence));
}

static void kv_listeners_stay_on_loopback(void **state)
{
    struct fixture *fixture = *state;
    const char *const outside[] = {"0.0.0.0:4711", "[::]:4711", "10.0.0.1:4711", "127.0.0.1:1,192.0.2.1:1"};
    const char *const open[] = {"tcp:",   "tcp:secrets", "tcp:tlsx", "tcp:insecure,nottls",
                                "verbs:", "verbs:tls"};
    const char *const closed[] = {"tcp:secret=f", "tcp:heartbeat=2s,secret=f", "tcp:secret=f,tls",
                                  "tcp:cert=c,tls,key=k,ca=a"};
    set(fixture, "data", "store");
    expect_kv_listener(fixture, "127.0.0.1:4711,[::1]:4712", "tcp:", NULL);
    for (size_t i = 0; i < base_array_count(outside); i++) {
        for (size_t k = 0; k < base_array_count(open); k++)
            expect_kv_listener(fixture, outside[i], open[k], "--insecure");
        for (size_t k = 0; k < base_array_count(closed); k++)
            expect_kv_listener(fixture, outside[i], closed[k], NULL);
        set(fixture, "insecure", "yes");
        expect_kv_listener(fixture, outside[i], "tcp:", NULL);
        set(fixture, "insecure", "no");
    }
}

static void kv_listeners_have_ports_and_fabrics(void **state)
{
    struct fixture *fixture = *state;
    set(fixture, "data", "store");
    expect_kv_listener(fixture, "127.0.0.1:1", "shm:", "--kv-unix");
    expect_kv_listener(fixture, "127.0.0.1:1", "", "--kv-unix");
    expect_kv_listener(fixture, "127.0.0.1", "tcp:", "no port");
    expect_kv_listener(fixture, "[::1]", "tcp:", "no port");
    expect_kv_listener(fixture, "127.0.0.1:0", "tcp:", "no port");
    expect_kv_listener(fixture, "127.0.0.1:10", "tcp:", NULL);
    assert_int_equal(
        base_settings_set(&fixture->settings, "kv-listen", "a,b,c,d,e,f,g,h,i", fixture->error, 100),
        -EINVAL);
}

static void over_provisioning_has_bounds(void **state)
{
    struct fixture *fixture = *state;
    const char *const bad[] = {"0", "2", "76", "100", "-7", "7.5"};
    for (size_t i = 0; i < base_array_count(bad); i++) {
        assert_int_not_equal(base_settings_set(&fixture->settings, "over-provisioning", bad[i],
                                               fixture->error, sizeof(fixture->error)),
                             0);
        assert_non_null(strstr(fixture->error, "over-provisioning"));
    }
    set(fixture, "over-provisioning", "3");
    set(fixture, "over-provisioning", "75");
    assert_int_equal(fixture->options.over_provisioning_percent, 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_are_safe, setup, teardown),
        cmocka_unit_test_setup_teardown(hot_is_a_size_or_a_word, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_must_be_named, setup, teardown),
        cmocka_unit_test_setup_teardown(only_loopback_is_secure, setup, teardown),
        cmocka_unit_test_setup_teardown(stores_go_together, setup, teardown),
        cmocka_unit_test_setup_teardown(data_is_a_store_too, setup, teardown),
        cmocka_unit_test_setup_teardown(there_is_an_end_to_stores, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dump_is_of_one_depot, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_listeners_stay_on_loopback, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_listeners_have_ports_and_fabrics, setup, teardown),
        cmocka_unit_test_setup_teardown(over_provisioning_has_bounds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
