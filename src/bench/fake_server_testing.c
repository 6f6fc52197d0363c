/* A server in a thread that answers any get with the right value of the key, and may misbehave at one request. */
#include "bench/fake_server_testing.h"

#include "bench/testing.h"
#include <poll.h>

enum {
    FAKE_ROOM = 1 << 20,
    FAKE_PIECES_MAX = 102, /* of a RESP command */
};

struct fake_connection {
    int fd;
    size_t len;
    char in[FAKE_ROOM];
};

/* A request: its keys, and the value of a set. */
struct fake_request {
    bool set;
    uint32_t count;
    uint64_t numbers[FAKE_PIECES_MAX];
    const char *value;
    size_t value_len;
};

static const char *fake_line_end(const char *from, const char *end)
{
    const char *found = memmem(from, (size_t)(end - from), "\r\n", 2);
    return found == NULL ? NULL : found + 2;
}

/* Each returns the end of the request, or NULL: it is not whole yet. */
static const char *fake_read_text(const char *from, const char *end, struct fake_request *request)
{
    const char *line_end = fake_line_end(from, end);
    if (line_end == NULL)
        return NULL;
    request->set = strncmp(from, "set ", 4) == 0;
    assert_true(request->set || strncmp(from, "get ", 4) == 0);
    for (const char *at = from + 4; at < line_end && *at == 'b'; at += BENCH_KEY_BYTES + 1)
        assert_int_equal(bench_key_read(at, BENCH_KEY_BYTES, &request->numbers[request->count++]), 0);
    if (!request->set)
        return line_end;
    assert_memory_equal(from + 4 + BENCH_KEY_BYTES, " 0 0 ", 5);
    request->value_len = strtoul(from + 4 + BENCH_KEY_BYTES + 5, NULL, 10);
    request->value = line_end;
    return (size_t)(end - line_end) < request->value_len + 2 ? NULL : line_end + request->value_len + 2;
}

static const char *fake_read_resp(const char *from, const char *end, struct fake_request *request)
{
    const char *at = fake_line_end(from, end);
    if (at == NULL)
        return NULL;
    assert_int_equal(*from, '*');
    unsigned long pieces = strtoul(from + 1, NULL, 10);
    assert_in_range(pieces, 2, FAKE_PIECES_MAX);
    for (unsigned long i = 0; i < pieces; i++) {
        const char *piece = fake_line_end(at, end);
        if (piece == NULL)
            return NULL;
        assert_int_equal(*at, '$');
        size_t len = strtoul(at + 1, NULL, 10);
        if ((size_t)(end - piece) < len + 2)
            return NULL;
        if (i == 0) {
            request->set = memcmp(piece, "SET", 3) == 0;
        } else if (request->set && i == 2) {
            request->value = piece;
            request->value_len = len;
        } else {
            assert_int_equal(bench_key_read(piece, len, &request->numbers[request->count++]), 0);
        }
        at = piece + len + 2;
    }
    return at;
}

static size_t fake_say_value(const struct fake_server *fake, uint64_t number, char *to)
{
    char key[BENCH_KEY_BYTES];
    int len;
    bool text = fake->protocol == BENCH_PROTOCOL_TEXT;
    bench_key(number, key);
    if (fake->fault == FAKE_MISSES_ODD && number % 2 == 1) {
        len = text ? 0 : snprintf(to, FAKE_ROOM, "$-1\r\n");
        return (size_t)len;
    }
    if (text)
        len = snprintf(to, FAKE_ROOM, "VALUE %.16s 0 %u\r\n", key, (unsigned)fake->values->bytes);
    else
        len = snprintf(to, FAKE_ROOM, "$%u\r\n", (unsigned)fake->values->bytes);
    bool other = fake->fault == FAKE_OTHER && fake->requests >= fake->fault_at;
    bench_value(fake->values, other ? number + 1 : number, 3, (uint8_t *)to + len);
    memcpy(to + len + fake->values->bytes, "\r\n", 2);
    return (size_t)len + fake->values->bytes + 2;
}

static size_t fake_say(struct fake_server *fake, const struct fake_request *request, char *to)
{
    bool text = fake->protocol == BENCH_PROTOCOL_TEXT;
    size_t len = 0;
    if (request->set)
        return (size_t)snprintf(to, FAKE_ROOM, "%s\r\n", text ? "STORED" : "+OK");
    if (!text && request->count > 1)
        len = (size_t)snprintf(to, FAKE_ROOM, "*%u\r\n", (unsigned)request->count);
    for (uint32_t i = 0; i < request->count; i++)
        len += fake_say_value(fake, request->numbers[i], to + len);
    if (text)
        len += (size_t)snprintf(to + len, 8, "END\r\n");
    return len;
}

static void fake_note(struct fake_server *fake, const struct fake_request *request)
{
    if (!request->set) {
        fake->gets += request->count;
        return;
    }
    struct bench_value_check check;
    bench_value_check_begin(&check, request->numbers[0], true);
    if (request->value_len != fake->values->bytes ||
        !bench_value_check_bytes(fake->values, &check, (const uint8_t *)request->value, request->value_len))
        fake->wrong_sets++;
    if (request->numbers[0] < FAKE_NUMBERS)
        fake->sets[request->numbers[0]]++;
}

static void fake_send(const struct fake_connection *connection, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(connection->fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the client has gone */
        data += sent;
        len -= (size_t)sent;
    }
}

/* @return whether the connection stays */
static bool fake_answer(struct fake_server *fake, struct fake_connection *connection,
                        const struct fake_request *request)
{
    static _Thread_local char out[FAKE_ROOM];
    bool now = fake->requests == fake->fault_at;
    bool since = fake->requests >= fake->fault_at;
    fake_note(fake, request);
    if ((fake->fault == FAKE_STALLS && now) || (fake->fault == FAKE_SLOW && since))
        (void)poll(NULL, 0, fake->stall_ms);
    size_t len = fake_say(fake, request, out);
    fake->requests++;
    if (fake->fault == FAKE_CLOSES && now)
        return false;
    if (fake->fault == FAKE_ERROR && now)
        len = (size_t)snprintf(out, sizeof(out), "SERVER_ERROR busy\r\n");
    if (fake->fault == FAKE_TWICE && now) {
        memcpy(out + len, out, len);
        len *= 2;
    }
    if (fake->fault != FAKE_SILENT || !since)
        fake_send(connection, out, len);
    return true;
}

static bool fake_serve(struct fake_server *fake, struct fake_connection *connection)
{
    ssize_t got = recv(connection->fd, connection->in + connection->len, FAKE_ROOM - connection->len, 0);
    if (got <= 0)
        return false;
    connection->len += (size_t)got;
    const char *at = connection->in;
    const char *end = connection->in + connection->len;
    uint64_t at_once = 0;
    bool stays = true;
    while (stays && at < end) {
        struct fake_request request = {.count = 0};
        const char *next = fake->protocol == BENCH_PROTOCOL_TEXT ? fake_read_text(at, end, &request)
                                                                 : fake_read_resp(at, end, &request);
        if (next == NULL)
            break;
        at = next;
        at_once++;
        stays = fake_answer(fake, connection, &request);
    }
    fake->most_at_once = base_max(fake->most_at_once, at_once);
    connection->len = (size_t)(end - at);
    memmove(connection->in, at, connection->len);
    return stays;
}

static void *fake_run(void *arg)
{
    struct fake_server *fake = arg;
    struct pollfd polls[FAKE_CONNECTIONS + 1];
    while (!atomic_load(&fake->stop)) {
        for (size_t i = 0; i < fake->count; i++)
            polls[i] = (struct pollfd){.fd = fake->connections[i]->fd, .events = POLLIN};
        size_t count = fake->count;
        polls[count] = (struct pollfd){.fd = fake->listener, .events = POLLIN};
        (void)poll(polls, count + 1, 10);
        for (size_t i = count; i-- > 0;) {
            if (polls[i].revents == 0 || fake_serve(fake, fake->connections[i]))
                continue;
            (void)close(fake->connections[i]->fd);
            free(fake->connections[i]);
            fake->connections[i] = fake->connections[--fake->count];
        }
        if (polls[count].revents != 0 && fake->count < FAKE_CONNECTIONS) {
            struct fake_connection *connection = calloc(1, sizeof(*connection));
            assert_non_null(connection);
            connection->fd = accept(fake->listener, NULL, NULL);
            fake->connections[fake->count++] = connection;
        }
    }
    return NULL;
}

void fake_begin(struct fake_server *fake)
{
    if (fake->unix_path != NULL) {
        char text[128];
        (void)snprintf(text, sizeof(text), "unix:%s", fake->unix_path);
        assert_int_equal(memcache_client_address_read(text, &fake->address), 0);
    } else {
        fake->port = find_free_port();
        fake->address = memcache_client_address_of_port(fake->port);
    }
    fake->listener = socket(fake->address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fake->listener >= 0);
    assert_int_equal(
        bind(fake->listener, (const struct sockaddr *)&fake->address.address, fake->address.bytes), 0);
    assert_int_equal(listen(fake->listener, FAKE_CONNECTIONS), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

void fake_end(struct fake_server *fake)
{
    atomic_store(&fake->stop, true);
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    for (size_t i = 0; i < fake->count; i++) {
        (void)close(fake->connections[i]->fd);
        free(fake->connections[i]);
    }
    (void)close(fake->listener);
    if (fake->unix_path != NULL)
        (void)unlink(fake->unix_path);
}
