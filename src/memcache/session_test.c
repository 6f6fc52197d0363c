/*
 * Are conversations answered right, wherever the network cuts them, and stay buffers bounded? Over a
 * real store on a drive in memory.
 */
#include "depot/testing.h"
#include "memcache/memcache.h"

#define BEGIN      (UINT64_C(1700000000) * BASE_NS_PER_SECOND)
#define INPUT_ROOM (16 << 10)

struct fixture {
    struct testing_drive drive;
    struct testing_clock clock;
    struct testing_store store;
    struct memcache_server server;
    char *said; /* all output */
    size_t said_bytes;
    size_t fail_after; /* sends until one fails; 0: never */
};

static void tell(void *arg, struct memcache_facts *ret_facts)
{
    (void)arg;
    *ret_facts = (struct memcache_facts){.pid = 4711, .threads = 3, .connections_max = 10, .connections = 2};
}

static void settings(void *arg, memcache_setting_function *visit, void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "port", "11211");
    visit(visit_arg, "mode", "power");
    visit(visit_arg, "unix", "");
}

static int send_output(void *arg, const void *data, size_t bytes)
{
    struct fixture *fixture = arg;
    if (fixture->fail_after > 0 && --fixture->fail_after == 0)
        return -EPIPE;
    fixture->said = realloc(fixture->said, fixture->said_bytes + bytes + 1);
    assert_non_null(fixture->said);
    memcpy(fixture->said + fixture->said_bytes, data, bytes);
    fixture->said_bytes += bytes;
    fixture->said[fixture->said_bytes] = '\0';
    return 0;
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->clock.wall_ns = BEGIN;
    const struct tarn_depot_options options = {.create_bytes = UINT64_C(256) << 20};
    assert_int_equal(testing_try_open(&fixture->store, &fixture->drive, &fixture->clock, &options), 0);
    const struct memcache_host host = {.tell = tell, .settings = settings, .arg = fixture};
    memcache_server_init(&fixture->server, fixture->store.node, fixture->store.depot, 1 << 20, 8 << 20,
                         &host);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    memcache_server_deinit(&fixture->server);
    testing_close(&fixture->store);
    testing_drive_free(&fixture->drive);
    free(fixture->said);
    free(fixture);
    return 0;
}

/* Say something in pieces of at most `piece` bytes. @return what the session said to the last of them */
static int say(struct fixture *fixture, const char *text, size_t len, size_t piece)
{
    struct memcache_session session;
    char *room = malloc(MEMCACHE_OUTPUT_BYTES), *input = malloc(INPUT_ROOM);
    assert_true(room != NULL && input != NULL);
    struct memcache_output output = {
        .data = room, .room = MEMCACHE_OUTPUT_BYTES, .send = send_output, .arg = fixture};
    size_t kept = 0, consumed;
    int error = 0;
    fixture->said_bytes = 0;
    memcache_session_init(&session, &fixture->server);
    for (size_t at = 0; at < len && error == 0;) {
        size_t more = base_min(base_min(piece, len - at), INPUT_ROOM - kept);
        memcpy(input + kept, text + at, more);
        at += more;
        error = memcache_session_consume(&session, input, kept + more, &output, &consumed);
        if (error == 0) {
            kept += more - consumed;
            assert_true(kept <= MEMCACHE_LINE_BYTES_MAX);
            memmove(input, input + consumed, kept);
            struct memcache_session moved = session; /* sessions may be moved */
            memset(&session, 0xdb, sizeof(session));
            session = moved;
        }
    }
    (void)memcache_output_flush(&fixture->server, &output);
    memcache_session_deinit(&session);
    free(room);
    free(input);
    return error;
}

/* The same text in pieces of many sizes, on an empty store each time. */
static void expect(struct fixture *fixture, const char *text, const char *answer)
{
    const size_t pieces[] = {1, 2, 3, 5, 7, 11, 64, 1000, 100000};
    for (size_t i = 0; i < base_array_count(pieces); i++) {
        assert_int_equal(tarn_depot_flush_all(fixture->store.depot, 0), 0);
        assert_int_equal(say(fixture, text, strlen(text), pieces[i]), 0);
        assert_string_equal(fixture->said_bytes == 0 ? "" : fixture->said, answer);
    }
}

static void conversations(void **state)
{
    static const char *const talks[][2] = {
        {"get a\r\n", "END\r\n"},
        {"set a 5 0 3\r\none\r\nget a\r\n", "STORED\r\nVALUE a 5 3\r\none\r\nEND\r\n"},
        {"set a 0 0 3\none\r\nget a\n", "STORED\r\nVALUE a 0 3\r\none\r\nEND\r\n"},
        {"set a 0 0 0\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n"},
        {"set a 0 0 4\r\n\r\n\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 4\r\n\r\n\r\n\r\nEND\r\n"},
        {"set a 0 0 1 noreply\r\nx\r\nset b 0 0 1\r\ny\r\nget a none b a\r\n",
         "STORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
        {"set a 0 0 1\r\nxy\r\nget a\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nEND\r\n"},
        {"set a 0 0 1\r\nx\nget a\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
        {"set a 0 0 1 noreply\r\nxyz\r\nversion x\r\n", "ERROR\r\nVERSION 0.1.0\r\n"},
        {"set a 0 0 9999999\r\n", "SERVER_ERROR object too large for cache\r\n"},
        {"set a 0 0 9999999 noreply\r\n", ""},
        {"set a 0 -1 1\r\nx\r\nget a\r\nadd a 0 0 1\r\ny\r\nget a\r\n",
         "STORED\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n"},
        {"add a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nreplace a 0 0 1\r\nz\r\nreplace b 0 0 1\r\nz\r\nget a "
         "b\r\n",
         "STORED\r\nNOT_STORED\r\nSTORED\r\nNOT_STORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n"},
        {"cas a 0 0 1 7\r\nx\r\nset a 0 0 1\r\nx\r\ncas a 0 0 1 7\r\nx\r\n",
         "NOT_FOUND\r\nSTORED\r\nEXISTS\r\n"},
        {"delete a\r\nset a 0 0 1\r\nx\r\ndelete a noreply\r\ndelete a\r\nget a\r\n",
         "NOT_FOUND\r\nSTORED\r\nNOT_FOUND\r\nEND\r\n"},
        {"touch a 1\r\nset a 0 0 1\r\nx\r\ntouch a 0\r\nget a\r\ntouch a -1\r\nget a\r\n",
         "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nVALUE a 0 1\r\nx\r\nEND\r\nTOUCHED\r\nEND\r\n"},
        {"set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nset a 0 0 1\r\ny\r\nflush_all 100 noreply\r\nget a\r\n",
         "STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n"},
        {"verbosity 1\r\nverbosity 1 noreply\r\nstats reset\r\nstats nonsense\r\nshutdown\r\n",
         "OK\r\nRESET\r\nERROR\r\nERROR: shutdown not enabled\r\n"},
        {"stats settings\r\n", "STAT port 11211\r\nSTAT mode power\r\nSTAT unix NULL\r\nEND\r\n"},
        {"\r\n\n \r\nGET a\r\nincr a 1\r\n", "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
    };
    for (size_t i = 0; i < base_array_count(talks); i++)
        expect(*state, talks[i][0], talks[i][1]);
}

static void gets_gives_what_cas_takes(void **state)
{
    struct fixture *fixture = *state;
    char text[200], rest[8];
    unsigned long version = 0;
    const char set[] = "set a 0 0 1\r\nx\r\ngets a\r\n";
    assert_int_equal(say(fixture, set, strlen(set), 7), 0);
    assert_int_equal(sscanf(fixture->said, "STORED\r\nVALUE a 0 1 %lu\r\nx\r\n%3s", &version, rest), 2);
    assert_string_equal(rest, "END");
    int len = snprintf(text, sizeof(text),
                       "touch a 100\r\ncas a 0 0 1 %lu\r\ny\r\ncas a 0 0 1 %lu\r\nz\r\nget a\r\n", version,
                       version);
    assert_int_equal(say(fixture, text, (size_t)len, 3), 0);
    assert_string_equal(fixture->said, "TOUCHED\r\nSTORED\r\nEXISTS\r\nVALUE a 0 1\r\ny\r\nEND\r\n");
}

static void quit_ends(void **state)
{
    struct fixture *fixture = *state;
    const char text[] = "version\r\nquit\r\nversion\r\n";
    assert_int_equal(say(fixture, text, strlen(text), 100), -ESHUTDOWN);
    assert_string_equal(fixture->said, "VERSION 0.1.0\r\n");
}

/* Values of all sizes up to the limit, which is memcached's: 59 bytes of its own, 4 more with flags. */
static void large_values(void **state)
{
    struct fixture *fixture = *state;
    const size_t limit = (1 << 20) - 59 - 1;
    const size_t sizes[] = {1, 4000, 15000, 16000, 16100, 16384, 20000, 65536, 400000, limit};
    char *text = malloc(2 * limit), *answer = malloc(2 * limit);
    assert_true(text != NULL && answer != NULL);
    for (size_t i = 0; i < base_array_count(sizes); i++) {
        int len = snprintf(text, 100, "set a 0 0 %zu\r\n", sizes[i]);
        memset(text + len, 'a' + (int)i, sizes[i]);
        memcpy(text + (size_t)len + sizes[i], "\r\nget a\r\n", 10);
        int head = snprintf(answer, 100, "STORED\r\nVALUE a 0 %zu\r\n", sizes[i]);
        memset(answer + head, 'a' + (int)i, sizes[i]);
        memcpy(answer + (size_t)head + sizes[i], "\r\nEND\r\n", 8);
        for (size_t piece = 1000; piece < 100000; piece *= 7) {
            assert_int_equal(say(fixture, text, (size_t)len + sizes[i] + 9, piece), 0);
            assert_string_equal(fixture->said, answer);
        }
    }
    int len = snprintf(text, 100, "set a 0 0 %zu\r\n", limit + 1);
    memset(text + len, 'x', limit + 1);
    memcpy(text + (size_t)len + limit + 1, "\r\nversion\r\n", 12);
    assert_int_equal(say(fixture, text, (size_t)len + limit + 12, 5000), 0);
    assert_string_equal(fixture->said, "SERVER_ERROR object too large for cache\r\nVERSION 0.1.0\r\n");
    free(text);
    free(answer);
}

static void a_line_without_end_ends(void **state)
{
    struct fixture *fixture = *state;
    char text[2 * MEMCACHE_LINE_BYTES_MAX];
    memset(text, 'a', sizeof(text));
    assert_int_equal(say(fixture, text, MEMCACHE_LINE_BYTES_MAX, 100), 0);
    assert_int_equal(say(fixture, text, sizeof(text), 100), -EPROTO);
    memcpy(text, "get ", 4);
    text[3000] = '\n'; /* one key, too long, in a line that is too long */
    assert_int_equal(say(fixture, text, 3001, 100), 0);
    assert_string_equal(fixture->said, "CLIENT_ERROR bad command line format\r\n");
}

/* Keys in a line of any length, and a bad one far behind. */
static void endless_gets(void **state)
{
    struct fixture *fixture = *state;
    enum { KEYS = 5000 };
    const char set[] = "set a 0 0 1\r\nx\r\n";
    char *text = malloc(KEYS * 4 + 1000), *at = text;
    assert_non_null(text);
    assert_int_equal(say(fixture, set, strlen(set), 100), 0);
    memcpy(at, "gets  ", 6);
    at += 6;
    for (int i = 0; i < KEYS; i++) {
        memcpy(at, i % 100 == 0 ? "a " : "no  ", i % 100 == 0 ? 2 : 4);
        at += i % 100 == 0 ? 2 : 4;
    }
    char *end = at;
    memcpy(at, "\r\nversion\r\n", 11);
    for (size_t piece = 1; piece < 30000; piece = piece * 13 + 1) {
        assert_int_equal(say(fixture, text, (size_t)(end - text) + 11, piece), 0);
        size_t values = 0;
        for (const char *found = fixture->said; (found = strstr(found, "VALUE a 0 1 ")) != NULL; found++)
            values++;
        assert_int_equal(values, KEYS / 100);
        assert_string_equal(strstr(fixture->said, "END\r\n"), "END\r\nVERSION 0.1.0\r\n");
    }
    memset(end, 'k', 251);
    memcpy(end + 251, " a a\r\nversion\r\n", 15);
    for (size_t piece = 1; piece < 30000; piece = piece * 13 + 1) {
        assert_int_equal(say(fixture, text, (size_t)(end - text) + 266, piece), 0);
        assert_string_equal(strstr(fixture->said, "CLIENT"),
                            "CLIENT_ERROR bad command line format\r\nVERSION 0.1.0\r\n");
        assert_null(strstr(fixture->said, "END"));
    }
    free(text);
}

static void values_have_a_memory_limit(void **state)
{
    struct fixture *fixture = *state;
    base_account_fail_at(&fixture->server.values, 1);
    const char text[] = "set a 0 0 20000 noreply\r\nxxx";
    assert_int_equal(say(fixture, text, strlen(text), 100), 0);
    assert_string_equal(fixture->said, "SERVER_ERROR out of memory storing object\r\n"); /* even so */
}

static void a_dead_client_ends_it(void **state)
{
    struct fixture *fixture = *state;
    char text[9000];
    for (size_t i = 0; i < sizeof(text); i += 9)
        memcpy(text + i, "version\r\n", 9);
    fixture->fail_after = 1;
    assert_int_equal(say(fixture, text, sizeof(text), 9000), 0); /* it fits; flushing it fails */
    fixture->fail_after = 1;
    const char set[] = "set a 0 0 1\r\nx\r\n";
    assert_int_equal(say(fixture, set, strlen(set), 100), 0);
    fixture->fail_after = 1;
    char gets[16000];
    for (size_t i = 0; i < sizeof(gets); i += 2)
        memcpy(gets + i, "a ", 2);
    memcpy(gets, "get ", 4);
    gets[sizeof(gets) - 1] = '\n';
    assert_int_equal(say(fixture, gets, sizeof(gets), sizeof(gets)), -EPIPE);
}

static void failures_of_the_store_are_told(void **state)
{
    struct fixture *fixture = *state;
    const char text[] = "set a 0 0 1\r\nx\r\n";
    assert_int_equal(say(fixture, text, strlen(text), 100), 0);
    fixture->drive.fail_op = DRIVE_READ;
    fixture->drive.fail_on = true;
    atomic_store(&fixture->drive.fail_at, 1);
    const char get[] = "get none a none\r\nversion\r\n";
    assert_int_equal(say(fixture, get, strlen(get), 100), 0);
    assert_string_equal(fixture->said, "SERVER_ERROR the drive has failed\r\nVERSION 0.1.0\r\n");
    atomic_store(&fixture->drive.fail_at, 0);
    assert_int_equal(say(fixture, get, strlen(get), 100), 0);
    assert_string_equal(fixture->said, "VALUE a 0 1\r\nx\r\nEND\r\nVERSION 0.1.0\r\n");
}

static void stats_have_memcached_names(void **state)
{
    struct fixture *fixture = *state;
    const char text[] = "set a 0 0 1\r\nx\r\nget a b\r\nstats\r\n";
    assert_int_equal(say(fixture, text, strlen(text), 100), 0);
    const char *const expected[] = {
        "STAT pid 4711\r\n",        "STAT version 0.1.0\r\n", "STAT curr_items 1\r\n",   "STAT cmd_get 2\r\n",
        "STAT cmd_set 1\r\n",       "STAT get_hits 1\r\n",    "STAT get_misses 1\r\n",   "STAT threads 3\r\n",
        "STAT pointer_size 64\r\n", "STAT total_items 1\r\n", "STAT time 1700000000\r\n"};
    for (size_t i = 0; i < base_array_count(expected); i++)
        assert_non_null(strstr(fixture->said, expected[i]));
    assert_string_equal(fixture->said + fixture->said_bytes - 7, "\r\nEND\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(conversations, setup, teardown),
        cmocka_unit_test_setup_teardown(gets_gives_what_cas_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(quit_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(large_values, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_without_end_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(endless_gets, setup, teardown),
        cmocka_unit_test_setup_teardown(values_have_a_memory_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dead_client_ends_it, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_of_the_store_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(stats_have_memcached_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
