/*
 * Gets past the server, in Pilaf's way: a READ of the bucket and one of the record, which proves itself whole. Puts are
 * calls. A request under way is moved on by what it waits for, while others are under way.
 *
 * Source: Mitchell, Geng, Li, Using One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value Store, ATC 2013.
 */
#include "bench/world.h"
#include "cache/cache.h"
#include "lab/cache.h"
#include <errno.h>
#include <tarn/rpc.h>

enum { READ_ROOM = 256 }; /* for a bucket, or for a record of these keys and values */

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)

struct slot {
    bool is_under_way;
    struct lab_cache_request request;
    struct cache_remote_get get;
    struct tarn_fabric_op op;
    struct iovec iov;
    _Alignas(8) uint8_t data[READ_ROOM];
    struct tarn_rpc_call call; /* of a put */
    uint8_t bytes[LAB_CACHE_PUT_BYTES];
};

struct client {
    struct lab_cache_job *job;
    struct lab_cache_load load;
    struct tarn_node *node;
    struct tarn_fabric_connection *memory;
    struct tarn_rpc_connection *puts;
    struct tarn_fabric_handle handle;
    struct cache_remote remote;
    struct slot *slots;
    uint32_t count; /* of slots */
};

/* ---- a request under way ------------------------------------------------------------------------ */

/* READ what the get wants next. @return 0; -EPROTO: no record of ours is so long */
static int post_read(struct client *client, struct slot *slot)
{
    if (slot->get.bytes > sizeof(slot->data))
        return -EPROTO;
    slot->iov = (struct iovec){.iov_base = slot->data, .iov_len = (size_t)slot->get.bytes};
    slot->op = (struct tarn_fabric_op){.kind = TARN_FABRIC_READ,
                                       .handle = &client->handle,
                                       .offset = slot->get.offset,
                                       .iov = &slot->iov,
                                       .iov_count = 1};
    tarn_fabric_post(client->memory, &slot->op, 1);
    client->load.reads++;
    slot->is_under_way = true;
    return 0;
}

static void post_put(struct client *client, struct slot *slot)
{
    memcpy(slot->bytes, slot->request.keys[0], BENCH_KEY_BYTES);
    memcpy(slot->bytes + BENCH_KEY_BYTES, slot->request.value, LAB_CACHE_VALUE_BYTES);
    slot->call = (struct tarn_rpc_call){.request = slot->bytes, .request_bytes = sizeof(slot->bytes)};
    tarn_rpc_post(client->puts, &slot->call, 1);
    slot->is_under_way = true;
}

/* Begin the next request, if there is one. */
static int begin_request(struct client *client, struct slot *slot)
{
    if (!lab_cache_load_next(&client->load, &slot->request))
        return 0;
    if (slot->request.is_put) {
        post_put(client, slot);
        return 0;
    }
    int error = cache_remote_begin(&slot->get, &client->remote, slot->request.keys[0], BENCH_KEY_BYTES);
    return error != 0 ? error : post_read(client, slot);
}

/* Take what it waits for. @return 0: the request is over; -EINPROGRESS: it wants another READ */
static int take_read(struct client *client, struct slot *slot)
{
    struct tarn_record_info info = {0};
    const void *value = NULL;
    slot->is_under_way = false;
    if (slot->request.is_put) {
        int error = tarn_rpc_wait(client->puts, &slot->call, 1);
        client->load.puts += error == 0 ? 1 : 0;
        return error;
    }
    int error = tarn_fabric_wait(&slot->op, 1, TARN_FOREVER);
    if (error == 0)
        error = cache_remote_take(&slot->get, slot->data, task_wall(client->node), &value, &info);
    if (error == -EAGAIN)
        return -EINPROGRESS;
    return error != 0 && error != -ENOENT
               ? error
               : lab_cache_load_take(&client->load, slot->request.numbers[0], value, info.value_bytes);
}

/* One after the other is moved on, until none is under way. */
static int ask_all(struct client *client)
{
    const uint32_t count = client->count;
    int error = 0;
    lab_cache_load_begin(&client->load, client->job);
    client->load.per_get = 1; /* each is alone, and more are under way */
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = begin_request(client, &client->slots[i]);
    for (uint32_t next = 0, idle = 0; idle < count; next = (next + 1) % count) {
        struct slot *slot = &client->slots[next];
        idle = slot->is_under_way ? 0 : idle + 1;
        if (!slot->is_under_way)
            continue;
        int result = take_read(client, slot);
        if (result == -EINPROGRESS)
            result = error == 0 ? post_read(client, slot) : 0;
        else if (result == 0 && error == 0)
            result = begin_request(client, slot);
        error = error != 0 ? error : result;
    }
    return error;
}

/* ---- a measurement ------------------------------------------------------------------------------ */

/* The memory, and what its beginning tells. */
static int connect_memory(struct client *client, struct tarn_fabric_domain *domain)
{
    uint8_t header[CACHE_REMOTE_HEADER_BYTES];
    const void *handle;
    char address[128];
    (void)snprintf(address, sizeof(address), "%s" LAB_CACHE_MEMORY, client->job->server->server.address);
    int error = tarn_fabric_connect(domain, address, NULL, task_now() + PATIENCE_NS, &client->memory);
    if (error != 0)
        return error;
    if (tarn_fabric_peer_data(client->memory, &handle) != TARN_FABRIC_HANDLE_BYTES ||
        tarn_fabric_handle_load(handle, &client->handle) != 0)
        return -EPROTO;
    error = tarn_fabric_read(client->memory, 0, &client->handle, 0, header, sizeof(header),
                             task_now() + PATIENCE_NS);
    return error != 0 ? error : cache_remote_open(header, client->handle.bytes, &client->remote);
}

static int connect_puts(struct client *client, struct tarn_fabric *fabric)
{
    const struct tarn_rpc_connect_options options = {.calls = LAB_CACHE_REQUESTS_MAX};
    char address[128];
    (void)snprintf(address, sizeof(address), "%s" LAB_CACHE_PUTS, client->job->server->server.address);
    return tarn_rpc_connect(fabric, address, &options, task_now() + PATIENCE_NS, &client->puts);
}

static int connect_and_ask(struct client *client, struct tarn_fabric *fabric)
{
    struct tarn_fabric_domain *domain;
    int error = tarn_fabric_domain_open(fabric, NULL, &domain);
    if (error != 0)
        return error;
    error = connect_memory(client, domain);
    if (error == 0)
        error = connect_puts(client, fabric);
    if (error == 0)
        error = ask_all(client);
    if (client->puts != NULL)
        tarn_rpc_disconnect(client->puts);
    if (client->memory != NULL)
        tarn_fabric_disconnect(client->memory);
    tarn_fabric_domain_close(domain);
    return error;
}

static int run_client(void *arg, struct tarn_node *node, struct tarn_fabric *fabric)
{
    struct client *client = arg;
    const size_t bytes = client->count * sizeof(*client->slots);
    client->node = node;
    client->slots = base_alloc(&node->memory, bytes);
    int error = client->slots == NULL ? -ENOMEM : connect_and_ask(client, fabric);
    base_free(&node->memory, client->slots, bytes);
    return error;
}

int lab_cache_bypass(void *arg, struct bench_sample *sample)
{
    struct lab_cache_job *job = arg;
    struct client client = {.job = job, .count = job->depth * job->per_get};
    int error = lab_client_run(job->bench, job->server->server.url, run_client, &client);
    job->measured++;
    return error != 0 ? error : lab_cache_load_end(&client.load, sample);
}
