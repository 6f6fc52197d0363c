/* Is every store read as it was meant, and every other text refused with a sentence that names it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serve/serve_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct serve_store_options store; /* of one test after the other: it is large */
static char sentence[BASE_SETTINGS_ERROR_ROOM];

static void read_well(const char *text)
{
    memset(&store, 0xee, sizeof(store));
    sentence[0] = '\0';
    if (serve_store_read(text, &store, sentence, sizeof(sentence)) != 0)
        fail_msg("%s: %s", text, sentence);
}

static void depots_are_read(void **state)
{
    (void)state;
    read_well("a:depot,path=/var/x.tarn");
    assert_string_equal(store.name, "a");
    assert_int_equal(store.kind, SERVE_DEPOT);
    assert_string_equal(store.path, "/var/x.tarn");
    assert_int_equal(store.size_bytes, 0);
    assert_null(store.dump);
    assert_null(store.unix_path);
    assert_int_equal(store.port, SERVE_NO_PORT);
    assert_int_equal(store.memory_bytes, 0);
    read_well("A-1_.z:depot,size=2G,path=x=y,port=0,unix=/run/a b,dump=d");
    assert_string_equal(store.name, "A-1_.z");
    assert_string_equal(store.path, "x=y");
    assert_int_equal(store.size_bytes, UINT64_C(2) << 30);
    assert_int_equal(store.port, 0);
    assert_string_equal(store.unix_path, "/run/a b");
    assert_string_equal(store.dump, "d");
}

static void caches_are_read(void **state)
{
    (void)state;
    read_well("c:cache,memory=64M");
    assert_int_equal(store.kind, SERVE_CACHE);
    assert_int_equal(store.memory_bytes, 64 << 20);
    assert_int_equal(store.partitions, 0);
    assert_int_equal(store.item_bytes, 0);
    assert_null(store.path);
    read_well("c:cache,partitions=256,item=2K,memory=1M,port=65535,memory=2M");
    assert_int_equal(store.memory_bytes, 2 << 20);
    assert_int_equal(store.partitions, 256);
    assert_int_equal(store.item_bytes, 2048);
    assert_int_equal(store.port, 65535);
    read_well("h:hash,memory=64M,slots=1024,ranks=4,filter=8,port=1");
    assert_int_equal(store.kind, SERVE_HASH);
    assert_int_equal(store.memory_bytes, 64 << 20);
    assert_int_equal(store.port, 1);
    assert_string_equal(store.url, "hash:memory=64M,slots=1024,ranks=4,filter=8");
    read_well(
        "h:hash,space=a:1\\,b:2,unix=/s,namespace=n,store=s,secret=/f,memory=1G,port=1?tcp:tls,secret=/g");
    assert_string_equal(store.url,
                        "hash:space=a:1\\,b:2,namespace=n,store=s,secret=/f,memory=1G?tcp:tls,secret=/g");
    assert_string_equal(store.unix_path, "/s");
    assert_int_equal(store.memory_bytes, 0); /* it is not of this process */
}

/* Of paths, which are lists, a comma keeps its backslash. */
static void commas_may_be_in_names(void **state)
{
    (void)state;
    read_well("a:depot,path=x\\,y,path=z,unix=/run/a\\,b,dump=\\,");
    assert_string_equal(store.path, "x\\,y,z");
    assert_string_equal(store.unix_path, "/run/a,b");
    assert_string_equal(store.dump, ",");
    read_well("a:depot,path=x\\y\\");
    assert_string_equal(store.path, "x\\y\\");
}

static void what_is_wrong_is_said(void **state)
{
    static const char *const cases[][2] = {
        {"", "NAME:depot,path=FILE, NAME:cache"},
        {"a", "NAME:depot,path=FILE, NAME:cache"},
        {":depot,path=x", "a name has 1 to 63"},
        {"a b:depot,path=x", "a name has 1 to 63"},
        {"a/b:depot,path=x", "a name has 1 to 63"},
        {"a:", "there is no such kind"},
        {"a:depots,path=x", "there is no such kind"},
        {"a:Cache,memory=1M", "there is no such kind"},
        {"a:depot", "where is it"},
        {"a:depot,path=", "where is it"},
        {"a:depot,path=x,path=", "where is it"},
        {"a:cache", "how much memory"},
        {"a:cache,memory=", "is not a size"},
        {"a:cache,memory=1023K", "too little: at least 1M"},
        {"a:cache,memory=1M,", "\"\" is no option"},
        {"a:cache,memory", "\"memory\" is no option"},
        {"a:cache,memory=1M,,port=1", "\"\" is no option"},
        {"a:cache,memory=1M,partitions=0", "partitions: \"0\" is too little"},
        {"a:cache,memory=1M,partitions=257", "at most 256"},
        {"a:cache,memory=1M,item=0", "too little"},
        {"a:cache,memory=1M,item=2G", "too much"},
        {"a:cache,memory=1M,port=65536", "at most 65535"},
        {"a:cache,memory=1M,port=-1", "is not a number"},
        {"a:cache,memory=1M,unix=", "too little"},
        {"a:cache,memory=1M,path=x", "only a depot has the option path"},
        {"a:cache,memory=1M,size=1M", "only a depot has the option size"},
        {"a:cache,memory=1M,dump=x", "only a depot has the option dump"},
        {"a:depot,path=x,memory=1M", "only a cache has the option memory"},
        {"a:depot,path=x,partitions=1", "only a cache has the option partitions"},
        {"a:depot,path=x,item=1", "only a cache has the option item"},
        {"a:depot,path=x,slots=64", "slots"},
        {"a:cache,memory=1M,ranks=2", "ranks"},
        {"a:hash", "how much memory"},
        {"a:hash,memory=1M,", "behind the last comma"},
        {"a:hash,memory=1M,,ranks=3", "is named as hash:"},
        {"a:hash,memory=1M,path=x", "is named as hash:"},
        {"a:hash,memory=1M,ranks=9", "2 to 8 ranks"},
        {"a:hash,memory=1M,port=x", "port"},
        {"a:hash,space=a:1", "namespace=NAME"},
        {"a:hash,memory=1M,secret=f", "namespace=NAME"},
        {"a:depot,path=x,size=1", "at least 1M"},
        {"a:depot,path=x,size=", "is not a size"},
        {"a:depot,path=x,dump=", "too little"},
        {"a:depot,path=x,port", "\"port\" is no option"},
        {"a:depot,path=x,prot=1", "did you mean port?"},
        {"a:depot,path=x\n", "control character"},
        {"a\x7f:depot,path=x", "control character"},
    };
    (void)state;
    for (size_t i = 0; i < base_array_count(cases); i++) {
        assert_int_equal(serve_store_read(cases[i][0], &store, sentence, sizeof(sentence)), -EINVAL);
        if (strstr(sentence, cases[i][1]) == NULL || strncmp(sentence, "store ", 6) != 0)
            fail_msg("%s: %s", cases[i][0], sentence);
    }
}

static void lengths_have_bounds(void **state)
{
    char text[SERVE_STORE_BYTES + 1], name[KV_NAME_MAX + 32];
    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "a:depot,path=", strlen("a:depot,path="));
    text[SERVE_STORE_BYTES] = '\0';
    assert_int_equal(serve_store_read(text, &store, sentence, sizeof(sentence)), -EINVAL);
    assert_non_null(strstr(sentence, "longer than 1023 bytes"));
    text[SERVE_STORE_BYTES - 1] = '\0';
    read_well(text);
    assert_int_equal(strlen(store.path), SERVE_STORE_BYTES - 1 - strlen("a:depot,path="));
    memset(name, 'n', KV_NAME_MAX + 1);
    (void)snprintf(name + KV_NAME_MAX, sizeof(name) - KV_NAME_MAX, ":cache,memory=1M");
    read_well(name);
    assert_int_equal(strlen(store.name), KV_NAME_MAX);
    (void)snprintf(name + KV_NAME_MAX, sizeof(name) - KV_NAME_MAX, "n:cache,memory=1M");
    assert_int_equal(serve_store_read(name, &store, sentence, sizeof(sentence)), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depots_are_read),        cmocka_unit_test(caches_are_read),
        cmocka_unit_test(commas_may_be_in_names), cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(lengths_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
