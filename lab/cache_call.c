/*
 * The requests of Tarn's client, posted by one plain thread that does nothing besides: what calls alone cost, with
 * results that are fetched (the paper's Jakiro) or written (its ServerReply).
 */
#include "bench/world.h"
#include "kv/wire.h"
#include "lab/cache.h"
#include <errno.h>

enum {
    REQUEST_ROOM = KV_REQUEST_BYTES_MAX + LAB_CACHE_KEYS_MAX * (8 + BENCH_KEY_BYTES),
    RESULT_ROOM = LAB_CACHE_KEYS_MAX * (KV_ITEM_BYTES + LAB_CACHE_VALUE_BYTES),
};

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)

/* A request under way, or none: then it asks for no key. */
struct slot {
    struct tarn_rpc_call call;
    struct lab_cache_request request;
    uint8_t bytes[REQUEST_ROOM];
    uint8_t result[RESULT_ROOM];
};

struct client {
    struct lab_cache_job *job;
    enum tarn_rpc_way way;
    struct lab_cache_load load;
    struct tarn_rpc_connection *connection;
    struct slot *slots; /* of job->depth */
};

/* ---- requests ----------------------------------------------------------------------------------- */

/* Keys of a MULTI_GET. @return its bytes */
static uint32_t save_keys(const struct lab_cache_request *request, uint8_t *to)
{
    const struct kv_request head = {.amount = request->count};
    size_t at = (size_t)kv_request_bytes(KV_MULTI_GET, &head);
    kv_request_save(KV_MULTI_GET, &head, to);
    for (uint32_t i = 0; i < request->count; i++) {
        const struct tarn_get get = {.key = request->keys[i], .key_len = BENCH_KEY_BYTES};
        kv_key_save(&get, LAB_CACHE_VALUE_BYTES, to + at);
        at += kv_key_bytes(BENCH_KEY_BYTES);
    }
    return (uint32_t)at;
}

/* One key: a GET, or a PUT. */
static uint32_t save_key(enum kv_method method, const struct lab_cache_request *request, uint8_t *to)
{
    const struct kv_request one = {.key = request->keys[0],
                                   .key_len = BENCH_KEY_BYTES,
                                   .amount = LAB_CACHE_VALUE_BYTES,
                                   .value = request->value};
    kv_request_save(method, &one, to);
    return (uint32_t)kv_request_bytes(method, &one);
}

static void post_call(struct client *client, struct slot *slot)
{
    const struct lab_cache_request *request = &slot->request;
    const enum kv_method method = request->is_put ? KV_PUT : request->count == 1 ? KV_GET : KV_MULTI_GET;
    slot->call = (struct tarn_rpc_call){
        .method = (uint32_t)method + KV_SHORT,
        .request = slot->bytes,
        .request_bytes =
            method == KV_MULTI_GET ? save_keys(request, slot->bytes) : save_key(method, request, slot->bytes),
        .result = slot->result,
        .room = request->is_put       ? (uint32_t)sizeof(uint64_t)
                : request->count == 1 ? (uint32_t)KV_RECORD_BYTES + LAB_CACHE_VALUE_BYTES
                                      : request->count * (uint32_t)(KV_ITEM_BYTES + LAB_CACHE_VALUE_BYTES)};
    tarn_rpc_post(client->connection, &slot->call, 1);
}

/* ---- answers ------------------------------------------------------------------------------------ */

static int take_one(struct client *client, const struct slot *slot, int error)
{
    struct tarn_record_info info;
    if (error == -ENOENT)
        return lab_cache_load_take(&client->load, slot->request.numbers[0], NULL, 0);
    if (error == 0)
        error = slot->call.result_bytes < KV_RECORD_BYTES ? -EPROTO : kv_record_load(slot->result, &info);
    return error != 0
               ? error
               : lab_cache_load_take(&client->load, slot->request.numbers[0], slot->result + KV_RECORD_BYTES,
                                     slot->call.result_bytes - KV_RECORD_BYTES);
}

static int take_many(struct client *client, const struct slot *slot, int error)
{
    size_t at = 0;
    for (uint32_t i = 0; i < slot->request.count && error == 0; i++) {
        struct kv_item item;
        const size_t bytes = kv_got_load(slot->result + at, slot->call.result_bytes - at, &item);
        if (bytes == 0 || (item.status != 0 && item.status != -ENOENT))
            return -EPROTO;
        error = lab_cache_load_take(&client->load, slot->request.numbers[i],
                                    item.status == 0 ? item.value : NULL, item.bytes);
        at += bytes;
    }
    return error;
}

static int take_answer(struct client *client, struct slot *slot)
{
    int error = tarn_rpc_wait(client->connection, &slot->call, 1);
    if (slot->request.is_put)
        client->load.puts += error == 0 ? 1 : 0;
    else
        error = slot->request.count == 1 ? take_one(client, slot, error) : take_many(client, slot, error);
    return error;
}

/* The oldest is waited for before the next one is posted in its place. */
static int ask_all(struct client *client)
{
    const uint32_t depth = client->job->depth;
    uint32_t posted = 0;
    int error = 0;
    lab_cache_load_begin(&client->load, client->job);
    while (posted < depth && lab_cache_load_next(&client->load, &client->slots[posted].request))
        post_call(client, &client->slots[posted++]);
    for (uint32_t under_way = posted, next = 0; under_way > 0; next = (next + 1) % posted) {
        struct slot *slot = &client->slots[next];
        int result = take_answer(client, slot);
        error = error != 0 ? error : result;
        if (error == 0 && lab_cache_load_next(&client->load, &slot->request))
            post_call(client, slot);
        else
            under_way--;
    }
    return error;
}

/* ---- a measurement ------------------------------------------------------------------------------ */

static int connect_and_ask(struct client *client, struct tarn_fabric *fabric)
{
    const struct lab_cache_job *job = client->job;
    const bool many = job->per_get > 1;
    const struct tarn_rpc_connect_options options = {.way = client->way,
                                                     .calls = job->depth,
                                                     .request_bytes = many ? REQUEST_ROOM : 0,
                                                     .result_bytes = many ? RESULT_ROOM : 0};
    struct tarn_rpc_call_stats stats;
    int error = tarn_rpc_connect(fabric, job->server->server.address, &options, task_now() + PATIENCE_NS,
                                 &client->connection);
    if (error != 0)
        return error;
    error = ask_all(client);
    tarn_rpc_call_stats(client->connection, &stats);
    client->load.reads = stats.reads;
    if (error == 0 && (client->way == TARN_RPC_FETCH ? stats.replied : stats.fetched) > 0)
        error = -EPROTO; /* it is not what it says that was measured */
    tarn_rpc_disconnect(client->connection);
    return error;
}

static int run_client(void *arg, struct tarn_node *node, struct tarn_fabric *fabric)
{
    struct client *client = arg;
    const size_t bytes = client->job->depth * sizeof(*client->slots);
    client->slots = base_alloc(&node->memory, bytes);
    int error = client->slots == NULL ? -ENOMEM : connect_and_ask(client, fabric);
    base_free(&node->memory, client->slots, bytes);
    return error;
}

static int measure_calls(struct lab_cache_job *job, enum tarn_rpc_way way, struct bench_sample *sample)
{
    struct client client = {.job = job, .way = way};
    int error = lab_client_run(job->bench, job->server->server.url, run_client, &client);
    job->measured++;
    return error != 0 ? error : lab_cache_load_end(&client.load, sample);
}

int lab_cache_fetch(void *arg, struct bench_sample *sample)
{
    return measure_calls(arg, TARN_RPC_FETCH, sample);
}

int lab_cache_reply(void *arg, struct bench_sample *sample)
{
    return measure_calls(arg, TARN_RPC_REPLY, sample);
}
