/* A memory server and its master: registering, reporting, and the orders that come back. */
#include "fabric/fabric.h"
#include "rpc/rpc.h"
#include "space/server.h"
#include <errno.h>
#include <string.h>

#define PAUSE_NS       (100 * BASE_NS_PER_MS) /* before a master is tried again */
#define LOOKS          8                      /* of the one that waits for a silent master, in a lease */
#define CONNECT_NS     (5 * BASE_NS_PER_SECOND)
#define ORDERS         4                      /* of the master at once */
#define QUESTIONS      4                      /* to the master at once */
#define REGISTER_BYTES 16                     /* of the answer to REGISTER */
#define ROW_BYTES      (8 + SPACE_KEYS_BYTES) /* a chunk of a report */
#define ROWS_MAX       ((SPACE_SERVER_MAX - SPACE_IDENTITY_BYTES - 8) / ROW_BYTES)

/* ---- orders ------------------------------------------------------------------------------------- */

static void note_heard(struct space_server *server)
{
    server->heard_ns = task_now();
}

static int obey_assign(void *arg, struct tarn_rpc_request *request)
{
    struct space_server *server = arg;
    struct space_cursor from = space_cursor_from(request->data, request->bytes);
    struct space_cursor to = space_cursor_to(request->result, request->room);
    note_heard(server);
    const uint32_t space_number = (uint32_t)space_take(&from, 4), count = (uint32_t)space_take(&from, 4);
    const uint8_t *chunks = space_take_bytes(&from, (size_t)count * 4);
    int error = space_cursor_is_done(&from) ? 0 : -EINVAL;
    uint32_t done = 0;
    for (; done < count && error == 0; done += error == 0) {
        const uint32_t chunk = base_load_le32(chunks + (size_t)done * 4);
        error = server_assign(server, chunk, space_number);
        if (error == 0) {
            const struct space_keys keys = server_keys(&server->chunks[chunk]);
            space_put_keys(&to, &keys);
        }
    }
    if (error == 0 && to.is_wrong)
        error = -EINVAL;
    while (error != 0 && done-- > 0)
        (void)server_unassign(server, base_load_le32(chunks + (size_t)done * 4));
    request->result_bytes = error == 0 ? (uint32_t)space_cursor_count(&to, request->result) : 0;
    return error;
}

static int obey_unassign(void *arg, struct tarn_rpc_request *request)
{
    struct space_server *server = arg;
    struct space_cursor from = space_cursor_from(request->data, request->bytes);
    note_heard(server);
    space_take_zeros(&from, 4);
    const uint32_t count = (uint32_t)space_take(&from, 4);
    const uint8_t *chunks = space_take_bytes(&from, (size_t)count * 4);
    int error = space_cursor_is_done(&from) ? 0 : -EINVAL;
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = server_unassign(server, base_load_le32(chunks + (size_t)i * 4));
    return error;
}

static int obey_fence(void *arg, struct tarn_rpc_request *request)
{
    struct space_cursor from = space_cursor_from(request->data, request->bytes);
    note_heard(arg);
    const uint32_t count = (uint32_t)space_take(&from, 4), flags = (uint32_t)space_take(&from, 4);
    const uint8_t *sessions = space_take_bytes(&from, (size_t)count * SPACE_SESSION_BYTES);
    struct space_cursor to = space_cursor_to(request->result, request->room);
    if (!space_cursor_is_done(&from) || flags > (SPACE_FENCE_FIRST | SPACE_FENCE_LAST))
        return -EINVAL;
    if (flags & SPACE_FENCE_FIRST)
        server_suspect_all(arg);
    server_trust(arg, sessions, count);
    if (flags & SPACE_FENCE_LAST)
        server_fence_suspects(arg, &to);
    request->result_bytes = (uint32_t)space_cursor_count(&to, request->result);
    return to.is_wrong ? -E2BIG : 0;
}

/* Mark chunks of a namespace. Its use keeps the namespace meanwhile. */
static int obey_mark(void *arg, struct tarn_rpc_request *request)
{
    struct space_server *server = arg;
    struct space_cursor from = space_cursor_from(request->data, request->bytes);
    struct space_cursor to = space_cursor_to(request->result, request->room);
    const uint32_t space_number = (uint32_t)space_take(&from, 4), count = (uint32_t)space_take(&from, 4);
    const uint8_t *marks = space_take_bytes(&from, (size_t)count * SPACE_MARK_BYTES);
    struct server_space *space;
    note_heard(server);
    if (!space_cursor_is_done(&from) || space_number == 0 || count == 0)
        return -EINVAL;
    int error = server_space_get(server, space_number, &space);
    if (error != 0)
        return error;
    for (uint32_t i = 0; i < count && error == 0; i++, marks += SPACE_MARK_BYTES)
        error = server_mark(space, base_load_le32(marks), base_load_le32(marks + 4));
    tarn_fabric_mem_fence(); /* clients that READ a word after the answer find what it is now */
    if (error == 0)
        space_put_words(&to, &(struct space_words){.domain = space->words->handle.domain,
                                                   .key = space->words->handle.key});
    server_space_put(space);
    request->result_bytes = (uint32_t)space_cursor_count(&to, request->result);
    return error == 0 && to.is_wrong ? -EINVAL : error;
}

static int obey_copy(void *arg, struct tarn_rpc_request *request)
{
    struct space_server *server = arg;
    struct space_cursor from = space_cursor_from(request->data, request->bytes);
    char address[SPACE_ADDRESS_MAX + 1];
    struct space_hello hello = {.space_namespace = (uint32_t)space_take(&from, 4)};
    const uint32_t chunk = (uint32_t)space_take(&from, 4);
    const void *session = space_take_bytes(&from, SPACE_SESSION_BYTES);
    const void *identity = space_take_bytes(&from, SPACE_IDENTITY_BYTES);
    struct tarn_fabric_handle handle = {.domain = space_take(&from, 8)};
    handle.key = space_take(&from, 8);
    handle.bytes = server->chunk_bytes;
    handle.rights = space_rights(TARN_SPACE_BULK);
    const size_t bytes = space_take(&from, 2);
    note_heard(server);
    space_take_zeros(&from, 6);
    if (!space_take_text(&from, bytes, address, SPACE_ADDRESS_MAX) || !space_cursor_is_done(&from))
        return -EINVAL;
    memcpy(hello.session, session, SPACE_SESSION_BYTES);
    memcpy(hello.identity, identity, SPACE_IDENTITY_BYTES);
    return server_copy(server, chunk, &hello, &handle, address, request->deadline_ns);
}

static int obey_ping(void *arg, struct tarn_rpc_request *request)
{
    struct space_server_stats stats;
    struct space_cursor to = space_cursor_to(request->result, request->room);
    note_heard(arg);
    space_server_stats(arg, &stats);
    space_put(&to, stats.dirty, 4);
    space_put(&to, stats.connections, 4);
    space_put(&to, stats.refused, 8);
    request->result_bytes = (uint32_t)space_cursor_count(&to, request->result);
    return request->bytes == 0 && !to.is_wrong ? 0 : -EINVAL;
}

static const struct tarn_rpc_method orders[SPACE_ORDERS] = {
    [SPACE_ASSIGN] = {.name = "assign", .function = obey_assign},
    [SPACE_UNASSIGN] = {.name = "unassign", .function = obey_unassign},
    [SPACE_FENCE] = {.name = "fence", .function = obey_fence},
    [SPACE_PING] = {.name = "ping", .function = obey_ping},
    [SPACE_MARK] = {.name = "mark", .function = obey_mark},
    [SPACE_COPY] = {.name = "copy", .function = obey_copy},
};

/* ---- questions ---------------------------------------------------------------------------------- */

static int call_master(struct tarn_rpc_connection *connection, enum space_method method,
                       const struct space_cursor *cursor, const uint8_t *bytes, void *result, uint32_t room,
                       uint64_t deadline_ns)
{
    struct tarn_rpc_call call = {.method = (uint32_t)method,
                                 .request = bytes,
                                 .request_bytes = (uint32_t)space_cursor_count(cursor, bytes),
                                 .result = result,
                                 .room = room,
                                 .deadline_ns = deadline_ns};
    base_assert(!cursor->is_wrong);
    int error = tarn_rpc_call(connection, &call);
    return error == 0 && call.result_bytes != room ? -EPROTO : error;
}

int server_ask_admission(struct space_server *server, const struct space_hello *hello)
{
    uint8_t bytes[SPACE_IDENTITY_BYTES + SPACE_SESSION_BYTES + 8];
    struct space_cursor cursor = space_cursor_to(bytes, sizeof(bytes));
    struct tarn_rpc_connection *connection = server->questions;
    if (connection == NULL)
        return -EHOSTDOWN;
    space_put_bytes(&cursor, server->identity, SPACE_IDENTITY_BYTES);
    space_put_bytes(&cursor, hello->session, SPACE_SESSION_BYTES);
    space_put(&cursor, hello->space_namespace, 4);
    space_put(&cursor, 0, 4);
    server->questioners++;
    int error = call_master(connection, SPACE_ADMIT, &cursor, bytes, NULL, 0, task_now() + CONNECT_NS);
    server->questioners--;
    return error;
}

/* ---- joining ------------------------------------------------------------------------------------ */

static int register_self(struct space_server *server, struct tarn_rpc_connection *connection)
{
    uint8_t bytes[SPACE_REQUEST_MAX], result[REGISTER_BYTES];
    struct space_cursor cursor = space_cursor_to(bytes, sizeof(bytes));
    space_put_bytes(&cursor, server->identity, SPACE_IDENTITY_BYTES);
    space_put(&cursor, server->chunk_bytes, 8);
    space_put(&cursor, server->chunk_count, 4);
    space_put(&cursor, server->secret_bytes, 2);
    space_put(&cursor, strlen(server->name), 2);
    space_put(&cursor, strlen(server->address), 2);
    space_put(&cursor, 0, 6);
    space_put_bytes(&cursor, server->secret, server->secret_bytes);
    space_put_bytes(&cursor, server->name, strlen(server->name));
    space_put_bytes(&cursor, server->address, strlen(server->address));
    int error = call_master(connection, SPACE_REGISTER, &cursor, bytes, result, sizeof(result),
                            task_now() + CONNECT_NS);
    if (error == 0)
        server->lease_ns = base_load_le32(result + 4) * BASE_NS_PER_MS;
    return error;
}

/* Tell what namespaces have which chunks. Nobody assigns any meanwhile: the master gives no orders before it attends. */
static int report_chunks(struct space_server *server, struct tarn_rpc_connection *connection)
{
    struct base_account *account = &server->node->memory;
    uint8_t *bytes = base_alloc(account, SPACE_SERVER_MAX);
    int error = bytes == NULL ? -ENOMEM : 0;
    for (uint32_t first = 0; first < server->chunk_count && error == 0; first += ROWS_MAX) {
        const uint32_t count = base_min(server->chunk_count - first, (uint32_t)ROWS_MAX);
        struct space_cursor cursor = space_cursor_to(bytes, SPACE_SERVER_MAX);
        space_put_bytes(&cursor, server->identity, SPACE_IDENTITY_BYTES);
        space_put(&cursor, first, 4);
        space_put(&cursor, count, 4);
        for (uint32_t i = 0; i < count; i++) {
            const struct server_chunk *chunk = &server->chunks[first + i];
            const struct space_keys keys = server_keys(chunk);
            space_put(&cursor, chunk->space == NULL ? 0 : chunk->space->number, 4);
            space_put(&cursor, 0, 4);
            space_put_keys(&cursor, &keys);
        }
        error = call_master(connection, SPACE_REPORT, &cursor, bytes, NULL, 0, task_now() + CONNECT_NS);
    }
    base_free(account, bytes, SPACE_SERVER_MAX);
    return error;
}

/* Be attended by the master, for as long as the connection lasts. */
static int be_attended(struct space_server *server, struct tarn_rpc_connection *connection)
{
    struct space_cursor cursor = space_cursor_to(server->identity, SPACE_IDENTITY_BYTES);
    cursor.at += SPACE_IDENTITY_BYTES;
    note_heard(server);
    server->attended = connection;
    atomic_store(&server->is_attended, true);
    int error = call_master(connection, SPACE_ATTEND, &cursor, server->identity, NULL, 0, TARN_FOREVER);
    atomic_store(&server->is_attended, false);
    server->attended = NULL;
    return error;
}

/* Be registered over a connection, and serve the master until it or this server ends. Clients are admitted when the master has
 * the handles that are valid now: those of a server that was restarted are others than before. @return an error */
static int serve_master(struct space_server *server, struct tarn_rpc_connection *connection,
                        struct tarn_rpc_connection *questions)
{
    int error = register_self(server, connection);
    if (error != 0)
        return error;            /* it stands by, or has not missed this server yet */
    server_forget_marks(server); /* what was published meanwhile they do not know */
    error = report_chunks(server, connection);
    if (error != 0)
        return error;
    server->questions = questions;
    error = be_attended(server, connection);
    server->questions = NULL;
    return error;
}

/* Join a master. @return an error */
static int join_once(struct space_server *server, const char *master)
{
    const struct tarn_rpc_service service = {.methods = orders, .count = SPACE_ORDERS, .arg = server};
    const struct tarn_rpc_connect_options attended = {.way = TARN_RPC_REPLY,
                                                      .calls = 1,
                                                      .request_bytes = SPACE_SERVER_MAX,
                                                      .result_bytes = SPACE_SERVER_MAX,
                                                      .calls_back = ORDERS,
                                                      .service = &service};
    static const struct tarn_rpc_connect_options asking = {.calls = QUESTIONS};
    struct tarn_rpc_connection *connection, *questions;
    const uint64_t deadline_ns = task_now() + CONNECT_NS;
    int error = tarn_rpc_connect(server->fabric, master, &asking, deadline_ns, &questions);
    if (error != 0)
        return error;
    error = tarn_rpc_connect(server->fabric, master, &attended, deadline_ns, &connection);
    if (error == 0) {
        error = serve_master(server, connection, questions);
        tarn_rpc_disconnect(connection);
    }
    while (server->questioners > 0)
        task_yield();
    tarn_rpc_disconnect(questions);
    return error;
}

void server_join_task(void *arg)
{
    struct space_server *server = arg;
    char master[SPACE_ADDRESS_MAX + 1];
    int told = 0;
    while (space_address_at(server->masters, server->turn, master) && !task_cancelled()) {
        int error = join_once(server, master);
        server->turn++;
        if (error == -EHOSTDOWN) /* it stands by for another one */
            error = told;
        if (error != told && !task_cancelled())
            base_warn(&server->node->log, "a memory server is not with its master, and tries again",
                      "server=%s master=%s reason=\"%s\"", server->name, master, strerror(-error));
        told = error;
        (void)task_sleep(PAUSE_NS);
    }
}

void server_watch_task(void *arg)
{
    struct space_server *server = arg;
    while (!task_cancelled()) {
        if (server->attended != NULL && task_now() - server->heard_ns > server->lease_ns)
            fabric_connection_end(rpc_fabric_connection(server->attended), "its master is silent",
                                  -ETIMEDOUT);
        (void)task_sleep(server->lease_ns / LOOKS);
    }
}
