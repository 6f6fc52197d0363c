/*
 * Do many clients of one server, each with requests of its own in flight, get along: is every number counted,
 * does one win where only one may, and is what a client reads what somebody has stored?
 */
#include "memcache/testing.h"

#define CLIENTS 12
#define ROUNDS  40

struct client {
    struct talk *talk;
    const char *text;
    size_t piece;
    struct memcache_session session;
    struct memcache_work work;
    char input[TALK_INPUT_BYTES];
    char said[128 << 10];
    size_t said_bytes;
};

static int hear(void *arg, struct iovec *pieces, uint32_t piece_count)
{
    struct client *client = arg;
    for (int i = 0; i < 10; i++) /* others read and write meanwhile */
        task_yield();
    for (uint32_t i = 0; i < piece_count; i++) {
        base_assert(pieces[i].iov_len < sizeof(client->said) - client->said_bytes);
        memcpy(client->said + client->said_bytes, pieces[i].iov_base, pieces[i].iov_len);
        client->said_bytes += pieces[i].iov_len;
    }
    client->said[client->said_bytes] = '\0';
    return 0;
}

static void run_client(void *arg)
{
    struct client *client = arg;
    size_t kept = 0, len = strlen(client->text), consumed;
    memcache_session_init(&client->session, &client->talk->server);
    memcache_work_init(&client->work, hear, client);
    client->said_bytes = 0;
    client->said[0] = '\0';
    for (size_t at = 0; at < len;) {
        size_t more = base_min(base_min(client->piece, len - at), sizeof(client->input) - kept);
        memcpy(client->input + kept, client->text + at, more);
        at += more;
        int error =
            memcache_session_consume(&client->session, &client->work, client->input, kept + more, &consumed);
        base_assert(error == 0);
        kept += more - consumed;
        memmove(client->input, client->input + consumed, kept);
        task_yield();
    }
    int error = memcache_output_flush(&client->talk->server, &client->work.output);
    base_assert(error == 0);
    memcache_session_deinit(&client->session);
}

static void run_all(void *arg)
{
    struct client *clients = arg;
    struct task_group group;
    task_group_init(&group);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        int error = task_spawn(NULL, &group, "client", run_client, &clients[i]);
        base_assert(error == 0);
    }
    int error = task_group_join(&group, TASK_FOREVER);
    base_assert(error == 0);
}

/* @return what was said to all, for the caller to free */
static struct client *say_together(struct talk *talk, const char *text)
{
    struct client *clients = calloc(CLIENTS, sizeof(*clients));
    assert_non_null(clients);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i].talk = talk;
        clients[i].text = text;
        clients[i].piece = i % 2 == 0 ? TALK_INPUT_BYTES : 40 + i;
    }
    talk_run(talk, run_all, clients);
    assert_int_equal(base_account_used(&talk->server.values), 0);
    return clients;
}

/* How often a text was said to all of them together. */
static uint32_t times_said(const struct client *clients, const char *text)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (const char *at = clients[i].said; (at = strstr(at, text)) != NULL; at++)
            times++;
    }
    return times;
}

/* @param text  room for ROUNDS times `once` and a zero byte */
static void repeat(char *text, const char *once)
{
    size_t len = strlen(once);
    for (uint32_t i = 0; i < ROUNDS; i++)
        memcpy(text + i * len, once, len + 1);
}

static void everything_is_counted(void **state)
{
    struct talk *talk = *state;
    static const char once[] =
        "incr n 1\r\nma m N0 v\r\nincr n 2\r\ndecr n 1 noreply\r\nappend text 0 0 1\r\nx\r\n";
    char text[ROUNDS * sizeof(once)], expected[200];
    repeat(text, once);
    talk_expect_once(talk, "set n 0 0 1\r\n0\r\nset text 0 0 0\r\n\r\n", "STORED\r\nSTORED\r\n");
    struct client *clients = say_together(talk, text);
    assert_int_equal(times_said(clients, "STORED\r\n"), CLIENTS * ROUNDS);
    assert_int_equal(times_said(clients, "ERROR"), 0);
    free(clients);
    (void)snprintf(expected, sizeof(expected), "%u\r\nVA 3\r\n%u\r\nHD s%u\r\n", 2 * CLIENTS * ROUNDS,
                   CLIENTS * ROUNDS - 1, CLIENTS * ROUNDS);
    talk_expect_once(talk, "incr n 0\r\nmg m v\r\nmg text s\r\n", expected);
}

/* Of all who find an item stale, or none, one is told to make it. */
static void one_client_wins(void **state)
{
    struct talk *talk = *state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        talk_expect_once(talk, "set a 0 0 1\r\nx\r\nmd a I\r\nset r 0 10 1\r\ny\r\ndelete n noreply\r\n",
                         "STORED\r\nHD\r\nSTORED\r\n");
        struct client *clients =
            say_together(talk, "mg a v t\r\nmg r R20\r\nmg n N50 k\r\nmg a\r\nmg n k\r\n");
        assert_int_equal(times_said(clients, " W\r\n"), 3);
        assert_int_equal(times_said(clients, "VA 1 t-1 X W\r\nx\r\n") + times_said(clients, "HD X W\r\n"), 1);
        assert_int_equal(times_said(clients, " Z"), 5 * CLIENTS - 3);
        free(clients);
    }
}

/* Whoever compares, or adds, or deletes, only one has done it. */
static void one_client_is_first(void **state)
{
    struct talk *talk = *state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        talk_expect_once(talk, "ms c 1 E99999999\r\nx\r\nset d 0 0 1\r\nx\r\nms l 1 E99999999\r\nx\r\n",
                         "HD\r\nSTORED\r\nHD\r\n");
        struct client *clients = say_together(talk, "cas c 0 0 1 99999999\r\ny\r\nadd e 0 0 1\r\nx\r\ndelete "
                                                    "d\r\nms l 2 C99999999 MS k\r\nyy\r\nmd c C99999999\r\n");
        assert_int_equal(times_said(clients, "EXISTS\r\n"), CLIENTS - 1);
        assert_int_equal(times_said(clients, "NOT_STORED\r\n"), CLIENTS - 1);
        assert_int_equal(times_said(clients, "STORED\r\n"), CLIENTS + 1);
        assert_int_equal(times_said(clients, "DELETED\r\n"), 1);
        assert_int_equal(times_said(clients, "HD kl\r\n"), 1);
        assert_int_equal(times_said(clients, "EX kl\r\n"), CLIENTS - 1);
        free(clients);
        talk_expect_once(talk, "delete e\r\n", "DELETED\r\n");
    }
}

/* While an item comes and goes, it is there as a whole or not at all. */
static void what_is_read_was_stored(void **state)
{
    struct talk *talk = *state;
    static const char once[] = "set a 1 0 4\r\n1111\r\nget b a\r\nmg a v f\r\nset a 2 0 "
                               "9\r\n222222222\r\ngat 0 a\r\ndelete a\r\nget a\r\n"
                               "mg a v f T50\r\n";
    char text[ROUNDS * sizeof(once)];
    repeat(text, once);
    struct client *clients = say_together(talk, text);
    uint32_t values = times_said(clients, "VALUE a"), meta = times_said(clients, "VA ");
    assert_int_equal(values, times_said(clients, "VALUE a 1 4\r\n1111\r\nEND\r\n") +
                                 times_said(clients, "VALUE a 2 9\r\n222222222\r\nEND\r\n"));
    assert_int_equal(meta, times_said(clients, "VA 4 f1\r\n1111\r\n") +
                               times_said(clients, "VA 9 f2\r\n222222222\r\n"));
    assert_true(values > 0 && meta > 0);
    assert_int_equal(times_said(clients, "END\r\n"), 3 * CLIENTS * ROUNDS);
    assert_int_equal(meta + times_said(clients, "EN\r\n"), 2 * CLIENTS * ROUNDS);
    assert_int_equal(times_said(clients, "ERROR"), 0);
    free(clients);
}

/* While long values are replaced by others of the same length, what is sent from where it was read is one of its
 * key's from its beginning to its end. */
static void values_are_of_one_version(void **state)
{
    struct talk *talk = *state;
    enum { BYTES = 5000, GETS = 10 };
    char value[BYTES + 1] = "", *text = calloc(GETS, BYTES + 200);
    size_t len = 0;
    uint32_t seen = 0;
    assert_non_null(text);
    for (int i = 0; i < GETS; i++) { /* "k" has small letters, "K" capital ones */
        memset(value, (i % 2 == 0 ? 'a' : 'A') + i, BYTES);
        len += (size_t)snprintf(text + len, BYTES + 200, "set %c 0 0 %d noreply\r\n%s\r\nget K k\r\n",
                                i % 2 == 0 ? 'k' : 'K', BYTES, value);
    }
    struct client *clients = say_together(talk, text);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (const char *at = clients[i].said; (at = strstr(at, "VALUE ")) != NULL; seen++) {
            const char *bytes = strchr(at, '\n') + 1;
            assert_int_equal(at[6] == 'k', bytes[0] >= 'a');
            for (uint32_t j = 1; j < BYTES; j++)
                assert_int_equal(bytes[j], bytes[0]);
            at = bytes + BYTES;
            assert_memory_equal(at, "\r\n", 2);
        }
    }
    assert_in_range(seen, CLIENTS * (2 * GETS - 1), CLIENTS * 2 * GETS);
    free(clients);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TESTS(everything_is_counted),     TALK_TESTS(one_client_wins),
        TALK_TESTS(one_client_is_first),       TALK_TESTS(what_is_read_was_stored),
        TALK_TESTS(values_are_of_one_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
