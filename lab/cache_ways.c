/*
 * Tarn's ways to ask the cache. Tarn's client as its users have it: tasks that call <tarn/kv.h>. One plain thread that does
 * nothing besides, by calls: the requests of Tarn's client, with results that are fetched (the paper's Jakiro) or written
 * (its ServerReply). The same thread past the server, in Pilaf's way: a READ of the bucket and one of the record, which
 * proves itself whole; puts are calls.
 *
 * Source: Mitchell, Geng, Li, Using One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value Store, ATC 2013.
 */
#include "bench/world.h"
#include "cache/cache.h"
#include "kv/wire.h"
#include "lab/cache.h"
#include "lab/cache_remote.h"
#include <errno.h>
#include <tarn/kv.h>

enum {
    REQUEST_ROOM = KV_REQUEST_BYTES_MAX + LAB_CACHE_KEYS_MAX * (8 + BENCH_KEY_BYTES),
    RESULT_ROOM = LAB_CACHE_KEYS_MAX * (KV_ITEM_BYTES + LAB_CACHE_VALUE_BYTES),
    READ_ROOM = 256, /* for a bucket, or for a record of these keys and values */
};

#define PATIENCE_NS (10 * BASE_NS_PER_SECOND)

/* ---- Tarn's client ------------------------------------------------------------------------------- */

struct kv_client {
    struct lab_cache_job *job;
    struct lab_cache_load load;
    struct tarn_kv *kv;
    int error; /* the first of a task */
};

static int put_kv(struct kv_client *client, const struct lab_cache_request *request)
{
    int error = tarn_kv_put(client->kv, request->keys[0], sizeof(request->keys[0]), request->value,
                            sizeof(request->value), NULL, NULL);
    client->load.puts += error == 0 ? 1 : 0;
    return error;
}

static int take_kv(struct kv_client *client, uint32_t number, int error, const void *value, size_t bytes)
{
    if (error != 0 && error != -ENOENT)
        return error;
    return lab_cache_load_take(&client->load, number, error == 0 ? value : NULL, bytes);
}

static int get_kv(struct kv_client *client, const struct lab_cache_request *request)
{
    uint8_t value[LAB_CACHE_VALUE_BYTES];
    struct tarn_record_info info = {0};
    int error =
        tarn_kv_get(client->kv, request->keys[0], sizeof(request->keys[0]), value, sizeof(value), &info);
    return take_kv(client, request->numbers[0], error, value, info.value_bytes);
}

static int get_many(struct kv_client *client, const struct lab_cache_request *request)
{
    uint8_t values[LAB_CACHE_KEYS_MAX][LAB_CACHE_VALUE_BYTES];
    struct tarn_get gets[LAB_CACHE_KEYS_MAX];
    int error = 0;
    for (uint32_t i = 0; i < request->count; i++)
        gets[i] = (struct tarn_get){.key = request->keys[i],
                                    .key_len = sizeof(request->keys[i]),
                                    .value = values[i],
                                    .value_room = sizeof(values[i])};
    tarn_kv_get_many(client->kv, gets, request->count);
    for (uint32_t i = 0; i < request->count && error == 0; i++)
        error = take_kv(client, request->numbers[i], gets[i].error, values[i], gets[i].info.value_bytes);
    return error;
}

static void ask_store(void *arg)
{
    struct kv_client *client = arg;
    struct lab_cache_request request;
    while (client->error == 0 && lab_cache_load_next(&client->load, &request)) {
        int error = request.is_put       ? put_kv(client, &request)
                    : request.count == 1 ? get_kv(client, &request)
                                         : get_many(client, &request);
        if (client->error == 0)
            client->error = error;
    }
}

static void run_kv(void *arg)
{
    struct bench_world *world = arg;
    struct kv_client *client = world->arg;
    struct task_group group;
    char url[128];
    (void)snprintf(url, sizeof(url), "unix:%s/" LAB_CACHE_STORE, client->job->server->server.address);
    world->error = tarn_kv_open(world->node, url, NULL, &client->kv);
    if (world->error != 0)
        return;
    task_group_init(&group);
    lab_cache_load_begin(&client->load, client->job);
    for (uint32_t i = 0; i < client->job->depth && world->error == 0; i++)
        world->error = task_spawn(NULL, &group, "ask_store", ask_store, client);
    while (task_group_join(&group, TASK_FOREVER) != 0)
        continue;
    if (world->error == 0)
        world->error = client->error;
    (void)tarn_kv_close(client->kv);
}

int lab_cache_kv(void *arg, struct bench_sample *sample)
{
    struct kv_client client = {.job = arg};
    const struct bench_world_options options = {.sched = {.spin_ns = LAB_SERVER_SPIN_NS}};
    int error = bench_world_run(client.job->bench, &options, run_kv, &client);
    client.job->measured++;
    return error != 0 ? error : lab_cache_load_end(&client.load, sample);
}

/* ---- one thread ---------------------------------------------------------------------------------- */

/* A request under way, or none. */
struct slot {
    bool is_under_way;
    struct lab_cache_request request;
    struct tarn_rpc_call call;
    uint8_t bytes[REQUEST_ROOM];
    uint8_t result[RESULT_ROOM];
    struct lab_cache_get get; /* past the server */
    struct tarn_fabric_op op;
    struct iovec iov;
    _Alignas(8) uint8_t data[READ_ROOM];
};

struct client;

/* How requests are brought under way, and their answers taken. */
struct way {
    enum tarn_rpc_way results;
    bool is_bypass;

    /** Begin a request of a slot. @return 0; negative errno */
    int (*post)(struct client *client, struct slot *slot);

    /** Take what it waits for. @return 0: the request is over; -EINPROGRESS: it waits for more; negative errno */
    int (*take)(struct client *client, struct slot *slot);
};

struct client {
    struct lab_cache_job *job;
    const struct way *way;
    struct lab_cache_load load;
    struct tarn_node *node;
    struct tarn_rpc_connection *calls; /* past the server: for puts */
    struct tarn_fabric_connection *memory;
    struct tarn_fabric_handle handle;
    struct cache_header remote;
    struct slot *slots;
    uint32_t count; /* of slots */
};

/* ---- by calls ----------------------------------------------------------------------------------- */

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

static int post_call(struct client *client, struct slot *slot)
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
    tarn_rpc_post(client->calls, &slot->call, 1);
    return 0;
}

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
    int error = tarn_rpc_wait(client->calls, &slot->call, 1);
    if (slot->request.is_put)
        client->load.puts += error == 0 ? 1 : 0;
    else
        error = slot->request.count == 1 ? take_one(client, slot, error) : take_many(client, slot, error);
    return error;
}

/* ---- past the server ---------------------------------------------------------------------------- */

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
    return 0;
}

static void post_put(struct client *client, struct slot *slot)
{
    memcpy(slot->bytes, slot->request.keys[0], BENCH_KEY_BYTES);
    memcpy(slot->bytes + BENCH_KEY_BYTES, slot->request.value, LAB_CACHE_VALUE_BYTES);
    slot->call = (struct tarn_rpc_call){.request = slot->bytes, .request_bytes = LAB_CACHE_PUT_BYTES};
    tarn_rpc_post(client->calls, &slot->call, 1);
}

static int post_bypass(struct client *client, struct slot *slot)
{
    if (slot->request.is_put) {
        post_put(client, slot);
        return 0;
    }
    int error = lab_cache_get_begin(&slot->get, &client->remote, slot->request.keys[0], BENCH_KEY_BYTES);
    return error != 0 ? error : post_read(client, slot);
}

/* A get may want another READ. */
static int take_bypass(struct client *client, struct slot *slot)
{
    struct tarn_record_info info = {0};
    const void *value = NULL;
    if (slot->request.is_put) {
        int error = tarn_rpc_wait(client->calls, &slot->call, 1);
        client->load.puts += error == 0 ? 1 : 0;
        return error;
    }
    int error = tarn_fabric_wait(&slot->op, 1, TARN_FOREVER);
    if (error == 0)
        error = lab_cache_get_take(&slot->get, slot->data, task_wall(client->node), &value, &info);
    if (error == -EAGAIN || error == -EINPROGRESS) {
        error = post_read(client, slot);
        return error == 0 ? -EINPROGRESS : error;
    }
    return error != 0 && error != -ENOENT
               ? error
               : lab_cache_load_take(&client->load, slot->request.numbers[0], value, info.value_bytes);
}

/* The memory, and what its beginning tells. */
static int connect_memory(struct client *client, struct tarn_fabric_domain *domain)
{
    uint8_t header[CACHE_HEADER_BYTES];
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
    return error != 0 ? error : cache_header_unpack(header, client->handle.bytes, &client->remote);
}

/* ---- a measurement ------------------------------------------------------------------------------ */

/* Begin the next request, if there is one. */
static int begin_request(struct client *client, struct slot *slot)
{
    if (!lab_cache_load_next(&client->load, &slot->request))
        return 0;
    int error = client->way->post(client, slot);
    slot->is_under_way = error == 0;
    return error;
}

/* The oldest is waited for before the next one is posted in its place, until none is under way. */
static int ask_all(struct client *client)
{
    const uint32_t count = client->count;
    int error = 0;
    lab_cache_load_begin(&client->load, client->job);
    if (client->way->is_bypass)
        client->load.per_get = 1; /* each is alone, and more are under way */
    for (uint32_t i = 0; i < count && error == 0; i++)
        error = begin_request(client, &client->slots[i]);
    for (uint32_t next = 0, idle = 0; idle < count; next = (next + 1) % count) {
        struct slot *slot = &client->slots[next];
        idle = slot->is_under_way ? 0 : idle + 1;
        if (!slot->is_under_way)
            continue;
        int result = client->way->take(client, slot);
        if (result == -EINPROGRESS)
            continue;
        slot->is_under_way = false;
        error = error != 0 ? error : result;
        if (error == 0)
            error = begin_request(client, slot);
    }
    return error;
}

/* By calls alone it has to be the way that was asked for. */
static int check_calls(struct client *client)
{
    struct tarn_rpc_call_stats stats;
    if (client->way->is_bypass)
        return 0;
    tarn_rpc_call_stats(client->calls, &stats);
    client->load.reads = stats.reads;
    return (client->way->results == TARN_RPC_FETCH ? stats.replied : stats.fetched) > 0 ? -EPROTO : 0;
}

static int connect_and_ask(struct client *client, struct tarn_fabric *fabric)
{
    const bool many = client->job->per_get > 1 && !client->way->is_bypass;
    const struct tarn_rpc_connect_options options = {
        .way = client->way->results,
        .calls = client->way->is_bypass ? (uint32_t)LAB_CACHE_REQUESTS_MAX : client->count,
        .request_bytes = many ? REQUEST_ROOM : 0,
        .result_bytes = many ? RESULT_ROOM : 0};
    char address[128];
    (void)snprintf(address, sizeof(address), "%s%s", client->job->server->server.address,
                   client->way->is_bypass ? LAB_CACHE_PUTS : "");
    int error = tarn_rpc_connect(fabric, address, &options, task_now() + PATIENCE_NS, &client->calls);
    if (error != 0)
        return error;
    error = ask_all(client);
    int checked = check_calls(client);
    tarn_rpc_disconnect(client->calls);
    return error != 0 ? error : checked;
}

/* Past the server there is a connection to its memory besides. */
static int connect_both(struct client *client, struct tarn_fabric *fabric)
{
    struct tarn_fabric_domain *domain;
    int error = tarn_fabric_domain_open(fabric, NULL, &domain);
    if (error != 0)
        return error;
    error = connect_memory(client, domain);
    if (error == 0)
        error = connect_and_ask(client, fabric);
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
    if (client->slots == NULL)
        return -ENOMEM;
    int error = client->way->is_bypass ? connect_both(client, fabric) : connect_and_ask(client, fabric);
    base_free(&node->memory, client->slots, bytes);
    return error;
}

static int measure_way(struct lab_cache_job *job, const struct way *way, struct bench_sample *sample)
{
    struct client client = {
        .job = job, .way = way, .count = job->depth * (way->is_bypass ? job->per_get : 1)};
    int error = lab_client_run(&job->server->server, run_client, &client);
    job->measured++;
    return error != 0 ? error : lab_cache_load_end(&client.load, sample);
}

int lab_cache_fetch(void *arg, struct bench_sample *sample)
{
    static const struct way fetch = {.results = TARN_RPC_FETCH, .post = post_call, .take = take_answer};
    return measure_way(arg, &fetch, sample);
}

int lab_cache_reply(void *arg, struct bench_sample *sample)
{
    static const struct way reply = {.results = TARN_RPC_REPLY, .post = post_call, .take = take_answer};
    return measure_way(arg, &reply, sample);
}

int lab_cache_bypass(void *arg, struct bench_sample *sample)
{
    static const struct way bypass = {.is_bypass = true, .post = post_bypass, .take = take_bypass};
    return measure_way(arg, &bypass, sample);
}
