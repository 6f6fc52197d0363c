/* Puts of values that lie in a client's memory: the server READs them piece by piece and stores them as they come. */
#include "kv/service.h"
#include <errno.h>
#include <stdatomic.h>

#define KV_TAG 2 /* the tag under which the fabric counts these READs */

int kv_region_read(const struct tarn_rpc_request *exchange, const struct tarn_fabric_handle *handle,
                   uint64_t offset, void *data, uint64_t bytes, uint64_t deadline_ns)
{
    return tarn_fabric_read(rpc_fabric_connection(exchange->connection), KV_TAG, handle, offset, data, bytes,
                            deadline_ns);
}

/* The time at which all of a value must have been read: a slower client would keep a place from others. */
static uint64_t end_of(const struct tarn_rpc_request *exchange, uint64_t bytes)
{
    const uint64_t end_ns = task_now() + KV_PIECE_NS + bytes / KV_SECOND_BYTES * BASE_NS_PER_SECOND;
    return base_min(end_ns, exchange->deadline_ns);
}

/* Whether a put that began at a moment is so slow that others, who wait for a place, shall have its place. */
static bool holds_up_others(struct kv_server *server, uint64_t begin_ns, uint64_t done)
{
    const uint64_t elapsed_ns = task_now() - begin_ns;
    return atomic_load(&server->region_calls) > KV_REGIONS_MAX && elapsed_ns > server->region_grace_ns &&
           done < (elapsed_ns - server->region_grace_ns) / BASE_NS_PER_MS * (KV_RATE / 1000);
}

/* READ a value piece by piece and write it to the store. @param piece  memory of KV_PIECE_BYTES */
static int copy_region(struct kv_server *server, const struct kv_request *request,
                       const struct tarn_rpc_request *exchange, uint8_t *piece, struct tarn_kv_writer *writer)
{
    const uint64_t begin_ns = task_now(), end_ns = end_of(exchange, request->region_bytes);
    int error = 0;
    for (uint64_t done = 0; done < request->region_bytes && error == 0;) {
        if (holds_up_others(server, begin_ns, done))
            return -ETIMEDOUT;
        const uint64_t bytes = base_min(request->region_bytes - done, (uint64_t)KV_PIECE_BYTES);
        error = server->read(exchange, &request->handle, request->offset + done, piece, bytes,
                             base_min(end_ns, task_now() + KV_PIECE_NS));
        if (error == 0)
            error = tarn_kv_writer_write(writer, piece, bytes);
        done += bytes;
    }
    if (error == 0)
        error = tarn_kv_writer_write(writer, request->value, request->amount);
    return error;
}

/* Carry out a put. Called by a task that has a place. */
static int put_region(struct kv_server *server, struct tarn_kv *kv, const struct kv_request *request,
                      const struct tarn_rpc_request *exchange, uint64_t *ret_version)
{
    struct base_account *account = &server->node->memory;
    struct tarn_kv_writer *writer;
    int error = tarn_kv_writer_open(kv, request->key, request->key_len, &request->options,
                                    request->region_bytes + request->amount, &writer);
    if (error != 0)
        return error;
    uint8_t *piece = base_alloc(account, KV_PIECE_BYTES);
    error = piece == NULL ? -ENOMEM : copy_region(server, request, exchange, piece, writer);
    base_free(account, piece, KV_PIECE_BYTES);
    if (error == 0)
        return tarn_kv_writer_commit(writer, ret_version);
    tarn_kv_writer_abort(writer);
    return error;
}

/* Wait for a place, and carry the put out. */
static int put_in_turn(struct kv_server *server, struct tarn_kv *kv, const struct kv_request *request,
                       const struct tarn_rpc_request *exchange, uint64_t *ret_version)
{
    int error = task_semaphore_wait(&server->region_places,
                                    base_min(exchange->deadline_ns, task_now() + KV_PLACE_NS));
    if (error != 0)
        return error == -ETIMEDOUT ? -EBUSY : error;
    error = put_region(server, kv, request, exchange, ret_version);
    task_semaphore_post(&server->region_places);
    return error;
}

int kv_region_answer(struct kv_server *server, struct tarn_kv *kv, const struct kv_request *request,
                     struct tarn_rpc_request *exchange)
{
    uint64_t version;
    int error = -EBUSY;
    if (exchange->room < sizeof(version))
        return -EMSGSIZE;
    if (request->region_bytes > kv->info.value_bytes_max ||
        request->region_bytes + request->amount > kv->info.value_bytes_max)
        return -EMSGSIZE; /* before the wait for a place */
    if (atomic_fetch_add(&server->region_calls, 1) < KV_REGIONS_MAX + KV_REGIONS_WAIT)
        error = put_in_turn(server, kv, request, exchange, &version);
    atomic_fetch_sub(&server->region_calls, 1);
    if (error != 0)
        return error;
    base_store_le64(exchange->result, version);
    exchange->result_bytes = sizeof(version);
    return 0;
}
