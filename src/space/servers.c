/*
 * Memory servers, as the master deals with them: they register, report their chunks, and are attended: a call that lasts as
 * long as the connection does, in which the master gives its orders.
 */
#include "space/master.h"
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>

#define BEATS      4                     /* pings, in a lease */
#define FENCE_NS   (20 * BASE_NS_PER_MS) /* between two orders to fence, where peers are still there */
#define CHUNKS_MAX (UINT32_C(1) << 24)   /* the most chunks of a server */
#define FENCE_MAX  ((SPACE_SERVER_MAX - 8) / SPACE_SESSION_BYTES)
#define LEAVE_MAX  ((SPACE_SERVER_MAX - 8) / 4)

/* ---- orders ------------------------------------------------------------------------------------- */

/* @param ret_bytes  of the result */
static int call_server(struct master_server *server, enum space_order order, const void *data, uint32_t bytes,
                       void *result, uint32_t room, uint64_t deadline_ns, uint32_t *ret_bytes)
{
    struct tarn_rpc_call call = {.method = (uint32_t)order,
                                 .request = data,
                                 .request_bytes = bytes,
                                 .result = result,
                                 .room = room,
                                 .deadline_ns = deadline_ns};
    if (server->connection == NULL)
        return -ENOTCONN;
    server->calls++;
    int error = tarn_rpc_call(server->connection, &call);
    server->calls--;
    *ret_bytes = call.result_bytes;
    return error;
}

int master_order(struct master_server *server, enum space_order order, const void *data, uint32_t bytes,
                 void *result, uint32_t room, uint64_t deadline_ns)
{
    uint32_t result_bytes;
    int error = call_server(server, order, data, bytes, result, room, deadline_ns, &result_bytes);
    return error == 0 && result_bytes != room ? -EPROTO : error;
}

void master_poke_servers(struct space_master *master)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        if (master->servers[slot] != NULL)
            task_semaphore_post(&master->servers[slot]->work);
    }
}

bool master_is_unfenced(const struct master_server *server, uint32_t space_number)
{
    for (uint32_t i = 0; i < server->unfenced_count; i++) {
        if (server->unfenced[i] == space_number)
            return true;
    }
    return false;
}

bool master_have_fenced(const struct space_master *master, uint64_t expiry, const struct master_space *space)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        const struct master_server *server = master->servers[slot];
        if (server != NULL && server->connection != NULL &&
            (server->fenced < expiry || master_is_unfenced(server, space->number)))
            return false;
    }
    return true;
}

/* ---- registering, reporting --------------------------------------------------------------------- */

static struct master_server *server_of_identity(const struct space_master *master, const uint8_t *identity)
{
    for (uint32_t slot = 0; slot < master->slots; slot++) {
        struct master_server *server = master->servers[slot];
        if (server != NULL && memcmp(server->identity, identity, SPACE_IDENTITY_BYTES) == 0)
            return server;
    }
    return NULL;
}

bool master_knows_secret(const struct space_master *master, const void *secret, size_t bytes)
{
    return bytes == master->secret_bytes && CRYPTO_memcmp(secret, master->secret, bytes) == 0;
}

/* What a memory server says of itself. */
struct registration {
    uint8_t identity[SPACE_IDENTITY_BYTES];
    uint64_t chunk_bytes;
    uint32_t chunks;
    char name[TARN_SPACE_NAME_MAX + 1];
    char address[SPACE_ADDRESS_MAX + 1];
};

/* @return 0; -EINVAL; -EACCES: it does not know the secret */
static int load_registration(const struct space_master *master, const struct tarn_rpc_request *request,
                             struct registration *ret_registration)
{
    struct space_cursor cursor = space_cursor_from(request->data, request->bytes);
    const void *identity = space_take_bytes(&cursor, SPACE_IDENTITY_BYTES);
    ret_registration->chunk_bytes = space_take(&cursor, 8);
    ret_registration->chunks = (uint32_t)space_take(&cursor, 4);
    const size_t secret_bytes = space_take(&cursor, 2), name = space_take(&cursor, 2),
                 address = space_take(&cursor, 2);
    space_take_zeros(&cursor, 6);
    const void *secret = space_take_bytes(&cursor, secret_bytes);
    if (!space_take_name(&cursor, name, ret_registration->name) ||
        !space_take_text(&cursor, address, ret_registration->address, SPACE_ADDRESS_MAX) ||
        !space_cursor_is_done(&cursor) || ret_registration->chunks == 0 ||
        ret_registration->chunks > CHUNKS_MAX)
        return -EINVAL;
    memcpy(ret_registration->identity, identity, SPACE_IDENTITY_BYTES);
    return master_knows_secret(master, secret, secret_bytes) ? 0 : -EACCES;
}

int master_forget(struct space_master *master, struct master_server *server)
{
    struct master_set set;
    master_set_init(&set);
    master_forget_server(master, &set, server);
    int error = master_store(master, &set);
    if (error == 0) {
        master->lost_view = ++master->view; /* its process may live on somewhere */
        master->must_mend = true;
        task_semaphore_post(&master->mend);
        master_server_unsort(master, server);
        master_server_free(master, server);
    }
    return error;
}

/* Forget a server whose memory is gone: one of its name has come with other memory. */
static int replace_server(struct space_master *master, struct master_server *server)
{
    if (server->connection != NULL)
        return -EEXIST;
    base_warn(&master->node->log, "memory of a space is lost", "server=%s number=%" PRIu32, server->name,
              server->number);
    return master_forget(master, server);
}

static int add_server(struct space_master *master, const struct registration *registration,
                      struct master_server **ret_server)
{
    struct master_server *server = master_server_make(master, master->next_server, registration->chunks);
    struct master_set set;
    if (server == NULL)
        return -ENOMEM;
    master->next_server++;
    memcpy(server->identity, registration->identity, SPACE_IDENTITY_BYTES);
    memcpy(server->name, registration->name, sizeof(server->name));
    memcpy(server->address, registration->address, sizeof(server->address));
    master_set_init(&set);
    master_save_config(master, &set);
    master_save_server(master, &set, server);
    int error = master_store(master, &set);
    if (error != 0)
        master_server_free(master, server);
    else
        *ret_server = server;
    return error;
}

int master_register(struct space_master *master, struct tarn_rpc_request *request)
{
    struct registration registration;
    int error = load_registration(master, request, &registration);
    if (error != 0)
        return error;
    if (registration.chunk_bytes != master->chunk_bytes) {
        base_error(&master->node->log, "refused a memory server",
                   "server=%s reason=\"its chunks have %" PRIu64 " bytes, those of this space %" PRIu64 "\"",
                   registration.name, registration.chunk_bytes, master->chunk_bytes);
        return -EMSGSIZE;
    }
    struct master_server *server = server_of_identity(master, registration.identity);
    struct master_server *same = server == NULL ? master_server_named(master, registration.name) : NULL;
    if (server != NULL && (server->connection != NULL || server->chunk_count != registration.chunks))
        return server->connection != NULL ? -EBUSY : -EINVAL;
    if (same != NULL)
        error = replace_server(master, same);
    if (error == 0 && server == NULL)
        error = add_server(master, &registration, &server);
    if (error != 0)
        return error;
    memcpy(server->address, registration.address, sizeof(server->address));
    server->reporting = request->connection;
    struct space_cursor cursor = space_cursor_to(request->result, request->room);
    space_put(&cursor, server->number, 4);
    space_put(&cursor, master->lease_ns / BASE_NS_PER_MS, 4);
    space_put(&cursor, master->chunk_bytes, 8);
    request->result_bytes = (uint32_t)space_cursor_count(&cursor, request->result);
    return cursor.is_wrong ? -EMSGSIZE : 0;
}

/* The server that has registered over a connection, and that names itself at the beginning of a request. */
static struct master_server *server_of_request(const struct space_master *master, struct space_cursor *cursor)
{
    const uint8_t *identity = space_take_bytes(cursor, SPACE_IDENTITY_BYTES);
    return identity == NULL ? NULL : server_of_identity(master, identity);
}

/* Note a chunk as its server reports it. @return false: it is in a region of another namespace */
static bool note_chunk(struct master_chunk *chunk, uint32_t space_number, const struct space_keys *keys)
{
    if (chunk->region_number != 0 && space_number != chunk->region_space)
        return false;
    chunk->space_number = space_number;
    chunk->keys = *keys;
    chunk->is_leaving = false;
    return true;
}

int master_report(struct space_master *master, struct tarn_rpc_request *request)
{
    struct space_cursor cursor = space_cursor_from(request->data, request->bytes);
    struct master_server *server = server_of_request(master, &cursor);
    const uint32_t first = (uint32_t)space_take(&cursor, 4), count = (uint32_t)space_take(&cursor, 4);
    if (server == NULL || server->reporting != request->connection || server->connection != NULL ||
        cursor.is_wrong || first > server->chunk_count || count > server->chunk_count - first)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t space_number = (uint32_t)space_take(&cursor, 4);
        struct space_keys keys;
        space_take_zeros(&cursor, 4);
        space_take_keys(&cursor, &keys);
        if (cursor.is_wrong)
            return -EINVAL;
        if (!note_chunk(&server->chunks[first + i], space_number, &keys)) {
            base_error(&master->node->log, "a memory server's chunk is not of its region's namespace",
                       "server=%s chunk=%" PRIu32 " region=%" PRIu32, server->name, first + i,
                       server->chunks[first + i].region_number);
            return -EUCLEAN;
        }
    }
    return space_cursor_is_done(&cursor) ? 0 : -EINVAL;
}

/* ---- attending ---------------------------------------------------------------------------------- */

/* Write a part of the order to end the connections of all sessions but the live ones. The parts go through the sessions from
 * the last to the first, so that those that end in between make none be left out. @return its bytes */
static uint32_t put_live_sessions(const struct space_master *master, uint8_t *request, uint32_t flags,
                                  uint32_t *left)
{
    struct space_cursor cursor = space_cursor_to(request, SPACE_SERVER_MAX);
    uint32_t count = 0;
    *left = base_min(*left, master->sessions.count);
    space_put(&cursor, 0, 8);
    for (; *left > 0 && count < FENCE_MAX; (*left)--) {
        const struct master_session *session = master->sessions.items[*left - 1];
        if (session->expiry != 0 || session->is_resuming)
            continue;
        space_put_bytes(&cursor, session->id, SPACE_SESSION_BYTES);
        count++;
    }
    base_store_le32(request, count);
    base_store_le32(request + 4, flags | (*left == 0 ? SPACE_FENCE_LAST : 0));
    return (uint32_t)space_cursor_count(&cursor, request);
}

/* Note in which namespaces peers are not fenced yet. */
static void note_unfenced(struct space_master *master, struct master_server *server, const uint8_t *result,
                          uint32_t bytes)
{
    struct space_cursor cursor = space_cursor_from(result, bytes);
    server->unfenced_count = 0;
    while (!space_cursor_is_done(&cursor) && !cursor.is_wrong) {
        const uint32_t number = (uint32_t)space_take(&cursor, 4);
        if (!master_is_unfenced(server, number))
            server->unfenced[server->unfenced_count++] = number;
    }
    if (server->is_live)
        master_server_sort_waiting(master, server);
    else
        master_server_sort(master, server);
    task_semaphore_post(&master->reap);
}

/* Have a server fence all sessions but the live ones. */
static int fence_others(struct space_master *master, struct master_server *server, uint64_t deadline_ns)
{
    struct base_account *account = &master->node->memory;
    const uint64_t expiries = master->expiries;
    uint8_t *request = base_alloc(account, SPACE_SERVER_MAX), result[4 * MASTER_UNFENCED_MAX];
    uint32_t bytes = 0, left = UINT32_MAX, flags = SPACE_FENCE_FIRST;
    int error = request == NULL ? -ENOMEM : 0;
    while (error == 0 && left > 0) {
        const uint32_t request_bytes = put_live_sessions(master, request, flags, &left);
        error = call_server(server, SPACE_FENCE, request, request_bytes, result, sizeof(result), deadline_ns,
                            &bytes);
        flags = 0;
    }
    base_free(account, request, SPACE_SERVER_MAX);
    if (error == 0 && bytes % 4 == 0) {
        server->fenced = expiries;
        note_unfenced(master, server, result, bytes);
    }
    return error;
}

/* Have a server unassign some of the chunks that leave their namespaces. */
static int unassign_some(struct space_master *master, struct master_server *server, uint64_t deadline_ns)
{
    struct base_account *account = &master->node->memory;
    uint32_t *chunks = base_alloc(account, SPACE_SERVER_MAX);
    uint32_t count = 0;
    if (chunks == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < server->chunk_count && count < LEAVE_MAX; i++) {
        if (server->chunks[i].is_leaving)
            base_store_le32((uint8_t *)&chunks[2 + count++], i);
    }
    base_store_le32((uint8_t *)&chunks[0], 0);
    base_store_le32((uint8_t *)&chunks[1], count);
    int error = master_order(server, SPACE_UNASSIGN, chunks, 8 + 4 * count, NULL, 0, deadline_ns);
    for (uint32_t i = 0; i < count && error == 0; i++) {
        const uint32_t chunk = base_load_le32((const uint8_t *)&chunks[2 + i]);
        server->leaving--;
        server->chunks[chunk].space_number = 0;
        master_chunk_place(master, server, chunk);
    }
    base_free(account, chunks, SPACE_SERVER_MAX);
    return error;
}

/* Ask a server whether it is there, and what it has to tell of itself. */
static int ping_server(struct master_server *server, uint64_t deadline_ns)
{
    uint8_t told[SPACE_PING_BYTES];
    int error = master_order(server, SPACE_PING, NULL, 0, told, sizeof(told), deadline_ns);
    if (error != 0)
        return error;
    struct space_cursor cursor = space_cursor_from(told, sizeof(told));
    server->dirty_count = (uint32_t)space_take(&cursor, 4);
    server->client_count = (uint32_t)space_take(&cursor, 4);
    server->refused_count = space_take(&cursor, 8);
    return 0;
}

/* Do one thing for a server, or wait until there is one. @return an error of the connection's */
static int attend_once(struct space_master *master, struct master_server *server)
{
    const uint64_t now = task_now(), deadline_ns = now + master->lease_ns;
    int error = 0;
    if (server->must_report)
        return -ESTALE;
    if (!server->is_marked) {
        error = master_mark_all(master, server, deadline_ns);
        server->is_marked = error == 0;
        server->distrust = error == 0 ? 0 : server->distrust;
    } else if (server->leaving > 0) {
        error = unassign_some(master, server, deadline_ns);
        task_semaphore_post(&master->reap); /* they may be the last ones of a namespace that was deleted */
        master_tally(master);
    } else if (master->grace_end_ns == 0 && (server->fenced < master->expiries || !server->is_live)) {
        error = fence_others(master, server, deadline_ns);
        master_tally(master);
    } else if (server->unfenced_count > 0) { /* it is asked again before long */
        error = task_sleep(FENCE_NS);
        if (error == 0)
            error = fence_others(master, server, deadline_ns);
    } else if (task_semaphore_wait(&server->work, now + master->lease_ns / BEATS) != 0) {
        error = ping_server(server, deadline_ns);
    }
    return error;
}

int master_attend(struct space_master *master, struct tarn_rpc_request *request)
{
    struct space_cursor cursor = space_cursor_from(request->data, request->bytes);
    struct master_server *server = server_of_request(master, &cursor);
    int error = 0;
    if (server == NULL || server->reporting != request->connection || server->connection != NULL ||
        !space_cursor_is_done(&cursor))
        return -EINVAL;
    server->reporting = NULL;
    server->connection = request->connection;
    server->must_report = false;
    server->is_marked = false;
    server->fenced = 0;
    server->unfenced_count = 0;
    task_semaphore_post(&master->mend);
    base_info(&master->node->log, "a memory server has come", "server=%s chunks=%" PRIu32, server->name,
              server->chunk_count);
    while (error == 0 && master->failed == 0)
        error = attend_once(master, server);
    master_server_unsort(master, server);
    master_tally(master);
    while (server->calls > 0)
        (void)task_sleep(BASE_NS_PER_MS); /* they end: the connection has, or they have deadlines */
    server->connection = NULL;
    server->given_up_ns = task_now() + MASTER_GIVE_UP * master->lease_ns;
    task_semaphore_post(&master->reap); /* nothing waits for its fences any more */
    base_info(&master->node->log, "a memory server is gone", "server=%s error=%d", server->name, error);
    return -ESHUTDOWN;
}

int master_admit(struct space_master *master, struct tarn_rpc_request *request)
{
    struct space_cursor cursor = space_cursor_from(request->data, request->bytes);
    const struct master_server *server = server_of_request(master, &cursor);
    const uint8_t *id = space_take_bytes(&cursor, SPACE_SESSION_BYTES);
    const uint32_t number = (uint32_t)space_take(&cursor, 4);
    space_take_zeros(&cursor, 4);
    if (server == NULL || !space_cursor_is_done(&cursor))
        return -EINVAL;
    const struct master_session *session = master_session_of(master, id);
    const struct master_space *space = master_space_of(master, number);
    int error = 0;
    if (session == NULL || session->is_resuming)
        error = -ESTALE; /* another master may have known it */
    else if (space == NULL || !master_list_has(&session->spaces, space))
        error = -EACCES;
    if (error != 0)
        atomic_fetch_add(&master->counts[MASTER_SESSIONS], 1);
    return error;
}

int master_await_grace(const struct space_master *master, uint64_t deadline_ns)
{
    while (master->grace_end_ns != 0 && master->failed == 0) {
        int error = task_sleep_until(base_min(master->grace_end_ns, task_now() + 10 * BASE_NS_PER_MS));
        if (error != 0)
            return error;
        if (task_now() >= deadline_ns)
            return -EINPROGRESS;
    }
    return master->failed == 0 ? 0 : -ESHUTDOWN;
}
