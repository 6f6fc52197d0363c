/* Is every line understood, or refused, as memcached does it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memcache/parse.h"
#include <stdio.h>
#include <stdlib.h>

#define FORMAT  "CLIENT_ERROR bad command line format\r\n"
#define EXPTIME "CLIENT_ERROR invalid exptime argument\r\n"
#define DELTA   "CLIENT_ERROR invalid numeric delta argument\r\n"

#define KEY50  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define KEY250 KEY50 KEY50 KEY50 KEY50 KEY50

/* The line is copied, so that a read behind its end is seen. */
static struct memcache_request parse(const char *line, size_t len, char **ret_copy)
{
    struct memcache_request request;
    *ret_copy = malloc(len == 0 ? 1 : len);
    assert_non_null(*ret_copy);
    memcpy(*ret_copy, line, len);
    memcache_parse(*ret_copy, len, &request);
    return request;
}

static void expect_refusal(const char *line, const char *refusal, bool noreply)
{
    char *copy;
    struct memcache_request request = parse(line, strlen(line), &copy);
    assert_int_equal(request.verb, MEMCACHE_REFUSED);
    assert_string_equal(request.refusal, refusal);
    assert_int_equal(request.noreply, noreply);
    free(copy);
}

static void expect_storage(const char *line, struct memcache_request expected, const char *key)
{
    char *copy;
    struct memcache_request request = parse(line, strlen(line), &copy);
    assert_int_equal(request.verb, expected.verb);
    assert_true(memcache_has_value(&request));
    assert_int_equal(request.noreply, expected.noreply);
    assert_int_equal(request.client_flags, expected.client_flags);
    assert_int_equal(request.exptime, expected.exptime);
    assert_int_equal(request.value_bytes, expected.value_bytes);
    assert_int_equal(request.cas, expected.cas);
    assert_int_equal(request.key.len, strlen(key));
    assert_memory_equal(request.key.text, key, strlen(key));
    free(copy);
}

static void storage_lines(void **state)
{
    (void)state;
    expect_storage(
        "set a 1 2 3",
        (struct memcache_request){.verb = MEMCACHE_SET, .client_flags = 1, .exptime = 2, .value_bytes = 3},
        "a");
    expect_storage("  set  a  0  0  0  ", (struct memcache_request){.verb = MEMCACHE_SET}, "a");
    expect_storage("add a +4294967295 -1 2147483645 noreply",
                   (struct memcache_request){.verb = MEMCACHE_ADD,
                                             .noreply = true,
                                             .client_flags = UINT32_MAX,
                                             .exptime = -1,
                                             .value_bytes = INT32_MAX - 2},
                   "a");
    expect_storage(
        "replace " KEY250 " 0 99999999999 01 ignored",
        (struct memcache_request){.verb = MEMCACHE_REPLACE, .exptime = 99999999999, .value_bytes = 1},
        KEY250);
    expect_storage("cas a\tb 0 0 1 18446744073709551615",
                   (struct memcache_request){.verb = MEMCACHE_CAS, .value_bytes = 1, .cas = UINT64_MAX},
                   "a\tb");
    expect_storage(
        "append a 5 6 7 noreply",
        (struct memcache_request){
            .verb = MEMCACHE_APPEND, .noreply = true, .client_flags = 5, .exptime = 6, .value_bytes = 7},
        "a");
    expect_storage("prepend a 0 0 1", (struct memcache_request){.verb = MEMCACHE_PREPEND, .value_bytes = 1},
                   "a");
    expect_storage(
        "cas a 0 0 1 7 noreply",
        (struct memcache_request){.verb = MEMCACHE_CAS, .noreply = true, .value_bytes = 1, .cas = 7}, "a");
}

/* A refused line with a value: it is skipped, or its length is not known. */
static void expect_refused_value(const char *line, bool noreply, bool closes, uint32_t bytes)
{
    char *copy;
    struct memcache_request request = parse(line, strlen(line), &copy);
    assert_int_equal(request.verb, MEMCACHE_REFUSED);
    assert_string_equal(request.refusal, FORMAT);
    assert_int_equal(request.noreply, noreply);
    assert_int_equal(request.closes, closes);
    assert_int_equal(request.swallow, !closes);
    if (!closes)
        assert_int_equal(request.value_bytes, bytes);
    free(copy);
}

static void refused_storage_lines(void **state)
{
    (void)state;
    /* what follows such a line cannot be told from commands */
    const char *const closing[] = {"set",
                                   "set a 0",
                                   "set a 0 0",
                                   "replace a",
                                   "append a 0 0",
                                   "cas a 0 0",
                                   "set a 0 0 x",
                                   "set a 0 0 -1",
                                   "set a 0 0 1x",
                                   "set a 0 0 +1",
                                   "set a 0 0 \t1",
                                   "set a 0 0 2147483646 noreply",
                                   "set " KEY250 "k x x 18446744073709551616 noreply"};
    for (size_t i = 0; i < base_array_count(closing); i++)
        expect_refused_value(closing[i], false, true, 0);
    const char *const formats[] = {
        "set a -1 0 9",         "set a x 0 9",          "set a 0 x 9",
        "set a 0x10 0 9",       "set a 4294967296 0 9", "set a 0 9223372036854775808 9",
        "set a - 0 9",          "set a 0 + 9",          "set a x 0 9 1 2 3 4 5 6",
        "cas a 0 0 9",          "cas a 0 0 9 x",        "cas a 0 0 9 -1",
        "set " KEY250 "k 0 0 9"};
    for (size_t i = 0; i < base_array_count(formats); i++)
        expect_refused_value(formats[i], false, false, 9);
    expect_refused_value("set a 0 x 9 noreply", true, false, 9);
    expect_refused_value("cas a 0 0 9 noreply", true, false, 9);
    expect_refused_value("set " KEY250 "k 0 0 2147483645 1 2 3 4 5 noreply", true, false, INT32_MAX - 2);
}

static void other_lines(void **state)
{
    (void)state;
    const struct {
        const char *line;
        enum memcache_verb verb;
        bool noreply;
        const char *key;
        int64_t exptime;
    } lines[] = {
        {"get a b", MEMCACHE_GET, false, "", 0},
        {"gets a", MEMCACHE_GETS, false, "", 0},
        {"get 1 2 3 4 5 6 7 8 9 10 11 12", MEMCACHE_GET, false, "", 0},
        {"delete a", MEMCACHE_DELETE, false, "a", 0},
        {"delete noreply", MEMCACHE_DELETE, true, "noreply", 0},
        {"delete a b c d e f g h", MEMCACHE_DELETE, false, "a", 0},
        {"delete a noreply", MEMCACHE_DELETE, true, "a", 0},
        {"delete a 0 noreply", MEMCACHE_DELETE, true, "a", 0},
        {"touch a 5", MEMCACHE_TOUCH, false, "a", 5},
        {"touch a -5 x", MEMCACHE_TOUCH, false, "a", -5},
        {"touch a 5 noreply", MEMCACHE_TOUCH, true, "a", 5},
        {"flush_all", MEMCACHE_FLUSH_ALL, false, "", 0},
        {"flush_all 3", MEMCACHE_FLUSH_ALL, false, "", 3},
        {"flush_all 3 x", MEMCACHE_FLUSH_ALL, false, "", 3},
        {"flush_all noreply", MEMCACHE_FLUSH_ALL, true, "", 0},
        {"flush_all -3 noreply", MEMCACHE_FLUSH_ALL, true, "", -3},
        {"stats", MEMCACHE_STATS, false, "", 0},
        {"stats settings x", MEMCACHE_STATS, false, "settings", 0},
        {"version", MEMCACHE_VERSION, false, "", 0},
        {"version noreply", MEMCACHE_VERSION, false, "", 0},
        {"verbosity 1", MEMCACHE_VERBOSITY, false, "", 0},
        {"verbosity 1 noreply", MEMCACHE_VERBOSITY, true, "", 0},
        {"quit now", MEMCACHE_QUIT, false, "", 0},
        {"shutdown graceful", MEMCACHE_SHUTDOWN, false, "", 0},
        {"gat 5 a b", MEMCACHE_GAT, false, "", 5},
        {"gats -5 a", MEMCACHE_GATS, false, "", -5},
        {"touch a 1 2 3 4 5 6 7 8 noreply", MEMCACHE_TOUCH, true, "a", 1},
        {"flush_all 1 2 3", MEMCACHE_FLUSH_ALL, false, "", 1},
        {"verbosity 1 2 3", MEMCACHE_VERBOSITY, false, "", 0},
        {"incr a 5", MEMCACHE_INCR, false, "a", 0},
        {"decr a 5 noreply", MEMCACHE_DECR, true, "a", 0},
        {"incr a 5 x", MEMCACHE_INCR, false, "a", 0},
        {"verbosity 1 2", MEMCACHE_VERBOSITY, false, "", 0},
    };
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char *copy;
        struct memcache_request request = parse(lines[i].line, strlen(lines[i].line), &copy);
        assert_int_equal(request.verb, lines[i].verb);
        assert_int_equal(request.noreply, lines[i].noreply);
        assert_int_equal(request.exptime, lines[i].exptime);
        assert_int_equal(request.key.len, strlen(lines[i].key));
        assert_memory_equal(request.key.text, lines[i].key, request.key.len);
        assert_false(memcache_has_value(&request));
        free(copy);
    }
}

static void refused_other_lines(void **state)
{
    (void)state;
    const char *const errors[] = {"",        " ",          "GET a",         "getx a", "quitx",
                                  "foo bar", "se a 0 0 1", "appen a 0 0 1", "m",      "mx a",
                                  "mga a",   "Mg a",       "m\xff a"};
    for (size_t i = 0; i < base_array_count(errors); i++)
        expect_refusal(errors[i], "ERROR\r\n", false);
    const char *const short_lines[] = {"get",    "get ", "gets", "delete", "touch",   "touch a", "verbosity",
                                       "incr a", "decr", "gat",  "gats",   "gat 100", "gats x"};
    for (size_t i = 0; i < base_array_count(short_lines); i++)
        expect_refusal(short_lines[i], FORMAT, false);
    expect_refusal("delete " KEY250 "k", FORMAT, false);
    expect_refusal("touch " KEY250 "k 1", FORMAT, false);
    expect_refusal("touch a x", EXPTIME, false);
    expect_refusal("touch a noreply", EXPTIME, true);
    expect_refusal("flush_all x", EXPTIME, false);
    expect_refusal("flush_all x noreply", EXPTIME, true);
    expect_refusal("flush_all noreply 0", EXPTIME, false);
    expect_refusal("verbosity x", FORMAT, false);
    expect_refusal("verbosity noreply", FORMAT, true);
    expect_refusal("incr a x", DELTA, false);
    expect_refusal("incr a -1 noreply", DELTA, true);
    expect_refusal("decr a 18446744073709551616", DELTA, false);
    expect_refusal("decr " KEY250 "k 1", FORMAT, false);
    expect_refusal("gat x a", EXPTIME, false);
    expect_refusal("gats " KEY250 "k a", EXPTIME, false);
}

/* Keys stay where they are; an exptime in front of them is taken off. */
static void keys_of_lists(void **state)
{
    (void)state;
    const char *const lines[][2] = {
        {"get  a b ", "a,b,"}, {"gets a", "a,"}, {"gat 7 a  b", "a,b,"}, {"gats -1 b noreply", "b,noreply,"}};
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char *copy, keys[32] = "";
        struct memcache_request request = parse(lines[i][0], strlen(lines[i][0]), &copy);
        struct memcache_text word;
        assert_true(memcache_has_keys(&request));
        while (memcache_next_word(&request.rest, &word)) {
            size_t len = strlen(keys);
            (void)snprintf(keys + len, sizeof(keys) - len, "%.*s,", (int)word.len, word.text);
        }
        assert_string_equal(keys, lines[i][1]);
        free(copy);
    }
}

static void deltas(void **state)
{
    (void)state;
    char *copy;
    struct memcache_request request = parse("incr a 18446744073709551615", 27, &copy);
    assert_int_equal(request.delta, UINT64_MAX);
    free(copy);
    request = parse("decr a 0", 8, &copy);
    assert_int_equal(request.delta, 0);
    free(copy);
}

/* What may be done together with reads of the same key. */
static void what_only_reads(void **state)
{
    (void)state;
    const char *const reads[] = {"get a", "gets a", "mg a", "mg a v t k R30 q", "me a", "mg a E5"};
    const char *const changes[] = {"gat 0 a",   "gats 0 a", "mg a T0", "mg a v N0", "set a 0 0 1",
                                   "touch a 0", "incr a 1", "ma a",    "md a",      "ms a 1",
                                   "delete a",  "version",  "mn",      ""};
    for (size_t i = 0; i < base_array_count(reads) + base_array_count(changes); i++) {
        bool is_read = i < base_array_count(reads);
        const char *line = is_read ? reads[i] : changes[i - base_array_count(reads)];
        char *copy;
        struct memcache_request request = parse(line, strlen(line), &copy);
        assert_int_equal(memcache_only_reads(&request), is_read);
        free(copy);
    }
}

static void lines_end_at_a_zero_byte(void **state)
{
    (void)state;
    char *copy;
    struct memcache_request request = parse("get a\0b c", 9, &copy);
    assert_int_equal(request.verb, MEMCACHE_GET);
    struct memcache_text word;
    assert_true(memcache_next_word(&request.rest, &word));
    assert_int_equal(word.len, 1);
    assert_false(memcache_next_word(&request.rest, &word));
    free(copy);
    request = parse("\0", 1, &copy);
    assert_int_equal(request.verb, MEMCACHE_REFUSED);
    free(copy);
}

static void exptimes(void **state)
{
    (void)state;
    const uint64_t now_ns = 1700000000 * BASE_NS_PER_SECOND + 5, month = 30 * 24 * 3600;
    assert_int_equal(memcache_expiry_ns(0, now_ns), 0);
    assert_int_equal(memcache_expiry_ns(1, now_ns), now_ns + BASE_NS_PER_SECOND);
    assert_int_equal(memcache_expiry_ns((int64_t)month, now_ns), now_ns + month * BASE_NS_PER_SECOND);
    assert_int_equal(memcache_expiry_ns((int64_t)month + 1, now_ns), (month + 1) * BASE_NS_PER_SECOND);
    assert_int_equal(memcache_expiry_ns(1800000000, now_ns), 1800000000 * BASE_NS_PER_SECOND);
    assert_true(memcache_expiry_ns(INT64_MAX, now_ns) > now_ns);
    assert_true(memcache_expiry_ns(-1, now_ns) > 0 && memcache_expiry_ns(-1, now_ns) < now_ns);
    assert_true(memcache_expiry_ns(-INT64_MAX, now_ns) > 0 &&
                memcache_expiry_ns(-INT64_MAX, now_ns) < now_ns);
}

/* Whatever the bytes are, nothing is read that is not there, and what is found lies within. */
static void any_bytes(void **state)
{
    (void)state;
    static const char *const words[] = {
        "get",       "set",   "cas", "delete", "touch",  "flush_all", "noreply",
        "0",         "1",     "-1",  " ",      "k",      "\t",        "99999999999999999999",
        "verbosity", "stats", "gat", "incr",   "append", "mg",        "ms",
        "ma",        "YWJj",  "b",   "M",      "O",      "T0"};
    struct base_random random;
    base_random_init(&random, 11);
    for (int round = 0; round < 20000; round++) {
        char line[200];
        size_t len = 0, pieces = base_random_below(&random, 10);
        for (size_t i = 0; i < pieces; i++) {
            const char *word = words[base_random_below(&random, base_array_count(words))];
            memcpy(line + len, word, strlen(word));
            len += strlen(word);
            line[len++] = base_random_below(&random, 8) == 0 ? (char)base_random_u64(&random) : ' ';
        }
        char *copy;
        struct memcache_request request = parse(line, len, &copy);
        if (request.verb == MEMCACHE_REFUSED)
            assert_true(request.refusal[strlen(request.refusal) - 1] == '\n');
        else if (request.key.len > 0)
            assert_true(request.key.text >= copy && request.key.text + request.key.len <= copy + len);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_lines),   cmocka_unit_test(refused_storage_lines),
        cmocka_unit_test(other_lines),     cmocka_unit_test(refused_other_lines),
        cmocka_unit_test(keys_of_lists),   cmocka_unit_test(deltas),
        cmocka_unit_test(what_only_reads), cmocka_unit_test(lines_end_at_a_zero_byte),
        cmocka_unit_test(exptimes),        cmocka_unit_test(any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
