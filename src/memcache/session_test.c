/*
 * Are requests found wherever the network cuts the bytes: lines, values, keys without end, what was refused
 * and is skipped? Does a connection end when it must, and say first what it has to say?
 */
#include "memcache/testing.h"

#define FORMAT "CLIENT_ERROR bad command line format\r\n"

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
        {"set a 0 0 1\r\nxy\r\nget a\r\n", "CLIENT_ERROR bad data chunk\r\n" FORMAT "END\r\n"},
        {"set a 0 0 1\r\nx\rZversion\r\nset a 0 0 1\r\nxZ\r\nmn\r\n",
         "CLIENT_ERROR bad data chunk\r\nVERSION " TALK_VERSION "\r\nCLIENT_ERROR bad data chunk\r\n" FORMAT
         "MN\r\n"},
        {"set a 0 0 1\r\nx\nget a\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"},
        {"set a 0 0 1 noreply\r\nxyz\r\nversion x\r\n", FORMAT "VERSION " TALK_VERSION "\r\n"},
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
        {"verbosity 1\r\nverbosity 1 noreply\r\nstats reset\r\nstats nonsense\r\n",
         "OK\r\nRESET\r\nERROR\r\n"},
        {"stats drives\r\n", "STAT 0:path \"disk\"\r\nSTAT 0:failed no\r\nEND\r\n"},
        {"stats calls\r\n", "STAT 0:calls 7\r\nEND\r\n"},
        {"stats conns\r\n", "STAT 1:addr tcp:127.0.0.1:4000\r\nSTAT 1:state conn_parse_cmd\r\nEND\r\n"},
        {"stats settings\r\n", "STAT port 11211\r\nSTAT mode power\r\nSTAT unix NULL\r\nEND\r\n"},
        {"\r\n\n \r\nGET a\r\nincr a\r\n", FORMAT FORMAT FORMAT "ERROR\r\n" FORMAT},
        {"mn\nmn\r\n   \r\nx\r\n", FORMAT "MN\r\nERROR\r\n" FORMAT},
        {"ms a 1\r\nxy\r\nms a 1 q\r\nxy\r\nmn\r\n",
         "CLIENT_ERROR bad data chunk\r\n" FORMAT "CLIENT_ERROR bad data chunk\r\n" FORMAT "MN\r\n"},
        {"ms a 5 z\r\nmn\r\nx\r\nms a 5 z q\r\nmn\r\nx\r\nmn\r\n",
         "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR invalid flag\r\nMN\r\n"},
        {"ms a 9999999 q\r\n", "SERVER_ERROR object too large for cache\r\n"},
        {"ms YWJj 3 b k O1\r\nxyz\r\nmg abc v\r\n", "HD kYWJj b O1\r\nVA 3\r\nxyz\r\n"},
    };
    TALK_EXPECT_ALL(*state, talks);
}

/* What a refused line announces is not taken for commands, whatever was wrong with the line. */
static void refused_values_are_no_commands(void **state)
{
    struct talk *talk = *state;
    static const char *const lines[] = {
        "set %0251d 0 0 9",    "set b%.0d x 0 9",   "add b%.0d 0 x 9",
        "cas b%.0d 0 0 9",     "cas b%.0d 0 0 9 x", "set b%.0d x x 9 1 2 3 4 5",
        "append b%.0d -1 0 9", "ms %0251d 9",       "ms b%.0d 9 Fx",
        "ms b%.0d 9 k k",      "ms b%.0d 9 MX q"};
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char line[300], text[500];
        (void)snprintf(line, sizeof(line), lines[i], 0);
        int len = snprintf(text, sizeof(text), "set a 0 0 1\r\nx\r\n%s\r\nflush_all\r\nget a\r\n", line);
        for (size_t piece = 1; piece < 400; piece += piece < 20 ? 1 : 100) {
            assert_int_equal(talk_say(talk, text, (size_t)len, piece), 0);
            assert_memory_equal(talk->said, "STORED\r\nCLIENT_ERROR ", 21);
            assert_string_equal(strstr(talk->said, "\r\nVALUE"), "\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
            assert_null(strstr(talk->said, "OK"));
        }
    }
    talk_expect(talk,
                "set a 0 0 1\r\nx\r\nset b x 0 9 noreply\r\nflush_all\r\nset b 0 0 9 1 2 3 4 5 "
                "noreply\r\nflush_all\r\n"
                "get a b\r\n",
                "STORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 9\r\nflush_all\r\nEND\r\n");
}

/* Where the length is not known, nothing that follows is listened to. */
static void values_of_unknown_length_close(void **state)
{
    struct talk *talk = *state;
    static const char *const lines[] = {"set",
                                        "set b",
                                        "set b 0 0",
                                        "cas b 0 0",
                                        "set b 0 0 x",
                                        "set b 0 0 -1 noreply",
                                        "set b 0 0 +9",
                                        "set b 0 0 2147483646",
                                        "set b 0 0 99999999999999999999",
                                        "set b 0 0 9x noreply",
                                        "ms",
                                        "ms b",
                                        "ms b q",
                                        "ms b -1 q",
                                        "ms b 4294967305"};
    for (size_t i = 0; i < base_array_count(lines); i++) {
        char text[200];
        int len = snprintf(text, sizeof(text), "set a 0 0 1\r\nx\r\n%s\r\nflush_all\r\nmn\r\n", lines[i]);
        for (size_t piece = 1; piece < 100; piece++) {
            assert_int_equal(talk_say(talk, text, (size_t)len, piece), -EPROTO);
            assert_string_equal(talk->said, "STORED\r\n" FORMAT);
        }
        assert_int_equal(talk_say(talk, "get a\r\n", 7, 7), 0);
        assert_string_equal(talk->said, "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

/* A request of the binary protocol is answered in that, and ends the connection. */
static void the_binary_protocol_is_refused(void **state)
{
    struct talk *talk = *state;
    static const char text[] = "version\r\n\x80\x0a\0\0\0\0\0\0\0\0\0\0\xde\xad\n\xef\0\0\0\0\0\0\0\0"
                               "mn\r\n";
    static const char answer[] =
        "VERSION " TALK_VERSION "\r\n\x81\x0a\0\0\0\0\0\x81\0\0\0\x0f\xde\xad\n\xef\0\0\0\0\0\0\0\0"
        "Unknown command";
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        assert_int_equal(talk_say(talk, text, sizeof(text) - 1, piece), -EPROTONOSUPPORT);
        assert_int_equal(talk->said_bytes, sizeof(answer) - 1);
        assert_memory_equal(talk->said, answer, sizeof(answer) - 1);
    }
}

static void gets_gives_what_cas_takes(void **state)
{
    struct talk *talk = *state;
    char text[200], rest[8];
    unsigned long version = 0;
    const char set[] = "set a 0 0 1\r\nx\r\ngets a\r\n";
    assert_int_equal(talk_say(talk, set, strlen(set), 7), 0);
    assert_int_equal(sscanf(talk->said, "STORED\r\nVALUE a 0 1 %lu\r\nx\r\n%3s", &version, rest), 2);
    assert_string_equal(rest, "END");
    int len = snprintf(text, sizeof(text),
                       "touch a 100\r\ncas a 0 0 1 %lu\r\ny\r\ncas a 0 0 1 %lu\r\nz\r\nget a\r\n", version,
                       version);
    assert_int_equal(talk_say(talk, text, (size_t)len, 3), 0);
    assert_string_equal(talk->said, "TOUCHED\r\nSTORED\r\nEXISTS\r\nVALUE a 0 1\r\ny\r\nEND\r\n");
}

/* Nothing is answered before all keys are known to be valid. */
static void keys_have_a_limit(void **state)
{
    struct talk *talk = *state;
    char text[1000], answer[300];
    (void)snprintf(text, sizeof(text),
                   "set a 0 0 1 noreply\r\nx\r\nget a %0250d\r\nget a %0251d a\r\ngat 0 a %0251d\r\nmn\r\n",
                   1, 1, 1);
    (void)snprintf(answer, sizeof(answer), "VALUE a 0 1\r\nx\r\nEND\r\n%s%sMN\r\n",
                   "CLIENT_ERROR bad command line format\r\n", "CLIENT_ERROR bad command line format\r\n");
    talk_expect(talk, text, answer);
}

static void quit_ends(void **state)
{
    struct talk *talk = *state;
    const char text[] = "version\r\nquit\r\nversion\r\n";
    assert_int_equal(talk_say(talk, text, strlen(text), 100), -ESHUTDOWN);
    assert_string_equal(talk->said, "VERSION " TALK_VERSION "\r\n");
}

/* Values of all sizes up to the limit, which is memcached's: 59 bytes of its own, 4 more with flags. */
static void large_values(void **state)
{
    struct talk *talk = *state;
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
            assert_int_equal(talk_say(talk, text, (size_t)len + sizes[i] + 9, piece), 0);
            assert_string_equal(talk->said, answer);
        }
    }
    assert_true(talk->placed > limit); /* some of each came right to where it belongs */
    int len = snprintf(text, 100, "set a 0 0 %zu\r\n", limit + 1);
    memset(text + len, 'x', limit + 1);
    memcpy(text + (size_t)len + limit + 1, "\r\nversion\r\n", 12);
    assert_int_equal(talk_say(talk, text, (size_t)len + limit + 12, 5000), 0);
    assert_string_equal(talk->said,
                        "SERVER_ERROR object too large for cache\r\nVERSION " TALK_VERSION "\r\n");
    free(text);
    free(answer);
}

static void a_line_without_end_ends(void **state)
{
    struct talk *talk = *state;
    char text[2 * MEMCACHE_LINE_BYTES_MAX];
    memset(text, 'a', sizeof(text));
    assert_int_equal(talk_say(talk, text, MEMCACHE_LINE_BYTES_MAX, 100), 0);
    assert_int_equal(talk_say(talk, text, sizeof(text), 100), -EPROTO);
    memcpy(text, "get ", 4);
    text[3000] = '\n'; /* one key, too long, in a line that is too long */
    assert_int_equal(talk_say(talk, text, 3001, 100), 0);
    assert_string_equal(talk->said, "CLIENT_ERROR bad command line format\r\n");
}

/* The keys of a get may be many, but it ends when none come. */
static void a_line_of_spaces_ends(void **state)
{
    struct talk *talk = *state;
    static const char *const beginnings[] = {"", "get", "get a", "gats 0 a", "gat 0"};
    enum { BYTES = 80 << 10 };
    static char text[BYTES];
    for (size_t i = 0; i < base_array_count(beginnings); i++) {
        memset(text, ' ', sizeof(text));
        memcpy(text, beginnings[i], strlen(beginnings[i]));
        for (size_t piece = 100; piece <= 8000; piece += 1000)
            assert_int_equal(talk_say(talk, text, sizeof(text), piece), -EPROTO);
    }
    memset(text, ' ', sizeof(text));
    memcpy(text, "get a", 5);
    memcpy(text + 40000, "a", 1);
    memcpy(text + 70000, "a\r\n", 3);
    assert_int_equal(talk_say(talk, text, 70003, 100), 0);
    assert_string_equal(talk->said, "END\r\n");
}

/* Keys in a line of any length, and a bad one far behind. */
static void endless_gets(void **state)
{
    struct talk *talk = *state;
    enum { KEYS = 5000 };
    const char set[] = "set a 0 0 1\r\nx\r\n";
    char *text = malloc(KEYS * 4 + 1000), *at = text;
    assert_non_null(text);
    assert_int_equal(talk_say(talk, set, strlen(set), 100), 0);
    memcpy(at, "gets  ", 6);
    at += 6;
    for (int i = 0; i < KEYS; i++) {
        memcpy(at, i % 100 == 0 ? "a " : "no  ", i % 100 == 0 ? 2 : 4);
        at += i % 100 == 0 ? 2 : 4;
    }
    char *end = at - 3; /* the last key, with its line end right behind it */
    end[-1] = 'a';
    memcpy(end, "\r\nversion\r\n", 11);
    for (size_t piece = 1; piece < 30000; piece = piece * 13 + 1) {
        assert_int_equal(talk_say(talk, text, (size_t)(end - text) + 11, piece), 0);
        size_t values = 0;
        for (const char *found = talk->said; (found = strstr(found, "VALUE a 0 1 ")) != NULL; found++)
            values++;
        assert_int_equal(values, KEYS / 100 + 1);
        assert_string_equal(strstr(talk->said, "END\r\n"), "END\r\nVERSION " TALK_VERSION "\r\n");
    }
    memset(end, 'k', 251);
    memcpy(end + 251, " a a\r\nversion\r\n", 15);
    for (size_t piece = 1; piece < 30000; piece = piece * 13 + 1) {
        assert_int_equal(talk_say(talk, text, (size_t)(end - text) + 266, piece), 0);
        assert_string_equal(strstr(talk->said, "CLIENT"),
                            "CLIENT_ERROR bad command line format\r\nVERSION " TALK_VERSION "\r\n");
        assert_null(strstr(talk->said, "END"));
    }
    free(text);
}

/* Where it is cut in a value, that needs memory: told even to who wants no reply. */
static void values_have_a_memory_limit(void **state)
{
    static const char *const talks[][2] = {
        {"set a 0 0 5 noreply\r\nxxxxx\r\nmn\r\nget a\r\n",
         "SERVER_ERROR out of memory storing object\r\nMN\r\nEND\r\n"},
        {"ms a 5 q\r\nxxxxx\r\nmn\r\nget a\r\n",
         "SERVER_ERROR out of memory storing object\r\nMN\r\nEND\r\n"},
    };
    struct talk *talk = *state;
    talk->value_alloc_fails = 1;
    for (size_t i = 0; i < base_array_count(talks); i++) {
        for (size_t piece = 1; piece <= 5; piece++) {
            assert_int_equal(talk_say(talk, talks[i][0], strlen(talks[i][0]), piece), 0);
            talk_expect_said(talk, talks[i][0], talks[i][1], strlen(talks[i][1]));
        }
    }
    talk->value_alloc_fails = 0;
    base_account_fail_at(&talk->server.values, 0);
    assert_int_equal(atomic_load(&talk->server.counters.store_no_memory), 10);
}

/* Nothing is sent after a send that has failed, and nothing more is carried out. */
static void a_dead_client_ends_it(void **state)
{
    struct talk *talk = *state;
    char text[900], gets[16000];
    for (size_t i = 0; i < sizeof(text); i += 9)
        memcpy(text + i, "version\r\n", 9);
    talk->send_fails_at = 1;
    assert_int_equal(talk_say(talk, text, sizeof(text), sizeof(text)), 0); /* it fits; flushing it fails */
    assert_int_equal(talk->sends, 1);
    const char set[] = "set a 0 0 1\r\nx\r\n";
    assert_int_equal(talk_say(talk, set, strlen(set), 100), 0);
    for (size_t i = 0; i < sizeof(gets); i += 2)
        memcpy(gets + i, "a ", 2);
    memcpy(gets, "get ", 4);
    gets[sizeof(gets) - 1] = '\n';
    talk->send_fails_at = 0;
    assert_int_equal(talk_say(talk, gets, sizeof(gets), sizeof(gets)), 0);
    uint64_t sends = talk->sends;
    assert_in_range(sends, 2, 10);
    for (uint64_t n = 1; n <= sends; n++) {
        talk->send_fails_at = n;
        assert_int_equal(talk_say(talk, gets, sizeof(gets), sizeof(gets)), n < sends ? -EPIPE : 0);
        assert_int_equal(talk->sends, n);
    }
}

static void stats_have_memcached_names(void **state)
{
    struct talk *talk = *state;
    const char text[] = "set a 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\nget a b\r\nstats\r\n";
    assert_int_equal(talk_say(talk, text, strlen(text), 100), 0);
    const char *const expected[] = {"STAT pid 4711\r\n",        "STAT version " TALK_VERSION "\r\n",
                                    "STAT curr_items 2\r\n",    "STAT cmd_get 2\r\n",
                                    "STAT cmd_set 2\r\n",       "STAT get_hits 1\r\n",
                                    "STAT get_misses 1\r\n",    "STAT threads 3\r\n",
                                    "STAT pointer_size 64\r\n", "STAT total_items 2\r\n",
                                    "STAT time 1700000000\r\n"};
    for (size_t i = 0; i < base_array_count(expected); i++)
        assert_non_null(strstr(talk->said, expected[i]));
    assert_string_equal(talk->said + talk->said_bytes - 7, "\r\nEND\r\n");
}

static void expect_line(const struct talk *talk, const char *line)
{
    if (strstr(talk->said, line) == NULL)
        fail_msg("no %s in %s", line, talk->said);
}

#define LARGE_BYTES 40000

/* Each request waits once for the store, also where it is asked again, as the output has no room for both
 * values. */
static void stages_are_told(void **state)
{
    struct talk *talk = *state;
    static const char first[] = "set a 0 0 1\r\nx\r\nget a b\r\ntouch a 0\r\nmn\r\nstats stages\r\n";
    static const char second[] = "get a a\r\nstats stages\r\n";
    char *set;
    depot_measure(talk->depot, 1);
    assert_int_equal(talk_say(talk, first, strlen(first), 100), 0);
    expect_line(talk, "STAT measure_interval 1\r\nSTAT stage_queue_count 4\r\nSTAT stage_queue_sum_us ");
    expect_line(talk, "STAT op_get_count 2\r\n");
    expect_line(talk, "STAT op_touch_count 1\r\n");
    expect_line(talk,
                "STAT op_delete_count 0\r\nSTAT op_delete_sum_us 0.000\r\nSTAT op_delete_p50_us 0.000\r\n");
    assert_string_equal(talk->said + talk->said_bytes - 7, "\r\nEND\r\n");
    int len = asprintf(&set, "set a 0 0 %d\r\n%*s\r\nstats reset\r\n", LARGE_BYTES, LARGE_BYTES, "x");
    assert_true(len > LARGE_BYTES);
    assert_int_equal(talk_say(talk, set, (size_t)len, TALK_INPUT_BYTES), 0);
    free(set);
    assert_int_equal(talk_say(talk, second, strlen(second), 100), 0);
    expect_line(talk, "STAT stage_queue_count 2\r\n");
    expect_line(talk, "STAT op_get_count 2\r\n");
}

static void stages_need_memory(void **state)
{
    struct talk *talk = *state;
    for (talk->alloc_fails = 1; talk->alloc_fails <= TARN_STAGE_COUNT; talk->alloc_fails++)
        talk_expect_once(talk, "stats stages\r\n", "SERVER_ERROR out of memory writing stats\r\n");
    talk->alloc_fails = 0;
}

/* What is counted of each command, as memcached counts it. */
static void everything_is_counted(void **state)
{
    struct talk *talk = *state;
    const struct memcache_counters *counters = &talk->server.counters;
    static const char text[] =
        "get a b\r\nset a 0 0 1\r\n1\r\nget a b\r\ngat 0 a b\r\nmg a\r\nmg b\r\nmg a T0\r\nmg b T0\r\ntouch "
        "a 0\r\ntouch b "
        "0\r\nincr a 1\r\nincr b 1\r\nma a\r\nma b\r\ndecr a 1\r\ndecr b 1\r\ndecr b 1\r\nma a MD\r\ncas a 0 "
        "0 1 "
        "1\r\nx\r\ncas b 0 0 1 1\r\nx\r\nms a 1 E7\r\nx\r\ncas a 0 0 1 7\r\nx\r\nms b 1 ME q\r\nx\r\nadd b 0 "
        "0 "
        "1\r\nx\r\ndelete b\r\ndelete b\r\nmd a I\r\nmd a\r\nmd a\r\nmn\r\ngat 0\r\nset a 0 0 1\r\nxZ\r\nset "
        "a 0 0 9999999\r\n";
    assert_int_equal(talk_say(talk, text, strlen(text), 100), 0);
    const struct {
        const _Atomic uint64_t *counter;
        uint64_t count;
    } expected[] = {
        {&counters->cmd_get, 7},
        {&counters->get_hits, 2},
        {&counters->get_misses, 5},
        {&counters->cmd_touch, 5},
        {&counters->touch_hits, 3},
        {&counters->touch_misses, 2},
        {&counters->cmd_set, 8},
        {&counters->total_items, 4},
        {&counters->incr_hits, 2},
        {&counters->incr_misses, 2},
        {&counters->decr_hits, 2},
        {&counters->decr_misses, 2},
        {&counters->cas_hits, 1},
        {&counters->cas_badval, 1},
        {&counters->cas_misses, 1},
        {&counters->delete_hits, 2},
        {&counters->delete_misses, 2},
        {&counters->cmd_meta, 13},
        {&counters->cmd_flush, 0},
        {&counters->store_too_large, 1},
        {&counters->bytes_read, strlen(text)},
        {&counters->bytes_written, talk->said_bytes},
    };
    for (size_t i = 0; i < base_array_count(expected); i++) {
        if (atomic_load(expected[i].counter) != expected[i].count)
            print_error("number %zu\n", i);
        assert_int_equal(atomic_load(expected[i].counter), expected[i].count);
    }
    talk_expect_once(talk, "stats reset\r\nflush_all\r\n", "RESET\r\nOK\r\n");
    assert_int_equal(atomic_load(&counters->cmd_get), 0);
    assert_int_equal(atomic_load(&counters->cmd_flush), 1);
}

static void a_client_may_ask_for_the_end(void **state)
{
    struct talk *talk = *state;
    talk_expect(talk, "version\r\nshutdown\r\nmn\r\n", "VERSION " TALK_VERSION "\r\nMN\r\n");
    assert_true(talk->ending);
    talk->ending = false;
    talk_expect(talk, "shutdown foo\r\nshutdown graceful now\r\n",
                "CLIENT_ERROR invalid shutdown mode\r\nCLIENT_ERROR invalid shutdown mode\r\n");
    assert_false(talk->ending);
    talk_expect(talk, "shutdown graceful\r\n", "");
    assert_true(talk->ending);
    talk->ending = false;
    talk->server.host.shutdown = NULL;
    talk_expect(talk, "version\r\nshutdown\r\nmn\r\n",
                "VERSION " TALK_VERSION "\r\nSERVER_ERROR: shutdown not enabled\r\nMN\r\n");
    talk_expect(talk, "shutdown foo\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
    assert_false(talk->ending);
}

static void all_keys_are_listed(void **state)
{
    struct talk *talk = *state;
    talk_expect(talk, "lru_crawler metadump all\r\nlru_crawler mgdump hash\r\nstats cachedump 1 0\r\nmn\r\n",
                "END\r\nEN\r\nEND\r\nMN\r\n");
    talk_expect(
        talk,
        "ms a 3 E7\r\nabc\r\nlru_crawler metadump 2,1\r\nlru_crawler mgdump 1\r\nstats cachedump 1 1\r\n",
        "HD\r\nkey=a exp=-1 la=0 cas=7 fetch=no cls=1 size=63\nEND\r\nmg a\r\nEN\r\n"
        "ITEM a [3 b; 0 s]\r\nEND\r\n");
    talk_expect(talk, "ms AAEg 0 b E8 F1\r\n\r\nlru_crawler metadump all\r\nlru_crawler mgdump all\r\n",
                "HD\r\nkey=%00%01%20 exp=-1 la=0 cas=8 fetch=no cls=1 size=66\nEND\r\nmg AAEg b\r\nEN\r\n");
    talk_expect(
        talk,
        "lru_crawler\r\nlru_crawler crawl all\r\nlru_crawler metadump\r\nlru_crawler mgdump 0\r\nwatch\r\n",
        "ERROR\r\nCLIENT_ERROR lru crawler disabled\r\nERROR\r\nBADCLASS invalid class id\r\n"
        "CLIENT_ERROR watch commands not allowed\r\n");
    talk_expect(talk, "lru_crawler metadump all x\r\nlru_crawler mgdump all x\r\nlru_crawler foo\r\nmn\r\n",
                "ERROR\r\nERROR\r\nERROR\r\nMN\r\n");
    talk_expect(talk,
                "stats cachedump 1\r\nstats cachedump x 1\r\nstats cachedump 1 -1\r\nstats cachedump 0 0\r\n"
                "stats cachedump 64 0\r\nstats cachedump 1 4294967296\r\n",
                "CLIENT_ERROR bad command line\r\nCLIENT_ERROR bad command line format\r\n"
                "CLIENT_ERROR bad command line format\r\nEND\r\nCLIENT_ERROR Illegal slab id\r\n"
                "CLIENT_ERROR bad command line format\r\n");
    talk->server.host.refuses_dumps = true;
    talk_expect(talk, "lru_crawler metadump all\r\nlru_crawler mgdump all\r\nstats cachedump 1 1\r\n",
                "ERROR metadump not allowed\r\nERROR key dump not allowed\r\n"
                "CLIENT_ERROR stats cachedump not allowed\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TESTS(conversations),
        TALK_TESTS(all_keys_are_listed),
        TALK_TESTS(refused_values_are_no_commands),
        TALK_TESTS(values_of_unknown_length_close),
        TALK_TESTS(the_binary_protocol_is_refused),
        TALK_TESTS(gets_gives_what_cas_takes),
        TALK_TESTS(keys_have_a_limit),
        TALK_TESTS(quit_ends),
        TALK_TESTS(large_values),
        TALK_TESTS(a_line_without_end_ends),
        TALK_TESTS(a_line_of_spaces_ends),
        TALK_TESTS(endless_gets),
        TALK_TESTS(values_have_a_memory_limit),
        TALK_TESTS(a_dead_client_ends_it),
        TALK_TESTS(everything_is_counted),
        TALK_TESTS(a_client_may_ask_for_the_end),
        TALK_TESTS(stats_have_memcached_names),
        TALK_TEST(stages_are_told),
        TALK_TEST(stages_need_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
