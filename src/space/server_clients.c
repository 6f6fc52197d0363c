/* The clients of a memory server: each is admitted by the master, connected with the domain of one namespace, and fenced at
 * its end. */
#include "fabric/fabric.h"
#include "space/server.h"
#include <errno.h>
#include <string.h>

#define ROOM 64 /* bytes of a message, of which clients send none */

static void refuse_client(struct server_client *client, int error)
{
    atomic_fetch_add(&client->server->refused, 1); /* before the client learns of it */
    tarn_fabric_reject(client->incoming, error);
    client->incoming = NULL;
}

/* Connect a client with the domain of its namespace, if the master says that it has joined that. */
static int admit_client(struct server_client *client)
{
    static const struct tarn_fabric_connect_options options = {
        .receive_count = 1, .receive_bytes = ROOM, .messages_are_rare = true};
    struct space_server *server = client->server;
    const void *data;
    const uint32_t bytes = tarn_fabric_incoming_data(client->incoming, &data);
    int error = space_hello_load(data, bytes, &client->hello);
    if (error == 0 && memcmp(client->hello.identity, server->identity, SPACE_IDENTITY_BYTES) != 0)
        error = -ENXIO; /* it looks for memory that was here before */
    if (error == 0)
        error = server_ask_admission(server, &client->hello);
    if (error == 0 && client->is_fenced)
        error = -EACCES; /* its session has ended meanwhile */
    if (error == 0)
        error = server_space_get(server, client->hello.space_namespace, &client->space);
    if (error != 0) {
        refuse_client(client, error);
        return error;
    }
    error = tarn_fabric_accept(client->incoming, client->space->domain, &options, &client->connection);
    client->incoming = NULL;
    return error;
}

/* Wait for the end of a client's connection, and until it cannot write here any more. */
static void attend_client(const struct server_client *client)
{
    uint8_t message[ROOM];
    struct tarn_fabric_message received;
    int error;
    if (!client->is_fenced &&
        tarn_fabric_receive(client->connection, message, sizeof(message), TARN_FOREVER, &received) == 0)
        fabric_connection_end(client->connection, "a message that nobody expects", -EPROTO);
    do
        error = tarn_fabric_fence(client->connection, TARN_FOREVER);
    while (error != 0 && error != -ECANCELED);
}

static void serve_client(void *arg)
{
    struct server_client *client = arg;
    struct space_server *server = client->server;
    if (admit_client(client) == 0) {
        atomic_fetch_add(&server->client_count, 1);
        attend_client(client);
        struct tarn_fabric_connection *connection = client->connection;
        client->connection = NULL; /* an order to fence may come while it is taken down */
        tarn_fabric_disconnect(connection);
        atomic_fetch_sub(&server->client_count, 1);
    }
    if (client->space != NULL)
        server_space_put(client->space);
    base_list_remove(&client->link);
    base_free(&server->node->memory, client, sizeof(*client));
}

/* Have a task serve a client that has come. */
static void take_client(struct space_server *server, struct tarn_fabric_incoming *incoming)
{
    struct server_client *client = base_alloc(&server->node->memory, sizeof(*client));
    if (client == NULL) {
        tarn_fabric_reject(incoming, -ENOMEM);
        return;
    }
    client->server = server;
    client->incoming = incoming;
    base_list_push_back(&server->clients, &client->link);
    int error = task_spawn(NULL, &server->group, "space-client", serve_client, client);
    if (error == 0)
        return;
    refuse_client(client, error);
    base_list_remove(&client->link);
    base_free(&server->node->memory, client, sizeof(*client));
}

void server_accept_task(void *arg)
{
    struct space_server *server = arg;
    struct tarn_fabric_incoming *incoming;
    while (tarn_fabric_listener_wait(server->listener, TARN_FOREVER, &incoming) == 0)
        take_client(server, incoming);
}

static bool is_among(const uint8_t *id, const uint8_t *sessions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (memcmp(id, sessions + i * SPACE_SESSION_BYTES, SPACE_SESSION_BYTES) == 0)
            return true;
    }
    return false;
}

void server_suspect_all(struct space_server *server)
{
    base_list_for_each(at, &server->clients)
        base_container_of(at, struct server_client, link)->is_suspect = true;
}

void server_trust(struct space_server *server, const uint8_t *sessions, uint32_t count)
{
    base_list_for_each(at, &server->clients) {
        struct server_client *client = base_container_of(at, struct server_client, link);
        if (client->is_suspect && is_among(client->hello.session, sessions, count))
            client->is_suspect = false;
    }
}

void server_fence_suspects(struct space_server *server, struct space_cursor *ret_spaces)
{
    base_list_for_each(at, &server->clients) {
        struct server_client *client = base_container_of(at, struct server_client, link);
        if (!client->is_suspect)
            continue;
        client->is_fenced = true;
        if (client->connection != NULL)
            fabric_connection_end(client->connection, "the session has ended", -ECONNABORTED);
        if (client->space != NULL) /* else it is not admitted any more */
            client->space->is_unfenced = true;
    }
    base_list_for_each(at, &server->spaces) {
        struct server_space *space = base_container_of(at, struct server_space, link);
        if (space->is_unfenced)
            space_put(ret_spaces, space->number, 4);
        space->is_unfenced = false;
    }
}
