/*
 * Is a cache behind the server what clients expect of memcached's memory: too small for all, with a limit of its own,
 * told of by `stats`? And is what a decision has found, before it was given memory, taken for nothing that is so still?
 */
#include "memcache/memcache_internal.h"
#include "memcache/testing.h"
#include <inttypes.h>
#include <pthread.h>

static int begin_small(void **state) /* a value has room in a quarter of the log of 48 KiB */
{
    return talk_setup_url(state, "cache:memory=48K,item=1K");
}

#define SMALL_TEST(function) cmocka_unit_test_setup_teardown(function, begin_small, talk_teardown)

/* ---- room --------------------------------------------------------------------------------------------- */

/* Say a request with a value behind it, and expect an answer. */
static void expect_stored(struct talk *talk, const char *line, size_t bytes, const char *answer)
{
    char *words = malloc(strlen(line) + bytes + 40);
    assert_non_null(words);
    int len = snprintf(words, strlen(line) + 40, line, bytes);
    memset(words + len, 'x', bytes);
    memcpy(words + len + bytes, "\r\n", 2);
    assert_int_equal(talk_say(talk, words, (size_t)len + bytes + 2, TALK_INPUT_BYTES), 0);
    talk_expect_said(talk, line, answer, strlen(answer));
    free(words);
}

static void values_have_a_limit(void **state)
{
    static const char refusal[] = "SERVER_ERROR object too large for cache\r\n";
    struct talk *talk = *state;
    const size_t longest = kv_whole_bytes_max(talk->kv, 1);
    assert_in_range(longest, 8 << 10, 12 << 10);
    assert_int_equal(kv_whole_bytes_max(talk->kv, 10), longest - 9);
    expect_stored(talk, "set a 0 0 %zu\r\n", longest, "STORED\r\n");
    expect_stored(talk, "set a 0 0 %zu\r\n", longest + 1, refusal);
    expect_stored(talk, "set a 0 0 %zu noreply\r\n", longest + 1, "");
    expect_stored(talk, "set a234567890 0 0 %zu\r\n", longest - 9, "STORED\r\n");
    expect_stored(talk, "set a234567890 0 0 %zu\r\n", longest - 8, refusal);
    expect_stored(talk, "ms a234567890 %zu\r\n", longest - 8, refusal);
    expect_stored(talk, "append a 0 0 %zu\r\n", 1, "NOT_STORED\r\n");
    expect_stored(talk, "ms a %zu MP\r\n", 1, "NS\r\n");
    expect_stored(talk, "append a 0 0 %zu\r\n", 0, "STORED\r\n");
    assert_int_equal(atomic_load(&talk->server.counters.store_too_large), 6);
    talk->server.item_bytes_max = 1000; /* the server's own limit counts, too */
    expect_stored(talk, "set b 0 0 %zu\r\n", 1000, refusal);
}

/* Whatever fits is stored, however much there is already. */
static void what_fits_is_stored(void **state)
{
    struct talk *talk = *state;
    char line[64];
    struct kv_stats stats;
    for (uint32_t i = 0; i < 2000; i++) {
        (void)snprintf(line, sizeof(line), "set key%u 0 0 %%zu\r\n", i);
        expect_stored(talk, line, i * 37 % 9000, "STORED\r\n");
        (void)snprintf(line, sizeof(line), "mg key%u s\r\n", i);
        assert_int_equal(talk_say(talk, line, strlen(line), 100), 0);
        (void)snprintf(line, sizeof(line), "HD s%u\r\n", i * 37 % 9000);
        assert_string_equal(talk->said, line);
    }
    assert_int_equal(kv_stats(talk->kv, &stats), 0);
    assert_true(stats.records > 0 && stats.live_bytes <= stats.capacity_bytes);
    assert_int_equal(stats.evictions + stats.records, 2000);
    assert_int_equal(atomic_load(&talk->server.counters.store_no_memory), 0);
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static uint64_t told(const struct talk *talk, const char *name)
{
    char line[64];
    (void)snprintf(line, sizeof(line), "STAT %s ", name);
    const char *at = strstr(talk->said, line);
    if (at == NULL)
        fail_msg("no %s in %s", line, talk->said);
    return strtoull(at + strlen(line), NULL, 10);
}

static void stats_of_a_cache(void **state)
{
    struct talk *talk = *state;
    static const char words[] = "stats\r\n";
    for (uint32_t i = 0; i < 100; i++)
        expect_stored(talk, i % 2 == 0 ? "set a 0 0 %zu\r\n" : "set b 0 0 %zu\r\n", 5000 + 1000 * (i % 3),
                      "STORED\r\n");
    talk_expect_once(talk, "set c 0 -1 1\r\nx\r\nget c c\r\n", "STORED\r\nEND\r\n");
    assert_int_equal(talk_say(talk, words, strlen(words), 100), 0);
    assert_in_range(told(talk, "curr_items"), 2, 3);
    assert_in_range(told(talk, "bytes"), 5000, told(talk, "limit_maxbytes"));
    assert_in_range(told(talk, "limit_maxbytes"), 32 << 10, 48 << 10);
    assert_int_equal(told(talk, "total_items"), 101);
    assert_int_equal(told(talk, "get_expired"), 2);
    assert_int_equal(told(talk, "get_flushed"), 0);
    assert_int_equal(told(talk, "store_partitions"), 1);
    assert_true(told(talk, "store_index_bytes") > 0 && told(talk, "store_puts_in_place") > 0);
    assert_true(told(talk, "evictions") >= told(talk, "store_evictions_index"));
    (void)told(talk, "reclaimed");
    assert_null(strstr(talk->said, "segment")); /* it has no drive */
    talk_expect_once(talk, "stats reset\r\nget c\r\n", "RESET\r\nEND\r\n");
    assert_int_equal(talk_say(talk, words, strlen(words), 100), 0);
    assert_int_equal(told(talk, "get_expired"), 1);
    talk_expect_once(
        talk, "stats stages\r\nstats sizes\r\n",
        "SERVER_ERROR a store in memory measures no stages\r\nSTAT sizes_status disabled\r\nEND\r\n");
}

static void stores_of_servers_are_refused(void **state)
{
    struct talk *talk = *state;
    struct testing_front front;
    struct memcache_server server;
    testing_front_begin(&front, talk->kv);
    front.operations.update = NULL; /* as those have none */
    assert_int_equal(memcache_server_init(&server, talk->node, talk->kv, 1, 1, &talk->server.host),
                     -EOPNOTSUPP);
    testing_front_end(&front, talk->kv);
}

/* ---- between two attempts -------------------------------------------------------------------------------- */

/* A value: the same letter again and again. */
struct stuff {
    char letter; /* 0: there is none */
    size_t bytes;
};

/* Others, who change "a" each time that somebody is to come back with memory. */
struct others {
    struct testing_meanwhile meanwhile;
    struct talk *talk;
    struct stuff changes[3];
    uint32_t change;
    char text[100000];
};

static void change(struct others *others, const struct stuff *stuff)
{
    int error;
    if (stuff->letter == '\0') {
        error = tarn_kv_delete(others->talk->kv, "a", 1);
    } else {
        memset(others->text, stuff->letter, stuff->bytes);
        error = tarn_kv_put(others->talk->kv, "a", 1, others->text, stuff->bytes, NULL, NULL);
    }
    base_assert(error == 0);
}

static void meddle(void *arg, int outcome)
{
    struct others *others = arg;
    if (outcome > 0 && others->change < base_array_count(others->changes) &&
        others->changes[others->change].bytes > 0)
        change(others, &others->changes[others->change++]);
}

static const struct attempts {
    const char *words;
    struct stuff first, changes[3]; /* those without bytes do not happen */
    const char *answer;             /* up to the value, if there is one */
    struct stuff value;
    const char *behind; /* of the answer to what is asked behind it */
} all_attempts[] = {
    {"gat 0 a\r\n", {'x', 3}, {{'y', 20}, {'z', 2}}, "VALUE a 0 2\r\n", {'z', 2}},
    {"gat 0 a\r\n", {'x', 3}, {{'y', 90}, {'z', 99}, {'w', 99}}, "VALUE a 0 99\r\n", {'w', 99}},
    {"gat 0 a\r\n", {'x', 3}, {{'\0', 1}}, "END\r\n", {'\0', 0}},
    {"mg a T9 v\r\n", {'x', 3}, {{'y', 1}}, "VA 1\r\n", {'y', 1}},
    {"mg a T9 v N5\r\n", {'x', 3}, {{'\0', 1}}, "VA 0 W\r\n\r\n", {'\0', 0}},
    {"append a 0 0 1\r\n!\r\n", {'x', 3}, {{'y', 20}, {'\0', 1}}, "NOT_STORED\r\n", {'\0', 0}},
    {"ms a 1 MA s\r\n!\r\n", {'x', 3}, {{'y', 20}, {'z', 5}}, "HD s6\r\n", {'\0', 0}},
    {"ms a 1 MP N0 s\r\n!\r\n", {'x', 3}, {{'y', 20}, {'\0', 1}}, "HD s1\r\n", {'\0', 0}},
    {"decr a 100\r\n", {'1', 3}, {{'2', 3}}, "122\r\n", {'\0', 0}},
    {"decr a 100\r\n", {'1', 3}, {{'2', 2}}, "0\r\n", {'\0', 0}},
    {"decr a 100\r\n", {'1', 3}, {{'\0', 1}}, "NOT_FOUND\r\n", {'\0', 0}},
    {"decr a 100\r\n",
     {'1', 3},
     {{'x', 3}},
     "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
     {'\0', 0}},
    {"ma a MD D100 N0 J7\r\n", {'1', 3}, {{'\0', 1}}, "HD\r\n", {'\0', 0}},
    {"get a\r\n", {'x', 70000}, {{'y', 80000}, {'z', 90000}}, "VALUE a 0 90000\r\n", {'z', 90000}},
    {"get a\r\n", {'x', 70000}, {{'y', 66000}}, "VALUE a 0 66000\r\n", {'y', 66000}},
    {"get a\r\n", {'x', 70000}, {{'y', 5}}, "VALUE a 0 5\r\n", {'y', 5}},
    {"mg a v\r\nmg s R100\r\n", {'x', 70000}, {{'y', 5}}, "VA 5\r\n", {'y', 5}, "HD W\r\n"},
    {"get a\r\n", {'x', 70000}, {{'\0', 1}}, "END\r\n", {'\0', 0}},
    {"mg a v\r\n", {'x', 70000}, {{'y', 80000}, {'\0', 1}}, "EN\r\n", {'\0', 0}},
};

/* @param to  room for the longest value and 100 more @return its length */
static size_t put_answer(const struct attempts *attempts, char *to)
{
    const char *tail = attempts->value.letter == '\0' ? ""
                       : attempts->words[0] == 'g'    ? "\r\nEND\r\n"
                                                      : "\r\n";
    const size_t len = strlen(attempts->answer), tail_len = strlen(tail);
    memcpy(to, attempts->answer, len);
    memset(to + len, attempts->value.letter, attempts->value.bytes);
    memcpy(to + len + attempts->value.bytes, tail, tail_len + 1);
    size_t all = len + attempts->value.bytes + tail_len;
    return attempts->behind == NULL ? all : (size_t)(stpcpy(to + all, attempts->behind) - to);
}

static void what_was_found_may_be_so_no_more(void **state)
{
    struct talk *talk = *state;
    struct others *others = malloc(sizeof(*others));
    char *answer = malloc(sizeof(others->text) + 100);
    assert_true(others != NULL && answer != NULL);
    talk_expect_once(talk, "set s 0 10 1\r\nx\r\n", "STORED\r\n"); /* the first who asks is to make it anew */
    others->talk = talk;
    others->meanwhile = (struct testing_meanwhile){.then = meddle, .arg = others};
    for (size_t i = 0; i < base_array_count(all_attempts); i++) {
        const struct attempts *attempts = &all_attempts[i];
        const size_t len = put_answer(attempts, answer);
        memcpy(others->changes, attempts->changes, sizeof(others->changes));
        others->change = 0;
        change(others, &attempts->first);
        testing_meanwhile_begin(&others->meanwhile, talk->kv);
        assert_int_equal(talk_say(talk, attempts->words, strlen(attempts->words), 100), 0);
        testing_front_end(&others->meanwhile.front, talk->kv);
        talk_expect_said(talk, attempts->words, answer, len);
        assert_true(others->change == 3 || others->changes[others->change].bytes == 0); /* all */
    }
    assert_int_equal(atomic_load(&talk->server.counters.decr_hits), 2);
    assert_int_equal(atomic_load(&talk->server.counters.decr_misses), 1);
    free(answer);
    free(others);
}

/* ---- threads --------------------------------------------------------------------------------------------- */

#define THREADS 3
#define ROUNDS  (TESTING_SLOW ? 60 : 400)

/* A server of its own for each, all over one cache. */
static void *converse(void *arg)
{
    static const char words[] = "incr n 1\r\nappend t 0 0 1\r\nx\r\ngat 0 big\r\nms big 3 MA\r\nxxx\r\ndecr "
                                "pad 1\r\nget big n\r\nadd c 0 0 "
                                "1\r\nx\r\ndelete c\r\nmg w N0 v\r\nstats\r\n";
    struct talk *talk = arg;
    const struct task_sched_options options = {.tasks_max = TALK_TASKS_MAX};
    base_assert(task_sched_open(talk->node, &options, &talk->sched) == 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        base_assert(talk_say(talk, words, strlen(words), i % 2 == 0 ? TALK_INPUT_BYTES : 20) == 0);
        base_assert(strstr(talk->said, "ERROR") == NULL && strstr(talk->said, "NOT_FOUND\r\nVALUE") == NULL);
        const char *big = strstr(talk->said, "VALUE big 0 ");
        base_assert(big != NULL);
        size_t bytes = strtoull(big + strlen("VALUE big 0 "), NULL, 10);
        base_assert(strspn(strchr(big, '\n') + 1, "x") == bytes);
    }
    task_sched_stop(talk->sched);
    task_sched_run(talk->sched);
    task_sched_close(talk->sched);
    return NULL;
}

static void threads_share_a_cache(void **state)
{
    struct talk *talk = *state, talks[THREADS];
    pthread_t threads[THREADS];
    char line[100];
    testing_front_end(&talk->frugal, talk->kv);
    talk_expect_once(talk,
                     "set n 0 0 1\r\n0\r\nset t 0 0 0\r\n\r\nset pad 0 0 20\r\n10000000000000000000\r\n",
                     "STORED\r\nSTORED\r\nSTORED\r\n");
    expect_stored(talk, "set big 0 0 %zu\r\n", 66000, "STORED\r\n");
    for (uint32_t i = 0; i < THREADS; i++) {
        talks[i] = *talk;
        talks[i].said = NULL;
        talks[i].work = malloc(sizeof(*talk->work) + TALK_GUARD_BYTES);
        talks[i].input = malloc(TALK_INPUT_BYTES);
        assert_true(talks[i].work != NULL && talks[i].input != NULL);
        memset((uint8_t *)talks[i].work + sizeof(*talk->work), 0xdb, TALK_GUARD_BYTES);
        assert_int_equal(memcache_server_init(&talks[i].server, talk->node, talk->kv, 1 << 20, 8 << 20,
                                              &talk->server.host),
                         0);
        assert_int_equal(pthread_create(&threads[i], NULL, converse, &talks[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        memcache_server_deinit(&talks[i].server);
        free(talks[i].said);
        free(talks[i].input);
        free(talks[i].work);
    }
    (void)snprintf(line, sizeof(line), "%u\r\nHD s%u\r\nHD s%u\r\n%" PRIu64 "\r\n", THREADS * ROUNDS,
                   THREADS * ROUNDS, 66000 + 3 * THREADS * ROUNDS,
                   UINT64_C(10000000000000000000) - THREADS * ROUNDS);
    talk_expect_once(talk, "incr n 0\r\nmg t s\r\nmg big s\r\nincr pad 0\r\n", line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SMALL_TEST(values_have_a_limit),
        SMALL_TEST(what_fits_is_stored),
        SMALL_TEST(stats_of_a_cache),
        TALK_CACHE_TEST(stores_of_servers_are_refused),
        TALK_CACHE_TEST(what_was_found_may_be_so_no_more),
        TALK_CACHE_TEST(threads_share_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
