/* Copying a chunk of another memory server, as a client of it: the order COPY. */
#include "space/server.h"
#include <errno.h>

#define PART_BYTES (UINT64_C(256) << 10) /* of one READ */
#define PARTS      4                     /* READs at once */

/* READ some parts into a buffer, and write them into a chunk. @param at  where they begin; moved on */
static int copy_parts(struct tarn_fabric_connection *connection, const struct tarn_fabric_handle *from,
                      struct server_chunk *chunk, uint8_t *buffer, uint64_t *at, uint64_t deadline_ns)
{
    struct tarn_fabric_op ops[PARTS];
    struct iovec iovs[PARTS];
    uint32_t count = 0;
    uint64_t bytes = 0;
    for (; count < PARTS && *at + bytes < from->bytes; count++) {
        iovs[count] = (struct iovec){.iov_base = buffer + bytes,
                                     .iov_len = base_min(from->bytes - *at - bytes, PART_BYTES)};
        ops[count] = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                             .handle = from,
                                             .offset = *at + bytes,
                                             .iov = &iovs[count],
                                             .iov_count = 1};
        bytes += iovs[count].iov_len;
    }
    tarn_fabric_post(connection, ops, count);
    int error = tarn_fabric_wait(ops, count, deadline_ns);
    if (error == 0)
        tarn_fabric_mem_copy_in(chunk->memory, *at, buffer, bytes);
    *at += bytes;
    return error;
}

/* Whether a chunk may still be written for the master that wants it: no other one may have given it to somebody. */
static bool is_wanted(const struct space_server *server, const struct server_chunk *chunk,
                      const struct space_hello *hello)
{
    return server->attended != NULL && tarn_rpc_error(server->attended) == 0 && chunk->space != NULL &&
           chunk->space->number == hello->space_namespace;
}

/* Copy a chunk over a connection. */
static int copy_all(const struct space_server *server, struct server_chunk *chunk,
                    const struct space_hello *hello, struct tarn_fabric_connection *connection,
                    const struct tarn_fabric_handle *from, uint64_t deadline_ns)
{
    struct base_account *account = &server->node->memory;
    uint8_t *buffer = base_alloc(account, PARTS * PART_BYTES);
    int error = buffer == NULL ? -ENOMEM : 0;
    for (uint64_t at = 0; at < from->bytes && error == 0;) {
        error = copy_parts(connection, from, chunk, buffer, &at, deadline_ns);
        if (error == 0 && !is_wanted(server, chunk, hello))
            error = -ESHUTDOWN;
    }
    base_free(account, buffer, PARTS * PART_BYTES);
    return error;
}

int server_copy(struct space_server *server, uint32_t number, const struct space_hello *hello,
                const struct tarn_fabric_handle *from, const char *address, uint64_t deadline_ns)
{
    struct server_chunk *chunk = number < server->chunk_count ? &server->chunks[number] : NULL;
    uint8_t data[SPACE_HELLO_BYTES];
    const struct tarn_fabric_connect_options options = {
        .data = data, .data_bytes = sizeof(data), .messages_are_rare = true};
    struct tarn_fabric_domain *domain;
    struct tarn_fabric_connection *connection;
    if (chunk == NULL || !is_wanted(server, chunk, hello))
        return -EINVAL;
    int error = tarn_fabric_domain_open(server->fabric, NULL, &domain);
    if (error != 0)
        return error;
    space_hello_save(hello, data);
    error = tarn_fabric_connect(domain, address, &options, deadline_ns, &connection);
    if (error == 0) {
        error = copy_all(server, chunk, hello, connection, from, deadline_ns);
        tarn_fabric_disconnect(connection);
    }
    tarn_fabric_domain_close(domain);
    return error;
}
